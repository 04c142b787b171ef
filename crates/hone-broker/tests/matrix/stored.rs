//! The broker's side of a cell: topics made, records written and stored batches read over a raw connection.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use hone_kafka::{BatchBuilder, BatchHeader, Codec};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::{
    FetchRequest, GroupId, ListGroupsRequest, ListOffsetsRequest, MetadataRequest, OffsetCommitRequest,
    OffsetFetchRequest, ProduceRequest,
};

use crate::support::{Client, PATIENCE, create_request, fetch_request, produce_request, text, topic};

/// A key or a value; `None` for null.
pub(crate) type Content = Option<Vec<u8>>;

/// One batch as the broker stores it.
pub(crate) struct Batch {
    pub(crate) partition: i32,
    pub(crate) header: BatchHeader,
    /// Keys and values, unpacked.
    pub(crate) records: Vec<(Content, Content)>,
}

pub(crate) struct Wire {
    client: Client,
}

pub(crate) fn value(number: usize) -> String {
    format!("value {number} of a record that is long enough to be worth compressing")
}

/// Number of the record that [`value`] made.
pub(crate) fn number(value: &[u8]) -> Option<usize> {
    std::str::from_utf8(value).ok()?.strip_prefix("value ")?.split(' ').next()?.parse().ok()
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self { client: Client::connect(address) }
    }

    /// Makes a topic and waits until each of its partitions answers.
    pub(crate) fn create(&mut self, name: &str, partitions: i32) {
        let response = self.client.call(5, &create_request(name, partitions, &[]));
        assert_eq!(response.topics[0].error_code, 0, "{name}: {:?}", response.topics[0].error_message);
        let begun = Instant::now();
        while !(0..partitions).all(|partition| self.list_offset(name, partition, -1).is_ok()) {
            assert!(begun.elapsed() < PATIENCE, "{name} was made and does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn partition_count(&mut self, name: &str) -> usize {
        let wanted = kafka_protocol::messages::metadata_request::MetadataRequestTopic::default()
            .with_name(Some(topic(name)));
        let response = self.client.call(8, &MetadataRequest::default().with_topics(Some(vec![wanted])));
        response.topics[0].partitions.len()
    }

    fn list_offset(&mut self, name: &str, partition: i32, timestamp: i64) -> Result<i64, i16> {
        let asked = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(timestamp);
        let topics = ListOffsetsTopic::default().with_name(topic(name)).with_partitions(vec![asked]);
        let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![topics]);
        let response = self.client.call(2, &request);
        let answer = &response.topics[0].partitions[0];
        if answer.error_code == 0 { Ok(answer.offset) } else { Err(answer.error_code) }
    }

    pub(crate) fn end_offset(&mut self, name: &str, partition: i32) -> i64 {
        self.list_offset(name, partition, -1).unwrap()
    }

    pub(crate) fn write(&mut self, name: &str, partition: i32, batch: Vec<u8>) {
        let response = self.client.call::<ProduceRequest>(9, &produce_request(name, partition, batch));
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!(answer.error_code, 0, "{name}/{partition}: {:?}", answer.error_message);
    }

    /// Values 0 to `count`, spread over the partitions, in batches of 20 that go through all codecs.
    pub(crate) fn fill(&mut self, name: &str, partitions: usize, count: usize) {
        for partition in 0..partitions {
            let numbers: Vec<usize> = (partition..count).step_by(partitions).collect();
            for (index, chunk) in numbers.chunks(20).enumerate() {
                let mut builder = BatchBuilder::new(Codec::ALL[index % Codec::ALL.len()]);
                for number in chunk {
                    builder.push(Some(b"key"), Some(value(*number).as_bytes()), now_ms());
                }
                self.write(name, partition as i32, builder.build().unwrap());
            }
        }
    }

    /// The bytes of a partition's log from its start.
    pub(crate) fn log(&mut self, name: &str, partition: i32) -> Vec<u8> {
        let end = self.end_offset(name, partition);
        let mut next = self.list_offset(name, partition, -2).unwrap();
        let mut log = Vec::new();
        while next < end {
            let mut request = fetch_request(name, next, 1000);
            request.topics[0].partitions[0].partition = partition;
            let response = self.client.call::<FetchRequest>(11, &request);
            let answer = &response.responses[0].partitions[0];
            assert_eq!(answer.error_code, 0, "fetch of {name}/{partition} at {next}");
            let set = answer.records.clone().unwrap_or_default();
            let last = hone_kafka::batches(&set).last().expect("records below the end").unwrap();
            next = last.header.last_offset() + 1;
            log.extend_from_slice(&set);
        }
        log
    }

    /// Every stored batch of the first `partitions` partitions.
    pub(crate) fn batches(&mut self, name: &str, partitions: i32) -> Vec<Batch> {
        let mut found = Vec::new();
        for partition in 0..partitions {
            let log = self.log(name, partition);
            for batch in hone_kafka::batches(&log) {
                let batch = batch.unwrap();
                let header = batch.header;
                let plain = hone_kafka::codec::decompress(header.codec(), batch.payload(), 64 << 20).unwrap();
                let records = hone_kafka::records(&plain, header.record_count).map(|record| {
                    let record = record.unwrap();
                    (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec))
                });
                found.push(Batch { partition, header, records: records.collect() });
            }
        }
        found
    }

    /// What a group has committed for each of the partitions; -1 for nothing.
    pub(crate) fn committed(&mut self, group: &str, name: &str, partitions: i32) -> Vec<i64> {
        let wanted = OffsetFetchRequestTopic::default()
            .with_name(topic(name))
            .with_partition_indexes((0..partitions).collect());
        let request =
            OffsetFetchRequest::default().with_group_id(GroupId(text(group))).with_topics(Some(vec![wanted]));
        let response = self.client.call(5, &request);
        assert_eq!(response.error_code, 0, "offsets of {group}");
        let found: BTreeMap<i32, i64> = response.topics[0]
            .partitions
            .iter()
            .map(|partition| (partition.partition_index, partition.committed_offset))
            .collect();
        found.into_values().collect()
    }

    /// `classic` or `consumer`, which is KIP-848's.
    pub(crate) fn group_type(&mut self, group: &str) -> String {
        let response = self.client.call(5, &ListGroupsRequest::default());
        assert_eq!(response.error_code, 0, "list of groups");
        let found = response.groups.iter().find(|listed| listed.group_id.as_str() == group);
        found.map_or_else(|| "unknown".to_owned(), |listed| listed.group_type.to_lowercase())
    }

    /// Commits for a group without members.
    pub(crate) fn commit(&mut self, group: &str, name: &str, offset: i64) {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
        let topics =
            OffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(vec![partition]);
        let request =
            OffsetCommitRequest::default().with_group_id(GroupId(text(group))).with_topics(vec![topics]);
        let begun = Instant::now();
        loop {
            let response = self.client.call(7, &request);
            match response.topics[0].partitions[0].error_code {
                0 => return,
                // The coordinator is being loaded, or not known yet: a broker that has just started.
                14..=16 if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(50)),
                code => panic!("commit for {group}: {code}"),
            }
        }
    }
}

pub(crate) fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(now.unwrap().as_millis()).unwrap()
}
