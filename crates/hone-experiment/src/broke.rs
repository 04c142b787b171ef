//! How B broke down under a load that A stood. Pairs with a window that failed do not count, so that no interval says anything of it.

use hone_record::{Comparison, Engine, Metric, PairKind};

use crate::bench::DID_NOT_START;

/// How B ended or stopped answering under its load in a pair that A went through. Once is enough: no test of signs is needed to tell
/// that a program may crash. One that did not start, or whose load failed while it ran on, is left to the verdict.
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
    /// What happened to B, in words.
    pub trouble: &'a str,
}

/// The first of several builds of B that failed whenever it stood against A: the verdict is of the others, and says nothing of a
/// layout that is broken.
pub fn never_counted(comparison: &Comparison) -> Option<NeverCounted<'_>> {
    let builds = comparison.design.builds[1];
    (0..builds).filter(|_| builds > 1).find_map(|build| {
        let is_of_it = |pair: &&hone_record::PairOutcome| pair.kind == PairKind::Test && pair.block == build;
        let mut tests = comparison.pairs.iter().filter(is_of_it).peekable();
        tests.peek()?;
        let mut trouble = None;
        for pair in tests {
            pair.dropped.as_ref()?;
            // Dropped for neighbours, or since its process was younger: it stood.
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
