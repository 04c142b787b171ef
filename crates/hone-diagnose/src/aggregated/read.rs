//! The reader of the pre-aggregated form, whoever wrote it. Read from bytes that are not trusted. Pure.
//!
//! | line | meaning |
//! |---|---|
//! | `B FROM TO COUNT [MISPREDICTED]` | a branch |
//! | `F FROM TO COUNT`, `f`, `r` | a stretch that fell through; `f` and `r` were entered from outside |
//! | `T FROM TO END COUNT`, `R` | a branch, and the stretch from its target to the next one; `R` begins with a return |
//! | `E EVENT` | the name of the event, for perf2bolt |
//! | `S AT COUNT` | a plain sample: refused, since it says where time goes and not how often code ran |
//!
//! An address may stand behind a build id, `ID:ADDRESS`; `X` is an object that nobody knows.

use crate::model::{Branch, Branched, Fall};

/// A text that is none of this form, or says nothing of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregatedFault {
    /// A line that makes no sense.
    #[error(
        "line {line}: {what}: \"{text}\"\n  next: write it anew; a line is `B FROM TO COUNT MISPREDICTED` or `F FROM TO COUNT`"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
        /// Its beginning.
        text: String,
    },
    /// Samples of the clock.
    #[error(
        "line {line} is a plain sample (S): samples say where time goes, and not how often code ran\n  next: {}",
        super::BRANCHES
    )]
    Samples {
        /// The first one, from 1.
        line: usize,
    },
    /// Nothing is counted.
    #[error("it counts no branch and no stretch: did anything run while it was taken?")]
    Nothing,
}

/// A line is shown as far as this.
const SHOWN_CHARACTERS: usize = 80;

/// Whether a text begins as this form does.
pub fn begins(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    first.starts_with("E ")
        || (first.get(1..2) == Some(" ") && line(first, None, &mut Branched::default()).is_ok())
}

/// Reads a text. `build_id` is that of the program: addresses that name another one are outside of it.
///
/// # Errors
/// [`AggregatedFault`], with the line.
pub fn read(text: &str, build_id: Option<&str>) -> Result<Branched, AggregatedFault> {
    let mut found = Branched::default();
    for (index, text) in text.lines().enumerate() {
        line(text, build_id, &mut found).map_err(|wrong| match wrong {
            Wrong::Sample => AggregatedFault::Samples { line: index + 1 },
            Wrong::Line(what) => {
                let text = text.chars().take(SHOWN_CHARACTERS).collect();
                AggregatedFault::Line { line: index + 1, what, text }
            }
        })?;
    }
    let counts =
        found.branches.iter().map(|branch| branch.count).chain(found.falls.iter().map(|fall| fall.count));
    if counts.max().unwrap_or(0) == 0 {
        return Err(AggregatedFault::Nothing);
    }
    Ok(found)
}

enum Wrong {
    Sample,
    Line(&'static str),
}

fn line(text: &str, build_id: Option<&str>, found: &mut Branched) -> Result<(), Wrong> {
    let mut words = text.split_ascii_whitespace();
    let Some(kind) = words.next() else { return Ok(()) };
    if kind == "E" {
        return Ok(());
    }
    let words: Vec<&str> = words.collect();
    let place = |at: usize| place(words.get(at).copied(), build_id).map_err(Wrong::Line);
    let count = |at: usize| count(words.get(at).copied()).map_err(Wrong::Line);
    let all = match kind {
        "B" => {
            found.branches.push(Branch { from: place(0)?, to: place(1)?, count: count(2)? });
            // Whether it was foretold is of no interest here, and must be a number all the same.
            words.get(3).map(|_| count(3)).transpose()?;
            4
        }
        "F" | "f" | "r" => {
            found.falls.extend(fall(place(0)?, place(1)?, count(2)?));
            3
        }
        "T" | "R" => {
            let (to, count) = (place(1)?, count(3)?);
            found.branches.push(Branch { from: place(0)?, to, count });
            found.falls.extend(fall(to, place(2)?, count));
            4
        }
        "S" => return Err(Wrong::Sample),
        _ => return Err(Wrong::Line("it begins with none of B, F, f, r, T, R, E")),
    };
    if words.len() > all { Err(Wrong::Line("more behind the counts")) } else { Ok(()) }
}

/// A stretch outside of the program is none.
fn fall(from: Option<u64>, to: Option<u64>, count: u64) -> Option<Fall> {
    let (from, to) = from.zip(to).filter(|(from, to)| from <= to)?;
    Some(Fall { from, to, count })
}

fn place(word: Option<&str>, build_id: Option<&str>) -> Result<Option<u64>, &'static str> {
    let word = word.ok_or("an address is missing")?;
    let (id, address) = word.split_once(':').map_or((None, word), |(id, address)| (Some(id), address));
    let address = u64::from_str_radix(address, 16).map_err(|_| "an address is no number in hex")?;
    Ok((id.is_none() || id == build_id).then_some(address))
}

fn count(word: Option<&str>) -> Result<u64, &'static str> {
    word.ok_or("a count is missing")?.parse().map_err(|_| "a count is no number")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "E br_inst_retired.near_taken:u\n\nB 1004 1000 8 0\nB X:7f00 1000 1\nF 1000 1004 9\nT 10 20 30 5\nr ab:1 ab:2 3\nf cd:1 cd:2 3\n";
        assert!(
            begins(text)
                && begins("B 1 2 3 0\n")
                && !begins("1 main 4 1 main 9 0 7\n")
                && !begins("Some words 1\n")
        );
        assert!(!begins("") && !begins("é"));
        let found = read(text, Some("ab")).unwrap();
        let branch = |from, to, count| Branch { from, to, count };
        let branches = [
            branch(Some(0x1004), Some(0x1000), 8),
            branch(None, Some(0x1000), 1),
            branch(Some(0x10), Some(0x20), 5),
        ];
        assert_eq!(found.branches, branches);
        let fall = |from, to, count| Fall { from, to, count };
        assert_eq!(found.falls, [fall(0x1000, 0x1004, 9), fall(0x20, 0x30, 5), fall(1, 2, 3)]);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let wrong = |text: &str| read(text, None).unwrap_err().to_string();
        assert!(wrong("B 1 2 3 0\nB 1 2\n").starts_with("line 2: a count is missing"));
        assert!(wrong("B 1 g 2 0\n").contains("no number in hex: \"B 1 g 2 0\""));
        assert!(wrong("B 1 2 -3 0\n").contains("a count is no number"));
        assert!(wrong("B 1 2 3 x\n").contains("a count is no number"));
        assert!(wrong("F 1 2 99999999999999999999\n").contains("a count is no number"));
        assert!(wrong("F 1 2 3 4\n").contains("more behind the counts"));
        assert!(wrong("Q 1 2 3\n").contains("none of B, F"));
        assert!(wrong("S 41be50 3\n").contains("plain sample"));
        assert!(wrong("E cycles\nB 1 2 0 0\n").contains("did anything run"));
    }
}
