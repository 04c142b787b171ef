//! `hone man`: a page for man(1) of each verb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use serde::Serialize;

use crate::cmd::context::CliContext;
use hone_experiment::ending::Ending;

/// Write the manual pages: hone(1), and one for each verb, hone-batch-xray(1) for example.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone man --out ~/.local/share/man/man1
  hone man --out /tmp/pages && man -l /tmp/pages/hone-load.1")]
pub(crate) struct Arguments {
    /// Folder for the pages; made where it is not there.
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

/// What was written.
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
    fs::create_dir_all(folder).with_context(|| format!("{} can't be made", folder.display()))?;
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} can't be written", path.display()))?;
    }
    Ok(())
}

/// Each page by its file's name.
fn pages(mut all: Command) -> Vec<(String, String)> {
    // Options of all verbs go to where they can be given.
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

/// A page with a title line of its own: the generator leaves a missing date out, and what stands behind it moves to its place.
fn with_title(page: &str, name: &str) -> String {
    let title = format!(".TH {} 1 \"\" \"hone {}\" \"Hone\"", name.to_uppercase(), env!("CARGO_PKG_VERSION"));
    let lines = page.lines().map(|line| if line.starts_with(".TH ") { title.as_str() } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}
