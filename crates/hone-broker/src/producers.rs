//! Idempotent producers of one partition: duplicates found, gaps refused.

use std::collections::{HashMap, VecDeque};

use hone_kafka::BatchHeader;

/// A producer has at most five batches in flight, so a retry repeats one of the last five.
const REMEMBERED_BATCHES: usize = 5;
/// Producers remembered by one partition; the one that was silent longest goes first.
const MOST_PRODUCERS: usize = 4096;

/// What a batch means for its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// To be stored.
    Next,
    /// Stored before, at this offset.
    Duplicate(i64),
    /// A batch before it is missing.
    Gap,
    /// Older than everything remembered.
    TooOld,
    /// A newer instance of this producer has taken over.
    Fenced,
}

#[derive(Debug, Clone, Copy)]
struct Stored {
    first: i32,
    last: i32,
    base_offset: i64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Stored>,
}

/// All producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    known: HashMap<i64, Producer>,
}

impl Producers {
    /// Judges a batch by its producer id, epoch and sequence. A producer that is not known may start anywhere: its
    /// state may have been dropped here, or the log it wrote before.
    pub(crate) fn judge(&self, header: &BatchHeader) -> Sequence {
        let Some(producer) = self.known.get(&header.producer_id) else { return Sequence::Next };
        if header.producer_epoch < producer.epoch {
            return Sequence::Fenced;
        }
        if header.producer_epoch > producer.epoch {
            return if header.base_sequence == 0 { Sequence::Next } else { Sequence::Gap };
        }
        let last = last_sequence(header);
        let same = |stored: &&Stored| stored.first == header.base_sequence && stored.last == last;
        if let Some(stored) = producer.batches.iter().find(same) {
            return Sequence::Duplicate(stored.base_offset);
        }
        match (producer.batches.front(), producer.batches.back()) {
            (_, Some(newest)) if after(newest.last) == header.base_sequence => Sequence::Next,
            (Some(oldest), _) if last < oldest.first => Sequence::TooOld,
            (_, Some(_)) => Sequence::Gap,
            (_, None) => Sequence::Next,
        }
    }

    /// Remembers a batch that was stored at `base_offset`.
    pub(crate) fn note(&mut self, header: &BatchHeader, base_offset: i64) {
        if header.producer_id < 0 {
            return;
        }
        if self.known.len() >= MOST_PRODUCERS && !self.known.contains_key(&header.producer_id) {
            self.drop_most_silent();
        }
        let producer = self
            .known
            .entry(header.producer_id)
            .or_insert_with(|| Producer { epoch: header.producer_epoch, batches: VecDeque::new() });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.pop_front();
        }
        let stored = Stored { first: header.base_sequence, last: last_sequence(header), base_offset };
        producer.batches.push_back(stored);
    }

    fn drop_most_silent(&mut self) {
        let newest_of = |producer: &Producer| producer.batches.back().map_or(-1, |stored| stored.base_offset);
        let silent = self.known.iter().min_by_key(|(_, producer)| newest_of(producer)).map(|(id, _)| *id);
        if let Some(id) = silent {
            self.known.remove(&id);
        }
    }
}

/// Sequences run from 0 to `i32::MAX` and start again.
fn last_sequence(header: &BatchHeader) -> i32 {
    let last = i64::from(header.base_sequence) + i64::from(header.last_offset_delta);
    (last % (i64::from(i32::MAX) + 1)) as i32
}

fn after(sequence: i32) -> i32 {
    sequence.checked_add(1).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, Codec};

    fn header(epoch: i16, sequence: i32, records: usize) -> BatchHeader {
        let mut builder = BatchBuilder::new(Codec::None);
        for _ in 0..records {
            builder.push(None, Some(b"x"), 0);
        }
        let mut batch = builder.build().unwrap();
        hone_kafka::batch::set_producer(&mut batch, 7, epoch, sequence).unwrap();
        BatchHeader::parse(&batch).unwrap()
    }

    #[test]
    fn a_story_of_one_producer() {
        let mut producers = Producers::default();
        // Any first sequence is accepted from a stranger.
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::Next);
        producers.note(&header(0, 40, 2), 100);
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::Duplicate(100));
        assert_eq!(producers.judge(&header(0, 42, 1)), Sequence::Next);
        assert_eq!(producers.judge(&header(0, 43, 1)), Sequence::Gap);
        assert_eq!(producers.judge(&header(0, 10, 1)), Sequence::TooOld);
        // The same first sequence with other records is no duplicate.
        assert_eq!(producers.judge(&header(0, 40, 3)), Sequence::Gap);
        for step in 0..5 {
            producers.note(&header(0, 42 + step, 1), 102 + i64::from(step));
        }
        assert_eq!(producers.judge(&header(0, 42, 1)), Sequence::Duplicate(102));
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::TooOld);
        // A new epoch starts at 0, the old one is fenced.
        assert_eq!(producers.judge(&header(1, 5, 1)), Sequence::Gap);
        assert_eq!(producers.judge(&header(1, 0, 1)), Sequence::Next);
        producers.note(&header(1, 0, 1), 200);
        assert_eq!(producers.judge(&header(0, 47, 1)), Sequence::Fenced);
    }

    #[test]
    fn sequences_start_again_behind_the_largest() {
        let mut producers = Producers::default();
        producers.note(&header(0, i32::MAX - 1, 2), 5);
        assert_eq!(producers.judge(&header(0, 0, 1)), Sequence::Next);
        producers.note(&header(0, i32::MAX - 1, 4), 7);
        assert_eq!(producers.judge(&header(0, 2, 1)), Sequence::Next);
    }
}
