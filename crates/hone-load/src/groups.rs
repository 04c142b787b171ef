//! Consumer groups by the plain Kafka API: their members, what they have committed, and where their partitions begin and end.
//!
//! It needs only the right to describe. Groups of the classic protocol and of KIP-848 are described; share groups (KIP-932) are only listed.

use std::collections::{BTreeMap, BTreeSet};

use hone_kafka::{Reader, WireError};
use hone_record::{GroupMember, GroupNow, ListedGroup, TopicPartition};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribeGroupsRequest,
    DescribeGroupsResponse, GroupId, ListGroupsRequest, ListGroupsResponse,
};
use kafka_protocol::protocol::StrBytes;

use crate::admin::Admin;
use crate::cluster::At;
use crate::coordinator::{CoordinatorOf, coordinator};
use crate::error::LoadError;
use crate::topics::{Offsets, Topics};

const LIST_GROUPS_VERSION: i16 = 1;
const DESCRIBE_GROUPS_VERSION: i16 = 2;
const CONSUMER_GROUP_DESCRIBE_VERSION: i16 = 0;
/// A group of the classic protocol is in this state when nobody knows it, for example because it is of KIP-848.
const DEAD: &str = "Dead";

impl Topics {
    /// All groups that this user may see, by name.
    ///
    /// # Errors
    /// Returns an error when no broker answers. Each broker knows its own groups, so one that does not answer hides some, and is an error, too.
    pub fn groups(&mut self) -> Result<Vec<ListedGroup>, LoadError> {
        let seed = self.seed.clone();
        let brokers = self.line(&seed)?.brokers()?;
        let mut found = BTreeSet::new();
        for address in brokers.values() {
            let line = self.line(address)?;
            let request = ListGroupsRequest::default();
            let answer: ListGroupsResponse = line.ask(ApiKey::ListGroups, LIST_GROUPS_VERSION, &request)?;
            line.accepted("to list its groups", answer.error_code, String::new())?;
            found.extend(answer.groups.iter().map(|group| ListedGroup {
                group: group.group_id.to_string(),
                kind: group.protocol_type.to_string(),
            }));
        }
        Ok(found.into_iter().collect())
    }

    /// A group at this moment: members first, then committed offsets, then the ends of its partitions. So a lag is never below 0.
    ///
    /// # Errors
    /// Returns an error when a broker does not answer, or refuses.
    pub fn group_now(&mut self, group: &str) -> Result<GroupNow, LoadError> {
        let seed = self.seed.clone();
        let asked = self.line(&seed)?.another(&seed)?;
        let mut coordinator = coordinator(asked, CoordinatorOf::Group(group))?;
        let mut now = coordinator.described(group)?;
        for (topic, offsets) in coordinator.committed(group)? {
            for (partition, offset) in offsets {
                now.partitions.entry((topic.clone(), partition)).or_default().committed = Some(offset);
            }
        }
        for member in &now.members {
            for partition in &member.partitions {
                now.partitions.entry(partition.clone()).or_default();
            }
        }
        let topics: BTreeSet<String> = now.partitions.keys().map(|(topic, _)| topic.clone()).collect();
        for topic in topics {
            // A topic that was deleted keeps its committed offsets.
            let Ok((layout, _)) = self.layout(&topic) else { continue };
            let (begins, _) = self.offsets(&layout, At::Earliest)?;
            let (ends, _) = self.offsets(&layout, At::Latest)?;
            let of = |offsets: &Offsets, partition: i32| offsets.get(&partition).copied();
            for ((_, partition), position) in now.partitions.iter_mut().filter(|((of, _), _)| *of == topic) {
                (position.begin, position.end) = (of(&begins, *partition), of(&ends, *partition));
            }
        }
        Ok(now)
    }
}

impl Admin {
    /// State and members of a group, from its coordinator.
    fn described(&mut self, group: &str) -> Result<GroupNow, LoadError> {
        let request = DescribeGroupsRequest::default().with_groups(vec![id_of(group)]);
        let answer: DescribeGroupsResponse =
            self.ask(ApiKey::DescribeGroups, DESCRIBE_GROUPS_VERSION, &request)?;
        let found = answer.groups.into_iter().next();
        let found = found.ok_or_else(|| self.garbage("DescribeGroups", "the answer has no group"))?;
        self.accepted(&what(group), found.error_code, String::new())?;
        if &*found.group_state == DEAD {
            return self.described_of_kip_848(group);
        }
        let mut members = Vec::new();
        for member in &found.members {
            let partitions = assigned(&member.member_assignment)
                .map_err(|error| self.garbage("DescribeGroups", &error.to_string()))?;
            members.push(GroupMember {
                member: member.member_id.to_string(),
                client: member.client_id.to_string(),
                host: member.client_host.trim_start_matches('/').to_owned(),
                partitions,
            });
        }
        let state = found.group_state.to_string();
        Ok(GroupNow { group: group.to_owned(), state, members, ..GroupNow::default() })
    }

    fn described_of_kip_848(&mut self, group: &str) -> Result<GroupNow, LoadError> {
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![id_of(group)]);
        // A connection of its own, since a broker that does not support the request closes it.
        let mut line = self.another(self.address())?;
        let (key, version) = (ApiKey::ConsumerGroupDescribe, CONSUMER_GROUP_DESCRIBE_VERSION);
        let answer: Result<ConsumerGroupDescribeResponse, _> = line.ask(key, version, &request);
        let found = answer.ok().and_then(|answer| answer.groups.into_iter().next());
        // GROUP_ID_NOT_FOUND is 69: the group has ended, or there was none.
        let Some(found) = found.filter(|found| found.error_code != 69) else {
            return Ok(GroupNow { group: group.to_owned(), state: DEAD.to_owned(), ..GroupNow::default() });
        };
        self.accepted(&what(group), found.error_code, String::new())?;
        let members = found.members.iter().map(|member| {
            let topics = member.assignment.topic_partitions.iter();
            let each = topics.flat_map(|topic| {
                topic.partitions.iter().map(|partition| (topic.topic_name.to_string(), *partition))
            });
            GroupMember {
                member: member.member_id.to_string(),
                client: member.client_id.to_string(),
                host: member.client_host.trim_start_matches('/').to_owned(),
                partitions: each.collect(),
            }
        });
        Ok(GroupNow {
            group: group.to_owned(),
            state: found.group_state.to_string(),
            epoch: Some(found.group_epoch),
            members: members.collect(),
            partitions: BTreeMap::new(),
        })
    }
}

fn id_of(group: &str) -> GroupId {
    GroupId(StrBytes::from_string(group.to_owned()))
}

fn what(group: &str) -> String {
    format!("to describe group `{group}`")
}

/// Partitions of a member's assignment, as clients write it: version, topics with their partitions, and the client's own bytes. A member that
/// still joins has none.
pub(crate) fn assigned(bytes: &[u8]) -> Result<Vec<TopicPartition>, WireError> {
    let mut partitions = Vec::new();
    if bytes.is_empty() {
        return Ok(partitions);
    }
    let mut reader = Reader::new(bytes);
    reader.i16("the version of an assignment")?;
    for _ in 0..reader.array_length(6, "the topics of an assignment")? {
        let topic = reader.string("a topic of an assignment")?;
        for _ in 0..reader.array_length(4, "the partitions of an assignment")? {
            partitions.push((topic.to_owned(), reader.i32("a partition of an assignment")?));
        }
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_and_never_trusted() {
        let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 6];
        bytes.extend(b"orders");
        bytes.extend([0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff]);
        let orders = |partition| ("orders".to_owned(), partition);
        assert_eq!(assigned(&bytes).unwrap(), [orders(3), orders(5)]);
        assert_eq!(assigned(&[]).unwrap(), []);
        for length in 1..bytes.len() - 4 {
            assert!(assigned(&bytes[..length]).is_err(), "{length} bytes");
        }
        assert!(assigned(&[0, 1, 0x7f, 0xff, 0xff, 0xff]).is_err());
    }
}
