//! Consumers: each reads all records, or they share the partitions as a group. They report when each record arrived.
//!
//! One thread serves all of them over connections that never block. It need not be quick, because the kernel stamps data on arrival. So it
//! costs the machine one thread for any number of consumers, and one thread owns the join. Its limit is the reading speed of one core,
//! several gigabytes a second over loopback.
//!
//! Batches are not decoded: their headers state the offsets that arrived.

mod commits;
mod group;
mod lag;
mod link;
mod member;
mod passage;
mod reader;
mod recovery;
mod scout;
mod session;
mod share;
mod sharer;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hone_record::{CatchUp, EndToEnd, Event, EventKind, Fetches, Gap, GroupProtocol, Hdr, Workload};

use crate::admin::{Admin, TopicLayout};
use crate::clock::Clock;
use crate::cpu::CpuTime;
use crate::error::LoadError;
use crate::fetch::FetchSize;
use crate::join::{Join, Placed};
use crate::poll::{Poll, Ready};
use crate::processor::Processors;
use crate::security::Access;
use crate::topic_set::TopicSet;

use commits::Commits;
pub(crate) use commits::{delete, find, group_of};
use group::Groups;
use lag::Lag;
use link::Link;
use passage::Passage;
pub(crate) use passage::Processed;
use reader::{Answer, Consumer, Lane, Stray, Why};
use recovery::{recovery_event, sought};
use scout::{News, Quest, Scout, Way};
use share::Share;

/// Longest wait without a check of orders and the clock.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Pause between two searches for leaders.
const SEARCH_EVERY: Duration = Duration::from_millis(200);
/// A Fetch that is silent for this long after its wait at the broker may be at a broker that no longer leads.
const SILENT_AFTER: Duration = Duration::from_millis(1_500);
/// After this time it is given up, as clients do.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(30);
/// Largest number of events, since more add nothing.
const EVENTS_LIMIT: usize = 100;

/// Messages to the thread.
#[derive(Debug)]
pub(crate) enum ConsumerCommand {
    /// A range was acknowledged; times count from the window's start.
    Placed(Placed),
    /// A committed transaction has moved these records to the output, which the consumers read.
    Processed(Processed),
    /// Something that explains what the consumers see.
    Told { kind: EventKind, what: String },
    /// Report when every consumer has read up to here, and count from here on.
    Begin { from: BTreeMap<i32, i64>, reached: mpsc::Sender<()> },
    /// The window opens. Records before these offsets are older.
    Open { start: Instant, duration_ns: u64, ends: BTreeMap<i32, i64> },
    /// Read until no record is missing, but not later than this.
    End { deadline: Instant },
}

/// The consumers' results of a window.
#[derive(Debug)]
pub(crate) struct Consumed {
    pub end_to_end: EndToEnd,
    /// Largest lag of the slowest consumer, in each second of the window.
    pub lag: Vec<u64>,
    pub events: Vec<Event>,
    /// Longest time in the window without a record of a partition.
    pub longest_gap: Option<Gap>,
}

/// The thread and the channel to it.
#[derive(Debug)]
pub(crate) struct Consumers {
    orders: Option<mpsc::Sender<ConsumerCommand>>,
    thread: Option<JoinHandle<Consumed>>,
    thread_id: i32,
    processors: Option<Processors>,
    /// All have read the records from before the window.
    caught_up: Arc<AtomicBool>,
}

impl Consumers {
    /// Connects the load's consumers to all leaders. They read from `from` on. As a group, each reads a share of the partitions and commits
    /// its offsets under the topic's name.
    pub(crate) fn start(
        load: &Workload,
        address: &str,
        access: &Access,
        layout: &TopicLayout,
        from: &BTreeMap<i32, i64>,
    ) -> Result<Self, LoadError> {
        let (orders, receiver) = mpsc::channel();
        let (started, answer) = mpsc::sync_channel(1);
        let (address, access, layout, from) =
            (address.to_owned(), access.clone(), layout.clone(), from.clone());
        let (load, caught_up) = (load.clone(), Arc::new(AtomicBool::new(false)));
        let flag = Arc::clone(&caught_up);
        let serve = move || match ReadLoop::open(&load, address, access, &layout, &from, receiver, flag) {
            Ok(thread) => {
                // SAFETY: no pointers are passed.
                let _ = started.send(Ok(unsafe { libc::gettid() }));
                thread.serve()
            }
            Err(error) => {
                let _ = started.send(Err(error));
                Consumed::nothing()
            }
        };
        let system = |source| LoadError::System { what: "starting the consumers' thread", source };
        let thread = std::thread::Builder::new().name("consumers".to_owned()).spawn(serve).map_err(system)?;
        let thread_id = answer.recv().map_err(|error| system(std::io::Error::other(error)))??;
        Ok(Self { orders: Some(orders), thread: Some(thread), thread_id, processors: None, caught_up })
    }

    /// Starts the load's processors, which write what the consumers read. They read the input from `from` on.
    pub(crate) fn process(
        &mut self,
        load: &Workload,
        to: (&str, &Access),
        (input, output): (&TopicLayout, &TopicLayout),
        from: &BTreeMap<i32, i64>,
    ) -> Result<(), LoadError> {
        let Some(news) = self.orders() else { return Ok(()) };
        self.processors = Some(Processors::start(load, to, (input, output), from, &news)?);
        Ok(())
    }

    /// Channel for acknowledgements.
    pub(crate) fn orders(&self) -> Option<mpsc::Sender<ConsumerCommand>> {
        self.orders.clone()
    }

    /// Waits until every consumer has read up to `from`, at most `limit`, and counts from there on. With processors that is an end of the input.
    pub(crate) fn begin(&self, from: BTreeMap<i32, i64>, limit: Duration) -> Result<(), LoadError> {
        let from = match &self.processors {
            Some(processors) => processors.output_ends(&from, limit)?,
            None => from,
        };
        let (reached, answer) = mpsc::channel();
        self.order(ConsumerCommand::Begin { from, reached });
        // A consumer that is late here begins the window with a lag, and the record shows it.
        let _ = answer.recv_timeout(limit);
        Ok(())
    }

    /// The window opens, with this end of each partition. Consumers that were held begin to read.
    pub(crate) fn open(&self, start: Instant, duration_ns: u64, ends: BTreeMap<i32, i64>) {
        self.order(ConsumerCommand::Open { start, duration_ns, ends });
        self.processors
            .iter()
            .for_each(|processors| processors.open(start, Duration::from_nanos(duration_ns)));
    }

    /// Whether all have read the records from before the window.
    pub(crate) fn have_caught_up(&self) -> bool {
        self.caught_up.load(Ordering::Relaxed)
    }

    fn order(&self, order: ConsumerCommand) {
        // A thread that has ended gives its result when it is joined.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    /// Kernel ids of the threads that read, process and write.
    pub(crate) fn thread_ids(&self) -> impl Iterator<Item = i32> + '_ {
        let processors = self.processors.iter().flat_map(Processors::thread_ids);
        std::iter::once(self.thread_id).chain(processors)
    }

    /// CPU of these threads, up to now.
    pub(crate) fn cpu(&self) -> CpuTime {
        let each = self.thread_ids().map(|id| CpuTime::of_thread(id).unwrap_or_default());
        each.fold(CpuTime::default(), CpuTime::and)
    }

    /// Reads on until no record is missing, for at most `drain`, and ends.
    pub(crate) fn finish(mut self, drain: Duration) -> Consumed {
        self.order(ConsumerCommand::End { deadline: Instant::now() + drain });
        self.orders = None;
        let joined = self.thread.take().map(JoinHandle::join);
        let mut consumed = joined.and_then(Result::ok).unwrap_or_else(Consumed::nothing);
        consumed.end_to_end.transactions = self.processors.take().map(|processors| processors.account());
        consumed
    }
}

impl Drop for Consumers {
    fn drop(&mut self) {
        // The thread ends when it receives no more orders, from the processors either.
        (self.orders, self.processors) = (None, None);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Consumed {
    fn nothing() -> Self {
        Self {
            end_to_end: EndToEnd {
                latency: Hdr::new(),
                consumers: 0,
                is_group: false,
                more_groups: 0,
                fetched_records: 0,
                fetched_bytes: 0,
                missing: 0,
                lag_records_max: 0,
                lag_records_p50: None,
                lag_records_p99: None,
                lag_records_end: None,
                missing_latency: Hdr::new(),
                fetches: None,
                catch_up: None,
                rebalances: None,
                transactions: None,
                deliveries: None,
            },
            lag: Vec::new(),
            events: Vec::new(),
            longest_gap: None,
        }
    }
}

/// State of the thread.
#[derive(Debug)]
struct ReadLoop {
    topics: TopicSet,
    orders: mpsc::Receiver<ConsumerCommand>,
    poll: Poll,
    clock: Clock,
    origin: Instant,
    consumers: Vec<Consumer>,
    /// What each group has read, or each consumer without a group.
    joins: Vec<Join>,
    /// Commits the offsets of each group whose members assign themselves. Consumers that each read all records commit nothing.
    commits: Vec<Commits>,
    groups: Groups,
    /// Where processors moved the acknowledged records; `None` without processors.
    passage: Option<Passage>,
    /// The consumer of each link's token. Links are replaced, but tokens are never reused.
    tokens: Vec<usize>,
    scout: Scout,
    next_search: Instant,
    begin: Option<(BTreeMap<i32, i64>, mpsc::Sender<()>)>,
    window: Option<WindowTimes>,
    deadline: Option<Instant>,
    lag: Lag,
    /// Limits of each Fetch.
    size: FetchSize,
    fetches: Fetches,
    /// They connect, and read nothing until the window opens.
    is_held: bool,
    behind: Option<Behind>,
    flag: Arc<AtomicBool>,
    events: Vec<Event>,
}

/// Records from before the window.
#[derive(Debug)]
struct Behind {
    /// Where they end.
    ends: BTreeMap<i32, i64>,
    found: CatchUp,
}

#[derive(Debug, Clone, Copy)]
struct WindowTimes {
    /// Time since the thread's origin.
    start_ns: u64,
    duration_ns: u64,
}

impl WindowTimes {
    /// The longest of these gaps within the window, counted from its start. They are given from the thread's origin.
    fn longest(self, gaps: &[Gap]) -> Option<Gap> {
        let (start_s, duration_s) = (self.start_ns as f64 / 1e9, self.duration_ns as f64 / 1e9);
        let within = |gap: &Gap| {
            let from_s = (gap.from_s - start_s).max(0.0);
            let length_s = (gap.end_s() - start_s).min(duration_s) - from_s;
            (length_s > 0.0).then_some(Gap { partition: gap.partition, from_s, length_s })
        };
        gaps.iter().filter_map(within).max_by(|left, right| left.length_s.total_cmp(&right.length_s))
    }
}

impl ReadLoop {
    fn open(
        load: &Workload,
        address: String,
        access: Access,
        layout: &TopicLayout,
        from: &BTreeMap<i32, i64>,
        orders: mpsc::Receiver<ConsumerCommand>,
        flag: Arc<AtomicBool>,
    ) -> Result<Self, LoadError> {
        let (members, is_group) = (load.consumers as usize, load.consumer_group);
        let count = if is_group { load.consumer_groups as usize } else { 1 };
        let (deals, groups) = (load.group_protocol == GroupProtocol::Assigned, Groups::new(load));
        let new_join = || match load.group_protocol {
            GroupProtocol::Share => Join::in_any_order(),
            _ => Join::default(),
        };
        let poll = Poll::new().map_err(|source| LoadError::System { what: "opening epoll", source })?;
        let origin = Instant::now();
        let leaders = layout.leaders.iter().map(|(address, _)| address.clone());
        let of_groups = (0..count).filter(|_| is_group && deals);
        let commits = of_groups.map(|group| Commits::start(&address, &access, &layout.topics, group));
        let commits = commits.collect::<Result<Vec<_>, _>>()?;
        let addresses = std::iter::once(address.clone()).chain(leaders).collect();
        let mut thread = Self {
            topics: layout.topics.clone(),
            orders,
            poll,
            clock: Clock::new(origin),
            origin,
            consumers: Vec::new(),
            joins: (0..if is_group { count } else { members }).map(|_| new_join()).collect(),
            commits,
            groups,
            passage: (load.processing.processors > 0).then(Passage::default),
            tokens: Vec::new(),
            scout: Scout::new(addresses, &layout.topics, access.clone()),
            next_search: origin,
            begin: None,
            window: None,
            deadline: None,
            lag: Lag::default(),
            size: FetchSize { is_committed: load.processing.processors > 0, ..load.fetch.into() },
            fetches: Fetches::default(),
            is_held: load.catches_up(),
            behind: None,
            flag,
            events: Vec::new(),
        };
        for index in 0..count * members {
            // Partitions are dealt in turn, as Kafka's round-robin assignor would deal them to the group's members.
            let is_own = |at: usize| deals && (!is_group || at % members == index % members);
            let own: BTreeMap<i32, i64> = from
                .iter()
                .enumerate()
                .filter(|(at, _)| is_own(*at))
                .map(|(_, (partition, next))| (*partition, *next))
                .collect();
            thread.consumers.push(Consumer::new(&own));
            for (address, partitions) in &layout.leaders {
                let partitions: Vec<i32> =
                    partitions.iter().filter(|partition| own.contains_key(partition)).copied().collect();
                if partitions.is_empty() {
                    continue;
                }
                let stream = access.enter_stamped(address, Admin::LIMIT)?;
                let token = thread.tokens.len();
                let link = Link::watched(stream, address.clone(), partitions, &thread.poll, token)?;
                thread.take_link(index, link);
            }
        }
        thread.join_groups(load, (&address, &access), from)?;
        Ok(thread)
    }

    /// Puts a link with the next token into use.
    fn take_link(&mut self, index: usize, mut link: Link) {
        self.groups.begin_session(index, &mut link);
        let token = self.tokens.len();
        self.tokens.push(index);
        self.consumers[index].links.insert(token, link);
        if let Err(problem) = self.ask(index, token) {
            self.lost(index, token, &problem);
        }
    }

    fn ask(&mut self, index: usize, token: usize) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        let of_use = |link: &&mut Link| !self.is_held && link.has_use();
        let Some(link) = consumer.links.get_mut(&token).filter(of_use) else { return Ok(()) };
        link.ask(&self.topics, &consumer.lanes, self.size, self.clock.now_ns());
        link.flush(&self.poll)
    }

    fn lost(&mut self, index: usize, token: usize, problem: &str) {
        if let Some(address) = self.consumers[index].cut_off(token) {
            self.tell(EventKind::ConnectionLost, format!("consumer {}: {address} {problem}", index + 1));
        }
    }

    fn serve(mut self) -> Consumed {
        let mut ready = Vec::new();
        loop {
            self.clock.adjust();
            if let Err(error) = self.poll.wait(LOOK_EVERY, &mut ready) {
                self.tell(
                    EventKind::ConnectionLost,
                    format!("consumers can't wait for their sockets: {error}"),
                );
                return self.consumed();
            }
            let open = self.take_orders();
            // A consumer's lag is largest just before it takes an answer.
            self.note_lag();
            for event in std::mem::take(&mut ready) {
                self.handle(event);
            }
            self.note_lag();
            self.look_at_the_backlog();
            if !open || self.is_done() {
                return self.consumed();
            }
            self.follow_groups();
            self.repair();
            self.answer_begin();
            self.commit();
        }
    }

    /// `false` when no more orders can come.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(ConsumerCommand::Placed(placed)) => self.placed(placed),
                Ok(ConsumerCommand::Processed(range)) => {
                    let waited = self.passage.as_mut().map(|passage| passage.processed(range));
                    waited.into_iter().flatten().for_each(|placed| self.expect(placed));
                }
                Ok(ConsumerCommand::Told { kind, what }) => self.tell_in_any_case(kind, what),
                Ok(ConsumerCommand::Begin { from, reached }) => self.begin(from, reached),
                Ok(ConsumerCommand::Open { start, duration_ns, ends }) => {
                    let start_ns = start.saturating_duration_since(self.origin).as_nanos() as u64;
                    for what in std::mem::take(&mut self.groups.out).into_values() {
                        self.tell_in_any_case(EventKind::ConnectionLost, what);
                    }
                    self.window = Some(WindowTimes { start_ns, duration_ns });
                    if self.is_held {
                        self.release(start, ends);
                    }
                }
                Ok(ConsumerCommand::End { deadline }) => self.deadline = Some(deadline),
                Err(mpsc::TryRecvError::Empty) => return true,
                // After the end no orders come.
                Err(mpsc::TryRecvError::Disconnected) => return self.deadline.is_some(),
            }
        }
    }

    fn placed(&mut self, placed: Placed) {
        let Some(window) = self.window else { return };
        let placed = Placed { intended_ns: window.start_ns + placed.intended_ns, ..placed };
        let output = match &mut self.passage {
            Some(passage) => passage.placed(placed),
            None => Some(placed),
        };
        if let Some(placed) = output {
            self.expect(placed);
        }
    }

    /// Consumers will read these records.
    fn expect(&mut self, placed: Placed) {
        self.joins.iter_mut().for_each(|join| join.placed(placed));
        if let Some(share) = &mut self.groups.share {
            share.expect(placed);
            return;
        }
        let grow = |lane: &mut Lane| lane.end = lane.end.max(placed.last().saturating_add(1));
        self.consumers.iter_mut().for_each(|consumer| consumer.follow(placed.partition, grow));
        self.groups.free_of(placed.partition).for_each(grow);
    }

    fn begin(&mut self, from: BTreeMap<i32, i64>, reached: mpsc::Sender<()>) {
        let begin = |(partition, lane): (&i32, &mut Lane)| {
            lane.from = from.get(partition).copied().unwrap_or(i64::MAX);
        };
        self.joins.iter_mut().for_each(Join::begin);
        self.passage.iter_mut().for_each(Passage::begin);
        for consumer in &mut self.consumers {
            (consumer.records, consumer.bytes) = (0, 0);
            consumer.lanes.iter_mut().for_each(begin);
        }
        self.groups.free.iter_mut().for_each(|((_, partition), lane)| begin((partition, lane)));
        self.groups.share.iter_mut().for_each(|share| share.begin(&from));
        self.begin = Some((from, reached));
    }

    /// Lets held consumers read when the window opens.
    fn release(&mut self, start: Instant, ends: BTreeMap<i32, i64>) {
        std::thread::sleep(start.saturating_duration_since(Instant::now()));
        let ahead = |(partition, lane): (&i32, &Lane)| {
            let end = ends.get(partition).copied().unwrap_or(lane.next);
            u64::try_from(end.saturating_sub(lane.next)).unwrap_or(0)
        };
        let free = self.groups.free.iter().map(|((_, partition), lane)| ahead((partition, lane)));
        let held = self.consumers.iter().flat_map(|consumer| consumer.lanes.iter().map(ahead));
        let shared = self.groups.share.iter().map(|share| share.ahead_of(&ends));
        let records = held.chain(free).chain(shared).sum();
        self.behind = Some(Behind { ends, found: CatchUp { records, took_s: None } });
        self.is_held = false;
        for index in 0..self.consumers.len() {
            for token in self.consumers[index].links.keys().copied().collect::<Vec<_>>() {
                if let Err(problem) = self.ask(index, token) {
                    self.lost(index, token, &problem);
                }
            }
        }
    }

    /// Notes when the last consumer has read the records from before the window.
    fn look_at_the_backlog(&mut self) {
        let (Some(behind), Some(window)) = (&mut self.behind, self.window) else { return };
        if behind.found.took_s.is_some() {
            return;
        }
        let is_there =
            |(partition, lane): (&i32, &Lane)| behind.ends.get(partition).is_none_or(|end| lane.next >= *end);
        let is_read = match &self.groups.share {
            Some(share) => share.ahead_of(&behind.ends) == 0,
            None => self.consumers.iter().all(|consumer| consumer.lanes.iter().all(is_there)),
        };
        if is_read && self.groups.free.is_empty() {
            let took_ns = self.clock.now_ns().saturating_sub(window.start_ns);
            behind.found.took_s = Some(took_ns as f64 / 1e9);
            self.flag.store(true, Ordering::Relaxed);
        }
    }

    fn answer_begin(&mut self) {
        if self.begin.is_none() || self.groups.have_free(&self.consumers) {
            return;
        }
        let is_there = |consumer: &Consumer| {
            consumer.lanes.values().all(|lane| lane.from == i64::MAX || lane.next >= lane.from)
        };
        let have_begun = match &self.groups.share {
            Some(share) => share.has_begun(),
            None => self.consumers.iter().all(is_there),
        };
        if have_begun && let Some((_, reached)) = self.begin.take() {
            let _ = reached.send(());
        }
    }

    fn is_done(&self) -> bool {
        let is_passed = || self.passage.as_ref().is_none_or(|passage| passage.waiting().next().is_none());
        let complete = || is_passed() && self.joins.iter().all(|join| join.waiting() == 0);
        self.deadline.is_some_and(|deadline| complete() || Instant::now() >= deadline)
    }

    fn handle(&mut self, event: Ready) {
        let index = self.tokens[event.token];
        if let Err(problem) = self.serve_link(index, event) {
            self.lost(index, event.token, &problem);
        }
    }

    fn serve_link(&mut self, index: usize, event: Ready) -> Result<(), String> {
        let consumer = &mut self.consumers[index];
        // Cleans up after a removed link.
        let Some(link) = consumer.links.get_mut(&event.token) else { return Ok(()) };
        if event.writable {
            link.flush(&self.poll)?;
        }
        let unit = self.groups.unit(index);
        let shared = self.groups.share.as_mut().map(|share| share.group(unit));
        let into = (&mut self.joins[unit], shared);
        let answer = if event.readable {
            consumer.receive(event.token, (&self.topics, self.size.is_committed), &self.clock, into)?
        } else {
            None
        };
        if let Some(answer) = answer {
            self.note_fetch(answer);
        }
        let consumer = &self.consumers[index];
        if consumer.links.get(&event.token).is_some_and(Link::is_idle) {
            self.ask(index, event.token)?;
        }
        Ok(())
    }

    /// Looks up leaders for partitions without one. Partitions on a working link continue meanwhile.
    fn repair(&mut self) {
        while let Some(news) = self.scout.news() {
            match news {
                News::Found(way) => self.take_way(*way),
                News::Done => self.next_search = Instant::now() + SEARCH_EVERY,
            }
        }
        let now = Instant::now();
        // A held link is silent because nothing was asked.
        if self.scout.busy || now < self.next_search || self.is_held {
            return;
        }
        self.give_up_silent(now);
        let quests: Vec<Quest> = self
            .consumers
            .iter()
            .enumerate()
            .map(|(consumer, of)| Quest {
                consumer,
                sought: sought(of, now, SILENT_AFTER + self.size.wait()),
            })
            .filter(|quest| !quest.sought.is_empty())
            .collect();
        if !quests.is_empty() {
            self.next_search = now + SEARCH_EVERY;
            self.scout.send(quests);
        }
    }

    fn give_up_silent(&mut self, now: Instant) {
        for index in 0..self.consumers.len() {
            let links = self.consumers[index].links.iter();
            let patience = GIVEN_UP_AFTER + self.size.wait();
            let silent = links.filter(|(_, link)| link.silent_for(now) > patience);
            for token in silent.map(|(token, _)| *token).collect::<Vec<_>>() {
                let seconds = GIVEN_UP_AFTER.as_secs();
                self.lost(index, token, &format!("did not answer a Fetch for {seconds} s"));
            }
        }
    }

    /// Reads partitions from the leader that was found.
    fn take_way(&mut self, mut way: Way) {
        let consumer = &mut self.consumers[way.consumer];
        let is_known = |partition: &i32| consumer.lanes.contains_key(partition);
        way.partitions.retain(is_known);
        let before: Vec<Option<Stray>> =
            way.partitions.iter().map(|partition| consumer.strays.remove(partition)).collect();
        consumer.take_off(&way.partitions);
        let join = &mut self.joins[self.groups.unit(way.consumer)];
        for (partition, start) in &way.starts {
            consumer.skip_to(*partition, *start, join);
        }
        let event = recovery_event(&way, &before, &self.topics);
        // A member has one session with a broker.
        let is_same = |link: &Link| link.session.is_some() && link.address == way.address;
        if let Some((token, link)) = consumer.links.iter_mut().find(|(_, link)| is_same(link)) {
            link.partitions.extend(way.partitions);
            let (token, is_idle) = (*token, link.is_idle());
            if is_idle && let Err(problem) = self.ask(way.consumer, token) {
                self.lost(way.consumer, token, &problem);
            }
            return;
        }
        let token = self.tokens.len();
        match Link::watched(way.stream, way.address.clone(), way.partitions.clone(), &self.poll, token) {
            Ok(link) => {
                if let Some((kind, what)) = event {
                    self.tell(kind, what);
                }
                self.take_link(way.consumer, link);
            }
            Err(_) => {
                // The next check looks it up again.
                let stray = |partition| (partition, Stray { from: way.address.clone(), why: Why::Lost });
                self.consumers[way.consumer].strays.extend(way.partitions.into_iter().map(stray));
            }
        }
    }

    fn tell(&mut self, kind: EventKind, what: String) {
        let Some(window) = self.window.filter(|_| self.events.len() < EVENTS_LIMIT) else { return };
        let at_s = self.clock.now_ns().saturating_sub(window.start_ns) as f64 / 1e9;
        self.events.push(Event { at_s, kind, what });
    }

    /// The same for what also explains a window that has not begun yet.
    fn tell_in_any_case(&mut self, kind: EventKind, what: String) {
        if self.window.is_some() {
            self.tell(kind, what);
        } else if self.events.len() < EVENTS_LIMIT {
            self.events.push(Event { at_s: 0.0, kind, what: format!("{what} (before the window)") });
        }
    }

    /// Counts an answer within the window.
    fn note_fetch(&mut self, answer: Answer) {
        let Some(window) = self.window else { return };
        let Some(since_ns) = answer.at_ns.checked_sub(window.start_ns) else { return };
        if since_ns < window.duration_ns {
            self.fetches.answered += 1;
            self.fetches.empty += u64::from(answer.bytes == 0);
            self.fetches.bytes += answer.bytes;
            self.fetches.latency.record_ns(answer.at_ns.saturating_sub(answer.asked_ns));
        }
    }

    /// Lag of the slowest consumer at this moment, or of the slowest group.
    fn note_lag(&mut self) {
        let Some(window) = self.window else { return };
        let Some(at_ns) = self.clock.now_ns().checked_sub(window.start_ns) else { return };
        let units = self.consumers.chunks(self.groups.unit_size()).enumerate();
        let each = units.map(|(unit, members)| {
            members.iter().map(|consumer| consumer.behind).sum::<u64>() + self.groups.behind(unit)
        });
        let behind = each.max().unwrap_or(0);
        self.lag.note(at_ns, window.duration_ns, behind);
    }

    /// Commits the offsets of each group, as often as clients do.
    fn commit(&mut self) {
        for (commits, group) in self.commits.iter_mut().zip(self.consumers.chunks(self.groups.members)) {
            if commits.is_due(Instant::now()) {
                let lanes = group.iter().flat_map(|consumer| &consumer.lanes);
                commits.send(lanes.map(|(partition, lane)| (*partition, lane.next)).collect());
            }
        }
    }

    fn consumed(mut self) -> Consumed {
        self.groups.dismiss();
        // What no transaction has committed does not arrive.
        for placed in self.passage.iter().flat_map(Passage::waiting) {
            self.joins.iter_mut().for_each(|join| join.lose(placed.intended_ns));
        }
        let groups = if self.groups.are_there { self.joins.len() } else { 0 };
        let seen = self.lag.finish();
        let lag = seen.seconds;
        let mut end_to_end = EndToEnd {
            consumers: self.consumers.len() as u32,
            is_group: groups > 0,
            more_groups: groups.saturating_sub(1) as u64,
            lag_records_max: lag.iter().copied().max().unwrap_or(0),
            lag_records_p50: seen.p50,
            lag_records_p99: seen.p99,
            lag_records_end: seen.end,
            fetches: Some(self.fetches),
            rebalances: self.groups.rebalances,
            deliveries: self.groups.share.as_ref().map(Share::deliveries),
            catch_up: self.behind.map(|behind| behind.found),
            ..Consumed::nothing().end_to_end
        };
        let end_ns = self.clock.now_ns();
        let mut gaps = Vec::new();
        for mut consumer in self.consumers {
            gaps.extend(std::mem::take(&mut consumer.gaps).finish(end_ns));
            end_to_end.fetched_records += consumer.records;
            end_to_end.fetched_bytes += consumer.bytes;
        }
        for join in self.joins {
            let closed = join.close(end_ns);
            end_to_end.latency.merge(&closed.latency);
            end_to_end.missing += closed.missing.count();
            end_to_end.missing_latency.merge(&closed.missing);
        }
        let longest_gap = self.window.and_then(|window| window.longest(&gaps));
        Consumed { end_to_end, lag, events: self.events, longest_gap }
    }
}
