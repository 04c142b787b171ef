//! DeleteRecords: moves the first offset of partitions up.

use std::sync::Arc;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::node::Node;
use crate::partition::{Partition, ReadError};
use crate::protocol::Answer;
use crate::security::acl::Operation;

/// Everything up to the high watermark.
const HIGH_WATERMARK: i64 = -1;

struct Asked {
    topic: String,
    forbidden: Option<i16>,
    /// Partitions and offsets.
    partitions: Vec<(i32, i64)>,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("topics")? {
        let topic = fields.string("topic")?.to_owned();
        let mut partitions = Vec::new();
        for _ in 0..fields.array("partitions")? {
            partitions.push((fields.i32("partition")?, fields.i64("offset")?));
            fields.tags()?;
        }
        fields.tags()?;
        let forbidden = call.topic_refusal(Operation::Delete, &topic);
        asked.push(Asked { topic, forbidden, partitions });
    }
    fields.i32("timeout")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| write(node, answer, &asked)))
}

fn write(node: &Node, answer: &mut Answer<'_>, asked: &[Asked]) {
    answer.i32(0);
    answer.array(asked.len());
    for Asked { topic, forbidden, partitions } in asked {
        let found = node.topics.by_name(topic);
        answer.string(topic);
        answer.array(partitions.len());
        for (index, offset) in partitions {
            let partition = found.as_ref().and_then(|topic| topic.partition(*index));
            let outcome = match (forbidden, partition) {
                (Some(error), _) => Err(*error),
                (None, Some(partition)) => delete(node, partition, *offset),
                (None, None) => Err(code::UNKNOWN_TOPIC_OR_PARTITION),
            };
            answer.i32(*index);
            answer.i64(outcome.unwrap_or(-1));
            answer.i16(outcome.err().unwrap_or(code::NONE));
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}

/// The first offset that is left.
fn delete(node: &Node, partition: &Arc<Partition>, offset: i64) -> Result<i64, i16> {
    let before = if offset == HIGH_WATERMARK { partition.bounds().high_watermark } else { offset };
    partition.delete_records(before).map_err(|error| match error {
        ReadError::OutOfRange => code::OFFSET_OUT_OF_RANGE,
        ReadError::Storage(_) => {
            let (topic, index) = (&partition.topic, partition.index);
            node.settings.notices.say(&format!("{topic}-{index}: can't delete records: {error}"));
            code::KAFKA_STORAGE_ERROR
        }
    })
}
