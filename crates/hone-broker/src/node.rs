//! What all threads of a broker share.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use mio::Waker;

use crate::coordinator::{self, Coordinator};
use crate::cpu::ThreadClock;
use crate::groups::{Effects, Groups, Now};
use crate::journal::{Journal, Post};
use crate::keys;
use crate::mailbox::{Letter, Mailbox, Ticket};
use crate::offsets::Offsets;
use crate::settings::Settings;
use crate::topics::Topics;

/// The only broker of its cluster.
pub(crate) const NODE_ID: i32 = 1;

/// What one worker counts.
#[derive(Debug)]
pub(crate) struct ShardCounters {
    /// By the place of the API in the table.
    pub(crate) requests: Box<[AtomicU64]>,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    pub(crate) connects: AtomicU64,
    pub(crate) disconnects: AtomicU64,
    /// Connections closed because what came could not be understood.
    pub(crate) protocol_errors: AtomicU64,
    /// Requests whose handler failed, which is a defect.
    pub(crate) handler_failures: AtomicU64,
    pub(crate) clock: OnceLock<ThreadClock>,
}

impl Default for ShardCounters {
    fn default() -> Self {
        Self {
            requests: keys::APIS.iter().map(|_| AtomicU64::new(0)).collect(),
            received_bytes: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            connects: AtomicU64::default(),
            disconnects: AtomicU64::default(),
            protocol_errors: AtomicU64::default(),
            handler_failures: AtomicU64::default(),
            clock: OnceLock::default(),
        }
    }
}

/// Adds to a counter.
pub(crate) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Relaxed);
}

/// What all threads of a broker share.
pub(crate) struct Node {
    pub(crate) settings: Settings,
    pub(crate) advertised: SocketAddr,
    pub(crate) topics: Topics,
    pub(crate) offsets: Offsets,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) shards: Vec<ShardCounters>,
    /// Wall clock at start, seconds since 1970.
    pub(crate) started_unix_s: f64,
    groups: Mutex<Groups>,
    /// Of groups and their offsets.
    journal: Arc<Journal>,
    /// Rings for the thread that accepts and keeps the groups' time.
    bell: Waker,
}

impl Node {
    pub(crate) fn new(
        settings: Settings,
        advertised: SocketAddr,
        topics: Topics,
        coordinator: Coordinator,
        mailboxes: Vec<Mailbox>,
        bell: Waker,
    ) -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            advertised,
            topics,
            offsets: coordinator.offsets,
            shards: mailboxes.iter().map(|_| ShardCounters::default()).collect(),
            mailboxes,
            started_unix_s: started.as_secs_f64(),
            groups: Mutex::new(coordinator.groups),
            journal: coordinator.journal,
            bell,
            settings,
        }
    }

    /// Lets answers that wait for the journal find their connections; once, when the node is shared.
    pub(crate) fn start_answering(self: &Arc<Self>) {
        // The journal belongs to the node, so it must not keep the node alive.
        let node = Arc::downgrade(self);
        let post: Post = Arc::new(move |ticket, reply| {
            if let Some(node) = node.upgrade() {
                node.post(ticket, Letter::Reply(ticket.connection, reply));
            }
        });
        self.journal.post_to(post);
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

    /// Lets offsets expire and compacts the journal when it has grown.
    pub(crate) fn keep_groups_small(&self, now: Now) {
        let retention_ms = self.settings.offsets_retention_minutes.saturating_mul(60_000);
        let until_ms = now.unix_ms.saturating_sub_unsigned(retention_ms);
        self.with_groups(|groups, effects| {
            self.offsets.expire(until_ms, |group| groups.empty_since_ms(group));
            for group in groups.long_empty(until_ms).iter().filter(|group| !self.offsets.knows(group)) {
                groups.delete(group, effects);
            }
        });
        coordinator::compact_if_grown(&self.journal, &self.lock_groups(), &self.offsets);
    }

    pub(crate) fn groups_are_idle(&self) -> bool {
        self.lock_groups().is_idle()
    }

    fn lock_groups(&self) -> MutexGuard<'_, Groups> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a letter to the worker of a ticket.
    pub(crate) fn post(&self, ticket: Ticket, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(ticket.worker)
            && let Err(error) = mailbox.post(letter)
        {
            self.settings.notices.say(&format!("can't wake worker {}: {error}", ticket.worker));
        }
    }

    /// Wakes the accepting thread.
    pub(crate) fn ring(&self) {
        if let Err(error) = self.bell.wake() {
            self.settings.notices.say(&format!("can't wake the accepting thread: {error}"));
        }
    }
}
