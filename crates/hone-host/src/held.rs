//! Changes that are not rolled back, as they are in this boot: their values, drift, and the state of their watchdogs. This module writes
//! nothing.

use std::collections::BTreeSet;
use std::path::Path;

use crate::commit::{Known, boot_id, is_guard, name_of, since_boot_s};
use crate::kernel::{Files, Kernel as _, plain_value};
use crate::later_boot::{self, Here};

/// A change that is not rolled back, as it is in this boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenChange {
    /// Id of the change.
    pub id: String,
    /// Name of the profile.
    pub profile: String,
    /// Whether it is confirmed.
    pub confirmed: bool,
    /// Whether it was made in an earlier boot.
    pub earlier_boot: bool,
    /// Whether all its values ended with that boot, so that only its journal is left.
    pub gone: bool,
    /// For a change that waits for its confirmation: time of the rollback, and whether its watchdog is alive.
    pub guard: Option<Guarded>,
    /// Attributes, without those that a later change has touched.
    pub attributes: Vec<Attribute>,
}

/// The rollback watchdog of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guarded {
    /// Time until the rollback.
    pub seconds_left: u64,
    /// Whether its process is alive.
    pub lives: bool,
}

/// An attribute of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its path, without the leading `/`.
    pub path: String,
    /// Value before the change.
    pub before: Option<String>,
    /// Value after the change.
    pub left: Option<String>,
    /// Value now.
    pub now: Option<String>,
}

impl Attribute {
    /// Whether the change modified its value.
    pub fn is_changed(&self) -> bool {
        self.left != self.before
    }

    /// Whether another process has set it since.
    pub fn has_drifted(&self) -> bool {
        self.now != self.left
    }
}

/// Changes that are not rolled back, the oldest first, as far as their journals can be read.
pub fn held(root: &Path, known: &Known) -> Vec<OpenChange> {
    let files = Files::new(root);
    let boot = boot_id(&files).ok();
    let mut above: BTreeSet<String> = BTreeSet::new();
    let mut all = Vec::new();
    for (path, state) in known.states.iter().rev().filter(|(_, state)| !state.closed) {
        let boot = boot.as_deref().unwrap_or(&state.begun.boot_id);
        let here = later_boot::here(&files, state, boot);
        let mut attributes = here.as_ref().map(|here| attributes(&files, here)).unwrap_or_default();
        attributes.retain(|attribute| !above.contains(&attribute.path));
        above.extend(attributes.iter().map(|attribute| attribute.path.clone()));
        let id = name_of(path);
        let guard = |(pid, deadline_s): (u32, u64)| Guarded {
            seconds_left: deadline_s.saturating_sub(since_boot_s()),
            lives: is_guard(pid, &id),
        };
        all.push(OpenChange {
            profile: state.begun.profile.clone(),
            confirmed: state.confirmed,
            earlier_boot: state.begun.boot_id != boot,
            gone: here.is_none(),
            guard: state.armed.filter(|_| !state.confirmed && state.begun.boot_id == boot).map(guard),
            attributes,
            id,
        });
    }
    all.reverse();
    all
}

fn attributes(files: &Files, here: &Here) -> Vec<Attribute> {
    let plain = |text: Option<&String>| text.map(|text| plain_value(text));
    let says = |path: &str| files.read(path).ok().map(|text| plain_value(&text));
    let of_values = here.state.left.iter().map(|(path, left)| Attribute {
        path: path.clone(),
        before: plain(here.state.begun.before.get(path).and_then(Option::as_ref)),
        left: plain(left.as_ref()),
        now: says(path),
    });
    let of_files = here.elsewise.iter().map(|(path, value)| Attribute {
        path: path.clone(),
        before: None,
        left: Some(plain_value(value)),
        now: says(path),
    });
    of_values.chain(of_files).collect()
}
