//! Stalls: periods in which requests wait so long that the tail of the latencies depends on few events, not on many requests.

use serde::{Deserialize, Serialize};

/// A request with at least this wait is part of a stall, in milliseconds. Writing to a disk's scheduler stops its queue for 20 to 40 ms,
/// and a busy virtual machine keeps a thread from its core equally long (both measured). Longer waits have another cause.
pub const STALL_FROM_MS: u32 = 100;

/// Number of a window's stalls that are kept one by one; of the others only sums are kept. Disjoint stalls of 100 ms each are fewer in 100
/// s.
const MOST: usize = 1_000;

const NS_PER_MS: u64 = 1_000_000;

/// A period covered by the waits of requests that waited [`STALL_FROM_MS`] or longer. Overlapping waits are one stall.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// Due time of the first of these requests, from the window's start.
    pub begin_ns: u64,
    /// End of the last of these requests.
    pub end_ns: u64,
    /// Number of these requests.
    pub requests: u64,
}

impl Stall {
    /// Its length, in seconds.
    pub fn length_s(&self) -> f64 {
        self.end_ns.saturating_sub(self.begin_ns) as f64 / 1e9
    }
}

/// The stalls of a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalls {
    /// Stalls in the order of their time.
    pub kept: Vec<Stall>,
    /// Number of stalls beyond the kept ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more: u64,
    /// Length of these, in ns.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_ns: u64,
    /// Requests in these.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_requests: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Stalls {
    /// Adds a request that was due and ended at these times, whatever its wait. Requests come in about the order of their ends.
    pub fn ended(&mut self, due_ns: u64, end_ns: u64) {
        if end_ns.saturating_sub(due_ns) >= u64::from(STALL_FROM_MS) * NS_PER_MS {
            self.add(Stall { begin_ns: due_ns, end_ns, requests: 1 });
        }
    }

    fn add(&mut self, mut new: Stall) {
        while let Some(last) = self.kept.pop_if(|last| last.end_ns >= new.begin_ns) {
            new.begin_ns = new.begin_ns.min(last.begin_ns);
            new.end_ns = new.end_ns.max(last.end_ns);
            new.requests = new.requests.saturating_add(last.requests);
        }
        if self.kept.len() == MOST {
            // The stall that ended last stays out of the sums, since a later request may still extend the newest.
            if let Some(last) = self.kept.pop() {
                self.more += 1;
                self.more_ns = self.more_ns.saturating_add(last.end_ns.saturating_sub(last.begin_ns));
                self.more_requests = self.more_requests.saturating_add(last.requests);
            }
        }
        self.kept.push(new);
    }

    /// Number of stalls.
    pub fn count(&self) -> u64 {
        self.more.saturating_add(self.kept.len() as u64)
    }

    /// Total length, in seconds.
    pub fn total_s(&self) -> f64 {
        self.kept.iter().map(Stall::length_s).sum::<f64>() + self.more_ns as f64 / 1e9
    }

    /// Longest of the kept stalls, in seconds; 0 without stalls.
    pub fn longest_s(&self) -> f64 {
        self.kept.iter().map(Stall::length_s).fold(0.0, f64::max)
    }

    /// Requests that waited in a stall.
    pub fn requests(&self) -> u64 {
        self.kept.iter().fold(self.more_requests, |sum, stall| sum.saturating_add(stall.requests))
    }

    /// Stalls of several generators in one window. Overlapping stalls are one stall.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all: Vec<Stall> = self.kept.iter().chain(&other.kept).copied().collect();
        all.sort_unstable_by_key(|stall| stall.end_ns);
        let mut joined = Self {
            kept: Vec::new(),
            more: self.more.saturating_add(other.more),
            more_ns: self.more_ns.saturating_add(other.more_ns),
            more_requests: self.more_requests.saturating_add(other.more_requests),
        };
        all.into_iter().for_each(|stall| joined.add(stall));
        joined
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalls_of(waits_ms: &[(u64, u64)]) -> Stalls {
        let mut stalls = Stalls::default();
        waits_ms.iter().for_each(|(due, end)| stalls.ended(due * NS_PER_MS, end * NS_PER_MS));
        stalls
    }

    #[test]
    fn waits_that_overlap_are_one_stall_and_short_ones_are_none() {
        // A pause from 1,000 to 2,000 ms, as an open loop sees it: everyone who was due in it ends at its end.
        let mut waits: Vec<(u64, u64)> = (0..100).map(|at| (at * 10, at * 10 + 2)).collect();
        waits.extend((100..200).map(|at| (at * 10, 2_000)));
        waits.push((2_500, 2_700));
        let stalls = stalls_of(&waits);
        assert_eq!((stalls.count(), stalls.requests()), (2, 92));
        assert_eq!((stalls.total_s(), stalls.longest_s()), (1.2, 1.0));
        assert_eq!(stalls_of(&[(0, 99)]), Stalls::default());
        assert_eq!(stalls_of(&[(0, 100)]).count(), 1);
    }

    #[test]
    fn one_that_reaches_back_joins_those_between() {
        let stalls = stalls_of(&[(0, 150), (300, 450), (100, 500)]);
        assert_eq!((stalls.count(), stalls.requests(), stalls.total_s()), (1, 3, 0.5));
    }

    #[test]
    fn more_than_are_kept_are_still_counted() {
        let waits: Vec<(u64, u64)> = (0..1_500).map(|at| (at * 1_000, at * 1_000 + 200)).collect();
        let stalls = stalls_of(&waits);
        assert_eq!((stalls.count(), stalls.kept.len(), stalls.requests()), (1_500, MOST, 1_500));
        assert!((stalls.total_s() - 300.0).abs() < 1e-6);
    }

    #[test]
    fn generators_see_one_stall_together() {
        let (left, right) =
            (stalls_of(&[(0, 200), (1_000, 1_200)]), stalls_of(&[(150, 300), (5_000, 5_100)]));
        let both = left.and(&right);
        assert_eq!((both.count(), both.requests()), (3, 4));
        assert_eq!(both, right.and(&left));
    }
}
