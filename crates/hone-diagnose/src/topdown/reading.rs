//! What a tool printed, as values.

use hone_record::Category;

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

/// What a tool printed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Its values, at least one.
    pub readings: Vec<Reading>,
    /// How many runs they are of that can be compared with each other; 1 where they can't.
    pub runs: usize,
    /// Events that perf could not open, by their names.
    pub unopened: Vec<String>,
    /// What was not understood, for people.
    pub notes: Vec<String>,
}

/// What a reader found.
#[derive(Debug, Default)]
pub(super) struct Printed {
    pub(super) readings: Vec<Reading>,
    /// Lines that have names of top-down metrics, or stand below some, and no value that belongs to one: the number of each and its text.
    pub(super) unread: Vec<(usize, String)>,
}

impl From<Vec<Reading>> for Printed {
    fn from(readings: Vec<Reading>) -> Self {
        Self { readings, unread: Vec::new() }
    }
}
