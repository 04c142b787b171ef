//! Why a run gave no profile, or none that may be used.

use std::path::PathBuf;

use super::ended::HowEnded;
use super::files::ProfileKind;

/// A profile that was not written. Each says how to get it the next time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureRefusal {
    /// The target had ended before it was asked to.
    #[error(
        "the target ended in the training ({ended}): what it was trained with is not complete{left}\n  next: see in its log \
         why it ends; an instrumented program needs more memory and time, so look at its limits, too"
    )]
    EndedInTraining {
        /// How.
        ended: HowEnded,
        /// What it left, as an addition to the sentence.
        left: String,
    },
    /// It ended, and wrote nothing.
    #[error("the profile is lost: the target ended ({ended}) and wrote {what}\n  next: {}", remedy(*kind, *ended))]
    NothingWritten {
        /// How it ended.
        ended: HowEnded,
        /// `no .profraw file`, or the files of 0 bytes.
        what: String,
        /// Who should have written.
        kind: ProfileKind,
    },
    /// The runtime that writes the profile says why it could not.
    #[error("the profile was not written; its runtime says: {said}\n  next: {}", remedy_of(said))]
    RuntimeFailed {
        /// Its line.
        said: String,
    },
    /// Some processes wrote, others were ended before.
    #[error(
        "the profile is not complete: {} of 0 bytes beside {written} written ones, the first is {}\n  next: {}",
        files.len(), files.first().map(|path| path.display().to_string()).unwrap_or_default(), remedy(*kind, *ended)
    )]
    SomeEmpty {
        /// The files of 0 bytes.
        files: Vec<PathBuf>,
        /// Files with something in them.
        written: usize,
        /// How the first process ended.
        ended: HowEnded,
        /// Who writes.
        kind: ProfileKind,
    },
    /// The load ended well, and the program did no more than without one.
    #[error(
        "the training reached next to nothing: it left {counted} counts, and a start and a stop without any load leave {idle}\n  next: \
         look whether the load comes to the program, and whether the processes that serve it leave their counts: a \
         worker that leaves by `_exit`, or is killed by its parent, leaves none"
    )]
    ReachedNothing {
        /// Sum of the counts of the training.
        counted: u64,
        /// Sum of the counts without a load.
        idle: u64,
    },
    /// No process takes the signal.
    #[error(
        "the counters were not reset: no process of the target takes SIGUSR1 ({blocked} block it and left it lying)\n  next: \
         link the dump object into the instrumented build, or give a `reset` command of the target's own"
    )]
    NotReset {
        /// Processes that block it and did not fetch it.
        blocked: usize,
    },
    /// `LD_PRELOAD` takes a list, and would silently load nothing from here.
    #[error(
        "{} can't be preloaded: a space or a colon in its path would cut it in two\n  next: name a folder without them",
        folder.display()
    )]
    PreloadPath {
        /// Where the preload was to be.
        folder: PathBuf,
    },
    /// A program that served nothing has no rate.
    #[error(
        "the slow-down is not known: the {which} program has no rate above 0\n  next: check that the load reaches it"
    )]
    NoRate {
        /// `plain` or `instrumented`.
        which: &'static str,
    },
    /// The program has no function that writes its profile.
    #[error(
        "a program whose profile is a .{} file has no function that writes it, so the dump object does nothing for it\n  next: {}",
        kind.ending(), match kind {
            ProfileKind::Pprof => "fetch the profile from its /debug/pprof/profile while it runs",
            _ => "let BOLT write every few seconds, or use the preload and stop the program with SIGTERM",
        }
    )]
    NoDumpObject {
        /// Who writes the profile.
        kind: ProfileKind,
    },
}

/// What would have saved the profile, by what its runtime said.
fn remedy_of(said: &str) -> &'static str {
    if said.contains(NAME_TOO_LARGE) {
        "a function's name is longer than BOLT's instrumentation can write: take the profile of an emulator (profile = \"emulated\")"
    } else if said.contains("ermission denied") {
        "let the user that the target becomes reach the run's folder (every folder above it needs the right x for others: name \
         another one by --output), or start the target as that user"
    } else {
        "look at the folder that it names: its rights, and the free space of its disk"
    }
}

/// As BOLT's runtime says it; what it wrote before is cut off.
pub(crate) const NAME_TOO_LARGE: &str = "function name too large";

/// The first line of a log in which a profile's runtime says that it failed.
pub(crate) fn runtime_said(log: &str) -> Option<&str> {
    let is_of_llvm = |line: &str| line.contains("LLVM Profile Error: ");
    let is_of_gcc = |line: &str| line.starts_with("profiling:") && line.contains("Cannot");
    let is_of_bolt = |line: &str| {
        line.contains(NAME_TOO_LARGE) || line.contains("Error while trying to open profile file")
    };
    log.lines().map(str::trim).find(|line| is_of_llvm(line) || is_of_gcc(line) || is_of_bolt(line))
}

/// What would have saved the profile.
fn remedy(kind: ProfileKind, ended: HowEnded) -> String {
    let on_demand = match kind {
        ProfileKind::Llvm | ProfileKind::Gcov => {
            "link the dump object, which writes on SIGUSR2 while the program runs"
        }
        ProfileKind::Bolt => "let BOLT write every few seconds",
        ProfileKind::Pprof => "fetch the profile from its /debug/pprof/profile while it runs",
    };
    match ended {
        HowEnded::Signal(signal) if [libc::SIGTERM, libc::SIGINT, libc::SIGHUP].contains(&signal) => {
            format!("start it with the preload, which makes this signal an orderly exit; or {on_demand}")
        }
        HowEnded::Signal(libc::SIGKILL) => format!(
            "give a `stop` command of the target's own, or more time to end; if it can't end in order, {on_demand}"
        ),
        HowEnded::Signal(_) => {
            format!("see in its log why it ends so; to have a profile all the same, {on_demand}")
        }
        HowEnded::Code(_) => format!(
            "it leaves by `_exit` or `quick_exit`, is not the instrumented program, or can't write there: look at its \
             log; if it leaves so, {on_demand}"
        ),
    }
}
