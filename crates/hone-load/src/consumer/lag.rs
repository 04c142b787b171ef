//! How far the slowest consumer was behind in each second of a window: the most that was seen in it. Pure.
//!
//! Between two answers a consumer falls behind, and with each it catches up: what it is behind at one moment, the end of a
//! second for example, says where in this cycle the moment lies, not how far behind it gets.

const SECOND_NS: u64 = 1_000_000_000;

/// The seconds of a window.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Those that have passed.
    seconds: Vec<u64>,
    /// The most that was seen in the one that runs.
    most: Option<u64>,
}

impl Lag {
    /// So many records behind, so long after the start of a window of this length.
    pub(crate) fn note(&mut self, at_ns: u64, duration_ns: u64, behind: u64) {
        let seconds = duration_ns.div_ceil(SECOND_NS);
        let end_ns = |second: u64| ((second + 1) * SECOND_NS).min(duration_ns);
        while (self.seconds.len() as u64) < seconds && at_ns >= end_ns(self.seconds.len() as u64) {
            // A second in which nobody looked was as the first look behind it.
            self.seconds.push(self.most.take().unwrap_or(behind));
        }
        if at_ns < duration_ns {
            self.most = Some(self.most.unwrap_or(0).max(behind));
        }
    }

    /// All seconds, the one that runs included.
    pub(crate) fn finish(self) -> Vec<u64> {
        self.seconds.into_iter().chain(self.most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn seconds(duration_ms: u64, looks: &[(u64, u64)]) -> Vec<u64> {
        let mut lag = Lag::default();
        looks.iter().for_each(|(at_ms, behind)| lag.note(at_ms * MS, duration_ms * MS, *behind));
        lag.finish()
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
