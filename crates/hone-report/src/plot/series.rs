//! Time series: median, 99th percentile and backlog, second by second, in stacked panels.

use hone_record::{Event, SeriesPoint};

use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, line, path};
use super::scale::{self, Scale};
use super::spectrum::latency_ticks;
use crate::quantity;
use crate::tree::Markup;

/// One window's series.
#[derive(Debug)]
pub(crate) struct Track<'a> {
    /// Style of the line.
    pub(crate) stroke: Stroke,
    /// Name of the series.
    pub(crate) label: String,
    /// Its seconds.
    pub(crate) points: &'a [SeriesPoint],
}

/// The value of a second in a panel; `None` leaves a gap.
type Reading = fn(&SeriesPoint) -> Option<f64>;

/// Latency of a second. Without an acknowledgement, a second has none.
fn p50(point: &SeriesPoint) -> Option<f64> {
    (point.acked_requests > 0 && point.latency_us_p50 > 0.0).then_some(point.latency_us_p50)
}

fn p99(point: &SeriesPoint) -> Option<f64> {
    (point.acked_requests > 0 && point.latency_us_p99 > 0.0).then_some(point.latency_us_p99)
}

fn backlog(point: &SeriesPoint) -> Option<f64> {
    Some(point.backlog_requests as f64)
}

fn failed(point: &SeriesPoint) -> Option<f64> {
    Some(point.failed_requests as f64)
}

fn consumer_lag(point: &SeriesPoint) -> Option<f64> {
    point.consumer_lag_records.map(|records| records as f64)
}

/// A panel: its name, its value, and whether its axis is logarithmic.
type Panel = (&'static str, Reading, bool);

/// The panels of these tracks: three always, the others only if they have values.
fn panels(tracks: &[Track]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = vec![
        ("p50 (log)", p50, true),
        ("p99 (log)", p99, true),
        ("requests waiting at the end of each second", backlog, false),
    ];
    let any = |reading: Reading| {
        tracks
            .iter()
            .flat_map(|track| track.points)
            .any(|point| reading(point).is_some_and(|value| value > 0.0))
    };
    if any(failed) {
        panels.push(("requests that ended with an error", failed, false));
    }
    if tracks.iter().flat_map(|track| track.points).any(|point| point.consumer_lag_records.is_some()) {
        panels.push(("records that the slowest consumer lagged behind", consumer_lag, false));
    }
    panels
}

/// The plot, with a numbered line for each event. `None` when no track has a second.
pub(crate) fn plot(id: &str, title: &str, tracks: &[Track], events: &[Event]) -> Option<Markup> {
    let seconds = tracks.iter().flat_map(|track| track.points.iter());
    let (start, end) = scale::extent(seconds.map(|point| point.at_s))?;
    // A point stands for the second after it, so the axis continues to its end.
    let domain = (start.min(0.0), end + 1.0);
    let names = tracks.iter().map(|track| track.label.as_str()).collect::<Vec<_>>().join(" and ");
    let description = format!(
        "Panels over {} seconds: median latency, 99th percentile, requests waiting{}, for {names}.",
        quantity::plain(domain.1 - domain.0),
        if events.is_empty() { "" } else { ", with events" }
    );
    Some(both_sizes(id, title, &description, |size| draw(size, tracks, events, domain)))
}

fn draw(size: Size, tracks: &[Track], events: &[Event], domain: (f64, f64)) -> Drawing {
    let panels = panels(tracks);
    let last = panels.len() - 1;
    let (panel_height, gap) = (size.pick(112.0, 96.0), 34.0);
    let mut body = Markup::default();
    let mut top = 24.0;
    for (index, (name, reading, log)) in panels.into_iter().enumerate() {
        let pane =
            Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top, bottom: top + panel_height };
        let x = Scale::linear(domain, (pane.left, pane.right));
        body.push(label(0.0, top - 11.0, Anchor::Start, name));
        body.push(panel(&pane, &x, tracks, reading, log));
        body.push(event_lines(&pane, &x, events, index == 0));
        if index == last {
            body.push(time_axis(&pane, &x, domain, size));
        }
        top += panel_height + gap;
    }
    Drawing { height: top + 12.0, body }
}

fn panel(pane: &Pane, x: &Scale, tracks: &[Track], reading: Reading, log: bool) -> Markup {
    let values = tracks.iter().flat_map(|track| track.points.iter().filter_map(reading));
    let Some((y, ticks)) = (if log { log_axis(values, pane) } else { linear_axis(values, pane) }) else {
        let middle = (pane.top + pane.bottom) / 2.0;
        return Markup::default().with(pane.floor()).with(label(
            pane.left,
            middle,
            Anchor::Start,
            "nothing acknowledged",
        ));
    };
    let mut out = pane.y_axis(&ticks).with(pane.floor());
    // The first line is drawn last: its dashes over a solid line show both where they coincide.
    for track in tracks.iter().rev() {
        // The value of a second is in its middle.
        let points = track
            .points
            .iter()
            .map(|point| reading(point).map(|value| (x.at(point.at_s + 0.5), y.at(value))));
        out.push(path(points, track.stroke.class()));
    }
    out
}

/// More lines than this would hide the data.
const EVENTS_DRAWN: usize = 40;

fn event_lines(pane: &Pane, x: &Scale, events: &[Event], numbered: bool) -> Markup {
    let mut out = Markup::default();
    let places: Vec<(f64, f64)> = events.iter().map(|event| (x.at(event.at_s), 14.0)).collect();
    let kept = scale::without_overlap(&places, 2.0);
    for (index, (at, _)) in places.iter().enumerate().take(EVENTS_DRAWN) {
        out.push(line((*at, pane.top), (*at, pane.bottom), "event"));
        if numbered && kept.contains(&index) {
            let mark = label(*at, pane.top - 3.0, Anchor::Middle, &(index + 1).to_string());
            out.push(mark.class("event-mark"));
        }
    }
    out
}

/// A scale and its marks `(position, label)`.
type Axis = (Scale, Vec<(f64, String)>);

fn log_axis(values: impl Iterator<Item = f64>, pane: &Pane) -> Option<Axis> {
    let domain = scale::log_domain(values)?;
    let y = Scale::log(domain, (pane.bottom, pane.top));
    Some((y, latency_ticks(domain, &y)))
}

fn linear_axis(values: impl Iterator<Item = f64>, pane: &Pane) -> Option<Axis> {
    let high = scale::extent(values)?.1.max(1.0) * 1.08;
    let y = Scale::linear((0.0, high), (pane.bottom, pane.top));
    let whole = |tick: &f64| tick.fract() == 0.0;
    let ticks = scale::linear_ticks(high, 4)
        .into_iter()
        .filter(whole)
        .map(|tick| (y.at(tick), quantity::plain(tick)));
    Some((y, ticks.collect()))
}

fn time_axis(pane: &Pane, x: &Scale, domain: (f64, f64), size: Size) -> Markup {
    let ticks = scale::linear_ticks(domain.1, size.pick(12, 6));
    let mut out = Markup::default();
    for second in ticks {
        out.push(label(x.at(second), pane.bottom + 17.0, Anchor::Middle, &quantity::plain(second)));
    }
    out.with(label(pane.right, pane.bottom + 36.0, Anchor::End, "seconds from the window's start"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(at_s: f64, acked_requests: u64) -> SeriesPoint {
        SeriesPoint {
            at_s,
            acked_requests,
            latency_us_p50: 200.0 * acked_requests.min(1) as f64,
            latency_us_p99: 900.0 * acked_requests.min(1) as f64,
            latency_us_max: 2_000.0,
            backlog_requests: 0,
            ..SeriesPoint::default()
        }
    }

    fn drawn(points: &[SeriesPoint]) -> Option<String> {
        let track = Track { stroke: Stroke::A, label: "baseline".to_owned(), points };
        plot("series", "t", &[track], &[]).map(Markup::into_string)
    }

    #[test]
    fn a_second_without_answers_is_a_gap_and_not_a_zero() {
        let svg = drawn(&[second(0.0, 5), second(1.0, 5), second(2.0, 0), second(3.0, 5)]).unwrap();
        let first = svg.split("class=\"line a\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(first.matches('M').count(), 2, "{first}");
    }

    #[test]
    fn a_window_without_any_answer_says_so() {
        let svg = drawn(&[second(0.0, 0), second(1.0, 0)]).unwrap();
        assert!(svg.contains("nothing acknowledged") && !svg.contains("NaN"));
    }

    #[test]
    fn events_stand_on_the_time_axis_and_errors_get_a_panel() {
        let points = [second(0.0, 5), SeriesPoint { failed_requests: 3, ..second(1.0, 5) }, second(2.0, 5)];
        let track = || [Track { stroke: Stroke::A, label: "baseline".to_owned(), points: &points }];
        let event =
            |at_s| Event { at_s, kind: hone_record::EventKind::LeaderMoved, what: "moved".to_owned() };
        let svg = plot("series", "t", &track(), &[event(1.5), event(1.5), event(3.0)]).unwrap().into_string();
        // Four panels, three lines, two sizes; of two events at one time one has room for its number.
        assert_eq!(svg.matches("class=\"event\"").count(), 24);
        assert_eq!(svg.matches("event-mark").count(), 4);
        let middle = svg.split("class=\"event\" x1=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(middle, "468", "half-way between 70 and 866");
        assert!(svg.contains("ended with an error") && !svg.contains("consumer"));
    }

    #[test]
    fn no_second_is_no_plot() {
        assert_eq!(drawn(&[]), None);
    }
}
