//! The few questions that stand around a load: where the partitions live, make a topic, delete it, read it back.
//!
//! Versions are the last non-flexible ones; every broker since Kafka 2.1, Kafka 4.x and Redpanda included, has them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use hone_kafka::error_name;
use kafka_protocol::messages::{
    ApiKey, CreateTopicsRequest, CreateTopicsResponse, DeleteTopicsRequest, FetchRequest, FetchResponse,
    MetadataRequest, MetadataResponse, RequestHeader, TopicName,
    create_topics_request::{CreatableTopic, CreatableTopicConfig},
    fetch_request::{FetchPartition, FetchTopic},
    metadata_request::MetadataRequestTopic,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

use crate::LoadError;
use crate::connection::connect;

pub(crate) const METADATA_VERSION: i16 = 7;
const CREATE_TOPICS_VERSION: i16 = 4;
const DELETE_TOPICS_VERSION: i16 = 3;
const FETCH_VERSION: i16 = 11;
/// A larger answer is not an answer to what is asked here.
const ANSWER_LIMIT_BYTES: usize = 64 << 20;
/// Brokers that create a topic across nodes need a moment; longer than this is a broker in trouble.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// A cluster may need this long to elect the leaders of a new topic.
const NEW_TOPIC_LIMIT: Duration = Duration::from_secs(20);
/// An existing topic's leaders are known, but for an election that happens to go on.
const OLD_TOPIC_LIMIT: Duration = Duration::from_secs(2);
/// Name under which the load introduces itself.
pub(crate) const CLIENT_ID: &str = "hone-load";

/// Which partitions of a topic live where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicLayout {
    /// The topic.
    pub topic: String,
    /// `host:port` of each leader, and its partitions.
    pub leaders: Vec<(String, Vec<i32>)>,
}

/// A blocking connection for administration.
#[derive(Debug)]
pub struct Admin {
    address: String,
    stream: TcpStream,
    correlation_id: i32,
    limit: Duration,
}

impl Admin {
    /// Connects to `host:port`.
    ///
    /// # Errors
    /// When nobody listens there.
    pub fn connect(address: &str) -> Result<Self, LoadError> {
        let stream = connect(address)?;
        let mut admin = Self { address: address.to_owned(), stream, correlation_id: 0, limit: ANSWER_LIMIT };
        admin.limit_answers(ANSWER_LIMIT)?;
        Ok(admin)
    }

    /// Asks whether a Kafka-API broker answers at `host:port` within `limit`.
    ///
    /// # Errors
    /// When nobody listens there, or what answers is not a broker that knows itself.
    pub fn ready(address: &str, limit: Duration) -> Result<(), LoadError> {
        let mut admin = Self::connect(address)?;
        admin.limit_answers(limit)?;
        let request = MetadataRequest::default().with_topics(Some(Vec::new()));
        let answer: MetadataResponse = admin.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        if answer.brokers.is_empty() {
            return Err(admin.garbage("Metadata", "it names no broker, not even itself"));
        }
        Ok(())
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn limit_answers(&mut self, limit: Duration) -> Result<(), LoadError> {
        for set in [TcpStream::set_read_timeout, TcpStream::set_write_timeout] {
            set(&self.stream, Some(limit))
                .map_err(|source| LoadError::System { what: "setting a socket's time limit", source })?;
        }
        self.limit = limit;
        Ok(())
    }

    /// Creates a topic with one replica on a single node, the cluster's default elsewhere.
    ///
    /// # Errors
    /// When the broker refuses, with its own words.
    pub fn create_topic(
        &mut self,
        topic: &str,
        partitions: u32,
        config: &BTreeMap<String, String>,
    ) -> Result<(), LoadError> {
        let configs = config.iter().map(|(name, value)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string(name.clone()))
                .with_value(Some(StrBytes::from_string(value.clone())))
        });
        let creatable = CreatableTopic::default()
            .with_name(topic_name(topic))
            .with_num_partitions(partitions as i32)
            .with_replication_factor(-1)
            .with_configs(configs.collect());
        let request = CreateTopicsRequest::default().with_topics(vec![creatable]).with_timeout_ms(20_000);
        let answer: CreateTopicsResponse = self.ask(ApiKey::CreateTopics, CREATE_TOPICS_VERSION, &request)?;
        let result =
            answer.topics.first().ok_or_else(|| self.garbage("CreateTopics", "no topic in the answer"))?;
        let message = result.error_message.as_ref().map(|text| format!(": {}", &**text)).unwrap_or_default();
        self.accepted(&format!("to create topic `{topic}`"), result.error_code, message)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// When the broker refuses.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), LoadError> {
        let request =
            DeleteTopicsRequest::default().with_topic_names(vec![topic_name(topic)]).with_timeout_ms(20_000);
        let answer: kafka_protocol::messages::DeleteTopicsResponse =
            self.ask(ApiKey::DeleteTopics, DELETE_TOPICS_VERSION, &request)?;
        let code = answer.responses.first().map_or(0, |result| result.error_code);
        self.accepted(&format!("to delete topic `{topic}`"), code, String::new())
    }

    /// Waits until every one of a topic's partitions has a leader, and says where. With `partitions` the topic has just
    /// been made and time is given until there are so many; without, it must be there.
    ///
    /// # Errors
    /// When the broker refuses, or the topic has no leaders in time.
    pub fn layout(&mut self, topic: &str, partitions: Option<u32>) -> Result<TopicLayout, LoadError> {
        let mut last = String::new();
        let patience = if partitions.is_some() { NEW_TOPIC_LIMIT } else { OLD_TOPIC_LIMIT };
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.layout_now(topic)? {
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
        let hint =
            if partitions.is_none() { "; make the topic first, or let the load make its own" } else { "" };
        let message = format!(" after {} s: {last}{hint}", patience.as_secs());
        Err(LoadError::Refused {
            address: self.address.clone(),
            what: format!("to tell the leaders of topic `{topic}`"),
            error: "no leaders",
            message,
        })
    }

    /// The inner `Err` says why the leaders are not known yet.
    fn layout_now(&mut self, topic: &str) -> Result<Result<TopicLayout, String>, LoadError> {
        let wanted = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let request =
            MetadataRequest::default().with_topics(Some(vec![wanted])).with_allow_auto_topic_creation(false);
        let answer: MetadataResponse = self.ask(ApiKey::Metadata, METADATA_VERSION, &request)?;
        Ok(leaders_of(&answer, topic))
    }

    /// Reads the record sets of one partition from an offset: whole batches, at most about a megabyte.
    ///
    /// # Errors
    /// When the broker refuses.
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
        let found = found.ok_or_else(|| self.garbage("Fetch", "no partition in the answer"))?;
        self.accepted(&what, found.error_code, String::new())?;
        Ok(found.records.clone().unwrap_or_default())
    }

    pub(crate) fn accepted(&self, what: &str, code: i16, message: String) -> Result<(), LoadError> {
        if code == 0 {
            return Ok(());
        }
        Err(LoadError::Refused {
            address: self.address.clone(),
            what: what.to_owned(),
            error: error_name(code),
            message,
        })
    }

    pub(crate) fn garbage(&self, what: &str, problem: &str) -> LoadError {
        LoadError::Garbage {
            address: self.address.clone(),
            what: what.to_owned(),
            problem: problem.to_owned(),
        }
    }

    pub(crate) fn ask<Q: Encodable, A: Decodable>(
        &mut self,
        key: ApiKey,
        version: i16,
        request: &Q,
    ) -> Result<A, LoadError> {
        let what = format!("{key:?} v{version}");
        self.correlation_id += 1;
        let frame = encode(key, version, self.correlation_id, request)
            .map_err(|problem| LoadError::Encode { what: what.clone(), problem })?;
        let mut answer = self.exchange(&frame, &what)?;
        if answer.len() < 4 || answer.get_i32() != self.correlation_id {
            return Err(self.garbage(&what, "it answers another request (correlation id)"));
        }
        A::decode(&mut answer, version).map_err(|problem| self.garbage(&what, &problem.to_string()))
    }

    fn exchange(&mut self, frame: &[u8], what: &str) -> Result<Bytes, LoadError> {
        let limit_s = self.limit.as_secs_f64();
        let broken = |address: &str, source: std::io::Error| match source.kind() {
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                LoadError::Slow { address: address.to_owned(), what: what.to_owned(), limit_s }
            }
            _ => LoadError::Broken { address: address.to_owned(), what: what.to_owned(), source },
        };
        self.stream.write_all(frame).map_err(|source| broken(&self.address, source))?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(|source| broken(&self.address, source))?;
        let length = u32::from_be_bytes(length) as usize;
        if length > ANSWER_LIMIT_BYTES {
            return Err(self.garbage(what, &format!("its length field says {length} bytes")));
        }
        let mut body = Vec::new();
        let read = (&mut self.stream)
            .take(length as u64)
            .read_to_end(&mut body)
            .map_err(|source| broken(&self.address, source))?;
        if read < length {
            return Err(broken(&self.address, std::io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(Bytes::from(body))
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn encode<Q: Encodable>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    request: &Q,
) -> Result<BytesMut, String> {
    let mut frame = BytesMut::from(&[0_u8; 4][..]);
    let header = RequestHeader::default()
        .with_request_api_key(key as i16)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)));
    header.encode(&mut frame, key.request_header_version(version)).map_err(|error| error.to_string())?;
    request.encode(&mut frame, version).map_err(|error| error.to_string())?;
    let length = u32::try_from(frame.len() - 4).map_err(|error| error.to_string())?;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    Ok(frame)
}

/// Partitions by leader, from a Metadata answer; `Err` says what is missing still.
fn leaders_of(answer: &MetadataResponse, topic: &str) -> Result<TopicLayout, String> {
    let brokers: BTreeMap<i32, String> = answer
        .brokers
        .iter()
        .map(|node| (node.node_id.0, format!("{}:{}", &*node.host, node.port)))
        .collect();
    let found = answer.topics.first().ok_or("the answer names no topic")?;
    if found.error_code != 0 {
        return Err(error_name(found.error_code).to_owned());
    }
    let mut leaders: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for partition in &found.partitions {
        let leader = brokers.get(&partition.leader_id.0);
        let leader =
            leader.ok_or_else(|| format!("partition {} has no leader", partition.partition_index))?;
        leaders.entry(leader.clone()).or_default().push(partition.partition_index);
    }
    for led in leaders.values_mut() {
        led.sort_unstable();
    }
    Ok(TopicLayout { topic: topic.to_owned(), leaders: leaders.into_iter().collect() })
}
