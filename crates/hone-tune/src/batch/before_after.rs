//! A topic at two times.

use hone_format::{count, measured};
use hone_record::{Sampled, TopicXray};

use crate::batch::live::BeforeAfter;
use hone_document::table::table;
use hone_document::wrapped;

/// Both looks in a table, and their limits.
pub fn text(found: &BeforeAfter) -> String {
    let changes = if found.changes.is_empty() { "a change".to_owned() } else { found.changes.join("; ") };
    let mut out = format!("{} before and after {changes}\n\n{}", found.before.topic, table(&rows(found)));
    found.limits.iter().for_each(|limit| out.push_str(&format!("\n{}\n", wrapped(limit))));
    out
}

fn rows(found: &BeforeAfter) -> Vec<Vec<String>> {
    let both = [&found.before, &found.after];
    let row = |name: &str, cell: &dyn Fn(&TopicXray) -> Option<String>| {
        let cells = both.iter().map(|topic| cell(topic).unwrap_or_else(|| "not known".to_owned()));
        std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
    };
    vec![
        ["", "before", "after"].map(str::to_owned).to_vec(),
        row("bytes per batch", &|topic| topic.mean_bytes.map(mean)),
        row("records per batch", &|topic| topic.mean_records.map(mean)),
        row("median bytes of a batch", &|topic| Some(count(topic.size_bytes?.p50))),
        row("span, ms, p99", &|topic| Some(count(topic.span_ms?.p99))),
        row("batches/s", &|topic| topic.batches_per_s.map(measured)),
        row("records/s", &|topic| topic.records_per_s.map(measured)),
        row("headers, % of the bytes", &|topic| Some(measured(topic.header_share * 100.0))),
        row("batches read", &|topic| Some(count(topic.batches))),
    ]
}

fn mean(sampled: Sampled) -> String {
    match sampled.interval {
        Some((low, high)) => format!("{} [{}, {}]", measured(sampled.value), measured(low), measured(high)),
        None => measured(sampled.value),
    }
}
