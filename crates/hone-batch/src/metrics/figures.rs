//! From rates to the figures that are shown.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{
    BatchWatch, Figure, NotExported, WatchedInstance, WatchedQueue, WatchedShard, WatchedTopic,
};

use super::quantity::{Dimension, Quantity, Rates};
use super::source::Source;

/// The class of Redpanda's I/O that writes logs.
const LOG_CLASS: &str = "raft";

/// All figures of a stretch of time. Endpoints, time and clients are the caller's to fill in.
pub fn watch(source: Source, rates: &Rates) -> BatchWatch {
    let basis = Basis::of(rates);
    let mut notes = rates.notes.clone();
    if let Basis::Written = basis {
        notes.push(
            "batches and bytes are those of every replica, leaders' and followers': their ratio is right, the rates are too high by the \
             replication factor"
                .to_owned(),
        );
    }
    let (topics, total) = topics(rates, basis);
    let total = match (basis, total) {
        // The bytes of a request are at least those of its batch.
        (Basis::BytesOnly, total) => WatchedTopic { batch_bytes: bytes_a_request(rates), ..total },
        (_, total) => total,
    };
    BatchWatch {
        source: source.name().to_owned(),
        window_s: rates.window_s,
        total,
        topics,
        instances: instances(source, rates),
        shards: shards(rates),
        backlog: backlog(rates),
        batch_bytes_p50: quantile(rates, 0.5),
        batch_bytes_p99: quantile(rates, 0.99),
        not_exported: not_exported(source, rates, basis),
        notes,
        ..BatchWatch::default()
    }
}

/// What stands for "the batches of a topic".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    /// Counted once, by leaders.
    Produced,
    /// Counted by every replica.
    Written,
    /// No batches, only bytes and records.
    BytesOnly,
}

impl Basis {
    fn of(rates: &Rates) -> Self {
        let has = |quantity| rates.exported.has(quantity);
        if has(Quantity::ProducedBatches) {
            Self::Produced
        } else if has(Quantity::WrittenBatches) {
            Self::Written
        } else {
            Self::BytesOnly
        }
    }

    fn batches(self) -> Option<Quantity> {
        match self {
            Self::Produced => Some(Quantity::ProducedBatches),
            Self::Written => Some(Quantity::WrittenBatches),
            Self::BytesOnly => None,
        }
    }

    fn bytes(self) -> Quantity {
        match self {
            Self::Written => Quantity::WrittenBytes,
            Self::Produced | Self::BytesOnly => Quantity::ProducedBytes,
        }
    }
}

fn topics(rates: &Rates, basis: Basis) -> (Vec<WatchedTopic>, WatchedTopic) {
    let by_topic = |quantity: Quantity| -> Option<BTreeMap<&str, f64>> {
        let mut sums = BTreeMap::new();
        for row in rates.rows(quantity)? {
            *sums.entry(row.topic.as_str()).or_default() += row.value;
        }
        Some(sums)
    };
    let batches = basis.batches().and_then(by_topic);
    let bytes = by_topic(basis.bytes());
    let records = by_topic(Quantity::ProducedRecords);
    let names: BTreeSet<&str> =
        [&batches, &bytes, &records].into_iter().flatten().flat_map(|sums| sums.keys().copied()).collect();
    let of = |sums: &Option<BTreeMap<&str, f64>>, topic: &str| -> Figure {
        // A topic without a series of its own is not known to be quiet.
        sums.as_ref().and_then(|sums| sums.get(topic).copied()).into()
    };
    let all = |sums: &Option<BTreeMap<&str, f64>>| -> Figure {
        sums.as_ref().map(|sums| sums.values().sum()).into()
    };
    let every = all(&batches);
    let mut topics: Vec<WatchedTopic> = names
        .into_iter()
        .map(|name| {
            let (batches, bytes, records) = (of(&batches, name), of(&bytes, name), of(&records, name));
            topic(name, basis, batches, bytes, records, every)
        })
        .collect();
    let weight = |topic: &WatchedTopic| {
        let known = |figure: Figure| figure.known().unwrap_or(0.0);
        (known(topic.batches_per_s), known(topic.bytes_per_s))
    };
    topics.sort_by(|one, other| {
        let (one_weight, other_weight) = (weight(one), weight(other));
        let order = other_weight.0.total_cmp(&one_weight.0);
        order.then(other_weight.1.total_cmp(&one_weight.1)).then(one.topic.cmp(&other.topic))
    });
    (topics, topic("", basis, every, all(&bytes), all(&records), every))
}

fn topic(
    name: &str,
    basis: Basis,
    batches: Figure,
    bytes: Figure,
    records: Figure,
    every: Figure,
) -> WatchedTopic {
    // Leaders' records over every replica's batches would be no ratio of anything.
    let is_one_basis = basis != Basis::Written;
    let comparable = |figure| if is_one_basis { figure } else { Figure::NotExported };
    WatchedTopic {
        topic: name.to_owned(),
        batch_bytes: bytes.over(batches),
        records_per_batch: comparable(records.over(batches)),
        record_bytes: comparable(bytes.over(records)),
        batches_per_s: batches,
        records_per_s: records,
        bytes_per_s: bytes,
        batch_share: batches.over(every),
    }
}

fn bytes_a_request(rates: &Rates) -> Figure {
    let bytes: Figure = rates.sum(Quantity::ProducedBytes, |_| true).into();
    match bytes.over(rates.sum(Quantity::ProduceRequests, |_| true).into()) {
        Figure::Known(bytes) => Figure::AtMost(bytes),
        other => other,
    }
}

fn instances(source: Source, rates: &Rates) -> Vec<WatchedInstance> {
    let names: BTreeSet<&str> =
        rates.rows.iter().map(|row| row.instance.as_str()).filter(|name| !name.is_empty()).collect();
    names.into_iter().map(|name| instance(name, source, rates)).collect()
}

fn instance(name: &str, source: Source, rates: &Rates) -> WatchedInstance {
    let sum = |quantity| -> Figure { rates.sum_by(quantity, name, |_| true).into() };
    let shards = |quantity| {
        let rows = rates.rows(quantity)?;
        let count = rows.filter(|row| row.instance == name && !row.shard.is_empty()).count();
        (count > 0).then_some(count as f64)
    };
    let cores: Figure = shards(Quantity::ShardUtilization).or_else(|| shards(Quantity::ShardCpu)).into();
    // Kafka counts what is produced, and nothing else is appended in its counters.
    let appended = |exact, produced| match sum(exact) {
        Figure::NotExported if source == Source::KafkaJmx => sum(produced),
        figure => figure,
    };
    let batches = appended(Quantity::AppendedBatches, Quantity::ProducedBatches);
    let bytes = appended(Quantity::AppendedBytes, Quantity::ProducedBytes);
    let cpu = [Quantity::ShardCpu, Quantity::ProcessCpu, Quantity::ShardUtilization].into_iter().map(sum);
    let requests = sum(Quantity::ProduceRequests);
    WatchedInstance {
        instance: name.to_owned(),
        cores,
        batches_per_s_per_core: appended(Quantity::WrittenBatches, Quantity::ProducedBatches).over(cores),
        cpu_cores: cpu.into_iter().find(|figure| *figure != Figure::NotExported).unwrap_or_default(),
        requests_per_s: requests,
        batches_per_request: sum(Quantity::ProducedBatches).over(requests),
        received_bytes_per_s: sum(Quantity::ReceivedBytes),
        sent_bytes_per_s: sum(Quantity::SentBytes),
        write_amplification: disk_bytes(rates, name).over(bytes),
        fsyncs_per_batch: sum(Quantity::Fsyncs).over(batches),
    }
}

/// Of the class that writes logs, where classes are told apart and it is among them.
fn disk_bytes(rates: &Rates, instance: &str) -> Figure {
    let own = |row: &super::quantity::Row| row.instance == instance;
    let has_log_class = rates
        .rows(Quantity::DiskBytes)
        .is_some_and(|mut rows| rows.any(|row| own(row) && row.group == LOG_CLASS));
    let counts = |row: &super::quantity::Row| !has_log_class || row.group == LOG_CLASS;
    rates.sum_by(Quantity::DiskBytes, instance, counts).into()
}

fn shards(rates: &Rates) -> Vec<WatchedShard> {
    let rows = rates.rows(Quantity::ShardCpu).or_else(|| rates.rows(Quantity::ShardUtilization));
    let mut shards: Vec<WatchedShard> = rows
        .into_iter()
        .flatten()
        .filter(|row| !row.shard.is_empty())
        .map(|row| WatchedShard {
            instance: row.instance.clone(),
            shard: row.shard.clone(),
            cpu_share: row.value.clamp(0.0, 1.0),
        })
        .collect();
    let number = |shard: &WatchedShard| shard.shard.parse::<u64>().unwrap_or(u64::MAX);
    shards.sort_by(|one, other| {
        one.instance
            .cmp(&other.instance)
            .then(number(one).cmp(&number(other)))
            .then(one.shard.cmp(&other.shard))
    });
    shards
}

fn backlog(rates: &Rates) -> Vec<WatchedQueue> {
    let mut sums: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    for row in rates.rows(Quantity::Waiting).into_iter().flatten() {
        let group = if row.group.is_empty() { "requests" } else { &row.group };
        *sums.entry((&row.instance, group)).or_default() += row.value;
    }
    let queue = |((instance, group), waiting): ((&str, &str), f64)| WatchedQueue {
        instance: instance.to_owned(),
        group: group.to_owned(),
        waiting,
    };
    let mut queues: Vec<WatchedQueue> = sums.into_iter().map(queue).collect();
    queues.sort_by(|one, other| other.waiting.total_cmp(&one.waiting));
    queues
}

/// As Prometheus' `histogram_quantile`: linear within a bucket, the last finite bound for what is beyond it.
fn quantile(rates: &Rates, quantile: f64) -> Figure {
    let Some(rows) = rates.rows(Quantity::BatchSizes) else { return Figure::NotExported };
    let mut sums: Vec<(f64, f64)> = Vec::new();
    for row in rows.filter(|row| !row.bound.is_nan()) {
        match sums.iter_mut().find(|(bound, _)| *bound == row.bound) {
            Some((_, sum)) => *sum += row.value,
            None => sums.push((row.bound, row.value)),
        }
    }
    sums.sort_by(|one, other| one.0.total_cmp(&other.0));
    let Some((_, all)) = sums.last().copied().filter(|(_, all)| *all > 0.0) else { return Figure::Nothing };
    let rank = quantile * all;
    let (mut low, mut below) = (0.0, 0.0);
    for (bound, sum) in sums {
        if sum >= rank && sum > below {
            let inside =
                if bound.is_finite() { low + (bound - low) * (rank - below) / (sum - below) } else { low };
            return Figure::Known(inside);
        }
        (low, below) = (bound, sum);
    }
    Figure::Nothing
}

fn not_exported(source: Source, rates: &Rates, basis: Basis) -> Vec<NotExported> {
    use Quantity as Q;
    // A figure, and the quantities any of which would do.
    let wanted: [(&str, &[Quantity]); 11] = [
        ("bytes a batch by topic", &[Q::ProducedBatches, Q::WrittenBatches]),
        ("records a batch", &[Q::ProducedRecords]),
        ("batches of leaders only", &[Q::ProducedBatches]),
        ("batches a request", &[Q::ProduceRequests]),
        ("CPU by shard", &[Q::ShardCpu, Q::ShardUtilization]),
        ("CPU of the broker", &[Q::ShardCpu, Q::ProcessCpu, Q::ShardUtilization]),
        ("backlog", &[Q::Waiting]),
        ("network", &[Q::ReceivedBytes]),
        ("write amplification", &[Q::DiskBytes]),
        ("fsyncs a batch", &[Q::Fsyncs]),
        ("spread of batch sizes", &[Q::BatchSizes]),
    ];
    let missing = |what: &str, quantity: Quantity| NotExported {
        what: what.to_owned(),
        why: source.remedy(quantity).to_owned(),
    };
    let mut found: Vec<NotExported> = wanted
        .into_iter()
        .filter(|(_, any)| !any.iter().any(|quantity| rates.exported.has(*quantity)))
        .filter_map(|(what, any)| Some(missing(what, *any.first()?)))
        .collect();
    if basis == Basis::Written && rates.exported.has(Q::ProducedRecords) {
        found.push(missing("records a batch", Q::ProducedBatches));
    }
    found.extend(not_exported_by_all(&wanted, rates));
    found
}

/// Figures that some brokers have and others lack. What is counted by topic is left out: a broker without the topic has none of it.
fn not_exported_by_all(wanted: &[(&str, &[Quantity])], rates: &Rates) -> Vec<NotExported> {
    let brokers: BTreeSet<&str> =
        rates.rows.iter().map(|row| row.instance.as_str()).filter(|name| !name.is_empty()).collect();
    let by_broker = |quantity: &Quantity| {
        let dimensions = quantity.dimensions();
        dimensions.contains(&Dimension::Instance) && !dimensions.contains(&Dimension::Topic)
    };
    let lacking = |any: &[Quantity]| -> Vec<&str> {
        let has = |broker: &str| any.iter().any(|quantity| rates.exported.by(*quantity, broker));
        brokers.iter().copied().filter(|broker| !has(broker)).collect()
    };
    wanted
        .iter()
        .filter(|(_, any)| any.iter().all(by_broker) && any.iter().any(|one| rates.exported.has(*one)))
        .map(|(what, any)| (what, lacking(any)))
        .filter(|(_, lacking)| !lacking.is_empty())
        .map(|(what, lacking)| NotExported {
            what: format!("{what} of {}", lacking.join(", ")),
            why: "other brokers have it and these don't: sums are of the others alone".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::quantity::{Exported, Row};
    use super::*;

    fn rates(rows: &[(Quantity, &str, f64)]) -> Rates {
        let row = |(quantity, topic, value): &(Quantity, &str, f64)| Row {
            instance: "b".to_owned(),
            topic: (*topic).to_owned(),
            ..Row::of(*quantity, *value)
        };
        Rates {
            window_s: 1.0,
            exported: Exported::of(&rows.iter().map(row).collect::<Vec<_>>()),
            rows: rows.iter().map(row).collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn topics_are_told_apart_and_ranked_by_batches() {
        use Quantity::{ProducedBatches, ProducedBytes, ProducedRecords};
        let watch = watch(
            Source::Redpanda25,
            &rates(&[
                (ProducedBatches, "large", 10.0),
                (ProducedBytes, "large", 160_000.0),
                (ProducedRecords, "large", 1_000.0),
                (ProducedBatches, "small", 990.0),
                (ProducedBytes, "small", 198_000.0),
                (ProducedRecords, "small", 1_980.0),
                (ProducedBatches, "quiet", 0.0),
                (ProducedBytes, "quiet", 0.0),
                (ProducedBytes, "unknown", 5.0),
            ]),
        );
        let names: Vec<&str> = watch.topics.iter().map(|topic| topic.topic.as_str()).collect();
        assert_eq!(names, ["small", "large", "unknown", "quiet"]);
        assert_eq!(watch.topics[0].batch_bytes, Figure::Known(200.0));
        assert_eq!(watch.topics[0].records_per_batch, Figure::Known(2.0));
        assert_eq!(watch.topics[0].batch_share, Figure::Known(0.99));
        assert_eq!(watch.topics[1].batch_bytes, Figure::Known(16_000.0));
        assert_eq!(watch.topics[1].record_bytes, Figure::Known(160.0));
        let unknown = &watch.topics[2];
        assert_eq!((unknown.batches_per_s, unknown.batch_bytes), (Figure::NotExported, Figure::NotExported));
        assert_eq!(watch.topics[3].batch_bytes, Figure::Nothing);
        assert_eq!(watch.topics[3].records_per_s, Figure::NotExported);
        assert_eq!(watch.total.batch_bytes, Figure::Known(358.005));
    }

    #[test]
    fn what_is_not_exported_is_named_and_no_zero() {
        let watch = watch(Source::RedpandaPublic, &rates(&[(Quantity::ProducedBytes, "t", 100.0)]));
        assert_eq!(watch.topics[0].batch_bytes, Figure::NotExported);
        assert_eq!(watch.topics[0].bytes_per_s, Figure::Known(100.0));
        let instance = &watch.instances[0];
        for figure in
            [instance.cores, instance.cpu_cores, instance.fsyncs_per_batch, instance.write_amplification]
        {
            assert_eq!(figure, Figure::NotExported);
        }
        let told: Vec<&str> = watch.not_exported.iter().map(|missing| missing.what.as_str()).collect();
        assert!(told.contains(&"bytes a batch by topic") && told.contains(&"fsyncs a batch"), "{told:?}");
        assert!(watch.not_exported[0].why.contains("xray"), "{:?}", watch.not_exported[0]);
    }

    #[test]
    fn a_broker_that_lacks_a_counter_has_no_zero_of_it() {
        let row = |instance: &str, quantity, value| Row {
            instance: instance.to_owned(),
            ..Row::of(quantity, value)
        };
        let rows = vec![
            row("new", Quantity::AppendedBatches, 10.0),
            row("new", Quantity::Fsyncs, 5.0),
            row("old", Quantity::AppendedBatches, 10.0),
        ];
        let rates = Rates { exported: Exported::of(&rows), rows, ..Rates::default() };
        let watch = watch(Source::Redpanda25, &rates);
        let fsyncs: Vec<Figure> = watch.instances.iter().map(|broker| broker.fsyncs_per_batch).collect();
        assert_eq!(fsyncs, [Figure::Known(0.5), Figure::NotExported]);
        assert!(
            watch.not_exported.iter().any(|missing| missing.what == "fsyncs a batch of old"),
            "{watch:#?}"
        );
    }

    #[test]
    fn the_public_endpoint_gives_a_bound() {
        let watch = watch(
            Source::RedpandaPublic,
            &rates(&[(Quantity::ProducedBytes, "t", 1_000.0), (Quantity::ProduceRequests, "", 4.0)]),
        );
        assert_eq!(watch.total.batch_bytes, Figure::AtMost(250.0));
    }

    #[test]
    fn replicas_batches_are_no_divisor_of_leaders_records() {
        let watch = watch(
            Source::RedpandaOlder,
            &rates(&[
                (Quantity::WrittenBatches, "t", 30.0),
                (Quantity::WrittenBytes, "t", 3_000.0),
                (Quantity::ProducedRecords, "t", 100.0),
            ]),
        );
        assert_eq!(watch.topics[0].batch_bytes, Figure::Known(100.0));
        assert_eq!(watch.topics[0].records_per_batch, Figure::NotExported);
        assert!(watch.notes[0].contains("replication factor"));
    }

    #[test]
    fn quantiles_are_those_of_prometheus() {
        let row = |bound, value| Row { bound, ..Row::of(Quantity::BatchSizes, value) };
        let rates = |rows: Vec<Row>| Rates { exported: Exported::of(&rows), rows, ..Rates::default() };
        let some = rates(vec![row(100.0, 1.0), row(200.0, 3.0), row(f64::INFINITY, 4.0)]);
        assert_eq!(quantile(&some, 0.5), Figure::Known(150.0));
        assert_eq!(quantile(&some, 0.99), Figure::Known(200.0));
        assert_eq!(quantile(&rates(vec![row(100.0, 0.0)]), 0.5), Figure::Nothing);
        assert_eq!(quantile(&Rates::default(), 0.5), Figure::NotExported);
    }

    #[test]
    fn only_the_class_of_logs_counts_where_there_are_classes() {
        let row = |group: &str, value| Row {
            instance: "b".to_owned(),
            group: group.to_owned(),
            ..Row::of(Quantity::DiskBytes, value)
        };
        let rates = |rows: Vec<Row>| Rates { exported: Exported::of(&rows), rows, ..Rates::default() };
        assert_eq!(disk_bytes(&rates(vec![row("raft", 4.0), row("default", 9.0)]), "b"), Figure::Known(4.0));
        assert_eq!(disk_bytes(&rates(vec![row("", 5.0)]), "b"), Figure::Known(5.0));
    }
}
