//! The target's CPU around a window.

use hone_host::cpu::{self, CpuSample, SystemSample};
use hone_load::{Probe, ProbeFacts};

/// Samples a target's process tree, and the machine.
#[derive(Debug)]
pub(crate) struct TargetProbe {
    target: Option<u32>,
    /// Other processes of this comparison: they are not "others".
    ours: Vec<u32>,
    before: Option<Snapshot>,
}

#[derive(Debug)]
struct Snapshot {
    target: Option<CpuSample>,
    ours: Vec<Option<CpuSample>>,
    system: Option<SystemSample>,
}

impl TargetProbe {
    /// `target` is the process whose CPU counts, `ours` are all targets of this comparison and this process itself.
    pub(crate) fn new(target: Option<u32>, ours: Vec<u32>) -> Self {
        Self { target, ours, before: None }
    }

    fn look(&self) -> Snapshot {
        Snapshot {
            target: self.target.and_then(|pid| cpu::sample(pid).ok()),
            ours: self.ours.iter().map(|pid| cpu::sample(*pid).ok()).collect(),
            system: cpu::system().ok(),
        }
    }
}

impl Probe for TargetProbe {
    fn start(&mut self) {
        self.before = Some(self.look());
    }

    fn stop(&mut self) -> ProbeFacts {
        let after = self.look();
        let Some(before) = self.before.take() else { return ProbeFacts::default() };
        let both = |before: &Option<CpuSample>, after: &Option<CpuSample>| {
            Some(cpu::between(before.as_ref()?, after.as_ref()?))
        };
        let ours_s: f64 = before
            .ours
            .iter()
            .zip(&after.ours)
            .filter_map(|(before, after)| both(before, after))
            .map(|cpu| cpu.total_s)
            .sum();
        let system =
            before.system.zip(after.system).map(|(before, after)| cpu::system_between(&before, &after));
        ProbeFacts {
            target_cpu: both(&before.target, &after.target),
            steal_share: system.map_or(0.0, |used| used.steal_share),
            others_share: system
                .filter(|used| used.total_s > 0.0)
                .map_or(0.0, |used| ((used.busy_s - ours_s) / used.total_s).clamp(0.0, 1.0)),
        }
    }
}
