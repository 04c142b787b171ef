//! `hone ledger show`, `verify`, `export` (`push` and `pull` are in `ledgers`): what was tried and decided, and whether that is what was written.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hone_record::{LedgerEntry, Verdict};

use super::ledgers;
use crate::cmd::context::{CliContext, default_runs, print};
use hone_document::ledger::Book;
use hone_experiment::ending::{Ending, Usage};
use hone_serve::ledger_view::{self, found_at};

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
        Verb::Show(selection) => cli.show_found("ledger", &selected(selection)?, hone_document::ledger::text),
        Verb::Verify(arguments) => verify(arguments, cli),
        Verb::Export(arguments) => export(arguments, cli),
        Verb::Push(arguments) => ledgers::push(arguments, cli),
        Verb::Pull(arguments) => ledgers::pull(arguments, cli),
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

fn selected(selection: &Selection) -> Result<Book> {
    let path = found_at(selection.place.path.as_deref(), &default_runs())?;
    ledger_view::selected(&path, |entry| selection.wants(entry), selection.last)
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

fn verify(arguments: &Verify, cli: &CliContext) -> Result<Ending> {
    let path = found_at(arguments.place.path.as_deref(), &default_runs())?;
    let found = ledger_view::verify(&path, &arguments.head, arguments.records)?;
    let ending = if found.is_good() { Ending::Done } else { Ending::CouldNot };
    cli.show_found("ledger-verified", &found, hone_document::ledger::verified)?;
    Ok(ending)
}
