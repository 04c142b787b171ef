//! Who waits for a log to grow: parked Fetches, each woken when what it lacks can have come, and no sooner.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::ticket::Ticket;

/// One parked Fetch, in the lists of all partitions that it reads.
#[derive(Debug)]
pub(crate) struct Waiter {
    ticket: Ticket,
    /// The first of its partitions to grow wakes it; the others then leave it alone.
    woken: AtomicBool,
}

impl Waiter {
    pub(crate) fn new(ticket: Ticket) -> Arc<Self> {
        Arc::new(Self { ticket, woken: AtomicBool::new(false) })
    }

    fn wake(&self, wake: &mut Vec<Ticket>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            wake.push(self.ticket);
        }
    }

    /// Whether it has been woken. A letter that says so may be an old one, of a request that was answered since.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

/// What a Fetch lacks of one partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lack {
    /// It reads committed records only.
    pub(crate) committed: bool,
    /// Where what it was shown ended.
    pub(crate) seen: i64,
    /// Number of further visible bytes below which a wake-up is not worthwhile.
    pub(crate) bytes: u64,
}

/// Where in the list of a partition a waiter stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    committed: bool,
    at: (u64, Ticket),
}

/// How far readers can see.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    /// Bytes ever appended in front of the high watermark, counted from the start of the broker.
    pub(crate) bytes: u64,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable: i64,
}

impl View {
    fn end(&self, committed: bool) -> i64 {
        if committed { self.last_stable } else { self.high_watermark }
    }
}

/// Those who wait for one log, by the [`View::bytes`] that each waits for.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    any: BTreeMap<(u64, Ticket), Arc<Waiter>>,
    committed: BTreeMap<(u64, Ticket), Arc<Waiter>>,
    /// The last stable offset when those of committed records were last looked at: nothing is new to them before it moves.
    stable: i64,
}

impl Waiters {
    pub(crate) fn is_empty(&self) -> bool {
        self.any.is_empty() && self.committed.is_empty()
    }

    /// Adds a waiter. One that has not seen everything is woken at once and gets no standing.
    pub(crate) fn wait(
        &mut self,
        waiter: &Arc<Waiter>,
        lack: Lack,
        view: View,
        wake: &mut Vec<Ticket>,
    ) -> Option<Standing> {
        if view.end(lack.committed) > lack.seen {
            waiter.wake(wake);
            return None;
        }
        // For whom the end has moved since the last look must not be forgotten over the newcomer's look.
        self.wake(view, wake);
        let unclear = lack.committed && view.last_stable < view.high_watermark;
        // How many bytes are in front of an open transaction is not known: its end is waited for, whatever it brings.
        let bytes = if unclear { 0 } else { view.bytes.saturating_add(lack.bytes) };
        let standing = Standing { committed: lack.committed, at: (bytes, waiter.ticket) };
        self.list(lack.committed).insert(standing.at, Arc::clone(waiter));
        Some(standing)
    }

    pub(crate) fn forget(&mut self, standing: &Standing) {
        self.list(standing.committed).remove(&standing.at);
    }

    /// Wakes whom the view can serve.
    pub(crate) fn wake(&mut self, view: View, wake: &mut Vec<Ticket>) {
        wake_up_to(&mut self.any, view.bytes, wake);
        if view.last_stable > self.stable {
            self.stable = view.last_stable;
            wake_up_to(&mut self.committed, view.bytes, wake);
        }
    }

    fn list(&mut self, committed: bool) -> &mut BTreeMap<(u64, Ticket), Arc<Waiter>> {
        if committed { &mut self.committed } else { &mut self.any }
    }
}

fn wake_up_to(list: &mut BTreeMap<(u64, Ticket), Arc<Waiter>>, bytes: u64, wake: &mut Vec<Ticket>) {
    while let Some(first) = list.first_entry()
        && first.key().0 <= bytes
    {
        first.remove().wake(wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticket(connection: usize) -> Ticket {
        Ticket { reactor: 0, connection }
    }

    fn view(bytes: u64, high_watermark: i64, last_stable: i64) -> View {
        View { bytes, high_watermark, last_stable }
    }

    fn lack(committed: bool, seen: i64, bytes: u64) -> Lack {
        Lack { committed, seen, bytes }
    }

    fn woken(waiters: &mut Waiters, view: View) -> Vec<usize> {
        let mut wake = Vec::new();
        waiters.wake(view, &mut wake);
        wake.iter().map(|ticket| ticket.connection).collect()
    }

    #[test]
    fn each_is_woken_when_its_bytes_are_there_and_not_again() {
        let mut waiters = Waiters::default();
        let now = view(1_000, 10, 10);
        for (number, bytes) in [1, 500, 100, 101].into_iter().enumerate() {
            let waiter = Waiter::new(ticket(number));
            let standing = waiters.wait(&waiter, lack(false, 10, bytes), now, &mut Vec::new());
            assert!(standing.is_some() && !waiter.is_woken());
        }
        assert_eq!(woken(&mut waiters, now), [0_usize; 0]);
        assert_eq!(woken(&mut waiters, view(1_100, 11, 11)), [0, 2]);
        assert_eq!(woken(&mut waiters, view(1_100, 11, 11)), [0_usize; 0]);
        assert_eq!(woken(&mut waiters, view(1_499, 12, 12)), [3]);
        assert_eq!(woken(&mut waiters, view(1_500, 13, 13)), [1]);
        assert!(waiters.is_empty());
    }

    #[test]
    fn readers_of_committed_records_wait_for_the_stable_offset() {
        let mut waiters = Waiters::default();
        let [early, late] = [0, 1].map(|number| Waiter::new(ticket(number)));
        waiters.wait(&early, lack(true, 10, 50), view(1_000, 10, 10), &mut Vec::new());
        // A transaction is open: much is visible, none of it is committed.
        assert_eq!(woken(&mut waiters, view(9_000, 20, 10)), [0_usize; 0]);
        waiters.wait(&late, lack(true, 10, 50), view(9_000, 20, 10), &mut Vec::new());
        assert_eq!(woken(&mut waiters, view(9_000, 20, 10)), [0_usize; 0]);
        // The second can't know what the end of the transaction brings.
        assert_eq!(woken(&mut waiters, view(9_070, 21, 21)), [1, 0]);
        waiters.wait(&Waiter::new(ticket(2)), lack(true, 21, 50), view(9_070, 21, 21), &mut Vec::new());
        assert_eq!(woken(&mut waiters, view(9_100, 22, 22)), [0_usize; 0]);
        assert_eq!(woken(&mut waiters, view(9_120, 23, 23)), [2]);
    }

    #[test]
    fn one_of_several_partitions_wakes_a_waiter() {
        let (mut one, mut other) = (Waiters::default(), Waiters::default());
        let waiter = Waiter::new(ticket(7));
        let now = view(0, 0, 0);
        let standing = one.wait(&waiter, lack(false, 0, 1), now, &mut Vec::new()).unwrap();
        other.wait(&waiter, lack(false, 0, 1), now, &mut Vec::new());
        assert_eq!(woken(&mut other, view(60, 1, 1)), [7]);
        assert!(waiter.is_woken());
        assert_eq!(woken(&mut one, view(60, 1, 1)), [0_usize; 0]);
        one.forget(&standing);
        assert!(one.is_empty() && other.is_empty());
    }

    #[test]
    fn what_came_between_reading_and_waiting_wakes_at_once() {
        let mut waiters = Waiters::default();
        for committed in [false, true] {
            let (waiter, mut wake) = (Waiter::new(ticket(3)), Vec::new());
            let standing = waiters.wait(&waiter, lack(committed, 9, 1_000), view(70, 10, 10), &mut wake);
            assert!(standing.is_none() && waiter.is_woken());
            assert_eq!(wake, [ticket(3)]);
        }
        assert!(waiters.is_empty());
    }

    #[test]
    fn a_newcomer_does_not_hide_a_move_from_those_before_it() {
        let mut waiters = Waiters::default();
        let (first, second) = (Waiter::new(ticket(1)), Waiter::new(ticket(2)));
        let mut wake = Vec::new();
        waiters.wait(&first, lack(true, 10, 1), view(100, 10, 10), &mut wake);
        // The log was flushed, and nobody has been woken for it yet.
        waiters.wait(&second, lack(true, 12, 1), view(200, 12, 12), &mut wake);
        assert_eq!(wake, [ticket(1)]);
        assert!(!second.is_woken());
        assert_eq!(woken(&mut waiters, view(200, 12, 12)), [0_usize; 0]);
    }
}
