//! The ledger entries of `hone optimize`, one for each edge of the tree and each judging workload.

use hone_experiment::ledger;
use hone_experiment::variants::BASELINE;
use hone_record::{Comparison, LedgerEntry, Optimization, VariantFacts, Verdict};

/// `binary: pgo`, or with the variant that it was compared with, if that is not the baseline.
fn change(a: &str, b: &str) -> String {
    if a == BASELINE { format!("binary: {b}") } else { format!("binary: {b} on {a}") }
}

/// The result of an optimisation for one edge of its tree, without the hashes of its windows.
pub fn of_edge(found: &Optimization, comparison: &Comparison, run: &str) -> LedgerEntry {
    let variant = found.variants.iter().find(|variant| variant.name == comparison.b);
    let artifact = |name: &str| found.artifacts.iter().find(|artifact| artifact.variant == name);
    let decision = variant.map_or_else(String::new, |variant| variant.decision.clone());
    let program = |name: &str| artifact(name).map(|artifact| artifact.path.as_str());
    let way_back = || {
        let (kept, before) = (program(&comparison.b)?, program(&comparison.a)?);
        Some(format!("use {before} instead of {kept}"))
    };
    LedgerEntry {
        experiment: found.name.clone(),
        change: change(&comparison.a, &comparison.b),
        question: format!(
            "Is {} better than {} under {}?",
            comparison.b, comparison.a, comparison.workload.name
        ),
        undo: if decision == "keep" { way_back() } else { None },
        decision,
        why: hone_report::verdict::sentence(comparison),
        foretold: variant
            .and_then(|variant| Some(variant.foretelling.as_ref()?.beside(comparison.verdict()))),
        profile_sha256: artifact(&comparison.b)
            .and_then(|artifact| Some(artifact.profile.as_ref()?.sha256.clone())),
        run: run.to_owned(),
        ..ledger::entry("optimize").judged_by(comparison)
    }
}

/// A variant that could not be built was tried, too.
pub fn of_left_out(found: &Optimization, variant: &VariantFacts, why: &str, run: &str) -> LedgerEntry {
    let first = found.comparisons.first();
    LedgerEntry {
        experiment: found.name.clone(),
        change: change(variant.parent.as_deref().unwrap_or(BASELINE), &variant.name),
        question: format!("Can {} be built, and is it better?", variant.name),
        rule: first.map_or_else(String::new, |comparison| comparison.design.rule.words.clone()),
        workload: first.map_or_else(String::new, |comparison| comparison.workload.name.clone()),
        metric: first.map(|comparison| comparison.design.rule.primary),
        verdict: Some(Verdict::NotShown),
        decision: variant.decision.clone(),
        why: why.lines().next().unwrap_or(why).to_owned(),
        run: run.to_owned(),
        ..ledger::entry("optimize")
    }
}
