//! Answers calls from transcripts, so that a machine without the tools can test the processing of their output.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::child::Usage;
use crate::error::{Scene, ToolError};
use crate::logs::file_name_of;
use crate::runner::{Finished, Runner};
use crate::session::Session;

/// One recorded call. Its path is `<step>-<n>/transcript.json`, next to `stdout`, `stderr` and `file-<i>` for the i-th required file; `n`
/// counts the calls of that step from 1.
#[derive(Debug, Serialize, Deserialize)]
struct Transcript {
    /// The call, for people.
    command: String,
    /// File name of the program. The transcript answers no call of another program.
    program: String,
    code: i32,
    took_ms: u64,
    /// The number of stored required files.
    files: usize,
}

/// Counts the calls of each step.
#[derive(Debug, Default)]
struct Turns(Mutex<HashMap<String, u32>>);

impl Turns {
    fn folder_of(&self, base: &Path, call: &Call) -> PathBuf {
        let step = file_name_of(call.step());
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = turns.entry(step.clone()).or_default();
        *turn += 1;
        base.join(format!("{step}-{turn}"))
    }
}

/// Keeps transcripts for [`Replay`].
#[derive(Debug)]
pub(crate) struct Recorder {
    folder: PathBuf,
    turns: Turns,
}

impl Recorder {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, turns: Turns::default() }
    }

    pub(crate) fn keep(&self, call: &Call, finished: &Finished) -> Result<(), ToolError> {
        let folder = self.turns.folder_of(&self.folder, call);
        write_transcript(&folder, call, finished)
            .map_err(|error| trouble(&folder, error.to_string(), "name a writable recording folder"))
    }
}

fn write_transcript(folder: &Path, call: &Call, finished: &Finished) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::copy(&finished.stdout_path, folder.join("stdout"))?;
    fs::copy(&finished.stderr_path, folder.join("stderr"))?;
    for (index, promise) in call.promises().iter().enumerate() {
        fs::copy(&promise.path, folder.join(format!("file-{index}")))?;
    }
    let transcript = Transcript {
        command: call.to_shell_line(),
        program: program_name(call),
        code: finished.code,
        took_ms: u64::try_from(finished.took.as_millis()).unwrap_or(u64::MAX),
        files: call.promises().len(),
    };
    let text = serde_json::to_string_pretty(&transcript).map_err(io::Error::other)?;
    fs::write(folder.join("transcript.json"), text + "\n")
}

/// Answers calls from a folder that [`crate::System::recording_to`] filled. The n-th call of a step gets the n-th recorded answer of that
/// step, and the required files get the recorded contents.
#[derive(Debug)]
pub struct Replay {
    folder: PathBuf,
    turns: Turns,
}

impl Replay {
    /// A runner that answers from this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), turns: Turns::default() }
    }
}

impl Runner for Replay {
    fn run(&self, call: &Call) -> Result<Finished, ToolError> {
        let folder = self.turns.folder_of(&self.folder, call);
        let again = "record the calls again with the real tools";
        let text = fs::read_to_string(folder.join("transcript.json"))
            .map_err(|error| trouble(&folder, error.to_string(), again))?;
        let transcript: Transcript =
            serde_json::from_str(&text).map_err(|error| trouble(&folder, error.to_string(), again))?;
        if transcript.program != program_name(call) || transcript.files != call.promises().len() {
            let reason = format!("the recording has `{}`, but the call is `{call}`", transcript.command);
            return Err(trouble(&folder, reason, again));
        }
        for (index, promise) in call.promises().iter().enumerate() {
            fs::copy(folder.join(format!("file-{index}")), &promise.path)
                .map_err(|error| trouble(&promise.path, error.to_string(), again))?;
        }
        Ok(Finished {
            code: transcript.code,
            stdout_path: folder.join("stdout"),
            stderr_path: folder.join("stderr"),
            took: Duration::from_millis(transcript.took_ms),
            usage: Usage::default(),
        })
    }

    fn start(&self, call: &Call) -> Result<Session, ToolError> {
        Err(ToolError::Refused {
            scene: Scene::new(call, None),
            reason: "a replay starts no server".to_owned(),
            next: "use the real runner for what needs a live process".to_owned(),
        })
    }
}

fn program_name(call: &Call) -> String {
    call.program().file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn trouble(path: &Path, reason: String, next: &str) -> ToolError {
    ToolError::Unreadable { what: format!("transcript {}", path.display()), reason, next: next.to_owned() }
}
