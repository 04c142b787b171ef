//! Answers on their way to a client: bytes built in memory, and stretches of log files between them that the kernel sends
//! by itself.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileExt;

use crate::log::file_range::FileRange;
use crate::transport::Transport;

/// A buffer above this is given back when it is empty.
const KEPT_BYTES: usize = 64 << 10;

/// Copied at a time where the kernel can't send a file by itself: the size of a TLS record.
const COPIED_BYTES: usize = 16 << 10;

/// A file range, and where in the bytes it belongs.
#[derive(Debug)]
struct Piece {
    at: usize,
    range: FileRange,
}

/// What goes out, in order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    /// First byte not sent yet.
    sent: usize,
    pieces: VecDeque<Piece>,
    /// Sum over the pieces.
    piece_bytes: usize,
}

impl Outbox {
    /// Bytes that wait for the client.
    pub(crate) fn unsent(&self) -> usize {
        self.bytes.len() - self.sent + self.piece_bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// The buffer that answers are written behind.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Puts ranges in whose places count from the start of the buffer.
    pub(crate) fn attach(&mut self, ranges: impl IntoIterator<Item = (usize, FileRange)>) {
        for (at, range) in ranges {
            self.piece_bytes += range.bytes;
            self.pieces.push_back(Piece { at, range });
        }
    }

    /// Appends a finished answer.
    pub(crate) fn push(&mut self, answer: &[u8]) {
        self.bytes.extend_from_slice(answer);
    }

    /// Sends what the socket takes. Returns how much that was.
    pub(crate) fn flush(&mut self, stream: &mut Transport) -> io::Result<usize> {
        let mut total = 0;
        while self.unsent() > 0 {
            match self.send_some(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => total += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.drop_sent();
                    return Ok(total);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        match stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => (),
        }
        self.bytes.clear();
        self.sent = 0;
        give_back(&mut self.bytes);
        Ok(total)
    }

    /// A client that is always a little behind must not make it keep what it has taken.
    fn drop_sent(&mut self) {
        if self.sent < KEPT_BYTES || self.sent < self.bytes.len() / 2 {
            return;
        }
        self.bytes.drain(..self.sent);
        for piece in &mut self.pieces {
            piece.at -= self.sent;
        }
        self.sent = 0;
    }

    fn send_some(&mut self, stream: &mut Transport) -> io::Result<usize> {
        let stop = self.pieces.front().map_or(self.bytes.len(), |piece| piece.at);
        if self.sent < stop {
            let part = self.bytes.get(self.sent..stop).unwrap_or_default();
            let bytes = match stream.plain_fd() {
                Some(fd) if !self.pieces.is_empty() => send_with_more(fd, part)?,
                _ => stream.write(part)?,
            };
            self.sent += bytes;
            return Ok(bytes);
        }
        let Some(piece) = self.pieces.front_mut() else { return Ok(0) };
        let bytes = match stream.plain_fd() {
            Some(fd) => send_file(fd, &piece.range)?,
            None => send_copy(stream, &piece.range)?,
        };
        piece.range.position += bytes as u64;
        piece.range.bytes -= bytes;
        self.piece_bytes -= bytes;
        if piece.range.bytes == 0 {
            self.pieces.pop_front();
        }
        Ok(bytes)
    }
}

/// An idle connection holds no large buffer.
pub(crate) fn give_back(buffer: &mut Vec<u8>) {
    if buffer.is_empty() && buffer.capacity() > KEPT_BYTES {
        *buffer = Vec::new();
    }
}

/// Sends bytes and notifies the kernel that more follow, so that it does not send the head of an answer in a separate
/// packet.
fn send_with_more(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length are those of a living slice, and the descriptor is open as long as its stream.
    let sent = unsafe {
        libc::send(socket, bytes.as_ptr().cast(), bytes.len(), libc::MSG_MORE | libc::MSG_NOSIGNAL)
    };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

fn send_file(socket: RawFd, range: &FileRange) -> io::Result<usize> {
    let mut position = range.position as libc::off_t;
    // SAFETY: both descriptors are open as long as their owners, and `position` is ours to write.
    let sent = unsafe { libc::sendfile(socket, range.file.as_raw_fd(), &raw mut position, range.bytes) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Inside TLS the kernel can't send a file by itself.
fn send_copy(stream: &mut Transport, range: &FileRange) -> io::Result<usize> {
    let mut chunk = [0; COPIED_BYTES];
    let most = range.bytes.min(COPIED_BYTES);
    let part = chunk.get_mut(..most).unwrap_or_default();
    range.file.read_exact_at(part, range.position)?;
    stream.write(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::net::TcpStream;
    use std::io::{Read, Write};
    use std::sync::Arc;

    #[test]
    fn bytes_and_files_go_out_in_their_order_through_a_socket_that_takes_little_at_a_time() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut server = Transport::new(TcpStream::from_std(server), None).unwrap();

        let contents: Vec<u8> = (0..8_000_000_u32).map(|index| (index % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&contents).unwrap();
        let file = Arc::new(file);
        let range = |position: u64, bytes: usize| FileRange { file: Arc::clone(&file), position, bytes };

        let mut outbox = Outbox::default();
        outbox.push(b"head");
        let at = outbox.buffer().len();
        outbox.attach([(at, range(10, 5_000_000)), (at, range(0, 3))]);
        outbox.push(b"middle");
        let at = outbox.buffer().len();
        outbox.attach([(at, range(7_000_000, 1_000_000))]);
        let expected =
            [b"head", &contents[10..5_000_010], &contents[..3], b"middle", &contents[7_000_000..]].concat();
        assert_eq!(outbox.unsent(), expected.len());

        let mut got = Vec::new();
        let mut chunk = vec![0; 1 << 16];
        while got.len() < expected.len() {
            outbox.flush(&mut server).unwrap();
            let bytes = client.read(&mut chunk).unwrap();
            got.extend_from_slice(&chunk[..bytes]);
        }
        assert!(got == expected);
        assert_eq!((outbox.flush(&mut server).unwrap(), outbox.unsent(), outbox.buffer().len()), (0, 0, 0));
    }

    #[test]
    fn a_client_that_is_always_a_little_behind_costs_little() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let mut server = Transport::new(TcpStream::from_std(server), None).unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 1000]).unwrap();
        let file = Arc::new(file);
        let mut outbox = Outbox::default();
        let answer: Vec<u8> = (0..100_000_u32).map(|index| (index % 249) as u8).collect();
        let mut chunk = vec![0; 101_000];
        // Fill the socket, so that from then on something is always left.
        while outbox.unsent() == 0 {
            outbox.push(&answer);
            let at = outbox.buffer().len();
            outbox.attach([(at, FileRange { file: Arc::clone(&file), position: 0, bytes: 1000 })]);
            outbox.flush(&mut server).unwrap();
        }
        for _ in 0..100 {
            outbox.push(&answer);
            let at = outbox.buffer().len();
            outbox.attach([(at, FileRange { file: Arc::clone(&file), position: 0, bytes: 1000 })]);
            client.read_exact(&mut chunk).unwrap();
            assert!(chunk[..100_000] == answer[..] && chunk[100_000..] == [7; 1000]);
            outbox.flush(&mut server).unwrap();
            assert!(outbox.memory() < 4_000_000, "{} bytes are kept", outbox.memory());
        }
    }
}
