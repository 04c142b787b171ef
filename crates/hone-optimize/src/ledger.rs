//! What was tried and decided, for the ledger: one entry for each edge of the tree and each judging workload.

use anyhow::Result;
use hone_document::entries::optimization::{of_edge, of_left_out};
use hone_record::{LedgerEntry, Optimization, VariantState};

use crate::job::Job;
use hone_experiment::ledger;

impl Job<'_> {
    /// Once, however often a run is resumed.
    pub(super) fn enter_in_ledger(&self, found: &Optimization) -> Result<()> {
        let path = self.home.join(ledger::NAME);
        let run = self.folder.path().display().to_string();
        let enter = |note: String, entry: &dyn Fn() -> Result<LedgerEntry>| {
            let note = format!("steps/ledger-{note}.json");
            ledger::enter_once(self.folder, &note, &path, entry, self.progress)
        };
        for comparison in &found.comparisons {
            let name = format!("{}-{}", comparison.b, comparison.workload.name);
            enter(name, &|| {
                let records = ledger::records(self.folder, comparison)?;
                Ok(LedgerEntry { records, ..of_edge(found, comparison, &run) })
            })?;
        }
        for variant in &found.variants {
            if let VariantState::LeftOut { why } = &variant.state {
                enter(format!("{}-left-out", variant.name), &|| Ok(of_left_out(found, variant, why, &run)))?;
            }
        }
        Ok(())
    }
}
