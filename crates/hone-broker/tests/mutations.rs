//! Damaged requests of every API: each may be answered or cost its connection, none may reach a panic or stop the broker.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use hone_kafka::Codec;
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::{
    CreatePartitionsAssignment, CreatePartitionsTopic,
};
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use proptest::prelude::*;
use support::*;

fn recorded() -> Vec<Vec<u8>> {
    fn in_versions<R: Request>(request: &R, versions: &[i16]) -> Vec<Vec<u8>> {
        versions.iter().map(|version| frame(*version, 1, request)).collect()
    }
    let group = GroupId(text("g"));
    let named = MetadataRequestTopic::default().with_name(Some(topic("t")));
    let fetch_group = OffsetFetchRequestGroup::default().with_group_id(group.clone()).with_topics(None);
    let name = TransactionalId(text("x"));
    let added = AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0, 1]);
    let many = AddPartitionsToTxnTransaction::default().with_topics(vec![added.clone()]);
    let ended = WritableTxnMarkerTopic::default().with_name(topic("t")).with_partition_indexes(vec![0, 1]);
    let marker = WritableTxnMarker::default().with_topics(vec![ended]);
    let add_partitions = AddPartitionsToTxnRequest::default().with_v3_and_below_topics(vec![added]);
    let offset = TxnOffsetCommitRequestPartition::default().with_committed_offset(3);
    let offsets = TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![offset]);
    let producers = ProducersOf::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let component = ComponentData::default().with_entity_type(text("user")).with_match_type(1);
    let entity = EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("nobody")));
    let op = OpData::default().with_key(text("producer_byte_rate")).with_value(1e6);
    let quota = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
    [
        in_versions(&produce_request("t", 0, batch(Codec::Lz4, &["a", "b"])), &[7, 9]),
        in_versions(&produce_request("v", 0, batch(Codec::Zstd, &["{}", "1"])), &[8]),
        in_versions(&fetch_request("t", 0, 0), &[4, 11, 12]),
        in_versions(&MetadataRequest::default().with_topics(Some(vec![named])), &[1, 12]),
        in_versions(&ListOffsetsRequest::default(), &[2, 7]),
        in_versions(&ApiVersionsRequest::default().with_client_software_name(text("x")), &[0, 3]),
        in_versions(&FindCoordinatorRequest::default().with_key(text("g")), &[0, 3]),
        in_versions(
            &JoinGroupRequest::default().with_group_id(group.clone()).with_session_timeout_ms(9_000),
            &[5, 6],
        ),
        in_versions(&SyncGroupRequest::default().with_group_id(group.clone()), &[3, 4]),
        in_versions(&HeartbeatRequest::default().with_group_id(group.clone()), &[3, 4]),
        in_versions(&LeaveGroupRequest::default().with_group_id(group.clone()), &[3, 4]),
        in_versions(&OffsetCommitRequest::default().with_group_id(group.clone()), &[7, 8]),
        in_versions(&OffsetFetchRequest::default().with_group_id(group.clone()).with_topics(None), &[5, 6]),
        in_versions(&DescribeGroupsRequest::default().with_groups(vec![group.clone()]), &[4, 5]),
        in_versions(&ListGroupsRequest::default(), &[2, 3]),
        in_versions(&ListGroupsRequest::default().with_states_filter(vec![text("empty")]), &[4]),
        in_versions(&DeleteGroupsRequest::default().with_groups_names(vec![group.clone()]), &[1, 2]),
        in_versions(&OffsetDeleteRequest::default().with_group_id(group.clone()), &[0]),
        in_versions(&consumer_heartbeat(group.clone()), &[0, 1]),
        in_versions(&ConsumerGroupDescribeRequest::default().with_group_ids(vec![group]), &[0, 1]),
        in_versions(&OffsetFetchRequest::default().with_groups(vec![fetch_group]), &[8]),
        in_versions(&InitProducerIdRequest::default(), &[1, 4]),
        in_versions(&InitProducerIdRequest::default().with_transactional_id(Some(name.clone())), &[1, 4]),
        in_versions(&add_partitions, &[0, 3]),
        in_versions(&AddPartitionsToTxnRequest::default().with_transactions(vec![many]), &[4, 5]),
        in_versions(&AddOffsetsToTxnRequest::default().with_transactional_id(name.clone()), &[2, 3]),
        in_versions(&EndTxnRequest::default().with_transactional_id(name.clone()), &[2, 5]),
        in_versions(&WriteTxnMarkersRequest::default().with_markers(vec![marker]), &[1]),
        in_versions(&TxnOffsetCommitRequest::default().with_topics(vec![offsets]), &[2, 5]),
        in_versions(&DescribeProducersRequest::default().with_topics(vec![producers]), &[0]),
        in_versions(&DescribeTransactionsRequest::default().with_transactional_ids(vec![name]), &[0]),
        in_versions(&ListTransactionsRequest::default().with_state_filters(vec![text("Empty")]), &[0, 2]),
        in_versions(&create_request("made", 2, &[("compression.type", "lz4")]), &[4, 7]),
        in_versions(&DeleteTopicsRequest::default().with_topic_names(vec![topic("made")]), &[1, 5]),
        in_versions(&DescribeConfigsRequest::default(), &[1, 4]),
        in_versions(&DescribeAclsRequest::default().with_resource_name_filter(Some(text("t"))), &[1, 2]),
        in_versions(&CreateAclsRequest::default().with_creations(vec![AclCreation::default()]), &[1, 2]),
        in_versions(&DeleteAclsRequest::default().with_filters(vec![DeleteAclsFilter::default()]), &[1, 2]),
        in_versions(&DescribeClientQuotasRequest::default().with_components(vec![component]), &[0, 1]),
        in_versions(
            &AlterClientQuotasRequest::default().with_entries(vec![quota]).with_validate_only(true),
            &[0, 1],
        ),
    ]
    .concat()
    .into_iter()
    .chain(administration())
    .collect()
}

fn administration() -> Vec<Vec<u8>> {
    let records = DeleteRecordsTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![DeleteRecordsPartition::default()]);
    let epochs = OffsetForLeaderTopic::default()
        .with_topic(topic("t"))
        .with_partitions(vec![OffsetForLeaderPartition::default()]);
    let alter = incremental_alter_configs_request::AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![
            incremental_alter_configs_request::AlterableConfig::default()
                .with_name(text("cleanup.policy"))
                .with_config_operation(2)
                .with_value(Some(text("compact"))),
        ]);
    let grow =
        CreatePartitionsTopic::default().with_name(topic("v")).with_count(2).with_assignments(Some(vec![
            CreatePartitionsAssignment::default().with_broker_ids(vec![BrokerId(1)]),
        ]));
    let move_to = ReassignableTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![ReassignablePartition::default().with_replicas(Some(vec![BrokerId(1)]))]);
    let page = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![TopicRequest::default().with_name(topic("t"))])
        .with_cursor(Some(Cursor::default().with_topic_name(topic("t"))));
    let legacy = AlterConfigsRequest::default().with_resources(vec![
        alter_configs_request::AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t")),
    ]);
    vec![
        frame(1, 1, &DeleteRecordsRequest::default().with_topics(vec![records.clone()])),
        frame(2, 1, &DeleteRecordsRequest::default().with_topics(vec![records])),
        frame(4, 1, &OffsetForLeaderEpochRequest::default().with_topics(vec![epochs])),
        frame(2, 1, &legacy),
        frame(1, 1, &IncrementalAlterConfigsRequest::default().with_resources(vec![alter])),
        frame(4, 1, &DescribeLogDirsRequest::default().with_topics(None)),
        frame(3, 1, &CreatePartitionsRequest::default().with_topics(vec![grow])),
        frame(1, 1, &AlterPartitionReassignmentsRequest::default().with_topics(vec![move_to])),
        frame(0, 1, &ListPartitionReassignmentsRequest::default().with_topics(None)),
        frame(2, 1, &DescribeClusterRequest::default()),
        frame(0, 1, &page),
    ]
}

fn consumer_heartbeat(group: GroupId) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group)
        .with_member_id(text("m"))
        .with_rebalance_timeout_ms(1_000)
        .with_subscribed_topic_names(Some(vec![topic("t")]))
        .with_topic_partitions(Some(vec![]))
}

/// Sends a body as one frame, hangs up and reads whatever comes.
fn send(address: SocketAddr, body: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    // The broker may have closed before everything was sent or the end said.
    let _ = stream.write_all(&frame);
    let _ = stream.shutdown(Shutdown::Write);
    let ended = stream.read_to_end(&mut Vec::new());
    let timed_out = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    assert!(!timed_out, "the broker neither answered nor closed");
}

fn check_healthy(broker: &hone_broker::Broker) {
    let metrics = broker.metrics_addr().unwrap();
    for shard in 0..2 {
        assert_eq!(metric(metrics, &format!("hone_broker_handler_failures_total{{shard=\"{shard}\"}}")), 0.0);
    }
    let mut client = Client::connect(broker.kafka_addr());
    let served: Vec<ApiVersion> = client.call(0, &ApiVersionsRequest::default()).api_keys;
    assert!(served.iter().any(|api| api.api_key == 18));
}

fn prepared(folder: &std::path::Path) -> hone_broker::Broker {
    // Whoever connects is a super user, so that the access control lists are reached.
    let broker = broker_with(folder, |settings| {
        settings.authorize = true;
        settings.super_users = vec!["User:ANONYMOUS".to_owned()];
    });
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    create(&mut client, "v", &[("hone.value.schema", "{}"), ("compression.type", "none")]);
    broker
}

#[test]
fn every_byte_of_every_request_flipped_and_every_truncation() {
    let folder = tempfile::tempdir().unwrap();
    let broker = prepared(folder.path());
    for whole in recorded() {
        let body = &whole[4..];
        for position in 0..body.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut damaged = body.to_vec();
                damaged[position] ^= flip;
                send(broker.kafka_addr(), &damaged);
            }
            send(broker.kafka_addr(), &body[..position]);
        }
    }
    check_healthy(&broker);
    broker.stop().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn requests_with_random_stretches(seeds in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<[u8; 6]>()), 200)) {
        let folder = tempfile::tempdir().unwrap();
        let broker = prepared(folder.path());
        let recorded = recorded();
        for (which, at, noise) in seeds {
            let mut body = recorded[which % recorded.len()][4..].to_vec();
            let at = at % body.len();
            for (byte, noise) in body.iter_mut().skip(at).zip(noise) {
                *byte = noise;
            }
            send(broker.kafka_addr(), &body);
        }
        check_healthy(&broker);
        broker.stop().unwrap();
    }
}
