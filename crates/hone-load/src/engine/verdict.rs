//! Meaning of an error in a Produce answer for its request, as Kafka's own client interprets it. The code is pure.

/// Outcome of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The batch is already in the log.
    Stored,
    /// The request may be sent again; `ask` means that the leaders must be looked up first.
    Again { ask: bool },
    /// Its sequence is not the one that the broker expects.
    OutOfOrder,
    /// The broker will never accept it.
    Final,
}

/// The verdict on an error code.
pub(crate) fn verdict(error_code: i16, idempotent: bool) -> Verdict {
    match error_code {
        // UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
        // REPLICA_NOT_AVAILABLE, NETWORK_EXCEPTION, KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH,
        // UNKNOWN_TOPIC_ID
        3 | 5 | 6 | 8 | 9 | 13 | 56 | 74 | 75 | 100 => Verdict::Again { ask: true },
        // CORRUPT_MESSAGE, REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND
        2 | 7 | 19 | 20 => Verdict::Again { ask: false },
        // OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID
        45 | 47 | 59 if idempotent => Verdict::OutOfOrder,
        // DUPLICATE_SEQUENCE_NUMBER
        46 if idempotent => Verdict::Stored,
        _ => Verdict::Final,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again_and_what_does_not_is_not() {
        assert_eq!(verdict(6, false), Verdict::Again { ask: true });
        assert_eq!(verdict(19, false), Verdict::Again { ask: false });
        // MESSAGE_TOO_LARGE, TOPIC_AUTHORIZATION_FAILED, INVALID_RECORD, UNKNOWN_SERVER_ERROR
        for code in [10, 29, 87, -1] {
            assert_eq!(verdict(code, true), Verdict::Final);
        }
        assert_eq!((verdict(45, true), verdict(45, false)), (Verdict::OutOfOrder, Verdict::Final));
        assert_eq!((verdict(46, true), verdict(46, false)), (Verdict::Stored, Verdict::Final));
    }
}
