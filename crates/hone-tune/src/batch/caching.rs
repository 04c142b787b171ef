//! The write caching report: the effect of acknowledgements from memory on a topic. Only this command compares durability
//! classes, so all its texts name both.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use hone_batch::metrics::exposition;
use hone_load::{Admin, Security, Settings, Topic};
use hone_record::{Proof, Window, Workload};
use hone_store::web::Web;
use hone_tool::Runner;
use hone_tool::interrupt;
use serde::Serialize;

use super::prove::ProofSettings;
use hone_experiment::arm::Place;
use hone_experiment::clients::Clients;
use hone_experiment::drive::whole;
use hone_experiment::ending::Usage;
use hone_experiment::probe::TargetProbe;
use hone_experiment::progress::Progress;
use hone_experiment::warmth::Looker;

/// The setting by which a broker acknowledges before it writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Redpanda and the embedded broker: `write.caching`, bounded by `flush.ms` and `flush.bytes`.
    WriteCaching,
    /// Apache Kafka: it acknowledges from the page cache unless `flush.messages` is set.
    PageCache,
}

/// Properties that Hone reads.
pub(crate) const PROPERTIES: [&str; 5] =
    ["write.caching", "flush.ms", "flush.bytes", "flush.messages", "hone.durability"];
/// Kafka's default of flush.messages: it never flushes by count.
const NEVER: &str = "9223372036854775807";

/// The contents of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// The topic; `None` for a load that was only described.
    pub topic: Option<String>,
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// The broker's own settings for it.
    pub family: Family,
    /// Name and effective value of the topic's properties.
    pub in_force: Vec<(String, String)>,
    /// The settings of the test topics.
    pub change: String,
    /// The durability guarantee without it and with it.
    pub classes: [String; 2],
    /// The additional ways to lose an acknowledged record.
    pub risk: String,
    /// Fsyncs per batch, without it and with it. `None`: the broker's counters can't be read.
    pub fsyncs_per_batch: Option<[f64; 2]>,
    /// The result of the windows.
    pub proof: Proof,
    /// Notes for the reader, in sentences.
    pub notes: Vec<String>,
}

/// Bounds for records that are not on the disk yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushBounds {
    /// `flush.ms`.
    pub flush_ms: u64,
    /// `flush.bytes`.
    pub flush_bytes: u64,
}

impl FlushBounds {
    /// Redpanda's defaults.
    pub const USUAL: Self = Self { flush_ms: 100, flush_bytes: 262_144 };
}

impl Family {
    /// From the properties of a topic.
    ///
    /// # Errors
    /// When it has neither.
    pub fn from_properties(in_force: &[(String, String)], broker: &str) -> Result<Self> {
        let has = |name: &str| in_force.iter().any(|(known, _)| known == name);
        match (has("write.caching"), has("flush.messages")) {
            (true, _) => Ok(Self::WriteCaching),
            (false, true) => Ok(Self::PageCache),
            (false, false) => bail!(Usage(format!(
                "{broker} has neither write.caching (Redpanda 24.1 and later) nor flush.messages (Apache \
                 Kafka): there is nothing to try"
            ))),
        }
    }

    /// # Errors
    /// When the user sets bounds that it does not have.
    pub fn check(self, bounds: FlushBounds, broker: &str) -> Result<()> {
        if self == Self::PageCache && bounds != FlushBounds::USUAL {
            bail!(Usage(format!(
                "--flush-interval and --flush-bytes limit write caching, but {broker} has no write caching: \
                 in Apache Kafka the kernel decides when to flush\n  next: remove both flags"
            )));
        }
        Ok(())
    }

    /// The properties of the test topics in both states, as steps.
    pub fn steps(self, bounds: FlushBounds) -> [String; 2] {
        match self {
            Self::WriteCaching => [
                "topic.write.caching=false".to_owned(),
                format!(
                    "topic.write.caching=true,topic.flush.ms={},topic.flush.bytes={}",
                    bounds.flush_ms, bounds.flush_bytes
                ),
            ],
            Self::PageCache => ["topic.flush.messages=1".to_owned(), format!("topic.flush.messages={NEVER}")],
        }
    }

    /// The guarantee of an acknowledgement with acks=all in both states.
    pub fn classes(self, bounds: FlushBounds) -> [String; 2] {
        match self {
            Self::WriteCaching => [
                "fsync: a majority has the batch on its disk".to_owned(),
                format!(
                    "memory: a majority has the batch in memory, and flushes it within {} ms or {} bytes per \
                     partition",
                    bounds.flush_ms, bounds.flush_bytes
                ),
            ],
            Self::PageCache => [
                "fsync: each batch is flushed to the disk when it is written (flush.messages=1)".to_owned(),
                "page cache: the in-sync replicas have the batch in the kernel's memory, and the kernel \
                 decides when to flush"
                    .to_owned(),
            ],
        }
    }

    /// The records that only the second state can lose.
    pub fn risk(self, bounds: FlushBounds) -> String {
        let loss = "if a majority of a partition's replicas fails at the same time (a power failure in one \
             room, a kernel crash on all, one machine with the only replica), it loses acknowledged records";
        match self {
            Self::WriteCaching => format!(
                "{loss}: up to {} ms or {} bytes of each partition. With three replicas, the outage of one \
                 broker loses nothing. Transactions and group offsets are flushed as before.",
                bounds.flush_ms, bounds.flush_bytes
            ),
            Self::PageCache => format!(
                "{loss}: those that the kernel has not flushed yet, usually up to 30 s \
                 (vm.dirty_expire_centisecs)."
            ),
        }
    }

    /// Notes about the broker's kind of caching.
    pub fn notes(self) -> Vec<String> {
        match self {
            Self::WriteCaching => vec![
                "Write caching does not change the batches: it is for clients that can't be tuned. If you \
                 can tune them, larger batches save the same fsyncs and keep the durability class (hone \
                 batch prove)."
                    .to_owned(),
                "To enable it, set write.caching=true on the topic. To roll it back, delete the property. \
                 The cluster's write_caching_default=disabled overrides both."
                    .to_owned(),
            ],
            Self::PageCache => vec![
                "Apache Kafka acknowledges from the page cache by default, so there is nothing to enable. \
                 The figures show the cost of a flush for every batch, which you pay if flush.messages or \
                 flush.ms is set."
                    .to_owned(),
            ],
        }
    }
}

/// The effective properties of a topic.
///
/// # Errors
/// When it does not exist, or its properties can't be read.
pub fn in_force(broker: &str, security: &Security, topic: &str) -> Result<Vec<(String, String)>> {
    let mut admin = Admin::connect_with(broker, security)?;
    let found = admin.topic_settings(topic, &PROPERTIES)?;
    Ok(PROPERTIES.iter().filter_map(|name| Some(((*name).to_owned(), found.get(*name)?.clone()))).collect())
}

/// Fsync counter of the embedded broker and of Redpanda, by shard.
const FSYNCS: &str = "vectorized_reactor_fsyncs";

/// Fsyncs per batch under a load, from the counters of a broker that Hone starts, over a window of its own.
///
/// # Errors
/// When the broker does not start, does not sustain the load, or does not export its counters.
pub fn fsyncs_per_batch(
    asked: &ProofSettings,
    load: &Workload,
    security: &Security,
    runner: &dyn Runner,
    scratch: &std::path::Path,
    progress: &Progress,
) -> Result<f64> {
    let mut arm = asked.arm("counted", security)?;
    let Place::Program(program) = &mut arm.place else {
        bail!("only a broker that Hone starts has fsync counters of this load alone")
    };
    let metrics = program
        .args
        .iter()
        .position(|arg| ["--metrics-listen", "--metrics"].contains(&arg.as_str()))
        .and_then(|at| program.args.get_mut(at + 1));
    *metrics.context("the broker's command has no --metrics")? = "127.0.0.1:{port2}".to_owned();
    let running = arm.start(runner, scratch)?;
    let (web, url) = (Web::open(None)?, running.fill("http://127.0.0.1:{port2}/metrics"));
    let settings = Settings {
        address: running.address.clone(),
        variant: "counted".to_owned(),
        storage: asked.comparison.storage.clone(),
        // The topic disappears with the broker. Deleting it earlier would remove its counters.
        topic: Topic::Named { prefix: asked.topic_prefix.clone(), keep: true },
        lateness_limit_us: asked.comparison.lateness_limit_us,
        shard: None,
        security: security.clone(),
    };
    progress.doing("counting fsyncs");
    let clients = Clients::within(runner, scratch.to_owned());
    let mut prepared = hone_load::prepare(settings, load.clone(), &clients, &mut progress.load())?;
    let targets = running.targets(prepared.brokers());
    prepared.warm_up(&mut Looker::at(&targets.pids), &mut progress.load())?;
    let before = counter(&web.get(&url, &[], &interrupt::requested)?, FSYNCS)
        .context("the broker exports no fsync counter")?;
    let mut probe = TargetProbe::new(targets, &[]);
    let window: Window = whole(prepared.run(Instant::now(), &mut probe, &mut progress.load())?)?;
    let after = counter(&web.get(&url, &[], &interrupt::requested)?, FSYNCS)
        .context("the broker exports no fsync counter")?;
    running.stop(runner)?;
    let batches: f64 =
        window.batches.iter().map(|seen| seen.batches as f64 / seen.seen_share.max(f64::MIN_POSITIVE)).sum();
    if batches <= 0.0 {
        bail!("no batches of the load were counted");
    }
    Ok((after - before) / batches)
}

/// The sum of a metric over its labels; `None` when it is not exported, which differs from 0.
fn counter(page: &str, name: &str) -> Option<f64> {
    let samples = exposition::read_only(page, |known| known == name).filter_map(Result::ok);
    samples.map(|sample| sample.value).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_summed_over_its_labels_and_a_missing_one_is_not_zero() {
        let page = "# TYPE vectorized_reactor_fsyncs counter\nvectorized_reactor_fsyncs{shard=\"0\"} 3\n\
                    vectorized_reactor_fsyncs{shard=\"1\"} 4 17\nvectorized_reactor_fsyncs_total{shard=\"1\"} 9\nplain 2\n";
        assert_eq!(counter(page, FSYNCS), Some(7.0));
        assert_eq!(counter(page, "plain"), Some(2.0));
        assert_eq!(counter(page, "vectorized_reactor"), None);
    }

    #[test]
    fn the_family_is_what_the_topic_has() {
        let of = |names: &[&str]| {
            let found: Vec<_> = names.iter().map(|name| ((*name).to_owned(), "x".to_owned())).collect();
            Family::from_properties(&found, "b:1").map_err(|error| error.to_string())
        };
        assert_eq!(of(&["flush.ms", "write.caching", "flush.messages"]), Ok(Family::WriteCaching));
        assert_eq!(of(&["flush.ms", "flush.messages"]), Ok(Family::PageCache));
        assert!(of(&["flush.ms"]).unwrap_err().contains("nothing to try"));
        let bounds = FlushBounds { flush_ms: 100, flush_bytes: 262_144 };
        for family in [Family::WriteCaching, Family::PageCache] {
            let [before, after] = family.classes(bounds);
            assert!(before.starts_with("fsync") && !after.starts_with("fsync"));
            assert!(family.risk(bounds).contains("loses acknowledged records"));
        }
    }

    #[test]
    fn bounds_are_those_that_were_asked_for_or_refused() {
        let bounds = FlushBounds { flush_ms: 20, flush_bytes: 65_536 };
        let [_, cached] = Family::WriteCaching.steps(bounds);
        assert_eq!(cached, "topic.write.caching=true,topic.flush.ms=20,topic.flush.bytes=65536");
        for told in [&Family::WriteCaching.classes(bounds)[1], &Family::WriteCaching.risk(bounds)] {
            assert!(told.contains("20 ms or 65536 bytes"), "{told}");
        }
        assert!(Family::WriteCaching.check(bounds, "b:1").is_ok());
        assert!(Family::PageCache.check(FlushBounds::USUAL, "b:1").is_ok());
        let refused = Family::PageCache.check(bounds, "b:1").unwrap_err().to_string();
        assert!(refused.contains("b:1 has no write caching"), "{refused}");
    }
}
