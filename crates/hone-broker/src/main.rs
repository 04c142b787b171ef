//! `hone-broker`: the broker as a separate program, so that it can be built, optimised and killed like any other program.
//!
//! It prints one line on stdout when it is ready, and notices and errors on stderr. It ends normally on SIGTERM and SIGINT, so that an
//! instrumented build writes its profile.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use hone_broker::arguments::{CommandLine, Flag, StartCommand, flags};
use hone_broker::{Broker, Notices, Settings, SettingsError, raise_open_files};
use lexopt::prelude::*;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

const USAGE: &str = "\
hone-broker: a single-node Kafka-API broker with an on-disk log (acks=all waits for fsync)

usage: hone-broker --data FOLDER [options]
       hone-broker --memory [options]

";

const USAGE_END: &str = "  \
  --help, --version

Without --insecure, other machines need TLS and a login or a client certificate.

It prints `ready kafka=ADDR metrics=ADDR data=FOLDER pid=N` on stdout when it is ready, and stops on SIGTERM or SIGINT.
Exit codes: 0 stopped, 1 failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let ended = match parse(lexopt::Parser::from_env()) {
        Ok(StartCommand::Run(settings)) => run(*settings),
        Ok(StartCommand::Print(text)) => {
            say(text.trim_end());
            Ok(())
        }
        Err(error) => Err(error),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::from(if error.is::<Misspelt>() || error.is::<SettingsError>() { 2 } else { 1 })
        }
    }
}

fn run(settings: Settings) -> anyhow::Result<()> {
    // Before the ready line, because its reader may send a signal at once.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("can't wait for signals")?;
    // Every partition and every client is an open file.
    raise_open_files();
    let broker = Broker::start(Settings { notices: Notices::to(complain), ..settings })?;
    say(&broker.ready_line());
    signals.forever().next();
    broker.stop()
}

/// An invalid command line.
#[derive(Debug, thiserror::Error)]
#[error("{0}\n  next: `hone-broker --help` lists all flags")]
struct Misspelt(lexopt::Error);

fn parse(mut parser: lexopt::Parser) -> anyhow::Result<StartCommand> {
    let mut line = CommandLine::new();
    while let Some(argument) = parser.next().map_err(Misspelt)? {
        let name = match argument {
            Long("help") | Short('h') => return Ok(StartCommand::Print(usage())),
            Long("version") => {
                return Ok(StartCommand::Print(
                    concat!("hone-broker ", env!("CARGO_PKG_VERSION")).to_owned(),
                ));
            }
            Long(name) => name.to_owned(),
            _ => return Err(Misspelt(argument.unexpected()).into()),
        };
        let takes_value = flags().iter().any(|flag| flag.is(&name) && flag.value_name.is_some());
        let value: Option<OsString> =
            if takes_value { Some(parser.value().map_err(Misspelt)?) } else { parser.optional_value() };
        line.take(&name, value)?;
    }
    Ok(line.finish()?)
}

fn usage() -> String {
    let lines: String = flags().iter().map(usage_of).collect();
    format!("{USAGE}{lines}{USAGE_END}")
}

/// A line of the usage: the flag, its first sentence and its default.
fn usage_of(flag: &Flag) -> String {
    let named = format!("--{} {}", flag.name, flag.value_name.unwrap_or_default());
    let default = if flag.default.is_empty() { String::new() } else { format!(" [{}]", flag.default) };
    format!("  {named:<25} {}{default}\n", flag.about.trim_end_matches('.'))
}

/// Prints a line for the process that started this one. It does not use `println!`, which panics when the reader has closed the pipe.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a notice or the error.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "hone-broker: {line}");
}
