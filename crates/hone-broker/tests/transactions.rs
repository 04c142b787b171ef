//! Transactions over the wire, in both protocols: what is visible when, who is fenced, what a death in between leaves.

mod support;

use std::time::{Duration, Instant};

use hone_kafka::{BatchHeader, Codec};
use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::*;
use support::*;

const COMMITTED: i8 = 1;
const ANY: i8 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Producer {
    id: i64,
    epoch: i16,
}

fn transactional(name: &str) -> TransactionalId {
    TransactionalId(text(name))
}

fn init_request(name: &str, timeout_ms: i32) -> InitProducerIdRequest {
    InitProducerIdRequest::default()
        .with_transactional_id(Some(transactional(name)))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1)
}

/// Until what was left by an older instance is aborted, a newer one is asked to come again.
fn init(client: &mut Client, name: &str, timeout_ms: i32) -> Producer {
    let start = Instant::now();
    loop {
        let answer = client.call(4, &init_request(name, timeout_ms));
        if answer.error_code == 0 {
            return Producer { id: answer.producer_id.0, epoch: answer.producer_epoch };
        }
        assert_eq!(answer.error_code, 51);
        assert!(start.elapsed() < PATIENCE);
    }
}

/// A batch of one transaction, with as many records as values.
fn txn_batch(producer: Producer, sequence: i32, values: &[&str]) -> Vec<u8> {
    let mut bytes = batch(Codec::None, values);
    bytes[22] |= 0x10;
    hone_kafka::batch::set_producer(&mut bytes, producer.id, producer.epoch, sequence).unwrap();
    assert!(BatchHeader::parse(&bytes).unwrap().is_transactional());
    bytes
}

/// Returns the error code.
fn write_version(
    client: &mut Client,
    version: i16,
    name: &str,
    producer: Producer,
    place: (&str, i32),
    sequence: i32,
) -> i16 {
    let request = produce_request(place.0, place.1, txn_batch(producer, sequence, &["x", "y"]))
        .with_transactional_id(Some(transactional(name)));
    client.call(version, &request).responses[0].partition_responses[0].error_code
}

fn add_request(
    name: &str,
    producer: Producer,
    topic_name: &str,
    partitions: &[i32],
) -> AddPartitionsToTxnRequest {
    let topics =
        AddPartitionsToTxnTopic::default().with_name(topic(topic_name)).with_partitions(partitions.to_vec());
    AddPartitionsToTxnRequest::default()
        .with_v3_and_below_transactional_id(transactional(name))
        .with_v3_and_below_producer_id(ProducerId(producer.id))
        .with_v3_and_below_producer_epoch(producer.epoch)
        .with_v3_and_below_topics(vec![topics])
}

fn add(
    client: &mut Client,
    name: &str,
    producer: Producer,
    topic_name: &str,
    partitions: &[i32],
) -> Vec<i16> {
    let answer = client.call(3, &add_request(name, producer, topic_name, partitions));
    let results = &answer.results_by_topic_v3_and_below[0].results_by_partition;
    results.iter().map(|result| result.partition_error_code).collect()
}

fn end_request(name: &str, producer: Producer, commit: bool) -> EndTxnRequest {
    EndTxnRequest::default()
        .with_transactional_id(transactional(name))
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_committed(commit)
}

fn end(client: &mut Client, name: &str, producer: Producer, commit: bool) -> i16 {
    client.call(3, &end_request(name, producer, commit)).error_code
}

/// The end of a partition, as someone of this isolation sees it.
fn latest(client: &mut Client, name: &str, partition: i32, isolation: i8) -> i64 {
    let asked = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(-1);
    let topics = ListOffsetsTopic::default().with_name(topic(name)).with_partitions(vec![asked]);
    let request = ListOffsetsRequest::default().with_isolation_level(isolation).with_topics(vec![topics]);
    let answer = client.call(4, &request);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    answer.topics[0].partitions[0].offset
}

/// What lies in partition 0: the producer's epoch of each batch, and for markers whether they commit.
fn stored(client: &mut Client, name: &str) -> Vec<(i16, Option<bool>)> {
    let set = fetch(client, name, 0);
    let batches = hone_kafka::batches(&set).map(|batch| {
        let batch = batch.unwrap();
        let marker = batch.header.is_control().then(|| {
            let records: Vec<_> = hone_kafka::records(batch.payload(), 1).map(Result::unwrap).collect();
            records[0].key.unwrap() == [0, 0, 0, 1]
        });
        (batch.header.producer_epoch, marker)
    });
    batches.collect()
}

fn start() -> (tempfile::TempDir, hone_broker::Broker, Client) {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| settings.group_initial_delay_ms = 0);
    let mut client = Client::connect(broker.kafka_addr());
    let request = create_request("t", 2, &[]);
    assert_eq!(client.call(5, &request).topics[0].error_code, 0);
    (folder, broker, client)
}

/// Asks for a marker that aborts in some partitions; the error codes.
fn abort_by_hand(
    client: &mut Client,
    producer: Producer,
    place: (&str, &[i32]),
    coordinator: i32,
) -> Vec<i16> {
    let topics =
        WritableTxnMarkerTopic::default().with_name(topic(place.0)).with_partition_indexes(place.1.to_vec());
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_coordinator_epoch(coordinator)
        .with_topics(vec![topics]);
    let answer = client.call(1, &WriteTxnMarkersRequest::default().with_markers(vec![marker]));
    assert_eq!(answer.markers[0].producer_id.0, producer.id);
    answer.markers[0].topics[0].partitions.iter().map(|partition| partition.error_code).collect()
}

#[test]
fn an_administrator_ends_what_hangs() {
    let (_folder, broker, mut client) = start();
    let owner = init(&mut client, "x", 60_000);
    assert_eq!(add(&mut client, "x", owner, "t", &[0]), [0]);
    assert_eq!(write_version(&mut client, 9, "x", owner, ("t", 0), 0), 0);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 0);
    // A reader of committed records waits for the end of the transaction.
    let mut reader = Client::connect(broker.kafka_addr());
    reader.send(11, &fetch_request("t", 0, 60_000).with_isolation_level(COMMITTED));
    let nobody = Producer { id: -1, epoch: 0 };
    assert_eq!(abort_by_hand(&mut client, nobody, ("t", &[0]), 0), [47]);
    assert_eq!(abort_by_hand(&mut client, owner, ("t", &[0]), 1), [52], "there is no second coordinator");
    assert_eq!(abort_by_hand(&mut client, owner, ("nowhere", &[0]), 0), [3]);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 0, "nothing was written so far");
    assert_eq!(abort_by_hand(&mut client, owner, ("t", &[9, 0]), 0), [3, 0]);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 3);
    let (_, answer) = reader.receive_as::<FetchRequest>(11);
    let aborted = answer.responses[0].partitions[0].aborted_transactions.clone().unwrap();
    assert_eq!((aborted[0].producer_id.0, aborted[0].first_offset), (owner.id, 0));
    // A newer owner has written since: the marker of the old one is refused.
    let newer = init(&mut client, "x", 60_000);
    assert_eq!(add(&mut client, "x", newer, "t", &[0]), [0]);
    assert_eq!(write_version(&mut client, 9, "x", newer, ("t", 0), 0), 0);
    assert_eq!(abort_by_hand(&mut client, owner, ("t", &[0]), 0), [47]);
    assert_eq!(end(&mut client, "x", newer, true), 0);
    broker.stop().unwrap();
}

#[test]
fn the_first_protocol() {
    let (_folder, _broker, mut client) = start();
    let owner = init(&mut client, "x", 60_000);
    assert_eq!(write_version(&mut client, 9, "x", owner, ("t", 0), 0), 48, "not announced");
    assert_eq!(add(&mut client, "x", owner, "t", &[0, 1]), [0, 0]);
    assert_eq!(add(&mut client, "x", owner, "t", &[1]), [0], "announced before");
    assert_eq!(add(&mut client, "x", owner, "t", &[0, 9]), [55, 3]);
    for partition in [0, 1] {
        assert_eq!(write_version(&mut client, 9, "x", owner, ("t", partition), 0), 0);
        assert_eq!(latest(&mut client, "t", partition, COMMITTED), 0, "nothing is stable yet");
        assert_eq!(latest(&mut client, "t", partition, ANY), 2);
    }
    assert_eq!(end(&mut client, "x", owner, true), 0);
    for partition in [0, 1] {
        assert_eq!(latest(&mut client, "t", partition, COMMITTED), 3);
    }
    assert_eq!(end(&mut client, "x", owner, true), 0, "the same again");
    assert_eq!(end(&mut client, "x", owner, false), 48);
    assert_eq!(write_version(&mut client, 9, "x", owner, ("t", 0), 2), 48, "no transaction");
    assert_eq!(add(&mut client, "x", owner, "t", &[0]), [0]);
    assert_eq!(write_version(&mut client, 9, "x", owner, ("t", 0), 2), 0);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 3);
    assert_eq!(end(&mut client, "x", owner, false), 0);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 6);
    assert_eq!(stored(&mut client, "t"), [(0, None), (0, Some(true)), (0, None), (0, Some(false))]);
}

#[test]
fn the_second_protocol() {
    let (_folder, _broker, mut client) = start();
    let first = init(&mut client, "x", 60_000);
    assert_eq!(write_version(&mut client, 12, "x", first, ("t", 0), 0), 0, "writing announces");
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 0);
    let ended = client.call(5, &end_request("x", first, true));
    let second = Producer { id: first.id, epoch: first.epoch + 1 };
    let now = Producer { id: ended.producer_id.0, epoch: ended.producer_epoch };
    assert_eq!((ended.error_code, now), (0, second));
    let again = client.call(5, &end_request("x", first, true));
    assert_eq!((again.error_code, again.producer_epoch), (0, second.epoch), "the same again");
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 3);
    assert_eq!(write_version(&mut client, 12, "x", first, ("t", 0), 2), 47, "sent for the last transaction");
    assert_eq!(write_version(&mut client, 12, "x", second, ("t", 0), 0), 0);
    let ended = client.call(5, &end_request("x", second, false));
    assert_eq!((ended.error_code, ended.producer_epoch), (0, second.epoch + 1));
    let empty = client.call(5, &end_request("x", Producer { epoch: 2, ..first }, true));
    assert_eq!((empty.error_code, empty.producer_id.0, empty.producer_epoch), (48, -1, -1));
    assert_eq!(stored(&mut client, "t"), [(0, None), (1, Some(true)), (1, None), (2, Some(false))]);
}

/// A partition that is closed for a failed fsync takes no marker: the others get theirs all the same, and each once, however often the end is
/// tried again.
#[test]
fn an_end_that_fails_in_one_place_is_written_once_in_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| {
        settings.faults.add("fsync-error,topic=b,after=1".parse().unwrap());
    });
    let mut client = Client::connect(broker.kafka_addr());
    for name in ["a", "b", "c"] {
        assert_eq!(create(&mut client, name, &[]).0, 0);
    }
    let owner = init(&mut client, "x", 60_000);
    for name in ["a", "b", "c"] {
        assert_eq!(add(&mut client, "x", owner, name, &[0]), [0]);
        assert_eq!(write_version(&mut client, 9, "x", owner, (name, 0), 0), 0);
    }
    assert_eq!(write_version(&mut client, 9, "x", owner, ("b", 0), 2), 56, "its fsync fails");
    let mut onlooker = Client::connect(broker.kafka_addr());
    client.send(3, &end_request("x", owner, true));
    let begun = Instant::now();
    let mut ends = |isolation| ["a", "c"].map(|name| latest(&mut onlooker, name, 0, isolation));
    while ends(COMMITTED) != [3, 3] {
        assert!(begun.elapsed() < PATIENCE, "{:?}", ends(COMMITTED));
    }
    // The end is tried again each second.
    std::thread::sleep(Duration::from_millis(2_500));
    assert_eq!((ends(ANY), ends(COMMITTED)), ([3, 3], [3, 3]));
}

#[test]
fn the_second_protocol_is_announced() {
    let (_folder, _broker, mut client) = start();
    for version in [3, 4] {
        let answer =
            client.call(version, &ApiVersionsRequest::default().with_client_software_name(text("x")));
        let feature = |name: &str| {
            let found = answer.finalized_features.iter().find(|feature| feature.name.as_str() == name);
            found.map(|feature| (feature.min_version_level, feature.max_version_level))
        };
        assert_eq!(feature("transaction.version"), Some((2, 2)), "v{version}");
        assert!(answer.finalized_features_epoch >= 0);
        assert!(answer.supported_features.iter().any(|feature| feature.max_version == 2));
    }
}

#[test]
fn who_is_fenced_is_told_so_in_the_words_of_the_version() {
    let (_folder, _broker, mut client) = start();
    let old = init(&mut client, "x", 60_000);
    assert_eq!(add(&mut client, "x", old, "t", &[0]), [0]);
    assert_eq!(write_version(&mut client, 9, "x", old, ("t", 0), 0), 0);
    let new = init(&mut client, "x", 60_000);
    assert_eq!(new.id, old.id);
    assert!(new.epoch > old.epoch);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 3, "aborted");
    for (version, fenced) in [(0, 47), (1, 47), (2, 90), (3, 90)] {
        let added = client.call(version, &add_request("x", old, "t", &[0]));
        let result = &added.results_by_topic_v3_and_below[0].results_by_partition[0];
        assert_eq!(result.partition_error_code, fenced);
        assert_eq!(client.call(version, &end_request("x", old, true)).error_code, fenced);
        let offsets = AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional("x"))
            .with_producer_id(ProducerId(old.id))
            .with_producer_epoch(old.epoch)
            .with_group_id(GroupId(text("g")));
        assert_eq!(client.call(version, &offsets).error_code, fenced);
    }
    for (version, fenced) in [(3, 47), (4, 90)] {
        let renew =
            init_request("x", 60_000).with_producer_id(ProducerId(old.id)).with_producer_epoch(old.epoch);
        assert_eq!(client.call(version, &renew).error_code, fenced);
    }
    for version in [9, 12] {
        assert_eq!(write_version(&mut client, version, "x", old, ("t", 0), 2), 47);
        let stranger = Producer { id: old.id + 5000, epoch: 0 };
        assert_eq!(write_version(&mut client, version, "x", stranger, ("t", 0), 0), 49);
        assert_eq!(write_version(&mut client, version, "unknown", old, ("t", 0), 0), 49);
    }
    let stranger = Producer { id: old.id + 5000, epoch: 0 };
    assert_eq!(end(&mut client, "x", stranger, true), 49);
    assert_eq!(add(&mut client, "x", stranger, "t", &[0]), [49]);
}

#[test]
fn what_init_producer_id_refuses() {
    let (_folder, _broker, mut client) = start();
    assert_eq!(client.call(4, &init_request("", 1)).error_code, 42);
    assert_eq!(client.call(4, &init_request("x", 0)).error_code, 50);
    assert_eq!(client.call(4, &init_request("x", 900_001)).error_code, 50);
    let half = init_request("x", 60_000).with_producer_id(ProducerId(7));
    assert_eq!(client.call(4, &half).error_code, 42);
    let owner = init(&mut client, "x", 900_000);
    let renew =
        init_request("x", 60_000).with_producer_id(ProducerId(owner.id)).with_producer_epoch(owner.epoch);
    for _ in 0..2 {
        let answer = client.call(4, &renew);
        assert_eq!(
            (answer.error_code, answer.producer_epoch),
            (0, owner.epoch + 1),
            "asking twice is allowed"
        );
    }
    let foreign = init_request("x", 60_000).with_producer_id(ProducerId(1)).with_producer_epoch(3);
    assert_eq!(client.call(4, &foreign).error_code, 90);
}

#[test]
fn a_transaction_out_of_time_is_aborted() {
    let (_folder, _broker, mut client) = start();
    let owner = init(&mut client, "x", 200);
    assert_eq!(write_version(&mut client, 12, "x", owner, ("t", 0), 0), 0);
    let begun = Instant::now();
    while latest(&mut client, "t", 0, COMMITTED) < 3 {
        assert!(begun.elapsed() < PATIENCE);
    }
    assert_eq!(client.call(5, &end_request("x", owner, true)).error_code, 90);
    assert_eq!(write_version(&mut client, 12, "x", owner, ("t", 0), 2), 47);
    assert_eq!(stored(&mut client, "t")[1].1, Some(false));
}

fn commit_offset(client: &mut Client, version: i16, name: &str, producer: Producer, offset: i64) -> Vec<i16> {
    let partition = |index| {
        TxnOffsetCommitRequestPartition::default().with_partition_index(index).with_committed_offset(offset)
    };
    let topics = TxnOffsetCommitRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![partition(0), partition(9)]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(transactional(name))
        .with_group_id(GroupId(text("g")))
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
        .with_topics(vec![topics]);
    let answer = client.call(version, &request);
    answer.topics[0].partitions.iter().map(|partition| partition.error_code).collect()
}

fn committed(client: &mut Client) -> i64 {
    let topics = OffsetFetchRequestTopic::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let request =
        OffsetFetchRequest::default().with_group_id(GroupId(text("g"))).with_topics(Some(vec![topics]));
    client.call(5, &request).topics[0].partitions[0].committed_offset
}

#[test]
fn offsets_count_when_their_transaction_commits() {
    let (_folder, _broker, mut client) = start();
    let owner = init(&mut client, "x", 60_000);
    assert_eq!(commit_offset(&mut client, 3, "x", owner, 5), [48, 48], "not announced");
    assert_eq!(commit_offset(&mut client, 4, "x", owner, 5), [120, 120]);
    for (version, offset, commit, then) in [(0, 5, true, 5), (3, 6, false, 5), (4, 7, true, 7)] {
        let announce = AddOffsetsToTxnRequest::default()
            .with_transactional_id(transactional("x"))
            .with_producer_id(ProducerId(owner.id))
            .with_producer_epoch(owner.epoch)
            .with_group_id(GroupId(text("g")));
        assert_eq!(client.call(version.min(4), &announce).error_code, 0);
        let before = committed(&mut client);
        assert_eq!(commit_offset(&mut client, version, "x", owner, offset), [0, 3]);
        assert_eq!(committed(&mut client), before, "not yet");
        assert_eq!(end(&mut client, "x", owner, commit), 0);
        assert_eq!(committed(&mut client), then);
    }
    let fenced = Producer { epoch: owner.epoch - 1, ..owner };
    assert_eq!(commit_offset(&mut client, 3, "x", fenced, 5), [47, 47]);
    // In the second protocol they announce themselves.
    assert_eq!(commit_offset(&mut client, 5, "x", owner, 8), [0, 3]);
    assert_eq!(commit_offset(&mut client, 5, "x", owner, 9), [0, 3]);
    assert_eq!(client.call(5, &end_request("x", owner, true)).error_code, 0);
    assert_eq!(committed(&mut client), 9);
}

#[test]
fn what_brokers_ask_each_other() {
    let (_folder, _broker, mut client) = start();
    let owner = init(&mut client, "x", 60_000);
    let ask = |name: &str, verify_only: bool, partitions: &[i32]| {
        let topics =
            AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(partitions.to_vec());
        AddPartitionsToTxnTransaction::default()
            .with_transactional_id(transactional(name))
            .with_producer_id(ProducerId(owner.id))
            .with_producer_epoch(owner.epoch)
            .with_verify_only(verify_only)
            .with_topics(vec![topics])
    };
    for (version, absent) in [(4, 48), (5, 120)] {
        let index = i32::from(version - 4);
        let request = AddPartitionsToTxnRequest::default().with_transactions(vec![
            ask("x", true, &[index]),
            ask("x", false, &[index]),
            ask("unknown", false, &[0]),
        ]);
        let answer = client.call(version, &request);
        let codes = |answer: &AddPartitionsToTxnResponse| -> Vec<i16> {
            let results = answer.results_by_transaction.iter();
            results
                .map(|result| result.topic_results[0].results_by_partition[0].partition_error_code)
                .collect()
        };
        // The whole request is answered when what it adds is there, so what was only asked for is there, too.
        assert_eq!(codes(&answer), [0, 0, 49]);
        let request = AddPartitionsToTxnRequest::default().with_transactions(vec![ask("x", true, &[1])]);
        assert_eq!(codes(&client.call(version, &request)), [if version == 4 { absent } else { 0 }]);
    }
}

#[test]
fn transactions_are_listed_and_described() {
    let (_folder, _broker, mut client) = start();
    let owner = init(&mut client, "x-1", 60_000);
    init(&mut client, "y", 60_000);
    assert_eq!(write_version(&mut client, 12, "x-1", owner, ("t", 1), 0), 0);

    let names = vec![transactional("x-1"), transactional("nobody"), transactional("")];
    let described = client.call(0, &DescribeTransactionsRequest::default().with_transactional_ids(names));
    let states = &described.transaction_states;
    assert_eq!(states.iter().map(|state| state.error_code).collect::<Vec<_>>(), [0, 105, 42]);
    assert_eq!(states[0].transaction_state.as_str(), "Ongoing");
    assert_eq!((states[0].producer_id.0, states[0].producer_epoch), (owner.id, owner.epoch));
    assert_eq!((states[0].transaction_timeout_ms, &states[0].topics[0].partitions[..]), (60_000, &[1][..]));
    assert!(states[0].transaction_start_time_ms > 1_600_000_000_000);

    let topics = TopicRequest::default().with_name(topic("t")).with_partition_indexes(vec![0, 1, 2]);
    let producers = client.call(0, &DescribeProducersRequest::default().with_topics(vec![topics]));
    let partitions = &producers.topics[0].partitions;
    assert_eq!(partitions.iter().map(|partition| partition.error_code).collect::<Vec<_>>(), [0, 0, 3]);
    assert!(partitions[0].active_producers.is_empty());
    let active = &partitions[1].active_producers[0];
    assert_eq!(
        (active.producer_id.0, active.last_sequence, active.current_txn_start_offset),
        (owner.id, 1, 0)
    );

    let list = |client: &mut Client, version: i16, request: ListTransactionsRequest| {
        let answer = client.call(version, &request);
        let names = answer.transaction_states.iter().map(|state| state.transactional_id.0.to_string());
        (answer.error_code, names.collect::<Vec<_>>(), answer.unknown_state_filters.len())
    };
    let all = ListTransactionsRequest::default;
    for version in 0..=2 {
        assert_eq!(list(&mut client, version, all()), (0, vec!["x-1".to_owned(), "y".to_owned()], 0));
        let empty = all().with_state_filters(vec![text("Empty"), text("Nonsense")]);
        assert_eq!(list(&mut client, version, empty), (0, vec!["y".to_owned()], 1));
        let none = all().with_state_filters(vec![text("Nonsense")]);
        assert_eq!(list(&mut client, version, none), (0, vec![], 1));
        let of_owner = all().with_producer_id_filters(vec![ProducerId(owner.id)]);
        assert_eq!(list(&mut client, version, of_owner), (0, vec!["x-1".to_owned()], 0));
    }
    let long = all().with_state_filters(vec![text("Ongoing")]).with_duration_filter(3_600_000);
    assert_eq!(list(&mut client, 1, long), (0, vec![], 0));
    for (pattern, wanted) in [("x-.*", vec!["x-1".to_owned()]), ("x", vec![])] {
        let request = all().with_transactional_id_pattern(Some(text(pattern)));
        assert_eq!(list(&mut client, 2, request), (0, wanted, 0), "the whole name must match");
    }
    assert_eq!(list(&mut client, 2, all().with_transactional_id_pattern(Some(text("(")))).0, 128);
}

#[test]
fn a_kill_leaves_a_transaction_to_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(client.call(5, &create_request("t", 2, &[])).topics[0].error_code, 0);
    let first = init(&mut client, "one", 600_000);
    let second = init(&mut client, "two", 600_000);
    assert_eq!(add(&mut client, "one", first, "t", &[0, 1]), [0, 0]);
    assert_eq!(write_version(&mut client, 9, "one", first, ("t", 0), 0), 0);
    assert_eq!(write_version(&mut client, 12, "two", second, ("t", 1), 0), 0);
    broker.kill_9();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 0);
    assert_eq!(latest(&mut client, "t", 1, COMMITTED), 0);
    assert_eq!(write_version(&mut client, 9, "one", first, ("t", 1), 0), 0, "still announced");
    assert_eq!(write_version(&mut client, 12, "two", second, ("t", 0), 0), 0);
    assert_eq!(end(&mut client, "one", first, true), 0);
    assert_eq!(client.call(5, &end_request("two", second, false)).error_code, 0);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 6);
    assert_eq!(latest(&mut client, "t", 1, COMMITTED), 6);
    broker.kill_9();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(end(&mut client, "one", first, true), 0, "it has not forgotten how it ended");
    assert_eq!(end(&mut client, "one", first, false), 48);
    assert_eq!(latest(&mut client, "t", 0, COMMITTED), 6);
}

/// A kill at no particular moment of a stream of ends: afterwards both partitions agree about each transaction.
#[test]
fn a_kill_in_the_midst_of_ends_leaves_none_half_done() {
    let folder = tempfile::tempdir().unwrap();
    let mut ended = 0;
    for round in 0..6 {
        let broker = Process::start(folder.path(), &[]);
        let mut client = Client::connect(broker.kafka);
        if round == 0 {
            assert_eq!(client.call(5, &create_request("t", 2, &[])).topics[0].error_code, 0);
        }
        let mut owner = init(&mut client, "x", 600_000);
        for _ in 0..round {
            for partition in [0, 1] {
                assert_eq!(write_version(&mut client, 12, "x", owner, ("t", partition), 0), 0);
            }
            let answer = client.call(5, &end_request("x", owner, true));
            assert_eq!(answer.error_code, 0);
            owner.epoch = answer.producer_epoch;
            ended += 1;
        }
        for partition in [0, 1] {
            assert_eq!(write_version(&mut client, 12, "x", owner, ("t", partition), 0), 0);
        }
        client.send(5, &end_request("x", owner, true));
        // Sometimes it has not read the request, sometimes it is about to answer it.
        std::thread::sleep(std::time::Duration::from_micros(400 * round));
        broker.kill_9();
    }
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    init(&mut client, "x", 600_000);
    let outcomes: Vec<_> = [0, 1].map(|partition| markers(&mut client, partition)).into();
    assert_eq!(outcomes[0], outcomes[1]);
    assert!(outcomes[0].iter().filter(|(_, committed)| *committed).count() >= ended);
    for partition in [0, 1] {
        let (stable, end) =
            (latest(&mut client, "t", partition, COMMITTED), latest(&mut client, "t", partition, ANY));
        assert_eq!(stable, end, "nothing is open");
    }
}

/// Epoch and verdict of each transaction of a partition. A second marker, from a repeated end, says nothing new.
fn markers(client: &mut Client, index: i32) -> Vec<(i16, bool)> {
    let mut request = fetch_request("t", 0, 0);
    request.topics[0].partitions[0].partition = index;
    let answer = client.call(11, &request);
    let set = answer.responses[0].partitions[0].records.clone().unwrap();
    let mut open = false;
    let mut found = Vec::new();
    for batch in hone_kafka::batches(&set) {
        let batch = batch.unwrap();
        if !batch.header.is_control() {
            open = true;
        } else if std::mem::take(&mut open) {
            let record = hone_kafka::records(batch.payload(), 1).next().unwrap().unwrap();
            found.push((batch.header.producer_epoch, record.key.unwrap() == [0, 0, 0, 1]));
        }
    }
    assert!(!open);
    found
}
