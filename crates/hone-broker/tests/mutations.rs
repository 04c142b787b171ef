//! Damaged requests of every API: each may be answered or cost its connection, none may reach a panic or stop the broker.

mod support;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use hone_kafka::Codec;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
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
        in_versions(&create_request("made", 2, &[("compression.type", "lz4")]), &[4, 7]),
        in_versions(&DeleteTopicsRequest::default().with_topic_names(vec![topic("made")]), &[1, 5]),
        in_versions(&DescribeConfigsRequest::default(), &[1, 4]),
    ]
    .concat()
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
    assert!(!served.is_empty());
}

fn prepared(folder: &std::path::Path) -> hone_broker::Broker {
    let broker = broker(folder);
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
