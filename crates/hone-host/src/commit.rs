//! The way of a change: begun, guarded, applied, confirmed or taken back, recovered after a crash.
//!
//! The guard is a process of its own that is ready before the first write. It needs nothing but the journal: whatever becomes
//! of the process that made the change, it takes the change back at its time unless the journal says that it was confirmed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::change::{ChangeError, Outcome, Step, apply, revert, snapshot, touched};
use crate::disks::Disk;
use crate::journal::{self, Begun, Entry, FORMAT, Journal, JournalError, Lock, Log as _, State, Willing};
use crate::kernel::{Files, Kernel as _};
use crate::persist;

/// How long a verb waits for another one to be done with this host.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the guard waits. A change that hangs for longer is not waited for.
const GUARDS_PATIENCE: Duration = Duration::from_secs(30);
/// How long a guard may need to be ready.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Why a change did not go its way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A change is there already, and not confirmed or taken back.
    #[error(
        "the change {id} of this host is neither confirmed nor taken back; do one first (`hone host confirm`, `hone host revert`)"
    )]
    Open {
        /// Its name.
        id: String,
    },
    /// There is no change to go on with.
    #[error("there is no change of this host to {what}; `hone host apply` makes one")]
    None {
        /// The verb.
        what: &'static str,
    },
    /// The kernel can't say which boot this is.
    #[error(
        "/proc/sys/kernel/random/boot_id can't be read, so a journal could not be told from one of another boot"
    )]
    NoBoot,
    /// Somebody tries settings of this host already.
    #[error("another run tries settings of this host ({path} is locked); wait for it, or end it", path = path.display())]
    Busy {
        /// The lock.
        path: PathBuf,
    },
    /// The guard did not come up: nothing was written.
    #[error("the guard that would take the change back is not ready: {why}; nothing was changed")]
    Unguarded {
        /// Why.
        why: String,
    },
    /// A step failed, and what was done before it was taken back.
    #[error("{source}; what was changed before was taken back")]
    TakenBack {
        /// What failed.
        source: ChangeError,
        /// What came of each attribute.
        outcomes: Vec<Outcome>,
    },
    /// The change was of another boot.
    #[error(
        "the machine has booted since the change {id}, and its values went with that boot; make it again"
    )]
    OtherBoot {
        /// Its name.
        id: String,
    },
    /// It has no time left, or was not finished.
    #[error("the change {id} can't be confirmed: {why}")]
    NotConfirmable {
        /// Its name.
        id: String,
        /// Why.
        why: &'static str,
    },
    /// Its time can't be made longer.
    #[error("the time of the change {id} can't be made longer: {why}")]
    NotRenewable {
        /// Its name.
        id: String,
        /// Why.
        why: &'static str,
    },
    /// Files of the next boot.
    #[error("settings for the next boot can't be written or deleted: {0}; run as root")]
    Files(#[from] io::Error),
}

/// What shall be changed.
#[derive(Debug, Clone, Default)]
pub struct Order {
    /// The profile's name.
    pub profile: String,
    /// The writes.
    pub steps: Vec<Step>,
    /// The disks whose queues are meant.
    pub disks: Vec<Disk>,
    /// Taken back after this time unless confirmed.
    pub confirm_within: Option<Duration>,
}

/// A change that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Its name.
    pub id: String,
    /// Where its journal is.
    pub journal: PathBuf,
    /// The guard's process.
    pub guard: Option<u32>,
    /// Seconds until it is taken back.
    pub confirm_within_s: Option<u64>,
    /// Time that the writes took, in milliseconds: a window in which nothing should be measured.
    pub writing_ms: u64,
}

/// What came of a change that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// Its name.
    pub id: String,
    /// What came of each attribute; none if the machine has booted since.
    pub outcomes: Vec<Outcome>,
    /// Files of the next boot that somebody has edited, and that are still there.
    pub files_left: Vec<String>,
    /// Whether the machine has booted since.
    pub other_boot: bool,
    /// Why the journal does not say so, if it does not: the next recovery looks at this change again.
    pub unkept: Option<String>,
}

impl TakenBack {
    /// Whether everything is as it was.
    pub fn is_whole(&self) -> bool {
        self.files_left.is_empty() && self.unkept.is_none() && self.outcomes.iter().all(Outcome::is_back)
    }
}

/// Seconds since boot, sleep of the machine included.
pub fn since_boot_s() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0)
}

/// The second since boot at which so many will have passed, rounded up: nobody has less time than was said.
fn after_s(seconds: u64) -> u64 {
    since_boot_s().saturating_add(1).saturating_add(seconds)
}

fn boot_id(files: &Files) -> Result<String, CommitError> {
    let text = files.read("proc/sys/kernel/random/boot_id").map_err(|_| CommitError::NoBoot)?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty()).ok_or(CommitError::NoBoot)
}

/// The journals of this host with what they say, the oldest first.
///
/// # Errors
/// When one can't be read.
pub fn known(root: &Path) -> Result<Vec<(PathBuf, State)>, JournalError> {
    journal::all(root).into_iter().map(|path| journal::read(&path).map(|state| (path, state))).collect()
}

fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Makes a change. `start_guard` starts the process that calls [`guard`] with the journal's path.
///
/// # Errors
/// Before anything is written when a journal or a guard can't be had; after a failed step everything was taken back.
pub fn make(
    root: &Path,
    order: &Order,
    start_guard: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<Applied, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let files = Files::new(root);
    let boot = boot_id(&files)?;
    let known = known(root)?;
    let open =
        known.iter().find(|(_, state)| !(state.closed || state.confirmed && state.begun.boot_id != boot));
    if let Some((path, _)) = open {
        return Err(CommitError::Open { id: name_of(path) });
    }
    let id = format!(
        "{:05}",
        known.iter().filter_map(|(path, _)| name_of(path).parse::<u32>().ok()).max().unwrap_or(0) + 1
    );
    let begun = Begun {
        journal: FORMAT,
        id: id.clone(),
        boot_id: boot,
        kernel: files.read("proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        profile: order.profile.clone(),
        confirm_within_s: order.confirm_within.map(|within| within.as_secs()),
        wanted: order.steps.iter().map(|step| (step.path.clone(), step.value.clone())).collect(),
        disks: order.disks.clone(),
        before: snapshot(&files, &touched(&order.steps)),
    };
    let mut journal = Journal::begin(root, begun)?;
    let deadline = match order.confirm_within {
        None => None,
        Some(_) => match armed(&mut journal, &id, start_guard) {
            Ok(armed) => Some(armed),
            Err(why) => {
                journal.append(&Entry::Reverted { left: Vec::new() })?;
                return Err(CommitError::Unguarded { why });
            }
        },
    };
    let late = || deadline.is_some_and(|(_, deadline_s)| since_boot_s() >= deadline_s);
    let began = Instant::now();
    match apply(&files, &mut journal, &order.steps, &late) {
        Ok(()) => {}
        Err(source) => {
            let state = journal::read(journal.path())?;
            let outcomes = revert(&files, &mut Willing::over(Ok(&mut journal)), &state, false)?;
            return Err(CommitError::TakenBack { source, outcomes });
        }
    }
    Ok(Applied {
        id,
        journal: journal.path().to_owned(),
        guard: deadline.map(|(pid, _)| pid),
        confirm_within_s: order.confirm_within.map(|within| within.as_secs()),
        writing_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// Starts the guard and waits until the journal says that it lives.
fn armed(
    journal: &mut Journal,
    id: &str,
    start_guard: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<(u32, u64), String> {
    start_guard(id)?;
    let until = Instant::now() + READY_WITHIN;
    while Instant::now() < until {
        if let Some(armed) = journal::read(journal.path()).ok().and_then(|state| state.armed) {
            return Ok(armed);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("it said nothing for {} s", READY_WITHIN.as_secs()))
}

/// The guard: says in the journal that it lives, sleeps until its time, and takes the change back unless it was confirmed or
/// taken back meanwhile. Answers what came of it; `None` when there was nothing to do.
///
/// # Errors
/// When the journal can't be read or kept.
pub fn guard(root: &Path, id: &str) -> Result<Option<TakenBack>, CommitError> {
    let path = journal_of(root, id);
    let state = journal::read(&path)?;
    let Some(within_s) = state.begun.confirm_within_s else { return Ok(None) };
    let deadline_s = after_s(within_s);
    let entry = Entry::Armed { pid: std::process::id(), deadline_s };
    Journal::resume(&path)?.append(&entry)?;
    let mut deadline_s = deadline_s;
    loop {
        if !slept_until(deadline_s, &path)? {
            return Ok(None);
        }
        // Whoever holds the lock longer than that hangs, and what hangs does not confirm.
        let _lock = Lock::take(root, GUARDS_PATIENCE);
        let state = journal::read(&path)?;
        if state.closed || state.confirmed {
            return Ok(None);
        }
        match state.armed {
            // Renewed in the last moment.
            Some((_, later_s)) if later_s > since_boot_s() => deadline_s = later_s,
            _ => return take_back(root, &path, &state, false).map(Some),
        }
    }
}

/// Gives the last change more time: from now on `within`, if its guard would come before. Whoever renews from afar is known to be
/// alive, and once it does not, the guard comes.
///
/// Answers its name and the seconds that are left.
///
/// # Errors
/// When there is none that waits for its confirmation, or its guard is gone.
pub fn renew(root: &Path, within: Duration) -> Result<(String, u64), CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let last = known(root)?.into_iter().rev().find(|(_, state)| !state.closed);
    let (path, state) = last.ok_or(CommitError::None { what: "give more time" })?;
    let id = name_of(&path);
    let refused = |why| CommitError::NotRenewable { id: id.clone(), why };
    if boot_id(&Files::new(root))? != state.begun.boot_id {
        return Err(CommitError::OtherBoot { id });
    }
    if state.confirmed || state.reverting {
        return Err(refused("it is confirmed or taken back already"));
    }
    let Some((pid, before_s)) = state.armed else {
        return Err(refused("it was made without --confirm-within, and waits for ever"));
    };
    let now_s = since_boot_s();
    if now_s >= before_s {
        return Err(refused("its time is over, and its guard takes it back"));
    }
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(refused("its guard is gone; take it back by `hone host revert`"));
    }
    let deadline_s = before_s.max(after_s(within.as_secs()));
    Journal::resume(&path)?.append(&Entry::Armed { pid, deadline_s })?;
    Ok((id, deadline_s.saturating_sub(after_s(0))))
}

/// How often a sleeping guard looks whether it is still needed. A clock that stops while the machine sleeps is no measure of
/// the time that has passed, so it looks at the one that does not.
const GUARD_LOOKS_EVERY: Duration = Duration::from_millis(500);

/// Sleeps; answers whether the time has come, and not a confirmation or another way back.
fn slept_until(mut deadline_s: u64, path: &Path) -> Result<bool, JournalError> {
    let mut size = 0;
    loop {
        let now_size = match std::fs::metadata(path) {
            Ok(found) => found.len(),
            // Only what is closed is deleted, and without it nothing can be taken back.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(_) => 0,
        };
        if now_size != size {
            size = now_size;
            // A line that is being written is read with the next look.
            if let Ok(state) = journal::read(path) {
                if state.closed || state.confirmed {
                    return Ok(false);
                }
                deadline_s = state.armed.map_or(deadline_s, |(_, armed_s)| armed_s);
            }
        }
        let left_s = deadline_s.saturating_sub(since_boot_s());
        if left_s == 0 {
            return Ok(true);
        }
        std::thread::sleep(GUARD_LOOKS_EVERY.min(Duration::from_secs(left_s)));
    }
}

fn take_back(root: &Path, path: &Path, state: &State, force: bool) -> Result<TakenBack, CommitError> {
    let files = Files::new(root);
    let id = name_of(path);
    let files_left = persist::delete(root, &state.begun.id, &state.files)?;
    let mut journal = Willing::over(Journal::resume(path));
    let other_boot = boot_id(&files)? != state.begun.boot_id;
    let outcomes = if other_boot {
        journal.append(&Entry::Void)?;
        Vec::new()
    } else {
        revert(&files, &mut journal, state, force)?
    };
    Ok(TakenBack { id, outcomes, files_left, other_boot, unkept: journal.unkept })
}

/// Takes the last change back, confirmed or not. With `force` also what somebody else has set since, and then also of a change
/// that is closed.
///
/// # Errors
/// When there is none, or its journal can't be kept.
pub fn take_last_back(root: &Path, force: bool) -> Result<TakenBack, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let last = known(root)?.into_iter().rev().find(|(_, state)| force || !state.closed);
    let (path, state) = last.ok_or(CommitError::None { what: "take back" })?;
    take_back(root, &path, &state, force)
}

/// The turn of a run that tries many changes, one after the other: as long as this lives no other run has it. It ends with its process,
/// however that ends.
#[derive(Debug)]
pub struct Turn {
    _lock: std::fs::File,
}

impl Turn {
    /// Takes it.
    ///
    /// # Errors
    /// When another run has it, or the folder of journals can't be written, in which case nothing can be changed either.
    pub fn take(root: &Path) -> Result<Self, CommitError> {
        // Makes the folder, and says who may.
        drop(Lock::take(root, PATIENCE)?);
        let path = root.join(journal::FOLDER).join("trial.lock");
        let lock = std::fs::File::create(&path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { _lock: lock }),
            Err(_) => Err(CommitError::Busy { path }),
        }
    }
}

/// Takes this change back, unless somebody has: `None` then.
///
/// # Errors
/// When its journal can't be read or kept.
pub fn take_one_back(root: &Path, id: &str) -> Result<Option<TakenBack>, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let path = journal_of(root, id);
    let state = journal::read(&path)?;
    if state.closed { Ok(None) } else { take_back(root, &path, &state, false).map(Some) }
}

/// Deletes the journals of these changes: of a run that made many, and took all back. One that is not closed stays, and so does one
/// whose guard has not gone yet, since its name may be given again.
///
/// # Errors
/// When a file can't be deleted.
pub fn forget_these<'a>(root: &Path, ids: impl IntoIterator<Item = &'a str>) -> Result<(), CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    for id in ids {
        let path = journal_of(root, id);
        let Ok(state) = journal::read(&path) else { continue };
        if state.closed && !state.armed.is_some_and(|(pid, _)| is_guard(pid, id)) {
            std::fs::remove_file(&path)?;
            let _ = std::fs::remove_file(path.with_extension("log"));
        }
    }
    Ok(())
}

fn journal_of(root: &Path, id: &str) -> PathBuf {
    root.join(journal::FOLDER).join(format!("{id}.journal"))
}

/// Whether this process is the guard of a change. Guards run on this machine, whatever the root.
fn is_guard(pid: u32, id: &str) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|word| word == id.as_bytes())
}

/// What a confirmation did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// The change.
    pub id: String,
    /// Files of the next boot that were written.
    pub files: Vec<String>,
    /// What does not stay, and why.
    pub left_out: Vec<String>,
}

/// Makes the last change stay: the guard is told to go, and with `persistent` the next boot has the values, too.
///
/// # Errors
/// When there is none that can be confirmed, or files can't be written; then nothing is confirmed.
pub fn confirm(root: &Path, persistent: bool) -> Result<Confirmed, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let last = known(root)?.into_iter().rev().find(|(_, state)| !state.closed);
    let (path, state) = last.ok_or(CommitError::None { what: "confirm" })?;
    let id = name_of(&path);
    if boot_id(&Files::new(root))? != state.begun.boot_id {
        return Err(CommitError::OtherBoot { id });
    }
    let why = if !state.applied {
        Some("it was not finished; `hone host recover` takes it back")
    } else if state.reverting {
        Some("it is being taken back; `hone host recover` goes on with that")
    } else if !state.confirmed && state.armed.is_some_and(|(_, deadline_s)| since_boot_s() >= deadline_s) {
        Some("its time is over; make it again, with a longer --confirm-within")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(CommitError::NotConfirmable { id, why });
    }
    let mut journal = Journal::resume(&path)?;
    let mut confirmed = Confirmed { id, files: Vec::new(), left_out: Vec::new() };
    if persistent {
        let boot = persist::files(&state.begun.id, &state.begun.wanted, &state.begun.disks);
        confirmed.files = boot.files.iter().map(|file| file.path.clone()).collect();
        confirmed.left_out = boot.left_out;
        journal.append(&Entry::Persisting { files: confirmed.files.clone() })?;
        persist::write(root, &state.begun.id, &boot.files)?;
    }
    journal.append(&Entry::Confirmed)?;
    Ok(confirmed)
}

/// What a recovery found of a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Recovered {
    /// It was broken off, its guard is gone, or the machine has booted since: taken back.
    TakenBack(TakenBack),
    /// It is in force and whole, and waits for a confirmation.
    Waiting {
        /// Its name.
        id: String,
    },
    /// It is in force and confirmed.
    InForce {
        /// Its name.
        id: String,
    },
}

/// Looks at every change that is not closed, and takes back what a crash has left.
///
/// # Errors
/// When a journal can't be read or kept.
pub fn recover(root: &Path, force: bool) -> Result<Vec<Recovered>, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let boot = boot_id(&Files::new(root))?;
    let mut found = Vec::new();
    for (path, state) in known(root)?.into_iter().filter(|(_, state)| !state.closed) {
        let id = name_of(&path);
        let overdue = state.armed.is_some_and(|(_, deadline_s)| since_boot_s() >= deadline_s);
        let is_other_boot = state.begun.boot_id != boot;
        found.push(if state.confirmed && !state.reverting {
            Recovered::InForce { id }
        } else if state.applied && !state.reverting && !overdue && !is_other_boot {
            Recovered::Waiting { id }
        } else {
            Recovered::TakenBack(take_back(root, &path, &state, force)?)
        });
    }
    Ok(found)
}

/// Deletes the journals. What is not closed has to be taken back first.
///
/// # Errors
/// When a change is not closed, or a file can't be deleted.
pub fn forget(root: &Path) -> Result<(), CommitError> {
    let lock = Lock::take(root, PATIENCE)?;
    if let Some((path, _)) = known(root)?.iter().find(|(_, state)| !state.closed) {
        return Err(CommitError::Open { id: name_of(path) });
    }
    let folder = root.join(journal::FOLDER);
    std::fs::remove_dir_all(&folder)?;
    // The folder above may hold other things of Hone's.
    if let Some(above) = folder.parent() {
        let _ = std::fs::remove_dir(above);
    }
    drop(lock);
    Ok(())
}
