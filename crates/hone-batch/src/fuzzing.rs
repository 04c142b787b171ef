//! Entry points of the fuzz targets in `fuzz/`. Each takes any bytes as if a broker had sent them, or had left them on its disk, and panics
//! when an invariant is violated. They are compiled for the feature `fuzzing` and for the unit tests.

use crate::segments::{Layout, layout_of};
use crate::xray::{Depth, Facts, Sight};

/// A target: bytes in, a panic on a fault.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus.
pub const TARGETS: [(&str, Target); 2] = [("sets", sets), ("segments", segments)];

const DEPTH: Depth = Depth { decode_bytes: 1 << 20, tolerable_linger_ms: 100.0 };

/// A byte with the partition, one with the first offset that is wanted, then a record set.
pub fn sets(data: &[u8]) {
    let [partition, from, set @ ..] = data else { return };
    let mut sight = Sight::new("fuzzed", 3, DEPTH);
    let next = sight.take(i32::from(*partition), i64::from(*from), i64::MAX, set);
    sight.end_slot();
    sight.take(0, next.unwrap_or(0), i64::MAX, set);
    sight.end_slot();
    finish(sight, 2 * set.len() as u64);
}

/// Bytes of a segment, whatever layout they have, and as both.
pub fn segments(data: &[u8]) {
    for layout in [layout_of(data), Some(Layout::Wire), Some(Layout::Redpanda)].into_iter().flatten() {
        let mut sight = Sight::new("fuzzed", 1, DEPTH);
        let walked = sight.take_segment(0, layout, i64::MIN, data);
        assert!(walked <= data.len(), "{walked} of {} bytes", data.len());
        finish(sight, data.len() as u64);
    }
}

/// The parts of a report must be consistent.
fn finish(sight: Sight, most_bytes: u64) {
    let facts = Facts { fetched_bytes: most_bytes, share: 0.5, is_sample: true, ..Facts::default() };
    let told = sight.finish(facts);
    assert!(told.bytes <= most_bytes, "{} bytes of {most_bytes}", told.bytes);
    let by_partition: u64 = told.by_partition.iter().map(|part| part.batches).sum();
    assert_eq!(by_partition, told.batches);
    let shares: f64 = told.codecs.iter().map(|codec| codec.share).sum();
    assert!(told.batches == 0 || (shares - 1.0).abs() < 1e-9, "{shares}");
    for producer in &told.producers {
        let sum: f64 = producer.triggers.iter().map(|(_, share)| share).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{producer:?}");
    }
    if let Some(mean) = told.mean_bytes {
        let sizes = told.size_bytes.unwrap_or_default();
        assert!(sizes.least as f64 <= mean.value && mean.value <= sizes.most as f64, "{mean:?} {sizes:?}");
    }
    assert!(!told.findings.is_empty());
}

#[cfg(test)]
mod tests {
    use hone_kafka::batch::{set_base_offset, set_producer};
    use hone_kafka::{BatchBuilder, Codec};
    use proptest::prelude::*;

    use super::*;

    fn set() -> Vec<u8> {
        let codecs = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
        let of = |(number, codec): (usize, Codec)| {
            let mut builder = BatchBuilder::new(codec);
            (0..3).for_each(|record| {
                builder.push(Some(b"key"), Some(b"value"), 1_000 + 7 * number as i64 + record)
            });
            let mut bytes = builder.build().unwrap();
            set_base_offset(&mut bytes, 3 * number as i64).unwrap();
            set_producer(&mut bytes, number as i64 % 3 - 1, 0, 0).unwrap();
            bytes
        };
        codecs.into_iter().cycle().take(25).enumerate().flat_map(of).collect()
    }

    #[test]
    fn what_is_kept_of_earlier_runs_holds() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        for (name, target) in TARGETS {
            let inputs: Vec<_> = std::fs::read_dir(folder.join(name)).unwrap().collect();
            assert!(!inputs.is_empty(), "{name} has a corpus");
            inputs.into_iter().for_each(|input| target(&std::fs::read(input.unwrap().path()).unwrap()));
        }
    }

    proptest! {
        #[test]
        fn sets_with_bytes_changed_hold_together(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            cut: prop::sample::Index,
        ) {
            let mut bytes = [vec![1, 0], set()].concat();
            for (at, to) in changes {
                let at = at.index(bytes.len());
                bytes[at] = to;
            }
            sets(&bytes);
            sets(&bytes[..cut.index(bytes.len())]);
            segments(&bytes[2..]);
        }
    }
}
