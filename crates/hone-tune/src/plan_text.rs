//! Prints what a run of `hone tune` would do, and how long it would take.

use hone_format::{count, duration};

use crate::candidate::Candidate;
use crate::estimate::{Estimate, Planned, Span};
use crate::rank::{Ranked, ranked};
use crate::settings::TuneSettings;
use hone_document::wrapped;
use hone_report::prediction::expected_gain;

/// What the run would try, with the time of each part and in total.
pub fn text(planned: &Planned) -> String {
    let Planned { asked, estimate, no_knobs } = planned;
    let allowed: Vec<&str> = asked.allowed.iter().map(|altitude| altitude.label()).collect();
    let forbidden = match &asked.forbid[..] {
        [] => String::new(),
        names => format!(" Forbidden: {}.", names.join(", ")),
    };
    let budget = match asked.budget_s {
        Some(budget_s) => format!("at most {}", duration(budget_s)),
        None => "as long as there is something to try".to_owned(),
    };
    let found = if asked.find {
        "Hone first measures the service, and adds candidates that follow from its batches, requests and \
         codecs."
    } else {
        "find = false: Hone tries nothing else."
    };
    let no_slack = asked.without_slack().map(|notice| format!("\n{}", wrapped(&notice))).unwrap_or_default();
    let no_knobs = no_knobs.iter().map(|why| {
        format!(
            "\n\n{}",
            wrapped(&format!(
                "Hone tries no settings of this \
             machine: {why}."
            ))
        )
    });
    format!(
        "{}: {}\nAllowed: {}.{forbidden} Objective: {}. Budget: {budget}.{no_slack}\n\n{}\n\nCandidates, the largest expected gain per minute first:\n{}\n\n{}{}\n\n{}\n",
        asked.name,
        asked.target,
        allowed.join(", "),
        asked.objective.label(),
        times(asked.budget_s, estimate),
        candidates(asked, estimate),
        wrapped(found),
        no_knobs.collect::<String>(),
        wrapped(&asked.rule())
    )
}

/// The known candidates, in the order in which Hone tries them.
fn candidates(asked: &TuneSettings, estimate: &Estimate) -> String {
    let cost = |one: &Candidate| estimate.known.iter().find(|known| known.candidate == one.name);
    let all = asked
        .candidates
        .iter()
        .map(|one| (one.clone(), cost(one).map_or(estimate.comparison.least_s, |known| known.takes.least_s)));
    let lines: Vec<String> = ranked(all)
        .iter()
        .map(|Ranked { candidate, cost_s }| {
            format!(
                "  {} ({}), {} of windows, {}: {}",
                candidate.name,
                candidate.altitude.label(),
                duration(*cost_s),
                expected_gain(&candidate.hope),
                candidate.hope.why
            )
        })
        .collect();
    if lines.is_empty() { "  none".to_owned() } else { lines.join("\n") }
}

/// The parts with their times, the total, and how far the budget reaches.
fn times(budget_s: Option<f64>, estimate: &Estimate) -> String {
    let row = |what: &str, takes: &Span| {
        let most = takes.most_s.map_or("not known".to_owned(), duration);
        format!("{:>11}  {:>11}  {what}", duration(takes.least_s), most)
    };
    let rows = estimate.parts.iter().map(|part| row(&part.what, &part.takes));
    let head = format!("{:>11}  {:>11}", "least", "most");
    let sum = row("total", &estimate.total);
    let lines: Vec<String> = std::iter::once(head).chain(rows).chain([sum]).collect();
    let meaning = "Least: windows only, and each candidate once. Most: warm-ups, the longest usual start \
         time, every disturbed comparison measured twice, and every possible candidate tried and kept. Not \
         included: trials that a kept change makes necessary, and re-tests after a change is rolled back at \
         the end.";
    let reach = budget_s.map(|budget_s| format!("\n\n{}", wrapped(&reach(budget_s, estimate))));
    format!("{}\n\n{}{}", lines.join("\n"), wrapped(meaning), reach.unwrap_or_default())
}

/// How far a budget reaches.
fn reach(budget_s: f64, estimate: &Estimate) -> String {
    let Estimate { total, comparison, first_change_s, .. } = estimate;
    let budget = duration(budget_s);
    if budget_s < *first_change_s {
        return format!(
            "The budget of {budget} is too short for a single change: the first trial starts after {} at the \
             earliest. Nothing would be kept. Raise the budget, or use shorter windows or fewer pairs.",
            duration(*first_change_s)
        );
    }
    if total.most_s.is_some_and(|most_s| most_s <= budget_s) {
        return format!("The budget of {budget} is long enough for everything.");
    }
    let before_s = first_change_s - comparison.least_s;
    let of = |one_s: f64| ((budget_s - before_s) / one_s.max(1e-3)).floor().max(0.0);
    let most = of(comparison.least_s);
    let fewest = comparison.most_s.map_or(0.0, of).min(most);
    let whole = if total.least_s <= budget_s {
        "It is long enough for all known candidates, if starts are short."
    } else {
        "It is too short for all known candidates: Hone starts with the largest expected gain per minute and \
         skips the rest."
    };
    format!(
        "The budget of {budget} is enough for {} to {} comparisons, the final ones included. {whole}",
        count(fewest as u64),
        count(most as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A first look of 50 s, and comparisons of 130 to 200 s, of which three are known.
    fn estimate() -> Estimate {
        let span = |least_s, most_s| Span { least_s, most_s: Some(most_s) };
        Estimate {
            parts: Vec::new(),
            total: span(440.0, 1_500.0),
            known: Vec::new(),
            comparison: span(130.0, 200.0),
            first_change_s: 180.0,
        }
    }

    #[test]
    fn how_far_a_budget_reaches_is_told() {
        for (budget_s, expected) in [
            (120.0, "is too short for a single change: the first trial starts after 3 min"),
            (
                310.0,
                "is enough for 1 to 2 comparisons, the final ones included. It is too short for all known candidates",
            ),
            (
                500.0,
                "is enough for 2 to 3 comparisons, the final ones included. It is long enough for all known candidates",
            ),
            (1_500.0, "of 25 min is long enough for everything."),
        ] {
            let told = reach(budget_s, &estimate());
            assert!(told.contains(expected), "{budget_s}: {told}");
        }
        let unknown = Estimate { total: Span { least_s: 440.0, most_s: None }, ..estimate() };
        assert!(
            reach(9_000.0, &unknown).contains("is enough for 44 to 68 comparisons"),
            "{}",
            reach(9_000.0, &unknown)
        );
    }

    #[test]
    fn what_nobody_knows_is_not_summed_up() {
        let unknown = Estimate { total: Span { least_s: 440.0, most_s: None }, ..estimate() };
        let told = times(None, &unknown);
        assert!(told.contains(" 7 min 20 s    not known  total"), "{told}");
    }
}
