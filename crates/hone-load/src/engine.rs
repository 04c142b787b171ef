//! The wire engine: one thread that sends requests when they are due, reads acknowledgements and follows the cluster.
//!
//! The thread never waits for a connection: the [`reconnector`](crate::reconnect) opens them. Requests that a lost connection leaves
//! unanswered, or that a broker refuses for the moment, are queued again and sent with their scheduled time kept.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use hone_kafka::error_name;
use hone_record::{AnswerTimes, Event, EventKind, Workload};

use crate::admin::TopicLayout;
use crate::clock::Clock;
use crate::connection::{Ack, Answer, Lost, Sent};
use crate::error::LoadError;
use crate::poll::{Poll, Ready};
use crate::reconnect::{ReconnectThread, Reconnector};
use crate::recorder::Recorder;
use crate::security::Access;
use events::Events;
use lane::Lane;
use put_back::PutBack;
use turn::Turn;
use verdict::{Verdict, verdict};

mod doubt;
mod events;
mod follow;
mod lane;
mod put_back;
pub(crate) mod turn;
mod verdict;

/// The end of a stretch.
#[derive(Debug)]
pub(crate) enum End {
    /// Every due request was sent, and answered or given up.
    Complete,
    /// The target failed.
    Broken(String),
    /// The user ended it early; the measurements are complete up to then.
    Interrupted,
}

/// Longest wait without a check of timeouts, interrupts and the clock.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The same while a request waits for its repetition, or the reconnector works.
const LOOK_IN_TROUBLE_NS: u64 = 2_000_000;

/// Longest time that an answer stays unread, so that a broken connection and the end of a stall are noticed in time.
const READ_WITHIN_NS: u64 = 1_000_000;

/// Largest number of due requests that can't be sent; a quarter of a gigabyte of scheduled times. After such a standstill the window shows
/// nothing more, and the generator uses the machine's memory.
pub(crate) const MOST_QUEUED: usize = 1 << 25;

/// Time for the answers to the last requests after the user ended the window.
const LAST_ANSWERS_NS: u64 = 1_000_000_000;

/// A callback about every [`LOOK_EVERY`]; `false` ends the stretch.
pub(crate) type Look<'a> = &'a mut dyn FnMut(u64, &Recorder) -> bool;

/// Connections to every leader of a topic, and the requests to send.
#[derive(Debug)]
pub(crate) struct Engine {
    poll: Poll,
    lanes: Vec<Lane>,
    /// The order of the lanes. Each request belongs to one lane from the moment it is due.
    turn: Turn,
    /// Scheduled times of due requests while no lane has anything to send.
    homeless: VecDeque<u64>,
    /// Due requests that are still unwritten, over all lanes and without a lane.
    queued: usize,
    /// The window ends at this number.
    most_queued: usize,
    put_back: PutBack,
    /// The next sequence of each partition; `None` without idempotence.
    sequences: Option<BTreeMap<i32, i32>>,
    /// Kept for reuse.
    ready: Vec<Ready>,
    answers: Vec<Answer>,
    follow: follow::Follow,
    in_flight: usize,
    records_per_batch: i32,
    acks: i16,
    timeout_ns: u64,
    /// Produce requests written in this stretch.
    pub written: u64,
    /// Source of the answers' times in this stretch.
    pub answer_times: AnswerTimes,
    /// Errors after which a request was queued again, by name.
    pub retries: BTreeMap<String, u64>,
    events: Events,
}

impl Engine {
    /// Connects; `address` is any broker of the cluster.
    pub(crate) fn new(
        workload: &Workload,
        layout: &TopicLayout,
        address: &str,
        access: &Access,
    ) -> Result<Self, LoadError> {
        let poll = Poll::new().map_err(|source| LoadError::System { what: "opening epoll", source })?;
        let mut reconnector = Reconnector::new(workload, address, &layout.topics, access.clone());
        let outfits = reconnector.first(layout)?;
        let count = outfits.len();
        let mut engine = Self {
            poll,
            lanes: Vec::with_capacity(count),
            turn: Turn::default(),
            homeless: VecDeque::new(),
            queued: 0,
            most_queued: MOST_QUEUED,
            put_back: PutBack::default(),
            sequences: workload.idempotent.then(BTreeMap::new),
            ready: Vec::new(),
            answers: Vec::new(),
            follow: follow::Follow::new(ReconnectThread::new(reconnector), layout.clone()),
            in_flight: workload.in_flight as usize,
            records_per_batch: workload.records_per_batch as i32,
            acks: workload.acks,
            timeout_ns: (workload.timeout_s * 1e9) as u64,
            written: 0,
            answer_times: AnswerTimes::default(),
            retries: BTreeMap::new(),
            events: Events::default(),
        };
        for (index, outfit) in outfits.into_iter().enumerate() {
            let mut lane = Lane::new(outfit);
            // Connections start at different requests of their pool, so that they do not write the same bytes in step.
            lane.next = index * lane.pool.requests.len() / count.max(1);
            engine.lanes.push(lane);
            engine.watch(index)?;
        }
        engine.take_turns();
        Ok(engine)
    }

    fn watch(&self, index: usize) -> Result<(), LoadError> {
        let Some(connection) = &self.lanes[index].connection else { return Ok(()) };
        self.poll
            .add(connection.socket(), index)
            .map_err(|source| LoadError::System { what: "watching a socket", source })
    }

    /// Largest number of unanswered requests.
    pub(crate) fn in_flight_limit(&self) -> u64 {
        (self.in_flight * self.lanes.len()) as u64
    }

    /// Records in every batch.
    pub(crate) fn records_per_batch(&self) -> u32 {
        self.records_per_batch as u32
    }

    /// Incidents of the stretch.
    pub(crate) fn take_events(&mut self) -> Vec<Event> {
        self.events.take()
    }

    /// Sends a request at each of `arrivals` (ns since `start`, in order) and waits for the answers. With `give_up`, the engine follows the
    /// cluster through failures. It gives up requests that are unanswered one timeout after the last arrival. It can't be used afterwards,
    /// since answers may still be on their way.
    pub(crate) fn run(
        &mut self,
        start: Instant,
        arrivals: impl Iterator<Item = u64>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        let mut arrivals = recorder.dues(arrivals);
        let clock = &mut Clock::new(start);
        let mut next_look_ns = 0;
        let mut last_due_ns = 0;
        let mut interrupted_ns = None;
        self.follow.patient = give_up;
        (self.written, self.retries, self.answer_times) = (0, BTreeMap::new(), AnswerTimes::default());
        loop {
            let now_ns = clock.now_ns();
            while interrupted_ns.is_none()
                && self.queued < self.most_queued
                && let Some(intended_ns) = arrivals.next_if(|due| *due <= now_ns)
            {
                self.assign(intended_ns);
                self.queued += 1;
                recorder.came_due(intended_ns, now_ns);
                last_due_ns = intended_ns;
            }
            if let Err(reason) = self.dispatch(clock, recorder) {
                return Ok(self.broken(reason, clock.now_ns(), recorder));
            }
            recorder.tick(now_ns);
            if give_up && self.queued >= self.most_queued {
                let reason = too_many_wait(self.queued, now_ns);
                return Ok(self.end_early(reason, now_ns, recorder, "broken off"));
            }
            if now_ns >= next_look_ns {
                next_look_ns = now_ns + LOOK_EVERY.as_nanos() as u64;
                clock.adjust();
                if interrupted_ns.is_none() && !look(now_ns, recorder) {
                    if !give_up {
                        return Err(LoadError::Interrupted);
                    }
                    interrupted_ns = Some(now_ns);
                    self.stop_sending(now_ns, recorder);
                }
                if let Err(reason) = self.give_up_old(now_ns, recorder) {
                    return Ok(self.broken(reason, now_ns, recorder));
                }
            }
            if self.follow.in_trouble()
                && let Err(reason) = self.attend(now_ns)?
            {
                return Ok(self.broken(reason, now_ns, recorder));
            }
            let next_due_ns = arrivals.peek().copied().filter(|_| interrupted_ns.is_none());
            if next_due_ns.is_none() {
                let end = || if interrupted_ns.is_some() { End::Interrupted } else { End::Complete };
                if self.is_idle() {
                    return Ok(end());
                }
                let patience_ns = match interrupted_ns {
                    Some(at_ns) => at_ns + self.timeout_ns.min(LAST_ANSWERS_NS),
                    None => last_due_ns + self.timeout_ns,
                };
                if give_up && now_ns > patience_ns {
                    let why = if interrupted_ns.is_some() { "interrupted" } else { "timeout" };
                    self.give_up_all(now_ns, recorder, why);
                    return Ok(end());
                }
            }
            let mut wake_ns = next_due_ns.unwrap_or(u64::MAX).min(next_look_ns);
            if self.follow.in_trouble() || !self.put_back.is_empty() {
                wake_ns = wake_ns.min(now_ns + LOOK_IN_TROUBLE_NS);
            }
            let received = match next_due_ns {
                // Nothing is to be done before the next request is due. The answers can wait, since their times are kept.
                Some(due_ns) if self.queued == 0 && due_ns <= now_ns + READ_WITHIN_NS => {
                    clock.sleep_until(wake_ns);
                    Ok(())
                }
                // A slot is needed, or the end is near: the next answer counts.
                _ => self.wait(wake_ns, clock, recorder)?,
            };
            if let Err(reason) = received.and_then(|()| self.receive_all(clock, recorder)) {
                return Ok(self.broken(reason, clock.now_ns(), recorder));
            }
        }
    }

    fn is_idle(&self) -> bool {
        let idle = |lane: &Lane| lane.connection.as_ref().is_none_or(crate::connection::Connection::is_idle);
        self.queued == 0 && self.put_back.is_empty() && self.lanes.iter().all(idle)
    }

    /// Gives requests to connections with a free slot, repeated requests first, then writes each connection once.
    fn dispatch(&mut self, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        if self.queued == 0 && self.put_back.is_empty() {
            return Ok(());
        }
        let now_ns = clock.now_ns();
        if !self.put_back.is_empty() {
            self.send_again(now_ns);
        }
        for index in 0..self.lanes.len() {
            while !self.lanes[index].queue.is_empty() && self.may_send(index) {
                let Some(intended_ns) = self.lanes[index].queue.pop_front() else { break };
                self.queued -= 1;
                self.send_new(index, intended_ns, now_ns, recorder);
            }
        }
        (0..self.lanes.len()).try_for_each(|index| self.flush(index, clock, recorder))
    }

    fn send_new(&mut self, index: usize, intended_ns: u64, now_ns: u64, recorder: &mut Recorder) {
        let lane = &mut self.lanes[index];
        let Some(connection) = &mut lane.connection else { return };
        let request = &lane.pool.requests[lane.next % lane.pool.requests.len()];
        lane.next = (lane.next + 1) % lane.pool.requests.len();
        let mut sent = request.sent(intended_ns, now_ns);
        sent.sequence = next_sequence(&mut self.sequences, sent.partition, self.records_per_batch);
        connection.enqueue(request, sent.sequence);
        self.written += 1;
        if self.acks == 0 {
            connection.expect_written(sent);
        } else {
            recorder.sent(sent.request);
            connection.expect_ack(sent);
        }
    }

    /// Writes queued repetitions to the current leader of their partition.
    fn send_again(&mut self, now_ns: u64) {
        if self.follow.holds_sends() {
            return;
        }
        for partition in self.put_back.partitions() {
            while let Some(mut sent) = self.put_back.front(partition, now_ns) {
                let in_flight = self.in_flight;
                let fits =
                    |lane: &Lane| lane.has_room(in_flight) && lane.pool.partitions.contains(&partition);
                let Some(lane) = self.lanes.iter_mut().find(|lane| fits(lane)) else { break };
                let (Some(connection), Some(request)) =
                    (&mut lane.connection, lane.pool.request_for(partition, lane.next))
                else {
                    break;
                };
                self.put_back.pop(partition);
                if sent.sequence < 0 {
                    sent.sequence = next_sequence(&mut self.sequences, partition, self.records_per_batch);
                }
                sent.written_ns = now_ns;
                connection.enqueue(request, sent.sequence);
                self.written += 1;
                connection.expect_ack(sent);
            }
        }
    }

    /// Whether a lane has a free slot and can take bytes.
    fn may_send(&self, index: usize) -> bool {
        let lane = &self.lanes[index];
        let in_order = self.sequences.is_some() && !self.put_back.is_empty();
        !self.follow.holds_sends()
            && lane.has_room(self.in_flight)
            && !(in_order && lane.pool.partitions.iter().any(|partition| self.put_back.holds(*partition)))
    }

    /// Gives a request that is now due to the next lane.
    fn assign(&mut self, intended_ns: u64) {
        match self.turn.next() {
            Some(index) => self.lanes[index].queue.push_back(intended_ns),
            None => self.homeless.push_back(intended_ns),
        }
    }

    /// Rebuilds the order of the lanes: every partition equally often, or as often as the keys require, for any number of connections to
    /// its leader. Requests of a lane without a connection move to the others.
    fn take_turns(&mut self) {
        let mut sharing: BTreeMap<&[i32], usize> = BTreeMap::new();
        for lane in &self.lanes {
            *sharing.entry(&lane.pool.partitions).or_default() += 1;
        }
        let weight = |lane: &Lane| lane.pool.weight / sharing[&lane.pool.partitions[..]] as f64;
        let weights: Vec<f64> = self.lanes.iter().map(weight).collect();
        self.turn = Turn::new(weights.iter().copied());
        let mut moving: Vec<u64> = self.homeless.drain(..).collect();
        for (lane, weight) in self.lanes.iter_mut().zip(weights) {
            if weight == 0.0 {
                moving.extend(lane.queue.drain(..));
            }
        }
        moving.sort_unstable();
        moving.into_iter().for_each(|intended_ns| self.assign(intended_ns));
        // A moved request may be older than the requests at its new place.
        for lane in &mut self.lanes {
            lane.queue.make_contiguous().sort_unstable();
        }
    }

    /// Takes all due and unwritten requests, without a copy of them.
    fn take_queued(&mut self) -> impl Iterator<Item = u64> {
        self.queued = 0;
        let lanes = self.lanes.iter_mut().flat_map(|lane| lane.queue.drain(..));
        self.homeless.drain(..).chain(lanes)
    }

    fn flush(&mut self, index: usize, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        let Some(connection) = &mut self.lanes[index].connection else { return Ok(()) };
        let flushed = connection.flush();
        if connection.unwritten() > 0 {
            let now_ns = clock.now_ns();
            while let Some(mut sent) = connection.take_written() {
                sent.request.sent_ns = now_ns;
                recorder.sent(sent.request);
                recorder.acked(Ack { request: sent.request, error_code: 0 }, now_ns);
                self.follow.heard();
            }
        }
        match flushed {
            Ok(None) => Ok(()),
            Ok(Some(writable)) => self
                .poll
                .modify(connection.socket(), index, writable)
                .map_err(|error| format!("watching a socket failed: {error}")),
            Err(lost) => self.lose(index, lost, "connection lost", clock.now_ns(), recorder),
        }
    }

    /// Waits until a socket can be read or written. The inner `Err` means that the target failed.
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
                self.flush(event.token, clock, recorder)?;
            }
            if event.readable {
                self.receive(event.token, clock, recorder)?;
            }
            Ok(())
        });
        self.ready = ready;
        Ok(handled)
    }

    /// Reads from every connection that expects an answer.
    fn receive_all(&mut self, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        (0..self.lanes.len()).try_for_each(|index| {
            let Some(connection) = &self.lanes[index].connection else { return Ok(()) };
            if connection.is_blocked() {
                self.flush(index, clock, recorder)?;
            }
            match &self.lanes[index].connection {
                Some(connection) if connection.unanswered() > 0 => self.receive(index, clock, recorder),
                _ => Ok(()),
            }
        })
    }

    fn receive(&mut self, index: usize, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        let Some(connection) = &mut self.lanes[index].connection else { return Ok(()) };
        let (mut answers, topics) = (std::mem::take(&mut self.answers), self.follow.topics());
        let received = connection.receive(clock, |answer, response| {
            // A request that is refused in part is sent again as a whole, so some of its batches are stored twice.
            if answer.error_code == 0 {
                recorder.placed_batches(answer.sent.request, response, topics, answer.received_ns);
            }
            answers.push(answer);
        });
        for answer in answers.drain(..) {
            self.answered(answer, recorder);
        }
        self.answers = answers;
        received.or_else(|lost| self.lose(index, lost, "connection lost", clock.now_ns(), recorder))
    }

    fn answered(&mut self, answer: Answer, recorder: &mut Recorder) {
        let Answer { sent, error_code, received_ns, stamped } = answer;
        self.answer_times = self.answer_times.and(AnswerTimes { answers: 1, stamped: u64::from(stamped) });
        let ended = |error_code| Ack { request: sent.request, error_code };
        if error_code == 0 {
            self.follow.heard();
            recorder.acked(ended(0), received_ns);
            return;
        }
        match verdict(error_code, self.sequences.is_some()) {
            // The first try stored it, but its answer was lost.
            Verdict::Stored => recorder.acked(ended(0), received_ns),
            Verdict::Again { ask } if self.may_go_again(sent, received_ns) => {
                self.follow.wants(ask);
                self.put_back(sent, error_name(error_code), received_ns, recorder);
            }
            Verdict::OutOfOrder if self.may_go_again(sent, received_ns) => {
                if !self.is_behind_another(sent) {
                    self.follow.wants_new_producer();
                }
                self.put_back(sent, error_name(error_code), received_ns, recorder);
            }
            Verdict::Again { .. } | Verdict::OutOfOrder | Verdict::Final => {
                recorder.acked(ended(error_code), received_ns);
                // Later requests of this partition would be out of order.
                if self.sequences.is_some() && self.follow.patient {
                    self.follow.wants_new_producer();
                }
            }
        }
    }

    fn may_go_again(&self, sent: Sent, now_ns: u64) -> bool {
        self.follow.patient && now_ns <= sent.request.sent_ns + self.timeout_ns
    }

    /// Whether an earlier batch of the same partition is not stored yet, so that only the order is wrong.
    fn is_behind_another(&self, sent: Sent) -> bool {
        let earlier =
            |other: &Sent| other.partition == sent.partition && is_before(other.sequence, sent.sequence);
        self.put_back.any(sent.partition, earlier)
            || self
                .lanes
                .iter()
                .flat_map(|lane| &lane.connection)
                .any(|connection| connection.in_flight().any(earlier))
    }

    fn put_back(&mut self, sent: Sent, why: &str, now_ns: u64, recorder: &mut Recorder) {
        recorder.retried += 1;
        match self.retries.get_mut(why) {
            Some(count) => *count += 1,
            None => {
                self.retries.insert(why.to_owned(), 1);
            }
        }
        self.put_back.add(sent, now_ns);
    }

    /// A connection is no longer usable: its unanswered requests are queued again.
    fn lose(
        &mut self,
        index: usize,
        lost: Lost,
        why: &str,
        now_ns: u64,
        recorder: &mut Recorder,
    ) -> Result<(), String> {
        let Some(connection) = self.lanes[index].connection.take() else { return Ok(()) };
        self.written -= connection.unwritten() as u64;
        let reason = match lost {
            Lost::Broken(reason) if self.follow.patient => reason,
            Lost::Broken(reason) | Lost::Garbage(reason) => {
                connection.in_flight().for_each(|sent| abandon(self.acks, sent, now_ns, why, recorder));
                return Err(reason);
            }
        };
        for sent in connection.in_flight().copied() {
            if self.acks == 0 {
                // Without this, a record could be stored twice unnoticed.
                abandon(self.acks, &sent, now_ns, why, recorder);
            } else if self.may_go_again(sent, now_ns) {
                self.put_back(sent, why, now_ns, recorder);
            } else {
                self.gave_up(sent, now_ns, recorder);
            }
        }
        self.lanes[index].was_lost = true;
        self.events.add(now_ns, EventKind::ConnectionLost, reason.clone());
        self.follow.lost(reason);
        if self.lanes.iter().all(|lane| lane.connection.is_none()) {
            self.follow.all_lost(now_ns);
        }
        Ok(())
    }

    fn gave_up(&mut self, sent: Sent, now_ns: u64, recorder: &mut Recorder) {
        recorder.gave_up(sent.request, now_ns, "timeout");
        // Whether the request was stored is unknown, so the next sequence is unknown, too.
        if self.sequences.is_some() && sent.sequence >= 0 {
            self.follow.wants_new_producer();
        }
    }

    /// Gives up connections whose oldest request timed out. Answers come in order, so later answers on such a connection may never come.
    /// Also gives up queued requests that waited too long.
    fn give_up_old(&mut self, now_ns: u64, recorder: &mut Recorder) -> Result<(), String> {
        for index in 0..self.lanes.len() {
            let Some(connection) = &self.lanes[index].connection else { continue };
            let oldest = connection.in_flight().next();
            if oldest.is_some_and(|sent| now_ns > sent.written_ns + self.timeout_ns) {
                let (what, count) = match connection.unwritten() {
                    0 => ("no answer", format!("{} requests unanswered", connection.unanswered())),
                    unwritten => ("the broker read no request", format!("{unwritten} requests unwritten")),
                };
                let (address, limit_s) = (&self.lanes[index].address, self.timeout_ns as f64 / 1e9);
                let reason = format!("{address}: {what} within {limit_s} s, {count}");
                self.lose(index, Lost::Broken(reason), "timeout", now_ns, recorder)?;
            }
        }
        let timeout_ns = self.timeout_ns;
        for sent in self.put_back.take_if(|sent| now_ns > sent.request.sent_ns + timeout_ns) {
            self.gave_up(sent, now_ns, recorder);
        }
        Ok(())
    }

    /// The user ended the run: unsent requests stay unsent.
    fn stop_sending(&mut self, now_ns: u64, recorder: &mut Recorder) {
        self.events.add(now_ns, EventKind::Interrupted, "the user ended the window".to_owned());
        recorder.cut(now_ns);
        for intended_ns in self.take_queued() {
            recorder.never_sent(intended_ns, now_ns, "interrupted");
        }
        for sent in self.put_back.take_if(|_| true) {
            recorder.gave_up(sent.request, now_ns, "interrupted");
        }
    }

    fn give_up_all(&mut self, now_ns: u64, recorder: &mut Recorder, error: &str) {
        let timeout_ns = self.timeout_ns;
        let error_of = |intended_ns: u64| if now_ns > intended_ns + timeout_ns { "timeout" } else { error };
        for connection in self.lanes.iter_mut().filter_map(|lane| lane.connection.take()) {
            for sent in connection.in_flight() {
                abandon(self.acks, sent, now_ns, error_of(sent.request.intended_ns), recorder);
            }
        }
        for sent in self.put_back.take_if(|_| true) {
            recorder.gave_up(sent.request, now_ns, error_of(sent.request.intended_ns));
        }
        for intended_ns in self.take_queued() {
            recorder.never_sent(intended_ns, now_ns, error_of(intended_ns));
        }
    }

    fn broken(&mut self, reason: String, now_ns: u64, recorder: &mut Recorder) -> End {
        let name = self.follow.name_of_the_end();
        self.end_early(reason, now_ns, recorder, name)
    }

    /// Unfinished requests count as `error`, and the window ends here.
    fn end_early(&mut self, reason: String, now_ns: u64, recorder: &mut Recorder, error: &str) -> End {
        self.give_up_all(now_ns, recorder, error);
        recorder.cut(now_ns);
        End::Broken(reason)
    }
}

/// Why a window ends early: waiting requests are kept in memory.
pub(crate) fn too_many_wait(queued: usize, now_ns: u64) -> String {
    format!(
        "{queued} due requests could not be sent {:.1} s into the window, which is the limit for memory. \
         The target stands still, or is far behind; use a lower rate",
        now_ns as f64 / 1e9
    )
}

/// A request fails. With acks=0, unfinished requests were not sent either.
fn abandon(acks: i16, sent: &Sent, now_ns: u64, why: &str, recorder: &mut Recorder) {
    if acks == 0 {
        recorder.never_sent(sent.request.intended_ns, now_ns, why);
    } else {
        recorder.gave_up(sent.request, now_ns, why);
    }
}

/// The sequence of the next batch of a partition, -1 without idempotence. Sequences wrap around.
fn next_sequence(sequences: &mut Option<BTreeMap<i32, i32>>, partition: i32, records: i32) -> i32 {
    let Some(sequences) = sequences else { return -1 };
    let next = sequences.entry(partition).or_insert(0);
    let sequence = *next;
    *next = sequence.wrapping_add(records) & i32::MAX;
    sequence
}

/// Sequences wrap around, so the shorter distance decides which comes first.
fn is_before(one: i32, other: i32) -> bool {
    one >= 0 && one != other && (other.wrapping_sub(one) & i32::MAX) < i32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn workload() -> Workload {
        Workload {
            name: "still".to_owned(),
            engine: hone_record::Engine::Wire,
            seed: 1,
            schedule: hone_record::Schedule::Uniform,
            requests_per_s: 1e6,
            records_per_batch: 1,
            record_bytes: 100,
            sizes: hone_record::Sizes::Fixed,
            payload: hone_record::Payload::Bytes { compressible_share: 0.0 },
            keys: hone_record::Keys::None,
            compression: "none".to_owned(),
            connections: 2,
            in_flight: 4,
            topics: hone_record::TopicShares::default(),
            partitions: 2,
            partitions_per_request: 1,
            acks: 1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: hone_record::GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processing: hone_record::Processing::default(),
            fetch: hone_record::FetchLimits::default(),
            read_from: hone_record::ReadFrom::End,
            backlog_bytes: 0,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 60.0,
            timeout_s: 60.0,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
        }
    }

    /// A broker that accepts connections and bytes, and never answers.
    #[test]
    fn what_a_target_that_stands_still_keeps_waiting_is_not_kept_without_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let layout = TopicLayout { topics: "topic".into(), leaders: vec![(address.clone(), vec![0, 1])] };
        let mut engine = Engine::new(&workload(), &layout, &address, &Access::plain()).unwrap();
        engine.most_queued = 50_000;
        let mut recorder = Recorder::new(60_000_000_000);
        let mut most = 0;
        let mut look = |_, recorder: &Recorder| {
            most = most.max(recorder.due - recorder.ended);
            true
        };
        let arrivals = (0..60_000_000).map(|number| number * 1_000);
        let end = engine.run(Instant::now(), arrivals, true, &mut recorder, &mut look).unwrap();
        let End::Broken(reason) = end else { panic!("{end:?}") };
        assert!(reason.starts_with("50000 due requests could not be sent 0."), "{reason}");
        assert!(!reason.contains("  "), "{reason}");
        // Both connections' slots, and the queue; all of them ended, and the window is as long as it was.
        assert_eq!((recorder.due, recorder.ended), (50_008, 50_008));
        assert_eq!(recorder.errors, BTreeMap::from([("broken off".to_owned(), 50_008)]));
        assert!(most <= 50_008, "{most} were kept");
        recorder.finish();
        assert!(recorder.series.len() < 50, "the window was not cut: {} seconds", recorder.series.len());
    }

    #[test]
    fn sequences_run_in_a_circle() {
        let mut sequences = Some(BTreeMap::from([(3, i32::MAX - 4)]));
        let taken: Vec<i32> = (0..3).map(|_| next_sequence(&mut sequences, 3, 10)).collect();
        assert_eq!(taken, [i32::MAX - 4, 5, 15]);
        assert!(
            is_before(taken[0], taken[1]) && is_before(taken[1], taken[2]) && !is_before(taken[2], taken[0])
        );
        assert_eq!(next_sequence(&mut sequences, 0, 10), 0);
        assert_eq!(next_sequence(&mut None, 0, 10), -1);
    }
}
