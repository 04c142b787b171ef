//! Documents of every kind, of sample records. The test that includes this module has the module `sample` at its root.

use std::collections::BTreeMap;

use hone_experiment::climb::Wanted;
use hone_experiment::fixture::{self, gate};
use hone_record::{
    Altitude, Bisection, ChangePoint, CommitGate, Counted, Decision, GateEvidence, GateOutcome, GateState,
    HistoryOver, HistoryPoint, Hope, LineState, Measure, Metric, MetricHistory, MetricLine, Optimization,
    Proof, ProofStep, PutBack, Together, TriedCommit, TriedState, Tuning, TuningStep,
};
use hone_report::{Document, documents};

use crate::sample;

/// Each document with the name of its kind.
pub(crate) fn documents_of_every_kind() -> Vec<(&'static str, Document)> {
    let (optimization, windows) = sample::optimization();
    let story = sample::story();
    let (tuning, tuned) = sample::tuning();
    let proof = tuning.as_proof();
    vec![
        ("optimization", documents::optimization(&optimization, &windows, Some(&story))),
        ("java service", documents::optimization(&java_service(&optimization), &windows, None)),
        ("comparison", documents::comparison(&optimization.comparisons[0], &windows, None)),
        (
            "comparison without windows",
            documents::comparison(&optimization.comparisons[0], &BTreeMap::new(), None),
        ),
        ("proof", documents::proof(&proof, &tuned, Some(&story))),
        ("proof with predictions", documents::proof(&replicated(), &BTreeMap::new(), None)),
        ("tuning", documents::tuning(&tuning, &tuned, Some(&story))),
        ("tuning with a rolled back change", documents::tuning(&self::tuning(), &BTreeMap::new(), None)),
        ("tuning of a capacity", documents::tuning(&climbing(), &BTreeMap::new(), None)),
        ("host trial", documents::host_trial(&fixture::trial(true), &windows, None)),
        ("host trial of one class", documents::host_trial(&fixture::trial(false), &BTreeMap::new(), None)),
        ("gate", documents::gate(&gate_of_one(&optimization), &windows, Some(&story))),
        ("comment of a gate", documents::gate_comment(&gate(GateOutcome::Worse, GateState::Worse))),
        ("gate of two loads", documents::gate(&gate_of_two(&optimization), &BTreeMap::new(), None)),
        ("gate by counts", documents::gate(&gate_by_counts(), &BTreeMap::new(), None)),
        ("comment of a gate by counts", documents::gate_comment(&gate_by_counts())),
        ("story", documents::story(&story)),
        ("capacity", documents::capacity(&sample::capacity())),
        ("curve", documents::curve(&sample::curve())),
        ("window", documents::window(&sample::window("baseline", 1, 1.0))),
        ("window with events", documents::window(&sample::eventful())),
        ("saturated window", documents::window(&sample::saturated_window())),
        ("heatmap", documents::heatmap(&sample::heatmap())),
        ("diagnosis", documents::diagnosis(&sample::diagnosis())),
        ("diagnosis of two", documents::diagnosis(&sample::diagnosis_of_two())),
        ("xray", documents::xray(&sample::xray())),
        ("tail", documents::tail(&sample::tail())),
        ("history", documents::history(&history(&["broker", "client"]))),
        ("history of one line", documents::history(&history(&["broker"]))),
    ]
}

/// A history with a new change point in each line.
fn history(names: &[&str]) -> MetricHistory {
    let point = |place: u64| HistoryPoint {
        label: format!("commit-{place}"),
        at_unix_ms: 1_795_200_420_000 + place * 60_000,
        value: if place < 8 { 100.0 } else { 125.0 },
        windows: 3,
        source: "nightly".to_owned(),
        ..HistoryPoint::default()
    };
    let line = |name: &&str| MetricLine {
        id: "0123456789abcdef".to_owned(),
        name: (*name).to_owned(),
        circumstances: "1,000 requests/s".to_owned(),
        measure: Measure::of_metric(Metric::LatencyP50, HistoryOver::Commits),
        state: LineState::NewWorse,
        change_points: vec![ChangePoint {
            first: 8,
            before: 100.0,
            after: 125.0,
            ratio: 1.25,
            p_value: 0.005,
        }],
        points: (0..12).map(point).collect(),
        left_out: 4,
        ..MetricLine::default()
    };
    let lines = names.iter().map(line).collect();
    MetricHistory { lines, within: 5, rule: "The rule.".to_owned(), notes: vec!["a note".to_owned()] }
}

/// A proof of a replica that differs from its topic.
pub(crate) fn replicated() -> Proof {
    Proof { replica: Some(sample::replica()), ..fixture::proof() }
}

/// Two changes that were accepted, one that was not.
pub(crate) fn tuning() -> Tuning {
    let proof = fixture::proof();
    let step = |change: &str, decision| TuningStep {
        altitude: Altitude::Client,
        hope: Hope::new(0.25, "batches are small"),
        passed_over: vec!["codec=lz4".to_owned()],
        step: ProofStep { change: change.to_owned(), decision, ..proof.steps[0].clone() },
    };
    let steps = vec![
        step("linger=20ms", Decision::Accepted),
        step("env.X=1", Decision::Rejected),
        step("codec=zstd", Decision::Accepted),
    ];
    let together = Together {
        all: Some(steps[2].step.clone()),
        product: Some(0.5),
        without: vec![ProofStep { decision: Decision::Rejected, ..steps[2].step.clone() }],
        put_back: vec![PutBack {
            change: "linger=20ms".to_owned(),
            why: "it breaks p99<1ms".to_owned(),
            step: steps[0].step.clone(),
        }],
    };
    Tuning {
        core_price: None,
        name: "orders".to_owned(),
        target: proof.target,
        load: proof.load,
        workload: proof.workload.clone(),
        workload_kept: proof.workload,
        objective: Metric::CpuPerRecord,
        durability: proof.durability,
        rule: proof.rule,
        allowed: vec![Altitude::Client],
        budget_s: None,
        took_s: 10.0,
        first: steps[0].step.before.clone(),
        steps,
        kept: vec!["codec=zstd".to_owned()],
        together: Some(together),
        stopped: "nothing is left that is expected to help".to_owned(),
        to_keep: vec!["codec=zstd: set it".to_owned()],
        limits: proof.limits,
        machine: proof.machine,
        software: proof.software,
    }
}

/// The same steps, tuned for the capacity.
pub(crate) fn climbing() -> Tuning {
    let of_capacity = |step: &mut ProofStep| {
        let Some(comparison) = &mut step.comparison else { return };
        comparison.design.rule.primary = Metric::Capacity;
        let judged = comparison.judgements.iter_mut().filter(|judged| judged.primary);
        judged.for_each(|judged| judged.estimate.metric = Metric::Capacity);
    };
    let mut found = tuning();
    let wanted = Wanted { slo: Some("p99=10ms".to_owned()), ..Wanted::default() };
    found.workload = wanted.of(found.workload, Metric::Capacity).unwrap();
    found.objective = Metric::Capacity;
    found.steps.iter_mut().for_each(|step| of_capacity(&mut step.step));
    found.together.iter_mut().filter_map(|together| together.all.as_mut()).for_each(of_capacity);
    found
}

/// The same comparisons, of a Java service.
fn java_service(optimization: &Optimization) -> Optimization {
    Optimization {
        name: "kafka-jvm".to_owned(),
        artifacts: Vec::new(),
        ceilings: Vec::new(),
        jvm: Some(sample::jvm_account()),
        ..optimization.clone()
    }
}

/// The gate of the first load of an optimization, with its counts.
fn gate_of_one(optimization: &Optimization) -> CommitGate {
    let comparisons = optimization.comparisons.iter().take(1).cloned().collect();
    CommitGate { comparisons, counted: vec![sample::counted()], ..gate(GateOutcome::Worse, GateState::Worse) }
}

/// A gate that decides by counts: under one load the head differs, under the other it doesn't.
fn gate_by_counts() -> CommitGate {
    let mut found = gate(GateOutcome::Worse, GateState::Worse);
    let mut counted = sample::counted();
    // The sample saves instructions.
    counted.counts.reverse();
    counted.code.iter_mut().for_each(|change| change.instructions.reverse());
    let [before, _] = counted.counts.clone();
    let same = Counted {
        workload: "plain".to_owned(),
        counts: [before.clone(), before],
        code: Vec::new(),
        ..counted.clone()
    };
    for finding in &mut found.findings {
        finding.metric = Metric::Instructions;
        finding.workload = counted.workload.clone();
        (finding.ratio, finding.values) = (Some(counted.ratio()), Some(counted.instructions()));
        finding.why = format!("{}, limit 3 %", hone_report::counted::sentence(&counted));
    }
    let tried = |commit: &str, state, ratio, why: Option<&str>| TriedCommit {
        commit: commit.repeat(40),
        subject: format!("change | <{commit}>"),
        state,
        ratio,
        why: why.map(str::to_owned),
    };
    let bisection = Bisection {
        good: "a".repeat(40),
        bad: "e".repeat(40),
        commits: 16,
        tried: vec![
            tried("e", TriedState::Bad, Some(1.0101), None),
            tried("c", TriedState::Skipped, None, Some("cc: main.c:7: `x` is not declared")),
            tried("d", TriedState::Good, Some(1.0), None),
            tried("b", TriedState::Bad, Some(1.0098), None),
        ],
        left: vec!["c".repeat(40)],
    };
    let bisection = Some(bisection);
    CommitGate { evidence: GateEvidence::Counted, counted: vec![counted, same], bisection, ..found }
}

/// The gate of all its loads.
fn gate_of_two(optimization: &Optimization) -> CommitGate {
    let counted =
        ["validate", "plain"].map(|load| Counted { workload: load.to_owned(), ..sample::counted() });
    let comparisons = optimization.comparisons.clone();
    CommitGate { comparisons, counted: counted.into(), ..gate_of_one(optimization) }
}
