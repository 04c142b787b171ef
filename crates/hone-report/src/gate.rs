//! The outcome of a gate in words, the same in a terminal, on a page, in a comment and in files for CI systems.

use hone_format::{change, change_size, exact_percent};
use hone_record::{CommitGate, GateFinding, GateOutcome, GateState, Metric};

/// The size of a loss (0 to 1).
pub(crate) fn loss_size(loss: f64) -> String {
    change_size(1.0 + loss)
}

/// What a metric does that gets worse.
pub fn loss_word(metric: Metric) -> &'static str {
    if metric.lower_is_better() { "growth" } else { "fall" }
}

/// The outcome, in one or two sentences.
pub fn sentence(found: &CommitGate) -> String {
    let (head, base) = (found.head.short(), found.base.short());
    let of = |finding: &GateFinding| self::finding(found, finding);
    match found.outcome {
        GateOutcome::SameProgram => format!(
            "Passed: {base} and {head} build the same program, byte for byte as it is loaded, so there is nothing to measure."
        ),
        GateOutcome::Worse => {
            let failures: Vec<String> = found.failures().map(of).collect();
            format!("Failed: {head} is worse than {base}. {}.", failures.join(". "))
        }
        GateOutcome::TooLittlePower => {
            let weak: Vec<String> = found.failures().map(of).collect();
            format!(
                "Could not tell whether {head} is worse than {base}. {}. More pairs or longer windows show smaller effects.",
                weak.join(". ")
            )
        }
        GateOutcome::NotSeen => {
            let unseen: Vec<String> = found.failures().map(of).collect();
            format!(
                "Could not tell whether {head} is worse than {base}. {}. Nothing was measured that a verdict could rest on. Where pairs were \
                 excluded, use a quieter machine or more pairs.",
                unseen.join(". ")
            )
        }
        GateOutcome::Passed => {
            let weak: Vec<String> = found
                .findings
                .iter()
                .filter(|finding| finding.primary && !finding.has_power())
                .map(of)
                .collect();
            match &weak[..] {
                [] => format!("Passed: {head} is not shown to be worse than {base}."),
                weak => format!(
                    "Passed: {head} is not shown to be worse than {base}, but these pairs would not have shown a loss by the limit. {}.",
                    weak.join(". ")
                ),
            }
        }
    }
}

/// One finding in a line, for people and for CI systems.
pub fn finding(found: &CommitGate, finding: &GateFinding) -> String {
    let label = label(found, finding);
    let under = format!("{label} under {}", finding.workload);
    let limit = exact_percent(finding.worse_by);
    let smallest = || match finding.detectable_loss() {
        Some(loss) => format!(
            "the smallest {} that these pairs would have shown is {}",
            loss_word(finding.metric),
            loss_size(loss)
        ),
        None => format!("nothing can be said of it: {}", finding.why),
    };
    match (finding.state, finding.ratio) {
        (GateState::Worse, Some([ratio, low, high])) if finding.by_troubles => format!(
            "{under}: {} (what is left of the pairs: {} [{}, {}])",
            finding.why,
            change(ratio),
            change(low),
            change(high)
        ),
        (GateState::Worse, Some([ratio, low, high])) => format!(
            "{under}: {} [{}, {}], and the limit is {limit}",
            change(ratio),
            change(low),
            change(high)
        ),
        (GateState::Worse | GateState::NotSeen, _) => format!("{under}: {}", finding.why),
        (GateState::Tolerated, Some([ratio, ..])) => {
            format!("{under}: {}, which is worse, and below the limit of {limit}", change(ratio))
        }
        (GateState::Held, Some([ratio, low, high])) => {
            format!("{under}: {} [{}, {}]", change(ratio), change(low), change(high))
        }
        (GateState::NotShown, _) => format!("{under}: not shown; {} (limit {limit})", smallest()),
        (state, None) => format!("{under}: {}", state.label()),
    }
}

/// The metric's name in the words of its load.
pub(crate) fn label(found: &CommitGate, finding: &GateFinding) -> &'static str {
    let comparison = found.comparisons.iter().find(|one| one.workload.name == finding.workload);
    comparison.map_or(finding.metric.label(), |comparison| comparison.label(finding.metric))
}
