//! `hone load`: one window against a broker that runs.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use hone_load::{Settings, Topic};
use hone_record::{Envelope, Event, EventKind, Outcome, Window};

use super::Desk;
use super::workload::WorkloadOptions;
use crate::arm::{is_address, processes_behind};
use crate::clients::Clients;
use crate::live::LiveView;
use crate::output::{Output, SeriesFile};
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
  hone load 127.0.0.1:9092 --schedule ramp:20000 --rate 1000 --keys zipf:100000 --duration 60s
  hone load 127.0.0.1:9092 --duration 5m --series seconds.ndjson --hgrm latency.hgrm
  hone load broker-1:9092 --topic existing --acks 1 --json > window.json

Ctrl-C ends the window, not the load: what was measured until then is shown and kept, and the exit code is 1.")]
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
    /// Write one line of JSON a second to this file while the window is open, so that a broken run leaves what it
    /// measured.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
    /// Write the latencies (intended to ack, µs) to this file in HdrHistogram's percentile format.
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    #[command(flatten)]
    workload: WorkloadOptions,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    check(&arguments)?;
    let files = Files::claim(&arguments)?;
    let (mut window, series) = measure(&arguments, files.series, desk)?;
    if let Err(error) = &series {
        let what = format!("{error:#}");
        window.events.push(Event { at_s: window.duration_s, kind: EventKind::RecordingFailed, what });
    }
    let kept = [
        series,
        files.record.map_or(Ok(()), |file| file.keep(&Envelope::new(window.clone()).to_text()?)),
        files.hgrm.map_or(Ok(()), |file| file.keep(&window.latencies.intended_to_ack.to_hgrm())),
    ];
    let ending = ending(&window);
    // Shown even when it could not be kept: it is measured.
    desk.show(window, show::window::text)?;
    kept.into_iter().collect::<Result<()>>()?;
    Ok(ending)
}

/// What the load writes, found writable before anything is measured.
struct Files {
    record: Option<Output>,
    hgrm: Option<Output>,
    series: Option<SeriesFile>,
}

impl Files {
    fn claim(arguments: &Arguments) -> Result<Self> {
        Ok(Self {
            record: arguments.output.as_deref().map(Output::claim).transpose()?,
            hgrm: arguments.hgrm.as_deref().map(Output::claim).transpose()?,
            series: arguments.series.as_deref().map(SeriesFile::create).transpose()?,
        })
    }
}

fn ending(window: &Window) -> Ending {
    let interrupted = window.events.iter().any(|event| event.kind == EventKind::Interrupted);
    match window.outcome {
        Outcome::Steady | Outcome::Saturated { .. } if !interrupted => Ending::Done,
        _ => Ending::CouldNot,
    }
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

/// The window; and whether its series could be written.
fn measure(arguments: &Arguments, series: Option<SeriesFile>, desk: &Desk) -> Result<(Window, Result<()>)> {
    let workload = arguments.workload.workload("command-line")?;
    let settings = Settings {
        address: arguments.broker.clone(),
        variant: "target".to_owned(),
        storage: arguments.workload.storage.clone(),
        topic: arguments.topic.clone().map_or(Topic::Fresh, Topic::Existing),
        lateness_limit_us: arguments.workload.lateness_limit_us(),
    };
    let view = LiveView::open(&desk.progress, workload.duration_s);
    let mut listener = view.listener(series.as_ref().map(SeriesFile::sender));
    let prepared = hone_load::prepare(settings, workload, &Clients::apart(), &mut listener)?;
    let targets = match arguments.pid {
        Some(pid) => vec![pid],
        None => processes_behind(prepared.leaders()),
    };
    view.watch(&targets);
    let mut probe = TargetProbe::new(targets.clone(), &targets);
    let mut window = prepared.run(Instant::now(), &mut probe, &mut listener)?;
    drop(listener);
    probe.describe_machine(&mut window);
    Ok((window, series.map_or(Ok(()), SeriesFile::finish)))
}
