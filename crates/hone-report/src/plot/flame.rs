//! A differential flame graph: files, their functions, and what is inlined into these, as wide as their instructions and in the colour
//! of their difference.

use std::collections::BTreeMap;

use hone_format::{exact_change, rate};
use hone_record::{CodeChange, Counted};

use super::frame::{legend_of_shapes, rectangle};
use crate::tree::{Element, Markup, el};

/// Width of the drawing in its own units.
const WIDTH: f64 = 1_000.0;
/// Height of a row, and of the bar in it.
const ROW: f64 = 19.0;
const BAR: f64 = 18.0;
/// Rows that are drawn. Deeper functions are part of the last one.
const MOST_ROWS: usize = 32;
/// Bars that are drawn. Smaller ones are merged, or the page would be heavy.
const MOST_BARS: usize = 600;
/// Width of a letter, with a margin, and of the margins of a label. `page.js` has the same numbers.
const LETTER: f64 = 7.0;
const MARGIN: f64 = 8.0;
/// A larger number of instructions is a broken record.
const MOST_INSTRUCTIONS: f64 = 1e15;

/// Classes by the size of a difference, from small to large: less and more.
const LESS: [&str; 3] = ["flame-less-1", "flame-less-2", "flame-less-3"];
const MORE: [&str; 3] = ["flame-more-1", "flame-more-2", "flame-more-3"];
const SAME: &str = "flame-same";
/// Limits of these sizes, as shares of the largest difference of a function.
const SIZES: [f64; 3] = [0.01, 0.1, 0.5];

/// A number of instructions with its sign.
pub(crate) fn signed(difference: f64) -> String {
    match rate(difference.abs()) {
        zero if zero == "0" => zero,
        size if difference < 0.0 => format!("−{size}"),
        size => format!("+{size}"),
    }
}

/// The colours.
pub(crate) fn legend([a, b]: [&str; 2]) -> Element {
    let shape = |class| Markup::from(rectangle((2.0, 0.0), (34.0, 10.0), class));
    legend_of_shapes([
        (shape(LESS[2]), format!("− fewer instructions in {b} than in {a}")),
        (shape(MORE[2]), "+ more instructions".to_owned()),
        (shape(SAME), "hardly a difference".to_owned()),
    ])
}

/// The graph. `None` without changed code.
pub(crate) fn plot(id: &str, title: &str, counted: &Counted, changes: &[&CodeChange]) -> Option<Element> {
    let tree = Node::of_changes(changes);
    if tree.width <= 0.0 {
        return None;
    }
    let drawing = Drawing { scale: WIDTH / tree.width, least: least(&tree), most: tree.most_below() };
    let mut bars = Vec::new();
    drawing.draw(&tree, 0.0, 0, &mut bars);
    let rows = 1 + bars.iter().map(|bar| bar.row).max().unwrap_or(0);
    let [title_id, desc_id] = ["title", "desc"].map(|part| format!("{id}-{part}"));
    let description = format!(
        "Instructions per operation of {} and {}. {}",
        counted.a,
        counted.b,
        tree.title("Changed code").replace('\n', ": ")
    );
    let svg = el("svg")
        .class("flame")
        .attr("viewBox", format!("0 0 {WIDTH} {}", rows as f64 * ROW))
        .attr("role", "img")
        .attr("aria-labelledby", format!("{title_id} {desc_id}"))
        .child(el("title").attr("id", title_id).text(title))
        .child(el("desc").attr("id", desc_id).text(&description));
    Some(svg.children(bars.iter().map(Bar::element)))
}

/// A file, a function, or an inlined function.
#[derive(Debug, Default)]
struct Node<'a> {
    /// Instructions of A and B, with those of all functions inside.
    instructions: [f64; 2],
    /// The larger number of each piece of code inside, added up.
    width: f64,
    inner: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of_changes(changes: &[&'a CodeChange]) -> Self {
        let mut root = Self::default();
        for change in changes {
            let sound =
                |value: f64| if value.is_finite() { value.clamp(0.0, MOST_INSTRUCTIONS) } else { 0.0 };
            let own = change.instructions.map(sound);
            root.add(own);
            let object = change.object.as_deref().unwrap_or("code without a file");
            let mut at = root.inner.entry(object).or_default();
            at.add(own);
            for frame in change.frames.iter().take(MOST_ROWS) {
                at = at.inner.entry(&frame.name).or_default();
                at.add(own);
            }
        }
        root
    }

    fn add(&mut self, own: [f64; 2]) {
        self.instructions[0] += own[0];
        self.instructions[1] += own[1];
        self.width += own[0].max(own[1]);
    }

    /// Adds the figures of a node that is not drawn.
    fn absorb(&mut self, other: &Node<'_>) {
        self.instructions[0] += other.instructions[0];
        self.instructions[1] += other.instructions[1];
        self.width += other.width;
    }

    fn difference(&self) -> f64 {
        self.instructions[1] - self.instructions[0]
    }

    /// The largest difference of a node inside.
    fn most_below(&self) -> f64 {
        let inner = self.inner.values().map(|node| node.difference().abs().max(node.most_below()));
        inner.fold(0.0, f64::max)
    }

    fn widths(&self, all: &mut Vec<f64>) {
        all.push(self.width);
        self.inner.values().for_each(|node| node.widths(all));
    }

    /// Its name with its sign, and on a second line its figures.
    fn title(&self, name: &str) -> String {
        let [a, b] = self.instructions;
        let difference = signed(self.difference());
        let sign = difference.chars().next().filter(|sign| matches!(sign, '+' | '−'));
        let change = if a > 0.0 { format!(" ({})", exact_change(b / a)) } else { String::new() };
        let figures = format!("{} → {} instructions per operation, {difference}{change}", rate(a), rate(b));
        let sign = sign.map(|sign| format!("{sign} ")).unwrap_or_default();
        format!("{sign}{name}\n{figures}")
    }
}

/// The width from which bars are drawn, so that there are not too many.
fn least(tree: &Node<'_>) -> f64 {
    let mut widths = Vec::new();
    tree.widths(&mut widths);
    widths.sort_by(|one, other| other.total_cmp(one));
    let half_a_unit = tree.width / WIDTH / 2.0;
    // Bars as wide as the first one that is too much are too much, too.
    let limit = widths.get(MOST_BARS).map_or(0.0, |width| width.next_up());
    limit.max(half_a_unit)
}

struct Drawing {
    /// Units of the drawing for an instruction.
    scale: f64,
    /// Instructions of the narrowest bar.
    least: f64,
    /// The largest difference.
    most: f64,
}

impl Drawing {
    /// Draws a node and all inside it, the widest first.
    fn draw(&self, node: &Node<'_>, x: f64, row: usize, bars: &mut Vec<Bar>) {
        if row == 0 {
            bars.push(self.bar(node, "all code that changed", x, row));
        }
        let mut inner: Vec<(&str, &Node<'_>)> = node.inner.iter().map(|(name, node)| (*name, node)).collect();
        inner.sort_by(|one, other| other.1.width.total_cmp(&one.1.width));
        let wide = inner.iter().take_while(|(_, node)| node.width >= self.least).count();
        let (drawn, rest) = inner.split_at(if row + 1 < MOST_ROWS { wide } else { 0 });
        let mut x = x;
        for (name, node) in drawn {
            bars.push(self.bar(node, name, x, row + 1));
            self.draw(node, x, row + 1, bars);
            x += node.width * self.scale;
        }
        let mut other = Node::default();
        rest.iter().for_each(|(_, node)| other.absorb(node));
        if other.width >= self.least && row + 1 < MOST_ROWS {
            bars.push(self.bar(&other, &format!("other ({})", rest.len()), x, row + 1));
        }
    }

    fn bar(&self, node: &Node<'_>, name: &str, x: f64, row: usize) -> Bar {
        let share = node.difference().abs() / self.most.max(f64::MIN_POSITIVE);
        let size = SIZES.iter().take_while(|limit| share >= **limit).count();
        let sides = if node.difference() < 0.0 { LESS } else { MORE };
        let class = size.checked_sub(1).map_or(SAME, |size| sides[size.min(2)]);
        Bar { class, x, row, width: node.width * self.scale, title: node.title(name) }
    }
}

/// A bar of the drawing.
struct Bar {
    class: &'static str,
    x: f64,
    row: usize,
    width: f64,
    title: String,
}

impl Bar {
    fn element(&self) -> Element {
        let y = self.row as f64 * ROW;
        // A zoomed bar shows more decimals than a tenth.
        let at = |value: f64| format!("{value:.3}");
        let bar = el("rect")
            .class(self.class)
            .attr("x", at(self.x))
            .attr("y", y)
            .attr("width", at(self.width))
            .attr("height", BAR);
        let label = el("text").attr("x", at(self.x + MARGIN / 2.0)).attr("y", y + 13.0);
        el("g").child(el("title").text(&self.title)).child(bar).child(label.text(&self.label()))
    }

    /// The part of the first line that fits.
    fn label(&self) -> String {
        let name = self.title.lines().next().unwrap_or_default();
        let fits = ((self.width - MARGIN) / LETTER).max(0.0) as usize;
        match name.chars().count() {
            letters if letters <= fits => name.to_owned(),
            _ if fits < 4 => String::new(),
            _ => name.chars().take(fits - 1).chain(['…']).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use hone_record::CodeFrame;

    use super::*;
    use crate::sample;

    fn change(frames: &[&str], instructions: [f64; 2]) -> CodeChange {
        let frame = |name: &&str| CodeFrame { name: (*name).to_owned(), source: None };
        CodeChange { frames: frames.iter().map(frame).collect(), object: Some("x".to_owned()), instructions }
    }

    fn svg(changes: &[CodeChange]) -> Option<String> {
        let plotted = plot("f", "t", &sample::counted(), &changes.iter().collect::<Vec<_>>())?;
        Some(Markup::from(plotted).into_string())
    }

    #[test]
    fn bars_are_as_wide_as_their_instructions_and_lie_below_their_callers() {
        let changes = [change(&["f"], [100.0, 50.0]), change(&["f", "g"], [0.0, 300.0])];
        let svg = svg(&changes).unwrap();
        let bar = |class: &str, x: &str, y: &str, width: &str| {
            format!("<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"18\">")
        };
        for expected in [
            bar("flame-more-3", "0.000", "38", "1000.000"),
            bar("flame-more-3", "0.000", "57", "750.000"),
            "<title>+ f\n100 → 350 instructions per operation, +250 (+250 %)</title>".to_owned(),
            "<title>+ g\n0 → 300 instructions per operation, +300</title>".to_owned(),
            "viewBox=\"0 0 1000 76\"".to_owned(),
            "+ Changed code: 100 → 350".to_owned(),
        ] {
            assert!(svg.contains(&expected), "{expected}: {svg}");
        }
    }

    #[test]
    fn less_is_blue_with_a_minus_and_what_cancels_out_is_neutral() {
        let changes =
            [change(&["f"], [900.0, 100.0]), change(&["g"], [100.0, 900.0]), change(&["h"], [50.0, 45.0])];
        let svg = svg(&changes).unwrap();
        assert!(
            svg.contains("<title>− f\n900 → 100 instructions per operation, −800 (−88.9 %)</title>"),
            "{svg}"
        );
        assert_eq!(svg.matches("class=\"flame-less-3\"").count(), 1);
        assert_eq!(svg.matches("class=\"flame-more-3\"").count(), 1);
        // Five of 800 instructions: the function itself, its file and the whole.
        assert_eq!(svg.matches("class=\"flame-same\"").count(), 3, "{svg}");
    }

    #[test]
    fn small_functions_are_merged_and_none_of_their_instructions_is_lost() {
        let names: Vec<String> = (0..3_000).map(|number| format!("f{number}")).collect();
        let changes: Vec<CodeChange> = names
            .iter()
            .enumerate()
            .map(|(at, name)| change(&[name], [at as f64, at as f64 + 1.0]))
            .collect();
        let svg = svg(&changes).unwrap();
        let bars = svg.matches("<rect").count();
        assert!((400..=MOST_BARS + 2).contains(&bars), "{bars}");
        assert!(svg.contains(">+ other ("), "{svg}");
        let widths = svg.split("y=\"38\" width=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
        let sum: f64 = widths.map(|width| width.parse::<f64>().unwrap()).sum();
        assert!((sum - WIDTH).abs() < 1.0, "{sum}");
    }

    #[test]
    fn deep_stacks_end_and_broken_numbers_draw_nothing() {
        let names: Vec<String> = (0..60).map(|number| format!("f{number}")).collect();
        let deep: Vec<&str> = names.iter().map(String::as_str).collect();
        let drawn = svg(&[change(&deep, [1.0, 2.0])]).unwrap();
        assert!(drawn.matches("<rect").count() <= MOST_ROWS && drawn.contains("f20"), "{drawn}");
        assert_eq!(svg(&[]), None);
        assert_eq!(svg(&[change(&["f"], [f64::NAN, f64::INFINITY])]), None);
        let huge = svg(&[change(&["f"], [f64::MAX, -5.0]), change(&["g"], [1.0, 2.0])]).unwrap();
        assert!(!huge.contains("NaN") && !huge.contains("inf"), "{huge}");
    }

    #[test]
    fn labels_end_where_their_bars_do() {
        let bar = |width| Bar { class: SAME, x: 0.0, row: 0, width, title: "+ function\nfigures".to_owned() };
        assert_eq!([bar(20.0).label(), bar(50.0).label(), bar(90.0).label()], ["", "+ fun…", "+ function"]);
    }
}
