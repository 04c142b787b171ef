//! Checks whether a ledger is unchanged; pure.
//!
//! Every line has its own hash and the hashes of the lines that it follows: those without a successor at that time. That is one
//! line in a file that only grows, and several after a merge. So the lines are a directed acyclic graph, in the order of the
//! file.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::{Found, Line, TornLine};

/// The fault of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Its content does not match its hash.
    Edited,
    /// A line that it follows is missing, or has other content and another hash now.
    Deleted,
    /// A line that it follows comes after it.
    Reordered,
    /// It is not a line of a ledger.
    Foreign,
    /// A newer build wrote it, so it can't be checked.
    Newer,
}

impl Meaning {
    /// One word.
    pub fn label(self) -> &'static str {
        match self {
            Self::Edited => "edited",
            Self::Deleted => "deleted",
            Self::Reordered => "reordered",
            Self::Foreign => "foreign",
            Self::Newer => "newer",
        }
    }

    /// Its meaning, in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Edited => "this line was changed after it was written",
            Self::Deleted => "a line before this one was deleted, or was changed and got another hash",
            Self::Reordered => "lines were moved: this one precedes a line that it follows",
            Self::Foreign => "another program than Hone added or changed this line",
            Self::Newer => "a newer version of Hone wrote this line; use that version",
        }
    }
}

/// A changed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// Its fault.
    pub meaning: Meaning,
    /// The expected content, in words.
    pub expected: String,
    /// The actual content, in words.
    pub found: String,
}

/// A line that no other line follows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// Counted from 1.
    pub line: usize,
    /// Its hash.
    pub hash: String,
}

/// A duplicate line, which a merge of the same lines can create. It counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// Counted from 1.
    pub line: usize,
    /// The number of its first occurrence.
    pub first: usize,
}

/// The contents of a ledger, and its faults.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// The entries in the order of the file, without duplicates.
    pub lines: Vec<Line>,
    /// Partial lines of killed writers, in the order of the file.
    pub torn: Vec<TornLine>,
    /// Duplicate lines.
    pub repeated: Vec<Repeated>,
    /// The lines without a successor: the next entry follows all of them. If you know these hashes from another source, you can
    /// prove that nothing was cut off at the end.
    pub heads: Vec<Head>,
    /// The faults, in the order of the file.
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Entries of builds without a chain. Changes to them can't be detected until a chained line follows them.
    pub fn unchained(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.is_chained)
    }
}

/// Checks every line against its hash, and against those that it follows.
pub(crate) fn check(found: impl Iterator<Item = (usize, Found)>) -> Checked {
    let mut checked = Checked::default();
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    for (number, found) in found {
        match found {
            Found::Entry(line, computed) => {
                if line.hash != computed {
                    checked.faults.push(edited(&line, &computed));
                } else if let Some(first) = first.get(&line.hash) {
                    checked.repeated.push(Repeated { line: number, first: *first });
                    continue;
                }
                first.entry(line.hash.clone()).or_insert(number);
                checked.lines.push(*line);
            }
            Found::Torn(torn) => checked.torn.push(torn),
            Found::Newer(version) => checked.faults.push(newer(number, version)),
            Found::Foreign(why) => checked.faults.push(foreign(number, why)),
        }
    }
    let followed: BTreeSet<&str> =
        checked.lines.iter().flat_map(|line| &line.parents).map(String::as_str).collect();
    let is_head = |line: &&Line| !followed.contains(line.hash.as_str());
    checked.heads = checked
        .lines
        .iter()
        .filter(is_head)
        .map(|line| Head { line: line.number, hash: line.hash.clone() })
        .collect();
    let broken: Vec<Fault> =
        checked.lines.iter().flat_map(|line| broken_links(line, &first, &checked)).collect();
    checked.faults.extend(broken);
    checked.faults.sort_by_key(|fault| fault.line);
    checked
}

fn edited(line: &Line, computed: &str) -> Fault {
    Fault {
        line: line.number,
        meaning: Meaning::Edited,
        expected: format!("content with the SHA-256 of the line, {}", line.hash),
        found: format!("content with {computed}"),
    }
}

fn newer(line: usize, version: u64) -> Fault {
    let expected = format!("a line of version {} or less", crate::lines::LINE_VERSION);
    Fault { line, meaning: Meaning::Newer, expected, found: format!("version {version}") }
}

fn foreign(line: usize, found: String) -> Fault {
    Fault { line, meaning: Meaning::Foreign, expected: "a line of a ledger".to_owned(), found }
}

/// The predecessors of a line that are not before it.
fn broken_links(line: &Line, first: &BTreeMap<String, usize>, checked: &Checked) -> Vec<Fault> {
    let broken = |parent: &String| match first.get(parent) {
        Some(number) if *number < line.number => None,
        Some(number) => Some(Fault {
            line: line.number,
            meaning: Meaning::Reordered,
            expected: format!("the line with SHA-256 {parent} before this one"),
            found: format!("it is line {number}"),
        }),
        None => Some(Fault {
            line: line.number,
            meaning: Meaning::Deleted,
            expected: format!("the line with SHA-256 {parent} before this one"),
            found: instead(line.number, checked),
        }),
    };
    line.parents.iter().filter_map(broken).collect()
}

/// The possible replacement of a missing line.
fn instead(before: usize, checked: &Checked) -> String {
    let heads = checked.heads.iter().map(|head| head.line);
    let odd = checked.faults.iter().filter(|fault| fault.meaning == Meaning::Foreign).map(|fault| fault.line);
    let torn = checked.torn.iter().map(|torn| torn.line);
    let nearest = heads.chain(odd).chain(torn).filter(|line| *line < before).max();
    match nearest {
        Some(line) => format!(
            "no line has it; line {line}, which has no successor, may be a changed version \
             of it"
        ),
        None => "no line has it".to_owned(),
    }
}
