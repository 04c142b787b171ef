//! One load run: its facts, its three latencies, its seconds.

use std::collections::BTreeMap;

use hone_record::{BatchSource, CpuSeconds, MemoryCounted, Metric, Outcome, TargetMemory, Window};

use super::{absent, figure, no_figure, results, section};
use crate::plot::spectrum::{Line, SAMPLES_BEYOND};
use crate::plot::{Stroke, legend, series, spectrum};
use crate::quantity::{self, NBSP, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup};

/// The section.
pub(crate) fn of(window: &Window) -> Element {
    section("run", "What was measured")
        .children(required(window))
        .child(facts(window))
        .child(latencies(window))
        .child(seconds(window).detail())
        .children(happened(window))
        .children(consumers(window))
        .children(batches(window))
        .children(split(window))
}

/// The rules and what the window said to them; `None` without any.
fn required(window: &Window) -> Option<Element> {
    if window.requirements.is_empty() {
        return None;
    }
    let columns =
        vec![Column::words("required"), Column::numbers(Markup::text("measured")), Column::words("")];
    let mut table = Table::new("What was required", columns);
    for rule in &window.requirements {
        let measured = rule.measured.map_or(NONE.to_owned(), |value| measured_words(value, &rule.unit));
        let why = rule.reason.as_deref().unwrap_or_default();
        let (class, verdict) = match rule.met {
            Some(true) => ("plain", "met".to_owned()),
            Some(false) if why.is_empty() => ("primary", "not met".to_owned()),
            Some(false) => ("primary", format!("not met: {why}")),
            None => ("plain", format!("can’t be told: {why}")),
        };
        table.row_of_class(
            class,
            Markup::text(&rule.rule),
            vec![Cell::number(&measured), Cell::text(&verdict)],
        );
    }
    Some(table.finish())
}

fn measured_words(value: f64, unit: &str) -> String {
    match unit {
        "µs" => quantity::time_us(value),
        "share" => quantity::percent(value),
        unit => format!("{}{NBSP}{unit}", quantity::significant(value)),
    }
}

/// What happened, numbered as in the plot; `None` when nothing did.
fn happened(window: &Window) -> Option<Element> {
    if window.events.is_empty() {
        return None;
    }
    let columns = vec![Column::words("event"), Column::numbers(Markup::text("at")), Column::words("what")];
    let mut table = Table::new("What happened", columns).remark("Numbered as in the plot.");
    for (index, event) in window.events.iter().enumerate() {
        let at = format!("{:.1}{NBSP}s", event.at_s);
        table.row(Markup::text(&(index + 1).to_string()), vec![Cell::number(&at), Cell::text(&event.what)]);
    }
    Some(table.finish())
}

fn consumers(window: &Window) -> Option<Element> {
    let seen = window.end_to_end.as_ref()?;
    let mut table = Table::facts("What consumers saw");
    table.fact("consumers, each of which reads everything", &quantity::count(u64::from(seen.consumers)));
    table.fact("records fetched, over all of them", &quantity::count(seen.fetched_records));
    table.fact("batch bytes fetched", &quantity::bytes(seen.fetched_bytes));
    let missing = match seen.missing {
        0 => "acknowledged requests not seen",
        _ => {
            "acknowledged requests not seen (end to end, each counts as the time it had waited: the least it can be)"
        }
    };
    table.fact(missing, &quantity::count(seen.missing));
    table.fact("most records behind", &quantity::count(seen.lag_records_max));
    Some(table.finish())
}

fn batches(window: &Window) -> Option<Element> {
    if window.batches.is_empty() {
        return None;
    }
    let number = |title: &str| Column::numbers(Markup::text(title));
    let columns = vec![
        Column::words("topic"),
        number("batches"),
        number("records each"),
        number("bytes each"),
        Column::words("known from"),
    ];
    let mut table = Table::new("The effective batch", columns)
        .remark("What was really written, not what was configured.");
    for topic in &window.batches {
        let each = |total: u64| total as f64 / topic.batches.max(1) as f64;
        let source = match topic.source {
            BatchSource::OwnFrames => "the generator’s own requests".to_owned(),
            BatchSource::Fetched => {
                format!("batch headers read back ({} of them)", quantity::percent(topic.seen_share))
            }
        };
        let cells = vec![
            Cell::number(&quantity::count(topic.batches)),
            Cell::number(&quantity::significant(each(topic.records))),
            Cell::number(&quantity::bytes(each(topic.bytes) as u64)),
            Cell::text(&source),
        ];
        table.row(Markup::text(&topic.topic), cells);
    }
    Some(table.finish())
}

fn split(window: &Window) -> Option<Element> {
    let split = window.split.as_ref()?;
    let number = |title: &str| Column::numbers(Markup::text(title));
    let columns = vec![Column::words("part"), number("p50"), number("p99")];
    let mut table = Table::new("Where the time went", columns)
        .remark(&format!("{} Percentiles of parts can’t be added up.", split.how));
    for (name, part) in
        [("client queue", split.client_queue), ("network", split.network), ("broker", split.broker)]
    {
        let Some(part) = part else { continue };
        let tail = part.us_p99.map_or(NONE.to_owned(), quantity::time_us);
        table.row(
            Markup::text(name),
            vec![Cell::number(&quantity::time_us(part.us_p50)), Cell::number(&tail)],
        );
    }
    Some(table.finish())
}

fn facts(window: &Window) -> Element {
    let facts = &window.facts;
    let mut table = Table::facts("Counts, rates and CPU");
    let rate = |value: &str| format!("{value}{NBSP}requests/s");
    table.fact("asked for", &rate(&quantity::plain(window.asked_requests_per_s())));
    table.fact("reached", &rate(&quantity::significant(facts.reached_requests_per_s)));
    table.fact("requests due", &quantity::count(facts.requests));
    table.fact("requests acknowledged", &quantity::count(facts.acked_requests));
    table.fact("records acknowledged", &quantity::count(facts.acked_records));
    table.fact("batch bytes acknowledged", &quantity::bytes(facts.acked_bytes));
    table.fact("errors", &named(&facts.errors));
    if !facts.retries.is_empty() {
        table.fact("sent again after", &named(&facts.retries));
    }
    if let Some(times) = facts.answer_times {
        table.fact("answers with the kernel's time", &quantity::percent(times.stamped_share()));
    }
    for metric in [Metric::CpuPerRecord, Metric::UserCpuPerRecord, Metric::CpuPerRequest] {
        let value = window.value(metric).map_or_else(|| no_cpu(window).to_owned(), quantity::time_us);
        table.fact(metric.label(), &value);
    }
    if let (Some(cores), Some(us)) = (facts.idle_cores, window.cpu_us_per_record_beyond_idling()) {
        table.fact("taken idle, before the window", &format!("{}{NBSP}cores", quantity::significant(cores)));
        table.fact("CPU per record beyond that", &quantity::time_us(us));
    }
    table.fact("target's CPU", &facts.target_cpu.map_or("not known".to_owned(), cpu));
    if let Some(busy) = &facts.target_busy {
        let us = window.value(Metric::BusyPerRecord).map_or_else(|| NONE.to_owned(), quantity::time_us);
        table.fact(Metric::BusyPerRecord.label(), &format!("{us} ({})", busy.counter));
    }
    table.fact("target's memory", &facts.target_memory.map_or("not known".to_owned(), memory));
    if let Some(limit) = facts.throttling {
        table.fact("CPU limit", &limit.stopped_words("the target"));
    }
    table.fact("generator's CPU", &cpu(facts.generator_cpu));
    table.fact("stolen by the hypervisor", &format!("{} of all cores", quantity::percent(facts.steal_share)));
    table.fact("used by everybody else", &format!("{} of all cores", quantity::percent(facts.others_share)));
    table.finish()
}

fn no_cpu(window: &Window) -> &'static str {
    match (&window.outcome, window.facts.target_cpu) {
        (Outcome::Steady, None) => "not known: the target's process is not on this machine or not named",
        (Outcome::Steady, Some(_)) => "not known: too little CPU time to tell",
        _ => "not told: the window is not steady",
    }
}

fn named(counts: &BTreeMap<String, u64>) -> String {
    let each = |(name, count): (&String, &u64)| format!("{name}: {}", quantity::count(*count));
    let all: Vec<String> = counts.iter().map(each).collect();
    if all.is_empty() { "none".to_owned() } else { all.join(", ") }
}

fn cpu(cpu: CpuSeconds) -> String {
    let total = quantity::duration(cpu.total_s);
    cpu.user_share
        .map_or(total.clone(), |share| format!("{total}, {} of it user code", quantity::percent(share)))
}

/// `812 MiB at most, 790 MiB on average (resident set)`.
fn memory(memory: TargetMemory) -> String {
    let mean = memory
        .mean_bytes
        .map_or(String::new(), |mean| format!(", {} on average", quantity::bytes(mean as u64)));
    let how = match memory.counted {
        MemoryCounted::Resident | MemoryCounted::AtExit => "resident set",
        MemoryCounted::Proportional => "proportional set of all processes",
        MemoryCounted::ResidentSum => "resident sets of all processes; shared pages count for each",
    };
    format!("{} at most{mean} ({how})", quantity::bytes(memory.peak_bytes))
}

fn latencies(window: &Window) -> Element {
    let title = "Latency by percentile";
    if !matches!(window.outcome, Outcome::Steady) {
        return no_figure(
            title,
            "The window is not steady: its percentiles would measure the length of the window and not the target.",
        );
    }
    if window.workload.engine.operations().is_some() {
        return no_figure(title, "A command that counts its operations tells the latency of none of them.");
    }
    let line = |stroke, label: &str, histogram: &hone_record::Hdr| Line {
        stroke,
        label: label.to_owned(),
        histogram: histogram.clone(),
    };
    let mut lines = vec![
        line(Stroke::B, "intended to ack: what a client waits", &window.latencies.intended_to_ack),
        line(Stroke::A, "sent to ack: what the service takes", &window.latencies.sent_to_ack),
        line(Stroke::C, "intended to sent: how late the generator was", &window.latencies.intended_to_sent),
    ];
    if let Some(seen) = &window.end_to_end {
        lines.push(line(Stroke::D, "intended to consumer: end to end", &seen.latency));
    }
    let Some(plot) = spectrum::plot("run-spectrum", title, &lines) else {
        return no_figure(title, "Nothing was acknowledged, so there is no latency to draw.");
    };
    let caption = format!(
        "Latency counts from the time the schedule asked for, so a stall is seen by every request it held up. \
         The line is faint where fewer than {SAMPLES_BEYOND} samples lie beyond."
    );
    figure(title, Some(results::key(&lines)), plot, &caption, Some(results::spectrum_numbers(title, &lines)))
}

fn seconds(window: &Window) -> Element {
    let title = "Second by second";
    let track = [series::Track { stroke: Stroke::B, label: window.variant.clone(), points: &window.series }];
    let Some(plot) = series::plot("run-series", title, &track, &window.events) else {
        return no_figure(title, "The window holds no time series.");
    };
    let entries = [(Stroke::B, window.variant.clone())];
    let caption = match window.events.is_empty() {
        true => "A second in which nothing was acknowledged leaves a gap.",
        false => {
            "A second in which nothing was acknowledged leaves a gap. The numbered lines are what happened, listed below."
        }
    };
    figure(title, Some(legend(&entries)), plot, caption, Some(results::series_numbers(title, &track)))
}

/// A sentence for a window that broke off before it measured anything.
pub(crate) fn remark(window: &Window) -> Option<Element> {
    (window.facts.requests == 0).then(|| absent("No request was due in this window."))
}
