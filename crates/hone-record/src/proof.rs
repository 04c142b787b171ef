//! Changes of a load's batches, tried one after the other. Each accepted change becomes part of the state that the next change is compared
//! with.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::comparison::{Comparison, Verdict};
use crate::histogram::{Hdr, SAMPLES_BEYOND};
use crate::machine::Machine;
use crate::replica::Replica;
use crate::whatif::{Foreseen, WhatIf};
use crate::window::{CpuSeconds, Durability, SocketBytes, Window};
use crate::workload::Workload;

/// Outcome of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The change is better, and no guard metric got worse. The next step is compared with it.
    Accepted,
    /// The change was rolled back.
    Rejected,
}

impl Decision {
    /// The word for the ledger; [`ProofStep::outcome`] has the word for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
        }
    }
}

impl ProofStep {
    /// How much a kept change harms the others; `None` if it does not. A change that can't bear the load ranks highest, then one that
    /// breaks a guard metric, then a regression. The cost ratio orders changes of equal rank.
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

    /// The word for people. It separates inconclusive changes from harmful ones.
    pub fn outcome(&self) -> &'static str {
        match (self.decision, self.comparison.as_ref().map(Comparison::verdict)) {
            (Decision::Rejected, Some(Verdict::NotShown)) => "inconclusive",
            (decision, _) => decision.label(),
        }
    }

    /// The ratio of the primary metric, with its confidence interval; `None` without an estimate.
    pub fn worth_in_words(&self) -> Option<String> {
        let estimate = &self.comparison.as_ref().and_then(Comparison::primary)?.estimate;
        Some(format!("{:.3} [{:.3}, {:.3}]", estimate.ratio, estimate.low, estimate.high))
    }
}

impl Proof {
    /// The changes by outcome, in a sentence for each outcome. Accepted changes always have a sentence.
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
            [("Accepted", "accepted"), ("Inconclusive", "inconclusive"), ("Rejected", "rejected")]
                .map(sentence);
        sentences.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

/// A prediction about a step before it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchForetold {
    /// Source of the prediction: a command and its record.
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
    /// Additional wait of a record compared with before, on average; negative for a shorter wait.
    #[serde(deserialize_with = "figure", skip_serializing_if = "Option::is_none")]
    pub added_wait_ms: Option<Foreseen>,
    /// The same figures without the change, from the same source. Predicted ratios refer to these figures, as measured ratios refer to the
    /// measured state before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before: Option<BatchesBefore>,
}

/// Predicted batches without the change, from the source of the prediction.
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

/// A figure is a number, with or without a range.
fn figure<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Foreseen>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "write a number, or a table with value, low and high")]
    enum Figure {
        Number(f64),
        Ranged(Foreseen),
    }
    Ok(Option::<Figure>::deserialize(from)?.map(|figure| match figure {
        Figure::Number(value) => Foreseen { value, low: value, high: value },
        Figure::Ranged(foreseen) => foreseen,
    }))
}

/// A predicted figure with the measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FigureOutcome {
    /// The name for people, with its unit.
    pub what: &'static str,
    /// The predicted figure, with its range.
    pub said: Foreseen,
    /// The measured figure; `None` without a measurement.
    pub found: Option<f64>,
    /// Whether the measured change is at least half of the predicted one; `None` if it can't be computed, or is not judged.
    pub came_true: Option<bool>,
}

/// Smallest predicted change that counts as one. Half of a smaller one would be noise.
const FORETOLD_LEAST: f64 = 0.02;
/// Largest measured change that still confirms a prediction of no change.
const STAYED_MOST: f64 = 0.05;
/// Share of a predicted change that the measurement must reach.
const CAME_LEAST: f64 = 0.5;

impl BatchForetold {
    /// The prediction of a topic's replay about a change.
    ///
    /// # Errors
    /// Returns the reason when the replay has no prediction.
    pub fn of_whatif(whatif: &WhatIf) -> Result<Self, String> {
        if let Some(refused) = &whatif.refused {
            return Err(format!("the replay predicts nothing: {refused}"));
        }
        let Some(predicted) = &whatif.predicted else {
            return Err(
                "the replay covers the current settings only: ask for a change, for example --linger 20ms"
                    .to_owned(),
            );
        };
        // Today by the same rules, since the written batches have neither waits nor requests.
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

    /// Each predicted figure with the measured one. Batches, requests and bytes per batch are confirmed if at least half of the predicted
    /// change was measured. For the wait, the measurement is the whole latency, which includes changes of the broker's part. It is
    /// confirmed within half and twice of the predicted range, or within a millisecond of it.
    pub fn outcomes(&self, before: &BatchState, after: &BatchState) -> Vec<FigureOutcome> {
        let mean_ms = |state: &BatchState| state.latency.mean_us().map(|us| us / 1e3);
        let waited = mean_ms(before).zip(mean_ms(after)).map(|(before, after)| after - before);
        let own = self.before.unwrap_or_default();
        let judged = |what, said: Option<Foreseen>, own: Option<f64>, of: fn(&BatchState) -> Option<f64>| {
            let (said, was, found) = (said?, of(before), of(after));
            let came_true = came_true(said.value, own.or(was), was, found);
            Some(FigureOutcome { what, said, found, came_true })
        };
        let bytes = judged("bytes per batch", self.batch_bytes, own.batch_bytes, BatchState::bytes_per_batch);
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

    /// Whether all judged figures are confirmed; `None` if none can be judged.
    pub fn came_true(&self, before: &BatchState, after: &BatchState) -> Option<bool> {
        let judged: Vec<bool> =
            self.outcomes(before, after).iter().filter_map(|outcome| outcome.came_true).collect();
        (!judged.is_empty()).then(|| judged.iter().all(|came| *came))
    }

    /// The guard that a predicted decrease of the batches adds: at least half of it must be measured. `None` if no decrease is predicted.
    pub fn guard(&self, before: &BatchState, after: &BatchState) -> Option<Guard> {
        let said = self.batches_per_s?;
        let own = self.before.and_then(|own| own.batches_per_s).or_else(|| before.batches_per_s())?;
        let falls = own > 0.0 && said.value / own < 1.0 - FORETOLD_LEAST;
        let outcome = self.outcomes(before, after).into_iter().find(|outcome| outcome.what == BATCHES)?;
        let percent = |share: f64| format!("{:+.0} %", share * 100.0);
        let found = before.batches_per_s().zip(outcome.found).filter(|(was, _)| *was > 0.0);
        falls.then(|| Guard {
            rule: "half of the predicted decrease of batches/s".to_owned(),
            seen: format!(
                "{} predicted, {}",
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

/// Compares predicted and measured changes as ratios, since they may refer to different rates. Half of the way is half of the relative
/// change.
fn came_true(said: f64, own: Option<f64>, was: Option<f64>, found: Option<f64>) -> Option<bool> {
    let ratio = |now: f64, then: f64| (then > 0.0 && now.is_finite()).then(|| now / then - 1.0);
    let (said, found) = (ratio(said, own?)?, ratio(found?, was?)?);
    Some(if said.abs() < FORETOLD_LEAST { found.abs() < STAYED_MOST } else { found / said >= CAME_LEAST })
}

/// Whether a wait in milliseconds is close to the prediction.
fn is_near(said: Foreseen, found_ms: f64) -> bool {
    const APART_MS: f64 = 1.0;
    let (low, high) = (said.low.min(said.high), said.low.max(said.high));
    let within = |low: f64, high: f64| low <= found_ms && found_ms <= high;
    within(low - APART_MS, high + APART_MS)
        || within((low / 2.0).min(low * 2.0), (high / 2.0).max(high * 2.0))
}

/// A guard in addition to the comparator's guard metrics, and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// The rule, for people.
    pub rule: String,
    /// Its values in the state before and in the candidate, for people.
    pub seen: String,
    /// Whether it held.
    pub held: bool,
}

/// Effect of the load in one state of its settings, over all windows of that state in one comparison.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchState {
    /// Number of valid windows.
    pub windows: u32,
    /// Total length of the windows.
    pub seconds: f64,
    /// Latency from intended time to acknowledgement, over all windows.
    pub latency: Hdr,
    /// Records acknowledged.
    pub acked_records: u64,
    /// Failed requests (or failed records of a client).
    pub failed_requests: u64,
    /// CPU of the target; `None` if unknown.
    pub target_cpu: Option<CpuSeconds>,
    /// Bytes through the producers' sockets; `None` if the engine does not report them.
    pub socket_bytes: Option<SocketBytes>,
    /// Produce requests; `None` if the engine does not report them.
    pub produce_requests: Option<u64>,
    /// Batches that were read.
    pub batches: u64,
    /// Records in these batches.
    pub batch_records: u64,
    /// Bytes of these batches, headers included, as written.
    pub batch_bytes: u64,
    /// Share of the batches that was read, 0 to 1.
    pub batches_seen_share: f64,
    /// Records due but not acknowledged at the end of each second: the median of all seconds.
    pub backlog_p50: Option<u64>,
    /// The maximum of the same.
    pub backlog_max: Option<u64>,
    /// The largest consumer lag of each window in records: the median of the windows; `None` without consumers.
    pub lag_records: Option<u64>,
    /// Acknowledged records that never reached a consumer.
    pub missing_records: u64,
    /// Whether its load counts operations, each of which is both a record and a request. It has no single latencies.
    pub counts_operations: bool,
}

impl BatchState {
    /// Sums windows of one state.
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

    /// Batches written per second, extrapolated from the share that was read.
    pub fn batches_per_s(&self) -> Option<f64> {
        self.per_second(self.acked_records as f64 / self.records_per_batch()?)
    }

    /// Share of failed requests, 0 to 1.
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

/// One change, compared with the state of the changes kept so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofStep {
    /// The change as requested, for example `linger=20ms`.
    pub change: String,
    /// Its effect on the load, setting by setting: `client.linger.ms: existing value -> 20`.
    pub words: Vec<String>,
    /// Accepted or rejected.
    pub decision: Decision,
    /// Why, in words.
    pub why: String,
    /// The difference in durability guarantees, if the durability class changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promise: Option<String>,
    /// Guards in addition to the comparator's guard metrics.
    pub guards: Vec<Guard>,
    /// The comparison; `None` if the candidate failed too often.
    pub comparison: Option<Comparison>,
    /// The state before, in this comparison's windows.
    pub before: BatchState,
    /// The candidate, in this comparison's windows.
    pub after: BatchState,
    /// The prediction before the measurement; `None` without one.
    #[serde(default, rename = "predicted", alias = "foretold", skip_serializing_if = "Option::is_none")]
    pub foretold: Option<BatchForetold>,
}

/// All steps, with their common data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// Address of the load's target.
    pub target: String,
    /// Source of arrivals and shape, in words.
    pub load: String,
    /// The load before the first step.
    pub workload: Workload,
    /// The load with all accepted changes.
    pub kept: Workload,
    /// The topic that the load imitates, and the test topic as the load wrote it before the first step. `None` without a topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<Replica>,
    /// The durability guarantee before the first step.
    pub durability: Durability,
    /// The rule of acceptance, in words; written to disk before the first window.
    pub rule: String,
    /// The steps in the order of their trials.
    pub steps: Vec<ProofStep>,
    /// Limits of this proof, in words.
    pub limits: Vec<String>,
    /// The machine.
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
            sizes: Default::default(),
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
        // A prediction at another rate: 50 instead of 250 is the same share.
        let other = said(50.0, Some(250.0));
        assert_eq!(other.came_true(&batches(1_000), &batches(600)), Some(true));
        assert_eq!(other.came_true(&batches(1_000), &batches(610)), Some(false));
        assert!(other.guard(&batches(1_000), &batches(610)).unwrap().seen.contains("-80 % predicted, -39 %"));
        // The prediction is more batches: no decrease is required, but the figure is still judged.
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
