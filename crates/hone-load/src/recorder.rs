//! Records the events of each request of a window as they happen.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::iter::Peekable;
use std::rc::Rc;
use std::sync::mpsc;

use hone_kafka::{ProduceResponse, error_name};
use hone_record::{Hdr, Latencies, PackedHdr, SeriesPoint, Stalls};

use crate::connection::{Ack, Cargo, InFlight};
use crate::consumer::ConsumerCommand;
use crate::join::Placed;
use crate::outage::Acknowledged;
use crate::ramp_search::Stairs;
use crate::raw::Raw;
use crate::steadiness::Backlog;
use crate::topic_set::TopicSet;

const SECOND_NS: u64 = 1_000_000_000;
/// Largest number of error names, and length of a name. Kafka has some 130 codes, and clients have names of their own.
const MOST_ERRORS: usize = 256;
const MOST_ERROR_CHARACTERS: usize = 200;
/// Name for the remaining errors.
const OTHER_ERRORS: &str = "other";

/// Counts and histograms of one window.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// End of the window; it may move earlier while the window runs.
    end_ns: Rc<Cell<u64>>,
    /// The backlog at its end, once it is reached.
    left: Cell<Option<u64>>,
    /// End of the last finished request.
    ended_ns: u64,
    /// Requests due so far.
    pub due: u64,
    /// Requests that ended so far, acknowledged or failed.
    pub ended: u64,
    /// Requests acknowledged without an error.
    pub acked: u64,
    /// Number of repeated sends.
    pub retried: u64,
    /// Requests acknowledged without an error before the window closed. The others were acknowledged while it drained.
    pub acked_in_window: u64,
    /// Records and bytes that they carried.
    pub acked_cargo: Cargo,
    /// Errors by name.
    pub errors: BTreeMap<String, u64>,
    /// The three histograms.
    pub latencies: Latencies,
    /// Periods in which requests waited long.
    pub stalls: Stalls,
    /// Delay from due time until the generator handled it, for every request, with or without a free slot.
    pub own_lateness: Hdr,
    backlog: Backlog,
    /// Complete seconds.
    pub series: Vec<SeriesPoint>,
    /// Receiver of the positions of acknowledged records.
    pub placed: Option<mpsc::Sender<ConsumerCommand>>,
    /// Positions and times of acknowledgements, in a window with faults.
    pub acknowledged: Option<Acknowledged>,
    /// Receiver of every request's times.
    pub raw: Option<Raw>,
    /// The steps of a ramp search.
    pub stairs: Option<Stairs>,
    second: Hdr,
    second_lateness: Hdr,
    second_acked: u64,
    second_failed: u64,
}

impl Recorder {
    pub(crate) fn new(duration_ns: u64) -> Self {
        Self {
            end_ns: Rc::new(Cell::new(duration_ns)),
            left: Cell::new(None),
            ended_ns: 0,
            due: 0,
            ended: 0,
            acked: 0,
            retried: 0,
            acked_in_window: 0,
            acked_cargo: Cargo::default(),
            errors: BTreeMap::new(),
            latencies: Latencies::default(),
            stalls: Stalls::default(),
            own_lateness: Hdr::new(),
            backlog: Backlog::default(),
            series: Vec::new(),
            placed: None,
            acknowledged: None,
            raw: None,
            stairs: None,
            second: Hdr::new(),
            second_lateness: Hdr::new(),
            second_acked: 0,
            second_failed: 0,
        }
    }

    /// Adds the position of a range that was acknowledged at `at_ns`.
    pub(crate) fn placed(&mut self, placed: Placed, at_ns: u64) {
        if let Some(acknowledged) = &mut self.acknowledged {
            acknowledged.placed(placed, at_ns);
        }
        if let Some(orders) = &self.placed {
            // If the consumers end, their data so far is used.
            let _ = orders.send(ConsumerCommand::Placed(placed));
        }
    }

    /// Adds the batches of a request to these topics that was acknowledged at `at_ns`.
    pub(crate) fn placed_batches(
        &mut self,
        request: InFlight,
        answer: &ProduceResponse<'_>,
        topics: &TopicSet,
        at_ns: u64,
    ) {
        if self.placed.is_none() && self.acknowledged.is_none() {
            return;
        }
        let batches = answer.partitions().count().max(1) as u64;
        for ack in answer.partitions().filter(|ack| ack.error_code == 0 && ack.base_offset >= 0) {
            let records = u32::try_from(request.cargo.records / batches).unwrap_or(u32::MAX);
            let Some(partition) = topics.number(ack.topic, ack.partition) else { continue };
            let first = ack.base_offset;
            self.placed(Placed { partition, first, records, intended_ns: request.intended_ns }, at_ns);
        }
    }

    /// A due request was handled, at `now_ns` at the earliest. The delay since its due time is the generator's own, with or without a free
    /// slot. A stalled generator must not hide behind the queue that it caused.
    pub(crate) fn came_due(&mut self, intended_ns: u64, now_ns: u64) {
        self.due_at(intended_ns);
        self.own_late(intended_ns, now_ns.saturating_sub(intended_ns));
    }

    /// Adds a due request.
    pub(crate) fn due_at(&mut self, intended_ns: u64) {
        self.due += 1;
        if let Some(stairs) = &mut self.stairs {
            stairs.due(intended_ns);
        }
    }

    /// The generator's own delay of a request.
    pub(crate) fn own_late(&mut self, intended_ns: u64, lateness_ns: u64) {
        if let Some(stairs) = &mut self.stairs {
            stairs.late(intended_ns, lateness_ns);
        }
        self.own_lateness.record_ns(lateness_ns);
        self.second_lateness.record_ns(lateness_ns);
    }

    /// Adds a sent request.
    pub(crate) fn sent(&mut self, request: InFlight) {
        self.latencies.intended_to_sent.record_ns(request.sent_ns.saturating_sub(request.intended_ns));
    }

    /// Adds an acknowledged or refused request.
    pub(crate) fn acked(&mut self, ack: Ack, now_ns: u64) {
        let error = (ack.error_code != 0).then(|| error_name(ack.error_code));
        self.end(ack.request, true, now_ns, error);
        self.latencies.sent_to_ack.record_ns(now_ns.saturating_sub(ack.request.sent_ns));
        if ack.error_code == 0 {
            self.acked += 1;
            self.acked_cargo.records += ack.request.cargo.records;
            self.acked_cargo.bytes += ack.request.cargo.bytes;
            let in_window = u64::from(self.is_in_window(now_ns));
            self.acked_in_window += in_window;
            self.second_acked += in_window;
        } else {
            self.count_error(error_name(ack.error_code), now_ns);
        }
    }

    /// Adds a request that was given up, with the time that it waited.
    pub(crate) fn gave_up(&mut self, request: InFlight, now_ns: u64, error: &str) {
        self.end(request, true, now_ns, Some(error));
        self.latencies.sent_to_ack.record_ns(now_ns.saturating_sub(request.sent_ns));
        self.count_error(error, now_ns);
    }

    /// Adds a request that was never sent.
    pub(crate) fn never_sent(&mut self, intended_ns: u64, now_ns: u64, error: &str) {
        let request = InFlight { intended_ns, sent_ns: now_ns, cargo: Cargo::default() };
        self.end(request, false, now_ns, Some(error));
        self.latencies.intended_to_sent.record_ns(now_ns.saturating_sub(intended_ns));
        self.count_error(error, now_ns);
    }

    #[inline]
    fn end(&mut self, request: InFlight, went: bool, now_ns: u64, error: Option<&str>) {
        let latency = now_ns.saturating_sub(request.intended_ns);
        self.ended += 1;
        self.latencies.intended_to_ack.record_ns(latency);
        self.stalls.ended(request.intended_ns, now_ns);
        if let Some(stairs) = &mut self.stairs {
            stairs.ended(request.intended_ns, latency, error.is_some());
        }
        self.ended_ns = self.ended_ns.max(now_ns);
        if self.is_in_window(now_ns) {
            self.second.record_ns(latency);
        }
        if let Some(raw) = &mut self.raw {
            raw.ended(request, went, now_ns, error);
        }
    }

    fn count_error(&mut self, name: &str, now_ns: u64) {
        self.second_failed += u64::from(self.is_in_window(now_ns));
        if let Some(count) = self.errors.get_mut(name) {
            *count += 1;
            return;
        }
        // A client's own message may contain a number that differs each time.
        let short: String = name.chars().take(MOST_ERROR_CHARACTERS).collect();
        let is_full = self.errors.len() >= MOST_ERRORS && !self.errors.contains_key(&short);
        let name = if is_full { OTHER_ERRORS.to_owned() } else { short };
        *self.errors.entry(name).or_default() += 1;
    }

    /// Updates the time: the backlog, and the seconds that have passed. The last second stays open until [`Recorder::finish`], since its
    /// answers may still have to be read.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        let end_ns = self.end_ns.get();
        let requests = self.due - self.ended;
        self.backlog.note(now_ns.min(end_ns), requests);
        if now_ns >= end_ns && self.left.get().is_none() {
            self.left.set(Some(requests));
        }
        while self.second_end_ns() <= now_ns && self.second_end_ns() < end_ns {
            self.close_second(None);
        }
    }

    /// Ends the window at a time that may lie before its planned end. No further request is due, and later answers count as drained.
    /// Earlier counts stay.
    pub(crate) fn cut(&self, at_ns: u64) {
        let at_ns = at_ns.max(self.ended_ns);
        if at_ns < self.end_ns.get() {
            self.end_ns.set(at_ns);
            self.left.set(Some(self.due - self.ended));
        }
    }

    /// Requests up to this time are already counted, so a window that was cut earlier ends with them.
    pub(crate) fn keep_until(&self, at_ns: u64) {
        if at_ns > self.end_ns.get() {
            self.end_ns.set(at_ns);
            self.left.set(None);
        }
    }

    /// The schedule within the window.
    pub(crate) fn dues<I: Iterator<Item = u64>>(&self, arrivals: I) -> Dues<I> {
        Dues { arrivals: arrivals.peekable(), end_ns: Rc::clone(&self.end_ns) }
    }

    /// Length of the window.
    pub(crate) fn duration_ns(&self) -> u64 {
        self.end_ns.get()
    }

    /// Requests due but not ended, at the ends of equal parts of the window.
    pub(crate) fn backlog(&self) -> Vec<u64> {
        let left = self.left.get().unwrap_or(self.due - self.ended);
        self.backlog.slots(self.end_ns.get(), left)
    }

    /// Closes the last second of the window, which may be a shorter one. Answers that came while the window drained are in the histograms,
    /// but in no second.
    pub(crate) fn finish(&mut self) {
        let end_ns = self.end_ns.get();
        self.tick(end_ns);
        self.series.truncate(end_ns.div_ceil(SECOND_NS) as usize);
        let begun_ns = self.series.len() as u64 * SECOND_NS;
        if begun_ns < end_ns {
            let length_ns = end_ns - begun_ns;
            self.close_second((length_ns < SECOND_NS).then_some(length_ns as f64 / 1e9));
            if let (Some(last), Some(left)) = (self.series.last_mut(), self.left.get()) {
                last.backlog_requests = left;
            }
        }
    }

    fn is_in_window(&self, now_ns: u64) -> bool {
        now_ns <= self.end_ns.get()
    }

    fn second_end_ns(&self) -> u64 {
        (self.series.len() as u64 + 1) * SECOND_NS
    }

    fn close_second(&mut self, length_s: Option<f64>) {
        self.series.push(SeriesPoint {
            at_s: self.series.len() as f64,
            acked_requests: self.second_acked,
            latency_us_p50: self.second.quantile_us(0.5).unwrap_or(0.0),
            latency_us_p99: self.second.quantile_us(0.99).unwrap_or(0.0),
            latency_us_max: self.second.max_us().unwrap_or(0.0),
            backlog_requests: self.due - self.ended,
            latency: PackedHdr::from(&self.second),
            failed_requests: self.second_failed,
            generator_lag_us_p99: self.second_lateness.quantile_us(0.99).unwrap_or(0.0),
            consumer_lag_records: None,
            length_s,
        });
        self.second.clear();
        self.second_lateness.clear();
        (self.second_acked, self.second_failed) = (0, 0);
    }
}

/// Arrivals up to the end of the window, even if the end moves. This includes an arrival that was already peeked at.
#[derive(Debug)]
pub(crate) struct Dues<I: Iterator<Item = u64>> {
    arrivals: Peekable<I>,
    end_ns: Rc<Cell<u64>>,
}

impl<I: Iterator<Item = u64>> Dues<I> {
    pub(crate) fn peek(&mut self) -> Option<&u64> {
        let end_ns = self.end_ns.get();
        self.arrivals.peek().filter(|due_ns| **due_ns < end_ns)
    }

    pub(crate) fn next_if(&mut self, wanted: impl FnOnce(&u64) -> bool) -> Option<u64> {
        let end_ns = self.end_ns.get();
        self.arrivals.next_if(|due_ns| *due_ns < end_ns && wanted(due_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steadiness::SLOTS;

    fn request(intended_ms: u64, sent_ms: u64) -> InFlight {
        InFlight {
            intended_ns: intended_ms * 1_000_000,
            sent_ns: sent_ms * 1_000_000,
            cargo: Cargo { records: 2, bytes: 10 },
        }
    }

    #[test]
    fn latency_runs_from_the_intended_time() {
        let mut recorder = Recorder::new(SECOND_NS);
        recorder.came_due(100_000_000, 100_000_050);
        recorder.sent(request(100, 300));
        recorder.acked(Ack { request: request(100, 300), error_code: 0 }, 400_000_000);
        let close = |hdr: &Hdr, ms: f64| (hdr.quantile_us(0.5).unwrap() / 1e3 - ms).abs() < 0.5;
        assert!(close(&recorder.latencies.intended_to_ack, 300.0));
        assert!(close(&recorder.latencies.sent_to_ack, 100.0));
        assert!(close(&recorder.latencies.intended_to_sent, 200.0));
        let own_us = recorder.own_lateness.quantile_us(1.0).unwrap();
        assert!(own_us < 0.1, "{own_us} µs: that the target had no room is not the generator's lateness");
    }

    #[test]
    fn nothing_is_dropped() {
        let mut recorder = Recorder::new(SECOND_NS);
        recorder.due = 3;
        recorder.acked(Ack { request: request(0, 0), error_code: 87 }, 1_000_000);
        recorder.gave_up(request(0, 0), 2_000_000_000, "timeout");
        recorder.never_sent(0, 3_000_000_000, "timeout");
        assert_eq!((recorder.ended, recorder.acked), (3, 0));
        assert_eq!(recorder.latencies.intended_to_ack.count(), 3);
        assert_eq!(recorder.errors["timeout"], 2);
        assert_eq!(recorder.errors["INVALID_RECORD"], 1);
    }

    #[test]
    fn errors_that_are_new_each_time_take_no_memory_without_an_end() {
        let mut recorder = Recorder::new(SECOND_NS);
        let words = "é".repeat(10_000);
        for number in 0..5_000 {
            recorder.gave_up(request(0, 0), 1_000_000, &format!("record {number} was refused"));
            recorder.gave_up(request(0, 0), 1_000_000, &words);
        }
        assert_eq!(recorder.errors.values().sum::<u64>(), 10_000);
        assert_eq!(recorder.errors.len(), MOST_ERRORS + 1);
        assert_eq!(recorder.errors["record 7 was refused"], 1);
        assert_eq!(recorder.errors[&"é".repeat(MOST_ERROR_CHARACTERS)], 5_000);
        assert_eq!(recorder.errors[OTHER_ERRORS], 5_000 - (MOST_ERRORS as u64 - 1));
    }

    #[test]
    fn a_window_that_is_cut_ends_there() {
        let mut recorder = Recorder::new(40 * SECOND_NS);
        recorder.due = 4;
        let ok = |sent_ms| Ack { request: request(0, sent_ms), error_code: 0 };
        recorder.tick(9_100_000_000);
        recorder.acked(ok(0), 9_200_000_000);
        recorder.tick(9_400_000_000);
        recorder.cut(9_500_000_000);
        // The drain.
        recorder.acked(ok(1), 9_600_000_000);
        recorder.gave_up(request(0, 2), 10_900_000_000, "interrupted");
        recorder.tick(12 * SECOND_NS);
        assert_eq!(recorder.series.len(), 9, "seconds after the end were reported");
        recorder.finish();
        assert_eq!((recorder.acked, recorder.acked_in_window), (2, 1));
        assert_eq!((recorder.series.len(), recorder.backlog().len()), (10, SLOTS));
        let last = &recorder.series[9];
        assert_eq!((last.length_s, last.acked_requests, last.failed_requests), (Some(0.5), 1, 0));
        assert_eq!((last.latency.unpack().unwrap().count(), last.backlog_requests), (1, 3));
        assert!((last.acked_per_s() - 2.0).abs() < 1e-9);
        assert_eq!(recorder.backlog()[SLOTS - 1], 3, "what was drained later was behind at the end");
        assert_eq!(recorder.duration_ns(), 9_500_000_000);
        recorder.cut(60 * SECOND_NS);
        assert_eq!(recorder.duration_ns(), 9_500_000_000, "a window can't become longer");
        recorder.keep_until(9_800_000_000);
        assert_eq!(recorder.duration_ns(), 9_800_000_000);
    }

    #[test]
    fn a_window_of_no_whole_seconds_has_a_short_one_at_its_end() {
        let mut recorder = Recorder::new(4_500_000_000);
        // One request a millisecond, each answered after a second.
        for at_ms in 0..6_000 {
            recorder.due += u64::from(at_ms < 4_500);
            recorder.tick(at_ms * 1_000_000);
            if (1_000..5_500).contains(&at_ms) {
                let request = request(at_ms - 1_000, at_ms - 1_000);
                recorder.acked(Ack { request, error_code: 0 }, at_ms * 1_000_000);
            }
        }
        recorder.finish();
        let seconds: Vec<_> =
            recorder.series.iter().map(|point| (point.acked_requests, point.length_s)).collect();
        assert_eq!(seconds.last(), Some(&(501, Some(0.5))), "{seconds:?}");
        assert!(seconds[..4].iter().all(|(_, length_s)| length_s.is_none()), "{seconds:?}");
        let in_seconds: u64 = seconds.iter().map(|(acked, _)| acked).sum();
        assert_eq!((recorder.acked, in_seconds), (4_500, recorder.acked_in_window));
    }

    #[test]
    fn an_arrival_that_was_looked_at_ends_with_the_window() {
        let recorder = Recorder::new(60 * SECOND_NS);
        let mut dues = recorder.dues([1, 2, 30 * SECOND_NS, 70 * SECOND_NS].into_iter());
        assert_eq!((dues.next_if(|due| *due < 10), dues.next_if(|due| *due < 10)), (Some(1), Some(2)));
        assert_eq!(dues.peek(), Some(&(30 * SECOND_NS)));
        recorder.cut(SECOND_NS);
        assert_eq!(dues.peek(), None);
        assert_eq!(dues.next_if(|_| true), None);
    }

    #[test]
    fn each_second_has_its_own_errors_and_lateness() {
        let mut recorder = Recorder::new(4 * SECOND_NS);
        recorder.came_due(0, 7_000_000);
        recorder.came_due(0, 1_000);
        recorder.due += 1;
        recorder.acked(Ack { request: request(0, 0), error_code: 87 }, 500_000_000);
        recorder.tick(SECOND_NS);
        recorder.own_late(0, 1_000_000);
        recorder.tick(2 * SECOND_NS);
        let [first, second] = &recorder.series[..] else { panic!("{:?}", recorder.series) };
        assert_eq!((first.failed_requests, second.failed_requests), (1, 0));
        assert!((first.generator_lag_us_p99 / 7e3 - 1.0).abs() < 0.01, "{}", first.generator_lag_us_p99);
        assert!((second.generator_lag_us_p99 / 1e3 - 1.0).abs() < 0.01, "{}", second.generator_lag_us_p99);
        assert_eq!(second.latency.unpack().unwrap().count(), 0);
    }

    #[test]
    fn seconds_and_slots_close_on_time() {
        let mut recorder = Recorder::new(4 * SECOND_NS);
        recorder.due = 8;
        recorder.acked(Ack { request: request(0, 0), error_code: 0 }, 500_000_000);
        recorder.tick(2_100_000_000);
        assert_eq!(recorder.series.len(), 2);
        assert_eq!((recorder.series[0].acked_requests, recorder.series[1].acked_requests), (1, 0));
        recorder.tick(60 * SECOND_NS);
        assert_eq!(recorder.backlog(), [7; SLOTS]);
        assert_eq!(recorder.series.len(), 3, "the last second is open for what was answered in it");
        recorder.acked(Ack { request: request(0, 0), error_code: 0 }, 60 * SECOND_NS);
        recorder.finish();
        assert_eq!(recorder.series.len(), 4, "the drain is no second of the window");
        assert_eq!((recorder.series[3].acked_requests, recorder.series[3].length_s), (0, None));
        assert_eq!(recorder.acked_cargo.records, 4);
    }

    /// What it costs to record. `cargo test --release -p hone-load --lib cost -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement, for a quiet machine"]
    #[expect(clippy::print_stdout, reason = "a measurement says what it found")]
    fn cost() {
        const REQUESTS: u64 = 2_000_000;
        let mut recorder = Recorder::new(3_600 * SECOND_NS);
        let record = |recorder: &mut Recorder, count: u64| {
            for at in 0..count {
                let intended_ns = at * 50_000;
                let request = InFlight {
                    intended_ns,
                    sent_ns: intended_ns + 9_000 + at % 4_096,
                    cargo: Cargo::default(),
                };
                recorder.came_due(request.intended_ns, request.sent_ns);
                recorder.sent(request);
                recorder.acked(Ack { request, error_code: 0 }, request.sent_ns + 80_000 + at * 7 % 60_000);
            }
        };
        record(&mut recorder, 10_000);
        let before = crate::cpu::CpuTime::of_this_thread();
        record(&mut recorder, REQUESTS);
        let used = before.until(crate::cpu::CpuTime::of_this_thread()).total_s;
        println!("{:.1} ns a request", used * 1e9 / REQUESTS as f64);
        let mut longest = std::time::Duration::ZERO;
        let before = crate::cpu::CpuTime::of_this_thread();
        for second in 1..=100 {
            record(&mut recorder, 20_000);
            let begun = std::time::Instant::now();
            recorder.tick(second * SECOND_NS);
            longest = longest.max(begun.elapsed());
        }
        let used = before.until(crate::cpu::CpuTime::of_this_thread()).total_s;
        println!(
            "{:.0} µs of CPU a second with 20,000 requests; closing it took {longest:?} at most",
            used * 1e4
        );
    }
}
