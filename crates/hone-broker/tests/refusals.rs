//! What clients without the right are told, by every API that is served, and what they are not told.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hone_kafka::Codec;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialDeletion;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_producers_request::TopicRequest as ProducersOf;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use support::acl::*;
use support::*;

const OF_TOPIC: i16 = 29;
const OF_GROUP: i16 = 30;
const OF_CLUSTER: i16 = 31;
const OF_TRANSACTION: i16 = 53;
/// Not a code of the protocol: no error, and nothing of what there is.
const HIDDEN: i16 = i16::MAX;

fn group() -> GroupId {
    GroupId(text("g"))
}

fn transaction() -> TransactionalId {
    TransactionalId(text("tx"))
}

fn commit(topics: &[&str]) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(1);
    let of = |name: &&str| {
        OffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(vec![partition.clone()])
    };
    OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.iter().map(of).collect())
}

fn describe_configs(kind: i8, name: &str) -> DescribeConfigsRequest {
    let resource = DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(name));
    DescribeConfigsRequest::default().with_resources(vec![resource])
}

/// A broker with these rules, a group `g` with an offset and a transactional id `tx`.
fn prepared(folder: &Path, rules: Vec<AclCreation>) -> (hone_broker::Broker, Client) {
    let broker = administered(folder);
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    create(&mut client, "u", &[]);
    let committed = client.call(7, &commit(&["t", "u"]));
    assert!(committed.topics.iter().all(|topic| topic.partitions[0].error_code == 0), "{committed:?}");
    let init = InitProducerIdRequest::default()
        .with_transactional_id(Some(transaction()))
        .with_transaction_timeout_ms(1_000);
    assert_eq!(client.call(4, &init).error_code, 0);
    broker.stop().unwrap();
    prepare(folder, rules);
    let broker = guarded(folder);
    let client = Client::connect(broker.kafka_addr());
    (broker, client)
}

/// The table at the head of `acl.rs`: names of APIs, and whether they ask for nothing.
fn table() -> BTreeMap<String, bool> {
    let source = include_str!("../src/security/acl.rs");
    let rows = source.lines().filter_map(|line| line.strip_prefix("//! | ")).skip(1);
    let cells = rows.map(|row| row.trim_end_matches(" |").split_once(" | ").unwrap());
    cells
        .flat_map(|(names, asked)| {
            names.split(", ").map(move |name| (name.to_owned(), asked.starts_with("none")))
        })
        .collect()
}

fn served(client: &mut Client) -> Vec<ApiKey> {
    let keys = client.call(3, &ApiVersionsRequest::default()).api_keys;
    keys.iter().map(|api| ApiKey::try_from(api.api_key).unwrap()).collect()
}

#[test]
fn every_api_is_in_the_table_of_rules() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let served = served(&mut Client::connect(broker.kafka_addr()));
    let names: BTreeSet<_> = served.iter().map(|api| format!("{api:?}")).collect();
    assert_eq!(names, table().into_keys().collect(), "left: served; right: the table in security/acl.rs");
    broker.stop().unwrap();
}

#[test]
fn every_api_refuses_a_client_without_any_rule() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, mut client) = prepared(folder.path(), vec![]);
    let table = table();
    for api in served(&mut client) {
        let answered = of_records(&mut client, api)
            .or_else(|| of_groups(&mut client, api))
            .or_else(|| of_topics(&mut client, api))
            .or_else(|| of_transactions(&mut client, api))
            .or_else(|| of_cluster(&mut client, api));
        if table[&format!("{api:?}")] {
            assert_eq!(answered, None, "{api:?} needs no right");
        } else {
            let (wanted, answered) =
                answered.unwrap_or_else(|| panic!("no refusal by {api:?} is looked for here"));
            assert_eq!(answered, wanted, "{api:?}");
        }
    }
    broker.stop().unwrap();
}

/// The error that is wanted and the one that is answered, for APIs of records.
fn of_records(client: &mut Client, api: ApiKey) -> Option<(i16, i16)> {
    let answered = match api {
        ApiKey::Produce => produce(client, "t", batch(Codec::None, &["x"])).error_code,
        ApiKey::Fetch => client.call(11, &fetch_request("t", 0, 0)).responses[0].partitions[0].error_code,
        ApiKey::ListOffsets => {
            let partition = ListOffsetsPartition::default().with_timestamp(-1);
            let topics = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = ListOffsetsRequest::default().with_topics(vec![topics]);
            client.call(7, &request).topics[0].partitions[0].error_code
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_offset(-1);
            let topics = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default().with_topics(vec![topics]);
            client.call(2, &request).topics[0].partitions[0].error_code
        }
        ApiKey::OffsetForLeaderEpoch => {
            let partition = OffsetForLeaderPartition::default();
            let topics =
                OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(vec![partition]);
            let request = OffsetForLeaderEpochRequest::default().with_topics(vec![topics]);
            client.call(4, &request).topics[0].partitions[0].error_code
        }
        ApiKey::DescribeProducers => {
            let topics = ProducersOf::default().with_name(topic("t")).with_partition_indexes(vec![0]);
            let request = DescribeProducersRequest::default().with_topics(vec![topics]);
            client.call(0, &request).topics[0].partitions[0].error_code
        }
        _ => return None,
    };
    Some((OF_TOPIC, answered))
}

fn of_groups(client: &mut Client, api: ApiKey) -> Option<(i16, i16)> {
    let mut wanted = OF_GROUP;
    let answered = match api {
        ApiKey::OffsetCommit => client.call(7, &commit(&["t"])).topics[0].partitions[0].error_code,
        ApiKey::OffsetFetch => {
            let topics =
                OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
            let request =
                OffsetFetchRequest::default().with_group_id(group()).with_topics(Some(vec![topics]));
            let oldest = client.call(1, &request).topics[0].partitions[0].error_code;
            assert_eq!(oldest, client.call(7, &request).error_code);
            oldest
        }
        ApiKey::FindCoordinator => {
            client.call(3, &FindCoordinatorRequest::default().with_key(text("g"))).error_code
        }
        ApiKey::JoinGroup => {
            let join =
                JoinGroupRequest::default().with_group_id(group()).with_protocol_type(text("consumer"));
            client.call(5, &join).error_code
        }
        ApiKey::SyncGroup => client.call(3, &SyncGroupRequest::default().with_group_id(group())).error_code,
        ApiKey::Heartbeat => client.call(3, &HeartbeatRequest::default().with_group_id(group())).error_code,
        ApiKey::LeaveGroup => {
            let leave = LeaveGroupRequest::default().with_group_id(group());
            assert_eq!(client.call(2, &leave).error_code, wanted);
            client.call(5, &leave).error_code
        }
        ApiKey::DescribeGroups => {
            let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
            let found = client.call(6, &request).groups[0].clone();
            assert_eq!(found.group_state.as_str(), "");
            found.error_code
        }
        ApiKey::ListGroups => {
            wanted = HIDDEN;
            let found = client.call(5, &ListGroupsRequest::default());
            if found.groups.is_empty() && found.error_code == 0 { HIDDEN } else { found.error_code }
        }
        ApiKey::DeleteGroups => {
            let request = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
            client.call(2, &request).results[0].error_code
        }
        ApiKey::OffsetDelete => {
            let request = OffsetDeleteRequest::default().with_group_id(group());
            client.call(0, &request).error_code
        }
        ApiKey::ConsumerGroupHeartbeat => {
            let beat = ConsumerGroupHeartbeatRequest::default().with_group_id(group());
            client.call(1, &beat).error_code
        }
        ApiKey::ConsumerGroupDescribe => {
            let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
            client.call(1, &request).groups[0].error_code
        }
        _ => return None,
    };
    Some((wanted, answered))
}

fn of_topics(client: &mut Client, api: ApiKey) -> Option<(i16, i16)> {
    let answered = match api {
        ApiKey::Metadata => {
            let named = MetadataRequestTopic::default().with_name(Some(topic("t")));
            let request = MetadataRequest::default().with_topics(Some(vec![named]));
            client.call(12, &request).topics[0].error_code
        }
        ApiKey::CreateTopics => create(client, "new", &[]).0,
        ApiKey::DeleteTopics => {
            let doomed = DeleteTopicState::default().with_name(Some(topic("t")));
            let request = DeleteTopicsRequest::default().with_topics(vec![doomed]);
            client.call(6, &request).responses[0].error_code
        }
        ApiKey::CreatePartitions => {
            let wanted = CreatePartitionsTopic::default().with_name(topic("t")).with_count(2);
            let request = CreatePartitionsRequest::default().with_topics(vec![wanted]);
            client.call(3, &request).results[0].error_code
        }
        ApiKey::DescribeTopicPartitions => {
            let named = TopicRequest::default().with_name(topic("t"));
            let request = DescribeTopicPartitionsRequest::default().with_topics(vec![named]);
            client.call(0, &request).topics[0].error_code
        }
        ApiKey::DescribeConfigs => {
            let broker = client.call(4, &describe_configs(4, "1")).results[0].error_code;
            assert_eq!(broker, OF_CLUSTER);
            client.call(4, &describe_configs(2, "t")).results[0].error_code
        }
        ApiKey::AlterConfigs => {
            let mut alter = |kind, name| {
                let resource = alter_configs_request::AlterConfigsResource::default()
                    .with_resource_type(kind)
                    .with_resource_name(text(name));
                let request = AlterConfigsRequest::default().with_resources(vec![resource]);
                client.call(2, &request).responses[0].error_code
            };
            assert_eq!(alter(4, ""), OF_CLUSTER);
            alter(2, "t")
        }
        ApiKey::IncrementalAlterConfigs => {
            let mut alter = |kind, name| {
                let resource = incremental_alter_configs_request::AlterConfigsResource::default()
                    .with_resource_type(kind)
                    .with_resource_name(text(name));
                let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
                client.call(1, &request).responses[0].error_code
            };
            assert_eq!(alter(4, "1"), OF_CLUSTER);
            alter(2, "t")
        }
        _ => return None,
    };
    Some((OF_TOPIC, answered))
}

fn of_transactions(client: &mut Client, api: ApiKey) -> Option<(i16, i16)> {
    let mut wanted = OF_TRANSACTION;
    let answered = match api {
        ApiKey::InitProducerId => {
            let init = InitProducerIdRequest::default();
            assert_eq!(client.call(4, &init.clone().with_transactional_id(None)).error_code, OF_CLUSTER);
            client.call(4, &init.with_transactional_id(Some(transaction()))).error_code
        }
        ApiKey::AddPartitionsToTxn => {
            let topics =
                vec![AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0])];
            assert_eq!(client.call(5, &AddPartitionsToTxnRequest::default()).error_code, OF_CLUSTER);
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(transaction())
                .with_v3_and_below_topics(topics);
            let results = client.call(3, &request).results_by_topic_v3_and_below;
            results[0].results_by_partition[0].partition_error_code
        }
        ApiKey::AddOffsetsToTxn => {
            let request =
                AddOffsetsToTxnRequest::default().with_transactional_id(transaction()).with_group_id(group());
            client.call(4, &request).error_code
        }
        ApiKey::TxnOffsetCommit => {
            let partition = TxnOffsetCommitRequestPartition::default();
            let topics =
                TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(transaction())
                .with_group_id(group())
                .with_topics(vec![topics]);
            client.call(5, &request).topics[0].partitions[0].error_code
        }
        ApiKey::EndTxn => {
            client.call(5, &EndTxnRequest::default().with_transactional_id(transaction())).error_code
        }
        ApiKey::DescribeTransactions => {
            let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![transaction()]);
            client.call(0, &request).transaction_states[0].error_code
        }
        ApiKey::ListTransactions => {
            wanted = HIDDEN;
            let found = client.call(0, &ListTransactionsRequest::default());
            if found.transaction_states.is_empty() && found.error_code == 0 {
                HIDDEN
            } else {
                found.error_code
            }
        }
        _ => return None,
    };
    Some((wanted, answered))
}

fn of_cluster(client: &mut Client, api: ApiKey) -> Option<(i16, i16)> {
    let answered = match api {
        ApiKey::WriteTxnMarkers => {
            let topics =
                WritableTxnMarkerTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
            let marker = WritableTxnMarker::default().with_topics(vec![topics]);
            let request = WriteTxnMarkersRequest::default().with_markers(vec![marker]);
            client.call(1, &request).markers[0].topics[0].partitions[0].error_code
        }
        ApiKey::DescribeAcls => {
            client
                .call(
                    2,
                    &DescribeAclsRequest::default()
                        .with_resource_type_filter(ANY)
                        .with_pattern_type_filter(ANY)
                        .with_operation(ANY)
                        .with_permission_type(ANY),
                )
                .error_code
        }
        ApiKey::CreateAcls => {
            let rules = vec![literal(TOPIC, "other", READ)];
            client.call(2, &CreateAclsRequest::default().with_creations(rules)).results[0].error_code
        }
        ApiKey::DeleteAcls => {
            let filter = delete_acls_request::DeleteAclsFilter::default();
            let request = DeleteAclsRequest::default().with_filters(vec![filter]);
            client.call(2, &request).filter_results[0].error_code
        }
        ApiKey::DescribeLogDirs => {
            let found = client.call(4, &DescribeLogDirsRequest::default().with_topics(None));
            assert!(found.results.is_empty());
            found.error_code
        }
        ApiKey::AlterPartitionReassignments => {
            let topics = ReassignableTopic::default()
                .with_name(topic("t"))
                .with_partitions(vec![ReassignablePartition::default()]);
            let request = AlterPartitionReassignmentsRequest::default().with_topics(vec![topics]);
            let answered = client.call(1, &request);
            assert_eq!(answered.responses[0].partitions[0].error_code, OF_CLUSTER);
            answered.error_code
        }
        ApiKey::ListPartitionReassignments => {
            client.call(0, &ListPartitionReassignmentsRequest::default().with_topics(None)).error_code
        }
        ApiKey::DescribeClientQuotas => client.call(1, &DescribeClientQuotasRequest::default()).error_code,
        ApiKey::AlterClientQuotas => {
            let entry = alter_client_quotas_request::EntryData::default();
            let request = AlterClientQuotasRequest::default().with_entries(vec![entry]);
            client.call(1, &request).entries[0].error_code
        }
        ApiKey::DescribeUserScramCredentials => {
            let request = DescribeUserScramCredentialsRequest::default().with_users(None);
            client.call(0, &request).error_code
        }
        ApiKey::AlterUserScramCredentials => {
            let doomed = ScramCredentialDeletion::default().with_name(text("alice")).with_mechanism(1);
            let request =
                AlterUserScramCredentialsRequest::default().with_deletions(vec![doomed.clone(), doomed]);
            let results = client.call(0, &request).results;
            assert_eq!(results.len(), 1, "each user once");
            results[0].error_code
        }
        _ => return None,
    };
    Some((OF_CLUSTER, answered))
}

#[test]
fn what_a_client_may_do_is_told_where_it_asks() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![
        literal(TOPIC, "t", WRITE),
        literal(GROUP, "g", DELETE),
        literal(CLUSTER, "kafka-cluster", ALTER),
    ];
    let (broker, mut client) = prepared(folder.path(), rules);
    let of_group =
        DescribeGroupsRequest::default().with_groups(vec![group()]).with_include_authorized_operations(true);
    for version in 3..=6 {
        assert_eq!(
            client.call(version, &of_group).groups[0].authorized_operations,
            1 << DELETE | 1 << DESCRIBE
        );
    }
    let mut of_cluster = DescribeClusterRequest::default().with_include_cluster_authorized_operations(true);
    assert_eq!(client.call(2, &of_cluster).cluster_authorized_operations, 1 << ALTER | 1 << DESCRIBE);
    of_cluster.include_cluster_authorized_operations = false;
    assert_eq!(client.call(2, &of_cluster).cluster_authorized_operations, i32::MIN);
    let pages = DescribeTopicPartitionsRequest::default().with_response_partition_limit(10);
    let topics = client.call(0, &pages).topics;
    assert_eq!((topics.len(), topics[0].topic_authorized_operations), (1, 1 << WRITE | 1 << DESCRIBE));
    for version in 8..=10 {
        let all = MetadataRequest::default()
            .with_topics(None)
            .with_include_cluster_authorized_operations(true)
            .with_include_topic_authorized_operations(true);
        let told = client.call(version, &all);
        assert_eq!(told.cluster_authorized_operations, 1 << ALTER | 1 << DESCRIBE);
        assert_eq!(told.topics.len(), 1);
        assert_eq!(told.topics[0].topic_authorized_operations, 1 << WRITE | 1 << DESCRIBE);
    }
    broker.stop().unwrap();
}

#[test]
fn a_group_says_nothing_of_topics_that_its_client_may_not_see() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![
        literal(TOPIC, "t", READ),
        literal(GROUP, "g", READ),
        literal(GROUP, "g", DELETE),
        literal(GROUP, "k", READ),
    ];
    let (broker, mut client) = prepared(folder.path(), rules);
    let codes = |found: &[offset_commit_response::OffsetCommitResponseTopic]| {
        found.iter().map(|topic| topic.partitions[0].error_code).collect::<Vec<_>>()
    };
    assert_eq!(codes(&client.call(7, &commit(&["t", "u", "missing"])).topics), [0, OF_TOPIC, OF_TOPIC]);
    let all = OffsetFetchRequest::default().with_group_id(group()).with_topics(None);
    let names: Vec<_> = client.call(7, &all).topics.iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, ["t"]);
    let named =
        |name| OffsetFetchRequestTopic::default().with_name(topic(name)).with_partition_indexes(vec![0]);
    let two = all.with_topics(Some(vec![named("t"), named("u")]));
    let found: Vec<_> = client
        .call(7, &two)
        .topics
        .iter()
        .map(|topic| (topic.partitions[0].error_code, topic.partitions[0].committed_offset))
        .collect();
    assert_eq!(found, [(0, 1), (OF_TOPIC, -1)]);
    let of = |name| {
        OffsetDeleteRequestTopic::default()
            .with_name(topic(name))
            .with_partitions(vec![OffsetDeleteRequestPartition::default()])
    };
    let delete = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![of("t"), of("u")]);
    let deleted: Vec<_> =
        client.call(0, &delete).topics.iter().map(|topic| topic.partitions[0].error_code).collect();
    assert_eq!(deleted, [0, OF_TOPIC]);
    broker.stop().unwrap();
}

#[test]
fn members_of_consumer_groups_find_only_topics_that_they_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![literal(TOPIC, "t", READ), literal(GROUP, "k", READ)];
    let (broker, mut client) = prepared(folder.path(), rules);
    let beat = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text("k")))
        .with_member_id(text("m"))
        .with_rebalance_timeout_ms(1_000)
        .with_topic_partitions(Some(vec![]));
    let named = beat.clone().with_subscribed_topic_names(Some(vec![topic("t"), topic("u")]));
    assert_eq!(client.call(1, &named).error_code, OF_TOPIC);
    let joined = client.call(1, &beat.with_subscribed_topic_regex(Some(text("[tu]"))));
    assert_eq!(joined.error_code, 0);
    assert_eq!(joined.assignment.unwrap().topic_partitions.len(), 1, "of two topics that there are");
    let describe = ConsumerGroupDescribeRequest::default()
        .with_group_ids(vec![GroupId(text("k"))])
        .with_include_authorized_operations(true);
    let described = client.call(1, &describe).groups[0].clone();
    assert_eq!((described.error_code, described.members.len()), (0, 1));
    assert_eq!(described.authorized_operations, 1 << READ | 1 << DESCRIBE);
    broker.stop().unwrap();
    // The group is there after a restart; whoever may see it, but not what it reads, is told nothing of it.
    prepare(folder.path(), vec![literal(GROUP, "k", READ)]);
    let broker = guarded(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let hidden = client.call(1, &describe).groups[0].clone();
    assert_eq!((hidden.error_code, hidden.members.len()), (OF_TOPIC, 0));
    assert_eq!(hidden.authorized_operations, i32::MIN);
    broker.stop().unwrap();
}

#[test]
fn topics_are_made_and_deleted_without_a_word_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let rules = vec![literal(TOPIC, "new", CREATE), literal(TOPIC, "t", DESCRIBE)];
    let (broker, mut client) = prepared(folder.path(), rules);
    let made = client.call(7, &create_request("new", 3, &[])).topics[0].clone();
    assert_eq!((made.error_code, made.num_partitions, made.topic_config_error_code), (0, -1, OF_TOPIC));
    assert!(made.configs.unwrap().is_empty());
    let by_name = |name: &str| DeleteTopicState::default().with_name(Some(topic(name)));
    let doomed = vec![by_name("t"), by_name("u"), by_name("missing")];
    let refused = client.call(6, &DeleteTopicsRequest::default().with_topics(doomed)).responses;
    assert!(refused.iter().all(|topic| topic.error_code == OF_TOPIC), "{refused:?}");
    let id = client.call(12, &MetadataRequest::default().with_topics(None)).topics[0].topic_id;
    let doomed = DeleteTopicState::default().with_name(None).with_topic_id(id);
    let request = DeleteTopicsRequest::default().with_topics(vec![doomed]);
    let refused = client.call(6, &request).responses[0].clone();
    assert_eq!((refused.error_code, refused.name), (OF_TOPIC, Some(topic("t"))));
    broker.stop().unwrap();
    prepare(folder.path(), vec![]);
    let broker = guarded(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let refused = client.call(6, &request).responses[0].clone();
    assert_eq!((refused.error_code, refused.name), (OF_TOPIC, None), "an id tells no name");
    let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(id);
    let told = client.call(12, &MetadataRequest::default().with_topics(Some(vec![by_id]))).topics[0].clone();
    assert_eq!((told.error_code, told.name, told.partitions.len()), (OF_TOPIC, None, 0));
    broker.stop().unwrap();
}
