//! `hone reference`: writes the pages of docs/reference from the command line's definition.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, Command};

use hone_experiment::ending::Ending;

/// Write the reference of all verbs as Markdown.
///
/// A test compares docs/reference with the result.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Where to write the result. Hone creates this folder if it does not exist.
    #[arg(short = 'o', long = "output", alias = "out", value_name = "PATH")]
    out: PathBuf,
}

pub(crate) fn run(arguments: &Arguments, program: Command) -> Result<Ending> {
    let folder = &arguments.out;
    fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
    for (name, text) in hone_cli::reference::pages(program) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(Ending::Done)
}
