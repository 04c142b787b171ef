//! The threads that wait for the disk, so that no reactor does.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::mailbox::{Letter, Ticket};
use crate::node::Node;
use crate::partition::Partition;

/// Flushes at a time. A file system commits what several threads wait for together, so more than the cores pay.
pub(crate) const THREADS: usize = 4;

/// The flushes that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Flusher {
    queue: Mutex<Queue>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// The partition, and the reactor that wants to know.
    jobs: VecDeque<(Arc<Partition>, usize)>,
    ended: bool,
}

impl Flusher {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a flush; the reactor gets [`Letter::Flushed`] when it is over.
    pub(crate) fn ask(&self, partition: Arc<Partition>, reactor: usize) {
        self.queue().jobs.push_back((partition, reactor));
        self.bell.notify_one();
    }

    /// Lets the threads end when the queue is empty.
    pub(crate) fn end(&self) {
        self.queue().ended = true;
        self.bell.notify_all();
    }

    fn next(&self) -> Option<(Arc<Partition>, usize)> {
        let mut queue = self.queue();
        loop {
            match queue.jobs.pop_front() {
                Some(job) => return Some(job),
                None if queue.ended => return None,
                None => queue = self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// One thread: flushes until the end.
    pub(crate) fn run(&self, node: &Node) {
        while let Some((partition, reactor)) = self.next() {
            if let Err(error) = partition.flush() {
                node.settings.notices.say(&format!(
                    "{}-{} can't be flushed and takes no more batches until the broker starts again: {error}",
                    partition.topic, partition.index
                ));
            }
            node.post(Ticket { reactor, connection: 0 }, Letter::Flushed(partition));
        }
    }
}
