//! `hone completions`: prints a shell's completion script for Hone.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::cmd::context::print;
use hone_experiment::ending::Ending;

/// Print the shell completion script for Hone's verbs and options.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone completions bash > ~/.local/share/bash-completion/completions/hone
  hone completions zsh > ~/.zfunc/_hone                   # a folder in $fpath
  hone completions fish > ~/.config/fish/completions/hone.fish")]
pub(crate) struct Arguments {
    /// Shell to complete in.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<Ending> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "hone", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(Ending::Done)
}
