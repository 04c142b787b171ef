//! Ratios with their confidence intervals. All metrics share one logarithmic axis. The control of each is lighter and below it.

use hone_record::{Comparison, Estimate, Judgement, Verdict};

use super::frame::{Anchor, Drawing, Pane, Size, both_sizes, label, line, path, rectangle, text_width};
use super::scale::{self, Scale};
use super::{is_sound_ratio, legend_of_shapes, mark};
use crate::quantity;
use crate::sentence;
use crate::tree::{Element, Markup};

/// Ratios that share an axis.
#[derive(Debug)]
pub(crate) struct Forest<'a> {
    /// Name of the first side.
    pub(crate) a: &'a str,
    /// Name of the second side.
    pub(crate) b: &'a str,
    /// Margin of equivalence, drawn as a band.
    pub(crate) equivalence: f64,
    /// Whether the axis holds every interval, and not only those of strong rows.
    pub(crate) holds_all: bool,
    /// Name of the intervals, with their confidence level.
    pub(crate) intervals: String,
    /// From top to bottom.
    pub(crate) rows: Vec<Row<'a>>,
}

/// A ratio with its name and verdict.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// Name of the metric or of the change.
    pub(crate) label: String,
    /// Whether the axis must hold the whole interval.
    pub(crate) strong: bool,
    /// Whether a smaller value is the better one.
    pub(crate) is_cost: bool,
    /// The ratio with the ends of its interval.
    pub(crate) ratio: [f64; 3],
    /// The same of the A/A control of the session.
    pub(crate) control: Option<[f64; 3]>,
    /// Decides colour and mark.
    pub(crate) verdict: Verdict,
    /// What follows from it, in a word.
    pub(crate) word: &'a str,
}

/// The ratio of an estimate with the ends of its interval.
pub(crate) fn triple(estimate: &Estimate) -> [f64; 3] {
    [estimate.ratio, estimate.low, estimate.high]
}

impl<'a> Forest<'a> {
    /// All metrics of a comparison, in this order.
    pub(crate) fn of_metrics(comparison: &'a Comparison, judgements: &[&'a Judgement]) -> Self {
        let row = |judged: &&'a Judgement| {
            let noun = comparison.label(judged.estimate.metric);
            let is_cost = judged.estimate.metric.lower_is_better();
            Row {
                label: if is_cost { noun.to_owned() } else { format!("{noun} ↑") },
                strong: judged.primary,
                is_cost,
                ratio: triple(&judged.estimate),
                control: judged.control.as_ref().map(triple),
                verdict: judged.verdict,
                word: judged.verdict.label(),
            }
        };
        Self {
            a: &comparison.a,
            b: &comparison.b,
            equivalence: comparison.design.rule.equivalence,
            holds_all: false,
            intervals: sentence::intervals(comparison),
            rows: judgements.iter().map(row).collect(),
        }
    }
}

/// The plot. `None` when nothing was estimated.
pub(crate) fn plot(id: &str, title: &str, mut forest: Forest<'_>) -> Option<Markup> {
    forest.rows.retain(|row| is_sound_ratio(&row.ratio));
    let reach = reach(&forest)?;
    let rows: Vec<String> = forest.rows.iter().map(describe).collect();
    let description = format!(
        "Ratios of {} to {} on a logarithmic axis around 1. {}.",
        forest.b,
        forest.a,
        rows.join("; ")
    );
    Some(both_sizes(id, title, &description, |size| draw(size, &forest, reach)))
}

fn describe(row: &Row<'_>) -> String {
    format!("{} {}, {}", row.label, figures(row.ratio), row.word)
}

/// The shapes of the plot with their names.
pub(crate) fn legend(forest: &Forest<'_>) -> Element {
    let rows: Vec<&Row<'_>> = forest.rows.iter().filter(|row| is_sound_ratio(&row.ratio)).collect();
    let reach = reach(forest).unwrap_or(f64::INFINITY);
    let is_cut = |[_, low, high]: [f64; 3]| high > reach || low < 1.0 / reach;
    let any_cut = rows.iter().any(|row| is_cut(row.ratio) || sound_control(row).is_some_and(is_cut));
    let bar = |x: f64, class| line((x, 1.0), (x, 9.0), class);
    let interval = |class| Markup::from(line((2.0, 5.0), (34.0, 5.0), class));
    let measured = interval("interval").with(bar(2.0, "interval")).with(bar(34.0, "interval"));
    let control = interval("interval control").with(mark::diamond(18.0, 5.0, "control-mark"));
    let arrow =
        interval("interval").with(path([(28.0, 1.0), (34.0, 5.0), (28.0, 9.0)].map(Some), "interval"));
    let entries = [
        Some((measured, forest.intervals.clone())),
        rows.iter().any(|row| sound_control(row).is_some()).then(|| (control, "A/A control".to_owned())),
        margin_entry(forest.equivalence),
        any_cut.then(|| (arrow, "the interval continues".to_owned())),
    ];
    legend_of_shapes(entries.into_iter().flatten())
}

/// The band of the margin with its name, for a legend. `None` without a margin.
pub(super) fn margin_entry(margin: f64) -> Option<(Markup, String)> {
    let band = rectangle((2.0, 0.0), (34.0, 10.0), "band");
    let name = format!("margin of ±{}: equivalent", quantity::chosen_percent(margin));
    (margin.is_finite() && margin > 0.0).then(|| (band.into(), name))
}

fn figures(ratio: [f64; 3]) -> String {
    let [ratio, low, high] = ratio.map(quantity::ratio);
    format!("{ratio} ({low} to {high})")
}

/// Narrowest half-width of the axis, as a ratio. On a narrower axis the noise of a quiet machine would look like an effect.
const LEAST_REACH: f64 = 1.06;
/// Intervals are cut off beyond this ratio, unless the primary metric itself extends further. Otherwise one wild tail would
/// compress all the others to a point.
const CUT: f64 = 1.6;

/// Half-width of the axis as a ratio above 1. `None` without rows. Controls have no effect here, because they may be cut off.
fn reach(forest: &Forest<'_>) -> Option<f64> {
    let farthest = |row: &Row<'_>| {
        let [_, low, high] = row.ratio;
        high.max(1.0 / low)
    };
    let widest = scale::extent(forest.rows.iter().map(farthest))?.1;
    let held = forest.rows.iter().filter(|row| row.strong || forest.holds_all);
    let primary = scale::extent(held.map(farthest)).map_or(1.0, |(_, widest)| widest);
    let margin = forest.equivalence;
    let band = if margin.is_finite() { 1.0 + margin.clamp(0.0, 9.0) } else { 1.0 };
    let wanted = widest.min(CUT.max(primary * primary.sqrt())).max(band).max(LEAST_REACH);
    Some(wanted.powf(1.1))
}

fn sound_control(row: &Row<'_>) -> Option<[f64; 3]> {
    row.control.filter(is_sound_ratio)
}

/// Class of the interval's line.
fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "interval better",
        Verdict::Worse => "interval worse",
        Verdict::Equivalent => "interval equivalent",
        Verdict::NotShown => "interval",
    }
}

/// Distances of one row.
struct Layout {
    pane: Pane,
    row_height: f64,
    /// From a row's top to its interval.
    to_interval: f64,
    /// From a row's top to its name.
    to_name: f64,
    /// From a row's top to its figures.
    to_figures: f64,
    /// Room for a name.
    name_width: f64,
}

fn layout(size: Size, rows: &[Row<'_>]) -> Layout {
    let longest = rows.iter().map(|row| text_width(&row.label)).fold(0.0, f64::max);
    let is_too_long =
        |row: &Row<'_>| text_width(&row.label) + text_width(&said(row)) + 16.0 > Size::Narrow.width();
    // On a narrow drawing, a name without room beside the figures has a line of its own.
    let line = size.pick(0.0, if rows.iter().any(is_too_long) { 16.0 } else { 0.0 });
    let row_height = size.pick(34.0, 56.0 + line);
    let (left, right) = size.pick(((longest + 10.0).clamp(190.0, 300.0), 625.0), (8.0, size.width() - 8.0));
    let top = 24.0;
    Layout {
        pane: Pane { left, right, top, bottom: top + row_height * rows.len() as f64 },
        row_height,
        to_interval: size.pick(13.0, 32.0 + line),
        to_name: size.pick(18.0, 16.0),
        to_figures: size.pick(18.0, 16.0 + line),
        name_width: size.pick(left - 10.0, size.width()),
    }
}

/// The figures of a row with its word.
fn said(row: &Row<'_>) -> String {
    format!("{} {}", figures(row.ratio), row.word)
}

/// The directions of the axis. The better one is named if it is the same for all rows.
fn directions(rows: &[Row<'_>]) -> [&'static str; 2] {
    let costs = rows.iter().filter(|row| row.is_cost).count();
    match costs {
        0 => ["← smaller", "larger (better) →"],
        all if all == rows.len() => ["← smaller (better)", "larger →"],
        _ => ["← smaller", "larger →"],
    }
}

fn draw(size: Size, forest: &Forest<'_>, reach: f64) -> Drawing {
    let layout = layout(size, &forest.rows);
    let pane = layout.pane;
    let x = Scale::log((1.0 / reach, reach), (pane.left, pane.right));
    let mut body = band(forest.equivalence, &pane, &x).with(axis(reach, &pane, &x));
    body.push(line((x.at(1.0), pane.top), (x.at(1.0), pane.bottom), "one"));
    let [smaller, larger] = directions(&forest.rows);
    body.push(label(x.at(1.0) - 8.0, 12.0, Anchor::End, smaller));
    body.push(label(x.at(1.0) + 8.0, 12.0, Anchor::Start, larger));
    for (index, row) in forest.rows.iter().enumerate() {
        let top = pane.top + layout.row_height * index as f64;
        body.push(words(size, row, top, &layout));
        if index > 0 {
            body.push(line((0.0, top), (size.width(), top), "grid"));
        }
        body.push(marks(row, &x, top + layout.to_interval, reach));
    }
    let height = pane.bottom + 40.0;
    let name = axis_name(forest, pane.right - pane.left);
    let end = size.pick(pane.right, size.width() - 2.0);
    Drawing { height, body: body.with(label(end, height - 4.0, Anchor::End, &name)) }
}

/// The axis name, without the sides' names if they are too long.
fn axis_name(forest: &Forest<'_>, width: f64) -> String {
    let named = format!("ratio {} / {} (log)", forest.b, forest.a);
    if text_width(&named) <= width { named } else { "ratio, second variant / first (log)".to_owned() }
}

fn band(margin: f64, pane: &Pane, x: &Scale) -> Markup {
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

/// Name and figures of a row. On a narrow drawing they have a strip above the interval, free of grid lines.
fn words(size: Size, row: &Row<'_>, top: f64, layout: &Layout) -> Markup {
    let shown = clipped(&row.label, layout.name_width);
    let name = label(0.0, top + layout.to_name, Anchor::Start, &shown)
        .attr("class", if row.strong { "strong" } else { "plain" });
    let y = top + layout.to_figures;
    match size {
        Size::Wide => Markup::from(name).with(label(641.0, y, Anchor::Start, &said(row))),
        Size::Narrow => Markup::from(rectangle((0.0, top), (size.width(), y + 5.0), "strip"))
            .with(name)
            .with(label(size.width() - 2.0, y, Anchor::End, &said(row))),
    }
}

/// A text that fits a width. An ellipsis stands in the middle, because the end has the value that was tried.
fn clipped(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let room = ((width / text_width("x")) as usize).saturating_sub(1);
    let end = room / 3;
    let left_out = text.chars().count().saturating_sub(end);
    text.chars().take(room - end).chain(['…']).chain(text.chars().skip(left_out)).collect()
}

fn marks(row: &Row<'_>, x: &Scale, y: f64, reach: f64) -> Markup {
    let mut out = Markup::default();
    if let Some(control) = sound_control(row) {
        let below = y + 12.0;
        out.push(interval(control, x, below, reach, "interval control"));
        let [middle, ..] = control;
        if x.holds(middle) {
            out.push(mark::diamond(x.at(middle), below, "control-mark"));
        }
    }
    out.push(interval(row.ratio, x, y, reach, class_of(row.verdict)));
    let [middle, ..] = row.ratio;
    if x.holds(middle) {
        out.push(mark::verdict(row.verdict, x.at(middle), y));
    }
    out
}

/// The interval. An end that is cut off becomes an arrow, other ends a small bar.
fn interval([_, low, high]: [f64; 3], x: &Scale, y: f64, reach: f64, class: &'static str) -> Markup {
    let (from, to) = (x.at(low), x.at(high));
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
        .with(end(from, low < 1.0 / reach, -1.0))
        .with(end(to, high > reach, 1.0))
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

    fn reach(judged: &[&Judgement], equivalence: f64) -> Option<f64> {
        let comparison = sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.8, 0.95, 1.1);
        super::reach(&Forest { equivalence, ..Forest::of_metrics(&comparison, judged) })
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
        let name = |comparison: &Comparison| axis_name(&Forest::of_metrics(comparison, &[]), 344.0);
        assert_eq!(name(&comparison), "ratio pgo / baseline (log)");
        comparison.a = "a-very-long-name-of-a-release-branch-and-its-date".to_owned();
        assert_eq!(name(&comparison), "ratio, second variant / first (log)");
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
        assert!(plot("f", "t", Forest::of_metrics(&comparison, &rows)).is_none());
        comparison.judgements.push(row(Metric::LatencyP50, [0.9, 0.8, 0.95], false));
        let rows: Vec<&Judgement> = comparison.judgements.iter().collect();
        let svg = plot("f", "t", Forest::of_metrics(&comparison, &rows)).unwrap().into_string();
        assert!(svg.contains("0.900 (0.800 to 0.950)") && !svg.contains("NaN"));
    }

    #[test]
    fn a_long_name_of_a_change_is_cut() {
        assert_eq!(clipped("linger=5ms", 200.0), "linger=5ms");
        let cut = clipped("topic.compression.type=zstd, linger=20ms", 100.0);
        assert!(cut.ends_with("…20ms") && text_width(&cut) <= 100.0, "{cut}");
    }
}
