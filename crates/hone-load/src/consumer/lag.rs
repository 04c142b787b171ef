//! Lag of the slowest consumer in each second of a window: the largest value in it. The code is pure.
//!
//! A consumer falls behind between two answers, and catches up with each. Its lag at one moment, such as the end of a second, only shows
//! the position in this cycle.

use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;

/// Records unread this long after the window's end are a backlog. Earlier, most of them are in flight: 1,500 records/s that take 2 ms each
/// keep three records in flight at any moment.
const GRACE_NS: u64 = 100_000_000;

/// The seconds of a window.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Finished seconds.
    seconds: Vec<u64>,
    /// Largest lag in the current second.
    most: Option<u64>,
    /// Nanoseconds of the window at each lag.
    levels: BTreeMap<u64, u64>,
    /// Time and lag of the last look.
    last: Option<(u64, u64)>,
    /// Lag at the first look after the grace period.
    end: Option<u64>,
}

/// Lag of a window, in records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WindowLag {
    /// Maximum of each second, the current one included.
    pub(crate) seconds: Vec<u64>,
    /// Median over time; `None` without a look.
    pub(crate) p50: Option<u64>,
    /// 99th percentile over time.
    pub(crate) p99: Option<u64>,
    /// Lag 100 ms after the window closed, or zero if everything was read before.
    pub(crate) end: Option<u64>,
}

impl Lag {
    /// Adds the lag at this time after the start of a window of this length.
    pub(crate) fn note(&mut self, at_ns: u64, duration_ns: u64, behind: u64) {
        let seconds = duration_ns.div_ceil(SECOND_NS);
        let end_ns = |second: u64| ((second + 1) * SECOND_NS).min(duration_ns);
        while (self.seconds.len() as u64) < seconds && at_ns >= end_ns(self.seconds.len() as u64) {
            // A second without a look takes the value of the first look after it.
            self.seconds.push(self.most.take().unwrap_or(behind));
        }
        if at_ns < duration_ns {
            self.most = Some(self.most.unwrap_or(0).max(behind));
        }
        // Until this look the lag had the value of the last one.
        let (from_ns, level) = self.last.unwrap_or((0, behind));
        let passed_ns = at_ns.min(duration_ns).saturating_sub(from_ns);
        if passed_ns > 0 {
            *self.levels.entry(level).or_default() += passed_ns;
        }
        if at_ns >= duration_ns.saturating_add(GRACE_NS) && self.end.is_none() {
            self.end = Some(behind);
        }
        self.last = Some((at_ns, behind));
    }

    /// The lag that this share of the time did not exceed.
    fn quantile(&self, quantile: f64) -> Option<u64> {
        let whole_ns: u64 = self.levels.values().sum();
        let mut passed_ns = 0;
        let reaches = |(_, ns): &(&u64, &u64)| {
            passed_ns += **ns;
            passed_ns as f64 >= quantile * whole_ns as f64
        };
        self.levels.iter().find(reaches).map(|(level, _)| *level)
    }

    /// All seconds, the current one included.
    pub(crate) fn finish(self) -> WindowLag {
        let (p50, p99) = (self.quantile(0.5), self.quantile(0.99));
        let end = self.end.or(self.last.map(|(_, behind)| behind));
        WindowLag { seconds: self.seconds.into_iter().chain(self.most).collect(), p50, p99, end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seen(duration_ms: u64, looks: &[(u64, u64)]) -> WindowLag {
        let mut lag = Lag::default();
        looks.iter().for_each(|(at_ms, behind)| lag.note(at_ms * MS, duration_ms * MS, *behind));
        lag.finish()
    }

    fn seconds(duration_ms: u64, looks: &[(u64, u64)]) -> Vec<u64> {
        seen(duration_ms, looks).seconds
    }

    /// A moment of 90 records in a second is not what it mostly is, nor what is left in the end.
    #[test]
    fn a_moment_is_not_the_whole_window() {
        let looks = [(0, 2), (400, 90), (405, 3), (600, 2), (1_000, 1), (1_050, 40), (1_120, 1), (1_500, 0)];
        let seen = seen(1_000, &looks);
        assert_eq!((seen.p50, seen.p99, seen.end), (Some(2), Some(3), Some(1)));
        assert_eq!(seen.seconds, [90]);
        // All was read before the grace was over: nothing is left.
        assert_eq!(super::tests::seen(1_000, &[(0, 5), (1_010, 0)]).end, Some(0));
        assert_eq!(
            super::tests::seen(1_000, &[]),
            WindowLag { seconds: vec![], p50: None, p99: None, end: None }
        );
    }

    #[test]
    fn a_peak_between_the_ends_of_seconds_is_seen() {
        let looks = [(0, 0), (400, 90), (401, 0), (999, 7), (1_000, 0), (1_500, 3), (1_999, 0), (2_001, 0)];
        assert_eq!(seconds(2_000, &looks), [90, 3]);
    }

    #[test]
    fn a_second_in_which_nobody_looked_is_as_the_first_look_behind_it() {
        assert_eq!(seconds(4_000, &[(100, 5), (3_100, 40), (3_200, 1), (9_000, 0)]), [5, 40, 40, 40]);
    }

    #[test]
    fn the_last_second_counts_when_it_is_short_or_nobody_looked_behind_it() {
        assert_eq!(seconds(2_500, &[(100, 1), (1_100, 2), (2_100, 3), (2_700, 99)]), [1, 2, 3]);
        assert_eq!(seconds(2_000, &[(100, 1), (1_100, 2)]), [1, 2]);
        assert_eq!(seconds(1_000, &[]), [0; 0]);
    }
}
