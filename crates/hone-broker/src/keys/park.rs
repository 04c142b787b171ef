//! A request that can't be answered yet: what it waits for, and how it is served again.

use std::time::Instant;

use super::produce_walk::Walk;
use crate::reply::Reply;
use crate::watch::Watch;

/// What a parked request waits for.
#[derive(Debug)]
pub(crate) enum Park {
    /// More records, until the deadline.
    Records { until: Instant, watched: Vec<Watch> },
    /// What another thread, or another request, will say.
    Reply,
    /// The next turn of the reactor.
    Turn(Box<Walk>),
}

/// How often a request is being served.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// For the first time.
    First,
    /// Again, after it was parked: records came or the time is up.
    Again { until: Instant },
    /// Again, with what it waited for.
    Answered(Reply),
    /// From where it stood at the end of a turn.
    Further(Box<Walk>),
}
