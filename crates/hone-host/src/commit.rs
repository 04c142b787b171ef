//! Life of a change: begin, start the watchdog, apply, confirm or roll back, and clean up after a crash.
//!
//! The rollback watchdog is a separate process that is ready before the first write. It needs only the journal. Whatever happens to the
//! process that made the change, the watchdog rolls the change back at its time, unless the journal has a confirmation.

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

/// Time that a command waits for another one on this host.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time that the watchdog waits. It does not wait for a change that hangs longer.
const GUARDS_PATIENCE: Duration = Duration::from_secs(30);
/// Time that a run waits for its turn, since other runs hold it for minutes.
const TURNS_PATIENCE: Duration = Duration::from_millis(200);
/// Time that a watchdog has to become ready.
const READY_WITHIN: Duration = Duration::from_secs(10);

/// Reasons why a step of a change failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommitError {
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Another change is neither confirmed nor rolled back.
    #[error(
        "the change {id} of this host is neither confirmed nor rolled back\n  next: run `hone host confirm` \
         or `hone host rollback`"
    )]
    Open {
        /// Id of the change.
        id: String,
    },
    /// No change has this id.
    #[error("there is no change {id} on this host\n  next: `hone host status` lists all changes")]
    Unknown {
        /// The id.
        id: String,
    },
    /// It was rolled back before.
    #[error("the change {id} of this host is already rolled back")]
    Closed {
        /// Id of the change.
        id: String,
    },
    /// Another change was made on top of it, and began with its values.
    #[error(
        "the change {newer} was made on top of the change {id}\n  next: roll that one back first with `hone \
         host rollback --change-id {newer}`"
    )]
    Below {
        /// Id of the change.
        id: String,
        /// Id of the later change.
        newer: String,
    },
    /// There is no change for this command.
    #[error("this host has no change to {what}\n  next: `hone host apply` makes one")]
    None {
        /// The command.
        what: &'static str,
    },
    /// The kernel does not identify the current boot.
    #[error(
        "/proc/sys/kernel/random/boot_id can't be read, so Hone can't identify the journals of this boot"
    )]
    NoBoot,
    /// Another run is already trying settings of this host.
    #[error("another run tries settings of this host: {path} is locked\n  next: wait for it, or end \
        it", path = path.display())]
    Busy {
        /// Path of the lock.
        path: PathBuf,
    },
    /// The rollback watchdog did not start, so nothing was written.
    #[error("the rollback watchdog is not ready: {why}; nothing was changed")]
    Unguarded {
        /// The reason.
        why: String,
    },
    /// A step failed, and the steps before it were rolled back.
    #[error("{source}; the earlier steps were rolled back")]
    TakenBack {
        /// The failure.
        source: Box<ChangeError>,
        /// Outcome of each attribute.
        outcomes: Vec<Outcome>,
        /// Why the journal does not show the end, if it does not: the next `hone host rollback --interrupted` checks this change again.
        unkept: Option<String>,
    },
    /// The change is from another boot.
    #[error(
        "the machine has booted since the change {id}, which ended with that boot\n  next: apply it again"
    )]
    OtherBoot {
        /// Id of the change.
        id: String,
    },
    /// Its time limit has ended, or it is incomplete.
    #[error("the change {id} can't be confirmed: {why}")]
    NotConfirmable {
        /// Id of the change.
        id: String,
        /// The reason.
        why: &'static str,
    },
    /// Its time limit can't be extended.
    #[error("the time limit of the change {id} can't be extended: {why}")]
    NotRenewable {
        /// Id of the change.
        id: String,
        /// The reason.
        why: &'static str,
    },
    /// Files for the next boot failed.
    #[error("settings for the next boot can't be written or deleted: {0}\n  next: run as root")]
    Files(#[from] io::Error),
}

/// A requested change.
#[derive(Debug, Clone, Default)]
pub struct ChangeRequest {
    /// Name of the profile.
    pub profile: String,
    /// The writes.
    pub steps: Vec<Step>,
    /// The disks whose queues are changed.
    pub disks: Vec<Disk>,
    /// Time until the rollback, unless confirmed.
    pub confirm_within: Option<Duration>,
}

/// A change in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Id of the change.
    pub id: String,
    /// Path of its journal.
    pub journal: PathBuf,
    /// Process id of the watchdog.
    pub guard: Option<u32>,
    /// Seconds until the rollback.
    pub confirm_within_s: Option<u64>,
    /// Duration of the writes in milliseconds. Nothing should be measured in this time.
    pub writing_ms: u64,
}

/// Result of a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// Id of the change.
    pub id: String,
    /// Outcome of each attribute; empty if all of them ended with an earlier boot.
    pub outcomes: Vec<Outcome>,
    /// Files for the next boot that remain, with the reason.
    pub files_left: Vec<LeftFile>,
    /// Whether the machine has booted since. The outcomes are then those of the values that its files had set again.
    pub other_boot: bool,
    /// Why the journal does not show the end, if it does not: the next `hone host rollback --interrupted` checks this change again.
    pub unkept: Option<String>,
}

impl TakenBack {
    /// Whether everything has its earlier value.
    pub fn is_whole(&self) -> bool {
        self.files_left.is_empty() && self.unkept.is_none() && self.outcomes.iter().all(Outcome::is_back)
    }
}

/// Seconds since boot, including sleep of the machine.
pub fn since_boot_s() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0)
}

/// The time since boot after this many seconds, rounded up, so that the user never has less time than stated.
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
    /// Readable journals with their contents, the oldest first.
    pub states: Vec<(PathBuf, State)>,
    /// Unreadable journals: an unknown change may be in force.
    pub unreadable: Vec<Unreadable>,
}

/// A journal that can't be read.
#[derive(Debug)]
pub struct Unreadable {
    /// Its change; empty for the folder of all journals.
    pub id: String,
    /// The reason.
    pub why: JournalError,
}

/// The journals of this host with their contents. An unreadable one hides no other one.
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
    /// Number of the last change, readable or not, so that no id is used twice.
    fn newest_id(&self) -> u32 {
        let readable = self.states.iter().map(|(path, _)| name_of(path));
        let ids = readable.chain(self.unreadable.iter().map(|one| one.id.clone()));
        ids.filter_map(|id| id.parse().ok()).max().unwrap_or(0)
    }

    /// While an unknown change exists, nothing else is done.
    fn whole(self) -> Result<Vec<(PathBuf, State)>, CommitError> {
        match self.unreadable.into_iter().next() {
            Some(one) => Err(one.why.into()),
            None => Ok(self.states),
        }
    }

    /// The change with this id, or the last one that is not closed.
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

/// Whether it was confirmed, and no rollback has begun.
fn stays(state: &State) -> bool {
    state.confirmed && !state.reverting
}

pub(crate) fn name_of(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Makes a change. `start_guard` starts the process that calls [`guard`] with the journal's path.
///
/// # Errors
/// Returns an error before any write when there is no journal or watchdog. After a failed step, everything was rolled back.
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
    // On top of a confirmed change another one can be made; it is rolled back first then.
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

/// A change whose journal has become unreadable: every differing value counts as its own.
fn unread(files: &Files, begun: Begun) -> State {
    State { left: snapshot(files, begun.before.keys()), begun, ..State::default() }
}

/// Starts the watchdog and waits until the journal shows that it is alive.
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
    Err(format!("it wrote nothing for {} s", READY_WITHIN.as_secs()))
}

/// The watchdog: notes in the journal that it is alive and sleeps until its time. Then it rolls the change back, unless it was confirmed or
/// rolled back meanwhile. Returns the result; `None` if there was nothing to do.
///
/// # Errors
/// Returns an error when the journal can't be read or written.
pub fn guard(root: &Path, id: &str) -> Result<Option<TakenBack>, CommitError> {
    let path = journal_of(root, id);
    if !path.exists() {
        // Only closed journals are deleted.
        return Ok(None);
    }
    let state = journal::read(&path)?;
    let Some(within_s) = state.begun.confirm_within_s.filter(|_| !state.closed && !state.confirmed) else {
        return Ok(None);
    };
    // A watchdog that follows a killed one keeps its time.
    let first_s = || after_s(within_s);
    let deadline_s = state.armed.map_or_else(first_s, |(_, deadline_s)| deadline_s);
    let entry = Entry::Armed { pid: std::process::id(), deadline_s };
    Journal::resume(&path)?.append(&entry)?;
    let mut deadline_s = deadline_s;
    loop {
        if !slept_until(deadline_s, &path)? {
            return Ok(None);
        }
        // A process that holds the lock longer hangs, and does not confirm.
        let _lock = Lock::take(root, GUARDS_PATIENCE);
        let state = journal::read(&path)?;
        if state.closed || state.confirmed {
            return Ok(None);
        }
        match state.armed {
            // The time was extended at the last moment.
            Some((_, later_s)) if later_s > since_boot_s() => deadline_s = later_s,
            _ => return take_back(root, &path, &state, false).map(Some),
        }
    }
}

/// Extends the time limit of a change, or of the last one: the rollback comes `within` from now, unless it is already later. A process that
/// extends it from another host is known to be alive. When it stops, the rollback follows.
///
/// Returns the change's id and the seconds that are left.
///
/// # Errors
/// Returns an error when no change waits for its confirmation, or its watchdog is gone.
pub fn renew(root: &Path, id: Option<&str>, within: Duration) -> Result<(String, u64), CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let (path, state) = known(root).open(id, "renew")?;
    let id = name_of(&path);
    let refused = |why| CommitError::NotRenewable { id: id.clone(), why };
    if boot_id(&Files::new(root))? != state.begun.boot_id {
        return Err(CommitError::OtherBoot { id });
    }
    if state.confirmed || state.reverting {
        return Err(refused("it is already confirmed or rolled back"));
    }
    let Some((pid, before_s)) = state.armed else {
        return Err(refused("it was made without --confirm-within, so it has no time limit"));
    };
    let now_s = since_boot_s();
    if now_s >= before_s {
        return Err(refused("its time limit has ended, and its watchdog rolls it back"));
    }
    if !is_guard(pid, &id) {
        return Err(refused("its watchdog is gone; roll it back with `hone host rollback`"));
    }
    let deadline_s = before_s.max(after_s(within.as_secs()));
    Journal::resume(&path)?.append(&Entry::Armed { pid, deadline_s })?;
    Ok((id, deadline_s.saturating_sub(after_s(0))))
}

/// Interval in which a sleeping watchdog checks whether it is still needed. It uses a clock that includes the machine's sleep, since other
/// clocks stop meanwhile.
const GUARD_LOOKS_EVERY: Duration = Duration::from_millis(500);

/// Sleeps. Returns whether the time has come, as opposed to a confirmation or another rollback.
fn slept_until(mut deadline_s: u64, path: &Path) -> Result<bool, JournalError> {
    let mut size = 0;
    loop {
        let now_size = match std::fs::metadata(path) {
            Ok(found) => found.len(),
            // Only closed journals are deleted, and without the journal no rollback is possible.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(_) => 0,
        };
        if now_size != size {
            size = now_size;
            // The next check reads a line that is still being written.
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

/// Values come first, so that an undeletable file does not prevent their rollback.
fn take_back(root: &Path, path: &Path, state: &State, force: bool) -> Result<TakenBack, CommitError> {
    let files = Files::new(root);
    let id = name_of(path);
    let boot = boot_id(&files)?;
    let known = known(root).states;
    let here = later_boot::here(&files, state, &boot);
    // Values of an earlier boot need no rollback, so later changes can't block it.
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
    // A remaining file of Hone's would set everything again at the next boot, so the journal stays open.
    if !files_left.iter().any(|file| file.is_tried_again) {
        let mut left = not_back(&outcomes);
        left.extend(files_left.iter().map(|file| file.path.clone()));
        let is_void = other_boot && outcomes.is_empty() && left.is_empty();
        journal.append(&if is_void { Entry::Void } else { Entry::Reverted { left } })?;
    }
    Ok(TakenBack { id, outcomes, files_left, other_boot, unkept: journal.unkept })
}

/// A later change with values in this boot.
fn on_top(files: &Files, known: &[(PathBuf, State)], id: &str, boot: &str) -> Option<String> {
    let newer = known.iter().map(|(path, state)| (name_of(path), state));
    let mut newer = newer.filter(|(name, state)| name.as_str() > id && !state.closed);
    newer.find(|(_, state)| later_boot::here(files, state, boot).is_some()).map(|(name, _)| name)
}

/// Earlier changes that the next boot has, the oldest first.
fn persistent<'a>(known: &'a [(PathBuf, State)], id: &str) -> Vec<(String, Layer<'a>)> {
    let older = known.iter().map(|(path, state)| (name_of(path), state));
    let older = older.filter(|(name, state)| name.as_str() < id && !state.closed && stays(state));
    let older = older.filter(|(_, state)| !state.files.is_empty());
    older.map(|(name, state)| (name, layer(state))).collect()
}

fn layer(state: &State) -> Layer<'_> {
    // The change as it was made, since names of devices and their identities belong together.
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

/// Rolls a change back, or the last one, confirmed or not. With `force` it also overwrites values that another process has set since. If no
/// change is open, `force` also handles a closed change that left values behind.
///
/// # Errors
/// Returns an error when there is none, another one was made on top of it, or its journal can't be written.
pub fn take_last_back(root: &Path, id: Option<&str>, force: bool) -> Result<TakenBack, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let found = match known(root).open(id, "roll back") {
        Err(CommitError::None { .. } | CommitError::Closed { .. }) if force => left_over(root, id)?,
        found => found?,
    };
    take_back(root, &found.0, &found.1, force)
}

/// The last change of this boot that was closed and left values behind.
fn left_over(root: &Path, id: Option<&str>) -> Result<(PathBuf, State), CommitError> {
    let boot = boot_id(&Files::new(root))?;
    let is_left = |state: &State| !state.left_behind.is_empty() && state.begun.boot_id == boot;
    let is_meant = |path: &Path| id.is_none_or(|id| name_of(path) == id);
    let states = known(root).states.into_iter().rev();
    let mut left = states.filter(|(path, state)| is_left(state) && is_meant(path));
    left.next().ok_or(match id {
        Some(id) => CommitError::Closed { id: id.to_owned() },
        None => CommitError::None { what: "roll back" },
    })
}

/// The turn of a run that tries many changes, one after the other: while this lives, no other run has it. It ends with its process, for any
/// reason.
#[derive(Debug)]
pub struct Turn {
    _lock: Lock,
}

impl Turn {
    /// Takes the turn.
    ///
    /// # Errors
    /// Returns an error when another run has it, or the folder of journals can't be written. In the latter case nothing can be changed
    /// either.
    pub fn take(root: &Path) -> Result<Self, CommitError> {
        match Lock::named(root, "trial.lock", TURNS_PATIENCE) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(JournalError::Locked { path }) => Err(CommitError::Busy { path }),
            Err(error) => Err(error.into()),
        }
    }
}

/// Rolls this change back. Returns `None` if it was already rolled back.
///
/// # Errors
/// Returns an error when its journal can't be read or written.
pub fn take_one_back(root: &Path, id: &str) -> Result<Option<TakenBack>, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let path = journal_of(root, id);
    let state = journal::read(&path)?;
    if state.closed { Ok(None) } else { take_back(root, &path, &state, false).map(Some) }
}

/// Deletes the journals of these changes, of a run that rolled back all of its changes. An open journal stays. A journal whose watchdog
/// still runs stays, too, since its id may be used again.
///
/// # Errors
/// Returns an error when a file can't be deleted.
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

/// Whether this process is the watchdog of a change. Watchdogs run on this machine, for every root.
pub(crate) fn is_guard(pid: u32, id: &str) -> bool {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    words.windows(2).any(|pair| pair == [b"guard".as_slice(), id.as_bytes()])
}

/// Result of a confirmation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// Id of the change.
    pub id: String,
    /// Files for the next boot that were written.
    pub files: Vec<String>,
    /// Settings that will not stay, with the reason.
    pub left_out: Vec<String>,
}

/// Confirms a change, or the last one: its watchdog ends. With `persistent` the next boot has the values, too.
///
/// # Errors
/// Returns an error when no change can be confirmed, or files can't be written; then nothing is confirmed.
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
        Some("it is incomplete; `hone host rollback --interrupted` rolls it back")
    } else if state.reverting {
        Some("it is being rolled back; `hone host rollback --interrupted` continues the rollback")
    } else if !state.confirmed && state.armed.is_some_and(|(_, deadline_s)| since_boot_s() >= deadline_s) {
        Some("its time limit has ended; apply it again with a longer --confirm-within")
    } else if state.first.is_some() || boot != state.begun.boot_id {
        Some("it is from an earlier boot, and this boot has its values from its files")
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
        // The check comes before the journal claims the files: a rollback would otherwise find another owner's files there.
        persist::may_write(root, &ours, &boot.files)?;
        Journal::resume(&path)?.append(&Entry::Persisting { files: confirmed.files.clone() })?;
        if let Err(error) = persist::write(root, &ours, &boot.files) {
            // Nothing is confirmed, so the written files must not set anything at the next boot.
            persist::take_away(root, &confirmed.id, &confirmed.files, &below(&known, &confirmed.id));
            return Err(error.into());
        }
    }
    Journal::resume(&path)?.append(&Entry::Confirmed)?;
    Ok(confirmed)
}

/// Finding of a recovery about a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "found")]
pub enum Recovered {
    /// It was interrupted, its watchdog is gone, or the machine has booted since: it was rolled back.
    TakenBack(TakenBack),
    /// It is complete and in force, and waits for a confirmation.
    Waiting {
        /// Id of the change.
        id: String,
    },
    /// It is confirmed and in force.
    InForce {
        /// Id of the change.
        id: String,
    },
    /// Its journal can't be read, so it is unknown whether it is in force.
    Unreadable {
        /// Id of the change.
        id: String,
        /// The reason.
        why: String,
    },
}

/// Checks every open change, and rolls back the remains of a crash.
///
/// # Errors
/// Returns an error when a journal can't be read or written.
pub fn recover(root: &Path, force: bool) -> Result<Vec<Recovered>, CommitError> {
    let _lock = Lock::take(root, PATIENCE)?;
    let files = Files::new(root);
    let boot = boot_id(&files)?;
    let known = known(root);
    let mut found = Vec::new();
    // The last change comes first, since it began with the values of those before it.
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

/// Whether it is complete, and either has no time limit or a live watchdog.
fn is_waiting(state: &State, id: &str, boot: &str) -> bool {
    let is_kept = |(pid, deadline_s)| since_boot_s() < deadline_s && is_guard(pid, id);
    state.applied && !state.reverting && state.begun.boot_id == boot && state.armed.is_none_or(is_kept)
}

/// Deletes the journals. Open changes must be rolled back first.
///
/// # Errors
/// Returns an error when a change is not closed, or a file can't be deleted.
pub fn forget(root: &Path) -> Result<(), CommitError> {
    let lock = Lock::take(root, PATIENCE)?;
    if let Some((path, _)) = known(root).whole()?.iter().find(|(_, state)| !state.closed) {
        return Err(CommitError::Open { id: name_of(path) });
    }
    let folder = root.join(journal::FOLDER);
    // A process that waits for this lock finds the file gone, and creates another one.
    std::fs::remove_dir_all(&folder)?;
    // The folder above may hold other files of Hone.
    if let Some(above) = folder.parent() {
        let _ = std::fs::remove_dir(above);
    }
    drop(lock);
    Ok(())
}
