//! A small bar of a ratio with its interval. All bars of a table share one logarithmic axis around 1.

use hone_record::{Estimate, Verdict};

use super::frame::coordinate;
use crate::sentence::is_sound;
use crate::tree::{Element, el};

/// Half of the axis: the natural logarithm of the ratio at its ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Reach(f64);

/// The narrowest axis: ±5 %. On a narrower one, the noise of a quiet machine looks like an effect.
const LEAST: f64 = 0.05;
/// The widest: a factor of 2. Wider intervals continue beyond the bar.
const MOST: f64 = std::f64::consts::LN_2;

impl Reach {
    /// An axis that holds these intervals. `None` without one.
    pub(crate) fn over<'a>(estimates: impl Iterator<Item = &'a Estimate>) -> Option<Self> {
        let sound = estimates.filter(|estimate| is_sound(estimate));
        let farthest = sound.map(|estimate| estimate.low.ln().abs().max(estimate.high.ln().abs()));
        farthest.reduce(f64::max).map(|farthest| Self((farthest * 1.08).clamp(LEAST, MOST)))
    }

    /// The place of a ratio, from 0 (left end) over 0.5 (no change) to 1.
    fn place(self, ratio: f64) -> f64 {
        (0.5 + ratio.ln() / self.0 / 2.0).clamp(0.0, 1.0)
    }
}

/// The bar. A terminal draws it from the attribute `data-bar`: the places of the low end, the ratio and the high end in percent.
pub(crate) fn bar(estimate: &Estimate, verdict: Verdict, reach: Reach) -> Element {
    let [low, at, high] =
        [estimate.low, estimate.ratio, estimate.high].map(|ratio| reach.place(ratio) * 100.0);
    let class = match verdict {
        Verdict::Better => "interval-bar better",
        Verdict::Worse => "interval-bar worse",
        Verdict::Equivalent => "interval-bar equivalent",
        Verdict::NotShown => "interval-bar not-shown",
    };
    let span = el("rect")
        .class("span")
        .attr("x", coordinate(low))
        .attr("y", 5)
        .attr("width", coordinate((high - low).max(0.8)))
        .attr("height", 4);
    let zero = el("path").class("zero").attr("d", "M50 0V14");
    let spot = el("rect")
        .class("at")
        .attr("x", coordinate(at - 1.0))
        .attr("y", 2)
        .attr("width", 2)
        .attr("height", 10);
    el("svg")
        .class(class)
        .attr("viewBox", "0 0 100 14")
        .attr("preserveAspectRatio", "none")
        .attr("aria-hidden", "true")
        .attr("data-bar", format!("{low:.0} {at:.0} {high:.0}"))
        .children([zero, span, spot])
        .children((estimate.low.ln() < -reach.0).then(|| arrow("M6 1L0 7L6 13Z")))
        .children((estimate.high.ln() > reach.0).then(|| arrow("M94 1L100 7L94 13Z")))
}

/// Shows that the interval continues beyond the bar.
fn arrow(shape: &'static str) -> Element {
    el("path").class("at").attr("d", shape)
}

#[cfg(test)]
mod tests {
    use hone_record::Metric;

    use super::*;
    use crate::sample;

    fn estimate([ratio, low, high]: [f64; 3]) -> Estimate {
        let comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, ratio, low, high, 1.1);
        comparison.judgements[0].estimate.clone()
    }

    fn bar(ratios: [f64; 3], reach: Reach) -> String {
        let drawn = super::bar(&estimate(ratios), Verdict::Better, reach);
        drawn.attributes().iter().find(|(name, _)| *name == "data-bar").unwrap().1.clone()
    }

    #[test]
    fn no_change_is_in_the_middle_and_the_axis_is_shared() {
        let [quiet, wide] = [[1.0, 0.99, 1.01], [0.8, 0.7, 0.9]];
        let reach = Reach::over([&estimate(quiet), &estimate(wide)].into_iter()).unwrap();
        assert_eq!(bar(quiet, reach), "49 50 51");
        assert_eq!(bar(wide, reach), "4 21 36");
        assert_eq!(Reach::over(std::iter::once(&estimate(quiet))), Some(Reach(LEAST)));
        assert_eq!(Reach::over([].into_iter()), None);
    }

    #[test]
    fn what_is_wider_than_the_axis_ends_at_its_ends() {
        let reach = Reach::over(std::iter::once(&estimate([1.0, 0.01, 50.0]))).unwrap();
        assert_eq!(bar([1.0, 0.01, 50.0], reach), "0 50 100");
        assert_eq!(Reach::over(std::iter::once(&estimate([1.0, f64::NAN, 50.0]))), None);
    }
}
