//! How many records a second the replay takes, on one core. `bench/whatif.sh` runs it.

#![expect(clippy::print_stdout, reason = "a measurement, not part of the program")]

use std::time::Instant;

use hone_batch::whatif::client::Client;
use hone_batch::whatif::shrink::Shrink;
use hone_batch::whatif::simulate::{Brokers, Placing, Plan, replay};
use hone_batch::whatif::stream::{NO_KEY, Stream};

const RECORDS: u64 = 10_000_000;
const TRIES: u32 = 5;

/// Evenly spread, with a jitter, over the given number of partitions at the given records per second.
fn stream(partitions: u32, records_per_s: u64) -> Stream {
    let mut stream = Stream::default();
    let mut state = 1_u64;
    for index in 0..RECORDS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let partition = ((state >> 33) % u64::from(partitions)) as u32;
        stream.push(index * 1_000_000 / records_per_s, partition, 105 + (state >> 60) as u32, NO_KEY);
    }
    stream
}

fn main() {
    println!(
        "client       partitions  records/s in  linger   batches    Mrecords/s a core (best of {TRIES}, worst)"
    );
    for client in [Client::Java4, Client::Librdkafka, Client::FranzGo] {
        for (partitions, records_per_s, linger_us) in
            [(12, 100_000, 5_000), (12, 1_000_000, 20_000), (100, 100_000, 50_000), (100, 100_000, 5_000)]
        {
            let stream = stream(partitions, records_per_s);
            let rules = client.defaults().with_linger_us(linger_us);
            let brokers = Brokers { count: 3, rtt_us: 1_000, turn_us: 20, ..Brokers::one() };
            let shrink = Shrink::constant(0.5);
            let window_us = RECORDS * 1_000_000 / records_per_s;
            let plan = Plan {
                rules: &rules,
                brokers: &brokers,
                shrink: &shrink,
                placing: Placing::AsToday,
                window_us,
                blocks: 32,
                keeps_batches: false,
            };
            let mut speeds: Vec<f64> = Vec::new();
            let mut batches = 0;
            for _ in 0..TRIES {
                let begun = Instant::now();
                batches = replay(&stream, &plan).total.batches;
                speeds.push(RECORDS as f64 / begun.elapsed().as_secs_f64() / 1e6);
            }
            speeds.sort_by(f64::total_cmp);
            let (worst, best) = (speeds[0], speeds[speeds.len() - 1]);
            println!(
                "{:<12} {partitions:>10} {records_per_s:>13} {:>5} ms {batches:>9} {best:>12.1} {worst:>8.1}",
                client.name(),
                linger_us / 1_000
            );
        }
    }
}
