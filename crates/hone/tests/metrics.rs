//! Busy time by the target's own counters: of a target that polls, whose process clock says nothing, and whose true work is known.
//! The tests run one at a time: a target that polls takes the cores of the others.

#![expect(clippy::disallowed_methods, reason = "tests start servers as their users do")]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

mod stage;
use stage::clients::alone;
use stage::kafka::Kafka;
use stage::{Broker, hone_in};

/// The page of a path of `host:port`.
fn page(address: &str, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The sum of a counter's series.
fn sum(page: &str, name: &str) -> f64 {
    let values = page.lines().filter(|line| line.starts_with(name));
    values.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// What a Redpanda 25.1 of two shards serves as `/public_metrics`, shortened. `shards` are its busy seconds.
fn redpanda(shards: [f64; 2]) -> String {
    let [a, b] = shards;
    format!(
        "# HELP redpanda_application_uptime_seconds_total Redpanda uptime in seconds\n\
         # TYPE redpanda_application_uptime_seconds_total gauge\n\
         redpanda_application_uptime_seconds_total{{}} 5183.442000\n\
         # HELP redpanda_cpu_busy_seconds_total Total CPU busy time in seconds\n\
         # TYPE redpanda_cpu_busy_seconds_total counter\n\
         redpanda_cpu_busy_seconds_total{{shard=\"0\"}} {a:.6}\n\
         redpanda_cpu_busy_seconds_total{{shard=\"1\"}} {b:.6}\n\
         # HELP redpanda_kafka_request_bytes_total Total number of bytes produced per topic\n\
         # TYPE redpanda_kafka_request_bytes_total counter\n\
         redpanda_kafka_request_bytes_total{{redpanda_namespace=\"kafka\",redpanda_topic=\"orders\",redpanda_request=\"produce\"}} 81263\n"
    )
}

/// Serves Redpanda's page for a broker that has just so much work for each record that it wrote, on two shards; `us_per_record` in all.
/// Another thread of the test; it goes with the process.
fn as_redpanda(metrics: String, us_per_record: f64) -> String {
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = door.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut socket in door.incoming().flatten() {
            let mut asked = [0; 4096];
            let _ = socket.read(&mut asked);
            let records = sum(&page(&metrics, "/public_metrics"), "redpanda_kafka_records_produced_total");
            let busy_s = records * us_per_record / 1e6;
            let text = redpanda([1_000.0 + busy_s * 0.7, 2_000.0 + busy_s * 0.3]);
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", text.len());
            let _ = socket.write_all((head + &text).as_bytes());
        }
    });
    address
}

/// A broker whose process also polls: it burns a core while nothing is to be done, as long as it lives.
fn polling_broker(folder: &Path) -> Broker {
    let burn = "while kill -0 $$; do i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done; done 2>/dev/null";
    let script = stage::script(folder, "polling", &format!("({burn}) & exec \"$@\""));
    Broker::start_as(Command::new(script).arg(env!("CARGO_BIN_EXE_hone")).arg("broker"))
}

#[test]
fn a_polling_target_is_judged_by_its_true_work() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let broker = polling_broker(folder.path());
    let pages = as_redpanda(broker.metrics.clone(), 50.0);
    let load =
        ["--rate", "800", "--duration", "3", "--warmup", "200", "--max-lateness", "2s", "--quiet", "--json"];
    let args = [&["load", &broker.address, "--metrics", &pages][..], &load].concat();
    let window = hone_in(folder.path(), &args).expect_code(0).json();
    let facts = &window["body"]["facts"];
    let records = facts["acked_records"].as_f64().unwrap();
    let busy = &facts["target_busy"];
    let us_per_record = busy["busy_s"].as_f64().unwrap() * 1e6 / records;
    assert!((us_per_record / 50.0 - 1.0).abs() < 0.03, "{us_per_record} µs a record of 50: {busy}");
    assert_eq!((&busy["counter"], &busy["series"]), (&"redpanda_cpu_busy_seconds_total".into(), &2.into()));
    let clock = facts["target_cpu"]["total_s"].as_f64().unwrap() * 1e6 / records;
    assert!(clock > 5.0 * us_per_record, "the process clock has {clock} µs a record: it does not poll");
}

/// Half as much again for each record, beside polling that hides it from the process clock.
#[test]
fn a_comparison_of_polling_targets_finds_the_planted_effect() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let places = [folder.path().join("a"), folder.path().join("b")];
    places.iter().for_each(|place| fs::create_dir(place).unwrap());
    let [a, b] = places.each_ref().map(|place| polling_broker(place));
    let (pages_a, pages_b) = (as_redpanda(a.metrics.clone(), 40.0), as_redpanda(b.metrics.clone(), 60.0));
    let load =
        ["--rate", "500", "--duration", "0.5", "--warmup", "50", "--max-lateness", "5s", "--reserve", "0"];
    let pairs = ["--pairs", "6", "--control-pairs", "0", "--keep-disturbed", "--quiet"];
    let which = ["--metrics", &pages_a, "--b-metrics", &pages_b];
    let args = [&["compare", &a.address, &b.address][..], &which, &load, &pairs].concat();
    let ran = hone_in(folder.path(), &args).expect_code(3);
    assert!(ran.stdout.starts_with("B against A: "), "{}", ran.stdout);
    let run = folder.path().join("runs/compare-001/comparison.json");
    let record: serde_json::Value = serde_json::from_slice(&fs::read(run).unwrap()).unwrap();
    let primary = &record["body"]["judgements"][0];
    assert_eq!(
        (&primary["estimate"]["metric"], &primary["verdict"]),
        (&"busy-per-record".into(), &"worse".into())
    );
    let ratio = primary["estimate"]["ratio"].as_f64().unwrap();
    assert!((ratio / 1.5 - 1.0).abs() < 0.03, "{ratio} of 1.5");
}

/// Nothing polls in Kafka, so its exporter's counter and the clock of its process know the same work.
#[test]
fn a_real_kafkas_exporter_agrees_with_the_clock_of_its_process() {
    let _alone = alone();
    let Some(kafka) = Kafka::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let args = ["load", &kafka.address, "--metrics", &kafka.metrics];
    let load = ["--rate", "4000", "--duration", "8", "--warmup-limit", "15", "--max-lateness", "2s"];
    let ran = hone_in(folder.path(), &[&args[..], &load, &["--quiet", "--json"]].concat());
    // Whether it is warm by then is not the question here.
    let window = ran.json();
    let facts = &window["body"]["facts"];
    let (busy, clock) = (&facts["target_busy"], facts["target_cpu"]["total_s"].as_f64().unwrap());
    assert_eq!(busy["counter"], "process_cpu_seconds_total", "{busy}");
    let ratio = busy["busy_s"].as_f64().unwrap() / clock;
    // The page itself takes a third of a second of CPU, of which Hone takes off what it measured; the clock of the JVM is read within it.
    assert!((ratio - 1.0).abs() < 0.1, "{busy} where the process took {clock} s: {ratio}");
}

/// The embedded broker's own counter, of a command whose second port is filled in.
#[test]
fn the_embedded_brokers_counter_is_read_where_its_port_is_chosen_by_hone() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let hone = env!("CARGO_BIN_EXE_hone");
    let command = format!(
        "{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen 127.0.0.1:{{port2}} --data {{data}}"
    );
    let load =
        ["--rate", "800", "--duration", "1", "--warmup", "100", "--max-lateness", "2s", "--reserve", "0"];
    let pairs =
        ["--pairs", "5", "--control-pairs", "0", "--keep-disturbed", "--quiet", "--json", "--no-counts"];
    let args =
        [&["compare", &command, &command, "--metrics", "127.0.0.1:{port2}"][..], &load, &pairs].concat();
    let ran = hone_in(folder.path(), &args);
    assert!([0, 3].contains(&ran.code), "{}", ran.stderr);
    let record = ran.json();
    assert_eq!(record["body"]["design"]["rule"]["primary"], "busy-per-record");
    let pairs = record["body"]["pairs"].as_array().unwrap();
    let counted: Vec<_> = pairs.iter().filter(|pair| pair["dropped"].is_null()).collect();
    assert!(counted.len() >= 3, "next to no pair counts: {pairs:#?}");
    for pair in counted {
        for side in ["values_a", "values_b"] {
            let [busy, cpu] =
                ["busy-per-record", "cpu-per-record"].map(|metric| pair[side][metric].as_f64().unwrap());
            // Its reactors are threads of the process, and do most of its work.
            assert!(busy > 0.2 * cpu && busy < 1.05 * cpu, "{busy} of {cpu} µs");
        }
    }
}

#[test]
fn counters_that_can_not_be_read_are_told_before_anything_is_loaded() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let metrics = broker.metrics.clone();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for (more, told) in [
        (vec!["--metrics", nobody.as_str()], "can't reach "),
        (vec!["--metrics", &metrics, "--busy-metric", "no_such_ms"], "the page has no metric `no_such_ms`"),
        (vec!["--metrics", &metrics, "--busy-metric", "redpanda_cpu_busy"], "use redpanda_cpu_busy:s"),
        (vec!["--metrics", "127.0.0.1:{port3}"], "unknown placeholder {port3}"),
    ] {
        for verb in ["load", "compare"] {
            let change = ["--change", "client.linger.ms=20", "--client", "librdkafka"];
            let behind: &[&str] = if verb == "load" { &[] } else { &change };
            let args = [&[verb, &broker.address][..], &more, behind].concat();
            hone_in(folder.path(), &args).expect_code(2).expect_error(told);
        }
    }
    let cpu = ["compare", &broker.address, "--change", "client.linger.ms=20", "--client", "librdkafka"];
    let args = [&cpu[..], &["--primary", "busy-per-record"]].concat();
    hone_in(folder.path(), &args).expect_code(2).expect_error("name their page with --metrics URL");
}
