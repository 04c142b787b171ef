//! Windows over time: their seconds with stalls and events, and the use of each core.

use hone_record::{CoreUse, STALL_FROM_MS, SeriesPoint, Stall, Window};

use super::{figure, no_figure};
use crate::plot::cores::{self, Side};
use crate::plot::series::{self, Track};
use crate::plot::{Stroke, legend_of_shapes, stroke_sample};
use crate::quantity::{self, NBSP, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Rows of a table of seconds. Longer windows have several seconds in a row, because thousands of rows would make a heavy page.
const MOST_ROWS: usize = 300;
/// Stalls in a table.
const MOST_STALLS: usize = 20;

/// The seconds of one window or of two. `None` without a series. With `lists_events`, the numbers include the events.
pub(crate) fn seconds(
    id: &str,
    title: &str,
    tracks: &[Track],
    caption: &str,
    lists_events: bool,
) -> Option<Element> {
    if tracks.iter().map(|track| track.points.len()).max() == Some(1) {
        return Some(no_figure(title, "The windows are too short to draw seconds."));
    }
    let plot = series::plot(id, title, tracks)?;
    let caption = format!("{caption} Latency runs from the due time of a request to its acknowledgement.");
    let mut numbers = el("div").child(second_table(title, tracks)).children(stall_table(tracks));
    if lists_events {
        numbers = numbers.children(event_table(tracks));
    }
    Some(figure(title, Some(key(tracks)), plot, &caption, Some(numbers)))
}

fn key(tracks: &[Track]) -> Element {
    let lines = tracks.iter().map(|track| (stroke_sample(track.stroke), track.label.clone()));
    let stall = tracks.iter().find(|track| !track.stalls.is_empty()).map(|track| {
        let name = format!("stall: requests waited {STALL_FROM_MS}{NBSP}ms or longer");
        (series::stall_sample(track.stroke), name)
    });
    let event = series::events(tracks).next().map(|_| (series::event_sample(), "event, numbered".to_owned()));
    legend_of_shapes(lines.chain(stall).chain(event))
}

fn second_table(title: &str, tracks: &[Track]) -> Element {
    let of_track = |track: &Track| {
        ["p50", "p99", "waiting"]
            .map(|what| Column::numbers(Markup::text(&format!("{} {what}", track.label))))
    };
    let heads = tracks.iter().flat_map(of_track);
    let mut table = Table::new(title, std::iter::once(Column::words("second")).chain(heads).collect());
    let seconds = tracks.iter().map(|track| track.points.len()).max().unwrap_or(0);
    let in_a_row = seconds.div_ceil(MOST_ROWS).max(1);
    if in_a_row > 1 {
        table = table.remark(&format!("Each row has the largest value of {in_a_row} seconds."));
    }
    for first in (0..seconds).step_by(in_a_row) {
        let points = |track: &Track| {
            let end = (first + in_a_row).min(track.points.len());
            second_cells(track.points.get(first..end).unwrap_or_default())
        };
        let cells = tracks.iter().flat_map(points).collect();
        let at_s = tracks.iter().find_map(|track| track.points.get(first)).map_or(0.0, |point| point.at_s);
        table.row(Markup::text(&quantity::plain(at_s)), cells);
    }
    table.finish()
}

/// The largest values of some seconds.
fn second_cells(points: &[SeriesPoint]) -> [Cell; 3] {
    let latency = |of: fn(&SeriesPoint) -> f64| {
        let known = points.iter().filter(|point| point.acked_requests > 0).map(of);
        known.reduce(f64::max).map_or(NONE.to_owned(), quantity::time_us)
    };
    let waiting = points.iter().map(|point| point.backlog_requests).max();
    [
        latency(|point| point.latency_us_p50),
        latency(|point| point.latency_us_p99),
        waiting.map_or(NONE.to_owned(), quantity::count),
    ]
    .map(|text| Cell::number(&text))
}

/// The longest stalls, in the order of their time. `None` without stalls.
fn stall_table(tracks: &[Track]) -> Option<Element> {
    let mut all: Vec<(&Track, &Stall)> =
        tracks.iter().flat_map(|track| track.stalls.iter().map(move |stall| (track, stall))).collect();
    let count = all.len();
    if count == 0 {
        return None;
    }
    all.sort_by(|left, right| right.1.length_s().total_cmp(&left.1.length_s()));
    all.truncate(MOST_STALLS);
    all.sort_by_key(|(_, stall)| stall.begin_ns);
    let numbers = ["length", "requests"].map(|title| Column::numbers(Markup::text(title)));
    let mut columns = vec![Column::words("begin")];
    columns.extend((tracks.len() > 1).then(|| Column::words("variant")));
    columns.extend(numbers);
    let mut table = Table::new("Stalls", columns);
    if count > MOST_STALLS {
        table = table.remark(&format!("The {MOST_STALLS} longest of {}.", quantity::count(count as u64)));
    }
    for (track, stall) in all {
        let mut cells: Vec<Cell> = (tracks.len() > 1).then(|| Cell::text(&track.label)).into_iter().collect();
        let length = quantity::time_us(stall.length_s() * 1e6);
        cells.extend([length, quantity::count(stall.requests)].map(|text| Cell::number(&text)));
        table.row(Markup::text(&seconds_text(stall.begin_ns as f64 / 1e9)), cells);
    }
    Some(table.finish())
}

fn seconds_text(seconds: f64) -> String {
    format!("{seconds:.1}{NBSP}s")
}

/// The events, numbered as in the plot. `None` when there are none.
pub(crate) fn event_table(tracks: &[Track]) -> Option<Element> {
    let several = tracks.len() > 1;
    let mut columns = vec![Column::words("event"), Column::numbers(Markup::text("at"))];
    columns.extend(several.then(|| Column::words("variant")));
    columns.push(Column::words("what"));
    let mut table = Table::new("What happened", columns).remark("Numbered as in the plot.");
    for (index, (track, event)) in series::events(tracks).enumerate() {
        let mut cells = vec![Cell::number(&seconds_text(event.at_s))];
        cells.extend(several.then(|| Cell::text(&track.label)));
        cells.push(Cell::text(&event.what));
        table.row(Markup::text(&(index + 1).to_string()), cells);
    }
    series::events(tracks).next().map(|_| table.finish())
}

/// The use of each core over the time of one window or of two.
pub(crate) fn cores(id: &str, windows: &[(Stroke, &str, &Window)]) -> Element {
    let title = "CPU by core";
    let side = |(stroke, label, window): &(Stroke, &str, &Window)| {
        let found = window.environment.as_ref()?.core_use.clone()?;
        Some(Side { stroke: *stroke, label: (*label).to_owned(), found })
    };
    let sides: Vec<Side> = windows.iter().filter_map(side).collect();
    let Some(plot) = cores::plot(id, title, &sides) else {
        return no_figure(
            title,
            "This record has no CPU by core: an older version of Hone made it, or the machine does not report it.",
        );
    };
    let caption = "All processes on the generator's machine together, without time that the hypervisor took.";
    figure(title, Some(cores::legend()), plot, caption, Some(core_table(title, &sides)))
}

fn core_table(title: &str, sides: &[Side]) -> Element {
    let mut columns = vec![Column::words("core")];
    for side in sides {
        let name = |what: &str| match sides.len() {
            1 => Markup::text(what),
            _ => Markup::text(&format!("{} {what}", side.label)),
        };
        columns.extend(["mean", "busiest slice"].map(|what| Column::numbers(name(what))));
    }
    let mut table = Table::new(title, columns);
    let mut all: Vec<u32> = sides.iter().flat_map(|side| side.found.busy_percent.keys().copied()).collect();
    all.sort_unstable();
    all.dedup();
    for core in all {
        let cells = sides.iter().flat_map(|side| core_cells(&side.found, core)).collect();
        table.row(Markup::text(&core.to_string()), cells);
    }
    table.finish()
}

fn core_cells(found: &CoreUse, core: u32) -> [Cell; 2] {
    let percent =
        |value: Option<f64>| value.map_or(NONE.to_owned(), |value| quantity::percent(value / 100.0));
    [found.mean_percent(core), found.most_percent(core).map(f64::from)]
        .map(|value| Cell::number(&percent(value)))
}
