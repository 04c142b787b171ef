//! What the threads do that work for the reactors: flushes, passwords, and the care for logs.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use crate::mailbox::Letter;
use crate::node::Node;
use crate::reply::Reply;
use crate::security::hashing::Job;
use crate::ticket::Ticket;
use crate::wall_clock::unix_ms;

/// One thread: flushes until the end.
pub(crate) fn flush(node: &Node) {
    while let Some((partition, reactor)) = node.flusher.next() {
        if let Err(error) = partition.flush() {
            node.settings.notices.say(&format!(
                "can't flush {}-{}: {error}; the content of the disk is unknown, so this partition accepts \
                 no writes until the broker restarts; check the disk and its free space first",
                partition.topic, partition.index
            ));
        }
        node.post(Ticket { reactor, connection: 0 }, Letter::Flushed(partition));
    }
}

/// Goes round all partitions until the end.
pub(crate) fn keep_house(node: &Node) {
    while node.housekeeper.pause(Duration::from_millis(node.settings.housekeeping_ms)) {
        for topic in node.topics.all() {
            for partition in &topic.partitions {
                if node.housekeeper.has_ended() {
                    return;
                }
                if let Err(error) = partition.housekeep(unix_ms()) {
                    let (topic, index) = (&partition.topic, partition.index);
                    node.settings.notices.say(&format!("can't clean the log of {topic}-{index}: {error}"));
                }
            }
        }
        // Once a round and not for each partition: on a full disk it tries to write.
        node.topics.refill_reserve();
    }
}

/// Checks passwords until [`Job::Stop`].
pub(crate) fn check_passwords(node: &Arc<Node>, jobs: &Receiver<Job>) -> io::Result<()> {
    while let Ok(Job::Check { ticket, user, password }) = jobs.recv() {
        let user_is_right = node.security.users.password_is(&user, &password);
        node.post(ticket, Letter::Reply(ticket.connection, Reply::Checked { user, user_is_right }));
    }
    Ok(())
}
