//! One window against a broker that runs, with everything around it: the view, the target's CPU, the machine.

use std::sync::mpsc::Sender;
use std::time::Instant;

use anyhow::Result;
use hone_load::Settings;
use hone_record::{SeriesPoint, Window, Workload};

use crate::arm::processes_behind;
use crate::live::LiveView;
use crate::probe::TargetProbe;
use crate::progress::Progress;

/// Where loads go.
#[derive(Debug, Clone)]
pub(crate) struct Aim {
    pub(crate) settings: Settings,
    /// Whose CPU counts; whoever listens there, unless named.
    pub(crate) pid: Option<u32>,
}

impl Aim {
    /// Measures a window. `start` is asked when everything is warm.
    pub(crate) fn window(
        &self,
        workload: Workload,
        series: Option<Sender<SeriesPoint>>,
        start: impl FnOnce() -> Result<Instant>,
        progress: &Progress,
    ) -> Result<Window> {
        let view = LiveView::open(progress, workload.duration_s);
        let mut listener = view.listener(series);
        let prepared = hone_load::prepare(self.settings.clone(), workload, &mut listener)?;
        let targets = match self.pid {
            Some(pid) => vec![pid],
            None => processes_behind(prepared.leaders()),
        };
        view.watch(&targets);
        let mut probe = TargetProbe::new(targets.clone(), &targets);
        let mut window = prepared.run(start()?, &mut probe, &mut listener)?;
        probe.describe_machine(&mut window);
        Ok(window)
    }
}
