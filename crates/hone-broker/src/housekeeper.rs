//! How the thread that looks after logs is ended.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Ends the thread from outside.
#[derive(Debug, Default)]
pub(crate) struct Housekeeper {
    ended: Mutex<bool>,
    bell: Condvar,
}

impl Housekeeper {
    /// Whether the thread is to end.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; `false` at the end.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, _) = self
            .bell
            .wait_timeout_while(ended, time, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner);
        !*ended
    }

    /// Lets the thread end.
    pub(crate) fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}
