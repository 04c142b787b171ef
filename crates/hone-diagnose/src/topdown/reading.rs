//! A tool's output, as values.

use hone_record::Category;

/// One printed value.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Time in seconds since the start, if perf printed intervals.
    pub time_s: Option<f64>,
    /// Its core, CPU or thread, as perf names it; `None` is everything that was measured.
    pub scope: Option<String>,
    /// The PMU, if a machine has several (`cpu_core`, `cpu_atom`).
    pub pmu: Option<String>,
    /// The category of the slots.
    pub category: Category,
    /// Its share; `None` is `nan`.
    pub percent: Option<f64>,
    /// Share of the time in which it was counted.
    pub running_percent: Option<f64>,
}

/// A tool's output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Its values, at least one.
    pub readings: Vec<Reading>,
    /// Number of comparable runs in it; 1 if the runs are not comparable.
    pub runs: usize,
    /// Events that perf could not open, by their names.
    pub unopened: Vec<String>,
    /// Parts that were not understood, for people.
    pub notes: Vec<String>,
}

/// Result of a reader.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) readings: Vec<Reading>,
    /// Lines with, or below, names of top-down metrics but without a matching value: the number of each and its text.
    pub(super) unread: Vec<(usize, String)>,
}

impl From<Vec<Reading>> for Printed {
    fn from(readings: Vec<Reading>) -> Self {
        Self { readings, unread: Vec::new() }
    }
}
