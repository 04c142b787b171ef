//! benchstat's tables as `benchstat -format csv` writes them. No document describes them; the source is `ToCSV` of
//! golang.org/x/perf/cmd/benchstat/internal/benchtab. Each column of values is a point: benchstat names it after its input file.

use std::collections::BTreeMap;

use super::benchmark::{Benchmark, Fault, circumstances, keep_setting, lower_is_better, measure, number};

/// The row below the benchmarks of a table, which is no benchmark.
const SUMMARY: &str = "geomean";

/// A column of values.
#[derive(Debug, Clone, PartialEq)]
struct Column {
    /// Its place in a row. The interval follows.
    place: usize,
    unit: String,
    label: Option<String>,
}

/// Whether a line is the row above a table that names its units.
pub(super) fn is_head(line: &str) -> bool {
    line.starts_with(',') && line.split(',').any(|cell| cell == "CI")
}

/// The benchmarks of all tables.
///
/// # Errors
/// A row has a value that is no number, or no head above it.
pub(super) fn parse(text: &str) -> Result<Vec<Benchmark>, Fault> {
    let mut settings = BTreeMap::new();
    let (mut labels, mut columns): (Vec<Vec<String>>, Vec<Column>) = (Vec::new(), Vec::new());
    let mut found = Vec::new();
    for (at, line) in (1..).zip(text.lines()) {
        let cells = cells(line).map_err(|problem| Fault::at(at, problem))?;
        match cells.split_first() {
            Some((only, [])) if !only.is_empty() => keep_setting(&mut settings, only),
            // An empty line ends a table.
            None | Some((_, [])) => (labels, columns) = (Vec::new(), Vec::new()),
            Some((first, _)) if first.is_empty() => {
                columns = columns_of(&cells, &labels);
                labels.push(cells);
            }
            Some((first, _)) if first == SUMMARY => {}
            Some(_) if columns.is_empty() => {
                return Err(Fault::at(at, "no row with units is above this row"));
            }
            Some((name, _)) => {
                let of_column = |column| benchmark(name, &cells, column, circumstances(&settings));
                for one in columns.iter().map(of_column) {
                    found.extend(one.map_err(|problem| Fault::at(at, problem))?);
                }
            }
        }
    }
    Ok(found)
}

/// The columns with values: those whose neighbour is their interval.
fn columns_of(units: &[String], labels: &[Vec<String>]) -> Vec<Column> {
    let label = |place: usize| {
        let parts = labels.iter().filter_map(|row| row.get(place)).filter(|part| !part.is_empty());
        let parts: Vec<&str> = parts.map(String::as_str).collect();
        (!parts.is_empty()).then(|| parts.join("/"))
    };
    let pairs = units.iter().zip(units.iter().skip(1)).enumerate();
    let columns = pairs.filter(|(_, (unit, next))| !unit.is_empty() && *next == "CI");
    columns.map(|(place, (unit, _))| Column { place, unit: unit.clone(), label: label(place) }).collect()
}

/// The value in a column, or nothing where the input had none.
fn benchmark(
    name: &str,
    cells: &[String],
    column: &Column,
    circumstances: String,
) -> Result<Option<Benchmark>, String> {
    let Some(text) = cells.get(column.place).filter(|text| !text.is_empty()) else { return Ok(None) };
    let value = number(text).ok_or_else(|| format!("the value `{text}` is no number"))?;
    let percent = cells.get(column.place + 1).and_then(|text| number(text.strip_suffix('%')?));
    let range = percent.map(|percent| percent / 1e2).map(|share| {
        // An interval wider than its value ends at 0.
        [value * (1.0 - share.min(1.0)), value * (1.0 + share)]
    });
    Ok(Some(Benchmark {
        name: name.to_owned(),
        circumstances,
        measure: measure(&column.unit, &column.unit, lower_is_better(&column.unit)),
        value,
        range,
        runs: 0,
        label: column.label.clone(),
    }))
}

/// The cells of a line. A cell in quotes can contain commas, and a doubled quote.
fn cells(line: &str) -> Result<Vec<String>, String> {
    let mut cells = Vec::new();
    let (mut cell, mut is_quoted) = (String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => cell.extend(letters.next()),
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => cells.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    cells.push(cell);
    if is_quoted { Err("a quote is not closed".to_owned()) } else { Ok(cells) }
}
