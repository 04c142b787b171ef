//! `perf stat -j`: an object a line, or so it is meant.

use hone_record::Category;
use serde_json::{Deserializer, Map, Value};

use super::category::category;
use super::number::decimal;
use super::pmu::{of_event, of_group};
use super::{Reading, Unread};

/// Keys under which perf names what a value is of.
const SCOPES: [&str; 9] = ["thread", "cgroup", "cpu", "core", "cache", "cluster", "die", "socket", "node"];

/// Reads all objects. Several can be on a line, and some end with `, }`.
pub(super) fn read(text: &str) -> Result<Vec<Reading>, Unread> {
    let mut readings = Vec::new();
    let mut pmu = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if !line.starts_with('{') {
            continue;
        }
        let mended = without_last_commas(line);
        for object in Deserializer::from_str(&mended).into_iter::<Map<String, Value>>() {
            let object =
                object.map_err(|error| Unread::Broken { line: index + 1, said: error.to_string() })?;
            let text = |key: &str| object.get(key).and_then(Value::as_str);
            if let Some(group) = text("metricgroup") {
                pmu = of_group(group);
            }
            // What follows without an event is of the last one's PMU.
            pmu = text("event").and_then(of_event).or(pmu);
            readings.extend(of_object(&object, pmu.as_deref()));
        }
    }
    Ok(readings)
}

/// JSON has no comma before the end; older perfs print one.
pub(super) fn without_last_commas(line: &str) -> String {
    let mut kept = String::with_capacity(line.len());
    let mut in_string = false;
    let mut escaped = false;
    for sign in line.chars() {
        if sign == '}' && !in_string {
            let end = kept.trim_end().len();
            if kept[..end].ends_with(',') {
                kept.truncate(end - 1);
            }
        }
        in_string ^= sign == '"' && !escaped;
        escaped = in_string && sign == '\\' && !escaped;
        kept.push(sign);
    }
    kept
}

/// The core, thread or group that an object is of.
pub(super) fn scope_in(object: &Map<String, Value>) -> Option<&str> {
    SCOPES.into_iter().find_map(|key| object.get(key).and_then(Value::as_str))
}

fn of_object(object: &Map<String, Value>, pmu: Option<&str>) -> Vec<Reading> {
    let number = |key: &str| object.get(key).and_then(value_of);
    let scope = scope_in(object);
    let reading = |category, percent| Reading {
        time_s: number("interval"),
        scope: scope.map(str::to_owned),
        pmu: pmu.map(str::to_owned),
        category,
        percent,
        running_percent: number("pcnt-running"),
    };
    if let Some(unit) = object.get("metric-unit").and_then(Value::as_str) {
        let named = category_in(unit);
        return named.map(|category| reading(category, number("metric-value"))).into_iter().collect();
    }
    // `--metric-only`: the unit with the name is the key.
    let readings = object.iter().filter_map(|(key, value)| Some(reading(category_in(key)?, value_of(value))));
    readings.collect()
}

/// The name is the last word behind the unit, or the last two: `%  tma_retiring`, `percent of slots  retiring`, `bad speculation`.
pub(super) fn category_in(unit: &str) -> Option<Category> {
    let mut words = unit.split_whitespace().rev();
    let last = words.next()?;
    category(last).or_else(|| category(&format!("{} {last}", words.next()?)))
}

/// A number, or a string that holds one.
fn value_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => decimal(text),
        _ => None,
    }
}
