//! The phases of an optimisation run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// A phase of the optimisation that can run alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// The plain build, its check, and the ceiling.
    Baseline,
    /// The instrumented build, its training, and the check of the profile.
    Train,
    /// All other builds, the training for BOLT, the checks and the harm watch.
    Build,
    /// The comparisons.
    Judge,
}

impl Phase {
    /// The value of `--phase`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Train => "train",
            Self::Build => "build",
            Self::Judge => "judge",
        }
    }
}
