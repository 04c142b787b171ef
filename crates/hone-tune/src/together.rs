//! Re-tests the kept changes: with each one removed in turn, then all together against the original state. Rolls back what does
//! not help, one change at a time.

use std::cmp::Ordering;

use anyhow::Result;
use hone_record::{Comparison, Decision, ProofStep, PutBack, Together, TuningStep};

use super::candidate::Candidate;
use super::session::{Question, Session, Standing, Trial};
use hone_document::entries::tuning::{PUT_BACK, REPLACED};

/// The name of all kept changes together, as in [`hone_record::ALL_TOGETHER`].
pub(super) const ALL: &str = "all together";

impl Session<'_> {
    /// Re-tests the kept changes with each one removed in turn, and rolls back the most harmful one until none is harmful. Then
    /// compares all of them with the original state. If that is inconclusive, it rolls back the change that was worth least and
    /// re-tests the rest. Returns `None` if fewer than two changes were accepted: their own step was that comparison.
    ///
    /// # Errors
    /// As for a trial.
    pub(super) fn together(&self, standing: &mut Standing) -> Result<Option<Together>> {
        let accepted = |step: &&TuningStep| step.step.decision == Decision::Accepted;
        if standing.steps.iter().filter(accepted).count() < 2 {
            return Ok(None);
        }
        let mut found = Together { all: None, product: None, without: Vec::new(), put_back: Vec::new() };
        // The last result of all together, if it was rejected. It holds until another result replaces it.
        let mut rejected: Option<ProofStep> = None;
        for round in 1.. {
            self.let_go_overtaken(round, standing)?;
            found.without = self.without(round, standing)?;
            if standing.kept.is_empty() {
                break;
            }
            if let Some(harm) = most_harmful(&found.without) {
                let gone =
                    PutBack { change: harm.change.clone(), why: harm_in_words(harm), step: harm.clone() };
                self.put_back(standing, &mut found, gone)?;
                continue;
            }
            let Some(all) = self.all(round, standing)? else {
                if let Some(all) = &rejected {
                    self.put_back_rest(standing, &mut found, all)?;
                }
                break;
            };
            if all.decision == Decision::Accepted {
                (found.all, rejected) = (Some(all), None);
                break;
            }
            rejected = Some(all.clone());
            let Some(last) = standing.kept.last() else { break };
            let least = least_worth(&found.without).cloned();
            let change = least.as_ref().map_or(&last.name, |step| &step.change).clone();
            let why = format!("{ALL} was rejected ({}), and this change was worth least", all.why);
            self.put_back(standing, &mut found, PutBack { change, why, step: least.unwrap_or(all) })?;
            if standing.kept.is_empty() {
                break;
            }
        }
        found.all = rejected.or(found.all);
        found.without.retain(|step| standing.kept.iter().any(|kept| kept.name == step.change));
        let is_whole = found.without.len() == standing.kept.len();
        found.product = product(&found.without).filter(|_| is_whole);
        Ok(Some(found))
    }

    /// Rolls back all that is left of a rejected set: its gain is inconclusive, and no time is left to re-test it.
    fn put_back_rest(&self, standing: &mut Standing, found: &mut Together, all: &ProofStep) -> Result<()> {
        let names: Vec<String> = standing.kept.iter().map(|one| one.name.clone()).collect();
        for change in names {
            let why = format!(
                "{ALL} was rejected ({}), and the budget is too short to compare the rest with the original \
                 state",
                all.why
            );
            self.put_back(standing, found, PutBack { change, why, step: all.clone() })?;
        }
        Ok(())
    }

    /// Drops changes that make no difference after a rollback. Two equal states can't be compared, and the result would not show
    /// harm.
    fn let_go_overtaken(&self, round: usize, standing: &mut Standing) -> Result<()> {
        const WHY: &str = "the state is the same without it";
        for (number, candidate) in self.base.overtaken(&mut standing.kept)?.iter().enumerate() {
            self.progress.line(&format!("  {} is dropped: {WHY}", candidate.name));
            let place = format!("end/{round:02}/replaced-{:02}", number + 1);
            self.enter_closing(&place, candidate, REPLACED, WHY, None)?;
        }
        Ok(())
    }

    /// Compares all with all but one, for each change, as far as the budget allows.
    fn without(&self, round: usize, standing: &Standing) -> Result<Vec<ProofStep>> {
        let mut found = Vec::new();
        for (index, one) in standing.kept.iter().enumerate().filter(|_| standing.kept.len() > 1) {
            let rest = self.base.with(standing.kept.iter().filter(|other| *other != one))?;
            let all = self.base.with(&standing.kept)?;
            let trial = Trial {
                prefix: format!("end/{round:02}/without-{:02}/", index + 1),
                names: ["without it", &one.name],
                sides: [&rest, &all],
                question: Question::Among,
            };
            let Some(step) = self.in_the_end(standing, &trial)? else { break };
            self.enter_among(&trial.prefix, one, &step)?;
            found.push(step);
        }
        Ok(found)
    }

    /// Compares all kept changes with the original state. `None`: the budget is too short.
    fn all(&self, round: usize, standing: &Standing) -> Result<Option<ProofStep>> {
        let (none, all) = (self.base.with([])?, self.base.with(&standing.kept)?);
        let prefix = format!("end/{round:02}/all/");
        let trial =
            Trial { prefix, names: ["first", ALL], sides: [&none, &all], question: Question::Together };
        let found = self.in_the_end(standing, &trial)?;
        if let Some(found) = &found {
            self.enter_all(&trial.prefix, found)?;
        }
        Ok(found)
    }

    /// The result of an earlier attempt, or a new one. `None`: the budget is too short.
    fn in_the_end(&self, standing: &Standing, trial: &Trial<'_>) -> Result<Option<ProofStep>> {
        let note = format!("{}step.json", trial.prefix);
        if let Some(found) = self.folder.read_note::<ProofStep>(&note)? {
            return Ok(Some(found));
        }
        let over = format!("{}over.json", trial.prefix);
        if self.folder.join(&over).exists() {
            return Ok(None);
        }
        if !self.reaches(standing, trial) {
            // The ledger entries that follow must also hold for an attempt with more time.
            self.folder.write_note(&over, &true)?;
            return Ok(None);
        }
        self.progress.line(&match trial.question {
            Question::Among => format!("re-testing without {}", trial.names[1]),
            Question::Step | Question::Together => {
                "re-testing all kept changes against the original state".to_owned()
            }
        });
        let found = self.judged(trial)?;
        self.folder.write_note(&note, &found)?;
        self.progress.line(&format!("  {}", found.why));
        Ok(Some(found))
    }

    fn put_back(&self, standing: &mut Standing, found: &mut Together, gone: PutBack) -> Result<()> {
        let (back, kept): (Vec<Candidate>, Vec<Candidate>) =
            std::mem::take(&mut standing.kept).into_iter().partition(|one| one.name == gone.change);
        standing.kept = kept;
        self.progress.line(&format!("  {} is rolled back: {}", gone.change, gone.why));
        for candidate in &back {
            let place = format!("end/put-back-{:02}", found.put_back.len() + 1);
            self.enter_closing(&place, candidate, PUT_BACK, &gone.why, Some(&gone.step))?;
        }
        found.put_back.push(gone);
        Ok(())
    }
}

/// The most harmful change: it makes the others worse, breaks a guard metric that holds without it, or overloads the target with
/// them. `None` if all are needed, or nothing is conclusive.
fn most_harmful(without: &[ProofStep]) -> Option<&ProofStep> {
    let harms = without.iter().filter_map(|step| Some((step.harm()?, step)));
    harms
        .max_by(|(one, _), (other, _)| one.partial_cmp(other).unwrap_or(Ordering::Equal))
        .map(|(_, step)| step)
}

fn harm_in_words(step: &ProofStep) -> String {
    let broken: Vec<String> = step
        .guards
        .iter()
        .filter(|guard| !guard.held)
        .map(|guard| format!("{} ({})", guard.rule, guard.seen))
        .collect();
    match &broken[..] {
        [] => format!("in combination with the others: {}", step.why),
        _ => format!("in combination with the others it breaks {}. {}", broken.join("; "), step.why),
    }
}

/// The change with the smallest gain. A change without which the target can't sustain the load is worth most.
fn least_worth(without: &[ProofStep]) -> Option<&ProofStep> {
    let cost = |step: &ProofStep| step.cost_ratio().unwrap_or_default();
    without.iter().max_by(|one, other| cost(one).total_cmp(&cost(other)))
}

fn ratio_of(comparison: &Comparison) -> Option<f64> {
    Some(comparison.primary()?.estimate.ratio)
}

/// The product of the changes' ratios in combination.
fn product(without: &[ProofStep]) -> Option<f64> {
    let ratios = without.iter().map(|step| step.comparison.as_ref().and_then(ratio_of));
    (!without.is_empty()).then(|| ratios.product())?
}

#[cfg(test)]
mod tests {
    use hone_record::Guard;

    use hone_record::Verdict;

    use super::*;

    /// A re-test in which a change had this ratio, with the verdict that follows from it.
    fn step(change: &str, ratio: f64) -> ProofStep {
        let mut step = hone_experiment::fixture::proof().steps.remove(0);
        step.change = change.to_owned();
        let comparison = step.comparison.as_mut().unwrap();
        comparison.judgements.retain(|judgement| judgement.primary);
        let judgement = &mut comparison.judgements[0];
        judgement.verdict = if ratio < 0.95 {
            Verdict::Better
        } else if ratio > 1.05 {
            Verdict::Worse
        } else {
            Verdict::NotShown
        };
        (judgement.estimate.ratio, judgement.estimate.low, judgement.estimate.high) =
            (ratio, ratio - 0.01, ratio + 0.01);
        step.decision = if ratio < 0.95 { Decision::Accepted } else { Decision::Rejected };
        step.guards = Vec::new();
        step
    }

    fn broken(step: ProofStep) -> ProofStep {
        let guard = Guard { rule: "p99<1ms".to_owned(), seen: "met in 0 of 8".to_owned(), held: false };
        ProofStep { guards: vec![guard], decision: Decision::Rejected, ..step }
    }

    fn unmeasured(change: &str, decision: Decision) -> ProofStep {
        ProofStep { comparison: None, decision, ..step(change, 1.0) }
    }

    fn worst(steps: &[ProofStep]) -> Option<&str> {
        most_harmful(steps).map(|step| step.change.as_str())
    }

    #[test]
    fn what_harms_the_others_goes_one_at_a_time_and_the_worst_first() {
        assert_eq!(worst(&[step("a", 0.8), step("b", 1.0)]), None, "inconclusive is no harm");
        assert_eq!(worst(&[step("a", 1.2), step("b", 1.4), step("c", 0.5)]), Some("b"));
        assert_eq!(
            worst(&[step("a", 1.2), broken(step("b", 0.5))]),
            Some("b"),
            "better, and a guard metric broke"
        );
        assert_eq!(worst(&[broken(step("a", 1.2)), unmeasured("b", Decision::Rejected)]), Some("b"));
        assert_eq!(worst(&[unmeasured("a", Decision::Accepted), step("b", 1.0)]), None, "needed");
        assert!(harm_in_words(&broken(step("b", 0.5))).contains("p99<1ms (met in 0 of 8)"));
    }

    /// The same re-tests, by a metric of which more is better.
    #[test]
    fn of_capacities_the_one_that_takes_most_away_is_the_worst() {
        let of_capacity = |step: ProofStep| {
            let mut step = step;
            let judgement = &mut step.comparison.as_mut().unwrap().judgements[0];
            judgement.estimate.metric = hone_record::Metric::Capacity;
            judgement.estimate.ratio = 1.0 / judgement.estimate.ratio;
            step
        };
        let steps = [step("a", 1.2), step("b", 1.4), step("c", 0.5)].map(of_capacity);
        assert!(steps[1].comparison.as_ref().unwrap().judgements[0].estimate.ratio < 1.0);
        assert_eq!(worst(&steps), Some("b"));
        let steps = [step("b", 0.7), step("c", 0.9), step("d", 0.6)].map(of_capacity);
        assert_eq!(least_worth(&steps).unwrap().change, "c");
    }

    #[test]
    fn the_one_worth_least_goes_before_the_one_without_which_nothing_stands() {
        let steps = [unmeasured("a", Decision::Accepted), step("b", 0.7), step("c", 0.9)];
        assert_eq!(least_worth(&steps).unwrap().change, "c");
        assert!(least_worth(&[]).is_none());
    }

    /// When gains overlap, the product exceeds the gain of all together: each change hides a part of the others' gain.
    #[test]
    fn the_product_is_of_ratios_among_the_others() {
        assert_eq!(product(&[step("a", 0.5), step("b", 0.5)]), Some(0.25));
        assert_eq!(product(&[step("a", 0.5), unmeasured("b", Decision::Accepted)]), None);
        assert_eq!(product(&[]), None);
    }

    #[test]
    fn the_ledger_knows_all_together_by_its_name() {
        assert_eq!(hone_record::ALL_TOGETHER, format!("all: {ALL}"));
    }
}
