//! The thread that looks after logs: rolls by time, retention, compaction.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::node::Node;
use crate::wall_clock::unix_ms;

/// Ends the thread from outside.
#[derive(Debug, Default)]
pub(crate) struct Housekeeper {
    ended: Mutex<bool>,
    bell: Condvar,
}

impl Housekeeper {
    /// Goes round all partitions until the end.
    pub(crate) fn run(&self, node: &Node) {
        while self.pause(Duration::from_millis(node.settings.housekeeping_ms)) {
            for topic in node.topics.all() {
                for partition in &topic.partitions {
                    if self.has_ended() {
                        return;
                    }
                    if let Err(error) = partition.housekeep(unix_ms()) {
                        let (topic, index) = (&partition.topic, partition.index);
                        node.settings.notices.say(&format!("{topic}-{index} can't be cleaned: {error}"));
                    }
                }
            }
            // Once a round and not for each partition: on a full disk it tries to write.
            node.topics.refill_reserve();
        }
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; `false` at the end.
    fn pause(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let (ended, _) = self
            .bell
            .wait_timeout_while(ended, time, |ended| !*ended)
            .unwrap_or_else(PoisonError::into_inner);
        !*ended
    }

    /// Lets the thread end.
    pub(crate) fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.bell.notify_all();
    }
}
