//! The write caching card: what an acknowledgement from memory would change for a topic. It is the one question in which durability
//! classes are compared, so both are named in everything that it says.

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

/// What a broker calls its way from an acknowledgement to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Redpanda and the embedded broker: `write.caching`, bounded by `flush.ms` and `flush.bytes`.
    WriteCaching,
    /// Apache Kafka: acknowledged from the page cache unless `flush.messages` says otherwise.
    PageCache,
}

/// Properties that are asked for.
pub(crate) const PROPERTIES: [&str; 5] =
    ["write.caching", "flush.ms", "flush.bytes", "flush.messages", "hone.durability"];
/// Kafka's default of flush.messages: never by count.
const NEVER: &str = "9223372036854775807";

/// What the card says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Card {
    /// The topic that it is about; `None` for a load that was only described.
    pub topic: Option<String>,
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// The settings that this broker has for it.
    pub family: Family,
    /// Name, and the value in force for the topic.
    pub in_force: Vec<(String, String)>,
    /// The settings of the test topics.
    pub change: String,
    /// What an acknowledgement promises without it and with it.
    pub classes: [String; 2],
    /// How a record that was acknowledged can be lost, beyond how it can be lost now.
    pub risk: String,
    /// Fsyncs for each batch, without it and with it; `None` where the broker's counters are out of reach.
    pub fsyncs_per_batch: Option<[f64; 2]>,
    /// What the windows showed.
    pub proof: Proof,
    /// What a reader has to know of it, in sentences.
    pub notes: Vec<String>,
}

/// Bounds of what is not on the disk yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushBounds {
    /// `flush.ms`.
    pub flush_ms: u64,
    /// `flush.bytes`.
    pub flush_bytes: u64,
}

impl FlushBounds {
    /// Where nobody says otherwise: as Redpanda has them.
    pub const USUAL: Self = Self { flush_ms: 100, flush_bytes: 262_144 };
}

impl Family {
    /// By the properties that a topic has.
    ///
    /// # Errors
    /// When it has neither.
    pub fn from_properties(in_force: &[(String, String)], broker: &str) -> Result<Self> {
        let has = |name: &str| in_force.iter().any(|(known, _)| known == name);
        match (has("write.caching"), has("flush.messages")) {
            (true, _) => Ok(Self::WriteCaching),
            (false, true) => Ok(Self::PageCache),
            (false, false) => bail!(Usage(format!(
                "{broker} has neither write.caching (Redpanda 24.1 and later) nor flush.messages (Apache Kafka): there is nothing to try"
            ))),
        }
    }

    /// # Errors
    /// When bounds are asked for that it does not have.
    pub fn check(self, bounds: FlushBounds, broker: &str) -> Result<()> {
        if self == Self::PageCache && bounds != FlushBounds::USUAL {
            bail!(Usage(format!(
                "--flush-ms and --flush-bytes bound what write caching holds, and {broker} has no write caching: Apache Kafka's kernel flushes \
                 when it likes; leave them out"
            )));
        }
        Ok(())
    }

    /// What the test topics of both states have, as steps.
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

    /// What an acknowledgement to acks=all promises in both states.
    pub fn classes(self, bounds: FlushBounds) -> [String; 2] {
        match self {
            Self::WriteCaching => [
                "fsync: a majority has the batch on its disk".to_owned(),
                format!(
                    "memory: a majority has the batch in memory, and flushes it within {} ms or {} bytes a partition",
                    bounds.flush_ms, bounds.flush_bytes
                ),
            ],
            Self::PageCache => [
                "fsync: each batch is flushed to the disk as it is written (flush.messages=1)".to_owned(),
                "page cache: the replicas in sync have the batch in the kernel's memory, which flushes when it likes".to_owned(),
            ],
        }
    }

    /// What can be lost in the second state and could not be in the first.
    pub fn risk(self, bounds: FlushBounds) -> String {
        let loss = "an outage that takes a majority of a partition's replicas at the same time (power of a room, a kernel's crash on all, \
                    one machine where there is one replica) loses acknowledged records";
        match self {
            Self::WriteCaching => format!(
                "{loss}: up to {} ms or {} bytes of each partition. One broker's outage loses nothing where there are three replicas. \
                 Transactions and group offsets are flushed as before.",
                bounds.flush_ms, bounds.flush_bytes
            ),
            Self::PageCache => format!(
                "{loss}: what the kernel had not flushed, usually up to 30 s (vm.dirty_expire_centisecs)."
            ),
        }
    }

    /// What is to be known of the family, beside the figures.
    pub fn notes(self) -> Vec<String> {
        match self {
            Self::WriteCaching => vec![
                "Batches stay as they are: write caching is for clients that can't be tuned. Where they can, larger batches save the same \
                 fsyncs and keep the class (hone batch prove)."
                    .to_owned(),
                "To set it: write.caching=true on the topic; to undo it: delete the property. The cluster's write_caching_default=disabled \
                 overrules both."
                    .to_owned(),
            ],
            Self::PageCache => vec![
                "Apache Kafka acknowledges from the page cache by default: there is nothing to switch on. The figures say what a flush for \
                 every batch would cost, or costs where somebody has set flush.messages or flush.ms."
                    .to_owned(),
            ],
        }
    }
}

/// The properties in force of a topic.
///
/// # Errors
/// When it is not there, or they may not be read.
pub fn in_force(broker: &str, security: &Security, topic: &str) -> Result<Vec<(String, String)>> {
    let mut admin = Admin::connect_with(broker, security)?;
    let found = admin.topic_settings(topic, &PROPERTIES)?;
    Ok(PROPERTIES.iter().filter_map(|name| Some(((*name).to_owned(), found.get(*name)?.clone()))).collect())
}

/// Fsyncs of the embedded broker and of Redpanda, by shard.
const FSYNCS: &str = "vectorized_reactor_fsyncs";

/// Fsyncs for each batch under a load, by the counters of a broker that Hone starts, over one window of its own.
///
/// # Errors
/// When the broker does not start, does not stand the load, or does not tell its counters.
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
        bail!("only a broker that Hone starts has a page to itself")
    };
    let metrics =
        program.args.iter().position(|arg| arg == "--metrics").and_then(|at| program.args.get_mut(at + 1));
    *metrics.context("the broker's command has no --metrics")? = "127.0.0.1:{port2}".to_owned();
    let running = arm.start(runner, scratch)?;
    let (web, url) = (Web::open(None)?, running.fill("http://127.0.0.1:{port2}/metrics"));
    let settings = Settings {
        address: running.address.clone(),
        variant: "counted".to_owned(),
        storage: asked.comparison.storage.clone(),
        // It goes with the broker; its counters would go with it.
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
        .context("the broker counts no fsyncs")?;
    let mut probe = TargetProbe::new(targets, &[]);
    let window: Window = whole(prepared.run(Instant::now(), &mut probe, &mut progress.load())?)?;
    let after = counter(&web.get(&url, &[], &interrupt::requested)?, FSYNCS)
        .context("the broker counts no fsyncs")?;
    running.stop(runner)?;
    let batches: f64 =
        window.batches.iter().map(|seen| seen.batches as f64 / seen.seen_share.max(f64::MIN_POSITIVE)).sum();
    if batches <= 0.0 {
        bail!("the load left no batches to count");
    }
    Ok((after - before) / batches)
}

/// The sum of a metric over its labels; `None` when it is not exported, which is not 0.
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
