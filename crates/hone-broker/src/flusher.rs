//! The threads that wait for the disk, so that no reactor does.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::partition::Partition;

/// Flushes at a time. A file system commits what several threads wait for together, so more than the cores pay.
pub(crate) const THREADS: usize = 4;

type Job = (Arc<Partition>, usize);

/// The flushes that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Flushes that an answer waits for: the partition, and the reactor to notify.
    urgent: VecDeque<Job>,
    /// Those by age and size.
    others: VecDeque<Job>,
    ended: bool,
}

impl Flusher {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a flush. The reactor gets `Letter::Flushed` when the flush is done. Urgent flushes, which an answer
    /// waits for, run first.
    pub(crate) fn ask(&self, partition: Arc<Partition>, reactor: usize, urgent: bool) {
        let mut queue = self.queue();
        let jobs = if urgent { &mut queue.urgent } else { &mut queue.others };
        jobs.push_back((partition, reactor));
        drop(queue);
        self.bell.notify_one();
    }

    /// Lets the threads end when the queue is empty.
    pub(crate) fn end(&self) {
        self.queue().ended = true;
        self.bell.notify_all();
    }

    /// Makes an earlier flush request urgent, because an answer now waits for it.
    pub(crate) fn hurry(&self, partition: &Arc<Partition>) {
        let mut queue = self.queue();
        let place = queue.others.iter().position(|(other, _)| Arc::ptr_eq(other, partition));
        if let Some(job) = place.and_then(|place| queue.others.remove(place)) {
            queue.urgent.push_back(job);
        }
    }

    /// The next flush to do; `None` at the end.
    pub(crate) fn next(&self) -> Option<Job> {
        let mut queue = self.queue();
        loop {
            let job = queue.urgent.pop_front().or_else(|| queue.others.pop_front());
            match job {
                Some(job) => return Some(job),
                None if queue.ended => return None,
                None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
