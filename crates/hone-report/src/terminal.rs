//! The writer for a terminal. It prints the result first, and the explanation on request.

use std::fmt::Write as _;

use crate::text::{
    Grid, Inline, Numbers, Piece, headline, is_left_out, is_list, numbers_of, parted, pieces, raw,
};
use crate::tree::{Element, Markup};

/// Maximum columns of running text. Tables may be wider.
const COLUMNS: usize = 80;
/// Narrowest and widest interval bar that a table gets at the end of its rows.
const BAR_COLUMNS: [usize; 2] = [9, 25];
/// Minimum width of a name in a list of facts.
const NAME_COLUMNS: usize = 11;

/// Names of rows that are left out. More of them would be longer than the result.
const MOST_NAMES: usize = 4;

const INLINE: Inline = Inline { escape: plain, strong: "", code: "" };

/// How much of a document to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The result.
    Result,
    /// The result and its explanation.
    Everything,
}

/// The place that text is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Screen {
    /// How much to show.
    pub detail: Detail,
    /// Width for what can be left out: interval bars.
    pub columns: usize,
    /// Whether the result is printed in the colour of its verdict.
    pub has_colours: bool,
}

impl From<Detail> for Screen {
    /// A screen of 80 columns.
    fn from(detail: Detail) -> Self {
        Self { detail, columns: COLUMNS, has_colours: false }
    }
}

/// The document as lines.
pub(crate) fn terminal(document: &Markup, screen: Screen) -> String {
    let Screen { detail, columns, has_colours } = screen;
    let mut writer = Writer { out: String::new(), detail, columns, has_colours, first: None, heading_end: 0 };
    writer.blocks(document);
    writer.out.trim_end().to_owned() + "\n"
}

struct Writer<'a> {
    out: String,
    detail: Detail,
    columns: usize,
    has_colours: bool,
    /// The sentence that comes first.
    first: Option<&'a Element>,
    /// Length of the text after the last heading.
    heading_end: usize,
}

impl<'a> Writer<'a> {
    fn blocks(&mut self, markup: &'a Markup) {
        for piece in pieces(markup) {
            match piece {
                Piece::Loose(text) => self.line(&INLINE.line(&text)),
                Piece::Block(element) => self.block(element),
            }
        }
    }

    fn block(&mut self, element: &'a Element) {
        if self.first.is_some_and(|first| std::ptr::eq(first, element)) {
            return;
        }
        if is_left_out(element) || (element.is_detail() && self.detail == Detail::Result) {
            return;
        }
        match element.tag() {
            "header" => self.header(element),
            "section" if self.detail == Detail::Result && has_only_details(element) => {}
            "figure" => {
                let Some(Numbers { title, numbers }) = numbers_of(element) else { return };
                self.gap();
                self.line(&INLINE.line(title));
                self.block(numbers);
            }
            "h2" | "h3" => {
                self.gap();
                self.line(&INLINE.line(element.inner()));
                self.heading_end = self.out.len();
            }
            "p" | "summary" => self.line(&INLINE.line(element.inner())),
            // Wrapped code can't be pasted.
            "pre" => raw(element.inner()).lines().for_each(|line| {
                let _ = writeln!(self.out, "{}", plain(line));
            }),
            _ if is_list(element) => self.list(element, "  "),
            "table" => self.table(element),
            _ => self.blocks(element.inner()),
        }
    }

    /// Prints the result as the first line, so that `head -1` shows it.
    fn header(&mut self, header: &'a Element) {
        self.first = sentence(header);
        let first = self.first.map_or(String::new(), |first| INLINE.line(first.inner()));
        self.result(&first, header);
        let title = header.elements().find(|part| part.tag() == "h1").map(|title| INLINE.line(title.inner()));
        if title.is_none_or(|title| !first.starts_with(&title)) {
            self.line(&headline(header, INLINE));
        }
        let rest = header.elements().filter(|part| part.tag() != "h1" && !part.has_class("kicker"));
        rest.for_each(|part| self.block(part));
    }

    /// The first line, in the colour of its verdict.
    fn result(&mut self, text: &str, header: &Element) {
        if !self.has_colours || text.is_empty() {
            return self.line(text);
        }
        let code = header.elements().find(|part| part.has_class("verdict")).map_or("1", colour);
        let _ = writeln!(self.out, "\u{1b}[{code}m{}\u{1b}[0m", wrapped(text));
    }

    /// Adds an empty line, unless the text is empty or already ends with one.
    fn gap(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn line(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.out, "{}", wrapped(text));
        }
    }

    fn list(&mut self, element: &Element, indent: &str) {
        for item in element.elements() {
            let (inner, text) = parted(item, is_list);
            let deeper = indent.get(2..).unwrap_or_default();
            let text = wrapped(&INLINE.line(&text)).replace('\n', &format!("\n{deeper}"));
            let _ = writeln!(self.out, "{indent}{text}");
            inner.into_iter().for_each(|inner| self.list(inner, &format!("{indent}  ")));
        }
    }

    fn table(&mut self, element: &Element) {
        let mut grid = Grid::new(element, INLINE);
        let left_out = if self.detail == Detail::Result { grid.take_details() } else { Vec::new() };
        if grid.titles.is_empty() {
            // The first facts below a heading need no name of their own.
            if self.out.len() != self.heading_end {
                self.gap();
                self.line(&grid.caption);
            }
            let name = |row: &Vec<String>| row.first().map_or(0, |name| name.chars().count());
            let width = grid.rows.iter().map(name).max().unwrap_or(0).max(NAME_COLUMNS);
            for row in &grid.rows {
                let (name, values) = row.split_first().map_or(("", &[][..]), |(name, rest)| (name, rest));
                let padding = " ".repeat(width - name.chars().count());
                let values = wrapped_behind(width + 1, values.join(" ").trim_end());
                let _ = writeln!(self.out, "{name}{padding} {values}");
            }
            self.left_out(&left_out);
            return;
        }
        self.gap();
        // A figure's table has the same name as the figure.
        if !self.out.trim_end().ends_with(&grid.caption) {
            self.line(&grid.caption);
        }
        if self.detail == Detail::Everything {
            self.line(&grid.remark);
        }
        // A sentence over several columns would widen the first of them, so it goes after the row.
        let mut rows = vec![grid.titles];
        let mut sentences = vec![String::new()];
        let bars: Vec<_> = std::iter::once(None).chain(grid.bars).collect();
        for (mut row, wide) in grid.rows.into_iter().zip(grid.wide) {
            let rest = wide.map(|wide| row.split_off(wide)).unwrap_or_default();
            sentences.push(rest.join("   ").trim_end().to_owned());
            rows.push(row);
        }
        // The result has to fit into 80 columns.
        let gap = if bars.iter().any(Option::is_some) { "  " } else { "   " };
        let lines = aligned_by(gap, &rows, &grid.is_number);
        let lines = with_bars(lines.lines().map(str::to_owned).collect(), &bars, self.columns);
        for (line, sentence) in lines.iter().zip(sentences) {
            let _ = writeln!(self.out, "{}", format!("{line}   {sentence}").trim_end());
        }
        self.left_out(&left_out);
    }

    /// Names the rows that only the explanation has, if they are few.
    fn left_out(&mut self, names: &[String]) {
        match names.len() {
            0 => {}
            1..=MOST_NAMES => self.line(&format!("With --explain also: {}.", names.join(", "))),
            _ => self.line("With --explain also: the other rows."),
        }
    }
}

/// The code of bold text in the colour of a verdict.
fn colour(verdict: &Element) -> &'static str {
    let colours = [("better", "1;32"), ("worse", "1;31"), ("not-shown", "1;33")];
    colours.iter().find(|(class, _)| verdict.has_class(class)).map_or("1", |(_, code)| code)
}

/// Whether nothing is left of a section but its heading.
fn has_only_details(section: &Element) -> bool {
    section.elements().all(|part| part.tag() == "h2" || part.is_detail())
}

/// The first sentence of a header, at any depth.
fn sentence(element: &Element) -> Option<&Element> {
    element.elements().find_map(|part| if part.has_class("sentence") { Some(part) } else { sentence(part) })
}

/// Lines with an interval bar at their ends, as far as the screen has room for bars.
fn with_bars(lines: Vec<String>, bars: &[Option<[usize; 3]>], columns: usize) -> Vec<String> {
    let widest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let room = columns.saturating_sub(widest + 2).min(BAR_COLUMNS[1]);
    if room < BAR_COLUMNS[0] {
        return lines;
    }
    let with_bar = |(line, bar): (String, &Option<[usize; 3]>)| match bar {
        None => line,
        Some(places) => {
            format!("{line}{}  {}", " ".repeat(widest - line.chars().count()), drawn(*places, room))
        }
    };
    lines.into_iter().zip(bars).map(with_bar).collect()
}

/// An interval bar: `├──●──┤  ┊`. The middle is no change.
fn drawn(places: [usize; 3], columns: usize) -> String {
    let last = columns - 1;
    let at = |place: usize| (place.min(100) * last + 50) / 100;
    let [low, ratio, high] = places.map(at);
    let symbol = |column: usize| match column {
        _ if column == ratio => '●',
        _ if column == low => '├',
        _ if column == high => '┤',
        _ if column > low && column < high => '─',
        _ if column == last.div_ceil(2) => '┊',
        _ => ' ',
    };
    (0..columns).map(symbol).collect::<String>().trim_end().to_owned()
}

/// Rows as aligned lines, with right-aligned numbers. `is_number` has an entry for each column.
pub fn aligned(rows: &[Vec<String>], is_number: &[bool]) -> String {
    aligned_by("   ", rows, is_number)
}

fn aligned_by(gap: &str, rows: &[Vec<String>], is_number: &[bool]) -> String {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..is_number.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(widths.iter().zip(is_number)).map(|(cell, (width, is_number))| {
            let padding = " ".repeat(width - cell.chars().count());
            if *is_number { format!("{padding}{cell}") } else { format!("{cell}{padding}") }
        });
        format!("  {}", cells.collect::<Vec<_>>().join(gap)).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

/// Running text in lines of at most `COLUMNS` characters. All lines except the first are indented by two spaces.
pub fn wrapped(text: &str) -> String {
    wrapped_from(0, 2, text)
}

/// The same for a text that begins in a column: its other lines begin there, too.
fn wrapped_behind(column: usize, text: &str) -> String {
    wrapped_from(column, column, text)
}

fn wrapped_from(start: usize, indent: usize, text: &str) -> String {
    let mut out = String::new();
    let mut column = start;
    for word in text.split(' ') {
        let width = word.chars().count();
        if !out.is_empty() && column + 1 + width > COLUMNS {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if !out.is_empty() {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out
}

/// Text without control characters, which a terminal would interpret.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_wrapped_at_words_and_nothing_is_lost() {
        let text = "word ".repeat(60).trim().to_owned();
        let lines = wrapped(&text);
        assert!(
            lines.lines().count() == 4 && lines.lines().all(|line| line.chars().count() <= COLUMNS),
            "{lines}"
        );
        assert_eq!(lines.split_whitespace().count(), 60);
        assert_eq!(wrapped("short"), "short");
    }

    #[test]
    fn a_bar_shows_the_interval_and_no_change() {
        assert_eq!(drawn([0, 25, 50], 21), "├────●────┤");
        assert_eq!(drawn([10, 20, 30], 21), "  ├─●─┤   ┊");
        assert_eq!(drawn([49, 50, 51], 21), "          ●");
        assert_eq!(drawn([80, 90, 100], 21), "          ┊     ├─●─┤");
    }

    #[test]
    fn bars_need_room() {
        let lines = || vec!["  metric  change".to_owned(), "  p50     −3.0 %".to_owned()];
        let bars = [None, Some([0, 50, 100])];
        assert_eq!(with_bars(lines(), &bars, 20), lines());
        let shown = with_bars(lines(), &bars, 40);
        assert_eq!(shown[0], lines()[0]);
        assert!(shown[1].starts_with("  p50     −3.0 %  ├") && shown[1].ends_with('┤'), "{}", shown[1]);
        assert!(shown.iter().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn only_a_screen_with_colours_gets_them() {
        let block = crate::tree::el("div").class("verdict worse");
        let block = block.child(crate::tree::el("p").class("sentence").text("p99: regression."));
        let document = Markup::from(crate::tree::el("header").child(block));
        let plain = Screen::from(Detail::Result);
        assert_eq!(terminal(&document, plain), "p99: regression.\n");
        let coloured = terminal(&document, Screen { has_colours: true, ..plain });
        assert_eq!(coloured, "\u{1b}[1;31mp99: regression.\u{1b}[0m\n");
    }

    #[test]
    fn a_value_goes_on_below_its_beginning() {
        let lines = wrapped_behind(12, &"word ".repeat(30));
        assert!(
            lines.lines().count() > 1 && lines.lines().skip(1).all(|line| line.starts_with("            w")),
            "{lines}"
        );
        assert!(lines.lines().all(|line| line.chars().count() <= COLUMNS));
    }
}
