//! How much a build can bring at most, before anyone waits for one.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use hone_binary::Built;
use hone_record::{Ceiling, Window, Workload};

use super::Job;
use super::steps::Told;
use super::tree::BASELINE;
use crate::arm::Arm;

/// A probe of the ceiling needs no long window: user and system time of seconds of CPU are enough.
const CEILING_PROBE_S: f64 = 3.0;
/// CPU that the tick counters need before they tell user from kernel.
const USER_SHARE_NEEDS_S: f64 = 0.1;
/// Nobody should wait longer for a ceiling.
const CEILING_PROBE_LIMIT_S: f64 = 60.0;

impl Job<'_> {
    pub(super) fn ceilings(&self, baseline: &Built) -> Result<Told<Vec<Ceiling>>> {
        let arm = self.arm(BASELINE, &baseline.executable, BTreeMap::new());
        let mut found = Vec::new();
        for workload in &self.experiment.judging {
            found.push(match workload.engine.operations() {
                None => self.ceiling(&arm, workload)?,
                Some(_) => self.ceiling_of_operations(&arm, workload)?,
            });
        }
        let note = found.iter().map(|ceiling| format!("{}: {}", ceiling.workload, ceiling.words));
        Ok(Told { note: note.collect::<Vec<_>>().join("; "), command: None, result: found })
    }

    /// Probes for as long as it takes to tell user from kernel.
    fn ceiling(&self, arm: &Arm, workload: &Workload) -> Result<Ceiling> {
        let mut probe_s = CEILING_PROBE_S;
        loop {
            let probe = Workload { duration_s: probe_s, ..workload.clone() };
            let window = self.bench().alone(arm, &probe)?;
            let cpu = window.facts.target_cpu.context("the CPU of the started program could not be read")?;
            if let Some(user_share) = cpu.user_share {
                return Ok(ceiling(&window, cpu.total_s, user_share));
            }
            let needed_s = 1.5 * probe_s * USER_SHARE_NEEDS_S / cpu.total_s.max(1e-6);
            if needed_s > CEILING_PROBE_LIMIT_S {
                bail!(
                    "workload `{}` made {} use only {:.3} s of CPU in {probe_s:.0} s, too little to tell user from \
                     kernel; ask for more requests per second",
                    workload.name,
                    self.target().name(),
                    cpu.total_s
                );
            }
            probe_s = needed_s.max(2.0 * probe_s);
        }
    }

    /// The work ends a window here: more of it until user can be told from kernel.
    fn ceiling_of_operations(&self, arm: &Arm, workload: &Workload) -> Result<Ceiling> {
        let mut probe = workload.clone();
        loop {
            let window = self.bench().alone(arm, &probe)?;
            let cpu = window.facts.target_cpu.context("the CPU of the started program could not be read")?;
            if let Some(user_share) = cpu.user_share {
                return Ok(ceiling(&window, cpu.total_s, user_share));
            }
            let operations = probe.engine.operations().unwrap_or(1);
            let needed = 1.5 * operations as f64 * USER_SHARE_NEEDS_S / cpu.total_s.max(1e-6);
            let more = probe.with_operations((needed as u64).max(operations.saturating_mul(2)));
            match more.filter(|_| window.duration_s * needed / (operations as f64) < CEILING_PROBE_LIMIT_S) {
                Some(more) => probe = more,
                None => bail!(
                    "workload `{}` made {} use only {:.3} s of CPU with {operations} operations, too little to tell user from \
                     kernel\n  next: ask for more operations (and let its command take them as {{operations}})",
                    workload.name,
                    self.target().name(),
                    cpu.total_s
                ),
            }
        }
    }
}

/// The kernel's share of a target's CPU is out of reach of every build of the target.
fn ceiling(window: &Window, cpu_s: f64, user_share: f64) -> Ceiling {
    let cpu_us_per_record = cpu_s * 1e6 / window.facts.acked_records.max(1) as f64;
    let words = format!(
        "{:.0} % of the CPU is user code; a build can save at most that, the other {:.0} % are the kernel's",
        user_share * 100.0,
        (1.0 - user_share) * 100.0
    );
    Ceiling { workload: window.workload.name.clone(), cpu_us_per_record, user_share, words }
}
