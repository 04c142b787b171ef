//! Leftovers of killed runs: processes and their data. The kernel ends Hone's children with Hone, but not their children. So a
//! run writes its process groups into its folder, and the next run ends the remaining ones.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_load::Security;
use hone_tool::orphans::{Noting, end_what_is_left, note_groups_in};

use crate::folder::RunFolder;
use crate::lever;
use crate::progress::Progress;
use crate::topics::sweep_left_overs;

/// Notes of the process groups of a run of `hone optimize`, which has its own lock.
pub const OF_BUILDS: &str = "running";
/// The lock of such a run.
pub const LOCK_OF_BUILDS: &str = ".lock";
/// Notes of a run that is held by [`RunFolder::held`].
const OF_WINDOWS: &str = "processes";

/// Cleans up after killed runs under this folder: restores settings, deletes topics of `places`, ends processes. Every
/// measurement starts with this, since leftovers would affect it.
///
/// # Errors
/// When a setting can't be restored.
pub fn tidied(runs: &Path, places: &[&str], security: &Security, progress: &Progress) -> Result<()> {
    lever::put_back_left_overs(runs, places, security, progress)?;
    clean_up_left_overs(runs, progress);
    sweep_left_overs(runs, places, security, progress);
    Ok(())
}

/// From now on, notes of the run's process groups exist as long as the groups do.
///
/// # Errors
/// When the run's folder can't be written.
pub fn noted(folder: &RunFolder) -> Result<Noting> {
    let place = folder.join(OF_WINDOWS);
    note_groups_in(&place).with_context(|| format!("{} can't be created", place.display()))
}

/// Ends the processes that a killed attempt of this run left, and removes its data. The caller holds the run's lock.
///
/// # Errors
/// When its notes can't be read, or its data can't be removed.
pub fn clean_up(run: &Path, progress: &Progress) -> Result<()> {
    let mut words = ended(&run.join(OF_WINDOWS))?;
    if let count @ 1.. = removed(&run.join("scratch"))? {
        words.push(format!("removed {count} folders with data of its processes"));
    }
    words.iter().for_each(|line| progress.line(&format!("{} was killed: {line}", run.display())));
    Ok(())
}

/// The same for all inactive runs under this folder, and for the builds inside of them. The new run does not depend on it, so a
/// failure is only reported, and the next run tries again.
fn clean_up_left_overs(runs: &Path, progress: &Progress) {
    for run in fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if !has_notes(&run.join(OF_WINDOWS)) && builds_of(&run).is_empty() {
            continue;
        }
        let Ok(folder) = RunFolder::open(&run) else { continue };
        // An active run cleans up after itself.
        let Ok(_held) = folder.held() else { continue };
        if let Err(error) = clean_up(&run, progress).and_then(|()| clean_up_builds(&run, progress)) {
            progress.line(&format!("can't clean up {} now: {error:#}", run.display()));
        }
    }
}

/// Their data stays: a resumed run removes it.
fn clean_up_builds(run: &Path, progress: &Progress) -> Result<()> {
    for builds in builds_of(run) {
        // The builds may be resumed alone, without the run around them.
        let Some(_nobody) = locked(&builds) else { continue };
        let tell = |line: &String| progress.line(&format!("{} was killed: {line}", run.display()));
        ended(&builds.join(OF_BUILDS))?.iter().for_each(tell);
    }
    Ok(())
}

/// The builds of a run that have notes of processes.
fn builds_of(run: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(run.join("builds")).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).filter(|builds| has_notes(&builds.join(OF_BUILDS))).collect()
}

/// The lock of builds, unless another process holds it.
fn locked(builds: &Path) -> Option<File> {
    let lock = File::create(builds.join(LOCK_OF_BUILDS)).ok()?;
    lock.try_lock().ok()?;
    Some(lock)
}

fn has_notes(place: &Path) -> bool {
    fs::read_dir(place).is_ok_and(|mut notes| notes.next().is_some())
}

/// Ends the processes in these notes that still run. Returns them in words.
///
/// # Errors
/// When the notes can't be read.
pub fn ended(notes: &Path) -> Result<Vec<String>> {
    let left = end_what_is_left(notes)
        .with_context(|| format!("the processes of {} can't be looked up", notes.display()))?;
    let words = left.iter().map(|left| {
        let what = if left.stays {
            "could not end a process that it left running"
        } else {
            "ended a process that it left running"
        };
        format!("{what}, step {}: {}", left.step, left.processes.join(", "))
    });
    Ok(words.collect())
}

/// Empties a folder. Returns the number of its entries.
///
/// # Errors
/// When one can't be removed.
pub fn removed(folder: &Path) -> Result<usize> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(0) };
    let mut count = 0;
    for entry in entries.flatten() {
        let path = entry.path();
        let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        gone.with_context(|| format!("{} can't be removed", path.display()))?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use hone_tool::{Call, Runner as _, System};

    use super::*;

    /// The leftovers of a killed run: a note of a running group, and data.
    fn left(run: &Path, notes: &str) -> hone_tool::Session {
        let system = System::new(run.join("logs")).unwrap();
        let session = system.start(&Call::new("start-kept", "/bin/sleep", run).args(["1000"])).unwrap();
        let line = fs::read_to_string(format!("/proc/{}/stat", session.pid())).unwrap();
        let boot = hone_host::observe::boot_id(Path::new("/")).unwrap();
        fs::create_dir_all(run.join(notes)).unwrap();
        fs::write(run.join(notes).join("1-0"), format!("{boot}\nstart-kept\n{line}")).unwrap();
        session
    }

    #[test]
    fn what_a_killed_run_left_is_ended_unless_somebody_goes_on_with_it() {
        let runs = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(runs.path(), "orders").unwrap();
        fs::create_dir_all(folder.scratch().join("kept-0")).unwrap();
        let mut sessions = [OF_WINDOWS, "builds/server-001/running"].map(|notes| left(folder.path(), notes));
        let mut alive = || sessions.each_mut().map(|session| session.check_alive("waiting").is_ok());
        let progress = Progress::new(true);
        let held = folder.held().unwrap();
        clean_up_left_overs(runs.path(), &progress);
        assert_eq!(alive(), [true, true]);
        drop(held);
        // Like `hone optimize --resume` with the builds alone.
        let resumed = locked(&folder.join("builds/server-001")).unwrap();
        clean_up_left_overs(runs.path(), &progress);
        assert_eq!(alive(), [false, true], "the builds are somebody's");
        drop(resumed);
        clean_up_left_overs(runs.path(), &progress);
        assert_eq!(alive(), [false, false]);
        assert!(!folder.scratch().join("kept-0").exists());
        assert!(builds_of(folder.path()).is_empty() && !has_notes(&folder.join(OF_WINDOWS)));
    }
}
