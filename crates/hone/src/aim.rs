//! One window against a broker that runs, with everything around it: the view, the target's CPU, the machine.

use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Result;
use hone_load::{RawFile, Settings};
use hone_record::{SeriesPoint, Window, Workload};

use crate::clients::Clients;
use crate::live::LiveView;
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::targets::Targets;

/// Where loads go.
#[derive(Debug, Clone)]
pub(crate) struct Aim {
    pub(crate) settings: Settings,
    /// Whose CPU counts; whoever is behind the brokers of the cluster, unless named.
    pub(crate) pid: Option<u32>,
}

/// What is written while a window is open.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    pub(crate) series: Option<Sender<SeriesPoint>>,
    pub(crate) raw: Option<RawFile>,
}

impl Aim {
    /// Measures a window. `start` is asked when everything is warm.
    pub(crate) fn window(
        &self,
        workload: Workload,
        files: Beside,
        start: impl FnOnce() -> Result<Instant>,
        progress: &Progress,
    ) -> Result<Window> {
        let view = LiveView::open(progress, workload.duration_s);
        let mut listener = view.listener(files.series);
        let mut prepared =
            hone_load::prepare(self.settings.clone(), workload, &Clients::apart(), &mut listener)?;
        files.raw.into_iter().for_each(|raw| prepared.keep_raw(raw));
        let targets = match self.pid {
            Some(pid) => Targets::named(pid, prepared.brokers()),
            None => Targets::behind(prepared.brokers()),
        };
        view.watch(&targets.pids);
        let foreign = targets.pids.clone();
        let mut probe = TargetProbe::new(targets, &foreign);
        let mut window = prepared.run(start()?, &mut probe, &mut listener)?;
        probe.describe_machine(&mut window);
        Ok(window)
    }
}
