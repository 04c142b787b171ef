//! `perf stat` for people: values behind a `#`, or below a line of names.

use std::sync::LazyLock;

use hone_record::Category;
use regex::Regex;

use super::Reading;
use super::category::category;
use super::json::pmu_of;
use super::number::decimal;

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
    /// Names of columns, in the order of the values below them.
    columns: Vec<Category>,
    pmu: Option<String>,
}

impl State {
    fn line(&mut self, line: &str, readings: &mut Vec<Reading>) {
        if let Some(columns) = columns(line) {
            self.columns = columns;
            return;
        }
        let Some((left, right)) = line.split_once('#') else {
            readings.extend(row(line, &self.columns));
            return;
        };
        if let Some(group) = group(left) {
            self.pmu = pmu_of(group);
        }
        let Some(found) = VALUE.captures(right) else { return };
        let Some(category) = category(&found["name"]) else { return };
        let (time_s, scope) = front(left);
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

/// `TopdownL1 (cpu_core)`, at the left of its first value.
fn group(left: &str) -> Option<&str> {
    let at = ["Topdown", "Pipeline"].iter().find_map(|word| left.find(word))?;
    Some(left[at..].trim())
}

/// The time of an interval and the name of a core or thread, which stand in front of everything.
fn front(left: &str) -> (Option<f64>, Option<String>) {
    let mut words = left.split_whitespace().peekable();
    let time_s = words.next_if(|word| is_time(word)).and_then(decimal);
    // An event's name follows its count, a scope stands before it.
    let scope = words.next().filter(|word| is_scope(word)).map(str::to_owned);
    (time_s, scope)
}

/// Seconds have nine places, and nothing else has.
fn is_time(word: &str) -> bool {
    word.split_once(['.', ',']).is_some_and(|(whole, places)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && places.len() >= 6 && digits(places)
    })
}

/// `S0-D0-C1`, `CPU3`, `redis-server-1234`.
fn is_scope(word: &str) -> bool {
    word.starts_with(|sign: char| sign.is_ascii_alphabetic())
        && word.ends_with(|sign: char| sign.is_ascii_digit())
        && !["Topdown", "Pipeline"].iter().any(|prefix| word.starts_with(prefix))
        && (word.contains('-') || word.starts_with("CPU") || word.starts_with('S'))
}

/// A line of names alone: `#  time  %  tma_retiring %  tma_backend_bound`, or perf's old `retiring  bad speculation  frontend bound`.
fn columns(line: &str) -> Option<Vec<Category>> {
    let line = line.trim_start().trim_start_matches('#');
    if line.contains('#') || RUNNING.is_match(line) {
        return None;
    }
    let names: Vec<&str> = if line.contains('%') {
        line.split('%').skip(1).collect()
    } else {
        line.split("  ").filter(|name| !name.trim().is_empty()).collect()
    };
    let categories: Vec<Category> = names.iter().filter_map(|name| category(name)).collect();
    (categories.len() >= 2 && categories.len() == names.len()).then_some(categories)
}

/// As many values as there are columns, at the end of the line.
fn row(line: &str, columns: &[Category]) -> Vec<Reading> {
    let words: Vec<&str> = line.split_whitespace().filter(|word| *word != "%").collect();
    if columns.is_empty() || words.len() < columns.len() {
        return Vec::new();
    }
    let (front_words, values) = words.split_at(words.len() - columns.len());
    let value = |word: &str| decimal(word.trim_end_matches('%'));
    if !values.iter().all(|word| value(word).is_some() || word.starts_with("nan")) {
        return Vec::new();
    }
    let (time_s, scope) = front(&front_words.join(" "));
    let reading = |(&category, word): (&Category, &&str)| Reading {
        time_s,
        scope: scope.clone(),
        pmu: None,
        category,
        percent: value(word),
        running_percent: None,
    };
    columns.iter().zip(values).map(reading).collect()
}
