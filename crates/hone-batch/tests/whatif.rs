//! From batches to a prediction, compared with a replay of the arrivals that made the batches.

use hone_batch::whatif::calibrate::Told;
use hone_batch::whatif::client::{Client, Rules};
use hone_batch::whatif::predict::{Case, Change, Partitioner, what_if};
use hone_batch::whatif::shrink::Shrink;
use hone_batch::whatif::simulate::{Brokers, Placing, Plan, Replay, replay};
use hone_batch::whatif::stream::{Gathered, Gatherer, Limits, NO_KEY, Stream};
use hone_kafka::batch::{batches, set_producer, set_transactional};
use hone_kafka::{BatchBuilder, Codec};
use hone_record::{BatchAdvice, Envelope, WhatIf};

const BEGIN_MS: i64 = 1_700_000_000_000;

struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn value(index: usize) -> Vec<u8> {
    format!(
        "{{\"id\":{index},\"user\":\"u{}\",\"action\":\"click\",\"page\":\"/products/{}\"}}",
        index % 977,
        index % 53
    )
    .into_bytes()
}

fn poisson(rates: &[f64], seconds: f64, seed: u64) -> Vec<(u64, u32)> {
    let mut arrivals = Vec::new();
    for (partition, rate) in rates.iter().enumerate() {
        let mut dice = Dice(seed * 1_000 + partition as u64);
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
    arrivals
}

/// The truth: microseconds, and the bodies of `value`.
fn stream(arrivals: &[(u64, u32)]) -> Stream {
    let mut stream = Stream::default();
    for (index, (at_us, partition)) in arrivals.iter().enumerate() {
        stream.push(*at_us, *partition, 1 + 1 + 2 + value(index).len() as u32 + 1, NO_KEY);
    }
    stream
}

fn run(stream: &Stream, rules: &Rules, brokers: &Brokers, shrink: &Shrink) -> Replay {
    let plan = Plan {
        rules,
        brokers,
        shrink,
        placing: Placing::AsToday,
        window_us: 1,
        blocks: 1,
        keeps_batches: true,
    };
    replay(stream, &plan)
}

/// Writes what a client would have written, as bytes of batches.
fn written(arrivals: &[(u64, u32)], rules: &Rules, brokers: &Brokers, id: i64) -> Vec<(u32, Vec<u8>)> {
    let stream = stream(arrivals);
    let made = run(&stream, rules, brokers, &Shrink::constant(0.4)).made;
    let mut lanes: Vec<Vec<usize>> = vec![Vec::new(); stream.partitions() as usize];
    arrivals.iter().enumerate().for_each(|(index, (_, partition))| lanes[*partition as usize].push(index));
    let mut gone = vec![0; lanes.len()];
    made.iter()
        .map(|made| {
            let lane = made.partition as usize;
            let mut builder = BatchBuilder::new(rules.codec);
            let first = gone[lane];
            for index in &lanes[lane][first..first + made.records as usize] {
                builder.push(None, Some(&value(*index)), BEGIN_MS + (arrivals[*index].0 / 1_000) as i64);
            }
            gone[lane] += made.records as usize;
            let mut bytes = builder.build().unwrap();
            if id >= 0 {
                set_producer(&mut bytes, id, 0, first as i32).unwrap();
            }
            (made.partition, bytes)
        })
        .collect()
}

fn gather(sets: &[(u32, Vec<u8>)], partitions: u32) -> Gathered {
    let mut gatherer = Gatherer::new(Limits::default(), Some(partitions));
    for (partition, bytes) in sets {
        batches(bytes).map(Result::unwrap).for_each(|batch| gatherer.add(*partition, &batch));
    }
    gatherer.finish().unwrap()
}

fn case(gathered: &Gathered, partitions: u32) -> Case<'_> {
    let leads = Some(vec![0; partitions as usize]);
    Case { gathered, told: Told::default(), leads, partitions, seed: 7, tolerable_us: 100_000 }
}

#[track_caller]
fn near(found: f64, wanted: f64, off: f64) {
    assert!((found / wanted - 1.0).abs() <= off, "{found} is not within {off} of {wanted}");
}

/// Records of a thread that waits for each answer, which takes from `least_us` on.
fn waiting(seed: u64, records: u32, least_us: f64, spread_us: f64) -> Vec<(u64, u32)> {
    let (mut dice, mut at) = (Dice(seed), 0.0);
    let next = |_| {
        at += least_us + spread_us * dice.unit();
        (at as u64, 0)
    };
    (0..records).map(next).collect()
}

/// Records of one producer in transactions of the given milliseconds: the arrivals, and their batches with the markers between them.
fn in_transactions(
    arrivals: &[(u64, u32)],
    every_ms: u64,
    rules: &Rules,
    one: &Brokers,
) -> (Stream, Vec<(u32, Vec<u8>)>) {
    let number = |index: usize| arrivals[index].0 / 1_000 / every_ms;
    let is_last = |index: usize| index + 1 == arrivals.len() || number(index) != number(index + 1);
    let mut truth = stream(arrivals);
    truth.commits = (0..arrivals.len()).filter(|index| is_last(*index)).map(|index| index as u32).collect();
    let mut lanes: Vec<Vec<usize>> = vec![Vec::new(); truth.partitions() as usize];
    arrivals.iter().enumerate().for_each(|(index, (_, partition))| lanes[*partition as usize].push(index));
    let (mut gone, mut sets) = (vec![0; lanes.len()], Vec::new());
    for made in run(&truth, rules, one, &Shrink::none()).made {
        let lane = &lanes[made.partition as usize];
        let first = gone[made.partition as usize];
        let own = &lane[first..first + made.records as usize];
        gone[made.partition as usize] += own.len();
        let mut builder = BatchBuilder::new(Codec::None);
        own.iter().for_each(|index| {
            builder.push(None, Some(&value(*index)), BEGIN_MS + (arrivals[*index].0 / 1_000) as i64);
        });
        let mut bytes = builder.build().unwrap();
        set_producer(&mut bytes, 5, 0, first as i32).unwrap();
        set_transactional(&mut bytes, false).unwrap();
        sets.push((made.partition, bytes));
        let last = own[own.len() - 1];
        if lane.get(first + own.len()).is_none_or(|next| number(*next) != number(last)) {
            let mut marker = BatchBuilder::new(Codec::None);
            marker.push(Some(b"kind"), Some(b"epoch"), BEGIN_MS + (arrivals[last].0 / 1_000) as i64 + 1);
            let mut bytes = marker.build().unwrap();
            set_producer(&mut bytes, 5, 0, -1).unwrap();
            set_transactional(&mut bytes, true).unwrap();
            sets.push((made.partition, bytes));
        }
    }
    (truth, sets)
}

#[test]
fn the_end_of_a_transaction_closes_batches_whatever_the_linger() {
    let arrivals = poisson(&[400.0, 150.0, 50.0], 30.0, 12);
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    let rules = Client::Java4.defaults();
    let (truth, sets) = in_transactions(&arrivals, 20, &rules, &one);
    let gathered = gather(&sets, 3);
    assert_eq!(gathered.producers[0].stream.commits.len(), truth.commits.len(), "each commit is found once");
    let change = Change { linger_us: Some(100_000), ..Change::default() };
    let found = what_if(&case(&gathered, 3), &change, &|| true).unwrap();
    assert_eq!(found.refused, None, "{:?}", found.producers);
    let longer = rules.with_linger_us(100_000);
    let came = run(&truth, &longer, &one, &Shrink::none()).total.batches as f64;
    let foreseen = found.predicted.unwrap();
    near(foreseen.batches_per_s.value * found.window_s, came, 0.03);
    assert!(foreseen.figures.sent_by.unwrap().commit > 0.9);
    let without = run(&stream(&arrivals), &longer, &one, &Shrink::none()).total.batches as f64;
    assert!(came > 2.0 * without, "without transactions a linger would bring far more: {came}, {without}");
    // Longer than a transaction brings nothing more.
    let Some(BatchAdvice::Set { linger_ms: Some(linger_ms), target_bytes: None, .. }) = found.advice else {
        panic!("{:?}", found.advice)
    };
    assert!((15.0..=30.0).contains(&linger_ms), "{linger_ms}");
    // A linger that outlasts the transactions already can't bring more: only rarer commits do.
    let (_, sets) = in_transactions(&arrivals, 20, &Client::Java4.defaults().with_linger_us(30_000), &one);
    let gathered = gather(&sets, 3);
    let found = what_if(&case(&gathered, 3), &Change::default(), &|| true).unwrap();
    let advice = found.advice.unwrap();
    assert!(matches!(advice, BatchAdvice::Commits { share, .. } if share > 0.9), "{advice:?}");
}

#[test]
fn a_bound_on_records_is_read_off_and_raising_it_is_advised() {
    let arrivals = poisson(&[1_500.0, 1_500.0], 20.0, 14);
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    let rules = Client::Librdkafka.defaults().with_linger_us(50_000).with_batch_records(37);
    let gathered = gather(&written(&arrivals, &rules, &one, -1), 2);
    let change = Change { linger_us: Some(200_000), ..Change::default() };
    let found = what_if(&case(&gathered, 2), &change, &|| true).unwrap();
    assert_eq!(found.refused, None, "{:?}", found.producers);
    assert_eq!(found.producers[0].settings.as_ref().unwrap().batch_records, Some(37));
    let came =
        run(&stream(&arrivals), &rules.clone().with_linger_us(200_000), &one, &Shrink::none()).total.batches;
    near(found.predicted.unwrap().batches_per_s.value * found.window_s, came as f64, 0.03);
    let Some(BatchAdvice::Set { batch_records: Some(10_000), linger_ms: None, effect, .. }) = found.advice
    else {
        panic!("{:?}", found.advice)
    };
    let truth = |rules: &Rules| run(&stream(&arrivals), rules, &one, &Shrink::none()).total.batches as f64;
    let change = truth(&rules.clone().with_batch_records(10_000)) / truth(&rules) - 1.0;
    assert!((effect.batches_change - change).abs() < 0.03, "{effect:?}, {change}");
}

#[test]
fn what_is_advised_brings_what_it_says() {
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    let of = |rate: f64, rules: &Rules, tolerable_us: u64| {
        let arrivals = poisson(&[rate; 4], 40.0, 15);
        let gathered = gather(&written(&arrivals, rules, &one, 6), 4);
        let found =
            what_if(&Case { tolerable_us, ..case(&gathered, 4) }, &Change::default(), &|| true).unwrap();
        assert_eq!(found.refused, None, "{:?}", found.producers);
        (arrivals, found.advice.unwrap())
    };
    let rules = Client::Java4.defaults();
    let (arrivals, advice) = of(2_000.0, &rules, 200_000);
    let BatchAdvice::Set {
        linger_ms: Some(linger_ms), batch_bytes, target_bytes: Some(16_384), effect, ..
    } = advice
    else {
        panic!("{advice:?}")
    };
    assert!(linger_ms <= 200.0, "{linger_ms}");
    let bytes = u32::try_from(batch_bytes.expect("16 KiB of the mean need more than 16 KiB")).unwrap();
    let then = rules.clone().with_linger_us((linger_ms * 1e3) as u64).with_batch_bytes(bytes);
    let truth = |rules: &Rules| run(&stream(&arrivals), rules, &one, &Shrink::none());
    let (before, after) = (truth(&rules), truth(&then));
    assert!(after.total.mean_bytes() >= 0.98 * 16_384.0, "{}", after.total.mean_bytes());
    let change = after.total.batches as f64 / before.total.batches as f64 - 1.0;
    assert!((effect.batches_change - change).abs() < 0.02, "{effect:?}, {change}");
    let wait_ms = |done: &Replay| done.waits_us.quantile(0.5).unwrap() as f64 / 1e3;
    near(effect.wait_ms_p50_change, wait_ms(&after) - wait_ms(&before), 0.1);
    // What the user does not tolerate is not advised.
    let (_, less) = of(1_000.0, &rules, 10_000);
    assert!(matches!(less, BatchAdvice::Set { linger_ms: Some(10.0), target_bytes: None, .. }), "{less:?}");
    let (_, starved) = of(2.0, &rules, 50_000);
    assert!(matches!(starved, BatchAdvice::Starved { tolerable_ms: 50.0, .. }), "{starved:?}");
}

#[test]
fn a_longer_linger_is_foreseen_as_it_comes() {
    let arrivals = poisson(&[300.0; 6], 40.0, 1);
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    for client in [Client::Java4, Client::Librdkafka] {
        let today = client.defaults().with_linger_us(10_000);
        let gathered =
            gather(&written(&arrivals, &today, &one, if client == Client::Java4 { 9 } else { -1 }), 6);
        let change = Change { linger_us: Some(50_000), ..Change::default() };
        let found = what_if(&case(&gathered, 6), &change, &|| true).unwrap();
        assert_eq!(found.refused, None);
        let truth = run(&stream(&arrivals), &today.with_linger_us(50_000), &one, &Shrink::none());
        let foreseen = found.predicted.as_ref().unwrap();
        near(foreseen.figures.records_per_batch, truth.total.mean_records(), 0.02);
        near(foreseen.batch_bytes_mean.value, truth.total.mean_bytes(), 0.02);
        near(foreseen.wait_ms_mean.value, truth.total.mean_wait_us() / 1e3, 0.03);
        near(foreseen.requests_per_s.value * found.window_s, truth.total.requests as f64, 0.03);
        let range = foreseen.batch_bytes_mean;
        assert!(range.low <= range.value && range.value <= range.high);
        assert!(found.replayed.unwrap().batches_per_s / found.today.batches_per_s > 0.95);
        assert_eq!(found.cheapest.len(), 2);
        let text = Envelope::new(found.clone()).to_text().unwrap();
        let read = Envelope::<WhatIf>::parse(&text).unwrap();
        assert_eq!((read.producers.len(), read.change, read.notes), (1, found.change, found.notes));
    }
}

/// Wherever the scan is stopped, the output either predicts all or gives the reason for no prediction.
#[test]
fn what_is_stopped_says_so() {
    let arrivals = poisson(&[300.0; 2], 5.0, 1);
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    let today = Client::Java4.defaults().with_linger_us(10_000);
    let gathered = gather(&written(&arrivals, &today, &one, 9), 2);
    let change = Change { linger_us: Some(50_000), ..Change::default() };
    let stopped_after = |most: usize| {
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= most
        };
        let found = what_if(&case(&gathered, 2), &change, &go_on).unwrap();
        assert_eq!(found.predicted.is_none(), found.refused.is_some(), "{most} of {}", asked.get());
        (found.refused, asked.get())
    };
    let (refused, all) = stopped_after(usize::MAX);
    assert_eq!(refused, None);
    // The search asks most of all, and what comes behind it few times.
    let early = (0..all).step_by((all / 8).max(1));
    for most in early.chain(all.saturating_sub(12)..all) {
        let refused = stopped_after(most).0.unwrap();
        assert!(refused.starts_with("the replay stopped before"), "{most} of {all}: {refused}");
    }
}

#[test]
fn another_codec_is_packed_and_not_guessed() {
    let arrivals = poisson(&[2_000.0; 2], 20.0, 2);
    let one = Brokers::one();
    let today = Client::Java4.defaults().with_linger_us(20_000);
    let gathered = gather(&written(&arrivals, &today, &one, 4), 2);
    let change = Change { codec: Some(Codec::Zstd), ..Change::default() };
    let found = what_if(&case(&gathered, 2), &change, &|| true).unwrap();
    assert!(found.batches_packed > 20);
    // What zstd makes of the same batches, batch by batch.
    let same = written(&arrivals, &today.clone().with_codec(Codec::Zstd), &one, 4);
    let truth: usize = same.iter().map(|(_, bytes)| bytes.len()).sum();
    near(found.predicted.unwrap().bytes_per_s.value * found.window_s, truth as f64, 0.06);
}

#[test]
fn producers_that_are_merged_fill_batches() {
    let one = Brokers::one();
    let rules = Client::Java4.defaults().with_linger_us(20_000);
    let mut sets = Vec::new();
    let mut all = Vec::new();
    for id in 0..8 {
        let arrivals = poisson(&[40.0; 2], 60.0, 10 + id);
        sets.extend(written(&arrivals, &rules, &one, id as i64));
        all.extend(arrivals);
    }
    all.sort_unstable();
    let gathered = gather(&sets, 2);
    let change = Change { producers: Some(1), ..Change::default() };
    let found = what_if(&case(&gathered, 2), &change, &|| true).unwrap();
    let truth = run(&stream(&all), &rules, &one, &Shrink::none());
    let foreseen = found.predicted.unwrap();
    near(foreseen.figures.records_per_batch, truth.total.mean_records(), 0.05);
    assert!(foreseen.figures.records_per_batch > 2.0 * found.today.records_per_batch);
}

#[test]
fn cheapest_settings_reach_their_sizes_or_say_how_far_they_come() {
    let arrivals = poisson(&[400.0; 2], 40.0, 5);
    let one = Brokers::one();
    let rules = Client::Java4.defaults();
    let gathered = gather(&written(&arrivals, &rules, &one, 4), 2);
    let found = what_if(&case(&gathered, 2), &Change::default(), &|| true).unwrap();
    let [small, large] = found.cheapest.as_slice() else { panic!("{:?}", found.cheapest) };
    let linger_ms = small.linger_ms.expect("4 KB are some 50 records, 100 ms or more");
    let truth = run(
        &stream(&arrivals),
        &rules.clone().with_linger_us((linger_ms * 1e3) as u64),
        &one,
        &Shrink::none(),
    );
    assert!(truth.total.mean_bytes() >= 4_096.0 * 0.98);
    let before =
        run(&stream(&arrivals), &rules.with_linger_us((linger_ms * 400.0) as u64), &one, &Shrink::none());
    assert!(before.total.mean_bytes() < 4_096.0, "a linger far below does not");
    assert!(large.batch_bytes.is_some() && large.linger_ms.is_some(), "16 KiB need a larger cap: {large:?}");
    let slow = poisson(&[1.0; 2], 120.0, 5);
    let gathered = gather(&written(&slow, &Client::Java4.defaults(), &one, 4), 2);
    let found = what_if(&case(&gathered, 2), &Change::default(), &|| true).unwrap();
    assert!(found.cheapest.iter().all(|setting| setting.linger_ms.is_none()), "{:?}", found.cheapest);
}

#[test]
fn upgrades_take_the_new_default_only_where_the_old_one_was_used() {
    let arrivals = poisson(&[200.0; 4], 60.0, 6);
    let one = Brokers { rtt_us: 1_000, turn_us: 50, ..Brokers::one() };
    let gathered = gather(&written(&arrivals, &Client::Java3.defaults(), &one, 4), 4);
    let change = Change { client: Some(Client::Java4), ..Change::default() };
    for client in [Some(Client::Java3), None] {
        let told = Told { client, ..Told::default() };
        let found = what_if(&Case { told, ..case(&gathered, 4) }, &change, &|| true).unwrap();
        assert_eq!(found.refused, None);
        let settings = found.producers[0].settings.as_ref().unwrap();
        assert_eq!((settings.client.as_str(), settings.linger_ms), ("java3", 0.0));
        let truth = run(&stream(&arrivals), &Client::Java4.defaults(), &one, &Shrink::none());
        near(found.predicted.unwrap().figures.records_per_batch, truth.total.mean_records(), 0.04);
        let is_guess = found.notes.iter().any(|note| note.contains("4.x with linger.ms=0"));
        assert_eq!(is_guess, client.is_none());
    }
    let told = Told { client: Some(Client::Java4), ..Told::default() };
    let found = what_if(&Case { told, ..case(&gathered, 4) }, &change, &|| true).unwrap();
    let foreseen = found.predicted.unwrap().figures.records_per_batch;
    near(foreseen, found.today.records_per_batch, 0.1);
}

#[test]
fn an_explanation_is_lent_only_to_those_that_it_explains() {
    let one = Brokers::one();
    let usual = Client::Java4.defaults().with_linger_us(20_000);
    let other = Client::Java4.defaults().with_linger_us(100_000);
    let of = |more: &[(f64, &Rules)]| {
        let rates = (0..64).map(|_| (60.0, &usual)).chain(more.iter().copied());
        let mut sets = Vec::new();
        for (id, (rate, rules)) in rates.enumerate() {
            sets.extend(written(&poisson(&[rate], 20.0, 100 + id as u64), rules, &one, id as i64));
        }
        let gathered = gather(&sets, 1);
        let change = Change { linger_us: Some(50_000), ..Change::default() };
        what_if(&case(&gathered, 1), &change, &|| true).unwrap()
    };
    let alike = of(&[(30.0, &usual); 6]);
    assert_eq!(alike.refused, None);
    assert!(alike.notes.iter().all(|note| !note.contains("producer(s)")), "{:?}", alike.notes);
    let few_others = of(&[(30.0, &other); 6]);
    assert!(few_others.predicted.is_some(), "{:?}", few_others.refused);
    assert!(few_others.notes.iter().any(|note| note.contains("of 6 producer(s)")));
    let many_others = of(&[(45.0, &other); 60]);
    let why = many_others.refused.expect("a fifth of the batches");
    assert!(why.contains("only the 64 largest producers"), "{why}");
}

/// Without a linger librdkafka draws a partition for each record, as an application might. A linger makes it stay.
#[test]
fn a_client_that_draws_a_partition_for_each_record_stays_with_a_linger() {
    let one = Brokers::one();
    let rules = Client::Librdkafka.defaults().with_linger_us(0);
    let arrivals = poisson(&[47.5; 4], 60.0, 11);
    let gathered = gather(&written(&arrivals, &rules, &one, 3), 4);
    let change = Change { linger_us: Some(100_000), ..Change::default() };
    let stays = rules.with_linger_us(100_000);
    let plan = Plan {
        rules: &stays,
        brokers: &one,
        shrink: &Shrink::constant(0.4),
        placing: Placing::Anew { partitions: 4, moves_keys: false, seed: 3 },
        window_us: 60_000_000,
        blocks: 1,
        keeps_batches: false,
    };
    let truth = replay(&stream(&arrivals), &plan).total.batches as f64 / 60.0;
    for client in [None, Some(Client::Librdkafka)] {
        let case =
            Case { told: Told { client, is_open_loop: true, ..Told::default() }, ..case(&gathered, 4) };
        let found = what_if(&case, &change, &|| true).unwrap();
        let then = found.predicted.unwrap_or_else(|| panic!("{:?}", found.refused)).batches_per_s;
        near(then.value, truth, 0.1);
        assert!(then.low <= truth && then.high > 2.5 * truth, "{then:?} of {truth}");
        assert!(found.notes.iter().any(|note| note.contains("either the client or the application")));
    }
}

/// The default of librdkafka: no id. Several of them in one partition look like one whose batches come too soon after each other.
#[test]
fn producers_without_an_id_are_told_apart_by_their_linger() {
    let one = Brokers::one();
    let rules = Client::Librdkafka.defaults().with_linger_us(20_000);
    let later = rules.clone().with_linger_us(50_000);
    let (mut sets, mut truth) = (Vec::new(), 0);
    for seed in 0..5 {
        let arrivals = poisson(&[15.0; 4], 60.0, 40 + seed);
        sets.extend(written(&arrivals, &rules, &one, -1));
        truth += run(&stream(&arrivals), &later, &one, &Shrink::constant(0.4)).total.batches;
    }
    let began_ms = |set: &(u32, Vec<u8>)| batches(&set.1).next().unwrap().unwrap().header.base_timestamp;
    sets.sort_by_key(began_ms);
    let gathered = gather(&sets, 4);
    let change = Change { linger_us: Some(50_000), ..Change::default() };
    let found = what_if(&case(&gathered, 4), &change, &|| true).unwrap();
    let then = found.predicted.unwrap_or_else(|| panic!("{:?}", found.refused)).batches_per_s;
    near(found.today.batches_per_s, sets.len() as f64 / 60.0, 0.01);
    near(then.value, truth as f64 / 60.0, 0.1);
    assert!(found.notes[0].contains("separates producers without an id by a linger of"), "{:?}", found.notes);
}

#[test]
fn settings_that_are_lent_are_marked_and_have_no_misfit() {
    let one = Brokers::one();
    let rules = Client::Java4.defaults().with_linger_us(20_000);
    let of = |small: i64| {
        let mut sets = written(&poisson(&[60.0], 20.0, 40), &rules, &one, 1_000);
        for id in 0..small {
            sets.extend(written(&poisson(&[0.8], 18.0, 50 + id as u64), &rules, &one, id));
        }
        let gathered = gather(&sets, 1);
        what_if(&case(&gathered, 1), &Change { linger_us: Some(50_000), ..Change::default() }, &|| true)
            .unwrap()
    };
    let few = of(3);
    assert!(few.predicted.is_some(), "{:?}", few.refused);
    let told: Vec<_> = few
        .producers
        .iter()
        .map(|each| (each.lent, each.misfit.is_some(), each.settings.is_some()))
        .collect();
    assert_eq!(told, [(false, true, true), (true, false, true), (true, false, true), (true, false, true)]);
    assert!(few.notes.iter().any(|note| note.starts_with("3 producer(s) have too few batches")));
    let many = of(20);
    assert!(
        many.refused.as_ref().is_some_and(|why| why.starts_with("20 producers with")),
        "{:?}",
        many.refused
    );
    assert!(many.predicted.is_none());
}

#[test]
fn a_sender_who_waits_is_seen_beyond_the_largest_producers() {
    let one = Brokers::one();
    let usual = Client::Java4.defaults().with_linger_us(20_000);
    let mut sets = Vec::new();
    for id in 0..64 {
        sets.extend(written(&poisson(&[30.0], 20.0, 200 + id), &usual, &one, id as i64));
    }
    for id in 64..84 {
        let waiting = waiting(id, 300, 50e3, 20e3);
        sets.extend(written(&waiting, &Client::Java3.defaults(), &one, id as i64));
    }
    let gathered = gather(&sets, 1);
    let found =
        what_if(&case(&gathered, 1), &Change { linger_us: Some(50_000), ..Change::default() }, &|| true);
    let why = found.unwrap().refused.expect("a fifth of the batches");
    assert!(why.contains("open-loop replay is wrong here"), "{why}");
}

#[test]
fn each_codec_has_its_own_ratios_and_today_has_them_too() {
    let one = Brokers::one();
    let plain = Client::Java4.defaults().with_linger_us(20_000);
    let packed = plain.clone().with_codec(Codec::Zstd);
    let (first, second) = (poisson(&[1_500.0], 20.0, 31), poisson(&[900.0], 20.0, 32));
    let sets = [written(&first, &plain, &one, 1), written(&second, &packed, &one, 2)].concat();
    let gathered = gather(&sets, 1);
    let change = Change { linger_us: Some(80_000), ..Change::default() };
    let found = what_if(&case(&gathered, 1), &change, &|| true).unwrap();
    assert_eq!(found.refused, None);
    near(found.replayed.as_ref().unwrap().bytes_per_s, found.today.bytes_per_s, 0.02);
    let longer = |arrivals, rules: &Rules, id| -> usize {
        let sets = written(arrivals, &rules.clone().with_linger_us(80_000), &one, id);
        sets.iter().map(|(_, bytes)| bytes.len()).sum()
    };
    let truth = longer(&first, &plain, 1) + longer(&second, &packed, 2);
    near(found.predicted.unwrap().bytes_per_s.value * found.window_s, truth as f64, 0.04);
}

#[test]
fn headers_alone_foresee_much_the_same() {
    let arrivals = poisson(&[300.0; 6], 40.0, 1);
    let one = Brokers { rtt_us: 800, ..Brokers::one() };
    let today = Client::Java4.defaults().with_linger_us(10_000);
    let limits = Limits { reads_records: false, kept_bytes: 0, ..Limits::default() };
    let mut gatherer = Gatherer::new(limits, Some(6));
    for (partition, bytes) in written(&arrivals, &today, &one, 9) {
        batches(&bytes).map(Result::unwrap).for_each(|batch| gatherer.add(partition, &batch));
    }
    let gathered = gatherer.finish().unwrap();
    let of = |change: &Change| what_if(&case(&gathered, 6), change, &|| true).unwrap();
    let found = of(&Change { linger_us: Some(50_000), ..Change::default() });
    assert_eq!(found.refused, None);
    let truth = run(&stream(&arrivals), &today.with_linger_us(50_000), &one, &Shrink::none());
    near(found.predicted.unwrap().batch_bytes_mean.value, truth.total.mean_bytes(), 0.06);
    assert!(found.notes.iter().any(|note| note.contains("headers only")));
    for change in [
        Change { codec: Some(Codec::Zstd), ..Change::default() },
        Change { partitions: Some(2), ..Change::default() },
        Change { partitioner: Some(Partitioner::Sticky), ..Change::default() },
    ] {
        assert!(of(&change).refused.is_some_and(|why| why.contains("--no-payload")), "{change:?}");
    }
}

#[test]
fn a_search_that_is_stopped_foresees_nothing() {
    let arrivals = poisson(&[300.0], 20.0, 1);
    let gathered = gather(&written(&arrivals, &Client::Java4.defaults(), &Brokers::one(), 9), 1);
    let change = Change { linger_us: Some(50_000), ..Change::default() };
    for most in [0, 1, 20, 40] {
        let asked = std::cell::Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            asked.get() <= most
        };
        let found = what_if(&case(&gathered, 1), &change, &go_on).unwrap();
        assert!(found.predicted.is_none() && found.cheapest.is_empty(), "{most}");
        assert!(found.refused.is_some_and(|why| why.contains("stopped")), "{most}");
    }
}

#[test]
fn partitions_and_partitioners_place_records_anew() {
    let mut arrivals = poisson(&[1_000.0], 60.0, 8);
    arrivals.iter_mut().enumerate().for_each(|(index, (_, partition))| *partition = index as u32 % 12);
    let one = Brokers::one();
    let rules = Client::Java4.defaults().with_linger_us(10_000);
    let gathered = gather(&written(&arrivals, &rules, &one, 4), 12);
    let of = |change| {
        what_if(&case(&gathered, 12), &change, &|| true).unwrap().predicted.unwrap().figures.records_per_batch
    };
    let in_turn = of(Change { linger_us: Some(10_000), ..Change::default() });
    let sticky = of(Change { partitioner: Some(Partitioner::Sticky), ..Change::default() });
    let fewer = of(Change { partitions: Some(2), ..Change::default() });
    assert!(in_turn < 2.0 && sticky > 8.0 && fewer > 8.0, "{in_turn} {sticky} {fewer}");
    let still = of(Change { partitioner: Some(Partitioner::RoundRobin), ..Change::default() });
    near(still, in_turn, 0.05);
}

#[test]
fn keys_that_lie_elsewhere_and_senders_who_wait_are_refused() {
    let mut gatherer = Gatherer::new(Limits::default(), Some(4));
    let arrivals = poisson(&[100.0], 30.0, 9);
    for (index, (at_us, _)) in arrivals.iter().enumerate() {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(Some(format!("key{index}").as_bytes()), Some(b"v"), BEGIN_MS + (at_us / 1_000) as i64);
        let bytes = builder.build().unwrap();
        gatherer.add(index as u32 % 4, &batches(&bytes).next().unwrap().unwrap());
    }
    let gathered = gatherer.finish().unwrap();
    let told =
        Told { client: Some(Client::Librdkafka), linger_us: Some(0), is_open_loop: true, ..Told::default() };
    let change = Change { partitions: Some(8), ..Change::default() };
    let found = what_if(&Case { told, ..case(&gathered, 4) }, &change, &|| true).unwrap();
    assert!(found.refused.as_ref().is_some_and(|why| why.contains("murmur2")), "{:?}", found.refused);
    assert!(found.predicted.is_none() && found.replayed.is_some());
}

/// A thread that waits goes round in 7 ms, whatever of that is a linger.
#[test]
fn another_linger_changes_the_cycle_of_a_sender_who_waits() {
    let arrivals = waiting(4, 2_000, 6e3, 2e3);
    let gathered = gather(&written(&arrivals, &Client::Java3.defaults(), &Brokers::one(), 3), 1);
    let of = |told: Told, linger_ms: u64| {
        let change = Change { linger_us: Some(linger_ms * 1_000), ..Change::default() };
        what_if(&Case { told, ..case(&gathered, 1) }, &change, &|| true).unwrap()
    };
    let found = of(Told::default(), 20);
    assert_eq!((found.refused.as_ref(), found.replayed.as_ref()), (None, None));
    let batches = found.predicted.unwrap().batches_per_s;
    // 20 ms on top of 1 to 7 ms.
    assert!(batches.low < 1e3 / 27.0 && 1e3 / 21.0 < batches.high && batches.low > 30.0, "{batches:?}");
    let told = of(Told { linger_us: Some(5_000), ..Told::default() }, 0).predicted.unwrap().batches_per_s;
    near(told.value, 500.0, 0.02);
    let none = of(Told { linger_us: Some(0), ..Told::default() }, 20).predicted.unwrap().batches_per_s;
    near(none.value, 1e3 / 27.0, 0.02);
    assert!(none.high < 1.1 * none.value && none.low > 0.9 * none.value, "{none:?}");
    assert_eq!(found.advice, Some(BatchAdvice::Waits { linger_ms: Some(6.0) }));
    // Anything else of it is not known.
    let change = Change { batch_bytes: Some(65_536), ..Change::default() };
    let other = what_if(&case(&gathered, 1), &change, &|| true).unwrap();
    let why = other.refused.expect("a sender who waits");
    assert!(why.starts_with("producer 3: an open-loop replay is wrong here"), "{why}");
    assert!(other.predicted.is_none() && other.cheapest.is_empty());
}
