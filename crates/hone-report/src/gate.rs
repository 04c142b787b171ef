//! The outcome of a gate in words. The terminal, the page, the comment and the files for CI systems share it.

use hone_format::{change, change_size, counted, exact_percent};
use hone_record::{Bisection, CommitGate, GateFinding, GateOutcome, GateState, Metric};

/// The size of a loss (0 to 1).
pub(crate) fn loss_size(loss: f64) -> String {
    change_size(1.0 + loss)
}

/// How a metric gets worse: it grows or it falls.
pub fn loss_word(metric: Metric) -> &'static str {
    if metric.lower_is_better() { "growth" } else { "fall" }
}

/// The outcome, in one or two sentences.
pub fn sentence(found: &CommitGate) -> String {
    let (head, base) = (found.head.short(), found.base.short());
    let of = |finding: &GateFinding| self::finding(found, finding);
    match found.outcome {
        GateOutcome::SameProgram => format!(
            "Passed: {base} and {head} build the same program, byte for byte as loaded, so there is nothing \
             to measure."
        ),
        GateOutcome::Worse => {
            let failures: Vec<String> = found.failures().map(of).collect();
            format!("Failed: {head} has a regression compared with {base}. {}.", failures.join(". "))
        }
        GateOutcome::TooLittlePower => {
            let weak: Vec<String> = found.failures().map(of).collect();
            format!("Inconclusive: {head} may be worse than {base}. {}.", weak.join(". "))
        }
        GateOutcome::NotSeen => {
            let unseen: Vec<String> = found.failures().map(of).collect();
            format!(
                "Inconclusive: {head} may be worse than {base}. {}. No measurement supports a verdict. If \
                 Hone excluded pairs, use a quieter machine or more pairs.",
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
                [] => format!("Passed: {head} shows no regression compared with {base}."),
                weak => format!(
                    "Passed: {head} shows no regression compared with {base}, but these pairs would not have \
                     found a loss at the limit. {}.",
                    weak.join(". ")
                ),
            }
        }
    }
}

/// The search that led to the two commits, in words.
pub(crate) fn search_words(search: &Bisection) -> String {
    let short = |commit: &str| commit.get(..10).unwrap_or(commit).to_owned();
    let left = match &search.left[..] {
        [] => String::new(),
        left => {
            let left: Vec<String> = left.iter().map(|commit| short(commit)).collect();
            format!(" {} before it can't be judged, and may be the first bad one.", left.join(", "))
        }
    };
    format!(
        "The head is the first bad one of {} after {}, up to {}; Hone built {} of them.{left}",
        counted(u64::from(search.commits), "commit", "commits"),
        short(&search.good),
        short(&search.bad),
        search.tried.len()
    )
}

/// One finding in a line, for people and for CI systems.
pub fn finding(found: &CommitGate, finding: &GateFinding) -> String {
    let label = label(found, finding);
    let under = format!("{label} under {}", finding.workload);
    let limit = exact_percent(finding.worse_by);
    let smallest = || match finding.detectable_loss() {
        Some(loss) => format!(
            "the smallest {} that these pairs would have found is {}",
            loss_word(finding.metric),
            loss_size(loss)
        ),
        None => format!("there is no estimate: {}", finding.why),
    };
    match (finding.state, finding.ratio) {
        // It has its figures and its limit.
        (_, Some(_)) if finding.metric == Metric::Instructions => finding.why.clone(),
        (GateState::Worse, Some([ratio, low, high])) if finding.by_troubles => format!(
            "{under}: {} (remaining pairs: {} [{}, {}])",
            finding.why,
            change(ratio),
            change(low),
            change(high)
        ),
        (GateState::Worse, Some([ratio, low, high])) => {
            format!("{under}: {} [{}, {}], limit {limit}", change(ratio), change(low), change(high))
        }
        (GateState::Worse | GateState::NotSeen, _) => format!("{under}: {}", finding.why),
        (GateState::Tolerated, Some([ratio, ..])) => {
            format!("{under}: {}, a regression below the limit of {limit}", change(ratio))
        }
        (GateState::Held, Some([ratio, low, high])) => {
            format!("{under}: {} [{}, {}]", change(ratio), change(low), change(high))
        }
        (GateState::NotShown, _) => format!("{under}: inconclusive; {} (limit {limit})", smallest()),
        (state, None) => format!("{under}: {}", state.label()),
    }
}

/// The metric's name in the words of its load.
pub(crate) fn label(found: &CommitGate, finding: &GateFinding) -> &'static str {
    let comparison = found.comparisons.iter().find(|one| one.workload.name == finding.workload);
    comparison.map_or(finding.metric.label(), |comparison| comparison.label(finding.metric))
}
