//! Runs a watch next to some work.

use std::sync::atomic::{AtomicBool, Ordering};

/// Runs the work, and the watch on its own thread. A flag signals the end of the work to the watch. The watch's result is an error if
/// it panicked.
pub(super) fn beside<W: Send, T>(
    watch: impl FnOnce(&AtomicBool) -> W + Send,
    work: impl FnOnce() -> T,
) -> (T, std::thread::Result<W>) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&over));
        let done = {
            let _at_its_end = Over(&over);
            work()
        };
        (done, watch.join())
    })
}

/// Signals the end of the work, also after a panic. Otherwise the watch would wait forever.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watch_ends_with_the_work_also_when_that_panics() {
        let until_over = |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            7
        };
        let (done, seen) = beside(until_over, || 1);
        assert_eq!((done, seen.unwrap()), (1, 7));
        std::panic::catch_unwind(|| beside(until_over, || panic!("the work"))).unwrap_err();
    }
}
