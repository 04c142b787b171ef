//! `hone load`: one window against a running broker.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use hone_load::{Admin, RawFile, Settings, Topic};
use hone_record::{Engine, Envelope, Event, EventKind, Outcome, Shard, Window, Workload};

use super::rates::RateOptions;
use super::shard::ShardOptions;
use crate::cmd::context::{CliContext, print};
use hone_cli::connection::BrokerOptions;
use hone_cli::live::LiveOptions;
use hone_cli::workload::WorkloadOptions;
use hone_experiment::aim::{Aim, Beside};
use hone_experiment::arm::is_address;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::faults::{self, FaultPlan};
use hone_experiment::load_file::LoadFile;
use hone_experiment::meter::Metrics;
use hone_experiment::output::{Output, SeriesFile};
use hone_experiment::require::{self, Rule};
use hone_experiment::selftest;
use hone_rollout::shards::{Meeting, only_here};
use hone_serve::serve::load_live::LoadServer;

/// Send an open-loop load to a broker and measure the latency.
///
/// Latency runs from the due time of each request, so a stall of the broker shows at its full length (no coordinated omission). Hone creates a
/// topic for the load and deletes it afterwards.
///
/// Ctrl-C closes the window early. Hone then shows and saves the partial result, and the exit code is 1.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  # 1,000 requests/s for 5 s, to a topic that Hone creates and deletes
  hone load 127.0.0.1:9092
  # JSON values of 512 bytes, compressed with LZ4
  hone load 127.0.0.1:9092 --payload orders --bytes 512 --compression lz4
  # Exit code 3 if the result misses a requirement
  hone load 127.0.0.1:9092 --require 'p99<3ms' --require 'throughput>900'
  # A page with latency, rates and CPU while the load runs
  hone load 127.0.0.1:9092 --rate 5000 --duration 5m --live
  # Highest rate that meets the SLO
  hone load 127.0.0.1:9092 --find-capacity --slo p99=10ms,p99.9=50ms
  # Latency and CPU at several batch sizes
  hone load 127.0.0.1:9092 --rate 20000 --sweep-records 1,10,100 --repeats 3
  # Kill the leader after 10 s; exit code 3 if an acknowledged record is lost
  hone load 127.0.0.1:9092 --replication-factor 3 --acks 1 --duration 30 \\
    --fault 10s=kill:leader --require 'lost<=0' --require 'gap<5s'
  # A broker with TLS and SASL
  hone load broker-1:9093 --tls --sasl-mechanism SCRAM-SHA-512 \\
    --sasl-user ada --sasl-password-file ada.txt
  # Check that Hone measures stalls at their true size
  hone load --self-test")]
pub(crate) struct Arguments {
    /// Broker of the cluster, as HOST:PORT. Separate several with commas. Hone uses the first one that answers.
    #[arg(value_name = "BROKER", required_unless_present_any = ["file", "self_test", "bootstrap", "connection"])]
    broker: Option<String>,
    /// Read workload, requirements and broker from this file. Options on the command line override the file.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Requirement that the result must meet; repeat it for several. Latency: p99<3ms, p99.9<=10ms, max<1s, and end to end e2e-p99<20ms. Rate:
    /// throughput>1400 (requests/s), records>1400 (records/s). Others: errors<0.1%, cpu-per-record<20us, lag<=2 (unread records 100 ms after
    /// the window). Exit code 3 means that the result misses a requirement, and 1 that Hone cannot judge one.
    #[arg(long, value_name = "RULE")]
    require: Vec<Rule>,
    /// Check the measurement against faults of known size. Hone injects them into an embedded broker. This takes about a minute.
    #[arg(long, conflicts_with_all = ["broker", "file", "topic", "pid", "idle", "output", "series", "hgrm", "raw", "require", "shard", "store", "emit", "commit", "find_capacity", "sweep_rate", "sweep_records"])]
    self_test: bool,
    /// Existing topic. Hone sends the load to it and keeps it afterwards. [default: a new topic, which Hone deletes afterwards]
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
    /// Create the topic of --topic if it does not exist. Its settings are --partitions, --replication-factor and --topic-config. Hone keeps
    /// the topic afterwards.
    #[arg(long, requires = "topic", conflicts_with_all = ["shard", "emit"])]
    make_topic: bool,
    /// Process id. Hone counts its CPU and that of its child processes. [default: the process of the broker, if it listens on this
    /// machine]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    #[command(flatten)]
    metrics: Metrics,
    /// How long to measure the idle CPU of the warm target before the window. The result then also shows the CPU per record without the idle
    /// CPU.
    #[arg(long, value_name = "TIME", value_parser = idle_time, conflicts_with_all = ["shard", "emit"])]
    idle: Option<Duration>,
    /// Commit of the target, stored in the record. `hone serve` shows a metric over commits.
    #[arg(long, value_name = "COMMIT", value_parser = commit_name)]
    commit: Option<String>,
    /// Where to write the result. Hone writes the record (JSON) to this file and still prints the result.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Write one line of JSON per second to this file. Hone writes while the window is open, so an interrupted run keeps its measurements.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write the latencies to this file, in the percentile format of HdrHistogram. The latencies run from the intended start to the ack, in
    /// µs.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write the times of every request to this file, as CSV. The columns are intended, sent and ended (ns since the start of the window) and
    /// the outcome.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    /// Disturb the target at a time of the window; repeat it for several. Hone sends SIGKILL (kill), SIGTERM (term) or
    /// SIGSTOP (stop, for a time) to leader, broker-ID or a process id: 10s=kill:leader, 10s=stop:broker-2:3s. With 10s=run:COMMAND it
    /// runs a command. The result has the longest gap, lost records and the recovery.
    #[arg(long = "fault", value_name = "TIME=FAULT", conflicts_with_all = ["shard", "emit", "find_capacity", "sweep_rate", "sweep_records", "self_test"])]
    faults: Vec<FaultPlan>,
    #[command(flatten)]
    live: LiveOptions,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    brokers: BrokerOptions,
    #[command(flatten)]
    shards: ShardOptions,
    #[command(flatten)]
    rates: RateOptions,
}

pub(crate) fn run(mut arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    if arguments.self_test {
        return self_test(cli);
    }
    let mut job = Job::new(&arguments, cli)?;
    check(&arguments, &job)?;
    // The pods of a manifest would refuse the same workload, but later and on the cluster.
    hone_load::check(&job.workload)?;
    // Another machine does not have HONE_BOOTSTRAP.
    if arguments.shards.is_manifest()
        && !["broker", "bootstrap", "file", "connection"].iter().any(|id| cli.is_given(id))
    {
        bail!(Usage(
            "--emit passes only the command line to the pods\n  next: name a broker on it".to_owned()
        ));
    }
    if let Some(manifest) = arguments.shards.manifest(job.workload.duration_s, &arguments.brokers.security)? {
        print(&manifest)?;
        return Ok(Ending::Done);
    }
    arguments.metrics = arguments.brokers.security.metrics(&arguments.metrics)?;
    arguments.metrics.check_readable()?;
    job.broker = hone_load::canary::reachable(&job.broker, &arguments.brokers.security.security()?)?;
    if arguments.rates.are_asked_for() {
        if !job.rules.is_empty() {
            cli.progress.line(
                "note: the file's `require` rules apply to a single window; a search or sweep ignores them",
            );
        }
        let settings = job.settings(Topic::Fresh, &arguments, None)?;
        let metrics = arguments.metrics.filled(str::to_owned);
        return arguments.rates.run(
            &Aim { settings, pid: arguments.pid, idle: None, metrics },
            &job.workload,
            cli,
        );
    }
    let files = Files::claim(&arguments)?;
    let security = arguments.brokers.security.security()?;
    let live = arguments.live.start(&job.broker, &job.workload, &cli.progress)?;
    let load = live.as_ref().map(LoadServer::load);
    let beside =
        Beside { series: None, raw: files.raw, live: load.cloned(), faults: arguments.faults.clone() };
    let measured = measure(&arguments, &job, files.series, beside, cli);
    let Measured { mut window, series, meeting } =
        measured.inspect_err(|error| load.iter().for_each(|load| load.end(Err(format!("{error:#}")), "")))?;
    window.requirements = job.rules.iter().map(|rule| rule.judge(&window)).collect();
    if let Err(error) = &series {
        let what = format!("{error:#}");
        window.events.push(Event { at_s: window.duration_s, kind: EventKind::RecordingFailed, what });
    }
    let mut kept = vec![series];
    kept.extend([
        files.record.map_or(Ok(()), |file| file.keep(Envelope::new(window.clone()).to_text()?)),
        files.hgrm.map_or(Ok(()), |file| file.keep(window.latencies.intended_to_ack.to_hgrm())),
        meeting.map_or(Ok(()), |meeting| {
            meeting.keep(&window, || Ok(Admin::connect_with(&job.broker, &security)?), &cli.progress)
        }),
    ]);
    let ending = ending(&window);
    // Hone shows the result even if a file could not be written, because the measurement exists.
    let places = places(&arguments, &window, cli);
    load.iter().for_each(|load| load.end(Ok(window.clone()), &places));
    cli.show_document(window, hone_report::documents::window, &format!("\n{places}"))?;
    kept.into_iter().collect::<Result<()>>()?;
    Ok(ending)
}

/// The record and its page: beside the file of --output, else in a folder of their own. A part of a load that several generators share has no page.
fn places(arguments: &Arguments, window: &Window, cli: &CliContext) -> String {
    let report = arguments.rates.report;
    match &arguments.output {
        _ if window.shard.is_some() => String::new(),
        None => report.keep(&arguments.rates.runs, ["load", "window.json"], window.clone(), &cli.progress),
        Some(record) => report.write(record).unwrap_or_else(|error| {
            cli.progress.line(&format!("note: no report was written: {error:#}"));
            String::new()
        }),
    }
}

/// The files that the load writes. They are opened before the measurement, so that an unwritable path fails early.
struct Files {
    record: Option<Output>,
    hgrm: Option<Output>,
    series: Option<SeriesFile>,
    raw: Option<RawFile>,
}

impl Files {
    fn claim(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            record: arguments.output.as_deref().map(Output::claim).transpose()?,
            hgrm: arguments.hgrm.as_deref().map(Output::claim).transpose()?,
            series: arguments.series.as_deref().map(SeriesFile::create).transpose()?,
            raw: arguments.raw.as_deref().map(RawFile::create).transpose()?,
        })
    }
}

/// The load, merged from the file and the command line.
struct Job {
    broker: String,
    storage: String,
    workload: Workload,
    rules: Vec<Rule>,
}

impl Job {
    fn new(arguments: &Arguments, cli: &CliContext) -> Result<Self> {
        let options = &arguments.workload;
        let file = arguments.file.as_deref().map(LoadFile::read).transpose()?;
        let usual = || LoadFile { name: "command-line".to_owned(), ..LoadFile::default() };
        let LoadFile { name, workload, broker, storage, require } = file.unwrap_or_else(usual);
        let named = arguments.broker.clone().or(broker);
        let broker = named.map_or_else(|| arguments.brokers.bootstrap(), |named| Ok(Some(named)))?;
        let broker = broker.ok_or_else(|| {
            Usage("no broker is named\n  next: add HOST:PORT, or set `broker` in the file".to_owned())
        })?;
        let storage = match storage {
            Some(storage) if !cli.is_given("storage") => storage,
            _ => options.storage.clone(),
        };
        let workload = options.over(workload, |argument| cli.is_given(argument))?;
        Ok(Self {
            broker,
            storage,
            workload: workload.named(&name).map_err(Usage)?,
            rules: require.into_iter().chain(arguments.require.iter().cloned()).collect(),
        })
    }

    fn settings(&self, topic: Topic, arguments: &Arguments, shard: Option<Shard>) -> Result<Settings> {
        Ok(Settings {
            address: self.broker.clone(),
            variant: "target".to_owned(),
            storage: self.storage.clone(),
            topic,
            lateness_limit_us: arguments.workload.lateness_limit_us(),
            shard,
            security: arguments.brokers.security.security()?,
        })
    }
}

/// Parses --idle. In a shorter time the granularity of the CPU clock distorts the result. In a longer time brokers close idle connections.
fn idle_time(text: &str) -> Result<Duration, String> {
    let found = hone_format::read_duration_s(text)?;
    if (0.5..=300.0).contains(&found) {
        Ok(Duration::from_secs_f64(found))
    } else {
        Err("use a duration from 500ms to 5m".to_owned())
    }
}

/// Parses --commit. Any version control system's name for a commit is valid if it is one word.
fn commit_name(text: &str) -> Result<String, String> {
    let is_word = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_word
        .then(|| text.to_owned())
        .ok_or_else(|| "a commit is one word of at most 64 letters and digits".to_owned())
}

/// The ending of the verb, and so the exit code, for a measured window.
pub(super) fn ending(window: &Window) -> Ending {
    let required = require::ending(&window.requirements);
    if required == Some(Ending::Worse) {
        return Ending::Worse;
    }
    if window.events.iter().any(|event| event.kind == EventKind::RecordingFailed) {
        return Ending::CouldNot;
    }
    match window.outcome {
        Outcome::Steady | Outcome::Saturated { .. } if !window.was_interrupted() => {
            required.unwrap_or(Ending::Done)
        }
        _ => Ending::CouldNot,
    }
}

/// Refuses options that contradict each other before the load starts.
fn check(arguments: &Arguments, job: &Job) -> Result<()> {
    if let Some(wrong) = job.broker.split(',').find(|address| !is_address(address.trim())) {
        bail!(Usage(format!(
            "invalid broker address `{wrong}`: use HOST:PORT, for example `127.0.0.1:9092`"
        )));
    }
    if job.workload.consumer_group && job.workload.consumers == 0 {
        bail!(Usage(
            "--consumer-group needs consumers\n  next: add --consumers N, for example --consumers 3"
                .to_owned()
        ));
    }
    if arguments.topic.is_some() && !arguments.make_topic && job.workload.replication_factor.is_some() {
        bail!(Usage(
            "--replication-factor applies to a topic that Hone creates, and --topic names an existing one\n  \
             next: leave out one of them, or add --make-topic"
                .to_owned()
        ));
    }
    if arguments.topic.is_some() && !arguments.make_topic && arguments.workload.has_topic_config() {
        bail!(Usage(
            "--topic-config applies to a topic that Hone creates, and --topic names an existing one\n  \
             next: leave out one of them, or add --make-topic"
                .to_owned()
        ));
    }
    faults::check(&arguments.faults, job.workload.duration_s)?;
    let only_here = only_here(arguments.pid, &job.workload);
    arguments.shards.check(arguments.file.is_some(), !job.rules.is_empty(), only_here)?;
    match arguments.pid.map(hone_host::cpu::sample) {
        Some(Err(error)) => Err(Usage(format!("--pid: {error}")).into()),
        _ => Ok(()),
    }
}

/// Runs every fault of the self-test, with every engine that needs no other program.
fn self_test(cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("self-test");
    let client = Engine::Librdkafka { settings: BTreeMap::new() };
    let found = selftest::run(&[Engine::Wire, client], &cli.progress)?;
    let ending = if found.passed() { Ending::Done } else { Ending::CouldNot };
    cli.show(found, hone_document::selftest::text)?;
    Ok(ending)
}

/// A window, and the work that remains after it.
struct Measured {
    window: Window,
    /// The error of the series file, if Hone could not write it.
    series: Result<()>,
    /// The meeting with the other shards, which wait for the record of this one.
    meeting: Option<Meeting>,
}

fn measure(
    arguments: &Arguments,
    job: &Job,
    series: Option<SeriesFile>,
    beside: Beside,
    cli: &CliContext,
) -> Result<Measured> {
    let workload = job.workload.clone();
    cli.progress.doing("load");
    if let Some(name) = arguments.topic.as_deref().filter(|_| arguments.make_topic) {
        Admin::connect_with(&job.broker, &arguments.brokers.security.security()?)?
            .make_topic(name, &job.workload)?;
    }
    let mut meeting = arguments.shards.meeting()?;
    let topic = match &mut meeting {
        Some(meeting) => meeting.topic(arguments.topic.as_deref(), &cli.progress)?,
        None => arguments.topic.clone().map_or(Topic::Fresh, Topic::Existing),
    };
    let settings = job.settings(topic, arguments, meeting.as_ref().map(Meeting::shard))?;
    let metrics = arguments.metrics.filled(str::to_owned);
    let aim = Aim { settings, pid: arguments.pid, idle: arguments.idle, metrics };
    let mut start_unix_ms = 0;
    let start = || match &meeting {
        Some(meeting) => {
            let (start, unix_ms) = meeting.start(&cli.progress)?;
            start_unix_ms = unix_ms;
            Ok(start)
        }
        None => Ok(Instant::now()),
    };
    let files = Beside { series: series.as_ref().map(SeriesFile::sender), ..beside };
    let measured = aim.window(workload, files, start, &cli.progress);
    let mut window =
        measured.inspect_err(|_| meeting.iter().for_each(|meeting| meeting.tell_left(&cli.progress)))?;
    // The start time is known only after the shards have met.
    window.shard = meeting.as_ref().map(|meeting| Shard { start_unix_ms, ..meeting.shard() });
    if let Some(environment) = &mut window.environment {
        environment.commit.clone_from(&arguments.commit);
    }
    Ok(Measured { window, series: series.map_or(Ok(()), SeriesFile::finish), meeting })
}
