//! Traffic between availability zones: what producers, replication and consumers send across them, and what that costs. Pure.
//!
//! Producers and consumers are assumed to be spread evenly over the zones, unless a share is known. A consumer reads from the leader; with follower
//! fetching (KIP-392) it reads from a replica in its own zone where there is one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Where the replicas of a partition are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The broker that leads it.
    pub leader: i32,
    /// All brokers with a replica, the leader included.
    pub replicas: Vec<i32>,
}

/// A topic with its traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct Topic {
    /// Its name.
    pub name: String,
    /// Bytes per second that producers send.
    pub bytes_per_s: f64,
    /// Its partitions; they share the bytes evenly.
    pub partitions: Vec<Placed>,
}

/// Who reads, and how.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Readers {
    /// How often each byte is read.
    pub fan_out: f64,
    /// Whether consumers read from a replica in their own zone.
    pub follower_fetching: bool,
}

/// Bytes per second, all of them and those that cross a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// All.
    pub bytes_per_s: f64,
    /// Across a zone.
    pub crossing_per_s: f64,
}

/// The traffic by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Flows {
    /// From producers to leaders.
    pub produce: Traffic,
    /// From leaders to followers.
    pub replicate: Traffic,
    /// From brokers to consumers.
    pub fetch: Traffic,
}

/// Prices, from a file of the user's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    /// Where they come from.
    pub source: String,
    /// When they were read.
    pub dated: String,
    /// For example `USD`.
    pub currency: String,
    /// For a GB (10^9 bytes) that crosses a zone, both directions together.
    pub crossing_per_gb: f64,
    /// For a core of a broker, per month.
    pub core_per_month: f64,
}

/// Why traffic has no zones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZoneError {
    /// A broker without a rack.
    #[error("broker {0} has no rack (broker.rack), so its zone is unknown")]
    NoRack(i32),
    /// Only one zone.
    #[error("all brokers are in one zone ({0}), so nothing crosses")]
    OneZone(String),
}

/// A month of 30 days, in seconds.
const MONTH_S: f64 = 30.0 * 86_400.0;
/// Bytes of a GB, as clouds bill it.
const GB: f64 = 1e9;

impl Prices {
    /// Amazon EC2 on demand: 0.01 USD for a GB in each direction, and a core of an m7g.
    pub fn usual() -> Self {
        Self {
            source:
                "Amazon EC2 on-demand list prices, us-east-1 (data transfer between Availability Zones; m7g)"
                    .to_owned(),
            dated: "2025-06".to_owned(),
            currency: "USD".to_owned(),
            crossing_per_gb: 0.02,
            core_per_month: 29.4,
        }
    }

    /// The price of traffic, per month.
    pub fn crossing_per_month(&self, bytes_per_s: f64) -> f64 {
        bytes_per_s * MONTH_S / GB * self.crossing_per_gb
    }
}

impl Flows {
    /// All bytes per second that cross a zone.
    pub fn crossing_per_s(&self) -> f64 {
        self.produce.crossing_per_s + self.replicate.crossing_per_s + self.fetch.crossing_per_s
    }
}

/// What else could be, next to the traffic as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Change {
    /// Bytes of a batch with other settings, as a ratio to today's.
    pub size_ratio: Option<f64>,
    /// Cores that the brokers save.
    pub saved_cores: Option<f64>,
}

/// What saves money.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saving {
    /// Consumers read from a replica in their own zone.
    FollowerFetching,
    /// Batches have this share of their bytes.
    SmallerBatches(f64),
    /// Brokers need so many fewer cores.
    Cores(f64),
}

/// A change with what it saves per month.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Saved {
    /// The change.
    pub what: Saving,
    /// In the currency of the prices. Each is the saving of this change alone.
    pub per_month: f64,
}

/// What traffic costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bill {
    /// Topics that were read.
    pub topics: usize,
    /// Brokers.
    pub brokers: usize,
    /// Their zones.
    pub zones: Vec<String>,
    /// How often each byte is read.
    pub fan_out: f64,
    /// The traffic.
    pub flows: Flows,
    /// Its price per month.
    pub per_month: f64,
    /// What changes save.
    pub saved: Vec<Saved>,
    /// The prices.
    pub prices: Prices,
    /// Remarks for the reader.
    pub notes: Vec<String>,
}

/// What the traffic of topics costs, and what changes save.
///
/// # Errors
/// Without zones.
pub fn bill(
    racks: &BTreeMap<i32, Option<String>>,
    topics: &[Topic],
    readers: Readers,
    change: Change,
    prices: Prices,
) -> Result<Bill, ZoneError> {
    let found = flows(racks, topics, readers)?;
    let per_month = prices.crossing_per_month(found.crossing_per_s());
    let mut saved = Vec::new();
    if !readers.follower_fetching {
        let near = flows(racks, topics, Readers { follower_fetching: true, ..readers })?;
        saved.push(Saved {
            what: Saving::FollowerFetching,
            per_month: per_month - prices.crossing_per_month(near.crossing_per_s()),
        });
    }
    if let Some(ratio) = change.size_ratio {
        saved.push(Saved { what: Saving::SmallerBatches(ratio), per_month: per_month * (1.0 - ratio) });
    }
    if let Some(cores) = change.saved_cores {
        saved.push(Saved { what: Saving::Cores(cores), per_month: cores * prices.core_per_month });
    }
    saved.sort_by(|one, other| other.per_month.total_cmp(&one.per_month));
    let zones: BTreeSet<String> = racks.values().flatten().cloned().collect();
    Ok(Bill {
        topics: topics.len(),
        brokers: racks.len(),
        zones: zones.into_iter().collect(),
        fan_out: readers.fan_out,
        flows: found,
        per_month,
        saved,
        prices,
        notes: Vec::new(),
    })
}

/// The traffic of topics, with the racks of the brokers.
///
/// # Errors
/// Without zones.
pub fn flows(
    racks: &BTreeMap<i32, Option<String>>,
    topics: &[Topic],
    readers: Readers,
) -> Result<Flows, ZoneError> {
    let zone = |broker: &i32| racks.get(broker).and_then(Option::as_deref).ok_or(ZoneError::NoRack(*broker));
    let zones: BTreeSet<&str> = racks.keys().map(zone).collect::<Result<_, _>>()?;
    let count = zones.len() as f64;
    if let (1, Some(only)) = (zones.len(), zones.first()) {
        return Err(ZoneError::OneZone((*only).to_owned()));
    }
    let mut flows = Flows::default();
    for topic in topics {
        let bytes_per_s = topic.bytes_per_s / topic.partitions.len().max(1) as f64;
        for partition in &topic.partitions {
            let leader = zone(&partition.leader)?;
            flows.produce.add(bytes_per_s, 1.0 - 1.0 / count);
            for follower in partition.replicas.iter().filter(|broker| **broker != partition.leader) {
                flows.replicate.add(bytes_per_s, if zone(follower)? == leader { 0.0 } else { 1.0 });
            }
            let near: BTreeSet<&str> = match readers.follower_fetching {
                true => partition.replicas.iter().map(zone).collect::<Result<_, _>>()?,
                false => [leader].into(),
            };
            flows.fetch.add(bytes_per_s * readers.fan_out, 1.0 - near.len() as f64 / count);
        }
    }
    Ok(flows)
}

impl Traffic {
    fn add(&mut self, bytes_per_s: f64, crossing: f64) {
        self.bytes_per_s += bytes_per_s;
        self.crossing_per_s += bytes_per_s * crossing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn racks(names: [&str; 3]) -> BTreeMap<i32, Option<String>> {
        (1..).zip(names).map(|(broker, name)| (broker, Some(name.to_owned()))).collect()
    }

    fn topic(replicas: &[i32]) -> Topic {
        let partitions = vec![Placed { leader: replicas[0], replicas: replicas.to_vec() }; 3];
        Topic { name: "t".to_owned(), bytes_per_s: 90e6, partitions }
    }

    fn crossing(flows: Flows) -> [f64; 3] {
        [flows.produce, flows.replicate, flows.fetch].map(|one| (one.crossing_per_s / 1e6).round())
    }

    #[test]
    fn a_byte_crosses_zones_for_each_follower_and_for_most_clients() {
        let reads = |follower_fetching| Readers { fan_out: 3.0, follower_fetching };
        let racks = racks(["a", "b", "c"]);
        // 90 MB/s: two thirds of the producers and consumers are elsewhere, and both followers.
        let found = flows(&racks, &[topic(&[1, 2, 3])], reads(false)).unwrap();
        assert_eq!(crossing(found), [60.0, 180.0, 180.0]);
        let near = flows(&racks, &[topic(&[1, 2, 3])], reads(true)).unwrap();
        assert_eq!(crossing(near), [60.0, 180.0, 0.0]);
        // Two replicas: a third of the consumers has none in its zone.
        let two = flows(&racks, &[topic(&[1, 2])], reads(true)).unwrap();
        assert_eq!(crossing(two), [60.0, 90.0, 90.0]);
        let month = Prices::usual().crossing_per_month(found.crossing_per_s());
        assert!((month - 420e6 * 2_592_000.0 / 1e9 * 0.02).abs() < 1e-6);
    }

    #[test]
    fn followers_in_the_zone_of_the_leader_cost_nothing() {
        let found = flows(
            &racks(["a", "a", "b"]),
            &[topic(&[1, 2])],
            Readers { fan_out: 1.0, follower_fetching: false },
        );
        assert_eq!(crossing(found.unwrap()), [45.0, 0.0, 45.0]);
    }

    #[test]
    fn each_change_saves_its_own_part() {
        let readers = Readers { fan_out: 3.0, follower_fetching: false };
        let change = Change { size_ratio: Some(0.6), saved_cores: Some(10.0) };
        let found =
            bill(&racks(["a", "b", "c"]), &[topic(&[1, 2, 3])], readers, change, Prices::usual()).unwrap();
        let of = |what: Saving| found.saved.iter().find(|saved| saved.what == what).unwrap().per_month;
        assert!((of(Saving::FollowerFetching) - found.per_month * 180.0 / 420.0).abs() < 1e-6);
        assert!((of(Saving::SmallerBatches(0.6)) - found.per_month * 0.4).abs() < 1e-6);
        assert!((of(Saving::Cores(10.0)) - 294.0).abs() < 1e-9);
        assert!(found.saved.is_sorted_by(|one, other| one.per_month >= other.per_month));
        assert_eq!(found.zones, ["a", "b", "c"]);
    }

    #[test]
    fn without_zones_there_is_no_answer() {
        let readers = Readers { fan_out: 1.0, follower_fetching: false };
        let one = flows(&racks(["a", "a", "a"]), &[], readers);
        assert_eq!(one, Err(ZoneError::OneZone("a".to_owned())));
        let none: BTreeMap<i32, Option<String>> = [(1, Some("a".to_owned())), (2, None)].into();
        assert_eq!(flows(&none, &[], readers), Err(ZoneError::NoRack(2)));
    }
}
