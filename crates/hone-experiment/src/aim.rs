//! One window against a running broker, with its surroundings: the display, the target's CPU, the machine.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Result;
use hone_load::{LoadError, Probe as _, RawFile, Settings};
use hone_record::{SeriesPoint, Window, Workload};

use crate::clients::Clients;
use crate::faults::{Brokers, FaultPlan, ReadyFaults};
use crate::live::{LiveLoad, LiveView};
use crate::meter::Metrics;
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::targets::Targets;
use crate::warmth::Looker;

/// The target of loads.
#[derive(Debug, Clone)]
pub struct Aim {
    /// Address, topic and security of the load.
    pub settings: Settings,
    /// The processes whose CPU counts; without it, those of the cluster's brokers.
    pub pid: Option<u32>,
    /// How long the idle target is sampled before the window, if that is requested.
    pub idle: Option<Duration>,
    /// The target's own metrics pages.
    pub metrics: Metrics,
}

/// Time for the effects of the warm-up to end.
const SETTLED: Duration = Duration::from_millis(500);
/// Time between two checks for an interruption.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Outputs of an open window.
#[derive(Debug, Default)]
pub struct Beside {
    /// Receives the figures of each second.
    pub series: Option<Sender<SeriesPoint>>,
    /// The file for the times of every request.
    pub raw: Option<RawFile>,
    /// Shows the load to others while it runs.
    pub live: Option<LiveLoad>,
    /// What disturbs the window.
    pub faults: Vec<FaultPlan>,
}

impl Aim {
    /// Measures a window. `start` is called when everything is warm.
    pub fn window(
        &self,
        workload: Workload,
        files: Beside,
        start: impl FnOnce() -> Result<Instant>,
        progress: &Progress,
    ) -> Result<Window> {
        let view = LiveView::open(progress, workload.duration_s, files.live);
        let mut listener = view.listener(files.series);
        let mut prepared =
            hone_load::prepare(self.settings.clone(), workload, &Clients::apart(), &mut listener)?;
        files.raw.into_iter().for_each(|raw| prepared.keep_raw(raw));
        if !files.faults.is_empty() {
            let brokers = Brokers { by_id: prepared.brokers(), leader: prepared.leader_of(0) };
            let faults = ReadyFaults::new(&files.faults, brokers)?;
            faults.plan().for_each(|line| progress.line(&line));
            prepared.disturb(Box::new(faults))?;
        }
        let targets = match self.pid {
            Some(pid) => Targets::named(pid, prepared.brokers()),
            None => Targets::behind(prepared.brokers()),
        };
        view.watch(&targets);
        prepared.warm_up(&mut Looker::at(&targets.pids), &mut listener)?;
        let foreign = targets.pids.clone();
        let mut probe = TargetProbe::new(targets, &foreign);
        let idle_cores = match self.idle {
            Some(length) => idle_cores(&mut probe, length, &mut listener)?,
            None => None,
        };
        let mut probe = probe.beside(self.metrics.begin()?);
        let mut window = prepared.run(start()?, &mut probe, &mut listener)?;
        window.facts.idle_cores = idle_cores;
        probe.describe_machine(&mut window);
        Ok(window)
    }
}

/// Cores that a warm, idle target uses; `None` if its CPU can't be read.
fn idle_cores(
    probe: &mut TargetProbe,
    length: Duration,
    progress: &mut dyn hone_load::Progress,
) -> Result<Option<f64>> {
    wait(SETTLED, progress)?;
    probe.start();
    let begun = Instant::now();
    wait(length, progress)?;
    let took_s = begun.elapsed().as_secs_f64();
    Ok(probe.stop().target_cpu.map(|cpu| cpu.total_s / took_s))
}

fn wait(length: Duration, progress: &mut dyn hone_load::Progress) -> Result<(), LoadError> {
    let begun = Instant::now();
    while let Some(left) = length.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
        if !progress.at("idle", begun.elapsed().as_secs_f64() / length.as_secs_f64()) {
            return Err(LoadError::Interrupted);
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
    Ok(())
}
