//! A step of a group: the time at which it happens, and what comes of it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::reply::Reply;
use crate::ticket::Ticket;
use crate::wall_clock::unix_ms;

/// One reading of both clocks: sessions need one that never jumps, what is kept on disk needs the wall's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    pub(crate) unix_ms: i64,
}

impl Now {
    /// Reads the clocks.
    pub(crate) fn read() -> Self {
        Self { at: Instant::now(), unix_ms: unix_ms() }
    }
}

/// How groups keep time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// How long the first members of an empty classic group wait for others.
    pub(crate) initial_delay: Duration,
    /// After which silence a member of a consumer group is out.
    pub(crate) session: Duration,
    /// How often a member of a consumer group is to beat.
    pub(crate) heartbeat: Duration,
}

/// What came of a step: answers to post, and groups to write to the journal before that.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    pub(crate) replies: Vec<(Ticket, Reply)>,
    pub(super) touched: BTreeSet<String>,
}

impl Effects {
    /// Has a group written to the journal, or that it is gone.
    pub(crate) fn touch(&mut self, group: &str) {
        if !self.touched.contains(group) {
            self.touched.insert(group.to_owned());
        }
    }
}

pub(super) fn milliseconds(ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}
