//! Changes of a load's batches, tried one after the other: what is accepted becomes the state that the next one is held against.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::histogram::{Hdr, SAMPLES_BEYOND};
use crate::machine::Machine;
use crate::replica::Replica;
use crate::whatif::{Foreseen, WhatIf};
use crate::window::{CpuSeconds, Durability, SocketBytes, Window};
use crate::workload::Workload;

/// What became of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// Measured and better, and no guard rail broke: the next step is held against it.
    Accepted,
    /// Put back.
    Rejected,
}

impl Decision {
    /// The word for the ledger; [`ProofStep::outcome`] is the one for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }
}

impl ProofStep {
    /// How much a kept change harms the others; `None` if it does not. A change that cannot bear the load ranks highest, then one that breaks a
    /// guard, then a regression. The cost ratio ranks equals.
    pub fn harm(&self) -> Option<(u8, f64)> {
        let Some((comparison, cost)) = self.comparison.as_ref().zip(self.cost_ratio()) else {
            return (self.decision == Decision::Rejected).then_some((2, 1.0));
        };
        let breaks = self.guards.iter().any(|guard| !guard.held);
        let is_worse = comparison.verdict() == Verdict::Worse;
        (breaks || is_worse).then_some((u8::from(breaks), cost))
    }

    /// The primary metric's ratio as a cost: above 1 is worse, for every metric. It is 1 without an estimate, and `None` without a comparison.
    pub fn cost_ratio(&self) -> Option<f64> {
        let of = |found: &Comparison| found.primary().map_or(1.0, |judged| judged.estimate.cost_ratio());
        self.comparison.as_ref().map(of)
    }

    /// The word for people: what is rejected since nothing was shown is told apart from what does harm.
    pub fn outcome(&self) -> &'static str {
        match (self.decision, self.comparison.as_ref().map(Comparison::verdict)) {
            (Decision::Rejected, Some(Verdict::NotShown)) => "not shown",
            (decision, _) => decision.label(),
        }
    }

    /// The ratio of the metric that decides, with its interval; `None` where nothing was estimated.
    pub fn worth_in_words(&self) -> Option<String> {
        let estimate = &self.comparison.as_ref().and_then(Comparison::primary)?.estimate;
        Some(format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high))
    }
}

impl Proof {
    /// The changes by what became of them, in a sentence for each; always with those that were accepted.
    pub fn outcomes_in_words(&self) -> String {
        let sentence = |(name, outcome): (&str, &str)| {
            let of_it = self.steps.iter().filter(|step| step.outcome() == outcome);
            let changes: Vec<&str> = of_it.map(|step| &*step.change).collect();
            match &changes[..] {
                [] if outcome == "accepted" => format!("{name}: none."),
                [] => String::new(),
                changes => format!("{name}: {}.", changes.join("; ")),
            }
        };
        let sentences =
            [("Accepted", "accepted"), ("Not shown", "not shown"), ("Rejected", "rejected")].map(sentence);
        sentences.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// What was said of a step before it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchForetold {
    /// By what: a command and its record.
    pub source: String,
    /// Mean bytes of a batch, headers included.
    #[serde(deserialize_with = "figure", skip_serializing_if = "Option::is_none")]
    pub batch_bytes: Option<Foreseen>,
    /// Batches written per second.
    #[serde(deserialize_with = "figure", skip_serializing_if = "Option::is_none")]
    pub batches_per_s: Option<Foreseen>,
    /// Produce requests per second.
    #[serde(deserialize_with = "figure", skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<Foreseen>,
    /// What a record waits longer than before, on average; negative where it waits less.
    #[serde(deserialize_with = "figure", skip_serializing_if = "Option::is_none")]
    pub added_wait_ms: Option<Foreseen>,
    /// The same without the change, by the same source: what is foretold is held against it, as the measured figures are against the
    /// measured state before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<BatchesBefore>,
}

/// Batches without the change, by whoever foretold the change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchesBefore {
    /// Mean bytes of a batch.
    pub batch_bytes: Option<f64>,
    /// Batches per second.
    pub batches_per_s: Option<f64>,
    /// Requests per second.
    pub requests_per_s: Option<f64>,
}

/// A figure is a number, or one with its range.
fn figure<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Foreseen>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Figure {
        Number(f64),
        Ranged(Foreseen),
    }
    Ok(Option::<Figure>::deserialize(from)?.map(|figure| match figure {
        Figure::Number(value) => Foreseen { value, low: value, high: value },
        Figure::Ranged(foreseen) => foreseen,
    }))
}

/// A foretold figure beside the measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureOutcome {
    /// For people, with its unit.
    pub what: &'static str,
    /// What was said, with its range.
    pub said: Foreseen,
    /// What was measured; `None` where it was not.
    pub found: Option<f64>,
    /// Whether at least half of what was foretold came; `None` where it can't be told, or is not judged.
    pub came_true: Option<bool>,
}

/// A foretold change of less is none, and half of it would be noise.
const FORETOLD_LEAST: f64 = 0.02;
/// Where none was foretold, so much may come.
const STAYED_MOST: f64 = 0.05;
/// Of a foretold change at least this much must come.
const CAME_LEAST: f64 = 0.5;

impl BatchForetold {
    /// What a replay of a topic foresees of a change.
    ///
    /// # Errors
    /// With the reason, where it foresees nothing.
    pub fn of_whatif(whatif: &WhatIf) -> Result<Self, String> {
        if let Some(refused) = &whatif.refused {
            return Err(format!("nothing was foreseen: {refused}"));
        }
        let Some(predicted) = &whatif.predicted else {
            return Err("it tells of today alone: ask for a change, as with --linger 20ms".to_owned());
        };
        // Today by the same rules: what was written has no waits, and no requests.
        let today = whatif.replayed.as_ref().unwrap_or(&whatif.today);
        let longer = |wait_ms: Foreseen| {
            let now_ms = today.wait_ms_mean?;
            let [value, low, high] = [wait_ms.value, wait_ms.low, wait_ms.high].map(|ms| ms - now_ms);
            Some(Foreseen { value, low, high })
        };
        Ok(Self {
            source: format!("what-if of {}: {}", whatif.topic, whatif.change),
            batch_bytes: Some(predicted.batch_bytes_mean),
            batches_per_s: Some(predicted.batches_per_s),
            requests_per_s: Some(predicted.requests_per_s),
            added_wait_ms: longer(predicted.wait_ms_mean),
            before: Some(BatchesBefore {
                batch_bytes: Some(today.batch_bytes_mean),
                batches_per_s: Some(today.batches_per_s),
                requests_per_s: today.requests_per_s,
            }),
        })
    }

    /// Each figure beside what was measured. Batches, requests and bytes a batch come true where at least half of the foretold change came.
    /// What is measured of a wait is the whole latency, in which the broker's part changes, too: it comes true within half and twice of its
    /// range, or within a millisecond of it.
    pub fn outcomes(&self, before: &BatchState, after: &BatchState) -> Vec<FigureOutcome> {
        let mean_ms = |state: &BatchState| state.latency.mean_us().map(|us| us / 1e3);
        let waited = mean_ms(before).zip(mean_ms(after)).map(|(before, after)| after - before);
        let own = self.before.unwrap_or_default();
        let judged = |what, said: Option<Foreseen>, own: Option<f64>, of: fn(&BatchState) -> Option<f64>| {
            let (said, was, found) = (said?, of(before), of(after));
            let came_true = came_true(said.value, own.or(was), was, found);
            Some(FigureOutcome { what, said, found, came_true })
        };
        let bytes = judged("bytes a batch", self.batch_bytes, own.batch_bytes, BatchState::bytes_per_batch);
        let batches = judged(BATCHES, self.batches_per_s, own.batches_per_s, BatchState::batches_per_s);
        let requests =
            judged("requests/s", self.requests_per_s, own.requests_per_s, BatchState::requests_per_s);
        let what = "ms more latency on average";
        let wait = self.added_wait_ms.map(|said| FigureOutcome {
            what,
            said,
            found: waited,
            came_true: waited.map(|waited| is_near(said, waited)),
        });
        [bytes, batches, requests, wait].into_iter().flatten().collect()
    }

    /// Whether all figures that can be judged came true; `None` where there is none.
    pub fn came_true(&self, before: &BatchState, after: &BatchState) -> Option<bool> {
        let judged: Vec<bool> =
            self.outcomes(before, after).iter().filter_map(|outcome| outcome.came_true).collect();
        (!judged.is_empty()).then(|| judged.iter().all(|came| *came))
    }

    /// The rail that a foretold fall of the batches puts up: at least half of it must come. `None` where no fall was foretold.
    pub fn guard(&self, before: &BatchState, after: &BatchState) -> Option<Guard> {
        let said = self.batches_per_s?;
        let own = self.before.and_then(|own| own.batches_per_s).or_else(|| before.batches_per_s())?;
        let falls = own > 0.0 && said.value / own < 1.0 - FORETOLD_LEAST;
        let outcome = self.outcomes(before, after).into_iter().find(|outcome| outcome.what == BATCHES)?;
        let percent = |share: f64| format!("{:+.0} %", share * 100.0);
        let found = before.batches_per_s().zip(outcome.found).filter(|(was, _)| *was > 0.0);
        falls.then(|| Guard {
            rule: "half of the foretold fall of batches/s".to_owned(),
            seen: format!(
                "{} foretold, {}",
                percent(said.value / own - 1.0),
                found.map_or("not measured".to_owned(), |(was, now)| format!(
                    "{} measured",
                    percent(now / was - 1.0)
                ))
            ),
            held: outcome.came_true == Some(true),
        })
    }
}

const BATCHES: &str = "batches/s";

/// Changes are held against each other as ratios, since a prediction and a measurement may be of different rates. Half of the way is half of
/// the relative change.
fn came_true(said: f64, own: Option<f64>, was: Option<f64>, found: Option<f64>) -> Option<bool> {
    let ratio = |now: f64, then: f64| (then > 0.0 && now.is_finite()).then(|| now / then - 1.0);
    let (said, found) = (ratio(said, own?)?, ratio(found?, was?)?);
    Some(if said.abs() < FORETOLD_LEAST { found.abs() < STAYED_MOST } else { found / said >= CAME_LEAST })
}

/// Whether a wait in milliseconds is about what was foretold.
fn is_near(said: Foreseen, found_ms: f64) -> bool {
    const APART_MS: f64 = 1.0;
    let (low, high) = (said.low.min(said.high), said.low.max(said.high));
    let within = |low: f64, high: f64| low <= found_ms && found_ms <= high;
    within(low - APART_MS, high + APART_MS)
        || within((low / 2.0).min(low * 2.0), (high / 2.0).max(high * 2.0))
}

/// A guard rail beside those of the comparator, and what it said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// The rule, for people.
    pub rule: String,
    /// What it saw in the state before and in the candidate, for people.
    pub seen: String,
    /// Whether it held.
    pub held: bool,
}

/// The load's effect in one state of its settings, over all windows of that state in one comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchState {
    /// Windows that count.
    pub windows: u32,
    /// Their length together.
    pub seconds: f64,
    /// Intended to ack, all windows together.
    pub latency: Hdr,
    /// Records acknowledged.
    pub acked_records: u64,
    /// Requests (records of a client) that came to nothing.
    pub failed_requests: u64,
    /// CPU of the target; `None` where it is not known.
    pub target_cpu: Option<CpuSeconds>,
    /// Through the producers' sockets; `None` where the engine does not tell.
    pub socket_bytes: Option<SocketBytes>,
    /// Produce requests; `None` where the engine does not tell.
    pub produce_requests: Option<u64>,
    /// Batches that were looked at.
    pub batches: u64,
    /// Records in them.
    pub batch_records: u64,
    /// Their bytes, headers included, as written.
    pub batch_bytes: u64,
    /// Share of the batches that was looked at, 0 to 1.
    pub batches_seen_share: f64,
    /// Records due and not acknowledged at the end of each second: the median of all seconds.
    pub backlog_p50: Option<u64>,
    /// The most.
    pub backlog_max: Option<u64>,
    /// The largest consumer lag of each window in records: the median of the windows; `None` without consumers.
    pub lag_records: Option<u64>,
    /// Acknowledged records that never came to a consumer.
    pub missing_records: u64,
    /// Whether its load counts operations, of which a record and a request are one: it says nothing of single latencies.
    pub counts_operations: bool,
}

impl BatchState {
    /// Adds up windows of one state.
    pub fn from_windows(windows: &[Window]) -> Self {
        let mut state = Self { windows: windows.len() as u32, ..Self::default() };
        let counts_operations = |window: &Window| window.workload.engine.operations().is_some();
        state.counts_operations = !windows.is_empty() && windows.iter().all(counts_operations);
        let facts = || windows.iter().map(|window| &window.facts);
        state.seconds = windows.iter().map(|window| window.duration_s).sum();
        windows.iter().for_each(|window| state.latency.merge(&window.latencies.intended_to_ack));
        state.acked_records = facts().map(|facts| facts.acked_records).sum();
        state.failed_requests =
            facts().map(|facts| facts.requests.saturating_sub(facts.acked_requests)).sum();
        state.target_cpu = facts().map(|facts| facts.target_cpu).collect::<Option<Vec<_>>>().and_then(cpu);
        state.socket_bytes = facts().map(|facts| facts.socket_bytes).collect::<Option<Vec<_>>>().map(sockets);
        state.produce_requests = facts().map(|facts| facts.produce_requests).sum();
        let batches = || windows.iter().flat_map(|window| &window.batches);
        state.batches = batches().map(|batches| batches.batches).sum();
        state.batch_records = batches().map(|batches| batches.records).sum();
        state.batch_bytes = batches().map(|batches| batches.bytes).sum();
        let shares: Vec<f64> = batches().map(|batches| batches.seen_share).collect();
        state.batches_seen_share = shares.iter().sum::<f64>() / shares.len().max(1) as f64;
        let seconds = || windows.iter().flat_map(|window| &window.series).map(|point| point.backlog_requests);
        state.backlog_p50 = middle(seconds().collect());
        state.backlog_max = seconds().max();
        let seen = || windows.iter().filter_map(|window| window.end_to_end.as_ref());
        state.lag_records = middle(seen().map(|seen| seen.lag_records_max).collect());
        state.missing_records = seen().map(|seen| seen.missing).sum();
        state
    }

    /// A quantile of the latency; `None` with fewer than ten samples beyond it.
    pub fn latency_us(&self, quantile: f64) -> Option<f64> {
        self.latency.quantile_us_if_supported(quantile, SAMPLES_BEYOND)
    }

    /// CPU seconds of the target per second: cores in use.
    pub fn cores(&self) -> Option<f64> {
        self.per_second(self.target_cpu?.total_s)
    }

    /// CPU of the target per acknowledged record, in microseconds.
    pub fn cpu_us_per_record(&self) -> Option<f64> {
        let records = self.acked_records as f64;
        (records > 0.0).then_some(self.target_cpu?.total_s * 1e6 / records)
    }

    /// Bytes per second that the producers sent.
    pub fn sent_bytes_per_s(&self) -> Option<f64> {
        self.per_second(self.socket_bytes?.sent as f64)
    }

    /// Produce requests per second.
    pub fn requests_per_s(&self) -> Option<f64> {
        self.per_second(self.produce_requests? as f64)
    }

    /// Mean bytes of a batch, headers included.
    pub fn bytes_per_batch(&self) -> Option<f64> {
        (self.batches > 0).then(|| self.batch_bytes as f64 / self.batches as f64)
    }

    /// Mean records of a batch.
    pub fn records_per_batch(&self) -> Option<f64> {
        (self.batches > 0).then(|| self.batch_records as f64 / self.batches as f64)
    }

    /// Batches written per second: those that were looked at, and as many more as were not.
    pub fn batches_per_s(&self) -> Option<f64> {
        self.per_second(self.acked_records as f64 / self.records_per_batch()?)
    }

    /// Share of the requests that came to nothing, 0 to 1.
    pub fn failed_share(&self) -> f64 {
        let all = self.acked_records.saturating_add(self.failed_requests);
        self.failed_requests as f64 / all.max(1) as f64
    }

    fn per_second(&self, total: f64) -> Option<f64> {
        (self.seconds > 0.0).then(|| total / self.seconds)
    }
}

fn cpu(parts: Vec<CpuSeconds>) -> Option<CpuSeconds> {
    let total_s: f64 = parts.iter().map(|part| part.total_s).sum();
    let user_s: Option<f64> = parts.iter().map(|part| Some(part.total_s * part.user_share?)).sum();
    let user_share = user_s.filter(|_| total_s > 0.0).map(|user_s| user_s / total_s);
    (!parts.is_empty()).then_some(CpuSeconds { total_s, user_share })
}

fn sockets(parts: Vec<SocketBytes>) -> SocketBytes {
    parts.iter().fold(SocketBytes::default(), |sum, part| SocketBytes {
        sent: sum.sent.saturating_add(part.sent),
        received: sum.received.saturating_add(part.received),
    })
}

/// The upper median.
fn middle(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// One change, held against the state that was kept until then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofStep {
    /// As it was asked for, for example `linger=20ms`.
    pub change: String,
    /// What it means for the load, setting by setting: `client.linger.ms: as it is -> 20`.
    pub words: Vec<String>,
    /// Accepted or rejected.
    pub decision: Decision,
    /// Why, in words.
    pub why: String,
    /// What is promised otherwise than before, where the durability class changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// Guard rails beside those of the comparator.
    pub guards: Vec<Guard>,
    /// The comparison; `None` where the candidate failed too often for one.
    pub comparison: Option<Comparison>,
    /// The state before, in this comparison's windows.
    pub before: BatchState,
    /// The candidate, in this comparison's windows.
    pub after: BatchState,
    /// What was said of it before; `None` when nobody did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foretold: Option<BatchForetold>,
}

/// All steps, and what they are steps of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// Where the load went, as it was asked for.
    pub target: String,
    /// Where arrivals and shape come from, in words.
    pub load: String,
    /// The load before the first step.
    pub workload: Workload,
    /// The load with all that was accepted.
    pub kept: Workload,
    /// The topic that the load was taken from, beside what the load made of a test topic before the first step. `None` without a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
    /// What an acknowledgement promised before the first step.
    pub durability: Durability,
    /// The rule by which a step is accepted, in words; on the disk before the first window.
    pub rule: String,
    /// In the order in which they were tried.
    pub steps: Vec<ProofStep>,
    /// What this proof can't say, in words.
    pub limits: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// Client and version of each arm's first window.
    pub software: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(records: u64, batches: u64, seconds: f64) -> Window {
        let mut window = crate::merge::tests::shard(0, 1);
        window.duration_s = seconds;
        window.facts.requests = records;
        window.facts.acked_requests = records;
        window.facts.acked_records = records;
        window.facts.produce_requests = Some(batches);
        window.facts.target_cpu = Some(CpuSeconds { total_s: seconds / 2.0, user_share: Some(0.5) });
        window.facts.socket_bytes = Some(SocketBytes { sent: records * 100, received: batches * 40 });
        window.batches = vec![crate::window::TopicBatches {
            topic: "t".to_owned(),
            source: crate::window::BatchSource::Fetched,
            batches,
            records,
            bytes: records * 80,
            seen_share: 1.0,
        }];
        window.latencies.intended_to_ack = Hdr::new();
        (1..=records).for_each(|us| window.latencies.intended_to_ack.record_ns(us * 1_000));
        window
    }

    #[test]
    fn a_wait_that_is_twice_as_long_as_foretold_did_not_come_true() {
        let said = Foreseen { value: 20.0, low: 18.0, high: 22.0 };
        for (found_ms, near) in [(20.0, true), (43.0, true), (45.0, false), (9.5, true), (8.5, false)] {
            assert_eq!(is_near(said, found_ms), near, "{found_ms} ms");
        }
        let none = Foreseen { value: 0.0, low: 0.0, high: 0.0 };
        assert!(is_near(none, 0.7) && !is_near(none, 1.5));
    }

    #[test]
    fn windows_of_a_state_are_added_up_and_not_averaged() {
        let state = BatchState::from_windows(&[window(1_000, 100, 1.0), window(3_000, 100, 3.0)]);
        assert_eq!((state.windows, state.acked_records, state.batches), (2, 4_000, 200));
        assert_eq!(state.records_per_batch(), Some(20.0));
        assert_eq!(state.bytes_per_batch(), Some(1_600.0));
        assert_eq!(state.requests_per_s(), Some(50.0));
        assert_eq!(state.batches_per_s(), Some(50.0));
        assert_eq!(state.sent_bytes_per_s(), Some(100_000.0));
        assert_eq!((state.cores(), state.cpu_us_per_record()), (Some(0.5), Some(500.0)));
    }

    fn batches(batches: u64) -> BatchState {
        BatchState {
            seconds: 1.0,
            acked_records: 1_000,
            batches,
            batch_records: 1_000,
            ..BatchState::default()
        }
    }

    #[test]
    fn half_of_what_was_foretold_must_come() {
        let said = |value, own: Option<f64>| BatchForetold {
            batches_per_s: Some(Foreseen { value, low: value, high: value }),
            before: own.map(|own| BatchesBefore { batches_per_s: Some(own), ..BatchesBefore::default() }),
            ..BatchForetold::default()
        };
        // 1,000 a second were to become 200: 600 is half of the way.
        for (after, expected) in [(150, true), (600, true), (610, false), (1_000, false), (1_100, false)] {
            let told = said(200.0, None);
            assert_eq!(told.came_true(&batches(1_000), &batches(after)), Some(expected), "{after}");
            let guard = told.guard(&batches(1_000), &batches(after)).unwrap();
            assert_eq!(guard.held, expected, "{guard:?}");
        }
        // Foretold of another rate: 50 in place of 250 is the same share.
        let other = said(50.0, Some(250.0));
        assert_eq!(other.came_true(&batches(1_000), &batches(600)), Some(true));
        assert_eq!(other.came_true(&batches(1_000), &batches(610)), Some(false));
        assert!(other.guard(&batches(1_000), &batches(610)).unwrap().seen.contains("-80 % foretold, -39 %"));
        // More batches were foretold: no fall is asked for, and the figure is judged all the same.
        let more = said(2_000.0, None);
        assert_eq!(more.guard(&batches(1_000), &batches(1_900)), None);
        assert_eq!(more.came_true(&batches(1_000), &batches(1_900)), Some(true));
        assert_eq!(more.came_true(&batches(1_000), &batches(900)), Some(false));
        assert_eq!(said(1_001.0, None).came_true(&batches(1_000), &batches(1_010)), Some(true));
        assert_eq!(said(1_001.0, None).came_true(&batches(1_000), &batches(300)), Some(false));
        let unknown = said(200.0, None);
        assert_eq!(unknown.came_true(&batches(1_000), &BatchState::default()), None);
        assert!(!unknown.guard(&batches(1_000), &BatchState::default()).unwrap().held);
        assert_eq!(BatchForetold::default().came_true(&batches(1), &batches(1)), None);
    }

    #[test]
    fn a_figure_is_a_number_or_has_a_range() {
        let text = r#"{"batch_bytes": 9.5, "requests_per_s": {"value": 2.0, "low": 1.0, "high": 3.0}}"#;
        let told: BatchForetold = serde_json::from_str(text).unwrap();
        assert_eq!(told.batch_bytes, Some(Foreseen { value: 9.5, low: 9.5, high: 9.5 }));
        assert_eq!(told.requests_per_s.unwrap().high, 3.0);
        let again: BatchForetold = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
        assert_eq!(again, told);
    }

    #[test]
    fn a_quantile_with_too_few_beyond_it_is_not_told() {
        let state = BatchState::from_windows(&[window(1_000, 100, 1.0), window(3_000, 100, 3.0)]);
        assert!(state.latency_us(0.99).is_some() && state.latency_us(0.999_99).is_none());
    }

    #[test]
    fn what_one_window_does_not_know_is_not_known_of_the_state() {
        let mut dumb = window(1_000, 100, 1.0);
        (dumb.facts.target_cpu, dumb.facts.socket_bytes, dumb.facts.produce_requests) = (None, None, None);
        let state = BatchState::from_windows(&[window(1_000, 100, 1.0), dumb]);
        assert_eq!((state.cores(), state.sent_bytes_per_s(), state.requests_per_s()), (None, None, None));
        assert_eq!(BatchState::from_windows(&[]).bytes_per_batch(), None);
    }
}
