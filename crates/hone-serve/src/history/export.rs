//! The newest point of each line in the formats of other tools.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use hone_experiment::ending::Usage;
use hone_record::{ChangePoint, HistoryPoint, MetricLine};
use serde_json::{Value, json};

/// Bencher Metric Format: an object of benchmarks, each with its measures (<https://bencher.dev/docs/reference/bencher-metric-format>). A
/// measure has the name of the metric. Bencher keeps its unit with the measure, not in this file.
pub fn bencher(lines: &[MetricLine]) -> Value {
    let mut benchmarks: BTreeMap<String, BTreeMap<&str, Value>> = BTreeMap::new();
    for (name, line, newest) in newest(lines) {
        let mut metric = json!({"value": newest.value});
        if let Some([low, high]) = newest.range {
            metric["lower_value"] = json!(low);
            metric["upper_value"] = json!(high);
        }
        benchmarks.entry(name).or_default().insert(&line.measure.name, metric);
    }
    json!(benchmarks)
}

/// The array that benchmark-action/github-action-benchmark reads for its tools `customSmallerIsBetter` and `customBiggerIsBetter`
/// (<https://github.com/benchmark-action/github-action-benchmark>, `BenchmarkResult` in `src/extract.ts`). `range` is a text: `± 1.5`.
///
/// # Errors
/// The lines do not have one known direction, and the action assumes one for a whole file.
pub fn github_action(lines: &[MetricLine]) -> Result<Value> {
    let directions: BTreeSet<Option<bool>> = lines.iter().map(|line| line.measure.lower_is_better).collect();
    if directions.len() != 1 || directions.contains(&None) {
        bail!(Usage(
            "the lines have several directions or unknown ones, and the action reads one direction from a \
             file\n  next: add `--better smaller` for `tool: customSmallerIsBetter`, and write a second file \
             with `--better bigger` for `tool: customBiggerIsBetter`"
                .to_owned()
        ));
    }
    let entry = |(name, line, newest): (String, &MetricLine, &HistoryPoint)| {
        let mut entry = json!({
            "name": format!("{name} {}", line.measure.name),
            "unit": line.measure.unit,
            "value": newest.value,
            "extra": extra(line, newest),
        });
        if let Some([low, high]) = newest.range {
            let half = (newest.value - low).max(high - newest.value);
            entry["range"] = json!(format!("± {half}"));
        }
        entry
    };
    Ok(newest(lines).map(entry).collect())
}

/// Each line with its newest point, and with a name that no other line of this metric has.
fn newest(lines: &[MetricLine]) -> impl Iterator<Item = (String, &MetricLine, &HistoryPoint)> {
    lines.iter().filter_map(|line| Some((line.name_among(lines), line, line.points.last()?)))
}

/// What the action shows when the mouse is over a point.
fn extra(line: &MetricLine, newest: &HistoryPoint) -> String {
    let change = |change: &ChangePoint| {
        let at = line.points.get(change.first).map_or("", |point| &point.label);
        format!("\nnewest change point: {} at {at}", hone_format::change(change.ratio))
    };
    let change = line.change_points.last().map(change).unwrap_or_default();
    format!("point: {}\npoints: {}{change}", newest.label, line.points.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{HistoryOver, Measure, Metric};

    fn line(name: &str, metric: Metric, range: Option<[f64; 2]>) -> MetricLine {
        let point = |label: &str, value| HistoryPoint {
            label: label.to_owned(),
            value,
            range,
            ..HistoryPoint::default()
        };
        let change = ChangePoint { first: 1, before: 100.0, after: 125.0, ratio: 1.25, p_value: 0.005 };
        MetricLine {
            id: format!("{name:0>16}"),
            name: name.to_owned(),
            measure: Measure::of_metric(metric, HistoryOver::Commits),
            points: vec![point("a", 100.0), point("b", 125.0)],
            change_points: vec![change],
            ..MetricLine::default()
        }
    }

    #[test]
    fn bencher_gets_the_newest_point_of_each_measure() {
        let lines = [
            line("broker", Metric::LatencyP50, Some([124.0, 127.0])),
            line("broker", Metric::Throughput, None),
            line("client", Metric::LatencyP50, None),
        ];
        let expected = json!({
            "broker": {
                "latency-p50": {"value": 125.0, "lower_value": 124.0, "upper_value": 127.0},
                "throughput": {"value": 125.0},
            },
            "client": {"latency-p50": {"value": 125.0}},
        });
        assert_eq!(bencher(&lines), expected);
    }

    #[test]
    fn the_action_gets_one_direction() {
        let lines = [line("broker", Metric::LatencyP50, Some([124.0, 127.0]))];
        let expected = json!([{
            "name": "broker latency-p50",
            "unit": "µs",
            "value": 125.0,
            "range": "± 2",
            "extra": "point: b\npoints: 2\nnewest change point: +25.0 % at b",
        }]);
        assert_eq!(github_action(&lines).unwrap(), expected);
        let both = [lines[0].clone(), line("broker", Metric::Throughput, None)];
        assert!(github_action(&both).unwrap_err().to_string().contains("--better smaller"));
        let ratio = MetricLine {
            measure: Measure::of_metric(Metric::LatencyP50, HistoryOver::Entries),
            ..lines[0].clone()
        };
        assert!(github_action(&[ratio]).is_err(), "the direction of a ratio is unknown");
    }

    #[test]
    fn lines_of_one_name_stay_apart() {
        let mut other = line("broker", Metric::LatencyP50, None);
        other.id = "feedfacefeedface".to_owned();
        let found = bencher(&[line("broker", Metric::LatencyP50, None), other]);
        let names: Vec<&String> = found.as_object().unwrap().keys().collect();
        assert_eq!(names, ["broker (00000000)", "broker (feedface)"]);
    }
}
