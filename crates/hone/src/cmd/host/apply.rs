//! `hone host apply`: makes what a plan says, so that it can be taken back.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_format::read_seconds;
use hone_host::commit::{ChangeRequest, CommitError, make};
use hone_host::kernel::Files;
use hone_host::{origin, saved_plan};

use super::book::Book;
use super::plan::{What, kept, made};
use crate::cmd::context::CliContext;
use hone_document::host::Made;
use hone_experiment::ending::{Ending, NotItsOwn, Usage};
use hone_experiment::guard;

/// Set what a profile wants, for this boot only, with the way back on disk before each write.
///
/// With --confirm-within a guard takes everything back at that time unless `hone host confirm` was called: it is a process of
/// its own that is ready before the first write, and needs nothing else of Hone. Writes of a scheduler or of a number of
/// requests stop a disk's queue for some 20 to 40 ms: apply while the broker is quiet. In place of a profile it takes a plan that was
/// saved (`hone host plan --save`), and refuses it when a setting or a disk is not what it was then.
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
    /// Only if this is still the plan: its `fingerprint`, as `hone host plan --json` tells it.
    #[arg(long, value_name = "FINGERPRINT")]
    if_plan: Option<String>,
}

/// Shorter than the guard's own steps is no time to confirm; longer than a day is no guard.
const SHORTEST_S: f64 = 2.0;
const LONGEST_S: f64 = 86_400.0;

pub(super) fn time(text: &str) -> Result<Duration, String> {
    let found = read_seconds(text)?;
    match (SHORTEST_S..=LONGEST_S).contains(&found) {
        true => Ok(Duration::from_secs_f64(found)),
        false => Err(format!("invalid duration `{text}`: use 2s to 24h, for example `60s` or `10m`")),
    }
}

pub(crate) fn run(arguments: &Arguments, root: &Path, book: &Book, cli: &CliContext) -> Result<Ending> {
    let what = &arguments.what;
    let plan = if saved_plan::is_name(&what.profile) {
        if what.on.names_something() {
            return Err(Usage("a saved plan names its disks: leave out --data and --disk".to_owned()).into());
        }
        kept(&what.profile, root)?
    } else {
        made(what, root)?
    };
    if let Some(wanted) = arguments.if_plan.as_ref().filter(|wanted| **wanted != plan.fingerprint) {
        let now = &plan.fingerprint;
        let why = format!(
            "this host is not as it was when it was planned: the plan is {now} now, not {wanted}; nothing was changed, plan again"
        );
        return Err(NotItsOwn(why).into());
    }
    let mut steps = plan.steps(arguments.all);
    let applied = if steps.is_empty() {
        None
    } else {
        let files = Files::new(root);
        let origins = origin::origins(&files, false);
        steps.extend(plan.held_by_hand(&files, &origins));
        let order = ChangeRequest {
            profile: plan.profile.clone(),
            steps,
            disks: plan.devices(),
            confirm_within: arguments.confirm_within,
        };
        let made = make(root, &order, &mut |id| guard::start(root, id, Some(book.path())));
        Some(made.map_err(told)?)
    };
    let made = Made { plan, applied };
    let entered =
        made.applied.as_ref().map_or(Ok(()), |applied| book.applied(&made.plan, applied, arguments.all, cli));
    cli.show_found("host-applied", &made, hone_document::host::applied)?;
    entered.map(|()| Ending::Done)
}

/// What was not taken back after a failed step is part of what is told.
fn told(error: CommitError) -> anyhow::Error {
    let CommitError::TakenBack { outcomes, unkept, .. } = &error else { return error.into() };
    let left: Vec<&str> =
        outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.as_str()).collect();
    let mut text = error.to_string();
    if !left.is_empty() {
        let _ = write!(text, ", but for {}; `hone host revert --force` writes over these", left.join(", "));
    }
    if let Some(why) = unkept {
        let _ = write!(
            text,
            "; its journal does not say so ({why}): run `hone host recover` once that is mended"
        );
    }
    if left.is_empty() && unkept.is_none() { error.into() } else { NotItsOwn(text).into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_with_their_unit() {
        assert_eq!(time("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(time("60"), Ok(Duration::from_secs(60)));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        for bad in ["", "1", "1s", "25h", "s", "-5m", "10µ", "99999999999999999999h"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }
}
