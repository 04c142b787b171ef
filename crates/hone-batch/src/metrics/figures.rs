//! From rates to the figures of a report.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{
    BatchWatch, Figure, NotExported, WatchedInstance, WatchedQueue, WatchedShard, WatchedTopic,
};

use super::quantity::{By, Dimension, Quantity, Rates, Row};
use super::source::Source;
use super::{lag, latency};

/// The class of Redpanda's I/O that writes logs.
const LOG_CLASS: &str = "raft";

/// All figures of a window, with the topics also by broker or by partition if `by` requests it. The caller adds endpoints, time and
/// clients.
pub fn watch(source: Source, rates: &Rates, by: By) -> BatchWatch {
    let basis = Basis::of(rates);
    let mut notes = rates.notes.clone();
    if let Basis::Written = basis {
        notes.push(
            "batches and bytes include every replica, leaders and followers: their ratio is right, but the \
             rates are too high by the replication factor"
                .to_owned(),
        );
    }
    let (topics, total) = grouped(rates, basis, |row| ["", &row.topic, ""]);
    let parts = parts(rates, basis, by);
    let produce_latency = latency::produce(rates);
    let groups = lag::groups(rates);
    let mut not_exported = not_exported(source, rates, basis);
    not_exported.extend(latency::not_exported(source, rates));
    if groups.is_empty() {
        not_exported.push(missing(source, "consumer lag by group", Quantity::GroupLag));
    }
    if by == By::Partition && parts.is_empty() && !topics.is_empty() {
        let why = source.remedy_of_partitions().to_owned();
        not_exported.push(NotExported { what: "bytes per batch by partition".to_owned(), why });
    }
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
        parts,
        instances: instances(source, rates, basis),
        shards: shards(rates),
        backlog: backlog(rates),
        batch_bytes_p50: latency::quantile(rates, Quantity::BatchSizes, 0.5),
        batch_bytes_p99: latency::quantile(rates, Quantity::BatchSizes, 0.99),
        produce_latency,
        groups,
        not_exported,
        notes,
        ..BatchWatch::default()
    }
}

/// The source of "the batches of a topic".
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

/// Broker, topic and partition; dimensions without distinction are empty.
type Place<'a> = [&'a str; 3];

/// The topics by broker or by partition, without those that wrote nothing: followers have series of 0, and partitions are many.
fn parts(rates: &Rates, basis: Basis, by: By) -> Vec<WatchedTopic> {
    let mut parts = match by {
        By::Topic => return Vec::new(),
        By::Broker => grouped(rates, basis, |row| [&row.instance, &row.topic, ""]).0,
        By::Partition => grouped(rates, basis, |row| [&row.instance, &row.topic, &row.partition]).0,
    };
    let wrote = |figure: Figure| figure.known().is_some_and(|rate| rate > 0.0);
    parts.retain(|part| wrote(part.batches_per_s) || wrote(part.bytes_per_s));
    parts.retain(|part| by != By::Partition || !part.partition.is_empty());
    parts
}

/// Batches by place, those with the most first, and the sum of all.
fn grouped<'a>(
    rates: &'a Rates,
    basis: Basis,
    place: fn(&'a Row) -> Place<'a>,
) -> (Vec<WatchedTopic>, WatchedTopic) {
    let by_place = |quantity: Quantity| -> Option<BTreeMap<Place<'a>, f64>> {
        let mut sums = BTreeMap::new();
        for row in rates.rows(quantity)? {
            *sums.entry(place(row)).or_default() += row.value;
        }
        Some(sums)
    };
    let batches = basis.batches().and_then(by_place);
    let bytes = by_place(basis.bytes());
    let records = by_place(Quantity::ProducedRecords);
    let places: BTreeSet<Place<'a>> =
        [&batches, &bytes, &records].into_iter().flatten().flat_map(|sums| sums.keys().copied()).collect();
    let of = |sums: &Option<BTreeMap<Place<'a>, f64>>, place: &Place<'a>| -> Figure {
        // A topic without its own series may be quiet or not.
        sums.as_ref().and_then(|sums| sums.get(place).copied()).into()
    };
    let all = |sums: &Option<BTreeMap<Place<'a>, f64>>| -> Figure {
        sums.as_ref().map(|sums| sums.values().sum()).into()
    };
    let every = all(&batches);
    let mut topics: Vec<WatchedTopic> = places
        .into_iter()
        .map(|place| {
            let (batches, bytes, records) = (of(&batches, &place), of(&bytes, &place), of(&records, &place));
            topic(place, basis, batches, bytes, records, every)
        })
        .collect();
    let weight = |topic: &WatchedTopic| {
        let known = |figure: Figure| figure.known().unwrap_or(0.0);
        (known(topic.batches_per_s), known(topic.bytes_per_s))
    };
    topics.sort_by(|one, other| {
        let (one_weight, other_weight) = (weight(one), weight(other));
        let order = other_weight.0.total_cmp(&one_weight.0);
        let by_name = || (&one.topic, &one.instance).cmp(&(&other.topic, &other.instance));
        order.then(other_weight.1.total_cmp(&one_weight.1)).then_with(by_name)
    });
    (topics, topic(["", "", ""], basis, every, all(&bytes), all(&records), every))
}

fn topic(
    [instance, topic, partition]: Place<'_>,
    basis: Basis,
    batches: Figure,
    bytes: Figure,
    records: Figure,
    every: Figure,
) -> WatchedTopic {
    // Leaders' records over every replica's batches would be a meaningless ratio.
    let is_one_basis = basis != Basis::Written;
    let comparable = |figure| if is_one_basis { figure } else { Figure::NotExported };
    WatchedTopic {
        topic: topic.to_owned(),
        instance: instance.to_owned(),
        partition: partition.to_owned(),
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

fn instances(source: Source, rates: &Rates, basis: Basis) -> Vec<WatchedInstance> {
    let names: BTreeSet<&str> =
        rates.rows.iter().map(|row| row.instance.as_str()).filter(|name| !name.is_empty()).collect();
    names.into_iter().map(|name| instance(name, source, rates, basis)).collect()
}

fn instance(name: &str, source: Source, rates: &Rates, basis: Basis) -> WatchedInstance {
    let sum = |quantity| -> Figure { rates.sum_by(quantity, name, |_| true).into() };
    let shards = |quantity| {
        let rows = rates.rows(quantity)?;
        let count = rows.filter(|row| row.instance == name && !row.shard.is_empty()).count();
        (count > 0).then_some(count as f64)
    };
    let cores: Figure = shards(Quantity::ShardUtilization).or_else(|| shards(Quantity::ShardCpu)).into();
    // Kafka counts what is produced, and its counters include nothing else.
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
        batch_bytes: sum(basis.bytes()).over(basis.batches().map_or(Figure::NotExported, sum)),
        produce_timeouts_per_s: sum(Quantity::ProduceTimeouts),
        replication_errors_per_s: sum(Quantity::ReplicationErrors),
    }
}

/// Only the class that writes logs, if classes are distinguished and it is among them.
fn disk_bytes(rates: &Rates, instance: &str) -> Figure {
    let own = |row: &Row| row.instance == instance;
    let has_log_class = rates
        .rows(Quantity::DiskBytes)
        .is_some_and(|mut rows| rows.any(|row| own(row) && row.group == LOG_CLASS));
    let counts = |row: &Row| !has_log_class || row.group == LOG_CLASS;
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

fn not_exported(source: Source, rates: &Rates, basis: Basis) -> Vec<NotExported> {
    use Quantity as Q;
    // A figure, and the quantities any of which is enough.
    let wanted: [(&str, &[Quantity]); 12] = [
        ("bytes per batch by topic", &[Q::ProducedBatches, Q::WrittenBatches]),
        ("records per batch", &[Q::ProducedRecords]),
        ("batches of leaders only", &[Q::ProducedBatches]),
        ("batches per request", &[Q::ProduceRequests]),
        ("CPU by shard", &[Q::ShardCpu, Q::ShardUtilization]),
        ("CPU of the broker", &[Q::ShardCpu, Q::ProcessCpu, Q::ShardUtilization]),
        ("backlog", &[Q::Waiting]),
        ("network", &[Q::ReceivedBytes]),
        ("write amplification", &[Q::DiskBytes]),
        ("fsyncs per batch", &[Q::Fsyncs]),
        ("spread of batch sizes", &[Q::BatchSizes]),
        ("produce time-outs", &[Q::ProduceTimeouts]),
    ];
    let mut found: Vec<NotExported> = wanted
        .into_iter()
        .filter(|(_, any)| !any.iter().any(|quantity| rates.exported.has(*quantity)))
        .filter_map(|(what, any)| Some(missing(source, what, *any.first()?)))
        .collect();
    if basis == Basis::Written && rates.exported.has(Q::ProducedRecords) {
        found.push(missing(source, "records per batch", Q::ProducedBatches));
    }
    found.extend(not_exported_by_all(&wanted, rates));
    found
}

/// A figure that the source lacks because a quantity is missing.
pub(super) fn missing(source: Source, what: &str, quantity: Quantity) -> NotExported {
    NotExported { what: what.to_owned(), why: source.remedy(quantity).to_owned() }
}

/// Figures that some brokers have and others lack, without counts by topic: a broker without the topic has none of it.
fn not_exported_by_all(wanted: &[(&str, &[Quantity])], rates: &Rates) -> Vec<NotExported> {
    let brokers: BTreeSet<&str> =
        rates.rows.iter().map(|row| row.instance.as_str()).filter(|name| !name.is_empty()).collect();
    let by_broker = |quantity: &Quantity| {
        let dimensions = quantity.dimensions(By::Topic);
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
            why: "these brokers lack it, others have it: sums cover only the others".to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::quantity::Exported;
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
            By::Topic,
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
    fn topics_are_told_apart_by_broker_and_by_partition() {
        use Quantity::{ProducedBatches, ProducedBytes};
        let row = |instance: &str, partition: &str, quantity, value| Row {
            instance: instance.to_owned(),
            topic: "t".to_owned(),
            partition: partition.to_owned(),
            ..Row::of(quantity, value)
        };
        let rows = vec![
            row("a", "0", ProducedBatches, 10.0),
            row("a", "0", ProducedBytes, 1_000.0),
            row("a", "1", ProducedBatches, 30.0),
            row("a", "1", ProducedBytes, 12_000.0),
            row("b", "2", ProducedBatches, 5.0),
            row("b", "2", ProducedBytes, 40_000.0),
            // A follower's series.
            row("b", "1", ProducedBatches, 0.0),
            row("b", "1", ProducedBytes, 0.0),
        ];
        let rates = Rates { exported: Exported::of(&rows), rows, ..Rates::default() };
        let parts = |by| -> Vec<(String, String, Figure)> {
            let watch = watch(Source::Redpanda25, &rates, by);
            assert_eq!(watch.topics.len(), 1);
            assert_eq!(watch.topics[0].batch_bytes, Figure::Known(53_000.0 / 45.0));
            let by_broker: Vec<Figure> = watch.instances.iter().map(|one| one.batch_bytes).collect();
            assert_eq!(by_broker, [Figure::Known(325.0), Figure::Known(8_000.0)]);
            watch.parts.into_iter().map(|part| (part.instance, part.partition, part.batch_bytes)).collect()
        };
        let part = |instance: &str, partition: &str, bytes| {
            (instance.to_owned(), partition.to_owned(), Figure::Known(bytes))
        };
        assert!(parts(By::Topic).is_empty());
        assert_eq!(parts(By::Broker), [part("a", "", 325.0), part("b", "", 8_000.0)]);
        assert_eq!(
            parts(By::Partition),
            [part("a", "1", 400.0), part("a", "0", 100.0), part("b", "2", 8_000.0)]
        );
    }

    /// With aggregate_metrics, and with Apache Kafka, no counter has a partition.
    #[test]
    fn partitions_that_nobody_tells_apart_are_named_and_no_row() {
        let all = rates(&[(Quantity::ProducedBatches, "t", 2.0), (Quantity::ProducedBytes, "t", 10.0)]);
        for (source, way_out) in
            [(Source::Redpanda25, "aggregate_metrics"), (Source::KafkaJmx, "hone batch xray")]
        {
            let watch = watch(source, &all, By::Partition);
            assert!(watch.parts.is_empty(), "{watch:#?}");
            let missing = watch.not_exported.iter().find(|one| one.what == "bytes per batch by partition");
            assert!(missing.is_some_and(|one| one.why.contains(way_out)), "{:#?}", watch.not_exported);
        }
    }

    #[test]
    fn time_outs_and_lag_say_where_to_look_instead() {
        for (source, time_outs, lag) in [
            (Source::Redpanda25, "replication errors", "enable_consumer_group_metrics"),
            (Source::RedpandaPublic, "replication errors", "enable_consumer_group_metrics"),
            (Source::KafkaJmx, "type=DelayedProduceMetrics", "kminion"),
            (Source::HoneBroker, "no followers", "has committed an offset"),
        ] {
            let watch = watch(source, &rates(&[(Quantity::ProducedBytes, "t", 1.0)]), By::Topic);
            assert_eq!(watch.instances[0].produce_timeouts_per_s, Figure::NotExported);
            let why = |what: &str| {
                let missing = watch.not_exported.iter().find(|missing| missing.what == what);
                missing.unwrap_or_else(|| panic!("{source:?}: {what}")).why.clone()
            };
            assert!(why("produce time-outs").contains(time_outs), "{}", why("produce time-outs"));
            assert!(why("consumer lag by group").contains(lag), "{}", why("consumer lag by group"));
        }
    }

    #[test]
    fn what_is_not_exported_is_named_and_no_zero() {
        let watch =
            watch(Source::RedpandaPublic, &rates(&[(Quantity::ProducedBytes, "t", 100.0)]), By::Topic);
        assert_eq!(watch.topics[0].batch_bytes, Figure::NotExported);
        assert_eq!(watch.topics[0].bytes_per_s, Figure::Known(100.0));
        let instance = &watch.instances[0];
        for figure in
            [instance.cores, instance.cpu_cores, instance.fsyncs_per_batch, instance.write_amplification]
        {
            assert_eq!(figure, Figure::NotExported);
        }
        let told: Vec<&str> = watch.not_exported.iter().map(|missing| missing.what.as_str()).collect();
        assert!(told.contains(&"bytes per batch by topic") && told.contains(&"fsyncs per batch"), "{told:?}");
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
        let watch = watch(Source::Redpanda25, &rates, By::Topic);
        let fsyncs: Vec<Figure> = watch.instances.iter().map(|broker| broker.fsyncs_per_batch).collect();
        assert_eq!(fsyncs, [Figure::Known(0.5), Figure::NotExported]);
        assert!(
            watch.not_exported.iter().any(|missing| missing.what == "fsyncs per batch of old"),
            "{watch:#?}"
        );
    }

    #[test]
    fn the_public_endpoint_gives_a_bound() {
        let watch = watch(
            Source::RedpandaPublic,
            &rates(&[(Quantity::ProducedBytes, "t", 1_000.0), (Quantity::ProduceRequests, "", 4.0)]),
            By::Topic,
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
            By::Topic,
        );
        assert_eq!(watch.topics[0].batch_bytes, Figure::Known(100.0));
        assert_eq!(watch.topics[0].records_per_batch, Figure::NotExported);
        assert!(watch.notes[0].contains("replication factor"));
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
