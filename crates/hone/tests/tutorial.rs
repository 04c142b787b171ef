//! The tutorial, run as its reader would: every command in order in one shell, what came held against what the page shows.
//!
//! `book/shown.rs` says which words may differ. What is measured hangs on the machine being free for some seconds, so a run that neighbours
//! disturbed is begun anew, twice at most; where tasks waited for a core most of the time in all three, that is told, and it is no failure. With
//! HONE_LONG=1 it is one, and another run begins in a clone of the repository, with the build.

#![expect(clippy::disallowed_methods, reason = "the commands are given to a shell, as the reader gives them")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

mod book;
use book::{Block, blocks, page, root, shown};

const PAGE: &str = "docs/tutorial.md";
/// Seconds that a run may take, for a machine with other work; the commands take about 80.
const LIMIT_S: &str = "400";
/// Share of the time in which tasks waited for a core, above which nothing of a shell full of clients can be measured. The tutorial
/// alone on two cores stays far below.
const BUSY: f64 = 0.5;
/// Seconds for the build in front of it.
const BUILD_LIMIT_S: &str = "3600";

/// A block of commands with what the page shows of their output.
struct Step {
    commands: Block,
    shown: Option<Block>,
}

/// What the commands of a page are, and what they print. A block of text that belongs to no command fails.
fn steps(text: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    for block in blocks(text) {
        match block.kind.as_str() {
            "sh" | "sh build" => found.push(Step { commands: block, shown: None }),
            "text" => {
                let step = found.last_mut().filter(|step| step.shown.is_none() && block.follows);
                let Some(step) = step else { panic!("line {}: no command prints this", block.line) };
                step.shown = Some(block);
            }
            // Shown, and neither run nor printed.
            "toml" | "json" => {}
            kind => panic!(
                "line {}: a block of the kind `{kind}` is neither run nor held against anything",
                block.line
            ),
        }
    }
    found
}

/// One shell for all commands. What a block prints goes to a file of its own, and the first that fails is the last.
fn script(steps: &[Step], out: &Path) -> String {
    let mut text = "set -eu\ntrap 'trap - EXIT; kill $(jobs -p) 2>/dev/null || true; wait' EXIT\n".to_owned();
    for (number, step) in steps.iter().enumerate() {
        let out = out.join(number.to_string());
        text +=
            &format!("exec >'{out}' 2>&1\n{}touch '{out}.done'\n", step.commands.text, out = out.display());
    }
    text
}

/// A network of its own where the machine allows it, so that no port is taken.
fn shell(limit_s: &str) -> Command {
    let alone = ["unshare", "--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];
    let mut works = Command::new(alone[0]);
    works.args(&alone[1..]).arg("true").stdout(Stdio::null()).stderr(Stdio::null());
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", limit_s]);
    if works.status().is_ok_and(|status| status.success()) {
        command.args(alone);
    }
    command.arg("bash");
    command
}

/// Runs the steps in a folder, and answers what each printed; fails with the output of the one that failed.
fn ran(steps: &[Step], folder: &Path, path: &str, limit_s: &str) -> Result<Vec<String>, String> {
    let out = folder.join("out");
    let work = folder.join("work");
    for folder in [&out, &work] {
        fs::create_dir_all(folder).unwrap();
    }
    let file = folder.join("script");
    fs::write(&file, script(steps, &out)).unwrap();
    let mut shell = if limit_s == BUILD_LIMIT_S { built(limit_s) } else { shell(limit_s) };
    let status = shell
        .arg(&file)
        .current_dir(&work)
        .env("PATH", path)
        .env_remove("CARGO_TARGET_DIR")
        .stdin(Stdio::null())
        .status()
        .unwrap();
    let mut printed = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let text = fs::read_to_string(out.join(number.to_string())).unwrap_or_default();
        if !out.join(format!("{number}.done")).exists() {
            return Err(format!("line {} ended with {status}:\n{text}", step.commands.line));
        }
        printed.push(without_notices(&text, &file));
    }
    Ok(printed)
}

/// Without the shell's own word that a job of the script was killed: a terminal has another one, and when it comes is chance.
fn without_notices(text: &str, script: &Path) -> String {
    let own = format!("{}: line ", script.display());
    let is_notice = |line: &&str| line.starts_with(&own) && line.contains(" Killed ");
    text.lines().filter(|line| !is_notice(line)).map(|line| line.to_owned() + "\n").collect()
}

/// The build fetches what it needs.
fn built(limit_s: &str) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", limit_s, "bash"]);
    command
}

fn differences(steps: &[Step], printed: &[String]) -> Result<(), String> {
    for (step, came) in steps.iter().zip(printed) {
        let Some(shown) = &step.shown else { continue };
        shown::compare(&shown.text, came)
            .map_err(|why| format!("{PAGE}, line {}: {why}\n--- came:\n{came}", shown.line))?;
    }
    Ok(())
}

fn path_with(folder: &Path) -> String {
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// What is measured beside a build says nothing.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    // That the other one failed is no reason.
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One attempt.
struct Failed {
    why: String,
    /// Whether every command ended as it should, and only what was printed differs.
    all_ended: bool,
    /// Share of the time in which some task waited for a core.
    busy: f64,
}

#[test]
fn every_command_runs_and_prints_what_the_page_shows() {
    let _alone = alone();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hone"));
    let path = path_with(program.parent().unwrap());
    let steps: Vec<Step> =
        steps(&page(PAGE)).into_iter().filter(|step| step.commands.kind != "sh build").collect();
    assert!(steps.len() > 8, "the commands were not found");
    let attempt = || {
        let folder = tempfile::tempdir().unwrap();
        let before = (Instant::now(), waited());
        let found = match ran(&steps, folder.path(), &path, LIMIT_S) {
            Err(why) => Err((why, false)),
            Ok(printed) => differences(&steps, &printed).map_err(|why| (why, true)),
        };
        let busy = || (waited() - before.1) / before.0.elapsed().as_secs_f64();
        found.map_err(|(why, all_ended)| Failed { why, all_ended, busy: busy() })
    };
    let mut failed = Vec::new();
    while failed.len() < 3 {
        let Err(why) = attempt() else { return };
        failed.push(why);
    }
    let told: Vec<String> = failed
        .iter()
        .map(|Failed { why, busy, .. }| {
            format!("tasks waited for a core {:.0} % of the time: {why}", 100.0 * busy)
        })
        .collect();
    // Neighbours change what is measured. What a command is and how it ends they don't.
    let is_excused = failed.iter().all(|failed| failed.all_ended && failed.busy > BUSY);
    assert!(is_excused && std::env::var_os("HONE_LONG").is_none(), "three times:\n{}", told.join("\n"));
    too_busy(&told.join("\n"));
}

#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn too_busy(told: &str) {
    eprintln!("skipped, since the machine is too busy, three times:\n{told}");
}

/// Seconds in which some task waited for a core, since boot; 0 where the kernel does not count them.
fn waited() -> f64 {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total =
        text.lines().find(|line| line.starts_with("some")).and_then(|line| line.split("total=").nth(1));
    total.and_then(|total| total.trim().parse::<f64>().ok()).unwrap_or_default() / 1e6
}

/// Downloads, a release build, and the tutorial: ten minutes.
#[test]
fn a_clone_is_built_and_led_to_the_end() {
    if std::env::var_os("HONE_LONG").is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let clone = folder.path().join("work");
    let made = Command::new("git").args(["clone", "--quiet"]).arg(root()).arg(&clone).status().unwrap();
    assert!(made.success(), "git could not clone {}", root().display());
    let steps = steps(&page(PAGE));
    let path = std::env::var("PATH").unwrap();
    let printed = ran(&steps, folder.path(), &path, BUILD_LIMIT_S).unwrap_or_else(|why| panic!("{why}"));
    differences(&steps, &printed).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn what_a_page_shows_belongs_to_a_command() {
    let found = steps("```sh\ntrue\n```\n\n```text\none\n```\nand\n```sh build\nmake\n```\n");
    let told: Vec<(&str, bool)> =
        found.iter().map(|step| (step.commands.kind.as_str(), step.shown.is_some())).collect();
    assert_eq!(told, [("sh", true), ("sh build", false)]);
    let astray = std::panic::catch_unwind(|| steps("```sh\ntrue\n```\nwords\n```text\none\n```\n"));
    assert!(astray.is_err(), "words lie between the command and the text");
}
