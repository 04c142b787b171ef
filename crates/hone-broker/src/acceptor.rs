//! The thread that accepts clients, hands them round the reactors, and keeps the time of the consumer groups.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, Ordering::Relaxed};
use std::time::Duration;

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::groups::Now;
use crate::mailbox::Letter;
use crate::memory::Counted;
use crate::node::Node;
use crate::reactor::BELL;
use crate::ticket::Ticket;

const LISTENER: Token = Token(0);
/// How exactly groups keep their time.
const GROUP_TICK: Duration = Duration::from_millis(25);
/// How often offsets are looked at that may have expired, and the journal that may have grown.
const GROUP_CARE: Duration = Duration::from_secs(10);
/// Pause after an error such as too many open files, before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts until `stop` is set and the bell rung.
pub(crate) fn run(
    node: &Arc<Node>,
    listener: &TcpListener,
    mut poll: Poll,
    stop: &AtomicBool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    poll.registry().register(&mut SourceFd(&listener.as_raw_fd()), LISTENER, Interest::READABLE)?;
    let mut events = Events::with_capacity(16);
    let mut next_reactor = 0;
    let mut retry = false;
    let mut full = false;
    let mut cared_at = Now::read().at;
    while !stop.load(Ordering::Acquire) {
        let timeout = match (retry, node.groups_are_idle()) {
            (true, _) => Some(ACCEPT_PAUSE),
            (false, false) => Some(GROUP_TICK),
            (false, true) => Some(GROUP_CARE),
        };
        match poll.poll(&mut events, timeout) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        if retry || events.iter().any(|event| event.token() != BELL) {
            retry = !accept_all(node, listener, &mut next_reactor, &mut full);
        }
        let now = Now::read();
        node.with_groups(|groups, effects| groups.tick(now, effects));
        if now.at >= cared_at + GROUP_CARE {
            node.care_for_groups();
            cared_at = now.at;
        }
    }
    Ok(())
}

/// Gives a socket room for answers, so that a reader of a long log wakes its reactor less often. The kernel's own choice
/// begins small; where it refuses, that choice stays.
fn widen(stream: &std::net::TcpStream, bytes: usize) {
    let Ok(bytes) = libc::c_int::try_from(bytes) else { return };
    if bytes == 0 {
        return;
    }
    // SAFETY: the descriptor is open as long as `stream`, and pointer and size are those of `bytes`.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_SNDBUF,
            (&raw const bytes).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// Accepts everyone who waits; `false` when it must be tried again later, since no event will say so.
fn accept_all(node: &Node, listener: &TcpListener, next_reactor: &mut usize, full: &mut bool) -> bool {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let before = node.connections.fetch_add(1, Relaxed);
                if before >= node.settings.max_connections {
                    node.connections.fetch_sub(1, Relaxed);
                    if !std::mem::replace(full, true) {
                        let most = node.settings.max_connections;
                        node.settings.notices.say(&format!(
                            "{most} clients are connected; the broker closes further connections"
                        ));
                    }
                    continue;
                }
                *full = false;
                // A client that is gone already is found by its reactor.
                widen(&stream, node.settings.send_buffer_bytes);
                if stream.set_nonblocking(true).is_ok() && stream.set_nodelay(true).is_ok() {
                    let reactor = *next_reactor % node.mailboxes.len().max(1);
                    *next_reactor = reactor + 1;
                    let letter = Letter::Connected(TcpStream::from_std(stream));
                    node.post(Ticket { reactor, connection: 0 }, letter);
                } else {
                    node.connection_ended(Counted::default());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => (),
            Err(error) => {
                // The loop asks again at once, but it reports the error only once.
                if !std::mem::replace(full, true) {
                    node.settings.notices.say(&format!(
                        "can't accept a client: {error}; if file descriptors run out, raise `ulimit -n` or \
                         lower --max-connections"
                    ));
                }
                return false;
            }
        }
    }
}
