//! What is said of a layout before it runs, to be held against what is measured of it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;
use crate::diagnosis::CodeLayout;

/// What is expected of a layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expectation {
    /// Less CPU.
    Gain,
    /// More CPU.
    Harm,
    /// Neither.
    Nothing,
    /// Some figures become better and others worse.
    Open,
}

impl Expectation {
    /// Whether it was right, once there is a verdict; `None` while nothing is shown, or nothing was expected.
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

/// What ran of a program, as it lay and as a candidate would have it lie: by windows of the recorded order, replayed on both.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Foretelling {
    /// What was traced, in words.
    pub source: String,
    /// As it lay. Misses are of the windows, as they are of the candidate.
    pub before: CodeLayout,
    /// As the candidate has it.
    pub now: CodeLayout,
    /// Instructions in the windows.
    pub replayed: u64,
    /// What follows.
    pub expected: Expectation,
    /// The rule that says so, with the values that it saw.
    pub rule: String,
}

/// What was foretold of a change, beside what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foretold {
    /// What was expected.
    pub expected: Expectation,
    /// By which rule.
    pub rule: String,
    /// Whether that is what was measured; `None` while nothing is shown, or nothing was expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub came_true: Option<bool>,
}

impl Foretelling {
    /// As long as nothing was measured.
    pub fn ahead(&self) -> Foretold {
        Foretold { expected: self.expected, rule: self.rule.clone(), came_true: None }
    }

    /// Beside a verdict.
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
