//! `perf stat` for people: values after a `#`, or below a line of names.

use hone_record::Category;

use super::category::category;
use super::columns::{Column, Word, columns, line_up, line_words};
use super::number::decimal;
use super::pattern::{Pattern, pattern};
use super::pmu::{NO_PMU_NAMED, Pmus, is_group, of_event, of_group};
use super::reading::{Printed, Reading};

/// `68.7 %  tma_backend_bound`, `32.9% frontend bound`, `0.0 percent of slots  retiring  ( +-  0.07% )  (7.71%)`; digits in any locale.
static VALUE: Pattern = Pattern::new(|| {
    let blanks = "[ \u{a0}\u{202f}]*";
    pattern(&format!(
        r"^\s*(?P<value>-?(?:nan|[0-9][0-9.,]*)){blanks}(?P<unit>%\w*|percent of \w+)?{blanks}(?P<name>[A-Za-z_]\w*(?: [A-Za-z]\w*)?)\s*(?P<rest>.*)$"
    ))
});

/// `(63.36%)`, which is not `( +-  1.11% )`.
static RUNNING: Pattern = Pattern::new(|| pattern(r"\(([0-9.,]+)\s*%\)"));

/// Text before each metric of a line.
static SEPARATOR: Pattern = Pattern::new(|| pattern(r"(?:^|\s)#\s"));

pub(super) fn read(text: &str) -> Printed {
    let mut printed = Printed::default();
    let mut state = State::default();
    for (index, line) in text.lines().enumerate() {
        state.line((index + 1, line), &mut printed);
    }
    state.close(&mut printed);
    printed
}

#[derive(Default)]
struct State {
    /// Names of columns, in the order of the values below them.
    columns: Vec<Column>,
    /// A line of names without a value below it so far.
    empty: Option<(usize, String)>,
    pmus: Pmus,
}

impl State {
    fn line(&mut self, (number, line): (usize, &str), printed: &mut Printed) {
        let Some(metrics) = Metrics::parse(line).or_else(|| Metrics::alone(line)) else {
            match columns(line) {
                Some(columns) => {
                    self.close(printed);
                    self.columns = columns;
                    self.empty = Some((number, line.trim().to_owned()));
                }
                None => self.row((number, line), printed),
            }
            return;
        };
        let words: Vec<&str> = metrics.left.split_whitespace().collect();
        if let Some(at) = words.iter().position(|word| is_group(word)) {
            self.pmus.last = of_group(&words[at..].join(" "));
        }
        // The lines after an event's belong to its PMU, too.
        if let Some(pmu) = words.iter().find_map(|word| of_event(word)) {
            self.pmus.last = Some(pmu);
        }
        let (time_s, scope, _) = front(&words);
        for metric in metrics.values {
            printed.readings.push(self.pmus.assign(Reading {
                time_s,
                scope: scope.clone(),
                pmu: None,
                category: metric.category,
                percent: metric.percent,
                running_percent: metrics.running_percent,
            }));
        }
    }

    /// A line of values below the names, with or without a time, a scope and its number of CPUs at the front.
    fn row(&mut self, (number, line): (usize, &str), printed: &mut Printed) {
        if self.columns.is_empty() {
            return;
        }
        let all: Vec<Word<'_>> = line_words(line).into_iter().filter(|word| word.text != "%").collect();
        let texts: Vec<&str> = all.iter().map(|word| word.text).collect();
        let (time_s, scope, front) = front(&texts);
        let mut values = &all[front..];
        let is_count = |word: &Word<'_>| word.text.bytes().all(|byte| byte.is_ascii_digit());
        if scope.is_some() && values.first().is_some_and(is_count) {
            values = &values[1..];
        }
        // Sentences around a table contain numbers, too, but a table has no words after its values.
        let are_values = |word: &Word<'_>| is_number(word.text) || word.text.starts_with('<');
        if values.is_empty() || !values.iter().all(are_values) {
            return;
        }
        let Some(found) = line_up(&self.columns, values, scope.is_some()) else {
            printed.unread.push((number, line.trim().to_owned()));
            return;
        };
        self.empty = None;
        printed.readings.extend(found.into_iter().map(|(column, category, value)| Reading {
            time_s,
            scope: scope.clone(),
            pmu: (column.repeat > 0).then(|| NO_PMU_NAMED.to_owned()),
            category,
            percent: decimal(value.trim_end_matches('%')),
            running_percent: None,
        }));
    }

    /// Names without a value below them are reported.
    fn close(&mut self, printed: &mut Printed) {
        printed.unread.extend(self.empty.take());
    }
}

/// A line with metrics after its `#`.
struct Metrics<'a> {
    /// Text before the first `#`.
    left: &'a str,
    values: Vec<Metric>,
    /// Share of the time in which the line's counter ran.
    running_percent: Option<f64>,
}

/// A top-down value with its name.
struct Metric {
    category: Category,
    percent: Option<f64>,
}

impl<'a> Metrics<'a> {
    /// `None` if the line has no `#`, or begins with one like a line of names. Names of threads may contain a `#`, and some perfs print
    /// several metrics on a line.
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = SEPARATOR.split(line);
        let left = parts.next().unwrap_or_default();
        let parts: Vec<&str> = parts.collect();
        if parts.is_empty() || (left.trim().is_empty() && !parts.iter().any(|part| VALUE.is_match(part))) {
            return None;
        }
        let running_percent = running(parts[parts.len() - 1]);
        let values = parts.into_iter().filter_map(Metric::parse).collect();
        Some(Self { left, values, running_percent })
    }

    /// `6.1 %  frontend_bound  (20.00%)`: pages leave out the events, and with them the `#`.
    fn alone(line: &'a str) -> Option<Self> {
        let found = VALUE.captures(line).filter(|found| found.name("unit").is_some())?;
        let rest = found["rest"].trim();
        let is_whole = rest.is_empty() || (rest.starts_with('(') && rest.ends_with(')'));
        // Lines of CSV have digits, commas and names, too.
        let metric = Metric::parse(line).filter(|metric| is_whole && metric.percent.is_some())?;
        Some(Self { left: "", values: vec![metric], running_percent: running(rest) })
    }
}

/// The share of the time after a value.
fn running(text: &str) -> Option<f64> {
    RUNNING.captures(text).and_then(|running| decimal(&running[1]))
}

impl Metric {
    fn parse(part: &str) -> Option<Self> {
        let found = VALUE.captures(part)?;
        let name = &found["name"];
        let first = name.split(' ').next().unwrap_or_default();
        let category = category(name).or_else(|| category(first))?;
        // Before perf's metrics had units, they were fractions: `0.96 Backend_Bound`.
        let is_fraction = |value: f64| found.name("unit").is_none() && value.abs() <= 1.0;
        let percent = |value| if is_fraction(value) { 100.0 * value } else { value };
        Some(Self { category, percent: decimal(&found["value"]).map(percent) })
    }
}

/// The time of an interval, the name of a core or thread (with possible spaces), and their number of words: everything before the first
/// number.
fn front(words: &[&str]) -> (Option<f64>, Option<String>, usize) {
    let time_s = words.first().filter(|word| is_time(word)).and_then(|word| decimal(word));
    let from = usize::from(time_s.is_some());
    let ends = |word: &&str| is_number(word) || word.starts_with('<') || is_group(word);
    let to = words[from..].iter().position(ends).map_or(words.len(), |at| from + at);
    let scope = words[from..to].join(" ");
    (time_s, Some(scope).filter(|scope| !scope.is_empty()), to)
}

/// A count with its digit groups, a share, or the text for a missing count.
fn is_number(word: &str) -> bool {
    let digits = word.trim_start_matches('-').trim_end_matches('%');
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b',' | b'.');
    digits.starts_with(|sign: char| sign.is_ascii_digit()) && digits.bytes().all(is_digit) || digits == "nan"
}

/// Only seconds have nine decimals.
fn is_time(word: &str) -> bool {
    word.split_once(['.', ',']).is_some_and(|(whole, places)| {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits(whole) && places.len() >= 6 && digits(places)
    })
}
