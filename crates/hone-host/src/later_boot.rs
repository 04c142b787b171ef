//! The part of a change that is in force in a later boot than its own: the values that its files have set again.
//!
//! A value that equals the requested one comes from the change, and can be rolled back; any other value comes from that boot. A disk is
//! recognized by an attribute that stays with it, whatever its name is now.

use crate::change::{closure_of, says, snapshot};
use crate::disks::{Disk, look};
use crate::journal::{Begun, Entry, State, Values};
use crate::kernel::{Kernel, plain_value};

/// A change in this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Here {
    /// Its journal, converted to this boot.
    pub state: State,
    /// Requested values of its files that are not in force: attribute and value.
    pub elsewise: Vec<(String, String)>,
}

/// The part of a change in this boot; `None` if all of it ended with its own boot.
pub fn here(kernel: &dyn Kernel, state: &State, boot_id: &str) -> Option<Here> {
    if state.begun.boot_id == boot_id {
        return Some(Here { state: state.clone(), elsewise: Vec::new() });
    }
    if state.files.is_empty() {
        return None;
    }
    let first = state.first.as_deref().unwrap_or(&state.begun);
    let disks = renamed(kernel, &first.disks);
    let named = |path: &str| names(path, &disks);
    let wanted: Vec<(String, String)> = first
        .wanted
        .iter()
        .flat_map(|(path, value)| named(path).into_iter().map(|path| (path, value.clone())))
        .collect();
    let before: Values = first
        .before
        .iter()
        .flat_map(|(path, text)| named(path).into_iter().map(|path| (path, text.clone())))
        .collect();
    let (ours, elsewise): (Vec<_>, Vec<_>) =
        wanted.iter().cloned().partition(|(path, value)| says(kernel, path, value));
    let touched: Vec<String> = ours.iter().flat_map(|(path, _)| closure_of(path, &before)).collect();
    let left = snapshot(kernel, &touched);
    let before: Values = before.into_iter().filter(|(path, _)| left.contains_key(path)).collect();
    let disks = disks.into_iter().map(|(_, disk)| disk).collect();
    let begun = Begun { boot_id: boot_id.to_owned(), wanted, disks, before, ..first.clone() };
    let state = State {
        begun,
        first: Some(Box::new(first.clone())),
        left,
        applied: true,
        confirmed: state.confirmed,
        files: state.files.clone(),
        closed: state.closed,
        left_behind: state.left_behind.clone(),
        ..State::default()
    };
    Some(Here { state, elsewise })
}

/// The line that converts a journal to this boot.
pub(crate) fn again(state: &State) -> Entry {
    Entry::Again {
        boot_id: state.begun.boot_id.clone(),
        disks: state.begun.disks.clone(),
        before: state.begun.before.clone(),
        left: state.left.clone(),
    }
}

/// Each disk by its old name, with its current names: none if it is gone, and several if there are several paths to it.
fn renamed(kernel: &dyn Kernel, disks: &[Disk]) -> Vec<(String, Disk)> {
    let present: Vec<Disk> = kernel.list("sys/block").iter().map(|name| look(kernel, name)).collect();
    let is_it = |now: &Disk, then: &Disk| match (&now.identity.stable, &then.identity.stable) {
        (Some((attribute, text)), Some((then_attribute, then_text))) => {
            attribute == then_attribute && plain_value(text) == plain_value(then_text)
        }
        _ => false,
    };
    disks
        .iter()
        .flat_map(|then| {
            let now = present.iter().filter(|now| is_it(now, then));
            now.map(|now| (then.name.clone(), now.clone()))
        })
        .collect()
}

/// An attribute by the current names of its disk. An attribute without a disk keeps its name.
fn names(path: &str, disks: &[(String, Disk)]) -> Vec<String> {
    let Some((device, file)) = path.strip_prefix("sys/block/").and_then(|path| path.split_once('/')) else {
        return vec![path.to_owned()];
    };
    let of_it = disks.iter().filter(|(then, _)| then == device);
    of_it.map(|(_, now)| format!("sys/block/{}/{file}", now.name)).collect()
}
