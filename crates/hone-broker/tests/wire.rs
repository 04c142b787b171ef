//! The broker from a raw socket: order, limits, garbage.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use hone_kafka::Codec;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{
    ApiVersionsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest,
};
use support::*;

/// Sends raw bytes and reads until the broker closes. `true` when it closed without an answer.
fn is_closed_after(address: std::net::SocketAddr, bytes: &[u8]) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = Vec::new();
    // A reset is a close, too: bytes that the broker did not read may be left.
    let _ = stream.read_to_end(&mut answer);
    answer.is_empty()
}

#[test]
fn garbage_closes_its_connection_and_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let address = broker.kafka_addr();
    let mut bystander = Client::connect(address);
    create(&mut bystander, "t", &[]);
    let unknown_api = [0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
    let unknown_version = [0, 0, 0, 10, 0, 3, 0, 99, 0, 0, 0, 1, 0xff, 0xff];
    let huge_array = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff];
    let cases: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &i32::MAX.to_be_bytes(),
        &[0, 0, 0, 0],
        &unknown_api,
        &unknown_version,
        &huge_array,
    ];
    for bytes in cases {
        assert!(is_closed_after(address, bytes), "{bytes:?}");
    }
    assert_eq!(produce(&mut bystander, "t", batch(Codec::None, &["still here"])).error_code, 0);
    let metrics = broker.metrics_addr().unwrap();
    let errors = |shard| metric(metrics, &format!("hone_broker_protocol_errors_total{{shard=\"{shard}\"}}"));
    assert_eq!((errors(0) + errors(1)) as usize, cases.len());
    broker.stop().unwrap();
}

#[test]
fn a_half_frame_and_a_close_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let whole = frame(9, 1, &produce_request("t", 0, batch(Codec::None, &["x"])));
    for keep in [1, 3, 4, 20, whole.len() - 1] {
        let mut stream = TcpStream::connect(broker.kafka_addr()).unwrap();
        stream.write_all(&whole[..keep]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "{keep}");
    }
    assert!(read_all(&mut client, "t").is_empty());
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    for byte in frame(0, 7, &ApiVersionsRequest::default()) {
        client.stream.write_all(&[byte]).unwrap();
        client.stream.flush().unwrap();
    }
    let (id, versions) = client.receive_as::<ApiVersionsRequest>(0);
    assert_eq!((id, versions.error_code), (7, 0));
}

#[test]
fn a_request_larger_than_the_read_buffer_is_served_and_one_above_the_limit_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| settings.max_request_bytes = 2 << 20);
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let large = "x".repeat(1_000_000);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &[&large])).error_code, 0);
    assert_eq!(read_all(&mut client, "t"), std::slice::from_ref(&large));
    // Above max.message.bytes, below the frame limit: an answer. Above the frame limit: no answer.
    let refused = produce(&mut client, "t", batch(Codec::None, &[&large, &large[..200_000]]));
    assert_eq!(refused.error_code, 10);
    assert!(refused.error_message.unwrap().contains("max.message.bytes"));
    let too_large = frame(9, 1, &produce_request("t", 0, batch(Codec::None, &[&large, &large, &large])));
    assert!(is_closed_after(broker.kafka_addr(), &too_large[..4]));
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_the_layout_of_version_0() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    for version in [5_i16, 99, -1] {
        let mut client = Client::connect(broker.kafka_addr());
        let mut body = vec![0, 18];
        body.extend_from_slice(&version.to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 42, 0xff, 0xff, 1, 2, 3]);
        client.stream.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
        client.stream.write_all(&body).unwrap();
        let (id, versions) = client.receive_as::<ApiVersionsRequest>(0);
        assert_eq!((id, versions.error_code), (42, 35));
        let own = versions.api_keys.iter().find(|api| api.api_key == 18).unwrap();
        assert_eq!((own.min_version, own.max_version), (0, 4));
        // The connection goes on, as clients expect.
        assert_eq!(client.call(3, &ApiVersionsRequest::default()).error_code, 0);
    }
}

#[test]
fn answers_come_in_the_order_of_their_requests_even_behind_a_long_poll() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut other = Client::connect(broker.kafka_addr());
    create(&mut other, "t", &[]);
    let mut client = Client::connect(broker.kafka_addr());
    let poll = client.send(11, &fetch_request("t", 0, 20_000));
    let metadata = client.send(9, &MetadataRequest::default());
    let versions = client.send(3, &ApiVersionsRequest::default());
    // Another connection is served meanwhile, and its records end the long poll.
    client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(client.stream.read(&mut [0; 1]).is_err(), "nothing may come before the long poll's answer");
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(produce(&mut other, "t", batch(Codec::None, &["wake up"])).error_code, 0);
    let (id, fetched) = client.receive_as::<FetchRequest>(11);
    assert_eq!(id, poll);
    assert!(!fetched.responses[0].partitions[0].records.as_ref().unwrap().is_empty());
    assert_eq!(client.receive_as::<MetadataRequest>(9).0, metadata);
    assert_eq!(client.receive_as::<ApiVersionsRequest>(3).0, versions);
}

#[test]
fn a_long_poll_without_records_ends_empty_at_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let begun = std::time::Instant::now();
    let response = client.call(11, &fetch_request("t", 0, 120));
    assert!(begun.elapsed() >= Duration::from_millis(120));
    assert!(response.responses[0].partitions[0].records.as_ref().is_none_or(bytes::Bytes::is_empty));
}

#[test]
fn a_long_poll_whose_client_left_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    for _ in 0..20 {
        Client::connect(broker.kafka_addr()).send(11, &fetch_request("t", 0, 60_000));
    }
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["x"])).error_code, 0);
    let metrics = broker.metrics_addr().unwrap();
    let open =
        |shard| metric(metrics, &format!("vectorized_kafka_rpc_active_connections{{shard=\"{shard}\"}}"));
    let begun = std::time::Instant::now();
    while open(0) + open(1) > 1.0 {
        assert!(begun.elapsed() < PATIENCE, "connections of clients that left stay open");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_long_poll_sent_together_with_a_hang_up_is_closed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    create(&mut Client::connect(broker.kafka_addr()), "t", &[]);
    // Whether request and hang-up arrive as one event or two is chance; both must end.
    for _ in 0..200 {
        let mut stream = TcpStream::connect(broker.kafka_addr()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&frame(11, 1, &fetch_request("t", 0, 60_000))).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
}

#[test]
fn many_pipelined_requests_are_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let mut writer = client.stream.try_clone().unwrap();
    // Enough answers to fill every buffer while nobody reads: the broker must stop and go on.
    let big = "x".repeat(100_000);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &[&big])).error_code, 0);
    let sender = std::thread::spawn(move || {
        for id in 0..300 {
            writer.write_all(&frame(11, id, &fetch_request("t", 0, 0))).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    for id in 0..300 {
        let (answered, response) = client.receive_as::<FetchRequest>(11);
        assert_eq!(answered, id);
        assert!(response.responses[0].partitions[0].records.as_ref().unwrap().len() > 100_000);
    }
    sender.join().unwrap();
}

#[test]
fn without_acks_there_is_no_answer_and_the_record_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    client.send(7, &produce_request("t", 0, batch(Codec::None, &["quiet"])).with_acks(0));
    assert_eq!(read_all(&mut client, "t"), ["quiet"]);
    let (_, odd) = {
        client.send(7, &produce_request("t", 0, batch(Codec::None, &["odd"])).with_acks(5));
        client.receive_as::<ProduceRequest>(7)
    };
    assert_eq!(odd.responses[0].partition_responses[0].error_code, 21);
}

#[test]
fn a_fetch_session_that_was_never_given_is_unknown() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    let response = client.call(12, &fetch_request("t", 0, 0).with_session_id(7).with_session_epoch(1));
    assert_eq!((response.error_code, response.session_id), (70, 0));
}

#[test]
fn offsets_are_listed_by_end_and_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[("retention.ms", "-1")]);
    produce(&mut client, "t", batch_at(Codec::Zstd, &["a", "b", "c"], 1_000));
    let mut look_up = |timestamp| {
        let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
        let topics = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        let response = client.call(7, &ListOffsetsRequest::default().with_topics(vec![topics]));
        let found = &response.topics[0].partitions[0];
        (found.offset, found.timestamp)
    };
    assert_eq!(look_up(-1), (3, -1));
    assert_eq!(look_up(-2), (0, -1));
    assert_eq!(look_up(-3), (2, 1_002));
    assert_eq!(look_up(1_001), (1, 1_001));
    assert_eq!(look_up(1_003), (-1, -1));
}

#[test]
fn metrics_count_what_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let bytes = batch(Codec::Lz4, &["a", "b", "c"]);
    for _ in 0..5 {
        assert_eq!(produce(&mut client, "t", bytes.clone()).error_code, 0);
    }
    let metrics = broker.metrics_addr().unwrap();
    let of =
        |name: &str| metric(metrics, &format!("{name}{{namespace=\"kafka\",topic=\"t\",partition=\"0\""));
    assert_eq!(of("vectorized_storage_log_written_bytes") as usize, 5 * bytes.len());
    assert_eq!(of("vectorized_storage_log_batches_written") as usize, 5);
    assert_eq!(of("vectorized_cluster_partition_records_produced") as usize, 15);
    let handled = metric(metrics, "vectorized_kafka_handler_requests_completed_total{handler=\"produce\"}");
    assert_eq!(handled as usize, 5);
    assert!(metric(metrics, "redpanda_cpu_busy_seconds_total{shard=\"0\"}") > 0.0);
    assert!(http_get(metrics, "/ready").starts_with("HTTP/1.1 200"));
    assert!(http_get(metrics, "/other").starts_with("HTTP/1.1 404"));
}

/// Nobody should send Produce below version 3, but those versions are advertised, so they are served. The foreign
/// encoder does not know them.
#[test]
fn the_advertised_old_versions_of_produce_are_served() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    for (version, answer_bytes) in [(0_i16, 33), (1, 37), (2, 45)] {
        let records = batch(Codec::None, &["old"]);
        let mut body = vec![0, 0];
        body.extend_from_slice(&version.to_be_bytes());
        body.extend_from_slice(&[0, 0, 0, 5, 0xff, 0xff]); // correlation id, no client id
        body.extend_from_slice(&[0xff, 0xff, 0, 0, 3, 0xe8]); // acks, timeout
        body.extend_from_slice(&[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0]); // one topic, partition 0
        body.extend_from_slice(&(records.len() as u32).to_be_bytes());
        body.extend_from_slice(&records);
        client.stream.write_all(&(body.len() as u32).to_be_bytes()).unwrap();
        client.stream.write_all(&body).unwrap();
        let answer = client.receive().unwrap();
        // Correlation id, one topic `t`, one partition: index, error, base offset.
        assert_eq!(answer.len() + 4, answer_bytes, "v{version}");
        assert_eq!(&answer[19..21], [0, 0], "v{version}");
        assert_eq!(i64::from(answer[28]), i64::from(version));
    }
    assert_eq!(read_all(&mut client, "t"), ["old", "old", "old"]);
}

#[test]
fn a_scraper_that_dawdles_does_not_hold_up_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let metrics = broker.metrics_addr().unwrap();
    let mut slow = TcpStream::connect(metrics).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // A byte at a time, never the end of a request, until it is hung up on or the test is over.
            while !stop.load(std::sync::atomic::Ordering::Relaxed) && slow.write_all(b"G").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        // Had it no limit as a whole, this would wait for as long as bytes come.
        assert!(http_get(metrics, "/ready").starts_with("HTTP/1.1 200"));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}
