//! The phases of an optimisation.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A stretch of the way that can be gone alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The plain build, its check, and the ceiling.
    Baseline,
    /// The build that counts, its training, and the proof of the profile.
    Train,
    /// All other builds, BOLT with its own training, checks and the harm watch.
    Build,
    /// The comparisons.
    Judge,
}

impl Phase {
    /// As `--only` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Train => "train",
            Self::Build => "build",
            Self::Judge => "judge",
        }
    }
}
