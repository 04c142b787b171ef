//! What to try next: from what was seen of a state, and from what changes before have cost and brought. Pure; it ranks and promises nothing.

use hone_format::{exact, measured};
use hone_record::{Altitude, BatchState, Engine, Hope, Keys, Workload};

use super::candidate::Candidate;
use crate::batch::caching::FlushBounds;

/// What is known of a state.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    pub(crate) state: &'a BatchState,
    /// The load.
    pub workload: &'a Workload,
    /// CPU by request and by record, as far as earlier states tell.
    pub costs: Costs,
    /// The tightest latency that a rule of the user's allows, in milliseconds.
    pub(crate) latency_limit_ms: Option<f64>,
    /// The codec that the broker's default makes of every batch; `None` where it keeps the producer's, or nobody can say.
    pub(crate) broker_codec: Option<&'a str>,
    /// What an acknowledgement may promise otherwise; `None` where it has to stay as it is.
    pub(crate) lax: Option<Lax>,
}

/// Ways to acknowledge earlier, for those who allow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lax {
    /// Whether the broker knows write caching, and does without it unless a topic asks.
    pub caches: bool,
}

/// What a produce request and a record cost the target, in microseconds of CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Costs {
    pub(crate) request_us: f64,
    pub(crate) record_us: f64,
    /// Whether they were fitted to states of this run.
    pub(crate) is_measured: bool,
}

/// Before anything is measured: only their proportion matters, which says that a request weighs as much as thirty records. A choice, after the
/// embedded broker, where a request takes 13 us and a record within a batch less than half of one.
const GUESS: Costs = Costs { request_us: 15.0, record_us: 0.5, is_measured: false };
/// States must differ by so much in records a request for two costs to be told apart.
const APART: f64 = 1.3;
/// Lingers that are tried, in milliseconds.
const LINGERS_MS: [f64; 6] = [5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
/// A linger is not worth more wait when the next smaller one brings this share of what it brings.
const MOST_OF_IT: f64 = 0.8;
/// Of a rule's latency that a linger may take: the rest is for sending.
const OF_THE_LIMIT: f64 = 0.5;
/// From this share of its limit on, a mean batch is taken to be cut by it.
const NEAR_LIMIT: f64 = 0.7;
/// A broker that packs every batch anew spends most of its CPU on that: a third may be saved. A choice.
const REPACKING: f64 = 0.33;
/// What a codec may save where none is used: bytes are read, written and checked. A choice, and a low one.
const PACKING: f64 = 0.02;
/// What an acknowledgement that waits for less may save. A choice, and a low one: most of what it saves is waits, and no CPU.
const EARLIER: f64 = 0.05;
/// Below this there is nothing to hope for.
pub(crate) const LEAST_HOPE: f64 = 0.01;

impl Costs {
    /// By least squares over what states cost, each as CPU and requests for a record, neither cost below zero.
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

    /// Share of the CPU that goes when a record takes this many requests in place of those.
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
        if self.is_measured { format!("by the states so far {what}") } else { format!("at a guess {what}") }
    }
}

/// What may help, the most hopeful first. Nothing for loads of counted operations; for those that make no batches of their own what is the broker's.
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
        .filter_map(|(setting, hope)| Candidate::of_settings(&[setting], hope).ok())
        .filter(may)
        .map(Candidate::by_hone)
        .collect();
    found.sort_by(|one, other| other.hope.share.total_cmp(&one.hope.share));
    found
}

/// Whether its batches are a client's, with settings of their own.
fn makes_batches(engine: &Engine) -> bool {
    matches!(engine, Engine::Librdkafka { .. } | Engine::Command { .. })
}

/// The most changes that a rule could come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AtMost {
    pub count: u32,
    /// One of them, or what it may look like, with all that it sets: what is forbidden may be any of it.
    pub example: String,
    what: &'static str,
}

impl AtMost {
    /// For people.
    pub(crate) fn words(&self) -> String {
        format!("{} {}{}", self.count, self.what, if self.count == 1 { "" } else { "s" })
    }
}

/// The most changes that the rules could come to, one after the other. A rule that has helped is asked again, so a linger may
/// be followed by each longer one. What a cluster that runs already packs by its own default is not known before it is asked.
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

/// How often a limit can be made larger.
fn larger_batches(workload: &Workload) -> u32 {
    std::iter::successors(larger_batch(batch_limit(workload)), |limit| larger_batch(*limit)).count() as u32
}

/// The next limit to try, four times as large: none beyond that of librdkafka, whose messages are no larger whatever its batches may be.
fn larger_batch(limit: f64) -> Option<f64> {
    const MOST_BYTES: f64 = 1e6;
    (limit > 0.0 && limit < MOST_BYTES).then_some(limit * 4.0)
}

type Setting = (String, Hope);

/// Records that one producer has for one batch, each second. Without keys a producer fills one partition at a time.
fn records_per_batch_per_s(seen: &Seen<'_>) -> f64 {
    let of_all = seen.workload.requests_per_s * f64::from(seen.workload.records_per_batch);
    let of_one = of_all / f64::from(seen.workload.connections.max(1));
    // What Java's producer and franz-go send takes the head batch of every partition of the broker along.
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
        "{} records a request at a linger of {} ms; {} ms would gather {}, and {}",
        measured(1.0 / now),
        exact(linger_ms),
        exact(chosen),
        measured(1.0 + rate * chosen / 1e3),
        seen.costs.words()
    );
    Some((format!("linger={chosen}ms"), Hope::new(saved(chosen), why)))
}

/// Those that are longer than the load's, and leave time for sending.
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
        "batches of {} bytes end at their limit of {} bytes; {}",
        measured(mean),
        exact(limit),
        seen.costs.words()
    );
    Some((format!("batch-size={larger}"), Hope::new(seen.costs.saved(now, now / 4.0), why)))
}

/// The broker packs anew what comes in another codec than its topics have.
fn topic_codec(seen: &Seen<'_>) -> Vec<Setting> {
    let Some(codec) = seen.workload.topic_config.get("compression.type") else { return Vec::new() };
    if is_kept(codec, &seen.workload.compression) {
        return Vec::new();
    }
    let why = format!(
        "the topic's compression.type is {codec} and producers send {}: the broker packs every batch anew",
        seen.workload.compression
    );
    let hope = |share: f64| Hope::new(share, why.clone());
    // Where the producers pack, the topic's bytes stay as small as they are.
    vec![
        (format!("codec={codec}"), hope(REPACKING)),
        ("topic.compression.type=producer".to_owned(), hope(REPACKING * MOST_OF_IT)),
    ]
}

/// The same by the broker's default, for topics without a codec of their own.
fn broker_codec(seen: &Seen<'_>) -> Option<Setting> {
    let codec = seen.broker_codec?;
    if seen.workload.topic_config.contains_key("compression.type")
        || is_kept(codec, &seen.workload.compression)
    {
        return None;
    }
    let why = format!(
        "the broker's compression.type is {codec} and producers send {}: it packs every batch anew",
        seen.workload.compression
    );
    Some((format!("codec={codec}"), Hope::new(REPACKING, why)))
}

fn is_kept(topic: &str, sent: &str) -> bool {
    topic == "producer" || topic == sent || (topic == "uncompressed" && sent == "none")
}

fn codec(seen: &Seen<'_>) -> Option<Setting> {
    let repacks = seen.workload.topic_config.contains_key("compression.type") || seen.broker_codec.is_some();
    if seen.workload.compression != "none" || repacks {
        return None;
    }
    let why = "nothing is packed: fewer bytes to read, write, check and copy; what packing costs the producers is not in the objective";
    Some(("codec=lz4".to_owned(), Hope::new(PACKING, why)))
}

/// An acknowledgement by the leader alone, for those who allow it.
fn acks(seen: &Seen<'_>) -> Option<Setting> {
    seen.lax.filter(|_| may_wait_for_less(seen.workload))?;
    let why = "acknowledgements wait for every replica in sync (acks=all), and durability = true lets the leader's memory be enough: what it loses \
               before others have it was acknowledged and is gone";
    Some(("acks=1".to_owned(), Hope::new(EARLIER, why)))
}

/// An acknowledgement from memory, for those who allow it.
fn write_caching(seen: &Seen<'_>) -> Option<Setting> {
    seen.lax.filter(|lax| lax.caches && waits_for_all(seen.workload) && !has_caching(seen.workload))?;
    let FlushBounds { flush_ms, flush_bytes } = FlushBounds::USUAL;
    let why = format!(
        "acknowledgements wait for a flush, and durability = true lets memory be enough: an outage of a majority of the replicas loses up to {flush_ms} ms \
         or {flush_bytes} bytes of each partition that were acknowledged (hone batch caching)"
    );
    Some((caching_setting(), Hope::new(EARLIER, why)))
}

/// Write caching with the bounds of what it may lose.
fn caching_setting() -> String {
    let FlushBounds { flush_ms, flush_bytes } = FlushBounds::USUAL;
    format!("topic.write.caching=true,topic.flush.ms={flush_ms},topic.flush.bytes={flush_bytes}")
}

fn waits_for_all(workload: &Workload) -> bool {
    workload.acks == -1
}

/// What is sent again is stored once only where every replica knows of it.
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

/// The load's linger in milliseconds; 5, as librdkafka and Kafka's own producer since 4.0 do, where it does not say.
fn linger_ms(workload: &Workload) -> f64 {
    setting(workload, &["linger.ms", "queue.buffering.max.ms"]).unwrap_or(5.0)
}

/// The size in bytes at which a batch ends: librdkafka's default of 1,000,000, Kafka's own of 16,384.
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

    fn seen<'a>(state: &'a BatchState, workload: &'a Workload) -> Seen<'a> {
        Seen { state, workload, costs: GUESS, latency_limit_ms: None, broker_codec: None, lax: None }
    }

    fn names(seen: &Seen<'_>) -> Vec<String> {
        propose(seen, &Altitude::ALL).into_iter().map(|candidate| candidate.name).collect()
    }

    #[test]
    fn requests_of_few_records_ask_for_a_linger_that_the_rules_allow() {
        let (state, load) = (state(1.0, 15.5), load());
        // 500 records/s a producer: 6 within 10 ms, which saves 81 %, where 101 within 200 ms would save 96 %.
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
        assert_eq!(names(&Seen { broker_codec: Some("gzip"), ..seen(&state, &plain) }), ["codec=gzip"]);
        assert_eq!(
            names(&Seen { broker_codec: Some("producer"), ..seen(&state, &plain) }),
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
        // Dearer where requests are fewer: none of it is the requests'.
        assert_eq!(Costs::from_states(&[state(1.0, 1.0), state(10.0, 3.0)]).request_us, 0.0);
        assert_eq!(Costs::from_states(&[]), GUESS);
    }

    /// Never unless it is allowed, and each with what can be lost.
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
        for candidate in propose(&found, &Altitude::ALL) {
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
        // Where nothing waits for a flush or for others, nothing is acknowledged earlier.
        assert_eq!(count(&Workload { acks: 1, ..load() }, None, true), 6 + 1);
        assert_eq!(count(&Workload { idempotent: true, ..load() }, None, true), 6 + 1 + 1, "caching alone");
        // What a cluster packs by default shows when it is asked.
        let packed = Workload { compression: "lz4".to_owned(), ..load() };
        let of_cluster = |workload: &Workload| sum(at_most(workload, &Altitude::ALL, None, false, true));
        assert_eq!((count(&packed, None, false), of_cluster(&packed)), (6, 6 + 1));
        let own =
            Workload { topic_config: [("compression.type".to_owned(), "lz4".to_owned())].into(), ..packed };
        assert_eq!(of_cluster(&own), 6, "the topic says otherwise");
    }

    /// Both know the same limit: what is proposed was counted.
    #[test]
    fn a_limit_is_not_made_larger_than_a_message_can_be() {
        let large = BatchState { batch_bytes: 900_000, batches: 1, ..state(36.0, 1.0) };
        assert!(names(&seen(&large, &load())).iter().all(|name| !name.starts_with("batch-size")));
        assert_eq!(larger_batches(&load()), 0);
    }

    #[test]
    fn a_load_of_operations_has_no_batches() {
        let load = Workload::of_operations("x", Engine::Exits { arguments: vec![], operations: 1 });
        assert!(propose(&seen(&BatchState::default(), &load), &Altitude::ALL).is_empty());
    }
}
