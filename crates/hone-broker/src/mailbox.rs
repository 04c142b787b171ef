//! What other threads tell a worker.

use std::io;
use std::sync::{Mutex, PoisonError};

use mio::Waker;
use mio::net::TcpStream;

use crate::groups::{JoinAnswer, SyncAnswer};

/// A connection that waits for something, and the worker it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ticket {
    pub(crate) worker: usize,
    /// Never used twice by one worker.
    pub(crate) connection: usize,
}

/// What a parked request waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The coordinator lets a member in, or not.
    Join(JoinAnswer),
    /// The coordinator hands out an assignment, or refuses it.
    Sync(SyncAnswer),
    /// It is done, with this error code.
    Code(i16),
}

/// A message to a worker.
#[derive(Debug)]
pub(crate) enum Letter {
    /// A client has connected.
    Connected(TcpStream),
    /// A partition that a parked Fetch waits for has grown.
    Grown(usize),
    /// What a parked request waits for.
    Reply(usize, Reply),
    /// Finish what is there and end.
    Stop,
}

/// Letters of one worker, and the bell.
#[derive(Debug)]
pub(crate) struct Mailbox {
    letters: Mutex<Vec<Letter>>,
    waker: Waker,
}

impl Mailbox {
    pub(crate) fn new(waker: Waker) -> Self {
        Self { letters: Mutex::new(Vec::new()), waker }
    }

    /// Puts a letter in. The bell is rung only for the first one: the worker takes all.
    pub(crate) fn post(&self, letter: Letter) -> io::Result<()> {
        let mut letters = self.letters.lock().unwrap_or_else(PoisonError::into_inner);
        letters.push(letter);
        if letters.len() == 1 { self.waker.wake() } else { Ok(()) }
    }

    /// Takes all letters; `into` must be empty.
    pub(crate) fn take(&self, into: &mut Vec<Letter>) {
        std::mem::swap(&mut *self.letters.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}
