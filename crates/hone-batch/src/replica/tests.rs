//! Topics whose producers are known.

use std::collections::BTreeMap;

use hone_kafka::{BatchBuilder, batch, partition_of_key};
use hone_record::Recording;

use super::*;
use crate::whatif::Dice;
use crate::whatif::stream::{Gatherer, Limits};

const SECONDS: f64 = 20.0;
const VALUE: [u8; 100] = [b'v'; 100];

/// A batch: partition, times of its records in microseconds, keys.
struct Made {
    partition: u32,
    times_us: Vec<f64>,
    keys: Vec<Option<Vec<u8>>>,
}

fn gap_us(dice: &mut Dice, rate: f64) -> f64 {
    -(1.0 - dice.unit()).ln() * 1e6 / rate
}

/// A producer that gives each partition its own linger, as librdkafka does. `partition_of` says where each record goes, and its key.
fn producer(
    dice: &mut Dice,
    rate: f64,
    linger_us: f64,
    partition_of: impl FnMut(&mut Dice, f64) -> (u32, Option<Vec<u8>>),
) -> Vec<Made> {
    written(dice, rate, linger_us, false, partition_of)
}

/// The same; where partitions go `together`, one whose linger is over takes all others along, as in Java's client.
fn written(
    dice: &mut Dice,
    rate: f64,
    linger_us: f64,
    together: bool,
    mut partition_of: impl FnMut(&mut Dice, f64) -> (u32, Option<Vec<u8>>),
) -> Vec<Made> {
    let mut open: BTreeMap<u32, Made> = BTreeMap::new();
    let (mut done, mut at_us) = (Vec::new(), 0.0);
    loop {
        at_us += gap_us(dice, rate);
        let (partition, key) = partition_of(dice, at_us);
        let is_over = |made: &Made| made.times_us[0] + linger_us <= at_us;
        if together && open.values().any(is_over) {
            done.extend(std::mem::take(&mut open).into_values());
        }
        if let Some(made) = open.remove(&partition) {
            if is_over(&made) {
                done.push(made);
            } else {
                open.insert(partition, made);
            }
        }
        if at_us > SECONDS * 1e6 {
            done.extend(open.into_values());
            return done;
        }
        let made =
            open.entry(partition).or_insert(Made { partition, times_us: Vec::new(), keys: Vec::new() });
        made.times_us.push(at_us);
        made.keys.push(key);
    }
}

/// The topic that these producers wrote, with the id of each next to its batches (-1 for none).
fn topic(partitions: u32, producers: Vec<(i64, Vec<Made>)>) -> Gathered {
    const BEGIN_MS: f64 = 1.7e12;
    let mut all: Vec<(i64, Made)> =
        producers.into_iter().flat_map(|(id, made)| made.into_iter().map(move |made| (id, made))).collect();
    // All linger for as long, so they come in the order in which they were begun.
    all.sort_by(|(_, one), (_, other)| one.times_us[0].total_cmp(&other.times_us[0]));
    let mut gatherer = Gatherer::new(Limits::default(), Some(partitions));
    let (mut offsets, mut sequences) = (BTreeMap::<u32, i64>::new(), BTreeMap::<(i64, u32), i32>::new());
    for (id, made) in all {
        let mut builder = BatchBuilder::new(Codec::None);
        for (at_us, key) in made.times_us.iter().zip(&made.keys) {
            builder.push(key.as_deref(), Some(&VALUE), (BEGIN_MS + at_us / 1e3) as i64);
        }
        let mut bytes = builder.build().unwrap().to_vec();
        let (offset, count) = (offsets.entry(made.partition).or_default(), made.times_us.len());
        batch::set_base_offset(&mut bytes, *offset).unwrap();
        if id >= 0 {
            let sequence = sequences.entry((id, made.partition)).or_default();
            batch::set_producer(&mut bytes, id, 0, *sequence).unwrap();
            *sequence += count as i32;
        }
        gatherer.add_set(made.partition, &bytes, *offset..i64::MAX);
        *offset += count as i64;
    }
    gatherer.finish().unwrap()
}

fn known(partitions: u32, nameless_linger_ms: Option<u64>) -> Known {
    Known {
        partitions,
        leads: None,
        stretch_us: (SECONDS * 1e6) as u64,
        nameless_linger_ms,
        client: Client::Librdkafka,
    }
}

fn described(gathered: &Gathered, known: &Known) -> Writers {
    writers(gathered, known, &|| true).unwrap()
}

/// Records of the load by the partition that their keys put them into.
fn by_key(writers: &Writers, partitions: u32) -> BTreeMap<u32, usize> {
    let mut found = BTreeMap::new();
    for key in writers.records.iter().map(|record| record.key.unwrap()) {
        *found.entry(partition_of_key(Recording::key(key).as_bytes(), partitions)).or_default() += 1;
    }
    found
}

#[test]
fn one_producer_has_its_linger_its_rate_and_its_sizes() {
    for linger_ms in [0, 5, 20, 50] {
        let mut dice = Dice::new(3);
        let made = producer(&mut dice, 400.0, 1e3 * f64::from(linger_ms), |_, _| (0, None));
        let (batches, records) = (made.len(), made.iter().map(|made| made.times_us.len()).sum::<usize>());
        let found = described(&topic(1, vec![(-1, made)]), &known(1, None));
        assert_eq!((found.producers, found.doubts.nameless, found.placing), (1, Some(1), Placing::One));
        assert_eq!(found.records.len(), records);
        let linger_us = found.settings.linger_us as f64;
        assert!((linger_us / 1e3 - f64::from(linger_ms)).abs() <= 1.0, "{linger_ms}: {:?}", found.settings);
        let rate = batches as f64 / SECONDS;
        assert!((found.figures.batches_per_s / rate - 1.0).abs() < 0.01, "{:?} {rate}", found.figures);
        assert!(
            found.records.iter().all(|record| record.bytes == 100 && record.key.is_none()),
            "{linger_ms}"
        );
        assert!(found.records.is_sorted_by_key(|record| record.at_us) && found.records[0].at_us == 0);
    }
}

/// Eight that linger for 20 ms have about five batches open at a time, and all eight now and then. By overlapping spans alone they are fewer.
#[test]
fn producers_without_an_id_are_told_apart_by_their_linger() {
    let mut dice = Dice::new(5);
    let of = |dice: &mut Dice| (-1, producer(dice, 100.0, 20_000.0, |_, _| (0, None)));
    let gathered = topic(1, (0..8).map(|_| of(&mut dice)).collect());
    let found = described(&gathered, &known(1, Some(20)));
    assert!((7..=8).contains(&found.producers), "{}", found.producers);
    let least = found.records_of_each.last().copied().unwrap() as f64;
    assert!(least > 0.3 * found.records_of_each[0] as f64, "{:?}", found.records_of_each);
    // One that is alone stays one, though its linger was read off spans that ended late.
    let alone = topic(1, vec![(-1, producer(&mut dice, 500.0, 20_000.0, |_, _| (0, None)))]);
    assert_eq!(described(&alone, &known(1, Some(23))).producers, 1);
}

#[test]
fn producers_with_ids_keep_their_rates() {
    let mut dice = Dice::new(7);
    let fast = producer(&mut dice, 900.0, 5_000.0, |_, _| (0, None));
    let slow = producer(&mut dice, 100.0, 5_000.0, |_, _| (0, None));
    let counts = [&fast, &slow].map(|made| made.iter().map(|made| made.times_us.len() as u64).sum::<u64>());
    let found = described(&topic(1, vec![(7, slow), (9, fast)]), &known(1, None));
    assert_eq!((found.producers, found.doubts.nameless, found.is_idempotent), (2, None, true));
    assert_eq!(found.records_of_each, counts);
    assert_eq!(found.records.iter().filter(|record| record.producer == 1).count() as u64, counts[1]);
}

#[test]
fn keys_put_records_where_the_topic_has_them() {
    let mut dice = Dice::new(11);
    let partitions = 6;
    let made = producer(&mut dice, 1_000.0, 5_000.0, |dice, _| {
        // One key of ten is hot.
        let number = if dice.unit() < 0.5 { 0 } else { dice.below(10) };
        let key = format!("customer-{number}").into_bytes();
        (partition_of_key(&key, partitions), Some(key))
    });
    let mut truth: BTreeMap<u32, usize> = BTreeMap::new();
    made.iter().for_each(|made| *truth.entry(made.partition).or_default() += made.times_us.len());
    let found = described(&topic(partitions, vec![(-1, made)]), &known(partitions, None));
    assert_eq!(found.placing, Placing::ByKey);
    assert_eq!(by_key(&found, partitions), truth);
    let distinct: std::collections::BTreeSet<u64> =
        found.records.iter().filter_map(|record| record.key).collect();
    assert_eq!(distinct.len(), 10);
    // With a shorter key the value is longer: a record stays as large.
    let bytes = |record: &Sent| record.bytes as usize + Recording::key(record.key.unwrap()).len();
    assert!(found.records.iter().all(|record| bytes(record) == 110), "{:?}", found.records[0]);
}

/// Java's client takes partitions along, so librdkafka makes as many batches with a shorter linger.
#[test]
fn another_clients_batches_are_made_with_a_linger_of_the_loads_client() {
    for by_key in [true, false] {
        let mut next = 0;
        let mut to_partition = |dice: &mut Dice, _: f64| match by_key {
            true => {
                let key = format!("{}", dice.below(300)).into_bytes();
                (partition_of_key(&key, 8), Some(key))
            }
            false => {
                next = (next + 1) % 8;
                (next, None)
            }
        };
        let made = written(&mut Dice::new(29), 640.0, 25_000.0, true, &mut to_partition);
        let truth = made.len() as f64;
        let found = described(&topic(8, vec![(3, made)]), &known(8, None));
        assert_eq!(found.placing, if by_key { Placing::ByKey } else { Placing::EachInTurn });
        assert!(
            found.settings.doubt.is_none() && found.doubts.other_client.is_some(),
            "{:?}",
            found.settings
        );
        let linger_us = found.settings.linger_us as f64;
        // librdkafka draws a partition for each record without a key.
        let replica = producer(&mut Dice::new(31), 640.0, linger_us, |dice, at_us| match by_key {
            true => to_partition(dice, at_us),
            false => (dice.below(8) as u32, None),
        });
        let here = replica.len() as f64;
        assert!((here / truth - 1.0).abs() < 0.07, "{by_key}: {linger_us} makes {here} for {truth}");
    }
}

/// Stays with a partition for so long.
fn sticky(stay_us: f64, partitions: u32) -> impl FnMut(&mut Dice, f64) -> (u32, Option<Vec<u8>>) {
    let (mut current, mut since) = (0, f64::MIN);
    move |dice, at_us| {
        if at_us - since > stay_us {
            (current, since) = (dice.below(partitions.into()) as u32, at_us);
        }
        (current, None)
    }
}

/// Chooses the partition and the key of a record at its time.
type Choose<'a> = &'a mut dyn FnMut(&mut Dice, f64) -> (u32, Option<Vec<u8>>);

#[test]
fn a_client_that_chooses_partitions_is_left_to_choose_and_others_are_not() {
    let of = |id, linger_us, choose: Choose<'_>| {
        let mut dice = Dice::new(13);
        let made = producer(&mut dice, 1_000.0, linger_us, &mut *choose);
        described(&topic(8, vec![(id, made)]), &known(8, None)).placing
    };
    assert_eq!(of(-1, 5_000.0, &mut sticky(10_000.0, 8)), Placing::Sticky { stay_ms: None });
    let longer = of(3, 5_000.0, &mut sticky(100_000.0, 8));
    assert!(
        matches!(longer, Placing::Sticky { stay_ms: Some(80..120) }),
        "as Java's does until a batch is full: {longer:?}"
    );
    let mut next = 0;
    let mut in_turn = move |_: &mut Dice, _: f64| {
        next = (next + 1) % 8;
        (next, None)
    };
    assert_eq!(of(3, 20_000.0, &mut in_turn), Placing::EachInTurn);
    // Without an id it may as well be several producers that stay with a partition each.
    assert_eq!(of(-1, 20_000.0, &mut in_turn), Placing::Forced);
    let mut hot = |dice: &mut Dice, _: f64| (if dice.unit() < 0.6 { 0 } else { dice.below(8) as u32 }, None);
    assert_eq!(of(3, 5_000.0, &mut hot), Placing::Forced);
}

#[test]
fn a_hot_partition_of_records_without_keys_stays_hot() {
    let mut dice = Dice::new(17);
    let made = producer(&mut dice, 1_000.0, 5_000.0, |dice, _| {
        (if dice.unit() < 0.6 { 2 } else { dice.below(4) as u32 }, None)
    });
    let mut truth: BTreeMap<u32, usize> = BTreeMap::new();
    made.iter().for_each(|made| *truth.entry(made.partition).or_default() += made.times_us.len());
    let found = described(&topic(4, vec![(3, made)]), &known(4, None));
    assert_eq!((found.placing, by_key(&found, 4)), (Placing::Forced, truth));
}

#[test]
fn the_last_stretch_is_taken() {
    let mut dice = Dice::new(19);
    let gathered = topic(1, vec![(-1, producer(&mut dice, 500.0, 5_000.0, |_, _| (0, None)))]);
    let found = described(&gathered, &Known { stretch_us: 5_000_000, ..known(1, None) });
    assert!((2_200..2_800).contains(&found.records.len()), "{}", found.records.len());
    assert!(found.records.last().unwrap().at_us <= 5_000_000);
    assert!((found.figures.records_per_s / 500.0 - 1.0).abs() < 0.1, "{:?}", found.figures);
    // A tenth of a second has a dozen batches: habits are those of all that was read.
    let brief = described(&gathered, &Known { stretch_us: 100_000, ..known(1, None) });
    assert!(brief.records.len() < 100 && brief.settings == found.settings, "{:?}", brief.settings);
}

#[test]
fn a_difference_has_its_likely_reasons() {
    let mut dice = Dice::new(23);
    let found = described(
        &topic(1, vec![(-1, producer(&mut dice, 500.0, 5_000.0, |_, _| (0, None)))]),
        &known(1, None),
    );
    let today = found.figures;
    let of = |here| found.doubts.reasons(&today, &here);
    assert_eq!(of(today), Vec::<String>::new());
    let fewer = of(TopicFigures { batches_per_s: 0.5 * today.batches_per_s, ..today });
    assert!(fewer[0].contains("there may be more"), "{fewer:?}");
    let larger = of(TopicFigures { bytes_per_s: 1.5 * today.bytes_per_s, ..today });
    assert!(larger[0].contains("compress differently"), "{larger:?}");
}
