//! What one client may take of a reactor at a time: requests that are too much for one turn go on in the next, requests
//! that name too much are refused, and a wait for records ends when they are there.
//!
//! Nothing here is timed: what others get done meanwhile is counted.

mod support;

use std::io::{ErrorKind, Write};
use std::net::Shutdown;
use std::sync::{Arc, Mutex};

use hone_broker::{Broker, Notices};
use hone_kafka::Codec;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::offset_delete_request::OffsetDeleteRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::*;
use support::*;

const PARTITIONS: i32 = 48;
const INVALID_REQUEST: i16 = 42;

/// A broker with one reactor and a topic whose batches are packed anew.
fn one_reactor() -> (Broker, Client) {
    let mut settings = hone_broker::Settings::in_memory();
    settings.threads = 1;
    let broker = Broker::start(settings).unwrap();
    let mut client = Client::connect(broker.kafka_addr());
    let request = create_request("t", PARTITIONS, &[("compression.type", "lz4")]);
    assert_eq!(client.call(5, &request).topics[0].error_code, 0);
    (broker, client)
}

/// A batch for each partition, of which each unpacks to more than a turn looks into.
fn large_request(mark: &str, acks: i16) -> ProduceRequest {
    let value = format!("{mark}{}", "x".repeat(3 << 20));
    let records = batch(Codec::Zstd, &[&value]);
    let data =
        |index| PartitionProduceData::default().with_index(index).with_records(Some(records.clone().into()));
    let topics = TopicProduceData::default()
        .with_name(topic("t"))
        .with_partition_data((0..PARTITIONS).map(data).collect());
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![topics])
}

fn has_answer(client: &Client) -> bool {
    client.stream.set_nonblocking(true).unwrap();
    let found = client.stream.peek(&mut [0]);
    client.stream.set_nonblocking(false).unwrap();
    match found {
        Ok(bytes) => bytes > 0,
        Err(error) if error.kind() == ErrorKind::WouldBlock => false,
        Err(error) => panic!("{error}"),
    }
}

fn marks(client: &mut Client, partition: i32) -> Vec<String> {
    values_of(client, "t", partition).into_iter().map(|value| value[..1].to_owned()).collect()
}

#[test]
fn a_request_of_many_packed_batches_leaves_the_others_their_turns() {
    let (broker, mut other) = one_reactor();
    let mut busy = Client::connect(broker.kafka_addr());
    // Pipelined: the order of answers and of batches is that of the requests.
    let mut bytes = Vec::new();
    for (id, mark) in [(1, "a"), (2, "b")] {
        bytes.extend(frame(9, id, &large_request(mark, -1)));
    }
    bytes.extend(frame(9, 3, &produce_request("t", 0, batch(Codec::None, &["c"]))));
    busy.stream.write_all(&bytes).unwrap();
    let mut served = 0;
    while !has_answer(&busy) {
        other.call(1, &FindCoordinatorRequest::default().with_key(text("g")));
        served += 1;
    }
    assert!(served >= PARTITIONS / 3, "{served} requests were served while the large one was");
    for id in [1, 2] {
        let (found, answer) = busy.receive_as::<ProduceRequest>(9);
        assert_eq!(found, id);
        let partitions = &answer.responses[0].partition_responses;
        let told: Vec<_> =
            partitions.iter().map(|one| (one.index, one.error_code, one.base_offset)).collect();
        let wanted: Vec<_> = (0..PARTITIONS).map(|index| (index, 0, i64::from(id) - 1)).collect();
        assert_eq!(told, wanted);
    }
    let (found, answer) = busy.receive_as::<ProduceRequest>(9);
    assert_eq!((found, answer.responses[0].partition_responses[0].base_offset), (3, 2));
    assert_eq!(marks(&mut other, 0), ["a", "b", "c"]);
    assert_eq!(marks(&mut other, PARTITIONS - 1), ["a", "b"]);
    broker.stop().unwrap();
}

#[test]
fn several_large_requests_take_turns_and_all_are_answered() {
    let (broker, _) = one_reactor();
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(broker.kafka_addr())).collect();
    for client in &mut clients {
        client.stream.write_all(&frame(9, 1, &large_request("a", 1))).unwrap();
    }
    for client in &mut clients {
        let (_, answer) = client.receive_as::<ProduceRequest>(9);
        let partitions = &answer.responses[0].partition_responses;
        assert!(partitions.len() == PARTITIONS as usize && partitions.iter().all(|one| one.error_code == 0));
    }
    broker.stop().unwrap();
}

#[test]
fn what_was_begun_without_acks_is_stored_though_the_client_has_gone() {
    let (broker, mut other) = one_reactor();
    let mut client = Client::connect(broker.kafka_addr());
    client.stream.write_all(&frame(9, 1, &large_request("a", 0))).unwrap();
    client.stream.shutdown(Shutdown::Both).unwrap();
    let begun = std::time::Instant::now();
    while marks(&mut other, PARTITIONS - 1).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the last batch is not there");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(marks(&mut other, 0), ["a"]);
    broker.stop().unwrap();
}

/// Of so many entries for one topic.
fn fetch_of(entries: usize) -> FetchRequest {
    let partitions = vec![FetchPartition::default().with_partition_max_bytes(1); entries];
    let topics = FetchTopic::default().with_topic(topic("t")).with_partitions(partitions);
    FetchRequest::default().with_max_bytes(1).with_topics(vec![topics])
}

#[test]
fn a_request_that_names_too_much_is_refused() {
    let (broker, mut client) = one_reactor();
    let most = client.call(11, &fetch_of(19_999));
    assert_eq!((most.error_code, most.responses[0].partitions.len()), (0, 19_999));
    let refused = client.call(11, &fetch_of(20_000));
    assert_eq!((refused.error_code, refused.responses.len()), (INVALID_REQUEST, 0));
    // Topics without partitions count, too.
    let mut topics = fetch_of(0);
    topics.topics = vec![topics.topics[0].clone(); 20_001];
    assert_eq!(client.call(11, &topics).error_code, INVALID_REQUEST);
    let data = TopicProduceData::default().with_name(topic("t"));
    let produce = ProduceRequest::default().with_acks(1).with_topic_data(vec![data; 20_001]);
    assert!(client.stream_call(9, &produce).is_none(), "closed: Produce has no error for a whole request");
    let deleted = vec![OffsetDeleteRequestTopic::default().with_name(topic("t")); 20_001];
    let delete = OffsetDeleteRequest::default().with_group_id(GroupId(text("g"))).with_topics(deleted);
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(client.call(0, &delete).error_code, INVALID_REQUEST);
    // Nor has Fetch in its early versions.
    let mut old = Client::connect(broker.kafka_addr());
    assert!(old.stream_call(4, &fetch_of(20_000)).is_none());
    broker.stop().unwrap();
}

#[test]
fn a_fetch_of_two_partitions_waits_until_both_together_have_enough() {
    let (broker, mut client) = one_reactor();
    assert_eq!(client.call(5, &create_request("u", 2, &[])).topics[0].error_code, 0);
    let bytes = batch(Codec::None, &["x"]).len();
    let mut request = fetch_request("u", 0, 60_000);
    let partition = request.topics[0].partitions[0].clone();
    request.topics[0].partitions.push(partition.with_partition(1));
    request.min_bytes = i32::try_from(4 * bytes).unwrap();
    let mut waiting = Client::connect(broker.kafka_addr());
    waiting.send(11, &request);
    for (number, partition) in [0, 1, 0, 0].into_iter().enumerate() {
        // Behind this answer the wait has begun, or has seen the batches before.
        client.call(1, &FindCoordinatorRequest::default().with_key(text("g")));
        assert!(!has_answer(&waiting), "answered after {number} batches");
        client.call(9, &produce_request("u", partition, batch(Codec::None, &["x"])));
    }
    let (_, answer) = waiting.receive_as::<FetchRequest>(11);
    let found: Vec<_> = answer.responses[0]
        .partitions
        .iter()
        .map(|one| one.records.as_ref().map_or(0, |found| found.len()))
        .collect();
    assert_eq!(found, [3 * bytes, bytes]);
    broker.stop().unwrap();
}

#[test]
fn a_large_request_is_not_kept_for_a_long_poll() {
    let (broker, mut client) = one_reactor();
    let mut request = fetch_request("t", 0, 60_000);
    // What is asked about is there and empty; what makes the request large says nothing.
    request.topics[0].unknown_tagged_fields.insert(7, vec![0; 2 << 20].into());
    let answer = client.call(12, &request);
    assert_eq!((answer.error_code, answer.responses[0].partitions[0].error_code), (0, 0));
    broker.stop().unwrap();
}

#[test]
fn the_owner_of_a_broker_is_told_of_refused_batches() {
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = Arc::clone(&said);
    let mut settings = hone_broker::Settings::in_memory();
    settings.notices = Notices::to(move |line| sink.lock().unwrap().push(line.to_owned()));
    let broker = Broker::start(settings).unwrap();
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(create(&mut client, "orders", &[("hone.value.schema", r#"{"type": "integer"}"#)]).0, 0);
    for _ in 0..50 {
        assert_ne!(produce(&mut client, "orders", batch(Codec::None, &["no"])).error_code, 0);
    }
    let said = said.lock().unwrap().clone();
    let about: Vec<_> = said.iter().filter(|line| line.starts_with("refused a batch")).collect();
    // One a second: fifty are not told one by one.
    assert!((1..25).contains(&about.len()), "{said:?}");
    for part in
        ["client \"test\" at 127.0.0.1", "for orders-0", "record 0 breaks hone.value.schema", "(error 87)"]
    {
        assert!(about[0].contains(part), "{part}: {}", about[0]);
    }
    broker.stop().unwrap();
}
