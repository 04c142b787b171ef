//! Failures of B under a load that A sustained. Pairs with a failed window are excluded, so the confidence interval does not show
//! them.

use hone_record::{Comparison, Engine, Metric, PairKind};

use crate::bench::DID_NOT_START;

/// How B exited or stopped answering under its load in a pair that A completed. Once is enough: no sign test is needed to show
/// that a program can crash. A B that did not start, or whose load failed while it kept running, is left to the verdict.
pub fn down_alone(comparison: &Comparison) -> Option<&str> {
    let ends_by_itself = matches!(comparison.workload.engine, Engine::Exits { .. });
    let tests = comparison.pairs.iter().filter(|pair| pair.kind == PairKind::Test);
    let mut alone = tests.filter(|pair| pair.troubles[0].is_empty()).filter_map(|pair| {
        let is_unfinished = pair.window_b.is_empty()
            || (ends_by_itself && !pair.values_b.contains_key(&Metric::CpuPerRecord));
        pair.troubles[1].first().filter(|_| is_unfinished)
    });
    alone.find(|trouble| !trouble.contains(DID_NOT_START)).map(String::as_str)
}

/// One of several builds, and its trouble.
pub struct NeverCounted<'a> {
    /// Its number, from 0.
    pub build: u32,
    /// The failure of B, in words.
    pub trouble: &'a str,
}

/// The first of several builds of B that failed in every pair with a completed A. The verdict is about the other builds, and a
/// broken layout is not part of it.
pub fn never_counted(comparison: &Comparison) -> Option<NeverCounted<'_>> {
    let builds = comparison.design.builds[1];
    (0..builds).filter(|_| builds > 1).find_map(|build| {
        let is_of_it = |pair: &&hone_record::PairOutcome| pair.kind == PairKind::Test && pair.block == build;
        let mut tests = comparison.pairs.iter().filter(is_of_it).peekable();
        tests.peek()?;
        let mut trouble = None;
        for pair in tests {
            pair.dropped.as_ref()?;
            // Excluded because of neighbours, or because its process was younger: it did not fail.
            let stood = pair.troubles[1].is_empty() && !pair.window_b.is_empty();
            if stood {
                return None;
            }
            let of_b = pair.troubles[1].first().filter(|_| pair.troubles[0].is_empty());
            trouble = trouble.or(of_b);
        }
        Some(NeverCounted { build, trouble: trouble? })
    })
}
