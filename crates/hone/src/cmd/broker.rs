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

/// Serve a single-node Kafka-API broker over an on-disk log, until SIGTERM or Ctrl-C.
///
/// Other machines are let in only inside TLS and by a login or a client certificate, unless --insecure says otherwise.
///
/// With acks=all acknowledged means fsynced, unless the topic says write.caching=true. It prints one line on stdout
/// when it serves: `ready kafka=ADDRESS metrics=ADDRESS data=FOLDER pid=N`. The same broker is the program hone-broker.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone broker --data /var/tmp/broker
  hone broker --memory --listen 127.0.0.1:0 --metrics off
  hone broker --data /var/tmp/broker --listen 127.0.0.1:0 --metrics off
  hone broker --list-properties
  hone broker --data /var/tmp/broker --listen 0.0.0.0:9093 --advertise broker.example.org:9093 \\
      --tls-cert cert.pem --tls-key key.pem --sasl --user alice:alice.password
  kcat -b 127.0.0.1:9092 -L")]
pub(crate) struct Arguments {
    #[command(flatten)]
    given: Given,
}

/// The broker's own flags, as they were given: the room says what there is and what becomes of it.
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
    let mut help = flag.about.to_owned();
    // As the other verbs begin theirs.
    help.get_mut(..1).map(str::make_ascii_uppercase);
    if !flag.default.is_empty() {
        help.push_str(&format!(" [default: {}]", flag.default));
    }
    let argument = Arg::new(flag.name).long(flag.name).help(help);
    match flag.value_name {
        Some(name) => {
            argument.value_name(name).value_parser(value_parser!(OsString)).action(ArgAction::Append)
        }
        // As often as somebody likes, like the others.
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

/// How often the wait for the end looks at the flag.
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
