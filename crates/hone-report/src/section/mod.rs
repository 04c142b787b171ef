//! The sections of a page. Each takes records and returns markup.

pub(crate) mod builds;
pub(crate) mod ceiling;
pub(crate) mod circumstances;
mod conditions;
pub(crate) mod counted;
pub(crate) mod design;
pub(crate) mod diagnosis;
pub(crate) mod gate;
pub(crate) mod go;
pub(crate) mod head;
pub(crate) mod headline;
pub(crate) mod history;
pub(crate) mod host_trial;
pub(crate) mod jvm;
pub(crate) mod load_run;
pub(crate) mod method;
pub(crate) mod pictures;
pub(crate) mod proof;
pub(crate) mod rates;
pub(crate) mod results;
pub(crate) mod seconds;
pub(crate) mod steps;
pub(crate) mod story;
pub(crate) mod tail;
pub(crate) mod tuning;
pub(crate) mod variants;
pub(crate) mod workloads;
pub(crate) mod xray;

use hone_record::{Comparison, Optimization};

use crate::quantity::{self, NONE};
use crate::table::Cell;
use crate::tree::{Element, Markup, el};

/// The comparisons in the order of a reader's interest: the best variant first, pure base variants last.
pub(crate) fn in_order(optimization: &Optimization) -> Vec<&Comparison> {
    let best = optimization.best.as_deref();
    let mut ordered: Vec<&Comparison> = optimization.comparisons.iter().collect();
    ordered.sort_by_key(|judged| (is_ground(optimization, &judged.b), Some(&*judged.b) != best));
    ordered
}

/// Whether a variant exists only for others to build on: a build without a profile, such as the one with relocations for BOLT.
fn is_ground(optimization: &Optimization, name: &str) -> bool {
    let is_built_on = optimization.variants.iter().any(|other| other.parent.as_deref() == Some(name));
    let is_rewritten =
        optimization.variants.iter().any(|variant| variant.name == name && variant.rewriting.is_some());
    let built = optimization.artifacts.iter().find(|artifact| artifact.variant == name);
    let is_plain = built.is_some_and(|artifact| artifact.profile.is_none());
    is_built_on && is_plain && !is_rewritten && optimization.best.as_deref() != Some(name)
}

/// A section with its heading; `id` must be unique in the page.
pub(crate) fn section(id: &str, title: &str) -> Element {
    let heading_id = format!("{id}-heading");
    el("section")
        .attr("id", id)
        .attr("aria-labelledby", &heading_id)
        .child(el("h2").attr("id", heading_id).text(title))
}

/// A paragraph of plain text.
pub(crate) fn paragraph(text: &str) -> Element {
    el("p").text(text)
}

/// A sentence in place of an empty plot or table.
pub(crate) fn absent(text: &str) -> Element {
    el("p").class("absent").text(text)
}

/// A ratio with its interval.
fn ratio_cell(found: Option<[f64; 3]>) -> Cell {
    let Some([ratio, low, high]) = found.map(|found| found.map(quantity::ratio)) else {
        return Cell::number(NONE);
    };
    let interval = el("span").class("small word").text(&format!("[{low}, {high}]"));
    Cell::numbers(Markup::text(&ratio).with(interval))
}

/// A command that wraps. One click selects all of it.
pub(crate) fn command(text: &str) -> Element {
    el("pre").class("command").child(el("code").text(text))
}

/// A figure right below the title of its page: its heading is one level higher.
pub(crate) fn raised(figure: Element) -> Element {
    figure.map_elements(|part| if part.tag() == "h3" { part.renamed("h2") } else { part })
}

/// A plot with its heading, key and caption. Its numbers are folded.
pub(crate) fn figure(
    title: &str,
    legend: Option<Element>,
    plot: Markup,
    caption: &str,
    numbers: Option<Element>,
) -> Element {
    let mut figure = el("figure").child(el("h3").text(title));
    if let Some(legend) = legend {
        figure = figure.child(legend);
    }
    figure = figure.child(plot).child(el("figcaption").text(caption));
    match numbers {
        Some(table) => figure.child(el("details").child(el("summary").text("The numbers")).child(table)),
        None => figure,
    }
}

/// A sentence in place of a plot.
pub(crate) fn no_figure(title: &str, reason: &str) -> Element {
    el("div").class("no-figure").child(el("h3").text(title)).child(absent(reason))
}
