//! Rates from two pages, as Prometheus computes them.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::exposition::Labels;
use super::quantity::{By, Dimension, Exported, Quantity, Rates, Row};
use super::snapshot::{Snapshot, place};
use super::source::Counting;

/// Why two pages give no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoRates {
    /// They belong to two brokers.
    #[error("the pages belong to two brokers, {0} and {1}")]
    Others(String, String),
    /// They have the same time.
    #[error("the two pages of {0} have the same time")]
    NoTime(String),
}

/// Rates between two pages of one broker.
///
/// A counter that fell was reset by a restart, and its value since then counts, as in Prometheus's `rate`. A series that the first page did
/// not have is left out, because its earlier counts are unknown.
///
/// # Errors
/// Fails when the pages do not belong together, or have the same time.
pub fn rates(before: &Snapshot, after: &Snapshot, by: By) -> Result<Rates, NoRates> {
    if before.instance != after.instance || before.source != after.source {
        return Err(NoRates::Others(before.instance.clone(), after.instance.clone()));
    }
    let window_s = after.at_s - before.at_s;
    if window_s.is_nan() || window_s <= 0.0 {
        return Err(NoRates::NoTime(after.instance.clone()));
    }
    let leaders = (after.source.joins_leaders()).then(|| leaders(after)).flatten();
    let mut sums = Sums { page: after, by, rows: BTreeMap::new() };
    let mut told = Told::default();
    for (key, value) in &after.values {
        let counting = after.pick(key.quantity).map_or(Counting::Level, |pick| pick.counting);
        let rate = match (counting, before.values.get(key)) {
            (Counting::Level | Counting::Rate, _) => *value,
            (Counting::Sum, Some(earlier)) => {
                told.resets += u64::from(value < earlier);
                // The count since the restart, if there was one.
                let grown = if value < earlier { *value } else { value - earlier };
                grown / window_s
            }
            (Counting::Sum, None) => {
                told.new += 1;
                continue;
            }
        };
        sums.add(key.quantity, &key.labels, rate);
        if let (Some(leaders), Some(led)) = (&leaders, led(key.quantity))
            && partition_of(&key.labels).is_some_and(|partition| leaders.contains(&partition))
        {
            sums.add(led, &key.labels, rate);
        }
    }
    let mut exported = Exported::default();
    for quantity in after.quantities() {
        exported.insert(quantity, &after.instance);
        if let (Some(_), Some(led)) = (&leaders, led(quantity)) {
            exported.insert(led, &after.instance);
        }
    }
    Ok(Rates {
        window_s,
        exported,
        rows: sums.rows.into_values().collect(),
        notes: told.notes(before, after),
    })
}

/// Rates of several brokers, combined.
pub fn together(all: Vec<Rates>) -> Rates {
    let mut out = Rates::default();
    for rates in all {
        out.window_s = out.window_s.max(rates.window_s);
        out.exported.extend(rates.exported);
        out.rows.extend(rates.rows);
        out.notes.extend(rates.notes);
    }
    out
}

/// The meaning of a written quantity when only leaders' partitions count (the R3b join).
fn led(quantity: Quantity) -> Option<Quantity> {
    match quantity {
        Quantity::WrittenBytes => Some(Quantity::ProducedBytes),
        Quantity::WrittenBatches => Some(Quantity::ProducedBatches),
        _ => None,
    }
}

type Partition = (String, String);

/// Partitions that the broker leads; `None` if the page does not distinguish partitions.
fn leaders(page: &Snapshot) -> Option<FxHashSet<Partition>> {
    let of = |quantity: Quantity| page.values.iter().filter(move |(key, _)| key.quantity == quantity);
    let split = of(Quantity::WrittenBatches).all(|(key, _)| partition_of(&key.labels).is_some());
    let any = of(Quantity::Leader).next().is_some() && split;
    // A partition moves between shards, and both series may be on the page for a while.
    let led = of(Quantity::Leader).filter(|(_, value)| **value >= 1.0);
    any.then(|| led.filter_map(|(key, _)| partition_of(&key.labels)).collect())
}

fn partition_of(labels: &str) -> Option<Partition> {
    let labels = Labels::of_text(labels);
    Some((labels.get("topic")?.into_owned(), labels.get("partition")?.into_owned()))
}

#[derive(Debug, Default)]
struct Told {
    resets: u64,
    new: u64,
}

impl Told {
    fn notes(&self, before: &Snapshot, after: &Snapshot) -> Vec<String> {
        let instance = &after.instance;
        let mut notes = Vec::new();
        let restarted = before.started_s.zip(after.started_s).is_some_and(|(one, other)| other > one + 1.0);
        if self.resets > 0 || restarted {
            notes.push(format!(
                "{instance} restarted, or some of its counters were reset ({}): this window lacks their \
                 earlier counts",
                self.resets
            ));
        }
        if self.new > 0 {
            notes
                .push(format!("{} series of {instance} are new and count from the next window on", self.new));
        }
        if after.left_out > 0 {
            notes.push(format!(
                "{} series of {instance} were left out: the page has more than {} series; Redpanda's \
                 aggregate_metrics makes it smaller",
                after.left_out,
                super::snapshot::MOST_SERIES
            ));
        }
        if let Some(fault) = &after.first_fault {
            notes.push(format!(
                "Hone could not read {} lines of {instance}; the first: {fault}",
                after.faults
            ));
        }
        notes
    }
}

struct Sums<'a> {
    page: &'a Snapshot,
    by: By,
    rows: BTreeMap<(Quantity, Vec<String>), Row>,
}

impl Sums<'_> {
    fn add(&mut self, quantity: Quantity, labels: &str, value: f64) {
        let place = place(labels, quantity, self.by);
        let id = (quantity, place.values().cloned().collect());
        let row = self.rows.entry(id).or_insert_with(|| {
            let mut row = Row::of(quantity, 0.0);
            let part = |name| place.get(name).cloned().unwrap_or_default();
            (row.topic, row.partition) = (part("topic"), part("partition"));
            (row.shard, row.group) = (part("shard"), part("group"));
            if quantity.dimensions(self.by).contains(&Dimension::Bound) {
                let factor = self.page.pick(quantity).map_or(1.0, |pick| quantity.scales(pick.factor).1);
                let bound = place.get("le").and_then(|le| le.parse().ok()).unwrap_or(f64::NAN);
                row.bound = bound * factor;
            }
            self.page.instance.clone_into(&mut row.instance);
            row
        });
        row.value = if quantity.is_highest() { row.value.max(value) } else { row.value + value };
    }
}

/// Whether a page of two has a series at all: for tests of missing metrics.
#[cfg(test)]
fn has(page: &Snapshot, quantity: Quantity, labels: &str) -> bool {
    page.values.contains_key(&super::snapshot::SeriesKey { quantity, labels: labels.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(batches: [u64; 3], bytes: [u64; 3]) -> String {
        let mut page = String::from("hone_broker_x 1\n");
        for (index, (batches, bytes)) in batches.iter().zip(bytes).enumerate() {
            let labels =
                format!("namespace=\"kafka\",topic=\"t{}\",partition=\"{index}\",shard=\"0\"", index / 2);
            page.push_str(&format!(
                "vectorized_cluster_partition_batches_produced{{{labels}}} {batches}\n\
                 vectorized_cluster_partition_bytes_produced_total{{{labels}}} {bytes}\n"
            ));
        }
        page
    }

    fn snapshot(at_s: f64, page: &str) -> Snapshot {
        Snapshot::read("b", at_s, &[page]).unwrap()
    }

    #[test]
    fn partitions_add_up_to_topics() {
        let before = snapshot(10.0, &page([100, 200, 300], [1_000, 2_000, 3_000]));
        let after = snapshot(12.0, &page([110, 240, 300], [1_600, 2_800, 3_000]));
        let rates = rates(&before, &after, By::Topic).unwrap();
        let of = |quantity, topic: &str| rates.sum(quantity, |row| row.topic == topic);
        assert_eq!(of(Quantity::ProducedBatches, "t0"), Some(25.0));
        assert_eq!(of(Quantity::ProducedBytes, "t0"), Some(700.0));
        // Exported and quiet is 0; not exported is nothing at all.
        assert_eq!(of(Quantity::ProducedBatches, "t1"), Some(0.0));
        assert_eq!(of(Quantity::ProducedRecords, "t0"), None);
        assert!(rates.notes.is_empty(), "{:?}", rates.notes);
    }

    #[test]
    fn a_counter_that_fell_counts_from_its_restart() {
        let before = snapshot(0.0, &page([100, 200, 300], [1, 2, 3]));
        let after = snapshot(10.0, &page([50, 260, 300], [1, 2, 3]));
        let rates = rates(&before, &after, By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::ProducedBatches, |row| row.topic == "t0"), Some(11.0));
        assert!(rates.notes[0].contains("some of its counters were reset (1)"), "{:?}", rates.notes);
    }

    #[test]
    fn what_was_not_there_before_is_no_rate() {
        let whole = page([100, 200, 300], [1, 2, 3]);
        let cut: String =
            whole.lines().filter(|line| !line.contains("t1")).map(|line| format!("{line}\n")).collect();
        let before = snapshot(0.0, &cut);
        let after = snapshot(1.0, &whole);
        let rates = rates(&before, &after, By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::ProducedBatches, |row| row.topic == "t1"), Some(0.0));
        assert!(rates.notes[0].contains("2 series of b are new"), "{:?}", rates.notes);
    }

    #[test]
    fn partitions_are_told_apart_where_that_is_asked_for() {
        let before = snapshot(10.0, &page([100, 200, 300], [1_000, 2_000, 3_000]));
        let after = snapshot(12.0, &page([110, 240, 306], [1_600, 2_800, 3_900]));
        let rates = rates(&before, &after, By::Partition).unwrap();
        let of = |quantity, partition: &str| rates.sum(quantity, |row| row.partition == partition);
        for (partition, batches, bytes) in [("0", 5.0, 300.0), ("1", 20.0, 400.0), ("2", 3.0, 450.0)] {
            assert_eq!(of(Quantity::ProducedBatches, partition), Some(batches));
            assert_eq!(of(Quantity::ProducedBytes, partition), Some(bytes));
        }
        assert_eq!(rates.sum(Quantity::ProducedBatches, |row| row.topic == "t0"), Some(25.0));
    }

    /// Counts of a histogram have no unit; its bounds are microseconds here, and milliseconds in the rates.
    #[test]
    fn bounds_of_the_latency_are_milliseconds() {
        let page = |counts: [u64; 3]| {
            let mut page = String::new();
            for (bound, count) in ["511.000000", "1023.000000", "+Inf"].iter().zip(counts) {
                for shard in [0, 1] {
                    page.push_str(&format!(
                        "vectorized_kafka_latency_produce_latency_us_bucket{{latency_metric=\"microseconds\",shard=\"{shard}\",\
                         le=\"{bound}\"}} {count}\n"
                    ));
                }
            }
            page
        };
        let rates =
            rates(&snapshot(0.0, &page([0, 0, 0])), &snapshot(2.0, &page([4, 5, 5])), By::Topic).unwrap();
        let rows: Vec<(f64, f64)> =
            rates.rows(Quantity::ProduceLatency).unwrap().map(|row| (row.bound, row.value)).collect();
        assert_eq!(rows.len(), 3);
        for expected in [(0.511, 4.0), (1.023, 5.0), (f64::INFINITY, 5.0)] {
            let is_near = |row: &(f64, f64)| (row.0 == expected.0) || (row.0 - expected.0).abs() < 1e-9;
            let found = rows.iter().find(|row| is_near(row));
            assert_eq!(found.map(|row| row.1), Some(expected.1), "{rows:?}");
        }
    }

    /// A partition that moves between shards may be on the page twice: its end is not twice as far.
    #[test]
    fn an_offset_is_no_sum() {
        let page = "vectorized_cluster_partition_high_watermark{namespace=\"kafka\",topic=\"t\",partition=\"0\",shard=\"0\"} 70\n\
            vectorized_cluster_partition_high_watermark{namespace=\"kafka\",topic=\"t\",partition=\"0\",shard=\"1\"} 75\n\
            vectorized_kafka_group_offset{group=\"g\",topic=\"t\",partition=\"0\",shard=\"0\"} 60\n";
        let rates = rates(&snapshot(0.0, page), &snapshot(1.0, page), By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::EndOffset, |row| row.partition == "0"), Some(75.0));
        assert_eq!(rates.sum(Quantity::CommittedOffset, |row| row.group == "g"), Some(60.0));
    }

    /// A follower's batches are the leader's over again.
    #[test]
    fn before_25_1_only_what_is_led_counts() {
        let page = |leader: u32, led: u64, followed: u64| {
            format!(
                "vectorized_cluster_partition_leader{{namespace=\"kafka\",topic=\"t\",partition=\"0\",shard=\"1\"}} {leader}\n\
                 vectorized_cluster_partition_leader{{namespace=\"kafka\",topic=\"t\",partition=\"1\",shard=\"0\"}} 0\n\
                 vectorized_storage_log_batches_written{{namespace=\"kafka\",topic=\"t\",partition=\"0\",shard=\"1\"}} {led}\n\
                 vectorized_storage_log_batches_written{{namespace=\"kafka\",topic=\"t\",partition=\"1\",shard=\"0\"}} {followed}\n\
                 vectorized_storage_log_batches_written{{namespace=\"redpanda\",topic=\"controller\",partition=\"0\",shard=\"0\"}} {led}\n"
            )
        };
        let (before, after) = (snapshot(0.0, &page(1, 10, 10)), snapshot(2.0, &page(1, 30, 70)));
        let rates = rates(&before, &after, By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::ProducedBatches, |_| true), Some(10.0));
        assert_eq!(rates.sum(Quantity::WrittenBatches, |_| true), Some(40.0));
        assert_eq!(rates.sum(Quantity::AppendedBatches, |_| true), Some(50.0));
        assert!(has(&after, Quantity::Leader, "namespace=\"kafka\",topic=\"t\",partition=\"0\",shard=\"1\""));
    }

    /// With aggregate_metrics the broker exports the sum over the partitions, and leaders can't be derived.
    #[test]
    fn without_partitions_leaders_are_not_told_apart() {
        let page = |batches: u64| {
            format!(
                "vectorized_cluster_partition_leader{{namespace=\"kafka\",topic=\"t\"}} 3\n\
                 vectorized_storage_log_batches_written{{namespace=\"kafka\",topic=\"t\"}} {batches}\n"
            )
        };
        let rates = rates(&snapshot(0.0, &page(0)), &snapshot(1.0, &page(9)), By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::ProducedBatches, |_| true), None);
        assert_eq!(rates.sum(Quantity::WrittenBatches, |_| true), Some(9.0));
    }

    #[test]
    fn the_public_page_fills_in_what_the_internal_one_lacks() {
        let internal = "vectorized_cluster_partition_batches_produced{namespace=\"kafka\",topic=\"t\"} 5\n\
            vectorized_reactor_utilization{shard=\"0\"} 50\n";
        let public = "redpanda_cpu_busy_seconds_total{shard=\"0\"} 7\n\
            redpanda_kafka_request_bytes_total{redpanda_namespace=\"kafka\",redpanda_request=\"produce\",redpanda_topic=\"t\"} 8\n";
        let read = |at_s| Snapshot::read("b", at_s, &[internal, public]).unwrap();
        let (before, after) = (read(0.0), read(1.0));
        assert_eq!(after.source, super::super::source::Source::Redpanda25);
        let rates = rates(&before, &after, By::Topic).unwrap();
        for (quantity, expected) in [
            (Quantity::ShardUtilization, Some(0.5)),
            (Quantity::ShardCpu, Some(0.0)),
            (Quantity::ProducedBytes, Some(0.0)),
            (Quantity::DiskBytes, None),
        ] {
            assert_eq!(rates.sum(quantity, |_| true), expected, "{quantity:?}");
        }
    }

    /// Of two brokers the older one lacks a counter: that is no 0 of it.
    #[test]
    fn what_one_broker_exports_another_need_not() {
        let page = |fsyncs: &str| format!("{}{fsyncs}", page([1, 2, 3], [1, 2, 3]));
        let of = |instance: &str, page: &str| {
            let read = |at_s| Snapshot::read(instance, at_s, &[page]).unwrap();
            rates(&read(0.0), &read(1.0), By::Topic).unwrap()
        };
        let new = of("new", &page("vectorized_reactor_fsyncs{shard=\"0\"} 4\n"));
        let all = together(vec![new, of("old", &page(""))]);
        assert_eq!(all.sum_by(Quantity::Fsyncs, "new", |_| true), Some(0.0));
        assert_eq!(all.sum_by(Quantity::Fsyncs, "old", |_| true), None);
        assert_eq!(all.sum_by(Quantity::ProducedBatches, "old", |_| true), Some(0.0));
    }

    #[test]
    fn pages_that_do_not_belong_together_are_refused() {
        let one = snapshot(1.0, &page([1, 2, 3], [1, 2, 3]));
        assert!(rates(&one, &one, By::Topic).unwrap_err().to_string().contains("have the same time"));
        let other = Snapshot { instance: "c".to_owned(), at_s: 2.0, ..one.clone() };
        assert!(rates(&one, &other, By::Topic).unwrap_err().to_string().contains("two brokers, b and c"));
    }

    #[test]
    fn values_that_are_no_numbers_are_told() {
        let bad = "hone_broker_x 1\nvectorized_reactor_fsyncs{shard=\"0\"} NaN\nvectorized_reactor_fsyncs{shard=\"1\" 4\n";
        let (before, after) = (snapshot(0.0, bad), snapshot(1.0, bad));
        let rates = rates(&before, &after, By::Topic).unwrap();
        assert_eq!(rates.sum(Quantity::Fsyncs, |_| true), None, "what is no number is no 0");
        assert!(rates.notes[0].contains("could not read 2 lines of b"), "{:?}", rates.notes);
    }
}
