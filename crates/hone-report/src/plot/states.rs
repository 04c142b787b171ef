//! Figures of one state after the other, as small multiples: a panel for each figure, a point for each state.

use super::frame::{
    Anchor, Drawing, Pane, Size, both_sizes, label, legend_of_shapes, line, path, text_width,
};
use super::mark;
use super::scale::{self, Scale};
use crate::tree::{Element, Markup, el};

/// A state: the original one, or the one after a step.
#[derive(Debug, Clone)]
pub(crate) struct State {
    /// What was changed.
    pub(crate) name: String,
    /// Whether the next step builds on it.
    pub(crate) is_kept: bool,
}

/// A figure of a state.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Reading {
    /// The figure; `None` if it is unknown.
    pub(crate) value: Option<f64>,
    /// The confidence interval of the step, from the value of the state before.
    pub(crate) interval: Option<(f64, f64)>,
}

/// One figure of all states.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Its name.
    pub(crate) name: &'static str,
    /// Format of a mark on its axis.
    pub(crate) mark: fn(f64) -> String,
    /// Format of a value.
    pub(crate) write: fn(f64) -> String,
    /// A reading for each state.
    pub(crate) readings: Vec<Reading>,
}

/// The shapes and the numbers of the states.
pub(crate) fn legend(states: &[State], panels: &[Panel]) -> Element {
    let readings = || panels.iter().flat_map(|panel| &panel.readings);
    let kept =
        Markup::from(line((0.0, 5.0), (36.0, 5.0), "line b")).with(mark::circle(18.0, 5.0, 4.5, "dot b"));
    let shapes = [
        Some((kept, "original state and accepted steps".to_owned())),
        states
            .iter()
            .any(|state| !state.is_kept)
            .then(|| (dropped((18.0, 5.0)), "step not accepted".to_owned())),
        readings().any(|reading| reading.interval.is_some()).then(|| {
            let bar = Markup::from(line((18.0, 0.0), (18.0, 10.0), "interval thin"));
            (bar, "confidence interval of the step".to_owned())
        }),
    ];
    let numbers = states.iter().enumerate().map(|(index, state)| {
        el("li").child(el("b").text(&index.to_string())).text(&format!(" {}", state.name))
    });
    legend_of_shapes(shapes.into_iter().flatten()).children(numbers)
}

/// The plot. Panels without a value are left out. `None` with fewer than two states that have one.
pub(crate) fn plot(id: &str, title: &str, states: &[State], panels: &[Panel]) -> Option<Markup> {
    let known =
        |panel: &&Panel| panel.readings.iter().filter(|reading| value(reading).is_some()).count() >= 2;
    let panels: Vec<&Panel> = panels.iter().filter(known).collect();
    if panels.is_empty() {
        return None;
    }
    let described: Vec<String> = panels.iter().map(|panel| describe(panel, states)).collect();
    let description = format!("A point for each state, in the order of the steps. {}.", described.join(". "));
    Some(both_sizes(id, title, &description, |size| draw(size, states, &panels)))
}

fn describe(panel: &Panel, states: &[State]) -> String {
    let each = states.iter().zip(&panel.readings);
    let each = each
        .filter_map(|(state, reading)| Some(format!("{} {}", state.name, (panel.write)(value(reading)?))));
    format!("{}: {}", panel.name, each.collect::<Vec<_>>().join(", "))
}

fn value(reading: &Reading) -> Option<f64> {
    reading.value.filter(|value| value.is_finite() && *value >= 0.0)
}

fn draw(size: Size, states: &[State], panels: &[&Panel]) -> Drawing {
    let columns = size.pick(2, 1);
    let (gap_x, height, gap_y) = (28.0, size.pick(132.0, 110.0), 44.0);
    let gutter = size.pick(64.0, 58.0);
    let width = (size.width() - gap_x * (columns - 1) as f64) / columns as f64;
    let mut body = Markup::default();
    for (index, panel) in panels.iter().enumerate() {
        let (column, row) = (index % columns, index / columns);
        let from = (width + gap_x) * column as f64;
        let top = 24.0 + (height + gap_y) * row as f64;
        let pane = Pane { left: from + gutter, right: from + width - 8.0, top, bottom: top + height };
        body.push(label(from, top - 10.0, Anchor::Start, panel.name).attr("class", "plain"));
        body.push(draw_panel(&pane, states, panel));
    }
    let rows = panels.len().div_ceil(columns) as f64;
    Drawing { height: 24.0 + (height + gap_y) * rows - gap_y + 24.0, body }
}

/// From this span on, the small values would lie on the floor of a linear axis.
const LOG_FROM: f64 = 20.0;

fn draw_panel(pane: &Pane, states: &[State], panel: &Panel) -> Markup {
    let inside = || {
        panel.readings.iter().flat_map(|reading| {
            let ends = reading.interval.map(|(low, high)| [low, high]).into_iter().flatten();
            value(reading).into_iter().chain(ends)
        })
    };
    let Some((_, high)) = scale::extent(inside()) else { return pane.floor().into() };
    let positive = scale::extent(panel.readings.iter().filter_map(value).filter(|value| *value > 0.0));
    let is_log = positive.is_some_and(|(low, high)| high / low > LOG_FROM);
    let (y, marks) = match scale::log_domain(inside()).filter(|_| is_log) {
        Some(domain) => (Scale::log(domain, (pane.bottom, pane.top)), scale::log_ticks(domain, 3)),
        None => {
            let high = if high > 0.0 { high * 1.1 } else { 1.0 };
            (Scale::linear((0.0, high), (pane.bottom, pane.top)), scale::linear_ticks(high, 4))
        }
    };
    let x = Scale::linear((-0.5, states.len() as f64 - 0.5), (pane.left, pane.right));
    let ticks: Vec<(f64, String)> = marks.into_iter().map(|mark| (y.at(mark), (panel.mark)(mark))).collect();
    let mut out = pane.y_axis(&ticks).with(pane.floor()).with(names(pane, states, &x));
    let at = |index: usize, value: f64| (x.at(index as f64), y.at(value));
    let kept = states.iter().zip(&panel.readings).enumerate().filter(|(_, (state, _))| state.is_kept);
    out.push(path(kept.map(|(index, (_, reading))| Some(at(index, value(reading)?))), "line b"));
    for (index, (state, reading)) in states.iter().zip(&panel.readings).enumerate() {
        if let Some((low, high)) = reading.interval {
            let (from, to) = (at(index, low), at(index, high));
            let bar = |(x, y): (f64, f64)| line((x - 4.0, y), (x + 4.0, y), "interval thin");
            out.push(Markup::from(line(from, to, "interval thin")).with(bar(from)).with(bar(to)));
        }
        let Some(value) = value(reading) else { continue };
        let place = at(index, value);
        out.push(if state.is_kept {
            mark::circle(place.0, place.1, 4.5, "dot b").into()
        } else {
            dropped(place)
        });
    }
    out
}

/// A step that was not accepted: an empty circle.
fn dropped((x, y): (f64, f64)) -> Markup {
    mark::circle(x, y, 4.0, "hollow").into()
}

/// The names below the axis, or the numbers of the states where names have no room.
fn names(pane: &Pane, states: &[State], x: &Scale) -> Markup {
    let room = (pane.right - pane.left) / states.len().max(1) as f64 - 6.0;
    let fits = states.iter().all(|state| text_width(&state.name) <= room);
    let text = |(index, state): (usize, &State)| if fits { state.name.clone() } else { index.to_string() };
    let texts: Vec<(f64, String)> =
        states.iter().enumerate().map(|each| (x.at(each.0 as f64), text(each))).collect();
    let boxes: Vec<(f64, f64)> = texts.iter().map(|(x, text)| (*x, text_width(text))).collect();
    let kept = scale::without_overlap(&boxes, 2.0).into_iter().filter_map(|index| texts.get(index));
    kept.map(|(x, text)| label(*x, pane.bottom + 17.0, Anchor::Middle, text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity;

    fn states() -> Vec<State> {
        let state = |(name, is_kept): (&str, bool)| State { name: name.to_owned(), is_kept };
        [("original", true), ("linger=5ms", true), ("acks=0", false), ("linger=25ms", true)].map(state).into()
    }

    fn panel(values: [Option<f64>; 4]) -> Panel {
        let reading = |value| Reading { value, interval: None };
        Panel {
            name: "p99",
            mark: quantity::time_us,
            write: quantity::time_us,
            readings: values.map(reading).into(),
        }
    }

    #[test]
    fn the_line_goes_through_accepted_states_and_the_others_are_hollow() {
        let mut found = panel([Some(100.0), Some(80.0), Some(120.0), Some(50.0)]);
        found.readings[1].interval = Some((75.0, 85.0));
        let svg = plot("s", "t", &states(), &[found]).unwrap().into_string();
        let path = svg.split("class=\"line b\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(path.matches(['M', 'L']).count(), 3, "{path}");
        // A panel of half the width: 354 for four states from 64 on.
        assert!(path.starts_with("M108.2 "), "{path}");
        assert_eq!((svg.matches("class=\"hollow\"").count(), svg.matches("class=\"dot b\"").count()), (2, 6));
        assert_eq!(svg.matches("class=\"interval thin\"").count(), 6);
        assert!(svg.contains("p99: original 100\u{a0}µs, linger=5ms 80.0\u{a0}µs"), "{svg}");
        assert!(svg.contains(">2</text>"), "no room for names");
    }

    #[test]
    fn a_half_of_the_largest_value_is_at_half_the_height_unless_the_span_is_wide() {
        let svg = |values| plot("s", "t", &states(), &[panel(values)]).unwrap().into_string();
        let last = |svg: &str| {
            let path =
                svg.split("class=\"line b\" d=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
            path.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        let linear = svg([Some(100.0), Some(100.0), None, Some(50.0)]);
        assert!((last(&linear) - (156.0 - 132.0 / 2.2)).abs() < 0.1, "{}", last(&linear));
        let wide = svg([Some(10_000.0), Some(100.0), None, Some(1.0)]);
        assert!(last(&wide) > 140.0 && wide.contains("10.0\u{a0}ms"), "{wide}");
    }

    #[test]
    fn what_is_unknown_has_no_panel_and_one_state_is_no_plot() {
        let unknown = panel([Some(1.0), None, None, None]);
        assert_eq!(plot("s", "t", &states(), &[unknown]), None);
        assert_eq!(plot("s", "t", &[], &[]), None);
        let zero = plot("s", "t", &states(), &[panel([Some(0.0), Some(0.0), None, Some(f64::NAN)])]).unwrap();
        assert!(!zero.into_string().contains("NaN"));
    }
}
