//! The end of a log file, ready to show.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// The most bytes that are read from the end of a log.
const TAIL_BYTES: u64 = 16 * 1024;

/// Length limit of a line.
const LINE_CHARS: usize = 300;

/// The last lines that are not blank, oldest first. Empty if the file can't be read, because a missing log must not hide the error that it
/// belongs to.
pub(crate) fn last_lines(path: &Path, count: usize) -> Vec<String> {
    let mut lines = lines_of(&tail_bytes(path));
    lines.split_off(lines.len().saturating_sub(count))
}

/// The last line that is not blank.
pub(crate) fn last_line(path: &Path) -> Option<String> {
    lines_of(&tail_bytes(path)).pop()
}

fn tail_bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(mut file) = File::open(path) {
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let sought = file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)));
        if sought.is_ok() && file.take(TAIL_BYTES).read_to_end(&mut bytes).is_err() {
            bytes.clear();
        }
    }
    bytes
}

/// Splits at line feeds and at carriage returns (progress bars), and removes terminal control sequences.
fn lines_of(bytes: &[u8]) -> Vec<String> {
    bytes
        .split(|&byte| byte == b'\n' || byte == b'\r')
        .map(|line| shown(&String::from_utf8_lossy(line)))
        .filter(|line| !line.trim().is_empty())
        .collect()
}

fn shown(line: &str) -> String {
    let mut out = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            // A control sequence ends with a letter or with `~`.
            '\u{1b}' => while chars.next().is_some_and(|c| !(c.is_ascii_alphabetic() || c == '~')) {},
            '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    if out.chars().count() > LINE_CHARS {
        out = out.chars().take(LINE_CHARS).chain(" ...".chars()).collect();
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_plain_text() {
        let lines = lines_of(b"\x1b[1m\x1b[32m   Compiling\x1b[0m a\r  50%\r 100%\n\n\tb\x07\xff\n");
        assert_eq!(lines, ["   Compiling a", "  50%", " 100%", " b\u{fffd}"]);
    }

    #[test]
    fn a_long_line_is_cut() {
        assert_eq!(lines_of("é".repeat(1000).as_bytes())[0].chars().count(), LINE_CHARS + 4);
    }

    #[test]
    fn a_missing_log_has_no_lines() {
        assert!(last_lines(Path::new("/nonexistent/log"), 3).is_empty());
    }
}
