//! Marks: shapes that distinguish arms, controls and verdicts without colour.

use hone_record::Verdict;

use super::frame::coordinate;
use crate::tree::{Element, Markup, el};

/// The mark of a verdict around a point, about 14 units wide: a disc with a tick, a square with a cross, a diamond with two bars,
/// an empty ring.
pub(crate) fn verdict(verdict: Verdict, x: f64, y: f64) -> Element {
    let group = |class| {
        el("g").class(class).attr("transform", format!("translate({} {})", coordinate(x), coordinate(y)))
    };
    match verdict {
        Verdict::Better => {
            group("mark better").child(circle(0.0, 0.0, 7.0, "shape")).child(sign("M-3.2 .2L-1 2.6L3.2-2.4"))
        }
        Verdict::Worse => {
            group("mark worse").child(square(6.2)).child(sign("M-2.6-2.6L2.6 2.6M-2.6 2.6L2.6-2.6"))
        }
        Verdict::Equivalent => group("mark equivalent")
            .child(el("path").class("shape").attr("d", "M0-8.2L8.2 0L0 8.2L-8.2 0Z"))
            .child(sign("M-2.7-1.6H2.7M-2.7 1.6H2.7")),
        Verdict::NotShown => group("mark not-shown").child(circle(0.0, 0.0, 6.0, "shape")),
    }
}

/// A verdict's mark for running text. A screen reader reads the word next to it.
pub(crate) fn inline_verdict(judged: Verdict) -> Element {
    el("svg")
        .class("inline-mark")
        .attr("viewBox", "-9 -9 18 18")
        .attr("aria-hidden", "true")
        .child(verdict(judged, 0.0, 0.0))
}

/// The mark and the word of a verdict.
pub(crate) fn verdict_words(judged: Verdict) -> Markup {
    verdict_with(judged, judged.label())
}

/// The mark of a verdict with words of its own.
pub(crate) fn verdict_with(judged: Verdict, words: &str) -> Markup {
    Markup::default().with(inline_verdict(judged)).with(el("span").text(words))
}

fn sign(commands: &'static str) -> Element {
    el("path").class("sign").attr("d", commands)
}

fn square(half: f64) -> Element {
    el("rect")
        .class("shape")
        .attr("x", -half)
        .attr("y", -half)
        .attr("width", 2.0 * half)
        .attr("height", 2.0 * half)
        .attr("rx", 1)
}

/// A circle.
pub(crate) fn circle(x: f64, y: f64, radius: f64, class: &'static str) -> Element {
    el("circle").class(class).attr("cx", coordinate(x)).attr("cy", coordinate(y)).attr("r", radius)
}

/// An empty diamond: a control.
pub(crate) fn diamond(x: f64, y: f64, class: &'static str) -> Element {
    let [up, right, down, left] = [(x, y - 5.0), (x + 5.0, y), (x, y + 5.0), (x - 5.0, y)]
        .map(|(x, y)| format!("{} {}", coordinate(x), coordinate(y)));
    el("path").class(class).attr("d", format!("M{up}L{right}L{down}L{left}Z"))
}

/// A cross: an excluded pair.
pub(crate) fn cross(x: f64, y: f64, class: &'static str) -> Element {
    let at = |dx: f64, dy: f64| format!("{} {}", coordinate(x + dx), coordinate(y + dy));
    let [nw, se, sw, ne] = [at(-4.0, -4.0), at(4.0, 4.0), at(-4.0, 4.0), at(4.0, -4.0)];
    el("path").class(class).attr("d", format!("M{nw}L{se}M{sw}L{ne}"))
}
