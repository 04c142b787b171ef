//! Lines over the seconds of a load, in panels below each other.

use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, path, thinned};
use super::scale::Scale;
use super::series::{linear_axis, log_axis, time_axis};
use crate::tree::Markup;

/// A line as `(second, value)`. Without a value there is a gap.
pub(crate) type Values = Vec<(f64, Option<f64>)>;

/// One panel.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Name of the values.
    pub(crate) name: &'static str,
    /// The axis of the values.
    pub(crate) axis: Axis,
    /// The lines.
    pub(crate) lines: Vec<(Stroke, Values)>,
}

/// The axis of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Latencies in microseconds, logarithmic.
    Latency,
    /// Counts from 0 on.
    Count,
    /// Cores from 0 on.
    Cores,
}

/// The plot over `domain`, in seconds. `None` if no line has a value.
pub(crate) fn plot(
    id: &str,
    title: &str,
    description: &str,
    domain: (f64, f64),
    panels: &[Panel],
) -> Option<Markup> {
    let mut points = panels.iter().flat_map(|panel| &panel.lines).flat_map(|(_, points)| points);
    let has_value = points.any(|(_, value)| value.is_some());
    has_value.then(|| both_sizes(id, title, description, |size| draw(size, domain, panels)))
}

fn draw(size: Size, domain: (f64, f64), panels: &[Panel]) -> Drawing {
    let (panel_height, gap) = (size.pick(150.0, 120.0), 34.0);
    let (left, right) = (size.pick(70.0, 58.0), size.width() - 14.0);
    let x = Scale::linear(domain, (left, right));
    let mut body = Markup::default();
    let mut top = 24.0;
    for (index, panel) in panels.iter().enumerate() {
        let pane = Pane { left, right, top, bottom: top + panel_height };
        body.push(label(0.0, top - 11.0, Anchor::Start, panel.name));
        body.push(lines(&pane, &x, panel));
        if index + 1 == panels.len() {
            body.push(time_axis(&pane, &x, domain, size));
        }
        top += panel_height + gap;
    }
    Drawing { height: top + 12.0, body }
}

fn lines(pane: &Pane, x: &Scale, panel: &Panel) -> Markup {
    let values = panel.lines.iter().flat_map(|(_, points)| points.iter().filter_map(|(_, value)| *value));
    let axis = match panel.axis {
        Axis::Latency => log_axis(values, pane),
        Axis::Count => linear_axis(values, pane, 1.0),
        Axis::Cores => linear_axis(values, pane, 0.1),
    };
    let Some((y, ticks)) = axis else { return pane.floor().into() };
    let mut out = pane.y_axis(&ticks).with(pane.floor());
    // The first line is drawn last: its dashes over a solid line show both where they coincide.
    for (stroke, points) in panel.lines.iter().rev() {
        // The value of a second is in its middle.
        let place = |(at_s, value): &(f64, Option<f64>)| value.map(|value| (x.at(at_s + 0.5), y.at(value)));
        out.push(path(thinned(points.iter().map(place)), stroke.class_for(points.len())));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(axis: Axis, values: Values) -> Panel {
        Panel { name: "x", axis, lines: vec![(Stroke::B, values)] }
    }

    fn drawn(domain: (f64, f64), panels: &[Panel]) -> Option<String> {
        plot("x", "t", "d", domain, panels).map(Markup::into_string)
    }

    #[test]
    fn a_line_begins_in_its_second_and_has_gaps() {
        let values = vec![(0.0, Some(100.0)), (1.0, Some(200.0)), (2.0, None), (3.0, Some(100.0))];
        let svg = drawn((0.0, 4.0), &[panel(Axis::Latency, values)]).unwrap();
        let line = svg.split("class=\"line b\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        // Four seconds from 70 to 866: a second is 199 wide.
        assert!(line.starts_with("M169.5 ") && line.matches('M').count() == 2, "{line}");
    }

    #[test]
    fn the_time_axis_begins_where_the_domain_does() {
        let values = vec![(7_000.0, Some(0.25)), (7_001.0, Some(0.5))];
        let svg = drawn((7_000.0, 7_900.0), &[panel(Axis::Cores, values)]).unwrap();
        assert!(svg.contains(">7,000</text>") && svg.contains(">7,900</text>"), "{svg}");
        assert!(!svg.contains("NaN"), "{svg}");
    }

    #[test]
    fn no_value_is_no_plot_and_an_empty_panel_has_a_floor() {
        assert_eq!(drawn((0.0, 1.0), &[panel(Axis::Count, vec![(0.0, None)])]), None);
        let panels = [panel(Axis::Count, vec![(0.0, Some(0.0))]), panel(Axis::Cores, Vec::new())];
        assert_eq!(drawn((0.0, 1.0), &panels).unwrap().matches("class=\"axis\"").count(), 4);
    }
}
