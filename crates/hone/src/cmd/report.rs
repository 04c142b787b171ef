//! `hone report PATH`: writes one HTML page from a record or a run's folder.

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

/// Write a self-contained HTML page from a record, run or ledger.
///
/// The page of a run or a ledger shows where the time went, the changes, the percentiles, and predictions next to results. Other formats are
/// Markdown, a short text for a pull request, and a record (--json).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone report runs/broker-pgo-001
  hone report runs/ledger.jsonl          # all changes, at every layer
  hone report runs/orders-001 heat.json capacity-before/ capacity-after/
  hone report runs/batch-prove-003 --pr-comment | gh pr comment --body-file -
  hone report window.json --output page.html")]
pub(crate) struct Arguments {
    /// Run folder, ledger (or the folder that contains it), or record file.
    path: PathBuf,
    /// Records to draw on the page of a run or a ledger, or folders that contain them. Hone draws heatmaps, capacities and curves.
    #[arg(value_name = "RECORD", conflicts_with = "comment")]
    beside: Vec<PathBuf>,
    /// Where to write the result. With --markdown, --pr-comment or --json, Hone writes to stdout without this option. [default: next to the
    /// record]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print the result as Markdown.
    #[arg(long, conflicts_with = "comment")]
    markdown: bool,
    /// Print a short text for a pull request instead of a page.
    #[arg(long = "pr-comment", alias = "comment")]
    comment: bool,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    if cli.json && (arguments.markdown || arguments.comment) {
        let form = if arguments.markdown { "--markdown" } else { "--pr-comment" };
        bail!(Usage(format!("{form} and --json exclude each other\n  next: omit one of them")));
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
