//! What `perf record` wrote: samples, and where they lie. Read in one pass from bytes that are not trusted, in bounded memory. Pure.
//!
//! A sample names an address in a process. Which file lies there is told by records of mappings between the samples, and perf writes
//! the records of each core behind each other. So records are put into the order of their times, round by round as perf does it itself
//! (`order.rs`); where samples have no time the order of the file is all there is, and is taken.
//!
//! Of a sample are taken its address, thread, time and event. All of these stand before whatever has a length of its own (counters that
//! were read, call chains, raw data, branch stacks), which therefore is skipped with its record.

mod head;
mod order;
mod record;
mod run;
mod space;
mod stream;
mod tally;

use std::collections::HashMap;
use std::io::{self, Read, Seek};

use head::Head;
use order::Queue;
use record::Record;
use stream::Stream;
use tally::Tally;

pub use tally::{Lying, Split, Thread};

/// Data that can't be read as samples.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PerfFault {
    /// Something else.
    #[error(
        "it does not begin as perf's data does\n  next: name a file that perf record -o FILE has written"
    )]
    Foreign,
    /// Of a machine with the other order of bytes.
    #[error(
        "it is of a machine with the other order of bytes\n  next: read it on a machine like the one it was recorded on"
    )]
    OtherEndian,
    /// `perf record -o -`.
    #[error(
        "it went through a pipe, and has no table of events\n  next: perf record -o FILE, or perf inject -i THIS -o FILE"
    )]
    Piped,
    /// `perf record -z`.
    #[error(
        "its records are compressed\n  next: perf record without -z, or perf inject -i THIS -o FILE, which unpacks them"
    )]
    Compressed,
    /// `perf mem`, `perf stat record` and others.
    #[error("its samples have no {what}\n  next: perf record -e cpu-clock, or -e cycles, of the program")]
    Without {
        /// What is missing.
        what: &'static str,
    },
    /// No sample in it.
    #[error("it has no sample of {event}\n  next: record for longer, while the program is loaded")]
    Empty {
        /// What was sampled.
        event: String,
    },
    /// Cut off, or written by something else.
    #[error(
        "it breaks off in {section}\n  next: record it again; perf must end by itself, by SIGINT or by SIGTERM"
    )]
    Broken {
        /// What was being read.
        section: &'static str,
    },
    /// The system does not give its bytes.
    #[error("it can't be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Samples, added up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// What was sampled, in perf's words.
    pub event: String,
    /// Whether the clock was, or a counter of cycles: only then are samples shares of the time.
    pub is_time: bool,
    /// Whether the kernel's own code was sampled. Where it was not, its share is not known, and not nothing.
    pub sees_kernel: bool,
    /// All of them.
    pub samples: u64,
    /// Samples of other events, which are left out.
    pub others: u64,
    /// Records that perf itself says were lost.
    pub lost: u64,
    /// From the first to the last one.
    pub span_ns: u64,
    /// What was mapped where samples lie, as the kernel calls it.
    pub paths: Vec<String>,
    /// Build ids in hex, by path, as they were when perf recorded.
    pub build_ids: HashMap<String, String>,
    /// By samples, most first.
    pub threads: Vec<Thread>,
    /// What is to be known of them.
    pub notes: Vec<String>,
}

/// Reads all of it.
///
/// # Errors
/// [`PerfFault`], with what to do next. Data that breaks off behind some samples is read up to there, with a note.
pub fn read<R: Read + Seek>(input: R) -> Result<Samples, PerfFault> {
    let mut input = input;
    let head = Head::read(&mut input)?;
    let mut stream = Stream::over(input, &head)?;
    let mut queue = Queue::default();
    let mut tally = Tally::default();
    while let Some(bytes) = stream.next()? {
        match Record::parse(bytes, &head) {
            Record::Sample(sample) if head.is_wanted(sample.event) => queue.sample(sample, &mut tally),
            Record::Sample(_) => tally.others += 1,
            Record::Told(time, told) => queue.told(time, told, &mut tally),
            Record::Round => queue.round(&mut tally),
            Record::Lost(records) => tally.lost = tally.lost.saturating_add(records),
            Record::Compressed => return Err(PerfFault::Compressed),
            Record::Trace(bytes) => stream.skip(bytes)?,
            Record::Broken => tally.broken += 1,
            Record::Other => {}
        }
    }
    queue.end(&mut tally);
    if tally.samples == 0 {
        return Err(PerfFault::Empty { event: head.event() });
    }
    Ok(tally.samples(head, stream.breaks_off(), queue.was_cut()))
}

/// Whether a file begins as perf's data does.
pub fn is_data(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP")
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// A text that ends with a zero, or with the bytes.
fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let text = bytes.get(at..)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    Some(String::from_utf8_lossy(&text[..end]).into_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
