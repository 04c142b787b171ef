//! Who may do what, and how fast: access control lists and quotas on the wire.

mod support;

use std::path::Path;
use std::time::{Duration, Instant};

use hone_kafka::Codec;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use support::acl::*;
use support::*;

/// What each API answers.
fn errors(client: &mut Client) -> Vec<(&'static str, i16)> {
    let mut found = Vec::new();
    found.push(("produce", produce(client, "t", batch(Codec::None, &["x"])).error_code));
    let fetched = client.call(11, &fetch_request("t", 0, 0));
    found.push(("fetch", fetched.responses[0].partitions[0].error_code));
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topics = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let listed = client.call(7, &ListOffsetsRequest::default().with_topics(vec![topics]));
    found.push(("list_offsets", listed.topics[0].partitions[0].error_code));
    found.push(("metadata", metadata(client, "t").error_code));
    found.push(("metadata_made", metadata(client, "made").error_code));
    groups(client, &mut found);
    found.push(("create_topics", create(client, "new", &[]).0));
    let doomed = DeleteTopicState::default().with_name(Some(topic("new")));
    let deleted = client.call(6, &DeleteTopicsRequest::default().with_topics(vec![doomed]));
    found.push(("delete_topics", deleted.responses[0].error_code));
    let idempotent = InitProducerIdRequest::default().with_transactional_id(None);
    found.push(("init_producer_id", client.call(4, &idempotent).error_code));
    for (name, kind, resource) in [("topic_configs", 2, "t"), ("broker_configs", 4, "1")] {
        let resource =
            DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(resource));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        found.push((name, client.call(4, &request).results[0].error_code));
    }
    let filter = DescribeAclsRequest::default()
        .with_resource_type_filter(ANY)
        .with_pattern_type_filter(ANY)
        .with_operation(ANY)
        .with_permission_type(ANY);
    found.push(("describe_acls", client.call(2, &filter).error_code));
    let rule = literal(TOPIC, "other", READ);
    let made = client.call(2, &CreateAclsRequest::default().with_creations(vec![rule]));
    found.push(("create_acls", made.results[0].error_code));
    found.push(("describe_quotas", client.call(1, &DescribeClientQuotasRequest::default()).error_code));
    found.push(("alter_quotas", set_quota(client, &[("client-id", Some("x"))], "producer_byte_rate", 1e9)));
    found
}

fn metadata(
    client: &mut Client,
    name: &str,
) -> kafka_protocol::messages::metadata_response::MetadataResponseTopic {
    let named = MetadataRequestTopic::default().with_name(Some(topic(name)));
    client.call(9, &MetadataRequest::default().with_topics(Some(vec![named]))).topics[0].clone()
}

fn groups(client: &mut Client, found: &mut Vec<(&'static str, i16)>) {
    let group = GroupId(text("g"));
    let coordinator = FindCoordinatorRequest::default().with_key(text("g"));
    found.push(("find_coordinator", client.call(3, &coordinator).error_code));
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata("meta".into());
    let join = JoinGroupRequest::default()
        .with_group_id(group.clone())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = client.call(3, &join);
    found.push(("join_group", joined.error_code));
    let sync = SyncGroupRequest::default()
        .with_group_id(group.clone())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    found.push(("sync_group", client.call(3, &sync).error_code));
    let heartbeat = HeartbeatRequest::default()
        .with_group_id(group.clone())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    found.push(("heartbeat", client.call(3, &heartbeat).error_code));
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let topics = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(group.clone())
        .with_generation_id_or_member_epoch(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_topics(vec![topics]);
    found.push(("offset_commit", client.call(7, &commit).topics[0].partitions[0].error_code));
    let topics = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let asked =
        OffsetFetchRequestGroup::default().with_group_id(group.clone()).with_topics(Some(vec![topics]));
    let fetched = client.call(8, &OffsetFetchRequest::default().with_groups(vec![asked])).groups[0].clone();
    found.push(("offset_fetch_group", fetched.error_code));
    let of_topic = fetched.topics.first().map(|topic| topic.partitions[0].error_code);
    found.push(("offset_fetch_topic", of_topic.unwrap_or(fetched.error_code)));
    let leave = LeaveGroupRequest::default().with_group_id(group).with_member_id(joined.member_id);
    found.push(("leave_group", client.call(2, &leave).error_code));
}

/// APIs with the errors that are not 0.
fn refused(folder: &Path, rules: Vec<AclCreation>) -> Vec<(&'static str, i16)> {
    prepare(folder, rules);
    let broker = guarded(folder);
    let mut client = Client::connect(broker.kafka_addr());
    let mut found = errors(&mut client);
    found.retain(|(_, error)| *error != 0);
    broker.stop().unwrap();
    found
}

#[test]
fn without_a_rule_every_api_refuses_with_the_error_of_its_resource() {
    let folder = tempfile::tempdir().unwrap();
    let (topic, group, cluster) = (29, 30, 31);
    assert_eq!(
        refused(folder.path(), vec![]),
        [
            ("produce", topic),
            ("fetch", topic),
            ("list_offsets", topic),
            ("metadata", topic),
            ("metadata_made", topic),
            ("find_coordinator", group),
            ("join_group", group),
            ("sync_group", group),
            ("heartbeat", group),
            ("offset_commit", group),
            ("offset_fetch_group", group),
            ("offset_fetch_topic", group),
            ("leave_group", group),
            ("create_topics", topic),
            ("delete_topics", topic),
            ("init_producer_id", cluster),
            ("topic_configs", topic),
            ("broker_configs", cluster),
            ("describe_acls", cluster),
            ("create_acls", cluster),
            ("describe_quotas", cluster),
            ("alter_quotas", cluster),
        ]
    );
}

#[test]
fn the_rules_of_the_table_allow_everything() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![
        literal(TOPIC, "t", READ),
        literal(TOPIC, "t", WRITE),
        literal(TOPIC, "t", DESCRIBE_CONFIGS),
        literal(GROUP, "g", READ),
        literal(TOPIC, "made", DESCRIBE),
        literal(TOPIC, "made", CREATE),
        creation(TOPIC, "ne", PREFIXED, CREATE, ALLOW),
        literal(TOPIC, "new", DELETE),
        literal(CLUSTER, "kafka-cluster", ALTER),
        literal(CLUSTER, "kafka-cluster", ALTER_CONFIGS),
        literal(CLUSTER, "kafka-cluster", IDEMPOTENT_WRITE),
    ];
    assert_eq!(refused(folder.path(), rules), []);
}

#[test]
fn a_consumer_may_not_write_and_a_producer_may_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let names = |found: Vec<(&'static str, i16)>| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let consumer = names(refused(folder.path(), vec![literal(TOPIC, "*", READ), literal(GROUP, "*", READ)]));
    assert_eq!(consumer[..3], ["produce", "metadata_made", "create_topics"]);
    let producer = names(refused(folder.path(), vec![literal(TOPIC, "*", WRITE)]));
    // The right to write some topic is the right to do so once only.
    assert!(!producer.contains(&"produce") && !producer.contains(&"init_producer_id"));
    assert!(producer.contains(&"fetch") && producer.contains(&"join_group"));
    let denied = vec![literal(TOPIC, "*", WRITE), creation(TOPIC, "t", LITERAL, WRITE, DENY)];
    assert!(names(refused(folder.path(), denied)).contains(&"produce"));
}

#[test]
fn what_may_not_be_seen_is_not_listed_and_operations_are_told() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), vec![literal(TOPIC, "t", READ)]);
    let broker = guarded(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let all = MetadataRequest::default()
        .with_topics(None)
        .with_include_topic_authorized_operations(true)
        .with_include_cluster_authorized_operations(true);
    let response = client.call(9, &all);
    assert_eq!(response.topics[0].topic_authorized_operations, 1 << READ | 1 << DESCRIBE);
    assert_eq!(response.cluster_authorized_operations, 0);
    broker.stop().unwrap();
    prepare(folder.path(), vec![]);
    let broker = guarded(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert!(client.call(9, &all).topics.is_empty());
    broker.stop().unwrap();
}

#[test]
fn ids_of_topics_and_transactions_are_guarded_too() {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path(), vec![literal(TOPIC, "t", DESCRIBE)]);
    let broker = guarded(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let id = client.call(12, &MetadataRequest::default().with_topics(None)).topics[0].topic_id;
    let mut request = produce_request("", 0, batch(Codec::None, &["x"]));
    request.topic_data[0].topic_id = id;
    assert_eq!(client.call(13, &request).responses[0].partition_responses[0].error_code, 29);
    let mut request = fetch_request("", 0, 0);
    request.topics[0].topic_id = id;
    assert_eq!(client.call(13, &request).responses[0].partitions[0].error_code, 29);
    let doomed = DeleteTopicState::default().with_name(None).with_topic_id(id);
    let deleted = client.call(6, &DeleteTopicsRequest::default().with_topics(vec![doomed]));
    assert_eq!(deleted.responses[0].error_code, 29);
    let request = produce_request("t", 0, batch(Codec::None, &["x"]))
        .with_transactional_id(Some(TransactionalId(text("tx"))));
    assert_eq!(client.call(9, &request).responses[0].partition_responses[0].error_code, 53);
    let init = InitProducerIdRequest::default().with_transactional_id(Some(TransactionalId(text("tx"))));
    assert_eq!(client.call(4, &init).error_code, 53);
    broker.stop().unwrap();
    prepare(folder.path(), vec![literal(TRANSACTIONAL_ID, "tx", WRITE)]);
    let broker = guarded(folder.path());
    assert_ne!(Client::connect(broker.kafka_addr()).call(4, &init).error_code, 53);
    broker.stop().unwrap();
}

#[test]
fn rules_are_described_and_deleted_by_filter_in_every_version() {
    let folder = tempfile::tempdir().unwrap();
    let broker = administered(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    for version in 1..=3 {
        let bad = creation(TOPIC, "t", LITERAL, 99, ALLOW);
        let rules = vec![literal(TOPIC, "orders", READ), bad, creation(TOPIC, "ord", PREFIXED, WRITE, DENY)];
        let made = client.call(version, &CreateAclsRequest::default().with_creations(rules));
        let codes: Vec<_> = made.results.iter().map(|result| result.error_code).collect();
        assert_eq!(codes, [0, 42, 0]);
        assert!(made.results[1].error_message.as_ref().unwrap().contains("no operation 99"));

        let describe = DescribeAclsRequest::default()
            .with_resource_type_filter(TOPIC)
            .with_resource_name_filter(Some(text("orders")))
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_pattern_type_filter(MATCH)
            .with_operation(ANY)
            .with_permission_type(ANY);
        let found = client.call(version, &describe);
        let resources: Vec<_> = found
            .resources
            .iter()
            .map(|found| (found.resource_name.as_str(), found.pattern_type, found.acls[0].operation))
            .collect();
        assert_eq!(resources, [("orders", LITERAL, READ), ("ord", PREFIXED, WRITE)]);

        let filter = |operation| {
            DeleteAclsFilter::default()
                .with_resource_type_filter(ANY)
                .with_resource_name_filter(None)
                .with_pattern_type_filter(ANY)
                .with_principal_filter(None)
                .with_host_filter(None)
                .with_operation(operation)
                .with_permission_type(ANY)
        };
        let filters = vec![filter(WRITE), filter(99), filter(ANY)];
        let deleted = client.call(version, &DeleteAclsRequest::default().with_filters(filters));
        let counts: Vec<_> = deleted
            .filter_results
            .iter()
            .map(|result| (result.error_code, result.matching_acls.len()))
            .collect();
        assert_eq!(counts, [(0, 1), (42, 0), (0, 2)]);
        assert!(client.call(version, &describe).resources.is_empty());
    }
    broker.stop().unwrap();
}

#[test]
fn without_authorization_there_are_no_lists_to_change() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let made = CreateAclsRequest::default().with_creations(vec![literal(TOPIC, "t", READ)]);
    assert_eq!(client.call(3, &made).results[0].error_code, 54);
    let all = MetadataRequest::default().with_topics(None).with_include_cluster_authorized_operations(true);
    assert_ne!(client.call(9, &all).cluster_authorized_operations & 1 << ALTER, 0, "everyone may");
    broker.stop().unwrap();
}

type Part<'a> = (&'a str, Option<&'a str>);

fn quota_change(entity: &[Part<'_>], key: &str, value: Option<f64>) -> AlterClientQuotasRequest {
    let part = |(kind, name): &Part<'_>| {
        EntityData::default().with_entity_type(text(kind)).with_entity_name(name.map(text))
    };
    let op =
        OpData::default().with_key(text(key)).with_value(value.unwrap_or(0.0)).with_remove(value.is_none());
    let entry = EntryData::default().with_entity(entity.iter().map(part).collect()).with_ops(vec![op]);
    AlterClientQuotasRequest::default().with_entries(vec![entry])
}

fn set_quota(client: &mut Client, entity: &[Part<'_>], key: &str, value: f64) -> i16 {
    client.call(1, &quota_change(entity, key, Some(value))).entries[0].error_code
}

#[test]
fn quotas_are_changed_and_described_in_every_version_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    for version in 0..=1 {
        let broker = broker(folder.path());
        let mut client = Client::connect(broker.kafka_addr());
        for (entity, value) in [
            (&[("user", Some("u")), ("client-id", None)][..], 2000.0),
            (&[("user", Some("u"))], 3000.0),
            (&[("client-id", Some("c"))], 4000.0),
        ] {
            let change = quota_change(entity, "consumer_byte_rate", Some(value));
            let checked = client.call(version, &change.clone().with_validate_only(true));
            assert_eq!(checked.entries[0].error_code, 0);
            assert_eq!(client.call(version, &change).entries[0].error_code, 0);
        }
        for (entity, key) in [
            (&[("user", Some("u"))][..], "controller_mutation_rate"),
            (&[("ip", Some("::1"))], "producer_byte_rate"),
            (&[], "producer_byte_rate"),
            (&[("user", None), ("user", None)], "producer_byte_rate"),
        ] {
            let refused = client.call(version, &quota_change(entity, key, Some(1.0)));
            assert_eq!(refused.entries[0].error_code, 42, "{entity:?} {key}");
        }
        broker.stop().unwrap();
        let broker = support::broker(folder.path());
        let mut client = Client::connect(broker.kafka_addr());
        let mut found = |kind: &str, how: i8, name: Option<&str>, strict: bool| -> Vec<f64> {
            let component = ComponentData::default()
                .with_entity_type(text(kind))
                .with_match_type(how)
                .with_match(name.map(text));
            let request =
                DescribeClientQuotasRequest::default().with_components(vec![component]).with_strict(strict);
            let entries = client.call(version, &request).entries.unwrap();
            entries.iter().flat_map(|entry| entry.values.iter().map(|value| value.value)).collect()
        };
        assert_eq!(found("user", 0, Some("u"), false), [3000.0, 2000.0]);
        assert_eq!(found("user", 0, Some("u"), true), [3000.0]);
        assert_eq!(found("client-id", 2, None, true), [4000.0]);
        assert_eq!(found("client-id", 1, None, false), [2000.0]);
        assert_eq!(found("ip", 2, None, false), [0.0; 0]);
        let gone = quota_change(&[("user", Some("u"))], "consumer_byte_rate", None);
        assert_eq!(client.call(version, &gone).entries[0].error_code, 0);
        let left = client.call(version, &DescribeClientQuotasRequest::default()).entries.unwrap();
        assert_eq!(left.len(), 2);
        broker.stop().unwrap();
    }
}

/// Sends the same request again and again without looking at the delays that it is told, until it was told `after` of
/// them. Returns requests a second from the first delay on; that one may be short, since it is only what was too much.
fn rate_once_delayed(after: usize, mut request: impl FnMut() -> i32) -> f64 {
    let begun = Instant::now();
    while request() == 0 {
        assert!(begun.elapsed() < PATIENCE, "a quota that is never felt");
    }
    let begun = Instant::now();
    for _ in 0..after {
        assert!(request() > 0, "the delay is told");
    }
    (after - 1) as f64 / begun.elapsed().as_secs_f64()
}

#[test]
fn a_producer_is_held_to_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let value = "x".repeat(20_000);
    let request = produce_request("t", 0, batch(Codec::None, &[&value]));
    assert_eq!(client.call(9, &request).throttle_time_ms, 0);
    assert_eq!(set_quota(&mut client, &[("client-id", Some("test"))], "producer_byte_rate", 100_000.0), 0);
    let requests = rate_once_delayed(6, || client.call(9, &request).throttle_time_ms);
    // A client that ignores what it is told is not read meanwhile.
    assert!(requests * 20_000.0 < 120_000.0, "{requests} requests a second");
    // Someone else is not concerned, and the quota can go.
    let mut other = Client::connect(broker.kafka_addr());
    let gone = quota_change(&[("client-id", Some("test"))], "producer_byte_rate", None);
    assert_eq!(other.call(1, &gone).entries[0].error_code, 0);
    assert_eq!(other.call(9, &request).throttle_time_ms, 0);
    broker.stop().unwrap();
}

#[test]
fn a_consumer_is_held_to_its_rate_by_its_user() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    // The records of these batches are from 1970.
    create(&mut client, "t", &[("retention.ms", "-1")]);
    let value = "x".repeat(20_000);
    for _ in 0..100 {
        assert_eq!(produce(&mut client, "t", batch(Codec::None, &[&value])).error_code, 0);
    }
    assert_eq!(set_quota(&mut client, &[("user", Some("ANONYMOUS"))], "consumer_byte_rate", 100_000.0), 0);
    // One answer brings no more than a burst.
    let whole = client.call(11, &fetch_request("t", 0, 0));
    let bytes = whole.responses[0].partitions[0].records.as_ref().unwrap().len();
    assert!((900_000..=1_000_000).contains(&bytes), "{bytes}");
    let mut small = fetch_request("t", 0, 0);
    small.max_bytes = 20_000;
    let requests = rate_once_delayed(6, || client.call(11, &small).throttle_time_ms);
    assert!(requests * 20_000.0 < 120_000.0, "{requests} requests a second");
    broker.stop().unwrap();
}

/// Large answers are sent by the kernel from the file; they count as much, and carry the delay.
#[test]
fn large_answers_count_with_what_is_sent_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("retention.ms", "-1")]);
    let value = "x".repeat(900_000);
    for _ in 0..2 {
        assert_eq!(produce(&mut client, "t", batch(Codec::None, &[&value])).error_code, 0);
    }
    assert_eq!(set_quota(&mut client, &[("client-id", Some("test"))], "consumer_byte_rate", 150_000.0), 0);
    for version in [11, 12] {
        let mut delays = Vec::new();
        for _ in 0..3 {
            // Each on a connection of its own, so that the delay of the one before is not waited for.
            let mut client = Client::connect(broker.kafka_addr());
            let fetched = client.call(version, &fetch_request("t", 0, 0));
            let bytes = fetched.responses[0].partitions[0].records.as_ref().unwrap().len();
            assert!(bytes >= 900_000, "{bytes}");
            delays.push(fetched.throttle_time_ms);
        }
        assert!(delays.iter().is_sorted(), "v{version}: {delays:?}");
        // Beyond the 1,500,000 bytes of a burst, each takes as long as its bytes.
        assert!(delays[2] - delays[1] > 1_000, "v{version}: {delays:?}");
    }
    broker.stop().unwrap();
}

#[test]
fn requests_that_cost_more_cpu_than_their_share_are_delayed() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    // A millionth of a thread: ten microseconds in ten seconds, which a fast build needs for two or three requests.
    assert_eq!(set_quota(&mut client, &[("client-id", None)], "request_percentage", 0.0001), 0);
    let delay = || client.call(9, &MetadataRequest::default()).throttle_time_ms;
    let delays: Vec<_> = std::iter::repeat_with(delay).take(30).collect();
    assert!(delays.iter().all(|delay| (0..=1000).contains(delay)), "{delays:?}");
    assert!(delays[29] > 0, "{delays:?}");
    // What a client needs to come in is not delayed.
    let mut fresh = Client::connect(broker.kafka_addr());
    assert_eq!(fresh.call(3, &ApiVersionsRequest::default()).throttle_time_ms, 0);
    broker.stop().unwrap();
}

#[test]
fn what_was_sent_ahead_of_a_hang_up_is_served_after_the_delay() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    assert_eq!(set_quota(&mut client, &[("client-id", Some("test"))], "producer_byte_rate", 10_000.0), 0);
    let value = "x".repeat(52_000);
    let mut quiet = Client::connect(broker.kafka_addr());
    for _ in 0..3 {
        quiet.send(9, &produce_request("t", 0, batch(Codec::None, &[&value])).with_acks(0));
    }
    quiet.stream.shutdown(std::net::Shutdown::Write).unwrap();
    let begun = Instant::now();
    while read_all(&mut client, "t").len() < 3 {
        assert!(begun.elapsed() < PATIENCE, "a request was lost");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(quiet.receive().is_none());
    broker.stop().unwrap();
}

#[test]
fn times_of_records_are_bounded_or_the_brokers() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "near", &[("message.timestamp.before.max.ms", "60000")]);
    create(&mut client, "append", &[("message.timestamp.type", "LogAppendTime")]);
    // The records of these batches are from 1970; compressed, too.
    for codec in Codec::ALL {
        let refused = produce(&mut client, "near", batch_at(codec, &["a", "b"], 1_000));
        assert_eq!((refused.error_code, refused.record_errors.len()), (32, 2), "{}", codec.name());
        let records: Vec<_> = refused.record_errors.iter().map(|record| record.batch_index).collect();
        assert_eq!(records, [0, 1]);
        let taken = produce(&mut client, "append", batch_at(codec, &["a", "b"], 1_000));
        assert_eq!(taken.error_code, 0);
        assert!(taken.log_append_time_ms > 1_700_000_000_000);
    }
    for stored in hone_kafka::batches(&fetch(&mut client, "append", 0)) {
        let stored = stored.unwrap();
        hone_kafka::batch::verify_crc(stored.bytes).unwrap();
        assert_eq!(stored.header.timestamp_type(), hone_kafka::batch::TimestampType::LogAppend);
        assert!(stored.header.max_timestamp > 1_700_000_000_000);
    }
    broker.stop().unwrap();
}

#[test]
fn a_broker_that_nobody_could_use_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program(env!("CARGO_BIN_EXE_hone-broker"));
    let ended = command
        .args(["--authorize", "--listen", "127.0.0.1:0", "--data"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let complaint = String::from_utf8(ended.stderr).unwrap();
    assert!(complaint.contains("--superuser"), "{complaint}");
}
