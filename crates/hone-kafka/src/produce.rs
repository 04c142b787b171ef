//! Produce requests of version 7, encoded once. This is the last version before the flexible ones, and every broker since Kafka 2.1 accepts
//! it. Between two sends only the correlation id changes.

use std::ops::Range;

use crate::wire::{Reader, WireError};

const PRODUCE_KEY: i16 = 0;
/// The version of Produce that this file writes and reads.
pub const PRODUCE_VERSION: i16 = 7;
/// Position of the correlation id in a frame: after length, API key and version.
const CORRELATION_ID_AT: usize = 8;
/// Smallest size in the response of a topic (name length, partition count) and of a partition.
const LEAST_TOPIC_BYTES: usize = 6;
const PARTITION_BYTES: usize = 30;

/// Reasons why a request can't be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProduceError {
    /// A text is longer than its 16-bit length field can hold.
    #[error("{field} has {bytes} bytes, but the protocol allows at most 32767")]
    Text {
        /// Client id or topic.
        field: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A frame is larger than its 32-bit length field can hold.
    #[error("the request would have {bytes} bytes, more than its 32-bit length field can hold")]
    TooLarge {
        /// The size that it would have.
        bytes: usize,
    },
}

/// A Produce v7 request with its 4-byte length, ready for a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceFrame {
    bytes: Vec<u8>,
    batches: Vec<Range<usize>>,
}

impl ProduceFrame {
    /// Encodes a request that writes one record set to each of `partitions` (index and batch bytes) of one topic. `acks` is 0, 1 or -1
    /// (all). The correlation id is 0 until it is set.
    ///
    /// # Errors
    /// Returns an error when a text or the whole request is longer than the protocol allows.
    pub fn new(
        client_id: &str,
        acks: i16,
        timeout_ms: i32,
        topic: &str,
        partitions: &[(i32, &[u8])],
    ) -> Result<Self, ProduceError> {
        Self::of_topics(client_id, acks, timeout_ms, &[(topic, partitions)])
    }

    /// Does the same as [`ProduceFrame::new`] for several topics.
    ///
    /// # Errors
    /// Returns an error when a text or the whole request is longer than the protocol allows.
    pub fn of_topics<'a, P: AsRef<[(i32, &'a [u8])]>>(
        client_id: &str,
        acks: i16,
        timeout_ms: i32,
        topics: &[(&str, P)],
    ) -> Result<Self, ProduceError> {
        let batches_of = |(_, partitions): &'_ (&str, P)| -> usize {
            partitions.as_ref().iter().map(|(_, batch)| batch.len() + 8).sum()
        };
        let sizes = topics.iter().map(|topic| topic.0.len() + 6 + batches_of(topic));
        let mut bytes = Vec::with_capacity(sizes.sum::<usize>() + client_id.len() + 40);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&PRODUCE_KEY.to_be_bytes());
        bytes.extend_from_slice(&PRODUCE_VERSION.to_be_bytes());
        bytes.extend_from_slice(&[0; 4]);
        put_text(&mut bytes, client_id, "client id")?;
        bytes.extend_from_slice(&(-1_i16).to_be_bytes()); // no transaction
        bytes.extend_from_slice(&acks.to_be_bytes());
        bytes.extend_from_slice(&timeout_ms.to_be_bytes());
        bytes.extend_from_slice(&length_of(topics.len())?);
        let mut batches = Vec::new();
        for (topic, partitions) in topics {
            put_text(&mut bytes, topic, "topic")?;
            bytes.extend_from_slice(&length_of(partitions.as_ref().len())?);
            for (partition, batch) in partitions.as_ref() {
                bytes.extend_from_slice(&partition.to_be_bytes());
                bytes.extend_from_slice(&length_of(batch.len())?);
                batches.push(bytes.len()..bytes.len() + batch.len());
                bytes.extend_from_slice(batch);
            }
        }
        let length = length_of(bytes.len() - 4)?;
        bytes[..4].copy_from_slice(&length);
        Ok(Self { bytes, batches })
    }

    /// The whole request, its length first.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Position of each batch in [`ProduceFrame::bytes`], in the order given.
    pub fn batches(&self) -> &[Range<usize>] {
        &self.batches
    }

    /// Patches the correlation id.
    pub fn set_correlation_id(&mut self, correlation_id: i32) {
        Self::write_correlation_id(&mut self.bytes, correlation_id);
    }

    /// Patches a copy of [`ProduceFrame::bytes`]; shorter bytes stay unchanged.
    pub fn write_correlation_id(copy: &mut [u8], correlation_id: i32) {
        if let Some(field) = copy.get_mut(CORRELATION_ID_AT..CORRELATION_ID_AT + 4) {
            field.copy_from_slice(&correlation_id.to_be_bytes());
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &str, field: &'static str) -> Result<(), ProduceError> {
    let length = i16::try_from(text.len()).map_err(|_| ProduceError::Text { field, bytes: text.len() })?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

fn length_of(bytes: usize) -> Result<[u8; 4], ProduceError> {
    i32::try_from(bytes).map(i32::to_be_bytes).map_err(|_| ProduceError::TooLarge { bytes })
}

/// The broker's answer for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionAck<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The partition.
    pub partition: i32,
    /// 0 when the batch is stored; see [`crate::error_name`].
    pub error_code: i16,
    /// Offset of the first record; -1 with an error.
    pub base_offset: i64,
}

/// A Produce v7 response, checked to its last byte and borrowed from its frame.
#[derive(Debug, Clone, Copy)]
pub struct ProduceResponse<'a> {
    /// The correlation id of the request.
    pub correlation_id: i32,
    /// Time that the broker asks the client to wait, in milliseconds.
    pub throttle_ms: i32,
    /// The first error code of any partition, or 0.
    pub first_error_code: i16,
    topics: &'a [u8],
}

impl<'a> ProduceResponse<'a> {
    /// Every partition in the order of the response.
    pub fn partitions(&self) -> PartitionAcks<'a> {
        let mut reader = Reader::new(self.topics);
        let topics_left = reader.array_length(LEAST_TOPIC_BYTES, "topics").unwrap_or(0);
        PartitionAcks { reader, topics_left, partitions_left: 0, topic: "" }
    }
}

/// Iterator of [`ProduceResponse::partitions`].
#[derive(Debug, Clone)]
pub struct PartitionAcks<'a> {
    reader: Reader<'a>,
    topics_left: usize,
    partitions_left: usize,
    topic: &'a str,
}

impl<'a> PartitionAcks<'a> {
    fn step(&mut self) -> Result<Option<PartitionAck<'a>>, WireError> {
        while self.partitions_left == 0 {
            if self.topics_left == 0 {
                return Ok(None);
            }
            self.topics_left -= 1;
            self.topic = self.reader.string("topic")?;
            self.partitions_left = self.reader.array_length(PARTITION_BYTES, "partitions")?;
        }
        self.partitions_left -= 1;
        let ack = PartitionAck {
            topic: self.topic,
            partition: self.reader.i32("partition")?,
            error_code: self.reader.i16("error code")?,
            base_offset: self.reader.i64("base offset")?,
        };
        self.reader.take(16, "log append time and log start offset")?;
        Ok(Some(ack))
    }
}

impl<'a> Iterator for PartitionAcks<'a> {
    type Item = PartitionAck<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // `parse_produce_response_v7` has walked the same bytes without an error.
        self.step().ok().flatten()
    }
}

/// Reads a Produce v7 response from its frame's body (the bytes after the 4-byte length). It allocates nothing.
///
/// # Errors
/// Returns an error when the bytes are not exactly one response.
pub fn parse_produce_response_v7(frame_body: &[u8]) -> Result<ProduceResponse<'_>, WireError> {
    let mut reader = Reader::new(frame_body);
    let correlation_id = reader.i32("correlation id")?;
    let topics = reader.rest();
    let topics_left = reader.array_length(LEAST_TOPIC_BYTES, "topics")?;
    let mut acks = PartitionAcks { reader, topics_left, partitions_left: 0, topic: "" };
    let mut first_error_code = 0;
    while let Some(ack) = acks.step()? {
        if first_error_code == 0 {
            first_error_code = ack.error_code;
        }
    }
    let throttle_ms = acks.reader.i32("throttle time")?;
    acks.reader.finish()?;
    Ok(ProduceResponse { correlation_id, throttle_ms, first_error_code, topics })
}
