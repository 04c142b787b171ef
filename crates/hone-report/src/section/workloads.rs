//! The loads in columns, with their differences marked.

use hone_record::{Comparison, Engine, Keys, Payload, Schedule, Sizes, Workload};

use super::{paragraph, section};
use crate::quantity::{self, NBSP};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Training next to judging loads.
pub(crate) fn side_by_side(training: &Workload, judging: &[&Workload]) -> Element {
    let all: Vec<&Workload> = std::iter::once(training).chain(judging.iter().copied()).collect();
    let mut heads = vec![Column::words("property"), head("training", &training.name)];
    heads.extend(judging.iter().map(|workload| head("judging", &workload.name)));
    let mut table = Table::new("Training and judging workload", heads)
        .remark("≠ marks what differs from the training workload.")
        .class("scroll workloads");
    for (name, read) in properties(&all) {
        property(&mut table, name, *read, &all);
    }
    for key in topic_keys(&all) {
        let value =
            |workload: &Workload| workload.topic_config.get(&key).cloned().unwrap_or_else(|| "–".to_owned());
        property(&mut table, &format!("topic {key}"), value, &all);
    }
    let same = judging.iter().any(|workload| loads_alike(training, workload));
    let section = section("workloads", "Training and judging loads").detail();
    let section = if same { section.child(warning()) } else { section };
    section.child(table.finish())
}

/// The loads of these comparisons. `None` without a load.
pub(crate) fn judging(comparisons: &[Comparison]) -> Option<Element> {
    let tables = comparisons.iter().map(|comparison| facts(&comparison.workload.name, &comparison.workload));
    match comparisons {
        [] => None,
        [only] => Some(alone(&only.workload)),
        _ => Some(section("workloads", "The workloads").detail().children(tables)),
    }
}

/// One load alone.
pub(crate) fn alone(workload: &Workload) -> Element {
    section("workload", "The workload").detail().child(facts("What was sent", workload))
}

fn facts(title: &str, workload: &Workload) -> Element {
    let mut table = Table::facts(title);
    for (name, read) in properties(&[workload]) {
        table.fact(name, &read(workload));
    }
    for (key, value) in &workload.topic_config {
        table.fact(&format!("topic {key}"), value);
    }
    table.finish()
}

fn warning() -> Element {
    paragraph(
        "Training and judging used the same load: the figures say nothing about a load that the profile has \
         not seen.",
    )
    .class("warning")
}

fn head(role: &str, name: &str) -> Column {
    Column::words_of(Markup::text(name).with(el("span").class("small").text(role)))
}

type Reading = fn(&Workload) -> String;

/// The properties of these loads. Scheduled requests have other properties than counted operations.
fn properties(all: &[&Workload]) -> impl Iterator<Item = &'static (&'static str, Reading)> + use<> {
    let counted = |workload: &&Workload| workload.engine.operations().is_some();
    let (operations, requests) = (all.iter().any(counted), !all.iter().all(counted));
    let of_requests = PROPERTIES.iter().filter(move |_| requests);
    COMMON.iter().chain(OPERATIONS.iter().filter(move |_| operations)).chain(of_requests)
}

const COMMON: &[(&str, Reading)] = &[("sent by", |w| engine(&w.engine)), ("seed", |w| w.seed.to_string())];

const OPERATIONS: &[(&str, Reading)] = &[
    ("operations", |w| w.engine.operations().map_or_else(|| "–".to_owned(), quantity::count)),
    ("filled by", |w| match &w.engine {
        Engine::Tool { populate, .. } => once(populate.as_deref()),
        _ => once(None),
    }),
    ("warmed by", |w| match &w.engine {
        Engine::Tool { warmup, .. } => once(warmup.as_deref()),
        _ => once(None),
    }),
];

/// A command that runs once for each start of a target.
fn once(command: Option<&[String]>) -> String {
    command.map_or_else(|| "–".to_owned(), |words| words.join(" "))
}

const PROPERTIES: &[(&str, Reading)] = &[
    ("arrivals", |w| schedule(&w.schedule)),
    ("offered requests/s", |w| quantity::plain(w.requests_per_s)),
    ("records per batch", |w| quantity::count(u64::from(w.records_per_batch))),
    ("size of a value", size),
    ("keys", |w| keys(w.keys)),
    ("contents", |w| payload(&w.payload)),
    ("compression", |w| w.compression.clone()),
    ("connections", |w| quantity::count(u64::from(w.connections))),
    ("in flight per connection, at most", |w| quantity::count(u64::from(w.in_flight))),
    ("partitions", |w| {
        let each = quantity::count(u64::from(w.partitions));
        crate::load::topics(w).map_or_else(|| each.clone(), |topics| format!("{each} in each of {topics}"))
    }),
    ("partitions per request", |w| quantity::count(u64::from(w.partitions_per_request))),
    ("acks", |w| hone_format::acks(w.acks)),
    ("idempotent", |w| if w.idempotent { "yes" } else { "no" }.to_owned()),
    ("consumers", |w| quantity::count(u64::from(w.consumers))),
    ("warm-up requests", |w| quantity::count(w.warmup_requests)),
    ("window", |w| seconds(w.duration_s)),
    ("time-out", |w| seconds(w.timeout_s)),
];

fn engine(engine: &Engine) -> String {
    let set = |settings: &std::collections::BTreeMap<String, String>| {
        settings.iter().map(|(name, value)| format!(", {name}={value}")).collect::<String>()
    };
    match engine {
        Engine::Wire => "Hone’s own frames".to_owned(),
        Engine::Librdkafka { settings } => format!("librdkafka{}", set(settings)),
        Engine::Command { command, settings } => format!("{}{}", command.join(" "), set(settings)),
        Engine::Tool { command, .. } => command.join(" "),
        Engine::Exits { arguments, .. } => format!("the target itself: {}", arguments.join(" ")),
    }
}

fn size(workload: &Workload) -> String {
    let whole = |bytes: u32| format!("{}{NBSP}B", quantity::count(u64::from(bytes)));
    let mean = whole(workload.record_bytes);
    if let Payload::File { sha256, .. } = &workload.payload {
        // The length of the lines is known once the file has been read.
        return if sha256.is_empty() {
            "the length of each line".to_owned()
        } else {
            format!("{mean} on average")
        };
    }
    match workload.sizes {
        Sizes::Fixed => mean,
        Sizes::Uniform { least_bytes, most_bytes } => {
            format!("{} to {}, evenly", quantity::count(u64::from(least_bytes)), whole(most_bytes))
        }
        Sizes::LogNormal { sigma } => format!("about {mean}, log-normal with σ {}", quantity::plain(sigma)),
    }
}

fn keys(keys: Keys) -> String {
    match keys {
        Keys::None => "none".to_owned(),
        Keys::Uniform { distinct } => format!("{}, equally likely", quantity::count(distinct)),
        Keys::Zipf { distinct, exponent } => {
            format!("{}, zipf with exponent {}", quantity::count(distinct), quantity::plain(exponent))
        }
    }
}

fn schedule(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Uniform => "uniform".to_owned(),
        Schedule::Poisson => "Poisson".to_owned(),
        Schedule::Bursts { every_ms } => format!("bursts every {}{NBSP}ms", quantity::plain(*every_ms)),
        Schedule::Ramp { to_requests_per_s } => {
            format!("ramp to {}", quantity::plain(*to_requests_per_s))
        }
        Schedule::Steps { requests_per_s } => {
            let steps: Vec<String> = requests_per_s.iter().map(|rate| quantity::plain(*rate)).collect();
            format!("steps {}", steps.join(", "))
        }
        Schedule::Climb(climb) => {
            format!(
                "climb to {}, until {} breaks",
                quantity::plain(climb.to_requests_per_s),
                climb.slo.label()
            )
        }
        Schedule::Replay { source, arrivals, .. } => {
            format!("replay of {} arrivals from {source}", quantity::count(*arrivals))
        }
    }
}

fn payload(payload: &Payload) -> String {
    match payload {
        Payload::Bytes { compressible_share } => {
            format!("bytes, {}{NBSP}compressible", quantity::percent(*compressible_share))
        }
        Payload::Json { shape } => format!("JSON, {shape}"),
        Payload::File { path, .. } => format!("lines of {path}"),
    }
}

/// A time that a person chose, without the digits of a measurement.
fn seconds(seconds: f64) -> String {
    format!("{}{NBSP}s", quantity::plain(seconds))
}

fn topic_keys(all: &[&Workload]) -> Vec<String> {
    let mut keys: Vec<String> =
        all.iter().flat_map(|workload| workload.topic_config.keys().cloned()).collect();
    keys.sort();
    keys.dedup();
    keys
}

fn property(table: &mut Table, name: &str, read: impl Fn(&Workload) -> String, all: &[&Workload]) {
    let values: Vec<String> = all.iter().map(|workload| read(workload)).collect();
    let trained_with = values.first().cloned().unwrap_or_default();
    let cell = |value: &String| {
        if *value == trained_with {
            Cell::text(value)
        } else {
            Cell::words(el("strong").text(&format!("≠{NBSP}{value}")))
        }
    };
    table.row(Markup::text(name), values.iter().map(cell).collect());
}

/// Whether two loads send the same. The name, the length and the rate may differ.
fn loads_alike(left: &Workload, right: &Workload) -> bool {
    let as_many = right.engine.operations().and_then(|operations| left.with_operations(operations));
    let left = as_many.as_ref().unwrap_or(left);
    let neutral = Workload {
        name: right.name.clone(),
        requests_per_s: right.requests_per_s,
        warmup_requests: right.warmup_requests,
        duration_s: right.duration_s,
        timeout_s: right.timeout_s,
        ..left.clone()
    };
    neutral == *right
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn differences_are_marked_and_only_they() {
        let training = sample::workload("train");
        let judging = Workload { record_bytes: 999, ..sample::workload("judge") };
        let html = Markup::from(side_by_side(&training, &[&judging])).into_string().replace(NBSP, " ");
        assert_eq!(html.matches("<strong>≠").count(), 1);
        assert!(html.contains("<strong>≠ 999 B</strong>"));
        assert!(!html.contains("same load"));
    }

    #[test]
    fn the_lines_of_a_file_have_their_mean_size_when_it_was_read() {
        let lines = |sha256: &str| Workload {
            payload: Payload::File { path: "docs".to_owned(), sha256: sha256.to_owned() },
            record_bytes: 999,
            ..sample::workload("w")
        };
        assert_eq!(size(&lines("")), "the length of each line");
        assert_eq!(size(&lines("ab")).replace(NBSP, " "), "999 B on average");
    }

    #[test]
    fn counted_operations_are_described_by_what_counts_them() {
        let of = |command: &str, operations| {
            let engine = Engine::Tool {
                command: command.split(' ').map(str::to_owned).collect(),
                operations,
                populate: None,
                warmup: Some(vec!["warm".to_owned()]),
            };
            Workload::of_operations("w", engine)
        };
        let (training, judging) =
            (of("bench -n {operations} -t set", 7_000), of("bench -n {operations} -t get", 5_000));
        let html = Markup::from(side_by_side(&training, &[&judging])).into_string().replace(NBSP, " ");
        for told in ["bench -n {operations} -t set", "<strong>≠ 5", "warm"] {
            assert!(html.contains(told), "{told}: {html}");
        }
        assert!(!html.contains("partitions") && !html.contains("acks"), "{html}");
        assert!(loads_alike(&training, &of("bench -n {operations} -t set", 9)), "only longer");
        assert!(!loads_alike(&training, &judging));
        // Beside a load of requests, both are described.
        let html = Markup::from(side_by_side(&training, &[&sample::workload("judge")])).into_string();
        assert!(html.contains("operations") && html.contains("partitions"), "{html}");
    }

    #[test]
    fn the_same_load_under_another_name_is_called_out() {
        let training = sample::workload("train");
        let judging = Workload { duration_s: 99.0, ..sample::workload("judge") };
        let html = Markup::from(side_by_side(&training, &[&judging])).into_string();
        assert!(html.contains("Training and judging used the same load"));
    }
}
