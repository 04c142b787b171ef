//! BOLT's profile as text (`.fdata`): a reader, a writer, and a weighted merge.
//!
//! One record a line, one blank between fields, offsets in hex, counts in decimal:
//!
//! | line | meaning |
//! |---|---|
//! | `boltedcollection` | first line, when the profile was taken from a program that BOLT had rewritten |
//! | `no_lbr EVENT...` | then, when the records are plain samples |
//! | `K NAME OFF K NAME OFF MISPREDICTED COUNT` | a branch; `K` is 0 (a DSO or `[unknown]`), 1 (a symbol) or 2 (a local symbol) |
//! | `K NAME OFF COUNT` | a plain sample |
//! | `K NAME OFF K NAME OFF COUNT` | a memory access, with `K` 3, 4, 5; after all others, or BOLT passes over what follows |
//!
//! A blank or a backslash in a name stands behind a backslash. BOLT reads no count above `i64::MAX`.

use std::collections::HashMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use memchr::{memchr, memchr2, memrchr};
use rustc_hash::FxHasher;

/// The largest count that BOLT reads.
pub const LARGEST_COUNT: u64 = i64::MAX as u64;

/// Bytes per read. A C++ name can have tens of thousands of characters; a longer line is not a record.
const CHUNK_BYTES: usize = 1 << 20;

/// Smaller files are not worth two threads.
const HALVED_BYTES: u64 = 64 << 10;

/// Cursors, and records after them, that are tried before the index: files of one program have one order, and leave out what did not run.
const EXPECTED: [(usize, usize); 6] = [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (0, 3)];

/// Records that are looked up together.
const BATCH: usize = 32;

/// Bits of the largest weight of a merge in its units. A weight of 10^-12 of it still has 23 bits, and the largest count times the largest
/// weight has room for a few more.
const WEIGHT_BITS: u32 = 63;

/// Weights outside this range are mistakes, or make a profile negligible.
const WEIGHTS: std::ops::RangeInclusive<f64> = 1e-12..=1e6;

/// The fault of a profile, or of a set of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FdataFault {
    /// The file can't be read or written.
    #[error("{}: {reason}\n  next: check the path, its permissions and the free space", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file of 0 bytes, or with only a head.
    #[error(
        "{} contains no record: the program was killed before it wrote its profile, or perf took no \
         samples\n  next: let the instrumented program end by itself (SIGTERM and `exit`), or let it write \
         every few seconds", file.display()
    )]
    Empty {
        /// The file.
        file: PathBuf,
    },
    /// A YAML profile.
    #[error("{} is a YAML profile, not text\n  next: merge it with `merge-fdata` of the same BOLT", file.display())]
    Yaml {
        /// The file.
        file: PathBuf,
    },
    /// An invalid line.
    #[error("{}, line {line}: {what}: \"{text}\"\n  next: take the profile again", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// Line, from 1.
        line: u64,
        /// The fault.
        what: &'static str,
        /// The beginning of the line.
        text: String,
    },
    /// The last line is incomplete.
    #[error(
        "{} is cut off: its last line, {line}, has no end, and its count may lack digits\n  next: check the \
         free space of the disk, and take the profile again", file.display()
    )]
    CutOff {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: u64,
    },
    /// Profiles that can't be added up.
    #[error("{} has {here}, but {} has {there}: they can't be merged\n  next: merge profiles of one kind", file.display(), other.display())]
    Mixed {
        /// One file.
        file: PathBuf,
        /// Its kind.
        here: &'static str,
        /// The other file.
        other: PathBuf,
        /// The other kind.
        there: &'static str,
    },
    /// An invalid weight.
    #[error("the weight {weight} of {} is not between 10^-12 and 1000000", file.display())]
    Weight {
        /// The file.
        file: PathBuf,
        /// As given.
        weight: String,
    },
    /// Nothing to merge.
    #[error("no profile to merge was given")]
    NoFile,
}

/// The first lines of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Taken from a program that BOLT had rewritten, and mapped back.
    pub bolted: bool,
    /// The events of a profile of plain samples; `None` when it has branch records.
    pub samples: Option<Vec<String>>,
}

impl Head {
    /// Reads the head; returns its number of bytes and lines. Unfinished lines are left to the records.
    fn split(data: &[u8]) -> (Self, usize, u64) {
        let mut head = Self::default();
        let (mut used, mut lines) = (0, 0);
        let next = |used: usize| memchr(b'\n', &data[used..]).map(|end| &data[used..used + end]);
        if let Some(line) = next(used).filter(|line| *line == b"boltedcollection") {
            head.bolted = true;
            (used, lines) = (used + line.len() + 1, lines + 1);
        }
        if let Some(line) = next(used).filter(|line| *line == b"no_lbr" || line.starts_with(b"no_lbr ")) {
            let events = String::from_utf8_lossy(&line[6..]);
            head.samples = Some(events.split_ascii_whitespace().map(str::to_owned).collect());
            (used, lines) = (used + line.len() + 1, lines + 1);
        }
        (head, used, lines)
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.bolted {
            out.extend_from_slice(b"boltedcollection\n");
        }
        if let Some(events) = &self.samples {
            out.extend_from_slice(b"no_lbr");
            for event in events {
                out.push(b' ');
                out.extend_from_slice(event.as_bytes());
            }
            out.push(b'\n');
        }
    }

    fn kind(&self) -> &'static str {
        if self.samples.is_some() { "plain samples" } else { "branch records" }
    }

    fn origin(&self) -> &'static str {
        if self.bolted {
            "counts of a program that BOLT had rewritten"
        } else {
            "counts of an original program"
        }
    }
}

/// A place in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeLocation<'a> {
    /// 0 no symbol, 1 a symbol, 2 a local symbol; 3, 4, 5 the same in a memory record.
    pub kind: u8,
    /// The name as written, with its backslashes, `/1` of local symbols and `@PLT`.
    pub name: &'a [u8],
    /// Bytes from the beginning of the symbol.
    pub offset: u64,
}

impl CodeLocation<'_> {
    /// Whether the name is that of a symbol.
    pub fn is_symbol(&self) -> bool {
        !matches!(self.kind, 0 | 3)
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend([b'0' + self.kind, b' ']);
        out.extend_from_slice(self.name);
        out.push(b' ');
        // Writing into memory can't fail.
        let _ = write!(out, "{:x} ", self.offset);
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Record<'a> {
    /// A taken branch, or a call.
    Branch {
        /// Where it is.
        from: CodeLocation<'a>,
        /// Its target.
        to: CodeLocation<'a>,
        /// How often it was mispredicted.
        mispredicted: u64,
        /// How often it was taken.
        count: u64,
    },
    /// An instruction at which a sample was taken.
    Sample {
        /// The instruction.
        at: CodeLocation<'a>,
        /// Samples.
        count: u64,
    },
    /// An access to memory.
    Memory {
        /// The instruction.
        at: CodeLocation<'a>,
        /// The accessed data.
        data: CodeLocation<'a>,
        /// Samples.
        count: u64,
    },
}

impl<'a> Record<'a> {
    /// How often.
    pub fn count(&self) -> u64 {
        match self {
            Self::Branch { count, .. } | Self::Sample { count, .. } | Self::Memory { count, .. } => *count,
        }
    }

    /// The counted code.
    pub fn place(&self) -> CodeLocation<'a> {
        match self {
            Self::Branch { from, .. } => *from,
            Self::Sample { at, .. } | Self::Memory { at, .. } => *at,
        }
    }

    /// Appends it as a line.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Branch { from, to, mispredicted, count } => {
                from.write(out);
                to.write(out);
                push_number(out, *mispredicted);
                out.push(b' ');
                push_number(out, *count);
            }
            Self::Sample { at, count } => {
                at.write(out);
                push_number(out, *count);
            }
            Self::Memory { at, data, count } => {
                at.write(out);
                data.write(out);
                push_number(out, *count);
            }
        }
        out.push(b'\n');
    }

    /// Reads a line without its end; returns the length of the key, that is, of everything but the counts.
    fn parse(line: &'a [u8], samples: bool) -> Result<(Self, usize), &'static str> {
        let mut rest = line;
        let first = place(&mut rest)?;
        let memory = first.kind >= 3;
        if samples && !memory {
            let key = line.len() - rest.len() - 1;
            let count = last_number(rest)?;
            return Ok((Self::Sample { at: first, count }, key));
        }
        let second = place(&mut rest)?;
        if (second.kind >= 3) != memory {
            return Err("one place in memory and one in code");
        }
        let key = line.len() - rest.len() - 1;
        if memory {
            let count = last_number(rest)?;
            return Ok((Self::Memory { at: first, data: second, count }, key));
        }
        let (mispredicted, used) = number(rest).ok_or("no number of mispredictions")?;
        let rest = rest[used..].strip_prefix(b" ").ok_or("no count")?;
        let count = last_number(rest)?;
        Ok((Self::Branch { from: first, to: second, mispredicted, count }, key))
    }
}

/// Takes `K NAME OFF ` from the front.
fn place<'a>(rest: &mut &'a [u8]) -> Result<CodeLocation<'a>, &'static str> {
    let (kind, after) = match *rest {
        [kind @ b'0'..=b'5', b' ', after @ ..] => (kind - b'0', after),
        _ => return Err("not a kind of place, 0 to 5"),
    };
    let mut length = 0;
    loop {
        let mark =
            after.get(length..).and_then(|rest| memchr2(b' ', b'\\', rest)).ok_or("no end of a name")?;
        length += mark;
        if after[length] == b' ' {
            break;
        }
        length += 2;
    }
    if length == 0 {
        return Err("no name");
    }
    let (name, after) = (&after[..length], &after[length + 1..]);
    let digits = after.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    if !(1..=16).contains(&digits) || after.get(digits) != Some(&b' ') {
        return Err("no offset");
    }
    let value = |byte: &u8| u64::from(char::from(*byte).to_digit(16).unwrap_or(0));
    let offset = after[..digits].iter().fold(0, |sum, byte| sum << 4 | value(byte));
    *rest = &after[digits + 1..];
    Ok(CodeLocation { kind, name, offset })
}

/// A decimal number at the front, and its length. `None` if there is none, or if it exceeds BOLT's limit.
fn number(data: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    let mut used = 0;
    while let Some(digit) = data.get(used).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        if used == 19 {
            return None;
        }
        value = value * 10 + u64::from(digit);
        used += 1;
    }
    (used > 0 && value <= LARGEST_COUNT).then_some((value, used))
}

fn last_number(data: &[u8]) -> Result<u64, &'static str> {
    match number(data) {
        Some((value, used)) if used == data.len() => Ok(value),
        Some(_) => Err("more text after the count"),
        None => Err("no count, or one that is too large"),
    }
}

fn push_number(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Reads a profile in memory, record by record, without copies.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    head: Head,
    rest: &'a [u8],
    line: u64,
}

impl<'a> Reader<'a> {
    /// Reads the head.
    pub fn new(data: &'a [u8]) -> Self {
        let (head, used, line) = Head::split(data);
        Self { head, rest: &data[used..], line }
    }

    /// The head.
    pub fn head(&self) -> &Head {
        &self.head
    }
}

/// An invalid line: its number from 1, the fault, and the line.
pub type BadLine<'a> = (u64, &'static str, &'a [u8]);

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Record<'a>, BadLine<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        self.line += 1;
        let Some(end) = memchr(b'\n', self.rest) else {
            let line = std::mem::take(&mut self.rest);
            return Some(Err((self.line, "the line has no end", line)));
        };
        let (line, rest) = (&self.rest[..end], &self.rest[end + 1..]);
        self.rest = rest;
        let bad = |what| (self.line, what, line);
        Some(Record::parse(line, self.head.samples.is_some()).map(|(record, _)| record).map_err(bad))
    }
}

/// A profile's counts of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FunctionCounts {
    /// Branches and calls from inside of it, or samples in it.
    pub inside: u64,
    /// Branches to its first byte: how often it was called. A function without any branch shows only this.
    pub entered: u64,
}

impl FunctionCounts {
    /// Both together, for an order by heat.
    pub fn heat(self) -> u64 {
        self.inside.saturating_add(self.entered)
    }
}

/// A profile's counts, by function.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// The head.
    pub head: Head,
    /// Records.
    pub records: u64,
    /// Sum of all counts.
    pub total: u64,
    /// Counts of each symbol, by its name in the profile without `/N` and `@PLT`.
    pub functions: HashMap<String, FunctionCounts>,
}

/// Adds up a profile by function.
///
/// # Errors
/// [`FdataFault`]: unreadable, empty, cut off or malformed.
pub fn counts(file: &Path) -> Result<Counts, FdataFault> {
    let data = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
    refuse_beginning(file, &data)?;
    let mut reader = Reader::new(&data);
    let mut counts = Counts { head: reader.head.clone(), ..Counts::default() };
    let mut sums: HashMap<&[u8], FunctionCounts> = HashMap::new();
    for record in &mut reader {
        let record = record.map_err(|(line, what, text)| malformed(file, line, what, text, &data))?;
        counts.records += 1;
        counts.total = counts.total.saturating_add(record.count());
        if record.place().is_symbol() {
            let sum = &mut sums.entry(bare_name(record.place().name)).or_default().inside;
            *sum = sum.saturating_add(record.count());
        }
        if let Record::Branch { to, count, .. } = record
            && to.is_symbol()
            && to.offset == 0
        {
            let sum = &mut sums.entry(bare_name(to.name)).or_default().entered;
            *sum = sum.saturating_add(count);
        }
    }
    if counts.records == 0 {
        return Err(FdataFault::Empty { file: file.to_path_buf() });
    }
    counts.functions =
        sums.into_iter().map(|(name, sum)| (String::from_utf8_lossy(name).into_owned(), sum)).collect();
    Ok(counts)
}

/// `_ZL4workv/1` → `_ZL4workv`, `free@PLT` → `free`.
pub(crate) fn bare_name(name: &[u8]) -> &[u8] {
    let name = name.strip_suffix(b"@PLT").unwrap_or(name);
    match memrchr(b'/', name) {
        Some(at) if at > 0 && name[at + 1..].iter().all(u8::is_ascii_digit) => &name[..at],
        _ => name,
    }
}

fn unreadable(file: &Path, error: &io::Error) -> FdataFault {
    FdataFault::Unreadable { file: file.to_path_buf(), reason: error.to_string() }
}

fn malformed(file: &Path, line: u64, what: &'static str, text: &[u8], data: &[u8]) -> FdataFault {
    if !data.ends_with(b"\n") && text.as_ptr_range().end == data.as_ptr_range().end {
        return FdataFault::CutOff { file: file.to_path_buf(), line };
    }
    let text = String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
    FdataFault::Malformed { file: file.to_path_buf(), line, what, text }
}

fn refuse_beginning(file: &Path, data: &[u8]) -> Result<(), FdataFault> {
    match data {
        [] => Err(FdataFault::Empty { file: file.to_path_buf() }),
        _ if data.starts_with(b"---\n") => Err(FdataFault::Yaml { file: file.to_path_buf() }),
        _ => Ok(()),
    }
}

/// One file to merge.
#[derive(Debug, Clone, PartialEq)]
pub struct Weighted {
    /// The profile.
    pub file: PathBuf,
    /// Its counts are multiplied by this, between 10^-12 and 1000000.
    pub weight: f64,
}

/// The contribution of one file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Brought {
    /// Its size.
    pub bytes: u64,
    /// Its records.
    pub records: u64,
    /// Sum of its counts, before the weight.
    pub total: u64,
}

/// The result of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergedFdata {
    /// The head of the result.
    pub head: Head,
    /// For each file, in order.
    pub files: Vec<Brought>,
    /// Records of the result.
    pub records: u64,
    /// Sum of its counts.
    pub total: u64,
    /// Counts that would exceed BOLT's limit, and were set to it.
    pub clipped: u64,
    /// The unit of the weights is 2 to the minus this.
    pub weight_bits: u32,
}

/// Weights with which each file has the requested share in the sum of all counts, whatever their lengths; the largest is 1. `None` if a
/// total is 0 or a share is not above 0.
pub fn weights_for_shares(totals: &[u64], shares: &[f64]) -> Option<Vec<f64>> {
    let usable = totals.len() == shares.len() && !totals.is_empty();
    if !usable || totals.contains(&0) || !shares.iter().all(|share| share.is_finite() && *share > 0.0) {
        return None;
    }
    let raw: Vec<f64> = totals.iter().zip(shares).map(|(total, share)| share / *total as f64).collect();
    let largest = raw.iter().copied().fold(0.0, f64::max);
    Some(raw.into_iter().map(|weight| weight / largest).collect())
}

/// Adds up profiles, each times its weight, into a new file. Records are equal if all but their counts are the same bytes. They keep the
/// order of their first appearance, with memory records last. A record that ran keeps at least 1.
///
/// The files are streamed: only the records of the result need memory.
///
/// # Errors
/// [`FdataFault`], which names the file. Then there is no output.
pub fn merge(files: &[Weighted], output: &Path) -> Result<MergedFdata, FdataFault> {
    let head = common_head(files)?;
    let samples = head.samples.is_some();
    let units = unit_bits(files);
    let pieces = files.iter().map(|file| halves(file, units)).collect::<Result<Vec<_>, _>>()?;
    let table_of = |part: usize| Table::of_pieces(pieces.iter().map(|halves| &halves[part]), samples);
    let tables = std::thread::scope(|scope| {
        let second = scope.spawn(|| table_of(1));
        let first = table_of(0);
        [first, second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))]
    });
    let [first, second] = tables;
    let (mut table, second) = (first?, second?);
    table.absorb(second);
    for (brought, Weighted { file, .. }) in table.brought.iter().zip(files) {
        if brought.records == 0 {
            return Err(FdataFault::Empty { file: file.clone() });
        }
    }
    let (total, clipped) = table.write(&head, units, output).map_err(|error| unreadable(output, &error))?;
    let records = table.entries.len() as u64;
    Ok(MergedFdata { head, records, total, clipped, weight_bits: units, files: table.brought })
}

/// The unit of the weights is 2 to the minus this.
fn unit_bits(files: &[Weighted]) -> u32 {
    let largest = files.iter().map(|file| file.weight).fold(1.0, f64::max);
    WEIGHT_BITS.saturating_sub(largest.log2().ceil() as u32)
}

/// Reads all heads first, so that an invalid set is refused at once.
fn common_head(files: &[Weighted]) -> Result<Head, FdataFault> {
    let mut first: Option<(&Path, Head)> = None;
    for Weighted { file, weight } in files {
        if !WEIGHTS.contains(weight) {
            return Err(FdataFault::Weight { file: file.clone(), weight: weight.to_string() });
        }
        let mut beginning = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(64 << 10).read_to_end(&mut beginning))
            .map_err(|error| unreadable(file, &error))?;
        refuse_beginning(file, &beginning)?;
        let (head, ..) = Head::split(&beginning);
        let Some((other, known)) = &mut first else {
            first = Some((file, head));
            continue;
        };
        let mixed =
            |here, there| FdataFault::Mixed { file: file.clone(), here, other: other.to_path_buf(), there };
        if head.samples.is_some() != known.samples.is_some() {
            return Err(mixed(head.kind(), known.kind()));
        }
        if head.bolted != known.bolted {
            return Err(mixed(head.origin(), known.origin()));
        }
        if let (Some(events), Some(more)) = (&mut known.samples, head.samples) {
            let new: Vec<String> = more.into_iter().filter(|event| !events.contains(event)).collect();
            events.extend(new);
        }
    }
    first.map(|(_, head)| head).ok_or(FdataFault::NoFile)
}

/// A part of a file that begins and ends at a line boundary.
#[derive(Debug)]
struct Piece<'a> {
    file: &'a Path,
    weight: u64,
    begin: u64,
    end: u64,
}

/// The halves of a file, split at the end of a line. Each half goes to a thread, with those of the other files: profiles of one program
/// have one order, so the threads meet few of each other's records.
fn halves(file: &Weighted, units: u32) -> Result<[Piece<'_>; 2], FdataFault> {
    let failed = |error: io::Error| unreadable(&file.file, &error);
    let mut opened = File::open(&file.file).map_err(failed)?;
    let size = opened.metadata().map_err(failed)?.len();
    // The head belongs to the first half.
    let mut middle = if size < HALVED_BYTES { size } else { size / 2 };
    opened.seek(SeekFrom::Start(middle)).map_err(failed)?;
    let mut chunk = vec![0; 64 << 10];
    middle = loop {
        let read = opened.read(&mut chunk).map_err(failed)?;
        match memchr(b'\n', &chunk[..read]) {
            Some(at) => break middle + at as u64 + 1,
            None if read == 0 => break size,
            None => middle += read as u64,
        }
    };
    let weight = (file.weight * (1_u64 << units) as f64).round() as u64;
    let piece = |begin, end| Piece { file: &file.file, weight, begin, end };
    Ok([piece(0, middle.min(size)), piece(middle.min(size), size)])
}

/// A record of the result. Sums are in the units of the weights.
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    length: u32,
    /// Whether there is a number of mispredictions before the count.
    branch: bool,
    hash: u64,
    mispredicted: u128,
    count: u128,
}

/// A slot of the index.
#[derive(Debug, Clone, Copy)]
struct Slot {
    entry: u32,
    /// Upper half of the hash: rejects most other entries without reading them.
    tag: u32,
}

/// An empty slot of the index.
const NO_ENTRY: u32 = u32::MAX;

/// A record that waits for its look-up.
#[derive(Debug, Clone, Copy, Default)]
struct Waiting<'a> {
    key: &'a [u8],
    hash: u64,
    branch: bool,
    mispredicted: u64,
    count: u64,
}

/// Sums by key. The keys are stored in the order of their first appearance.
#[derive(Debug, Default)]
struct Table {
    samples: bool,
    keys: Vec<u8>,
    entries: Vec<Entry>,
    /// Open addressing, at most half full; a power of two.
    slots: Vec<Slot>,
    /// The entries after the last matched ones, at two positions.
    cursors: [usize; 2],
    /// Whether the last records were out of order.
    surprised: bool,
    brought: Vec<Brought>,
}

fn hash_of(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

impl Table {
    fn of_pieces<'a>(pieces: impl Iterator<Item = &'a Piece<'a>>, samples: bool) -> Result<Self, FdataFault> {
        let mut table = Self { samples, ..Self::default() };
        for piece in pieces {
            let brought = table.read_piece(piece)?;
            table.brought.push(brought);
        }
        Ok(table)
    }

    fn read_piece(&mut self, piece: &Piece<'_>) -> Result<Brought, FdataFault> {
        let failed = |error: io::Error| unreadable(piece.file, &error);
        let mut file = File::open(piece.file).map_err(failed)?;
        file.seek(SeekFrom::Start(piece.begin)).map_err(failed)?;
        let mut file = file.take(piece.end - piece.begin);
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut brought = Brought::default();
        // Where in the file the buffer begins.
        let (mut offset, mut filled) = (piece.begin, 0);
        self.cursors = [0; 2];
        loop {
            let read = file.read(&mut buffer[filled..]).map_err(failed)?;
            if read == 0 {
                break;
            }
            brought.bytes += read as u64;
            // The carried-over part contains no end of a line.
            let end = memrchr(b'\n', &buffer[filled..filled + read]).map(|end| filled + end + 1);
            filled += read;
            if let Some(end) = end {
                let head = if offset == 0 { Head::split(&buffer[..end]).1 } else { 0 };
                self.add_lines(&buffer[head..end], piece.weight, &mut brought).map_err(|(what, text)| {
                    let at = text.as_ptr().addr() - buffer.as_ptr().addr();
                    malformed(piece.file, line_at(piece.file, offset + at as u64), what, text, b"\n")
                })?;
                buffer.copy_within(end..filled, 0);
                filled -= end;
                offset += end as u64;
            }
            if filled == buffer.len() {
                let what = "a line longer than any record";
                return Err(malformed(piece.file, line_at(piece.file, offset), what, &buffer, b"\n"));
            }
        }
        if filled > 0 {
            return Err(FdataFault::CutOff {
                file: piece.file.to_path_buf(),
                line: line_at(piece.file, offset),
            });
        }
        Ok(brought)
    }

    /// Adds whole lines.
    fn add_lines<'a>(
        &mut self,
        mut data: &'a [u8],
        weight: u64,
        brought: &mut Brought,
    ) -> Result<(), (&'static str, &'a [u8])> {
        while !data.is_empty() {
            let Some((used, count)) = self.add_expected(data, weight) else {
                data = self.add_unexpected(data, weight, brought)?;
                continue;
            };
            self.surprised = false;
            brought.add(count);
            data = &data[used..];
        }
        Ok(())
    }

    /// Adds the record at the front if its key is one of the expected ones. If a line begins with a key, followed by its numbers and the
    /// end of the line, it is the key of that line: fields are read from the left.
    fn add_expected(&mut self, data: &[u8], weight: u64) -> Option<(usize, u64)> {
        for (cursor, ahead) in EXPECTED {
            let at = self.cursors[cursor] + ahead;
            let Some(entry) = self.entries.get_mut(at) else { continue };
            let length = entry.length as usize;
            let key = &self.keys[entry.start..entry.start + length];
            if data.get(length) != Some(&b' ') || data[..length] != *key {
                continue;
            }
            let mut used = length + 1;
            let mut mispredicted = 0;
            if entry.branch {
                let (value, digits) = number(&data[used..])?;
                mispredicted = value;
                used += digits;
                if data.get(used) != Some(&b' ') {
                    return None;
                }
                used += 1;
            }
            let (count, digits) = number(&data[used..])?;
            used += digits;
            if data.get(used) != Some(&b'\n') {
                return None;
            }
            entry.add(mispredicted, count, weight);
            self.cursors[cursor] = at + 1;
            return Some((used + 1, count));
        }
        None
    }

    /// Adds unexpected records, and some after them, because a surprise seldom comes alone. They are looked up together, so that their
    /// memory accesses overlap. Returns the rest of the data.
    fn add_unexpected<'a>(
        &mut self,
        mut data: &'a [u8],
        weight: u64,
        brought: &mut Brought,
    ) -> Result<&'a [u8], (&'static str, &'a [u8])> {
        let mut batch: [Waiting<'a>; BATCH] = [Waiting::default(); BATCH];
        let wanted = if self.surprised { BATCH } else { 1 };
        let mut filled = 0;
        while filled < wanted && !data.is_empty() {
            let end = memchr(b'\n', data).unwrap_or(data.len());
            let line = &data[..end];
            let (record, key) = Record::parse(line, self.samples).map_err(|what| (what, line))?;
            let mispredicted = match record {
                Record::Branch { mispredicted, .. } => mispredicted,
                _ => 0,
            };
            let key = &line[..key];
            let branch = matches!(record, Record::Branch { .. });
            batch[filled] = Waiting { key, hash: hash_of(key), branch, mispredicted, count: record.count() };
            brought.add(record.count());
            filled += 1;
            data = &data[(end + 1).min(data.len())..];
        }
        self.warm(&batch[..filled]);
        let mut in_order = 0;
        for waiting in &batch[..filled] {
            let (at, near) = self.find_or_insert(waiting.key, waiting.hash, waiting.branch);
            in_order += usize::from(near);
            self.entries[at].add(waiting.mispredicted, waiting.count, weight);
        }
        self.surprised = in_order * 2 < filled;
        Ok(data)
    }

    /// Touches the memory of a batch. The look-ups are independent, so the processor overlaps them.
    fn warm(&self, batch: &[Waiting<'_>]) {
        if self.slots.is_empty() || batch.len() < 2 {
            return;
        }
        let mask = self.slots.len() - 1;
        let mut starts = [0; BATCH];
        for (start, waiting) in starts.iter_mut().zip(batch) {
            *start = self.slots[waiting.hash as usize & mask].entry as usize;
        }
        for start in &mut starts[..batch.len()] {
            *start = self.entries.get(*start).map_or(0, |entry| entry.start);
        }
        let touched = starts[..batch.len()].iter().fold(0_u8, |sum, start| {
            let byte = |at: usize| self.keys.get(at).copied().unwrap_or(0);
            sum ^ byte(*start) ^ byte(*start + 64)
        });
        std::hint::black_box(touched);
    }

    /// The entry of a key, and whether it was near a cursor. A new entry leaves the cursors in place: it is between known records.
    fn find_or_insert(&mut self, key: &[u8], hash: u64, branch: bool) -> (usize, bool) {
        if self.slots.len() < 2 * (self.entries.len() + 1) {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let tag = (hash >> 32) as u32;
        let mut slot = hash as usize & mask;
        loop {
            let Slot { entry, tag: known } = self.slots[slot];
            if entry == NO_ENTRY {
                break;
            }
            if known == tag {
                let entry_at = &self.entries[entry as usize];
                if self.keys[entry_at.start..entry_at.start + entry_at.length as usize] == *key {
                    return (entry as usize, self.follow(entry as usize));
                }
            }
            slot = (slot + 1) & mask;
        }
        let at = self.entries.len();
        let start = self.keys.len();
        self.keys.extend_from_slice(key);
        // Neither is more than a line and more than the lines that memory holds.
        let (length, number) = (key.len() as u32, at as u32);
        self.entries.push(Entry { start, length, branch, hash, mispredicted: 0, count: 0 });
        self.slots[slot] = Slot { entry: number, tag };
        (at, false)
    }

    /// The second cursor follows entries found elsewhere: records from later files come after all others, and in order, too.
    fn follow(&mut self, found: usize) -> bool {
        let near = |cursor: usize| (cursor..cursor + 64).contains(&found);
        let which = self.cursors.iter().position(|cursor| near(*cursor));
        self.cursors[which.unwrap_or(1)] = found + 1;
        which.is_some()
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(1 << 12);
        let mut slots = vec![Slot { entry: NO_ENTRY, tag: 0 }; size];
        for (number, entry) in self.entries.iter().enumerate() {
            let mut at = entry.hash as usize & (size - 1);
            while slots[at].entry != NO_ENTRY {
                at = (at + 1) & (size - 1);
            }
            slots[at] = Slot { entry: number as u32, tag: (entry.hash >> 32) as u32 };
        }
        self.slots = slots;
    }

    fn absorb(&mut self, other: Self) {
        for entry in &other.entries {
            let key = &other.keys[entry.start..entry.start + entry.length as usize];
            let (at, _) = self.find_or_insert(key, entry.hash, entry.branch);
            let sum = &mut self.entries[at];
            sum.mispredicted = sum.mispredicted.saturating_add(entry.mispredicted);
            sum.count = sum.count.saturating_add(entry.count);
        }
        for (sum, brought) in self.brought.iter_mut().zip(other.brought) {
            sum.bytes += brought.bytes;
            sum.records += brought.records;
            sum.total = sum.total.saturating_add(brought.total);
        }
    }

    /// Writes next to the output and renames; returns the sum of all counts and the number of clipped ones.
    fn write(&self, head: &Head, units: u32, output: &Path) -> io::Result<(u64, u64)> {
        let folder =
            output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The umask decides who may read it, as with any other file.
        let rights = std::fs::Permissions::from_mode(0o666);
        let mut file = tempfile::Builder::new().permissions(rights).tempfile_in(folder)?;
        let mut out = Vec::with_capacity(2 * CHUNK_BYTES);
        let (mut total, mut clipped) = (0_u64, 0);
        head.write(&mut out);
        // BOLT reads memory records only after all others.
        for memory in [false, true] {
            for entry in &self.entries {
                let key = &self.keys[entry.start..entry.start + entry.length as usize];
                if (key[0] >= b'3') != memory {
                    continue;
                }
                let count = rounded(entry.count, units);
                total = total.saturating_add(count);
                clipped += u64::from(count == LARGEST_COUNT);
                out.extend_from_slice(key);
                out.push(b' ');
                if entry.branch {
                    push_number(&mut out, rounded(entry.mispredicted, units));
                    out.push(b' ');
                }
                push_number(&mut out, count);
                out.push(b'\n');
                if out.len() >= CHUNK_BYTES {
                    file.write_all(&out)?;
                    out.clear();
                }
            }
        }
        file.write_all(&out)?;
        file.persist(output).map_err(|error| error.error)?;
        Ok((total, clipped))
    }
}

/// The number of the line that begins there. Computed only for errors.
fn line_at(file: &Path, offset: u64) -> u64 {
    let mut before = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(offset).read_to_end(&mut before));
    if read.is_err() { 0 } else { memchr::memchr_iter(b'\n', &before).count() as u64 + 1 }
}

impl Brought {
    fn add(&mut self, count: u64) {
        self.records += 1;
        self.total = self.total.saturating_add(count);
    }
}

impl Entry {
    fn add(&mut self, mispredicted: u64, count: u64, weight: u64) {
        self.mispredicted = self.mispredicted.saturating_add(u128::from(mispredicted) * u128::from(weight));
        self.count = self.count.saturating_add(u128::from(count) * u128::from(weight));
    }
}

/// Rounds; a value above 0 stays above 0.
fn rounded(sum: u128, units: u32) -> u64 {
    let nearest = (sum.saturating_add((1 << units) >> 1)) >> units;
    u64::try_from(nearest).unwrap_or(u64::MAX).clamp(u64::from(sum > 0), LARGEST_COUNT)
}

/// Entry point of the fuzzer: a profile is read, summed in two pieces, and the output reads the same.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let reader = Reader::new(data);
    let samples = reader.head.samples.is_some();
    let mut written = Vec::new();
    reader.head.write(&mut written);
    let mut records = 0_u64;
    for record in reader.clone().map_while(Result::ok) {
        records += 1;
        record.write(&mut written);
    }
    assert_eq!(Reader::new(&written).filter(Result::is_ok).count() as u64, records);
    let (_, used, _) = Head::split(data);
    let whole = memrchr(b'\n', data).map_or(used, |end| (end + 1).max(used));
    let mut table = Table { samples, ..Table::default() };
    let mut brought = Brought::default();
    let once = table.add_lines(&data[used..whole], 1, &mut brought).is_ok();
    assert!(table.entries.len() as u64 <= brought.records);
    table.cursors = [0; 2];
    let first = table.entries.len();
    let again = table.add_lines(&data[used..whole], 1, &mut brought).is_ok();
    assert_eq!(once, again);
    assert!(!once || table.entries.len() == first, "the second time nothing is new");
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    const BRANCHES: &[u8] =
        b"1 main 10 1 _Z4workm 0 2 5\n2 step/1 1f 0 [unknown] 0 0 7\n1 a\\ b c 1 free@PLT 0 0 1\n";

    fn write(folder: &Path, name: &str, text: &[u8]) -> Weighted {
        let file = folder.join(name);
        fs::write(&file, text).unwrap();
        Weighted { file, weight: 1.0 }
    }

    /// Merges texts with their weights; the result's text.
    fn merged(texts: &[(&[u8], f64)]) -> Result<String, FdataFault> {
        let folder = tempfile::tempdir().unwrap();
        let named = |(at, (text, weight)): (usize, &(&[u8], f64))| Weighted {
            weight: *weight,
            ..write(folder.path(), &at.to_string(), text)
        };
        let files: Vec<Weighted> = texts.iter().enumerate().map(named).collect();
        let out = folder.path().join("out");
        let done = merge(&files, &out);
        assert_eq!(done.is_ok(), out.exists(), "no output after a failure");
        done.map(|done| {
            let text = fs::read(&out).unwrap();
            assert_eq!(Reader::new(&text).count() as u64, done.records);
            String::from_utf8_lossy(&text).into_owned()
        })
    }

    #[test]
    fn every_kind_of_record_is_read_and_written_back() {
        let texts: [&[u8]; 4] = [
            BRANCHES,
            b"boltedcollection\n1 main 10 1 main 0 0 5\n",
            b"no_lbr cpu-clock:u: cycles\n1 _Z6handleP2Opj 27 14\n2 step/1 0 1\n",
            b"1 main 0 1 main 1 0 5\n4 main 10 5 table/1 20 5\n3 [heap] 0 4 x ffffffffffffffff 9223372036854775807\n",
        ];
        for text in texts {
            let reader = Reader::new(text);
            let mut written = Vec::new();
            reader.head().write(&mut written);
            reader.for_each(|record| record.unwrap().write(&mut written));
            assert_eq!(written, text, "{}", String::from_utf8_lossy(text));
        }
        let first = Reader::new(BRANCHES).nth(1).unwrap().unwrap();
        let from = CodeLocation { kind: 2, name: b"step/1", offset: 0x1f };
        let to = CodeLocation { kind: 0, name: b"[unknown]", offset: 0 };
        assert_eq!(first, Record::Branch { from, to, mispredicted: 0, count: 7 });
        assert!(from.is_symbol() && !to.is_symbol());
        let events = Reader::new(texts[2]).head().samples.clone().unwrap();
        assert_eq!(events, ["cpu-clock:u:", "cycles"]);
        assert_eq!(bare_name(b"step/1"), b"step");
        assert_eq!(bare_name(b"free@PLT"), b"free");
        assert_eq!(bare_name(b"operator/"), b"operator");
    }

    #[test]
    fn what_is_no_record_is_told() {
        for line in [
            "",
            "1",
            "1 main",
            "1 main 10",
            "6 main 10 1 b 0 0 1",
            "1 main 10 1 b 0 0",
            "1 main 10 1 b 0 0 1 2",
            "1 main xyz 1 b 0 0 1",
            "1 main 10 1 b 0 0 9223372036854775808",
            "1  10 1 b 0 0 1",
            "1 main 10 4 b 0 1",
            "4 main 10 1 b 0 1",
            "1 a\\ 10 1 b 0 0",
            "1 main 10 1 b 0 -1 1",
            "1 main 10 1 b 0 0 1 ",
            "\\",
            "1 main 11112222333344445 1 b 0 0 1",
            "1 m 1 1 b 0 0 00000000000000000001",
        ] {
            assert!(Record::parse(line.as_bytes(), false).is_err(), "{line:?}");
        }
        assert!(Record::parse(b"1 main 10 5", true).is_ok());
        assert!(Record::parse(b"1 main 10 1 b 0 0 1", true).is_err(), "a branch among samples");
    }

    #[test]
    fn sums_are_those_of_merge_fdata() {
        let (a, b): (&[u8], &[u8]) =
            (b"1 a 10 1 b 0 2 5\n1 a 10 1 c 0 0 7\n", b"1 a 10 1 b 0 3 5\n1 a 10 1 d 0 0 8\n");
        let both = "1 a 10 1 b 0 5 10\n1 a 10 1 c 0 0 7\n1 a 10 1 d 0 0 8\n";
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines.join("\n") + "\n"
        };
        assert_eq!(sorted(merged(&[(a, 1.0), (b, 1.0)]).unwrap()), both);
        assert_eq!(merged(&[(a, 1.0)]).unwrap().as_bytes(), a, "one alone stays as it is");
        let samples = merged(&[(b"no_lbr x\n1 f 27 14\n", 1.0), (b"no_lbr y x\n1 f 27 4\n", 1.0)]).unwrap();
        assert_eq!(samples, "no_lbr x y\n1 f 27 18\n", "the events are kept");
        let memory = merged(&[(b"4 a 1 4 b 0 5\n1 a 10 1 b 0 2 5\n", 1.0)]).unwrap();
        assert_eq!(memory, "1 a 10 1 b 0 2 5\n4 a 1 4 b 0 5\n", "BOLT stops at a branch behind memory");
        let text: &[u8] = b"boltedcollection\n1 a 1 1 a 2 0 1\n";
        let bolted = merged(&[(text, 1.0); 2]).unwrap();
        assert_eq!(bolted, "boltedcollection\n1 a 1 1 a 2 0 2\n");
        let both: &[u8] = b"boltedcollection\nno_lbr\n1 f 3 4\n";
        assert_eq!(merged(&[(both, 1.0)]).unwrap().as_bytes(), both);
    }

    #[test]
    fn weights_are_kept_exactly_and_nothing_that_ran_vanishes() {
        let a: &[u8] = b"1 a 10 1 b 0 2 5\n1 a 11 1 b 0 0 0\n";
        assert_eq!(merged(&[(a, 0.1)]).unwrap(), "1 a 10 1 b 0 1 1\n1 a 11 1 b 0 0 0\n");
        assert_eq!(merged(&[(a, 0.5), (a, 0.5)]).unwrap().as_bytes(), a);
        assert_eq!(merged(&[(a, 3.0), (a, 1.5)]).unwrap(), "1 a 10 1 b 0 9 23\n1 a 11 1 b 0 0 0\n");
        let huge: &[u8] = b"1 a 1 1 a 2 0 9223372036854775807\n";
        assert_eq!(merged(&[(huge, 1.0)]).unwrap().as_bytes(), huge);
        assert_eq!(
            merged(&[(huge, 1e6), (huge, 1.0)]).unwrap().as_bytes(),
            huge,
            "no wrap, and BOLT reads no more"
        );
        let many: &[u8] = b"1 a 1 1 a 2 0 5000000000000\n";
        let few: &[u8] = b"1 a 1 1 a 3 0 9\n";
        assert_eq!(
            merged(&[(many, 1.8e-12), (few, 1.0)]).unwrap(),
            "1 a 1 1 a 2 0 9\n1 a 1 1 a 3 0 9\n",
            "a share of half, whatever a training's length"
        );
        assert_eq!(
            merged(&[(many, 1e-6), (few, 1e6)]).unwrap(),
            "1 a 1 1 a 2 0 5000000\n1 a 1 1 a 3 0 9000000\n"
        );
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e-13] {
            assert!(matches!(merged(&[(a, weight)]), Err(FdataFault::Weight { .. })));
        }
        assert_eq!(weights_for_shares(&[100, 400], &[0.5, 0.5]), Some(vec![1.0, 0.25]));
        assert_eq!(weights_for_shares(&[100, 0], &[0.5, 0.5]), None);
    }

    #[test]
    fn sets_that_can_not_be_added_up_are_refused_with_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let good = write(folder.path(), "good", BRANCHES);
        let fails = |name: &str, text: &[u8]| {
            let fault = merge(&[good.clone(), write(folder.path(), name, text)], &out).unwrap_err();
            let text = fault.to_string();
            assert!(text.contains(&format!("/{name}")) && text.contains("next: "), "{text}");
            fault
        };
        assert!(matches!(fails("empty", b""), FdataFault::Empty { .. }));
        assert!(matches!(fails("bolted", b"boltedcollection\n1 a 1 1 a 2 0 1\n"), FdataFault::Mixed { .. }));
        let samples = fails("samples", b"no_lbr x\n1 f 27 14\n");
        assert!(samples.to_string().contains("samples has plain samples, "), "{samples}");
        assert!(matches!(fails("yaml", b"---\nheader:\n"), FdataFault::Yaml { .. }));
        let garbage = fails("garbage", b"1 a 1 1 a 2 0 1\nwhat is this\n");
        assert!(matches!(garbage, FdataFault::Malformed { line: 2, .. }), "{garbage}");
        let cut = fails("cut", b"1 a 1 1 a 2 0 1\n1 a 1 1 a 2 0 12");
        assert!(matches!(cut, FdataFault::CutOff { line: 2, .. }), "{cut}");
        fs::write(folder.path().join("head"), "no_lbr x\n").unwrap();
        let head = Weighted { file: folder.path().join("head"), weight: 1.0 };
        assert!(matches!(merge(&[head], &out), Err(FdataFault::Empty { .. })));
        let gone = Weighted { file: folder.path().join("gone"), weight: 1.0 };
        assert!(matches!(merge(&[gone], &out), Err(FdataFault::Unreadable { .. })));
        assert_eq!(merge(&[], &out), Err(FdataFault::NoFile));
        assert!(!out.exists());
    }

    #[test]
    fn counts_are_told_by_function() {
        let folder = tempfile::tempdir().unwrap();
        let file = write(folder.path(), "f", BRANCHES).file;
        let counts = counts(&file).unwrap();
        assert_eq!((counts.records, counts.total), (3, 13));
        assert_eq!(counts.functions["step"], FunctionCounts { inside: 7, entered: 0 });
        assert_eq!(counts.functions["free"], FunctionCounts { inside: 0, entered: 1 });
        assert_eq!(counts.functions.len(), 5);
        fs::write(&file, &BRANCHES[..BRANCHES.len() - 1]).unwrap();
        assert!(matches!(super::counts(&file), Err(FdataFault::CutOff { line: 3, .. })));
    }

    /// Larger than what is read at once, so that lines and threads meet at every kind of seam.
    #[test]
    fn large_files_are_summed_as_small_ones() {
        let folder = tempfile::tempdir().unwrap();
        let line = |at: u64, count: u64| {
            format!("1 function_with_a_longer_name_{} {:x} 1 g 0 1 {count}\n", at / 7, at % 7)
        };
        let mut expected: BTreeMap<String, u64> = BTreeMap::new();
        let mut files = Vec::new();
        for file in 0..3_u64 {
            let mut order: Vec<u64> = (0..40_000).filter(|at| at % (file + 5) != 0).collect();
            if file == 2 {
                order.sort_by_key(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            }
            let text: String = order.iter().map(|at| line(*at, at + file)).collect();
            for at in order {
                *expected.entry(line(at, 0)).or_default() += at + file;
            }
            files.push(write(folder.path(), &file.to_string(), text.as_bytes()));
        }
        let out = folder.path().join("out");
        let done = merge(&files, &out).unwrap();
        let text = fs::read(&out).unwrap();
        let mut sums = BTreeMap::new();
        for record in Reader::new(&text) {
            let mut key = Vec::new();
            let Record::Branch { from, to, count, .. } = record.unwrap() else { panic!("a branch") };
            Record::Branch { from, to, mispredicted: 1, count: 0 }.write(&mut key);
            assert!(sums.insert(String::from_utf8(key).unwrap(), count).is_none(), "one line for each");
        }
        assert_eq!(sums, expected);
        assert_eq!(done.records, expected.len() as u64);
        assert_eq!(done.total, expected.values().sum::<u64>());
        assert_eq!(done.files.iter().map(|file| file.total).sum::<u64>(), done.total);
        merge(&files, &folder.path().join("again")).unwrap();
        assert_eq!(fs::read(folder.path().join("again")).unwrap(), text, "the same each time");
    }

    fn record_line() -> impl Strategy<Value = String> {
        let name = "[a-c](/1|@PLT|\\\\ x)?";
        (name, 0..4_u64, name, 0..3_u64, 0..9_u64, 1..99_u64).prop_map(
            |(from, at, to, offset, missed, count)| {
                format!("1 {from} {at:x} 1 {to} {offset:x} {missed} {count}\n")
            },
        )
    }

    proptest! {
        #[test]
        fn noise_is_survived(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            fuzz(&data);
        }

        #[test]
        fn damage_is_survived(
            lines in proptest::collection::vec(record_line(), 1..30),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        ) {
            let mut data = lines.concat().into_bytes();
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            fuzz(&data);
            let _ = merged(&[(&data, 1.0)]);
        }

        #[test]
        fn sums_do_not_depend_on_the_order(
            a in proptest::collection::vec(record_line(), 1..40),
            b in proptest::collection::vec(record_line(), 1..40),
        ) {
            let (a, b) = (a.concat(), b.concat());
            let mut one = Counted::new();
            for text in [&a, &b] {
                for record in Reader::new(text.as_bytes()) {
                    count(&mut one, &record.unwrap());
                }
            }
            for order in [[&a, &b], [&b, &a]] {
                let text = merged(&order.map(|text| (text.as_bytes(), 1.0))).unwrap();
                let mut sums = Counted::new();
                for record in Reader::new(text.as_bytes()) {
                    prop_assert!(count(&mut sums, &record.unwrap()));
                }
                prop_assert_eq!(&sums, &one);
            }
        }
    }

    type Counted = BTreeMap<Vec<u8>, (u64, u64)>;

    /// Adds a branch by another way than the merge; whether it was new.
    fn count(sums: &mut Counted, record: &Record<'_>) -> bool {
        let Record::Branch { from, to, mispredicted, count } = *record else { panic!("a branch") };
        let mut key = Vec::new();
        Record::Branch { from, to, mispredicted: 0, count: 0 }.write(&mut key);
        let new = !sums.contains_key(&key);
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + mispredicted, sum.1 + count);
        new
    }
}
