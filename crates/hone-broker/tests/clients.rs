//! Real clients: kcat, and librdkafka's Python binding where it is installed.

mod support;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use hone_kafka::{Codec, batches};
use support::*;

const RECORDS: usize = 100_000;

fn have_kcat() -> bool {
    have("kcat", program("kcat").arg("-V"))
}

fn input(folder: &Path) -> (std::path::PathBuf, String) {
    let lines: String = (0..RECORDS).map(|index| format!("record number {index}\n")).collect();
    let path = folder.join("input.txt");
    fs::write(&path, &lines).unwrap();
    (path, lines)
}

fn kcat(broker: &Process, arguments: &[&str]) -> String {
    let mut command = program("kcat");
    command.args(["-b", &broker.kafka.to_string()]).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn kcat_reads_back_what_it_wrote_by_default() {
    if !have_kcat() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = input(folder.path());
    let broker = Process::start(&folder.path().join("data"), &["--partitions", "1"]);
    kcat(&broker, &["-t", "t", "-P", "-l", path.to_str().unwrap()]);
    assert!(
        kcat(&broker, &["-t", "t", "-C", "-e", "-q"]) == lines,
        "what was read differs from what was written"
    );
}

#[test]
fn kcat_reads_as_a_group_and_goes_on_where_it_left() {
    if !have_kcat() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = input(folder.path());
    let data = folder.path().join("data");
    let broker = Process::start(&data, &["--partitions", "4"]);
    kcat(&broker, &["-t", "t", "-P", "-l", path.to_str().unwrap()]);
    let group = ["-X", "auto.offset.reset=earliest", "-G", "g", "t", "-e", "-q"];
    let mut read: Vec<String> = kcat(&broker, &group).lines().map(str::to_owned).collect();
    read.sort_unstable();
    let mut wanted: Vec<&str> = lines.lines().collect();
    wanted.sort_unstable();
    assert!(read == wanted, "{} of {RECORDS} records", read.len());
    // A restart keeps the group's offsets: only what is new comes now.
    assert!(broker.terminate().success());
    let broker = Process::start(&data, &[]);
    let more = folder.path().join("more.txt");
    fs::write(&more, "one more\n").unwrap();
    kcat(&broker, &["-t", "t", "-P", "-l", more.to_str().unwrap()]);
    assert_eq!(kcat(&broker, &group), "one more\n");
}

#[test]
fn kcat_s_codecs_arrive_in_the_stored_batches() {
    if !have_kcat() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = input(folder.path());
    let data = folder.path().join("data");
    let broker = Process::start(&data, &[]);
    for codec in Codec::ALL {
        let name = codec.name();
        kcat(&broker, &["-t", name, "-P", "-z", name, "-l", path.to_str().unwrap()]);
        assert!(kcat(&broker, &["-t", name, "-C", "-e", "-q"]) == lines, "{name}");
        let stored = fs::read(data.join(format!("log/{name}-0/00000000000000000000.log"))).unwrap();
        // librdkafka sends a batch as it is when packing does not make it smaller, which happens to the first ones of
        // a few records; many of these lines always get smaller.
        let large: Vec<_> =
            batches(&stored).map(Result::unwrap).filter(|batch| batch.header.record_count > 100).collect();
        assert!(!large.is_empty());
        assert!(large.iter().all(|batch| batch.header.codec() == codec), "{name}");
    }
}

#[test]
fn kcat_writes_idempotently() {
    if !have_kcat() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = input(folder.path());
    let broker = Process::start(&folder.path().join("data"), &[]);
    kcat(&broker, &["-t", "t", "-P", "-X", "enable.idempotence=true", "-l", path.to_str().unwrap()]);
    assert!(kcat(&broker, &["-t", "t", "-C", "-e", "-q"]) == lines);
}

#[test]
fn librdkafka_s_default_producer_consumer_and_admin() {
    // The test script keeps it in an environment of its own.
    let python = std::env::var("HONE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !have("Python's confluent_kafka", program(&python).args(["-c", "import confluent_kafka"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(&folder.path().join("data"), &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/librdkafka.py");
    let output = program(&python).arg(script).arg(broker.kafka.to_string()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim_end().ends_with("all good"), "{said}\n{errors}");
}
