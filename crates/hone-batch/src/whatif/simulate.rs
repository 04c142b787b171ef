//! Replays a producer's records under rules: the resulting batches and requests, and how long each record waits for its request.
//!
//! Events are appends (in the order of the stream), ends of lingers, answers, and senders that become free. All lingers are equally long,
//! so they end in the order in which they began and need only a queue; answers are in a heap. An append allocates nothing.
//!
//! The replay excludes retries, moving leaders, answers that depend on the load, and applications that wait for memory (it counts the
//! records that would have waited).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hone_kafka::batch::HEADER_BYTES;
use hone_kafka::codec::Codec;

use super::Dice;
use super::client::{Clock, FullBy, Keyless, Rules, Turn};
use super::shrink::Shrink;
use super::stream::{NO_KEY, Stream};
use crate::histogram::Histogram;
use crate::tally::PAGE_BYTES;

/// Java's safety factor on the guessed size of packed records (`MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR`).
const GUESS_FACTOR: f32 = 1.05;
/// `CompressionRatioEstimator`: a better ratio takes effect in these steps, a worse one at once and by at least the other.
const RATIO_BETTER: f32 = 0.005;
const RATIO_WORSE: f32 = 0.05;
/// Header, and the bytes of a Produce request that franz-go counts to a batch.
const HEADER: u32 = HEADER_BYTES as u32;
/// A record's framing, which librdkafka ignores before it writes a batch: attributes, two lengths, count of headers.
const FRAMING_BYTES: u64 = 5;
/// No further event.
const NEVER: u64 = u64::MAX;
/// Marks an event of the heap as a sender that becomes free.
const FREE: u32 = 1 << 31;

/// Brokers, as the producer sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct Brokers {
    /// The broker that leads each partition, as a number from 0; partitions beyond the list are led in turn.
    pub leads: Vec<u32>,
    /// Number of brokers.
    pub count: u32,
    /// From a request to its answer, in microseconds.
    pub rtt_us: u64,
    /// Time of the sender per request, in microseconds.
    pub turn_us: u64,
    /// Delay with which the sender notices the end of a linger, in microseconds: steps of timers, and a busy machine.
    pub late_us: u64,
}

impl Brokers {
    /// One broker that leads everything, which answers at once.
    pub fn one() -> Self {
        Self { leads: Vec::new(), count: 1, rtt_us: 0, turn_us: 0, late_us: 0 }
    }

    /// A broker for each partition, so that none is taken along with another.
    #[must_use]
    pub fn each_alone(&self, partitions: u32) -> Self {
        Self { leads: (0..partitions).collect(), count: partitions.max(1), ..self.clone() }
    }

    fn of(&self, partition: u32) -> u32 {
        let count = self.count.max(1);
        self.leads.get(partition as usize).copied().unwrap_or(partition % count).min(count - 1)
    }
}

/// The placement of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placing {
    /// Where they lie today.
    AsToday,
    /// Records without a key by the client's own partitioner; those with one by murmur2 if the number of partitions changes.
    Anew {
        /// Partitions of the topic.
        partitions: u32,
        /// Whether keys go to other partitions than today.
        moves_keys: bool,
        /// Seed of the client's random choices.
        seed: u64,
    },
}

/// Why a batch was sent at that time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Trigger {
    /// It was full.
    Size,
    /// Its linger was over.
    Time,
    /// Another partition of its broker was ready.
    WithOthers,
    /// Memory was used up.
    Memory,
    /// A transaction ended.
    Commit,
}

/// Kinds of triggers.
pub const TRIGGERS: usize = 5;

/// Sums over a part of the window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Block {
    /// Batches.
    pub batches: u64,
    /// Requests.
    pub requests: u64,
    /// Records.
    pub records: u64,
    /// Bytes of the batches, headers included.
    pub bytes: u64,
    /// Total microseconds that the records waited.
    pub wait_us: u64,
}

/// A batch of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Number of the partition.
    pub partition: u32,
    /// Records.
    pub records: u32,
    /// Their uncompressed bytes.
    pub plain_bytes: u32,
    /// When it was sent, in microseconds.
    pub sent_us: u64,
}

/// The results of a replay.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// Sums over all.
    pub total: Block,
    /// Uncompressed bytes of records.
    pub plain_bytes: u64,
    /// Bytes of batches.
    pub sizes: Histogram,
    /// Records of batches.
    pub counts: Histogram,
    /// Microseconds that each record waited until its request left.
    pub waits_us: Histogram,
    /// Batches by [`Trigger`].
    pub triggers: [u64; TRIGGERS],
    /// Batches that waited for a slot or for the sender after they were ready.
    pub held_back: u64,
    /// Bytes on disk if each batch was flushed alone: pages of [`PAGE_BYTES`].
    pub page_bytes: u64,
    /// Peak of buffer bytes in use, by the client's own account.
    pub memory_bytes: u64,
    /// Records without room in memory, for which the application would have waited.
    pub would_wait: u64,
    /// The window in equal parts, by the time at which batches were sent.
    pub blocks: Vec<Block>,
    /// The batches, if requested.
    pub made: Vec<Made>,
}

/// The settings of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// The client.
    pub rules: &'a Rules,
    /// The brokers.
    pub brokers: &'a Brokers,
    /// The effect of compression.
    pub shrink: &'a Shrink,
    /// The placement of records.
    pub placing: Placing,
    /// Length of the window in microseconds.
    pub window_us: u64,
    /// Number of parts in the result.
    pub blocks: usize,
    /// Whether to keep the batches.
    pub keeps_batches: bool,
}

/// Replays a stream.
pub fn replay(stream: &Stream, plan: &Plan<'_>) -> Replay {
    let mut engine = Engine::new(stream, plan);
    engine.run(stream);
    engine.done
}

/// A batch that collects records.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    records: u32,
    plain: u32,
    begun_us: u64,
    /// Estimated ratio of its compressed size, times the factor.
    scale: f32,
    /// Its reserved memory.
    reserved: u64,
    /// Bytes at which it is full.
    limit: u32,
    /// Whether a transaction's end closed it before it was full.
    is_committed: bool,
}

#[derive(Debug, Default)]
struct Lane {
    broker: u32,
    /// Full ones, oldest first; the open one is separate.
    full: VecDeque<Open>,
    open: Open,
    /// Number of the oldest remaining batch; they are numbered by their beginning.
    head: u32,
    /// Times of all remaining records, from `gone` on.
    times: Vec<u64>,
    gone: usize,
    queued_records: u64,
    queued_bytes: u64,
    is_ready: bool,
    ready_us: u64,
    is_listed: bool,
    in_flight: u32,
    is_lingering: bool,
    /// Number of the running linger.
    linger: u32,
}

#[derive(Debug, Default)]
struct Node {
    ready: u32,
    in_flight: u32,
    free_us: u64,
    will_be_free: bool,
    /// Partitions with records.
    listed: Vec<u32>,
    first: usize,
    /// Ready ones in their order, for a client that sends each alone.
    waiting: VecDeque<u32>,
}

/// A request that waits for its answer.
#[derive(Debug, Clone, Copy, Default)]
struct Sent {
    broker: u32,
    lane: u32,
    records: u64,
    reserved: u64,
}

struct Sticky {
    dice: Dice,
    lane: Option<u32>,
    bytes: u64,
    since_us: u64,
    next: u32,
    /// Partitions that have had a batch.
    touched: u32,
}

struct Engine<'a> {
    rules: &'a Rules,
    plan: &'a Plan<'a>,
    lanes: Vec<Lane>,
    nodes: Vec<Node>,
    lingers: VecDeque<(u64, u32, u32)>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    sent: Vec<Sent>,
    free_slots: Vec<u32>,
    next_us: u64,
    ratio: f32,
    reserved: u64,
    held_records: u64,
    sticky: Sticky,
    block_us: u64,
    done: Replay,
}

/// Bytes of a record as the n-th of a batch that began this many microseconds before: its length, its two deltas and its body.
#[inline]
fn encoded(body: u32, place: u32, after_us: u64) -> u32 {
    // Zigzag varints: 64 and 8192 are the first of two and three bytes.
    let place_bytes = 1 + u32::from(place >= 64) + u32::from(place >= 8_192) + u32::from(place >= 1 << 20);
    let delta_bytes = 1 + u32::from(after_us >= 64_000) + u32::from(after_us >= 8_192_000);
    let length = body + place_bytes + delta_bytes;
    length + 1 + u32::from(length >= 64) + u32::from(length >= 8_192) + u32::from(length >= 1 << 20)
}

impl Open {
    /// Its size on the wire, as the client estimates it.
    #[inline]
    fn guess(&self) -> u32 {
        // A factor of 1 must not cost precision.
        let plain = if self.scale == 1.0 { self.plain } else { (self.plain as f32 * self.scale) as u32 };
        HEADER + plain
    }

    #[inline]
    fn has_room(&self, bytes: u32, most_records: u32) -> bool {
        self.records < most_records && self.guess().saturating_add(bytes) <= self.limit
    }

    #[inline]
    fn is_full(&self, most_records: u32) -> bool {
        self.records >= most_records || self.guess() >= self.limit
    }
}

impl Lane {
    fn is_empty(&self) -> bool {
        !self.is_gathering() && self.full.is_empty()
    }

    /// Whether a batch is open. A transaction's end leaves none open.
    fn is_gathering(&self) -> bool {
        self.open.records > 0
    }

    /// The oldest batch. The open one is the oldest if none is full.
    fn head(&self) -> &Open {
        self.full.front().unwrap_or(&self.open)
    }
}

impl<'a> Engine<'a> {
    fn new(stream: &Stream, plan: &'a Plan<'a>) -> Self {
        let (partitions, seed) = match plan.placing {
            Placing::AsToday => (stream.partitions(), 0),
            Placing::Anew { partitions, seed, .. } => (partitions.max(1), seed),
        };
        let lane = |partition| Lane { broker: plan.brokers.of(partition), ..Lane::default() };
        let blocks = plan.blocks.max(1);
        Self {
            rules: plan.rules,
            plan,
            lanes: (0..partitions).map(lane).collect(),
            nodes: (0..plan.brokers.count.max(1)).map(|_| Node::default()).collect(),
            lingers: VecDeque::new(),
            heap: BinaryHeap::new(),
            sent: Vec::new(),
            free_slots: Vec::new(),
            next_us: NEVER,
            ratio: 1.0,
            reserved: 0,
            held_records: 0,
            sticky: Sticky { dice: Dice::new(seed), lane: None, bytes: 0, since_us: 0, next: 0, touched: 0 },
            block_us: (plan.window_us / blocks as u64).max(1),
            done: Replay { blocks: vec![Block::default(); blocks], ..Replay::default() },
        }
    }

    fn run(&mut self, stream: &Stream) {
        let columns =
            stream.at_us.iter().zip(&stream.partition).zip(&stream.body_bytes).zip(&stream.key_hash);
        let is_anew = self.plan.placing != Placing::AsToday;
        let mut commits = stream.commits.iter().copied().peekable();
        for (place, (((at_us, partition), body), hash)) in columns.enumerate() {
            while self.next_us <= *at_us {
                self.fire();
            }
            let lane = match self.plan.placing {
                Placing::AsToday => *partition,
                Placing::Anew { partitions, moves_keys, .. } if *hash != NO_KEY => {
                    if moves_keys {
                        hash % partitions.max(1)
                    } else {
                        (*partition).min(partitions.max(1) - 1)
                    }
                }
                Placing::Anew { .. } => self.choose(*at_us, *body),
            };
            self.append(*at_us, lane, *body, *hash == NO_KEY && is_anew);
            if commits.next_if(|commit| *commit as usize == place).is_some() {
                self.commit(*at_us);
            }
        }
        while self.next_us != NEVER {
            self.fire();
        }
    }

    #[inline]
    fn append(&mut self, now_us: u64, index: u32, body: u32, is_sticky: bool) {
        let rules = self.rules;
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        let before = if is_sticky && lane.is_gathering() { lane.open.guess() } else { 0 };
        let bytes = encoded(body, lane.open.records, now_us - lane.open.begun_us.min(now_us));
        let begins = !lane.is_gathering() || !lane.open.has_room(bytes, rules.batch_records);
        let mut is_short = false;
        if begins {
            is_short = self.begin(now_us, index, body);
        } else {
            lane.open.records += 1;
            lane.open.plain += bytes;
        }
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        lane.times.push(now_us);
        lane.queued_records += 1;
        lane.queued_bytes += u64::from(body).saturating_sub(FRAMING_BYTES);
        self.held_records += 1;
        let grown = lane.open.guess().saturating_sub(if begins { 0 } else { before });
        let is_full = lane.open.is_full(rules.batch_records);
        let is_ready = match rules.turn {
            Turn::Together => {
                is_full && rules.clock == Clock::FirstRecord
                    || !lane.full.is_empty()
                    || begins && rules.linger_us == 0
            }
            Turn::Alone => {
                lane.queued_records >= u64::from(rules.batch_records)
                    || lane.queued_bytes >= u64::from(rules.batch_bytes)
                    || begins && rules.linger_us == 0
            }
        };
        if is_sticky && let Keyless::ByGuess { .. } = rules.keyless {
            self.sticky.bytes += u64::from(grown);
            self.stay_or_go(is_full);
        }
        if begins {
            self.start_linger(now_us, index);
        }
        if is_short || self.held_records > rules.memory_records {
            self.done.would_wait += 1;
            self.use_memory_up(now_us);
        }
        if is_ready {
            self.is_ready(now_us, index);
        }
    }

    /// A transaction ends: the open batch closes and goes, whatever the linger (`RecordAccumulator.beginFlush`).
    fn commit(&mut self, now_us: u64) {
        for index in 0..self.lanes.len() as u32 {
            let Some(lane) = self.lanes.get_mut(index as usize) else { continue };
            if lane.is_gathering() {
                let is_committed = !lane.open.is_full(self.rules.batch_records);
                let open = std::mem::take(&mut lane.open);
                lane.full.push_back(Open { is_committed, ..open });
            }
        }
        for index in 0..self.lanes.len() as u32 {
            if self.lanes.get(index as usize).is_some_and(|lane| !lane.full.is_empty()) {
                self.is_ready(now_us, index);
            }
        }
    }

    /// Adds a new batch after the others. Returns whether memory was missing for it.
    fn begin(&mut self, now_us: u64, index: u32, body: u32) -> bool {
        let rules = self.rules;
        let Some(lane) = self.lanes.get_mut(index as usize) else { return false };
        let first = encoded(body, 0, 0);
        let limit = rules.batch_bytes.max(if rules.full_by == FullBy::Guess { HEADER + first } else { 0 });
        let reserved = if rules.full_by == FullBy::Guess { u64::from(limit) } else { 0 };
        let is_guessed = rules.full_by == FullBy::Guess && rules.codec != Codec::None;
        let scale = if is_guessed { self.ratio * GUESS_FACTOR } else { 1.0 };
        let open =
            Open { records: 1, plain: first, begun_us: now_us, scale, reserved, limit, is_committed: false };
        let before = std::mem::replace(&mut lane.open, open);
        if before.records > 0 {
            lane.full.push_back(before);
        }
        if !lane.is_listed {
            lane.is_listed = true;
            if let Some(node) = self.nodes.get_mut(lane.broker as usize) {
                node.listed.push(index);
            }
        }
        self.reserved += reserved;
        self.done.memory_bytes = self.done.memory_bytes.max(self.reserved);
        self.reserved > rules.memory_bytes
    }

    fn start_linger(&mut self, now_us: u64, index: u32) {
        // Without a linger, nothing waits for a timer.
        let late_us = if self.rules.linger_us > 0 { self.plan.brokers.late_us } else { 0 };
        let due_us = now_us.saturating_add(self.rules.linger_us).saturating_add(late_us);
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        let number = match self.rules.clock {
            // For the batch that has just begun, which is the last.
            Clock::FirstRecord => lane.head.wrapping_add(lane.full.len() as u32),
            Clock::FirstRecordOrTurn if lane.is_lingering || !lane.full.is_empty() => return,
            Clock::FirstRecordOrTurn => {
                lane.is_lingering = true;
                lane.linger = lane.linger.wrapping_add(1);
                lane.linger
            }
        };
        self.lingers.push_back((due_us, index, number));
        self.next_us = self.next_us.min(due_us);
    }

    fn fire(&mut self) {
        let linger_us = self.lingers.front().map_or(NEVER, |(due_us, ..)| *due_us);
        let event_us = self.heap.peek().map_or(NEVER, |Reverse((due_us, _))| *due_us);
        if event_us <= linger_us {
            if let Some(Reverse((now_us, what))) = self.heap.pop() {
                self.event(now_us, what);
            }
        } else if let Some((now_us, index, number)) = self.lingers.pop_front() {
            self.linger_ends(now_us, index, number);
        }
        let linger_us = self.lingers.front().map_or(NEVER, |(due_us, ..)| *due_us);
        self.next_us = self.heap.peek().map_or(linger_us, |Reverse((due_us, _))| linger_us.min(*due_us));
    }

    fn linger_ends(&mut self, now_us: u64, index: u32, number: u32) {
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        let is_meant = match self.rules.clock {
            Clock::FirstRecord => lane.head == number && !lane.is_empty(),
            Clock::FirstRecordOrTurn => {
                let is_running = lane.is_lingering && lane.linger == number;
                lane.is_lingering &= !is_running;
                is_running
            }
        };
        if is_meant {
            self.is_ready(now_us, index);
        }
    }

    fn event(&mut self, now_us: u64, what: u32) {
        if what & FREE != 0 {
            let broker = what & !FREE;
            if let Some(node) = self.nodes.get_mut(broker as usize) {
                node.will_be_free = false;
            }
            return self.send(now_us, broker);
        }
        let sent = self.sent.get(what as usize).copied().unwrap_or_default();
        self.free_slots.push(what);
        self.reserved = self.reserved.saturating_sub(sent.reserved);
        self.held_records = self.held_records.saturating_sub(sent.records);
        if let Some(node) = self.nodes.get_mut(sent.broker as usize) {
            node.in_flight -= 1;
        }
        if self.rules.turn == Turn::Alone
            && let Some(lane) = self.lanes.get_mut(sent.lane as usize)
        {
            lane.in_flight -= 1;
        }
        self.send(now_us, sent.broker);
    }

    #[inline]
    fn is_ready(&mut self, now_us: u64, index: u32) {
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        let broker = lane.broker;
        if lane.is_ready {
            return;
        }
        lane.is_ready = true;
        lane.ready_us = now_us;
        if let Some(node) = self.nodes.get_mut(broker as usize) {
            node.ready += 1;
            if self.rules.turn == Turn::Alone {
                node.waiting.push_back(index);
            }
        }
        self.send(now_us, broker);
    }

    /// Everything may go (`exhausted` of `RecordAccumulator`; franz-go does not linger while an application waits).
    fn use_memory_up(&mut self, now_us: u64) {
        if self.rules.turn == Turn::Alone {
            return;
        }
        for broker in 0..self.nodes.len() as u32 {
            let first = self.nodes.get(broker as usize).and_then(|node| node.listed.first().copied());
            if let Some(first) = first {
                self.is_ready(now_us, first);
            }
        }
    }

    /// Sends as much to a broker as allowed.
    fn send(&mut self, now_us: u64, broker: u32) {
        loop {
            let Some(node) = self.nodes.get_mut(broker as usize) else { return };
            if node.ready == 0 || node.in_flight >= self.rules.in_flight {
                return;
            }
            if now_us < node.free_us {
                if !node.will_be_free {
                    node.will_be_free = true;
                    let free_us = node.free_us;
                    self.push(free_us, FREE | broker);
                }
                return;
            }
            let has_sent = match self.rules.turn {
                Turn::Together => self.send_together(now_us, broker),
                Turn::Alone => self.send_alone(now_us, broker),
            };
            if !has_sent {
                return;
            }
            if let Some(node) = self.nodes.get_mut(broker as usize) {
                node.free_us = now_us + self.plan.brokers.turn_us;
            }
        }
    }

    /// One request with the head batches of the broker's partitions.
    fn send_together(&mut self, now_us: u64, broker: u32) -> bool {
        let Some(node) = self.nodes.get_mut(broker as usize) else { return false };
        let listed = std::mem::take(&mut node.listed);
        let first = node.first % listed.len().max(1);
        let (behind, front) = listed.split_at(first);
        let mut request = Sent { broker, ..Sent::default() };
        let (mut bytes, mut taken) = (0_u64, 0_usize);
        for index in front.iter().chain(behind) {
            let head = self.lanes.get(*index as usize).map_or(0, |lane| u64::from(lane.head().guess()));
            if taken > 0 && bytes + head > self.rules.request_bytes {
                break;
            }
            bytes += self.take_head(now_us, *index, &mut request);
            taken += 1;
        }
        // If a request could not take them all, the next one begins with the remaining ones.
        let next = if taken < listed.len() { first + taken } else { 0 };
        self.unlist(broker, listed, next);
        self.request(now_us, request);
        taken > 0
    }

    fn unlist(&mut self, broker: u32, mut listed: Vec<u32>, first: usize) {
        let lanes = &mut self.lanes;
        listed.retain(|index| {
            lanes.get_mut(*index as usize).is_some_and(|lane| {
                lane.is_listed = !lane.is_empty();
                lane.is_listed
            })
        });
        if let Some(node) = self.nodes.get_mut(broker as usize) {
            node.listed = listed;
            node.first = first;
        }
    }

    /// One request with one batch.
    fn send_alone(&mut self, now_us: u64, broker: u32) -> bool {
        let Some(node) = self.nodes.get_mut(broker as usize) else { return false };
        let lanes = &self.lanes;
        let most = self.rules.in_flight_each;
        let may = |index: &u32| lanes.get(*index as usize).is_some_and(|lane| lane.in_flight < most);
        let Some(place) = node.waiting.iter().position(may) else { return false };
        let Some(index) = node.waiting.remove(place) else { return false };
        let mut request = Sent { broker, lane: index, ..Sent::default() };
        self.take_head(now_us, index, &mut request);
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            lane.in_flight += 1;
            if lane.is_ready
                && let Some(node) = self.nodes.get_mut(broker as usize)
            {
                node.waiting.push_back(index);
            }
        }
        self.request(now_us, request);
        true
    }

    /// Takes the oldest batch of a partition into a request; returns its bytes.
    fn take_head(&mut self, now_us: u64, index: u32, request: &mut Sent) -> u64 {
        let rules = self.rules;
        let Some(lane) = self.lanes.get_mut(index as usize) else { return 0 };
        if lane.is_empty() {
            return 0;
        }
        let was_full = lane.full.pop_front();
        let batch = was_full.unwrap_or_else(|| std::mem::take(&mut lane.open));
        lane.head = lane.head.wrapping_add(1);
        let until = lane.gone + batch.records as usize;
        let times = lane.times.get(lane.gone..until).unwrap_or_default();
        let mut wait_us = 0;
        for at_us in times {
            let waited = now_us - at_us;
            wait_us += waited;
            self.done.waits_us.add(waited, 1);
        }
        lane.gone = until;
        if lane.is_empty() {
            lane.times.clear();
            lane.gone = 0;
        } else if lane.gone > 4_096 && lane.gone * 2 > lane.times.len() {
            lane.times.drain(..lane.gone);
            lane.gone = 0;
        }
        lane.queued_records -= u64::from(batch.records);
        lane.queued_bytes =
            if lane.is_empty() { 0 } else { lane.queued_bytes.saturating_sub(u64::from(batch.plain)) };
        let is_full = was_full.is_some() || batch.is_full(rules.batch_records);
        let is_committed = batch.is_committed;
        let is_over = now_us.saturating_sub(batch.begun_us) >= rules.linger_us;
        let trigger = match (is_full, is_over || rules.clock == Clock::FirstRecordOrTurn && lane.is_ready) {
            (true, _) if is_committed => Trigger::Commit,
            (true, _) => Trigger::Size,
            (false, true) => Trigger::Time,
            _ if self.reserved > rules.memory_bytes || self.held_records > rules.memory_records => {
                Trigger::Memory
            }
            _ => Trigger::WithOthers,
        };
        self.done.held_back += u64::from(lane.is_ready && now_us > lane.ready_us);
        self.renew(now_us, index);
        request.reserved += batch.reserved;
        request.records += u64::from(batch.records);
        self.account(now_us, index, &batch, wait_us, trigger)
    }

    /// Whether a partition is still ready after its head batch was taken.
    fn renew(&mut self, now_us: u64, index: u32) {
        let rules = self.rules;
        let Some(lane) = self.lanes.get_mut(index as usize) else { return };
        let was_ready = lane.is_ready;
        let stays = !lane.is_empty()
            && match (rules.turn, rules.clock) {
                (_, Clock::FirstRecordOrTurn) => !lane.full.is_empty() || rules.linger_us == 0,
                (Turn::Together, _) => {
                    !lane.full.is_empty()
                        || lane.open.is_full(rules.batch_records)
                        || now_us.saturating_sub(lane.open.begun_us) >= rules.linger_us
                }
                (Turn::Alone, _) => {
                    now_us.saturating_sub(lane.head().begun_us) >= rules.linger_us
                        || lane.queued_records >= u64::from(rules.batch_records)
                        || lane.queued_bytes >= u64::from(rules.batch_bytes)
                }
            };
        lane.is_ready = stays;
        if stays && !was_ready {
            lane.ready_us = now_us;
        }
        let lingers_anew = rules.clock == Clock::FirstRecordOrTurn && !lane.is_empty() && !stays;
        if rules.clock == Clock::FirstRecordOrTurn {
            lane.is_lingering = false;
        }
        let broker = lane.broker as usize;
        if let Some(node) = self.nodes.get_mut(broker) {
            node.ready = node.ready + u32::from(stays) - u32::from(was_ready);
        }
        if lingers_anew {
            self.start_linger(now_us, index);
        }
    }

    fn account(&mut self, now_us: u64, index: u32, batch: &Open, wait_us: u64, trigger: Trigger) -> u64 {
        let plain = u64::from(batch.plain);
        let packed = match self.rules.codec {
            Codec::None => plain,
            _ => (plain as f64 * self.plan.shrink.ratio(plain)).round().max(1.0) as u64,
        };
        self.learn(packed as f32 / plain.max(1) as f32);
        let bytes = packed + u64::from(HEADER);
        let block_us = self.block_us;
        let last = self.done.blocks.len().saturating_sub(1);
        let sums = Block { batches: 1, requests: 0, records: u64::from(batch.records), bytes, wait_us };
        self.done.total.add(&sums);
        if let Some(block) = self.done.blocks.get_mut(((now_us / block_us) as usize).min(last)) {
            block.add(&sums);
        }
        self.done.plain_bytes += plain;
        self.done.sizes.add(bytes, 1);
        self.done.counts.add(u64::from(batch.records), 1);
        self.done.page_bytes += bytes.div_ceil(PAGE_BYTES) * PAGE_BYTES;
        self.done.triggers[trigger as usize] += 1;
        if self.plan.keeps_batches {
            let made =
                Made { partition: index, records: batch.records, plain_bytes: batch.plain, sent_us: now_us };
            self.done.made.push(made);
        }
        bytes
    }

    fn learn(&mut self, ratio: f32) {
        if ratio > self.ratio {
            self.ratio = (self.ratio + RATIO_WORSE).max(ratio);
        } else if ratio < self.ratio {
            self.ratio = (self.ratio - RATIO_BETTER).max(ratio);
        }
    }

    fn request(&mut self, now_us: u64, request: Sent) {
        let last = self.done.blocks.len().saturating_sub(1);
        let sums = Block { requests: 1, ..Block::default() };
        self.done.total.add(&sums);
        if let Some(block) = self.done.blocks.get_mut(((now_us / self.block_us) as usize).min(last)) {
            block.add(&sums);
        }
        if let Some(node) = self.nodes.get_mut(request.broker as usize) {
            node.in_flight += 1;
        }
        let slot = match self.free_slots.pop() {
            Some(slot) => slot,
            None => {
                self.sent.push(Sent::default());
                self.sent.len() as u32 - 1
            }
        };
        if let Some(place) = self.sent.get_mut(slot as usize) {
            *place = request;
        }
        self.push(now_us + self.plan.brokers.rtt_us, slot);
    }

    fn push(&mut self, due_us: u64, what: u32) {
        self.heap.push(Reverse((due_us, what)));
        self.next_us = self.next_us.min(due_us);
    }

    /// The partition for a record without a key.
    fn choose(&mut self, now_us: u64, body: u32) -> u32 {
        let count = self.lanes.len() as u32;
        match self.rules.keyless {
            Keyless::EachInTurn => {
                self.sticky.next = (self.sticky.next + 1) % count;
                return self.sticky.next;
            }
            Keyless::ByTime { us } => {
                if us == 0 || self.sticky.lane.is_none() || now_us - self.sticky.since_us >= us {
                    self.sticky.since_us = now_us;
                    self.sticky.lane = Some(self.sticky.dice.below(u64::from(count)) as u32);
                }
            }
            Keyless::ByBytes { bytes } => {
                // With the minimum of length and deltas, as UniformBytesPartitioner counts.
                self.sticky.bytes += u64::from(body) + 2;
                if self.sticky.bytes >= u64::from(bytes) || self.sticky.lane.is_none() {
                    self.sticky.bytes = u64::from(body) + 2;
                    self.sticky.lane = Some(self.least_waiting());
                }
            }
            Keyless::ByGuess { .. } => {
                // A batch that has been sent since, or is full, ends the reason to stay here.
                let most = self.rules.batch_records;
                let is_done = self
                    .sticky
                    .lane
                    .and_then(|index| self.lanes.get(index as usize))
                    .is_none_or(|lane| !lane.is_gathering() || lane.open.is_full(most));
                self.stay_or_go(is_done);
            }
        }
        self.sticky.lane.unwrap_or(0)
    }

    /// `BuiltInPartitioner.updatePartitionInfo`: to another partition after this many bytes once the batch is full, or after twice as many.
    fn stay_or_go(&mut self, may_go: bool) {
        let Keyless::ByGuess { bytes } = self.rules.keyless else { return };
        let enough = u64::from(bytes);
        let goes = self.sticky.bytes >= enough && may_go || self.sticky.bytes >= 2 * enough;
        if goes || self.sticky.lane.is_none() {
            self.sticky.bytes = 0;
            self.sticky.lane = Some(self.shortest_queue());
        }
    }

    /// At random; if queues differ and each partition had a batch, a shorter queue is likelier (`BuiltInPartitioner.nextPartition`).
    fn shortest_queue(&mut self) -> u32 {
        let count = self.lanes.len() as u64;
        self.sticky.touched = self.sticky.touched.saturating_add(1);
        let length = |lane: &Lane| lane.full.len() as u64 + u64::from(lane.is_gathering());
        let most = self.lanes.iter().map(length).max().unwrap_or(0);
        let is_even = self.lanes.iter().all(|lane| length(lane) == most);
        if is_even || u64::from(self.sticky.touched) <= count {
            return self.sticky.dice.below(count) as u32;
        }
        let total: u64 = self.lanes.iter().map(|lane| most + 1 - length(lane)).sum();
        let mut drawn = self.sticky.dice.below(total);
        for (index, lane) in self.lanes.iter().enumerate() {
            let weight = most + 1 - length(lane);
            if drawn < weight {
                return index as u32;
            }
            drawn -= weight;
        }
        0
    }

    /// At random, weighted by one over the waiting records (franz-go).
    fn least_waiting(&mut self) -> u32 {
        let weight = |lane: &Lane| 1.0 / (lane.queued_records + 1) as f64;
        let total: f64 = self.lanes.iter().map(weight).sum();
        let mut drawn = self.sticky.dice.unit() * total;
        for (index, lane) in self.lanes.iter().enumerate() {
            drawn -= weight(lane);
            if drawn <= 0.0 {
                return index as u32;
            }
        }
        self.lanes.len().saturating_sub(1) as u32
    }
}

impl Block {
    /// Adds another one.
    pub fn add(&mut self, other: &Self) {
        self.batches += other.batches;
        self.requests += other.requests;
        self.records += other.records;
        self.bytes += other.bytes;
        self.wait_us += other.wait_us;
    }

    /// Mean bytes of a batch.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.batches.max(1) as f64
    }

    /// Mean records of a batch.
    pub fn mean_records(&self) -> f64 {
        self.records as f64 / self.batches.max(1) as f64
    }

    /// Mean wait of a record, in microseconds.
    pub fn mean_wait_us(&self) -> f64 {
        self.wait_us as f64 / self.records.max(1) as f64
    }
}

impl Replay {
    /// Adds another producer's; both must have the same parts.
    pub fn merge(&mut self, other: &Self) {
        self.total.add(&other.total);
        self.plain_bytes += other.plain_bytes;
        self.sizes.merge(&other.sizes);
        self.counts.merge(&other.counts);
        self.waits_us.merge(&other.waits_us);
        for (own, more) in self.triggers.iter_mut().zip(other.triggers) {
            *own += more;
        }
        self.held_back += other.held_back;
        self.page_bytes += other.page_bytes;
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.would_wait += other.would_wait;
        if self.blocks.len() < other.blocks.len() {
            self.blocks.resize(other.blocks.len(), Block::default());
        }
        for (own, more) in self.blocks.iter_mut().zip(&other.blocks) {
            own.add(more);
        }
    }

    /// Share of bytes that are headers of batches.
    pub fn header_share(&self) -> f64 {
        (self.total.batches * u64::from(HEADER)) as f64 / self.total.bytes.max(1) as f64
    }

    /// Bytes on disk per byte of a batch, at most: if each batch was flushed alone, `ceil(b/4096) * 4096 / b`.
    pub fn write_amplification_most(&self) -> f64 {
        self.page_bytes as f64 / self.total.bytes.max(1) as f64
    }

    /// Share of the batches with a trigger.
    pub fn share_of(&self, trigger: Trigger) -> f64 {
        self.triggers[trigger as usize] as f64 / self.total.batches.max(1) as f64
    }
}
