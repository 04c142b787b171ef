//! Changes kernel settings and rolls them back. Every write is announced in a journal first and read back afterwards. A rollback restores
//! the earlier values, including those of attributes that a write changed along with its own.
//!
//! This module starts nothing by itself. It reports a value that another process has set since, and does not overwrite it.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::disks::is_there;
use crate::journal::{Begun, Entry, JournalError, Log, State, Values};
use crate::kernel::{Kernel, plain_value};
use crate::knob::{is_reset, moves, rank, rival};

/// A write of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Path of the attribute.
    pub path: String,
    /// The value.
    pub value: String,
    /// All attributes that the write can change, including this one.
    pub closure: Vec<String>,
}

/// Reasons why a change failed. The journal holds the writes before the failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The journal can't be written, so no further value was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The kernel refused a value, or set another one.
    #[error("{path} can't be set to `{value}`: {why}")]
    Refused {
        /// Path of the attribute.
        path: String,
        /// The value.
        value: String,
        /// The kernel's answer.
        why: String,
    },
    /// Its value differs from the value at the beginning of the change.
    #[error(
        "{path} was `{before}` when the change began, but is `{found}` now: another process sets it, too; \
         find that process, and plan again"
    )]
    Changed {
        /// Path of the attribute.
        path: String,
        /// Value at the beginning.
        before: String,
        /// Value now.
        found: String,
    },
    /// The time limit for the confirmation ended before the last write.
    #[error("the time limit ended while the change was applied; use a longer --confirm-within")]
    Late,
}

/// The current values of attributes.
pub fn snapshot<'a>(kernel: &dyn Kernel, paths: impl IntoIterator<Item = &'a String>) -> Values {
    paths.into_iter().map(|path| (path.clone(), kernel.read(path).ok())).collect()
}

/// The paths that steps can change, each once.
pub fn touched(steps: &[Step]) -> Vec<String> {
    let all: std::collections::BTreeSet<&String> = steps.iter().flat_map(|step| &step.closure).collect();
    all.into_iter().cloned().collect()
}

/// Writes the steps in their dependency order. `before` holds the journal's values of all attributes that they touch; `late` returns
/// whether the watchdog may be active by now.
///
/// # Errors
/// Returns an error at the first step that the kernel does not accept as given, or whose attribute another process has set since. The
/// caller then rolls back the earlier steps.
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
    // A process that was stopped before its last write may have written it after the watchdog's rollback.
    if late() {
        return Err(ChangeError::Late);
    }
    log.append(&Entry::Applied)?;
    Ok(())
}

pub(crate) fn says(kernel: &dyn Kernel, path: &str, value: &str) -> bool {
    kernel.read(path).is_ok_and(|text| plain_value(&text) == plain_value(value))
}

/// The write would replace a value that another process has set since, and a rollback would restore the older value.
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

/// One write with its two journal lines. Returns the values of its closure afterwards, and the reason if the kernel did not accept it.
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
    // A scheduler adds attributes of its own, which the closure before the write did not contain.
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

/// Outcome of an attribute in a rollback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// It has its earlier value, and no write was needed.
    Already,
    /// It was written and has its earlier value again.
    Restored,
    /// Like `Restored`, but after a crash it is unknown whether the kernel or another process had set the other value.
    RestoredBlind,
    /// Another process has set it since, so it was left unchanged.
    Drifted,
    /// The kernel refuses the earlier value, or the device is another one now.
    Failed,
}

/// An attribute in a rollback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Path of the attribute.
    pub path: String,
    /// Value before the change.
    pub before: Option<String>,
    /// Value after the change.
    pub left: Option<String>,
    /// Value at the start of the rollback.
    pub found: Option<String>,
    /// Value now.
    pub now: Option<String>,
    /// Outcome.
    pub fate: Fate,
    /// Reason, if it helps.
    pub why: Option<String>,
}

impl Outcome {
    /// Whether it has its earlier value.
    pub fn is_back(&self) -> bool {
        matches!(self.fate, Fate::Already | Fate::Restored | Fate::RestoredBlind)
    }
}

/// Origin of an attribute's value, by comparison with the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeState {
    AsBefore,
    Ours,
    /// Probably Hone's value: after a crash it is unknown whether the kernel or another process has set it.
    Unclear,
    Foreign,
}

/// Number of repeated writes of a value that does not stay.
const ATTEMPTS: usize = 3;
const BETWEEN_ATTEMPTS: std::time::Duration = std::time::Duration::from_millis(20);

/// Rolls a change back, and closes its journal. `force` also overwrites values that another process has set since.
///
/// # Errors
/// Returns an error when the journal can't be written. A value that the kernel refuses is an outcome, and the other values are still
/// restored.
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

/// The attributes without their earlier value.
pub(crate) fn not_back(outcomes: &[Outcome]) -> Vec<String> {
    outcomes.iter().filter(|outcome| !outcome.is_back()).map(|outcome| outcome.path.clone()).collect()
}

/// Rolls back the values of a change, and leaves its journal open for other parts of it.
///
/// # Errors
/// Returns the errors of [`revert`].
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
            // A process that keeps an attribute busy (EBUSY) may have released it by then.
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
        if !pass(kernel, log, state, &targets, &order, &mut refused)? {
            break;
        }
    }
    Ok(outcomes(kernel, state, &found, &standing, &lost, &refused))
}

/// The target value of an attribute: its earlier value, or the value that another process has set since. The latter must be written, too,
/// if the rollback of a scheduler has changed it.
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

/// Current values by origin, so that an interrupted rollback can continue.
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

/// Writes every attribute that does not have its target value. Returns whether it wrote any.
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

/// Whether no write is needed. Of a pair only the effective one is written: the kernel then sets the other to 0, and rejects a written 0
/// for the bytes. If both must be 0, only the ratio is written.
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

/// The attributes among these that a write of this one can change.
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

/// Devices of the journal whose name belongs to another device now.
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

/// The process that set a scheduler has also reset its queue's attributes.
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

/// Whether an attribute has this value, together with its rival: the two are one setting.
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
        // Only the kernel sets the rival to 0 without changing the value.
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
                        "someone else has set it since"
                    } else {
                        "someone else has set it since, and the rollback has changed it along with \
                         another attribute"
                    };
                    (Fate::Drifted, Some(why.to_owned()))
                }
                _ if !is_back => (Fate::Failed, refused.get(path).cloned()),
                Some(AttributeState::Unclear) => (
                    Fate::RestoredBlind,
                    Some("a crash hides whether the kernel or someone else had set it".to_owned()),
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
