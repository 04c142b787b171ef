//! One load run: its facts, its three latencies, its seconds.

use std::collections::BTreeMap;

use hone_format::{bytes, count, exact, measured, time_us};
use hone_record::{
    AnswerTimes, BUSY_OF_TARGET, BatchSource, Bounds, CPU_OF_TARGET, CatchUp, ClientFacts, Deliveries,
    EndToEnd, Fetches, Hdr, LatencySplit, MemoryCounted, Metric, Outcome, Part, Rebalances, Requirement,
    STALL_FROM_MS, Stalls, TargetBusy, TargetMemory, Transactions, WarmUp, WarmUpEnd, Window,
};

use super::{absent, figure, no_figure, results, seconds, section, xray};
use crate::load::load_text;
use crate::outage;
use crate::plot::series::Track;
use crate::plot::spectrum::{Line, SAMPLES_BEYOND};
use crate::plot::{Stroke, spectrum};
use crate::quantity::{self, NBSP, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup};

/// The section.
pub(crate) fn section_of(window: &Window) -> Element {
    section("run", "What was measured")
        .child(facts(window))
        .children(window.outage.as_ref().map(outage::table))
        .children(seconds::event_table(&[track(window)]))
        .children(latency_table(window))
        .children(required(window))
        .child(latencies(window).detail())
        .children(batch_sizes(window).into_iter().map(Element::detail))
        .child(seconds(window).detail())
        .child(seconds::cores("run-cores", &[(Stroke::B, &window.variant, window)]).detail())
}

/// Rows that explain a result and do not carry it.
const EXPLAINING: [&str; 6] = ["load", "memory", "machine", "warm-up", "times", "batches"];

/// One row for each measured quantity. A quantity without a value has no row.
fn facts(window: &Window) -> Element {
    let facts = &window.facts;
    let load = format!("{}, storage {}", load_text(&window.workload), window.durability.storage);
    let cpu = format!("target {}; generator {}", target(window), generator(window));
    let unread = || {
        Some(format!("not known: {}", window.why_unknown(BUSY_OF_TARGET)?.lines().next().unwrap_or_default()))
    };
    let throttled = facts.throttling.filter(|limit| limit.is_felt());
    let named = |counts: &BTreeMap<String, u64>| {
        let each = counts.iter().map(|(name, times)| format!("{name} {}", count(*times)));
        (!counts.is_empty()).then(|| each.collect::<Vec<_>>().join(", "))
    };
    let rows = [
        ("load", Some(load)),
        ("throughput", Some(throughput(window))),
        ("CPU", Some(cpu)),
        ("busy", facts.target_busy.as_ref().map(|found| busy(window, found)).or_else(unread)),
        ("memory", facts.target_memory.map(|found| format!("target {}", memory(found)))),
        ("machine", Some(machine(window))),
        ("warm-up", facts.warm_up.as_ref().and_then(warm_up)),
        (
            "throttled",
            throttled
                .map(|limit| format!("{}; latencies contain these waits", limit.stopped_words("the target"))),
        ),
        ("records", window.outage.as_ref().map(|outage| outage::records(outage, &window.workload))),
        ("errors", named(&facts.errors)),
        ("retried", named(&facts.retries)),
        ("stalls", facts.stalls.as_ref().and_then(stalls)),
        ("times", facts.answer_times.and_then(answer_times)),
        ("client", window.client.as_ref().map(client)),
        ("batches", batches(window)),
        ("consumers", window.end_to_end.as_ref().map(consumers)),
        ("catch-up", window.end_to_end.as_ref().and_then(|seen| Some(catch_up(&seen.catch_up?, window)))),
        ("fetches", window.end_to_end.as_ref().and_then(|seen| fetches(seen.fetches.as_ref()?, window))),
        (
            "transactions",
            window.end_to_end.as_ref().and_then(|seen| seen.transactions.as_ref()).map(transactions),
        ),
        ("rebalances", window.end_to_end.as_ref().and_then(|seen| Some(rebalances(seen.rebalances?)))),
        ("deliveries", window.end_to_end.as_ref().and_then(|seen| Some(deliveries(seen.deliveries?)))),
        ("latency parts", window.split.as_ref().map(split)),
    ];
    let mut table = Table::facts("Load, throughput and CPU");
    for (name, value) in rows {
        let Some(value) = value else { continue };
        table.fact(name, &value);
        if EXPLAINING.contains(&name) {
            table.explain_last();
        }
    }
    table.finish()
}

/// The rules and their result in the window. `None` when there are none.
fn required(window: &Window) -> Option<Element> {
    if window.requirements.is_empty() {
        return None;
    }
    let columns =
        vec![Column::words("required"), Column::numbers(Markup::text("measured")), Column::words("verdict")];
    let mut table = Table::new("Requirements", columns);
    for rule in &window.requirements {
        let measured = measured_text(rule);
        let why = rule.reason.as_deref().unwrap_or_default();
        let (class, verdict) = match rule.met {
            Some(true) => ("plain", "met".to_owned()),
            Some(false) if why.is_empty() => ("primary", "NOT MET".to_owned()),
            Some(false) => ("primary", format!("NOT MET, {why}")),
            None if why.is_empty() => ("plain", "unknown: not measured".to_owned()),
            None => ("plain", format!("unknown: {why}")),
        };
        table.row_of_class(
            class,
            Markup::text(&rule.rule),
            vec![Cell::number(&measured), Cell::text(&verdict)],
        );
    }
    Some(table.finish())
}

pub(super) fn measured_text(rule: &Requirement) -> String {
    let Some(value) = rule.measured else { return NONE.to_owned() };
    match rule.unit.as_str() {
        "µs" => quantity::time_us(value),
        "share" => quantity::percent(value),
        unit => format!("{}{NBSP}{unit}", quantity::significant(value)),
    }
}

/// Quantiles of the latency table.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// The three latencies, and end to end where consumers read. `None` where the window has no percentiles.
fn latency_table(window: &Window) -> Option<Element> {
    if !matches!(window.outcome, Outcome::Steady | Outcome::Warming { .. })
        || window.workload.engine.operations().is_some()
        || window.workload.is_read_only()
    {
        return None;
    }
    let mut columns = vec![Column::words("latency")];
    columns.extend(
        ["p50", "p90", "p99", "p99.9", "max", "samples"].map(|title| Column::numbers(Markup::text(title))),
    );
    let mut table = Table::new("Latency", columns);
    let latencies = &window.latencies;
    let measured = [
        ("intended to ack", &latencies.intended_to_ack),
        ("sent to ack", &latencies.sent_to_ack),
        ("intended to sent", &latencies.intended_to_sent),
    ];
    // Without acknowledgements, only the third one exists.
    let first = if window.workload.acks == 0 { 2 } else { 0 };
    for (name, histogram) in measured.into_iter().skip(first) {
        table.row(Markup::text(name), quantiles(histogram).iter().map(|text| Cell::number(text)).collect());
    }
    if let Some(seen) = window.end_to_end.as_ref().filter(|_| first == 0) {
        table.row(
            Markup::text("end to end"),
            end_to_end(seen).iter().map(|text| Cell::number(text)).collect(),
        );
    }
    Some(table.finish())
}

fn quantiles(histogram: &Hdr) -> [String; 6] {
    let known = |us: Option<f64>| us.map_or(NONE.to_owned(), quantity::time_us);
    let [p50, p90, p99, p999] =
        QUANTILES.map(|quantile| known(histogram.quantile_us_if_supported(quantile, SAMPLES_BEYOND)));
    [p50, p90, p99, p999, known(histogram.max_us()), count(histogram.count())]
}

/// Like [`quantiles`]. If some requests were not seen by a consumer, a quantile among them is a lower bound.
fn end_to_end(seen: &EndToEnd) -> [String; 6] {
    let text = |bounds: Option<Bounds>| match bounds {
        Some(Bounds { least_us, most_us }) if most_us == Some(least_us) => quantity::time_us(least_us),
        Some(Bounds { least_us, .. }) => format!("≥{NBSP}{}", quantity::time_us(least_us)),
        None => NONE.to_owned(),
    };
    let [p50, p90, p99, p999] = QUANTILES.map(|quantile| text(seen.quantile(quantile, SAMPLES_BEYOND)));
    [p50, p90, p99, p999, text(seen.longest()), count(seen.latency.count())]
}

/// Periods in which requests waited long. `None` when there were none.
fn stalls(stalls: &Stalls) -> Option<String> {
    (stalls.count() > 0).then(|| {
        format!(
            "{} in which requests waited {STALL_FROM_MS} ms or longer: {} s in total, the longest {} s, {} \
             requests",
            count(stalls.count()),
            measured(stalls.total_s()),
            measured(stalls.longest_s()),
            count(stalls.requests())
        )
    })
}

/// The source of the answer times, unless the kernel stamped nearly all of them.
fn answer_times(times: AnswerTimes) -> Option<String> {
    let share = times.stamped_share();
    (share < 0.99).then(|| {
        format!(
            "the kernel stamped {:.1} % of {} answers; the others have the time of the read, up to a \
             millisecond later",
            share * 100.0,
            count(times.answers)
        )
    })
}

/// Rates of the window itself. Answers that arrive after its end are in the histograms only.
fn throughput(window: &Window) -> String {
    let facts = &window.facts;
    if window.workload.engine.operations().is_some() {
        return format!(
            "{} operations/s, {} in {:.3} s",
            measured(facts.reached_requests_per_s),
            count(facts.acked_requests),
            window.duration_s
        );
    }
    if let Some(seen) = window.end_to_end.as_ref().filter(|_| window.workload.is_read_only()) {
        let a_second = |count: u64| count as f64 / window.duration_s.max(1e-9);
        return format!(
            "{} records/s, {}/s fetched in {}",
            measured(a_second(seen.fetched_records)),
            bytes(a_second(seen.fetched_bytes) as u64),
            quantity::duration(window.duration_s)
        );
    }
    let share = facts.reached_requests_per_s / facts.acked_requests.max(1) as f64;
    let done = if window.workload.acks == 0 { "sent" } else { "acknowledged" };
    format!(
        "{} requests/s {done}, {} records/s, {}/s; requested {} requests/s, {} were due",
        measured(facts.reached_requests_per_s),
        measured(facts.acked_records as f64 * share),
        bytes((facts.acked_bytes as f64 * share) as u64),
        exact(window.asked_requests_per_s()),
        count(facts.requests),
    )
}

fn target(window: &Window) -> String {
    let facts = &window.facts;
    let missing = window.why_unknown(CPU_OF_TARGET);
    let Some(cpu) = facts.target_cpu else {
        let why = missing.unwrap_or("its process is not on this machine, or not visible");
        return format!("unknown ({why}; name its process with --pid)");
    };
    let part = missing.map(|missing| format!("; {missing}")).unwrap_or_default();
    if window.records() == 0 {
        return format!("{} in all, no record acknowledged", time_us(cpu.total_s * 1e6));
    }
    let user = cpu
        .user_share
        .map(|share| format!(", {} of it user", hone_format::percent(share)))
        .unwrap_or_default();
    let beyond = window.cpu_us_per_record_beyond_idling().zip(facts.idle_cores);
    let beyond = beyond.map_or_else(String::new, |(us, cores)| {
        format!(", {} µs/record above the {} cores that it uses when idle", measured(us), measured(cores))
    });
    let processes: Vec<&str> =
        window.environment.iter().flat_map(|environment| &environment.measured).map(String::as_str).collect();
    let of = if processes.is_empty() { String::new() } else { format!(", of {}", processes.join(" and ")) };
    let behind: Vec<&str> =
        window.environment.iter().flat_map(|environment| &environment.behind).map(String::as_str).collect();
    let behind = if behind.is_empty() {
        String::new()
    } else {
        format!("; it passes work on to {}, which Hone does NOT measure", behind.join(" and "))
    };
    let per = |count: u64| measured(cpu.total_s * 1e6 / count.max(1) as f64);
    let each = match window.workload.is_read_only() {
        true => format!("{} µs/fetched record", per(window.records())),
        false => format!("{} µs/record, {} µs/request", per(window.records()), per(facts.acked_requests)),
    };
    format!("{each}{user}{beyond}{part}{of}{behind}")
}

/// The result of a warm-up. `None` when it was requested to be short.
fn warm_up(found: &WarmUp) -> Option<String> {
    let fell = found.cpu_us_per_request.map_or(String::new(), |[first, last]| {
        format!("; CPU per request {} at first, {} at the end", time_us(first), time_us(last))
    });
    let compiling = found.compiling_share.map_or(String::new(), |share| {
        format!("; JIT compilation used {} of the CPU", hone_format::percent(share))
    });
    let took = format!("{} requests in {} s", count(found.requests), measured(found.took_s));
    match found.end {
        WarmUpEnd::Steady => Some(format!("{took}, then steady{fell}{compiling}")),
        WarmUpEnd::Limit => {
            Some(format!("{took}, NOT steady at the limit (--warmup-limit){fell}{compiling}"))
        }
        WarmUpEnd::TooShort => None,
    }
}

/// `target 41.2 µs/record, 0.18 cores by redpanda_cpu_busy_seconds_total (2 series)`.
fn busy(window: &Window, busy: &TargetBusy) -> String {
    let per_record = window.value(Metric::BusyPerRecord).map_or_else(
        || format!("{} in all", time_us(busy.busy_s * 1e6)),
        |us| format!("{} µs/record", measured(us)),
    );
    let handlers = busy
        .handlers_idle_share
        .map_or(String::new(), |share| format!("; request handlers idle {}", hone_format::percent(share)));
    format!(
        "target {per_record}, {} cores by {} ({} series{}){handlers}",
        measured(busy.busy_s / busy.over_s),
        busy.counter,
        busy.series,
        if busy.reading_s > 0.01 * busy.busy_s {
            format!("; excluding {} for one reading", time_us(busy.reading_s * 1e6))
        } else {
            String::new()
        }
    )
}

fn memory(memory: TargetMemory) -> String {
    let mean = memory.mean_bytes.map_or(String::new(), |mean| format!(", {} mean", bytes(mean as u64)));
    let how = match memory.counted {
        MemoryCounted::Resident | MemoryCounted::AtExit => "",
        MemoryCounted::Proportional => " (proportional set size of all processes)",
        MemoryCounted::ResidentSum => " (resident sets of all processes: shared pages count for each)",
    };
    format!("{} peak{mean}{how}", bytes(memory.peak_bytes))
}

fn generator(window: &Window) -> String {
    let per = |count: u64| measured(window.facts.generator_cpu.total_s * 1e6 / count.max(1) as f64);
    match window.workload.is_read_only() {
        true => format!("{} µs/fetched record", per(window.records())),
        false => format!("{} µs/request", per(window.facts.requests)),
    }
}

fn machine(window: &Window) -> String {
    let mut words = format!(
        "{:.0} % of all cores used by others, {:.1} % stolen",
        window.facts.others_share * 100.0,
        window.facts.steal_share * 100.0
    );
    let pressure = window.environment.as_ref().map(|environment| &environment.pressure);
    let waited: Vec<String> = pressure
        .into_iter()
        .flatten()
        .filter(|(_, share)| **share >= 0.005)
        .map(|(resource, share)| format!("{resource} {:.0} %", share * 100.0))
        .collect();
    if !waited.is_empty() {
        words += &format!("; tasks waited for {} of the time", waited.join(", "));
    }
    words
}

/// The effective batch, if it is an output. A wire engine's own frames have the requested size.
fn batches(window: &Window) -> Option<String> {
    let topics: Vec<String> = window
        .batches
        .iter()
        .filter(|topic| topic.batches > 0)
        .map(|topic| {
            let batches = topic.batches as f64;
            let seen = match topic.seen_share {
                share if share < 0.995 => format!(" (of {} that were read)", hone_format::percent(share)),
                _ => String::new(),
            };
            format!(
                "{} records, {} each{seen}",
                measured(topic.records as f64 / batches),
                bytes((topic.bytes as f64 / batches) as u64)
            )
        })
        .collect();
    (!topics.is_empty()).then(|| topics.join("; "))
}

/// The distribution of the batch sizes of each topic, if batches are an output.
fn batch_sizes(window: &Window) -> Vec<Element> {
    let fetched =
        window.batches.iter().filter(|topic| topic.source == BatchSource::Fetched && topic.batches > 0);
    let drawn = fetched.enumerate().map(|(index, topic)| {
        xray::distribution(&format!("run-batches-{}", index + 1), &topic.topic, &topic.sizes)
    });
    drawn.collect()
}

/// The client and those of its settings that shape batches. The record contains all settings.
fn client(client: &ClientFacts) -> String {
    const SHAPE: [&str; 4] =
        ["linger.ms", "batch.size", "partitioner", "max.in.flight.requests.per.connection"];
    let shape = SHAPE.iter().filter_map(|key| Some(format!("{key} {}", client.settings.get(*key)?)));
    std::iter::once(client.software.clone()).chain(shape).collect::<Vec<_>>().join(", ")
}

/// How long the records from before the window took, with their rate.
fn catch_up(seen: &CatchUp, window: &Window) -> String {
    let records = quantity::counted(seen.records, "record", "records");
    let Some(took_s) = seen.took_s else {
        return format!("not done: {records} from before the window, after {} s", exact(window.duration_s));
    };
    let rate = measured(seen.records as f64 / took_s.max(1e-9));
    format!("{records} from before the window in {}, {rate} a second", quantity::duration(took_s))
}

/// Fetch requests: their rate and size, and how many brought nothing. `None` without an answer.
fn fetches(fetches: &Fetches, window: &Window) -> Option<String> {
    let empty = fetches.empty_share()?;
    let size = match fetches.mean_bytes() {
        Some(bytes) => format!(", {} each", quantity::bytes(bytes as u64)),
        None => String::new(),
    };
    let each_s = fetches.answered as f64 / window.duration_s.max(1e-9);
    let p50 = fetches.latency.quantile_us_if_supported(0.5, SAMPLES_BEYOND);
    let took =
        p50.map(|p50| format!("; answered after {} (p50)", quantity::time_us(p50))).unwrap_or_default();
    Some(format!("{} a second{size}, {} without data{took}", measured(each_s), quantity::percent(empty)))
}

fn consumers(seen: &EndToEnd) -> String {
    let missing = match seen.missing {
        0 => String::new(),
        missing => format!(", {} acknowledged requests not seen", count(missing)),
    };
    let group = match (seen.is_group, seen.more_groups) {
        (false, _) => String::new(),
        (true, 0) => " in a group".to_owned(),
        (true, more) => format!(" in {} groups", more + 1),
    };
    let at = |name: &str, records: Option<u64>| records.map(|records| format!("{} {name}", count(records)));
    let lags = [
        at("(p50)", seen.lag_records_p50),
        at("(p99)", seen.lag_records_p99),
        at("(max)", Some(seen.lag_records_max)),
        at("at the end", seen.lag_records_end),
    ];
    let lags: Vec<String> = lags.into_iter().flatten().collect();
    format!(
        "{}{group} read {} records; lag in records: {}{missing}",
        seen.consumers,
        count(seen.fetched_records),
        lags.join(", ")
    )
}

/// The processors' transactions, and how long they took.
fn transactions(found: &Transactions) -> String {
    let at = |times: &Hdr, quantile: f64, name: &str| {
        let us = times.quantile_us_if_supported(quantile, SAMPLES_BEYOND)?;
        Some(format!("{} ({name})", quantity::time_us(us)))
    };
    let commit = [at(&found.commit, 0.5, "p50"), at(&found.commit, 0.99, "p99")];
    let commit: Vec<String> = commit.into_iter().flatten().collect();
    let took = at(&found.length, 0.5, "p50").map(|length| {
        format!("; each took {length} from its first record on, its commit {}", commit.join(", "))
    });
    format!(
        "{} committed, {} aborted, {}{}",
        count(found.committed),
        count(found.aborted),
        quantity::counted(found.records, "record", "records"),
        took.unwrap_or_default()
    )
}

/// How often and how long partitions had no reader.
fn rebalances(found: Rebalances) -> String {
    match found.count {
        0 => "none in the window".to_owned(),
        count => format!(
            "{}; partitions without a reader for {} in total, {} at most",
            quantity::count(count),
            quantity::duration(found.unread_s),
            quantity::duration(found.unread_s_max)
        ),
    }
}

/// What a share group's records went through.
fn deliveries(found: Deliveries) -> String {
    let again = match found.again {
        0 => "each record once".to_owned(),
        again => format!(
            "{} came again, up to {}",
            quantity::counted(again, "record", "records"),
            quantity::counted(found.most, "time", "times")
        ),
    };
    match found.refused {
        0 => again,
        refused => {
            format!("{again}; {} refused", quantity::counted(refused, "acknowledgement", "acknowledgements"))
        }
    }
}

fn split(split: &LatencySplit) -> String {
    let part = |name: &str, part: Option<Part>| {
        let part = part?;
        let tail = part.us_p99.map(|us| format!(" (p99 {})", time_us(us))).unwrap_or_default();
        Some(format!("{name} {}{tail}", time_us(part.us_p50)))
    };
    let parts = [
        part("client queue", split.client_queue),
        part("network", split.network),
        part("broker", split.broker),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn latencies(window: &Window) -> Element {
    let title = "Latency by percentile";
    if !matches!(window.outcome, Outcome::Steady) {
        return no_figure(
            title,
            "The window is not steady. Its percentiles would measure the length of the window, not the \
             target.",
        );
    }
    if window.workload.engine.operations().is_some() {
        return no_figure(
            title,
            "A command that counts its operations reports no latency for single operations.",
        );
    }
    let line = |stroke, label: &str, histogram: &hone_record::Hdr| Line {
        stroke,
        label: label.to_owned(),
        histogram: histogram.clone(),
    };
    let mut lines = vec![
        line(Stroke::B, "intended to ack: the wait of a client", &window.latencies.intended_to_ack),
        line(Stroke::A, "sent to ack: the time of the service", &window.latencies.sent_to_ack),
        line(Stroke::C, "intended to sent: how late the generator was", &window.latencies.intended_to_sent),
    ];
    if let Some(seen) = &window.end_to_end {
        lines.push(line(Stroke::D, "intended to consumer: end to end", &seen.latency));
    }
    let Some(plot) = spectrum::plot("run-spectrum", title, &lines) else {
        return no_figure(title, "Nothing was acknowledged, so there is no latency to draw.");
    };
    let caption = format!(
        "Latency counts from the scheduled time, so a stall shows in every request that it delayed. The line \
         is faint where fewer than {SAMPLES_BEYOND} samples lie beyond."
    );
    figure(title, Some(results::key(&lines)), plot, &caption, Some(results::spectrum_numbers(title, &lines)))
}

fn seconds(window: &Window) -> Element {
    let title = "Second by second";
    let caption = "A second in which nothing was acknowledged leaves a gap.";
    let drawn = seconds::seconds("run-series", title, &[track(window)], caption, false);
    drawn.unwrap_or_else(|| no_figure(title, "The window holds no time series."))
}

fn track(window: &Window) -> Track<'_> {
    Track::new(Stroke::B, &window.variant, window)
}

/// A sentence for a window that ended before it measured anything.
pub(crate) fn remark(window: &Window) -> Option<Element> {
    (window.facts.requests == 0 && !window.workload.is_read_only())
        .then(|| absent("No request was due in this window."))
}
