//! How a verb ends: done, worse, or by an error of a kind that says what follows.

use std::process::ExitCode;

use crate::folder::RunFolder;

/// How a verb ended; the exit code is an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// 0: done.
    Done,
    /// 1: could not, and the output has said why.
    CouldNot,
    /// 3: measured, and worse.
    Worse,
}

/// The user asked for something that makes no sense: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What went wrong around a target, and says nothing of the target: no port is free, a folder is full.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotItsOwn(pub String);

/// How to go on, as the outermost context of an error: it is told last, as a line of its own.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WayOn(pub String);

impl WayOn {
    /// An interrupted run, or one that failed, goes on by this command.
    pub fn resume(verb: &str, folder: &RunFolder) -> Self {
        Self(format!("to go on after the last pair: hone {verb} --resume {}", folder.path().display()))
    }

    /// A result of a run, with the command by which it goes on; an error that would only come again has its own way out in its words.
    pub fn behind<T>(result: anyhow::Result<T>, verb: &str, folder: &RunFolder) -> anyhow::Result<T> {
        result.map_err(|error| {
            let beyond = error.downcast_ref::<BeyondReach>();
            match beyond.is_some_and(|beyond| !beyond.may_go_on) {
                true => error,
                false => error.context(Self::resume(verb, folder)),
            }
        })
    }
}

/// A window whose capacity is not known though the target kept its promise: to leave it out would flatter the other arm.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct BeyondReach {
    /// Which step was beyond reach, and why.
    pub why: String,
    /// Whether the same run, gone on with, may find more. Where the climb was too short it would measure the same again.
    pub may_go_on: bool,
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
