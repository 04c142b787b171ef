//! A command line as a value.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default time limit of a call.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(600);

/// A file that a call leaves behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// Its path.
    pub path: PathBuf,
    /// Whether this very call must write it. Then a file of an earlier run is not enough.
    pub fresh: bool,
}

/// One start of one program: a plain value that can be compared, printed and pasted.
///
/// Hone never joins the arguments into a shell line; [`Call::to_shell_line`] exists for people only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    step: String,
    program: PathBuf,
    cwd: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, Option<OsString>)>,
    stdin: Option<PathBuf>,
    limit: Duration,
    promises: Vec<Promise>,
    accepted: Vec<i32>,
    despite_interrupt: bool,
}

impl Call {
    /// A call of `program` in the folder `cwd`. `step` names it in log files and errors, for example `merge-profile`.
    pub fn new(step: impl Into<String>, program: impl Into<PathBuf>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            step: step.into(),
            program: program.into(),
            cwd: cwd.into(),
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            limit: DEFAULT_LIMIT,
            promises: Vec::new(),
            accepted: vec![0],
            despite_interrupt: false,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable for the child; a later setting of the same name wins.
    #[must_use]
    pub fn env(self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.change_env(name.into(), Some(value.into()))
    }

    /// Hides an inherited environment variable from the child.
    #[must_use]
    pub fn env_remove(self, name: impl Into<OsString>) -> Self {
        self.change_env(name.into(), None)
    }

    fn change_env(mut self, name: OsString, value: Option<OsString>) -> Self {
        self.env.retain(|(known, _)| *known != name);
        self.env.push((name, value));
        self
    }

    /// Lets the child read this file; without it the child reads nothing.
    #[must_use]
    pub fn stdin(mut self, file: impl Into<PathBuf>) -> Self {
        self.stdin = Some(file.into());
        self
    }

    /// Sets the time after which [`crate::Runner::run`] kills the group. A [`crate::Session`] has no such limit.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Requires that this call writes a file: present, not empty, and not left over from an earlier run.
    #[must_use]
    pub fn produces(mut self, file: impl Into<PathBuf>) -> Self {
        self.promises.push(Promise { path: file.into(), fresh: true });
        self
    }

    /// Requires that a file exists and is not empty afterwards; an up-to-date one may stay untouched.
    #[must_use]
    pub fn leaves(mut self, file: impl Into<PathBuf>) -> Self {
        self.promises.push(Promise { path: file.into(), fresh: false });
        self
    }

    /// Runs this call even after an interrupt: it is short, and cleans up.
    #[must_use]
    pub fn despite_interrupt(mut self) -> Self {
        self.despite_interrupt = true;
        self
    }

    /// Whether an interrupt ends it.
    pub(crate) fn minds_interrupts(&self) -> bool {
        !self.despite_interrupt
    }

    /// Accepts this exit code besides 0.
    #[must_use]
    pub fn accept_status(mut self, code: i32) -> Self {
        self.accepted.push(code);
        self
    }

    /// The step's name.
    pub fn step(&self) -> &str {
        &self.step
    }

    /// The path of the program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The arguments, without the program.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The changes of the environment, in order; `None` hides a variable.
    pub fn environment(&self) -> &[(OsString, Option<OsString>)] {
        &self.env
    }

    /// The file that the child reads, if any.
    pub fn stdin_file(&self) -> Option<&Path> {
        self.stdin.as_deref()
    }

    /// The time limit.
    pub fn time_limit(&self) -> Duration {
        self.limit
    }

    /// The required files.
    pub fn promises(&self) -> &[Promise] {
        &self.promises
    }

    /// Whether this exit code counts as success.
    pub fn accepts(&self, code: i32) -> bool {
        self.accepted.contains(&code)
    }

    /// The call as one line that a POSIX shell executes in the same way (bytes outside UTF-8 need bash).
    pub fn to_shell_line(&self) -> String {
        let mut line = format!("cd {} &&", quote(self.cwd.as_os_str()));
        for word in self.environment_words() {
            line.push(' ');
            line.push_str(&word);
        }
        line.push(' ');
        line.push_str(&quote_program(self.program.as_os_str()));
        for arg in &self.args {
            line.push(' ');
            line.push_str(&quote(arg));
        }
        if let Some(file) = &self.stdin {
            line.push_str(" < ");
            line.push_str(&quote(file.as_os_str()));
        }
        line
    }

    /// `env -u GONE NAME=value`, or only the assignments if no variable is hidden.
    fn environment_words(&self) -> Vec<String> {
        let hidden: Vec<&OsStr> =
            self.env.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name.as_os_str()).collect();
        let mut words = Vec::new();
        if !hidden.is_empty() {
            words.push("env".to_owned());
        }
        for name in hidden {
            words.push("-u".to_owned());
            words.push(quote(name));
        }
        for (name, value) in &self.env {
            if let Some(value) = value {
                words.push(format!("{}={}", name.to_string_lossy(), quote(value)));
            }
        }
        words
    }
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.to_shell_line())
    }
}

/// A word of a shell line. Bytes that are not UTF-8 need bash's `$'...'`.
fn quote(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    match std::str::from_utf8(bytes) {
        Ok(text) if is_plain(text) => text.to_owned(),
        Ok(text) => format!("'{}'", text.replace('\'', r"'\''")),
        Err(_) => quote_bytes(bytes),
    }
}

/// Like [`quote`]; a `=` in a program's path must not look like an assignment.
fn quote_program(word: &OsStr) -> String {
    let quoted = quote(word);
    if quoted.contains('=') && !quoted.starts_with(['\'', '$']) { format!("'{quoted}'") } else { quoted }
}

fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    !text.is_empty() && text.chars().all(plain)
}

fn quote_bytes(bytes: &[u8]) -> String {
    let mut quoted = String::from("$'");
    for &byte in bytes {
        match byte {
            b'\'' | b'\\' => quoted.extend(['\\', byte as char]),
            b' '..=b'~' => quoted.push(byte as char),
            _ => quoted.push_str(&format!("\\x{byte:02x}")),
        }
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn check(call: Call, line: &str) {
        assert_eq!(call.to_string(), line);
    }

    #[test]
    fn a_call_prints_as_a_line_to_paste() {
        check(Call::new("s", "/bin/true", "/"), "cd / && /bin/true");
        check(
            Call::new("s", "cargo", "/a b").args(["build", "--bin", "it's"]).arg("").arg("$HOME;~"),
            r"cd '/a b' && cargo build --bin 'it'\''s' '' '$HOME;~'",
        );
        check(
            Call::new("s", "cc", "/w").env("A", "1 2").env_remove("B").env("A", "3").stdin("/in put"),
            "cd /w && env -u B A=3 cc < '/in put'",
        );
        check(Call::new("s", "/x=y/cc", "/w").env("A", ""), "cd /w && A='' '/x=y/cc'");
        check(
            Call::new("s", "p", "/").arg(OsString::from_vec(vec![b'a', 0xff, b'\''])),
            r"cd / && p $'a\xff\''",
        );
    }
}
