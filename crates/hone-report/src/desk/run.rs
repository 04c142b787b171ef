//! The progress of a run.

use hone_record::{Metric, RunProgress, RunStage, RunState, ShelfRecord};

use super::frame::{Around, Tab, document, link, link_to, script, when};
use super::list::{encoded, state, table};
use crate::quantity::{self, NONE};
use crate::section::{absent, paragraph, section};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Figures of a window that show how a run is going.
const TOLD: [Metric; 4] = [Metric::LatencyP50, Metric::LatencyP99, Metric::CpuPerRecord, Metric::Throughput];

/// The page. Until the run has ended, it checks for news every few seconds.
pub fn run(found: &RunProgress, a: Option<&str>, around: &Around) -> String {
    let is_live = found.run.state != RunState::Finished;
    let live = el("div")
        .attr("id", "live")
        .attr("data-live", if is_live { "yes" } else { "no" })
        .child(standing(found))
        .child(stages(found))
        .child(windows(found));
    let content =
        [is_live.then(refresher), Some(live), variants(found, a), others(found, a), is_live.then(script)];
    let title = if found.run.title.is_empty() { &found.run.path } else { &found.run.title };
    document(title, Tab::Runs, around, content.into_iter().flatten())
}

/// Without a script this is a link; with a script it is a switch. Readers must be able to pause a page that changes by itself.
fn refresher() -> Element {
    el("p")
        .class("refresh")
        .child(
            el("span")
                .attr("id", "said")
                .attr("role", "status")
                .text("This page does not refresh by itself. "),
        )
        .child(el("a").attr("id", "again").attr("href", "").text("Refresh"))
        .text(" ")
        .child(el("button").attr("id", "pause").attr("type", "button").attr("hidden", "").text("Pause"))
}

fn standing(found: &RunProgress) -> Element {
    let run = &found.run;
    let sentence = match (run.state, run.pid) {
        (RunState::Running, Some(pid)) => format!(" Process {pid} runs it."),
        (RunState::Running, None) => String::new(),
        (RunState::Finished, _) => " Its result is available.".to_owned(),
        (RunState::Unfinished, _) => {
            " There is no result, and no process of the run is visible. The run was interrupted, or it runs \
             where its processes are not visible. To continue it, repeat its command with --resume."
                .to_owned()
        }
    };
    let result = run.result.as_ref().map(|id| {
        let text = format!("Its {}", run.kind);
        el("p").child(link(&format!("/record/{id}"), &text)).text(", with all figures")
    });
    el("div")
        .child(el("p").class("sentence").child(state(run.state)).text(&sentence))
        .children(result)
        .child(el("p").class("meta").text(&format!("{} · last written {}", run.path, when(run.at_unix_ms))))
}

fn stages(found: &RunProgress) -> Element {
    let section = section("progress", "Progress");
    if found.stages.is_empty() {
        return section.child(absent("The files of the run do not show its progress."));
    }
    let columns = vec![
        Column::words("part"),
        Column::numbers(Markup::text("done")),
        Column::words("share"),
        Column::words("note"),
    ];
    let mut table = Table::new("Parts of the run", columns);
    for stage in &found.stages {
        let name = if stage.name.is_empty() { "the run" } else { &stage.name };
        table.row(Markup::text(name), stage_cells(stage, name));
    }
    section.child(table.finish())
}

fn stage_cells(stage: &RunStage, name: &str) -> Vec<Cell> {
    let done = match stage.of {
        Some(of) => format!("{} of {} {}", quantity::count(stage.done), quantity::count(of), stage.counted),
        None => format!("{} {}", quantity::count(stage.done), stage.counted),
    };
    let bar = stage.of.filter(|of| *of > 0).map(|of| {
        el("progress")
            .attr("max", of)
            .attr("value", stage.done.min(of))
            .attr("aria-label", format!("{name}: {done}"))
            .text(&done)
    });
    let bar = bar.map_or_else(|| Markup::text(NONE), Markup::from);
    vec![
        Cell::numbers(el("span").class("word").text(&done)),
        Cell::words(bar),
        Cell::text(if stage.note.is_empty() { NONE } else { &stage.note }),
    ]
}

fn windows(found: &RunProgress) -> Element {
    let section = section("windows", "The last windows");
    if found.last_windows.is_empty() {
        return section.child(absent("There is no window yet."));
    }
    let mut columns = vec![Column::words("window"), Column::words("variant"), Column::words("outcome")];
    columns.extend(TOLD.map(|metric| Column::numbers(Markup::text(metric.label()))));
    columns.push(Column::words("began"));
    let mut table = Table::new("The last windows", columns).remark("Newest first.");
    for window in &found.last_windows {
        let name = window.path.rsplit('/').next().unwrap_or_default();
        table.row(link(&format!("/record/{}", window.id), name), window_cells(window));
    }
    section.child(table.finish())
}

fn window_cells(record: &ShelfRecord) -> Vec<Cell> {
    let facts = record.window.as_ref();
    let figure = |metric: Metric| {
        let value = facts.and_then(|facts| facts.values.get(&metric));
        Cell::number(&value.map_or_else(|| NONE.to_owned(), |value| quantity::of_metric(metric, *value)))
    };
    let variant = facts.map_or(NONE, |facts| &facts.variant);
    let mut cells = vec![Cell::text(variant), Cell::text(&record.said)];
    cells.extend(TOLD.map(figure));
    cells.push(Cell::words(el("span").class("word").text(&when(record.at_unix_ms))));
    cells
}

fn variants(found: &RunProgress, a: Option<&str>) -> Option<Element> {
    if found.variants.is_empty() {
        return None;
    }
    let columns = vec![
        Column::words("variant"),
        Column::numbers(Markup::text("windows")),
        Column::words("compare all its windows"),
    ];
    let mut table = Table::new("Variants", columns);
    for (name, windows) in &found.variants {
        let side = format!("{}~{name}", found.run.id);
        let link = match a {
            Some(a) if a == side => Markup::text("A"),
            Some(a) => link_to(
                &format!("/compare?a={}&b={}", encoded(a), encoded(&side)),
                "compare with A",
                &format!(": {name}"),
            )
            .into(),
            None => {
                let address = format!("/run/{}?a={}", found.run.id, encoded(&side));
                link_to(&address, "choose as A", &format!(": {name}")).into()
            }
        };
        table.row(
            Markup::text(name),
            vec![Cell::number(&quantity::count(*windows as u64)), Cell::words(link)],
        );
    }
    let remark = paragraph(
        "A run measures its windows in pairs or rounds. The run's own result uses that pairing. So it says \
         more than a comparison of all windows of one variant with all of another.",
    );
    Some(section("variants", "Variants").child(table.finish()).child(remark))
}

fn others(found: &RunProgress, a: Option<&str>) -> Option<Element> {
    if found.records.is_empty() {
        return None;
    }
    Some(
        section("others", "Its other records")
            .child(table("Records that are no windows", &found.records, a).finish()),
    )
}
