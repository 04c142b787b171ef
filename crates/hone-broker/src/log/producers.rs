//! Producers of one partition: duplicates found, gaps refused, old instances fenced, and whose transaction is open.

use std::collections::{BTreeMap, HashMap, VecDeque};

use hone_kafka::{BatchHeader, Reader, WireError};

use super::aborted::{Aborted, AbortedList};

/// A producer has at most five batches in flight, so a retry repeats one of the last five.
const REMEMBERED_BATCHES: usize = 5;
/// Producers remembered by one partition; the one that was silent longest goes first, unless its transaction is open.
const MOST_PRODUCERS: usize = 4096;

/// What a batch means for its partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// To be stored.
    Next,
    /// Stored before: its first offset.
    Duplicate(i64),
    /// An earlier batch is missing, or this batch is older than all remembered batches. The log may never have stored
    /// such an old batch, because a later one may have been the first that it accepted. So the answer must not be the
    /// duplicate error, which clients treat as success.
    Gap,
    /// A newer instance of this producer has taken over.
    Fenced,
    /// A batch without a transaction while one of this producer is open.
    OutsideTransaction,
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    Abort,
    Commit,
}

/// What is known of a producer, for DescribeProducers and the transaction coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerState {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// -1 when none is known.
    pub(crate) last_sequence: i32,
    /// Milliseconds since 1970; -1 when none is known.
    pub(crate) last_timestamp: i64,
    /// First offset of the open transaction.
    pub(crate) txn_start: Option<i64>,
    /// -1 before the first marker.
    pub(crate) coordinator_epoch: i32,
}

/// An aborted transaction, as in the answer of Fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AbortedTransaction {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stored {
    first: i32,
    last: i32,
    base_offset: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Producer {
    epoch: i16,
    coordinator_epoch: i32,
    last_timestamp: i64,
    /// Of its last batch or marker.
    last_offset: i64,
    txn_start: Option<i64>,
    batches: VecDeque<Stored>,
}

/// All producers of one partition, and the transactions of its log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    known: HashMap<i64, Producer>,
    /// First offset of each open transaction → its producer.
    open: BTreeMap<i64, i64>,
    aborted: AbortedList,
    /// First offset and marker of transactions whose marker may not be visible yet.
    ending: VecDeque<(i64, i64)>,
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
        if producer.txn_start.is_some() && !header.is_transactional() {
            return Sequence::OutsideTransaction;
        }
        // Without a batch of this epoch only its marker is known, so the sequence after it begins at 0.
        let expected = producer.batches.back().map_or(0, |newest| after(newest.last));
        if header.base_sequence == expected { Sequence::Next } else { Sequence::Gap }
    }

    /// Whether a marker may be written: neither its producer nor its coordinator may be older than what is known.
    pub(crate) fn admits_marker(
        &self,
        producer_id: i64,
        epoch: i16,
        coordinator_epoch: i32,
    ) -> MarkerVerdict {
        match self.known.get(&producer_id) {
            Some(producer) if epoch < producer.epoch => MarkerVerdict::ProducerFenced,
            Some(producer) if coordinator_epoch < producer.coordinator_epoch => {
                MarkerVerdict::CoordinatorFenced
            }
            _ => MarkerVerdict::Admitted,
        }
    }

    /// Remembers a batch that was stored; its header has the offset it got. `marker` is what a control batch says.
    pub(crate) fn note(&mut self, header: &BatchHeader, marker: Option<(Marker, i32)>) {
        if header.producer_id < 0 {
            return;
        }
        match marker {
            Some((marker, coordinator_epoch)) => self.note_marker(header, marker, coordinator_epoch),
            // A control batch of a kind that does not end a transaction says nothing here.
            None if header.is_control() => (),
            None => self.note_data(header),
        }
    }

    fn note_data(&mut self, header: &BatchHeader) {
        let producer = self.entry(header);
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.pop_front();
        }
        let last = last_sequence(header);
        producer.batches.push_back(Stored {
            first: header.base_sequence,
            last,
            base_offset: header.base_offset,
        });
        if header.is_transactional() && producer.txn_start.is_none() {
            producer.txn_start = Some(header.base_offset);
            self.open.insert(header.base_offset, header.producer_id);
        }
    }

    fn note_marker(&mut self, header: &BatchHeader, marker: Marker, coordinator_epoch: i32) {
        let producer = self.entry(header);
        producer.coordinator_epoch = coordinator_epoch;
        let Some(first_offset) = producer.txn_start.take() else { return };
        self.open.remove(&first_offset);
        let marker_offset = header.last_offset();
        self.ending.push_back((first_offset, marker_offset));
        if marker == Marker::Abort {
            self.aborted.push(Aborted { producer_id: header.producer_id, first_offset, marker_offset });
        }
    }

    fn entry(&mut self, header: &BatchHeader) -> &mut Producer {
        if self.known.len() >= MOST_PRODUCERS && !self.known.contains_key(&header.producer_id) {
            self.drop_most_silent();
        }
        let producer = self.known.entry(header.producer_id).or_insert_with(|| Producer {
            epoch: header.producer_epoch,
            coordinator_epoch: -1,
            last_timestamp: -1,
            last_offset: -1,
            txn_start: None,
            batches: VecDeque::new(),
        });
        if producer.epoch != header.producer_epoch {
            producer.epoch = header.producer_epoch;
            producer.batches.clear();
        }
        producer.last_timestamp = header.max_timestamp;
        producer.last_offset = header.last_offset();
        producer
    }

    fn drop_most_silent(&mut self) {
        let idle = self.known.iter().filter(|(_, producer)| producer.txn_start.is_none());
        if let Some(id) = idle.min_by_key(|(_, producer)| producer.last_offset).map(|(id, _)| *id) {
            self.known.remove(&id);
        }
    }

    /// Every record before this offset is decided, as far as it is visible: readers of committed records stop here.
    pub(crate) fn last_stable(&mut self, high_watermark: i64) -> i64 {
        self.ending.retain(|(_, marker)| *marker >= high_watermark);
        let ending = self.ending.iter().map(|(first, _)| *first).min();
        let open = self.open.keys().next().copied();
        high_watermark.min(ending.unwrap_or(i64::MAX)).min(open.unwrap_or(i64::MAX))
    }

    /// Aborted transactions with records in `from..to`, in the order of their markers.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        self.aborted
            .touching(from, to)
            .map(|aborted| AbortedTransaction {
                producer_id: aborted.producer_id,
                first_offset: aborted.first_offset,
            })
            .collect()
    }

    /// Whether a batch belongs to an aborted transaction.
    pub(crate) fn is_aborted(&self, header: &BatchHeader) -> bool {
        let mut touching = self.aborted.touching(header.base_offset, header.base_offset.saturating_add(1));
        header.is_transactional() && touching.any(|aborted| aborted.producer_id == header.producer_id)
    }

    /// Whether a batch is the last one known of its producer, or its last sequence.
    pub(crate) fn is_last(&self, header: &BatchHeader) -> bool {
        self.known.get(&header.producer_id).is_some_and(|producer| {
            producer.last_offset == header.last_offset()
                || producer.batches.back().is_some_and(|stored| stored.base_offset == header.base_offset)
        })
    }

    /// Forgets aborted transactions that end before an offset.
    pub(crate) fn forget_aborted(&mut self, before: i64) {
        self.aborted.forget(before);
    }

    /// All producers, by their ids.
    pub(crate) fn states(&self) -> Vec<ProducerState> {
        let mut states: Vec<_> = self
            .known
            .iter()
            .map(|(id, producer)| ProducerState {
                producer_id: *id,
                epoch: producer.epoch,
                last_sequence: producer.batches.back().map_or(-1, |stored| stored.last),
                last_timestamp: producer.last_timestamp,
                txn_start: producer.txn_start,
                coordinator_epoch: producer.coordinator_epoch,
            })
            .collect();
        states.sort_unstable_by_key(|state| state.producer_id);
        states
    }

    /// The state as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_count(&mut out, self.known.len());
        for (id, producer) in &self.known {
            out.extend_from_slice(&id.to_be_bytes());
            out.extend_from_slice(&producer.epoch.to_be_bytes());
            out.extend_from_slice(&producer.coordinator_epoch.to_be_bytes());
            out.extend_from_slice(&producer.last_timestamp.to_be_bytes());
            out.extend_from_slice(&producer.last_offset.to_be_bytes());
            out.extend_from_slice(&producer.txn_start.unwrap_or(-1).to_be_bytes());
            put_count(&mut out, producer.batches.len());
            for stored in &producer.batches {
                out.extend_from_slice(&stored.first.to_be_bytes());
                out.extend_from_slice(&stored.last.to_be_bytes());
                out.extend_from_slice(&stored.base_offset.to_be_bytes());
            }
        }
        put_count(&mut out, self.aborted.iter().len());
        for aborted in self.aborted.iter() {
            out.extend_from_slice(&aborted.producer_id.to_be_bytes());
            out.extend_from_slice(&aborted.first_offset.to_be_bytes());
            out.extend_from_slice(&aborted.marker_offset.to_be_bytes());
        }
        out
    }

    /// Reads [`Producers::encode`] back.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut reader = Reader::new(bytes);
        let mut producers = Self::default();
        for _ in 0..reader.i32("producers")? {
            let id = reader.i64("producer id")?;
            let mut producer = Producer {
                epoch: reader.i16("epoch")?,
                coordinator_epoch: reader.i32("coordinator epoch")?,
                last_timestamp: reader.i64("last timestamp")?,
                last_offset: reader.i64("last offset")?,
                txn_start: Some(reader.i64("transaction start")?).filter(|start| *start >= 0),
                batches: VecDeque::new(),
            };
            for _ in 0..reader.i32("batches")? {
                producer.batches.push_back(Stored {
                    first: reader.i32("first sequence")?,
                    last: reader.i32("last sequence")?,
                    base_offset: reader.i64("base offset")?,
                });
            }
            producers.open.extend(producer.txn_start.map(|start| (start, id)));
            producers.known.insert(id, producer);
        }
        for _ in 0..reader.i32("aborted transactions")? {
            producers.aborted.push(Aborted {
                producer_id: reader.i64("producer id")?,
                first_offset: reader.i64("first offset")?,
                marker_offset: reader.i64("marker offset")?,
            });
        }
        reader.finish()?;
        Ok(producers)
    }
}

/// Whether a marker may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MarkerVerdict {
    Admitted,
    ProducerFenced,
    CoordinatorFenced,
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    // Counts are bounded by MOST_PRODUCERS and by the batches of a log.
    out.extend_from_slice(&i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
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

    fn at(header: BatchHeader, base_offset: i64) -> BatchHeader {
        BatchHeader { base_offset, ..header }
    }

    fn transactional(header: BatchHeader) -> BatchHeader {
        BatchHeader { attributes: header.attributes | 1 << 4, ..header }
    }

    fn control(epoch: i16, base_offset: i64) -> BatchHeader {
        let header = at(transactional(header(epoch, -1, 1)), base_offset);
        BatchHeader { attributes: header.attributes | 1 << 5, ..header }
    }

    #[test]
    fn a_story_of_one_producer() {
        let mut producers = Producers::default();
        // Any first sequence is accepted from a stranger.
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::Next);
        producers.note(&at(header(0, 40, 2), 100), None);
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::Duplicate(100));
        assert_eq!(producers.judge(&header(0, 42, 1)), Sequence::Next);
        assert_eq!(producers.judge(&header(0, 43, 1)), Sequence::Gap);
        // Before the first that was stored: perhaps never stored, so no duplicate.
        assert_eq!(producers.judge(&header(0, 10, 1)), Sequence::Gap);
        // The same first sequence with other records is no duplicate.
        assert_eq!(producers.judge(&header(0, 40, 3)), Sequence::Gap);
        for step in 0..5 {
            producers.note(&at(header(0, 42 + step, 1), 102 + i64::from(step)), None);
        }
        assert_eq!(producers.judge(&header(0, 42, 1)), Sequence::Duplicate(102));
        assert_eq!(producers.judge(&header(0, 40, 2)), Sequence::Gap);
        // A new epoch starts at 0, the old one is fenced.
        assert_eq!(producers.judge(&header(1, 5, 1)), Sequence::Gap);
        assert_eq!(producers.judge(&header(1, 0, 1)), Sequence::Next);
        producers.note(&at(header(1, 0, 1), 200), None);
        assert_eq!(producers.judge(&header(0, 47, 1)), Sequence::Fenced);
    }

    #[test]
    fn what_follows_a_marker_of_a_new_epoch_begins_at_sequence_0() {
        let mut producers = Producers::default();
        producers.note(&at(transactional(header(3, 0, 5)), 10), None);
        producers.note(&control(4, 15), Some((Marker::Commit, 0)));
        // Its first batch was refused meanwhile and comes again: if the second were taken, the first could not be.
        assert_eq!(producers.judge(&transactional(header(4, 1, 1))), Sequence::Gap);
        assert_eq!(producers.judge(&transactional(header(4, 0, 1))), Sequence::Next);
    }

    #[test]
    fn sequences_start_again_behind_the_largest() {
        let mut producers = Producers::default();
        producers.note(&at(header(0, i32::MAX - 1, 2), 5), None);
        assert_eq!(producers.judge(&header(0, 0, 1)), Sequence::Next);
        producers.note(&at(header(0, i32::MAX - 1, 4), 7), None);
        assert_eq!(producers.judge(&header(0, 2, 1)), Sequence::Next);
    }

    #[test]
    fn transactions_hold_the_last_stable_offset_until_their_marker_is_visible() {
        let mut producers = Producers::default();
        producers.note(&at(transactional(header(0, 0, 2)), 10), None);
        assert_eq!(producers.last_stable(12), 10);
        assert_eq!(producers.judge(&header(0, 2, 1)), Sequence::OutsideTransaction);
        assert_eq!(producers.judge(&transactional(header(0, 2, 1))), Sequence::Next);
        producers.note(&at(transactional(header(0, 2, 1)), 12), None);
        assert_eq!(producers.states()[0].txn_start, Some(10));
        assert_eq!(producers.admits_marker(7, -1, 3), MarkerVerdict::ProducerFenced);
        producers.note(&control(0, 13), Some((Marker::Abort, 3)));
        assert_eq!(producers.admits_marker(7, 0, 2), MarkerVerdict::CoordinatorFenced);
        assert_eq!(producers.admits_marker(7, 0, 3), MarkerVerdict::Admitted);
        assert_eq!(producers.last_stable(13), 10);
        assert_eq!(producers.last_stable(14), 14);
        let aborted = AbortedTransaction { producer_id: 7, first_offset: 10 };
        assert_eq!(producers.aborted(13, 20), [aborted]);
        assert_eq!(producers.aborted(0, 11), [aborted]);
        assert!(producers.aborted(0, 10).is_empty() && producers.aborted(14, 20).is_empty());
        assert!(producers.is_aborted(&at(transactional(header(0, 2, 1)), 12)));
        assert!(!producers.is_aborted(&at(transactional(header(0, 3, 1)), 14)));
        // The marker did not end the sequence.
        assert_eq!(producers.judge(&header(0, 3, 1)), Sequence::Next);
        producers.forget_aborted(14);
        assert!(producers.aborted(0, 20).is_empty());
    }

    #[test]
    fn state_is_written_and_read_again() {
        let mut producers = Producers::default();
        for step in 0..7 {
            producers.note(&at(header(0, step, 1), i64::from(step)), None);
        }
        producers.note(&at(transactional(header(1, 0, 1)), 7), None);
        producers.note(&control(1, 8), Some((Marker::Abort, 1)));
        producers.note(&at(transactional(header(1, 1, 1)), 9), None);
        assert_eq!(producers.last_stable(10), 9);
        let bytes = producers.encode();
        assert_eq!(Producers::decode(&bytes).unwrap(), producers);
        for length in 0..bytes.len() {
            assert!(Producers::decode(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn the_most_silent_producer_is_forgotten_unless_its_transaction_is_open() {
        let mut producers = Producers::default();
        for id in 0..MOST_PRODUCERS as i64 + 1 {
            let header = BatchHeader { producer_id: id, ..at(header(0, 0, 1), id) };
            producers.note(&if id == 0 { transactional(header) } else { header }, None);
        }
        let known: Vec<_> = producers.states().iter().take(2).map(|state| state.producer_id).collect();
        assert_eq!((known, producers.states().len()), (vec![0, 2], MOST_PRODUCERS));
    }
}
