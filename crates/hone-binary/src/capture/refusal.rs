//! Why a run gave no profile, or no usable one.

use std::path::PathBuf;

use super::ended::HowEnded;
use super::files::ProfileKind;

/// A profile that was not written. Each error says how to get it the next time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureRefusal {
    /// The target ended too early.
    #[error(
        "the target ended during the training ({ended}), so the training is not complete{left}\n  next: \
         read in its log why it ends; an instrumented program needs more memory and time, so check its \
         limits, too"
    )]
    EndedInTraining {
        /// How.
        ended: HowEnded,
        /// Its files, as an addition to the sentence.
        left: String,
    },
    /// It ended, but wrote nothing.
    #[error("the profile is lost: the target ended ({ended}) and wrote {what}\n  next: {}", remedy(*kind, *ended))]
    NothingWritten {
        /// How it ended.
        ended: HowEnded,
        /// `no .profraw file`, or the files of 0 bytes.
        what: String,
        /// The writer.
        kind: ProfileKind,
    },
    /// The profile's runtime reports why it could not write.
    #[error("the profile was not written; its runtime reports: {said}\n  next: {}", remedy_of(said))]
    RuntimeFailed {
        /// Its line.
        said: String,
    },
    /// Some processes wrote, others were ended before.
    #[error(
        "the profile is not complete: {} of 0 bytes and {written} complete ones, the first empty one is \
         {}\n  next: {}",
        files.len(), files.first().map(|path| path.display().to_string()).unwrap_or_default(), remedy(*kind, *ended)
    )]
    SomeEmpty {
        /// The files of 0 bytes.
        files: Vec<PathBuf>,
        /// Files with something in them.
        written: usize,
        /// How the first process ended.
        ended: HowEnded,
        /// The writer.
        kind: ProfileKind,
    },
    /// The load succeeded, but the program did no more than without one.
    #[error(
        "the training reached almost no code: it wrote {counted} counts, and a start and a stop without any \
         load write {idle}\n  next: check that the load reaches the program, and that the processes that \
         serve it write their counts: a worker that ends by `_exit`, or that its parent kills, writes none"
    )]
    ReachedNothing {
        /// Sum of the counts of the training.
        counted: u64,
        /// Sum of the counts without a load.
        idle: u64,
    },
    /// No process receives the signal.
    #[error(
        "the counters were not reset: no process of the target handles SIGUSR1 ({blocked} block it and left \
         it pending)\n  next: link the dump object into the instrumented build, or give a `reset` command \
         for the target"
    )]
    NotReset {
        /// Processes that block it and did not fetch it.
        blocked: usize,
    },
    /// `LD_PRELOAD` takes a list, and would silently load nothing from this path.
    #[error(
        "{} can't be preloaded: a space or a colon would split its path\n  next: name a folder without them",
        folder.display()
    )]
    PreloadPath {
        /// The intended path of the preload.
        folder: PathBuf,
    },
    /// A program that served nothing has no rate.
    #[error(
        "the slowdown is unknown: the {which} program has no rate above 0\n  next: check that the load \
         reaches it"
    )]
    NoRate {
        /// `plain` or `instrumented`.
        which: &'static str,
    },
    /// The program has no function that writes its profile.
    #[error(
        "a program with a .{} file as profile has no function that writes it, so the dump object has no \
         effect\n  next: {}",
        kind.ending(), match kind {
            ProfileKind::Pprof => "fetch the profile from its /debug/pprof/profile while it runs",
            _ => "let BOLT write every few seconds, or use the preload and stop the program with SIGTERM",
        }
    )]
    NoDumpObject {
        /// The writer of the profile.
        kind: ProfileKind,
    },
}

/// What would have saved the profile, by its runtime's message.
fn remedy_of(said: &str) -> &'static str {
    if said.contains(NAME_TOO_LARGE) {
        "use an emulator's profile (profile = \"emulated\"): BOLT's instrumentation can't write so long a \
         function name"
    } else if said.contains("ermission denied") {
        "give the target's user access to the run's folder (every folder above it needs the permission x \
         for others; --output names another folder), or start the target as that user"
    } else {
        "check the permissions of the folder in that message, and the free space of its disk"
    }
}

/// BOLT's runtime's message; its earlier output is cut off.
pub(crate) const NAME_TOO_LARGE: &str = "function name too large";

/// The first line of a log with a failure of a profile's runtime.
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
            format!("start it with the preload, which turns this signal into an orderly exit; or {on_demand}")
        }
        HowEnded::Signal(libc::SIGKILL) => format!(
            "give a `stop` command for the target, or more time to end; if it can't exit normally, \
             {on_demand}"
        ),
        HowEnded::Signal(_) => {
            format!("read in its log why it ends; to get a profile nevertheless, {on_demand}")
        }
        HowEnded::Code(_) => format!(
            "read its log: it ends by `_exit` or `quick_exit`, is not instrumented, or can't write there; \
             if it ends by one of these calls, {on_demand}"
        ),
    }
}
