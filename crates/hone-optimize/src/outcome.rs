//! What came of the variants so far, and what became of those that failed.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_binary::{Built, Merged, Proven, Refusal};
use hone_record::{Foretelling, Harm, ProfileApplied, Rewriting, SmokeTest, Workload};
use hone_tool::{ToolError, interrupt};
use serde::{Deserialize, Serialize};

use hone_experiment::variants::Profile;

/// A profile that may be used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) merged: Merged,
    pub(crate) proven: Proven,
}

/// What came of the variants so far, by their places in the tree.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(crate) made: BTreeMap<usize, Built>,
    /// Their further builds, where several were asked for.
    pub(crate) layouts: BTreeMap<usize, Vec<Built>>,
    pub(crate) left_out: BTreeMap<usize, String>,
    /// The profiles that shaped them.
    pub(crate) shaped: BTreeMap<usize, (Proven, ProfileApplied)>,
    pub(crate) rewritten: BTreeMap<usize, Rewriting>,
    pub(crate) checked: BTreeMap<usize, SmokeTest>,
    /// What was said of their layouts before they were measured.
    pub(crate) foretold: BTreeMap<usize, Foretelling>,
    pub(crate) harms: BTreeMap<usize, Harm>,
}

impl Outcomes {
    /// Of a variant that failed after it was made.
    pub(crate) fn leave_out(&mut self, index: usize, why: String) {
        self.made.remove(&index);
        self.layouts.remove(&index);
        self.left_out.insert(index, why);
    }
}

/// A profile, or why there is none.
pub(crate) type Profiles = BTreeMap<Profile, Result<Taken, String>>;

/// The refusal in an error, if it is one.
pub(crate) fn refused(error: &anyhow::Error) -> Option<&Refusal> {
    error.downcast_ref::<Refusal>()
}

/// Why a variant is left out; an error that says nothing of the variant goes on as one.
///
/// # Errors
/// With what ends the run: an interrupt, a full disk, a phase that is not the wanted one.
pub(crate) fn left_out(error: anyhow::Error) -> Result<String> {
    let failed = matches!(
        error.downcast_ref::<ToolError>(),
        Some(
            ToolError::Failed { .. }
                | ToolError::TimedOut { .. }
                | ToolError::Died { .. }
                | ToolError::NothingProduced { .. }
        )
    );
    if interrupt::requested() {
        return Err(error);
    }
    // Both tell all that there is to tell; the step's name would stand in front.
    if let Some(refusal) = refused(&error) {
        return Ok(refusal.to_string());
    }
    match error.downcast_ref::<Left>() {
        Some(Left(why)) => Ok(why.clone()),
        None if failed => Ok(format!("{error:#}")),
        None => Err(error),
    }
}

/// Begins the notes of what failed.
pub(crate) const FAILED: &str = "steps/failed-";

/// A variant that can't be had, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Left(pub(crate) String);

/// An error in one line.
pub(crate) fn in_a_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A load long enough to touch what it needs, and no longer.
pub(crate) fn short(workload: &Workload) -> Workload {
    /// Seconds.
    pub(crate) const SHORT_S: f64 = 1.0;
    Workload { duration_s: workload.duration_s.min(SHORT_S), ..workload.clone() }
}
