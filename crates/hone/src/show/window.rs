//! One load as text.

use hone_record::{Event, EventKind, Hdr, Outcome, Payload, Schedule, Window, Workload};

use super::table::table;
use super::{bytes, count, number, span_us};
use crate::drive::why_it_does_not_count;

/// So many events are shown.
const EVENTS_SHOWN: usize = 12;

/// The whole account of a window.
pub(crate) fn text(window: &Window) -> String {
    let facts = &window.facts;
    let mut lines = vec![
        format!(
            "{} at {}: {}, storage {}",
            window.variant,
            window.address,
            load_words(&window.workload),
            window.durability.storage
        ),
        format!("outcome     {}", outcome_words(window)),
        throughput_words(window),
        format!("CPU         target {}; generator {}", target_words(window), generator_words(window)),
        format!("machine     {}", machine_words(window)),
    ];
    if !facts.errors.is_empty() {
        let errors: Vec<String> =
            facts.errors.iter().map(|(name, times)| format!("{name} {}", count(*times))).collect();
        lines.push(format!("errors      {}", errors.join(", ")));
    }
    if !facts.retries.is_empty() {
        let retries: Vec<String> =
            facts.retries.iter().map(|(name, times)| format!("{name} {}", count(*times))).collect();
        lines.push(format!("sent again  {}", retries.join(", ")));
    }
    lines.extend(event_lines(&window.events));
    let latencies = match window.outcome {
        Outcome::Steady => format!("\n{}", latency_table(window)),
        _ => String::new(),
    };
    format!("{}\n{latencies}", lines.join("\n"))
}

/// What happened on the way, the first few of it.
fn event_lines(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| {
        format!("event       {:.2} s: {} ({})", event.at_s, event_words(event.kind), event.what)
    };
    let mut lines: Vec<String> = events.iter().take(EVENTS_SHOWN).map(line).collect();
    if events.len() > EVENTS_SHOWN {
        lines.push(format!(
            "            and {} more events, in the record",
            count((events.len() - EVENTS_SHOWN) as u64)
        ));
    }
    lines
}

fn event_words(kind: EventKind) -> &'static str {
    match kind {
        EventKind::ConnectionLost => "connection lost",
        EventKind::Reconnected => "connected again",
        EventKind::LeaderMoved => "leader moved",
        EventKind::TopicDeleted => "topic deleted",
        EventKind::RecordingFailed => "recording failed",
        EventKind::Interrupted => "interrupted",
    }
}

/// The load in words.
pub(crate) fn load_words(workload: &Workload) -> String {
    let acks = if workload.acks == -1 { "all".to_owned() } else { workload.acks.to_string() };
    let payload = match &workload.payload {
        Payload::Bytes { .. } => String::new(),
        Payload::Json { shape } => format!(" ({shape})"),
        Payload::File { path, .. } => format!(" (lines of {path})"),
    };
    format!(
        "{} requests/s of {} × {} B{payload}, {} for {} s, {} connections, acks={acks}",
        number(workload.requests_per_s),
        workload.records_per_batch * workload.partitions_per_request,
        workload.record_bytes,
        schedule_words(&workload.schedule),
        workload.duration_s,
        workload.connections,
    )
}

fn schedule_words(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Uniform => "uniform".to_owned(),
        Schedule::Poisson => "Poisson".to_owned(),
        Schedule::Bursts { every_ms } => format!("in bursts every {} ms", number(*every_ms)),
        Schedule::Ramp { to_requests_per_s } => format!("ramp to {}/s", number(*to_requests_per_s)),
        Schedule::Steps { requests_per_s } => format!("{} steps", requests_per_s.len()),
        Schedule::Replay { source, .. } => format!("replay of {source}"),
    }
}

/// Rates of the window itself; what was answered while it was drained is in the histograms only.
fn throughput_words(window: &Window) -> String {
    let facts = &window.facts;
    let share = facts.reached_requests_per_s / facts.acked_requests.max(1) as f64;
    let done = if window.workload.acks == 0 { "sent" } else { "acknowledged" };
    format!(
        "throughput  {} requests/s {done}, {} records/s, {}/s; asked {} requests/s, {} were due",
        number(facts.reached_requests_per_s),
        number(facts.acked_records as f64 * share),
        bytes((facts.acked_bytes as f64 * share) as u64),
        number(window.workload.requests_per_s),
        count(facts.requests),
    )
}

fn outcome_words(window: &Window) -> String {
    match &window.outcome {
        Outcome::Steady => match why_it_does_not_count(window) {
            None => "steady: the target kept up".to_owned(),
            Some(reason) => format!("steady, but {reason}; a comparison would not count this window"),
        },
        Outcome::Saturated { backlog_requests } => format!(
            "saturated: the backlog only grew, to {} requests; percentiles would only measure the length of the run. \
             Ask for fewer requests per second",
            number(*backlog_requests as f64)
        ),
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => format!(
            "the generator could not keep its schedule (p99 {} late, limit {}): the run failed, not the target. Ask \
             for fewer requests per second, or give the generator a core of its own",
            span_us(*lateness_us_p99),
            span_us(*limit_us)
        ),
        Outcome::Failed { reason } => format!("failed: {reason}"),
    }
}

fn target_words(window: &Window) -> String {
    let facts = &window.facts;
    let Some(cpu) = facts.target_cpu else {
        return "not known (its process is not on this machine, or not visible; name it with --pid)"
            .to_owned();
    };
    if facts.acked_records == 0 {
        return format!("{} in all, no record acknowledged", span_us(cpu.total_s * 1e6));
    }
    let user = cpu.user_share.map(|share| format!(", {:.0} % of it user", share * 100.0)).unwrap_or_default();
    format!(
        "{} µs/record, {} µs/request{user}",
        number(cpu.total_s * 1e6 / facts.acked_records.max(1) as f64),
        number(cpu.total_s * 1e6 / facts.acked_requests.max(1) as f64),
    )
}

fn generator_words(window: &Window) -> String {
    let per_request = window.facts.generator_cpu.total_s * 1e6 / window.facts.requests.max(1) as f64;
    format!("{} µs/request", number(per_request))
}

fn machine_words(window: &Window) -> String {
    format!(
        "{:.0} % of all cores used by others, {:.1} % stolen",
        window.facts.others_share * 100.0,
        window.facts.steal_share * 100.0
    )
}

fn latency_table(window: &Window) -> String {
    let head = ["latency", "p50", "p90", "p99", "p99.9", "max", "samples"].map(str::to_owned).to_vec();
    let row = |name: &str, hdr: &Hdr| {
        let tail = |quantile| hdr.quantile_us_if_supported(quantile, 10).map_or("-".to_owned(), span_us);
        vec![
            name.to_owned(),
            tail(0.5),
            tail(0.9),
            tail(0.99),
            tail(0.999),
            hdr.max_us().map_or("-".to_owned(), span_us),
            count(hdr.count()),
        ]
    };
    let latencies = &window.latencies;
    if window.workload.acks == 0 {
        return table(&[head, row("intended to sent", &latencies.intended_to_sent)]);
    }
    table(&[
        head,
        row("intended to ack", &latencies.intended_to_ack),
        row("sent to ack", &latencies.sent_to_ack),
        row("intended to sent", &latencies.intended_to_sent),
    ])
}
