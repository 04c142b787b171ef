//! What is left of a process of Hone that was killed. A file of its own: there is one folder of notes in a process.

use std::fs;
use std::time::Duration;

use hone_tool::orphans::{end_what_is_left, note_groups_in};
use hone_tool::{Call, Runner as _, System};

fn runs(pid: u32) -> bool {
    let state = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    String::from_utf8_lossy(&state)
        .rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_grandchild_that_outlives_its_parent_and_us_is_ended_by_the_note() {
    let dir = tempfile::tempdir().unwrap();
    let notes = dir.path().join("running");
    let system = System::new(dir.path().join("log")).unwrap();
    let noting = note_groups_in(&notes).unwrap();
    let count = || fs::read_dir(&notes).unwrap().count();

    let call = |body: &str| Call::new("load", "/bin/sh", dir.path()).args(["-c", body]);
    system.run(&call("sleep 9 & true")).unwrap();
    assert_eq!(count(), 0, "of what has ended no note is left");

    let session = system.start(&call("sleep 300 & echo $! > pid; wait")).unwrap();
    let leader = session.pid();
    while !fs::read_to_string(dir.path().join("pid")).is_ok_and(|text| text.ends_with('\n')) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let worker: u32 = fs::read_to_string(dir.path().join("pid")).unwrap().trim().parse().unwrap();
    assert_eq!(count(), 1);
    // As if this process was killed: nothing cleans up, and the kernel kills the direct child.
    std::mem::forget(session);
    session_of_nobody_ends(leader);
    assert!(runs(worker), "it has no such tie");

    drop(noting);
    let left = end_what_is_left(&notes).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!((left[0].step.as_str(), left[0].stays), ("load", false));
    assert!(left[0].processes.contains(&"sleep".to_owned()), "{left:?}");
    assert!(!runs(worker) && count() == 0);
    assert_eq!(end_what_is_left(&notes).unwrap(), [], "there is nothing left to end");

    system.run(&call("true")).unwrap();
    assert_eq!(count(), 0, "notes are off");
    a_program_that_could_not_be_started_at_once_is_in_its_note();
    a_daemon_that_was_adopted_is_in_a_note();
}

/// It has a group of its own, whose first process may have gone already, as daemons do it.
fn a_daemon_that_was_adopted_is_in_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let notes = dir.path().join("running");
    let noting = note_groups_in(&notes).unwrap();
    hone_tool::adopt_orphans();
    for (body, is_killed) in [
        ("setsid sh -c 'echo $$ > pid; exec sleep 300' & wait", true),
        ("setsid sh -c '(sleep 0.1; exec sleep 300) & echo $! > pid' & exec sleep 300", true),
        ("setsid sh -c 'echo $$ > pid; exec sleep 300' & wait", false),
    ] {
        let _ = fs::remove_file(dir.path().join("pid"));
        let call = Call::new("load", "/bin/sh", dir.path()).args(["-c", body]);
        let session = system.start(&call).unwrap();
        let pid = loop {
            let told = fs::read_to_string(dir.path().join("pid")).unwrap_or_default();
            if let Some(pid) = told.strip_suffix('\n') {
                break pid.parse::<u32>().unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        // Until the first process of the group has gone, where it goes.
        std::thread::sleep(Duration::from_millis(300));
        let daemon = hone_tool::Daemon::adopt(pid, "start").unwrap();
        drop(session);
        assert!(runs(pid), "it is in another group");
        if is_killed {
            std::mem::forget(daemon);
            let left = end_what_is_left(&notes).unwrap();
            assert_eq!(left.len(), 1, "{body}: {left:?}");
            assert_eq!((left[0].step.as_str(), left[0].stays), ("start", false));
            assert_eq!(left[0].processes, ["sleep"]);
        } else {
            daemon.stop(Duration::from_secs(2));
        }
        assert!(!runs(pid));
        assert_eq!(fs::read_dir(&notes).unwrap().count(), 0, "{body}");
    }
    drop(noting);
}

/// The kernel starts no program that is open for writing, so it is started again; and it cuts names in the middle of a letter.
fn a_program_that_could_not_be_started_at_once_is_in_its_note() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let notes = dir.path().join("running");
    let noting = note_groups_in(&notes).unwrap();
    let program = dir.path().join("serverdienst-f\u{fc}r-x");
    fs::copy("/bin/sh", &program).unwrap();
    let written = fs::OpenOptions::new().write(true).open(&program).unwrap();
    let closes = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        drop(written);
    });
    let call = Call::new("load", &program, dir.path()).args(["-c", "while :; do sleep 0.1; done & wait"]);
    let session = system.start(&call).unwrap();
    closes.join().unwrap();
    let leader = session.pid();
    while session.processes().len() < 2 {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::mem::forget(session);
    session_of_nobody_ends(leader);
    drop(noting);
    let left = end_what_is_left(&notes).unwrap();
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left[0].processes.iter().any(|name| name.starts_with("serverdienst-f")), "{left:?}");
    assert!(!left[0].stays && end_what_is_left(&notes).unwrap().is_empty());
}

fn session_of_nobody_ends(leader: u32) {
    // SAFETY: our own child; no other code has waited for it.
    assert_eq!(unsafe { libc::kill(leader as i32, libc::SIGKILL) }, 0);
    while runs(leader) {
        std::thread::sleep(Duration::from_millis(5));
    }
}
