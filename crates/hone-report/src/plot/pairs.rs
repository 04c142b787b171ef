//! Each pair's ratio of the primary metric in the order of measurement, so that a drift is visible.

use hone_record::{Comparison, Estimate, PairKind, PairOutcome};

use super::forest::tick_name;
use super::frame::{Anchor, Drawing, Pane, Size, both_sizes, coordinate, label, line, path, rectangle};
use super::mark;
use super::scale::{self, Scale};
use crate::evidence::log_ratio;
use crate::quantity;
use crate::sentence;
use crate::tree::{Markup, el};

/// The plot. `None` when no pair has a ratio of the primary metric.
pub(crate) fn plot(id: &str, title: &str, comparison: &Comparison) -> Option<Markup> {
    let dots = dots(comparison);
    let estimate = comparison
        .primary()
        .map(|judgement| &judgement.estimate)
        .filter(|estimate| sentence::is_sound(estimate));
    let ratios = dots.iter().filter_map(|dot| dot.ratio);
    let ends = estimate.into_iter().flat_map(|estimate| [estimate.low, estimate.high]);
    let farthest = scale::extent(ratios.clone().map(|ratio| ratio.max(1.0 / ratio)))?.1;
    let reach = ends.fold(farthest, |reach, end| reach.max(end).max(1.0 / end)).max(1.05).powf(1.1);
    let description = describe(comparison, &dots);
    Some(both_sizes(id, title, &description, |size| draw(size, &dots, estimate, reach)))
}

/// One pair of the drawing.
struct Dot<'a> {
    pair: &'a PairOutcome,
    /// `None` when the pair is excluded or lacks the metric.
    ratio: Option<f64>,
}

fn dots(comparison: &Comparison) -> Vec<Dot<'_>> {
    let primary = comparison.design.rule.primary;
    let dot = |pair| Dot { pair, ratio: counted_ratio(pair, primary) };
    comparison.pairs.iter().map(dot).collect()
}

fn counted_ratio(pair: &PairOutcome, metric: hone_record::Metric) -> Option<f64> {
    pair.dropped.is_none().then(|| log_ratio(pair, metric)).flatten().map(f64::exp)
}

fn describe(comparison: &Comparison, dots: &[Dot]) -> String {
    let of = |kind: PairKind| {
        dots.iter().filter(move |dot| dot.pair.kind == kind && dot.ratio.is_some()).count() as u64
    };
    let out = dots.iter().filter(|dot| dot.ratio.is_none()).count() as u64;
    format!(
        "Ratio of {} to {} in {} for each pair in the order of measurement: {} and {} included, {} excluded.",
        comparison.b,
        comparison.a,
        sentence::noun(comparison, comparison.design.rule.primary),
        quantity::counted(of(PairKind::Test), "A/B pair", "A/B pairs"),
        quantity::counted(of(PairKind::Control), "A/A pair", "A/A pairs"),
        quantity::count(out),
    )
}

fn draw(size: Size, dots: &[Dot], estimate: Option<&Estimate>, reach: f64) -> Drawing {
    let height = size.pick(280.0, 250.0);
    let pane =
        Pane { left: size.pick(70.0, 46.0), right: size.width() - 14.0, top: 26.0, bottom: height - 62.0 };
    let y = Scale::log((1.0 / reach, reach), (pane.bottom, pane.top));
    let x = Scale::linear((-0.5, dots.len() as f64 - 0.5), (pane.left, pane.right));
    let ticks: Vec<(f64, String)> =
        scale::ratio_ticks(reach).into_iter().map(|tick| (y.at(tick), tick_name(tick))).collect();
    let mut body = Markup::default();
    body.push(estimate.map(|estimate| estimate_band(estimate, &pane, &y)).unwrap_or_default());
    body.push(pane.y_axis(&ticks));
    body.push(line((pane.left, y.at(1.0)), (pane.right, y.at(1.0)), "one"));
    body.push(trail(dots, &x, &y));
    let lane = pane.bottom + 14.0;
    dots.iter().enumerate().for_each(|(index, dot)| body.push(shape(dot, x.at(index as f64), &y, lane)));
    body.push(numbers(dots, &x, lane + 22.0));
    body.push(label(0.0, 13.0, Anchor::Start, "ratio (log)"));
    body.push(label(pane.right, height - 6.0, Anchor::End, "pair, in the order of measurement"));
    Drawing { height, body }
}

fn estimate_band(estimate: &Estimate, pane: &Pane, y: &Scale) -> Markup {
    let at = y.at(estimate.ratio);
    Markup::default()
        .with(rectangle((pane.left, y.at(estimate.high)), (pane.right, y.at(estimate.low)), "band b"))
        .with(line((pane.left, at), (pane.right, at), "mean"))
}

/// A thin line through the A/B pairs.
fn trail(dots: &[Dot], x: &Scale, y: &Scale) -> Markup {
    let tests = dots.iter().enumerate().filter(|(_, dot)| dot.pair.kind == PairKind::Test);
    let points = tests.filter_map(|(index, dot)| Some(Some((x.at(index as f64), y.at(dot.ratio?)))));
    path(points, "trail").into()
}

fn shape(dot: &Dot, x: f64, y: &Scale, lane: f64) -> Markup {
    let title = |what: &str| el("title").text(&format!("pair {}: {what}", dot.pair.number()));
    let group = |what: &str, shape| el("g").child(title(what)).child(shape).into();
    match (dot.ratio, dot.pair.kind) {
        (Some(ratio), PairKind::Test) => {
            group(&quantity::ratio(ratio), mark::circle(x, y.at(ratio), 5.0, "dot b"))
        }
        (Some(ratio), PairKind::Control) => {
            group(&format!("A/A, {}", quantity::ratio(ratio)), mark::diamond(x, y.at(ratio), "control-mark"))
        }
        (None, _) => {
            let reason = dot.pair.dropped.as_deref().unwrap_or("the metric is missing in a window");
            group(&format!("excluded: {reason}"), mark::cross(x, lane, "cross"))
        }
    }
}

fn numbers(dots: &[Dot], x: &Scale, baseline: f64) -> Markup {
    let labels: Vec<(f64, String)> = dots
        .iter()
        .enumerate()
        .map(|(index, dot)| (x.at(index as f64), dot.pair.number().to_string()))
        .collect();
    let boxes: Vec<(f64, f64)> = labels.iter().map(|(x, text)| (*x, text.len() as f64 * 7.0)).collect();
    let kept = scale::without_overlap(&boxes, 4.0);
    kept.into_iter()
        .filter_map(|index| labels.get(index))
        .map(|(x, text)| {
            el("text")
                .attr("x", coordinate(*x))
                .attr("y", coordinate(baseline))
                .attr("text-anchor", "middle")
                .text(text)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn every_pair_has_one_shape() {
        let (optimization, _) = sample::optimization();
        let comparison = &optimization.comparisons[0];
        let svg = plot("p", "t", comparison).unwrap().into_string();
        // Each size draws them once.
        assert_eq!(svg.matches("class=\"dot b\"").count(), 2 * 13);
        assert_eq!(svg.matches("class=\"control-mark\"").count(), 2 * 4);
        assert_eq!(svg.matches("class=\"cross\"").count(), 2);
        assert!(svg.contains("pair 7: excluded: steal was 21 %"), "pairs are counted from 1");
    }

    #[test]
    fn no_counted_pair_is_no_plot() {
        let (mut optimization, _) = sample::optimization();
        let comparison = &mut optimization.comparisons[0];
        for pair in &mut comparison.pairs {
            pair.dropped = Some("saturated".to_owned());
        }
        assert!(plot("p", "t", comparison).is_none());
        comparison.pairs.clear();
        assert!(plot("p", "t", comparison).is_none());
    }
}
