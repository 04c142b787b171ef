//! A program that outlives Hone on purpose.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts Hone's own program again with other arguments, as the leader of its own session. No terminal, process group or end of Hone
/// affects it. Its output goes to the end of a log file. It is in none of the notes by which a later run ends leftovers.
///
/// Returns its process id.
///
/// # Errors
/// Fails when the program or the log can't be opened, or when the system starts no more processes.
pub fn detach_self(arguments: &[&str], log: &Path) -> io::Result<u32> {
    let log = OpenOptions::new().create(true).append(true).open(log)?;
    #[expect(clippy::disallowed_methods, reason = "the only place that starts programs")]
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments).current_dir("/").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    // SAFETY: setsid is async-signal-safe, and nothing else happens between fork and exec.
    unsafe {
        command.pre_exec(|| if libc::setsid() < 0 { Err(io::Error::last_os_error()) } else { Ok(()) });
    }
    // Hone does not wait for it: it outlives Hone, and init reaps it.
    Ok(command.spawn()?.id())
}
