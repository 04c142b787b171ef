//! `hone report PATH`: a record, or a run's folder, becomes one HTML page.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;
use hone_record::Envelope;

use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::reader::Caller;
use hone_report::{Document, documents};
use hone_serve::page::{Source, comment_of, document, find, has_a_story, keep, page_path, story_of};
use hone_serve::story::{self, Beside};

/// Write one self-contained HTML page from a record, a run's folder, or a ledger.
///
/// Needs no network to be read and no machine to be made: everything comes from the record files. The page of a run, or of a whole ledger,
/// says where the time went, what was tried at each altitude, what was kept, percentiles step by step, what was foretold beside what came,
/// and has all numbers inside, to take along. Records of heatmaps, capacities and curves that lie in the run's folder, or are named behind it,
/// are drawn on the page. The same as Markdown, as a few lines for a pull request, or as a record (--json).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone report runs/broker-pgo-001
  hone report runs/ledger.jsonl          all that was tried, at every altitude
  hone report runs/orders-001 heat.json capacity-before/ capacity-after/
  hone report runs/batch-prove-003 --comment | gh pr comment --body-file -
  hone report window.json --output page.html")]
pub(crate) struct Arguments {
    /// A run's folder, a ledger or the folder that has it, or a record file (optimization, gate, comparison, proof, host trial, tuning, capacity, curve,
    /// window, diagnosis, heatmap, story).
    path: PathBuf,
    /// Heatmaps, capacities and curves that are drawn on the page of a run or a ledger: records, or folders that hold some.
    #[arg(value_name = "BESIDE", conflicts_with = "comment")]
    beside: Vec<PathBuf>,
    /// The page; next to the record unless named: report.html for a run, the record's name for a window, story.html for a ledger. With
    /// --markdown, --comment or --json, the file in place of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Markdown in place of a page.
    #[arg(long, conflicts_with = "comment")]
    markdown: bool,
    /// A short text for a pull request in place of a page.
    #[arg(long)]
    comment: bool,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    if cli.json && (arguments.markdown || arguments.comment) {
        let form = if arguments.markdown { "--markdown" } else { "--comment" };
        bail!(Usage(format!("{form} and --json are two forms: say one of them")));
    }
    let source = find(&arguments.path)?;
    let beside = Beside::read(&arguments.beside, &Caller)?;
    if let (Source::Record(record), [_, ..]) = (&source, &arguments.beside[..]) {
        has_a_story(record)?;
    }
    if arguments.markdown || arguments.comment || cli.json {
        let text = match (arguments.markdown, arguments.comment) {
            (true, _) => document_of(&source, beside)?.markdown(),
            (_, true) => comment_of(&source)?,
            _ => Envelope::new(beside.add_to(story_of(&source)?)).to_text()?,
        };
        cli.progress.clear();
        match &arguments.output {
            Some(path) => keep(path, &text)?,
            None => print(&text)?,
        }
        return Ok(Ending::Done);
    }
    let page = arguments.output.unwrap_or_else(|| match &source {
        Source::Record(record) => page_path(record),
        Source::Ledger(ledger) => ledger.with_file_name("story.html"),
    });
    keep(&page, &document_of(&source, beside)?.html())?;
    cli.progress.clear();
    print(&format!("{}\n", page.display()))?;
    Ok(Ending::Done)
}

fn document_of(source: &Source, beside: Beside) -> Result<Document> {
    match source {
        Source::Record(record) => document(record, &Caller, beside),
        Source::Ledger(ledger) => Ok(documents::story(&beside.add_to(story::of_ledger(ledger, &Caller)?))),
    }
}
