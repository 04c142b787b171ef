//! What every verb shares: the options of all verbs, progress, and the one way to stdout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_record::{Body, Envelope, FORMAT_VERSION};
use hone_report::{Detail, Document};
use serde::Serialize;
use serde_json::json;

use super::security::SecurityOptions;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print the result as a record (JSON) on stdout instead of text.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Also print what explains the result: the rule, the method, all figures.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) explain: bool,
    /// Show no progress.
    #[arg(short, long, global = true, display_order = 901)]
    pub(crate) quiet: bool,
}

/// What every verb may need of the command line and the terminal.
pub(crate) struct CliContext {
    pub(super) json: bool,
    detail: Detail,
    pub(crate) progress: Progress,
    given: BTreeMap<String, String>,
}

impl CliContext {
    pub(super) fn new(common: &Common, given: BTreeMap<String, String>) -> Self {
        let detail = if common.explain { Detail::Everything } else { Detail::Result };
        Self { json: common.json, detail, progress: Progress::new(common.quiet), given }
    }

    /// Whether an argument stands on the command line.
    pub(crate) fn is_given(&self, argument: &str) -> bool {
        self.given.contains_key(argument)
    }

    /// A run that goes on is as it was begun: whoever names something of it anew would believe that it counts. `besides` are arguments that do.
    ///
    /// # Errors
    /// With the first one that does not.
    pub(crate) fn goes_on(&self, besides: &[&str]) -> Result<()> {
        let any_run = ["resume", "json", "explain", "quiet"];
        let counts = |id: &str| {
            any_run.contains(&id) || besides.contains(&id) || SecurityOptions::names().any(|name| name == id)
        };
        match self.given.iter().find(|(id, _)| !counts(id)) {
            None => Ok(()),
            Some((_, shown)) => Err(Usage(format!(
                "{shown} and --resume contradict each other: a run goes on as it was begun\n  next: leave {shown} away, or begin a new run with it"
            ))
            .into()),
        }
    }

    /// The result of a verb, as text or as a record. A verb that has no more to say is done with it.
    pub(crate) fn show<T: Body>(&self, record: T, text: impl FnOnce(&T) -> String) -> Result<Ending> {
        self.progress.clear();
        print(&if self.json { Envelope::new(record).to_text()? } else { text(&record) })?;
        Ok(Ending::Done)
    }

    /// A record as its document with lines behind it, or as JSON.
    pub(crate) fn show_document<T: Body>(
        &self,
        record: T,
        document: impl FnOnce(&T) -> Document,
        behind: &str,
    ) -> Result<Ending> {
        self.show(record, |record| document(record).terminal(self.detail) + behind)
    }

    /// As [`CliContext::show_document`], or as Markdown where that is asked for.
    pub(crate) fn show_document_or_markdown<T: Body>(
        &self,
        record: T,
        is_markdown: bool,
        document: impl FnOnce(&T) -> Document,
        behind: &str,
    ) -> Result<Ending> {
        match is_markdown {
            true => self.show(record, |record| document(record).markdown() + behind),
            false => self.show_document(record, document, &format!("\n{behind}")),
        }
    }

    /// As [`CliContext::show`], for findings that are told and not read again.
    pub(crate) fn show_found<T: Serialize>(
        &self,
        kind: &str,
        found: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Ending> {
        self.progress.clear();
        let record = || json!({"hone_record": FORMAT_VERSION, "kind": kind, "body": found});
        print(&if self.json { format!("{:#}\n", record()) } else { text(found) })?;
        Ok(Ending::Done)
    }
}

/// Set once a reader of stdout has gone away.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// The one place that writes to stdout. A reader that has gone away (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            READER_IS_GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written.context("the result can't be written to stdout"),
    }
}

/// Whether nobody reads what is printed any more, so that work for stdout alone can end.
pub(crate) fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// One on each line.
pub(super) fn paths(written: &[PathBuf]) -> String {
    written.iter().map(|path| format!("{}\n", path.display())).collect()
}

/// Makes the page of a record, and says where both are.
pub(super) fn record_and_page(record: &Path) -> Result<String> {
    let page = hone_serve::page::write(record, None)?;
    Ok(format!("Record: {}\nPage: {}\n", record.display(), page.display()))
}

/// Where runs are kept unless told otherwise.
pub(crate) fn default_runs() -> PathBuf {
    PathBuf::from("runs")
}
