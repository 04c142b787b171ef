//! pmu-tools' toplev, as text and as CSV.

use hone_record::Category;

use super::Reading;
use super::category::category;
use super::number::decimal;

/// The areas in front of a line of text.
const AREAS: [&str; 9] = ["FE", "BE", "BE/Mem", "BE/Core", "BAD", "RET", "MUX", "Info", "core"];

/// `FE             Frontend_Bound   % Slots                   32.9 <`, with a core in front where there are several.
pub(super) fn is_line(line: &str) -> bool {
    of_line(line).is_some()
}

pub(super) fn read(text: &str) -> Vec<Reading> {
    let share = text.lines().find_map(multiplexed);
    let readings = text.lines().filter_map(of_line);
    readings.map(|reading| Reading { running_percent: share, ..reading }).collect()
}

/// `MUX  %  33.3`: for how much of the time each counter was on.
fn multiplexed(line: &str) -> Option<f64> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "MUX")?;
    words[at + 1..].iter().find_map(|word| decimal(word))
}

fn of_line(line: &str) -> Option<Reading> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let area = words.iter().take(2).position(|word| AREAS.contains(word))?;
    let category = node(words.get(area + 1)?)?;
    let rest = words.get(area + 2..)?;
    // Shares of slots alone: below level 2 they are of clocks.
    let unit = rest.iter().position(|word| *word == "%")?;
    (rest.get(unit + 1) == Some(&"Slots")).then_some(())?;
    Some(Reading {
        time_s: None,
        scope: (area == 1).then(|| words[0].to_owned()),
        pmu: None,
        category,
        percent: decimal(rest.get(unit + 2)?),
        running_percent: None,
    })
}

/// A node of the tree: `Frontend_Bound.Fetch_Latency`, `Frontend_Bound`.
fn node(name: &str) -> Option<Category> {
    category(name.rsplit('.').next()?)
}

/// Columns by their names: versions and `-I` add some.
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
        (field(Some(unit))? == "% Slots").then_some(())?;
        Some(Reading {
            time_s: field(time).and_then(decimal),
            scope: field(scope).filter(|scope| !scope.is_empty()).map(str::to_owned),
            pmu: None,
            category: node(field(Some(area))?)?,
            percent: decimal(field(Some(value))?),
            running_percent: field(share).and_then(decimal),
        })
    };
    lines.filter_map(of_row).collect()
}
