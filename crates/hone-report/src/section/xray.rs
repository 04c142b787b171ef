//! Batches of topics: how large they are, why, and what to set.

use hone_record::{
    BatchCap, BatchFinding, BatchSizes, BatchVerdict, BatchXray, ProducerXray, Sampled, Spread, TopicXray,
};

use super::head::{self, Head};
use super::{absent, figure, no_figure, paragraph, section};
use crate::outcome::{self, Outcome, capital};
use crate::plot::sizes::{self, Row};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Rows of the picture of all topics.
const MOST_DRAWN: usize = 20;
/// Rows of the table of all topics.
const MOST_LISTED: usize = 200;
/// Topics with a section of their own: those with the most costly batches.
const MOST_DETAILED: usize = 12;
/// Producers in a table.
const MOST_PRODUCERS: usize = 8;

/// The head: which topic costs the most, and what to do about it.
pub(crate) fn header(found: &BatchXray) -> Element {
    let worst = found.topics.first();
    let finding = worst.and_then(|topic| topic.findings.first());
    let action = finding.filter(|finding| !finding.action.is_empty());
    let lines = action.map(|finding| paragraph(&format!("{}.", upper(&finding.action))));
    let outcome = outcome::of_xray(found);
    let word = finding.map_or(outcome.word, |finding| capital(meaning(finding.verdict)));
    Head::new("Batch X-ray", &found.source)
        .verdict(Outcome { word, ..outcome }, &sentence(found), lines.into_iter().collect())
        .with_all(head::tiles_of_values("The topic with the most costly batches", &values(worst)))
        .with_all(found.notes.iter().map(|note| paragraph(&format!("Note: {note}."))))
        .meta(&[])
}

/// The meaning of a verdict, then its name.
fn explained(verdict: BatchVerdict) -> String {
    format!("{} ({})", meaning(verdict), verdict.name())
}

fn meaning(verdict: BatchVerdict) -> &'static str {
    match verdict {
        BatchVerdict::Healthy => "batches are large enough",
        BatchVerdict::Quiet => "batches are small, but too few to matter",
        BatchVerdict::Fair => "batches could be larger",
        BatchVerdict::Small => "batches are small and cost much",
        BatchVerdict::SizeCapped => "batches end at the producer’s size limit",
        BatchVerdict::LingerBound => "linger is too short, so batches leave early",
        BatchVerdict::RateStarved => "too few records per partition to fill a batch",
        BatchVerdict::CoDrained => "batches leave early with those of a busier partition",
        BatchVerdict::SyncSender => "the sender waits for each acknowledgement",
        BatchVerdict::RoundRobin => "records without keys go to all partitions in turn",
        BatchVerdict::KeySpread => "many keys are spread over many partitions",
        BatchVerdict::Flusher => "the application flushes after a few records",
        BatchVerdict::BackPressured => "the sender waits for the broker",
        BatchVerdict::NoEvidence => "the batches do not show the reason",
    }
}

/// The figures of a topic that people look for first.
fn values(topic: Option<&TopicXray>) -> Vec<(&'static str, String, String)> {
    let Some(topic) = topic else { return Vec::new() };
    let values = [
        ("needless batches/s", topic.needless_batches_per_s().map(quantity::significant)),
        ("batches/s", topic.batches_per_s.map(quantity::significant)),
        ("bytes/batch, mean", topic.mean_bytes.map(|mean| quantity::bytes(mean.value as u64))),
        ("bytes/batch, median", topic.size_bytes.map(|spread| quantity::bytes(spread.p50))),
    ];
    values.into_iter().filter_map(|(name, value)| Some((name, value?, topic.topic.clone()))).collect()
}

fn sentence(found: &BatchXray) -> String {
    let Some(worst) = found.topics.first() else { return "No topic was read.".to_owned() };
    let verdict =
        worst.findings.first().map(|finding| format!(": {}", explained(finding.verdict))).unwrap_or_default();
    let count = quantity::counted(found.topics.len() as u64, "topic", "topics");
    let mean = worst.mean_bytes.map_or(String::new(), |mean| {
        format!(" Its batches have {} on average.", quantity::bytes(mean.value as u64))
    });
    let share = worst.needless_batches / worst.batches.max(1) as f64;
    let needless = match share > 0.0 {
        true => format!(" Batches of 16 KiB would avoid {} of them.", quantity::percent(share)),
        false => String::new(),
    };
    match found.topics.len() {
        1 => format!("{}{verdict}.{mean}{needless}", worst.topic),
        _ => format!("Of {count}, {} has the most costly batches{verdict}.{mean}{needless}", worst.topic),
    }
}

fn upper(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// All topics, the most costly first.
pub(crate) fn topics(found: &BatchXray) -> Element {
    let title = "Topics by the cost of their batches";
    let section = section("topics", title);
    if found.topics.is_empty() {
        return section.child(absent("No topic was read."));
    }
    section.child(overview(&found.topics)).child(topic_table(title, &found.topics))
}

fn overview(topics: &[TopicXray]) -> Element {
    let title = "Batch sizes by topic";
    let row = |topic: &'_ TopicXray| {
        let mean = topic.mean_bytes.map(|mean| (mean.value, mean.interval));
        Some((topic.size_bytes?, mean))
    };
    let rows: Vec<Row> = topics
        .iter()
        .filter_map(|topic| row(topic).map(|(spread, mean)| Row { name: &topic.topic, spread, mean }))
        .take(MOST_DRAWN)
        .collect();
    let Some(plot) = sizes::spreads("xray-topics", title, &rows) else {
        return no_figure(title, "No batch was read, so there is no size to draw.");
    };
    let caption = "Each batch counts once. The lines are at 4 KiB and 16 KiB.";
    figure(title, Some(sizes::legend(&rows)), plot, caption, None)
}

fn topic_table(title: &str, topics: &[TopicXray]) -> Element {
    let number = |title: &str| Column::numbers(Markup::text(title));
    let mut columns = vec![Column::words("topic")];
    let titles = ["partitions", "batches/s", "bytes/batch", "median", "records/batch", "needless batches/s"];
    columns.extend(titles.map(number));
    columns.push(Column::words("verdict"));
    let mut table = Table::new(title, columns);
    let more = topics.len().saturating_sub(MOST_LISTED);
    let needless = "Needless: batches per second that batches of 16 KiB would avoid.";
    table = match more {
        0 => table.remark(needless),
        more => {
            table.remark(&format!("{needless} Without the {} cheapest topics.", quantity::count(more as u64)))
        }
    };
    for topic in topics.iter().take(MOST_LISTED) {
        let rate = |value: Option<f64>| Cell::number(&value.map_or(NONE.to_owned(), quantity::significant));
        let verdicts: Vec<&str> =
            topic.findings.iter().take(2).map(|finding| finding.verdict.name()).collect();
        let cells = vec![
            Cell::number(&quantity::count(topic.partitions as u64)),
            rate(topic.batches_per_s),
            Cell::number(
                &topic.mean_bytes.map_or(NONE.to_owned(), |mean| quantity::bytes(mean.value as u64)),
            ),
            Cell::number(&topic.size_bytes.map_or(NONE.to_owned(), |spread| quantity::bytes(spread.p50))),
            rate(topic.mean_records.map(|mean| mean.value)),
            rate(topic.needless_batches_per_s()),
            Cell::text(&verdicts.join(", ")),
        ];
        table.row(Markup::text(&topic.topic), cells);
    }
    table.finish()
}

/// The most costly topics, each with its batches, the verdict and the advice.
pub(crate) fn details(found: &BatchXray) -> Vec<Element> {
    let several = found.topics.len() > 1;
    let shown = found.topics.iter().take(MOST_DETAILED).enumerate();
    shown
        .map(|(index, topic)| detail(index + 1, topic))
        .map(|one| if several { one.detail() } else { one })
        .collect()
}

fn detail(number: usize, topic: &TopicXray) -> Element {
    let id = format!("topic-{number}");
    section(&id, &format!("Topic {}", topic.topic))
        .child(findings(topic))
        .child(distribution(&format!("{id}-sizes"), &topic.topic, &topic.sizes))
        .child(facts(topic))
        .children(spread_table(topic))
        .children(producers(topic))
        .children(topic.troubles.iter().map(|trouble| paragraph(&format!("Note: {trouble}."))))
}

/// The histogram of batch sizes, or why there is none.
pub(crate) fn distribution(id: &str, topic: &str, found: &BatchSizes) -> Element {
    let title = format!("Batches of {topic} by size");
    let Some(plot) = sizes::plot(id, &title, found) else {
        return no_figure(&title, "The record has only the mean and the quantiles of the batch sizes.");
    };
    let caption = "A bar is half of an octave. The lines are at 4 KiB and 16 KiB.";
    figure(&title, None, plot, caption, Some(size_table(&title, found)))
}

fn size_table(title: &str, found: &BatchSizes) -> Element {
    let numbers = ["batches", "share"].map(|title| Column::numbers(Markup::text(title)));
    let mut table = Table::new(title, std::iter::once(Column::words("size")).chain(numbers).collect());
    let all = found.batches().max(1) as f64;
    let [small, middle, large] = sizes::shares(found).map(quantity::percent);
    table =
        table.remark(&format!("Below 4 KiB: {small}. From 4 to 16 KiB: {middle}. From 16 KiB on: {large}."));
    for (low, high, batches) in found.classes() {
        let name = format!("{} to {}", quantity::bytes(low as u64), quantity::bytes(high as u64));
        let cells = [quantity::count(batches), quantity::percent(batches as f64 / all)];
        table.row(Markup::text(&name), cells.map(|text| Cell::number(&text)).into());
    }
    table.finish()
}

fn findings(topic: &TopicXray) -> Element {
    let item = |finding: &BatchFinding| {
        let who = finding.producer.map_or(String::new(), |id| format!(" (producer {id})"));
        let share = match finding.share {
            share if share < 0.995 => format!(", {} of the batches", quantity::percent(share)),
            _ => String::new(),
        };
        let evidence = format!("{}. ", upper(&finding.evidence));
        let action = (!finding.action.is_empty()).then(|| {
            el("p")
                .child(el("b").text("What to do: "))
                .text(&format!("{}.", finding.action.trim_end_matches('.')))
        });
        let rule = (!finding.rule.is_empty())
            .then(|| el("p").class("under").text(&format!("Rule: {}.", finding.rule.trim_end_matches('.'))));
        el("li")
            .child(el("strong").text(&format!("{}{who}{share}. ", capital(&explained(finding.verdict)))))
            .text(&evidence)
            .children(action)
            .children(rule)
    };
    match topic.findings.is_empty() {
        true => absent("There is no verdict, because no batch was read."),
        false => el("ul").class("findings").children(topic.findings.iter().map(item)),
    }
}

fn facts(topic: &TopicXray) -> Element {
    let mut table = Table::facts("What was read");
    let mut fact = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            table.fact(name, &value);
        }
    };
    let amount = format!(
        "{} of {} in {}",
        quantity::counted(topic.batches, "batch", "batches"),
        quantity::counted(topic.records, "record", "records"),
        quantity::counted(topic.partitions as u64, "partition", "partitions")
    );
    let share = quantity::percent(topic.read.share);
    let how = match topic.read.slots {
        Some(slots) => format!("a sample of {}, {share}", quantity::counted(slots, "period", "periods")),
        None => share,
    };
    fact("read", Some(format!("{amount}; {how} of the topic, {}", quantity::bytes(topic.read.bytes))));
    fact(
        "effective batch size",
        topic.mean_bytes.map(|mean| sampled(mean, |bytes| quantity::bytes(bytes as u64))),
    );
    let rates = topic.batches_per_s.zip(topic.records_per_s);
    fact(
        "rate",
        rates.map(|(batches, records)| {
            format!(
                "{} batches/s, {} records/s",
                quantity::significant(batches),
                quantity::significant(records)
            )
        }),
    );
    let small = (topic.batches > 0).then(|| topic.small_batches as f64 / topic.batches as f64);
    fact("below 16 KiB", small.map(|share| format!("{} of the batches", quantity::percent(share))));
    fact(
        "write amplification, flushed alone",
        (topic.batches > 0).then(|| quantity::significant(topic.pages)),
    );
    fact(
        "headers",
        (topic.batches > 0).then(|| format!("{} of the bytes", quantity::percent(topic.header_share))),
    );
    let codecs = topic.codecs.iter().map(|codec| {
        let ratio =
            codec.ratio.map_or(String::new(), |ratio| format!(", ratio {}", quantity::significant(ratio)));
        format!("{} {}{ratio}", codec.codec, quantity::percent(codec.share))
    });
    fact("codec", Some(codecs.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty()));
    fact(
        "keys",
        topic.keys.as_ref().map(|keys| {
            let more = if keys.is_more { " and more" } else { "" };
            let placed =
                keys.partitioner.as_ref().map_or(String::new(), |rule| format!(", placed by {rule}"));
            let share = quantity::percent(keys.keyed_share);
            format!("in {share} of the records, {}{more} different{placed}", quantity::count(keys.distinct))
        }),
    );
    table.finish()
}

fn sampled(mean: Sampled, write: impl Fn(f64) -> String) -> String {
    match mean.interval {
        Some((low, high)) => format!(
            "{} (95{}% confidence interval {} to {})",
            write(mean.value),
            quantity::NBSP,
            write(low),
            write(high)
        ),
        None => write(mean.value),
    }
}

fn spread_table(topic: &TopicXray) -> Option<Element> {
    let rows = [
        ("bytes per batch", topic.size_bytes),
        ("the same, weighted by bytes", topic.size_bytes_by_bytes),
        ("records per batch", topic.records_per_batch),
        ("ms from the first to the last record", topic.span_ms),
    ];
    let titles = ["smallest", "p10", "p50", "p90", "p99", "largest"];
    let columns = titles.map(|title| Column::numbers(Markup::text(title)));
    let mut table =
        Table::new("Quantiles", std::iter::once(Column::words("figure")).chain(columns).collect());
    let known = rows.iter().filter_map(|(name, spread)| Some((*name, (*spread)?)));
    let mut is_empty = true;
    for (name, Spread { least, p10, p50, p90, p99, most }) in known {
        let cells = [least, p10, p50, p90, p99, most].map(|value| Cell::number(&quantity::count(value)));
        table.row(Markup::text(name), cells.into());
        is_empty = false;
    }
    (!is_empty).then(|| table.finish())
}

fn producers(topic: &TopicXray) -> Option<Element> {
    if topic.producers.is_empty() {
        return None;
    }
    let number = |title: &str| Column::numbers(Markup::text(title));
    let mut columns = vec![Column::words("producer")];
    columns.extend(["batches", "records/batch", "bytes/batch", "linger", "limit"].map(number));
    columns.push(Column::words("closed by"));
    let mut table = Table::new("Producers", columns);
    let more = topic.producers.len().saturating_sub(MOST_PRODUCERS) + topic.more_producers;
    if more > 0 {
        table = table.remark(&format!("{} more have fewer batches.", quantity::count(more as u64)));
    }
    for producer in topic.producers.iter().take(MOST_PRODUCERS) {
        let name = match producer.id {
            Some(id) => id.to_string(),
            None => format!("without id, at least {}", topic.nameless_at_least.max(1)),
        };
        table.row(Markup::text(&name), producer_cells(producer));
    }
    Some(table.finish())
}

fn producer_cells(producer: &ProducerXray) -> Vec<Cell> {
    let batches = producer.batches.max(1) as f64;
    let closed: Vec<String> = producer
        .triggers
        .iter()
        .filter(|(_, share)| *share >= 0.01)
        .map(|(trigger, share)| format!("{} {}", trigger.name(), quantity::percent(*share)))
        .collect();
    let numbers = [
        quantity::count(producer.batches),
        quantity::significant(producer.records as f64 / batches),
        quantity::bytes((producer.bytes as f64 / batches) as u64),
        producer.linger_ms.map_or(NONE.to_owned(), |linger| format!("{linger}\u{a0}ms")),
        match producer.cap {
            Some(BatchCap::Bytes(limit)) => quantity::bytes(limit),
            Some(BatchCap::Records(limit)) => quantity::counted(limit, "record", "records"),
            None => NONE.to_owned(),
        },
    ];
    let numbers = numbers.iter().map(|text| Cell::number(text));
    numbers.chain([Cell::text(&closed.join(", "))]).collect()
}
