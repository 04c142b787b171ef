//! What all threads of a broker share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use mio::Waker;

use crate::cpu::ThreadClock;
use crate::groups::{Due, Groups};
use crate::keys;
use crate::mailbox::{Letter, Mailbox, Ticket};
use crate::offsets::Offsets;
use crate::security::Security;
use crate::settings::{Endpoint, Settings};
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
    pub(crate) advertised: Endpoint,
    pub(crate) security: Security,
    pub(crate) topics: Topics,
    pub(crate) offsets: Offsets,
    pub(crate) mailboxes: Vec<Mailbox>,
    pub(crate) shards: Vec<ShardCounters>,
    /// Wall clock at start, seconds since 1970.
    pub(crate) started_unix_s: f64,
    groups: Mutex<Groups>,
    /// Rings for the thread that accepts and keeps the groups' time.
    bell: Waker,
}

impl Node {
    pub(crate) fn new(
        settings: Settings,
        advertised: Endpoint,
        security: Security,
        topics: Topics,
        offsets: Offsets,
        mailboxes: Vec<Mailbox>,
        bell: Waker,
    ) -> Self {
        let initial_delay = std::time::Duration::from_millis(settings.group_initial_delay_ms);
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            advertised,
            security,
            topics,
            offsets,
            shards: mailboxes.iter().map(|_| ShardCounters::default()).collect(),
            mailboxes,
            started_unix_s: started.as_secs_f64(),
            groups: Mutex::new(Groups::new(initial_delay)),
            bell,
            settings,
        }
    }

    /// Runs `step` on the groups, then posts the answers that became due.
    pub(crate) fn with_groups<T>(&self, step: impl FnOnce(&mut Groups, &mut Due) -> T) -> T {
        let mut due = Due::new();
        let mut groups = self.lock_groups();
        let was_idle = groups.is_idle();
        let result = step(&mut groups, &mut due);
        let is_idle = groups.is_idle();
        drop(groups);
        for (ticket, answer) in due {
            self.post(ticket, Letter::Reply(ticket.connection, answer));
        }
        if was_idle && !is_idle {
            self.ring();
        }
        result
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
