//! Compares two sides: windows by the computation of `hone compare A.json B.json`, other records field by field.

use std::collections::BTreeMap;
use std::sync::Arc;

use hone_compare::{SavedRule, compare_saved, why_saved_does_not_count};
use hone_record::{Envelope, FieldDifference, Hdr, Metric, SavedComparison, SideBySide, Window};
use serde_json::Value;

use super::shelf::{Content, Item, is_id, read};

/// Maximum windows of a side. The newest are read. Each takes one or two megabytes of memory.
const MOST_WINDOWS: usize = 100;
/// Maximum bytes of a side.
const MOST_SIDE_BYTES: u64 = 256 << 20;
/// Size limit for a comparison field by field.
const MOST_FIELDS_BYTES: u64 = 16 << 20;
/// Maximum fields in the list.
const MOST_FIELDS: usize = 300;
/// Measurements that differ by less, relative to their size, are the same.
const SAME: f64 = 1e-9;
/// Maximum characters of a field's value.
const MOST_LETTERS: usize = 120;
/// The default of `hone compare`.
const ALPHA: f64 = 0.05;
/// See `ALPHA`.
const EQUIVALENCE: f64 = 0.02;

/// A side as an address names it.
pub(super) enum Side {
    /// One record.
    Record(Arc<Item>),
    /// All windows of one variant of a run.
    Windows { run: String, name: String, items: Vec<Arc<Item>>, left_out: usize },
}

impl Side {
    /// The name for people.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Record(item) => &item.record.path,
            Self::Windows { name, .. } => name,
        }
    }

    /// The address of its own page.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Record(item) => format!("/record/{}", item.record.id),
            Self::Windows { run, .. } => format!("/run/{run}"),
        }
    }

    fn windows(&self) -> Result<Option<Vec<Window>>, String> {
        let items = match self {
            Self::Record(item) if item.record.window.is_none() => return Ok(None),
            Self::Record(item) => std::slice::from_ref(item),
            Self::Windows { items, .. } => items,
        };
        let window = |item: &Arc<Item>| {
            let text = read(&item.path).map_err(|why| format!("{}: {why}", item.record.path))?;
            Envelope::<Window>::parse(&text).map_err(|error| format!("{}: {error}", item.record.path))
        };
        items.iter().map(window).collect::<Result<Vec<Window>, String>>().map(Some)
    }
}

/// Finds a side by its address: an id, or the id of a run with `~VARIANT` appended.
///
/// # Errors
/// The error says what to choose instead.
pub(super) fn side(content: &Content, named: &str) -> Result<Side, String> {
    let (id, variant) = match named.split_once('~') {
        Some((id, variant)) => (id, Some(variant)),
        None => (named, None),
    };
    let unknown =
        || "one side of the comparison is unknown here; choose both from the list of records".to_owned();
    if !is_id(id) {
        return Err(unknown());
    }
    if let (Some(item), None) = (content.records.get(id), variant) {
        return if item.record.is_broken() {
            Err(format!("can't read {}: {}", item.record.path, item.record.said))
        } else {
            Ok(Side::Record(Arc::clone(item)))
        };
    }
    let run = content.runs.get(id).ok_or_else(unknown)?;
    let mut of_variant: BTreeMap<&str, Vec<Arc<Item>>> = BTreeMap::new();
    for item in content.records_of(id) {
        if let Some(window) = &item.record.window {
            of_variant.entry(&window.variant).or_default().push(Arc::clone(item));
        }
    }
    let known = || of_variant.keys().copied().collect::<Vec<_>>().join(", ");
    let variant = match (variant, of_variant.len()) {
        (Some(variant), _) => variant,
        (None, 1) => of_variant.keys().next().copied().unwrap_or_default(),
        (None, _) => {
            return Err(format!("{} has windows of {}: choose one of them on its page", run.name, known()));
        }
    };
    let Some(items) = of_variant.get(variant) else {
        return Err(format!("{} has no windows of {variant}; it has {}", run.name, known()));
    };
    let mut items = items.clone();
    items.sort_by_key(|item| std::cmp::Reverse(item.record.at_unix_ms));
    let all = items.len();
    let mut bytes = 0_u64;
    items.truncate(MOST_WINDOWS);
    items.retain(|item| {
        bytes = bytes.saturating_add(item.record.bytes);
        bytes <= MOST_SIDE_BYTES
    });
    let left_out = all - items.len();
    Ok(Side::Windows { run: id.to_owned(), name: format!("{}, {variant}", run.name), items, left_out })
}

/// The basis of a comparison of two sides.
pub(super) enum Held {
    /// Windows, with the latency of all requests of each side.
    Saved(Box<SavedComparison>, Box<[Hdr; 2]>),
    /// Any other record, with the texts of both sides.
    Fields(Box<SideBySide>, [String; 2]),
}

fn rule(primary: Metric) -> SavedRule {
    SavedRule { primary, alpha: ALPHA, equivalence: EQUIVALENCE }
}

/// Metrics for a comparison of windows.
pub(super) fn metrics() -> Vec<Metric> {
    Metric::ALL.into_iter().filter(|metric| hone_compare::check_saved(rule(*metric)).is_ok()).collect()
}

/// Compares two sides.
///
/// # Errors
/// The error names the obstacle.
pub(super) fn held(a: &Side, b: &Side, primary: Metric) -> Result<Held, String> {
    if let (Some(of_a), Some(of_b)) = (a.windows()?, b.windows()?) {
        let rule = rule(primary);
        hone_compare::check_saved(rule).map_err(|error| error.to_string())?;
        let mut found = compare_saved((a.name(), &of_a), (b.name(), &of_b), rule);
        for (name, side) in [("A", a), ("B", b)] {
            if let Side::Windows { left_out: 1.., .. } = side {
                found.cannot_show.push(format!("older windows: Hone reads only the newest of {name}"));
            }
        }
        let latencies = [&of_a, &of_b].map(|windows| latencies(windows));
        return Ok(Held::Saved(Box::new(found), Box::new(latencies)));
    }
    let (Side::Record(a), Side::Record(b)) = (a, b) else {
        return Err(
            "one side is all windows of a variant, the other is no window: choose two of one kind".to_owned()
        );
    };
    if let Some(large) = [a, b].into_iter().find(|item| item.record.bytes > MOST_FIELDS_BYTES) {
        return Err(format!("{} is too large for a comparison field by field", large.record.path));
    }
    let texts = [read(&a.path)?, read(&b.path)?];
    let [of_a, of_b] = [&texts[0], &texts[1]].map(|text| leaves(text));
    let (differences, not_listed) = differences(&of_a, &of_b, a.record.kind == b.record.kind);
    let found = SideBySide { a: a.record.clone(), b: b.record.clone(), differences, not_listed };
    Ok(Held::Fields(Box::new(found), texts))
}

/// The latencies of the included windows as one histogram.
fn latencies(windows: &[Window]) -> Hdr {
    let mut all = Hdr::new();
    let included = windows.iter().filter(|window| why_saved_does_not_count(window).is_none());
    included.for_each(|window| all.merge(&window.latencies.intended_to_ack));
    all
}

/// Every value of a record's body that is neither a list nor an object, by its path, in the order of the record.
fn leaves(text: &str) -> Vec<(String, Value)> {
    let record: Value = serde_json::from_str(text).unwrap_or_default();
    let mut found = Vec::new();
    collect(record.get("body").unwrap_or(&Value::Null), "", &mut found);
    found
}

fn collect(value: &Value, place: &str, found: &mut Vec<(String, Value)>) {
    let below = |name: &str| if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| collect(value, &below(name), found)),
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(at, value)| collect(value, &below(&at.to_string()), found));
        }
        other => found.push((place.to_owned(), other.clone())),
    }
}

/// A value for people.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), in_short)
}

/// Whether two values are the same. Whole numbers are counts, times or seeds, so they are compared exactly.
fn is_same(a: &Value, b: &Value) -> bool {
    let is_measured = a.is_f64() || b.is_f64();
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) if is_measured => (a - b).abs() <= SAME * a.abs().max(b.abs()),
        _ => a == b,
    }
}

/// Histograms are thousands of characters that say nothing to a reader.
fn in_short(text: &str) -> String {
    let cut = text.floor_char_boundary(MOST_LETTERS);
    match text.get(..cut) {
        Some(cut) if cut.len() < text.len() => format!("{cut} … ({} characters)", text.len()),
        _ => text.to_owned(),
    }
}

/// The fields that differ. Records of one kind may also have fields that the other one lacks; records of different kinds have almost only
/// such fields, which say nothing.
fn differences(
    a: &[(String, Value)],
    b: &[(String, Value)],
    is_one_kind: bool,
) -> (Vec<FieldDifference>, usize) {
    let [of_a, of_b] = [a, b].map(|leaves| {
        leaves.iter().map(|(place, value)| (place.as_str(), value)).collect::<BTreeMap<&str, &Value>>()
    });
    let changed = a.iter().filter_map(|(place, value)| {
        let other = of_b.get(place.as_str()).copied();
        let differs = other.map_or(is_one_kind, |other| !is_same(value, other));
        differs.then(|| FieldDifference { field: place.clone(), a: Some(shown(value)), b: other.map(shown) })
    });
    let added = b
        .iter()
        .filter(|(place, _)| is_one_kind && !of_a.contains_key(place.as_str()))
        .map(|(place, value)| FieldDifference { field: place.clone(), a: None, b: Some(shown(value)) });
    let mut found: Vec<FieldDifference> = changed.chain(added).collect();
    let not_listed = found.len().saturating_sub(MOST_FIELDS);
    found.truncate(MOST_FIELDS);
    (found, not_listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_differ_are_found_by_their_place() {
        let of = |body: &str| leaves(&format!(r#"{{"hone_record": 1, "kind": "x", "body": {body}}}"#));
        let a = of(r#"{"load": {"acks": 1, "name": "x"}, "steps": [1, 2], "only_a": null}"#);
        let b = of(r#"{"load": {"acks": -1, "name": "x"}, "steps": [1, 3, 4]}"#);
        let (found, not_listed) = differences(&a, &b, true);
        let told: Vec<(&str, Option<&str>, Option<&str>)> = found
            .iter()
            .map(|field| (field.field.as_str(), field.a.as_deref(), field.b.as_deref()))
            .collect();
        assert_eq!(
            told,
            [
                ("load.acks", Some("1"), Some("-1")),
                ("only_a", Some("null"), None),
                ("steps.1", Some("2"), Some("3")),
                ("steps.2", None, Some("4")),
            ]
        );
        assert_eq!(not_listed, 0);
        assert_eq!(differences(&a, &a, true), (Vec::new(), 0));
        let (of_both, _) = differences(&a, &b, false);
        let fields: Vec<&str> = of_both.iter().map(|field| field.field.as_str()).collect();
        assert_eq!(fields, ["load.acks", "steps.1"], "of different kinds only the fields of both");
        let many: Vec<(String, Value)> = (0..500).map(|at| (at.to_string(), Value::from("x"))).collect();
        let (listed, not_listed) = differences(&many, &[], true);
        assert_eq!((listed.len(), not_listed), (MOST_FIELDS, 200));
    }

    #[test]
    fn measurements_may_differ_in_their_last_digits_and_seeds_may_not() {
        let is = |a: Value, b: Value| is_same(&a, &b);
        assert!(is(Value::from(0.1 + 0.2), Value::from(0.3)) && is(Value::from(1.0), Value::from(1)));
        assert!(!is(Value::from(0.3), Value::from(0.300_001)));
        assert!(!is(Value::from(1_795_200_420_000_u64), Value::from(1_795_200_420_001_u64)));
        assert!(!is(Value::from("1.0"), Value::from("1")) && !is(Value::Null, Value::from(0)));
    }

    #[test]
    fn a_histogram_is_cut_short() {
        assert_eq!(in_short("short"), "short");
        let long = "ä".repeat(1_000);
        assert!(in_short(&long).ends_with("… (2000 characters)") && in_short(&long).len() < 200);
    }
}
