//! A commit compared with its base: a row for each metric that decides, and the basis of each.

use std::collections::BTreeMap;

use hone_format::{change, exact_change, exact_percent, rate};
use hone_record::{
    CommitBuild, CommitGate, Comparison, Counted, GateEvidence, GateFinding, GateState, Metric, Verdict,
    Window,
};

use super::head::{self, BeforeAfter};
use super::{paragraph, results, section};
use crate::gate::{label, loss_size};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};
use crate::{sentence, verdict};

const FINDINGS: &str = "Metrics that decide";

/// The table of findings. `None` when nothing was measured.
pub(crate) fn findings(found: &CommitGate) -> Option<Element> {
    let mut columns = vec![Column::words("load"), Column::words("metric")];
    let titles = ["base", "head", "change", "interval", "limit", "would have found"];
    columns.extend(titles.map(|title| Column::numbers(Markup::text(title))));
    columns.push(Column::words("state"));
    let mut table = Table::new(FINDINGS, columns).under_its_heading();
    for finding in &found.findings {
        table.row(Markup::text(&finding.workload), cells(found, finding));
    }
    (!found.findings.is_empty()).then(|| section("findings", FINDINGS).child(table.finish()))
}

/// The counts that decide, as tiles. `None` if pairs decide.
pub(crate) fn tiles_of_counts(found: &CommitGate) -> Option<Element> {
    let counts = found.counted.iter().filter(|_| found.evidence == GateEvidence::Counted);
    let tile = |counted: &Counted| BeforeAfter {
        title: Metric::Instructions.label(),
        values: counted.instructions().map(rate),
        // What is within the repetitions is no change.
        ratio: if crate::counted::differs(counted) { counted.ratio()[0] } else { 1.0 },
        lower_is_better: true,
        remark: format!("under {}, {}", counted.workload, crate::counted::exactness(counted)),
    };
    head::tiles_of_change("The counts in figures", counts.map(tile).collect())
}

fn cells(found: &CommitGate, finding: &GateFinding) -> Vec<Cell> {
    let is_counted = finding.metric == Metric::Instructions;
    let change = if is_counted { exact_change } else { change };
    let value = |value: f64| match finding.metric.unit() {
        _ if is_counted => rate(value),
        "µs" | "B" => quantity::of_metric(finding.metric, value),
        _ => format!("{}/s", quantity::significant(value)),
    };
    let [base, head] = finding.values.map_or([NONE.to_owned(), NONE.to_owned()], |both| both.map(value));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
    let guard = (!finding.primary).then(|| el("span").class("small").text("guard metric"));
    let metric = guard.into_iter().fold(Markup::text(label(found, finding)), Markup::with);
    let numbers = [
        base,
        head,
        or_none(finding.ratio.map(|[ratio, ..]| change(ratio))),
        or_none(finding.ratio.map(|[_, low, high]| match low == high {
            true => "exact".to_owned(),
            false => format!("[{}, {}]", change(low), change(high)),
        })),
        exact_percent(finding.worse_by),
        or_none(finding.detectable_loss().map(loss_size)),
    ];
    let numbers = numbers.iter().map(|number| Cell::number(number));
    std::iter::once(Cell::words(metric)).chain(numbers).chain([Cell::words(state(finding))]).collect()
}

/// The state of a finding with its mark.
fn state(finding: &GateFinding) -> Markup {
    let verdict = match finding.state {
        GateState::Worse => Verdict::Worse,
        GateState::Held | GateState::Tolerated => Verdict::Equivalent,
        GateState::NotShown | GateState::NotSeen => Verdict::NotShown,
    };
    Markup::from(mark::inline_verdict(verdict)).with(el("span").text(finding.state.label()))
}

/// Both commits with their builds.
pub(crate) fn sides(found: &CommitGate) -> [(&'static str, String); 2] {
    let side = |side: &CommitBuild| {
        let how = if side.kept { "reused from an earlier run, built" } else { "built" };
        format!(
            "{} ({}): {}; {how} in {}",
            side.short(),
            side.asked,
            side.subject.trim_end_matches('.'),
            quantity::duration(side.build_s)
        )
    };
    [("Base", side(&found.base)), ("Head", side(&found.head))]
}

/// Notes that a reader of the result needs.
pub(crate) fn notes(found: &CommitGate) -> impl Iterator<Item = Element> {
    found.notes.iter().map(|note| paragraph(&format!("Note: {note}")))
}

/// The comparison behind the findings of a load: the verdict, its control and all metrics.
pub(crate) fn comparison(
    index: usize,
    comparison: &Comparison,
    windows: &BTreeMap<String, Window>,
) -> Element {
    let number = index + 1;
    let of_load = results::title(comparison);
    results::of(&format!("comparison-{number}"), &of_load, comparison, windows)
        .child(el("h3").text("The verdict in full"))
        .child(paragraph(&verdict::sentence(comparison)))
        .children(sentence::beside(comparison).map(|beside| paragraph(&beside)))
        .child(paragraph(&sentence::control(comparison)))
        .detail()
}

/// Explains the figures in a paragraph below the table.
pub(crate) fn reading(found: &CommitGate) -> Element {
    paragraph(match found.evidence {
        GateEvidence::Measured => {
            "Intervals are over pairs of windows. “Would have found” is the smallest effect that these pairs \
             would have found in four of five runs."
        }
        GateEvidence::Counted => {
            "Intervals and “would have found” are as wide as the difference between two repetitions of the \
             same work."
        }
    })
}

/// The search that led to the two commits. `None` without one.
pub(crate) fn search(found: &CommitGate) -> Option<Element> {
    let search = found.bisection.as_ref()?;
    let ratio = Column::numbers(Markup::text("instructions per operation"));
    let mut table =
        Table::new(SEARCH, vec![Column::words("commit"), ratio, Column::words("result")]).under_its_heading();
    for tried in &search.tried {
        let why = tried.why.iter().map(|why| el("span").class("small").text(why));
        let state = why.fold(Markup::text(tried.state.label()), Markup::with);
        let name = format!("{} {}", tried.commit.get(..10).unwrap_or(&tried.commit), tried.subject);
        let ratio = tried.ratio.map_or_else(|| NONE.to_owned(), exact_change);
        table.row(Markup::text(&name), vec![Cell::number(&ratio), Cell::words(state)]);
    }
    Some(
        section("search", SEARCH)
            .child(table.finish())
            .child(paragraph(&crate::gate::search_words(search)))
            .child(paragraph("Ratios are to the good commit. A commit is bad from half of the growth on.")),
    )
}

const SEARCH: &str = "Commits that were tried";

/// The rule of the gate, written down before the first window.
pub(crate) fn basis(found: &CommitGate) -> Element {
    let file = format!("The experiment file is {} ({}).", found.file, found.file_of);
    section("basis", "The rule")
        .detail()
        .child(paragraph(&found.rule))
        .child(paragraph(&file))
        .child(reading(found))
}

/// States what was compared, for a reader who sees nothing else.
pub(crate) fn origin(found: &CommitGate) -> Element {
    let machine = found.comparisons.first().map(|one| &one.machine);
    let machine = machine.map(|machine| format!(" on {} cores of {}", machine.cores, machine.cpu_model));
    let how = match found.evidence {
        GateEvidence::Measured => "measured",
        GateEvidence::Counted => "counted",
    };
    paragraph(&format!(
        "{} ({}) compared with {} ({}){}; {how} by Hone.",
        found.head.short(),
        found.head.asked,
        found.base.short(),
        found.base.asked,
        machine.unwrap_or_default()
    ))
}
