//! One client: its socket, what it has sent and not been served yet, what it has not taken yet.

use std::io::{self, Read, Write};
use std::net::IpAddr;

use mio::net::TcpStream;

use crate::keys::Park;

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
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// Where the client is; `None` when it was gone before anyone asked.
    pub(crate) peer: Option<IpAddr>,
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
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            peer: stream.peer_addr().ok().map(|peer| peer.ip()),
            stream,
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            parked: None,
            readable: true,
            hung_up: false,
            ended: false,
        }
    }

    /// Bytes of answers that wait for the client.
    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    /// Whether the next request may be served.
    pub(crate) fn may_serve(&self) -> bool {
        self.parked.is_none() && self.unsent() <= UNSENT_LIMIT_BYTES
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
                    self.readable = bytes == scratch.len() || self.hung_up;
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

/// An idle connection holds no large buffer.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}
