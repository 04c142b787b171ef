//! One client: its socket, what it has sent and not been served yet, what it has not taken yet, and the answers between
//! that wait for a disk or for another reactor.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use crate::append::Stored;
use crate::keys::park::Park;
use crate::memory::Counted;
use crate::outbox::Outbox;
use crate::security::session::Session;
use crate::transport::Transport;

/// Answers that a client has not taken. Above this nothing more is served to it until it takes some.
const UNSENT_LIMIT_BYTES: usize = 1 << 20;
/// The same before the login, where all answers are short.
const STRANGER_UNSENT_LIMIT_BYTES: usize = 16 << 10;
/// Produce requests of one connection that may wait at a time, and the bytes of their batches.
const MOST_SLOTS: usize = 256;
const MOST_SLOT_BYTES: usize = 32 << 20;

/// A request that waits, with its whole frame: it is served again from the start.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) frame: Vec<u8>,
    pub(crate) park: Park,
}

/// An answer to Produce that is written but for the outcome of some batches.
#[derive(Debug)]
pub(crate) struct Slot {
    /// The whole frame.
    pub(crate) answer: Vec<u8>,
    /// Without acks there is no answer.
    pub(crate) silent: bool,
    /// Outcomes that are missing.
    pub(crate) waiting: usize,
    /// Bytes of the batches in flight.
    pub(crate) bytes: usize,
    /// Version of the request: it says what stands behind the error code.
    pub(crate) version: i16,
    pub(crate) began: Instant,
}

impl Slot {
    /// Writes the outcome of one partition where [`crate::keys`] left room for it.
    fn fill(&mut self, at: usize, stored: &Stored) {
        let mut outcome = [0; 26];
        outcome[..2].copy_from_slice(&stored.error.to_be_bytes());
        outcome[2..10].copy_from_slice(&stored.base_offset.to_be_bytes());
        outcome[10..18].copy_from_slice(&stored.append_time_ms.to_be_bytes());
        outcome[18..].copy_from_slice(&stored.log_start.to_be_bytes());
        // Later versions have all that earlier ones have, and more behind it.
        let length = match self.version {
            ..2 => 10,
            2..5 => 18,
            _ => outcome.len(),
        };
        if let (Some(room), Some(outcome)) = (self.answer.get_mut(at..at + length), outcome.get(..length)) {
            room.copy_from_slice(outcome);
        }
        self.waiting = self.waiting.saturating_sub(1);
    }
}

/// Which reactor the last Produce requests of a connection belonged to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Affinity {
    reactor: usize,
    streak: u32,
}

impl Affinity {
    /// Consecutive requests for another reactor after which the connection moves there.
    const MOVES_AFTER: u32 = 64;

    /// Notes whose partitions a request wrote to; `None` for several reactors'.
    pub(crate) fn note(&mut self, reactor: Option<usize>) {
        match reactor {
            Some(reactor) if reactor == self.reactor => self.streak = self.streak.saturating_add(1),
            Some(reactor) => *self = Self { reactor, streak: 1 },
            None => self.streak = 0,
        }
    }

    /// Where the connection should live, if that is not `here`.
    pub(crate) fn elsewhere(self, here: usize) -> Option<usize> {
        (self.streak >= Self::MOVES_AFTER && self.reactor != here).then_some(self.reactor)
    }
}

/// One client.
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    /// Who the client is.
    pub(crate) session: Session,
    /// Bytes that came and were not served: at most one unfinished frame, or more behind a request that waits.
    pub(crate) input: Vec<u8>,
    pub(crate) outbox: Outbox,
    slots: VecDeque<Slot>,
    first_slot: u64,
    answered: Vec<Instant>,
    pub(crate) parked: Option<Parked>,
    pub(crate) affinity: Affinity,
    /// Nothing is served before: the client has used up its quota.
    pub(crate) muted_until: Option<Instant>,
    /// From where it connects.
    pub(crate) host: IpAddr,
    /// Whether the socket may have bytes. It must be kept here, because the events are edge-triggered.
    pub(crate) readable: bool,
    /// The client will send nothing more.
    pub(crate) hung_up: bool,
    /// The end of the stream was read.
    pub(crate) ended: bool,
    /// Since when it has held an unfinished frame without a byte more of it, or was not read for want of memory.
    pub(crate) stalled_since: Option<Instant>,
    /// Since when answers wait of which the client has not taken a byte.
    pub(crate) untaken_since: Option<Instant>,
    /// What it was last counted as holding.
    pub(crate) counted: Counted,
    /// Nothing more is served: the last answer is on its way.
    pub(crate) closing: bool,
    /// The client's certificate, if it has one, was looked at.
    identified: bool,
}

impl Connection {
    pub(crate) fn new(stream: Transport, session: Session) -> Self {
        // A client that is gone already has no address, and no request that anyone would have to be asked about.
        let host = stream.peer().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |address| address.ip());
        Self {
            stream,
            session,
            input: Vec::new(),
            outbox: Outbox::default(),
            slots: VecDeque::new(),
            first_slot: 0,
            answered: Vec::new(),
            parked: None,
            affinity: Affinity::default(),
            muted_until: None,
            host,
            readable: true,
            hung_up: false,
            ended: false,
            stalled_since: None,
            untaken_since: None,
            counted: Counted::default(),
            closing: false,
            identified: false,
        }
    }

    /// Whether any request may be served now. Behind answers that are not complete only Produce may, which keeps
    /// requests of one client in their order and lets one flush serve several of them.
    pub(crate) fn may_serve(&self) -> bool {
        self.parked.is_none()
            && self.muted_until.is_none()
            && !self.closing
            && self.outbox.unsent() <= self.unsent_limit()
            && self.slots.len() < MOST_SLOTS
            && self.slot_bytes() <= MOST_SLOT_BYTES
    }

    fn unsent_limit(&self) -> usize {
        if self.session.is_open() { UNSENT_LIMIT_BYTES } else { STRANGER_UNSENT_LIMIT_BYTES }
    }

    /// Whether the client's socket has taken every answer.
    pub(crate) fn is_flushed(&self) -> bool {
        self.outbox.unsent() == 0 && !self.stream.wants_write()
    }

    /// Whether the client is still busy with TLS or its login.
    pub(crate) fn is_greeting(&self) -> bool {
        self.stream.is_handshaking() || !self.session.is_open()
    }

    /// Whether an answer waits.
    pub(crate) fn has_slots(&self) -> bool {
        !self.slots.is_empty()
    }

    fn slot_bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.bytes + slot.answer.capacity()).sum()
    }

    /// Memory that the client makes the broker hold.
    pub(crate) fn memory(&self) -> usize {
        let parked = self.parked.as_ref().map_or(0, |parked| parked.frame.capacity());
        self.input.capacity() + self.outbox.memory() + self.slot_bytes() + parked
    }

    /// Nothing under way: it could live on another reactor.
    pub(crate) fn is_quiet(&self) -> bool {
        self.parked.is_none()
            && self.slots.is_empty()
            && self.muted_until.is_none()
            && !self.hung_up
            && !self.is_greeting()
    }

    /// The number that the next slot will have.
    pub(crate) fn next_slot(&self) -> u64 {
        self.first_slot + self.slots.len() as u64
    }

    /// Whether no client waits for the answer of a slot.
    pub(crate) fn is_silent(&self, slot: u64) -> bool {
        let place = slot.checked_sub(self.first_slot).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.slots.get(place)).is_some_and(|slot| slot.silent)
    }

    /// Puts an answer behind the ones that wait.
    pub(crate) fn wait(&mut self, slot: Slot) {
        self.slots.push_back(slot);
    }

    /// The answer of a request that was left to this turn, as far as it is written, and when it began.
    pub(crate) fn take_unfinished(&mut self) -> Option<(Vec<u8>, Instant)> {
        self.slots.back_mut().map(|slot| (std::mem::take(&mut slot.answer), slot.began))
    }

    /// Returns an unfinished answer to the slot, with the bytes and the outcomes since then. It waits for one outcome
    /// more than exist, so that it stays unfinished.
    pub(crate) fn put_unfinished(&mut self, answer: Vec<u8>, waiting: usize, bytes: usize) {
        if let Some(slot) = self.slots.back_mut() {
            slot.answer = answer;
            slot.waiting += waiting;
            slot.bytes += bytes;
        }
    }

    /// Returns a finished answer to the slot.
    pub(crate) fn put_finished(&mut self, answer: Vec<u8>, waiting: usize, bytes: usize) {
        self.put_unfinished(answer, waiting, bytes);
        if let Some(slot) = self.slots.back_mut() {
            slot.waiting = slot.waiting.saturating_sub(1);
        }
        self.send_completed();
    }

    /// Whether a request was left to the next turn.
    pub(crate) fn is_halfway(&self) -> bool {
        matches!(self.parked, Some(Parked { park: Park::Turn(_), .. }))
    }

    /// An outcome has come. Returns the answers that it completed, from the front on: they go out now.
    pub(crate) fn fill(&mut self, slot: u64, at: usize, stored: &Stored) -> usize {
        let place = slot.checked_sub(self.first_slot).and_then(|place| usize::try_from(place).ok());
        if let Some(slot) = place.and_then(|place| self.slots.get_mut(place)) {
            slot.fill(at, stored);
        }
        self.send_completed()
    }

    fn send_completed(&mut self) -> usize {
        let mut completed = 0;
        while let Some(slot) = self.slots.front().filter(|slot| slot.waiting == 0) {
            self.outbox.push(&slot.answer);
            self.answered.push(slot.began);
            self.first_slot += 1;
            self.slots.pop_front();
            completed += 1;
        }
        completed
    }

    /// When the requests began whose answers had waited and went out since this was asked last.
    pub(crate) fn take_answered(&mut self) -> impl Iterator<Item = Instant> + '_ {
        self.answered.drain(..)
    }

    /// Sends what the socket takes. Returns how much that was.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let sent = self.outbox.flush(&mut self.stream)?;
        if self.is_flushed() {
            self.untaken_since = None;
        } else if sent > 0 || self.untaken_since.is_none() {
            self.untaken_since = Some(Instant::now());
        }
        Ok(sent)
    }

    /// Reads into `scratch` once; 0 when there is nothing (now).
    pub(crate) fn read(&mut self, scratch: &mut [u8]) -> io::Result<usize> {
        loop {
            return match self.stream.read(scratch) {
                Ok(0) => {
                    self.ended = true;
                    self.hung_up = true;
                    self.readable = false;
                    Ok(0)
                }
                Ok(bytes) => {
                    // A short read has drained the socket; only behind a hang-up must its end be read, too.
                    self.readable = bytes == scratch.len() || self.hung_up || self.stream.holds_input();
                    self.identify();
                    Ok(bytes)
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    Ok(0)
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
        }
    }
}

impl Connection {
    /// Names the client after its certificate. Where requests come, the handshake is over.
    fn identify(&mut self) {
        if !self.identified {
            self.identified = true;
            if let Some(subject) = self.stream.client_subject() {
                self.session.identify(&subject);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> Connection {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = mio::net::TcpStream::from_std(stream);
        Connection::new(Transport::new(stream, None).unwrap(), Session::new(false))
    }

    fn slot(mark: u8, waiting: usize) -> Slot {
        Slot { answer: vec![mark; 40], silent: false, waiting, bytes: 100, version: 5, began: Instant::now() }
    }

    fn stored(offset: i64) -> Stored {
        Stored { error: 7, base_offset: offset, append_time_ms: -1, log_start: 3 }
    }

    #[test]
    fn answers_go_out_in_the_order_of_their_requests() {
        let mut connection = connection();
        for (mark, waiting) in [(1, 1), (2, 0), (3, 2), (4, 1)] {
            connection.wait(slot(mark, waiting));
        }
        assert_eq!(connection.fill(3, 10, &stored(9)), 0);
        assert_eq!(connection.fill(2, 10, &stored(8)), 0);
        assert_eq!(connection.fill(0, 10, &stored(5)), 2);
        assert_eq!((connection.outbox.unsent(), connection.next_slot()), (80, 4));
        assert_eq!(connection.fill(2, 10, &stored(8)), 2);
        assert!(connection.is_quiet());
        let sent = connection.outbox.buffer();
        assert_eq!((sent[0], sent[40], sent[80], sent[120]), (1, 2, 3, 4));
        assert_eq!(
            sent[10..36],
            [&[0, 7][..], &5_i64.to_be_bytes(), &[0xff; 8], &3_i64.to_be_bytes()].concat()
        );
        assert_eq!((sent[9], sent[36]), (1, 1));
    }

    #[test]
    fn an_outcome_for_no_slot_changes_nothing() {
        let mut connection = connection();
        connection.wait(slot(1, 1));
        assert_eq!(connection.fill(7, 10, &stored(1)), 0);
        assert_eq!(connection.fill(0, 38, &stored(1)), 1);
        assert_eq!(*connection.outbox.buffer(), vec![1; 40]);
    }

    #[test]
    fn a_connection_moves_only_after_a_streak_for_one_other_reactor() {
        let mut affinity = Affinity::default();
        for _ in 0..Affinity::MOVES_AFTER {
            assert_eq!(affinity.elsewhere(0), None);
            affinity.note(Some(1));
        }
        assert_eq!((affinity.elsewhere(0), affinity.elsewhere(1)), (Some(1), None));
        affinity.note(None);
        assert_eq!(affinity.elsewhere(0), None);
        affinity.note(Some(0));
        assert_eq!(affinity.elsewhere(1), None);
    }
}
