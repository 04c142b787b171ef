//! The ledger entry of `hone compare`.

use std::path::Path;

use hone_experiment::ledger;
use hone_record::{Change, Comparison, LedgerEntry};

/// The result of a comparison, without the hashes of its windows.
pub fn entry_of(comparison: &Comparison, run: &Path) -> LedgerEntry {
    let Comparison { a, b, change, .. } = comparison;
    let question = match change {
        Some(change) => format!("Does {} help?", change.label()),
        None => format!("Is {b} better than {a}?"),
    };
    LedgerEntry {
        experiment: format!("compare {}", run.file_name().unwrap_or_default().to_string_lossy()),
        change: change.as_ref().map_or_else(|| format!("{b} instead of {a}"), altitude),
        question,
        decision: "compared".to_owned(),
        why: hone_report::verdict::sentence(comparison),
        run: run.display().to_string(),
        ..ledger::entry("compare").judged_by(comparison)
    }
}

/// A change with its layer: the owner of the setting.
fn altitude(change: &Change) -> String {
    let altitude = match change.kind.as_str() {
        "client" | "load" => "client",
        "host" => "host",
        _ => "broker",
    };
    format!("{altitude}: {}", change.label())
}
