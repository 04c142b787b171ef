//! Top-down slots, as perf, toplev and Arm's topdown-tool print them: read here, held against rules by [`judge`].
//!
//! perf's output changes nearly every year, a perf without a PMU ends with 0 and prints other things, and the values contradict
//! themselves where counters take turns. So every shape is read by its own reader, what is not there is `None` and never 0, and
//! nothing is taken for a share before it was held against those rules. Pure.

mod category;
pub mod counted;
mod csv;
mod json;
mod number;
mod pmu;
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
    /// perf was not let.
    #[error(
        "perf was not let count: {said}\n  next: set kernel.perf_event_paranoid to 2 or less, or run perf as root (a container needs \
         CAP_PERFMON)"
    )]
    NoRights {
        /// perf's words.
        said: String,
    },
    /// Older CPUs count slots of whole cores only.
    #[error(
        "perf counts slots of whole cores only on this CPU: {said}\n  next: perf stat --topdown -a as root, while little else runs, \
         or perf stat -M TopdownL1"
    )]
    Wide {
        /// perf's words.
        said: String,
    },
    /// The program idled.
    #[error("nothing ran while perf counted: {said}\n  next: load the program meanwhile")]
    NotCounted {
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
         (AMD), each also with -j or -x';', or toplev; where the machine has no slots, perf stat -e \
         instructions,L1-icache-load-misses,iTLB-load-misses"
    )]
    Nothing,
}

/// A reader of one shape.
type Reader = fn(&str) -> Result<Vec<Reading>, Unread>;

/// Each shape's, the ones that no other text can be taken for first.
const READERS: [Reader; 9] = [
    json::read,
    |text| Ok(toplev::read_csv(text, ';')),
    |text| Ok(toplev::read_csv(text, ',')),
    |text| Ok(table::read(text)),
    |text| Ok(toplev::read(text)),
    |text| Ok(text::read(text)),
    |text| csv::read(text, ';'),
    |text| csv::read(text, '\t'),
    |text| csv::read(text, ','),
];

/// Reads what any of the known tools printed, in whichever shape.
///
/// # Errors
/// [`Unread`], which says why there is no value.
pub fn read(text: &str) -> Result<Vec<Reading>, Unread> {
    let mut broken = None;
    for reader in READERS {
        match reader(text) {
            Ok(readings) if !readings.is_empty() => return Ok(readings),
            Ok(_) => {}
            Err(error) => broken = broken.or(Some(error)),
        }
    }
    Err(broken.unwrap_or_else(|| why_nothing(text)))
}

/// Makes a reason of perf's words.
type Reason = fn(String) -> Unread;

/// What perf says in place of values.
fn why_nothing(text: &str) -> Unread {
    let line = |words: &[&str]| {
        text.lines()
            .find(|line| words.iter().any(|word| line.contains(word)))
            .map(|line| line.trim().to_owned())
    };
    let without = [
        "<not supported>",
        "System does not support topdown",
        "didn't export Perfmon",
        "Nothing measured",
        "PMU Hardware or event type doesn't support",
    ];
    let reasons: [(&[&str], Reason); 5] = [
        (&without, |said| Unread::NoCounters { said }),
        (&["perf_event_paranoid", "No permission", "Access to performance monitoring"], |said| {
            Unread::NoRights { said }
        }),
        (&["requires system-wide mode"], |said| Unread::Wide { said }),
        (&["Cannot find metric", "cannot find metric", "Cannot resolve"], |said| Unread::NoMetric { said }),
        (&["<not counted>"], |said| Unread::NotCounted { said }),
    ];
    if let Some(reason) = reasons.iter().find_map(|(words, reason)| line(words).map(reason)) {
        return reason;
    }
    // What `--metric-only -j` prints where there is nothing.
    if text.contains("{\"metric-value\" : \"\"}") {
        return Unread::NoCounters { said: "perf printed empty values".to_owned() };
    }
    Unread::Nothing
}
