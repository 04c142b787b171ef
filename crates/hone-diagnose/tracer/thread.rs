//! Counts of a thread of the target. Only that thread writes them, and the keeper reads at the same time. So shared data is atomic. Each
//! value has one writer, so a load and a store suffice, which cost no more than an addition.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fs;
use std::mem;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cache::{DataCaches, Hierarchy, L1I_32K, LINE_BITS, MODELS};
use crate::code::Block;
use crate::settings::settings;
use crate::transitions::Transitions;

/// qemu numbers threads from 0 and reuses the number of an ended thread.
const MOST_THREADS: usize = 1 << 16;
/// Entries of all windows together: 64 MB. At this limit every second window is dropped, and from then on half as many are recorded, so
/// that the kept windows cover the whole run.
const MOST_WINDOWED: usize = 16 << 20;
/// Number of kept names of threads with the same number.
const MOST_NAMES: usize = 4;
/// No block.
const NONE: u32 = u32::MAX;

static THREADS: [AtomicPtr<Thread>; MOST_THREADS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_THREADS];
/// Blocks of threads that exceed the limit.
pub(crate) static UNSEEN: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    fn gettid() -> c_int;
}

/// A finished window.
#[derive(Default)]
pub(crate) struct Window {
    /// Number of windows finished before it, kept or not.
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
    /// Number of finished windows.
    pub(crate) finished: u64,
}

static WINDOWS: Mutex<Windows> = Mutex::new(Windows::none());
/// Factor on the requested distance between windows.
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

pub(crate) struct Thread {
    index: u32,
    /// System id of the thread with this number now; 0 is none.
    system: AtomicU32,
    names: Mutex<Vec<String>>,
    transitions: Transitions,
    /// Fetched lines.
    pub(crate) fetched: AtomicU64,
    pub(crate) misses: [AtomicU64; MODELS.len()],
    own: UnsafeCell<Own>,
}

// SAFETY: only the thread with this number accesses `own`; everything else is atomic or behind a lock.
unsafe impl Sync for Thread {}

/// Data that only this thread accesses.
struct Own {
    previous: u32,
    line: u64,
    caches: Hierarchy,
    data: Option<Box<DataCaches>>,
    /// Instructions until a window begins, or ends.
    until: u64,
    recording: Option<Window>,
}

/// A block runs.
///
/// # Safety
/// Only the thread with this number may call it.
#[inline]
pub(crate) unsafe fn runs<const CACHES: bool, const WINDOWS: bool>(index: u32, block: &Block) {
    let Some(thread) = of(index) else {
        UNSEEN.fetch_add(1, Relaxed);
        return;
    };
    // SAFETY: required of the caller; the borrow ends with this call.
    let own = unsafe { &mut *thread.own.get() };
    let previous = mem::replace(&mut own.previous, block.id);
    if previous == NONE {
        // SAFETY: the call only reads.
        thread.system.store(unsafe { gettid() } as u32, Relaxed);
    } else {
        // SAFETY: required of the caller.
        unsafe { thread.transitions.count(previous, block.id) };
    }
    if CACHES {
        thread.fetches(own, block);
    }
    if WINDOWS {
        own.records(thread.index, block);
    }
}

/// An instruction of the last block loads or stores some bytes.
///
/// # Safety
/// Only the thread with this number may call it.
#[inline]
pub(crate) unsafe fn accesses(index: u32, address: u64, bytes: u64) {
    let Some(thread) = of(index) else { return };
    // SAFETY: required of the caller; the borrow ends with this call.
    let own = unsafe { &mut *thread.own.get() };
    let Some(data) = &mut own.data else { return };
    for line in address >> LINE_BITS..=address.saturating_add(bytes - 1) >> LINE_BITS {
        data.access(line << LINE_BITS, |model| add(&thread.misses[model], 1));
    }
}

/// The thread ends.
///
/// # Safety
/// Only the thread with this number may call it.
pub(crate) unsafe fn ended(index: u32) {
    let Some(thread) = of(index) else { return };
    thread.learn_name();
    thread.system.store(0, Relaxed);
    // SAFETY: required of the caller.
    let own = unsafe { &mut *thread.own.get() };
    own.previous = NONE;
    if let Some(window) = own.recording.take().filter(|window| window.warm_up > 0) {
        windows().keep(window);
    }
}

#[inline(always)]
fn of(index: u32) -> Option<&'static Thread> {
    let place = THREADS.get(index as usize)?;
    // SAFETY: made below and never freed.
    match unsafe { place.load(Relaxed).as_ref() } {
        Some(thread) => Some(thread),
        None => Some(begins(index, place)),
    }
}

#[cold]
fn begins(index: u32, place: &AtomicPtr<Thread>) -> &'static Thread {
    let made: &'static Thread = Box::leak(Box::new(Thread::new(index)));
    place.store(ptr::from_ref(made).cast_mut(), Release);
    made
}

/// All that there are.
pub(crate) fn all() -> impl Iterator<Item = (u32, &'static Thread)> {
    THREADS.iter().enumerate().filter_map(|(index, place)| {
        // SAFETY: never freed.
        unsafe { place.load(Acquire).as_ref() }.map(|thread| (index as u32, thread))
    })
}

#[inline]
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(more), Relaxed);
}

impl Thread {
    fn new(index: u32) -> Self {
        Self {
            index,
            system: AtomicU32::new(0),
            names: Mutex::default(),
            transitions: Transitions::new(),
            fetched: AtomicU64::new(0),
            misses: [const { AtomicU64::new(0) }; MODELS.len()],
            own: UnsafeCell::new(Own {
                previous: NONE,
                line: u64::MAX,
                caches: Hierarchy::new(),
                data: settings().data.then(Box::default),
                until: settings().period,
                recording: None,
            }),
        }
    }

    #[inline]
    fn fetches(&self, own: &mut Own, block: &Block) {
        let last = (block.address + u64::from(block.size) - 1) >> LINE_BITS;
        for line in block.address >> LINE_BITS..=last {
            // The same line again is not an access, since it is still being decoded.
            if mem::replace(&mut own.line, line) == line {
                continue;
            }
            add(&self.fetched, 1);
            let (address, data) = (line << LINE_BITS, &mut own.data);
            own.caches.fetch(address, |model| {
                add(&self.misses[model], 1);
                if let Some(data) = data.as_mut().filter(|_| model == L1I_32K) {
                    data.below(address, |model| add(&self.misses[model], 1));
                }
            });
        }
    }

    /// Its names, one for each thread with this number; a name is set some time after the start.
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

    /// Each transition with its count, for blocks below a number.
    pub(crate) fn transitions(&self, blocks: usize, tell: impl FnMut(u32, u32, u64)) {
        self.transitions.each(blocks, tell);
    }

    /// Resets everything. No other thread of the target may run: it is for the child of a fork.
    pub(crate) fn forget(&self, blocks: usize) {
        self.fetched.store(0, Relaxed);
        self.misses.iter().for_each(|counter| counter.store(0, Relaxed));
        self.transitions.forget(blocks);
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

    /// A window begins, ends its warm-up, or ends.
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
