//! Top-down slots, as perf, toplev and Arm's topdown-tool print them: read here, held against rules by [`judge`].
//!
//! perf's output changes nearly every year, a perf without a PMU ends with 0 and prints other things, and the values contradict
//! themselves where counters take turns. So every shape is read by its own reader, what is not there is `None` and never 0, and
//! nothing is taken for a share before it was held against those rules. Pure.

mod category;
mod csv;
mod json;
mod number;
mod slots;
mod table;
mod text;
mod toplev;

use hone_record::Category;

pub use slots::{Fault, judge};

/// One printed value.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// When, in seconds since the start, where perf printed intervals.
    pub time_s: Option<f64>,
    /// The core, CPU or thread that it is of, in perf's words; `None` is all that was measured.
    pub scope: Option<String>,
    /// The PMU, where a machine has several (`cpu_core`, `cpu_atom`).
    pub pmu: Option<String>,
    /// Which part of the slots.
    pub category: Category,
    /// Its share; `None` is `nan`.
    pub percent: Option<f64>,
    /// For how much of the time it was counted.
    pub running_percent: Option<f64>,
}

/// Output that has no top-down value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unread {
    /// There is no PMU.
    #[error(
        "this was measured without counters: {said}\n  next: measure on a machine whose PMU perf can use (hone doctor tells whether this \
         one has one)"
    )]
    NoCounters {
        /// The words that say so.
        said: String,
    },
    /// perf knows no such metric.
    #[error("perf knows no top-down metric of this CPU: {said}\n  next: take a newer perf")]
    NoMetric {
        /// perf's words.
        said: String,
    },
    /// Broken by the locale, or by something else.
    #[error("line {line} can't be read: {said}\n  next: run perf with LC_ALL=C")]
    Broken {
        /// Counted from 1.
        line: usize,
        /// What is wrong there.
        said: String,
    },
    /// Something else.
    #[error(
        "there is no top-down value in it\n  next: perf stat --topdown, perf stat -M TopdownL1 (Intel, Arm) or -M PipelineL1 \
         (AMD), each also with -j or -x';', or toplev"
    )]
    Nothing,
}

/// Reads what any of the known tools printed, in whichever shape: the shape is known by its first lines.
///
/// # Errors
/// [`Unread`], which says why there is no value.
pub fn read(text: &str) -> Result<Vec<Reading>, Unread> {
    let readings = match Shape::of(text) {
        Shape::Json => json::read(text)?,
        Shape::Csv(separator) => csv::read(text, separator)?,
        Shape::Toplev => toplev::read(text),
        Shape::ToplevCsv(separator) => toplev::read_csv(text, separator),
        Shape::Table => table::read(text),
        Shape::Text => text::read(text),
    };
    if readings.is_empty() { Err(why_nothing(text)) } else { Ok(readings) }
}

enum Shape {
    Json,
    Csv(char),
    Toplev,
    ToplevCsv(char),
    Table,
    Text,
}

impl Shape {
    fn of(text: &str) -> Self {
        let has = |what: &dyn Fn(&str) -> bool| text.lines().map(str::trim).any(what);
        if has(&|line| line.starts_with('{')) {
            return Self::Json;
        }
        if let Some(separator) = [',', ';'].into_iter().find(|separator| {
            has(&|line| {
                line.contains(&format!("Area{separator}Value"))
                    || line.contains(&format!("Area{separator} Value"))
            })
        }) {
            return Self::ToplevCsv(separator);
        }
        if has(&|line| line.contains('│')) {
            return Self::Table;
        }
        if has(&toplev::is_line) {
            return Self::Toplev;
        }
        if has(&|line| line.contains('#')) {
            return Self::Text;
        }
        let separates = |separator: &char| has(&|line| line.matches(*separator).count() >= 5);
        [';', ',', '\t'].into_iter().find(separates).map_or(Self::Text, Self::Csv)
    }
}

/// What perf says in place of values.
fn why_nothing(text: &str) -> Unread {
    let line = |words: &[&str]| {
        text.lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim().to_owned())
    };
    if let Some(said) = line(&["Cannot find metric", "cannot find metric", "Cannot resolve"]) {
        return Unread::NoMetric { said };
    }
    let without = [
        "<not supported>",
        "System does not support topdown",
        "requires system-wide mode",
        "didn't export Perfmon",
        "Nothing measured",
        "PMU Hardware or event type doesn't support",
    ];
    if let Some(said) = line(&without) {
        return Unread::NoCounters { said };
    }
    // What `--metric-only -j` prints where there is nothing.
    if text.contains("{\"metric-value\" : \"\"}") {
        return Unread::NoCounters { said: "perf printed empty values".to_owned() };
    }
    Unread::Nothing
}
