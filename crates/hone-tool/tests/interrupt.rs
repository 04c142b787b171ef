//! A process of its own, because an interrupt is for a whole process.

use std::fs;
use std::time::Duration;

use hone_tool::{Call, Readiness, Runner, System, ToolError, interrupt};

#[test]
fn an_interrupt_ends_every_wait_and_every_child() {
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let plenty = Duration::from_secs(120);
    interrupt::install().unwrap();
    assert!(!interrupt::requested());

    let pid_file = dir.path().join("pid");
    let call = Call::new("long", "/bin/sh", dir.path())
        .args(["-c", "echo $$ > new && mv new pid; sleep 1000 & wait"])
        .limit(plenty);
    let mut server = system.start(&Call::new("server", "/bin/sleep", "/").arg("1000")).unwrap();
    let interrupter = std::thread::spawn(move || {
        while !pid_file.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        // SAFETY: raises a signal for this process, whose handler only sets a flag.
        unsafe { libc::raise(libc::SIGINT) };
        fs::read_to_string(pid_file).unwrap().trim().to_owned()
    });
    let error = system.run(&call).unwrap_err();
    let pid = interrupter.join().unwrap();
    assert!(matches!(error, ToolError::Interrupted { .. }), "{error}");
    assert!(error.to_string().starts_with("long: interrupted; Hone ended its processes\n  command: cd "));
    assert!(!std::path::Path::new("/proc").join(pid).exists(), "the child is still there");

    let error = server.wait_until(plenty, || Readiness::NotYet("never".into())).unwrap_err();
    assert!(matches!(error, ToolError::Interrupted { .. }), "{error}");
    let error = system.run(&call).unwrap_err();
    assert!(matches!(error, ToolError::Interrupted { .. }), "nothing new is started: {error}");
    server.stop(plenty).unwrap();
}
