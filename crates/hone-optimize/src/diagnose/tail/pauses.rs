//! The pauses of a Java virtual machine, by its own log. `jcmd` turns the log on for a window and off afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use hone_jvm::pauses::PauseLog;
use hone_tool::Runner;

use super::super::jcmd::{Jcmd, seen_here};

/// Log of pauses, and how their times are written.
const WHAT: &str = "what=gc*=info,safepoint=info";
const DECORATORS: &str = "decorators=time,level,tags";

/// A log that is on.
pub(super) struct PauseWatch<'a> {
    jcmd: Jcmd<'a>,
    /// The file as the process sees it.
    file: PathBuf,
    is_on: bool,
}

impl<'a> PauseWatch<'a> {
    /// Turns the log on.
    ///
    /// # Errors
    /// Says why it can't be turned on.
    pub(super) fn begin(runner: &'a dyn Runner, pid: u32, folder: &Path) -> Result<Self, String> {
        let jcmd = Jcmd::find(runner, pid, folder)?;
        let folder = if jcmd.shares_files() { folder } else { Path::new("/tmp") };
        let file = folder.join(format!("hone-pauses-{pid}.log"));
        let mut watch = Self { jcmd, file, is_on: false };
        watch.say(&[WHAT, DECORATORS])?;
        watch.is_on = true;
        Ok(watch)
    }

    /// Turns the log off, and reads it.
    ///
    /// # Errors
    /// Says why it can't be read.
    pub(super) fn end(mut self) -> Result<PauseLog, String> {
        self.off()?;
        let here = seen_here(self.jcmd.pid, &self.file);
        let text =
            fs::read_to_string(&here).map_err(|error| format!("{} can't be read: {error}", here.display()));
        let _ = fs::remove_file(&here);
        Ok(PauseLog::parse(&text?))
    }

    fn off(&mut self) -> Result<(), String> {
        self.is_on = false;
        self.say(&["what=all=off"])
    }

    fn say(&self, words: &[&str]) -> Result<(), String> {
        let output = format!("output={}", self.file.display());
        self.jcmd.say(&[&["VM.log", &*output], words].concat())
    }
}

impl Drop for PauseWatch<'_> {
    fn drop(&mut self) {
        if self.is_on {
            let _ = self.off();
        }
    }
}
