//! Administration on the wire: topics made, grown, altered and deleted, properties described, and all of it kept.

mod support;

use hone_kafka::{BatchHeader, Codec};
use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as Replaced, AlterableConfig as Replacement,
};
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::create_topics_request::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig,
};
use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::describe_topic_partitions_request::Cursor;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use support::*;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn wanted(name: &str, partitions: i32) -> CreatableTopic {
    CreatableTopic::default()
        .with_name(topic(name))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
}

fn assigned(name: &str, partitions: &[(i32, &[i32])]) -> CreatableTopic {
    let assignments = partitions.iter().map(|(index, brokers)| {
        CreatableReplicaAssignment::default()
            .with_partition_index(*index)
            .with_broker_ids(brokers.iter().copied().map(BrokerId).collect())
    });
    wanted(name, -1).with_assignments(assignments.collect())
}

fn create_all(client: &mut Client, topics: Vec<CreatableTopic>) -> Vec<CreatableTopicResult> {
    client.call(7, &CreateTopicsRequest::default().with_topics(topics)).topics
}

fn partitions_of(client: &mut Client, name: &str) -> Option<usize> {
    let named = MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![named])).with_allow_auto_topic_creation(false);
    let found = &client.call(12, &request).topics[0];
    (found.error_code == 0).then_some(found.partitions.len())
}

fn describe_result(client: &mut Client, kind: i8, name: &str, keys: &[&str]) -> DescribeConfigsResult {
    let keys = keys.iter().map(|key| text(key)).collect::<Vec<_>>();
    let resource = DescribeConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configuration_keys(Some(keys).filter(|keys| !keys.is_empty()));
    let request = DescribeConfigsRequest::default()
        .with_resources(vec![resource])
        .with_include_synonyms(true)
        .with_include_documentation(true);
    client.call(4, &request).results.remove(0)
}

fn describe(client: &mut Client, kind: i8, name: &str, key: &str) -> DescribeConfigsResourceResult {
    let mut result = describe_result(client, kind, name, &[key]);
    assert_eq!((result.error_code, result.configs.len()), (0, 1), "{name} {key}");
    result.configs.remove(0)
}

fn value(client: &mut Client, kind: i8, name: &str, key: &str) -> String {
    describe(client, kind, name, key).value.as_deref().unwrap().to_owned()
}

fn alter_request(kind: i8, name: &str, steps: &[(&str, i8, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let steps = steps.iter().map(|(key, operation, value)| {
        AlterableConfig::default()
            .with_name(text(key))
            .with_config_operation(*operation)
            .with_value(value.map(text))
    });
    let resource = AlterConfigsResource::default()
        .with_resource_type(kind)
        .with_resource_name(text(name))
        .with_configs(steps.collect());
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

fn alter(client: &mut Client, kind: i8, name: &str, steps: &[(&str, i8, Option<&str>)]) -> (i16, String) {
    let response = client.call(1, &alter_request(kind, name, steps));
    let row = &response.responses[0];
    assert_eq!((row.resource_type, row.resource_name.as_str()), (kind, name));
    (row.error_code, row.error_message.as_deref().unwrap_or_default().to_owned())
}

fn set(client: &mut Client, kind: i8, name: &str, key: &str, value: &str) {
    assert_eq!(alter(client, kind, name, &[(key, SET, Some(value))]), (0, String::new()));
}

fn grow(
    client: &mut Client,
    name: &str,
    count: i32,
    brokers: Option<&[&[i32]]>,
    only_ask: bool,
) -> (i16, String) {
    let assignments = brokers.map(|all| {
        let assignment = |ids: &&[i32]| {
            CreatePartitionsAssignment::default().with_broker_ids(ids.iter().copied().map(BrokerId).collect())
        };
        all.iter().map(assignment).collect()
    });
    let wanted = CreatePartitionsTopic::default()
        .with_name(topic(name))
        .with_count(count)
        .with_assignments(assignments);
    let request = CreatePartitionsRequest::default().with_topics(vec![wanted]).with_validate_only(only_ask);
    let row = client.call(3, &request).results.remove(0);
    (row.error_code, row.error_message.as_deref().unwrap_or_default().to_owned())
}

#[test]
fn topics_of_one_request_are_made_or_refused_each_on_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| settings.default_partitions = 4);
    let mut client = Client::connect(broker.kafka_addr());
    let null = CreatableTopicConfig::default().with_name(text("retention.ms")).with_value(None);
    let cases = [
        (wanted("default", -1), 0, ""),
        (wanted("three", 3), 0, ""),
        (assigned("assigned", &[(1, &[1]), (0, &[1])]), 0, ""),
        (wanted("twice", 1), 42, "more than once"),
        (wanted("twice", 1), 42, "more than once"),
        (wanted("no/name", 1), 17, "invalid topic name"),
        (wanted("zero", 0), 37, "use 1 to"),
        (wanted("many", 1_000_000), 37, "use 1 to"),
        (wanted("copies", 1).with_replication_factor(2), 38, "one broker"),
        (wanted("no-copy", 1).with_replication_factor(0), 38, "one broker"),
        (wanted("null", 1).with_configs(vec![null]), 40, "retention.ms has no value"),
        (assigned("hole", &[(0, &[1]), (2, &[1])]), 39, "use 0, 1, 2"),
        (assigned("elsewhere", &[(0, &[2])]), 39, "only broker 1"),
        (assigned("nowhere", &[(0, &[])]), 39, "only broker 1"),
        (assigned("both", &[(0, &[1])]).with_num_partitions(1), 42, "must be -1"),
    ];
    let topics: Vec<_> = cases.iter().map(|(topic, _, _)| topic.clone()).collect();
    let only_asked = CreateTopicsRequest::default().with_topics(topics.clone()).with_validate_only(true);
    let asked = client.call(7, &only_asked).topics;
    assert!(asked.iter().all(|row| row.topic_id.is_nil()));
    assert!(cases.iter().all(|(topic, _, _)| partitions_of(&mut client, &topic.name).is_none()));
    let made = create_all(&mut client, topics);
    for (row, (topic, code, message)) in made.iter().zip(&cases) {
        let said = row.error_message.as_deref().unwrap_or_default();
        assert_eq!(row.error_code, *code, "{:?}: {said}", topic.name);
        assert!(said.contains(message), "{said}");
        assert_eq!(partitions_of(&mut client, &topic.name).is_some(), *code == 0);
        assert_eq!(row.topic_id.is_nil(), *code != 0);
    }
    let codes = |rows: &[CreatableTopicResult]| rows.iter().map(|row| row.error_code).collect::<Vec<_>>();
    assert_eq!(codes(&asked), codes(&made), "asking and doing agree");
    let counts: Vec<_> = made[..3].iter().map(|row| (row.num_partitions, row.replication_factor)).collect();
    assert_eq!(counts, [(4, 1), (3, 1), (2, 1)]);
    let again = create_all(&mut client, vec![wanted("three", 3)]);
    assert_eq!(again[0].error_code, 36);
}

#[test]
fn a_new_topic_comes_with_its_properties() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let config = CreatableTopicConfig::default()
        .with_name(text("cleanup.policy"))
        .with_value(Some(text("compact, delete")));
    let made = create_all(&mut client, vec![wanted("t", 1).with_configs(vec![config])]).remove(0);
    let rows = made.configs.unwrap();
    let row = |name: &str| {
        let row = rows.iter().find(|row| row.name.as_str() == name).unwrap();
        (row.value.as_deref(), row.config_source, row.read_only)
    };
    assert_eq!(row("cleanup.policy"), (Some("compact,delete"), 1, false));
    assert_eq!(row("retention.ms"), (Some("604800000"), 5, false));
    assert_eq!(row("hone.durability"), (Some("acks=all: fsync"), 5, true));
}

#[test]
fn topics_are_deleted_by_name_or_id() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let made = create_all(&mut client, vec![wanted("a", 1), wanted("b", 1), wanted("c", 1), wanted("d", 1)]);
    let id = |index: usize| made[index].topic_id;
    let named = |name: &str| DeleteTopicState::default().with_name(Some(topic(name)));
    let nameless = DeleteTopicState::default().with_name(None);
    let request = DeleteTopicsRequest::default().with_topics(vec![
        nameless.clone().with_topic_id(id(0)),
        named("b"),
        named("c").with_topic_id(id(2)),
        nameless.clone(),
        named("d"),
        named("d"),
        named("missing"),
        nameless.with_topic_id("00000000-0000-0000-0000-00000000abcd".parse().unwrap()),
    ]);
    let response = client.call(6, &request).responses;
    let codes: Vec<_> = response.iter().map(|row| row.error_code).collect();
    assert_eq!(codes, [0, 0, 42, 42, 42, 42, 3, 100]);
    assert_eq!(response[0].name.as_ref().unwrap().as_str(), "a");
    assert_eq!(response[1].topic_id, id(1));
    assert!(response[7].name.is_none());
    let left: Vec<_> = ["a", "b", "c", "d"].map(|name| partitions_of(&mut client, name)).into();
    assert_eq!(left, [None, None, Some(1), Some(1)]);
}

#[test]
fn more_partitions_are_served_and_keep_what_is_in_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    produce(&mut client, "t", batch(Codec::None, &["old"]));
    for (count, brokers, code, message) in [
        (1, None, 37, "use 2 to 10000"),
        (0, None, 37, "0 partitions for a topic that has 1"),
        (10_001, None, 37, "use 2 to 10000"),
        (3, Some([[1].as_slice()].as_slice()), 39, "2 more partitions, and assignments for 1"),
        (2, Some([[2].as_slice()].as_slice()), 39, "only broker 1"),
    ] {
        let (error, said) = grow(&mut client, "t", count, brokers, false);
        assert_eq!(error, code, "{said}");
        assert!(said.contains(message), "{said}");
    }
    assert_eq!(grow(&mut client, "missing", 2, None, false).0, 3);
    assert_eq!(grow(&mut client, "t", 3, None, true).0, 0);
    assert_eq!(partitions_of(&mut client, "t"), Some(1));
    assert_eq!(grow(&mut client, "t", 3, Some(&[&[1], &[1]]), false), (0, String::new()));
    assert_eq!(partitions_of(&mut client, "t"), Some(3));
    let response = client.call(9, &produce_request("t", 2, batch(Codec::None, &["new"])));
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(read_all(&mut client, "t"), ["old"]);
}

#[test]
fn what_is_altered_takes_effect() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    set(&mut client, TOPIC, "t", "compression.type", "zstd");
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a"])).error_code, 0);
    assert_eq!(BatchHeader::parse(&fetch(&mut client, "t", 0)).unwrap().codec(), Codec::Zstd);
    set(&mut client, TOPIC, "t", "max.message.bytes", "10");
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a"])).error_code, 10);
    assert_eq!(alter(&mut client, TOPIC, "t", &[("max.message.bytes", DELETE, None)]).0, 0);
    set(&mut client, TOPIC, "t", "hone.value.schema", r#"{"type": "object"}"#);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a"])).error_code, 87);
    assert_eq!(alter(&mut client, TOPIC, "t", &[("hone.value.schema", DELETE, None)]).0, 0);
    set(&mut client, TOPIC, "t", "message.timestamp.before.max.ms", "60000");
    let refused = produce(&mut client, "t", batch_at(Codec::None, &["from 1970"], 1_000));
    assert_eq!(refused.error_code, 32);
    assert!(refused.error_message.unwrap().contains("message.timestamp.before.max.ms=60000"));
    set(&mut client, BROKER, "", "message.max.bytes", "10");
    set(&mut client, TOPIC, "t", "message.timestamp.type", "LogAppendTime");
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a"])).error_code, 10, "of the cluster");
    set(&mut client, BROKER, "1", "message.max.bytes", "1000");
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a"])).error_code, 0, "the broker's own wins");
}

#[test]
fn batches_are_packed_at_the_level_of_the_topic() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let value: String = (0..40_000_u32).map(|word| format!("{},", word * word % 1_009)).collect();
    let mut packed_bytes = |codec: &str, level: i32| {
        let (name, level_name) = (format!("{codec}{level}"), format!("compression.{codec}.level"));
        let level = level.to_string();
        let made = create(&mut client, &name, &[("compression.type", codec), (&level_name, &level)]);
        assert_eq!(made, (0, String::new()));
        assert_eq!(produce(&mut client, &name, batch(Codec::None, &[&value])).error_code, 0);
        assert_eq!(read_all(&mut client, &name), [value.as_str()]);
        fetch(&mut client, &name, 0).len()
    };
    for (codec, fast, best) in [("gzip", 1, 9), ("zstd", -50, 19)] {
        let (fast, best) = (packed_bytes(codec, fast), packed_bytes(codec, best));
        assert!(fast > best, "{codec}: {fast} {best}");
    }
}

/// As MirrorMaker 2, Kafka Connect, Strimzi and rpk make topics.
#[test]
fn what_other_tools_ask_of_a_topic_is_kept_or_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let given = [
        ("flush.messages", "1"),
        ("flush.ms", "0"),
        ("follower.replication.throttled.replicas", "*"),
        ("leader.replication.throttled.replicas", ""),
        ("local.retention.bytes", "-2"),
        ("local.retention.ms", "-2"),
        ("message.downconversion.enable", "true"),
        ("message.format.version", "2.8-IV0"),
        ("message.timestamp.difference.max.ms", "3600000"),
        ("redpanda.remote.write", "false"),
        ("remote.log.copy.disable", "true"),
        ("remote.log.delete.on.disable", "true"),
        ("remote.storage.enable", "false"),
    ];
    let mut broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(create(&mut client, "t", &given), (0, String::new()));
    for (name, value, message) in [
        ("remote.storage.enable", "true", "use false. This broker has no tiered storage."),
        ("redpanda.remote.write", "true", "use false. This broker has no tiered storage."),
        ("confluent.value.schema.validation", "true", "use false. This broker uses no schema registry"),
        ("local.retention.ms", "-3", "use a number from -2 to"),
        ("leader.replication.throttled.replicas", "0", "PARTITION:BROKER"),
        ("message.format.version", "4.0", "a version of Kafka up to 3.9"),
    ] {
        let (code, said) = create(&mut client, "refused", &[(name, value)]);
        assert_eq!(code, 40, "{name}: {said}");
        assert!(said.contains(message), "{said}");
        let (code, said) = alter(&mut client, TOPIC, "t", &[(name, SET, Some(value))]);
        assert_eq!(code, 40, "{name}: {said}");
        assert!(said.contains(message), "{said}");
    }
    // A restart keeps them.
    for restart in [false, true] {
        if restart {
            broker.stop().unwrap();
            broker = self::broker(folder.path());
            client = Client::connect(broker.kafka_addr());
        }
        for (name, value) in given {
            let row = describe(&mut client, TOPIC, "t", name);
            assert_eq!((row.value.as_deref(), row.config_source), (Some(value), 1), "{name}");
        }
    }
    let unset = describe(&mut client, TOPIC, "t", "redpanda.remote.delete");
    assert_eq!((unset.value.as_deref(), unset.config_source), (Some("true"), 5));
    assert!(unset.documentation.unwrap().starts_with("Accepted and without effect: "));
    let behind = describe(&mut client, TOPIC, "t", "flush.messages").synonyms;
    assert_eq!(behind[1].name.as_str(), "log.flush.interval.messages");
}

/// As Cruise Control moves partitions.
#[test]
fn throttles_are_set_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    for side in ["leader", "follower"] {
        let (rate, replicas) =
            (format!("{side}.replication.throttled.rate"), format!("{side}.replication.throttled.replicas"));
        set(&mut client, BROKER, "1", &rate, "1000000");
        assert_eq!(value(&mut client, BROKER, "1", &rate), "1000000");
        assert_eq!(alter(&mut client, BROKER, "1", &[(&rate, SET, Some("-1"))]).0, 40);
        assert_eq!(alter(&mut client, BROKER, "1", &[(&rate, DELETE, None)]).0, 0);
        assert_eq!(value(&mut client, BROKER, "1", &rate), "9223372036854775807");
        let row = describe(&mut client, TOPIC, "t", &replicas);
        assert_eq!((row.value.as_deref(), row.config_source, row.config_type), (Some(""), 5, 7));
        for (operation, items, wanted) in
            [(APPEND, "0:1", "0:1"), (APPEND, "0:1,1:1", "0:1,1:1"), (SUBTRACT, "0:1,1:1", "")]
        {
            assert_eq!(alter(&mut client, TOPIC, "t", &[(&replicas, operation, Some(items))]).0, 0);
            assert_eq!(value(&mut client, TOPIC, "t", &replicas), wanted);
        }
    }
}

#[test]
fn lists_are_added_to_and_taken_from() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    for (operation, item, wanted) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete", "delete"),
    ] {
        assert_eq!(alter(&mut client, TOPIC, "t", &[("cleanup.policy", operation, Some(item))]).0, 0);
        assert_eq!(value(&mut client, TOPIC, "t", "cleanup.policy"), wanted);
    }
    assert_eq!(alter(&mut client, BROKER, "", &[("log.cleanup.policy", APPEND, Some("compact"))]).0, 0);
    assert_eq!(value(&mut client, BROKER, "1", "log.cleanup.policy"), "delete,compact");
    let (code, said) = alter(&mut client, TOPIC, "t", &[("cleanup.policy", SUBTRACT, Some("delete"))]);
    assert_eq!(code, 40, "{said}");
    assert!(said.contains("use a list of delete or compact"), "{said}");
}

#[test]
fn what_can_not_be_altered_is_refused_with_the_reason_and_nothing_changes() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("segment.ms", "5")]);
    let good = ("segment.ms", SET, Some("6"));
    for (kind, name, step, code, message) in [
        (TOPIC, "t", ("retention.mss", SET, Some("1")), 40, "did you mean `retention.ms`?"),
        (TOPIC, "t", ("retention.ms", SET, Some("-2")), 40, "use a number from -1"),
        (TOPIC, "t", ("min.insync.replicas", SET, Some("2")), 40, "one broker and no replica"),
        (TOPIC, "t", ("hone.durability", SET, Some("x")), 40, "hone.durability can't be set"),
        (TOPIC, "t", ("segment.bytes", APPEND, Some("5000")), 40, "segment.bytes is not a list"),
        (TOPIC, "t", ("retention.ms", SET, None), 42, "retention.ms has no value"),
        (TOPIC, "t", ("retention.ms", 9, Some("1")), 42, "operation 9"),
        (TOPIC, "t", ("segment.ms", SET, Some("7")), 42, "changed more than once"),
        (TOPIC, "missing", ("retention.ms", SET, Some("1")), 3, "there is no topic `missing`"),
        (BROKER, "2", ("num.partitions", SET, Some("1")), 42, "there is no broker `2`"),
        (BROKER, "x", ("num.partitions", SET, Some("1")), 42, "there is no broker `x`"),
        (8, "1", ("num.partitions", SET, Some("1")), 42, "resources of type 8"),
        (BROKER, "1", ("broker.id", SET, Some("1")), 40, "fixed when the broker starts"),
        (BROKER, "", ("retention.ms", SET, Some("1")), 40, "unknown property `retention.ms`"),
    ] {
        let (error, said) = alter(&mut client, kind, name, &[good, step]);
        let (error, said) =
            if kind == TOPIC { (error, said) } else { alter(&mut client, kind, name, &[step]) };
        assert_eq!(error, code, "{name} {step:?}: {said}");
        assert!(said.contains(message), "{said}");
    }
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms"), "5");
    let only_asked = alter_request(TOPIC, "t", &[good]).with_validate_only(true);
    assert_eq!(client.call(1, &only_asked).responses[0].error_code, 0);
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms"), "5");
    let mut twice = alter_request(TOPIC, "t", &[good]);
    twice.resources.push(twice.resources[0].clone());
    let codes: Vec<_> = client.call(1, &twice).responses.iter().map(|row| row.error_code).collect();
    assert_eq!(codes, [42, 42]);
    // A topic that would no longer make sense forbids a change of the cluster.
    set(&mut client, TOPIC, "t", "min.compaction.lag.ms", "9");
    let (error, said) =
        alter(&mut client, BROKER, "", &[("log.cleaner.max.compaction.lag.ms", SET, Some("8"))]);
    assert_eq!(error, 40);
    assert!(said.contains("topic t forbids it: min.compaction.lag.ms is 9"), "{said}");
}

#[test]
fn the_old_way_to_alter_replaces_everything() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("segment.ms", "5"), ("retention.ms", "6")]);
    let mut replace = |given: &[(&str, Option<&str>)], only_ask: bool| {
        let configs = given
            .iter()
            .map(|(name, value)| Replacement::default().with_name(text(name)).with_value(value.map(text)));
        let resource = Replaced::default()
            .with_resource_type(TOPIC)
            .with_resource_name(text("t"))
            .with_configs(configs.collect());
        let request =
            AlterConfigsRequest::default().with_resources(vec![resource]).with_validate_only(only_ask);
        client.call(2, &request).responses[0].error_code
    };
    assert_eq!(replace(&[("segment.ms", None)], false), 42);
    assert_eq!(replace(&[("segment.ms", Some("0"))], false), 40);
    assert_eq!(replace(&[], true), 0);
    assert_eq!(replace(&[("segment.ms", Some("7"))], false), 0);
    assert_eq!(value(&mut client, TOPIC, "t", "segment.ms"), "7");
    assert_eq!(value(&mut client, TOPIC, "t", "retention.ms"), "604800000");
}

#[test]
fn properties_tell_where_they_come_from() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| settings.default_partitions = 3);
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("retention.ms", "6")]);
    set(&mut client, BROKER, "", "log_retention_ms", "5");
    set(&mut client, BROKER, "1", "log.retention.ms", "4");
    let row = describe(&mut client, TOPIC, "t", "retention.ms");
    let layers: Vec<_> = row
        .synonyms
        .iter()
        .map(|layer| (layer.name.as_str(), layer.value.as_deref().unwrap(), layer.source))
        .collect();
    assert_eq!(
        layers,
        [
            ("retention.ms", "6", 1),
            ("log.retention.ms", "4", 2),
            ("log.retention.ms", "5", 3),
            ("log.retention.ms", "604800000", 5)
        ]
    );
    assert_eq!((row.value.as_deref(), row.config_source, row.config_type), (Some("6"), 1, 5));
    assert!(!row.read_only && !row.is_sensitive && row.documentation.is_some());
    assert_eq!(describe(&mut client, TOPIC, "t", "cleanup.policy").config_type, 7);
    assert_eq!(describe(&mut client, TOPIC, "t", "preallocate").config_type, 1);
    assert_eq!(describe(&mut client, TOPIC, "t", "min.cleanable.dirty.ratio").config_type, 6);
    assert_eq!(describe(&mut client, TOPIC, "t", "segment.bytes").config_type, 3);

    let started = describe(&mut client, BROKER, "1", "num.partitions");
    assert_eq!((started.value.as_deref(), started.config_source), (Some("3"), 4));
    assert!(describe(&mut client, BROKER, "1", "broker.id").read_only);
    assert_eq!(describe(&mut client, BROKER, "1", "log_retention_ms").name.as_str(), "log.retention.ms");
    let cluster = describe_result(&mut client, BROKER, "", &[]).configs;
    assert_eq!(cluster.len(), 1, "only what was set for the cluster");
    assert_eq!((cluster[0].value.as_deref(), cluster[0].config_source), (Some("5"), 3));
    assert!(describe_result(&mut client, BROKER, "1", &[]).configs.len() > 20);

    let twice = DescribeConfigsResource::default().with_resource_type(TOPIC).with_resource_name(text("t"));
    let request = DescribeConfigsRequest::default().with_resources(vec![twice.clone(), twice]);
    let codes: Vec<_> = client.call(4, &request).results.iter().map(|row| row.error_code).collect();
    assert_eq!(codes, [42, 42]);
    for (kind, name, code) in [(TOPIC, "missing", 3), (BROKER, "7", 42), (16, "x", 42)] {
        let refused = describe_result(&mut client, kind, name, &[]);
        assert_eq!((refused.error_code, refused.configs.len()), (code, 0));
        assert!(refused.error_message.is_some());
    }
}

#[test]
fn the_durability_in_force_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "plain", &[]);
    create(&mut client, "cached", &[("write.caching", "true"), ("flush.ms", "5")]);
    let mut check = |cluster: &str, wanted: [&str; 2]| {
        set(&mut client, BROKER, "", "write_caching_default", cluster);
        assert_eq!(
            ["plain", "cached"].map(|name| value(&mut client, TOPIC, name, "hone.durability")),
            wanted
        );
    };
    let fsync = "acks=all: fsync";
    let cached = "acks=all: memory, flushed within 5 ms or 262144 bytes";
    check("false", [fsync, cached]);
    check("true", ["acks=all: memory, flushed within 100 ms or 262144 bytes", cached]);
    check("disabled", [fsync, fsync]);
    check("false", [fsync, cached]);
    let metrics = broker.metrics_addr().unwrap();
    for (topic, class) in [("plain", "fsync"), ("cached", "write_caching")] {
        let series = format!(
            "hone_broker_topic_durability{{namespace=\"kafka\",topic=\"{topic}\",class=\"{class}\"}}"
        );
        assert_eq!(metric(metrics, &series), 1.0);
    }
}

#[test]
fn deleted_records_can_not_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    for value in ["a", "b", "c", "d"] {
        produce(&mut client, "t", batch(Codec::None, &[value]));
    }
    let mut delete = |offset| {
        let partition = DeleteRecordsPartition::default().with_offset(offset);
        let topics = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let response = client.call(2, &DeleteRecordsRequest::default().with_topics(vec![topics]));
        let row = &response.topics[0].partitions[0];
        (row.error_code, row.low_watermark)
    };
    assert_eq!(delete(2), (0, 2));
    assert_eq!(delete(1), (0, 2), "it never moves back");
    assert_eq!(delete(5), (1, -1));
    assert_eq!(delete(-7), (1, -1));
    let gone = client.call(12, &fetch_request("t", 1, 0));
    assert_eq!(gone.responses[0].partitions[0].error_code, 1);
    assert_eq!(gone.responses[0].partitions[0].log_start_offset, -1);
    let left = client.call(12, &fetch_request("t", 2, 0));
    assert_eq!(left.responses[0].partitions[0].log_start_offset, 2);
}

#[test]
fn topics_are_paged_through() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create_all(&mut client, vec![wanted("c", 2), wanted("a", 3), wanted("b", 1), wanted("d", 5)]);
    let mut seen = Vec::new();
    let mut pages = 0;
    let mut cursor = None;
    loop {
        let request = DescribeTopicPartitionsRequest::default()
            .with_response_partition_limit(4)
            .with_cursor(cursor.take());
        let response = client.call(0, &request);
        pages += 1;
        for row in &response.topics {
            let name = row.name.as_ref().unwrap().as_str().to_owned();
            seen.extend(row.partitions.iter().map(|partition| (name.clone(), partition.partition_index)));
        }
        let Some(next) = response.next_cursor else { break };
        cursor = Some(
            Cursor::default().with_topic_name(next.topic_name).with_partition_index(next.partition_index),
        );
    }
    let every = [("a", 3), ("b", 1), ("c", 2), ("d", 5)];
    let every: Vec<_> =
        every.iter().flat_map(|(name, count)| (0..*count).map(|index| ((*name).to_owned(), index))).collect();
    assert_eq!(seen, every);
    assert_eq!(pages, 3);
}

#[test]
fn whether_topics_are_made_by_asking_can_be_changed() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let ask = |client: &mut Client, name: &str| {
        let named = MetadataRequestTopic::default().with_name(Some(topic(name)));
        let request = MetadataRequest::default().with_topics(Some(vec![named]));
        let found = client.call(13, &request).topics.remove(0);
        (found.error_code, found.partitions.len())
    };
    set(&mut client, BROKER, "", "num.partitions", "2");
    assert_eq!(ask(&mut client, "a"), (0, 2));
    set(&mut client, BROKER, "", "auto.create.topics.enable", "false");
    assert_eq!(ask(&mut client, "b"), (3, 0));
    assert_eq!(ask(&mut client, "no/name"), (17, 0));
    assert_eq!(ask(&mut client, "a"), (0, 2));
    assert_eq!(alter(&mut client, BROKER, "", &[("auto.create.topics.enable", DELETE, None)]).0, 0);
    assert_eq!(ask(&mut client, "b"), (0, 2));
}

#[test]
fn a_topic_that_is_asked_for_twice_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    for version in [1, 9, 13] {
        let named = |name| MetadataRequestTopic::default().with_name(Some(topic(name)));
        let asked = vec![named("b"), named("a"), named("b"), named("a")];
        let topics = client.call(version, &MetadataRequest::default().with_topics(Some(asked))).topics;
        let names: Vec<_> =
            topics.iter().filter_map(|row| row.name.as_ref()).map(|name| name.as_str()).collect();
        assert_eq!(names, ["b", "a"]);
    }
}

#[test]
fn a_restart_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    create(&mut client, "t", &[("segment.ms", "5")]);
    create(&mut client, "gone", &[]);
    let ids: Vec<_> = client
        .call(12, &MetadataRequest::default().with_topics(None))
        .topics
        .iter()
        .map(|topic| topic.topic_id)
        .collect();
    produce(&mut client, "t", batch(Codec::None, &["a"]));
    assert_eq!(grow(&mut client, "t", 4, None, false).0, 0);
    set(&mut client, TOPIC, "t", "retention.ms", "12345");
    set(&mut client, BROKER, "", "num.partitions", "7");
    set(&mut client, BROKER, "1", "log.segment.bytes", "8192");
    let doomed = DeleteTopicState::default().with_name(Some(topic("gone")));
    client.call(6, &DeleteTopicsRequest::default().with_topics(vec![doomed]));
    drop(client);
    running.stop().unwrap();

    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    let topics = client.call(12, &MetadataRequest::default().with_topics(None)).topics;
    assert_eq!((topics.len(), topics[0].partitions.len()), (1, 4));
    assert!(ids.contains(&topics[0].topic_id));
    assert_eq!(read_all(&mut client, "t"), ["a"]);
    for (name, wanted) in [("segment.ms", "5"), ("retention.ms", "12345"), ("segment.bytes", "8192")] {
        assert_eq!(value(&mut client, TOPIC, "t", name), wanted);
    }
    assert_eq!(describe(&mut client, BROKER, "1", "num.partitions").config_source, 3);
    assert_eq!(describe(&mut client, BROKER, "1", "log.segment.bytes").config_source, 2);
    assert_eq!(create_all(&mut client, vec![wanted("u", -1)])[0].num_partitions, 7);
}

/// Makes and alters topics until the broker is gone; returns those that were acknowledged, with their property.
fn make_until_killed(
    mut client: Client,
    round: usize,
    acknowledged: &std::sync::mpsc::Sender<(String, String)>,
) {
    for index in 0.. {
        let name = format!("r{round}-{index}");
        let request = CreateTopicsRequest::default().with_topics(vec![wanted(&name, 2)]);
        let made = client.stream_call(7, &request);
        let Some(made) = made else { return };
        assert_eq!(made.topics[0].error_code, 0);
        let _ = acknowledged.send((name.clone(), "604800000".to_owned()));
        let value = (index + 1).to_string();
        let altered =
            client.stream_call(1, &alter_request(TOPIC, &name, &[("retention.ms", SET, Some(&value))]));
        let Some(altered) = altered else { return };
        assert_eq!(altered.responses[0].error_code, 0);
        let _ = acknowledged.send((name, value));
    }
}

#[test]
fn what_was_acknowledged_survives_kill_9_at_any_moment() {
    let folder = tempfile::tempdir().unwrap();
    let mut known: std::collections::BTreeMap<String, String> = Default::default();
    for round in 0..8 {
        let process = Process::start(folder.path(), &[]);
        let mut client = Client::connect(process.kafka);
        for (name, retention) in &known {
            let found = value(&mut client, TOPIC, name, "retention.ms");
            // The change behind the last acknowledged one may have been made, too.
            assert!(found == *retention || retention == "604800000", "{name}: {found}, wanted {retention}");
            assert_eq!(partitions_of(&mut client, name), Some(2));
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let maker = std::thread::spawn(move || make_until_killed(client, round, &sender));
        // The moment is whatever the machine makes of it; a few acknowledgements come first.
        for _ in 0..=2 * round {
            known.extend(receiver.recv().ok());
        }
        process.kill_9();
        maker.join().unwrap();
        known.extend(receiver.try_iter());
    }
    assert!(known.len() > 8);
}
