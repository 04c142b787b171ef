//! Whether a rebuilt broker still works: produce, read back, compare byte for byte.

use std::time::Duration;

use hone_kafka::{Codec, ProduceFrame, batch, batches, codec, records};
use hone_record::{SmokeTest, Workload};

use crate::admin::{Admin, CLIENT_ID, TopicLayout};
use crate::connection::{Cargo, Connection};
use crate::error::LoadError;
use crate::frames::{Request, codec_of, encoding};
use crate::payload::Values;
use crate::security::Access;

/// Size limit of one decompressed batch.
const UNPACK_LIMIT_BYTES: usize = 256 << 20;
/// A broker without progress over this many reads has lost data.
const READS_WITHOUT_PROGRESS: u32 = 20;

/// Writes `batches` batches of the workload to each partition of a new topic, one at a time. Then reads everything back and compares every
/// value with the one that was sent. A difference is a result, not an error.
///
/// # Errors
/// Returns an error when the broker can't be reached, refuses or sends invalid answers.
pub fn smoke_test(address: &str, workload: &Workload, batches: u32) -> Result<SmokeTest, LoadError> {
    let mut admin = Admin::connect(address)?;
    let topic = format!("hone-smoke-{}", std::process::id());
    admin.create_topic_of(&topic, workload)?;
    let tested = produce_and_read(&mut admin, &topic, workload, batches);
    let deleted = admin.delete_topic(&topic);
    let (records, difference) = tested?;
    deleted?;
    let what = format!(
        "{records} records in {} batches over {} partitions written, read back and compared byte for byte",
        batches * workload.partitions,
        workload.partitions
    );
    Ok(SmokeTest { what, records, passed: difference.is_none(), difference })
}

fn produce_and_read(
    admin: &mut Admin,
    topic: &str,
    workload: &Workload,
    batches: u32,
) -> Result<(u64, Option<String>), LoadError> {
    let layout = admin.layout(&topic.into(), Some(workload.partitions))?;
    let codec = codec_of(workload)?;
    let mut values = Values::new(&workload.payload, workload.record_bytes, workload.seed ^ 0x5AFE)?;
    let mut records = 0;
    for (address, partitions) in &layout.leaders {
        let mut reader = admin.another(address)?;
        for &partition in partitions {
            let sent = produce(address, &layout, partition, workload, batches, codec, &mut values)?;
            records += sent.len() as u64;
            if let Some(difference) = read_back(&mut reader, topic, partition, &sent)? {
                return Ok((records, Some(difference)));
            }
        }
    }
    Ok((records, None))
}

fn produce(
    address: &str,
    layout: &TopicLayout,
    partition: i32,
    workload: &Workload,
    batches: u32,
    codec: Codec,
    values: &mut Values,
) -> Result<Vec<Vec<u8>>, LoadError> {
    let mut sent = Vec::new();
    let mut connection =
        Connection::open(&Access::plain(), address, &layout.topics, Duration::from_secs(10))?;
    for _ in 0..batches {
        let mut builder = hone_kafka::BatchBuilder::new(codec);
        for _ in 0..workload.records_per_batch {
            let value = values.next_value();
            builder.push(None, Some(&value), 1_700_000_000_000);
            sent.push(value);
        }
        let bytes = builder.build().map_err(|error| encoding(&error))?;
        let frame = ProduceFrame::new(CLIENT_ID, -1, 10_000, layout.topics.first(), &[(partition, &bytes)]);
        let request = Request::new(frame.map_err(|error| encoding(&error))?, Cargo::default(), partition);
        connection.send_and_wait(&request, workload.timeout_s)?;
    }
    Ok(sent)
}

/// The first difference between what was sent and what the partition holds.
fn read_back(
    admin: &mut Admin,
    topic: &str,
    partition: i32,
    sent: &[Vec<u8>],
) -> Result<Option<String>, LoadError> {
    let (mut offset, mut stuck) = (0, 0);
    while (offset as usize) < sent.len() {
        let record_set = admin.fetch(topic, partition, offset)?;
        match compare(&record_set, offset, sent) {
            Err(difference) => return Ok(Some(format!("{topic}/{partition}: {difference}"))),
            Ok(next) if next > offset => (offset, stuck) = (next, 0),
            Ok(_) => stuck += 1,
        }
        if stuck == READS_WITHOUT_PROGRESS {
            let lost = format!(
                "{topic}/{partition}: {} records were acknowledged, but only {offset} can be read",
                sent.len()
            );
            return Ok(Some(lost));
        }
    }
    Ok(None)
}

/// Compares a record set with the records that were sent, beginning at `from`; returns the next offset. Fetch may return a torn batch at
/// the end.
fn compare(record_set: &[u8], from: i64, sent: &[Vec<u8>]) -> Result<i64, String> {
    let mut next = from;
    for found in batches(record_set) {
        let Ok(found) = found else { break };
        batch::verify_crc(found.bytes)
            .map_err(|error| format!("offset {}: {error}", found.header.base_offset))?;
        let plain = codec::decompress(found.header.codec(), found.payload(), UNPACK_LIMIT_BYTES)
            .map_err(|error| format!("offset {}: {error}", found.header.base_offset))?;
        for record in records(&plain, found.header.record_count) {
            let record = record.map_err(|error| format!("offset {}: {error}", found.header.base_offset))?;
            let offset = found.header.base_offset + i64::from(record.offset_delta);
            if offset < from {
                continue;
            }
            if offset != next {
                return Err(format!("got offset {offset}, expected {next}"));
            }
            let wanted = usize::try_from(offset).ok().and_then(|index| sent.get(index));
            if record.value != wanted.map(Vec::as_slice) {
                return Err(format!("the value at offset {offset} differs from the value that was sent"));
            }
            next += 1;
        }
    }
    Ok(next)
}
