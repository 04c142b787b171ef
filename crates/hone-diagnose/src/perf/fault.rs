//! Why data can't be read as samples.

use std::io;

/// Data that can't be read as samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfFault {
    /// Something else.
    #[error(
        "it does not begin as perf's data does\n  next: name a file that perf record -o FILE has written"
    )]
    Foreign,
    /// Of a machine with the other order of bytes.
    #[error(
        "it is of a machine with the other order of bytes\n  next: read it on a machine like the one it was recorded on"
    )]
    OtherEndian,
    /// `perf record -o -`.
    #[error(
        "it went through a pipe, and has no table of events\n  next: perf record -o FILE, or perf inject -i THIS -o FILE"
    )]
    Piped,
    /// `perf record -z`.
    #[error(
        "its records are compressed\n  next: perf record without -z, or perf inject -i THIS -o FILE, which unpacks them"
    )]
    Compressed,
    /// `perf mem`, `perf stat record` and others.
    #[error("its samples have no {what}\n  next: perf record -e cpu-clock, or -e cycles, of the program")]
    Without {
        /// What is missing.
        what: &'static str,
    },
    /// No sample in it.
    #[error("it has no sample of {event}\n  next: record for longer, while the program is loaded")]
    Empty {
        /// What was sampled.
        event: String,
    },
    /// Cut off, or written by something else.
    #[error(
        "it breaks off in {section}\n  next: record it again; perf must end by itself, by SIGINT or by SIGTERM"
    )]
    Broken {
        /// What was being read.
        section: &'static str,
    },
    /// The system does not give its bytes.
    #[error("it can't be read: {0}")]
    Unreadable(#[from] io::Error),
}
