//! Batches from a cluster's counters, as text.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use hone_format::{count, measured, throughput};
use hone_record::{BatchWatch, Figure, WatchedInstance, WatchedLatency, WatchedTopic};

use crate::heatmap::Look;
use crate::table::table;
use crate::{plain, wrapped};

/// Number of topics in the output. The rest is summed up.
const MOST_TOPICS: usize = 40;
/// Number of clients and queues in the output.
const MOST_OTHERS: usize = 15;
/// A batch below this many bytes is small: the size of a disk page.
const SMALL_BYTES: f64 = 4_096.0;
/// A topic with fewer batches per second is negligible.
const HIGH_RATE: f64 = 100.0;
/// Number of samples in the CPU heatmap, at most.
const MOST_LOOKS: usize = 240;
/// Columns of a heatmap row before its cells.
const LABEL: usize = 24;

/// The scale in the 256 colours of a terminal, from idle to busy.
const COLOURS: [u8; 9] = [54, 60, 24, 31, 30, 36, 71, 149, 220];
/// The scale in characters.
const MARKS: [char; 9] = ['.', ':', '-', '=', '+', 'x', '*', '%', '#'];

/// CPU by shard over the samples so far.
#[derive(Debug, Default)]
pub struct Strip {
    looks: VecDeque<BTreeMap<(String, String), f64>>,
}

impl Strip {
    /// Adds a sample.
    pub fn add(&mut self, watch: &BatchWatch) {
        let shards = watch.shards.iter();
        self.looks.push_back(
            shards.map(|shard| ((shard.instance.clone(), shard.shard.clone()), shard.cpu_share)).collect(),
        );
        if self.looks.len() > MOST_LOOKS {
            self.looks.pop_front();
        }
    }

    /// A row for each shard, with the newest sample on the right.
    fn text(&self, watch: &BatchWatch, look: &Look) -> String {
        let room = look.columns.saturating_sub(LABEL + 8).max(8);
        let mut out = String::new();
        for shard in &watch.shards {
            let key = (shard.instance.clone(), shard.shard.clone());
            let newest = self.looks.iter().rev().take(room).map(|look| look.get(&key).copied());
            let cells: Vec<String> = newest.map(|share| cell(share, look)).collect();
            let name = plain(&format!("{}/{}", shard.instance, shard.shard));
            let _ = writeln!(
                out,
                "  {:<LABEL$} {} {:>3.0} %",
                shortened(&name, LABEL),
                cells.into_iter().rev().collect::<String>(),
                100.0 * shard.cpu_share
            );
        }
        out
    }
}

fn cell(share: Option<f64>, look: &Look) -> String {
    let Some(share) = share else { return " ".to_owned() };
    let step = ((share * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1);
    if look.has_colours {
        format!("\u{1b}[38;5;{}m█\u{1b}[0m", COLOURS[step])
    } else {
        MARKS[step].to_string()
    }
}

/// The complete text.
pub fn text(watch: &BatchWatch, strip: &Strip, look: &Look) -> String {
    let mut out =
        format!("{}, last {} s, {}\n", watch.source, measured(watch.window_s), watch.endpoints.join(", "));
    section(&mut out, &topics(watch));
    section(&mut out, &parts(watch));
    section(&mut out, &brokers(watch));
    section(&mut out, &latency(watch));
    section(&mut out, &groups(watch));
    if watch.batch_bytes_p50 != Figure::NotExported {
        let (middle, most) = (figure(watch.batch_bytes_p50), figure(watch.batch_bytes_p99));
        let _ = writeln!(out, "\n  Half of all batches have up to {middle} bytes, 99 % up to {most}");
    }
    if !watch.backlog.is_empty() {
        let _ = writeln!(out, "\n  Waiting   {}", backlog(watch));
    }
    if !watch.shards.is_empty() {
        let _ = write!(out, "\n  CPU by shard, the newest to the right\n{}", strip.text(watch, look));
    }
    section(&mut out, &clients(watch));
    out.push_str(&not_exported(watch));
    watch.notes.iter().for_each(|note| {
        let _ = writeln!(out, "{}", wrapped(&format!("note: {note}")));
    });
    out
}

/// A reason that applies everywhere appears once.
fn not_exported(watch: &BatchWatch) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for missing in &watch.not_exported {
        match by_reason.iter_mut().find(|(why, _)| *why == missing.why) {
            Some((_, told)) => told.push(&missing.what),
            None => by_reason.push((&missing.why, vec![&missing.what])),
        }
    }
    let lines = by_reason
        .iter()
        .map(|(why, what)| format!("  {}\n", wrapped(&format!("{}: {why}", what.join(", ")))));
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\n  Not exported\n{lines}") }
}

fn section(out: &mut String, rows: &[Vec<String>]) {
    if rows.len() > 1 {
        let _ = write!(out, "\n{}", table(rows));
    }
}

type Column<T> = (&'static str, fn(&T) -> String);

/// A row of titles and one for each item. A value that no item has gets no column; the text below names it.
fn rows<T>(first: &str, items: &[(String, &T)], columns: &[Column<T>]) -> Vec<Vec<String>> {
    let told: Vec<&Column<T>> = columns
        .iter()
        .filter(|(_, of)| items.iter().any(|(_, item)| ![NOT_EXPORTED, ""].contains(&of(item).as_str())))
        .collect();
    let titles = std::iter::once(first.to_owned()).chain(told.iter().map(|(title, _)| (*title).to_owned()));
    let row = |(name, item): &(String, &T)| {
        std::iter::once(name.clone()).chain(told.iter().map(|(_, of)| of(item))).collect()
    };
    std::iter::once(titles.collect()).chain(items.iter().map(row)).collect()
}

const NOT_EXPORTED: &str = "not exported";

fn figure(figure: Figure) -> String {
    match figure {
        Figure::NotExported => NOT_EXPORTED.to_owned(),
        Figure::Nothing => "-".to_owned(),
        Figure::AtMost(value) => format!("at most {}", measured(value)),
        Figure::Known(value) => measured(value),
    }
}

fn per_s(of: Figure) -> String {
    match of {
        Figure::Known(bytes) => throughput(bytes.max(0.0)),
        other => figure(other),
    }
}

fn percent(of: Figure) -> String {
    match of {
        Figure::Known(share) => hone_format::percent(share),
        other => figure(other),
    }
}

fn is_small(topic: &WatchedTopic) -> bool {
    let known = |of: Figure| of.known();
    known(topic.batch_bytes).is_some_and(|bytes| bytes < SMALL_BYTES)
        && known(topic.batches_per_s).is_some_and(|rate| rate >= HIGH_RATE)
}

const OF_A_TOPIC: [Column<WatchedTopic>; 7] = [
    ("bytes per batch", |topic| figure(topic.batch_bytes)),
    ("records per batch", |topic| figure(topic.records_per_batch)),
    ("bytes per record", |topic| figure(topic.record_bytes)),
    ("batches/s", |topic| figure(topic.batches_per_s)),
    ("of all", |topic| percent(topic.batch_share)),
    ("written", |topic| per_s(topic.bytes_per_s)),
    ("", |topic| if is_small(topic) { "small".to_owned() } else { String::new() }),
];

fn topics(watch: &BatchWatch) -> Vec<Vec<String>> {
    let shown = watch.topics.iter().take(MOST_TOPICS);
    let mut items: Vec<(String, &WatchedTopic)> = shown.map(|topic| (topic.topic.clone(), topic)).collect();
    let more = watch.topics.len().saturating_sub(MOST_TOPICS);
    let all = if more > 0 { format!("all, {more} more topics") } else { "all".to_owned() };
    items.push((all, &watch.total));
    rows("topic", &items, &OF_A_TOPIC)
}

/// The topics by broker or by partition, those with most batches first.
fn parts(watch: &BatchWatch) -> Vec<Vec<String>> {
    let name = |part: &WatchedTopic| match part.partition.as_str() {
        "" => format!("{} on {}", part.topic, part.instance),
        partition => format!("{}/{partition} on {}", part.topic, part.instance),
    };
    let shown = watch.parts.iter().take(MOST_TOPICS);
    let mut items: Vec<(String, &WatchedTopic)> = shown.map(|part| (name(part), part)).collect();
    let more = watch.parts.len().saturating_sub(MOST_TOPICS);
    if more > 0 {
        items.push((format!("all, {more} more parts"), &watch.total));
    }
    rows("part of a topic", &items, &OF_A_TOPIC)
}

fn brokers(watch: &BatchWatch) -> Vec<Vec<String>> {
    let columns: [Column<WatchedInstance>; 12] = [
        ("bytes per batch", |one| figure(one.batch_bytes)),
        ("CPU", |one| figure(one.cpu_cores)),
        ("of cores", |one| figure(one.cores)),
        ("batches/s per core", |one| figure(one.batches_per_s_per_core)),
        ("requests/s", |one| figure(one.requests_per_s)),
        ("batches per request", |one| figure(one.batches_per_request)),
        ("received", |one| per_s(one.received_bytes_per_s)),
        ("sent", |one| per_s(one.sent_bytes_per_s)),
        ("disk bytes per byte", |one| figure(one.write_amplification)),
        ("fsyncs per batch", |one| figure(one.fsyncs_per_batch)),
        ("produce time-outs/s", |one| figure(one.produce_timeouts_per_s)),
        ("replication errors/s", |one| figure(one.replication_errors_per_s)),
    ];
    let items: Vec<(String, &WatchedInstance)> =
        watch.instances.iter().map(|one| (one.instance.clone(), one)).collect();
    rows("broker", &items, &columns)
}

/// A column for each percentile that some broker has.
fn latency(watch: &BatchWatch) -> Vec<Vec<String>> {
    let ms = |latency: &WatchedLatency, percentile: f64| {
        let found = latency.percentiles.iter().find(|one| one.percentile == percentile);
        found.map_or(Figure::NotExported, |one| one.ms)
    };
    let percentiles: Vec<f64> = watch
        .produce_latency
        .first()
        .into_iter()
        .flat_map(|all| &all.percentiles)
        .filter(|one| one.ms != Figure::NotExported)
        .map(|one| one.percentile)
        .collect();
    let titles = percentiles.iter().map(|percentile| format!("p{percentile} ms"));
    let mut rows = vec![std::iter::once("produce latency".to_owned()).chain(titles).collect()];
    for latency in &watch.produce_latency {
        let name = if latency.instance.is_empty() { "all" } else { &latency.instance };
        let cells = percentiles.iter().map(|percentile| figure(ms(latency, *percentile)));
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    }
    rows
}

fn groups(watch: &BatchWatch) -> Vec<Vec<String>> {
    let records = |lag: Figure| match lag {
        Figure::Known(records) => count(records.max(0.0).round() as u64),
        other => figure(other),
    };
    let titles = ["consumer group", "lag, records", "most in a partition"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for group in watch.groups.iter().take(MOST_TOPICS) {
        rows.push(vec![group.group.clone(), records(group.lag), records(group.lag_max)]);
    }
    rows
}

/// If nothing waits, one word replaces a line of zeros.
fn backlog(watch: &BatchWatch) -> String {
    let waiting = watch.backlog.iter().filter(|queue| queue.waiting > 0.0).take(MOST_OTHERS);
    let told: Vec<String> = waiting
        .map(|queue| {
            format!("{} in {} of {}", count(queue.waiting.round() as u64), queue.group, queue.instance)
        })
        .collect();
    if told.is_empty() { "nothing".to_owned() } else { plain(&told.join(", ")) }
}

fn clients(watch: &BatchWatch) -> Vec<Vec<String>> {
    let titles =
        ["client", "software", "bytes per batch", "batches/min", "batches per request", "connections"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for client in watch.clients.iter().take(MOST_OTHERS) {
        rows.push(vec![
            client.client_id.clone(),
            client.software.clone(),
            figure(client.batch_bytes),
            count(client.batches),
            figure(client.batches_per_request),
            client.connections.to_string(),
        ]);
    }
    rows
}

fn shortened(name: &str, width: usize) -> String {
    let count = name.chars().count();
    if count <= width {
        name.to_owned()
    } else {
        ['…'].into_iter().chain(name.chars().skip(count - width + 1)).collect()
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{NotExported, WatchedGroup, WatchedPercentile, WatchedQueue, WatchedShard};

    use super::*;

    fn watch() -> BatchWatch {
        let topic = |name: &str, bytes: f64, rate: f64| WatchedTopic {
            topic: name.to_owned(),
            batch_bytes: Figure::Known(bytes),
            batches_per_s: Figure::Known(rate),
            batch_share: Figure::Known(0.5),
            ..WatchedTopic::default()
        };
        let shard = |shard: &str, cpu_share| WatchedShard {
            instance: "127.0.0.1:9644".to_owned(),
            shard: shard.to_owned(),
            cpu_share,
        };
        BatchWatch {
            source: "redpanda-25.1".to_owned(),
            endpoints: vec!["http://127.0.0.1:9644/metrics".to_owned()],
            window_s: 5.0,
            total: topic("", 500.0, 2_000.0),
            topics: vec![topic("orders", 600.0, 1_900.0), topic("audit", 90.0, 3.0)],
            shards: vec![shard("0", 0.97), shard("1", 0.02)],
            backlog: vec![WatchedQueue { instance: "b".to_owned(), group: "main".to_owned(), waiting: 3.0 }],
            not_exported: vec![NotExported {
                what: "fsyncs per batch".to_owned(),
                why: "because".to_owned(),
            }],
            ..BatchWatch::default()
        }
    }

    fn shown(has_colours: bool) -> String {
        let mut strip = Strip::default();
        let mut earlier = watch();
        earlier.shards[0].cpu_share = 0.4;
        earlier.shards.pop();
        strip.add(&earlier);
        strip.add(&watch());
        text(&watch(), &strip, &Look { columns: 80, has_colours })
    }

    #[test]
    fn small_batches_at_a_high_rate_are_marked_and_only_those() {
        let text = shown(false);
        let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
        assert!(line("orders").ends_with("small"), "{text}");
        assert!(!line("audit").contains("small"), "{text}");
        assert!(text.contains("Waiting   3 in main of b"), "{text}");
    }

    #[test]
    fn latency_lag_and_partitions_have_tables_of_their_own() {
        let percentile = |percentile, ms| WatchedPercentile { percentile, ms };
        let latency = |instance: &str, p50| WatchedLatency {
            instance: instance.to_owned(),
            percentiles: vec![
                percentile(50.0, Figure::Known(p50)),
                percentile(85.0, Figure::NotExported),
                percentile(99.999, Figure::AtMost(65.5)),
            ],
        };
        let group = |group: &str, lag, lag_max| WatchedGroup {
            group: group.to_owned(),
            lag: Figure::Known(lag),
            lag_max: Figure::Known(lag_max),
        };
        let part = WatchedTopic {
            instance: "a:9644".to_owned(),
            partition: "3".to_owned(),
            ..watch().topics.remove(0)
        };
        let watch = BatchWatch {
            parts: vec![part],
            produce_latency: vec![latency("", 1.5), latency("a:9644", 2.5)],
            groups: vec![group("billing", 1_240.0, 7.0)],
            ..watch()
        };
        let text = text(&watch, &Strip::default(), &Look { columns: 80, has_colours: false });
        let cells = |first: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.trim_start().starts_with(first));
            let line = line.unwrap_or_else(|| panic!("no {first}: {text}"));
            line.split("   ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect()
        };
        assert_eq!(cells("produce latency"), ["produce latency", "p50 ms", "p99.999 ms"]);
        assert_eq!(cells("all  "), ["all", "500", "2,000", "50.0 %", "small"], "{text}");
        assert_eq!(cells("a:9644"), ["a:9644", "2.50", "at most 65.5"]);
        assert_eq!(cells("billing"), ["billing", "1,240", "7"]);
        assert_eq!(cells("orders/3"), ["orders/3 on a:9644", "600", "1,900", "50.0 %", "small"]);
    }

    #[test]
    fn what_is_not_exported_is_no_column_but_is_told() {
        let text = shown(false);
        assert!(!text.contains("records per batch"), "{text}");
        assert!(text.contains("Not exported\n  fsyncs per batch: because"), "{text}");
    }

    #[test]
    fn cpu_is_a_row_for_each_shard() {
        let text = shown(false);
        assert!(text.contains("127.0.0.1:9644/0         =#  97 %"), "{text}");
        // A shard that was missing in an earlier sample has no cell there.
        assert!(text.contains("127.0.0.1:9644/1          .   2 %"), "{text}");
        assert!(!text.contains('\u{1b}'));
        assert!(shown(true).contains("\u{1b}[38;5;220m█"), "{}", shown(true));
    }
}
