//! The clerk: one thread that does what has to wait for the disk, in the order it was asked for, so that no worker does.
//!
//! Who asks parks until the answer comes, and a connection has one parked request at most: so the jobs that wait are as
//! many as there are connections, and no more.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};

use crate::mailbox::{Letter, Reply, Ticket};
use crate::node::Node;
use crate::protocol::Answer;

type Work = Box<dyn FnOnce(&Node, &mut Answer<'_>) + Send>;

enum Note {
    Job { ticket: Ticket, flexible: bool, work: Work },
    Stop,
}

/// Where jobs for the clerk are left.
pub(crate) struct Desk(Sender<Note>);

/// Where the clerk finds them.
pub(crate) struct Jobs(Receiver<Note>);

/// A desk, and the jobs that will lie on it.
pub(crate) fn desk() -> (Desk, Jobs) {
    let (sender, receiver) = mpsc::channel();
    (Desk(sender), Jobs(receiver))
}

impl Desk {
    /// Has a request answered: what `work` writes is sent to the ticket's connection.
    pub(crate) fn leave(
        &self,
        ticket: Ticket,
        flexible: bool,
        work: impl FnOnce(&Node, &mut Answer<'_>) + Send + 'static,
    ) {
        // A clerk that has gone home is one whose broker stops; its clients are about to be hung up on.
        let _ = self.0.send(Note::Job { ticket, flexible, work: Box::new(work) });
    }

    /// Lets the clerk go home, after the jobs that are there.
    pub(crate) fn close(&self) {
        let _ = self.0.send(Note::Stop);
    }
}

/// Does jobs until the desk is closed.
pub(crate) fn run(node: &Node, jobs: &Jobs) -> io::Result<()> {
    while let Ok(Note::Job { ticket, flexible, work }) = jobs.0.recv() {
        let mut body = Vec::new();
        let mut answer = Answer::new(&mut body, flexible);
        // A defect in one job costs its connection, not all the jobs behind it.
        let done = catch_unwind(AssertUnwindSafe(|| work(node, &mut answer)));
        let reply = if done.is_ok() { Reply::Body(body) } else { Reply::Failed };
        node.post(ticket, Letter::Reply(ticket.connection, reply));
    }
    Ok(())
}
