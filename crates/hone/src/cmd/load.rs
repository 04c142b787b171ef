//! `hone load`: one window against a broker that runs.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_load::{LoadError, Settings, Topic};
use hone_record::{Envelope, Outcome, Window};

use super::Desk;
use super::security::SecurityOptions;
use super::workload::WorkloadOptions;
use crate::arm::{is_address, processes_behind};
use crate::probe::TargetProbe;
use crate::show;
use crate::{Ending, Usage};

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
  hone load broker-1:9093 --tls-ca ca.pem --sasl-mechanism SCRAM-SHA-512 --sasl-user ada --sasl-password-file ada.txt")]
pub(crate) struct Arguments {
    /// host:port of any broker of the cluster.
    #[arg(value_name = "BROKER")]
    broker: String,
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
    security: SecurityOptions,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    check(&arguments)?;
    let output = arguments.output.as_deref().map(Output::claim).transpose()?;
    let window = measure(&arguments, desk)?;
    let kept = output.map_or(Ok(()), |output| output.keep(&window));
    let interrupted = window.was_interrupted();
    let ending = match window.outcome {
        Outcome::Steady | Outcome::Saturated { .. } => Ending::Done,
        Outcome::GeneratorLate { .. } | Outcome::Failed { .. } => Ending::CouldNot,
    };
    // Shown even when it could not be kept: it is measured.
    desk.show(window, show::window::text)?;
    kept?;
    if interrupted {
        return Err(LoadError::Interrupted.into());
    }
    Ok(ending)
}

/// Finds out before the load what would make it pointless.
fn check(arguments: &Arguments) -> Result<()> {
    if !is_address(&arguments.broker) {
        bail!(Usage(format!(
            "`{}` is no broker's address; write HOST:PORT, for example 127.0.0.1:9092",
            arguments.broker
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

fn measure(arguments: &Arguments, desk: &Desk) -> Result<Window> {
    let workload = arguments.workload.workload("command-line")?;
    let settings = Settings {
        address: arguments.broker.clone(),
        variant: "target".to_owned(),
        storage: arguments.workload.storage.clone(),
        topic: arguments.topic.clone().map_or(Topic::Fresh, Topic::Existing),
        lateness_limit_us: arguments.workload.lateness_limit_us(),
        security: arguments.security.security()?,
    };
    desk.progress.doing("load");
    let prepared = hone_load::prepare(settings, workload, &mut desk.progress.load())?;
    let targets = match arguments.pid {
        Some(pid) => vec![pid],
        None => processes_behind(prepared.leaders()),
    };
    let mut probe = TargetProbe::new(targets.clone(), &targets);
    Ok(prepared.run(Instant::now(), &mut probe, &mut desk.progress.load())?)
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
