//! `hone host confirm`, `renew`, `rollback`, `uninstall`, and the rollback watchdog.

use std::path::Path;

use anyhow::Result;
use clap::Args;
use hone_host::commit::{self, Recovered, TakenBack, Turn};
use serde::Serialize;

use crate::cmd::context::CliContext;
use hone_document::host::Found;
use hone_experiment::ending::Ending;
use hone_experiment::host_ledger::HostLedger;

/// Keep a change, also after a reboot.
///
/// Hone stops the rollback watchdog and writes the values for the next boot to files for sysctl.d, tmpfiles.d and udev.
#[derive(Debug, Args)]
pub(crate) struct Confirm {
    /// Keep the change only until the next boot.
    #[arg(long)]
    this_boot: bool,
    #[command(flatten)]
    which: Which,
}

/// The change to act on.
#[derive(Debug, Args)]
struct Which {
    /// Change to act on, for example `00001`. [default: the last change]
    #[arg(long = "change-id", alias = "change", value_name = "ID")]
    change: Option<String>,
}

impl Which {
    fn id(&self) -> Option<&str> {
        self.change.as_deref()
    }
}

/// Give an unconfirmed change more time before its rollback.
///
/// A program that changes hosts remotely renews the change while it runs.
#[derive(Debug, Args)]
pub(crate) struct Renew {
    /// Time from now until the rollback, for example `60s` or `10m`. Hone never shortens the time that is left.
    #[arg(value_name = "TIME", value_parser = super::apply::time)]
    within: std::time::Duration,
    #[command(flatten)]
    which: Which,
}

/// The result of a renewal.
#[derive(Debug, Serialize)]
pub(crate) struct Renewed {
    /// The ID of the change.
    pub(crate) id: String,
    /// Seconds until the rollback watchdog rolls the change back.
    pub(crate) seconds_left: u64,
}

/// Roll back a change: restore its values, remove its boot files.
///
/// Hone leaves a value that another program has set since, and names it.
#[derive(Debug, Args)]
pub(crate) struct Revert {
    /// Roll back what a crash left: changes that are incomplete or overdue, or that have lost their rollback watchdog. Hone lists the other
    /// changes that are in force.
    #[arg(long, conflicts_with = "change")]
    interrupted: bool,
    /// Overwrite what someone else has changed. If no change is open, Hone acts on the last change that left a value behind.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    which: Which,
}

/// Roll back all changes and delete the journals of `hone host`.
#[derive(Debug, Args)]
pub(crate) struct Uninstall {
    /// Overwrite what someone else has changed.
    #[arg(long)]
    force: bool,
}

/// Wait, and roll a change back: the rollback watchdog.
#[derive(Debug, Args)]
pub(crate) struct Guard {
    /// ID of the change.
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
            "Hone rolls change {} back in {} s unless you confirm or renew it.\n",
            renewed.id, renewed.seconds_left
        )
    })
}

pub(crate) fn revert(arguments: &Revert, root: &Path, book: &HostLedger, cli: &CliContext) -> Result<Ending> {
    if arguments.interrupted {
        return recover(arguments.force, root, book, cli);
    }
    let back = commit::take_last_back(root, arguments.which.id(), arguments.force)?;
    let entered = book.taken_back("host rollback", &back, &cli.progress);
    let ending = told(Found { changes: vec![Recovered::TakenBack(back)], uninstalled: false }, cli)?;
    entered.map(|()| ending)
}

pub(crate) fn recover(force: bool, root: &Path, book: &HostLedger, cli: &CliContext) -> Result<Ending> {
    let changes = commit::recover(root, force)?;
    let entered = changes.iter().try_for_each(|change| match change {
        Recovered::TakenBack(back) => book.taken_back("host rollback", back, &cli.progress),
        Recovered::Waiting { .. } | Recovered::InForce { .. } | Recovered::Unreadable { .. } => Ok(()),
    });
    let ending = told(Found { changes, uninstalled: false }, cli)?;
    entered.map(|()| ending)
}

pub(crate) fn uninstall(arguments: &Uninstall, root: &Path, cli: &CliContext) -> Result<Ending> {
    // The turn keeps a run of `hone host try` from using journals that are gone.
    let _turn = Turn::take(root)?;
    let known = commit::known(root);
    let mut changes = Vec::new();
    // The last change first, because its old values are the values of earlier changes.
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
        // The values are restored, so a failed ledger entry only goes to the watchdog's log.
        if let Err(error) = book.taken_back("host guard", back, &cli.progress) {
            cli.progress.line(&format!("{error:#}"));
        }
    }
    Ok(if back.is_none_or(|back| back.is_whole()) { Ending::Done } else { Ending::CouldNot })
}
