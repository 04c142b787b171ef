//! One connection to a broker: it sends frames and receives acknowledgements in order.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::RawFd;
use std::time::Duration;

use hone_kafka::{Frame, ProduceResponse, parse_produce_response_v7};

use crate::clock::Clock;
use crate::error::LoadError;
use crate::frames::Request;
use crate::security::Access;
use crate::stream::Stream;
use crate::topic_set::TopicSet;

/// An acknowledgement of a thousand partitions has 30 kB, so a frame of a megabyte is not an acknowledgement.
const ACK_LIMIT_BYTES: usize = 1 << 20;
/// With acks=0 nothing else limits the bytes that are queued between two writes.
const OUTBOUND_BYTES: usize = 1 << 20;
/// Largest size of one read.
const READ_BYTES: usize = 64 << 10;
/// Acknowledgements that arrive this close together may share a time stamp: a read for each costs more than the accuracy is worth.
const TOGETHER_NS: u64 = 1_000;
/// With fewer unanswered requests, reading ahead costs more than it saves.
const LOOK_AHEAD_FROM: usize = 4;
/// After an attempt without benefit, the connection waits for this many acknowledgements before the next.
const LOOK_AHEAD_PAUSE: u32 = 64;

/// A request that waits for its acknowledgement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    /// Due time since the window's start.
    pub intended_ns: u64,
    /// Send time since the window's start.
    pub sent_ns: u64,
    /// Contents of the request.
    pub cargo: Cargo,
}

/// Contents of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cargo {
    /// Records in all of its batches.
    pub records: u64,
    /// Bytes of its batches.
    pub bytes: u64,
}

/// The end of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ack {
    /// The request.
    pub request: InFlight,
    /// Zero, or the first error among its partitions.
    pub error_code: i16,
}

/// A request that was sent, with the data to send it again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// Contents and first send time.
    pub request: InFlight,
    /// Time of the latest send.
    pub written_ns: u64,
    /// The (first) partition that it writes to.
    pub partition: i32,
    /// Sequence of its first record; -1 if it has none yet.
    pub sequence: i32,
}

/// The broker's answer to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub sent: Sent,
    /// Zero, or the first error among its partitions.
    pub error_code: i16,
    /// Time at which the kernel received it.
    pub received_ns: u64,
    /// Whether the time comes from the kernel. Otherwise it is the time of reading.
    pub stamped: bool,
}

/// Time at which data was received.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    at_ns: u64,
    /// Whether the time comes from the kernel.
    stamped: bool,
}

/// Why a connection is no longer usable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It broke. A new connection may work.
    Broken(String),
    /// The data is not the protocol. A new connection would not help.
    Garbage(String),
}

/// A connection of the wire engine.
#[derive(Debug)]
pub(crate) struct Connection {
    address: String,
    /// The topics that it writes to.
    topics: TopicSet,
    stream: Stream,
    outbound: Vec<u8>,
    written: usize,
    /// Zeroed once and reused; `received` is the number of valid bytes.
    inbound: Vec<u8>,
    received: usize,
    /// Size of the last acknowledgement; the next one probably has the same size.
    ack_bytes: usize,
    in_flight: VecDeque<Sent>,
    /// With acks=0: requests that end when the socket has taken their last byte, and its position in the stream.
    unwritten: VecDeque<(u64, Sent)>,
    /// Bytes of the stream that left `outbound`.
    passed_bytes: u64,
    /// Bytes of the stream that the socket took.
    on_socket_bytes: u64,
    first_unanswered: i32,
    next_correlation_id: i32,
    blocked: bool,
    /// Acknowledgements until the next attempt to read ahead.
    pause: u32,
}

impl Connection {
    /// Connects, shakes hands and logs in; each step may take `limit`. Afterwards the connection never blocks.
    pub(crate) fn open(
        access: &Access,
        address: &str,
        topics: &TopicSet,
        limit: Duration,
    ) -> Result<Self, LoadError> {
        let stream = access.enter_stamped(address, limit)?;
        Ok(Self {
            address: address.to_owned(),
            topics: topics.clone(),
            stream,
            outbound: Vec::new(),
            written: 0,
            inbound: vec![0; READ_BYTES],
            received: 0,
            ack_bytes: 0,
            in_flight: VecDeque::new(),
            unwritten: VecDeque::new(),
            passed_bytes: 0,
            on_socket_bytes: 0,
            first_unanswered: 0,
            next_correlation_id: 0,
            blocked: false,
            pause: 0,
        })
    }

    pub(crate) fn socket(&self) -> RawFd {
        self.stream.raw()
    }

    pub(crate) fn unanswered(&self) -> usize {
        self.in_flight.len()
    }

    /// Unfinished requests in order: they wait for an answer, or with acks=0 for the socket.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Sent> {
        self.in_flight.iter().chain(self.unwritten.iter().map(|(_, sent)| sent))
    }

    /// Requests that end with their write and are still unwritten.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.len()
    }

    /// Whether every request is written and answered.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty() && self.outbound.is_empty() && !self.blocked
    }

    /// Whether the socket took no more at the last flush, since the broker does not read.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Whether another request may be queued for writing.
    pub(crate) fn has_room(&self, in_flight: usize) -> bool {
        !self.blocked && self.in_flight.len() < in_flight && self.outbound.len() < OUTBOUND_BYTES
    }

    /// Queues a request for writing.
    pub(crate) fn enqueue(&mut self, request: &Request, sequence: i32) {
        request.put(&mut self.outbound, self.next_correlation_id, sequence);
        self.next_correlation_id = self.next_correlation_id.wrapping_add(1);
    }

    /// Adds a request that will be acknowledged.
    pub(crate) fn expect_ack(&mut self, sent: Sent) {
        self.in_flight.push_back(sent);
    }

    /// Adds a request without acknowledgement: it ends with its write.
    pub(crate) fn expect_written(&mut self, sent: Sent) {
        self.unwritten.push_back((self.passed_bytes + self.outbound.len() as u64, sent));
    }

    /// Returns each request whose last byte the socket has taken, once.
    pub(crate) fn take_written(&mut self) -> Option<Sent> {
        self.unwritten.front().filter(|(end, _)| *end <= self.on_socket_bytes)?;
        self.unwritten.pop_front().map(|(_, sent)| sent)
    }

    /// Writes as much as the socket takes. Returns whether interest in writability must change, and its new value.
    pub(crate) fn flush(&mut self) -> Result<Option<bool>, Lost> {
        if self.outbound.is_empty() && !self.blocked {
            return Ok(None);
        }
        let flushed = self.write_out();
        // Bytes inside TLS that have not reached the socket can't be assigned to requests, so the requests wait for all of them.
        if !self.stream.has_unsent() {
            self.on_socket_bytes = self.passed_bytes + self.written as u64;
        }
        flushed
    }

    fn write_out(&mut self) -> Result<Option<bool>, Lost> {
        let failed = |address: &str, error: &std::io::Error| {
            Lost::Broken(format!("{address}: writing failed: {error}"))
        };
        self.stream.push().map_err(|error| failed(&self.address, &error))?;
        while self.written < self.outbound.len() {
            match self.stream.send(&self.outbound[self.written..]) {
                Ok(0) => return Err(self.closed()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(&self.address, &error)),
            }
        }
        if self.written == self.outbound.len() {
            self.passed_bytes += self.outbound.len() as u64;
            self.outbound.clear();
            self.written = 0;
        }
        let unsent = !self.outbound.is_empty() || self.stream.has_unsent();
        let was_blocked = std::mem::replace(&mut self.blocked, unsent);
        Ok((was_blocked != self.blocked).then_some(self.blocked))
    }

    /// Reads the available bytes and passes every answer to `answered`, with the kernel's time of arrival.
    pub(crate) fn receive(
        &mut self,
        clock: &Clock,
        mut answered: impl FnMut(Answer, &ProduceResponse<'_>),
    ) -> Result<(), Lost> {
        while let Some(arrival) = self.read_once(clock)? {
            let consumed = self.acknowledge(arrival, &mut answered)?;
            self.inbound.copy_within(consumed..self.received, 0);
            self.received -= consumed;
            if self.in_flight.is_empty() {
                break;
            }
            if let Some(arrival) = self.look_ahead(clock, arrival.at_ns)? {
                let consumed = self.acknowledge(arrival, &mut answered)?;
                self.inbound.copy_within(consumed..self.received, 0);
                self.received -= consumed;
            }
        }
        Ok(())
    }

    /// Reads all available bytes at once if they arrived together with the last read, by the kernel's times of both. A broker often answers
    /// many requests in one segment. The kernel also joins unread segments in a row and keeps the time of the last one.
    fn look_ahead(&mut self, clock: &Clock, last_ns: u64) -> Result<Option<Arrival>, Lost> {
        if self.pause > 0 || self.received > 0 || self.in_flight.len() < LOOK_AHEAD_FROM {
            self.pause = self.pause.saturating_sub(1);
            return Ok(None);
        }
        let Ok((count, Some(stamp))) = self.stream.peek(&mut self.inbound) else {
            return Ok(None);
        };
        let at_ns = clock.at_ns(stamp);
        if count <= self.ack_bytes || at_ns > last_ns + TOGETHER_NS {
            self.pause = LOOK_AHEAD_PAUSE;
            return Ok(None);
        }
        match self.stream.receive(&mut self.inbound[..count]) {
            Ok((count, _)) => {
                self.received = count;
                Ok(Some(Arrival { at_ns, stamped: true }))
            }
            Err(error) => Err(Lost::Broken(format!("{}: reading failed: {error}", self.address))),
        }
    }

    /// One read; `None` if nothing is available. If the size is known it takes one acknowledgement at a time, because the kernel's time is
    /// the time of the last byte read.
    fn read_once(&mut self, clock: &Clock) -> Result<Option<Arrival>, Lost> {
        if self.received == self.inbound.len() {
            self.inbound.resize(self.received + READ_BYTES, 0);
        }
        let missing =
            self.ack_bytes.checked_sub(self.received).filter(|bytes| *bytes > 0).unwrap_or(READ_BYTES);
        let end = self.inbound.len().min(self.received + missing);
        match self.stream.receive(&mut self.inbound[self.received..end]) {
            Ok((0, _)) => Err(self.closed()),
            Ok((count, stamp)) => {
                self.received += count;
                let at_ns = stamp.map_or_else(|| clock.now_ns(), |stamp| clock.at_ns(stamp));
                Ok(Some(Arrival { at_ns, stamped: stamp.is_some() }))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(Lost::Broken(format!("{}: reading failed: {error}", self.address))),
        }
    }

    fn acknowledge(
        &mut self,
        arrival: Arrival,
        answered: &mut impl FnMut(Answer, &ProduceResponse<'_>),
    ) -> Result<usize, Lost> {
        let mut consumed = 0;
        loop {
            let garbage =
                |problem: String| Lost::Garbage(format!("{}: invalid answer: {problem}", self.address));
            match Frame::split(&self.inbound[consumed..self.received], ACK_LIMIT_BYTES) {
                Frame::Incomplete { .. } => return Ok(consumed),
                Frame::TooLarge { length } => {
                    return Err(garbage(format!(
                        "a frame states {length} bytes where an acknowledgement was expected"
                    )));
                }
                Frame::Complete { body, consumed_bytes } => {
                    let answer =
                        parse_produce_response_v7(body).map_err(|error| garbage(error.to_string()))?;
                    if answer.correlation_id != self.first_unanswered {
                        return Err(garbage(format!(
                            "an acknowledgement of request {}, but {} is next",
                            answer.correlation_id, self.first_unanswered
                        )));
                    }
                    let Some(mut sent) = self.in_flight.pop_front() else {
                        return Err(garbage("an acknowledgement without a request".to_owned()));
                    };
                    if answer.first_error_code != 0 {
                        let refused = answer.partitions().find(|partition| partition.error_code != 0);
                        let number = refused.and_then(|ack| self.topics.number(ack.topic, ack.partition));
                        sent.partition = number.unwrap_or(sent.partition);
                    }
                    self.first_unanswered = self.first_unanswered.wrapping_add(1);
                    consumed += consumed_bytes;
                    self.ack_bytes = consumed_bytes;
                    // The time is never before the write, since two clocks agree only to a fraction of a microsecond.
                    let received_ns = arrival.at_ns.max(sent.written_ns);
                    let (error_code, stamped) = (answer.first_error_code, arrival.stamped);
                    answered(Answer { sent, error_code, received_ns, stamped }, &answer);
                }
            }
        }
    }

    fn closed(&self) -> Lost {
        Lost::Broken(format!(
            "{}: the broker closed the connection with {} requests unanswered",
            self.address,
            self.in_flight.len()
        ))
    }

    /// Sends one request and waits for its answer, for callers outside a window.
    pub(crate) fn send_and_wait(&mut self, request: &Request, timeout_s: f64) -> Result<(), LoadError> {
        let what = "Produce v7".to_owned();
        let lost = |address: &str, lost: Lost| {
            let (Lost::Broken(problem) | Lost::Garbage(problem)) = lost;
            LoadError::Garbage { address: address.to_owned(), what: "Produce v7".to_owned(), problem }
        };
        let limit = std::time::Instant::now() + Duration::from_secs_f64(timeout_s);
        self.enqueue(request, -1);
        self.expect_ack(request.sent(0, 0));
        let clock = Clock::new(std::time::Instant::now());
        let mut answers = Vec::new();
        while answers.is_empty() {
            self.flush().map_err(|problem| lost(&self.address, problem))?;
            self.receive(&clock, |answer, _| answers.push(answer))
                .map_err(|problem| lost(&self.address, problem))?;
            if answers.is_empty() && std::time::Instant::now() > limit {
                return Err(LoadError::Slow { address: self.address.clone(), what, limit_s: timeout_s });
            }
            if answers.is_empty() {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        match answers.first().map_or(0, |answer| answer.error_code) {
            0 => Ok(()),
            code => Err(LoadError::Refused {
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
    use hone_kafka::ProduceFrame;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    fn request() -> Request {
        let frame = ProduceFrame::new("test", 1, 1_000, "topic", &[(0, &[0; 1_000])]).unwrap();
        Request::new(frame, Cargo::default(), 0)
    }

    #[test]
    fn requests_pile_up_behind_each_other_and_only_a_full_socket_blocks() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut connection =
            Connection::open(&Access::plain(), &address, &"topic".into(), Duration::from_secs(5)).unwrap();
        let mut server = listener.accept().unwrap().0;
        let request = request();
        for _ in 0..64 {
            connection.enqueue(&request, -1);
            assert!(!connection.is_blocked(), "bytes that were never offered to the socket block it");
        }
        assert_eq!(connection.flush().unwrap(), None);
        assert!(!connection.is_blocked());

        let mut told = None;
        for _ in 0..100_000 {
            connection.enqueue(&request, -1);
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

    #[test]
    fn without_acknowledgements_a_request_ends_when_the_socket_has_its_last_byte() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut connection =
            Connection::open(&Access::plain(), &address, &"topic".into(), Duration::from_secs(5)).unwrap();
        let mut server = listener.accept().unwrap().0;
        let request = request();
        let (mut put, mut ended) = (0, 0);
        let request_bytes = {
            let mut bytes = Vec::new();
            request.put(&mut bytes, 0, -1);
            bytes.len()
        };
        while !connection.is_blocked() {
            for _ in 0..64 {
                connection.enqueue(&request, -1);
                connection.expect_written(request.sent(put, put));
                put += 1;
            }
            assert!(connection.take_written().is_none(), "it is in the connection's buffer, and no farther");
            connection.flush().unwrap();
            while let Some(sent) = connection.take_written() {
                assert_eq!(sent.request.intended_ns, ended, "out of turn");
                ended += 1;
            }
        }
        assert!(ended > 0 && ended < put, "{ended} of {put}");
        assert_eq!((connection.unwritten() as u64, connection.unanswered()), (put - ended, 0));
        assert!(!connection.is_idle());

        // All that ended lies in the two kernels' buffers, and what did not end does not, but for the head of one request.
        server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let (mut arrived, mut buffer) = (0, vec![0; 1 << 20]);
        while let Ok(count) = server.read(&mut buffer) {
            arrived += count;
        }
        assert_eq!(arrived as u64 / request_bytes as u64, ended);
        while connection.is_blocked() {
            connection.flush().unwrap();
            let _ = server.read(&mut buffer);
        }
        assert_eq!(std::iter::from_fn(|| connection.take_written()).count() as u64, put - ended);
        assert!(connection.is_idle());
    }

    /// An acknowledgement as a broker writes it.
    fn ack(correlation_id: i32) -> Vec<u8> {
        let mut bytes = [0, 0, 0, 53].to_vec();
        bytes.extend(correlation_id.to_be_bytes());
        bytes.extend([0, 0, 0, 1, 0, 5, b't', b'o', b'p', b'i', b'c', 0, 0, 0, 1]);
        bytes.extend([0; 4 + 2 + 8 + 16 + 4]);
        bytes
    }

    #[test]
    fn an_answer_without_the_kernels_stamp_is_told_apart() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut connection =
            Connection::open(&Access::plain(), &address, &"topic".into(), Duration::from_secs(5)).unwrap();
        let mut server = listener.accept().unwrap().0;
        let clock = Clock::new(std::time::Instant::now());
        let request = request();
        let mut next = 0;
        let mut ask = |connection: &mut Connection| {
            connection.enqueue(&request, -1);
            connection.expect_ack(request.sent(0, 0));
            connection.flush().unwrap();
            server.write_all(&ack(next)).unwrap();
            next += 1;
            let mut told = Vec::new();
            while told.is_empty() {
                connection.receive(&clock, |answer, _| told.push(answer)).unwrap();
            }
            told[0]
        };
        // The kernel begins to stamp a moment after it was asked.
        let stamped = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(5));
            ask(&mut connection).stamped
        });
        assert!(stamped, "this kernel makes no stamps");
        let off: libc::c_int = 0;
        // SAFETY: the option's value is an int that lives through the call, and its size is passed.
        let result = unsafe {
            libc::setsockopt(
                connection.socket(),
                libc::SOL_SOCKET,
                libc::SO_TIMESTAMPNS,
                (&raw const off).cast(),
                std::mem::size_of_val(&off) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
        let before_ns = clock.now_ns();
        let answer = ask(&mut connection);
        assert!(!answer.stamped);
        assert!((before_ns..=clock.now_ns()).contains(&answer.received_ns));
    }

    #[test]
    fn answers_that_came_together_share_a_time_and_others_have_their_own() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let mut connection =
            Connection::open(&Access::plain(), &address, &"topic".into(), Duration::from_secs(5)).unwrap();
        let mut server = listener.accept().unwrap().0;
        server.set_nodelay(true).unwrap();
        let clock = Clock::new(std::time::Instant::now());
        let (request, mut told) = (request(), Vec::new());
        let mut next = 0;
        for round in 0..40 {
            for _ in 0..30 {
                connection.enqueue(&request, -1);
                connection.expect_ack(request.sent(0, 0));
            }
            connection.flush().unwrap();
            // Twenty in one segment, ten each on its own.
            let many: Vec<u8> = (next..next + 20).flat_map(ack).collect();
            server.write_all(&many).unwrap();
            std::thread::sleep(Duration::from_millis(2));
            connection.receive(&clock, |answer, _| told.push(answer.received_ns)).unwrap();
            for id in next + 20..next + 30 {
                std::thread::sleep(Duration::from_micros(300));
                server.write_all(&ack(id)).unwrap();
                while told.len() <= id as usize {
                    connection.receive(&clock, |answer, _| told.push(answer.received_ns)).unwrap();
                }
            }
            next += 30;
            assert_eq!(told.len(), 30 * (round + 1), "every answer is told once");
        }
        assert!(told.is_sorted());
        // The kernel begins to stamp a moment after it was asked; by the last rounds it does.
        for round in told.chunks(30).skip(20) {
            assert!(round[19] - round[0] <= TOGETHER_NS, "one segment, and {round:?}");
            let own = round[19..].windows(2).filter(|pair| pair[1] - pair[0] >= 250_000).count();
            assert_eq!(own, 10, "{round:?}");
        }
    }
}
