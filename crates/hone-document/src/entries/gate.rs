//! The ledger entries of `hone gate`, one for each judging workload.

use hone_experiment::ledger;
use hone_record::{CommitGate, Comparison, GateFinding, GateOutcome, GateState, LedgerEntry};

/// The result of a gate for one load, without the hashes of its windows.
pub fn entry_of(found: &CommitGate, comparison: &Comparison) -> LedgerEntry {
    let (base, head) = (found.base.short(), found.head.short());
    let of_this: Vec<GateFinding> = found
        .findings
        .iter()
        .filter(|finding| finding.workload == comparison.workload.name)
        .cloned()
        .collect();
    let decision = match GateOutcome::from_findings(&of_this, found.require_power) {
        GateOutcome::Worse => "failed",
        GateOutcome::NotSeen | GateOutcome::TooLittlePower => "could not tell",
        GateOutcome::Passed | GateOutcome::SameProgram => "passed",
    };
    let trouble = of_this.iter().find(|finding| finding.by_troubles && finding.state == GateState::Worse);
    LedgerEntry {
        experiment: found.name.clone(),
        change: format!("binary: commit {head} on {base}"),
        question: format!(
            "Is {head} ({}) worse than {base} under {}?",
            found.head.subject, comparison.workload.name
        ),
        decision: decision.to_owned(),
        why: trouble
            .map_or_else(|| hone_report::verdict::sentence(comparison), |finding| finding.why.clone()),
        run: found.run.clone(),
        ..ledger::entry("gate").judged_by(comparison)
    }
}
