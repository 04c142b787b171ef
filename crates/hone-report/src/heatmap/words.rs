//! The words and tables of a heatmap's page.

use std::cmp::Ordering;

use hone_format::exact_bytes;
use hone_record::{HeatPlace, HeatSource, Heatmap};

use crate::quantity::{count, counted, percent};
use crate::section::head::{self, BeforeAfter, Head};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Rows of the tables.
const MOST_ROWS: usize = 40;
/// Maximum length of a shown path. The end stays, because the name is there.
const MOST_PATH_CHARACTERS: usize = 60;

/// The mapped program.
pub(super) fn title(map: &Heatmap) -> String {
    let names: Vec<&str> = map.sides.iter().map(HeatSource::object_name).collect();
    match names[..] {
        [one, other] if one == other => format!("{one}, before and after"),
        _ => names.join(" and "),
    }
}

/// The name of a side.
pub(super) fn side(map: &Heatmap, index: usize) -> String {
    let name = map.sides.get(index).map_or("", |side| side.object_name());
    match (map.sides.len(), index) {
        (1, _) => name.to_owned(),
        (_, 0) => format!("before: {name}"),
        _ => format!("after: {name}"),
    }
}

/// The share of the execution that counts as most of it.
const MOST: f64 = 0.99;

/// Number of pages that hold most of the execution, on each side. `None` without pages, or if the sides have different evidence.
pub(super) fn finding(map: &Heatmap) -> Option<String> {
    let pages: Vec<u64> = map.sides.iter().map(|side| side.pages_with(MOST)).collect::<Option<_>>()?;
    let share = hone_format::exact_percent(MOST);
    let what = |side: &HeatSource| if side.knows_bytes() { "execution" } else { "samples" };
    let text = |pages: u64| format!("{} of 4 KiB", counted(pages, "page", "pages"));
    match (&map.sides[..], &pages[..]) {
        ([side], [pages]) => {
            Some(format!("{share} of the {} of {} lies in {}.", what(side), side.object_name(), text(*pages)))
        }
        ([before, after], [was, is]) if before.evidence == after.evidence => {
            let of = match before.object_name() == after.object_name() {
                true => format!("{share} of the {} of {}", what(after), after.object_name()),
                false => format!("{share} of the {}", what(after)),
            };
            Some(match is.cmp(was) {
                Ordering::Equal => format!("Before and after the change, {of} lies in {}.", text(*is)),
                Ordering::Less => {
                    format!("After the change, {of} fits into {} instead of {}.", text(*is), count(*was))
                }
                Ordering::Greater => {
                    format!("After the change, {of} needs {} instead of {}.", text(*is), count(*was))
                }
            })
        }
        _ => None,
    }
}

/// The head: the program, the finding, its figures before and after, and the evidence.
pub(super) fn header(map: &Heatmap) -> Element {
    let facts = map.sides.iter().enumerate().map(|(index, found)| {
        let text = format!("{}: {}. Evidence: {}", side(map, index), found.title, found.evidence.label());
        el("p").class("under").text(&text)
    });
    Head::new("Layout of the executed code", &title(map))
        .with_all(finding(map).map(|text| el("p").class("sentence").text(&text)))
        .with_all(tiles(map))
        .with_all(facts)
        .meta(&[])
}

/// A figure of a side: its name, its value, how to write it, and whether a smaller one is the better one.
type Figure = (&'static str, fn(&HeatSource) -> Option<f64>, fn(f64) -> String, bool);

const FIGURES: [Figure; 3] = [
    ("pages that hold 99 %", |side| side.pages_with(MOST).map(|pages| pages as f64), whole, true),
    (
        "lines of 64 B that ran",
        |side| Some(lines_that_ran(side) as f64).filter(|lines| *lines > 0.0),
        whole,
        true,
    ),
    ("bytes used per line", HeatSource::bytes_used_of_a_line, |bytes| format!("{bytes:.1}"), false),
];

fn whole(value: f64) -> String {
    count(value as u64)
}

fn lines_that_ran(side: &HeatSource) -> u64 {
    side.pages.iter().map(|page| u64::from(page.lines)).sum()
}

/// Before and after, if both sides have the same evidence; otherwise the figures of a single side. `None` without figures.
fn tiles(map: &Heatmap) -> Option<Element> {
    const NAME: &str = "The layout in figures";
    match &map.sides[..] {
        [side] => {
            let value = |(name, of, write, _): Figure| Some((name, write(of(side)?), String::new()));
            let values: Vec<_> = FIGURES.into_iter().filter_map(value).collect();
            head::tiles_of_values(NAME, &values)
        }
        [before, after] if before.evidence == after.evidence => {
            let figure = |(title, of, write, lower_is_better): Figure| {
                let (was, is) = (of(before)?, of(after)?);
                let ratio = is / was;
                (ratio.is_finite() && ratio > 0.0).then(|| BeforeAfter {
                    title,
                    values: [was, is].map(write),
                    ratio,
                    lower_is_better,
                    remark: String::new(),
                })
            };
            head::tiles_of_change(NAME, FIGURES.into_iter().filter_map(figure).collect())
        }
        _ => None,
    }
}

pub(super) fn tables(map: &Heatmap) -> Vec<Element> {
    let mut all = vec![el("h2").text("The same data as tables"), facts(map).finish()];
    for (index, found) in map.sides.iter().enumerate() {
        let name = side(map, index);
        all.extend([
            sections(&name, found).finish(),
            functions(&name, found).finish(),
            lines(&name, found).finish(),
        ]);
    }
    all
}

fn facts(map: &Heatmap) -> Table {
    let mut columns = vec![Column::words("figure")];
    columns.extend((0..map.sides.len()).map(|index| Column::numbers(Markup::text(&side(map, index)))));
    let mut table = Table::new("Facts", columns);
    let mut row = |name: &str, of: &dyn Fn(&HeatSource) -> String| {
        let cells = map.sides.iter().map(|side| Cell::number(&of(side))).collect();
        table.row(Markup::text(name), cells);
    };
    let is_sampled = map.sides.iter().all(|side| !side.knows_bytes());
    row(
        if is_sampled { "samples of user code, all objects" } else { "instructions, all objects" },
        &|side| count(side.instructions),
    );
    row("of these in the object", &|side| percent(side.share));
    row("build id", &|side| {
        side.build_id.as_deref().map_or_else(|| "–".to_owned(), |id| id.chars().take(12).collect())
    });
    row("pages of 4 KiB that ran", &|side| count(side.pages.len() as u64));
    row("pages that hold 99 % of the execution in the object", &|side| {
        side.pages_with(MOST).map_or_else(|| "–".to_owned(), count)
    });
    row("lines of 64 B that ran", &|side| count(lines_that_ran(side)));
    row("bytes used per line", &|side| {
        side.bytes_used_of_a_line().map_or_else(|| "–".to_owned(), |bytes| format!("{bytes:.1}"))
    });
    let marks = map.sides.first().map(|side| side.marks.clone()).unwrap_or_default();
    for mark in marks {
        let name =
            format!("best case in {} ({} of {})", mark.structure, mark.units, exact_bytes(mark.unit_bytes));
        row(&name, &|side| {
            let found = side.marks.iter().find(|found| found.structure == mark.structure);
            found.map_or_else(|| "–".to_owned(), |found| percent(found.share))
        });
    }
    row("crowded sets of an L1i of 32 KiB, of 64", &|side| {
        side.sets.iter().filter(|set| set.lines > side.ways).count().to_string()
    });
    table
}

fn sections(name: &str, side: &HeatSource) -> Table {
    let columns = ["address", "bytes", "share", "share of its lines that ran"]
        .map(|title| Column::numbers(Markup::text(title)));
    let mut table = Table::new(
        &format!("Sections of code, {name}"),
        std::iter::once(Column::words("section")).chain(columns).collect(),
    );
    for section in side.sections.iter().filter(|section| section.lines > 0).take(MOST_ROWS) {
        let all = section.bytes.div_ceil(64).max(1);
        table.row(
            Markup::text(&section.name),
            vec![
                Cell::number(&format!("0x{:x}", section.begin)),
                Cell::number(&count(section.bytes)),
                Cell::number(&percent(section.share)),
                Cell::number(&percent(section.lines as f64 / all as f64)),
            ],
        );
    }
    table
}

fn functions(name: &str, side: &HeatSource) -> Table {
    let columns = ["rank", "share", "address", "bytes"].map(|title| Column::numbers(Markup::text(title)));
    let mut table = Table::new(
        &format!("Hottest functions, {name}"),
        std::iter::once(Column::words("function")).chain(columns).collect(),
    );
    for function in side.functions.iter().take(MOST_ROWS) {
        table.row(
            Markup::text(&function.name),
            vec![
                Cell::number(&function.rank.to_string()),
                Cell::number(&percent(function.share)),
                Cell::number(&format!("0x{:x}", function.begin)),
                Cell::number(&count(function.bytes)),
            ],
        );
    }
    table
}

/// A long path without its beginning, cut between two folders if possible.
pub(super) fn short_path(path: &str) -> String {
    let all = path.chars().count();
    if all <= MOST_PATH_CHARACTERS {
        return path.to_owned();
    }
    let end: String = path.chars().skip(all - MOST_PATH_CHARACTERS).collect();
    let end = end.find('/').map_or(end.as_str(), |slash| &end[slash..]);
    format!("…{end}")
}

fn lines(name: &str, side: &HeatSource) -> Table {
    let mut columns = vec![
        Column::words("line"),
        Column::numbers(Markup::text("share")),
        Column::numbers(Markup::text("bytes that ran, of 64")),
        Column::words("function"),
    ];
    let has_places = !side.files.is_empty();
    columns.extend(has_places.then(|| Column::words("written in")));
    let mut table = Table::new(&format!("Hottest lines, {name}"), columns);
    let mut hottest: Vec<_> = side.lines.iter().collect();
    hottest.sort_by(|left, right| right.share.total_cmp(&left.share).then(left.address.cmp(&right.address)));
    for line in hottest.into_iter().take(MOST_ROWS) {
        let mut cells = vec![
            Cell::number(&percent(line.share)),
            Cell::number(&if side.knows_bytes() { line.bytes_used().to_string() } else { "–".to_owned() }),
            Cell::text(side.function_at(line.first_used()).map_or("–", |function| &function.name)),
        ];
        cells.extend(has_places.then(|| Cell::text(&place(side, line.source))));
        table.row(Markup::text(&format!("0x{:x}", line.address)), cells);
    }
    table
}

fn place(side: &HeatSource, place: Option<HeatPlace>) -> String {
    let told = place.and_then(|place| Some(format!("{}:{}", short_path(side.file_of(place)?), place.line)));
    told.unwrap_or_else(|| "–".to_owned())
}

pub(super) fn notes(map: &Heatmap) -> Element {
    let cut = map
        .sides
        .iter()
        .enumerate()
        .flat_map(|(index, found)| found.cut.iter().map(move |cut| (index, cut)).collect::<Vec<_>>());
    let cut: Vec<String> = cut.map(|(index, cut)| format!("{}: {cut}", side(map, index))).collect();
    let always = "Shares are of all executed instructions, or of all samples of user code. The map covers \
         one object; curves and sets cover all of them. The colour of a cell is the logarithm of its share, \
         on one scale for both sides.";
    let items = map.notes.iter().chain(&cut).map(|note| el("li").text(note));
    el("section").child(el("h2").text("Notes")).child(el("p").text(always)).child(el("ul").children(items))
}
