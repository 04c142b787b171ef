//! `hone ledger show`, `verify`, `export` (`push` and `pull` are in `ledgers`): what was tried and decided, and whether that is what was written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hone_ledger::{Checked, Fault, Head, Ledger, Line, Repeated};
use hone_record::{LedgerEntry, Verdict};

use super::ledgers;
use crate::cmd::context::{CliContext, default_runs, print};
use hone_document::ledger::{Book, HeldRecords, Shown, ShownFault, Verified};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::ledger::{NAME, Runs, hash_of, place_in};
use hone_experiment::reader::Caller;

/// What was tried, what was decided, and why; and whether anybody has changed it since.
///
/// Every command that decides something writes an entry: compare, optimize, tune, diagnose --replay,
/// batch prove, whatif and caching, host try, apply, confirm and revert. A ledger only grows, and each
/// line is chained to those before it by their hashes. Branches that both wrote are merged by git
/// (`ledger.jsonl merge=union` in .gitattributes).
///
/// Examples:
///   hone ledger show --last 5
///   hone ledger show --kind compare --verdict better
///   hone ledger verify --records
///   hone ledger export --csv > ledger.csv
///   hone ledger push --to s3://bucket/ledgers --records
///   hone ledger pull s3://bucket/ledgers --output all.jsonl --records
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(Selection),
    Verify(Verify),
    Export(Export),
    Push(ledgers::PushArguments),
    Pull(ledgers::PullArguments),
}

/// Show the entries, oldest first.
#[derive(Debug, Args)]
struct Selection {
    #[command(flatten)]
    place: Place,
    /// Only so many, the newest.
    #[arg(long, value_name = "N")]
    last: Option<usize>,
    /// Only those of a command: compare, optimize, diagnose, batch, "batch prove", host, "host apply" ...
    #[arg(long, value_name = "COMMAND")]
    kind: Option<String>,
    /// Only those with this verdict.
    #[arg(long, value_enum, value_name = "VERDICT")]
    verdict: Option<VerdictName>,
    /// Only those of this altitude: binary, broker, client, host.
    #[arg(long, value_name = "ALTITUDE", value_parser = hone_record::ALTITUDES)]
    altitude: Option<String>,
}

#[derive(Debug, Args)]
struct Place {
    /// The ledger, or a folder that has one; runs/ledger.jsonl unless named.
    path: Option<PathBuf>,
}

/// Say whether the ledger is what was written, and the first line that is not.
///
/// A line that was changed, taken out or moved is found by its hash, or by that of a line behind it. Lines cut off at the end, and a ledger
/// that was made anew from some line on, are found only by a hash that was kept elsewhere: --head. What a killed writer left is told and is
/// no fault. Exit code 1 where something is wrong.
#[derive(Debug, Args)]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// A hash that must be in it: one that an earlier verify, a report or a colleague's copy has shown as its head.
    #[arg(long, value_name = "SHA256")]
    head: Vec<String>,
    /// Also hold the record files that the entries rest on against their hashes.
    #[arg(long)]
    records: bool,
}

/// Write the entries as a table for other programs, or as records (--json).
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("form").args(["csv", "markdown"])))]
struct Export {
    #[command(flatten)]
    selection: Selection,
    /// Comma-separated values, a line for each entry.
    #[arg(long)]
    csv: bool,
    /// A table in Markdown.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VerdictName {
    Better,
    Worse,
    Equivalent,
    NotShown,
}

impl VerdictName {
    fn verdict(self) -> Verdict {
        match self {
            Self::Better => Verdict::Better,
            Self::Worse => Verdict::Worse,
            Self::Equivalent => Verdict::Equivalent,
            Self::NotShown => Verdict::NotShown,
        }
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    match &arguments.verb {
        Verb::Show(selection) => {
            cli.show_found("ledger", &selected(selection)?, hone_document::ledger::text)?;
            Ok(Ending::Done)
        }
        Verb::Verify(arguments) => verify(arguments, cli),
        Verb::Export(arguments) => export(arguments, cli),
        Verb::Push(arguments) => ledgers::push(arguments, cli),
        Verb::Pull(arguments) => ledgers::pull(arguments, cli),
    }
}

/// Where the ledger lies.
///
/// # Errors
/// When there is none.
pub(in crate::cmd) fn found_at(path: Option<&Path>) -> Result<PathBuf> {
    let named = path.map_or_else(default_runs, Path::to_owned);
    let file = if named.is_dir() { named.join(NAME) } else { named };
    let file = if path.is_none() && !file.exists() { default_runs().join(NAME) } else { file };
    if !file.exists() {
        bail!(
            "there is no ledger {}\n  next: name it, or the folder of its runs; the first command that decides something makes it",
            file.display()
        );
    }
    Ok(file)
}

/// Of a file without a single entry nothing was tampered with, and nothing is said either.
fn refuse_what_is_none(path: &Path, checked: &Checked) -> Result<()> {
    let has_more = !checked.torn.is_empty() && checked.faults.is_empty();
    if checked.lines.is_empty() && has_more {
        bail!(
            "{} has not one entry of a ledger, only a line that breaks off\n  next: name a ledger; hone ledger show finds that of the folder `runs`",
            path.display()
        );
    }
    Ok(())
}

fn selected(selection: &Selection) -> Result<Book> {
    let path = found_at(selection.place.path.as_deref())?;
    let checked = Ledger::at(&path).read()?;
    refuse_what_is_none(&path, &checked)?;
    let Checked { lines, faults, .. } = checked;
    let entries_in_all = lines.len();
    let wanted: Vec<Line> = lines.into_iter().filter(|line| selection.wants(&line.entry)).collect();
    let skipped = selection.last.map_or(0, |last| wanted.len().saturating_sub(last));
    Ok(Book {
        path: path.display().to_string(),
        entries_in_all,
        entries: wanted.into_iter().skip(skipped).map(Shown::of).collect(),
        faulty_lines: faults.iter().map(|fault| fault.line).collect(),
    })
}

impl Selection {
    fn wants(&self, entry: &LedgerEntry) -> bool {
        // `host` is all of `host apply`, `host revert` ...
        let is_of = |kind: &String| {
            entry.verb == *kind
                || entry.verb.strip_prefix(kind.as_str()).is_some_and(|rest| rest.starts_with(' '))
        };
        self.kind.as_ref().is_none_or(is_of)
            && self.verdict.is_none_or(|wanted| entry.verdict == Some(wanted.verdict()))
            && self.altitude.as_ref().is_none_or(|wanted| entry.altitude() == Some(wanted))
    }
}

fn export(arguments: &Export, cli: &CliContext) -> Result<Ending> {
    if cli.json && (arguments.csv || arguments.markdown) {
        let form = if arguments.csv { "--csv" } else { "--markdown" };
        bail!(Usage(format!("{form} and --json are two forms: say one of them")));
    }
    let book = selected(&arguments.selection)?;
    if arguments.csv {
        print(&hone_document::ledger::csv(&book))?;
    } else if arguments.markdown {
        print(&hone_document::ledger::markdown(&book))?;
    } else if cli.json {
        cli.show_found("ledger", &book, |_| String::new())?;
    } else {
        bail!(Usage("in which form? --csv, --markdown or --json".to_owned()));
    }
    Ok(Ending::Done)
}

fn verify(arguments: &Verify, cli: &CliContext) -> Result<Ending> {
    let path = found_at(arguments.place.path.as_deref())?;
    let checked = Ledger::at(&path).check()?;
    refuse_what_is_none(&path, &checked)?;
    let records = arguments.records.then(|| held(&path, &checked.lines));
    let found = verified(&path, checked, &arguments.head, records);
    let ending = if found.is_good() { Ending::Done } else { Ending::CouldNot };
    cli.show_found("ledger-verified", &found, hone_document::ledger::verified)?;
    Ok(ending)
}

fn verified(path: &Path, checked: Checked, wanted: &[String], records: Option<HeldRecords>) -> Verified {
    let is_there = |hash: &String| checked.lines.iter().any(|line| line.hash == hash.to_ascii_lowercase());
    let shown = |fault: Fault| ShownFault {
        line: fault.line,
        kind: fault.meaning.label(),
        means: fault.meaning.words(),
        expected: fault.expected,
        found: fault.found,
    };
    Verified {
        path: path.display().to_string(),
        entries: checked.lines.len(),
        unchained_lines: checked.unchained().map(|line| line.number).collect(),
        missing_heads: wanted.iter().filter(|hash| !is_there(hash)).cloned().collect(),
        torn: checked.torn.into_iter().map(|torn| (torn.line, torn.text)).collect(),
        repeated: checked.repeated.iter().map(|Repeated { line, first }| (*line, *first)).collect(),
        heads: checked.heads.into_iter().map(|Head { line, hash }| (line, hash)).collect(),
        faults: checked.faults.into_iter().map(shown).collect(),
        records,
    }
}

/// Looks for each record in its run's folder.
fn held(ledger: &Path, lines: &[Line]) -> HeldRecords {
    let mut held = HeldRecords::default();
    let runs = Runs::of(ledger, lines.iter(), &Caller);
    let mut known: BTreeMap<PathBuf, Option<String>> = BTreeMap::new();
    for line in lines {
        let folders = runs.folders_for(&line.entry, &Caller);
        for record in &line.entry.records {
            let Some(path) = place_in(&folders, record, &Caller) else {
                held.gone += 1;
                continue;
            };
            match known.entry(path.clone()).or_insert_with(|| hash_of(&path).ok()) {
                Some(hash) if *hash == record.sha256 => held.as_they_were += 1,
                _ => held.changed.push((line.number, path.display().to_string())),
            }
        }
    }
    held
}
