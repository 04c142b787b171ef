//! The wire engine: sends what is due, reads what is acknowledged, in one thread.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hone_record::Workload;

use crate::LoadError;
use crate::admin::TopicLayout;
use crate::clock::Clock;
use crate::connection::Connection;
use crate::frames::{Pool, pools};
use crate::poll::{Poll, Ready};
use crate::recorder::Recorder;

/// A request that is due.
#[derive(Debug, Clone, Copy)]
struct Due {
    intended_ns: u64,
    /// No slot was free when it was due.
    waited: bool,
}

/// How a stretch ended.
#[derive(Debug)]
pub(crate) enum End {
    /// Everything due was sent and answered, or given up.
    Complete,
    /// The target broke off.
    Broken(String),
}

/// The longest wait without a look at time-outs, interrupts and the clock.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longer than this an answer does not lie unread: a broken connection, and the end of a stall, are noticed in time.
const READ_WITHIN_NS: u64 = 1_000_000;

/// Called every [`LOOK_EVERY`] or so; `false` breaks the stretch off.
pub(crate) type Look<'a> = &'a mut dyn FnMut(u64, &Recorder) -> bool;

/// Connections to every leader of a topic, and the requests to send.
#[derive(Debug)]
pub(crate) struct Engine {
    poll: Poll,
    connections: Vec<Connection>,
    pools: Vec<Pool>,
    /// Requests that are due and have no slot yet.
    queue: VecDeque<Due>,
    ready: Vec<Ready>,
    cursor: usize,
    in_flight: usize,
    acks: i16,
    timeout_ns: u64,
    records_per_batch: u32,
}

impl Engine {
    pub(crate) fn new(workload: &Workload, layout: &TopicLayout) -> Result<Self, LoadError> {
        let poll = Poll::new().map_err(|source| LoadError::System { what: "opening epoll", source })?;
        let mut engine = Self {
            poll,
            connections: Vec::new(),
            pools: pools(workload, layout)?,
            queue: VecDeque::new(),
            ready: Vec::new(),
            cursor: 0,
            in_flight: workload.in_flight as usize,
            acks: workload.acks,
            timeout_ns: (workload.timeout_s * 1e9) as u64,
            records_per_batch: workload.records_per_batch,
        };
        for index in 0..workload.connections.max(layout.leaders.len() as u32) as usize {
            let leader = index % layout.leaders.len();
            // Connections begin their turns at different places, so that they do not write the same bytes in step.
            let first_frame =
                index * engine.pools[leader].frames.len() / workload.connections.max(1) as usize;
            let connection = Connection::open(&layout.leaders[leader].0, leader, first_frame)?;
            engine.watch(&connection, index)?;
            engine.connections.push(connection);
        }
        Ok(engine)
    }

    fn watch(&self, connection: &Connection, token: usize) -> Result<(), LoadError> {
        self.poll
            .add(connection.socket(), token)
            .map_err(|source| LoadError::System { what: "watching a socket", source })
    }

    /// Most requests that can be unanswered at once.
    pub(crate) fn in_flight_limit(&self) -> u64 {
        (self.in_flight * self.connections.len()) as u64
    }

    /// Records in every batch.
    pub(crate) fn records_per_batch(&self) -> u32 {
        self.records_per_batch
    }

    /// Sends a request at each of `arrivals` (ns since `start`, in order) and waits for the answers. With `give_up`, what
    /// is not answered a time-out after the last arrival is given up, and the engine is of no further use: answers may
    /// still be on their way.
    pub(crate) fn run(
        &mut self,
        start: Instant,
        arrivals: impl Iterator<Item = u64>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        let mut arrivals = arrivals.peekable();
        let clock = &mut Clock::new(start);
        let mut next_look_ns = 0;
        let mut last_due_ns = 0;
        loop {
            let now_ns = clock.now_ns();
            while let Some(intended_ns) = arrivals.next_if(|due| *due <= now_ns) {
                self.queue.push_back(Due { intended_ns, waited: false });
                recorder.due += 1;
                last_due_ns = intended_ns;
            }
            if let Err(reason) = self.dispatch(clock, recorder) {
                return Ok(self.broken(reason, clock.now_ns(), recorder));
            }
            recorder.tick(now_ns);
            if now_ns >= next_look_ns {
                next_look_ns = now_ns + LOOK_EVERY.as_nanos() as u64;
                clock.adjust();
                if !look(now_ns, recorder) {
                    return Err(LoadError::Interrupted);
                }
                if let Err(reason) = self.give_up_old(now_ns, recorder)? {
                    return Ok(self.broken(reason, now_ns, recorder));
                }
            }
            let next_due_ns = arrivals.peek().copied();
            if next_due_ns.is_none() {
                if self.is_idle() {
                    return Ok(End::Complete);
                }
                if give_up && now_ns > last_due_ns + self.timeout_ns {
                    self.give_up_all(now_ns, recorder, "timeout");
                    return Ok(End::Complete);
                }
            }
            let wake_ns = next_due_ns.unwrap_or(u64::MAX).min(next_look_ns);
            let received = match next_due_ns {
                // Nothing to do before the next request is due: the answers can wait, their times are kept for them.
                Some(due_ns) if self.queue.is_empty() && due_ns <= now_ns + READ_WITHIN_NS => {
                    clock.sleep_until(wake_ns);
                    Ok(())
                }
                // A slot must be had, or the end is near: the next answer counts.
                _ => self.wait(wake_ns, clock, recorder)?,
            };
            if let Err(reason) = received.and_then(|()| self.receive_all(clock, recorder)) {
                return Ok(self.broken(reason, clock.now_ns(), recorder));
            }
        }
    }

    fn is_idle(&self) -> bool {
        self.queue.is_empty()
            && self
                .connections
                .iter()
                .all(|connection| connection.unanswered() == 0 && !connection.is_blocked())
    }

    /// Gives queued requests to connections with a free slot, then writes each connection once.
    fn dispatch(&mut self, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let sent_ns = clock.now_ns();
        while let Some(due) = self.queue.front().copied() {
            let Some(index) = self.free_connection() else { break };
            self.queue.pop_front();
            let connection = &mut self.connections[index];
            let frames = &mut self.pools[connection.leader].frames;
            let request = connection.enqueue(frames, due.intended_ns, sent_ns);
            recorder.sent(request, due.waited);
            if self.acks == 0 {
                recorder.acked(crate::connection::Ack { request, error_code: 0 }, sent_ns);
            } else {
                connection.expect_ack(request);
            }
        }
        // The queue is in order of arrival: everything behind the first that already waited has been marked before.
        for due in self.queue.iter_mut().rev() {
            if due.waited {
                break;
            }
            due.waited = true;
        }
        for index in 0..self.connections.len() {
            self.flush(index)?;
        }
        Ok(())
    }

    /// The next connection, in turn, that has a free slot and takes bytes.
    fn free_connection(&mut self) -> Option<usize> {
        let count = self.connections.len();
        let free = (0..count).map(|step| (self.cursor + step) % count).find(|&index| {
            let connection = &self.connections[index];
            connection.has_room(self.in_flight)
        })?;
        self.cursor = (free + 1) % count;
        Some(free)
    }

    fn flush(&mut self, index: usize) -> Result<(), String> {
        let connection = &mut self.connections[index];
        if let Some(writable) = connection.flush()? {
            self.poll
                .modify(connection.socket(), index, writable)
                .map_err(|error| format!("watching a socket failed: {error}"))?;
        }
        Ok(())
    }

    /// Waits for something to read or to write; the inner `Err` is the target breaking off.
    fn wait(
        &mut self,
        until_ns: u64,
        clock: &Clock,
        recorder: &mut Recorder,
    ) -> Result<Result<(), String>, LoadError> {
        let mut ready = std::mem::take(&mut self.ready);
        let limit = Duration::from_nanos(until_ns.saturating_sub(clock.now_ns()));
        self.poll
            .wait(limit, &mut ready)
            .map_err(|source| LoadError::System { what: "waiting for sockets", source })?;
        let handled = ready.iter().try_for_each(|event| {
            if event.writable {
                self.flush(event.token)?;
            }
            if event.readable {
                self.receive(event.token, clock, recorder)?;
            }
            Ok(())
        });
        self.ready = ready;
        Ok(handled)
    }

    /// Reads from every connection on which an answer is due.
    fn receive_all(&mut self, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        (0..self.connections.len()).try_for_each(|index| {
            if self.connections[index].is_blocked() {
                self.flush(index)?;
            }
            if self.connections[index].unanswered() == 0 {
                return Ok(());
            }
            self.receive(index, clock, recorder)
        })
    }

    fn receive(&mut self, index: usize, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        self.connections[index].receive(clock, |ack, answer, received_ns| {
            recorder.placed_batches(ack.request, answer);
            // Never before it was sent: two clocks agree to a fraction of a microsecond only.
            recorder.acked(ack, received_ns.max(ack.request.sent_ns));
        })
    }

    /// Gives up connections whose oldest request timed out, and opens them again: answers come in order, so the
    /// ones behind a lost one can't be trusted to come at all.
    fn give_up_old(&mut self, now_ns: u64, recorder: &mut Recorder) -> Result<Result<(), String>, LoadError> {
        for index in 0..self.connections.len() {
            let old = |request: crate::connection::InFlight| now_ns > request.sent_ns + self.timeout_ns;
            if !self.connections[index].oldest().is_some_and(old) {
                continue;
            }
            for request in self.connections[index].abandon() {
                recorder.gave_up(request, now_ns, "timeout");
            }
            match self.connections[index].reopen() {
                Ok(fresh) => {
                    self.watch(&fresh, index)?;
                    self.connections[index] = fresh;
                }
                Err(error) => return Ok(Err(format!("after a request timed out: {error}"))),
            }
        }
        Ok(Ok(()))
    }

    fn give_up_all(&mut self, now_ns: u64, recorder: &mut Recorder, error: &str) {
        for connection in &mut self.connections {
            for request in connection.abandon() {
                recorder.gave_up(request, now_ns, error);
            }
        }
        for due in self.queue.drain(..) {
            recorder.never_sent(due.intended_ns, now_ns, error);
        }
    }

    fn broken(&mut self, reason: String, now_ns: u64, recorder: &mut Recorder) -> End {
        self.give_up_all(now_ns, recorder, "connection lost");
        End::Broken(reason)
    }
}
