//! The ledger entry of one setting that `hone host try` tried.

use hone_experiment::ledger;
use hone_record::{LedgerEntry, TriedKnob};

/// The entry of a knob, without the hashes of its windows.
pub fn entry_of(target: &str, workload: &str, knob: &TriedKnob, run: &str) -> LedgerEntry {
    let settings: Vec<String> = knob
        .settings
        .iter()
        .map(|setting| format!("/{}: {} -> {}", setting.path, setting.was, setting.value))
        .collect();
    let why = [Some(&knob.why), knob.promise.as_ref()].into_iter().flatten().cloned().collect::<Vec<_>>();
    LedgerEntry {
        experiment: format!("host try {target}"),
        change: format!("host: {}", settings.join(", ")),
        question: format!("Does {} help, compared with the host as it is?", settings.join(", ")),
        rule: knob.comparison.design.rule.words.clone(),
        workload: workload.to_owned(),
        decision: knob.decision.label().to_owned(),
        why: format!("acks={}. {}", hone_format::acks(knob.durability.acks), why.join(" ")),
        run: run.to_owned(),
        ..ledger::entry("host try").judged_by(&knob.comparison)
    }
}
