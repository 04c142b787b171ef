//! Exact counts of builds, as a step of a run.

use std::collections::BTreeMap;

use anyhow::Result;
use hone_binary::Built;
use hone_experiment::arm::Arm;
use hone_experiment::counted::{Counting, Tally};
use hone_experiment::phase::Phase;
use hone_record::{Comparison, Counted, Workload};
use hone_report::counted::sentence;

use super::foretell::{Tried, tried};
use super::steps::{Steps, Told};
use crate::job::Job;

impl Job<'_> {
    fn counting(&self) -> Result<Counting<'_>> {
        Counting::begin(self.bench(), self.folder.scratch().join("counts"))
    }

    /// The counts of two programs under a load, or why there are none.
    ///
    /// # Errors
    /// Fails when the user interrupts.
    pub(crate) fn counted(
        &self,
        steps: &mut Steps<'_>,
        [a, b]: [&Arm; 2],
        workload: &Workload,
    ) -> Result<Tried<Counted>> {
        steps.run(Phase::Judge, &format!("count-{}", workload.name), || {
            let result = tried(|| self.counting()?.both([a, b], workload))?;
            let note = note(std::slice::from_ref(&result));
            Ok(Told { note, command: None, result })
        })
    }

    /// Adds the counts to all comparisons under a load. Each program is counted once.
    ///
    /// # Errors
    /// Fails when the user interrupts.
    pub(crate) fn count_programs<'a>(
        &self,
        steps: &mut Steps<'_>,
        made: impl Iterator<Item = &'a Built>,
        workload: &Workload,
        comparisons: &mut [&mut Comparison],
    ) -> Result<()> {
        let programs: BTreeMap<&str, &Built> = made.map(|built| (built.variant.as_str(), built)).collect();
        let pairs: Vec<[String; 2]> =
            comparisons.iter().map(|judged| [judged.a.clone(), judged.b.clone()]).collect();
        if pairs.is_empty() || !self.experiment.compare.counts {
            return Ok(());
        }
        let counted = steps.run(Phase::Judge, &format!("count-{}", workload.name), || {
            let result = match tried(|| self.counting())? {
                Ok(counting) => self.count_pairs(&counting, &programs, workload, &pairs)?,
                Err(why) => vec![Err(why)],
            };
            Ok(Told { note: note(&result), command: None, result })
        })?;
        for counted in counted.into_iter().flatten() {
            let same = |judged: &&mut &mut Comparison| judged.a == counted.a && judged.b == counted.b;
            if let Some(judged) = comparisons.iter_mut().find(same) {
                judged.counted = Some(Box::new(counted));
            }
        }
        Ok(())
    }

    fn count_pairs(
        &self,
        counting: &Counting<'_>,
        programs: &BTreeMap<&str, &Built>,
        workload: &Workload,
        pairs: &[[String; 2]],
    ) -> Result<Vec<Tried<Counted>>> {
        let mut tallies: BTreeMap<&str, Tried<Tally>> = BTreeMap::new();
        let mut operations = None;
        for name in pairs.iter().flatten() {
            let Some(built) = programs.get(name.as_str()).filter(|_| !tallies.contains_key(name.as_str()))
            else {
                continue;
            };
            let arm = self.arm(name, &built.executable, BTreeMap::new());
            let tally = tried(|| counting.one(&arm, workload, operations))?;
            if let Ok(tally) = &tally {
                operations = Some(tally.operations());
            }
            tallies.insert(name, tally);
        }
        let counted = |[a, b]: &[String; 2]| match (tallies.get(a.as_str()), tallies.get(b.as_str())) {
            (Some(Ok(first)), Some(Ok(second))) => Ok(counting.compared([(a, first), (b, second)], workload)),
            (Some(Err(why)), _) | (_, Some(Err(why))) => Err(why.clone()),
            _ => Err(format!("{a} or {b} was not built")),
        };
        Ok(pairs.iter().map(counted).collect())
    }
}

fn note(counted: &[Tried<Counted>]) -> String {
    let mut notes: Vec<String> = counted
        .iter()
        .map(|counted| match counted {
            Ok(counted) => format!("{}: {}", counted.b, sentence(counted)),
            Err(why) => format!("not counted: {why}"),
        })
        .collect();
    notes.dedup();
    notes.join("; ")
}
