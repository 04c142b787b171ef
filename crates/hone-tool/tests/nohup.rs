//! A process of its own, because signals are for a whole process.

use hone_tool::interrupt;

fn raise(signal: i32) {
    // SAFETY: raises a signal for this process, which ignores it or has a handler that only sets a flag.
    unsafe { libc::raise(signal) };
}

#[test]
fn a_hangup_that_is_ignored_stays_ignored() {
    // SAFETY: as `nohup` does before it starts a program.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    interrupt::install().unwrap();
    raise(libc::SIGHUP);
    assert!(!interrupt::requested());
    raise(libc::SIGTERM);
    assert!(interrupt::requested());
}
