//! Small requests that ask for the same thing many times: neither the answer nor the work grows with it.

mod support;

use std::collections::HashSet;

use kafka_protocol::messages::describe_log_dirs_request::DescribableLogDirTopic;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::*;
use support::*;

const INVALID_REQUEST: i16 = 42;

#[test]
fn what_is_asked_for_again_is_not_described_again() {
    let broker = broker_with(std::path::Path::new(""), |settings| settings.memory = true);
    let client = &mut Client::connect(broker.kafka_addr());
    assert_eq!(create(client, "t", &[]).0, 0);
    let groups = vec![GroupId(text("g")); 50];
    let described = client.call(5, &DescribeGroupsRequest::default().with_groups(groups.clone()));
    assert_eq!(described.groups.len(), 1);
    let described = client.call(1, &ConsumerGroupDescribeRequest::default().with_group_ids(groups));
    assert_eq!(described.groups.len(), 1);
    let keys = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("a"), text("b"), text("a")]);
    assert_eq!(client.call(4, &keys).coordinators.len(), 2);
    let names = vec![TransactionalId(text("x")); 50];
    let described = client.call(0, &DescribeTransactionsRequest::default().with_transactional_ids(names));
    assert_eq!(described.transaction_states.len(), 1);
    let sizes = DescribableLogDirTopic::default().with_topic(topic("t")).with_partitions(vec![0; 50]);
    let sizes = client.call(4, &DescribeLogDirsRequest::default().with_topics(Some(vec![sizes])));
    assert_eq!(sizes.results[0].topics[0].partitions.len(), 1);
    broker.stop().unwrap();
}

#[test]
fn what_would_be_looked_up_again_is_refused() {
    let broker = broker_with(std::path::Path::new(""), |settings| settings.memory = true);
    let client = &mut Client::connect(broker.kafka_addr());
    assert_eq!(create(client, "t", &[]).0, 0);
    let at = |time| ListOffsetsPartition::default().with_timestamp(time);
    let times = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![at(-2), at(7), at(8)]);
    let listed = client.call(7, &ListOffsetsRequest::default().with_topics(vec![times.clone(), times]));
    let errors = listed.topics.iter().flat_map(|topic| &topic.partitions).map(|found| found.error_code);
    assert_eq!(errors.collect::<Vec<_>>(), [&[0][..], &[INVALID_REQUEST; 5]].concat());
    let producers = TopicRequest::default().with_name(topic("t")).with_partition_indexes(vec![0, 0]);
    let found = client.call(0, &DescribeProducersRequest::default().with_topics(vec![producers]));
    let errors: Vec<_> = found.topics[0].partitions.iter().map(|found| found.error_code).collect();
    assert_eq!(errors, [0, INVALID_REQUEST]);
    let all = OffsetFetchRequestGroup::default().with_group_id(GroupId(text("g"))).with_topics(None);
    let twice = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![1, 1]);
    let other =
        OffsetFetchRequestGroup::default().with_group_id(GroupId(text("h"))).with_topics(Some(vec![twice]));
    let request = OffsetFetchRequest::default().with_groups(vec![all.clone(), all, other]);
    let found = client.call(8, &request);
    let errors: Vec<_> = found.groups.iter().map(|group| group.error_code).collect();
    assert_eq!(errors, [0, INVALID_REQUEST, 0]);
    assert_eq!(found.groups[2].topics[0].partitions[1].error_code, INVALID_REQUEST);
    broker.stop().unwrap();
}

/// Blocks are reserved on disk ahead of need, and nobody is told of it.
#[test]
fn thousands_of_producers_get_ids_of_their_own_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut given = HashSet::new();
    for _ in 0..2 {
        let broker = broker(folder.path());
        let client = &mut Client::connect(broker.kafka_addr());
        for index in 0..1500 {
            let name = (index % 100 == 0).then(|| TransactionalId(text(&format!("x{index}"))));
            let request = InitProducerIdRequest::default().with_transactional_id(name);
            let found = client.call(4, &request.with_transaction_timeout_ms(60_000));
            assert_eq!(found.error_code, 0);
            let fresh = given.insert(found.producer_id.0);
            assert!(fresh || found.producer_epoch > 0, "{}", found.producer_id.0);
        }
        broker.stop().unwrap();
    }
}
