//! Looks up leaders again on a separate thread, so that the reading thread never waits for a name, a connection or a login.
//!
//! It receives the list of partitions, and returns each connection as soon as it is open. The reader decides whether to send it again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use crate::admin::{Admin, TopicLayout, TopicNow, remember};
use crate::cluster::At;
use crate::error::LoadError;
use crate::security::Access;
use crate::stream::Stream;
use crate::topic_set::TopicSet;

/// Time limit for each step of reaching a broker. A live broker answers in milliseconds.
const STEP_LIMIT: Duration = Duration::from_secs(1);

/// Partitions of one consumer that need a leader.
#[derive(Debug)]
pub(super) struct Quest {
    pub consumer: usize,
    pub sought: Vec<Sought>,
}

/// A partition that needs a leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sought {
    pub partition: i32,
    /// If set, only another leader than this one is accepted.
    pub other_than: Option<String>,
    /// Whether the beginning of its log is needed, too.
    pub start: bool,
}

/// A connection to the leader of some partitions.
#[derive(Debug)]
pub(super) struct Way {
    pub consumer: usize,
    pub address: String,
    pub partitions: Vec<i32>,
    /// Beginnings of logs, if requested.
    pub starts: BTreeMap<i32, i64>,
    pub stream: Stream,
}

/// Messages back to the reader.
#[derive(Debug)]
pub(super) enum News {
    Found(Box<Way>),
    /// The order is finished.
    Done,
}

/// The reader's end; the first order starts the thread.
#[derive(Debug)]
pub(super) struct Scout {
    resting: Option<Search>,
    line: Option<(Sender<Vec<Quest>>, Receiver<News>)>,
    /// Whether an order is in progress.
    pub busy: bool,
}

impl Scout {
    pub(super) fn new(addresses: Vec<String>, topics: &TopicSet, access: Access) -> Self {
        let search = Search { addresses, topics: topics.clone(), access, failed: BTreeSet::new() };
        Self { resting: Some(search), line: None, busy: false }
    }

    pub(super) fn send(&mut self, quests: Vec<Quest>) {
        if let Some(search) = self.resting.take() {
            let (to, orders) = channel();
            let (news, from) = channel();
            let (again, serve) = (search.clone(), move || search.serve(&orders, &news));
            if std::thread::Builder::new().name("scout".to_owned()).spawn(serve).is_err() {
                // This machine has no thread left; it may have one the next time.
                self.resting = Some(again);
                return;
            }
            self.line = Some((to, from));
        }
        self.busy = self.line.as_ref().is_some_and(|(to, _)| to.send(quests).is_ok());
    }

    /// Results that were not returned yet.
    pub(super) fn news(&mut self) -> Option<News> {
        let (_, from) = self.line.as_ref().filter(|_| self.busy)?;
        let news = match from.try_recv() {
            Ok(news) => news,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => News::Done,
        };
        self.busy = !matches!(news, News::Done);
        Some(news)
    }
}

/// State of the thread.
#[derive(Debug, Clone)]
struct Search {
    /// Brokers that may know the leaders, the last one that answered first.
    addresses: Vec<String>,
    topics: TopicSet,
    access: Access,
    /// Leaders that could not be reached. They come last, so that others need not wait for them.
    failed: BTreeSet<String>,
}

impl Search {
    /// Serves until the reader is gone.
    fn serve(mut self, orders: &Receiver<Vec<Quest>>, news: &Sender<News>) {
        while let Ok(quests) = orders.recv() {
            let gone = self.carry_out(&quests, news).is_err();
            if gone || news.send(News::Done).is_err() {
                return;
            }
        }
    }

    /// `Err` means that the reader is gone.
    fn carry_out(&mut self, quests: &[Quest], news: &Sender<News>) -> Result<(), ()> {
        let Some(mut layout) = self.ask() else { return Ok(()) };
        layout.leaders.sort_by_key(|(address, _)| self.failed.contains(address));
        for (address, led) in &layout.leaders {
            self.failed.remove(address);
            for quest in quests {
                let is_there = |sought: &&Sought| {
                    led.contains(&sought.partition) && sought.other_than.as_ref() != Some(address)
                };
                let found: Vec<&Sought> = quest.sought.iter().filter(is_there).collect();
                if found.is_empty() {
                    continue;
                }
                match self.way(quest.consumer, address, &found) {
                    Ok(way) => news.send(News::Found(Box::new(way))).map_err(|_| ())?,
                    Err(_) => {
                        self.failed.insert(address.clone());
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Asks every known broker in turn until one knows the topic.
    fn ask(&mut self) -> Option<TopicLayout> {
        for index in 0..self.addresses.len() {
            let asked =
                self.admin(&self.addresses[index]).and_then(|mut admin| admin.topics_now(&self.topics));
            let Ok((TopicNow::Led { layout, .. }, _)) = asked else { continue };
            self.addresses.swap(0, index);
            remember(&mut self.addresses, layout.leaders.iter().map(|(address, _)| address.clone()));
            return Some(layout);
        }
        None
    }

    fn admin(&self, address: &str) -> Result<Admin, LoadError> {
        Admin::enter(address, self.access.clone(), STEP_LIMIT)
    }

    fn way(&self, consumer: usize, address: &str, found: &[&Sought]) -> Result<Way, LoadError> {
        let mut starts = BTreeMap::new();
        for sought in found.iter().filter(|sought| sought.start) {
            let (topic, partition) = self.topics.place(sought.partition);
            let start = self.admin(address)?.offset_at(topic, partition, At::Earliest)?;
            starts.insert(sought.partition, start);
        }
        Ok(Way {
            consumer,
            address: address.to_owned(),
            partitions: found.iter().map(|sought| sought.partition).collect(),
            starts,
            stream: self.access.enter_stamped(address, STEP_LIMIT)?,
        })
    }
}
