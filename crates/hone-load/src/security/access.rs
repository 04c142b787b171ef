//! Opens connections: to the address, with TLS and login if wanted. Blocking, with a time limit.

use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs as _};
#[cfg(feature = "librdkafka")]
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::Duration;

use rustls::{ClientConfig, ClientConnection};

use super::options::Security;
use super::{login, tls};
use crate::clock::stamp_arrivals;
use crate::error::LoadError;
use crate::line::Line;
use crate::stream::{Stream, TlsStream};

/// Time limit for each step: reaching a broker on its own network, the handshake and the login.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// [`Security`] with its files read and checked.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    security: Security,
    tls: Option<Arc<ClientConfig>>,
}

impl Access {
    /// Reads the files.
    pub(crate) fn new(security: &Security) -> Result<Self, LoadError> {
        let tls = security.tls.as_ref().map(tls::client_config).transpose()?;
        Ok(Self { security: security.clone(), tls })
    }

    /// Access without TLS and login.
    pub(crate) fn plain() -> Self {
        Self { security: Security::default(), tls: None }
    }

    /// A connection after TLS and login; each answer may take `limit`.
    pub(crate) fn enter(&self, address: &str, limit: Duration) -> Result<Line, LoadError> {
        let socket = connect(address, limit.min(CONNECT_LIMIT))?;
        let stream = match (&self.tls, &self.security.tls) {
            (Some(config), Some(wanted)) => {
                let name = tls::server_name(wanted, address)?;
                let session = ClientConnection::new(Arc::clone(config), name)
                    .map_err(|error| refused(address, &error.to_string(), "check the TLS settings"))?;
                let mut stream = TlsStream::new(socket, session);
                stream.shake_hands().map_err(|error| handshake(address, &error))?;
                Stream::Tls(Box::new(stream))
            }
            _ => Stream::Plain(socket),
        };
        let mut line = Line::new(address, stream, self.tls.is_some());
        if let Some(sasl) = &self.security.sasl {
            login::log_in(&mut line, sasl)?;
        }
        line.limit_answers(limit)?;
        Ok(line)
    }

    /// Does the same as [`Access::enter`]. Afterwards the connection never blocks, and the kernel stamps data on arrival.
    pub(crate) fn enter_stamped(&self, address: &str, limit: Duration) -> Result<Stream, LoadError> {
        let stream = self.enter(address, limit)?.into_stream();
        stream
            .socket()
            .set_nonblocking(true)
            .and_then(|()| stamp_arrivals(stream.raw()))
            .map_err(|source| LoadError::System { what: "preparing a socket", source })?;
        Ok(stream)
    }
}

/// Connects without TLS and without delay for small segments. The limit also applies to each read and write.
pub(crate) fn connect(address: &str, limit: Duration) -> Result<TcpStream, LoadError> {
    let failed = |source| LoadError::Connect { address: address.to_owned(), source };
    let mut last = std::io::Error::new(ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs().map_err(failed)? {
        match TcpStream::connect_timeout(&resolved, limit) {
            Ok(stream) => {
                stream.set_nodelay(true).map_err(failed)?;
                stream.set_read_timeout(Some(limit)).map_err(failed)?;
                stream.set_write_timeout(Some(limit)).map_err(failed)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

/// The round trip to an address as the kernel measures it in the handshake of a fresh connection, without the broker's work.
#[cfg(feature = "librdkafka")]
pub(crate) fn round_trip_us(address: &str) -> Option<f64> {
    let stream = connect(address, CONNECT_LIMIT).ok()?;
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

fn refused(address: &str, problem: &str, advice: &str) -> LoadError {
    LoadError::Tls { address: address.to_owned(), problem: problem.to_owned(), advice: advice.to_owned() }
}

fn handshake(address: &str, error: &std::io::Error) -> LoadError {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        return refused(address, &error.to_string(), tls::advice(error));
    }
    let (problem, advice) = match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => (
            "no answer to the handshake".to_owned(),
            "what listens there may not speak TLS: use the broker's TLS port, or leave out --tls",
        ),
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => (
            "the connection was closed during the handshake".to_owned(),
            "what listens there may not speak TLS: use the broker's TLS port, or leave out --tls",
        ),
        _ => (error.to_string(), "check the broker's log for its side of the handshake"),
    };
    refused(address, &problem, advice)
}
