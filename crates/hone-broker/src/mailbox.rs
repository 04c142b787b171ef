//! The messages from other threads to a reactor.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mio::Waker;
use mio::net::TcpStream;

use crate::append::{Append, Destination, Stored};
use crate::connection::Connection;
use crate::partition::Partition;
use crate::reply::Reply;

/// A message to a reactor.
pub(crate) enum Letter {
    /// A client has connected.
    Connected(TcpStream),
    /// A connection moves here: what it writes belongs here.
    Moved(Box<Connection>),
    /// A partition that a parked Fetch waits for has grown.
    Grown(usize),
    /// What a parked request waits for.
    Reply(usize, Reply),
    /// A batch for a partition of this reactor.
    Append(Append),
    /// What came of a batch that a connection of this reactor brought.
    Stored(Destination, Stored),
    /// A partition of this reactor was flushed, or could not be.
    Flushed(Arc<Partition>),
    /// Finish what is there and end.
    Stop,
}

/// Letters of one reactor, and the bell.
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    /// Whether the reactor sleeps, or is about to: only then the bell is rung, since ringing is a system call.
    asleep: AtomicBool,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { letters: Mutex::new(Vec::new()), asleep: AtomicBool::new(false), waker }
    }

    /// Puts a letter in.
    pub(crate) fn post(&self, letter: Letter) -> io::Result<()> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        if self.asleep.swap(false, Ordering::AcqRel) { self.waker.wake() } else { Ok(()) }
    }

    /// Says that the reactor is about to sleep. `false` when letters are there, so that it must not.
    pub(crate) fn may_sleep(&self) -> bool {
        // The flag goes up before the look: a letter that comes in between finds it up and rings.
        self.asleep.store(true, Ordering::Release);
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        if letters.is_empty() {
            return true;
        }
        self.asleep.store(false, Ordering::Release);
        false
    }

    /// Whether the reactor sleeps with every letter that it ever got behind it. It has read all letters before it says that
    /// it sleeps, and has none now.
    pub(crate) fn rests(&self) -> bool {
        let letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.is_empty() && self.asleep.load(Ordering::Acquire)
    }

    /// Takes all letters; `into` must be empty.
    pub(crate) fn take(&self, into: &mut Vec<Letter>) {
        self.asleep.store(false, Ordering::Release);
        std::mem::swap(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner), into);
    }

    /// Letters not read yet.
    pub(crate) fn len(&self) -> usize {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
