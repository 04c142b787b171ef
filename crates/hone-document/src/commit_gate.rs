//! A commit held against its base, as text and as a comment of a pull request.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_format::{change, change_size, exact_percent, measured};
use hone_record::{CommitBuild, CommitGate, GateFinding, GateOutcome, GateState, Metric};

use hone_report::{Detail, documents};

use crate::table::{in_a_cell, table};
use crate::{metric_value, wrapped};

/// The size of a loss (0 to 1).
fn loss_size(loss: f64) -> String {
    change_size(1.0 + loss)
}

/// What a metric does that gets worse.
pub fn loss_word(metric: Metric) -> &'static str {
    if metric.lower_is_better() { "growth" } else { "fall" }
}

/// What follows, in one or two sentences.
pub fn sentence(found: &CommitGate) -> String {
    let sides = format!("{} beside {}", found.head.short(), found.base.short());
    let of = |finding: &GateFinding| self::finding(found, finding);
    match found.outcome {
        GateOutcome::SameProgram => format!(
            "Passed: {} and {} build the same program, byte for byte as it is loaded, so there is nothing to measure.",
            found.base.short(),
            found.head.short()
        ),
        GateOutcome::Worse => {
            let failures: Vec<String> = found.failures().map(of).collect();
            format!("Failed: {sides} is worse. {}.", failures.join(". "))
        }
        GateOutcome::TooLittlePower => {
            let weak: Vec<String> = found.failures().map(of).collect();
            format!(
                "Could not tell: {sides}. {}. More pairs, or longer windows, would tell more.",
                weak.join(". ")
            )
        }
        GateOutcome::NotSeen => {
            let unseen: Vec<String> = found.failures().map(of).collect();
            format!(
                "Could not tell: {sides}. {}. Nothing was measured that a verdict could rest on; where pairs were dropped, a quieter machine \
                 or more of them would help.",
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
                [] => format!("Passed: {sides} is not shown to be worse."),
                weak => format!(
                    "Passed: {sides} is not shown to be worse, and what the limit forbids would not have been seen. {}.",
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
        None => format!("nothing can be told of it: {}", finding.why),
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
fn label(found: &CommitGate, finding: &GateFinding) -> &'static str {
    let comparison = found.comparisons.iter().find(|one| one.workload.name == finding.workload);
    comparison.map_or(finding.metric.label(), |comparison| comparison.label(finding.metric))
}

/// All of it.
pub fn text(found: &CommitGate) -> String {
    let mut out = format!("Gate {}, by {} ({})\n", found.name, found.file, found.file_of);
    for (name, side) in [("base", &found.base), ("head", &found.head)] {
        let _ = writeln!(out, "  {name}  {}", side_words(side));
    }
    let _ = write!(out, "\n{}\n", wrapped(&sentence(found)));
    if !found.findings.is_empty() {
        let _ = write!(out, "\n{}", table(&rows(found)));
    }
    for one in &found.comparisons {
        let _ = write!(
            out,
            "\nUnder {}:\n\n{}",
            one.workload.name,
            documents::comparison(one, &BTreeMap::new(), None).terminal(Detail::Result)
        );
    }
    let notes: Vec<String> = found.notes.iter().map(|note| wrapped(&format!("note: {note}"))).collect();
    if !notes.is_empty() {
        let _ = write!(out, "\n{}\n", notes.join("\n"));
    }
    let _ = write!(out, "\n{}\n", wrapped(&found.rule));
    out
}

fn side_words(side: &CommitBuild) -> String {
    let how = if side.kept { "kept, built" } else { "built" };
    format!("{}  {}: {}; {how} in {:.1} s", side.short(), side.asked, side.subject, side.build_s)
}

fn rows(found: &CommitGate) -> Vec<Vec<String>> {
    let head = ["load", "metric", "base", "head", "change", "interval", "limit", "would have shown", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(found.findings.iter().map(|finding| row(found, finding)));
    rows
}

fn row(found: &CommitGate, finding: &GateFinding) -> Vec<String> {
    let value = |value: f64| match finding.metric.unit() {
        "µs" | "B" => metric_value(finding.metric, value),
        _ => format!("{}/s", measured(value)),
    };
    let [base, head] = finding.values.map_or(["-".to_owned(), "-".to_owned()], |values| values.map(value));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let mark = if finding.primary { "" } else { " (guard)" };
    vec![
        finding.workload.clone(),
        format!("{}{mark}", label(found, finding)),
        base,
        head,
        or_none(finding.ratio.map(|[ratio, ..]| change(ratio))),
        or_none(finding.ratio.map(|[_, low, high]| format!("[{}, {}]", change(low), change(high)))),
        exact_percent(finding.worse_by),
        or_none(finding.detectable_loss().map(loss_size)),
        finding.state.label().to_owned(),
    ]
}

/// What a reviewer wants to know, as Markdown.
pub fn comment(found: &CommitGate) -> String {
    let mut out = format!("**hone gate, {}**: {}\n", in_a_cell(&found.name), in_a_cell(&sentence(found)));
    if !found.findings.is_empty() {
        let rows = rows(found);
        let line = |row: &Vec<String>| {
            format!("| {} |\n", row.iter().map(|cell| in_a_cell(cell)).collect::<Vec<_>>().join(" | "))
        };
        let (head, body) = rows.split_first().map_or((String::new(), String::new()), |(head, body)| {
            (line(head), body.iter().map(line).collect::<String>())
        });
        let _ = write!(out, "\n{head}|---|---|---:|---:|---:|---:|---:|---:|---|\n{body}");
    }
    for note in &found.notes {
        let _ = write!(out, "\n{}\n", in_a_cell(note));
    }
    let machine = found.comparisons.first().map(|one| &one.machine);
    let machine = machine
        .map(|machine| format!(", on {} cores of {}", machine.cores, machine.cpu_model))
        .unwrap_or_default();
    let _ = write!(
        out,
        "\n<sub>{} ({}) beside {} ({}){}. Intervals over pairs of windows; \"would have shown\" is the smallest effect that these pairs \
         would have found in four of five runs; measured by hone.</sub>\n",
        found.head.short(),
        in_a_cell(&found.head.asked),
        found.base.short(),
        in_a_cell(&found.base.asked),
        in_a_cell(&machine)
    );
    out
}

#[cfg(test)]
mod tests {
    use hone_experiment::fixture::gate;
    use hone_record::Verdict;

    use super::*;

    #[test]
    fn what_follows_is_said_first_and_with_its_figures() {
        for (outcome, state, expected) in [
            (
                GateOutcome::Worse,
                GateState::Worse,
                "is worse. CPU per record under judge: +31.0 % [+25.0 %, +38.0 %], and the limit is 3 %.",
            ),
            (
                GateOutcome::Passed,
                GateState::Held,
                "Passed: bbbbbbbbbb beside aaaaaaaaaa is not shown to be worse.",
            ),
            (GateOutcome::Passed, GateState::NotShown, "would have shown is 5.2 % (limit 3 %)"),
            (
                GateOutcome::TooLittlePower,
                GateState::NotShown,
                "Could not tell: bbbbbbbbbb beside aaaaaaaaaa.",
            ),
            (
                GateOutcome::NotSeen,
                GateState::NotSeen,
                "Could not tell: bbbbbbbbbb beside aaaaaaaaaa. CPU per record under judge: the 95 % interval",
            ),
            (GateOutcome::SameProgram, GateState::Held, "byte for byte"),
        ] {
            let told = sentence(&gate(outcome, state));
            assert!(told.contains(expected), "{told}");
        }
    }

    #[test]
    fn a_head_that_broke_down_is_not_told_by_the_figures_of_what_is_left() {
        let mut found = gate(GateOutcome::Worse, GateState::Worse);
        let finding = &mut found.findings[0];
        finding.ratio = Some([1.0, 0.99, 1.01]);
        (finding.verdict, finding.by_troubles) = (Some(Verdict::NotShown), true);
        finding.why = "the head broke down where the base stood: ended by signal 11".to_owned();
        let told = sentence(&found);
        let expected = "the head broke down where the base stood: ended by signal 11 (what is left of the pairs: 0.0 % [";
        assert!(told.contains(expected) && !told.contains("the limit is"), "{told}");
        assert!(comment(&found).contains("ended by signal 11"));
    }

    #[test]
    fn a_comment_is_one_table_whatever_a_message_says() {
        let told = comment(&gate(GateOutcome::Worse, GateState::Worse));
        let rows: Vec<&str> = told.lines().filter(|line| line.starts_with("| ")).collect();
        assert_eq!(rows.len(), 2, "{told}");
        assert!(rows[1].ends_with("| 5.2 % | WORSE |"), "{told}");
    }
}
