//! `hone batch prove`: settings of producers tried one after the other, and kept only where it is shown that they help.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hone_load::Security;
use hone_record::{Comparison, Decision, Proof, Verdict};
use hone_report::documents;

use super::options::ProofOptions;
use crate::cmd::context::{CliContext, record_and_page};
use hone_experiment::ending::{Ending, Usage, WayOn};
use hone_experiment::folder::RunFolder;
use hone_experiment::settle::to_settle;
use hone_tune::batch::live::{self, ASKED_LIVE, LiveSettings};
use hone_tune::batch::prove::ProofSettings;
use hone_tune::batch::prove_run::{self, decides, steps};
use hone_tune::batch::recorded::record;
use hone_tune::batch::replica::Unlike;
use hone_tune::batch::step::Step;

/// Prove changes of producers one after the other: each step is measured against the state that was kept until then, and kept
/// only if it is better and no guard rail breaks.
///
/// The load goes to test topics of the broker that TARGET names (host:port, or a command with {port} and {data}), or of an embedded
/// broker that Hone starts. It is shaped by the options below, or replicates a topic (--topic): the number of its producers, what each of
/// them sends and when, sizes, partitions, codec, linger and batch size, and never its contents. Hone first sends the replica once, and shows
/// it beside the topic. It goes on only where records, bytes and batches per second differ by at most 10 %, or with --unlike. Topics are
/// this run's own and go again; no other topic is written to.
///
/// Each step is a comparison as of `hone compare`: pairs of windows in random order, A/A pairs as a control, and the rule on the disk
/// before the first window.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone batch prove --rate 20000 --connections 50 --original linger=0 --step linger=1ms --step linger=5ms --step linger=20ms
  hone batch prove 127.0.0.1:9092 --step linger=20ms,batch-size=64KiB --step codec=lz4 --step acks=1
  hone batch prove 127.0.0.1:9092 --topic orders --step linger=5ms --require 'p99<50ms'
  hone batch prove --from broker:9092 --topic orders --steps steps.toml --foretold 1=whatif.json --markdown
  hone batch prove --client 'java -cp jars/* Client.java' --step linger=20ms
  hone batch prove --resume runs/batch-prove-001
  hone batch prove broker-1:9092 --live --topic orders --duration 5m --step linger=20ms

Steps: linger, batch-size, codec, partitioner, acks, in-flight, idempotence, buffer-memory, producers, partitions; or client.KEY,
load.KEY and topic.KEY as in `hone compare --change`. A command of --client gets Kafka's own names. What stands in one step is tried
together, and nobody can say then which part of it did it.

A file of steps:
  [[step]]
  set = \"linger=20ms\"
  foretold = { source = \"whatif\", batch_bytes = 16000.0 }")]
pub(crate) struct Arguments {
    /// host:port of a broker, or a command that starts one for each window; an embedded broker without it.
    target: Option<String>,
    /// A change to try; may be repeated, in this order.
    #[arg(long = "step", value_name = "SETTING=VALUE,...")]
    steps: Vec<String>,
    /// A file of steps, tried before those of --step.
    #[arg(long = "steps", value_name = "FILE")]
    file: Option<PathBuf>,
    /// The settings that the first step is held against, written as a step; all others are those of --topic, or the client's own defaults.
    #[arg(long, value_name = "SETTING=VALUE,...")]
    original: Option<String>,
    /// What was foretold of a step: its number, and a record or JSON file with batch_bytes, batches_per_s, requests_per_s or
    /// added_wait_ms; may be repeated.
    #[arg(long, value_name = "NUMBER=FILE")]
    foretold: Vec<String>,
    /// Replicate the producers of this topic, from its last --duration.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// The broker that has the topic, where that is not the target.
    #[arg(long, value_name = "BROKER", requires = "topic")]
    from: Option<String>,
    /// Send nothing: look at the topic as it is, over its last --duration, and once more with --resume when somebody has made the change.
    /// Two times are no two arms, so nothing is judged.
    #[arg(long, requires = "target", requires = "topic", conflicts_with_all = ["from", "file", "original", "foretold"])]
    live: bool,
    /// Prove the steps even where the replica of --topic differs from the topic by more than 10 %, or the topic's producer waits for every
    /// answer.
    #[arg(long)]
    unlike: bool,
    /// Leave the test topics where they are.
    #[arg(long)]
    keep_topics: bool,
    /// Go on with an interrupted run, after its last pair. TLS and login are said again: they are kept nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["target", "steps", "file"])]
    resume: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    #[command(flatten)]
    options: ProofOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (options, progress) = (&arguments.options, &cli.progress);
    let security = options.security.security()?;
    if let Some(folder) = &arguments.resume {
        cli.goes_on(&["markdown", "unlike"])?;
        return resume(folder, arguments, &security, cli);
    }
    if arguments.live {
        return first_look(arguments, &security, cli);
    }
    let steps = steps(arguments.file.as_deref(), &arguments.steps, &arguments.foretold)?;
    let mut asked = ProofSettings {
        keep_topics: arguments.keep_topics,
        unlike: arguments.unlike,
        ..options.asked(arguments.target.as_deref(), steps, cli)?
    };
    asked.primary = decides(options.primary, &options.metrics, &asked.place, &security, progress)?;
    let is_given = |argument: &str| cli.is_given(argument);
    let read = |topic| record(topic, arguments.from.as_deref(), &asked, &security, (&is_given, progress));
    let recorded = arguments.topic.as_deref().map(read).transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, (&is_given, progress))?;
        asked.today = recorded.today();
    }
    // What the first step is held against.
    if let Some(text) = &arguments.original {
        asked.workload = Step::new(text.clone(), None)?.applied(&asked.workload)?;
        asked.load = format!("{}, with {text}", asked.load);
    }
    let home = (&*options.output, "batch-prove");
    let folder = prove_run::begin(&mut asked, recorded.as_ref(), home, &security, progress)?;
    go(&asked, &folder, arguments.markdown, &security, cli)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    if let Some(asked) = folder.read_note::<LiveSettings>(ASKED_LIVE)? {
        let found = live::second_look(&asked, &folder, security, &cli.progress)?;
        return cli.show_found("batch-before-after", &found, hone_tune::batch::before_after::text);
    }
    let mut asked = prove_run::resume(&folder, security, &cli.progress)?;
    asked.unlike |= arguments.unlike;
    go(&asked, &folder, arguments.markdown, security, cli)
}

/// A cluster at work, before the change.
fn first_look(arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let (Some(broker), Some(topic)) = (&arguments.target, &arguments.topic) else {
        bail!(Usage("--live looks at a topic of a running cluster: name BROKER and --topic".to_owned()));
    };
    let last_s = arguments.options.workload.duration_s();
    let asked = LiveSettings {
        broker: broker.clone(),
        topic: topic.clone(),
        last_s,
        changes: arguments.steps.clone(),
        looked_unix_ms: 0,
    };
    let (found, folder) = live::first_look(asked, &arguments.options.output, security, &cli.progress)?;
    cli.show(found, |found| {
        format!(
            "{}\nNow make the change, give it more than {last_s} s, and then: hone batch prove --resume {}\n",
            hone_document::xray::text(found, true),
            folder.path().display()
        )
    })
}

/// Measures what is not measured yet, and shows all of it.
fn go(
    asked: &ProofSettings,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let (proof, places) = measured(asked, folder, security, cli).map_err(|error| {
        let way_on = match error.is::<Unlike>() {
            true => WayOn(format!(
                "to prove the steps on this replica all the same: hone batch prove --resume {} --unlike",
                folder.path().display()
            )),
            false => WayOn::resume("batch prove", folder),
        };
        error.context(way_on)
    })?;
    let ending = ending(&proof);
    let behind = places + &next(&proof);
    let document = |proof: &Proof| documents::proof(proof, &BTreeMap::new(), None);
    cli.show_document_or_markdown(proof, markdown, document, &behind)?;
    Ok(ending)
}

/// The command that most probably settles the first step of which nothing was shown.
fn next(proof: &Proof) -> String {
    let is_open = |found: &&Comparison| found.verdict() == Verdict::NotShown;
    let open = proof.steps.iter().filter_map(|step| step.comparison.as_ref()).find(is_open);
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let next = open.and_then(|comparison| to_settle(comparison, proof.steps.len(), &words));
    next.map_or(String::new(), |next| format!("  next: {next}\n"))
}

/// Worse where a step was shown to be, and none was kept.
fn ending(proof: &Proof) -> Ending {
    let is_kept = proof.steps.iter().any(|step| step.decision == Decision::Accepted);
    let verdicts = proof.steps.iter().filter_map(|step| step.comparison.as_ref().map(Comparison::verdict));
    match !is_kept && verdicts.into_iter().any(|verdict| verdict == Verdict::Worse) {
        true => Ending::Worse,
        false => Ending::Done,
    }
}

/// Takes the steps, and keeps record and page. Says where they are.
pub(super) fn measured(
    asked: &ProofSettings,
    folder: &RunFolder,
    security: &Security,
    cli: &CliContext,
) -> Result<(Proof, String)> {
    let (proof, record) = prove_run::measured(asked, folder, security, &cli.progress)?;
    Ok((proof, record_and_page(&record)?))
}
