//! The header of perf's data: events with the layout of their samples, their names, build-ids (`tools/perf/util/header.h`).

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};

use super::bytes::{hex, text_at, u16_at, u32_at, u64_at};
use super::fault::PerfFault;

/// Size of a file's header; a pipe's header is shorter.
const HEAD_BYTES: usize = 104;
/// Size of the first version of `struct perf_event_attr`, and of the ids' position after it.
const LEAST_ATTR_BYTES: u64 = 64 + 16;
const MOST_ATTR_BYTES: u64 = 4096;
/// Limit of each section of the header, above any that perf writes.
const MOST_SECTION_BYTES: u64 = 16 << 20;
/// Limit of events: every tracepoint of a kernel is less than half of it.
const MOST_EVENTS: usize = 4_096;
/// Limit of ids of all events together. Each event states its own position of ids, and all may state the same.
const MOST_ID_BYTES: u64 = 16 << 20;

// Bits of linux/perf_event.h.
const SAMPLE_IP: u64 = 1;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ADDR: u64 = 1 << 3;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
const FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const FLAG_SAMPLE_ID_ALL: u64 = 1 << 18;
/// The kernel writes build-ids instead of inodes.
const BUILD_ID_HAS_SIZE: u16 = 1 << 15;

// Bits of the feature table.
const FEATURE_BUILD_ID: u32 = 2;
const FEATURE_EVENT_DESC: u32 = 12;

/// Kind of an event, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Cycles,
    Clock,
    /// A dummy event: it counts nothing and only carries records of mappings.
    Dummy,
    Other(u32, u64),
}

/// An event.
#[derive(Debug, Clone)]
pub(super) struct Attr {
    kind: EventKind,
    name: String,
    sees_kernel: bool,
    sample_type: u64,
    tells_ids: bool,
}

impl Attr {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (kind, config) = (u32_at(bytes, 0)?, u64_at(bytes, 8)?);
        let flags = u64_at(bytes, 40)?;
        let (kind, name) = named(kind, config);
        Some(Self {
            kind,
            name,
            sees_kernel: flags & FLAG_EXCLUDE_KERNEL == 0,
            sample_type: u64_at(bytes, 24)?,
            tells_ids: flags & FLAG_SAMPLE_ID_ALL != 0,
        })
    }

    /// Position of an eight-byte field in a sample's record.
    fn place(&self, wanted: u64) -> Option<usize> {
        let order = [SAMPLE_IDENTIFIER, SAMPLE_IP, SAMPLE_TID, SAMPLE_TIME, SAMPLE_ADDR, SAMPLE_ID];
        let before = order.iter().take_while(|field| **field != wanted);
        let fields = before.filter(|field| self.sample_type & **field != 0).count();
        (self.sample_type & wanted != 0).then_some(8 + 8 * fields)
    }

    /// Position of an eight-byte field before the end of any other record.
    fn place_from_end(&self, wanted: u64) -> Option<usize> {
        let order = [SAMPLE_TID, SAMPLE_TIME, SAMPLE_ID, SAMPLE_STREAM_ID, SAMPLE_CPU, SAMPLE_IDENTIFIER];
        let from = order.iter().skip_while(|field| **field != wanted);
        let fields = from.filter(|field| self.sample_type & **field != 0).count();
        (self.tells_ids && self.sample_type & wanted != 0).then_some(8 * fields)
    }
}

/// Hardware events and the kernel's own events. Hybrid CPUs put the kind of core into the upper half.
fn named(kind: u32, config: u64) -> (EventKind, String) {
    let known = match (kind, config & 0xffff_ffff) {
        (0, 0) => Some((EventKind::Cycles, "cycles")),
        (1, 0) => Some((EventKind::Clock, "cpu-clock")),
        (1, 1) => Some((EventKind::Clock, "task-clock")),
        (1, 9) => Some((EventKind::Dummy, "dummy")),
        (0, 1) => Some((EventKind::Other(kind, config), "instructions")),
        _ => None,
    };
    match known {
        Some((kind, name)) => (kind, name.to_owned()),
        None => (EventKind::Other(kind, config), format!("event {config:#x} of type {kind}")),
    }
}

/// Fields of a sample's record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub(super) address: usize,
    pub(super) thread: usize,
    pub(super) time: Option<usize>,
}

/// Contents of the header.
#[derive(Debug, Clone)]
pub(super) struct Head {
    attrs: Vec<Attr>,
    fields: Vec<Fields>,
    events: HashMap<u64, u32>,
    wanted: EventKind,
    /// Position of an event's id in a sample.
    id: Option<usize>,
    /// Position of the time before the end of other records.
    time_from_end: Option<usize>,
    /// Build-ids by path, in hex.
    pub(super) build_ids: HashMap<String, String>,
    pub(super) data_at: u64,
    /// 0 if perf did not end normally.
    pub(super) data_bytes: u64,
}

impl Head {
    pub(super) fn read<R: Read + Seek>(input: &mut R) -> Result<Self, PerfFault> {
        let head = start(input)?;
        let word = |at: usize| u64_at(&head, at).ok_or(PerfFault::Broken { section: "its header" });
        let (attr_bytes, attrs_at, attrs_bytes) = (word(16)?, word(24)?, word(32)?);
        let (data_at, data_bytes) = (word(40)?, word(48)?);
        if !(LEAST_ATTR_BYTES..=MOST_ATTR_BYTES).contains(&attr_bytes) {
            return Err(PerfFault::Broken { section: "its event table" });
        }
        let table = section(input, attrs_at, attrs_bytes, "its event table")?;
        let (attrs, events) = events(input, &table, attr_bytes as usize)?;
        let fields = attrs.iter().map(fields_of).collect::<Result<Vec<Fields>, PerfFault>>()?;
        let wanted = wanted(&attrs).ok_or(PerfFault::Without { what: "event" })?;
        let id =
            attrs.first().and_then(|attr| attr.place(SAMPLE_IDENTIFIER).or_else(|| attr.place(SAMPLE_ID)));
        let time_from_end = attrs.first().and_then(|attr| attr.place_from_end(SAMPLE_TIME));
        let mut found = Self {
            attrs,
            fields,
            events,
            wanted,
            id,
            time_from_end,
            build_ids: HashMap::new(),
            data_at,
            data_bytes,
        };
        if data_bytes > 0 {
            // Names and build-ids help, but are not required.
            let _ = found.features(input, &head);
        }
        Ok(found)
    }

    /// The event of a sample.
    pub(super) fn event_of(&self, sample: &[u8]) -> u32 {
        let id = self.id.and_then(|at| u64_at(sample, at));
        id.and_then(|id| self.events.get(&id).copied()).unwrap_or(0)
    }

    pub(super) fn fields(&self, event: u32) -> Option<Fields> {
        self.fields.get(event as usize).copied()
    }

    /// The time of a record that is not a sample.
    pub(super) fn time_of(&self, record: &[u8]) -> u64 {
        let at = self.time_from_end.and_then(|back| record.len().checked_sub(back));
        at.and_then(|at| u64_at(record, at)).unwrap_or(0)
    }

    pub(super) fn is_wanted(&self, event: u32) -> bool {
        self.attrs.get(event as usize).is_some_and(|attr| attr.kind == self.wanted)
    }

    fn all_wanted(&self) -> impl Iterator<Item = &Attr> {
        self.attrs.iter().filter(|attr| attr.kind == self.wanted)
    }

    /// Name of the event that is used.
    pub(super) fn event(&self) -> String {
        self.all_wanted().next().map(|attr| attr.name.clone()).unwrap_or_default()
    }

    pub(super) fn is_time(&self) -> bool {
        matches!(self.wanted, EventKind::Clock | EventKind::Cycles)
    }

    pub(super) fn sees_kernel(&self) -> bool {
        self.all_wanted().any(|attr| attr.sees_kernel)
    }

    /// Sections after the data: one for each bit, in order.
    fn features<R: Read + Seek>(&mut self, input: &mut R, head: &[u8]) -> Option<()> {
        let bits: Vec<u32> = (0..256_u32)
            .filter(|bit| {
                u64_at(head, 72 + 8 * (*bit as usize / 64)).is_some_and(|word| word >> (bit % 64) & 1 == 1)
            })
            .collect();
        let table_at = self.data_at.checked_add(self.data_bytes)?;
        let table = section(input, table_at, 16 * bits.len() as u64, "its features").ok()?;
        let mut get = |feature: u32| {
            let at = 16 * bits.iter().position(|bit| *bit == feature)?;
            section(input, u64_at(&table, at)?, u64_at(&table, at + 8)?, "a feature").ok()
        };
        if let Some(bytes) = get(FEATURE_EVENT_DESC) {
            self.names(&bytes);
        }
        if let Some(bytes) = get(FEATURE_BUILD_ID) {
            self.take_build_ids(&bytes);
        }
        Some(())
    }

    /// Names as the user requested them, which show more than type and config.
    fn names(&mut self, bytes: &[u8]) -> Option<()> {
        let (count, attr_bytes) = (u32_at(bytes, 0)? as usize, u32_at(bytes, 4)? as usize);
        let mut at = 8_usize;
        for index in 0..count.min(self.attrs.len()) {
            at = at.checked_add(attr_bytes)?;
            let ids = u32_at(bytes, at)? as usize;
            let length = u32_at(bytes, at.checked_add(4)?)? as usize;
            let name = text_at(bytes.get(..at.checked_add(8)?.checked_add(length)?)?, at + 8)?;
            if !name.is_empty() {
                self.attrs[index].name = name;
            }
            at = at.checked_add(8)?.checked_add(length)?.checked_add(ids.checked_mul(8)?)?;
        }
        Some(())
    }

    fn take_build_ids(&mut self, mut bytes: &[u8]) -> Option<()> {
        loop {
            let (misc, length) = (u16_at(bytes, 4)?, usize::from(u16_at(bytes, 6)?));
            let entry = bytes.get(..length)?;
            let size = match misc & BUILD_ID_HAS_SIZE {
                0 => 20,
                _ => usize::from(*entry.get(32)?).min(20),
            };
            self.build_ids.insert(text_at(entry, 36)?, hex(entry.get(12..12 + size)?));
            bytes = bytes.get(length.max(8)..)?;
        }
    }
}

/// The events of the table, and the event of each id.
fn events<R: Read + Seek>(
    input: &mut R,
    table: &[u8],
    attr_bytes: usize,
) -> Result<(Vec<Attr>, HashMap<u64, u32>), PerfFault> {
    let broken = || PerfFault::Broken { section: "its event table" };
    if table.len() / attr_bytes > MOST_EVENTS {
        return Err(broken());
    }
    let (mut attrs, mut events, mut left) = (Vec::new(), HashMap::new(), MOST_ID_BYTES);
    for (index, entry) in table.chunks_exact(attr_bytes).enumerate() {
        attrs.push(Attr::parse(entry).ok_or_else(broken)?);
        let ids_at = attr_bytes - 16;
        let (at, bytes) = u64_at(entry, ids_at).zip(u64_at(entry, ids_at + 8)).ok_or_else(broken)?;
        left = left.checked_sub(bytes).ok_or(PerfFault::Broken { section: "its event ids" })?;
        let ids = section(input, at, bytes, "its event ids")?;
        events.extend(ids.chunks_exact(8).filter_map(|id| Some((u64_at(id, 0)?, index as u32))));
    }
    Ok((attrs, events))
}

/// The clock or cycles event, on any kind of core; otherwise the first event that counts anything.
fn wanted(attrs: &[Attr]) -> Option<EventKind> {
    let kinds = || attrs.iter().map(|attr| attr.kind);
    let of_time =
        [EventKind::Cycles, EventKind::Clock].into_iter().find(|kind| kinds().any(|found| found == *kind));
    of_time.or_else(|| kinds().find(|kind| *kind != EventKind::Dummy))
}

fn fields_of(attr: &Attr) -> Result<Fields, PerfFault> {
    let needs = |what, place: Option<usize>| place.ok_or(PerfFault::Without { what });
    if attr.kind == EventKind::Dummy {
        return Ok(Fields { address: usize::MAX, thread: usize::MAX, time: None });
    }
    Ok(Fields {
        address: needs("address", attr.place(SAMPLE_IP))?,
        thread: needs("thread", attr.place(SAMPLE_TID))?,
        time: attr.place(SAMPLE_TIME),
    })
}

/// The first bytes, or the reason why the file can't be read.
fn start<R: Read + Seek>(input: &mut R) -> Result<Vec<u8>, PerfFault> {
    input.seek(SeekFrom::Start(0))?;
    let mut head = Vec::new();
    input.by_ref().take(HEAD_BYTES as u64).read_to_end(&mut head)?;
    if head.starts_with(b"2ELIFREP") {
        return Err(PerfFault::OtherEndian);
    }
    if !head.starts_with(b"PERFILE2") {
        return Err(PerfFault::Foreign);
    }
    match u64_at(&head, 8) {
        Some(16) => Err(PerfFault::Piped),
        Some(bytes) if bytes >= HEAD_BYTES as u64 && head.len() == HEAD_BYTES => Ok(head),
        _ => Err(PerfFault::Broken { section: "its header" }),
    }
}

fn section<R: Read + Seek>(
    input: &mut R,
    at: u64,
    bytes: u64,
    section: &'static str,
) -> Result<Vec<u8>, PerfFault> {
    let broken = || PerfFault::Broken { section };
    if bytes > MOST_SECTION_BYTES {
        return Err(broken());
    }
    // Some systems reject offsets beyond any file size with an error of their own.
    input.seek(SeekFrom::Start(at)).map_err(|_| broken())?;
    let mut found = Vec::new();
    input.by_ref().take(bytes).read_to_end(&mut found)?;
    if found.len() as u64 != bytes {
        return Err(broken());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// The ids of each event have this many bytes from the same position.
    fn read(events: usize, id_bytes: usize) -> Result<Head, PerfFault> {
        let mut bytes = b"PERFILE2".to_vec();
        let table = [104, LEAST_ATTR_BYTES, 104, LEAST_ATTR_BYTES * events as u64, 0, 0];
        bytes.extend(table.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(HEAD_BYTES, 0);
        let mut attr = [0; LEAST_ATTR_BYTES as usize];
        attr[0] = 1;
        attr[24..32].copy_from_slice(&(SAMPLE_IP | SAMPLE_TID).to_le_bytes());
        attr[64..72].copy_from_slice(&(HEAD_BYTES as u64).to_le_bytes());
        attr[72..80].copy_from_slice(&(id_bytes as u64).to_le_bytes());
        bytes.extend(attr.repeat(events));
        bytes.resize(bytes.len().max(HEAD_BYTES + id_bytes), 0);
        Head::read(&mut Cursor::new(bytes))
    }

    #[test]
    fn a_file_can_not_say_how_much_of_it_is_read_again_and_again() {
        assert_eq!(read(MOST_EVENTS, 8).unwrap().attrs.len(), MOST_EVENTS);
        let broken = |events, id_bytes| match read(events, id_bytes) {
            Err(PerfFault::Broken { section }) => section,
            other => panic!("{other:?}"),
        };
        assert_eq!(broken(MOST_EVENTS + 1, 0), "its event table");
        assert_eq!(broken(3, 6 << 20), "its event ids");
    }
}
