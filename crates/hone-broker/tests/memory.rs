//! A broker in memory: all that a broker does, and not a byte on any disk.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use hone_broker::{Broker, Settings};
use hone_kafka::{BatchHeader, Codec};
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::*;
use support::acl::*;
use support::*;

/// Files on a disk that this process has open.
fn open_files() -> BTreeSet<PathBuf> {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let targets = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    targets
        .filter(|target| target.is_absolute() && !target.starts_with("/proc") && !target.starts_with("/dev"))
        .filter(|target| !target.to_string_lossy().starts_with("/memfd:"))
        .collect()
}

fn start() -> Broker {
    let mut settings = Settings::in_memory();
    // No folder can be made there, by nobody.
    settings.data_dir = PathBuf::from("/proc/hone-broker/data");
    settings.threads = 2;
    settings.group_initial_delay_ms = 0;
    settings.housekeeping_ms = 20;
    settings.authorize = true;
    settings.super_users = vec![ANONYMOUS.to_owned()];
    Broker::start(settings).unwrap()
}

#[test]
fn nothing_touches_a_disk() {
    let before = open_files();
    let broker = start();
    let mut client = Client::connect(broker.kafka_addr());
    topics_and_records(&mut client);
    group(&mut client);
    transaction(&mut client);
    lists_quotas_and_users(&mut client);
    compaction(&mut client);
    assert_eq!(open_files(), before, "files that are open");
    let metrics = broker.metrics_addr().unwrap();
    let class = "hone_broker_topic_durability{namespace=\"kafka\",topic=\"t\",class=\"memory\"}";
    assert_eq!(metric(metrics, class), 1.0);
    broker.stop().unwrap();
    // Nothing outlives it.
    let broker = start();
    let mut client = Client::connect(broker.kafka_addr());
    assert!(client.call(12, &MetadataRequest::default().with_topics(None)).topics.is_empty());
    assert!(client.call(5, &ListGroupsRequest::default()).groups.is_empty());
    broker.stop().unwrap();
}

fn topics_and_records(client: &mut Client) {
    assert_eq!(create(client, "t", &[("retention.ms", "-1")]).0, 0);
    for (offset, value) in ["a", "b", "c"].iter().enumerate() {
        let produced = produce(client, "t", batch(Codec::Zstd, &[value]));
        assert_eq!((produced.error_code, produced.base_offset), (0, offset as i64));
    }
    // Large enough to be sent from the file.
    let large = "x".repeat(100_000);
    assert_eq!(produce(client, "t", batch(Codec::None, &[&large])).error_code, 0);
    assert_eq!(read_all(client, "t"), ["a", "b", "c", &large]);
    let partition = DeleteRecordsPartition::default().with_offset(3);
    let topics = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let deleted = client.call(2, &DeleteRecordsRequest::default().with_topics(vec![topics]));
    let deleted = &deleted.topics[0].partitions[0];
    assert_eq!((deleted.error_code, deleted.low_watermark), (0, 3));
    let grown = CreatePartitionsTopic::default().with_name(topic("t")).with_count(3).with_assignments(None);
    let grown = client.call(3, &CreatePartitionsRequest::default().with_topics(vec![grown]));
    assert_eq!(grown.results[0].error_code, 0);
    let config = AlterableConfig::default().with_name(text("write.caching")).with_value(Some(text("true")));
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let altered = client.call(1, &IncrementalAlterConfigsRequest::default().with_resources(vec![resource]));
    assert_eq!(altered.responses[0].error_code, 0);
    assert!(property(client, "hone.durability").contains("memory, lost when the broker stops"));
    assert_eq!(create(client, "doomed", &[]).0, 0);
    let doomed = DeleteTopicState::default().with_name(Some(topic("doomed")));
    let deleted = client.call(6, &DeleteTopicsRequest::default().with_topics(vec![doomed]));
    assert_eq!(deleted.responses[0].error_code, 0);
    let folders = client.call(4, &DescribeLogDirsRequest::default().with_topics(None)).results;
    assert_eq!((folders.len(), folders[0].log_dir.as_str()), (1, "memory"));
}

fn property(client: &mut Client, name: &str) -> String {
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configuration_keys(Some(vec![text(name)]));
    let described = client.call(4, &DescribeConfigsRequest::default().with_resources(vec![resource]));
    described.results[0].configs[0].value.as_deref().unwrap().to_owned()
}

fn group(client: &mut Client) {
    let group = GroupId(text("g"));
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata("meta".into());
    let join = JoinGroupRequest::default()
        .with_group_id(group.clone())
        .with_session_timeout_ms(10_000)
        .with_rebalance_timeout_ms(10_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let joined = client.call(3, &join);
    assert_eq!(joined.error_code, 0);
    let sync = SyncGroupRequest::default()
        .with_group_id(group.clone())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone());
    assert_eq!(client.call(3, &sync).error_code, 0);
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(4);
    let topics = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(group)
        .with_generation_id_or_member_epoch(joined.generation_id)
        .with_member_id(joined.member_id)
        .with_topics(vec![topics]);
    assert_eq!(client.call(7, &commit).topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(client, "g"), 4);
    let beat = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text("k")))
        .with_member_id(text("m"))
        .with_rebalance_timeout_ms(1_000)
        .with_subscribed_topic_names(Some(vec![topic("t")]))
        .with_topic_partitions(Some(vec![]));
    assert_eq!(client.call(1, &beat).error_code, 0);
}

fn committed(client: &mut Client, group: &str) -> i64 {
    let topics = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let asked =
        OffsetFetchRequest::default().with_group_id(GroupId(text(group))).with_topics(Some(vec![topics]));
    client.call(7, &asked).topics[0].partitions[0].committed_offset
}

fn transaction(client: &mut Client) {
    let name = TransactionalId(text("tx"));
    let init = InitProducerIdRequest::default()
        .with_transactional_id(Some(name.clone()))
        .with_transaction_timeout_ms(10_000);
    let given = client.call(4, &init);
    assert_eq!(given.error_code, 0);
    let (id, epoch) = (given.producer_id, given.producer_epoch);
    let topics = AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0]);
    let add = AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(name.clone())
        .with_v3_and_below_producer_id(id)
        .with_v3_and_below_producer_epoch(epoch)
        .with_v3_and_below_topics(vec![topics]);
    let added = client.call(3, &add).results_by_topic_v3_and_below;
    assert_eq!(added[0].results_by_partition[0].partition_error_code, 0);
    let mut records = batch(Codec::None, &["in a transaction"]);
    records[22] |= 0x10;
    hone_kafka::batch::set_producer(&mut records, id.0, epoch, 0).unwrap();
    assert!(BatchHeader::parse(&records).unwrap().is_transactional());
    let request = produce_request("t", 0, records).with_transactional_id(Some(name.clone()));
    assert_eq!(client.call(9, &request).responses[0].partition_responses[0].error_code, 0);
    let add = AddOffsetsToTxnRequest::default()
        .with_transactional_id(name.clone())
        .with_producer_id(id)
        .with_producer_epoch(epoch)
        .with_group_id(GroupId(text("h")));
    assert_eq!(client.call(3, &add).error_code, 0);
    let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(5);
    let topics =
        TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = TxnOffsetCommitRequest::default()
        .with_transactional_id(name.clone())
        .with_group_id(GroupId(text("h")))
        .with_producer_id(id)
        .with_producer_epoch(epoch)
        .with_generation_id(-1)
        .with_topics(vec![topics]);
    assert_eq!(client.call(3, &commit).topics[0].partitions[0].error_code, 0);
    let committed_only = || fetch_request("t", 4, 0).with_isolation_level(1);
    let bytes = |client: &mut Client| {
        let fetched = client.call(11, &committed_only());
        fetched.responses[0].partitions[0].records.as_ref().map_or(0, |records| records.len())
    };
    assert_eq!((bytes(client), committed(client, "h")), (0, -1));
    let end = EndTxnRequest::default()
        .with_transactional_id(name)
        .with_producer_id(id)
        .with_producer_epoch(epoch)
        .with_committed(true);
    assert_eq!(client.call(3, &end).error_code, 0);
    let begun = Instant::now();
    while bytes(client) == 0 || committed(client, "h") != 5 {
        assert!(begun.elapsed() < PATIENCE, "a transaction that does not end");
    }
}

fn lists_quotas_and_users(client: &mut Client) {
    let rules = CreateAclsRequest::default().with_creations(vec![literal(TOPIC, "t", READ)]);
    assert_eq!(client.call(2, &rules).results[0].error_code, 0);
    let entity = EntityData::default().with_entity_type(text("client-id")).with_entity_name(Some(text("x")));
    let op = OpData::default().with_key(text("producer_byte_rate")).with_value(1e9);
    let entry = EntryData::default().with_entity(vec![entity]).with_ops(vec![op]);
    let quotas = AlterClientQuotasRequest::default().with_entries(vec![entry]);
    assert_eq!(client.call(1, &quotas).entries[0].error_code, 0);
    let user = ScramCredentialUpsertion::default()
        .with_name(text("alice"))
        .with_mechanism(1)
        .with_iterations(4_096)
        .with_salt(vec![7; 16].into())
        .with_salted_password(vec![7; 32].into());
    let users = AlterUserScramCredentialsRequest::default().with_upsertions(vec![user]);
    assert_eq!(client.call(0, &users).results[0].error_code, 0);
}

/// The keys of all batches are the same, so of the sealed segments one record stays.
fn compaction(client: &mut Client) {
    let properties = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "4096"),
        ("min.cleanable.dirty.ratio", "0"),
        ("retention.ms", "-1"),
    ];
    assert_eq!(create(client, "kept", &properties), (0, String::new()));
    let value = "x".repeat(2_000);
    for _ in 0..10 {
        assert_eq!(produce(client, "kept", batch(Codec::None, &[&value])).error_code, 0);
    }
    assert_ne!(records_in(client, "kept"), 0);
    let begun = Instant::now();
    // Left are one of the sealed segments, and those in the last one.
    while records_in(client, "kept") > 3 {
        assert!(begun.elapsed() < PATIENCE, "a log that is not compacted");
    }
}

/// Of partition 0, whatever offsets are missing.
fn records_in(client: &mut Client, name: &str) -> i32 {
    let (mut records, mut next) = (0, 0);
    loop {
        let set = fetch(client, name, next);
        if set.is_empty() {
            return records;
        }
        for batch in hone_kafka::batches(&set) {
            let header = batch.unwrap().header;
            records += header.record_count;
            next = header.last_offset() + 1;
        }
    }
}
