//! Shows a file to the person at this machine.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Programs that open a file with the person's own choice of program, in the order of trial.
const OPENERS: [&str; 3] = ["xdg-open", "open", "wslview"];

/// Opens a file with the program that the desktop has for it. Hone does not wait for that program.
///
/// # Errors
/// Fails when none of the programs that open files can be started.
pub fn open(file: &Path) -> io::Result<()> {
    let is_started = |opener: &str| {
        #[expect(clippy::disallowed_methods, reason = "the only place that starts programs")]
        let mut command = Command::new(opener);
        command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().is_ok()
    };
    if OPENERS.into_iter().any(is_started) {
        Ok(())
    } else {
        Err(io::Error::other(format!("none of {} can be started", OPENERS.join(", "))))
    }
}
