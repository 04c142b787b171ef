//! `jcmd` of the JDK that a process runs on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_experiment::arm::find_program;
use hone_tool::{Call, Runner};

/// An answer takes a fraction of a second, unless the virtual machine hangs.
const ANSWERS: Duration = Duration::from_secs(20);

/// Asks one virtual machine.
pub(super) struct Jcmd<'a> {
    runner: &'a dyn Runner,
    program: PathBuf,
    folder: PathBuf,
    pub(super) pid: u32,
}

/// Whether a process has loaded a Java virtual machine.
pub(super) fn is_jvm(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with("/libjvm.so"))
}

impl<'a> Jcmd<'a> {
    /// The one next to the process's own launcher, or in PATH.
    ///
    /// # Errors
    /// Says that there is none.
    pub(super) fn find(runner: &'a dyn Runner, pid: u32, folder: &Path) -> Result<Self, String> {
        let own = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let beside = own.iter().map(|java| java.with_file_name("jcmd")).find(|jcmd| jcmd.is_file());
        let program = beside
            .map_or_else(|| find_program("jcmd"), Ok)
            .map_err(|_| "there is no jcmd, neither next to its java nor in PATH".to_owned())?;
        Ok(Self { runner, program, folder: folder.to_owned(), pid })
    }

    /// Says a command. Its exit code is 0 in any case; it answers its own number, and nothing more than that it has agreed.
    ///
    /// # Errors
    /// What the virtual machine or jcmd answered.
    pub(super) fn say(&self, words: &[&str]) -> Result<(), String> {
        let call = Call::new("jcmd", &self.program, &self.folder)
            .arg(self.pid.to_string())
            .args(words.iter().copied())
            .limit(ANSWERS);
        let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
        let ran = self.runner.run(&call).map_err(|error| first_line(error.to_string()))?;
        let said = fs::read_to_string(&ran.stdout_path).unwrap_or_default();
        let refused = said.lines().map(str::trim).filter(|line| !line.is_empty()).nth(1);
        match refused.filter(|line| *line != "Command executed successfully") {
            Some(line) => Err(line.to_owned()),
            None => Ok(()),
        }
    }

    /// Whether the process has the file system of this one.
    pub(super) fn shares_files(&self) -> bool {
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        namespace(&self.pid.to_string()) == namespace("self")
    }
}

/// A file of a process as it is seen from here, because the process may live in a container.
pub(super) fn seen_here(pid: u32, path: &Path) -> PathBuf {
    let path = path.strip_prefix("/").unwrap_or(path);
    Path::new(&format!("/proc/{pid}/root")).join(path)
}
