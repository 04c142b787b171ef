//! Byte stream to and from a broker, with or without TLS, blocking or not.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;

use rustls::ClientConnection;

use crate::clock::{peek_timed, receive_timed};

/// Largest read of ciphertext: slightly more than the largest TLS record.
const CIPHER_BYTES: usize = 17 << 10;
/// Largest amount of ciphertext that waits for the socket.
const UNSENT_BYTES: usize = 256 << 10;
/// Type, version, length.
const RECORD_HEAD_BYTES: usize = 5;

/// A connection's bytes.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// TLS over a socket.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: ClientConnection,
    cipher: Vec<u8>,
    records: Records,
    /// The kernel's time of the ciphertext read last.
    stamp: Option<Duration>,
}

impl TlsStream {
    pub(crate) fn new(socket: TcpStream, mut session: ClientConnection) -> Self {
        session.set_buffer_limit(Some(UNSENT_BYTES));
        Self { socket, session, cipher: vec![0; CIPHER_BYTES], records: Records::default(), stamp: None }
    }

    /// Does the TLS handshake on a blocking socket.
    pub(crate) fn shake_hands(&mut self) -> io::Result<()> {
        while self.session.is_handshaking() {
            self.session.complete_io(&mut self.socket)?;
        }
        Ok(())
    }

    /// Passes ciphertext to the socket until it takes no more.
    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.socket) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads ciphertext up to the end of a record, if the end is known, so that the kernel's time is the time of this record.
    fn pull(&mut self) -> io::Result<bool> {
        let most = self.records.to_read().min(self.cipher.len());
        let (count, stamp) = receive_timed(self.socket.as_raw_fd(), &mut self.cipher[..most])?;
        self.stamp = stamp;
        self.records.passed(&self.cipher[..count]);
        let mut cipher = &self.cipher[..count];
        while !cipher.is_empty() {
            self.session.read_tls(&mut cipher)?;
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, format!("TLS: {error}")))?;
        }
        Ok(count > 0)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        loop {
            match self.session.reader().read(buffer) {
                Ok(count) => return Ok((count, self.stamp)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            if !self.pull()? {
                return Ok((0, None));
            }
        }
    }
}

impl Stream {
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }

    pub(crate) fn raw(&self) -> RawFd {
        self.socket().as_raw_fd()
    }

    /// Bytes that were accepted and have not reached the socket.
    pub(crate) fn has_unsent(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(tls) => tls.session.wants_write(),
        }
    }

    /// Writes accepted bytes to the socket.
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(tls) => tls.push(),
        }
    }

    /// Accepts as many bytes as there is room for, on a socket that does not block.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => {
                let taken = tls.session.writer().write(bytes)?;
                tls.push()?;
                if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
            }
        }
    }

    /// Reads the available bytes without removing them. With TLS there are none to see.
    pub(crate) fn peek(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        match self {
            Self::Plain(socket) => peek_timed(socket.as_raw_fd(), buffer),
            Self::Tls(_) => Err(ErrorKind::WouldBlock.into()),
        }
    }

    /// Reads the available bytes, with the kernel's time of their arrival if it is known.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Option<Duration>)> {
        match self {
            Self::Plain(socket) => receive_timed(socket.as_raw_fd(), buffer),
            Self::Tls(tls) => tls.receive(buffer),
        }
    }
}

/// For a blocking socket.
impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(tls) => rustls::Stream::new(&mut tls.session, &mut tls.socket).read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(tls) => rustls::Stream::new(&mut tls.session, &mut tls.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(tls) => rustls::Stream::new(&mut tls.session, &mut tls.socket).flush(),
        }
    }
}

/// Follows the sizes of TLS records through a stream of ciphertext.
#[derive(Debug, Default)]
struct Records {
    head: [u8; RECORD_HEAD_BYTES],
    head_bytes: usize,
    body_left: usize,
    last_bytes: usize,
}

impl Records {
    /// Bytes up to the end of the current record, or of a record as long as the last one.
    fn to_read(&self) -> usize {
        if self.body_left > 0 {
            return self.body_left;
        }
        self.last_bytes.checked_sub(self.head_bytes).filter(|bytes| *bytes > 0).unwrap_or(CIPHER_BYTES)
    }

    fn passed(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.body_left == 0 {
                let take = (RECORD_HEAD_BYTES - self.head_bytes).min(bytes.len());
                self.head[self.head_bytes..self.head_bytes + take].copy_from_slice(&bytes[..take]);
                self.head_bytes += take;
                bytes = &bytes[take..];
                if self.head_bytes < RECORD_HEAD_BYTES {
                    return;
                }
                self.body_left = usize::from(u16::from_be_bytes([self.head[3], self.head[4]]));
                self.last_bytes = RECORD_HEAD_BYTES + self.body_left;
                self.head_bytes = 0;
            }
            let take = self.body_left.min(bytes.len());
            self.body_left -= take;
            bytes = &bytes[take..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_tls_record_is_known_however_it_is_cut() {
        let record = |body: usize| {
            let mut bytes = vec![23, 3, 3, (body >> 8) as u8, body as u8];
            bytes.resize(RECORD_HEAD_BYTES + body, 0);
            bytes
        };
        let stream: Vec<u8> = [record(40), record(300), record(40)].concat();
        for cut in 1..60 {
            let mut records = Records::default();
            stream.chunks(cut).for_each(|part| records.passed(part));
            assert_eq!((records.body_left, records.head_bytes, records.last_bytes), (0, 0, 45), "cut {cut}");
            assert_eq!(records.to_read(), 45);
            records.passed(&record(300)[..3]);
            assert_eq!(records.to_read(), 42);
            records.passed(&record(300)[3..10]);
            assert_eq!(records.to_read(), 295);
        }
    }
}
