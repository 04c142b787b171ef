//! The client matrix: each client of the field, each thing a client does, one line a cell.
//!
//! Every client is a program that plays a cell when told to and counts what happened (`program.rs`; kcat's part is
//! played by `kcat.rs`). Judging is done here, against what was asked for and against what the broker stores, which is
//! read back over a raw connection (`stored.rs`). A client's word that all went well, or its exit code, proves nothing.
//!
//! `HONE_MATRIX_BROKER=127.0.0.1:PORT` runs the same cells against another broker, which keeps the matrix honest.
//! The lines come on stderr as they are known, and together in `target/matrix.txt`.

#[path = "../support/mod.rs"]
mod support;

mod kcat;
mod program;
mod report;
mod scenarios;
mod stored;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use program::Play;
use report::{Report, Verdict};
use scenarios::{Answers, SCENARIOS, Scenario};
use stored::Wire;
use support::{Process, have, program};

/// Cells that can not exist for a client, with the reason. A client that plays one all the same is a failure, so that
/// this table can not hide a cell.
const NOT_APPLICABLE: &[(&str, &[&str], &str)] = &[
    ("kcat", &["group-848", "static-848"], "librdkafka 2.0.2 is older than KIP-848"),
    (
        "kcat",
        &["create-topic", "describe-configs", "alter-configs", "create-partitions"],
        "no such call in kcat",
    ),
    ("kcat", &["delete-records", "delete-topic", "list-groups", "describe-groups"], "no such call in kcat"),
    ("kcat", &["delete-groups", "group-offsets"], "no such call in kcat"),
    ("kcat", &["list-transactions", "describe-producers"], "no such call in kcat"),
    ("kcat", &["txn-abort", "read-committed"], "kcat commits or dies, it never aborts"),
    ("kcat", &["txn-open", "txn-fence"], "kcat sends nothing of a transaction before its input ends"),
    ("kcat", &["txn-offsets"], "kcat can not consume and produce at once"),
    ("confluent", &["list-transactions", "describe-producers"], "not in confluent-kafka's AdminClient"),
    ("aiokafka", &["group-848", "static-848"], "aiokafka 0.14 knows the classic protocol only"),
    ("aiokafka", &["list-transactions", "describe-producers"], "not in aiokafka's admin client"),
    ("aiokafka", &["delete-groups"], "not in aiokafka's admin client"),
    (
        "franz-go",
        &["static-848"],
        "franz-go 1.22.2 leaves without its instance id: INVALID_REQUEST from Apache Kafka",
    ),
    ("kafka-python", &["group-848", "static-848"], "kafka-python 3.0 knows the classic protocol only"),
];

struct Stage {
    client: &'static str,
    wire: Wire,
    program: Box<dyn Play>,
}

static NAMES: AtomicU32 = AtomicU32::new(0);

impl Stage {
    /// A name that no run before has used, even on a broker that outlives the test.
    fn name(&self, what: &str) -> String {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() % 1_000_000_000;
        let number = NAMES.fetch_add(1, Ordering::Relaxed);
        format!("matrix-{}-{what}-{since}-{number}", self.client)
    }
}

fn matrix_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/matrix")
}

/// Where script/bootstrap puts what the tests need.
fn hone_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.hone")
}

fn matrix(client: &'static str, start: impl FnOnce(SocketAddr) -> Box<dyn Play>) {
    let folder = tempfile::tempdir().unwrap();
    let own = match std::env::var("HONE_MATRIX_BROKER") {
        Ok(_) => None,
        Err(_) => Some(Process::start(&folder.path().join("data"), &[])),
    };
    let address = match &own {
        Some(broker) => broker.kafka,
        None => {
            std::env::var("HONE_MATRIX_BROKER").unwrap().parse().expect("HONE_MATRIX_BROKER=ADDRESS:PORT")
        }
    };
    let mut stage = Stage { client, wire: Wire::connect(address), program: start(address) };
    let mut report = Report::new(client);
    for scenario in SCENARIOS {
        let reasons: Vec<_> = scenario.cells.iter().map(|cell| reason(client, cell)).collect();
        let begun = Instant::now();
        let mut answers = if reasons.iter().all(Option::is_some) {
            Vec::new()
        } else {
            play(scenario, &mut stage, address)
        };
        let mut took = begun.elapsed();
        for (cell, reason) in scenario.cells.iter().zip(reasons) {
            let at = answers.iter().position(|(name, _)| name == cell);
            let verdict = match (at.map(|at| answers.remove(at).1), reason) {
                (None, Some(reason)) => Verdict::NotApplicable(reason),
                (Some(Ok(_)), Some(reason)) => {
                    Verdict::Failed(format!("works, but is listed as n/a: {reason}"))
                }
                (Some(Err(_)), Some(reason)) => Verdict::NotApplicable(reason),
                (Some(Ok(note)), None) => Verdict::Passed(note),
                (Some(Err(why)), None) => Verdict::Failed(why),
                (None, None) => Verdict::Failed("the client said nothing of it".to_owned()),
            };
            // Cells of one scenario can not be told apart by time: the first one has it all.
            report.add(cell, verdict, std::mem::take(&mut took));
        }
        assert!(answers.is_empty(), "cells that are not in the table: {answers:?}");
    }
    drop(stage);
    report.finish();
}

/// A scenario that breaks off costs its own cells, not those behind it.
fn play(scenario: &Scenario, stage: &mut Stage, address: SocketAddr) -> Answers {
    let played = std::panic::catch_unwind(AssertUnwindSafe(|| (scenario.play)(stage)));
    played.unwrap_or_else(|panic| {
        stage.wire = Wire::connect(address);
        let said = panic.downcast_ref::<String>().cloned();
        let why = said.unwrap_or_else(|| "the scenario panicked".to_owned());
        scenario.cells.iter().map(|cell| (*cell, Err(why.clone()))).collect()
    })
}

fn reason(client: &str, cell: &str) -> Option<&'static str> {
    NOT_APPLICABLE.iter().find(|(name, cells, _)| *name == client && cells.contains(&cell)).map(|row| row.2)
}

#[test]
fn kcat() {
    if have("kcat", program("kcat").arg("-V")) {
        matrix("kcat", |address| Box::new(kcat::Kcat::new(address)));
    }
}

fn python(client: &'static str, module: &str, script: &str) {
    let own = hone_folder().join("venv/bin/python");
    let python = std::env::var_os("HONE_PYTHON").map_or(own, PathBuf::from);
    if have(client, program(&python).args(["-c", &format!("import {module}")])) {
        let script = matrix_folder().join("python").join(script);
        matrix(client, |address| program::start(client, program(&python).arg("-B").arg(script), address));
    }
}

#[test]
fn confluent() {
    python("confluent", "confluent_kafka", "confluent.py");
}

#[test]
fn aiokafka() {
    python("aiokafka", "aiokafka", "aio.py");
}

#[test]
fn kafka_python() {
    python("kafka-python", "kafka", "kafka_python.py");
}

#[test]
fn franz_go() {
    if !have("Go", program("go").arg("version")) {
        return;
    }
    let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("matrix-franz-go");
    let mut build = program("go");
    build
        .args(["build", "-mod=readonly", "-o"])
        .arg(&binary)
        .arg(".")
        .current_dir(matrix_folder().join("go"));
    let built = build.output().unwrap();
    assert!(built.status.success(), "{build:?}: {}", String::from_utf8_lossy(&built.stderr));
    matrix("franz-go", |address| program::start("franz-go", &mut program(&binary), address));
}

#[test]
fn java() {
    let jars = hone_folder().join("java");
    let there = jars.join("kafka-clients.jar").exists();
    if !have(
        "Java with kafka-clients in .hone/java",
        program(if there { "java" } else { "false" }).arg("-version"),
    ) {
        return;
    }
    let mut java = program("java");
    // The program is compiled as it starts; one client needs no second stage of the compiler to be right.
    java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp"]).arg(jars.join("*"));
    java.arg(matrix_folder().join("java/Matrix.java"));
    matrix("java", |address| program::start("java", &mut java, address));
}
