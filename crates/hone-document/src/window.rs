//! One load as text.

use hone_compare::why_it_does_not_count;
use hone_format::{bytes, count, exact, measured, time_us};
use hone_record::{
    AnswerTimes, Bounds, ClientFacts, EndToEnd, Engine, Hdr, Keys, LatencySplit, MemoryCounted, Metric,
    Outcome, Part, Payload, Requirement, STALL_FROM_MS, Schedule, Sizes, Stalls, TargetBusy, TargetMemory,
    WarmUp, WarmUpEnd, Window, Workload,
};

use crate::table::table;
use hone_experiment::meter;
use hone_experiment::require::measured_words;
use hone_experiment::targets::CPU_OF_TARGET;

/// The whole account of a window.
pub fn text(window: &Window) -> String {
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
    let memory = facts.target_memory.map(|memory| format!("memory      target {}", memory_words(memory)));
    let at_cpu = 4;
    let busy = facts.target_busy.as_ref().map(|busy| format!("busy        {}", busy_words(window, busy)));
    let unread = meter::why_unread(window)
        .map(|why| format!("busy        not known: {}", why.lines().next().unwrap_or_default()));
    lines.splice(at_cpu..at_cpu, busy.or(unread).into_iter().chain(memory));
    lines.extend(facts.warm_up.as_ref().and_then(warm_up_words));
    let felt = facts.throttling.filter(|limit| limit.is_felt());
    lines.extend(felt.map(|limit| {
        format!("throttled   {}; latencies contain these waits", limit.stopped_words("the target"))
    }));
    for (title, counts) in [("errors", &facts.errors), ("retried", &facts.retries)] {
        if !counts.is_empty() {
            let each: Vec<String> =
                counts.iter().map(|(name, times)| format!("{name} {}", count(*times))).collect();
            lines.push(format!("{title:<11} {}", each.join(", ")));
        }
    }
    lines.extend(facts.stalls.as_ref().and_then(stall_words));
    lines.extend(facts.answer_times.and_then(answer_time_words));
    lines.extend(event_lines(window));
    lines.extend(window.client.as_ref().map(|client| format!("client      {}", client_words(client))));
    lines.extend(batch_words(window).map(|words| format!("batches     {words}")));
    lines.extend(window.end_to_end.as_ref().map(|seen| format!("consumers   {}", consumer_words(seen))));
    lines.extend(window.split.as_ref().map(|split| format!("of latency  {}", split_words(split))));
    let latencies = match window.outcome {
        Outcome::Steady | Outcome::Warming { .. } => format!("\n{}", latency_table(window)),
        _ => String::new(),
    };
    format!("{}\n{latencies}{}", lines.join("\n"), requirement_table(&window.requirements))
}

/// Stretches in which requests waited long, where there were any.
fn stall_words(stalls: &Stalls) -> Option<String> {
    (stalls.count() > 0).then(|| {
        format!(
            "stalls      {} in which requests waited {STALL_FROM_MS} ms or longer: {} s together, the longest {} s, {} requests",
            count(stalls.count()),
            measured(stalls.total_s()),
            measured(stalls.longest_s()),
            count(stalls.requests())
        )
    })
}

/// How the times of the answers are known, where it is not the kernel that tells nearly all of them.
fn answer_time_words(times: AnswerTimes) -> Option<String> {
    let share = times.stamped_share();
    (share < 0.99).then(|| {
        format!(
            "times       the kernel stamped {:.1} % of {} answers; the others have the time at which they were read, up to \
             a millisecond later",
            share * 100.0,
            count(times.answers)
        )
    })
}

/// A line for each rule; empty without any.
fn requirement_table(requirements: &[Requirement]) -> String {
    if requirements.is_empty() {
        return String::new();
    }
    let head = ["required", "measured"].map(str::to_owned).to_vec();
    let row = |requirement: &Requirement| vec![requirement.rule.clone(), measured_words(requirement)];
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(requirements.iter().map(row)).collect();
    let verdict = |requirement: &Requirement| match (requirement.met, &requirement.reason) {
        (Some(true), _) => "met".to_owned(),
        (Some(false), None) => "NOT MET".to_owned(),
        (Some(false), Some(reason)) => format!("NOT MET, {reason}"),
        (None, reason) => format!("can't be told: {}", reason.as_deref().unwrap_or("not measured")),
    };
    let verdicts = std::iter::once(String::new()).chain(requirements.iter().map(verdict));
    let table = table(&rows);
    let lines = table.lines().zip(verdicts).map(|(line, verdict)| format!("{line}   {verdict}"));
    format!("\n{}\n", lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n"))
}

/// The load in words.
pub fn load_words(workload: &Workload) -> String {
    let operations = count(workload.engine.operations().unwrap_or_default());
    match &workload.engine {
        Engine::Tool { command, .. } => return format!("{operations} operations of `{}`", command.join(" ")),
        Engine::Exits { arguments, .. } => {
            return format!("{operations} operations of the target with `{}`", arguments.join(" "));
        }
        Engine::Wire | Engine::Librdkafka { .. } | Engine::Command { .. } => {}
    }
    let acks = hone_format::acks(workload.acks);
    let records = match &workload.payload {
        Payload::Bytes { .. } => size_words(workload),
        Payload::Json { shape } => format!("{} ({shape})", size_words(workload)),
        // How long they are is known when the file has been read.
        Payload::File { path, sha256 } if sha256.is_empty() => format!("lines of {path}"),
        Payload::File { path, .. } => format!("about {} B (lines of {path})", workload.record_bytes),
    };
    let (what, connections) = if workload.engine == Engine::Wire {
        let count = u64::from(workload.records_per_batch) * u64::from(workload.partitions_per_request);
        (format!("requests/s of {count} ×"), "connections")
    } else {
        ("records/s of".to_owned(), "producers")
    };
    format!(
        "{} {what} {records}{}, {} for {} s, {} {connections}, acks={acks}",
        exact(workload.requests_per_s),
        key_words(workload.keys),
        schedule_words(&workload.schedule),
        workload.duration_s,
        workload.connections,
    )
}

/// What kind of records a load has, where a few words must do.
pub fn record_words(workload: &Workload) -> String {
    match &workload.payload {
        Payload::File { path, sha256 } if sha256.is_empty() => format!("the lines of {path}"),
        _ => format!("{} bytes", workload.record_bytes),
    }
}

fn size_words(workload: &Workload) -> String {
    match workload.sizes {
        Sizes::Fixed => format!("{} B", workload.record_bytes),
        Sizes::Uniform { least_bytes, most_bytes } => format!("{least_bytes}-{most_bytes} B"),
        Sizes::LogNormal { sigma } => format!("about {} B (log-normal, σ {sigma})", workload.record_bytes),
    }
}

fn key_words(keys: Keys) -> String {
    match keys {
        Keys::None => String::new(),
        Keys::Uniform { distinct } => format!(", {} keys", count(distinct)),
        Keys::Zipf { distinct, exponent } => format!(", {} keys (zipf {exponent})", count(distinct)),
    }
}

fn schedule_words(schedule: &Schedule) -> String {
    match schedule {
        Schedule::Uniform => "uniform".to_owned(),
        Schedule::Poisson => "Poisson".to_owned(),
        Schedule::Bursts { every_ms } => format!("in bursts every {} ms", exact(*every_ms)),
        Schedule::Ramp { to_requests_per_s } => format!("ramp to {}/s", exact(*to_requests_per_s)),
        Schedule::Steps { requests_per_s } => {
            let rates: Vec<String> = requests_per_s.iter().map(|rate| exact(*rate)).collect();
            format!("in steps of {}/s", rates.join(", "))
        }
        Schedule::Climb(climb) => {
            format!("climbing to {}/s, until {} breaks", exact(climb.to_requests_per_s), climb.slo.label())
        }
        Schedule::Replay { source, arrivals, .. } => {
            format!("replay of {source} ({} times)", count(*arrivals))
        }
    }
}

/// Rates of the window itself; what was answered while it was drained is in the histograms only.
fn throughput_words(window: &Window) -> String {
    let facts = &window.facts;
    if window.workload.engine.operations().is_some() {
        return format!(
            "throughput  {} operations/s, {} in {:.3} s",
            measured(facts.reached_requests_per_s),
            count(facts.acked_requests),
            window.duration_s
        );
    }
    let share = facts.reached_requests_per_s / facts.acked_requests.max(1) as f64;
    let done = if window.workload.acks == 0 { "sent" } else { "acknowledged" };
    format!(
        "throughput  {} requests/s {done}, {} records/s, {}/s; asked {} requests/s, {} were due",
        measured(facts.reached_requests_per_s),
        measured(facts.acked_records as f64 * share),
        bytes((facts.acked_bytes as f64 * share) as u64),
        exact(window.asked_requests_per_s()),
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
            count(*backlog_requests)
        ),
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => format!(
            "the generator could not keep its schedule (p99 {} late, limit {}): the run failed, not the target. Ask \
             for fewer requests per second, or give the generator a core of its own",
            time_us(*lateness_us_p99),
            time_us(*limit_us)
        ),
        Outcome::Warming { cpu_us_per_record: [first, last], compiling_share } => format!(
            "still warming up: CPU per record went from {} to {} in the window{}. Warm up longer: raise --warmup-limit or --warmup",
            time_us(*first),
            time_us(*last),
            compiling_share.map_or(String::new(), |share| format!(
                ", and JIT compilation used {} of the CPU",
                hone_format::percent(share)
            ))
        ),
        Outcome::Failed { reason } => format!("failed: {reason}"),
    }
}

fn target_words(window: &Window) -> String {
    let facts = &window.facts;
    let unknown = window.environment.iter().flat_map(|environment| &environment.unknown);
    let missing = unknown.filter_map(|told| told.strip_prefix(CPU_OF_TARGET)).next();
    let Some(cpu) = facts.target_cpu else {
        let why = missing.unwrap_or("its process is not on this machine, or not visible");
        return format!("not known ({why}; name its process with --pid)");
    };
    let part = missing.map(|missing| format!("; {missing}")).unwrap_or_default();
    if facts.acked_records == 0 {
        return format!("{} in all, no record acknowledged", time_us(cpu.total_s * 1e6));
    }
    let user = cpu
        .user_share
        .map(|share| format!(", {} of it user", hone_format::percent(share)))
        .unwrap_or_default();
    let beyond = window.cpu_us_per_record_beyond_idling().zip(facts.idle_cores);
    let beyond = beyond.map_or_else(String::new, |(us, cores)| {
        format!(", {} µs/record beyond the {} cores that it takes idle", measured(us), measured(cores))
    });
    let processes: Vec<&str> =
        window.environment.iter().flat_map(|environment| &environment.measured).map(String::as_str).collect();
    let of = if processes.is_empty() { String::new() } else { format!(", of {}", processes.join(" and ")) };
    let behind: Vec<&str> =
        window.environment.iter().flat_map(|environment| &environment.behind).map(String::as_str).collect();
    let behind = if behind.is_empty() {
        String::new()
    } else {
        format!("; it passes work on to {}, which Hone does NOT count", behind.join(" and "))
    };
    format!(
        "{} µs/record, {} µs/request{user}{beyond}{part}{of}{behind}",
        measured(cpu.total_s * 1e6 / facts.acked_records.max(1) as f64),
        measured(cpu.total_s * 1e6 / facts.acked_requests.max(1) as f64),
    )
}

/// What a warm-up came to; nothing of one that was asked to be short.
fn warm_up_words(found: &WarmUp) -> Option<String> {
    let fell = found.cpu_us_per_request.map_or(String::new(), |[first, last]| {
        format!("; CPU per request {} at first, {} at the end", time_us(first), time_us(last))
    });
    let compiling = found.compiling_share.map_or(String::new(), |share| {
        format!("; JIT compilation used {} of the CPU", hone_format::percent(share))
    });
    let took = format!("{} requests in {} s", count(found.requests), measured(found.took_s));
    match found.end {
        WarmUpEnd::Steady => Some(format!("warm-up     {took}, then steady{fell}{compiling}")),
        WarmUpEnd::Limit => {
            Some(format!("warm-up     {took}, NOT steady at the limit (--warmup-limit){fell}{compiling}"))
        }
        WarmUpEnd::TooShort => None,
    }
}

/// `target 41.2 µs/record, 0.18 cores by redpanda_cpu_busy_seconds_total (2 series)`.
fn busy_words(window: &Window, busy: &TargetBusy) -> String {
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
            format!("; less {} that one reading costs", time_us(busy.reading_s * 1e6))
        } else {
            String::new()
        }
    )
}

fn memory_words(memory: TargetMemory) -> String {
    let mean = memory.mean_bytes.map_or(String::new(), |mean| format!(", {} mean", bytes(mean as u64)));
    let how = match memory.counted {
        MemoryCounted::Resident | MemoryCounted::AtExit => "",
        MemoryCounted::Proportional => " (proportional set size of all processes)",
        MemoryCounted::ResidentSum => " (resident sets of all processes: shared pages count for each)",
    };
    format!("{} peak{mean}{how}", bytes(memory.peak_bytes))
}

fn generator_words(window: &Window) -> String {
    let per_request = window.facts.generator_cpu.total_s * 1e6 / window.facts.requests.max(1) as f64;
    format!("{} µs/request", measured(per_request))
}

fn machine_words(window: &Window) -> String {
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

/// Events in a row hide what began them: the first ones are told.
const EVENTS_TOLD: usize = 5;

fn event_lines(window: &Window) -> Vec<String> {
    let told = window.events.iter().take(EVENTS_TOLD);
    let mut lines: Vec<String> =
        told.map(|event| format!("at {:>6.1} s {}", event.at_s, event.what)).collect();
    if let Some(more) = window.events.len().checked_sub(EVENTS_TOLD).filter(|more| *more > 0) {
        lines.push(format!("            and {more} more; all are in the record"));
    }
    lines
}

/// The effective batch, where it is an output: a wire engine's own frames are as they were asked for.
fn batch_words(window: &Window) -> Option<String> {
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

/// The client and what of it shapes batches; the record has all of its settings.
fn client_words(client: &ClientFacts) -> String {
    const SHAPE: [&str; 4] =
        ["linger.ms", "batch.size", "partitioner", "max.in.flight.requests.per.connection"];
    let shape = SHAPE.iter().filter_map(|key| Some(format!("{key} {}", client.settings.get(*key)?)));
    std::iter::once(client.software.clone()).chain(shape).collect::<Vec<_>>().join(", ")
}

fn consumer_words(seen: &EndToEnd) -> String {
    let missing = match seen.missing {
        0 => String::new(),
        missing => format!(", {} acknowledged requests not seen", count(missing)),
    };
    let group = if seen.is_group { " in a group" } else { "" };
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

fn split_words(split: &LatencySplit) -> String {
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

/// Those of a latency that are told, each with so many samples beyond it.
const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
const BEYOND: u64 = 10;

fn latency_table(window: &Window) -> String {
    let head = ["latency", "p50", "p90", "p99", "p99.9", "max", "samples"].map(str::to_owned).to_vec();
    let row = |name: &str, hdr: &Hdr| {
        let tail = |quantile| hdr.quantile_us_if_supported(quantile, BEYOND).map_or("-".to_owned(), time_us);
        let max = hdr.max_us().map_or("-".to_owned(), time_us);
        latency_row(name, QUANTILES.map(tail), max, hdr.count())
    };
    let latencies = &window.latencies;
    if window.workload.acks == 0 {
        return table(&[head, row("intended to sent", &latencies.intended_to_sent)]);
    }
    let mut rows = vec![
        head,
        row("intended to ack", &latencies.intended_to_ack),
        row("sent to ack", &latencies.sent_to_ack),
        row("intended to sent", &latencies.intended_to_sent),
    ];
    rows.extend(window.end_to_end.as_ref().map(end_to_end_row));
    table(&rows)
}

/// As the others, but what lies among the missing is at least what it says.
fn end_to_end_row(seen: &EndToEnd) -> Vec<String> {
    let words = |bounds: Option<Bounds>| match bounds {
        Some(Bounds { least_us, most_us }) if most_us == Some(least_us) => time_us(least_us),
        Some(Bounds { least_us, .. }) => format!("≥ {}", time_us(least_us)),
        None => "-".to_owned(),
    };
    let tail = |quantile| words(seen.quantile(quantile, BEYOND));
    latency_row("end to end", QUANTILES.map(tail), words(seen.longest()), seen.latency.count())
}

fn latency_row(name: &str, tails: [String; 4], max: String, samples: u64) -> Vec<String> {
    std::iter::once(name.to_owned()).chain(tails).chain([max, count(samples)]).collect()
}

#[cfg(test)]
mod tests {
    use hone_experiment::fixture::{end_to_end, window};

    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn answers_without_the_kernels_time_are_told() {
        let mut window = window();
        window.facts.answer_times = Some(AnswerTimes { answers: 1_000, stamped: 995 });
        assert!(!text(&window).contains("stamped"));
        let other = AnswerTimes { answers: 1_000, stamped: 5 };
        window.facts.answer_times = window.facts.answer_times.map(|times| times.and(other));
        assert!(text(&window).contains("the kernel stamped 50.0 % of 2,000 answers"), "{}", text(&window));
    }

    #[test]
    fn stalls_stand_with_the_facts_where_there_were_any() {
        let mut window = window();
        let mut stalls = Stalls::default();
        window.facts.stalls = Some(stalls.clone());
        assert!(!text(&window).contains("stalls"));
        stalls.ended(0, 975_000_000);
        window.facts.stalls = Some(stalls);
        let told = "stalls      1 in which requests waited 100 ms or longer: 0.975 s together, the longest 0.975 s, 1 requests";
        assert!(text(&window).contains(told), "{}", text(&window));
    }

    #[test]
    fn what_a_target_takes_idle_is_told_apart_where_somebody_looked() {
        let mut window = window();
        window.facts.target_cpu = Some(hone_record::CpuSeconds { total_s: 0.5, user_share: None });
        assert_eq!(target_words(&window), "250 µs/record, 500 µs/request");
        window.facts.idle_cores = Some(0.02);
        let expected =
            "250 µs/record, 500 µs/request, 150 µs/record beyond the 0.0200 cores that it takes idle";
        assert_eq!(target_words(&window), expected);
        // It was busier before than under the load: nothing is left, and nothing is below that.
        window.facts.idle_cores = Some(0.2);
        assert_eq!(window.cpu_us_per_record_beyond_idling(), Some(0.0));
    }

    #[test]
    fn what_was_asked_is_what_this_window_was_asked_for() {
        let mut window = window();
        // A quarter of a load that four generators send.
        window.workload.requests_per_s = 400_000.0;
        window.facts.asked_requests_per_s = 100_000.0;
        let words = throughput_words(&window);
        assert!(words.ends_with("; asked 100,000 requests/s, 1,000 were due"), "{words}");
        window.workload.requests_per_s = 1_010.0 / window.duration_s;
        assert_eq!(window.asked_requests_per_s(), window.workload.requests_per_s, "a draw of it");
    }

    #[test]
    fn the_size_of_a_file_s_lines_is_told_when_it_is_known() {
        let workload = window().workload;
        let lines = |sha256: &str, record_bytes| Workload {
            payload: Payload::File { path: "docs".to_owned(), sha256: sha256.to_owned() },
            record_bytes,
            ..workload.clone()
        };
        let (before, after) = (lines("", 100), lines("ab", 10_000));
        assert!(load_words(&before).contains("requests/s of 1 × lines of docs, 10 keys"), "{before:?}");
        assert!(load_words(&after).contains("requests/s of 1 × about 10000 B (lines of docs), 10 keys"));
        assert_eq!((&*record_words(&before), &*record_words(&after)), ("the lines of docs", "10000 bytes"));
    }

    #[test]
    fn a_record_of_impossible_numbers_can_be_shown() {
        let most =
            Workload { records_per_batch: u32::MAX, partitions_per_request: u32::MAX, ..window().workload };
        assert!(load_words(&most).contains("requests/s of 18446744065119617025 × 100 B"));
    }

    #[test]
    fn a_latency_among_what_never_came_is_told_as_a_lower_bound() {
        let row = ["end to end", "500 µs", "900 µs", "≥ 1.00 s", "-", "≥ 1.00 s", "1,000"];
        assert_eq!(end_to_end_row(&end_to_end()), row);
        assert!(
            consumer_words(&end_to_end())
                .ends_with("lag in records: 15 (max), 15 acknowledged requests not seen")
        );
    }

    #[test]
    fn what_happened_stands_before_the_figures() {
        let mut window = window();
        window.facts.errors = BTreeMap::from([("timeout".to_owned(), 3)]);
        window.requirements = ["p50<1ms", "p99.9<1ms", "throughput>500"]
            .map(|text| text.parse::<hone_experiment::require::Rule>().unwrap().judge(&window))
            .to_vec();
        let text = text(&window);
        for expected in [
            "1 × 100 B, 10 keys (zipf 1), Poisson",
            "errors      timeout 3\n",
            "  p50 < 1.00 ms          500 µs   met\n",
            "  p99.9 < 1.00 ms             -   can't be told: too few samples: 1,000, needed 10,000\n",
            "  throughput > 500/s      101/s   NOT MET\n",
        ] {
            assert!(text.contains(expected), "no `{expected}` in:\n{text}");
        }
    }
}
