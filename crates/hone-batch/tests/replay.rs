//! Replays of made-up streams against what arithmetic says of them.

use hone_batch::whatif::client::{Client, Keyless, Rules};
use hone_batch::whatif::shrink::Shrink;
use hone_batch::whatif::simulate::{Brokers, Placing, Plan, Replay, Trigger, replay};
use hone_batch::whatif::stream::{NO_KEY, Stream};
use hone_kafka::codec::Codec;

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Poisson arrivals at the given records per second in each partition.
fn poisson(rates: &[f64], seconds: f64, body_bytes: u32) -> Stream {
    let mut arrivals = Vec::new();
    for (partition, rate) in rates.iter().enumerate() {
        let mut dice = Dice(42 + partition as u64);
        let mut at = 0.0;
        loop {
            at -= (1.0 - dice.unit()).ln() / rate;
            if at >= seconds {
                break;
            }
            arrivals.push(((at * 1e6) as u64, partition as u32));
        }
    }
    arrivals.sort_unstable();
    let mut stream = Stream::default();
    arrivals.iter().for_each(|(at_us, partition)| stream.push(*at_us, *partition, body_bytes, NO_KEY));
    stream
}

fn java(linger_ms: u64) -> Rules {
    let rules = Client::Java4.defaults().with_linger_us(linger_ms * 1_000);
    Rules { memory_bytes: u64::MAX, ..rules.with_batch_bytes(100 << 20) }
}

fn plan<'a>(rules: &'a Rules, brokers: &'a Brokers, shrink: &'a Shrink) -> Plan<'a> {
    let placing = Placing::AsToday;
    Plan { rules, brokers, shrink, placing, window_us: 60_000_000, blocks: 10, keeps_batches: false }
}

fn run(stream: &Stream, rules: &Rules, brokers: &Brokers) -> Replay {
    let done = replay(stream, &plan(rules, brokers, &Shrink::none()));
    assert_eq!(done.total.records, stream.len() as u64, "no record is lost");
    assert_eq!(done.triggers.iter().sum::<u64>(), done.total.batches);
    assert_eq!(done.waits_us.total(), done.total.records);
    done
}

#[track_caller]
fn near(found: f64, wanted: f64, off: f64) {
    assert!((found / wanted - 1.0).abs() <= off, "{found} is not within {off} of {wanted}");
}

#[test]
fn linger_alone_gives_one_and_the_rate_times_linger() {
    for (rate, linger_ms) in [(50.0, 10), (500.0, 10), (500.0, 100), (5_000.0, 20)] {
        let stream = poisson(&[rate], 2_000_000.0 / rate / 20.0, 100);
        let done = run(&stream, &java(linger_ms), &Brokers::one());
        let x = rate * linger_ms as f64 / 1e3;
        near(done.total.mean_records(), 1.0 + x, 0.01);
        near(done.total.mean_wait_us() / 1e3, linger_ms as f64 * (1.0 + x / 2.0) / (1.0 + x), 0.01);
        assert!(done.share_of(Trigger::Time) > 0.999);
    }
}

#[test]
fn a_cap_cuts_poisson_batches() {
    let (rate, linger_ms, cap) = (500.0, 10, 6);
    let rules = Rules { batch_records: cap, ..java(linger_ms) };
    let done = run(&poisson(&[rate], 400.0, 100), &rules, &Brokers::one());
    // E[min(1 + Poisson(x), cap)], term by term.
    let x: f64 = rate * linger_ms as f64 / 1e3;
    let mut wanted = 0.0;
    let (mut term, mut left) = ((-x).exp(), 1.0);
    for count in 0..cap - 1 {
        wanted += term * f64::from(1 + count);
        left -= term;
        term *= x / f64::from(count + 1);
    }
    wanted += left * f64::from(cap);
    near(done.total.mean_records(), wanted, 0.005);
    assert!(done.share_of(Trigger::Size) > 0.5);
}

#[test]
fn partitions_of_a_broker_are_taken_along() {
    for (x, independent, together) in [(0.5_f64, 1.5, 1.32), (1.0, 2.0, 1.64), (5.0, 6.0, 5.13)] {
        let stream = poisson(&[x * 100.0; 10], 1_500.0, 100);
        let one = Brokers::one();
        let done = run(&stream, &java(10), &one);
        let exact = (1.0 + 10.0 * x) / (1.0 + 9.0 * (1.0 - (-x).exp()));
        assert!((done.total.mean_records() - exact).abs() < 0.01, "{} {exact}", done.total.mean_records());
        assert!((done.total.mean_records() - together).abs() < 0.015);
        assert!(done.share_of(Trigger::WithOthers) > 0.3);
        let alone = run(&stream, &java(10), &one.each_alone(10));
        assert!((alone.total.mean_records() - independent).abs() < 0.02);
        assert_eq!(alone.share_of(Trigger::WithOthers), 0.0);
    }
}

#[test]
fn a_hot_partition_takes_cold_ones_along_but_for_librdkafka() {
    let mut rates = vec![5_000.0];
    rates.extend([50.0; 9]);
    let stream = poisson(&rates, 300.0, 100);
    let rules = Rules { batch_records: 100, ..java(100) };
    let brokers = Brokers::one();
    let shrink = Shrink::none();
    let cold = |rules: &Rules| {
        let done = replay(&stream, &Plan { keeps_batches: true, ..plan(rules, &brokers, &shrink) });
        let cold: Vec<_> = done.made.iter().filter(|made| made.partition > 0).collect();
        cold.iter().map(|made| f64::from(made.records)).sum::<f64>() / cold.len() as f64
    };
    // The hot one fills its 100 records in 20 ms, give or take a tenth: x / (1 - E[exp(-x)]) of a gamma with mean 1 and shape 100. A linger of
    // its own would give them 1 + 50/s * 100 ms = 6.
    near(cold(&rules), 1.0 / (1.0 - 1.01_f64.powi(-100)), 0.01);
    assert!((cold(&rules) - 1.57).abs() < 0.03, "{}", cold(&rules));
    let librdkafka = Client::Librdkafka.defaults().with_linger_us(100_000);
    let librdkafka = Rules { batch_records: 100, ..librdkafka };
    near(cold(&librdkafka), 6.0, 0.02);
}

#[test]
fn without_linger_answers_in_flight_make_the_batches() {
    for (rate, rtt_us) in [(20_000.0, 1_000), (40_000.0, 1_000), (50_000.0, 2_000)] {
        let stream = poisson(&[rate], 20.0, 100);
        let brokers = Brokers { rtt_us, ..Brokers::one() };
        let done = run(&stream, &java(0), &brokers);
        let wanted = rate * rtt_us as f64 / 1e6 / 5.0;
        assert!(wanted > 2.0);
        near(done.total.records as f64 / done.total.requests as f64, wanted, 0.04);
    }
    let slow = run(&poisson(&[100.0], 50.0, 100), &java(0), &Brokers { rtt_us: 1_000, ..Brokers::one() });
    assert_eq!(slow.total.mean_records(), 1.0);
    assert_eq!(slow.total.wait_us, 0);
}

#[test]
fn a_sender_that_is_busy_gathers_meanwhile() {
    let stream = poisson(&[50_000.0], 10.0, 100);
    let rules = Rules { in_flight: u32::MAX, ..java(0) };
    let done = run(&stream, &rules, &Brokers { turn_us: 100, ..Brokers::one() });
    // A turn begins with the first record behind the last turn, which is the 1 of the lingering formula where the sender idles.
    assert!((4.5..6.1).contains(&done.total.mean_records()), "{}", done.total.mean_records());
    assert!(done.held_back > 0);
}

#[test]
fn sizes_are_those_that_a_batch_builder_makes() {
    use hone_kafka::BatchBuilder;
    for count in [1_u64, 63, 64, 65, 500] {
        let mut stream = Stream::default();
        let mut builder = BatchBuilder::new(Codec::None);
        for index in 0..count {
            builder.push(None, Some(&[7; 100]), 1_700_000_000_000 + index as i64);
            stream.push(index * 1_000, 0, 1 + 1 + 2 + 100 + 1, NO_KEY);
        }
        let done = run(&stream, &java(1_000), &Brokers::one());
        assert_eq!((done.total.batches, done.total.bytes), (1, builder.build().unwrap().len() as u64));
    }
}

#[test]
fn javas_batches_end_where_the_next_record_does_not_fit() {
    let mut stream = Stream::default();
    (0..10_000).for_each(|index| stream.push(index * 10, 0, 105, NO_KEY));
    let rules = Client::Java4.defaults();
    let done = run(&stream, &rules, &Brokers::one());
    let most = done.sizes.most().unwrap();
    assert!(most <= 16_384 && most > 16_384 - 2 * 111, "{most}");
    let mut large = Stream::default();
    large.push(0, 0, 40_000, NO_KEY);
    large.push(1, 0, 40_000, NO_KEY);
    let done = run(&large, &rules, &Brokers::one());
    assert_eq!(done.total.batches, 2, "one record always fits, and none goes along with it");
}

#[test]
fn a_packing_java_client_begins_with_small_batches_and_learns_slowly() {
    let mut stream = Stream::default();
    (0..400_000).for_each(|index| stream.push(index * 2, 0, 105, NO_KEY));
    let rules = Client::Java4.defaults().with_linger_us(1_000_000).with_codec(Codec::Zstd);
    let (brokers, shrink) = (Brokers::one(), Shrink::constant(0.25));
    let done = replay(&stream, &Plan { keeps_batches: true, ..plan(&rules, &brokers, &shrink) });
    let first = f64::from(done.made[0].plain_bytes);
    near(first, (16_384.0 - 61.0) / 1.05, 0.02);
    // A step of 0.005 for each batch: after 100 of them a ratio of 0.5.
    near(f64::from(done.made[100].plain_bytes), (16_384.0 - 61.0) / 1.05 / 0.5, 0.02);
    let last = done.made[done.made.len() - 2];
    assert!(f64::from(last.plain_bytes) > 3.5 * first, "{last:?}");
}

#[test]
fn franz_go_lingers_anew_for_what_it_left_behind() {
    // Two partitions; the second batch of partition 0 is begun when it is full, and waits for its own linger from the request on.
    let mut stream = Stream::default();
    for at in [0, 100, 200] {
        stream.push(at, 0, 600_000, NO_KEY);
    }
    stream.push(300, 1, 100, NO_KEY);
    let rules = Client::FranzGo.defaults().with_codec(Codec::None);
    let brokers = Brokers { rtt_us: 50, ..Brokers::one() };
    let shrink = Shrink::none();
    let done = replay(&stream, &Plan { keeps_batches: true, ..plan(&rules, &brokers, &shrink) });
    let sent: Vec<_> = done.made.iter().map(|made| (made.partition, made.sent_us)).collect();
    // The third record makes the second batch full; its request leaves one behind, whose linger begins then.
    assert_eq!(sent, [(0, 100), (0, 200), (0, 10_200), (1, 10_200)]);
}

#[test]
fn librdkafka_sends_one_batch_a_request_and_java_one_request_for_all() {
    let stream = poisson(&[200.0; 8], 30.0, 100);
    let librdkafka = run(&stream, &Client::Librdkafka.defaults(), &Brokers::one());
    assert_eq!(librdkafka.total.batches, librdkafka.total.requests);
    let java = run(&stream, &java(5), &Brokers::one());
    assert!(java.total.batches > 3 * java.total.requests);
}

#[test]
fn memory_is_counted_as_the_client_counts_it() {
    let stream = poisson(&[100.0; 64], 10.0, 100);
    let rules = Client::Java4.defaults().with_linger_us(100_000).with_batch_bytes(1 << 20);
    let done = run(&stream, &rules, &Brokers { rtt_us: 1_000, ..Brokers::one() });
    assert!(done.would_wait > 0, "64 partitions of 1 MiB are more than 32 MiB");
    assert!(done.share_of(Trigger::Memory) > 0.0);
    let small = run(&stream, &rules.with_batch_bytes(16_384), &Brokers::one());
    assert_eq!(small.would_wait, 0);
    assert!(small.memory_bytes <= 64 * 16_384 && small.memory_bytes >= 60 * 16_384);
}

#[test]
fn sticky_records_gather_and_records_in_turn_do_not() {
    let stream = poisson(&[2_000.0], 60.0, 100);
    let (brokers, shrink) = (Brokers::one().each_alone(12), Shrink::none());
    let placing = Placing::Anew { partitions: 12, moves_keys: false, seed: 1 };
    let sticky = Client::Java4.defaults().with_linger_us(20_000);
    let of = |rules: &Rules| replay(&stream, &Plan { placing, ..plan(rules, &brokers, &shrink) });
    let done = of(&sticky);
    assert_eq!(done.total.records, stream.len() as u64);
    near(done.total.mean_records(), 41.0, 0.05);
    let in_turn = of(&Rules { keyless: Keyless::EachInTurn, ..sticky.clone() });
    assert!(in_turn.total.mean_records() < 5.0, "{}", in_turn.total.mean_records());
    for client in Client::ALL {
        let done = of(&client.defaults().with_linger_us(20_000).with_codec(Codec::None));
        assert!(done.total.mean_records() > 20.0, "{}: {}", client.name(), done.total.mean_records());
    }
}

#[test]
fn blocks_add_up_and_pages_are_whole() {
    let stream = poisson(&[1_000.0; 3], 60.0, 100);
    let done = run(&stream, &java(5), &Brokers::one());
    let mut sum = hone_batch::whatif::simulate::Block::default();
    done.blocks.iter().for_each(|block| sum.add(block));
    assert_eq!(sum, done.total);
    let mean = done.total.mean_bytes();
    assert!(mean < 4_096.0);
    near(done.write_amplification_most(), 4_096.0 / mean, 0.02);
    near(done.header_share(), 61.0 / mean, 0.001);
}
