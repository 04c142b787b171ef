//! The time budget of a comparison: its pairs after a pilot, or the rounds that fit into it.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use hone_compare::{FEWEST_ROUNDS, Plan, TWIN};
use hone_experiment::arm::Arm;
use hone_experiment::bench::of_use;
use hone_experiment::budget::{self, Wanted};
use hone_experiment::drive::Contest;
use hone_experiment::ending::Usage;
use hone_experiment::notation::{Share, TimeBudget};
use hone_experiment::outlook;
use hone_experiment::phase::Phase;
use hone_experiment::rounds;
use hone_experiment::spec::Compare;
use hone_record::{Engine, Workload};
use serde::{Deserialize, Serialize};

use super::steps::{Steps, Told};
use crate::job::Job;

/// More rounds hardly narrow an interval.
const MOST_ROUNDS: u32 = 1_000;
/// Rounds that a design may need for its starts and builds.
const ROUNDS_TRIED: u32 = 2_000;

/// Seconds of one variant in one round.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Turn {
    window_s: f64,
    /// Start, filling, warm-up and stop.
    start_s: f64,
}

impl Turn {
    /// Of this many variants, whose processes live for `block_rounds`.
    fn round_s(self, variants: usize, block_rounds: u32) -> f64 {
        (self.window_s + self.start_s / f64::from(block_rounds.max(1))) * variants as f64
    }
}

impl Job<'_> {
    /// Plans the pairs that fit into the budget, from the folder or after a pilot. Does nothing without a budget.
    ///
    /// # Errors
    /// Fails when the budget is too small, an arm fails, or the user interrupts.
    pub(super) fn pairs_in_budget(&self, contest: &mut Contest<'_>, plan: &Plan) -> Result<()> {
        let settings = &self.experiment.compare;
        let Some(TimeBudget(total_s)) = settings.budget else { return Ok(()) };
        let wanted = Wanted { total_s, effect: settings.effect.map(Share::ratio) };
        let clock = budget::clock(total_s, self.folder, &contest.prefix)?;
        let is_new = budget::planned(contest, plan, &wanted, clock, self.progress)?;
        if let Some(pilot) = contest.pilot.as_ref().filter(|_| is_new) {
            self.progress.line(&hone_document::plan::headline(pilot));
            let warning = contest.most_saved.and_then(|saved| outlook::too_little(pilot, saved));
            warning.iter().for_each(|words| self.progress.line(words));
        }
        Ok(())
    }

    /// The settings with the rounds that fit into the budgets of all `edges`. Without a budget, those of the experiment.
    ///
    /// # Errors
    /// Fails when the budget is too small, the load fails, or the user interrupts.
    pub(super) fn rounds_in_budget(
        &self,
        steps: &mut Steps<'_>,
        [edges, variants]: [usize; 2],
        workload: &Workload,
        arm: &Arm,
    ) -> Result<Compare> {
        let settings = self.experiment.compare.clone();
        let Some(TimeBudget(each_s)) = settings.budget else { return Ok(settings) };
        let turn = steps.run(Phase::Judge, &format!("time-{}", workload.name), || {
            let begun = Instant::now();
            let window_s = of_use(self.bench().alone(arm, workload)?)?.duration_s;
            let start_s = (begun.elapsed().as_secs_f64() - window_s).max(0.0);
            let note = format!("a window takes {} with its start", hone_format::duration(window_s + start_s));
            Ok(Told { note, command: None, result: Turn { window_s, start_s } })
        })?;
        let exits = matches!(workload.engine, Engine::Exits { .. });
        let round_s = turn.round_s(variants, if exits { 1 } else { settings.block_rounds });
        let builds = self.experiment.builds;
        let is_enough = |rounds: &u32| {
            let settings = Compare { rounds: *rounds, ..settings.clone() };
            rounds::plan(&settings, builds, workload, variants)
                .design([hone_compare::BASELINE, TWIN + 1])
                .is_ok()
        };
        let least = (FEWEST_ROUNDS..ROUNDS_TRIED)
            .find(is_enough)
            .context("no number of rounds fits these builds and blocks")?;
        let rounds = fitting(each_s * edges as f64, round_s, least).ok_or_else(|| {
            let least_s = (f64::from(least) * round_s / edges.max(1) as f64).ceil();
            Usage(format!(
                "--budget {each_s:.0}s is too small: {least} rounds take about {} for each comparison\n  \
                 next: raise it, or use fewer operations in workload `{}`",
                hone_format::duration(least_s),
                workload.name
            ))
        });
        match rounds {
            Ok(rounds) => Ok(Compare { rounds, ..settings }),
            Err(problem) => bail!(problem),
        }
    }
}

/// The rounds that fit into this time; `None` if they are fewer than the least number.
fn fitting(budget_s: f64, round_s: f64, least: u32) -> Option<u32> {
    let rounds = (budget_s / round_s.max(f64::MIN_POSITIVE)).min(f64::from(MOST_ROUNDS)) as u32;
    // An order and its reverse belong together.
    let even = rounds - rounds % 2;
    if even >= least { Some(even) } else { (rounds >= least).then_some(rounds) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rounds_fill_the_budget_and_their_starts_count_once_for_each_block() {
        let turn = Turn { window_s: 1.0, start_s: 2.0 };
        assert_eq!((turn.round_s(3, 2), turn.round_s(3, 0)), (6.0, 9.0));
        assert_eq!(fitting(300.0, 6.0, 10), Some(50));
        assert_eq!(fitting(45.0, 5.0, 9), Some(9), "the least number may be odd");
        assert_eq!(fitting(45.0, 5.0, 10), None);
        assert_eq!(fitting(1e9, 1e-9, 10), Some(MOST_ROUNDS));
    }
}
