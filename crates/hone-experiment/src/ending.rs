//! The end of a verb: done, worse, or an error whose kind determines the exit code.

use std::process::ExitCode;

use crate::folder::RunFolder;

/// The end of a verb. Its exit code is an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// 0: done.
    Done,
    /// 1: failed, and the output has the reason.
    CouldNot,
    /// 3: measured, and the result is worse.
    Worse,
    /// A code for `git bisect run`, which reads 3 as bad and 1 as bad, too.
    Bisect(BisectCode),
}

/// The exit codes that `git bisect run` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BisectCode {
    /// 0: the commit is good.
    Good,
    /// 1: the commit is bad.
    Bad,
    /// 125: the commit can't be judged.
    Skip,
    /// 128: the search must end, for example because of a wrong option.
    Abort,
}

/// An invalid request of the user: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// An error in the target's surroundings that is not the target's fault: no free port, a full disk.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotItsOwn(pub String);

/// The command to continue, as the outermost context of an error. It is printed last, on its own line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct WayOn(pub String);

impl WayOn {
    /// The command that continues an interrupted or failed run.
    pub fn resume(verb: &str, folder: &RunFolder) -> Self {
        Self(format!("`hone {verb} --resume {}` continues after the last pair", folder.path().display()))
    }

    /// Adds the command that continues a run to its error. An error that would repeat contains its own next step.
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

/// A window without a known capacity although the target met its SLO. Excluding it would make the other arm look better.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{why}")]
pub struct BeyondReach {
    /// The step that was out of reach, with the reason.
    pub why: String,
    /// Whether resuming the run may help. If the climb was too short, it would measure the same again.
    pub may_go_on: bool,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Done => Self::SUCCESS,
            Ending::CouldNot => Self::from(1),
            Ending::Worse => Self::from(3),
            Ending::Bisect(BisectCode::Good) => Self::SUCCESS,
            Ending::Bisect(BisectCode::Bad) => Self::from(1),
            Ending::Bisect(BisectCode::Skip) => Self::from(125),
            Ending::Bisect(BisectCode::Abort) => Self::from(128),
        }
    }
}
