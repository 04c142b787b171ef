//! Replicates a topic's own producers as a load: reads them from the cluster, writes a recording, and compares the load with the
//! topic on a test topic.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hone_batch::replica::{Doubts, Known, Placing, Writers, nameless_linger_ms, writers};
use hone_batch::whatif::Codec;
use hone_batch::whatif::client::Client;
use hone_batch::whatif::stream::Limits;
use hone_batch::xray::Depth;
use hone_load::{Admin, Topic, Topics, Unseen};
use hone_record::{Engine, Keys, Payload, Replica, Sizes, TopicFigures, TopicXray, Workload};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

use super::prove::Session;
use super::{reading, replaying};
use hone_experiment::arm::Place;
use hone_experiment::bench::of_use;
use hone_experiment::clients::Clients;
use hone_experiment::drive::whole;
use hone_experiment::moment::now_ms;
use hone_experiment::probe::NoProbe;

/// File in the run's folder with the result of the check.
pub const NOTE: &str = "replica.json";
/// Limits for reading a topic: bytes, and the time for reading and for settings.
const BUDGET_BYTES: u64 = 512 << 20;
const LIMIT: Duration = Duration::from_secs(60);
/// Stretch of the topic in which the behaviour of producers is detected, if the read limit allows it.
const HABITS_S: f64 = 60.0;
/// Share of the read limit that reading is planned to use.
const AFFORDABLE: f64 = 0.5;
/// Warm-up of a check. It only has to open the connections.
const WARMUP_REQUESTS: u64 = 100;

/// The current topic, for the check of its replica.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Today {
    /// The topic's name.
    pub topic: String,
    /// Its figures, from an X-ray.
    pub figures: TopicFigures,
    /// Figures that are estimates.
    pub doubts: Doubts,
}

/// Describes the producers of a topic over the stretch that ends with its newest record.
///
/// # Errors
/// When the topic can't be read, or its records do not show when and by which producer they were sent.
pub fn describe(
    topics: &mut Topics,
    topic: &str,
    newest_ms: i64,
    stretch_s: f64,
    client: Client,
) -> Result<Writers> {
    let since_newest_s = now_ms().saturating_sub(newest_ms).max(0) as f64 / 1e3;
    let habits = look(topics, topic, since_newest_s + stretch_s.max(HABITS_S))?;
    // Reading that ends at the read limit would miss the newest record.
    let affordable_s = AFFORDABLE * BUDGET_BYTES as f64 / bytes_per_s(&habits).unwrap_or(0.0).max(1.0);
    let read_s = stretch_s.max(HABITS_S.min(affordable_s));
    let wish = replaying::Wish {
        last_s: Some(since_newest_s + read_s),
        budget_bytes: BUDGET_BYTES,
        limit: LIMIT,
        limits: Limits { kept_bytes: 0, ..Limits::default() },
    };
    let window = replaying::of_cluster(topics, topic, &wish)?;
    let known = Known {
        partitions: window.partitions,
        leads: window.leads,
        stretch_us: (stretch_s * 1e6) as u64,
        nameless_linger_ms: nameless_linger_ms(&habits),
        client,
    };
    let until = Instant::now() + LIMIT;
    let go_on = || !interrupt::requested() && Instant::now() < until;
    writers(&window.gathered, &known, &go_on).context("the stretch has no record")
}

fn bytes_per_s(seen: &TopicXray) -> Option<f64> {
    Some(seen.batches_per_s? * seen.mean_bytes?.value)
}

/// An X-ray of the last seconds, from headers only.
///
/// # Errors
/// When the topic can't be read.
pub fn look(topics: &mut Topics, topic: &str, last_s: f64) -> Result<TopicXray> {
    let wish = reading::Wish {
        last_s: Some(last_s),
        budget_bytes: BUDGET_BYTES,
        limit: LIMIT,
        depth: Depth { decode_bytes: 0, tolerable_linger_ms: 100.0 },
    };
    reading::look(topics, topic, &wish)
}

/// The text of a recording.
pub fn recording(writers: &Writers) -> String {
    let mut text = String::with_capacity(64 + writers.records.len() * 24);
    text.push_str(
        "# Records of a topic: time in seconds, producer, number of a key (- for none), bytes of the value. \
         It has no keys and values of the topic.\n",
    );
    for record in &writers.records {
        let key = record.key.map_or_else(|| "-".to_owned(), |number| number.to_string());
        let (second, rest) = (record.at_us / 1_000_000, record.at_us % 1_000_000);
        let _ = writeln!(text, "{second}.{rest:06} {} {key} {}", record.producer, record.bytes);
    }
    text
}

/// Mean bytes of a value.
pub fn mean_bytes(writers: &Writers) -> u32 {
    let bytes: u64 = writers.records.iter().map(|record| u64::from(record.bytes)).sum();
    (bytes.div_ceil(writers.records.len().max(1) as u64)).max(1) as u32
}

/// Settings of librdkafka that replicate the producers.
pub fn client_settings(writers: &Writers) -> Vec<(&'static str, String)> {
    let settings = &writers.settings;
    let mut found = vec![("linger.ms", (settings.linger_us as f64 / 1e3).to_string())];
    found.extend(settings.batch_bytes.map(|bytes| ("batch.size", bytes.to_string())));
    found.extend(settings.batch_records.map(|records| ("batch.num.messages", records.to_string())));
    match writers.placing {
        Placing::ByKey | Placing::Forced => found.push(("partitioner", "murmur2_random".to_owned())),
        Placing::EachInTurn => found.push((STICKY, "0".to_owned())),
        Placing::Sticky { stay_ms: Some(ms) } => found.push((STICKY, ms.to_string())),
        Placing::One | Placing::Sticky { stay_ms: None } => {}
    }
    found
}

/// How long librdkafka stays with a partition.
const STICKY: &str = "sticky.partitioning.linger.ms";

/// Shapes a load like the producers. `is_given` reports which of its options are on the command line: those keep their value.
///
/// # Errors
/// When the topic's codec can't be tried.
pub fn shape(writers: &Writers, workload: &mut Workload, is_given: impl Fn(&str) -> bool) -> Result<()> {
    (workload.sizes, workload.keys) = (Sizes::Fixed, Keys::None);
    workload.record_bytes = mean_bytes(writers);
    if !is_given("connections") {
        workload.connections = writers.producers;
    }
    if !is_given("compression") {
        writers.codec.name().clone_into(&mut workload.compression);
    }
    if !is_given("compressible") && writers.codec != Codec::None {
        workload.payload = Payload::Bytes { compressible_share: compressible_share(writers)? };
    }
    if !is_given("idempotent") && !is_given("acks") {
        workload.idempotent = writers.is_idempotent;
    }
    if let Engine::Librdkafka { settings } = &mut workload.engine {
        for (name, value) in client_settings(writers) {
            settings.entry(name.to_owned()).or_insert(value);
        }
    }
    Ok(())
}

/// The compressible share of the values with which their batches compress like the topic's.
///
/// # Errors
/// When the codec fails.
pub fn compressible_share(writers: &Writers) -> Result<f64> {
    let records = writers.figures.records_per_batch().round().clamp(1.0, 1e6) as u32;
    let share = hone_load::compressible_share(writers.codec, writers.ratio, mean_bytes(writers), records)?;
    Ok((share * 1e3).round() / 1e3)
}

/// An error: the replica differs from its topic.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unlike(pub(crate) String);

/// Sends the load once to a test topic, and analyses it like the topic.
///
/// # Errors
/// When the target can't be started or loaded, or the test topic can't be read.
pub fn check(session: &Session<'_>, today: &Today) -> Result<Replica> {
    let asked = session.asked;
    let arm = asked.arm("replica", session.security)?;
    let running = arm.start(session.runner, &session.folder.scratch())?;
    let name = format!("{}replica", asked.topic_prefix);
    let found = sent(session, &running.address, &name);
    if matches!(arm.place, Place::Address(_)) && !asked.keep_topics {
        // A topic that can't be deleted now is deleted with the run's other topics.
        let _ = Admin::connect_with(&running.address, session.security)
            .and_then(|mut admin| admin.delete_topic(&name));
    }
    let stopped = running.stop(session.runner);
    let here = found?;
    stopped?;
    let reasons = today.doubts.reasons(&today.figures, &here);
    Ok(Replica { topic: today.topic.clone(), today: today.figures, here, reasons })
}

fn sent(session: &Session<'_>, address: &str, topic: &str) -> Result<TopicFigures> {
    let asked = session.asked;
    let workload = Workload {
        warmup_requests: asked.workload.warmup_requests.min(WARMUP_REQUESTS),
        warmup_limit_s: 0.0,
        consumers: 0,
        ..asked.workload.clone()
    };
    let producers = u64::from(workload.connections);
    let settings = hone_load::Settings {
        address: address.to_owned(),
        variant: "replica".to_owned(),
        storage: asked.comparison.storage.clone(),
        topic: Topic::Shared(topic.to_owned()),
        lateness_limit_us: asked.comparison.lateness_limit_us,
        shard: None,
        security: session.security.clone(),
    };
    let clients = Clients::within(session.runner, session.folder.scratch());
    let mut load = session.progress.load();
    let mut prepared = hone_load::prepare(settings, workload, &clients, &mut load)?;
    prepared.warm_up(&mut Unseen, &mut load)?;
    let window = of_use(whole(prepared.run(Instant::now(), &mut NoProbe, &mut load)?)?)?;
    // The warm-up lies before it.
    let since_ms = now_ms().saturating_sub(window.started_unix_ms.cast_signed());
    let seen = look(&mut Topics::enter(address, session.security)?, topic, since_ms as f64 / 1e3)?;
    figures(&seen, producers).with_context(|| format!("the test topic {topic} gives no rate"))
}

/// The figures of an X-ray; `None` where it has no rates.
fn figures(seen: &TopicXray, producers: u64) -> Option<TopicFigures> {
    let batches_per_s = seen.batches_per_s?;
    Some(TopicFigures {
        records_per_s: seen.records_per_s?,
        bytes_per_s: bytes_per_s(seen)?,
        batches_per_s,
        producers,
        may_be_more: false,
    })
}
