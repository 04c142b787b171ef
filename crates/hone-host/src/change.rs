//! Changing the kernel's settings and taking that back: every write is announced in a journal first, read back after, and
//! undone to what was there before, whatever it took along.
//!
//! Nothing here starts by itself: a change that somebody else made since is told and not written over.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::disks::is_there;
use crate::journal::{Begun, Entry, JournalError, Log, State, Values};
use crate::kernel::{Kernel, plain_value};
use crate::knob::{is_reset, moves, rank, rival};

/// A write that a plan wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The attribute.
    pub path: String,
    /// The value.
    pub value: String,
    /// All attributes that the write can change, this one among them.
    pub closure: Vec<String>,
}

/// Why a change did not come about. What had been written when it stopped is in the journal.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The journal can't be kept: nothing more was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused a value, or took another one.
    #[error("{path} can't be set to `{value}`: {why}")]
    Refused {
        /// The attribute.
        path: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        why: String,
    },
    /// It says something else than when the change began.
    #[error(
        "{path} was `{before}` when the change began, and is `{found}` now: somebody else sets it, too; find out who does, and plan anew"
    )]
    Changed {
        /// The attribute.
        path: String,
        /// What it said.
        before: String,
        /// What it says.
        found: String,
    },
    /// The time to confirm ran out before everything was written.
    #[error("the time to confirm ran out while the change was made; use a longer --confirm-within")]
    Late,
}

/// The values of attributes as they stand there.
pub fn snapshot<'a>(kernel: &dyn Kernel, paths: impl IntoIterator<Item = &'a String>) -> Values {
    paths.into_iter().map(|path| (path.clone(), kernel.read(path).ok())).collect()
}

/// The paths that steps can change, each once.
pub fn touched(steps: &[Step]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> = steps.iter().flat_map(|step| &step.closure).collect();
    all.into_iter().cloned().collect()
}

/// Writes the steps, in their dependency order. `before` is what the journal says of all that they touch; `late` says whether the
/// guard may be at work by now.
///
/// # Errors
/// At the first step that the kernel does not take as asked, or whose attribute somebody else has set since; the caller takes back
/// what was done.
pub fn apply(
    kernel: &dyn Kernel,
    log: &mut dyn Log,
    before: &Values,
    steps: &[Step],
    late: &dyn Fn() -> bool,
) -> Result<(), ChangeError> {
    let mut known = before.clone();
    let mut ordered: Vec<&Step> = steps.iter().collect();
    ordered.sort_by_key(|step| rank(&step.path));
    for step in ordered {
        if late() {
            return Err(ChangeError::Late);
        }
        if says(kernel, &step.path, &step.value) {
            continue;
        }
        is_as_known(kernel, &step.path, &known)?;
        let (now, refused) = write(kernel, log, &step.path, &step.value, &step.closure)?;
        known.extend(now);
        if let Some(why) = refused {
            return Err(ChangeError::Refused { path: step.path.clone(), value: step.value.clone(), why });
        }
    }
    // Whoever was stopped in front of its last write may have made it behind the guard.
    if late() {
        return Err(ChangeError::Late);
    }
    log.append(&Entry::Applied)?;
    Ok(())
}

pub(crate) fn says(kernel: &dyn Kernel, path: &str, value: &str) -> bool {
    kernel.read(path).is_ok_and(|text| plain_value(&text) == plain_value(value))
}

/// What somebody else has set since the change began would be written over, and the way back would bring the older value.
fn is_as_known(kernel: &dyn Kernel, path: &str, known: &Values) -> Result<(), ChangeError> {
    let of_both = std::iter::once(path.to_owned()).chain(rival(path));
    for path in of_both {
        let (Some(Some(before)), Ok(found)) = (known.get(&path), kernel.read(&path)) else { continue };
        let (before, found) = (plain_value(before), plain_value(&found));
        if before != found {
            return Err(ChangeError::Changed { path, before, found });
        }
    }
    Ok(())
}

/// One write with its two lines in the journal. Answers what its closure says now, and why it was not taken.
fn write(
    kernel: &dyn Kernel,
    log: &mut dyn Log,
    path: &str,
    value: &str,
    closure: &[String],
) -> Result<(Values, Option<String>), JournalError> {
    log.append(&Entry::Intent { path: path.to_owned(), value: value.to_owned(), closure: closure.to_vec() })?;
    let mut refused = kernel.write(path, value).err().map(|error| error.to_string());
    let mut now = snapshot(kernel, closure);
    // A scheduler brings attributes of its own, which the closure before the write did not know.
    if path.ends_with("/queue/scheduler") {
        now.extend(own_attributes(kernel, path));
    }
    if refused.is_none() && !says(kernel, path, value) {
        let found = kernel.read(path).map_or_else(|error| error.to_string(), |text| plain_value(&text));
        refused = Some(format!("it reads `{found}` afterwards"));
    }
    log.append(&Entry::Done { path: path.to_owned(), now: now.clone(), refused: refused.clone() })?;
    Ok((now, refused))
}

fn own_attributes(kernel: &dyn Kernel, scheduler: &str) -> Values {
    let folder = format!("{}/iosched", scheduler.trim_end_matches("/scheduler"));
    let paths: Vec<String> = kernel.list(&folder).iter().map(|file| format!("{folder}/{file}")).collect();
    snapshot(kernel, &paths)
}

/// What came of an attribute on the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It says what it said before, and nothing had to be done.
    Already,
    /// It was written back, and says what it said before.
    Restored,
    /// As `Restored`; a crash hides whether the other value was the kernel's doing or somebody else's.
    RestoredBlind,
    /// Somebody else has set it since: left as it is.
    Drifted,
    /// The kernel refuses what it said before, or the device is another one now.
    Failed,
}

/// An attribute on the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// The attribute.
    pub path: String,
    /// What it said before the change.
    pub before: Option<String>,
    /// What we left behind.
    pub left: Option<String>,
    /// What was found.
    pub found: Option<String>,
    /// What it says now.
    pub now: Option<String>,
    /// What came of it.
    pub fate: Fate,
    /// Why, where that helps.
    pub why: Option<String>,
}

impl Outcome {
    /// Whether it says what it said before.
    pub fn is_back(&self) -> bool {
        matches!(self.fate, Fate::Already | Fate::Restored | Fate::RestoredBlind)
    }
}

/// What stands at an attribute, held against the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeState {
    AsBefore,
    Ours,
    /// Ours for all that is known: a crash hides whether the kernel or somebody else has set it.
    Unclear,
    Foreign,
}

/// How often a value that did not hold is written again.
const ATTEMPTS: usize = 3;
const BETWEEN_ATTEMPTS: std::time::Duration = std::time::Duration::from_millis(20);

/// Takes a change back, and closes its journal. `force` also writes over what somebody else has set since.
///
/// # Errors
/// When the journal can't be kept. What the kernel refuses is an outcome, and the others are still taken back.
pub fn revert(
    kernel: &dyn Kernel,
    log: &mut dyn Log,
    state: &State,
    force: bool,
) -> Result<Vec<Outcome>, JournalError> {
    let outcomes = restore(kernel, log, state, force)?;
    log.append(&Entry::Reverted { left: not_back(&outcomes) })?;
    Ok(outcomes)
}

/// The attributes that do not say what they said before.
pub(crate) fn not_back(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.clone()).collect()
}

/// Takes the values of a change back, and leaves its journal open for what else there is of it.
///
/// # Errors
/// As [`revert`].
pub(crate) fn restore(
    kernel: &dyn Kernel,
    log: &mut dyn Log,
    state: &State,
    force: bool,
) -> Result<Vec<Outcome>, JournalError> {
    let lost = lost_devices(kernel, &state.begun);
    let found = snapshot(kernel, state.begun.before.keys());
    let standing = attribute_states(state, &found, force);
    log.append(&reverting(&standing, &found, state))?;
    let targets: BTreeMap<&String, Option<String>> =
        standing.keys().map(|path| (path, target(path, &standing, state, &found))).collect();
    let mut order: Vec<&String> = targets.keys().copied().filter(|path| !is_on(path, &lost)).collect();
    order.sort_by_key(|path| rank(path));
    let mut refused: BTreeMap<String, String> = BTreeMap::new();
    for _ in 0..ATTEMPTS {
        if !refused.is_empty() {
            // Whoever holds an attribute (EBUSY) may have let go of it by then.
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        if !pass(kernel, log, state, &targets, &order, &mut refused)? {
            break;
        }
    }
    Ok(outcomes(kernel, state, &found, &standing, &lost, &refused))
}

/// What an attribute shall say in the end: what it said before, or what somebody else has set since. The latter is
/// written, too, if the way back of a scheduler has taken it along.
fn target(
    path: &String,
    standing: &BTreeMap<String, AttributeState>,
    state: &State,
    found: &Values,
) -> Option<String> {
    let values = match standing.get(path) {
        Some(AttributeState::Foreign) if state.foreign.contains_key(path) => &state.foreign,
        Some(AttributeState::Foreign) => found,
        _ => &state.begun.before,
    };
    values.get(path).cloned().flatten()
}

/// What was found, told apart, so that a way back that is broken off can go on.
fn reverting(standing: &BTreeMap<String, AttributeState>, found: &Values, state: &State) -> Entry {
    let of = |wanted: &[AttributeState]| -> Values {
        let meant = standing.iter().filter(|(_, standing)| wanted.contains(standing));
        meant.map(|(path, _)| (path.clone(), found.get(path).cloned().flatten())).collect()
    };
    let mut foreign = of(&[AttributeState::Foreign]);
    foreign.extend(state.foreign.clone());
    Entry::Reverting {
        ours: of(&[AttributeState::Ours, AttributeState::Unclear]),
        unclear: of(&[AttributeState::Unclear]).into_keys().collect(),
        foreign,
    }
}

/// Writes every attribute that does not say its target. Answers whether anything was written.
fn pass(
    kernel: &dyn Kernel,
    log: &mut dyn Log,
    state: &State,
    targets: &BTreeMap<&String, Option<String>>,
    order: &[&String],
    refused: &mut BTreeMap<String, String>,
) -> Result<bool, JournalError> {
    let mut wrote = false;
    for path in order {
        let Some(Some(target)) = targets.get(path) else { continue };
        let value = plain_value(target);
        let rival_target = rival(path).and_then(|rival| targets.get(&rival).cloned().flatten());
        if skips(kernel, path, &value, rival_target.as_deref().map(plain_value).as_deref()) {
            continue;
        }
        wrote = true;
        let closure = closure_of(path, &state.begun.before);
        match write(kernel, log, path, &value, &closure)? {
            (_, Some(why)) => refused.insert((*path).clone(), why),
            (_, None) => refused.remove(*path),
        };
    }
    Ok(wrote)
}

/// Whether nothing is to be written. Of a pair the one that rules is written: the kernel sets the other to 0 then, and
/// refuses a written 0 of the bytes. Only where both shall be 0 the ratio's is written.
fn skips(kernel: &dyn Kernel, path: &str, value: &str, rival_target: Option<&str>) -> bool {
    let says_it = kernel.read(path).map_or(true, |text| plain_value(&text) == value);
    match (rival(path), value) {
        (Some(other), "0") if path.ends_with("_ratio") && rival_target == Some("0") => {
            says_it && says(kernel, &other, "0")
        }
        (Some(_), "0") => true,
        _ => says_it,
    }
}

/// Of these attributes those that a write of this one can change.
pub(crate) fn closure_of(path: &str, among: &Values) -> Vec<String> {
    let queue = path.rsplit_once("/queue/").map(|(device, _)| format!("{device}/queue/"));
    let resets = rank(path) <= 1;
    let touched = |other: &&String| match (&queue, rival(path)) {
        (Some(queue), _) if resets => other.starts_with(queue) && is_reset(other),
        (_, Some(rival)) => **other == rival || *other == path,
        _ => *other == path || moves(path, other),
    };
    among.keys().filter(touched).cloned().collect()
}

/// Devices of the journal whose name belongs to another one now.
fn lost_devices(kernel: &dyn Kernel, begun: &Begun) -> Vec<String> {
    let lost = begun.disks.iter().filter(|disk| !is_there(kernel, disk));
    lost.map(|disk| format!("sys/block/{}/", disk.name)).collect()
}

fn is_on(path: &str, devices: &[String]) -> bool {
    devices.iter().any(|device| path.starts_with(device.as_str()))
}

fn attribute_states(state: &State, found: &Values, force: bool) -> BTreeMap<String, AttributeState> {
    let paths = state.begun.before.keys();
    if force {
        return paths.map(|path| (path.clone(), AttributeState::Ours)).collect();
    }
    let mut standing: BTreeMap<String, AttributeState> =
        paths.map(|path| (path.clone(), attribute_state(state, found, path))).collect();
    leave_queues_of_others(&mut standing);
    standing
}

/// Whoever has set a scheduler has set its queue anew with it.
fn leave_queues_of_others(standing: &mut BTreeMap<String, AttributeState>) {
    let queues: Vec<String> = standing
        .iter()
        .filter(|(_, standing)| **standing == AttributeState::Foreign)
        .filter_map(|(path, _)| Some(format!("{}/queue/", path.strip_suffix("/queue/scheduler")?)))
        .collect();
    for (path, standing) in standing.iter_mut() {
        if is_reset(path)
            && *standing != AttributeState::AsBefore
            && queues.iter().any(|queue| path.starts_with(queue))
        {
            *standing = AttributeState::Foreign;
        }
    }
}

/// What an attribute says in some values, and its rival with it: the two are one setting.
fn unit(values: &Values, path: &str) -> (Option<String>, Option<String>) {
    let plain = |path: &str| values.get(path).and_then(Option::as_deref).map(plain_value);
    (plain(path), rival(path).and_then(|rival| plain(&rival)))
}

fn attribute_state(state: &State, found: &Values, path: &str) -> AttributeState {
    let now = unit(found, path);
    if now == unit(&state.begun.before, path) {
        return AttributeState::AsBefore;
    }
    if now == unit(&state.left, path) {
        return if state.unclear.contains(path) { AttributeState::Unclear } else { AttributeState::Ours };
    }
    let Some(flight) = state.in_flight.as_ref().filter(|flight| flight.closure.iter().any(|p| p == path))
    else {
        return AttributeState::Foreign;
    };
    let (flown, other) = unit(found, &flight.path);
    let flown = flown == Some(plain_value(&flight.value));
    match rival(&flight.path) {
        // The kernel sets the rival to 0, and nothing else does without changing the value.
        Some(_) if flown && other.as_deref() == Some("0") => AttributeState::Ours,
        Some(_) => AttributeState::Foreign,
        None if !flown => AttributeState::Foreign,
        None if flight.path == path => AttributeState::Ours,
        None if state.foreign.contains_key(path) => AttributeState::Foreign,
        None => AttributeState::Unclear,
    }
}

fn outcomes(
    kernel: &dyn Kernel,
    state: &State,
    found: &Values,
    standing: &BTreeMap<String, AttributeState>,
    lost: &[String],
    refused: &BTreeMap<String, String>,
) -> Vec<Outcome> {
    let outcome = |(path, before): (&String, &Option<String>)| {
        let now = kernel.read(path).ok();
        let is_back = now.as_deref().map(plain_value) == before.as_deref().map(plain_value);
        let found = found.get(path).cloned().flatten();
        let (fate, why) = if is_on(path, lost) {
            (Fate::Failed, Some("another device has this name now".to_owned()))
        } else {
            match standing.get(path) {
                Some(AttributeState::Foreign) if !is_back => {
                    let kept = now.as_deref().map(plain_value) == found.as_deref().map(plain_value);
                    let why = if kept {
                        "somebody else has set it since"
                    } else {
                        "somebody else has set it since, and the way back has changed it along with another"
                    };
                    (Fate::Drifted, Some(why.to_owned()))
                }
                _ if !is_back => (Fate::Failed, refused.get(path).cloned()),
                Some(AttributeState::Unclear) => (
                    Fate::RestoredBlind,
                    Some("a crash hides whether the kernel or somebody else had set it".to_owned()),
                ),
                Some(AttributeState::AsBefore) => (Fate::Already, None),
                _ => (Fate::Restored, None),
            }
        };
        let left = state.left.get(path).cloned().flatten();
        Outcome { path: path.clone(), before: before.clone(), left, found, now, fate, why }
    };
    state.begun.before.iter().map(outcome).collect()
}
