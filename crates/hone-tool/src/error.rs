//! What can go wrong at the door, told so that somebody can act on it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::call::Call;
use crate::tail::last_lines;
use crate::tool::Version;

/// Lines of the child's standard error that an error shows.
const STDERR_LINES: usize = 8;

/// The call an error is about, and what its child left in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// The step's name.
    pub step: String,
    /// The call as a line to paste.
    pub command: String,
    /// The last lines of standard error.
    pub stderr: Vec<String>,
    /// The log of standard error; `None` when nothing was started.
    pub log: Option<PathBuf>,
}

impl Scene {
    pub(crate) fn new(call: &Call, log: Option<&Path>) -> Box<Self> {
        Box::new(Self {
            step: call.step().to_owned(),
            command: call.to_shell_line(),
            stderr: log.map(|path| last_lines(path, STDERR_LINES)).unwrap_or_default(),
            log: log.map(Path::to_path_buf),
        })
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "  command: {}", self.command)?;
        for line in &self.stderr {
            write!(formatter, "\n  stderr: {line}")?;
        }
        match &self.log {
            Some(log) => write!(formatter, "\n  log: {}", log.display()),
            None => Ok(()),
        }
    }
}

/// What is wrong with a promised file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It is not there.
    Missing,
    /// It is there and has no bytes.
    Empty,
    /// It was there before and this call did not touch it.
    Stale,
}

impl fmt::Display for Lack {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Missing => "was not written",
            Self::Empty => "is empty (0 bytes)",
            Self::Stale => "is left over from an earlier run and was not written again",
        })
    }
}

/// Why a program could not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The program is nowhere.
    #[error("{name} not found: {}\n  next: {next}", looked.join("; "))]
    NotFound {
        /// The tool's name.
        name: String,
        /// The places that were tried, each with what was there.
        looked: Vec<String>,
        /// How to get it.
        next: String,
    },
    /// The program is older than what is needed.
    #[error("{name} is too old: {} says \"{says}\", needed is {minimum} or newer\n  next: {next}", path.display())]
    TooOld {
        /// The tool's name.
        name: String,
        /// The file that was asked.
        path: PathBuf,
        /// Its version line.
        says: String,
        /// The oldest version that will do.
        minimum: Version,
        /// How to get a newer one.
        next: String,
    },
    /// The system did not let it start: rights, a missing folder, a file that is no program.
    #[error("{}: could not be started: {reason}\n{scene}\n  next: {next}", scene.step)]
    Refused {
        /// The call.
        scene: Box<Scene>,
        /// What the system said.
        reason: String,
        /// The way out.
        next: String,
    },
    /// It did not end, or did not do what was waited for, in time.
    #[error(
        "{}: stopped after {}: {waited_for}\n{scene}\n  next: look at the log; if it was only slow, raise the time limit",
        scene.step, seconds(*limit)
    )]
    TimedOut {
        /// The call.
        scene: Box<Scene>,
        /// The limit it broke.
        limit: Duration,
        /// What did not happen.
        waited_for: String,
    },
    /// It ended with an exit code that is no success, or by a signal.
    #[error("{}: {}\n{scene}\n  next: paste the command into a shell to see it fail alone", scene.step, status_words(*status))]
    Failed {
        /// The call.
        scene: Box<Scene>,
        /// How it ended.
        status: ExitStatus,
    },
    /// It said that it succeeded, and a promised file says that it did not.
    #[error("{}: ended without an error, but {} {lack}\n{scene}\n  next: an exit code of 0 proves nothing; look at the log", scene.step, file.display())]
    NothingProduced {
        /// The call.
        scene: Box<Scene>,
        /// The promised file.
        file: PathBuf,
        /// What is wrong with it.
        lack: Lack,
    },
    /// A file of ours (log, transcript, promised file) or an answer could not be read or written.
    #[error("{what}: {reason}\n  next: {next}")]
    Unreadable {
        /// The file or answer.
        what: String,
        /// What is wrong with it.
        reason: String,
        /// The way out.
        next: String,
    },
    /// Somebody pressed Ctrl-C or asked Hone to end; the group was killed.
    #[error("{}: interrupted; its processes were ended\n{scene}\n  next: run it again when you want it to go on", scene.step)]
    Interrupted {
        /// The call.
        scene: Box<Scene>,
    },
    /// A long-lived child ended while something was still wanted from it.
    #[error("{}: ended early, {}, while waiting: {waited_for}\n{scene}\n  next: paste the command into a shell to see why it ends", scene.step, status_words(*status))]
    Died {
        /// The call.
        scene: Box<Scene>,
        /// How it ended.
        status: ExitStatus,
        /// What was waited for.
        waited_for: String,
    },
}

/// "exit code 3", or "ended by signal 9 (KILL)".
pub(crate) fn status_words(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}{}", signal_name(signal)),
        (None, None) => "ended in an unknown way".to_owned(),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => " (INT)",
        libc::SIGILL => " (ILL)",
        libc::SIGABRT => " (ABRT)",
        libc::SIGBUS => " (BUS)",
        libc::SIGFPE => " (FPE)",
        libc::SIGKILL => " (KILL; the kernel does that too, when memory runs out)",
        libc::SIGSEGV => " (SEGV)",
        libc::SIGPIPE => " (PIPE)",
        libc::SIGTERM => " (TERM)",
        _ => "",
    }
}

fn seconds(limit: Duration) -> String {
    format!("{} s", limit.as_millis() as f64 / 1000.0)
}

pub(crate) fn unwaitable(call: &Call, error: &io::Error) -> ToolError {
    ToolError::Unreadable {
        what: format!("state of the child of step {}", call.step()),
        reason: error.to_string(),
        next: "another part of the program may have reaped it; that is a defect".to_owned(),
    }
}
