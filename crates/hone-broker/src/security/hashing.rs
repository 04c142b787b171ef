//! The thread that hashes passwords: to check one takes milliseconds of CPU, which would hold up a reactor.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use crate::ticket::Ticket;

/// Largest number of waiting passwords. The broker rejects further ones. So a client that sends thousands of passwords
/// waits longer than a client that sends one.
const MOST_WAITING: usize = 256;

/// Something to do for a parked request.
pub(crate) enum Job {
    /// Is this the user's password? Answered with `Reply::Checked`.
    Check { ticket: Ticket, user: String, password: String },
    /// End the thread.
    Stop,
}

/// The way to the thread.
pub(crate) struct Hasher(SyncSender<Job>);

impl Hasher {
    pub(crate) fn new() -> (Self, Receiver<Job>) {
        let (jobs, waiting) = sync_channel(MOST_WAITING);
        (Self(jobs), waiting)
    }

    /// Has a password checked; `false` when too many wait.
    pub(crate) fn check(&self, ticket: Ticket, user: String, password: String) -> bool {
        self.0.try_send(Job::Check { ticket, user, password }).is_ok()
    }

    /// Ends the thread behind the passwords that wait.
    pub(crate) fn stop(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Job::Stop);
    }
}
