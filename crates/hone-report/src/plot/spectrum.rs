//! The percentile spectrum: latency over 1/(1 − quantile), both logarithmic, so that each nine has the same width.

use hone_record::Hdr;

use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, path};
use super::scale::{self, Scale};
use crate::quantity::{TimeUnit, plain};
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
    let domain = scale::log_domain(curves.iter().flat_map(|curve| curve.points.iter().map(|point| point.1)))?;
    let nines = curves.iter().map(|curve| curve.end).fold(1.0, f64::max);
    let described = lines.iter().map(describe).collect::<Vec<_>>().join("; ");
    let description = format!("Latency over percentile, both axes logarithmic. {described}.");
    Some(both_sizes(id, title, &description, |size| draw(size, &curves, domain, nines)))
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

fn draw(size: Size, curves: &[Curve], domain: (f64, f64), nines: f64) -> Drawing {
    let height = size.pick(400.0, 330.0);
    let pane =
        Pane { left: size.pick(70.0, 58.0), right: size.width() - 14.0, top: 26.0, bottom: height - 44.0 };
    let x = Scale::linear((0.0, nines), (pane.left, pane.right));
    let y = Scale::log(domain, (pane.bottom, pane.top));
    let mut body = Markup::default()
        .with(pane.y_axis(&latency_ticks(domain, &y)))
        .with(pane.x_axis(&percentile_ticks(nines, &x)))
        .with(pane.floor())
        .with(label(0.0, 13.0, Anchor::Start, "latency (log)"))
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

/// p50, p90, p99 ... as far as the samples go, then p0, which is dropped first when space is tight.
fn percentile_ticks(nines: f64, x: &Scale) -> Vec<(f64, String)> {
    let named = |percent: f64| format!("p{}", plain(percent));
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
        assert_eq!(names, ["p90", "p99", "p99.9", "p99.99", "p99.999", "p50", "p0"]);
    }
}
