//! A look that a thread of its own repeats until somebody wants to know what was seen.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A look takes at most one part in so many of the time: one that is dear is repeated more rarely.
const AT_MOST_ONE_IN: u32 = 50;

/// Repeats a look at something; `T` is what the looks have found so far.
#[derive(Debug)]
pub struct Repeated<T> {
    /// Ends the thread when it is dropped.
    stop: Sender<()>,
    found: JoinHandle<T>,
}

impl<T: Send + 'static> Repeated<T> {
    /// Begins to look, and looks once more each time that `every` has passed. The thread has this name. `None` where none can be had.
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

    /// Looks a last time, and hands over what was found; `None` where a look panicked.
    pub fn stop(self) -> Option<T> {
        drop(self.stop);
        self.found.join().ok()
    }
}
