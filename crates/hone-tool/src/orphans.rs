//! Process groups that remain when Hone itself is killed: the kernel ends Hone's children, but not their children. So Hone notes each
//! process group in a folder while it exists, and the next run can end the groups in these notes.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::child::{VANISH_LIMIT, members, send, text_of, vanished};

/// The folder of the notes; a process has one run at a time.
static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Numbers the notes.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// The permanent identity of a process group: ids are reused, and a boot ends them all.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    boot: String,
    step: String,
    /// The start of its first process, whose id it has.
    group: i32,
    first: Stat,
}

/// Process groups are noted as long as this value lives.
#[derive(Debug)]
pub struct Noting(());

impl Drop for Noting {
    fn drop(&mut self) {
        *folder() = None;
    }
}

/// A group of an earlier Hone process that still existed, and that this one ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    /// The step that it was started for.
    pub step: String,
    /// The names of its processes.
    pub processes: Vec<String>,
    /// Whether one of them still exists. Its note then stays.
    pub stays: bool,
}

/// From now on Hone notes every process group in this folder while it exists.
///
/// # Errors
/// Fails when the folder can't be made.
pub fn note_groups_in(place: &Path) -> io::Result<Noting> {
    fs::create_dir_all(place)?;
    *folder() = Some(place.to_owned());
    Ok(Noting(()))
}

/// Ends the process groups that an earlier Hone process has noted here and that still exist. The caller must know that this process is
/// gone.
///
/// # Errors
/// Fails when the folder can't be read. A missing one contains no notes.
pub fn end_what_is_left(place: &Path) -> io::Result<Vec<LeftBehind>> {
    go_through(place, Note::end)
}

fn go_through(place: &Path, end: impl Fn(&Note) -> Option<LeftBehind>) -> io::Result<Vec<LeftBehind>> {
    let entries = match fs::read_dir(place) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut ended = Vec::new();
    for entry in entries {
        let path = entry?.path();
        // A truncated note names no group.
        let note = fs::read(&path).ok().and_then(|bytes| Note::parse(&String::from_utf8_lossy(&bytes)));
        let left = note.as_ref().and_then(&end);
        // A process that survives now may be gone, or die, the next time.
        if !left.as_ref().is_some_and(|left| left.stays) {
            fs::remove_file(&path)?;
        }
        ended.extend(left);
    }
    Ok(ended)
}

/// A note that its process has yet to sign.
#[derive(Debug)]
pub(crate) struct Unsigned {
    pub(crate) path: PathBuf,
    file: File,
    /// The offset of the signature.
    end: libc::off_t,
}

/// A note for the next group, if enabled. The group's first process writes its end itself ([`Unsigned::sign`]), because the note must be
/// complete before that process can start others. Without a note the group may outlive Hone, which is no reason not to run the program.
pub(crate) fn note(step: &str) -> Option<Unsigned> {
    let place = folder().clone()?;
    let path = place.join(format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let mut file = File::create(&path).ok()?;
    let head = format!("{}\n{}\n", boot()?, step.replace('\n', " "));
    file.write_all(head.as_bytes()).ok()?;
    Some(Unsigned { path, file, end: libc::off_t::try_from(head.len()).ok()? })
}

/// A note of an existing group: of its first process, or, if that has gone, of the oldest one that remains.
pub(crate) fn note_of(group: i32, step: &str) -> Option<PathBuf> {
    let line = |id: i32| text_of(&format!("/proc/{id}/stat"));
    let begun = |id: &i32| Stat::read(*id).map_or(u64::MAX, |stat| stat.started);
    let of_first = line(group).or_else(|| {
        let oldest = members(group).into_iter().min_by_key(begun)?;
        let line = line(oldest)?;
        Some(format!("{group} {}", line.split_once(' ')?.1))
    })?;
    let mut unsigned = note(step)?;
    unsigned.file.write_all(of_first.as_bytes()).ok()?;
    Some(unsigned.path)
}

impl Unsigned {
    /// Between fork and exec: writes the kernel's line about this very process into its note. A note without a signature belongs to no
    /// process. A forked process whose program can't start yet has already signed, so its signature is removed.
    pub(crate) fn sign(&self) {
        let mut line = [0_u8; 1024];
        // SAFETY: open, read, close, ftruncate and pwrite are plain system calls; the path ends with a zero, and the buffer is valid for
        // its length.
        unsafe {
            libc::ftruncate(self.file.as_raw_fd(), self.end);
            let told = libc::open(c"/proc/self/stat".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
            if told < 0 {
                return;
            }
            let length = libc::read(told, line.as_mut_ptr().cast(), line.len());
            libc::close(told);
            if let Ok(length) = usize::try_from(length) {
                libc::pwrite(self.file.as_raw_fd(), line.as_ptr().cast(), length, self.end);
            }
        }
    }
}

fn folder() -> std::sync::MutexGuard<'static, Option<PathBuf>> {
    FOLDER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Note {
    /// The boot, the step, and the kernel's line.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (boot, step, line) = (lines.next()?, lines.next()?, lines.next()?);
        let group = line.split_once(' ')?.0.parse().ok().filter(|group| *group > 1)?;
        Some(Self { boot: boot.to_owned(), step: step.to_owned(), group, first: Stat::parse(line)? })
    }

    /// Kills the rest of the group; `None` if nothing is left.
    fn end(&self) -> Option<LeftBehind> {
        if boot().as_ref() != Some(&self.boot) {
            return None;
        }
        let members = members(self.group);
        let theirs: Vec<Stat> = members.iter().filter_map(|id| Stat::read(*id)).collect();
        if !self.is_of(Stat::read(self.group), &theirs) {
            return None;
        }
        send(-self.group, libc::SIGKILL);
        let processes = theirs.into_iter().map(|process| process.name).collect();
        Some(LeftBehind { step: self.step.clone(), processes, stays: !vanished(self.group, VANISH_LIMIT) })
    }

    /// Whether these processes belong to the noted group. The kernel does not reuse the id of a group that still has a process. So either
    /// the first process is the noted one, or it has gone and all others began after it, in the same session.
    fn is_of(&self, first: Option<Stat>, members: &[Stat]) -> bool {
        let first_fits = first.is_none_or(|first| first.started == self.first.started);
        let fits =
            |process: &Stat| process.started >= self.first.started && process.session == self.first.session;
        first_fits && !members.is_empty() && members.iter().all(fits)
    }
}

/// The contents of `/proc/PID/stat` about a process.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stat {
    name: String,
    session: i32,
    started: u64,
}

impl Stat {
    fn read(id: i32) -> Option<Self> {
        Self::parse(&text_of(&format!("/proc/{id}/stat"))?)
    }

    /// `pid (name) state ppid pgrp session ...`; the name may contain spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (before, behind) = text.rsplit_once(") ")?;
        let (_, name) = before.split_once('(')?;
        let mut fields = behind.split_ascii_whitespace();
        // Fields 6 and 22 of proc(5); the first one here is the third.
        let session = fields.nth(3)?.parse().ok()?;
        let started = fields.nth(15)?.parse().ok()?;
        Some(Self { name: name.to_owned(), session, started })
    }
}

/// Differs after each start of the kernel.
fn boot() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(session: i32, started: u64) -> Stat {
        Stat { name: "x".to_owned(), session, started }
    }

    fn note() -> Note {
        Note { boot: boot().unwrap(), step: "load".to_owned(), group: 7, first: stat(5, 100) }
    }

    #[test]
    fn a_process_is_read_by_its_places() {
        let text = "7 (a) b (c) S 1 7 5 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 4711 1000 2";
        assert_eq!(Stat::parse(text), Some(Stat { name: "a) b (c".to_owned(), session: 5, started: 4711 }));
        for text in ["", "7 (x", "7 (x) S 1 7", "7 (x) S 1 7 five 0 -1"] {
            assert_eq!(Stat::parse(text), None, "{text}");
        }
        assert!(Stat::read(i32::try_from(std::process::id()).unwrap()).unwrap().started > 0);
    }

    #[test]
    fn a_group_that_has_the_number_now_is_another_one() {
        assert!(note().is_of(Some(stat(5, 100)), &[stat(5, 100), stat(5, 120)]));
        assert!(note().is_of(None, &[stat(5, 120)]), "the first process has gone");
        assert!(!note().is_of(Some(stat(5, 300)), &[stat(5, 300)]), "the number was given again");
        assert!(!note().is_of(None, &[stat(5, 99)]), "older than the group");
        assert!(!note().is_of(None, &[stat(6, 120)]), "of another session");
        assert!(!note().is_of(None, &[]));
        assert_eq!(Note { boot: "of another start".to_owned(), ..note() }.end(), None);
    }

    #[test]
    fn what_can_not_be_read_is_no_note() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end_what_is_left(&dir.path().join("none")).unwrap(), []);
        let line = "7 (x) S 1 7 5 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000 2";
        let text = format!("{}\nload\n{line}\n", note().boot);
        assert_eq!(Note::parse(&text), Some(note()));
        let ours = format!("{}\nload\n{}", note().boot, line.replacen('7', "1", 1));
        for (name, text) in [("a", &text[..20]), ("b", ""), ("c", &ours), ("d", "x\ny\n-3 (x) S")] {
            assert_eq!(Note::parse(text), None, "{text}");
            fs::write(dir.path().join(name), text).unwrap();
        }
        assert_eq!(end_what_is_left(dir.path()).unwrap(), []);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "they are gone");
    }

    #[test]
    fn what_would_not_die_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let line = "7 (x) S 1 7 5 0 -1 4194560 1 0 0 0 1 2 0 0 20 0 1 0 100 1000 2";
        fs::write(dir.path().join("a"), format!("{}\nload\n{line}\n", note().boot)).unwrap();
        let ended = |stays| {
            let left =
                |note: &Note| Some(LeftBehind { step: note.step.clone(), processes: Vec::new(), stays });
            go_through(dir.path(), left).unwrap().len()
        };
        assert_eq!([ended(true), ended(true), ended(false), ended(false)], [1, 1, 1, 0]);
    }
}
