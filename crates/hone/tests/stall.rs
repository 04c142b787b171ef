//! The instrument is honest: a broker that stands still for a second shows it, one that can't keep up is called saturated,
//! and a generator that can't is not blamed on the broker.

use std::thread;
use std::time::{Duration, Instant};

use hone_load::fault_relay::{Fault, Relay};

mod stage;
use stage::middleman::{stand_before, with_brokers};
use stage::{Broker, hone, hone_command};

fn quantile_us(record: &serde_json::Value, quantile: f64) -> f64 {
    let text = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
    hone_record::Hdr::from_base64(text).unwrap().quantile_us(quantile).unwrap()
}

/// Loads a broker at 500 requests/s and stops it for a while; without `until_s` it stays stopped to the end of the load.
fn load_with_a_stop(more: &[&str], from_s: u64, until_s: Option<u64>) -> stage::Ran {
    let broker = Broker::start();
    let load = ["load", &broker.address, "--rate", "500", "--warmup", "100", "--json", "--quiet"];
    thread::scope(|scope| {
        let load = scope.spawn(|| hone(&[&load[..], more].concat()));
        thread::sleep(Duration::from_secs(from_s));
        broker.signal(libc::SIGSTOP);
        if let Some(until_s) = until_s {
            thread::sleep(Duration::from_secs(until_s - from_s));
            broker.signal(libc::SIGCONT);
        }
        let ran = load.join().unwrap();
        broker.signal(libc::SIGCONT);
        ran
    })
}

#[test]
fn a_stop_of_one_second_shows_at_its_full_length() {
    let ran = load_with_a_stop(&["--duration", "10"], 5, Some(6));
    let record = ran.expect_code(0).json();
    let (p50_us, p99_us) = (quantile_us(&record, 0.5), quantile_us(&record, 0.99));
    assert!(p99_us > 500_000.0, "p99 {p99_us} µs: the stall is hidden");
    assert!(p99_us < 1_500_000.0, "p99 {p99_us} µs: longer than the stall");
    assert!(p50_us < 100_000.0, "p50 {p50_us} µs: the stall is everywhere");
    assert_eq!(record["body"]["outcome"], "steady");
    let points = record["body"]["series"].as_array().unwrap();
    let worst = points.iter().filter(|point| point["latency_us_max"].as_f64().unwrap() > 500_000.0).count();
    assert!((1..=3).contains(&worst), "{worst} of {} seconds are bad: {points:#?}", points.len());
}

#[test]
fn a_stop_to_the_end_times_out_and_is_no_percentile() {
    let ran = load_with_a_stop(&["--duration", "3", "--timeout", "1"], 2, None);
    let record = ran.json();
    let facts = &record["body"]["facts"];
    let errors = facts["errors"]["timeout"].as_u64().unwrap_or(0);
    let all: u64 = facts["errors"].as_object().unwrap().values().map(|times| times.as_u64().unwrap()).sum();
    let acked = facts["acked_requests"].as_u64().unwrap();
    assert!(errors > 100, "{errors} requests timed out");
    assert_eq!(acked + all, facts["requests"].as_u64().unwrap(), "requests were dropped from the record");
    assert!(quantile_us(&record, 0.99) > 900_000.0, "time-outs are no samples");
}

#[test]
fn more_than_the_broker_can_do_is_saturation() {
    let broker = Broker::start();
    // A schema check of 200 records a request at this rate is several times what a core can do.
    let ran = hone(&[
        "load",
        &broker.address,
        "--rate",
        "5000",
        "--duration",
        "3",
        "--warmup",
        "10",
        "--records",
        "200",
        "--payload",
        "orders",
        "--bytes",
        "600",
        "--topic-config",
        "hone.value.schema={\"type\":\"object\"}",
        "--connections",
        "2",
        "--in-flight",
        "4",
    ]);
    let ran = ran.expect_code(0);
    assert!(ran.stdout.contains("Saturated: the backlog kept growing"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("p99"), "percentiles of a saturated run: {}", ran.stdout);
}

#[test]
fn a_generator_that_is_late_fails_the_run_and_not_the_broker() {
    let broker = Broker::start();
    let ran = hone(&[
        "load",
        &broker.address,
        "--rate",
        "3000",
        "--duration",
        "2",
        "--warmup",
        "10",
        "--in-flight",
        "10000",
        "--max-lateness",
        "1us",
    ]);
    let ran = ran.expect_code(1);
    assert!(ran.stdout.contains("the generator fell behind its schedule"), "{}", ran.stdout);
}

/// The CPU that is charged to the broker is the broker's: told by the kernel in another way, it is the same.
#[test]
fn the_cpu_of_the_target_is_the_targets() {
    let broker = Broker::start();
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", broker.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()
    };
    let before = ticks();
    let ran = hone(&[
        "load",
        &broker.address,
        "--rate",
        "5000",
        "--duration",
        "4",
        "--warmup",
        "0",
        "--json",
        "--quiet",
    ]);
    let told_s = ran.expect_code(0).json()["body"]["facts"]["target_cpu"]["total_s"].as_f64().unwrap();
    let kernel_s = (ticks() - before) / 100.0;
    assert!(kernel_s > 0.05, "the broker did nothing");
    assert!((told_s / kernel_s - 1.0).abs() < 0.4, "hone says {told_s} s, /proc/PID/stat {kernel_s} s");
}

/// Ticks of CPU that a process has used, in seconds.
fn used_s(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

/// A follower works for acks=all and leads nothing: its CPU is the target's all the same.
#[test]
fn the_cpu_of_a_broker_that_leads_nothing_counts() {
    let (leader, follower) = (Broker::start(), Broker::start());
    let second = (77, follower.address.clone());
    let cluster =
        stand_before(&leader.address, move |answer| with_brokers(answer, std::slice::from_ref(&second)));
    let pids = [leader.child.id(), follower.child.id()];
    std::thread::scope(|scope| {
        // What keeps the follower busy begins before the window and ends after it.
        let busy =
            ["load", &follower.address, "--rate", "6000", "--duration", "9", "--warmup", "0", "--quiet"];
        let work = scope.spawn(move || hone(&busy));
        std::thread::sleep(Duration::from_secs(2));
        let before = pids.map(used_s);
        let load =
            ["load", &cluster, "--rate", "100", "--duration", "4", "--warmup", "0", "--json", "--quiet"];
        let ran = hone(&load);
        let after = pids.map(used_s);
        work.join().unwrap();
        let used = [0, 1].map(|broker| after[broker] - before[broker]);
        assert!(used[1] > 2.0 * used[0], "the follower was not busy: {used:?}");
        let told_s = ran.expect_code(0).json()["body"]["facts"]["target_cpu"]["total_s"].as_f64().unwrap();
        assert!((0.5..=1.2).contains(&(told_s / (used[0] + used[1]))), "hone says {told_s} s of {used:?} s");
    });
}

#[test]
fn a_broker_that_cannot_be_seen_is_named_and_a_part_is_not_given_for_the_whole() {
    let broker = Broker::start();
    let far = (77, "192.0.2.1:9092".to_owned());
    let cluster =
        stand_before(&broker.address, move |answer| with_brokers(answer, std::slice::from_ref(&far)));
    let load = ["load", &cluster, "--rate", "100", "--duration", "1", "--warmup", "0", "--quiet"];
    let record = hone(&[&load[..], &["--json"]].concat()).expect_code(0).json();
    assert!(record["body"]["facts"]["target_cpu"].is_null());
    let unknown = record["body"]["environment"]["unknown"].to_string();
    assert!(
        unknown.contains("CPU of the target: broker 77 at 192.0.2.1:9092 (another machine)"),
        "{unknown}"
    );
    // Long values go on in the next line.
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = one_line(hone(&load).expect_code(0).stdout);
    assert!(text.contains("target unknown (broker 77 at 192.0.2.1:9092"), "{text}");
    let by_pid = hone(&[&load[..], &["--pid", &broker.child.id().to_string()]].concat());
    let named = one_line(by_pid.expect_code(0).stdout);
    assert!(named.contains("and its children count, because of --pid"), "{named}");
}

/// A request has its connection from the moment it is due. If one connection stands still, what was meant for it waits; were the
/// others to take it, the stall would show in as many requests as fit into one connection, and in no more.
#[test]
fn a_connection_that_stands_still_keeps_its_share_waiting() {
    let relay = Relay::bind(Fault::Silent).unwrap();
    let broker =
        Broker::start_as(hone_command().args(["broker", "--advertise", &relay.address().to_string()]));
    relay.serve(broker.address.parse().unwrap()).unwrap();
    relay.begin(Instant::now() + Duration::from_secs(2));
    let address = relay.address().to_string();
    let load =
        ["load", &address, "--rate", "500", "--schedule", "uniform", "--duration", "6", "--warmup", "0"];
    let more =
        ["--connections", "2", "--in-flight", "4", "--timeout", "2", "--acks", "1", "--json", "--quiet"];
    let record = hone(&[&load[..], &more].concat()).json();
    let text = record["body"]["latencies"]["intended_to_ack"].as_str().unwrap();
    let late = hone_record::Hdr::from_base64(text).unwrap().count_above_us(250_000.0);
    // Half of 500 requests a second, of the two seconds to the time-out those that waited for more than a quarter.
    assert!(relay.swallowed() >= 4, "nothing fell silent");
    assert!(
        (300..=900).contains(&late),
        "{late} requests were late, 437 were meant for the silent connection"
    );
}
