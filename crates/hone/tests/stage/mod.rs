//! What the tests of the program share: running it, and looking after what it leaves behind.

#![expect(clippy::disallowed_methods, reason = "tests start the program as its users do")]
#![allow(dead_code, unreachable_pub, reason = "each test uses its part of the stage")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

pub mod clients;
pub mod kafka;
pub mod middleman;
pub mod papers;
pub mod runs;
pub mod tools;

/// What a run of `hone` brought.
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Fails with everything that was said when the code is another one.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    /// Fails unless stderr holds the text; the text may leave out nothing that matters to a user.
    #[track_caller]
    pub fn expect_error(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "wanted: {text}\nstderr:\n{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        self
    }

    /// The record on stdout.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// The program under test, not started yet.
pub fn hone_command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_hone"))
}

/// The same, and a SIGHUP ends it, also when the test runs under nohup: Hone leaves an ignored signal ignored.
pub fn hone_that_hears_hangups() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_hone")]);
    command
}

/// How late a generator may be where tests run beside each other; a test about lateness names its own limit.
pub const PATIENT: [&str; 2] = ["--max-lateness", "5s"];

/// Runs `hone` with these arguments in a folder.
pub fn hone_in(folder: &Path, args: &[&str]) -> Ran {
    let sends = ["load", "compare"].contains(args.first().unwrap_or(&""));
    // Where it may stand depends on the verb's other options; with these it is only in the way.
    let own =
        ["--max-lateness", "--lateness-limit", "--self-test", "--emit", "--resume", "--rollback", "--undo"];
    let patient = sends && !args.iter().any(|arg| own.contains(arg));
    let more = if patient { &PATIENT[..] } else { &[] };
    let mut command = if folder == Path::new(".") { hone_here() } else { hone_command() };
    Ran::of(command.args(args).args(more).current_dir(folder).stdin(Stdio::null()).output().unwrap())
}

/// The program, to be started where the tests are: it leaves its reports elsewhere.
pub fn hone_here() -> Command {
    let mut command = hone_command();
    command.env("HONE_RUNS", Path::new(env!("CARGO_TARGET_TMPDIR")).join("runs"));
    command
}

/// Names of the files in a folder, sorted.
pub fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs `hone` with these arguments.
pub fn hone(args: &[&str]) -> Ran {
    hone_in(Path::new("."), args)
}

/// An embedded broker of its own process, with its data in a temporary folder; killed on drop.
pub struct Broker {
    pub child: Child,
    pub address: String,
    pub metrics: String,
    pub data: tempfile::TempDir,
}

impl Broker {
    pub fn start() -> Self {
        Self::start_as(hone_command().arg("broker"))
    }

    /// By a command that wants nothing but its addresses and its place.
    pub fn start_as(command: &mut Command) -> Self {
        let data = tempfile::tempdir().unwrap();
        let mut child = command
            .args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = first_line(&mut child);
        Self { address: field(&line, "kafka="), metrics: field(&line, "metrics="), child, data }
    }

    /// Starts it once more where it was, on the same data, after it was killed.
    pub fn start_again(&mut self) {
        let _ = self.child.wait();
        let mut child = hone_command()
            .args(["broker", "--listen", &self.address, "--metrics-listen", "off", "--data"])
            .arg(self.data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = first_line(&mut child);
        assert!(line.contains(&self.address), "`{line}`");
        self.child = child;
    }

    /// Sends a signal to the broker.
    pub fn signal(&self, signal: i32) {
        // SAFETY: the child has not been waited for, so its pid is its own.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Passes bytes between a client and a real broker, and breaks off after so many bytes of answers.
pub fn cut_after(broker: &str, bytes: usize, last_words: &'static [u8]) -> String {
    let broker = broker.to_owned();
    let proxy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = proxy.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in proxy.incoming().flatten() {
            let server = std::net::TcpStream::connect(&broker).unwrap();
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            std::thread::spawn(move || {
                let mut client = client;
                let _ = std::io::copy(&mut server.try_clone().unwrap().take(bytes as u64), &mut client);
                let _ = client.write_all(last_words);
                let _ = client.shutdown(std::net::Shutdown::Both);
                let _ = server.shutdown(std::net::Shutdown::Both);
            });
        }
    });
    format!("127.0.0.1:{port}")
}

/// The first line that a server prints: it is ready then.
pub fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line
}

/// The value of `NAME=VALUE` in a line; `name` ends with `=`.
pub fn field(line: &str, name: &str) -> String {
    let value = line.split_whitespace().find_map(|word| word.strip_prefix(name));
    value.unwrap_or_else(|| panic!("no {name} in `{line}`")).to_owned()
}

/// A port that nobody listens on at the moment.
pub fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Processes whose command line holds this text, which a test made unlike any other.
pub fn processes_with(text: &str) -> Vec<u32> {
    let own = std::process::id();
    let folders = fs::read_dir("/proc").unwrap().flatten();
    folders
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != own)
        .filter(|pid| {
            let mut line = Vec::new();
            let read = fs::File::open(format!("/proc/{pid}/cmdline"))
                .and_then(|mut file| file.read_to_end(&mut line));
            read.is_ok() && String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}

/// A text that stands in no other command line of this machine.
pub fn unlike_any_other(name: &str) -> String {
    format!("hone-test-{name}-{}", std::process::id())
}

/// An executable script.
pub fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}
