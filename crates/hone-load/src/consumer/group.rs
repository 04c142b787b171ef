//! Groups of consumers: which member reads which partition, and partitions without a reader while a group rebalances.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hone_record::{EventKind, GroupProtocol, Rebalances, Workload};

use super::ReadLoop;
use super::commits::{delete, find, group_of};
use super::link::Link;
use super::member::{Member, MemberNews, MemberThread, Unowned};
use super::reader::{Consumer, Lane};
use super::share::Share;
use super::sharer::place_group;
use crate::admin::Admin;
use crate::coordinator::looked_up_anew;
use crate::error::LoadError;
use crate::security::Access;

/// The groups of a load.
#[derive(Debug)]
pub(super) struct Groups {
    /// Whether the consumers form groups.
    pub(super) are_there: bool,
    /// Members of a group.
    pub(super) members: usize,
    /// Partitions without a reader, by group. Share groups have none here.
    pub(super) free: BTreeMap<(usize, i32), Lane>,
    /// What share groups have read.
    pub(super) share: Option<Share>,
    /// Rebalances in the window. `None` if the members assign themselves.
    pub(super) rebalances: Option<Rebalances>,
    news: Option<Receiver<MemberNews>>,
    /// One for each consumer, if brokers know them as members.
    threads: Vec<MemberThread>,
    unowned: Unowned,
    /// Planted rebalances: the interval, the next one, and the member whose turn it is.
    planted: Option<(Duration, Instant, usize)>,
    /// Members that are not in their group, and why, before the window.
    pub(super) out: BTreeMap<usize, String>,
    /// How to delete the groups in the end.
    names: Vec<(String, Access, String)>,
}

impl Groups {
    pub(super) fn new(load: &Workload) -> Self {
        Self {
            are_there: load.consumer_group,
            members: (load.consumers as usize).max(1),
            free: BTreeMap::new(),
            share: None,
            rebalances: (load.group_protocol != GroupProtocol::Assigned).then(Rebalances::default),
            news: None,
            threads: Vec::new(),
            unowned: Unowned::default(),
            planted: None,
            out: BTreeMap::new(),
            names: Vec::new(),
        }
    }

    /// The number of consumers that share their records.
    pub(super) fn unit_size(&self) -> usize {
        if self.are_there { self.members } else { 1 }
    }

    /// The group of a consumer; its own number without groups.
    pub(super) fn unit(&self, consumer: usize) -> usize {
        consumer / self.unit_size()
    }

    /// The free lanes of a group.
    fn free_in(&self, group: usize) -> impl Iterator<Item = &Lane> {
        self.free.range((group, i32::MIN)..=(group, i32::MAX)).map(|(_, lane)| lane)
    }

    /// Unread records of a group that none of its members counts: those of its free partitions, or all of a share group.
    pub(super) fn behind(&self, group: usize) -> u64 {
        let shared = self.share.as_ref().map_or(0, |share| share.behind(group));
        self.free_in(group).map(|lane| lane.behind()).sum::<u64>() + shared
    }

    /// Whether a partition of a group has no reader.
    fn has_free(&self, group: usize, consumers: &[Consumer]) -> bool {
        let Some(share) = &self.share else { return self.free_in(group).next().is_some() };
        let members = &consumers[group * self.members..(group + 1) * self.members];
        let is_free = |partition| !members.iter().any(|member| member.lanes.contains_key(&partition));
        share.partitions().any(is_free)
    }

    /// Whether a partition of any group has no reader.
    pub(super) fn have_free(&self, consumers: &[Consumer]) -> bool {
        !self.free.is_empty()
            || self.share.is_some()
                && (0..consumers.len() / self.members).any(|group| self.has_free(group, consumers))
    }

    /// Begins a share session on a new link of a consumer.
    pub(super) fn begin_session(&self, consumer: usize, link: &mut Link) {
        if let Some(share) = &self.share {
            let (_, _, group) = &self.names[self.unit(consumer)];
            link.session = Some(Box::new(share.session(group, consumer)));
        }
    }

    /// The free lanes of a partition, in all groups.
    pub(super) fn free_of(&mut self, partition: i32) -> impl Iterator<Item = &mut Lane> {
        self.free.iter_mut().filter(move |((_, of), _)| *of == partition).map(|(_, lane)| lane)
    }

    /// All members leave for good.
    pub(super) fn dismiss(&mut self) {
        // Whatever a member asks for now gets no answer, which is an answer, too.
        self.news = None;
        self.threads.iter_mut().for_each(MemberThread::dismiss);
        self.threads.clear();
        for (address, access, name) in self.names.drain(..) {
            if let Ok(mut coordinator) = find(&address, &access, &name) {
                delete(&mut coordinator, &name);
            }
        }
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        self.dismiss();
    }
}

impl ReadLoop {
    /// Starts the members of all groups. All partitions are free until the groups have dealt them.
    pub(super) fn join_groups(
        &mut self,
        load: &Workload,
        (address, access): (&str, &Access),
        from: &BTreeMap<i32, i64>,
    ) -> Result<(), LoadError> {
        if load.group_protocol == GroupProtocol::Assigned {
            return Ok(());
        }
        let (news, receiver) = channel();
        self.groups.news = Some(receiver);
        let is_share = load.group_protocol == GroupProtocol::Share;
        for group in 0..self.joins.len() {
            let name = group_of(self.topics.first(), group);
            if is_share {
                looked_up_anew(|| {
                    place_group(&mut find(address, access, &name)?, &name, &self.topics, from)
                })?;
            } else {
                let lanes = Consumer::new(from).lanes.into_iter();
                self.groups.free.extend(lanes.map(|(partition, lane)| ((group, partition), lane)));
            }
            self.groups.names.push((address.to_owned(), access.clone(), name));
        }
        if is_share {
            let ids = Admin::enter(address, access.clone(), Admin::LIMIT)?.topic_ids(&self.topics)?;
            self.groups.share = Some(Share::new(load, ids, from)?);
        }
        for consumer in 0..self.consumers.len() {
            let (address, access, group) = self.groups.names[self.groups.unit(consumer)].clone();
            let member = Member {
                consumer,
                address,
                access,
                group,
                topics: self.topics.clone(),
                partitions: from.keys().copied().collect(),
                own_id: self.groups.share.as_ref().map(|share| share.member(consumer)).unwrap_or_default(),
                news: news.clone(),
            };
            self.groups.threads.push(MemberThread::start(member, load.group_protocol)?);
        }
        let every = Duration::from_secs_f64(load.rebalance_every_s);
        self.groups.planted = (!every.is_zero()).then(|| (every, Instant::now() + every, 0));
        Ok(())
    }

    /// Carries out what the members report, and plants rebalances.
    pub(super) fn follow_groups(&mut self) {
        if self.groups.threads.is_empty() {
            return;
        }
        while let Some(news) = self.groups.news.as_ref().and_then(|news| news.try_recv().ok()) {
            self.take_member_news(news);
            self.note_free();
        }
        let Some((every, due, turn)) = self.groups.planted else { return };
        // Before the window, and after its end, nothing is planted.
        let is_open = self.window.is_some() && self.deadline.is_none();
        if !is_open {
            self.groups.planted = Some((every, Instant::now() + every, turn));
        } else if Instant::now() >= due {
            let members = self.groups.members;
            self.groups
                .threads
                .iter()
                .skip(turn % members)
                .step_by(members)
                .for_each(MemberThread::come_again);
            self.groups.planted = Some((every, due + every, turn + 1));
        }
    }

    fn take_member_news(&mut self, news: MemberNews) {
        match news {
            MemberNews::Assigned { consumer, partitions } => {
                self.groups.out.remove(&consumer);
                let group = self.groups.unit(consumer);
                let lost: Vec<i32> = self.consumers[consumer]
                    .lanes
                    .keys()
                    .filter(|partition| !partitions.contains(partition))
                    .copied()
                    .collect();
                self.free(consumer, &lost);
                for partition in partitions {
                    if self.groups.share.is_some() {
                        self.consumers[consumer].adopt(partition, Lane::default());
                        continue;
                    }
                    // A member that the broker removed may not know it yet.
                    let before = (0..self.consumers.len())
                        .filter(|other| *other != consumer && self.groups.unit(*other) == group)
                        .find_map(|other| self.consumers[other].release(partition));
                    if let Some(lane) = before.or_else(|| self.groups.free.remove(&(group, partition))) {
                        self.consumers[consumer].adopt(partition, lane);
                    }
                }
                self.next_search = Instant::now();
            }
            MemberNews::Revoked { consumer, partitions, positions } => {
                let held: Vec<i32> = partitions
                    .into_iter()
                    .filter(|partition| self.consumers[consumer].lanes.contains_key(partition))
                    .collect();
                let _ = positions.send(self.positions(consumer, &held));
                self.free(consumer, &held);
            }
            MemberNews::Asks { consumer, positions } => {
                let held: Vec<i32> = self.consumers[consumer].lanes.keys().copied().collect();
                let _ = positions.send(self.positions(consumer, &held));
            }
            MemberNews::Failed { consumer, why } => {
                let what = format!("member {}: {why}", consumer + 1);
                if self.window.is_some() {
                    self.tell(EventKind::ConnectionLost, what);
                } else {
                    self.groups.out.insert(consumer, what);
                }
            }
        }
    }

    fn positions(&self, consumer: usize, partitions: &[i32]) -> Vec<(i32, i64)> {
        let lanes = &self.consumers[consumer].lanes;
        partitions.iter().filter_map(|partition| Some((*partition, lanes.get(partition)?.next))).collect()
    }

    /// Takes partitions from a consumer; nobody reads them until the group gives them to a member.
    fn free(&mut self, consumer: usize, partitions: &[i32]) {
        let group = self.groups.unit(consumer);
        for partition in partitions {
            let lane = self.consumers[consumer].release(*partition);
            if let Some(lane) = lane.filter(|_| self.groups.share.is_none()) {
                self.groups.free.insert((group, *partition), lane);
            }
        }
    }

    /// Notes the times in which a group had free partitions. Each is a rebalance.
    fn note_free(&mut self) {
        let now_ns = self.clock.now_ns();
        for group in 0..self.joins.len() {
            let has_free = self.groups.has_free(group, &self.consumers);
            let Some(took_ns) = self.groups.unowned.note(group, has_free, now_ns) else { continue };
            if self.window.is_none() || self.deadline.is_some() {
                continue;
            }
            if let Some(rebalances) = &mut self.groups.rebalances {
                rebalances.count += 1;
                rebalances.unread_s += took_ns as f64 / 1e9;
                rebalances.unread_s_max = rebalances.unread_s_max.max(took_ns as f64 / 1e9);
            }
            let what =
                format!("group {}: partitions without a reader for {} ms", group + 1, took_ns / 1_000_000);
            self.tell(EventKind::Rebalanced, what);
        }
    }
}
