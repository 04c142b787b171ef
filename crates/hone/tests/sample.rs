//! `hone profile sample`: what a DaemonSet runs on every node, here by processes, with an S3 server on loopback, and a service that gives the
//! profile of a real Go program.

#![expect(clippy::disallowed_methods, reason = "tests start the program as its users do")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../hone-store/tests/server/mod.rs"]
mod server;
mod stage;
use stage::{Ran, hone_command};

/// Of a Go program, with the build-id that its file has.
const PROFILE: &[u8] = include_bytes!("continuous/burn.pprof");
const BUILD_ID: &str = "d242e3dd42ba7f7125b35d21f694a80050550229";
const SAMPLES: u64 = 140;

/// A service that gives its profile, but for its first answers, which are errors. Counted are its answers.
fn service(errors: u32) -> (u16, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answered = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&answered);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut question = [0; 4096];
            let read = stream.read(&mut question).unwrap();
            let asked = String::from_utf8_lossy(&question[..read]).into_owned();
            assert!(asked.starts_with("GET /debug/pprof/profile?seconds=1 HTTP/1.1"), "{asked}");
            let (status, body) = match counted.fetch_add(1, Ordering::SeqCst) {
                at if at < errors => ("500 Internal Server Error", &b"profiling is in use"[..]),
                _ => ("200 OK", PROFILE),
            };
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body].concat());
        }
    });
    (port, answered)
}

struct Bucket {
    folder: tempfile::TempDir,
    settings: Vec<(String, String)>,
}

const PLACE: &str = "s3://fleet/profiles";

impl Bucket {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("scratch")).unwrap();
        let settings = server::bucket(folder.path(), "fleet");
        Self { folder, settings }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = hone_command();
        command.current_dir(self.folder.path()).envs(self.settings.iter().cloned());
        command.env("TMPDIR", self.scratch()).args(args);
        command
    }

    fn scratch(&self) -> std::path::PathBuf {
        self.folder.path().join("scratch")
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Hosts that have pushed.
    fn hosts(&self) -> u64 {
        let listed = self.run(&["profile", "list", PLACE, "--json"]).expect_code(0).json();
        listed["body"][0]["hosts"].as_u64().unwrap_or(0)
    }

    fn merged(&self) -> serde_json::Value {
        let args =
            ["profile", "merge", "--store", PLACE, "--build-id", "d242e3dd", "-o", "all.pprof", "--json"];
        self.run(&args).expect_code(0).json()["body"].clone()
    }
}

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what} did not come");
        thread::sleep(Duration::from_millis(50));
    }
}

fn stopped(child: Child) -> Ran {
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn one_window_is_pushed_with_its_build_and_host() {
    let bucket = Bucket::new();
    let (port, _) = service(0);
    let url = format!("http://127.0.0.1:{port}");
    let sample = |host: &str| {
        let args = [
            "profile",
            "sample",
            &url,
            "--store",
            PLACE,
            "--duration",
            "1",
            "--once",
            "--host",
            host,
            "--json",
        ];
        bucket.run(&args).expect_code(0).json()["body"][0].clone()
    };
    let pushed = sample("node-1");
    assert_eq!(pushed["build_id"], BUILD_ID);
    assert_eq!(pushed["was_there"], false);
    sample("node-2");
    let merged = bucket.merged();
    assert_eq!(merged["inputs"].as_array().unwrap().len(), 2);
    let shown = bucket.run(&["profile", "show", "all.pprof"]).expect_code(0).stdout;
    for host in ["node-1", "node-2"] {
        assert!(shown.contains(&format!("1 s of its CPU under the production load of {host}")), "{shown}");
    }
    assert!(merged["profile"]["total_count"].as_u64().unwrap().is_multiple_of(2 * SAMPLES), "{merged}");

    let (broken, _) = service(u32::MAX);
    let url = format!("http://127.0.0.1:{broken}");
    let args = ["profile", "sample", &url, "--store", PLACE, "--duration", "1", "--once"];
    bucket.run(&args).expect_code(1).expect_error("answered 500: profiling is in use");
    let other = format!("http://127.0.0.1:{port}");
    let args =
        ["profile", "sample", &other, "--store", PLACE, "--duration", "1", "--once", "--build-id", "dead00"];
    bucket.run(&args).expect_code(1).expect_error("not to dead00");
}

#[test]
fn a_window_that_fails_is_told_and_the_next_one_is_taken() {
    let bucket = Bucket::new();
    let (port, answered) = service(2);
    let url = format!("http://127.0.0.1:{port}");
    let sampler = bucket.start(&[
        "profile",
        "sample",
        &url,
        "--store",
        PLACE,
        "--duration",
        "1",
        "--every",
        "1s",
        "--host",
        "node-1",
    ]);
    until("a fourth window", || answered.load(Ordering::SeqCst) > 3);
    until("a profile", || bucket.hosts() == 1);
    let ran = stopped(sampler).expect_code(0);
    assert_eq!(ran.stderr.matches("no profile this time: ").count(), 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("_node-1_") && ran.stderr.contains(" pushed as node-1"), "{}", ran.stderr);
    assert_eq!(std::fs::read_dir(bucket.scratch()).unwrap().count(), 0, "nothing is left behind");
}

/// The arguments of the manifest's container, as its kubelet would fill them in.
fn arguments_of(manifest: &str, node: &str) -> Vec<String> {
    let args = manifest.lines().skip_while(|line| line.trim() != "args:").skip(1);
    let args = args.map_while(|line| line.strip_prefix("            - "));
    args.map(|text| serde_json::from_str::<String>(text).unwrap())
        .map(|text| text.replace("$(NODE_IP)", "127.0.0.1").replace("$(NODE_NAME)", node))
        .collect()
}

#[test]
fn what_the_manifest_runs_on_three_nodes_meets_in_the_bucket() {
    let bucket = Bucket::new();
    let (port, _) = service(0);
    let url = format!("http://NODE_IP:{port}");
    let args = ["profile", "sample", &url, "--store", PLACE, "--duration", "1", "--every", "1s"];
    let emit = ["--emit", "kubernetes", "--image", "registry.example/hone:0.1"];
    let manifest = bucket.run(&[&args[..], &emit].concat()).expect_code(0).stdout;
    let nodes: Vec<Child> = ["node-a", "node-b", "node-c"]
        .iter()
        .map(|node| {
            let arguments = arguments_of(&manifest, node);
            assert!(arguments.contains(&format!("http://127.0.0.1:{port}")), "{arguments:?}");
            bucket.start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
        })
        .collect();
    until("profiles of three nodes", || bucket.hosts() == 3);
    nodes.into_iter().for_each(|node| drop(stopped(node).expect_code(0)));
    assert_eq!(bucket.merged()["inputs"].as_array().unwrap().len(), 3);
}

fn checker() -> Option<std::path::PathBuf> {
    let python = std::env::var_os("HONE_PYTHON").map(std::path::PathBuf::from);
    let found = python.as_deref().and_then(Path::parent).map(|bin| bin.join("kubernetes-validate"));
    let found = found.filter(|checker| checker.exists());
    assert!(
        found.is_some() || std::env::var_os("HONE_REQUIRE_TOOLS").is_none(),
        "kubernetes-validate is missing: script/bootstrap --test"
    );
    found
}

/// Both manifests are valid by Kubernetes' own schema, strictly: an unknown field is an error.
#[test]
fn the_manifests_are_what_kubernetes_takes() {
    let bucket = Bucket::new();
    let emit = |url: &str, to: &str| {
        let args = [
            "profile",
            "sample",
            url,
            "--store",
            to,
            "--emit",
            "kubernetes",
            "--image",
            "registry.example/hone:0.1",
        ];
        bucket.run(&args)
    };
    for (url, words) in
        [("http://10.0.0.7:6060", "the same for all nodes"), ("node", "is not usable in a DaemonSet")]
    {
        emit(url, PLACE).expect_code(2).expect_error(words);
    }
    for args in [&["--once"][..], &[], &["--emit", "kubernetes", "--image", "i"]] {
        let url = "http://ada:secret@127.0.0.1:6060";
        let refused = bucket.run(&[&["profile", "sample", url, "--store", PLACE][..], args].concat());
        let refused = refused.expect_code(2).expect_error("it has a user name or a password");
        assert!(!refused.stderr.contains("secret"), "{}", refused.stderr);
    }
    let in_small = emit("http://node_ip:6060", PLACE).expect_code(0).stdout;
    assert!(in_small.contains("\"http://$(NODE_IP):6060\""), "{in_small}");
    emit("http://NODE_IP:6060", "/tmp/x").expect_code(2).expect_error("pods do not share a folder");
    let refused = emit("http://NODE_IP:6060", "s3://key:hidden@fleet/x").expect_code(1);
    let refused = refused.expect_error("not from an address");
    assert!(!refused.stderr.contains("hidden") && refused.stdout.is_empty(), "{}", refused.stderr);
    let of_port = emit("http://NODE_IP:6060", PLACE).expect_code(0).stdout;
    let of_loopback = emit("http://127.0.0.1:6060", PLACE).expect_code(0).stdout;
    assert!(!of_port.contains("hostNetwork") && of_port.contains("\"http://$(NODE_IP):6060\""), "{of_port}");
    assert!(of_loopback.contains("hostNetwork: true"), "{of_loopback}");
    let Some(checker) = checker() else { return };
    let valid = |text: &str| {
        let file = bucket.folder.path().join("sample.yaml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(&checker).args(["--strict", "--quiet"]).arg(&file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for manifest in [&of_port, &of_loopback] {
        let (ok, said) = valid(manifest);
        assert!(ok, "{said}\n{manifest}");
    }
    // The checker can fail: a misspelt field is found.
    assert!(!valid(&of_port.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem")).0);
}
