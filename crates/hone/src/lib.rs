//! `hone`: arguments become settings, settings go to a room, what comes back is shown.
//!
//! This crate is the only one that prints, the only one that ends the process, and the only one that knows more than
//! one room.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Arg, Command, CommandFactory as _, FromArgMatches as _};

mod aim;
mod archive;
mod arm;
mod batch;
mod bench;
mod broke;
mod budget;
mod capacity;
mod change;
mod clients;
mod climb;
mod cluster_scaffold;
mod cmd;
mod compiler;
mod continuous;
mod curve;
mod decide;
mod diagnose;
mod drive;
mod experiment;
mod fleet;
mod folder;
mod gate;
mod heat;
mod host;
mod kubernetes;
mod ledger;
mod left;
mod lever;
mod live;
mod load_file;
mod meter;
mod metered;
mod moment;
mod notation;
mod optimize;
mod outlook;
mod output;
mod places;
mod probe;
mod producer;
mod progress;
mod reader;
mod ready;
mod rendezvous;
mod require;
mod rollout;
mod rounds;
mod selftest;
mod serve;
mod show;
mod standing;
mod starter;
mod story;
mod survey;
mod targets;
mod topics;
mod tune;
mod warmth;

/// How a verb ended; the exit code is an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// 0: done.
    Done,
    /// 1: could not, and the output has said why.
    CouldNot,
    /// 3: measured, and worse.
    Worse,
}

/// The user asked for something that makes no sense: exit code 2.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What went wrong around a target, and says nothing of the target: no port is free, a folder is full.
#[derive(Debug)]
pub(crate) struct NotItsOwn(pub(crate) String);

impl std::fmt::Display for NotItsOwn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NotItsOwn {}

/// How to go on, as the outermost context of an error: it is told last, as a line of its own.
#[derive(Debug)]
pub(crate) struct WayOn(pub(crate) String);

impl std::fmt::Display for WayOn {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl WayOn {
    /// An interrupted run, or one that failed, goes on by this command.
    pub(crate) fn resume(verb: &str, folder: &folder::RunFolder) -> Self {
        Self(format!("to go on after the last pair: hone {verb} --resume {}", folder.path().display()))
    }

    /// A result of a run, with the command by which it goes on; an error that would only come again has its own way out in its words.
    pub(crate) fn behind<T>(
        result: anyhow::Result<T>,
        verb: &str,
        folder: &folder::RunFolder,
    ) -> anyhow::Result<T> {
        result.map_err(|error| {
            let beyond = error.downcast_ref::<climb::BeyondReach>();
            match beyond.is_some_and(|beyond| !beyond.may_go_on) {
                true => error,
                false => error.context(Self::resume(verb, folder)),
            }
        })
    }
}

/// An error as a user reads it: what was tried, why it failed, and what to do next.
fn told(error: &anyhow::Error) -> String {
    let way_on = error.downcast_ref::<WayOn>().map(|way_on| way_on.0.as_str());
    let words: Vec<String> =
        error.chain().map(ToString::to_string).filter(|words| way_on != Some(words)).collect();
    let words = words.join(": ");
    let of_load = || error.chain().find_map(|cause| cause.downcast_ref::<hone_load::LoadError>()?.next());
    match way_on.map(str::to_owned).or_else(|| if words.contains(NEXT) { None } else { of_load() }) {
        Some(next) => format!("{words}{NEXT}{next}"),
        None => words,
    }
}

/// What stands before the step that an error advises.
const NEXT: &str = "\n  next: ";

/// Whether an error is about what was asked for, and not about what happened.
fn is_usage(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.is::<Usage>()
            || cause.is::<experiment::ExperimentError>()
            || cause.is::<hone_compare::DesignError>()
            || cause.is::<hone_broker::SettingsError>()
            || matches!(cause.downcast_ref(), Some(hone_load::LoadError::Setting { .. }))
            || matches!(cause.downcast_ref(), Some(hone_host::setting::SettingError::Elsewhere { .. }))
    })
}

/// A number below zero is a value, which is refused by what it is for, and no unknown option.
fn with_negative_numbers(command: Command) -> Command {
    let of_values = |arg: Arg| {
        let takes_values = arg.get_action().takes_values();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    };
    command.mut_args(of_values).mut_subcommands(with_negative_numbers)
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::CouldNot => Self::from(1),
            Ending::Worse => Self::from(3),
        }
    }
}

/// Runs the program with these arguments (the first is its name) and answers its exit code: 0 done, 1 could not,
/// 2 wrong usage, 3 measured, and the answer is no. Called by the name of a compiler, it stands in for that one and has its exit codes.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(ended) = compiler::stand_in(&arguments) {
        return ended.unwrap_or_else(|error| {
            report(&error);
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
            report(&error);
            ExitCode::from(if is_usage(&error) { 2 } else { 1 })
        }
    }
}

/// Tells an error. Nobody may be left to hear it, which is no second one.
fn report(error: &anyhow::Error) {
    let is_full = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value == "full");
    let text = if is_full { format!("{error:?}") } else { told(error) };
    let _ = writeln!(std::io::stderr(), "hone: {text}");
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn the_way_on_is_told_last_and_the_kind_of_the_error_is_kept() {
        let failed = || anyhow::Error::from(Usage("a is no b".to_owned())).context("pair 1");
        assert_eq!(told(&failed()), "pair 1: a is no b");
        let way_on = || WayOn("to go on: hone tune".to_owned());
        let error = Err::<(), _>(failed()).with_context(way_on).unwrap_err();
        assert_eq!(told(&error), "pair 1: a is no b\n  next: to go on: hone tune");
        assert!(is_usage(&error));
    }

    #[test]
    fn an_error_of_the_load_brings_its_next_step_unless_another_is_there() {
        let refused = || hone_load::LoadError::SpeaksTls { address: "b:1".to_owned() };
        let error = anyhow::Error::from(refused()).context("topic t");
        assert!(told(&error).contains("asked without\n  next: add --tls"), "{}", told(&error));
        let other = anyhow::Error::from(refused()).context("topic t\n  next: read");
        assert_eq!(told(&other).matches("next:").count(), 1);
    }

    /// Of two ways on one would measure the same again.
    #[test]
    fn nobody_is_sent_back_into_a_run_that_can_not_get_further() {
        let parent = tempfile::tempdir().unwrap();
        let folder = folder::RunFolder::create(parent.path(), "run").unwrap();
        let told_of = |may_go_on| {
            let beyond = climb::BeyondReach { why: "held at every rate".to_owned(), may_go_on };
            let error = anyhow::Error::from(beyond).context("pair 1");
            told(&WayOn::behind(Err::<(), _>(error), "tune", &folder).unwrap_err())
        };
        assert_eq!(told_of(false), "pair 1: held at every rate");
        assert!(told_of(true).contains("next: to go on after the last pair: hone tune --resume"));
    }
}
