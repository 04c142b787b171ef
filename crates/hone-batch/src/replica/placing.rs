//! The partitions of a topic's records, and how a load sends records there.
//!
//! A record with a key goes to its key's partition: the load uses keys that Kafka's murmur2 puts into the same partition. A record without
//! one goes where the client's own partitioner puts it, as long as that explains the topic.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hone_kafka::partition_of_key;
use hone_record::Recording;

use super::{Known, Settings};
use crate::whatif::Dice;
use crate::whatif::moves::Moves;
use crate::whatif::stream::{NO_KEY, Producer, Who};

/// The most keys of a partition.
const MOST_KEYS: usize = 64;
/// Keys of a partition if records have none and need one for their partition.
const KEYS_TO_PLACE: usize = 16;
/// Numbers to try for each necessary key if partitions have equal chances.
const TRIES: u64 = 20;

/// The placement of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// There is one partition.
    One,
    /// Most records have keys, which put them into the topic's partitions.
    ByKey,
    /// The client chooses: it stays with a partition for a while.
    Sticky {
        /// For how long, in milliseconds, if that is longer than the client's own time.
        stay_ms: Option<u64>,
    },
    /// The client distributes them over all partitions.
    EachInTurn,
    /// Records without keys get some, which put them into the topic's partitions: its partitions differ in load, or several
    /// indistinguishable producers write them at a time.
    Forced,
}

impl Placing {
    pub(super) fn of(producers: &[Producer], known: &Known, settings: &Settings) -> Self {
        let (mut named, mut nameless) = (Moves::default(), Moves::default());
        let (mut records, mut keyed) = (0_usize, 0_usize);
        for producer in producers {
            records += producer.stream.len();
            keyed += producer.stream.key_hash.iter().filter(|hash| **hash != NO_KEY).count();
            match producer.who {
                Who::Id(_) => named.add(&producer.stream),
                Who::AtLeast(_) => nameless.add(&producer.stream),
            }
        }
        let mut all = Moves::default();
        producers.iter().for_each(|producer| all.add(&producer.stream));
        // librdkafka stays for twice its linger.
        let stay_us = 2 * settings.linger_us;
        if known.partitions <= 1 {
            Self::One
        } else if keyed * 2 > records {
            Self::ByKey
        } else if all.is_skewed(known.partitions) || !nameless.is_sticky(stay_us) {
            Self::Forced
        } else if named.is_sticky(stay_us) {
            let longer_us = all.stay_us();
            let stay_ms = (longer_us > stay_us + stay_us / 2).then_some(longer_us.div_ceil(1_000));
            Self::Sticky { stay_ms: stay_ms.filter(|_| all.stays() > 0.5) }
        } else {
            Self::EachInTurn
        }
    }

    /// Whether records without a key get one.
    fn is_forced(self) -> bool {
        self == Self::Forced
    }
}

/// A producer whose records without a key go to random partitions.
pub(super) fn drawn(producer: &Producer, partitions: u32) -> Producer {
    let mut dice = Dice::new(1);
    let mut drawn = producer.clone();
    for (partition, hash) in drawn.stream.partition.iter_mut().zip(&producer.stream.key_hash) {
        if *hash == NO_KEY {
            *partition = dice.below(partitions.into()) as u32;
        }
    }
    drawn
}

/// Numbers of keys by partition.
#[derive(Debug)]
pub(super) struct Keys {
    by_partition: BTreeMap<u32, Vec<u64>>,
    /// The load's key for a key of the topic, by partition and hash.
    ranks: HashMap<(u32, u32), usize>,
    next: BTreeMap<u32, usize>,
    is_forced: bool,
}

impl Keys {
    /// As many different keys in each partition as the topic has there, up to a limit.
    pub(super) fn of(producers: &[Producer], partitions: u32, placing: Placing) -> Self {
        let mut seen: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for stream in producers.iter().map(|producer| &producer.stream) {
            for (partition, hash) in stream.partition.iter().zip(&stream.key_hash) {
                if *hash != NO_KEY || placing.is_forced() {
                    let hashes = seen.entry(*partition).or_default();
                    if hashes.len() < MOST_KEYS {
                        hashes.insert(*hash);
                    }
                }
            }
        }
        let wanted = seen.iter().map(|(partition, hashes)| {
            let is_keyless = hashes.contains(&NO_KEY);
            (*partition, if is_keyless { hashes.len().max(KEYS_TO_PLACE) } else { hashes.len() })
        });
        let ranks = seen.iter().flat_map(|(partition, hashes)| {
            hashes.iter().enumerate().map(|(rank, hash)| ((*partition, *hash), rank))
        });
        Self {
            by_partition: numbers(partitions, &wanted.collect()),
            ranks: ranks.collect(),
            next: BTreeMap::new(),
            is_forced: placing.is_forced(),
        }
    }
}

/// Numbers whose keys are in these partitions, as many as required in each.
fn numbers(partitions: u32, wanted: &BTreeMap<u32, usize>) -> BTreeMap<u32, Vec<u64>> {
    let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    let mut left: usize = wanted.values().sum();
    let each = wanted.values().max().map_or(0, |most| *most as u64);
    let most = TRIES * (each + 1) * u64::from(partitions.max(1));
    for number in 0..most {
        if left == 0 {
            break;
        }
        let partition = partition_of_key(Recording::key(number).as_bytes(), partitions);
        let room = wanted.get(&partition).copied().unwrap_or(0);
        let here = found.entry(partition).or_default();
        if here.len() < room {
            here.push(number);
            left -= 1;
        }
    }
    found
}

/// The key of a record: equal keys for equal keys of the topic, and the next key of the partition for a record without one, if it needs
/// one.
pub(super) fn place(keys: &mut Keys, partition: u32, key_hash: u32) -> Option<u64> {
    let known = keys.by_partition.get(&partition).filter(|known| !known.is_empty())?;
    let place = match key_hash {
        NO_KEY if !keys.is_forced => return None,
        NO_KEY => {
            let next = keys.next.entry(partition).or_default();
            *next += 1;
            *next
        }
        hash => keys.ranks.get(&(partition, hash)).copied().unwrap_or(hash as usize),
    };
    known.get(place % known.len()).copied()
}
