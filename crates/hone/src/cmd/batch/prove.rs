//! `hone batch prove`: settings of producers tried one after the other, and kept only where it is shown that they help.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_batch::replica::{Placing, Writers};
use hone_batch::whatif::client::Client;
use hone_load::{Admin, Security, TopicLoad, Topics, topic_load};
use hone_record::{BatchXray, Comparison, Decision, Engine, Proof, Recording, Verdict, Workload};
use hone_tool::System;

use super::options::ProofOptions;
use crate::cmd::context::CliContext;
use hone_experiment::arm::Place;
use hone_experiment::ending::{Ending, Usage, WayOn};
use hone_experiment::folder::{RunFolder, read_record};
use hone_experiment::left;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::notation::Written;
use hone_experiment::standing::Standing;
use hone_tune::batch::live::{self, ASKED_LIVE, LiveSettings};
use hone_tune::batch::prove::{ASKED, ProofSettings, Session};
use hone_tune::batch::replica::{self, Today, Unlike};
use hone_tune::batch::step::{Step, foretold_of, of_file};

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
    let security = arguments.options.security.security()?;
    if let Some(folder) = &arguments.resume {
        cli.goes_on(&["markdown", "unlike"])?;
        return resume(folder, arguments, &security, cli);
    }
    if arguments.live {
        return first_look(arguments, &security, cli);
    }
    let mut asked = ProofSettings {
        keep_topics: arguments.keep_topics,
        unlike: arguments.unlike,
        ..asked(arguments, cli)?
    };
    asked.primary = arguments.options.decides(&asked.place, &security, &cli.progress)?;
    let recorded = arguments.topic.as_ref().map(|topic| {
        let broker = arguments.from.as_deref();
        record(topic, broker, &asked, &security, cli)
    });
    let recorded = recorded.transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, cli)?;
        asked.today = recorded.today();
    }
    original(arguments, &mut asked)?;
    asked.check()?;
    left::tidied(&arguments.options.output, &[&asked.place], &security, &cli.progress)?;
    let folder = RunFolder::create(&arguments.options.output, "batch-prove")?;
    if let Some(recorded) = recorded {
        recorded.write(&mut asked.workload, &folder)?;
    }
    asked.standing = Some(standing(&asked, &security)?);
    folder.write_note(ASKED, &asked)?;
    go(&asked, &folder, arguments.markdown, &security, cli)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    if let Some(asked) = folder.read_note::<LiveSettings>(ASKED_LIVE)? {
        return second_look(&asked, &folder, security, cli);
    }
    let missing =
        || Usage(format!("{} is no run of hone batch prove: it has no {ASKED}", folder.path().display()));
    let mut asked: ProofSettings = folder.read_note(ASKED)?.ok_or_else(missing)?;
    asked.unlike |= arguments.unlike;
    // Commands may hold paths that were meant from where the run began.
    std::env::set_current_dir(&asked.working_folder)
        .with_context(|| format!("the run began in {}", asked.working_folder.display()))?;
    // What another run left would be measured on, too.
    left::tidied(folder.home(), &[&asked.place], security, &cli.progress)?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&asked, security)?, folder.path())?;
    }
    go(&asked, &folder, arguments.markdown, security, cli)
}

/// A cluster at work, before the change.
fn first_look(arguments: &Arguments, security: &Security, cli: &CliContext) -> Result<Ending> {
    let (Some(broker), Some(topic)) = (&arguments.target, &arguments.topic) else {
        bail!(Usage("--live looks at a topic of a running cluster: name BROKER and --topic".to_owned()));
    };
    for step in &arguments.steps {
        Step::new(step.clone(), None)?;
    }
    let last_s = arguments.options.workload.duration_s();
    let mut asked = LiveSettings {
        broker: broker.clone(),
        topic: topic.clone(),
        last_s,
        changes: arguments.steps.clone(),
        looked_unix_ms: 0,
    };
    cli.progress.doing(&format!("reading the last {last_s} s of {topic}"));
    let found = live::look(&asked, security)?;
    asked.looked_unix_ms = now_unix_ms();
    let folder = RunFolder::create(&arguments.options.output, "batch-live")?;
    folder.write_note(ASKED_LIVE, &asked)?;
    folder.write_record("before.json", found.clone())?;
    cli.show(found, |found| {
        format!(
            "{}\nNow make the change, give it more than {last_s} s, and then: hone batch prove --resume {}\n",
            hone_document::xray::text(found, true),
            folder.path().display()
        )
    })?;
    Ok(Ending::Done)
}

/// The same after it.
fn second_look(
    asked: &LiveSettings,
    folder: &RunFolder,
    security: &Security,
    cli: &CliContext,
) -> Result<Ending> {
    let before: BatchXray = read_record(&folder.join("before.json"))?;
    if let Some(left_s) = asked.too_early_s(now_unix_ms()) {
        bail!(Usage(format!(
            "too early: the last {} s still hold what the first look has seen; look again in {:.0} s",
            asked.last_s,
            left_s.ceil()
        )));
    }
    cli.progress.doing(&format!("reading the last {} s of {}", asked.last_s, asked.topic));
    let after = live::look(asked, security)?;
    folder.write_record("after.json", after.clone())?;
    let (Some(before), Some(after)) = (before.topics.into_iter().next(), after.topics.into_iter().next())
    else {
        bail!("{} holds no look at a topic; begin again", folder.path().display());
    };
    let found = live::beside(asked, before, after);
    cli.show_found("batch-before-after", &found, hone_tune::batch::before_after::text)?;
    Ok(Ending::Done)
}

pub(super) fn standing(asked: &ProofSettings, security: &Security) -> Result<Standing> {
    let arm = asked.arm("kept", security)?;
    // Who does not listen is not one that does not stand the load.
    if let Place::Address(address) = &arm.place {
        Admin::connect_with(address, security)?;
    }
    let machine = hone_host::observe::machine(Path::new("/"));
    Standing::of([arm].iter(), std::iter::once(&asked.workload), &machine)
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
    let text = |proof: &Proof| {
        let told =
            if markdown { hone_document::proof::markdown(proof) } else { hone_document::proof::text(proof) };
        format!("{told}\n{places}")
    };
    let ending = ending(&proof);
    cli.show(proof, text)?;
    Ok(ending)
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

/// Takes the steps, and keeps record, Markdown and page. Says where they are.
pub(super) fn measured(
    asked: &ProofSettings,
    folder: &RunFolder,
    security: &Security,
    cli: &CliContext,
) -> Result<(Proof, String)> {
    let runner = System::new(folder.join("logs"))?;
    let progress = &cli.progress;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let session = Session { asked, folder, security, runner: &runner, progress };
    let proof = session.run()?;
    let record = folder.write_record("proof.json", proof.clone())?;
    folder.write_text("proof.md", &hone_document::proof::markdown(&proof))?;
    let page = hone_serve::page::write(&record, None)?;
    Ok((proof, format!("Record: {}\nPage: {}\n", record.display(), page.display())))
}

/// What was asked for, before a topic or the original settings shape the load.
fn asked(arguments: &Arguments, cli: &CliContext) -> Result<ProofSettings> {
    let mut steps = match &arguments.file {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Usage(format!("{} can't be read: {error}", path.display())))?;
            of_file(&text, path)?
        }
        None => Vec::new(),
    };
    for step in &arguments.steps {
        steps.push(Step::new(step.clone(), None)?);
    }
    if steps.is_empty() {
        bail!(Usage("no step to prove: write for example --step linger=5ms".to_owned()));
    }
    for told in &arguments.foretold {
        foretell(told, &mut steps)?;
    }
    arguments.options.asked(arguments.target.as_deref(), steps, cli)
}

/// `NUMBER=FILE`.
fn foretell(told: &str, steps: &mut [Step]) -> Result<()> {
    let wrong = |problem: String| Usage(format!("--foretold `{told}`: {problem}"));
    let (number, path) =
        told.split_once('=').ok_or_else(|| wrong("write NUMBER=FILE, as in 1=whatif.json".to_owned()))?;
    let count = steps.len();
    let step = number.trim().parse::<usize>().ok().and_then(|number| steps.get_mut(number.checked_sub(1)?));
    let step = step.ok_or_else(|| wrong(format!("there are steps 1 to {count}")))?;
    let path = Path::new(path);
    let text = std::fs::read_to_string(path)
        .map_err(|error| wrong(format!("{} can't be read: {error}", path.display())))?;
    step.foretold = Some(foretold_of(&text, path)?);
    Ok(())
}

/// Sets what the first step is held against.
fn original(arguments: &Arguments, asked: &mut ProofSettings) -> Result<()> {
    if let Some(text) = &arguments.original {
        asked.workload = Step::new(text.clone(), None)?.applied(&asked.workload)?;
        asked.load = format!("{}, with {text}", asked.load);
    }
    Ok(())
}

/// A topic's load, to be sent again.
pub(super) struct Recorded {
    topic: String,
    load: TopicLoad,
    /// Its producers, or why they can't be replicated: then the load has the topic's arrivals, and records of their mean size.
    writers: Result<Writers, String>,
}

/// Options that say what a recording says of each record.
const OF_EACH_RECORD: [&str; 4] = ["bytes", "sizes", "keys", "payload"];

pub(super) fn record(
    topic: &str,
    broker: Option<&str>,
    asked: &ProofSettings,
    security: &Security,
    cli: &CliContext,
) -> Result<Recorded> {
    if cli.is_given("rate") {
        bail!(Usage(
            "--rate and --topic contradict each other: a recording has its topic's own arrivals".to_owned()
        ));
    }
    let broker = match broker {
        Some(broker) => broker.to_owned(),
        None if hone_experiment::arm::is_address(&asked.place) => asked.place.clone(),
        None => bail!(Usage(format!("which broker has the topic {topic}? Name it with --from HOST:PORT"))),
    };
    cli.progress.doing(&format!("reading {topic}"));
    let stretch_s = asked.workload.duration_s;
    let load = topic_load(&broker, security, topic, Duration::from_secs_f64(stretch_s))?;
    let writers = match OF_EACH_RECORD.iter().find(|option| cli.is_given(option)) {
        Some(option) => Err(format!("--{option} says what records are like")),
        None => {
            let newest_ms = load.times_ns.last().map_or(0, |time_ns| (time_ns / 1_000_000) as i64);
            let client = match &asked.workload.engine {
                Engine::Librdkafka { .. } => Client::Librdkafka,
                _ => Client::Java4,
            };
            cli.progress.doing(&format!("asking {topic} for its producers"));
            Topics::enter(&broker, security)
                .map_err(anyhow::Error::from)
                .and_then(|mut topics| replica::describe(&mut topics, topic, newest_ms, stretch_s, client))
                .map_err(|error| format!("{error:#}"))
        }
    };
    Ok(Recorded { topic: topic.to_owned(), load, writers })
}

impl Recorded {
    /// Takes the producers, their settings, partitions and codec; what stands on the command line comes first.
    pub(super) fn shape(&self, asked: &mut ProofSettings, cli: &CliContext) -> Result<()> {
        let (load, workload) = (&self.load, &mut asked.workload);
        if !cli.is_given("partitions") {
            workload.partitions = load.partitions;
        }
        workload.requests_per_s = load.times_ns.len() as f64 / workload.duration_s;
        // Until its own times are written down: as many, without a spread.
        workload.schedule = hone_record::Schedule::Uniform;
        match &self.writers {
            Ok(writers) => {
                replica::shape(writers, workload, |option| cli.is_given(option))?;
                asked.limits.extend(self.limits(writers));
            }
            Err(why) => {
                self.shape_of_means(workload, cli);
                asked.limits.push(format!(
                    "The producers of {} are not replicated: {why}. The load has the topic's arrivals, and each record has the mean size of the \
                     topic's ({:.0} bytes). Keys are drawn with equal chances, so a hot partition is not in this load.",
                    self.topic, load.record_bytes
                ));
            }
        }
        asked.load = format!(
            "the last {} s of topic {}: {} records of {:.0} bytes on average by {} producers to {} partitions, {}",
            workload.duration_s,
            self.topic,
            hone_format::count(load.times_ns.len() as u64),
            load.record_bytes,
            workload.connections,
            workload.partitions,
            if load.keyed_share >= 0.5 { "keyed" } else { "without keys" }
        );
        asked.limits.extend(load.notes.iter().cloned());
        load.notes.iter().for_each(|note| cli.progress.line(note));
        Ok(())
    }

    fn shape_of_means(&self, workload: &mut Workload, cli: &CliContext) {
        let load = &self.load;
        if !cli.is_given("bytes") {
            workload.record_bytes = load.record_bytes.round().max(1.0) as u32;
        }
        if !cli.is_given("compression") {
            load.codec.name().clone_into(&mut workload.compression);
        }
        if !cli.is_given("keys") && load.keyed_share >= 0.5 {
            workload.keys = hone_record::Keys::Uniform { distinct: load.distinct_keys.max(1) };
        }
    }

    /// What a replica of these producers can't show.
    fn limits(&self, writers: &Writers) -> Vec<String> {
        let topic = &self.topic;
        let mut limits = vec![format!(
            "The load replicates {topic}'s producers: arrivals in whole milliseconds, sizes and partitions of its records. A producer that waits \
             for answers would send otherwise under another setting: that is not in a recording. Contents are not taken: values compress as \
             the topic's do today, whatever the size of the batch."
        )];
        if let Some(nameless) = writers.doubts.nameless {
            limits.push(format!(
                "At least {nameless} producers of {topic} have no id. There may be more: they are counted only where their batches overlap \
                 (--connections says how many there are)."
            ));
        }
        if writers.placing == Placing::Forced {
            limits.push(format!(
                "Records of {topic} without a key get one here, which puts them into the partition that they have in the topic. So a step that \
                 changes partitions or the partitioner shows nothing of the topic."
            ));
        }
        limits
    }

    /// The topic as it is, for the check of its replica.
    fn today(&self) -> Option<Today> {
        let writers = self.writers.as_ref().ok()?;
        Some(Today { topic: self.topic.clone(), figures: writers.figures, doubts: writers.doubts.clone() })
    }

    /// Puts the records into the run's folder, from where every window reads them.
    pub(super) fn write(&self, workload: &mut Workload, folder: &RunFolder) -> Result<()> {
        let path = match &self.writers {
            Ok(writers) => {
                let path = folder.write_text("recording.txt", &replica::recording(writers))?;
                let recording = Recording { path: path.display().to_string(), sha256: String::new() };
                workload.recording = Some(recording);
                path
            }
            Err(_) => folder.write_text("arrivals.txt", &self.arrivals()?)?,
        };
        let schedule = format!("replay:{}", path.display()).parse::<Written<hone_record::Schedule>>();
        workload.schedule = schedule.map_err(Usage)?.0;
        Ok(())
    }

    fn arrivals(&self) -> Result<String> {
        let first = self.load.times_ns.first().copied().unwrap_or_default();
        let mut text = String::with_capacity(self.load.times_ns.len() * 12);
        for time_ns in &self.load.times_ns {
            let since = time_ns - first;
            writeln!(text, "{}.{:09}", since / 1_000_000_000, since % 1_000_000_000)?;
        }
        Ok(text)
    }
}
