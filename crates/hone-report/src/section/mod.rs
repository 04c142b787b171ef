//! The sections of a page; each takes records and gives back markup.

pub(crate) mod builds;
pub(crate) mod ceiling;
pub(crate) mod circumstances;
mod conditions;
pub(crate) mod design;
pub(crate) mod go;
pub(crate) mod headline;
pub(crate) mod load_run;
pub(crate) mod method;
pub(crate) mod rates;
pub(crate) mod results;
pub(crate) mod steps;
pub(crate) mod variants;
pub(crate) mod workloads;

use crate::escape::{Element, Markup, el};

/// A section with its heading; `id` must be unique in the page.
fn section(id: &str, title: &str) -> Element {
    let heading_id = format!("{id}-heading");
    el("section")
        .attr("id", id)
        .attr("aria-labelledby", &heading_id)
        .child(el("h2").attr("id", heading_id).text(title))
}

/// A paragraph of plain text.
fn paragraph(text: &str) -> Element {
    el("p").text(text)
}

/// A sentence where a plot or a table would be empty.
fn absent(text: &str) -> Element {
    el("p").class("absent").text(text)
}

/// A command that wraps and is selected as a whole by one click.
fn command(text: &str) -> Element {
    el("pre").class("command").child(el("code").text(text))
}

/// A plot with its heading, key, caption and, folded, its numbers.
fn figure(
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

/// A sentence in the place of a plot.
fn no_figure(title: &str, reason: &str) -> Element {
    el("div").class("no-figure").child(el("h3").text(title)).child(absent(reason))
}
