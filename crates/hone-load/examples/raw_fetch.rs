//! Fetches a topic from its beginning to its end and finds only where each batch begins. This is the minimum cost of any reader. For
//! `bench/xray.sh`.
//!
//!   raw_fetch BROKER TOPIC

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a measuring program of its own")]

use std::time::{Duration, Instant};

use hone_load::{At, ReadLimits, Security, Stretch, Topics};

fn main() {
    let mut words = std::env::args().skip(1);
    let (broker, topic) = (words.next().unwrap(), words.next().unwrap());
    let mut topics = Topics::enter(&broker, &Security::default()).unwrap();
    let (layout, _) = topics.layout(&topic).unwrap();
    let (from, _) = topics.offsets(&layout, At::Earliest).unwrap();
    let (to, _) = topics.offsets(&layout, At::Latest).unwrap();
    let stretches: Vec<Stretch> = to
        .iter()
        .map(|(partition, to)| Stretch { partition: *partition, from: from[partition], to: *to })
        .collect();
    let until = Instant::now() + Duration::from_secs(3_600);
    let limits = ReadLimits { bytes: u64::MAX, offset_bytes: None, until, go_on: &|| true };
    let reading =
        topics.read(&layout, &stretches, limits, &mut |portion| last_offset(portion.record_set)).unwrap();
    println!("{}", reading.bytes);
}

/// Offset after the last whole batch, by lengths and one header.
fn last_offset(set: &[u8]) -> Option<i64> {
    let (mut at, mut last) = (0, None);
    while let Some(length) = set.get(at + 8..at + 12) {
        let size = 12 + i32::from_be_bytes(length.try_into().ok()?) as usize;
        let Some(batch) = set.get(at..at + size) else { break };
        last = Some(batch);
        at += size;
    }
    let batch = last?;
    let base = i64::from_be_bytes(batch[..8].try_into().ok()?);
    Some(base + i64::from(i32::from_be_bytes(batch[23..27].try_into().ok()?)) + 1)
}
