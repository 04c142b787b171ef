//! The boxes of Arm's topdown-tool: `│ Frontend Bound │ 55.73 │ % │`, with `»` and `«` where it points.

use super::Reading;
use super::category::category;
use super::number::decimal;

pub(super) fn read(text: &str) -> Vec<Reading> {
    text.lines().filter_map(of_line).collect()
}

fn of_line(line: &str) -> Option<Reading> {
    let cells: Vec<&str> = line.split('│').map(str::trim).collect();
    let at = cells.iter().position(|cell| category(cell).is_some())?;
    Some(Reading {
        time_s: None,
        scope: None,
        pmu: None,
        category: category(cells[at])?,
        percent: decimal(cells.get(at + 1)?),
        running_percent: None,
    })
}
