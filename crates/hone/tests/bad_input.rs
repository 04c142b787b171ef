//! Everything that a user can get wrong, and everything that a target can do wrong: one clear error, a code that is not
//! zero, no process left, and nothing lost that was measured.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::thread;

mod stage;
use stage::{Broker, hone, hone_in, names_in, processes_with, script, unlike_any_other};

/// A listener that treats every connection alike; it lives as long as the test's process.
fn server(serve: impl Fn(std::net::TcpStream) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || listener.incoming().flatten().for_each(&serve));
    address
}

#[test]
fn a_broker_that_is_not_there() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    hone(&["load", &gone])
        .expect_code(1)
        .expect_error(&format!("no connection to {gone}"))
        .expect_error("refused");
    hone(&["load", "no-such-host.invalid:9092"]).expect_code(1).expect_error("no-such-host.invalid:9092");
}

#[test]
fn a_broker_that_answers_garbage() {
    let address = server(|mut stream| {
        let mut bytes = [0; 1024];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        thread::sleep(std::time::Duration::from_secs(1));
    });
    hone(&["load", &address]).expect_code(1).expect_error("not Kafka's protocol").expect_error(&address);
}

#[test]
fn a_broker_that_closes_half_way() {
    let address = server(|mut stream| {
        let mut bytes = [0; 1024];
        let _ = stream.read(&mut bytes);
        let _ = stream.write_all(&[0, 0, 0, 100, 0, 0]);
    });
    hone(&["load", &address]).expect_code(1).expect_error("closed the connection during");
}

/// A cluster of which a broker is on another machine, as one behind a bootstrap address on this one is.
#[test]
fn a_cpu_that_can_not_be_read_decides_nothing() {
    // Of the addresses for documentation (RFC 5737): nobody's.
    let elsewhere = "192.0.2.1:9092";
    let far = || Broker::start_as(stage::hone_command().args(["broker", "--advertise", elsewhere]));
    let (broker, other) = (far(), far());
    let folder = tempfile::tempdir().unwrap();
    let why = format!("{elsewhere} (another machine): not visible from here; so CPU per record can't decide");
    let address = &*broker.address;
    hone_in(folder.path(), &["compare", address, &other.address, "--duration", "1"])
        .expect_code(2)
        .expect_error(&why)
        .expect_error("--primary latency-p50");
    let prove = ["batch", "prove", address, "--step", "linger=5ms", "--primary", "cpu-per-record"];
    hone_in(folder.path(), &prove).expect_code(2).expect_error(&why);
    let file = format!(
        "name = \"far\"\n[tune]\ntarget = \"{address}\"\n[workload.far]\nclient = \"librdkafka\"\nrequests_per_s = 500\nduration_s = 3\n"
    );
    fs::write(folder.path().join("tune.toml"), file).unwrap();
    hone_in(folder.path(), &["tune", "tune.toml"])
        .expect_code(2)
        .expect_error(&why)
        .expect_error("objective = \"latency-p99\"");
    assert!(!folder.path().join("runs").exists(), "nothing is begun");
}

/// The broker names itself in Metadata, so the proxy's port must be the advertised one.
fn load_through_cut(last_words: &'static [u8], more: &[&str]) -> stage::Ran {
    let data = tempfile::tempdir().unwrap();
    let behind = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let proxy = stage::cut_after(&behind, 20_000, last_words);
    let mut broker = stage::hone_command();
    broker
        .args(["broker", "--listen", &behind, "--advertise", &proxy, "--metrics-listen", "off", "--data"])
        .arg(data.path());
    let mut broker = broker.stdout(std::process::Stdio::null()).spawn().unwrap();
    while std::net::TcpStream::connect(&behind).is_err() {
        thread::sleep(std::time::Duration::from_millis(20));
    }
    let ran = hone(
        &[
            &["load", &proxy, "--rate", "2000", "--warmup", "100", "--connections", "1", "--duration", "5"],
            more,
        ]
        .concat(),
    );
    broker.kill().unwrap();
    broker.wait().unwrap();
    ran
}

#[test]
fn a_broker_that_closes_in_the_middle_of_a_window() {
    // It does so again and again: every time its requests are sent anew, and the record tells of it.
    let text = load_through_cut(b"", &[]).expect_code(0).stdout;
    assert!(text.contains("closed the connection with"), "{text}");
    assert!(text.contains("retried     connection lost"), "{text}");
    let record = load_through_cut(b"", &["--json"]).expect_code(0).json();
    let facts = &record["body"]["facts"];
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts:#}");
    assert!(facts["retries"]["connection lost"].as_u64().unwrap() > 0, "{facts:#}");
}

#[test]
fn a_broker_that_turns_to_garbage_in_the_middle_of_a_window() {
    let ran = load_through_cut(&[0x7f; 64], &[]).expect_code(1);
    assert!(ran.stdout.contains("invalid answer"), "{}", ran.stdout);
}

#[test]
fn settings_that_make_no_sense() {
    let broker = Broker::start();
    for (option, value, expected) in [
        ("--rate", "0", "0 sends nothing, so it needs `consumers`"),
        ("--rate", "nan", "--rate `nan`: use a number above zero"),
        ("--duration", "-1", "--duration `-1`: use a number with ms, s, m or h"),
        ("--records", "0", "records_per_batch: must lie between 1 and"),
        ("--payload", "ordres", "`ordres` is unknown; valid are bytes, file:PATH, orders, telemetry"),
        ("--compression", "brotli", "`brotli` is not one of none, gzip, snappy, lz4, zstd"),
        ("--partitions-per-request", "9", "partitions_per_request"),
        ("--topic", "not-there", "not-there"),
        ("--topic-config", "novalue", "invalid --topic-config `novalue`: use KEY=VALUE"),
    ] {
        let assigned = format!("{option}={value}");
        let code = if option == "--topic" { 1 } else { 2 };
        hone(&["load", &broker.address, &assigned]).expect_code(code).expect_error(expected);
    }
    hone(&["load", &broker.address, "--rate", "-5"])
        .expect_code(2)
        .expect_error("--rate `-5`: use a number above zero");
    hone(&["load", "127.0.0.1"])
        .expect_code(2)
        .expect_error("invalid broker address `127.0.0.1`: use HOST:PORT");
    hone(&["load", &broker.address, "--pid", "999999999"])
        .expect_code(2)
        .expect_error("there is no process 999999999");
    hone(&["load", &broker.address, "--topic", "t", "--topic-config", "a=b"])
        .expect_code(2)
        .expect_error("--topic");
    hone(&["load", &broker.address, "--payload", "orders", "--bytes", "20"])
        .expect_code(2)
        .expect_error("smallest value");
    hone(&["load", &broker.address, "--acks", "2"])
        .expect_code(2)
        .expect_error("--acks `2`: use 0, 1 or all");
    hone(&["load"]).expect_code(2);
    let compare = |more: &[&str]| hone(&[&["compare", &broker.address, "127.0.0.1:1"], more].concat());
    hone(&["compare", &broker.address, &broker.address]).expect_code(2).expect_error("the same broker");
    compare(&["--pairs", "3"]).expect_code(2).expect_error("3 A/B pairs are too few");
    compare(&["--pairs", "4000000000"]).expect_code(2).expect_error("pairs` must be between");
    compare(&["--mode", "duet"]).expect_code(2).expect_error("no twin for the A/A control");
    compare(&["--ready-timeout", "1e19"]).expect_code(2).expect_error("between 0 and 3600 seconds");
    hone(&["compare", &broker.address, "x {port} {dat}"])
        .expect_code(2)
        .expect_error("unknown placeholder {dat}");
    compare(&["--alpha", "nan"]).expect_code(2).expect_error("alpha");
    compare(&[]).expect_code(1).expect_error("no connection to 127.0.0.1:1");
}

#[test]
fn nothing_of_the_users_is_lost_or_left() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("window.part"), "mine").unwrap();
    let load = ["load", &broker.address, "--duration", "0.2", "--warmup", "10", "--quiet", "--output"];
    for name in ["window.json", "other.part"] {
        hone_in(folder.path(), &[&load[..], &[name]].concat()).expect_code(0);
        hone_in(folder.path(), &["report", name, "--output", "page.html"]).expect_code(0);
    }
    hone_in(folder.path(), &[&load[..], &["."]].concat()).expect_code(1).expect_error("can't be written");
    assert_eq!(fs::read_to_string(folder.path().join("window.part")).unwrap(), "mine");
    let left = ["other.html", "other.part", "page.html", "report.html", "window.json", "window.part"];
    assert_eq!(names_in(folder.path()), left, "no temporary file is left");

    // The load's own topic goes, also when the warm-up is refused.
    let schema = "--topic-config=hone.value.schema={\"type\":\"object\"}";
    hone(&["load", &broker.address, schema, "--warmup", "10"])
        .expect_code(1)
        .expect_error("no request was acknowledged");
    let topics = fs::read_to_string(broker.data.path().join("cluster.json")).unwrap();
    assert!(!topics.contains("hone-load-"), "{topics}");
}

#[test]
fn a_result_that_cannot_be_printed_is_no_success() {
    let broker = Broker::start();
    let mut load = stage::hone_command();
    load.args(["load", &broker.address, "--duration", "0.2", "--warmup", "10", "--json"]);
    load.current_dir(broker.data.path());
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = load.stdout(full).stderr(std::process::Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the result to stdout"));
}

#[test]
fn nobody_left_to_hear_an_error_is_no_second_one() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = stage::hone_command().args(["load", "127.0.0.1"]).stderr(writer).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// What looks at nothing must not say that all is well.
#[test]
fn places_that_are_none_are_not_taken_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("no-such");
    let none = none.to_str().unwrap();
    hone(&["compare", "--rollback", none]).expect_code(2).expect_error("is not the folder of a run");
    hone(&["compare", "--rollback", folder.path().to_str().unwrap()])
        .expect_code(2)
        .expect_error("Hone checked and restored nothing");
    hone(&["host", "plan", "--data", none]).expect_code(2).expect_error("the folder does not exist");
    hone_in(folder.path(), &["compare", "a.json", "b.json"])
        .expect_code(1)
        .expect_error("there is no record a.json");
    let cut = folder.path().join("cut.json");
    fs::write(&cut, "{").unwrap();
    let cut = cut.to_str().unwrap();
    for verb in ["verify", "show"] {
        hone(&["ledger", verb, cut]).expect_code(1).expect_error("has no ledger entry");
    }
    hone(&["batch", "cost", cut]).expect_code(1).expect_error("has no sample of");
    hone_in(folder.path(), &["gate", "--base", "HEAD"])
        .expect_code(2)
        .expect_error("run `hone gate` inside the repository");
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for asked in [
        &["batch", "prove", &gone, "--step", "linger=5ms", "--client", "librdkafka"][..],
        &["batch", "caching", "--bootstrap", &gone][..],
    ] {
        let ran = hone_in(folder.path(), asked).expect_code(1);
        assert!(ran.stderr.contains(&gone) && !ran.stderr.contains("sustain the load"), "{}", ran.stderr);
    }
}

#[test]
fn an_output_that_cannot_be_written_is_found_before_the_load() {
    let broker = Broker::start();
    let ran = hone(&["load", &broker.address, "--output", "/no/such/folder/window.json"]);
    ran.expect_code(1).expect_error("/no/such/folder/window.json can't be written");
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("runs"), "a file").unwrap();
    let other = Broker::start();
    let ran = hone_in(folder.path(), &["compare", &broker.address, &other.address]);
    ran.expect_code(1).expect_error("the output folder runs can't be written");
}

#[test]
fn a_target_that_never_gets_ready() {
    let folder = tempfile::tempdir().unwrap();
    let mark = unlike_any_other("never-ready");
    let sleeper = script(folder.path(), &mark, "echo waiting for the moon >&2; sleep 600 & wait");
    let command = format!("{} {{port}}", sleeper.display());
    let ran = hone_in(folder.path(), &["compare", &command, &command, "--ready-timeout", "1"]);
    ran.expect_code(1).expect_error("waiting for the moon").expect_error("1 s");
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
}

#[test]
fn a_target_that_dies_at_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let dier = script(folder.path(), "dier", "echo 'address in use, says the target' >&2; exit 7");
    let command = format!("{} {{port}}", dier.display());
    let ran = hone_in(folder.path(), &["compare", &command, &command]);
    ran.expect_code(1).expect_error("address in use, says the target").expect_error("7");
}

fn broker_command(wrapper: &str) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    format!("{wrapper}{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen off --data {{data}}")
}

const SMALL: [&str; 12] = [
    "--rate",
    "500",
    "--duration",
    "0.4",
    "--warmup",
    "50",
    "--pairs",
    "5",
    "--control-pairs",
    "0",
    "--primary",
    "latency-p50",
];

#[test]
fn a_target_that_dies_while_it_is_loaded_keeps_what_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    // Fine in its first two starts, dead half a second into the others.
    let text = format!(
        "count={}/count; echo x >> $count; if [ $(wc -l < $count) -gt 2 ]; then (sleep 0.5; kill -9 $$) & fi; exec \"$@\"",
        folder.path().display()
    );
    let wrapper = script(folder.path(), "wrapper", &text);
    let (a, b) = (broker_command(""), broker_command(&format!("{} ", wrapper.display())));
    let args = [
        "compare",
        &a,
        &b,
        "--rate",
        "500",
        "--duration",
        "1.5",
        "--warmup",
        "50",
        "--control-pairs",
        "0",
        "--primary",
        "latency-p50",
    ];
    hone_in(folder.path(), &args).expect_code(3);
    let run = folder.path().join("runs/compare-001");
    assert!(run.join("pairs/001.json").is_file(), "the second pair's result is gone");
    // Each death is an outcome, and is not measured again.
    for index in 2..8 {
        let pair = fs::read(run.join(format!("pairs/{index:03}.json"))).unwrap();
        let pair: serde_json::Value = serde_json::from_slice(&pair).unwrap();
        // Where the machine is busy it may be dead before its window opens.
        let [a, b] = [0, 1].map(|side: usize| pair["troubles"][side].as_array().unwrap().len());
        assert!(a == 0 && b > 0 && pair["dropped"].is_string(), "{pair:#}");
    }
    assert!(!run.join("pairs/008.json").exists(), "six deaths of B alone are enough");
    assert!(run.join("design.json").is_file());
}

#[test]
fn a_target_that_ignores_sigterm_is_killed_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mark = unlike_any_other("ignores-term");
    let wrapper = script(folder.path(), &mark, "trap '' TERM; \"$@\" & while :; do wait; sleep 0.1; done");
    let (a, b) = (broker_command(""), broker_command(&format!("{} ", wrapper.display())));
    let args = [&["compare", &a, &b][..], &SMALL, &["--stop-timeout", "0.3"]].concat();
    hone_in(folder.path(), &args).expect_code(0);
    assert_eq!(processes_with(&mark), Vec::<u32>::new());
    assert_eq!(processes_with(&folder.path().display().to_string()), Vec::<u32>::new());
}

#[test]
fn an_interrupt_leaves_no_process_and_keeps_the_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let command = broker_command("");
    let mut child = stage::hone_command()
        .args(["compare", &command, &command, "--rate", "500", "--duration", "0.5", "--warmup", "10"])
        .current_dir(folder.path())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let first = folder.path().join("runs/compare-001/pairs/000.json");
    while !first.is_file() {
        thread::sleep(std::time::Duration::from_millis(20));
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("interrupted"));
    assert_eq!(processes_with(&folder.path().display().to_string()), Vec::<u32>::new());
    assert!(first.is_file());
}

#[test]
fn reports_of_what_is_no_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.json");
    let report = |text: &str| {
        fs::write(&file, text).unwrap();
        hone(&["report", file.to_str().unwrap()]).expect_code(1)
    };
    report("not json").expect_error("is not a record");
    report("{}").expect_error("is not a Hone record");
    report(r#"{"hone_record": 99, "kind": "window", "body": {}}"#).expect_error("use a newer hone");
    report(r#"{"hone_record": 1, "kind": "machine", "body": {}}"#)
        .expect_error("Hone has no report of that kind");
    report(r#"{"hone_record": 1, "kind": "window", "body": {}}"#).expect_error("missing field");
    hone(&["report", folder.path().to_str().unwrap()]).expect_code(1).expect_error("has none of");
    hone(&["report", "/no/such/file"]).expect_code(1).expect_error("/no/such/file can't be read");
}

#[test]
fn a_load_with_a_mistake_is_named_once_and_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |load: &str, expected: &str| {
        let text = format!(
            "name = \"x\"\n[target]\nbinary = \"p\"\nargs = [\"{{port}}\"]\n[optimize]\ntrain = \"reading\"\njudge = [\"reading\"]\n\
             judge_what_was_trained = true\n[workload.reading]\n{load}\n"
        );
        fs::write(folder.path().join("hone.toml"), text).unwrap();
        let ran = hone_in(folder.path(), &["optimize", "hone.toml"]).expect_error(expected);
        assert!(ran.code == 1 || ran.code == 2, "{}", ran.stderr);
        assert!(ran.stderr.matches("workload").count() < 2, "{}", ran.stderr);
    };
    refused("command = \"true {prt}\"\noperations = 5", "workload `reading`: unknown placeholder {prt}");
    refused("command = \"no-such-load\"\noperations = 5", "there is no program `no-such-load` in PATH");
    refused("command = \"true\"\noperations = 0", "hone.toml:11: `operations` must be at least 1");
    refused("command = \"true\"", "hone.toml:10: `operations` is missing");
}

#[test]
fn experiments_with_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hone.toml");
    let good =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/broker/hone.toml"))
            .unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "`{from}` does not stand in the example");
        fs::write(&file, text).unwrap();
        hone_in(folder.path(), &["optimize", "hone.toml"]).expect_code(2).expect_error(expected);
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "a folder was made for a broken experiment"
        );
    };
    check("requests_per_s", "request_per_s", "unknown key `request_per_s` (did you mean `requests_per_s`?)");
    check("pairs = 14", "pairs = \"many\"", "hone.toml:28: \"many\" is a text; write a whole number");
    check("train = \"telemetry\"", "train = \"telemetri\"", "did you mean `telemetry`?");
    check("primary = \"cpu-per-record\"", "primary = \"cpu_per_record\"", "did you mean `cpu-per-record`?");
    check("mode = \"duet\"", "mode = \"duett\"", "did you mean `duet`?");
    // What would be found out after minutes of building is found out now.
    check("pairs = 14", "pairs = 3", "3 A/B pairs are too few");
    check("equivalence = 0.02", "equivalence = 2.0", "`equivalence` must be between 0 and 1");
    check("payload = \"telemetry\"", "payload = \"telemetri\"", "workload `telemetry`");
}
