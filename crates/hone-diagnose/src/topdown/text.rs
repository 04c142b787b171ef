//! `perf stat` for people: values behind a `#`, or below a line of names.

use std::sync::LazyLock;

use hone_record::Category;
use regex::Regex;

use super::Reading;
use super::category::category;
use super::number::decimal;
use super::pmu::{is_group, of_event, of_group};

/// `68.7 %  tma_backend_bound`, `0.0 percent of slots  retiring  ( +-  0.07% )  (7.71%)`; digits in any locale.
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    let blanks = "[ \u{a0}\u{202f}]*";
    Regex::new(&format!(
        r"^\s*(?P<value>-?(?:nan|[0-9][0-9.,]*)){blanks}(?:%\w*|percent of \w+)?{blanks}(?P<name>[A-Za-z_]\w*)\s*(?P<rest>.*)$"
    ))
    .unwrap_or_else(|_| unreachable!("the pattern is a constant"))
});

/// `(63.36%)`, which is not `( +-  1.11% )`.
static RUNNING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\(([0-9.,]+)\s*%\)").unwrap_or_else(|_| unreachable!("the pattern is a constant"))
});

/// Words of a line of names that are no names: units, and what stands above times.
const UNITS: [&str; 8] = ["%", "%slots", "%ops", "percent", "of", "slots", "time", "counts"];

pub(super) fn read(text: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut state = State::default();
    for line in text.lines() {
        state.line(line, &mut readings);
    }
    readings
}

#[derive(Default)]
struct State {
    /// Names of columns, in the order of the values below them; `None` is another metric.
    columns: Vec<Option<Category>>,
    pmu: Option<String>,
}

impl State {
    fn line(&mut self, line: &str, readings: &mut Vec<Reading>) {
        // Threads may have a `#` in their names.
        let Some((left, right)) = line.rsplit_once(" # ") else {
            match columns(line) {
                Some(columns) => self.columns = columns,
                None => readings.extend(row(line, &self.columns)),
            }
            return;
        };
        let words: Vec<&str> = left.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| is_group(word)) {
            self.pmu = of_group(&words[at..].join(" "));
        }
        // The lines behind an event's are of its PMU, too.
        if let Some(pmu) = words.iter().find_map(|word| of_event(word)) {
            self.pmu = Some(pmu);
        }
        let Some(found) = VALUE.captures(right) else { return };
        let Some(category) = category(&found["name"]) else { return };
        let (time_s, scope, _) = front(&words);
        readings.push(Reading {
            time_s,
            scope,
            pmu: self.pmu.clone(),
            category,
            percent: decimal(&found["value"]),
            running_percent: RUNNING.captures(&found["rest"]).and_then(|running| decimal(&running[1])),
        });
    }
}

/// The time of an interval, the name of a core or thread, which may have blanks, and how many words they are: all that stands in front
/// of the first number.
fn front(words: &[&str]) -> (Option<f64>, Option<String>, usize) {
    let time_s = words.first().filter(|word| is_time(word)).and_then(|word| decimal(word));
    let from = usize::from(time_s.is_some());
    let ends = |word: &&str| is_number(word) || word.starts_with('<') || is_group(word);
    let to = words[from..].iter().position(ends).map_or(words.len(), |at| from + at);
    let scope = words[from..to].join(" ");
    (time_s, Some(scope).filter(|scope| !scope.is_empty()), to)
}

/// A count with its groups of digits, a share, or one that could not be had.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches('-').trim_end_matches('%');
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'.');
    digits.starts_with(|sign: char| sign.is_ascii_digit()) && digits.bytes().all(is_digit) || digits == "nan"
}

/// Seconds have nine places, and nothing else has.
fn is_time(word: &str) -> bool {
    word.split_once(['.', ',']).is_some_and(|(whole, places)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && places.len() >= 6 && digits(places)
    })
}

/// A line of names alone: `#  time  %  tma_retiring %  tma_backend_bound`, or perf's old `retiring  bad speculation  frontend bound`.
fn columns(line: &str) -> Option<Vec<Option<Category>>> {
    let columns: Vec<Option<Category>> = match line.trim_start().strip_prefix('#') {
        Some(names) => names.split_whitespace().filter(|word| !UNITS.contains(word)).map(category).collect(),
        None => line.split("  ").filter(|name| !name.trim().is_empty()).map(category).collect(),
    };
    (columns.iter().flatten().count() >= 2).then_some(columns)
}

/// As many values as there are columns, and not one less: the cell of a metric that could not be had is empty.
fn row(line: &str, columns: &[Option<Category>]) -> Vec<Reading> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "%").collect();
    let (time_s, scope, front) = front(&words);
    let mut values = &words[front..];
    // How many CPUs are in it.
    if scope.is_some() && values.first().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit())) {
        values = &values[1..];
    }
    if columns.is_empty() || values.len() != columns.len() {
        return Vec::new();
    }
    let reading = |(category, word): (&Option<Category>, &&str)| {
        Some(Reading {
            time_s,
            scope: scope.clone(),
            pmu: None,
            category: (*category)?,
            percent: decimal(word.trim_end_matches('%')),
            running_percent: None,
        })
    };
    columns.iter().zip(values).filter_map(reading).collect()
}
