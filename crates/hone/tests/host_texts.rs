//! `hone host lint`, `export` and saved plans from the command line.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

mod host_cli;
mod tree;
use host_cli::{command, hone, said};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/hosts").canonicalize().unwrap()
}

fn host(name: &str) -> tempfile::TempDir {
    tree::planted(&fs::read_to_string(fixtures().join(format!("{name}.tree"))).unwrap())
}

const DATA: [&str; 2] = ["--data", "/var/lib/redpanda/data"];

fn guide(name: &str) -> String {
    fixtures().join("guide").join(name).display().to_string()
}

#[test]
fn a_guide_that_leaves_something_behind_ends_with_1() {
    let root = host("ubuntu-nvme");
    let (tune, back) = (guide("tune.sh"), guide("rollback.sh"));
    let output = hone(root.path(), &[&["lint", &tune, &back][..], &DATA].concat());
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    let text = said(&output);
    assert!(text.contains("After the files' own rollback, 5 of 9 settings differ from before"), "{text}");
    assert!(text.contains("At the next boot 4 return"), "{text}");
    let json = hone(root.path(), &[&["lint", &tune, &back, "--json"][..], &DATA].concat());
    let record: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(record["kind"], "host-lint");
    assert_eq!(record["body"]["wrong_after_rollback"].as_array().unwrap().len(), 5);
    assert_eq!(record["body"]["settings"][0]["findings"][0]["defect"], "not-restored");
    // What is right already, and stays so.
    let good = root.path().join("50-good.conf");
    fs::write(&good, "vm.max_map_count = 1048576\n").unwrap();
    let clean = hone(root.path(), &["lint", good.to_str().unwrap()]);
    assert_eq!(clean.status.code(), Some(0), "{}", said(&clean));
    let missing = hone(root.path(), &["lint", "/no/such/guide.md"]);
    assert!(said(&missing).contains("cannot read /no/such/guide.md"), "{}", said(&missing));
}

#[test]
fn a_saved_plan_is_made_on_the_host_that_it_was_made_for() {
    let root = host("md-nvme");
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.json").display().to_string();
    let save = ["plan", "latency", "--data", "/var/lib/kafka", "--save", &plan];
    assert!(hone(root.path(), &save).status.success());
    let stranger = root.path().join("proc/sys/vm/dirty_ratio");
    fs::write(&stranger, "30\n").unwrap();
    let refused = hone(root.path(), &["apply", &plan]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(said(&refused).contains("/proc/sys/vm/dirty_ratio was 20, now 30"), "{}", said(&refused));
    assert!(!root.path().join("var/lib/hone").exists(), "nothing was written");
    fs::write(&stranger, "20\n").unwrap();
    let made = hone(root.path(), &["apply", &plan]);
    assert!(made.status.success(), "{}", said(&made));
    assert_eq!(fs::read_to_string(&stranger).unwrap(), "10");
    let twice = hone(root.path(), &["apply", &plan, "--data", "/var/lib/kafka"]);
    assert_eq!(twice.status.code(), Some(2), "{}", said(&twice));
}

/// What promtool says of a page.
#[expect(clippy::disallowed_methods, reason = "the judge of the format")]
fn checked(page: &str) {
    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var("HONE_REQUIRE_TOOLS").as_deref() != Ok("1"), "promtool: {error}");
            return;
        }
    };
    child.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && said(&output).trim().is_empty(), "{}", said(&output));
}

#[test]
fn counters_are_what_prometheus_reads() {
    let root = host("zram");
    let page = said(&hone(root.path(), &["export", "--data", "/var/lib/kafka"]));
    checked(&page);
    assert!(page.contains("hone_host_memory_events_total{event=\"pswpout\"} 66022\n"), "{page}");
    assert!(
        page.contains("hone_host_knob_info{knob=\"queue.scheduler\",device=\"nvme0n1\",value=\"none\"} 1\n")
    );
    assert!(!page.contains("pressure"), "a recorded host without it has no sample");
    // The running machine.
    let here = said(&hone(Path::new("/"), &["export"]));
    checked(&here);
    assert!(here.contains("hone_host_memory_events_total"), "{here}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hone.prom");
    let output = hone(root.path(), &["export", "--textfile", file.to_str().unwrap()]);
    assert!(output.status.success() && output.stdout.is_empty(), "{}", said(&output));
    checked(&fs::read_to_string(&file).unwrap());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "whole, and nothing beside it");
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn asked(address: &str, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    Some(text)
}

#[test]
fn it_serves_until_it_is_interrupted() {
    let root = host("ubuntu-nvme");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut server = command(root.path(), &["export", "--listen", &address]);
    let mut server = Server(server.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let until = Instant::now() + Duration::from_secs(30);
    let answer = loop {
        if let Some(answer) = asked(&address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") {
            break answer;
        }
        assert!(Instant::now() < until, "nobody answers");
        std::thread::sleep(Duration::from_millis(50));
    };
    let (head, page) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("version=0.0.4"), "{head}");
    checked(page);
    assert!(asked(&address, "GET /etc/passwd HTTP/1.1\r\n\r\n").unwrap().starts_with("HTTP/1.1 404"));
    // SAFETY: a signal to a process of our own that has not been waited for.
    unsafe { libc::kill(i32::try_from(server.0.id()).unwrap(), libc::SIGINT) };
    let until = Instant::now() + Duration::from_secs(30);
    while server.0.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(50));
    }
}
