//! The two indexes of a segment, in Kafka's formats: offset → position, and time → offset. One entry for each 4 KiB
//! of log.
//!
//! `.index`: offset of a batch's last record minus the segment's base (u32), position of the batch (u32).
//! `.timeindex`: the largest timestamp up to here (i64), last offset of the batch that has it minus the base (u32).
//! Both big-endian, both rising.

use hone_kafka::BatchHeader;

/// Bytes of log per index entry, as in Kafka.
const EVERY_BYTES: u64 = 4096;
const OFFSET_ENTRY_BYTES: usize = 8;
const TIME_ENTRY_BYTES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OffsetEntry {
    relative: u32,
    position: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TimeEntry {
    timestamp: i64,
    relative: u32,
}

/// Both indexes of one segment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index {
    base_offset: i64,
    offsets: Vec<OffsetEntry>,
    times: Vec<TimeEntry>,
    indexed_to: u64,
    max_timestamp: Option<(i64, i64)>,
}

impl Index {
    pub(crate) fn new(base_offset: i64) -> Self {
        Self { base_offset, ..Self::default() }
    }

    /// Notes a batch at its position.
    pub(crate) fn note(&mut self, header: &BatchHeader, position: u64) {
        let last = header.last_offset();
        if self.max_timestamp.is_none_or(|(largest, _)| header.max_timestamp > largest) {
            self.max_timestamp = Some((header.max_timestamp, last));
        }
        if position - self.indexed_to < EVERY_BYTES {
            return;
        }
        self.indexed_to = position;
        // A segment ends before either number gets too large; see `Segment::is_full`.
        let (Ok(relative), Ok(position)) = (u32::try_from(last - self.base_offset), u32::try_from(position))
        else {
            return;
        };
        self.offsets.push(OffsetEntry { relative, position });
        self.note_time();
    }

    fn note_time(&mut self) {
        let Some((timestamp, offset)) = self.max_timestamp else { return };
        let Ok(relative) = u32::try_from(offset - self.base_offset) else { return };
        if self.times.last().is_none_or(|last| timestamp > last.timestamp) {
            self.times.push(TimeEntry { timestamp, relative });
        }
    }

    /// The largest timestamp.
    pub(crate) fn max_timestamp(&self) -> Option<i64> {
        self.max_timestamp.map(|(timestamp, _)| timestamp)
    }

    /// Where to begin to look for `offset`: a batch that does not lie behind it.
    pub(crate) fn position_for(&self, offset: i64) -> u64 {
        let relative = offset - self.base_offset;
        let behind = self.offsets.partition_point(|entry| i64::from(entry.relative) <= relative);
        self.position_before(behind)
    }

    /// The last indexed batch that begins at or before `position`.
    pub(crate) fn boundary_before(&self, position: u64) -> u64 {
        let behind = self.offsets.partition_point(|entry| u64::from(entry.position) <= position);
        self.position_before(behind)
    }

    fn position_before(&self, behind: usize) -> u64 {
        let entry = behind.checked_sub(1).and_then(|at| self.offsets.get(at));
        entry.map_or(0, |entry| u64::from(entry.position))
    }

    /// Where to begin to look for the first batch that reaches `timestamp`.
    pub(crate) fn position_for_timestamp(&self, timestamp: i64) -> u64 {
        let behind = self.times.partition_point(|entry| entry.timestamp <= timestamp);
        let entry = behind.checked_sub(1).and_then(|at| self.times.get(at));
        entry.map_or(0, |entry| self.position_for(self.base_offset + i64::from(entry.relative)))
    }

    /// The two files' contents. The time index ends with the largest timestamp of all.
    pub(crate) fn encode(&self) -> (Vec<u8>, Vec<u8>) {
        let mut whole = self.clone();
        whole.note_time();
        let mut offsets = Vec::with_capacity(self.offsets.len() * OFFSET_ENTRY_BYTES);
        for entry in &whole.offsets {
            offsets.extend_from_slice(&entry.relative.to_be_bytes());
            offsets.extend_from_slice(&entry.position.to_be_bytes());
        }
        let mut times = Vec::with_capacity(whole.times.len() * TIME_ENTRY_BYTES);
        for entry in &whole.times {
            times.extend_from_slice(&entry.timestamp.to_be_bytes());
            times.extend_from_slice(&entry.relative.to_be_bytes());
        }
        (offsets, times)
    }

    /// Reads the indexes of a segment with this number of bytes that ends before `next_offset`. Returns `None` if they
    /// can't belong to the segment: wrong sizes, entries that do not rise, entries outside of the segment, or gaps that
    /// no writer leaves.
    pub(crate) fn decode(
        base_offset: i64,
        next_offset: i64,
        bytes: u64,
        offsets: &[u8],
        times: &[u8],
    ) -> Option<Self> {
        let offsets = entries(offsets, |entry: &[u8; OFFSET_ENTRY_BYTES]| {
            let [a, b, c, d, position @ ..] = *entry;
            OffsetEntry { relative: u32::from_be_bytes([a, b, c, d]), position: u32::from_be_bytes(position) }
        })?;
        let times = entries(times, |entry: &[u8; TIME_ENTRY_BYTES]| {
            let [a, b, c, d, e, f, g, h, relative @ ..] = *entry;
            TimeEntry {
                timestamp: i64::from_be_bytes([a, b, c, d, e, f, g, h]),
                relative: u32::from_be_bytes(relative),
            }
        })?;
        let rising = offsets.is_sorted_by(|a, b| {
            a.relative < b.relative && u64::from(b.position) >= u64::from(a.position) + EVERY_BYTES
        });
        let inside = |relative: u32| base_offset + i64::from(relative) < next_offset;
        let in_place = offsets.first().is_none_or(|first| u64::from(first.position) >= EVERY_BYTES)
            && offsets.last().is_none_or(|last| u64::from(last.position) < bytes && inside(last.relative));
        let times_rise = times.is_sorted_by(|a, b| a.timestamp < b.timestamp && a.relative < b.relative)
            && times.last().is_none_or(|last| inside(last.relative));
        if !(rising && in_place && times_rise) || (bytes > 0 && times.is_empty()) {
            return None;
        }
        let indexed_to = offsets.last().map_or(0, |last| u64::from(last.position));
        let max_timestamp = times.last().map(|last| (last.timestamp, base_offset + i64::from(last.relative)));
        Some(Self { base_offset, offsets, times, indexed_to, max_timestamp })
    }

    /// Last offset and position of the last entry, to be compared with the batch that is there.
    pub(crate) fn last_entry(&self) -> Option<(i64, u64)> {
        self.offsets
            .last()
            .map(|entry| (self.base_offset + i64::from(entry.relative), u64::from(entry.position)))
    }
}

fn entries<const N: usize, T>(bytes: &[u8], read: impl Fn(&[u8; N]) -> T) -> Option<Vec<T>> {
    let (whole, rest) = bytes.as_chunks::<N>();
    rest.is_empty().then(|| whole.iter().map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_kafka::{BatchBuilder, Codec, batch};

    /// The index, where each batch begins, and the end.
    fn filled() -> (Index, Vec<u64>, u64) {
        let mut index = Index::new(1_000);
        let (mut position, mut begins) = (0, Vec::new());
        for step in 0..100_i64 {
            let mut builder = BatchBuilder::new(Codec::None);
            // Time goes back every now and then.
            builder.push(None, Some(&[0; 900]), step * 10 - step % 7 * 100);
            builder.push(None, Some(b"b"), 0);
            let mut bytes = builder.build().unwrap();
            batch::set_base_offset(&mut bytes, 1_000 + 2 * step).unwrap();
            index.note(&BatchHeader::parse(&bytes).unwrap(), position);
            begins.push(position);
            position += bytes.len() as u64;
        }
        (index, begins, position)
    }

    #[test]
    fn a_look_up_leads_before_what_is_looked_for_and_not_far() {
        let (index, begins, _) = filled();
        for (begin, offset) in begins.iter().zip((1_001..).step_by(2)) {
            for position in [index.position_for(offset), index.boundary_before(begin + 5)] {
                assert!(position <= *begin && position + EVERY_BYTES + 1_000 > *begin, "{begin}: {position}");
                assert!(begins.contains(&position));
            }
        }
        assert_eq!(index.position_for_timestamp(-1_000), 0);
        assert!(index.position_for_timestamp(980) > begins[80]);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let (index, _, bytes) = filled();
        let (offsets, times) = index.encode();
        let read = Index::decode(1_000, 1_200, bytes, &offsets, &times).unwrap();
        assert_eq!((&read.offsets, read.max_timestamp), (&index.offsets, index.max_timestamp));
        assert_eq!(Index::decode(5, 5, 0, &[], &[]).unwrap().max_timestamp(), None);
    }

    #[test]
    fn broken_indexes_are_refused() {
        let (index, _, bytes) = filled();
        let (offsets, times) = index.encode();
        let decode = |offsets: &[u8], times: &[u8]| Index::decode(1_000, 1_200, bytes, offsets, times);
        assert!(decode(&offsets[1..], &times).is_none());
        assert!(decode(&offsets, &times[..times.len() - 1]).is_none());
        assert!(decode(&offsets, &[]).is_none());
        let mut swapped = offsets.clone();
        swapped.rotate_left(OFFSET_ENTRY_BYTES);
        assert!(decode(&swapped, &times).is_none());
        // Pages that never reached the disk are zeros.
        let mut zeroed = offsets.clone();
        zeroed[8..24].fill(0);
        assert!(decode(&zeroed, &times).is_none());
        assert!(Index::decode(1_000, 1_100, bytes, &offsets, &times).is_none());
        assert!(Index::decode(1_000, 1_200, bytes / 2, &offsets, &times).is_none());
        for at in 0..offsets.len() {
            let mut flipped = offsets.clone();
            flipped[at] ^= 0x80;
            // Whatever is taken leads nowhere outside of the segment.
            if let Some(index) = decode(&flipped, &times) {
                assert!(index.offsets.iter().all(|entry| u64::from(entry.position) < bytes));
            }
        }
    }
}
