//! A comparison as text.

use hone_format::{exact_percent, measured, ratio};
use hone_record::{Comparison, Judgement, PairKind, Verdict};
use hone_report::verdict::{headline, interval, sentence};

use crate::table::in_a_cell;

/// For a pull request: the headline, the metrics that decide, and all regressions, as Markdown.
pub fn comment(comparison: &Comparison) -> String {
    let guards = &comparison.design.rule.guards;
    let is_told = |found: &&Judgement| {
        found.primary || found.verdict == Verdict::Worse || guards.contains(&found.estimate.metric)
    };
    let cells = |found: &Judgement| {
        let mut cells = row(comparison, found);
        let control = cells.pop().unwrap_or_default();
        cells[0] = comparison.label(found.estimate.metric).to_owned();
        format!(
            "| {} | {} |\n",
            cells.iter().map(|cell| in_a_cell(cell)).collect::<Vec<_>>().join(" | "),
            in_a_cell(&control)
        )
    };
    let rows: String = comparison.judgements.iter().filter(is_told).map(cells).collect();
    let [a, b] = [&comparison.a, &comparison.b].map(|name| in_a_cell(name));
    let table = if rows.is_empty() {
        String::new()
    } else {
        format!(
            "\n| metric | {a} | {b} | change | ratio | confidence interval | verdict | A/A control |\n\
             |---|---:|---:|---:|---:|---:|---|---:|\n{rows}"
        )
    };
    let text = sentence(comparison);
    let rest = text.strip_prefix(&headline(comparison)).unwrap_or(&text);
    let change = comparison
        .change
        .as_ref()
        .map_or(String::new(), |change| format!("\n\nB is A with {}.", in_a_cell(&change.label())));
    let reservations: String =
        comparison.reservations().iter().map(|words| format!("\n\n{}", in_a_cell(words))).collect();
    let machine = &comparison.machine;
    format!(
        "**{}**{}\n\n{}{reservations}\n{table}\n<sub>{} A/B pairs under {} on {} cores of {}; measured by hone.</sub>\n",
        in_a_cell(&headline(comparison)),
        change,
        in_a_cell(rest),
        comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test).count(),
        in_a_cell(&comparison.workload.name),
        machine.cores,
        in_a_cell(&machine.cpu_model)
    )
}

fn row(comparison: &Comparison, judgement: &Judgement) -> Vec<String> {
    let estimate = &judgement.estimate;
    let in_operations =
        comparison.workload.engine.operations().is_some() && estimate.metric.unit() == "requests/s";
    let value = |value: f64| match in_operations {
        true => format!("{} operations/s", measured(value)),
        false => crate::metric_value(estimate.metric, value),
    };
    let guard = comparison.design.rule.guards.contains(&estimate.metric);
    let mark = if judgement.primary {
        "* "
    } else if guard {
        "g "
    } else {
        "  "
    };
    vec![
        format!("{mark}{}", comparison.label(estimate.metric)),
        value(estimate.value_a),
        value(estimate.value_b),
        change(judgement),
        ratio(estimate.ratio),
        format!("{} {}", interval(estimate), exact_percent(estimate.confidence)),
        verdict_mark(judgement.verdict).to_owned(),
        judgement
            .control
            .as_ref()
            .map_or("-".to_owned(), |control| format!("{} {}", ratio(control.ratio), interval(control))),
    ]
}

/// The difference as benchstat writes it: a signed percentage, or `~` if it is inconclusive.
fn change(judgement: &Judgement) -> String {
    match judgement.verdict {
        Verdict::NotShown => "~".to_owned(),
        _ => hone_format::change(judgement.estimate.ratio),
    }
}

/// The verdict with a sign, so that it is readable without colour.
pub fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "+ better",
        Verdict::Worse => "! worse",
        Verdict::Equivalent => "= equivalent",
        Verdict::NotShown => "? inconclusive",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use hone_experiment::fixture::comparison;
    use hone_record::Estimate;

    use super::*;
    use hone_record::Metric;

    /// The first words are the whole verdict, and they never contradict the rest.
    #[test]
    fn the_headline_is_the_whole_verdict() {
        for (guard, begins, holds) in [
            (
                Some(Verdict::NotShown),
                "B against A: better. CPU per record is better: 0.900 × A",
                "CI 0.850 to 0.950",
            ),
            (
                Some(Verdict::Worse),
                "B against A: regression in p99; CPU per record better. CPU per record is better",
                "Regression: guard metric p99 ",
            ),
            (None, "B against A: inconclusive. CPU per record is better", "Guard metric unknown: p99"),
        ] {
            let sentence = sentence(&comparison(guard));
            assert!(sentence.starts_with(begins) && sentence.contains(holds), "{sentence}");
        }
    }

    /// A regression in a metric that is no guard metric still reaches the first line.
    #[test]
    fn whatever_is_worse_is_in_the_headline_and_in_the_ending() {
        let mut whole = comparison(Some(Verdict::Worse));
        whole.design.rule.guards.clear();
        assert_eq!(whole.verdict(), Verdict::Better, "the primary metric's own");
        assert!(whole.has_regression());
        assert_eq!(headline(&whole), "B against A: regression in p99; CPU per record better.");
        // Several figures of the same CPU time count once.
        let cpu = |metric, primary| Judgement {
            estimate: Estimate { metric, ..whole.judgements[0].estimate.clone() },
            verdict: Verdict::Worse,
            primary,
            ..whole.judgements[0].clone()
        };
        let p99 = whole.judgements[1].clone();
        let (record, request) = (cpu(Metric::CpuPerRecord, true), cpu(Metric::CpuPerRequest, false));
        let all = Comparison { judgements: vec![record, request.clone(), p99.clone()], ..whole.clone() };
        assert_eq!(headline(&all), "B against A: regression in CPU per record, p99.");
        let all = Comparison { judgements: vec![p99, request, cpu(Metric::UserCpuPerRecord, false)], ..all };
        assert_eq!(
            headline(&all),
            "B against A: regression in p99, CPU per request; CPU per record not estimated."
        );
    }

    /// The share is too small to exclude a window, but it occurs in pair after pair on one side alone.
    #[test]
    fn requests_that_fail_more_often_are_worse() {
        for (shares, pairs, is_worse) in [
            ([0.0, 0.004], 8, true),
            ([0.0, 0.004], 5, false),
            ([0.0, 0.000_9], 30, false),
            ([0.004, 0.0], 30, false),
            ([0.004, 0.004], 30, false),
        ] {
            let mut whole = comparison(Some(Verdict::NotShown));
            whole.judgements.truncate(1);
            whole.design.rule.guards.clear();
            let pair = hone_record::PairOutcome {
                kind: PairKind::Test,
                failed_share: shares,
                ..hone_record::PairOutcome::default()
            };
            whole.pairs = vec![pair; pairs];
            assert_eq!(whole.has_regression(), is_worse, "{shares:?} in {pairs}");
            let said = sentence(&whole);
            assert_eq!(said.contains("regression in error rate"), is_worse, "{said}");
            assert_eq!(said.contains("0.400 % of the requests fail in B, 0.000 % in A"), is_worse, "{said}");
        }
    }

    #[test]
    fn a_guard_rail_without_a_usable_control_keeps_it_from_being_better() {
        let mut whole = comparison(Some(Verdict::NotShown));
        assert!(sentence(&whole).contains("Guard metric inconclusive: p99 may be as bad as 0.950 × A"));
        whole.design.control_pairs = 6;
        assert_eq!(whole.verdict(), Verdict::NotShown, "no control");
        let control = |ratio: f64| Estimate {
            ratio,
            low: ratio * 0.99,
            high: ratio * 1.01,
            ..whole.judgements[1].estimate.clone()
        };
        let (differs, silent) = (control(1.2), control(1.0));
        whole.judgements[1].control = Some(differs);
        assert_eq!(whole.verdict(), Verdict::NotShown, "a control that differs");
        assert!(sentence(&whole).contains("Guard metric unknown: p99"));
        whole.judgements[1].control = Some(silent);
        assert_eq!(whole.verdict(), Verdict::Better);
    }

    /// The estimate excludes the pairs in which B failed. The verdict must not.
    #[test]
    fn an_arm_that_alone_fails_is_not_called_better() {
        let pair = |index: u32, troubles: [Vec<String>; 2]| hone_record::PairOutcome {
            index,
            kind: PairKind::Test,
            values_a: [].into(),
            values_b: [].into(),
            troubles,
            ..hone_record::PairOutcome::default()
        };
        let trouble = || vec!["B was saturated".to_owned()];
        for (in_a, in_b, both, begins, reason) in [
            (0, 1, 0, "B against A: better", ""),
            (0, 0, 9, "B against A: better", ""),
            (0, 2, 0, "B against A: inconclusive", "B alone had trouble in 2 A/B pairs"),
            (0, 5, 3, "B against A: inconclusive", "B alone had trouble in 5 A/B pairs"),
            (0, 6, 0, "B against A: regression. ", "this is significant by the sign test, so B is worse"),
            (5, 5, 0, "B against A: better", ""),
            (6, 0, 0, "B against A: better", ""),
        ] {
            let mut comparison = comparison(Some(Verdict::NotShown));
            let sides =
                [(in_a, [trouble(), vec![]]), (in_b, [vec![], trouble()]), (both, [trouble(), trouble()])];
            for (count, troubles) in sides {
                comparison.pairs.extend((0..count).map(|index| pair(index, troubles.clone())));
            }
            let sentence = sentence(&comparison);
            assert!(sentence.starts_with(begins) && sentence.contains(reason), "{sentence}");
        }
        let mut broken = comparison(Some(Verdict::NotShown));
        let failed = |index| hone_record::PairOutcome {
            dropped: Some("B ended".to_owned()),
            ..pair(index, [vec![], trouble()])
        };
        broken.pairs = (0..6).map(failed).collect();
        broken.judgements.clear();
        let sentence = sentence(&broken);
        assert!(
            sentence.starts_with("B against A: regression. B does not sustain this load. "),
            "{sentence}"
        );
        assert!(sentence.ends_with("Last failure: B was saturated."), "{sentence}");
        assert!(broken.has_regression());
    }

    /// One change from its text on the command line.
    fn changed(text: &str) -> Comparison {
        let mut whole = comparison(Some(Verdict::NotShown));
        let change = hone_experiment::change::parse(text).unwrap();
        let [a, b] = hone_experiment::change::workloads(&change, &whole.workload).unwrap();
        whole.workload_b = (a != b).then_some(b);
        whole.change = Some(change);
        whole
    }

    #[test]
    fn another_promise_stands_beside_the_verdict() {
        for (text, what) in [
            ("load.acks=1", "acks=-1 in A, acks=1 in B (what must have happened"),
            (
                "broker.log.flush.interval.messages=1",
                "broker.log.flush.interval.messages: existing value -> 1 (when a record is safe from a power cut)",
            ),
            (
                "topic.min.insync.replicas=1",
                "topic.min.insync.replicas: existing value -> 1 (how many replicas",
            ),
            ("load.idempotent=true", "load.idempotent: existing value -> true (whether a repeated send"),
        ] {
            let sentence = sentence(&changed(text));
            let note = format!("The arms have different durability guarantees: {what}");
            assert!(sentence.contains(&note), "{sentence}");
        }
        for text in ["topic.compression.type=zstd", "load.in_flight=2", "client.linger.ms=5"] {
            assert!(!sentence(&changed(text)).contains("durability guarantees"), "{text}");
        }
    }

    #[test]
    fn unlike_loads_are_told_with_what_still_compares() {
        for (text, what) in [
            ("load.records_per_batch=10", "10.000 times the records/s of A"),
            ("load.partitions_per_request=2", "2.000 times the records/s of A"),
            (
                "load.record_bytes=2000",
                "at the same records/s and requests/s. CPU per record and per request compare",
            ),
            ("load.consumers=1", "0 consumers read from A and 1 from B"),
        ] {
            let told = changed(text).unlike_loads().unwrap();
            assert!(told.starts_with("The loads differ") && told.contains(what), "{told}");
        }
        for text in ["load.acks=1", "load.in_flight=2", "topic.flush.ms=1"] {
            assert_eq!(changed(text).unlike_loads(), None, "{text}");
        }
    }
}
