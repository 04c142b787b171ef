//! The log of the compiler wrappers.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::command::{Action, Command, Input, Language};
use crate::elf::sha256_hex;

/// One action of a compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The name on its command line.
    pub name: String,
    /// The real compiler.
    pub compiler: PathBuf,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its action.
    pub action: Action,
    /// Whether it was only a test of a configure script.
    pub probe: bool,
    /// Its inputs.
    pub inputs: Vec<Used>,
    /// Its outputs.
    pub outputs: Vec<Made>,
    /// Flags that were added.
    pub added: Vec<String>,
    /// The map of the link.
    pub map: Option<PathBuf>,
    /// Exit code; 128 and more for signals.
    pub status: i32,
}

impl Entry {
    /// Whether the compiler proper ran with the flags of the phase (possibly none).
    pub fn saw_flags(&self) -> bool {
        self.status == 0 && !self.probe && self.action.compiles()
    }
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// Absolute.
    pub path: PathBuf,
    /// What it is.
    pub language: Language,
    /// SHA-256 in hex, of assembly and of single objects.
    pub sha256: Option<String>,
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Absolute.
    pub path: PathBuf,
    /// SHA-256 in hex; `None` if it does not exist, or is not a plain file (`/dev/null`).
    pub sha256: Option<String>,
}

pub(super) fn used(command: &Command, cwd: &Path) -> Vec<Used> {
    let matters = |path: &Path, language| match language {
        Language::Assembly => true,
        // Libraries are large, and are parsed later.
        Language::Object => path.extension().is_some_and(|end| end != "a" && end != "so"),
        Language::Source | Language::Header => false,
    };
    let note = |input: &Input| {
        let path = cwd.join(&input.path);
        let sha256 = if matters(&path, input.language) { hash_of(&path) } else { None };
        Used { path, language: input.language, sha256 }
    };
    command.inputs.iter().map(note).collect()
}

pub(super) fn made(command: &Command, cwd: &Path) -> Vec<Made> {
    let note = |output: PathBuf| {
        let path = cwd.join(output);
        Made { sha256: hash_of(&path), path }
    };
    command.outputs().into_iter().map(note).collect()
}

fn hash_of(path: &Path) -> Option<String> {
    if !path.metadata().ok()?.is_file() {
        return None;
    }
    fs::read(path).ok().map(|bytes| sha256_hex(&bytes))
}

/// Appends one line by one write: the kernel does not interleave such writes of several processes.
pub(super) fn append(log: &Path, entry: &Entry) -> Result<()> {
    let mut line = serde_json::to_vec(&in_text(entry))?;
    line.push(b'\n');
    append_bytes(log, &line)
}

/// The entry with paths as texts: JSON has no others, and a build must not fail because of a folder's name.
fn in_text(entry: &Entry) -> Entry {
    let text = |path: &Path| PathBuf::from(path.to_string_lossy().into_owned());
    let mut entry = entry.clone();
    entry.cwd = text(&entry.cwd);
    entry.inputs.iter_mut().for_each(|input| input.path = text(&input.path));
    entry.outputs.iter_mut().for_each(|output| output.path = text(&output.path));
    entry
}

/// Appends one compiler's messages; completes the last line.
pub(super) fn append_words(file: &Path, words: &[u8]) -> Result<()> {
    if words.is_empty() {
        return Ok(());
    }
    let mut words = words.to_vec();
    if !words.ends_with(b"\n") {
        words.push(b'\n');
    }
    append_bytes(file, &words)
}

fn append_bytes(log: &Path, bytes: &[u8]) -> Result<()> {
    let told = || format!("{} can't be written", log.display());
    let mut file = OpenOptions::new().append(true).create(true).open(log).with_context(told)?;
    let written = file.write(bytes).with_context(told)?;
    ensure!(
        written == bytes.len(),
        "{} took only {written} of {} bytes; free some disk space",
        log.display(),
        bytes.len()
    );
    Ok(())
}

/// Reads a log.
///
/// # Errors
/// Fails at the first line that is not an entry, with its number.
pub fn read_log(text: &str) -> Result<Vec<Entry>> {
    let entry = |(at, line): (usize, &str)| {
        serde_json::from_str(line)
            .with_context(|| format!("line {} of the compilers' log is not valid", at + 1))
    };
    text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()).map(entry).collect()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_folder_whose_name_is_no_text_does_not_break_the_build() {
        let dir = tempfile::tempdir().unwrap();
        let cwd = Path::new(OsStr::from_bytes(b"/src/\xff"));
        let words = ["-c".to_owned(), "a.c".to_owned()];
        let command = Command::parse(&words, cwd);
        let entry = Entry {
            name: "cc".to_owned(),
            compiler: "/usr/bin/cc".into(),
            cwd: cwd.to_path_buf(),
            action: command.action,
            probe: false,
            inputs: used(&command, cwd),
            outputs: made(&command, cwd),
            added: Vec::new(),
            map: None,
            status: 0,
        };
        let log = dir.path().join("log");
        append(&log, &entry).unwrap();
        let read = read_log(&fs::read_to_string(&log).unwrap()).unwrap();
        assert_eq!(read[0].cwd, Path::new("/src/\u{fffd}"));
    }
}
