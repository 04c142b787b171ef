//! The text of `hone host try --dry-run`.

use std::fmt::Write as _;

use hone_document::wrapped;
use hone_format::{acks, count};
use hone_record::UntriedKnob;

use super::trial::HostTrialSettings;

/// Knobs that are not tried, one per line.
pub(super) fn untried(knobs: &[UntriedKnob]) -> String {
    knobs.iter().map(|knob| format!("  {}\n", wrapped(&hone_report::untried_setting(knob)))).collect()
}

/// The writes of a run, and its duration.
pub fn dry(asked: &HostTrialSettings) -> String {
    let mut out = format!("Hone would try {}, on {}:\n", asked.profile, asked.target);
    for candidate in &asked.candidates {
        for write in &candidate.writes {
            let _ = writeln!(
                out,
                "  /{}: {} -> {}, for one window at a time",
                write.path, write.was, write.value
            );
        }
        if let Some(promise) = candidate.promise() {
            let _ = writeln!(out, "      it {promise}");
        }
    }
    if asked.candidates.is_empty() {
        out.push_str("  nothing\n");
    }
    if !asked.untried.is_empty() {
        let _ = write!(out, "Not tried:\n{}", untried(&asked.untried));
    }
    if !asked.acks.is_empty() {
        let classes: Vec<String> = asked.acks.iter().map(|given| acks(*given)).collect();
        let _ = writeln!(out, "All of these together, under acks={}", classes.join(", acks="));
    }
    let (windows, seconds) = asked.cost();
    let _ = write!(
        out,
        "{windows} windows, about {} minutes. A rollback watchdog restores the values of a window {} s after \
         they are written, even if this run dies.\n\n\
         {}\n",
        count((seconds / 60.0).ceil() as u64),
        asked.guard_s,
        wrapped(&asked.rule())
    );
    asked.limits.iter().for_each(|limit| {
        let _ = write!(out, "\n{}\n", wrapped(limit));
    });
    out.push_str("\nHone wrote nothing.\n");
    out
}
