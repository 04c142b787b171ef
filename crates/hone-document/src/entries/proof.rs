//! The ledger entry of one step of `hone batch prove`, `hone batch caching` or `hone tune`.

use hone_experiment::ledger;
use hone_record::{Decision, Expectation, Foretold, LedgerEntry, ProofStep, Verdict};

/// The decision if Hone only shows the effect of a change.
const TRIED: &str = "tried";

/// The entry of a step by the command that tried it.
pub fn entry_of(verb: &str, step: &ProofStep, rule: &str, run: &str) -> LedgerEntry {
    let entry = match &step.comparison {
        Some(comparison) => ledger::entry(verb).judged_by(comparison),
        None => LedgerEntry { verdict: Some(Verdict::NotShown), ..ledger::entry(verb) },
    };
    // A report of this verb shows a possible effect, without a decision.
    let is_card = verb == "batch caching";
    let is_kept = step.decision == Decision::Accepted && !is_card;
    LedgerEntry {
        change: altitude(step),
        question: format!("Does {} help, compared with the state kept until then?", step.change),
        rule: rule.to_owned(),
        decision: if is_card { TRIED.to_owned() } else { step.decision.label().to_owned() },
        why: [Some(&step.why), step.promise.as_ref()]
            .into_iter()
            .flatten()
            .cloned()
            .collect::<Vec<_>>()
            .join(" "),
        foretold: foretold(step),
        undo: is_kept.then(|| step.words.iter().map(|word| taken_back(word)).collect::<Vec<_>>().join("; ")),
        run: run.to_owned(),
        ..entry
    }
}

/// `client.linger.ms: existing value -> 20`, the other way round.
fn taken_back(word: &str) -> String {
    let parts = word.split_once(": ").and_then(|(name, values)| Some((name, values.split_once(" -> ")?)));
    parts.map_or_else(|| format!("not: {word}"), |(name, (from, to))| format!("{name}: {to} -> {from}"))
}

/// The prediction for a step and its result, in the words of the ledger.
fn foretold(step: &ProofStep) -> Option<Foretold> {
    let foretold = step.foretold.as_ref()?;
    let beside = hone_report::prediction::outcomes(foretold, &step.before, &step.after);
    Some(Foretold {
        expected: Expectation::Gain,
        rule: format!("{}: {}", foretold.source, beside.join("; ")),
        // The predicted figures are figures of batches, not the metric that decides.
        came_true: foretold.came_true(&step.before, &step.after),
    })
}

/// A step's change with its layer: settings of a topic belong to the broker.
fn altitude(step: &ProofStep) -> String {
    let is_of = |kind: &str| step.words.iter().any(|word| word.starts_with(kind));
    let altitude = match (is_of("topic."), is_of("client.") || is_of("load.")) {
        (true, false) => "broker",
        (true, true) => "broker and client",
        (false, _) => "client",
    };
    format!("{altitude}: {}", step.change)
}

#[cfg(test)]
mod tests {
    use hone_record::BatchState;

    use super::*;

    #[test]
    fn the_ledger_names_the_owner_of_a_setting() {
        let of = |words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let mut step = hone_experiment::fixture::proof().steps.remove(0);
            (step.words, step.change) = (words, "x".to_owned());
            altitude(&step)
        };
        assert_eq!(of(&["topic.write.caching: existing value -> true"]), "broker: x");
        assert_eq!(
            of(&["client.linger.ms: existing value -> 5", "load.acks: existing value -> 1"]),
            "client: x"
        );
        assert_eq!(
            of(&["client.linger.ms: 1 -> 5", "topic.flush.ms: existing value -> 1"]),
            "broker and client: x"
        );
    }

    /// A verdict on the metric that decides says nothing about the predicted figures.
    #[test]
    fn what_was_foretold_is_judged_by_its_own_figures() {
        let mut step = hone_experiment::fixture::proof().steps.remove(0);
        let of = |batches| BatchState {
            seconds: 1.0,
            acked_records: 1_000,
            batches,
            batch_records: 1_000,
            ..BatchState::default()
        };
        let figure = hone_record::Foreseen { value: 100.0, low: 90.0, high: 120.0 };
        step.foretold = Some(hone_record::BatchForetold {
            batches_per_s: Some(figure),
            ..hone_record::BatchForetold::default()
        });
        for (after, came_true) in [(120, true), (800, false)] {
            (step.before, step.after) = (of(1_000), of(after));
            assert_eq!(foretold(&step).unwrap().came_true, Some(came_true), "{after}");
        }
    }
}
