//! The result of comparing a head with its base, by limits that were fixed before. Pure: it uses the comparator's own estimates and
//! verdicts, and no further statistics.

use hone_format::exact_percent;
use hone_record::{Comparison, Counted, GateEvidence, GateFinding, GateState, Judgement, Metric, Verdict};

use super::GateSettings;
use hone_experiment::broke;
use hone_experiment::spec::{Experiment, GateWishes};
use hone_report::gate::loss_word;

/// Pairs in which only the head failed, where every pair is excluded. The same number ends a run.
const BROKEN_PAIRS: u32 = 3;

/// All findings of a comparison: the primary metric first, then the guard metrics that the file names, then every other metric that is
/// worse. `line` is the line of the file that asks for this load.
pub fn findings(comparison: &Comparison, wishes: &GateWishes, line: Option<u32>) -> Vec<GateFinding> {
    let rule = &comparison.design.rule;
    let named = rule.guards.iter().copied().filter(|_| !rule.default_guards);
    let mut metrics: Vec<Metric> = std::iter::once(rule.primary).chain(named).collect();
    let worse = comparison.regressions().into_iter().map(|judgement| judgement.estimate.metric);
    metrics.extend(worse.filter(|metric| !rule.guards.contains(metric) || rule.default_guards));
    // A metric without its own limit has the primary metric's.
    let usual = wishes.worse_by.get(&rule.primary).copied().unwrap_or_default();
    let mut found: Vec<GateFinding> = metrics
        .into_iter()
        .map(|metric| {
            let worse_by = wishes.worse_by.get(&metric).copied().unwrap_or(usual);
            let seen = comparison.judgements.iter().find(|judgement| judgement.estimate.metric == metric);
            let finding = GateFinding {
                workload: comparison.workload.name.clone(),
                metric,
                primary: metric == rule.primary,
                worse_by,
                ratio: None,
                values: None,
                detectable_ratio: None,
                verdict: None,
                state: GateState::NotSeen,
                why: comparison.not_estimated.get(&metric).cloned().unwrap_or_default(),
                by_troubles: false,
                line,
            };
            seen.map_or(finding.clone(), |judgement| of_judgement(finding, comparison, judgement))
        })
        .collect();
    if let Some(Troubles { state, of_head, why }) = of_troubles(comparison) {
        let is_meant = |finding: &&mut GateFinding| match (state, finding.state) {
            (GateState::Worse, _) => finding.primary,
            // A metric without data stays without data.
            (_, GateState::NotSeen) => false,
            // The remaining pairs flatter one side. A head that is worse in spite of that is worse.
            (_, GateState::Worse) => !of_head,
            (_, GateState::Held | GateState::Tolerated) => of_head,
            (_, GateState::NotShown) => true,
        };
        for finding in found.iter_mut().filter(is_meant) {
            finding.state = state;
            finding.why.clone_from(&why);
            finding.by_troubles = true;
            finding.detectable_ratio = None;
        }
    }
    found
}

fn of_judgement(finding: GateFinding, comparison: &Comparison, judgement: &Judgement) -> GateFinding {
    let estimate = &judgement.estimate;
    let (metric, limit) = (estimate.metric, finding.worse_by);
    let is_blind = comparison.lacks_control(judgement);
    let most = if metric.lower_is_better() { estimate.high } else { estimate.low };
    let state = match judgement.verdict {
        Verdict::Worse if metric.is_worse_by(limit, estimate.ratio) => GateState::Worse,
        Verdict::Worse => GateState::Tolerated,
        Verdict::Better | Verdict::Equivalent => GateState::Held,
        // A control was planned, and all of its pairs are excluded. No verdict would have been possible, whatever the head does.
        Verdict::NotShown if is_blind && judgement.control.is_none() => GateState::NotSeen,
        Verdict::NotShown if !metric.is_worse_by(limit, most) && !is_blind => GateState::Held,
        Verdict::NotShown => GateState::NotShown,
    };
    GateFinding {
        ratio: Some([estimate.ratio, estimate.low, estimate.high]),
        values: Some([estimate.value_a, estimate.value_b]),
        detectable_ratio: (!is_blind).then_some(estimate.detectable_ratio),
        verdict: Some(judgement.verdict),
        state,
        why: judgement.why.clone(),
        ..finding
    }
}

/// The effect of one-sided failures on findings.
struct Troubles {
    state: GateState,
    /// Whether only the head failed.
    of_head: bool,
    why: String,
}

fn of_troubles(comparison: &Comparison) -> Option<Troubles> {
    let worse = |why: String| Some(Troubles { state: GateState::Worse, of_head: true, why });
    if let Some(trouble) = broke::down_alone(comparison) {
        return worse(format!("the head failed under a load that the base sustained: {trouble}"));
    }
    if let Some(never) = broke::never_counted(comparison) {
        let build = never.build + 1;
        return worse(format!("build {build} of the head failed in every measurement: {}", never.trouble));
    }
    if let [0, of_head] = comparison.lone_troubles()
        && of_head >= BROKEN_PAIRS
        && comparison.primary().is_none()
    {
        return worse(format!(
            "the head could not sustain this load in {of_head} pairs; the base could in all pairs"
        ));
    }
    if let Some(more) = comparison.more_failures() {
        return worse(more);
    }
    // This applies whatever the metrics say: with a limit, an inconclusive metric can pass.
    let leaning = comparison.leaning_troubles()?;
    let state = if leaning.is_b && leaning.is_clear { GateState::Worse } else { GateState::NotShown };
    Some(Troubles { state, of_head: leaning.is_b, why: leaning.why })
}

/// The finding of a load that the head can't sustain at all.
pub(crate) fn broke_down(
    workload: &str,
    metric: Metric,
    wishes: &GateWishes,
    why: &str,
    line: Option<u32>,
) -> GateFinding {
    GateFinding {
        workload: workload.to_owned(),
        metric,
        primary: true,
        worse_by: wishes.worse_by.get(&metric).copied().unwrap_or_default(),
        ratio: None,
        values: None,
        detectable_ratio: None,
        verdict: None,
        state: GateState::Worse,
        why: format!("the head can't sustain this load, but the base can: {why}"),
        by_troubles: true,
        line,
    }
}

/// The finding about the instructions under a load, before anything is counted.
pub(super) fn uncounted(workload: &str, worse_by: f64, line: Option<u32>) -> GateFinding {
    GateFinding {
        workload: workload.to_owned(),
        metric: Metric::Instructions,
        primary: true,
        worse_by,
        ratio: None,
        values: None,
        detectable_ratio: None,
        verdict: None,
        state: GateState::NotSeen,
        why: String::new(),
        by_troubles: false,
        line,
    }
}

/// The finding from counts. A ratio counts with the difference of the repetitions on both sides.
pub(super) fn of_counts(finding: GateFinding, counted: &Counted) -> GateFinding {
    let [ratio, low, high] = counted.ratio();
    let (limit, scatter) = (1.0 + finding.worse_by, counted.scatter());
    let (verdict, state) = match () {
        () if low > 1.0 && ratio >= limit => (Verdict::Worse, GateState::Worse),
        () if low > 1.0 => {
            (Verdict::Worse, if high < limit { GateState::Tolerated } else { GateState::NotShown })
        }
        () if high < 1.0 => (Verdict::Better, GateState::Held),
        () if high < limit => (Verdict::Equivalent, GateState::Held),
        () => (Verdict::NotShown, GateState::NotShown),
    };
    let culprit = if state == GateState::Worse { hone_report::counted::culprit(counted) } else { None };
    let why = format!(
        "{}, limit {}{}",
        hone_report::counted::sentence(counted),
        exact_percent(finding.worse_by),
        culprit.map(|culprit| format!("; {culprit}")).unwrap_or_default()
    );
    GateFinding {
        ratio: Some([ratio, low, high]),
        values: Some(counted.instructions()),
        detectable_ratio: Some(1.0 + scatter),
        verdict: Some(verdict),
        state,
        why,
        ..finding
    }
}

/// The rule of a gate in words.
pub fn rule_of(asked: &GateSettings, experiment: &Experiment) -> String {
    let (wishes, loads) = (&experiment.gate, experiment.judging.len());
    match asked.evidence {
        GateEvidence::Measured => rule(experiment.compare.primary, wishes, loads, asked.require_power),
        GateEvidence::Counted => format!(
            "The gate fails if the head needs {} more instructions per operation or more than the base under \
             any load. An emulator counts both for the same work, twice. A ratio counts only as far as it \
             exceeds the difference of the two repetitions. Counts don't show the kernel, waits for data or \
             locks, and the speed of the machine.",
            exact_percent(wishes.counted_worse_by)
        ),
    }
}

/// The rule in words, fixed before the first window.
fn rule(primary: Metric, wishes: &GateWishes, workloads: usize, require_power: bool) -> String {
    let of = |metric: &Metric| wishes.worse_by.get(metric).copied().unwrap_or_default();
    let guards: Vec<String> = wishes
        .worse_by
        .keys()
        .filter(|metric| **metric != primary)
        .map(|metric| format!("{} ({})", metric.label(), exact_percent(of(metric))))
        .collect();
    let guards = if guards.is_empty() {
        String::new()
    } else {
        format!("Each guard metric has its own limit: {}. ", guards.join(", "))
    };
    let guards =
        format!("{guards}Any other metric that is worse fails it too, by the limit of the primary metric.");
    let loss = loss_word(primary);
    let shared = if workloads > 1 {
        format!(" The {workloads} workloads share the error rate of the confidence interval.")
    } else {
        String::new()
    };
    let power = if require_power {
        format!(", or if the pairs could not have detected a {loss} of {}", exact_percent(of(&primary)))
    } else {
        String::new()
    };
    format!(
        "The gate fails if the verdict on {} is worse, and the estimate is a {loss} of {} or more. \
         {guards}{shared} It also fails if the head can't sustain a load that the base sustains. The number \
         of pairs is fixed before the first one, so no interim result affects it. The gate is inconclusive \
         without an estimate of {}, or without a valid pair of a planned A/A control{power}.",
        primary.label(),
        exact_percent(of(&primary)),
        primary.label()
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::{Estimate, GateOutcome};

    use super::*;
    use hone_experiment::fixture::comparison;

    fn wishes(worse_by: f64) -> GateWishes {
        GateWishes {
            worse_by: BTreeMap::from([(Metric::CpuPerRecord, worse_by)]),
            require_power: false,
            counted_worse_by: 0.005,
        }
    }

    fn judged(ratio: [f64; 3], verdict: Verdict, limit: f64) -> GateFinding {
        let mut comparison = comparison(None);
        let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        let estimate = &mut judgement.estimate;
        [estimate.ratio, estimate.low, estimate.high] = ratio;
        estimate.detectable_ratio = 1.05;
        judgement.verdict = verdict;
        findings(&comparison, &wishes(limit), Some(7)).remove(0)
    }

    #[test]
    fn what_is_shown_and_large_enough_fails_and_nothing_else() {
        use GateState::{Held, NotShown, Tolerated, Worse};
        for (ratio, verdict, limit, state) in [
            ([1.10, 1.05, 1.15], Verdict::Worse, 0.03, Worse),
            ([1.02, 1.01, 1.03], Verdict::Worse, 0.03, Tolerated),
            ([0.90, 0.85, 0.95], Verdict::Better, 0.03, Held),
            ([1.00, 0.99, 1.01], Verdict::Equivalent, 0.03, Held),
            ([1.00, 0.98, 1.02], Verdict::NotShown, 0.03, Held),
            ([1.04, 0.98, 1.10], Verdict::NotShown, 0.03, NotShown),
        ] {
            let found = judged(ratio, verdict, limit);
            assert_eq!((found.state, found.line), (state, Some(7)), "{found:?}");
        }
    }

    #[test]
    fn too_little_power_fails_where_it_is_asked_for() {
        let weak = judged([1.04, 0.98, 1.10], Verdict::NotShown, 0.03);
        assert!(!weak.has_power(), "it could detect 5 %, and 3 % are required");
        assert!(judged([1.04, 0.98, 1.10], Verdict::NotShown, 0.05).has_power());
        let outcome_of =
            |finding: &GateFinding, power| GateOutcome::from_findings(std::slice::from_ref(finding), power);
        assert_eq!(outcome_of(&weak, false), GateOutcome::Passed);
        assert_eq!(outcome_of(&weak, true), GateOutcome::TooLittlePower);
        let worse = judged([1.10, 1.05, 1.15], Verdict::Worse, 0.03);
        assert_eq!(GateOutcome::from_findings(&[weak, worse], true), GateOutcome::Worse);
    }

    #[test]
    fn a_gate_that_saw_nothing_could_not_tell() {
        let sure = judged([1.00, 0.99, 1.01], Verdict::Equivalent, 0.03);
        let outcome_of = |comparison: &hone_record::Comparison, power| {
            let found = findings(comparison, &wishes(0.03), None);
            (found[0].state, GateOutcome::from_findings(&[vec![sure.clone()], found].concat(), power))
        };
        // All pairs were dropped for what neighbours did.
        let mut blind = comparison(None);
        blind.judgements.clear();
        blind.not_estimated.insert(Metric::CpuPerRecord, "none of the pairs has a value".to_owned());
        // Those of the control alone: then no verdict is worse, either.
        let mut alone = comparison(None);
        alone.design.control_pairs = 6;
        let judgement = alone.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        (judgement.verdict, judgement.control) = (Verdict::NotShown, None);
        (judgement.estimate.ratio, judgement.estimate.low, judgement.estimate.high) = (1.3, 1.25, 1.35);
        for (blind, power) in [(&blind, false), (&blind, true), (&alone, false), (&alone, true)] {
            assert_eq!(outcome_of(blind, power), (GateState::NotSeen, GateOutcome::NotSeen));
        }
        // What is worse is worse all the same, and no finding at all is nothing seen.
        let worse = judged([1.10, 1.05, 1.15], Verdict::Worse, 0.03);
        let unseen = findings(&blind, &wishes(0.03), None);
        assert_eq!(GateOutcome::from_findings(&[unseen, vec![worse]].concat(), false), GateOutcome::Worse);
        assert_eq!(GateOutcome::from_findings(&[], false), GateOutcome::NotSeen);
        // A guard metric without an estimate is reported and fails nothing.
        let mut wishes = wishes(0.03);
        wishes.worse_by.insert(Metric::LatencyP99, 0.1);
        let found = findings(&comparison(None), &wishes, None);
        assert_eq!(
            (found[1].state, GateOutcome::from_findings(&found, false)),
            (GateState::NotSeen, GateOutcome::Passed)
        );
    }

    #[test]
    fn a_limit_of_what_is_better_when_it_is_more_is_a_fall() {
        use GateState::{Held, Tolerated, Worse};
        let of = |ratio: [f64; 3], verdict, detectable| {
            let mut comparison = comparison(None);
            comparison.design.rule.primary = Metric::Throughput;
            let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
            let estimate = &mut judgement.estimate;
            [estimate.ratio, estimate.low, estimate.high] = ratio;
            (estimate.metric, estimate.detectable_ratio) = (Metric::Throughput, detectable);
            judgement.verdict = verdict;
            let limits = BTreeMap::from([(Metric::Throughput, 0.1)]);
            findings(
                &comparison,
                &GateWishes { worse_by: limits, require_power: false, counted_worse_by: 0.005 },
                None,
            )
            .remove(0)
        };
        assert_eq!(of([0.905, 0.89, 0.92], Verdict::Worse, 1.02).state, Tolerated, "it fell by 9.5 %");
        assert_eq!(of([0.895, 0.88, 0.91], Verdict::Worse, 1.02).state, Worse, "it fell by 10.5 %");
        assert_eq!(of([0.96, 0.905, 1.02], Verdict::NotShown, 1.02).state, Held, "at most 9.5 %");
        // A fall of 10 % is as large as a rise of 11.1 %: the pairs could detect an effect of the limit's size.
        let weak = of([0.96, 0.85, 1.08], Verdict::NotShown, 1.11);
        assert!(weak.has_power(), "{weak:?}");
        assert!(!of([0.96, 0.85, 1.08], Verdict::NotShown, 1.12).has_power());
        assert!(rule(Metric::Throughput, &wishes(0.1), 1, true).contains("the estimate is a fall of"));
    }

    #[test]
    fn a_control_that_differs_rules_nothing_out() {
        let mut comparison = comparison(None);
        let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        judgement.verdict = Verdict::NotShown;
        judgement.estimate.high = 1.01;
        let estimate = judgement.estimate.clone();
        judgement.control = Some(Estimate { ratio: 1.2, low: 1.1, high: 1.3, ..estimate });
        let found = findings(&comparison, &wishes(0.03), None).remove(0);
        assert_eq!((found.state, found.has_power()), (GateState::NotShown, false));
    }

    /// As `comparison(None)`, with these troubles in A/B pairs.
    fn troubled(troubles: &[[&str; 2]], ratio: [f64; 3], verdict: Verdict) -> hone_record::Comparison {
        let mut comparison = comparison(None);
        let judgement = comparison.judgements.iter_mut().find(|judgement| judgement.primary).unwrap();
        let estimate = &mut judgement.estimate;
        [estimate.ratio, estimate.low, estimate.high] = ratio;
        (estimate.detectable_ratio, judgement.verdict) = (1.02, verdict);
        comparison.pairs = troubles
            .iter()
            .map(|sides| hone_record::PairOutcome {
                index: 0,
                kind: hone_record::PairKind::Test,
                window_a: "a.json".to_owned(),
                window_b: "b.json".to_owned(),
                took_s: 1.0,
                troubles: sides
                    .map(|trouble| Vec::from_iter((!trouble.is_empty()).then(|| trouble.to_owned()))),
                ..hone_record::PairOutcome::default()
            })
            .collect();
        comparison
    }

    #[test]
    fn a_head_that_breaks_down_once_fails_whatever_the_rest_says() {
        let held = ([1.00, 0.99, 1.01], Verdict::NotShown);
        let mut crash = troubled(&[["", ""], ["", "ended by signal 11"], ["", ""]], held.0, held.1);
        let whole = findings(&crash, &wishes(0.03), None).remove(0);
        assert_eq!(whole.state, GateState::Held, "one window that failed while the head ran on");
        crash.pairs[1].window_b.clear();
        let found = findings(&crash, &wishes(0.03), None).remove(0);
        assert_eq!(found.state, GateState::Worse, "{found:?}");
        assert!(found.why.contains("ended by signal 11") && found.by_troubles, "{found:?}");
        crash.pairs[1].troubles[0].push("ended by signal 9".to_owned());
        assert_eq!(findings(&crash, &wishes(0.03), None)[0].state, GateState::Held, "the base ended, too");
    }

    #[test]
    fn troubles_that_lean_to_the_head_are_not_held() {
        let state = |troubles: &[[&str; 2]], ratio, verdict| {
            findings(&troubled(troubles, ratio, verdict), &wishes(0.03), None)[0].clone()
        };
        let within = ([1.00, 0.99, 1.01], Verdict::NotShown);
        let found = state(&[["", "refused"]; 2], within.0, within.1);
        assert_eq!((found.state, found.has_power()), (GateState::NotShown, false));
        assert_eq!(state(&[["", "refused"]; 8], within.0, within.1).state, GateState::Worse);
        // A base that is flattered says nothing against a head that holds, and cannot make one worse.
        assert_eq!(state(&[["refused", ""]; 2], within.0, within.1).state, GateState::Held);
        let worse = ([1.10, 1.05, 1.15], Verdict::Worse);
        assert_eq!(state(&[["refused", ""]; 2], worse.0, worse.1).state, GateState::NotShown);
        assert_eq!(state(&[["", "refused"]; 2], worse.0, worse.1).state, GateState::Worse);
    }

    #[test]
    fn the_rule_names_every_limit() {
        let mut wishes = wishes(0.03);
        wishes.worse_by.insert(Metric::LatencyP99, 0.1);
        let words = rule(Metric::CpuPerRecord, &wishes, 2, true);
        for part in
            ["a growth of 3 % or more", "p99 (10 %)", "The 2 workloads share", "is inconclusive without"]
        {
            assert!(words.contains(part), "{part}: {words}");
        }
    }
}
