//! `perf stat -j`: one object per line, at least by intention.

use hone_record::Category;
use serde_json::{Deserializer, Map, Value};

use super::category::category;
use super::number::decimal;
use super::pattern::{Pattern, pattern};
use super::pmu::{NO_PMU_NAMED, Pmus, of_event, of_group};
use super::reading::Reading;
use super::unread::Unread;

/// Keys under which perf names the subject of a value.
const SCOPES: [&str; 9] = ["thread", "cgroup", "cpu", "core", "cache", "cluster", "die", "socket", "node"];

/// A key with its value.
static PAIR: Pattern =
    Pattern::new(|| pattern(r#""(?P<key>(?:[^"\\]|\\.)*)"\s*:\s*(?P<value>"(?:[^"\\]|\\.)*"|[^\s",}]+)"#));

/// Reads all objects. One line can hold several, some end with `, }`, and other tools write an array, or each object across several lines.
pub(super) fn read(text: &str) -> Result<Vec<Reading>, Unread> {
    let mut readings = Vec::new();
    let mut pmus = Pmus::default();
    for (line, chunk) in chunks(text) {
        let mended = without_last_commas(&chunk);
        let mut rest = next_object(&mended);
        while rest.starts_with('{') {
            let mut objects = Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
            let Some(object) = objects.next() else { break };
            let lines_before = mended[..mended.len() - rest.len()].matches('\n').count();
            let object = object.map_err(|error| broken(line + lines_before, &error))?;
            let (text, behind) = rest.split_at_checked(objects.byte_offset()).unwrap_or((rest, ""));
            head(&object, &mut pmus);
            match object.get("metric-unit").and_then(Value::as_str) {
                Some(unit) => readings.extend(of_metric(&object, unit).map(|reading| pmus.assign(reading))),
                None => readings.extend(of_columns(&object, text)),
            }
            rest = next_object(behind);
        }
    }
    Ok(readings)
}

fn broken(line: usize, error: &serde_json::Error) -> Unread {
    Unread::Broken { line: line + error.line() - 1, said: error.to_string() }
}

/// The text after an object, or at the start of an array.
fn next_object(text: &str) -> &str {
    text.trim_start_matches(|sign: char| sign.is_whitespace() || sign == ',' || sign == '[')
}

/// Lines of whole objects, with the number of the first line. They extend while an object is open.
fn chunks(text: &str) -> Vec<(usize, String)> {
    let mut chunks: Vec<(usize, String)> = Vec::new();
    let mut open = 0;
    for (index, line) in text.lines().enumerate() {
        let begins = open == 0 && next_object(line).starts_with('{');
        match chunks.last_mut() {
            Some((_, chunk)) if open > 0 => {
                chunk.push('\n');
                chunk.push_str(line);
            }
            _ if begins => chunks.push((index + 1, line.to_owned())),
            _ => continue,
        }
        open = (open + depth(line)).max(0);
    }
    chunks
}

/// Number of objects that a line opens, minus those that it closes.
fn depth(line: &str) -> i32 {
    outside_of_strings(line).map(|(_, sign)| i32::from(sign == '{') - i32::from(sign == '}')).sum()
}

/// The characters of a text outside strings, with their positions.
fn outside_of_strings(text: &str) -> impl Iterator<Item = (usize, char)> {
    let (mut in_string, mut escaped) = (false, false);
    text.char_indices().filter(move |(_, sign)| {
        let was_in_string = in_string;
        in_string ^= *sign == '"' && !escaped;
        escaped = in_string && *sign == '\\' && !escaped;
        !was_in_string
    })
}

/// JSON allows no comma before the end, but older perfs print one.
pub(super) fn without_last_commas(text: &str) -> String {
    let is_last = |at: &(usize, char)| at.1 == '}' && text[..at.0].trim_end().ends_with(',');
    let mut mended = text.to_owned();
    for (end, _) in outside_of_strings(text).filter(is_last) {
        let comma = text[..end].trim_end().len() - 1;
        mended.replace_range(comma..=comma, " ");
    }
    mended
}

/// The core, thread or group of an object, as text and CSV name it.
pub(super) fn scope_in(object: &Map<String, Value>) -> Option<String> {
    let (key, scope) = SCOPES.into_iter().find_map(|key| Some((key, object.get(key)?.as_str()?)))?;
    let is_number = !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_digit());
    Some(if key == "cpu" && is_number { format!("CPU{scope}") } else { scope.to_owned() })
}

/// Whether an object is the first of a counter.
fn has_counter(object: &Map<String, Value>) -> bool {
    ["event", "event-runtime", "pcnt-running"].into_iter().any(|key| object.contains_key(key))
}

/// Stores the PMU that an object names for its value, and for the values that follow.
fn head(object: &Map<String, Value>, pmus: &mut Pmus) {
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    if let Some(group) = text("metricgroup") {
        return pmus.heads(of_group(group));
    }
    match text("event").and_then(of_event) {
        Some(pmu) if text("metric-unit").and_then(category_in).is_some() => pmus.heads(Some(pmu)),
        pmu if has_counter(object) => pmus.passes(pmu),
        _ => {}
    }
}

fn reading(object: &Map<String, Value>, category: Category, percent: Option<f64>) -> Reading {
    let number = |key: &str| object.get(key).and_then(value_of);
    Reading {
        time_s: number("interval"),
        scope: scope_in(object),
        pmu: None,
        category,
        percent,
        running_percent: number("pcnt-running"),
    }
}

fn of_metric(object: &Map<String, Value>, unit: &str) -> Option<Reading> {
    Some(reading(object, category_in(unit)?, object.get("metric-value").and_then(value_of)))
}

/// `--metric-only`: the key is the unit with the name. Machines with two kinds of cores have each key twice, and a map would keep only one.
fn of_columns(object: &Map<String, Value>, text: &str) -> Vec<Reading> {
    let mut readings: Vec<Reading> = Vec::new();
    for pair in PAIR.captures_iter(text).filter(|pair| object.contains_key(&pair["key"])) {
        let Some(category) = category_in(&pair["key"]) else { continue };
        let value: Option<Value> = serde_json::from_str(&pair["value"]).ok();
        let is_repeated = readings.iter().any(|reading| reading.category == category);
        readings.push(Reading {
            pmu: is_repeated.then(|| NO_PMU_NAMED.to_owned()),
            ..reading(object, category, value.as_ref().and_then(value_of))
        });
    }
    readings
}

/// The name is the last word after the unit, or the last two: `%  tma_retiring`, `percent of slots  retiring`, `bad speculation`.
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
