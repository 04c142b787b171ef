//! The results of the variants, and the failures.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_binary::{Built, Merged, Proven, Refusal};
use hone_record::{Foretelling, Harm, ProfileApplied, Rewriting, SmokeTest, Workload};
use hone_tool::{ToolError, interrupt};
use serde::{Deserialize, Serialize};

use hone_experiment::variants::Profile;

/// A usable profile.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) merged: Merged,
    pub(crate) proven: Proven,
}

/// The results of the variants, by their places in the tree.
#[derive(Default)]
pub(crate) struct Outcomes {
    pub(crate) made: BTreeMap<usize, Built>,
    /// Their further builds, if the user asked for several.
    pub(crate) layouts: BTreeMap<usize, Vec<Built>>,
    pub(crate) left_out: BTreeMap<usize, String>,
    /// The profiles that the builds used.
    pub(crate) shaped: BTreeMap<usize, (Proven, ProfileApplied)>,
    pub(crate) rewritten: BTreeMap<usize, Rewriting>,
    pub(crate) checked: BTreeMap<usize, SmokeTest>,
    /// The predictions for their layouts, before the measurement.
    pub(crate) foretold: BTreeMap<usize, Foretelling>,
    pub(crate) harms: BTreeMap<usize, Harm>,
}

impl Outcomes {
    /// Records a variant that failed after it was made.
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

/// Why a variant is left out. An error that says nothing about the variant stays an error.
///
/// # Errors
/// Returns errors that end the run: an interrupt, a full disk, another phase than the requested one.
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
    // Both texts are complete, so the step's name need not precede them.
    if let Some(refusal) = refused(&error) {
        return Ok(refusal.to_string());
    }
    match error.downcast_ref::<Left>() {
        Some(Left(why)) => Ok(why.clone()),
        None if failed => Ok(format!("{error:#}")),
        None => Err(error),
    }
}

/// Begins the names of failure notes.
pub(crate) const FAILED: &str = "steps/failed-";

/// A variant that can't be made, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Left(pub(crate) String);

/// An error in one line.
pub(crate) fn in_a_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

/// A load just long enough to exercise what it needs.
pub(crate) fn short(workload: &Workload) -> Workload {
    /// Seconds.
    pub(crate) const SHORT_S: f64 = 1.0;
    Workload { duration_s: workload.duration_s.min(SHORT_S), ..workload.clone() }
}
