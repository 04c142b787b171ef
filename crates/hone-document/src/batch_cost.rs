//! The cost of work, as text.

use std::fmt::Write as _;

use hone_format::{measured, time_us};
use hone_record::{BatchCost, CostForecast, CostInterval, WorkCost};

use crate::table::table;
use crate::wrapped;

/// Number of topics in the output.
const MOST_TOPICS: usize = 20;

/// The complete text.
pub fn text(cost: &BatchCost) -> String {
    let mut out = format!(
        "{}: {} points over {}, confidence intervals of {:.0} %\n\n",
        cost.source,
        hone_format::count(cost.points),
        time_us(1e6 * cost.span_s),
        100.0 * cost.confidence
    );
    out.push_str(&table(&costs(cost)));
    let _ = writeln!(
        out,
        "\n  The model explains {:.1} % of the variation of the CPU; {} cores of residual spread remain",
        100.0 * cost.explained,
        measured(cost.residual_cores)
    );
    for together in &cost.together {
        let _ = writeln!(
            out,
            "{}",
            wrapped(&format!(
                "  {} moved together over the whole history: only their sum is known ({} cores)",
                listed(&together.units),
                interval(together.cores)
            ))
        );
    }
    out.push_str(&topics(cost));
    if let Some(forecast) = &cost.forecast {
        out.push_str(&told(forecast));
    }
    cost.notes.iter().for_each(|note| {
        let _ = writeln!(out, "{}", wrapped(&format!("note: {note}")));
    });
    out
}

fn costs(cost: &BatchCost) -> Vec<Vec<String>> {
    let mut rows =
        vec![["CPU", "costs", "interval", "per second", "cores on average"].map(str::to_owned).to_vec()];
    rows.extend(cost.costs.iter().map(row));
    rows
}

fn row(cost: &WorkCost) -> Vec<String> {
    let name = match (cost.unit.as_str(), cost.includes.as_slice()) {
        ("base", _) => "independent of the load".to_owned(),
        (unit, []) => format!("a {unit}"),
        (unit, with) => format!("per {unit}, its {} included", listed(with)),
    };
    let Some(us) = cost.us else {
        let blank = || "-".to_owned();
        return vec![name, "unknown".to_owned(), blank(), measured(cost.mean_per_s), blank()];
    };
    let cores = |us: f64| 1e-6 * us * cost.mean_per_s;
    if cost.unit == "base" {
        return vec![name, String::new(), String::new(), String::new(), interval(scaled(us, 1e-6))];
    }
    let small = |us: f64| if us < 0.1 { format!("{} ns", measured(1e3 * us)) } else { time_us(us) };
    vec![
        name,
        small(us.value),
        format!("{} to {}", small(us.low), small(us.high)),
        measured(cost.mean_per_s),
        measured(cores(us.value)),
    ]
}

fn scaled(interval: CostInterval, by: f64) -> CostInterval {
    CostInterval { value: interval.value * by, low: interval.low * by, high: interval.high * by }
}

fn interval(of: CostInterval) -> String {
    format!("{} ({} to {})", measured(of.value), measured(of.low), measured(of.high))
}

fn listed(units: &[String]) -> String {
    let units: Vec<String> = units.iter().map(|unit| plural(unit)).collect();
    match units.as_slice() {
        [rest @ .., last] if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        all => all.join(", "),
    }
}

fn plural(unit: &str) -> String {
    match unit {
        "batch" => "batches".to_owned(),
        "base" => "spent independent of the load".to_owned(),
        unit => format!("{unit}s"),
    }
}

fn topics(cost: &BatchCost) -> String {
    if cost.topics.is_empty() {
        return String::new();
    }
    let mut rows = vec![["topic", "cores", "for the batches themselves"].map(str::to_owned).to_vec()];
    for topic in cost.topics.iter().take(MOST_TOPICS) {
        let batches = topic.cores_of_batches.map_or_else(|| "unknown".to_owned(), measured);
        rows.push(vec![topic.topic.clone(), interval(topic.cores), batches]);
    }
    format!("\n{}", table(&rows))
}

fn told(forecast: &CostForecast) -> String {
    let (now, then) = (interval(forecast.cores_now), interval(forecast.cores_then));
    let mut out = format!("\n  With {}: {then} cores instead of {now}\n", forecast.asked);
    for note in &forecast.notes {
        let _ = writeln!(out, "{}", wrapped(&format!("  {note}")));
    }
    out
}

#[cfg(test)]
mod tests {
    use hone_record::WorkTogether;

    use super::*;

    #[test]
    fn costs_that_are_not_known_alone_say_so() {
        let us = |value: f64| Some(CostInterval { value, low: 0.8 * value, high: 1.2 * value });
        let work = |unit: &str, us, includes: &[&str]| WorkCost {
            unit: unit.to_owned(),
            us,
            includes: includes.iter().map(|unit| (*unit).to_owned()).collect(),
            mean_per_s: 1_000.0,
        };
        let cost = BatchCost {
            source: "redpanda-25.1".to_owned(),
            points: 360,
            span_s: 21_600.0,
            explained: 0.97,
            confidence: 0.95,
            costs: vec![
                work("base", us(150_000.0), &[]),
                work("batch", us(25.0), &["record", "byte"]),
                work("record", None, &[]),
            ],
            together: vec![WorkTogether {
                units: ["batch", "record", "byte"].map(str::to_owned).to_vec(),
                cores: us(0.5).unwrap(),
            }],
            ..BatchCost::default()
        };
        let text = text(&cost);
        for expected in [
            "independent of the load",
            "0.150 (0.120 to 0.180)",
            "per batch, its records and bytes included",
            "25.0 µs",
            "20.0 µs to 30.0 µs",
            "unknown",
            "batches, records and bytes moved together",
        ] {
            assert!(text.contains(expected), "no `{expected}` in:\n{text}");
        }
    }
}
