//! Requests of every API as the foreign encoder's types: the rich and the poor ones, since an encoder takes fields only in
//! the versions that have them.

use std::fmt::Debug;
use std::str::FromStr;

use bytes::Bytes;
use hone_kafka::{BatchBuilder, Codec, batch as batches};
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
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
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Request, StrBytes};

use super::world::topic_stand_in;

/// A request and the key of its API.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    pub(super) key: i16,
    pub(super) kind: RequestKind,
}

/// Requests that belong together, each with the version to ask in.
pub(super) type Story = Vec<(i16, Sample)>;

const GROUP: &str = "g";
const MODERN_GROUP: &str = "h";
const TRANSACTION: &str = "x";
/// First id of a fresh broker.
const PRODUCER: i64 = 1000;
const TOPIC: &str = "t";
const TOPIC_RESOURCE: i8 = 2;

pub(super) fn sample<R: Request + Into<RequestKind>>(request: R) -> Sample {
    Sample { key: R::KEY, kind: request.into() }
}

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn topic() -> TopicName {
    TopicName(text(TOPIC))
}

/// The type is that of a crate which only the foreign encoder knows.
fn topic_id<Id: FromStr<Err: Debug>>() -> Id {
    let digits: String = topic_stand_in(TOPIC).iter().map(|byte| format!("{byte:02x}")).collect();
    digits.parse().expect("an id")
}

fn group() -> GroupId {
    GroupId(text(GROUP))
}

fn transaction() -> TransactionalId {
    TransactionalId(text(TRANSACTION))
}

/// The id that the first member of a fresh broker gets.
fn first_member(salt: u64) -> String {
    format!("f-{salt:016x}-1")
}

/// Three records.
pub(super) fn batch(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    builder.push(Some(b"key"), Some(b"{\"a\": 1}"), 1_000);
    builder.push(Some(b"key"), None, 1_001);
    builder.push(None, Some(&[7; 90]), 1_002);
    builder.build().expect("a batch")
}

fn transactional_batch() -> Vec<u8> {
    let mut bytes = batch(Codec::None);
    batches::set_producer(&mut bytes, PRODUCER, 0, 0).expect("a batch");
    bytes[22] |= 1 << 4;
    super::recovery::seal_batches(&mut bytes);
    bytes
}

/// Every API, in every version of it at least once.
pub(super) fn all(salt: u64) -> Vec<Sample> {
    [data(), groups(&first_member(salt)), modern_groups(), transactions(), administration(), security()]
        .concat()
}

fn produce(acks: i16, batch: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(0).with_records(Some(batch.into()));
    let topics = TopicProduceData::default().with_name(topic()).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1_000).with_topic_data(vec![topics])
}

fn by_id(mut request: ProduceRequest) -> ProduceRequest {
    for data in &mut request.topic_data {
        (data.name, data.topic_id) = (TopicName::default(), topic_id());
    }
    request
}

fn fetch(max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default().with_partition_max_bytes(8 << 20);
    let topics = FetchTopic::default().with_topic(topic()).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_topics(vec![topics])
}

fn data() -> Vec<Sample> {
    let mut fetch_by_id = fetch(0);
    for asked in &mut fetch_by_id.topics {
        (asked.topic, asked.topic_id) = (TopicName::default(), topic_id());
    }
    let named = MetadataRequestTopic::default().with_name(Some(topic()));
    let numbered = MetadataRequestTopic::default().with_name(None).with_topic_id(topic_id());
    let offsets = |timestamp| {
        let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
        let asked = ListOffsetsTopic::default().with_name(topic()).with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_topics(vec![asked])
    };
    let epochs = OffsetForLeaderTopic::default()
        .with_topic(topic())
        .with_partitions(vec![OffsetForLeaderPartition::default()]);
    let mut produced: Vec<_> =
        Codec::ALL.into_iter().map(|codec| sample(produce(-1, batch(codec)))).collect();
    produced.push(sample(by_id(produce(1, batch(Codec::Zstd)))));
    produced.push(sample(produce(0, batch(Codec::None))));
    let others = vec![
        sample(fetch(0)),
        sample(fetch(500)),
        sample(fetch_by_id),
        sample(offsets(-1)),
        sample(offsets(1_000)),
        sample(offsets(-3).with_isolation_level(1)),
        sample(MetadataRequest::default().with_topics(Some(vec![named.clone()]))),
        sample(MetadataRequest::default().with_topics(None)),
        sample(MetadataRequest::default().with_topics(Some(vec![named, numbered]))),
        sample(ApiVersionsRequest::default()),
        sample(ApiVersionsRequest::default().with_client_software_name(text("x"))),
        sample(OffsetForLeaderEpochRequest::default().with_topics(vec![epochs])),
    ];
    [produced, others].concat()
}

fn join(member: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default()
        .with_name(text("range"))
        .with_metadata(Bytes::from_static(b"\0\x01\0\0\0\x01\0\x01t\xff\xff\xff\xff"));
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(9_000)
        .with_rebalance_timeout_ms(9_000)
        .with_member_id(text(member))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

/// Comes in without a name.
pub(super) fn first_join() -> Sample {
    sample(join(""))
}

fn sync(member: &str) -> SyncGroupRequest {
    let plan = SyncGroupRequestAssignment::default()
        .with_member_id(text(member))
        .with_assignment(Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\xff\xff\xff\xff"));
    SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(1)
        .with_member_id(text(member))
        .with_assignments(vec![plan])
}

fn commit(member: &str, generation: i32) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(2)
        .with_committed_metadata(Some(text("note")));
    let topics = OffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member))
        .with_topics(vec![topics])
}

fn heartbeat(member: &str) -> HeartbeatRequest {
    HeartbeatRequest::default().with_group_id(group()).with_generation_id(1).with_member_id(text(member))
}

fn groups(member: &str) -> Vec<Sample> {
    let of_topic = OffsetFetchRequestTopic::default().with_name(topic()).with_partition_indexes(vec![0, 1]);
    let of_topics = OffsetFetchRequestTopics::default().with_name(topic()).with_partition_indexes(vec![0, 1]);
    let fetch_group = OffsetFetchRequestGroup::default().with_group_id(group());
    let leaver = MemberIdentity::default().with_member_id(text(member));
    let deleted = OffsetDeleteRequestTopic::default()
        .with_name(topic())
        .with_partitions(vec![OffsetDeleteRequestPartition::default()]);
    vec![
        first_join(),
        sample(join(member)),
        sample(join("").with_group_instance_id(Some(text("static")))),
        sample(sync(member)),
        sample(
            sync(member).with_protocol_type(Some(text("consumer"))).with_protocol_name(Some(text("range"))),
        ),
        sample(heartbeat(member)),
        sample(LeaveGroupRequest::default().with_group_id(group()).with_member_id(text(member))),
        sample(LeaveGroupRequest::default().with_group_id(group()).with_members(vec![leaver])),
        sample(commit(member, 1)),
        sample(commit("", -1)),
        sample(OffsetFetchRequest::default().with_group_id(group()).with_topics(Some(vec![of_topic]))),
        sample(OffsetFetchRequest::default().with_group_id(group()).with_topics(None)),
        sample(OffsetFetchRequest::default().with_groups(vec![
            fetch_group.clone().with_topics(Some(vec![of_topics])),
            fetch_group.with_topics(None),
        ])),
        sample(FindCoordinatorRequest::default().with_key(text(GROUP))),
        sample(FindCoordinatorRequest::default().with_coordinator_keys(vec![text(GROUP), text("")])),
        sample(DescribeGroupsRequest::default().with_groups(vec![group()])),
        sample(
            DescribeGroupsRequest::default()
                .with_groups(vec![group()])
                .with_include_authorized_operations(true),
        ),
        sample(ListGroupsRequest::default()),
        sample(ListGroupsRequest::default().with_states_filter(vec![text("Stable"), text("empty")])),
        sample(ListGroupsRequest::default().with_types_filter(vec![text("classic")])),
        sample(DeleteGroupsRequest::default().with_groups_names(vec![group()])),
        sample(OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![deleted])),
    ]
}

fn modern_heartbeat(epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(MODERN_GROUP)))
        .with_member_id(text("m"))
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(1_000)
        .with_subscribed_topic_names(Some(vec![topic()]))
        .with_topic_partitions(Some(vec![]))
}

fn modern_groups() -> Vec<Sample> {
    let owned = TopicPartitions::default().with_topic_id(topic_id()).with_partitions(vec![0, 1]);
    vec![
        sample(modern_heartbeat(0)),
        sample(modern_heartbeat(1).with_topic_partitions(Some(vec![owned]))),
        sample(modern_heartbeat(0).with_subscribed_topic_regex(Some(text("^[t-v]$")))),
        sample(modern_heartbeat(-1)),
        sample(ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text(MODERN_GROUP))])),
    ]
}

fn claim() -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(transaction()))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

fn txn_partitions() -> AddPartitionsToTxnRequest {
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(transaction())
        .with_v3_and_below_producer_id(ProducerId(PRODUCER))
        .with_v3_and_below_producer_epoch(0)
        .with_v3_and_below_topics(vec![txn_topic()])
}

fn txn_topic() -> AddPartitionsToTxnTopic {
    AddPartitionsToTxnTopic::default().with_name(topic()).with_partitions(vec![0, 1])
}

fn txn_group() -> AddOffsetsToTxnRequest {
    AddOffsetsToTxnRequest::default()
        .with_transactional_id(transaction())
        .with_producer_id(ProducerId(PRODUCER))
        .with_producer_epoch(0)
        .with_group_id(group())
}

fn txn_offsets() -> TxnOffsetCommitRequest {
    let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(1);
    let topics = TxnOffsetCommitRequestTopic::default().with_name(topic()).with_partitions(vec![partition]);
    TxnOffsetCommitRequest::default()
        .with_transactional_id(transaction())
        .with_group_id(group())
        .with_producer_id(ProducerId(PRODUCER))
        .with_producer_epoch(0)
        .with_topics(vec![topics])
}

fn txn_end(committed: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(transaction())
        .with_producer_id(ProducerId(PRODUCER))
        .with_producer_epoch(0)
        .with_committed(committed)
}

fn txn_marker(committed: bool) -> WritableTxnMarker {
    let topics = WritableTxnMarkerTopic::default().with_name(topic()).with_partition_indexes(vec![0, 1]);
    WritableTxnMarker::default()
        .with_producer_id(ProducerId(PRODUCER))
        .with_transaction_result(committed)
        .with_topics(vec![topics])
}

fn transactions() -> Vec<Sample> {
    let many = AddPartitionsToTxnTransaction::default()
        .with_transactional_id(transaction())
        .with_producer_id(ProducerId(PRODUCER))
        .with_topics(vec![txn_topic()]);
    let producers = ProducersOf::default().with_name(topic()).with_partition_indexes(vec![0]);
    vec![
        sample(InitProducerIdRequest::default().with_transactional_id(None)),
        sample(claim()),
        sample(claim().with_producer_id(ProducerId(PRODUCER)).with_producer_epoch(0)),
        sample(txn_partitions()),
        sample(AddPartitionsToTxnRequest::default().with_transactions(vec![many.clone(), many])),
        sample(txn_group()),
        sample(txn_offsets()),
        sample(txn_offsets().with_member_id(text("m")).with_generation_id(1)),
        sample(txn_end(true)),
        sample(txn_end(false)),
        sample(WriteTxnMarkersRequest::default().with_markers(vec![txn_marker(true), txn_marker(false)])),
        sample(DescribeProducersRequest::default().with_topics(vec![producers])),
        sample(DescribeTransactionsRequest::default().with_transactional_ids(vec![transaction()])),
        sample(ListTransactionsRequest::default()),
        sample(ListTransactionsRequest::default().with_state_filters(vec![text("Ongoing")])),
        sample(ListTransactionsRequest::default().with_duration_filter(1)),
        sample(ListTransactionsRequest::default().with_transactional_id_pattern(Some(text("x.*")))),
    ]
}

fn create(configs: &[(&str, &str)]) -> CreateTopicsRequest {
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let wanted = CreatableTopic::default()
        .with_name(TopicName(text("made")))
        .with_num_partitions(2)
        .with_replication_factor(1)
        .with_configs(configs.iter().map(config).collect());
    CreateTopicsRequest::default().with_topics(vec![wanted]).with_timeout_ms(1_000)
}

fn delete_records() -> DeleteRecordsRequest {
    let partition = DeleteRecordsPartition::default().with_offset(-1);
    let asked = DeleteRecordsTopic::default().with_name(topic()).with_partitions(vec![partition]);
    DeleteRecordsRequest::default().with_topics(vec![asked])
}

fn alter(name: &str, operation: i8, value: &str) -> IncrementalAlterConfigsRequest {
    use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
    let change = AlterableConfig::default()
        .with_name(text(name))
        .with_config_operation(operation)
        .with_value(Some(text(value)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(TOPIC_RESOURCE)
        .with_resource_name(text(TOPIC))
        .with_configs(vec![change]);
    IncrementalAlterConfigsRequest::default().with_resources(vec![resource])
}

fn administration() -> Vec<Sample> {
    let legacy = alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(TOPIC_RESOURCE)
        .with_resource_name(text(TOPIC))
        .with_configs(vec![
            alter_configs_request::AlterableConfig::default()
                .with_name(text("retention.ms"))
                .with_value(Some(text("1000"))),
        ]);
    let asked = |resource_type, name: &str| {
        DescribeConfigsResource::default().with_resource_type(resource_type).with_resource_name(text(name))
    };
    let grow = CreatePartitionsTopic::default().with_name(topic()).with_count(3);
    let move_to = ReassignableTopic::default()
        .with_name(topic())
        .with_partitions(vec![ReassignablePartition::default().with_replicas(Some(vec![BrokerId(1)]))]);
    let page = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![TopicRequest::default().with_name(topic())])
        .with_response_partition_limit(1);
    let cursor = Cursor::default().with_topic_name(topic()).with_partition_index(1);
    let logs = DescribableLogDirTopic::default().with_topic(topic()).with_partitions(vec![0, 1]);
    let gone = DeleteTopicState::default().with_name(Some(topic()));
    let gone_by_id = DeleteTopicState::default().with_name(None).with_topic_id(topic_id());
    vec![
        sample(create(&[])),
        sample(create(&[("compression.type", "lz4"), ("cleanup.policy", "compact,delete")])),
        sample(create(&[("hone.value.schema", "{\"type\": \"object\"}")]).with_validate_only(true)),
        sample(DeleteTopicsRequest::default().with_topic_names(vec![topic()])),
        sample(DeleteTopicsRequest::default().with_topics(vec![gone, gone_by_id])),
        sample(delete_records()),
        sample(
            DescribeConfigsRequest::default()
                .with_resources(vec![asked(TOPIC_RESOURCE, TOPIC), asked(4, "1")]),
        ),
        sample(
            DescribeConfigsRequest::default()
                .with_resources(vec![asked(TOPIC_RESOURCE, TOPIC)])
                .with_include_synonyms(true)
                .with_include_documentation(true),
        ),
        sample(AlterConfigsRequest::default().with_resources(vec![legacy])),
        sample(alter("cleanup.policy", 2, "compact")),
        sample(alter("segment.bytes", 0, "1048576")),
        sample(alter("retention.ms", 1, "")),
        sample(CreatePartitionsRequest::default().with_topics(vec![grow])),
        sample(DescribeLogDirsRequest::default().with_topics(None)),
        sample(DescribeLogDirsRequest::default().with_topics(Some(vec![logs]))),
        sample(AlterPartitionReassignmentsRequest::default().with_topics(vec![move_to])),
        sample(ListPartitionReassignmentsRequest::default().with_topics(None)),
        sample(DescribeClusterRequest::default()),
        sample(DescribeClusterRequest::default().with_include_cluster_authorized_operations(true)),
        sample(page.clone()),
        sample(page.with_cursor(Some(cursor))),
    ]
}

fn create_rule() -> CreateAclsRequest {
    let rule = AclCreation::default()
        .with_resource_type(TOPIC_RESOURCE)
        .with_resource_name(text(TOPIC))
        .with_resource_pattern_type(3)
        .with_principal(text("User:somebody"))
        .with_host(text("*"))
        .with_operation(3)
        .with_permission_type(3);
    CreateAclsRequest::default().with_creations(vec![rule])
}

fn quotas(validate_only: bool) -> AlterClientQuotasRequest {
    let entity = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("nobody")));
    let op = OpData::default().with_key(text("producer_byte_rate")).with_value(1e6);
    let quota = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
    AlterClientQuotasRequest::default().with_entries(vec![quota]).with_validate_only(validate_only)
}

fn upsert() -> AlterUserScramCredentialsRequest {
    let upsertion = ScramCredentialUpsertion::default()
        .with_name(text("new"))
        .with_mechanism(1)
        .with_iterations(4_096)
        .with_salt(Bytes::from_static(b"salt"))
        .with_salted_password(Bytes::from_static(&[7; 32]));
    AlterUserScramCredentialsRequest::default().with_upsertions(vec![upsertion])
}

fn security() -> Vec<Sample> {
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(1)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(1)
        .with_operation(1)
        .with_permission_type(1);
    let component = ComponentData::default().with_entity_type(text("user")).with_match_type(2);
    let deletion = ScramCredentialDeletion::default().with_name(text("new")).with_mechanism(1);
    vec![
        sample(SaslHandshakeRequest::default().with_mechanism(text("PLAIN"))),
        sample(SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from_static(b"n,,n=user,r=x"))),
        sample(
            DescribeAclsRequest::default()
                .with_resource_type_filter(TOPIC_RESOURCE)
                .with_resource_name_filter(Some(text(TOPIC)))
                .with_pattern_type_filter(2)
                .with_operation(1)
                .with_permission_type(1),
        ),
        sample(DescribeAclsRequest::default()),
        sample(create_rule()),
        sample(DeleteAclsRequest::default().with_filters(vec![filter])),
        sample(DescribeClientQuotasRequest::default().with_components(vec![component])),
        sample(quotas(false)),
        sample(quotas(true)),
        sample(DescribeUserScramCredentialsRequest::default().with_users(None)),
        sample(
            DescribeUserScramCredentialsRequest::default()
                .with_users(Some(vec![UserName::default().with_name(text("new"))])),
        ),
        sample(upsert()),
        sample(upsert().with_deletions(vec![deletion])),
    ]
}

/// Requests that need each other.
pub(super) fn stories(salt: u64) -> Vec<(&'static str, Story)> {
    let member = first_member(salt);
    vec![
        (
            "story-data",
            vec![
                (3, sample(ApiVersionsRequest::default())),
                (1, sample(MetadataRequest::default().with_topics(None))),
                (8, sample(produce(-1, batch(Codec::Lz4)))),
                (9, sample(produce(1, batch(Codec::None)))),
                (7, sample(produce(0, batch(Codec::Gzip)))),
                (11, sample(fetch(0))),
                (1, sample(delete_records())),
                (11, sample(fetch(0))),
            ],
        ),
        (
            "story-group",
            vec![
                (3, first_join()),
                (2, sample(sync(&member))),
                (2, sample(heartbeat(&member))),
                (7, sample(commit(&member, 1))),
                (7, sample(OffsetFetchRequest::default().with_group_id(group()).with_topics(None))),
                (4, sample(DescribeGroupsRequest::default().with_groups(vec![group()]))),
                (3, sample(join(&member))),
                (
                    1,
                    sample(LeaveGroupRequest::default().with_group_id(group()).with_member_id(text(&member))),
                ),
                (1, sample(DeleteGroupsRequest::default().with_groups_names(vec![group()]))),
            ],
        ),
        (
            "story-modern-group",
            vec![
                (1, sample(modern_heartbeat(0))),
                (1, sample(modern_heartbeat(1))),
                (
                    1,
                    sample(
                        ConsumerGroupDescribeRequest::default()
                            .with_group_ids(vec![GroupId(text(MODERN_GROUP))]),
                    ),
                ),
                (5, sample(ListGroupsRequest::default())),
                (1, sample(modern_heartbeat(-1))),
            ],
        ),
        (
            "story-transaction",
            vec![
                (4, sample(claim())),
                (3, sample(txn_partitions())),
                (11, sample(produce(-1, transactional_batch()).with_transactional_id(Some(transaction())))),
                (3, sample(txn_group())),
                (
                    0,
                    sample(DescribeProducersRequest::default().with_topics(vec![
                        ProducersOf::default().with_name(topic()).with_partition_indexes(vec![0]),
                    ])),
                ),
                (12, sample(fetch(0).with_isolation_level(1))),
                (4, sample(txn_end(false))),
                (12, sample(fetch(0).with_isolation_level(1))),
                (0, sample(ListTransactionsRequest::default())),
            ],
        ),
        (
            "story-topics",
            vec![
                (5, sample(create(&[("compression.type", "zstd")]))),
                (1, sample(alter("cleanup.policy", 2, "compact"))),
                (1, sample(alter("message.timestamp.type", 0, "LogAppendTime"))),
                (8, sample(produce(-1, batch(Codec::Snappy)))),
                (5, sample(DeleteTopicsRequest::default().with_topic_names(vec![topic()]))),
                (8, sample(produce(-1, batch(Codec::Snappy)))),
            ],
        ),
    ]
}

/// What leaves something in every file of a broker.
pub(super) fn filling() -> Story {
    vec![
        (5, sample(create(&[("compression.type", "lz4"), ("retention.ms", "1000000")]))),
        (
            1,
            sample(
                MetadataRequest::default()
                    .with_topics(Some(vec![MetadataRequestTopic::default().with_name(Some(topic()))])),
            ),
        ),
        (1, sample(create_rule())),
        (1, sample(quotas(false))),
        (0, sample(upsert())),
        (8, sample(produce(-1, batch(Codec::Lz4)))),
        (4, sample(claim())),
        (3, sample(txn_partitions())),
        (11, sample(produce(-1, transactional_batch()).with_transactional_id(Some(transaction())))),
        (4, sample(txn_end(true))),
        (1, sample(modern_heartbeat(0))),
    ]
}

/// What a member does that has joined.
pub(super) fn membership(member: &str) -> Story {
    vec![(2, sample(sync(member))), (7, sample(commit(member, 1))), (2, sample(heartbeat(member)))]
}
