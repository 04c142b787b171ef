//! What was tried and decided, for the ledger: one line for each edge of the tree and each judging workload.

use anyhow::Result;
use hone_ledger::Ledger;
use hone_record::{Comparison, LedgerEntry, Optimization, VariantFacts, VariantState, Verdict};

use super::Job;
use crate::moment::now_unix_ms;
use crate::show;

impl Job<'_> {
    /// Once, however often a run is resumed.
    pub(super) fn enter_in_ledger(&self, found: &Optimization) -> Result<()> {
        let ledger = Ledger::open(self.home.join("ledger.jsonl"))?;
        let run = self.folder.path().display().to_string();
        let enter = |note: String, entry: LedgerEntry| -> Result<()> {
            let note = format!("steps/ledger-{note}.json");
            if self.folder.read_note::<bool>(&note)?.is_none() {
                ledger.append(&entry)?;
                self.folder.write_note(&note, &true)?;
            }
            Ok(())
        };
        for comparison in &found.comparisons {
            let name = format!("{}-{}", comparison.b, comparison.workload.name);
            enter(name, of_edge(found, comparison, &run))?;
        }
        for variant in &found.variants {
            if let VariantState::LeftOut { why } = &variant.state {
                enter(format!("{}-left-out", variant.name), of_left_out(found, variant, why, &run))?;
            }
        }
        Ok(())
    }
}

/// `binary: pgo`, or with the variant that it was held against when that is not the baseline.
fn change(a: &str, b: &str) -> String {
    if a == super::BASELINE { format!("binary: {b}") } else { format!("binary: {b} on {a}") }
}

fn of_edge(found: &Optimization, comparison: &Comparison, run: &str) -> LedgerEntry {
    let primary = comparison.primary().map(|judgement| &judgement.estimate);
    let variant = found.variants.iter().find(|variant| variant.name == comparison.b);
    let artifact = found.artifacts.iter().find(|artifact| artifact.variant == comparison.b);
    LedgerEntry {
        at_unix_ms: now_unix_ms(),
        experiment: found.name.clone(),
        change: change(&comparison.a, &comparison.b),
        workload: comparison.workload.name.clone(),
        metric: comparison.design.rule.primary,
        ratio: primary.map(|estimate| [estimate.ratio, estimate.low, estimate.high]),
        verdict: comparison.verdict(),
        decision: variant.map_or_else(String::new, |variant| variant.decision.clone()),
        why: show::comparison::sentence(comparison),
        foretold: variant
            .and_then(|variant| Some(variant.foretelling.as_ref()?.beside(comparison.verdict()))),
        profile_sha256: artifact.and_then(|artifact| Some(artifact.profile.as_ref()?.sha256.clone())),
        run: run.to_owned(),
    }
}

/// What could not be had was tried, too.
fn of_left_out(found: &Optimization, variant: &VariantFacts, why: &str, run: &str) -> LedgerEntry {
    let first = found.comparisons.first();
    LedgerEntry {
        at_unix_ms: now_unix_ms(),
        experiment: found.name.clone(),
        change: change(variant.parent.as_deref().unwrap_or(super::BASELINE), &variant.name),
        workload: first.map_or_else(String::new, |comparison| comparison.workload.name.clone()),
        metric: first.map_or(hone_record::Metric::CpuPerRecord, |comparison| comparison.design.rule.primary),
        ratio: None,
        verdict: Verdict::NotShown,
        decision: variant.decision.clone(),
        why: why.lines().next().unwrap_or(why).to_owned(),
        foretold: None,
        profile_sha256: None,
        run: run.to_owned(),
    }
}
