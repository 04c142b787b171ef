//! A program in Hone's place.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use crate::call::Call;
use crate::child::{run_in_our_place, run_in_our_place_heard};
use crate::error::ToolError;
use crate::system::refusal;

/// Runs a program with Hone's own standard input, output and error, in its own process group, until the program ends. It serves programs
/// that replace another one transparently. A signal to the group ends it too, and it dies with Hone. The call's time limit, input file and
/// required files are ignored.
///
/// Returns the exit code; 128 plus the signal's number if a signal ended it, as a shell does.
///
/// # Errors
/// [`ToolError::Refused`] if it can't be started.
pub fn pass_through(call: &Call) -> Result<i32, ToolError> {
    Ok(code_of(run_in_our_place(call).map_err(|error| refusal(call, &error))?))
}

/// Like [`pass_through`], but also returns the program's standard error, up to `most` bytes: the caller may discard it. Hone forwards it as
/// it arrives.
///
/// # Errors
/// As [`pass_through`].
pub fn pass_through_heard(call: &Call, most: usize) -> Result<(i32, Vec<u8>), ToolError> {
    let (status, heard) = run_in_our_place_heard(call, most).map_err(|error| refusal(call, &error))?;
    Ok((code_of(status), heard))
}

fn code_of(status: ExitStatus) -> i32 {
    let by_signal = || status.signal().map_or(1, |signal| 128 + signal);
    status.code().unwrap_or_else(by_signal)
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
    fn what_is_said_is_heard_up_to_the_limit() {
        let heard = |script: &str, most| {
            pass_through_heard(&Call::new("s", "/bin/sh", "/").args(["-c", script]), most).unwrap()
        };
        assert_eq!(heard("echo out; printf wor >&2; printf ds >&2; exit 3", 100), (3, b"words".to_vec()));
        assert_eq!(heard("printf words >&2", 3), (0, b"wor".to_vec()));
        assert_eq!(heard("exec 2>&-; kill -9 $$", 3), (137, vec![]));
    }

    #[test]
    fn it_stays_in_our_process_group() {
        // SAFETY: asks for our own group.
        let ours = unsafe { libc::getpgrp() };
        let script = format!("set -- $(cat /proc/$$/stat); [ \"$5\" = {ours} ]");
        assert_eq!(pass_through(&Call::new("s", "/bin/sh", "/").args(["-c", &script])).unwrap(), 0);
    }
}
