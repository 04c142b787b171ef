//! A plan that was reviewed and is applied later, or elsewhere. It holds the value of every attribute that it would change at the time of
//! planning, and is rejected if one has changed.

use std::path::Path;

use hone_format::in_plain_words;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::change::{snapshot, touched};
use crate::disks::{Disk, is_there};
use crate::journal::Values;
use crate::kernel::{Kernel, plain_value};
use crate::knob::of_path;
use crate::plan::Plan;

/// A plan with its basis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// The plan.
    pub plan: Plan,
    /// Value of every attribute that it can change, and the kernel's release.
    pub snapshot: Values,
    /// SHA-256 of both, which identifies the plan and reveals edits.
    pub hash: String,
}

/// Reasons why a saved plan is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SavedPlanError {
    /// It can't be read.
    #[error("the plan can't be read: {0}\n  next: save one with `hone host plan PROFILE --save FILE`")]
    Form(String),
    /// It was edited.
    #[error(
        "the plan was edited after it was saved\n  next: save a new one with `hone host plan PROFILE --save \
         FILE`"
    )]
    Edited,
    /// It writes an attribute that Hone does not know.
    #[error(
        "the plan writes /{path}, which this Hone does not know as a knob\n  next: save a new plan with \
         this build"
    )]
    Unknown {
        /// Path of the attribute.
        path: String,
    },
    /// The host has changed since the plan.
    #[error("the host has changed since the plan was made, so nothing is written: {}\n  next: review a new \
        plan", .differences.join("; "))]
    Changed {
        /// The differences.
        differences: Vec<String>,
    },
}

impl From<serde_json::Error> for SavedPlanError {
    fn from(error: serde_json::Error) -> Self {
        Self::Form(in_plain_words(&error.to_string()))
    }
}

const RELEASE: &str = "proc/sys/kernel/osrelease";

fn hash(plan: &Plan, snapshot: &Values) -> Result<String, serde_json::Error> {
    let text = serde_json::to_vec(&(plan, snapshot))?;
    Ok(Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect())
}

fn values(kernel: &dyn Kernel, plan: &Plan) -> Values {
    // It includes knobs that can't matter, since the user may apply these, too.
    let mut paths = touched(&plan.steps(true));
    paths.push(RELEASE.to_owned());
    snapshot(kernel, &paths)
        .into_iter()
        .map(|(path, text)| (path, text.map(|text| plain_value(&text))))
        .collect()
}

/// A plan with its basis.
///
/// # Errors
/// Returns an error when it can't be serialized.
pub fn save(kernel: &dyn Kernel, plan: Plan) -> Result<SavedPlan, serde_json::Error> {
    let snapshot = values(kernel, &plan);
    let hash = hash(&plan, &snapshot)?;
    Ok(SavedPlan { plan, snapshot, hash })
}

/// The plan, if it is unedited and the host has not changed.
///
/// # Errors
/// Returns the differences otherwise.
pub fn check(kernel: &dyn Kernel, saved: SavedPlan) -> Result<Plan, SavedPlanError> {
    if hash(&saved.plan, &saved.snapshot)? != saved.hash {
        return Err(SavedPlanError::Edited);
    }
    if let Some(step) = saved.plan.steps(true).into_iter().find(|step| of_path(&step.path).is_none()) {
        return Err(SavedPlanError::Unknown { path: step.path });
    }
    let mut differences: Vec<String> =
        saved.plan.devices().iter().filter(|disk| !is_there(kernel, disk)).map(another).collect();
    let says = |value: Option<&String>| value.map_or("(missing)", String::as_str).to_owned();
    let now = values(kernel, &saved.plan);
    for (path, then) in &saved.snapshot {
        let found = now.get(path).cloned().flatten();
        if found != *then {
            differences.push(format!("/{path} was {}, now {}", says(then.as_ref()), says(found.as_ref())));
        }
    }
    if differences.is_empty() { Ok(saved.plan) } else { Err(SavedPlanError::Changed { differences }) }
}

fn another(disk: &Disk) -> String {
    format!("{} is another disk", disk.name)
}

/// Whether a name belongs to a saved plan and not to a profile.
pub fn is_name(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|ending| ending == "json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::of_name;
    use crate::kernel::Files;
    use crate::plan::plan;
    use crate::profile;
    use crate::relevance::Facts;
    use proptest::prelude::*;
    use std::fs;

    fn host() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("sys/block/nvme0n1/wwid", "eui.01\n"),
            ("sys/block/nvme0n1/queue/scheduler", "none [mq-deadline]\n"),
            ("sys/block/nvme0n1/queue/nr_requests", "256\n"),
            ("sys/block/nvme0n1/mq/0/nr_tags", "1023\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn saved(root: &Path) -> SavedPlan {
        let files = Files::new(root);
        let (name, text) = profile::OWN[1];
        let wishes = profile::parse(name, text).unwrap();
        let data = of_name(&files, "nvme0n1").unwrap();
        let saved = save(&files, plan(&files, name, &wishes, &data, &Facts::default())).unwrap();
        // Through a file and back.
        serde_json::from_str(&serde_json::to_string(&saved).unwrap()).unwrap()
    }

    #[test]
    fn a_host_that_is_the_same_takes_it() {
        let root = host();
        let saved = saved(root.path());
        assert_eq!(saved.hash.len(), 64);
        assert!(!saved.plan.steps(false).is_empty());
        assert_eq!(check(&Files::new(root.path()), saved.clone()).unwrap(), saved.plan);
    }

    #[test]
    fn a_host_that_has_changed_does_not() {
        for (path, text, told) in [
            ("proc/sys/vm/swappiness", "10\n", "/proc/sys/vm/swappiness was 60, now 10"),
            ("sys/block/nvme0n1/wwid", "eui.02\n", "nvme0n1 is another disk"),
            // Not asked for, but what the way back would have to restore.
            ("sys/block/nvme0n1/queue/nr_requests", "64\n", "nr_requests was 256, now 64"),
            ("proc/sys/kernel/osrelease", "6.2.0\n", "osrelease"),
        ] {
            let root = host();
            let saved = saved(root.path());
            fs::write(root.path().join(path), text).unwrap();
            let error = check(&Files::new(root.path()), saved).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn an_edited_plan_is_none() {
        let root = host();
        let mut edited = saved(root.path());
        edited.plan.rows[0].wanted = "kyber".to_owned();
        assert!(matches!(check(&Files::new(root.path()), edited), Err(SavedPlanError::Edited)));
        let mut foreign = saved(root.path());
        foreign.plan.rows[0].path = "proc/sys/kernel/core_pattern".to_owned();
        foreign.hash = hash(&foreign.plan, &foreign.snapshot).unwrap();
        assert!(matches!(check(&Files::new(root.path()), foreign), Err(SavedPlanError::Unknown { .. })));
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*") {
            prop_assert!(serde_json::from_str::<SavedPlan>(&text).is_err());
        }
    }
}
