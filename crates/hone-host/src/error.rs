use std::io;
use std::path::PathBuf;

/// Why something about the machine could not be found out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// There is no such process (any more).
    #[error(
        "there is no process {pid} (any more): it ended, or the number is wrong; look for its exit in its log"
    )]
    Vanished {
        /// The process that was asked for.
        pid: u32,
    },
    /// A file of the kernel could not be read.
    #[error("could not read {}: {source}; is /proc mounted and visible to this user?", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The answer of the system.
        source: io::Error,
    },
    /// A file of the kernel has another form than expected.
    #[error("{} has an unknown form: expected {expected}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What should have been there.
        expected: &'static str,
    },
    /// The CPU clock of a process could not be read.
    #[error("could not read the CPU clock of process {pid}: {source}")]
    Clock {
        /// The process.
        pid: u32,
        /// The answer of the system.
        source: io::Error,
    },
    /// A thread could not be bound to cores, or its cores could not be read.
    #[error("could not bind thread {task} to cores: {source}")]
    Affinity {
        /// The kernel's id of the thread; 0 is the calling one.
        task: i32,
        /// The answer of the system.
        source: io::Error,
    },
}
