//! Members of share groups (KIP-932), each on a thread of its own, and where their groups begin.

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use hone_kafka::error_name;
use kafka_protocol::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use kafka_protocol::messages::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse, ApiKey, ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
};
use kafka_protocol::protocol::StrBytes;

use super::member::{
    AWAY, FENCED_MEMBER_EPOCH, HEARTBEAT_EVERY, Member, Pause, Stop, UNKNOWN_MEMBER_ID, pause,
};
use crate::admin::{Admin, topic_name};
use crate::error::LoadError;
use crate::topic_set::{TopicIds, TopicSet};

const SHARE_GROUP_HEARTBEAT_VERSION: i16 = 1;
const ALTER_SHARE_GROUP_OFFSETS_VERSION: i16 = 0;
/// With this epoch a member leaves.
const LEAVES: i32 = -1;

/// Makes a group without members begin at these offsets.
pub(super) fn place_group(
    coordinator: &mut Admin,
    group: &str,
    topics: &TopicSet,
    from: &BTreeMap<i32, i64>,
) -> Result<(), LoadError> {
    let partition = |(partition, start): (i32, i64)| {
        AlterShareGroupOffsetsRequestPartition::default()
            .with_partition_index(partition)
            .with_start_offset(start)
    };
    let topic = |(name, partitions): (&str, Vec<(i32, i64)>)| {
        AlterShareGroupOffsetsRequestTopic::default()
            .with_topic_name(topic_name(name))
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    let of_topics = topics.by_topic(from.iter().map(|(number, next)| (*number, *next)));
    let request = AlterShareGroupOffsetsRequest::default()
        .with_group_id(StrBytes::from_string(group.to_owned()).into())
        .with_topics(of_topics.into_iter().map(topic).collect());
    let (key, version) = (ApiKey::AlterShareGroupOffsets, ALTER_SHARE_GROUP_OFFSETS_VERSION);
    if !coordinator.takes(key)? {
        let address = coordinator.address();
        let problem = format!("`share` needs share groups (KIP-932), which {address} does not have");
        return Err(LoadError::Setting { name: "group_protocol", problem });
    }
    let answer: AlterShareGroupOffsetsResponse = coordinator.ask(key, version, &request)?;
    let of_partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    let first = std::iter::once((answer.error_code, &answer.error_message))
        .chain(of_partitions.map(|partition| (partition.error_code, &partition.error_message)))
        .find(|(code, _)| *code != 0);
    let Some((code, message)) = first else { return Ok(()) };
    let message = message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
    coordinator.accepted(&format!("to place share group `{group}`"), code, message)
}

/// A member of a share group.
pub(super) struct Sharer<'a> {
    of: &'a Member,
    line: Admin,
    epoch: i32,
    ids: TopicIds,
}

impl<'a> Sharer<'a> {
    pub(super) fn new(of: &'a Member, mut line: Admin) -> Result<Self, LoadError> {
        let ids = line.topic_ids(&of.topics)?;
        Ok(Self { of, line, epoch: 0, ids })
    }

    pub(super) fn serve(mut self, orders: &Receiver<()>) -> Result<(), Stop> {
        loop {
            self.beat()?;
            match pause(orders, HEARTBEAT_EVERY) {
                Pause::Over => {}
                Pause::End => return self.leave(),
                Pause::Leave => {
                    self.leave()?;
                    if matches!(pause(orders, AWAY), Pause::End) {
                        return Err(Stop::Ended);
                    }
                }
            }
        }
    }

    fn beat(&mut self) -> Result<(), Stop> {
        let request = ShareGroupHeartbeatRequest::default()
            .with_group_id(self.of.group_id())
            .with_member_id(self.of.own_id.clone())
            .with_member_epoch(self.epoch)
            .with_subscribed_topic_names((self.epoch == 0).then(|| self.of.topic_names()));
        let (key, version) = (ApiKey::ShareGroupHeartbeat, SHARE_GROUP_HEARTBEAT_VERSION);
        let answer: ShareGroupHeartbeatResponse = self.line.ask(key, version, &request)?;
        match answer.error_code {
            0 => {}
            code @ (FENCED_MEMBER_EPOCH | UNKNOWN_MEMBER_ID) => {
                return Err(Stop::Rejoin(format!("the broker removed it: {}", error_name(code))));
            }
            code => return Err(Stop::Rejoin(format!("ShareGroupHeartbeat: {}", error_name(code)))),
        }
        self.epoch = answer.member_epoch;
        let Some(assignment) = answer.assignment else { return Ok(()) };
        let mut own = Vec::new();
        for topic in &assignment.topic_partitions {
            own.extend(topic.partitions.iter().filter_map(|index| self.ids.number(topic.topic_id, *index)));
        }
        self.of.takes(&own);
        Ok(())
    }

    fn leave(&mut self) -> Result<(), Stop> {
        self.of.give_up(None);
        self.epoch = LEAVES;
        self.beat()?;
        self.epoch = 0;
        Ok(())
    }
}
