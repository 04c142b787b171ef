//! Walks the batches of a Fetch answer or a segment file, and never stops at a bad one while it knows where the next begins.

use hone_kafka::batch::{BatchError, BatchHeader, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, TimestampType};

/// The skipped parts, with their numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passed {
    /// Formats 0 and 1, whose messages form no batches.
    pub old_format: u64,
    /// Invalid headers: their batch is skipped by its length.
    pub broken: u64,
    /// Batches that begin before the requested offset: a broker sends whole batches.
    pub before: u64,
    /// Bytes at the end that are no whole batch: a broker cuts the answer at its size limit.
    pub torn_bytes: u64,
}

impl Passed {
    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.old_format += other.old_format;
        self.broken += other.broken;
        self.before += other.before;
        self.torn_bytes += other.torn_bytes;
    }
}

/// The header of a complete batch, and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The header.
    pub header: BatchHeader,
    /// The size, including the header.
    pub bytes: u64,
}

impl Seen {
    /// Whether compaction has changed it: then it is not what a producer sent.
    pub fn is_compacted(&self) -> bool {
        self.header.is_compacted()
    }

    /// From the first record's time to the last one's, in milliseconds: evidence of how long the producer waited. `None` if the header
    /// lacks the producer's times, or if they run backwards.
    pub fn span_ms(&self) -> Option<u64> {
        let header = &self.header;
        let is_the_producers = header.timestamp_type() == TimestampType::Create && header.base_timestamp >= 0;
        let span = header.max_timestamp.checked_sub(header.base_timestamp)?;
        u64::try_from(span).ok().filter(|_| is_the_producers)
    }
}

/// Passes on every complete batch from an offset on, with its bytes. Returns the skipped parts, and the offset after the last batch.
pub fn scan<'a>(
    bytes: &'a [u8],
    from_offset: i64,
    mut each: impl FnMut(&Seen, &'a [u8]),
) -> (Passed, Option<i64>) {
    let (mut passed, mut next, mut at) = (Passed::default(), None, 0);
    while at < bytes.len() {
        let rest = &bytes[at..];
        let Some(size) = size_of(rest).filter(|size| *size <= rest.len()) else {
            passed.torn_bytes += rest.len() as u64;
            break;
        };
        match BatchHeader::parse(rest) {
            Ok(header) if header.base_offset < from_offset => {
                passed.before += 1;
                next = Some(header.last_offset().saturating_add(1));
            }
            Ok(header) => {
                next = Some(header.last_offset().saturating_add(1));
                each(&Seen { header, bytes: size as u64 }, &rest[..size]);
            }
            Err(error) => {
                match error {
                    BatchError::OldMagic { .. } => passed.old_format += 1,
                    _ => passed.broken += 1,
                }
                // The reader must get beyond it.
                next = behind(rest).or(next);
            }
        }
        at += size;
    }
    (passed, next)
}

/// The offset after an unreadable part: all formats begin with one. In the old formats it is the last one of a compressed set.
fn behind(bytes: &[u8]) -> Option<i64> {
    let base = i64::from_be_bytes(*bytes.first_chunk()?);
    let delta = bytes.get(23..27).filter(|_| bytes.get(16).is_some_and(|magic| *magic >= 2));
    let delta = delta.and_then(|delta| Some(i32::from_be_bytes(delta.try_into().ok()?))).unwrap_or(0);
    (base >= 0).then(|| base.saturating_add(i64::from(delta.max(0))).saturating_add(1))
}

/// By the length field, which all formats have at the same place. `None` if the length is impossible: then the rest is unknown.
pub(crate) fn size_of(bytes: &[u8]) -> Option<usize> {
    let field: [u8; 4] = bytes.get(8..LENGTH_OVERHEAD_BYTES)?.try_into().ok()?;
    let length = usize::try_from(i32::from_be_bytes(field)).ok()?;
    // The minimum of format 0 is 14 bytes after its length; a batch has its header.
    const LEAST_OLD: usize = 14;
    let is_new = bytes.get(16).is_some_and(|magic| *magic >= 2);
    let least = if is_new { HEADER_BYTES - LENGTH_OVERHEAD_BYTES } else { LEAST_OLD };
    (length >= least).then_some(length + LENGTH_OVERHEAD_BYTES)
}

#[cfg(test)]
mod tests {
    use hone_kafka::batch::set_base_offset;
    use hone_kafka::{BatchBuilder, Codec};
    use proptest::prelude::*;

    use super::*;

    fn batch(base_offset: i64, records: usize, span_ms: i64) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Codec::None);
        for index in 0..records {
            let late = if index + 1 == records { span_ms } else { 0 };
            builder.push(None, Some(b"value"), 1_700_000_000_000 + late);
        }
        let mut bytes = builder.build().unwrap();
        set_base_offset(&mut bytes, base_offset).unwrap();
        bytes
    }

    fn seen(bytes: &[u8], from: i64) -> (Vec<Seen>, Passed, Option<i64>) {
        let mut all = Vec::new();
        let (passed, next) = scan(bytes, from, |seen, _| all.push(*seen));
        (all, passed, next)
    }

    #[test]
    fn whole_batches_are_told_and_what_is_cut_off_is_not() {
        let set = [batch(0, 3, 7), batch(3, 1, 0), batch(4, 2, 1)].concat();
        let (all, passed, next) = seen(&set, 0);
        assert_eq!((all.len(), passed, next), (3, Passed::default(), Some(6)));
        assert_eq!((all[0].span_ms(), all[0].header.record_count), (Some(7), 3));
        assert_eq!(all.iter().map(|seen| seen.bytes).sum::<u64>(), set.len() as u64);
        let (all, passed, next) = seen(&set[..set.len() - 1], 0);
        assert_eq!((all.len(), next), (2, Some(4)));
        assert!(passed.torn_bytes > 60);
        let (all, passed, _) = seen(&set, 2);
        assert_eq!((all.len(), passed.before), (2, 1), "the first begins before what was asked for");
    }

    #[test]
    fn what_can_not_be_read_is_stepped_over() {
        let mut old = batch(0, 1, 0);
        old[16] = 1;
        let mut broken = batch(1, 1, 0);
        broken[22] |= 7;
        let (all, passed, _) = seen(&[old, broken, batch(2, 1, 0)].concat(), 0);
        assert_eq!((all.len(), passed.old_format, passed.broken), (1, 1, 1));
        let mut alone = batch(4, 3, 0);
        alone[22] |= 7;
        assert_eq!(seen(&alone, 4).2, Some(7), "a reader gets behind it");
        let mut endless = batch(0, 1, 0);
        endless[8..12].copy_from_slice(&(-1_i32).to_be_bytes());
        let (all, passed, _) = seen(&[endless.clone(), batch(1, 1, 0)].concat(), 0);
        assert!(all.is_empty() && passed.torn_bytes > endless.len() as u64, "nothing behind it is known");
    }

    #[test]
    fn times_of_the_brokers_and_compacted_batches_are_known() {
        let mut bytes = batch(0, 3, 9);
        bytes[22] |= 1 << 3;
        let (all, _, _) = seen(&bytes, 0);
        assert_eq!(all[0].span_ms(), None);
        let mut bytes = batch(0, 3, 9);
        bytes[57..61].copy_from_slice(&2_i32.to_be_bytes());
        let (all, _, _) = seen(&bytes, 0);
        assert!(all[0].is_compacted());
        // A cleaner that took nothing out has put its own time into the header.
        let mut bytes = batch(0, 3, 9);
        bytes[22] |= 1 << 6;
        let (all, _, _) = seen(&bytes, 0);
        assert!(all[0].is_compacted());
    }

    proptest! {
        #[test]
        fn any_bytes_are_walked_to_their_end(bytes in proptest::collection::vec(any::<u8>(), 0..400), from: i64) {
            let mut sum = 0;
            let (passed, _) = scan(&bytes, from, |seen, batch| {
                assert_eq!(batch.len() as u64, seen.bytes);
                sum += seen.bytes;
            });
            prop_assert!(sum + passed.torn_bytes <= bytes.len() as u64);
        }

        #[test]
        fn batches_with_bytes_changed_do_no_harm(at: prop::sample::Index, to: u8) {
            let mut set = [batch(0, 3, 7), batch(3, 1, 0), batch(4, 2, 1)].concat();
            let at = at.index(set.len());
            set[at] = to;
            let mut all = 0;
            let (passed, _) = scan(&set, 0, |_, _| all += 1);
            prop_assert!(all + passed.broken + passed.old_format + passed.before <= 3 + u64::from(passed.torn_bytes > 0));
        }
    }
}
