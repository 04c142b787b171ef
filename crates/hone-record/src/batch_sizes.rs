//! Number of batches by their size.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of batches by size, in classes of half an octave: 4 KiB to 5.66 KiB, 5.66 KiB to 8 KiB. Every power of two begins a class, so 4
/// KiB and 16 KiB lie between two classes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchSizes(BTreeMap<u8, u64>);

impl BatchSizes {
    /// Adds batches of one size.
    pub fn add(&mut self, bytes: u64, batches: u64) {
        if batches > 0 {
            *self.0.entry(size_class(bytes)).or_default() += batches;
        }
    }

    /// Adds the batches of another generator or partition.
    pub fn add_all(&mut self, other: &Self) {
        other.0.iter().for_each(|(class, batches)| *self.0.entry(*class).or_default() += batches);
    }

    /// Whether no batch was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of all batches.
    pub fn batches(&self) -> u64 {
        self.0.values().fold(0, |sum, batches| sum.saturating_add(*batches))
    }

    /// Classes with batches, in ascending order: lower and upper limit in bytes, and number of batches. The upper limit is not part of the
    /// class.
    pub fn classes(&self) -> impl Iterator<Item = (f64, f64, u64)> + '_ {
        let limit = |class: u8| (f64::from(class) / 2.0).exp2();
        self.0.iter().map(move |(class, batches)| (limit(*class), limit(class.saturating_add(1)), *batches))
    }

    /// Share of the batches below a size, 0 to 1. It is exact for powers of two.
    pub fn share_below(&self, bytes: u64) -> f64 {
        let below = self.0.range(..size_class(bytes)).map(|(_, batches)| *batches as f64).sum::<f64>();
        below / (self.batches() as f64).max(1.0)
    }
}

/// Twice the logarithm to base 2, rounded down.
fn size_class(bytes: u64) -> u8 {
    let bytes = bytes.max(1);
    let octave = bytes.ilog2();
    // Compares with the square root of two: b / 2^n >= sqrt(2) where b^2 >= 2^(2n + 1).
    let is_upper_half = u128::from(bytes) * u128::from(bytes) >= 1_u128 << (2 * octave + 1);
    (2 * octave) as u8 + u8::from(is_upper_half)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_below_a_power_of_two_are_exact() {
        let mut sizes = BatchSizes::default();
        assert!(sizes.is_empty() && sizes.share_below(4_096) == 0.0);
        [(100, 3), (4_095, 1), (4_096, 2), (16_384, 4), (9, 0)]
            .iter()
            .for_each(|(bytes, n)| sizes.add(*bytes, *n));
        assert_eq!((sizes.batches(), sizes.share_below(4_096), sizes.share_below(16_384)), (10, 0.4, 0.6));
        let (low, high, batches) = sizes.classes().nth(2).unwrap();
        assert_eq!((low, high.round(), batches), (4_096.0, 5_793.0, 2));
        let text = serde_json::to_string(&sizes).unwrap();
        assert_eq!(text, r#"{"13":3,"23":1,"24":2,"28":4}"#);
        let mut read: BatchSizes = serde_json::from_str(&text).unwrap();
        assert_eq!(read, sizes);
        read.add_all(&sizes);
        assert_eq!(read.batches(), 20);
    }

    #[test]
    fn powers_of_two_begin_a_class_and_each_octave_has_two() {
        let classes = [1, 2, 3, 4_095, 4_096, 5_792, 5_793, 8_191, 16_383, 16_384, u64::MAX].map(size_class);
        assert_eq!(classes, [0, 2, 3, 23, 24, 24, 25, 25, 27, 28, 127]);
    }
}
