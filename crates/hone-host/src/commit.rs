//! The way of a change: begun, guarded, applied, confirmed or taken back, recovered after a crash.
//!
//! The guard is a process of its own that is ready before the first write. It needs nothing but the journal: whatever becomes
//! of the process that made the change, it takes the change back at its time unless the journal says that it was confirmed.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::change::{ChangeError, Outcome, Step, apply, not_back, restore, revert, snapshot, touched};
use crate::disks::Disk;
use crate::journal::{self, Begun, Entry, FORMAT, Journal, JournalError, Lock, Log as _, State, Willing};
use crate::kernel::{Files, Kernel as _};
use crate::later_boot::{self, Here};
use crate::persist::{self, BootFiles, Layer, LeftFile};

/// How long a verb waits for another one to be done with this host.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the guard waits. A change that hangs for longer is not waited for.
const GUARDS_PATIENCE: Duration = Duration::from_secs(30);
/// How long a run waits for its turn: those that have it keep it for minutes.
const TURNS_PATIENCE: Duration = Duration::from_millis(200);
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
    /// There is no change of this name.
    #[error("there is no change {id} of this host; `hone host status` tells which there are")]
    Unknown {
        /// The name.
        id: String,
    },
    /// It was taken back before.
    #[error("the change {id} of this host is taken back already")]
    Closed {
        /// Its name.
        id: String,
    },
    /// Another change was made on top of it, and found its values.
    #[error(
        "the change {newer} was made on top of the change {id}; take that one back first (`hone host revert --change {newer}`)"
    )]
    Below {
        /// Its name.
        id: String,
        /// The one on top.
        newer: String,
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
        source: Box<ChangeError>,
        /// What came of each attribute.
        outcomes: Vec<Outcome>,
        /// Why the journal does not say so, if it does not: the next recovery looks at this change again.
        unkept: Option<String>,
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
pub struct ChangeRequest {
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
    /// What came of each attribute; none where all went with another boot.
    pub outcomes: Vec<Outcome>,
    /// Files of the next boot that are still there, and why.
    pub files_left: Vec<LeftFile>,
    /// Whether the machine has booted since: then the outcomes are of what its files had set again.
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

pub(crate) fn boot_id(files: &Files) -> Result<String, CommitError> {
    let text = files.read("proc/sys/kernel/random/boot_id").map_err(|_| CommitError::NoBoot)?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty()).ok_or(CommitError::NoBoot)
}

/// The journals of this host.
#[derive(Debug, Default)]
pub struct Known {
    /// Those that can be read, with what they say, the oldest first.
    pub states: Vec<(PathBuf, State)>,
    /// Those that can't: a change may be in force of which nothing is known.
    pub unreadable: Vec<Unreadable>,
}

/// A journal that can't be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its change; empty where it is the folder of all journals.
    pub id: String,
    /// Why.
    pub why: JournalError,
}

/// The journals of this host with what they say. One that can't be read hides no other one.
pub fn known(root: &Path) -> Known {
    let mut known = Known::default();
    let paths = journal::all(root).unwrap_or_else(|why| {
        known.unreadable.push(Unreadable { id: String::new(), why });
        Vec::new()
    });
    for path in paths {
        match journal::read(&path) {
            Ok(state) => known.states.push((path, state)),
            Err(why) => known.unreadable.push(Unreadable { id: name_of(&path), why }),
        }
    }
    known
}

impl Known {
    /// The number of the last change, read or not: no name is given twice.
    fn newest_id(&self) -> u32 {
        let readable = self.states.iter().map(|(path, _)| name_of(path));
        let ids = readable.chain(self.unreadable.iter().map(|one| one.id.clone()));
        ids.filter_map(|id| id.parse().ok()).max().unwrap_or(0)
    }

    /// Nothing is done beside a change of which nothing is known.
    fn whole(self) -> Result<Vec<(PathBuf, State)>, CommitError> {
        match self.unreadable.into_iter().next() {
            Some(one) => Err(one.why.into()),
            None => Ok(self.states),
        }
    }

    /// The change of this name, or the last one that is not closed.
    fn open(mut self, id: Option<&str>, what: &'static str) -> Result<(PathBuf, State), CommitError> {
        let Some(id) = id else {
            let states = self.whole()?;
            let last = states.into_iter().rev().find(|(_, state)| !state.closed);
            return last.ok_or(CommitError::None { what });
        };
        let (path, state) = self.take(id)?;
        if state.closed { Err(CommitError::Closed { id: id.to_owned() }) } else { Ok((path, state)) }
    }

    fn take(&mut self, id: &str) -> Result<(PathBuf, State), CommitError> {
        if let Some(at) = self.unreadable.iter().position(|one| one.id == id) {
            return Err(self.unreadable.swap_remove(at).why.into());
        }
        let at = self.states.iter().position(|(path, _)| name_of(path) == id);
        at.map(|at| self.states.swap_remove(at)).ok_or_else(|| CommitError::Unknown { id: id.to_owned() })
    }
}

/// Whether it was confirmed, and nobody has begun to take it back.
fn stays(state: &State) -> bool {
    state.confirmed && !state.reverting
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Makes a change. `start_guard` starts the process that calls [`guard`] with the journal's path.
///
/// # Errors
/// Before anything is written when a journal or a guard can't be had; after a failed step everything was taken back.
pub fn make(
    root: &Path,
    order: &ChangeRequest,
    start_guard: &mut dyn FnMut(&str) -> Result<(), String>,
) -> Result<Applied, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let files = Files::new(root);
    let boot = boot_id(&files)?;
    let known = known(root);
    let id = format!("{:05}", known.newest_id() + 1);
    // On top of what stays another change can be made; it is taken back first then.
    let open = known.whole()?.into_iter().find(|(_, state)| !state.closed && !stays(state));
    if let Some((path, _)) = open {
        return Err(CommitError::Open { id: name_of(&path) });
    }
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
    let mut journal = Journal::begin(root, begun.clone())?;
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
    if let Err(source) = apply(&files, &mut journal, &begun.before, &order.steps, &late) {
        let state = journal::read(journal.path()).unwrap_or_else(|_| unread(&files, begun));
        let mut willing = Willing::over(Ok(&mut journal));
        let outcomes = revert(&files, &mut willing, &state, false)?;
        return Err(CommitError::TakenBack { source: Box::new(source), outcomes, unkept: willing.unkept });
    }
    Ok(Applied {
        id,
        journal: journal.path().to_owned(),
        guard: deadline.map(|(pid, _)| pid),
        confirm_within_s: order.confirm_within.map(|within| within.as_secs()),
        writing_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    })
}

/// A change whose journal can't be read any more: all that says something else than before is taken for its own.
fn unread(files: &Files, begun: Begun) -> State {
    State { left: snapshot(files, begun.before.keys()), begun, ..State::default() }
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
    if !path.exists() {
        // Only what is closed is deleted.
        return Ok(None);
    }
    let state = journal::read(&path)?;
    let Some(within_s) = state.begun.confirm_within_s.filter(|_| !state.closed && !state.confirmed) else {
        return Ok(None);
    };
    // One that follows another that was killed keeps its time.
    let first_s = || after_s(within_s);
    let deadline_s = state.armed.map_or_else(first_s, |(_, deadline_s)| deadline_s);
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

/// Gives a change, or the last one, more time: from now on `within`, if its guard would come before. Whoever renews from afar is known to be
/// alive, and once it does not, the guard comes.
///
/// Answers its name and the seconds that are left.
///
/// # Errors
/// When there is none that waits for its confirmation, or its guard is gone.
pub fn renew(root: &Path, id: Option<&str>, within: Duration) -> Result<(String, u64), CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let (path, state) = known(root).open(id, "give more time")?;
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
    if !is_guard(pid, &id) {
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

/// Values first: whatever keeps a file from being deleted keeps no value from being had back.
fn take_back(root: &Path, path: &Path, state: &State, force: bool) -> Result<TakenBack, CommitError> {
    let files = Files::new(root);
    let id = name_of(path);
    let boot = boot_id(&files)?;
    let known = known(root).states;
    let here = later_boot::here(&files, state, &boot);
    // Of what is gone with a boot nothing is put back, so nothing that lies on top of it can be in the way.
    if here.is_some()
        && let Some(newer) = on_top(&files, &known, &id, &boot)
    {
        return Err(CommitError::Below { id, newer });
    }
    let mut journal = Willing::over(Journal::resume(path));
    let other_boot = boot != state.begun.boot_id;
    let outcomes = match here {
        None => Vec::new(),
        Some(Here { state, .. }) => {
            if other_boot {
                journal.append(&later_boot::again(&state))?;
            }
            restore(&files, &mut journal, &state, force)?
        }
    };
    let files_left = persist::take_away(root, &id, &state.files, &below(&known, &id));
    // A file of ours that is still there would set everything again at the next boot: nothing is closed with that.
    if !files_left.iter().any(|file| file.is_tried_again) {
        let mut left = not_back(&outcomes);
        left.extend(files_left.iter().map(|file| file.path.clone()));
        let is_void = other_boot && outcomes.is_empty() && left.is_empty();
        journal.append(&if is_void { Entry::Void } else { Entry::Reverted { left } })?;
    }
    Ok(TakenBack { id, outcomes, files_left, other_boot, unkept: journal.unkept })
}

/// A change that was made after this one, and of which there is something in this boot.
fn on_top(files: &Files, known: &[(PathBuf, State)], id: &str, boot: &str) -> Option<String> {
    let newer = known.iter().map(|(path, state)| (name_of(path), state));
    let mut newer = newer.filter(|(name, state)| name.as_str() > id && !state.closed);
    newer.find(|(_, state)| later_boot::here(files, state, boot).is_some()).map(|(name, _)| name)
}

/// Changes before this one that the next boot has, the oldest first.
fn persistent<'a>(known: &'a [(PathBuf, State)], id: &str) -> Vec<(String, Layer<'a>)> {
    let older = known.iter().map(|(path, state)| (name_of(path), state));
    let older = older.filter(|(name, state)| name.as_str() < id && !state.closed && stays(state));
    let older = older.filter(|(_, state)| !state.files.is_empty());
    older.map(|(name, state)| (name, layer(state))).collect()
}

fn layer(state: &State) -> Layer<'_> {
    // As it was made: names of devices, and what these were then, belong together.
    let begun = state.first.as_deref().unwrap_or(&state.begun);
    let is_changed = |path: &&String| state.left.get(*path) != begun.before.get(*path);
    let changed = begun.before.keys().filter(is_changed).map(String::as_str).collect();
    Layer { wanted: &begun.wanted, changed, disks: &begun.disks }
}

/// The files as they were before this change.
fn below(known: &[(PathBuf, State)], id: &str) -> BootFiles {
    let (names, mut layers): (Vec<String>, Vec<Layer<'_>>) = persistent(known, id).into_iter().unzip();
    match (names.last(), layers.pop()) {
        (Some(name), Some(newest)) => persist::stacked(name, &layers, newest),
        _ => BootFiles::default(),
    }
}

/// Takes a change back, or the last one, confirmed or not. With `force` also what somebody else has set since, and then also a
/// change that is closed and left something behind, if there is no open one.
///
/// # Errors
/// When there is none, another one was made on top of it, or its journal can't be kept.
pub fn take_last_back(root: &Path, id: Option<&str>, force: bool) -> Result<TakenBack, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let found = match known(root).open(id, "take back") {
        Err(CommitError::None { .. } | CommitError::Closed { .. }) if force => left_over(root, id)?,
        found => found?,
    };
    take_back(root, &found.0, &found.1, force)
}

/// The last change of this boot that was closed and left something behind.
fn left_over(root: &Path, id: Option<&str>) -> Result<(PathBuf, State), CommitError> {
    let boot = boot_id(&Files::new(root))?;
    let is_left = |state: &State| !state.left_behind.is_empty() && state.begun.boot_id == boot;
    let is_meant = |path: &Path| id.is_none_or(|id| name_of(path) == id);
    let states = known(root).states.into_iter().rev();
    let mut left = states.filter(|(path, state)| is_left(state) && is_meant(path));
    left.next().ok_or(match id {
        Some(id) => CommitError::Closed { id: id.to_owned() },
        None => CommitError::None { what: "take back" },
    })
}

/// The turn of a run that tries many changes, one after the other: as long as this lives no other run has it. It ends with its process,
/// however that ends.
#[derive(Debug)]
pub struct Turn {
    _lock: Lock,
}

impl Turn {
    /// Takes it.
    ///
    /// # Errors
    /// When another run has it, or the folder of journals can't be written, in which case nothing can be changed either.
    pub fn take(root: &Path) -> Result<Self, CommitError> {
        match Lock::named(root, "trial.lock", TURNS_PATIENCE) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(JournalError::Locked { path }) => Err(CommitError::Busy { path }),
            Err(error) => Err(error.into()),
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
pub(crate) fn is_guard(pid: u32, id: &str) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    words.windows(2).any(|pair| pair == [b"guard".as_slice(), id.as_bytes()])
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

/// Makes a change stay, or the last one: the guard is told to go, and with `persistent` the next boot has the values, too.
///
/// # Errors
/// When there is none that can be confirmed, or files can't be written; then nothing is confirmed.
pub fn confirm(root: &Path, id: Option<&str>, for_next_boot: bool) -> Result<Confirmed, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let (path, state) = known(root).open(id, "confirm")?;
    let id = name_of(&path);
    let files = Files::new(root);
    let boot = boot_id(&files)?;
    if later_boot::here(&files, &state, &boot).is_none() {
        return Err(CommitError::OtherBoot { id });
    }
    let why = if !state.applied {
        Some("it was not finished; `hone host recover` takes it back")
    } else if state.reverting {
        Some("it is being taken back; `hone host recover` goes on with that")
    } else if !state.confirmed && state.armed.is_some_and(|(_, deadline_s)| since_boot_s() >= deadline_s) {
        Some("its time is over; make it again, with a longer --confirm-within")
    } else if state.first.is_some() || boot != state.begun.boot_id {
        Some("it is of an earlier boot, and this one has its values by its files")
    } else {
        None
    };
    if let Some(why) = why {
        return Err(CommitError::NotConfirmable { id, why });
    }
    let mut confirmed = Confirmed { id, files: Vec::new(), left_out: Vec::new() };
    if for_next_boot {
        let known = known(root).whole()?;
        if let Some(newer) = on_top(&files, &known, &confirmed.id, &boot) {
            return Err(CommitError::Below { id: confirmed.id, newer });
        }
        let (names, layers): (Vec<String>, Vec<Layer<'_>>) =
            persistent(&known, &confirmed.id).into_iter().unzip();
        let boot = persist::stacked(&confirmed.id, &layers, layer(&state));
        confirmed.files = boot.files.iter().map(|file| file.path.clone()).collect();
        confirmed.left_out = boot.left_out;
        let ours: Vec<&str> = names.iter().chain([&confirmed.id]).map(String::as_str).collect();
        // Before the journal says that they are ours: a way back would find somebody else's there.
        persist::may_write(root, &ours, &boot.files)?;
        Journal::resume(&path)?.append(&Entry::Persisting { files: confirmed.files.clone() })?;
        if let Err(error) = persist::write(root, &ours, &boot.files) {
            // Nothing is confirmed, so what was written of it may set nothing at the next boot.
            persist::take_away(root, &confirmed.id, &confirmed.files, &below(&known, &confirmed.id));
            return Err(error.into());
        }
    }
    Journal::resume(&path)?.append(&Entry::Confirmed)?;
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
    /// Its journal can't be read, so nobody knows whether it is in force.
    Unreadable {
        /// Its name.
        id: String,
        /// Why.
        why: String,
    },
}

/// Looks at every change that is not closed, and takes back what a crash has left.
///
/// # Errors
/// When a journal can't be read or kept.
pub fn recover(root: &Path, force: bool) -> Result<Vec<Recovered>, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let files = Files::new(root);
    let boot = boot_id(&files)?;
    let known = known(root);
    let mut found = Vec::new();
    // The last one first: it has found the values of those before it.
    for (path, state) in known.states.into_iter().rev().filter(|(_, state)| !state.closed) {
        let id = name_of(&path);
        let is_there = later_boot::here(&files, &state, &boot).is_some();
        found.push(if stays(&state) && is_there {
            Recovered::InForce { id }
        } else if is_waiting(&state, &id, &boot) {
            Recovered::Waiting { id }
        } else {
            Recovered::TakenBack(take_back(root, &path, &state, force)?)
        });
    }
    found.reverse();
    let unreadable = known.unreadable.into_iter();
    found.extend(unreadable.map(|one| Recovered::Unreadable { id: one.id, why: one.why.to_string() }));
    Ok(found)
}

/// Whether it is whole, and somebody keeps what was promised of it: it was made without a guard, or its guard lives.
fn is_waiting(state: &State, id: &str, boot: &str) -> bool {
    let is_kept = |(pid, deadline_s)| since_boot_s() < deadline_s && is_guard(pid, id);
    state.applied && !state.reverting && state.begun.boot_id == boot && state.armed.is_none_or(is_kept)
}

/// Deletes the journals. What is not closed has to be taken back first.
///
/// # Errors
/// When a change is not closed, or a file can't be deleted.
pub fn forget(root: &Path) -> Result<(), CommitError> {
    let lock = Lock::take(root, PATIENCE)?;
    if let Some((path, _)) = known(root).whole()?.iter().find(|(_, state)| !state.closed) {
        return Err(CommitError::Open { id: name_of(path) });
    }
    let folder = root.join(journal::FOLDER);
    // Whoever waits for a lock in here finds it gone, and makes another one.
    std::fs::remove_dir_all(&folder)?;
    // The folder above may hold other things of Hone's.
    if let Some(above) = folder.parent() {
        let _ = std::fs::remove_dir(above);
    }
    drop(lock);
    Ok(())
}
