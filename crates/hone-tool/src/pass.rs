//! A program in the place of ours.

use std::os::unix::process::ExitStatusExt;

use crate::child::run_in_our_place;
use crate::system::refusal;
use crate::{Call, ToolError};

/// Runs a program with our own standard input, output and error, in our own process group, until it ends: for a program that
/// stands in for another one and must not be told from it. Whoever ends our group ends it too, and it dies with us. The call's
/// time limit, input file and promises are not looked at.
///
/// Answers the exit code; 128 and the signal's number when a signal ended it, as a shell does.
///
/// # Errors
/// [`ToolError::Refused`] when it can't be started.
pub fn pass_through(call: &Call) -> Result<i32, ToolError> {
    let status = run_in_our_place(call).map_err(|error| refusal(call, &error))?;
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    Ok(status.code().unwrap_or_else(by_signal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_handed_on() {
        let status = |script: &str| pass_through(&Call::new("s", "/bin/sh", "/").args(["-c", script]));
        assert_eq!(status("exit 0").unwrap(), 0);
        assert_eq!(status("exit 42").unwrap(), 42);
        assert_eq!(status("kill -TERM $$").unwrap(), 128 + 15);
        assert!(matches!(
            pass_through(&Call::new("s", "/nonexistent/cc", "/")),
            Err(ToolError::Refused { .. })
        ));
    }

    #[test]
    fn it_stays_in_our_process_group() {
        // SAFETY: asks for our own group.
        let ours = unsafe { libc::getpgrp() };
        let script = format!("set -- $(cat /proc/$$/stat); [ \"$5\" = {ours} ]");
        assert_eq!(pass_through(&Call::new("s", "/bin/sh", "/").args(["-c", &script])).unwrap(), 0);
    }
}
