//! The requests of a transaction: to its own coordinator, and to that of the group whose offsets are part of it.
//!
//! Versions are the last non-flexible ones. Brokers since Kafka 2.5 have them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    ApiKey, EndTxnRequest, EndTxnResponse, GroupId, InitProducerIdRequest, InitProducerIdResponse,
    ProducerId, TransactionalId, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::{Admin, topic_name};
use crate::coordinator::{CoordinatorOf, coordinator, looked_up_anew, passing};
use crate::error::LoadError;
use crate::frames::Producer;
use crate::security::Access;
use crate::topic_set::TopicSet;

const INIT_PRODUCER_ID_VERSION: i16 = 1;
const ADD_PARTITIONS_TO_TXN_VERSION: i16 = 1;
const ADD_OFFSETS_TO_TXN_VERSION: i16 = 1;
const TXN_OFFSET_COMMIT_VERSION: i16 = 2;
const END_TXN_VERSION: i16 = 1;
/// A coordinator aborts a transaction that is open for longer.
const TIMEOUT_MS: i32 = 60_000;
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Errors that pass: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, CONCURRENT_TRANSACTIONS.
const PASSING: [i16; 3] = [14, 15, 51];

/// One transactional producer, and the group whose offsets it commits.
#[derive(Debug)]
pub(super) struct Transactions {
    line: Admin,
    group_line: Admin,
    id: String,
    group: String,
    /// Producer id and epoch of the batches.
    pub(super) producer: Producer,
    /// Partitions that are part of the open transaction.
    added: BTreeSet<i32>,
}

impl Transactions {
    /// Finds both coordinators. A transaction that an earlier producer with this id left open is aborted.
    pub(super) fn enter(address: &str, access: &Access, id: &str, group: &str) -> Result<Self, LoadError> {
        looked_up_anew(|| Self::enter_once(address, access, id, group))
    }

    fn enter_once(address: &str, access: &Access, id: &str, group: &str) -> Result<Self, LoadError> {
        let line = |of| coordinator(Admin::enter(address, access.clone(), Admin::LIMIT)?, of);
        let mut entered = Self {
            line: line(CoordinatorOf::Transactions(id))?,
            group_line: line(CoordinatorOf::Group(group))?,
            id: id.to_owned(),
            group: group.to_owned(),
            producer: Producer { id: -1, epoch: -1 },
            added: BTreeSet::new(),
        };
        entered.renew()?;
        Ok(entered)
    }

    /// The same producer by its next epoch, through another broker.
    pub(super) fn enter_again(&self, address: &str, access: &Access) -> Result<Self, LoadError> {
        Self::enter(address, access, &self.id, &self.group)
    }

    /// The offsets of the group, by the numbers of the partitions.
    pub(super) fn committed(&mut self, topics: &TopicSet) -> Result<BTreeMap<i32, i64>, LoadError> {
        let found = self.group_line.committed(&self.group)?;
        let of_topic = |(topic, offsets): (String, Vec<(i32, i64)>)| {
            let number = move |(partition, next)| Some((topics.number(&topic, partition)?, next));
            offsets.into_iter().filter_map(number).collect::<Vec<_>>()
        };
        Ok(found.into_iter().flat_map(of_topic).collect())
    }

    /// The id, as requests have it.
    pub(super) fn transactional_id(&self) -> TransactionalId {
        TransactionalId(StrBytes::from_string(self.id.clone()))
    }

    fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_string(self.group.clone()))
    }

    /// Takes the next epoch: what the last one left open is aborted, and sequences begin anew.
    fn renew(&mut self) -> Result<(), LoadError> {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_transaction_timeout_ms(TIMEOUT_MS);
        let answer: InitProducerIdResponse = self.until_taken("a producer id", |line| {
            let answer: InitProducerIdResponse =
                line.ask(ApiKey::InitProducerId, INIT_PRODUCER_ID_VERSION, &request)?;
            Ok((answer.error_code, answer))
        })?;
        self.producer = Producer { id: answer.producer_id.0, epoch: answer.producer_epoch };
        self.added.clear();
        Ok(())
    }

    /// Makes partitions part of the transaction, before the first batch for each.
    pub(super) fn add(&mut self, topics: &TopicSet, partitions: &[i32]) -> Result<(), LoadError> {
        let new: Vec<i32> =
            partitions.iter().filter(|number| !self.added.contains(number)).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let topic = |(name, partitions): (&str, Vec<(i32, ())>)| {
            AddPartitionsToTxnTopic::default()
                .with_name(topic_name(name))
                .with_partitions(partitions.into_iter().map(|(partition, ())| partition).collect())
        };
        let of_topics = topics.by_topic(new.iter().map(|number| (*number, ())));
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(self.producer.id))
            .with_v3_and_below_producer_epoch(self.producer.epoch)
            .with_v3_and_below_topics(of_topics.into_iter().map(topic).collect());
        self.until_taken("to add partitions to a transaction", |line| {
            let answer: AddPartitionsToTxnResponse =
                line.ask(ApiKey::AddPartitionsToTxn, ADD_PARTITIONS_TO_TXN_VERSION, &request)?;
            let topics = answer.results_by_topic_v3_and_below.iter();
            let mut codes = topics.flat_map(|topic| &topic.results_by_partition);
            let code = codes.find_map(|result| Some(result.partition_error_code).filter(|code| *code != 0));
            Ok((code.unwrap_or(0), ()))
        })?;
        self.added.extend(new);
        Ok(())
    }

    /// Commits what was written, and with it the offsets to go on from.
    pub(super) fn commit(
        &mut self,
        topics: &TopicSet,
        positions: &BTreeMap<i32, i64>,
    ) -> Result<(), LoadError> {
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_group_id(self.group_id());
        self.until_taken("to add offsets to a transaction", |line| {
            let answer: AddOffsetsToTxnResponse =
                line.ask(ApiKey::AddOffsetsToTxn, ADD_OFFSETS_TO_TXN_VERSION, &request)?;
            Ok((answer.error_code, ()))
        })?;
        self.commit_offsets(topics, positions)?;
        self.end(true)
    }

    fn commit_offsets(&mut self, topics: &TopicSet, positions: &BTreeMap<i32, i64>) -> Result<(), LoadError> {
        let partition = |(partition, next): (i32, i64)| {
            TxnOffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(next)
        };
        let topic = |(name, positions): (&str, Vec<(i32, i64)>)| {
            TxnOffsetCommitRequestTopic::default()
                .with_name(topic_name(name))
                .with_partitions(positions.into_iter().map(partition).collect())
        };
        let of_topics = topics.by_topic(positions.iter().map(|(number, next)| (*number, *next)));
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(self.group_id())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_topics(of_topics.into_iter().map(topic).collect());
        let group_line = &mut self.group_line;
        passing(&PASSING, ASK_AGAIN_AFTER, || {
            let answer: TxnOffsetCommitResponse =
                group_line.ask(ApiKey::TxnOffsetCommit, TXN_OFFSET_COMMIT_VERSION, &request)?;
            let mut codes = answer.topics.iter().flat_map(|topic| &topic.partitions);
            let code = codes.find_map(|result| Some(result.error_code).filter(|code| *code != 0));
            Ok(group_line.accepted("to commit offsets in a transaction", code.unwrap_or(0), String::new()))
        })
    }

    /// Ends the transaction. What was written is aborted if it is not committed.
    pub(super) fn end(&mut self, is_committed: bool) -> Result<(), LoadError> {
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_committed(is_committed);
        self.until_taken("to end a transaction", |line| {
            let answer: EndTxnResponse = line.ask(ApiKey::EndTxn, END_TXN_VERSION, &request)?;
            Ok((answer.error_code, ()))
        })?;
        self.added.clear();
        Ok(())
    }

    /// Asks the coordinator until it does not refuse for the moment only.
    fn until_taken<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&mut Admin) -> Result<(i16, T), LoadError>,
    ) -> Result<T, LoadError> {
        let line = &mut self.line;
        passing(&PASSING, ASK_AGAIN_AFTER, || {
            let (code, answer) = ask(line)?;
            Ok(line.accepted(what, code, String::new()).map(|()| answer))
        })
    }
}
