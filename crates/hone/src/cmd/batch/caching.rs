//! `hone batch caching`: the write caching card of a topic.

use anyhow::Result;
use clap::Args;
use hone_record::Metric;

use super::options::ProofOptions;
use super::prove::measured;
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::batch::caching::{Card, Family, FlushBounds, in_force};
use hone_tune::batch::prove_run::{begin, fsyncs_without_and_with};
use hone_tune::batch::recorded::record;
use hone_tune::batch::step::Step;

/// Say what an acknowledgement from memory would change for a topic: fsyncs, latency, and the durability class.
///
/// Tried on test topics of the topic's own cluster, with its load (its arrivals, sizes and partitions, never its contents), or on an
/// embedded broker. The topic itself is only read. Redpanda and the embedded broker have write.caching; Apache Kafka acknowledges from
/// the page cache by default, and there the card says what a flush for every batch costs.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch caching
  hone batch caching orders --broker 127.0.0.1:9092
  hone batch caching orders --broker 127.0.0.1:9092 --flush-ms 20 --require 'p99<20ms'
  hone batch caching --rate 5000 --connections 20 --client-set linger.ms=0")]
pub(crate) struct Arguments {
    /// The topic; without one the load is what the options say.
    #[arg(requires = "broker")]
    topic: Option<String>,
    /// host:port of a broker of its cluster; an embedded broker without it.
    #[arg(long, value_name = "BROKER")]
    broker: Option<String>,
    /// Longest time that something acknowledged stays unflushed, in milliseconds.
    #[arg(long, default_value_t = FlushBounds::USUAL.flush_ms, value_name = "MS")]
    flush_ms: u64,
    /// Most bytes of a partition that stay unflushed.
    #[arg(long, default_value_t = FlushBounds::USUAL.flush_bytes, value_name = "BYTES")]
    flush_bytes: u64,
    #[command(flatten)]
    options: ProofOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let security = arguments.options.security.security()?;
    let bounds = FlushBounds { flush_ms: arguments.flush_ms, flush_bytes: arguments.flush_bytes };
    let (family, in_force) = match (&arguments.broker, &arguments.topic) {
        (Some(broker), Some(topic)) => {
            if !hone_experiment::arm::is_address(broker) {
                return Err(Usage(format!("`{broker}` is no broker's address; write HOST:PORT")).into());
            }
            let found = in_force(broker, &security, topic)?;
            let family = Family::from_properties(&found, broker)?;
            family.check(bounds, broker)?;
            (family, found)
        }
        // Ours, or one of which nothing is asked: the test topics will tell.
        _ => (Family::WriteCaching, Vec::new()),
    };
    let [without, with] = family.steps(bounds);
    let step = Step::new(with.clone(), None)?;
    let mut asked = arguments.options.asked(arguments.broker.as_deref(), vec![step], cli)?;
    asked.is_card = true;
    // CPU is not what it is about.
    asked.primary = arguments.options.primary.unwrap_or(Metric::LatencyP50);
    let (is_given, progress) = (|argument: &str| cli.is_given(argument), &cli.progress);
    let read = |topic| record(topic, None, &asked, &security, (&is_given, progress));
    let recorded = arguments.topic.as_deref().map(read).transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, (&is_given, progress))?;
    }
    asked.workload = Step::new(without, None)?.applied(&asked.workload)?;
    if asked.workload.acks != -1 {
        return Err(Usage(
            "the card is about acks=all: with acks 0 or 1 nothing waits for a flush".to_owned(),
        )
        .into());
    }
    let home = (&*arguments.options.output, "batch-caching");
    let folder = begin(&mut asked, recorded.as_ref(), home, &security, progress)?;
    let fsyncs = match arguments.broker {
        None => Some(fsyncs_without_and_with(&asked, &folder, &security, progress)?),
        Some(_) => None,
    };
    let (proof, places) = measured(&asked, &folder, &security, cli)?;
    let mut notes = family.notes();
    if fsyncs.is_none() {
        notes.push(
            "Fsyncs a batch are counted on a broker that Hone starts; of this one its own metrics tell \
             (vectorized_reactor_fsyncs, LogFlushRateAndTimeMs)."
                .to_owned(),
        );
    }
    let card = Card {
        topic: arguments.topic.clone(),
        target: asked.target.clone(),
        family,
        in_force,
        change: with,
        classes: family.classes(bounds),
        risk: family.risk(bounds),
        fsyncs_per_batch: fsyncs,
        proof,
        notes,
    };
    cli.show_found("caching-card", &card, |card| {
        format!("{}\n{places}", hone_tune::batch::caching_text::text(card))
    })
}
