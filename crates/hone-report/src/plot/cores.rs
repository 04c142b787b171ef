//! The use of each core over time: a row for each core, a cell for each slice.

use hone_record::CoreUse;

use super::frame::{
    Anchor, Drawing, Pane, Size, Stroke, both_sizes, coordinate, label, line, rectangle, stroke_sample,
};
use super::legend_of_shapes;
use super::scale::{self, Scale};
use crate::quantity::{self, NBSP};
use crate::tree::{Element, Markup, el};

/// The cores of one window.
#[derive(Debug)]
pub(crate) struct Side {
    /// Its arm.
    pub(crate) stroke: Stroke,
    /// Its name.
    pub(crate) label: String,
    /// Its cores.
    pub(crate) found: CoreUse,
}

/// Shades of the scale, each for a tenth of the range. Idle cells have none.
const SHADES: [&str; 10] = ["u0", "u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9"];
/// Most cells along the axis. In a longer window, a cell is the mean of several slices.
const CELLS: usize = 120;
/// Most cells of a window, because each is some bytes of the page.
const ALL_CELLS: usize = 4_000;

/// The shades with their percentages.
pub(crate) fn legend() -> Element {
    let scale = SHADES.iter().enumerate().map(|(step, class)| {
        let left = 3.6 * step as f64;
        strip(class, 10.0, &[(left, left + 3.6, 5.0)])
    });
    let scale =
        scale.fold(Markup::default(), Markup::with).with(rectangle((0.0, 0.0), (36.0, 10.0), "cell-frame"));
    legend_of_shapes([(scale, format!("core idle to core busy: 0{NBSP}% to 100{NBSP}%"))])
}

/// The plot. `None` when no side has a slice.
pub(crate) fn plot(id: &str, title: &str, sides: &[Side]) -> Option<Markup> {
    let sides: Vec<&Side> = sides.iter().filter(|side| !side.found.busy_percent.is_empty()).collect();
    let end_s = scale::extent(sides.iter().flat_map(|side| side.found.ends_s.iter().copied()))?.1;
    let described = sides.iter().map(|side| describe(side)).collect::<Vec<_>>().join("; ");
    let description =
        format!("Busy share of each core over {} seconds. Means: {described}.", quantity::significant(end_s));
    Some(both_sizes(id, title, &description, |size| draw(size, &sides, end_s)))
}

fn describe(side: &Side) -> String {
    let mean = |core: &u32| {
        let percent = side.found.mean_percent(*core)?;
        Some(format!("core {core} {}", quantity::percent(percent / 100.0)))
    };
    let cores: Vec<String> = side.found.busy_percent.keys().filter_map(mean).collect();
    format!("{}: {}", side.label, cores.join(", "))
}

fn draw(size: Size, sides: &[&Side], end_s: f64) -> Drawing {
    let (left, right) = (size.pick(70.0, 46.0), size.width() - 14.0);
    let x = Scale::linear((0.0, end_s), (left, right));
    let most = sides.iter().map(|side| side.found.busy_percent.len()).max().unwrap_or(1);
    // Rows of many cores are thin, so that the drawing fits on a screen.
    let row = (280.0 / most as f64).clamp(3.0, size.pick(22.0, 20.0));
    let mut body = Markup::default();
    let mut top = 0.0;
    for side in sides {
        if sides.len() > 1 {
            let sample =
                el("g").attr("transform", format!("translate(0 {top})")).child(stroke_sample(side.stroke));
            body.push(sample);
            body.push(label(42.0, top + 9.0, Anchor::Start, &side.label));
            top += 18.0;
        }
        let pane = Pane { left, right, top, bottom: top + row * side.found.busy_percent.len() as f64 };
        body.push(rows(side, &pane, &x, row));
        top = pane.bottom + 14.0;
    }
    let axis = Pane { left, right, top: 0.0, bottom: top - 14.0 };
    for second in scale::linear_ticks(end_s, size.pick(12, 6)) {
        body.push(line((x.at(second), axis.bottom), (x.at(second), axis.bottom + 4.0), "axis"));
        body.push(label(x.at(second), axis.bottom + 17.0, Anchor::Middle, &quantity::plain(second)));
    }
    body.push(label(right, axis.bottom + 35.0, Anchor::End, "seconds from the window's start"));
    Drawing { height: axis.bottom + 42.0, body }
}

fn rows(side: &Side, pane: &Pane, x: &Scale, row: f64) -> Markup {
    let mut out = Markup::from(rectangle((pane.left, pane.top), (pane.right, pane.bottom), "cell-frame"));
    let mut shaded: Vec<Vec<(f64, f64, f64)>> = vec![Vec::new(); SHADES.len()];
    let most = (ALL_CELLS / side.found.busy_percent.len().max(1)).clamp(24, CELLS);
    let gap = if row > 8.0 { 1.0 } else { 0.0 };
    let mut names = Vec::new();
    for (index, core) in side.found.busy_percent.keys().enumerate() {
        let middle = pane.top + row * (index as f64 + 0.5);
        names.push((middle, core.to_string()));
        for Cell { from_s, to_s, shade } in cells(&side.found, *core, most) {
            if let Some(of_shade) = shade.and_then(|shade| shaded.get_mut(shade)) {
                of_shade.push((x.at(from_s), x.at(to_s), middle));
            }
        }
    }
    for (class, cells) in SHADES.into_iter().zip(shaded).filter(|(_, cells)| !cells.is_empty()) {
        out.push(strip(class, row - gap, &cells));
    }
    let boxes: Vec<(f64, f64)> = names.iter().map(|(y, _)| (*y, 12.0)).collect();
    for (y, name) in scale::without_overlap(&boxes, 1.0).into_iter().filter_map(|kept| names.get(kept)) {
        let name = if names.len() > 16 { name.clone() } else { format!("core {name}") };
        out.push(label(pane.left - 6.0, y + 4.0, Anchor::End, &name));
    }
    out
}

/// Cells of one shade as thick lines, each from the left to the right around its middle: half as many bytes as rectangles.
fn strip(class: &'static str, thickness: f64, cells: &[(f64, f64, f64)]) -> Element {
    let one = |(left, right, middle): &(f64, f64, f64)| {
        format!("M{} {}H{}", coordinate(*left), coordinate(*middle), coordinate(*right))
    };
    el("path")
        .class(class)
        .attr("stroke-width", coordinate(thickness))
        .attr("d", cells.iter().map(one).collect::<String>())
}

/// Neighbouring slices of one shade.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Cell {
    from_s: f64,
    to_s: f64,
    /// `None` for an idle core.
    shade: Option<usize>,
}

fn cells(found: &CoreUse, core: u32, most: usize) -> Vec<Cell> {
    let slices: Vec<(f64, f64, u8)> = found.slices(core).collect();
    let mut out: Vec<Cell> = Vec::new();
    for some in slices.chunks(slices.len().div_ceil(most).max(1)) {
        let (Some(first), Some(last)) = (some.first(), some.last()) else { continue };
        let busy: f64 = some.iter().map(|(from, to, percent)| (to - from) * f64::from(*percent)).sum();
        let shade = shade(busy / (last.1 - first.0));
        match out.last_mut() {
            Some(before) if before.shade == shade => before.to_s = last.1,
            _ => out.push(Cell { from_s: first.0, to_s: last.1, shade }),
        }
    }
    out
}

/// The tenth in which a percentage lies.
fn shade(percent: f64) -> Option<usize> {
    (percent >= 0.5).then(|| ((percent / 10.0).ceil() as usize).clamp(1, SHADES.len()) - 1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn side(label: &str, percent: &[&[u8]]) -> Side {
        let busy_percent: BTreeMap<u32, Vec<u8>> =
            percent.iter().enumerate().map(|(core, slices)| (core as u32, slices.to_vec())).collect();
        let slices = percent.first().map_or(0, |slices| slices.len());
        let ends_s = (1..=slices).map(|end| end as f64).collect();
        Side { stroke: Stroke::A, label: label.to_owned(), found: CoreUse { ends_s, busy_percent } }
    }

    #[test]
    fn a_busy_core_has_dark_cells_where_it_was_busy() {
        let found = side("b", &[&[0, 100, 100, 35], &[5, 5, 5, 5]]);
        let svg = plot("c", "t", &[found]).unwrap().into_string();
        // Four seconds from 70 to 866, rows of 22 with a gap of one.
        for path in [
            "u9\" stroke-width=\"21\" d=\"M269 11H667",
            "u3\" stroke-width=\"21\" d=\"M667 11H866",
            "u0\" stroke-width=\"21\" d=\"M70 33H866",
        ] {
            assert!(svg.contains(&format!("class=\"{path}\"")), "{path}: {svg}");
        }
        assert!(svg.contains("b: core 0 58.8\u{a0}%, core 1 5.00\u{a0}%"), "{svg}");
    }

    #[test]
    fn shades_are_tenths() {
        assert_eq!(
            [0.0, 0.4, 0.5, 10.0, 10.1, 99.0, 100.0].map(shade),
            [None, None, Some(0), Some(0), Some(1), Some(9), Some(9)]
        );
    }

    #[test]
    fn many_cores_and_a_long_window_stay_small() {
        let rows: Vec<Vec<u8>> = (0..128_usize)
            .map(|core| (0..1_200_usize).map(|at| (at * 7 + core * 13) as u8 % 101).collect())
            .collect();
        let rows: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let svg = plot("c", "t", &[side("b", &rows), side("a", &rows)]).unwrap().into_string();
        assert!(svg.len() < 300_000, "{}", svg.len());
        assert!(!svg.contains("NaN"));
    }

    #[test]
    fn no_slice_is_no_plot() {
        assert_eq!(plot("c", "t", &[]), None);
        assert_eq!(plot("c", "t", &[side("b", &[&[]])]), None);
    }
}
