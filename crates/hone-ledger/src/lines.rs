//! From the bytes of a file to entries and torn lines; pure.

use std::path::Path;

use hone_record::{Envelope, LedgerEntry, RecordError};

use crate::LedgerError;

/// How every line of a ledger begins. A torn line is a piece of one, so it begins with this or is a piece of this.
const HEAD: &[u8] = b"{\"hone_record\":";

/// What a ledger holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contents {
    /// Oldest first.
    pub entries: Vec<LedgerEntry>,
    /// What killed writers left behind, in the order of the file.
    pub torn: Vec<TornLine>,
}

/// A line that a writer could not finish. It stays in the file; its entry did not get in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornLine {
    /// Counted from 1.
    pub line: usize,
    /// What is there of it; bytes that are not UTF-8 are shown as U+FFFD.
    pub text: String,
}

/// Whether the last line has no end, so that the next entry must begin with one.
pub(crate) fn ends_torn(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|last| *last != b'\n')
}

/// Reads the whole file. `path` is only for the words of an error.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<Contents, LedgerError> {
    let mut contents = Contents::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.is_empty() {
            continue;
        }
        let number = index + 1;
        match read_line(line) {
            Line::Entry(entry) => contents.entries.push(*entry),
            Line::Torn => contents
                .torn
                .push(TornLine { line: number, text: String::from_utf8_lossy(line).into_owned() }),
            Line::Newer(source) => {
                return Err(LedgerError::Newer { path: path.to_owned(), line: number, source });
            }
            Line::Foreign(why) => {
                return Err(LedgerError::Foreign { path: path.to_owned(), line: number, why });
            }
        }
    }
    Ok(contents)
}

enum Line {
    Entry(Box<LedgerEntry>),
    Torn,
    Newer(RecordError),
    Foreign(String),
}

fn read_line(line: &[u8]) -> Line {
    let Ok(text) = std::str::from_utf8(line) else {
        return unreadable(line, "not UTF-8".to_owned());
    };
    match Envelope::<LedgerEntry>::parse(text) {
        Ok(entry) => Line::Entry(Box::new(entry)),
        Err(error @ RecordError::Newer { .. }) => Line::Newer(error),
        // A cut makes JSON that stops too early, or, behind `0.`, a malformed number. Well-formed JSON of another shape
        // was written on purpose by somebody else.
        Err(RecordError::Shape { source, .. }) if !source.is_data() => unreadable(line, source.to_string()),
        Err(error) => Line::Foreign(error.to_string()),
    }
}

/// A piece of one of our lines, or something else?
fn unreadable(line: &[u8], why: String) -> Line {
    if line.starts_with(HEAD) || HEAD.starts_with(line) { Line::Torn } else { Line::Foreign(why) }
}
