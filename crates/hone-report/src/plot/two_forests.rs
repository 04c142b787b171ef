//! The intervals of two comparisons on one axis: a row for each metric, the first comparison above the second.

use hone_record::{Comparison, Judgement, Metric};

use super::forest::tick_name;
use super::frame::{Anchor, Drawing, Pane, Size, Stroke, both_sizes, label, line, path, rectangle};
use super::mark;
use super::scale::{self, Scale};
use crate::quantity;
use crate::sentence;
use crate::tree::Markup;

/// Height of a row.
const ROW: f64 = 54.0;
/// Intervals are cut off beyond this ratio, unless a primary metric itself extends further.
const CUT: f64 = 1.6;

/// One metric in both comparisons.
struct Row<'a> {
    name: &'static str,
    sides: [Option<&'a Judgement>; 2],
}

/// The plot. `None` when neither comparison estimated anything.
pub(crate) fn plot(id: &str, title: &str, both: [&Comparison; 2]) -> Option<Markup> {
    let rows = rows(both);
    let estimates = || rows.iter().flat_map(|row| row.sides.iter().flatten());
    let farthest = |row: &Judgement| row.estimate.high.max(1.0 / row.estimate.low);
    let widest = scale::extent(estimates().map(|row| farthest(row)))?.1;
    let primary = estimates().filter(|row| row.primary).map(|row| farthest(row)).fold(1.0, f64::max);
    let reach = widest.min(CUT.max(primary)).max(1.06).powf(1.1);
    let described = rows.iter().map(describe).collect::<Vec<_>>().join("; ");
    let description = format!("Ratios with their intervals in record A and in record B. {described}.");
    Some(both_sizes(id, title, &description, |size| draw(size, &rows, reach)))
}

fn rows(both: [&Comparison; 2]) -> Vec<Row<'_>> {
    let found = |side: usize, metric: Metric| {
        let mut judgements = both[side].judgements.iter();
        judgements.find(|found| found.estimate.metric == metric && sentence::is_sound(&found.estimate))
    };
    let row = |metric: Metric| {
        let sides = [found(0, metric), found(1, metric)];
        let name = both[0].label(metric);
        sides.iter().any(Option::is_some).then_some(Row { name, sides })
    };
    Metric::ALL.into_iter().filter_map(row).collect()
}

fn figures(judgement: Option<&Judgement>) -> String {
    let Some(Judgement { estimate, verdict, .. }) = judgement else { return "no estimate".to_owned() };
    format!("{} {}", quantity::change(estimate.ratio), verdict.label())
}

fn describe(row: &Row<'_>) -> String {
    format!("{}: A {}, B {}", row.name, figures(row.sides[0]), figures(row.sides[1]))
}

fn draw(size: Size, rows: &[Row<'_>], reach: f64) -> Drawing {
    let (left, right) = size.pick((150.0, 660.0), (8.0, size.width() - 8.0));
    let row_height = size.pick(ROW, ROW + 20.0);
    let pane = Pane { left, right, top: 26.0, bottom: 26.0 + row_height * rows.len() as f64 };
    let x = Scale::log((1.0 / reach, reach), (left, right));
    let ticks: Vec<(f64, String)> =
        scale::ratio_ticks(reach).into_iter().map(|tick| (x.at(tick), tick_name(tick))).collect();
    let mut body = pane.x_axis(&ticks).with(pane.floor());
    body.push(line((x.at(1.0), pane.top), (x.at(1.0), pane.bottom), "one"));
    body.push(label(x.at(1.0) - 8.0, 13.0, Anchor::End, "← smaller"));
    body.push(label(x.at(1.0) + 8.0, 13.0, Anchor::Start, "larger →"));
    for (index, row) in rows.iter().enumerate() {
        let top = pane.top + row_height * index as f64;
        if index > 0 {
            body.push(line((0.0, top), (size.width(), top), "grid"));
        }
        let first = top + size.pick(17.0, 37.0);
        body.push(
            label(0.0, size.pick(top + 31.0, top + 16.0), Anchor::Start, row.name).attr("class", "plain"),
        );
        for (side, judgement) in row.sides.iter().enumerate() {
            let y = first + 21.0 * side as f64;
            body.push(judgement.map(|found| interval(found, side, &x, y, reach)).unwrap_or_default());
            let words = format!("{} {}", ["A", "B"][side], figures(*judgement));
            if size == Size::Wide {
                body.push(label(676.0, y + 4.0, Anchor::Start, &words));
            }
        }
        if size == Size::Narrow {
            let words = row
                .sides
                .map(|side| side.map_or("–".to_owned(), |one| quantity::change(one.estimate.ratio)));
            let text = format!("A {}, B {}", words[0], words[1]);
            body.push(label(size.width() - 2.0, top + 16.0, Anchor::End, &text));
        }
    }
    let height = pane.bottom + 44.0;
    body.push(label(right, height - 5.0, Anchor::End, "ratio of after to before (log)"));
    Drawing { height, body }
}

/// The interval in the colour of its record, with the mark of its verdict.
fn interval(found: &Judgement, side: usize, x: &Scale, y: f64, reach: f64) -> Markup {
    let estimate = &found.estimate;
    let class = [Stroke::A, Stroke::B][side].class();
    let (from, to) = (x.at(estimate.low), x.at(estimate.high));
    let end = |at: f64, is_cut: bool, outwards: f64| {
        let inner = if is_cut { 6.0 * outwards } else { 0.0 };
        path([(at - inner, y - 4.0), (at, y), (at - inner, y + 4.0)].map(Some), "interval")
    };
    let band = rectangle((from, y - 3.0), (to, y + 3.0), if side == 0 { "band a" } else { "band b" });
    let mut out = Markup::from(band)
        .with(line((from, y), (to, y), class))
        .with(end(from, estimate.low < 1.0 / reach, -1.0))
        .with(end(to, estimate.high > reach, 1.0));
    if x.holds(estimate.ratio) {
        out.push(mark::verdict(found.verdict, x.at(estimate.ratio), y));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use hone_record::Verdict;

    #[test]
    fn both_comparisons_have_an_interval_in_each_row() {
        let a = sample::bare_comparison(Metric::CpuPerRecord, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let b = sample::bare_comparison(Metric::CpuPerRecord, Verdict::Worse, 1.2, 1.1, 1.3, 1.1);
        let svg = plot("two", "t", [&a, &b]).unwrap().into_string();
        assert_eq!((svg.matches("band a").count(), svg.matches("band b").count()), (2, 2), "wide and narrow");
        assert!(svg.contains("−10.0") && svg.contains("+20.0") && !svg.contains("NaN"), "{svg}");
        let mut none = a.clone();
        none.judgements.clear();
        assert!(plot("two", "t", [&none, &b]).unwrap().into_string().contains("A no estimate"));
        assert!(plot("two", "t", [&none, &none]).is_none());
    }
}
