//! Failures of calls, in words that help the user to act.

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

/// The call of an error, and the log of its child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// The step's name.
    pub step: String,
    /// The call as a shell line.
    pub command: String,
    /// The last lines of standard error.
    pub stderr: Vec<String>,
    /// The log of standard error; `None` if nothing was started.
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

/// The fault of a required file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It is missing.
    Missing,
    /// It has no bytes.
    Empty,
    /// It existed before, and this call did not write it.
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

/// Why a program did not do its work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolError {
    /// The program does not exist.
    #[error("{name} not found: {}\n  next: {next}", looked.join("; "))]
    NotFound {
        /// The tool's name.
        name: String,
        /// The places that Hone tried, each with the result.
        looked: Vec<String>,
        /// How to install it.
        next: String,
    },
    /// The program is too old.
    #[error("{name} is too old: {} prints \"{says}\", but Hone needs {minimum} or newer\n  next: \
             {next}", path.display())]
    TooOld {
        /// The tool's name.
        name: String,
        /// The program's path.
        path: PathBuf,
        /// Its version line.
        says: String,
        /// The oldest version that works.
        minimum: Version,
        /// How to install a newer one.
        next: String,
    },
    /// The system did not start it: permissions, a missing folder, a file that is not a program.
    #[error("{}: could not be started: {reason}\n{scene}\n  next: {next}", scene.step)]
    Refused {
        /// The call.
        scene: Box<Scene>,
        /// The system's message.
        reason: String,
        /// What to do.
        next: String,
    },
    /// It did not end, or did not do the expected thing, in time.
    #[error(
        "{}: stopped after {}: {waited_for}\n{scene}\n  next: read the log; if the step was only slow, raise \
         the time limit",
        scene.step, seconds(*limit)
    )]
    TimedOut {
        /// The call.
        scene: Box<Scene>,
        /// Its time limit.
        limit: Duration,
        /// What did not happen.
        waited_for: String,
    },
    /// It ended with an unaccepted exit code, or by a signal.
    #[error(
        "{}: {}\n{scene}\n  next: run the command in a shell to see it fail alone",
        scene.step, status_words(*status)
    )]
    Failed {
        /// The call.
        scene: Box<Scene>,
        /// How it ended.
        status: ExitStatus,
    },
    /// It reported success, but a required file contradicts it.
    #[error("{}: ended without an error, but {} {lack}\n{scene}\n  next: read the log: an exit code of 0 \
             does not prove success", scene.step, file.display())]
    NothingProduced {
        /// The call.
        scene: Box<Scene>,
        /// The required file.
        file: PathBuf,
        /// Its fault.
        lack: Lack,
    },
    /// A file of Hone (log, transcript, required file) or an answer could not be read or written.
    #[error("{what}: {reason}\n  next: {next}")]
    Unreadable {
        /// The file or answer.
        what: String,
        /// Its fault.
        reason: String,
        /// What to do.
        next: String,
    },
    /// The user pressed Ctrl-C or asked Hone to end; Hone killed the group.
    #[error("{}: interrupted; Hone ended its processes\n{scene}\n  next: run the command again to \
             continue", scene.step)]
    Interrupted {
        /// The call.
        scene: Box<Scene>,
    },
    /// A long-lived child ended while Hone still needed it.
    #[error("{}: ended early, {}, while waiting: {waited_for}\n{scene}\n  next: run the command in a shell \
             to see why it ends", scene.step, status_words(*status))]
    Died {
        /// The call.
        scene: Box<Scene>,
        /// How it ended.
        status: ExitStatus,
        /// The expected thing.
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
        next: "report this defect of Hone: another part of the program may have reaped the process"
            .to_owned(),
    }
}
