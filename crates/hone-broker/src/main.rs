//! `hone-broker`: the broker as a program of its own, so that it can be built, optimised and killed like any other.
//!
//! It prints one line on stdout when it serves, notices and errors on stderr, and ends normally on SIGTERM and SIGINT, so
//! that an instrumented build writes its profile.

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
hone-broker: a single-node Kafka-API broker over an on-disk log (acks=all: fsynced)

usage: hone-broker --data DIR [options]
       hone-broker --memory [options]

";

const USAGE_END: &str = "  \
  --help, --version

Other machines are let in only inside TLS and by a login (or a client certificate), unless --insecure says otherwise.

It prints `ready kafka=ADDR metrics=ADDR data=DIR pid=N` on stdout once it serves, and ends on SIGTERM or SIGINT.
Exit codes: 0 stopped, 1 could not, 2 wrong usage.
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
    // Before the ready line: whoever reads it may send a signal at once.
    let mut signals = Signals::new([SIGTERM, SIGINT]).context("can't wait for signals")?;
    // Every partition and every client is an open file.
    raise_open_files();
    let broker = Broker::start(Settings { notices: Notices::to(complain), ..settings })?;
    say(&broker.ready_line());
    signals.forever().next();
    broker.stop()
}

/// A command line that can't be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}; see hone-broker --help")]
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
        let takes_value = flags().iter().any(|flag| flag.name == name && flag.value_name.is_some());
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

/// A line of the usage.
fn usage_of(flag: &Flag) -> String {
    let named = format!("--{} {}", flag.name, flag.value_name.unwrap_or_default());
    let default = if flag.default.is_empty() { String::new() } else { format!(" [{}]", flag.default) };
    format!("  {named:<23} {}{default}\n", flag.about)
}

/// A program of its own, so it prints: its ready line is for whoever started it. Not by `println!`, which panics when
/// the reader has gone; nothing can be told to a reader that has gone.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Notices, and the one error line.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "hone-broker: {line}");
}
