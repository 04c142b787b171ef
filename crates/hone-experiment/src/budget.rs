//! A time budget: an A/A pilot first, then a plan for the rest, with a clock as the limit.

use std::time::Instant;

use anyhow::{Result, bail};
use hone_compare::{FEWEST_PAIRS, Layout, LookPlan, Outlook, Plan, Widths, promises};
use hone_record::{Budget, Design, Metric, PairOutcome, Pilot};

use crate::drive::{Clock, Contest, measure_pairs};
use crate::folder::RunFolder;
use crate::progress::Progress;

/// The pilot ends after about this time, if it has enough pairs.
const PILOT_S: f64 = 60.0;
/// It ends after this share of the budget, if it has enough pairs ...
const PILOT_SHARE: f64 = 0.20;
/// ... and starts no pair that would end after this one.
const PILOT_SHARE_MOST: f64 = 1.0 / 3.0;
/// More pairs add almost no information about the scatter.
const MOST_PILOT_PAIRS: u32 = 40;
/// One A/A pair per this number of slots. The controls cover the whole run, not only its start. An effect must exceed the
/// controls' scatter, so a small control limits the result of any number of A/B pairs.
const SLOTS_PER_CONTROL: u32 = 3;
/// Margin, because pairs may take longer than in the pilot.
const RESERVE: f64 = 0.97;

/// The user's settings for the budget.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Seconds of the complete run.
    pub total_s: f64,
    /// As a ratio above 1.
    pub effect: Option<f64>,
}

/// Takes the design and its prediction from the folder or from a pilot. Both are on the disk before the first A/B window. Returns whether
/// the pilot is new.
///
/// # Errors
/// As for [`measure_pairs`], and when the budget is too small or the pilot does not have the primary metric.
pub fn planned(
    contest: &mut Contest<'_>,
    plan: &Plan,
    wanted: &Wanted,
    clock: Clock,
    progress: &Progress,
) -> Result<bool> {
    let (folder, prefix) = (contest.folder, contest.prefix.clone());
    let note = |name: &str| format!("{prefix}{name}.json");
    contest.clock = Some(clock);
    if let (Some(design), Some(pilot)) =
        (folder.read_note(&note("design"))?, folder.read_note(&note("pilot"))?)
    {
        (contest.design, contest.pilot) = (design, Some(pilot));
        return Ok(false);
    }
    contest.design = pilot_design(plan)?;
    folder.write_note(&note("pilot-design"), &contest.design)?;
    progress.line("running the pilot: A/A pairs that predict what the rest of the budget can detect");
    let measured = measure_pilot(contest, plan, wanted, progress)?;
    let (design, pilot) = lay_out(plan, &measured, clock.left_s(), wanted)?;
    folder.write_note(&note("pilot"), &pilot)?;
    folder.write_note(&note("design"), &design)?;
    (contest.design, contest.pilot) = (design, Some(pilot));
    Ok(true)
}

/// The clock of this attempt. The time of earlier ones is on the disk. `prefix` is that of the run's files.
///
/// # Errors
/// When the note of a pair can't be read.
pub fn clock(total_s: f64, folder: &RunFolder, prefix: &str) -> Result<Clock> {
    let earlier_s = pairs_s(folder, prefix)?;
    Ok(Clock { total_s, earlier_s, started: Instant::now(), for_the_reserve: false })
}

/// Seconds that the measured pairs took. Pairs of the reserve may be missing between others.
///
/// # Errors
/// When the note of a pair can't be read.
pub fn pairs_s(folder: &RunFolder, prefix: &str) -> Result<f64> {
    let mut took_s = 0.0;
    let pairs = format!("{prefix}pairs");
    for entry in std::fs::read_dir(folder.join(&pairs)).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.ends_with(".json")) else { continue };
        let pair: Option<PairOutcome> = folder.read_note(&format!("{pairs}/{name}"))?;
        took_s += pair.map_or(0.0, |pair| pair.took_s);
    }
    Ok(took_s)
}

/// The design of the pilot: the largest number of A/A pairs that it may have.
///
/// # Errors
/// When the plan is invalid.
pub fn pilot_design(plan: &Plan) -> Result<Design> {
    let most = MOST_PILOT_PAIRS;
    Ok(hone_compare::pilot(&Plan { pilot_pairs: most, control_pairs: most, ..plan.clone() })?)
}

/// The fewest A/B pairs: each build needs one.
fn fewest_tests(plan: &Plan) -> u32 {
    FEWEST_PAIRS.max(plan.builds[0]).max(plan.builds[1])
}

/// Rejects a budget that is too small for the fewest A/A and A/B pairs with the shortest windows, before anything is started.
///
/// # Errors
/// With the smallest budget that may be enough.
pub fn check(wanted: &Wanted, least_windows_s: f64, plan: &Plan) -> Result<()> {
    let least_s = least_windows_s * f64::from(FEWEST_PAIRS + fewest_tests(plan));
    if least_s > wanted.total_s {
        bail!(crate::ending::Usage(too_small(wanted.total_s, least_s, "the windows of", plan)));
    }
    Ok(())
}

fn too_small(total_s: f64, least_s: f64, what: &str, plan: &Plan) -> String {
    let shorter = match plan.primary {
        Metric::Capacity => {
            "start the climb closer to the capacity (--start-rate), use larger steps (--rate-step) or a \
             percentile closer to the median (--slo)"
        }
        _ => "shorten the windows (--duration)",
    };
    format!(
        "--budget {total_s:.0}s is too small: {what} {FEWEST_PAIRS} A/A and {} A/B pairs take about {:.0} \
         s\n  next: raise it, {shorter} or shorten the warm-up (--warmup)",
        fewest_tests(plan),
        least_s.ceil()
    )
}

/// Measures the pilot of a comparison whose design is [`pilot_design`].
///
/// # Errors
/// As for [`measure_pairs`], and when the budget is too small for the fewest pairs after it.
pub fn measure_pilot(
    contest: &Contest<'_>,
    plan: &Plan,
    wanted: &Wanted,
    progress: &Progress,
) -> Result<Vec<PairOutcome>> {
    let fewest = FEWEST_PAIRS as usize;
    let all = fewest + fewest_tests(plan) as usize;
    let pairs = measure_pairs(contest, progress, |longest_s, left_s, counted| {
        let spent_s = wanted.total_s - left_s;
        if counted < fewest {
            return left_s >= longest_s * (all - counted) as f64;
        }
        spent_s < PILOT_S.min(wanted.total_s * PILOT_SHARE)
            && spent_s + longest_s <= wanted.total_s * PILOT_SHARE_MOST
    })?;
    let pairs = pairs.pairs;
    let counted = pairs.iter().filter(|pair| pair.dropped.is_none()).count();
    if counted < fewest && pairs.len() == contest.design.order.len() {
        bail!(none_counts(&pairs, counted));
    }
    if counted < fewest {
        let pair_s = pairs.iter().map(|pair| pair.took_s).sum::<f64>() / pairs.len().max(1) as f64;
        let lost = pairs.len() - counted;
        let least_s = pair_s * all as f64 * 1.1 + pair_s * lost as f64;
        bail!(too_small(wanted.total_s, least_s, "with starts and warm-ups,", plan));
    }
    Ok(pairs)
}

/// The error of a pilot with too few valid pairs. A larger budget would not help.
fn none_counts(pairs: &[PairOutcome], counted: usize) -> String {
    let reason = pairs.iter().rev().find_map(|pair| pair.dropped.as_deref()).unwrap_or("unknown");
    format!(
        "of {} pairs of the pilot {counted} are valid, but {FEWEST_PAIRS} are needed; more time would not \
         help\n  the last reason: {reason}\n  next: use a quieter machine, --mode duet (both arms meet the \
         same neighbours), or --keep-disturbed (counts all pairs)",
        pairs.len()
    )
}

/// Plans the rest of the budget, with a prediction from the pilot.
///
/// # Errors
/// When too little is left, or the pilot does not have the primary metric.
pub fn lay_out(plan: &Plan, pilot: &[PairOutcome], left_s: f64, wanted: &Wanted) -> Result<(Design, Pilot)> {
    let took_s: f64 = pilot.iter().map(|pair| pair.took_s).sum();
    let pair_s = took_s / pilot.len().max(1) as f64;
    let slots = (left_s * RESERVE / pair_s).floor().clamp(0.0, 9_000.0) as u32;
    if slots < fewest_tests(plan) {
        let least_s = wanted.total_s - left_s + pair_s * f64::from(fewest_tests(plan)) * 1.1;
        bail!(too_small(wanted.total_s, least_s, "with starts and warm-ups,", plan));
    }
    // A run without a verdict may be continued.
    let looks = if plan.builds == [1, 1] { LookPlan::Continued } else { LookPlan::AtEnd };
    let plan = &Plan { looks, ..plan.clone() };
    let layout = fitting(plan, pilot, slots, wanted);
    let pilot_pairs = pilot.len() as u32;
    let plan = Plan {
        pairs: layout.pairs,
        control_pairs: pilot_pairs + layout.more_control_pairs,
        pilot_pairs,
        ..plan.clone()
    };
    let mut design = hone_compare::plan(&plan)?;
    design.budget = Some(Budget {
        total_s: wanted.total_s,
        pilot_pairs,
        pair_s,
        words: format!(
            "The run stops before {:.0} s are over, including starts and warm-ups. The {pilot_pairs} A/A \
             pairs of the pilot count as control pairs. The pilot fixed the number of pairs; only the clock \
             and the looks may reduce it.",
            wanted.total_s
        ),
    });
    let promised = promises(&design, pilot, layout, wanted.effect);
    if let Some(reason) = promised.not_planned.get(&plan.primary) {
        bail!(
            "the pilot gives no value for {}: {reason}\n  next: use another --primary",
            plan.primary.label()
        );
    }
    let told = Pilot {
        pairs: pilot.iter().filter(|pair| pair.dropped.is_none()).count() as u32,
        took_s,
        planned_pairs: layout.pairs,
        planned_control_pairs: pilot_pairs + layout.more_control_pairs,
        rest_s: pair_s * f64::from(layout.pairs + layout.more_control_pairs),
        effect_ratio: wanted.effect,
        power: 0.8,
        metrics: promised.metrics,
        not_planned: promised.not_planned,
        no_promise: promised.none,
    };
    Ok((design, told))
}

/// All slots, or as many as the effect needs, if that is less. A pilot can't predict the need of several builds.
fn fitting(plan: &Plan, pilot: &[PairOutcome], slots: u32, wanted: &Wanted) -> Layout {
    let blocks = plan.builds[0].max(plan.builds[1]);
    let of = |slots: u32| {
        let more_control_pairs = slots.saturating_sub(fewest_tests(plan)).min(slots / SLOTS_PER_CONTROL);
        Layout { pairs: slots - more_control_pairs, more_control_pairs, blocks }
    };
    let design = hone_compare::plan(plan);
    let (Some(effect), Ok(design)) = (wanted.effect.filter(|_| blocks == 1), design) else {
        return of(slots);
    };
    let Some(outlook) = Outlook::of_plan(&design, plan.primary, pilot) else { return of(slots) };
    let mut widths = Widths::default();
    let candidates: Vec<u32> = (FEWEST_PAIRS..=slots).collect();
    let too_few = candidates.partition_point(|slots| outlook.power(of(*slots), effect, &mut widths) < 0.8);
    of(candidates.get(too_few).copied().unwrap_or(slots))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{Mode, PairKind};

    fn plan() -> Plan {
        Plan::new(Mode::Duet, Metric::CpuPerRecord, [14, 6])
    }

    fn pilot(spread: f64) -> Vec<PairOutcome> {
        let pair = |index: u32| PairOutcome {
            index,
            kind: PairKind::Control,
            values_a: [(Metric::CpuPerRecord, 10.0)].into(),
            values_b: [(Metric::CpuPerRecord, 10.0 * (spread * [1.0, -1.0][index as usize % 2]).exp())]
                .into(),
            took_s: 4.0,
            ..PairOutcome::default()
        };
        (0..6).map(pair).collect()
    }

    #[test]
    fn the_rest_of_the_budget_is_filled_and_never_overfilled() {
        for total_s in [60.0, 100.0, 300.0] {
            let wanted = Wanted { total_s, effect: None };
            let (design, told) = lay_out(&plan(), &pilot(0.1), total_s - 24.0, &wanted).unwrap();
            assert!(
                told.rest_s <= total_s - 24.0 && told.rest_s > (total_s - 24.0) * RESERVE - 4.0,
                "{told:?}"
            );
            assert_eq!(design.planned() as u32, design.pairs + design.control_pairs);
            assert_eq!(design.budget.as_ref().unwrap().pilot_pairs, 6);
            assert!(design.control_pairs >= 6 && design.pairs >= 5);
        }
    }

    #[test]
    fn a_budget_may_be_continued_and_several_builds_may_not() {
        let of = |builds| {
            let wanted = Wanted { total_s: 324.0, effect: None };
            lay_out(&Plan { builds, ..plan() }, &pilot(0.1), 300.0, &wanted).unwrap().0
        };
        let one = of([1, 1]);
        assert_eq!(one.looks.last().map(|look| look.pairs), Some(4 * one.pairs));
        assert!(one.continuation.is_some() && one.looks.iter().any(|look| look.pairs < one.pairs));
        let several = of([3, 3]);
        assert!(several.continuation.is_none() && several.looks.is_empty());
    }

    #[test]
    fn an_effect_that_needs_less_gets_less_and_one_that_needs_more_is_told() {
        let of = |effect| {
            lay_out(&plan(), &pilot(0.05), 400.0, &Wanted { total_s: 424.0, effect: Some(effect) }).unwrap()
        };
        let (easy, told) = of(1.30);
        assert!(easy.pairs < 15, "{}", easy.pairs);
        assert!(told.metrics[0].power_for_effect.unwrap() >= 0.8);
        let (hard, told) = of(1.005);
        assert!(hard.pairs > 60, "{}", hard.pairs);
        assert!(told.metrics[0].power_for_effect.unwrap() < 0.3);
        assert!(told.metrics[0].detectable_ratio.unwrap() > 1.005);
    }

    /// The pilot's pairs share a build, but the confidence interval is based on builds.
    #[test]
    fn nothing_is_promised_of_several_builds_and_all_of_the_budget_is_used() {
        let wanted = Wanted { total_s: 424.0, effect: Some(1.30) };
        let of = |builds| lay_out(&Plan { builds, ..plan() }, &pilot(0.05), 400.0, &wanted).unwrap();
        let ((one, told_of_one), (several, told)) = (of([1, 1]), of([3, 3]));
        assert!(told_of_one.no_promise.is_none() && !told_of_one.metrics.is_empty());
        assert!(told.metrics.is_empty(), "{told:?}");
        assert!(told.no_promise.unwrap().contains("3 blocks of builds"));
        assert!(several.pairs > 3 * one.pairs, "{} and {}", several.pairs, one.pairs);
        let error =
            lay_out(&Plan { builds: [3, 3], ..plan() }, &pilot(0.05)[..4], 400.0, &wanted).unwrap_err();
        assert!(error.to_string().contains("the pilot gives no value for"), "{error}");
    }

    #[test]
    fn budgets_that_hold_too_little_are_refused_with_what_would_do() {
        let wanted = Wanted { total_s: 30.0, effect: None };
        let message = lay_out(&plan(), &pilot(0.1), 10.0, &wanted).unwrap_err().to_string();
        assert!(message.contains("--budget 30s is too small") && message.contains("42 s"), "{message}");
        let told = check(&wanted, 10.0, &plan()).unwrap_err().to_string();
        assert!(told.contains("--duration"), "{told}");
        assert!(check(&wanted, 2.0, &plan()).is_ok());
        let told =
            check(&wanted, 10.0, &Plan { primary: Metric::Capacity, ..plan() }).unwrap_err().to_string();
        assert!(
            told.contains("--start-rate") && !told.contains("--duration"),
            "a climb has no length: {told}"
        );
        // Each build needs a pair, so 20 builds per arm take 25 windows of 2 s.
        let many = Plan { builds: [20, 20], ..plan() };
        let told = check(&wanted, 2.0, &many).unwrap_err().to_string();
        assert!(told.contains("5 A/A and 20 A/B pairs take about 50 s"), "{told}");
        let roomy = Wanted { total_s: 424.0, effect: None };
        assert!(lay_out(&many, &pilot(0.05), 400.0, &roomy).unwrap().0.pairs >= 20);
        assert!(pilot_design(&many).is_ok());
    }
}
