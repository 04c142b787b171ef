//! How fast batches in memory are looked into by their headers: bytes a second of CPU, by batch size. For `bench/xray.sh`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program of its own")]

use std::time::Instant;

use hone_batch::scan::scan;
use hone_batch::xray::{Depth, Facts, Sight};
use hone_kafka::batch::{set_base_offset, set_producer, set_timestamps};
use hone_kafka::{BatchBuilder, Codec};

/// Larger than any cache, as an answer of a broker is read once.
const SET_BYTES: usize = 256 << 20;
const ROUNDS: usize = 8;

fn main() {
    println!("batch bytes   headers alone GB/s   with sums, evidence and verdicts GB/s");
    for value_bytes in [100, 900, 3_900, 16_200] {
        let (set, batch_bytes) = record_set(value_bytes);
        let alone = speed(set.len(), || {
            let mut sum = 0;
            let (_, next) = scan(&set, 0, |seen, _| sum += seen.bytes);
            assert_eq!(sum, set.len() as u64);
            next
        });
        let whole = speed(set.len(), || {
            let depth = Depth { decode_bytes: 0, tolerable_linger_ms: 100.0 };
            let mut sight = Sight::new("speed", 1, depth);
            let next = sight.take(0, 0, i64::MAX, &set);
            let told = sight.finish(Facts { share: 1.0, ..Facts::default() });
            assert_eq!(told.bytes, set.len() as u64);
            next
        });
        println!("{batch_bytes:11}   {alone:18.2}   {whole:37.2}");
    }
}

/// Batches of one record, of four producers in turn, one a millisecond.
fn record_set(value_bytes: usize) -> (Vec<u8>, usize) {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(None, Some(&vec![b'v'; value_bytes]), 0);
    let one = builder.build().unwrap();
    let count = SET_BYTES / one.len();
    let mut set = one.repeat(count);
    for (number, batch) in set.chunks_exact_mut(one.len()).enumerate() {
        let number = number as i64;
        set_base_offset(batch, number).unwrap();
        set_producer(batch, number % 4, 0, 0).unwrap();
        set_timestamps(batch, 1_700_000_000_000 + number, 1_700_000_000_000 + number).unwrap();
    }
    (set, one.len())
}

/// The best of some rounds: what disturbs only makes it slower.
fn speed(bytes: usize, mut run: impl FnMut() -> Option<i64>) -> f64 {
    (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            assert!(run().is_some());
            bytes as f64 / start.elapsed().as_secs_f64() / 1e9
        })
        .fold(0.0, f64::max)
}
