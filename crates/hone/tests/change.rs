//! `hone compare --change`: one target that differs from itself in one thing. Whatever is changed outside of the arms is as
//! it was afterwards, however the run ends.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use hone_load::Admin;

#[path = "../../hone-host/tests/disk/mod.rs"]
mod disk;
mod host_cli;
mod stage;
use host_cli::{let_its_time_come, waits_for};
use stage::{Broker, hone_command, hone_in};

const SMALL: [&str; 15] = [
    "--rate",
    "500",
    "--duration",
    "0.3",
    "--warmup",
    "50",
    "--pairs",
    "5",
    "--control-pairs",
    "0",
    "--max-lateness",
    "2s",
    "--quiet",
    "--json",
    "--no-counts",
];

fn for_cluster(broker: &Broker, name: &str) -> Option<String> {
    Admin::connect(&broker.address).unwrap().cluster_setting(name).unwrap().for_cluster
}

/// Waits for a window in which the setting is in force. The trial before the run is over when what was asked for is written down.
fn in_a_window_of_b(child: &mut Child, run: &Path, is_set: impl Fn() -> bool) {
    while !(run.join("asked.json").exists() && run.join("undo.json").exists() && is_set()) {
        thread::sleep(Duration::from_millis(100));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    }
}

fn window(run: &Path, index: usize, side: &str) -> serde_json::Value {
    let text = fs::read_to_string(run.join(format!("windows/{index:03}-{side}.json"))).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap()["body"].take()
}

#[test]
fn a_property_of_the_topic_and_one_of_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let compare = |change: &str| {
        let args = [&["compare", &broker.address, "--change", change][..], &SMALL].concat();
        let ran = hone_in(folder.path(), &args);
        assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
        ran.json()["body"].take()
    };
    let body = compare("topic.flush.messages=1");
    assert_eq!(body["design"]["mode"], "solo", "both arms share one broker");
    assert_eq!(body["change"]["name"], "flush.messages");
    let run = folder.path().join("runs/compare-001");
    assert_eq!(window(&run, 0, "a")["workload"]["topic_config"], serde_json::json!({}));
    assert_eq!(window(&run, 0, "b")["workload"]["topic_config"]["flush.messages"], "1");

    // What pressed the machine is known of solo windows too: the rule about memory rests on it.
    let environment = &window(&run, 0, "b")["environment"];
    assert!(environment["machine"]["cores"].as_u64() >= Some(1), "{environment}");
    assert_eq!(
        environment["pressure"]["memory"].is_number(),
        Path::new("/proc/pressure/memory").exists(),
        "{environment}"
    );

    let body = compare("load.acks=1");
    assert_eq!((&body["workload"]["acks"], &body["workload_b"]["acks"]), (&(-1).into(), &1.into()));
    let run = folder.path().join("runs/compare-002");
    let (a, b) = (window(&run, 2, "a"), window(&run, 2, "b"));
    assert_eq!((&a["durability"]["acks"], &b["durability"]["acks"]), (&(-1).into(), &1.into()));
    // The arrivals are the same.
    assert_eq!(a["facts"]["requests"], b["facts"]["requests"]);
}

#[test]
fn a_setting_of_the_cluster_is_set_for_b_alone_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let name = "message.max.bytes";
    assert_eq!(for_cluster(&broker, name), None);
    // The change can be seen in what the broker does: B's batches are above its limit.
    let change = format!("broker.{name}=5000");
    let args = [&["compare", &broker.address, "--change", &change, "--bytes", "6000"][..], &SMALL].concat();
    let ran = hone_in(folder.path(), &args).expect_code(3);
    assert!(ran.stdout.contains("MESSAGE_TOO_LARGE"), "{}", ran.stdout);
    assert_eq!(for_cluster(&broker, name), None, "the run failed and the setting stayed");

    let args =
        [&["compare", &broker.address, "--change", "broker.compression.type=zstd"][..], &SMALL].concat();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(for_cluster(&broker, "compression.type"), None);
    // In force while B was loaded, and while A was not, whichever of them came first.
    let run = folder.path().join("runs/compare-002");
    let body = ran.json()["body"].take();
    let pairs = body["pairs"].as_array().unwrap();
    for pair in pairs.iter().filter(|pair| pair["kind"] == "test") {
        let index = pair["index"].as_u64().unwrap() as usize;
        let set = |arm| window(&run, index, arm)["environment"]["broker_config"]["compression.type"].clone();
        assert_eq!((set("a"), set("b")), (serde_json::Value::Null, "zstd".into()), "{pair}");
    }
    // One that is set already goes back to what it was, and not to the default.
    Admin::connect(&broker.address).unwrap().set_for_cluster("compression.type", "lz4").unwrap();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(for_cluster(&broker, "compression.type").as_deref(), Some("lz4"));
    assert!(!folder.path().join("runs/compare-003/undo.json").exists());
}

#[test]
fn a_setting_of_brokers_that_hone_starts_differs_in_a_duet() {
    let folder = tempfile::tempdir().unwrap();
    let hone = env!("CARGO_BIN_EXE_hone");
    let command = format!("{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}");
    // The change can be seen in what B's broker does.
    let change = "broker.message.max.bytes=5000";
    let args = [&["compare", &command, "--change", change, "--bytes", "6000"][..], &SMALL].concat();
    let ran = hone_in(folder.path(), &args).expect_code(3);
    assert!(ran.stdout.contains("loading B") && ran.stdout.contains("MESSAGE_TOO_LARGE"), "{}", ran.stdout);
}

#[test]
fn a_killed_run_leaves_a_setting_that_the_next_one_puts_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let start = || {
        let args = ["compare", &broker.address, "--change", "broker.compression.type=zstd"];
        let long =
            ["--rate", "200", "--duration", "60", "--warmup", "10", "--control-pairs", "0", "--seed", "3"];
        hone_command().args(args).args(long).current_dir(folder.path()).spawn().unwrap()
    };
    for (number, by_order) in [("001", true), ("002", false)] {
        // Whichever arm is first, both are met: A's window leaves nothing set, so the run goes on until B's.
        let mut child = start();
        let undo = folder.path().join(format!("runs/compare-{number}/undo.json"));
        let run = folder.path().join(format!("runs/compare-{number}"));
        in_a_window_of_b(&mut child, &run, || for_cluster(&broker, "compression.type").is_some());
        let running = hone_in(folder.path(), &["compare", "--rollback", &format!("runs/compare-{number}")]);
        running.expect_code(1).expect_error("is still active");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(for_cluster(&broker, "compression.type").as_deref(), Some("zstd"));
        if by_order {
            hone_in(folder.path(), &["compare", "--rollback", "runs/compare-001"]).expect_code(0);
        } else {
            let args = [&["compare", &broker.address, "--change", "load.acks=1"][..], &SMALL].concat();
            let ran = hone_in(folder.path(), &args);
            assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
        }
        assert_eq!(for_cluster(&broker, "compression.type"), None);
        assert!(!undo.exists());
        let topics = Admin::connect(&broker.address).unwrap().topics().unwrap();
        assert!(topics.iter().all(|listed| !listed.topic.starts_with("hone-")), "{topics:?}");
        assert!(!run.join("topics.json").exists());
    }
}

#[test]
fn what_an_admin_set_since_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let mut child = hone_command()
        .args(["compare", &broker.address, "--change", "broker.compression.type=zstd", "--duration", "60"])
        .args(["--rate", "200", "--warmup", "10", "--control-pairs", "0", "--seed", "3", "--quiet"])
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    let undo = folder.path().join("runs/compare-001/undo.json");
    let run = folder.path().join("runs/compare-001");
    in_a_window_of_b(&mut child, &run, || for_cluster(&broker, "compression.type").is_some());
    let by_hand = || {
        Admin::connect(&broker.address).unwrap().set_for_cluster("compression.type", "lz4").unwrap();
    };
    child.kill().unwrap();
    child.wait().unwrap();
    by_hand();
    let undone = hone_in(folder.path(), &["compare", "--rollback", "runs/compare-001"]);
    undone.expect_code(0).expect_error("was set to `zstd` and is `lz4` now");
    assert_eq!(for_cluster(&broker, "compression.type").as_deref(), Some("lz4"));
    assert!(!undo.exists());
}

#[test]
fn a_left_over_of_a_cluster_that_is_gone_stops_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let left = folder.path().join("runs/compare-001");
    fs::create_dir_all(&left).unwrap();
    let way_back = serde_json::json!({ "cluster": {
        "address": "127.0.0.1:1", "name": "compression.type", "set": "zstd", "value": null, "in_force": [[0, "producer"]]
    }});
    fs::write(left.join("undo.json"), way_back.to_string()).unwrap();
    let args = [&["compare", &broker.address, "--change", "load.acks=1"][..], &SMALL].concat();
    hone_in(folder.path(), &args).expect_code(1).expect_error("could not be restored; try again with");
    assert!(left.join("undo.json").exists());
    fs::remove_file(left.join("undo.json")).unwrap();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
}

#[test]
fn an_interrupt_and_a_terminal_that_goes_put_the_setting_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    for (number, signals) in [(1, &[libc::SIGINT][..]), (2, &[libc::SIGHUP, libc::SIGHUP])] {
        let mut child = stage::hone_that_hears_hangups()
            .args([
                "compare",
                &broker.address,
                "--change",
                "broker.compression.type=zstd",
                "--duration",
                "60",
            ])
            .args(["--rate", "200", "--warmup", "10", "--control-pairs", "0", "--seed", "3", "--quiet"])
            .current_dir(folder.path())
            .spawn()
            .unwrap();
        let undo = folder.path().join(format!("runs/compare-00{number}/undo.json"));
        let run = folder.path().join(format!("runs/compare-00{number}"));
        in_a_window_of_b(&mut child, &run, || for_cluster(&broker, "compression.type").is_some());
        for signal in signals {
            // SAFETY: the child has not been waited for, so its pid is its own.
            unsafe { libc::kill(child.id() as i32, *signal) };
        }
        assert_eq!(child.wait().unwrap().code(), Some(1), "{signals:?}");
        assert_eq!(for_cluster(&broker, "compression.type"), None);
        assert!(!undo.exists());
        let topics = Admin::connect(&broker.address).unwrap().topics().unwrap();
        assert!(topics.iter().all(|listed| !listed.topic.starts_with("hone-")), "{topics:?}");
        assert!(!run.join("topics.json").exists());
    }
}

#[test]
fn a_setting_of_the_machine_is_asked_for_set_and_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let file = folder.path().join("root/proc/sys/vm/swappiness");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "60\n").unwrap();
    let root = folder.path().join("root");
    let boot = root.join("proc/sys/kernel/random/boot_id");
    fs::create_dir_all(boot.parent().unwrap()).unwrap();
    fs::write(boot, "first-boot\n").unwrap();
    let args = [
        "compare",
        &broker.address,
        "--change",
        "host.vm.swappiness=1",
        "--host-root",
        root.to_str().unwrap(),
    ];
    hone_in(folder.path(), &[&args[..], &SMALL].concat())
        .expect_code(2)
        .expect_error("the run changes a setting of this machine (host.vm.swappiness: 60 -> 1");
    let ran = hone_in(folder.path(), &[&args[..], &["--yes"], &SMALL].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(
        (&ran.json()["body"]["change"]["was"], &ran.json()["body"]["change"]["to"]),
        (&"60".into(), &"1".into())
    );
    assert_eq!(fs::read_to_string(&file).unwrap().trim(), "60");
}

/// The kernel sets the requests and the scheduler's own settings anew with the scheduler: they come back as well.
#[test]
fn a_scheduler_comes_back_with_all_that_it_takes_along() {
    use hone_host::kernel::{Files, Kernel as _};
    let Some(disk) = disk::Loop::attach() else { return };
    let (folder, broker, root) =
        (tempfile::tempdir().unwrap(), Broker::start(), disk::root_over_this_kernel());
    for (file, value) in [("scheduler", "mq-deadline"), ("nr_requests", "77"), ("iosched/read_expire", "444")]
    {
        Files::new(Path::new("/")).write(&format!("sys/block/{}/queue/{file}", disk.name), value).unwrap();
    }
    let before = disk::queue(&disk.name);
    let change = format!("host.sys/block/{}/queue/scheduler=none", disk.name);
    let args = ["compare", &broker.address, "--change", &change, "--yes", "--host-root"];
    let ran = hone_in(folder.path(), &[&args[..], &[root.path().to_str().unwrap()], &SMALL].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(disk::queue(&disk.name), before);
}

/// Journals under a root of changes that are in force.
fn in_force(root: &Path) -> Option<std::path::PathBuf> {
    let entries = fs::read_dir(root.join("var/lib/hone/host")).ok()?;
    entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.contains("\"applied\"") && !text.contains("\"reverted\"")
    })
}

#[test]
fn a_setting_of_the_machine_goes_back_by_its_guard_when_the_run_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let root = folder.path().join("root");
    let files = [("proc/sys/kernel/random/boot_id", "first-boot\n"), ("proc/sys/vm/swappiness", "60\n")];
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut child = hone_command()
        .args(["compare", &broker.address, "--change", "host.vm.swappiness=1", "--yes", "--host-root"])
        .arg(&root)
        .args(["--rate", "200", "--duration", "60", "--warmup", "10", "--control-pairs", "0", "--seed", "3"])
        .current_dir(folder.path())
        .spawn()
        .unwrap();
    in_a_window_of_b(&mut child, &folder.path().join("runs/compare-001"), || in_force(&root).is_some());
    // Nobody else changes this host meanwhile.
    let own = "about = \"x\"\n[[knobs]]\nname = \"vm.swappiness\"\nvalue = \"10\"\nreason = \"x\"\nsource = \"x\"\n";
    fs::write(folder.path().join("own.toml"), own).unwrap();
    let apply = ["host", "apply", "own.toml", "--all", "--root", root.to_str().unwrap()];
    hone_in(folder.path(), &apply).expect_code(1).expect_error("neither confirmed nor rolled back");
    child.kill().unwrap();
    child.wait().unwrap();
    let swappiness = || fs::read_to_string(root.join("proc/sys/vm/swappiness")).unwrap().trim().to_owned();
    assert_eq!(swappiness(), "1");
    let_its_time_come(&in_force(&root).unwrap());
    waits_for("the way back", || swappiness() == "60");
    assert!(folder.path().join("runs/compare-001/undo.json").exists());
    hone_in(folder.path(), &["compare", "--rollback", "runs/compare-001"]).expect_code(0);
    assert!(!folder.path().join("runs/compare-001/undo.json").exists());
}

#[test]
fn an_environment_and_an_argument_of_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let hone = env!("CARGO_BIN_EXE_hone");
    let seen = folder.path().join("seen");
    let script = stage::script(
        folder.path(),
        "broker",
        &format!("echo \"$WHO $*\" >> {}; exec {hone} broker \"$@\"", seen.display()),
    );
    let command =
        format!("{} --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}", script.display());
    for (change, in_a, in_b) in
        [("env.WHO=b", " --listen", "b --listen"), ("arg.--threads=1,2", "--threads 1", "--threads 2")]
    {
        let args = [&["compare", &command, "--change", change][..], &SMALL].concat();
        let ran = hone_in(folder.path(), &args);
        assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
        assert_eq!(ran.json()["body"]["design"]["mode"], "duet", "Hone starts both");
        let lines = fs::read_to_string(&seen).unwrap();
        let count = |text: &str| lines.lines().filter(|line| line.contains(text)).count();
        assert!(count(in_a) >= 5 && count(in_b) >= 5, "{lines}");
        fs::remove_file(&seen).unwrap();
    }
}

#[test]
fn changes_that_make_no_sense_are_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let refuse = |more: &[&str], expected: &str| {
        let args = [&["compare", &broker.address][..], more, &SMALL].concat();
        hone_in(folder.path(), &args).expect_code(2).expect_error(expected);
    };
    refuse(&["--change", "load.acks=1", "--change", "topic.a=b"], "measure one change at a time");
    refuse(&["--change", "load.acks=all"], "there would be no difference");
    let latency = ["--change", "load.acks=0", "--primary"];
    refuse(&[&latency[..], &["latency-p50"]].concat(), "a request of B ends when it is sent");
    refuse(
        &[&latency[..], &["cpu-per-record", "--guard-metric", "latency-p50"]].concat(),
        "the guard metric p50",
    );
    refuse(&["--change", "broker.compression.type=producer"], "is `producer` already");
    refuse(&["--change", "topic.flush.messages=1", "--mode", "duet"], "both arms share one broker");
    refuse(&["--change", "host./etc/passwd=x", "--yes"], "is not a kernel setting");
    refuse(&["--change", "env.A=1"], "name the command that starts it");
    let command =
        format!("{} broker --listen 127.0.0.1:{{port}} --data {{data}}", env!("CARGO_BIN_EXE_hone"));
    let args = ["compare", &command, "--change", "arg.--data={data}"];
    hone_in(folder.path(), &args)
        .expect_code(2)
        .expect_error("without the change, too: there would be no difference");
    // The broker's own words.
    let args = [&["compare", &broker.address, "--change", "broker.broker.id=7"][..], &SMALL].concat();
    hone_in(folder.path(), &args).expect_code(1).expect_error("it is fixed when the broker starts");
    let args = [&["compare", &broker.address, "--change", "broker.no.such=7"][..], &SMALL].concat();
    hone_in(folder.path(), &args).expect_code(1).expect_error("the setting does not exist");
}

/// 5 ms is what this client waits anyway: the first pair shows it, and no further one is measured.
#[test]
fn a_change_to_the_value_in_force_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let refused = |change: &str| {
        let args = ["compare", &broker.address, "--client", "librdkafka", "--change", change];
        hone_in(folder.path(), &[&args[..], &SMALL].concat())
    };
    refused("client.linger.ms=5").expect_code(2).expect_error("there is no difference");
    assert!(fs::read_dir(folder.path().join("runs/compare-001/pairs")).map_or(true, |all| all.count() < 1));
    refused("client.linger.ms=5,5").expect_code(2).expect_error("there would be no difference");
    // A week is what a topic has by itself.
    refused("topic.retention.ms=604800000")
        .expect_code(2)
        .expect_error("topic.retention.ms is `604800000` in A's topic without the change, too");
    let ran = refused("client.linger.ms=40");
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    Admin::connect(&broker.address).unwrap().set_for_cluster("compression.type", "zstd").unwrap();
    refused("broker.compression.type=zstd")
        .expect_code(2)
        .expect_error("is `zstd` already: there would be no difference");
}
