//! `hone batch prove`: tests producer settings one after the other, and accepts only those that measurably help.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hone_load::Security;
use hone_record::{Comparison, Decision, Proof, Verdict};
use hone_report::documents;

use super::options::ProofOptions;
use crate::cmd::context::{CliContext, ReportOptions};
use hone_experiment::ending::{Ending, Usage, WayOn};
use hone_experiment::folder::{RunFolder, is_named, to_resume};
use hone_experiment::settle;
use hone_tune::batch::live::{self, ASKED_LIVE, LiveSettings};
use hone_tune::batch::prove::ProofSettings;
use hone_tune::batch::prove_run::{self, decides, steps};
use hone_tune::batch::recorded::record;
use hone_tune::batch::replica::Unlike;
use hone_tune::batch::step::Step;

/// Test producer settings step by step and accept what helps.
///
/// Hone compares each step with the last accepted state, as `hone compare` does. It accepts the step if the primary metric is better and no
/// guard metric is worse.
///
/// The load goes to test topics on TARGET: a broker (HOST:PORT), or a command with {port} and {data}. Without TARGET, Hone uses the
/// brokers of --bootstrap or --connection, or else starts an embedded broker. It deletes the test topics and writes to no other topic.
///
/// The options below describe the load, or --topic replicates a topic, but never its contents. Hone continues if the replica's records, bytes
/// and batches per second differ by at most 10 %, or with --allow-mismatch.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch prove --rate 20000 --connections 50 --baseline linger=0 \\
    --step linger=5ms --step linger=20ms
  hone batch prove 127.0.0.1:9092 --step linger=20ms,batch-size=64KiB \\
    --step codec=lz4 --step acks=1
  hone batch prove 127.0.0.1:9092 --topic orders --step linger=5ms \\
    --require 'p99<50ms'
  hone batch prove --source-broker broker-1:9092 --topic orders \\
    --steps steps.toml --predicted 1=whatif.json --markdown
  hone batch prove 127.0.0.1:9092 --consumers 20 --require 'e2e-p99<300ms' \\
    --step fetch-min-bytes=64KiB,fetch-max-wait=200ms
  hone batch prove --client 'java -cp jars/* Client.java' --step linger=20ms
  hone batch prove --resume runs/batch-prove-001
  hone batch prove broker-1:9092 --observe --topic orders --duration 5m \\
    --step linger=20ms

A step sets linger, batch-size, codec, partitioner, acks, in-flight, idempotence, buffer-memory, \
producers or partitions, and of consumers fetch-min-bytes, fetch-max-wait, fetch-max-bytes, \
max-partition-fetch-bytes or consumers. client.KEY, load.KEY and topic.KEY work as in `hone compare --change`. A \
command of --client gets Kafka's own names. Hone tests several settings of one step together, and can't \
separate their effects.

A file of steps:
  [[step]]
  set = \"linger=20ms\"
  predicted = { source = \"whatif\", batch_bytes = 16000.0 }")]
pub(crate) struct Arguments {
    /// Broker (HOST:PORT), or a command that starts one for each window. [default: brokers of the connection, or an embedded broker]
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Change to test; repeat it for several steps. Hone tests the steps in the order of the command line.
    #[arg(long = "step", value_name = "SETTING=VALUE,...")]
    steps: Vec<String>,
    /// TOML file with steps, which Hone tests before those of --step.
    #[arg(long = "steps", value_name = "FILE")]
    file: Option<PathBuf>,
    /// Settings of the starting state, with which Hone compares the first step. Other settings come from --topic, or are the client's
    /// defaults.
    #[arg(long = "baseline", alias = "original", value_name = "SETTING=VALUE,...")]
    original: Option<String>,
    /// Predicted effect of a step, as its number and a file; repeat it for several. The file is a record of `hone batch whatif`, or JSON. JSON
    /// may have batch_bytes, batches_per_s, requests_per_s and added_wait_ms.
    #[arg(long = "predicted", alias = "foretold", value_name = "NUMBER=FILE")]
    foretold: Vec<String>,
    /// Existing topic. Hone replicates its producers, as they were during the last --duration.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Broker that holds --topic, if it is not the target.
    #[arg(long = "source-broker", alias = "from", value_name = "BROKER", requires = "topic")]
    from: Option<String>,
    /// Observe the topic on a live cluster and send no load. Hone reads the last --duration of the topic, and again with --resume after your
    /// change. It gives no verdict.
    #[arg(long, alias = "live", requires = "topic", conflicts_with_all = ["from", "file", "original", "foretold"])]
    observe: bool,
    /// Continue even if the replica differs from the topic by more than 10 %. Hone also continues if the topic's producer waits for every
    /// answer.
    #[arg(long = "allow-mismatch", alias = "unlike")]
    unlike: bool,
    /// Keep the test topics when the run ends.
    #[arg(long)]
    keep_topics: bool,
    /// Continue an interrupted run. Give the TLS and login options again, because Hone does not save them.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = ["target", "steps", "file"])]
    resume: Option<Option<PathBuf>>,
    /// Print the result as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    brokers: hone_cli::connection::BootstrapOption,
    #[command(flatten)]
    options: ProofOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (options, progress) = (&arguments.options, &cli.progress);
    let security = options.security.security()?;
    if let Some(named) = &arguments.resume {
        let more = ["markdown", "unlike", "output"];
        cli.goes_on(if named.is_some() { &more[..2] } else { &more })?;
        let is_one = |path: &Path| is_named(path, "batch-prove");
        let folder = to_resume(named.as_deref(), &arguments.options.output, "batch prove", is_one)?;
        return resume(&folder, arguments, &security, cli);
    }
    if arguments.observe {
        return first_look(arguments, &security, cli);
    }
    let steps = steps(arguments.file.as_deref(), &arguments.steps, &arguments.foretold)?;
    let target = arguments.brokers.target(arguments.target.as_deref(), &options.security)?;
    let mut asked = ProofSettings {
        keep_topics: arguments.keep_topics,
        unlike: arguments.unlike,
        ..options.asked(target.as_deref(), steps, cli)?
    };
    asked.primary = decides(options.primary, &options.metrics, &asked.place, &security, progress)?;
    let is_given = |argument: &str| cli.is_given(argument);
    let read = |topic| record(topic, arguments.from.as_deref(), &asked, &security, (&is_given, progress));
    let recorded = arguments.topic.as_deref().map(read).transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, (&is_given, progress))?;
        asked.today = recorded.today();
    }
    // The first step is compared with these settings.
    if let Some(text) = &arguments.original {
        asked.workload = Step::new(text.clone(), None)?.applied(&asked.workload)?;
        asked.load = format!("{}, with {text}", asked.load);
    }
    let home = (&*options.output, "batch-prove");
    let folder = prove_run::begin(&mut asked, recorded.as_ref(), home, &security, progress)?;
    go(&asked, &folder, (arguments.markdown, arguments.options.report), &security, cli)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    if let Some(asked) = folder.read_note::<LiveSettings>(ASKED_LIVE)? {
        let found = live::second_look(&asked, &folder, security, &cli.progress)?;
        return cli.show_found("batch-before-after", &found, hone_tune::batch::before_after::text);
    }
    let mut asked = prove_run::resume(&folder, security, &cli.progress)?;
    asked.unlike |= arguments.unlike;
    go(&asked, &folder, (arguments.markdown, arguments.options.report), security, cli)
}

/// Observes the live topic before the change.
fn first_look(arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let target = arguments.brokers.target(arguments.target.as_deref(), &arguments.options.security)?;
    let (Some(broker), Some(topic)) = (target, &arguments.topic) else {
        bail!(Usage(
            "--observe needs a topic of a running cluster\n  \
             next: hone batch prove BROKER --observe --topic TOPIC --step linger=20ms"
                .to_owned()
        ));
    };
    let last_s = arguments.options.workload.duration_s();
    let asked = LiveSettings {
        broker,
        topic: topic.clone(),
        last_s,
        changes: arguments.steps.clone(),
        looked_unix_ms: 0,
    };
    let (found, folder) = live::first_look(asked, &arguments.options.output, security, &cli.progress)?;
    cli.show(found, |found| {
        format!(
            "{}\n  next: make the change, wait more than {last_s} s, then run `hone batch prove --resume {}`\n",
            hone_document::xray::text(found, true),
            folder.path().display()
        )
    })
}

/// Measures the remaining steps, and shows all results.
fn go(
    asked: &ProofSettings,
    folder: &RunFolder,
    (markdown, report): (bool, ReportOptions),
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let (proof, places) = measured(asked, folder, report, security, cli).map_err(|error| {
        let way_on = match error.is::<Unlike>() {
            true => WayOn(format!(
                "`hone batch prove --resume {} --allow-mismatch` tests the steps with this replica",
                folder.path().display()
            )),
            false => WayOn::resume("batch prove", folder),
        };
        error.context(way_on)
    })?;
    let ending = ending(&proof);
    let behind = places + &settle::proof(&proof, folder.path());
    let document = |proof: &Proof| documents::proof(proof, &BTreeMap::new(), None);
    cli.show_document_or_markdown(proof, markdown, document, &behind)?;
    Ok(ending)
}

/// The ending is worse if a step was worse and none was accepted.
fn ending(proof: &Proof) -> Ending {
    let is_kept = proof.steps.iter().any(|step| step.decision == Decision::Accepted);
    let verdicts = proof.steps.iter().filter_map(|step| step.comparison.as_ref().map(Comparison::verdict));
    match !is_kept && verdicts.into_iter().any(|verdict| verdict == Verdict::Worse) {
        true => Ending::Worse,
        false => Ending::Done,
    }
}

/// Measures the steps and writes record and page. Also returns a text with their paths.
pub(super) fn measured(
    asked: &ProofSettings,
    folder: &RunFolder,
    report: ReportOptions,
    security: &Security,
    cli: &CliContext,
) -> Result<(Proof, String)> {
    let (proof, record) = prove_run::measured(asked, folder, security, &cli.progress)?;
    Ok((proof, report.write(&record)?))
}
