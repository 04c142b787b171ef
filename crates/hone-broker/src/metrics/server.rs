//! The HTTP side: one scraper at a time, on a thread of its own, so that a saturated reactor does not keep it waiting.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::node::Node;
use crate::reactor::BELL;

const LISTENER: Token = Token(0);
/// A scraper sends a few hundred bytes at once.
const MOST_REQUEST_BYTES: usize = 8 << 10;
/// One scraper is served at a time, so none may take long.
const SCRAPER_LIMIT: Duration = Duration::from_secs(1);

/// Serves scrapers until `stop` is set and the bell rung.
pub(crate) fn run(node: &Node, listener: &TcpListener, mut poll: Poll, stop: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(16);
    while !stop.load(Ordering::Acquire) {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        debug_assert!(events.iter().all(|event| event.token() == LISTENER || event.token() == BELL));
        while let Ok((stream, _)) = listener.accept() {
            // A scraper that goes away has lost its own answer.
            let _ = serve(node, stream);
        }
    }
    Ok(())
}

fn serve(node: &Node, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(SCRAPER_LIMIT))?;
    let until = Instant::now() + SCRAPER_LIMIT;
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        // One that sends a byte now and then must not hold up the others either.
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let bytes = stream.read(&mut chunk)?;
        if bytes == 0 || request.len() > MOST_REQUEST_BYTES {
            return Ok(());
        }
        request.extend_from_slice(chunk.get(..bytes).unwrap_or_default());
    }
    stream.write_all(respond(node, &request).as_bytes())
}

fn respond(node: &Node, request: &[u8]) -> String {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let (status, body) = match line.split(|byte| *byte == b' ').take(2).collect::<Vec<_>>().as_slice() {
        [b"GET", b"/metrics"] => ("200 OK", super::internal::text(node)),
        [b"GET", b"/public_metrics"] => ("200 OK", super::public::text(node)),
        [b"GET", b"/ready"] => ("200 OK", "ready\n".to_owned()),
        [b"GET", _] => ("404 Not Found", "not found: use /metrics, /public_metrics or /ready\n".to_owned()),
        _ => ("405 Method Not Allowed", "GET only\n".to_owned()),
    };
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}
