//! Reader of the pre-aggregated form from any tool. The input bytes are not trusted. The code is pure.
//!
//! | line | meaning |
//! |---|---|
//! | `B FROM TO COUNT [MISPREDICTED]` | a branch |
//! | `F FROM TO COUNT`, `f`, `r` | a fall-through stretch; `f` and `r` were entered from outside |
//! | `T FROM TO END COUNT`, `R` | a branch, and the stretch from its target to the next one; `R` begins with a return |
//! | `E EVENT` | the name of the event, for perf2bolt |
//! | `S AT COUNT` | a plain sample: rejected, since it shows where time goes and not how often code ran |
//!
//! An address may follow a build-id, `ID:ADDRESS`; `X` is an unknown object.

use std::io::{BufRead, Read as _};

use crate::model::{Branch, Branched, Fall};

/// A text that does not have this form, or has no counts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AggregatedFault {
    /// A line is invalid.
    #[error(
        "line {line}: {what}: \"{text}\"\n  next: correct the line; the form is `B FROM TO COUNT \
         MISPREDICTED` or `F FROM TO COUNT`"
    )]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        what: &'static str,
        /// Beginning of the line.
        text: String,
    },
    /// The text has clock samples.
    #[error(
        "line {line} is a plain sample (S): samples show where time goes, but not how often code ran\n  \
         next: {}",
        super::BRANCHES
    )]
    Samples {
        /// Number of the first one, from 1.
        line: usize,
    },
    /// The file can't be read.
    #[error("{0}")]
    Unreadable(String),
    /// The text has no count.
    #[error("it counts no branch and no stretch: did the program run during the recording?")]
    Nothing,
}

/// Length up to which a line is shown.
const SHOWN_CHARACTERS: usize = 80;

/// A longer line is invalid.
const MOST_LINE_BYTES: u64 = 4096;
/// Smallest number of records before those of one kind are summed.
const GATHERED: usize = 1 << 20;

/// Whether a text begins like this form.
pub fn begins(text: &[u8]) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    let first = lines.find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    first.starts_with(b"E ")
        || (first.get(1) == Some(&b' ') && line(first, None, &mut Gathered::default()).is_ok())
}

/// Reads a text line by line. It can be larger than the memory, since records of one branch are summed on the way. The result is sorted by
/// address. `build_id` is the program's: addresses with another one are outside it.
///
/// # Errors
/// Returns [`AggregatedFault`], with the line.
pub fn read(mut text: impl BufRead, build_id: Option<&str>) -> Result<Branched, AggregatedFault> {
    let mut found = Gathered::default();
    let mut number = 0;
    while next_line(&mut text, |bytes| {
        number += 1;
        line(bytes, build_id, &mut found).map_err(|wrong| wrong.at(number, bytes))
    })? {}
    let found = found.finish();
    let counts =
        found.branches.iter().map(|branch| branch.count).chain(found.falls.iter().map(|fall| fall.count));
    if counts.max().unwrap_or(0) == 0 {
        return Err(AggregatedFault::Nothing);
    }
    Ok(found)
}

/// Passes the next line on, in place if all of it is in the buffer; false after the last one.
fn next_line(
    text: &mut impl BufRead,
    mut take: impl FnMut(&[u8]) -> Result<(), AggregatedFault>,
) -> Result<bool, AggregatedFault> {
    let unreadable = |error: std::io::Error| AggregatedFault::Unreadable(error.to_string());
    // A signal does not end a file, so the slower way reads again.
    if let Some(end) = text.fill_buf().ok().and_then(|bytes| memchr::memchr(b'\n', bytes)) {
        take(&text.fill_buf().map_err(unreadable)?[..end])?;
        text.consume(end + 1);
        return Ok(true);
    }
    let mut bytes = Vec::new();
    let read = text.by_ref().take(MOST_LINE_BYTES).read_until(b'\n', &mut bytes).map_err(unreadable)?;
    if read > 0 {
        take(&bytes)?;
    }
    Ok(read > 0)
}

/// Source, target, count. [`NOWHERE`] is outside the program.
type Counted = (u64, u64, u64);

/// No code is at the last address.
const NOWHERE: u64 = u64::MAX;

/// Records so far, in as little memory as possible.
#[derive(Default)]
struct Gathered {
    branches: Sums,
    falls: Sums,
}

impl Gathered {
    fn branch(&mut self, from: Option<u64>, to: Option<u64>, count: u64) {
        self.branches.add((from.unwrap_or(NOWHERE), to.unwrap_or(NOWHERE), count));
    }

    /// A stretch outside the program is ignored.
    fn fall(&mut self, from: Option<u64>, to: Option<u64>, count: u64) {
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from <= to) {
            self.falls.add((from, to, count));
        }
    }

    fn finish(self) -> Branched {
        let known = |address| (address != NOWHERE).then_some(address);
        let branch = |(from, to, count)| Branch { from: known(from), to: known(to), count };
        let branches = self.branches.finish().into_iter().map(branch).collect();
        let falls = self.falls.finish().into_iter().map(|(from, to, count)| Fall { from, to, count });
        Branched { branches, falls: falls.collect() }
    }
}

/// Records of one kind. They are summed whenever they are twice as many as after the last sum, so memory depends on the number of different
/// ones.
#[derive(Default)]
struct Sums {
    records: Vec<Counted>,
    /// Number of records that are already summed.
    done: usize,
}

impl Sums {
    fn add(&mut self, record: Counted) {
        self.records.push(record);
        if self.records.len() >= GATHERED.max(2 * self.done) {
            self.add_up();
        }
    }

    fn add_up(&mut self) {
        // A single number is quick to compare.
        let order = |record: &Counted| (u128::from(record.0) << 64) | u128::from(record.1);
        self.records[self.done..].sort_unstable_by_key(order);
        // Two sorted parts, which this sort finds and merges.
        self.records.sort_by_key(order);
        self.records.dedup_by(|next, sum| {
            let is_same = (next.0, next.1) == (sum.0, sum.1);
            sum.2 = if is_same { sum.2.saturating_add(next.2) } else { sum.2 };
            is_same
        });
        self.done = self.records.len();
    }

    fn finish(mut self) -> Vec<Counted> {
        self.add_up();
        self.records
    }
}

enum Wrong {
    Sample,
    Line(&'static str),
}

impl Wrong {
    fn at(self, line: usize, text: &[u8]) -> AggregatedFault {
        match self {
            Self::Sample => AggregatedFault::Samples { line },
            Self::Line(what) => {
                let text = String::from_utf8_lossy(text.trim_ascii_end());
                AggregatedFault::Line { line, what, text: text.chars().take(SHOWN_CHARACTERS).collect() }
            }
        }
    }
}

fn line(text: &[u8], build_id: Option<&str>, found: &mut Gathered) -> Result<(), Wrong> {
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    match words.next() {
        None | Some(b"E") => Ok(()),
        Some(kind) => record(kind, words, build_id, found),
    }
}

fn record<'a>(
    kind: &[u8],
    mut words: impl Iterator<Item = &'a [u8]>,
    build_id: Option<&str>,
    found: &mut Gathered,
) -> Result<(), Wrong> {
    let mut place = || place(words.next(), build_id).map_err(Wrong::Line);
    match kind {
        b"B" => {
            let (from, to) = (place()?, place()?);
            found.branch(from, to, count(words.next())?);
            // The number of mispredictions is ignored, but must still be a number.
            words.next().map(|word| count(Some(word))).transpose()?;
        }
        b"F" | b"f" | b"r" => {
            let (from, to) = (place()?, place()?);
            found.fall(from, to, count(words.next())?);
        }
        b"T" | b"R" => {
            let (from, to, end) = (place()?, place()?, place()?);
            let count = count(words.next())?;
            found.branch(from, to, count);
            found.fall(to, end, count);
        }
        b"S" => return Err(Wrong::Sample),
        _ => return Err(Wrong::Line("it begins with none of B, F, f, r, T, R, E")),
    }
    words.next().map_or(Ok(()), |_| Err(Wrong::Line("there is text after the counts")))
}

fn place(word: Option<&[u8]>, build_id: Option<&str>) -> Result<Option<u64>, &'static str> {
    let word = word.ok_or("an address is missing")?;
    let colon = word.iter().position(|byte| *byte == b':');
    let (id, address) = colon.map_or((None, word), |at| (Some(&word[..at]), &word[at + 1..]));
    let address = hexadecimal(address).ok_or("an address is not a hex number")?;
    Ok((id.is_none() || id == build_id.map(str::as_bytes)).then_some(address))
}

fn count(word: Option<&[u8]>) -> Result<u64, Wrong> {
    let word = word.ok_or(Wrong::Line("a count is missing"))?;
    decimal(word).ok_or(Wrong::Line("a count is not a number"))
}

/// A number without a sign; `None` if it is not one, or too large.
fn hexadecimal(word: &[u8]) -> Option<u64> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let is_number = (1..=16).contains(&word.len());
    is_number.then(|| word.iter().try_fold(0, |sum, byte| Some((sum << 4) | u64::from(digit(*byte)?))))?
}

/// The same as [`hexadecimal`].
fn decimal(word: &[u8]) -> Option<u64> {
    let add = |sum: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    };
    (!word.is_empty()).then(|| word.iter().try_fold(0, add))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_line_is_read() {
        let text = "E br_inst_retired.near_taken:u\n\nB 1004 1000 8 0\nB X:7f00 1000 1\nF 1000 1004 9\nT 10 20 30 5\nr ab:1 ab:2 3\nf cd:1 cd:2 3\n";
        assert!(
            begins(text.as_bytes())
                && begins(b"B 1 2 3 0\n")
                && !begins(b"1 main 4 1 main 9 0 7\n")
                && !begins(b"Some words 1\n")
        );
        assert!(!begins(b"") && !begins("é".as_bytes()));
        let found = read(text.as_bytes(), Some("ab")).unwrap();
        let branch = |from, to, count| Branch { from, to, count };
        let branches = [
            branch(Some(0x10), Some(0x20), 5),
            branch(Some(0x1004), Some(0x1000), 8),
            branch(None, Some(0x1000), 1),
        ];
        assert_eq!(found.branches, branches);
        let fall = |from, to, count| Fall { from, to, count };
        assert_eq!(found.falls, [fall(1, 2, 3), fall(0x20, 0x30, 5), fall(0x1000, 0x1004, 9)]);
    }

    #[test]
    fn records_of_one_branch_are_added_up_however_many_there_are() {
        let mut gathered = Gathered::default();
        let lines: u64 = 3 * GATHERED as u64;
        for index in 0..lines {
            let from = Some(index % 1_000);
            gathered.branch(from, None, 2);
            gathered.fall(Some(7), Some(9), u64::MAX / 2);
            assert!(gathered.branches.records.len() < GATHERED && gathered.falls.records.len() < GATHERED);
        }
        let found = gathered.finish();
        assert_eq!((found.branches.len(), found.falls.len(), found.falls[0].count), (1_000, 1, u64::MAX));
        assert_eq!(found.branches.iter().map(|branch| branch.count).sum::<u64>(), 2 * lines);
    }

    #[test]
    fn a_file_that_breaks_off_and_a_line_without_an_end_are_told() {
        struct Broken;
        impl std::io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("the disk is gone"))
            }
        }
        let told = read(std::io::BufReader::new(Broken), None).unwrap_err();
        assert_eq!(told, AggregatedFault::Unreadable("the disk is gone".to_owned()));
        let told = read(&vec![b'B'; 1 << 20][..], None).unwrap_err().to_string();
        assert!(told.starts_with("line 1: it begins with none of"), "{}", told.len());
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_line() {
        let wrong = |text: &str| read(text.as_bytes(), None).unwrap_err().to_string();
        assert!(wrong("B 1 2 3 0\nB 1 2\n").starts_with("line 2: a count is missing"));
        assert!(wrong("B 1 g 2 0\n").contains("not a hex number: \"B 1 g 2 0\""));
        assert!(wrong("B 1 2 -3 0\n").contains("a count is not a number"));
        assert!(wrong("B 1 2 3 x\n").contains("a count is not a number"));
        assert!(wrong("F 1 2 99999999999999999999\n").contains("a count is not a number"));
        assert!(wrong("F 1 2 3 4\n").contains("text after the counts"));
        assert!(wrong("Q 1 2 3\n").contains("none of B, F"));
        assert!(wrong("S 41be50 3\n").contains("plain sample"));
        assert!(wrong("E cycles\nB 1 2 0 0\n").contains("did the program run"));
    }
}
