//! Proposes what to try next, from the state that was measured and from the cost and gain of earlier changes. Pure: it only
//! ranks.

use hone_format::{exact, measured};
use hone_jvm::advice::Advice;
use hone_record::{Altitude, BatchState, Engine, Hope, Keys, Workload};

use super::candidate::Candidate;
use crate::batch::caching::FlushBounds;

/// A state and what Hone knows about its target.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub(crate) state: &'a BatchState,
    /// The load.
    pub workload: &'a Workload,
    /// CPU cost per request and per record, fitted to the earlier states.
    pub costs: Costs,
    /// The tightest latency limit among your rules, in milliseconds.
    pub(crate) latency_limit_ms: Option<f64>,
    /// What the broker's own settings are.
    pub(crate) broker: &'a BrokerSettings,
    /// Cores of the machine that the broker runs on, as far as it is this one.
    pub(crate) cores: u32,
    /// The weaker durability guarantees that are allowed; `None` where the guarantee has to stay.
    pub(crate) lax: Option<Lax>,
    /// What the command line of a Java service calls for; empty for any other target.
    pub(crate) jvm: &'a [Advice],
}

/// Settings of a broker that are in force for all topics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BrokerSettings {
    /// The codec to which its default recompresses every batch. `None`: it keeps the producer's codec, or the default is unknown.
    pub codec: Option<String>,
    /// Its pools of threads that have a size; none for a broker that has no such setting.
    pub pools: Vec<(Pool, u32)>,
}

/// A pool of threads of Apache Kafka. Its size can change while the broker runs, to at most twice as many at a time
/// (`DynamicThreadPool` of `kafka.server`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    /// They serve requests.
    Io,
    /// They read and write sockets.
    Network,
}

impl Pool {
    pub(crate) const ALL: [Self; 2] = [Self::Io, Self::Network];

    /// Its setting.
    pub(crate) fn setting(self) -> &'static str {
        match self {
            Self::Io => "num.io.threads",
            Self::Network => "num.network.threads",
        }
    }

    /// Kafka's default.
    fn usual(self) -> u32 {
        match self {
            Self::Io => 8,
            Self::Network => 3,
        }
    }
}

/// Ways to acknowledge earlier, where the user allows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lax {
    /// Whether the broker supports write caching and leaves it off for topics that do not ask for it.
    pub caches: bool,
}

/// The cost of a produce request and of a record to the target, in microseconds of CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    pub(crate) request_us: f64,
    pub(crate) record_us: f64,
    /// Whether they were fitted to states of this run.
    pub(crate) is_measured: bool,
}

/// The default before any measurement. Only the proportion matters: a request weighs as much as thirty records. It follows the
/// embedded broker, where a request takes 13 us and a record within a batch less than half of one.
const GUESS: Costs = Costs { request_us: 15.0, record_us: 0.5, is_measured: false };
/// Two states must differ by this factor in records per request, or the two costs can't be separated.
const APART: f64 = 1.3;
/// Lingers to try, in milliseconds.
const LINGERS_MS: [f64; 6] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
/// A longer linger is only worth its wait if the next shorter one brings less than this share of the longer one's gain.
const MOST_OF_IT: f64 = 0.8;
/// Share of a rule's latency limit that a linger may take. The rest is for sending.
const OF_THE_LIMIT: f64 = 0.5;
/// A mean batch above this share of its limit counts as cut off by the limit.
const NEAR_LIMIT: f64 = 0.7;
/// Expected gain of avoiding recompression. A broker that recompresses every batch spends most of its CPU on that; this assumes a
/// third.
const REPACKING: f64 = 0.33;
/// Expected gain of a codec where there is none: fewer bytes are read, written and checked. A deliberately low guess.
const PACKING: f64 = 0.02;
/// Expected gain of an earlier acknowledgement. A deliberately low guess: it mostly saves waiting, not CPU.
const EARLIER: f64 = 0.05;
/// Expected gain of more threads. It only ranks: no source has a figure.
const MORE_THREADS: f64 = 0.06;
/// A change with a smaller expected gain is not proposed.
pub(crate) const LEAST_HOPE: f64 = 0.01;

impl Costs {
    /// A least-squares fit over the states' costs, each as CPU and requests per record, with no cost below zero.
    pub(crate) fn from_states(states: &[BatchState]) -> Self {
        let points: Vec<(f64, f64)> = states
            .iter()
            .filter_map(|state| {
                let requests = state.requests_per_s()? * state.seconds / state.acked_records.max(1) as f64;
                Some((requests, state.cpu_us_per_record()?))
            })
            .collect();
        let all = || points.iter().map(|point| point.0).filter(|requests| *requests > 0.0);
        let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
        if most < least * APART {
            return GUESS;
        }
        let count = points.len() as f64;
        let sum = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let (x, y, xx, xy) = (
            sum(|point| point.0),
            sum(|point| point.1),
            sum(|point| point.0 * point.0),
            sum(|point| point.0 * point.1),
        );
        let slope = (count * xy - x * y) / (count * xx - x * x);
        let (request_us, record_us) = match (slope, (y - slope * x) / count) {
            (slope, _) if slope <= 0.0 => (0.0, y / count),
            (_, rest) if rest <= 0.0 => (xy / xx, 0.0),
            both => both,
        };
        Self { request_us, record_us, is_measured: true }
    }

    /// Share of the CPU that is saved when a record takes `to` requests instead of `from`.
    fn saved(self, now: f64, then: f64) -> f64 {
        let of = |requests: f64| self.request_us * requests + self.record_us;
        if of(now) > 0.0 { (1.0 - of(then) / of(now)).clamp(0.0, 1.0) } else { 0.0 }
    }

    fn words(self) -> String {
        let what = format!(
            "a request costs {} µs and a record {} µs",
            measured(self.request_us),
            measured(self.record_us)
        );
        if self.is_measured {
            format!("estimated from the states so far, {what}")
        } else {
            format!(
                "as a first guess, \
             {what}"
            )
        }
    }
}

/// Changes that may help, the largest expected gain first. Loads of counted operations get none. Loads that make no batches of
/// their own only get changes of the broker.
pub(crate) fn propose(seen: &Seen<'_>, allowed: &[Altitude]) -> Vec<Candidate> {
    if seen.workload.engine.operations().is_some() {
        return Vec::new();
    }
    let batches = makes_batches(&seen.workload.engine);
    let may = |candidate: &Candidate| {
        let can = batches || candidate.altitude != Altitude::Client;
        can && allowed.contains(&candidate.altitude) && candidate.hope.share >= LEAST_HOPE
    };
    let of_batches = [linger(seen), batch_size(seen), broker_codec(seen), codec(seen), acks(seen)];
    let mut found: Vec<Candidate> = of_batches
        .into_iter()
        .flatten()
        .chain(topic_codec(seen))
        .chain(write_caching(seen))
        .chain(virtual_machine(seen))
        .chain(threads(seen))
        .filter_map(|(setting, hope)| Candidate::of_settings(&[setting], hope).ok())
        .filter(may)
        .map(Candidate::by_hone)
        .collect();
    found.sort_by(|one, other| other.hope.share.total_cmp(&one.hope.share));
    found
}

/// Settings of a Java service's virtual machine. No source states a gain for a service that nobody knows, so the share only ranks.
fn virtual_machine(seen: &Seen<'_>) -> impl Iterator<Item = Setting> {
    let setting = |advice: &Advice| {
        (format!("jvm.{}={}", advice.name, advice.value), Hope::unsaid(advice.share, advice.why.clone()))
    };
    seen.jvm.iter().map(setting)
}

/// Pools with fewer threads than cores, and than Kafka's default.
fn threads(seen: &Seen<'_>) -> impl Iterator<Item = Setting> {
    let cores = seen.cores;
    let few = seen.broker.pools.iter().filter(move |(pool, count)| *count < pool.usual().min(cores));
    few.map(move |(pool, count)| {
        let (name, usual) = (pool.setting(), pool.usual());
        let why = format!("{cores} cores have {count} in {name}; Kafka's default is {usual}");
        (format!("broker.{name}={}", (count * 2).clamp(1, usual)), Hope::unsaid(MORE_THREADS, why))
    })
}

/// Whether a client makes the load's batches, so that client settings apply.
fn makes_batches(engine: &Engine) -> bool {
    matches!(engine, Engine::Librdkafka { .. } | Engine::Command { .. })
}

/// The largest number of changes that a rule can propose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AtMost {
    pub count: u32,
    /// One of these changes, or a typical one, with all that it sets. `forbid` is checked against it.
    pub example: String,
    what: &'static str,
}

impl AtMost {
    /// Settings of a Java service's virtual machine; `None` without any.
    pub(crate) fn virtual_machine(count: u32) -> Option<Self> {
        let what = "JVM setting";
        (count > 0).then(|| Self { count, example: "jvm.gc=g1".to_owned(), what })
    }

    /// Larger pools of a broker's threads on a machine with these cores; `None` for a single one.
    pub(crate) fn threads(cores: u32) -> Option<Self> {
        let doubled = |pool: Pool| {
            let wanted = pool.usual().min(cores);
            std::iter::successors(Some(1), |count| Some(count * 2))
                .take_while(|count| *count < wanted)
                .count()
        };
        let count = Pool::ALL.into_iter().map(doubled).sum::<usize>() as u32;
        let (example, what) = ("broker.num.io.threads=2".to_owned(), "larger thread pool");
        (count > 0).then_some(Self { count, example, what })
    }

    /// The count in words.
    pub(crate) fn words(&self) -> String {
        format!("{} {}{}", self.count, self.what, if self.count == 1 { "" } else { "s" })
    }
}

/// The largest number of changes that the rules can propose in turn. A rule that has helped is applied again, so each longer
/// linger may follow. The default codec of a running cluster is not known before Hone queries it.
pub(crate) fn at_most(
    workload: &Workload,
    allowed: &[Altitude],
    latency_limit_ms: Option<f64>,
    durability: bool,
    is_cluster: bool,
) -> Vec<AtMost> {
    if workload.engine.operations().is_some() {
        return Vec::new();
    }
    let of_topic = workload.topic_config.get("compression.type");
    let packs_anew = of_topic.is_some_and(|codec| !is_kept(codec, &workload.compression));
    let calls_for_codec = packs_anew || workload.compression == "none" || (is_cluster && of_topic.is_none());
    let of_client = allowed.contains(&Altitude::Client) && makes_batches(&workload.engine);
    let of_broker = allowed.contains(&Altitude::Broker);
    let lingers = open_lingers(workload, latency_limit_ms).count() as u32;
    let caching = caching_setting();
    let all = [
        (of_client, lingers, "linger=1ms", "linger"),
        (of_client, larger_batches(workload), "batch-size=1MiB", "batch size"),
        (of_client, u32::from(calls_for_codec), "codec=lz4", "codec"),
        (of_client && durability, u32::from(may_wait_for_less(workload)), "acks=1", "acks"),
        (of_broker, u32::from(packs_anew), "topic.compression.type=producer", "codec of the topic"),
        (
            of_broker && durability,
            u32::from(waits_for_all(workload) && !has_caching(workload)),
            &*caching,
            "write caching",
        ),
    ];
    let may = all.into_iter().filter(|(may, count, ..)| *may && *count > 0);
    may.map(|(_, count, example, what)| AtMost { count, example: example.to_owned(), what }).collect()
}

/// How many times the limit can still be raised.
fn larger_batches(workload: &Workload) -> u32 {
    std::iter::successors(larger_batch(batch_limit(workload)), |limit| larger_batch(*limit)).count() as u32
}

/// The next limit to try, four times as large. It stops at librdkafka's own limit: its messages are no larger, whatever its
/// batches may be.
fn larger_batch(limit: f64) -> Option<f64> {
    const MOST_BYTES: f64 = 1e6;
    (limit > 0.0 && limit < MOST_BYTES).then_some(limit * 4.0)
}

type Setting = (String, Hope);

/// Records per second that one producer has for one batch. Without keys a producer fills one partition at a time.
fn records_per_batch_per_s(seen: &Seen<'_>) -> f64 {
    let of_all = seen.workload.requests_per_s * f64::from(seen.workload.records_per_batch);
    let of_one = of_all / f64::from(seen.workload.connections.max(1));
    // One request of Java's producer or of franz-go carries the head batch of every partition of the broker.
    let spreads =
        matches!(seen.workload.engine, Engine::Librdkafka { .. }) && seen.workload.keys != Keys::None;
    if spreads { of_one / f64::from(seen.workload.partitions.max(1)) } else { of_one }
}

fn linger(seen: &Seen<'_>) -> Option<Setting> {
    let now = requests_per_record(seen.state)?;
    let (rate, linger_ms) = (records_per_batch_per_s(seen), linger_ms(seen.workload));
    let saved = |ms: f64| seen.costs.saved(now, now.min(1.0 / (1.0 + rate * ms / 1e3)));
    let open = || open_lingers(seen.workload, seen.latency_limit_ms);
    let best = open().map(saved).fold(0.0, f64::max);
    let chosen = open().find(|ms| saved(*ms) >= MOST_OF_IT * best)?;
    let why = format!(
        "{} records per request at a linger of {} ms; {} ms would gather {}; {}",
        measured(1.0 / now),
        exact(linger_ms),
        exact(chosen),
        measured(1.0 + rate * chosen / 1e3),
        seen.costs.words()
    );
    Some((format!("linger={chosen}ms"), Hope::new(saved(chosen), why)))
}

/// The lingers that are longer than the load's and leave time for sending.
fn open_lingers(workload: &Workload, latency_limit_ms: Option<f64>) -> impl Iterator<Item = f64> {
    let now_ms = linger_ms(workload);
    let most_ms = latency_limit_ms.map_or(f64::MAX, |limit_ms| limit_ms * OF_THE_LIMIT);
    LINGERS_MS.into_iter().filter(move |ms| *ms > now_ms && *ms <= most_ms)
}

fn batch_size(seen: &Seen<'_>) -> Option<Setting> {
    let (limit, mean) = (batch_limit(seen.workload), seen.state.bytes_per_batch()?);
    if mean < NEAR_LIMIT * limit {
        return None;
    }
    let now = requests_per_record(seen.state)?;
    let larger = larger_batch(limit)? as u64;
    let why = format!(
        "batches of {} bytes reach their limit of {} bytes; {}",
        measured(mean),
        exact(limit),
        seen.costs.words()
    );
    Some((format!("batch-size={larger}"), Hope::new(seen.costs.saved(now, now / 4.0), why)))
}

/// The broker recompresses batches whose codec differs from the topic's.
fn topic_codec(seen: &Seen<'_>) -> Vec<Setting> {
    let Some(codec) = seen.workload.topic_config.get("compression.type") else { return Vec::new() };
    if is_kept(codec, &seen.workload.compression) {
        return Vec::new();
    }
    let why = format!(
        "the topic has compression.type={codec} and producers send {}: the broker recompresses every batch",
        seen.workload.compression
    );
    let hope = |share: f64| Hope::new(share, why.clone());
    // If the producers compress, the topic stays as small as it is.
    vec![
        (format!("codec={codec}"), hope(REPACKING)),
        ("topic.compression.type=producer".to_owned(), hope(REPACKING * MOST_OF_IT)),
    ]
}

/// The same for the broker's default codec, for topics without a codec of their own.
fn broker_codec(seen: &Seen<'_>) -> Option<Setting> {
    let codec = seen.broker.codec.as_deref()?;
    if seen.workload.topic_config.contains_key("compression.type")
        || is_kept(codec, &seen.workload.compression)
    {
        return None;
    }
    let why = format!(
        "the broker has compression.type={codec} and producers send {}: it recompresses every batch",
        seen.workload.compression
    );
    Some((format!("codec={codec}"), Hope::new(REPACKING, why)))
}

fn is_kept(topic: &str, sent: &str) -> bool {
    topic == "producer" || topic == sent || (topic == "uncompressed" && sent == "none")
}

fn codec(seen: &Seen<'_>) -> Option<Setting> {
    let repacks = seen.workload.topic_config.contains_key("compression.type") || seen.broker.codec.is_some();
    if seen.workload.compression != "none" || repacks {
        return None;
    }
    let why = "nothing is compressed: a codec means fewer bytes to read, write, check and copy; the \
         objective does not include the producers' cost of compressing";
    Some(("codec=lz4".to_owned(), Hope::new(PACKING, why)))
}

/// An acknowledgement by the leader alone, where the user allows it.
fn acks(seen: &Seen<'_>) -> Option<Setting> {
    seen.lax.filter(|_| may_wait_for_less(seen.workload))?;
    let why = "acknowledgements wait for every in-sync replica (acks=all), and durability = true allows the \
         leader's memory; acknowledged records are lost if the leader fails before they are replicated";
    Some(("acks=1".to_owned(), Hope::new(EARLIER, why)))
}

/// An acknowledgement from memory, where the user allows it.
fn write_caching(seen: &Seen<'_>) -> Option<Setting> {
    seen.lax.filter(|lax| lax.caches && waits_for_all(seen.workload) && !has_caching(seen.workload))?;
    let FlushBounds { flush_ms, flush_bytes } = FlushBounds::USUAL;
    let why = format!(
        "acknowledgements wait for a flush, and durability = true allows memory; an outage of a majority of \
         the replicas loses up to {flush_ms} ms or {flush_bytes} bytes of acknowledged records per partition \
         (hone batch caching)"
    );
    Some((caching_setting(), Hope::new(EARLIER, why)))
}

/// Write caching with bounds for the records that may be lost.
fn caching_setting() -> String {
    let FlushBounds { flush_ms, flush_bytes } = FlushBounds::USUAL;
    format!("topic.write.caching=true,topic.flush.ms={flush_ms},topic.flush.bytes={flush_bytes}")
}

fn waits_for_all(workload: &Workload) -> bool {
    workload.acks == -1
}

/// Every replica must know a record before a retry of it is stored only once.
fn may_wait_for_less(workload: &Workload) -> bool {
    waits_for_all(workload) && !workload.idempotent
}

fn has_caching(workload: &Workload) -> bool {
    workload.topic_config.contains_key("write.caching")
}

fn requests_per_record(state: &BatchState) -> Option<f64> {
    let requests = state.requests_per_s()? * state.seconds;
    let records = state.acked_records as f64;
    (requests > 0.0 && records > 0.0).then(|| requests / records)
}

/// The load's linger in milliseconds. Without one it is 5, as in librdkafka, and in Kafka's own producer since 4.0.
fn linger_ms(workload: &Workload) -> f64 {
    setting(workload, &["linger.ms", "queue.buffering.max.ms"]).unwrap_or(5.0)
}

/// The size in bytes at which a batch is full: librdkafka's default of 1,000,000, Kafka's own of 16,384.
fn batch_limit(workload: &Workload) -> f64 {
    let default = if matches!(workload.engine, Engine::Librdkafka { .. }) { 1e6 } else { 16_384.0 };
    setting(workload, &["batch.size"]).unwrap_or(default)
}

fn setting(workload: &Workload, names: &[&str]) -> Option<f64> {
    let (Engine::Librdkafka { settings } | Engine::Command { settings, .. }) = &workload.engine else {
        return None;
    };
    names.iter().find_map(|name| settings.get(*name)?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hone_record::CpuSeconds;

    use super::*;
    use hone_experiment::spec::WorkloadFile;

    fn load() -> Workload {
        let file = WorkloadFile {
            client: "librdkafka".to_owned(),
            client_settings: [("linger.ms".to_owned(), "0".to_owned())].into(),
            requests_per_s: 10_000.0,
            connections: 20,
            ..WorkloadFile::default()
        };
        file.named("w").unwrap()
    }

    /// Ten seconds at 10,000 records/s.
    fn state(records_per_request: f64, cpu_us_per_record: f64) -> BatchState {
        let records = 100_000_u64;
        BatchState {
            windows: 1,
            seconds: 10.0,
            acked_records: records,
            target_cpu: Some(CpuSeconds {
                total_s: cpu_us_per_record * records as f64 / 1e6,
                user_share: None,
            }),
            produce_requests: Some((records as f64 / records_per_request) as u64),
            batches: (records as f64 / records_per_request) as u64,
            batch_records: records,
            batch_bytes: records * 110,
            ..BatchState::default()
        }
    }

    static NOTHING: BrokerSettings = BrokerSettings { codec: None, pools: Vec::new() };

    fn of_codec(codec: &str) -> BrokerSettings {
        BrokerSettings { codec: Some(codec.to_owned()), ..NOTHING.clone() }
    }

    fn seen<'a>(state: &'a BatchState, workload: &'a Workload) -> Seen<'a> {
        Seen {
            state,
            workload,
            costs: GUESS,
            latency_limit_ms: None,
            broker: &NOTHING,
            cores: 4,
            lax: None,
            jvm: &[],
        }
    }

    fn names(seen: &Seen<'_>) -> Vec<String> {
        propose(seen, &Altitude::ALL).into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn requests_of_few_records_ask_for_a_linger_that_the_rules_allow() {
        let (state, load) = (state(1.0, 15.5), load());
        // 500 records/s per producer: 6 within 10 ms, which saves 81 %, where 101 within 200 ms would save 96
        // %.
        assert_eq!(names(&seen(&state, &load)), ["linger=10ms", "codec=lz4"]);
        let tight = Seen { latency_limit_ms: Some(12.0), ..seen(&state, &load) };
        assert_eq!(names(&tight)[0], "linger=5ms");
        assert_eq!(names(&Seen { latency_limit_ms: Some(4.0), ..seen(&state, &load) }), ["codec=lz4"]);
        assert!(propose(&seen(&state, &load), &[Altitude::Host]).is_empty());
    }

    #[test]
    fn large_requests_ask_for_no_linger() {
        let load = load();
        assert_eq!(names(&seen(&state(400.0, 0.6), &load)), ["codec=lz4"]);
    }

    #[test]
    fn a_broker_that_packs_anew_is_seen() {
        let state = state(400.0, 5.0);
        let topic_config = BTreeMap::from([("compression.type".to_owned(), "zstd".to_owned())]);
        let packed = Workload { topic_config, ..load() };
        assert_eq!(names(&seen(&state, &packed)), ["codec=zstd", "topic.compression.type=producer"]);
        let same = Workload { compression: "zstd".to_owned(), ..packed };
        assert!(names(&seen(&state, &same)).is_empty());
        let plain = load();
        assert_eq!(names(&Seen { broker: &of_codec("gzip"), ..seen(&state, &plain) }), ["codec=gzip"]);
        assert_eq!(
            names(&Seen { broker: &of_codec("producer"), ..seen(&state, &plain) }),
            Vec::<String>::new()
        );
    }

    #[test]
    fn batches_at_their_limit_ask_for_a_larger_one() {
        let settings = [("batch.size", "4096"), ("linger.ms", "500")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let load = Workload { engine: Engine::Librdkafka { settings }, ..load() };
        assert_eq!(names(&seen(&state(36.0, 1.0), &load))[0], "batch-size=16384");
    }

    #[test]
    fn costs_come_from_states_that_differ() {
        let same = [state(10.0, 2.0), state(11.0, 1.9)];
        assert_eq!(Costs::from_states(&same), GUESS);
        // 20 us a request, 1 us a record.
        let costs = Costs::from_states(&[state(1.0, 21.0), state(10.0, 3.0), state(100.0, 1.2)]);
        assert!((costs.request_us - 20.0).abs() < 0.1 && (costs.record_us - 1.0).abs() < 0.1, "{costs:?}");
        assert!(costs.is_measured);
        // The CPU rises although requests are fewer, so requests do not cause it.
        assert_eq!(Costs::from_states(&[state(1.0, 1.0), state(10.0, 3.0)]).request_us, 0.0);
        assert_eq!(Costs::from_states(&[]), GUESS);
    }

    /// Never unless the user allows it, and always with what can be lost.
    #[test]
    fn acknowledging_earlier_is_proposed_only_where_it_may_be() {
        let (state, load) = (state(400.0, 0.6), load());
        assert_eq!(names(&seen(&state, &load)), ["codec=lz4"]);
        let lax = |caches| Seen { lax: Some(Lax { caches }), ..seen(&state, &load) };
        let caching = "topic.write.caching=true,topic.flush.ms=100,topic.flush.bytes=262144";
        assert_eq!(names(&lax(true)), ["acks=1", caching, "codec=lz4"]);
        assert_eq!(names(&lax(false)), ["acks=1", "codec=lz4"], "a broker without write caching");
        for candidate in propose(&lax(true), &Altitude::ALL).iter().take(2) {
            assert!(candidate.promise(&load.engine).unwrap().is_some(), "{candidate:?}");
            assert!(candidate.hope.why.contains("durability = true"), "{candidate:?}");
        }
        let cached = Workload {
            topic_config: [("write.caching".to_owned(), "true".to_owned())].into(),
            replication_factor: None,
            acks: 1,
            ..load.clone()
        };
        assert_eq!(names(&Seen { lax: Some(Lax { caches: true }), ..seen(&state, &cached) }), ["codec=lz4"]);
    }

    #[test]
    fn what_is_the_brokers_is_proposed_for_every_engine() {
        let state = state(1.0, 15.0);
        let topic_config = BTreeMap::from([("compression.type".to_owned(), "zstd".to_owned())]);
        let wire = Workload { engine: Engine::Wire, topic_config, ..load() };
        let found = Seen { lax: Some(Lax { caches: true }), ..seen(&state, &wire) };
        let caching = "topic.write.caching=true,topic.flush.ms=100,topic.flush.bytes=262144";
        assert_eq!(names(&found), ["topic.compression.type=producer", caching]);
        for candidate in propose(&found, &[Altitude::Broker]) {
            candidate.changes(&wire.engine).unwrap();
        }
    }

    /// Six lingers above 0, two of them within half of 30 ms; 16 KiB three times fourfold is above 1 MB.
    #[test]
    fn the_most_that_the_rules_come_to_is_counted() {
        let sum = |rules: Vec<AtMost>| rules.iter().map(|rule| rule.count).sum::<u32>();
        let count = |workload: &Workload, limit_ms, durability| {
            sum(at_most(workload, &Altitude::ALL, limit_ms, durability, false))
        };
        assert_eq!(count(&load(), None, false), 6 + 1, "lingers, and lz4");
        assert_eq!(count(&load(), Some(30.0), false), 2 + 1);
        assert_eq!(count(&load(), None, true), 6 + 1 + 2);
        let command = Engine::Command { command: vec!["c".to_owned()], settings: BTreeMap::new() };
        assert_eq!(count(&Workload { engine: command, ..load() }, None, false), 5 + 3 + 1);
        assert_eq!(count(&Workload { engine: Engine::Wire, ..load() }, None, false), 0);
        assert!(at_most(&load(), &[Altitude::Host], None, true, false).is_empty());
        // If nothing waits for a flush or for replicas, no acknowledgement can come earlier.
        assert_eq!(count(&Workload { acks: 1, ..load() }, None, true), 6 + 1);
        assert_eq!(count(&Workload { idempotent: true, ..load() }, None, true), 6 + 1 + 1, "caching alone");
        // The default codec of a cluster is only known once Hone queries it.
        let packed = Workload { compression: "lz4".to_owned(), ..load() };
        let of_cluster = |workload: &Workload| sum(at_most(workload, &Altitude::ALL, None, false, true));
        assert_eq!((count(&packed, None, false), of_cluster(&packed)), (6, 6 + 1));
        let own =
            Workload { topic_config: [("compression.type".to_owned(), "lz4".to_owned())].into(), ..packed };
        assert_eq!(of_cluster(&own), 6, "the topic says otherwise");
    }

    /// Both use the same limit: every proposal is in the count.
    #[test]
    fn a_limit_is_not_made_larger_than_a_message_can_be() {
        let large = BatchState { batch_bytes: 900_000, batches: 1, ..state(36.0, 1.0) };
        assert!(names(&seen(&large, &load())).iter().all(|name| !name.starts_with("batch-size")));
        assert_eq!(larger_batches(&load()), 0);
    }

    #[test]
    fn what_the_command_line_of_a_java_service_lacks_is_proposed_with_its_reason() {
        let (state, load) = (state(200.0, 1.0), load());
        let why = "one thread collects".to_owned();
        let advice = [Advice { name: "gc", value: "g1".to_owned(), share: 0.08, why }];
        let found = Seen { jvm: &advice, ..seen(&state, &load) };
        assert!(names(&found).contains(&"jvm.gc=g1".to_owned()), "{:?}", names(&found));
        assert!(!names(&seen(&state, &load)).iter().any(|name| name.starts_with("jvm.")));
        let candidate =
            propose(&found, &[Altitude::Broker]).into_iter().find(|one| one.name == "jvm.gc=g1").unwrap();
        assert!(candidate.hope.is_unsaid && candidate.altitude == Altitude::Broker);
    }

    #[test]
    fn too_few_threads_are_doubled_and_enough_are_left_alone() {
        let (state, load) = (state(200.0, 1.0), load());
        let of = |cores, io, network| {
            let broker =
                BrokerSettings { pools: vec![(Pool::Io, io), (Pool::Network, network)], ..NOTHING.clone() };
            let found = names(&Seen { broker: &broker, cores, ..seen(&state, &load) });
            found.into_iter().filter(|name| name.starts_with("broker.")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(2, 1, 3), "broker.num.io.threads=2");
        assert_eq!(of(16, 3, 2), "broker.num.io.threads=6 broker.num.network.threads=3");
        assert_eq!(of(16, 8, 3), "", "Kafka's defaults");
        assert_eq!(of(1, 1, 1), "", "a single core");
        let most = |cores| AtMost::threads(cores).map(|most| most.count);
        assert_eq!([1, 2, 4, 64].map(most), [None, Some(2), Some(4), Some(5)]);
    }

    #[test]
    fn a_load_of_operations_has_no_batches() {
        let load = Workload::of_operations("x", Engine::Exits { arguments: vec![], operations: 1 });
        assert!(propose(&seen(&BatchState::default(), &load), &Altitude::ALL).is_empty());
    }
}
