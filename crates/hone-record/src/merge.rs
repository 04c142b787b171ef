//! The shards of one load, merged into one window. The merge is exact where the record is exact: counts and histograms add up.
//! docs/shards.md describes how each field merges. This file builds every structure field by field, so that each new field needs a
//! decision.

use std::collections::BTreeMap;

use crate::histogram::{Hdr, HdrError, PackedHdr};
use crate::window::{
    BatchSource, CpuSeconds, EndToEnd, Environment, Event, Latencies, Outcome, SeriesPoint, TopicBatches,
    Window, WindowFacts,
};
use crate::workload::Workload;

/// Largest number of generators that may share a load.
pub const MOST_SHARDS: u32 = 10_000;
/// Largest number of listed names; further ones are counted.
const MOST_TOLD: usize = 10;

/// Reasons why windows are not the shards of one load.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// The list of records is empty.
    #[error("there is no record to merge")]
    Nothing,
    /// The record is of a whole load.
    #[error("record {number} is not a shard: it holds a whole load of `{variant}`")]
    NotAShard {
        /// Position among the given records, from 1.
        number: usize,
        /// Its variant.
        variant: String,
    },
    /// The shard numbers are impossible.
    #[error(
        "record {number} states that it is shard {index} of {of}: shards count from 0, and a load has at \
         most {MOST_SHARDS}; the record is damaged or not from Hone"
    )]
    OutOfBounds {
        /// Position among the given records, from 1.
        number: usize,
        /// The stated index.
        index: u32,
        /// The stated number of shards.
        of: u32,
    },
    /// The shard is part of another load than the first record.
    #[error("shard {index} is part of another load: its {what} differs from shard {first}'s")]
    OtherLoad {
        /// The shard.
        index: u32,
        /// The first record's shard.
        first: u32,
        /// The differing field.
        what: &'static str,
    },
    /// A shard occurs twice.
    #[error("shard {index} occurs twice")]
    Twice {
        /// The shard.
        index: u32,
    },
    /// Some shards are missing.
    #[error("the load has {of} shards, and these are missing: {missing}; a part of a load can't be merged")]
    Missing {
        /// Generators.
        of: u32,
        /// Their indices.
        missing: String,
    },
    /// The histogram of a second can't be read.
    #[error("shard {index}, second {at_s}: {source}")]
    Histogram {
        /// The shard.
        index: u32,
        /// The second.
        at_s: f64,
        /// The error.
        source: HdrError,
    },
}

/// Merges all shards of a load into the window that one generator would have recorded.
///
/// # Errors
/// Returns an error when the records are not all shards of one load, each once.
pub fn merge(shards: &[Window]) -> Result<Window, MergeError> {
    let shards = in_order(shards)?;
    let first = shards[0];
    let duration_s = largest(&shards, |shard| shard.duration_s);
    let batches = batches(&shards);
    Ok(Window {
        variant: first.variant.clone(),
        address: first.address.clone(),
        workload: workload(&shards),
        durability: first.durability.clone(),
        started_unix_ms: shards.iter().map(|shard| shard.started_unix_ms).min().unwrap_or_default(),
        duration_s,
        outcome: outcome(&shards),
        facts: facts(&shards, duration_s, &batches),
        latencies: latencies(&shards),
        series: series(&shards)?,
        end_to_end: end_to_end(&shards),
        batches,
        // The percentiles of shards can't be added.
        split: first.split.clone().filter(|_| shards.len() == 1),
        events: events(&shards),
        environment: environment(&shards),
        shard: None,
        client: first.client.clone(),
        requirements: Vec::new(),
        outage: None,
    })
}

/// The shards by index, after a check that they are complete and of one load.
fn in_order(shards: &[Window]) -> Result<Vec<&Window>, MergeError> {
    let mut by_index = BTreeMap::new();
    let mut head = None;
    for (number, window) in (1..).zip(shards) {
        let shard =
            window.shard.ok_or_else(|| MergeError::NotAShard { number, variant: window.variant.clone() })?;
        if shard.of > MOST_SHARDS || shard.index >= shard.of {
            return Err(MergeError::OutOfBounds { number, index: shard.index, of: shard.of });
        }
        let (first, first_window) = *head.get_or_insert((shard, window));
        let other = |what| MergeError::OtherLoad { index: shard.index, first: first.index, what };
        for (same, what) in [
            (shard.of == first.of, "number of shards"),
            (shard.start_unix_ms == first.start_unix_ms, "common start"),
            (window.workload == first_window.workload, "workload"),
            (window.durability == first_window.durability, "durability class"),
            (is_same_cluster(window, first_window), "cluster"),
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
        Err(MergeError::Missing { of: first.of, missing: first_names(&missing, ", ") })
    }
}

/// Whether two windows loaded the same cluster, as far as it is known.
fn is_same_cluster(one: &Window, other: &Window) -> bool {
    fn id(window: &Window) -> Option<&String> {
        window.environment.as_ref()?.cluster_id.as_ref()
    }
    id(one).zip(id(other)).is_none_or(|(one, other)| one == other)
}

/// The first names, and the number of the remaining ones.
fn first_names(names: &[String], between: &str) -> String {
    let shown = names[..names.len().min(MOST_TOLD)].join(between);
    match names.len().saturating_sub(MOST_TOLD) {
        0 => shown,
        more => format!("{shown}{between}and {more} more"),
    }
}

fn largest(shards: &[&Window], value: impl Fn(&Window) -> f64) -> f64 {
    shards.iter().map(|shard| value(shard)).fold(0.0, f64::max)
}

/// Records come from files. Impossible numbers must not stop the merge of others.
fn sum<'a>(shards: &[&'a Window], value: impl Fn(&'a Window) -> u64) -> u64 {
    shards.iter().fold(0, |sum: u64, shard| sum.saturating_add(value(shard)))
}

fn index_of(window: &Window) -> u32 {
    window.shard.map_or(0, |shard| shard.index)
}

/// The load of all generators. The schedule is already the common one; the other numbers are each generator's own.
fn workload(shards: &[&Window]) -> Workload {
    let all = |of: fn(&Workload) -> u32| {
        shards.iter().fold(0, |sum: u32, shard| sum.saturating_add(of(&shard.workload)))
    };
    Workload {
        connections: all(|workload| workload.connections),
        consumers: all(|workload| workload.consumers),
        warmup_requests: sum(shards, |shard| shard.workload.warmup_requests),
        warmup_limit_s: largest(shards, |shard| shard.workload.warmup_limit_s),
        ..shards[0].workload.clone()
    }
}

/// The worst outcome: a load did not run if one part failed. For a saturated part the text states the backlog of all parts.
fn outcome(shards: &[&Window]) -> Outcome {
    let failed: Vec<String> = shards
        .iter()
        .filter_map(|shard| match &shard.outcome {
            Outcome::Failed { reason } => Some(format!("shard {}: {reason}", index_of(shard))),
            _ => None,
        })
        .collect();
    if !failed.is_empty() {
        return Outcome::Failed { reason: first_names(&failed, "; ") };
    }
    let late = shards.iter().filter_map(|shard| match &shard.outcome {
        Outcome::GeneratorLate { lateness_us_p99, limit_us } => Some((*lateness_us_p99, *limit_us)),
        _ => None,
    });
    if let Some((lateness_us_p99, limit_us)) = late.max_by(|one, other| one.0.total_cmp(&other.0)) {
        return Outcome::GeneratorLate { lateness_us_p99, limit_us };
    }
    let is_saturated = |shard: &&Window| matches!(shard.outcome, Outcome::Saturated { .. });
    if !shards.iter().any(is_saturated) {
        return Outcome::Steady;
    }
    let behind = |shard: &Window| match shard.outcome {
        Outcome::Saturated { backlog_requests } => backlog_requests,
        _ => shard.series.last().map_or(0, |last| last.backlog_requests),
    };
    Outcome::Saturated { backlog_requests: sum(shards, behind) }
}

fn facts(shards: &[&Window], duration_s: f64, batches: &[TopicBatches]) -> WindowFacts {
    let names = |value: fn(&WindowFacts) -> &BTreeMap<String, u64>| {
        let mut all: BTreeMap<String, u64> = BTreeMap::new();
        for (name, count) in shards.iter().flat_map(|shard| value(&shard.facts)) {
            let sum = all.entry(name.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        all
    };
    // A rate is a count divided by the shard's own length. The merged rate is the sum of counts divided by the common length.
    let rate = |value: fn(&WindowFacts) -> f64| {
        let count: f64 = shards.iter().map(|shard| value(&shard.facts) * shard.duration_s).sum();
        count / duration_s.max(f64::MIN_POSITIVE)
    };
    let target = shards.iter().filter_map(|shard| shard.facts.target_cpu);
    let acked_records = sum(shards, |shard| shard.facts.acked_records);
    WindowFacts {
        requests: sum(shards, |shard| shard.facts.requests),
        acked_requests: sum(shards, |shard| shard.facts.acked_requests),
        acked_records,
        acked_bytes: read_back_bytes(batches, acked_records)
            .unwrap_or_else(|| sum(shards, |shard| shard.facts.acked_bytes)),
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
        produce_requests: shards.iter().try_fold(0, |sum: u64, shard| {
            shard.facts.produce_requests.map(|requests| sum.saturating_add(requests))
        }),
        start_slip_ms: largest(shards, |shard| shard.facts.start_slip_ms),
        answer_times: shards
            .iter()
            .filter_map(|shard| shard.facts.answer_times)
            .reduce(crate::window::AnswerTimes::and),
        socket_bytes: shards.iter().try_fold(crate::window::SocketBytes::default(), |sum, shard| {
            shard.facts.socket_bytes.map(|bytes| crate::window::SocketBytes {
                sent: sum.sent.saturating_add(bytes.sent),
                received: sum.received.saturating_add(bytes.received),
            })
        }),
        stalls: shards
            .iter()
            .map(|shard| shard.facts.stalls.clone())
            .reduce(|all, stalls| Some(all?.and(&stalls?)))
            .flatten(),
        // A ramp search is never shared. Shards do not observe an idle target, since one of them would do so during another's warm-up.
        steps: Vec::new(),
        idle_cores: None,
        target_memory: shards
            .iter()
            .filter_map(|shard| shard.facts.target_memory)
            .max_by_key(|memory| memory.peak_bytes),
        warm_up: None,
        compiling_share: shards.iter().filter_map(|shard| shard.facts.compiling_share).reduce(f64::max),
        target_busy: shards
            .iter()
            .filter_map(|shard| shard.facts.target_busy.clone())
            .max_by(|left, right| left.busy_s.total_cmp(&right.busy_s)),
        throttling: shards
            .iter()
            .filter_map(|shard| shard.facts.throttling)
            .max_by_key(|limit| limit.throttled_periods),
    }
}

/// The batches of a client's records are known from the topic only, and one shard read it for all.
fn read_back_bytes(batches: &[TopicBatches], records: u64) -> Option<u64> {
    let fetched = batches.iter().find(|batches| batches.source == BatchSource::Fetched)?;
    let bytes = u128::from(fetched.bytes) * u128::from(records);
    u64::try_from(bytes.checked_div(fetched.records.into())?).ok()
}

fn added(left: CpuSeconds, right: CpuSeconds) -> CpuSeconds {
    let total_s = left.total_s + right.total_s;
    let user_s = |cpu: CpuSeconds| {
        if cpu.total_s > 0.0 { cpu.user_share.map(|share| share * cpu.total_s) } else { Some(0.0) }
    };
    let user_s = user_s(left).zip(user_s(right)).map(|(left, right)| left + right);
    CpuSeconds { total_s, user_share: user_s.filter(|_| total_s > 0.0).map(|user_s| user_s / total_s) }
}

fn latencies(shards: &[&Window]) -> Latencies {
    let all = |of: fn(&Latencies) -> &Hdr| {
        let mut all = Hdr::new();
        shards.iter().for_each(|shard| all.merge(of(&shard.latencies)));
        all
    };
    Latencies {
        intended_to_ack: all(|latencies| &latencies.intended_to_ack),
        sent_to_ack: all(|latencies| &latencies.sent_to_ack),
        intended_to_sent: all(|latencies| &latencies.intended_to_sent),
        own_lateness: all(|latencies| &latencies.own_lateness),
    }
}

fn series(shards: &[&Window]) -> Result<Vec<SeriesPoint>, MergeError> {
    let seconds = shards.iter().map(|shard| shard.series.len()).max().unwrap_or(0);
    (0..seconds).map(|second| point(shards, second)).collect()
}

fn point(shards: &[&Window], second: usize) -> Result<SeriesPoint, MergeError> {
    let parts: Vec<(u32, &SeriesPoint)> =
        shards.iter().filter_map(|shard| Some((index_of(shard), shard.series.get(second)?))).collect();
    let mut all = Hdr::new();
    for (index, part) in &parts {
        let unreadable = |source| MergeError::Histogram { index: *index, at_s: part.at_s, source };
        all.merge(&part.latency.unpack().map_err(unreadable)?);
    }
    let of_all = || parts.iter().map(|(_, part)| *part);
    let sum =
        |value: fn(&SeriesPoint) -> u64| of_all().fold(0, |sum: u64, part| sum.saturating_add(value(part)));
    let length_s = of_all().map(|part| part.length_s.unwrap_or(1.0)).fold(0.0, f64::max);
    Ok(SeriesPoint {
        at_s: second as f64,
        acked_requests: sum(|part| part.acked_requests),
        latency_us_p50: all.quantile_us(0.5).unwrap_or(0.0),
        latency_us_p99: all.quantile_us(0.99).unwrap_or(0.0),
        latency_us_max: all.max_us().unwrap_or(0.0),
        backlog_requests: sum(|part| part.backlog_requests),
        latency: PackedHdr::from(&all),
        failed_requests: sum(|part| part.failed_requests),
        generator_lag_us_p99: of_all().map(|part| part.generator_lag_us_p99).fold(0.0, f64::max),
        consumer_lag_records: of_all().filter_map(|part| part.consumer_lag_records).max(),
        length_s: (length_s < 1.0).then_some(length_s),
    })
}

fn end_to_end(shards: &[&Window]) -> Option<EndToEnd> {
    let mut parts = shards.iter().filter_map(|shard| shard.end_to_end.as_ref());
    let first = parts.next()?.clone();
    Some(parts.fold(first, |mut all, part| {
        all.latency.merge(&part.latency);
        all.missing_latency.merge(&part.missing_latency);
        let fetches = all.fetches.zip(part.fetches.as_ref()).map(|(mut all, part)| {
            all.merge(part);
            all
        });
        EndToEnd {
            latency: all.latency,
            consumers: all.consumers.saturating_add(part.consumers),
            fetched_records: all.fetched_records.saturating_add(part.fetched_records),
            fetched_bytes: all.fetched_bytes.saturating_add(part.fetched_bytes),
            missing: all.missing.saturating_add(part.missing),
            is_group: all.is_group,
            more_groups: all.more_groups,
            lag_records_max: all.lag_records_max.max(part.lag_records_max),
            lag_records_p50: all.lag_records_p50.max(part.lag_records_p50),
            lag_records_p99: all.lag_records_p99.max(part.lag_records_p99),
            lag_records_end: all.lag_records_end.max(part.lag_records_end),
            missing_latency: all.missing_latency,
            fetches,
            catch_up: all.catch_up.zip(part.catch_up).map(|(all, part)| all.with(part)),
            rebalances: all.rebalances.zip(part.rebalances).map(|(all, part)| all.and(part)),
            // Processors belong to one generator.
            transactions: None,
            deliveries: all.deliveries.zip(part.deliveries).map(|(all, part)| all.and(part)),
        }
    }))
}

/// The sums of the shards' own batches. Batches read from the topic include all shards' batches and count once.
fn batches(shards: &[&Window]) -> Vec<TopicBatches> {
    let mut merged: Vec<TopicBatches> = Vec::new();
    for part in shards.iter().flat_map(|shard| &shard.batches) {
        let known = merged.iter_mut().find(|of| of.topic == part.topic && of.source == part.source);
        match (known, part.source) {
            (None, _) => merged.push(part.clone()),
            (Some(of), BatchSource::OwnFrames) => {
                let there = |batches: &TopicBatches| batches.batches as f64 / batches.seen_share;
                let all = there(of) + there(part);
                of.batches = of.batches.saturating_add(part.batches);
                of.seen_share = if all > 0.0 && all.is_finite() {
                    of.batches as f64 / all
                } else {
                    of.seen_share.min(part.seen_share)
                };
                of.records = of.records.saturating_add(part.records);
                of.bytes = of.bytes.saturating_add(part.bytes);
                of.sizes.add_all(&part.sizes);
            }
            (Some(of), BatchSource::Fetched) if part.batches > of.batches => *of = part.clone(),
            (Some(_), BatchSource::Fetched) => {}
        }
    }
    merged
}

fn events(shards: &[&Window]) -> Vec<Event> {
    let labelled = |shard: &Window, event: &Event| Event {
        what: format!("shard {}: {}", index_of(shard), event.what),
        ..event.clone()
    };
    let mut all: Vec<Event> =
        shards.iter().flat_map(|shard| shard.events.iter().map(|event| labelled(shard, event))).collect();
    all.sort_by(|left, right| left.at_s.total_cmp(&right.at_s));
    all
}

/// The first shard's environment, with the pressure of the most loaded machine.
fn environment(shards: &[&Window]) -> Option<Environment> {
    let mut known = shards.iter().filter_map(|shard| Some((index_of(shard), shard.environment.as_ref()?)));
    let (first, environment) = known.next()?;
    let mut merged = environment.clone();
    for (index, other) in known {
        for (resource, share) in &other.pressure {
            let worst = merged.pressure.entry(resource.clone()).or_default();
            *worst = worst.max(*share);
        }
        let fresh = other.unknown.iter().filter(|unknown| !environment.unknown.contains(unknown));
        merged.unknown.extend(fresh.map(|unknown| format!("shard {index}: {unknown}")));
    }
    if shards.len() > 1 {
        let count = shards.len();
        merged.unknown.push(format!("merged of {count} generators; the machine is shard {first}'s"));
    }
    let client = &shards[0].client;
    let others =
        shards.iter().filter(|shard| shard.client != *client).map(|shard| index_of(shard).to_string());
    let others: Vec<String> = others.collect();
    if !others.is_empty() {
        let others = first_names(&others, ", ");
        merged.unknown.push(format!(
            "the client is shard 0's; these shards had another client or other settings: {others}"
        ));
    }
    Some(merged)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::histogram::Hdr;
    use crate::window::{Durability, Latencies, Shard};
    use crate::workload::{Engine, Keys, Payload, Schedule, Sizes, Workload};

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
            topics: crate::TopicShares::default(),
            partitions: 1,
            partitions_per_request: 1,
            acks: 1,
            idempotent: false,
            consumers: 0,
            consumer_group: false,
            consumer_groups: 1,
            group_protocol: crate::GroupProtocol::Assigned,
            rebalance_every_s: 0.0,
            processing: crate::Processing::default(),
            fetch: crate::FetchLimits::default(),
            read_from: crate::ReadFrom::End,
            backlog_bytes: 0,
            warmup_requests: 0,
            warmup_limit_s: 0.0,
            duration_s: 2.0,
            timeout_s: 1.0,
            topic_config: BTreeMap::new(),
            replication_factor: None,
            recording: None,
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

    pub(crate) fn shard(index: u32, of: u32) -> Window {
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
                own_lateness: hdr(&[1]),
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
            outage: None,
        }
    }

    #[test]
    fn three_shards_say_what_one_generator_would_have_said() {
        // In any order.
        let merged = merge(&[shard(2, 3), shard(0, 3), shard(1, 3)]).unwrap();
        let everything: Vec<u64> = (0..3).flat_map(latencies_ns).collect();
        assert_eq!(merged.latencies.intended_to_ack, hdr(&everything));
        assert_eq!(merged.latencies.intended_to_sent.count(), 3);
        assert_eq!(merged.latencies.own_lateness.count(), 3);
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
        // The steady one was one request behind at the end of its last second.
        assert_eq!(with([Outcome::Steady, behind(7)]), behind(8));
        let late = |lateness_us_p99| Outcome::GeneratorLate { lateness_us_p99, limit_us: 1.0 };
        assert_eq!(with([late(9.0), late(3.0)]), late(9.0));
        let failed = Outcome::Failed { reason: "gone".to_owned() };
        assert_eq!(with([behind(5), failed]), Outcome::Failed { reason: "shard 1: gone".to_owned() });
    }

    #[test]
    fn what_is_not_one_load_is_refused() {
        let refused = |shards: &[Window]| merge(shards).unwrap_err().to_string();
        assert!(refused(&[]).contains("no record"));
        assert!(refused(&[shard(0, 3), shard(2, 3)]).contains("missing: 1;"));
        assert!(refused(&[shard(0, 2), shard(0, 2)]).contains("shard 0 occurs twice"));
        assert!(refused(&[shard(0, 2), shard(1, 3)]).contains("number of shards differs"));
        let whole = Window { shard: None, ..shard(0, 1) };
        assert!(refused(&[whole]).contains("record 1 is not a shard"));
        let mut other = shard(1, 2);
        other.workload.seed = 2;
        assert!(refused(&[shard(0, 2), other]).contains("its workload differs from shard 0's"));
    }
}
