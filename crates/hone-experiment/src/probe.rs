//! The target's CPU and memory during a window.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use hone_host::cores::CoreWatch;
use hone_host::cpu::{self, CpuSample, SystemSample};
use hone_host::memory::Watch;
use hone_host::observe;
use hone_host::pressure::{self, Pressure};
use hone_host::throttle::{self, ThrottleSample};
use hone_host::upstream::{Upstream, UpstreamWatch};
use hone_load::{Probe, ProbeFacts};
use hone_record::{BUSY_OF_TARGET, CPU_OF_TARGET, CoreUse, CpuSeconds, Window};

use crate::meter::Meter;
use crate::targets::Targets;
use crate::warmth::{self, Course, Point};

/// Samples a target's process trees, and the machine.
#[derive(Debug)]
pub struct TargetProbe {
    /// The processes whose CPU counts; empty if they are unknown.
    targets: Targets,
    /// Processes that do not belong to the "others": this process with everything that it started, and targets that it did not
    /// start.
    ours: Vec<u32>,
    before: Option<Snapshot>,
    /// Of the last window.
    pressure: BTreeMap<String, f64>,
    /// Whether the others' CPU in the last window certainly contains none of the target's.
    others_known: bool,
    /// Whether the target is a child of this process that exited with its window. It is one of `ours`, and its CPU is known from
    /// reaping it.
    is_reaped: bool,
    /// Runs while the window is open.
    memory: Option<Watch>,
    /// Runs while the window is open.
    cores: Option<CoreWatch>,
    /// Of the last window.
    core_use: Option<CoreUse>,
    course: Option<Course>,
    /// Its results.
    points: Vec<Point>,
    upstreams: Option<UpstreamWatch>,
    /// The processes to which the targets delegated work in the last window.
    behind: BTreeSet<Upstream>,
    /// Its own counters right before the window, and their growth after it.
    meter: Option<Meter>,
    busy_unknown: Option<String>,
}

#[derive(Debug)]
struct Snapshot {
    targets: Vec<Option<CpuSample>>,
    ours: Vec<Option<CpuSample>>,
    system: Option<SystemSample>,
    pressure: Pressure,
    throttle: ThrottleSample,
}

impl TargetProbe {
    /// `targets` are the processes whose CPU counts together. `foreign` are the comparison's processes that this process did not
    /// start (its own children are counted with it).
    pub fn new(targets: Targets, foreign: &[u32]) -> Self {
        let mut ours = foreign.to_vec();
        ours.push(std::process::id());
        ours.sort_unstable();
        ours.dedup();
        Self {
            targets,
            ours,
            before: None,
            pressure: BTreeMap::new(),
            others_known: false,
            is_reaped: false,
            memory: None,
            cores: None,
            core_use: None,
            course: None,
            points: Vec::new(),
            upstreams: None,
            behind: BTreeSet::new(),
            meter: None,
            busy_unknown: None,
        }
    }

    /// For a target that this process starts and reaps within the window.
    pub fn of_a_reaped_child() -> Self {
        Self { is_reaped: true, ..Self::new(Targets::default(), &[]) }
    }

    /// With the target's own counters, which were read right before the window.
    pub fn beside(self, meter: Option<Meter>) -> Self {
        Self { meter, ..self }
    }

    fn look(&self) -> Snapshot {
        let sample = |pids: &[u32]| pids.iter().map(|pid| cpu::sample(*pid).ok()).collect();
        Snapshot {
            targets: sample(&self.targets.pids),
            ours: sample(&self.ours),
            system: cpu::system().ok(),
            pressure: pressure::sample(Path::new("/")),
            throttle: throttle::sample(&self.targets.pids),
        }
    }

    /// Adds to the window: the machine, its load, the missing parts of the target's CPU, and whether the target was still warming
    /// up.
    pub fn describe_machine(&self, window: &mut Window) {
        warmth::judge(window, &self.points);
        let environment = window.environment.get_or_insert_default();
        environment.unknown.extend(self.targets.missing.iter().map(|why| format!("{CPU_OF_TARGET}{why}")));
        environment.unknown.extend(self.busy_unknown.iter().map(|why| format!("{BUSY_OF_TARGET}{why}")));
        if !self.others_known {
            let why = "used by other processes: the target's processes are unknown, so its CPU may be \
                 included";
            environment.unknown.push(why.to_owned());
        }
        environment.measured = self.targets.names();
        environment.behind = self.behind.iter().map(Upstream::description).collect();
        environment.machine = observe::machine(Path::new("/"));
        environment.pressure.clone_from(&self.pressure);
        environment.core_use.clone_from(&self.core_use);
        if self.pressure.is_empty() {
            environment.unknown.push("pressure: this kernel does not have it (/proc/pressure)".to_owned());
        }
    }
}

impl Probe for TargetProbe {
    fn start(&mut self) {
        self.before = Some(self.look());
        self.course = Course::start(&self.targets.pids);
        self.memory = Watch::start(&self.targets.pids);
        self.cores = CoreWatch::start();
        self.upstreams = UpstreamWatch::start(&self.targets.pids);
    }

    fn stop(&mut self) -> ProbeFacts {
        let after = self.look();
        let busy = self.meter.take().map(Meter::end).transpose();
        self.busy_unknown = busy.as_ref().err().cloned();
        self.points = self.course.take().map(Course::stop).unwrap_or_default();
        let target_memory = self.memory.take().and_then(Watch::stop);
        self.core_use = self.cores.take().and_then(CoreWatch::stop);
        self.behind = self.upstreams.take().map(UpstreamWatch::stop).unwrap_or_default();
        let Some(before) = self.before.take() else { return ProbeFacts::default() };
        self.pressure = pressure::between(&before.pressure, &after.pressure);
        let ours = used(&before.ours, &after.ours);
        let target_cpu = used(&before.targets, &after.targets);
        self.others_known = ours.is_some() && (self.is_reaped || target_cpu.is_some());
        let ours_s = ours.map_or(0.0, |cpu| cpu.total_s);
        let system =
            before.system.zip(after.system).map(|(before, after)| cpu::system_between(&before, &after));
        ProbeFacts {
            target_cpu,
            steal_share: system.map_or(0.0, |used| used.steal_share),
            others_share: system
                .filter(|used| used.total_s > 0.0)
                .map_or(0.0, |used| ((used.busy_s - ours_s) / used.total_s).clamp(0.0, 1.0)),
            target_memory,
            throttling: throttle::between(&before.throttle, &after.throttle),
            target_busy: busy.ok().flatten(),
        }
    }
}

/// Total CPU of several process trees; `None` without any, or if one of them can't be read.
fn used(before: &[Option<CpuSample>], after: &[Option<CpuSample>]) -> Option<CpuSeconds> {
    let both = |(before, after): (&Option<CpuSample>, &Option<CpuSample>)| {
        Some(cpu::between(before.as_ref()?, after.as_ref()?))
    };
    let parts = before.iter().zip(after).map(both).collect::<Option<Vec<CpuSeconds>>>()?;
    let total_s: f64 = parts.iter().map(|part| part.total_s).sum();
    let user_s: Option<f64> = parts.iter().map(|part| Some(part.total_s * part.user_share?)).sum();
    let user_share = user_s.filter(|_| total_s > 0.0).map(|user_s| user_s / total_s);
    (!parts.is_empty()).then_some(CpuSeconds { total_s, user_share })
}

/// Observes only the latencies.
pub struct NoProbe;

impl Probe for NoProbe {
    fn start(&mut self) {}

    fn stop(&mut self) -> ProbeFacts {
        ProbeFacts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_that_cannot_be_read_has_no_cpu() {
        let own = std::process::id();
        for (targets, known) in [(vec![own], true), (vec![], false), (vec![own, u32::MAX / 2], false)] {
            let targets = Targets { pids: targets, missing: None, followed: None };
            let mut probe = TargetProbe::new(targets.clone(), &[]);
            probe.start();
            assert_eq!(probe.stop().target_cpu.is_some(), known, "{targets:?}");
        }
    }

    #[test]
    fn nobody_is_counted_twice() {
        let own = std::process::id();
        assert_eq!(TargetProbe::new(Targets::started(own), &[own, own, 7]).ours.len(), 2);
    }

    #[test]
    fn a_window_says_when_its_neighbours_may_be_its_target() {
        let own = std::process::id();
        for (targets, known) in [(vec![own], true), (vec![], false)] {
            let mut probe = TargetProbe::new(Targets { pids: targets, missing: None, followed: None }, &[]);
            probe.start();
            probe.stop();
            let mut window = crate::fixture::window();
            probe.describe_machine(&mut window);
            let unknown = window.environment.unwrap().unknown;
            assert_eq!(unknown.iter().any(|text| text.contains("other processes")), !known, "{unknown:?}");
        }
    }
}
