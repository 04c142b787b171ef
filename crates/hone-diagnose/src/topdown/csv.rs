//! `perf stat -x`: values between separators.
//!
//! Lines are read from their end (metric, its unit, and before them the share of the time). The front has an optional time, scope and
//! number of CPUs, and names of events may contain the separator.

use hone_record::Category;

use super::json::category_in;
use super::number::decimal;
use super::pmu::{NO_PMU_NAMED, Pmus, is_group, of_event, of_group};
use super::reading::Reading;
use super::unread::Unread;

/// A line has at least: value, unit, event, running time, share of it, metric, its unit.
const FIELDS: usize = 7;

pub(super) fn read(text: &str, separator: char) -> Result<Vec<Reading>, Unread> {
    let mut readings = Vec::new();
    let (mut pmus, mut columns) = (Pmus::default(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
        if let Some(names) = columns_of(&fields) {
            columns = names;
            continue;
        }
        readings.extend(of_columns(&fields, &columns));
        let Some(last) = fields.last().filter(|_| fields.len() >= FIELDS) else { continue };
        if last.split_whitespace().next().is_some_and(is_group) {
            pmus.heads(of_group(last));
            continue;
        }
        let (category, share) = (category_in(last), share_of(&fields[..fields.len() - 2]));
        match fields.iter().find_map(|field| of_event(field)) {
            Some(pmu) if category.is_some() => pmus.heads(Some(pmu)),
            pmu if pmu.is_some() || share.is_some() => pmus.passes(pmu),
            _ => {}
        }
        let Some(category) = category else { continue };
        if separator == ',' && broken_by_commas(&fields) {
            return Err(Unread::Broken {
                line: index + 1,
                said: "numbers have the comma that separates fields".to_owned(),
            });
        }
        readings.push(pmus.assign(Reading {
            time_s: time_of(&fields),
            scope: scope_of(&fields),
            pmu: None,
            category,
            percent: decimal(fields[fields.len() - 2]),
            running_percent: share,
        }));
    }
    Ok(readings)
}

fn time_of(fields: &[&str]) -> Option<f64> {
    fields.first().filter(|field| is_time(field)).and_then(|field| decimal(field))
}

/// A scope is a word at the position of an event's value, a number.
fn scope_of(fields: &[&str]) -> Option<String> {
    let field = fields.get(usize::from(is_time(fields.first()?)))?;
    let is_scope = !field.is_empty() && decimal(field).is_none() && !field.starts_with('<');
    is_scope.then(|| (*field).to_owned())
}

/// The share of the time follows the running time in nanoseconds. Between them and the metric are empty fields, or a variance with its `%`.
fn share_of(front: &[&str]) -> Option<f64> {
    let mut filled = front.iter().rev().filter(|field| !field.is_empty() && !field.ends_with('%'));
    let (share, running) = (filled.next()?, filled.next()?);
    let is_time = running.bytes().all(|byte| byte.is_ascii_digit());
    decimal(share).filter(|share| is_time && (0.0..=100.0).contains(share))
}

/// `--metric-only`: a line of units with names. Nothing follows the last name, but rows may end with more or fewer separators.
fn columns_of(fields: &[&str]) -> Option<Vec<Option<Category>>> {
    let mut columns: Vec<Option<Category>> = fields.iter().map(|field| category_in(field)).collect();
    columns.truncate(fields.iter().rposition(|field| !field.is_empty())? + 1);
    (columns.iter().flatten().count() >= 2).then_some(columns)
}

/// A line of values below them.
fn of_columns(fields: &[&str], columns: &[Option<Category>]) -> Vec<Reading> {
    if columns.is_empty() || !is_row(fields, columns) {
        return Vec::new();
    }
    let reading = |(index, field): (usize, &&str)| {
        let category = columns[index]?;
        // Machines with two kinds of cores have a column for each.
        let is_repeated = columns[..index].contains(&Some(category));
        Some(Reading {
            time_s: time_of(fields),
            scope: scope_of(fields),
            pmu: is_repeated.then(|| NO_PMU_NAMED.to_owned()),
            category,
            percent: decimal(field),
            running_percent: None,
        })
    };
    fields[..columns.len()].iter().enumerate().filter_map(reading).collect()
}

/// Whether a line has a value, or an empty field, below each name, and nothing after them.
fn is_row(fields: &[&str], columns: &[Option<Category>]) -> bool {
    let Some((below, behind)) = fields.split_at_checked(columns.len()) else { return false };
    let mut known = below.iter().zip(columns).filter(|(_, column)| column.is_some()).map(|(field, _)| field);
    let is_value = |field: &str| decimal(field).is_some() || is_none(field);
    behind.iter().all(|field| field.is_empty())
        && known.clone().any(|field| decimal(field).is_some())
        && known.all(|field| is_value(field))
}

/// perf's texts for a missing number.
fn is_none(field: &str) -> bool {
    field.is_empty() || field.starts_with('<') || field == "nan" || field == "-nan"
}

/// Seconds with their nine decimals.
fn is_time(field: &str) -> bool {
    let places = field.split_once(['.', ',']).map(|(_, places)| places);
    places.is_some_and(|places| places.len() >= 6 && places.bytes().all(|byte| byte.is_ascii_digit()))
        && decimal(field).is_some()
}

/// With a decimal comma, a metric splits into two whole numbers; without one it has a point.
fn broken_by_commas(fields: &[&str]) -> bool {
    let is_whole = |field: &str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    is_whole(fields[fields.len() - 2]) && is_whole(fields[fields.len() - 3])
}
