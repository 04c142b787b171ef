//! A learned budget, and a run compared with one, as text.

use std::path::Path;

use hone_format::{change, exact_percent, measured};

use crate::diagnose::gate::{Budget, Gate, Held, Outcome};
use hone_document::table::table;

/// A figure with a larger difference between repeats detects little.
const WIDE: f64 = 0.25;

/// From this change on, the text gives a factor.
const MANY_TIMES: f64 = 10.0;

/// The learned budget.
pub fn learned(budget: &Budget, path: &Path) -> String {
    let mut rows = vec![["", "learned", "tolerance"].map(str::to_owned).to_vec()];
    for (name, allowed) in &budget.figures {
        rows.push(vec![name.clone(), measured(allowed.value), exact_percent(allowed.tolerance)]);
    }
    let mut out = format!(
        "Evidence: {}\nFrom {}\n\n{}\n{} figures learned: {}\n",
        budget.evidence.label(),
        budget.of,
        table(&rows),
        budget.figures.len(),
        path.display()
    );
    for (name, _) in budget.figures.iter().filter(|(_, allowed)| allowed.tolerance > WIDE) {
        out.push_str(&format!(
            "note: {name}: the repeats differ so much that this figure detects little; more --repeats, or a \
             longer load, may help\n"
        ));
    }
    out
}

/// A run compared with its budget: failures come last, with what to do.
pub fn text(gate: &Gate) -> String {
    let mut out = format!("Evidence: {}\nFrom {}\n\n", gate.subject.evidence.label(), gate.source);
    let mut rows = vec![["", "learned", "at most", "now", "change", ""].map(str::to_owned).to_vec()];
    rows.extend(gate.figures.iter().map(row));
    out.push_str(&table(&rows));
    out.push('\n');
    gate.notes.iter().for_each(|note| out.push_str(&format!("note: {note}\n")));
    out.push_str(&verdict(gate));
    out
}

fn verdict(gate: &Gate) -> String {
    let (all, budget) = (gate.figures.len(), &gate.budget);
    let worse: Vec<&Held> = gate.figures.iter().filter(|held| held.outcome.fails()).collect();
    if !gate.is_worse {
        let better = gate.figures.iter().any(|held| held.outcome == Outcome::Better);
        let learn =
            if better { "; some are better: write a new budget (--learn) to keep the gain" } else { "" };
        return format!("Within the budget {budget}: all {all} figures{learn}\n");
    }
    let mut out = format!("Above the budget {budget}: {} of {all} figures\n", worse.len());
    worse.iter().for_each(|held| out.push_str(&complaint(held)));
    gate.next.iter().for_each(|next| out.push_str(&format!("  next: {next}\n")));
    out
}

fn complaint(held: &Held) -> String {
    let most = measured(held.most);
    match held.now {
        Some(now) => format!("  {}: {}, limit {most}\n", held.name, measured(now)),
        None => format!("  {}: missing in this run, limit {most}\n", held.name),
    }
}

fn row(held: &Held) -> Vec<String> {
    let now = held.now.map_or_else(|| "-".to_owned(), measured);
    let change = held.now.filter(|_| held.allowed.value > 0.0);
    let change = change.map(|now| change_of(now / held.allowed.value));
    let outcome = match held.outcome {
        Outcome::Within => "",
        Outcome::Better => "better",
        Outcome::Worse => "worse",
        Outcome::Missing => "missing",
    };
    vec![
        held.name.clone(),
        measured(held.allowed.value),
        measured(held.most),
        now,
        change.unwrap_or_default(),
        outcome.to_owned(),
    ]
}

fn change_of(ratio: f64) -> String {
    // A percentage of this size is hard to read.
    if ratio >= MANY_TIMES {
        return format!("{} times", measured(ratio));
    }
    change(ratio)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::Evidence;

    use super::*;
    use crate::diagnose::gate::{self, Subject};

    #[test]
    fn what_fails_is_told_with_what_it_may_be() {
        let subject = Subject { program: "x".to_owned(), workload: None, evidence: Evidence::Simulated };
        let name = "branches taken in 1,000 instructions".to_owned();
        let budget = gate::learn(subject.clone(), "x".to_owned(), &[BTreeMap::from([(name.clone(), 10.0)])]);
        let shown = |now: f64| {
            let figures = budget.hold(&BTreeMap::from([(name.clone(), now)]));
            let is_worse = figures.iter().any(|held| held.outcome.fails());
            text(&Gate {
                budget: "layout.toml".to_owned(),
                subject: subject.clone(),
                source: "x".to_owned(),
                is_worse,
                figures,
                notes: vec!["n".to_owned()],
                next: vec!["look".to_owned()],
            })
        };
        let worse = shown(53.4);
        assert!(worse.contains("Above the budget layout.toml: 1 of 1 figures\n"), "{worse}");
        assert!(worse.contains("in 1,000 instructions: 53.4, limit 10.1\n  next: look\n"), "{worse}");
        let within = shown(10.0);
        assert!(within.ends_with("note: n\nWithin the budget layout.toml: all 1 figures\n"), "{within}");
        assert!(shown(5.0).contains("some are better: write a new budget"));
        assert_eq!([0.9999999, 1.5, 9.9, 155.0].map(change_of), ["0.0 %", "+50.0 %", "+890 %", "155 times"]);
        assert!(learned(&budget, Path::new("b.toml")).ends_with("1 figures learned: b.toml\n"));
    }
}
