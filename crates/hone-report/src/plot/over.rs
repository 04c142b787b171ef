//! Values in an order, with the levels between change points.

use hone_record::ChangePoint;

use super::frame::{Anchor, Drawing, Pane, Size, both_sizes, coordinate, label, line};
use super::scale::{self, Scale};
use crate::tree::{Element, Markup, el};

/// A drawing of values in an order.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// Name of the points.
    pub(crate) x_name: &'a str,
    /// Name of the values.
    pub(crate) y_name: &'a str,
    /// Format of a mark on the axis of the values.
    pub(crate) y_mark: fn(f64) -> String,
    /// Label and value of each.
    pub(crate) points: &'a [(String, f64)],
    /// Where the level changes.
    pub(crate) changes: &'a [ChangePoint],
    /// Notes on the axis: the index of the first point after the note, and its text.
    pub(crate) notes: &'a [(usize, String)],
}

/// The name of a note: `a` to `z`, then `a2` and so on.
pub(crate) fn letter(number: usize) -> String {
    let letter = char::from(b'a' + (number % 26) as u8);
    if number < 26 { letter.to_string() } else { format!("{letter}{}", number / 26 + 1) }
}

/// Characters of a label below the axis.
const LABEL: usize = 8;

/// The plot. `None` when no value can be drawn.
pub(crate) fn plot(id: &str, title: &str, description: &str, chart: &Chart<'_>) -> Option<Markup> {
    let y = scale::log_domain(chart.points.iter().map(|(_, value)| *value))?;
    Some(both_sizes(id, title, description, |size| draw(size, chart, y)))
}

fn draw(size: Size, chart: &Chart<'_>, y_domain: (f64, f64)) -> Drawing {
    let height = size.pick(340.0, 300.0);
    let pane =
        Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top: 40.0, bottom: height - 44.0 };
    let last = chart.points.len().saturating_sub(1) as f64;
    let x = Scale::linear((-0.5, last + 0.5), (pane.left, pane.right));
    let y = Scale::log(y_domain, (pane.bottom, pane.top));
    let y_ticks: Vec<(f64, String)> =
        scale::log_ticks(y_domain, 4).into_iter().map(|mark| (y.at(mark), (chart.y_mark)(mark))).collect();
    let x_ticks: Vec<(f64, String)> = order(chart)
        .into_iter()
        .filter_map(|place| Some((x.at(place as f64), short(&chart.points.get(place)?.0))))
        .collect();
    let mut body = Markup::default();
    body.push(pane.y_axis(&y_ticks));
    body.push(pane.x_axis(&x_ticks));
    body.push(pane.floor());
    body.push(label(0.0, 13.0, Anchor::Start, chart.y_name));
    body.push(label(pane.right, height - 6.0, Anchor::End, chart.x_name));
    body.push(levels(chart, &x, &y));
    for (number, (first, text)) in chart.notes.iter().enumerate() {
        let at = x.at(*first as f64 - 0.5);
        let mark = label(at, pane.bottom - 5.0, Anchor::Middle, &letter(number)).class("note-mark");
        let shape = el("g").child(el("title").text(text)).child(line(
            (at, pane.bottom - 20.0),
            (at, pane.bottom),
            "note-line",
        ));
        body.push(shape.child(mark));
    }
    for (number, change) in chart.changes.iter().enumerate() {
        let at = x.at(change.first as f64 - 0.5);
        body.push(line((at, pane.top - 6.0), (at, pane.bottom), "event"));
        let name =
            el("text").class("event-mark").attr("x", coordinate(at)).attr("y", coordinate(pane.top - 10.0));
        body.push(name.attr("text-anchor", "middle").text(&(number + 1).to_string()));
    }
    body.push(
        chart
            .points
            .iter()
            .enumerate()
            .map(|(place, (_, value))| dot(x.at(place as f64), y.at(*value)))
            .collect::<Markup>(),
    );
    Drawing { height, body }
}

/// Positions on the axis by importance: after each change, the ends, then the others.
fn order(chart: &Chart<'_>) -> Vec<usize> {
    let count = chart.points.len();
    let changes = chart.changes.iter().map(|change| change.first);
    let ends = [0, count.saturating_sub(1)];
    // Hundreds of vertical lines would turn the pane grey.
    let step = count.div_ceil(12).max(1);
    let mut places: Vec<usize> = Vec::new();
    for place in changes.chain(ends).chain((0..count).step_by(step)) {
        if place < count && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Shortens a commit to its first letters, and a time to month and day.
fn short(label: &str) -> String {
    let day = label.strip_suffix(" UTC").and_then(|time| time.get(5..10));
    day.map_or_else(|| label.chars().take(LABEL).collect(), str::to_owned)
}

fn levels(chart: &Chart<'_>, x: &Scale, y: &Scale) -> Markup {
    let count = chart.points.len();
    let begins = std::iter::once(0).chain(chart.changes.iter().map(|change| change.first));
    let ends = chart.changes.iter().map(|change| change.first).chain([count]);
    let level = |begin: usize, end: usize| {
        let values = chart.points.get(begin..end).unwrap_or_default();
        let logs = values.iter().map(|(_, value)| value.ln()).filter(|log| log.is_finite());
        (logs.sum::<f64>() / values.len().max(1) as f64).exp()
    };
    begins
        .zip(ends)
        .filter(|(begin, end)| begin < end)
        .map(|(begin, end)| {
            let at = y.at(level(begin, end));
            line((x.at(begin as f64 - 0.5), at), (x.at(end as f64 - 0.5), at), "line a")
        })
        .collect()
}

fn dot(x: f64, y: f64) -> Element {
    el("circle").class("spot b").attr("cx", coordinate(x)).attr("cy", coordinate(y)).attr("r", "3.5")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(points: &[(String, f64)], changes: &[ChangePoint]) -> Option<String> {
        let chart = Chart {
            x_name: "commits",
            y_name: "p50",
            y_mark: crate::quantity::time_us,
            points,
            changes,
            notes: &[(3, "client: linger=5ms".to_owned())],
        };
        plot("x", "t", "d", &chart).map(Markup::into_string)
    }

    #[test]
    fn every_point_is_a_dot_and_every_stretch_a_level() {
        let points: Vec<(String, f64)> =
            (0..20).map(|at| (format!("{at:040x}"), if at < 12 { 100.0 } else { 120.0 })).collect();
        let change = ChangePoint { first: 12, before: 100.0, after: 120.0, ratio: 1.2, p_value: 0.005 };
        let svg = drawn(&points, &[change]).unwrap();
        // Drawn twice, wide and narrow.
        assert_eq!(svg.matches("<circle").count(), 40);
        assert_eq!(svg.matches("class=\"line a\"").count(), 4);
        assert_eq!(svg.matches("class=\"event\"").count(), 2);
        assert_eq!(svg.matches("client: linger=5ms").count(), 2, "a note");
        assert_eq!((letter(0), letter(25), letter(27)), ("a".to_owned(), "z".to_owned(), "b2".to_owned()));
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn nothing_to_draw_is_no_plot_and_one_point_is_one() {
        assert_eq!(drawn(&[], &[]), None);
        assert_eq!(drawn(&[("a".to_owned(), f64::NAN)], &[]), None);
        assert!(drawn(&[("<b>".to_owned(), 3.0)], &[]).unwrap().contains("&lt;b&gt;"));
    }
}
