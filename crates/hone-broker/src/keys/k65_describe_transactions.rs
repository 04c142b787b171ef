//! DescribeTransactions: what is known of transactional ids.

use hone_kafka::WireError;

use super::call::{Call, Outcome, once};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::Operation;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    answer.i32(0);
    let mut names = Vec::new();
    for _ in 0..fields.array("transactional ids")? {
        names.push(fields.string("transactional id")?);
    }
    fields.tags()?;
    let names = once(names);
    answer.array(names.len());
    names.into_iter().for_each(|name| describe(call, answer, name));
    answer.tags();
    Ok(Outcome::Reply)
}

fn describe(call: &Call<'_>, answer: &mut Answer<'_>, name: &str) {
    let refused = call.transaction_refusal(Operation::Describe, name);
    let found = call.node.transactions.describe(name).filter(|_| refused.is_none());
    match found {
        Some(transaction) => {
            answer.i16(code::NONE);
            answer.string(name);
            answer.string(transaction.phase.name());
            answer.i32(transaction.timeout_ms);
            answer.i64(transaction.started_ms);
            answer.i64(transaction.producer.id);
            answer.i16(transaction.producer.epoch);
            let topics = transaction.places.partitions.iter();
            let topics: Vec<_> =
                topics.filter(|(topic, _)| call.allows_topic(Operation::Describe, topic)).collect();
            answer.array(topics.len());
            for (topic, partitions) in topics {
                answer.string(topic);
                answer.array(partitions.len());
                partitions.iter().for_each(|partition| answer.i32(*partition));
                answer.tags();
            }
        }
        None => {
            let absent =
                if name.is_empty() { code::INVALID_REQUEST } else { code::TRANSACTIONAL_ID_NOT_FOUND };
            answer.i16(refused.unwrap_or(absent));
            answer.string(name);
            answer.string("");
            answer.i32(0);
            answer.i64(-1);
            answer.i64(-1);
            answer.i16(-1);
            answer.array(0);
        }
    }
    answer.tags();
}
