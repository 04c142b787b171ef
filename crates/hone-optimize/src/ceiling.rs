//! How much a build can bring at most, before anyone waits for one.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use hone_binary::Built;
use hone_format::count;
use hone_record::{Ceiling, Outcome, Window, Workload};

use super::steps::Told;
use crate::job::Job;
use hone_experiment::arm::Arm;
use hone_experiment::takes::CEILING_PROBE_S;
use hone_experiment::variants::BASELINE;

/// CPU that the tick counters need before they tell user from kernel.
const USER_SHARE_NEEDS_S: f64 = 0.1;
/// A window of operations that is shorter is told: starting the load and what a neighbour does weigh more in it. LevelDB's intervals
/// on two cores with noisy neighbours, 30 rounds: 2.6 % to each side in windows of 0.27 s, 1.3 % in those of 1.1 s.
const SHORT_S: f64 = 0.5;
/// What is advised then.
const LONG_ENOUGH_S: f64 = 1.0;
/// So many times the operations, and not twice the CPU, are not done. Of a program whose start costs a hundred times what it does the CPU
/// has grown by then.
const IS_NO_OPERATION: u64 = 1_000;
/// Nobody should wait longer for a ceiling.
const CEILING_PROBE_LIMIT_S: f64 = 60.0;

impl Job<'_> {
    pub(super) fn ceilings(&self, baseline: &Built) -> Result<Told<Vec<Ceiling>>> {
        let arm = self.arm(BASELINE, &baseline.executable, BTreeMap::new());
        let (mut found, mut note) = (Vec::new(), Vec::new());
        for workload in &self.experiment.judging {
            let (ceiling, hint) = match workload.engine.operations() {
                None => (self.ceiling(&arm, workload)?, None),
                Some(_) => self.ceiling_of_operations(&arm, workload)?,
            };
            note.push(format!("{}: {}{}", ceiling.workload, ceiling.words, hint.unwrap_or_default()));
            found.push(ceiling);
        }
        Ok(Told { note: note.join("; "), command: None, result: found })
    }

    /// Probes for as long as it takes to tell user from kernel.
    fn ceiling(&self, arm: &Arm, workload: &Workload) -> Result<Ceiling> {
        let mut probe_s = CEILING_PROBE_S;
        loop {
            let probe = Workload { duration_s: probe_s, ..workload.clone() };
            let window = self.bench().alone(arm, &probe)?;
            if self.experiment.raised.contains(&workload.name) {
                stands_what_was_raised(&window)?;
            }
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

    /// The work ends a window here: more of it until user can be told from kernel. With what [`short`] says of the first window, which
    /// is of the workload as it is.
    fn ceiling_of_operations(&self, arm: &Arm, workload: &Workload) -> Result<(Ceiling, Option<String>)> {
        let mut probe = workload.clone();
        let (mut hint, mut first) = (None, None);
        loop {
            let window = self.bench().alone(arm, &probe)?;
            let operations = probe.engine.operations().unwrap_or(1);
            let hint = hint.get_or_insert_with(|| short(&window, operations));
            let cpu = window.facts.target_cpu.context("the CPU of the started program could not be read")?;
            if let Some(user_share) = cpu.user_share {
                return Ok((ceiling(&window, cpu.total_s, user_share), hint.take()));
            }
            does_them(
                &workload.name,
                *first.get_or_insert((operations, cpu.total_s)),
                (operations, cpu.total_s),
            )?;
            let needed = 1.5 * operations as f64 * USER_SHARE_NEEDS_S / cpu.total_s.max(1e-6);
            let more = probe.with_operations((needed as u64).max(operations.saturating_mul(2)));
            match more.filter(|_| window.duration_s * needed / (operations as f64) < CEILING_PROBE_LIMIT_S) {
                Some(more) => probe = more,
                None => bail!(
                    "workload `{}` made {} use only {:.3} s of CPU with {} operations, too little to tell user from \
                     kernel\n  next: ask for more operations (and let its command take them as {{operations}})",
                    workload.name,
                    self.target().name(),
                    cpu.total_s,
                    count(operations)
                ),
            }
        }
    }
}

/// A program that does the same whatever it is asked for would be asked for more without an end, and its CPU per operation means
/// nothing. Each is operations and seconds of CPU.
fn does_them(workload: &str, first: (u64, f64), now: (u64, f64)) -> Result<()> {
    if now.0 / first.0.max(1) >= IS_NO_OPERATION && now.1 < 2.0 * first.1 {
        bail!(
            "workload `{workload}`: {} operations cost the program {:.3} s of CPU, and {} cost {:.3} s, so its operations are no work that \
             could be measured\n  next: look whether its command does {{operations}} operations, and whether the compiler removed them",
            count(first.0),
            first.1,
            count(now.0),
            now.1
        );
    }
    Ok(())
}

/// What to do about windows that are short.
fn short(window: &Window, operations: u64) -> Option<String> {
    (window.duration_s < SHORT_S).then(|| {
        format!(
            " (a window of {} operations takes {:.2} s; with {} times as many the intervals will be narrower)",
            count(operations),
            window.duration_s,
            (LONG_ENOUGH_S / window.duration_s.max(0.01)).ceil()
        )
    })
}

/// What does not keep up alone keeps up beside nothing else, and would be found out behind all builds and trainings.
fn stands_what_was_raised(window: &Window) -> Result<()> {
    match &window.outcome {
        Outcome::Saturated { backlog_requests } => bail!(
            "the plain build does not stand the raised load `{}`: of {:.0} requests/s {backlog_requests} were left at the end of \
             {:.0} s\n  next: ask for a smaller `raise`, or for a lower rate of what it raises",
            window.workload.name,
            window.workload.requests_per_s,
            window.duration_s
        ),
        _ => Ok(()),
    }
}

/// The kernel's share of a target's CPU is out of reach of every build of the target.
fn ceiling(window: &Window, cpu_s: f64, user_share: f64) -> Ceiling {
    let cpu_us_per_record = cpu_s * 1e6 / window.facts.acked_records.max(1) as f64;
    let words = format!(
        "{:.0} % of the CPU is user code, libraries with it; a build can save at most that, the other {:.0} % are the kernel's",
        user_share * 100.0,
        (1.0 - user_share) * 100.0
    );
    Ceiling { workload: window.workload.name.clone(), cpu_us_per_record, user_share, words }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_that_are_short_are_told() {
        let mut window = hone_experiment::fixture::window();
        window.duration_s = 0.27;
        let hint = short(&window, 60_000).unwrap();
        assert!(hint.contains("60,000 operations takes 0.27 s; with 4 times as many"), "{hint}");
        window.duration_s = SHORT_S;
        assert_eq!(short(&window, 60_000), None);
    }

    #[test]
    fn operations_that_cost_nothing_are_not_asked_for_without_an_end() {
        // The start of the program costs a hundred times what its operations do, and then they show.
        does_them("x", (1_000, 0.005), (30_000, 0.0065)).unwrap();
        does_them("x", (1_000, 0.005), (1_000_000, 0.055)).unwrap();
        let message = does_them("x", (1_000, 0.005), (1_000_000, 0.006)).unwrap_err().to_string();
        assert!(
            message.contains("1,000 operations cost the program 0.005 s of CPU, and 1,000,000 cost 0.006 s"),
            "{message}"
        );
    }

    #[test]
    fn a_raised_rate_that_the_plain_build_does_not_stand_is_found_out_at_the_ceiling() {
        let mut window = hone_experiment::fixture::window();
        window.outcome = Outcome::Steady;
        stands_what_was_raised(&window).unwrap();
        window.outcome = Outcome::Saturated { backlog_requests: 99 };
        let message = stands_what_was_raised(&window).unwrap_err().to_string();
        assert!(message.contains("99 were left") && message.contains("a smaller `raise`"), "{message}");
    }
}
