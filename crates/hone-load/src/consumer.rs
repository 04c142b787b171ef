//! Consumers: each reads everything that is produced, and says when.
//!
//! One thread serves all of them over connections that never block. It needs not be quick, because the kernel stamps what
//! arrives; so it costs the machine one thread, however many consumers there are, and the join has one owner. Its limit is
//! what one core can read, several gigabytes a second over loopback.
//!
//! Batches are not decoded: their headers say which offsets arrived.

mod lag;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hone_kafka::frame::LENGTH_BYTES;
use hone_kafka::{Frame, batches, error_name};
use hone_record::{EndToEnd, Event, EventKind, Hdr};

use crate::LoadError;
use crate::admin::{Admin, TopicLayout};
use crate::clock::{Clock, stamp_arrivals};
use crate::cpu::CpuTime;
use crate::fetch::{FetchedPartition, Wanted, fetch_request, parse_fetched};
use crate::join::{Join, Placed};
use crate::poll::{Poll, Ready};
use crate::security::Door;
use crate::stream::Stream;

use lag::Lag;

/// What one Fetch asks for. A broker answers as soon as it has a byte.
const WANTED: Wanted = Wanted { wait_ms: 500, bytes: 16 << 20, partition_bytes: 1 << 20 };
/// An answer may be larger than what was wanted by one batch.
const ANSWER_LIMIT_BYTES: usize = 256 << 20;
/// What one read takes at most.
const READ_BYTES: usize = 256 << 10;
/// The longest wait without a look at orders and the clock.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two attempts to reach the leaders again.
const REPAIR_EVERY: Duration = Duration::from_millis(200);
/// A broker that does not tell the leaders within this time is asked again.
const REPAIR_LIMIT: Duration = Duration::from_secs(1);
/// So many events say what there is to say.
const EVENTS_LIMIT: usize = 100;

/// What the thread is told.
#[derive(Debug)]
pub(crate) enum Order {
    /// Something was acknowledged; times count from the window's start.
    Placed(Placed),
    /// Say when every consumer has read up to here, and count from here on.
    Begin { from: BTreeMap<i32, i64>, reached: mpsc::Sender<()> },
    /// The window opens.
    Open { start: Instant, duration_ns: u64 },
    /// Read until nothing is missing, but no longer than until then.
    End { deadline: Instant },
}

/// What the consumers saw of a window.
#[derive(Debug)]
pub(crate) struct Consumed {
    pub end_to_end: EndToEnd,
    /// The most records that the slowest consumer was behind, in each second of the window.
    pub lag: Vec<u64>,
    pub events: Vec<Event>,
}

/// The thread and the way to it.
#[derive(Debug)]
pub(crate) struct Consumers {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<Consumed>>,
    thread_id: i32,
}

impl Consumers {
    /// Connects `count` consumers to all leaders; they read from `from` on.
    pub(crate) fn start(
        count: u32,
        address: &str,
        door: &Door,
        layout: &TopicLayout,
        from: &BTreeMap<i32, i64>,
    ) -> Result<Self, LoadError> {
        let (orders, receiver) = mpsc::channel();
        let (started, answer) = mpsc::sync_channel(1);
        let (address, door, layout, from) = (address.to_owned(), door.clone(), layout.clone(), from.clone());
        let serve = move || match Desk::open(count, address, door, &layout, &from, receiver) {
            Ok(desk) => {
                // SAFETY: no pointers are passed.
                let _ = started.send(Ok(unsafe { libc::gettid() }));
                desk.serve()
            }
            Err(error) => {
                let _ = started.send(Err(error));
                Consumed::nothing()
            }
        };
        let system = |source| LoadError::System { what: "starting the consumers' thread", source };
        let thread = std::thread::Builder::new().name("consumers".to_owned()).spawn(serve).map_err(system)?;
        let thread_id = answer.recv().map_err(|error| system(std::io::Error::other(error)))??;
        Ok(Self { orders: Some(orders), thread: Some(thread), thread_id })
    }

    /// Where acknowledgements go.
    pub(crate) fn orders(&self) -> Option<mpsc::Sender<Order>> {
        self.orders.clone()
    }

    /// Waits until every consumer has read up to `from`, at most `limit`, and counts from there on.
    pub(crate) fn begin(&self, from: BTreeMap<i32, i64>, limit: Duration) {
        let (reached, answer) = mpsc::channel();
        self.order(Order::Begin { from, reached });
        // A consumer that is late here begins the window with a lag, which the record shows.
        let _ = answer.recv_timeout(limit);
    }

    /// The window opens.
    pub(crate) fn open(&self, start: Instant, duration_ns: u64) {
        self.order(Order::Open { start, duration_ns });
    }

    fn order(&self, order: Order) {
        // A thread that has gone gives its result when it is joined.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    /// Kernel id of the thread.
    pub(crate) fn thread_id(&self) -> i32 {
        self.thread_id
    }

    /// CPU of the thread, up to now.
    pub(crate) fn cpu(&self) -> CpuTime {
        CpuTime::of_thread(self.thread_id).unwrap_or_default()
    }

    /// Reads on until nothing is missing, at most `drain`, and ends.
    pub(crate) fn finish(mut self, drain: Duration) -> Consumed {
        self.order(Order::End { deadline: Instant::now() + drain });
        self.orders = None;
        let joined = self.thread.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or_else(Consumed::nothing)
    }
}

impl Drop for Consumers {
    fn drop(&mut self) {
        // Without orders the thread ends.
        self.orders = None;
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
                fetched_records: 0,
                fetched_bytes: 0,
                missing: 0,
                lag_records_max: 0,
            },
            lag: Vec::new(),
            events: Vec::new(),
        }
    }
}

/// The thread's own.
#[derive(Debug)]
struct Desk {
    /// Brokers that may know the leaders.
    addresses: Vec<String>,
    door: Door,
    topic: String,
    orders: mpsc::Receiver<Order>,
    poll: Poll,
    clock: Clock,
    origin: Instant,
    consumers: Vec<Consumer>,
    /// Which consumer and which of its links a token means. Links come and go, tokens do not come back.
    tokens: Vec<(usize, usize)>,
    begin: Option<(BTreeMap<i32, i64>, mpsc::Sender<()>)>,
    window: Option<WindowTimes>,
    deadline: Option<Instant>,
    next_repair: Instant,
    lag: Lag,
    events: Vec<Event>,
}

#[derive(Debug, Clone, Copy)]
struct WindowTimes {
    /// Since the desk's origin.
    start_ns: u64,
    duration_ns: u64,
}

/// One consumer.
#[derive(Debug, Default)]
struct Consumer {
    links: Vec<Link>,
    lanes: BTreeMap<i32, Lane>,
    join: Join,
    records: u64,
    bytes: u64,
    /// Records that are known to exist and have not come, in all lanes.
    behind: u64,
    /// Why the leaders must be asked for again.
    broken: Option<String>,
}

/// One partition, as one consumer knows it.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    next: i64,
    /// Behind the last record that is known to exist.
    end: i64,
    /// Where counting begins.
    from: i64,
}

/// A connection of a consumer to a leader.
#[derive(Debug)]
struct Link {
    stream: Stream,
    token: usize,
    partitions: Vec<i32>,
    correlation_id: i32,
    outbound: Vec<u8>,
    written: usize,
    inbound: Vec<u8>,
    received: usize,
}

impl Desk {
    fn open(
        count: u32,
        address: String,
        door: Door,
        layout: &TopicLayout,
        from: &BTreeMap<i32, i64>,
        orders: mpsc::Receiver<Order>,
    ) -> Result<Self, LoadError> {
        let poll = Poll::new().map_err(|source| LoadError::System { what: "opening epoll", source })?;
        let origin = Instant::now();
        let leaders = layout.leaders.iter().map(|(address, _)| address.clone());
        let mut desk = Self {
            addresses: std::iter::once(address).chain(leaders).collect(),
            door,
            topic: layout.topic.clone(),
            orders,
            poll,
            clock: Clock::new(origin),
            origin,
            consumers: Vec::new(),
            tokens: Vec::new(),
            begin: None,
            window: None,
            deadline: None,
            next_repair: origin,
            lag: Lag::default(),
            events: Vec::new(),
        };
        for index in 0..count as usize {
            let lane = |(partition, next): (&i32, &i64)| {
                (*partition, Lane { next: *next, end: *next, from: i64::MAX })
            };
            desk.consumers.push(Consumer { lanes: from.iter().map(lane).collect(), ..Consumer::default() });
            desk.link(index, layout)?;
        }
        Ok(desk)
    }

    /// Connects a consumer to all leaders and asks each for its partitions.
    fn link(&mut self, index: usize, layout: &TopicLayout) -> Result<(), LoadError> {
        self.consumers[index].links.clear();
        for (address, partitions) in &layout.leaders {
            let token = self.tokens.len();
            let link = Link::open(&self.door, address, token, partitions)?;
            self.poll
                .add(link.stream.raw(), token)
                .map_err(|source| LoadError::System { what: "watching a socket", source })?;
            self.tokens.push((index, self.consumers[index].links.len()));
            self.consumers[index].links.push(link);
        }
        for link in 0..self.consumers[index].links.len() {
            self.ask(index, link);
        }
        Ok(())
    }

    fn ask(&mut self, index: usize, link: usize) {
        let consumer = &mut self.consumers[index];
        let (link, lanes) = (&mut consumer.links[link], &consumer.lanes);
        link.ask(&self.topic, lanes);
        if let Err(problem) = link.flush(&self.poll) {
            consumer.broken = Some(problem);
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
            // Just before an answer is taken, a consumer is behind the most.
            self.note_lag();
            for event in std::mem::take(&mut ready) {
                self.handle(event);
            }
            self.note_lag();
            if !open || self.is_done() {
                return self.consumed();
            }
            self.repair();
            self.answer_begin();
        }
    }

    /// `false` when nobody can give orders any more.
    fn take_orders(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(Order::Placed(placed)) => self.placed(placed),
                Ok(Order::Begin { from, reached }) => self.begin(from, reached),
                Ok(Order::Open { start, duration_ns }) => {
                    let start_ns = start.saturating_duration_since(self.origin).as_nanos() as u64;
                    self.window = Some(WindowTimes { start_ns, duration_ns });
                }
                Ok(Order::End { deadline }) => self.deadline = Some(deadline),
                Err(mpsc::TryRecvError::Empty) => return true,
                // After an end nobody gives orders.
                Err(mpsc::TryRecvError::Disconnected) => return self.deadline.is_some(),
            }
        }
    }

    fn placed(&mut self, placed: Placed) {
        let Some(window) = self.window else { return };
        let placed = Placed { intended_ns: window.start_ns + placed.intended_ns, ..placed };
        for consumer in &mut self.consumers {
            consumer.join.placed(placed);
            consumer
                .follow(placed.partition, |lane| lane.end = lane.end.max(placed.last().saturating_add(1)));
        }
    }

    fn begin(&mut self, from: BTreeMap<i32, i64>, reached: mpsc::Sender<()>) {
        for consumer in &mut self.consumers {
            consumer.join.begin();
            (consumer.records, consumer.bytes) = (0, 0);
            for (partition, lane) in &mut consumer.lanes {
                lane.from = from.get(partition).copied().unwrap_or(i64::MAX);
            }
        }
        self.begin = Some((from, reached));
    }

    fn answer_begin(&mut self) {
        let is_there = |consumer: &Consumer| {
            consumer.lanes.values().all(|lane| lane.from == i64::MAX || lane.next >= lane.from)
        };
        if self.begin.is_some()
            && self.consumers.iter().all(is_there)
            && let Some((_, reached)) = self.begin.take()
        {
            let _ = reached.send(());
        }
    }

    fn is_done(&self) -> bool {
        let complete = || self.consumers.iter().all(|consumer| consumer.join.waiting() == 0);
        self.deadline.is_some_and(|deadline| complete() || Instant::now() >= deadline)
    }

    fn handle(&mut self, event: Ready) {
        let (index, link) = self.tokens[event.token];
        let consumer = &mut self.consumers[index];
        if consumer.broken.is_some() {
            return;
        }
        let mut handled = Ok(());
        if event.writable {
            handled = consumer.links[link].flush(&self.poll);
        }
        if event.readable && handled.is_ok() {
            handled = consumer.receive(link, &self.clock);
        }
        match handled {
            Ok(()) if consumer.links[link].is_idle() => self.ask(index, link),
            Ok(()) => {}
            Err(problem) => consumer.broken = Some(problem),
        }
    }

    /// Finds the leaders of consumers again that lost one.
    fn repair(&mut self) {
        if Instant::now() < self.next_repair {
            return;
        }
        for index in 0..self.consumers.len() {
            let Some(problem) = self.consumers[index].broken.clone() else { continue };
            self.next_repair = Instant::now() + REPAIR_EVERY;
            // What is left of the old links would only wake the thread.
            if !self.consumers[index].links.is_empty() {
                self.consumers[index].links.clear();
                self.tell(EventKind::ConnectionLost, format!("consumer {}: {problem}", index + 1));
            }
            let ask = |address: &String| {
                let mut admin = Admin::enter(address, self.door.clone(), REPAIR_LIMIT).ok()?;
                admin.layout(&self.topic, None).ok()
            };
            if let Some(layout) = self.addresses.iter().find_map(ask)
                && self.link(index, &layout).is_ok()
            {
                self.consumers[index].broken = None;
                self.tell(EventKind::Reconnected, format!("consumer {} reads again", index + 1));
            }
        }
    }

    fn tell(&mut self, kind: EventKind, what: String) {
        let Some(window) = self.window.filter(|_| self.events.len() < EVENTS_LIMIT) else { return };
        let at_s = self.clock.now_ns().saturating_sub(window.start_ns) as f64 / 1e9;
        self.events.push(Event { at_s, kind, what });
    }

    /// How far the slowest consumer is behind at this moment.
    fn note_lag(&mut self) {
        let Some(window) = self.window else { return };
        let Some(at_ns) = self.clock.now_ns().checked_sub(window.start_ns) else { return };
        let behind = self.consumers.iter().map(|consumer| consumer.behind).max().unwrap_or(0);
        self.lag.note(at_ns, window.duration_ns, behind);
    }

    fn consumed(self) -> Consumed {
        let mut latency = Hdr::new();
        for consumer in &self.consumers {
            latency.merge(&consumer.join.latency);
        }
        let sum = |of: fn(&Consumer) -> u64| self.consumers.iter().map(of).sum();
        let lag = self.lag.finish();
        let end_to_end = EndToEnd {
            latency,
            consumers: self.consumers.len() as u32,
            fetched_records: sum(|consumer| consumer.records),
            fetched_bytes: sum(|consumer| consumer.bytes),
            missing: sum(|consumer| consumer.join.missing()),
            lag_records_max: lag.iter().copied().max().unwrap_or(0),
        };
        Consumed { end_to_end, lag, events: self.events }
    }
}

impl Consumer {
    /// Changes a lane, and with it what this consumer is behind.
    fn follow(&mut self, partition: i32, change: impl FnOnce(&mut Lane)) {
        if let Some(lane) = self.lanes.get_mut(&partition) {
            let before = lane.behind();
            change(lane);
            self.behind = self.behind - before + lane.behind();
        }
    }

    /// Reads what there is on a link, and takes the answer when it is complete.
    fn receive(&mut self, link: usize, clock: &Clock) -> Result<(), String> {
        let Some((at_ns, length)) = self.links[link].receive(clock)? else { return Ok(()) };
        let buffer = std::mem::take(&mut self.links[link].inbound);
        let taken = self.take_answer(&buffer[LENGTH_BYTES..length], self.links[link].correlation_id, at_ns);
        self.links[link].inbound = buffer;
        taken
    }

    fn take_answer(&mut self, body: &[u8], expected: i32, at_ns: u64) -> Result<(), String> {
        let mut problem = None;
        let fetched = parse_fetched(body, |found| {
            if let Err(why) = self.take(found, at_ns) {
                problem = Some(why);
            }
        });
        let fetched = fetched.map_err(|error| format!("sent garbage for a Fetch: {error}"))?;
        if fetched.correlation_id != expected {
            return Err(format!("answered Fetch {} where {expected} was due", fetched.correlation_id));
        }
        if fetched.error_code != 0 {
            return Err(format!("refused a Fetch: {}", error_name(fetched.error_code)));
        }
        problem.map_or(Ok(()), Err)
    }

    fn take(&mut self, found: FetchedPartition<'_>, at_ns: u64) -> Result<(), String> {
        let Some(&(mut lane)) = self.lanes.get(&found.partition) else { return Ok(()) };
        if error_name(found.error_code) == "OFFSET_OUT_OF_RANGE" {
            // Retention was faster. What it took is missing in the end.
            self.follow(found.partition, |lane| lane.next = lane.next.max(found.log_start));
            return Ok(());
        }
        if found.error_code != 0 {
            return Err(format!("partition {}: {}", found.partition, error_name(found.error_code)));
        }
        lane.end = lane.end.max(found.high_watermark);
        for batch in batches(found.record_set) {
            // The last batch of an answer may be torn; it comes again.
            let Ok(batch) = batch else { break };
            let header = batch.header;
            if header.last_offset() < lane.next {
                continue;
            }
            if header.base_offset >= lane.from && !header.is_control() {
                self.records += u64::from(header.record_count.unsigned_abs());
                self.bytes += batch.bytes.len() as u64;
            }
            self.join.arrived(found.partition, header.base_offset, header.last_offset(), at_ns);
            lane.next = header.last_offset().saturating_add(1);
        }
        lane.end = lane.end.max(lane.next);
        self.follow(found.partition, |known| *known = lane);
        Ok(())
    }
}

impl Lane {
    fn behind(self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.next)).unwrap_or(0)
    }
}

impl Link {
    fn open(door: &Door, address: &str, token: usize, partitions: &[i32]) -> Result<Self, LoadError> {
        let stream = door.enter(address, Admin::LIMIT)?.into_stream();
        stream
            .socket()
            .set_nonblocking(true)
            .and_then(|()| stamp_arrivals(stream.raw()))
            .map_err(|source| LoadError::System { what: "preparing a socket", source })?;
        Ok(Self {
            stream,
            token,
            partitions: partitions.to_vec(),
            correlation_id: 0,
            outbound: Vec::new(),
            written: 0,
            inbound: Vec::new(),
            received: 0,
        })
    }

    /// Puts the next Fetch behind what is written.
    fn ask(&mut self, topic: &str, lanes: &BTreeMap<i32, Lane>) {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let next = |partition: &i32| Some((*partition, lanes.get(partition)?.next));
        let partitions: Vec<(i32, i64)> = self.partitions.iter().filter_map(next).collect();
        self.outbound = fetch_request(self.correlation_id, topic, &partitions, WANTED);
        self.written = 0;
    }

    /// No request is under way.
    fn is_idle(&self) -> bool {
        self.outbound.is_empty() && self.received == 0
    }

    fn flush(&mut self, poll: &Poll) -> Result<(), String> {
        let was_whole = self.written == 0;
        self.stream.push().map_err(|error| format!("writing failed: {error}"))?;
        while self.written < self.outbound.len() {
            match self.stream.send(&self.outbound[self.written..]) {
                Ok(0) => return Err("closed the connection".to_owned()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("writing failed: {error}")),
            }
        }
        let blocked = self.written < self.outbound.len() || self.stream.has_unsent();
        if blocked || !was_whole {
            poll.modify(self.stream.raw(), self.token, blocked)
                .map_err(|error| format!("watching a socket failed: {error}"))?;
        }
        Ok(())
    }

    /// Reads until there is nothing more or one answer is complete: when its last byte had arrived, and its length.
    fn receive(&mut self, clock: &Clock) -> Result<Option<(u64, usize)>, String> {
        loop {
            if self.received == self.inbound.len() {
                self.inbound.resize(self.received + READ_BYTES, 0);
            }
            let stamp = match self.stream.receive(&mut self.inbound[self.received..]) {
                Ok((0, _)) => return Err("closed the connection".to_owned()),
                Ok((count, stamp)) => {
                    self.received += count;
                    stamp
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("reading failed: {error}")),
            };
            match Frame::split(&self.inbound[..self.received], ANSWER_LIMIT_BYTES) {
                Frame::Incomplete { .. } => {}
                Frame::TooLarge { length } => {
                    return Err(format!("sent a frame of {length} bytes for a Fetch"));
                }
                Frame::Complete { consumed_bytes, .. } => {
                    if consumed_bytes != self.received {
                        return Err("sent more than was asked for".to_owned());
                    }
                    let at_ns = stamp.map_or_else(|| clock.now_ns(), |stamp| clock.at_ns(stamp));
                    self.received = 0;
                    self.outbound.clear();
                    self.written = 0;
                    return Ok(Some((at_ns, consumed_bytes)));
                }
            }
        }
    }
}
