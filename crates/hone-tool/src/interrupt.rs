//! Ctrl-C, SIGTERM and a closed terminal, as a flag that every wait checks.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Exit code of a second interrupt: the shells' code for SIGINT.
const SECOND_INTERRUPT: i32 = 130;

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT, SIGTERM and SIGHUP only set the flag. A second SIGINT or SIGTERM ends the process at once; the kernel then ends its
/// children. A second SIGHUP does not: a closed terminal sends one, and its shell another. If SIGHUP is ignored (`nohup`), it stays
/// ignored. The program must call this once, early; a library must not.
///
/// # Errors
/// Fails when the system refuses the handlers.
pub fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first handler sees the flag as it was before this signal.
        signal_hook::flag::register_conditional_shutdown(signal, SECOND_INTERRUPT, Arc::clone(flag()))?;
        signal_hook::flag::register(signal, Arc::clone(flag()))?;
    }
    if !is_ignored(SIGHUP) {
        signal_hook::flag::register(SIGHUP, Arc::clone(flag()))?;
    }
    Ok(())
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: an action of zeros is a valid place to write one to; without a new action nothing is changed.
    unsafe {
        let mut now: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0 && now.sa_sigaction == libc::SIG_IGN
    }
}

/// Whether Hone was asked to end. Long loops outside this crate should check it too.
pub fn requested() -> bool {
    flag().load(Ordering::Relaxed)
}
