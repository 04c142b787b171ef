//! A worker: one thread, one epoll, its share of the connections.
//!
//! Each connection is served strictly in order. A request that must wait (a long poll, a group's rebalance) parks, and
//! what its client sent behind it stays unread; the other connections go on.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hone_kafka::{Frame, RequestHead, WireError};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::connection::{Connection, Parked, give_back};
use crate::cpu::ThreadClock;
use crate::keys::{self, Attempt, Call, Outcome, Park, Workspace};
use crate::mailbox::Reply;
use crate::mailbox::{Letter, Ticket};
use crate::node::{Node, ShardCounters, count};
use crate::protocol::Answer;

/// The waker's token; connections count up from 0.
pub(crate) const BELL: Token = Token(usize::MAX);
/// Read at a time from a socket.
const SCRATCH_BYTES: usize = 256 << 10;
/// Reads from one connection before the others have their turn.
const MOST_READS: usize = 8;
/// How long a stopping worker waits for clients to take their answers.
const FLUSH_LIMIT: Duration = Duration::from_millis(500);

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
enum Close {
    #[error("the client has gone")]
    Gone,
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error("a frame of {0} bytes")]
    FrameLength(i32),
    #[error("a request that can't be read: {0}")]
    Request(#[from] WireError),
    #[error("API {key} in version {version} is not served")]
    NotServed { key: i16, version: i16 },
    #[error("a handler failed")]
    HandlerFailed,
}

/// What serves requests, apart from the connections.
struct Engine {
    index: usize,
    node: Arc<Node>,
    scratch: Vec<u8>,
    work: Workspace,
    /// Connections of this worker whose parked Fetch has something to read.
    grown: Vec<usize>,
    #[cfg(feature = "planted-slowdown")]
    slowdown: crate::slowdown::Slowdown,
}

/// A worker.
pub(crate) struct Worker {
    engine: Engine,
    poll: Poll,
    connections: HashMap<usize, Connection>,
    next_id: usize,
    deadlines: BTreeSet<(Instant, usize)>,
    /// Connections that have more to do than their turn allowed.
    unfinished: Vec<usize>,
}

impl Worker {
    pub(crate) fn new(index: usize, node: Arc<Node>, poll: Poll) -> Self {
        let engine = Engine {
            index,
            node,
            scratch: vec![0; SCRATCH_BYTES],
            work: Workspace::default(),
            grown: Vec::new(),
            #[cfg(feature = "planted-slowdown")]
            slowdown: crate::slowdown::Slowdown::from_environment(),
        };
        Self {
            engine,
            poll,
            connections: HashMap::new(),
            next_id: 0,
            deadlines: BTreeSet::new(),
            unfinished: Vec::new(),
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
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
            for id in std::mem::take(&mut self.unfinished) {
                self.drive(id);
            }
            for event in &events {
                if event.token() != BELL {
                    self.on_event(event);
                }
            }
            let stop = self.read_letters(&mut letters);
            self.serve_grown();
            self.serve_expired();
            #[cfg(feature = "planted-slowdown")]
            self.engine.slowdown.end_turn();
            if stop {
                self.flush_all();
                return Ok(());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.unfinished.is_empty() || !self.engine.grown.is_empty() {
            return Some(Duration::ZERO);
        }
        self.deadlines.first().map(|(at, _)| {
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
        if let Some(mailbox) = self.engine.node.mailboxes.get(self.engine.index) {
            mailbox.take(letters);
        }
        let mut stop = false;
        for letter in letters.drain(..) {
            match letter {
                Letter::Connected(stream) => self.admit(stream),
                Letter::Grown(id) => self.engine.grown.push(id),
                Letter::Reply(id, answer) => self.answer_parked(id, answer),
                Letter::Stop => stop = true,
            }
        }
        stop
    }

    fn admit(&mut self, mut stream: TcpStream) {
        let id = self.next_id;
        self.next_id += 1;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(id), interest) {
            self.engine.node.settings.notices.say(&format!("can't watch a connection: {error}"));
            return;
        }
        if let Some(shard) = self.engine.shard() {
            count(&shard.connects, 1);
        }
        self.connections.insert(id, Connection::new(stream));
        self.drive(id);
    }

    fn drive(&mut self, id: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_parked = connection.parked.is_some();
        match self.engine.drive(id, connection) {
            Ok(finished) => {
                if !was_parked {
                    self.note_deadline(id);
                }
                if !finished {
                    self.unfinished.push(id);
                }
            }
            Err(reason) => self.close(id, &reason),
        }
    }

    fn note_deadline(&mut self, id: usize) {
        let parked = self.connections.get(&id).and_then(|connection| connection.parked.as_ref());
        if let Some(Parked { park: Park::Records { until, .. }, .. }) = parked {
            self.deadlines.insert((*until, id));
        }
    }

    /// Takes a parked request out, with its deadline and its places in the waiting lists.
    fn unpark(&mut self, id: usize) -> Option<Parked> {
        let parked = self.connections.get_mut(&id)?.parked.take()?;
        if let Park::Records { until, watched } = &parked.park {
            self.deadlines.remove(&(*until, id));
            let ticket = self.engine.ticket(id);
            watched.iter().for_each(|partition| partition.forget(ticket));
        }
        Some(parked)
    }

    fn serve_grown(&mut self) {
        // Serving may store records (a pipelined Produce) that wake others; those have their turn next.
        for id in std::mem::take(&mut self.engine.grown) {
            self.serve_records(id);
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
            self.serve_records(id);
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

    fn answer_parked(&mut self, id: usize, answer: Reply) {
        if let Some(Parked { frame, park: Park::Reply }) = self.unpark(id) {
            self.serve_again(id, frame, Attempt::Answered(answer));
        }
    }

    fn serve_again(&mut self, id: usize, mut frame: Vec<u8>, attempt: Attempt) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match self.engine.request(id, connection, &mut frame, attempt) {
            Ok(()) => {
                self.note_deadline(id);
                self.drive(id);
            }
            Err(reason) => self.close(id, &reason),
        }
    }

    fn close(&mut self, id: usize, reason: &Close) {
        self.unpark(id);
        let Some(mut connection) = self.connections.remove(&id) else { return };
        // The socket is closed a line below, registered or not.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        let Some(shard) = self.engine.shard() else { return };
        count(&shard.disconnects, 1);
        match reason {
            Close::Gone | Close::Socket(_) => (),
            Close::HandlerFailed => count(&shard.handler_failures, 1),
            Close::FrameLength(_) | Close::Request(_) | Close::NotServed { .. } => {
                count(&shard.protocol_errors, 1);
            }
        }
    }

    /// Gives clients a moment to take the answers that are ready.
    fn flush_all(&mut self) {
        let start = Instant::now();
        while start.elapsed() < FLUSH_LIMIT {
            self.connections.retain(|_, connection| connection.flush().is_ok() && connection.unsent() > 0);
            if self.connections.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Engine {
    fn shard(&self) -> Option<&ShardCounters> {
        self.node.shards.get(self.index)
    }

    fn ticket(&self, id: usize) -> Ticket {
        Ticket { worker: self.index, connection: id }
    }

    /// Serves a connection as far as its input, its output and its turn allow. `false` when it has more to do at once.
    fn drive(&mut self, id: usize, connection: &mut Connection) -> Result<bool, Close> {
        let mut reads = 0;
        loop {
            if self.serve_buffered(id, connection)? {
                self.flush(connection)?;
            }
            if !connection.may_serve() || !connection.readable {
                break;
            }
            if reads == MOST_READS {
                self.flush(connection)?;
                return Ok(false);
            }
            reads += 1;
            self.read_and_serve(id, connection)?;
            self.flush(connection)?;
        }
        self.flush(connection)?;
        // Flushing may have made room for what is already here.
        let more = connection.may_serve() && (connection.readable || self.has_frame(connection));
        // Whoever hangs up on a parked request does not want its answer. The event that told of the hang-up may have
        // come together with the request, so this is the last chance to see it.
        let abandoned = connection.hung_up && connection.parked.is_some();
        let finished = connection.ended && !more && connection.unsent() == 0;
        if abandoned || finished {
            return Err(Close::Gone);
        }
        Ok(!more)
    }

    fn has_frame(&self, connection: &Connection) -> bool {
        let limit = self.node.settings.max_request_bytes;
        !matches!(Frame::split(&connection.input, limit), Frame::Incomplete { .. })
    }

    fn flush(&self, connection: &mut Connection) -> Result<(), Close> {
        let sent = connection.flush()?;
        if sent > 0
            && let Some(shard) = self.shard()
        {
            count(&shard.sent_bytes, sent);
        }
        Ok(())
    }

    /// Serves frames that came before; `true` when there were any.
    fn serve_buffered(&mut self, id: usize, connection: &mut Connection) -> Result<bool, Close> {
        if connection.input.is_empty() {
            return Ok(false);
        }
        let mut input = std::mem::take(&mut connection.input);
        let consumed = self.serve(id, connection, &mut input)?;
        input.drain(..consumed);
        give_back(&mut input);
        connection.input = input;
        Ok(consumed > 0)
    }

    fn read_and_serve(&mut self, id: usize, connection: &mut Connection) -> Result<(), Close> {
        let mut scratch = std::mem::take(&mut self.scratch);
        let served = self.read_with(id, connection, &mut scratch);
        self.scratch = scratch;
        served
    }

    /// Frames that arrive whole, the usual case, are served where they were read; only a rest is copied.
    fn read_with(&mut self, id: usize, connection: &mut Connection, scratch: &mut [u8]) -> Result<(), Close> {
        let bytes = connection.read(scratch)?;
        let Some(read) = scratch.get_mut(..bytes).filter(|read| !read.is_empty()) else { return Ok(()) };
        if let Some(shard) = self.shard() {
            count(&shard.received_bytes, bytes);
        }
        let consumed = if connection.input.is_empty() { self.serve(id, connection, read)? } else { 0 };
        let rest = read.get(consumed..).unwrap_or_default();
        connection.input.extend_from_slice(rest);
        Ok(())
    }

    /// Serves the frames at the front of `bytes`, in order, until one parks. Returns how much was used up.
    fn serve(&mut self, id: usize, connection: &mut Connection, bytes: &mut [u8]) -> Result<usize, Close> {
        let limit = self.node.settings.max_request_bytes;
        let mut at = 0;
        while connection.may_serve() {
            let rest = bytes.get_mut(at..).unwrap_or_default();
            match Frame::split(rest, limit) {
                Frame::Incomplete { .. } => break,
                Frame::TooLarge { length } => return Err(Close::FrameLength(length)),
                Frame::Complete { consumed_bytes, .. } => {
                    let frame =
                        rest.get_mut(hone_kafka::frame::LENGTH_BYTES..consumed_bytes).unwrap_or_default();
                    self.request(id, connection, frame, Attempt::First)?;
                    at += consumed_bytes;
                }
            }
        }
        Ok(at)
    }

    /// Serves one request: its answer is appended to the output, or it parks.
    fn request(
        &mut self,
        id: usize,
        connection: &mut Connection,
        frame: &mut [u8],
        attempt: Attempt,
    ) -> Result<(), Close> {
        let head = RequestHead::parse(frame)?;
        let (key, asked_version, correlation_id) = (head.api_key, head.api_version, head.correlation_id);
        let not_served = Close::NotServed { key, version: asked_version };
        let Some((place, api)) = keys::find(key) else { return Err(not_served) };
        let version_known = (api.min..=api.max).contains(&asked_version);
        if !version_known && key != keys::API_VERSIONS {
            return Err(not_served);
        }
        let version = if version_known { asked_version } else { 0 };
        let flexible = version >= api.flexible_from;
        let body_at = frame.len() - head.body(flexible && version_known)?.len();
        let start =
            open_answer(&mut connection.output, correlation_id, flexible && key != keys::API_VERSIONS);
        let mut call = Call {
            node: &self.node,
            work: &mut self.work,
            frame,
            body_at,
            peer: connection.peer,
            version,
            flexible,
            version_known,
            ticket: Ticket { worker: self.index, connection: id },
            attempt,
        };
        let mut answer = Answer::new(&mut connection.output, flexible);
        // A defect in a handler costs one connection, not the thread with all the others.
        let served = catch_unwind(AssertUnwindSafe(|| (api.serve)(&mut call, &mut answer)));
        let outcome = served.map_err(|_| Close::HandlerFailed)??;
        self.wake_readers();
        if let Some(shard) = self.shard()
            && !matches!(outcome, Outcome::Park(_))
            && let Some(counter) = shard.requests.get(place)
        {
            count(counter, 1);
        }
        #[cfg(feature = "planted-slowdown")]
        if key == keys::PRODUCE {
            self.slowdown.note_produce();
        }
        match outcome {
            Outcome::Reply => close_answer(&mut connection.output, start),
            Outcome::Silent => connection.output.truncate(start),
            Outcome::Park(park) => {
                connection.output.truncate(start);
                connection.parked = Some(Parked { frame: frame.to_vec(), park });
            }
        }
        Ok(())
    }

    fn wake_readers(&mut self) {
        for ticket in self.work.wake.drain(..) {
            if ticket.worker == self.index {
                self.grown.push(ticket.connection);
            } else {
                self.node.post(ticket, Letter::Grown(ticket.connection));
            }
        }
    }
}

/// Leaves room for the length, writes the response header. Returns where the answer begins.
fn open_answer(output: &mut Vec<u8>, correlation_id: i32, tagged_header: bool) -> usize {
    let start = output.len();
    output.extend_from_slice(&[0; 4]);
    output.extend_from_slice(&correlation_id.to_be_bytes());
    if tagged_header {
        output.push(0);
    }
    start
}

fn close_answer(output: &mut [u8], start: usize) {
    // Answers are bounded far below 2 GiB: by the request's size, or by what Fetch may read.
    let length = (output.len() - start - 4) as i32;
    if let Some(field) = output.get_mut(start..start + 4) {
        field.copy_from_slice(&length.to_be_bytes());
    }
}
