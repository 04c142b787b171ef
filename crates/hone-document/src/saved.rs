//! Saved windows compared with each other, as text.

use hone_format::{exact_percent, ratio};
use hone_record::{SavedComparison, SavedEstimate, SavedFinding};

use crate::table::table;
use crate::{metric_value, wrapped};

/// The results, and their limits.
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
            found
                .no_finding
                .as_ref()
                .map_or("Welch's confidence intervals over windows, unpaired.".to_owned(), |why| {
                    format!("There is no ratio: {why}.")
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
    list("Differences:", &found.differences);
    list("Excluded windows of A:", &found.a.left_out);
    list("Excluded windows of B:", &found.b.left_out);
    list("Limits of windows measured at different times:", &found.cannot_show);
    out.push_str("For a verdict, measure both targets: hone compare A B\n");
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
