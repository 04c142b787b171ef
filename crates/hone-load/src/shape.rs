//! Walks an answer before it is decoded.
//!
//! The decoders of `kafka-protocol` reserve memory for as many elements as an array states. Twelve bytes can thus request hundreds of
//! gigabytes, which ends the process. So this code first walks an answer by its shape: it compares every length with the available bytes,
//! and reserves nothing.

use hone_kafka::{Reader, WireError};
use kafka_protocol::messages::ApiKey;

/// The next element in an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// This many bytes.
    Fixed(usize),
    /// 16-bit length, or -1 for null.
    Text,
    /// 32-bit length, or -1 for null.
    Blob,
    /// 32-bit count, or -1 for null.
    Array(&'static [Part]),
    /// Unsigned varint of the length + 1.
    CompactText,
    /// The same for bytes.
    CompactBlob,
    /// Unsigned varint of the count + 1.
    CompactArray(&'static [Part]),
    /// Tagged fields; those with a shape are walked, too.
    Tags(&'static [(u32, &'static [Part])]),
    /// One byte, and the parts if it is not negative.
    Nullable(&'static [Part]),
}

use Part::{Array, Blob, CompactArray, CompactBlob, CompactText, Fixed, Nullable, Tags, Text};

const NODES: Part = Array(&[Fixed(4)]);
const METADATA_7: &[Part] = &[
    Fixed(4),
    Array(&[Fixed(4), Text, Fixed(4), Text]),
    Text,
    Fixed(4),
    Array(&[Fixed(2), Text, Fixed(1), Array(&[Fixed(2 + 4 + 4 + 4), NODES, NODES, NODES])]),
];
const COMPACT_NODES: Part = CompactArray(&[Fixed(4)]);
const METADATA_12: &[Part] = &[
    Tags(&[]),
    Fixed(4),
    CompactArray(&[Fixed(4), CompactText, Fixed(4), CompactText, Tags(&[])]),
    CompactText,
    Fixed(4),
    CompactArray(&[
        Fixed(2),
        CompactText,
        Fixed(16 + 1),
        CompactArray(&[Fixed(2 + 4 + 4 + 4), COMPACT_NODES, COMPACT_NODES, COMPACT_NODES, Tags(&[])]),
        Fixed(4),
        Tags(&[]),
    ]),
    Tags(&[]),
];
const CREATE_TOPICS_4: &[Part] = &[Fixed(4), Array(&[Text, Fixed(2), Text])];
const DELETE_TOPICS_3: &[Part] = &[Fixed(4), Array(&[Text, Fixed(2)])];
const FETCH_11: &[Part] = &[
    Fixed(4 + 2 + 4),
    Array(&[Text, Array(&[Fixed(4 + 2 + 8 + 8 + 8), Array(&[Fixed(16)]), Fixed(4), Blob])]),
];
const LIST_OFFSETS_2: &[Part] = &[Fixed(4), Array(&[Text, Array(&[Fixed(4 + 2 + 8 + 8)])])];
const INIT_PRODUCER_ID_1: &[Part] = &[Fixed(4 + 2 + 8 + 2)];
const DESCRIBE_CONFIGS_2: &[Part] = &[
    Fixed(4),
    Array(&[Fixed(2), Text, Fixed(1), Text, Array(&[Text, Text, Fixed(3), Array(&[Text, Text, Fixed(1)])])]),
];
const API_VERSIONS_0: &[Part] = &[Fixed(2), Array(&[Fixed(6)])];
const API_VERSIONS_3: &[Part] = &[
    Fixed(2),
    CompactArray(&[Fixed(6), Tags(&[])]),
    Fixed(4),
    Tags(&[
        (0, &[CompactArray(&[CompactText, Fixed(4), Tags(&[])])]),
        (1, &[Fixed(8)]),
        (2, &[CompactArray(&[CompactText, Fixed(4), Tags(&[])])]),
        (3, &[Fixed(1)]),
    ]),
];
const INCREMENTAL_ALTER_CONFIGS_0: &[Part] = &[Fixed(4), Array(&[Fixed(2), Text, Fixed(1), Text])];
const FIND_COORDINATOR_2: &[Part] = &[Fixed(4 + 2), Text, Fixed(4), Text, Fixed(4)];
const OFFSET_FETCH_5: &[Part] =
    &[Fixed(4), Array(&[Text, Array(&[Fixed(4 + 8 + 4), Text, Fixed(2)])]), Fixed(2)];
const OFFSET_COMMIT_5: &[Part] = &[Fixed(4), Array(&[Text, Array(&[Fixed(4 + 2)])])];
const JOIN_GROUP_5: &[Part] = &[Fixed(4 + 2 + 4), Text, Text, Text, Array(&[Text, Text, Blob])];
const SYNC_GROUP_3: &[Part] = &[Fixed(4 + 2), Blob];
const HEARTBEAT_3: &[Part] = &[Fixed(4 + 2)];
const LEAVE_GROUP_2: &[Part] = &[Fixed(4 + 2)];
const OFFSET_COMMIT_9: &[Part] = &[
    Tags(&[]),
    Fixed(4),
    CompactArray(&[CompactText, CompactArray(&[Fixed(4 + 2), Tags(&[])]), Tags(&[])]),
    Tags(&[]),
];
/// Of consumer groups and of share groups.
const GROUP_HEARTBEAT: &[Part] = &[
    Tags(&[]),
    Fixed(4 + 2),
    CompactText,
    CompactText,
    Fixed(4 + 4),
    Nullable(&[CompactArray(&[Fixed(16), CompactArray(&[Fixed(4)]), Tags(&[])]), Tags(&[])]),
    Tags(&[]),
];
const LIST_GROUPS_1: &[Part] = &[Fixed(4 + 2), Array(&[Text, Text])];
const DESCRIBE_GROUPS_2: &[Part] =
    &[Fixed(4), Array(&[Fixed(2), Text, Text, Text, Text, Array(&[Text, Text, Text, Blob, Blob])])];
const DELETE_GROUPS_1: &[Part] = &[Fixed(4), Array(&[Text, Fixed(2)])];
/// Topics of an assignment; its tags follow.
const ASSIGNMENT_TOPICS: Part = CompactArray(&[Fixed(16), CompactText, CompactArray(&[Fixed(4)]), Tags(&[])]);
const REPLICAS: Part = CompactArray(&[Fixed(4 + 8), Tags(&[])]);
/// The first version whose answer header has tagged fields.
const DESCRIBE_QUORUM_0: &[Part] = &[
    Tags(&[]),
    Fixed(2),
    CompactArray(&[
        CompactText,
        CompactArray(&[Fixed(4 + 2 + 4 + 4 + 8), REPLICAS, REPLICAS, Tags(&[])]),
        Tags(&[]),
    ]),
    Tags(&[]),
];
const CONSUMER_GROUP_DESCRIBE_0: &[Part] = &[
    Tags(&[]),
    Fixed(4),
    CompactArray(&[
        Fixed(2),
        CompactText,
        CompactText,
        CompactText,
        Fixed(4 + 4),
        CompactText,
        CompactArray(&[
            CompactText,
            CompactText,
            CompactText,
            Fixed(4),
            CompactText,
            CompactText,
            CompactArray(&[CompactText]),
            CompactText,
            ASSIGNMENT_TOPICS,
            Tags(&[]),
            ASSIGNMENT_TOPICS,
            Tags(&[]),
            Tags(&[]),
        ]),
        Fixed(4),
        Tags(&[]),
    ]),
    Tags(&[]),
];
const PRODUCE_7: &[Part] = &[Array(&[Text, Array(&[Fixed(4 + 2 + 8 + 8 + 8)])]), Fixed(4)];
const ADD_PARTITIONS_TO_TXN_1: &[Part] = &[Fixed(4), Array(&[Text, Array(&[Fixed(4 + 2)])])];
const ADD_OFFSETS_TO_TXN_1: &[Part] = &[Fixed(4 + 2)];
const TXN_OFFSET_COMMIT_2: &[Part] = &[Fixed(4), Array(&[Text, Array(&[Fixed(4 + 2)])])];
const END_TXN_1: &[Part] = &[Fixed(4 + 2)];
const SHARE_FETCH_1: &[Part] = &[
    Tags(&[]),
    Fixed(4 + 2),
    CompactText,
    Fixed(4),
    CompactArray(&[
        Fixed(16),
        CompactArray(&[
            Fixed(4 + 2),
            CompactText,
            Fixed(2),
            CompactText,
            Fixed(4 + 4),
            Tags(&[]),
            CompactBlob,
            CompactArray(&[Fixed(8 + 8 + 2), Tags(&[])]),
            Tags(&[]),
        ]),
        Tags(&[]),
    ]),
    CompactArray(&[Fixed(4), CompactText, Fixed(4), CompactText, Tags(&[])]),
    Tags(&[]),
];
const ALTER_SHARE_GROUP_OFFSETS_0: &[Part] = &[
    Tags(&[]),
    Fixed(4 + 2),
    CompactText,
    CompactArray(&[CompactText, Fixed(16), CompactArray(&[Fixed(4 + 2), CompactText, Tags(&[])]), Tags(&[])]),
    Tags(&[]),
];
const SASL_HANDSHAKE_1: &[Part] = &[Fixed(2), Array(&[Text])];
const SASL_AUTHENTICATE_1: &[Part] = &[Fixed(2), Text, Blob, Fixed(8)];

/// The answers that can be decoded.
pub(crate) const KNOWN: [(ApiKey, i16, &[Part]); 35] = [
    (ApiKey::Metadata, 7, METADATA_7),
    (ApiKey::CreateTopics, 4, CREATE_TOPICS_4),
    (ApiKey::DeleteTopics, 3, DELETE_TOPICS_3),
    (ApiKey::Fetch, 11, FETCH_11),
    (ApiKey::ListOffsets, 2, LIST_OFFSETS_2),
    (ApiKey::InitProducerId, 1, INIT_PRODUCER_ID_1),
    (ApiKey::DescribeConfigs, 2, DESCRIBE_CONFIGS_2),
    (ApiKey::ApiVersions, 0, API_VERSIONS_0),
    (ApiKey::ApiVersions, 3, API_VERSIONS_3),
    (ApiKey::SaslHandshake, 1, SASL_HANDSHAKE_1),
    (ApiKey::SaslAuthenticate, 1, SASL_AUTHENTICATE_1),
    (ApiKey::IncrementalAlterConfigs, 0, INCREMENTAL_ALTER_CONFIGS_0),
    (ApiKey::FindCoordinator, 2, FIND_COORDINATOR_2),
    (ApiKey::OffsetFetch, 5, OFFSET_FETCH_5),
    (ApiKey::DescribeQuorum, 0, DESCRIBE_QUORUM_0),
    (ApiKey::OffsetCommit, 5, OFFSET_COMMIT_5),
    (ApiKey::DeleteGroups, 1, DELETE_GROUPS_1),
    (ApiKey::ListGroups, 1, LIST_GROUPS_1),
    (ApiKey::DescribeGroups, 2, DESCRIBE_GROUPS_2),
    (ApiKey::ConsumerGroupDescribe, 0, CONSUMER_GROUP_DESCRIBE_0),
    (ApiKey::JoinGroup, 5, JOIN_GROUP_5),
    (ApiKey::SyncGroup, 3, SYNC_GROUP_3),
    (ApiKey::Heartbeat, 3, HEARTBEAT_3),
    (ApiKey::LeaveGroup, 2, LEAVE_GROUP_2),
    (ApiKey::OffsetCommit, 9, OFFSET_COMMIT_9),
    (ApiKey::ConsumerGroupHeartbeat, 0, GROUP_HEARTBEAT),
    (ApiKey::Metadata, 12, METADATA_12),
    (ApiKey::Produce, 7, PRODUCE_7),
    (ApiKey::AddPartitionsToTxn, 1, ADD_PARTITIONS_TO_TXN_1),
    (ApiKey::AddOffsetsToTxn, 1, ADD_OFFSETS_TO_TXN_1),
    (ApiKey::TxnOffsetCommit, 2, TXN_OFFSET_COMMIT_2),
    (ApiKey::EndTxn, 1, END_TXN_1),
    (ApiKey::ShareGroupHeartbeat, 1, GROUP_HEARTBEAT),
    (ApiKey::ShareFetch, 1, SHARE_FETCH_1),
    (ApiKey::AlterShareGroupOffsets, 0, ALTER_SHARE_GROUP_OFFSETS_0),
];

fn shape_of(key: ApiKey, version: i16) -> Option<&'static [Part]> {
    KNOWN.iter().find(|known| (known.0, known.1) == (key, version)).map(|known| known.2)
}

/// The tagged fields of a header, with which an answer of a flexible version begins. They are skipped, since none is known.
pub(crate) fn skip_header_tags(answer: &[u8]) -> Result<usize, WireError> {
    let mut reader = Reader::new(answer);
    reader.skip_tags("the header's tags")?;
    Ok(answer.len() - reader.rest().len())
}

/// Checks that every length in an answer (after its correlation id) fits the available bytes. Returns the version of the answer, which is
/// the one to decode.
pub(crate) fn check(key: ApiKey, version: i16, answer: &[u8]) -> Result<i16, String> {
    // An older broker answers an unknown ApiVersions request in version 0, with an error code.
    let refused = key == ApiKey::ApiVersions && answer.starts_with(&[0, 35]);
    let version = if refused { 0 } else { version };
    let shape =
        shape_of(key, version).ok_or_else(|| format!("the shape of {key:?} v{version} is not known here"))?;
    let mut reader = Reader::new(answer);
    walk(&mut reader, shape).and_then(|()| reader.finish()).map_err(|error| error.to_string())?;
    Ok(version)
}

fn walk(reader: &mut Reader<'_>, shape: &[Part]) -> Result<(), WireError> {
    shape.iter().try_for_each(|part| step(reader, part))
}

fn step(reader: &mut Reader<'_>, part: &Part) -> Result<(), WireError> {
    match part {
        Fixed(bytes) => reader.take(*bytes, "a field").map(|_| ()),
        Text => reader.nullable_string("a text").map(|_| ()),
        Blob => reader.nullable_bytes("a field of bytes").map(|_| ()),
        CompactText => reader.compact_nullable_string("a text").map(|_| ()),
        CompactBlob => reader.compact_nullable_bytes("a field of bytes").map(|_| ()),
        Array(element) => {
            let count = reader.array_length(least_bytes(element), "an array")?;
            (0..count).try_for_each(|_| walk(reader, element))
        }
        CompactArray(element) => {
            let count = reader.compact_nullable_array_length(least_bytes(element), "an array")?;
            (0..count.unwrap_or(0)).try_for_each(|_| walk(reader, element))
        }
        Tags(known) => tags(reader, known),
        Nullable(parts) => match reader.i8("whether a field is there")? {
            ..0 => Ok(()),
            _ => walk(reader, parts),
        },
    }
}

fn tags(reader: &mut Reader<'_>, known: &[(u32, &'static [Part])]) -> Result<(), WireError> {
    let count = reader.unsigned_varint("the number of tags")?;
    for _ in 0..count {
        let tag = reader.unsigned_varint("a tag")?;
        let length = reader.unsigned_varint("a tag's length")?;
        let body = reader.take(length as usize, "a tagged field")?;
        if let Some((_, shape)) = known.iter().find(|(number, _)| *number == tag) {
            let mut inner = Reader::new(body);
            walk(&mut inner, shape)?;
            inner.finish()?;
        }
    }
    Ok(())
}

fn least_bytes(shape: &[Part]) -> usize {
    let least = |part: &Part| match part {
        Fixed(bytes) => *bytes,
        Text => 2,
        Blob | Array(_) => 4,
        CompactText | CompactBlob | CompactArray(_) | Tags(_) | Nullable(_) => 1,
    };
    shape.iter().map(least).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twelve_bytes_that_ask_for_gigabytes_are_refused() {
        let answer = [0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];
        let problem = check(ApiKey::Metadata, 7, &answer).unwrap_err();
        assert!(problem.contains("an array has the invalid length 2147483647"), "{problem}");
        // A tag that says that its array is long.
        let mut answer = vec![0, 0, 1, 0, 0, 0, 0, 1, 0, 5];
        answer.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(check(ApiKey::ApiVersions, 3, &answer).unwrap_err().contains("an array"));
    }

    #[test]
    fn a_refusal_in_version_0_is_decoded_as_such() {
        let answer = [0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 3];
        assert_eq!(check(ApiKey::ApiVersions, 3, &answer), Ok(0));
        assert_eq!(check(ApiKey::ApiVersions, 3, &[0, 0, 1, 0, 0, 0, 0, 0]), Ok(3));
    }
}
