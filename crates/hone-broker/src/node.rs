//! What all threads of a broker share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use mio::Waker;

use crate::clerk::Desk;
use crate::code;
use crate::coordinator::{self, Coordinator};
use crate::endpoint::Endpoint;
use crate::flusher::Flusher;
use crate::groups::{Effects, Groups, Now};
use crate::housekeeper::Housekeeper;
use crate::journal::{Journal, Post};
use crate::mailbox::{Letter, Mailbox};
use crate::memory::{Counted, Memory};
use crate::offsets::Offsets;
use crate::partition::Partition;
use crate::quotas::Quotas;
use crate::security::acl::Acls;
use crate::security::{Complaints, Security};
use crate::settings::Settings;
use crate::shard_counters::ShardCounters;
use crate::ticket::Ticket;
use crate::topics::Topics;
use crate::transactions::Transactions;

/// What a broker keeps, each with a place of its own in the data folder.
pub(crate) struct Stores {
    pub(crate) security: Security,
    pub(crate) topics: Topics,
    pub(crate) coordinator: Coordinator,
    pub(crate) acls: Acls,
    pub(crate) quotas: Quotas,
    pub(crate) transactions: Transactions,
}

/// What all threads of a broker share.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) advertised: Endpoint,
    pub(crate) security: Security,
    pub(crate) topics: Topics,
    pub(crate) offsets: Offsets,
    /// For what has to wait for the disk.
    pub(crate) desk: Desk,
    pub(crate) acls: Acls,
    pub(crate) quotas: Quotas,
    pub(crate) transactions: Transactions,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) shards: Vec<ShardCounters>,
    pub(crate) flusher: Flusher,
    pub(crate) housekeeper: Housekeeper,
    pub(crate) memory: Memory,
    /// Clients connected now.
    pub(crate) connections: AtomicUsize,
    /// Wall clock at start, seconds since 1970.
    pub(crate) started_unix_s: f64,
    /// Of batches that broke a rule.
    refusals: Mutex<Complaints>,
    groups: Mutex<Groups>,
    /// Whether the clerk has been asked to look after the groups.
    caring: AtomicBool,
    /// Of groups and their offsets.
    journal: Arc<Journal>,
    /// Rings for the thread that accepts and keeps the groups' time.
    bell: Waker,
}

impl Node {
    pub(crate) fn new(
        settings: Settings,
        advertised: Endpoint,
        stores: Stores,
        desk: Desk,
        mailboxes: Vec<Mailbox>,
        bell: Waker,
    ) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            advertised,
            security: stores.security,
            topics: stores.topics,
            offsets: stores.coordinator.offsets,
            flusher: Flusher::default(),
            housekeeper: Housekeeper::default(),
            memory: Memory::new(settings.max_memory_bytes),
            connections: AtomicUsize::new(0),
            desk,
            acls: stores.acls,
            quotas: stores.quotas,
            transactions: stores.transactions,
            shards: mailboxes.iter().map(|_| ShardCounters::default()).collect(),
            mailboxes,
            started_unix_s: started.as_secs_f64(),
            refusals: Mutex::default(),
            groups: Mutex::new(stores.coordinator.groups),
            caring: AtomicBool::new(false),
            journal: stores.coordinator.journal,
            bell,
            settings,
        }
    }

    /// Lets answers that wait for a journal find their connections; once, when the node is shared.
    pub(crate) fn start_answering(self: &Arc<Self>) {
        // The journals belong to the node, so they must not keep the node alive.
        let node = Arc::downgrade(self);
        let post: Post = Arc::new(move |ticket, reply| {
            if let Some(node) = node.upgrade() {
                node.post(ticket, Letter::Reply(ticket.connection, reply));
            }
        });
        self.journal.post_to(Arc::clone(&post));
        self.transactions.post_to(post);
    }

    /// Makes durable what was taken in, and takes no more.
    pub(crate) fn close_journal(&self) {
        self.journal.close();
    }

    /// Runs `step` on the groups. What it changed goes to the journal, and its answers go out when that is durable.
    pub(crate) fn with_groups<T>(&self, step: impl FnOnce(&mut Groups, &mut Effects) -> T) -> T {
        let mut effects = Effects::default();
        let mut groups = self.lock_groups();
        let was_idle = groups.is_idle();
        let result = step(&mut groups, &mut effects);
        let is_idle = groups.is_idle();
        // The journal must have the groups' changes in the order in which they happened, so the lock is still held.
        let mut records = groups.records(&effects);
        if let Some(last) = records.pop() {
            records.into_iter().for_each(|record| self.journal.append(record, None));
            self.journal.append_for_all(last, std::mem::take(&mut effects.replies));
        }
        drop(groups);
        for (ticket, reply) in effects.replies {
            self.post(ticket, Letter::Reply(ticket.connection, reply));
        }
        if was_idle && !is_idle {
            self.ring();
        }
        result
    }

    /// Has offsets expire and the journal compacted when it has grown; by the clerk, one such round at a time.
    pub(crate) fn care_for_groups(&self) {
        if !self.caring.swap(true, Relaxed) {
            self.desk.leave_chore(|node| {
                node.keep_groups_small(Now::read());
                node.caring.store(false, Relaxed);
            });
        }
    }

    fn keep_groups_small(&self, now: Now) {
        let retention_ms = self.settings.offsets_retention_minutes.saturating_mul(60_000);
        let until_ms = now.unix_ms.saturating_sub_unsigned(retention_ms);
        let mut last = None;
        loop {
            let (old, next) = self.offsets.old_ones(last.as_ref(), coordinator::AT_ONCE, until_ms);
            if !old.is_empty() {
                self.with_groups(|groups, _| {
                    self.offsets.expire(old, until_ms, |group| groups.empty_since_ms(group));
                });
            }
            last = next;
            if last.is_none() {
                break;
            }
        }
        self.with_groups(|groups, effects| {
            for group in groups.long_empty(until_ms).iter().filter(|group| !self.offsets.knows(group)) {
                groups.delete(group, effects);
            }
        });
        coordinator::compact_if_grown(&self.journal, &self.offsets, |after| {
            self.lock_groups().records_behind(after, coordinator::AT_ONCE)
        });
    }

    pub(crate) fn groups_are_idle(&self) -> bool {
        self.lock_groups().is_idle()
    }

    fn lock_groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reactor that a partition belongs to.
    pub(crate) fn owner(&self, partition: &Partition) -> usize {
        partition.place_in_round % self.mailboxes.len().max(1)
    }

    /// Whether a reactor sleeps and has nothing to do. Another reactor can then do its work directly: no thread holds
    /// the locks of its partitions, the work can't overtake another request of the same connection, and waking it costs
    /// more than the append.
    pub(crate) fn rests(&self, reactor: usize) -> bool {
        self.mailboxes.get(reactor).is_some_and(|mailbox| mailbox.rests())
    }

    /// A connection is gone, with the memory it was counted for.
    pub(crate) fn connection_ended(&self, counted: Counted) {
        self.memory.forget(counted);
        self.connections.fetch_sub(1, Relaxed);
    }

    /// A producer id that was never given before; `None` when the clerk must reserve some first.
    pub(crate) fn fresh_producer_id(&self) -> Option<i64> {
        let fresh = self.topics.new_producer_id()?;
        if fresh.runs_low {
            self.desk.leave_chore(|node| {
                // The function reports its errors itself. A caller without an id asks again.
                let _ = node.reserve_producer_ids();
            });
        }
        Some(fresh.id)
    }

    /// Waits for the disk: for the clerk. An error code when that fails.
    pub(crate) fn reserve_producer_ids(&self) -> Result<(), i16> {
        self.topics.reserve_producer_ids().map_err(|error| {
            self.settings.notices.say(&format!("can't reserve producer ids: {error:#}"));
            code::KAFKA_STORAGE_ERROR
        })
    }

    /// Reports a batch that broke a rule, unless the broker has just reported another one.
    pub(crate) fn tell_of_refusal(&self, line: &str) {
        let mut refusals = self.refusals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = refusals.admit(line, Instant::now()) {
            self.settings.notices.say(&line);
        }
    }

    /// Sends a letter to the reactor of a ticket.
    pub(crate) fn post(&self, ticket: Ticket, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(ticket.reactor)
            && let Err(error) = mailbox.post(letter)
        {
            self.settings.notices.say(&format!("can't wake reactor {}: {error}", ticket.reactor));
        }
    }

    /// Wakes the accepting thread.
    pub(crate) fn ring(&self) {
        if let Err(error) = self.bell.wake() {
            self.settings.notices.say(&format!("can't wake the accepting thread: {error}"));
        }
    }
}
