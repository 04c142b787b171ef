//! Each pair's ratio of the primary metric in the order of measurement, before the interval so far: how the verdict came about, and
//! whether there is a drift.

use hone_record::{Comparison, Judgement, PairKind, PairOutcome};

use super::forest::tick_name;
use super::frame::{Anchor, Drawing, Pane, Size, area, both_sizes, coordinate, label, line, path, rectangle};
use super::running::{Running, running};
use super::scale::{self, Scale};
use super::{legend_of_shapes, mark};
use crate::evidence::log_ratio;
use crate::quantity;
use crate::sentence;
use crate::tree::{Element, Markup, el};

/// The plot of a finished comparison, with its final interval and verdict. `None` when no pair has a ratio of the primary metric.
pub(crate) fn judged(id: &str, title: &str, comparison: &Comparison) -> Option<Markup> {
    drawn(id, title, comparison, true)
}

/// The plot of a comparison that still runs: it has no verdict yet. `None` when no pair has a ratio of the primary metric.
pub(crate) fn plot(id: &str, title: &str, comparison: &Comparison) -> Option<Markup> {
    drawn(id, title, comparison, false)
}

fn drawn(id: &str, title: &str, comparison: &Comparison, is_final: bool) -> Option<Markup> {
    let dots = dots(comparison);
    let judged = comparison.primary().filter(|judgement| sentence::is_sound(&judgement.estimate));
    let ends = judged.into_iter().flat_map(|judgement| [judgement.estimate.low, judgement.estimate.high]);
    let farthest =
        scale::extent(dots.iter().filter_map(|dot| dot.ratio).map(|ratio| ratio.max(1.0 / ratio)))?.1;
    let reach = ends.fold(farthest, |reach, end| reach.max(end).max(1.0 / end)).max(1.05).powf(1.1);
    let judged = judged.filter(|_| is_final);
    let picture = Picture {
        dots,
        steps: running(comparison),
        judged,
        margin: comparison.design.rule.equivalence,
        reach,
    };
    let description = describe(comparison, &picture);
    Some(both_sizes(id, title, &description, |size| draw(size, &picture)))
}

/// The shapes of the plot with their names.
pub(crate) fn legend(comparison: &Comparison) -> Element {
    let has =
        |kind: PairKind| comparison.pairs.iter().any(|pair| pair.kind == kind && pair.dropped.is_none());
    let is_excluded = comparison.pairs.iter().any(|pair| pair.dropped.is_some());
    let judged = comparison.primary().filter(|judgement| sentence::is_sound(&judgement.estimate));
    let confidence = judged.map(|judgement| sentence::confidence(&judgement.estimate));
    let disc: Markup = mark::circle(18.0, 5.0, 5.0, "dot b").into();
    let entries = [
        Some((disc, format!("A/B pair, {} / {}", comparison.b, comparison.a))),
        has(PairKind::Control)
            .then(|| (mark::diamond(18.0, 5.0, "control-mark").into(), "A/A pair".to_owned())),
        is_excluded.then(|| (mark::cross(18.0, 5.0, "cross").into(), "excluded pair".to_owned())),
        confidence.as_ref().map(|level| {
            let band = rectangle((1.0, 0.0), (35.0, 10.0), "so-far");
            (
                Markup::from(band).with(line((1.0, 5.0), (35.0, 5.0), "mean")),
                format!("mean and {level} confidence interval so far"),
            )
        }),
        judged.zip(confidence).map(|(judgement, level)| {
            (whisker(18.0, 0.0, 10.0), format!("final {level} interval: {}", judgement.verdict.label()))
        }),
        super::forest::margin_entry(comparison.design.rule.equivalence),
    ];
    legend_of_shapes(entries.into_iter().flatten())
}

/// Everything to draw.
struct Picture<'a> {
    dots: Vec<Dot<'a>>,
    steps: Vec<Running>,
    judged: Option<&'a Judgement>,
    /// Margin inside which both arms count as equal.
    margin: f64,
    /// Half-width of the axis, as a ratio above 1.
    reach: f64,
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

fn describe(comparison: &Comparison, picture: &Picture) -> String {
    let dots = &picture.dots;
    let of = |kind: PairKind| {
        dots.iter().filter(move |dot| dot.pair.kind == kind && dot.ratio.is_some()).count() as u64
    };
    let out = dots.iter().filter(|dot| dot.ratio.is_none()).count() as u64;
    let last = picture.judged.map_or(String::new(), |judgement| {
        let estimate = &judgement.estimate;
        let [ratio, low, high] = [estimate.ratio, estimate.low, estimate.high].map(quantity::ratio);
        format!(" The final estimate is {ratio} ({low} to {high}), {}.", judgement.verdict.label())
    });
    format!(
        "Ratio of {} to {} in {} for each pair in the order of measurement: {} and {} included, {} excluded.{last}",
        comparison.b,
        comparison.a,
        sentence::noun(comparison, comparison.design.rule.primary),
        quantity::counted(of(PairKind::Test), "A/B pair", "A/B pairs"),
        quantity::counted(of(PairKind::Control), "A/A pair", "A/A pairs"),
        quantity::count(out),
    )
}

fn draw(size: Size, picture: &Picture) -> Drawing {
    let height = size.pick(300.0, 260.0);
    let pane =
        Pane { left: size.pick(70.0, 46.0), right: size.width() - 40.0, top: 26.0, bottom: height - 62.0 };
    let y = Scale::log((1.0 / picture.reach, picture.reach), (pane.bottom, pane.top));
    let x = Scale::linear((-0.5, picture.dots.len() as f64 - 0.5), (pane.left, pane.right));
    let ticks: Vec<(f64, String)> =
        scale::ratio_ticks(picture.reach).into_iter().map(|tick| (y.at(tick), tick_name(tick))).collect();
    let mut body = equality(picture.margin, &pane, &y);
    body.push(pane.y_axis(&ticks));
    body.push(so_far(&picture.steps, &x, &y));
    body.push(line((pane.left, y.at(1.0)), (pane.right, y.at(1.0)), "one"));
    let lane = pane.bottom + 14.0;
    // Hundreds of pairs have smaller dots.
    let radius = (0.4 * (pane.right - pane.left) / picture.dots.len().max(1) as f64).clamp(2.5, 5.0);
    picture
        .dots
        .iter()
        .enumerate()
        .for_each(|(index, dot)| body.push(shape(dot, x.at(index as f64), &y, (lane, radius))));
    body.push(numbers(&picture.dots, &x, lane + 22.0));
    body.push(picture.judged.map(|judgement| last(judgement, pane.right + 18.0, &y)).unwrap_or_default());
    body.push(label(0.0, 13.0, Anchor::Start, "ratio (log)"));
    body.push(label(pane.right, height - 6.0, Anchor::End, "pair, in the order of measurement"));
    Drawing { height, body }
}

fn equality(margin: f64, pane: &Pane, y: &Scale) -> Markup {
    if !(margin.is_finite() && margin > 0.0) {
        return Markup::default();
    }
    rectangle((pane.left, y.at(1.0 + margin)), (pane.right, y.at(1.0 / (1.0 + margin))), "band").into()
}

/// The band of the interval, and the mean, after each pair.
fn so_far(steps: &[Running], x: &Scale, y: &Scale) -> Markup {
    let side = |end: fn((f64, f64)) -> f64| {
        let known = steps.iter().filter_map(|step| Some((step.position, end(step.interval?))));
        known.map(|(position, end)| (x.at(position as f64), y.at(end))).collect::<Vec<_>>()
    };
    let mean = steps.iter().map(|step| Some((x.at(step.position as f64), y.at(step.ratio))));
    if steps.is_empty() {
        return Markup::default();
    }
    Markup::default()
        .with(area(&side(|(_, high)| high), &side(|(low, _)| low), "so-far"))
        .with(path(mean, "mean line"))
}

/// The final interval with the mark of the verdict, right of the pairs.
fn last(judgement: &Judgement, x: f64, y: &Scale) -> Markup {
    let estimate = &judgement.estimate;
    let (top, middle) = (y.at(estimate.high), y.at(estimate.ratio));
    whisker(x, top, y.at(estimate.low)).with(mark::verdict(judgement.verdict, x, middle)).with(label(
        x,
        13.0,
        Anchor::Middle,
        "final",
    ))
}

/// An upright interval with bars at its ends.
fn whisker(x: f64, top: f64, bottom: f64) -> Markup {
    let bar = |y: f64| line((x - 4.0, y), (x + 4.0, y), "interval");
    Markup::default().with(line((x, top), (x, bottom), "interval")).with(bar(top)).with(bar(bottom))
}

fn shape(dot: &Dot, x: f64, y: &Scale, (lane, radius): (f64, f64)) -> Markup {
    let title = |what: &str| el("title").text(&format!("pair {}: {what}", dot.pair.number()));
    let group = |what: &str, shape| el("g").child(title(what)).child(shape).into();
    match (dot.ratio, dot.pair.kind) {
        (Some(ratio), PairKind::Test) => {
            group(&quantity::ratio(ratio), mark::circle(x, y.at(ratio), radius, "dot b"))
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
        let svg = judged("p", "t", comparison).unwrap().into_string();
        // Each size draws them once.
        assert_eq!(svg.matches("class=\"dot b\"").count(), 2 * 13);
        assert_eq!(svg.matches("class=\"control-mark\"").count(), 2 * 4);
        assert_eq!(svg.matches("class=\"cross\"").count(), 2);
        let running = plot("p", "t", comparison).unwrap().into_string();
        assert!(running.contains("so-far") && !running.contains("final") && !running.contains("mark better"));
        assert!(svg.contains("pair 7: excluded: steal was 21 %"), "pairs are counted from 1");
    }

    /// The points of a path of this class, in the wide drawing.
    fn points(svg: &str, class: &str) -> Vec<(f64, f64)> {
        let path = svg.split(&format!("class=\"{class}\" d=\"")).nth(1).unwrap().split('"').next().unwrap();
        let points = path.split(['M', 'L']).filter(|point| !point.is_empty());
        points
            .map(|point| point.split_once(' ').unwrap())
            .map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()))
            .collect()
    }

    #[test]
    fn the_band_ends_where_the_final_interval_lies() {
        let (optimization, _) = sample::optimization();
        let comparison = &optimization.comparisons[0];
        let svg = judged("p", "t", comparison).unwrap().into_string();
        let (band, mean) = (points(&svg, "so-far"), points(&svg, "mean line"));
        // Thirteen pairs; the first has no interval.
        assert_eq!((band.len(), mean.len()), (2 * 12, 13));
        let ends: Vec<f64> = svg
            .split("class=\"interval\"")
            .nth(1)
            .unwrap()
            .split('"')
            .filter_map(|part| part.parse().ok())
            .take(4)
            .collect();
        let [_, top, _, bottom] = ends[..] else { panic!("{ends:?}") };
        assert_eq!((band[11].1, band[12].1), (top, bottom));
        assert_eq!(band[11].0, mean[12].0);
        assert!(top < mean[12].1 && mean[12].1 < bottom);
        // The first interval has one degree of freedom and is far wider.
        assert!(band[23].1 - band[0].1 > 2.0 * (bottom - top), "{band:?}");
        let legend = Markup::from(legend(comparison)).into_string();
        assert!(
            legend.contains("mean and 95\u{a0}% confidence interval so far")
                && legend.contains("final 95\u{a0}% interval: better"),
            "{legend}"
        );
    }

    #[test]
    fn without_an_estimate_there_are_dots_and_no_band() {
        let (mut optimization, _) = sample::optimization();
        let comparison = &mut optimization.comparisons[0];
        comparison.judgements.clear();
        let svg = judged("p", "t", comparison).unwrap().into_string();
        assert!(svg.contains("dot b") && !svg.contains("class=\"interval\"") && !svg.contains("final"));
        assert!(!Markup::from(legend(comparison)).into_string().contains("so far"));
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
