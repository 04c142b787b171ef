//! What a window left in its topic, read back: where it begins and ends, and its batches by their headers.

use std::collections::BTreeMap;
use std::time::Duration;

use hone_kafka::batches;
use hone_record::{BatchSource, TopicBatches};

use crate::LoadError;
use crate::admin::{Admin, TopicLayout};
use crate::fetch::{Wanted, ends_request, fetch_request, parse_ends, parse_fetched};
use crate::security::Door;

/// Bytes that are read back at most, over all partitions.
const BUDGET_BYTES: u64 = 128 << 20;
/// A broker that has stopped keeps nobody waiting who has measured already.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// One read.
const WANTED: Wanted = Wanted { wait_ms: 500, bytes: 1 << 20, partition_bytes: 1 << 20 };
/// A broker that gives nothing so many times has lost something, or is in trouble; what was seen until then is told.
const EMPTY_READS: u32 = 3;

/// The end of every partition: the offset that the next record gets.
pub(crate) fn ends(door: &Door, layout: &TopicLayout) -> Result<BTreeMap<i32, i64>, LoadError> {
    let mut found = BTreeMap::new();
    for (address, partitions) in &layout.leaders {
        let mut admin = Admin::enter(address, door.clone(), ANSWER_LIMIT)?;
        let what = "ListOffsets v2";
        let answer = admin.exchange(&ends_request(1, &layout.topic, partitions), what)?;
        let ends = parse_ends(&answer).map_err(|error| admin.garbage(what, &error.to_string()))?;
        for (partition, code, offset) in ends {
            admin.accepted(
                &format!("to tell the end of {}/{partition}", layout.topic),
                code,
                String::new(),
            )?;
            found.insert(partition, offset);
        }
        if let Some(missing) = partitions.iter().find(|partition| !found.contains_key(partition)) {
            return Err(admin.garbage(what, &format!("it does not name partition {missing}")));
        }
    }
    Ok(found)
}

/// The batches between two ends, by their headers. When they are more than the budget, they are read in pieces that are
/// spread evenly over the window, and `seen_share` says so.
pub(crate) fn batches_between(
    door: &Door,
    layout: &TopicLayout,
    from: &BTreeMap<i32, i64>,
    to: &BTreeMap<i32, i64>,
) -> Result<TopicBatches, LoadError> {
    batches_within(BUDGET_BYTES, door, layout, from, to)
}

fn batches_within(
    budget_bytes: u64,
    door: &Door,
    layout: &TopicLayout,
    from: &BTreeMap<i32, i64>,
    to: &BTreeMap<i32, i64>,
) -> Result<TopicBatches, LoadError> {
    let mut sum = Sum::default();
    let (mut there, mut seen) = (0, 0);
    let share_bytes = budget_bytes / from.len().max(1) as u64;
    for (address, partitions) in &layout.leaders {
        let mut admin = Admin::enter(address, door.clone(), ANSWER_LIMIT)?;
        for partition in partitions {
            let (Some(&from), Some(&to)) = (from.get(partition), to.get(partition)) else { continue };
            there += (to - from).max(0).unsigned_abs();
            seen += read(&mut admin, &layout.topic, *partition, from..to, share_bytes, &mut sum)?;
        }
    }
    Ok(TopicBatches {
        topic: layout.topic.clone(),
        source: BatchSource::Fetched,
        batches: sum.batches,
        records: sum.records,
        bytes: sum.bytes,
        seen_share: if there == 0 { 1.0 } else { seen as f64 / there as f64 },
    })
}

#[derive(Debug, Default)]
struct Sum {
    batches: u64,
    records: u64,
    bytes: u64,
}

/// Reads a partition, or pieces of it; answers the offsets that were seen.
fn read(
    admin: &mut Admin,
    topic: &str,
    partition: i32,
    range: std::ops::Range<i64>,
    budget_bytes: u64,
    sum: &mut Sum,
) -> Result<u64, LoadError> {
    let (mut next, mut seen, mut read_bytes, mut empty) = (range.start, 0, 0, 0);
    while next < range.end && read_bytes < budget_bytes && empty < EMPTY_READS {
        let piece = read_once(admin, topic, partition, next..range.end, sum)?;
        if piece.offsets == 0 {
            // Behind a skip, the first read may lie in the midst of a batch that is larger than what one read gives.
            empty = if piece.next > next { 0 } else { empty + 1 };
            next = piece.next;
            continue;
        }
        (seen, read_bytes, empty) = (seen + piece.offsets, read_bytes + piece.bytes, 0);
        let left_bytes = (range.end - piece.next).max(0) as f64 * read_bytes as f64 / seen as f64;
        let affordable = budget_bytes.saturating_sub(read_bytes) as f64;
        // What can't be read is skipped piece by piece, so that what is read comes from the whole window.
        let skip = piece.offsets as f64 * (left_bytes / affordable.max(1.0) - 1.0).max(0.0);
        next = piece.next.saturating_add(skip as i64);
    }
    Ok(seen)
}

/// What one Fetch gave.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    offsets: u64,
    bytes: u64,
    /// Behind the last batch.
    next: i64,
}

fn read_once(
    admin: &mut Admin,
    topic: &str,
    partition: i32,
    range: std::ops::Range<i64>,
    sum: &mut Sum,
) -> Result<Piece, LoadError> {
    let what = "Fetch v11";
    let answer = admin.exchange(&fetch_request(1, topic, &[(partition, range.start)], WANTED), what)?;
    let mut piece = Piece { next: range.start, ..Piece::default() };
    let mut code = 0;
    let fetched = parse_fetched(&answer, |found| {
        code = found.error_code;
        for batch in batches(found.record_set) {
            // The last one may be torn.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            let inside = header.base_offset >= range.start && header.last_offset() < range.end;
            if inside && !header.is_control() {
                sum.batches += 1;
                sum.records += u64::from(header.record_count.unsigned_abs());
                sum.bytes += batch.bytes.len() as u64;
            }
            if inside {
                piece.offsets += u64::from(header.last_offset_delta.unsigned_abs()) + 1;
                piece.bytes += batch.bytes.len() as u64;
            }
            piece.next = piece.next.max(header.last_offset().saturating_add(1));
        }
    });
    let fetched = fetched.map_err(|error| admin.garbage(what, &error.to_string()))?;
    let code = if code == 0 { fetched.error_code } else { code };
    admin.accepted(
        &format!("to read {topic}/{partition} from offset {}", range.start),
        code,
        String::new(),
    )?;
    Ok(piece)
}
