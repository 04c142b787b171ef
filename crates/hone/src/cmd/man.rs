//! `hone man`: writes a man page for each verb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use serde::Serialize;

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;

/// Write the man pages.
///
/// Hone writes hone(1) and one page per verb, for example hone-batch-xray(1).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone man --output ~/.local/share/man/man1
  hone man --output /tmp/pages && man -l /tmp/pages/hone-load.1")]
pub(crate) struct Arguments {
    /// Where to write the result. Hone creates this folder if it does not exist.
    #[arg(short = 'o', long = "output", alias = "out", value_name = "PATH")]
    out: PathBuf,
}

/// The written pages.
#[derive(Debug, Serialize)]
struct Pages {
    folder: PathBuf,
    pages: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments, program: Command, cli: &CliContext) -> Result<Ending> {
    let pages = pages(program);
    write(&arguments.out, &pages)?;
    let names = pages.into_iter().map(|(name, _)| name).collect();
    let written = Pages { folder: arguments.out.clone(), pages: names };
    cli.show_found("man", &written, |found| {
        format!("{} pages in {}\n", found.pages.len(), found.folder.display())
    })
}

fn write(folder: &Path, pages: &[(String, String)]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}

/// The pages, each with its file name.
fn pages(mut all: Command) -> Vec<(String, String)> {
    // `build` copies the global options to every verb.
    all.build();
    let mut found = Vec::new();
    collect(all, "hone", &mut found);
    found
}

fn collect(command: Command, name: &str, found: &mut Vec<(String, String)>) {
    let verbs: Vec<Command> = command
        .get_subcommands()
        .filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
        .cloned()
        .collect();
    let own = command.display_name(name.to_owned()).disable_help_subcommand(true);
    let mut text = Vec::new();
    if Man::new(own).render(&mut text).is_ok() {
        found.push((format!("{name}.1"), with_title(&String::from_utf8_lossy(&text), name)));
    }
    for verb in verbs {
        let name = format!("{name}-{}", verb.get_name());
        collect(verb, &name, found);
    }
}

/// Replaces a page's title line. The generator omits a missing date, which moves the fields after it one place forward.
fn with_title(page: &str, name: &str) -> String {
    let title = format!(".TH {} 1 \"\" \"hone {}\" \"Hone\"", name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let lines = page.lines().map(|line| if line.starts_with(".TH ") { title.as_str() } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}
