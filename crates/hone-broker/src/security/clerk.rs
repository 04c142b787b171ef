//! The thread for what would hold up a reactor: checking a password takes milliseconds of CPU, changing users waits for
//! the disk.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::users::Change;
use crate::mailbox::{Letter, Reply, Ticket};
use crate::node::Node;

/// Jobs that may wait. Above this new ones are turned away: whoever sends passwords by the thousand waits longer than
/// whoever sends one.
const MOST_WAITING: usize = 256;

/// Something to do for a parked request.
pub(crate) enum Job {
    /// Is this the user's password? Answered with [`Reply::Checked`].
    Check { ticket: Ticket, user: String, password: String },
    /// Answered with [`Reply::Altered`].
    Alter { ticket: Ticket, changes: Vec<Change> },
    /// End the thread.
    Stop,
}

/// The way to the thread.
pub(crate) struct Clerk(SyncSender<Job>);

impl Clerk {
    pub(crate) fn new() -> (Self, Receiver<Job>) {
        let (jobs, waiting) = sync_channel(MOST_WAITING);
        (Self(jobs), waiting)
    }

    /// Hands a job over; `false` when too many wait.
    pub(crate) fn take(&self, job: Job) -> bool {
        self.0.try_send(job).is_ok()
    }

    /// Ends the thread behind the jobs that wait.
    pub(crate) fn stop(&self) {
        // An error says that it has ended.
        let _ = self.0.send(Job::Stop);
    }
}

/// Does jobs until told to stop.
pub(crate) fn run(node: &Arc<Node>, jobs: &Receiver<Job>) -> io::Result<()> {
    let users = &node.security.users;
    for job in jobs {
        let (ticket, reply) = match job {
            Job::Check { ticket, user, password } => {
                (ticket, Reply::Checked { user_is_right: users.password_is(&user, &password), user })
            }
            Job::Alter { ticket, changes } => (ticket, Reply::Altered(users.alter(&changes))),
            Job::Stop => return Ok(()),
        };
        node.post(ticket, Letter::Reply(ticket.connection, reply));
    }
    Ok(())
}
