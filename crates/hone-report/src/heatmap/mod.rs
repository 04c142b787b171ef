//! Heatmaps of code: a page to zoom in, and pictures for other pages.

mod colour;
mod figure;
mod grid;
mod png;
mod svg;
mod words;

use base64::Engine as _;
use hone_record::{HEAT_DECADES, HeatPlace, HeatSource, Heatmap, joined_name};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::document::{Document, STYLE};
use crate::tree::{Element, Markup, el};

pub use grid::{Grid, Row, grid};
pub use png::png;
pub(crate) use svg::style as picture_style;
pub use svg::svg;

/// Style of these pages, loaded after the common style.
pub(crate) const OWN_STYLE: &str = include_str!("heatmap.css");
/// The only script. It changes the view and loads nothing.
pub(crate) const SCRIPT: &str = include_str!("heatmap.js");

/// The document of a heatmap. Its page can be zoomed, and works from a file without a network.
pub(crate) fn document(map: &Heatmap) -> Document {
    let facts = el("main")
        .child(figure::curves(map))
        .children(figure::moved(map))
        .child(figure::sets(map))
        .children(words::tables(map))
        .child(words::notes(map));
    Document::new(&words::title(map), words::header(map), facts.clone()).with_page(page(map, facts))
}

fn page(map: &Heatmap, facts: Element) -> String {
    let title = format!("{} – heatmap – Hone", words::title(map));
    let main = el("main").child(viewer(map)).child(facts.inner().clone());
    let body = el("body").child(words::header(map)).child(main).child(data(map)).child(script());
    let html = el("html").attr("lang", "en").child(head(&title)).child(body);
    Markup::constant("<!DOCTYPE html>\n").with(html).with(Markup::constant("\n")).into_string()
}

/// The mapped program.
pub(crate) fn title(map: &Heatmap) -> String {
    words::title(map)
}

/// The map, its curves and what moved, as pictures for another page, because that page runs no script. `id` begins the ids of the
/// pictures.
pub(crate) fn inside(id: &str, map: &Heatmap) -> Vec<Element> {
    let facts = map.sides.iter().enumerate().map(|(index, found)| {
        let text =
            format!("{}: {}. Evidence: {}", words::side(map, index), found.title, found.evidence.label());
        el("p").class("under").text(&text)
    });
    let finding = words::finding(map).map(|text| el("p").child(el("strong").text(&text)));
    let picture = el("div")
        .class("scroll")
        .attr("role", "group")
        .attr("tabindex", "0")
        .attr("aria-label", format!("Map of {}", words::title(map)))
        .child(svg::inside(id, map));
    let notes = map.notes.iter().map(|note| el("p").text(&format!("Note: {note}.")));
    let more = figure::moved_table(map)
        .map(|table| el("details").child(el("summary").text("Functions before and after")).child(table));
    finding.into_iter().chain(facts).chain([picture, figure::inside(map)]).chain(more).chain(notes).collect()
}

/// The content security policy: only this exact script may run, and nothing may be loaded.
fn head(title: &str) -> Element {
    let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(SCRIPT));
    let policy = format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hash}'");
    let meta = [
        "<meta charset=\"utf-8\">",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        "<meta name=\"color-scheme\" content=\"light dark\">",
    ];
    el("head")
        .child(el("meta").attr("http-equiv", "Content-Security-Policy").attr("content", &policy))
        .children(meta.map(Markup::constant))
        .child(el("title").text(title))
        .child(el("style").child(Markup::constant(STYLE)).child(Markup::constant(OWN_STYLE)))
}

fn script() -> Element {
    el("script").child(Markup::constant(SCRIPT))
}

fn viewer(map: &Heatmap) -> Element {
    let button = |id: &'static str, text: &str, name: &str| {
        el("button").attr("id", id).attr("type", "button").attr("aria-label", name).text(text)
    };
    let hatched = map.sides.iter().any(HeatSource::knows_bytes);
    let legend = el("span").class("heat-legend");
    let legend = match hatched {
        true => legend.child(el("span").class("heat-hatch")).text("fetched, did not run"),
        false => legend,
    };
    let legend = legend
        .child(el("span").attr("id", "low"))
        .child(
            el("canvas")
                .attr("id", "scale")
                .attr("width", 160)
                .attr("height", 12)
                .attr("aria-hidden", "true"),
        )
        .child(el("span").attr("id", "high"));
    let bar = el("div")
        .class("heat-bar")
        .child(button("out", "−", "zoom out"))
        .child(button("in", "+", "zoom in"))
        .child(legend);
    let sides = map.sides.iter().enumerate().map(|(index, side)| of_side(map, index, side));
    el("section")
        .child(el("h2").text("The map"))
        .child(el("p").class("keys").text(
            "Click to zoom in: 2 MiB, a page of 4 KiB, a line of 64 B, its bytes and blocks. Keys: arrows, \
             Enter or + to zoom in, Escape or − to zoom out, s for the other side. The tables below contain \
             the same data.",
        ))
        .child(
            el("div")
                .attr("id", "map")
                .attr("tabindex", 0)
                .attr("role", "application")
                .attr("aria-label", "Heatmap of the code: arrows move, Enter zooms in, Escape zooms out")
                .child(bar)
                .child(el("div").class("heat-sides").children(sides)),
        )
        .child(el("noscript").child(
            el("p").class("absent").text("The map needs scripts; the curves and tables below do not."),
        ))
}

fn of_side(map: &Heatmap, index: usize, side: &HeatSource) -> Element {
    el("div")
        .class("heat-side")
        .attr("id", format!("side-{index}"))
        .child(el("h3").text(&words::side(map, index)))
        .child(el("p").class("where"))
        .child(el("canvas").attr("role", "img").attr("aria-label", format!("map of {}", side.object_name())))
        .child(el("p").class("info").attr("aria-live", "polite"))
}

/// The data for the script, as compact as possible.
fn data(map: &Heatmap) -> Element {
    let stops: Vec<[u8; 3]> = (0..colour::STEPS).map(colour::on_dark).collect();
    let sides: Vec<Value> = map.sides.iter().map(of).collect();
    let value = json!({ "decades": HEAT_DECADES, "stops": stops, "sides": sides });
    el("script").attr("type", "application/json").attr("id", "data").child(Markup::data(&value))
}

fn of(side: &HeatSource) -> Value {
    let sections: Vec<Value> =
        side.sections.iter().map(|section| json!([section.name, section.begin, section.bytes])).collect();
    let page = |page: &hone_record::HeatPage| {
        json!([page.address / hone_record::HEAT_PAGE_BYTES, short(page.share), page.lines, page.bytes_used])
    };
    let mut before = 0;
    let line = |line: &hone_record::HeatLine| {
        // Scale steps are shorter than numbers, and so are names that appear once: there are thousands of
        // them.
        let number = (line.address / hone_record::HEAT_LINE_BYTES) as i64;
        let step = number - std::mem::replace(&mut before, number);
        placed(side, json!([step, short(line.share), format!("{:016x}", line.used)]), line.source)
    };
    let function = |one: &hone_record::HeatFunction| {
        let mut facts = vec![json!(one.name), json!(one.begin), json!(one.bytes)];
        facts.extend([json!(short(one.share)), json!(one.rank)]);
        let joined = joined_name(&one.name);
        facts.extend((joined != one.name).then(|| json!(joined)));
        Value::Array(facts)
    };
    let block = |block: &hone_record::HeatBlock| {
        let facts = json!([block.address, block.bytes, block.instructions, block.count]);
        placed(side, facts, block.source)
    };
    let files: Vec<String> = side.files.iter().map(|path| words::short_path(path)).collect();
    json!({
        "sampled": !side.knows_bytes(),
        "sections": sections,
        "pages": side.pages.iter().map(page).collect::<Vec<_>>(),
        "lines": side.lines.iter().map(line).collect::<Vec<_>>(),
        "functions": side.functions.iter().map(function).collect::<Vec<_>>(),
        "blocks": side.blocks.iter().map(block).collect::<Vec<_>>(),
        "files": files,
    })
}

/// Adds the number of a file and a line to the facts, if they are known.
fn placed(side: &HeatSource, mut facts: Value, place: Option<HeatPlace>) -> Value {
    let known = place.filter(|place| side.file_of(*place).is_some());
    if let (Some(place), Value::Array(facts)) = (known, &mut facts) {
        facts.extend([json!(place.file), json!(place.line)]);
    }
    facts
}

/// The eye can't see more than four digits.
fn short(share: f64) -> f64 {
    format!("{share:.3e}").parse().unwrap_or(share)
}
