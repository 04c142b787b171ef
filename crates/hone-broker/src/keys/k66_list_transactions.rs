//! ListTransactions: transactional ids by state, producer, age and name.

use std::collections::HashSet;

use hone_kafka::WireError;
use regex::{Regex, RegexBuilder};

use super::call::{Call, Outcome, once};
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::{Operation, Resource};
use crate::transactions::Transaction;
use crate::wall_clock::unix_ms;

/// Every state that Kafka has a name for. An id is never seen here in the last two: it changes hands, and goes, in
/// one step.
const STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];
/// What a compiled pattern of a client may take.
const PATTERN_BYTES: usize = 1 << 20;

/// What a request wants to see; nothing given is no condition.
struct Filter<'a> {
    states: Vec<&'a str>,
    producer_ids: HashSet<i64>,
    /// Only transactions that run for longer.
    older_than_ms: i64,
    name: Option<Regex>,
}

impl Filter<'_> {
    fn admits(&self, name: &str, transaction: &Transaction, now_ms: i64) -> bool {
        let age_ms = now_ms.saturating_sub(transaction.started_ms);
        (self.states.is_empty() || self.states.contains(&transaction.phase.name()))
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&transaction.producer.id))
            && (self.older_than_ms < 0 || age_ms > self.older_than_ms)
            && self.name.as_ref().is_none_or(|pattern| pattern.is_match(name))
    }
}

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let (mut states, mut unknown) = (Vec::new(), Vec::new());
    for _ in 0..fields.array("state filters")? {
        let state = fields.string("state filter")?;
        if STATES.contains(&state) { states.push(state) } else { unknown.push(state) }
    }
    let (states, unknown) = (once(states), once(unknown));
    let mut producer_ids = HashSet::new();
    for _ in 0..fields.array("producer id filters")? {
        producer_ids.insert(fields.i64("producer id filter")?);
    }
    let older_than_ms = if call.version >= 1 { fields.i64("duration filter")? } else { -1 };
    let pattern = if call.version >= 2 { fields.nullable_string("transactional id pattern")? } else { None };
    fields.tags()?;
    // Only unknown states were asked for: nothing is in them, and no filter would let everything through.
    let nothing = states.is_empty() && !unknown.is_empty();
    let (error, found) = match pattern.filter(|pattern| !pattern.is_empty()).map(whole_name).transpose() {
        Err(_) => (code::INVALID_REGULAR_EXPRESSION, Vec::new()),
        Ok(_) if nothing => (code::NONE, Vec::new()),
        Ok(name) => {
            let filter = Filter { states, producer_ids, older_than_ms, name };
            (code::NONE, find(call, &filter))
        }
    };
    answer.i32(0);
    answer.i16(error);
    answer.array(unknown.len());
    unknown.iter().for_each(|state| answer.string(state));
    answer.array(found.len());
    for (name, producer_id, state) in found {
        answer.string(&name);
        answer.i64(producer_id);
        answer.string(state);
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// Kafka matches the whole name.
fn whole_name(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(PATTERN_BYTES).build()
}

fn find(call: &Call<'_>, filter: &Filter<'_>) -> Vec<(String, i64, &'static str)> {
    let now_ms = unix_ms();
    let mut found = call.node.transactions.list(|name, transaction| {
        let row = || (name.to_owned(), transaction.producer.id, transaction.phase.name());
        let seen = filter.admits(name, transaction, now_ms)
            && call.allows(Operation::Describe, Resource::TransactionalId, name);
        seen.then(row)
    });
    found.sort_unstable();
    found
}
