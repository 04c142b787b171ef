//! A real client on the schedule: librdkafka against the embedded broker.

use std::thread;
use std::time::Duration;

mod stage;
use stage::papers::Papers;
use stage::{Broker, hone, hone_command};

fn hdr(text: &serde_json::Value) -> hone_record::Hdr {
    hone_record::Hdr::from_base64(text.as_str().unwrap()).unwrap()
}

fn load(broker: &Broker, more: &[&str]) -> Vec<String> {
    // Neighbours may make the generator late; what is looked at here is not the machine.
    let load = [
        "load",
        &broker.address,
        "--client",
        "librdkafka",
        "--json",
        "--quiet",
        "--warmup",
        "1000",
        "--max-lateness",
        "5s",
    ];
    load.iter().chain(more).map(|word| (*word).to_owned()).collect()
}

fn run(arguments: &[String]) -> stage::Ran {
    hone(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn every_record_is_told_and_comes_out_again() {
    let broker = Broker::start();
    let ran = run(&load(
        &broker,
        &[
            "--rate",
            "3000",
            "--duration",
            "4",
            "--connections",
            "2",
            "--consumers",
            "2",
            "--client-set",
            "linger.ms=10",
        ],
    ));
    let body = &ran.expect_code(0).json()["body"];
    let facts = &body["facts"];
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
    let acked = facts["acked_records"].as_u64().unwrap();
    assert!((11_000..13_000).contains(&acked), "{acked}");
    // End to end, for each record and consumer.
    let seen = &body["end_to_end"];
    assert_eq!(
        (seen["missing"].as_u64(), seen["fetched_records"].as_u64()),
        (Some(0), Some(2 * acked)),
        "{seen}"
    );
    assert_eq!(hdr(&seen["latency"]).count(), 2 * acked);
    // The batches, read back: all of them, larger than one record, and as many as there were requests or more.
    let batches = &body["batches"][0];
    assert_eq!((batches["source"].as_str(), batches["records"].as_u64()), (Some("fetched"), Some(acked)));
    assert_eq!(batches["seen_share"], 1.0);
    let (count, requests) =
        (batches["batches"].as_u64().unwrap(), facts["produce_requests"].as_u64().unwrap());
    assert!(count < acked / 2, "{count} batches of {acked} records with a linger of 10 ms");
    assert!(requests <= count && requests > 100, "{requests} requests, {count} batches");
    // A record waits for the linger, and no longer than a little more.
    let queue_us = body["split"]["client_queue"]["us_p50"].as_f64().unwrap();
    assert!((2_000.0..30_000.0).contains(&queue_us), "{queue_us} µs in the queue: {}", body["split"]);
    assert!(body["split"]["network"]["us_p50"].as_f64().unwrap() < 5_000.0, "{}", body["split"]);
    let settings = &body["client"]["settings"];
    assert_eq!(
        (settings["linger.ms"].as_str(), settings["batch.num.messages"].as_str()),
        (Some("10"), Some("10000"))
    );
    // The producers' own threads are counted: they do more than the thread that hands over.
    let cpu_us = facts["generator_cpu"]["total_s"].as_f64().unwrap() * 1e6 / acked as f64;
    assert!(cpu_us > 3.0, "{cpu_us} µs a record for two producers and two consumers");
}

#[test]
fn a_stop_of_one_second_shows_at_its_full_length() {
    let broker = Broker::start();
    let arguments =
        load(&broker, &["--rate", "500", "--duration", "10", "--connections", "1", "--consumers", "1"]);
    let record = thread::scope(|scope| {
        let load = scope.spawn(|| run(&arguments));
        thread::sleep(Duration::from_secs(6));
        broker.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_secs(1));
        broker.signal(libc::SIGCONT);
        load.join().unwrap().expect_code(0).json()
    });
    let body = &record["body"];
    for latency in [&body["latencies"]["intended_to_ack"], &body["end_to_end"]["latency"]] {
        let latency = hdr(latency);
        let (p50_us, p99_us) = (latency.quantile_us(0.5).unwrap(), latency.quantile_us(0.99).unwrap());
        assert!(p99_us > 500_000.0, "p99 {p99_us} µs: the stall is hidden");
        assert!(p99_us < 1_500_000.0, "p99 {p99_us} µs: longer than the stall");
        assert!(p50_us < 100_000.0, "p50 {p50_us} µs: the stall is everywhere");
    }
}

#[test]
fn a_stop_to_the_end_times_out_and_nothing_is_dropped() {
    let broker = Broker::start();
    let arguments =
        load(&broker, &["--rate", "500", "--duration", "3", "--timeout", "1", "--connections", "1"]);
    let record = thread::scope(|scope| {
        let load = scope.spawn(|| run(&arguments));
        thread::sleep(Duration::from_secs(3));
        broker.signal(libc::SIGSTOP);
        let ran = load.join().unwrap();
        broker.signal(libc::SIGCONT);
        ran.json()
    });
    let facts = &record["body"]["facts"];
    let errors = facts["errors"]["timeout"].as_u64().unwrap_or(0);
    assert!(errors > 100, "{facts}");
    assert_eq!(facts["acked_requests"].as_u64().unwrap() + errors, facts["requests"].as_u64().unwrap());
}

/// A full queue of the client keeps records waiting; none is lost, and their wait is in the latency.
#[test]
fn a_full_queue_is_a_wait_and_no_loss() {
    let broker = Broker::start();
    let settings = ["--client-set", "queue.buffering.max.messages=50", "--client-set", "linger.ms=20"];
    let arguments = load(
        &broker,
        &[&["--rate", "10000", "--duration", "3", "--connections", "1"], &settings[..]].concat(),
    );
    let body = &run(&arguments).json()["body"];
    let facts = &body["facts"];
    let errors: u64 =
        facts["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(facts["acked_requests"].as_u64().unwrap() + errors, facts["requests"].as_u64().unwrap());
    let handed_over = hdr(&body["latencies"]["intended_to_sent"]);
    assert!(handed_over.quantile_us(0.5).unwrap() > 1_000.0, "no record waited: {facts}");
}

#[test]
fn the_settings_in_force_are_told() {
    let broker = Broker::start();
    let arguments = ["--rate", "2000", "--duration", "2", "--client-set", "partitioner=murmur2_random"];
    let body = run(&load(&broker, &arguments)).expect_code(0).json();
    assert_eq!(body["body"]["client"]["settings"]["partitioner"], "murmur2_random");
}

#[test]
fn settings_that_the_workload_says_are_refused() {
    for (setting, expected) in [
        ("acks=1", "`acks` can't be a client setting: acks sets it"),
        ("bootstrap.servers=x:1", "the broker's address sets it"),
        ("compression.type=lz4", "compression sets it"),
        ("no.such.property=1", "No such configuration property"),
        ("linger.ms=soon", "Invalid value"),
        ("linger.ms", "invalid --client-set `linger.ms`: use KEY=VALUE"),
    ] {
        let arguments = ["load", "127.0.0.1:1", "--client", "librdkafka", "--client-set", setting];
        hone(&arguments).expect_code(2).expect_error(expected);
    }
    let records = ["load", "127.0.0.1:1", "--client", "librdkafka", "--records", "10"];
    hone(&records).expect_code(2).expect_error("whose batches are an output");
    let wire = ["load", "127.0.0.1:1", "--client-set", "linger.ms=5"];
    hone(&wire).expect_code(2).expect_error("no client settings");
}

/// What every tuning guide promises, measured from the broker and not from the settings: records a batch rise with the
/// linger. At these rates a linger of 0 sends almost every record alone.
#[test]
fn records_a_batch_rise_with_the_linger() {
    let broker = Broker::start();
    let records_a_batch = |rate: &str, linger_ms: &str| {
        let linger = format!("linger.ms={linger_ms}");
        let settings =
            ["--rate", rate, "--duration", "3", "--connections", "1", "--partitions", "1", "--acks", "1"];
        let arguments = load(&broker, &[&settings[..], &["--client-set", &linger]].concat());
        let record = run(&arguments).expect_code(0).json();
        let batches = &record["body"]["batches"][0];
        batches["records"].as_f64().unwrap() / batches["batches"].as_f64().unwrap()
    };
    for rate in ["2000", "10000"] {
        let [none, five, ten] = ["0", "5", "10"].map(|linger| records_a_batch(rate, linger));
        assert!(five > 1.5 * none, "{rate}/s: {none} records a batch without linger, {five} with 5 ms");
        assert!(ten > 1.3 * five, "{rate}/s: {five} records a batch with 5 ms, {ten} with 10 ms");
    }
}

/// The load's TLS and login are those of the client, of the consumers and of everything else.
#[test]
fn it_goes_in_private_and_under_a_name() {
    let papers = Papers::make();
    let [certificate, key, ca, own, own_key] =
        ["broker.pem", "broker.key", "ca.pem", "client.pem", "client.key"].map(|name| papers.text(name));
    let password = papers.note("password", "correct horse = battery, staple");
    let user = format!("ada:{password}");
    let private =
        ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca, "--sasl", "--user", &user];
    let broker = Broker::start_as(hone_command().arg("broker").args(private));
    let tls = ["--tls-ca", &ca, "--tls-cert", &own, "--tls-key", &own_key];
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        let login = ["--sasl-mechanism", mechanism, "--sasl-user", "ada", "--sasl-password-file", &password];
        let more = ["--rate", "500", "--duration", "2", "--consumers", "1", "--connections", "1"];
        let ran = run(&load(&broker, &[&more[..], &tls, &login].concat())).expect_code(0);
        let body = &ran.json()["body"];
        assert_eq!(body["facts"]["acked_requests"], body["facts"]["requests"], "{body}");
        assert_eq!(body["end_to_end"]["missing"], 0);
        assert!(!ran.stdout.contains("correct horse"), "the password is in the record");
    }
    run(&load(&broker, &["--client-set", "security.protocol=SSL"]))
        .expect_code(2)
        .expect_error("TLS and login");
    let login = ["--sasl-mechanism", "PLAIN", "--sasl-user", "ada", "--sasl-password-file", &password];
    let named = ["--tls-server-name", "localhost"];
    run(&load(&broker, &[&tls[..], &login, &named].concat()))
        .expect_code(2)
        .expect_error("(--tls-server-name) does not work with librdkafka")
        .expect_error("let the brokers advertise names from their certificates, or send by --client wire");
}

/// What a client does not hear of is refused, and not ignored; where it goes its own way, the help says so.
#[test]
fn what_the_client_decides_itself_is_not_asked_of_the_load() {
    let broker = Broker::start();
    let setting = "use --client-set max.in.flight.requests.per.connection=N";
    run(&load(&broker, &["--in-flight", "4"])).expect_code(2).expect_error(setting);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("load.toml");
    std::fs::write(&file, "name = \"t\"\n[workload]\nclient = \"librdkafka\"\nin_flight = 4\n").unwrap();
    hone(&["load", &broker.address, "--file", file.to_str().unwrap()]).expect_code(2).expect_error(setting);
    let help = hone(&["load", "--help"]).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("A client places them by its own partitioner: librdkafka by CRC32"), "{help}");
}

/// A client hides that its broker has gone: it goes on trying. The outcome says it.
#[test]
fn a_broker_that_is_killed_is_a_failed_window_with_what_was_measured() {
    let broker = Broker::start();
    let arguments =
        load(&broker, &["--rate", "500", "--duration", "6", "--timeout", "2", "--connections", "1"]);
    let ran = thread::scope(|scope| {
        let load = scope.spawn(|| run(&arguments));
        thread::sleep(Duration::from_secs(5));
        broker.signal(libc::SIGKILL);
        load.join().unwrap()
    });
    let body = &ran.expect_code(1).json()["body"];
    let reason =
        body["outcome"]["failed"]["reason"].as_str().unwrap_or_else(|| panic!("{}", body["outcome"]));
    assert!(reason.contains("no record was delivered after") && reason.contains("`timeout`"), "{reason}");
    assert!(body["facts"]["acked_requests"].as_u64().unwrap() > 200, "{}", body["facts"]);
    let events = body["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["kind"] == "connection-lost"), "{events:?}");
}

/// Both arms of a comparison are loaded by a client of their own, with the same settings.
#[test]
fn a_comparison_takes_the_client_s_load() {
    let folder = tempfile::tempdir().unwrap();
    let hone = env!("CARGO_BIN_EXE_hone");
    let broker =
        format!("{hone} broker --listen 127.0.0.1:{{port}} --metrics-listen 127.0.0.1:0 --data {{data}}");
    let settings =
        ["--client", "librdkafka", "--client-set", "linger.ms=2", "--consumers", "1", "--connections", "1"];
    let size =
        ["--rate", "300", "--duration", "1", "--warmup", "200", "--pairs", "5", "--control-pairs", "0"];
    let compare = [
        "compare",
        &broker,
        &broker,
        "--max-lateness",
        "5s",
        "--quiet",
        "--json",
        "--no-counts",
        "--primary",
        "latency-p50",
    ];
    let ran = stage::hone_in(folder.path(), &[&compare[..], &settings, &size].concat());
    let body = &ran.json()["body"];
    assert_eq!(body["workload"]["engine"]["librdkafka"]["settings"]["linger.ms"], "2", "{}", ran.stderr);
    for side in ["a", "b"] {
        let path = folder.path().join(format!("runs/compare-001/windows/000-{side}.json"));
        let window: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(window["body"]["client"]["settings"]["linger.ms"], "2");
        assert_eq!(window["body"]["end_to_end"]["missing"], 0);
    }
}
