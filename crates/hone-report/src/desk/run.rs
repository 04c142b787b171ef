//! The progress of a run.

use hone_record::{Metric, RunPairs, RunProgress, RunStage, RunState, ShelfRecord, ShelfRun};

use super::frame::{Around, Tab, ago, copyable, document, downloads, link, link_to, refresher, when};
use super::list::{encoded, state, table};
use crate::plot::{pairs, spark};
use crate::quantity::{self, NONE};
use crate::section::{absent, figure, paragraph, section};
use crate::sentence;
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Figures of a window that show how a run is going.
const TOLD: [Metric; 4] = [Metric::LatencyP50, Metric::LatencyP99, Metric::CpuPerRecord, Metric::Throughput];

/// What only the page of a run shows: the end of its log, and how to stop it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunExtras {
    /// The newest log.
    pub log: Option<LogTail>,
    /// How to stop the run; `None` if no process is visible.
    pub stop: Option<StopOffer>,
}

/// The end of a log.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogTail {
    /// Name of the file.
    pub name: String,
    /// Its last lines.
    pub lines: Vec<String>,
}

/// A way to stop a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopOffer {
    /// A button that leads to a question.
    Button,
    /// A command to run on its machine, and why there is no button.
    Command {
        /// The command.
        command: String,
        /// The reason, as a sentence.
        why: String,
    },
}

/// The page. Until the run has ended, it checks for news every few seconds.
pub fn run(found: &RunProgress, a: Option<&str>, extras: &RunExtras, around: &Around) -> String {
    let is_live = found.run.state != RunState::Finished;
    let live = el("div")
        .attr("id", "live")
        .attr("data-live", if is_live { "yes" } else { "no" })
        .child(standing(found, around))
        .children(extras.stop.as_ref().filter(|_| is_live).map(|stop| stopping(found, stop)))
        .children(found.pairs.as_ref().filter(|_| is_live).map(|pairs| comparison(pairs, around)))
        .child(stages(found))
        .child(windows(found))
        .children(extras.log.as_ref().filter(|_| is_live).map(log));
    let content = [is_live.then(refresher), Some(live), variants(found, a), others(found, a)];
    document(title(&found.run), Tab::Runs, around, content.into_iter().flatten())
}

fn title(run: &ShelfRun) -> &str {
    let subject = run.outcome.as_ref().map(|outcome| outcome.subject.as_str());
    let known = [subject.unwrap_or_default(), &run.title].into_iter().find(|text| !text.is_empty());
    known.unwrap_or(&run.path)
}

fn stopping(found: &RunProgress, stop: &StopOffer) -> Element {
    match stop {
        StopOffer::Button => {
            let address = format!("/run/{}/stop", found.run.id);
            el("p").child(el("a").class("button").attr("href", address).text("Stop this run …"))
        }
        StopOffer::Command { command, why } => el("details")
            .child(el("summary").text("Stop this run"))
            .child(paragraph(why))
            .child(copyable(command)),
    }
}

/// Asks before a run is stopped. `token` proves that the request comes from this page, and names the process.
pub fn confirm_stop(run: &ShelfRun, token: &str, around: &Around) -> String {
    let process = run.pid.map_or_else(|| "its process".to_owned(), |pid| format!("process {pid}"));
    let sentence = format!(
        "Hone sends SIGINT to {process}, as Ctrl-C does. The run ends its current window, restores all settings \
         and keeps its measured pairs. To continue it later, repeat its command with --resume."
    );
    let address = format!("/run/{}", run.id);
    let form = el("form")
        .class("choose")
        .attr("method", "post")
        .attr("action", format!("{address}/stop"))
        .child(el("input").attr("type", "hidden").attr("name", "token").attr("value", token))
        .child(el("button").attr("type", "submit").class("danger").text("Stop the run"))
        .child(el("a").class("button").attr("href", &address).text("Keep it running"));
    let name = el("p").class("meta").text(&run.path);
    document(&format!("Stop {}?", title(run)), Tab::Runs, around, [paragraph(&sentence), form, name])
}

/// The pairs so far: the change, the time left, and the chance of a verdict, above the picture.
fn comparison(pairs: &RunPairs, around: &Around) -> Element {
    let found = &pairs.comparison;
    let metric = found.design.rule.primary;
    let measured = found.pairs.len();
    let mut tiles = el("dl").class("tiles");
    let tile = |name: &str, value: Markup, small: &str| {
        el("div")
            .child(el("dt").text(name))
            .child(el("dd").child(value).child(el("span").class("small path").text(small)))
    };
    let estimate =
        found.primary().map(|judgement| &judgement.estimate).filter(|found| sentence::is_sound(found));
    tiles = match estimate {
        Some(estimate) => {
            let ratio = [estimate.ratio, estimate.low, estimate.high];
            let reach = spark::reach([ratio].into_iter());
            let bar = spark::interval_bar(ratio, None, reach, found.label(metric));
            let value = Markup::from(el("b").text(&quantity::change(estimate.ratio)))
                .with(bar.into_iter().collect::<Markup>());
            let interval = format!(
                "{} to {} so far; the verdict comes after the last pair",
                quantity::change(estimate.low),
                quantity::change(estimate.high)
            );
            tiles.child(tile(found.label(metric), value, &interval))
        }
        None => tiles.child(tile(
            found.label(metric),
            Markup::text(NONE),
            "Five A/B pairs give the first interval",
        )),
    };
    let left = pairs.left_s.map_or_else(|| NONE.to_owned(), quantity::duration);
    let progress = format!("{measured} of {} pairs measured", pairs.planned);
    tiles = tiles.child(tile("time left", Markup::text(&left), &progress));
    let effect = quantity::change_size(pairs.effect_ratio);
    let (chance, below) = match (pairs.power, pairs.detectable_ratio) {
        (Some(power), detectable) => {
            let least = detectable.map_or_else(String::new, |ratio| {
                format!("; four times in five it detects {} or more", quantity::change_size(ratio))
            });
            (
                quantity::chosen_percent((power * 100.0).round() / 100.0),
                format!("if the difference is {effect}{least}"),
            )
        }
        (None, _) => (NONE.to_owned(), "Five A/A pairs give the first prediction".to_owned()),
    };
    tiles = tiles.child(tile("chance of a verdict", Markup::text(&chance), &below));
    let name = format!("{} by pair", found.label(metric));
    let section = section("pairs", "The pairs so far").child(tiles);
    let Some(plot) = pairs::plot("running-pairs", &name, found) else {
        return section.child(absent("No pair has a ratio yet."));
    };
    let caption = "A dot is an A/B pair, a diamond is an A/A pair, a cross is an excluded pair. The band is the interval so far; it \
                   narrows with each pair.";
    section
        .child(figure(&name, None, plot, caption, None))
        .children(downloads(around, &[("running-pairs", "The pairs")]))
}

fn log(log: &LogTail) -> Element {
    let text = log.lines.join("\n");
    section("log", "The end of the log").child(el("p").class("meta").text(&log.name)).child(
        el("pre")
            .class("file")
            .attr("tabindex", "0")
            .attr("role", "group")
            .attr("aria-label", "End of the log")
            .child(el("code").text(&text)),
    )
}

fn standing(found: &RunProgress, around: &Around) -> Element {
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
    el("div").child(el("p").class("sentence").child(state(run.state)).text(&sentence)).children(result).child(
        el("p")
            .class("meta")
            .text(&format!("{} · last written ", run.path))
            .child(ago(run.at_unix_ms, around.now_unix_ms)),
    )
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn progress() -> RunProgress {
        let (optimization, _) = sample::optimization();
        let mut comparison = optimization.comparisons[0].clone();
        // There is no verdict before the last pair.
        comparison.judgements.iter_mut().for_each(|judged| judged.verdict = hone_record::Verdict::NotShown);
        RunProgress {
            run: ShelfRun {
                id: "0123456789abcdef".to_owned(),
                path: "runs/compare-001".to_owned(),
                state: RunState::Running,
                pid: Some(4711),
                ..ShelfRun::default()
            },
            pairs: Some(RunPairs {
                part: String::new(),
                planned: 40,
                comparison,
                left_s: Some(80.0),
                effect_ratio: 1.05,
                power: Some(0.834),
                detectable_ratio: Some(1.047),
            }),
            ..RunProgress::default()
        }
    }

    fn page(found: &RunProgress, extras: &RunExtras) -> String {
        run(found, None, extras, &Around::default()).replace('\u{a0}', " ")
    }

    #[test]
    fn a_running_comparison_shows_its_pairs_the_time_left_and_the_chance_of_a_verdict() {
        let stop = StopOffer::Command { command: "kill -INT 4711".to_owned(), why: "No button.".to_owned() };
        let log = LogTail { name: "logs/001.log".to_owned(), lines: vec!["<b>last</b>".to_owned()] };
        let mut found = progress();
        let html = page(&found, &RunExtras { log: Some(log.clone()), stop: Some(stop) });
        for text in
            ["1 min 20 s", "83 %", "5.0 %", "4.7 %", "running-pairs-wide-title", "so far", "kill -INT 4711"]
        {
            assert!(html.contains(text), "{text}: {html}");
        }
        assert!(html.contains("&lt;b&gt;last&lt;/b&gt;") && !html.contains("<b>last"));
        assert!(!html.contains("mark better"), "there is no verdict yet");
        // A finished run has a report in place of all this.
        found.run.state = RunState::Finished;
        let html = page(&found, &RunExtras { log: Some(log), stop: Some(StopOffer::Button) });
        assert!(!html.contains("running-pairs") && !html.contains("Stop this run"), "{html}");
    }

    #[test]
    fn a_run_is_stopped_only_after_a_question() {
        let found = progress();
        let html = page(&found, &RunExtras { stop: Some(StopOffer::Button), ..RunExtras::default() });
        assert!(html.contains("href=\"/run/0123456789abcdef/stop\"") && !html.contains("method=\"post\""));
        let html = confirm_stop(&found.run, "\"secret", &Around::default());
        assert!(html.contains("method=\"post\" action=\"/run/0123456789abcdef/stop\""), "{html}");
        assert!(html.contains("value=\"&quot;secret\"") && html.contains("process 4711"), "{html}");
    }
}
