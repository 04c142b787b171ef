//! `hone host apply`: applies a plan so that it can be rolled back.

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

/// Apply a profile's settings for this boot, with rollback.
///
/// Hone saves each old value to disk before it writes. With --confirm-within, a rollback watchdog restores all values at that time unless you
/// run `hone host confirm`.
///
/// A write of the scheduler or of nr_requests stops the disk's queue for 20 to 40 ms. Apply while the broker is quiet.
///
/// Hone also takes a plan of `hone host plan --save`, and refuses it if a setting or a disk has changed since.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    what: What,
    /// Time to confirm the change before Hone rolls it back. Examples: `60s`, `10m`. Without it, the change stays until the next boot.
    #[arg(long, value_name = "TIME", value_parser = time)]
    confirm_within: Option<Duration>,
    /// Include knobs that cannot matter on this host.
    #[arg(long)]
    all: bool,
    /// Fingerprint that the plan must have. `hone host plan --json` prints it. Hone refuses to apply another plan.
    #[arg(long, value_name = "FINGERPRINT")]
    if_plan: Option<String>,
}

/// Bounds of the time to confirm, in seconds. The rollback watchdog needs the shortest time for its own steps, and more than a day
/// protects nothing.
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
            return Err(Usage(
                "--data and --disk do not apply to a saved plan, which names its disks\n  \
                 next: leave out --data and --disk"
                    .to_owned(),
            )
            .into());
        }
        saved(&what.profile, root)?
    } else {
        planned(&what.profile, &what.on.choice(), root)?
    };
    if let Some(wanted) = arguments.if_plan.as_ref().filter(|wanted| **wanted != plan.fingerprint) {
        let now = &plan.fingerprint;
        let why = format!(
            "this host has changed since the plan: its fingerprint is now {now}, not {wanted}; Hone changed \
             nothing\n  next: make a new plan with `hone host plan`"
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
