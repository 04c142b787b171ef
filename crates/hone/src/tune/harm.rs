//! What a kept change does to the others.

use hone_record::{Comparison, Decision, ProofStep, Verdict};

/// How bad: not standing the load comes before a broken guard rail, that before what is worse; then by what it costs.
pub(super) fn harm(step: &ProofStep) -> Option<(u8, f64)> {
    let Some(comparison) = &step.comparison else {
        return (step.decision == Decision::Rejected).then_some((2, 1.0));
    };
    let cost = cost_of(comparison).unwrap_or(1.0);
    let breaks = step.guards.iter().any(|guard| !guard.held);
    let is_worse = comparison.verdict() == Verdict::Worse;
    (breaks || is_worse).then_some((u8::from(breaks), cost))
}

/// Whether a kept change would be put back for what it does to the others.
pub(super) fn harms(step: &ProofStep) -> bool {
    harm(step).is_some()
}

/// The ratio as a cost: above 1 where the change makes the others worse, whichever way the metric counts.
pub(super) fn cost_of(comparison: &Comparison) -> Option<f64> {
    Some(comparison.primary()?.estimate.cost_ratio())
}
