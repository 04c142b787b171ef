//! A partition's folder with any files in it. Opening it never panics, everything that is read was checked, the
//! partition accepts writes afterwards, and the next start finds the same.
//!
//! An input is a byte for the topic, then files: kind, 16-bit base offset, 16-bit length, contents. A random input
//! never has a valid checksum, so a bit of the kind asks for valid ones.

use std::fs;
use std::path::Path;

use hone_kafka::batch::{self, LENGTH_OVERHEAD_BYTES};
use hone_kafka::{BatchBuilder, BatchHeader, Codec, batches};
use serde_json::Value;

use super::cursor::Cursor;
use crate::log::{LOG, file_name};
use crate::log_config::LogConfig;
use crate::notices::Notices;
use crate::partition::{Ack, Bounds, Opening, Partition, Storage};

/// Set in a kind: the file's checksums are made right.
pub(super) const SEALED: u8 = 0x80;
pub(super) const KINDS: [&str; 8] =
    [LOG, "index", "timeindex", "snapshot", "manifest", "log.new", "log.aside", "manifest.new"];
const MOST_FILES: usize = 12;
const MANIFEST: &str = "manifest";
const NOW_MS: i64 = 1_700_000_000_000;
/// Where a batch's checksum stands, and what it covers begins.
const CRC_AT: usize = 17;
const COVERED_FROM: usize = 21;

/// Small segments, so that a few records make several.
pub(super) fn config(compact: bool) -> LogConfig {
    LogConfig {
        segment_bytes: 600,
        segment_ms: 3_600_000,
        retention_bytes: None,
        retention_ms: None,
        compact,
        delete: !compact,
        min_cleanable_dirty_ratio: 0.0,
        min_compaction_lag_ms: 0,
        max_compaction_lag_ms: i64::MAX.unsigned_abs(),
        delete_retention_ms: 0,
        log_append_time: false,
        write_caching: false,
        flush_ms: 1_000,
        flush_bytes: u64::MAX,
        max_message_bytes: 1 << 20,
    }
}

/// Runs an input.
pub fn recovery(data: &[u8]) {
    let mut input = Cursor::new(data);
    let compact = input.u8() & 1 != 0;
    let folder = super::folder();
    let place = folder.path().join("t-0");
    fs::create_dir(&place).expect("the folder of the partition");
    let mut named = Vec::new();
    for _ in 0..MOST_FILES {
        if input.is_empty() {
            break;
        }
        named.push(write_file(&place, &mut input));
    }
    if named.iter().any(|(kind, sealed)| *kind == MANIFEST && *sealed) {
        seal_manifest(&place);
    }
    // The start trusts a manifest by design, so only without one everything must have been checked.
    let checked = !place.join(MANIFEST).exists();
    let Some(partition) = open(&place, compact, checked) else { return };
    let before = look(&partition, checked);
    write_more(&partition, checked);
    let written = look(&partition, checked);
    assert!(!checked || written.1.starts_with(&before.1), "an append has changed what was there");
    drop(partition);
    let Some(killed) = open(&place, compact, checked) else { return };
    agree(&look(&killed, checked), &written, checked);
    let closed = killed.close();
    assert!(!checked || closed.is_ok(), "{closed:?}");
    drop(killed);
    let Some(stopped) = open(&place, compact, checked) else { return };
    agree(&look(&stopped, checked), &written, checked);
    let kept = stopped.housekeep(NOW_MS);
    assert!(!checked || kept.is_ok(), "{kept:?}");
    // Compaction leaves holes.
    look(&stopped, checked && !compact);
}

type Found = (Bounds, Vec<u8>);

fn agree(found: &Found, wanted: &Found, checked: bool) {
    assert_eq!(
        (found.0.log_start, found.0.next),
        (wanted.0.log_start, wanted.0.next),
        "another start, another log"
    );
    assert!(!checked || found.1 == wanted.1, "another start, other batches");
}

/// Writes one file of the input; returns its kind and whether its checksums are to be right.
fn write_file(place: &Path, input: &mut Cursor<'_>) -> (&'static str, bool) {
    let (kind, base) = (input.u8(), i64::from(input.u16()));
    let mut contents = input.piece().to_vec();
    let sealed = kind & SEALED != 0;
    let kind = KINDS[usize::from(kind) % KINDS.len()];
    let name = if kind.starts_with(MANIFEST) { kind.to_owned() } else { file_name(base, kind) };
    match kind {
        LOG if sealed => seal_batches(&mut contents),
        "snapshot" if sealed => seal_front(&mut contents),
        _ => (),
    }
    fs::write(place.join(name), contents).expect("a file of the input");
    (kind, sealed)
}

/// Makes the checksums of batches right.
pub(super) fn seal_batches(contents: &mut [u8]) {
    let mut at = 0;
    while let Some(rest) = contents.get_mut(at..)
        && let Some(length) = rest.get(8..12).and_then(|length| length.try_into().ok())
        && let Ok(length) = usize::try_from(i32::from_be_bytes(length))
        && let Some(bytes) = rest.get_mut(..length + LENGTH_OVERHEAD_BYTES)
        && bytes.len() > COVERED_FROM
    {
        let crc = crc32c::crc32c(&bytes[COVERED_FROM..]);
        bytes[CRC_AT..COVERED_FROM].copy_from_slice(&crc.to_be_bytes());
        at += bytes.len();
    }
}

fn seal_front(contents: &mut [u8]) {
    if let Some((front, rest)) = contents.split_first_chunk_mut::<4>() {
        *front = crc32c::crc32c(rest).to_be_bytes();
    }
}

/// Makes the manifest's checksum right, and those that it has of the indexes.
fn seal_manifest(place: &Path) {
    let path = place.join(MANIFEST);
    let text = String::from_utf8_lossy(&fs::read(&path).expect("the manifest")).into_owned();
    let body = text.split_once('\n').map_or(text.as_str(), |(_, body)| body);
    let body = match serde_json::from_str::<Value>(body) {
        Ok(mut value) => {
            if let Some(entries) = value.get_mut("sealed").and_then(Value::as_array_mut) {
                entries.iter_mut().for_each(|entry| seal_entry(place, entry));
            }
            value.get_mut("active").into_iter().for_each(|entry| seal_entry(place, entry));
            value.to_string()
        }
        Err(_) => body.to_owned(),
    };
    fs::write(path, format!("{:08x}\n{body}", crc32c::crc32c(body.as_bytes()))).expect("the manifest");
}

fn seal_entry(place: &Path, entry: &mut Value) {
    let Some(base) = entry.get("base").and_then(Value::as_i64) else { return };
    let read = |kind| fs::read(place.join(file_name(base, kind))).unwrap_or_default();
    let crc = crc32c::crc32c_append(crc32c::crc32c(&read("index")), &read("timeindex"));
    if let Some(field) = entry.get_mut("index_crc") {
        *field = crc.into();
    }
}

fn open(place: &Path, compact: bool, checked: bool) -> Option<Partition> {
    let opening =
        Opening { topic: "t".to_owned(), index: 0, folder: place.to_owned(), config: config(compact) };
    match Partition::open(opening, &Storage::on_disk(Notices::nowhere())) {
        Ok(partition) => Some(partition),
        Err(error) => {
            assert!(!checked, "a log without a manifest is cut, not refused: {error}");
            None
        }
    }
}

/// Reads everything in every way.
fn look(partition: &Partition, checked: bool) -> Found {
    let bounds = partition.bounds();
    assert!(bounds.log_start <= bounds.next, "{bounds:?}");
    assert!(
        bounds.last_stable <= bounds.high_watermark && bounds.high_watermark <= bounds.next,
        "{bounds:?}"
    );
    let mut all = Vec::new();
    let mut offset = bounds.log_start;
    while offset < bounds.high_watermark {
        if let Ok((_, Some(range))) = partition.locate(offset, 1_000, true, false) {
            assert!(range.bytes as u64 <= partition.bytes(), "{} bytes that are not there", range.bytes);
        }
        let mut some = Vec::new();
        let read = partition.read(offset, 1_000, true, false, &mut some);
        assert!(!checked || read.is_ok(), "{read:?}");
        let next = batches(&some).map_while(Result::ok).last().map(|last| last.header.last_offset() + 1);
        // A wrong entry of the manifest can lead nowhere.
        let Some(next) = next.filter(|next| *next > offset) else {
            assert!(!checked, "no batch at {offset}, in front of {}", bounds.high_watermark);
            break;
        };
        if checked {
            check_batches(&some, offset);
        }
        all.extend_from_slice(&some);
        offset = next;
    }
    let times = (
        partition.offset_for_timestamp(0),
        partition.offset_for_timestamp(NOW_MS),
        partition.max_timestamp(),
    );
    let times_are_read = times.0.is_ok() && times.1.is_ok() && times.2.is_ok();
    assert!(!checked || times_are_read, "{times:?}");
    partition.producers();
    partition.aborted(bounds.log_start, bounds.next);
    (bounds, all)
}

fn check_batches(set: &[u8], mut offset: i64) {
    for one in batches(set) {
        let one = one.expect("a whole batch");
        batch::verify_crc(one.bytes).expect("a batch whose checksum is right");
        assert_eq!(one.header.base_offset, offset, "the batches do not follow each other");
        offset = one.header.last_offset() + 1;
    }
}

fn write_more(partition: &Partition, checked: bool) {
    let mut builder = BatchBuilder::new(Codec::None);
    builder.push(Some(b"key"), Some(b"value"), NOW_MS);
    builder.push(Some(b"key"), None, NOW_MS);
    let mut bytes = builder.build().expect("a batch");
    let appended = partition.append(&mut bytes, Ack::Strict, NOW_MS, &mut Vec::new());
    let flushed = partition.flush();
    let Ok(appended) = appended else {
        assert!(!checked, "{appended:?}");
        return;
    };
    assert!(flushed.is_ok_and(|flushed| flushed == appended.end_offset), "the append is not flushed");
    let mut found = Vec::new();
    partition.read(appended.base_offset, 1, true, false, &mut found).expect("the batch that was written");
    let header = BatchHeader::parse(&found).expect("the batch that was written");
    assert_eq!((header.base_offset, &found), (appended.base_offset, &bytes));
}
