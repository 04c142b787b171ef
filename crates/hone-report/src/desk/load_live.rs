//! The page of one load while it runs: its state, the figures of the last second, and plots over time. In the end it has the result.

use std::sync::Arc;

use hone_record::{Engine, SeriesPoint, Window, Workload};

use super::frame::{lone_document, refresher};
use crate::load::load_text;
use crate::plot::timeline::{self, Axis, Panel, Values};
use crate::plot::{Stroke, legend, spark};
use crate::quantity::{self, NBSP, NONE};
use crate::section::{absent, figure, headline, section};
use crate::sentence;
use crate::tree::{Element, Markup, el};

/// Seconds in the plots. More of them would make a heavy page every second; the report has them all.
const MOST_SECONDS: usize = 900;
/// Seconds in a sparkline.
const SPARK_SECONDS: usize = 60;
/// Milliseconds between two requests of an open page.
const REFRESH_MS: u32 = 1_000;

/// One second of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LivePoint {
    /// Start of the second, from the window's start.
    pub at_s: f64,
    /// Requests due per second.
    pub due_per_s: f64,
    /// Requests acknowledged per second.
    pub acked_per_s: f64,
    /// p50, p99, p99.9 and maximum of the latency from due time to acknowledgement, in microseconds. `None` if no request ended.
    pub latency_us: Option<[f64; 4]>,
    /// Requests that failed.
    pub failed: u64,
    /// Requests due and not ended at the end of the second.
    pub backlog: u64,
    /// Cores that the target used; `None` if its processes are unknown.
    pub target_cores: Option<f64>,
    /// Cores that the generator used.
    pub generator_cores: Option<f64>,
    /// 99th percentile of the generator's own delay, in microseconds.
    pub generator_lag_us_p99: f64,
}

impl LivePoint {
    /// A second without its CPU. `backlog_before` is the backlog at the end of the second before it.
    pub fn new(second: &SeriesPoint, backlog_before: u64) -> Self {
        let ended = second.acked_requests + second.failed_requests;
        // Each due request has ended or waits.
        let due = (ended + second.backlog_requests).saturating_sub(backlog_before);
        let p999 = second.latency.unpack().ok().and_then(|found| found.quantile_us(0.999));
        let latency_us = [
            second.latency_us_p50,
            second.latency_us_p99,
            p999.unwrap_or(second.latency_us_max),
            second.latency_us_max,
        ];
        Self {
            at_s: second.at_s,
            due_per_s: due as f64 / second.length_s.unwrap_or(1.0).max(f64::MIN_POSITIVE),
            acked_per_s: second.acked_per_s(),
            latency_us: (ended > 0).then_some(latency_us),
            failed: second.failed_requests,
            backlog: second.backlog_requests,
            target_cores: None,
            generator_cores: None,
            generator_lag_us_p99: second.generator_lag_us_p99,
        }
    }
}

/// Where a load is.
#[derive(Debug, Clone, Default)]
pub enum LoadPhase {
    /// It connects, and makes its topic.
    #[default]
    Preparing,
    /// It warms the target up; the share of it that is done, 0 to 1.
    WarmingUp(f64),
    /// It samples the idle target.
    Idle,
    /// Its window is open.
    Measuring,
    /// It has ended.
    Ended(Arc<LoadEnd>),
}

/// The end of a load.
#[derive(Debug, Clone)]
pub struct LoadEnd {
    /// The window, or the error in its place.
    pub result: Result<Window, String>,
    /// The files of the result, a line for each.
    pub files: String,
}

/// A load at a moment.
#[derive(Debug, Clone, Default)]
pub struct LoadState {
    /// Where it is.
    pub phase: LoadPhase,
    /// Time since the window's start.
    pub at_s: f64,
    /// The complete seconds of the window.
    pub points: Vec<LivePoint>,
    /// Why the target's CPU is unknown or incomplete.
    pub cpu_missing: Option<String>,
}

/// The page. Until the load has ended, it asks for news every second.
pub fn load_live(address: &str, workload: &Workload, state: &LoadState) -> String {
    let end = match &state.phase {
        LoadPhase::Ended(end) => Some(end),
        _ => None,
    };
    let live = el("div")
        .attr("id", "live")
        .attr("data-live", if end.is_some() { "no" } else { "yes" })
        .attr("data-every", REFRESH_MS)
        .attr("data-end", "The load has ended. ")
        // For a page that is still open when the server has ended with the load.
        .attr("data-gone", "The load has ended. This page keeps its last state. ")
        .child(standing(workload.duration_s, state))
        .children(end.map(|end| result(end)))
        .child(last_second(&state.points))
        .child(over_time(workload.duration_s, &state.points))
        .child(notes(workload, state));
    let load = el("p").class("meta").text(&load_text(workload));
    let content = [Some(load), end.is_none().then(refresher), Some(live)];
    lone_document(&format!("Load of {address}"), content.into_iter().flatten())
}

fn standing(duration_s: f64, state: &LoadState) -> Element {
    let at_s = state.at_s.clamp(0.0, duration_s);
    let measured = || {
        let [at, of, left] = [at_s.floor(), duration_s, (duration_s - at_s).ceil()].map(quantity::plain);
        format!(" {at}{NBSP}s of {of}{NBSP}s measured, {left}{NBSP}s left.")
    };
    let (class, word, more) = match &state.phase {
        LoadPhase::Preparing => {
            ("state running", "preparing", " Hone connects and makes the topic.".to_owned())
        }
        LoadPhase::WarmingUp(done) => {
            let done = quantity::chosen_percent((done.clamp(0.0, 1.0) * 100.0).round() / 100.0);
            ("state running", "warming up", format!(" {done} of it is done."))
        }
        LoadPhase::Idle => ("state running", "waiting", " Hone samples the idle target.".to_owned()),
        LoadPhase::Measuring => ("state running", "measuring", measured()),
        LoadPhase::Ended(end) if end.result.is_err() => ("state broken", "failed", String::new()),
        LoadPhase::Ended(_) => ("state finished", "ended", String::new()),
    };
    let bar = matches!(state.phase, LoadPhase::Measuring).then(|| {
        el("progress")
            .attr("max", duration_s)
            .attr("value", format!("{at_s:.1}"))
            .attr("aria-label", "Time of the window")
            .text(measured().trim())
    });
    let sentence = el("p").class("sentence").child(el("span").class(class).text(word)).text(&more);
    el("div").child(sentence).children(bar)
}

/// The result of the whole window, and its files.
fn result(end: &LoadEnd) -> Element {
    let section = section("result", "The result");
    let files = end.files.lines().map(|line| el("p").class("meta").text(line));
    match &end.result {
        Err(error) => section.child(el("p").class("warning").text(error)),
        Ok(window) => {
            let values = headline::load_values(window);
            let tiles = values.iter().map(|(name, value, remark)| tile(name, value, Markup::text(remark)));
            section
                .child(el("p").class("sentence").text(&sentence::outcome(window)))
                .child(el("dl").class("tiles").children(tiles))
        }
    }
    .children(files)
}

fn tile(name: &str, value: &str, small: Markup) -> Element {
    el("div")
        .child(el("dt").text(name))
        .child(el("dd").text(value).child(el("span").class("small path").child(small)))
}

/// Names of the latencies of a [`LivePoint`].
const LATENCIES: [&str; 4] = ["p50", "p99", "p99.9", "max"];

fn last_second(points: &[LivePoint]) -> Element {
    let section = section("second", "The last second");
    let Some(last) = points.last() else {
        return section.child(absent("The first second of the window is not complete."));
    };
    let latencies = LATENCIES.iter().enumerate().map(|(which, name)| {
        let value = last.latency_us.map_or_else(|| NONE.to_owned(), |found| quantity::time_us(found[which]));
        let recent = points.get(points.len().saturating_sub(SPARK_SECONDS)..).unwrap_or_default();
        let values: Vec<f64> = recent.iter().filter_map(|point| Some(point.latency_us?[which])).collect();
        let line = spark::sparkline(&values, &format!("{name} of the last {} seconds", recent.len()));
        tile(name, &value, line.into_iter().collect())
    });
    let per_s = |rate: f64| format!("{}/s", quantity::significant(rate));
    let cores =
        |cores: Option<f64>| cores.map_or_else(|| NONE.to_owned(), |cores| format!("{cores:.2}{NBSP}cores"));
    let failed: u64 = points.iter().map(|point| point.failed).sum();
    let others = [
        ("acknowledged", per_s(last.acked_per_s), format!("{} due", per_s(last.due_per_s))),
        ("errors", quantity::count(last.failed), format!("{} since the start", quantity::count(failed))),
        ("backlog", quantity::count(last.backlog), "requests that wait".to_owned()),
        ("CPU of the target", cores(last.target_cores), format!("generator {}", cores(last.generator_cores))),
    ];
    let others = others.iter().map(|(name, value, small)| tile(name, value, Markup::text(small)));
    section.child(el("dl").class("tiles").children(latencies.chain(others)))
}

/// The plots. Before the first second there is none.
fn over_time(duration_s: f64, points: &[LivePoint]) -> Element {
    let section = section("time", "Over time");
    let shown = points.get(points.len().saturating_sub(MOST_SECONDS)..).unwrap_or_default();
    let (Some(first), Some(last)) = (shown.first(), shown.last()) else {
        return section.child(absent("The plots begin with the first second of the window."));
    };
    let span_s = duration_s.min(MOST_SECONDS as f64);
    let domain = (first.at_s, (first.at_s + span_s).max(last.at_s + 1.0));
    let remark = (points.len() > MOST_SECONDS)
        .then(|| absent("The plots show the last 15 minutes. The report has the whole window."));
    let pictures = [latency(shown), rate(shown), errors(shown), cpu(shown)];
    section.children(remark).children(pictures.iter().filter_map(|picture| picture.drawn(domain)))
}

fn values(points: &[LivePoint], value: impl Fn(&LivePoint) -> Option<f64>) -> Values {
    points.iter().map(|point| (point.at_s, value(point))).collect()
}

fn latency(points: &[LivePoint]) -> Picture {
    let line = |which: usize| values(points, |point| Some(point.latency_us?[which]));
    Picture {
        id: "live-latency",
        title: "Latency",
        key: vec![(Stroke::C, "p50"), (Stroke::A, "p99"), (Stroke::B, "p99.9")],
        caption: "From the due time of a request to its acknowledgement, on a logarithmic axis.",
        panels: vec![Panel {
            name: "latency (log)",
            axis: Axis::Latency,
            lines: vec![(Stroke::C, line(0)), (Stroke::A, line(1)), (Stroke::B, line(2))],
        }],
    }
}

fn rate(points: &[LivePoint]) -> Picture {
    let due = values(points, |point| Some(point.due_per_s));
    let acked = values(points, |point| Some(point.acked_per_s));
    Picture {
        id: "live-rate",
        title: "Rate",
        key: vec![(Stroke::A, "due"), (Stroke::B, "acknowledged")],
        caption: "Where the lines part, requests wait.",
        panels: vec![Panel {
            name: "requests/s",
            axis: Axis::Count,
            lines: vec![(Stroke::A, due), (Stroke::B, acked)],
        }],
    }
}

fn errors(points: &[LivePoint]) -> Picture {
    let failed = values(points, |point| Some(point.failed as f64));
    let backlog = values(points, |point| Some(point.backlog as f64));
    let panel = |name, line| Panel { name, axis: Axis::Count, lines: vec![(Stroke::B, line)] };
    Picture {
        id: "live-errors",
        title: "Errors and backlog",
        key: Vec::new(),
        caption: "The backlog is the number of requests that are due and have not ended.",
        panels: vec![
            panel("requests that failed", failed),
            panel("requests that wait at the end of each second", backlog),
        ],
    }
}

fn cpu(points: &[LivePoint]) -> Picture {
    Picture {
        id: "live-cpu",
        title: "CPU",
        key: vec![(Stroke::B, "target"), (Stroke::C, "generator")],
        caption: "Cores in use, from the CPU clocks of the processes.",
        panels: vec![Panel {
            name: "cores",
            axis: Axis::Cores,
            lines: vec![
                (Stroke::B, values(points, |point| point.target_cores)),
                (Stroke::C, values(points, |point| point.generator_cores)),
            ],
        }],
    }
}

/// A figure with its plot.
struct Picture {
    id: &'static str,
    title: &'static str,
    key: Vec<(Stroke, &'static str)>,
    caption: &'static str,
    panels: Vec<Panel>,
}

impl Picture {
    /// `None` if there is no value yet.
    fn drawn(&self, domain: (f64, f64)) -> Option<Element> {
        let plot = timeline::plot(self.id, self.title, self.caption, domain, &self.panels)?;
        let entries: Vec<(Stroke, String)> =
            self.key.iter().map(|(stroke, name)| (*stroke, (*name).to_owned())).collect();
        let key = (!entries.is_empty()).then(|| legend(&entries));
        Some(figure(self.title, key, plot, self.caption, None))
    }
}

/// What the figures do not say, and why some are missing.
fn notes(workload: &Workload, state: &LoadState) -> Element {
    let mut notes = vec![
        "A percentile of one second rests on few requests. The report has those of the whole window."
            .to_owned(),
    ];
    notes.extend(state.cpu_missing.iter().map(|why| format!("CPU of the target: {why}.")));
    if workload.engine != Engine::Wire {
        notes.push(
            "A real client sends this load. Each request is one record for it. The page does not show the \
             client's batches and retries."
                .to_owned(),
        );
    }
    if workload.acks == 0 {
        notes.push(
            "With acks=0 the broker does not answer. The latency ends when the request is sent.".to_owned(),
        );
    }
    if workload.consumers > 0 {
        notes.push("Consumer lag and end-to-end latency are in the report only.".to_owned());
    }
    section("notes", "Notes").child(el("ul").children(notes.iter().map(|note| el("li").text(note))))
}

#[cfg(test)]
mod tests {
    use hone_record::{Hdr, PackedHdr};

    use super::*;
    use crate::sample;

    fn points(seconds: u32) -> Vec<LivePoint> {
        let point = |second: u32| LivePoint {
            at_s: f64::from(second),
            due_per_s: 1_000.0,
            acked_per_s: 990.0,
            latency_us: Some([200.0, 900.0, 2_500.0, 5_000.0]),
            failed: 2,
            backlog: 17,
            target_cores: Some(1.25),
            generator_cores: Some(0.5),
            generator_lag_us_p99: 40.0,
        };
        (0..seconds).map(point).collect()
    }

    fn page(state: &LoadState) -> String {
        let window = sample::window("target", 1, 1.0);
        load_live("b<1>:9092", &window.workload, state).replace('\u{a0}', " ")
    }

    fn ended(result: Result<Window, String>) -> String {
        let files = "Record: runs/load-001/window.json\nReport: runs/load-001/window.html\n".to_owned();
        let phase = LoadPhase::Ended(Arc::new(LoadEnd { result, files }));
        page(&LoadState { phase, points: points(3), ..LoadState::default() })
    }

    #[test]
    fn a_second_has_its_due_rate_from_what_ended_and_what_waits() {
        let mut latency = Hdr::new();
        (1..=1_000).for_each(|step| latency.record_ns(step * 1_000));
        let second = SeriesPoint {
            acked_requests: 90,
            failed_requests: 5,
            backlog_requests: 25,
            latency_us_p50: 500.0,
            latency_us_p99: 990.0,
            latency_us_max: 1_000.0,
            latency: PackedHdr::from(&latency),
            length_s: Some(0.5),
            ..SeriesPoint::default()
        };
        let point = LivePoint::new(&second, 20);
        assert_eq!((point.due_per_s, point.acked_per_s, point.failed, point.backlog), (200.0, 180.0, 5, 25));
        let [p50, p99, p999, max] = point.latency_us.unwrap();
        assert!((p999 - 999.0).abs() < 2.0 && (p50, p99, max) == (500.0, 990.0, 1_000.0), "{p999}");
        let silent = LivePoint::new(&SeriesPoint { backlog_requests: 7, ..SeriesPoint::default() }, 0);
        assert_eq!((silent.due_per_s, silent.latency_us), (7.0, None));
    }

    #[test]
    fn the_page_has_figures_and_plots_of_the_seconds() {
        let state = LoadState {
            phase: LoadPhase::Measuring,
            at_s: 3.4,
            points: points(3),
            cpu_missing: Some("another machine".to_owned()),
        };
        let html = page(&state);
        for text in [
            "Load of b&lt;1&gt;:9092",
            "3 s of ",
            "2.50 ms",
            "990/s",
            "1,000/s due",
            "6 since the start",
            "1.25 cores",
            "CPU of the target: another machine.",
            "data-live=\"yes\" data-every=\"1000\"",
        ] {
            assert!(html.contains(text), "no `{text}` in {html}");
        }
        for id in ["live-latency", "live-rate", "live-errors", "live-cpu"] {
            assert!(html.contains(&format!("id=\"{id}-wide-title\"")), "{id}");
        }
        assert!(!html.contains("href=\"/records\"") && !html.contains("NaN"), "there is one page only");
    }

    #[test]
    fn before_the_first_second_there_is_no_plot() {
        let html = page(&LoadState { phase: LoadPhase::WarmingUp(0.4), ..LoadState::default() });
        assert!(html.contains("warming up</span> 40 % of it is done."), "{html}");
        assert!(!html.contains("<figure"), "{html}");
    }

    #[test]
    fn a_long_load_shows_its_last_quarter_of_an_hour() {
        let state = |seconds| LoadState {
            phase: LoadPhase::Measuring,
            points: points(seconds),
            ..LoadState::default()
        };
        let (short, long) = (page(&state(MOST_SECONDS as u32)), page(&state(86_400)));
        assert!(long.contains("the last 15 minutes") && !short.contains("the last 15 minutes"));
        assert!(long.len() < short.len() + 10_000, "{} after {}", long.len(), short.len());
    }

    #[test]
    fn the_end_has_the_result_or_the_error_and_the_files() {
        let html = ended(Ok(sample::window("target", 1, 1.0)));
        for text in ["data-live=\"no\"", "ended</span>", "The result", "Report: runs/load-001/window.html"] {
            assert!(html.contains(text), "no `{text}` in {html}");
        }
        assert!(!html.contains("id=\"pause\""), "nothing is refreshed any more");
        let html = ended(Err("no connection to <b>".to_owned()));
        assert!(html.contains("failed</span>") && html.contains("no connection to &lt;b&gt;"), "{html}");
    }
}
