//! The progress of a run.

use hone_record::{Metric, RunPairs, RunProgress, RunStage, RunState, ShelfRecord, ShelfRun};

use super::frame::{Around, Tab, ago, copyable, document, downloads, link, refresher, silence, when};
use super::home::{chip, gain, silent};
use super::list::{encoded, optional, side_link, state, table, unmarked};
use crate::plot::{pairs, spark};
use crate::quantity::{self, NONE};
use crate::section::head::block_class;
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
        .children(result(&found.run))
        .child(standing(found, around))
        .children(extras.stop.as_ref().filter(|_| is_live).map(|stop| stopping(found, stop)))
        .children(found.pairs.as_ref().filter(|_| is_live).map(|pairs| comparison(pairs, around)))
        .children(is_live.then(|| stages(found)))
        .children(is_live.then(|| windows(found)))
        .children(extras.log.as_ref().filter(|_| is_live).map(log));
    let below = [
        others(found, a),
        variants(found, a),
        (!is_live && !found.last_windows.is_empty()).then(|| windows(found)),
    ];
    let content = [is_live.then(refresher), Some(live)].into_iter().chain(below).flatten();
    document(&title(&found.run), Tab::Runs, around, content)
}

fn title(run: &ShelfRun) -> String {
    let subject = run.outcome.as_ref().map(|outcome| outcome.subject.as_str());
    let known = [subject.unwrap_or_default(), &run.title].into_iter().find(|text| !text.is_empty());
    unmarked(known.unwrap_or(&run.path))
}

/// The outcome of a finished run as the list of runs has it, with its interval in numbers and the way to the report.
fn result(run: &ShelfRun) -> Option<Element> {
    let id = run.result.as_ref().filter(|_| run.state == RunState::Finished)?;
    let outcome = run.outcome.as_ref();
    let ratio = outcome.and_then(|outcome| outcome.ratio);
    let figure = gain(run, outcome, spark::reach(ratio.into_iter()));
    let interval = ratio.filter(|ratio| ratio.iter().all(|end| end.is_finite() && *end > 0.0));
    let interval = interval.map(|[_, low, high]| {
        let text = format!("confidence interval {}", quantity::change_interval([low, high]));
        el("span").class("small path").text(&text)
    });
    let report = link(&format!("/record/{id}"), &format!("Report of the {}, with all figures", run.kind));
    let figure = figure.map(|figure| el("p").class("figure").child(figure).children(interval));
    let word = el("p").class("verdict-word").child(chip(run));
    let class = block_class(outcome.and_then(|outcome| outcome.mark).or(run.verdict));
    Some(el("div").class(class).child(word).children(figure).child(el("p").child(report)))
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
    let left = pairs.left_s.map_or_else(|| "unknown".to_owned(), quantity::duration);
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
    section
        .child(figure(&name, None, plot, &caption(pairs, estimate.is_some()), None))
        .children(downloads(around, &[("running-pairs", "The pairs")]))
}

/// What the picture of the pairs shows.
fn caption(pairs: &RunPairs, has_interval: bool) -> String {
    let mut text = "A dot is an A/B pair, a diamond is an A/A pair, a cross is an excluded pair.".to_owned();
    let margin = pairs.comparison.design.rule.equivalence;
    if margin.is_finite() && margin > 0.0 {
        let margin = quantity::chosen_percent(margin);
        text.push_str(&format!(
            " The grey area is the margin of ±{margin}, inside which both sides are equal."
        ));
    }
    if has_interval {
        text.push_str(" The band is the interval so far; it narrows with each pair.");
    }
    text
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
    let (measured, left_s) =
        found.pairs.as_ref().map_or((0, None), |pairs| (pairs.comparison.pairs.len(), pairs.left_s));
    let silence = silence(run, measured as u64, left_s, around.now_unix_ms);
    let sentence = match (run.state, run.pid, &silence) {
        (RunState::Running, Some(pid), None) => format!(" Process {pid} runs it."),
        (RunState::Running, Some(pid), Some(_)) => format!(" Process {pid} still holds its folder."),
        (RunState::Running, None, _) | (RunState::Finished, ..) => String::new(),
        (RunState::Unfinished, ..) => {
            " There is no result, and no process of the run is visible. The run was interrupted, or it runs \
             where its processes are not visible. To continue it, repeat its command with --resume."
                .to_owned()
        }
    };
    let state =
        silence.map_or_else(|| state(run.state), |silence| silent(&format!("No sign of life for {silence}")));
    let sentence =
        (run.state != RunState::Finished).then(|| el("p").class("sentence").child(state).text(&sentence));
    el("div").children(sentence).child(
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
    vec![Cell::numbers(el("span").class("word").text(&done)), Cell::words(bar), optional(&stage.note)]
}

fn windows(found: &RunProgress) -> Element {
    let section = section("windows", "The last windows");
    if found.last_windows.is_empty() {
        return section.child(absent("There is no window yet."));
    }
    let mut columns = vec![Column::words("window"), Column::words("outcome")];
    columns.extend(TOLD.map(|metric| Column::numbers(Markup::text(metric.label()))));
    columns.push(Column::words("began"));
    let mut table = Table::new("The last windows", columns).under_its_heading();
    for window in &found.last_windows {
        let name = window_name(&window.path, window.window.as_ref().map_or("", |facts| &facts.variant));
        table.row(link(&format!("/record/{}", window.id), &name), window_cells(window));
    }
    let left_out = found.variants.values().sum::<usize>().saturating_sub(found.last_windows.len());
    let order = match left_out {
        0 => "Newest first.".to_owned(),
        more => format!("Newest first. {} older windows are not listed.", quantity::count(more as u64)),
    };
    section.child(paragraph(&order)).child(table.finish())
}

/// The name of a window of a pair: the number of the pair as its report counts it, and the variant. Other windows keep their file names.
fn window_name(path: &str, variant: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or_default();
    let pair = file.strip_suffix("-a.json").or_else(|| file.strip_suffix("-b.json"));
    let name = match pair.and_then(|index| index.parse::<u32>().ok()) {
        Some(index) => format!("pair {}", index.saturating_add(1)),
        None => file.to_owned(),
    };
    if variant.is_empty() { name } else { format!("{name}, {variant}") }
}

fn window_cells(record: &ShelfRecord) -> Vec<Cell> {
    let facts = record.window.as_ref();
    let figure = |metric: Metric| {
        let value = facts.and_then(|facts| facts.values.get(&metric));
        Cell::number(&value.map_or_else(|| NONE.to_owned(), |value| quantity::of_metric(metric, *value)))
    };
    let mut cells = vec![Cell::text(&record.said)];
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
    let mut table = Table::new("Variants", columns).under_its_heading();
    for (name, windows) in &found.variants {
        let side = format!("{}~{name}", found.run.id);
        let address = format!("/run/{}?a={}", found.run.id, encoded(&side));
        let link = side_link(a, (&side, name), &address);
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
    Some(section("others", "Records").child(table("Records", &found.records, a).under_its_heading().finish()))
}

#[cfg(test)]
mod tests {
    use hone_record::Verdict;

    use super::*;
    use crate::sample;

    fn progress() -> RunProgress {
        let (optimization, _) = sample::optimization();
        let mut comparison = optimization.comparisons[0].clone();
        // There is no verdict before the last pair.
        comparison.judgements.iter_mut().for_each(|judged| judged.verdict = Verdict::NotShown);
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
        assert!(!html.contains("Progress"), "{html}");
    }

    #[test]
    fn a_finished_run_begins_with_its_result() {
        let mut found = progress();
        found.run = ShelfRun {
            state: RunState::Finished,
            kind: "comparison".to_owned(),
            result: Some("fedcba9876543210".to_owned()),
            verdict: Some(Verdict::Better),
            outcome: Some(hone_record::ShelfOutcome {
                subject: "diagnosis of `x`".to_owned(),
                metric: Some(Metric::CpuPerRecord),
                ratio: Some([0.854, 0.822, 0.888]),
                ..hone_record::ShelfOutcome::default()
            }),
            ..found.run
        };
        let html = page(&found, &RunExtras::default());
        let places =
            ["<h1>diagnosis of “x”", "mark better", "−14.6 %", "[−17.8, −11.2] %", "/record/fedcba98"];
        let at = places.map(|place| html.find(place).unwrap_or_else(|| panic!("{place}: {html}")));
        assert!(at.is_sorted(), "{at:?}");
    }

    #[test]
    fn a_run_that_writes_nothing_has_no_time_left() {
        let mut found = progress();
        found.run.at_unix_ms = 1;
        if let Some(pairs) = &mut found.pairs {
            pairs.left_s = None;
        }
        let around = Around { now_unix_ms: 12 * 3_600_000 + 1, ..Around::default() };
        let html = run(&found, None, &RunExtras::default(), &around).replace('\u{a0}', " ");
        assert!(html.contains("No sign of life for 12 h") && html.contains(">unknown<"), "{html}");
    }

    #[test]
    fn windows_are_named_by_pair_and_variant() {
        assert_eq!(window_name("runs/x/windows/017-a.json", "B"), "pair 18, B");
        assert_eq!(window_name("runs/x/windows/017-pgo.json", "pgo"), "017-pgo.json, pgo");
        assert_eq!(window_name("runs/x/window.json", ""), "window.json");
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
