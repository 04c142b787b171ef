//! The highest possible gain of a build, before anyone waits for one.

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

/// Seconds of CPU that the tick counters need to separate user from kernel time.
const USER_SHARE_NEEDS_S: f64 = 0.1;
/// Below this length, Hone warns about a window of operations: the start of the load and neighbours weigh more in it. LevelDB's
/// confidence intervals on two cores with noisy neighbours, 30 rounds: 2.6 % to each side in windows of 0.27 s, 1.3 % in windows of
/// 1.1 s.
const SHORT_S: f64 = 0.5;
/// The length that the advice aims at.
const LONG_ENOUGH_S: f64 = 1.0;
/// If this many times the operations do not take twice the CPU, the program does not perform them. Even a program whose start costs a
/// hundred operations takes twice the CPU by then.
const IS_NO_OPERATION: u64 = 1_000;
/// A probe lasts no longer than this.
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

    /// Probes until the CPU time suffices to separate user from kernel time.
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
                    "under workload `{}`, {} used only {:.3} s of CPU in {probe_s:.0} s, which is too little \
                     to separate user from kernel time\n  next: raise the request rate of the workload",
                    workload.name,
                    self.target().name(),
                    cpu.total_s
                );
            }
            probe_s = needed_s.max(2.0 * probe_s);
        }
    }

    /// The operations end this window: Hone raises their number until it can separate user from kernel time. Also returns the words of
    /// [`short`] about the first window, which shows the workload as configured.
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
                    "under workload `{}`, {} used only {:.3} s of CPU for {} operations, which is too little \
                     to separate user from kernel time\n  next: raise the number of operations (the command \
                     must take it as {{operations}})",
                    workload.name,
                    self.target().name(),
                    cpu.total_s,
                    count(operations)
                ),
            }
        }
    }
}

/// Refuses a program whose work does not grow with the requested operations. Hone would raise the number forever, and its CPU
/// per operation means nothing. Each pair is operations and seconds of CPU.
fn does_them(workload: &str, first: (u64, f64), now: (u64, f64)) -> Result<()> {
    if now.0 / first.0.max(1) >= IS_NO_OPERATION && now.1 < 2.0 * first.1 {
        bail!(
            "workload `{workload}`: {} operations cost {:.3} s of CPU, and {} cost {:.3} s, so the CPU time \
             does not grow with the operations\n  next: check that the command performs {{operations}} \
             operations, and that the compiler did not remove them",
            count(first.0),
            first.1,
            count(now.0),
            now.1
        );
    }
    Ok(())
}

/// Advice about windows that are short.
fn short(window: &Window, operations: u64) -> Option<String> {
    (window.duration_s < SHORT_S).then(|| {
        format!(
            " (a window of {} operations takes {:.2} s; {} times as many give a narrower confidence \
             interval)",
            count(operations),
            window.duration_s,
            (LONG_ENOUGH_S / window.duration_s.max(0.01)).ceil()
        )
    })
}

/// A program that can't sustain the load alone can't sustain it next to another one. Hone finds that out before all
/// builds and trainings.
fn stands_what_was_raised(window: &Window) -> Result<()> {
    match &window.outcome {
        Outcome::Saturated { backlog_requests } => bail!(
            "the plain build can't sustain the raised load `{}`: at {:.0} requests/s, {backlog_requests} \
             requests were still waiting after {:.0} s\n  next: lower `raise`, or the rate of the workload \
             that it raises",
            window.workload.name,
            window.workload.requests_per_s,
            window.duration_s
        ),
        _ => Ok(()),
    }
}

/// No build of the target can reduce the kernel's share of its CPU time.
fn ceiling(window: &Window, cpu_s: f64, user_share: f64) -> Ceiling {
    let cpu_us_per_record = cpu_s * 1e6 / window.facts.acked_records.max(1) as f64;
    let words = format!(
        "{:.0} % of the CPU time is user code, libraries included; a build can save at most that, because \
         the other {:.0} % is kernel time",
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
        assert!(hint.contains("60,000 operations takes 0.27 s; 4 times as many"), "{hint}");
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
            message.contains("1,000 operations cost 0.005 s of CPU, and 1,000,000 cost 0.006 s"),
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
        assert!(
            message.contains("99 requests were still waiting") && message.contains("next: lower `raise`"),
            "{message}"
        );
    }
}
