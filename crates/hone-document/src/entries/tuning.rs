//! The ledger entries of a tuning run: each step, the re-test of each kept change, all changes together, and the accepted changes
//! that the run no longer keeps.

use hone_record::{
    ALL_TOGETHER, Decision, HARMS_OTHERS, LedgerEntry, Metric, NOT_SHOWN_AGAIN, ProofStep, PutBack,
    STILL_HELPS, Tuning, TuningStep,
};

use super::proof::entry_of;
use hone_experiment::ledger;

/// Decision for a kept change when another one replaces it.
pub const REPLACED: &str = "replaced";
/// Decision for a change that helped and was rolled back at the end.
pub const PUT_BACK: &str = "put back";

/// Common parts of all entries of a run.
pub struct About<'a> {
    /// The run's name.
    pub name: &'a str,
    /// The workload's name.
    pub workload: &'a str,
    /// The metric that decides.
    pub objective: Metric,
    /// The rule that was fixed before the first window.
    pub rule: &'a str,
    /// The run's folder.
    pub run: &'a str,
}

/// A tested change, as the step with this number. Its expected gain was on disk before its first window.
pub fn of_step(about: &About<'_>, number: usize, step: &TuningStep) -> LedgerEntry {
    LedgerEntry {
        change: format!("{}: {}", step.altitude.label(), step.step.change),
        question: format!(
            "Does {} help, compared with the state kept until step {number}?",
            step.step.change
        ),
        foretold: (!step.hope.is_unsaid).then(|| step.hope.beside(about.objective, &step.step)),
        ..entry(about, &step.step)
    }
}

/// All kept changes compared with all but this one, which is named with its layer. Another entry decides about the change: a
/// closing, or its step.
pub fn of_among(about: &About<'_>, change: &str, step: &ProofStep) -> LedgerEntry {
    let decision = match step.decision {
        Decision::Accepted => STILL_HELPS,
        Decision::Rejected if step.harm().is_some() => HARMS_OTHERS,
        Decision::Rejected => NOT_SHOWN_AGAIN,
    };
    LedgerEntry {
        change: change.to_owned(),
        question: format!("Does {} still help among the others?", step.change),
        decision: decision.to_owned(),
        ..entry(about, step)
    }
}

/// The same for everything that a finished run still keeps.
pub fn among<'a>(about: &About<'_>, found: &'a Tuning) -> Vec<(LedgerEntry, &'a ProofStep)> {
    let without: &[ProofStep] = found.together.as_ref().map_or(&[], |together| &together.without);
    let altitude = |change: &str| {
        let step = found.steps.iter().rev().find(|step| step.step.change == change)?;
        Some(step.altitude.label())
    };
    let entry = |step: &'a ProofStep| {
        let change = format!("{}: {}", altitude(&step.change)?, step.change);
        Some((of_among(about, &change, step), step))
    };
    without.iter().filter_map(entry).collect()
}

/// All kept changes compared with the first state.
pub fn of_all(about: &About<'_>, step: &ProofStep) -> LedgerEntry {
    LedgerEntry {
        change: ALL_TOGETHER.to_owned(),
        question: "Does all that was kept help, compared with the first state?".to_owned(),
        ..entry(about, step)
    }
}

/// An accepted change, named with its layer, that the run no longer keeps. `step` is its measurement, if there is one.
pub fn closing(
    about: &About<'_>,
    change: &str,
    decision: &str,
    why: &str,
    step: Option<&ProofStep>,
) -> LedgerEntry {
    let nothing = || LedgerEntry {
        rule: about.rule.to_owned(),
        run: about.run.to_owned(),
        experiment: experiment(about),
        workload: about.workload.to_owned(),
        ..ledger::entry("tune")
    };
    LedgerEntry {
        change: change.to_owned(),
        question: "Does it still help, compared with what was kept since?".to_owned(),
        decision: decision.to_owned(),
        why: why.to_owned(),
        ..step.map_or_else(nothing, |step| entry(about, step))
    }
}

/// The same for all changes that a finished run accepted but does not keep, with their measurements.
pub fn closings<'a>(about: &About<'_>, found: &'a Tuning) -> Vec<(LedgerEntry, Option<&'a ProofStep>)> {
    let back: &[PutBack] = found.together.as_ref().map_or(&[], |together| &together.put_back);
    let accepted = found.steps.iter().filter(|step| step.step.decision == Decision::Accepted);
    let gone = accepted.filter(|step| !found.kept.contains(&step.step.change));
    let closed = gone.map(|step| {
        let change = format!("{}: {}", step.altitude.label(), step.step.change);
        match back.iter().find(|back| back.change == step.step.change) {
            Some(back) => (closing(about, &change, PUT_BACK, &back.why, Some(&back.step)), Some(&back.step)),
            None => (closing(about, &change, REPLACED, "another change takes its place", None), None),
        }
    });
    closed.collect()
}

fn experiment(about: &About<'_>) -> String {
    format!("tune {}", about.name)
}

fn entry(about: &About<'_>, step: &ProofStep) -> LedgerEntry {
    LedgerEntry {
        experiment: experiment(about),
        workload: about.workload.to_owned(),
        metric: Some(about.objective),
        // The run restores all settings at its end.
        undo: None,
        ..entry_of("tune", step, about.rule, about.run)
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{Altitude, Fate, Hope, Story};

    use super::*;

    /// The ledger must name the same kept changes as the run.
    #[test]
    fn a_change_that_is_put_back_is_not_kept_in_the_story() {
        let about = About {
            name: "orders",
            workload: "w",
            objective: Metric::CpuPerRecord,
            rule: "r",
            run: "/runs/orders-001",
        };
        let mut step = hone_experiment::fixture::proof().steps.remove(0);
        (step.change, step.decision) = ("linger=20ms".to_owned(), hone_record::Decision::Accepted);
        step.foretold = None;
        // Of the two questions about a change, the second decides nothing.
        let again =
            ProofStep { decision: Decision::Rejected, guards: Vec::new(), comparison: None, ..step.clone() };
        let again = ProofStep { comparison: not_shown(&step), ..again };
        let tuned = |change: &str| TuningStep {
            altitude: Altitude::Client,
            hope: Hope::new(0.2, "one record a request"),
            passed_over: Vec::new(),
            step: ProofStep { change: change.to_owned(), ..step.clone() },
        };
        let entries = [
            of_step(&about, 1, &tuned("linger=5ms")),
            of_step(&about, 2, &tuned("linger=20ms")),
            closing(&about, "client: linger=5ms", REPLACED, "linger=20ms takes its place", None),
            of_step(&about, 3, &tuned("codec=lz4")),
            closing(&about, "client: codec=lz4", PUT_BACK, "worse among the others", Some(&step)),
            of_among(&about, "client: linger=20ms", &again),
            of_all(&about, &step),
        ];
        let chapter = |entry: &LedgerEntry| hone_record::Chapter {
            entry: entry.clone(),
            ..hone_record::Chapter::default()
        };
        let story = Story { chapters: entries.iter().map(chapter).collect(), ..Story::default() };
        assert_eq!(story.changes_of(Fate::Kept), ["linger=20ms"]);
        assert_eq!(story.changes_of(Fate::TakenBack), ["linger=5ms", "codec=lz4"]);
        assert!(entries.iter().all(|entry| entry.undo.is_none() && entry.run == about.run));
        assert_eq!(entries[2].metric, None, "nothing was measured for it");
        assert_eq!(entries[5].decision, "not shown again");
        assert!(entries[5].question.contains("still help among the others"), "{}", entries[5].question);
        let foretold = entries[0].foretold.as_ref().unwrap();
        assert!(foretold.rule.contains("expected to save 20 %"), "{foretold:?}");
        assert!(entries[4..].iter().all(|entry| entry.foretold.is_none()), "only a step has a prediction");
    }

    fn not_shown(step: &ProofStep) -> Option<hone_record::Comparison> {
        let mut comparison = step.comparison.clone()?;
        comparison.judgements.iter_mut().for_each(|judged| judged.verdict = hone_record::Verdict::NotShown);
        Some(comparison)
    }
}
