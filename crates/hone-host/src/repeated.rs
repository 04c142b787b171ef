//! A measurement that a separate thread repeats until its result is requested.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A measurement takes at most this fraction of the time: an expensive one is repeated less often.
const AT_MOST_ONE_IN: u32 = 50;

/// Repeats a measurement; `T` is the result so far.
#[derive(Debug)]
pub struct Repeated<T> {
    /// Ends the thread when it is dropped.
    stop: Sender<()>,
    found: JoinHandle<T>,
}

impl<T: Send + 'static> Repeated<T> {
    /// Measures at once, and again each time that `every` has passed. The thread has this name. `None` if no thread can be started.
    pub fn start(
        name: &str,
        every: Duration,
        mut found: T,
        mut look: impl FnMut(&mut T) + Send + 'static,
    ) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let repeat = move || loop {
            let begun = Instant::now();
            look(&mut found);
            let pause = every.max(begun.elapsed() * AT_MOST_ONE_IN);
            if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                look(&mut found);
                return found;
            }
        };
        let found = std::thread::Builder::new().name(name.to_owned()).spawn(repeat).ok()?;
        Some(Self { stop, found })
    }

    /// Measures a last time, and returns the result; `None` if a measurement panicked.
    pub fn stop(self) -> Option<T> {
        drop(self.stop);
        self.found.join().ok()
    }
}
