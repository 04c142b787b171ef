//! The pauses of a Java virtual machine, by its own log. `jcmd` turns the log on for a window and off afterwards.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_experiment::arm::find_program;
use hone_jvm::pauses::PauseLog;
use hone_tool::{Call, Runner};

/// Log of pauses, and how their times are written.
const WHAT: &str = "what=gc*=info,safepoint=info";
const DECORATORS: &str = "decorators=time,level,tags";
/// An answer takes a fraction of a second, unless the virtual machine hangs.
const ANSWERS: Duration = Duration::from_secs(20);

/// A log that is on.
pub(super) struct PauseWatch<'a> {
    runner: &'a dyn Runner,
    jcmd: PathBuf,
    pid: u32,
    /// The file as the process sees it.
    file: PathBuf,
    folder: PathBuf,
    is_on: bool,
}

/// Whether a process has loaded a Java virtual machine.
pub(super) fn is_jvm(pid: u32) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    maps.lines().any(|line| line.ends_with("/libjvm.so"))
}

impl<'a> PauseWatch<'a> {
    /// Turns the log on.
    ///
    /// # Errors
    /// Says why it can't be turned on.
    pub(super) fn begin(runner: &'a dyn Runner, pid: u32, folder: &Path) -> Result<Self, String> {
        let own = fs::read_link(format!("/proc/{pid}/exe")).ok();
        let beside = own.iter().map(|java| java.with_file_name("jcmd")).find(|jcmd| jcmd.is_file());
        let jcmd = match beside.map_or_else(|| find_program("jcmd"), Ok) {
            Ok(jcmd) => jcmd,
            Err(_) => return Err("there is no jcmd, neither next to its java nor in PATH".to_owned()),
        };
        let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
        let is_here = namespace(&pid.to_string()) == namespace("self");
        let name = format!("hone-pauses-{pid}.log");
        let file = if is_here { folder.join(name) } else { Path::new("/tmp").join(name) };
        let mut watch = Self { runner, jcmd, pid, file, folder: folder.to_owned(), is_on: false };
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
        let here = self.here();
        let text =
            fs::read_to_string(&here).map_err(|error| format!("{} can't be read: {error}", here.display()));
        let _ = fs::remove_file(&here);
        Ok(PauseLog::parse(&text?))
    }

    /// The file as it is seen from here.
    fn here(&self) -> PathBuf {
        let path = self.file.strip_prefix("/").unwrap_or(&self.file);
        Path::new(&format!("/proc/{}/root", self.pid)).join(path)
    }

    fn off(&mut self) -> Result<(), String> {
        self.is_on = false;
        self.say(&["what=all=off"])
    }

    /// # Errors
    /// What the virtual machine or jcmd answered.
    fn say(&self, words: &[&str]) -> Result<(), String> {
        let output = format!("output={}", self.file.display());
        let call = Call::new("jcmd", &self.jcmd, &self.folder)
            .arg(self.pid.to_string())
            .args(["VM.log", &output])
            .args(words.iter().copied())
            .limit(ANSWERS);
        let ran = self.runner.run(&call).map_err(|error| first_line(&error.to_string()))?;
        let said = fs::read_to_string(&ran.stdout_path).unwrap_or_default();
        // It answers its own number, and nothing more if it agrees. Its exit code is 0 in any case.
        let refused = said.lines().map(str::trim).filter(|line| !line.is_empty()).nth(1);
        match refused.filter(|line| *line != "Command executed successfully") {
            Some(line) => Err(line.to_owned()),
            None => Ok(()),
        }
    }
}

impl Drop for PauseWatch<'_> {
    fn drop(&mut self) {
        if self.is_on {
            let _ = self.off();
        }
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}
