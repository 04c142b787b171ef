//! The owner's side of Produce: batches are appended to the partitions of this reactor, and acknowledged when their
//! durability class says so.
//!
//! Whatever waits for the disk waits here and not in the loop: one flush serves all batches that have gathered since the
//! one before (group commit). A partition has at most one flush asked for at a time, and the next one takes all the rest.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::append::{Destination, Stored, Terms};
use crate::code;
use crate::node::Node;
use crate::partition::{Ack, AppendError, Partition, Sequence};
use crate::shard_counters::count;
use crate::ticket::Ticket;
use crate::wall_clock::unix_ms;

/// A batch that is in the log and waits to be on the disk.
#[derive(Debug)]
struct Waiter {
    end_offset: i64,
    back: Destination,
    stored: Stored,
}

/// What one partition waits for.
#[derive(Debug, Default)]
struct Queue {
    waiters: VecDeque<Waiter>,
    /// A flush has been asked for and has not come back.
    flushing: bool,
    /// Whether an answer waits for this flush.
    urgent: bool,
    /// When the partition's unflushed bytes are due, if they are.
    due: Option<Instant>,
}

/// The address identifies a partition. It stays valid because the entry holds a reference to the partition.
type Key = usize;

/// The appends of one reactor.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    queues: HashMap<Key, (Arc<Partition>, Queue)>,
    /// Asked for by this turn.
    to_flush: BTreeSet<Key>,
    /// Flushes by age.
    due: BTreeSet<(Instant, Key)>,
}

/// What an append came to, now.
pub(crate) enum Outcome {
    /// It can be answered.
    Done(Stored),
    /// It is answered after a flush.
    Later,
}

impl Appends {
    /// Appends one batch. `wake` gets those who wait for the partition to grow.
    pub(crate) fn append(
        &mut self,
        node: &Node,
        partition: &Arc<Partition>,
        batch: &mut [u8],
        terms: Terms,
        wake: &mut Vec<Ticket>,
    ) -> Outcome {
        let appended = match partition.append(batch, terms.ack, unix_ms(), wake) {
            Ok(appended) => appended,
            Err(error) => return Outcome::Done(refused(node, partition, &error)),
        };
        if !appended.duplicate {
            count(&partition.counters.produced_batches, 1);
            count(&partition.counters.produced_bytes, terms.received_bytes);
            count(&partition.counters.produced_records, terms.records);
            count(partition.counters.requests_of(terms.acks, terms.ack), 1);
            if let Some(shard) = node.shards.get(node.owner(partition)) {
                shard.batch_bytes.record(terms.received_bytes as u64);
                if let Some(counter) = shard.produced_bytes.get(terms.codec as usize) {
                    count(counter, terms.received_bytes);
                }
            }
        }
        let flushed = partition.bounds().flushed >= appended.end_offset;
        if flushed {
            return Outcome::Done(appended.into());
        }
        let key = key_of(partition);
        let (_, queue) = self.queues.entry(key).or_insert_with(|| (Arc::clone(partition), Queue::default()));
        match terms.ack {
            Ack::Relaxed => {
                self.note_unflushed(partition, key);
                Outcome::Done(appended.into())
            }
            Ack::Strict => {
                let stored = appended.into();
                queue.waiters.push_back(Waiter { end_offset: appended.end_offset, back: terms.back, stored });
                if !queue.flushing {
                    self.to_flush.insert(key);
                } else if !std::mem::replace(&mut queue.urgent, true) {
                    node.flusher.hurry(partition);
                }
                Outcome::Later
            }
        }
    }

    /// Schedules a flush by size or by age for bytes that no answer waits for.
    fn note_unflushed(&mut self, partition: &Arc<Partition>, key: Key) {
        let Some((_, queue)) = self.queues.get_mut(&key) else { return };
        let (limit_ms, limit_bytes) = partition.flush_limits();
        if partition.unflushed_bytes() >= limit_bytes {
            if !queue.flushing {
                self.to_flush.insert(key);
            }
        } else if queue.due.is_none() && !queue.flushing {
            let due = Instant::now() + Duration::from_millis(limit_ms);
            queue.due = Some(due);
            self.due.insert((due, key));
        }
    }

    /// When the next flush by age is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Ends a turn: asks for the flushes that it made necessary, and for those whose time has come.
    pub(crate) fn end_turn(&mut self, node: &Node, reactor: usize) {
        if self.to_flush.is_empty() && self.due.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((at, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key));
            self.to_flush.insert(key);
        }
        for key in std::mem::take(&mut self.to_flush) {
            let Some((partition, queue)) = self.queues.get_mut(&key) else { continue };
            if let Some(due) = queue.due.take() {
                self.due.remove(&(due, key));
            }
            queue.flushing = true;
            queue.urgent = !queue.waiters.is_empty();
            node.flusher.ask(Arc::clone(partition), reactor, queue.urgent);
        }
    }

    /// A flush has ended, one way or the other: `done` gets whom it has served, or whom it never will.
    pub(crate) fn flushed(
        &mut self,
        partition: &Arc<Partition>,
        done: &mut Vec<(Destination, Stored)>,
        wake: &mut Vec<Ticket>,
    ) {
        partition.take_waiting(wake);
        let key = key_of(partition);
        let Some((_, queue)) = self.queues.get_mut(&key) else { return };
        queue.flushing = false;
        let flushed = partition.bounds().flushed;
        // What is not on the disk by now never will be, for one of two reasons.
        let lost = if partition.has_failed() {
            Some(code::KAFKA_STORAGE_ERROR)
        } else if partition.is_removed() {
            Some(code::UNKNOWN_TOPIC_OR_PARTITION)
        } else {
            None
        };
        while let Some(waiter) = queue.waiters.front() {
            let stored = match (waiter.end_offset <= flushed, lost) {
                (true, _) => waiter.stored,
                (false, Some(error)) => Stored::refused(error),
                (false, None) => break,
            };
            done.push((waiter.back, stored));
            queue.waiters.pop_front();
        }
        if !queue.waiters.is_empty() {
            self.to_flush.insert(key);
        } else if partition.unflushed_bytes() > 0 && lost.is_none() {
            self.note_unflushed(partition, key);
        } else {
            self.queues.remove(&key);
        }
    }

    /// Whether no answer waits for a flush.
    pub(crate) fn is_quiet(&self) -> bool {
        self.queues.values().all(|(_, queue)| queue.waiters.is_empty())
    }
}

fn key_of(partition: &Arc<Partition>) -> Key {
    Arc::as_ptr(partition).addr()
}

fn refused(node: &Node, partition: &Partition, error: &AppendError) -> Stored {
    Stored::refused(match error {
        AppendError::Sequence(Sequence::Fenced) => code::INVALID_PRODUCER_EPOCH,
        AppendError::Sequence(Sequence::OutsideTransaction) | AppendError::CoordinatorFenced => {
            code::INVALID_TXN_STATE
        }
        AppendError::Sequence(_) => code::OUT_OF_ORDER_SEQUENCE_NUMBER,
        AppendError::Removed => code::UNKNOWN_TOPIC_OR_PARTITION,
        AppendError::Storage(_) => {
            // Reported only once: a full disk rejects every batch, and each answer has the error code.
            if partition.counters.storage_errors.fetch_add(1, Relaxed) == 0 {
                node.settings.notices.say(&format!("{}-{}: {error}", partition.topic, partition.index));
            }
            code::KAFKA_STORAGE_ERROR
        }
    })
}
