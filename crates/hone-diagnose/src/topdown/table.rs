//! Arm's topdown-tool: the boxes of newer versions, `│ Frontend Bound │ 55.73 │ % │`, with `»` and `«` as pointers, and the lines of older
//! ones, `Frontend Bound... 16.48% slots`.

use hone_record::Category;

use super::category::category;
use super::number::decimal;
use super::reading::Reading;

pub(super) fn read(text: &str) -> Vec<Reading> {
    text.lines().filter_map(|line| of_box(line).or_else(|| of_dots(line))).collect()
}

fn of_box(line: &str) -> Option<Reading> {
    let cells: Vec<&str> = line.split('│').map(str::trim).collect();
    let at = cells.iter().position(|cell| category(cell).is_some())?;
    // Lists of metrics have a description at this place.
    let value = cells.get(at + 1).filter(|cell| decimal(cell).is_some() || cell.starts_with("nan"))?;
    Some(reading(category(cells[at])?, value))
}

fn of_dots(line: &str) -> Option<Reading> {
    let (name, value) = line.trim().strip_suffix("slots")?.trim_end().strip_suffix('%')?.rsplit_once(' ')?;
    decimal(value)?;
    Some(reading(category(name.trim_end().trim_end_matches('.'))?, value))
}

fn reading(category: Category, value: &str) -> Reading {
    let percent = decimal(value);
    Reading { time_s: None, scope: None, pmu: None, category, percent, running_percent: None }
}
