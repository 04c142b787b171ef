//! `hone tune` on the embedded broker: what it finds by itself, what was planted, what it must leave alone, and a run that is broken off.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

mod stage;
use stage::clients::{alone, franz_go};
use stage::{Ran, hone_command, hone_in, processes_with};

/// Producers that wait for nothing, to a topic whose codec is another than theirs: both can be seen from outside.
const SLOW: &str = r#"
name = "orders"
[tune]
mode = "duet"
pairs = 6
control_pairs = 0
# What helps or harms does so many times over; what has no effect is to be taken for better once in hundreds of runs.
alpha = 0.01
keep_disturbed = true
lateness_limit_ms = 5000
require = ["p99<10s"]
CANDIDATES
[workload.orders]
client = "librdkafka"
client_settings = { "linger.ms" = "0" }
topic_config = { "compression.type" = "gzip" }
requests_per_s = 2500
record_bytes = 300
connections = 2
partitions = 2
warmup_requests = 100
duration_s = 0.4
"#;

/// One that does harm, and two that do nothing; what helps is not named.
const PLANTED: &str = r#"
[[tune.candidate]]
set = "client.batch.num.messages=1"
[[tune.candidate]]
set = "env.HONE_OF_NO_USE=1"
[[tune.candidate]]
set = "topic.retention.ms=600000"
"#;

fn file(folder: &Path, candidates: &str) {
    fs::write(folder.join("hone.toml"), SLOW.replace("CANDIDATES", candidates)).unwrap();
}

fn tune(folder: &Path, args: &[&str]) -> Ran {
    hone_in(folder, &[&["tune"], args].concat())
}

fn decisions(body: &Value) -> Vec<(String, String)> {
    let steps = body["steps"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    steps.map(|step| (text(&step["step"]["change"]), text(&step["step"]["decision"]))).collect()
}

#[test]
fn what_is_planted_is_sorted_and_what_helps_is_found() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), PLANTED);
    let ran = tune(folder.path(), &["hone.toml", "--json"]).expect_code(0);
    let body = ran.json()["body"].clone();
    let found = decisions(&body);
    let of =
        |change: &str| found.iter().find(|(name, _)| name == change).map(|(_, decision)| decision.as_str());
    let linger =
        found.iter().find(|(name, _)| name.starts_with("linger=")).unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!(linger.1, "accepted", "{found:?}");
    assert_eq!(of("codec=gzip"), Some("accepted"), "{found:?}");
    assert_eq!(of("client.batch.num.messages=1"), Some("rejected"), "{found:?}");
    // What has no effect is kept in one of a hundred tries, as the error that was asked for has it.
    assert!(of("env.HONE_OF_NO_USE=1").is_some() && of("topic.retention.ms=600000").is_some(), "{found:?}");
    // The most hopeful one first, and why.
    assert!(found[0].0.starts_with("linger="), "{found:?}");
    assert!(
        body["steps"][0]["expected_gain"]["why"].as_str().unwrap().contains("records per request"),
        "{body:#}"
    );
    // What they are worth beside each other, multiplied, and not the steps one after the other, which are all together by construction.
    let together = &body["together"];
    let all = &together["all"]["comparison"]["judgements"][0]["estimate"]["ratio"];
    assert!(all.as_f64().unwrap() < 0.7, "{all}");
    let kept = body["kept"].as_array().unwrap();
    let without = together["without"].as_array().unwrap();
    assert!(kept.len() >= 2 && without.len() == kept.len(), "{together:#}");
    let ratio = |step: &Value| step["comparison"]["judgements"][0]["estimate"]["ratio"].as_f64().unwrap();
    let product: f64 = without.iter().map(ratio).product();
    assert!((product / together["product"].as_f64().unwrap() - 1.0).abs() < 1e-9, "{together:#}");
    assert_eq!(body["workload_kept"]["compression"], "gzip");

    let run = folder.path().join("runs/orders-001");
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    for told in ["Change by change", "All kept changes together", "codec=gzip", "hone batch settings"] {
        assert!(page.contains(told), "the page does not tell {told}");
    }
    let ledger = fs::read_to_string(folder.path().join("runs/ledger.jsonl")).unwrap();
    let lines: Vec<Value> = ledger.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |wanted: fn(&Value) -> bool| lines.iter().filter(|line| wanted(&line["body"])).count();
    assert_eq!(
        of(|body| body["question"].as_str().unwrap().contains("kept until step")),
        found.len(),
        "{ledger}"
    );
    assert!(of(|body| body["change"] == "all: all together") > 0, "{ledger}");
    let accepted = found.iter().filter(|(_, decision)| decision == "accepted").count();
    let closed = of(|body| body["decision"] == "put back" || body["decision"] == "replaced");
    assert_eq!(closed, accepted - kept.len(), "each that is not kept any more: {ledger}");
    // How to make it last can be pasted.
    let lines = body["to_keep"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let commands: Vec<&str> = lines.filter_map(|line| Some(line.split_once("client: hone ")?.1)).collect();
    assert!(!commands.is_empty(), "{body:#}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').collect();
        hone_in(folder.path(), &words).expect_code(0);
    }
    let comment =
        hone_in(folder.path(), &["report", "runs/orders-001", "--pr-comment"]).expect_code(0).stdout;
    assert!(comment.contains("client: codec=gzip") && comment.contains("cores of"), "{comment}");
    let story = hone_in(folder.path(), &["report", "runs", "--json"]).expect_code(0).json();
    assert_eq!(story["body"]["machines"].as_array().unwrap().len(), 1, "the run says where it was");
    assert!(page.contains("download=\"windows.csv\""), "no numbers to take along");
    // A run that is complete has nothing left to do.
    let again = tune(folder.path(), &["--resume", run.to_str().unwrap(), "--json"]).expect_code(0);
    assert_eq!(again.json()["body"]["steps"], body["steps"]);
    assert_eq!(fs::read_to_string(folder.path().join("runs/ledger.jsonl")).unwrap(), ledger);
}

/// Each write of the log begins 4 ms late, and records wait for 5 ms: two things to mend, by a fault of the broker and by a setting of the producer.
/// So few requests that none waits for another's write: with more of them a window now and then tips over into a queue, and says nothing of either.
const LATE: &str = r#"
name = "late"
[tune]
target = "HONE broker --listen 127.0.0.1:{port} --metrics-listen off --data {data} --fault write-delay,ms=4"
objective = "latency-p50"
guards = []
mode = "duet"
pairs = 6
control_pairs = 0
alpha = 0.02
keep_disturbed = true
lateness_limit_ms = 5000
find = false
CANDIDATES
[workload.late]
client = "librdkafka"
client_settings = { "linger.ms" = "5" }
requests_per_s = 50
record_bytes = 200
connections = 1
partitions = 1
warmup_requests = 20
duration_s = 1
seed = SEED
"#;

/// Five changes: two that help, one that harms, two of no effect.
const FIVE: [(&str, bool); 5] = [
    (r"arg.--fault=write-delay\,ms=1", true),
    ("linger=0", true),
    ("linger=40ms", false),
    ("env.HONE_OF_NO_USE=1", false),
    ("topic.retention.ms=600000", false),
];

/// What became of the five, in another order for each seed, and with other arrivals.
fn sorted(seed: u64) -> Vec<(String, String)> {
    let mut planted = FIVE;
    planted.rotate_left(seed as usize % 5);
    let lines = planted.map(|(set, _)| format!("[[tune.candidate]]\nset = '{set}'\n")).concat();
    let folder = tempfile::tempdir().unwrap();
    let text = LATE
        .replace("CANDIDATES", &lines)
        .replace("HONE ", concat!(env!("CARGO_BIN_EXE_hone"), " "))
        .replace("SEED", &(1_000 * seed).to_string());
    fs::write(folder.path().join("hone.toml"), text).unwrap();
    decisions(&tune(folder.path(), &["hone.toml", "--json"]).expect_code(0).json()["body"])
}

fn is_right(found: &[(String, String)], of: &[(&str, bool)]) -> bool {
    of.iter().all(|(set, helps)| {
        found.iter().any(|(name, decision)| name == set && (decision == "accepted") == *helps)
    })
}

#[test]
fn planted_faults_are_found_and_harm_is_put_back() {
    let _alone = alone();
    let found = sorted(0);
    // What has no effect is kept in one of a hundred runs, as the error that was asked for has it.
    assert!(is_right(&found, &FIVE[..3]), "{found:?}");
}

/// Twenty runs of two minutes, with HONE_LONG=1.
#[test]
#[expect(clippy::print_stderr, reason = "what became of each seed")]
fn planted_changes_are_sorted_rightly_in_18_of_20_runs() {
    if std::env::var_os("HONE_LONG").is_none() {
        return;
    }
    let _alone = alone();
    let runs = (0..20).map(|seed| (seed, sorted(seed)));
    let told = runs.inspect(|(seed, found)| {
        let word = if is_right(found, &FIVE) { "right" } else { "wrong" };
        eprintln!("seed {seed}: {word}: {found:?}");
    });
    let wrong: Vec<_> = told.filter(|(_, found)| !is_right(found, &FIVE)).collect();
    assert!(wrong.len() <= 2, "{wrong:?}");
}

fn started(folder: &Path) -> Child {
    let mut command = hone_command();
    command.args(["tune", "hone.toml", "--json", "-q"]).current_dir(folder);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Killed where it hurts: behind a choice, within a pair.
#[test]
fn a_run_that_is_killed_goes_on_where_it_was() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "find = false\n[[tune.candidate]]\nset = \"linger=30ms\"\n");
    let run = folder.path().join("runs/orders-001");
    let mut child = started(folder.path());
    let pair = run.join("steps/01/pairs/001.json");
    for _ in 0..600 {
        if pair.is_file() {
            break;
        }
        thread::sleep(Duration::from_millis(100));
    }
    assert!(pair.is_file(), "no pair within a minute");
    child.kill().unwrap();
    child.wait().unwrap();
    let chosen = fs::read_to_string(run.join("steps/01/chosen.json")).unwrap();
    let kept = fs::metadata(&pair).unwrap().modified().unwrap();
    let ran = tune(folder.path(), &["--resume", run.to_str().unwrap(), "--json"]).expect_code(0);
    assert_eq!(decisions(&ran.json()["body"]), [("linger=30ms".to_owned(), "accepted".to_owned())]);
    assert_eq!(fs::read_to_string(run.join("steps/01/chosen.json")).unwrap(), chosen);
    assert_eq!(fs::metadata(&pair).unwrap().modified().unwrap(), kept, "measured once");
    assert_eq!(ran.json()["body"]["together"], Value::Null, "one change says itself what it is worth");
    let scratch = folder.path().to_str().unwrap().to_owned();
    assert_eq!(processes_with(&scratch), Vec::<u32>::new());
}

/// On a broker that goes on running nobody else would find them.
#[test]
fn topics_that_a_killed_run_left_are_deleted_by_the_next_one() {
    let _alone = alone();
    let (broker, folder) = (stage::Broker::start(), tempfile::tempdir().unwrap());
    let target = format!("target = \"{}\"\nfind = false\n", broker.address);
    file(folder.path(), &target);
    let mut child = started(folder.path());
    let run = folder.path().join("runs/orders-001");
    let pair = run.join("pilot/pairs/001.json");
    (0..600).take_while(|_| !pair.is_file()).for_each(|_| thread::sleep(Duration::from_millis(100)));
    assert!(pair.is_file(), "no pair within a minute");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(run.join("topics.json").is_file());
    // Its ledger can't be written, so it measures nothing; it looks after the other's topics all the same.
    fs::create_dir_all(folder.path().join("runs/ledger.jsonl")).unwrap();
    tune(folder.path(), &["hone.toml"]).expect_code(1).expect_error("ledger.jsonl");
    assert!(!run.join("topics.json").exists(), "deleted, and noted");
    assert!(
        !folder.path().join("runs/orders-002/pilot").exists(),
        "nothing is measured that can't be entered"
    );
}

/// Measured again it would be refused again, also by whoever resumes the run.
#[test]
fn what_a_broker_does_not_take_is_rejected_and_the_run_goes_on() {
    let _alone = alone();
    let (broker, folder) = (stage::Broker::start(), tempfile::tempdir().unwrap());
    let candidates = "find = false\n[[tune.candidate]]\nset = \"broker.message.max.bytes=none\"\nhope = 0.9\n\
                      [[tune.candidate]]\nset = \"linger=30ms\"\n";
    // One that runs already, and one that is started for every window.
    for target in [format!("target = \"{}\"\n", broker.address), String::new()] {
        file(folder.path(), &format!("{target}{candidates}"));
        let body = tune(folder.path(), &["hone.toml", "--json"]).expect_code(0).json()["body"].clone();
        let found = decisions(&body);
        assert_eq!(found[0], ("broker.message.max.bytes=none".to_owned(), "rejected".to_owned()));
        assert_eq!(found[1].0, "linger=30ms", "{found:?}");
        let why = body["steps"][0]["step"]["why"].as_str().unwrap();
        assert!(why.contains("it can't be applied: ") && why.contains("INVALID_CONFIG"), "{why}");
    }
}

/// A linger has Kafka's own name, which a client of one's own need not know.
#[test]
fn what_a_client_does_not_take_is_rejected_and_the_run_goes_on() {
    let _alone = alone();
    let Some(client) = franz_go() else { return };
    let folder = tempfile::tempdir().unwrap();
    let candidates = "find = false\n[[tune.candidate]]\nset = \"linger=20ms\"\nhope = 0.9\n[[tune.candidate]]\nset = \"codec=gzip\"\n";
    file(folder.path(), candidates);
    let text = fs::read_to_string(folder.path().join("hone.toml")).unwrap();
    let text = text.replace("client_settings = { \"linger.ms\" = \"0\" }\n", "");
    let text = text.replace("\"librdkafka\"", &format!("\"{client}\""));
    fs::write(folder.path().join("hone.toml"), text).unwrap();
    let body = tune(folder.path(), &["hone.toml", "--json"]).expect_code(0).json()["body"].clone();
    let found = decisions(&body);
    assert_eq!(found[0], ("linger=20ms".to_owned(), "rejected".to_owned()));
    let why = body["steps"][0]["step"]["why"].as_str().unwrap();
    assert!(why.contains("it can't be applied: ") && why.contains("is none of linger_ms"), "{why}");
    assert_eq!(found[1].0, "codec=gzip", "which is the load's own: {found:?}");
}

#[test]
fn a_budget_ends_the_run_before_it_is_used_up() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "budget = \"8s\"\nfind = false\n[[tune.candidate]]\nset = \"linger=30ms\"\n");
    // Its windows alone take twice the budget, on whatever machine.
    let text = fs::read_to_string(folder.path().join("hone.toml")).unwrap();
    fs::write(folder.path().join("hone.toml"), text.replace("pairs = 6\n", "pairs = 40\n")).unwrap();
    let ran = tune(folder.path(), &["hone.toml", "--json"]).expect_code(0);
    let body = &ran.json()["body"];
    assert_eq!(decisions(body), [], "{body:#}");
    assert!(body["stopped"].as_str().unwrap().contains("budget"), "{body:#}");
}

#[test]
fn what_can_not_be_tuned_is_told_before_anything_starts() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |candidates: &str, code: i32, expected: &str| {
        file(folder.path(), candidates);
        tune(folder.path(), &["hone.toml"]).expect_code(code).expect_error(expected);
        assert!(!folder.path().join("runs").exists(), "{expected}");
    };
    refused("[[tune.candidate]]\nset = \"acks=1\"\n", 2, "durability = true");
    refused("[[tune.candidate]]\nset = \"host.vm.swappiness=1\"\n", 2, "`allow` does not have");
    refused("allow = [\"host\"]\n[[tune.candidate]]\nset = \"host.vm.swappiness=1\"\n", 2, "add --yes");
    refused("bugdet = \"1m\"\n", 2, "did you mean `budget`");
    refused("forbid = [\"lingr\"]\n", 2, "did you mean `linger`");
    refused("forbid = [\"linger.*\"]\n", 2, "did you mean `linger`");
    refused("forbid = [\"host.vm.swapiness\"]\n", 2, "did you mean `host.vm.swappiness`");
    let absent = "allow = [\"host\"]\n[[tune.candidate]]\nset = \"host.vm.swapiness=1\"\n";
    refused(absent, 2, "did you mean `host.vm.swappiness`");
    tune(folder.path(), &["hone.toml", "--dry-run"]).expect_code(2).expect_error("host.vm.swapiness=1");
    let forbidden = "forbid = [\"client.batch.*\"]\n";
    refused(&format!("{forbidden}{PLANTED}"), 2, "is forbidden: `forbid` has `client.batch.*`");
    refused("[[tune.candidate]]\nset = \"env.X=1,2\"\n", 2, "has two values");
    // As long as builds may take, nothing is built for what can't be measured.
    fs::write(folder.path().join("build.toml"), "name = \"x\"\n").unwrap();
    let build = "target = \"{program} --port {port}\"\nbuild = \"build.toml\"\n";
    refused(&format!("{build}guards = [\"latency-p999\"]\n"), 2, "requests in every window");
    refused(build, 2, "build.toml");
    refused("ready_timeout_s = -1\n", 2, "use a number from 0 to 3600");
    file(folder.path(), PLANTED);
    let plan = tune(folder.path(), &["hone.toml", "--dry-run"]).expect_code(0);
    for told in
        ["env.HONE_OF_NO_USE=1", "Hone first measures the service", "as long as there is something to try"]
    {
        assert!(plan.stdout.contains(told), "{}", plan.stdout);
    }
    assert!(!folder.path().join("runs").exists());
}

/// Hone's own load, which makes its batches itself: what is left to try is the broker's.
const WIRE: &str = r#"
name = "wire"
[tune]
mode = "duet"
pairs = 6
control_pairs = 0
keep_disturbed = true
lateness_limit_ms = 5000
guards = []
MORE
[workload.wire]
requests_per_s = 300
record_bytes = 300
connections = 2
partitions = 2
warmup_requests = 50
duration_s = 0.4
"#;

#[test]
fn what_is_promised_changes_only_where_the_file_says_so() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let steps = |more: &str| {
        fs::write(folder.path().join("hone.toml"), WIRE.replace("MORE", more)).unwrap();
        tune(folder.path(), &["hone.toml", "--json"]).expect_code(0).json()["body"]["steps"].clone()
    };
    assert_eq!(steps(""), serde_json::json!([]));
    assert_eq!(steps("durability = true\nforbid = [\"topic.flush*\"]"), serde_json::json!([]));
    let found = steps("durability = true");
    assert_eq!(found.as_array().unwrap().len(), 1, "{found:#}");
    let step = &found[0];
    assert!(step["step"]["change"].as_str().unwrap().starts_with("topic.write.caching=true"), "{step:#}");
    assert!(step["expected_gain"]["why"].as_str().unwrap().contains("durability = true"), "{step:#}");
    assert!(step["step"]["promise"].as_str().unwrap().contains("durability classes"), "{step:#}");
}

/// Windows of 0.4 s, both sides at once: 5 pairs of the look, and 6 for each of three candidates.
#[test]
fn a_dry_run_says_how_long_all_of_it_takes() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), &format!("budget = \"1m\"\nforbid = [\"partitions\"]\n{PLANTED}"));
    let plan = tune(folder.path(), &["hone.toml", "--dry-run", "--json"]).expect_code(0).json();
    let estimate = &plan["body"]["estimate"];
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-6;
    assert!(near(&estimate["total"]["least_s"], 0.4 * (5.0 + 3.0 * 6.0)), "{estimate:#}");
    assert!(near(&estimate["comparison"]["least_s"], 2.4), "{estimate:#}");
    // All of what may be found, and the end: more than the windows of the look and the three.
    assert!(estimate["total"]["most_s"].as_f64().unwrap() > 100.0, "{estimate:#}");
    assert_eq!(plan["body"]["name"], "orders");
    let plan = tune(folder.path(), &["hone.toml", "--dry-run"]).expect_code(0).stdout;
    for told in
        ["total", "3 candidates from the file", "The budget of 1 min is enough for", "Forbidden: partitions."]
    {
        assert!(plan.contains(told), "{told}\n{plan}");
    }
}
