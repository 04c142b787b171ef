//! Saved windows held against each other, as text.

use hone_format::{exact_percent, ratio};
use hone_record::{SavedComparison, SavedEstimate, SavedFinding};

use crate::table::table;
use crate::{metric_value, wrapped};

/// What they say, and what they can't.
pub fn text(found: &SavedComparison) -> String {
    let head = ["metric", "A", "B", "ratio", "interval and its level", "says"].map(str::to_owned).to_vec();
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(found.estimates.iter().map(row)).collect();
    let mut out = format!(
        "{}\n\n{}\n",
        wrapped(&format!(
            "A: {} ({} windows). B: {} ({} windows). {}",
            found.a.source,
            found.a.windows,
            found.b.source,
            found.b.windows,
            found.no_finding.as_ref().map_or("Welch's intervals over windows, unpaired.".to_owned(), |why| {
                format!("Nothing is said of the ratios: {why}.")
            })
        )),
        table(&rows)
    );
    let mut list = |head: &str, lines: &[String]| {
        if !lines.is_empty() {
            out.push_str(&format!("{head}\n"));
            lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
    };
    list("They differ in:", &found.differences);
    list("Windows of A that do not count:", &found.a.left_out);
    list("Windows of B that do not count:", &found.b.left_out);
    list("What windows measured at other times can't show:", &found.cannot_show);
    out.push_str("For an answer: hone compare A B, with both targets at hand.\n");
    out
}

fn row(estimate: &SavedEstimate) -> Vec<String> {
    let value = |value: f64| metric_value(estimate.metric, value);
    let interval = estimate.interval.map_or("-".to_owned(), |(low, high, confidence)| {
        format!("[{}, {}] {}", ratio(low), ratio(high), exact_percent(confidence))
    });
    vec![
        estimate.metric.label().to_owned(),
        value(estimate.value_a),
        value(estimate.value_b),
        ratio(estimate.ratio),
        interval,
        estimate.finding.map_or("-", SavedFinding::label).to_owned(),
    ]
}
