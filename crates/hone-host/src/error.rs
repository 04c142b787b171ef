use std::io;
use std::path::PathBuf;

/// Reasons why a fact about the machine is unknown.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The process does not exist, or has ended.
    #[error("there is no process {pid}: it ended, or the number is wrong; check its log for the reason")]
    Vanished {
        /// Id of the process.
        pid: u32,
    },
    /// A file of the kernel could not be read.
    #[error("could not read {}: {source}; is /proc mounted and visible to this user?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the kernel has an unexpected form.
    #[error("{} has an unknown form: expected {expected}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// The expected form.
        expected: &'static str,
    },
    /// The CPU clock of a process could not be read.
    #[error("could not read the CPU clock of process {pid}: {source}")]
    Clock {
        /// Id of the process.
        pid: u32,
        /// The system's error.
        source: io::Error,
    },
    /// A thread could not be pinned to cores, or its cores could not be read.
    #[error("could not pin thread {task} to cores: {source}")]
    Affinity {
        /// The kernel's id of the thread; 0 is the calling one.
        task: i32,
        /// The system's error.
        source: io::Error,
    },
}
