//! Reasons why data can't be read as samples.

use std::io;

/// Reasons why data can't be read as samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfFault {
    /// The file has another format.
    #[error("it is not a file of perf record\n  next: use a file from `perf record -o FILE`")]
    Foreign,
    /// The data comes from a machine with another byte order.
    #[error(
        "it comes from a machine with another byte order\n  next: read it on a machine like the one it was \
         recorded on"
    )]
    OtherEndian,
    /// The data comes from `perf record -o -`.
    #[error(
        "it went through a pipe and has no event table\n  next: use `perf record -o FILE`, or `perf inject \
         -i THIS -o FILE`"
    )]
    Piped,
    /// The data comes from `perf record -z`.
    #[error(
        "its records are compressed\n  next: use `perf record` without -z, or `perf inject -i THIS -o FILE`, \
         which decompresses them"
    )]
    Compressed,
    /// The data comes from `perf mem`, `perf stat record` or others.
    #[error(
        "its samples have no {what}\n  next: use `perf record -e cpu-clock`, or -e cycles, for the program"
    )]
    Without {
        /// The missing field.
        what: &'static str,
    },
    /// The data has no sample.
    #[error("it has no sample of {event}\n  next: record for longer, while the program is loaded")]
    Empty {
        /// The sampled event.
        event: String,
    },
    /// The data is truncated, or written by another program.
    #[error("it is truncated in {section}\n  next: record it again; end perf by SIGINT or SIGTERM")]
    Broken {
        /// The section that was being read.
        section: &'static str,
    },
    /// The system can't read the file.
    #[error("it can't be read: {0}")]
    Unreadable(#[from] io::Error),
}
