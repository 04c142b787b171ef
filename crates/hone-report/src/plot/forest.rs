//! Ratios with their confidence intervals. All metrics share one logarithmic axis. The control of each is lighter and below it.

use hone_record::{Comparison, Estimate, Judgement};

use super::frame::{Anchor, Drawing, Pane, Size, both_sizes, label, line, path, rectangle, text_width};
use super::mark;
use super::scale::{self, Scale};
use crate::quantity;
use crate::sentence;
use crate::tree::Markup;

/// The plot. `None` when nothing was estimated.
pub(crate) fn plot(
    id: &str,
    title: &str,
    comparison: &Comparison,
    judgements: &[&Judgement],
) -> Option<Markup> {
    let rows: Vec<&Judgement> =
        judgements.iter().copied().filter(|judgement| sentence::is_sound(&judgement.estimate)).collect();
    let reach = reach(&rows, comparison.design.rule.equivalence)?;
    let description = format!(
        "Ratios of {} to {} on a logarithmic axis around 1. {}.",
        comparison.b,
        comparison.a,
        rows.iter().map(|row| describe(comparison, row)).collect::<Vec<_>>().join("; ")
    );
    Some(both_sizes(id, title, &description, |size| draw(size, comparison, &rows, reach)))
}

fn describe(comparison: &Comparison, row: &Judgement) -> String {
    format!("{} {}, {}", comparison.label(row.estimate.metric), figures(&row.estimate), row.verdict.label())
}

fn figures(estimate: &Estimate) -> String {
    let [ratio, low, high] = [estimate.ratio, estimate.low, estimate.high].map(quantity::ratio);
    format!("{ratio} ({low} to {high})")
}

/// Narrowest half-width of the axis, as a ratio. On a narrower axis the noise of a quiet machine would look like an effect.
const LEAST_REACH: f64 = 1.06;
/// Intervals are cut off beyond this ratio, unless the primary metric itself extends further. Otherwise one wild tail would
/// compress all the others to a point.
const CUT: f64 = 1.6;

/// Half-width of the axis as a ratio above 1. `None` without rows. Controls have no effect here, because they may be cut off.
fn reach(rows: &[&Judgement], equivalence: f64) -> Option<f64> {
    let farthest = |estimate: &Estimate| estimate.high.max(1.0 / estimate.low);
    let widest = scale::extent(rows.iter().map(|row| farthest(&row.estimate)))?.1;
    let primary = rows.iter().find(|row| row.primary).map_or(1.0, |row| farthest(&row.estimate));
    let band = if equivalence.is_finite() { 1.0 + equivalence.clamp(0.0, 9.0) } else { 1.0 };
    let wanted = widest.min(CUT.max(primary * primary.sqrt())).max(band).max(LEAST_REACH);
    Some(wanted.powf(1.1))
}

fn sound_control(row: &Judgement) -> Option<&Estimate> {
    row.control.as_ref().filter(|control| sentence::is_sound(control))
}

/// Distances of one row.
struct Layout {
    pane: Pane,
    row_height: f64,
    /// From a row's top to its interval.
    to_interval: f64,
    /// From a row's top to its words.
    to_words: f64,
}

fn layout(size: Size, rows: usize) -> Layout {
    let row_height = size.pick(46.0, 66.0);
    let (left, right) = size.pick((150.0, 625.0), (8.0, size.width() - 8.0));
    let top = 30.0;
    Layout {
        pane: Pane { left, right, top, bottom: top + row_height * rows as f64 },
        row_height,
        to_interval: size.pick(17.0, 34.0),
        to_words: size.pick(21.0, 17.0),
    }
}

fn draw(size: Size, comparison: &Comparison, rows: &[&Judgement], reach: f64) -> Drawing {
    let layout = layout(size, rows.len());
    let pane = layout.pane;
    let x = Scale::log((1.0 / reach, reach), (pane.left, pane.right));
    let mut body = Markup::default().with(band(comparison, &pane, &x)).with(axis(reach, &pane, &x));
    body.push(line((x.at(1.0), pane.top), (x.at(1.0), pane.bottom), "one"));
    body.push(label(x.at(1.0) - 8.0, 14.0, Anchor::End, "← smaller"));
    body.push(label(x.at(1.0) + 8.0, 14.0, Anchor::Start, "larger →"));
    for (index, row) in rows.iter().enumerate() {
        let top = pane.top + layout.row_height * index as f64;
        if index > 0 {
            body.push(line((0.0, top), (size.width(), top), "grid"));
        }
        body.push(words(size, comparison, row, top + layout.to_words));
        body.push(marks(row, &x, top + layout.to_interval, reach));
    }
    let height = pane.bottom + 44.0;
    let name = axis_name(comparison, pane.right - pane.left);
    let end = size.pick(pane.right, size.width() - 2.0);
    Drawing { height, body: body.with(label(end, height - 5.0, Anchor::End, &name)) }
}

/// The axis name, without the variants' names if they are too long.
fn axis_name(comparison: &Comparison, width: f64) -> String {
    let named = format!("ratio {} / {} (log)", comparison.b, comparison.a);
    if text_width(&named) <= width { named } else { "ratio, second variant / first (log)".to_owned() }
}

fn band(comparison: &Comparison, pane: &Pane, x: &Scale) -> Markup {
    let margin = comparison.design.rule.equivalence;
    if !(margin.is_finite() && margin > 0.0) {
        return Markup::default();
    }
    rectangle((x.at(1.0 / (1.0 + margin)), pane.top), (x.at(1.0 + margin), pane.bottom), "band").into()
}

fn axis(reach: f64, pane: &Pane, x: &Scale) -> Markup {
    let ticks: Vec<(f64, String)> =
        scale::ratio_ticks(reach).into_iter().map(|tick| (x.at(tick), tick_name(tick))).collect();
    pane.x_axis(&ticks).with(pane.floor())
}

/// Two decimals, or as many as a mark needs.
pub(super) fn tick_name(ratio: f64) -> String {
    quantity::plain((ratio * 100.0).round() / 100.0)
}

fn words(size: Size, comparison: &Comparison, row: &Judgement, y: f64) -> Markup {
    let noun = comparison.label(row.estimate.metric);
    let name = if row.estimate.metric.lower_is_better() { noun.to_owned() } else { format!("{noun} ↑") };
    let name =
        label(0.0, y, Anchor::Start, &name).attr("class", if row.primary { "strong" } else { "plain" });
    let said = match size {
        Size::Wide => {
            label(641.0, y, Anchor::Start, &format!("{}  {}", figures(&row.estimate), row.verdict.label()))
        }
        Size::Narrow => label(
            size.width() - 2.0,
            y,
            Anchor::End,
            &format!("{} {}", figures(&row.estimate), row.verdict.label()),
        ),
    };
    Markup::default().with(name).with(said)
}

fn marks(row: &Judgement, x: &Scale, y: f64, reach: f64) -> Markup {
    let mut out = Markup::default();
    if let Some(control) = sound_control(row) {
        let below = y + 15.0;
        out.push(interval(control, x, below, reach, "interval control"));
        if x.holds(control.ratio) {
            out.push(mark::diamond(x.at(control.ratio), below, "control-mark"));
        }
    }
    out.push(interval(&row.estimate, x, y, reach, "interval"));
    if x.holds(row.estimate.ratio) {
        out.push(mark::verdict(row.verdict, x.at(row.estimate.ratio), y));
    }
    out
}

/// The interval. An end that is cut off becomes an arrow, other ends a small bar.
fn interval(estimate: &Estimate, x: &Scale, y: f64, reach: f64, class: &'static str) -> Markup {
    let (from, to) = (x.at(estimate.low), x.at(estimate.high));
    let end = |position: f64, cut: bool, outwards: f64| {
        let points = if cut {
            [(position - 6.0 * outwards, y - 4.0), (position, y), (position - 6.0 * outwards, y + 4.0)]
        } else {
            [(position, y - 4.0), (position, y), (position, y + 4.0)]
        };
        path(points.map(Some), class)
    };
    Markup::default()
        .with(line((from, y), (to, y), class))
        .with(end(from, estimate.low < 1.0 / reach, -1.0))
        .with(end(to, estimate.high > reach, 1.0))
}

#[cfg(test)]
mod tests {
    use hone_record::{Metric, Verdict};

    use super::*;
    use crate::sample;

    fn row(metric: Metric, [ratio, low, high]: [f64; 3], primary: bool) -> Judgement {
        let comparison = sample::bare_comparison(metric, Verdict::NotShown, ratio, low, high, 1.1);
        Judgement { primary, ..comparison.judgements[0].clone() }
    }

    #[test]
    fn the_axis_holds_the_primary_interval_and_cuts_wild_tails() {
        let primary = row(Metric::CpuPerRecord, [0.9, 0.85, 0.95], true);
        let wild = row(Metric::LatencyP999, [1.2, 0.05, 30.0], false);
        assert!(reach(&[&primary], 0.02).unwrap() < 1.3);
        let both = reach(&[&primary, &wild], 0.02).unwrap();
        assert!(both > 1.5 && both < 2.0, "{both}");
        let far = row(Metric::CpuPerRecord, [0.1, 0.05, 0.2], true);
        assert!(reach(&[&far], 0.02).unwrap() > 20.0);
        assert_eq!(reach(&[], 0.02), None);
    }

    #[test]
    fn long_names_leave_the_axis() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        assert_eq!(axis_name(&comparison, 344.0), "ratio pgo / baseline (log)");
        comparison.a = "a-very-long-name-of-a-release-branch-and-its-date".to_owned();
        assert_eq!(axis_name(&comparison, 344.0), "ratio, second variant / first (log)");
    }

    #[test]
    fn the_equivalence_band_always_fits() {
        let quiet = row(Metric::CpuPerRecord, [1.0, 0.999, 1.001], true);
        assert!(reach(&[&quiet], 0.2).unwrap() > 1.2);
        assert!(reach(&[&quiet], f64::NAN).unwrap().is_finite());
    }

    #[test]
    fn broken_estimates_are_left_out() {
        let mut comparison =
            sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, f64::NAN, 0.9, 1.1, 1.1);
        let rows: Vec<&Judgement> = comparison.judgements.iter().collect();
        assert!(plot("f", "t", &comparison, &rows).is_none());
        comparison.judgements.push(row(Metric::LatencyP50, [0.9, 0.8, 0.95], false));
        let rows: Vec<&Judgement> = comparison.judgements.iter().collect();
        let svg = plot("f", "t", &comparison, &rows).unwrap().into_string();
        assert!(svg.contains("0.900 (0.800 to 0.950)") && !svg.contains("NaN"));
    }
}
