//! `hone batch prove`: settings of producers tried one after the other, and kept only where it is shown that they help.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_load::{Security, TopicLoad, topic_load};
use hone_record::{Metric, Proof};
use hone_tool::System;

use super::Desk;
use crate::batch::prove::{ASKED, Asked, Session, sweep_left_overs, topic_prefix};
use crate::batch::step::{Step, foretold_of, of_file};
use crate::cmd::security::SecurityOptions;
use crate::cmd::workload::WorkloadOptions;
use crate::cmd::{default_runs, report};
use crate::experiment::WorkloadFile;
use crate::folder::RunFolder;
use crate::notation::Written;
use crate::require::Rule;
use crate::show;
use crate::standing::Standing;
use crate::targets::process_behind;
use crate::{Ending, Usage};

/// Prove changes of producers one after the other: each step is measured against the state that was kept until then, and kept
/// only if it is better and no guard rail breaks.
///
/// The load goes to test topics of the broker that TARGET names (host:port, or a command with {port} and {data}), or of an embedded
/// broker that Hone starts. It is shaped by the options below, or recorded from a topic (--topic): its arrivals, sizes, partitions and
/// codec, and never its contents. Topics are this run's own and go again; no other topic is written to.
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
    /// The settings that the first step is held against, written as a step; all others are the client's own defaults.
    #[arg(long, value_name = "SETTING=VALUE,...")]
    original: Option<String>,
    /// What was foretold of a step: its number, and a record or JSON file with batch_bytes, batches_per_s, requests_per_s or
    /// added_wait_ms; may be repeated.
    #[arg(long, value_name = "NUMBER=FILE")]
    foretold: Vec<String>,
    /// Take arrivals, sizes, partitions, codec and keys from the last --duration of this topic.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// The broker that has the topic, where that is not the target.
    #[arg(long, value_name = "BROKER", requires = "topic")]
    from: Option<String>,
    /// Leave the test topics where they are.
    #[arg(long)]
    keep_topics: bool,
    /// Go on with an interrupted run, behind its last pair. TLS and login are said again: they are kept nowhere.
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["target", "steps", "file"])]
    resume: Option<PathBuf>,
    /// Print the table as Markdown.
    #[arg(long)]
    markdown: bool,
    /// The metric that decides: cpu-per-record where the broker's CPU can be read, else latency-p50.
    #[arg(long, value_parser = metric)]
    primary: Option<Metric>,
    /// A metric that must not get worse; may be repeated. latency-p99 unless --guard or --require says otherwise.
    #[arg(long = "guard", value_parser = metric)]
    guards: Vec<Metric>,
    /// What the windows of a step have to meet, as in `hone load`: p99<50ms, errors<0.1%, lag<=1000; may be repeated. A linger may cost
    /// what it waits as long as this holds.
    #[arg(long, value_name = "RULE")]
    require: Vec<Rule>,
    /// Pairs of windows for each step, at least 5.
    #[arg(long, default_value_t = 8)]
    pairs: u32,
    /// A/A pairs for each step, at least 5; 0 goes without a control.
    #[arg(long, default_value_t = 5)]
    control_pairs: u32,
    /// Two-sided error of the primary interval.
    #[arg(long, default_value_t = 0.05)]
    alpha: f64,
    /// Margin inside which two states count as equivalent.
    #[arg(long, default_value_t = 0.02, value_name = "SHARE")]
    equivalence: f64,
    /// Count every pair, whatever neighbours did to the machine in one of its windows.
    #[arg(long)]
    keep_disturbed: bool,
    /// Seconds that a started command has to answer as a broker.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    ready_timeout: f64,
    /// Seconds that it has to end after SIGTERM before it is killed.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    stop_timeout: f64,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    security: SecurityOptions,
}

fn metric(name: &str) -> Result<Metric, String> {
    let known = || Metric::ALL.map(Metric::name).join(", ");
    Metric::from_name(name).ok_or_else(|| format!("unknown metric `{name}`; there are: {}", known()))
}

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let security = arguments.security.security()?;
    if let Some(folder) = &arguments.resume {
        return resume(folder, arguments, &security, desk);
    }
    let mut asked = asked(arguments, desk)?;
    let recorded = arguments.topic.as_ref().map(|topic| record(topic, arguments, &asked, &security, desk));
    let recorded = recorded.transpose()?;
    if let Some(recorded) = &recorded {
        recorded.shape(&mut asked, desk);
    }
    original(arguments, &mut asked)?;
    asked.check()?;
    sweep_left_overs(&arguments.output, &security, &desk.progress);
    let folder = RunFolder::create(&arguments.output, "batch-prove")?;
    if let Some(recorded) = recorded {
        asked.workload.schedule = recorded.written(&folder)?;
    }
    asked.standing = Some(standing(&asked, &security)?);
    folder.write_note(ASKED, &asked)?;
    go(&asked, &arguments.output, &folder, arguments.markdown, &security, desk)
}

fn resume(path: &Path, arguments: &Arguments, security: &Security, desk: &Desk) -> Result<Ending> {
    let folder = RunFolder::open(path)?;
    let missing =
        || Usage(format!("{} is no run of hone batch prove: it has no {ASKED}", folder.path().display()));
    let asked: Asked = folder.read_note(ASKED)?.ok_or_else(missing)?;
    // Commands may hold paths that were meant from where the run began.
    std::env::set_current_dir(&asked.working_folder)
        .with_context(|| format!("the run began in {}", asked.working_folder.display()))?;
    if let Some(then) = &asked.standing {
        then.same_as(&standing(&asked, security)?, folder.path())?;
    }
    let home = folder.path().parent().unwrap_or(folder.path()).to_owned();
    go(&asked, &home, &folder, arguments.markdown, security, desk)
}

fn standing(asked: &Asked, security: &Security) -> Result<Standing> {
    let machine = hone_host::observe::machine(Path::new("/"));
    Standing::of([asked.arm("kept", security)?].iter(), &machine)
}

/// Measures what is not measured yet, and shows all of it.
fn go(
    asked: &Asked,
    home: &Path,
    folder: &RunFolder,
    markdown: bool,
    security: &Security,
    desk: &Desk,
) -> Result<Ending> {
    let runner = System::new(folder.join("logs"))?;
    let progress = &desk.progress;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let session = Session { asked, folder, home, security, runner: &runner, progress };
    let proof = session.run().with_context(|| {
        format!("go on behind the last pair with: hone batch prove --resume {}", folder.path().display())
    })?;
    let record = folder.write_record("proof.json", proof.clone())?;
    folder.write_text("proof.md", &show::proof::markdown(&proof))?;
    let page = report::write(&record, None)?;
    let text = |proof: &Proof| {
        let told = if markdown { show::proof::markdown(proof) } else { show::proof::text(proof) };
        format!("{told}\nRecord: {}\nPage: {}\n", record.display(), page.display())
    };
    desk.show(proof, text)?;
    Ok(Ending::Done)
}

/// What the options say, before a topic or the original settings shape the load.
fn asked(arguments: &Arguments, desk: &Desk) -> Result<Asked> {
    let (target, place) = match &arguments.target {
        Some(target) => (target.clone(), target.clone()),
        None => ("an embedded broker".to_owned(), embedded()?),
    };
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
    // The batch is the question, so it has to be an output: a real client makes it.
    let file = WorkloadFile { client: "librdkafka".to_owned(), ..WorkloadFile::default() };
    let workload = arguments.workload.over(file, |argument| desk.is_given(argument))?;
    let workload = workload.named("prove").map_err(Usage)?;
    let guards = match (&arguments.guards[..], &arguments.require[..]) {
        ([], []) => vec![Metric::LatencyP99],
        (guards, _) => guards.to_vec(),
    };
    for seconds in [arguments.ready_timeout, arguments.stop_timeout] {
        if !(0.0..=3_600.0).contains(&seconds) {
            bail!(Usage("--ready-timeout and --stop-timeout must lie between 0 and 3600 seconds".to_owned()));
        }
    }
    let knows_cpu = !crate::arm::is_address(&place) || process_behind(&place).is_ok();
    Ok(Asked {
        target,
        load: format!(
            "{} records/s of {} bytes by {} producers to {} partitions",
            show::number(workload.requests_per_s),
            workload.record_bytes,
            workload.connections,
            workload.partitions
        ),
        place,
        working_folder: std::env::current_dir().context("the working folder is gone")?,
        workload,
        steps,
        primary: arguments.primary.unwrap_or(if knows_cpu {
            Metric::CpuPerRecord
        } else {
            Metric::LatencyP50
        }),
        guards,
        require: arguments.require.iter().map(ToString::to_string).collect(),
        pairs: arguments.pairs,
        control_pairs: arguments.control_pairs,
        alpha: arguments.alpha,
        equivalence: arguments.equivalence,
        keep_disturbed: arguments.keep_disturbed,
        ready_timeout_s: arguments.ready_timeout,
        stop_timeout_s: arguments.stop_timeout,
        storage: arguments.workload.storage.clone(),
        lateness_limit_us: arguments.workload.lateness_limit_us(),
        keep_topics: arguments.keep_topics,
        topic_prefix: topic_prefix(),
        limits: Vec::new(),
        standing: None,
    })
}

/// This program's own broker, with a fresh data folder for every window.
fn embedded() -> Result<String> {
    let own = std::env::current_exe().context("the path of this program is not known")?;
    let own = own
        .to_str()
        .context("the path of this program is no text; name the broker's command as the target")?;
    let own = shlex::try_quote(own).context("the path of this program can't be quoted")?;
    Ok(format!("{own} broker --listen 127.0.0.1:{{port}} --metrics off --data {{data}}"))
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
fn original(arguments: &Arguments, asked: &mut Asked) -> Result<()> {
    if let Some(text) = &arguments.original {
        asked.workload = Step::new(text.clone(), None)?.applied(&asked.workload)?;
        asked.load = format!("{}, with {text}", asked.load);
    }
    Ok(())
}

/// A topic's load, to be sent again.
struct Recorded {
    topic: String,
    load: TopicLoad,
}

fn record(
    topic: &str,
    arguments: &Arguments,
    asked: &Asked,
    security: &Security,
    desk: &Desk,
) -> Result<Recorded> {
    let broker = match &arguments.from {
        Some(broker) => broker.clone(),
        None if crate::arm::is_address(&asked.place) => asked.place.clone(),
        None => bail!(Usage(format!("which broker has the topic {topic}? Name it with --from HOST:PORT"))),
    };
    desk.progress.doing(&format!("reading {topic}"));
    let stretch = Duration::from_secs_f64(asked.workload.duration_s);
    let load = topic_load(&broker, security, topic, stretch)?;
    Ok(Recorded { topic: topic.to_owned(), load })
}

impl Recorded {
    /// Takes sizes, partitions, codec and keys; what stands on the command line comes first.
    fn shape(&self, asked: &mut Asked, desk: &Desk) {
        let (load, workload) = (&self.load, &mut asked.workload);
        if !desk.is_given("bytes") {
            workload.record_bytes = load.record_bytes.round().max(1.0) as u32;
        }
        if !desk.is_given("partitions") {
            workload.partitions = load.partitions;
        }
        if !desk.is_given("compression") {
            load.codec.name().clone_into(&mut workload.compression);
        }
        if !desk.is_given("keys") && load.keyed_share >= 0.5 {
            workload.keys = hone_record::Keys::Uniform { distinct: load.distinct_keys.max(1) };
        }
        workload.requests_per_s = load.times_ns.len() as f64 / workload.duration_s;
        asked.load = format!(
            "the last {} s of topic {}: {} records of {:.0} bytes on average by {} producers to {} partitions, {}",
            workload.duration_s,
            self.topic,
            show::count(load.times_ns.len() as u64),
            load.record_bytes,
            workload.connections,
            workload.partitions,
            if load.keyed_share >= 0.5 { "keyed" } else { "without keys" }
        );
        asked.limits.push(format!(
            "Arrivals are {}'s own, in whole milliseconds, as its records were stamped; how many producers sent them a topic does not \
             say, and is the number of --connections here. A producer that waited for answers would have sent otherwise under another \
             setting: that is not in a recording. Contents were not taken: values are of the same size and compress as --compressible says.",
            self.topic
        ));
    }

    /// Puts the times into the run's folder, from where every window reads them.
    fn written(&self, folder: &RunFolder) -> Result<hone_record::Schedule> {
        let first = self.load.times_ns.first().copied().unwrap_or_default();
        let mut text = String::with_capacity(self.load.times_ns.len() * 12);
        for time_ns in &self.load.times_ns {
            let since = time_ns - first;
            writeln!(text, "{}.{:09}", since / 1_000_000_000, since % 1_000_000_000)?;
        }
        let path = folder.write_text("arrivals.txt", &text)?;
        let schedule = format!("replay:{}", path.display()).parse::<Written<hone_record::Schedule>>();
        Ok(schedule.map_err(Usage)?.0)
    }
}
