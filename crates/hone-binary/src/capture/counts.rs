//! The counts that a training must add to those of an idle program.
//!
//! A load may succeed and have reached nothing: if no process accepts its connections, or if the processes that served it lose their
//! counts. Start, idle time and stop count as well, so a profile that is not empty proves nothing. No count shows how a load was answered:
//! refusals run code, too.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::refusal::CaptureRefusal;
use crate::bolt::fdata::{self, FdataFault};
use crate::bolt::refusal::BoltRefusal;
use crate::profile::Profile;
use crate::refusal::Refusal;

/// An idle program may count this many times as much per second as in the rehearsal: a choice, not a constant of nature.
const TIMES: f64 = 2.0;

/// A load with a smaller share of the idle counts than this has next to no effect: a choice, too. A start may well count a hundred times as
/// much as a load that was adapted to a slow program.
const LEAST_SHARE: f64 = 0.001;

/// This few counts are no load, even if an idle program counts nothing: a connection of the filling that the program closes a moment after
/// the reset leaves a handful. One request of any program that is worth a profile leaves more.
const LEAST_COUNTS: f64 = 32.0;

/// The counts of an instrumented program, whatever its instrumentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// The counts of each function that ran.
    counts: BTreeMap<String, u64>,
}

/// Rehearsals: the program was started, left idle, and stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Idle {
    /// Its counts.
    pub tally: Tally,
    /// How long it counted, in seconds.
    pub counted_s: f64,
    /// The same after a shorter time, in seconds, if the start counts: the difference separates the counts of the start from those of idle
    /// time. `None` if the counters were 0 at the beginning.
    pub shorter: Option<(Tally, f64)>,
}

impl Tally {
    /// Sums up counts by function, without functions that did not run.
    pub(crate) fn from_counts(counts: impl IntoIterator<Item = (String, u64)>) -> Self {
        let mut tally = Self::default();
        for (name, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
            let sum = tally.counts.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        tally
    }

    pub(crate) fn of_profile(profile: &Profile) -> Self {
        Self::from_counts(
            profile.functions.iter().map(|function| (function.name.clone(), function.total_count)),
        )
    }

    /// For BOLT's profiles; a program that ran none of its code has an empty one.
    ///
    /// # Errors
    /// Fails when one can't be read or is broken.
    pub fn of_fdata(files: &[PathBuf]) -> Result<Self> {
        let mut all = Vec::new();
        for file in files {
            let counts = match fdata::counts(file) {
                Err(FdataFault::Empty { .. }) => continue,
                counts => counts.map_err(BoltRefusal::from).map_err(Refusal::from)?,
            };
            all.extend(counts.functions.into_iter().map(|(name, counts)| (name, counts.heat())));
        }
        Ok(Self::from_counts(all))
    }

    /// Sum of all counts.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn of_function(&self, name: &str) -> f64 {
        self.counts.get(name).map_or(0.0, |count| *count as f64)
    }

    /// Refuses a training that brought no function more than start, idle time and stop, or so little that it has no effect.
    ///
    /// # Errors
    /// [`CaptureRefusal::ReachedNothing`].
    pub fn reached(&self, idle: &Idle, trained_s: f64) -> Result<(), CaptureRefusal> {
        let beyond = |(name, count): (&String, &u64)| {
            let (count, without) = (*count as f64, idle.most_of(name, trained_s));
            (count - without).max(0.0)
        };
        let brought: f64 = self.counts.iter().map(beyond).sum();
        let without: f64 = idle.tally.counts.keys().map(|name| idle.most_of(name, trained_s)).sum();
        if brought >= (without * LEAST_SHARE).max(LEAST_COUNTS) {
            return Ok(());
        }
        Err(CaptureRefusal::ReachedNothing { counted: self.total(), idle: idle.tally.total() })
    }
}

impl Idle {
    /// The most that a function may count in this many seconds without a load. Starts differ too, so the limit allows that difference once
    /// more.
    fn most_of(&self, function: &str, trained_s: f64) -> f64 {
        let longer = self.tally.of_function(function);
        let (shorter, shorter_s) = self
            .shorter
            .as_ref()
            .map_or((0.0, 0.0), |(tally, time_s)| (tally.of_function(function), *time_s));
        let more_s = (self.counted_s - shorter_s).max(f64::MIN_POSITIVE);
        let each_s = ((longer - shorter) / more_s).clamp(0.0, f64::MAX);
        longer.max(shorter) + (longer - shorter).abs() + TIMES * each_s * trained_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(counts: &[(&str, u64)]) -> Tally {
        Tally::from_counts(counts.iter().map(|&(name, count)| (name.to_owned(), count)))
    }

    #[test]
    fn what_leaves_no_more_than_idling_has_reached_nothing() {
        let idle = Idle { tally: tally(&[("main", 5), ("wait", 1000)]), counted_s: 1.5, shorter: None };
        let reached = |counts: &[(&str, u64)], trained_s| tally(counts).reached(&idle, trained_s).is_ok();
        // It waited for 40 times as long, and only counted its waiting.
        assert!(!reached(&[("main", 5), ("wait", 60_000)], 60.0));
        assert!(reached(&[("main", 5), ("wait", 60_000), ("answer", 1000)], 60.0));
        assert!(!reached(&[("main", 5), ("wait", 60_000), ("tick", 6)], 60.0), "a timer of ten seconds");
        assert!(reached(&[("main", 5), ("wait", 200_000)], 60.0), "all of it is in one function");
        assert!(!reached(&[("main", 5), ("wait", 900)], 0.1));

        let nothing = Idle { tally: Tally::default(), counted_s: 0.0, shorter: None };
        assert!(tally(&[]).reached(&nothing, 1.0).is_err());
        assert!(tally(&[("close", 5)]).reached(&nothing, 1.0).is_err(), "the end of a connection");
        assert!(tally(&[("answer", 200)]).reached(&nothing, 1.0).is_ok());
        let told = tally(&[("main", 5)]).reached(&idle, 1.0).unwrap_err().to_string();
        assert!(told.contains("it wrote 5 counts") && told.contains("without any load write 1005"), "{told}");
    }

    /// Where the counters can't be set to 0, an index that is read at the start counts more than the load.
    #[test]
    fn a_start_that_counts_more_than_the_load_is_told_from_it() {
        let start = 2_000_000_000;
        let shorter = (tally(&[("parse", start), ("wait", 500)]), 0.5);
        let idle = Idle {
            tally: tally(&[("parse", start), ("wait", 1500)]),
            counted_s: 1.5,
            shorter: Some(shorter),
        };
        let reached = |counts: &[(&str, u64)]| tally(counts).reached(&idle, 10.0).is_ok();
        assert!(reached(&[("parse", start), ("wait", 11_000), ("answer", 60_000_000)]));
        assert!(
            reached(&[("parse", start + 60_000_000), ("wait", 11_000)]),
            "its requests are parsed as well"
        );
        assert!(!reached(&[("parse", start), ("wait", 11_000)]));
        assert!(!reached(&[("parse", start), ("wait", 11_000), ("tick", 400)]), "a timer");

        // A start that never counts the same: what lies within that is no load.
        let shorter = (tally(&[("parse", start + 5_000_000)]), 0.5);
        let idle = Idle { tally: tally(&[("parse", start)]), counted_s: 1.5, shorter: Some(shorter) };
        assert!(tally(&[("parse", start + 9_000_000)]).reached(&idle, 10.0).is_err());
        assert!(tally(&[("parse", start + 60_000_000)]).reached(&idle, 10.0).is_ok());
    }

    #[test]
    fn functions_without_counts_did_not_run() {
        let profile = Profile::parse(":ir\nf\n1\n2\n7\n3\n\ng\n1\n1\n0\n").unwrap();
        assert_eq!(Tally::of_profile(&profile), tally(&[("f", 10)]));
        assert_eq!(tally(&[("f", u64::MAX), ("f", 1), ("g", 0)]), tally(&[("f", u64::MAX)]));
    }
}
