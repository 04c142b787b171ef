//! The file format: one JSON object that says its version and what it holds.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::batch_plan::BatchPlan;
use crate::batch_watch::{BatchCost, BatchWatch};
use crate::capacity::{Capacity, Curve};
use crate::commit_gate::CommitGate;
use crate::comparison::Comparison;
use crate::diagnosis::Diagnosis;
use crate::foretelling::Foretelling;
use crate::heatmap::Heatmap;
use crate::host_trial::HostTrial;
use crate::ledger::LedgerEntry;
use crate::machine::Machine;
use crate::optimization::Optimization;
use crate::proof::Proof;
use crate::run_summary::Story;
use crate::saved::SavedComparison;
use crate::selftest::SelfTest;
use crate::tuning::Tuning;
use crate::whatif::WhatIf;
use crate::window::Window;

/// Version of every record file that this build writes. A reader rejects a newer version instead of guessing.
pub const FORMAT_VERSION: u32 = 1;

/// A type that has record files of its own.
pub trait Body: Serialize + DeserializeOwned {
    /// The value of the `kind` field, for example `window`.
    const KIND: &'static str;
}

impl Body for BatchCost {
    const KIND: &'static str = "batch-cost";
}
impl Body for BatchPlan {
    const KIND: &'static str = "batch-plan";
}
impl Body for BatchWatch {
    const KIND: &'static str = "batch-watch";
}
impl Body for Window {
    const KIND: &'static str = "window";
}
impl Body for Comparison {
    const KIND: &'static str = "comparison";
}
impl Body for CommitGate {
    const KIND: &'static str = "commit-gate";
}
impl Body for SavedComparison {
    const KIND: &'static str = "saved-comparison";
}
impl Body for Optimization {
    const KIND: &'static str = "optimization";
}
impl Body for Capacity {
    const KIND: &'static str = "capacity";
}
impl Body for Curve {
    const KIND: &'static str = "curve";
}
impl Body for Diagnosis {
    const KIND: &'static str = "diagnosis";
}
impl Body for Foretelling {
    const KIND: &'static str = "foretelling";
}
impl Body for Heatmap {
    const KIND: &'static str = "heatmap";
}
impl Body for HostTrial {
    const KIND: &'static str = "host-trial";
}
impl Body for Machine {
    const KIND: &'static str = "machine";
}
impl Body for SelfTest {
    const KIND: &'static str = "self-test";
}
impl Body for Story {
    const KIND: &'static str = "story";
}
impl Body for WhatIf {
    const KIND: &'static str = "batch-whatif";
}
impl Body for Proof {
    const KIND: &'static str = "proof";
}
impl Body for Tuning {
    const KIND: &'static str = "tuning";
}
impl Body for LedgerEntry {
    const KIND: &'static str = "ledger-entry";
}

/// The envelope of every record: `{"hone_record": 1, "kind": "window", "body": {...}}`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope<T> {
    hone_record: u32,
    kind: String,
    body: T,
}

/// Only the head of a record file, which is enough to decide how to read the rest.
#[derive(Debug, Deserialize)]
struct Head {
    hone_record: Option<u32>,
    kind: Option<String>,
}

/// Reasons why a text is not the expected record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The text is not JSON, or its body does not have the shape of its kind.
    #[error("not a readable {wanted} record: {source}")]
    Shape {
        /// The expected kind.
        wanted: &'static str,
        /// Line, column and expectation.
        source: serde_json::Error,
    },
    /// The text is JSON, but not a Hone record.
    #[error("not a Hone record: the fields `hone_record` and `kind` are missing")]
    Foreign,
    /// A newer Hone wrote the record.
    #[error(
        "the record has format version {found}, but this build reads up to version {FORMAT_VERSION}; use a \
         newer hone"
    )]
    Newer {
        /// Version in the file.
        found: u32,
    },
    /// The record has another kind.
    #[error("the record holds a `{found}`, expected a `{wanted}`")]
    OtherKind {
        /// Kind in the file.
        found: String,
        /// The expected kind.
        wanted: &'static str,
    },
}

impl<T: Body> Envelope<T> {
    /// Puts a value into its envelope.
    pub fn new(body: T) -> Self {
        Self { hone_record: FORMAT_VERSION, kind: T::KIND.to_owned(), body }
    }

    /// Reads a record file's text.
    ///
    /// # Errors
    /// Returns an error when the text is not a record, has another kind, a newer version, or another shape.
    pub fn parse(text: &str) -> Result<T, RecordError> {
        let shape = |source| RecordError::Shape { wanted: T::KIND, source };
        let head: Head = serde_json::from_str(text).map_err(shape)?;
        let (Some(version), Some(kind)) = (head.hone_record, head.kind) else {
            return Err(RecordError::Foreign);
        };
        if version > FORMAT_VERSION {
            return Err(RecordError::Newer { found: version });
        }
        if kind != T::KIND {
            return Err(RecordError::OtherKind { found: kind, wanted: T::KIND });
        }
        let envelope: Self = serde_json::from_str(text).map_err(shape)?;
        Ok(envelope.body)
    }

    /// The record as a file's text, indented, with a final newline.
    ///
    /// # Errors
    /// Returns an error only when a number is not finite (JSON has no such value). That is a defect in the caller's arithmetic.
    pub fn to_text(&self) -> Result<String, RecordError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|source| RecordError::Shape { wanted: T::KIND, source })?;
        Self::readable(text)
    }

    /// JSON writes a number that is not finite as null, and no reader accepts that. This check finds the defect at once, and not in a year.
    fn readable(mut text: String) -> Result<String, RecordError> {
        Self::parse(&text)?;
        text.push('\n');
        Ok(text)
    }

    /// The record on one line, for append-only files and pipes.
    ///
    /// # Errors
    /// Returns the errors of [`Envelope::to_text`].
    pub fn to_line(&self) -> Result<String, RecordError> {
        let line =
            serde_json::to_string(self).map_err(|source| RecordError::Shape { wanted: T::KIND, source })?;
        Self::readable(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let message = match Envelope::<Machine>::parse(text) {
            Ok(machine) => format!("ok {}", machine.cpu_model),
            Err(error) => error.to_string(),
        };
        assert!(message.starts_with(expected), "{text}: got {message}");
    }

    /// A record that is read and written again is the same record. A parser that rounds would change the last digit of this one.
    #[test]
    fn numbers_keep_every_digit() {
        let text = "2.060124740553041e-7";
        assert_eq!(
            serde_json::from_str::<f64>(text).unwrap().to_bits(),
            text.parse::<f64>().unwrap().to_bits()
        );
    }

    #[test]
    fn a_machine_survives_the_round_trip() {
        let machine = Machine { cpu_model: "Example 9".into(), cores: 2, ..Machine::default() };
        let text = Envelope::new(machine.clone()).to_text().unwrap();
        assert_eq!(Envelope::<Machine>::parse(&text).unwrap(), machine);
    }

    #[test]
    fn a_number_that_cannot_be_read_again_is_not_written() {
        for load_average_1m in [f64::NAN, f64::INFINITY] {
            let machine = Machine { load_average_1m, ..Machine::default() };
            assert!(Envelope::new(machine.clone()).to_text().is_err());
            assert!(Envelope::new(machine).to_line().is_err());
        }
    }

    #[test]
    fn what_is_not_a_record_is_refused_by_name() {
        check("", "not a readable machine record: EOF");
        check("{}", "not a Hone record");
        check(r#"{"hone_record": 2, "kind": "machine"}"#, "the record has format version 2");
        check(r#"{"hone_record": 1, "kind": "window"}"#, "the record holds a `window`");
        check(
            r#"{"hone_record": 1, "kind": "machine"}"#,
            "not a readable machine record: missing field `body`",
        );
    }
}
