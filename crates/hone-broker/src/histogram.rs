//! A histogram that threads count into without a lock, with bounds that double.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counts by power of two.
#[derive(Debug)]
pub(crate) struct Histogram<const BUCKETS: usize> {
    /// Upper bound of the first bucket; each further one is twice as wide.
    first: u64,
    counts: [AtomicU64; BUCKETS],
    above: AtomicU64,
    sum: AtomicU64,
}

impl<const BUCKETS: usize> Histogram<BUCKETS> {
    /// Buckets up to `first`, `2 * first`, `4 * first` and so on, and one for what is above.
    pub(crate) const fn new(first: u64) -> Self {
        Self {
            first,
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            above: AtomicU64::new(0),
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn record(&self, value: u64) {
        let steps = value.saturating_sub(1) / self.first;
        let place = (u64::BITS - steps.leading_zeros()) as usize;
        self.counts.get(place).unwrap_or(&self.above).fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
    }

    /// Upper bound and count of values up to it, for each bucket.
    pub(crate) fn cumulative(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut below = 0;
        self.counts.iter().enumerate().map(move |(place, count)| {
            below += count.load(Relaxed);
            (self.first << place, below)
        })
    }

    /// All values.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().chain([&self.above]).map(|count| count.load(Relaxed)).sum()
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_below_their_bound() {
        let histogram = Histogram::<4>::new(10);
        for value in [0, 1, 10, 11, 20, 21, 40, 41, 80, 81, u64::MAX / 2] {
            histogram.record(value);
        }
        let found: Vec<_> = histogram.cumulative().collect();
        assert_eq!(found, [(10, 3), (20, 5), (40, 7), (80, 9)]);
        assert_eq!((histogram.count(), histogram.sum()), (11, 305 + u64::MAX / 2));
    }
}
