//! One connection to a broker: frames out, acknowledgements in, in order.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

use hone_kafka::{Frame, ProduceFrame, ProduceResponse, parse_produce_response_v7};

use crate::LoadError;
use crate::clock::{Clock, receive_timed, stamp_arrivals};

/// Time to reach a broker on its own network.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// An acknowledgement of a thousand partitions has 30 kB; a megabyte is not an acknowledgement.
const ACK_LIMIT_BYTES: usize = 1 << 20;
/// With acks=0 nothing else bounds what is put behind each other between two writes.
const OUTBOUND_BYTES: usize = 1 << 20;
/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;

/// A request that waits for its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    /// Since the window's start.
    pub intended_ns: u64,
    /// Since the window's start.
    pub sent_ns: u64,
    /// What it carries.
    pub cargo: Cargo,
}

/// What a request carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cargo {
    /// Records in all of its batches.
    pub records: u64,
    /// Bytes of its batches.
    pub bytes: u64,
}

/// A request's end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    /// The request.
    pub request: InFlight,
    /// Zero, or the first error among its partitions.
    pub error_code: i16,
}

/// Connects with no delay for small segments.
pub(crate) fn connect(address: &str) -> Result<TcpStream, LoadError> {
    let failed = |source| LoadError::Connect { address: address.to_owned(), source };
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&resolved, CONNECT_LIMIT) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The kernel's smoothed round trip of a connection; of a fresh one that of its handshake, in which the broker has no part.
pub(crate) fn round_trip_us(stream: &TcpStream) -> Option<f64> {
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the structure and its length live through the call, and the length is its size.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    (result == 0 && info.tcpi_rtt > 0).then(|| f64::from(info.tcpi_rtt))
}

/// A connection of the wire engine.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    /// Index of the leader it goes to, which is the index of its frame pool.
    pub leader: usize,
    stream: TcpStream,
    outbound: Vec<u8>,
    written: usize,
    /// Zeroed once and reused; `received` says how much of it holds bytes.
    inbound: Vec<u8>,
    received: usize,
    /// Size of the last acknowledgement; the next one is most likely as long.
    ack_bytes: usize,
    in_flight: VecDeque<InFlight>,
    first_unanswered: i32,
    next_correlation_id: i32,
    next_frame: usize,
    blocked: bool,
}

impl Connection {
    /// Connects; `first_frame` is where it begins its turn through the pool.
    pub(crate) fn open(address: &str, leader: usize, first_frame: usize) -> Result<Self, LoadError> {
        let stream = connect(address)?;
        stream
            .set_nonblocking(true)
            .and_then(|()| stamp_arrivals(stream.as_raw_fd()))
            .map_err(|source| LoadError::System { what: "preparing a socket", source })?;
        Ok(Self {
            address: address.to_owned(),
            leader,
            stream,
            outbound: Vec::new(),
            written: 0,
            inbound: vec![0; READ_BYTES],
            received: 0,
            ack_bytes: 0,
            in_flight: VecDeque::new(),
            first_unanswered: 0,
            next_correlation_id: 0,
            next_frame: first_frame,
            blocked: false,
        })
    }

    /// The same place again, after a time-out made this connection useless.
    pub(crate) fn reopen(&self) -> Result<Self, LoadError> {
        Self::open(&self.address, self.leader, self.next_frame)
    }

    pub(crate) fn socket(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    pub(crate) fn unanswered(&self) -> usize {
        self.in_flight.len()
    }

    /// The request that waits longest.
    pub(crate) fn oldest(&self) -> Option<InFlight> {
        self.in_flight.front().copied()
    }

    /// Gives up all requests that wait.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = InFlight> + '_ {
        self.in_flight.drain(..)
    }

    /// The socket took no more at the last flush: the broker does not read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether another request may be put behind those not yet written.
    pub(crate) fn has_room(&self, in_flight: usize) -> bool {
        !self.blocked && self.in_flight.len() < in_flight && self.outbound.len() < OUTBOUND_BYTES
    }

    /// Puts the next request of the pool behind those not yet written. With `acks` 0 it is its own end.
    pub(crate) fn enqueue(
        &mut self,
        frames: &mut [(ProduceFrame, Cargo)],
        intended_ns: u64,
        sent_ns: u64,
    ) -> InFlight {
        let index = self.next_frame % frames.len();
        self.next_frame = index + 1;
        let (frame, cargo) = &mut frames[index];
        frame.set_correlation_id(self.next_correlation_id);
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
        self.outbound.extend_from_slice(frame.bytes());
        InFlight { intended_ns, sent_ns, cargo: *cargo }
    }

    /// The request will be acknowledged.
    pub(crate) fn expect_ack(&mut self, request: InFlight) {
        self.in_flight.push_back(request);
    }

    /// Writes as much as the socket takes. The answer says whether interest in writability must change, and to what.
    pub(crate) fn flush(&mut self) -> Result<Option<bool>, String> {
        while self.written < self.outbound.len() {
            match self.stream.write(&self.outbound[self.written..]) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(format!("{}: writing failed: {error}", self.address)),
            }
        }
        if self.written == self.outbound.len() {
            self.outbound.clear();
            self.written = 0;
        }
        let was_blocked = std::mem::replace(&mut self.blocked, !self.outbound.is_empty());
        Ok((was_blocked != self.blocked).then_some(self.blocked))
    }

    /// Reads what there is and hands every acknowledgement to `acked`, with the time at which the kernel had received it.
    pub(crate) fn receive(
        &mut self,
        clock: &Clock,
        mut acked: impl FnMut(Ack, &ProduceResponse<'_>, u64),
    ) -> Result<(), String> {
        while let Some(received_ns) = self.read_once(clock)? {
            let consumed = self.acknowledge(&mut |ack, answer| acked(ack, answer, received_ns))?;
            self.inbound.copy_within(consumed..self.received, 0);
            self.received -= consumed;
            if self.in_flight.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// One read; `None` when there is nothing. It takes one acknowledgement at a time where their size is known, because
    /// the kernel's time is that of the last byte read.
    fn read_once(&mut self, clock: &Clock) -> Result<Option<u64>, String> {
        if self.received == self.inbound.len() {
            self.inbound.resize(self.received + READ_BYTES, 0);
        }
        let missing =
            self.ack_bytes.checked_sub(self.received).filter(|bytes| *bytes > 0).unwrap_or(READ_BYTES);
        let end = self.inbound.len().min(self.received + missing);
        match receive_timed(self.stream.as_raw_fd(), &mut self.inbound[self.received..end]) {
            Ok((0, _)) => Err(self.closed()),
            Ok((count, stamp)) => {
                self.received += count;
                Ok(Some(stamp.map_or_else(|| clock.now_ns(), |stamp| clock.at_ns(stamp))))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(format!("{}: reading failed: {error}", self.address)),
        }
    }

    fn acknowledge(&mut self, acked: &mut impl FnMut(Ack, &ProduceResponse<'_>)) -> Result<usize, String> {
        let mut consumed = 0;
        loop {
            match Frame::split(&self.inbound[consumed..self.received], ACK_LIMIT_BYTES) {
                Frame::Incomplete { .. } => return Ok(consumed),
                Frame::TooLarge { length } => {
                    return Err(format!(
                        "{}: sent garbage: a frame that says it has {length} bytes where an acknowledgement was due",
                        self.address
                    ));
                }
                Frame::Complete { body, consumed_bytes } => {
                    let garbage = |problem: String| format!("{}: sent garbage: {problem}", self.address);
                    let answer =
                        parse_produce_response_v7(body).map_err(|error| garbage(error.to_string()))?;
                    if answer.correlation_id != self.first_unanswered {
                        return Err(garbage(format!(
                            "an acknowledgement of request {} where {} was due",
                            answer.correlation_id, self.first_unanswered
                        )));
                    }
                    let request = self.in_flight.pop_front();
                    let request =
                        request.ok_or_else(|| garbage("an acknowledgement nobody waits for".to_owned()))?;
                    self.first_unanswered = self.first_unanswered.wrapping_add(1);
                    consumed += consumed_bytes;
                    self.ack_bytes = consumed_bytes;
                    acked(Ack { request, error_code: answer.first_error_code }, &answer);
                }
            }
        }
    }

    fn closed(&self) -> String {
        format!(
            "{}: the broker closed the connection with {} requests unanswered",
            self.address,
            self.in_flight.len()
        )
    }

    /// Sends one request and waits for its answer, for callers without a window.
    pub(crate) fn send_and_wait(
        &mut self,
        frames: &mut [(ProduceFrame, Cargo)],
        timeout_s: f64,
    ) -> Result<(), LoadError> {
        let what = "Produce v7".to_owned();
        let garbage = |address: &str, problem: String| LoadError::Garbage {
            address: address.to_owned(),
            what: "Produce v7".to_owned(),
            problem,
        };
        let limit = std::time::Instant::now() + Duration::from_secs_f64(timeout_s);
        let request = self.enqueue(frames, 0, 0);
        self.expect_ack(request);
        let clock = Clock::new(std::time::Instant::now());
        let mut code = None;
        while code.is_none() {
            self.flush().map_err(|problem| garbage(&self.address, problem))?;
            self.receive(&clock, |ack, _, _| code = Some(ack.error_code))
                .map_err(|problem| garbage(&self.address, problem))?;
            if code.is_none() && std::time::Instant::now() > limit {
                return Err(LoadError::Slow { address: self.address.clone(), what, limit_s: timeout_s });
            }
            if code.is_none() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        match code {
            None | Some(0) => Ok(()),
            Some(code) => Err(LoadError::Refused {
                address: self.address.clone(),
                what,
                error: hone_kafka::error_name(code),
                message: String::new(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::net::TcpListener;

    fn frames() -> [(ProduceFrame, Cargo); 1] {
        [(ProduceFrame::new("test", 1, 1_000, "topic", &[(0, &[0; 1_000])]).unwrap(), Cargo::default())]
    }

    #[test]
    fn requests_pile_up_behind_each_other_and_only_a_full_socket_blocks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut connection = Connection::open(&listener.local_addr().unwrap().to_string(), 0, 0).unwrap();
        let mut server = listener.accept().unwrap().0;
        let mut frames = frames();
        for _ in 0..64 {
            connection.enqueue(&mut frames, 0, 0);
            assert!(!connection.is_blocked(), "bytes that were never offered to the socket block it");
        }
        assert_eq!(connection.flush().unwrap(), None);
        assert!(!connection.is_blocked());

        let mut told = None;
        for _ in 0..100_000 {
            connection.enqueue(&mut frames, 0, 0);
            told = connection.flush().unwrap().or(told);
            if connection.is_blocked() {
                break;
            }
        }
        assert!(connection.is_blocked(), "a server that reads nothing takes everything");
        assert_eq!(told, Some(true), "interest in writability was not asked for");
        while connection.is_blocked() {
            assert!(server.read(&mut vec![0; 1 << 20]).unwrap() > 0);
            told = connection.flush().unwrap().or(told);
        }
        assert_eq!(told, Some(false), "interest in writability was kept");
    }
}
