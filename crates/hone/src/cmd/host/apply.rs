//! `hone host apply`: makes what a plan says, so that it can be taken back.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_host::commit::{Applied, CommitError, Order, make};
use hone_host::journal::FOLDER;
use hone_host::plan::Plan;
use serde::Serialize;

use super::super::Desk;
use super::Book;
use super::plan::{What, made};
use crate::{Ending, NotItsOwn, Usage, show};

/// Set what a profile wants, for this boot only, with the way back on disk before each write.
///
/// With --confirm-within a guard takes everything back at that time unless `hone host confirm` was called: it is a process of
/// its own that is ready before the first write, and needs nothing else of Hone. Writes of a scheduler or of a number of
/// requests stop a disk's queue for some 20 to 40 ms: apply while the broker is quiet.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    what: What,
    /// Take everything back after this time (as 60s, 10m) unless confirmed.
    #[arg(long, value_name = "TIME", value_parser = time)]
    confirm_within: Option<Duration>,
    /// Also set what can't matter here.
    #[arg(long)]
    all: bool,
}

/// A plan, and what came of it.
#[derive(Debug, Serialize)]
pub(crate) struct Made {
    pub(crate) plan: Plan,
    /// `None` when there was nothing to write.
    pub(crate) applied: Option<Applied>,
}

/// Shorter than the guard's own steps is no time to confirm; longer than a day is no guard.
const SHORTEST_S: u64 = 2;
const LONGEST_S: u64 = 86_400;

fn time(text: &str) -> Result<Duration, String> {
    let (digits, unit_s) = match text.char_indices().last() {
        Some((at, 's')) => (text.get(..at), 1),
        Some((at, 'm')) => (text.get(..at), 60),
        Some((at, 'h')) => (text.get(..at), 3600),
        _ => (None, 1),
    };
    let seconds = digits.and_then(|digits| digits.parse::<u64>().ok()?.checked_mul(unit_s));
    seconds
        .filter(|seconds| (SHORTEST_S..=LONGEST_S).contains(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| "give a time from 2s to 24h, as 60s or 10m".to_owned())
}

pub(crate) fn run(arguments: &Arguments, root: &Path, book: &Book, desk: &Desk) -> Result<Ending> {
    let plan = made(&arguments.what, root)?;
    let steps = plan.steps(arguments.all);
    let applied = if steps.is_empty() {
        None
    } else {
        let order = Order {
            profile: plan.profile.clone(),
            steps,
            disks: plan.disks.clone(),
            confirm_within: arguments.confirm_within,
        };
        let made = make(root, &order, &mut |id| start_guard(root, id, book));
        Some(made.map_err(told)?)
    };
    let made = Made { plan, applied };
    let entered = made
        .applied
        .as_ref()
        .map_or(Ok(()), |applied| book.applied(&made.plan, applied, arguments.all, desk));
    desk.show_found("host-applied", &made, show::host::applied)?;
    entered.map(|()| Ending::Done)
}

/// What was not taken back after a failed step is part of what is told.
fn told(error: CommitError) -> anyhow::Error {
    let CommitError::TakenBack { outcomes, .. } = &error else { return error.into() };
    let left: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.as_str()).collect();
    if left.is_empty() {
        return error.into();
    }
    NotItsOwn(format!("{error}, but for {}; `hone host revert --force` writes over these", left.join(", ")))
        .into()
}

/// The guard is a unit of systemd where that runs the machine, since the end of a login session may end all processes that
/// began in it; else a process with a session of its own.
fn start_guard(root: &Path, id: &str, book: &Book) -> Result<(), String> {
    let root_text = root.to_str().ok_or_else(|| Usage("the root is no UTF-8".to_owned()).to_string())?;
    let ledger = std::path::absolute(book.path()).map_err(|error| error.to_string())?;
    let ledger =
        ledger.to_str().ok_or_else(|| Usage("the ledger's path is no UTF-8".to_owned()).to_string())?;
    let arguments = ["host", "guard", id, "--root", root_text, "--ledger", ledger];
    if root == Path::new("/") && Path::new("/run/systemd/system").is_dir() {
        return start_unit(id, &arguments);
    }
    let log = root.join(FOLDER).join(format!("{id}.log"));
    hone_tool::detach_self(&arguments, &log).map(|_| ()).map_err(|error| error.to_string())
}

fn start_unit(id: &str, arguments: &[&str]) -> Result<(), String> {
    use hone_tool::{Call, Runner as _, System, Tool};
    let told = |error: hone_tool::ToolError| error.to_string();
    let found = Tool::new("systemd-run", "HONE_SYSTEMD_RUN").locate(&[]).map_err(told)?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let logs = tempfile::tempdir().map_err(|error| error.to_string())?;
    let unit = format!("--unit=hone-guard-{id}");
    let runner = System::new(logs.path()).map_err(told)?;
    let call = Call::new("systemd-run", found.path(), "/")
        .args(["--quiet", "--collect", &unit, "--"])
        .args([program.as_os_str()])
        .args(arguments.iter().copied())
        .limit(Duration::from_secs(20));
    runner.run(&call).map(|_| ()).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_their_unit() {
        assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["", "60", "1s", "25h", "s", "-5m", "10µ", "99999999999999999999h"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
