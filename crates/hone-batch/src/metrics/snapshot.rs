//! The relevant series of one page at one moment.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::exposition::{self, Labels, Sample};
use super::quantity::{By, Dimension, Quantity};
use super::source::{Pick, Source, Unrecognised};

/// Limit of the series of one page: a page of a broker with 100,000 partitions has fewer. A broker has no more.
pub const MOST_SERIES: usize = 2_000_000;

/// Limit of the distinct names of metrics on one page.
const MOST_NAMES: usize = 100_000;

/// A series of a quantity, identified by its labels as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SeriesKey {
    pub(super) quantity: Quantity,
    pub(super) labels: Box<str>,
}

/// The values of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The broker, as its endpoint names it.
    pub instance: String,
    /// Its time, in seconds of a monotonic clock.
    pub at_s: f64,
    /// The source of the page.
    pub source: Source,
    /// Number of relevant lines that could not be read, and the first of them.
    pub faults: u64,
    /// The first of them.
    pub first_fault: Option<String>,
    /// Series beyond the limit.
    pub left_out: u64,
    pub(super) picks: Vec<Pick>,
    pub(super) values: FxHashMap<SeriesKey, f64>,
    /// The start of the process, seconds since 1970, as the process reports it.
    pub(super) started_s: Option<f64>,
}

impl Snapshot {
    /// Reads the pages of one broker: one, or several that belong together (Redpanda's internal and public endpoint). For metrics on
    /// several pages, the first page counts.
    ///
    /// # Errors
    /// Fails when none of the pages belongs to a known broker.
    pub fn read(instance: &str, at_s: f64, pages: &[&str]) -> Result<Self, Unrecognised> {
        let mut all = BTreeSet::new();
        let names: Vec<BTreeSet<String>> = pages.iter().map(|page| names(page)).collect();
        names.iter().for_each(|names| all.extend(names.iter().cloned()));
        let source = Source::recognise(&all)?;
        let mut snapshot = Self {
            instance: instance.to_owned(),
            at_s,
            source,
            faults: 0,
            first_fault: None,
            left_out: 0,
            picks: Vec::new(),
            values: FxHashMap::default(),
            started_s: None,
        };
        for (page, names) in pages.iter().zip(&names) {
            let own = Source::recognise(names).unwrap_or(source);
            let known = snapshot.known();
            let mut picks = own.picks(names);
            picks.retain(|pick| !known.contains(&pick.quantity));
            snapshot.take(page, &picks);
            snapshot.picks.extend(picks);
        }
        Ok(snapshot)
    }

    /// Quantities whose metric is on the page.
    fn known(&self) -> BTreeSet<Quantity> {
        self.picks.iter().map(|pick| pick.quantity).collect()
    }

    /// Quantities that also have a series with a number: a metric may exist for others than producers alone.
    pub fn quantities(&self) -> BTreeSet<Quantity> {
        self.values.keys().map(|key| key.quantity).collect()
    }

    fn take(&mut self, page: &str, picks: &[Pick]) {
        let mut by_metric: FxHashMap<&str, Vec<&Pick>> = FxHashMap::default();
        for pick in picks {
            by_metric.entry(pick.metric.as_str()).or_default().push(pick);
        }
        const STARTED: &str = "process_start_time_seconds";
        let wanted = |name: &str| name == STARTED || by_metric.contains_key(name);
        for sample in exposition::read_only(page, wanted) {
            match sample {
                Ok(sample) if sample.name == STARTED => self.started_s = Some(sample.value),
                Ok(sample) => {
                    for pick in by_metric.get(sample.name).into_iter().flatten() {
                        self.add(pick, &sample);
                    }
                }
                Err(fault) => self.fault(fault.to_string()),
            }
        }
    }

    fn add(&mut self, pick: &Pick, sample: &Sample<'_>) {
        if !pick.takes(sample) {
            return;
        }
        if !sample.value.is_finite() {
            return self.fault(format!("{} is {}", sample.name, sample.value));
        }
        if self.values.len() >= MOST_SERIES {
            self.left_out += 1;
            return;
        }
        let key = SeriesKey { quantity: pick.quantity, labels: sample.labels.text().into() };
        // An exporter may split a series in two: both count.
        *self.values.entry(key).or_default() += sample.value * pick.quantity.scales(pick.factor).0;
    }

    fn fault(&mut self, told: String) {
        self.faults += 1;
        self.first_fault.get_or_insert(told);
    }

    pub(super) fn pick(&self, quantity: Quantity) -> Option<&Pick> {
        self.picks.iter().find(|pick| pick.quantity == quantity)
    }
}

fn names(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for name in exposition::names(page) {
        if names.len() >= MOST_NAMES {
            break;
        }
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The labels of a series that distinguish rates of its quantity.
pub(super) fn place(labels: &str, quantity: Quantity, by: By) -> BTreeMap<&'static str, String> {
    let mut found = BTreeMap::new();
    for (name, value) in Labels::of_text(labels).iter() {
        let Some(dimension) = dimension(name) else { continue };
        if quantity.dimensions(by).contains(&dimension.0) {
            found.insert(dimension.1, value.into_owned());
        }
    }
    found
}

/// The dimension of a label, as a field of a row.
pub(super) fn dimension(label: &str) -> Option<(Dimension, &'static str)> {
    Some(match label {
        "topic" | "redpanda_topic" | "topic_name" => (Dimension::Topic, "topic"),
        "partition" | "redpanda_partition" | "partition_id" => (Dimension::Partition, "partition"),
        "shard" => (Dimension::Shard, "shard"),
        "group" | "redpanda_scheduling_group" | "class" | "redpanda_group" | "consumergroup" | "group_id" => {
            (Dimension::Group, "group")
        }
        "le" => (Dimension::Bound, "le"),
        _ => return None,
    })
}
