//! How often each block ran behind each other one, in one thread. That thread writes, the keeper reads meanwhile.
//!
//! Nearly every block has two successors at most. Those are counted beside it, in 16 bytes that are found by its number alone; returns and
//! indirect jumps have more, which go into a [`Table`].

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::table::Table;

/// Blocks with a place of their own: 64 MB of addresses for each thread, of which only what is touched becomes memory.
const PLACES: usize = 4 << 20;

const PROT_READ_WRITE: c_int = 3;
const MAP_PRIVATE_ANONYMOUS_NORESERVE: c_int = 0x4022;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        rights: c_int,
        how: c_int,
        file: c_int,
        offset: c_long,
    ) -> *mut c_void;
}

/// The two blocks that ran first behind one, as their numbers plus 1; 0 is none.
#[derive(Default)]
struct Next {
    to: [AtomicU32; 2],
    /// What is beyond 32 bits is in the table.
    count: [AtomicU32; 2],
}

pub(crate) struct Transitions {
    /// Zeroed pages; empty where there were none to be had.
    next: &'static [Next],
    more: Table,
}

impl Transitions {
    pub(crate) fn new() -> Self {
        let bytes = PLACES * size_of::<Next>();
        // SAFETY: it asks for new pages and names none that are there.
        let pages =
            unsafe { mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0) };
        let next: &'static [Next] = if pages as isize == -1 {
            &[]
        } else {
            // SAFETY: so many zeroed bytes, which are a valid `Next` each, and are never given back.
            unsafe { std::slice::from_raw_parts(pages.cast(), PLACES) }
        };
        Self { next, more: Table::new() }
    }

    /// Counts a transition once more.
    ///
    /// # Safety
    /// One thread alone calls it.
    #[inline]
    pub(crate) unsafe fn count(&self, from: u32, to: u32) {
        if let Some(next) = self.next.get(from as usize) {
            for (known, count) in next.to.iter().zip(&next.count) {
                let seen = known.load(Relaxed);
                if seen == to + 1 {
                    let more = count.load(Relaxed).wrapping_add(1);
                    count.store(more, Relaxed);
                    if more == 0 {
                        self.carry(from, to);
                    }
                    return;
                }
                if seen == 0 {
                    count.store(1, Relaxed);
                    return known.store(to + 1, Release);
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.more.count(from, to, 1) };
    }

    #[cold]
    fn carry(&self, from: u32, to: u32) {
        // SAFETY: only the one thread that counts comes here.
        unsafe { self.more.count(from, to, 1 << 32) };
    }

    /// Each transition, with its count: twice where it has gone beyond 32 bits. Of blocks below a number.
    pub(crate) fn each(&self, blocks: usize, mut tell: impl FnMut(u32, u32, u64)) {
        for (from, next) in self.next.iter().enumerate().take(blocks) {
            for (to, count) in next.to.iter().zip(&next.count) {
                let (to, count) = (to.load(Acquire), count.load(Relaxed));
                if to != 0 && count > 0 {
                    tell(from as u32, to - 1, u64::from(count));
                }
            }
        }
        self.more.each(tell);
    }

    /// All counts are 0. Only where nobody counts.
    pub(crate) fn forget(&self, blocks: usize) {
        let counts = self.next.iter().take(blocks).flat_map(|next| &next.count);
        counts.for_each(|count| count.store(0, Relaxed));
        self.more.forget();
    }
}
