//! One load from several generators: they meet in a folder or a bucket, start together, and their records merge into what
//! one generator would have recorded.

#![expect(clippy::disallowed_methods, reason = "tests start the program as its users do")]

use std::process::{Command, Stdio};

#[path = "../../hone-store/tests/server/mod.rs"]
mod server;
mod stage;
use stage::{Broker, Ran, hone, hone_command, hone_in};

const LOAD: [&str; 10] =
    ["--rate", "900", "--duration", "3", "--warmup", "100", "--schedule", "poisson", "--wait", "60"];

fn body(text: &str) -> serde_json::Value {
    serde_json::from_str::<serde_json::Value>(text).unwrap()["body"].clone()
}

fn latencies(body: &serde_json::Value) -> hone_record::Hdr {
    hone_record::Hdr::from_base64(body["latencies"]["intended_to_ack"].as_str().unwrap()).unwrap()
}

#[test]
fn shards_meet_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("meeting").display().to_string();
    share_the_schedule_and_merge_exactly(&place, &[]);
}

#[test]
fn shards_meet_in_a_bucket() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let address = server::serve(folder.path());
    share_the_schedule_and_merge_exactly("s3://runs/today/42", &server::settings(address, server::SECRET));
    assert!(
        folder.path().join("runs/today/42/merged.json").is_file(),
        "the merged record is not in the bucket"
    );
}

fn share_the_schedule_and_merge_exactly(place: &str, settings: &[(String, String)]) {
    let broker = Broker::start();
    let with_settings = |mut command: Command| {
        command.envs(settings.iter().cloned());
        command
    };
    let shards: Vec<_> = (0..3)
        .map(|index| {
            let mut command = with_settings(hone_command());
            command.args(["load", &broker.address, "--json", "--quiet", "--store", place]).args(LOAD);
            command.args(["--shard", &format!("{index}/3")]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let parts: Vec<serde_json::Value> = shards
        .into_iter()
        .map(|shard| {
            let output = shard.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            body(&String::from_utf8(output.stdout).unwrap())
        })
        .collect();
    let merge = ["merge", "--store", place, "--shards", "3", "--json"];
    let merged = Ran::of(with_settings(hone_command()).args(merge).output().unwrap());
    let merged = merged.expect_code(0).json()["body"].clone();

    let too_much = [&merge[..], &["--require", "throughput>100000"]].concat();
    let judged = Ran::of(with_settings(hone_command()).args(too_much).output().unwrap()).expect_code(3);
    assert_eq!(judged.json()["body"]["requirements"].as_array().unwrap().len(), 1);

    // One load alone has the same arrivals: the shards together must have had all of them, each once.
    let whole = ["load", &broker.address, "--json", "--quiet"];
    let whole = hone(&[&whole[..], &LOAD[..8]].concat()).expect_code(0).json()["body"].clone();
    assert_eq!(merged["facts"]["requests"], whole["facts"]["requests"]);
    let mut by_hand = hone_record::Hdr::new();
    parts.iter().for_each(|part| by_hand.merge(&latencies(part)));
    assert_eq!(latencies(&merged), by_hand);
    assert_eq!(merged["facts"]["acked_requests"], merged["facts"]["requests"]);

    let starts: Vec<u64> = parts.iter().map(|part| part["started_unix_ms"].as_u64().unwrap()).collect();
    let common = parts[0]["shard"]["start_unix_ms"].as_u64().unwrap();
    assert!(parts.iter().all(|part| part["shard"]["start_unix_ms"] == common));
    // All wake at the same moment, but for the machine's own delay.
    assert!(starts.iter().all(|start| start.abs_diff(common) < 500), "{starts:?} but {common}");
    assert!(
        parts.iter().all(|part| part["facts"]["requests"].as_u64().unwrap() > 700),
        "a shard had nothing to do"
    );

    let again = [&["load", &broker.address, "--store", place, "--shard", "0/3"], &LOAD[..]].concat();
    let again = Ran::of(with_settings(hone_command()).args(again).output().unwrap());
    again.expect_code(1).expect_error("of an earlier run");
}

/// A client's batches are read back from the topic, which all shards share: they count once, and every record of every shard
/// has its bytes. Consumers are each shard's own.
#[test]
fn shards_of_a_client_have_the_bytes_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    let place = folder.path().join("meeting").display().to_string();
    let shards: Vec<_> = (0..2)
        .map(|index| {
            let mut command = hone_command();
            command.args(["load", &broker.address, "--json", "--quiet", "--store", &place]).args(LOAD);
            command.args(["--client", "librdkafka", "--consumers", "1", "--bytes", "500"]);
            command.args(["--max-lateness", "5s", "--shard", &format!("{index}/2")]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    for shard in shards {
        let ran = Ran::of(shard.wait_with_output().unwrap()).expect_code(0).json();
        let facts = &ran["body"]["facts"];
        let payload = facts["acked_records"].as_u64().unwrap() * 500;
        assert_eq!(facts["acked_bytes"].as_u64(), Some(payload), "a shard has others' bytes: {facts}");
    }
    let merged = hone(&["merge", "--store", &place, "--shards", "2", "--json"]).expect_code(0).json();
    let body = &merged["body"];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    let records = number(&body["facts"]["acked_records"]);
    let read_back = &body["batches"][0];
    let bytes = number(&read_back["bytes"]) * records / number(&read_back["records"]);
    assert_eq!(number(&body["facts"]["acked_bytes"]), bytes, "{}", body["facts"]);
    assert!(bytes > records * 500, "the batches' own bytes are not in {bytes}");
    assert_eq!((number(&body["end_to_end"]["consumers"]), number(&body["workload"]["consumers"])), (2, 2));
    assert_eq!(latency_count(&body["end_to_end"]["latency"]), records, "{}", body["end_to_end"]["missing"]);
}

fn latency_count(histogram: &serde_json::Value) -> u64 {
    hone_record::Hdr::from_base64(histogram.as_str().unwrap()).unwrap().count()
}

#[test]
fn what_is_no_shard_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (args, expected) in [
        (&["load", "127.0.0.1:1", "--shard", "3/3", "--store", "x"][..], "I starts at 0"),
        (&["load", "127.0.0.1:1", "--shard", "one", "--store", "x"], "I/N"),
        (&["load", "127.0.0.1:1", "--shard", "0/2"], "--store"),
        (&["merge"], "`hone merge` needs RECORD"),
        (
            &["load", "h:1", "--shard", "0/2", "--store", "x", "--require", "p99<3ms"],
            "give --require to `hone merge`",
        ),
        (&["load", "127.0.0.1:1", "--emit", "kubernetes", "--shards", "2", "--store", "s3://b/p"], "--image"),
        (
            &["load", "h:1", "--emit", "kubernetes", "--shards", "2", "--store", "/tmp/x", "--image", "i"],
            "pods share no folder",
        ),
        (
            &[
                "load",
                "h:1",
                "--connections",
                "0",
                "--emit",
                "kubernetes",
                "--shards",
                "2",
                "--store",
                "s3://b/p",
                "--image",
                "i",
            ],
            "must lie between 1 and",
        ),
    ] {
        hone_in(folder.path(), args).expect_code(2).expect_error(expected);
    }
    std::fs::write(folder.path().join("lines"), "a\nb\n").unwrap();
    std::fs::write(folder.path().join("times"), "0.1\n0.2\n").unwrap();
    for (more, expected) in [
        (["--payload", "file:lines"], "the pods do not have the file of --payload"),
        (["--schedule", "replay:times"], "the pods do not have the file of --schedule"),
        (["--pid", "1"], "--pid is a process of this machine"),
    ] {
        let emit = ["--emit", "kubernetes", "--shards", "2", "--store", "s3://b/p", "--image", "i"];
        let args = [&["load", "h:1"][..], &more, &emit].concat();
        hone_in(folder.path(), &args).expect_code(2).expect_error(expected).expect_error("next: ");
    }
    hone_in(folder.path(), &["merge", "no-such.json"]).expect_code(1).expect_error("no-such.json");
}

#[test]
fn a_job_has_the_name_that_it_was_given() {
    let emit =
        ["load", "h:1", "--emit", "kubernetes", "--shards", "2", "--store", "s3://b/p", "--image", "i"];
    let manifest = |name: &str| hone(&[&emit[..], &["--tls-ca", "ca.pem", "--manifest-name", name]].concat());
    let told = manifest("tuesday").expect_code(0).stdout;
    for named in ["  name: tuesday\n", "secretName: tuesday-security"] {
        assert!(told.contains(named), "{named} is missing:\n{told}");
    }
    assert!(!told.contains("manifest-name") && !told.contains("hone-load"), "{told}");
    manifest("Tuesday").expect_code(2).expect_error("Tuesday");
}

/// The manifest is valid by Kubernetes' own schema, strictly: an unknown field is an error.
#[test]
fn the_manifest_is_what_kubernetes_takes() {
    let python = std::env::var_os("HONE_PYTHON").map(std::path::PathBuf::from);
    let checker =
        python.as_deref().and_then(|python| python.parent()).map(|bin| bin.join("kubernetes-validate"));
    let Some(checker) = checker.filter(|checker| checker.exists()) else {
        assert!(
            std::env::var_os("HONE_REQUIRE_TOOLS").is_none(),
            "kubernetes-validate is missing: script/bootstrap --test"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let manifest = hone(&[
        "load",
        "kafka.example:9092",
        "--rate",
        "100000",
        "--duration",
        "60",
        "--topic-config",
        "a=$(HOME)",
        "--raw",
        "raw.csv",
        "--tls-ca",
        "ca.pem",
        "--sasl-mechanism",
        "PLAIN",
        "--sasl-user",
        "ada",
        "--emit",
        "kubernetes",
        "--shards",
        "8",
        "--store",
        "s3://bucket/runs/42",
        "--image",
        "example.com/hone:1.0",
    ])
    .expect_code(0)
    .stdout;
    let file = folder.path().join("load.yaml");
    std::fs::write(&file, &manifest).unwrap();
    let valid = |file: &std::path::Path| {
        let output = Command::new(&checker).args(["--strict", "--quiet"]).arg(file).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (ok, said) = valid(&file);
    assert!(ok, "{said}\n{manifest}");
    // The checker can fail: a misspelt field is found.
    let broken = folder.path().join("broken.yaml");
    std::fs::write(&broken, manifest.replace("completionMode", "completionMod")).unwrap();
    assert!(!valid(&broken).0, "the checker takes anything");
    for argument in [
        "\"--rate\"",
        "\"100000\"",
        "\"$(JOB_COMPLETION_INDEX)/8\"",
        "\"a=$$(HOME)\"",
        "- \"--tls-ca\"\n            - \"/security/tls-ca\"",
        "kubectl create secret generic hone-load-security '--from-file=tls-ca=ca.pem'",
        "mountPath: /security",
        "secretName: hone-load-security",
        "# The password of the login is another key of that Secret: HONE_SASL_PASSWORD.",
    ] {
        assert!(manifest.contains(argument), "{argument} is missing:\n{manifest}");
    }
    for argument in [
        "\"--emit\"",
        "\"--image\"",
        "raw.csv",
        "\"ca.pem\"",
        "--shards\"\n            - \"8\"\n            - \"--shard\"",
    ] {
        assert!(!manifest.contains(argument), "{argument} was handed to the pods:\n{manifest}");
    }
}

/// Pods have the command line alone: what the environment of this machine says of the connection is not lost in silence.
#[test]
fn a_manifest_takes_nothing_from_the_environment() {
    let emit =
        ["load", "b:1", "--emit", "kubernetes", "--shards", "2", "--store", "s3://b/p", "--image", "i"];
    let with = |args: &[&str], variable: &str, value: &str| {
        Ran::of(hone_command().args(args).env(variable, value).output().unwrap())
    };
    with(&emit, "HONE_TLS_CA", "ca.pem").expect_code(2).expect_error("do not get --tls-ca of this machine");
    with(&emit, "HONE_TLS", "true").expect_code(2).expect_error("do not get --tls of this machine");
    let without_broker = [&emit[..1], &emit[2..]].concat();
    with(&without_broker, "HONE_BOOTSTRAP", "b:1").expect_code(2).expect_error("name a broker on it");
    with(&emit, "HONE_BOOTSTRAP", "b:1").expect_code(0);
}
