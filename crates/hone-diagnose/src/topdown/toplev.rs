//! pmu-tools' toplev, as text and as CSV.

use hone_record::Category;

use super::category::category;
use super::number::decimal;
use super::pattern::{Pattern, pattern};
use super::reading::Reading;

/// The areas before a node.
const AREAS: [&str; 6] = ["FE", "BE", "BE/Mem", "BE/Core", "BAD", "RET"];

/// `[ 33.0%]`: share of the time in which the counters of a node ran.
static BRACKETS: Pattern = Pattern::new(|| pattern(r"\[\s*([0-9.,]+)\s*%\]"));

/// `FE             Frontend_Bound   % Slots                   32.9 <`, with a time and a core at the front if there are several.
pub(super) fn read(text: &str) -> Vec<Reading> {
    let share = text.lines().filter_map(multiplexed).reduce(f64::min);
    let readings = text.lines().filter_map(of_line);
    readings
        .map(|reading| Reading { running_percent: reading.running_percent.or(share), ..reading })
        .collect()
}

/// `MUX  %  33.3`: share of the time in which each counter ran.
fn multiplexed(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "MUX")?;
    words[at + 1..].iter().find_map(|word| decimal(word))
}

fn of_line(line: &str) -> Option<Reading> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().take(4).position(|word| node(word).is_some())?;
    let category = node(words[at])?;
    let (front, rest) = (&words[..at], &words[at + 1..]);
    // Pages leave out the area, but the unit still identifies the value.
    let (front, has_area) = match front.split_last() {
        Some((area, front)) if AREAS.contains(area) => (front, true),
        _ => (front, rest.contains(&"Slots")),
    };
    (has_area && is_of_slots(rest)).then_some(())?;
    let time_s = front.first().and_then(|word| decimal(word));
    Some(Reading {
        time_s,
        scope: front.get(usize::from(time_s.is_some())).map(|&scope| scope.to_owned()),
        pmu: None,
        category,
        percent: rest.iter().find_map(|word| decimal(word.trim_end_matches('%'))),
        running_percent: BRACKETS.captures(line).and_then(|share| decimal(&share[1])),
    })
}

/// Only shares of slots: below level 2 they are shares of clocks. Older versions put the unit after the value (`31.95 +- 0.00 % Slots`),
/// and the oldest used only `%`.
fn is_of_slots(rest: &[&str]) -> bool {
    let percent = rest.iter().position(|word| word.ends_with('%'));
    percent.is_some_and(|at| {
        rest.get(at + 1).is_none_or(|unit| *unit == "Slots" || !unit.starts_with(char::is_alphabetic))
    })
}

/// A node of the tree: `Frontend_Bound.Fetch_Latency`, `Frontend_Bound`; older toplevs put a colon after it.
fn node(name: &str) -> Option<Category> {
    category(name.trim_end_matches(':').rsplit('.').next()?)
}

/// Columns by name: versions and `-I` add some.
pub(super) fn read_csv(text: &str, separator: char) -> Vec<Reading> {
    let mut lines = text.lines().map(|line| line.split(separator).map(str::trim).collect::<Vec<_>>());
    let Some(head) = lines.find(|fields| fields.contains(&"Area") && fields.contains(&"Value")) else {
        return Vec::new();
    };
    let column = |name: &str| head.iter().position(|field| *field == name);
    let (time, scope, share) = (column("Timestamp"), column("CPUs"), column("Multiplex"));
    let (Some(area), Some(value), Some(unit)) = (column("Area"), column("Value"), column("Unit")) else {
        return Vec::new();
    };
    let of_row = |fields: Vec<&str>| {
        let field = |at: Option<usize>| at.and_then(|at| fields.get(at)).copied();
        // `% Slots <` marks a value below its threshold.
        field(Some(unit))?.starts_with("% Slots").then_some(())?;
        // A sum over all intervals follows them, without a time.
        let time_s = field(time).map(|field| decimal(field).ok_or(())).transpose().ok()?;
        Some(Reading {
            time_s,
            scope: field(scope).filter(|scope| !scope.is_empty()).map(str::to_owned),
            pmu: None,
            category: node(field(Some(area))?)?,
            percent: decimal(field(Some(value))?),
            running_percent: field(share).and_then(decimal),
        })
    };
    lines.filter_map(of_row).collect()
}
