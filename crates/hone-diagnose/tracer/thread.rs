//! What a thread of the target did. Only that thread writes it, and the keeper reads it meanwhile: what both see is atomic, and is never
//! added to by two, so that a load and a store do, which cost nothing more than an addition.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::fs;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::{Hierarchy, LINE_BITS, MODELS};
use crate::code::Block;
use crate::settings::settings;

/// qemu numbers threads from 0 and gives a number again when its thread has ended.
const MOST_THREADS: usize = 1 << 16;
/// Blocks in a piece of the table of transitions.
const PIECE: usize = 4_096;
/// Pieces: 16 million blocks.
const PIECES: usize = 4_096;
/// Entries of all windows together: 64 MB. When they are reached, every second window goes, and from then on half as many are recorded, so
/// that what is kept is spread over the whole run.
const MOST_WINDOWED: usize = 16 << 20;
/// Names that are kept of threads that had one number after the other.
const MOST_NAMES: usize = 4;
/// No block.
const NONE: u32 = u32::MAX;

static THREADS: [AtomicPtr<Thread>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];
/// Blocks that ran in threads that have no place.
pub(crate) static UNSEEN: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn gettid() -> c_int;
}

/// A finished window.
#[derive(Default)]
pub(crate) struct Window {
    /// Windows that were finished before it, kept or not.
    pub(crate) number: u64,
    pub(crate) thread: u32,
    pub(crate) warm_up: u32,
    pub(crate) blocks: Vec<u32>,
}

/// Windows.
pub(crate) struct Windows {
    pub(crate) all: Vec<Window>,
    /// How many blocks they hold.
    held: usize,
    /// How many were finished.
    pub(crate) finished: u64,
}

static WINDOWS: Mutex<Windows> = Mutex::new(Windows::none());
/// Windows are this many times as far from each other as was asked for.
static SPREAD: AtomicU64 = AtomicU64::new(1);

impl Windows {
    pub(crate) const fn none() -> Self {
        Self { all: Vec::new(), held: 0, finished: 0 }
    }

    fn keep(&mut self, mut window: Window) {
        window.number = self.finished;
        self.finished += 1;
        self.held += window.blocks.len();
        self.all.push(window);
        if self.held > MOST_WINDOWED {
            let mut number = 0;
            self.all.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.held = self.all.iter().map(|window| window.blocks.len()).sum();
            SPREAD.store(SPREAD.load(Relaxed).saturating_mul(2), Relaxed);
        }
    }
}

pub(crate) fn windows() -> MutexGuard<'static, Windows> {
    WINDOWS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The two blocks that ran first behind one; nearly all have no more.
struct Next {
    to: [AtomicU32; 2],
    count: [AtomicU64; 2],
}

pub(crate) struct Thread {
    index: u32,
    /// The system's number of the thread that has this number now; 0 is none.
    system: AtomicU32,
    names: Mutex<Vec<String>>,
    pieces: Box<[AtomicPtr<[Next; PIECE]>]>,
    /// Returns and indirect jumps have more.
    more: Mutex<HashMap<(u32, u32), u64>>,
    pub(crate) instructions: AtomicU64,
    /// Lines that were fetched.
    pub(crate) fetched: AtomicU64,
    pub(crate) misses: [AtomicU64; MODELS.len()],
    own: UnsafeCell<Own>,
}

// SAFETY: `own` is touched by the thread alone that has this number; everything else is atomic or behind a lock.
unsafe impl Sync for Thread {}

/// What nobody else looks at.
struct Own {
    previous: u32,
    line: u64,
    caches: Hierarchy,
    /// Instructions until a window begins, or ends.
    until: u64,
    recording: Option<Window>,
}

/// A block runs.
///
/// # Safety
/// Only on the thread that has this number.
#[inline]
pub(crate) unsafe fn runs<const CACHES: bool, const WINDOWS: bool>(index: u32, block: &Block) {
    let Some(thread) = of(index) else {
        UNSEEN.fetch_add(1, Relaxed);
        return;
    };
    // SAFETY: the caller's promise; the borrow ends with this call.
    let own = unsafe { &mut *thread.own.get() };
    let previous = mem::replace(&mut own.previous, block.id);
    add(&thread.instructions, u64::from(block.instructions));
    if previous == NONE {
        // SAFETY: it only asks.
        thread.system.store(unsafe { gettid() } as u32, Relaxed);
    } else {
        thread.goes(previous, block.id);
    }
    if CACHES {
        thread.fetches(own, block);
    }
    if WINDOWS {
        own.records(thread.index, block);
    }
}

/// The thread ends.
///
/// # Safety
/// Only on the thread that has this number.
pub(crate) unsafe fn ended(index: u32) {
    let Some(thread) = of(index) else { return };
    thread.learn_name();
    thread.system.store(0, Relaxed);
    // SAFETY: the caller's promise.
    let own = unsafe { &mut *thread.own.get() };
    own.previous = NONE;
    if let Some(window) = own.recording.take().filter(|window| window.warm_up > 0) {
        windows().keep(window);
    }
}

fn of(index: u32) -> Option<&'static Thread> {
    let place = THREADS.get(index as usize)?;
    // SAFETY: made below and never freed.
    if let Some(thread) = unsafe { place.load(Relaxed).as_ref() } {
        return Some(thread);
    }
    let made: &'static Thread = Box::leak(Box::new(Thread::new(index)));
    place.store(ptr::from_ref(made).cast_mut(), Release);
    Some(made)
}

/// All that there are.
pub(crate) fn all() -> impl Iterator<Item = (u32, &'static Thread)> {
    THREADS.iter().enumerate().filter_map(|(index, place)| {
        // SAFETY: never freed.
        unsafe { place.load(Acquire).as_ref() }.map(|thread| (index as u32, thread))
    })
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Thread {
    fn new(index: u32) -> Self {
        Self {
            index,
            system: AtomicU32::new(0),
            names: Mutex::default(),
            pieces: (0..PIECES).map(|_| AtomicPtr::new(ptr::null_mut())).collect(),
            more: Mutex::default(),
            instructions: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
            misses: [const { AtomicU64::new(0) }; MODELS.len()],
            own: UnsafeCell::new(Own {
                previous: NONE,
                line: u64::MAX,
                caches: Hierarchy::new(),
                until: settings().period,
                recording: None,
            }),
        }
    }

    #[inline]
    fn goes(&self, from: u32, to: u32) {
        let Some(next) = self.next(from) else { return };
        for (known, count) in next.to.iter().zip(&next.count) {
            match known.load(Relaxed) {
                NONE => {
                    known.store(to, Release);
                    return add(count, 1);
                }
                known if known == to => return add(count, 1),
                _ => {}
            }
        }
        let mut more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        *more.entry((from, to)).or_default() += 1;
    }

    #[inline]
    fn next(&self, from: u32) -> Option<&Next> {
        let piece = self.pieces.get(from as usize / PIECE)?;
        let mut there = piece.load(Relaxed);
        if there.is_null() {
            there = new_piece();
            piece.store(there, Release);
        }
        // SAFETY: made above and never freed.
        Some(unsafe { &(*there)[from as usize % PIECE] })
    }

    #[inline]
    fn fetches(&self, own: &mut Own, block: &Block) {
        let last = (block.address + u64::from(block.size) - 1) >> LINE_BITS;
        for line in block.address >> LINE_BITS..=last {
            // The same line again is no access: it is still being decoded.
            if mem::replace(&mut own.line, line) == line {
                continue;
            }
            add(&self.fetched, 1);
            own.caches.fetch(line << LINE_BITS, |model| add(&self.misses[model], 1));
        }
    }

    /// Its names, one for each thread that had this number; a name is set some time after the start.
    pub(crate) fn names(&self) -> Vec<String> {
        self.learn_name();
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn_name(&self) {
        let system = self.system.load(Relaxed);
        let Ok(name) = fs::read_to_string(format!("/proc/self/task/{system}/comm")) else { return };
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let name = name.trim_end();
        if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }

    /// Each transition that was seen, with its count.
    pub(crate) fn transitions(&self, mut tell: impl FnMut(u32, u32, u64)) {
        for (number, piece) in self.pieces.iter().enumerate() {
            // SAFETY: never freed; all of it is atomic.
            let Some(piece) = (unsafe { piece.load(Acquire).as_ref() }) else { continue };
            for (index, next) in piece.iter().enumerate() {
                for (to, count) in next.to.iter().zip(&next.count) {
                    let (to, count) = (to.load(Acquire), count.load(Relaxed));
                    if to != NONE && count > 0 {
                        tell((number * PIECE + index) as u32, to, count);
                    }
                }
            }
        }
        let more = self.more.lock().unwrap_or_else(PoisonError::into_inner);
        more.iter().for_each(|(&(from, to), &count)| tell(from, to, count));
    }

    /// Everything is forgotten. Only where no other thread of the target runs: in the child of a fork.
    pub(crate) fn forget(&self) {
        self.instructions.store(0, Relaxed);
        self.fetched.store(0, Relaxed);
        self.misses.iter().for_each(|counter| counter.store(0, Relaxed));
        for piece in &self.pieces {
            // SAFETY: as above.
            let Some(piece) = (unsafe { piece.load(Acquire).as_ref() }) else { continue };
            piece.iter().flat_map(|next| &next.count).for_each(|count| count.store(0, Relaxed));
        }
        self.more.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Own {
    #[inline]
    fn records(&mut self, thread: u32, block: &Block) {
        if let Some(window) = &mut self.recording {
            window.blocks.push(block.id);
        }
        self.until = self.until.saturating_sub(u64::from(block.instructions));
        if self.until == 0 {
            self.turns(thread);
        }
    }

    /// A window begins, has its warm-up behind it, or ends.
    #[cold]
    fn turns(&mut self, thread: u32) {
        let settings = settings();
        self.until = settings.window;
        match self.recording.take() {
            None => self.recording = Some(Window { thread, ..Window::default() }),
            Some(window) if window.warm_up == 0 => {
                self.recording = Some(Window { warm_up: window.blocks.len() as u32, ..window });
            }
            Some(window) => {
                windows().keep(window);
                let period = settings.period.saturating_mul(SPREAD.load(Relaxed));
                self.until = period.saturating_sub(2 * settings.window).max(1);
            }
        }
    }
}

fn new_piece() -> *mut [Next; PIECE] {
    let next = || Next { to: [const { AtomicU32::new(NONE) }; 2], count: [const { AtomicU64::new(0) }; 2] };
    let piece: Box<[Next]> = (0..PIECE).map(|_| next()).collect();
    Box::into_raw(piece).cast()
}
