//! How records without a key move between partitions, and whether a client's own partitioner explains it.

use std::collections::BTreeMap;

use super::stream::{NO_KEY, Stream};

/// This part of a sticky partitioner's effect beyond chance makes a producer sticky.
const STICKY: f64 = 0.7;
/// Fewer stays than expected count as chance up to this many standard deviations.
const BY_CHANCE: f64 = 3.0;
/// A partition with this multiple of its share is hot, if chance does not explain it by this many standard deviations.
const HOT: f64 = 1.25;
const NO_CHANCE: f64 = 4.0;

/// How records without a key move between partitions.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    records: u64,
    same: u64,
    by_partition: BTreeMap<u32, u64>,
    span_us: u64,
}

impl Moves {
    pub(crate) fn add(&mut self, stream: &Stream) {
        let keyless = stream.partition.iter().zip(&stream.key_hash).filter(|(_, hash)| **hash == NO_KEY);
        let mut before = None;
        for (partition, _) in keyless {
            self.records += 1;
            self.same += u64::from(before == Some(*partition));
            *self.by_partition.entry(*partition).or_default() += 1;
            before = Some(*partition);
        }
        let (first, last) = (stream.at_us.first().copied(), stream.at_us.last().copied());
        self.span_us += last.unwrap_or(0).saturating_sub(first.unwrap_or(0));
    }

    /// Share of the records in the same partition as the one before.
    pub(crate) fn stays(&self) -> f64 {
        self.same as f64 / self.records.max(1) as f64
    }

    /// The same, if a partition was drawn for each record.
    fn by_chance(&self) -> f64 {
        let all = self.records.max(1) as f64;
        self.by_partition.values().map(|count| (*count as f64 / all).powi(2)).sum()
    }

    /// Whether a client that stays with a partition for this long explains it. One that moves with nearly every record does, too.
    pub(crate) fn is_sticky(&self, stay_us: u64) -> bool {
        let a_stay = self.records as f64 * stay_us as f64 / self.span_us.max(1) as f64;
        let chance = self.by_chance();
        let expected = 1.0 - (1.0 - chance) / (1.0 + a_stay);
        let scatter = (chance * (1.0 - chance) / self.records.max(1) as f64).sqrt();
        self.stays() >= chance + STICKY * (expected - chance) - BY_CHANCE * scatter
    }

    /// Whether runs of records stay with a partition far longer than their shares explain.
    pub(crate) fn is_shown(&self) -> bool {
        let chance = self.by_chance();
        self.has_choice() && self.stays() > chance + 0.5 * (1.0 - chance)
    }

    /// Whether records go to more than one partition.
    fn has_choice(&self) -> bool {
        self.records > 0 && self.by_chance() < 0.99
    }

    /// Whether a client that stays with a partition for this long may have chosen it. A random partition per record is equally possible,
    /// because that time is hardly longer than from one record to the next.
    pub(crate) fn may_be_sticky(&self, stay_us: u64, partitions: u32) -> bool {
        self.has_choice() && !self.is_shown() && self.is_sticky(stay_us) && !self.is_skewed(partitions)
    }

    /// How long it stays, in microseconds.
    pub(crate) fn stay_us(&self) -> u64 {
        let moves = self.records.saturating_sub(self.same).max(1);
        // A client that draws a partition may draw the same one again.
        (self.span_us as f64 / moves as f64 * (1.0 - self.by_chance())) as u64
    }

    /// Whether a partition has more than its share, and not by chance in this many moves.
    pub(crate) fn is_skewed(&self, partitions: u32) -> bool {
        let share = 1.0 / f64::from(partitions.max(1));
        let most = self.by_partition.values().max().copied().unwrap_or(0) as f64 / self.records.max(1) as f64;
        let moves = self.records.saturating_sub(self.same).max(1) as f64;
        let scatter = (share * (1.0 - share) / moves).sqrt();
        most > HOT * share && most - share > NO_CHANCE * scatter
    }
}
