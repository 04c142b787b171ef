//! Sizes of batches on a logarithmic axis, with lines at 4 KiB and 16 KiB: a histogram of one topic, and the spread of many.

use hone_record::{BatchSizes, Spread};

use super::frame::{
    Anchor, Drawing, Pane, Size, both_sizes, label, legend_of_shapes, line, rectangle, text_width,
};
use super::mark;
use super::scale::{self, Scale};
use crate::quantity::{self, NBSP};
use crate::tree::{Element, Markup, el};

/// A page of a drive: a smaller batch that is flushed alone costs as much as this.
pub(crate) const SMALL_BYTES: u64 = 4 << 10;
/// From this size on, a larger batch saves little.
pub(crate) const GOOD_BYTES: u64 = 16 << 10;

/// The histogram. `None` without batches.
pub(crate) fn plot(id: &str, title: &str, sizes: &BatchSizes) -> Option<Markup> {
    if sizes.is_empty() {
        return None;
    }
    let [small, middle, large] = shares(sizes).map(quantity::percent);
    let description = format!(
        "Share of the batches by size, {}: {small} below 4{NBSP}KiB, {middle} from 4 to 16{NBSP}KiB, {large} from 16{NBSP}KiB on.",
        quantity::counted(sizes.batches(), "batch", "batches")
    );
    Some(both_sizes(id, title, &description, |size| draw(size, sizes)))
}

/// Shares of the batches below 4 KiB, from there to 16 KiB, and from 16 KiB on.
pub(crate) fn shares(sizes: &BatchSizes) -> [f64; 3] {
    let [small, below_good] = [SMALL_BYTES, GOOD_BYTES].map(|bytes| sizes.share_below(bytes));
    [small, below_good - small, 1.0 - below_good]
}

fn draw(size: Size, sizes: &BatchSizes) -> Drawing {
    let height = size.pick(270.0, 230.0);
    let pane =
        Pane { left: size.pick(70.0, 46.0), right: size.width() - 24.0, top: 44.0, bottom: height - 44.0 };
    let classes: Vec<(f64, f64, u64)> = sizes.classes().collect();
    let all = sizes.batches().max(1) as f64;
    let most = classes.iter().map(|class| class.2 as f64 / all).fold(0.0, f64::max);
    let x = bytes_scale(classes.iter().flat_map(|class| [class.0, class.1]), &pane);
    let y = Scale::linear((0.0, most * 1.08), (pane.bottom, pane.top));
    let ticks: Vec<(f64, String)> = scale::linear_ticks(100.0 * most, 4)
        .into_iter()
        .map(|percent| (y.at(percent / 100.0), format!("{}{NBSP}%", quantity::plain(percent))))
        .collect();
    let mut body = pane.y_axis(&ticks).with(pane.x_axis(&byte_ticks(&x)));
    for (low, high, batches) in classes {
        let (from, to) = (x.0.at(low) + 0.5, x.0.at(high) - 0.5);
        let name = format!(
            "{} to {}: {}",
            quantity::bytes(low as u64),
            quantity::bytes(high as u64),
            quantity::percent(batches as f64 / all)
        );
        let bar = rectangle((from, y.at(batches as f64 / all)), (to, pane.bottom), "size-bar");
        body.push(el("g").child(el("title").text(&name)).child(bar));
    }
    body.push(pane.floor());
    body.push(limits(&pane, &x.0));
    body.push(regions(&pane, &x.0, shares(sizes)));
    body.push(label(0.0, 13.0, Anchor::Start, "batches"));
    body.push(label(pane.right, height - 6.0, Anchor::End, "bytes in a batch (log)"));
    Drawing { height, body }
}

/// The scale, and its domain in bytes. It always has both limits inside.
fn bytes_scale(ends: impl Iterator<Item = f64>, pane: &Pane) -> (Scale, (f64, f64)) {
    let ends = ends.chain([SMALL_BYTES as f64 / 4.0, GOOD_BYTES as f64 * 4.0]);
    let (low, high) = scale::extent(ends.filter(|bytes| *bytes > 0.0)).unwrap_or((1.0, 2.0));
    (Scale::log((low, high), (pane.left, pane.right)), (low, high))
}

/// Powers of four, those of the limits first.
fn byte_ticks((x, (low, high)): &(Scale, (f64, f64))) -> Vec<(f64, String)> {
    let powers = [6, 7, 8, 5, 9, 4, 10, 3, 11, 12, 2].map(|power: u32| 4_u64.pow(power));
    let inside = powers.into_iter().filter(|bytes| (*low..=*high).contains(&(*bytes as f64)));
    inside.map(|bytes| (x.at(bytes as f64), unbroken(bytes))).collect()
}

fn unbroken(bytes: u64) -> String {
    hone_format::exact_bytes(bytes).replace(' ', "\u{a0}")
}

/// The lines at 4 KiB and 16 KiB.
fn limits(pane: &Pane, x: &Scale) -> Markup {
    let limit =
        |bytes: u64| line((x.at(bytes as f64), pane.top - 12.0), (x.at(bytes as f64), pane.bottom), "limit");
    Markup::from(limit(SMALL_BYTES)).with(limit(GOOD_BYTES))
}

/// The share of each side of the lines, above it.
fn regions(pane: &Pane, x: &Scale, shares: [f64; 3]) -> Markup {
    let ends = [pane.left, x.at(SMALL_BYTES as f64), x.at(GOOD_BYTES as f64), pane.right];
    let names = ["below 4", "4 to 16", "from 16"];
    let mut out = Markup::default();
    for (index, share) in shares.into_iter().enumerate() {
        let (from, to) = (ends[index], ends[index + 1]);
        let percent = quantity::percent(share);
        let texts = [format!("{} KiB: {percent}", names[index]), percent];
        if let Some(text) = texts.into_iter().find(|text| text_width(text) + 6.0 <= to - from) {
            out.push(label((from + to) / 2.0, pane.top - 8.0, Anchor::Middle, &text).attr("class", "plain"));
        }
    }
    out
}

/// The spread of a topic's batches.
#[derive(Debug)]
pub(crate) struct Row<'a> {
    /// The topic.
    pub(crate) name: &'a str,
    /// Sizes in bytes.
    pub(crate) spread: Spread,
    /// Mean size in bytes, with its confidence interval if only a part was read.
    pub(crate) mean: Option<(f64, Option<(f64, f64)>)>,
}

/// The shapes of the spreads.
pub(crate) fn legend(rows: &[Row]) -> Element {
    let whole = Markup::from(line((1.0, 5.0), (35.0, 5.0), "size-range"));
    let most = Markup::from(rectangle((6.0, 0.5), (30.0, 9.5), "size-most"));
    let median = Markup::from(line((18.0, 0.0), (18.0, 10.0), "size-median"));
    let shapes = [
        (whole, "smallest to largest".to_owned()),
        (most, "10\u{a0}% to 90\u{a0}%".to_owned()),
        (median, "median".to_owned()),
        (mark::diamond(18.0, 5.0, "size-mean").into(), "mean".to_owned()),
    ];
    let is_sample = rows.iter().any(|row| row.mean.is_some_and(|(_, interval)| interval.is_some()));
    let interval = is_sample.then(|| {
        (line((1.0, 5.0), (35.0, 5.0), "interval thin").into(), "confidence interval of the mean".to_owned())
    });
    legend_of_shapes(shapes.into_iter().chain(interval))
}

/// The spread of each topic. `None` without topics.
pub(crate) fn spreads(id: &str, title: &str, rows: &[Row]) -> Option<Markup> {
    if rows.is_empty() {
        return None;
    }
    let each = rows.iter().map(|row| format!("{}: median {}", row.name, quantity::bytes(row.spread.p50)));
    let description =
        format!("Sizes of batches by topic on a logarithmic axis. {}.", each.collect::<Vec<_>>().join("; "));
    Some(both_sizes(id, title, &description, |size| draw_spreads(size, rows)))
}

fn draw_spreads(size: Size, rows: &[Row]) -> Drawing {
    let (row_height, to_middle) = size.pick((28.0, 14.0), (40.0, 28.0));
    let left = size.pick(200.0, 8.0);
    let top = 26.0;
    let pane = Pane { left, right: size.width() - 24.0, top, bottom: top + row_height * rows.len() as f64 };
    let ends = rows.iter().flat_map(|row| [row.spread.least.max(1) as f64, row.spread.most as f64]);
    let x = bytes_scale(ends, &pane);
    let mut body = pane.x_axis(&byte_ticks(&x)).with(limits(&pane, &x.0));
    for (index, row) in rows.iter().enumerate() {
        let from = pane.top + row_height * index as f64;
        let words = from + size.pick(to_middle + 4.0, 13.0);
        let most = (size.pick(left - 10.0, size.width()) / text_width("n")) as usize;
        body.push(label(0.0, words, Anchor::Start, &shortened(row.name, most)).attr("class", "plain"));
        body.push(draw_row(row, &x.0, from + to_middle));
    }
    body.push(pane.floor());
    for (bytes, name) in [(SMALL_BYTES, "4 KiB"), (GOOD_BYTES, "16 KiB")] {
        body.push(label(x.0.at(bytes as f64), 11.0, Anchor::Middle, name));
    }
    let height = pane.bottom + 42.0;
    body.push(label(pane.right, height - 6.0, Anchor::End, "bytes in a batch (log)"));
    Drawing { height, body }
}

fn draw_row(row: &Row, x: &Scale, y: f64) -> Markup {
    let Spread { least, p10, p50, p90, most, .. } = row.spread;
    let [least, p10, p50, p90, most] = [least, p10, p50, p90, most].map(|bytes| x.at(bytes.max(1) as f64));
    // A single size is still a mark.
    let box_end = p90.max(p10 + 2.0);
    let mut out = Markup::from(line((least, y), (most.max(least + 1.0), y), "size-range"))
        .with(rectangle((p10, y - 6.0), (box_end, y + 6.0), "size-most"))
        .with(line((p50, y - 7.0), (p50, y + 7.0), "size-median"));
    let Some((mean, interval)) = row.mean.filter(|(mean, _)| *mean > 0.0) else { return out };
    if let Some((low, high)) = interval {
        out.push(line((x.at(low), y), (x.at(high), y), "interval thin"));
    }
    out.push(mark::diamond(x.at(mean), y, "size-mean"));
    out
}

fn shortened(name: &str, most: usize) -> String {
    match name.chars().count() {
        count if count <= most => name.to_owned(),
        _ => name.chars().take(most.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn bars_stand_between_the_limits_of_their_classes() {
        // Half of the batches below 4 KiB, a quarter up to 16 KiB.
        let sizes = sample::batch_sizes(&[(2_048, 2), (4_096, 1), (16_384, 1)]);
        let svg = plot("s", "t", &sizes).unwrap().into_string();
        // 1 KiB to 64 KiB are six octaves from 70 to 856: 131 units each, and half of that for a class.
        let bars: Vec<&str> = svg
            .split("class=\"size-bar\" ")
            .skip(1)
            .take(3)
            .map(|bar| bar.split('>').next().unwrap())
            .collect();
        assert!(bars[0].starts_with("x=\"201.5\" y=\"57.5\" width=\"64.5\""), "{bars:?}");
        assert!(bars[1].starts_with("x=\"332.5\"") && bars[2].starts_with("x=\"594.5\""), "{bars:?}");
        // The lines begin exactly where the bars of 4 and 16 KiB do.
        assert!(
            svg.contains("class=\"limit\" x1=\"332\"") && svg.contains("class=\"limit\" x1=\"594\""),
            "{svg}"
        );
        assert!(
            svg.contains(">below 4 KiB: 50.0\u{a0}%</text>")
                && svg.contains(">from 16 KiB: 25.0\u{a0}%</text>"),
            "{svg}"
        );
        assert!(
            svg.contains("4 batches: 50.0\u{a0}% below") || svg.contains("4\u{a0}batches: 50.0\u{a0}% below"),
            "{svg}"
        );
    }

    #[test]
    fn spreads_have_a_box_a_median_and_a_mean() {
        let spread = Spread { least: 1_024, p10: 2_048, p50: 4_096, p90: 16_384, p99: 32_768, most: 65_536 };
        let row = Row { name: "orders <eu>", spread, mean: Some((8_192.0, Some((4_096.0, 16_384.0)))) };
        let svg = spreads("s", "t", &[row]).unwrap().into_string();
        // Six octaves from 200 to 856: 109.3 units each.
        assert!(svg.contains("class=\"size-range\" x1=\"200\" y1=\"40\" x2=\"856\""), "{svg}");
        assert!(svg.contains("class=\"size-most\" x=\"309.3\" y=\"34\" width=\"328\""), "{svg}");
        assert!(
            svg.contains("class=\"size-median\" x1=\"418.7\"")
                && svg.contains("class=\"interval thin\" x1=\"418.7\"")
        );
        assert!(svg.contains("orders &lt;eu&gt;: median 4.00\u{a0}KiB"), "{svg}");
    }

    #[test]
    fn without_batches_there_is_no_plot_and_one_size_is_one() {
        assert_eq!(plot("s", "t", &BatchSizes::default()), None);
        assert_eq!(spreads("s", "t", &[]), None);
        let svg = plot("s", "t", &sample::batch_sizes(&[(0, 1)])).unwrap().into_string();
        assert!(!svg.contains("NaN"), "{svg}");
        let row = Row { name: "t", spread: Spread::default(), mean: Some((f64::NAN, None)) };
        assert!(!spreads("s", "t", &[row]).unwrap().into_string().contains("NaN"));
    }
}
