//! The clerk: one thread that does what has to wait for the disk, in the order it was asked for, so that no reactor does.
//!
//! Who asks parks until the answer comes, and a connection has one parked request at most: so the jobs that wait are as
//! many as there are connections, and no more.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};

use crate::mailbox::Letter;
use crate::node::Node;
use crate::protocol::Answer;
use crate::reply::Reply;
use crate::ticket::Ticket;

type Work = Box<dyn FnOnce(&Node, &mut Answer<'_>) + Send>;
type Chore = Box<dyn FnOnce(&Node) + Send>;

enum Note {
    Job {
        ticket: Ticket,
        flexible: bool,
        work: Work,
    },
    /// A task without an answer.
    Chore(Chore),
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

    /// Has something done that is no request's answer.
    pub(crate) fn leave_chore(&self, chore: impl FnOnce(&Node) + Send + 'static) {
        let _ = self.0.send(Note::Chore(Box::new(chore)));
    }

    /// Lets the clerk go home, after the jobs that are there.
    pub(crate) fn close(&self) {
        let _ = self.0.send(Note::Stop);
    }
}

/// Does jobs until the desk is closed.
pub(crate) fn run(node: &Node, jobs: &Jobs) -> io::Result<()> {
    while let Ok(note) = jobs.0.recv() {
        match note {
            Note::Job { ticket, flexible, work } => serve(node, ticket, flexible, work),
            Note::Chore(chore) => {
                if catch_unwind(AssertUnwindSafe(|| chore(node))).is_err() {
                    node.settings.notices.say("a background task of the broker failed; this is a bug");
                }
            }
            Note::Stop => break,
        }
    }
    Ok(())
}

fn serve(node: &Node, ticket: Ticket, flexible: bool, work: Work) {
    let mut body = Vec::new();
    let mut answer = Answer::new(&mut body, flexible);
    // A defect in one job costs its connection, not all the jobs behind it.
    let done = catch_unwind(AssertUnwindSafe(|| work(node, &mut answer)));
    let reply = if done.is_ok() { Reply::Body(body) } else { Reply::Failed };
    node.post(ticket, Letter::Reply(ticket.connection, reply));
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use mio::{Poll, Token, Waker};

    use super::*;
    use crate::coordinator::Coordinator;
    use crate::mailbox::Mailbox;
    use crate::node::Stores;
    use crate::notices::Notices;
    use crate::partition::Storage;
    use crate::properties::broker::BrokerProperties;
    use crate::quotas::Quotas;
    use crate::security::Security;
    use crate::security::acl::Acls;
    use crate::settings::Settings;
    use crate::topics::Topics;
    use crate::transactions::Transactions;

    #[test]
    fn a_job_that_panics_fails_alone_and_answers_come_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let polls = [Poll::new().unwrap(), Poll::new().unwrap()];
        let [waker, bell] = [0, 1].map(|at: usize| Waker::new(polls[at].registry(), Token(0)).unwrap());
        let topics =
            Topics::open(None, &BrokerProperties::default(), Storage::on_disk(Notices::nowhere())).unwrap();
        let (desk, jobs) = desk();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let settings = Settings::new(folder.path());
        let (security, _logins) = Security::open(&settings, None).unwrap();
        let stores = Stores {
            security,
            topics,
            coordinator: Coordinator::open(None, &settings).unwrap(),
            acls: Acls::open(None, false, &[]).unwrap(),
            quotas: Quotas::open(None).unwrap(),
            transactions: Transactions::open(None, &Notices::nowhere()).unwrap(),
        };
        let node = Node::new(settings, address.into(), stores, desk, vec![Mailbox::new(waker)], bell);
        let ticket = |connection| Ticket { reactor: 0, connection };
        node.desk.leave(ticket(5), true, |_, answer| answer.string("first"));
        node.desk.leave(ticket(6), false, |_, _| panic!("a defect"));
        node.desk.leave_chore(|_| panic!("another one"));
        node.desk.leave(ticket(7), false, |_, answer| answer.i16(7));
        node.desk.close();
        run(&node, &jobs).unwrap();
        let mut letters = Vec::new();
        node.mailboxes[0].take(&mut letters);
        let replies: Vec<_> = letters
            .into_iter()
            .map(|letter| match letter {
                Letter::Reply(connection, reply) => (connection, reply),
                _ => panic!("no reply"),
            })
            .collect();
        let wanted =
            [(5, Reply::Body(b"\x06first".to_vec())), (6, Reply::Failed), (7, Reply::Body(vec![0, 7]))];
        assert_eq!(replies, wanted);
    }
}
