//! A reactor: one thread, one epoll, its connections and its partitions.
//!
//! Each connection is served strictly in order. A request that must wait (a long poll, a group's rebalance) parks, and
//! what its client sent behind it stays unread; the other connections go on. A batch for a partition of another reactor
//! is handed over, and its outcome comes back as a letter.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::append::{Append, Destination, Stored};
use crate::appends::Outcome;
use crate::code;
use crate::connection::{Connection, Parked};
use crate::cpu::ThreadClock;
use crate::engine::{Close, Engine};
use crate::keys::park::{Attempt, Park};
use crate::mailbox::Letter;
use crate::memory::Counted;
use crate::node::Node;
use crate::partition::Partition;
use crate::reply::Reply;
use crate::settings::Settings;
use crate::shard_counters::count;
use crate::ticket::Ticket;
use crate::transport::Transport;
use crate::watch::Watch;

/// The waker's token; connections count up from 0.
pub(crate) const BELL: Token = Token(usize::MAX);
/// How long a stopping reactor waits for flushes, and for clients to take their answers.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
/// Answers in memory that are worth closing their connection for when memory is short.
const HOARD_BYTES: usize = 64 << 10;
/// How often stalled connections are looked at.
const STALL_TICK: Duration = Duration::from_millis(50);
/// A reactor.
pub(crate) struct Reactor {
    engine: Engine,
    poll: Poll,
    connections: HashMap<usize, Connection>,
    next_id: usize,
    deadlines: BTreeSet<(Instant, usize)>,
    /// Until when new clients must have finished TLS and login, in the order of their coming.
    greetings: VecDeque<(Instant, usize)>,
    /// Connections that have more to do than their turn allowed.
    unfinished: Vec<usize>,
    /// Connections with an unfinished frame, or not read for want of memory, or with answers that their clients don't take.
    stalled: HashSet<usize>,
    stalled_looked_at: Option<Instant>,
    outcomes: Vec<(Destination, Stored)>,
}

impl Reactor {
    pub(crate) fn new(index: usize, node: Arc<Node>, poll: Poll) -> Self {
        Self {
            engine: Engine::new(index, node),
            poll,
            connections: HashMap::new(),
            next_id: 0,
            deadlines: BTreeSet::new(),
            greetings: VecDeque::new(),
            unfinished: Vec::new(),
            stalled: HashSet::new(),
            stalled_looked_at: None,
            outcomes: Vec::new(),
        }
    }

    /// Serves until a letter says stop.
    pub(crate) fn run(mut self) -> io::Result<()> {
        if let (Some(clock), Some(shard)) = (ThreadClock::of_this_thread(), self.engine.shard()) {
            // A second value is impossible: this thread is the only one that sets it.
            let _ = shard.clock.set(clock);
        }
        let mut events = Events::with_capacity(256);
        let mut letters = Vec::new();
        loop {
            self.sleep(&mut events)?;
            if self.turn(&events, &mut letters) {
                return self.wind_up(&mut events, &mut letters);
            }
        }
    }

    /// One turn that does not wait, for a driver without threads.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn step(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(16);
        self.poll.poll(&mut events, Some(Duration::ZERO))?;
        self.turn(&events, &mut Vec::new());
        Ok(())
    }

    fn sleep(&mut self, events: &mut Events) -> io::Result<()> {
        let timeout = self.timeout();
        let may_sleep = timeout != Some(Duration::ZERO) && self.engine.may_sleep();
        match self.poll.poll(events, if may_sleep { timeout } else { Some(Duration::ZERO) }) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    /// One turn of the loop. Returns whether to stop.
    fn turn(&mut self, events: &Events, letters: &mut Vec<Letter>) -> bool {
        self.engine.begin_turn();
        self.go_on_with_unfinished();
        for event in events {
            if event.token() != BELL {
                self.on_event(event);
            }
        }
        let stop = self.read_letters(letters);
        self.serve_grown();
        self.serve_expired();
        self.close_late();
        self.look_at_stalled();
        self.engine.end_turn();
        stop
    }

    fn go_on_with_unfinished(&mut self) {
        // What one turn has for looking into batches may be used up by the first: each is the first in its turn.
        if !self.unfinished.is_empty() {
            self.unfinished.rotate_left(1);
        }
        for id in std::mem::take(&mut self.unfinished) {
            if self.connections.get(&id).is_some_and(Connection::is_halfway)
                && let Some(Parked { frame, park: Park::Turn(walk) }) = self.unpark(id)
            {
                self.serve_again(id, frame, Attempt::Further(walk));
            } else {
                self.drive(id);
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.unfinished.is_empty() || self.engine.has_grown() {
            return Some(Duration::ZERO);
        }
        let deadline = self.deadlines.first().map(|(at, _)| *at);
        let flush = self.engine.appends.next_due();
        let stalled = (!self.stalled.is_empty())
            .then(|| self.stalled_looked_at.map_or_else(Instant::now, |looked_at| looked_at + STALL_TICK));
        let greeting = self.greetings.front().map(|(at, _)| *at);
        [deadline, flush, stalled, greeting].into_iter().flatten().min().map(|at| {
            // epoll counts whole milliseconds and rounds down; a deadline must have passed when it wakes.
            at.saturating_duration_since(Instant::now()) + Duration::from_millis(1)
        })
    }

    fn on_event(&mut self, event: &mio::event::Event) {
        let id = event.token().0;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if event.is_read_closed() || event.is_error() {
            connection.hung_up = true;
        }
        connection.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
        self.drive(id);
    }

    /// Returns whether to stop.
    fn read_letters(&mut self, letters: &mut Vec<Letter>) -> bool {
        self.engine.take_letters(letters);
        let mut stop = false;
        for letter in letters.drain(..) {
            match letter {
                Letter::Connected(stream) => self.greet(stream),
                Letter::Moved(connection) => self.admit(*connection, false),
                Letter::Grown(id) => self.engine.grow(id),
                Letter::Reply(id, reply) => self.answer_parked(id, reply),
                Letter::Append(append) => self.append(append),
                Letter::Stored(back, stored) => self.deliver(back, &stored),
                Letter::Flushed(partition) => self.flushed(&partition),
                Letter::Stop => stop = true,
            }
        }
        stop
    }

    /// A client has come.
    fn greet(&mut self, stream: TcpStream) {
        let security = &self.engine.node.security;
        match Transport::new(stream, security.tls.as_ref()) {
            Ok(stream) => {
                if security.greets() {
                    let time = Duration::from_millis(self.engine.node.settings.greeting_ms);
                    self.greetings.push_back((Instant::now() + time, self.next_id));
                }
                let session = security.session();
                self.admit(Connection::new(stream, session), true);
            }
            Err(error) => {
                self.engine.node.settings.notices.say(&format!("can't begin TLS with a client: {error}"));
                self.engine.node.connection_ended(Counted::default());
            }
        }
    }

    /// A client that never finishes its greeting holds no memory for longer than this.
    fn close_late(&mut self) {
        if self.greetings.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((_, id)) = self.greetings.pop_front_if(|(at, _)| *at <= now) {
            if self.connections.get(&id).is_some_and(Connection::is_greeting) {
                self.close(id, &Close::Late);
            }
        }
    }

    fn admit(&mut self, mut connection: Connection, is_new: bool) {
        let id = self.next_id;
        self.next_id += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut connection.stream, Token(id), interest) {
            self.engine.node.settings.notices.say(&format!("can't watch a connection: {error}"));
            self.engine.node.connection_ended(connection.counted);
            return;
        }
        if let Some(shard) = self.engine.shard() {
            count(&shard.active, 1);
            if is_new {
                count(&shard.connects, 1);
            } else {
                count(&shard.moves, 1);
            }
        }
        connection.readable = true;
        self.connections.insert(id, connection);
        self.drive(id);
    }

    fn drive(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_parked = connection.parked.is_some();
        let driven = self.engine.drive(id, connection);
        match driven {
            Ok(finished) => {
                if !finished {
                    self.unfinished.push(id);
                }
                if connection.stalled_since.is_some() || connection.untaken_since.is_some() {
                    self.stalled.insert(id);
                }
                if !was_parked {
                    self.note_parked(id);
                }
                if finished {
                    self.move_if_it_belongs_elsewhere(id);
                }
            }
            Err(reason) => self.close(id, &reason),
        }
    }

    /// A connection lives where what it writes lives, so that its batches need no handing over.
    fn move_if_it_belongs_elsewhere(&mut self, id: usize) {
        let here = self.engine.index;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Some(reactor) = connection.affinity.elsewhere(here).filter(|_| connection.is_quiet()) else {
            return;
        };
        if self.poll.registry().deregister(&mut connection.stream).is_err() {
            return;
        }
        connection.affinity = Default::default();
        connection.stalled_since = None;
        self.stalled.remove(&id);
        if let Some(connection) = self.connections.remove(&id) {
            self.engine.count_departure();
            let there = Ticket { reactor, connection: 0 };
            self.engine.node.post(there, Letter::Moved(Box::new(connection)));
        }
    }

    /// Sees to it that a request which has just been parked is served again.
    fn note_parked(&mut self, id: usize) {
        match self.connections.get(&id).and_then(|connection| connection.parked.as_ref()) {
            Some(Parked { park: Park::Records { until, .. }, .. }) => {
                self.deadlines.insert((*until, id));
            }
            Some(Parked { park: Park::Turn(_), .. }) => self.unfinished.push(id),
            _ => (),
        }
        if let Some(until) = self.connections.get(&id).and_then(|connection| connection.muted_until) {
            self.deadlines.insert((until, id));
        }
    }

    /// Takes a parked request out, with its deadline and its places in the waiting lists.
    fn unpark(&mut self, id: usize) -> Option<Parked> {
        let parked = self.connections.get_mut(&id)?.parked.take()?;
        if let Park::Records { until, watched } = &parked.park {
            self.deadlines.remove(&(*until, id));
            watched.iter().for_each(Watch::end);
        }
        Some(parked)
    }

    fn serve_grown(&mut self) {
        // Serving may store records (a pipelined Produce) that wake others; those have their turn next.
        for id in self.engine.take_grown() {
            if self.connections.get(&id).is_some_and(is_woken) {
                self.serve_records(id);
            }
        }
    }

    fn serve_expired(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = Instant::now();
        while let Some((at, id)) = self.deadlines.first().copied()
            && at <= now
        {
            self.deadlines.remove(&(at, id));
            self.unmute(id, now);
            self.serve_records(id);
        }
    }

    /// A client that had used up its quota is served again.
    fn unmute(&mut self, id: usize, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if connection.muted_until.is_some_and(|until| until <= now) {
            connection.muted_until = None;
            self.drive(id);
        }
    }

    fn serve_records(&mut self, id: usize) {
        let waits_for_records = |connection: &Connection| {
            connection.parked.as_ref().is_some_and(|parked| matches!(parked.park, Park::Records { .. }))
        };
        if self.connections.get(&id).is_some_and(waits_for_records)
            && let Some(Parked { frame, park: Park::Records { until, .. } }) = self.unpark(id)
        {
            self.serve_again(id, frame, Attempt::Again { until });
        }
    }

    fn answer_parked(&mut self, id: usize, reply: Reply) {
        if let Some(Parked { frame, park: Park::Reply }) = self.unpark(id) {
            self.serve_again(id, frame, Attempt::Answered(reply));
        }
    }

    fn serve_again(&mut self, id: usize, mut frame: Vec<u8>, attempt: Attempt) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match self.engine.request(id, connection, &mut frame, attempt) {
            Ok(()) => {
                if let Some(parked) = &mut connection.parked {
                    parked.frame = frame;
                }
                self.note_parked(id);
                self.drive(id);
            }
            Err(reason) => self.close(id, &reason),
        }
    }

    /// A batch that another reactor has checked, for a partition of this one.
    fn append(&mut self, append: Append) {
        let Append { partition, mut batch, terms, admission: _admission } = append;
        if let Outcome::Done(stored) = self.engine.append(&partition, &mut batch, terms) {
            self.report(terms.back, stored);
        }
    }

    fn flushed(&mut self, partition: &Arc<Partition>) {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        self.engine.flushed(partition, &mut outcomes);
        for (back, stored) in outcomes.drain(..) {
            self.report(back, stored);
        }
        self.outcomes = outcomes;
    }

    /// Sends an outcome to the connection that waits for it.
    fn report(&mut self, back: Destination, stored: Stored) {
        if back.ticket.reactor == self.engine.index {
            self.deliver(back, &stored);
        } else {
            self.engine.node.post(back.ticket, Letter::Stored(back, stored));
        }
    }

    fn deliver(&mut self, back: Destination, stored: &Stored) {
        let id = back.ticket.connection;
        let Some(connection) = self.connections.get_mut(&id) else { return };
        if stored.error != code::NONE && connection.is_silent(back.slot) {
            // With acks=0, no answer can report the error, so the broker closes the connection.
            self.close(id, &Close::Unstored(stored.error));
            return;
        }
        if connection.fill(back.slot, back.at, stored) > 0 {
            self.drive(id);
        }
    }

    /// Closes a connection that holds an unfinished frame for too long, or that reads no answers. Connections that
    /// waited for memory get another try.
    fn look_at_stalled(&mut self) {
        if self.stalled.is_empty() {
            self.stalled_looked_at = None;
            return;
        }
        let now = Instant::now();
        if self.stalled_looked_at.is_some_and(|looked_at| now - looked_at < STALL_TICK) {
            return;
        }
        self.stalled_looked_at = Some(now);
        for id in std::mem::take(&mut self.stalled) {
            let Some(connection) = self.connections.get(&id) else { continue };
            let memory_is_short = self.engine.is_short(connection);
            if let Some(reason) = overdue(&self.engine.node.settings, connection, memory_is_short, now) {
                self.close(id, &reason);
                continue;
            }
            let unfinished = connection.stalled_since.is_some();
            if unfinished || connection.untaken_since.is_some() {
                self.stalled.insert(id);
            }
            if unfinished && !memory_is_short {
                self.drive(id);
            }
        }
    }

    fn close(&mut self, id: usize, reason: &Close) {
        self.unpark(id);
        let Some(mut connection) = self.connections.remove(&id) else { return };
        self.engine.complain(&connection, reason);
        self.stalled.remove(&id);
        if let Some(until) = connection.muted_until {
            self.deadlines.remove(&(until, id));
        }
        // The socket is closed at the end of this function, registered or not.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        self.engine.node.connection_ended(connection.counted);
        self.engine.count_departure();
        self.engine.count_close(reason);
    }

    /// Waits for the flushes that answers wait for, then gives clients a moment to read the finished answers.
    fn wind_up(&mut self, events: &mut Events, letters: &mut Vec<Letter>) -> io::Result<()> {
        let start = Instant::now();
        while !self.engine.appends.is_quiet() && start.elapsed() < FLUSH_LIMIT {
            self.poll.poll(events, Some(Duration::from_millis(5)))?;
            self.read_letters(letters);
            self.engine.end_turn();
        }
        let start = Instant::now();
        while start.elapsed() < ANSWER_LIMIT {
            self.read_letters(letters);
            self.connections.retain(|_, connection| connection.flush().is_ok() && !connection.is_flushed());
            if self.connections.is_empty() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Whether a connection waits for records that have come. What woke it may have been meant for a request before.
fn is_woken(connection: &Connection) -> bool {
    let Some(Parked { park: Park::Records { watched, .. }, .. }) = &connection.parked else { return false };
    watched.first().is_some_and(|watch| watch.waiter.is_woken())
}

/// Why a connection that makes no progress is to be closed now.
fn overdue(
    settings: &Settings,
    connection: &Connection,
    memory_is_short: bool,
    now: Instant,
) -> Option<Close> {
    let (frame_ms, answer_ms) = if memory_is_short {
        // Who takes no answers goes first: unfinished frames may be waiting for the memory that it holds.
        let hoards = connection.outbox.memory() >= HOARD_BYTES;
        (2 * settings.short_stall_ms, if hoards { settings.short_stall_ms } else { settings.untaken_ms })
    } else {
        (settings.stall_ms, settings.untaken_ms)
    };
    let longer = |since: Option<Instant>, limit_ms| {
        since.is_some_and(|since| now.saturating_duration_since(since) > Duration::from_millis(limit_ms))
    };
    if longer(connection.stalled_since, frame_ms) {
        Some(Close::Stalled)
    } else {
        longer(connection.untaken_since, answer_ms).then_some(Close::Untaken)
    }
}
