//! Groups over the wire, as a foreign client speaks it, and over a broker that is killed.

mod support;

use std::sync::{Arc, Mutex};

use hone_broker::Notices;
use hone_kafka::Codec;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::join_group_response::JoinGroupResponse;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::StrBytes;
use support::*;

fn group() -> GroupId {
    GroupId(text("g"))
}

/// JoinGroup in the newest version, with or without an id.
fn join(client: &mut Client, member: &str, instance: Option<&str>) -> JoinGroupResponse {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata("meta".into());
    let request = JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(30_000)
        .with_rebalance_timeout_ms(30_000)
        .with_member_id(text(member))
        .with_group_instance_id(instance.map(text))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol]);
    let response = client.call(9, &request);
    if response.error_code == 79 { join(client, &response.member_id, instance) } else { response }
}

fn sync(
    client: &mut Client,
    joined: &JoinGroupResponse,
    plan: &[(&StrBytes, &'static str)],
) -> (i16, Vec<u8>) {
    let assignments = plan
        .iter()
        .map(|(member, assignment)| {
            SyncGroupRequestAssignment::default()
                .with_member_id((*member).clone())
                .with_assignment((*assignment).into())
        })
        .collect();
    let request = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_assignments(assignments);
    let response = client.call(4, &request);
    (response.error_code, response.assignment.to_vec())
}

fn heartbeat(client: &mut Client, joined: &JoinGroupResponse, instance: Option<&str>) -> i16 {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(joined.generation_id)
        .with_member_id(joined.member_id.clone())
        .with_group_instance_id(instance.map(text));
    client.call(4, &request).error_code
}

/// Commits one offset of partition 0 of `t`, with a generation or member epoch.
fn commit(client: &mut Client, offset: i64, member: &str, epoch: i32, metadata: &str) -> i16 {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(offset)
        .with_committed_metadata(Some(text(metadata)));
    let topics = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_member_id(text(member))
        .with_generation_id_or_member_epoch(epoch)
        .with_topics(vec![topics]);
    client.call(9, &request).topics[0].partitions[0].error_code
}

/// The offset of partition 0 of `t`, or what is wrong with the group.
fn committed(client: &mut Client, member: Option<&str>, epoch: i32) -> Result<i64, i16> {
    let topics = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_member_id(member.map(text))
        .with_member_epoch(epoch)
        .with_topics(Some(vec![topics]));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]).with_require_stable(true);
    let found = client.call(9, &request).groups.remove(0);
    match found.error_code {
        0 => Ok(found.topics[0].partitions[0].committed_offset),
        error => Err(error),
    }
}

#[test]
fn a_commit_behind_the_end_of_its_log_is_set_back_after_an_outage_only() {
    let folder = tempfile::tempdir().unwrap();
    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    create(&mut client, "t", &[]);
    assert_eq!(produce(&mut client, "t", batch(Codec::None, &["a", "b", "c"])).base_offset, 0);
    // As after a loss of power: the commit was durable, what it had read was not.
    assert_eq!(commit(&mut client, 9, "", -1, "kept"), 0);
    assert_eq!(committed(&mut client, None, -1), Ok(9));
    drop(client);
    running.stop().unwrap();
    assert!(!folder.path().join("running").exists());

    let running = broker(folder.path());
    let mut client = Client::connect(running.kafka_addr());
    assert_eq!(committed(&mut client, None, -1), Ok(9));
    drop(client);
    running.stop().unwrap();
    // What a broker leaves behind that ran when its machine went down.
    std::fs::write(folder.path().join("running"), "another boot\n").unwrap();

    let said = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&said);
    let notices = Notices::to(move |notice| sink.lock().unwrap().push(notice.to_owned()));
    let running = broker_with(folder.path(), |settings| settings.notices = notices);
    let mut client = Client::connect(running.kafka_addr());
    assert_eq!(committed(&mut client, None, -1), Ok(3));
    let said = said.lock().unwrap();
    assert!(matches!(&said[..], [one] if one.contains("group g, t-0 from 9 to 3")), "{said:?}");
}

#[test]
fn what_was_acknowledged_outlives_a_killed_broker() {
    let folder = tempfile::tempdir().unwrap();
    let mut broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    let joined = join(&mut client, "", None);
    assert_eq!(sync(&mut client, &joined, &[(&joined.member_id, "mine")]), (0, b"mine".to_vec()));
    for offset in 1..=20 {
        assert_eq!(commit(&mut client, offset, &joined.member_id, joined.generation_id, ""), 0);
        if offset % 5 == 0 {
            broker.kill_9();
            broker = Process::start(folder.path(), &[]);
            client = Client::connect(broker.kafka);
            assert_eq!(committed(&mut client, None, -1), Ok(offset));
            assert_eq!(heartbeat(&mut client, &joined, None), 0, "the group goes on where it was");
            assert_eq!(sync(&mut client, &joined, &[]), (0, b"mine".to_vec()));
        }
    }
}

#[test]
fn many_commits_on_many_connections_are_all_answered_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    assert_eq!(create(&mut Client::connect(broker.kafka), "t", &[]).0, 0);
    let address = broker.kafka;
    let threads: Vec<_> = (0..8)
        .map(|at| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for round in 0..50 {
                    assert_eq!(commit(&mut client, at * 1000 + round, "", -1, ""), 0);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let before = committed(&mut Client::connect(address), None, -1).unwrap();
    assert_eq!(before % 1000, 49, "the last one of some connection");
    broker.kill_9();
    let broker = Process::start(folder.path(), &[]);
    assert_eq!(committed(&mut Client::connect(broker.kafka), None, -1), Ok(before));
}

#[test]
fn commits_that_may_not_be_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker(folder.path());
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(commit(&mut client, 1, "", -1, ""), 3, "there is no topic");
    assert_eq!(create(&mut client, "t", &[]).0, 0);
    assert_eq!(commit(&mut client, 1, "", -1, &"x".repeat(4096)), 0);
    assert_eq!(commit(&mut client, 2, "", -1, &"x".repeat(4097)), 12);
    assert_eq!(commit(&mut client, 2, "nobody", 4, ""), 69);
    assert_eq!(committed(&mut client, None, -1), Ok(1));
}

#[test]
fn a_static_member_comes_back_without_a_rebalance_even_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    let first = join(&mut client, "", Some("one"));
    assert_eq!(first.error_code, 0);
    let plan = [(&first.member_id, "mine")];
    assert_eq!(sync(&mut client, &first, &plan), (0, b"mine".to_vec()));
    broker.kill_9();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    let again = join(&mut client, "", Some("one"));
    assert_eq!((again.error_code, again.generation_id), (0, first.generation_id));
    assert!(again.member_id != first.member_id && again.skip_assignment);
    assert_eq!(sync(&mut client, &again, &[]), (0, b"mine".to_vec()));
    assert_eq!(heartbeat(&mut client, &first, Some("one")), 82, "the old one is fenced");
    assert_eq!(heartbeat(&mut client, &again, Some("one")), 0);
    let gone = MemberIdentity::default().with_group_instance_id(Some(text("one")));
    let leave = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![gone.clone(), gone]);
    let left = client.call(5, &leave);
    let errors: Vec<i16> = left.members.iter().map(|member| member.error_code).collect();
    assert_eq!((left.error_code, errors), (0, vec![0, 25]));
}

/// ConsumerGroupHeartbeat; returns error, epoch and the partitions where they are told.
fn beat(
    client: &mut Client,
    member: &str,
    epoch: i32,
    owned: Vec<TopicPartitions>,
) -> (i16, i32, Option<Vec<i32>>) {
    let mut request = ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group())
        .with_member_id(text(member))
        .with_member_epoch(epoch)
        .with_topic_partitions(Some(owned));
    if epoch == 0 {
        request.rebalance_timeout_ms = 30_000;
        request.subscribed_topic_names = Some(vec![topic("t")]);
    }
    let response = client.call(1, &request);
    let partitions = response.assignment.map(|assignment| {
        assignment.topic_partitions.iter().flat_map(|topic| topic.partitions.clone()).collect()
    });
    (response.error_code, response.member_epoch, partitions)
}

#[test]
fn consumers_hand_partitions_over_and_go_on_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    let made = client.call(7, &create_request("t", 4, &[]));
    let id = made.topics[0].topic_id;
    let owns = |partitions: &[i32]| {
        vec![TopicPartitions::default().with_topic_id(id).with_partitions(partitions.to_vec())]
    };
    assert_eq!(beat(&mut client, "one", 0, vec![]), (0, 1, Some(vec![0, 1, 2, 3])));
    assert_eq!(beat(&mut client, "two", 0, vec![]), (0, 2, Some(vec![])));
    let (error, epoch, kept) = beat(&mut client, "one", 1, owns(&[0, 1, 2, 3]));
    let kept = kept.unwrap();
    assert_eq!((error, epoch, kept.len()), (0, 1, 2), "two are to be given up first");
    broker.kill_9();
    let broker = Process::start(folder.path(), &[]);
    let mut client = Client::connect(broker.kafka);
    assert_eq!(beat(&mut client, "two", 2, vec![]), (0, 2, None), "they are not free yet");
    assert_eq!(beat(&mut client, "one", 1, owns(&kept)).0, 0);
    let (error, epoch, taken) = beat(&mut client, "two", 2, vec![]);
    let mut all = [kept, taken.unwrap()].concat();
    all.sort_unstable();
    assert_eq!((error, epoch, all), (0, 2, vec![0, 1, 2, 3]));
    assert_eq!(commit(&mut client, 5, "one", 2, ""), 0);
    assert_eq!(commit(&mut client, 6, "one", 1, ""), 113);
    assert_eq!(committed(&mut client, Some("one"), 2), Ok(5));
    assert_eq!(committed(&mut client, Some("one"), 1), Err(113));
    assert_eq!(join(&mut client, "", None).error_code, 23, "members of the other protocol are in it");
}

#[test]
fn groups_that_hold_too_much_refuse_more_and_go_on_over_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || broker_with(folder.path(), |settings| settings.limits.group_bytes = 2_000);
    let broker = start();
    let mut client = Client::connect(broker.kafka_addr());
    create(&mut client, "t", &[]);
    let join = |client: &mut Client, group: &str, member: &str, bytes: usize| {
        let protocol =
            JoinGroupRequestProtocol::default().with_name(text("range")).with_metadata(vec![1; bytes].into());
        let request = JoinGroupRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_session_timeout_ms(30_000)
            .with_rebalance_timeout_ms(30_000)
            .with_member_id(text(member))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol]);
        client.call(3, &request)
    };
    let beat = |client: &mut Client, names: usize| {
        let names = (0..names).map(|name| TopicName(text(&format!("topic-{name}")))).collect();
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(text("other")))
            .with_member_id(text("m"))
            .with_rebalance_timeout_ms(30_000)
            .with_subscribed_topic_names(Some(names))
            .with_topic_partitions(Some(vec![]));
        client.call(1, &request)
    };
    assert_eq!(join(&mut client, "g", "", 2_000).error_code, 44);
    let joined = join(&mut client, "g", "", 100);
    assert_eq!(joined.error_code, 0);
    assert_eq!(sync(&mut client, &joined, &[(&joined.member_id, "plan")]), (0, b"plan".to_vec()));
    let refused = beat(&mut client, 10);
    assert_eq!(refused.error_code, 44);
    assert!(refused.error_message.unwrap().contains("at most 2000"));
    broker.stop().unwrap();
    let broker = start();
    let mut client = Client::connect(broker.kafka_addr());
    assert_eq!(beat(&mut client, 10).error_code, 44, "what was read from the journal counts");
    assert_eq!(heartbeat(&mut client, &joined, None), 0);
    broker.stop().unwrap();
}
