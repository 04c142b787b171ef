//! Whether a ledger is what its writers wrote; pure.
//!
//! Every line says its own hash and the hashes of the lines that it follows: those that nobody followed when it was written, which are one
//! in a file that only grows, and several behind a merge. So the lines are a directed graph without cycles, in the order of the file.

use std::collections::{BTreeMap, BTreeSet};

use crate::lines::{Found, Line, TornLine};

/// What is wrong with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Its content is not what its hash was made of.
    Edited,
    /// A line that it follows is not there, or has another content and hash now.
    Deleted,
    /// A line that it follows stands behind it.
    Reordered,
    /// No line of a ledger.
    Foreign,
    /// Written by a newer build; nothing can be said of it.
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

    /// What it means, in a sentence.
    pub fn words(self) -> &'static str {
        match self {
            Self::Edited => "this line was changed after it was written",
            Self::Deleted => "a line before this one was deleted, or was changed and given another hash",
            Self::Reordered => "lines were moved: this one stands before a line that it follows",
            Self::Foreign => "this line was put there, or changed, by something else than Hone",
            Self::Newer => "this line is of a newer Hone; use that one",
        }
    }
}

/// A line that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Counted from 1.
    pub line: usize,
    /// What is wrong.
    pub meaning: Meaning,
    /// What should be there, in words.
    pub expected: String,
    /// What is there, in words.
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

/// A line that stands there more than once, as merges of the same lines can make it. It counts once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// Counted from 1.
    pub line: usize,
    /// Where it stood first.
    pub first: usize,
}

/// What a ledger holds, and whether it is what was written.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checked {
    /// The entries in the order of the file, each once.
    pub lines: Vec<Line>,
    /// What killed writers left behind, in the order of the file.
    pub torn: Vec<TornLine>,
    /// Lines that stand there again.
    pub repeated: Vec<Repeated>,
    /// The lines that nobody follows: the next entry follows all of them. Whoever knows these hashes from elsewhere knows that nothing was cut
    /// off at the end.
    pub heads: Vec<Head>,
    /// What is wrong, in the order of the file.
    pub faults: Vec<Fault>,
}

impl Checked {
    /// Entries of builds from before there was a chain, which anybody may have changed until a chained line followed them.
    pub fn unchained(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| !line.is_chained)
    }
}

/// Holds every line against its hash, and against those that it follows.
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
        expected: format!("content with the SHA-256 that the line says, {}", line.hash),
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

/// The lines that a line follows and that are not before it.
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

/// What may stand in the place of a line that is not there.
fn instead(before: usize, checked: &Checked) -> String {
    let heads = checked.heads.iter().map(|head| head.line);
    let odd = checked.faults.iter().filter(|fault| fault.meaning == Meaning::Foreign).map(|fault| fault.line);
    let torn = checked.torn.iter().map(|torn| torn.line);
    let nearest = heads.chain(odd).chain(torn).filter(|line| *line < before).max();
    match nearest {
        Some(line) => format!("no line has it; line {line}, which no line follows, may be what became of it"),
        None => "no line has it".to_owned(),
    }
}
