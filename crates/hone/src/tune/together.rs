//! What the kept changes are worth together, and whether each still helps among the others.

use anyhow::Result;
use hone_record::{Comparison, Decision, ProofStep, Together, TuningStep, Verdict};

use super::candidate::Candidate;
use super::session::{Session, Standing, Trial};

/// The name of all of them.
const ALL: &str = "all together";

impl Session<'_> {
    /// Holds all against all but each, puts back what makes the others worse, and holds what is left against the first state. Nothing where
    /// fewer than two changes were kept: the step has said it then.
    ///
    /// # Errors
    /// As for a trial.
    pub(super) fn together(&self, standing: &mut Standing) -> Result<Option<Together>> {
        let accepted = |step: &&TuningStep| step.step.decision == Decision::Accepted;
        if standing.steps.iter().filter(accepted).count() < 2 {
            return Ok(None);
        }
        let product = product(standing);
        let mut without = Vec::new();
        let several = standing.kept.iter().filter(|_| standing.kept.len() > 1);
        for (index, one) in several.enumerate() {
            let found = self.once(&format!("without/{:02}", index + 1), || {
                let rest = self.base.with(standing.kept.iter().filter(|other| *other != one))?;
                let all = self.base.with(&standing.kept)?;
                self.progress.line(&format!("Without {}: is it still worth it among the others?", one.name));
                self.judged(&Trial {
                    prefix: format!("without/{:02}/", index + 1),
                    names: ["without it", &one.name],
                    sides: [&rest, &all],
                })
            })?;
            without.push(found);
        }
        let harms = |candidate: &Candidate| {
            without.iter().any(|step| step.change == candidate.name && verdict(step) == Some(Verdict::Worse))
        };
        let kept: Vec<Candidate> = standing.kept.iter().filter(|one| !harms(one)).cloned().collect();
        let all = self.all(&kept)?;
        standing.kept = kept;
        Ok(Some(Together { all, product, without }))
    }

    fn all(&self, kept: &[Candidate]) -> Result<Option<ProofStep>> {
        if kept.is_empty() {
            return Ok(None);
        }
        let found = self.once("together", || {
            let (none, all) = (self.base.with([])?, self.base.with(kept)?);
            self.progress.line("All that was kept, against the first state");
            self.judged(&Trial {
                prefix: "together/".to_owned(),
                names: ["first", ALL],
                sides: [&none, &all],
            })
        })?;
        self.enter_in_ledger("together", "all", &found)?;
        Ok(Some(found))
    }

    /// What an earlier attempt found, or what is found now.
    fn once(&self, place: &str, measure: impl FnOnce() -> Result<ProofStep>) -> Result<ProofStep> {
        let note = format!("{place}/step.json");
        if let Some(found) = self.folder.read_note::<ProofStep>(&note)? {
            return Ok(found);
        }
        let found = measure()?;
        self.folder.write_note(&note, &found)?;
        self.progress.line(&format!("  {}", found.why));
        Ok(found)
    }
}

fn verdict(step: &ProofStep) -> Option<Verdict> {
    step.comparison.as_ref().map(Comparison::verdict)
}

/// Of the ratios that the kept changes had when they were accepted.
fn product(standing: &Standing) -> f64 {
    let accepted = standing.steps.iter().filter(|step| step.step.decision == Decision::Accepted);
    accepted.filter_map(|step| Some(step.step.comparison.as_ref()?.primary()?.estimate.ratio)).product()
}
