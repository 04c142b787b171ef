//! The sums of a partition's batch headers.

use hone_kafka::Codec;
use hone_kafka::batch::TimestampType;
use hone_record::BatchSizes;

use crate::histogram::Histogram;
use crate::producers::Producers;
use crate::scan::{Passed, Seen};
use crate::verdict::BETTER_BYTES;

/// A page of an NVMe drive: the least that a separately flushed batch costs.
pub const PAGE_BYTES: u64 = 4_096;
/// Codecs, by their bits.
pub(crate) const CODECS: usize = 5;

/// Sums over the batches of a partition, or of a topic; some 40 KiB, whatever the number of batches.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Batches of data.
    pub batches: u64,
    /// Their bytes, headers included.
    pub bytes: u64,
    /// Their records.
    pub records: u64,
    /// Bytes of batches, each batch once.
    pub sizes: Histogram,
    /// The same, weighted by bytes: the batch size of a byte of the topic.
    pub sizes_by_bytes: Histogram,
    /// Number of batches by size.
    pub by_size: BatchSizes,
    /// Records of batches.
    pub counts: Histogram,
    /// Milliseconds from first to last record, of batches of several records with the producer's times.
    pub spans_ms: Histogram,
    /// Bytes by codec.
    pub codec_bytes: [u64; CODECS],
    /// Batches below 16 KiB: their number, and their bytes.
    pub small: [u64; 2],
    /// Batches that 16 KiB batches would avoid, summed.
    pub needless: f64,
    /// Bytes in whole 4 KiB pages, each batch by itself.
    pub page_bytes: u64,
    /// Batches of transactions.
    pub transactional: u64,
    /// Batches with the broker's time.
    pub log_append: u64,
    /// Transaction markers, which no producer batched; in none of the sums.
    pub control: u64,
    /// Batches that lost records by compaction; in none of the sums, because they are not what a producer sent.
    pub compacted: u64,
    /// Earliest and latest time of a record, milliseconds since 1970.
    pub times_ms: Option<(i64, i64)>,
    /// The producers.
    pub producers: Producers,
    /// Batches whose times run backwards, or that have none.
    pub timeless: u64,
    /// Other contents.
    pub passed: Passed,
}

impl Tally {
    /// Adds a batch, in the order of offsets.
    pub fn add(&mut self, seen: &Seen) {
        let header = &seen.header;
        if header.is_control() {
            self.control += 1;
            return;
        }
        if seen.is_compacted() {
            self.compacted += 1;
            return;
        }
        let records = header.record_count.max(0) as u64;
        self.batches += 1;
        self.bytes += seen.bytes;
        self.records += records;
        self.sizes.add(seen.bytes, 1);
        self.sizes_by_bytes.add(seen.bytes, seen.bytes);
        self.by_size.add(seen.bytes, 1);
        self.counts.add(records, 1);
        if (seen.bytes as f64) < BETTER_BYTES {
            self.small = [self.small[0] + 1, self.small[1] + seen.bytes];
            self.needless += 1.0 - seen.bytes as f64 / BETTER_BYTES;
        }
        self.page_bytes = self.page_bytes.saturating_add(seen.bytes.next_multiple_of(PAGE_BYTES));
        let is_timeless = header.base_timestamp < 0 || header.max_timestamp < header.base_timestamp;
        self.timeless += u64::from(is_timeless);
        if let Some(span) = seen.span_ms().filter(|_| records > 1) {
            self.spans_ms.add(span, 1);
        }
        self.codec_bytes[codec_index(header.codec())] += seen.bytes;
        self.transactional += u64::from(header.is_transactional());
        self.log_append += u64::from(header.timestamp_type() == TimestampType::LogAppend);
        self.spread(header.base_timestamp.min(header.max_timestamp), header.max_timestamp);
        self.producers.add(seen);
    }

    fn spread(&mut self, first: i64, last: i64) {
        // -1 means no time.
        if first < 0 {
            return;
        }
        let (least, most) = self.times_ms.unwrap_or((first, last));
        self.times_ms = Some((least.min(first), most.max(last)));
    }
}

/// A codec's index in sums by codec.
pub(crate) fn codec_index(codec: Codec) -> usize {
    usize::try_from(codec.bits()).unwrap_or(0).min(CODECS - 1)
}

#[cfg(test)]
pub(crate) mod tests {
    use hone_kafka::BatchHeader;

    use super::*;

    /// A batch of a producer, with this number of bytes and records, and with times from `begin` to `end`.
    pub(crate) fn seen(producer_id: i64, bytes: u64, records: i32, begin: i64, end: i64) -> Seen {
        let header = BatchHeader {
            base_offset: 0,
            batch_length: bytes as i32 - 12,
            leader_epoch: 0,
            magic: 2,
            crc: 0,
            attributes: 0,
            last_offset_delta: records - 1,
            base_timestamp: begin,
            max_timestamp: end,
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            record_count: records,
        };
        Seen { header, bytes }
    }

    fn with_attributes(seen: Seen, attributes: i16) -> Seen {
        Seen { header: BatchHeader { attributes, ..seen.header }, ..seen }
    }

    #[test]
    fn sizes_are_told_by_batches_and_by_bytes() {
        let mut tally = Tally::default();
        for _ in 0..9 {
            tally.add(&seen(1, 100, 1, 1_000, 1_000));
        }
        tally.add(&seen(1, 9_100, 91, 1_000, 2_000));
        assert_eq!((tally.bytes, tally.records, tally.batches), (10_000, 100, 10));
        assert_eq!((tally.small, tally.page_bytes), ([10, 10_000], 9 * 4_096 + 12_288));
        assert!((tally.needless - (10.0 - 10_000.0 / 16_384.0)).abs() < 1e-9, "{}", tally.needless);
        assert_eq!(tally.sizes.quantile(0.5), Some(101));
        assert_eq!(tally.sizes_by_bytes.quantile(0.5), Some(9_100), "most bytes lie in the large one");
        assert_eq!(
            (tally.spans_ms.total(), tally.spans_ms.most()),
            (1, Some(1_000)),
            "one record has no span"
        );
    }

    #[test]
    fn markers_and_compacted_batches_are_in_no_sum() {
        let mut tally = Tally::default();
        tally.add(&with_attributes(seen(1, 78, 1, 5, 5), 1 << 5 | 1 << 4));
        let thinned = seen(1, 500, 3, 5, 9);
        tally.add(&Seen { header: BatchHeader { record_count: 2, ..thinned.header }, ..thinned });
        assert_eq!((tally.batches, tally.control, tally.compacted), (0, 1, 1));
        assert_eq!((tally.bytes, tally.times_ms), (0, None));
        tally.add(&with_attributes(seen(1, 500, 3, 5, 9), 1 << 4 | 4));
        assert_eq!((tally.transactional, tally.codec_bytes[4]), (1, 500));
        tally.add(&with_attributes(seen(1, 500, 3, 5, 900), 1 << 3));
        assert_eq!((tally.log_append, tally.spans_ms.total()), (1, 1), "the broker's time is no span");
    }
}
