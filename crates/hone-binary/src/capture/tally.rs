//! What a training must leave beside what a program counts anyway.
//!
//! A load may end well and have reached nothing: one of HTTP whose requests are all refused, or one that was served by processes
//! whose counts are lost. Start, idling and stop count as well, so a profile that is not empty shows nothing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;

use super::CaptureRefusal;
use crate::Refusal;
use crate::bolt::BoltRefusal;
use crate::bolt::fdata::{self, FdataFault};
use crate::profile::Profile;

/// The counts of a training are this many times those without a load: a choice, not a constant of nature.
const TIMES: u64 = 2;

/// What a counting program left, whoever made it count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sum of all counts.
    pub total: u64,
    /// The functions that ran.
    pub ran: BTreeSet<String>,
}

/// A rehearsal: the program was started, left alone, and stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// What that left.
    pub tally: Tally,
    /// How long it counted, in seconds.
    pub counted_s: f64,
}

impl Tally {
    pub(crate) fn of_profile(profile: &Profile) -> Self {
        let ran = profile.functions.iter().filter(|function| function.max_count > 0);
        Self { total: profile.total_count, ran: ran.map(|function| function.name.clone()).collect() }
    }

    /// Of BOLT's profiles; a program that ran none of its code has an empty one.
    ///
    /// # Errors
    /// When one can't be read or is broken.
    pub fn of_fdata(files: &[PathBuf]) -> Result<Self> {
        let mut tally = Self::default();
        for file in files {
            let counts = match fdata::counts(file) {
                Err(FdataFault::Empty { .. }) => continue,
                counts => counts.map_err(BoltRefusal::from).map_err(Refusal::from)?,
            };
            tally.total = tally.total.saturating_add(counts.total);
            let ran = counts.functions.into_iter().filter(|(_, counts)| counts.heat() > 0);
            tally.ran.extend(ran.map(|(name, _)| name));
        }
        Ok(tally)
    }

    /// Refuses a training that left about what the rehearsal left. It must have twice the counts; and, since a program may count
    /// while it waits, a function that did not run in the rehearsal, or twice the counts for each second.
    ///
    /// # Errors
    /// [`CaptureRefusal::ReachedNothing`].
    pub fn reached(&self, idle: &Idle, trained_s: f64) -> Result<(), CaptureRefusal> {
        let least = idle.tally.total.max(1).saturating_mul(TIMES);
        let in_time = (trained_s / idle.counted_s.max(f64::MIN_POSITIVE)).max(1.0);
        let is_new = self.ran.iter().any(|function| !idle.tally.ran.contains(function));
        if self.total >= least && (is_new || self.total as f64 >= least as f64 * in_time) {
            return Ok(());
        }
        let (counted, idle) = (self.total, idle.tally.total);
        Err(CaptureRefusal::ReachedNothing { counted, idle })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(total: u64, ran: &[&str]) -> Tally {
        Tally { total, ran: ran.iter().map(|&name| name.to_owned()).collect() }
    }

    #[test]
    fn what_leaves_no_more_than_a_start_and_a_stop_has_reached_nothing() {
        let idle = Idle { tally: tally(1000, &["main", "wait"]), counted_s: 0.5 };
        let reached = |total, ran: &[&str], trained_s| tally(total, ran).reached(&idle, trained_s).is_ok();
        assert!(reached(2000, &["main", "answer"], 1.0));
        assert!(!reached(1999, &["main", "answer"], 1.0), "twice");
        // It waited for 60 times as long, and only counted its waiting.
        assert!(!reached(60_000, &["main", "wait"], 30.0));
        assert!(reached(60_000, &["main", "wait", "answer"], 30.0));
        assert!(reached(120_000, &["main", "wait"], 30.0), "all of it is in one function");
        assert!(reached(2000, &["main"], 0.1), "a training is never shorter than the rehearsal");

        let nothing = Idle { tally: Tally::default(), counted_s: 0.0 };
        assert!(tally(0, &[]).reached(&nothing, 1.0).is_err());
        assert!(tally(2, &["answer"]).reached(&nothing, 1.0).is_ok());
        let told = tally(900, &["main"]).reached(&idle, 1.0).unwrap_err().to_string();
        assert!(told.contains("900 counts") && told.contains("leave 1000") && told.contains("404"), "{told}");
    }

    #[test]
    fn functions_without_counts_did_not_run() {
        let profile = Profile::parse(":ir\nf\n1\n2\n7\n3\n\ng\n1\n1\n0\n").unwrap();
        assert_eq!(Tally::of_profile(&profile), tally(10, &["f"]));
    }
}
