//! Separates producers without an id by their batches.
//!
//! A producer has one batch of a partition open at a time, and opens the next one no sooner than its linger after that. So the most batches
//! of a partition that are open at the same time, each for a linger, are a lower bound of the producers.

use std::collections::BTreeMap;

use crate::whatif::Dice;
use crate::whatif::stream::{Producer, Stream, Who, Written};

/// Further colours are combined.
const MOST: usize = 1_000;
/// The trusted share of the linger: spans end late now and then, so a linger that is inferred from them is too long.
const BELIEVED: f64 = 0.8;
/// The error of whole milliseconds in the distance of two batches.
const CLOCK_US: u64 = 1_000;
/// A fixed seed: the same batches give the same producers each time.
const SEED: u64 = 1;

/// A batch with its records, as indices into a producer's stream.
struct Lot<'a> {
    producer: &'a Producer,
    written: Written,
    places: Vec<usize>,
}

/// Keeps the producers with an id, and separates those without one by the linger. Without a linger they stay separated by overlapping
/// batches.
pub(crate) fn told_apart(producers: &[Producer], linger_us: u64) -> Vec<Producer> {
    let is_named = |producer: &&Producer| !producer.who.is_nameless();
    let wait_us = ((linger_us as f64 * BELIEVED) as u64).saturating_sub(CLOCK_US);
    if wait_us == 0 || producers.iter().all(|producer| is_named(&producer)) {
        return producers.to_vec();
    }
    let nameless: Vec<&Producer> = producers.iter().filter(|producer| !is_named(producer)).collect();
    let mut by_partition: BTreeMap<u32, Vec<Lot<'_>>> = BTreeMap::new();
    for lot in nameless.into_iter().flat_map(lots) {
        by_partition.entry(lot.written.partition).or_default().push(lot);
    }
    let mut by_colour: BTreeMap<usize, Vec<Lot<'_>>> = BTreeMap::new();
    for mut lots in by_partition.into_values() {
        lots.sort_by_key(|lot| lot.written.begin_us);
        let mut slots = Slots { last: Vec::new(), dice: Dice::new(SEED) };
        for lot in lots {
            by_colour.entry(slots.taken_by(&lot.written, wait_us)).or_default().push(lot);
        }
    }
    let of_colours = by_colour.into_iter().map(|(colour, lots)| joined(colour as u32, &lots));
    producers.iter().filter(is_named).cloned().chain(of_colours).collect()
}

/// A producer's batches with their records. Within a partition both are in the order of offsets.
fn lots(producer: &Producer) -> Vec<Lot<'_>> {
    let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, partition) in producer.stream.partition.iter().enumerate() {
        places.entry(*partition).or_default().push(place);
    }
    let mut taken: BTreeMap<u32, usize> = BTreeMap::new();
    let lot = |written: &Written| {
        let from = taken.entry(written.partition).or_default();
        let all = places.get(&written.partition).map_or(&[][..], Vec::as_slice);
        let here = all.iter().copied().skip(*from).take(written.records as usize).collect::<Vec<_>>();
        *from += here.len();
        Lot { producer, written: *written, places: here }
    };
    producer.written.iter().map(lot).collect()
}

/// Producers of a partition.
struct Slots {
    /// The beginning and the end of the last batch of each.
    last: Vec<(u64, u64)>,
    dice: Dice,
}

impl Slots {
    /// A possible producer of a batch. For independent producers, each possible one is equally likely, however long it has waited.
    fn taken_by(&mut self, batch: &Written, wait_us: u64) -> usize {
        let (begin_us, end_us) = (batch.begin_us, batch.begin_us + batch.span_ms * 1_000);
        let can = |slot: &(usize, &(u64, u64))| {
            let (begun_us, ended_us) = *slot.1;
            ended_us <= begin_us && begun_us + wait_us <= begin_us
        };
        let free: Vec<usize> = self.last.iter().enumerate().filter(can).map(|(slot, _)| slot).collect();
        let drawn = self.dice.below(free.len().max(1) as u64) as usize;
        let slot = free.get(drawn).copied().unwrap_or(self.last.len()).min(MOST);
        match self.last.get_mut(slot) {
            Some(known) => *known = (begin_us, end_us.max(known.1)),
            None => self.last.push((begin_us, end_us)),
        }
        slot
    }
}

/// One producer of these batches.
fn joined(colour: u32, lots: &[Lot<'_>]) -> Producer {
    let mut records: Vec<(u64, u32, u32, u32)> = Vec::new();
    for lot in lots {
        let stream = &lot.producer.stream;
        let of = |values: &[u32], place: usize| values.get(place).copied().unwrap_or(0);
        records.extend(lot.places.iter().map(|place| {
            let at_us = stream.at_us.get(*place).copied().unwrap_or(0);
            (
                at_us,
                of(&stream.partition, *place),
                of(&stream.body_bytes, *place),
                of(&stream.key_hash, *place),
            )
        }));
    }
    // Stable: records of a batch stay in their order.
    records.sort_by_key(|(at_us, partition, ..)| (*at_us, *partition));
    let mut stream = Stream::default();
    records.iter().for_each(|(at_us, partition, bytes, key)| stream.push(*at_us, *partition, *bytes, *key));
    let mut written: Vec<Written> = lots.iter().map(|lot| lot.written).collect();
    written.sort_by_key(|batch| batch.begin_us);
    Producer { who: Who::AtLeast(colour), stream, written, kept: BTreeMap::new() }
}
