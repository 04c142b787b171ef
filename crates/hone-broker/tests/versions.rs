//! Every API in every version that is served: the request as a foreign encoder writes it, the answer as a foreign
//! decoder reads it, to the last byte.

mod support;

use hone_kafka::Codec;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::consumer_group_heartbeat_response::ConsumerGroupHeartbeatResponse;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::incremental_alter_configs_request;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_partition_reassignments_request::ListPartitionReassignmentsTopics;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use support::*;

struct Setup {
    _folder: tempfile::TempDir,
    _broker: hone_broker::Broker,
    client: Client,
    served: Vec<ApiVersion>,
}

fn setup() -> Setup {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| settings.group_initial_delay_ms = 0);
    let mut client = Client::connect(broker.kafka_addr());
    let served = client.call(0, &ApiVersionsRequest::default()).api_keys;
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    Setup { _folder: folder, _broker: broker, client, served }
}

impl Setup {
    fn versions(&self, key: i16) -> std::ops::RangeInclusive<i16> {
        let api = self.served.iter().find(|api| api.api_key == key).unwrap();
        api.min_version..=api.max_version
    }

    fn topic_id(&mut self) -> kafka_protocol::messages::metadata_response::MetadataResponseTopic {
        self.client.call(12, &MetadataRequest::default().with_topics(None)).topics[0].clone()
    }
}

#[test]
fn api_versions() {
    let mut setup = setup();
    for version in setup.versions(18) {
        let response =
            setup.client.call(version, &ApiVersionsRequest::default().with_client_software_name(text("x")));
        assert_eq!((response.error_code, response.api_keys.len()), (0, setup.served.len()));
        assert!(response.api_keys.is_sorted_by(|a, b| a.api_key < b.api_key), "each key once, in order");
        assert!(response.api_keys.iter().all(|api| api.min_version <= api.max_version));
        // Anything but a beginning at 0 makes librdkafka send uncompressed without a word.
        assert_eq!(response.api_keys.iter().find(|api| api.api_key == 0).unwrap().min_version, 0);
    }
}

#[test]
fn metadata() {
    let mut setup = setup();
    let id = setup.topic_id().topic_id;
    for version in setup.versions(3) {
        let named = MetadataRequestTopic::default().with_name(Some(topic("t")));
        let response = setup.client.call(version, &MetadataRequest::default().with_topics(Some(vec![named])));
        let found = &response.topics[0];
        assert_eq!((found.error_code, found.partitions.len()), (0, 1));
        assert_eq!(found.name.as_ref().map(|name| name.as_str()), Some("t"));
        assert_eq!(found.partitions[0].leader_id, response.brokers[0].node_id);
        let all = if version == 0 { Some(vec![]) } else { None };
        assert_eq!(setup.client.call(version, &MetadataRequest::default().with_topics(all)).topics.len(), 1);
        if version >= 1 {
            let none = setup.client.call(version, &MetadataRequest::default().with_topics(Some(vec![])));
            assert!(none.topics.is_empty());
        }
        if version >= 12 {
            let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(id);
            let response =
                setup.client.call(version, &MetadataRequest::default().with_topics(Some(vec![by_id])));
            assert_eq!(response.topics[0].name.as_ref().map(|name| name.as_str()), Some("t"));
        }
    }
}

#[test]
fn metadata_makes_topics_unless_told_not_to() {
    let mut setup = setup();
    let ask = |name: &str| {
        MetadataRequest::default()
            .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic(name)))]))
    };
    let response = setup.client.call(4, &ask("not-made").with_allow_auto_topic_creation(false));
    assert_eq!(response.topics[0].error_code, 3);
    assert_eq!(
        setup.client.call(4, &ask("made").with_allow_auto_topic_creation(true)).topics[0].error_code,
        0
    );
    assert_eq!(
        setup.client.call(4, &ask("no/name").with_allow_auto_topic_creation(true)).topics[0].error_code,
        17
    );
}

#[test]
fn produce_and_fetch() {
    let mut setup = setup();
    let id = setup.topic_id().topic_id;
    let mut next = 0;
    for version in 3..=13 {
        let codec = if version >= 7 { Codec::Zstd } else { Codec::Lz4 };
        let mut request = produce_request("t", 0, batch(codec, &["a", "b"]));
        if version >= 13 {
            request.topic_data[0].name = topic("");
            request.topic_data[0].topic_id = id;
        }
        let response = setup.client.call(version, &request);
        let partition = &response.responses[0].partition_responses[0];
        assert_eq!((partition.error_code, partition.base_offset), (0, next), "v{version}");
        next += 2;
    }
    for version in setup.versions(1) {
        let mut partition = FetchPartition::default().with_fetch_offset(3).with_partition_max_bytes(1);
        partition.current_leader_epoch = if version >= 9 { 0 } else { -1 };
        let mut topics = FetchTopic::default().with_partitions(vec![partition]);
        if version >= 13 {
            topics.topic_id = id;
        } else {
            topics.topic = topic("t");
        }
        let request = FetchRequest::default()
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(1)
            .with_topics(vec![topics]);
        let response = setup.client.call(version, &request);
        let partition = &response.responses[0].partitions[0];
        assert_eq!((partition.error_code, partition.high_watermark), (0, next), "v{version}");
        let set = partition.records.clone().unwrap();
        let found: Vec<_> =
            hone_kafka::batches(&set).map(|batch| batch.unwrap().header.base_offset).collect();
        assert_eq!(found, [2], "the whole batch around the offset, although it is above every limit");
    }
}

#[test]
fn unknown_topics_and_ids_have_their_own_errors() {
    let mut setup = setup();
    let mut request = produce_request("missing", 0, batch(Codec::None, &["a"]));
    assert_eq!(setup.client.call(12, &request).responses[0].partition_responses[0].error_code, 3);
    request.topic_data[0].name = topic("");
    request.topic_data[0].topic_id = "00000000-0000-0000-0000-00000000abcd".parse().unwrap();
    assert_eq!(setup.client.call(13, &request).responses[0].partition_responses[0].error_code, 100);
    let mut request = fetch_request("missing", 0, 1_000);
    assert_eq!(setup.client.call(12, &request).responses[0].partitions[0].error_code, 3);
    request.topics[0].topic = topic("");
    assert_eq!(setup.client.call(13, &request).responses[0].partitions[0].error_code, 100);
    let beyond = fetch_request("t", 99, 1_000);
    assert_eq!(setup.client.call(12, &beyond).responses[0].partitions[0].error_code, 1);
}

#[test]
fn list_offsets() {
    let mut setup = setup();
    for version in setup.versions(2) {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        let topics = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let response = setup.client.call(version, &ListOffsetsRequest::default().with_topics(vec![topics]));
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.offset), (0, 0));
    }
}

#[test]
fn find_coordinator() {
    let mut setup = setup();
    for version in setup.versions(10) {
        let request = if version <= 3 {
            FindCoordinatorRequest::default().with_key(text("g"))
        } else {
            FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g"), text("h")])
        };
        let response = setup.client.call(version, &request);
        if version <= 3 {
            assert_eq!((response.error_code, response.node_id.0), (0, 1));
        } else {
            let keys: Vec<_> =
                response.coordinators.iter().map(|found| (found.key.as_str(), found.error_code)).collect();
            assert_eq!(keys, [("g", 0), ("h", 0)]);
        }
        if version >= 1 {
            let mut found = |key_type| {
                let response = setup.client.call(version, &request.clone().with_key_type(key_type));
                match response.coordinators.first() {
                    Some(first) => (first.error_code, first.node_id.0),
                    None => (response.error_code, response.node_id.0),
                }
            };
            assert_eq!(found(1), (0, 1), "transactions have the same coordinator");
            assert_eq!(found(9), (42, -1));
        }
    }
}

/// One member through its whole life, in the same relative version of each API.
#[test]
fn groups() {
    let mut setup = setup();
    for version in 0..=9_i16 {
        let group = GroupId(text(&format!("g{version}")));
        let (generation, member) = join(&mut setup.client, version, &group);
        let sync_version = version.min(5);
        let plan = SyncGroupRequestAssignment::default()
            .with_member_id(member.clone())
            .with_assignment("mine".into());
        let mut sync = SyncGroupRequest::default()
            .with_group_id(group.clone())
            .with_generation_id(generation)
            .with_member_id(member.clone())
            .with_assignments(vec![plan]);
        if sync_version >= 5 {
            sync = sync.with_protocol_type(Some(text("consumer"))).with_protocol_name(Some(text("range")));
        }
        let synced = setup.client.call(sync_version, &sync);
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, b"mine".as_slice()));

        let heartbeat = HeartbeatRequest::default()
            .with_group_id(group.clone())
            .with_generation_id(generation)
            .with_member_id(member.clone());
        assert_eq!(setup.client.call(version.min(4), &heartbeat).error_code, 0);

        commit_and_fetch(&mut setup.client, version.clamp(2, 9), &group, generation, &member);

        let leave_version = version.min(5);
        let leave = LeaveGroupRequest::default().with_group_id(group.clone());
        let leave = if leave_version <= 2 {
            leave.with_member_id(member.clone())
        } else {
            leave.with_members(vec![MemberIdentity::default().with_member_id(member.clone())])
        };
        let left = setup.client.call(leave_version, &leave);
        assert_eq!(left.error_code, 0);
        assert!(left.members.iter().all(|member| member.error_code == 0));
        assert_eq!(setup.client.call(version.min(4), &heartbeat).error_code, 25);
    }
}

fn join(client: &mut Client, version: i16, group: &GroupId) -> (i32, kafka_protocol::protocol::StrBytes) {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata("meta".into());
    let mut request = JoinGroupRequest::default()
        .with_group_id(group.clone())
        .with_session_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    if version >= 1 {
        request.rebalance_timeout_ms = 10_000;
    }
    let mut response = client.call(version, &request);
    if version >= 4 {
        assert_eq!(response.error_code, 79, "an id first");
        request.member_id = response.member_id;
        response = client.call(version, &request);
    }
    assert_eq!((response.error_code, response.members.len()), (0, 1));
    assert_eq!(&response.members[0].metadata[..], b"meta");
    assert_eq!(response.leader, response.member_id);
    (response.generation_id, response.member_id)
}

fn commit_and_fetch(
    client: &mut Client,
    version: i16,
    group: &GroupId,
    generation: i32,
    member: &kafka_protocol::protocol::StrBytes,
) {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(17)
        .with_committed_metadata(Some(text("note")));
    let topics = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(group.clone())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member.clone())
        .with_topics(vec![topics]);
    let response = client.call(version, &commit);
    assert_eq!(response.topics[0].partitions[0].error_code, 0);

    if version >= 8 {
        let topics =
            OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0, 5]);
        for asked in [Some(vec![topics]), None] {
            let all = asked.is_none();
            let group = OffsetFetchRequestGroup::default().with_group_id(group.clone()).with_topics(asked);
            let response = client.call(version, &OffsetFetchRequest::default().with_groups(vec![group]));
            let found = &response.groups[0].topics[0].partitions;
            assert_eq!((found[0].committed_offset, found[0].metadata.as_deref()), (17, Some("note")));
            assert!(all || found[1].committed_offset == -1);
        }
    } else {
        let topics =
            OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0, 5]);
        let fetch =
            OffsetFetchRequest::default().with_group_id(group.clone()).with_topics(Some(vec![topics]));
        let found = client.call(version, &fetch).topics[0].partitions.clone();
        assert_eq!((found[0].committed_offset, found[1].committed_offset), (17, -1));
    }
}

#[test]
fn offset_fetch_version_1() {
    let mut setup = setup();
    let topics = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let fetch =
        OffsetFetchRequest::default().with_group_id(GroupId(text("g"))).with_topics(Some(vec![topics]));
    assert_eq!(setup.client.call(1, &fetch).topics[0].partitions[0].committed_offset, -1);
}

#[test]
fn init_producer_id() {
    let mut setup = setup();
    let mut given = std::collections::HashSet::new();
    for version in setup.versions(22) {
        let response =
            setup.client.call(version, &InitProducerIdRequest::default().with_transactional_id(None));
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!(given.insert(response.producer_id.0), "an id is given once");
        let transactional = InitProducerIdRequest::default()
            .with_transactional_id(Some(transactional_id(version)))
            .with_transaction_timeout_ms(60_000);
        let response = setup.client.call(version, &transactional);
        assert_eq!((response.error_code, response.producer_epoch), (0, 0));
        assert!(given.insert(response.producer_id.0), "an id is given once");
    }
}

fn transactional_id(version: i16) -> TransactionalId {
    TransactionalId(text(&format!("x{version}")))
}

fn init(setup: &mut Setup, version: i16) -> (TransactionalId, ProducerId, i16) {
    let name = transactional_id(version);
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(name.clone()))
        .with_transaction_timeout_ms(60_000);
    let given = setup.client.call(2, &request);
    assert_eq!(given.error_code, 0);
    (name, given.producer_id, given.producer_epoch)
}

#[test]
fn add_partitions_to_txn() {
    let mut setup = setup();
    for version in setup.versions(24) {
        let (name, id, epoch) = init(&mut setup, version);
        let topics = vec![AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0])];
        let request = if version <= 3 {
            AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(name)
                .with_v3_and_below_producer_id(id)
                .with_v3_and_below_producer_epoch(epoch)
                .with_v3_and_below_topics(topics)
        } else {
            let transaction = AddPartitionsToTxnTransaction::default()
                .with_transactional_id(name)
                .with_producer_id(id)
                .with_producer_epoch(epoch)
                .with_topics(topics);
            AddPartitionsToTxnRequest::default().with_transactions(vec![transaction])
        };
        let response = setup.client.call(version, &request);
        let results = if version <= 3 {
            &response.results_by_topic_v3_and_below
        } else {
            &response.results_by_transaction[0].topic_results
        };
        assert_eq!(results[0].results_by_partition[0].partition_error_code, 0, "v{version}");
    }
}

/// Offsets in a transaction, in the same relative version of each API.
#[test]
fn offsets_and_end_of_a_transaction() {
    let mut setup = setup();
    for version in setup.versions(26) {
        let (name, id, epoch) = init(&mut setup, version);
        let group = GroupId(text(&format!("of-{version}")));
        let add = AddOffsetsToTxnRequest::default()
            .with_transactional_id(name.clone())
            .with_producer_id(id)
            .with_producer_epoch(epoch)
            .with_group_id(group.clone());
        assert_eq!(setup.client.call(version.min(4), &add).error_code, 0);
        let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(11);
        let topics =
            TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let commit = TxnOffsetCommitRequest::default()
            .with_transactional_id(name.clone())
            .with_group_id(group)
            .with_producer_id(id)
            .with_producer_epoch(epoch)
            .with_topics(vec![topics]);
        let response = setup.client.call(version, &commit);
        assert_eq!(response.topics[0].partitions[0].error_code, 0, "v{version}");
        let end = EndTxnRequest::default()
            .with_transactional_id(name)
            .with_producer_id(id)
            .with_producer_epoch(epoch)
            .with_committed(true);
        let response = setup.client.call(version, &end);
        assert_eq!(response.error_code, 0, "v{version}");
        if version >= 5 {
            assert_eq!((response.producer_id, response.producer_epoch), (id, epoch + 1));
        }
    }
}

#[test]
fn write_txn_markers() {
    let mut setup = setup();
    let (_, id, epoch) = init(&mut setup, 0);
    for version in setup.versions(27) {
        let topics =
            WritableTxnMarkerTopic::default().with_name(topic("t")).with_partition_indexes(vec![0, 7]);
        let marker = WritableTxnMarker::default()
            .with_producer_id(id)
            .with_producer_epoch(epoch)
            .with_topics(vec![topics]);
        let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
        let response = setup.client.call(version, &request);
        let codes = response.markers[0].topics[0].partitions.iter().map(|partition| partition.error_code);
        assert_eq!(codes.collect::<Vec<_>>(), [0, 3], "v{version}");
    }
}

#[test]
fn what_there_is_of_transactions() {
    let mut setup = setup();
    let (name, id, _) = init(&mut setup, 0);
    for version in setup.versions(61) {
        let topics = ProducersOf::default().with_name(topic("t")).with_partition_indexes(vec![0, 7]);
        let response =
            setup.client.call(version, &DescribeProducersRequest::default().with_topics(vec![topics]));
        let codes = response.topics[0].partitions.iter().map(|partition| partition.error_code);
        assert_eq!(codes.collect::<Vec<_>>(), [0, 3]);
    }
    for version in setup.versions(65) {
        let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![name.clone()]);
        let response = setup.client.call(version, &request);
        let found = &response.transaction_states[0];
        assert_eq!((found.transaction_state.as_str(), found.producer_id), ("Empty", id));
    }
    for version in setup.versions(66) {
        let request = ListTransactionsRequest::default().with_producer_id_filters(vec![id]);
        let response = setup.client.call(version, &request);
        assert_eq!((response.error_code, &response.transaction_states[0].transactional_id), (0, &name));
    }
}

#[test]
fn topics_are_made_described_and_deleted() {
    let mut setup = setup();
    for version in setup.versions(19) {
        let request = create_request("made", 3, &[("compression.type", "lz4")]);
        let only_asked = setup.client.call(version, &request.clone().with_validate_only(true));
        assert_eq!(only_asked.topics[0].error_code, 0);
        let made = setup.client.call(version, &request);
        assert_eq!(made.topics[0].error_code, 0, "v{version}");
        if version >= 5 {
            assert_eq!(made.topics[0].num_partitions, 3);
        }
        assert_eq!(setup.client.call(version, &request).topics[0].error_code, 36);
        describe(&mut setup);
        let delete_version = (version - 1).clamp(1, 6);
        let deleted = setup.client.call(delete_version, &delete(delete_version, "made"));
        assert_eq!(deleted.responses[0].error_code, 0);
        assert_eq!(
            setup.client.call(delete_version, &delete(delete_version, "made")).responses[0].error_code,
            3
        );
    }
}

fn delete(version: i16, name: &str) -> DeleteTopicsRequest {
    if version <= 5 {
        DeleteTopicsRequest::default().with_topic_names(vec![topic(name)])
    } else {
        DeleteTopicsRequest::default()
            .with_topics(vec![DeleteTopicState::default().with_name(Some(topic(name)))])
    }
}

fn describe(setup: &mut Setup) {
    for version in setup.versions(32) {
        let resource =
            DescribeConfigsResource::default().with_resource_type(2).with_resource_name(text("made"));
        let response =
            setup.client.call(version, &DescribeConfigsRequest::default().with_resources(vec![resource]));
        let rows = &response.results[0].configs;
        let row = rows.iter().find(|row| row.name.as_str() == "compression.type").unwrap();
        assert_eq!((row.value.as_deref(), row.config_source), (Some("lz4"), 1));
    }
}

#[test]
fn records_are_deleted() {
    let mut setup = setup();
    produce(&mut setup.client, "t", batch(Codec::None, &["a", "b", "c", "d", "e"]));
    for (version, wanted) in setup.versions(21).zip([1, 3, 5]) {
        let partitions = vec![
            DeleteRecordsPartition::default().with_offset(if version == 2 { -1 } else { wanted }),
            DeleteRecordsPartition::default().with_partition_index(7),
        ];
        let topics = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(partitions);
        let response = setup.client.call(version, &DeleteRecordsRequest::default().with_topics(vec![topics]));
        let found: Vec<_> = response.topics[0]
            .partitions
            .iter()
            .map(|row| (row.partition_index, row.error_code, row.low_watermark))
            .collect();
        assert_eq!(found, [(0, 0, wanted), (7, 3, -1)], "v{version}");
    }
}

#[test]
fn the_only_epoch_ends_where_the_log_does() {
    let mut setup = setup();
    produce(&mut setup.client, "t", batch(Codec::None, &["a", "b", "c"]));
    for version in setup.versions(23) {
        let ask = |partition, current, epoch| {
            OffsetForLeaderPartition::default()
                .with_partition(partition)
                .with_current_leader_epoch(current)
                .with_leader_epoch(epoch)
        };
        let partitions =
            vec![ask(0, -1, 0), ask(0, 0, 0), ask(0, 0, 5), ask(0, 1, 0), ask(0, -2, 0), ask(4, -1, 0)];
        let topics = OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(partitions);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topics]);
        let response = setup.client.call(version, &request);
        let found: Vec<_> = response.topics[0]
            .partitions
            .iter()
            .map(|row| (row.error_code, row.leader_epoch, row.end_offset))
            .collect();
        assert_eq!(
            found,
            [(0, 0, 3), (0, 0, 3), (0, -1, -1), (75, -1, -1), (74, -1, -1), (3, -1, -1)],
            "v{version}"
        );
    }
}

#[test]
fn properties_are_altered_in_both_ways() {
    let mut setup = setup();
    for version in setup.versions(33) {
        let value = format!("{}", 5_000 + version);
        let config = alter_configs_request::AlterableConfig::default()
            .with_name(text("segment.bytes"))
            .with_value(Some(text(&value)));
        let resource = alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let response =
            setup.client.call(version, &AlterConfigsRequest::default().with_resources(vec![resource]));
        assert_eq!((response.responses[0].error_code, response.responses[0].resource_type), (0, 2));
        assert_eq!(segment_bytes(&mut setup), value);
    }
    for version in setup.versions(44) {
        let value = format!("{}", 6_000 + version);
        let config = incremental_alter_configs_request::AlterableConfig::default()
            .with_name(text("segment.bytes"))
            .with_value(Some(text(&value)));
        let resource = incremental_alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        let response = setup.client.call(version, &request);
        assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
        assert_eq!(segment_bytes(&mut setup), value);
    }
}

fn segment_bytes(setup: &mut Setup) -> String {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configuration_keys(Some(vec![text("segment.bytes")]));
    let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
    let response = setup.client.call(4, &request);
    assert_eq!(response.results[0].configs.len(), 1);
    response.results[0].configs[0].value.as_deref().unwrap().to_owned()
}

#[test]
fn log_dirs() {
    let mut setup = setup();
    produce(&mut setup.client, "t", batch(Codec::None, &["a"]));
    let stored = fetch(&mut setup.client, "t", 0).len() as i64;
    for version in setup.versions(35) {
        let named = DescribableLogDirTopic::default().with_topic(topic("t")).with_partitions(vec![0, 3]);
        for wanted in [None, Some(vec![named])] {
            let response = setup.client.call(version, &DescribeLogDirsRequest::default().with_topics(wanted));
            let folder = &response.results[0];
            assert_eq!((response.error_code, folder.error_code, folder.topics.len()), (0, 0, 1));
            let partitions = &folder.topics[0].partitions;
            assert_eq!((partitions.len(), partitions[0].partition_size), (1, stored));
            assert_eq!(folder.total_bytes > 0 && folder.usable_bytes > 0, version >= 4);
        }
    }
}

#[test]
fn partitions_are_added() {
    let mut setup = setup();
    for (version, count) in setup.versions(37).zip(2..) {
        let assignment = CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(1)]);
        let wanted = CreatePartitionsTopic::default()
            .with_name(topic("t"))
            .with_count(count)
            .with_assignments((version % 2 == 0).then(|| vec![assignment]));
        let response =
            setup.client.call(version, &CreatePartitionsRequest::default().with_topics(vec![wanted]));
        assert_eq!(response.results[0].error_code, 0, "{:?}", response.results[0].error_message);
        assert_eq!(setup.topic_id().partitions.len() as i32, count);
    }
}

#[test]
fn reassignments() {
    let mut setup = setup();
    for version in setup.versions(45) {
        let to = |index, brokers: Option<&[i32]>| {
            let brokers = brokers.map(|ids| ids.iter().copied().map(BrokerId).collect());
            ReassignablePartition::default().with_partition_index(index).with_replicas(brokers)
        };
        let partitions = vec![to(0, Some(&[1])), to(0, Some(&[1, 2])), to(0, None), to(9, Some(&[1]))];
        let topics = ReassignableTopic::default().with_name(topic("t")).with_partitions(partitions);
        let response = setup
            .client
            .call(version, &AlterPartitionReassignmentsRequest::default().with_topics(vec![topics]));
        let codes: Vec<_> = response.responses[0].partitions.iter().map(|row| row.error_code).collect();
        assert_eq!((response.error_code, codes), (0, vec![0, 39, 85, 3]));
    }
    for version in setup.versions(46) {
        let named =
            ListPartitionReassignmentsTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
        for wanted in [None, Some(vec![named])] {
            let request = ListPartitionReassignmentsRequest::default().with_topics(wanted);
            let response = setup.client.call(version, &request);
            assert_eq!((response.error_code, response.topics.len()), (0, 0));
        }
    }
}

#[test]
fn clusters_and_pages_of_topics() {
    let mut setup = setup();
    for version in setup.versions(60) {
        let mut request = DescribeClusterRequest::default();
        let response = setup.client.call(version, &request);
        assert_eq!((response.error_code, response.brokers.len()), (0, 1));
        assert_eq!((response.controller_id, response.brokers[0].broker_id), (BrokerId(1), BrokerId(1)));
        assert!(response.cluster_id.starts_with("hone-"));
        assert_eq!(response.cluster_authorized_operations, i32::MIN);
        if version >= 1 {
            request.endpoint_type = 2;
            let response = setup.client.call(version, &request);
            assert_eq!((response.error_code, response.brokers.len()), (114, 0));
        }
    }
    for version in setup.versions(75) {
        let named = |name| TopicRequest::default().with_name(topic(name));
        let request =
            DescribeTopicPartitionsRequest::default().with_topics(vec![named("t"), named("missing")]);
        let response = setup.client.call(version, &request);
        let found: Vec<_> =
            response.topics.iter().map(|row| (row.error_code, row.partitions.len())).collect();
        assert_eq!(found, [(3, 0), (0, 1)], "sorted by name");
        assert_eq!(response.topics[1].partitions[0].eligible_leader_replicas, Some(vec![]));
        assert!(response.next_cursor.is_none());
    }
}

#[test]
fn groups_are_listed_described_and_deleted() {
    let mut setup = setup();
    let group = GroupId(text("g"));
    let (generation, member) = join(&mut setup.client, 5, &group);
    let plan =
        SyncGroupRequestAssignment::default().with_member_id(member.clone()).with_assignment("mine".into());
    let sync = SyncGroupRequest::default()
        .with_group_id(group.clone())
        .with_generation_id(generation)
        .with_member_id(member.clone())
        .with_assignments(vec![plan]);
    assert_eq!(setup.client.call(3, &sync).error_code, 0);
    for version in setup.versions(15) {
        let asked = vec![group.clone(), GroupId(text("missing"))];
        let response = setup.client.call(version, &DescribeGroupsRequest::default().with_groups(asked));
        let found = &response.groups[0];
        assert_eq!((found.error_code, found.group_state.as_str()), (0, "Stable"));
        assert_eq!((found.protocol_type.as_str(), found.protocol_data.as_str()), ("consumer", "range"));
        assert_eq!(
            (&found.members[0].client_id.as_str(), &found.members[0].client_host.as_str()),
            (&"test", &"/127.0.0.1")
        );
        assert_eq!(&found.members[0].member_metadata[..], b"meta");
        assert_eq!(&found.members[0].member_assignment[..], b"mine");
        let missing = &response.groups[1];
        let wanted = if version >= 6 { 69 } else { 0 };
        assert_eq!((missing.error_code, missing.group_state.as_str()), (wanted, "Dead"));
    }
    for version in setup.versions(16) {
        let mut list = |request: ListGroupsRequest| setup.client.call(version, &request).groups;
        let all = list(ListGroupsRequest::default());
        assert_eq!(
            (all.len(), all[0].group_id.as_str(), all[0].protocol_type.as_str()),
            (1, "g", "consumer")
        );
        if version >= 4 {
            assert_eq!(all[0].group_state.as_str(), "Stable");
            assert!(list(ListGroupsRequest::default().with_states_filter(vec![text("empty")])).is_empty());
            assert_eq!(list(ListGroupsRequest::default().with_states_filter(vec![text("STABLE")])).len(), 1);
        }
        if version >= 5 {
            assert_eq!(all[0].group_type.as_str(), "classic");
            assert!(list(ListGroupsRequest::default().with_types_filter(vec![text("Consumer")])).is_empty());
        }
    }
    let leave = LeaveGroupRequest::default().with_group_id(group.clone()).with_member_id(member);
    for version in setup.versions(42) {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group.clone()]);
        let mut delete = || setup.client.call(version, &request).results[0].error_code;
        if version == 0 {
            assert_eq!(delete(), 68, "it has a member");
            assert_eq!(setup.client.call(1, &leave).error_code, 0);
        } else {
            // A group that only stores offsets.
            commit_and_fetch(&mut setup.client, 2, &group, -1, &text(""));
        }
        let mut delete = || setup.client.call(version, &request).results[0].error_code;
        assert_eq!((delete(), delete()), (0, 69));
    }
}

#[test]
fn single_offsets_are_deleted() {
    let mut setup = setup();
    let group = GroupId(text("g"));
    let partition = OffsetDeleteRequestPartition::default().with_partition_index(0);
    let topics = OffsetDeleteRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = OffsetDeleteRequest::default().with_group_id(group.clone()).with_topics(vec![topics]);
    assert_eq!(setup.client.call(0, &request).error_code, 69);
    commit_and_fetch(&mut setup.client, 5, &group, -1, &text(""));
    let response = setup.client.call(0, &request);
    assert_eq!((response.error_code, response.topics[0].partitions[0].error_code), (0, 0));
    assert_eq!(setup.client.call(0, &request).error_code, 69, "it had committed nothing else");
}

#[test]
fn consumer_groups() {
    let mut setup = setup();
    for version in setup.versions(68) {
        let id = text(&format!("m{version}"));
        let group = GroupId(text(&format!("g{version}")));
        let mut beat = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group.clone())
            .with_member_id(if version == 0 { text("") } else { id.clone() })
            .with_rebalance_timeout_ms(1_000)
            .with_topic_partitions(Some(vec![]))
            .with_server_assignor(Some(text("range")));
        if version == 0 {
            beat.subscribed_topic_names = Some(vec![topic("t")]);
        } else {
            beat.subscribed_topic_regex = Some(text("[t]"));
        }
        let joined: ConsumerGroupHeartbeatResponse = setup.client.call(version, &beat);
        assert_eq!((joined.error_code, joined.member_epoch, joined.heartbeat_interval_ms), (0, 1, 5_000));
        let assignment = joined.assignment.unwrap().topic_partitions;
        assert_eq!((assignment.len(), &assignment[0].partitions), (1, &vec![0]));
        let member = joined.member_id.unwrap();
        assert!(version == 0 || member == id, "it named itself");
        let lives = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group.clone())
            .with_member_id(member.clone())
            .with_member_epoch(1);
        let beaten = setup.client.call(version, &lives);
        assert_eq!((beaten.error_code, beaten.member_epoch, beaten.assignment.is_none()), (0, 1, true));
        for describe_version in setup.versions(69) {
            let asked = vec![group.clone(), GroupId(text("missing"))];
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(asked);
            let response = setup.client.call(describe_version, &request);
            let found = &response.groups[0];
            assert_eq!((found.error_code, found.group_state.as_str(), found.group_epoch), (0, "Stable", 1));
            assert_eq!((found.assignor_name.as_str(), found.members.len()), ("range", 1));
            let described = &found.members[0];
            assert_eq!((&described.member_id, described.member_epoch), (&member, 1));
            assert_eq!(described.assignment, described.target_assignment);
            assert_eq!(described.assignment.topic_partitions[0].topic_name.as_str(), "t");
            assert_eq!(response.groups[1].error_code, 69);
        }
        let fenced = setup.client.call(version, &lives.clone().with_member_epoch(7));
        assert_eq!((fenced.error_code, fenced.member_id), (110, None));
        let left = setup.client.call(version, &lives.with_member_epoch(-1));
        assert_eq!((left.error_code, left.member_epoch), (0, -1));
    }
}
