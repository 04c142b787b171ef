//! The ledger entry of a replay that predicts the effect of a layout.

use std::path::Path;

use hone_experiment::ledger;
use hone_record::{Foretelling, LedgerEntry};

/// The prediction for a layout before it runs. A later measurement can be compared with it.
pub fn entry_of(found: &Foretelling, run: &Path, candidate: &Path) -> LedgerEntry {
    let name = candidate.file_name().unwrap_or(candidate.as_os_str()).to_string_lossy();
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
    LedgerEntry {
        experiment: found.source.clone(),
        change: format!("binary: {name}"),
        question: format!("What will the layout of {} do?", whole(candidate)),
        rule: found.rule.clone(),
        decision: "foretold".to_owned(),
        why: format!(
            "{} is expected, based on {} replayed instructions",
            found.expected,
            hone_format::count(found.replayed)
        ),
        foretold: Some(found.ahead()),
        run: whole(run),
        ..ledger::entry("diagnose")
    }
}
