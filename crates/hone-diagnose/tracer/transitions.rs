//! Number of transitions from each block to each other block, in one thread. That thread writes, and the keeper reads at the same time.
//!
//! Nearly every block has at most two successors. Their counts are in an array, 16 bytes per block, found by the block's number. Returns
//! and indirect jumps have more successors, which go into a [`Table`].

use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::table::Table;

/// Number of blocks in the array: 64 MB of addresses for each thread, of which only touched pages use memory.
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

/// The first two successors of a block, as their numbers plus 1; 0 is none.
#[derive(Default)]
struct Next {
    to: [AtomicU32; 2],
    /// The part beyond 32 bits is in the table.
    count: [AtomicU32; 2],
}

pub(crate) struct Transitions {
    /// Zeroed pages; empty if the system had none.
    next: &'static [Next],
    more: Table,
}

impl Transitions {
    pub(crate) fn new() -> Self {
        let bytes = PLACES * size_of::<Next>();
        // SAFETY: the call requests new pages and names no existing ones.
        let pages =
            unsafe { mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS_NORESERVE, -1, 0) };
        let next: &'static [Next] = if pages as isize == -1 {
            &[]
        } else {
            // SAFETY: this many zeroed bytes, which are a valid `Next` each, and are never freed.
            unsafe { std::slice::from_raw_parts(pages.cast(), PLACES) }
        };
        Self { next, more: Table::new() }
    }

    /// Adds one to the count of a transition.
    ///
    /// # Safety
    /// Only one thread may call it.
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
        // SAFETY: required of the caller.
        unsafe { self.more.count(from, to, 1) };
    }

    #[cold]
    fn carry(&self, from: u32, to: u32) {
        // SAFETY: only the counting thread gets here.
        unsafe { self.more.count(from, to, 1 << 32) };
    }

    /// Each transition with its count, for blocks below a number. A transition beyond 32 bits comes twice.
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

    /// Sets all counts to 0. No other thread may count at this time.
    pub(crate) fn forget(&self, blocks: usize) {
        let counts = self.next.iter().take(blocks).flat_map(|next| &next.count);
        counts.for_each(|count| count.store(0, Relaxed));
        self.more.forget();
    }
}
