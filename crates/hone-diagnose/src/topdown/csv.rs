//! `perf stat -x`: values between separators.

use super::json::{category_in, pmu_of};
use super::number::decimal;
use super::{Reading, Unread};

/// Behind what `-I`, `-A` and `--per-thread` put in front: value, unit, event, running time, share of it, metric, its unit. The lines
/// of a group lack the first three, and have them empty behind the share.
const FIELDS: usize = 7;

pub(super) fn read(text: &str, separator: char) -> Result<Vec<Reading>, Unread> {
    let mut readings = Vec::new();
    let mut pmu = None;
    for (index, line) in text.lines().enumerate() {
        let fields: Vec<&str> = line.split(separator).map(str::trim).collect();
        let Some(last) = fields.last().filter(|_| fields.len() >= FIELDS) else { continue };
        if is_group(last) {
            pmu = pmu_of(last);
            continue;
        }
        let Some(category) = category_in(last) else { continue };
        let (front, own) = fields.split_at(front_of(&fields));
        if own.len() > FIELDS + 1 || (separator == ',' && broken_by_commas(own)) {
            return Err(Unread::Broken {
                line: index + 1,
                said: "numbers have the comma that separates fields".to_owned(),
            });
        }
        let without_event = own[0].is_empty() && own[3].is_empty() && own[4].is_empty();
        readings.push(Reading {
            time_s: front.first().filter(|field| is_time(field)).and_then(|field| decimal(field)),
            scope: front
                .iter()
                .find(|field| !field.is_empty() && decimal(field).is_none())
                .map(|&scope| scope.to_owned()),
            pmu: pmu.clone(),
            category,
            percent: decimal(own[own.len() - 2]),
            running_percent: decimal(if without_event { own[2] } else { own[4] }),
        });
    }
    Ok(readings)
}

fn is_group(field: &str) -> bool {
    ["Topdown", "Pipeline"].iter().any(|prefix| field.starts_with(prefix))
}

/// How many fields stand in front: a time, a scope, a number of CPUs.
fn front_of(fields: &[&str]) -> usize {
    let time = usize::from(is_time(fields[0]));
    let spare = fields.len() - FIELDS;
    let is_scope = |field: &&str| !field.is_empty() && decimal(field).is_none() && !field.starts_with('<');
    // A scope is a word; an event's value, in the same place, is a number or empty.
    let scope = usize::from(spare > time && fields.get(time).is_some_and(is_scope));
    let count = usize::from(
        scope == 1 && spare > time + 1 && fields.get(time + 1).is_some_and(|field| is_count(field)),
    );
    (time + scope + count).min(spare)
}

/// Seconds with their nine places.
fn is_time(field: &str) -> bool {
    let places = field.split_once(['.', ',']).map(|(_, places)| places);
    places.is_some_and(|places| places.len() >= 6 && places.bytes().all(|byte| byte.is_ascii_digit()))
        && decimal(field).is_some()
}

fn is_count(field: &str) -> bool {
    !field.is_empty() && field.len() < 6 && field.bytes().all(|byte| byte.is_ascii_digit())
}

/// With a decimal comma there are more fields than there should be, and whole numbers where shares are.
fn broken_by_commas(own: &[&str]) -> bool {
    own.len() > FIELDS && own[own.len() - 2].len() <= 2 && own[own.len() - 3].parse::<u32>().is_ok()
}
