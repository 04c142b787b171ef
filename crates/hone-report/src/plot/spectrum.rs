//! The percentile spectrum of HdrHistogram: latency over 1/(1 − quantile) on a logarithmic axis, so that each nine has the same width.

use hone_record::Hdr;

use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, path};
use super::scale::{self, Scale};
use crate::quantity::{NBSP, TimeUnit, plain};
use crate::tree::Markup;

/// Samples that must lie beyond a quantile before its line is drawn at full strength. A table needs the same number to show a
/// percentile.
pub(crate) const SAMPLES_BEYOND: u64 = 10;

/// One line of the spectrum.
#[derive(Debug)]
pub(crate) struct Line {
    /// Style of the line.
    pub(crate) stroke: Stroke,
    /// Name of the line.
    pub(crate) label: String,
    /// Its samples. Without samples there is no line.
    pub(crate) histogram: Hdr,
}

/// The plot. `None` when no line has a sample.
pub(crate) fn plot(id: &str, title: &str, lines: &[Line]) -> Option<Markup> {
    let curves: Vec<Curve> = lines.iter().filter_map(Curve::of).collect();
    let values = || curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1));
    let heights = Heights::new(scale::extent(values().filter(|us| *us > 0.0))?, scale::log_domain(values())?);
    let nines = curves.iter().map(|curve| curve.end).fold(1.0, f64::max);
    let described = lines.iter().map(describe).collect::<Vec<_>>().join("; ");
    let description = format!(
        "Latency over percentile, each nine with the same width, {}. {described}.",
        if heights.is_log { "latency on a logarithmic axis" } else { "latency from 0" }
    );
    Some(both_sizes(id, title, &description, |size| draw(size, &curves, heights, nines)))
}

/// The axis of the latency.
#[derive(Debug, Clone, Copy)]
struct Heights {
    domain: (f64, f64),
    is_log: bool,
}

/// From this span on, one and a half decades, the fast requests would lie on the floor of a linear axis.
const LOG_FROM: f64 = 31.622_776;

impl Heights {
    fn new((low, high): (f64, f64), log_domain: (f64, f64)) -> Self {
        let is_log = high / low > LOG_FROM;
        Self { domain: if is_log { log_domain } else { (0.0, high * 1.08) }, is_log }
    }

    fn scale(self, range: (f64, f64)) -> Scale {
        if self.is_log { Scale::log(self.domain, range) } else { Scale::linear(self.domain, range) }
    }

    fn ticks(self, y: &Scale) -> Vec<(f64, String)> {
        if self.is_log {
            return latency_ticks(self.domain, y);
        }
        let unit = TimeUnit::fitting(self.domain.1);
        scale::linear_ticks(self.domain.1, 6).into_iter().map(|us| (y.at(us), unit.tick(us))).collect()
    }
}

fn describe(line: &Line) -> String {
    let at = |quantile: f64| line.histogram.quantile_us_if_supported(quantile, SAMPLES_BEYOND);
    let told: Vec<String> = [(0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9")]
        .into_iter()
        .filter_map(|(quantile, name)| Some(format!("{name} {}", crate::quantity::time_us(at(quantile)?))))
        .collect();
    format!(
        "{}: {}",
        line.label,
        if told.is_empty() { "too few samples".to_owned() } else { told.join(", ") }
    )
}

/// A line as points `(nines, latency in µs)`, where `nines` is log10 of 1/(1 − quantile).
#[derive(Debug)]
struct Curve {
    stroke: Stroke,
    points: Vec<(f64, f64)>,
    /// Up to this point, at least [`SAMPLES_BEYOND`] samples lie beyond.
    supported: f64,
    /// The largest sample: 1 in `count`.
    end: f64,
}

impl Curve {
    fn of(line: &Line) -> Option<Self> {
        let count = line.histogram.count();
        if count == 0 {
            return None;
        }
        let end = (count as f64).log10().max(0.05);
        let supported = (count as f64 / SAMPLES_BEYOND as f64).max(1.0).log10();
        let points = positions(supported, end)
            .into_iter()
            .filter_map(|nines| Some((nines, line.histogram.quantile_us(1.0 - 10f64.powf(-nines))?)))
            .collect();
        Some(Self { stroke: line.stroke, points, supported, end })
    }
}

/// The points at which a curve is read: every twentieth of a nine, and the ends of its support and of its samples.
fn positions(supported: f64, end: f64) -> Vec<f64> {
    let steps = (end * 20.0).floor() as usize;
    let mut all: Vec<f64> = (0..=steps).map(|step| step as f64 / 20.0).collect();
    all.extend([supported.min(end), end]);
    all.sort_by(f64::total_cmp);
    all.dedup();
    all
}

fn draw(size: Size, curves: &[Curve], heights: Heights, nines: f64) -> Drawing {
    let height = size.pick(400.0, 330.0);
    let pane =
        Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top: 26.0, bottom: height - 44.0 };
    let x = Scale::linear((0.0, nines), (pane.left, pane.right));
    let y = heights.scale((pane.bottom, pane.top));
    let mut body = Markup::default()
        .with(pane.y_axis(&heights.ticks(&y)))
        .with(pane.x_axis(&percentile_ticks(nines, &x)))
        .with(pane.floor())
        .with(label(0.0, 13.0, Anchor::Start, if heights.is_log { "latency (log)" } else { "latency" }))
        .with(label(pane.right, height - 6.0, Anchor::End, "percentile, each nine with the same width"));
    // The first line is drawn last: its dashes over a solid line show both where they coincide.
    for curve in curves.iter().rev() {
        let at = |(nines, us): &(f64, f64)| Some((x.at(*nines), y.at(*us)));
        let solid = curve.points.iter().filter(|point| point.0 <= curve.supported).map(at);
        let rest = curve.points.iter().filter(|point| point.0 >= curve.supported).map(at);
        body.push(path(rest, curve.stroke.faint_class()));
        body.push(path(solid, curve.stroke.class()));
    }
    Drawing { height, body }
}

/// Marks of a latency axis, each in a fitting unit.
pub(super) fn latency_ticks(domain: (f64, f64), y: &Scale) -> Vec<(f64, String)> {
    let mark = |us: f64| (y.at(us), TimeUnit::fitting(us).tick(us));
    scale::log_ticks(domain, 4).into_iter().map(mark).collect()
}

/// 90 %, 99 % ... as far as the samples go, then 50 % and 0 %, which are dropped first when space is tight.
fn percentile_ticks(nines: f64, x: &Scale) -> Vec<(f64, String)> {
    let named = |percent: f64| format!("{}{NBSP}%", plain(percent));
    let of_nines = (1..=nines.floor() as i32).map(|n| (x.at(f64::from(n)), named(100.0 - 10f64.powi(2 - n))));
    let mut ticks: Vec<(f64, String)> = of_nines.collect();
    ticks.push((x.at(2f64.log10()), named(50.0)));
    ticks.push((x.at(0.0), named(0.0)));
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(samples: impl Iterator<Item = u64>) -> Line {
        let mut histogram = Hdr::new();
        samples.for_each(|us| histogram.record_ns(us * 1_000));
        Line { stroke: Stroke::A, label: "a".to_owned(), histogram }
    }

    #[test]
    fn a_curve_runs_from_the_smallest_to_the_largest_sample() {
        let curve = Curve::of(&line(1..=10_000)).unwrap();
        let (first, last) = (curve.points.first().unwrap(), curve.points.last().unwrap());
        assert!(first.0 == 0.0 && (first.1 - 1.0).abs() < 0.01, "{first:?}");
        assert!((last.0 - 4.0).abs() < 1e-9 && (last.1 - 10_000.0).abs() <= 10.0, "{last:?}");
        assert!((curve.supported - 3.0).abs() < 1e-9);
        assert!(curve.points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "never falls");
    }

    #[test]
    fn one_sample_is_still_a_curve() {
        let curve = Curve::of(&line([7].into_iter())).unwrap();
        assert!(curve.points.len() >= 2);
        assert!(plot("s", "t", &[line([7].into_iter())]).is_some());
    }

    #[test]
    fn no_sample_is_no_plot() {
        assert!(plot("s", "t", &[line(std::iter::empty())]).is_none());
        assert!(plot("s", "t", &[]).is_none());
    }

    #[test]
    fn percentiles_are_named() {
        let x = Scale::linear((0.0, 5.2), (0.0, 520.0));
        let names: Vec<String> = percentile_ticks(5.2, &x).into_iter().map(|tick| tick.1).collect();
        let expected = ["90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "50 %", "0 %"];
        assert_eq!(names, expected.map(|name| name.replace(' ', "\u{a0}")));
    }

    #[test]
    fn a_wide_span_is_logarithmic_and_a_narrow_one_begins_at_zero() {
        let svg = |line: Line| plot("s", "t", &[line]).unwrap().into_string();
        let wide = svg(line(100..=10_000));
        assert!(wide.contains("latency (log)") && wide.contains("on a logarithmic axis"));
        let narrow = svg(line(1_000..=2_000));
        assert!(narrow.contains(">latency</text>") && narrow.contains("latency from 0"), "{narrow}");
        // Half of the largest latency, in half of the height.
        let first = narrow.split("class=\"line a\" d=\"M").nth(1).unwrap().split(['L', '"']).next().unwrap();
        let y: f64 = first.split_once(' ').unwrap().1.parse().unwrap();
        assert!((y - (356.0 - 330.0 / 2.0 / 1.08)).abs() < 1.0, "{y}");
    }
}
