//! Whether a better code layout can help: the rule that applied, its source, and the upper bound of the gain. The code is pure.
//!
//! The sources disagree: Intel's threshold is 15 % of slots, an older perf's 20 %, and Arm's guide for BOLT uses 10 % with 30 misses in
//! 1,000 instructions. So a verdict always names its rule.

use hone_record::{
    Category, CodeLayout, CounterMisses, Expectation, LayoutVerdict, Likelihood, Remedy, Slots,
};

use crate::cache::{ITLB_64, L1I_32K, L1I_64K, MODELS};
use crate::topdown::counted::{ITLB, L1I};

/// Intel's thresholds of `tma_frontend_bound` and `tma_fetch_latency` (spr-metrics.json).
const FRONTEND_LIKELY: f64 = 15.0;
const LATENCY: f64 = 10.0;
/// Arm's guide for BOLT recommends it above this value.
const FRONTEND_POSSIBLE: f64 = 10.0;
/// Hone's threshold: well above Intel's, and half of a broker's loss before its profile.
const FRONTEND_STRONG: f64 = 25.0;
/// Share of the CPU. Above it the kernel is the first thing to improve, since no build changes it.
const KERNEL_FIRST: f64 = 0.6;

const INTEL: &str = "Intel's thresholds (spr-metrics.json: frontend bound > 15 %, fetch latency > 10 %)";
const INTEL_LEVEL_1: &str = "Intel's threshold (spr-metrics.json: frontend bound > 15 %)";
const ARM: &str = "Arm's guide for BOLT (frontend bound > 10 %)";
const OURS: &str = "Hone's, above Intel's threshold of 15 %; not calibrated";

/// Verdict by measured slots. `user_share` is the share of the CPU that is user code of this program, 0 to 1.
pub fn of_slots(slots: &Slots, user_share: Option<f64>) -> LayoutVerdict {
    let share = |category| slots.share(category).unwrap_or(0.0);
    let frontend = share(Category::FrontendBound);
    let latency = slots.share(Category::FetchLatency);
    let (likelihood, source) = match frontend {
        low if low < FRONTEND_POSSIBLE => (Likelihood::No, ARM),
        low if low < FRONTEND_LIKELY => (Likelihood::Possible, ARM),
        _ if latency.is_some_and(|latency| latency < LATENCY) => (Likelihood::Possible, INTEL),
        high if high >= FRONTEND_STRONG && largest_loss(slots) == Category::FrontendBound => {
            (Likelihood::Strong, OURS)
        }
        _ if latency.is_none() => (Likelihood::Likely, INTEL_LEVEL_1),
        _ => (Likelihood::Likely, INTEL),
    };
    let of_latency = match latency {
        Some(latency) => format!(", fetch latency {latency:.1} %"),
        None if frontend >= FRONTEND_LIKELY => {
            ", fetch latency not known (level 2 separates it from bandwidth)".to_owned()
        }
        None => String::new(),
    };
    LayoutVerdict {
        likelihood,
        rule: format!(
            "frontend bound {frontend:.1} %{of_latency}; the largest loss is {}",
            largest_loss(slots)
        ),
        source: source.to_owned(),
        ceiling_percent: user_share.map(|user| frontend * user),
        next: next(slots, likelihood, user_share),
    }
}

/// Misses of the first level per 1,000 instructions, from Arm's guide for BOLT.
const MISSES_STRONG: f64 = 30.0;
/// The threshold in BOLT's documentation.
const MISSES_LIKELY: f64 = 10.0;
/// A larger first level must miss this often, too; below it there is no problem. Hone's own threshold.
const MISSES_SOME: f64 = 3.0;
/// Misses of a TLB with 64 pages. Hone's own threshold.
const PAGES_SOME: f64 = 1.0;

const ARM_MISSES: &str =
    "Arm's guide for BOLT (more than 30 misses of the L1i in 1,000 instructions); simulated";
const BOLT_MISSES: &str =
    "BOLT's documentation (more than 10 misses of the L1i in 1,000 instructions); simulated";
const OURS_SIMULATED: &str = "Hone's; not calibrated";

/// Verdict by simulated misses. They show the pressure on instruction fetch, and no share of the CPU. The model has no prefetcher, no
/// decoded cache and no kernel, which hide some misses and add others. `None` without a simulation.
pub fn of_layout(layout: &CodeLayout, user_share: Option<f64>) -> Option<LayoutVerdict> {
    let missed = |model: usize| layout.missed(MODELS[model].name);
    let (small, large, pages) = (missed(L1I_32K)?, missed(L1I_64K)?, missed(ITLB_64)?);
    let is_cliff = small >= MISSES_SOME && large < MISSES_SOME;
    let (likelihood, source) = if small >= MISSES_STRONG {
        (Likelihood::Strong, ARM_MISSES)
    } else if small >= MISSES_LIKELY && large >= MISSES_SOME {
        (Likelihood::Likely, BOLT_MISSES)
    } else if small >= MISSES_SOME || pages >= PAGES_SOME {
        (Likelihood::Possible, OURS_SIMULATED)
    } else {
        (Likelihood::No, OURS_SIMULATED)
    };
    let cliff = if is_cliff { " (a cliff: it nearly fits)" } else { "" };
    let rule = format!(
        "pressure on instruction fetch: {small:.1} misses of a 32 KiB L1i in 1,000 instructions, \
         {large:.1} of 64 KiB{cliff}; {pages:.1} of an iTLB of 64 pages"
    );
    Some(without_slots(likelihood, rule, source, user_share))
}

/// A verdict by misses. Only slots could show other causes than the layout.
fn without_slots(
    likelihood: Likelihood,
    rule: String,
    source: &str,
    user_share: Option<f64>,
) -> LayoutVerdict {
    let next = match likelihood {
        _ if user_share.is_some_and(|user| 1.0 - user > KERNEL_FIRST) => Remedy::Kernel,
        Likelihood::No => Remedy::NotLayout,
        _ => Remedy::Layout,
    };
    let ceiling_percent = user_share.map(|user| 100.0 * user);
    LayoutVerdict { likelihood, rule, source: source.to_owned(), ceiling_percent, next }
}

/// Verdict by counters of misses, without slots. Events differ between cores, so the thresholds are rougher than for slots. `None` if
/// misses of lines were not counted.
pub fn of_counted(counted: &CounterMisses, user_share: Option<f64>) -> Option<LayoutVerdict> {
    let missed = |structure: &str| counted.misses.iter().find(|missed| missed.structure == structure);
    let lines = missed(L1I)?.per_1000;
    let pages = missed(ITLB).map(|missed| missed.per_1000);
    let (likelihood, source) = match lines {
        many if many >= MISSES_STRONG => (
            Likelihood::Strong,
            "Arm's guide for BOLT (more than 30 misses of the L1i in 1,000 instructions)",
        ),
        some if some >= MISSES_LIKELY => {
            (Likelihood::Likely, "BOLT's documentation (more than 10 misses of the L1i)")
        }
        few if few >= MISSES_SOME || pages.is_some_and(|pages| pages >= PAGES_SOME) => {
            (Likelihood::Possible, OURS_SIMULATED)
        }
        _ => (Likelihood::No, OURS_SIMULATED),
    };
    let of_pages = pages.map(|pages| format!(", {pages:.1} of the iTLB")).unwrap_or_default();
    let rule = format!(
        "{lines:.1} misses of the L1i per 1,000 instructions{of_pages}, by counters; without slots, their \
         cost is unknown"
    );
    Some(without_slots(likelihood, rule, source, user_share))
}

/// Smaller changes of misses and branches per 1,000 instructions do not count.
const LINES_COUNT: f64 = 1.0;
/// See [`LINES_COUNT`].
const PAGES_COUNT: f64 = 0.5;
/// Smallest share of taken branches that matters: fewer taken branches mean longer runs for fetch and decoding.
const TAKEN_COUNT: f64 = 0.1;

/// Expected effect of a layout change, with its rule. The thresholds are Hone's, and not calibrated.
pub fn of_change(before: &CodeLayout, now: &CodeLayout) -> (Expectation, String) {
    let missed = |layout: &CodeLayout, model: usize| layout.missed(MODELS[model].name).unwrap_or(0.0);
    let lines = (missed(before, L1I_32K), missed(now, L1I_32K));
    let pages = (missed(before, ITLB_64), missed(now, ITLB_64));
    let taken = (before.taken_per_1000.unwrap_or(0.0), now.taken_per_1000.unwrap_or(0.0));
    let changes = [
        step(lines, LINES_COUNT),
        step(pages, PAGES_COUNT),
        step(taken, (TAKEN_COUNT * taken.0).max(LINES_COUNT)),
    ];
    let (fall, rise) = (changes.contains(&-1), changes.contains(&1));
    let expected = match (fall, rise) {
        (true, false) => Expectation::Gain,
        (false, true) => Expectation::Harm,
        (false, false) => Expectation::Nothing,
        (true, true) => Expectation::Open,
    };
    let rule = format!(
        "in 1,000 instructions {:.1} -> {:.1} misses of a 32 KiB L1i, {:.1} -> {:.1} of an iTLB of 64 pages, {:.0} -> {:.0} branches \
         taken (Hone's rule, not calibrated: a difference of {LINES_COUNT:.0}, {PAGES_COUNT} and {:.0} % counts)",
        lines.0,
        lines.1,
        pages.0,
        pages.1,
        taken.0,
        taken.1,
        100.0 * TAKEN_COUNT
    );
    (expected, rule)
}

/// -1 for a decrease, 1 for an increase, 0 for no relevant difference.
fn step((before, now): (f64, f64), counts: f64) -> i8 {
    match now - before {
        less if less <= -counts => -1,
        more if more >= counts => 1,
        _ => 0,
    }
}

/// The largest of the three categories of losses.
fn largest_loss(slots: &Slots) -> Category {
    let losses = [Category::FrontendBound, Category::BadSpeculation, Category::BackendBound];
    let share = |category: &Category| slots.share(*category).unwrap_or(0.0);
    losses
        .into_iter()
        .max_by(|left, right| share(left).total_cmp(&share(right)))
        .unwrap_or(Category::FrontendBound)
}

fn next(slots: &Slots, likelihood: Likelihood, user_share: Option<f64>) -> Remedy {
    if user_share.is_some_and(|user| 1.0 - user > KERNEL_FIRST) {
        return Remedy::Kernel;
    }
    if likelihood >= Likelihood::Likely {
        return Remedy::Layout;
    }
    let share = |category| slots.share(category).unwrap_or(0.0);
    // Retiring is not a loss, but it is the only place to save if no other category is large.
    if share(Category::Retiring) > 70.0 {
        return Remedy::Core;
    }
    match largest_loss(slots) {
        // No category has a large loss.
        Category::FrontendBound if likelihood == Likelihood::No => Remedy::Core,
        Category::BadSpeculation => Remedy::Branches,
        Category::BackendBound if share(Category::CoreBound) > share(Category::MemoryBound) => Remedy::Core,
        Category::BackendBound => Remedy::Data,
        _ => Remedy::Layout,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn slots(shares: &[(Category, f64)]) -> Slots {
        Slots {
            scope: None,
            pmu: None,
            percent: shares.iter().copied().collect::<BTreeMap<_, _>>(),
            running_percent: None,
            intervals: 1,
            notes: Vec::new(),
        }
    }

    fn level_1(frontend: f64, bad: f64, backend: f64, retiring: f64) -> Slots {
        slots(&[
            (Category::FrontendBound, frontend),
            (Category::BadSpeculation, bad),
            (Category::BackendBound, backend),
            (Category::Retiring, retiring),
        ])
    }

    #[test]
    fn a_broker_before_its_profile_and_after() {
        // The published table of a broker's hot thread.
        let before = of_slots(&level_1(51.0, 10.3, 7.8, 30.9), Some(0.8));
        assert_eq!((before.likelihood, before.next), (Likelihood::Strong, Remedy::Layout));
        assert!((before.ceiling_percent.unwrap() - 40.8).abs() < 1e-9);
        let after = of_slots(&level_1(37.9, 9.5, 16.0, 36.6), None);
        assert_eq!((after.likelihood, after.ceiling_percent), (Likelihood::Strong, None));
    }

    #[test]
    fn bandwidth_is_no_miss_and_a_kernel_is_no_layout() {
        let mut wide = level_1(30.0, 10.0, 20.0, 40.0);
        wide.percent.insert(Category::FetchLatency, 6.0);
        assert_eq!(of_slots(&wide, None).likelihood, Likelihood::Possible);
        wide.percent.insert(Category::FetchLatency, 14.0);
        let verdict = of_slots(&wide, Some(0.36));
        assert_eq!((verdict.likelihood, verdict.next), (Likelihood::Strong, Remedy::Kernel));
        assert!((verdict.ceiling_percent.unwrap() - 10.8).abs() < 1e-9);
    }

    fn simulated(small: f64, large: f64, pages: f64) -> CodeLayout {
        let missed = |model: usize, per_1000| hone_record::Missed {
            structure: MODELS[model].name.to_owned(),
            per_1000,
        };
        CodeLayout {
            instructions: 1_000_000,
            footprints: Vec::new(),
            bytes_used_of_a_line: 40.0,
            taken_per_1000: None,
            ext_tsp: None,
            lines_fetched_per_1000: None,
            misses: vec![missed(L1I_32K, small), missed(L1I_64K, large), missed(ITLB_64, pages)],
            crowded_sets: 0,
            repeated_share: 0.0,
            objects: Vec::new(),
        }
    }

    #[test]
    fn simulated_misses_are_pressure_and_not_a_share() {
        let of = |small, large, pages, user| {
            let verdict = of_layout(&simulated(small, large, pages), user).unwrap();
            (verdict.likelihood, verdict.next)
        };
        // xz, memcached, redis, cc1, a loop of perl's, and 1,500 functions in turn, as they were simulated.
        assert_eq!(of(0.002, 0.002, 0.0, None), (Likelihood::No, Remedy::NotLayout));
        assert_eq!(of(1.0, 0.05, 0.19, None), (Likelihood::No, Remedy::NotLayout));
        assert_eq!(of(4.0, 0.06, 1.02, Some(0.36)), (Likelihood::Possible, Remedy::Kernel));
        assert_eq!(of(10.8, 3.7, 1.73, Some(0.99)), (Likelihood::Likely, Remedy::Layout));
        assert_eq!(of(12.5, 0.03, 1.99, None), (Likelihood::Possible, Remedy::Layout));
        assert_eq!(of(44.5, 33.8, 9.1, None), (Likelihood::Strong, Remedy::Layout));
        let verdict = of_layout(&simulated(12.5, 0.03, 1.99), Some(0.5)).unwrap();
        assert!(verdict.rule.contains("a cliff") && verdict.ceiling_percent == Some(50.0), "{verdict:?}");
        assert!(!verdict.rule.contains('%'), "misses are no share of the slots: {verdict:?}");
        let nothing = CodeLayout { misses: Vec::new(), ..simulated(1.0, 1.0, 1.0) };
        assert_eq!(of_layout(&nothing, None), None);
    }

    #[test]
    fn counters_of_misses_go_by_the_guides_for_bolt() {
        let of = |lines: f64, pages: Option<f64>| {
            let missed =
                |structure: &str, per_1000| hone_record::Missed { structure: structure.to_owned(), per_1000 };
            let pages = pages.map(|pages| missed(ITLB, pages));
            let misses = std::iter::once(missed(L1I, lines)).chain(pages).collect();
            of_counted(&CounterMisses { instructions: 1_000_000, misses, notes: Vec::new() }, Some(0.8))
                .unwrap()
        };
        // Before and after BOLT, as Arm's guide has them.
        assert_eq!(of(60.408, None).likelihood, Likelihood::Strong);
        assert_eq!(of(0.019, None).likelihood, Likelihood::No);
        assert_eq!(of(15.0, Some(0.1)).likelihood, Likelihood::Likely);
        assert_eq!(of(1.0, Some(1.5)).likelihood, Likelihood::Possible);
        assert_eq!(of(15.0, None).ceiling_percent, Some(80.0));
        let nothing = CounterMisses { instructions: 9, misses: Vec::new(), notes: Vec::new() };
        assert_eq!(of_counted(&nothing, None), None);
    }

    #[test]
    fn a_change_is_expected_to_do_what_its_figures_say_together() {
        let of = |lines: (f64, f64), pages: (f64, f64), taken: (f64, f64)| {
            let layout = |lines, pages, taken| CodeLayout {
                taken_per_1000: Some(taken),
                ..simulated(lines, 0.0, pages)
            };
            of_change(&layout(lines.0, pages.0, taken.0), &layout(lines.1, pages.1, taken.1)).0
        };
        let same = (3.0, 3.0);
        assert_eq!(of((10.8, 6.1), (1.5, 0.2), (128.0, 121.0)), Expectation::Gain);
        assert_eq!(of(same, same, (128.0, 63.0)), Expectation::Gain, "longer stretches alone");
        assert_eq!(of((9.5, 7.4), (1.5, 3.3), (128.0, 63.0)), Expectation::Open, "chains tear pages apart");
        assert_eq!(of((9.5, 60.6), (1.5, 101.0), (128.0, 230.0)), Expectation::Harm);
        assert_eq!(of((0.9, 0.1), (0.4, 0.0), (100.0, 92.0)), Expectation::Nothing);
    }

    #[test]
    fn elsewhere_is_the_data_the_branches_or_the_core() {
        let of = |slots: &Slots| {
            let verdict = of_slots(slots, Some(0.9));
            (verdict.likelihood, verdict.next)
        };
        assert_eq!(of(&level_1(8.0, 5.0, 60.0, 27.0)), (Likelihood::No, Remedy::Data));
        assert_eq!(of(&level_1(12.0, 40.0, 20.0, 28.0)), (Likelihood::Possible, Remedy::Branches));
        assert_eq!(of(&level_1(5.0, 5.0, 10.0, 80.0)), (Likelihood::No, Remedy::Core));
        // The frontend is the largest of small losses.
        assert_eq!(of(&level_1(9.0, 4.0, 8.0, 49.0)), (Likelihood::No, Remedy::Core));
        // More is lost elsewhere: likely, and not more.
        assert_eq!(of(&level_1(26.0, 4.0, 50.0, 20.0)), (Likelihood::Likely, Remedy::Layout));
    }
}
