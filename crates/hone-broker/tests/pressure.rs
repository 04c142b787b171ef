//! Clients that are stuck, slow or too many: the others go on, memory is bounded, and those who make no progress are
//! closed. And the order of answers, whichever reactor they come from.
//!
//! While a stuck client is there, progress is asserted, not time.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hone_broker::Broker;
use hone_kafka::Codec;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::*;
use support::*;

/// Requests that must be answered while others are stuck.
const PROGRESS: usize = 200;

fn long() -> bool {
    std::env::var_os("HONE_LONG").is_some()
}

fn in_memory(change: impl FnOnce(&mut hone_broker::Settings)) -> Broker {
    let mut settings = hone_broker::Settings::in_memory();
    settings.threads = 2;
    change(&mut settings);
    Broker::start(settings).unwrap()
}

/// Sum of a series over its labels.
fn total(address: SocketAddr, name: &str) -> f64 {
    let page = http_get(address, "/metrics");
    let lines = page.lines().filter(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    lines.map(|line| line.split_whitespace().last().unwrap().parse::<f64>().unwrap()).sum()
}

/// Looks until it is so.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Writes until the socket takes no more; returns how much it took.
fn push(stream: &mut TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Closed already.
            Err(_) => break,
        }
    }
    sent
}

/// Clients on both reactors write and read.
fn assert_progress(address: SocketAddr, name: &str) {
    let mut clients = [Client::connect(address), Client::connect(address)];
    let before = fetch_end(&mut clients[0], name);
    for number in 0..PROGRESS {
        let client = &mut clients[number % 2];
        let answer = produce(client, name, batch(Codec::None, &["progress"]));
        assert_eq!((answer.error_code, answer.base_offset), (0, before + number as i64));
        assert!(!fetch(client, name, answer.base_offset).is_empty());
    }
}

fn fetch_end(client: &mut Client, name: &str) -> i64 {
    client.call(4, &offsets_request(name, 0)).topics[0].partitions[0].offset
}

fn offsets_request(name: &str, partition: i32) -> ListOffsetsRequest {
    let asked = ListOffsetsPartition::default().with_partition_index(partition).with_timestamp(-1);
    let topics = ListOffsetsTopic::default().with_name(topic(name)).with_partitions(vec![asked]);
    ListOffsetsRequest::default().with_topics(vec![topics])
}

const STALLED: &str = "hone_broker_stalled_connections_total";
const ACTIVE: &str = "vectorized_kafka_rpc_active_connections";

#[test]
fn half_a_frame_delays_nobody_and_is_closed() {
    let broker = in_memory(|settings| settings.stall_ms = 500);
    let (address, metrics) = (broker.kafka_addr(), broker.metrics_addr().unwrap());
    assert_eq!(create(&mut Client::connect(address), "t", &[]).0, 0);
    let whole = frame(9, 1, &produce_request("t", 0, batch(Codec::None, &["never"])));
    let mut stuck: Vec<TcpStream> = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect();
    for (stuck, bytes) in stuck.iter_mut().zip([2, 4, 20, whole.len() - 1]) {
        stuck.write_all(&whole[..bytes]).unwrap();
    }
    assert_progress(address, "t");
    for stuck in &mut stuck {
        stuck.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stuck.read(&mut [0]).unwrap(), 0, "closed without an answer");
    }
    assert_eq!(total(metrics, STALLED), 4.0);
    // Slow is not stuck: a byte now and then keeps a frame alive beyond the limit.
    let mut slow = Client::connect(address);
    let begun = Instant::now();
    let (first, rest) = whole.split_at(40);
    for byte in first {
        slow.stream.write_all(&[*byte]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(begun.elapsed() > Duration::from_millis(500));
    slow.stream.write_all(rest).unwrap();
    let (id, answer) = slow.receive_as::<ProduceRequest>(9);
    assert_eq!((id, answer.responses[0].partition_responses[0].error_code), (1, 0));
    broker.stop().unwrap();
}

#[test]
fn whoever_takes_no_answers_delays_nobody_and_is_closed() {
    let broker = in_memory(|settings| settings.untaken_ms = 1_000);
    let (address, metrics) = (broker.kafka_addr(), broker.metrics_addr().unwrap());
    let mut client = Client::connect(address);
    for name in ["t", "large"] {
        assert_eq!(create(&mut client, name, &[]).0, 0);
    }
    let value = "x".repeat(500_000);
    assert_eq!(produce(&mut client, "large", batch(Codec::None, &[&value])).error_code, 0);
    let fetches: Vec<u8> = (0..10_000).flat_map(|id| frame(11, id, &fetch_request("large", 0, 0))).collect();
    let mut stuck: Vec<TcpStream> = (0..2).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stuck in &mut stuck {
        assert!(push(stuck, &fetches) > 0);
    }
    assert_progress(address, "t");
    // An answer has half a megabyte: 10,000 of them were never built.
    assert!(total(metrics, "hone_broker_client_memory_bytes") < 16e6);
    wait_for("the stuck ones are closed", || total(metrics, STALLED) == 2.0);
    assert_progress(address, "t");
    drop(stuck);
    broker.stop().unwrap();
}

#[test]
fn pipelined_produce_without_reading_is_held_back_and_loses_nothing() {
    let count: i32 = if long() { 100_000 } else { 30_000 };
    let broker = in_memory(|_| ());
    let (address, metrics) = (broker.kafka_addr(), broker.metrics_addr().unwrap());
    let mut client = Client::connect(address);
    for name in ["t", "piped"] {
        assert_eq!(create(&mut client, name, &[]).0, 0);
    }
    let mut piper = Client::connect(address);
    let mut writing = piper.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for id in 0..count {
                let bytes = frame(9, id, &produce_request("piped", 0, batch(Codec::None, &["one"])));
                writing.write_all(&bytes).unwrap();
            }
        });
        // Nobody takes the answers: at some point it stops to grow, or all is there.
        let (mut before, mut end) = (-1, 0);
        while before < end && end < i64::from(count) {
            assert_progress(address, "t");
            (before, end) = (end, fetch_end(&mut client, "piped"));
        }
        assert!(total(metrics, "hone_broker_client_memory_bytes") < 16e6);
        for wanted in 0..count {
            let (id, answer) = piper.receive_as::<ProduceRequest>(9);
            let answer = &answer.responses[0].partition_responses[0];
            assert_eq!((id, answer.error_code, answer.base_offset), (wanted, 0, i64::from(wanted)));
        }
    });
    assert_eq!(fetch_end(&mut client, "piped"), i64::from(count));
    broker.stop().unwrap();
}

/// Resident memory of a process.
fn resident_bytes(process: &Process) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn half_frames_of_many_clients_stay_within_the_memory_limit() {
    const CLIENTS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &["--threads", "2", "--max-memory-bytes", "33554432"]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    assert_progress(broker.kafka, "t");
    let before = resident_bytes(&broker);
    let mut half = (2_i32 << 20).to_be_bytes().to_vec();
    half.resize(1 << 20, 0);
    let mut most = 0;
    let mut stuck = Vec::new();
    for number in 0..CLIENTS {
        let mut stream = TcpStream::connect(broker.kafka).unwrap();
        push(&mut stream, &half);
        stuck.push(stream);
        if number % 100 == 99 {
            assert_progress(broker.kafka, "t");
            most = most.max(resident_bytes(&broker));
        }
    }
    // The limit, what two reactors may read beyond it in one turn, and what an allocator keeps.
    let bound = before + (32 << 20) + (64 << 20);
    assert!(most < bound, "{most} bytes resident, {before} before");
    wait_for("those whose frames do not end are closed", || {
        assert_progress(broker.kafka, "t");
        // As many as there is memory for have more time.
        total(broker.metrics, ACTIVE) <= 1.0 + 32.0
    });
    assert!(resident_bytes(&broker) < bound);
    assert!(total(broker.metrics, STALLED) >= CLIENTS as f64 - 32.0);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["still here"])).error_code, 0);
}

#[test]
fn one_client_too_many_is_closed_and_the_others_live() {
    const MOST: usize = 8;
    let broker = in_memory(|settings| settings.max_connections = MOST);
    let address = broker.kafka_addr();
    let mut clients: Vec<Client> = (0..MOST).map(|_| Client::connect(address)).collect();
    assert_eq!(create(&mut clients[0], "t", &[]).0, 0);
    for round in 0..3 {
        let mut one_more = Client::connect(address);
        assert!(one_more.receive().is_none(), "closed at once");
        for client in &mut clients {
            assert_eq!(produce(client, "t", batch(Codec::None, &["x"])).error_code, 0);
        }
        drop(clients.swap_remove(round));
        wait_for("there is room again", || {
            let mut comer = Client::connect(address);
            let answered = comer.stream_call(11, &fetch_request("t", 0, 0)).is_some();
            if answered {
                clients.push(comer);
            }
            answered
        });
    }
    broker.stop().unwrap();
}

#[test]
fn idle_clients_cost_little() {
    const CLIENTS: usize = 500;
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &["--threads", "2"]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    assert_progress(broker.kafka, "t");
    let before = resident_bytes(&broker);
    let mut idle: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(broker.kafka)).collect();
    // Each was served once.
    for idle in &mut idle {
        assert_eq!(idle.call(11, &fetch_request("t", 0, 0)).responses[0].partitions[0].error_code, 0);
    }
    assert_progress(broker.kafka, "t");
    wait_for("only they are connected", || total(broker.metrics, ACTIVE) == (CLIENTS + 1) as f64);
    let after = resident_bytes(&broker);
    assert!(after < before + CLIENTS * (32 << 10), "{before} bytes became {after}");
    drop(idle);
    wait_for("they have gone", || total(broker.metrics, ACTIVE) == 1.0);
}

/// What was asked on a connection.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Produce,
    Fetch,
    Metadata,
    Offsets,
}

#[test]
fn answers_keep_their_order_whatever_they_wait_for() {
    const PARTITIONS: i32 = 4;
    const REQUESTS: i32 = 3_000;
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(client.call(5, &create_request("t", PARTITIONS, &[])).topics[0].error_code, 0);
    let mut asked = Vec::new();
    let mut bytes = Vec::new();
    let mut written: Vec<Vec<String>> = vec![Vec::new(); PARTITIONS as usize];
    for id in 0..REQUESTS {
        // A walk without a pattern that a window could hide behind.
        let mixed = (id as u32).wrapping_mul(2_654_435_761) >> 16;
        let partition = (mixed >> 4) as i32 % PARTITIONS;
        match mixed % 8 {
            0..5 => {
                let acks = [-1, 1, 0, -1, -1][(mixed % 8) as usize];
                let value = format!("{partition}-{id}");
                let request = produce_request("t", partition, batch(Codec::None, &[&value])).with_acks(acks);
                bytes.extend(frame(9, id, &request));
                written[partition as usize].push(value);
                if acks != 0 {
                    asked.push((id, Asked::Produce));
                }
            }
            5 => {
                let mut request = fetch_request("t", 0, 0);
                request.topics[0].partitions[0].partition = partition;
                request.topics[0].partitions[0].partition_max_bytes = 1_000;
                bytes.extend(frame(11, id, &request));
                asked.push((id, Asked::Fetch));
            }
            6 => {
                bytes.extend(frame(9, id, &MetadataRequest::default().with_topics(None)));
                asked.push((id, Asked::Metadata));
            }
            _ => {
                bytes.extend(frame(4, id, &offsets_request("t", partition)));
                asked.push((id, Asked::Offsets));
            }
        }
    }
    let mut writing = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || writing.write_all(&bytes).unwrap());
        for (wanted, kind) in asked {
            let body = client.receive().expect("an answer");
            let (id, error) = match kind {
                Asked::Produce => {
                    let (id, answer) = decode::<ProduceRequest>(9, body);
                    (id, answer.responses[0].partition_responses[0].error_code)
                }
                Asked::Fetch => {
                    let (id, answer) = decode::<FetchRequest>(11, body);
                    (id, answer.responses[0].partitions[0].error_code)
                }
                Asked::Metadata => {
                    let (id, answer) = decode::<MetadataRequest>(9, body);
                    (id, answer.topics[0].error_code)
                }
                Asked::Offsets => {
                    let (id, answer) = decode::<ListOffsetsRequest>(4, body);
                    (id, answer.topics[0].partitions[0].error_code)
                }
            };
            assert_eq!((id, error), (wanted, 0), "{kind:?}");
        }
    });
    for (partition, written) in (0..).zip(&written) {
        // Batches without acks are behind no answer: those of another reactor may still be on their way.
        wait_for("everything is stored", || values_of(&mut client, "t", partition).len() >= written.len());
        assert_eq!(values_of(&mut client, "t", partition), *written);
    }
    broker.stop().unwrap();
}

#[test]
fn a_connection_that_moves_loses_nothing() {
    const BURST: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(client.call(5, &create_request("t", 4, &[])).topics[0].error_code, 0);
    let mut written: Vec<Vec<String>> = vec![Vec::new(); 4];
    let mut next_id = 0;
    // Long enough on each partition to be moved to its reactor; neighbours belong to different ones.
    for round in 0..80 {
        let partition = round / 10 % 4;
        let mut bytes = Vec::new();
        for number in 0..BURST {
            let value = format!("{round}-{number}");
            let request = produce_request("t", partition as i32, batch(Codec::None, &[&value]));
            bytes.extend(frame(9, next_id + number as i32, &request));
            written[partition].push(value);
        }
        client.stream.write_all(&bytes).unwrap();
        for number in 0..BURST {
            let (id, answer) = client.receive_as::<ProduceRequest>(9);
            assert_eq!(id, next_id + number as i32);
            assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
        }
        next_id += BURST as i32;
    }
    let moved = total(broker.metrics_addr().unwrap(), "hone_broker_moved_connections_total");
    assert!(moved >= 4.0, "moved {moved} times");
    for (partition, written) in (0..).zip(&written) {
        assert_eq!(values_of(&mut client, "t", partition), *written);
    }
    broker.stop().unwrap();
}
