//! Shared parts of the text writers: running text out of a tree, and tables as rows of text.

use crate::tree::{Element, Markup, Node};

/// How a writer marks words inside running text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Inline {
    /// Escapes foreign text.
    pub(crate) escape: fn(&str) -> String,
    /// Mark around strong words.
    pub(crate) strong: &'static str,
    /// Mark around code.
    pub(crate) code: &'static str,
}

/// Pictures and their legends, scripts and controls. Text omits them.
pub(crate) fn is_left_out(element: &Element) -> bool {
    matches!(
        element.tag(),
        "svg" | "script" | "style" | "nav" | "form" | "button" | "input" | "link" | "meta" | "figcaption"
    ) || ["legend", "no-figure", "downloads", "verdict-word", "only-page"]
        .iter()
        .any(|class| element.has_class(class))
}

/// A figure without its picture: the title and the numbers. `None` when it has no numbers.
pub(crate) fn numbers_of(figure: &Element) -> Option<Numbers<'_>> {
    let title = figure.elements().find(|part| part.tag() == "h3")?.inner();
    let details = figure.elements().find(|part| part.tag() == "details")?;
    let numbers = details.elements().find(|part| part.tag() != "summary")?;
    Some(Numbers { title, numbers })
}

/// The parts of a figure that text keeps.
#[derive(Debug)]
pub(crate) struct Numbers<'a> {
    /// What the picture shows.
    pub(crate) title: &'a Markup,
    /// The table.
    pub(crate) numbers: &'a Element,
}

/// A header's kind and title in one line: `Comparison: pgo against baseline`.
pub(crate) fn headline(header: &Element, inline: Inline) -> String {
    let part = |wanted: &str| {
        let found = header.elements().find(|part| part.tag() == wanted || part.has_class(wanted));
        found.map(|part| inline.line(part.inner())).filter(|text| !text.is_empty())
    };
    [part("kicker"), part("h1")].into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// Whether the element begins a line of its own.
pub(crate) fn is_block(element: &Element) -> bool {
    !matches!(
        element.tag(),
        "a" | "b" | "strong" | "code" | "span" | "time" | "abbr" | "svg" | "button" | "input"
    )
}

/// Content in the form that a writer needs: blocks, and loose text between them.
pub(crate) enum Piece<'a> {
    /// Text and inline elements in a row.
    Loose(Markup),
    /// An element that begins a line of its own.
    Block(&'a Element),
}

/// The pieces in their order.
pub(crate) fn pieces(markup: &Markup) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = Vec::new();
    for node in markup.nodes() {
        match (node, pieces.last_mut()) {
            (Node::Element(element), _) if is_block(element) => pieces.push(Piece::Block(element)),
            (other, Some(Piece::Loose(loose))) => loose.push(other.clone()),
            (other, _) => pieces.push(Piece::Loose(other.clone().into())),
        }
    }
    pieces
}

/// Splits the content into the requested elements and everything else.
pub(crate) fn parted(element: &Element, is_asked: fn(&Element) -> bool) -> (Vec<&Element>, Markup) {
    let is_other = |node: &&Node| !matches!(node, Node::Element(one) if is_asked(one));
    let others = element.inner().nodes().iter().filter(is_other).cloned().collect();
    (element.elements().filter(|one| is_asked(one)).collect(), others)
}

/// Whether the element is a list, numbered or not.
pub(crate) fn is_list(element: &Element) -> bool {
    matches!(element.tag(), "ul" | "ol")
}

/// Text as it is, for code.
pub(crate) fn raw(markup: &Markup) -> String {
    let each = markup.nodes().iter().map(|node| match node {
        Node::Text(text) => text.clone(),
        Node::Html(_) => String::new(),
        Node::Element(element) => raw(element.inner()),
    });
    each.collect()
}

impl Inline {
    /// All text below the element, on one line. A comma or a space separates lines and remarks inside a cell.
    pub(crate) fn line(self, markup: &Markup) -> String {
        let mut out = String::new();
        self.append(markup, &mut out);
        out.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn append(self, markup: &Markup, out: &mut String) {
        for node in markup.nodes() {
            match node {
                Node::Text(text) => out.push_str(&(self.escape)(&text.replace('\u{a0}', " "))),
                Node::Html(_) => {}
                Node::Element(element) if is_left_out(element) => {}
                Node::Element(element) => self.append_element(element, out),
            }
        }
    }

    fn append_element(self, element: &Element, out: &mut String) {
        let inner = self.line(element.inner());
        if inner.is_empty() {
            return;
        }
        let is_remark = element.has_class("small") || element.has_class("remark");
        let mark = match element.tag() {
            "b" | "strong" => self.strong,
            "code" => self.code,
            _ => "",
        };
        let is_bracketed = inner.trim_start_matches('\\').starts_with(['(', '[']);
        if is_remark && !is_bracketed && !out.trim_end().is_empty() {
            out.extend([" (", &inner, ")"]);
            return;
        }
        if is_block(element) && !out.trim_end().is_empty() {
            out.push_str(if out.trim_end().ends_with([':', '.', ',']) { " " } else { ", " });
        } else if is_remark {
            out.push(' ');
        }
        out.extend([mark, &inner, mark]);
        // The space at the end of `<b>name: </b>` belongs after the mark.
        if ends_in_blank(element) {
            out.push(' ');
        }
    }
}

fn ends_in_blank(element: &Element) -> bool {
    let last = element.inner().nodes().last();
    last.is_some_and(|node| matches!(node, Node::Text(text) if text.ends_with([' ', '\u{a0}'])))
}

/// A table as text.
#[derive(Debug, Default)]
pub(crate) struct Grid {
    /// Name of the table.
    pub(crate) caption: String,
    /// A sentence below the caption, often empty.
    pub(crate) remark: String,
    /// Title of each column; empty for a table of names and values.
    pub(crate) titles: Vec<String>,
    /// Whether a column holds numbers, one entry per column.
    pub(crate) is_number: Vec<bool>,
    /// Cells of each row, one per column.
    pub(crate) rows: Vec<Vec<String>>,
    /// Column at which a cell over several columns begins, for each row.
    pub(crate) wide: Vec<Option<usize>>,
    /// Whether a row belongs to the explanation.
    pub(crate) is_detail: Vec<bool>,
    /// Places of an interval bar in percent, for each row that has one.
    pub(crate) bars: Vec<Option<[usize; 3]>>,
}

impl Grid {
    /// Reads the element `table`.
    pub(crate) fn new(table: &Element, inline: Inline) -> Self {
        let mut grid = Self::default();
        for part in table.elements() {
            match part.tag() {
                "caption" if is_left_out(part) => {}
                "caption" => grid.read_caption(part, inline),
                "thead" => part.elements().for_each(|row| grid.titles = cells(row, inline)),
                _ => grid.rows.extend(part.elements().map(|row| cells(row, inline))),
            }
        }
        let columns = grid.rows.iter().chain([&grid.titles]).map(Vec::len).max().unwrap_or(0);
        grid.is_number = vec![false; columns];
        for row in table.elements().filter(|part| part.tag() == "tbody").flat_map(Element::elements) {
            let (mut column, mut wide) = (0, None);
            for cell in row.elements() {
                if let Some(is_number) = grid.is_number.get_mut(column) {
                    *is_number |= cell.has_class("number");
                }
                if span(cell) > 1 {
                    wide = Some(column);
                }
                column += span(cell);
            }
            grid.wide.push(wide);
            grid.bars.push(bar(row));
            grid.is_detail.push(row.is_detail());
        }
        grid.rows.iter_mut().for_each(|row| row.resize(columns, String::new()));
        grid
    }

    /// Takes the rows of the explanation out, and returns the name of each.
    pub(crate) fn take_details(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        let mut is_detail = self.is_detail.iter();
        let mut keep = self.is_detail.iter().map(|is_detail| !is_detail).collect::<Vec<_>>().into_iter();
        self.wide.retain(|_| !is_detail.next().copied().unwrap_or_default());
        let mut is_detail = self.is_detail.iter();
        self.bars.retain(|_| !is_detail.next().copied().unwrap_or_default());
        self.rows.retain_mut(|row| {
            let is_kept = keep.next().unwrap_or(true);
            if !is_kept {
                names.extend(row.first().cloned());
            }
            is_kept
        });
        names
    }

    fn read_caption(&mut self, caption: &Element, inline: Inline) {
        let is_remark = |node: &Node| matches!(node, Node::Element(one) if one.has_class("remark"));
        let part = |wanted: bool| {
            let nodes = caption.inner().nodes().iter().filter(|node| is_remark(node) == wanted);
            inline.line(&nodes.cloned().collect())
        };
        (self.caption, self.remark) = (part(false), part(true));
    }
}

/// The interval bar of a row, from its attribute.
fn bar(element: &Element) -> Option<[usize; 3]> {
    let own = element.attributes().iter().find(|(name, _)| *name == "data-bar");
    let parsed = |text: &str| {
        let places: Vec<usize> = text.split(' ').filter_map(|place| place.parse().ok()).collect();
        <[usize; 3]>::try_from(places).ok()
    };
    own.and_then(|(_, text)| parsed(text)).or_else(|| element.elements().find_map(bar))
}

fn span(cell: &Element) -> usize {
    let value = cell.attributes().iter().find(|(name, _)| *name == "colspan");
    value.and_then(|(_, value)| value.parse().ok()).unwrap_or(1)
}

/// A cell over several columns goes into the first of them.
fn cells(row: &Element, inline: Inline) -> Vec<String> {
    let each = row.elements().flat_map(|cell| {
        let rest = std::iter::repeat_n(String::new(), span(cell).saturating_sub(1));
        std::iter::once(inline.line(cell.inner())).chain(rest)
    });
    each.collect()
}
