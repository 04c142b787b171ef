//! Requests that wait for their repetition, by partition, in the order in which they must be sent. The code is pure.

use std::collections::{BTreeMap, VecDeque};

use super::is_before;
use crate::connection::Sent;

/// Wait before a request is sent again, so that a cluster in an election is not asked without a pause.
const PAUSE_NS: u64 = 20_000_000;

/// The requests.
#[derive(Debug, Default)]
pub(crate) struct PutBack {
    waiting: BTreeMap<i32, VecDeque<(Sent, u64)>>,
}

impl PutBack {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a request waits for this partition.
    pub(crate) fn holds(&self, partition: i32) -> bool {
        self.waiting.contains_key(&partition)
    }

    pub(crate) fn partitions(&self) -> Vec<i32> {
        self.waiting.keys().copied().collect()
    }

    pub(crate) fn any(&self, partition: i32, is: impl Fn(&Sent) -> bool) -> bool {
        self.waiting.get(&partition).is_some_and(|queue| queue.iter().any(|(sent, _)| is(sent)))
    }

    /// Inserts a request in order: by sequence, and by its scheduled time without one.
    pub(crate) fn add(&mut self, sent: Sent, now_ns: u64) {
        let queue = self.waiting.entry(sent.partition).or_default();
        let comes_before = |other: &Sent| match (other.sequence, sent.sequence) {
            (before, own) if before >= 0 && own >= 0 => is_before(before, own),
            _ => other.request.intended_ns <= sent.request.intended_ns,
        };
        let place = queue.iter().rposition(|(other, _)| comes_before(other)).map_or(0, |at| at + 1);
        queue.insert(place, (sent, now_ns + PAUSE_NS));
    }

    /// The first request of a partition, if its pause is over.
    pub(crate) fn front(&self, partition: i32, now_ns: u64) -> Option<Sent> {
        let (sent, not_before_ns) = self.waiting.get(&partition)?.front()?;
        (*not_before_ns <= now_ns).then_some(*sent)
    }

    pub(crate) fn pop(&mut self, partition: i32) {
        if let Some(queue) = self.waiting.get_mut(&partition) {
            queue.pop_front();
            if queue.is_empty() {
                self.waiting.remove(&partition);
            }
        }
    }

    /// Removes requests.
    pub(crate) fn take_if(&mut self, is: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut taken = Vec::new();
        for queue in self.waiting.values_mut() {
            queue.retain(|(sent, _)| {
                let goes = is(sent);
                if goes {
                    taken.push(*sent);
                }
                !goes
            });
        }
        self.waiting.retain(|_, queue| !queue.is_empty());
        taken
    }

    /// Every request gets a new sequence when it is sent, in the same order.
    pub(crate) fn forget_sequences(&mut self) {
        for (sent, _) in self.waiting.values_mut().flatten() {
            sent.sequence = -1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Cargo, InFlight};

    fn sent(partition: i32, sequence: i32, intended_ns: u64) -> Sent {
        let request = InFlight { intended_ns, sent_ns: intended_ns, cargo: Cargo::default() };
        Sent { request, written_ns: intended_ns, partition, sequence }
    }

    #[test]
    fn what_comes_back_in_any_order_goes_in_its_own() {
        let mut waiting = PutBack::default();
        for sequence in [10, i32::MAX - 9, 0, 20] {
            waiting.add(sent(1, sequence, 5), 0);
        }
        for intended_ns in [30, 10, 20] {
            waiting.add(sent(2, -1, intended_ns), 0);
        }
        let mut all = |partition| {
            std::iter::from_fn(|| {
                let first = waiting.front(partition, PAUSE_NS);
                waiting.pop(partition);
                first
            })
            .map(|sent| (sent.sequence, sent.request.intended_ns))
            .collect::<Vec<_>>()
        };
        assert_eq!(all(1), [(i32::MAX - 9, 5), (0, 5), (10, 5), (20, 5)]);
        assert_eq!(all(2), [(-1, 10), (-1, 20), (-1, 30)]);
        assert!(waiting.is_empty());
    }

    #[test]
    fn nothing_goes_before_its_pause_is_over_and_the_old_are_taken_out() {
        let mut waiting = PutBack::default();
        waiting.add(sent(0, -1, 1), 1_000);
        assert!(waiting.front(0, PAUSE_NS).is_none());
        assert!(waiting.front(0, PAUSE_NS + 1_000).is_some());
        assert_eq!(waiting.take_if(|sent| sent.request.intended_ns > 1).len(), 0);
        assert_eq!(waiting.take_if(|_| true).len(), 1);
        assert!(waiting.is_empty());
    }
}
