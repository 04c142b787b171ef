//! librdkafka on the schedule: a record is passed to the client when it is due. Its delivery report gives the time and place of storage.
//!
//! The sending thread passes records. A thread of each producer takes the reports and notes their times at once, so that the schedule does
//! not affect them. A full queue loses nothing: the record waits in the generator, and its latency counts on.

mod settings;
mod statistics;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hone_record::{ClientFacts, Event, EventKind, SocketBytes, Workload};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, DeliveryResult, ProducerContext, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, util::get_rdkafka_version};

use self::settings::STATISTICS_EVERY_MS;
use self::statistics::Interval;
use super::{Material, Pulse, material, turns, usual_backlog};
use crate::admin::TopicLayout;
use crate::clock::{Clock, exact_timers};
use crate::connection::{Ack, Cargo, InFlight};
use crate::cpu::{CpuTime, threads_named};
use crate::engine::turn::Turn;
use crate::engine::{End, Look, MOST_QUEUED, too_many_wait};
use crate::error::LoadError;
use crate::join::Placed;
use crate::recorder::Recorder;
use crate::security::round_trip_us;
use crate::sender::{Account, Due, Helpers, Sender};
use crate::settings::Settings;
use crate::topic_set::TopicSet;

/// Longest wait without a check of interrupts and the clock.
const LOOK_EVERY_NS: u64 = 20_000_000;
/// The same while records wait for room in the client's queue, or for their reports at the end.
const RETRY_EVERY_NS: u64 = 500_000;
/// librdkafka looks for expired records once a second, so their reports arrive up to this much later.
const REPORT_GRACE: Duration = Duration::from_secs(5);
/// Thread names of librdkafka and its binding.
const THREADS: [&str; 2] = ["rdk:", "producer poll"];
/// Largest number of events, since more add nothing.
const EVENTS_LIMIT: usize = 100;
/// Number of fresh connections to each leader whose round trip is measured.
const ROUND_TRIPS: usize = 5;

/// The engine.
pub(crate) struct Librdkafka {
    topics: TopicSet,
    /// The topics of the records in turn.
    turn: Turn,
    producers: Vec<ThreadedProducer<Tap>>,
    shared: Arc<Shared>,
    material: Arc<[Material]>,
    /// The producer of each record, in turn.
    turns: Arc<[u32]>,
    /// Whether the records have an order, which every stretch begins again.
    is_recorded: bool,
    next_record: usize,
    /// Due records that found no room in the queue.
    queue: VecDeque<u64>,
    /// Records without a report, by their number.
    out: Vec<Option<InFlight>>,
    free: Vec<usize>,
    /// Kernel ids of other producers' threads, and of ours.
    foreign_threads: Vec<i32>,
    threads: Vec<i32>,
    timeout_ns: u64,
    usual_backlog: u64,
    facts: ClientFacts,
    /// Start and end of the last stretch.
    stretch: Option<(Instant, Instant)>,
    /// Counters before the window.
    before: Counters,
}

impl std::fmt::Debug for Librdkafka {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Librdkafka")
            .field("topics", &self.topics)
            .field("facts", &self.facts)
            .finish()
    }
}

/// librdkafka's counters since its start, over all producers.
#[derive(Debug, Clone, Copy, Default)]
struct Counters {
    produce_requests: u64,
    retries: u64,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Counters {
    fn since(self, before: Self) -> Self {
        Self {
            produce_requests: self.produce_requests.saturating_sub(before.produce_requests),
            retries: self.retries.saturating_sub(before.retries),
            sent_bytes: self.sent_bytes.saturating_sub(before.sent_bytes),
            received_bytes: self.received_bytes.saturating_sub(before.received_bytes),
        }
    }
}

/// Data of a producer's threads for the sending thread.
#[derive(Debug)]
struct Shared {
    reports: Mutex<Vec<Report>>,
    /// By producer.
    intervals: Mutex<Vec<Vec<(Instant, Interval)>>>,
    errors: Mutex<Vec<(Instant, String)>>,
    topics: TopicSet,
}

/// The end of a record.
#[derive(Debug)]
struct Report {
    number: usize,
    at: Instant,
    /// Number of the partition, and offset.
    stored: Result<(i32, i64), RDKafkaErrorCode>,
}

/// One producer's access to the shared data.
struct Tap {
    shared: Arc<Shared>,
    producer: usize,
}

/// The lock protects a list that is consistent after every push.
fn locked<T>(lock: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientContext for Tap {
    // `error` also receives the errors; the rest is for debugging a client.
    fn log(&self, _: RDKafkaLogLevel, _: &str, _: &str) {}

    fn stats_raw(&self, json: &[u8]) {
        if let Some(interval) = statistics::interval(json) {
            locked(&self.shared.intervals)[self.producer].push((Instant::now(), interval));
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let mut errors = locked(&self.shared.errors);
        if errors.len() < EVENTS_LIMIT {
            errors.push((Instant::now(), format!("librdkafka: {error}: {reason}")));
        }
    }
}

impl ProducerContext for Tap {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let at = Instant::now();
        let stored = match result {
            Ok(message) => {
                let number = self.shared.topics.number(message.topic(), message.partition());
                Ok((number.unwrap_or(0), message.offset()))
            }
            Err((error, _)) => Err(error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown)),
        };
        locked(&self.shared.reports).push(Report { number, at, stored });
    }
}

/// Checks the settings without a broker.
pub(crate) fn check(workload: &Workload, given: &BTreeMap<String, String>) -> Result<(), LoadError> {
    settings::config("127.0.0.1:9092", workload, given).map(|_| ())
}

/// The engine, ready for its first stretch.
///
/// # Errors
/// Returns an error when librdkafka refuses a setting.
pub(crate) fn sender(
    to: &Settings,
    workload: &Workload,
    given: &BTreeMap<String, String>,
    topics: &TopicSet,
) -> Result<Box<dyn Sender>, LoadError> {
    Ok(Box::new(Librdkafka::new(to, workload, given, topics)?))
}

impl Librdkafka {
    pub(crate) fn new(
        to: &Settings,
        workload: &Workload,
        given: &BTreeMap<String, String>,
        topics: &TopicSet,
    ) -> Result<Self, LoadError> {
        let mut config = settings::config(&to.address, workload, given)?;
        settings::secure(&mut config, &to.security)?;
        let count = workload.connections as usize;
        let shared = Arc::new(Shared {
            reports: Mutex::default(),
            intervals: Mutex::new(vec![Vec::new(); count]),
            errors: Mutex::default(),
            topics: topics.clone(),
        });
        // In concurrent pairs, the other arm may already have its own thread.
        let foreign_threads = threads_named(&THREADS);
        let producers =
            (0..count).map(|producer| start(&config, producer, &shared)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            turn: Turn::new(workload.topics.weights()),
            topics: topics.clone(),
            producers,
            shared,
            material: material(workload)?,
            turns: turns(workload)?,
            is_recorded: workload.recording.is_some(),
            next_record: 0,
            queue: VecDeque::new(),
            out: Vec::new(),
            free: Vec::new(),
            foreign_threads,
            threads: Vec::new(),
            timeout_ns: (workload.timeout_s * 1e9) as u64,
            usual_backlog: usual_backlog(workload),
            facts: ClientFacts {
                software: format!("librdkafka {}", get_rdkafka_version().1),
                settings: settings::in_force(&config, given),
            },
            stretch: None,
            before: Counters::default(),
        })
    }

    /// Passes on due records, as far as there is room.
    fn hand_over(&mut self, clock: &Clock, recorder: &mut Recorder) -> Result<(), String> {
        while let Some(intended_ns) = self.queue.front().copied() {
            let number = self.free.pop().unwrap_or_else(|| {
                self.out.push(None);
                self.out.len() - 1
            });
            let record = &self.material[self.next_record % self.material.len()];
            let request = InFlight {
                intended_ns,
                sent_ns: clock.now_ns(),
                cargo: Cargo { records: 1, bytes: record.bytes() },
            };
            let topic = self.turn.next().and_then(|index| self.topics.names().get(index));
            let topic = topic.map_or("", String::as_str);
            let mut message = BaseRecord::<[u8], [u8], usize>::with_opaque_to(topic, number);
            message.key = record.key.as_deref();
            message.payload = Some(&record.value);
            // This happens before the report can arrive.
            self.out[number] = Some(request);
            let producer = &self.producers[self.turns[self.next_record % self.turns.len()] as usize];
            if let Err((error, _)) = producer.send(message) {
                self.out[number] = None;
                self.free.push(number);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
                    break;
                }
                return Err(format!("librdkafka takes no records: {error}"));
            }
            self.queue.pop_front();
            self.next_record = self.next_record.wrapping_add(1);
            recorder.sent(request);
        }
        Ok(())
    }

    fn take_reports(&mut self, start: Instant, recorder: &mut Recorder, pulse: &mut Pulse) {
        let reports = std::mem::take(&mut *locked(&self.shared.reports));
        for report in reports {
            let Some(request) = self.out.get_mut(report.number).and_then(Option::take) else { continue };
            self.free.push(report.number);
            let at_ns = report.at.saturating_duration_since(start).as_nanos() as u64;
            match report.stored {
                Ok((partition, first)) => {
                    pulse.acked(at_ns);
                    recorder.acked(Ack { request, error_code: 0 }, at_ns);
                    if first >= 0 {
                        let intended_ns = request.intended_ns;
                        recorder.placed(Placed { partition, first, records: 1, intended_ns }, at_ns);
                    }
                }
                Err(code) => {
                    let name = error_name(code);
                    pulse.failed(&name);
                    recorder.gave_up(request, at_ns, &name);
                }
            }
        }
    }

    fn unreported(&self) -> usize {
        self.out.len() - self.free.len()
    }

    fn give_up_all(&mut self, now_ns: u64, recorder: &mut Recorder, error: &str) {
        for request in self.out.drain(..).flatten() {
            recorder.gave_up(request, now_ns, error);
        }
        self.free.clear();
        for intended_ns in self.queue.drain(..) {
            recorder.never_sent(intended_ns, now_ns, error);
        }
    }

    /// Waits until every producer has reported statistics that are later than `since`.
    fn await_statistics(&self, since: Instant) {
        let limit = Instant::now() + Duration::from_millis(3 * STATISTICS_EVERY_MS);
        let told = || {
            let intervals = locked(&self.shared.intervals);
            intervals.iter().all(|told| told.last().is_some_and(|(at, _)| *at > since))
        };
        while !told() && Instant::now() < limit {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The latest statistics of all producers.
    fn counters(&self) -> Counters {
        let intervals = locked(&self.shared.intervals);
        let last = intervals.iter().filter_map(|told| told.last());
        last.fold(Counters::default(), |sum, (_, last)| Counters {
            produce_requests: sum.produce_requests + last.produce_requests,
            retries: sum.retries + last.retries,
            sent_bytes: sum.sent_bytes + last.socket.sent,
            received_bytes: sum.received_bytes + last.socket.received,
        })
    }
}

fn start(
    config: &ClientConfig,
    producer: usize,
    shared: &Arc<Shared>,
) -> Result<ThreadedProducer<Tap>, LoadError> {
    let tap = Tap { shared: Arc::clone(shared), producer };
    config
        .create_with_context(tap)
        .map_err(|error| LoadError::Setting { name: "client settings", problem: error.to_string() })
}

/// The name that the wire engine uses, if the broker sent the error.
fn error_name(code: RDKafkaErrorCode) -> String {
    match (code, i16::try_from(code as i32)) {
        (RDKafkaErrorCode::MessageTimedOut, _) => "timeout".to_owned(),
        (_, Ok(known)) if known > 0 => hone_kafka::error_name(known).to_owned(),
        _ => format!("librdkafka: {code:?}"),
    }
}

impl Sender for Librdkafka {
    fn run(
        &mut self,
        start: Instant,
        arrivals: Due<'_>,
        give_up: bool,
        recorder: &mut Recorder,
        look: Look<'_>,
    ) -> Result<End, LoadError> {
        exact_timers();
        if self.is_recorded {
            self.next_record = 0;
        }
        let mut arrivals = recorder.dues(arrivals);
        let clock = Clock::new(start);
        let (mut next_look_ns, mut last_due_ns) = (0, 0);
        let mut pulse = Pulse::default();
        loop {
            let now_ns = clock.now_ns();
            while let Some(intended_ns) = arrivals.next_if(|due| *due <= now_ns) {
                self.queue.push_back(intended_ns);
                recorder.came_due(intended_ns, now_ns);
                last_due_ns = intended_ns;
            }
            if let Err(reason) = self.hand_over(&clock, recorder) {
                let now_ns = clock.now_ns();
                self.give_up_all(now_ns, recorder, "client failed");
                recorder.cut(now_ns);
                return Ok(End::Broken(reason));
            }
            self.take_reports(start, recorder, &mut pulse);
            recorder.tick(now_ns);
            if give_up && self.queue.len() >= MOST_QUEUED {
                let reason = too_many_wait(self.queue.len(), now_ns);
                self.give_up_all(now_ns, recorder, "broken off");
                recorder.cut(now_ns);
                return Ok(End::Broken(reason));
            }
            if now_ns >= next_look_ns {
                next_look_ns = now_ns + LOOK_EVERY_NS;
                if !look(now_ns, recorder) {
                    return Err(LoadError::Interrupted);
                }
            }
            let next_due_ns = arrivals.peek().copied();
            if next_due_ns.is_none() {
                if self.queue.is_empty() && self.unreported() == 0 {
                    break;
                }
                let patience_ns = self.timeout_ns + REPORT_GRACE.as_nanos() as u64;
                if give_up && now_ns > last_due_ns + patience_ns {
                    // librdkafka may report timeouts late, since it sleeps while it waits to reconnect.
                    (0..self.unreported() + self.queue.len()).for_each(|_| pulse.failed("timeout"));
                    self.give_up_all(now_ns, recorder, "timeout");
                    break;
                }
            }
            let retry_ns = now_ns + RETRY_EVERY_NS;
            let waits = next_due_ns.is_none() || !self.queue.is_empty();
            let wake_ns = next_due_ns.unwrap_or(u64::MAX).min(next_look_ns);
            clock.sleep_until(if waits { wake_ns.min(retry_ns) } else { wake_ns });
        }
        let end = Instant::now();
        self.stretch = Some((start, end));
        if !give_up {
            self.threads = threads_named(&THREADS);
            self.threads.retain(|thread| !self.foreign_threads.contains(thread));
            self.await_statistics(end);
            self.before = self.counters();
        }
        Ok(pulse.end(last_due_ns))
    }

    fn in_flight_limit(&self) -> u64 {
        self.usual_backlog
    }

    fn cpu(&self) -> CpuTime {
        let threads = self.threads.iter().filter_map(|thread| CpuTime::of_thread(*thread));
        threads.fold(CpuTime::of_this_thread(), CpuTime::and)
    }

    fn helpers(&self) -> Helpers {
        Helpers { threads: self.threads.clone(), processes: Vec::new() }
    }

    fn knows_batches(&self) -> bool {
        false
    }

    fn account(&mut self, _: &Recorder, layout: &TopicLayout) -> Account {
        let Some((start, end)) = self.stretch else { return Account::default() };
        self.await_statistics(end);
        let counted = self.counters().since(self.before);
        let intervals = locked(&self.shared.intervals);
        // The first interval of each producer began before the window.
        let inside = intervals
            .iter()
            .flat_map(|told| told.iter().filter(|(at, _)| *at > start).skip(1).map(|(_, interval)| interval));
        let errors = std::mem::take(&mut *locked(&self.shared.errors));
        let event = |(at, what): (Instant, String)| {
            let at_s = at.checked_duration_since(start)?.as_secs_f64();
            Some(Event { at_s, kind: EventKind::ConnectionLost, what })
        };
        Account {
            split: statistics::split(inside, network_us(layout), "librdkafka"),
            produce_requests: Some(counted.produce_requests),
            socket_bytes: Some(SocketBytes { sent: counted.sent_bytes, received: counted.received_bytes }),
            retries: (counted.retries > 0)
                .then(|| ("sent again by librdkafka".to_owned(), counted.retries))
                .into_iter()
                .collect(),
            events: errors.into_iter().filter_map(event).collect(),
            client: Some(self.facts.clone()),
            ..Account::default()
        }
    }
}

/// The median of the kernel's round trips to the leaders.
fn network_us(layout: &TopicLayout) -> Option<f64> {
    let fresh = layout.leaders.iter().flat_map(|(address, _)| std::iter::repeat_n(address, ROUND_TRIPS));
    let mut found: Vec<f64> = fresh.filter_map(|address| round_trip_us(address)).collect();
    found.sort_unstable_by(f64::total_cmp);
    found.get(found.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_takes_no_records_ends_the_window_there() {
        let mut load = crate::schedule::tests::workload(hone_record::Schedule::Uniform, 100.0, 1);
        load.record_bytes = 2_000;
        // No broker is needed: the client itself refuses a record that is too large.
        let to = Settings {
            address: "127.0.0.1:1".to_owned(),
            variant: String::new(),
            storage: String::new(),
            topic: crate::settings::Topic::Fresh,
            lateness_limit_us: 1.0,
            shard: None,
            security: crate::security::Security::default(),
        };
        let given = BTreeMap::from([("message.max.bytes".to_owned(), "1000".to_owned())]);
        let mut engine = Librdkafka::new(&to, &load, &given, &"t".into()).unwrap();
        let mut recorder = Recorder::new(60_000_000_000);
        let mut arrivals = (0..6_000_u64).map(|number| number * 10_000_000);
        let mut look = |_: u64, _: &Recorder| true;
        let end = engine.run(Instant::now(), &mut arrivals, true, &mut recorder, &mut look).unwrap();
        let End::Broken(reason) = end else { panic!("{end:?}") };
        assert!(reason.contains("takes no records"), "{reason}");
        assert!(recorder.due > 0 && recorder.ended == recorder.due, "{} of {}", recorder.ended, recorder.due);
        assert!(recorder.duration_ns() < 30_000_000_000, "not cut: {} ns", recorder.duration_ns());
    }
}
