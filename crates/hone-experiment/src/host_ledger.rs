//! Ledger entries about changes of a host. They have no verdict, since nothing is measured.

use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_host::commit::{Applied, Confirmed, TakenBack};
use hone_host::journal::{self, FOLDER};
use hone_host::plan::Plan;
use hone_record::LedgerEntry;

use crate::ledger;
use crate::progress::Progress;

/// The host's ledger. It is next to the journals, since a change belongs to the host and not to the user's folder. `hone host
/// uninstall` removes it with them.
pub struct HostLedger {
    root: PathBuf,
    path: PathBuf,
    /// Options for the printed commands, so that they use this root.
    options: String,
}

impl HostLedger {
    /// The named ledger, or the one next to the journals below this root.
    pub fn at(root: &Path, named: Option<&Path>) -> Self {
        let path = named.map_or_else(|| root.join(FOLDER).join(ledger::NAME), Path::to_owned);
        let is_here = root == Path::new("/");
        let options = if is_here { String::new() } else { format!(" --root {}", root.display()) };
        Self { root: root.to_owned(), path, options }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A change in words: the profile from its journal.
    fn change(&self, id: &str) -> String {
        let journal = self.root.join(FOLDER).join(format!("{id}.journal"));
        let known = journal::read(&journal).map(|state| state.begun.profile).unwrap_or_default();
        if known.is_empty() { format!("host: change {id}") } else { format!("host: profile {known}") }
    }

    fn undo(&self, id: &str) -> String {
        format!("hone host rollback --change-id {id}{}", self.options)
    }

    /// Enters a change that was made.
    pub fn applied(&self, plan: &Plan, applied: &Applied, all: bool, progress: &Progress) -> Result<()> {
        let written: Vec<String> =
            plan.steps(all).iter().map(|step| format!("{} = {}", step.path, step.value)).collect();
        let until = applied.confirm_within_s.map_or_else(
            || "until the next boot, or until it is rolled back".to_owned(),
            |seconds| format!("for {seconds} s, unless confirmed"),
        );
        self.enter(
            LedgerEntry {
                change: format!("host: profile {}", plan.profile),
                question: format!("{}: {}", plan.profile, plan.about),
                decision: "applied".to_owned(),
                why: format!("{}; {until}", written.join("; ")),
                undo: Some(self.undo(&applied.id)),
                experiment: format!("host change {}", applied.id),
                run: applied.journal.display().to_string(),
                ..ledger::entry("host apply")
            },
            progress,
        )
    }

    /// Enters that a change is confirmed.
    pub fn confirmed(&self, confirmed: &Confirmed, progress: &Progress) -> Result<()> {
        let stays = match &confirmed.files[..] {
            [] => "for this boot".to_owned(),
            files => format!("also after a reboot, by {}", files.join(", ")),
        };
        let left_out = confirmed.left_out.iter().map(|what| format!("; not {what}")).collect::<String>();
        self.enter(
            LedgerEntry {
                change: self.change(&confirmed.id),
                question: format!("Is change {} confirmed?", confirmed.id),
                decision: "confirmed".to_owned(),
                why: format!("{stays}{left_out}"),
                undo: Some(self.undo(&confirmed.id)),
                experiment: format!("host change {}", confirmed.id),
                ..ledger::entry("host confirm")
            },
            progress,
        )
    }

    /// Enters that a change is rolled back.
    pub fn taken_back(&self, verb: &str, back: &TakenBack, progress: &Progress) -> Result<()> {
        let attributes = back.outcomes.iter().filter(|outcome| !outcome.is_back());
        let attributes = attributes.map(|outcome| outcome.path.as_str());
        let files = back.files_left.iter().map(|file| file.path.as_str());
        let left: Vec<&str> = attributes.chain(files).collect();
        let why = match &left[..] {
            [] if back.other_boot && back.outcomes.is_empty() => {
                "the machine was rebooted, which ended the change".to_owned()
            }
            [] => format!("{} attributes have their original values", back.outcomes.len()),
            left => format!("except for {}", left.join(", ")),
        };
        self.enter(
            LedgerEntry {
                change: self.change(&back.id),
                question: format!("Is change {} rolled back?", back.id),
                decision: "taken back".to_owned(),
                experiment: format!("host change {}", back.id),
                why,
                ..ledger::entry(verb)
            },
            progress,
        )
    }

    fn enter(&self, entry: LedgerEntry, progress: &Progress) -> Result<()> {
        ledger::enter(&self.path, &entry, progress)
    }
}
