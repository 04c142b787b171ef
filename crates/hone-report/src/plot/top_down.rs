//! Where the slots of the CPU's pipeline went: a stacked bar for each measurement, and the change between two.

use std::collections::BTreeMap;

use hone_record::Category;

use super::frame::{
    Anchor, Drawing, Pane, Size, both_sizes, label, legend_of_shapes, line, rectangle, text_width,
};
use super::scale::{self, Scale};
use crate::quantity::NBSP;
use crate::tree::{Element, Markup};

/// One measurement.
#[derive(Debug)]
pub(crate) struct Bar {
    /// Its name.
    pub(crate) label: String,
    /// Shares in percent.
    pub(crate) percent: BTreeMap<Category, f64>,
}

/// The segments of a bar from left to right, each with its class: useful work first.
const SEGMENTS: [(Category, &str); 5] = [
    (Category::Retiring, "slot retiring"),
    (Category::BadSpeculation, "slot bad-speculation"),
    (Category::FrontendBound, "slot frontend"),
    (Category::BackendBound, "slot backend"),
    (Category::SmtContention, "slot contention"),
];

/// The colours with the categories.
pub(crate) fn legend(bars: &[Bar]) -> Element {
    let is_used = |category: &Category| bars.iter().any(|bar| share(bar, *category) > 0.0);
    let used = SEGMENTS.into_iter().filter(|(category, _)| is_used(category));
    legend_of_shapes(used.map(|(category, class)| {
        (rectangle((2.0, 0.0), (34.0, 10.0), class).into(), category.label().to_owned())
    }))
}

/// The plot. With two bars it shows the change in points, if that is asked for. `None` when no bar has a share.
pub(crate) fn plot(id: &str, title: &str, bars: &[Bar], is_change: bool) -> Option<Markup> {
    let has_share = |bar: &&Bar| SEGMENTS.iter().any(|(category, _)| share(bar, *category) > 0.0);
    let bars: Vec<&Bar> = bars.iter().filter(has_share).collect();
    let change = match bars[..] {
        [] => return None,
        [before, after] if is_change => Some([before, after]),
        _ => None,
    };
    let described: Vec<String> = bars.iter().map(|bar| describe(bar)).collect();
    let moved = change.map_or(String::new(), |[before, after]| {
        let each = SEGMENTS.iter().filter_map(|(category, _)| {
            let points = points(before, after, *category)?;
            Some(format!("{category} {}", points_text(points)))
        });
        format!(" Change in points: {}.", each.collect::<Vec<_>>().join(", "))
    });
    let description = format!("Shares of the pipeline's slots. {}.{moved}", described.join("; "));
    Some(both_sizes(id, title, &description, |size| draw(size, &bars, change)))
}

/// A share in percent; 0 if the measurement lacks it or it is no number.
fn share(bar: &Bar, category: Category) -> f64 {
    bar.percent
        .get(&category)
        .copied()
        .filter(|share| share.is_finite())
        .map_or(0.0, |share| share.clamp(0.0, 100.0))
}

fn describe(bar: &Bar) -> String {
    let shares = SEGMENTS.iter().filter(|(category, _)| bar.percent.contains_key(category));
    let shares = shares.map(|(category, _)| format!("{category} {:.1}{NBSP}%", share(bar, *category)));
    format!("{}: {}", bar.label, shares.collect::<Vec<_>>().join(", "))
}

/// The change of a share, if both measurements have it.
fn points(before: &Bar, after: &Bar, category: Category) -> Option<f64> {
    let has = |bar: &Bar| bar.percent.contains_key(&category);
    (has(before) && has(after)).then(|| share(after, category) - share(before, category))
}

fn points_text(points: f64) -> String {
    let rounded = (points * 10.0).round() / 10.0;
    let sign = if rounded < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1}", rounded.abs())
}

const BAR: f64 = 34.0;

fn draw(size: Size, bars: &[&Bar], change: Option<[&Bar; 2]>) -> Drawing {
    let widest = bars.iter().map(|bar| text_width(&bar.label)).fold(0.0, f64::max);
    // On a phone, and for long names, the name is above its bar.
    let is_above = size == Size::Narrow || widest > 130.0;
    let left = if is_above { 1.0 } else { widest.max(50.0) + 10.0 };
    let x = Scale::linear((0.0, 100.0), (left, size.width() - 2.0));
    let gap = if change.is_some() || is_above { 26.0 } else { 10.0 };
    let mut body = Markup::default();
    let mut top = if is_above { 18.0 } else { 2.0 };
    for (index, bar) in bars.iter().enumerate() {
        match is_above {
            true => body.push(label(0.0, top - 6.0, Anchor::Start, &bar.label).attr("class", "plain")),
            false => body.push(label(left - 8.0, top + 21.0, Anchor::End, &bar.label).attr("class", "plain")),
        }
        body.push(segments(bar, &x, top));
        if let (0, Some([before, after])) = (index, change) {
            body.push(links(before, after, &x, (top + BAR, top + BAR + gap), is_above));
        }
        top += BAR + gap;
    }
    let mut bottom = top - gap + 6.0;
    if let Some([before, after]) = change {
        body.push(changes(before, after, &x, bottom + 10.0));
        bottom += 18.0;
        if !is_above {
            body.push(label(left - 8.0, bottom - 8.0, Anchor::End, "change"));
        }
    }
    let axis = Pane { left, right: size.width() - 2.0, top: bottom, bottom: bottom + 2.0 };
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let anchor = match percent {
            0.0 => Anchor::Start,
            100.0 => Anchor::End,
            _ => Anchor::Middle,
        };
        body.push(line((x.at(percent), axis.top), (x.at(percent), axis.bottom + 2.0), "axis"));
        body.push(label(x.at(percent), axis.bottom + 16.0, anchor, &format!("{percent}{NBSP}%")));
    }
    body.push(axis.floor());
    Drawing { height: axis.bottom + 22.0, body }
}

/// Begin and end of each segment in percent.
fn spans(bar: &Bar) -> impl Iterator<Item = (Category, &'static str, f64, f64)> + '_ {
    let mut end = 0.0;
    SEGMENTS.into_iter().map(move |(category, class)| {
        let begin = end;
        end += share(bar, category);
        (category, class, begin, end)
    })
}

fn segments(bar: &Bar, x: &Scale, top: f64) -> Markup {
    let mut out = Markup::default();
    for (category, class, begin, end) in spans(bar).filter(|(.., begin, end)| end > begin) {
        let (from, to) = (x.at(begin), x.at(end));
        out.push(rectangle((from + 0.75, top), (to - 0.75, top + BAR), class));
        let percent = format!("{:.1}{NBSP}%", end - begin);
        let texts = [format!("{category} {percent}"), percent, format!("{:.1}", end - begin)];
        if let Some(text) = texts.into_iter().find(|text| text_width(text) + 5.0 <= to - from) {
            let text = label((from + to) / 2.0, top + 21.0, Anchor::Middle, &text);
            out.push(text.attr("class", "plain inside"));
        }
    }
    out
}

/// Lines between the ends of the same segment in both bars. Below a name, they would cross it.
fn links(before: &Bar, after: &Bar, x: &Scale, (top, bottom): (f64, f64), is_above: bool) -> Markup {
    if is_above {
        return Markup::default();
    }
    let ends = spans(before).zip(spans(after)).filter(|((.., begin, end), _)| end > begin);
    ends.map(|((.., from), (.., to))| line((x.at(from), top), (x.at(to), bottom), "link")).collect()
}

/// The change of each segment in points, below its place in the bar after. Of two that have no room, the larger change stays.
fn changes(before: &Bar, after: &Bar, x: &Scale, baseline: f64) -> Markup {
    let mut texts: Vec<(f64, f64, String)> = spans(after)
        .filter_map(|(category, _, begin, end)| {
            let points = points(before, after, category)?;
            Some((points.abs(), x.at((begin + end) / 2.0), points_text(points)))
        })
        .collect();
    texts.sort_by(|left, right| right.0.total_cmp(&left.0));
    let boxes: Vec<(f64, f64)> = texts.iter().map(|(_, x, text)| (*x, text_width(text))).collect();
    let kept = scale::without_overlap(&boxes, 4.0).into_iter().filter_map(|index| texts.get(index));
    kept.map(|(_, x, text)| label(*x, baseline, Anchor::Middle, text).attr("class", "strong")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Category::{BackendBound, BadSpeculation, FrontendBound, Retiring, SmtContention};

    fn bar(label: &str, shares: [f64; 4]) -> Bar {
        let categories = [Retiring, BadSpeculation, FrontendBound, BackendBound];
        Bar { label: label.to_owned(), percent: categories.into_iter().zip(shares).collect() }
    }

    #[test]
    fn segments_are_as_long_as_their_shares() {
        let svg = plot("s", "t", &[bar("all", [25.0, 10.0, 50.0, 15.0])], false).unwrap().into_string();
        // From 60 to 878: 8.18 units for each percent.
        assert!(
            svg.contains("class=\"slot retiring\" x=\"60.8\" y=\"2\" width=\"203\" height=\"34\""),
            "{svg}"
        );
        assert!(svg.contains("class=\"slot frontend\" x=\"347\" y=\"2\" width=\"407.5\""), "{svg}");
        assert!(svg.contains(">frontend bound 50.0\u{a0}%</text>") && !svg.contains("change"), "{svg}");
        assert!(svg.contains("all: retiring 25.0\u{a0}%, bad speculation 10.0\u{a0}%"), "{svg}");
    }

    #[test]
    fn two_sides_have_their_change_in_points() {
        let sides = || [bar("before", [30.9, 10.3, 51.0, 7.8]), bar("after", [36.6, 9.5, 37.9, 16.0])];
        let svg = plot("s", "t", &sides(), true).unwrap().into_string();
        for text in ["+5.7", "−0.8", "−13.1", "+8.2"] {
            assert!(svg.contains(&format!(">{text}</text>")), "{text}: {svg}");
        }
        assert!(svg.contains("Change in points: retiring +5.7, bad speculation −0.8"), "{svg}");
        assert_eq!(svg.matches("class=\"link\"").count(), 4);
        assert!(!plot("s", "t", &sides(), false).unwrap().into_string().contains("+5.7"));
    }

    #[test]
    fn the_fifth_category_of_amd_is_a_segment_too_and_a_missing_one_is_none() {
        let mut amd = bar("all", [25.0, 10.0, 40.0, 15.0]);
        amd.percent.insert(SmtContention, 10.0);
        amd.percent.remove(&BadSpeculation);
        let svg = plot("s", "t", &[amd], false).unwrap().into_string();
        assert_eq!(svg.matches("class=\"slot contention\"").count(), 2);
        assert_eq!(svg.matches("class=\"slot bad-speculation\"").count(), 0);
    }

    #[test]
    fn no_share_is_no_plot() {
        assert_eq!(plot("s", "t", &[], true), None);
        assert_eq!(plot("s", "t", &[bar("all", [f64::NAN; 4])], false), None);
    }
}
