//! A bound on what clients make the broker hold in memory: unfinished frames, batches under way, answers not taken.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Counts bytes of all connections against one limit.
#[derive(Debug)]
pub(crate) struct Budget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: AtomicUsize::new(0) }
    }

    /// Replaces what was counted for one connection by what it holds now.
    pub(crate) fn recount(&self, before: usize, now: usize) {
        if now >= before {
            self.used_bytes.fetch_add(now - before, Relaxed);
        } else {
            self.used_bytes.fetch_sub(before - now, Relaxed);
        }
    }

    /// Whether nobody may make the broker hold more.
    pub(crate) fn is_spent(&self) -> bool {
        self.used_bytes.load(Relaxed) >= self.limit_bytes
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes.load(Relaxed)
    }
}
