//! Curves, moved functions and cache sets as pictures inside the page.

use std::collections::HashMap;

use hone_format::exact_bytes;
use hone_record::{HeatSource, Heatmap, joined_name};

use super::words::side;
use crate::plot::scrolling;
use crate::quantity::{NONE, percent};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 46.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 58.0;
/// Number of functions in the picture of what moved.
const MOVED: usize = 25;

fn picture(width: f64, height: f64, name: &str) -> Element {
    el("svg")
        .class("heat-figure")
        .attr("viewBox", format!("0 0 {width} {height}"))
        .attr("width", width)
        .attr("height", height)
        .attr("role", "img")
        .attr("aria-label", name)
}

fn text(x: f64, y: f64, anchor: &'static str, words: &str) -> Element {
    el("text")
        .attr("x", format!("{x:.1}"))
        .attr("y", format!("{y:.1}"))
        .attr("text-anchor", anchor)
        .text(words)
}

fn line(class: &'static str, from: (f64, f64), to: (f64, f64)) -> Element {
    let at = |value: f64| format!("{value:.1}");
    el("line")
        .class(class)
        .attr("x1", at(from.0))
        .attr("y1", at(from.1))
        .attr("x2", at(to.0))
        .attr("y2", at(to.1))
}

const MEMORY: &str = "Execution covered by the hottest code";

/// Bytes of the hottest units and the share of the execution that they hold, for lines and for pages.
pub(super) fn curves(map: &Heatmap) -> Element {
    curves_behind(map, el("section").child(el("h2").text(MEMORY)))
}

/// The same below the heading of another page's section.
pub(super) fn inside(map: &Heatmap) -> Element {
    curves_behind(map, el("div").child(el("h3").text(MEMORY)))
}

fn curves_behind(map: &Heatmap, heading: Element) -> Element {
    let words = "The hottest units come first. A dashed line is the best that a structure can hold. A real \
         one holds less, because it can't choose.";
    let pictures = [64, 4096].into_iter().filter_map(|unit| curve(map, unit));
    heading.child(el("p").text(words)).children(legend(map)).children(pictures.map(scrolling))
}

fn legend(map: &Heatmap) -> Option<Element> {
    (map.sides.len() > 1).then(|| {
        el("p").class("keys").text(&format!(
            "Solid, blue: {}. Dashed, orange: {}.",
            side(map, 0),
            side(map, 1)
        ))
    })
}

fn curve(map: &Heatmap, unit: u64) -> Option<Element> {
    let of = |side: &HeatSource| side.curves.iter().find(|curve| curve.unit_bytes == unit).cloned();
    let curves: Vec<_> = map.sides.iter().filter_map(of).collect();
    let marks: Vec<_> = map.sides.first()?.marks.iter().filter(|mark| mark.unit_bytes == unit).collect();
    let last = |points: &[hone_record::HeatPoint]| points.last().map_or(1, |point| point.units);
    let most =
        curves.iter().map(|curve| last(&curve.points)).chain(marks.iter().map(|mark| mark.units)).max()?;
    let reach = (most as f64).log2().max(1.0);
    let x = |units: u64| LEFT + (WIDTH - LEFT - 10.0) * (units.max(1) as f64).log2() / reach;
    let y = |share: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - share);
    let name = format!("Share of the execution in the hottest units of {}", exact_bytes(unit));
    let mut out = picture(WIDTH, HEIGHT, &name);
    for share in [0.0, 0.5, 0.9, 1.0] {
        out = out.child(line("heat-axis", (LEFT, y(share)), (WIDTH - 10.0, y(share))));
        out = out.child(text(LEFT - 6.0, y(share) + 4.0, "end", &hone_format::exact_percent(share)));
    }
    for power in (0..=reach as u32).step_by(2) {
        let units = 1_u64 << power;
        // The last label ends at the edge.
        let anchor = if x(units) > WIDTH - 40.0 { "end" } else { "middle" };
        out = out.child(text(x(units), HEIGHT - BOTTOM + 16.0, anchor, &exact_bytes(units * unit)));
    }
    out = out.child(text(WIDTH / 2.0, HEIGHT - 6.0, "middle", &name));
    let mut told: Vec<u64> = Vec::new();
    for mark in &marks {
        // Structures of one size share a line.
        if told.contains(&mark.units) {
            continue;
        }
        told.push(mark.units);
        let above = TOP - 6.0 - 14.0 * ((told.len() - 1) % 3) as f64;
        let short: Vec<&str> = mark.structure.split(' ').take(if unit == 64 { 3 } else { 4 }).collect();
        out = out.child(line("heat-mark", (x(mark.units), above + 3.0), (x(mark.units), HEIGHT - BOTTOM)));
        out = out.child(text(x(mark.units) - 4.0, above, "end", &short.join(" ")));
    }
    for (index, curve) in curves.iter().enumerate() {
        let points: Vec<String> =
            curve.points.iter().map(|point| format!("{:.1},{:.1}", x(point.units), y(point.share))).collect();
        let class = if index == 0 { "s0" } else { "s1" };
        out = out.child(el("polyline").class(class).attr("points", points.join(" ")));
    }
    Some(out)
}

/// A function on both sides. Its hot and cold halves count as one.
#[derive(Debug, Clone, PartialEq)]
struct Joined {
    name: String,
    /// For each side: rank from 1, share, address of the hottest half.
    sides: [Option<(usize, f64, u64)>; 2],
}

fn ranked(side: &HeatSource) -> Vec<(String, f64, u64)> {
    let mut places: HashMap<&str, (f64, u64, f64)> = HashMap::new();
    for function in &side.functions {
        let found = places.entry(joined_name(&function.name)).or_insert((0.0, function.begin, 0.0));
        found.0 += function.share;
        if function.share > found.2 {
            (found.1, found.2) = (function.begin, function.share);
        }
    }
    let mut all: Vec<(String, f64, u64)> =
        places.into_iter().map(|(name, (share, begin, _))| (name.to_owned(), share, begin)).collect();
    all.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    all
}

fn joined(map: &Heatmap) -> Vec<Joined> {
    let sides: Vec<Vec<(String, f64, u64)>> = map.sides.iter().map(ranked).collect();
    let find = |side: usize, name: &str| {
        let rank = sides[side].iter().position(|(found, ..)| found == name)?;
        Some((rank + 1, sides[side][rank].1, sides[side][rank].2))
    };
    let mut names: Vec<&String> = Vec::new();
    for side in &sides {
        for (name, ..) in side.iter().take(MOVED) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
        .into_iter()
        .map(|name| Joined { name: name.clone(), sides: [find(0, name), find(1, name)] })
        .collect()
}

/// The rank of functions before and after. `None` for one side.
pub(super) fn moved(map: &Heatmap) -> Option<Element> {
    let table = moved_table(map)?;
    Some(
        el("section")
            .child(el("h2").text("What moved"))
            .child(el("p").text(
                "Functions by their share, before on the left and after on the right. Hot and cold halves \
                 count as one. A rising line is a function that now does more of the work. A function \
                 without a partner was inlined, or no longer runs.",
            ))
            .child(scrolling(slopes(&joined(map))))
            .child(table),
    )
}

/// The same in numbers.
pub(super) fn moved_table(map: &Heatmap) -> Option<Element> {
    if map.sides.len() != 2 {
        return None;
    }
    let columns =
        ["rank before", "rank after", "share before", "share after", "address before", "address after"];
    let columns = columns.map(|title| Column::numbers(Markup::text(title)));
    let mut table = Table::new(
        "Functions before and after",
        [Column::words("function")].into_iter().chain(columns).collect(),
    );
    for one in joined(map) {
        let texts = one.sides.map(|side| {
            side.map_or([NONE; 3].map(str::to_owned), |(rank, share, address)| {
                [rank.to_string(), percent(share), format!("0x{address:x}")]
            })
        });
        let cells = (0..3).flat_map(|figure| texts.each_ref().map(|side| Cell::number(&side[figure])));
        table.row(Markup::text(&one.name), cells.collect());
    }
    Some(table.finish())
}

fn slopes(all: &[Joined]) -> Element {
    let height = 34.0 + 18.0 * MOVED as f64;
    let y = |rank: usize| 34.0 + 18.0 * (rank - 1) as f64;
    let mut out = picture(WIDTH, height, "Rank of functions before and after")
        .child(text(250.0, 14.0, "end", "before"))
        .child(text(WIDTH - 250.0, 14.0, "start", "after"));
    for one in all {
        let [before, after] = one.sides.map(|side| side.map(|(rank, ..)| rank).filter(|rank| *rank <= MOVED));
        for (rank, x, anchor) in [(before, 250.0, "end"), (after, WIDTH - 250.0, "start")] {
            if let Some(rank) = rank {
                let name: String = if one.name.chars().count() > 34 {
                    one.name.chars().take(33).chain(['…']).collect()
                } else {
                    one.name.clone()
                };
                out = out.child(text(x, y(rank) + 4.0, anchor, &name).class("name"));
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            let class = match before.cmp(&after) {
                std::cmp::Ordering::Less => "down",
                std::cmp::Ordering::Equal => "same",
                std::cmp::Ordering::Greater => "up",
            };
            out = out.child(line(class, (256.0, y(before)), (WIDTH - 256.0, y(after))));
        }
    }
    out
}

/// Lines by set of an L1i of 32 KiB, with the number that a set can hold.
pub(super) fn sets(map: &Heatmap) -> Element {
    let most = map.sides.iter().flat_map(|side| &side.sets).map(|set| set.lines).max().unwrap_or(0).max(8);
    let section = el("section").child(el("h2").text("Sets of the instruction cache")).child(el("p").text(
        "Lines that hold 99 % of the execution, by their set in an L1i of 32 KiB with 8 ways. Lines above \
         the dashed line evict each other, however small the code is in total.",
    ));
    let pictures = map.sides.iter().enumerate().map(|(index, found)| {
        let (width, height, base) = (WIDTH, 150.0, 128.0);
        let y = |lines: f64| base - (base - 16.0) * lines / f64::from(most);
        let mut out = picture(width, height, &format!("Lines by set, {}", side(map, index)));
        let step = (width - LEFT - 10.0) / 64.0;
        for (set, at) in found.sets.iter().enumerate() {
            let title = format!("set {set}: {} lines, {} of the execution", at.lines, percent(at.share));
            out = out.child(
                el("rect")
                    .class(if index == 0 { "f0" } else { "f1" })
                    .attr("x", format!("{:.1}", LEFT + step * set as f64))
                    .attr("y", format!("{:.1}", y(f64::from(at.lines))))
                    .attr("width", format!("{:.1}", step - 1.5))
                    .attr("height", format!("{:.1}", base - y(f64::from(at.lines))))
                    .child(el("title").text(&title)),
            );
        }
        out.child(line(
            "heat-mark",
            (LEFT, y(f64::from(found.ways))),
            (width - 10.0, y(f64::from(found.ways))),
        ))
        .child(text(LEFT - 6.0, y(f64::from(found.ways)) + 4.0, "end", &format!("{} lines", found.ways)))
        .child(text(LEFT, height - 6.0, "start", "set 0"))
        .child(text(width - 10.0, height - 6.0, "end", "set 63"))
        .child(text(width / 2.0, height - 6.0, "middle", &side(map, index)))
    });
    section.children(pictures.map(scrolling))
}
