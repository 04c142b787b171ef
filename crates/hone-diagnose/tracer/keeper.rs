//! Writes the data every few seconds, on request, and at the end. Resets the counts on request. Starts again in the child of a fork.
//!
//! It runs on a thread of its own with all signals blocked, since qemu's handlers would take its thread for a thread of the target.

use std::ffi::c_int;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::places;
use crate::settings::settings;
use crate::write;

unsafe extern "C" {
    fn pthread_atfork(
        before: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, old: *mut SignalSet) -> c_int;
    fn sigfillset(set: *mut SignalSet) -> c_int;
}

/// As large as the C library's on every Linux.
#[repr(C, align(8))]
struct SignalSet([u8; 128]);

const SIG_SETMASK: c_int = 2;

/// A lock for every access that a fork must not interrupt. A fork waits for it. qemu lets no other thread of the target run during a fork,
/// so only the keeper could be inside such an access. In the child, its lock would stay locked for ever.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// Counts up to the last reset.
static BASE: Mutex<Option<write::Base>> = Mutex::new(None);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// Largest delay of an order.
const LISTENS: Duration = Duration::from_millis(50);

/// Wait for another thread's work, at a time.
const WAITS: Duration = Duration::from_micros(200);

pub(crate) fn begin() {
    // SAFETY: functions of this file, which live as long as the process.
    unsafe { pthread_atfork(Some(before_fork), Some(done), Some(forked)) };
    watch();
}

extern "C" fn before_fork() {
    while IS_BUSY.swap(true, Acquire) {
        thread::sleep(WAITS);
    }
}

extern "C" fn done() {
    IS_BUSY.store(false, Release);
}

/// Runs a closure that no fork may interrupt.
fn in_turn<T>(work: impl FnOnce() -> T) -> T {
    before_fork();
    let result = work();
    done();
    result
}

/// In the child of a fork there is no other thread, and the counts belong to the parent.
extern "C" fn forked() {
    done();
    let blocks = crate::code::code().blocks.len();
    crate::thread::all().for_each(|(_, thread)| thread.forget(blocks));
    *crate::thread::windows() = crate::thread::Windows::none();
    *BASE.lock().unwrap_or_else(PoisonError::into_inner) = None;
    watch();
}

fn watch() {
    places::begin();
    let mut old = SignalSet([0; 128]);
    let mut all = SignalSet([0; 128]);
    // SAFETY: both sets are as large as the C library's.
    unsafe {
        sigfillset(&mut all);
        pthread_sigmask(SIG_SETMASK, &all, &mut old);
    }
    // Without this thread, the data is written only at the end.
    let _ = thread::Builder::new().stack_size(256 << 10).spawn(watching);
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &old, std::ptr::null_mut()) };
}

fn watching() {
    let every = Duration::from_millis(settings().every_ms);
    // Orders from before the start of this process are done.
    let mut heard = wish().map_or(0, |wish| wish.number);
    in_turn(|| answer(heard));
    let mut written = Instant::now();
    while !HAS_ENDED.load(Relaxed) {
        thread::sleep(LISTENS);
        if let Some(wish) = wish().filter(|wish| wish.number > heard) {
            heard = wish.number;
            in_turn(|| {
                match wish.what {
                    What::Forget => forget(),
                    What::Save => drop(save(false)),
                }
                answer(heard);
            });
        }
        if written.elapsed() >= every {
            in_turn(|| save(false));
            written = Instant::now();
        }
    }
}

fn forget() {
    *BASE.lock().unwrap_or_else(PoisonError::into_inner) = Some(write::Base::now());
}

/// Hone's order in `FOLDER/wish`: a rising number, and a word.
struct Wish {
    number: u64,
    what: What,
}

enum What {
    Forget,
    Save,
}

fn wish() -> Option<Wish> {
    let text = fs::read_to_string(settings().folder.join("wish")).ok()?;
    let (number, what) = text.trim().split_once(' ')?;
    let what = match what {
        "forget" => What::Forget,
        "save" => What::Save,
        _ => return None,
    };
    Some(Wish { number: number.parse().ok()?, what })
}

/// The number of the last completed order.
fn answer(number: u64) {
    if let Some(path) = places::path("answer") {
        let _ = fs::write(path, number.to_string());
    }
}

pub(crate) fn end() {
    HAS_ENDED.store(true, Relaxed);
    in_turn(|| {
        let bytes = save(true);
        // A process that is left out has already written its note.
        if let Some(path) = places::path("answer") {
            let _ = fs::remove_file(path);
            places::note(bytes);
        }
    });
}

/// A reader finds either the old file or the new one, but never a part. Returns its size in bytes.
fn save(is_end: bool) -> u64 {
    let base = BASE.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(part), Some(path)) = (places::path("part"), places::path("trace")) else { return 0 };
    match write::to(&part, base.as_ref(), is_end).and_then(|()| fs::rename(&part, &path)) {
        Ok(()) => path.metadata().map_or(0, |facts| facts.len()),
        Err(_) => 0,
    }
}
