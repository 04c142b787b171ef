//! The report of a run: where it is, and whether to open it.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_experiment::folder::RunFolder;
use hone_experiment::progress::Progress;
use hone_record::Body;

/// Options of every verb that writes a report.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct ReportOptions {
    /// Open the report in a browser.
    #[arg(long)]
    open: bool,
}

impl ReportOptions {
    /// Writes the page of a record, and opens it if asked to. The answer names both files.
    ///
    /// # Errors
    /// The page can't be written or opened.
    pub fn write(self, record: &Path) -> Result<String> {
        let page = hone_serve::page::write(record, None)?;
        self.show(&page)?;
        Ok(format!("Record: {}\nReport: {}\n", record.display(), page.display()))
    }

    /// Opens a page if asked to.
    ///
    /// # Errors
    /// No program that opens pages can be started.
    pub fn show(self, page: &Path) -> Result<()> {
        match self.open {
            true => hone_tool::open(page).with_context(|| {
                format!("can't open the report\n  next: open {} in a browser", page.display())
            }),
            false => Ok(()),
        }
    }

    /// Keeps the record of a verb whose result is more than its files: in a new folder of `runs`, with its page. A folder that can't be written
    /// is no failure, because the result is shown.
    pub fn keep<T: Body>(
        self,
        runs: &Path,
        [name, file]: [&str; 2],
        record: T,
        progress: &Progress,
    ) -> String {
        let kept = RunFolder::create(runs, name).and_then(|folder| folder.write_record(file, record));
        kept.and_then(|record| self.write(&record)).unwrap_or_else(|error| {
            progress.line(&format!("note: no report was written: {error:#}"));
            String::new()
        })
    }
}
