//! An X-ray of batches as text: a table of topics, and the reasons of each.

use std::fmt::Write as _;

use hone_format::{bytes, count, measured};
use hone_record::{BatchCap, BatchXray, ProducerXray, Spread, TopicXray};

use crate::table::table;
use crate::wrapped;

/// Number of producers and partitions in the lists.
const MOST_LISTED: usize = 8;

/// The table. With `detailed`, all findings about each topic.
pub fn text(found: &BatchXray, is_detailed: bool) -> String {
    let mut out = String::new();
    if found.topics.len() > 1 || !is_detailed {
        out.push_str(&topics(found));
    }
    if is_detailed {
        for topic in &found.topics {
            let _ = write!(out, "{}{}", if out.is_empty() { "" } else { "\n" }, detail(topic));
        }
    } else {
        out.push_str(&worst(found));
    }
    for note in &found.notes {
        let _ = write!(out, "\n{}\n", wrapped(&format!("note: {note}")));
    }
    out
}

fn topics(found: &BatchXray) -> String {
    let head =
        ["topic", "partitions", "batches/s", "bytes/batch", "records/batch", "needless batches/s", "verdict"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for topic in &found.topics {
        let verdicts: Vec<&str> =
            topic.findings.iter().take(2).map(|finding| finding.verdict.name()).collect();
        rows.push(vec![
            topic.topic.clone(),
            topic.partitions.to_string(),
            topic.batches_per_s.map_or("-".to_owned(), measured),
            topic.mean_bytes.map_or("-".to_owned(), |mean| measured(mean.value)),
            topic.mean_records.map_or("-".to_owned(), |mean| measured(mean.value)),
            topic.needless_batches_per_s().map_or("-".to_owned(), measured),
            verdicts.join(", "),
        ]);
    }
    table(&rows)
}

/// The most expensive topic, if the output is not detailed.
fn worst(found: &BatchXray) -> String {
    let Some(topic) = found.topics.first().filter(|topic| topic.findings.len() > 1) else {
        return String::new();
    };
    format!("\nThe most expensive one\n\n{}", detail(topic))
}

fn detail(topic: &TopicXray) -> String {
    let mut out = format!(
        "{}: {} batches of {} records in {} partitions, {}\n\n",
        topic.topic,
        count(topic.batches),
        count(topic.records),
        topic.partitions,
        read(topic)
    );
    out.push_str(&table(&sizes(topic)));
    out.push_str(&facts(topic));
    out.push_str(&producers(topic));
    out.push_str(&partitions(topic));
    for finding in &topic.findings {
        let who = finding.producer.map_or(String::new(), |id| format!(" (producer {id})"));
        let share = if finding.share < 0.995 {
            format!(", {} of the batches", hone_format::percent(finding.share))
        } else {
            String::new()
        };
        let _ = write!(out, "\n  {}{who}{share}\n", finding.verdict.name());
        for (title, text) in [("seen", &finding.evidence), ("do", &finding.action), ("rule", &finding.rule)] {
            if !text.is_empty() {
                let _ = writeln!(
                    out,
                    "    {}",
                    wrapped(&format!("{title:4}  {text}")).replace('\n', "\n        ")
                );
            }
        }
    }
    for trouble in &topic.troubles {
        let _ = write!(out, "\n{}\n", wrapped(&format!("  note: {trouble}")));
    }
    out
}

fn read(topic: &TopicXray) -> String {
    let span = topic
        .read
        .times_ms
        .map_or(String::new(), |(first, last)| format!(" of {} s", measured((last - first) as f64 / 1e3)));
    let share = hone_format::percent(topic.read.share);
    match topic.read.slots {
        Some(slots) => {
            format!("a sample: {slots} periods, {share}{span}, {} read", bytes(topic.read.bytes))
        }
        None => format!("{share}{span}, {} read", bytes(topic.read.bytes)),
    }
}

fn sizes(topic: &TopicXray) -> Vec<Vec<String>> {
    let head = ["", "mean", "least", "p10", "p50", "p90", "p99", "most"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let mean = |found: Option<hone_record::Sampled>| match found {
        Some(found) => match found.interval {
            Some((low, high)) => format!("{} [{}, {}]", measured(found.value), measured(low), measured(high)),
            None => measured(found.value),
        },
        None => "-".to_owned(),
    };
    let mut row = |title: &str, mean: String, spread: Option<Spread>| {
        let Some(spread) = spread else { return };
        let cells = [spread.least, spread.p10, spread.p50, spread.p90, spread.p99, spread.most];
        rows.push([title.to_owned(), mean].into_iter().chain(cells.map(count)).collect());
    };
    row("bytes per batch", mean(topic.mean_bytes), topic.size_bytes);
    row("  weighted by bytes", String::new(), topic.size_bytes_by_bytes);
    row("records per batch", mean(topic.mean_records), topic.records_per_batch);
    row("ms from first to last", String::new(), topic.span_ms);
    rows
}

fn facts(topic: &TopicXray) -> String {
    let mut facts = Vec::new();
    if let (Some(batches), Some(records)) = (topic.batches_per_s, topic.records_per_s) {
        facts.push(format!("{} batches/s, {} records/s", measured(batches), measured(records)));
    }
    facts.push(format!("headers {} of the bytes", hone_format::percent(topic.header_share)));
    for codec in &topic.codecs {
        let ratio = codec.ratio.map_or(String::new(), |ratio| format!(", {ratio:.2} times smaller"));
        let share = if codec.share < 0.995 {
            format!(" {}", hone_format::percent(codec.share))
        } else {
            String::new()
        };
        facts.push(format!("codec {}{share}{ratio}", codec.codec));
    }
    if let Some(keys) = &topic.keys {
        let more = if keys.is_more { " and more" } else { "" };
        facts.push(match (keys.keyed_share, &keys.partitioner) {
            (0.0, _) => "no keys".to_owned(),
            (share, Some(rule)) => {
                format!(
                    "keys in {:.0} %, {}{more} of them, placed by {rule}",
                    100.0 * share,
                    count(keys.distinct)
                )
            }
            (share, None) => {
                format!("keys in {:.0} %, {}{more} of them", 100.0 * share, count(keys.distinct))
            }
        });
        facts.push(format!("{} bytes per record before compression", measured(keys.record_bytes)));
    }
    if topic.transactional > 0 {
        facts.push(format!(
            "{} batches of transactions, {} markers",
            count(topic.transactional),
            count(topic.control)
        ));
    }
    format!("\n  {}\n", wrapped(&facts.join("; ")))
}

fn producers(topic: &TopicXray) -> String {
    let head =
        ["producer", "batches", "records/batch", "bytes/batch", "partitions", "linger", "limit", "closed by"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(topic.producers.iter().take(MOST_LISTED).map(|producer| row(producer, topic)));
    let more = topic.producers.len().saturating_sub(MOST_LISTED) + topic.more_producers;
    let rest = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("\n{}{rest}", table(&rows))
}

fn row(producer: &ProducerXray, topic: &TopicXray) -> Vec<String> {
    let name = match producer.id {
        Some(id) => id.to_string(),
        None => format!("without id ({}+)", topic.nameless_at_least.max(1)),
    };
    let batches = producer.batches.max(1) as f64;
    let triggers: Vec<String> = producer
        .triggers
        .iter()
        .filter(|(_, share)| *share >= 0.01)
        .map(|(trigger, share)| format!("{} {:.0} %", trigger.name(), 100.0 * share))
        .collect();
    vec![
        name,
        count(producer.batches),
        measured(producer.records as f64 / batches),
        measured(producer.bytes as f64 / batches),
        producer.partitions.to_string(),
        producer.linger_ms.map_or("-".to_owned(), |linger| format!("{linger} ms")),
        match producer.cap {
            Some(BatchCap::Bytes(limit)) => format!("{limit} B"),
            Some(BatchCap::Records(limit)) => format!("{limit} records"),
            None => "-".to_owned(),
        },
        triggers.join(", "),
    ]
}

/// Only if they differ: one that is far hotter than the others.
fn partitions(topic: &TopicXray) -> String {
    let all = &topic.by_partition;
    let (Some(hottest), Some(coldest)) = (all.first(), all.last()) else { return String::new() };
    if all.len() < 2
        || hottest.batches < 2 * coldest.batches.max(1) && hottest.bytes < 2 * coldest.bytes.max(1)
    {
        return String::new();
    }
    let head = ["partition", "batches", "records/batch", "bytes/batch"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for part in all.iter().take(MOST_LISTED) {
        let batches = part.batches.max(1) as f64;
        rows.push(vec![
            part.partition.to_string(),
            count(part.batches),
            measured(part.records as f64 / batches),
            measured(part.bytes as f64 / batches),
        ]);
    }
    let more = all.len().saturating_sub(MOST_LISTED);
    let rest = if more > 0 { format!("  and {more} more\n") } else { String::new() };
    format!("\n{}{rest}", table(&rows))
}
