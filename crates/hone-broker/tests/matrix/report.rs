//! One line a cell, on stderr and in `target/matrix.txt`.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

pub(crate) enum Verdict {
    Passed(String),
    NotApplicable(&'static str),
    Failed(String),
}

pub(crate) struct Report {
    client: &'static str,
    failures: Vec<String>,
    lines: Vec<String>,
}

/// The lines of all clients that are done; they run beside each other.
static DONE: Mutex<Vec<String>> = Mutex::new(Vec::new());

impl Report {
    pub(crate) fn new(client: &'static str) -> Self {
        Self { client, failures: Vec::new(), lines: Vec::new() }
    }

    pub(crate) fn add(&mut self, cell: &str, verdict: Verdict, took: Duration) {
        let (word, note) = match &verdict {
            Verdict::Passed(note) => ("ok", note.as_str()),
            Verdict::NotApplicable(reason) => ("n/a", *reason),
            Verdict::Failed(why) => ("FAILED", why.as_str()),
        };
        let seconds = took.as_secs_f64();
        let line = format!("matrix: {:<12}  {cell:<18}  {word:<6}  {seconds:>5.1} s  {note}", self.client);
        // Written past the test harness, which keeps back what a passing test prints.
        let _ = writeln!(std::io::stderr(), "{line}");
        if matches!(verdict, Verdict::Failed(_)) {
            self.failures.push(line.clone());
        }
        self.lines.push(line);
    }

    pub(crate) fn finish(self) {
        let mut done = DONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        done.extend(self.lines);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("matrix.txt");
        std::fs::write(path, done.join("\n") + "\n").unwrap();
        drop(done);
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}
