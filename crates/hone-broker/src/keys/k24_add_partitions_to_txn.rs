//! AddPartitionsToTxn: a transaction is about to write to partitions. From version 4 on it is what brokers ask each
//! other, for many transactions at once, and perhaps only whether the partitions are part of them.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::keys::park::{Attempt, Park};
use crate::protocol::{Answer, Fields};
use crate::reply::Reply;
use crate::security::acl::Operation;
use crate::transactions::Places;
use crate::transactions::producer::Producer;

/// From here on clients know that being fenced is not the same as an invalid epoch.
const KNOWS_FENCED: i16 = 2;
/// First version with many transactions.
const BATCHED: i16 = 4;
/// From here on an error that ends the transaction, and not the producer, has a code of its own.
const KNOWS_ABORTABLE: i16 = 5;

/// One transaction of a request.
struct Asked<'a> {
    name: &'a str,
    producer: Producer,
    verify_only: bool,
    topics: Vec<(&'a str, Vec<i32>)>,
}

/// An error code for each partition of a transaction, in the order of the request.
type Verdict = Vec<i16>;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let asked = read(call.version, call.fields())?;
    if call.version >= BATCHED && !call.allows_cluster(Operation::ClusterAction) {
        answer.i32(0);
        answer.i16(code::CLUSTER_AUTHORIZATION_FAILED);
        answer.array(0);
        answer.tags();
        return Ok(Outcome::Reply);
    }
    let verdicts: Vec<Verdict> = match &call.attempt {
        Attempt::Answered(Reply::Code(error)) if *error != code::NONE => {
            asked.iter().map(|transaction| transaction.all(*error)).collect()
        }
        Attempt::First => {
            let (verdicts, waits) = add(call, &asked);
            if waits {
                return Ok(Outcome::Park(Park::Reply));
            }
            verdicts
        }
        // What was added is durable; what was refused is refused for the same reason as before.
        _ => asked.iter().map(|transaction| judge(call, transaction)).collect(),
    };
    write(answer, call.version, &asked, &verdicts);
    Ok(Outcome::Reply)
}

impl<'a> Asked<'a> {
    fn partitions(&self) -> impl Iterator<Item = (&'a str, i32)> {
        self.topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(|index| (*topic, *index)))
    }

    fn all(&self, error: i16) -> Verdict {
        self.partitions().map(|_| error).collect()
    }

    fn places(&self) -> Places {
        let mut places = Places::default();
        for (topic, partition) in self.partitions() {
            places.partitions.entry(topic.to_owned()).or_default().insert(partition);
        }
        places
    }
}

fn read<'a>(version: i16, mut fields: Fields<'a>) -> Result<Vec<Asked<'a>>, WireError> {
    let mut asked = Vec::new();
    let transactions = if version >= BATCHED { fields.array("transactions")? } else { 1 };
    for _ in 0..transactions {
        let name = fields.string("transactional id")?;
        let producer = Producer { id: fields.i64("producer id")?, epoch: fields.i16("producer epoch")? };
        let verify_only = version >= BATCHED && fields.bool("verify only")?;
        let mut topics = Vec::new();
        for _ in 0..fields.array("topics")? {
            let topic = fields.string("topic")?;
            let mut partitions = Vec::new();
            for _ in 0..fields.array("partitions")? {
                partitions.push(fields.i32("partition")?);
            }
            fields.tags()?;
            topics.push((topic, partitions));
        }
        if version >= BATCHED {
            fields.tags()?;
        }
        asked.push(Asked { name, producer, verify_only, topics });
    }
    fields.tags()?;
    Ok(asked)
}

/// Adds all that can be added; whether that has to be waited for.
fn add(call: &Call<'_>, asked: &[Asked<'_>]) -> (Vec<Verdict>, bool) {
    let mut verdicts: Vec<Verdict> = Vec::new();
    let mut wanted = Vec::new();
    for transaction in asked {
        let refused =
            if transaction.verify_only { Some(judge(call, transaction)) } else { refusal(call, transaction) };
        if refused.is_none() {
            wanted.push((verdicts.len(), transaction));
        }
        verdicts.push(refused.unwrap_or_default());
    }
    let places = wanted.iter().map(|(_, asked)| (asked.name, asked.producer, asked.places()));
    let (results, waits) = call.node.transactions.add(call.ticket, places);
    for ((index, transaction), result) in wanted.into_iter().zip(results) {
        let error = result.map_or_else(|error| told(call.version, error), |()| code::NONE);
        if let Some(verdict) = verdicts.get_mut(index) {
            *verdict = transaction.all(error);
        }
    }
    (verdicts, waits)
}

/// A transaction is refused as a whole when it is another one's, or one of its partitions is, or does not exist.
fn refusal(call: &Call<'_>, asked: &Asked<'_>) -> Option<Verdict> {
    if let Some(error) = call.transaction_refusal(Operation::Write, asked.name) {
        return Some(asked.all(error));
    }
    let obstacle = |(topic, partition): (&str, i32)| {
        if !call.allows_topic(Operation::Write, topic) {
            return Some(code::TOPIC_AUTHORIZATION_FAILED);
        }
        let topic = call.node.topics.by_name(topic);
        let exists = topic.is_some_and(|topic| topic.partition(partition).is_some());
        (!exists).then_some(code::UNKNOWN_TOPIC_OR_PARTITION)
    };
    if asked.partitions().all(|place| obstacle(place).is_none()) {
        return None;
    }
    let verdict = |place| obstacle(place).unwrap_or(code::OPERATION_NOT_ATTEMPTED);
    Some(asked.partitions().map(verdict).collect())
}

/// Whether the partitions are part of the transaction.
fn judge(call: &Call<'_>, asked: &Asked<'_>) -> Verdict {
    if let Some(refused) = refusal(call, asked) {
        return refused;
    }
    let verdict = |(topic, partition): (&str, i32)| {
        let has = |places: &Places| places.has_partition(topic, partition);
        let verified = call.node.transactions.verify(asked.name, asked.producer, has);
        verified.map_or_else(|error| told(call.version, error), |()| code::NONE)
    };
    asked.partitions().map(verdict).collect()
}

/// The error as clients of this version know it.
fn told(version: i16, error: i16) -> i16 {
    match error {
        code::PRODUCER_FENCED if version < KNOWS_FENCED => code::INVALID_PRODUCER_EPOCH,
        code::TRANSACTION_ABORTABLE if version < KNOWS_ABORTABLE => code::INVALID_TXN_STATE,
        other => other,
    }
}

fn write(answer: &mut Answer<'_>, version: i16, asked: &[Asked<'_>], verdicts: &[Verdict]) {
    answer.i32(0);
    if version >= BATCHED {
        answer.i16(code::NONE);
        answer.array(asked.len());
    }
    for (transaction, verdict) in asked.iter().zip(verdicts) {
        if version >= BATCHED {
            answer.string(transaction.name);
        }
        let mut errors = verdict.iter();
        answer.array(transaction.topics.len());
        for (topic, partitions) in &transaction.topics {
            answer.string(topic);
            answer.array(partitions.len());
            for partition in partitions {
                answer.i32(*partition);
                answer.i16(errors.next().copied().unwrap_or(code::NONE));
                answer.tags();
            }
            answer.tags();
        }
        if version >= BATCHED {
            answer.tags();
        }
    }
    answer.tags();
}
