//! The ledger entry of a replay that predicts the effect of producer settings.

use hone_experiment::ledger;
use hone_record::{Expectation, Foretold, LedgerEntry, WhatIf};

/// A smaller relative change of the number of batches is no difference.
const LEAST: f64 = 0.02;

/// The prediction for a change. A later measurement can be compared with it. `None` when only the current settings were replayed.
pub fn entry_of(found: &WhatIf) -> Option<LedgerEntry> {
    let predicted = found.predicted.as_ref().filter(|_| !found.change.is_empty())?;
    let today = found.replayed.as_ref().unwrap_or(&found.today);
    let batches = predicted.batches_per_s;
    let change = batches.value / today.batches_per_s - 1.0;
    let expected = match change {
        fewer if fewer < -LEAST => Expectation::Gain,
        more if more > LEAST => Expectation::Harm,
        same if same.is_finite() => Expectation::Nothing,
        _ => Expectation::Open,
    };
    let rule = format!(
        "batches/s {} -> {} ({} to {}), bytes per batch {} -> {}, requests/s -> {}; a gain is fewer batches, \
         by more than {} %",
        hone_format::measured(today.batches_per_s),
        hone_format::measured(batches.value),
        hone_format::measured(batches.low),
        hone_format::measured(batches.high),
        hone_format::measured(today.batch_bytes_mean),
        hone_format::measured(predicted.batch_bytes_mean.value),
        hone_format::measured(predicted.requests_per_s.value),
        LEAST * 100.0
    );
    Some(LedgerEntry {
        experiment: format!("batch whatif {}", found.topic),
        change: format!("client: {}", found.change),
        question: format!("How would {} change the batches of {}?", found.change, found.topic),
        rule: "Hone replays the records of a window through the rules of the client that wrote them, after \
             the replay of the current settings matches the topic"
            .to_owned(),
        decision: "foretold".to_owned(),
        why: format!(
            "{} records over {} s, {} batches recompressed",
            hone_format::count(found.records),
            hone_format::measured(found.window_s),
            hone_format::count(found.batches_packed)
        ),
        foretold: Some(Foretold { expected, rule, came_true: None }),
        ..ledger::entry("batch whatif")
    })
}
