//! The effect of compression on batches, by their size: measured on the topic's own records, in new batches.

use std::collections::BTreeMap;

use hone_kafka::codec::{self, Codec, CodecError};

use super::stream::{Kept, Producer};

/// Sizes to try: powers of two from 2^7 bytes on.
const FIRST_LOG: u32 = 7;
/// Largest size to try.
const LAST_LOG: u32 = 20;
/// Batches of each size.
const TRIES: usize = 24;

/// Compressed size of records over their plain size, by batch size.
#[derive(Debug, Clone, PartialEq)]
pub struct Shrink {
    /// Plain bytes and ratio, by bytes.
    points: Vec<(f64, f64)>,
    /// Number of compressed batches in the measurement.
    pub tries: u64,
    /// Their plain bytes.
    pub plain_bytes: u64,
}

impl Shrink {
    /// For uncompressed records.
    pub fn none() -> Self {
        Self { points: Vec::new(), tries: 0, plain_bytes: 0 }
    }

    /// One ratio for all sizes.
    pub fn constant(ratio: f64) -> Self {
        Self { points: vec![(1.0, ratio)], tries: 0, plain_bytes: 0 }
    }

    /// Ratios at sizes, for tests and for the ratios that today's batches show.
    pub fn of_points(mut points: Vec<(f64, f64)>) -> Self {
        points.retain(|(bytes, ratio)| *bytes > 0.0 && ratio.is_finite());
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Self { points, tries: 0, plain_bytes: 0 }
    }

    /// The ratio at a size: interpolated along the logarithm of bytes between two sizes, and constant beyond them.
    pub fn ratio(&self, plain_bytes: u64) -> f64 {
        let bytes = plain_bytes.max(1) as f64;
        let behind = self.points.partition_point(|(at, _)| *at <= bytes);
        let low = behind.checked_sub(1).and_then(|index| self.points.get(index));
        match (low, self.points.get(behind)) {
            (Some((from, low)), Some((to, high))) => {
                let share = (bytes / from).ln() / (to / from).ln();
                low + share * (high - low)
            }
            (Some((_, only)), None) | (None, Some((_, only))) => *only,
            (None, None) => 1.0,
        }
    }

    /// With all ratios multiplied by this factor.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        self.points.iter_mut().for_each(|(_, ratio)| *ratio *= factor);
        self
    }

    /// Whether it comes from a measurement.
    pub fn is_measured(&self) -> bool {
        self.tries > 0
    }
}

/// Compresses kept records again, in batches of several sizes, with the records of one producer and one partition in their order.
///
/// # Errors
/// Fails when a codec fails, which no input should cause.
pub fn measure<'a>(
    producers: impl Iterator<Item = &'a Producer>,
    codec: Codec,
) -> Result<Shrink, CodecError> {
    if codec == Codec::None {
        return Ok(Shrink::none());
    }
    let mut runs: Vec<&Kept> = producers.flat_map(|producer| producer.kept.values()).collect();
    runs.retain(|run| run.total_bytes() > 0);
    let mut sums: BTreeMap<u32, (u64, u64, u64)> = BTreeMap::new();
    for log in FIRST_LOG..=LAST_LOG {
        let wanted = 1_usize << log;
        let fitting: Vec<&Kept> = runs.iter().copied().filter(|run| run.total_bytes() >= wanted).collect();
        for (turn, run) in fitting.iter().take(TRIES).enumerate() {
            // A few from each run, and as many from one if there is only one.
            let tries = TRIES.div_ceil(fitting.len().min(TRIES)).max(usize::from(turn == 0));
            for plain in samples(run, wanted, tries) {
                let packed = codec::compress(codec, &plain)?;
                let sum = sums.entry(log).or_default();
                *sum = (sum.0 + 1, sum.1 + plain.len() as u64, sum.2 + packed.len() as u64);
            }
        }
    }
    let points = sums
        .values()
        .filter(|(_, plain, _)| *plain > 0)
        .map(|(tries, plain, packed)| (*plain as f64 / *tries as f64, *packed as f64 / *plain as f64))
        .collect();
    let mut shrink = Shrink::of_points(points);
    shrink.tries = sums.values().map(|sum| sum.0).sum();
    shrink.plain_bytes = sums.values().map(|sum| sum.1).sum();
    Ok(shrink)
}

/// Records of batches of a size, spread over a run.
fn samples(run: &Kept, wanted: usize, tries: usize) -> Vec<Vec<u8>> {
    let parts = (run.total_bytes() / wanted).max(1);
    let every = parts.div_ceil(tries.max(1));
    let mut found = Vec::new();
    let (mut batch, mut count, mut part) = (Vec::with_capacity(wanted + 1_024), 0_i32, 0);
    for tail in run.tails() {
        if part % every == 0 {
            put_record(&mut batch, count, tail);
        }
        count += 1;
        // Skipped bytes count as well, so that parts are equally long.
        if part % every != 0 {
            batch.resize(batch.len() + tail.len(), 0);
        }
        if batch.len() >= wanted {
            if part % every == 0 && found.len() < tries {
                found.push(std::mem::take(&mut batch));
            }
            batch.clear();
            count = 0;
            part += 1;
        }
    }
    found
}

/// A record as it stands in a batch whose records are a millisecond apart.
fn put_record(out: &mut Vec<u8>, place: i32, tail: &[u8]) {
    use hone_kafka::wire::{put_varint, put_varlong};
    let mut deltas = Vec::with_capacity(12);
    deltas.push(0);
    put_varlong(&mut deltas, i64::from(place / 8));
    put_varint(&mut deltas, place);
    put_varint(out, i32::try_from(deltas.len() + tail.len()).unwrap_or(i32::MAX));
    out.extend_from_slice(&deltas);
    out.extend_from_slice(tail);
}

#[cfg(test)]
mod tests {
    use hone_kafka::BatchBuilder;
    use hone_kafka::batch::batches;

    use super::*;
    use crate::whatif::stream::{Gatherer, Limits};

    fn producer_of(values: impl Iterator<Item = Vec<u8>>) -> Producer {
        let mut gatherer = Gatherer::new(Limits::default(), None);
        for (index, value) in values.enumerate() {
            let mut builder = BatchBuilder::new(Codec::None);
            builder.push(None, Some(&value), 1_700_000_000_000 + index as i64);
            let bytes = builder.build().unwrap();
            gatherer.add(0, &batches(&bytes).next().unwrap().unwrap());
        }
        gatherer.finish().unwrap().producers.remove(0)
    }

    #[test]
    fn ratios_lie_between_their_points() {
        let shrink = Shrink::of_points(vec![(10_000.0, 0.2), (100.0, 0.8)]);
        assert_eq!((shrink.ratio(1), shrink.ratio(100), shrink.ratio(1 << 30)), (0.8, 0.8, 0.2));
        assert!((shrink.ratio(1_000) - 0.5).abs() < 1e-9);
        assert_eq!((Shrink::none().ratio(50), Shrink::constant(0.3).ratio(7)), (1.0, 0.3));
    }

    #[test]
    fn like_records_shrink_the_better_the_more_there_are() {
        let line = |index: usize| {
            format!("{{\"user\":{index},\"action\":\"click\",\"page\":\"/index.html\"}}").into_bytes()
        };
        let producer = producer_of((0..4_000).map(line));
        for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd, Codec::Snappy] {
            let shrink = measure([&producer].into_iter(), codec).unwrap();
            assert!(shrink.is_measured() && shrink.plain_bytes > 100_000);
            let (small, large) = (shrink.ratio(256), shrink.ratio(64 << 10));
            assert!(small > 1.5 * large, "{}: {small} {large}", codec.name());
        }
        assert_eq!(measure([&producer].into_iter(), Codec::None).unwrap(), Shrink::none());
    }

    #[test]
    fn the_ratio_is_the_one_of_whole_batches_that_are_packed() {
        let line = |index: usize| format!("key={} value={}", index % 97, index * 7_919 % 10_007).into_bytes();
        let producer = producer_of((0..3_000).map(line));
        let shrink = measure([&producer].into_iter(), Codec::Zstd).unwrap();
        let mut builder = BatchBuilder::new(Codec::Zstd);
        (0..600).for_each(|index| builder.push(None, Some(&line(index)), 1_700_000_000_000 + index as i64));
        let real = (builder.build().unwrap().len() - 61) as f64 / builder.plain_bytes() as f64;
        let told = shrink.ratio(builder.plain_bytes() as u64);
        assert!((told / real - 1.0).abs() < 0.1, "{told} {real}");
    }

    #[test]
    fn without_kept_records_nothing_is_claimed() {
        let shrink = measure(std::iter::empty(), Codec::Zstd).unwrap();
        assert!(!shrink.is_measured());
    }
}
