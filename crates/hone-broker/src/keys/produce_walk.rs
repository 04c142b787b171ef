//! How far a Produce request has come.

use std::fmt;
use std::sync::Arc;

use crate::topics::Topic;

/// What holds for all batches of a request.
pub(super) struct RequestTerms {
    pub(super) acks: i16,
    pub(super) refusal: Option<(i16, &'static str)>,
    /// The transactional id of the producer.
    pub(super) transactional: Option<String>,
}

/// A request on its way from batch to batch. When looking into batches has taken what a turn of the reactor has for that,
/// it goes on in the next turn; its batches are stored and its answer is written up to where it stands.
pub(crate) struct Walk {
    pub(super) wanted: RequestTerms,
    /// Where in the frame the next field is.
    pub(super) at: usize,
    /// Topics behind the one that it is in.
    pub(super) topics: usize,
    /// The topic that it is in, or the error code for the client that may not write to it.
    pub(super) topic: Option<Result<Option<Arc<Topic>>, i16>>,
    /// What is left of that topic.
    pub(super) partitions: usize,
    pub(super) progress: Progress,
}

impl fmt::Debug for Walk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Walk").field("at", &self.at).finish_non_exhaustive()
    }
}

/// What the batches of a request have come to so far.
#[derive(Default)]
pub(super) struct Progress {
    /// Outcomes that are missing, and the bytes of their batches; since the last turn.
    pub(super) waiting: usize,
    pub(super) bytes: usize,
    /// A batch without an answer (acks=0) was not stored.
    pub(super) failed: Option<i16>,
    /// Where the batches belonged, as long as it is one reactor.
    pub(super) owner: Option<usize>,
    pub(super) spread: bool,
    /// Batches that were refused.
    pub(super) complaints: usize,
}

impl Progress {
    pub(super) fn note_owner(&mut self, owner: usize) {
        self.spread |= self.owner.is_some_and(|known| known != owner);
        self.owner = Some(owner);
    }
}
