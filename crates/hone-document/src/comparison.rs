//! A comparison as text.

use hone_format::{exact_percent, measured, ratio};
use hone_record::{Comparison, Judgement, Metric, Mode, PairKind, PairOutcome, Verdict};
use hone_report::verdict::{headline, interval, sentence};

use crate::table::{in_a_cell, table};
use crate::wrapped;

/// The whole account of a comparison.
pub fn text(comparison: &Comparison) -> String {
    let reasons = [refused(comparison), not_estimated(comparison)].concat();
    let notes = [rules(comparison), circumstances(comparison)].concat();
    format!("{}{}{}{}", found(comparison), indented(&reasons), paragraphs(&notes), dropped(comparison))
}

/// What is of this comparison alone. What explains it, and the others of the same run, is in [`explanations`].
pub fn own(comparison: &Comparison) -> String {
    let (reasons, notes) = (not_estimated(comparison), circumstances(comparison));
    format!("{}{}{}{}", found(comparison), indented(&reasons), paragraphs(&notes), dropped(comparison))
}

/// How to read the table: the rule and the signs, and what such a load can't tell. The same for all comparisons of a design.
pub fn explanations(comparison: &Comparison) -> Vec<String> {
    [rules(comparison), refused(comparison)].concat()
}

/// The verdict in a sentence, and the table.
fn found(comparison: &Comparison) -> String {
    let mut rows = vec![
        [
            "metric",
            &comparison.a,
            &comparison.b,
            "change",
            "ratio",
            "interval and its level",
            "verdict",
            "A/A control",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    rows.extend(comparison.judgements.iter().map(|judgement| row(comparison, judgement)));
    format!("{}\n\n{}", wrapped(&sentence(comparison)), table(&rows))
}

/// For a pull request: the headline, the metrics that carry it, and whatever is worse, as Markdown.
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

fn indented(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {line}\n")).collect()
}

/// Behind an empty line, each wrapped.
pub fn paragraphs(notes: &[String]) -> String {
    let lines: String = notes.iter().map(|note| format!("{}\n", wrapped(note))).collect();
    if lines.is_empty() { lines } else { format!("\n{lines}") }
}

/// Metrics that no window of this load can tell.
fn refused(comparison: &Comparison) -> Vec<String> {
    missing(comparison, true)
}

/// Metrics that these windows did not tell.
fn not_estimated(comparison: &Comparison) -> Vec<String> {
    missing(comparison, false)
}

/// Each reason once, behind the metrics that it holds for.
fn missing(comparison: &Comparison, is_refused: bool) -> Vec<String> {
    let of_kind = |metric: &Metric| {
        comparison.design.refused.contains_key(metric) == is_refused && !comparison.is_same_again(*metric)
    };
    let mut told: Vec<(Vec<&str>, String)> = Vec::new();
    for (metric, reason) in comparison.not_estimated.iter().filter(|(metric, _)| of_kind(metric)) {
        let (label, reason) = (comparison.label(*metric), format!("{reason}{}", needs(comparison, *metric)));
        match told.iter_mut().find(|(_, other)| *other == reason) {
            Some((labels, _)) => labels.push(label),
            None => told.push((vec![label], reason)),
        }
    }
    told.iter().map(|(labels, reason)| format!("{}: {reason}", labels.join(", "))).collect()
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

/// The difference as benchstat writes it: a percentage with its sign, or `~` where none is shown.
fn change(judgement: &Judgement) -> String {
    match judgement.verdict {
        Verdict::NotShown => "~".to_owned(),
        _ => hone_format::change(judgement.estimate.ratio),
    }
}

/// What a window must have before it tells a metric.
fn needs(comparison: &Comparison, metric: Metric) -> String {
    if comparison.design.refused.contains_key(&metric) {
        // The reason says so already.
        return String::new();
    }
    match metric {
        Metric::UserCpuPerRecord => " (the user share needs 0.1 s of CPU a window)".to_owned(),
        _ => metric.samples_needed().map_or(String::new(), |needed| {
            format!(
                " (a {} needs {} requests a window)",
                comparison.label(metric),
                hone_format::count(needed)
            )
        }),
    }
}

/// The verdict with a shape, so that it does not hang on colour or on reading closely.
pub fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "+ better",
        Verdict::Worse => "! worse",
        Verdict::Equivalent => "= equivalent",
        Verdict::NotShown => "? not shown",
    }
}

fn dropped(comparison: &Comparison) -> String {
    let line = |pair: &PairOutcome| Some(format!("  pair {}: {}\n", pair.number(), pair.dropped.as_ref()?));
    let lines: String = comparison.pairs.iter().filter_map(line).collect();
    if lines.is_empty() { lines } else { format!("  Pairs that do not count:\n{lines}") }
}

/// The signs of the table, the rule for the verdict, and the one by which pairs were left out.
fn rules(comparison: &Comparison) -> Vec<String> {
    let design = &comparison.design;
    let mut lines = vec![format!(
        "* primary metric, g guard rail. {} Values are geometric means over the pairs.",
        design.rule.words
    )];
    if design.mode == Mode::Duet {
        let duet = "In a duet both arms share the machine: latency differences come out smaller than alone.";
        lines.push(duet.to_owned());
    }
    lines.extend(design.control_limits().map(str::to_owned));
    let any_dropped = comparison.pairs.iter().any(|pair| pair.dropped.is_some());
    lines.extend(design.disturbance.as_ref().filter(|_| any_dropped).map(|rule| rule.words.clone()));
    lines
}

/// What else must be known of these figures: the change, the builds, what the clock cut.
fn circumstances(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    let design = &comparison.design;
    if let Some(change) = &comparison.change {
        lines.push(format!("B is A with {}.", change.label()));
    }
    let measured =
        |names: &[String]| if names.is_empty() { "unknown processes".to_owned() } else { names.join(", ") };
    if comparison.measured.iter().any(|names| !names.is_empty()) {
        let [a, b] = comparison.measured.each_ref().map(|names| measured(names));
        lines.push(format!("Measured processes in the first A/B pair: {a} in A, {b} in B."));
    }
    lines.extend(comparison.reservations());
    lines.extend(comparison.unlike_loads());
    lines.extend(unmet(comparison));
    let primary = comparison.primary().and_then(|primary| Some((primary, primary.estimate.builds?)));
    if let Some((primary, starts)) = primary.filter(|_| design.starts > 0 && !design.has_several_builds()) {
        lines.push(format!(
            "The processes were started {} times, each for several pairs: {} moves by {:.1} % between starts and by {:.1} % \
             between pairs of one start (standard deviations); the interval rests on the starts.",
            starts.blocks,
            comparison.label(primary.estimate.metric),
            starts.between_log_sd * 100.0,
            starts.within_log_sd * 100.0
        ));
    } else if let Some((primary, builds)) = primary {
        let mut line = format!(
            "{} builds of A, {} of B: {} moves by {:.1} % between builds and by {:.1} % between pairs of one build \
             (standard deviations); the interval rests on {} blocks of builds.",
            design.builds[0],
            design.builds[1],
            comparison.label(primary.estimate.metric),
            builds.between_log_sd * 100.0,
            builds.within_log_sd * 100.0,
            builds.blocks
        );
        if let Some(single) =
            ["A", "B"].iter().zip(design.builds).find_map(|(name, count)| (count == 1).then_some(name))
        {
            line.push_str(&format!(" {single} is one build, whose own luck the interval does not know."));
        }
        lines.push(line);
    }
    lines.extend(comparison.one_layout_words());
    if let Some(pilot) = &comparison.pilot {
        lines.push(crate::plan::sentence(pilot));
    }
    if let Some(budget) = &design.budget {
        lines.push(budget.words.clone());
    }
    if comparison.unmeasured_pairs > 0 {
        lines.push(format!(
            "The clock ended the run {} pairs before its plan; what was measured is judged by the same rule.",
            comparison.unmeasured_pairs
        ));
    }
    let tests = || comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    let (dropped, measured) = (tests().filter(|pair| pair.dropped.is_some()).count(), tests().count());
    let failed = tests()
        .filter(|pair| pair.dropped.is_some() && pair.troubles.iter().any(|arm| !arm.is_empty()))
        .count();
    if dropped * 4 > measured {
        lines.push(format!(
            "{dropped} of {measured} A/B pairs do not count, {failed} of them because an arm failed. What is left may be the \
             quiet part of the truth. For neighbours: repeat it on a quieter machine, or see with --keep-disturbed what those \
             pairs would have said. For an arm that fails: ask for less (--rate), or take the failure for the result."
        ));
    }
    lines
}

/// What pairs can't say of a tail: an event that none of their windows met.
fn unmet(comparison: &Comparison) -> Option<String> {
    let rule = &comparison.design.rule;
    let tail = |metric: &Metric| {
        matches!(metric, Metric::LatencyP99 | Metric::LatencyP999 | Metric::LatencyMax)
            && (*metric == rule.primary || rule.guards.contains(metric))
    };
    let of_tails =
        comparison.judgements.iter().map(|found| &found.estimate).filter(|found| tail(&found.metric));
    let pairs = of_tails.map(|found| found.pairs).min()?;
    let none_in = |windows: f64| 100.0 * (1.0 - 1.0 / windows).powi(pairs as i32);
    Some(format!(
        "A tail lives on rare events: what happens in one window of 5 is in none of {pairs} with a probability of {:.0} %, in \
         one of 10 with {:.0} %, in one of 20 with {:.0} %; an interval knows nothing of what no window met.",
        none_in(5.0),
        none_in(10.0),
        none_in(20.0)
    ))
}

#[cfg(test)]
pub(crate) mod tests {
    use hone_experiment::fixture::comparison;
    use hone_record::Estimate;

    use super::*;

    /// The first words are the verdict on the whole, and they never contradict what follows.
    #[test]
    fn the_headline_is_the_whole_verdict() {
        for (guard, begins, holds) in [
            (
                Some(Verdict::NotShown),
                "B against A: better. CPU per record is better: 0.900 × A",
                "interval 0.850 to 0.950",
            ),
            (
                Some(Verdict::Worse),
                "B against A: CPU per record better, p99 worse. CPU per record is better",
                "Guard metric p99 is worse: ",
            ),
            (None, "B against A: not shown. CPU per record is better", "Guard rail not seen: p99"),
        ] {
            let sentence = sentence(&comparison(guard));
            assert!(sentence.starts_with(begins) && sentence.contains(holds), "{sentence}");
        }
    }

    /// A metric that nobody named as a guard: what is proven reaches the first line all the same.
    #[test]
    fn whatever_is_worse_is_in_the_headline_and_in_the_ending() {
        let mut whole = comparison(Some(Verdict::Worse));
        whole.design.rule.guards.clear();
        assert_eq!(whole.verdict(), Verdict::Better, "the primary metric's own");
        assert!(whole.has_regression());
        assert_eq!(headline(&whole), "B against A: CPU per record better, p99 worse.");
        // Figures of one CPU time are one.
        let cpu = |metric, primary| Judgement {
            estimate: Estimate { metric, ..whole.judgements[0].estimate.clone() },
            verdict: Verdict::Worse,
            primary,
            ..whole.judgements[0].clone()
        };
        let p99 = whole.judgements[1].clone();
        let (record, request) = (cpu(Metric::CpuPerRecord, true), cpu(Metric::CpuPerRequest, false));
        let all = Comparison { judgements: vec![record, request.clone(), p99.clone()], ..whole.clone() };
        assert_eq!(headline(&all), "B against A: CPU per record worse, p99 worse.");
        let all = Comparison { judgements: vec![p99, request, cpu(Metric::UserCpuPerRecord, false)], ..all };
        assert_eq!(
            headline(&all),
            "B against A: p99 worse, CPU per request worse, CPU per record not estimated."
        );
    }

    /// Fewer than exclude a window, and in pair after pair on one side alone.
    #[test]
    fn requests_that_fail_more_often_are_worse() {
        for (shares, pairs, is_worse) in [
            ([0.0, 0.004], 8, true),
            ([0.0, 0.004], 5, false),
            ([0.0, 0.000_9], 30, false),
            ([0.004, 0.0], 30, false),
            ([0.004, 0.004], 30, false),
        ] {
            let mut whole = of_operations("B", "w");
            let pair =
                hone_record::PairOutcome { dropped: None, failed_share: shares, ..whole.pairs[0].clone() };
            whole.pairs = vec![pair; pairs];
            assert_eq!(whole.has_regression(), is_worse, "{shares:?} in {pairs}");
            let said = sentence(&whole);
            assert_eq!(said.contains("error rate worse"), is_worse, "{said}");
            assert_eq!(said.contains("0.400 % of the requests fail in B, 0.000 % in A"), is_worse, "{said}");
        }
    }

    #[test]
    fn a_guard_rail_without_a_usable_control_keeps_it_from_being_better() {
        let mut whole = comparison(Some(Verdict::NotShown));
        assert!(sentence(&whole).contains("Guard rail not decided: p99 may be as bad as 0.950 × A"));
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
        assert!(sentence(&whole).contains("Guard rail not seen: p99"));
        whole.judgements[1].control = Some(silent);
        assert_eq!(whole.verdict(), Verdict::Better);
    }

    /// Pairs of B's failures are gone from the estimate, and must not be gone from the verdict.
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
            (0, 2, 0, "B against A: not shown", "B alone had trouble in 2 A/B pairs"),
            (0, 5, 3, "B against A: not shown", "B alone had trouble in 5 A/B pairs"),
            (0, 6, 0, "B against A: worse. ", "clearly more often"),
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
        assert!(sentence.starts_with("B against A: worse. B does not sustain this load. "), "{sentence}");
        assert!(sentence.ends_with("The last time: B was saturated."), "{sentence}");
        assert!(broken.has_regression());
    }

    /// One change by its text, as the command line has it.
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
                "broker.log.flush.interval.messages: as it is -> 1 (when a record is safe from a power cut)",
            ),
            ("topic.min.insync.replicas=1", "topic.min.insync.replicas: as it is -> 1 (how many replicas"),
            ("load.idempotent=true", "load.idempotent: as it is -> true (whether what is sent again"),
        ] {
            let sentence = sentence(&changed(text));
            let note = format!("The arms promise different things: {what}");
            assert!(sentence.contains(&note), "{sentence}");
        }
        for text in ["topic.compression.type=zstd", "load.in_flight=2", "client.linger.ms=5"] {
            assert!(!sentence(&changed(text)).contains("promise"), "{text}");
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
            assert!(super::text(&changed(text)).contains("The loads differ"));
        }
        for text in ["load.acks=1", "load.in_flight=2", "topic.flush.ms=1"] {
            assert_eq!(changed(text).unlike_loads(), None, "{text}");
        }
    }

    #[test]
    fn a_tail_comes_with_what_its_pairs_may_never_have_met() {
        let mut whole = comparison(Some(Verdict::NotShown));
        whole.judgements[1].estimate.pairs = 14;
        let shown = text(&whole).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(shown.contains("none of 14 with a probability of 4 %, in one of 10 with 23 %"), "{shown}");
        whole.design.rule.guards.clear();
        assert_eq!(unmet(&whole), None, "the verdict hangs on no tail");
    }

    /// A comparison under a load of operations, as it is judged: what no such window can tell is refused.
    pub(crate) fn of_operations(b: &str, workload: &str) -> Comparison {
        let mut whole = comparison(Some(Verdict::NotShown));
        let engine = hone_record::Engine::Exits { arguments: Vec::new(), operations: 9 };
        whole.workload = hone_record::Workload::of_operations(workload, engine);
        whole.b = b.to_owned();
        whole.design.mode = Mode::Solo;
        whole.design.refused = hone_compare::refused_for_operations(Metric::CpuPerRecord);
        whole.not_estimated = whole.design.refused.clone();
        whole.not_estimated.insert(Metric::UserCpuPerRecord, "only 0 of the pairs".to_owned());
        whole.judgements.truncate(1);
        whole.design.rule.guards.clear();
        whole.pairs = vec![hone_record::PairOutcome {
            index: 11,
            kind: PairKind::Test,
            values_a: [].into(),
            values_b: [].into(),
            dropped: Some("neighbours".to_owned()),
            ..hone_record::PairOutcome::default()
        }];
        whole
    }

    #[test]
    fn operations_are_no_records_and_each_reason_stands_once() {
        let shown = text(&of_operations("B", "w"));
        assert!(shown.contains("  user CPU per operation: only 0 of the pairs"), "{shown}");
        assert!(shown.contains("  p50, p90, p99, p99.9, max: the load's command counts"), "{shown}");
        assert!(!shown.contains("per record") && !shown.contains("per request"), "{shown}");
        assert!(!shown.contains("same figure again"), "{shown}");
        assert!(shown.contains("  pair 12: neighbours"), "{shown}");
    }

    #[test]
    fn primary_and_guard_are_marked_and_missing_rows_say_what_they_need() {
        let shown = text(&comparison(Some(Verdict::NotShown)));
        assert!(shown.contains("* CPU per record") && shown.contains("g p99"), "{shown}");
        assert!(shown.contains("−10.0 %") && shown.contains("~"), "{shown}");
        let shown = text(&comparison(None));
        assert!(shown.contains("p99: only 0 of the pairs (a p99 needs 1,000 requests a window)"), "{shown}");
    }
}
