//! The shards of one load, made one window again. Exact where the record is exact: histograms add up count by count.

use std::collections::BTreeMap;

use crate::{
    CpuSeconds, EndToEnd, Event, HdrError, Outcome, PackedHdr, SeriesPoint, TopicBatches, Window, WindowFacts,
};

/// Why windows are not the shards of one load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// Nothing to merge.
    #[error("there is no record to merge")]
    Nothing,
    /// A record of a whole load.
    #[error("record {number} is no shard: it holds a whole load of `{variant}`")]
    NotAShard {
        /// Its place among the records given, from 1.
        number: usize,
        /// Its variant.
        variant: String,
    },
    /// Another load than the first record's.
    #[error("shard {index} is part of another load: its {what} differs from shard {first}'s")]
    OtherLoad {
        /// The shard.
        index: u32,
        /// The first record's shard.
        first: u32,
        /// What differs.
        what: &'static str,
    },
    /// One shard twice.
    #[error("shard {index} is there twice")]
    Twice {
        /// The shard.
        index: u32,
    },
    /// Not all shards.
    #[error("of {of} shards these are missing: {missing}; a part of a load is no load")]
    Missing {
        /// Generators.
        of: u32,
        /// Their indices.
        missing: String,
    },
    /// A second's histogram can't be read.
    #[error("shard {index}, second {at_s}: {source}")]
    Histogram {
        /// The shard.
        index: u32,
        /// The second.
        at_s: f64,
        /// What is wrong with it.
        source: HdrError,
    },
}

/// Merges all shards of a load into the window that one generator would have recorded.
///
/// Counts, histograms and the series add up. CPU of the target is the largest that a shard saw: generators on one machine see
/// the same processes, and generators elsewhere see none. Steal and neighbours are the worst of any shard. Percentiles that are
/// no histogram any more (the generator's lag by second) are the worst, too; the split of the latency has none to add and is
/// left out.
///
/// # Errors
/// When the records are not all shards of one load, each once.
pub fn merge(shards: &[Window]) -> Result<Window, MergeError> {
    let shards = in_order(shards)?;
    let first = shards[0];
    let mut merged = first.clone();
    merged.shard = None;
    merged.split = None;
    merged.duration_s = largest(&shards, |shard| shard.duration_s);
    merged.started_unix_ms = shards.iter().map(|shard| shard.started_unix_ms).min().unwrap_or_default();
    merged.outcome = outcome(&shards);
    merged.facts = facts(&shards);
    merged.series = series(&shards)?;
    merged.end_to_end = end_to_end(&shards);
    merged.batches = batches(&shards);
    merged.events = events(&shards);
    for shard in &shards[1..] {
        for (sum, part) in [
            (&mut merged.latencies.intended_to_ack, &shard.latencies.intended_to_ack),
            (&mut merged.latencies.sent_to_ack, &shard.latencies.sent_to_ack),
            (&mut merged.latencies.intended_to_sent, &shard.latencies.intended_to_sent),
        ] {
            sum.merge(part);
        }
    }
    if let Some(environment) = &mut merged.environment
        && shards.len() > 1
    {
        environment.unknown.push(format!("merged of {} generators; the machine is shard 0's", shards.len()));
    }
    Ok(merged)
}

/// The shards by index, after proof that they are all of them and of one load.
fn in_order(shards: &[Window]) -> Result<Vec<&Window>, MergeError> {
    let mut by_index = BTreeMap::new();
    let mut head = None;
    for (number, window) in shards.iter().enumerate() {
        let shard = window
            .shard
            .ok_or_else(|| MergeError::NotAShard { number: number + 1, variant: window.variant.clone() })?;
        let (first, first_window) = *head.get_or_insert((shard, window));
        let other = |what| MergeError::OtherLoad { index: shard.index, first: first.index, what };
        for (same, what) in [
            (shard.of == first.of, "number of shards"),
            (shard.start_unix_ms == first.start_unix_ms, "common start"),
            (window.workload == first_window.workload, "workload"),
            (window.durability == first_window.durability, "durability class"),
        ] {
            if !same {
                return Err(other(what));
            }
        }
        if by_index.insert(shard.index, window).is_some() {
            return Err(MergeError::Twice { index: shard.index });
        }
    }
    let (first, _) = head.ok_or(MergeError::Nothing)?;
    let missing: Vec<String> =
        (0..first.of).filter(|index| !by_index.contains_key(index)).map(|index| index.to_string()).collect();
    if missing.is_empty() {
        Ok(by_index.into_values().collect())
    } else {
        Err(MergeError::Missing { of: first.of, missing: missing.join(", ") })
    }
}

fn largest(shards: &[&Window], value: impl Fn(&Window) -> f64) -> f64 {
    shards.iter().map(|shard| value(shard)).fold(0.0, f64::max)
}

fn index_of(window: &Window) -> u32 {
    window.shard.map_or(0, |shard| shard.index)
}

/// The worst: a load of which one part failed did not run. A saturated part says how far all of them are behind.
fn outcome(shards: &[&Window]) -> Outcome {
    let rank = |outcome: &Outcome| match outcome {
        Outcome::Steady => 0,
        Outcome::Saturated { .. } => 1,
        Outcome::GeneratorLate { .. } => 2,
        Outcome::Failed { .. } => 3,
    };
    let Some(worst) = shards.iter().max_by_key(|shard| rank(&shard.outcome)) else { return Outcome::Steady };
    match &worst.outcome {
        Outcome::Saturated { .. } => Outcome::Saturated {
            backlog_requests: shards
                .iter()
                .map(|shard| match shard.outcome {
                    Outcome::Saturated { backlog_requests } => backlog_requests,
                    _ => 0,
                })
                .sum(),
        },
        Outcome::Failed { reason } => {
            Outcome::Failed { reason: format!("shard {}: {reason}", index_of(worst)) }
        }
        other => other.clone(),
    }
}

fn facts(shards: &[&Window]) -> WindowFacts {
    let sum = |value: fn(&WindowFacts) -> u64| shards.iter().map(|shard| value(&shard.facts)).sum();
    let rate = |value: fn(&WindowFacts) -> f64| shards.iter().map(|shard| value(&shard.facts)).sum();
    let names = |value: fn(&WindowFacts) -> &BTreeMap<String, u64>| {
        let mut all = BTreeMap::new();
        for (name, count) in shards.iter().flat_map(|shard| value(&shard.facts)) {
            *all.entry(name.clone()).or_insert(0) += count;
        }
        all
    };
    let target = shards.iter().filter_map(|shard| shard.facts.target_cpu);
    WindowFacts {
        requests: sum(|facts| facts.requests),
        acked_requests: sum(|facts| facts.acked_requests),
        acked_records: sum(|facts| facts.acked_records),
        acked_bytes: sum(|facts| facts.acked_bytes),
        asked_requests_per_s: rate(|facts| facts.asked_requests_per_s),
        reached_requests_per_s: rate(|facts| facts.reached_requests_per_s),
        errors: names(|facts| &facts.errors),
        target_cpu: target.max_by(|left, right| left.total_s.total_cmp(&right.total_s)),
        generator_cpu: shards
            .iter()
            .fold(CpuSeconds::default(), |all, shard| added(all, shard.facts.generator_cpu)),
        steal_share: largest(shards, |shard| shard.facts.steal_share),
        others_share: largest(shards, |shard| shard.facts.others_share),
        retries: names(|facts| &facts.retries),
        produce_requests: shards.iter().map(|shard| shard.facts.produce_requests).sum(),
    }
}

fn added(left: CpuSeconds, right: CpuSeconds) -> CpuSeconds {
    let total_s = left.total_s + right.total_s;
    let user_s = |cpu: CpuSeconds| {
        if cpu.total_s > 0.0 { cpu.user_share.map(|share| share * cpu.total_s) } else { Some(0.0) }
    };
    let user_s = user_s(left).zip(user_s(right)).map(|(left, right)| left + right);
    CpuSeconds { total_s, user_share: user_s.filter(|_| total_s > 0.0).map(|user_s| user_s / total_s) }
}

fn series(shards: &[&Window]) -> Result<Vec<SeriesPoint>, MergeError> {
    let seconds = shards.iter().map(|shard| shard.series.len()).max().unwrap_or(0);
    (0..seconds).map(|second| point(shards, second)).collect()
}

fn point(shards: &[&Window], second: usize) -> Result<SeriesPoint, MergeError> {
    let mut all = crate::Hdr::new();
    let mut merged = SeriesPoint { at_s: second as f64, ..SeriesPoint::default() };
    for shard in shards {
        let Some(part) = shard.series.get(second) else { continue };
        let latency = part.latency.unpack().map_err(|source| MergeError::Histogram {
            index: index_of(shard),
            at_s: part.at_s,
            source,
        })?;
        all.merge(&latency);
        merged.acked_requests += part.acked_requests;
        merged.failed_requests += part.failed_requests;
        merged.backlog_requests += part.backlog_requests;
        merged.generator_lag_us_p99 = merged.generator_lag_us_p99.max(part.generator_lag_us_p99);
        merged.consumer_lag_records = merged.consumer_lag_records.max(part.consumer_lag_records);
    }
    merged.latency_us_p50 = all.quantile_us(0.5).unwrap_or(0.0);
    merged.latency_us_p99 = all.quantile_us(0.99).unwrap_or(0.0);
    merged.latency_us_max = all.max_us().unwrap_or(0.0);
    merged.latency = PackedHdr::from(&all);
    Ok(merged)
}

fn end_to_end(shards: &[&Window]) -> Option<EndToEnd> {
    let mut parts = shards.iter().filter_map(|shard| shard.end_to_end.as_ref());
    let mut merged = parts.next()?.clone();
    for part in parts {
        merged.latency.merge(&part.latency);
        merged.fetched_records += part.fetched_records;
        merged.fetched_bytes += part.fetched_bytes;
        merged.missing += part.missing;
        merged.missing_latency.merge(&part.missing_latency);
        merged.lag_records_max = merged.lag_records_max.max(part.lag_records_max);
    }
    Some(merged)
}

fn batches(shards: &[&Window]) -> Vec<TopicBatches> {
    let mut merged: Vec<TopicBatches> = Vec::new();
    for part in shards.iter().flat_map(|shard| &shard.batches) {
        match merged.iter_mut().find(|of| of.topic == part.topic && of.source == part.source) {
            Some(of) => {
                let all = of.batches + part.batches;
                let seen = of.seen_share * of.batches as f64 + part.seen_share * part.batches as f64;
                of.seen_share = if all > 0 { seen / all as f64 } else { of.seen_share.min(part.seen_share) };
                of.batches = all;
                of.records += part.records;
                of.bytes += part.bytes;
            }
            None => merged.push(part.clone()),
        }
    }
    merged
}

fn events(shards: &[&Window]) -> Vec<Event> {
    let told = |shard: &Window, event: &Event| Event {
        what: format!("shard {}: {}", index_of(shard), event.what),
        ..event.clone()
    };
    let mut all: Vec<Event> =
        shards.iter().flat_map(|shard| shard.events.iter().map(|event| told(shard, event))).collect();
    all.sort_by(|left, right| left.at_s.total_cmp(&right.at_s));
    all
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Durability, Engine, Hdr, Keys, Latencies, Payload, Schedule, Shard, Sizes, Workload};

    pub(crate) fn workload() -> Workload {
        Workload {
            name: "test".to_owned(),
            engine: Engine::Wire,
            seed: 1,
            schedule: Schedule::Poisson,
            requests_per_s: 300.0,
            records_per_batch: 1,
            record_bytes: 100,
            sizes: Sizes::Fixed,
            payload: Payload::Bytes { compressible_share: 0.5 },
            keys: Keys::None,
            compression: "none".to_owned(),
            connections: 1,
            in_flight: 1,
            partitions: 1,
            partitions_per_request: 1,
            acks: 1,
            idempotent: false,
            consumers: 0,
            warmup_requests: 0,
            duration_s: 2.0,
            timeout_s: 1.0,
            topic_config: BTreeMap::new(),
        }
    }

    /// Latencies of a shard, spread over two seconds, unlike those of the other shards.
    fn latencies_ns(index: u32) -> Vec<u64> {
        (0..200_u64)
            .map(|number| 1_000 * (1 + (number * 7_919 + u64::from(index) * 104_729) % 50_000))
            .collect()
    }

    fn hdr(latencies_ns: &[u64]) -> Hdr {
        let mut hdr = Hdr::new();
        latencies_ns.iter().for_each(|ns| hdr.record_ns(*ns));
        hdr
    }

    fn shard(index: u32, of: u32) -> Window {
        let all = latencies_ns(index);
        let series = all.chunks(100).enumerate().map(|(second, part)| SeriesPoint {
            at_s: second as f64,
            acked_requests: part.len() as u64,
            latency: PackedHdr::from(&hdr(part)),
            backlog_requests: u64::from(index) + 1,
            generator_lag_us_p99: f64::from(index),
            ..SeriesPoint::default()
        });
        Window {
            variant: "target".to_owned(),
            address: "127.0.0.1:9092".to_owned(),
            workload: workload(),
            durability: Durability { acks: 1, storage: "page-cache".to_owned() },
            started_unix_ms: 1_000 + u64::from(index),
            duration_s: 2.0,
            outcome: Outcome::Steady,
            facts: WindowFacts {
                requests: 201,
                acked_requests: 200,
                asked_requests_per_s: 100.5,
                reached_requests_per_s: 100.0,
                errors: BTreeMap::from([("timeout".to_owned(), 1)]),
                target_cpu: (index != 1).then_some(CpuSeconds { total_s: 1.0, user_share: Some(0.5) }),
                generator_cpu: CpuSeconds { total_s: 1.0, user_share: Some(f64::from(index) / 2.0) },
                ..WindowFacts::default()
            },
            latencies: Latencies {
                intended_to_ack: hdr(&all),
                sent_to_ack: hdr(&all),
                intended_to_sent: hdr(&[1]),
            },
            series: series.collect(),
            end_to_end: None,
            batches: Vec::new(),
            split: None,
            events: Vec::new(),
            environment: None,
            shard: Some(Shard { index, of, start_unix_ms: 1_000 }),
            client: None,
            requirements: Vec::new(),
        }
    }

    #[test]
    fn three_shards_say_what_one_generator_would_have_said() {
        // In any order.
        let merged = merge(&[shard(2, 3), shard(0, 3), shard(1, 3)]).unwrap();
        let everything: Vec<u64> = (0..3).flat_map(latencies_ns).collect();
        assert_eq!(merged.latencies.intended_to_ack, hdr(&everything));
        assert_eq!(merged.latencies.intended_to_sent.count(), 3);
        for second in 0..2 {
            let of_second: Vec<u64> =
                (0..3).flat_map(|index| latencies_ns(index)[second * 100..][..100].to_vec()).collect();
            let point = &merged.series[second];
            assert_eq!(point.latency.unpack().unwrap(), hdr(&of_second));
            assert_eq!(Some(point.latency_us_p99), hdr(&of_second).quantile_us(0.99));
            assert_eq!((point.acked_requests, point.backlog_requests), (300, 6));
            assert!((point.generator_lag_us_p99 - 2.0).abs() < f64::EPSILON);
        }
        let facts = &merged.facts;
        assert_eq!((facts.requests, facts.acked_requests, facts.errors["timeout"]), (603, 600, 3));
        assert!((facts.reached_requests_per_s - 300.0).abs() < 1e-9);
        assert_eq!(
            facts.target_cpu.map(|cpu| cpu.total_s),
            Some(1.0),
            "one process was counted more than once"
        );
        assert_eq!(facts.generator_cpu, CpuSeconds { total_s: 3.0, user_share: Some(0.5) });
        assert_eq!((merged.shard, merged.started_unix_ms), (None, 1_000));
    }

    #[test]
    fn the_worst_outcome_is_the_outcome() {
        let with = |outcomes: [Outcome; 2]| {
            let shards: Vec<Window> = outcomes
                .into_iter()
                .zip(0..)
                .map(|(outcome, index)| Window { outcome, ..shard(index, 2) })
                .collect();
            merge(&shards).unwrap().outcome
        };
        let behind = |backlog_requests| Outcome::Saturated { backlog_requests };
        assert_eq!(with([behind(5), behind(7)]), behind(12));
        assert_eq!(with([Outcome::Steady, behind(7)]), behind(7));
        let failed = Outcome::Failed { reason: "gone".to_owned() };
        assert_eq!(with([behind(5), failed]), Outcome::Failed { reason: "shard 1: gone".to_owned() });
    }

    #[test]
    fn what_is_not_one_load_is_refused() {
        let refused = |shards: &[Window]| merge(shards).unwrap_err().to_string();
        assert!(refused(&[]).contains("no record"));
        assert!(refused(&[shard(0, 3), shard(2, 3)]).contains("missing: 1;"));
        assert!(refused(&[shard(0, 2), shard(0, 2)]).contains("shard 0 is there twice"));
        assert!(refused(&[shard(0, 2), shard(1, 3)]).contains("number of shards differs"));
        let whole = Window { shard: None, ..shard(0, 1) };
        assert!(refused(&[whole]).contains("record 1 is no shard"));
        let mut other = shard(1, 2);
        other.workload.seed = 2;
        assert!(refused(&[shard(0, 2), other]).contains("its workload differs from shard 0's"));
    }
}
