//! `hone load`: one window against a broker that runs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use hone_load::{Admin, RawFile, Settings, Topic};
use hone_record::{Engine, Envelope, Event, EventKind, Outcome, Shard, Window, Workload};

use super::rates::RateOptions;
use super::security::SecurityOptions;
use super::shard::ShardOptions;
use super::workload::WorkloadOptions;
use crate::cmd::context::{CliContext, print};
use hone_experiment::aim::{Aim, Beside};
use hone_experiment::arm::is_address;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::load_file::LoadFile;
use hone_experiment::meter::Metrics;
use hone_experiment::output::{Output, SeriesFile};
use hone_experiment::require::{self, Rule};
use hone_experiment::selftest;
use hone_rollout::shards::{Meeting, only_here};

/// Send an open-loop Produce load to a broker and measure what its clients would see.
///
/// Every request has a time at which it is due, fixed before the window opens; latency runs from that time, so a stall
/// of the broker shows at its full length. The load goes to a topic of its own that is deleted afterwards, unless
/// --topic names one.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone load 127.0.0.1:9092
  hone load 127.0.0.1:9092 --rate 20000 --records 1 --bytes 100 --duration 10
  hone load 127.0.0.1:9092 --payload orders --bytes 512 --records 20 --compression lz4
  hone load 127.0.0.1:9092 --schedule ramp:20000 --rate 1000 --keys zipf:100000 --duration 60s
  hone load 127.0.0.1:9092 --duration 5m --series seconds.ndjson --hgrm latency.hgrm
  hone load 127.0.0.1:9092 --duration 60s --require 'p99<3ms' --require 'throughput>1400'
  hone load broker-1:9092 --file examples/field-guide/load.toml
  hone load broker-1:9092 --topic existing --acks 1 --json > window.json
  hone load 127.0.0.1:9092 --topic orders --make-topic --partitions 6
  hone load broker-1:9093 --tls-ca ca.pem --sasl-mechanism SCRAM-SHA-512 --sasl-user ada --sasl-password-file ada.txt
  hone load broker-1:9092 --rate 400000 --shard 0/4 --store s3://bucket/run-42
  hone load broker-1:9092 --find-capacity --slo p99=10ms,p99.9=50ms
  hone load broker-1:9092 --rate 20000 --sweep-records 1,2,5,10,20,50,100 --repeats 3
  hone load --self-test

Ctrl-C ends the window, not the load: what was measured until then is shown and kept, and the exit code is 1.")]
pub(crate) struct Arguments {
    /// HOST:PORT of a broker of the cluster. Separate several with commas: Hone uses the first that answers.
    #[arg(value_name = "BROKER", required_unless_present_any = ["file", "self_test"])]
    broker: Option<String>,
    /// Read workload, rules and broker from this file; options on the command line come before it.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// What the window has to meet: p99<3ms, p99.9<=10ms, max<1s, e2e-p99<20ms, throughput>1400 (requests/s), records>1400,
    /// lag<=2 (unread records 100 ms after the window closed; lag-p50, lag-p99, lag-max: during the window), errors<0.1%, cpu-per-record<20us; may be repeated. Exit code 3 when one is not met, 1 when one
    /// can't be told.
    #[arg(long, value_name = "RULE")]
    require: Vec<Rule>,
    /// Plant stalls, slow-downs and silence of known size at an embedded broker of its own, and show that each is seen at
    /// its true size, by both engines. Takes a minute.
    #[arg(long, conflicts_with_all = ["broker", "file", "topic", "pid", "idle", "output", "series", "hgrm", "raw", "require", "shard", "store", "emit", "commit", "find_capacity", "sweep_rate", "sweep_records"])]
    self_test: bool,
    /// Send to this topic, which exists and stays, instead of a fresh one.
    #[arg(long)]
    topic: Option<String>,
    /// Make the topic that --topic names, with --partitions and --topic-config, unless it is there; it stays.
    #[arg(long, requires = "topic", conflicts_with_all = ["shard", "emit"])]
    make_topic: bool,
    /// Process whose CPU counts, with its children; found by itself when the broker listens on this machine.
    #[arg(long)]
    pid: Option<u32>,
    #[command(flatten)]
    metrics: Metrics,
    /// Look at the warm target for so long before the window opens, with nothing sent, and tell its CPU per record without what it takes
    /// idle, too: at few requests a second that may be most of it.
    #[arg(long, value_name = "TIME", value_parser = idle_time, conflicts_with_all = ["shard", "emit"])]
    idle: Option<Duration>,
    /// The target's commit, for the record: hone serve follows a metric over commits.
    #[arg(long, value_name = "COMMIT", value_parser = commit_name)]
    commit: Option<String>,
    /// Also write the record to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write one line of JSON a second to this file while the window is open, so that a broken run leaves what it
    /// measured.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write the latencies (intended to ack, µs) to this file in HdrHistogram's percentile format.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write the times of every request to this file: intended, sent and ended (ns since the window's start) and the
    /// outcome, as CSV.
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    security: SecurityOptions,
    #[command(flatten)]
    shards: ShardOptions,
    #[command(flatten)]
    rates: RateOptions,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    if arguments.self_test {
        return self_test(cli);
    }
    let mut job = Job::new(&arguments, cli)?;
    check(&arguments, &job)?;
    // What a manifest's pods would refuse is refused here, and not on the cluster.
    hone_load::check(&job.workload)?;
    if let Some(manifest) = arguments.shards.manifest(job.workload.duration_s, &arguments.security)? {
        print(&manifest)?;
        return Ok(Ending::Done);
    }
    arguments.metrics.check_readable()?;
    job.broker = hone_load::canary::reachable(&job.broker, &arguments.security.security()?)?;
    if arguments.rates.are_asked_for() {
        if !job.rules.is_empty() {
            cli.progress.line(
                "the file's rules (require) are for a single window, and none of these is held against them",
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
    let security = arguments.security.security()?;
    let Measured { mut window, series, meeting } = measure(&arguments, &job, files.series, files.raw, cli)?;
    window.requirements = job.rules.iter().map(|rule| rule.judge(&window)).collect();
    if let Err(error) = &series {
        let what = format!("{error:#}");
        window.events.push(Event { at_s: window.duration_s, kind: EventKind::RecordingFailed, what });
    }
    let kept = [
        series,
        files.record.map_or(Ok(()), |file| file.keep(Envelope::new(window.clone()).to_text()?)),
        files.hgrm.map_or(Ok(()), |file| file.keep(window.latencies.intended_to_ack.to_hgrm())),
        meeting.map_or(Ok(()), |meeting| {
            meeting.keep(&window, || Ok(Admin::connect_with(&job.broker, &security)?), &cli.progress)
        }),
    ];
    let ending = ending(&window);
    // Shown even when it could not be kept: it is measured.
    cli.show_document(window, hone_report::documents::window, "")?;
    kept.into_iter().collect::<Result<()>>()?;
    Ok(ending)
}

/// What the load writes, found writable before anything is measured.
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

/// A file and the command line together.
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
        let broker = arguments.broker.clone().or(broker).ok_or_else(|| {
            Usage("no broker: name HOST:PORT on the command line, or `broker` in the file".to_owned())
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
            security: arguments.security.security()?,
        })
    }
}

/// Shorter, and the clock's own grain shows; longer, and brokers close connections that say nothing.
fn idle_time(text: &str) -> Result<Duration, String> {
    let found = hone_format::read_duration_s(text)?;
    if (0.5..=300.0).contains(&found) {
        Ok(Duration::from_secs_f64(found))
    } else {
        Err("it must lie between 500ms and 5m".to_owned())
    }
}

/// As git names them, or whoever keeps the sources: one word.
fn commit_name(text: &str) -> Result<String, String> {
    let is_word = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_word
        .then(|| text.to_owned())
        .ok_or_else(|| "a commit is one word of up to 64 letters and digits".to_owned())
}

/// What a measured window means to who waits for the exit code.
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

/// Finds out before the load what would make it pointless.
fn check(arguments: &Arguments, job: &Job) -> Result<()> {
    if let Some(wrong) = job.broker.split(',').find(|address| !is_address(address.trim())) {
        bail!(Usage(format!(
            "`{wrong}` is no broker's address; write HOST:PORT, for example 127.0.0.1:9092"
        )));
    }
    if job.workload.consumer_group && job.workload.consumers == 0 {
        bail!(Usage("--consumer-group needs consumers: say how many, as in --consumers 3".to_owned()));
    }
    if arguments.topic.is_some() && !arguments.make_topic && job.workload.replication_factor.is_some() {
        bail!(Usage(
            "--replication-factor applies to the topic that Hone creates; --topic names an existing one (or use --make-topic)"
                .to_owned()
        ));
    }
    if arguments.topic.is_some() && !arguments.make_topic && arguments.workload.has_topic_config() {
        bail!(Usage(
            "--topic-config is for the topic that is made for the load; --topic names one that exists (or --make-topic)"
                .to_owned()
        ));
    }
    let only_here = only_here(arguments.pid, &job.workload);
    arguments.shards.check(arguments.file.is_some(), !job.rules.is_empty(), only_here)?;
    match arguments.pid.map(hone_host::cpu::sample) {
        Some(Err(error)) => Err(Usage(format!("--pid: {error}")).into()),
        _ => Ok(()),
    }
}

/// Every fault of the self-test, for every engine that needs no other program.
fn self_test(cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("self-test");
    let client = Engine::Librdkafka { settings: BTreeMap::new() };
    let found = selftest::run(&[Engine::Wire, client], &cli.progress)?;
    let ending = if found.passed() { Ending::Done } else { Ending::CouldNot };
    cli.show(found, hone_document::selftest::text)?;
    Ok(ending)
}

/// A window and what still hangs on it.
struct Measured {
    window: Window,
    /// Whether its series could be written.
    series: Result<()>,
    /// The other shards, who wait for its record.
    meeting: Option<Meeting>,
}

fn measure(
    arguments: &Arguments,
    job: &Job,
    series: Option<SeriesFile>,
    raw: Option<RawFile>,
    cli: &CliContext,
) -> Result<Measured> {
    let workload = job.workload.clone();
    cli.progress.doing("load");
    if let Some(name) = arguments.topic.as_deref().filter(|_| arguments.make_topic) {
        Admin::connect_with(&job.broker, &arguments.security.security()?)?.make_topic(name, &job.workload)?;
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
    let files = Beside { series: series.as_ref().map(SeriesFile::sender), raw };
    let measured = aim.window(workload, files, start, &cli.progress);
    let mut window =
        measured.inspect_err(|_| meeting.iter().for_each(|meeting| meeting.tell_left(&cli.progress)))?;
    // Known only since the shards have met.
    window.shard = meeting.as_ref().map(|meeting| Shard { start_unix_ms, ..meeting.shard() });
    if let Some(environment) = &mut window.environment {
        environment.commit.clone_from(&arguments.commit);
    }
    Ok(Measured { window, series: series.map_or(Ok(()), SeriesFile::finish), meeting })
}
