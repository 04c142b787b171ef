//! Windows of counted operations that are long enough to measure: a clock of 10 ms ticks and the start of a command tell little in less.

use anyhow::Result;
use hone_experiment::arm::Arm;
use hone_experiment::bench::of_use;
use hone_experiment::phase::Phase;
use hone_record::Workload;

use super::steps::{Steps, Told};
use crate::job::Job;

/// More than enough, so that no window of a faster variant is too short.
const SPARE: f64 = 1.2;
/// A first window that was much too short says little about the right length.
const MOST_TIMES: f64 = 1_000.0;

impl Job<'_> {
    /// The load with as many operations as a window of the wanted length takes. The user's number stays if it is enough, and if the load has no
    /// placeholder for it.
    ///
    /// # Errors
    /// Fails when the load fails, or the user interrupts.
    pub(super) fn long_enough(
        &self,
        steps: &mut Steps<'_>,
        workload: &Workload,
        arm: &Arm,
    ) -> Result<Workload> {
        let least_s = self.experiment.compare.least_window_s;
        let (Some(operations), true) = (workload.engine.operations(), least_s > 0.0) else {
            return Ok(workload.clone());
        };
        if workload.with_operations(operations).is_none() {
            return Ok(workload.clone());
        }
        let wanted = steps.run(Phase::Judge, &format!("length-{}", workload.name), || {
            let took_s = of_use(self.bench().alone(arm, workload)?)?.duration_s;
            let wanted = lengthened(operations, took_s, least_s);
            let note = match wanted == operations {
                true => format!("a window takes {}", hone_format::duration(took_s)),
                false => format!(
                    "{} operations take {}, so a window has {}",
                    hone_format::count(operations),
                    hone_format::duration(took_s),
                    hone_format::count(wanted)
                ),
            };
            Ok(Told { note, command: None, result: wanted })
        })?;
        Ok(workload.with_operations(wanted).unwrap_or_else(|| workload.clone()))
    }
}

fn lengthened(operations: u64, took_s: f64, least_s: f64) -> u64 {
    if took_s >= least_s {
        return operations;
    }
    let times = (SPARE * least_s / took_s.max(f64::MIN_POSITIVE)).min(MOST_TIMES);
    (operations as f64 * times).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_window_gets_more_operations_and_a_long_one_stays() {
        assert_eq!(lengthened(1_000, 1.0, 1.0), 1_000);
        assert_eq!(lengthened(1_000, 0.5, 1.0), 2_400);
        assert_eq!(lengthened(10, 0.0, 1.0), 10_000);
        assert_eq!(lengthened(1_000, 0.01, 0.0), 1_000);
    }
}
