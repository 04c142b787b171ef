//! The ledger entries of `hone gate`, one for each judging workload.

use hone_experiment::ledger;
use hone_record::{
    CommitGate, Comparison, Counted, GateFinding, GateOutcome, GateState, LedgerEntry, Metric,
};

/// The result of a gate for one load, without the hashes of its windows.
pub fn entry_of(found: &CommitGate, comparison: &Comparison) -> LedgerEntry {
    let under = &comparison.workload.name;
    let trouble = of_load(found, under)
        .into_iter()
        .find(|finding| finding.by_troubles && finding.state == GateState::Worse);
    let why = trouble.map_or_else(|| hone_report::verdict::sentence(comparison), |finding| finding.why);
    let entry = ledger::entry("gate").judged_by(comparison);
    LedgerEntry { why, ..with_decision(found, under, entry) }
}

/// The same for a gate that decides by counts.
pub fn entry_of_counts(found: &CommitGate, counted: &Counted) -> LedgerEntry {
    let under = &counted.workload;
    let first = of_load(found, under).into_iter().next();
    let entry = LedgerEntry {
        workload: under.clone(),
        rule: found.rule.clone(),
        metric: Some(Metric::Instructions),
        ratio: Some(counted.ratio()),
        values: Some(counted.instructions()),
        verdict: first.as_ref().and_then(|finding| finding.verdict),
        why: first.map(|finding| finding.why).unwrap_or_default(),
        ..ledger::entry("gate")
    };
    with_decision(found, under, entry)
}

fn of_load(found: &CommitGate, workload: &str) -> Vec<GateFinding> {
    found.findings.iter().filter(|finding| finding.workload == workload).cloned().collect()
}

fn with_decision(found: &CommitGate, workload: &str, entry: LedgerEntry) -> LedgerEntry {
    let (base, head) = (found.base.short(), found.head.short());
    let of_this = of_load(found, workload);
    let decision = match GateOutcome::from_findings(&of_this, found.require_power) {
        GateOutcome::Worse => "failed",
        GateOutcome::NotSeen | GateOutcome::TooLittlePower => "could not tell",
        GateOutcome::Passed | GateOutcome::SameProgram => "passed",
    };
    LedgerEntry {
        experiment: found.name.clone(),
        change: format!("binary: commit {head} on {base}"),
        question: format!("Is {head} ({}) worse than {base} under {workload}?", found.head.subject),
        decision: decision.to_owned(),
        run: found.run.clone(),
        ..entry
    }
}
