//! `hone host confirm`, `revert`, `recover`, `uninstall`, and the guard.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use hone_host::commit::{self, Recovered, TakenBack, Turn};
use serde::Serialize;

use crate::cmd::context::CliContext;
use hone_document::host::Found;
use hone_experiment::ending::Ending;
use hone_experiment::host_ledger::HostLedger;

/// Keep a change, the last one unless named: its guard is told to go, and the next boot gets the same values.
///
/// The files are one of sysctl.d, rules of udev that know a disk by its wwid or serial, and one of tmpfiles.d; all are read
/// before a broker's service starts.
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Keep it until the next boot only.
    #[arg(long)]
    this_boot: bool,
    #[command(flatten)]
    which: Which,
}

/// Which change is meant.
#[derive(Debug, Args)]
struct Which {
    /// This change and no other one, as 00001.
    #[arg(long, value_name = "ID")]
    change: Option<String>,
}

impl Which {
    fn id(&self) -> Option<&str> {
        self.change.as_deref()
    }
}

/// Give a change more time, the last one unless named: its guard comes this long from now, unless it is renewed again or confirmed.
///
/// Whoever changes hosts from afar renews as long as it lives; when it is gone, the guard takes the change back.
#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// From now on, as 60s, 10m. A guard that would come later is left as it is.
    #[arg(value_name = "TIME", value_parser = super::apply::time)]
    within: std::time::Duration,
    #[command(flatten)]
    which: Which,
}

/// What a renewal did.
#[derive(Debug, Serialize)]
pub(crate) struct Renewed {
    /// The change.
    pub(crate) id: String,
    /// Until its guard comes.
    pub(crate) seconds_left: u64,
}

/// Take a change back, the last one unless named: every value as it was, and the files of the next boot.
///
/// What somebody else has set since is told and left as it is. After a boot what the change's files have set again is taken back, too.
#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// Also write over what somebody else has set since; where no change is open, of the last one that left something.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: Which,
}

/// After a crash: take back what was broken off, is overdue or has lost its guard, and say what is in force.
#[derive(Debug, Args)]
pub(crate) struct Recover {
    /// Also write over what somebody else has set since.
    #[arg(long)]
    force: bool,
}

/// Take everything back and delete the journals: nothing of `hone host` is left on this machine.
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Also write over what somebody else has set since.
    #[arg(long)]
    force: bool,
}

/// Wait, and take a change back.
#[derive(Debug, Args)]
pub(crate) struct Guard {
    /// The change.
    id: String,
}

fn ending(found: &Found) -> Ending {
    let is_whole = |change: &Recovered| match change {
        Recovered::TakenBack(back) => back.is_whole(),
        Recovered::Waiting { .. } | Recovered::InForce { .. } => true,
        Recovered::Unreadable { .. } => false,
    };
    if found.changes.iter().all(is_whole) { Ending::Done } else { Ending::CouldNot }
}

pub(crate) fn confirm(
    arguments: &Confirm,
    root: &Path,
    book: &HostLedger,
    cli: &CliContext,
) -> Result<Ending> {
    let confirmed = commit::confirm(root, arguments.which.id(), !arguments.this_boot)?;
    let entered = book.confirmed(&confirmed, &cli.progress);
    cli.show_found("host-confirmed", &confirmed, hone_document::host::confirmed)?;
    entered.map(|()| Ending::Done)
}

pub(crate) fn renew(arguments: &Renew, root: &Path, cli: &CliContext) -> Result<Ending> {
    let (id, seconds_left) = commit::renew(root, arguments.which.id(), arguments.within)?;
    cli.show_found("host-renewed", &Renewed { id, seconds_left }, |renewed| {
        format!(
            "Change {} is taken back in {} s unless it is confirmed or renewed.\n",
            renewed.id, renewed.seconds_left
        )
    })
}

pub(crate) fn revert(arguments: &Revert, root: &Path, book: &HostLedger, cli: &CliContext) -> Result<Ending> {
    let back = commit::take_last_back(root, arguments.which.id(), arguments.force)?;
    let entered = book.taken_back("host revert", &back, &cli.progress);
    let ending = told(Found { changes: vec![Recovered::TakenBack(back)], uninstalled: false }, cli)?;
    entered.map(|()| ending)
}

pub(crate) fn recover(
    arguments: &Recover,
    root: &Path,
    book: &HostLedger,
    cli: &CliContext,
) -> Result<Ending> {
    let changes = commit::recover(root, arguments.force)?;
    let entered = changes.iter().try_for_each(|change| match change {
        Recovered::TakenBack(back) => book.taken_back("host recover", back, &cli.progress),
        Recovered::Waiting { .. } | Recovered::InForce { .. } | Recovered::Unreadable { .. } => Ok(()),
    });
    let ending = told(Found { changes, uninstalled: false }, cli)?;
    entered.map(|()| ending)
}

pub(crate) fn uninstall(arguments: &Uninstall, root: &Path, cli: &CliContext) -> Result<Ending> {
    // A run that tries settings would go on with journals that are gone.
    let _turn = Turn::take(root)?;
    let known = commit::known(root);
    let mut changes = Vec::new();
    // The last one first: it has found the values of those before it.
    for (_, state) in known.states.iter().rev().filter(|(_, state)| !state.closed) {
        let back = commit::take_last_back(root, Some(&state.begun.id), arguments.force)?;
        changes.push(Recovered::TakenBack(back));
    }
    let unreadable = known.unreadable.into_iter();
    changes.extend(unreadable.map(|one| Recovered::Unreadable { id: one.id, why: one.why.to_string() }));
    let mut found = Found { changes, uninstalled: false };
    if ending(&found) == Ending::Done {
        commit::forget(root)?;
        found.uninstalled = true;
    }
    told(found, cli)
}

fn told(found: Found, cli: &CliContext) -> Result<Ending> {
    let ending = ending(&found);
    cli.show_found("host-taken-back", &found, hone_document::host::taken_back)?;
    Ok(ending)
}

pub(crate) fn guard(arguments: &Guard, root: &Path, book: &HostLedger, cli: &CliContext) -> Result<Ending> {
    hone_experiment::guard::outlive_others();
    let back: Option<TakenBack> = commit::guard(root, &arguments.id)?;
    if let Some(back) = &back {
        // The values are back: an entry that can't be written is told in the guard's log, and ends nothing.
        if let Err(error) = book.taken_back("host guard", back, &cli.progress) {
            cli.progress.line(&format!("{error:#}"));
        }
    }
    Ok(if back.is_none_or(|back| back.is_whole()) { Ending::Done } else { Ending::CouldNot })
}
