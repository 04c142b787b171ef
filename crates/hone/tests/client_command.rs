//! Any other producer as a command: the line protocol with real clients, and with programs that misbehave in every way.

use std::thread;
use std::time::Duration;

mod stage;
use stage::clients::{franz_go, java_jars};
use stage::papers::Papers;
use stage::tools::of_checkout;
use stage::{Broker, hone, hone_command, hone_here, processes_with, script, unlike_any_other};

fn hdr(text: &serde_json::Value) -> hone_record::Hdr {
    hone_record::Hdr::from_base64(text.as_str().unwrap()).unwrap()
}

/// The command line of the Java example.
fn java() -> Option<String> {
    java_jars().map(|jars| {
        let source = of_checkout("examples/clients/java/Client.java");
        format!("java -cp '{}/*' {}", jars.display(), source.display())
    })
}

fn load(broker: &Broker, client: &str, more: &[&str]) -> stage::Ran {
    // Neighbours may make a program late; what is looked at here is not the machine.
    let load = ["load", &broker.address, "--client", client, "--json", "--quiet", "--max-lateness", "5s"];
    hone(&[&load[..], more].concat())
}

/// Everything is told once, comes out again, keeps the schedule, and the linger shows in the batches.
fn check_a_client(client: &str, linger: &str) {
    let broker = Broker::start();
    let more =
        ["--rate", "2000", "--duration", "4", "--warmup", "4000", "--connections", "1", "--consumers", "1"];
    let ran = load(&broker, client, &[&more[..], &["--client-set", linger]].concat()).expect_code(0);
    let body = &ran.json()["body"];
    let facts = &body["facts"];
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
    let acked = facts["acked_records"].as_u64().unwrap();
    assert!((7_000..9_000).contains(&acked), "{acked}");
    let seen = &body["end_to_end"];
    assert_eq!(
        (seen["missing"].as_u64(), seen["fetched_records"].as_u64()),
        (Some(0), Some(acked)),
        "{seen}"
    );
    let batches = &body["batches"][0];
    assert_eq!(batches["records"].as_u64(), Some(acked));
    let count = batches["batches"].as_u64().unwrap();
    assert!(count < acked / 2, "{count} batches of {acked} records with {linger}");
    assert_ne!(body["client"]["software"], "", "{body}");
    let cpu_us = facts["generator_cpu"]["total_s"].as_f64().unwrap() * 1e6 / acked as f64;
    assert!(cpu_us > 3.0, "{cpu_us} µs a record: the program's CPU is not counted");
}

fn check_a_stop(client: &str) {
    let broker = Broker::start();
    let more = ["--rate", "500", "--duration", "10", "--warmup", "1000", "--connections", "1"];
    let record = thread::scope(|scope| {
        let load = scope.spawn(|| load(&broker, client, &more));
        // The window opens when the program has started and is warm; the topic of the load then has records.
        let open = || processes_with(client.split(' ').next_back().unwrap_or(client)).len() > 1;
        while !open() && !load.is_finished() {
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(Duration::from_secs(6));
        broker.signal(libc::SIGSTOP);
        thread::sleep(Duration::from_secs(1));
        broker.signal(libc::SIGCONT);
        load.join().unwrap().expect_code(0).json()
    });
    let latency = hdr(&record["body"]["latencies"]["intended_to_ack"]);
    let (p50_us, p99_us) = (latency.quantile_us(0.5).unwrap(), latency.quantile_us(0.99).unwrap());
    assert!(p99_us > 500_000.0, "p99 {p99_us} µs: the stall is hidden");
    assert!(p99_us < 1_800_000.0, "p99 {p99_us} µs: longer than the stall");
    assert!(p50_us < 100_000.0, "p50 {p50_us} µs: the stall is everywhere");
}

#[test]
fn franz_go_keeps_the_schedule() {
    if let Some(client) = franz_go() {
        check_a_client(&client, "linger_ms=10");
    }
}

#[test]
fn java_keeps_the_schedule() {
    if let Some(client) = java() {
        check_a_client(&client, "linger.ms=10");
    }
}

/// The load's TLS and login are handed to the program.
#[test]
fn programs_go_in_private_and_under_a_name() {
    let papers = Papers::make();
    let [certificate, key, ca, own, own_key] =
        ["broker.pem", "broker.key", "ca.pem", "client.pem", "client.key"].map(|name| papers.text(name));
    let password = papers.note("password", "correct \"horse\" = battery, staple");
    let user = format!("ada:{password}");
    let private =
        ["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca, "--sasl", "--user", &user];
    let broker = Broker::start_as(hone_command().arg("broker").args(private));
    let tls = ["--tls-ca", &ca, "--tls-cert", &own, "--tls-key", &own_key];
    let login =
        ["--sasl-mechanism", "SCRAM-SHA-256", "--sasl-user", "ada", "--sasl-password-file", &password];
    let more = ["--rate", "200", "--duration", "2", "--warmup", "500", "--connections", "1"];
    for client in [franz_go(), java()].into_iter().flatten() {
        let ran = load(&broker, &client, &[&more[..], &tls, &login].concat()).expect_code(0);
        let facts = &ran.json()["body"]["facts"];
        assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
    }
}

#[test]
fn a_stop_shows_at_its_full_length_through_franz_go() {
    if let Some(client) = franz_go() {
        check_a_stop(&client);
    }
}

#[test]
fn a_stop_shows_at_its_full_length_through_java() {
    if let Some(client) = java() {
        check_a_stop(&client);
    }
}

/// Programs that misbehave: each has a clear end, and leaves nothing behind.
#[test]
fn a_program_that_misbehaves_is_named_with_what_it_did() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let hello = "while read -r line; do [ \"$line\" = prepare ] && break; done";
    let ready = format!("{hello}; echo ready test; read -r go");
    let all = [
        // Before it is ready: an error of the load.
        ("ends", format!("{hello}; echo no luck >&2; exit 3"), "it ended before it was ready", "no luck"),
        (
            "refuses",
            format!("{hello}; echo error no such setting"),
            "it reported an error: no such setting",
            "",
        ),
        (
            "babbles",
            "echo Hello world".to_owned(),
            "`Hello world`, which is not a line of the protocol",
            "client-protocol",
        ),
        (
            "binary",
            "head -c 100000 /dev/zero".to_owned(),
            "which is not a line of the protocol: it has no end",
            "",
        ),
        // In the warm-up.
        ("dies", format!("{ready}; echo bad >&2; kill -9 $$"), "it ended while the load ran", "signal 9"),
        (
            "repeats",
            format!("{ready}; echo ack 0 0 0 0 0; echo ack 0 0 0 0 0"),
            "the end of record 0 was already reported",
            "",
        ),
        ("invents", format!("{ready}; echo ack 99999 0 0 0 0"), "record 99999 was never due", ""),
        (
            "clock",
            format!("{ready}; echo ack 0 0 999999999999999 0 0"),
            "times must come from CLOCK_MONOTONIC",
            "",
        ),
        (
            "gives-up",
            format!("{ready}; echo error the broker is strange"),
            "it stopped: the broker is strange",
            "",
        ),
        ("hurries", format!("{ready}; echo done; sleep 5"), "not reported by the client (5 times)", ""),
    ];
    for (name, body, expected, also) in &all {
        let path = script(folder.path(), name, body);
        let ran =
            load(&broker, path.to_str().unwrap(), &["--warmup", "5", "--duration", "1", "--rate", "10"]);
        let ran = ran.expect_code(1);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains(also), "{name}: {}", ran.stderr);
        assert!(!ran.stderr.contains("panicked"), "{name}: {}", ran.stderr);
    }
    let missing = load(&broker, "./no-such-program", &[]).expect_code(1);
    missing.expect_error("no-such-program");
}

/// A program that forgets records and one that hangs in the window: what they did tell is kept.
#[test]
fn records_that_a_program_forgets_are_errors_and_a_silent_program_ends() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let mark = unlike_any_other("silent");
    let speak = |window: &str| {
        format!(
            "while read -r line; do [ \"$line\" = prepare ] && break; done; echo ready test; \
             read -r go; read -r due; read -r end; echo ack 0 0 1 0 0; echo done; read -r go; {window}"
        )
    };
    let forgets = script(
        folder.path(),
        "forgets",
        &speak("sleep 3; echo ack 0 100000000 200000000 0 0; echo done; read -r quit"),
    );
    let more =
        ["--warmup", "1", "--duration", "1", "--rate", "10", "--schedule", "uniform", "--timeout", "1"];
    let record = load(&broker, forgets.to_str().unwrap(), &more).json();
    let facts = &record["body"]["facts"];
    assert_eq!(
        (facts["acked_requests"].as_u64(), facts["requests"].as_u64()),
        (Some(1), Some(10)),
        "{record}"
    );
    assert_eq!(facts["errors"]["not reported by the client"], 9, "{facts}");

    let silent = script(folder.path(), &mark, &speak("sleep 1000"));
    let record = load(&broker, silent.to_str().unwrap(), &more).expect_code(1).json();
    let reason = record["body"]["outcome"]["failed"]["reason"].as_str().unwrap();
    assert!(
        reason.contains("sent no output for 6 s after the end of the window, with 10 records open"),
        "{reason}"
    );
    assert_eq!(record["body"]["facts"]["errors"]["not reported by the client"], 10);
    assert!(processes_with(&mark).is_empty(), "something is left");

    // One that dies in the window ends it there: rates are those of the time that it lived.
    let window = "sleep 2; echo ack 0 100000000 200000000 0 0; exit 3";
    let dies = script(folder.path(), "dies-later", &speak(window));
    let long =
        ["--warmup", "1", "--duration", "60", "--rate", "10", "--schedule", "uniform", "--timeout", "1"];
    let record = load(&broker, dies.to_str().unwrap(), &long).expect_code(1).json();
    let body = &record["body"];
    let reason = body["outcome"]["failed"]["reason"].as_str().unwrap();
    assert!(reason.contains("it ended while the load ran"), "{reason}");
    let duration_s = body["duration_s"].as_f64().unwrap();
    assert!((2.0..40.0).contains(&duration_s), "{duration_s}");
    assert!(body["series"].as_array().unwrap().len() <= duration_s.ceil() as usize, "{}", body["series"]);
    let asked = body["facts"]["asked_requests_per_s"].as_f64().unwrap();
    assert!((8.0..12.0).contains(&asked), "{asked}/s were due in {duration_s} s");
    assert!(body["facts"]["generator_cpu"]["total_s"].as_f64().unwrap() >= 0.0, "{}", body["facts"]);
}

/// A program may take a minute to get ready. Whoever does not want to wait for it is heard meanwhile, and nothing is left.
#[test]
fn an_interrupt_is_heard_while_a_program_gets_ready() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let mark = unlike_any_other("slow-start");
    let slow = script(folder.path(), &mark, "trap '' INT; sleep 1000");
    let child = hone_here()
        .args(["load", &broker.address, "--client", slow.to_str().unwrap(), "--json", "--quiet"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Hone's own command line has its name, too.
    let begun = std::time::Instant::now();
    while processes_with(&mark).len() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the program was not started");
        thread::sleep(Duration::from_millis(50));
    }
    let since = std::time::Instant::now();
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    stage::Ran::of(child.wait_with_output().unwrap()).expect_code(1).expect_error("interrupted");
    assert!(since.elapsed() < Duration::from_secs(30), "heard after {:?}", since.elapsed());
    assert!(processes_with(&mark).is_empty(), "something is left");
}

/// A program knows due times that have not come when the user ends the window: the window ends with them, so that what they
/// carry and how long they took go together.
#[test]
fn an_interrupted_window_is_as_long_as_what_the_program_was_told() {
    let Some(client) = franz_go() else { return };
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    let series = folder.path().join("series.ndjson");
    let child = hone_here()
        .args(["load", &broker.address, "--client", &client, "--json", "--quiet", "--max-lateness", "5s"])
        .args(["--rate", "1000", "--schedule", "uniform", "--duration", "60", "--warmup", "100", "--series"])
        .arg(&series)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let told = || std::fs::read_to_string(&series).is_ok_and(|text| text.lines().count() >= 2);
    while !told() {
        thread::sleep(Duration::from_millis(50));
    }
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGINT) }, 0);
    let record = stage::Ran::of(child.wait_with_output().unwrap()).expect_code(1).json();
    let facts = &record["body"]["facts"];
    let duration_s = record["body"]["duration_s"].as_f64().unwrap();
    assert!(duration_s < 30.0, "{duration_s}");
    let asked = facts["asked_requests_per_s"].as_f64().unwrap();
    assert!((asked - 1_000.0).abs() < 5.0, "{asked}/s due in {duration_s} s: {facts}");
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts}");
}
