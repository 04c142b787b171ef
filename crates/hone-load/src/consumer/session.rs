//! A share session: what a member of a share group tells a broker (KIP-932).

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::share_fetch_request::{
    AcknowledgementBatch, FetchPartition, FetchTopic, ForgottenTopic,
};
use kafka_protocol::messages::{ApiKey, GroupId, ShareFetchRequest};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use crate::fetch::FetchSize;
use crate::line::encode;
use crate::topic_set::TopicIds;

pub(super) const SHARE_FETCH_VERSION: i16 = 1;
/// Records of an answer, if a batch does not have more: Kafka's own `max.poll.records`.
const MOST_RECORDS: i32 = 500;

/// What becomes of acquired records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They were read.
    Accepted = 1,
    /// They are for another member.
    Released = 2,
}

/// A member's session with one broker.
#[derive(Debug)]
pub(super) struct ShareSession {
    group: GroupId,
    member: StrBytes,
    pub(super) ids: TopicIds,
    /// 0 begins a session.
    pub(super) epoch: i32,
    /// Partitions of the session that the broker knows.
    told: BTreeSet<i32>,
    /// What to say about acquired ranges, by partition.
    pub(super) answers: BTreeMap<i32, Vec<(i64, i64, Fate)>>,
}

impl ShareSession {
    /// A session with a broker that the member has not talked to.
    pub(super) fn new(group: &str, member: StrBytes, ids: TopicIds) -> Self {
        Self {
            group: StrBytes::from_string(group.to_owned()).into(),
            member,
            ids,
            epoch: 0,
            told: BTreeSet::new(),
            answers: BTreeMap::new(),
        }
    }

    /// Whether the broker has to hear what became of records or partitions.
    pub(super) fn has_more_to_say(&self) -> bool {
        !self.told.is_empty() || !self.answers.is_empty()
    }

    /// The next request, with its length: it acknowledges what came, and asks for more.
    pub(super) fn request(&mut self, correlation_id: i32, partitions: &[i32], size: FetchSize) -> Vec<u8> {
        let answers = std::mem::take(&mut self.answers);
        let wanted: BTreeSet<i32> = partitions.iter().copied().collect();
        let new = wanted.difference(&self.told).copied();
        let named: BTreeSet<i32> = new.chain(answers.keys().copied()).collect();
        let partition = |(index, number): (i32, i32)| {
            let said = answers.get(&number).into_iter().flatten();
            let batch = |(first, last, fate): &(i64, i64, Fate)| {
                AcknowledgementBatch::default()
                    .with_first_offset(*first)
                    .with_last_offset(*last)
                    .with_acknowledge_types(vec![*fate as i8])
            };
            FetchPartition::default()
                .with_partition_index(index)
                .with_acknowledgement_batches(said.map(batch).collect())
        };
        let topic = |(id, partitions): (Uuid, Vec<(i32, i32)>)| {
            FetchTopic::default()
                .with_topic_id(id)
                .with_partitions(partitions.into_iter().map(partition).collect())
        };
        let forgotten = |(id, partitions): (Uuid, Vec<(i32, ())>)| {
            ForgottenTopic::default()
                .with_topic_id(id)
                .with_partitions(partitions.into_iter().map(|(index, ())| index).collect())
        };
        let named = self.ids.by_topic(named.into_iter().map(|number| (number, number)));
        let gone = self.ids.by_topic(self.told.difference(&wanted).map(|number| (*number, ())));
        let request = ShareFetchRequest::default()
            .with_group_id(Some(self.group.clone()))
            .with_member_id(Some(self.member.clone()))
            .with_share_session_epoch(self.epoch)
            .with_max_wait_ms(size.wait_ms)
            .with_min_bytes(size.least_bytes)
            .with_max_bytes(size.bytes)
            .with_max_records(MOST_RECORDS)
            .with_batch_size(MOST_RECORDS)
            .with_topics(named.into_iter().map(topic).collect())
            .with_forgotten_topics_data(gone.into_iter().map(forgotten).collect());
        self.told = wanted;
        let frame = encode(ApiKey::ShareFetch, SHARE_FETCH_VERSION, correlation_id, &request);
        // Every value fits its field. A broker closes the connection for an empty request.
        frame.map(|frame| frame.to_vec()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use kafka_protocol::messages::RequestHeader;
    use kafka_protocol::protocol::Decodable as _;

    const SIZE: FetchSize =
        FetchSize { least_bytes: 1, wait_ms: 500, bytes: 9, partition_bytes: 9, is_committed: false };

    /// The partitions that a request names, each with its number of acknowledgements, and those that it forgets.
    fn sent(session: &mut ShareSession, partitions: &[i32]) -> (Vec<(i32, usize)>, Vec<i32>) {
        let mut frame = Bytes::from(session.request(3, partitions, SIZE)).split_off(4);
        let header = RequestHeader::decode(&mut frame, 2).unwrap();
        assert_eq!((header.request_api_key, header.correlation_id), (ApiKey::ShareFetch as i16, 3));
        let request = ShareFetchRequest::decode(&mut frame, SHARE_FETCH_VERSION).unwrap();
        assert!(frame.is_empty());
        let named = request.topics.iter().flat_map(|topic| &topic.partitions);
        let named = named.map(|one| (one.partition_index, one.acknowledgement_batches.len())).collect();
        let gone = request.forgotten_topics_data.iter().flat_map(|topic| topic.partitions.clone());
        (named, gone.collect())
    }

    #[test]
    fn a_session_names_what_is_new_and_what_is_gone() {
        let ids = TopicIds::new("t".into(), vec![Uuid::from_u128(7)]);
        let mut session = ShareSession::new("g", StrBytes::from_static_str("m"), ids);
        assert!(!session.has_more_to_say());
        assert_eq!(sent(&mut session, &[0, 1]), (vec![(0, 0), (1, 0)], vec![]));
        session.answers.insert(1, vec![(5, 9, Fate::Accepted), (20, 20, Fate::Released)]);
        assert_eq!(sent(&mut session, &[0, 1]), (vec![(1, 2)], vec![]));
        assert_eq!(sent(&mut session, &[1, 2]), (vec![(2, 0)], vec![0]));
        assert_eq!(sent(&mut session, &[1, 2]), (vec![], vec![]));
        assert!(session.has_more_to_say());
        assert_eq!(sent(&mut session, &[]), (vec![], vec![1, 2]));
        assert!(!session.has_more_to_say());
    }
}
