//! Go's benchmark text, as `go test -bench` writes it and benchstat reads it. The format is that of
//! <https://go.dev/design/14313-benchmark-format>, with the `Unit` lines of <https://go.dev/issue/43744>.

use std::collections::{BTreeMap, HashMap};

use hone_record::median;

use super::benchmark::{Benchmark, Fault, circumstances, keep_setting, lower_is_better, measure, number};
use crate::serve::history::smallest_and_largest;

/// What makes two results runs of one benchmark at one point: circumstances, name, unit and label.
type Key = (String, String, String, Option<String>);

/// The values of the benchmarks, in the order of their first results.
#[derive(Debug, Default)]
struct Runs {
    places: HashMap<Key, usize>,
    values: Vec<(Key, Vec<f64>)>,
}

impl Runs {
    fn add(&mut self, key: Key, value: f64) {
        let place = *self.places.entry(key.clone()).or_insert(self.values.len());
        match self.values.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => self.values.push((key, vec![value])),
        }
    }
}

/// Whether a line is the result of a benchmark: its name has no lower-case letter after `Benchmark`, as Go demands of the function.
pub(super) fn is_result(line: &str) -> bool {
    line.strip_prefix("Benchmark").is_some_and(|rest| !rest.starts_with(char::is_lowercase))
}

/// The benchmarks of a file. Several results of one benchmark are one point: their median, as in benchstat.
///
/// # Errors
/// A result has no number where the format wants one.
pub(super) fn parse(text: &str) -> Result<Vec<Benchmark>, Fault> {
    let (mut settings, mut directions) = (BTreeMap::new(), BTreeMap::new());
    let mut runs = Runs::default();
    for (number, line) in (1..).zip(text.lines()) {
        if is_result(line) {
            let (name, values) = result(line).map_err(|problem| Fault::at(number, problem))?;
            let label = settings.get("commit").cloned();
            for (value, unit) in values {
                let key = (circumstances(&settings), name.to_owned(), unit.to_owned(), label.clone());
                runs.add(key, value);
            }
        } else if let Some(unit) = line.strip_prefix("Unit ") {
            directions.extend(direction(unit));
        } else {
            keep_setting(&mut settings, line);
        }
    }
    let benchmark = |((circumstances, name, unit, label), values): (Key, Vec<f64>)| {
        let known = directions.get(&unit).copied();
        Some(Benchmark {
            name,
            circumstances,
            measure: measure(&unit, &unit, known.or_else(|| lower_is_better(&unit))),
            value: median(values.iter().copied())?,
            range: smallest_and_largest(values.iter().copied()),
            runs: values.len(),
            label,
        })
    };
    Ok(runs.values.into_iter().filter_map(benchmark).collect())
}

/// Values with their units.
type Values<'a> = Vec<(f64, &'a str)>;

/// The name without `Benchmark`, and each value with its unit. A name alone is no result: `go test -v` prints it before the benchmark runs.
fn result(line: &str) -> Result<(&str, Values<'_>), String> {
    let mut fields = line.split_whitespace();
    let name = fields.next().unwrap_or_default();
    let name = name.strip_prefix("Benchmark").unwrap_or(name);
    let Some(iterations) = fields.next() else { return Ok((name, Vec::new())) };
    if iterations.parse::<u64>().is_err() {
        return Err(format!("the number of iterations `{iterations}` is no whole number"));
    }
    let mut values = Vec::new();
    while let Some(field) = fields.next() {
        let value = number(field).ok_or_else(|| format!("the value `{field}` is no number"))?;
        let unit = fields.next().ok_or_else(|| format!("the value `{field}` has no unit"))?;
        values.push((value, unit));
    }
    if values.is_empty() {
        Err("no value follows the number of iterations".to_owned())
    } else {
        Ok((name, values))
    }
}

/// Whether smaller values are better, of a line like `Unit ns/op better=lower`.
fn direction(line: &str) -> Option<(String, bool)> {
    let mut fields = line.split_whitespace();
    let unit = fields.next()?.to_owned();
    fields.find_map(|field| match field {
        "better=lower" => Some((unit.clone(), true)),
        "better=higher" => Some((unit.clone(), false)),
        _ => None,
    })
}
