//! `hone completions`: what a shell has to know to complete Hone's command line.

use anyhow::Result;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::cmd::context::print;
use hone_experiment::ending::Ending;

/// Print what makes a shell complete Hone's verbs and options.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone completions bash > ~/.local/share/bash-completion/completions/hone
  hone completions zsh > ~/.zfunc/_hone                   (a folder of $fpath)
  hone completions fish > ~/.config/fish/completions/hone.fish")]
pub(crate) struct Arguments {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments, mut program: Command) -> Result<Ending> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut program, "hone", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(Ending::Done)
}
