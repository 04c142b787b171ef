//! One generator among several that send one load: its topic, its begin, its record.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use hone_load::{Admin, Topic};
use hone_record::{Shard, Window};

use crate::rendezvous::Rendezvous;
use hone_experiment::progress::Progress;

/// One generator among several, and how it meets them.
#[derive(Debug)]
pub struct Meeting {
    rendezvous: Rendezvous,
    /// The topic that was made for this load.
    own_topic: Option<String>,
}

impl Meeting {
    /// Comes to the place where the others are.
    ///
    /// # Errors
    /// When it can't be opened.
    pub fn open(store: &str, (index, of): (u32, u32), patience: Duration) -> Result<Self> {
        Ok(Self { rendezvous: Rendezvous::open(store, index, of, patience)?, own_topic: None })
    }

    /// Which one of how many this is.
    pub fn shard(&self) -> Shard {
        self.rendezvous.shard()
    }

    /// The topic of all shards: the one that is named, or one that is made for them.
    ///
    /// # Errors
    /// When the others don't come, or the place does not answer.
    pub fn topic(&mut self, named: Option<&str>, progress: &Progress) -> Result<Topic> {
        if let Some(name) = named {
            return Ok(Topic::Existing(name.to_owned()));
        }
        let name = self.rendezvous.topic(|what| progress.detail(what))?;
        self.own_topic = Some(name.clone());
        Ok(Topic::Shared(name))
    }

    /// Waits for the others; answers when the window opens, for this process and for the record.
    ///
    /// # Errors
    /// When the others don't come, or the place does not answer.
    pub fn start(&self, progress: &Progress) -> Result<(Instant, u64)> {
        let start_unix_ms = self.rendezvous.meet(|what| progress.detail(what))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let ahead = Duration::from_millis(start_unix_ms).saturating_sub(now);
        Ok((Instant::now() + ahead, start_unix_ms))
    }

    /// The topic that was made for this load, where this shard is the one that removes it.
    fn to_remove(&self) -> Option<&String> {
        self.own_topic.as_ref().filter(|_| self.shard().index == 0)
    }

    /// What a load that broke off leaves: the others may still send to it.
    pub fn tell_left(&self, progress: &Progress) {
        if let Some(topic) = self.to_remove() {
            progress.line(&format!(
                "the load's topic {topic} stays where it was made, since other shards may send to it: remove it when they have ended"
            ));
        }
    }

    /// Keeps the record, and removes the topic when nobody needs it any more.
    ///
    /// # Errors
    /// When the others don't come, or the place does not answer.
    pub fn keep(
        &self,
        window: &Window,
        connect: impl FnOnce() -> Result<Admin>,
        progress: &Progress,
    ) -> Result<()> {
        self.rendezvous.keep(window).inspect_err(|_| self.tell_left(progress))?;
        let Some(topic) = self.to_remove() else { return Ok(()) };
        let removed = self
            .rendezvous
            .wait_for_records(|what| progress.detail(what))
            .and_then(|()| Ok(connect()?.delete_topic(topic)?));
        if let Err(error) = removed {
            progress.line(&format!("the load's topic {topic} was left where it is: {error:#}"));
        }
        Ok(())
    }
}
