//! Ctrl-C and SIGTERM, as a flag that every wait at the door looks at.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a second interrupt, as shells give it for SIGINT.
const SECOND_INTERRUPT: i32 = 130;

fn flag() -> &'static Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    FLAG.get_or_init(Arc::default)
}

/// From now on SIGINT and SIGTERM only set the flag. A second one ends the process at once; the kernel then ends its
/// children. To be called once, early, by the program and never by a library.
///
/// # Errors
/// When the system refuses the handlers.
pub fn install() -> io::Result<()> {
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the first handler sees the flag as it was before this signal.
        signal_hook::flag::register_conditional_shutdown(signal, SECOND_INTERRUPT, Arc::clone(flag()))?;
        signal_hook::flag::register(signal, Arc::clone(flag()))?;
    }
    Ok(())
}

/// Whether somebody asked to end. Long loops outside this crate should look at it too.
pub fn requested() -> bool {
    flag().load(Ordering::Relaxed)
}
