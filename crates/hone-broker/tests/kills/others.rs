//! The other clients: one that commits offsets, one that makes and removes things, one that reads.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::*;

use crate::dice::Dice;
use crate::line::*;
use crate::model::{Keeping, Life, PLANS, Place};
use crate::support::*;
use crate::writers::Scene;

const TOPIC: i8 = 2;

/// Commits ever higher offsets for a group of its own.
pub(crate) struct Committer {
    group: String,
    offset: i64,
}

impl Committer {
    pub(crate) fn new(group: String) -> Self {
        Self { group, offset: 0 }
    }

    pub(crate) fn run(&mut self, scene: &Scene) {
        let _ = self.commit(scene);
    }

    fn commit(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        while !scene.stopped() {
            self.offset += 1;
            scene.model().commit_asked(&self.group, self.offset);
            let partition = OffsetCommitRequestPartition::default().with_committed_offset(self.offset);
            let topics = OffsetCommitRequestTopic::default()
                .with_name(topic(PLANS[0].name))
                .with_partitions(vec![partition]);
            let request = OffsetCommitRequest::default()
                .with_group_id(GroupId(text(&self.group)))
                .with_topics(vec![topics]);
            let error = line.call(7, &request)?.topics[0].partitions[0].error_code;
            if error != 0 && scene.ending() {
                return None;
            }
            assert_eq!(error, 0, "{}", self.group);
            scene.model().committed(&self.group, self.offset);
        }
        Some(())
    }
}

/// What a group has committed; -1 for nothing.
pub(crate) fn committed(line: &mut Line, group: &str) -> Option<i64> {
    let topics =
        OffsetFetchRequestTopic::default().with_name(topic(PLANS[0].name)).with_partition_indexes(vec![0]);
    let request =
        OffsetFetchRequest::default().with_group_id(GroupId(text(group))).with_topics(Some(vec![topics]));
    Some(line.call(5, &request)?.topics[0].partitions[0].committed_offset)
}

const OFFSET_OUT_OF_RANGE: i16 = 1;

/// Makes, changes and deletes topics, and deletes records.
pub(crate) struct Admin {
    dice: Dice,
    number: u64,
}

/// Of the topics that come and go.
pub(crate) const LIVES: [&str; 2] = ["life-a", "life-b"];

impl Admin {
    pub(crate) fn new(dice: Dice) -> Self {
        Self { dice, number: 0 }
    }

    pub(crate) fn run(&mut self, scene: &Scene) {
        let _ = self.administer(scene);
    }

    fn administer(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        while !scene.stopped() {
            if self.dice.percent(20) {
                self.trim(&mut line, scene)?;
            } else {
                self.change(&mut line, scene)?;
            }
        }
        Some(())
    }

    fn trim(&mut self, line: &mut Line, scene: &Scene) -> Option<()> {
        let all: Vec<usize> =
            (0..PLANS.len()).filter(|topic| PLANS[*topic].keeping == Keeping::All).collect();
        let number = *self.dice.pick(&all);
        let place = (number, self.dice.below(PLANS[number].partitions as u64) as i32);
        let (offset, (must, before)) = {
            let mut model = scene.model();
            let offset = model.middle(place, self.dice.below(60));
            (offset, model.trim_asked(place, offset))
        };
        let partition = DeleteRecordsPartition::default().with_partition_index(place.1).with_offset(offset);
        let topics = DeleteRecordsTopic::default()
            .with_name(topic(PLANS[place.0].name))
            .with_partitions(vec![partition]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topics]).with_timeout_ms(10_000);
        let answer = line.call(2, &request)?;
        let row = &answer.topics[0].partitions[0];
        if row.error_code != 0 && scene.ending() {
            return None;
        }
        // What was acknowledged with acks=1 can't be seen as long as a batch in front of it waits for its fsync.
        if row.error_code == OFFSET_OUT_OF_RANGE && !must {
            scene.model().trim_refused(place, before);
            return Some(());
        }
        assert_eq!(row.error_code, 0, "deleting records of {place:?} before {offset}");
        assert!(row.low_watermark >= offset);
        scene.model().trimmed(place, offset);
        Some(())
    }

    /// One step in the life of a topic.
    fn change(&mut self, line: &mut Line, scene: &Scene) -> Option<()> {
        let name = *self.dice.pick(&LIVES);
        self.number += 1;
        let now = scene.model().lives.entry(name.to_owned()).or_default().now.clone();
        let what = self.dice.below(10);
        let next = match &now {
            None => Some(Life {
                partitions: 1 + self.dice.below(3) as usize,
                retention_ms: format!("{}", 1_000_000_000_000_000 + self.number),
                records: Vec::new(),
            }),
            Some(_) if what < 3 => None,
            Some(life) if what < 5 => Some(Life { partitions: life.partitions + 1, ..life.clone() }),
            Some(life) if what < 7 => Some(Life {
                retention_ms: format!("{}", 1_000_000_000_000_000 + self.number),
                ..life.clone()
            }),
            Some(life) => {
                let mut records = life.records.clone();
                records.push(format!("{name}.{}", self.number));
                Some(Life { records, ..life.clone() })
            }
        };
        scene.model().lives.get_mut(name)?.asked = Some(next.clone());
        let error = ask_for(line, name, now.as_ref(), next.as_ref())?;
        if error != 0 && scene.ending() {
            return None;
        }
        assert_eq!(error, 0, "{name}: from {now:?} to {next:?}");
        let mut model = scene.model();
        let lives = model.lives.get_mut(name)?;
        (lives.now, lives.asked) = (next, None);
        Some(())
    }
}

/// Asks for what leads from one state of a topic to the next; returns the error.
fn ask_for(line: &mut Line, name: &str, now: Option<&Life>, next: Option<&Life>) -> Option<i16> {
    Some(match (now, next) {
        (_, None) => {
            let doomed = DeleteTopicState::default().with_name(Some(topic(name)));
            let request = DeleteTopicsRequest::default().with_topics(vec![doomed]).with_timeout_ms(10_000);
            line.call(6, &request)?.responses[0].error_code
        }
        (None, Some(next)) => {
            let properties = [("retention.ms", next.retention_ms.as_str()), ("segment.bytes", "4096")];
            let request = create_request(name, next.partitions as i32, &properties);
            line.call(5, &request)?.topics[0].error_code
        }
        (Some(now), Some(next)) if now.partitions != next.partitions => {
            let wanted = CreatePartitionsTopic::default()
                .with_name(topic(name))
                .with_count(next.partitions as i32)
                .with_assignments(None);
            let request =
                CreatePartitionsRequest::default().with_topics(vec![wanted]).with_timeout_ms(10_000);
            line.call(3, &request)?.results[0].error_code
        }
        (Some(now), Some(next)) if now.retention_ms != next.retention_ms => {
            let step = AlterableConfig::default()
                .with_name(text("retention.ms"))
                .with_config_operation(0)
                .with_value(Some(text(&next.retention_ms)));
            let resource = AlterConfigsResource::default()
                .with_resource_type(TOPIC)
                .with_resource_name(text(name))
                .with_configs(vec![step]);
            let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
            line.call(1, &request)?.responses[0].error_code
        }
        (Some(_), Some(next)) => {
            let value = next.records.last()?;
            let request = produce_request(name, 0, batch(hone_kafka::Codec::None, &[value]));
            line.call(9, &request)?.responses[0].partition_responses[0].error_code
        }
    })
}

/// A topic as it is.
pub(crate) fn life(client: &mut Client, name: &str) -> Option<Life> {
    let named = MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![named])).with_allow_auto_topic_creation(false);
    let found = client.call(9, &request).topics.remove(0);
    if found.error_code == 3 {
        return None;
    }
    assert_eq!(found.error_code, 0);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(TOPIC)
        .with_resource_name(text(name))
        .with_configuration_keys(Some(vec![text("retention.ms")]));
    let described = client.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource]));
    let retention_ms = described.results[0].configs[0].value.as_deref().unwrap().to_owned();
    Some(Life { partitions: found.partitions.len(), retention_ms, records: read_all(client, name) })
}

/// Reads anywhere, and remembers what it saw.
pub(crate) struct Reader {
    dice: Dice,
}

impl Reader {
    pub(crate) fn new(dice: Dice) -> Self {
        Self { dice }
    }

    pub(crate) fn run(&mut self, scene: &Scene) {
        let _ = self.read(scene);
    }

    fn read(&mut self, scene: &Scene) -> Option<()> {
        let mut line = Line::open(scene.address)?;
        while !scene.stopped() {
            let number = self.dice.below(PLANS.len() as u64) as usize;
            let place = (number, self.dice.below(PLANS[number].partitions as u64) as i32);
            let from = {
                let mut model = scene.model();
                let percent = *self.dice.pick(&[30, 60, 90, 100, 100]);
                model.middle(place, percent)
            };
            let wait_ms = if self.dice.percent(30) { 20 } else { 0 };
            let answer = line.call(11, &fetch_of(place, from, wait_ms, 0))?;
            let row = &answer.responses[0].partitions[0];
            // Retention or DeleteRecords may have been there.
            if row.error_code == 1 {
                continue;
            }
            assert_eq!(row.error_code, 0, "reading {place:?} at {from}");
            let set = row.records.clone().unwrap_or_default();
            let mut model = scene.model();
            for (offset, _, value) in records_of(&set).into_iter().filter(|(offset, ..)| *offset >= from) {
                assert!(offset < row.high_watermark, "{place:?}: more than what is visible");
                model.seen(place, offset, &value);
            }
        }
        Some(())
    }
}

/// Asks for records of one partition.
pub(crate) fn fetch_of(place: Place, offset: i64, wait_ms: i32, isolation: i8) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(place.1)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(256 << 10);
    let topics =
        FetchTopic::default().with_topic(topic(PLANS[place.0].name)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_isolation_level(isolation)
        .with_topics(vec![topics])
}

/// Offset, key and value of each record that is no marker.
fn records_of(set: &[u8]) -> Vec<(i64, String, String)> {
    let mut found = Vec::new();
    for batch in hone_kafka::batches(set) {
        let batch = batch.unwrap();
        if !batch.header.is_control() {
            found.extend(records_in(&batch));
        }
    }
    found
}

/// The records of one batch.
pub(crate) fn records_in(batch: &hone_kafka::Batch<'_>) -> Vec<(i64, String, String)> {
    let plain = hone_kafka::codec::decompress(batch.header.codec(), batch.payload(), 64 << 20).unwrap();
    let as_text = |bytes: Option<&[u8]>| String::from_utf8(bytes.unwrap().to_vec()).unwrap();
    hone_kafka::records(&plain, batch.header.record_count)
        .map(|record| {
            let record = record.unwrap();
            let offset = batch.header.base_offset + i64::from(record.offset_delta);
            (offset, as_text(record.key), as_text(record.value))
        })
        .collect()
}
