//! The parts that all verbs share: common options, progress, and output to stdout.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_record::{Body, Envelope, FORMAT_VERSION};
use hone_report::{Detail, Document};
use serde::Serialize;
use serde_json::json;

use hone_cli::connection::BrokerOptions;
pub(crate) use hone_cli::report::ReportOptions;
use hone_cli::screen;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::progress::Progress;

#[derive(Debug, Args)]
pub(crate) struct Common {
    /// Print the result as a record (JSON) on stdout.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) json: bool,
    /// Also print the rule, the method and all figures.
    #[arg(short = 'v', long, global = true, display_order = 900)]
    pub(crate) explain: bool,
    /// Show no progress.
    #[arg(short, long, global = true, display_order = 901)]
    pub(crate) quiet: bool,
}

/// The command line and the terminal, as the verbs use them.
pub(crate) struct CliContext {
    pub(super) json: bool,
    detail: Detail,
    pub(crate) progress: Progress,
    given: BTreeMap<String, String>,
}

impl CliContext {
    pub(super) fn new(common: &Common, given: BTreeMap<String, String>) -> Self {
        let detail = if common.explain { Detail::Everything } else { Detail::Result };
        let progress = Progress::new(common.quiet).with_letters(screen::fitting_stderr);
        Self { json: common.json, detail, progress, given }
    }

    /// Whether an argument stands on the command line.
    pub(crate) fn is_given(&self, argument: &str) -> bool {
        self.given.contains_key(argument)
    }

    /// Refuses arguments that a resumed run would ignore: it keeps its original settings. `besides` are arguments that apply nevertheless.
    ///
    /// # Errors
    /// With the first argument that does not apply.
    pub(crate) fn goes_on(&self, besides: &[&str]) -> Result<()> {
        let any_run = ["resume", "json", "explain", "quiet"];
        let counts = |id: &str| {
            any_run.contains(&id) || besides.contains(&id) || BrokerOptions::names().any(|name| name == id)
        };
        match self.given.iter().find(|(id, _)| !counts(id)) {
            None => Ok(()),
            Some((_, shown)) => Err(Usage(format!(
                "{shown} conflicts with --resume: a resumed run keeps its original settings\n  \
                 next: leave out {shown}, or start a new run with it"
            ))
            .into()),
        }
    }

    /// Shows the result of a verb, as text or as a record. The answer is [`Ending::Done`], for verbs that end with it.
    pub(crate) fn show<T: Body>(&self, record: T, text: impl FnOnce(&T) -> String) -> Result<Ending> {
        self.progress.clear();
        print(&if self.json { Envelope::new(record).to_text()? } else { screen::fitting(text(&record)) })?;
        Ok(Ending::Done)
    }

    /// Shows a record as its document with the lines of `behind` after it, or as JSON.
    pub(crate) fn show_document<T: Body>(
        &self,
        record: T,
        document: impl FnOnce(&T) -> Document,
        behind: &str,
    ) -> Result<Ending> {
        self.show(record, |record| document(record).terminal(screen::of_stdout(self.detail)) + behind)
    }

    /// Like [`CliContext::show_document`], or as Markdown with `is_markdown`.
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

    /// Like [`CliContext::show`], for results that Hone never reads again.
    pub(crate) fn show_found<T: Serialize>(
        &self,
        kind: &str,
        found: &T,
        text: impl FnOnce(&T) -> String,
    ) -> Result<Ending> {
        self.progress.clear();
        let record = || json!({"hone_record": FORMAT_VERSION, "kind": kind, "body": found});
        print(&if self.json { format!("{:#}\n", record()) } else { screen::fitting(text(found)) })?;
        Ok(Ending::Done)
    }

    /// Like [`CliContext::show_document`], for results that Hone never reads again.
    pub(crate) fn show_found_document<T: Serialize>(
        &self,
        kind: &str,
        found: &T,
        document: impl FnOnce(&T) -> Document,
    ) -> Result<Ending> {
        self.show_found(kind, found, |found| document(found).terminal(screen::of_stdout(self.detail)))
    }
}

/// True after the reader of stdout has closed it.
static READER_IS_GONE: AtomicBool = AtomicBool::new(false);

/// Writes to stdout; no other code does. A reader that closes stdout (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    let mut stdout = std::io::stdout();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            READER_IS_GONE.store(true, Ordering::Relaxed);
            Ok(())
        }
        written => written.context("cannot write the result to stdout"),
    }
}

/// Whether the reader of stdout has closed it. Work for stdout alone can then end.
pub(crate) fn reader_is_gone() -> bool {
    READER_IS_GONE.load(Ordering::Relaxed)
}

/// The paths, one per line.
pub(super) fn paths(written: &[PathBuf]) -> String {
    written.iter().map(|path| format!("{}\n", path.display())).collect()
}

/// The default folder for runs.
pub(crate) fn default_runs() -> PathBuf {
    hone_cli::runs_folder()
}
