//! Entry points of the fuzz targets in `fuzz/`. Each takes any bytes as if a broker had sent them, and panics when a decoder violates its
//! contract. They are compiled for the feature `fuzzing` and for the unit tests.

use bytes::Bytes;
use hone_kafka::{Frame, batch, batches, codec, parse_produce_response_v7, records};
use kafka_protocol::messages::{
    AddOffsetsToTxnResponse, AddPartitionsToTxnResponse, AlterShareGroupOffsetsResponse, ApiKey,
    ApiVersionsResponse, ConsumerGroupDescribeResponse, ConsumerGroupHeartbeatResponse, CreateTopicsResponse,
    DeleteGroupsResponse, DeleteTopicsResponse, DescribeConfigsResponse, DescribeGroupsResponse,
    DescribeQuorumResponse, EndTxnResponse, FetchResponse, FindCoordinatorResponse, HeartbeatResponse,
    IncrementalAlterConfigsResponse, InitProducerIdResponse, JoinGroupResponse, LeaveGroupResponse,
    ListGroupsResponse, ListOffsetsResponse, MetadataResponse, OffsetCommitResponse, OffsetFetchResponse,
    ProduceResponse, SaslAuthenticateResponse, SaslHandshakeResponse, ShareFetchResponse,
    ShareGroupHeartbeatResponse, SyncGroupResponse, TxnOffsetCommitResponse,
};

use crate::fetch::{parse_ends, parse_fetched};
use crate::line::decode;
use crate::security::Exchange;

/// A target: it takes bytes and panics when something is wrong.
pub type Target = fn(&[u8]);

/// Every target by its name, which is also the name of its corpus.
pub const TARGETS: [(&str, Target); 4] =
    [("answers", answers), ("acks", acks), ("fetched", fetched), ("login", login)];

/// Limit of a decompressed batch in these tests.
const UNPACK_LIMIT_BYTES: usize = 1 << 20;

/// A byte that names the request, then the body of the answer's frame.
pub fn answers(data: &[u8]) {
    let Some((which, body)) = data.split_first() else { return };
    let body = Bytes::copy_from_slice(body);
    let correlation_id = body.first_chunk().map_or(0, |id| i32::from_be_bytes(*id));
    macro_rules! decode_as {
        ($($number:literal: $key:ident $version:literal $answer:ident,)*) => {
            match which % 35 {
                $($number => drop(decode::<$answer>(ApiKey::$key, $version, correlation_id, body)),)*
                _ => {}
            }
        };
    }
    decode_as! {
        0: Metadata 7 MetadataResponse,
        1: CreateTopics 4 CreateTopicsResponse,
        2: DeleteTopics 3 DeleteTopicsResponse,
        3: Fetch 11 FetchResponse,
        4: ListOffsets 2 ListOffsetsResponse,
        5: InitProducerId 1 InitProducerIdResponse,
        6: DescribeConfigs 2 DescribeConfigsResponse,
        7: ApiVersions 0 ApiVersionsResponse,
        8: ApiVersions 3 ApiVersionsResponse,
        9: SaslHandshake 1 SaslHandshakeResponse,
        10: SaslAuthenticate 1 SaslAuthenticateResponse,
        11: IncrementalAlterConfigs 0 IncrementalAlterConfigsResponse,
        12: FindCoordinator 2 FindCoordinatorResponse,
        13: OffsetFetch 5 OffsetFetchResponse,
        14: DescribeQuorum 0 DescribeQuorumResponse,
        15: OffsetCommit 5 OffsetCommitResponse,
        16: DeleteGroups 1 DeleteGroupsResponse,
        17: ListGroups 1 ListGroupsResponse,
        18: DescribeGroups 2 DescribeGroupsResponse,
        19: ConsumerGroupDescribe 0 ConsumerGroupDescribeResponse,
        20: JoinGroup 5 JoinGroupResponse,
        21: SyncGroup 3 SyncGroupResponse,
        22: Heartbeat 3 HeartbeatResponse,
        23: LeaveGroup 2 LeaveGroupResponse,
        24: OffsetCommit 9 OffsetCommitResponse,
        25: ConsumerGroupHeartbeat 0 ConsumerGroupHeartbeatResponse,
        26: Metadata 12 MetadataResponse,
        27: Produce 7 ProduceResponse,
        28: AddPartitionsToTxn 1 AddPartitionsToTxnResponse,
        29: AddOffsetsToTxn 1 AddOffsetsToTxnResponse,
        30: TxnOffsetCommit 2 TxnOffsetCommitResponse,
        31: EndTxn 1 EndTxnResponse,
        32: ShareGroupHeartbeat 1 ShareGroupHeartbeatResponse,
        33: ShareFetch 1 ShareFetchResponse,
        34: AlterShareGroupOffsets 0 AlterShareGroupOffsetsResponse,
    }
}

/// A stream of acknowledgements.
pub fn acks(data: &[u8]) {
    let mut rest = data;
    while let Frame::Complete { body, consumed_bytes } = Frame::split(rest, 1 << 20) {
        if let Ok(answer) = parse_produce_response_v7(body) {
            let refused = answer.partitions().find(|ack| ack.error_code != 0);
            assert_eq!(refused.map_or(0, |ack| ack.error_code), answer.first_error_code);
        }
        rest = &rest[consumed_bytes..];
    }
}

/// The body of a Fetch answer with its batches and records, and the same bytes as a ListOffsets answer.
pub fn fetched(data: &[u8]) {
    let topic = "t".into();
    let _ = parse_ends(data, &topic);
    let _ = parse_fetched(data, &topic, |found| {
        for found in batches(found.record_set).map_while(Result::ok) {
            let _ = batch::verify_crc(found.bytes);
            if let Ok(plain) = codec::decompress(found.header.codec(), found.payload(), UNPACK_LIMIT_BYTES) {
                let _ = records(&plain, found.header.record_count).take_while(Result::is_ok).count();
            }
        }
    });
}

/// The challenge and the last message of a SCRAM exchange, with a zero byte between.
pub fn login(data: &[u8]) {
    let (challenge, last) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[][..]),
    };
    // Many iterations are valid by design, so they are not a finding.
    let text = String::from_utf8_lossy(challenge);
    if text.split(",i=").nth(1).is_some_and(|count| count.len() > 3) {
        return;
    }
    let (_, exchange) = Exchange::begin(crate::security::Hash::Sha256, "user", "nonce");
    if let Ok((_, expected)) = exchange.prove("password", challenge) {
        assert!(expected.check(last).is_err(), "a proof without the password");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    use bytes::BytesMut;
    use hone_kafka::{BatchBuilder, Codec};
    use kafka_protocol::messages::add_partitions_to_txn_response::{
        AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
    };
    use kafka_protocol::messages::api_versions_response::{ApiVersion, SupportedFeatureKey};
    use kafka_protocol::messages::consumer_group_describe_response as kip_848;
    use kafka_protocol::messages::consumer_group_heartbeat_response as heartbeat;
    use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
    use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
    use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
    use kafka_protocol::messages::describe_configs_response::{
        DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
    };
    use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
    use kafka_protocol::messages::describe_quorum_response::{self as quorum, ReplicaState};
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction, FetchableTopicResponse, PartitionData,
    };
    use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
    use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
    use kafka_protocol::messages::list_groups_response::ListedGroup;
    use kafka_protocol::messages::list_offsets_response::{
        ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
    };
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::offset_commit_response::{
        OffsetCommitResponsePartition, OffsetCommitResponseTopic,
    };
    use kafka_protocol::messages::offset_fetch_response::{
        OffsetFetchResponsePartition, OffsetFetchResponseTopic,
    };
    use kafka_protocol::messages::produce_response::{PartitionProduceResponse, TopicProduceResponse};
    use kafka_protocol::messages::txn_offset_commit_response::{
        TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
    };
    use kafka_protocol::messages::{BrokerId, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};
    use proptest::prelude::*;

    /// Notes the largest piece of memory that this thread asks for.
    struct Watching;

    thread_local! {
        static LARGEST: Cell<usize> = const { Cell::new(0) };
    }

    // SAFETY: every call is forwarded unchanged to the system's allocator.
    unsafe impl GlobalAlloc for Watching {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(layout.size())));
            // SAFETY: the caller keeps the contract of `alloc`.
            unsafe { System.alloc(layout) }
        }
        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            // SAFETY: the caller keeps the contract of `dealloc`.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    #[global_allocator]
    static WATCHING: Watching = Watching;

    fn text(text: &str) -> StrBytes {
        StrBytes::from_string(text.to_owned())
    }

    fn topic(name: &str) -> TopicName {
        TopicName(text(name))
    }

    fn encoded(which: u8, version: i16, answer: &impl Encodable) -> Vec<u8> {
        let mut body = BytesMut::from(&[0, 0, 0, 7][..]);
        answer.encode(&mut body, version).unwrap();
        [&[which], &body[..]].concat()
    }

    fn record_set() -> Bytes {
        let mut set = Vec::new();
        for codec in Codec::ALL {
            let mut builder = BatchBuilder::new(codec);
            (0..3).for_each(|at| builder.push(Some(b"key"), Some(&[at; 40]), 1_000));
            set.extend(builder.build().unwrap());
        }
        Bytes::from(set)
    }

    /// A whole answer of every kind, as a broker would give it.
    fn samples() -> Vec<(Target, Vec<u8>)> {
        let mut all = samples_of_records();
        all.extend(samples_of_groups().map(|data| (answers as Target, data)));
        all
    }

    fn samples_of_groups() -> [Vec<u8>; 18] {
        let synced = SyncGroupResponse::default().with_assignment(Bytes::from_static(&[0; 10]));
        [
            encoded(17, 1, &listed()),
            encoded(18, 2, &described()),
            described_of_kip_848(),
            encoded(20, 5, &joined()),
            encoded(21, 3, &synced),
            encoded(22, 3, &HeartbeatResponse::default()),
            encoded(23, 2, &LeaveGroupResponse::default()),
            with_header_tags(encoded(24, 9, &noted())),
            beat(),
            with_header_tags(encoded(26, 12, &metadata())),
            encoded(27, 7, &produced()),
            encoded(28, 1, &added()),
            encoded(29, 1, &AddOffsetsToTxnResponse::default()),
            encoded(30, 2, &committed_in_transaction()),
            encoded(31, 1, &EndTxnResponse::default()),
            with_header_tags(encoded(32, 1, &shared_beat())),
            with_header_tags(encoded(33, 1, &shared())),
            with_header_tags(encoded(34, 0, &placed())),
        ]
    }

    fn shared_beat() -> ShareGroupHeartbeatResponse {
        use kafka_protocol::messages::share_group_heartbeat_response::{Assignment, TopicPartitions};

        let of = TopicPartitions::default().with_partitions(vec![0, 1]);
        ShareGroupHeartbeatResponse::default()
            .with_member_id(Some(text("m")))
            .with_assignment(Some(Assignment::default().with_topic_partitions(vec![of])))
    }

    fn shared() -> ShareFetchResponse {
        use kafka_protocol::messages::share_fetch_response::{
            AcquiredRecords, NodeEndpoint, PartitionData, ShareFetchableTopicResponse,
        };

        let partition = PartitionData::default()
            .with_error_message(Some(text("no")))
            .with_records(Some(record_set()))
            .with_acquired_records(vec![AcquiredRecords::default(); 2]);
        let topic = ShareFetchableTopicResponse::default().with_partitions(vec![partition]);
        ShareFetchResponse::default()
            .with_responses(vec![topic])
            .with_node_endpoints(vec![NodeEndpoint::default().with_host(text("host"))])
    }

    fn placed() -> AlterShareGroupOffsetsResponse {
        use kafka_protocol::messages::alter_share_group_offsets_response::{
            AlterShareGroupOffsetsResponsePartition, AlterShareGroupOffsetsResponseTopic,
        };

        let partition =
            AlterShareGroupOffsetsResponsePartition::default().with_error_message(Some(text("no")));
        let topic = AlterShareGroupOffsetsResponseTopic::default()
            .with_topic_name(topic("t"))
            .with_partitions(vec![partition]);
        AlterShareGroupOffsetsResponse::default().with_responses(vec![topic])
    }

    fn metadata() -> MetadataResponse {
        let partition = MetadataResponsePartition::default()
            .with_leader_id(BrokerId(1))
            .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
            .with_isr_nodes(vec![BrokerId(1)]);
        MetadataResponse::default()
            .with_brokers(vec![
                MetadataResponseBroker::default().with_host(text("host")).with_rack(Some(text("r"))),
            ])
            .with_cluster_id(Some(text("cluster")))
            .with_topics(vec![
                MetadataResponseTopic::default()
                    .with_name(Some(topic("t")))
                    .with_partitions(vec![partition.clone(), partition]),
            ])
    }

    fn samples_of_records() -> Vec<(Target, Vec<u8>)> {
        let created = CreateTopicsResponse::default().with_topics(vec![
            CreatableTopicResult::default().with_name(topic("t")).with_error_message(Some(text("no"))),
        ]);
        let deleted = DeleteTopicsResponse::default()
            .with_responses(vec![DeletableTopicResult::default().with_name(Some(topic("t")))]);
        let fetch = FetchResponse::default().with_responses(vec![
            FetchableTopicResponse::default().with_topic(topic("t")).with_partitions(vec![
                PartitionData::default()
                    .with_aborted_transactions(Some(vec![AbortedTransaction::default()]))
                    .with_records(Some(record_set())),
            ]),
        ]);
        let ends = ListOffsetsResponse::default().with_topics(vec![
            ListOffsetsTopicResponse::default()
                .with_name(topic("t"))
                .with_partitions(vec![ListOffsetsPartitionResponse::default()]),
        ]);
        let synonym = DescribeConfigsSynonym::default().with_name(text("n")).with_value(Some(text("v")));
        let configs = DescribeConfigsResponse::default().with_results(vec![
            DescribeConfigsResult::default().with_resource_name(text("1")).with_configs(vec![
                DescribeConfigsResourceResult::default()
                    .with_name(text("n"))
                    .with_value(Some(text("v")))
                    .with_synonyms(vec![synonym]),
            ]),
        ]);
        let versions = ApiVersionsResponse::default().with_api_keys(vec![ApiVersion::default(); 3]);
        let feature = SupportedFeatureKey::default().with_name(text("metadata.version"));
        let features = versions.clone().with_supported_features(vec![feature]);
        let handshake = SaslHandshakeResponse::default().with_mechanisms(vec![text("PLAIN"), text("OTHER")]);
        let login_answer = SaslAuthenticateResponse::default()
            .with_error_message(Some(text("no")))
            .with_auth_bytes(Bytes::from_static(b"r=nonce1,s=AAAA,i=1"));
        let ack = [
            &[0, 0, 0, 56, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1][..],
            &[0, 0, 0, 0, 0, 6],
            &[0; 24],
            &[0; 4],
        ]
        .concat();
        let ack = [&((ack.len() - 4) as u32).to_be_bytes(), &ack[4..]].concat();
        let fetched_body = encoded(3, 11, &fetch)[1..].to_vec();
        vec![
            (answers as Target, encoded(0, 7, &metadata())),
            (answers, encoded(1, 4, &created)),
            (answers, encoded(2, 3, &deleted)),
            (answers, encoded(3, 11, &fetch)),
            (answers, encoded(4, 2, &ends)),
            (answers, encoded(5, 1, &InitProducerIdResponse::default())),
            (answers, encoded(6, 2, &configs)),
            (answers, encoded(7, 0, &versions)),
            (answers, encoded(8, 3, &features)),
            (answers, encoded(9, 1, &handshake)),
            (answers, encoded(10, 1, &login_answer)),
            (acks, [ack.clone(), ack].concat()),
            (fetched, fetched_body),
            (login, b"r=nonce1,s=AAAA,i=1\0v=AAAA".to_vec()),
            (answers, encoded(12, 2, &FindCoordinatorResponse::default().with_host(text("host")))),
            (answers, encoded(13, 5, &committed())),
            (answers, quorum()),
            (answers, encoded(15, 5, &noted())),
            (answers, encoded(16, 1, &forgotten())),
            (answers, encoded(11, 0, &altered())),
        ]
    }

    fn altered() -> IncrementalAlterConfigsResponse {
        let resource = AlterConfigsResourceResponse::default()
            .with_error_message(Some(text("no")))
            .with_resource_name(text("t"));
        IncrementalAlterConfigsResponse::default().with_responses(vec![resource])
    }

    fn noted() -> OffsetCommitResponse {
        let partitions = vec![OffsetCommitResponsePartition::default()];
        let of = OffsetCommitResponseTopic::default().with_name(topic("t")).with_partitions(partitions);
        OffsetCommitResponse::default().with_topics(vec![of])
    }

    fn forgotten() -> DeleteGroupsResponse {
        let result = DeletableGroupResult::default().with_group_id(text("g").into());
        DeleteGroupsResponse::default().with_results(vec![result])
    }

    fn committed() -> OffsetFetchResponse {
        let partition = OffsetFetchResponsePartition::default().with_metadata(Some(text("m")));
        OffsetFetchResponse::default().with_topics(vec![
            OffsetFetchResponseTopic::default().with_name(topic("t")).with_partitions(vec![partition]),
        ])
    }

    fn quorum() -> Vec<u8> {
        let voters = vec![ReplicaState::default(); 3];
        let partition = quorum::PartitionData::default().with_current_voters(voters);
        let told = DescribeQuorumResponse::default().with_topics(vec![
            quorum::TopicData::default().with_topic_name(topic("t")).with_partitions(vec![partition]),
        ]);
        with_header_tags(encoded(14, 0, &told))
    }

    fn listed() -> ListGroupsResponse {
        let group =
            ListedGroup::default().with_group_id(text("g").into()).with_protocol_type(text("consumer"));
        ListGroupsResponse::default().with_groups(vec![group.clone(), group])
    }

    fn described() -> DescribeGroupsResponse {
        let member = DescribedGroupMember::default()
            .with_member_id(text("m"))
            .with_client_id(text("c"))
            .with_client_host(text("/127.0.0.1"))
            .with_member_assignment(Bytes::from_static(&[0, 1, 0, 0, 0, 0]));
        let group = DescribedGroup::default()
            .with_group_id(text("g").into())
            .with_group_state(text("Stable"))
            .with_members(vec![member]);
        DescribeGroupsResponse::default().with_groups(vec![group])
    }

    fn described_of_kip_848() -> Vec<u8> {
        let of = kip_848::TopicPartitions::default().with_topic_name(topic("t")).with_partitions(vec![0, 1]);
        let assignment = kip_848::Assignment::default().with_topic_partitions(vec![of]);
        let member = kip_848::Member::default()
            .with_member_id(text("m"))
            .with_client_host(text("/127.0.0.1"))
            .with_subscribed_topic_names(vec![topic("t")])
            .with_assignment(assignment.clone())
            .with_target_assignment(assignment);
        let group =
            kip_848::DescribedGroup::default().with_group_id(text("g").into()).with_members(vec![member]);
        let told = ConsumerGroupDescribeResponse::default().with_groups(vec![group]);
        with_header_tags(encoded(19, 0, &told))
    }

    fn joined() -> JoinGroupResponse {
        let member = JoinGroupResponseMember::default()
            .with_member_id(text("m"))
            .with_metadata(Bytes::from_static(&[0, 0, 0, 0, 0, 0]));
        JoinGroupResponse::default()
            .with_protocol_name(Some(text("roundrobin")))
            .with_leader(text("m"))
            .with_member_id(text("m"))
            .with_members(vec![member])
    }

    fn produced() -> ProduceResponse {
        let partitions = vec![PartitionProduceResponse::default(), PartitionProduceResponse::default()];
        let topic =
            TopicProduceResponse::default().with_name(topic("t")).with_partition_responses(partitions);
        ProduceResponse::default().with_responses(vec![topic])
    }

    fn added() -> AddPartitionsToTxnResponse {
        let topic = AddPartitionsToTxnTopicResult::default()
            .with_name(topic("t"))
            .with_results_by_partition(vec![AddPartitionsToTxnPartitionResult::default()]);
        AddPartitionsToTxnResponse::default().with_results_by_topic_v3_and_below(vec![topic])
    }

    fn committed_in_transaction() -> TxnOffsetCommitResponse {
        let topic = TxnOffsetCommitResponseTopic::default()
            .with_name(topic("t"))
            .with_partitions(vec![TxnOffsetCommitResponsePartition::default()]);
        TxnOffsetCommitResponse::default().with_topics(vec![topic])
    }

    fn beat() -> Vec<u8> {
        let of = heartbeat::TopicPartitions::default().with_partitions(vec![0, 1]);
        let assignment = heartbeat::Assignment::default().with_topic_partitions(vec![of]);
        let told = ConsumerGroupHeartbeatResponse::default()
            .with_member_id(Some(text("m")))
            .with_assignment(Some(assignment));
        with_header_tags(encoded(25, 0, &told))
    }

    /// Behind its correlation id stands an empty list of the header's tags.
    fn with_header_tags(mut bytes: Vec<u8>) -> Vec<u8> {
        bytes.insert(5, 0);
        bytes
    }

    /// Runs a target; the largest piece of memory it asked for.
    fn largest(target: Target, data: &[u8]) -> usize {
        LARGEST.with(|largest| largest.set(0));
        target(data);
        LARGEST.with(Cell::get)
    }

    /// A decoded element is larger than its bytes, but within limits. Decompressed batches have a limit of their own.
    fn allowed(data: &[u8]) -> usize {
        256 * data.len() + 4 * UNPACK_LIMIT_BYTES
    }

    #[test]
    fn every_answer_that_is_known_has_a_sample() {
        let all = samples();
        let is_sampled = |which: usize| {
            all.iter().any(|(target, data)| {
                std::ptr::fn_addr_eq(*target, answers as Target) && usize::from(data[0]) == which
            })
        };
        for (which, known) in crate::shape::KNOWN.iter().enumerate() {
            assert!(is_sampled(which), "{:?} {}", known.0, known.1);
        }
    }

    #[test]
    fn whole_answers_are_decoded() {
        for (index, (target, data)) in samples().into_iter().enumerate() {
            target(&data);
            if let Some((which, body)) = data.split_first().filter(|_| !(11..14).contains(&index)) {
                let known = crate::shape::KNOWN[usize::from(*which)];
                assert_eq!(crate::shape::check(known.0, known.1, &body[4..]), Ok(known.1), "{:?}", known.0);
            }
        }
    }

    #[test]
    fn every_single_damaged_byte_is_survived_without_much_memory() {
        for (target, data) in samples() {
            for position in 0..data.len() {
                for byte in [0, 1, 0x7f, 0x80, 0xff, data[position] ^ 1] {
                    let mut damaged = data.clone();
                    damaged[position] = byte;
                    assert!(largest(target, &damaged) <= allowed(&data), "byte {position} as {byte}");
                }
                target(&data[..position]);
            }
        }
    }

    proptest! {
        #[test]
        fn damage_anywhere_is_survived_without_much_memory(
            which in 0_usize..29,
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
            cut in proptest::option::of(any::<prop::sample::Index>()),
            more in proptest::collection::vec(any::<u8>(), 0..16),
        ) {
            let (target, mut data) = samples().swap_remove(which);
            for (at, byte) in changes {
                let at = at.index(data.len());
                data[at] = byte;
            }
            if let Some(cut) = cut {
                data.truncate(cut.index(data.len()));
            }
            data.extend(more);
            prop_assert!(largest(target, &data) <= allowed(&data));
        }

        #[test]
        fn noise_is_survived(which in 0_usize..4, data in proptest::collection::vec(any::<u8>(), 0..400)) {
            let (_, target) = TARGETS[which];
            prop_assert!(largest(target, &data) <= allowed(&data));
        }
    }

    /// Writes the samples where the fuzzer begins. `cargo test -p hone-load --lib seeds -- --ignored`
    #[test]
    #[ignore = "writes into the repository"]
    fn seeds() {
        for (index, (target, data)) in samples().into_iter().enumerate() {
            let is_it = |(_, known): &&(&str, Target)| std::ptr::fn_addr_eq(*known, target);
            let (name, _) = TARGETS.iter().find(is_it).unwrap();
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(format!("sample-{index:02}")), data).unwrap();
        }
    }

    /// Earlier findings of the fuzzer stay in the tests.
    #[test]
    fn corpora_are_survived() {
        for (name, target) in TARGETS {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
            let inputs: Vec<_> = std::fs::read_dir(&folder).unwrap().collect();
            assert!(!inputs.is_empty(), "{}", folder.display());
            for input in inputs {
                target(&std::fs::read(input.unwrap().path()).unwrap());
            }
        }
    }
}
