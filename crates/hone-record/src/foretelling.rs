//! A prediction about a layout before it runs, and its comparison with the measured result.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;
use crate::diagnosis::CodeLayout;

/// The predicted effect of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// Less CPU.
    Gain,
    /// More CPU.
    Harm,
    /// Neither.
    Nothing,
    /// Some figures improve and others get worse.
    Open,
}

impl Expectation {
    /// Whether the prediction was right, once there is a verdict. `None` while the result is inconclusive, or if nothing was predicted.
    pub fn came_true(self, verdict: Verdict) -> Option<bool> {
        match (self, verdict) {
            (Self::Open, _) | (_, Verdict::NotShown) => None,
            (Self::Gain, found) => Some(found == Verdict::Better),
            (Self::Harm, found) => Some(found == Verdict::Worse),
            (Self::Nothing, found) => Some(found == Verdict::Equivalent),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Gain => "a gain",
            Self::Harm => "harm",
            Self::Nothing => "no difference",
            Self::Open => "open",
        })
    }
}

/// Execution of a program in its current layout and in a candidate layout, by windows of the recorded order, replayed on both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foretelling {
    /// The traced program, in words.
    pub source: String,
    /// The current layout. Its misses are of the windows, like those of the candidate.
    pub before: CodeLayout,
    /// The candidate layout.
    pub now: CodeLayout,
    /// Instructions in the windows.
    pub replayed: u64,
    /// The predicted effect.
    pub expected: Expectation,
    /// The rule that gives the prediction, with the values that it used.
    pub rule: String,
}

/// A prediction about a change, and its comparison with the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foretold {
    /// The predicted effect.
    pub expected: Expectation,
    /// The rule of the prediction.
    pub rule: String,
    /// Whether the measurement agrees; `None` while the result is inconclusive, or if nothing was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_true: Option<bool>,
}

impl Foretelling {
    /// A prediction before the measurement.
    pub fn ahead(&self) -> Foretold {
        Foretold { expected: self.expected, rule: self.rule.clone(), came_true: None }
    }

    /// A prediction with the verdict of the measurement.
    pub fn beside(&self, verdict: Verdict) -> Foretold {
        let (expected, rule) = (self.expected, self.rule.clone());
        Foretold { expected, rule, came_true: expected.came_true(verdict) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_tells_right_from_wrong_and_the_lack_of_one_does_not() {
        assert_eq!(Expectation::Gain.came_true(Verdict::Better), Some(true));
        assert_eq!(Expectation::Gain.came_true(Verdict::Equivalent), Some(false));
        assert_eq!(Expectation::Gain.came_true(Verdict::NotShown), None);
        assert_eq!(Expectation::Nothing.came_true(Verdict::Equivalent), Some(true));
        assert_eq!(Expectation::Nothing.came_true(Verdict::Better), Some(false));
        assert_eq!(Expectation::Harm.came_true(Verdict::Worse), Some(true));
        assert_eq!(Expectation::Open.came_true(Verdict::Worse), None);
    }
}
