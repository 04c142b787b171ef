//! Administrative requests around a load: find partitions, create a topic, delete it, read it.
//!
//! Versions are the last non-flexible ones; every broker since Kafka 2.1 has them, Kafka 4.x and Redpanda included.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use bytes::Bytes;
use hone_kafka::error_name;
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, FetchRequest, FetchResponse,
    MetadataRequest, MetadataResponse, TopicName,
    create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
    fetch_request::{FetchPartition, FetchTopic},
    metadata_request::MetadataRequestTopic,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::error::LoadError;
use crate::line::Line;
use crate::security::{Access, Security};
use crate::topic_set::{TopicIds, TopicSet};

pub(crate) const METADATA_VERSION: i16 = 7;
/// It has the ids of topics.
const METADATA_WITH_IDS_VERSION: i16 = 12;
const CREATE_TOPICS_VERSION: i16 = 4;
const DELETE_TOPICS_VERSION: i16 = 3;
const FETCH_VERSION: i16 = 11;
/// Brokers that create a topic across nodes need a moment. A longer delay means trouble in a broker.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// A cluster may need this long to elect the leaders of a new topic.
const NEW_TOPIC_LIMIT: Duration = Duration::from_secs(20);
/// An existing topic's leaders are known, unless an election is in progress.
const OLD_TOPIC_LIMIT: Duration = Duration::from_secs(2);
pub(crate) use crate::line::CLIENT_ID;

/// The leaders of the partitions of a topic, or of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicLayout {
    /// The topics.
    pub topics: TopicSet,
    /// `host:port` of each leader, and the numbers of its partitions.
    pub leaders: Vec<(String, Vec<i32>)>,
}

/// A topic of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Name of the topic.
    pub topic: String,
    /// Number of partitions.
    pub partitions: usize,
    /// Largest number of replicas of a partition, the leader included.
    pub replicas: usize,
    /// Whether it is the cluster's internal topic, such as `__consumer_offsets`.
    pub is_internal: bool,
}

/// A topic as a broker sees it at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopicNow {
    /// The leaders of its partitions, and the partitions without a leader.
    Led { layout: TopicLayout, leaderless: Vec<i32> },
    /// The error's name.
    Unknown(&'static str),
}

/// A blocking connection for administration.
#[derive(Debug)]
pub struct Admin {
    line: Line,
    access: Access,
}

impl Admin {
    /// Time limit of an answer.
    pub(crate) const LIMIT: Duration = ANSWER_LIMIT;

    /// Connects to `host:port` without TLS and login.
    ///
    /// # Errors
    /// Returns an error when no broker listens there.
    pub fn connect(address: &str) -> Result<Self, LoadError> {
        Self::enter(address, Access::plain(), ANSWER_LIMIT)
    }

    /// Connects to `host:port` with these security options.
    ///
    /// # Errors
    /// Returns an error when no broker listens there, a file can't be used, or one side rejects the other.
    pub fn connect_with(address: &str, security: &Security) -> Result<Self, LoadError> {
        Self::enter(address, Access::new(security)?, ANSWER_LIMIT)
    }

    /// Each step of connecting and each answer may take `limit`.
    pub(crate) fn enter(address: &str, access: Access, limit: Duration) -> Result<Self, LoadError> {
        let line = access.enter(address, limit)?;
        Ok(Self { line, access })
    }

    /// A connection of the same kind to another broker of the cluster.
    pub(crate) fn another(&self, address: &str) -> Result<Self, LoadError> {
        Self::enter(address, self.access.clone(), ANSWER_LIMIT)
    }

    /// Checks that a Kafka broker answers at `host:port` within `limit`.
    ///
    /// # Errors
    /// Returns an error when no broker listens there, or the answer is not from a broker that lists itself.
    pub fn ready(address: &str, limit: Duration) -> Result<(), LoadError> {
        Self::ready_with(address, &Security::default(), limit)
    }

    /// Does the same as [`Admin::ready`], with these security options.
    ///
    /// # Errors
    /// Returns the errors of [`Admin::connect_with`], and an error when the answer is not from a broker that lists itself.
    pub fn ready_with(address: &str, security: &Security, limit: Duration) -> Result<(), LoadError> {
        Self::enter(address, Access::new(security)?, limit)?.brokers().map(|_| ())
    }

    /// `host:port` of every broker of the cluster by its id.
    ///
    /// # Errors
    /// Returns an error when the answer is not from a broker that lists itself.
    pub fn brokers(&mut self) -> Result<BTreeMap<i32, String>, LoadError> {
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer: MetadataResponse = self.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        if answer.brokers.is_empty() {
            return Err(self.garbage("Metadata", "the answer lists no broker, not even this one"));
        }
        let named =
            answer.brokers.iter().map(|node| (node.node_id.0, format!("{}:{}", &*node.host, node.port)));
        Ok(named.collect())
    }

    pub(crate) fn address(&self) -> &str {
        self.line.address()
    }

    pub(crate) fn limit_answers(&mut self, limit: Duration) -> Result<(), LoadError> {
        self.line.limit_answers(limit)
    }

    /// Creates a topic with the cluster's default number of replicas.
    ///
    /// # Errors
    /// Returns an error when the broker refuses, with its own message.
    pub fn create_topic(
        &mut self,
        topic: &str,
        partitions: u32,
        config: &BTreeMap<String, String>,
    ) -> Result<(), LoadError> {
        self.create_replicated(topic, partitions, None, config)
    }

    /// Creates the topic that a workload needs.
    ///
    /// # Errors
    /// Returns the errors of [`Self::create_topic`].
    pub fn create_topic_of(
        &mut self,
        topic: &str,
        workload: &hone_record::Workload,
    ) -> Result<(), LoadError> {
        self.create_replicated(
            topic,
            workload.partitions,
            workload.replication_factor,
            &workload.topic_config,
        )
    }

    /// Creates the topic of a workload under that name, unless it exists.
    pub fn make_topic(&mut self, name: &str, workload: &hone_record::Workload) -> Result<(), LoadError> {
        if self.topics()?.iter().any(|listed| listed.topic == name) {
            return Ok(());
        }
        match self.create_topic_of(name, workload) {
            // Another process may have created it meanwhile, or this very request, which a broker repeats if its controller is slow.
            Ok(()) | Err(LoadError::Refused { error: "TOPIC_ALREADY_EXISTS", .. }) => {}
            Err(error) => return Err(error),
        }
        self.layout(&name.into(), Some(workload.partitions)).map(drop)
    }

    fn create_replicated(
        &mut self,
        topic: &str,
        partitions: u32,
        replicas: Option<u16>,
        config: &BTreeMap<String, String>,
    ) -> Result<(), LoadError> {
        // -1 leaves the number to the broker (KIP-464).
        let replicas = replicas.map_or(-1, |replicas| i16::try_from(replicas).unwrap_or(i16::MAX));
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions as i32)
            .with_replication_factor(replicas)
            .with_configs(creatable_configs(config));
        self.create(topic, creatable)
    }

    /// Creates a topic whose partitions have one replica each, on the broker that the list names for each.
    ///
    /// # Errors
    /// Returns an error when the broker refuses, with its own message.
    pub(crate) fn create_placed_topic(
        &mut self,
        topic: &str,
        brokers: &[i32],
        config: &BTreeMap<String, String>,
    ) -> Result<(), LoadError> {
        let placed = |(partition, broker): (i32, &i32)| {
            CreatableReplicaAssignment::default()
                .with_partition_index(partition)
                .with_broker_ids(vec![(*broker).into()])
        };
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            // Both numbers follow from the assignment.
            .with_num_partitions(-1)
            .with_replication_factor(-1)
            .with_assignments((0..).zip(brokers).map(placed).collect())
            .with_configs(creatable_configs(config));
        self.create(topic, creatable)
    }

    fn create(&mut self, topic: &str, creatable: CreatableTopic) -> Result<(), LoadError> {
        let request = CreateTopicsRequest::default().with_topics(vec![creatable]).with_timeout_ms(20_000);
        let answer: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request)?;
        let result =
            answer.topics.first().ok_or_else(|| self.garbage("CreateTopics", "the answer has no topic"))?;
        let message = result.error_message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
        self.accepted(&format!("to create topic `{topic}`"), result.error_code, message)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// Returns an error when the broker refuses.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), LoadError> {
        self.delete_topics(&[topic.to_owned()])
    }

    /// Deletes topics, as far as they can be deleted.
    ///
    /// # Errors
    /// Returns an error when the broker refuses one.
    pub fn delete_topics(&mut self, topics: &[String]) -> Result<(), LoadError> {
        let names = topics.iter().map(|topic| topic_name(topic)).collect();
        let request = DeleteTopicsRequest::default().with_topic_names(names).with_timeout_ms(20_000);
        let answer: kafka_protocol::messages::DeleteTopicsResponse =
            self.ask(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, &request)?;
        let refused = answer.responses.iter().filter(|result| result.error_code != 0);
        // One that is not there is the least of the errors.
        let worst =
            refused.max_by_key(|result| error_name(result.error_code) != "UNKNOWN_TOPIC_OR_PARTITION");
        let Some(worst) = worst else { return Ok(()) };
        let topic = worst.name.as_ref().map_or("", |name| name.0.as_str());
        self.accepted(&format!("to delete topic `{topic}`"), worst.error_code, String::new())
    }

    /// Waits until every partition of the topics has a leader, and returns the leaders. With `partitions` they are new, and the call waits
    /// until they have that number of partitions together. Without, they must exist.
    ///
    /// # Errors
    /// Returns an error when the broker refuses, or the topic has no leaders in time.
    pub fn layout(&mut self, topics: &TopicSet, partitions: Option<u32>) -> Result<TopicLayout, LoadError> {
        let mut last = String::new();
        let patience = if partitions.is_some() { NEW_TOPIC_LIMIT } else { OLD_TOPIC_LIMIT };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.layout_now(topics)? {
                Ok(layout) => {
                    let found: usize = layout.leaders.iter().map(|(_, led)| led.len()).sum();
                    if partitions.is_none_or(|wanted| found == wanted as usize) {
                        return Ok(layout);
                    }
                    last = format!("{found} partitions have a leader");
                }
                Err(why) => last = why,
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let hint = if partitions.is_none() {
            "; create it first (`hone load --make-topic` does), or leave --topic out"
        } else {
            ""
        };
        let message = format!(" after {} s: {last}{hint}", patience.as_secs());
        Err(LoadError::Refused {
            address: self.line.address().to_owned(),
            what: format!("to return the leaders of topic `{}`", topics.label()),
            error: "no leaders",
            message,
        })
    }

    /// The inner `Err` states why the leaders are still unknown.
    fn layout_now(&mut self, topics: &TopicSet) -> Result<Result<TopicLayout, String>, LoadError> {
        Ok(match self.topics_now(topics)?.0 {
            TopicNow::Unknown(error) => Err(error.to_owned()),
            TopicNow::Led { layout, leaderless } => match leaderless.first() {
                Some(number) => {
                    let (topic, partition) = layout.topics.place(*number);
                    Err(format!("{topic}/{partition} has no leader"))
                }
                None => Ok(layout),
            },
        })
    }

    /// Topics as one broker sees them at this moment, and `host:port` of all brokers that it knows.
    pub(crate) fn topics_now(&mut self, topics: &TopicSet) -> Result<(TopicNow, Vec<String>), LoadError> {
        let answer = self.metadata_of(topics.names())?;
        let seen = topics_of(&answer, topics).map_err(|problem| self.garbage("Metadata", &problem))?;
        let brokers = answer.brokers.iter().map(|node| format!("{}:{}", &*node.host, node.port));
        Ok((seen, brokers.collect()))
    }

    /// What a broker knows about topics and the cluster.
    pub(crate) fn metadata_of(&mut self, topics: &[String]) -> Result<MetadataResponse, LoadError> {
        self.metadata_in(METADATA_VERSION, topics)
    }

    /// The same in another version of the answer.
    pub(crate) fn metadata_in(
        &mut self,
        version: i16,
        topics: &[String],
    ) -> Result<MetadataResponse, LoadError> {
        let wanted = |topic: &String| MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let wanted = topics.iter().map(wanted).collect();
        let request =
            MetadataRequest::default().with_topics(Some(wanted)).with_allow_auto_topic_creation(false);
        self.ask(ApiKey::Metadata, version, &request)
    }

    /// The ids of topics.
    pub(crate) fn topic_ids(&mut self, topics: &TopicSet) -> Result<TopicIds, LoadError> {
        let told = self.metadata_in(METADATA_WITH_IDS_VERSION, topics.names())?;
        let id = |name: &String| {
            let found = told.topics.iter().find(|found| found.name.as_ref() == Some(&topic_name(name)));
            found.map(|found| found.topic_id).unwrap_or_default()
        };
        Ok(TopicIds::new(topics.clone(), topics.names().iter().map(id).collect()))
    }

    /// All topics that the broker shows this user, by name.
    ///
    /// # Errors
    /// Returns an error when the broker does not answer.
    pub fn topics(&mut self) -> Result<Vec<Listed>, LoadError> {
        let request = MetadataRequest::default().with_topics(None).with_allow_auto_topic_creation(false);
        let answer: MetadataResponse = self.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        let listed = answer.topics.iter().filter_map(|topic| {
            let name = topic.name.as_ref()?.to_string();
            let replicas = topic.partitions.iter().map(|partition| partition.replica_nodes.len()).max();
            Some(Listed {
                topic: name,
                partitions: topic.partitions.len(),
                replicas: replicas.unwrap_or(0),
                is_internal: topic.is_internal,
            })
        });
        let mut found: Vec<Listed> = listed.collect();
        found.sort_by(|one, other| one.topic.cmp(&other.topic));
        Ok(found)
    }

    /// Reads the record sets of one partition from an offset: whole batches, about a megabyte at most.
    ///
    /// # Errors
    /// Returns an error when the broker refuses.
    pub fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> Result<Bytes, LoadError> {
        let wanted = FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_partition_max_bytes(1 << 20);
        let request = FetchRequest::default()
            .with_max_wait_ms(500)
            .with_min_bytes(1)
            .with_max_bytes(4 << 20)
            .with_session_epoch(-1)
            .with_topics(vec![
                FetchTopic::default().with_topic(topic_name(topic)).with_partitions(vec![wanted]),
            ]);
        let answer: FetchResponse = self.ask(ApiKey::Fetch, FETCH_VERSION, &request)?;
        let what = format!("to read {topic}/{partition} from offset {offset}");
        self.accepted(&what, answer.error_code, String::new())?;
        let found = answer.responses.first().and_then(|topic| topic.partitions.first());
        let found = found.ok_or_else(|| self.garbage("Fetch", "the answer has no partition"))?;
        self.accepted(&what, found.error_code, String::new())?;
        Ok(found.records.clone().unwrap_or_default())
    }

    pub(crate) fn accepted(&self, what: &str, code: i16, message: String) -> Result<(), LoadError> {
        if code == 0 {
            return Ok(());
        }
        Err(LoadError::Refused {
            address: self.line.address().to_owned(),
            what: what.to_owned(),
            error: error_name(code),
            message,
        })
    }

    pub(crate) fn garbage(&self, what: &str, problem: &str) -> LoadError {
        self.line.garbage(what, problem)
    }

    /// Sends a frame and waits for its answer; errors name `what`.
    pub(crate) fn exchange(&mut self, frame: &[u8], what: &str) -> Result<Bytes, LoadError> {
        self.line.exchange(frame, what)
    }

    pub(crate) fn ask<Q: Encodable, A: Decodable>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, LoadError> {
        self.line.ask(key, version, request)
    }
}

/// Adds the addresses that are still unknown.
pub(crate) fn remember(known: &mut Vec<String>, addresses: impl IntoIterator<Item = String>) {
    for address in addresses {
        if !known.contains(&address) {
            known.push(address);
        }
    }
}

fn creatable_configs(config: &BTreeMap<String, String>) -> Vec<CreatableTopicConfig> {
    let configs = config.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string(name.clone()))
            .with_value(Some(StrBytes::from_string(value.clone())))
    });
    configs.collect()
}

/// The connection to a broker among those that are open. A new one waits at most `limit` for each answer.
pub(crate) fn line_to<'a>(
    lines: &'a mut BTreeMap<String, Admin>,
    address: &str,
    access: &Access,
    limit: Duration,
) -> Result<&'a mut Admin, LoadError> {
    match lines.entry(address.to_owned()) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(free) => Ok(free.insert(Admin::enter(address, access.clone(), limit)?)),
    }
}

/// A topic's name as requests have it.
pub(crate) fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// Topics from a Metadata answer.
fn topics_of(answer: &MetadataResponse, topics: &TopicSet) -> Result<TopicNow, String> {
    let brokers: BTreeMap<i32, String> = answer
        .brokers
        .iter()
        .map(|node| (node.node_id.0, format!("{}:{}", &*node.host, node.port)))
        .collect();
    if answer.topics.len() < topics.names().len() {
        return Err(format!("the answer names {} of {} topics", answer.topics.len(), topics.names().len()));
    }
    let mut leaders: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let mut leaderless = Vec::new();
    for found in &answer.topics {
        if found.error_code != 0 && found.partitions.is_empty() {
            return Ok(TopicNow::Unknown(error_name(found.error_code)));
        }
        let name = found.name.as_ref().map_or("", |name| name.0.as_str());
        for partition in &found.partitions {
            let Some(number) = topics.number(name, partition.partition_index) else { continue };
            match brokers.get(&partition.leader_id.0) {
                Some(leader) => leaders.entry(leader.clone()).or_default().push(number),
                None => leaderless.push(number),
            }
        }
    }
    leaders.values_mut().for_each(|led| led.sort_unstable());
    leaderless.sort_unstable();
    let layout = TopicLayout { topics: topics.clone(), leaders: leaders.into_iter().collect() };
    Ok(TopicNow::Led { layout, leaderless })
}
