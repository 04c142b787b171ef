//! A result of another benchmark tool, and what is wrong with its file.

use std::collections::BTreeMap;

use hone_record::Measure;

/// Settings of Go's benchmark text under which results are compared: those that `go test` prints.
const SETTINGS: [&str; 4] = ["pkg", "goos", "goarch", "cpu"];

/// The result of one benchmark.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Benchmark {
    /// Name of the benchmark, without its unit.
    pub(super) name: String,
    /// The settings that the file states, in words.
    pub(super) circumstances: String,
    /// What the value is, in the words of the tool.
    pub(super) measure: Measure,
    /// The value that the tool prints as its result.
    pub(super) value: f64,
    /// Smallest and largest run, or the confidence interval.
    pub(super) range: Option<[f64; 2]>,
    /// Number of runs; 0 if the file does not state it.
    pub(super) runs: usize,
    /// Label of the point, if the file has one.
    pub(super) label: Option<String>,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fault {
    /// Line of the file, from 1.
    pub(super) line: Option<usize>,
    /// The problem, in words.
    pub(super) problem: String,
    /// What the user does next, if the problem has its own way on.
    pub(super) next: Option<&'static str>,
}

impl Fault {
    /// A problem of the whole file.
    pub(super) fn new(problem: impl Into<String>) -> Self {
        Self { line: None, problem: problem.into(), next: None }
    }

    /// A problem at a line, counted from 1.
    pub(super) fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line: Some(line), ..Self::new(problem) }
    }

    /// A problem of JSON. Its words contain line and column.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        Self::new(hone_format::in_plain_words(&error.to_string()))
    }
}

/// A measure in the words of a tool.
pub(super) fn measure(name: &str, unit: &str, lower_is_better: Option<bool>) -> Measure {
    Measure { name: name.to_owned(), label: name.replace('_', " "), unit: unit.to_owned(), lower_is_better }
}

/// Keeps a setting `key: value` of Go's benchmark text. An empty value removes it. Other lines are ignored, as the format says.
pub(super) fn keep_setting(settings: &mut BTreeMap<String, String>, line: &str) {
    let Some((key, value)) = line.split_once(':') else { return };
    let is_key = |letter: char| !letter.is_whitespace() && !letter.is_uppercase();
    if !key.starts_with(char::is_lowercase) || !key.chars().all(is_key) {
        return;
    }
    match value.trim() {
        "" => settings.remove(key),
        value => settings.insert(key.to_owned(), value.to_owned()),
    };
}

/// The settings under which results are compared, in words.
pub(super) fn circumstances(settings: &BTreeMap<String, String>) -> String {
    let known = SETTINGS.iter().filter_map(|key| Some(format!("{key} {}", settings.get(*key)?)));
    known.collect::<Vec<_>>().join(", ")
}

/// Whether a smaller value of this unit is better, as `GetBetter` of golang.org/x/perf/benchfmt has it. `None` for other units.
pub(super) fn lower_is_better(unit: &str) -> Option<bool> {
    match unit {
        "ns/op" | "sec/op" | "B/op" | "allocs/op" => Some(true),
        "MB/s" | "B/s" => Some(false),
        _ => None,
    }
}

/// A finite number.
pub(super) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}
