//! `hone host apply`: makes what a plan says, so that it can be taken back.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_format::read_seconds;
use hone_host::saved_plan;

use super::plan::What;
use crate::cmd::context::CliContext;
use hone_document::host::Made;
use hone_experiment::ending::{Ending, NotItsOwn, Usage};
use hone_experiment::host_ledger::HostLedger;
use hone_experiment::host_plan::{apply, planned, saved};

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

pub(crate) fn run(arguments: &Arguments, root: &Path, book: &HostLedger, cli: &CliContext) -> Result<Ending> {
    let what = &arguments.what;
    let plan = if saved_plan::is_name(&what.profile) {
        if what.on.data.is_some() || !what.on.disk.is_empty() {
            return Err(Usage("a saved plan names its disks: leave out --data and --disk".to_owned()).into());
        }
        saved(&what.profile, root)?
    } else {
        planned(&what.profile, &what.on.choice(), root)?
    };
    if let Some(wanted) = arguments.if_plan.as_ref().filter(|wanted| **wanted != plan.fingerprint) {
        let now = &plan.fingerprint;
        let why = format!(
            "this host is not as it was when it was planned: the plan is {now} now, not {wanted}; nothing was changed, plan again"
        );
        return Err(NotItsOwn(why).into());
    }
    let applied = apply(root, &plan, arguments.all, arguments.confirm_within, book.path())?;
    let made = Made { plan, applied };
    let entered = made
        .applied
        .as_ref()
        .map_or(Ok(()), |applied| book.applied(&made.plan, applied, arguments.all, &cli.progress));
    cli.show_found("host-applied", &made, hone_document::host::applied)?;
    entered.map(|()| Ending::Done)
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
