//! `hone`: turns arguments into settings, calls the crate that does the work, and shows its result.
//!
//! Only this crate prints, ends the process, and depends on all other crates.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Command, CommandFactory as _, FromArgMatches as _};

mod cmd;
mod compiler;
mod failure;
mod text;

/// The command line as clap sees it, with all verbs and options. Tests walk it.
pub fn command_line() -> Command {
    hone_cli::help::dressed(cmd::Cli::command())
}

/// Runs the program with these arguments (the first is its name) and returns its exit code: 0 done, 1 failed, 2 wrong usage,
/// 3 measured with a negative result. If the first argument is the name of a compiler, Hone acts as that compiler and returns its exit
/// code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(ended) = compiler::stand_in(&arguments) {
        return ended.unwrap_or_else(|error| {
            failure::report(&error);
            ExitCode::from(1)
        });
    }
    let mut program = command_line();
    let parsed = program
        .try_get_matches_from_mut(&arguments)
        .and_then(|matches| Ok((cmd::Cli::from_arg_matches(&matches)?, cmd::given(&program, &matches))));
    let (cli, given) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error, &program, &arguments),
    };
    hone_cli::old_names::warnings(&program, &arguments).iter().for_each(|warning| failure::print(warning));
    let ended =
        hone_tool::interrupt::install().map_err(anyhow::Error::from).and_then(|()| cmd::run(cli, given));
    match ended {
        Ok(ending) => ending.into(),
        Err(error) => {
            failure::report(&error);
            ExitCode::from(if failure::is_usage(&error) { 2 } else { 1 })
        }
    }
}

/// Help and version are errors to clap, with their own stream and code.
fn refused(error: &clap::Error, program: &Command, arguments: &[OsString]) -> ExitCode {
    match hone_cli::refused::text(error, program, arguments) {
        Some(text) => failure::print(&text),
        None => drop(error.print()),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
