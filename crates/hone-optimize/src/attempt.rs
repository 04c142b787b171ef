//! One attempt at a run, from its start to its end. A killed process can't report anything. So a note says which step is running, and
//! other notes list its processes. The next attempt reports what happened and cleans up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_tool::orphans::{Noting, note_groups_in};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use hone_experiment::folder::RunFolder;
use hone_experiment::left::{OF_BUILDS as GROUPS, ended, removed};

const NOTE: &str = "attempt.json";

/// The state of an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    pid: u32,
    /// `None` before the first step.
    step: Option<String>,
    boot_id: Option<String>,
}

/// The attempt lasts as long as this value. Every end but a kill removes its note.
#[derive(Debug)]
pub(super) struct Underway<'a> {
    folder: &'a RunFolder,
    now: Attempt,
    _noting: Noting,
}

impl Underway<'_> {
    /// Notes the step that starts now.
    pub(super) fn at(&mut self, step: &str) -> Result<()> {
        self.now.step = Some(step.to_owned());
        self.folder.write_note(NOTE, &self.now)
    }
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        // A note that stays counts as a kill, which is the smaller error.
        let _ = self.folder.remove(NOTE);
    }
}

impl<'a> Job<'a> {
    /// Reports attempts that were killed, in this run and in the other runs of the folder, ends what they left, and begins a new attempt. The
    /// caller must hold the run's lock.
    pub(super) fn begin(&self) -> Result<Underway<'a>> {
        for run in self.runs_beside() {
            let has_groups = fs::read_dir(run.join(GROUPS)).is_ok_and(|mut notes| notes.next().is_some());
            if !has_groups && !run.join(NOTE).is_file() {
                continue;
            }
            // A locked run is in progress and was not interrupted.
            let Ok(_nobody) = self.lock(&run, "using") else { continue };
            let go_on = format!("; continue it with --resume {}", run.display());
            let tell = |words: &[String]| self.tell(&run.display().to_string(), words, &go_on);
            // This run does not depend on it. The note stays, so the next attempt tries again.
            if let Err(error) = clean_up_beside(&run, tell) {
                let why = crate::outcome::in_a_line(&error);
                self.progress
                    .line(&format!("{} was interrupted, and Hone can't clean it up: {why}", run.display()));
            }
        }
        let words = clean_up(self.folder.path())?;
        self.tell("this run", &words, "; Hone keeps the finished steps");
        let noting =
            note_groups_in(&self.folder.join(GROUPS)).context("the run's folder can't be written")?;
        let now = Attempt { pid: std::process::id(), step: None, boot_id: boot_id() };
        self.folder.write_note(NOTE, &now)?;
        Ok(Underway { folder: self.folder, now, _noting: noting })
    }

    fn tell(&self, run: &str, words: &[String], more: &str) {
        let Some((first, others)) = words.split_first() else { return };
        self.progress.line(&format!("{run} {first}{more}"));
        for line in others {
            self.progress.line(&format!("  {line}"));
        }
    }

    fn runs_beside(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.home).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path != self.folder.path()).collect()
    }
}

/// Cleans up in another run, reports it, and removes the attempt's note.
fn clean_up_beside(run: &Path, tell: impl FnOnce(&[String])) -> Result<()> {
    tell(&clean_up(run)?);
    match fs::remove_file(run.join(NOTE)) {
        // An attempt without a note can still have left processes.
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{} can't be changed", run.display()))
        }
        _ => Ok(()),
    }
}

/// Ends and removes what an attempt left in a run, and returns it in words; nothing where there was no attempt. An attempt that was
/// not killed can have left processes, too: those that ignored their signal.
fn clean_up(run: &Path) -> Result<Vec<String>> {
    let left = ended(&run.join(GROUPS))?;
    let Ok(text) = fs::read_to_string(run.join(NOTE)) else {
        let head = (!left.is_empty()).then(|| "left processes behind".to_owned());
        return Ok(head.into_iter().chain(left).collect());
    };
    let attempt: Attempt = serde_json::from_str(&text).unwrap_or_default();
    let mut words = vec![killed(&attempt)];
    words.extend(left);
    let removed = removed(&run.join("scratch"))?;
    if removed > 0 {
        words.push(format!("removed {removed} folders with data of its processes"));
    }
    Ok(words)
}

fn killed(attempt: &Attempt) -> String {
    let place = match &attempt.step {
        Some(step) => format!("during the step {step}"),
        None => "before its first step".to_owned(),
    };
    let why = match (&attempt.boot_id, boot_id()) {
        (Some(then), Some(now)) if *then != now => "the machine has restarted since",
        _ => "Hone was killed",
    };
    format!("was interrupted {place}: {why} (process {})", attempt.pid)
}

fn boot_id() -> Option<String> {
    hone_host::observe::boot_id(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use hone_tool::{Call, Runner as _, System};

    use super::*;

    #[test]
    fn what_a_kill_leaves_is_told_once_and_removed() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "x").unwrap();
        assert_eq!(clean_up(folder.path()).unwrap(), [""; 0], "no process was left");
        fs::create_dir_all(folder.scratch().join("pgo-0")).unwrap();
        fs::write(folder.scratch().join("note"), "").unwrap();
        let attempt = Attempt { pid: 7, step: Some("train".to_owned()), boot_id: boot_id() };
        folder.write_note(NOTE, &attempt).unwrap();
        let words = clean_up(folder.path()).unwrap();
        assert_eq!(
            words,
            [
                "was interrupted during the step train: Hone was killed (process 7)",
                "removed 2 folders with data of its processes"
            ]
        );
        assert_eq!(fs::read_dir(folder.scratch()).unwrap().count(), 0);
        let elsewhere = Attempt { boot_id: Some("another".to_owned()), step: None, ..attempt };
        assert_eq!(
            killed(&elsewhere),
            "was interrupted before its first step: the machine has restarted since (process 7)"
        );
    }

    #[test]
    fn what_an_orderly_end_could_not_kill_is_ended_by_the_next_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let session = system.start(&Call::new("load", "/bin/sleep", dir.path()).args(["1000"])).unwrap();
        let line = fs::read_to_string(format!("/proc/{}/stat", session.pid())).unwrap();
        let note = format!("{}\nload\n{line}", boot_id().unwrap());
        fs::create_dir(dir.path().join(GROUPS)).unwrap();
        fs::write(dir.path().join(GROUPS).join("1-0"), note).unwrap();
        let words = clean_up(dir.path()).unwrap();
        assert_eq!(
            words,
            ["left processes behind", "ended a process that it left running, step load: sleep"]
        );
        assert_eq!(clean_up(dir.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn a_note_that_was_cut_off_is_a_kill_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(NOTE), "{\"pid\":").unwrap();
        assert!(clean_up(dir.path()).unwrap()[0].starts_with("was interrupted before its first step"));
    }

    #[test]
    fn another_run_that_can_not_be_cleaned_up_keeps_its_note() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        fs::write(run.join(NOTE), "{}").unwrap();
        // No note of a process can lie there.
        fs::write(run.join(GROUPS), "").unwrap();
        let error = clean_up_beside(run, |_| panic!("nothing was done")).unwrap_err();
        assert!(format!("{error:#}").contains("can't be looked up"), "{error:#}");
        assert!(run.join(NOTE).is_file(), "the next attempt tries again");
        fs::remove_file(run.join(GROUPS)).unwrap();
        let mut told = 0;
        clean_up_beside(run, |words| told = words.len()).unwrap();
        assert_eq!((told, run.join(NOTE).exists()), (1, false));
    }

    #[test]
    fn an_orderly_end_leaves_no_note() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "x").unwrap();
        let noting = note_groups_in(&folder.join(GROUPS)).unwrap();
        let mut underway = Underway { folder: &folder, now: Attempt::default(), _noting: noting };
        underway.at("harm").unwrap();
        let now: Attempt = folder.read_note(NOTE).unwrap().unwrap();
        assert_eq!(now.step.as_deref(), Some("harm"));
        drop(underway);
        assert!(!folder.join(NOTE).exists());
    }
}
