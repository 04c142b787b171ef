//! A bound on what clients make the broker hold in memory: unfinished frames, batches under way, answers not taken.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Clients before their login may use this fraction of all memory: one part of this number.
const STRANGERS_PART: usize = 8;

/// Counts the memory held for all connections. Memory for clients before their login is counted separately: anyone who
/// can connect can use it, and they must not delay clients that have logged in.
#[derive(Debug)]
pub(crate) struct Memory {
    clients: Budget,
    strangers: Budget,
}

/// What one connection was last counted as holding.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    bytes: usize,
    is_stranger: bool,
}

impl Memory {
    pub(crate) fn new(limit_bytes: usize) -> Self {
        Self { clients: Budget::new(limit_bytes), strangers: Budget::new(limit_bytes / STRANGERS_PART) }
    }

    /// Replaces what was counted for one connection by what it holds now. At its login that moves over.
    pub(crate) fn recount(&self, counted: &mut Counted, bytes: usize, is_stranger: bool) {
        if counted.is_stranger != is_stranger {
            self.forget(std::mem::take(counted));
        }
        self.of(is_stranger).recount(counted.bytes, bytes);
        *counted = Counted { bytes, is_stranger };
    }

    /// A connection is gone.
    pub(crate) fn forget(&self, counted: Counted) {
        self.of(counted.is_stranger).recount(counted.bytes, 0);
    }

    /// Whether clients of this kind have used up their memory.
    pub(crate) fn is_spent(&self, for_strangers: bool) -> bool {
        self.of(for_strangers).is_spent()
    }

    pub(crate) fn used_bytes(&self, by_strangers: bool) -> usize {
        self.of(by_strangers).used_bytes.load(Relaxed)
    }

    fn of(&self, strangers: bool) -> &Budget {
        if strangers { &self.strangers } else { &self.clients }
    }
}

/// Counts bytes of many connections against one limit.
#[derive(Debug)]
struct Budget {
    limit_bytes: usize,
    used_bytes: AtomicUsize,
}

impl Budget {
    fn new(limit_bytes: usize) -> Self {
        Self { limit_bytes, used_bytes: AtomicUsize::new(0) }
    }

    fn recount(&self, before: usize, now: usize) {
        if now >= before {
            self.used_bytes.fetch_add(now - before, Relaxed);
        } else {
            self.used_bytes.fetch_sub(before - now, Relaxed);
        }
    }

    fn is_spent(&self) -> bool {
        self.used_bytes.load(Relaxed) >= self.limit_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_strangers_hold_is_counted_apart_and_moves_over_at_the_login() {
        let memory = Memory::new(800);
        let used = || (memory.used_bytes(true), memory.used_bytes(false));
        let (mut one, mut other) = (Counted::default(), Counted::default());
        memory.recount(&mut one, 60, true);
        memory.recount(&mut other, 40, true);
        assert_eq!((used(), memory.is_spent(true), memory.is_spent(false)), ((100, 0), true, false));
        memory.recount(&mut one, 70, false);
        assert_eq!((used(), memory.is_spent(true)), ((40, 70), false));
        memory.recount(&mut one, 800, false);
        assert_eq!((used(), memory.is_spent(true), memory.is_spent(false)), ((40, 800), false, true));
        memory.forget(one);
        memory.forget(other);
        assert_eq!(used(), (0, 0));
    }
}
