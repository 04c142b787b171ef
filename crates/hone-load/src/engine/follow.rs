//! Follows the cluster: decides when to use the reconnector, and applies its results.

use std::collections::BTreeMap;

use hone_record::EventKind;

use super::Engine;
use super::doubt::Doubt;
use crate::admin::TopicLayout;
use crate::error::LoadError;
use crate::reconnect::{News, Outfit, ReconnectRequest, ReconnectThread};
use crate::topic_set::TopicSet;

/// Pause between two orders to the reconnector.
const PAUSE_NS: u64 = 100_000_000;

/// Problems with the connections to the cluster.
#[derive(Debug)]
pub(crate) struct Follow {
    thread: ReconnectThread,
    /// Whether the engine continues through a failure, or the failure ends the stretch.
    pub patient: bool,
    /// Whether leaders must be looked up, or connections opened.
    wanted: bool,
    new_producer: bool,
    /// Nothing new is sent until all sent requests are answered.
    renewing: bool,
    /// Whether lanes wait for their last answers before they change.
    changing: bool,
    next_order_ns: u64,
    /// Time since which no connection has brought an answer.
    away_since_ns: Option<u64>,
    doubt: Doubt,
    layout: TopicLayout,
    last_trouble: String,
}

impl Follow {
    pub(crate) fn new(thread: ReconnectThread, layout: TopicLayout) -> Self {
        Self {
            thread,
            patient: false,
            wanted: false,
            new_producer: false,
            renewing: false,
            changing: false,
            next_order_ns: 0,
            away_since_ns: None,
            doubt: Doubt::default(),
            layout,
            last_trouble: String::new(),
        }
    }

    /// The topics of the load.
    pub(crate) fn topics(&self) -> &TopicSet {
        &self.layout.topics
    }

    pub(crate) fn in_trouble(&self) -> bool {
        self.wanted || self.new_producer || self.changing || self.thread.busy
    }

    /// Whether sending is paused.
    pub(crate) fn holds_sends(&self) -> bool {
        self.new_producer || self.renewing
    }

    pub(crate) fn wants(&mut self, ask: bool) {
        self.wanted |= ask;
    }

    pub(crate) fn wants_new_producer(&mut self) {
        self.new_producer = true;
    }

    pub(crate) fn lost(&mut self, reason: String) {
        self.wanted = true;
        self.last_trouble = reason;
    }

    pub(crate) fn all_lost(&mut self, now_ns: u64) {
        self.away_since_ns.get_or_insert(now_ns);
    }

    /// Notes an answer.
    pub(crate) fn heard(&mut self) {
        self.away_since_ns = None;
    }

    /// Error name for the requests that an interrupted window leaves unfinished.
    pub(crate) fn name_of_the_end(&self) -> &'static str {
        if self.doubt.is_believed() { "topic deleted" } else { "connection lost" }
    }
}

impl Engine {
    /// Checks the failure once. The inner `Err` ends the window.
    pub(super) fn attend(&mut self, now_ns: u64) -> Result<Result<(), String>, LoadError> {
        if let Some(news) = self.follow.thread.news() {
            self.follow.next_order_ns = now_ns + PAUSE_NS;
            if let Err(end) = self.take_news(news, now_ns) {
                return Ok(Err(end));
            }
        }
        if self.follow.changing {
            self.settle(now_ns)?;
        }
        let follow = &mut self.follow;
        if let Some(since_ns) = follow.away_since_ns
            && now_ns > since_ns + self.timeout_ns
        {
            return Ok(Err(format!(
                "no broker of the cluster was reachable from {:.1} s into the window, for longer than the \
                 timeout of {} s; the last error: {}",
                since_ns as f64 / 1e9,
                self.timeout_ns as f64 / 1e9,
                follow.last_trouble
            )));
        }
        let idle = !follow.thread.busy && !follow.changing && now_ns >= follow.next_order_ns;
        if idle && (follow.wanted || follow.new_producer) {
            let order = ReconnectRequest {
                posts: self.lanes.iter().map(super::Lane::post).collect(),
                new_producer: self.follow.new_producer,
            };
            if !self.follow.thread.give(order) {
                return Ok(Err("this machine has no thread left for reconnecting".to_owned()));
            }
        }
        Ok(Ok(()))
    }

    /// `Err` ends the window.
    fn take_news(&mut self, news: News, now_ns: u64) -> Result<(), String> {
        match news {
            News::Away(why) => self.follow.last_trouble = why,
            News::NoTopic { error, silent } => {
                self.follow.wanted = true;
                if let Some(since_ns) = self.follow.doubt.nobody_knows(now_ns, silent, self.timeout_ns) {
                    let topic = self.follow.layout.topics.label();
                    let what = format!("topic `{topic}`: the cluster answered {error}");
                    self.events.add(since_ns, EventKind::TopicDeleted, what);
                    let at_s = since_ns as f64 / 1e9;
                    return Err(format!("topic `{topic}` was deleted {at_s:.1} s into the window"));
                }
            }
            News::Outfits { outfits, layout, leaderless, new_producer, trouble } => {
                self.follow.doubt.somebody_knows();
                for what in moves(&self.follow.layout, &layout) {
                    self.events.add(now_ns, EventKind::LeaderMoved, what);
                }
                self.follow.layout = layout;
                self.follow.wanted = trouble.is_some() || !leaderless.is_empty();
                if let Some(trouble) = trouble {
                    self.follow.last_trouble = trouble;
                }
                if new_producer {
                    self.follow.new_producer = false;
                    self.follow.renewing = true;
                }
                self.follow.changing = true;
                self.hand_out(outfits);
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, outfits: Vec<Outfit>) {
        for (index, outfit) in outfits.into_iter().enumerate() {
            match self.lanes.get_mut(index) {
                Some(lane) => lane.take(outfit),
                None => {
                    let mut lane = super::Lane::new(Outfit {
                        address: outfit.address.clone(),
                        pool: None,
                        connection: None,
                    });
                    lane.take(outfit);
                    self.lanes.push(lane);
                }
            }
        }
    }

    /// Applies the reconnector's results, lane by lane, as the last answers arrive.
    fn settle(&mut self, now_ns: u64) -> Result<(), LoadError> {
        let mut settled = false;
        for index in 0..self.lanes.len() {
            let Some(fresh) = self.lanes[index].settle() else { continue };
            settled = true;
            if fresh {
                self.watch(index)?;
                let lane = &mut self.lanes[index];
                if std::mem::take(&mut lane.was_lost) {
                    let what = format!("connected to {} again", lane.address);
                    self.events.add(now_ns, EventKind::Reconnected, what);
                }
            }
        }
        if settled {
            self.take_turns();
        }
        self.follow.changing = self.lanes.iter().any(super::Lane::has_successor);
        if !self.follow.changing {
            if std::mem::take(&mut self.follow.renewing) {
                self.put_back.forget_sequences();
                self.sequences = Some(BTreeMap::new());
            }
            // The connection broke meanwhile, or could not be opened.
            self.follow.wanted |= self.lanes.iter().any(super::Lane::is_cut_off);
        }
        Ok(())
    }
}

/// Partitions with a new leader, in words, one line for each pair of brokers.
fn moves(before: &TopicLayout, after: &TopicLayout) -> Vec<String> {
    let leaders = |layout: &TopicLayout| -> BTreeMap<i32, String> {
        let led = |(address, led): &(String, Vec<i32>)| {
            led.iter().map(|partition| (*partition, address.clone())).collect::<Vec<_>>()
        };
        layout.leaders.iter().flat_map(led).collect()
    };
    let (old, new) = (leaders(before), leaders(after));
    let mut moved: BTreeMap<(Option<&String>, Option<&String>), Vec<String>> = BTreeMap::new();
    for partition in old.keys().chain(new.keys().filter(|partition| !old.contains_key(partition))) {
        let (from, to) = (old.get(partition), new.get(partition));
        if from != to {
            moved.entry((from, to)).or_default().push(after.topics.name(*partition));
        }
    }
    moved
        .into_iter()
        .map(|((from, to), partitions)| {
            let list = partitions.join(", ");
            match (from, to) {
                (Some(from), Some(to)) => format!("partitions {list}: from {from} to {to}"),
                (Some(from), None) => format!("partitions {list}: no leader now, before it was {from}"),
                (_, to) => format!("partitions {list}: {} leads now", to.map_or("nobody", String::as_str)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_are_told_by_broker() {
        let layout = |leaders: &[(&str, &[i32])]| TopicLayout {
            topics: "t".into(),
            leaders: leaders.iter().map(|(address, led)| ((*address).to_owned(), led.to_vec())).collect(),
        };
        let before = layout(&[("a:1", &[0, 2]), ("b:1", &[1, 3])]);
        assert!(moves(&before, &before).is_empty());
        let after = layout(&[("b:1", &[0, 1, 2])]);
        assert_eq!(
            moves(&before, &after),
            ["partitions 0, 2: from a:1 to b:1", "partitions 3: no leader now, before it was b:1"]
        );
        assert_eq!(moves(&after, &before)[0], "partitions 3: b:1 leads now");
    }
}
