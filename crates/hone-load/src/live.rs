//! Live progress of a load. An observer must not delay the generator.

use hone_record::SeriesPoint;

use crate::recorder::Recorder;

/// A window at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Live {
    /// Time since the window's start.
    pub at_s: f64,
    /// Requests due so far.
    pub due: u64,
    /// Requests acknowledged so far.
    pub acked: u64,
    /// Requests that failed so far.
    pub failed: u64,
    /// Number of repeated sends so far.
    pub retried: u64,
}

impl Live {
    pub(crate) fn from_recorder(recorder: &Recorder, now_ns: u64) -> Self {
        let failed = recorder.ended - recorder.acked;
        let (due, acked, retried) = (recorder.due, recorder.acked, recorder.retried);
        Self { at_s: now_ns as f64 / 1e9, due, acked, failed, retried }
    }

    /// Requests due and not ended.
    pub fn backlog(&self) -> u64 {
        self.due - self.acked - self.failed
    }
}

/// Receives the progress of a load, many times a second, from the sending thread.
pub trait Progress: Send {
    /// `done` runs from 0 to 1 in each phase. Returns `false` to stop the load.
    fn at(&mut self, phase: &'static str, done: f64) -> bool;

    /// The current state of the window.
    fn now(&mut self, _live: &Live) {}

    /// A second of the window is complete.
    fn second(&mut self, _point: &SeriesPoint) {}

    /// Whether the window must end now, with the data measured so far.
    fn ends_early(&mut self) -> bool {
        false
    }

    /// Receives a note about a problem outside the measurement.
    fn note(&mut self, _text: &str) {}
}
