//! The batches of a window, read back from its topic: first and last offsets, and batches by their headers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hone_kafka::batches;
use hone_record::{BatchSizes, BatchSource, TopicBatches};

use crate::admin::{Admin, TopicLayout};
use crate::cluster::At;
use crate::error::LoadError;
use crate::fetch::{FetchSize, fetch_request, offsets_request, parse_ends, parse_fetched};
use crate::security::Access;
use crate::topic_set::TopicSet;

/// Largest number of bytes that are read back, over all partitions.
const BUDGET_BYTES: u64 = 128 << 20;
/// A broker that has stopped must not delay the result.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// Time limit before a window: elections take seconds at most, and their result spreads in milliseconds.
pub(crate) const BEFORE: Duration = Duration::from_secs(15);
/// Time limit after a window, whose target may be gone.
pub(crate) const BEHIND: Duration = Duration::from_secs(3);
/// Time limit after a window with faults: the brokers that are left elect leaders first.
pub(crate) const AFTER_FAULTS: Duration = Duration::from_secs(20);
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(50);
/// Size of one read.
const SIZE: FetchSize =
    FetchSize { least_bytes: 1, wait_ms: 500, bytes: 1 << 20, partition_bytes: 1 << 20, is_committed: false };
/// A broker that returns nothing this often has lost data, or has a problem. The data read so far is reported.
const EMPTY_READS: u32 = 3;

/// The end of every partition: the offset that the next record gets.
pub(crate) fn ends(
    access: &Access,
    layout: &TopicLayout,
    patience: Duration,
) -> Result<(TopicLayout, BTreeMap<i32, i64>), LoadError> {
    offsets(access, layout, At::Latest, patience)
}

/// The offset of a position in every partition; -1 if there is none. Leaders of a new topic, or in a changing cluster, may not know their
/// role yet. So the code asks them again for a while, and looks them up again. Returns the layout in which they knew it.
pub(crate) fn offsets(
    access: &Access,
    layout: &TopicLayout,
    at: At,
    patience: Duration,
) -> Result<(TopicLayout, BTreeMap<i32, i64>), LoadError> {
    let deadline = Instant::now() + patience;
    let mut layout = layout.clone();
    loop {
        let passing = match offsets_now(access, &layout, at)? {
            Ok(found) => return Ok((layout, found)),
            Err(passing) => passing,
        };
        if Instant::now() > deadline {
            return Err(passing);
        }
        std::thread::sleep(ASK_AGAIN_AFTER);
        layout = layout_of_today(access, &layout).unwrap_or(layout);
    }
}

/// The leaders as they are now. `None` if none of the former ones can tell.
pub(crate) fn layout_of_today(access: &Access, layout: &TopicLayout) -> Option<TopicLayout> {
    layout.leaders.iter().find_map(|(address, _)| {
        Admin::enter(address, access.clone(), ANSWER_LIMIT).ok()?.layout(&layout.topics, None).ok()
    })
}

/// The inner `Err` is temporary.
fn offsets_now(
    access: &Access,
    layout: &TopicLayout,
    at: At,
) -> Result<Result<BTreeMap<i32, i64>, LoadError>, LoadError> {
    let mut found = BTreeMap::new();
    for (address, partitions) in &layout.leaders {
        let mut admin = match Admin::enter(address, access.clone(), ANSWER_LIMIT) {
            Ok(admin) => admin,
            // Another broker may lead by now.
            Err(error @ LoadError::Connect { .. }) => return Ok(Err(error)),
            Err(error) => return Err(error),
        };
        let what = "ListOffsets v2";
        let answer = admin.exchange(&offsets_request(1, &layout.topics, partitions, at), what)?;
        let ends =
            parse_ends(&answer, &layout.topics).map_err(|error| admin.garbage(what, &error.to_string()))?;
        for (partition, code, offset) in ends {
            let (topic, index) = layout.topics.place(partition);
            let what = format!("to return an offset of {topic}/{index}");
            match admin.accepted(&what, code, String::new()) {
                Ok(()) => found.insert(partition, offset),
                Err(error) if passes(code) => return Ok(Err(error)),
                Err(error) => return Err(error),
            };
        }
        if let Some(missing) = partitions.iter().find(|partition| !found.contains_key(partition)) {
            return Err(admin.garbage(what, &format!("the answer lacks partition {missing}")));
        }
    }
    Ok(Ok(found))
}

/// Whether a leader with this error may know better in a moment: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER,
/// BROKER_NOT_AVAILABLE, REPLICA_NOT_AVAILABLE, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_NOT_AVAILABLE.
pub(crate) fn passes(code: i16) -> bool {
    matches!(code, 3 | 5 | 6 | 8 | 9 | 56 | 74 | 75 | 78)
}

/// The batches between two offsets, by their headers. If they exceed the budget, they are read in pieces spread evenly over the window, and
/// `seen_share` shows it.
pub(crate) fn batches_between(
    access: &Access,
    layout: &TopicLayout,
    from: &BTreeMap<i32, i64>,
    to: &BTreeMap<i32, i64>,
) -> Result<TopicBatches, LoadError> {
    batches_within(BUDGET_BYTES, access, layout, from, to)
}

fn batches_within(
    budget_bytes: u64,
    access: &Access,
    layout: &TopicLayout,
    from: &BTreeMap<i32, i64>,
    to: &BTreeMap<i32, i64>,
) -> Result<TopicBatches, LoadError> {
    let mut sum = Sum::default();
    let (mut there, mut seen) = (0, 0);
    let share_bytes = budget_bytes / from.len().max(1) as u64;
    for (address, partitions) in &layout.leaders {
        let mut admin = Admin::enter(address, access.clone(), ANSWER_LIMIT)?;
        for partition in partitions {
            let (Some(&from), Some(&to)) = (from.get(partition), to.get(partition)) else { continue };
            there += (to - from).max(0).unsigned_abs();
            seen += read(&mut admin, &layout.topics, *partition, from..to, share_bytes, &mut sum)?;
        }
    }
    Ok(TopicBatches {
        topic: layout.topics.label(),
        source: BatchSource::Fetched,
        batches: sum.batches,
        records: sum.records,
        bytes: sum.bytes,
        seen_share: if there == 0 { 1.0 } else { seen as f64 / there as f64 },
        sizes: sum.sizes,
    })
}

#[derive(Debug, Default)]
struct Sum {
    batches: u64,
    records: u64,
    bytes: u64,
    sizes: BatchSizes,
}

/// Reads a partition, or pieces of it; returns the offsets that were read.
fn read(
    admin: &mut Admin,
    topics: &TopicSet,
    partition: i32,
    range: std::ops::Range<i64>,
    budget_bytes: u64,
    sum: &mut Sum,
) -> Result<u64, LoadError> {
    let (mut next, mut seen, mut read_bytes, mut empty) = (range.start, 0, 0, 0);
    while next < range.end && read_bytes < budget_bytes && empty < EMPTY_READS {
        let piece = read_once(admin, topics, partition, next..range.end, sum)?;
        if piece.offsets == 0 {
            // After a skip, the first read may lie inside a batch that is larger than one read returns.
            empty = if piece.next > next { 0 } else { empty + 1 };
            next = piece.next;
            continue;
        }
        (seen, read_bytes, empty) = (seen + piece.offsets, read_bytes + piece.bytes, 0);
        let left_bytes = (range.end - piece.next).max(0) as f64 * read_bytes as f64 / seen as f64;
        let affordable = budget_bytes.saturating_sub(read_bytes) as f64;
        // Unreadable parts are skipped piece by piece, so that the data comes from the whole window.
        let skip = piece.offsets as f64 * (left_bytes / affordable.max(1.0) - 1.0).max(0.0);
        next = piece.next.saturating_add(skip as i64);
    }
    Ok(seen)
}

/// Result of one Fetch.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    offsets: u64,
    bytes: u64,
    /// Offset after the last batch.
    next: i64,
}

fn read_once(
    admin: &mut Admin,
    topics: &TopicSet,
    partition: i32,
    range: std::ops::Range<i64>,
    sum: &mut Sum,
) -> Result<Piece, LoadError> {
    let what = "Fetch v11";
    let answer = admin.exchange(&fetch_request(1, topics, &[(partition, range.start)], SIZE), what)?;
    let mut piece = Piece { next: range.start, ..Piece::default() };
    let mut code = 0;
    let fetched = parse_fetched(&answer, topics, |found| {
        code = found.error_code;
        for batch in batches(found.record_set) {
            // The last batch may be torn.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            let inside = header.base_offset >= range.start && header.last_offset() < range.end;
            if inside && !header.is_control() {
                sum.batches += 1;
                sum.records += u64::from(header.record_count.unsigned_abs());
                sum.bytes += batch.bytes.len() as u64;
                sum.sizes.add(batch.bytes.len() as u64, 1);
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
    let (topic, partition) = topics.place(partition);
    let what = format!("to read {topic}/{partition} from offset {}", range.start);
    admin.accepted(&what, code, String::new())?;
    Ok(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::serve;
    use std::sync::atomic::{AtomicU32, Ordering};

    use hone_kafka::{BatchBuilder, Codec, batch};
    use kafka_protocol::messages::fetch_response::{FetchableTopicResponse, PartitionData};
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{
        FetchRequest, FetchResponse, ListOffsetsResponse, MetadataResponse, RequestHeader, TopicName,
    };
    use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

    fn name() -> TopicName {
        TopicName(StrBytes::from_static_str("t"))
    }

    /// A broker that leads partition 0, but answers the first `refusals` requests with this error.
    fn leader_that_does_not_know_yet(refusals: u32, code: i16) -> TopicLayout {
        let asked = AtomicU32::new(0);
        let port = serve(move |port, body| {
            let mut answer = Vec::new();
            if body[1] == 1 {
                fetched(body).encode(&mut answer, 11).unwrap();
            } else if body[1] == 3 {
                metadata(port).encode(&mut answer, 7).unwrap();
            } else {
                let is_told = asked.fetch_add(1, Ordering::SeqCst) >= refusals;
                offsets(if is_told { 0 } else { code }).encode(&mut answer, 2).unwrap();
            }
            answer
        });
        TopicLayout { topics: "t".into(), leaders: vec![(format!("127.0.0.1:{port}"), vec![0])] }
    }

    fn metadata(port: u16) -> MetadataResponse {
        let broker = MetadataResponseBroker::default()
            .with_node_id(1.into())
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(port.into());
        let partition = MetadataResponsePartition::default().with_leader_id(1.into());
        let topic = MetadataResponseTopic::default().with_name(Some(name())).with_partitions(vec![partition]);
        MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic])
    }

    fn offsets(code: i16) -> ListOffsetsResponse {
        let partition = ListOffsetsPartitionResponse::default().with_error_code(code).with_offset(42);
        let topic = ListOffsetsTopicResponse::default().with_name(name()).with_partitions(vec![partition]);
        ListOffsetsResponse::default().with_topics(vec![topic])
    }

    const BATCHES: i64 = 10_000;
    const RECORDS: i64 = 7;
    /// Number of batches in one answer.
    const AT_ONCE: i64 = 5;

    /// A log of equal batches, from the one that holds the offset asked for.
    fn fetched(body: Vec<u8>) -> FetchResponse {
        let mut body = bytes::Bytes::from(body);
        RequestHeader::decode(&mut body, 1).unwrap();
        let request = FetchRequest::decode(&mut body, 11).unwrap();
        let first = request.topics[0].partitions[0].fetch_offset / RECORDS;
        let mut builder = BatchBuilder::new(Codec::None);
        (0..RECORDS).for_each(|_| builder.push(None, Some(&[b'v'; 100]), 1_000));
        let mut one = builder.build().unwrap();
        let mut records = Vec::new();
        for batch in first..(first + AT_ONCE).min(BATCHES) {
            batch::set_base_offset(&mut one, batch * RECORDS).unwrap();
            records.extend_from_slice(&one);
        }
        let partition = PartitionData::default().with_records(Some(records.into()));
        let topic = FetchableTopicResponse::default().with_topic(name()).with_partitions(vec![partition]);
        FetchResponse::default().with_responses(vec![topic])
    }

    #[test]
    fn what_is_more_than_the_budget_is_read_in_pieces_of_the_whole() {
        let layout = leader_that_does_not_know_yet(0, 0);
        let at = |offset| BTreeMap::from([(0, offset)]);
        let read = |budget_bytes, from, to| {
            batches_within(budget_bytes, &Access::plain(), &layout, &at(from), &at(to)).unwrap()
        };
        let some = read(u64::MAX, 70, 7_070);
        assert_eq!((some.batches, some.records, some.seen_share), (1_000, 7_000, 1.0));
        let batch_bytes = some.bytes / some.batches;

        let budget_bytes = 500 * batch_bytes;
        let part = read(budget_bytes, 0, BATCHES * RECORDS);
        assert_eq!(part.records, part.batches * RECORDS.unsigned_abs());
        assert!((0.03..0.07).contains(&part.seen_share), "{part:?}: a twentieth was affordable");
        assert!(part.bytes <= budget_bytes + 10 * batch_bytes, "{part:?}");
        assert_eq!(read(1_000, 7, 7).seen_share, 1.0, "the topic is empty");
    }

    #[test]
    fn a_leader_that_does_not_know_yet_is_asked_again() {
        let layout = leader_that_does_not_know_yet(3, 6);
        let (found, ends) = ends(&Access::plain(), &layout, BEFORE).unwrap();
        assert_eq!((found, ends), (layout, BTreeMap::from([(0, 42)])));
    }

    #[test]
    fn what_does_not_pass_is_told_at_once_and_patience_ends() {
        let refused = leader_that_does_not_know_yet(u32::MAX, 29);
        let error = ends(&Access::plain(), &refused, BEFORE).unwrap_err().to_string();
        assert!(error.contains("TOPIC_AUTHORIZATION_FAILED"), "{error}");
        let never = leader_that_does_not_know_yet(u32::MAX, 6);
        let error = ends(&Access::plain(), &never, Duration::from_millis(200)).unwrap_err().to_string();
        assert!(error.contains("NOT_LEADER_OR_FOLLOWER"), "{error}");
    }
}
