//! The door against small real programs that misbehave in every way the real tools do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hone_tool::{
    Call, Dry, Finished, Readiness, Replay, Runner, Session, StopSignal, System, Tool, ToolError,
};
use proptest::prelude::*;

/// Long enough to never matter on a busy machine; no test waits for it.
const PLENTY: Duration = Duration::from_secs(120);

struct Room {
    dir: tempfile::TempDir,
    system: System,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        Self { dir, system }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn script(&self, name: &str, body: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    fn call(&self, step: &str, body: &str) -> Call {
        Call::new(step, self.script(step, body), self.dir.path()).limit(PLENTY)
    }

    fn run(&self, step: &str, body: &str) -> Result<Finished, ToolError> {
        self.system.run(&self.call(step, body))
    }

    fn start(&self, step: &str, body: &str) -> Session {
        self.system.start(&self.call(step, body)).unwrap()
    }

    /// The error's text with the temporary folder taken out.
    fn words(&self, error: &ToolError) -> String {
        error.to_string().replace(self.dir.path().to_str().unwrap(), "DIR")
    }

    fn pid_in(&self, name: &str) -> i32 {
        fs::read_to_string(self.path(name)).unwrap().trim().parse().unwrap()
    }
}

/// State and process group of a process; `None` when it is gone.
fn stat(pid: i32) -> Option<(String, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ');
    let state = fields.next()?.to_owned();
    Some((state, fields.nth(1)?.parse().ok()?))
}

fn runs(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| state != "Z" && state != "X")
}

fn assert_group_gone(group: i32) {
    let members: Vec<i32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .filter(|&pid| stat(pid).is_some_and(|(state, pgrp)| pgrp == group && state != "Z" && state != "X"))
        .collect();
    assert_eq!(members, [] as [i32; 0], "left over of group {group}");
}

#[test]
fn a_good_call_gives_its_outputs() {
    let room = Room::new();
    let body = r#"echo "$GREETING $1"; echo warning >&2; cat; pwd > where; exit 3"#;
    fs::write(room.path("in"), "input\n").unwrap();
    let call = room.call("good", body).arg("two words").env("GREETING", "hello").env_remove("HOME");
    let call = call.stdin(room.path("in")).accept_status(3).produces(room.path("where"));
    let finished = room.system.run(&call).unwrap();
    assert_eq!(finished.code, 3);
    assert_eq!(finished.stdout_text().unwrap(), "hello two words\ninput\n");
    assert_eq!(finished.stderr().unwrap(), b"warning\n");
    assert_eq!(fs::read_to_string(room.path("where")).unwrap().trim(), room.dir.path().to_str().unwrap());
    assert!(finished.stdout_path.ends_with("log/001-good.stdout"));
}

#[test]
fn a_pasted_line_does_the_same() {
    let room = Room::new();
    let script = room.script("it's odd", r#"printf '[%s]' "$@" "$A"; cat"#);
    fs::write(room.path("in"), "input").unwrap();
    let call = Call::new("odd", script, room.dir.path())
        .args(["a b", "", "'", "$(x)\n", "~"])
        .env("A", "`;")
        .env_remove("HOME")
        .stdin(room.path("in"));
    let direct = room.system.run(&call).unwrap().stdout_text().unwrap();
    let pasted = Call::new("pasted", "/bin/sh", "/").arg("-c").arg(call.to_shell_line());
    assert_eq!(room.system.run(&pasted).unwrap().stdout_text().unwrap(), direct);
    assert_eq!(direct, "[a b][]['][$(x)\n][~][`;]input");
}

#[test]
fn a_noisy_child_does_not_block() {
    let room = Room::new();
    let body = "head -c 10485760 /dev/zero & head -c 10485760 /dev/zero >&2; wait";
    let finished = room.run("noisy", body).unwrap();
    assert_eq!(finished.stdout().unwrap().len(), 10 << 20);
    assert_eq!(finished.stderr().unwrap().len(), 10 << 20);
}

#[test]
fn a_failing_child_is_shown_with_its_last_words() {
    let room = Room::new();
    let error = room.run("failing", "seq 1 20 >&2; exit 7").unwrap_err();
    assert_eq!(
        room.words(&error),
        "failing: exit code 7
  command: cd DIR && DIR/failing
  stderr: 13
  stderr: 14
  stderr: 15
  stderr: 16
  stderr: 17
  stderr: 18
  stderr: 19
  stderr: 20
  log: DIR/log/001-failing.stderr
  next: run the command in a shell to see it fail alone"
    );
}

#[test]
fn a_killed_child_is_shown_with_its_signal() {
    let room = Room::new();
    let error = room.run("killed", "echo on my way >&2; kill -SEGV $$").unwrap_err();
    assert_eq!(
        room.words(&error),
        "killed: ended by signal 11 (SEGV)
  command: cd DIR && DIR/killed
  stderr: on my way
  log: DIR/log/001-killed.stderr
  next: run the command in a shell to see it fail alone"
    );
}

#[test]
fn a_slow_child_is_ended_with_all_its_group() {
    let room = Room::new();
    let body = "trap '' TERM\nsleep 1000 &\necho $! > grandchild\necho $$ > leader\nwait\nsleep 1000";
    let call = room.call("slow", body).limit(Duration::from_millis(700));
    let error = room.system.run(&call).unwrap_err();
    assert_eq!(
        room.words(&error),
        "slow: stopped after 0.7 s: it did not end
  command: cd DIR && DIR/slow
  log: DIR/log/001-slow.stderr
  next: read the log; if the step was only slow, raise the time limit"
    );
    assert_group_gone(room.pid_in("leader"));
    assert!(!runs(room.pid_in("grandchild")));
}

#[test]
fn a_grandchild_that_holds_the_outputs_does_not_hang_us_and_does_not_stay() {
    let room = Room::new();
    let finished = room.run("forking", "sleep 1000 &\necho $! > grandchild\necho done").unwrap();
    assert_eq!(finished.stdout_text().unwrap(), "done\n");
    assert!(!runs(room.pid_in("grandchild")));
}

#[test]
fn promises_are_held_against_the_files() {
    let room = Room::new();
    let file = room.path("result");
    let check = |step: &str, body: &str, expected: &str| {
        let error = room.system.run(&room.call(step, body).produces(&file)).unwrap_err();
        let first = room.words(&error).lines().next().unwrap().to_owned();
        assert_eq!(first, format!("{step}: ended without an error, but DIR/result {expected}"));
    };
    check("silent", "exit 0", "was not written");
    check("empty", "> result", "is empty (0 bytes)");
    fs::write(&file, "from an earlier run").unwrap();
    check("stale", "exit 0", "is left over from an earlier run and was not written again");

    let same_bytes = room.call("again", "printf 'from an earlier run' > result").produces(&file);
    room.system.run(&same_bytes).unwrap();
    let replaced = room.call("renamed", "cp -p result new && mv new result").produces(&file);
    room.system.run(&replaced).unwrap();
    room.system.run(&room.call("up-to-date", "exit 0").leaves(&file)).unwrap();
}

#[test]
fn what_can_not_start_says_why() {
    let room = Room::new();
    let refused = |call: Call| {
        let error = room.system.run(&call).unwrap_err();
        assert!(matches!(error, ToolError::Refused { .. }));
        room.words(&error)
    };
    assert_eq!(
        refused(Call::new("absent", room.path("absent"), room.dir.path()).arg("x y")),
        "absent: could not be started: DIR/absent (or the interpreter it names) does not exist
  command: cd DIR && DIR/absent 'x y'
  next: install it, or name another one"
    );
    assert!(
        refused(Call::new("s", "/bin/true", room.path("nowhere")))
            .contains("the working directory DIR/nowhere does not exist")
    );
    fs::write(room.path("plain"), "text").unwrap();
    assert!(refused(Call::new("s", room.path("plain"), "/")).contains("DIR/plain is not executable"));
    let no_input = Call::new("s", "/bin/cat", "/").stdin(room.path("none"));
    assert!(refused(no_input).contains("the file for its standard input does not exist"));
}

#[test]
fn a_log_folder_that_can_not_be_written_is_found_at_once() {
    let room = Room::new();
    fs::write(room.path("file"), "").unwrap();
    let error = System::new(room.path("file/log")).err().unwrap();
    assert!(room.words(&error).starts_with("log folder DIR/file/log: "), "{error}");
    assert!(error.to_string().ends_with("next: name a writable folder"));
}

#[test]
fn log_numbers_go_on_behind_an_earlier_run() {
    let room = Room::new();
    room.run("one", "echo 1").unwrap();
    let later = System::new(room.path("log")).unwrap();
    let call = Call::new("two/../three", "/bin/echo", "/").arg("2");
    let finished = later.run(&call).unwrap();
    assert!(finished.stdout_path.ends_with("log/002-two-..-three.stdout"), "{finished:?}");
    assert_eq!(fs::read_to_string(room.path("log/001-one.stdout")).unwrap(), "1\n");
}

#[test]
fn progress_shows_the_last_line() {
    let room = Room::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let system = System::new(room.path("log")).unwrap().on_progress(move |progress| {
        let line = progress.last_line.unwrap_or_default().to_owned();
        sink.lock().unwrap().push((progress.call.step().to_owned(), line));
    });
    // The child stays until it has been seen.
    let call = room
        .call("talking", "echo first >&2; echo Compiling x >&2; while ! test -e seen; do sleep 0.05; done");
    let watcher = {
        let (seen, file) = (Arc::clone(&seen), room.path("seen"));
        std::thread::spawn(move || {
            while seen.lock().unwrap().is_empty() {
                std::thread::sleep(Duration::from_millis(10));
            }
            fs::write(file, "").unwrap();
        })
    };
    system.run(&call).unwrap();
    watcher.join().unwrap();
    assert_eq!(seen.lock().unwrap()[0], ("talking".to_owned(), "Compiling x".to_owned()));
}

#[test]
fn a_session_gets_ready_and_stops_on_term() {
    let room = Room::new();
    let body = "trap 'echo bye; exit 5' TERM\necho booting\nsleep 0.1\necho listening on 4711\nwhile :; do sleep 0.05; done";
    let mut session = room.start("server", body);
    assert_eq!(session.stdout_line_matching("listening on ", PLENTY).unwrap(), "listening on 4711");
    assert!(session.try_exit().unwrap().is_none());
    let group = session.process_group();
    assert_eq!(stat(group).unwrap().1, group, "it leads its own group");
    let stopped = session.stop(PLENTY).unwrap();
    assert_eq!((stopped.signal, stopped.status.code()), (StopSignal::Term, Some(5)));
    assert!(stopped.ended_by_itself());
    assert!(fs::read_to_string(&stopped.stdout_path).unwrap().ends_with("bye\n"));
    assert_group_gone(group);
}

#[test]
fn a_session_that_ignores_term_is_killed() {
    let room = Room::new();
    let mut session =
        room.start("stubborn", "trap '' TERM\nsleep 1000 &\necho ready\nwhile :; do sleep 0.05; done");
    session.stdout_line_matching("ready", PLENTY).unwrap();
    let group = session.process_group();
    let stopped = session.stop(Duration::from_millis(200)).unwrap();
    assert_eq!(stopped.signal, StopSignal::Kill);
    assert!(!stopped.ended_by_itself());
    assert_group_gone(group);
}

#[test]
fn a_stopped_session_can_still_obey_term() {
    let room = Room::new();
    let mut session = room.start("paused", "trap 'exit 0' TERM\necho ready\nwhile :; do sleep 0.05; done");
    session.stdout_line_matching("ready", PLENTY).unwrap();
    // SAFETY: the session is alive and unreaped, so the id is its own.
    unsafe { libc::kill(session.process_group(), libc::SIGSTOP) };
    assert_eq!(session.stop(PLENTY).unwrap().signal, StopSignal::Term);
}

#[test]
fn a_session_that_dies_is_told_at_once() {
    let room = Room::new();
    let mut session = room.start("dying", "echo port 4711 is in use >&2; exit 98");
    let error = session.wait_until(PLENTY, || Readiness::NotYet("it did not listen".into())).unwrap_err();
    assert_eq!(
        room.words(&error),
        "dying: ended early, exit code 98, while waiting: it did not listen
  command: cd DIR && DIR/dying
  stderr: port 4711 is in use
  log: DIR/log/001-dying.stderr
  next: run the command in a shell to see why it ends"
    );
    assert_eq!(session.try_exit().unwrap().unwrap().code(), Some(98));
    assert_eq!(session.stop(PLENTY).unwrap().signal, StopSignal::AlreadyExited);
}

#[test]
fn a_session_that_never_gets_ready_is_told_with_what_was_missing() {
    let room = Room::new();
    let mut session = room.start("late", "echo other line; sleep 1000");
    let error = session.stdout_line_matching("ready", Duration::from_millis(300)).unwrap_err();
    assert_eq!(
        room.words(&error),
        "late: stopped after 0.3 s: no line of its output starts with \"ready\"
  command: cd DIR && DIR/late
  log: DIR/log/001-late.stderr
  next: read the log; if the step was only slow, raise the time limit"
    );
    let group = session.process_group();
    drop(session);
    assert_group_gone(group);
}

#[test]
fn the_last_line_of_a_session_that_ended_still_counts() {
    let room = Room::new();
    for _ in 0..20 {
        let mut session = room.start("short", "echo ready now");
        match session.stdout_line_matching("ready", PLENTY) {
            Ok(line) => assert_eq!(line, "ready now"),
            Err(error) => assert!(matches!(error, ToolError::Died { .. }), "{error}"),
        }
    }
    let mut session = room.start("short", "echo ready now");
    while session.try_exit().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(session.check_alive("it should serve").is_err());
    assert_eq!(fs::read_to_string(session.stdout_path()).unwrap(), "ready now\n");
}

#[test]
fn a_session_started_by_a_thread_that_ended_lives_on() {
    let room = Arc::new(Room::new());
    let starter = Arc::clone(&room);
    let mut session =
        std::thread::spawn(move || starter.start("server", "echo ready; sleep 1000")).join().unwrap();
    session.stdout_line_matching("ready", PLENTY).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    session.check_alive("it must not be tied to the thread that asked for it").unwrap();
}

const HELPER: &str = "HONE_TOOL_TEST_HELPER_DIR";

/// Not a test of its own: the process that the next test kills.
#[test]
fn helper_that_is_killed() {
    let Some(dir) = std::env::var_os(HELPER) else {
        return;
    };
    let system = System::new(Path::new(&dir).join("inner-log")).unwrap();
    let session = system.start(&Call::new("inner", "/bin/sleep", "/").arg("1000")).unwrap();
    fs::write(Path::new(&dir).join("new"), session.pid().to_string()).unwrap();
    fs::rename(Path::new(&dir).join("new"), Path::new(&dir).join("inner-pid")).unwrap();
    std::thread::sleep(PLENTY);
}

#[test]
fn when_hone_is_killed_its_child_dies_with_it() {
    let room = Room::new();
    let call = Call::new("hone", std::env::current_exe().unwrap(), "/")
        .args(["--exact", "helper_that_is_killed"])
        .env(HELPER, room.dir.path());
    let mut session = room.system.start(&call).unwrap();
    let pid_file = room.path("inner-pid");
    session
        .wait_until(PLENTY, || match pid_file.exists() {
            true => Readiness::Ready,
            false => Readiness::NotYet("no child yet".into()),
        })
        .unwrap();
    let inner = room.pid_in("inner-pid");
    assert!(runs(inner));
    // SAFETY: the session is alive and unreaped, so the id is its own; the inner child is in another group.
    unsafe { libc::kill(session.process_group(), libc::SIGKILL) };
    drop(session);
    for _ in 0..1000 {
        if !runs(inner) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("process {inner} outlived its parent");
}

#[test]
fn a_dry_run_collects_and_starts_nothing() {
    let room = Room::new();
    let dry = Dry::new();
    let call = room.call("one", "> touched").produces(room.path("touched"));
    assert_eq!(dry.run(&call).unwrap().stdout().unwrap(), b"");
    assert!(matches!(dry.start(&call), Err(ToolError::Refused { .. })));
    assert_eq!(dry.calls(), [call.clone(), call]);
    assert!(!room.path("touched").exists());
}

#[test]
fn a_recorded_call_is_replayed_without_the_tool() {
    let room = Room::new();
    let recording = System::new(room.path("log")).unwrap().recording_to(room.path("tape"));
    let call = |body: &str| room.call("measure", body).produces(room.path("out"));
    recording.run(&call("echo 1; echo first > out")).unwrap();
    recording.run(&call("echo 2; echo second > out; echo w >&2")).unwrap();
    fs::remove_file(room.path("out")).unwrap();

    let replay = Replay::new(room.path("tape"));
    let call = Call::new("measure", "/elsewhere/measure", "/elsewhere").produces(room.path("out"));
    assert_eq!(replay.run(&call).unwrap().stdout_text().unwrap(), "1\n");
    let second = replay.run(&call).unwrap();
    assert_eq!((second.stdout_text().unwrap(), second.stderr_text().unwrap()), ("2\n".into(), "w\n".into()));
    assert_eq!(fs::read_to_string(room.path("out")).unwrap(), "second\n");
    assert!(matches!(replay.run(&call), Err(ToolError::Unreadable { .. })), "there was no third call");

    let other = Call::new("measure", "/elsewhere/other", "/").produces(room.path("out"));
    let error = Replay::new(room.path("tape")).run(&other).unwrap_err();
    assert!(room.words(&error).contains("but the call is `cd / && /elsewhere/other`"), "{error}");
}

#[test]
fn a_tool_is_found_beside_its_compiler_and_gives_a_receipt() {
    let room = Room::new();
    room.script("profdata", "echo 'LLVM (http://llvm.org/):'; echo '  LLVM version 22.1.2'");
    let tool = Tool::new("profdata", "HONE_TEST_UNSET").rustup("llvm-tools").at_least(22, 0, 0);
    let found = tool.locate_beside(&[room.path("none"), room.dir.path().to_path_buf()]).unwrap();
    let receipt = found.receipt().unwrap();
    assert_eq!((receipt.name.as_str(), receipt.version.as_str()), ("profdata", "LLVM version 22.1.2"));
    assert_eq!(receipt.path, room.path("profdata").to_str().unwrap());

    let error = tool.at_least(23, 0, 0).locate_beside(&[room.dir.path().to_path_buf()]).unwrap().receipt();
    assert_eq!(
        room.words(&error.unwrap_err()),
        "profdata is too old: DIR/profdata prints \"LLVM version 22.1.2\", but Hone needs 23.0.0 or newer
  next: run `rustup component add llvm-tools` (or set HONE_TEST_UNSET to the program)"
    );
    let error = tool.locate_beside(&[room.path("none")]).unwrap_err();
    assert_eq!(
        room.words(&error),
        "profdata not found: not in DIR/none
  next: run `rustup component add llvm-tools` (or set HONE_TEST_UNSET to the program)"
    );
    assert!(tool.locate(&[]).unwrap_err().to_string().contains("not in PATH"));
    assert!(Tool::new("sh", "HONE_TEST_UNSET").locate(&[]).is_ok());
}

#[test]
fn a_program_that_gives_no_version_is_no_tool() {
    let room = Room::new();
    room.script("mute", "echo what; exit 1");
    let found = Tool::new("mute", "HONE_TEST_UNSET").debian("mute").locate_beside(&[room.dir.path().into()]);
    assert_eq!(
        room.words(&found.unwrap().receipt().unwrap_err()),
        "version of DIR/mute: exit code 1, answer \"what\"
  next: `mute --version` should print it; run `apt-get install mute` (or set HONE_TEST_UNSET to the program)"
    );
}

#[test]
fn the_override_wins_and_must_name_a_program() {
    // PATH and HOME are set on every machine and no program: they serve as override variables here.
    let error = Tool::new("sh", "HOME").locate(&[]).unwrap_err().to_string();
    assert!(error.contains("is not an executable file") && error.contains("unset HOME"), "{error}");
}

proptest! {
    /// Whatever the words are, a shell gives back the same ones.
    #[test]
    fn a_shell_reads_what_was_quoted(words in prop::collection::vec("[^\0]{0,12}", 0..4)) {
        let room = Room::new();
        let call = Call::new("q", "/usr/bin/printf", "/").arg("<%s>").args(&words);
        let shell = Call::new("sh", "/bin/sh", "/").arg("-c").arg(call.to_shell_line());
        let expected: String = if words.is_empty() {
            "<>".into()
        } else {
            words.iter().map(|word| format!("<{word}>")).collect()
        };
        prop_assert_eq!(room.system.run(&shell).unwrap().stdout_text().unwrap(), expected);
    }
}

#[test]
fn a_child_that_is_talked_to_answers_and_ends_with_its_input() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let room = Room::new();
    let body = "echo said >&2; while read -r line; do echo \"got $line\"; done; echo bye";
    let mut talk = room.system.converse(&room.call("talk", body)).unwrap();
    let mut answers = BufReader::new(talk.from_child);
    for word in ["one", "two"] {
        writeln!(talk.to_child, "{word}").unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, format!("got {word}\n"));
    }
    drop(talk.to_child);
    let mut rest = String::new();
    answers.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye\n", "the end of its output is seen");
    let stopped = talk.session.stop(PLENTY).unwrap();
    assert_eq!(fs::read_to_string(stopped.stderr_path).unwrap(), "said\n");
    assert!(Dry::default().converse(&room.call("dry", "true")).is_err());
}

#[test]
fn a_signal_that_asks_goes_only_to_those_that_take_it() {
    let room = Room::new();
    let body =
        "trap 'echo told >> told' USR2\nsleep 1000 &\necho $! > sleeper\necho ready\nwhile :; do wait; done";
    let mut session = room.start("asked", body);
    session.stdout_line_matching("ready", PLENTY).unwrap();
    let told = session.tell(libc::SIGUSR2, PLENTY);
    assert_eq!((told.took, told.left), (vec![session.pid()], vec![]));
    let wrote = || match room.path("told").exists() {
        true => Readiness::Ready,
        false => Readiness::NotYet("told".to_owned()),
    };
    session.wait_until(PLENTY, wrote).unwrap();
    assert!(Path::new(&format!("/proc/{}", room.pid_in("sleeper"))).exists(), "the sleeper was spared");
    assert_eq!(session.tell(libc::SIGUSR1, PLENTY).took, Vec::<u32>::new(), "it would have killed all");
    session.check_alive("it should still be there").unwrap();
}

#[test]
fn the_group_may_end_in_order_after_its_leader() {
    let room = Room::new();
    let child =
        room.script("child", "trap 'echo done > done; exit 0' TERM\ntouch up\nwhile :; do sleep 0.02; done");
    let body = format!("{} &\nwhile [ ! -e up ]; do sleep 0.01; done\nexit 3", child.display());
    let mut session = room.start("leader", &body);
    let ended = session.wait_end(PLENTY, Duration::from_secs(10)).unwrap().unwrap();
    assert_eq!((ended.status.code(), ended.killed), (Some(3), 0));
    assert!(room.path("done").exists(), "it was asked before it was killed");
}

#[test]
fn who_outlives_the_leader_and_obeys_nothing_is_counted_and_killed() {
    let room = Room::new();
    let child = room.script("child", "trap '' TERM\necho $$ > pid\nmv pid up\nexec sleep 1000");
    let body = format!("{} &\nwhile [ ! -e up ]; do sleep 0.01; done", child.display());
    let mut session = room.start("leader", &body);
    let ended = session.wait_end(PLENTY, Duration::from_millis(100)).unwrap().unwrap();
    assert_eq!((ended.status.code(), ended.killed), (Some(0), 1));
    let left = fs::read_to_string(format!("/proc/{}/stat", room.pid_in("up"))).unwrap_or_default();
    assert!(left.is_empty() || left.contains(") Z "), "{left}");
}

#[test]
fn one_that_stays_is_told_apart_and_can_be_killed() {
    let room = Room::new();
    let mut session = room.start("stays", "exec sleep 1000");
    assert_eq!(session.wait_end(Duration::from_millis(50), PLENTY).unwrap(), None);
    session.signal(libc::SIGINT);
    let ended = session.wait_end(PLENTY, PLENTY).unwrap().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended.status), Some(libc::SIGINT));
    let mut other = room.start("other", "exec sleep 1000");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&other.kill().unwrap()), Some(libc::SIGKILL));
}

/// A loop of a shell: mostly user time.
const SPIN: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";

#[test]
fn what_a_child_used_is_told_with_what_its_own_children_used() {
    let room = Room::new();
    let used = |finished: &Finished| finished.usage.total().as_secs_f64();
    let idle = room.run("idle", "sleep 0.2").unwrap();
    let own = room.run("own", SPIN).unwrap();
    let childs = room.run("childs", &format!("sh -c '{SPIN}'")).unwrap();
    assert!(used(&idle) < 0.1 && idle.took >= Duration::from_millis(200), "{idle:?}");
    assert!(used(&own) > used(&idle) && used(&own) <= own.took.as_secs_f64() * 1.1, "{own:?}");
    assert!(used(&childs) > used(&own) * 0.5, "{childs:?} {own:?}");
    assert!(own.usage.max_rss_bytes > 100_000 && own.usage.user > own.usage.system, "{own:?}");

    let mut session = room.start("session", SPIN);
    let ended = session.wait_end(PLENTY, PLENTY).unwrap().unwrap();
    assert!(ended.usage.total().as_secs_f64() > used(&own) * 0.5, "{ended:?} {own:?}");
}
