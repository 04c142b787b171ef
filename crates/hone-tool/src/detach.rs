//! A program that outlives us on purpose.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts our own program again, with other arguments, as the leader of a session of its own: no terminal, no process group and
/// no end of ours reaches it. What it says goes to the end of a log file. It is in none of the notes by which a later run ends what
/// an earlier one left.
///
/// Answers its process id.
///
/// # Errors
/// When our program or the log can't be opened, or the system starts no more processes.
pub fn detach_self(arguments: &[&str], log: &Path) -> io::Result<u32> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    #[expect(clippy::disallowed_methods, reason = "this is the door")]
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // SAFETY: setsid is async-signal-safe, and nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
    // Not waited for: it is to live longer than we do, and init reaps it then.
    Ok(command.spawn()?.id())
}
