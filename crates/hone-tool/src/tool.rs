//! Finds a program, and writes the receipt that identifies it.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hone_record::ToolReceipt;

use crate::call::Call;
use crate::child::Group;
use crate::error::{ToolError, status_words};

/// A program that does not print its version within this time is unusable.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Size limit of a version answer.
const VERSION_BYTES: u64 = 64 * 1024;

/// A version number of up to three parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The first number of the form `1.2` or `1.2.3` in a text. For a JDK, whose first release of a year has no more, its major number.
    /// `None` if there is none.
    pub fn first_in(text: &str) -> Option<Self> {
        text.split(|c: char| !(c.is_ascii_digit() || c == '.'))
            .find_map(Self::parse)
            .or_else(|| Self::of_jdk(text))
    }

    /// `openjdk 25 2025-09-16`, `java version "25" 2025-09-16 LTS`, `java 25 2025-09-16 LTS`.
    fn of_jdk(text: &str) -> Option<Self> {
        let named = ["openjdk version ", "openjdk ", "java version ", "java "];
        let behind = named.iter().find_map(|name| text.trim_start().strip_prefix(name))?;
        let major = behind.split_whitespace().next()?.trim_matches('"').split(['+', '-']).next()?;
        Some(Self(major.parse().ok()?, 0, 0))
    }

    fn parse(word: &str) -> Option<Self> {
        let mut parts = word.split('.').map(|part| part.parse::<u32>().ok());
        let (major, minor) = (parts.next()??, parts.next()??);
        Some(Self(major, minor, parts.next().flatten().unwrap_or(0)))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// How to install a missing tool. An empty text means that this way does not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Install<'a> {
    /// Package of Debian or Ubuntu.
    pub debian: &'a str,
    /// Component of rustup.
    pub rustup: &'a str,
}

impl fmt::Display for Install<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.rustup, self.debian) {
            ("", "") => formatter.write_str("install it with the system's package manager"),
            ("", debian) => write!(formatter, "run `apt-get install {debian}`"),
            (rustup, "") => write!(formatter, "run `rustup component add {rustup}`"),
            (rustup, debian) => {
                write!(formatter, "run `rustup component add {rustup}` or `apt-get install {debian}`")
            }
        }
    }
}

/// A description of a program: how to find it, ask for its version, and install it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool<'a> {
    /// The program's file name, for example `llvm-profdata`.
    pub name: &'a str,
    /// The environment variable that overrides every other way of finding it, for example `HONE_LLVM_PROFDATA`.
    pub env: &'a str,
    /// Arguments that make it print its version.
    pub version_args: &'a [&'a str],
    /// The oldest version that works.
    pub minimum: Option<Version>,
    /// How to install it.
    pub install: Install<'a>,
}

impl<'a> Tool<'a> {
    /// A tool that answers `--version`, in any version.
    pub const fn new(name: &'a str, env: &'a str) -> Self {
        let install = Install { debian: "", rustup: "" };
        Self { name, env, version_args: &["--version"], minimum: None, install }
    }

    /// Asks for the version with other arguments.
    #[must_use]
    pub const fn version_args(mut self, args: &'a [&'a str]) -> Self {
        self.version_args = args;
        self
    }

    /// Demands at least this version.
    #[must_use]
    pub const fn at_least(mut self, major: u32, minor: u32, patch: u32) -> Self {
        self.minimum = Some(Version(major, minor, patch));
        self
    }

    /// Names the Debian package.
    #[must_use]
    pub const fn debian(mut self, package: &'a str) -> Self {
        self.install.debian = package;
        self
    }

    /// Names the rustup component.
    #[must_use]
    pub const fn rustup(mut self, component: &'a str) -> Self {
        self.install.rustup = component;
        self
    }

    /// Finds the program: by the override variable, in the given folders (next to the compiler that it belongs to), in PATH.
    ///
    /// # Errors
    /// [`ToolError::NotFound`] with the places that were tried. An override that names no program is an error too: its user wants no other
    /// one.
    pub fn locate(&self, beside: &[PathBuf]) -> Result<LocatedTool, ToolError> {
        let path = env::var_os("PATH").unwrap_or_default();
        self.search(beside, Some(env::split_paths(&path).collect()))
    }

    /// Like [`Tool::locate`], but never from PATH: for tools that must come with the compiler whose files they read.
    ///
    /// # Errors
    /// As [`Tool::locate`].
    pub fn locate_beside(&self, beside: &[PathBuf]) -> Result<LocatedTool, ToolError> {
        self.search(beside, None)
    }

    fn search(&self, beside: &[PathBuf], path: Option<Vec<PathBuf>>) -> Result<LocatedTool, ToolError> {
        if let Some(given) = env::var_os(self.env).filter(|value| !value.is_empty()) {
            return self.overridden(PathBuf::from(given));
        }
        for folder in beside {
            let candidate = folder.join(self.name);
            if is_program(&candidate) {
                return Ok(self.found(candidate, Origin::Beside));
            }
        }
        let in_path = path.iter().flatten().filter(|folder| folder.is_absolute());
        if let Some(candidate) = in_path.map(|folder| folder.join(self.name)).find(|file| is_program(file)) {
            return Ok(self.found(candidate, Origin::Path));
        }
        let mut looked: Vec<String> =
            beside.iter().map(|folder| format!("not in {}", folder.display())).collect();
        if path.is_some() {
            looked.push("not in PATH".to_owned());
        }
        Err(self.not_found(looked))
    }

    fn overridden(&self, path: PathBuf) -> Result<LocatedTool, ToolError> {
        if is_program(&path) {
            let path = std::path::absolute(&path).unwrap_or(path);
            return Ok(self.found(path, Origin::Override));
        }
        let mut error =
            self.not_found(vec![format!("{}={} is not an executable file", self.env, path.display())]);
        if let ToolError::NotFound { next, .. } = &mut error {
            *next = format!("unset {}, or set it to the program", self.env);
        }
        Err(error)
    }

    fn found(&self, path: PathBuf, origin: Origin) -> LocatedTool {
        LocatedTool {
            name: self.name.to_owned(),
            path,
            origin,
            version_args: self.version_args.iter().map(|&arg| arg.to_owned()).collect(),
            minimum: self.minimum,
            next: self.next(),
        }
    }

    fn not_found(&self, looked: Vec<String>) -> ToolError {
        ToolError::NotFound { name: self.name.to_owned(), looked, next: self.next() }
    }

    fn next(&self) -> String {
        format!("{} (or set {} to the program)", self.install, self.env)
    }
}

/// How a program was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Named by the override variable.
    Override,
    /// In one of the given folders.
    Beside,
    /// In PATH.
    Path,
}

/// An existing program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedTool {
    name: String,
    path: PathBuf,
    origin: Origin,
    version_args: Vec<String>,
    minimum: Option<Version>,
    next: String,
}

impl LocatedTool {
    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its absolute path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How Hone found it.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Asks the program itself for its version, with a short time limit, and compares it with the minimum.
    ///
    /// # Errors
    /// [`ToolError::TooOld`]; [`ToolError::Unreadable`] if it can't be started, does not answer in time, or answers without a version.
    pub fn receipt(&self) -> Result<ToolReceipt, ToolError> {
        let says = self.ask().map_err(|reason| ToolError::Unreadable {
            what: format!("version of {}", self.path.display()),
            reason,
            next: format!("`{} {}` should print it; {}", self.name, self.version_args.join(" "), self.next),
        })?;
        if let Some(minimum) = self.minimum
            && Version::first_in(&says).is_none_or(|version| version < minimum)
        {
            return Err(self.too_old(says, minimum));
        }
        Ok(ToolReceipt {
            name: self.name.clone(),
            path: self.path.to_string_lossy().into_owned(),
            version: says,
        })
    }

    fn too_old(&self, says: String, minimum: Version) -> ToolError {
        ToolError::TooOld {
            name: self.name.clone(),
            path: self.path.clone(),
            says,
            minimum,
            next: self.next.clone(),
        }
    }

    fn ask(&self) -> Result<String, String> {
        let words = |error: std::io::Error| error.to_string();
        let call = Call::new("version", &self.path, "/").args(&self.version_args);
        let (mut stdout, mut stderr) =
            (tempfile::tempfile().map_err(words)?, tempfile::tempfile().map_err(words)?);
        let clones = (stdout.try_clone().map_err(words)?, stderr.try_clone().map_err(words)?);
        let mut group = Group::start(&call, clones.0, clones.1).map_err(words)?;
        let Some(status) = group.wait_until(Instant::now() + VERSION_LIMIT).map_err(words)? else {
            return Err(format!("no answer within {} s", VERSION_LIMIT.as_secs()));
        };
        let answer = read_back(&mut stdout).map_err(words)? + &read_back(&mut stderr).map_err(words)?;
        match version_line(&answer) {
            Some(line) if status.success() => Ok(line),
            _ => Err(format!("{}, answer \"{}\"", status_words(status), answer.trim().escape_debug())),
        }
    }
}

fn read_back(file: &mut File) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(VERSION_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The first line with a version number; some tools print a heading first.
fn version_line(answer: &str) -> Option<String> {
    answer.lines().map(str::trim).find(|line| Version::first_in(line).is_some()).map(str::to_owned)
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_say() {
        let check = |text: &str, version| assert_eq!(Version::first_in(text), version, "{text}");
        check("Debian clang version 22.1.8 (1~deb12u1)", Some(Version(22, 1, 8)));
        check("rustc 1.95.0 (59807616e 2026-04-14)", Some(Version(1, 95, 0)));
        check("kcat - Apache Kafka producer 1.7.1", Some(Version(1, 7, 1)));
        check("perf version 6.1.99-rc2", Some(Version(6, 1, 99)));
        check("4.2", Some(Version(4, 2, 0)));
        check("openjdk 25 2025-09-16", Some(Version(25, 0, 0)));
        check("java version \"26-ea\" 2026-03-17", Some(Version(26, 0, 0)));
        check("openjdk version \"17.0.15\" 2025-04-15", Some(Version(17, 0, 15)));
        check("no number, 17 and 99999999999.1 are none", None);
        assert!(Version(1, 9, 0) < Version(1, 10, 0));
    }

    #[test]
    fn a_heading_is_no_version() {
        assert_eq!(
            version_line("LLVM (http://llvm.org/):\n  LLVM version 22.1.2-rust-1.95.0-stable\n").as_deref(),
            Some("LLVM version 22.1.2-rust-1.95.0-stable")
        );
    }
}
