//! Verdicts, controls and outcomes as sentences. Every figure comes from the estimate, every claim from the verdict.

use hone_record::{
    Comparison, Design, Durability, Estimate, Judgement, Metric, Mode, Outcome, PairKind, Verdict, Window,
};

use crate::quantity::{self, NBSP};

/// How a difference of a metric is said.
struct Wording {
    less: &'static str,
    more: &'static str,
}

fn wording(metric: Metric) -> Wording {
    let (less, more) = match metric {
        Metric::CpuPerRecord | Metric::CpuPerRequest | Metric::UserCpuPerRecord | Metric::BusyPerRecord => {
            ("less", "more")
        }
        Metric::Throughput => ("fewer", "more"),
        _ => ("lower", "higher"),
    };
    Wording { less, more }
}

/// The metric inside a sentence, in the words of the comparison's load: `p50 latency`, `CPU per record`, `CPU per operation`.
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
        Metric::Throughput => "requests per second",
        Metric::Capacity => "capacity",
        Metric::MemoryPeak => "peak memory",
        Metric::MemoryMean => "mean memory",
    }
}

/// The verdict in one sentence: the primary metric, and every metric that is worse. Behind it what qualifies it: an arm
/// that failed alone, and guard metrics that did not hold for sure.
pub(crate) fn verdict(comparison: &Comparison) -> String {
    let sentence = match comparison.primary() {
        _ if comparison.b_does_not_sustain() => does_not_sustain(comparison),
        Some(judgement) => judged(comparison, judgement),
        None => without_primary(comparison),
    };
    let is_better = comparison.primary().is_some_and(|judgement| judgement.verdict == Verdict::Better);
    let sentence = match regressions(comparison) {
        Some(worse) if is_better => format!("{}; but {worse}.", sentence.trim_end_matches('.')),
        // What is proven comes before what is not.
        Some(worse) => format!("Found to be {worse}. {sentence}"),
        None => sentence,
    };
    std::iter::once(sentence).chain(qualifications(comparison)).collect::<Vec<_>>().join(" ")
}

/// What must be known before the sentence is believed, as sentences.
fn qualifications(comparison: &Comparison) -> Vec<String> {
    let troubles = comparison.why_troubles_decide().map(|why| format!("{why}."));
    let unseen = comparison.unseen_guards().map(|guard| {
        let noun = noun(comparison, guard);
        format!(
            "The guard rail {noun} was not seen: it could not be estimated or has no usable A/A control, so nothing is called \
             better."
        )
    });
    let undecided = comparison.undecided_guards().filter(|judgement| is_sound(&judgement.estimate));
    let undecided = undecided.map(|judgement| {
        let estimate = &judgement.estimate;
        let end = if estimate.metric.lower_is_better() { estimate.high } else { estimate.low };
        let worst = difference(end, &wording(estimate.metric));
        format!("The guard rail {} is not decided: it may be {worst}.", noun(comparison, estimate.metric))
    });
    troubles.into_iter().chain(unseen).chain(undecided).chain(comparison.reservations()).collect()
}

/// That B alone failed again and again.
fn does_not_sustain(comparison: &Comparison) -> String {
    let last = comparison
        .last_trouble_of_b()
        .map(|trouble| format!(" The last time: {}.", trouble.trim_end_matches('.')));
    format!("Worse: {} does not sustain this load.{}", comparison.b, last.unwrap_or_default())
}

/// What got worse beside the primary metric, without a final point.
fn regressions(comparison: &Comparison) -> Option<String> {
    let is_guard = |judgement: &Judgement| comparison.design.rule.guards.contains(&judgement.estimate.metric);
    let worse = comparison.regressions();
    let named = worse.iter().map(|judgement| named(comparison, judgement, judgement.verdict));
    let all: Vec<String> = named.chain(comparison.more_failures()).collect();
    if all.is_empty() {
        return None;
    }
    let whole = if worse.iter().any(|one| is_guard(one)) || comparison.more_failures().is_some() {
        ": a guard metric, so the whole is worse"
    } else {
        ""
    };
    Some(format!("worse in {}{whole}", all.join(", ")))
}

fn judged(comparison: &Comparison, judgement: &Judgement) -> String {
    let estimate = &judgement.estimate;
    if !is_sound(estimate) {
        let noun = noun(comparison, estimate.metric);
        return format!("No verdict: the estimate of {noun} is not a ratio above zero with an interval.");
    }
    match judgement.verdict {
        Verdict::Better | Verdict::Worse => shown(comparison, judgement),
        Verdict::Equivalent => equivalent(comparison, estimate),
        Verdict::NotShown => not_shown(comparison, judgement),
    }
}

/// Whether ratio and interval are positive and finite, so that they can be told as percent.
pub(crate) fn is_sound(estimate: &Estimate) -> bool {
    [estimate.ratio, estimate.low, estimate.high].iter().all(|value| value.is_finite() && *value > 0.0)
}

fn shown(comparison: &Comparison, judgement: &Judgement) -> String {
    let estimate = &judgement.estimate;
    let wording = wording(estimate.metric);
    let difference = difference(estimate.ratio, &wording);
    let interval = if same_side(estimate) && (estimate.ratio < 1.0) == (estimate.high < 1.0) {
        let [small, large] = sorted_percent(estimate.low, estimate.high);
        format!("{small} to {large}{NBSP}%")
    } else {
        range(estimate.low, estimate.high, &wording)
    };
    let claim = claim(comparison, estimate.metric, &difference);
    let basis = basis(estimate, &comparison.design);
    let verdict = judgement.verdict.label();
    format!("{claim} ({} interval {interval}, {basis}): {verdict}.", confidence(estimate))
}

fn equivalent(comparison: &Comparison, estimate: &Estimate) -> String {
    let Comparison { a, b, .. } = comparison;
    let noun = noun(comparison, estimate.metric);
    let margin = quantity::chosen_percent(comparison.design.rule.equivalence);
    let interval = range(estimate.low, estimate.high, &wording(estimate.metric));
    let basis = basis(estimate, &comparison.design);
    format!(
        "Equivalent: in {noun}, {b} is as good as {a} within the margin of ±{margin} fixed before the run \
         ({} interval {interval}, {basis}).",
        confidence(estimate)
    )
}

fn not_shown(comparison: &Comparison, judgement: &Judgement) -> String {
    let estimate = &judgement.estimate;
    let wording = wording(estimate.metric);
    let interval = range(estimate.low, estimate.high, &wording);
    let claim = claim(comparison, estimate.metric, &interval);
    let basis = basis(estimate, &comparison.design);
    // The interval alone would be a claim, and it is not what keeps the verdict from one.
    if same_side(estimate) && !judgement.why.is_empty() {
        let why = judgement.why.trim_end_matches('.');
        return format!(
            "Not shown. The A/B pairs alone say that {claim} ({} interval, {basis}), but {why}.",
            confidence(estimate)
        );
    }
    format!("Not shown: {claim} ({} interval, {basis}); {}.", confidence(estimate), smallest_effect(estimate))
}

/// What these pairs could have shown, without a final point.
fn smallest_effect(estimate: &Estimate) -> String {
    let detectable = estimate.detectable_ratio;
    if !detectable.is_finite() || detectable <= 1.0 {
        return "the smallest effect these pairs could have shown is not known".to_owned();
    }
    let percent = quantity::change_points((detectable - 1.0) * 100.0);
    format!(
        "the smallest effect these pairs would have shown, in four of five such runs, is {percent}{NBSP}%"
    )
}

/// `pgo spends X CPU per record than baseline`, where X is a difference or a range of differences.
fn claim(comparison: &Comparison, metric: Metric, difference: &str) -> String {
    let Comparison { a, b, .. } = comparison;
    let noun = noun(comparison, metric);
    match metric {
        Metric::CpuPerRecord | Metric::CpuPerRequest | Metric::UserCpuPerRecord | Metric::BusyPerRecord => {
            format!("{b} spends {difference} {noun} than {a}")
        }
        Metric::Throughput => {
            let does =
                if comparison.workload.engine.operations().is_some() { "does" } else { "acknowledges" };
            format!("{b} {does} {difference} {noun} than {a}")
        }
        _ => format!("with {b}, the {noun} is {difference} than with {a}"),
    }
}

fn difference(ratio: f64, wording: &Wording) -> String {
    let percent = quantity::change_points(((ratio - 1.0) * 100.0).abs());
    format!("{percent}{NBSP}% {}", if ratio < 1.0 { wording.less } else { wording.more })
}

/// An interval in words: `9.3 to 13.1 % less`, or across one: `3.1 % less to 4.2 % more`.
fn range(low: f64, high: f64, wording: &Wording) -> String {
    if low >= 1.0 || high <= 1.0 {
        let [small, large] = sorted_percent(low, high);
        let side = if high <= 1.0 { wording.less } else { wording.more };
        return format!("{small} to {large}{NBSP}% {side}");
    }
    format!("{} to {}", difference(low, wording), difference(high, wording))
}

fn same_side(estimate: &Estimate) -> bool {
    estimate.high < 1.0 || estimate.low > 1.0
}

/// The sizes of two changes, the smaller first.
fn sorted_percent(low: f64, high: f64) -> [String; 2] {
    let mut sizes = [low, high].map(|ratio| ((ratio - 1.0) * 100.0).abs());
    sizes.sort_by(f64::total_cmp);
    sizes.map(quantity::change_points)
}

/// Confidence of an interval, as `95 %`.
pub(crate) fn confidence(estimate: &Estimate) -> String {
    quantity::chosen_percent(estimate.confidence)
}

/// `14 duet pairs`, `30 solo pairs of 5 builds`.
fn basis(estimate: &Estimate, design: &Design) -> String {
    let pairs = estimate.pairs;
    let noun = if pairs == 1 { "pair" } else { "pairs" };
    let of_builds = estimate.builds.filter(|_| design.has_several_builds());
    let builds = of_builds.map(|builds| format!(" of {}{NBSP}builds", builds.blocks)).unwrap_or_default();
    format!("{pairs}{NBSP}{} {noun}{builds}", mode(design.mode))
}

/// The mode's name.
pub(crate) fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Duet => "duet",
        Mode::Solo => "solo",
    }
}

fn without_primary(comparison: &Comparison) -> String {
    let metric = comparison.design.rule.primary;
    let noun = noun(comparison, metric);
    let tests = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    let reason = match comparison.not_estimated.get(&metric) {
        Some(reason) => reason.trim_end_matches('.').to_owned(),
        None if tests().next().is_none() => "no A/B pair was measured".to_owned(),
        None if tests().all(|pair| pair.dropped.is_some()) => {
            format!(
                "none of the {} counts",
                quantity::counted(tests().count() as u64, "A/B pair", "A/B pairs")
            )
        }
        None => "the record gives no reason".to_owned(),
    };
    format!("No verdict: {noun}, the metric named before the run, could not be estimated: {reason}.")
}

/// The other metrics, grouped by verdict, what got worse first; `None` when there are none.
pub(crate) fn beside(comparison: &Comparison) -> Option<String> {
    let groups = [Verdict::Worse, Verdict::Better, Verdict::Equivalent, Verdict::NotShown];
    let parts: Vec<String> = groups.into_iter().filter_map(|verdict| group(comparison, verdict)).collect();
    (!parts.is_empty()).then(|| format!("Beside it – {}.", parts.join("; ")))
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

/// What the A/A control of the primary metric says.
pub(crate) fn control(comparison: &Comparison) -> String {
    let Some(judgement) = comparison.primary() else {
        return "Without an estimate there is no control to hold it against.".to_owned();
    };
    let Some(control) = judgement.control.as_ref().filter(|control| is_sound(control)) else {
        return without_control(comparison);
    };
    let noun = noun(comparison, control.metric);
    let pairs = quantity::counted(u64::from(control.pairs), "A/A pair", "A/A pairs");
    let figures = format!(
        "{} (ratio {}, {} interval {} to {}, {pairs})",
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
            " The control is wider than that effect: a bias as large as the effect could hide in it."
        } else {
            ""
        };
        format!("The A/A control shows no difference: {a} differs from itself by {figures} in {noun}.{hides}")
    } else if control.ratio.ln().abs() <= (1.0 + margin).ln() {
        format!(
            "The A/A control shows a difference, though one inside the margin of ±{}: {a} differs from itself by \
             {figures} in {noun}.",
            quantity::chosen_percent(margin)
        )
    } else {
        format!(
            "The A/A control is not silent: {a} differs from itself by {figures} in {noun}; this session cannot tell \
             variants apart that differ by as little."
        )
    }
}

/// How many control pairs count, where they are too few for a control of the primary metric.
fn without_control(comparison: &Comparison) -> String {
    let controls = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Control);
    let counted = controls().filter(|pair| pair.dropped.is_none()).count() as u64;
    let known = "how much this session differs from itself is not known.";
    match (controls().count(), counted) {
        (0, _) if comparison.design.control_pairs == 0 => format!("No A/A control was asked for: {known}"),
        (_, 0) => format!("No A/A pair counts: {known}"),
        (measured, counted) => format!(
            "{} of {measured} count, too few for an A/A control of this metric: {known}",
            quantity::counted(counted, "A/A pair", "A/A pairs")
        ),
    }
}

/// Whether a control that shows no difference reaches further from 1 than the effect does.
fn may_hide(control: &Estimate, effect: &Estimate) -> bool {
    let reach = control.high.ln().max(-control.low.ln());
    is_sound(effect) && reach > effect.ratio.ln().abs()
}

/// How a window ended, in one sentence.
pub(crate) fn outcome(window: &Window) -> String {
    let facts = &window.facts;
    let asked = quantity::plain(window.asked_requests_per_s());
    let reached = quantity::significant(facts.reached_requests_per_s);
    match &window.outcome {
        Outcome::Steady => steady(window, &asked, &reached),
        Outcome::Saturated { backlog_requests } => format!(
            "Saturated: {} of {asked}{NBSP}requests/s asked for were acknowledged and {} were waiting at the end; \
             percentiles would only measure the length of the window, so none is told.",
            reached,
            quantity::counted(*backlog_requests, "request", "requests"),
        ),
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => format!(
            "Not measured: the generator itself was late, {} at its p99 where {} is the limit; \
             that says nothing about the target.",
            quantity::time_us(*lateness_us_p99),
            quantity::time_us(*limit_us),
        ),
        Outcome::Warming { cpu_us_per_record: [first, last], .. } => format!(
            "Still warming: the target’s CPU per record went from {} to {} in the window, so none of its figures is told.",
            quantity::time_us(*first),
            quantity::time_us(*last),
        ),
        Outcome::Failed { reason } => format!("Failed: {}.", reason.trim_end_matches('.')),
    }
}

fn steady(window: &Window, asked: &str, reached: &str) -> String {
    if let Some(operations) = window.workload.engine.operations() {
        return format!(
            "Done: {} at {reached}{NBSP}operations/s.",
            quantity::counted(operations, "operation", "operations")
        );
    }
    let latencies: Vec<String> = [Metric::LatencyP50, Metric::LatencyP99]
        .into_iter()
        .filter_map(|metric| Some(format!("{} {}", metric.label(), quantity::time_us(window.value(metric)?))))
        .collect();
    let tail = if latencies.is_empty() { String::new() } else { format!("; {}", latencies.join(", ")) };
    format!("Steady: {reached} of {asked}{NBSP}requests/s asked for were acknowledged{tail}.")
}

/// The durability class in one sentence; nothing where the load has no acks (operations) and the target states no storage.
pub(crate) fn durability(durability: &Durability, has_acks: bool) -> Option<String> {
    let acks = match durability.acks {
        0 => "acks=0: the client does not wait for an answer".to_owned(),
        1 => "acks=1: the leader answers".to_owned(),
        -1 => "acks=all: every in-sync replica has the record before the answer".to_owned(),
        other => format!("acks={other}"),
    };
    let storage = match durability.storage.as_str() {
        "unstated" | "" if !has_acks => return None,
        "page-cache" => "page-cache: the operating system has the record, a power cut may lose it".to_owned(),
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

    /// Verdict, metric, ratio, low, high, detectable ratio, and the sentence.
    type Case = (Verdict, Metric, [f64; 4], &'static str);

    fn check(mode: Mode, pairs: u32, (judged, metric, [ratio, low, high, detectable], wanted): Case) {
        let mut comparison = sample::bare_comparison(metric, judged, ratio, low, high, detectable);
        comparison.design.mode = mode;
        comparison.design.rule.guards.clear();
        comparison.judgements[0].estimate.pairs = pairs;
        assert_eq!(verdict(&comparison).replace(NBSP, " "), wanted);
    }

    #[test]
    fn verdicts_as_sentences() {
        let cases: [Case; 11] = [
            (
                Verdict::Better,
                Metric::CpuPerRecord,
                [0.888, 0.869, 0.907, 1.08],
                "pgo spends 11.2 % less CPU per record than baseline (95 % interval 9.3 to 13.1 %, 14 duet pairs): better.",
            ),
            (
                Verdict::Worse,
                Metric::CpuPerRequest,
                [1.1, 1.05, 1.152, 1.08],
                "pgo spends 10.0 % more CPU per request than baseline (95 % interval 5.0 to 15.2 %, 14 duet pairs): worse.",
            ),
            (
                Verdict::Better,
                Metric::LatencyP50,
                [0.5, 0.45, 0.56, 1.08],
                "with pgo, the p50 latency is 50.0 % lower than with baseline (95 % interval 44.0 to 55.0 %, 14 duet pairs): better.",
            ),
            (
                Verdict::Worse,
                Metric::LatencyP999,
                [2.5, 1.9, 3.2, 1.3],
                "with pgo, the p99.9 latency is 150 % higher than with baseline (95 % interval 90.0 to 220 %, 14 duet pairs): worse.",
            ),
            (
                Verdict::Worse,
                Metric::Throughput,
                [0.9, 0.85, 0.95, 1.08],
                "pgo acknowledges 10.0 % fewer requests per second than baseline (95 % interval 5.0 to 15.0 %, 14 duet pairs): worse.",
            ),
            (
                Verdict::Worse,
                Metric::Capacity,
                [0.5, 0.45, 0.56, 1.08],
                "with pgo, the capacity is 50.0 % lower than with baseline (95 % interval 44.0 to 55.0 %, 14 duet pairs): worse.",
            ),
            (
                Verdict::Better,
                Metric::Capacity,
                [1.2, 1.15, 1.25, 1.08],
                "with pgo, the capacity is 20.0 % higher than with baseline (95 % interval 15.0 to 25.0 %, 14 duet pairs): better.",
            ),
            (
                Verdict::Better,
                Metric::CpuPerRecord,
                [0.97, 0.93, 1.01, 1.08],
                "pgo spends 3.0 % less CPU per record than baseline (95 % interval 7.0 % less to 1.0 % more, 14 duet pairs): better.",
            ),
            (
                Verdict::NotShown,
                Metric::CpuPerRecord,
                [1.0, 0.969, 1.042, 1.08],
                "Not shown: pgo spends 3.1 % less to 4.2 % more CPU per record than baseline (95 % interval, 14 duet pairs); \
                 the smallest effect these pairs would have shown, in four of five such runs, is 8.0 %.",
            ),
            (
                Verdict::NotShown,
                Metric::LatencyP99,
                [0.97, 0.94, 0.99, 1.0],
                "Not shown. The A/B pairs alone say that with pgo, the p99 latency is 1.0 to 6.0 % lower than with baseline \
                 (95 % interval, 14 duet pairs), but as given.",
            ),
            (
                Verdict::Equivalent,
                Metric::CpuPerRecord,
                [1.001, 0.995, 1.011, 1.02],
                "Equivalent: in CPU per record, pgo is as good as baseline within the margin of ±2 % fixed before the run \
                 (95 % interval 0.5 % less to 1.1 % more, 14 duet pairs).",
            ),
        ];
        cases.into_iter().for_each(|case| check(Mode::Duet, 14, case));
    }

    #[test]
    fn a_load_of_operations_has_neither_records_nor_requests() {
        let engine = hone_record::Engine::Exits { arguments: Vec::new(), operations: 5 };
        let told = |metric, ratio: f64| {
            let mut comparison =
                sample::bare_comparison(metric, Verdict::Better, ratio, ratio * 0.98, ratio * 1.02, 1.1);
            comparison.workload = hone_record::Workload::of_operations("judge", engine.clone());
            comparison.design.rule.guards = vec![Metric::UserCpuPerRecord];
            verdict(&comparison) + &control(&comparison)
        };
        assert!(told(Metric::CpuPerRecord, 0.9).contains("less CPU per operation than baseline"));
        assert!(told(Metric::Throughput, 1.1).contains("pgo does 10.0"), "{}", told(Metric::Throughput, 1.1));
        assert!(told(Metric::Throughput, 1.1).contains("more operations per second than baseline"));
        for metric in [Metric::CpuPerRecord, Metric::UserCpuPerRecord, Metric::Throughput] {
            let text = told(metric, 0.9);
            assert!(!text.contains("record") && !text.contains("request"), "{text}");
        }
    }

    #[test]
    fn builds_are_told_where_the_interval_rests_on_them() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let spread = hone_record::BuildSpread { blocks: 5, between_log_sd: 0.01, within_log_sd: 0.01 };
        comparison.judgements[0].estimate.builds = Some(spread);
        assert!(!verdict(&comparison).contains("builds"), "starts of one build");
        comparison.design.builds = [5, 5];
        assert!(
            verdict(&comparison).replace(NBSP, " ").contains("duet pairs of 5 builds)"),
            "{}",
            verdict(&comparison)
        );
    }

    #[test]
    fn one_solo_pair_is_singular() {
        let wanted = "pgo spends 11.2 % less CPU per record than baseline (95 % interval 9.3 to 13.1 %, 1 solo pair): better.";
        check(Mode::Solo, 1, (Verdict::Better, Metric::CpuPerRecord, [0.888, 0.869, 0.907, 1.08], wanted));
    }

    #[test]
    fn an_estimate_without_sense_is_no_verdict() {
        for broken in [[f64::NAN, 0.9, 1.1], [1.0, 0.0, 1.1], [1.0, 0.9, f64::INFINITY]] {
            let [ratio, low, high] = broken;
            let comparison =
                sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, ratio, low, high, 1.1);
            let sentence = verdict(&comparison);
            assert!(sentence.starts_with("No verdict: "), "{sentence}");
        }
    }

    #[test]
    fn without_an_estimate_the_reason_is_told() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        comparison.judgements.clear();
        assert_eq!(
            verdict(&comparison),
            "No verdict: CPU per record, the metric named before the run, could not be estimated: no A/B pair was measured."
        );
        comparison.not_estimated.insert(Metric::CpuPerRecord, "the target runs elsewhere.".to_owned());
        assert!(verdict(&comparison).ends_with("could not be estimated: the target runs elsewhere."));
    }

    #[test]
    fn what_got_worse_stands_first_beside_the_verdict() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        assert_eq!(beside(&comparison), None);
        for (metric, judged, ratio) in [
            (Metric::LatencyP50, Verdict::Better, 0.8),
            (Metric::LatencyP99, Verdict::NotShown, 1.0),
            (Metric::LatencyP999, Verdict::Worse, 1.2),
        ] {
            let other = sample::bare_comparison(metric, judged, ratio, ratio * 0.95, ratio * 1.05, 1.1);
            comparison.judgements.push(Judgement { primary: false, ..other.judgements[0].clone() });
        }
        assert_eq!(
            beside(&comparison).unwrap().replace(NBSP, " "),
            "Beside it – worse: p99.9 latency (+20.0 %); better: p50 latency (−20.0 %); not shown: p99 latency."
        );
    }

    #[test]
    fn a_broken_guard_rail_is_part_of_the_verdict() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let tail = sample::bare_comparison(Metric::LatencyP99, Verdict::Worse, 1.2, 1.1, 1.3, 1.1);
        comparison.judgements.push(Judgement { primary: false, ..tail.judgements[0].clone() });
        comparison.design.control_pairs = 0;
        comparison.design.rule.guards.clear();
        // Whatever is worse stands in the sentence, named as a guard or not.
        let told = verdict(&comparison).replace(NBSP, " ");
        assert!(told.ends_with("pairs): better; but worse in p99 latency (+20.0 %)."), "{told}");
        comparison.design.rule.guards.push(Metric::LatencyP99);
        assert_eq!(
            verdict(&comparison).replace(NBSP, " "),
            "pgo spends 10.0 % less CPU per record than baseline (95 % interval 5.0 to 15.0 %, 14 duet pairs): better; \
             but worse in p99 latency (+20.0 %): a guard metric, so the whole is worse."
        );
        comparison.judgements[0].verdict = Verdict::NotShown;
        let told = verdict(&comparison);
        assert!(told.starts_with("Found to be worse in p99 latency"), "{told}");
    }

    #[test]
    fn what_qualifies_the_verdict_stands_behind_it() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let tail = sample::bare_comparison(Metric::LatencyP99, Verdict::NotShown, 1.1, 0.9, 1.3, 1.1);
        comparison.judgements.push(Judgement { primary: false, ..tail.judgements[0].clone() });
        comparison.design.rule.guards = vec![Metric::LatencyP99];
        let told = |comparison: &Comparison| verdict(comparison).replace(NBSP, " ");
        assert!(
            told(&comparison).contains("The guard rail p99 latency was not seen"),
            "{}",
            told(&comparison)
        );
        comparison.design.control_pairs = 0;
        let ending = "better. The guard rail p99 latency is not decided: it may be 30.0 % higher.";
        assert!(told(&comparison).ends_with(ending), "{}", told(&comparison));
        comparison.pairs = (0..3)
            .map(|index| hone_record::PairOutcome {
                index,
                kind: PairKind::Test,
                values_a: [].into(),
                values_b: [].into(),
                troubles: [vec![], vec!["pgo crashed".to_owned()]],
                ..hone_record::PairOutcome::default()
            })
            .collect();
        let why = "pgo alone had trouble in 3 A/B pairs, the other arm alone in 0";
        assert!(told(&comparison).contains(why), "{}", told(&comparison));
        // Three in a hundred hardly flatter what is left.
        let calm = (3..100).map(|index| hone_record::PairOutcome {
            index,
            kind: PairKind::Test,
            ..hone_record::PairOutcome::default()
        });
        comparison.pairs.extend(calm);
        assert!(!told(&comparison).contains("alone had trouble"), "{}", told(&comparison));
    }

    /// What the pairs say alone is no claim where the control takes it back.
    #[test]
    fn an_effect_that_the_control_takes_back_is_not_claimed() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::NotShown, 0.84, 0.772, 0.91, 1.1);
        comparison.judgements[0].why = "there is no A/A control: only 4 pairs count".to_owned();
        let told = verdict(&comparison).replace(NBSP, " ");
        assert!(
            told.starts_with("Not shown. The A/B pairs alone say that pgo spends 9.0 to 22.8 % less"),
            "{told}"
        );
        assert!(told.contains("but there is no A/A control: only 4 pairs count."), "{told}");
    }

    #[test]
    fn a_loud_control_is_called_loud() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        let none_asked = std::mem::take(&mut comparison.design.control_pairs);
        assert!(control(&comparison).starts_with("No A/A control was asked for"));
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
        assert!(said.replace(NBSP, " ").starts_with("3 A/A pairs of 5 count, too few"), "{said}");
        comparison.pairs.iter_mut().for_each(|pair| pair.dropped = Some("neighbours".to_owned()));
        assert!(control(&comparison).starts_with("No A/A pair counts"));
        let mut twin = comparison.judgements[0].estimate.clone();
        (twin.ratio, twin.low, twin.high, twin.pairs) = (1.003, 0.98, 1.03, 4);
        comparison.judgements[0].control = Some(twin.clone());
        let said = control(&comparison);
        assert!(said.starts_with("The A/A control shows no difference") && !said.contains("wider"), "{said}");
        // As wide as this it says nothing of an effect of 10 %.
        (twin.low, twin.high) = (0.87, 1.15);
        comparison.judgements[0].control = Some(twin.clone());
        assert!(control(&comparison).ends_with("a bias as large as the effect could hide in it."));
        (twin.ratio, twin.low, twin.high) = (1.01, 1.003, 1.017);
        comparison.judgements[0].control = Some(twin.clone());
        assert!(control(&comparison).starts_with("The A/A control shows a difference, though one inside"));
        (twin.ratio, twin.low, twin.high) = (1.06, 1.03, 1.09);
        comparison.judgements[0].control = Some(twin);
        assert!(control(&comparison).starts_with("The A/A control is not silent"));
    }

    #[test]
    fn outcomes_of_a_window() {
        let mut window = sample::window("baseline", 1, 1.0);
        assert!(outcome(&window).starts_with("Steady: "), "{}", outcome(&window));
        window.outcome = Outcome::Saturated { backlog_requests: 12_345 };
        assert!(outcome(&window).replace(NBSP, " ").contains("12,345 requests were waiting"));
        window.outcome = Outcome::GeneratorLate { lateness_us_p99: 12_000.0, limit_us: 500.0 };
        assert!(outcome(&window).replace(NBSP, " ").contains("12.0 ms at its p99 where 500 µs is the limit"));
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
