//! The cluster changes under an open window: a broker dies and comes back, or does not; the topic goes; the user has seen
//! enough. Nothing hangs, no window is lost, and the record says what happened.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

mod stage;
use stage::middleman::{stand_before, without_topic};
use stage::{Broker, Ran, hone, hone_here};

/// A load that runs beside the test.
fn load_beside<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    address: &str,
    more: &[&str],
) -> thread::ScopedJoinHandle<'scope, Ran> {
    let mut args: Vec<String> =
        ["load", address, "--warmup", "50", "--json", "--quiet"].map(str::to_owned).to_vec();
    args.extend(more.iter().map(|arg| (*arg).to_owned()));
    scope.spawn(move || hone(&args.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn kinds(record: &Value) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in record["body"]["events"].as_array().unwrap() {
        *kinds.entry(event["kind"].as_str().unwrap().to_owned()).or_default() += 1;
        assert!(!event["what"].as_str().unwrap().is_empty());
        assert!(event["at_s"].as_f64().unwrap() >= 0.0);
    }
    kinds
}

/// Every request that was due came to an end, well or not.
#[track_caller]
fn expect_nothing_dropped(record: &Value) {
    let facts = &record["body"]["facts"];
    let errors: u64 =
        facts["errors"].as_object().unwrap().values().map(|times| times.as_u64().unwrap()).sum();
    let acked = facts["acked_requests"].as_u64().unwrap();
    assert_eq!(acked + errors, facts["requests"].as_u64().unwrap(), "{facts:#}");
    let hdr = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
    assert_eq!(hone_record::Hdr::from_base64(hdr).unwrap().count(), acked + errors);
}

#[test]
fn a_broker_that_is_killed_and_comes_back_shows_as_an_outage_of_its_true_length() {
    let mut broker = Broker::start();
    let address = broker.address.clone();
    thread::scope(|scope| {
        let load = load_beside(scope, &address, &["--rate", "500", "--duration", "6"]);
        thread::sleep(Duration::from_millis(2_500));
        broker.signal(libc::SIGKILL);
        thread::sleep(Duration::from_millis(1_000));
        broker.start_again();
        let record = load.join().unwrap().expect_code(0).json();
        assert_eq!(record["body"]["outcome"], "steady", "{}", record["body"]["events"]);
        let facts = &record["body"]["facts"];
        // Up to 64 requests were on their way; all of them were sent again and taken.
        assert_eq!(facts["acked_requests"], facts["requests"], "{facts:#}");
        assert!(facts["produce_requests"].as_u64() >= facts["requests"].as_u64(), "{facts:#}");
        let kinds = kinds(&record);
        assert_eq!(kinds["connection-lost"], 4, "{kinds:?}");
        assert_eq!(kinds["reconnected"], 4, "{kinds:?}");
        let hdr = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
        let max_s = hone_record::Hdr::from_base64(hdr).unwrap().max_us().unwrap() / 1e6;
        assert!(max_s > 0.9, "the outage of a second shows as {max_s} s");
        expect_nothing_dropped(&record);
    });
}

/// With acks=0 nobody answers: what the socket had not taken when the broker died did not go out, and the record says so.
#[test]
fn without_acknowledgements_what_was_not_written_is_an_error() {
    let mut broker = Broker::start();
    let address = broker.address.clone();
    thread::scope(|scope| {
        // One connection, so that even the largest buffers of kernels are full within the stop.
        let more =
            ["--acks", "0", "--records", "1", "--bytes", "100000", "--rate", "400", "--connections", "1"];
        let load = load_beside(scope, &address, &[&more[..], &["--duration", "10"]].concat());
        thread::sleep(Duration::from_millis(3_500));
        // It reads nothing more, so that the kernel's buffers fill up; then it dies.
        broker.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_millis(3_000));
        broker.signal(libc::SIGKILL);
        broker.start_again();
        let record = load.join().unwrap().expect_code(0).json();
        let facts = &record["body"]["facts"];
        let unwritten = facts["errors"]["connection lost"].as_u64();
        assert!(unwritten >= Some(1), "the connection had a request half-way: {facts:#}");
        let of = |name: &str| facts[name].as_u64().unwrap_or_else(|| panic!("no {name}: {facts:#}"));
        assert!(of("produce_requests") <= of("acked_requests"), "{facts:#}");
        assert_eq!(kinds(&record)["reconnected"], 1, "{}", record["body"]["events"]);
        let hdr = record["body"]["latencies"]["intended_to_sent"].as_str().unwrap();
        let max_s = hone_record::Hdr::from_base64(hdr).unwrap().max_us().unwrap() / 1e6;
        assert!(max_s > 1.0, "what waited for the socket went out after {max_s} s at most");
        expect_nothing_dropped(&record);
    });
}

#[test]
fn a_broker_that_stays_away_ends_the_window_and_keeps_what_was_measured() {
    let broker = Broker::start();
    let address = broker.address.clone();
    thread::scope(|scope| {
        let begun = Instant::now();
        let load = load_beside(scope, &address, &["--rate", "500", "--duration", "60", "--timeout", "1"]);
        thread::sleep(Duration::from_millis(2_500));
        broker.signal(libc::SIGKILL);
        let record = load.join().unwrap().expect_code(1).json();
        assert!(begun.elapsed() < Duration::from_secs(40), "it waited for the end of the window");
        let reason = record["body"]["outcome"]["failed"]["reason"].as_str().unwrap();
        assert!(reason.contains("for longer than the timeout of 1 s"), "{reason}");
        assert!(reason.contains("no connection to"), "{reason}");
        let duration_s = record["body"]["duration_s"].as_f64().unwrap();
        assert!((1.5..30.0).contains(&duration_s), "{duration_s} s");
        let acked = record["body"]["facts"]["acked_requests"].as_u64().unwrap();
        assert!(acked > 300, "only {acked} requests were kept");
        assert_eq!(kinds(&record)["connection-lost"], 4);
        expect_nothing_dropped(&record);
    });
}

#[test]
fn a_topic_that_is_deleted_ends_the_window_and_says_so() {
    let broker = Broker::start();
    let address = broker.address.clone();
    let mut admin = hone_load::Admin::connect(&address).unwrap();
    // Others write to it, too, so that it is there to be named.
    admin.create_topic("doomed", 4, &BTreeMap::new()).unwrap();
    thread::scope(|scope| {
        let load = load_beside(scope, &address, &["--topic", "doomed", "--rate", "500", "--duration", "60"]);
        thread::sleep(Duration::from_millis(2_500));
        admin.delete_topic("doomed").unwrap();
        let record = load.join().unwrap().expect_code(1).json();
        let reason = record["body"]["outcome"]["failed"]["reason"].as_str().unwrap();
        assert!(reason.contains("topic `doomed` was deleted"), "{reason}");
        assert_eq!(kinds(&record)["topic-deleted"], 1);
        let facts = &record["body"]["facts"];
        assert!(facts["retries"]["UNKNOWN_TOPIC_OR_PARTITION"].as_u64().unwrap() > 0, "{facts:#}");
        assert!(facts["errors"]["topic deleted"].as_u64().unwrap() > 0, "{facts:#}");
        expect_nothing_dropped(&record);
    });
}

/// The broker that is asked first has never heard of the topic, for good; the leader knows better.
#[test]
fn a_broker_that_does_not_know_the_topic_is_overruled_by_one_that_does() {
    let mut broker = Broker::start();
    let (lies, told) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let (begun, count) = (Arc::clone(&lies), Arc::clone(&told));
    let stale = stand_before(&broker.address, move |answer| {
        if !begun.load(Ordering::SeqCst) {
            return answer;
        }
        count.fetch_add(1, Ordering::SeqCst);
        without_topic(answer)
    });
    thread::scope(|scope| {
        let load = load_beside(scope, &stale, &["--rate", "500", "--duration", "7"]);
        thread::sleep(Duration::from_millis(2_500));
        lies.store(true, Ordering::SeqCst);
        broker.signal(libc::SIGKILL);
        thread::sleep(Duration::from_millis(500));
        broker.start_again();
        let record = load.join().unwrap().expect_code(0).json();
        assert!(told.load(Ordering::SeqCst) > 0, "nobody asked the one that does not know");
        assert_eq!(record["body"]["outcome"], "steady", "{}", record["body"]["events"]);
        let facts = &record["body"]["facts"];
        assert_eq!(facts["acked_requests"], facts["requests"], "{facts:#}");
        assert!(!kinds(&record).contains_key("topic-deleted"), "{}", record["body"]["events"]);
        expect_nothing_dropped(&record);
    });
}

#[test]
fn an_interrupt_ends_the_window_and_keeps_what_was_measured() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("window.json");
    let load = hone_here()
        .args(["load"])
        .args(stage::PATIENT)
        .args([&broker.address, "--warmup", "50", "--rate", "500", "--duration", "60", "--json", "--quiet"])
        .arg("--output")
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_secs(3));
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(load.id() as i32, libc::SIGINT) }, 0);
    let ended = Instant::now();
    let ran = Ran::of(load.wait_with_output().unwrap()).expect_code(1);
    assert!(ended.elapsed() < Duration::from_secs(20), "the end took {:?}", ended.elapsed());
    let record = ran.json();
    let kept: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(kept, record);
    assert_eq!(record["body"]["outcome"], "steady");
    let duration_s = record["body"]["duration_s"].as_f64().unwrap();
    assert!((1.0..20.0).contains(&duration_s), "{duration_s} s");
    let facts = &record["body"]["facts"];
    let requests = facts["requests"].as_f64().unwrap();
    assert!((requests / duration_s / 500.0 - 1.0).abs() < 0.2, "{requests} requests in {duration_s} s");
    assert_eq!(kinds(&record)["interrupted"], 1);
    assert_eq!(record["body"]["series"].as_array().unwrap().len() as f64, duration_s.ceil());
    expect_nothing_dropped(&record);
}

/// A restart of the broker as a fault: `before` happens to its data while it is down.
fn restart(broker: &Broker, folder: &std::path::Path, before: &str) -> String {
    let hone = env!("CARGO_BIN_EXE_hone");
    let (data, address) = (broker.data.path().display(), &broker.address);
    let text = format!("{before}\nexec {hone} broker --listen {address} --metrics-listen off --data {data}");
    format!("run:{}", stage::script(folder, "again.sh", &text).display())
}

/// What Hone itself does to the broker shows as planted: a stop of 1.2 s, and a kill with a start a second later.
#[test]
fn faults_show_at_their_times_and_what_was_acknowledged_is_there() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let again = format!("5s={}", restart(&broker, folder.path(), ""));
    let more =
        ["--rate", "500", "--duration", "9", "--consumers", "1", "--partitions", "2", "--max-lateness", "9s"];
    let faults = ["--fault", &again, "--fault", "4s=kill:leader", "--fault", "1s=stop:broker-1:1200ms"];
    let rules = ["--require", "gap<800ms", "--require", "lost<=0", "--require", "recovery<1m"];
    let record = thread::scope(|scope| {
        let load = load_beside(scope, &broker.address, &[&more[..], &faults, &rules].concat());
        load.join().unwrap().expect_code(3).json()
    });
    let body = &record["body"];
    let outage = &body["outage"];
    let (told, of) =
        (outage["faults"].as_array().unwrap(), |fault: &Value, name: &str| fault[name].as_f64().unwrap());
    let due: Vec<f64> = told.iter().map(|fault| of(fault, "due_s")).collect();
    assert_eq!(due, [1.0, 4.0, 5.0]);
    for fault in told {
        assert!((0.0..0.5).contains(&(of(fault, "at_s") - of(fault, "due_s"))), "{fault}");
    }
    let gap = |fault: usize| (of(&told[fault]["acks"], "from_s"), of(&told[fault]["acks"], "length_s"));
    // The last answer before it, and the first one after it: a few ms at 250 requests/s and partition.
    assert!((0.8..1.1).contains(&gap(0).0) && (1.15..2.5).contains(&gap(0).1), "{:?}", gap(0));
    assert!((3.8..4.1).contains(&gap(1).0) && (1.0..4.0).contains(&gap(1).1), "{:?}", gap(1));
    assert!(of(&told[1]["recovery"], "after-s") >= 1.0, "{outage:#}");
    assert!(of(&outage["reads"], "length_s") >= 1.0, "{outage:#}");
    assert_eq!(
        (&outage["lost_records"], &body["end_to_end"]["missing"]),
        (&0.into(), &0.into()),
        "{outage:#}"
    );
    assert_eq!(outage["acked_records"], body["facts"]["acked_records"]);
    let met: Vec<_> = body["requirements"].as_array().unwrap().iter().map(|rule| &rule["met"]).collect();
    assert_eq!(met, [false, true, true]);
    assert_eq!(kinds(&record)["fault-injected"], 3);
}

/// A broker that comes back without its newest records: each acknowledged one counts as lost.
#[test]
fn records_that_a_broker_forgets_are_counted() {
    let mut broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let log = broker.data.path().join("log");
    let forget = format!("find {} -name '*.log' -exec truncate -s 0 {{}} +", log.display());
    let again = format!("2500ms={}", restart(&broker, folder.path(), &forget));
    let topic = ["--topic", "orders", "--make-topic", "--partitions", "1", "--acks", "1"];
    let more = ["--rate", "300", "--duration", "5", "--max-lateness", "5s"];
    let faults = ["--fault", "2s=kill:leader", "--fault", &again, "--require", "lost<=0"];
    let record = thread::scope(|scope| {
        let load = load_beside(scope, &broker.address, &[&topic[..], &more, &faults].concat());
        load.join().unwrap().expect_code(3).json()
    });
    let outage = &record["body"]["outage"];
    broker.start_again();
    let mut topics = hone_load::Topics::enter(&broker.address, &hone_load::Security::default()).unwrap();
    let (layout, _) = topics.layout("orders").unwrap();
    let (ends, _) = topics.offsets(&layout, hone_load::At::Latest).unwrap();
    let of = |name: &str| outage[name].as_u64().unwrap();
    assert!(of("lost_records") > 400, "{outage:#}");
    assert_eq!(of("lost_records"), of("acked_records") - ends[&0] as u64, "{outage:#}");
}

#[test]
fn a_fault_that_cannot_happen_is_refused_before_the_load() {
    let broker = Broker::start();
    for (fault, wanted) in [
        ("1s=kill:broker-7", "the cluster has no broker 7"),
        ("9s=kill:leader", "comes after the window"),
        ("1s=kill:1", "can't be disturbed"),
        ("1s=kil:leader", "did you mean `kill`"),
    ] {
        let ran = hone(&["load", &broker.address, "--duration", "2", "--fault", fault, "--quiet"]);
        assert!(ran.code != 0 && ran.stderr.contains(wanted), "{fault}: {} {}", ran.code, ran.stderr);
    }
    let ran = hone(&[
        "load",
        &broker.address,
        "--duration",
        "2",
        "--fault",
        "1s=kill:leader",
        "--acks",
        "0",
        "--quiet",
    ]);
    assert!(ran.code != 0 && ran.stderr.contains("needs requests with acks 1 or all"), "{}", ran.stderr);
    // It still runs.
    hone(&["load", &broker.address, "--duration", "1", "--quiet"]).expect_code(0);
}
