//! The program under test, on a root of its own.
#![allow(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

#[expect(clippy::disallowed_methods, reason = "the program under test")]
pub(crate) fn command(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone"));
    command.arg("host").args(arguments).arg("--root").arg(root);
    command
}

pub(crate) fn hone(root: &Path, arguments: &[&str]) -> Output {
    command(root, arguments).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The journal of a change under a root.
pub(crate) fn journal(root: &Path, id: &str) -> PathBuf {
    root.join(format!("var/lib/hone/host/{id}.journal"))
}

/// A guard's process and its deadline in seconds since boot, as the journal says it last.
pub(crate) fn armed(journal: &Path) -> Option<(u32, u64)> {
    let text = fs::read_to_string(journal).unwrap_or_default();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let last = lines.rfind(|line| line["entry"] == "armed")?;
    Some((u32::try_from(last["pid"].as_u64()?).ok()?, last["deadline_s"].as_u64()?))
}

/// Brings a guard to its time by way of its journal: tests that waited for a real one would be a race with the machine.
pub(crate) fn let_its_time_come(journal: &Path) {
    let (pid, _) = armed(journal).unwrap();
    let line = format!("{{\"entry\":\"armed\",\"pid\":{pid},\"deadline_s\":0}}\n");
    fs::OpenOptions::new().append(true).open(journal).unwrap().write_all(line.as_bytes()).unwrap();
}

/// Waits for what is sure to come. The limit is for what never does, and no measure of speed.
pub(crate) fn waits_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(300);
    while !is() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}
