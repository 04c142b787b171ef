//! The tested variants and their decisions, for the ledger: one entry for each edge of the tree and each judging
//! workload.

use anyhow::Result;
use hone_document::entries::optimization::{of_edge, of_left_out};
use hone_record::{Optimization, VariantState};

use crate::job::Job;
use hone_experiment::ledger;

impl Job<'_> {
    /// Writes each entry once, however often a run is resumed.
    pub(super) fn enter_in_ledger(&self, found: &Optimization) -> Result<()> {
        for comparison in &found.comparisons {
            let note = format!("steps/ledger-{}-{}.json", comparison.b, comparison.workload.name);
            let entry = |run: &str| of_edge(found, comparison, run);
            ledger::enter_once(self.folder, &note, Some(comparison), entry, self.progress)?;
        }
        for variant in &found.variants {
            if let VariantState::LeftOut { why } = &variant.state {
                let note = format!("steps/ledger-{}-left-out.json", variant.name);
                let entry = |run: &str| of_left_out(found, variant, why, run);
                ledger::enter_once(self.folder, &note, None, entry, self.progress)?;
            }
        }
        Ok(())
    }
}
