//! Counts by size in buckets whose width grows with the size: at most 1/32 of it, whatever the size.

/// Buckets of a power of two.
const STEPS: usize = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// Sizes up to 2^40; larger ones count as that.
const OCTAVES: usize = 36;
const BUCKETS: usize = STEPS * (OCTAVES + 1);

/// Weighted counts of whole numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    weights: Box<[u64]>,
    total: u64,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { weights: vec![0; BUCKETS].into(), total: 0, least: u64::MAX, most: 0 }
    }
}

impl Histogram {
    /// Adds a value with a weight; a weight of 0 changes nothing.
    pub fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        let bucket = &mut self.weights[bucket_of(value)];
        *bucket = bucket.saturating_add(weight);
        self.total = self.total.saturating_add(weight);
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// Takes another one in.
    pub fn merge(&mut self, other: &Self) {
        for (own, more) in self.weights.iter_mut().zip(&other.weights) {
            *own = own.saturating_add(*more);
        }
        self.total = self.total.saturating_add(other.total);
        self.least = self.least.min(other.least);
        self.most = self.most.max(other.most);
    }

    /// Sum of the weights.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The smallest value; `None` where there is none.
    pub fn least(&self) -> Option<u64> {
        (self.total > 0).then_some(self.least)
    }

    /// The largest value.
    pub fn most(&self) -> Option<u64> {
        (self.total > 0).then_some(self.most)
    }

    /// The value with a share of the weight, 0 to 1, at or below it; exact below 64, and within 1/32 above.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = (share.clamp(0.0, 1.0) * self.total as f64).ceil().max(1.0) as u64;
        let mut sum = 0_u64;
        let found = self.weights.iter().position(|weight| {
            sum = sum.saturating_add(*weight);
            sum >= wanted
        })?;
        (self.total > 0).then(|| top_of(found).clamp(self.least, self.most))
    }
}

/// Below twice the steps, every value has its own bucket.
fn bucket_of(value: u64) -> usize {
    let steps = STEPS as u64;
    if value < 2 * steps {
        return value as usize;
    }
    let octave = value.ilog2() - STEP_BITS;
    let within = (value >> octave) - steps;
    (octave as usize * STEPS + STEPS + within as usize).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    if bucket < 2 * STEPS {
        return bucket as u64;
    }
    let (octave, within) = (bucket / STEPS - 1, bucket % STEPS);
    (((STEPS + within + 1) as u64) << octave) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn small_values_are_exact_and_an_empty_one_has_none() {
        let mut found = Histogram::default();
        assert_eq!((found.quantile(0.5), found.least()), (None, None));
        for value in 1..=50 {
            found.add(value, 1);
        }
        assert_eq!(
            (found.quantile(0.5), found.quantile(1.0), found.quantile(0.0)),
            (Some(25), Some(50), Some(1))
        );
        assert_eq!(found.total(), 50);
    }

    #[test]
    fn weights_move_the_middle() {
        let mut found = Histogram::default();
        found.add(100, 10);
        found.add(10_000, 1);
        assert_eq!(found.quantile(0.5), Some(101));
        let mut by_bytes = Histogram::default();
        by_bytes.add(100, 10 * 100);
        by_bytes.add(10_000, 10_000);
        assert_eq!(by_bytes.quantile(0.5), Some(10_000), "held by the largest value that there was");
        found.merge(&by_bytes);
        assert_eq!(found.total(), 11_011);
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket_and_that_is_narrow(value in 0_u64..1 << 40) {
            let bucket = bucket_of(value);
            prop_assert!(top_of(bucket) >= value);
            prop_assert!(bucket == 0 || top_of(bucket - 1) < value);
            prop_assert!(top_of(bucket) - value <= value / 32);
        }

        #[test]
        fn any_value_has_a_bucket(value: u64, weight: u64) {
            let mut found = Histogram::default();
            found.add(value, weight);
            found.add(value, weight);
            prop_assert_eq!(found.quantile(0.5).is_some(), weight > 0);
        }
    }
}
