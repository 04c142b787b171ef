//! Shared parts of all plots: the two sizes, the SVG around a drawing, axes, lines, legends.

use super::scale;
use crate::tree::{Element, Markup, el};

/// One unit of a wide drawing is about a pixel of a desktop page; one of a narrow drawing is a pixel of a phone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Size {
    /// For pages from 700 px on, and for print.
    Wide,
    /// For narrower pages.
    Narrow,
}

impl Size {
    /// Width of the drawing.
    pub(crate) fn width(self) -> f64 {
        self.pick(880.0, 360.0)
    }

    /// One value per size.
    pub(crate) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }

    fn name(self) -> &'static str {
        self.pick("wide", "narrow")
    }

    fn class(self) -> &'static str {
        self.pick("plot wide", "plot narrow")
    }
}

/// The inside of an SVG.
#[derive(Debug)]
pub(crate) struct Drawing {
    /// Height in the units of its [`Size`].
    pub(crate) height: f64,
    /// The drawing.
    pub(crate) body: Markup,
}

/// Both sizes of a drawing with their title and description. `id` must be unique in the page.
pub(crate) fn both_sizes(id: &str, title: &str, description: &str, draw: impl Fn(Size) -> Drawing) -> Markup {
    let svg = |size: Size| {
        let Drawing { height, body } = draw(size);
        let [title_id, desc_id] = ["title", "desc"].map(|part| format!("{id}-{}-{part}", size.name()));
        el("svg")
            .class(size.class())
            .attr("viewBox", format!("0 0 {} {}", size.width(), coordinate(height)))
            .attr("role", "img")
            .attr("aria-labelledby", format!("{title_id} {desc_id}"))
            .child(el("title").attr("id", title_id).text(title))
            .child(el("desc").attr("id", desc_id).text(description))
            .child(body)
    };
    [svg(Size::Wide), svg(Size::Narrow)].into_iter().collect()
}

/// A picture that scrolls on a narrow page: scaled down, its text would be too small to read.
pub(crate) fn scrolling(picture: Element) -> Element {
    let region = el("div").class("scroll").attr("role", "group").attr("tabindex", "0");
    region.attr("aria-label", "Picture, scrolls sideways").child(picture)
}

/// A position with one decimal: a tenth of a pixel is enough, and it keeps the page small.
pub(crate) fn coordinate(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// The style of a line. Colour and dash both distinguish the arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stroke {
    /// The first arm: blue, dashed.
    A,
    /// The second arm: orange, solid.
    B,
    /// A third line: grey, dotted.
    C,
    /// A fourth line: green, dashes and dots.
    D,
}

impl Stroke {
    /// Class of the line.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::A => "line a",
            Self::B => "line b",
            Self::C => "line c",
            Self::D => "line d",
        }
    }

    /// Class of a line with this many points: hundreds of them need a thin line.
    pub(crate) fn class_for(self, points: usize) -> &'static str {
        match (self, points > 400) {
            (_, false) => self.class(),
            (Self::A, true) => "line a dense",
            (Self::B, true) => "line b dense",
            (Self::C, true) => "line c dense",
            (Self::D, true) => "line d dense",
        }
    }

    /// Class of a line in the background.
    pub(crate) fn faint_class(self) -> &'static str {
        match self {
            Self::A => "line a faint",
            Self::B => "line b faint",
            Self::C => "line c faint",
            Self::D => "line d faint",
        }
    }
}

/// The legend of lines: a sample of each line and its name, as HTML so that it wraps.
pub(crate) fn legend(entries: &[(Stroke, String)]) -> Element {
    let entry = |(stroke, label): &(Stroke, String)| (stroke_sample(*stroke), label.clone());
    legend_of_shapes(entries.iter().map(entry))
}

/// A sample of a line for a legend.
pub(crate) fn stroke_sample(stroke: Stroke) -> Markup {
    el("path").class(stroke.class()).attr("d", "M1 5H35").into()
}

/// The legend of other shapes: a sample of each, drawn inside of 36 × 10 units, and its name.
pub(crate) fn legend_of_shapes(entries: impl IntoIterator<Item = (Markup, String)>) -> Element {
    let entry = |(shape, label): (Markup, String)| {
        let sample = el("svg").class("key").attr("viewBox", "0 0 36 10").attr("aria-hidden", "true");
        el("li").child(sample.child(shape)).text(&label)
    };
    el("ul").class("legend").children(entries.into_iter().map(entry))
}

/// A path through points, with a gap where one is missing.
pub(crate) fn path(points: impl IntoIterator<Item = Option<(f64, f64)>>, class: &'static str) -> Element {
    let mut commands = String::new();
    let mut pen_down = false;
    for point in points {
        if let Some((x, y)) = point {
            commands.push(if pen_down { 'L' } else { 'M' });
            commands.push_str(&format!("{} {}", coordinate(x), coordinate(y)));
        }
        pen_down = point.is_some();
    }
    el("path").class(class).attr("d", commands)
}

/// An area between two corners of each of many rectangles, as one path: a thousand rectangles would be a heavy page.
pub(crate) fn rectangles(
    corners: impl IntoIterator<Item = ((f64, f64), (f64, f64))>,
    class: &'static str,
) -> Element {
    let at = coordinate;
    let one = |((left, top), (right, bottom)): ((f64, f64), (f64, f64))| {
        format!("M{} {}H{}V{}H{}Z", at(left), at(top), at(right), at(bottom), at(left))
    };
    el("path").class(class).attr("d", corners.into_iter().map(one).collect::<String>())
}

/// The area between an upper and a lower line, each as `(x, y)` from left to right.
pub(crate) fn area(upper: &[(f64, f64)], lower: &[(f64, f64)], class: &'static str) -> Element {
    let around = upper.iter().chain(lower.iter().rev()).copied().map(Some);
    path(around, class)
}

/// Points of a line of which many lie on one pixel: of each two units along the axis, only the lowest and the highest remain. Gaps stay.
pub(crate) fn thinned(points: impl IntoIterator<Item = Option<(f64, f64)>>) -> Vec<Option<(f64, f64)>> {
    let points: Vec<Option<(f64, f64)>> = points.into_iter().collect();
    let column = |point: &Option<(f64, f64)>| point.map(|(x, _)| (x / 2.0).floor());
    let by_height = |left: &&Option<(f64, f64)>, right: &&Option<(f64, f64)>| {
        let y = |point: &Option<(f64, f64)>| point.map_or(0.0, |(_, y)| y);
        y(left).total_cmp(&y(right))
    };
    let ends = |run: &[Option<(f64, f64)>]| match run {
        [_, _, _, ..] if run[0].is_some() => {
            let both = [run.iter().min_by(by_height), run.iter().max_by(by_height)];
            let mut both: Vec<(f64, f64)> = both.into_iter().flatten().copied().flatten().collect();
            both.sort_by(|left, right| left.0.total_cmp(&right.0));
            both.into_iter().map(Some).collect()
        }
        few => few.to_vec(),
    };
    points.chunk_by(|left, right| column(left) == column(right)).flat_map(ends).collect()
}

/// A straight line.
pub(crate) fn line(from: (f64, f64), to: (f64, f64), class: &'static str) -> Element {
    el("line")
        .class(class)
        .attr("x1", coordinate(from.0))
        .attr("y1", coordinate(from.1))
        .attr("x2", coordinate(to.0))
        .attr("y2", coordinate(to.1))
}

/// A rectangle between two corners.
pub(crate) fn rectangle(from: (f64, f64), to: (f64, f64), class: &'static str) -> Element {
    el("rect")
        .class(class)
        .attr("x", coordinate(from.0.min(to.0)))
        .attr("y", coordinate(from.1.min(to.1)))
        .attr("width", coordinate((to.0 - from.0).abs()))
        .attr("height", coordinate((to.1 - from.1).abs()))
}

/// Position of a text relative to its point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    /// The text begins at the point.
    Start,
    /// The text is centred on the point.
    Middle,
    /// The text ends at the point.
    End,
}

/// A text; `y` is its baseline.
pub(crate) fn label(x: f64, y: f64, anchor: Anchor, text: &str) -> Element {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    el("text").attr("x", coordinate(x)).attr("y", coordinate(y)).attr("text-anchor", anchor).text(text)
}

/// Width of a text in the plots' 12-unit font: 0.58 of the font size for each character fits system fonts.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.0
}

/// The rectangle that contains the data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pane {
    /// Left edge.
    pub(crate) left: f64,
    /// Right edge.
    pub(crate) right: f64,
    /// Upper edge.
    pub(crate) top: f64,
    /// Lower edge.
    pub(crate) bottom: f64,
}

impl Pane {
    /// Horizontal grid lines with labels left of the pane, as `(position, label)` in order of importance. A label that would
    /// overlap an earlier one is omitted, but its line stays.
    pub(crate) fn y_axis(&self, ticks: &[(f64, String)]) -> Markup {
        let boxes: Vec<(f64, f64)> = ticks.iter().map(|(y, _)| (*y, 12.0)).collect();
        let kept = scale::without_overlap(&boxes, 1.0);
        let mut out = Markup::default();
        for (index, (y, text)) in ticks.iter().enumerate() {
            out.push(line((self.left, *y), (self.right, *y), "grid"));
            if kept.contains(&index) {
                out.push(label(self.left - 8.0, y + 4.0, Anchor::End, text));
            }
        }
        out
    }

    /// Vertical grid lines with labels below the pane, in order of importance. A label that would overlap an earlier one is
    /// omitted, but its line stays.
    pub(crate) fn x_axis(&self, ticks: &[(f64, String)]) -> Markup {
        let boxes: Vec<(f64, f64)> = ticks.iter().map(|(x, text)| (*x, text_width(text))).collect();
        let kept = scale::without_overlap(&boxes, 6.0);
        let mut out = Markup::default();
        for (index, (x, text)) in ticks.iter().enumerate() {
            out.push(line((*x, self.top), (*x, self.bottom), "grid"));
            if kept.contains(&index) {
                out.push(label(*x, self.bottom + 17.0, Anchor::Middle, text));
            }
        }
        out
    }

    /// The line under the data.
    pub(crate) fn floor(&self) -> Element {
        line((self.left, self.bottom), (self.right, self.bottom), "axis")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_break_at_gaps() {
        let drawn = path([Some((0.0, 1.0)), Some((2.0, 3.04)), None, Some((5.0, 6.0))], "line a");
        assert_eq!(Markup::from(drawn).into_string(), "<path class=\"line a\" d=\"M0 1L2 3M5 6\"></path>");
    }

    #[test]
    fn many_points_on_a_pixel_keep_their_peaks_and_gaps() {
        let few = [Some((0.0, 1.0)), None, None, None, Some((9.0, 2.0))];
        assert_eq!(thinned(few), few);
        let second =
            |at: i32| Some((f64::from(at) / 100.0, if at == 150 { 80.0 } else { f64::from(at % 2) }));
        let long: Vec<_> = (0..1_000).map(second).chain([None]).chain((1_000..1_100).map(second)).collect();
        let thin = thinned(long);
        assert!(thin.len() < 20, "{thin:?}");
        assert!(
            thin.contains(&Some((1.5, 80.0))) && thin.iter().filter(|point| point.is_none()).count() == 1
        );
        assert!(thin.iter().flatten().is_sorted_by(|left, right| left.0 <= right.0));
    }

    #[test]
    fn both_drawings_have_their_own_ids() {
        let svg =
            both_sizes("x", "T", "D", |_| Drawing { height: 10.0, body: Markup::default() }).into_string();
        for id in ["x-wide-title", "x-wide-desc", "x-narrow-title", "x-narrow-desc"] {
            assert_eq!(svg.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
        }
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!(coordinate(12.0), "12");
        assert_eq!(coordinate(12.34), "12.3");
        assert_eq!(coordinate(-0.5), "-0.5");
    }
}
