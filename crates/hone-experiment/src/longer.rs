//! Explains why a comparison takes longer than planned.

use hone_compare::More;
use hone_record::Design;

/// Explains why a run takes longer than planned.
pub(crate) fn more_words(design: &Design, more: More) -> String {
    let percent = |ratio: f64| format!("{:.0} %", (ratio - 1.0) * 100.0);
    let found = more.planned_ratio.map_or("no difference".to_owned(), percent);
    let [tests, controls] = more.pairs;
    format!(
        "  The A/A pairs predict that {} A/B pairs detect a difference of {found} or more, but not one of \
         {}. Hone measures {tests} more A/B and {controls} more A/A pairs",
        design.pairs,
        percent(more.wanted_ratio)
    )
}

/// As [`more_words`], for A/A pairs that differ.
pub(crate) fn again_words(controls: u32) -> String {
    format!("  The A/A pairs differ significantly. Hone measures {controls} more of them")
}
