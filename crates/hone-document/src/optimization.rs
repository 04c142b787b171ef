//! The result lines of optimisation steps.

use hone_binary::linkmap::Coverage;
use hone_record::Rewriting;

/// The result of BOLT, in a line.
pub fn rewriting(done: &Rewriting) -> String {
    let mut parts = vec![format!("BOLT {}", done.rung)];
    if !done.profile.is_empty() {
        parts.push(format!("by {}", done.profile));
    }
    if let Some([with, all]) = done.profiled_functions {
        parts.push(format!("profile for {with} of {all} functions"));
    }
    if let Some(moved) = done.layout_modified {
        parts.push(format!("layout of {moved} changed"));
    }
    parts.extend(done.shortfalls());
    if !done.culprits.is_empty() {
        parts.push(format!(
            "left unchanged, because the layout breaks them: {} (found with {} builds)",
            hone_record::demangled_all(&done.culprits),
            done.search_builds
        ));
    } else if !done.skipped.is_empty() {
        parts.push(format!("{} functions left unchanged", done.skipped.len()));
    }
    if !done.given_up.is_empty() {
        parts.push(format!("rejected: {}", done.given_up.join("; ")));
    }
    if let Some(bundle) = &done.bundle {
        parts.push(format!("for a bug report: {bundle}"));
    }
    parts.join(", ")
}

/// The share of a program's text that its flags affected.
pub fn coverage(coverage: &Coverage) -> String {
    let mut told = format!("the flags affected {:.1} % of the text", coverage.share() * 100.0);
    if let Some(largest) = coverage.others.first() {
        told.push_str(&format!(", most of the rest is {} ({})", largest.object, largest.reason));
    }
    told
}
