//! A lane: a connection to one leader, and the requests that it sends in turn.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::connection::Connection;
use crate::frames::Pool;
use crate::reconnect::{Outfit, Post};

/// A connection and its purpose.
#[derive(Debug)]
pub(crate) struct Lane {
    pub address: String,
    pub connection: Option<Connection>,
    pub pool: Arc<Pool>,
    /// Index of the next request in the pool.
    pub next: usize,
    /// Scheduled times of requests that are due here and have no slot yet, in order.
    pub queue: VecDeque<u64>,
    /// Whether the last connection broke; reported when it is restored.
    pub was_lost: bool,
    /// The successor, used when all sent requests are answered.
    successor: Option<Outfit>,
}

impl Lane {
    pub(crate) fn new(outfit: Outfit) -> Self {
        Self {
            address: outfit.address,
            connection: outfit.connection,
            pool: outfit.pool.unwrap_or_else(|| Arc::new(Pool::empty())),
            next: 0,
            queue: VecDeque::new(),
            was_lost: false,
            successor: None,
        }
    }

    /// Whether another request may be queued for writing.
    pub(crate) fn has_room(&self, in_flight: usize) -> bool {
        self.successor.is_none()
            && !self.pool.requests.is_empty()
            && self.connection.as_ref().is_some_and(|connection| connection.has_room(in_flight))
    }

    /// Whether a connection is wanted and missing.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.connection.is_none() && self.successor.is_none() && !self.pool.partitions.is_empty()
    }

    pub(crate) fn has_successor(&self) -> bool {
        self.successor.is_some()
    }

    /// The lane as the reconnector must see it: as it will be after a successor takes over.
    pub(crate) fn post(&self) -> Post {
        Post {
            address: self.address.clone(),
            partitions: self.pool.partitions.clone(),
            alive: self.connection.is_some(),
        }
    }

    /// Applies the reconnector's result, at once if no request is in flight, and later otherwise.
    pub(crate) fn take(&mut self, outfit: Outfit) {
        self.successor = Some(outfit);
    }

    /// Puts a successor into use if everything is answered; returns whether it brought a new connection.
    pub(crate) fn settle(&mut self) -> Option<bool> {
        if !self.connection.as_ref().is_none_or(Connection::is_idle) {
            return None;
        }
        let outfit = self.successor.take()?;
        let moved = outfit.address != self.address;
        self.address = outfit.address;
        if let Some(pool) = outfit.pool {
            self.pool = pool;
            self.next %= self.pool.requests.len().max(1);
        }
        let fresh = outfit.connection.is_some();
        if fresh || moved {
            self.connection = outfit.connection;
        }
        Some(fresh)
    }
}
