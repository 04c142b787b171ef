//! Time series: median, 99th percentile and backlog, second by second, in stacked panels, with stalls and events.

use hone_record::{Event, STALL_FROM_MS, SeriesPoint, Stall, Stalls, Window};

use super::frame::{
    Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, line, path, rectangles, text_width, thinned,
};
use super::scale::{self, Scale};
use super::spectrum::latency_ticks;
use crate::quantity;
use crate::tree::{Element, Markup};

/// One window's series.
#[derive(Debug)]
pub(crate) struct Track<'a> {
    /// Style of the line.
    pub(crate) stroke: Stroke,
    /// Name of the series.
    pub(crate) label: String,
    /// Its seconds.
    pub(crate) points: &'a [SeriesPoint],
    /// Its stalls, in the order of their time.
    pub(crate) stalls: &'a [Stall],
    /// Its incidents, in the order of their time.
    pub(crate) events: &'a [Event],
}

impl<'a> Track<'a> {
    /// The series of a window.
    pub(crate) fn new(stroke: Stroke, label: &str, window: &'a Window) -> Self {
        let stalls = window.facts.stalls.as_ref().map_or(&[][..], |stalls: &Stalls| &stalls.kept);
        Self { stroke, label: label.to_owned(), points: &window.series, stalls, events: &window.events }
    }
}

/// The incidents of all tracks in the order of their numbers, each with its track.
pub(crate) fn events<'a>(tracks: &'a [Track<'a>]) -> impl Iterator<Item = (&'a Track<'a>, &'a Event)> {
    tracks.iter().flat_map(|track| track.events.iter().map(move |event| (track, event)))
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

/// A stall of a track for a legend.
pub(crate) fn stall_sample(stroke: Stroke) -> Markup {
    rectangles([((8.0, 1.0), (28.0, 9.0))], stroke_class(stroke, STALLS)).into()
}

/// Classes of a stall.
const STALLS: [&str; 4] = ["stall a", "stall b", "stall c", "stall d"];

/// An event for a legend.
pub(crate) fn event_sample() -> Markup {
    line((18.0, -3.0), (18.0, 13.0), "event").into()
}

/// The plot, with a numbered line for each event and a band for each stall. `None` when no track has a second.
pub(crate) fn plot(id: &str, title: &str, tracks: &[Track]) -> Option<Markup> {
    let seconds = tracks.iter().flat_map(|track| track.points.iter());
    let (start, end) = scale::extent(seconds.map(|point| point.at_s))?;
    // A point stands for the second after it, so the axis continues to its end.
    let domain = (start.min(0.0), end + 1.0);
    let names = tracks.iter().map(|track| track.label.as_str()).collect::<Vec<_>>().join(" and ");
    let stalls: usize = tracks.iter().map(|track| track.stalls.len()).sum();
    let marked = [
        (stalls > 0).then(|| format!(", with {}", quantity::counted(stalls as u64, "stall", "stalls"))),
        events(tracks).next().map(|_| ", with events".to_owned()),
    ];
    let description = format!(
        "Panels over {} seconds: median latency, 99th percentile, requests waiting{}, for {names}.",
        quantity::plain(domain.1 - domain.0),
        marked.into_iter().flatten().collect::<String>()
    );
    Some(both_sizes(id, title, &description, |size| draw(size, tracks, domain)))
}

fn draw(size: Size, tracks: &[Track], domain: (f64, f64)) -> Drawing {
    let panels = panels(tracks);
    let last = panels.len() - 1;
    let (panel_height, gap) = (size.pick(112.0, 96.0), 34.0);
    let (left, right) = (size.pick(70.0, 58.0), size.width() - 14.0);
    let x = Scale::linear(domain, (left, right));
    let stalled: Vec<&Track> = tracks.iter().filter(|track| !track.stalls.is_empty()).collect();
    let (mut body, lane_end) = lanes(&stalled, tracks.len(), &x, (left, right));
    let mut top = 24.0 + lane_end;
    for (index, (name, reading, log)) in panels.into_iter().enumerate() {
        let pane = Pane { left, right, top, bottom: top + panel_height };
        body.push(label(0.0, top - 11.0, Anchor::Start, name));
        body.push(stalled.iter().map(|track| bands(track, &x, &pane)).collect::<Markup>());
        body.push(panel(&pane, &x, tracks, reading, log));
        body.push(event_lines(&pane, &x, tracks, index == 0));
        if index == last {
            body.push(time_axis(&pane, &x, domain, size));
        }
        top += panel_height + gap;
    }
    Drawing { height: top + 12.0, body }
}

/// Height of the row of a track's stalls.
const LANE: f64 = 20.0;

/// The rows of stalls above the panels, with the lengths of the longest, and the lower edge of the rows.
fn lanes(stalled: &[&Track], tracks: usize, x: &Scale, (left, right): (f64, f64)) -> (Markup, f64) {
    if stalled.is_empty() {
        return (Markup::default(), 0.0);
    }
    let name = format!("stalls: requests waited {STALL_FROM_MS} ms or longer");
    let mut body = Markup::from(label(0.0, 13.0, Anchor::Start, &name));
    let mut top = 20.0;
    for track in stalled {
        let middle = top + LANE / 2.0;
        body.push(line((left, top + LANE - 2.0), (right, top + LANE - 2.0), "grid"));
        if tracks > 1 {
            body.push(label(left - 8.0, middle + 4.0, Anchor::End, &shortened(&track.label, left - 8.0)));
        }
        body.push(rectangles(
            spans(track.stalls, x).map(|(from, to)| ((from, top + 5.0), (to, top + LANE - 5.0))),
            stroke_class(track.stroke, STALLS),
        ));
        body.push(lengths(track.stalls, x, middle + 4.0, right));
        top += LANE;
    }
    (body, top + 6.0)
}

/// The beginning of a name that fits.
fn shortened(name: &str, width: f64) -> String {
    let most = (width / text_width("n")) as usize;
    match name.chars().count() {
        count if count <= most => name.to_owned(),
        _ => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn stroke_class(stroke: Stroke, classes: [&'static str; 4]) -> &'static str {
    let [a, b, c, d] = classes;
    match stroke {
        Stroke::A => a,
        Stroke::B => b,
        Stroke::C => c,
        Stroke::D => d,
    }
}

/// A narrower stall could not be seen.
const NARROWEST: f64 = 2.0;

/// Begin and end of each stall on the axis. Stalls without a gap that can be seen are one.
fn spans(stalls: &[Stall], x: &Scale) -> impl Iterator<Item = (f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for stall in stalls {
        let from = x.at(stall.begin_ns as f64 / 1e9);
        let to = x.at(stall.end_ns as f64 / 1e9).max(from + NARROWEST);
        match joined.last_mut() {
            Some(last) if from - last.1 < 0.5 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined.into_iter()
}

/// The lengths of the longest stalls, each right of its own, as far as there is room.
fn lengths(stalls: &[Stall], x: &Scale, baseline: f64, right: f64) -> Markup {
    let mut longest: Vec<&Stall> = stalls.iter().collect();
    longest.sort_by(|left, right| right.length_s().total_cmp(&left.length_s()));
    longest.truncate(LENGTHS);
    let texts: Vec<(f64, String)> = longest
        .iter()
        .map(|stall| {
            let text = quantity::time_us(stall.length_s() * 1e6);
            let behind =
                x.at(stall.end_ns as f64 / 1e9).max(x.at(stall.begin_ns as f64 / 1e9) + NARROWEST) + 4.0;
            // At the right edge, the text goes to the left of its stall.
            let is_free = behind + text_width(&text) <= right;
            let from =
                if is_free { behind } else { x.at(stall.begin_ns as f64 / 1e9) - 4.0 - text_width(&text) };
            (from, text)
        })
        .collect();
    let boxes: Vec<(f64, f64)> =
        texts.iter().map(|(from, text)| (from + text_width(text) / 2.0, text_width(text))).collect();
    let kept = scale::without_overlap(&boxes, 8.0);
    let shown = kept.into_iter().filter_map(|index| texts.get(index));
    shown.map(|(from, text)| label(*from, baseline, Anchor::Start, text)).collect()
}

/// More lengths would fill the row.
const LENGTHS: usize = 8;

/// The stalls behind a panel.
fn bands(track: &Track, x: &Scale, pane: &Pane) -> Element {
    rectangles(
        spans(track.stalls, x).map(|(from, to)| ((from, pane.top), (to, pane.bottom))),
        stroke_class(track.stroke, ["stall-band a", "stall-band b", "stall-band c", "stall-band d"]),
    )
}

fn panel(pane: &Pane, x: &Scale, tracks: &[Track], reading: Reading, log: bool) -> Markup {
    let values = tracks.iter().flat_map(|track| track.points.iter().filter_map(reading));
    let Some((y, ticks)) = (if log { log_axis(values, pane) } else { linear_axis(values, pane, 1.0) }) else {
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
        out.push(path(thinned(points), track.stroke.class_for(track.points.len())));
    }
    out
}

/// More lines than this would hide the data.
const EVENTS_DRAWN: usize = 40;

fn event_lines(pane: &Pane, x: &Scale, tracks: &[Track], numbered: bool) -> Markup {
    let mut out = Markup::default();
    let places: Vec<(f64, f64)> = events(tracks).map(|(_, event)| (x.at(event.at_s), 14.0)).collect();
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

pub(super) fn log_axis(values: impl Iterator<Item = f64>, pane: &Pane) -> Option<Axis> {
    let domain = scale::log_domain(values)?;
    let y = Scale::log(domain, (pane.bottom, pane.top));
    Some((y, latency_ticks(domain, &y)))
}

/// An axis from 0 to the largest value, and at least to `least`. An axis of counts (`least` is 1) has whole marks only.
pub(super) fn linear_axis(values: impl Iterator<Item = f64>, pane: &Pane, least: f64) -> Option<Axis> {
    let high = scale::extent(values)?.1.max(least) * 1.08;
    let y = Scale::linear((0.0, high), (pane.bottom, pane.top));
    let whole = |tick: &f64| least < 1.0 || tick.fract() == 0.0;
    let ticks = scale::linear_ticks(high, 4)
        .into_iter()
        .filter(whole)
        .map(|tick| (y.at(tick), quantity::plain(tick)));
    Some((y, ticks.collect()))
}

pub(super) fn time_axis(pane: &Pane, x: &Scale, domain: (f64, f64), size: Size) -> Markup {
    let steps = scale::linear_ticks(domain.1 - domain.0, size.pick(12, 6));
    let step = steps.get(1).copied().unwrap_or(1.0);
    let first = (domain.0 / step).ceil() * step;
    let mut out = Markup::default();
    for second in steps.into_iter().map(|since| first + since).filter(|second| x.holds(*second)) {
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
        plot("series", "t", &[track(points, &[], &[])]).map(Markup::into_string)
    }

    fn track<'a>(points: &'a [SeriesPoint], stalls: &'a [Stall], events: &'a [Event]) -> Track<'a> {
        Track { stroke: Stroke::A, label: "baseline".to_owned(), points, stalls, events }
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
        let event =
            |at_s| Event { at_s, kind: hone_record::EventKind::LeaderMoved, what: "moved".to_owned() };
        let events = [event(1.5), event(1.5), event(3.0)];
        let svg = plot("series", "t", &[track(&points, &[], &events)]).unwrap().into_string();
        // Four panels, three lines, two sizes; of two events at one time one has room for its number.
        assert_eq!(svg.matches("class=\"event\"").count(), 24);
        assert_eq!(svg.matches("event-mark").count(), 4);
        let middle = svg.split("class=\"event\" x1=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(middle, "468", "half-way between 70 and 866");
        assert!(svg.contains("ended with an error") && !svg.contains("consumer"));
    }

    fn stall(begin_s: f64, end_s: f64) -> Stall {
        Stall { begin_ns: (begin_s * 1e9) as u64, end_ns: (end_s * 1e9) as u64, requests: 7 }
    }

    #[test]
    fn stalls_lie_on_the_time_axis_with_their_lengths() {
        let points: Vec<SeriesPoint> = (0..4).map(|at| second(f64::from(at), 5)).collect();
        let stalls = [stall(1.0, 2.0), stall(3.0, 3.000_1)];
        let svg = plot("series", "t", &[track(&points, &stalls, &[])]).unwrap().into_string();
        assert!(svg.contains("with 2\u{a0}stalls"), "{svg}");
        let row = svg.split("class=\"stall a\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        // Four seconds from 70 to 866: a second is 199 wide. The second stall is too short to be seen otherwise.
        assert_eq!(row, "M269 25H468V35H269ZM667 25H669V35H667Z");
        assert!(svg.contains(">1.00\u{a0}s</text>"), "{svg}");
        // A row, and a band in each of three panels, two sizes.
        assert_eq!(svg.matches("stall-band a").count(), 6);
        assert!(!drawn(&points).unwrap().contains("stall"));
    }

    #[test]
    fn a_thousand_stalls_are_few_bytes_and_none_leaves_the_drawing() {
        let points: Vec<SeriesPoint> = (0..100).map(|at| second(f64::from(at), 5)).collect();
        let stalls: Vec<Stall> =
            (0..1_000).map(|at| stall(f64::from(at) / 10.0, f64::from(at) / 10.0 + 0.01)).collect();
        let light = drawn(&points).unwrap().len();
        let svg = plot("series", "t", &[track(&points, &stalls, &[])]).unwrap().into_string();
        assert!(svg.len() < light + 60_000, "{}", svg.len() - light);
        let late = [stall(99.5, 500.0)];
        let svg = plot("series", "t", &[track(&points, &late, &[])]).unwrap().into_string();
        assert!(!svg.contains("NaN") && svg.contains("H866V"), "{svg}");
    }

    #[test]
    fn no_second_is_no_plot() {
        assert_eq!(drawn(&[]), None);
    }
}
