//! One record (`linux/perf_event.h`, `tools/lib/perf/include/perf/event.h`).

use super::bytes::{hex, text_at, u16_at, u32_at, u64_at};
use super::head::Head;

// Types.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const FORK: u32 = 7;
const SAMPLE: u32 = 9;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;

/// Marks a name that came with a new program.
const MISC_COMM_EXEC: u16 = 1 << 13;
/// Marks a mapping with a build-id instead of device and inode: its length, three zero bytes, and the longest id's number of bytes.
const MISC_MMAP_BUILD_ID: u16 = 1 << 14;
const BUILD_ID_AT: usize = 40;
const MOST_BUILD_ID_BYTES: usize = 20;

/// Owner of a sample's code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    User,
    Kernel,
    /// A hypervisor, a guest, or unknown.
    Other,
}

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    /// 0 if it has none.
    pub(super) time: u64,
    pub(super) address: u64,
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) event: u32,
    pub(super) mode: Mode,
}

/// A process event between the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ProcessEvent {
    Mapped { pid: u32, begin: u64, bytes: u64, offset: u64, path: String, build_id: Option<String> },
    Named { pid: u32, tid: u32, name: String, is_new_program: bool },
    Forked { pid: u32, tid: u32, parent_pid: u32, parent_tid: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Record {
    Sample(Sample),
    /// The event with its time; 0 if it has none.
    Process(u64, ProcessEvent),
    /// End of a round: the next records are not older than the records before the previous round.
    Round,
    Lost(u64),
    Compressed,
    /// This many bytes of another kind of trace follow.
    Trace(u64),
    /// The record is shorter than its stated contents.
    Broken,
    Other,
}

impl Record {
    pub(super) fn parse(bytes: &[u8], head: &Head) -> Self {
        let kind = u32_at(bytes, 0).unwrap_or(0);
        let found = match kind {
            SAMPLE => sample(bytes, head).map(Self::Sample),
            MMAP => mapped(bytes, 40, None).map(|event| Self::Process(head.time_of(bytes), event)),
            MMAP2 => {
                mapped(bytes, 72, build_id(bytes)).map(|event| Self::Process(head.time_of(bytes), event))
            }
            COMM => named(bytes).map(|event| Self::Process(head.time_of(bytes), event)),
            FORK => forked(bytes).map(|event| Self::Process(head.time_of(bytes), event)),
            LOST => u64_at(bytes, 16).map(Self::Lost),
            LOST_SAMPLES => u64_at(bytes, 8).map(Self::Lost),
            AUXTRACE => u64_at(bytes, 8).map(Self::Trace),
            FINISHED_ROUND => Some(Self::Round),
            COMPRESSED | COMPRESSED2 => Some(Self::Compressed),
            _ => Some(Self::Other),
        };
        found.unwrap_or(Self::Broken)
    }
}

fn misc(bytes: &[u8]) -> u16 {
    u16_at(bytes, 4).unwrap_or(0)
}

fn sample(bytes: &[u8], head: &Head) -> Option<Sample> {
    let event = head.event_of(bytes);
    let fields = head.fields(event)?;
    let mode = match misc(bytes) & 7 {
        1 => Mode::Kernel,
        2 => Mode::User,
        _ => Mode::Other,
    };
    // The reader does not use events without addresses.
    if !head.is_wanted(event) {
        return Some(Sample { time: 0, address: 0, pid: 0, tid: 0, event, mode });
    }
    Some(Sample {
        time: fields.time.and_then(|at| u64_at(bytes, at)).unwrap_or(0),
        address: u64_at(bytes, fields.address)?,
        pid: u32_at(bytes, fields.thread)?,
        tid: u32_at(bytes, fields.thread + 4)?,
        event,
        mode,
    })
}

/// Both kinds have the same beginning. The second one has inode or build-id, and permissions, before the name.
fn mapped(bytes: &[u8], name_at: usize, build_id: Option<String>) -> Option<ProcessEvent> {
    Some(ProcessEvent::Mapped {
        pid: u32_at(bytes, 8)?,
        begin: u64_at(bytes, 16)?,
        bytes: u64_at(bytes, 24)?,
        offset: u64_at(bytes, 32)?,
        path: text_at(bytes, name_at)?,
        build_id,
    })
}

/// The build-id that the kernel read from the file when it was mapped; perf requests it instead of a table after the data
/// (`--buildid-mmap`).
fn build_id(bytes: &[u8]) -> Option<String> {
    let size = usize::from(*bytes.get(BUILD_ID_AT)?);
    let has_one = misc(bytes) & MISC_MMAP_BUILD_ID != 0 && (1..=MOST_BUILD_ID_BYTES).contains(&size);
    let begin = BUILD_ID_AT + 4;
    has_one.then(|| bytes.get(begin..begin + size)).flatten().map(hex)
}

fn named(bytes: &[u8]) -> Option<ProcessEvent> {
    Some(ProcessEvent::Named {
        pid: u32_at(bytes, 8)?,
        tid: u32_at(bytes, 12)?,
        name: text_at(bytes, 16)?,
        is_new_program: misc(bytes) & MISC_COMM_EXEC != 0,
    })
}

fn forked(bytes: &[u8]) -> Option<ProcessEvent> {
    Some(ProcessEvent::Forked {
        pid: u32_at(bytes, 8)?,
        parent_pid: u32_at(bytes, 12)?,
        tid: u32_at(bytes, 16)?,
        parent_tid: u32_at(bytes, 20)?,
    })
}
