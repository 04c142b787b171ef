//! `hone reference`: the pages of docs/reference, made of the command line itself.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use hone_experiment::ending::Ending;

/// Write the reference of all verbs as Markdown; a test holds docs/reference against it.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the pages; made where it is not there.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<Ending> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    for (name, text) in crate::text::reference::pages(program) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(Ending::Done)
}
