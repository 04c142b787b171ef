//! A look at something while something else is done.

use std::sync::atomic::{AtomicBool, Ordering};

/// Does the work, with the watch on a thread of its own, which is told when the work is over. What the watch found is an error when it
/// panicked.
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

/// Tells that the work is over, also when it ends in a panic: the watch would wait for ever.
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
