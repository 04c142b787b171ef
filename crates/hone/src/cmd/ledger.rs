//! `hone ledger show`, `verify` and `export`: shows, checks and exports the ledger. `push` and `pull` are in `ledgers`.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hone_record::{LedgerEntry, Verdict};

use super::ledgers;
use crate::cmd::context::{CliContext, default_runs, print};
use hone_document::ledger::Book;
use hone_experiment::ending::{Ending, Usage};
use hone_serve::ledger_view::{self, found_at};

/// Show, verify, export and share the record of all decisions.
///
/// Every command that decides something writes an entry. Hone only appends to a ledger, and each line
/// contains the hash of the line before it. To let git merge ledgers, put `ledger.jsonl merge=union`
/// into .gitattributes.
///
/// Examples:
///   hone ledger show --newest 5
///   hone ledger show --verb compare --verdict better
///   hone ledger verify --with-records
///   hone ledger export --csv > ledger.csv
///   hone ledger push --store s3://bucket/ledgers --with-records
///   hone ledger pull s3://bucket/ledgers --output all.jsonl --with-records
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
    /// Use only the newest N.
    #[arg(long = "newest", alias = "last", value_name = "N")]
    last: Option<usize>,
    /// Use only entries of this command, for example `compare`, `batch` or `host apply`.
    #[arg(long = "verb", alias = "kind", value_name = "COMMAND")]
    kind: Option<String>,
    /// Use only entries with this verdict.
    #[arg(long, value_enum, value_name = "VERDICT")]
    verdict: Option<VerdictName>,
    /// Use only entries of this layer.
    #[arg(long = "layer", alias = "altitude", value_name = "LAYER", value_parser = hone_record::ALTITUDES)]
    altitude: Option<String>,
}

#[derive(Debug, Args)]
struct Place {
    /// Ledger file, or a folder that contains it. [default: runs/ledger.jsonl]
    path: Option<PathBuf>,
}

/// Check that the ledger is unchanged, and show the first changed line.
///
/// The hashes can't show that lines at the end are missing, or that someone rewrote the ledger from some line on. For that, pass an earlier
/// head with --expect-head. Exit code 1: the ledger has an error.
#[derive(Debug, Args)]
struct Verify {
    #[command(flatten)]
    place: Place,
    /// Hash that the ledger must contain; repeat it for several. An earlier `hone ledger verify` or a report shows it as the head.
    #[arg(long = "expect-head", alias = "head", value_name = "SHA256")]
    head: Vec<String>,
    /// Include the record files of the entries. Hone compares the files with their hashes.
    #[arg(long = "with-records", alias = "records")]
    records: bool,
}

/// Export the entries as CSV, Markdown or JSON.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("form").args(["csv", "markdown"])))]
struct Export {
    #[command(flatten)]
    selection: Selection,
    /// Print comma-separated values, one line per entry.
    #[arg(long)]
    csv: bool,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VerdictName {
    Better,
    Worse,
    Equivalent,
    /// The pairs could not decide. Records write `not-shown`.
    #[value(alias = "not-shown")]
    Inconclusive,
}

impl VerdictName {
    fn verdict(self) -> Verdict {
        match self {
            Self::Better => Verdict::Better,
            Self::Worse => Verdict::Worse,
            Self::Equivalent => Verdict::Equivalent,
            Self::Inconclusive => Verdict::NotShown,
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
        bail!(Usage(format!("{form} and --json exclude each other\n  next: omit one of them")));
    }
    let book = selected(&arguments.selection)?;
    if arguments.csv {
        print(&hone_document::ledger::csv(&book))?;
    } else if arguments.markdown {
        print(&hone_document::ledger::markdown(&book))?;
    } else if cli.json {
        cli.show_found("ledger", &book, |_| String::new())?;
    } else {
        bail!(Usage("no format is named\n  next: add --csv, --markdown or --json".to_owned()));
    }
    Ok(Ending::Done)
}

fn selected(selection: &Selection) -> Result<Book> {
    let path = found_at(selection.place.path.as_deref(), &default_runs())?;
    ledger_view::selected(&path, |entry| selection.wants(entry), selection.last)
}

impl Selection {
    fn wants(&self, entry: &LedgerEntry) -> bool {
        // `host` matches `host apply`, `host rollback` and all other verbs of `host`.
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
