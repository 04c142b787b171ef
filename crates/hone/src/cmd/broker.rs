//! `hone broker`: the embedded broker.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::Result;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, value_parser};
use hone_broker::arguments::{CommandLine, Flag, StartCommand, flags};
use hone_broker::{Broker, Notices, Settings, raise_open_files};
use hone_tool::interrupt;

use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::Ending;

/// Run a single-node broker that speaks the Kafka protocol.
///
/// The broker keeps its log on disk and runs until SIGTERM or Ctrl-C. It acknowledges acks=all after the fsync, unless the topic has
/// write.caching=true. Other machines need TLS and a login or a client certificate, unless you pass --insecure.
///
/// When the broker is ready, it prints one line on stdout: `ready kafka=ADDRESS metrics=ADDRESS data=FOLDER pid=N`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone broker --data /var/tmp/broker
  hone broker --memory --listen 127.0.0.1:0 --metrics-listen off
  hone broker --data /var/tmp/broker --listen 127.0.0.1:0 --metrics-listen off
  hone broker --list-properties
  hone broker --data /var/tmp/broker --listen 0.0.0.0:9093 \\
      --advertise broker.example.org:9093 --tls-cert cert.pem \\
      --tls-key key.pem --sasl --user alice:alice.password
  kcat -b 127.0.0.1:9092 -L")]
pub(crate) struct Arguments {
    #[command(flatten)]
    given: Given,
}

/// The given flags of the broker. The crate `hone-broker` defines and reads them.
#[derive(Debug)]
struct Given(Vec<(&'static str, Option<OsString>)>);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        flags().iter().fold(command, |command, flag| command.arg(argument(flag)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument(flag: &'static Flag) -> Arg {
    let default = match flag.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let mut argument = Arg::new(flag.name).long(flag.name).help(match flag.default {
        // As clap shortens a help text without a default.
        "" => flag.about.trim_end_matches('.').to_owned(),
        _ => format!("{}{default}", flag.about),
    });
    if !flag.remarks.is_empty() {
        argument = argument.long_help(format!("{}\n\n{}{default}", flag.about, flag.remarks));
    }
    if let Some(alias) = flag.alias {
        argument = argument.alias(alias);
    }
    match flag.value_name {
        Some(name) => {
            argument.value_name(name).value_parser(value_parser!(OsString)).action(ArgAction::Append)
        }
        // A repeated switch is no error, as in `hone-broker`.
        None => argument.action(ArgAction::SetTrue).overrides_with(flag.name),
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for flag in flags() {
            if flag.value_name.is_some() {
                let values = matches.get_many::<OsString>(flag.name).unwrap_or_default();
                given.extend(values.map(|value| (flag.name, Some(value.clone()))));
            } else if matches.get_flag(flag.name) {
                given.push((flag.name, None));
            }
        }
        Ok(Self(given))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Time between two checks for an interrupt.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let mut line = CommandLine::new();
    for (name, value) in arguments.given.0 {
        line.take(name, value)?;
    }
    match line.finish()? {
        StartCommand::Run(settings) => serve(*settings, cli),
        StartCommand::Print(text) => print(&text).map(|()| Ending::Done),
    }
}

fn serve(settings: Settings, cli: &CliContext) -> Result<Ending> {
    let progress = cli.progress.clone();
    let notices = Notices::to(move |notice| progress.line(notice));
    raise_open_files();
    let broker = Broker::start(Settings { notices, ..settings })?;
    print(&format!("{}\n", broker.ready_line()))?;
    while !interrupt::requested() {
        std::thread::sleep(LOOK_EVERY);
    }
    broker.stop()?;
    Ok(Ending::Done)
}
