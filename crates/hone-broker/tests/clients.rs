//! What the client matrix does not play: a hundred thousand records, a broker that is started again in between, and topics as the tools of
//! the field make them.

mod support;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use support::*;

const RECORDS: usize = 100_000;

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
fn kcat_reads_as_a_group_and_goes_on_where_it_left() {
    if !have("kcat", program("kcat").arg("-V")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, lines) = input(folder.path());
    let data = folder.path().join("data");
    let broker = Process::start(&data, &["--default-partitions", "4"]);
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
fn librdkafka_makes_topics_as_the_tools_of_the_field_do() {
    let python = std::env::var("HONE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !have("Python's confluent_kafka", program(&python).args(["-c", "import confluent_kafka"])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(&folder.path().join("data"), &[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/librdkafka_topics.py");
    let output = program(&python).arg(script).arg(broker.kafka.to_string()).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim_end().ends_with("all good"), "{said}\n{errors}");
}
