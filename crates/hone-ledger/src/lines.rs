//! From the bytes of a file to its lines, and from an entry to its line; pure.

use hone_record::{Body as _, LedgerEntry};
use serde::Deserialize;

use crate::canonical::{self, Json, NotOne};

/// The start of every line of a ledger. A torn line is a part of one, so it starts with this or is a part of this.
const HEAD: &[u8] = b"{\"hone_record\":";

/// Markers of git for lines that it could not merge, including those of the common ancestor (`merge.conflictStyle = diff3`).
const MARKS: [&[u8]; 4] = [b"<<<<<<< ", b"||||||| ", b"=======", b">>>>>>> "];

/// Version of the lines that this build writes: chained. Version 1 is an entry in a plain envelope, without hash and
/// predecessors.
pub const LINE_VERSION: u64 = 2;

/// Version of lines that are not chained.
const UNCHAINED: u64 = 1;

/// An entry with its place in the chain.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its line number in the file, counted from 1.
    pub number: usize,
    /// Its identity for later lines: its SHA-256, hex. A chained line has it; for an older line it is computed from its content.
    pub hash: String,
    /// The hashes of the lines that it follows: several after a merge, none at the start and in older lines.
    pub parents: Vec<String>,
    /// Whether it has its hash and its predecessors. Lines of older builds do not.
    pub is_chained: bool,
    /// The entry.
    pub entry: LedgerEntry,
}

/// A line that its writer did not finish. It stays in the file, but its entry was not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornLine {
    /// Counted from 1.
    pub line: usize,
    /// Its content, without the zeros of a power cut. Bytes that are not UTF-8 appear as U+FFFD.
    pub text: String,
}

/// The content of one line of a file.
#[derive(Debug)]
pub(crate) enum Found {
    /// An entry, and the hash of its content.
    Entry(Box<Line>, String),
    Torn(TornLine),
    /// A line of a newer version.
    Newer(u64),
    /// A line that can't belong to a ledger, and the reason.
    Foreign(String),
}

/// Whether the last line has no line feed, so that the next entry must start with one.
pub(crate) fn ends_torn(bytes: &[u8]) -> bool {
    bytes.last().is_some_and(|last| *last != b'\n')
}

/// Whether the line with this number has none; it is then the last one. A complete entry may lack it, too, after an editor.
pub(crate) fn ends_at(bytes: &[u8], line: usize) -> bool {
    ends_torn(bytes) && bytes.split(|byte| *byte == b'\n').count() == line
}

/// Each line that is not empty, with its number.
pub(crate) fn read(bytes: &[u8]) -> impl Iterator<Item = (usize, Found)> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    let all = lines.filter(|(_, line)| !line.is_empty());
    all.map(|(index, line)| (index + 1, read_line(index + 1, line)))
}

fn read_line(number: usize, line: &[u8]) -> Found {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        // Text after a complete line can't come from a cut, even if it is not UTF-8.
        Err(error) => {
            let before = line.get(..error.valid_up_to()).unwrap_or_default();
            let is_behind_one = std::str::from_utf8(before).is_ok_and(begins_whole);
            let why = "not UTF-8".to_owned();
            return if is_behind_one { Found::Foreign(why) } else { unreadable(number, line, why) };
        }
    };
    match serde_json::from_str::<Head>(text) {
        Ok(head) => entry(number, text, head).unwrap_or_else(|found| found),
        // A cut makes JSON that ends too early, or, after `0.`, a malformed number. Well-formed JSON of
        // another shape was written on purpose by another program. Text after a complete line can't come from
        // a cut, since it would be another line.
        Err(error) if !error.is_data() && (!begins_whole(text) || is_one_with_zeros(text)) => {
            unreadable(number, line, error.to_string())
        }
        Err(error) => Found::Foreign(error.to_string()),
    }
}

/// Whether it starts with a complete line: two lines without the line feed between them.
fn begins_whole(text: &str) -> bool {
    matches!(
        serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>().next(),
        Some(Ok(_))
    )
}

/// Whether only its line feed was replaced by zeros.
fn is_one_with_zeros(text: &str) -> bool {
    let there = written(text.as_bytes());
    there.len() < text.len() && serde_json::from_slice::<serde::de::IgnoredAny>(there).is_ok()
}

/// The envelope of an entry.
#[derive(Debug, Deserialize)]
struct Head {
    hone_record: Option<u64>,
    kind: Option<String>,
    hash: Option<String>,
    parents: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct Whole {
    body: LedgerEntry,
}

fn entry(number: usize, text: &str, head: Head) -> Result<Found, Found> {
    let foreign = |why: String| Found::Foreign(why);
    let (Some(version), Some(kind)) = (head.hone_record, head.kind) else {
        return Err(foreign("not a Hone record".to_owned()));
    };
    if version > LINE_VERSION {
        return Err(Found::Newer(version));
    }
    if kind != LedgerEntry::KIND {
        return Err(foreign(format!("the record has the kind `{kind}` instead of `{}`", LedgerEntry::KIND)));
    }
    let is_chained = version != UNCHAINED;
    let computed = hash_of(text, is_chained).map_err(|problem| match problem {
        NotOne::Twice(name) => foreign(format!("its member `{name}` occurs twice")),
        NotOne::Malformed => foreign("it is not well-formed JSON".to_owned()),
        NotOne::TooDeep => foreign("it is nested more deeply than any entry".to_owned()),
    })?;
    let (hash, parents) = if is_chained {
        let said = head.hash.filter(|hash| is_hash(hash));
        let parents = head.parents.filter(|parents| parents.iter().all(|parent| is_hash(parent)));
        let missing = || foreign("its hash, or those of its predecessors, are missing".to_owned());
        said.zip(parents).ok_or_else(missing)?
    } else {
        (computed.clone(), Vec::new())
    };
    let Whole { body } = serde_json::from_str(text)
        .map_err(|error| foreign(format!("not a readable {} record: {error}", LedgerEntry::KIND)))?;
    Ok(Found::Entry(Box::new(Line { number, hash, parents, is_chained, entry: body }), computed))
}

/// The hash of a line's content: of all its members except for the hash itself.
fn hash_of(text: &str, is_chained: bool) -> Result<String, NotOne> {
    let mut whole = canonical::read(text)?;
    if let Json::Object(members) = &mut whole {
        members.retain(|(name, _)| !(is_chained && name == "hash"));
    }
    Ok(canonical::hash(&whole))
}

/// 64 hexadecimal digits in lower case.
fn is_hash(text: &str) -> bool {
    let is_digit = |letter: char| letter.is_ascii_digit() || ('a'..='f').contains(&letter);
    text.len() == 64 && text.chars().all(is_digit)
}

/// The rest of a line after a power cut: a file may have its new length on the disk before its new bytes, and zeros there.
fn written(line: &[u8]) -> &[u8] {
    let end = line.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &line[..end]
}

/// Whether it is a part of one of our lines.
fn unreadable(number: usize, line: &[u8], why: String) -> Found {
    let there = written(line);
    if there.starts_with(HEAD) || HEAD.starts_with(there) {
        Found::Torn(TornLine { line: number, text: String::from_utf8_lossy(there).into_owned() })
    } else if MARKS.iter().any(|mark| line.starts_with(mark)) {
        Found::Foreign(
            "it is a marker of an unfinished git merge: keep all lines of both sides, and delete the markers"
                .to_owned(),
        )
    } else {
        Found::Foreign(why)
    }
}

/// The line of an entry that follows these, with its line feed, and its hash. It is parsed again before it is written.
///
/// # Errors
/// In words, if it can't be parsed. JSON has no NaN: its writer makes `null` of it.
pub(crate) fn write(entry: &LedgerEntry, parents: &[String]) -> Result<(String, String), String> {
    let numbers = entry.ratio.into_iter().flatten().chain(entry.values.into_iter().flatten());
    if !numbers.chain(entry.confidence).all(f64::is_finite) {
        return Err("one of its numbers is not finite".to_owned());
    }
    let told = |error: serde_json::Error| error.to_string();
    let (kind, parents) = (LedgerEntry::KIND, serde_json::to_string(parents).map_err(told)?);
    let body = serde_json::to_string(entry).map_err(told)?;
    let with = |hash: &str| {
        format!(
            "{{\"hone_record\":{LINE_VERSION},\"kind\":\"{kind}\",{hash}\"parents\":{parents},\"body\":{body}}}"
        )
    };
    let hash = hash_of(&with(""), true).map_err(|problem| format!("{problem:?}"))?;
    let text = with(&format!("\"hash\":\"{hash}\","));
    match read_line(0, text.as_bytes()) {
        Found::Entry(_, computed) if computed == hash => Ok((text + "\n", hash)),
        Found::Foreign(why) => Err(why),
        Found::Entry(..) | Found::Torn(_) | Found::Newer(_) => {
            Err("its text is not a line of a ledger".to_owned())
        }
    }
}
