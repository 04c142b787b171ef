//! `hone batch prove`: a planted gain is kept, what is worse or useless is put back; whatever ends a run, nothing stays behind.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hone_load::Admin;
use serde_json::Value;

mod stage;
use stage::clients::franz_go;
use stage::{Broker, PATIENT, Ran, hone_command, hone_in, processes_with};

/// A load of small windows; neighbours are allowed, since tests run beside each other.
const LOAD: [&str; 16] = [
    "--rate",
    "2000",
    "--connections",
    "4",
    "--partitions",
    "2",
    "--duration",
    "2",
    "--warmup",
    "200",
    "--keep-disturbed",
    "--max-lateness",
    "5s",
    "--mode",
    "duet",
    "--json",
];

fn prove(folder: &Path, args: &[&str]) -> Ran {
    hone_in(folder, &[&["batch", "prove", "--quiet"], args].concat())
}

fn decisions(proof: &Value) -> Vec<String> {
    let steps = proof["body"]["steps"].as_array().unwrap();
    steps.iter().map(|step| step["decision"].as_str().unwrap().to_owned()).collect()
}

/// A proof in a folder of its own, with the code that it ends with. Where neighbours starve the machine, windows are saturated that would
/// not be, and a comparison rightly shows nothing: then it is measured anew, twice at most.
fn proved(args: &[&str], code: i32) -> (tempfile::TempDir, Value) {
    let attempt = || {
        let folder = tempfile::tempdir().unwrap();
        let ran = prove(folder.path(), args);
        assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
        (folder, ran)
    };
    let mut found = attempt();
    for _ in 0..2 {
        if found.1.stdout.contains("was saturated") {
            found = attempt();
        }
    }
    (found.0, found.1.expect_code(code).json())
}

/// Batches of one record cost many times the CPU of batches of hundreds, on any machine.
#[test]
fn a_gain_is_kept_and_what_changes_nothing_is_put_back() {
    let papers = tempfile::tempdir().unwrap();
    let foretold = papers.path().join("foretold.json");
    fs::write(&foretold, r#"{"body": {"batch_bytes": 12000.0, "requests_per_s": 20.0}}"#).unwrap();
    let told = format!("1={}", foretold.display());
    // Those of a file come before the others.
    let file = papers.path().join("steps.toml");
    fs::write(&file, "[[step]]\nset = \"linger=200ms\"\n").unwrap();
    let steps = [
        "--baseline",
        "linger=0",
        "--step",
        "buffer-memory=512MiB",
        "--steps",
        file.to_str().unwrap(),
        "--predicted",
        &told,
    ];
    let rule = ["--require", "p99<10s", "--pairs", "7", "--control-pairs", "0"];
    let (folder, proof) = proved(&[&LOAD[..], &steps, &rule].concat(), 0);
    assert_eq!(decisions(&proof), ["accepted", "rejected"], "{proof:#}");
    let kept = &proof["body"]["kept"]["engine"]["librdkafka"]["settings"];
    assert_eq!(kept["linger.ms"], "200");
    assert!(kept.get("queue.buffering.max.kbytes").is_none(), "{kept}");
    // The second step was held against the first, not against the original.
    let of =
        |step: usize, state: &str, what: &str| proof["body"]["steps"][step][state][what].as_f64().unwrap();
    let batch = |step, state| of(step, state, "batch_records") / of(step, state, "batches");
    assert!(batch(0, "after") > 10.0 * batch(0, "before"), "{} {}", batch(0, "before"), batch(0, "after"));
    assert!(batch(1, "before") > 5.0 * batch(0, "before"));
    let run = folder.path().join("runs/batch-prove-001");
    for file in ["proof.json", "proof.md", "report.html"] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("p99.999") && page.contains("too few samples") && page.contains("linger=200ms"));
    let ledger = fs::read_to_string(folder.path().join("runs/ledger.jsonl")).unwrap();
    let entries: Vec<Value> = ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(entries.len(), 2);
    assert!(
        entries[0]["body"]["predicted"]["rule"].as_str().unwrap().contains("predicted 12,000, measured"),
        "{ledger}"
    );
    assert_eq!(entries[0]["body"]["decision"], "accepted");
    assert!(processes_with(folder.path().to_str().unwrap()).is_empty());
}

/// A linger that only waits is worse by the latency, and a rule of the user's that no step meets is a reason of its own.
#[test]
fn what_is_worse_is_rejected() {
    let steps = ["--baseline", "linger=0", "--step", "linger=300ms", "--primary", "latency-p50"];
    let rule = ["--require", "p99<1us", "--pairs", "7", "--control-pairs", "0"];
    let (_folder, proof) = proved(&[&LOAD[..], &steps, &rule].concat(), 3);
    assert_eq!(decisions(&proof), ["rejected"]);
    let step = &proof["body"]["steps"][0];
    assert!(step["why"].as_str().unwrap().contains("worse"), "{}", step["why"]);
    let rule = step["guards"]
        .as_array()
        .unwrap()
        .iter()
        .find(|guard| guard["rule"].as_str().unwrap().contains("p99"));
    assert_eq!(rule.unwrap()["held"], false);
}

fn topics(broker: &Broker) -> Vec<String> {
    let all = Admin::connect(&broker.address).unwrap().topics().unwrap();
    all.into_iter().map(|listed| listed.topic).filter(|topic| topic.starts_with("hone-")).collect()
}

fn wait_until(what: &str, mut there: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !there() {
        assert!(Instant::now() < deadline, "{what} did not come");
        thread::sleep(Duration::from_millis(20));
    }
}

fn started(folder: &Path, args: &[&str]) -> Child {
    hone_command()
        .args(["batch", "prove"])
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn pairs(run: &Path) -> BTreeMap<PathBuf, String> {
    let files =
        fs::read_dir(run.join("steps/01/pairs")).into_iter().flatten().flatten().map(|file| file.path());
    files
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect()
}

/// The name of the test topic is known before it is made, so a run that had no time to clean up is cleaned up after.
#[test]
fn a_killed_run_goes_on_after_its_last_pair_and_its_topics_go() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    Admin::connect(&broker.address).unwrap().create_topic("orders", 1, &BTreeMap::new()).unwrap();
    let load =
        ["--rate", "500", "--connections", "2", "--partitions", "1", "--duration", "1", "--warmup", "100"];
    let rule = [
        "--pairs",
        "5",
        "--control-pairs",
        "0",
        "--keep-disturbed",
        "--require",
        "p90<10s",
        "--primary",
        "latency-p50",
    ];
    let steps = [broker.address.as_str(), "--step", "linger=30ms", "--max-lateness", "5s"];
    let mut run = started(folder.path(), &[&steps[..], &load, &rule].concat());
    let place = folder.path().join("runs/batch-prove-001");
    wait_until("a pair", || !pairs(&place).is_empty());
    wait_until("the next topic", || !topics(&broker).is_empty());
    run.kill().unwrap();
    run.wait().unwrap();
    let (before, left) = (pairs(&place), topics(&broker));
    assert!(left.iter().all(|topic| topic.starts_with("hone-prove-")), "{left:?}");
    let ran = prove(folder.path(), &["--resume", place.to_str().unwrap(), "--json"]);
    // Few pairs of a step that only waits: worse, or not shown.
    let code = ran.code;
    let ran = ran.expect_code(if code == 3 { 3 } else { 0 });
    assert_eq!(decisions(&ran.json()), ["rejected"]);
    let after = pairs(&place);
    // A pair that does not count is measured again.
    let counted = after.values().filter(|text| !text.contains("\"dropped\": \"")).count();
    assert_eq!(counted, 5, "{after:#?}");
    assert!(before.iter().all(|(path, text)| after[path] == *text), "what was measured stays as it was");
    assert_eq!(topics(&broker), Vec::<String>::new());
    let all = Admin::connect(&broker.address).unwrap().topics().unwrap();
    assert!(all.iter().any(|listed| listed.topic == "orders"), "a topic of the user's is not touched");
}

/// Somebody wants to look at them; whoever comes next leaves them, too.
#[test]
fn topics_that_shall_stay_stay() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    let load =
        ["--rate", "500", "--connections", "1", "--partitions", "1", "--duration", "0.5", "--warmup", "20"];
    let few = ["--pairs", "5", "--control-pairs", "0", "--keep-disturbed", "--guard-metric", "latency-p50"];
    let args = [&[broker.address.as_str(), "--step", "linger=2ms", "--max-lateness", "5s"][..], &load, &few]
        .concat();
    let ran = prove(folder.path(), &[&args[..], &["--keep-topics"]].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let kept = topics(&broker);
    assert!(kept.len() >= 10 && kept.iter().all(|topic| topic.starts_with("hone-prove-")), "{kept:?}");
    let ran = prove(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    assert_eq!(topics(&broker), kept);
}

#[test]
fn an_interrupt_leaves_no_topic_and_no_process() {
    let folder = tempfile::tempdir().unwrap();
    let args = [&LOAD[..], &["--step", "linger=30ms", "--pairs", "5", "--control-pairs", "5"]].concat();
    let mut run = started(folder.path(), &args);
    let scratch = folder.path().to_str().unwrap().to_owned();
    wait_until("a broker", || !processes_with(&scratch).is_empty());
    thread::sleep(Duration::from_secs(2));
    // SAFETY: a signal to a child that has not been waited for.
    #[expect(unsafe_code, reason = "the standard library has no signals")]
    unsafe {
        libc::kill(run.id() as i32, libc::SIGINT);
    }
    assert_eq!(run.wait().unwrap().code(), Some(1));
    wait_until("the end of all brokers", || processes_with(&scratch).is_empty());
    let left = fs::read_dir(folder.path().join("runs/batch-prove-001/scratch")).into_iter().flatten().count();
    assert_eq!(left, 0, "data folders of brokers");
}

/// The topic's producer is replicated on test topics; the topic is only read.
#[test]
fn a_topic_is_replicated_on_a_test_topic() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    let config = BTreeMap::new();
    Admin::connect(&broker.address).unwrap().create_topic("orders", 3, &config).unwrap();
    let sent = [
        "load",
        &broker.address,
        "--topic",
        "orders",
        "--client",
        "librdkafka",
        "--rate",
        "1500",
        "--bytes",
        "321",
    ];
    let more = ["--duration", "2", "--warmup", "0", "--compression", "lz4", "--connections", "1", "--json"];
    hone_in(folder.path(), &[&sent[..], &more].concat()).expect_code(0);
    // Tests run beside each other: whether it is like the topic is for the record to say, and not for this run to end.
    let from = [
        "--source-broker",
        &broker.address,
        "--topic",
        "orders",
        "--step",
        "linger=30ms",
        "--allow-mismatch",
    ];
    let rule = [
        "--pairs",
        "5",
        "--control-pairs",
        "0",
        "--keep-disturbed",
        "--duration",
        "1",
        "--warmup",
        "100",
        "--json",
    ];
    let ran = prove(folder.path(), &[&from[..], &rule, &PATIENT].concat());
    // A linger of 30 ms makes the wait longer, which a quiet machine shows.
    assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
    let proof = ran.json();
    let load = &proof["body"]["workload"];
    assert_eq!((load["partitions"].as_u64(), load["compression"].as_str()), (Some(3), Some("lz4")));
    assert_eq!(load["record_bytes"], 321);
    assert!(load["schedule"]["replay"].is_object() && load["recording"]["path"].is_string(), "{load}");
    assert_eq!(load["connections"], 1, "{load}");
    let replica = &proof["body"]["replica"];
    for figure in ["records_per_s", "bytes_per_s", "batches_per_s"] {
        let of = |which: &str| replica[which][figure].as_f64().unwrap();
        assert!((of("here") / of("today") - 1.0).abs() < 0.3, "{figure}: {replica:#}");
    }
    let rate = load["requests_per_s"].as_f64().unwrap();
    assert!((1_000.0..2_000.0).contains(&rate), "{rate}");
    assert!(proof["body"]["load"].as_str().unwrap().contains("topic orders"));
}

/// A load that makes other batches than the topic has proves nothing of the topic, unless somebody wants that.
#[test]
fn a_replica_that_is_not_like_its_topic_ends_the_run_before_the_first_step() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    Admin::connect(&broker.address).unwrap().create_topic("orders", 1, &BTreeMap::new()).unwrap();
    let to = ["load", &broker.address, "--topic", "orders", "--client", "librdkafka"];
    let more = ["--client-set", "linger.ms=100", "--rate", "1000", "--duration", "3", "--warmup", "0"];
    hone_in(folder.path(), &[&to[..], &more, &["--connections", "1", "--json"]].concat()).expect_code(0);
    let asked =
        [broker.address.as_str(), "--topic", "orders", "--baseline", "linger=0", "--step", "linger=30ms"];
    let rule =
        ["--pairs", "5", "--control-pairs", "0", "--keep-disturbed", "--duration", "1", "--warmup", "50"];
    let rest = ["--primary", "latency-p50", "--require", "p90<10s", "--json"];
    prove(folder.path(), &[&asked[..], &rule, &rest, &PATIENT].concat())
        .expect_code(1)
        .expect_error("The replica differs from topic orders: ")
        .expect_error("batches/s")
        .expect_error("--allow-mismatch");
    let run = folder.path().join("runs/batch-prove-001");
    assert!(!run.join("steps").exists() && topics(&broker).is_empty());
    let ran = prove(folder.path(), &["--resume", run.to_str().unwrap(), "--allow-mismatch", "--json"]);
    assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
    let replica = &ran.json()["body"]["replica"];
    let of = |which: &str| replica[which]["batches_per_s"].as_f64().unwrap();
    assert!(of("here") > 10.0 * of("today"), "{replica:#}");
    for file in ["proof.md", "report.html"] {
        let text = fs::read_to_string(run.join(file)).unwrap();
        assert!(text.contains("differs from t"), "{file}: {text}");
    }
}

/// Two times of a topic are shown, and nothing is judged or sent.
#[test]
fn a_live_topic_is_looked_at_twice_and_drift_is_said() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    Admin::connect(&broker.address).unwrap().create_topic("orders", 1, &BTreeMap::new()).unwrap();
    let send = |linger: &str| {
        let to =
            ["load", &broker.address, "--topic", "orders", "--client", "librdkafka", "--client-set", linger];
        let more = ["--rate", "500", "--duration", "2", "--warmup", "0", "--connections", "1", "--json"];
        hone_in(folder.path(), &[&to[..], &more].concat()).expect_code(0);
    };
    send("linger.ms=0");
    let look = [
        broker.address.as_str(),
        "--observe",
        "--topic",
        "orders",
        "--duration",
        "3",
        "--step",
        "linger=100ms",
    ];
    prove(folder.path(), &look).expect_code(0);
    let run = folder.path().join("runs/batch-live-001");
    prove(folder.path(), &["--resume", run.to_str().unwrap()]).expect_code(2).expect_error("too early");
    thread::sleep(Duration::from_secs(3));
    send("linger.ms=100");
    let found = prove(folder.path(), &["--resume", run.to_str().unwrap(), "--json"]).expect_code(0).json();
    let records = |at: &str| found["body"][at]["mean_records"]["value"].as_f64().unwrap();
    assert!(records("after") > 3.0 * records("before"), "{found}");
    assert!(found["body"]["limits"][0].as_str().unwrap().contains("drift can't be excluded"));
    assert!(topics(&broker).is_empty(), "nothing is sent");
}

/// A topic's own records, the replay's figures of another linger, and the proof that holds them against what comes.
#[test]
fn what_whatif_foresees_is_judged_by_prove() {
    let (broker, folder) = (Broker::start(), tempfile::tempdir().unwrap());
    Admin::connect(&broker.address).unwrap().create_topic("orders", 2, &BTreeMap::new()).unwrap();
    let to = ["load", &broker.address, "--topic", "orders", "--client", "librdkafka"];
    let more = ["--client-set", "linger.ms=5", "--rate", "1500", "--duration", "8", "--warmup", "0"];
    hone_in(folder.path(), &[&to[..], &more, &["--connections", "1", "--json"]].concat()).expect_code(0);
    let asked = ["batch", "whatif", &broker.address, "orders", "--linger", "50ms", "--json"];
    let today = ["--today-client", "librdkafka", "--open-loop", "--quiet"];
    let whatif = hone_in(folder.path(), &[&asked[..], &today].concat()).expect_code(0);
    fs::write(folder.path().join("whatif.json"), &whatif.stdout).unwrap();
    let from = [
        "--source-broker",
        &broker.address,
        "--topic",
        "orders",
        "--baseline",
        "linger=5ms",
        "--allow-mismatch",
    ];
    let step =
        ["--step", "linger=50ms", "--predicted", "1=whatif.json", "--duration", "2", "--warmup", "100"];
    let rule = ["--pairs", "5", "--control-pairs", "0", "--keep-disturbed", "--require", "p99<10s"];
    let rest = ["--max-lateness", "5s", "--mode", "duet", "--json"];
    let ran = prove(folder.path(), &[&from[..], &step, &rule, &rest].concat());
    assert!([0, 3].contains(&ran.code), "{}: {}", ran.code, ran.stderr);
    let proof = ran.json();
    let step = &proof["body"]["steps"][0];
    let said = |what: &str, end: &str| step["predicted"][what][end].as_f64().unwrap();
    for what in ["batches_per_s", "batch_bytes", "requests_per_s", "added_wait_ms"] {
        assert!(
            said(what, "low") <= said(what, "value") && said(what, "value") <= said(what, "high"),
            "{step}"
        );
    }
    // A tenth of the batches was foretold; half of that fall must come.
    assert!(
        said("batches_per_s", "value") < 0.5 * step["predicted"]["before"]["batches_per_s"].as_f64().unwrap()
    );
    let guards = step["guards"].as_array().unwrap();
    let half = guards
        .iter()
        .find(|guard| guard["rule"].as_str().unwrap().contains("half of the predicted"))
        .unwrap();
    assert_eq!(half["held"], true, "{step}");
    let ledger = fs::read_to_string(folder.path().join("runs/ledger.jsonl")).unwrap();
    let entry: Value = serde_json::from_str(ledger.lines().last().unwrap()).unwrap();
    assert_eq!(entry["body"]["predicted"]["came_true"], true, "{ledger}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&[][..], "no step to prove"),
        (&["--step", "lingr=5ms"], "did you mean `linger`"),
        (&["--step", "linger=5ms", "--client", "wire"], "makes its own batches"),
        (&["--step", "client.no.such.setting=1"], "No such configuration property"),
        (&["--step", "linger=5ms", "--pairs", "3"], "too few for a confidence interval"),
        (&["--step", "linger=5ms", "--topic", "orders"], "the broker of topic orders is not known"),
        (&["--step", "linger=5ms", "--predicted", "2=x.json"], "the steps have the numbers 1 to 1"),
        (&["--step", "linger=5ms", "--require", "lag<=1000"], "needs consumers, and the load has none"),
        (&["--step", "linger=5ms", "--require", "p99.999<1s"], "needs 1000000 requests"),
        (&["--step", "linger=5ms", "--step", "acks=0,idempotence=false"], "the guard metric p99"),
        (&["127.0.0.1:1", "--step", "linger=5ms", "--mode", "duet"], "--mode duet needs a command"),
        (&["--resume", "nowhere"], "there is no run folder"),
    ] {
        let ran = prove(folder.path(), args);
        assert!(ran.code == 2 || ran.code == 1, "{args:?}: {}", ran.code);
        ran.expect_error(expected);
    }
    assert!(!folder.path().join("runs").exists(), "nothing was begun");
}

/// A proof on top of what a killed run left would be one of that, too.
#[test]
fn what_a_killed_run_left_set_stops_the_next_one_where_it_can_not_be_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let left = folder.path().join("runs/compare-001");
    fs::create_dir_all(&left).unwrap();
    let way_back = serde_json::json!({ "cluster": {
        "address": "127.0.0.1:1", "name": "compression.type", "set": "zstd", "value": null, "in_force": [[0, "producer"]]
    }});
    fs::write(left.join("undo.json"), way_back.to_string()).unwrap();
    for args in [&["batch", "prove", "--step", "linger=5ms"][..], &["batch", "caching"]] {
        let ran = hone_in(folder.path(), &[args, &["--quiet"]].concat());
        ran.expect_code(1).expect_error("has to be restored before the measurement");
    }
    assert_eq!(fs::read_dir(folder.path().join("runs")).unwrap().count(), 1, "nothing was begun");
}

/// What can't be had is an answer, and the steps behind it are asked all the same. A rule that limits no latency leaves the guard on p99 there.
#[test]
fn a_step_that_is_refused_is_rejected_and_the_next_one_tried() {
    let folder = tempfile::tempdir().unwrap();
    let steps = ["--step", "topic.max.message.bytes=none", "--step", "linger=100ms"];
    let rules = ["--require", "errors<12.34%", "--require", "lag<=123456", "--consumers", "1"];
    let few = ["--pairs", "5", "--control-pairs", "0"];
    let ran = prove(folder.path(), &[&LOAD[..], &steps, &rules, &few].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let proof = ran.json();
    let steps = proof["body"]["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 2);
    assert_eq!(steps[0]["decision"], "rejected");
    let why = steps[0]["why"].as_str().unwrap();
    assert!(why.contains("INVALID_CONFIG"), "{why}");
    assert!(!steps[1]["comparison"].is_null(), "{}", steps[1]);
    let rule = fs::read_to_string(folder.path().join("runs/batch-prove-001/rule.txt")).unwrap();
    for told in ["Guard metrics: p99, end-to-end p99;", "errors<12.34%, lag<=123456 must be met"] {
        assert!(rule.contains(told), "{told}: {rule}");
    }
}

/// A linger has Kafka's own name, which a client of one's own need not know.
#[test]
fn what_a_client_does_not_take_is_rejected_and_the_next_one_tried() {
    let Some(client) = franz_go() else { return };
    let folder = tempfile::tempdir().unwrap();
    let steps = ["--client", &client, "--step", "linger=20ms", "--step", "codec=gzip"];
    let few = ["--require", "p90<10s", "--pairs", "5", "--control-pairs", "0"];
    let ran = prove(folder.path(), &[&LOAD[..], &steps, &few].concat());
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let proof = ran.json();
    let steps = proof["body"]["steps"].as_array().unwrap();
    let why = steps[0]["why"].as_str().unwrap();
    assert!(why.contains("it can't be applied: ") && why.contains("is none of linger_ms"), "{why}");
    assert!(!steps[1]["comparison"].is_null(), "which is the load's own: {}", steps[1]);
}

#[test]
fn the_caching_card_names_both_classes_and_counts_fsyncs() {
    let folder = tempfile::tempdir().unwrap();
    let load =
        [&LOAD[..], &["--client-set", "linger.ms=0", "--pairs", "5", "--control-pairs", "0", "--quiet"]]
            .concat();
    let ran = hone_in(folder.path(), &[&["batch", "caching"], &load[..]].concat()).expect_code(0);
    let card = &ran.json()["body"];
    let [without, with] = [0, 1].map(|at: usize| card["classes"][at].as_str().unwrap().to_owned());
    assert!(without.starts_with("fsync") && with.starts_with("memory"), "{without} {with}");
    assert!(card["risk"].as_str().unwrap().contains("loses acknowledged records"));
    let [fsynced, cached] = [0, 1].map(|at: usize| card["fsyncs_per_batch"][at].as_f64().unwrap());
    assert!(fsynced > 0.02 && cached < fsynced / 3.0, "{fsynced} {cached}");
    let step = &card["proof"]["steps"][0];
    assert!(step["promise"].as_str().unwrap().contains("two durability classes"), "{step}");
}
