//! `hone`: arguments become settings, settings go to a room, what comes back is shown.
//!
//! This crate is the only one that prints, the only one that ends the process, and the only one that knows more than
//! one room.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

mod cmd;
mod compiler;
mod failure;
mod text;

/// A number below zero is a value, which is refused by what it is for, and no unknown option.
fn with_negative_numbers(command: Command) -> Command {
    let of_values = |arg: Arg| {
        let takes_values = arg.get_action().takes_values();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(of_values).mut_subcommands(with_negative_numbers)
}

/// Runs the program with these arguments (the first is its name) and answers its exit code: 0 done, 1 could not,
/// 2 wrong usage, 3 measured, and the answer is no. Called by the name of a compiler, it stands in for that one and has its exit codes.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(ended) = compiler::stand_in(&arguments) {
        return ended.unwrap_or_else(|error| {
            failure::report(&error);
            ExitCode::from(1)
        });
    }
    let mut program = with_negative_numbers(cmd::Cli::command());
    let parsed = program
        .try_get_matches_from_mut(arguments)
        .and_then(|matches| Ok((cmd::Cli::from_arg_matches(&matches)?, cmd::given(&program, &matches))));
    let (cli, given) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are errors of this kind too, with their own stream and code.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
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
