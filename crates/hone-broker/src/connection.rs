//! One client: its socket, what it has sent and not been served yet, what it has not taken yet.

use std::io;

use crate::keys::Park;
use crate::security::session::Session;
use crate::transport::Transport;

/// Answers that a client has not taken. Above this nothing more is served to it until it takes some.
const UNSENT_LIMIT_BYTES: usize = 1 << 20;
/// Buffers above this are given back when they are empty.
const KEPT_BYTES: usize = 64 << 10;

/// A request that waits, with its whole frame: it is served again from the start.
#[derive(Debug)]
pub(crate) struct Parked {
    pub(crate) frame: Vec<u8>,
    pub(crate) park: Park,
}

/// One client.
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    pub(crate) session: Session,
    /// Bytes that came and were not served: at most one unfinished frame, or more behind a parked request.
    pub(crate) input: Vec<u8>,
    /// Answers, in the order of their requests.
    pub(crate) output: Vec<u8>,
    sent: usize,
    pub(crate) parked: Option<Parked>,
    /// Whether the socket may have bytes: events tell it only once.
    pub(crate) readable: bool,
    /// The client will send nothing more.
    pub(crate) hung_up: bool,
    /// The end of the stream was read.
    pub(crate) ended: bool,
    /// Nothing more is served: the last answer is on its way.
    pub(crate) closing: bool,
    /// The client's certificate, if it has one, was looked at.
    identified: bool,
}

impl Connection {
    pub(crate) fn new(stream: Transport, session: Session) -> Self {
        Self {
            stream,
            session,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            parked: None,
            readable: true,
            hung_up: false,
            ended: false,
            closing: false,
            identified: false,
        }
    }

    /// Bytes of answers that wait for the client.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether the client's socket has taken every answer.
    pub(crate) fn is_flushed(&self) -> bool {
        self.unsent() == 0 && !self.stream.wants_write()
    }

    /// Whether the client is still busy with TLS or its login.
    pub(crate) fn is_greeting(&self) -> bool {
        self.stream.is_handshaking() || !self.session.is_open()
    }

    /// Whether the next request may be served.
    pub(crate) fn may_serve(&self) -> bool {
        self.parked.is_none() && !self.closing && self.unsent() <= UNSENT_LIMIT_BYTES
    }

    /// Sends what the socket takes. Returns how much that was.
    pub(crate) fn flush(&mut self) -> io::Result<usize> {
        let before = self.sent;
        while self.sent < self.output.len() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(self.sent - before),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => (),
        }
        let sent = self.sent - before;
        self.output.clear();
        self.sent = 0;
        give_back(&mut self.output);
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

/// An idle connection holds no large buffer.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}
