//! A checked batch on its way to its partition's reactor, and what came of it.

use std::sync::Arc;

use hone_kafka::Codec;

use crate::code;
use crate::partition::{Ack, Appended, Partition};
use crate::ticket::Ticket;
use crate::transactions::Admission;

/// Where the outcome of an append belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) ticket: Ticket,
    /// Which of the connection's answers.
    pub(crate) slot: u64,
    /// Where in that answer the partition's error code stands.
    pub(crate) at: usize,
}

/// What goes along with a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) ack: Ack,
    /// As the client asked: 0, 1 or -1 for all.
    pub(crate) acks: i16,
    pub(crate) codec: Codec,
    pub(crate) back: Destination,
    /// Size as received, before recompression.
    pub(crate) received_bytes: usize,
    pub(crate) records: usize,
}

/// A checked batch on its way to its partition's reactor.
#[derive(Debug)]
pub(crate) struct Append {
    pub(crate) partition: Arc<Partition>,
    pub(crate) batch: Vec<u8>,
    pub(crate) terms: Terms,
    /// Keeps its transaction open until it is in the log.
    pub(crate) admission: Option<Admission>,
}

/// What came of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) error: i16,
    pub(crate) base_offset: i64,
    /// -1 where the producer's timestamps stay.
    pub(crate) append_time_ms: i64,
    pub(crate) log_start: i64,
}

impl Stored {
    pub(crate) fn refused(error: i16) -> Self {
        Self { error, base_offset: -1, append_time_ms: -1, log_start: -1 }
    }
}

impl From<Appended> for Stored {
    fn from(appended: Appended) -> Self {
        Self {
            error: code::NONE,
            base_offset: appended.base_offset,
            append_time_ms: appended.append_time_ms,
            log_start: appended.log_start,
        }
    }
}
