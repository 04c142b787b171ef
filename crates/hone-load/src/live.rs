//! What a load tells while it runs. Whoever listens must not make the generator wait.

use hone_record::SeriesPoint;

use crate::recorder::Recorder;

/// A window at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Live {
    /// Since the window's start.
    pub at_s: f64,
    /// Requests due so far.
    pub due: u64,
    /// Requests acknowledged so far.
    pub acked: u64,
    /// Requests that ended with an error so far.
    pub failed: u64,
    /// Times that a request was sent again so far.
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

/// Hears how far a load is; asked many times a second, by the thread that sends.
pub trait Progress: Send {
    /// `done` runs from 0 to 1 in each phase. Answers `false` to break the load off.
    fn at(&mut self, phase: &'static str, done: f64) -> bool;

    /// The window as it stands.
    fn now(&mut self, _live: &Live) {}

    /// A second of the window is complete.
    fn second(&mut self, _point: &SeriesPoint) {}

    /// Whether the window is to end now, with what was measured.
    fn ends_early(&mut self) -> bool {
        false
    }

    /// Hears of something that went wrong beside the measurement.
    fn note(&mut self, _text: &str) {}
}
