//! A consumer's connection to a leader: one Fetch in flight, and its answer.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use hone_kafka::Frame;

use super::reader::Lane;
use super::session::ShareSession;
use crate::clock::Clock;
use crate::error::LoadError;
use crate::fetch::{FetchSize, fetch_request};
use crate::poll::Poll;
use crate::stream::Stream;
use crate::topic_set::TopicSet;

/// An answer may exceed the requested size by one batch.
const ANSWER_LIMIT_BYTES: usize = 256 << 20;
/// Largest size of one read.
const READ_BYTES: usize = 256 << 10;

/// A complete answer in the buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    /// Time of the request.
    pub asked_ns: u64,
    /// Time of the last byte of the answer.
    pub at_ns: u64,
    /// Length of the frame.
    pub length: usize,
}

/// A connection that does not block, with its state.
#[derive(Debug)]
pub(super) struct Link {
    /// `host:port` of the leader.
    pub address: String,
    /// Partitions that it reads.
    pub partitions: Vec<i32>,
    /// Correlation id of the last Fetch.
    pub correlation_id: i32,
    /// Bytes received so far.
    pub inbound: Vec<u8>,
    /// With a share group: the session with this broker.
    pub session: Option<Box<ShareSession>>,
    stream: Stream,
    token: usize,
    /// Time of the request, or of the last byte of the answer.
    heard_at: Instant,
    /// Time of the request, on the clock of the answers.
    asked_ns: u64,
    outbound: Vec<u8>,
    written: usize,
    received: usize,
}

impl Link {
    /// A link over an open connection, watched from now on.
    pub(super) fn watched(
        stream: Stream,
        address: String,
        partitions: Vec<i32>,
        poll: &Poll,
        token: usize,
    ) -> Result<Self, LoadError> {
        poll.add(stream.raw(), token)
            .map_err(|source| LoadError::System { what: "watching a socket", source })?;
        Ok(Self {
            address,
            partitions,
            correlation_id: 0,
            inbound: Vec::new(),
            session: None,
            stream,
            token,
            heard_at: Instant::now(),
            asked_ns: 0,
            outbound: Vec::new(),
            written: 0,
            received: 0,
        })
    }

    /// Queues the next Fetch for writing.
    pub(super) fn ask(
        &mut self,
        topics: &TopicSet,
        lanes: &BTreeMap<i32, Lane>,
        size: FetchSize,
        now_ns: u64,
    ) {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.outbound = match &mut self.session {
            Some(session) => session.request(self.correlation_id, &self.partitions, size),
            None => {
                let next = |partition: &i32| Some((*partition, lanes.get(partition)?.next));
                let partitions: Vec<(i32, i64)> = self.partitions.iter().filter_map(next).collect();
                fetch_request(self.correlation_id, topics, &partitions, size)
            }
        };
        self.asked_ns = now_ns;
        self.written = 0;
        self.heard_at = Instant::now();
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.outbound.is_empty() && self.received == 0
    }

    /// Whether there is something to ask for, or to say.
    pub(super) fn has_use(&self) -> bool {
        !self.partitions.is_empty() || self.session.as_ref().is_some_and(|session| session.has_more_to_say())
    }

    /// Time since the last byte for its Fetch.
    pub(super) fn silent_for(&self, now: Instant) -> Duration {
        let asks = self.session.is_none() || !self.is_idle();
        if asks { now.saturating_duration_since(self.heard_at) } else { Duration::ZERO }
    }

    pub(super) fn flush(&mut self, poll: &Poll) -> Result<(), String> {
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

    /// Reads until no data is left or one answer is complete.
    pub(super) fn receive(&mut self, clock: &Clock) -> Result<Option<Arrival>, String> {
        loop {
            if self.received == self.inbound.len() {
                self.inbound.resize(self.received + READ_BYTES, 0);
            }
            let stamp = match self.stream.receive(&mut self.inbound[self.received..]) {
                Ok((0, _)) => return Err("closed the connection".to_owned()),
                Ok((count, stamp)) => {
                    self.received += count;
                    self.heard_at = Instant::now();
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
                        return Err("sent more data than requested".to_owned());
                    }
                    let at_ns = stamp.map_or_else(|| clock.now_ns(), |stamp| clock.at_ns(stamp));
                    self.received = 0;
                    self.outbound.clear();
                    self.written = 0;
                    return Ok(Some(Arrival { asked_ns: self.asked_ns, at_ns, length: consumed_bytes }));
                }
            }
        }
    }
}
