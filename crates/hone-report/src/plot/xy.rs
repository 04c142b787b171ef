//! Lines over a logarithmic axis: a figure over the rate or the batch size.

use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, line, path, rectangle};
use super::scale::{self, Scale};
use crate::tree::{Element, Markup, el};

/// One figure along the axis.
#[derive(Debug)]
pub(crate) struct Line {
    /// Style of the line.
    pub(crate) stroke: Stroke,
    /// Name of the figure.
    pub(crate) label: String,
    /// Every window: position on the axis, and figure. The line connects the medians of the positions.
    pub(crate) windows: Vec<(f64, f64)>,
}

/// A drawing of lines.
#[derive(Debug)]
pub(crate) struct Chart<'a> {
    /// Name of the axis.
    pub(crate) x_name: &'a str,
    /// Name of the figures.
    pub(crate) y_name: &'a str,
    /// Format of a mark on the axis of the figures.
    pub(crate) y_mark: fn(f64) -> String,
    /// The lines.
    pub(crate) lines: &'a [Line],
    /// Positions that the axis must include, besides those of the lines.
    pub(crate) places: &'a [f64],
    /// A highlighted range of the axis.
    pub(crate) band: Option<(f64, f64)>,
    /// Limits of the figures, drawn as horizontal lines.
    pub(crate) limits: &'a [(f64, String)],
}

/// The highlighted range for a legend.
pub(crate) fn band_sample() -> Markup {
    rectangle((2.0, 0.0), (34.0, 10.0), "band b").into()
}

/// The plot. `None` when no line has a window.
pub(crate) fn plot(id: &str, title: &str, description: &str, chart: &Chart<'_>) -> Option<Markup> {
    let windows = || chart.lines.iter().flat_map(|line| line.windows.iter());
    let figures = windows().map(|window| window.1).chain(chart.limits.iter().map(|limit| limit.0));
    windows().next()?;
    let y = scale::log_domain(figures)?;
    let x = scale::log_domain(windows().map(|window| window.0).chain(chart.places.iter().copied()))?;
    Some(both_sizes(id, title, description, |size| draw(size, chart, x, y)))
}

fn draw(size: Size, chart: &Chart<'_>, x_domain: (f64, f64), y_domain: (f64, f64)) -> Drawing {
    let height = size.pick(380.0, 320.0);
    let pane =
        Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top: 26.0, bottom: height - 44.0 };
    let x = Scale::log(x_domain, (pane.left, pane.right));
    let y = Scale::log(y_domain, (pane.bottom, pane.top));
    let ticks = |marks: Vec<f64>, scale: &Scale, write: &dyn Fn(f64) -> String| {
        marks.into_iter().map(|mark| (scale.at(mark), write(mark))).collect::<Vec<_>>()
    };
    let mut body = Markup::default();
    if let Some((from, to)) = chart.band {
        body.push(rectangle((x.at(from), pane.top), (x.at(to), pane.bottom), "band b"));
    }
    body.push(pane.y_axis(&ticks(scale::log_ticks(y_domain, 4), &y, &|mark| (chart.y_mark)(mark))));
    body.push(pane.x_axis(&ticks(scale::fine_log_ticks(x_domain), &x, &crate::quantity::short)));
    body.push(pane.floor());
    body.push(label(0.0, 13.0, Anchor::Start, chart.y_name));
    body.push(label(pane.right, height - 6.0, Anchor::End, chart.x_name));
    for (limit, name) in chart.limits {
        let at = y.at(*limit);
        body.push(line((pane.left, at), (pane.right, at), "one"));
        body.push(label(pane.left + 6.0, at - 5.0, Anchor::Start, name));
    }
    // The first line is drawn last: its dashes over a solid line show both where they coincide.
    for found in chart.lines.iter().rev() {
        body.push(path(
            medians(&found.windows).map(|(at, figure)| Some((x.at(at), y.at(figure)))),
            found.stroke.class(),
        ));
        for (at, figure) in &found.windows {
            body.push(dot((x.at(*at), y.at(*figure)), found.stroke));
        }
    }
    Drawing { height, body }
}

/// A window as a point in the style of its line: as wide as a dot, with no length.
fn dot((x, y): (f64, f64), stroke: Stroke) -> Element {
    let class = match stroke {
        Stroke::A => "spot a",
        Stroke::B => "spot b",
        Stroke::C => "spot c",
        Stroke::D => "spot d",
    };
    let at = super::frame::coordinate;
    el("circle").class(class).attr("cx", at(x)).attr("cy", at(y)).attr("r", "3")
}

/// The median figure of each position, in order.
pub(crate) fn medians(windows: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let mut sorted: Vec<(f64, f64)> = windows.to_vec();
    sorted.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1)));
    let places = sorted.chunk_by(|left, right| left.0.total_cmp(&right.0).is_eq());
    let middle = |same: &[(f64, f64)]| {
        Some((same.first()?.0, hone_record::median(same.iter().map(|(_, figure)| *figure))?))
    };
    places.filter_map(middle).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: &[Line]) -> Option<String> {
        let chart = Chart {
            x_name: "requests/s",
            y_name: "latency",
            y_mark: crate::quantity::time_us,
            lines,
            places: &[10_000.0],
            band: Some((4_000.0, 5_000.0)),
            limits: &[(10_000.0, "p99 <= 10 ms".to_owned())],
        };
        plot("x", "t", "d", &chart).map(Markup::into_string)
    }

    #[test]
    fn the_line_goes_through_the_median_of_each_place() {
        let windows = [(2.0, 5.0), (1.0, 9.0), (1.0, 3.0), (1.0, 4.0)];
        assert_eq!(medians(&windows).collect::<Vec<_>>(), [(1.0, 4.0), (2.0, 5.0)]);
    }

    #[test]
    fn every_window_is_a_dot() {
        let windows = vec![(1_000.0, 200.0), (2_000.0, 300.0), (2_000.0, 310.0)];
        let svg = chart(&[Line { stroke: Stroke::B, label: "p50".to_owned(), windows }]).unwrap();
        // Drawn twice, wide and narrow.
        assert_eq!(svg.matches("<circle").count(), 6);
        assert!(svg.contains("p99 &lt;= 10 ms") && !svg.contains("NaN"));
    }

    #[test]
    fn no_window_is_no_plot() {
        assert_eq!(chart(&[]), None);
    }
}
