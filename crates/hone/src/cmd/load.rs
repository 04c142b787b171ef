//! `hone load`: one window against a broker that runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_load::{Admin, Settings, Topic};
use hone_record::{Engine, Envelope, Outcome, Shard, Window};

use super::shard::{Meeting, ShardOptions};
use super::workload::WorkloadOptions;
use super::{Desk, print};
use crate::arm::{is_address, processes_behind};
use crate::probe::TargetProbe;
use crate::show;
use crate::{Ending, Usage, selftest};

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
  hone load broker-1:9092 --topic existing --acks 1 --json > window.json
  hone load broker-1:9092 --rate 400000 --shard 0/4 --store s3://bucket/run-42
  hone load --self-test")]
pub(crate) struct Arguments {
    /// host:port of any broker of the cluster.
    #[arg(value_name = "BROKER", required_unless_present = "self_test")]
    broker: Option<String>,
    /// Plant stalls, slow-downs and silence of known size at an embedded broker of its own, and show that each is seen at
    /// its true size. Takes half a minute.
    #[arg(long, conflicts_with_all = ["broker", "topic", "pid", "output", "shard", "emit"])]
    self_test: bool,
    /// Send to this topic, which exists and stays, instead of a fresh one.
    #[arg(long)]
    topic: Option<String>,
    /// Process whose CPU counts, with its children; found by itself when the broker listens on this machine.
    #[arg(long)]
    pid: Option<u32>,
    /// Also write the record to this file.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    workload: WorkloadOptions,
    #[command(flatten)]
    shards: ShardOptions,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    if arguments.self_test {
        return self_test(desk);
    }
    let broker = arguments.broker.as_deref().unwrap_or_default();
    check(broker, &arguments)?;
    if let Some(manifest) =
        arguments.shards.manifest(arguments.workload.workload("command-line")?.duration_s)?
    {
        print(&manifest)?;
        return Ok(Ending::Done);
    }
    let output = arguments.output.as_deref().map(Output::claim).transpose()?;
    let window = measure(broker, &arguments, desk)?;
    let kept = output.map_or(Ok(()), |output| output.keep(&window));
    let ending = match window.outcome {
        Outcome::Steady | Outcome::Saturated { .. } => Ending::Done,
        Outcome::GeneratorLate { .. } | Outcome::Failed { .. } => Ending::CouldNot,
    };
    // Shown even when it could not be kept: it is measured.
    desk.show(window, show::window::text)?;
    kept.map(|()| ending)
}

/// Finds out before the load what would make it pointless.
fn check(broker: &str, arguments: &Arguments) -> Result<()> {
    if !is_address(broker) {
        bail!(Usage(format!(
            "`{broker}` is no broker's address; write HOST:PORT, for example 127.0.0.1:9092"
        )));
    }
    if arguments.topic.is_some() && arguments.workload.has_topic_config() {
        bail!(Usage(
            "--topic-config is for the topic that is made for the load; --topic names one that exists"
                .to_owned()
        ));
    }
    match arguments.pid.map(hone_host::cpu::sample) {
        Some(Err(error)) => Err(Usage(format!("--pid: {error}")).into()),
        _ => Ok(()),
    }
}

/// Every fault of the self-test, for every engine that needs no other program.
fn self_test(desk: &Desk) -> Result<Ending> {
    desk.progress.doing("self-test");
    let found = selftest::run(&[Engine::Wire], &desk.progress)?;
    let ending = if found.passed() { Ending::Done } else { Ending::CouldNot };
    desk.show(found, show::selftest::text)?;
    Ok(ending)
}

fn measure(broker: &str, arguments: &Arguments, desk: &Desk) -> Result<Window> {
    let workload = arguments.workload.workload("command-line")?;
    desk.progress.doing("load");
    let mut meeting = arguments.shards.meeting()?;
    let topic = match &mut meeting {
        Some(meeting) => meeting.topic(arguments.topic.as_deref(), desk)?,
        None => arguments.topic.clone().map_or(Topic::Fresh, Topic::Existing),
    };
    let settings = Settings {
        address: broker.to_owned(),
        variant: "target".to_owned(),
        storage: arguments.workload.storage.clone(),
        topic,
        lateness_limit_us: arguments.workload.lateness_limit_us(),
        shard: meeting.as_ref().map(Meeting::shard),
    };
    let prepared = hone_load::prepare(settings, workload, &mut desk.progress.load())?;
    let targets = match arguments.pid {
        Some(pid) => vec![pid],
        None => processes_behind(prepared.leaders()),
    };
    let mut probe = TargetProbe::new(targets.clone(), &targets);
    let Some(meeting) = meeting else {
        return Ok(prepared.run(Instant::now(), &mut probe, &mut desk.progress.load())?);
    };
    let (start, start_unix_ms) = meeting.start(desk)?;
    let mut window = prepared.run(start, &mut probe, &mut desk.progress.load())?;
    window.shard = Some(Shard { start_unix_ms, ..meeting.shard() });
    meeting.keep(&window, || Ok(Admin::connect(broker)?), desk)?;
    Ok(window)
}

/// An output file that was found writable before anything was measured.
struct Output {
    path: PathBuf,
    temporary: PathBuf,
}

impl Output {
    fn claim(path: &Path) -> Result<Self> {
        let cannot = || format!("the output file {} can't be written", path.display());
        let name = path.file_name().filter(|_| !path.is_dir()).with_context(cannot)?;
        let temporary =
            path.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
        std::fs::write(&temporary, "").with_context(cannot)?;
        Ok(Self { path: path.to_owned(), temporary })
    }

    fn keep(self, window: &Window) -> Result<()> {
        let text = Envelope::new(window.clone()).to_text()?;
        std::fs::write(&self.temporary, text)
            .and_then(|()| std::fs::rename(&self.temporary, &self.path))
            .with_context(|| format!("the output file {} can't be written", self.path.display()))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.temporary);
    }
}
