//! The interface of runners.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use crate::call::Call;
use crate::child::Usage;
use crate::error::{Scene, ToolError};
use crate::session::Session;

/// Size limit of a log in memory.
const OUTPUT_BYTES: u64 = 256 * 1024 * 1024;

/// Carries out calls. Crates take `&dyn Runner`; only the program chooses which one.
pub trait Runner: Send + Sync {
    /// Starts the call, waits for its end, and checks its required files.
    ///
    /// # Errors
    /// See [`ToolError`]; an exit code that the call does not accept is [`ToolError::Failed`].
    fn run(&self, call: &Call) -> Result<Finished, ToolError>;

    /// Starts a long-lived child, for example a server.
    ///
    /// # Errors
    /// Fails when it can't be started, or when this runner starts none.
    fn start(&self, call: &Call) -> Result<Session, ToolError>;

    /// Starts a long-lived interactive child: its standard input and output are pipes instead of a file and a log.
    ///
    /// # Errors
    /// As [`Runner::start`].
    fn converse(&self, call: &Call) -> Result<Conversation, ToolError> {
        Err(ToolError::Refused {
            scene: Scene::new(call, None),
            reason: "this runner supports no interactive program".to_owned(),
            next: "use the real runner for what needs a live process".to_owned(),
        })
    }
}

/// A child and Hone's ends of its pipes.
#[derive(Debug)]
pub struct Conversation {
    /// The child. Its log of standard output stays empty.
    pub session: Session,
    /// The child reads from this; dropping it ends the child's input.
    pub to_child: File,
    /// The child's output; it ends with the last process that has the other end.
    pub from_child: File,
}

/// A successful call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code, which the call accepts.
    pub code: i32,
    /// Everything it wrote to standard output.
    pub stdout_path: PathBuf,
    /// Everything it wrote to standard error.
    pub stderr_path: PathBuf,
    /// Wall time.
    pub took: Duration,
    /// Its resources; zero if nothing was started (a dry run, a replay).
    pub usage: Usage,
}

impl Finished {
    /// The bytes of standard output.
    ///
    /// # Errors
    /// [`ToolError::Unreadable`] if the log is gone or larger than 256 MiB.
    pub fn stdout(&self) -> Result<Vec<u8>, ToolError> {
        read_log(&self.stdout_path)
    }

    /// The bytes of standard error.
    ///
    /// # Errors
    /// As [`Finished::stdout`].
    pub fn stderr(&self) -> Result<Vec<u8>, ToolError> {
        read_log(&self.stderr_path)
    }

    /// Standard output as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// As [`Finished::stdout`].
    pub fn stdout_text(&self) -> Result<String, ToolError> {
        Ok(String::from_utf8_lossy(&self.stdout()?).into_owned())
    }

    /// Standard error as text; bytes that are not UTF-8 are replaced.
    ///
    /// # Errors
    /// As [`Finished::stdout`].
    pub fn stderr_text(&self) -> Result<String, ToolError> {
        Ok(String::from_utf8_lossy(&self.stderr()?).into_owned())
    }
}

fn read_log(path: &PathBuf) -> Result<Vec<u8>, ToolError> {
    let unreadable = |reason: String| ToolError::Unreadable {
        what: path.display().to_string(),
        reason,
        next: "keep the run's log folder until the run has ended, and check it".to_owned(),
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    file.take(OUTPUT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() as u64 > OUTPUT_BYTES {
        return Err(unreadable(format!("larger than {OUTPUT_BYTES} bytes")));
    }
    Ok(bytes)
}
