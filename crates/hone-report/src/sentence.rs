//! Verdicts, controls and outcomes as sentences. Every figure comes from the estimate, and every claim from the verdict.

use hone_record::{
    Comparison, Durability, EndToEnd, Estimate, Judgement, Metric, Mode, Outcome, PairKind, Verdict, Window,
};

use crate::outage;
use crate::quantity::{self, NBSP};

/// The metric inside a sentence, named for the load of the comparison: `p50 latency`, `CPU per record`, `CPU per operation`.
pub(crate) fn noun(comparison: &Comparison, metric: Metric) -> &'static str {
    if comparison.workload.engine.operations().is_some() {
        match metric {
            Metric::Throughput => return "operations per second",
            Metric::CpuPerRecord | Metric::CpuPerRequest | Metric::UserCpuPerRecord => {
                return metric.label_in_operations();
            }
            _ => {}
        }
    }
    match metric {
        Metric::CpuPerRecord => "CPU per record",
        Metric::CpuPerRequest => "CPU per request",
        Metric::UserCpuPerRecord => "user CPU per record",
        Metric::BusyPerRecord => "busy time per record",
        Metric::LatencyP50 => "p50 latency",
        Metric::LatencyP90 => "p90 latency",
        Metric::LatencyP99 => "p99 latency",
        Metric::LatencyP999 => "p99.9 latency",
        Metric::LatencyMax => "largest latency",
        Metric::EndToEndP50 => "end-to-end p50 latency",
        Metric::EndToEndP99 => "end-to-end p99 latency",
        Metric::Throughput => "requests per second",
        Metric::Capacity => "capacity",
        Metric::MemoryPeak => "peak memory",
        Metric::MemoryMean => "mean memory",
        Metric::Instructions => "instructions per operation",
    }
}

/// Whether ratio and interval are positive and finite, so that they can be shown as percent.
pub(crate) fn is_sound(estimate: &Estimate) -> bool {
    [estimate.ratio, estimate.low, estimate.high].iter().all(|value| value.is_finite() && *value > 0.0)
}

/// Confidence level of an interval, as `95 %`.
pub(crate) fn confidence(estimate: &Estimate) -> String {
    quantity::chosen_percent(estimate.confidence)
}

/// Confidence level of the primary metric's interval, or of the others. `None` without an estimate.
pub(crate) fn level(comparison: &Comparison, primary: bool) -> Option<String> {
    let judgement = comparison.judgements.iter().find(|judgement| judgement.primary == primary)?;
    Some(confidence(&judgement.estimate))
}

/// The intervals of a comparison with their confidence levels, for a legend.
pub(crate) fn intervals(comparison: &Comparison) -> String {
    match (level(comparison, true), level(comparison, false)) {
        (Some(primary), Some(other)) if primary != other => {
            format!("confidence interval: {primary} (primary), {other} (others)")
        }
        (Some(all), _) | (None, Some(all)) => format!("{all} confidence interval"),
        (None, None) => "confidence interval".to_owned(),
    }
}

/// The mode's name.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Duet => "duet",
        Mode::Solo => "solo",
    }
}

/// The other metrics by verdict, regressions first. `None` when there are none.
pub(crate) fn beside(comparison: &Comparison) -> Option<String> {
    let groups = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::NotShown];
    let parts: Vec<String> = groups.into_iter().filter_map(|verdict| group(comparison, verdict)).collect();
    (!parts.is_empty()).then(|| format!("Other metrics – {}.", parts.join("; ")))
}

/// The other metrics that are worse, with their changes.
pub(crate) fn worse(comparison: &Comparison) -> Option<String> {
    Some(format!("Other metrics – {}.", group(comparison, Verdict::Worse)?))
}

fn group(comparison: &Comparison, verdict: Verdict) -> Option<String> {
    let names: Vec<String> = comparison
        .judgements
        .iter()
        .filter(|judgement| !judgement.primary && judgement.verdict == verdict)
        .map(|judgement| named(comparison, judgement, verdict))
        .collect();
    (!names.is_empty()).then(|| format!("{}: {}", verdict.label(), names.join(", ")))
}

fn named(comparison: &Comparison, judgement: &Judgement, verdict: Verdict) -> String {
    let noun = noun(comparison, judgement.estimate.metric);
    let has_change = matches!(verdict, Verdict::Better | Verdict::Worse) && is_sound(&judgement.estimate);
    if has_change {
        format!("{noun} ({})", quantity::change(judgement.estimate.ratio))
    } else {
        noun.to_owned()
    }
}

/// The result of the A/A control of the primary metric.
pub(crate) fn control(comparison: &Comparison) -> String {
    let Some(judgement) = comparison.primary() else {
        return "There is no estimate, so there is nothing to compare with the A/A control.".to_owned();
    };
    let Some(control) = judgement.control.as_ref().filter(|control| is_sound(control)) else {
        return without_control(comparison);
    };
    let noun = noun(comparison, control.metric);
    let pairs = quantity::counted(u64::from(control.pairs), "A/A pair", "A/A pairs");
    let figures = format!(
        "{} (ratio {}, {} CI {} to {}, {pairs})",
        quantity::change(control.ratio),
        quantity::ratio(control.ratio),
        confidence(control),
        quantity::ratio(control.low),
        quantity::ratio(control.high),
    );
    let a = &comparison.a;
    let margin = comparison.design.rule.equivalence;
    if control.low <= 1.0 && control.high >= 1.0 {
        let hides = if may_hide(control, &judgement.estimate) {
            " The control is wider than that effect: it could hide a bias as large as the effect."
        } else {
            ""
        };
        format!("The A/A control shows no difference: two arms of {a} differ by {figures} in {noun}.{hides}")
    } else if control.ratio.ln().abs() <= (1.0 + margin).ln() {
        format!(
            "The A/A control shows a difference within the margin of ±{}: two arms of {a} differ by \
             {figures} in {noun}.",
            quantity::chosen_percent(margin)
        )
    } else {
        format!(
            "The A/A control shows a difference beyond the margin: two arms of {a} differ by {figures} in \
             {noun}. This run can't detect effects of that size."
        )
    }
}

/// Says how many control pairs are usable, if they are too few for a control of the primary metric.
fn without_control(comparison: &Comparison) -> String {
    let controls = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Control);
    let counted = controls().filter(|pair| pair.dropped.is_none()).count() as u64;
    let known = "the bias between the arms is unknown.";
    match (controls().count(), counted) {
        (0, _) if comparison.design.control_pairs == 0 => format!("No A/A control was requested: {known}"),
        (_, 0) => format!("No A/A pair is usable: {known}"),
        (measured, counted) => format!(
            "{} of {measured} are usable, too few for an A/A control of this metric: {known}",
            quantity::counted(counted, "A/A pair", "A/A pairs")
        ),
    }
}

/// Whether the interval of a control without a difference extends further from 1 than the effect.
fn may_hide(control: &Estimate, effect: &Estimate) -> bool {
    let reach = control.high.ln().max(-control.low.ln());
    is_sound(effect) && reach > effect.ratio.ln().abs()
}

/// How a window ended. Faults come first: the user asked what they do.
pub(crate) fn outcome(window: &Window) -> String {
    match &window.outage {
        Some(outage) => format!("{} {}", outage::sentences(outage, &window.workload), end_of(window)),
        None => end_of(window),
    }
}

/// How a window ended, in one sentence. If the target is not the cause, the sentence adds what to do.
fn end_of(window: &Window) -> String {
    let facts = &window.facts;
    let asked = quantity::plain(window.asked_requests_per_s());
    let reached = quantity::significant(facts.reached_requests_per_s);
    match &window.outcome {
        Outcome::Steady => match window.why_excluded() {
            None => steady(window, &asked, &reached),
            Some(reason) => {
                let steady = steady(window, &asked, &reached);
                format!("{steady} But {reason}, so a comparison excludes this window.")
            }
        },
        Outcome::Saturated { backlog_requests } => format!(
            "Saturated: the backlog kept growing. {} of {asked}{NBSP}requests/s were acknowledged, and {} \
             were waiting at the end. Percentiles would only measure the length of the window. Lower the \
             request rate.",
            reached,
            quantity::counted(*backlog_requests, "request", "requests"),
        ),
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => format!(
            "Not measured: the generator fell behind its schedule (p99 {} late, limit {}). The run failed, \
             not the target. Lower the request rate, or give the generator a core of its own.",
            quantity::time_us(*lateness_us_p99),
            quantity::time_us(*limit_us),
        ),
        Outcome::Warming { cpu_us_per_record: [first, last], compiling_share } => format!(
            "Still warming up: CPU per record changed from {} to {} within the window{}. Warm up longer: \
             raise --warmup-limit or --warmup.",
            quantity::time_us(*first),
            quantity::time_us(*last),
            compiling_share.map_or(String::new(), |share| format!(
                ", and JIT compilation used {} of the CPU",
                quantity::percent(share)
            ))
        ),
        Outcome::Failed { reason } => format!("Failed: {}.", reason.trim_end_matches('.')),
    }
}

/// A window that sends nothing: whether its consumers caught up, and how fast they read.
fn only_read(window: &Window, seen: &EndToEnd) -> String {
    let per_s = seen.fetched_records as f64 / window.duration_s.max(1e-9);
    let rate = format!("{}{NBSP}records/s", quantity::significant(per_s));
    match seen.catch_up.and_then(|catch_up| Some((catch_up.records, catch_up.took_s?))) {
        Some((records, took_s)) => {
            let records = quantity::counted(records, "record", "records");
            format!("Caught up: {records} in {}, {rate}.", quantity::duration(took_s))
        }
        None => format!("Not caught up within {}: {rate}.", quantity::duration(window.duration_s)),
    }
}

fn steady(window: &Window, asked: &str, reached: &str) -> String {
    if let Some(operations) = window.workload.engine.operations() {
        return format!(
            "Done: {} at {reached}{NBSP}operations/s.",
            quantity::counted(operations, "operation", "operations")
        );
    }
    if let Some(seen) = window.end_to_end.as_ref().filter(|_| window.workload.is_read_only()) {
        return only_read(window, seen);
    }
    let latencies: Vec<String> = [Metric::LatencyP50, Metric::LatencyP99]
        .into_iter()
        .filter_map(|metric| Some(format!("{} {}", metric.label(), quantity::time_us(window.value(metric)?))))
        .collect();
    let tail = if latencies.is_empty() { String::new() } else { format!("; {}", latencies.join(", ")) };
    // A shortfall below the three digits that are shown is none.
    let missed = 1.0 - window.facts.reached_requests_per_s / window.asked_requests_per_s();
    if missed < 0.005 {
        return format!("Steady: all {asked}{NBSP}requests/s were acknowledged{tail}.");
    }
    format!("Steady: {reached} of {asked}{NBSP}requests/s were acknowledged{tail}.")
}

/// The durability class in one sentence. `None` when the load has no acks (operations) and the target states no storage.
pub(crate) fn durability(durability: &Durability, has_acks: bool) -> Option<String> {
    let acks = match durability.acks {
        0 => "acks=0: the client does not wait for an answer".to_owned(),
        1 => "acks=1: the leader answers".to_owned(),
        -1 => "acks=all: every in-sync replica has the record before the answer".to_owned(),
        other => format!("acks={other}"),
    };
    let storage = match durability.storage.as_str() {
        "unstated" | "" if !has_acks => return None,
        "page-cache" => {
            "page-cache: the operating system has the record; a power failure can lose it".to_owned()
        }
        "fsync" => "fsync: the record is on the device".to_owned(),
        "unstated" | "" => "storage before the answer: not stated for this target".to_owned(),
        other => format!("storage before the answer: {other}"),
    };
    Some(if has_acks { format!("{acks}. {storage}.") } else { format!("{storage}.") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn a_loud_control_is_called_loud() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        let none_asked = std::mem::take(&mut comparison.design.control_pairs);
        assert!(control(&comparison).starts_with("No A/A control was requested"));
        comparison.design.control_pairs = none_asked.max(6);
        let pair = |index: u32| hone_record::PairOutcome {
            index,
            kind: PairKind::Control,
            values_a: [].into(),
            values_b: [].into(),
            dropped: (index > 2).then(|| "neighbours".to_owned()),
            ..hone_record::PairOutcome::default()
        };
        comparison.pairs = (0..5).map(pair).collect();
        let said = control(&comparison);
        assert!(said.replace(NBSP, " ").starts_with("3 A/A pairs of 5 are usable, too few"), "{said}");
        comparison.pairs.iter_mut().for_each(|pair| pair.dropped = Some("neighbours".to_owned()));
        assert!(control(&comparison).starts_with("No A/A pair is usable"));
        let mut twin = comparison.judgements[0].estimate.clone();
        (twin.ratio, twin.low, twin.high, twin.pairs) = (1.003, 0.98, 1.03, 4);
        comparison.judgements[0].control = Some(twin.clone());
        let said = control(&comparison);
        assert!(said.starts_with("The A/A control shows no difference") && !said.contains("wider"), "{said}");
        // With an interval this wide, the control says nothing about an effect of 10 %.
        (twin.low, twin.high) = (0.87, 1.15);
        comparison.judgements[0].control = Some(twin.clone());
        assert!(control(&comparison).ends_with("it could hide a bias as large as the effect."));
        (twin.ratio, twin.low, twin.high) = (1.01, 1.003, 1.017);
        comparison.judgements[0].control = Some(twin.clone());
        assert!(control(&comparison).starts_with("The A/A control shows a difference within"));
        (twin.ratio, twin.low, twin.high) = (1.06, 1.03, 1.09);
        comparison.judgements[0].control = Some(twin);
        assert!(control(&comparison).starts_with("The A/A control shows a difference beyond"));
    }

    #[test]
    fn outcomes_of_a_window() {
        let mut window = sample::window("baseline", 1, 1.0);
        assert!(outcome(&window).starts_with("Steady: "), "{}", outcome(&window));
        window.outcome = Outcome::Saturated { backlog_requests: 12_345 };
        assert!(outcome(&window).replace(NBSP, " ").contains("12,345 requests were waiting"));
        window.outcome = Outcome::GeneratorLate { lateness_us_p99: 12_000.0, limit_us: 500.0 };
        assert!(outcome(&window).replace(NBSP, " ").contains("(p99 12.0 ms late, limit 500 µs)"));
        window.outcome = Outcome::Failed { reason: "connection refused.".to_owned() };
        assert_eq!(outcome(&window), "Failed: connection refused.");
    }

    #[test]
    fn durability_is_spelled_out() {
        let class = |acks, storage: &str| {
            durability(&Durability { acks, storage: storage.to_owned() }, true).unwrap()
        };
        assert!(class(-1, "fsync").starts_with("acks=all"));
        assert!(class(1, "unstated").contains("not stated"));
        assert!(class(7, "tape").contains("acks=7") && class(7, "tape").contains("tape"));
    }
}
