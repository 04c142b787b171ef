//! Counts of transitions that have no room in their block: a hash table with open addressing. One thread writes it while another one reads
//! it. It only grows. A table that became too small is not freed, since the other thread may be reading it.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

use crate::thread::add;

/// No transition.
const EMPTY: u64 = u64::MAX;
/// Slots of the first table.
const FIRST: usize = 1 << 10;
/// 2^64 over the golden ratio: its products are spread evenly in their upper bits (Knuth, "The Art of Computer Programming", 6.4).
const SPREADS: u64 = 0x9e37_79b9_7f4a_7c15;

struct Place {
    /// Both blocks.
    of: AtomicU64,
    count: AtomicU64,
}

/// Number of slots, a power of two; at most half of them are used.
struct Places {
    places: Box<[Place]>,
    taken: AtomicU64,
}

pub(crate) struct Table {
    places: AtomicPtr<Places>,
}

impl Places {
    fn new(size: usize) -> Self {
        let place = || Place { of: AtomicU64::new(EMPTY), count: AtomicU64::new(0) };
        Self { places: (0..size).map(|_| place()).collect(), taken: AtomicU64::new(0) }
    }

    /// The slot of a transition, or the slot where it would go.
    #[inline]
    fn find(&self, of: u64) -> &Place {
        let mask = self.places.len() - 1;
        let mut at = (of.wrapping_mul(SPREADS) >> 32) as usize & mask;
        loop {
            let place = &self.places[at];
            if matches!(place.of.load(Relaxed), found if found == of || found == EMPTY) {
                return place;
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&self, of: u64, count: u64) {
        let place = self.find(of);
        place.count.store(count, Relaxed);
        place.of.store(of, Release);
        add(&self.taken, 1);
    }

    fn is_full(&self) -> bool {
        self.taken.load(Relaxed) * 2 >= self.places.len() as u64
    }
}

impl Table {
    pub(crate) const fn new() -> Self {
        Self { places: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Adds to the count of a transition.
    ///
    /// # Safety
    /// Only one thread may call it.
    #[inline]
    pub(crate) unsafe fn count(&self, from: u32, to: u32, times: u64) {
        let of = u64::from(from) << 32 | u64::from(to);
        // SAFETY: never freed.
        if let Some(places) = unsafe { self.places.load(Relaxed).as_ref() } {
            let place = places.find(of);
            if place.of.load(Relaxed) == of {
                return add(&place.count, times);
            }
        }
        self.takes_in(of, times);
    }

    #[cold]
    fn takes_in(&self, of: u64, times: u64) {
        // SAFETY: never freed.
        let places = unsafe { self.places.load(Relaxed).as_ref() };
        if let Some(places) = places.filter(|places| !places.is_full()) {
            return places.insert(of, times);
        }
        let larger = Box::new(Places::new(places.map_or(FIRST, |places| 2 * places.places.len())));
        self.each(|from, to, count| larger.insert(u64::from(from) << 32 | u64::from(to), count));
        larger.insert(of, times);
        self.places.store(Box::into_raw(larger), Release);
    }

    /// Each transition with its count.
    pub(crate) fn each(&self, mut tell: impl FnMut(u32, u32, u64)) {
        // SAFETY: never freed.
        let Some(places) = (unsafe { self.places.load(Acquire).as_ref() }) else { return };
        for place in &places.places {
            let of = place.of.load(Acquire);
            if of != EMPTY {
                tell((of >> 32) as u32, of as u32, place.count.load(Relaxed));
            }
        }
    }

    /// Sets all counts to 0. No other thread may count at this time.
    pub(crate) fn forget(&self) {
        // SAFETY: never freed.
        let Some(places) = (unsafe { self.places.load(Acquire).as_ref() }) else { return };
        places.places.iter().for_each(|place| place.count.store(0, Relaxed));
    }
}
