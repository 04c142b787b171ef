//! Pictures for one row of a list: a sparkline of values, and a bar of an interval around "no change".

use hone_record::Verdict;

use super::frame::{coordinate, line, path};
use super::scale::{self, Scale};
use super::{is_sound_ratio, mark};
use crate::quantity;
use crate::tree::{Element, el};

/// Size of a picture.
const WIDTH: f64 = 104.0;
const HEIGHT: f64 = 24.0;
/// Room for a dot or an arrow at each side.
const MARGIN: f64 = 5.0;
/// The axis of a bar reaches at least this far. On a narrower one, the noise of a quiet machine would look like an effect.
pub(crate) const LEAST_REACH: f64 = 1.05;
/// The axis of a bar reaches at most this far. Farther intervals end in an arrow.
pub(crate) const MOST_REACH: f64 = 1.6;

/// The values in their order, the last one with a dot. `None` with fewer than two values.
pub(crate) fn sparkline(values: &[f64], name: &str) -> Option<Element> {
    let sound: Vec<f64> = values.iter().copied().filter(|value| value.is_finite() && *value > 0.0).collect();
    let last = *sound.last()?;
    if sound.len() < 2 {
        return None;
    }
    let (low, high) = scale::log_domain(sound.iter().copied())?;
    let y = Scale::log((low, high), (HEIGHT - 3.0, 3.0));
    let x = Scale::linear((0.0, sound.len() as f64 - 1.0), (MARGIN, WIDTH - MARGIN));
    let points = sound.iter().enumerate().map(|(place, value)| Some((x.at(place as f64), y.at(*value))));
    let svg = picture(name).child(path(points, "spark"));
    Some(svg.child(mark::circle(WIDTH - MARGIN, y.at(last), 2.5, "spark-end")))
}

/// Half-width of a common axis for the bars of several rows, as a ratio above 1.
pub(crate) fn reach(ratios: impl Iterator<Item = [f64; 3]>) -> f64 {
    let farthest = |[_, low, high]: [f64; 3]| high.max(1.0 / low);
    let widest =
        scale::extent(ratios.filter(is_sound_ratio).map(farthest)).map_or(LEAST_REACH, |(_, high)| high);
    widest.clamp(LEAST_REACH, MOST_REACH)
}

/// A ratio with its confidence interval on an axis from 1/`reach` to `reach`, with a line at "no change". `None` for a broken estimate.
pub(crate) fn interval_bar(
    ratio: [f64; 3],
    verdict: Option<Verdict>,
    reach: f64,
    name: &str,
) -> Option<Element> {
    if !is_sound_ratio(&ratio) {
        return None;
    }
    let [middle, low, high] = ratio;
    let x = Scale::log((1.0 / reach, reach), (MARGIN, WIDTH - MARGIN));
    let y = HEIGHT / 2.0;
    let class = match verdict {
        Some(Verdict::Better) => "spark-bar better",
        Some(Verdict::Worse) => "spark-bar worse",
        Some(Verdict::Equivalent | Verdict::NotShown) | None => "spark-bar open",
    };
    let end = |at: f64, is_cut: bool, outwards: f64| {
        let inner = if is_cut { 4.0 * outwards } else { 0.0 };
        path([(at - inner, y - 4.0), (at, y), (at - inner, y + 4.0)].map(Some), "spark-cap")
    };
    let (from, to) = (x.at(low), x.at(high));
    let bar = el("g")
        .class(class)
        .child(line((from, y), (to, y), "spark-cap"))
        .child(end(from, low < 1.0 / reach, -1.0))
        .child(end(to, high > reach, 1.0))
        .children(x.holds(middle).then(|| mark::circle(x.at(middle), y, 3.5, "spark-dot")));
    let described = format!(
        "{name}: {}, from {} to {}",
        quantity::change(middle),
        quantity::change(low),
        quantity::change(high)
    );
    let svg = picture(&described).child(line((x.at(1.0), 1.0), (x.at(1.0), HEIGHT - 1.0), "spark-zero"));
    Some(svg.child(bar))
}

fn picture(name: &str) -> Element {
    el("svg")
        .class("spark-picture")
        .attr("viewBox", format!("0 0 {} {}", coordinate(WIDTH), coordinate(HEIGHT)))
        .attr("role", "img")
        .attr("aria-label", name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Markup;

    fn html(element: Option<Element>) -> String {
        element.map(|element| Markup::from(element).into_string()).unwrap_or_default()
    }

    #[test]
    fn a_sparkline_needs_two_sound_values() {
        assert!(sparkline(&[], "x").is_none() && sparkline(&[3.0, f64::NAN, 0.0], "x").is_none());
        let drawn = html(sparkline(&[3.0, f64::NAN, 4.0], "p50 over 2 runs"));
        assert!(drawn.contains("aria-label=\"p50 over 2 runs\"") && !drawn.contains("NaN"), "{drawn}");
        assert_eq!(drawn.matches('L').count(), 1, "{drawn}");
        assert!(sparkline(&[3.0, 3.0], "flat").is_some());
    }

    #[test]
    fn a_bar_has_its_verdict_and_arrows_where_it_is_cut() {
        let bar = |ratio| html(interval_bar(ratio, Some(Verdict::Better), 1.2, "CPU"));
        let inside = bar([0.9, 0.85, 0.95]);
        assert!(inside.contains("spark-bar better") && inside.contains("spark-dot"), "{inside}");
        assert!(inside.contains("−10.0"), "{inside}");
        assert!(!bar([0.1, 0.05, 0.2]).contains("spark-dot"), "the dot is outside of the axis");
        assert!(interval_bar([f64::NAN, 1.0, 1.0], None, 1.2, "x").is_none());
        assert!(interval_bar([1.0, 0.0, 1.0], None, 1.2, "x").is_none());
    }

    #[test]
    fn the_common_axis_is_neither_narrow_nor_endless() {
        assert_eq!(reach(std::iter::empty()), LEAST_REACH);
        assert_eq!(reach([[1.0, 0.999, 1.001]].into_iter()), LEAST_REACH);
        assert_eq!(reach([[9.0, 8.0, 10.0]].into_iter()), MOST_REACH);
        let middle = reach([[0.9, 0.8, 0.95], [f64::NAN; 3]].into_iter());
        assert!((middle - 1.25).abs() < 1e-9, "{middle}");
    }
}
