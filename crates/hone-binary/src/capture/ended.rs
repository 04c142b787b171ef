//! How a target ended.

use std::fmt;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum HowEnded {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl From<ExitStatus> for HowEnded {
    fn from(status: ExitStatus) -> Self {
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Code)
    }
}

impl fmt::Display for HowEnded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(formatter, "exit code {code}"),
            Self::Signal(libc::SIGTERM) => formatter.write_str("by SIGTERM, without a handler"),
            Self::Signal(libc::SIGKILL) => formatter.write_str("by SIGKILL"),
            Self::Signal(signal) => write!(formatter, "by signal {signal}"),
        }
    }
}
