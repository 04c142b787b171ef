//! `hone batch caching`: what write caching would change for a topic.

use anyhow::{Result, bail};
use clap::Args;
use hone_cli::values::{milliseconds, size};
use hone_record::Metric;

use super::options::ProofOptions;
use super::prove::measured;
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::batch::caching::{Card, Family, FlushBounds, in_force};
use hone_tune::batch::prove_run::{begin, fsyncs_without_and_with};
use hone_tune::batch::recorded::record;
use hone_tune::batch::step::Step;

/// Measure what write caching changes: fsyncs, latency and durability.
///
/// Hone tests write caching on test topics of the topic's own cluster, or on an embedded broker. It replicates the topic's arrivals, sizes and
/// partitions, but never its contents. It only reads the topic itself.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch caching
  hone batch caching orders --bootstrap 127.0.0.1:9092
  hone batch caching orders --bootstrap 127.0.0.1:9092 --flush-interval 20ms \\
    --require 'p99<20ms'
  hone batch caching --rate 5000 --connections 20 --client-set linger.ms=0")]
pub(crate) struct Arguments {
    /// Topic whose load Hone replicates. Without a topic, the options describe the load.
    #[arg(value_name = "TOPIC", requires = "broker")]
    topic: Option<String>,
    /// Brokers to connect to first: HOST:PORT, separated by commas. [default: an embedded broker]
    #[arg(long = "bootstrap", alias = "broker", value_name = "ADDRESSES")]
    broker: Option<String>,
    /// Longest time that acknowledged records stay unflushed.
    #[arg(
        long = "flush-interval",
        alias = "flush-ms",
        default_value = "100ms",
        value_parser = milliseconds(0.0, 86_400.0),
        value_name = "TIME"
    )]
    flush_ms: u64,
    /// Largest number of unflushed bytes per partition.
    #[arg(long, default_value = "256KiB", value_parser = size::<u64>(0, 1 << 50), value_name = "SIZE")]
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
                bail!(Usage(format!(
                    "invalid --bootstrap address `{broker}`: use HOST:PORT, for example `127.0.0.1:9092`"
                )));
            }
            let found = in_force(broker, &security, topic)?;
            let family = Family::from_properties(&found, broker)?;
            family.check(bounds, broker)?;
            (family, found)
        }
        // Without a topic, the test topics show which kind of caching the broker has.
        _ => (Family::WriteCaching, Vec::new()),
    };
    let [without, with] = family.steps(bounds);
    let step = Step::new(with.clone(), None)?;
    let mut asked = arguments.options.asked(arguments.broker.as_deref(), vec![step], cli)?;
    asked.is_card = true;
    // Write caching changes latency, so latency decides and not CPU.
    asked.primary = arguments.options.primary.unwrap_or(Metric::LatencyP50);
    let (is_given, progress) = (|argument: &str| cli.is_given(argument), &cli.progress);
    let read = |topic| record(topic, None, &asked, &security, (&is_given, progress));
    let recorded = arguments.topic.as_deref().map(read).transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, (&is_given, progress))?;
    }
    asked.workload = Step::new(without, None)?.applied(&asked.workload)?;
    if asked.workload.acks != -1 {
        bail!(Usage(
            "write caching matters only with acks=all: with acks 0 or 1 no request waits for a flush\n  \
             next: leave out --acks, or use --acks all"
                .to_owned()
        ));
    }
    let home = (&*arguments.options.output, "batch-caching");
    let folder = begin(&mut asked, recorded.as_ref(), home, &security, progress)?;
    let fsyncs = match arguments.broker {
        None => Some(fsyncs_without_and_with(&asked, &folder, &security, progress)?),
        Some(_) => None,
    };
    let (proof, places) = measured(&asked, &folder, arguments.options.report, &security, cli)?;
    let mut notes = family.notes();
    if fsyncs.is_none() {
        notes.push(
            "Hone counts fsyncs per batch only on a broker that it starts. For this broker, see its own \
             metrics (vectorized_reactor_fsyncs or LogFlushRateAndTimeMs)."
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
