//! What one reactor counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::api_key;
use crate::cpu::ThreadClock;
use crate::histogram::Histogram;

/// What one reactor counts.
#[derive(Debug)]
pub(crate) struct ShardCounters {
    /// By the place of the API in the table.
    pub(crate) requests: Box<[AtomicU64]>,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) connects: AtomicU64,
    /// Connections that live here now.
    pub(crate) active: AtomicU64,
    /// Connections closed because what came could not be understood.
    pub(crate) protocol_errors: AtomicU64,
    /// Requests whose handler failed, which is a defect.
    pub(crate) handler_failures: AtomicU64,
    /// Connections that moved here.
    pub(crate) moves: AtomicU64,
    /// Connections closed over a frame that did not end.
    pub(crate) stalled: AtomicU64,
    /// Flushes of its partitions, and batches for them that another reactor read.
    pub(crate) flushes: AtomicU64,
    pub(crate) handed_over: AtomicU64,
    /// Time between turns of the loop, and in them.
    pub(crate) idle_ns: AtomicU64,
    pub(crate) busy_ns: AtomicU64,
    /// From a Produce request that is here to its finished answer.
    pub(crate) produce_latency_us: Histogram<26>,
    pub(crate) batch_bytes: Histogram<22>,
    /// Batch bytes as received, by codec.
    pub(crate) produced_bytes: [AtomicU64; 5],
    /// Idle and busy time at the last look, for the gauge of utilization.
    pub(crate) looked_at: Mutex<(u64, u64)>,
    pub(crate) clock: OnceLock<ThreadClock>,
}

impl Default for ShardCounters {
    fn default() -> Self {
        Self {
            requests: (0..api_key::COUNT).map(|_| AtomicU64::new(0)).collect(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            connects: AtomicU64::default(),
            active: AtomicU64::default(),
            protocol_errors: AtomicU64::default(),
            handler_failures: AtomicU64::default(),
            moves: AtomicU64::default(),
            stalled: AtomicU64::default(),
            flushes: AtomicU64::default(),
            handed_over: AtomicU64::default(),
            idle_ns: AtomicU64::default(),
            busy_ns: AtomicU64::default(),
            produce_latency_us: Histogram::new(1),
            batch_bytes: Histogram::new(64),
            produced_bytes: Default::default(),
            looked_at: Mutex::default(),
            clock: OnceLock::default(),
        }
    }
}

impl ShardCounters {
    /// Busy share of the time since the last call, percent.
    pub(crate) fn utilization_percent(&self) -> f64 {
        let now = (load(&self.idle_ns), load(&self.busy_ns));
        let mut before = self.looked_at.lock().unwrap_or_else(PoisonError::into_inner);
        let (idle, busy) = (now.0.saturating_sub(before.0) as f64, now.1.saturating_sub(before.1) as f64);
        *before = now;
        // A reactor that slept all the time has not come round to count it.
        if idle + busy > 0.0 { 100.0 * busy / (idle + busy) } else { 0.0 }
    }
}

/// Reads a counter.
pub(crate) fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Relaxed);
}
