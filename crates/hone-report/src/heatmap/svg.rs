//! The map as one picture, for other pages: light and dark, no script.

use hone_format::{exact_bytes, percent};
use hone_record::Heatmap;

use super::colour::{STEPS, css, on_dark, on_paper, step};
use super::grid::{Row, grid};
use super::words::side;
use crate::tree::{Element, Markup, el};

const ROWS: usize = 48;
const COLUMNS: u64 = 64;
const CELL: f64 = 6.0;
const LABELS: f64 = 78.0;
const TOP: f64 = 46.0;

/// A standalone picture.
pub fn svg(map: &Heatmap) -> String {
    Markup::from(picture(map, "heat-title")).into_string() + "\n"
}

/// The same inside a page.
pub(super) fn inside(id: &str, map: &Heatmap) -> Element {
    picture(map, &format!("{id}-title"))
}

fn picture(map: &Heatmap, title_id: &str) -> Element {
    let grid = grid(map, ROWS, COLUMNS);
    let one = LABELS + CELL * COLUMNS as f64 + 12.0;
    let rows = grid.sides.iter().map(|rows| height(rows)).fold(0.0, f64::max);
    let (wide, high) = (one * grid.sides.len().max(1) as f64, TOP + rows + 44.0);
    let mut out = el("svg")
        .attr("xmlns", "http://www.w3.org/2000/svg")
        .attr("viewBox", format!("0 0 {wide:.0} {high:.0}"))
        .attr("width", format!("{wide:.0}"))
        .attr("height", format!("{high:.0}"))
        .attr("role", "img")
        .class("heat-picture")
        .attr("aria-labelledby", title_id)
        .child(el("title").attr("id", title_id).text(&format!("Heatmap of {}", super::words::title(map))))
        .child(el("style").child(Markup::text(&style())))
        .child(el("rect").class("paper").attr("width", "100%").attr("height", "100%"));
    for (index, rows) in grid.sides.iter().enumerate() {
        let left = one * index as f64;
        let found = &map.sides[index];
        out = out
            .child(text(left + LABELS, 16.0, "name", &side(map, index)))
            .child(text(
                left + LABELS,
                32.0,
                "soft",
                &format!(
                    "{} of the execution; {}",
                    percent(found.share),
                    found.evidence.label().split(" (").next().unwrap_or_default()
                ),
            ))
            .children(cells(rows, left));
    }
    out.children(legend(grid.most, grid.unit_bytes, TOP + rows + 14.0))
}

/// Style of this picture alone. Inside a page, a style applies to the whole page.
pub(crate) fn style() -> String {
    let rule = |class: &str, colour: &str| format!(".heat-picture .{class}{{fill:{colour}}}");
    let all = |[paper, name, soft, none]: [&str; 4], heat: fn(usize) -> [u8; 3]| {
        let grounds = [("paper", paper), ("name", name), ("soft", soft), ("none", none)];
        let mut rules: String = grounds.iter().map(|(class, colour)| rule(class, colour)).collect();
        (0..STEPS).for_each(|step| rules.push_str(&rule(CLASSES[step], &css(heat(step)))));
        rules
    };
    let light = all(["#fdfdfb", "#1c1c1a", "#5b5b56", "#efeee8"], on_paper);
    let dark = all(["#161715", "#e9e8e3", "#a9a8a0", "#20211e"], on_dark);
    format!(
        ".heat-picture text{{font:11px sans-serif}}.heat-picture .name{{font-weight:600}}{light}\
         @media screen and (prefers-color-scheme:dark){{{dark}}}"
    )
}

fn height(rows: &[Row]) -> f64 {
    rows.iter().map(|row| if row.is_behind_a_gap { 1.5 * CELL } else { CELL }).sum()
}

fn text(x: f64, y: f64, class: &'static str, words: &str) -> Element {
    el("text").class(class).attr("x", format!("{x:.1}")).attr("y", format!("{y:.1}")).text(words)
}

fn cells(rows: &[Row], left: f64) -> Vec<Element> {
    let mut out = Vec::new();
    let mut y = TOP;
    let mut labelled = f64::MIN;
    for row in rows {
        y += if row.is_behind_a_gap { 0.5 * CELL } else { 0.0 };
        out.push(rect("none", left + LABELS, y, CELL * row.cells.len() as f64));
        if y - labelled >= 2.0 * CELL {
            out.push(text(left + 4.0, y + CELL, "soft", &format!("0x{:x}", row.begin)));
            labelled = y;
        }
        let mut at = 0;
        // Neighbours with the same step share one rectangle.
        while at < row.cells.len() {
            let steps = |cell: &Option<f64>| cell.map(step);
            let same = row.cells[at..].iter().take_while(|cell| steps(cell) == steps(&row.cells[at])).count();
            if let Some(step) = row.cells[at].map(step) {
                out.push(rect(CLASSES[step], left + LABELS + CELL * at as f64, y, CELL * same as f64));
            }
            at += same;
        }
        y += CELL;
    }
    out
}

const CLASSES: [&str; STEPS] = ["h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"];

fn rect(class: &'static str, x: f64, y: f64, width: f64) -> Element {
    el("rect")
        .class(class)
        .attr("x", format!("{x:.1}"))
        .attr("y", format!("{y:.1}"))
        .attr("width", format!("{:.1}", width - 0.5))
        .attr("height", CELL - 0.5)
}

/// The coldest share, without an exponent.
fn small_percent(share: f64) -> String {
    if share < 1e-4 { "< 0.01 %".to_owned() } else { percent(share) }
}

fn legend(most: f64, unit_bytes: u64, y: f64) -> Vec<Element> {
    let mut out: Vec<Element> = CLASSES
        .iter()
        .enumerate()
        .map(|(at, class)| rect(class, LABELS + 14.0 * at as f64, y, 14.0))
        .collect();
    let low = most / 10_f64.powf(hone_record::HEAT_DECADES);
    let words = format!(
        "{} to {} of the execution in {}",
        small_percent(low),
        percent(most),
        exact_bytes(unit_bytes)
    );
    out.push(text(LABELS + 14.0 * STEPS as f64 + 8.0, y + 8.0, "soft", &words));
    out
}
