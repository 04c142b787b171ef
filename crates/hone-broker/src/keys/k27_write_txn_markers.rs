//! WriteTxnMarkers: ends transactions in partitions, past their coordinator. Coordinators of other brokers send it, of which
//! there are none here, and administrators over a transaction that hangs.

use std::sync::Arc;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::node::Node;
use crate::partition::Partition;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::transaction_ends::{COORDINATOR_EPOCH, Verdict, write_markers};
use crate::transactions::Decision;
use crate::transactions::producer::Producer;

/// Markers, topics and partitions of one request.
const MOST_ENTRIES: usize = 20_000;

/// How one producer's transaction ends, and where.
struct Asked {
    producer: Producer,
    decision: Decision,
    topics: Vec<(String, Vec<i32>)>,
    coordinator_epoch: i32,
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    // The answer has no error for the whole request.
    let Some(asked) = read(call.fields())? else { return Ok(Outcome::Fail(code::INVALID_REQUEST)) };
    let allowed = call.allows_cluster(Operation::Alter) || call.allows_cluster(Operation::ClusterAction);
    if !allowed {
        write(answer, &asked, std::iter::repeat(code::CLUSTER_AUTHORIZATION_FAILED));
        return Ok(Outcome::Reply);
    }
    Ok(call.by_clerk(move |node, answer| {
        let errors = mark(node, &asked);
        write(answer, &asked, errors.into_iter());
    }))
}

/// `None` when it names too much.
fn read(mut fields: Fields<'_>) -> Result<Option<Vec<Asked>>, WireError> {
    let mut asked = Vec::new();
    let mut left = MOST_ENTRIES;
    let mut spend = |entries: usize| {
        let enough = entries <= left;
        left = left.saturating_sub(entries);
        enough
    };
    let markers = fields.array("markers")?;
    if !spend(markers) {
        return Ok(None);
    }
    for _ in 0..markers {
        let producer = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
        let decision = if fields.bool("transaction result")? { Decision::Commit } else { Decision::Abort };
        let mut topics = Vec::new();
        let count = fields.array("topics")?;
        if !spend(count) {
            return Ok(None);
        }
        for _ in 0..count {
            let name = fields.string("topic")?.to_owned();
            let mut partitions = Vec::new();
            let count = fields.array("partitions")?;
            if !spend(count) {
                return Ok(None);
            }
            for _ in 0..count {
                partitions.push(fields.i32("partition")?);
            }
            fields.tags()?;
            topics.push((name, partitions));
        }
        let coordinator_epoch = fields.i32("coordinator epoch")?;
        fields.tags()?;
        asked.push(Asked { producer, decision, topics, coordinator_epoch });
    }
    fields.tags()?;
    Ok(Some(asked))
}

/// Writes the markers durably. One error code for each partition, in the order of the request.
fn mark(node: &Node, asked: &[Asked]) -> Vec<i16> {
    let mut errors = Vec::new();
    let mut verdicts = Vec::new();
    for marker in asked {
        let refusal = marker.refusal();
        for (topic, partitions) in &marker.topics {
            let topic = node.topics.by_name(topic);
            for index in partitions {
                let partition: Option<&Arc<Partition>> =
                    topic.as_ref().and_then(|topic| topic.partition(*index));
                let error = match (refusal, partition) {
                    (Some(error), _) => error,
                    (None, None) => code::UNKNOWN_TOPIC_OR_PARTITION,
                    (None, Some(partition)) => {
                        let (log, decision) = (Arc::clone(partition), marker.decision);
                        verdicts.push((errors.len(), Verdict { log, producer: marker.producer, decision }));
                        code::NONE
                    }
                };
                errors.push(error);
            }
        }
    }
    let (places, verdicts): (Vec<usize>, Vec<Verdict>) = verdicts.into_iter().unzip();
    for (place, error) in places.into_iter().zip(write_markers(node, &verdicts)) {
        if let Some(found) = errors.get_mut(place) {
            *found = error;
        }
    }
    errors
}

impl Asked {
    /// A marker of a later coordinator would shut out the one that there is.
    fn refusal(&self) -> Option<i16> {
        if self.producer.id < 0 || self.producer.epoch < 0 {
            return Some(code::INVALID_PRODUCER_EPOCH);
        }
        (self.coordinator_epoch > COORDINATOR_EPOCH).then_some(code::TRANSACTION_COORDINATOR_FENCED)
    }
}

fn write(answer: &mut Answer<'_>, asked: &[Asked], mut errors: impl Iterator<Item = i16>) {
    answer.array(asked.len());
    for marker in asked {
        answer.i64(marker.producer.id);
        answer.array(marker.topics.len());
        for (topic, partitions) in &marker.topics {
            answer.string(topic);
            answer.array(partitions.len());
            for partition in partitions {
                answer.i32(*partition);
                answer.i16(errors.next().unwrap_or(code::NONE));
                answer.tags();
            }
            answer.tags();
        }
        answer.tags();
    }
    answer.tags();
}
