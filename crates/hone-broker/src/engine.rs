//! What serves requests, apart from the connections: from bytes that came to bytes that go out.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use hone_kafka::{Frame, RequestHead, WireError};

use crate::api_key::{API_VERSIONS, FETCH, PRODUCE};
use crate::append::{Destination, Stored, Terms};
use crate::appends::{self, Appends};
use crate::connection::{Connection, Parked, Slot};
use crate::keys::call::{Call, Outcome, Workspace};
use crate::keys::login::Progress;
use crate::keys::park::{Attempt, Park};
use crate::keys::{self, login, throttle};
use crate::log::file_range::FileRange;
use crate::mailbox::Letter;
use crate::node::Node;
use crate::outbox::give_back;
use crate::partition::Partition;
use crate::protocol::Answer;
use crate::quotas::{Metering, Quota};
use crate::shard_counters::{ShardCounters, count};
use crate::ticket::Ticket;

/// Read at a time from a socket.
const SCRATCH_BYTES: usize = 256 << 10;
/// The same while clients hold all the memory that they may.
const SHORT_SCRATCH_BYTES: usize = 4 << 10;
/// Uncompressed bytes of records that one turn reads before it leaves the rest to the next turn. The other clients have
/// then waited for about 10 ms, and longer if the broker validates records against a schema.
const UNPACKED_A_TURN_BYTES: usize = 1 << 20;
/// Reads from one connection before the others have their turn.
const MOST_READS: usize = 8;
/// The first four bytes of a TLS connection, taken for the length of a frame.
const TLS_HELLOS: std::ops::RangeInclusive<i32> = 0x1603_0000..=0x1603_03ff;
/// Where the API key stands behind the length of a frame.
const KEY_AT: std::ops::Range<usize> = 4..6;

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Close {
    #[error("the client closed the connection")]
    Gone,
    #[error(transparent)]
    Socket(#[from] io::Error),
    #[error("a frame of {0} bytes")]
    FrameLength(i32),
    #[error("a request that can't be read: {0}")]
    Request(#[from] WireError),
    #[error("API {key} in version {version} is not served")]
    NotServed { key: i16, version: i16 },
    #[error("it requested API {0} without a login")]
    Stranger(i16),
    #[error("it did not finish TLS or its login in time")]
    Late,
    #[error("its login failed")]
    LoginFailed,
    #[error("the broker is too busy for its login")]
    Busy,
    #[error("a handler failed")]
    HandlerFailed,
    #[error("a batch without acks could not be stored: error {0}")]
    Unstored(i16),
    #[error("a frame that does not end")]
    Stalled,
    #[error("answers that the client does not read")]
    Untaken,
}

/// What serves requests.
pub(crate) struct Engine {
    pub(crate) index: usize,
    pub(crate) node: Arc<Node>,
    pub(crate) appends: Appends,
    scratch: Vec<u8>,
    work: Workspace,
    /// Connections of this reactor whose parked Fetch has something to read.
    grown: Vec<usize>,
    turn_began: Instant,
    turn_ended: Instant,
    #[cfg(feature = "planted-slowdown")]
    slowdown: crate::slowdown::Slowdown,
}

impl Engine {
    pub(crate) fn new(index: usize, node: Arc<Node>) -> Self {
        let now = Instant::now();
        Self {
            index,
            node,
            appends: Appends::default(),
            scratch: vec![0; SCRATCH_BYTES],
            work: Workspace::default(),
            grown: Vec::new(),
            turn_began: now,
            turn_ended: now,
            #[cfg(feature = "planted-slowdown")]
            slowdown: crate::slowdown::Slowdown::from_environment(),
        }
    }

    pub(crate) fn shard(&self) -> Option<&ShardCounters> {
        self.node.shards.get(self.index)
    }

    pub(crate) fn ticket(&self, id: usize) -> Ticket {
        Ticket { reactor: self.index, connection: id }
    }

    pub(crate) fn may_sleep(&self) -> bool {
        self.node.mailboxes.get(self.index).is_none_or(|mailbox| mailbox.may_sleep())
    }

    pub(crate) fn take_letters(&self, letters: &mut Vec<Letter>) {
        if let Some(mailbox) = self.node.mailboxes.get(self.index) {
            mailbox.take(letters);
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.turn_began = Instant::now();
        self.work.unpack_left_bytes = UNPACKED_A_TURN_BYTES;
        let idle = self.turn_began - self.turn_ended;
        if let Some(shard) = self.shard() {
            count(&shard.idle_ns, idle.as_nanos() as usize);
        }
    }

    /// Asks for the flushes that the turn made necessary.
    pub(crate) fn end_turn(&mut self) {
        self.appends.end_turn(&self.node, self.index);
        #[cfg(feature = "planted-slowdown")]
        self.slowdown.end_turn();
        self.turn_ended = Instant::now();
        let busy = self.turn_ended - self.turn_began;
        if let Some(shard) = self.shard() {
            count(&shard.busy_ns, busy.as_nanos() as usize);
        }
    }

    pub(crate) fn has_grown(&self) -> bool {
        !self.grown.is_empty()
    }

    pub(crate) fn grow(&mut self, id: usize) {
        self.grown.push(id);
    }

    pub(crate) fn take_grown(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.grown)
    }

    /// A connection lives here no longer.
    pub(crate) fn count_departure(&self) {
        if let Some(shard) = self.shard() {
            shard.active.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn count_close(&self, reason: &Close) {
        let Some(shard) = self.shard() else { return };
        match reason {
            Close::Gone
            | Close::Socket(_)
            | Close::Unstored(_)
            | Close::Late
            | Close::LoginFailed
            | Close::Busy => (),
            Close::HandlerFailed => count(&shard.handler_failures, 1),
            Close::Stalled | Close::Untaken => count(&shard.stalled, 1),
            Close::FrameLength(_) | Close::Request(_) | Close::NotServed { .. } | Close::Stranger(_) => {
                count(&shard.protocol_errors, 1);
            }
        }
    }

    /// Appends a batch that another reactor has checked.
    pub(crate) fn append(
        &mut self,
        partition: &Arc<Partition>,
        batch: &mut [u8],
        terms: Terms,
    ) -> appends::Outcome {
        if let Some(shard) = self.shard() {
            count(&shard.handed_over, 1);
        }
        let outcome = self.appends.append(&self.node, partition, batch, terms, &mut self.work.wake);
        self.wake_readers();
        outcome
    }

    /// A flush is over: `outcomes` gets what it has decided.
    pub(crate) fn flushed(&mut self, partition: &Arc<Partition>, outcomes: &mut Vec<(Destination, Stored)>) {
        if let Some(shard) = self.shard() {
            count(&shard.flushes, 1);
        }
        self.appends.flushed(partition, outcomes, &mut self.work.wake);
        self.wake_readers();
    }

    /// Serves a connection as far as its input, its output and its turn allow. `false` when it has more to do at once.
    pub(crate) fn drive(&mut self, id: usize, connection: &mut Connection) -> Result<bool, Close> {
        let driven = self.drive_on(id, connection);
        for began in connection.take_answered() {
            if let Some(shard) = self.shard() {
                shard.produce_latency_us.record(began.elapsed().as_micros() as u64);
            }
        }
        let unfinished = !connection.input.is_empty() && connection.may_serve() && !self.is_whole(connection);
        connection.stalled_since = unfinished.then(|| connection.stalled_since.unwrap_or_else(Instant::now));
        let (bytes, is_stranger) = (connection.memory(), !connection.session.is_open());
        self.node.memory.recount(&mut connection.counted, bytes, is_stranger);
        driven
    }

    fn drive_on(&mut self, id: usize, connection: &mut Connection) -> Result<bool, Close> {
        let mut reads = 0;
        loop {
            if self.serve_buffered(id, connection)? {
                self.flush(connection)?;
            }
            if !connection.may_serve()
                || !connection.readable
                || self.must_wait(connection)
                // What was not served of what is here can't be now, and more behind it would only be kept.
                || self.is_whole(connection)
            {
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
        let more = self.can_go_on(connection);
        // A client that disconnects during a parked request does not want its answer. The event of the disconnect can
        // come together with the request, so this is the last chance to see it. A half-written answer must be
        // completed.
        let abandoned = connection.hung_up && connection.parked.is_some() && !connection.is_halfway();
        let finished = connection.ended
            && !more
            && connection.is_flushed()
            && !connection.has_slots()
            && connection.muted_until.is_none();
        if abandoned || finished {
            return Err(Close::Gone);
        }
        if connection.closing && connection.is_flushed() {
            return Err(Close::LoginFailed);
        }
        Ok(!more)
    }

    fn can_go_on(&self, connection: &Connection) -> bool {
        if !connection.may_serve() {
            return false;
        }
        connection.readable && !self.must_wait(connection) && !connection.has_slots()
            || self.has_frame(connection)
    }

    /// Whether reading more of an unfinished frame has to wait for memory.
    fn must_wait(&self, connection: &Connection) -> bool {
        !connection.input.is_empty() && self.is_short(connection)
    }

    /// Whether memory is short for clients like this one.
    pub(crate) fn is_short(&self, connection: &Connection) -> bool {
        self.node.memory.is_spent(!connection.session.is_open())
    }

    /// Whether the input begins with a whole frame, or with one that is refused.
    fn is_whole(&self, connection: &Connection) -> bool {
        let limit = connection.session.frame_limit(self.node.settings.max_request_bytes);
        !matches!(Frame::split(&connection.input, limit), Frame::Incomplete { .. })
    }

    /// Whether a request is here that may be served now.
    fn has_frame(&self, connection: &Connection) -> bool {
        self.is_whole(connection) && (!connection.has_slots() || is_produce(&connection.input))
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
        // What is read and not served is kept; while memory is short that must be little.
        let most = if self.is_short(connection) {
            SHORT_SCRATCH_BYTES
        } else {
            connection.session.frame_limit(scratch.len())
        };
        let scratch = scratch.get_mut(..most).unwrap_or_default();
        let bytes = connection.read(scratch)?;
        let Some(read) = scratch.get_mut(..bytes).filter(|read| !read.is_empty()) else { return Ok(()) };
        if let Some(shard) = self.shard() {
            count(&shard.received_bytes, bytes);
        }
        let consumed = if connection.input.is_empty() { self.serve(id, connection, read)? } else { 0 };
        let rest = read.get(consumed..).unwrap_or_default();
        connection.input.extend_from_slice(rest);
        connection.stalled_since = None;
        Ok(())
    }

    /// Serves the frames at the front of `bytes`, in order, until one parks. Returns how much was used up.
    fn serve(&mut self, id: usize, connection: &mut Connection, bytes: &mut [u8]) -> Result<usize, Close> {
        let mut at = 0;
        while connection.may_serve() {
            let limit = connection.session.frame_limit(self.node.settings.max_request_bytes);
            let rest = bytes.get_mut(at..).unwrap_or_default();
            if connection.has_slots() && !is_produce(rest) {
                break;
            }
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

    /// Serves one request: its answer is appended to the output, or it parks, or it waits for the outcome of its batches.
    pub(crate) fn request(
        &mut self,
        id: usize,
        connection: &mut Connection,
        frame: &mut [u8],
        attempt: Attempt,
    ) -> Result<(), Close> {
        if connection.session.takes_bare_tokens() {
            return self.bare_token(id, connection, frame, attempt);
        }
        let head = RequestHead::parse(frame)?;
        let (key, asked_version, correlation_id) = (head.api_key, head.api_version, head.correlation_id);
        let not_served = Close::NotServed { key, version: asked_version };
        let Some((place, api)) = keys::find(key) else { return Err(not_served) };
        let version_known = (api.min..=api.max).contains(&asked_version);
        if !version_known && key != API_VERSIONS {
            return Err(not_served);
        }
        if !connection.session.admits(key) {
            return Err(Close::Stranger(key));
        }
        let version = if version_known { asked_version } else { 0 };
        let flexible = version >= api.flexible_from;
        let body_at = frame.len() - head.body(flexible && version_known)?.len();
        let metering = self.node.quotas.metering();
        let charged = if metering == Metering::Off { None } else { head.client_id };
        let client_id = charged.unwrap_or_default().to_owned();
        let cpu_before = self.cpu_time(metering);
        let ticket = self.ticket(id);
        let is_first = matches!(attempt, Attempt::First);
        let begun = if matches!(attempt, Attempt::Further(_)) { connection.take_unfinished() } else { None };
        let goes_on = begun.is_some();
        // Behind answers that wait, this one must wait, too.
        let waits = connection.has_slots();
        let (mut detached, began) = begun.unwrap_or_else(|| (Vec::new(), Instant::now()));
        let slot = connection.next_slot() - u64::from(goes_on);
        let out = if waits { &mut detached } else { connection.outbox.buffer() };
        let start =
            if goes_on { 0 } else { open_answer(out, correlation_id, flexible && key != API_VERSIONS) };
        let mut call = Call {
            node: &self.node,
            session: &mut connection.session,
            work: &mut self.work,
            appends: &mut self.appends,
            frame,
            body_at,
            version,
            flexible,
            version_known,
            ticket,
            slot,
            answer_at: start,
            attempt,
            host: connection.host,
        };
        let mut answer = Answer::new(out, flexible);
        // A defect in a handler costs one connection, not the thread with all the others.
        let served = catch_unwind(AssertUnwindSafe(|| (api.serve)(&mut call, &mut answer)));
        let files = answer.into_files();
        let outcome = served.map_err(|_| Close::HandlerFailed)??;
        self.wake_readers();
        if let Some(shard) = self.shard()
            && !outcome.is_unfinished()
            && let Some(counter) = shard.requests.get(place)
        {
            count(counter, 1);
        }
        if key == PRODUCE && !outcome.is_unfinished() {
            self.note_produce(connection, began, !waits && matches!(outcome, Outcome::Reply));
        }
        let mut written = Written { detached, waits, goes_on, start, files, key, version, flexible, began };
        if metering != Metering::Off {
            let spent = self.cpu_time(metering).saturating_sub(cpu_before);
            let answer_bytes = written.bytes(connection);
            let used = Used { key, request_bytes: frame.len(), answer_bytes, spent, outcome: &outcome };
            let throttle_ms = self.charge(connection.session.principal(), &client_id, &used);
            if throttle_ms > 0 {
                written.throttle(connection, throttle_ms);
            }
        }
        match outcome {
            Outcome::Park(park) => {
                written.take_back(connection);
                connection.parked = Some(Parked { frame: kept(frame, is_first), park });
                Ok(())
            }
            Outcome::Pause { waiting, bytes, silent, walk } => {
                written.pause(connection, waiting, bytes, silent);
                connection.parked = Some(Parked { frame: kept(frame, is_first), park: Park::Turn(walk) });
                Ok(())
            }
            outcome => written.settle(connection, outcome),
        }
    }

    /// CPU time of this thread, where a quota counts it.
    fn cpu_time(&self, metering: Metering) -> Duration {
        if metering != Metering::Cpu {
            return Duration::ZERO;
        }
        self.shard().and_then(|shard| shard.clock.get()).map_or(Duration::ZERO, |clock| clock.elapsed())
    }

    /// Counts a request against the quotas of its client; returns how long it must wait, in milliseconds.
    fn charge(&self, principal: &str, client_id: &str, used: &Used<'_>) -> u32 {
        let now = Instant::now();
        let charge = |quota, amount| self.node.quotas.charge(quota, principal, client_id, amount, now);
        let by_time = charge(Quota::Request, used.spent.as_nanos() as f64);
        // A parked request runs again. Its bytes must count only once, and only an answer can carry the delay.
        if used.outcome.is_unfinished() || !throttle::is_subject(used.key) {
            return 0;
        }
        let by_bytes = match used.key {
            PRODUCE => charge(Quota::Produce, used.request_bytes as f64),
            FETCH => charge(Quota::Consume, used.answer_bytes as f64),
            _ => 0,
        };
        by_time.max(by_bytes)
    }

    /// `is_answered` where its answer goes out at once; one that waits is noted when it does.
    fn note_produce(&mut self, connection: &mut Connection, began: Instant, is_answered: bool) {
        #[cfg(feature = "planted-slowdown")]
        self.slowdown.note_produce();
        connection.affinity.note(self.work.owner.take());
        if let Some(shard) = self.shard().filter(|_| is_answered) {
            shard.produce_latency_us.record(began.elapsed().as_micros() as u64);
        }
    }

    /// Serves a token that comes without a request around it, behind the oldest handshake.
    fn bare_token(
        &mut self,
        id: usize,
        connection: &mut Connection,
        frame: &[u8],
        attempt: Attempt,
    ) -> Result<(), Close> {
        let (ticket, session) = (self.ticket(id), &mut connection.session);
        match login::advance(&self.node, session, ticket, &attempt, frame, Instant::now()) {
            Progress::Answer(token) => {
                // A token is far below 2 GiB.
                connection.outbox.push(&(token.len() as i32).to_be_bytes());
                connection.outbox.push(&token);
                Ok(())
            }
            Progress::Park(park) => {
                connection.parked = Some(Parked { frame: frame.to_vec(), park });
                Ok(())
            }
            Progress::Refused | Progress::NotNow => Err(Close::LoginFailed),
            Progress::Busy => Err(Close::Busy),
        }
    }

    /// Reports a client's error that its owner may want to know. Clients of other protocols are only counted.
    pub(crate) fn complain(&self, connection: &Connection, reason: &Close) {
        let fault = match reason {
            Close::Socket(error) if error.kind() == io::ErrorKind::InvalidData => error.to_string(),
            Close::FrameLength(length) if TLS_HELLOS.contains(length) => {
                "it uses TLS, but this listener does not; set its security.protocol to PLAINTEXT or \
                 SASL_PLAINTEXT"
                    .to_owned()
            }
            Close::Stranger(_) | Close::Late | Close::LoginFailed | Close::Busy => reason.to_string(),
            _ => return,
        };
        let from = connection.stream.peer().map_or_else(String::new, |peer| format!(" at {peer}"));
        let line = format!("closed the connection of a client{from}: {fault}");
        if let Some(line) = self.node.security.complaint(&line, Instant::now()) {
            self.node.settings.notices.say(&line);
        }
    }

    fn wake_readers(&mut self) {
        for ticket in self.work.wake.drain(..) {
            if ticket.reactor == self.index {
                self.grown.push(ticket.connection);
            } else {
                self.node.post(ticket, Letter::Grown(ticket.connection));
            }
        }
    }
}

/// What a handler has written: in the outbox, or detached where earlier answers wait.
struct Written {
    detached: Vec<u8>,
    waits: bool,
    /// It goes on behind what an earlier turn has written, and its slot is there.
    goes_on: bool,
    /// Where the answer begins.
    start: usize,
    files: Vec<(usize, FileRange)>,
    key: i16,
    version: i16,
    flexible: bool,
    began: Instant,
}

impl Written {
    fn out<'a>(&'a mut self, connection: &'a mut Connection) -> &'a mut Vec<u8> {
        if self.waits { &mut self.detached } else { connection.outbox.buffer() }
    }

    /// Size of the answer as far as it is written.
    fn bytes(&mut self, connection: &mut Connection) -> usize {
        let start = self.start;
        self.out(connection).len() - start + file_bytes(&self.files)
    }

    /// Sends the delay to the client, and enforces it.
    fn throttle(&mut self, connection: &mut Connection, throttle_ms: u32) {
        let (key, version, flexible) = (self.key, self.version, self.flexible);
        let body_at = self.start + 8 + usize::from(flexible && key != API_VERSIONS);
        throttle::write(self.out(connection), body_at, key, version, flexible, throttle_ms);
        connection.muted_until = Some(Instant::now() + Duration::from_millis(throttle_ms.into()));
    }

    fn take_back(&mut self, connection: &mut Connection) {
        let start = self.start;
        self.out(connection).truncate(start);
    }

    /// Fills in the length.
    fn close(&mut self, connection: &mut Connection) {
        let start = self.start;
        // Answers are bounded far below 2 GiB: by the request's size, or by what Fetch may read.
        let length = (self.bytes(connection) - 4) as i32;
        if let Some(field) = self.out(connection).get_mut(start..start + 4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Lets an answer wait for its rest.
    fn pause(mut self, connection: &mut Connection, waiting: usize, bytes: usize, silent: bool) {
        if self.goes_on {
            connection.put_unfinished(self.detached, waiting, bytes);
            return;
        }
        self.detach(connection);
        self.wait(connection, waiting + 1, bytes, silent);
    }

    /// Takes the answer out of the outbox.
    fn detach(&mut self, connection: &mut Connection) {
        if !self.waits {
            self.detached = connection.outbox.buffer().split_off(self.start);
        }
    }

    /// Sends the answer, or lets it wait for what it lacks.
    fn settle(mut self, connection: &mut Connection, outcome: Outcome) -> Result<(), Close> {
        match outcome {
            Outcome::Reply if self.waits => {
                self.close(connection);
                self.wait(connection, 0, 0, false);
            }
            Outcome::Reply => {
                self.close(connection);
                connection.outbox.attach(self.files);
            }
            Outcome::Later { waiting, bytes } => {
                self.close(connection);
                self.detach(connection);
                self.wait(connection, waiting, bytes, false);
            }
            Outcome::Silent { waiting, bytes } => {
                self.take_back(connection);
                if waiting > 0 || self.goes_on {
                    self.wait(connection, waiting, bytes, true);
                }
            }
            Outcome::Last => {
                self.close(connection);
                connection.closing = true;
            }
            Outcome::Fail(error) => return Err(Close::Unstored(error)),
            Outcome::Close => return Err(Close::Busy),
            // The caller keeps the request.
            Outcome::Park(_) | Outcome::Pause { .. } => (),
        }
        Ok(())
    }

    fn wait(self, connection: &mut Connection, waiting: usize, bytes: usize, silent: bool) {
        let Self { detached: answer, version, began, .. } = self;
        if self.goes_on {
            connection.put_finished(answer, waiting, bytes);
            return;
        }
        connection.wait(Slot { answer, silent, waiting, bytes, version, began });
    }
}

/// The frame of a request that parks. One that is served again is with the caller already.
fn kept(frame: &[u8], is_first: bool) -> Vec<u8> {
    if is_first { frame.to_vec() } else { Vec::new() }
}

fn file_bytes(files: &[(usize, FileRange)]) -> usize {
    files.iter().map(|(_, range)| range.bytes).sum()
}

/// What one request has used.
struct Used<'a> {
    key: i16,
    request_bytes: usize,
    answer_bytes: usize,
    /// CPU time of the handler.
    spent: Duration,
    outcome: &'a Outcome,
}

fn is_produce(input: &[u8]) -> bool {
    input.get(KEY_AT).is_some_and(|key| *key == PRODUCE.to_be_bytes())
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
