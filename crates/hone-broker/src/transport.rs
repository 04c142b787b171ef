//! A client's bytes, in plain or inside TLS, for a loop that hears of readiness only once.
//!
//! Nothing in here waits. A read goes on until its buffer is full or the socket is empty, so that a short read means the
//! same with and without TLS; what can't be sent stays inside and [`Transport::wants_write`] says so.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{InvalidMessage, ServerConfig, ServerConnection};

use crate::security::tls;

/// A client's socket, and what is around its bytes.
#[derive(Debug)]
pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// One client inside TLS. Its buffers are bounded by rustls: a record in, 64 KiB out.
#[derive(Debug)]
pub(crate) struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
    /// The last read filled its buffer, so that there may be more inside.
    filled: bool,
    /// The client has said its last byte, or gone without a word.
    ended: bool,
}

impl Transport {
    /// A new client; inside TLS if there is a configuration for it.
    pub(crate) fn new(socket: TcpStream, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        let Some(config) = tls else { return Ok(Self::Plain(socket)) };
        let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(TlsStream { socket, tls, filled: false, ended: false })))
    }

    fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.socket,
        }
    }

    fn socket_mut(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.socket,
        }
    }

    /// Where the client is, as long as it is connected.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.socket().peer_addr().ok()
    }

    /// The socket for bytes that the kernel may send by itself; `None` inside TLS, where it can't.
    pub(crate) fn plain_fd(&self) -> Option<RawFd> {
        match self {
            Self::Plain(socket) => Some(socket.as_raw_fd()),
            Self::Tls(_) => None,
        }
    }

    /// Reads the available bytes. Returns `WouldBlock` without any, and 0 at the end. A read that does not fill `into`
    /// has emptied the socket, except for the bytes of [`Transport::holds_input`].
    pub(crate) fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }

    /// Whether the next read has something to say that no event will announce.
    pub(crate) fn holds_input(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.filled || stream.ended,
        }
    }

    /// Takes over bytes to send. `WouldBlock` when the client has to take some of the earlier ones first.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Sends what is inside; `WouldBlock` when some of it stays there.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }

    /// Whether bytes wait inside for the socket.
    pub(crate) fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.tls.wants_write(),
        }
    }

    /// Whether no request can have come yet.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(stream) => stream.tls.is_handshaking(),
        }
    }

    /// The subject of the client's certificate, if it has shown one.
    pub(crate) fn client_subject(&self) -> Option<String> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.tls.peer_certificates()?.first().and_then(tls::subject),
        }
    }
}

impl TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut bytes = 0;
        loop {
            bytes += self.take_plain(into.get_mut(bytes..).unwrap_or_default())?;
            self.filled = bytes == into.len();
            if self.filled || self.ended {
                return Ok(bytes);
            }
            match self.pull() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && bytes > 0 => return Ok(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                pulled => pulled?,
            }
        }
    }

    /// Takes what was decrypted before.
    fn take_plain(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || self.ended {
            return Ok(0);
        }
        match self.tls.reader().read(into) {
            Ok(0) => {
                self.ended = true;
                Ok(0)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            taken => taken,
        }
    }

    /// Reads from the socket once, and answers what the handshake wants answered.
    fn pull(&mut self) -> io::Result<()> {
        if self.tls.read_tls(&mut self.socket)? == 0 {
            // Every request says its length, so one that was cut off is noticed without a farewell.
            self.ended = true;
            return Ok(());
        }
        let processed = self.tls.process_new_packets();
        let flushed = self.flush();
        processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, fault(&error)))?;
        match flushed {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            flushed => flushed,
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        if self.tls.is_handshaking() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = self.tls.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
        }
        Ok(())
    }
}

impl Drop for TlsStream {
    /// Sends TLS's closing alert, so that the client can distinguish the end from an accident. The client may not read
    /// it.
    fn drop(&mut self) {
        self.tls.send_close_notify();
        let _ = self.flush();
    }
}

fn fault(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not use TLS, but this listener requires it; set its security.protocol to SSL or \
             SASL_SSL"
                .to_owned()
        }
        error => format!("TLS failed: {error}"),
    }
}

impl Source for Transport {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket_mut().register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.socket_mut().reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.socket_mut().deregister(registry)
    }
}
