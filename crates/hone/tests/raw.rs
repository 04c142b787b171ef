//! The times of every request: with them, anybody can compute again what the record says; and a disk that takes no more costs
//! lines of the file, never the window.

use std::path::Path;
use std::thread;
use std::time::Duration;

use serde_json::Value;

mod stage;
use stage::{Broker, hone};

/// Intended, sent, ended and outcome of each request.
type Row = (u64, Option<u64>, u64, String);

fn rows(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("intended_ns,sent_ns,ended_ns,outcome"));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [intended, sent, ended, outcome] = fields[..] else { panic!("`{line}`") };
        (intended.parse().unwrap(), sent.parse().ok(), ended.parse().unwrap(), outcome.to_owned())
    };
    lines.map(row).collect()
}

fn load(broker: &Broker, raw: &Path, more: &[&str]) -> Value {
    let load = ["load", &broker.address, "--json", "--quiet", "--raw", raw.to_str().unwrap()];
    hone(&[&load[..], more].concat()).json()
}

/// Sorts and picks: nothing of Hone's histograms is in it.
fn quantile_ns(values: &mut [u64], quantile: f64) -> f64 {
    values.sort_unstable();
    let rank = (quantile * values.len() as f64).ceil().max(1.0) as usize;
    values[rank - 1] as f64
}

#[test]
fn percentiles_agree_with_those_of_the_raw_times() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.csv");
    let record = load(&broker, &raw, &["--rate", "2000", "--duration", "5", "--warmup", "200"]);
    let rows = rows(&raw);
    let requests = record["body"]["facts"]["requests"].as_u64().unwrap();
    assert_eq!(rows.len() as u64, requests);
    let sent = |row: &Row| row.1.unwrap();
    for (name, latency) in [
        ("intended_to_ack", (|row| row.2 - row.0) as fn(&Row) -> u64),
        ("sent_to_ack", |row| row.2 - row.1.unwrap()),
        ("intended_to_sent", |row| row.1.unwrap() - row.0),
    ] {
        let mut values: Vec<u64> = rows.iter().map(latency).collect();
        let text = record["body"]["latencies"][name].as_str().unwrap();
        let told = hone_record::Hdr::from_base64(text).unwrap();
        for quantile in [0.001, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.995, 0.999, 0.9999, 1.0] {
            let (computed, told) =
                (quantile_ns(&mut values, quantile), told.quantile_us(quantile).unwrap() * 1e3);
            // Three digits; and a histogram's step at the finest is a nanosecond.
            assert!(
                (told - computed).abs() <= computed / 1e3 + 1.0,
                "{name} {quantile}: {told} ns, raw {computed} ns"
            );
        }
    }
    assert!(rows.iter().all(|row| row.0 <= sent(row) && sent(row) <= row.2 && row.3 == "ok"));
}

#[test]
fn intended_times_are_those_of_the_schedule_and_lost_requests_are_there() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let raw = folder.path().join("raw.csv");
    let more =
        ["--rate", "500", "--duration", "3", "--warmup", "50", "--timeout", "1", "--schedule", "uniform"];
    let record = thread::scope(|scope| {
        let load = scope.spawn(|| load(&broker, &raw, &more));
        thread::sleep(Duration::from_secs(2));
        broker.signal(libc::SIGSTOP);
        let record = load.join().unwrap();
        broker.signal(libc::SIGCONT);
        record
    });
    let mut rows = rows(&raw);
    rows.sort();
    let facts = &record["body"]["facts"];
    assert_eq!(rows.len() as u64, facts["requests"].as_u64().unwrap());
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row.0, index as u64 * 2_000_000, "the schedule is 2 ms apart");
    }
    for (name, times) in facts["errors"].as_object().unwrap() {
        assert_eq!(
            rows.iter().filter(|row| row.3 == *name).count() as u64,
            times.as_u64().unwrap(),
            "{name}"
        );
    }
    assert!(rows.iter().any(|row| row.3 == "timeout"));
    assert!(rows.iter().any(|row| row.1.is_none()), "some found no slot and never went out");
}

#[test]
fn a_full_disk_does_not_stop_the_window() {
    let broker = Broker::start();
    let whole = ["--rate", "3000", "--duration", "3", "--warmup", "50", "--json", "--quiet"];
    let load = [&["load", &broker.address, "--raw", "/dev/full"], &whole[..]].concat();
    let record = hone(&load).expect_code(1).json();
    assert_eq!(record["body"]["outcome"], "steady");
    assert_eq!(record["body"]["facts"]["acked_requests"], record["body"]["facts"]["requests"]);
    assert_eq!(record["body"]["series"].as_array().unwrap().len(), 3);
    let events = record["body"]["events"].as_array().unwrap();
    assert_eq!((events.len(), &events[0]["kind"]), (1, &Value::from("recording-failed")), "{events:?}");
    assert!(events[0]["what"].as_str().unwrap().contains("No space left"), "{events:?}");
    hone(&["load", &broker.address, "--raw", "/no/such/folder/x"])
        .expect_code(1)
        .expect_error("/no/such/folder/x");
}
