//! `hone host rollout` on one embedded broker, with a stand-in for ssh that starts what it is told on this machine: each host is a
//! root of plain files. What three real hosts and a real cluster do is in `rollout_cluster.rs`.

#![expect(clippy::disallowed_methods, reason = "tests start the program as its users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

mod host_cli;
mod stage;
use host_cli::{armed, journal, let_its_time_come, waits_for};
use stage::tools::{find, of_checkout, skip};
use stage::{Broker, Ran, hone_command, script};

/// Takes options and the host away, and gives the rest to a shell, as sshd does. A host that is deaf does what it is told to confirm, and
/// its line is gone before anybody hears of it.
const SSH: &str = r#"
while [ "$1" != -- ]; do shift; done
shift
host=$1
[ ! -e "$(dirname "$0")/$host.unreachable" ] || { echo "ssh: connect to host $host: No route to host" >&2; exit 255; }
case "$2" in *'host confirm'*)
  if [ -e "$(dirname "$0")/$host.deaf" ]; then sh -c "$2" >/dev/null; touch "$(dirname "$0")/$host.unreachable"; exit 255; fi ;;
esac
exec sh -c "$2""#;

const PROFILE: &str = r#"
about = "for the test"
[[knobs]]
name = "vm.dirty_ratio"
value = "11"
reason = "it's a \"test\""
source = "none"
[[knobs]]
name = "vm.swappiness"
value = "1"
reason = "r"
source = "s"
"#;

const SWAPPINESS: &str = "proc/sys/vm/swappiness";
const DIRTY: &str = "proc/sys/vm/dirty_ratio";

/// A broker, a stand-in for ssh, hosts.
struct Scene {
    broker: Broker,
    folder: tempfile::TempDir,
}

impl Scene {
    fn new(hosts: &[&str]) -> Self {
        let scene = Self { broker: Broker::start(), folder: tempfile::tempdir().unwrap() };
        script(scene.path(), "ssh", SSH);
        fs::write(scene.path().join("mine.toml"), PROFILE).unwrap();
        let mut inventory = String::new();
        for host in hosts {
            scene.make_root(host);
            let root = scene.path().join(host);
            inventory +=
                &format!("[[hosts]]\nname = \"{host}\"\nbroker = 1\nroot = \"{}\"\n", root.display());
        }
        fs::write(scene.path().join("hosts.toml"), inventory).unwrap();
        scene
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn make_root(&self, host: &str) {
        for (path, text) in [
            ("proc/sys/kernel/random/boot_id", "first-boot\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/self/mountinfo", "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"),
            ("proc/meminfo", "SwapTotal:             1024 kB\n"),
            (SWAPPINESS, "60\n"),
            (DIRTY, "20\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
        ] {
            let path = self.path().join(host).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = hone_command();
        command
            .args(["host", "rollout"])
            .args(arguments)
            .env("HONE_SSH", self.path().join("ssh"))
            .current_dir(self.path())
            .stdin(Stdio::null());
        command
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// The options of a short roll-out, and more.
    fn with<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let own = [
            "hosts.toml",
            "--profile",
            "mine.toml",
            "--bootstrap",
            &self.broker.address,
            "--baseline-duration",
            "3s",
            "--poll-interval",
            "200ms",
            "--health-timeout",
            "60s",
            "--lease",
            "60s",
            "--remote-hone",
            env!("CARGO_BIN_EXE_hone"),
        ];
        [&own[..], more].concat()
    }

    fn value(&self, host: &str, path: &str) -> String {
        fs::read_to_string(self.path().join(host).join(path)).unwrap().trim().to_owned()
    }

    fn values(&self, host: &str) -> [String; 2] {
        [DIRTY, SWAPPINESS].map(|path| self.value(host, path))
    }

    /// The journal of a host's first change.
    fn change_of(&self, host: &str) -> PathBuf {
        journal(&self.path().join(host), "00001")
    }

    /// Topics of the canary that are left.
    fn canaries(&self) -> Vec<String> {
        let mut admin = hone_load::Admin::connect(&self.broker.address).unwrap();
        let topics = admin.topics().unwrap().into_iter().map(|listed| listed.topic);
        topics.filter(|topic| topic.starts_with("hone-canary")).collect()
    }

    fn journal(&self) -> String {
        fs::read_to_string(self.path().join("runs/rollout-001/rollout.journal")).unwrap_or_default()
    }
}

/// On noisy machines nothing but a stall of a large factor shall count as harm.
const TOLERANT: [&str; 2] = ["--tolerance", "8"];

/// What the change does to the broker: while a value is in force, it stands still for longer than a record of the canary may take,
/// again and again. That is harm on any machine, however noisy.
struct Curse(Arc<AtomicBool>, Option<std::thread::JoinHandle<()>>);

impl Curse {
    fn on(broker: u32, file: PathBuf, value: &'static str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ends);
        let pulses = move || {
            let signal = |signal: i32| {
                // SAFETY: the broker lives as long as the scene, which ends after this thread.
                unsafe { libc::kill(broker as i32, signal) };
            };
            while !seen.load(Ordering::Relaxed) {
                if fs::read_to_string(&file).is_ok_and(|text| text.trim() == value) {
                    signal(libc::SIGSTOP);
                    std::thread::sleep(hone_load::canary::LIMIT + Duration::from_millis(300));
                    signal(libc::SIGCONT);
                    std::thread::sleep(Duration::from_millis(100));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        Self(ends, Some(std::thread::spawn(pulses)))
    }
}

impl Drop for Curse {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let _ = self.1.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn planned_brought_kept_told_and_taken_back() {
    let scene = Scene::new(&["k1"]);
    let dry = scene.run(&scene.with(&["--dry-run", "--soak", "3s"])).expect_code(0);
    assert!(dry.stdout.contains("  1. k1, broker 1\n       ~ vm.dirty_ratio: 20 -> 11"), "{}", dry.stdout);
    assert!(dry.stdout.contains("Nothing was changed. The roll-out would take about"), "{}", dry.stdout);
    assert_eq!(scene.values("k1"), ["20", "60"]);

    let done =
        scene.run(&[&scene.with(&["--soak", "3s", "--json"])[..], &TOLERANT].concat()).expect_code(0).json();
    assert_eq!(done["kind"], "host-rollout");
    let host = &done["body"]["hosts"][0];
    assert_eq!(host["fate"]["is"], "confirmed", "{host}");
    let findings = host["findings"].to_string();
    // A busy machine has time for too few rounds in so short a soak, and says so.
    let is_judged = findings.contains("the changed broker 1 relative to itself before");
    assert!(findings.contains("passed 3 consecutive health checks") && is_judged, "{findings}");
    assert_eq!(scene.values("k1"), ["11", "1"]);
    assert!(scene.path().join("k1/etc/sysctl.d/99-zz-hone.conf").exists());
    assert_eq!(scene.canaries(), Vec::<String>::new());

    let told = scene.run(&["--inspect", "runs/rollout-001"]).expect_code(0);
    assert!(told.stdout.contains("k1, broker 1: keeps its change 00001"), "{}", told.stdout);
    scene.run(&["--resume", "runs/rollout-001"]).expect_code(2).expect_error("is finished");
    // Once more: nothing is left to change, and nothing is waited for.
    let again = scene.run(&scene.with(&["--soak", "10m"])).expect_code(0);
    assert!(again.stdout.contains("k1, broker 1: no change needed"), "{}", again.stdout);
    // One that can't be reached is not forgotten: whoever asks once more takes it back.
    fs::write(scene.path().join("k1.unreachable"), "").unwrap();
    let undone = scene.run(&["--rollback", "runs/rollout-001"]).expect_code(1);
    assert!(undone.stdout.contains("! k1: "), "{}", undone.stdout);
    fs::remove_file(scene.path().join("k1.unreachable")).unwrap();
    assert_eq!(scene.values("k1"), ["11", "1"]);
    let undone = scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0);
    assert!(undone.stdout.contains("= k1: all values are restored"), "{}", undone.stdout);
    assert_eq!(scene.values("k1"), ["20", "60"]);
    assert!(!scene.path().join("k1/etc/sysctl.d/99-zz-hone.conf").exists());
    assert!(
        scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0).stdout.contains("nothing to roll back")
    );
}

#[test]
fn harm_is_halted_and_taken_back() {
    let scene = Scene::new(&["k1"]);
    let file = scene.path().join("k1").join(SWAPPINESS);
    let curse = Curse::on(scene.broker.child.id(), file, "1");
    // A busy machine has time for few rounds; it ends as soon as they are enough.
    let mut arguments = [&scene.with(&["--soak", "60s"])[..], &TOLERANT].concat();
    *arguments.iter_mut().find(|word| **word == "3s").unwrap() = "10s";
    let ran = scene.run(&arguments).expect_code(3);
    drop(curse);
    assert!(ran.stdout.contains("Halted: k1: worse"), "{}", ran.stdout);
    assert!(ran.stdout.contains("0 hosts keep their change"), "{}", ran.stdout);
    assert!(ran.stdout.contains("hone host rollout --rollback"), "{}", ran.stdout);
    assert_eq!(scene.values("k1"), ["20", "60"]);
    assert!(scene.journal().contains("\"halted\""));
    assert_eq!(scene.canaries(), Vec::<String>::new());
    // The reason is gone: it goes on from where it was.
    set_soak(&scene, "3");
    let resumed = scene.run(&["--resume", "runs/rollout-001"]).expect_code(0);
    assert!(resumed.stdout.contains("k1, broker 1: keeps its change 00002"), "{}", resumed.stdout);
    assert_eq!(scene.values("k1"), ["11", "1"]);
}

/// A roll-out goes on as it began; nobody waits that long here.
fn set_soak(scene: &Scene, seconds: &str) {
    let path = scene.path().join("runs/rollout-001/rollout.journal");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"soak_s\":60", &format!("\"soak_s\":{seconds}"))).unwrap();
}

/// Starts a long soak and waits until the host is changed.
fn in_its_soak(scene: &Scene) -> Child {
    let mut command = scene.command(&[&scene.with(&["--soak", "10m"])[..], &TOLERANT].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    waits_for("the change", || scene.journal().contains("\"applied\""));
    assert_eq!(scene.values("k1"), ["11", "1"]);
    child
}

#[test]
fn a_dead_controller_means_that_the_host_goes_back_by_itself() {
    let scene = Scene::new(&["k1"]);
    let mut child = in_its_soak(&scene);
    let change = scene.change_of("k1");
    let (guard, deadline_s) = armed(&change).unwrap();
    waits_for("a renewal", || armed(&change).unwrap() > (guard, deadline_s));
    assert_eq!(scene.values("k1"), ["11", "1"]);
    child.kill().unwrap();
    child.wait().unwrap();
    let_its_time_come(&change);
    waits_for("the way back", || scene.values("k1") == ["20", "60"]);
    let told = scene.run(&["--inspect", "runs/rollout-001"]).expect_code(0);
    assert!(told.stdout.contains("k1, broker 1: open 00001"), "{}", told.stdout);
    assert_eq!(scene.canaries().len(), 1);
    let undone = scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0);
    assert_eq!(scene.canaries(), Vec::<String>::new());
    assert!(undone.stdout.contains("k1: there was nothing to roll back"), "{}", undone.stdout);
}

#[test]
fn an_interrupt_takes_the_open_host_back() {
    let scene = Scene::new(&["k1"]);
    let child = in_its_soak(&scene);
    // SAFETY: the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let ran = Ran::of(child.wait_with_output().unwrap()).expect_code(1);
    assert!(ran.stdout.contains("Halted: k1: interrupted"), "{}", ran.stdout);
    assert_eq!(scene.values("k1"), ["20", "60"]);
}

/// The line is gone while the host is changed: nobody can tell it, and it goes back by itself.
#[test]
fn a_host_that_is_cut_off_goes_back_by_itself() {
    let scene = Scene::new(&["k1"]);
    let child = in_its_soak(&scene);
    fs::write(scene.path().join("k1.unreachable"), "").unwrap();
    let_its_time_come(&scene.change_of("k1"));
    waits_for("the way back", || scene.values("k1") == ["20", "60"]);
    // SAFETY: the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let ran = Ran::of(child.wait_with_output().unwrap()).expect_code(1);
    assert!(ran.stderr.contains("its own watchdog does so within 60 s"), "{}", ran.stderr);
    assert!(ran.stdout.contains("k1, broker 1: unknown"), "{}", ran.stdout);
    fs::remove_file(scene.path().join("k1.unreachable")).unwrap();
    scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0);
}

/// The confirmation took effect and its answer is lost: nobody may promise that the guard takes it back.
#[test]
fn a_lost_answer_to_a_confirmation_promises_nothing() {
    let scene = Scene::new(&["k1"]);
    fs::write(scene.path().join("k1.deaf"), "").unwrap();
    let ran = scene.run(&[&scene.with(&["--soak", "2s"])[..], &TOLERANT].concat()).expect_code(1);
    assert_eq!(scene.values("k1"), ["11", "1"]);
    assert!(!ran.stderr.contains("its own watchdog does so"), "{}", ran.stderr);
    assert!(ran.stderr.contains("it may have confirmed its change"), "{}", ran.stderr);
    assert!(ran.stderr.contains("--rollback"), "{}", ran.stderr);
    fs::remove_file(scene.path().join("k1.deaf")).unwrap();
    fs::remove_file(scene.path().join("k1.unreachable")).unwrap();
    scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0);
    assert_eq!(scene.values("k1"), ["20", "60"]);
}

/// Ctrl-C is no measurement, whenever it comes: here at the gate behind the soak, which takes 30 looks.
#[test]
fn an_interrupt_at_the_gate_behind_the_soak_is_not_worse() {
    let scene = Scene::new(&["k1"]);
    let mut command =
        scene.command(&[&scene.with(&["--soak", "2s", "--healthy-checks", "30"])[..], &TOLERANT].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    waits_for("the change", || scene.journal().contains("\"applied\""));
    // The soak and its second of settling are over by then, and the looks, 200 ms apart, are not. Earlier it ends alike.
    std::thread::sleep(Duration::from_secs(6));
    // SAFETY: the child has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let ran = Ran::of(child.wait_with_output().unwrap()).expect_code(1);
    assert!(ran.stdout.contains("Halted: k1: interrupted"), "{}", ran.stdout);
    assert_eq!(scene.values("k1"), ["20", "60"]);
}

#[test]
fn a_host_that_is_not_well_is_not_touched() {
    let scene = Scene::new(&["k1"]);
    fs::write(scene.path().join("k1.unreachable"), "").unwrap();
    let ran = scene.run(&scene.with(&["--soak", "2s"])).expect_code(1);
    assert!(ran.stdout.contains("k1 was not changed"), "{}", ran.stdout);
    fs::remove_file(scene.path().join("k1.unreachable")).unwrap();
    // A stranger's program in its place.
    let other = script(scene.path(), "other", "echo hone 0.0.1");
    let other = other.to_str().unwrap();
    let mut arguments = scene.with(&["--soak", "2s"]);
    *arguments.iter_mut().find(|word| **word == env!("CARGO_BIN_EXE_hone")).unwrap() = other;
    let ran = scene.run(&arguments).expect_code(1);
    assert!(ran.stdout.contains("is not hone"), "{}", ran.stdout);
    // Nobody is at the cluster.
    let ran = scene.run(&[
        "hosts.toml",
        "--profile",
        "mine.toml",
        "--bootstrap",
        "127.0.0.1:1",
        "--remote-hone",
        env!("CARGO_BIN_EXE_hone"),
    ]);
    assert_ne!(ran.code, 0);
    assert!(ran.stderr.contains("127.0.0.1:1"), "{}", ran.stderr);
    assert_eq!(scene.values("k1"), ["20", "60"]);
}

#[test]
fn a_host_that_has_changed_since_its_plan_is_refused() {
    let scene = Scene::new(&["k1"]);
    let root = scene.path().join("k1");
    let host = |arguments: &[&str]| {
        let mut command = hone_command();
        Ran::of(
            command
                .arg("host")
                .args(arguments)
                .arg("--root")
                .arg(&root)
                .current_dir(scene.path())
                .output()
                .unwrap(),
        )
    };
    let plan = host(&["plan", "mine.toml", "--json"]).expect_code(0).json();
    let fingerprint = plan["body"]["fingerprint"].as_str().unwrap().to_owned();
    fs::write(root.join(DIRTY), "33\n").unwrap();
    host(&["apply", "mine.toml", "--if-plan", &fingerprint])
        .expect_code(1)
        .expect_error("this host has changed since the plan");
    fs::write(root.join(DIRTY), "20\n").unwrap();
    host(&["apply", "mine.toml", "--if-plan", &fingerprint, "--confirm-within", "5m"]).expect_code(0);
    // A guard that is renewed has more time, never less.
    let renewed = host(&["renew", "10m", "--json"]).expect_code(0).json();
    assert_eq!(renewed["body"]["seconds_left"], 600);
    assert!(
        host(&["renew", "10s", "--json"]).expect_code(0).json()["body"]["seconds_left"].as_u64().unwrap()
            > 500
    );
    host(&["rollback"]).expect_code(0);
    host(&["renew", "10s"]).expect_code(1).expect_error("this host has no change to renew");
}

#[test]
fn the_gates_alone_before_and_after() {
    let scene = Scene::new(&["k1"]);
    let gate = |more: &[&str]| {
        let own = ["--gate-only", "--bootstrap", &scene.broker.address, "--poll-interval", "200ms"];
        scene.run(&[&own[..], more].concat())
    };
    let before = gate(&["--baseline-duration", "4s", "--save-baseline", "before.json"]).expect_code(0);
    assert!(
        before.stdout.contains("broker 1 at 127.0.0.1:") && before.stdout.contains("The gate is open"),
        "{}",
        before.stdout
    );
    // What stood there before is known, however few rounds a busy machine has had time for.
    let path = scene.path().join("before.json");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let sample = serde_json::json!({ "1": { "ack_us": 1_000, "read_us": 2_000, "failed": false } });
    let rounds: Vec<Value> =
        (0..400).map(|at| serde_json::json!([f64::from(at) / 20.0, sample.clone()])).collect();
    kept["stretch"]["rounds"] = rounds.into();
    kept["stretch"]["length_s"] = 20.0.into();
    fs::write(&path, kept.to_string()).unwrap();
    let file = scene.path().join("cursed");
    fs::write(&file, "1").unwrap();
    let curse = Curse::on(scene.broker.child.id(), file, "1");
    let after = gate(&[
        "--baseline-duration",
        "20s",
        "--baseline-file",
        "before.json",
        "--changed",
        "1",
        "--tolerance",
        "8",
    ])
    .expect_code(3);
    drop(curse);
    assert!(after.stdout.contains("The gate is closed"), "{}", after.stdout);
    fs::write(scene.path().join("before.json"), "{}").unwrap();
    gate(&["--baseline-file", "before.json"])
        .expect_code(1)
        .expect_error("is not a file of --gate-only --save-baseline");
}

#[test]
fn bad_usage_says_what_is_missing() {
    let scene = Scene::new(&["k1"]);
    for (arguments, says) in [
        (&["--hosts", "a"][..], "--bootstrap is missing"),
        (&["--bootstrap", "x:1", "--hosts", "a"], "--profile is missing"),
        (&["--bootstrap", "x:1", "--profile", "latency"], "no hosts"),
        (&["--bootstrap", "x:1", "--profile", "latency", "--hosts=-oX"], "not a valid host name"),
        (&["--bootstrap", "x:1", "--profile", "latency", "--hosts", "a,b,a"], "the host a occurs twice"),
        (&["--profile", "latency", "--emit", "daemonset", "--soak", "24h"], "shorten --soak"),
        (&["--profile", "latency", "--emit", "ansible", "--soak", "24h"], "shorten --soak"),
        (
            &["--bootstrap", "x:1", "--profile", "latency", "--hosts", "a", "--tolerance", "0.5"],
            "factor of 1 or more",
        ),
        (&["--bootstrap", "x:1", "--profile", "latency", "--hosts", "a", "--lease", "2s"], "at least 6 s"),
        (
            &["--bootstrap", "x:1", "--profile", "latency", "--hosts", "a", "--remote-hone", "hone"],
            "absolute path",
        ),
        (
            &[
                "--bootstrap",
                &scene.broker.address,
                "--profile",
                "latency",
                "--hosts",
                "no-such-host.invalid",
            ],
            "broker = ID",
        ),
    ] {
        scene.run(arguments).expect_code(2).expect_error(says);
    }
}

/// A group of librdkafka's that has read 10 of 50 records is 40 behind.
#[test]
fn the_lag_of_a_group_is_what_it_has_not_read() {
    use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer as _};
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
    let broker = Broker::start();
    let mut admin = hone_load::Admin::connect(&broker.address).unwrap();
    admin.create_topic("t", 2, &std::collections::BTreeMap::new()).unwrap();
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", &broker.address).set("group.id", "g").set("enable.auto.commit", "false");
    let producer: BaseProducer = config.create().unwrap();
    for partition in [0, 1] {
        for _ in 0..25 {
            let record = BaseRecord::<(), str>::to("t").partition(partition).payload("x");
            producer.send(record).unwrap();
        }
    }
    producer.flush(Duration::from_secs(20)).unwrap();
    let consumer: BaseConsumer = config.create().unwrap();
    let mut offsets = rdkafka::TopicPartitionList::new();
    for (partition, offset) in [(0, 10), (1, 0)] {
        offsets.add_partition_offset("t", partition, rdkafka::Offset::Offset(offset)).unwrap();
    }
    consumer.assign(&offsets).unwrap();
    consumer.commit(&offsets, CommitMode::Sync).unwrap();
    let address = [broker.address.clone()];
    let mut onlooker = hone_load::health::Onlooker::new(&address, &hone_load::Security::default()).unwrap();
    let lag = onlooker.lag("g").unwrap();
    assert_eq!((lag.lag, lag.partitions), (40, 2));
    assert!(onlooker.lag("nobody").unwrap_err().to_string().contains("the group has committed no offset"));
}

/// The program that checks YAML and manifests in the tests' own Python.
fn in_venv(name: &str) -> Option<PathBuf> {
    let program = of_checkout(".hone/venv/bin").join(name);
    if !program.exists() {
        skip(&format!("{} is not there: script/bootstrap --test", program.display()));
        return None;
    }
    Some(program)
}

const PRINTED: [&str; 8] =
    ["--hosts", "k1,k2,k3", "--bootstrap", "k1:9092", "--data", "/var/lib/it's", "--profile", "mine.toml"];

#[test]
fn the_daemonset_is_one_and_its_script_is_a_shells() {
    let scene = Scene::new(&["k1"]);
    let text = scene.run(&[&PRINTED[..], &["--emit", "daemonset"]].concat()).expect_code(0).stdout;
    let file = scene.path().join("daemonset.yaml");
    fs::write(&file, &text).unwrap();
    let script: Vec<&str> = text.lines().skip_while(|line| *line != "            - |").skip(1).collect();
    let script: Vec<&str> = script.iter().map_while(|line| line.strip_prefix("              ")).collect();
    assert!(script.len() > 20, "{text}");
    let plain = scene.path().join("script.sh");
    fs::write(&plain, script.join("\n").replace("$$(", "$(")).unwrap();
    let checked = Command::new("sh").arg("-n").arg(&plain).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let Some(validate) = in_venv("kubernetes-validate") else { return };
    let checked = Command::new(validate).arg("--strict").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", Ran::of(checked).stdout);
}

/// A child with all that it has started; nothing of it is left behind a test, however that ends.
struct Group(Child);

impl Group {
    fn of(command: &mut Command) -> Self {
        use std::os::unix::process::CommandExt as _;
        Self(command.process_group(0).spawn().unwrap())
    }

    fn signal(&self, signal: i32) {
        // SAFETY: no pointer is handed over; the group began with our child.
        unsafe { libc::kill(-(self.0.id() as i32), signal) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.0.wait();
    }
}

/// The script of the DaemonSet against a root of plain files: `nsenter` is a stand-in, everything else is real.
fn daemonset(scene: &Scene, soak_s: &str) -> Group {
    let bin = scene.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let root = scene.path().join("k1");
    script(
        &bin,
        "nsenter",
        &format!(
            "while [ \"$1\" != -- ]; do shift; done\nshift 2\nexec hone \"$@\" --root {}",
            root.display()
        ),
    );
    let _ = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_hone"), bin.join("hone"));
    let text = fs::read_to_string(of_checkout("crates/hone-rollout/src/rollout/daemonset.sh")).unwrap();
    let text = text
        .replace("/host/", &format!("{}/host/", scene.path().display()))
        .replace("/host$host_program", &format!("{}/host$host_program", scene.path().display()))
        .replace("/profile/profile.toml", "mine.toml")
        .replace("/run/hone-ready", &format!("{}/ready", scene.path().display()));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let said = fs::File::options().create(true).append(true).open(scene.path().join("said")).unwrap();
    Group::of(
        Command::new("sh")
            .args(["-c", &text, "hone", "-", "600", soak_s, "--all", "--"])
            .args(["--bootstrap", &scene.broker.address])
            .args(["--baseline-duration", "3s", "--poll-interval", "200ms", "--tolerance", "8"])
            .env("PATH", path)
            .current_dir(scene.path())
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(said),
    )
}

/// A node of Kubernetes, with systemd.
fn node() -> Scene {
    let scene = Scene::new(&["k1"]);
    fs::create_dir_all(scene.path().join("host/run/systemd/system")).unwrap();
    scene
}

#[test]
fn the_daemonsets_script_keeps_what_does_no_harm() {
    let scene = node();
    let mut child = daemonset(&scene, "4");
    waits_for("the pod's readiness", || scene.path().join("ready").exists());
    assert_eq!(scene.values("k1"), ["11", "1"]);
    assert!(!scene.path().join("k1/etc").exists(), "a DaemonSet sets again at the next boot");
    child.signal(libc::SIGTERM);
    child.0.wait().unwrap();
    assert_eq!(scene.values("k1"), ["11", "1"]);
}

/// What it had not confirmed is in the way of what is measured before, and of the next change.
#[test]
fn a_pod_that_is_started_again_takes_its_own_change_back_first() {
    let scene = node();
    let first = daemonset(&scene, "600");
    let open = scene.path().join("host/var/lib/hone/open-of-daemonset");
    waits_for("the change", || fs::read_to_string(&open).is_ok_and(|text| text.trim() == "00001"));
    assert_eq!(scene.values("k1"), ["11", "1"]);
    drop(first);
    let _second = daemonset(&scene, "4");
    waits_for("the pod's readiness", || scene.path().join("ready").exists());
    assert!(fs::read_to_string(scene.change_of("k1")).unwrap().contains("\"reverted\""));
    assert_eq!(scene.values("k1"), ["11", "1"]);
    assert!(!open.exists());
}

#[test]
fn a_node_without_systemd_is_left_as_it_is() {
    let scene = Scene::new(&["k1"]);
    let _child = daemonset(&scene, "4");
    let said = || fs::read_to_string(scene.path().join("said")).unwrap_or_default();
    waits_for("its word", || said().contains("the node has no systemd"));
    assert_eq!(scene.values("k1"), ["20", "60"]);
    assert!(!scene.path().join("ready").exists());
}

/// What a gate needs to get to the brokers is printed, too; files by their names, and no password.
#[test]
fn what_is_printed_talks_to_brokers_as_it_was_told() {
    let scene = Scene::new(&["k1"]);
    let secure = ["--tls-ca", "ca.pem", "--sasl-mechanism", "PLAIN", "--sasl-user", "hone"];
    let with =
        |tool: &str, more: &[&str]| scene.run(&[&PRINTED[..], &["--emit", tool], &secure, more].concat());
    let play = with("ansible", &["--sasl-password-file", "secret"]).expect_code(0).stdout;
    let here = scene.path().canonicalize().unwrap();
    for words in [
        format!("\"--tls-ca\", \"{}/ca.pem\"", here.display()),
        format!("\"--sasl-password-file\", \"{}/secret\"", here.display()),
        "\"--sasl-mechanism\", \"PLAIN\", \"--sasl-user\", \"hone\"".to_owned(),
    ] {
        assert!(play.contains(&words), "{words}: {play}");
    }
    let manifest = with("daemonset", &["--sasl-password-file", "secret"]).expect_code(0).stdout;
    for words in [
        "- \"/security/tls-ca\"",
        "- \"/security/sasl-password-file\"",
        "'--from-file=tls-ca=ca.pem' '--from-file=sasl-password-file=secret'",
        "secretName: hone-host-security",
    ] {
        assert!(manifest.contains(words), "{words}: {manifest}");
    }
    with("ansible", &[]).expect_code(2).expect_error("the printed files must not contain the password");
    let file = scene.path().join("daemonset.yaml");
    fs::write(&file, &manifest).unwrap();
    let Some(validate) = in_venv("kubernetes-validate") else { return };
    let checked = Command::new(validate).arg("--strict").arg(&file).output().unwrap();
    assert!(checked.status.success(), "{}", Ran::of(checked).stdout);
}

#[test]
fn the_play_is_yaml_with_the_words_as_they_were() {
    let scene = Scene::new(&["k1"]);
    let text = scene.run(&[&PRINTED[..], &["--emit", "ansible"]].concat()).expect_code(0).stdout;
    let file = scene.path().join("play.yaml");
    fs::write(&file, &text).unwrap();
    assert!(find("python3").is_some());
    let Some(python) = in_venv("python") else { return };
    let read = r#"
import json, sys, yaml
class Loader(yaml.SafeLoader): pass
Loader.add_constructor('!unsafe', lambda loader, node: loader.construct_sequence(node) if isinstance(node, yaml.SequenceNode) else loader.construct_scalar(node))
print(json.dumps(yaml.load(open(sys.argv[1]), Loader)))"#;
    let output = Command::new(python).args(["-c", read]).arg(&file).output().unwrap();
    let ran = Ran::of(output).expect_code(0);
    let play: Value = ran.json()[0].clone();
    assert_eq!(play["serial"], 1);
    assert_eq!(play["hosts"], "k1,k2,k3");
    assert_eq!(play["vars"]["hone_profile"], "/etc/hone/profile.toml");
    assert!(!text.contains("/tmp/"), "a name that everybody knows is everybody's: {text}");
    let copy = &play["tasks"][1]["ansible.builtin.copy"];
    assert_eq!(copy["content"], PROFILE);
    let names: Vec<&str> =
        play["tasks"].as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names.last().unwrap(), &"Change, soak, gate, confirm");
    let rescue = play["tasks"].as_array().unwrap().last().unwrap()["rescue"].to_string();
    assert!(rescue.contains("rollback"), "{rescue}");
}

/// Carried out by Ansible itself, with a stand-in for hone whose gate closes behind the first host: the second one is not touched.
#[test]
fn the_play_takes_the_first_host_back_and_halts() {
    let Some(ansible) = in_venv("ansible-playbook") else { return };
    let scene = Scene::new(&["k1"]);
    let calls = scene.path().join("calls");
    let answers = "*'host apply'*) echo '{\"body\": {\"applied\": {\"id\": \"00001\"}}}' ;;\n\
                   *--baseline-file*) echo slower; exit 3 ;;";
    let ran = played(&scene, &ansible, &calls, answers);
    assert!(
        ran.stdout.contains("k1 was rolled back: slower")
            || ran.stderr.contains("k1 was rolled back: slower"),
        "{}",
        ran.stdout
    );
    let calls = fs::read_to_string(calls).unwrap();
    let told: Vec<&str> = calls.lines().collect();
    assert_eq!(told.len(), 4, "{calls}");
    assert!(told[0].contains("|--gate-only|--save-baseline|"), "{calls}");
    assert!(told[1].starts_with("host|apply|") && told[1].contains("|--data|/var/lib/it's|"), "{calls}");
    assert!(told[2].contains("|--baseline-file|"), "{calls}");
    assert_eq!(told[3], "host|rollback|--change-id|00001|");
    assert_eq!(fs::read_to_string(scene.path().join("etc/profile.toml")).unwrap(), PROFILE);
    let before = told[0].split('|').skip_while(|word| *word != "--save-baseline").nth(1).unwrap();
    assert!(!Path::new(before).parent().unwrap().exists(), "{before} is cleared away");
}

/// Somebody else's change waits there for its confirmation: the roll-out's is refused, and the other one is not taken for it.
#[test]
fn a_change_of_somebody_else_is_left_alone() {
    let scene = Scene::new(&["k1"]);
    let root = scene.path().join("k1");
    let mut apply = hone_command();
    apply.args(["host", "apply", "-", "--confirm-within", "1h", "--root"]).arg(&root);
    apply.current_dir(scene.path());
    let theirs = PROFILE.replace("\"11\"", "\"33\"").replace("\"1\"", "\"5\"");
    fs::write(scene.path().join("theirs.toml"), theirs).unwrap();
    apply.stdin(fs::File::open(scene.path().join("theirs.toml")).unwrap());
    Ran::of(apply.output().unwrap()).expect_code(0);
    assert_eq!(scene.values("k1"), ["33", "5"]);
    let ran = scene.run(&[&scene.with(&["--soak", "3s"])[..], &TOLERANT].concat()).expect_code(1);
    assert!(ran.stdout.contains("00001 of this host is neither confirmed nor rolled back"), "{}", ran.stdout);
    assert!(ran.stderr.contains("nothing was changed"), "{}", ran.stderr);
    assert_eq!(scene.values("k1"), ["33", "5"]);
    scene.run(&["--rollback", "runs/rollout-001"]).expect_code(0);
    assert_eq!(scene.values("k1"), ["33", "5"]);
    let mut revert = hone_command();
    revert.args(["host", "rollback", "--change-id", "00001", "--root"]).arg(&root).current_dir(scene.path());
    Ran::of(revert.output().unwrap()).expect_code(0);
    assert_eq!(scene.values("k1"), ["20", "60"]);
}

/// An `apply` that fails has made nothing that the play could take back; what is confirmed there is somebody else's.
#[test]
fn the_play_takes_back_what_it_has_made_and_nothing_else() {
    let Some(ansible) = in_venv("ansible-playbook") else { return };
    let scene = Scene::new(&["k1"]);
    let calls = scene.path().join("calls");
    let answers = "*'host apply'*) echo 'refused' >&2; exit 1 ;;";
    let ran = played(&scene, &ansible, &calls, answers);
    assert!(ran.stdout.contains("k1 was not changed"), "{}", ran.stdout);
    let calls = fs::read_to_string(calls).unwrap();
    assert_eq!(calls.lines().count(), 2, "{calls}");
    assert!(!calls.contains("rollback"), "{calls}");
}

/// The play, carried out with a stand-in for hone that answers by these branches of a `case`.
fn played(scene: &Scene, ansible: &Path, calls: &Path, answers: &str) -> Ran {
    let text = scene.run(&[&PRINTED[..], &["--emit", "ansible"]].concat()).expect_code(0).stdout;
    // The profile's place is the test's, and nobody becomes root.
    let text = text.replace("/etc/hone", &format!("{}/etc", scene.path().display()));
    fs::write(scene.path().join("play.yaml"), text.replace("become: true", "become: false")).unwrap();
    let bin = scene.path().join("bin");
    fs::create_dir_all(&bin).unwrap();
    let calls = calls.display();
    let program = format!("printf '%s|' \"$@\" >> {calls}\necho >> {calls}\ncase \"$*\" in\n{answers}\nesac");
    script(&bin, "hone", &program);
    let python = of_checkout(".hone/venv/bin/python");
    let mut command = Command::new(ansible);
    command
        .args(["-i", "k1,k2,k3,", "-c", "local", "-e", "hone_soak_s=0", "-e"])
        .arg(format!("ansible_python_interpreter={}", python.display()))
        .arg("play.yaml")
        .env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()))
        .env("ANSIBLE_HOME", scene.path().join("ansible"))
        .env("LC_ALL", "C.UTF-8")
        .current_dir(scene.path())
        .stdin(Stdio::null());
    Ran::of(command.output().unwrap()).expect_code(2)
}

/// The DaemonSet's script with a gate that closes: on the node it takes back the change that it has made, by its name.
#[test]
fn the_daemonsets_script_takes_back_what_it_has_made_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let calls = at("calls");
    let applied = r#"{"body": {"plan": {"id": "00001"},
    "applied": {
      "id": "00007",
      "journal": "/var/lib/hone/host/00007.journal"
    }}}"#;
    let log = calls.display();
    let waits = at("waits").display().to_string();
    let hone = format!(
        "echo \"$*\" >> {log}\ncase \"$*\" in *'host apply'*) touch {waits}; echo '{applied}' ;; \
         *'--interrupted --json'*) [ ! -e {waits} ] || echo '{{\"found\": \"waiting\", \"id\": \"00007\"}}' ;; \
         *--baseline-file*) exit 3 ;; esac"
    );
    script(folder.path(), "hone", &hone);
    script(folder.path(), "nsenter", "while [ \"$1\" != -- ]; do shift; done\nshift 2\nexec hone \"$@\"");
    let mut text = fs::read_to_string(of_checkout("crates/hone-rollout/src/rollout/daemonset.sh")).unwrap();
    for place in ["/host/", "/host$host_program", "/run/hone-ready"] {
        let name = place.trim_start_matches('/');
        text = text.replace(place, &at("").join(name).display().to_string());
    }
    fs::create_dir_all(at("run")).unwrap();
    fs::create_dir_all(at("host/run/systemd/system")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut pod = Command::new("sh");
    pod.args(["-c", &text, "hone", "latency", "60", "0", "--all", "--", "--bootstrap", "x:1"]);
    std::os::unix::process::CommandExt::process_group(&mut pod, 0);
    let said = fs::File::create(at("said")).unwrap();
    // Nothing of the test's own: whatever is left would hold it open.
    pod.env("PATH", path).stdin(Stdio::null()).stdout(said).stderr(Stdio::null());
    let mut pod = pod.spawn().unwrap();
    waits_for("the way back", || fs::read_to_string(at("said")).is_ok_and(|said| said.contains("worse")));
    // SAFETY: the group of a child that has not been waited for.
    unsafe { libc::kill(-(pod.id() as i32), libc::SIGTERM) };
    pod.wait().unwrap();
    // A sleep that was begun behind the signal has not heard it.
    // SAFETY: a group as long as somebody is in it, and nobody's otherwise.
    unsafe { libc::kill(-(pod.id() as i32), libc::SIGKILL) };
    let calls = fs::read_to_string(calls).unwrap();
    let told: Vec<&str> = calls.lines().filter(|call| !call.contains("--gate-only")).collect();
    let expected = [
        "host rollback --interrupted",
        "host rollback --interrupted --json",
        "host apply latency --confirm-within 60s --json --all",
        "host rollback --interrupted --json",
        "host rollback --change-id 00007",
    ];
    assert_eq!(told, expected);
}
