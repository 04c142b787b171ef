//! Writes what is known every few seconds, when it is asked to, and at the end; forgets what was counted so far when it is told to; begins
//! anew in the child of a fork.
//!
//! It runs on a thread of its own with all signals blocked: qemu's handlers take whoever runs them for a thread of the target.

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

/// Held by whoever reads or writes what a fork must not cut in two. A fork waits for it: qemu lets no other thread of the target run
/// meanwhile, so the keeper alone could be in the middle of something, and no lock of a thread that is not there would ever be free again.
static IS_BUSY: AtomicBool = AtomicBool::new(false);

/// What was counted before the last time that it was told to forget.
static BASE: Mutex<Option<write::Base>> = Mutex::new(None);
static HAS_ENDED: AtomicBool = AtomicBool::new(false);

/// How soon a wish is heard.
const LISTENS: Duration = Duration::from_millis(50);

/// How long to wait for another's work at a time.
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

/// Does something that no fork may cut in two.
fn in_turn<T>(work: impl FnOnce() -> T) -> T {
    before_fork();
    let result = work();
    done();
    result
}

/// In the child of a fork: no other thread is there, and what was counted is its parent's.
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
    // Without it nothing is written before the end.
    let _ = thread::Builder::new().stack_size(256 << 10).spawn(watching);
    // SAFETY: as above.
    unsafe { pthread_sigmask(SIG_SETMASK, &old, std::ptr::null_mut()) };
}

fn watching() {
    let every = Duration::from_millis(settings().every_ms);
    // What was wanted before this process was there is done.
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

/// What Hone wants, in `FOLDER/wish`: a number that grows, and a word.
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

/// The number of the last wish that was done.
fn answer(number: u64) {
    if let Some(path) = places::path("answer") {
        let _ = fs::write(path, number.to_string());
    }
}

pub(crate) fn end() {
    HAS_ENDED.store(true, Relaxed);
    in_turn(|| {
        let bytes = save(true);
        // One that is left out has said so.
        if let Some(path) = places::path("answer") {
            let _ = fs::remove_file(path);
            places::note(bytes);
        }
    });
}

/// Whoever reads finds the file of before or the new one, and no half. How many bytes it has.
fn save(is_end: bool) -> u64 {
    let base = BASE.lock().unwrap_or_else(PoisonError::into_inner);
    let (Some(part), Some(path)) = (places::path("part"), places::path("trace")) else { return 0 };
    match write::to(&part, base.as_ref(), is_end).and_then(|()| fs::rename(&part, &path)) {
        Ok(()) => path.metadata().map_or(0, |facts| facts.len()),
        Err(_) => 0,
    }
}
