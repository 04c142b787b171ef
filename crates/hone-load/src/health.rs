//! Health of a cluster by the plain Kafka API: its brokers, leaders, in-sync replicas and consumer lag. It works with every broker that
//! speaks this API, and needs only the right to describe.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kafka_protocol::messages::{
    ApiKey, DescribeConfigsRequest, DescribeConfigsResponse, DescribeQuorumRequest, DescribeQuorumResponse,
    MetadataRequest, MetadataResponse, OffsetFetchRequest, OffsetFetchResponse, TopicName,
    describe_configs_request::DescribeConfigsResource, describe_quorum_request,
};
use kafka_protocol::protocol::StrBytes;
use serde::{Deserialize, Serialize};

use crate::admin::{Admin, METADATA_VERSION, remember};
use crate::cluster::At;
use crate::coordinator::{CoordinatorOf, coordinator};
use crate::error::LoadError;
use crate::security::{Access, Security};
use crate::topics::Topics;

const DESCRIBE_CONFIGS_VERSION: i16 = 2;
const DESCRIBE_QUORUM_VERSION: i16 = 0;
const OFFSET_FETCH_VERSION: i16 = 5;
const TOPIC_RESOURCE: i8 = 2;
const MIN_ISR: &str = "min.insync.replicas";
/// The topic in which KRaft controllers keep their metadata.
const QUORUM_TOPIC: &str = "__cluster_metadata";
/// Time limit for each step of reaching a broker, and for its answer. A slower broker is unhealthy.
const STEP_LIMIT: Duration = Duration::from_secs(3);
/// Number of topics whose settings are requested at once.
const TOPICS_AT_ONCE: usize = 500;

/// A broker as the cluster lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `host:port` that clients use.
    pub address: String,
    /// Rack of the broker.
    pub rack: Option<String>,
    /// Why the broker itself did not answer; `None` if it did.
    pub silent: Option<String>,
}

/// An unhealthy partition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sick {
    /// Topic of the partition.
    pub topic: String,
    /// Index of the partition.
    pub partition: i32,
    /// Replicas that are not in sync.
    pub missing: Vec<i32>,
}

/// Health of a cluster at a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The live brokers of the cluster.
    pub brokers: BTreeMap<i32, Node>,
    /// The controller: with KRaft the leader of the quorum, otherwise the broker that Metadata names.
    pub controller: Option<i32>,
    /// Number of checked partitions.
    pub partitions: u64,
    /// Partitions without a leader.
    pub leaderless: Vec<Sick>,
    /// Partitions with replicas that are not in sync.
    pub incomplete: Vec<Sick>,
    /// Partitions with fewer in-sync replicas than writers with acks=all need; `incomplete` lists the others.
    pub under_min_isr: Vec<Sick>,
    /// Partitions that would reject acks=all after the loss of one more replica, although all replicas are in sync.
    pub at_min_isr: u64,
    /// Topics without a readable `min.insync.replicas`. The last two lists leave them out.
    pub min_isr_unknown: u64,
}

/// Lag of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupLag {
    /// Name of the group.
    pub group: String,
    /// Lag in records over all of its partitions.
    pub lag: u64,
    /// Number of its partitions with committed offsets.
    pub partitions: u64,
}

/// Checks a cluster again and again, over connections that stay open.
#[derive(Debug)]
pub struct Onlooker {
    access: Access,
    security: Security,
    /// Addresses to ask, `host:port`, the last one that answered first.
    addresses: Vec<String>,
    lines: BTreeMap<i32, (String, Admin)>,
    min_isr: BTreeMap<String, Option<i64>>,
    /// Topics that are ignored.
    ignored: BTreeSet<String>,
}

impl Onlooker {
    /// A checker for the cluster of these brokers, `host:port` each. It opens no connection yet.
    ///
    /// # Errors
    /// Returns an error when a file of `security` can't be used.
    pub fn new(addresses: &[String], security: &Security) -> Result<Self, LoadError> {
        Ok(Self {
            access: Access::new(security)?,
            security: security.clone(),
            addresses: addresses.to_vec(),
            lines: BTreeMap::new(),
            min_isr: BTreeMap::new(),
            ignored: BTreeSet::new(),
        })
    }

    /// Ignores this topic from now on.
    pub fn ignore(&mut self, topic: &str) {
        self.ignored.insert(topic.to_owned());
    }

    /// Health of the cluster now, by the first broker that answers. Every other broker is asked whether it answers.
    ///
    /// # Errors
    /// Returns an error when no broker answers.
    pub fn look(&mut self) -> Result<Health, LoadError> {
        let (mut asked, answer) = self.metadata()?;
        let mut health = Health { brokers: nodes(&answer), ..Health::default() };
        self.learn_min_isr(&mut asked, &answer)?;
        add_partitions(&mut health, &answer, &self.ignored, &self.min_isr);
        health.controller =
            quorum_leader(&asked).or((answer.controller_id.0 >= 0).then_some(answer.controller_id.0));
        for (id, node) in &mut health.brokers {
            node.silent = self.answers(*id, &node.address).err().map(|error| error.to_string());
        }
        self.lines.retain(|id, _| health.brokers.contains_key(id));
        remember(&mut self.addresses, health.brokers.values().map(|node| node.address.clone()));
        Ok(health)
    }

    /// All topics and brokers, with the connection that reported them.
    fn metadata(&mut self) -> Result<(Admin, MetadataResponse), LoadError> {
        let mut failed = None;
        for at in 0..self.addresses.len() {
            let Some(address) = self.addresses.get(at).cloned() else { break };
            let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
            let told = Admin::enter(&address, self.access.clone(), STEP_LIMIT).and_then(|mut admin| {
                let answer: MetadataResponse = admin.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
                if answer.brokers.is_empty() {
                    return Err(admin.garbage("Metadata", "the answer lists no broker, not even this one"));
                }
                Ok((admin, answer))
            });
            match told {
                Ok(told) => {
                    self.addresses.swap(0, at);
                    return Ok(told);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or(LoadError::Setting {
            name: "bootstrap",
            problem: "no broker address was given".to_owned(),
        }))
    }

    /// For topics that were seen before, the known settings stay.
    fn learn_min_isr(&mut self, asked: &mut Admin, answer: &MetadataResponse) -> Result<(), LoadError> {
        let names = answer.topics.iter().filter_map(|topic| Some(topic.name.as_ref()?.to_string()));
        let news: Vec<String> = names.filter(|name| !self.min_isr.contains_key(name)).collect();
        for some in news.chunks(TOPICS_AT_ONCE) {
            let told = asked.min_isr(some)?;
            self.min_isr.extend(some.iter().map(|name| (name.clone(), told.get(name).copied())));
        }
        Ok(())
    }

    /// Whether a broker itself answers.
    fn answers(&mut self, id: i32, address: &str) -> Result<(), LoadError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        if let Some((known, line)) = self.lines.get_mut(&id)
            && known == address
            && line.ask::<_, MetadataResponse>(ApiKey::Metadata, METADATA_VERSION, &request).is_ok()
        {
            return Ok(());
        }
        // A connection may have broken for its own reasons, so a new one decides.
        self.lines.remove(&id);
        let mut line = Admin::enter(address, self.access.clone(), STEP_LIMIT)?;
        line.ask::<_, MetadataResponse>(ApiKey::Metadata, METADATA_VERSION, &request)?;
        self.lines.insert(id, (address.to_owned(), line));
        Ok(())
    }

    /// Lag of a group. Partitions without a known end are left out.
    ///
    /// # Errors
    /// Returns an error when no broker answers for the group, or it has committed no offset.
    pub fn lag(&mut self, group: &str) -> Result<GroupLag, LoadError> {
        let (asked, _) = self.metadata()?;
        let address = asked.address().to_owned();
        let committed = coordinator(asked, CoordinatorOf::Group(group))?.committed(group)?;
        if committed.is_empty() {
            return Err(LoadError::Refused {
                address,
                what: format!("to return the offsets of group `{group}`"),
                error: "the group has committed no offset",
                message: "; check the group's name".to_owned(),
            });
        }
        let mut topics = Topics::enter(&address, &self.security)?;
        let (mut lag, mut partitions) = (0_u64, 0);
        for (topic, offsets) in committed {
            let (layout, _) = topics.layout(&topic)?;
            let (ends, _) = topics.offsets(&layout, At::Latest)?;
            for (partition, offset) in offsets {
                let Some(end) = ends.get(&partition) else { continue };
                lag = lag.saturating_add(u64::try_from(end.saturating_sub(offset)).unwrap_or(0));
                partitions += 1;
            }
        }
        Ok(GroupLag { group: group.to_owned(), lag, partitions })
    }
}

impl Admin {
    /// `min.insync.replicas` of topics. Topics that may not be described are left out.
    fn min_isr(&mut self, topics: &[String]) -> Result<BTreeMap<String, i64>, LoadError> {
        let resource = |topic: &String| {
            DescribeConfigsResource::default()
                .with_resource_type(TOPIC_RESOURCE)
                .with_resource_name(StrBytes::from_string(topic.clone()))
                .with_configuration_keys(Some(vec![StrBytes::from_static_str(MIN_ISR)]))
        };
        let request = DescribeConfigsRequest::default().with_resources(topics.iter().map(resource).collect());
        let answer: DescribeConfigsResponse =
            self.ask(ApiKey::DescribeConfigs, DESCRIBE_CONFIGS_VERSION, &request)?;
        let told = answer.results.iter().filter(|result| result.error_code == 0).filter_map(|result| {
            let config = result.configs.iter().find(|config| &*config.name == MIN_ISR)?;
            Some((result.resource_name.to_string(), config.value.as_ref()?.parse().ok()?))
        });
        Ok(told.collect())
    }

    /// Offsets that a group has committed, by topic and partition.
    pub(crate) fn committed(&mut self, group: &str) -> Result<BTreeMap<String, Vec<(i32, i64)>>, LoadError> {
        let request = OffsetFetchRequest::default()
            .with_group_id(StrBytes::from_string(group.to_owned()).into())
            .with_topics(None);
        let answer: OffsetFetchResponse = self.ask(ApiKey::OffsetFetch, OFFSET_FETCH_VERSION, &request)?;
        let what = format!("to return the offsets of group `{group}`");
        self.accepted(&what, answer.error_code, String::new())?;
        let mut found: BTreeMap<String, Vec<(i32, i64)>> = BTreeMap::new();
        for topic in &answer.topics {
            let kept =
                topic.partitions.iter().filter(|known| known.error_code == 0 && known.committed_offset >= 0);
            let offsets: Vec<(i32, i64)> =
                kept.map(|known| (known.partition_index, known.committed_offset)).collect();
            if !offsets.is_empty() {
                found.insert(topic.name.to_string(), offsets);
            }
        }
        Ok(found)
    }
}

/// The controller of a KRaft cluster. There, Metadata names any broker, since all of them forward requests for the controller (KIP-590).
/// `None` if the broker does not support the request, or refuses it.
fn quorum_leader(beside: &Admin) -> Option<i32> {
    let partition = describe_quorum_request::PartitionData::default().with_partition_index(0);
    let topic = describe_quorum_request::TopicData::default()
        .with_topic_name(TopicName(StrBytes::from_static_str(QUORUM_TOPIC)))
        .with_partitions(vec![partition]);
    let request = DescribeQuorumRequest::default().with_topics(vec![topic]);
    // A connection of its own, since a broker that does not support the request closes it.
    let mut line = beside.another(beside.address()).ok()?;
    line.limit_answers(STEP_LIMIT).ok()?;
    let answer: DescribeQuorumResponse =
        line.ask(ApiKey::DescribeQuorum, DESCRIBE_QUORUM_VERSION, &request).ok()?;
    let found = answer.topics.first()?.partitions.first()?;
    (answer.error_code == 0 && found.error_code == 0 && found.leader_id.0 >= 0).then_some(found.leader_id.0)
}

fn nodes(answer: &MetadataResponse) -> BTreeMap<i32, Node> {
    let node = |broker: &kafka_protocol::messages::metadata_response::MetadataResponseBroker| Node {
        address: format!("{}:{}", &*broker.host, broker.port),
        rack: broker.rack.as_ref().map(|rack| rack.to_string()).filter(|rack| !rack.is_empty()),
        silent: None,
    };
    answer.brokers.iter().map(|broker| (broker.node_id.0, node(broker))).collect()
}

fn add_partitions(
    health: &mut Health,
    answer: &MetadataResponse,
    ignored: &BTreeSet<String>,
    min_isr: &BTreeMap<String, Option<i64>>,
) {
    for topic in &answer.topics {
        let Some(name) = topic.name.as_ref().map(|name| name.to_string()) else { continue };
        if ignored.contains(&name) {
            continue;
        }
        let least = min_isr.get(&name).copied().flatten();
        health.min_isr_unknown += u64::from(least.is_none());
        for partition in &topic.partitions {
            health.partitions += 1;
            let in_sync: BTreeSet<i32> = partition.isr_nodes.iter().map(|node| node.0).collect();
            let replicas = partition.replica_nodes.iter().map(|node| node.0);
            let missing: Vec<i32> = replicas.filter(|node| !in_sync.contains(node)).collect();
            let in_sync = i64::try_from(in_sync.len()).unwrap_or(i64::MAX);
            health.at_min_isr += u64::from(missing.is_empty() && least == Some(in_sync));
            let sick = Sick { topic: name.clone(), partition: partition.partition_index, missing };
            if least.is_some_and(|least| in_sync < least) {
                health.under_min_isr.push(sick.clone());
            }
            if partition.leader_id.0 < 0 {
                health.leaderless.push(sick);
            } else if !sick.missing.is_empty() {
                health.incomplete.push(sick);
            }
        }
    }
}

impl Health {
    /// Problems in words; empty for a healthy cluster. `expected` are the brokers that must exist.
    pub fn faults(&self, expected: &BTreeSet<i32>) -> Vec<String> {
        let mut faults = Vec::new();
        let gone: Vec<String> =
            expected.iter().filter(|id| !self.brokers.contains_key(id)).map(i32::to_string).collect();
        if !gone.is_empty() {
            faults.push(format!("broker {} is not in the cluster", gone.join(", ")));
        }
        for (id, node) in &self.brokers {
            if let Some(why) = &node.silent {
                faults.push(format!("broker {id} does not answer: {why}"));
            }
        }
        if self.controller.is_none() {
            faults.push("the cluster has no controller".to_owned());
        }
        for (what, sick) in [
            ("without a leader", &self.leaderless),
            ("under min.insync.replicas", &self.under_min_isr),
            ("with replicas that are not in sync", &self.incomplete),
        ] {
            if let Some(first) = sick.first() {
                let (topic, partition) = (&first.topic, first.partition);
                faults.push(format!("{} partitions {what}, {topic}/{partition} first", sick.len()));
            }
        }
        faults
    }

    /// Brokers other than `changed` that are missing, do not answer, or have replicas out of sync, each once.
    pub fn others_in_trouble(&self, expected: &BTreeSet<i32>, changed: i32) -> BTreeSet<i32> {
        let gone = expected.iter().filter(|id| !self.brokers.contains_key(id)).copied();
        let silent = self.brokers.iter().filter(|(_, node)| node.silent.is_some()).map(|(id, _)| *id);
        let behind =
            self.incomplete.iter().chain(&self.leaderless).flat_map(|sick| sick.missing.iter().copied());
        gone.chain(silent).chain(behind).filter(|id| *id != changed).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::BrokerId;
    use kafka_protocol::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};

    fn partition(leader: i32, replicas: &[i32], in_sync: &[i32]) -> MetadataResponsePartition {
        let ids = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
        MetadataResponsePartition::default()
            .with_leader_id(BrokerId(leader))
            .with_replica_nodes(ids(replicas))
            .with_isr_nodes(ids(in_sync))
    }

    fn health(partitions: Vec<MetadataResponsePartition>, least: Option<i64>) -> Health {
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = MetadataResponseTopic::default().with_name(Some(name)).with_partitions(partitions);
        let answer = MetadataResponse::default().with_topics(vec![topic]);
        let node = |port: i32| Node { address: format!("h:{port}"), rack: None, silent: None };
        let mut found = Health {
            brokers: (1..4).map(|id| (id, node(id))).collect(),
            controller: Some(1),
            ..Health::default()
        };
        add_partitions(&mut found, &answer, &BTreeSet::new(), &BTreeMap::from([("t".to_owned(), least)]));
        found
    }

    fn all() -> BTreeSet<i32> {
        BTreeSet::from([1, 2, 3])
    }

    #[test]
    fn a_whole_cluster_has_no_fault() {
        let found = health(vec![partition(1, &[1, 2, 3], &[3, 2, 1]); 2], Some(2));
        assert_eq!(found.faults(&all()), Vec::<String>::new());
        assert_eq!((found.partitions, found.at_min_isr), (2, 0));
        // A topic that can't lose a replica by design is not a fault, but it is counted.
        assert_eq!(health(vec![partition(1, &[1, 2], &[1, 2])], Some(2)).at_min_isr, 1);
    }

    #[test]
    fn each_fault_is_named() {
        let found = health(
            vec![
                partition(-1, &[1, 2, 3], &[]),
                partition(2, &[1, 2, 3], &[2]),
                partition(2, &[1, 2, 3], &[2, 3]),
            ],
            Some(2),
        );
        let faults = found.faults(&all()).join("\n");
        assert!(faults.contains("1 partitions without a leader, t/0 first"), "{faults}");
        assert!(faults.contains("2 partitions under min.insync.replicas"), "{faults}");
        assert!(faults.contains("2 partitions with replicas that are not in sync"), "{faults}");
        assert_eq!(found.others_in_trouble(&all(), 1), BTreeSet::from([2, 3]));
        let mut gone = health(Vec::new(), None);
        gone.brokers.remove(&3);
        gone.controller = None;
        assert_eq!(gone.faults(&all()), ["broker 3 is not in the cluster", "the cluster has no controller"]);
        assert_eq!(gone.others_in_trouble(&all(), 3), BTreeSet::new());
        assert_eq!(gone.others_in_trouble(&all(), 1), BTreeSet::from([3]));
    }

    #[test]
    fn what_is_missing_on_the_changed_broker_is_no_trouble_of_others() {
        let found = health(vec![partition(2, &[1, 2, 3], &[2, 3])], Some(1));
        assert_eq!(found.others_in_trouble(&all(), 1), BTreeSet::new());
        assert_eq!(found.others_in_trouble(&all(), 2), BTreeSet::from([1]));
    }
}
