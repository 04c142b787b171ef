//! A heatmap as text: two rows of cells per terminal line, or letters if the terminal has no colours.

use std::fmt::Write as _;

use hone_format::{count, exact_bytes, percent};
use hone_record::{HeatSource, Heatmap};
use hone_report::heatmap::{Row, grid};

use crate::table::table;

/// Properties of the terminal.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// Width of the terminal.
    pub columns: usize,
    /// Whether the terminal has 256 colours.
    pub has_colours: bool,
}

/// The scale in the 256 colours of a terminal, from cold to hot, similar to viridis.
const COLOURS: [u8; 9] = [54, 60, 24, 31, 30, 36, 71, 149, 220];
/// The scale in characters.
const MARKS: [char; 9] = ['.', ':', '-', '=', '+', 'x', '*', '%', '#'];
/// Lines of a map.
const LINES: usize = 24;
/// Width of the address before a row.
const LABEL: usize = 13;
/// Gap between two sides.
const GAP: usize = 3;
/// Number of functions in the output.
const FUNCTIONS: usize = 10;

/// The complete text.
pub fn text(map: &Heatmap, look: &Look) -> String {
    let sides = map.sides.len().max(1);
    let room = look.columns.saturating_sub(GAP * (sides - 1)) / sides;
    let columns = largest_power(room.saturating_sub(LABEL).clamp(8, 128));
    let rows = if look.has_colours { 2 * LINES } else { LINES };
    let grid = grid(map, rows, columns as u64);
    let mut out = String::new();
    for (index, side) in map.sides.iter().enumerate() {
        out.push_str(&head(side, name_of(map, index)));
    }
    out.push('\n');
    let blocks: Vec<Vec<String>> = grid.sides.iter().map(|rows| lines(rows, columns, look)).collect();
    out.push_str(&beside(&blocks, LABEL + columns));
    out.push('\n');
    let blank = if map.sides.iter().all(HeatSource::knows_bytes) {
        "never ran"
    } else {
        "never ran, or has no sample"
    };
    out.push_str(&legend(grid.most, grid.unit_bytes, blank, look));
    out.push_str(&facts(map));
    out.push_str(&functions(map));
    let cut = map.sides.iter().flat_map(|side| &side.cut);
    cut.chain(&map.notes).for_each(|note| out.push_str(&format!("note: {note}\n")));
    out
}

/// Powers of two, so that rows begin at round addresses.
fn largest_power(room: usize) -> usize {
    1 << room.ilog2()
}

pub(super) fn name_of(map: &Heatmap, index: usize) -> &'static str {
    match (map.sides.len(), index) {
        (0 | 1, _) => "",
        (_, 0) => "before: ",
        _ => "after:  ",
    }
}

pub(super) fn head(side: &HeatSource, name: &str) -> String {
    format!(
        "{name}{}, {:.1} % of {}\n  Evidence: {}\n",
        side.object.as_deref().unwrap_or("code without a file"),
        100.0 * side.share,
        side.title,
        side.evidence.label()
    )
}

/// The lines of a map, all with the same width on the screen.
fn lines(rows: &[Row], columns: usize, look: &Look) -> Vec<String> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < rows.len() {
        if rows[at].is_behind_a_gap {
            out.push(format!("{:>width$}{}", "... ", " ".repeat(columns), width = LABEL));
        }
        // The row below shares the screen line only if it is next in memory, too.
        let below = rows.get(at + 1).filter(|row| look.has_colours && !row.is_behind_a_gap);
        let mut line = format!("{:>width$} ", format!("0x{:x}", rows[at].begin), width = LABEL - 1);
        for column in 0..columns {
            let upper = rows[at].cells.get(column).copied().flatten();
            let lower = below.and_then(|row| row.cells.get(column).copied().flatten());
            line.push_str(&cell(upper, lower, look));
        }
        at += 1 + usize::from(below.is_some());
        out.push(line);
    }
    out
}

fn step(heat: f64) -> usize {
    ((heat * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1)
}

/// Two cells above each other, or one character.
fn cell(upper: Option<f64>, lower: Option<f64>, look: &Look) -> String {
    if !look.has_colours {
        return upper.map_or(' ', |heat| MARKS[step(heat)]).to_string();
    }
    let colour = |heat: f64| COLOURS[step(heat)];
    match (upper.map(colour), lower.map(colour)) {
        (None, None) => " ".to_owned(),
        (Some(upper), None) => format!("\u{1b}[38;5;{upper}m▀\u{1b}[0m"),
        (None, Some(lower)) => format!("\u{1b}[38;5;{lower}m▄\u{1b}[0m"),
        (Some(upper), Some(lower)) => format!("\u{1b}[38;5;{upper};48;5;{lower}m▀\u{1b}[0m"),
    }
}

fn beside(blocks: &[Vec<String>], width: usize) -> String {
    let high = blocks.iter().map(Vec::len).max().unwrap_or(0);
    let empty = " ".repeat(width);
    let mut out = String::new();
    for line in 0..high {
        let cells: Vec<&str> =
            blocks.iter().map(|block| block.get(line).map_or(empty.as_str(), String::as_str)).collect();
        out.push_str(cells.join(&" ".repeat(GAP)).trim_end());
        out.push('\n');
    }
    out
}

fn legend(most: f64, unit_bytes: u64, blank: &str, look: &Look) -> String {
    let scale: String = (0..COLOURS.len())
        .map(|at| cell(Some((at as f64 + 0.5) / COLOURS.len() as f64), None, look))
        .collect();
    let low = most / 10_f64.powf(hone_record::HEAT_DECADES);
    format!(
        "  {scale}  {} to {} of the execution in a cell of {}; a blank {}\n",
        percent(low),
        percent(most),
        exact_bytes(unit_bytes),
        blank
    )
}

fn facts(map: &Heatmap) -> String {
    let row = |name: &str, of: &dyn Fn(&HeatSource) -> String| {
        std::iter::once(name.to_owned()).chain(map.sides.iter().map(of)).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    if map.sides.len() > 1 {
        rows.push(["", "before", "after"].map(str::to_owned).to_vec());
    }
    rows.push(row("pages of 4 KiB", &|side| count(side.pages.len() as u64)));
    rows.push(row("lines of 64 B", &|side| count(side.pages.iter().map(|page| u64::from(page.lines)).sum())));
    if map.sides.iter().any(HeatSource::knows_bytes) {
        rows.push(row("bytes used per line", &|side| match side.bytes_used_of_a_line() {
            Some(bytes) => format!("{bytes:.1}"),
            None => "-".to_owned(),
        }));
    }
    for mark in map.sides.first().map(|side| side.marks.as_slice()).unwrap_or_default() {
        rows.push(row(&format!("best case in {}", mark.structure), &|side| {
            let found = side.marks.iter().find(|found| found.structure == mark.structure);
            found.map_or_else(|| "-".to_owned(), |found| percent(found.share))
        }));
    }
    format!("\n{}", table(&rows))
}

fn functions(map: &Heatmap) -> String {
    let mut out = String::new();
    for (index, side) in map.sides.iter().enumerate().filter(|(_, side)| !side.functions.is_empty()) {
        let mut rows = vec![vec![
            format!("{}hottest functions", name_of(map, index)),
            "share".to_owned(),
            "address".to_owned(),
        ]];
        let told = side.functions.iter().take(FUNCTIONS);
        rows.extend(
            told.map(|one| vec![shortened(&one.name), percent(one.share), format!("0x{:x}", one.begin)]),
        );
        let _ = write!(out, "\n{}", table(&rows));
    }
    out
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= 50 { name.to_owned() } else { name.chars().take(49).chain(['…']).collect() }
}

/// A row for each line of 64 B.
pub fn csv(map: &Heatmap) -> String {
    let mut out =
        "side,object,section,address,share,bytes_used,function,source_file,source_line\n".to_owned();
    for (index, side) in map.sides.iter().enumerate() {
        let name = if map.sides.len() > 1 { ["before", "after"][index.min(1)] } else { "one" };
        for line in &side.lines {
            let first = line.first_used();
            let place = line.source.and_then(|place| Some((side.file_of(place)?, place.line)));
            let _ = writeln!(
                out,
                "{name},{},{},0x{:x},{:e},{},{},{},{}",
                quoted(side.object_name()),
                quoted(side.section_at(first).map_or("", |section| &section.name)),
                line.address,
                line.share,
                if side.knows_bytes() { line.bytes_used().to_string() } else { String::new() },
                quoted(side.function_at(first).map_or("", |function| &function.name)),
                quoted(place.map_or("", |(file, _)| file)),
                place.map_or_else(String::new, |(_, line)| line.to_string()),
            );
        }
    }
    out
}

/// A field of a CSV file.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Row> {
        let row = |begin, is_behind_a_gap, cells| Row { begin, is_behind_a_gap, cells };
        vec![
            row(0x1000, false, vec![Some(1.0), None]),
            row(0x1080, false, vec![Some(0.0), None]),
            row(0x4000, true, vec![None, Some(0.5)]),
        ]
    }

    #[test]
    fn two_rows_of_neighbours_share_a_line_of_the_screen() {
        let look = Look { columns: 80, has_colours: true };
        let lines = lines(&rows(), 2, &look);
        assert_eq!(lines[0], "      0x1000 \u{1b}[38;5;220;48;5;54m▀\u{1b}[0m ");
        assert_eq!(lines[1].trim_end(), "         ...");
        assert_eq!(lines[2], "      0x4000  \u{1b}[38;5;30m▀\u{1b}[0m");
    }

    #[test]
    fn without_colours_there_is_no_escape() {
        let lines = lines(&rows(), 2, &Look { columns: 80, has_colours: false });
        assert_eq!(lines.len(), 4);
        assert_eq!((lines[0].trim_end(), lines[1].trim_end()), ("      0x1000 #", "      0x1080 ."));
        assert_eq!(lines[3], "      0x4000  +");
    }

    #[test]
    fn names_with_commas_are_one_field() {
        assert_eq!(quoted("f(int, int)"), "\"f(int, int)\"");
        assert_eq!(quoted("operator\"\"_x"), "\"operator\"\"\"\"_x\"");
        assert_eq!(quoted("main"), "main");
    }
}
