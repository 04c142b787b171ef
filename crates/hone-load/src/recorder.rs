//! What happened to each request of a window, while it happens.

use std::collections::BTreeMap;
use std::sync::mpsc;

use hone_kafka::{ProduceResponse, error_name};
use hone_record::{Hdr, Latencies, PackedHdr, SeriesPoint};

use crate::connection::{Ack, Cargo, InFlight};
use crate::consumer::Order;
use crate::join::Placed;
use crate::raw::Raw;
use crate::steadiness::SLOTS;

const SECOND_NS: u64 = 1_000_000_000;

/// Counts and histograms of one window.
#[derive(Debug)]
pub(crate) struct Recorder {
    duration_ns: u64,
    /// Requests due so far.
    pub due: u64,
    /// Requests that came to an end so far, well or not.
    pub ended: u64,
    /// Requests acknowledged without an error.
    pub acked: u64,
    /// Times that a request was sent again.
    pub retried: u64,
    /// Requests acknowledged without an error before the window closed; the rest came while it was drained.
    pub acked_in_window: u64,
    /// What they carried.
    pub acked_cargo: Cargo,
    /// Errors by name.
    pub errors: BTreeMap<String, u64>,
    /// The three histograms.
    pub latencies: Latencies,
    /// Intended to sent, of the requests that found a free slot when they were due.
    pub own_lateness: Hdr,
    /// Requests due but not ended, at the ends of equal parts of the window.
    pub backlog: Vec<u64>,
    /// How many of them there will be: all, unless the window is cut.
    slots: usize,
    /// Seconds that are complete.
    pub series: Vec<SeriesPoint>,
    /// Who wants to know where acknowledged records lie.
    pub placed: Option<mpsc::Sender<Order>>,
    /// Where every request is written down.
    pub raw: Option<Raw>,
    second: Hdr,
    second_lateness: Hdr,
    second_acked: u64,
    second_failed: u64,
}

impl Recorder {
    pub(crate) fn new(duration_ns: u64) -> Self {
        Self {
            duration_ns,
            due: 0,
            ended: 0,
            acked: 0,
            retried: 0,
            acked_in_window: 0,
            acked_cargo: Cargo::default(),
            errors: BTreeMap::new(),
            latencies: Latencies::default(),
            own_lateness: Hdr::new(),
            backlog: Vec::with_capacity(SLOTS),
            slots: SLOTS,
            series: Vec::new(),
            placed: None,
            raw: None,
            second: Hdr::new(),
            second_lateness: Hdr::new(),
            second_acked: 0,
            second_failed: 0,
        }
    }

    /// Something that was acknowledged lies there.
    pub(crate) fn placed(&mut self, placed: Placed) {
        if let Some(orders) = &self.placed {
            // Consumers that have gone give what they have seen until then.
            let _ = orders.send(Order::Placed(placed));
        }
    }

    /// The batches of a request were acknowledged.
    pub(crate) fn placed_batches(&mut self, request: InFlight, answer: &ProduceResponse<'_>) {
        if self.placed.is_none() {
            return;
        }
        let batches = answer.partitions().count().max(1) as u64;
        for ack in answer.partitions().filter(|ack| ack.error_code == 0 && ack.base_offset >= 0) {
            let records = u32::try_from(request.cargo.records / batches).unwrap_or(u32::MAX);
            self.placed(Placed {
                partition: ack.partition,
                first: ack.base_offset,
                records,
                intended_ns: request.intended_ns,
            });
        }
    }

    /// A request that was due has been taken up, `now_ns` at the earliest. What lies between is the generator's own lateness,
    /// whether a slot is free or not: a generator that stood still must not hide behind the queue that it made.
    pub(crate) fn came_due(&mut self, intended_ns: u64, now_ns: u64) {
        self.due += 1;
        self.own_late(now_ns.saturating_sub(intended_ns));
    }

    /// How late the generator was with a request by its own fault.
    pub(crate) fn own_late(&mut self, lateness_ns: u64) {
        self.own_lateness.record_ns(lateness_ns);
        self.second_lateness.record_ns(lateness_ns);
    }

    /// A request went out.
    pub(crate) fn sent(&mut self, request: InFlight) {
        self.latencies.intended_to_sent.record_ns(request.sent_ns.saturating_sub(request.intended_ns));
    }

    /// A request was acknowledged, or refused.
    pub(crate) fn acked(&mut self, ack: Ack, now_ns: u64) {
        let error = (ack.error_code != 0).then(|| error_name(ack.error_code));
        self.end(ack.request, true, now_ns, error);
        self.latencies.sent_to_ack.record_ns(now_ns.saturating_sub(ack.request.sent_ns));
        if ack.error_code == 0 {
            self.acked += 1;
            self.acked_cargo.records += ack.request.cargo.records;
            self.acked_cargo.bytes += ack.request.cargo.bytes;
            self.acked_in_window += u64::from(now_ns <= self.duration_ns);
            self.second_acked += 1;
        } else {
            self.count_error(error_name(ack.error_code));
        }
    }

    /// A request was given up: it counts at the time it waited.
    pub(crate) fn gave_up(&mut self, request: InFlight, now_ns: u64, error: &str) {
        self.end(request, true, now_ns, Some(error));
        self.latencies.sent_to_ack.record_ns(now_ns.saturating_sub(request.sent_ns));
        self.count_error(error);
    }

    /// A request never went out.
    pub(crate) fn never_sent(&mut self, intended_ns: u64, now_ns: u64, error: &str) {
        let request = InFlight { intended_ns, sent_ns: now_ns, cargo: Cargo::default() };
        self.end(request, false, now_ns, Some(error));
        self.latencies.intended_to_sent.record_ns(now_ns.saturating_sub(intended_ns));
        self.count_error(error);
    }

    #[inline]
    fn end(&mut self, request: InFlight, went: bool, now_ns: u64, error: Option<&str>) {
        let latency = now_ns.saturating_sub(request.intended_ns);
        self.ended += 1;
        self.latencies.intended_to_ack.record_ns(latency);
        self.second.record_ns(latency);
        if let Some(raw) = &mut self.raw {
            raw.ended(request, went, now_ns, error);
        }
    }

    fn count_error(&mut self, name: &str) {
        self.second_failed += 1;
        match self.errors.get_mut(name) {
            Some(count) => *count += 1,
            None => {
                self.errors.insert(name.to_owned(), 1);
            }
        }
    }

    /// Notes the time: closes slots and seconds that have passed.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        while self.backlog.len() < self.slots && now_ns >= self.slot_end_ns() {
            self.backlog.push(self.due - self.ended);
        }
        while now_ns >= (self.series.len() as u64 + 1) * SECOND_NS && self.second_is_in_window() {
            self.close_second();
        }
    }

    /// Ends the window at a time that may lie before its planned end. What came behind it counts as drained.
    pub(crate) fn cut(&mut self, at_ns: u64) {
        if at_ns >= self.duration_ns {
            return;
        }
        let slots = u128::from(at_ns) * SLOTS as u128 / u128::from(self.duration_ns);
        self.slots = slots as usize;
        self.backlog.truncate(self.slots);
        self.series.truncate(at_ns.div_ceil(SECOND_NS) as usize);
        self.duration_ns = at_ns;
    }

    /// Length of the window.
    pub(crate) fn duration_s(&self) -> f64 {
        self.duration_ns as f64 / 1e9
    }

    /// Closes the last, shorter second of the window. What was answered while the window was drained is in the
    /// histograms, but in no second of the window.
    pub(crate) fn finish(&mut self) {
        self.tick(self.duration_ns);
        if self.second_is_in_window() && self.second.count() > 0 {
            self.close_second();
        }
    }

    fn slot_end_ns(&self) -> u64 {
        let slots = self.backlog.len() as u128 + 1;
        (slots * u128::from(self.duration_ns) / SLOTS as u128) as u64
    }

    fn second_is_in_window(&self) -> bool {
        (self.series.len() as u64) * SECOND_NS < self.duration_ns
    }

    fn close_second(&mut self) {
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
        });
        self.second.clear();
        self.second_lateness.clear();
        (self.second_acked, self.second_failed) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_window_that_is_cut_has_no_seconds_and_slots_behind_its_end() {
        let mut recorder = Recorder::new(40 * SECOND_NS);
        recorder.due = 1;
        recorder.tick(30 * SECOND_NS);
        recorder.cut(9_500_000_000);
        recorder.finish();
        assert_eq!((recorder.series.len(), recorder.backlog.len()), (10, 9));
        assert!((recorder.duration_s() - 9.5).abs() < 1e-9);
        recorder.cut(60 * SECOND_NS);
        assert!((recorder.duration_s() - 9.5).abs() < 1e-9, "a window is not made longer");
    }

    #[test]
    fn each_second_has_its_own_errors_and_lateness() {
        let mut recorder = Recorder::new(4 * SECOND_NS);
        recorder.came_due(0, 7_000_000);
        recorder.came_due(0, 1_000);
        recorder.due += 1;
        recorder.acked(Ack { request: request(0, 0), error_code: 87 }, 500_000_000);
        recorder.tick(SECOND_NS);
        recorder.own_late(1_000_000);
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
        assert_eq!((recorder.series.len(), recorder.backlog.len()), (2, 21));
        assert_eq!((recorder.series[0].acked_requests, recorder.series[1].acked_requests), (1, 0));
        assert_eq!(recorder.backlog[20], 7);
        recorder.tick(60 * SECOND_NS);
        assert_eq!((recorder.series.len(), recorder.backlog.len()), (4, SLOTS));
        recorder.acked(Ack { request: request(0, 0), error_code: 0 }, 60 * SECOND_NS);
        recorder.finish();
        assert_eq!(recorder.series.len(), 4, "the drain is no second of the window");
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
