//! The pairs to measure and their order, decided and written down before the first window.

use std::collections::BTreeMap;

use hone_record::{Design, Effect, Look, Metric, Mode, PairKind, Rule, control_arm};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::estimate::{FEWEST_BLOCKS, FEWEST_PAIRS};
use crate::plan::Plan;
use crate::spending;

/// The default guard metrics: the tail latency that pages people, and the memory whose growth kills processes. Failed requests count in
/// addition ([`hone_record::Comparison::more_failures`]).
pub const DEFAULT_GUARDS: [Metric; 2] = [Metric::LatencyP99, Metric::MemoryPeak];

/// A memory difference below this many bytes counts as equal. This is our own choice: allocators and loaders keep reserves of this size for
/// each thread and each mapped file, and no container limit is so precise.
pub const EQUAL_MEMORY_BYTES: f64 = (4 << 20) as f64;

impl Plan {
    /// The guard metrics, and whether they are the default ones. The default ones leave out what the windows can't show.
    fn guards(&self, refused: &BTreeMap<Metric, String>) -> (Vec<Metric>, bool) {
        let is_other = |metric: &Metric| *metric != self.primary;
        if !self.guards.is_empty() || !self.default_guards {
            return (self.guards.iter().copied().filter(is_other).collect(), false);
        }
        let can_be_told = |metric: &Metric| is_other(metric) && !refused.contains_key(metric);
        (DEFAULT_GUARDS.into_iter().filter(can_be_told).collect(), true)
    }

    /// The reserve of pairs of a kind, for this many planned pairs.
    fn reserve_of(&self, planned: u32) -> u32 {
        if planned == 0 { 0 } else { self.reserve.unwrap_or_else(|| default_reserve(planned)) }
    }

    /// The effect that the pairs must be able to detect. Hone needs A/A pairs to find out how many pairs that takes.
    fn wanted(&self) -> Option<Effect> {
        let can_be_told =
            self.reserve != Some(0) && self.builds == [1, 1] && self.control_pairs >= FEWEST_PAIRS;
        let more = [self.pairs, self.control_pairs].map(|planned| planned * MORE_FOR_AN_EFFECT);
        let again = self.control_pairs + more[1];
        self.effect.filter(|_| can_be_told).map(|ratio| Effect { ratio, more, again })
    }
}

/// The default of the difference that the pairs must be able to detect, as a ratio. This is a choice: published work considers differences
/// of this size or larger.
pub const USUAL_EFFECT: f64 = 1.10;
/// At most this many times the planned pairs come on top of them. This is a choice: people still wait three times as long.
const MORE_FOR_AN_EFFECT: u32 = 2;

/// Half as many again. If a machine spoils more than a third of its pairs, more pairs hardly help.
pub fn default_reserve(planned: u32) -> u32 {
    planned.div_ceil(2)
}

/// Why a plan can't be carried out.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignError {
    /// Too few pairs for a confidence interval.
    #[error(
        "{pairs} {kind} pairs are too few for a confidence interval\n  next: use at least \
         {FEWEST_PAIRS}{or_none}"
    )]
    TooFewPairs {
        /// `A/B` or `A/A`.
        kind: &'static str,
        /// The requested number.
        pairs: u32,
        /// A hint if zero is also allowed.
        or_none: &'static str,
    },
    /// A share outside its range.
    #[error("`{name}` must be between 0 and {limit}, but it is {value}")]
    OutOfRange {
        /// Name of the setting.
        name: &'static str,
        /// The requested value.
        value: f64,
        /// Largest sensible value.
        limit: f64,
    },
    /// The windows are too short for a tail percentile that decides the verdict.
    #[error(
        "these windows can't show {what} {}: {reason}\n  next: name another metric{}",
        metric.label(),
        what_helps(*metric)
    )]
    NotTold {
        /// `the primary metric` or `the guard metric`.
        what: &'static str,
        /// The metric.
        metric: Metric,
        /// Its requirement.
        reason: String,
    },
    /// Two concurrent capacity searches on one machine.
    #[error(
        "concurrent arms (duet) can't measure capacity: the arm with the higher rate takes the machine from \
         the other one\n  next: measure them one after the other (solo)"
    )]
    ClimbsTogether,
    /// Numbers of builds that can't form blocks.
    #[error(
        "{a} builds of A and {b} of B can't be compared: with two builds, a confidence interval is 13 \
         standard errors wide\n  next: use equal numbers (at least {FEWEST_BLOCKS}), or one build on a side \
         that is not in question"
    )]
    Builds {
        /// Builds of A.
        a: u32,
        /// Builds of B.
        b: u32,
    },
    /// More builds than pairs to measure them.
    #[error(
        "{builds} builds need at least {builds} A/B pairs, but there are {pairs}\n  next: use more pairs or \
         fewer builds"
    )]
    TooManyBuilds {
        /// Builds of each variant.
        builds: u32,
        /// Pairs, each of which measures one build.
        pairs: u32,
    },
    /// Blocks of rounds so long that the processes hardly ever restart.
    #[error(
        "{rounds} rounds in blocks of {block_rounds} make {starts} starts of the processes, but a confidence \
         interval over starts needs at least {FEWEST_BLOCKS}\n  next: use shorter blocks or more rounds"
    )]
    TooFewStarts {
        /// Rounds.
        rounds: u32,
        /// Rounds in a block.
        block_rounds: u32,
        /// Blocks.
        starts: u32,
    },
    /// More builds than blocks to measure them.
    #[error(
        "{builds} builds need {builds} blocks of rounds, but there are {blocks}\n  next: use more rounds, \
         shorter blocks or fewer builds"
    )]
    TooFewBlocks {
        /// Builds of each variant.
        builds: u32,
        /// Blocks, each of which measures one build.
        blocks: u32,
    },
}

/// Longer windows help only with tail percentiles.
fn what_helps(metric: Metric) -> &'static str {
    if metric.samples_needed().is_some() {
        "; a tail percentile with too few requests needs longer windows (--duration, duration_s in a file) \
         or a higher rate"
    } else {
        ""
    }
}

/// More pairs than anyone would wait for.
const MOST_PAIRS: u32 = 10_000;
/// Resamples of the bootstrap: the 97.5 % point of |t| then rests on 250 resamples.
const RESAMPLES: u32 = 10_000;

/// Lays out the pairs. Control pairs are spread evenly among the test pairs, because a control at the end would see another time of day.
/// Within blocks of two, the arm that goes first is balanced and random.
///
/// # Errors
/// Fails when there are too few pairs, or when a share is out of its range.
pub fn plan(plan: &Plan) -> Result<Design, DesignError> {
    laid_out(plan, false)
}

/// Like [`plan()`]. In a closed loop the target sets the rate, so throughput is a valid metric.
pub(crate) fn laid_out(plan: &Plan, closed_loop: bool) -> Result<Design, DesignError> {
    let mut refused = refused_of(plan, closed_loop);
    check(plan, &refused)?;
    // The report does not mention metrics of a load that does not climb, or of counters that Hone does not read, because the user did not
    // ask for them.
    refused.remove(&Metric::Capacity);
    if refused.get(&Metric::BusyPerRecord).is_some_and(|why| why == NO_METRICS) {
        refused.remove(&Metric::BusyPerRecord);
    }
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let mut order = vec![PairKind::Control; plan.pilot_pairs as usize];
    order.extend(spread(plan.pairs, plan.control_pairs - plan.pilot_pairs));
    let reserves = [plan.pairs, plan.control_pairs].map(|planned| plan.reserve_of(planned));
    let effect = plan.wanted();
    let more = effect.as_ref().map_or([0, 0], |effect| effect.more);
    let behind = [reserves[0] + more[0], reserves[1] + more[1]];
    order.extend(spread(behind[0], behind[1]));
    let again = effect.as_ref().map_or(0, |effect| effect.again);
    order.extend(std::iter::repeat_n(PairKind::Control, again as usize));
    let reserve = behind[0] + behind[1] + again;
    let swapped = balanced(&order, plan.both_controls, &mut random);
    let secondary = Metric::ALL
        .into_iter()
        .filter(|metric| {
            let is_asked = *metric != Metric::Capacity && (plan.busy || *metric != Metric::BusyPerRecord);
            *metric != plan.primary && !refused.contains_key(metric) && is_asked
        })
        .collect();
    let (guards, default_guards) = plan.guards(&refused);
    let mut rule = Rule {
        primary: plan.primary,
        secondary,
        guards,
        default_guards,
        alpha: plan.alpha,
        equivalence: plan.equivalence,
        resamples: RESAMPLES,
        seed: plan.seed,
        words: String::new(),
    };
    let label = if closed_loop { Metric::label_in_operations } else { Metric::label };
    let reference = match plan.control_pairs {
        0 => Reference::A,
        _ if plan.pooled_baseline => Reference::Pooled,
        _ => Reference::MinusControl,
    };
    rule.words = worded(&rule, reference, label);
    let looks = spending::looks(&plan.looks, rule.alpha);
    rule.words.push_str(&look_words(&looks));
    rule.words.push_str(&reserve_words(reserves));
    effect.iter().for_each(|effect| rule.words.push_str(&effect_words(effect)));
    Ok(Design {
        mode: plan.mode,
        places: plan.places,
        pairs: plan.pairs,
        control_pairs: plan.control_pairs,
        blocks: blocks(&order, plan.builds, plan.both_controls, &mut random),
        order,
        swapped,
        rule,
        builds: plan.builds,
        refused,
        disturbance: plan.disturbance.clone(),
        budget: None,
        both_controls: plan.both_controls && plan.control_pairs > 0,
        starts: 0,
        reserve,
        effect,
        pooled_baseline: plan.pooled_baseline,
        looks,
    })
}

/// The looks at the running comparison, in words.
fn look_words(looks: &[Look]) -> String {
    let Some((last, early @ [_, ..])) = looks.split_last() else { return String::new() };
    let pairs: Vec<String> = early.iter().map(|look| look.pairs.to_string()).collect();
    format!(
        " Hone looks at the result after {} A/B pairs, and ends the run there if everything is decided; the last look is after {}. The looks \
         share the error (Lan and DeMets, bounds like O'Brien and Fleming's), so the confidence level of each look is higher.",
        pairs.join(", "),
        last.pairs
    )
}

/// The treatment of excluded pairs, in words.
fn reserve_words([tests, controls]: [u32; 2]) -> String {
    if tests + controls == 0 {
        return String::new();
    }
    let controls = if controls == 0 { String::new() } else { format!(" and {controls} A/A") };
    format!(
        " Excluded pairs are measured again after the planned ones, at most {tests} A/B{controls} pairs: only the number of pairs that \
         count decides, never what they show."
    )
}

/// The treatment of A/A pairs that scatter, in words.
fn effect_words(Effect { ratio, more: [tests, controls], .. }: &Effect) -> String {
    format!(
        " If the A/A pairs predict that the planned pairs miss a difference of {:.0} % (power 80 %), Hone measures as many more as it needs, at \
         most {tests} A/B and {controls} A/A pairs. If the A/A pairs themselves then differ from 1, Hone measures as many again, once, and all of \
         them count. A/B pairs do not influence this.",
        (ratio - 1.0) * 100.0
    )
}

/// The A/A pairs before a plan exists: the same first pairs, in the same order, as [`plan`] gives for a design with the same number of
/// pilot pairs.
///
/// # Errors
/// As for [`plan`].
pub fn pilot(plan: &Plan) -> Result<Design, DesignError> {
    let pairs = FEWEST_PAIRS.max(plan.builds[0]).max(plan.builds[1]);
    let of_pilot = Plan { pairs, control_pairs: plan.pilot_pairs, effect: None, ..plan.clone() };
    let mut design = self::plan(&of_pilot)?;
    let pairs = plan.pilot_pairs as usize;
    design.pairs = 0;
    design.reserve = 0;
    design.order.truncate(pairs);
    design.swapped.truncate(pairs);
    design.blocks.truncate(pairs);
    Ok(design)
}

/// At a fixed rate, throughput is the same for every target that keeps up.
const FIXED_RATE: &str = "every valid window has the requested rate; find the highest rate of a target with \
                          hone load --find-capacity";

/// The reason under a load at a given rate.
const NO_CLIMB: &str = "it needs a load that climbs until the SLO fails: hone compare --capacity --slo \
                        p99=10ms, or in [tune] objective = \"capacity\" and slo = \"p99=10ms\"";

/// The reason without counters.
const NO_METRICS: &str = "it needs the target's own counters: name their page with --metrics URL, or in the file metrics = [\"URL\"]";

/// Whether the loads climb: such loads show the capacity, and nothing else.
fn climbs(plan: &Plan) -> bool {
    Metric::ALL.iter().all(|metric| *metric == Metric::Capacity || plan.refused.contains_key(metric))
}

/// Metrics that no window of this plan can show.
fn refused_of(plan: &Plan, closed_loop: bool) -> BTreeMap<Metric, String> {
    let mut refused = refused(plan.requests_per_window);
    if closed_loop {
        refused.remove(&Metric::Throughput);
    }
    refused.extend(plan.refused.clone());
    if !climbs(plan) {
        refused.insert(Metric::Capacity, NO_CLIMB.to_owned());
    }
    if !plan.busy && !climbs(plan) {
        refused.insert(Metric::BusyPerRecord, NO_METRICS.to_owned());
    }
    refused
}

/// The metrics that say nothing about arms whose processes live on between their windows, with the reason.
pub fn refused_of_what_lives_on() -> BTreeMap<Metric, String> {
    let why = "Hone compares memory only where it starts a fresh process for each window; a process that keeps running keeps memory that \
               it took earlier";
    Metric::ALL
        .into_iter()
        .filter(|metric| metric.is_memory())
        .map(|metric| (metric, why.to_owned()))
        .collect()
}

/// Metrics that a window with this number of requests can't show.
pub(crate) fn refused(requests: Option<u64>) -> BTreeMap<Metric, String> {
    let fixed = (Metric::Throughput, FIXED_RATE.to_owned());
    let Some(requests) = requests else { return BTreeMap::from([fixed]) };
    let short = |metric: Metric| Some((metric, too_few(metric, requests)?));
    Metric::ALL.into_iter().filter_map(short).chain([fixed]).collect()
}

/// Why windows with at least this number of requests (nearly all of them) can't show a metric; `None` if they can.
pub fn too_few(metric: Metric, requests: u64) -> Option<String> {
    let needed = metric.samples_needed().filter(|needed| requests < *needed)?;
    let label = metric.label();
    Some(format!(
        "a {label} needs {needed} requests in every window, but a window here may get only {requests}"
    ))
}

/// The block of each pair. Test pairs go through all blocks in random order before any block repeats, so that no build runs only in the
/// morning and another only in the evening. Control pairs go through A's builds in turn.
fn blocks(order: &[PairKind], builds: [u32; 2], both_controls: bool, random: &mut ChaCha8Rng) -> Vec<u32> {
    let count = builds[0].max(builds[1]);
    if count < 2 {
        return Vec::new();
    }
    let mut round: Vec<u32> = Vec::new();
    let mut controls = 0;
    let mut next = |kind: &PairKind| {
        if *kind == PairKind::Control {
            controls += 1;
            return (controls - 1) / (1 + u32::from(both_controls)) % count;
        }
        if round.is_empty() {
            round = shuffled(count, random);
        }
        round.pop().unwrap_or(0)
    };
    order.iter().map(&mut next).collect()
}

/// 0 to `count` - 1 in random order (Fisher and Yates).
pub(crate) fn shuffled(count: u32, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut all: Vec<u32> = (0..count).collect();
    for last in (1..all.len()).rev() {
        let other = (u64::from(random.next_u32()) * (last as u64 + 1)) >> 32;
        all.swap(last, other as usize);
    }
    all
}

fn check(plan: &Plan, refused: &BTreeMap<Metric, String>) -> Result<(), DesignError> {
    check_builds(plan.builds)?;
    if climbs(plan) && plan.mode == Mode::Duet {
        return Err(DesignError::ClimbsTogether);
    }
    let named = std::iter::once(("the primary metric", plan.primary))
        .chain(plan.guards.iter().map(|guard| ("the guard metric", *guard)));
    for (what, metric) in named {
        if let Some(reason) = refused.get(&metric) {
            return Err(DesignError::NotTold { what, metric, reason: reason.clone() });
        }
    }
    if plan.pairs < FEWEST_PAIRS {
        return Err(DesignError::TooFewPairs { kind: "A/B", pairs: plan.pairs, or_none: "" });
    }
    let builds = plan.builds[0].max(plan.builds[1]);
    if builds > plan.pairs {
        return Err(DesignError::TooManyBuilds { builds, pairs: plan.pairs });
    }
    if plan.control_pairs != 0 && plan.control_pairs < FEWEST_PAIRS {
        let or_none = ", or 0 for no control";
        return Err(DesignError::TooFewPairs { kind: "A/A", pairs: plan.control_pairs, or_none });
    }
    let reserve = plan.reserve.unwrap_or_default();
    check_counts([("pairs", plan.pairs), ("control_pairs", plan.control_pairs), ("reserve", reserve)])?;
    check_levels(plan.alpha, plan.equivalence)
}

/// Checks that the numbers are not absurdly large.
///
/// # Errors
/// Returns the first number that is too large.
pub(crate) fn check_counts<const N: usize>(counts: [(&'static str, u32); N]) -> Result<(), DesignError> {
    match counts.into_iter().find(|(_, value)| *value > MOST_PAIRS) {
        Some((name, value)) => {
            Err(DesignError::OutOfRange { name, value: value.into(), limit: MOST_PAIRS.into() })
        }
        None => Ok(()),
    }
}

/// Checks the inputs of confidence intervals and margins.
///
/// # Errors
/// Fails when the error rate of confidence intervals is not between 0 and 0.5, or when the margin of equality is not between 0 and 1.
pub(crate) fn check_levels(alpha: f64, equivalence: f64) -> Result<(), DesignError> {
    for (name, value, limit) in [("alpha", alpha, 0.5), ("equivalence", equivalence, 1.0)] {
        if !(value > 0.0 && value < limit) {
            return Err(DesignError::OutOfRange { name, value, limit });
        }
    }
    Ok(())
}

fn check_builds([a, b]: [u32; 2]) -> Result<(), DesignError> {
    let alone = |count: u32, other: u32| count == 1 && (other == 1 || other >= FEWEST_BLOCKS);
    let both = a == b && a >= FEWEST_BLOCKS;
    if both || alone(a, b) || alone(b, a) { Ok(()) } else { Err(DesignError::Builds { a, b }) }
}

/// Control pairs at even distances among the test pairs.
fn spread(tests: u32, controls: u32) -> Vec<PairKind> {
    let total = u64::from(tests) + u64::from(controls);
    let controls_before = |index: u64| index * u64::from(controls) / total.max(1);
    (0..total)
        .map(|index| {
            if controls_before(index + 1) > controls_before(index) {
                PairKind::Control
            } else {
                PairKind::Test
            }
        })
        .collect()
}

/// Orders each kind by itself (A/B, A/A, B/B): blocks of two, one pair of each order, with a random first one.
fn balanced(order: &[PairKind], both_controls: bool, random: &mut ChaCha8Rng) -> Vec<bool> {
    let mut pending: [Option<bool>; 3] = [None; 3];
    order
        .iter()
        .enumerate()
        .map(|(index, kind)| {
            let slot = match kind {
                PairKind::Control => control_arm(order, index, both_controls),
                PairKind::Test => 2,
            };
            let slot = &mut pending[slot];
            match slot.take() {
                Some(second) => second,
                None => {
                    let first = random.next_u32() & 1 == 1;
                    *slot = Some(!first);
                    first
                }
            }
        })
        .collect()
}

/// What an effect is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reference {
    /// A alone.
    A,
    /// A, minus what the A/A pairs show.
    MinusControl,
    /// A together with its byte copy of the same round.
    Pooled,
}

/// The rule in words, for the report and the record.
fn worded(rule: &Rule, reference: Reference, label: fn(Metric) -> &'static str) -> String {
    let percent = |share: f64| (share * 1e5).round() / 1e3;
    let margin = percent(rule.equivalence);
    let sure = percent(1.0 - rule.alpha);
    let tost = percent(1.0 - 2.0 * rule.alpha);
    let others = percent(1.0 - rule.alpha / rule.secondary.len().max(1) as f64);
    let mut words = format!(
        "Primary metric: {}. Equivalent if the {tost} % confidence interval of the ratio B/A is within \
         {margin} % of 1; otherwise better or worse if the {sure} % confidence interval excludes 1",
        if rule.primary == Metric::Capacity { "capacity, where more is better" } else { label(rule.primary) }
    );
    let usable = format!(
        " Otherwise inconclusive. If a control itself differs from 1 by more than {margin} % with {sure} % \
         confidence, or has no estimate, the metric is inconclusive."
    );
    words.push_str(&match reference {
        Reference::MinusControl => format!(
            " and so does the confidence interval of test minus control (Welch's, with the uncertainty of \
             both). It must also have the sign of the effect, and the effect must be larger than that of the \
             control. For equivalent, both must be within the margin.{usable}"
        ),
        Reference::Pooled => format!(
            ". A is the geometric mean of both windows of the baseline in the same round: its own, and that \
             of the A/A control.{usable}"
        ),
        Reference::A => {
            "; otherwise inconclusive. There is no A/A control, so a bias between the arms would stay hidden."
                .to_owned()
        }
    });
    if !rule.guards.is_empty() {
        let guards: Vec<&str> = rule.guards.iter().map(|guard| label(*guard)).collect();
        let unseen = if rule.default_guards {
            ""
        } else {
            "; without an estimate or a usable control, it prevents the verdict better"
        };
        words.push_str(&format!(
            " Guard metrics: {}; if one is worse, the whole comparison is worse{unseen}.",
            guards.join(", ")
        ));
    }
    words.push_str(
        " Failures of an arm are crashes, saturation, failed windows, more than 1 % failed requests, lost \
         connections and moved leaders. Hone counts the A/B pairs in which only one arm had them. If they \
         lean to B (exact sign test, one-sided, 25 %, and at least a tenth of the A/B pairs), nothing is \
         better or equivalent. If they lean to A, nothing is worse or equivalent. If B had them clearly more \
         often (at the primary metric's level), the comparison is worse.",
    );
    if std::iter::once(&rule.primary).chain(&rule.secondary).any(|metric| metric.is_memory()) {
        words.push_str(" Memory that differs by less than 4 MiB counts as equal.");
    }
    if rule.secondary.is_empty() {
        return words;
    }
    words.push_str(&format!(
        " The other {} metrics get {others} % confidence intervals (Bonferroni).",
        rule.secondary.len()
    ));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(pairs: u32, control_pairs: u32, seed: u64) -> Plan {
        Plan {
            guards: vec![Metric::LatencyP99],
            seed,
            ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [pairs, control_pairs])
        }
    }

    #[test]
    fn every_pair_is_there_once_and_the_orders_are_balanced() {
        for seed in 0..50 {
            let design = plan(&asked(14, 6, seed)).unwrap();
            let tests = design.order.iter().filter(|kind| **kind == PairKind::Test).count();
            assert_eq!((tests, design.order.len()), (14, 20));
            for kind in [PairKind::Test, PairKind::Control] {
                let of_kind = design.order.iter().zip(&design.swapped).filter(|(k, _)| **k == kind);
                let swapped = of_kind.clone().filter(|(_, swapped)| **swapped).count();
                assert_eq!(swapped * 2, of_kind.count(), "seed {seed}");
            }
        }
    }

    #[test]
    fn the_order_is_random_and_the_seed_repeats_it() {
        let swapped = |seed| plan(&asked(14, 6, seed)).unwrap().swapped;
        assert_eq!(swapped(7), swapped(7));
        assert!((0..20).any(|seed| swapped(seed) != swapped(7)));
    }

    #[test]
    fn the_control_is_spread_over_the_session() {
        let order = plan(&asked(15, 5, 1)).unwrap().order;
        for quarter in order.chunks(4) {
            assert_eq!(quarter.iter().filter(|kind| **kind == PairKind::Control).count(), 1);
        }
    }

    /// Both are measured and warmed alike, from the pilot on, and neither always comes first.
    #[test]
    fn controls_of_two_living_targets_take_turns() {
        for seed in 0..20 {
            let asked = Plan { pilot_pairs: 8, both_controls: true, ..asked(14, 16, seed) };
            let design = plan(&asked).unwrap();
            for arm in [0, 1] {
                let of: Vec<usize> = (0..30).filter(|&index| design.arms(index) == [arm; 2]).collect();
                assert_eq!((of.len(), of.iter().filter(|&&index| index < 8).count()), (8, 4));
                assert_eq!(of.iter().filter(|&&index| design.swapped[index]).count(), 4);
            }
            assert_eq!((design.pair_label(0), design.pair_label(1)), ("A/A", "B/B"));
            let pilot = pilot(&asked).unwrap();
            assert!(
                (0..16).all(|index| pilot.order.len() <= index || pilot.arms(index) == design.arms(index))
            );
            assert_eq!(&pilot.swapped[..8], &design.swapped[..8]);
            assert!(design.control_limits().unwrap().contains("an older log"));
        }
        let alone = plan(&asked(14, 16, 1)).unwrap();
        assert!((0..30).all(|index| alone.arms(index) != [1, 1]) && alone.control_limits().is_none());
    }

    #[test]
    fn the_reserve_stands_behind_the_plan() {
        let of = |reserve| plan(&Plan { reserve, ..asked(14, 6, 1) }).unwrap();
        let (none, half, two) = (of(Some(0)), of(None), of(Some(2)));
        assert_eq!((none.reserve, half.reserve, two.reserve), (0, 7 + 3, 4));
        for design in [&none, &half, &two] {
            assert_eq!(design.planned(), 20);
            assert_eq!(design.order[..20], none.order, "the plan is the same with and without");
            assert_eq!(design.swapped[..20], none.swapped);
        }
        assert!(half.rule.words.contains("at most 7 A/B and 3 A/A pairs"), "{}", half.rule.words);
        assert!(!none.rule.words.contains("measured again"));
        let alone = plan(&Plan { reserve: None, ..asked(14, 0, 1) }).unwrap();
        assert!(alone.order.iter().all(|kind| *kind == PairKind::Test));
        assert!(alone.rule.words.contains("at most 7 A/B pairs"), "{}", alone.rule.words);
    }

    #[test]
    fn plans_that_cannot_give_an_interval_are_refused() {
        assert!(plan(&asked(4, 6, 1)).unwrap_err().to_string().contains("4 A/B pairs are too few"));
        assert!(plan(&asked(9, 2, 1)).unwrap_err().to_string().contains("or 0 for no control"));
        assert!(plan(&asked(9, 0, 1)).is_ok());
        assert!(
            plan(&asked(4_000_000_000, 0, 1)).unwrap_err().to_string().contains("pairs` must be between")
        );
        assert!(plan(&Plan { alpha: 0.0, ..asked(9, 0, 1) }).is_err());
        assert!(plan(&Plan { equivalence: f64::NAN, ..asked(9, 0, 1) }).is_err());
    }

    #[test]
    fn the_pilot_is_the_beginning_of_the_design_that_follows_it() {
        for seed in 0..20 {
            let asked = Plan { pilot_pairs: 7, ..asked(20, 10, seed) };
            let pilot = pilot(&asked).unwrap();
            let design = plan(&asked).unwrap();
            assert_eq!((pilot.order.len(), pilot.pairs, pilot.control_pairs), (7, 0, 7));
            assert_eq!((&design.order[..7], &design.swapped[..7]), (&pilot.order[..], &pilot.swapped[..]));
            assert!(pilot.order.iter().all(|kind| *kind == PairKind::Control));
            assert_eq!(design.order.iter().filter(|kind| **kind == PairKind::Control).count(), 10);
        }
    }

    #[test]
    fn every_build_meets_as_many_pairs_and_rounds_are_shuffled() {
        let design = plan(&Plan { builds: [3, 3], ..asked(12, 6, 5) }).unwrap();
        let tests: Vec<u32> = (0..18)
            .filter(|&index| design.order[index] == PairKind::Test)
            .map(|index| design.block(index))
            .collect();
        for round in tests.chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [0, 1, 2]);
        }
        let orders = |seed| plan(&Plan { builds: [3, 3], ..asked(12, 6, seed) }).unwrap().blocks;
        assert!((0..10).any(|seed| orders(seed) != orders(5)));
    }

    #[test]
    fn builds_that_cannot_be_laid_out_are_refused() {
        for (builds, good) in [
            ([1, 1], true),
            ([3, 3], true),
            ([1, 3], true),
            ([5, 1], true),
            ([2, 2], false),
            ([1, 2], false),
            ([3, 4], false),
            ([15, 15], true),
            ([16, 16], false),
            ([1, 16], false),
        ] {
            assert_eq!(plan(&Plan { builds, ..asked(15, 5, 1) }).is_ok(), good, "{builds:?}");
        }
    }

    #[test]
    fn what_the_arms_cannot_be_compared_by_has_no_verdict() {
        let refused = BTreeMap::from([(Metric::LatencyP99, "unlike ends".to_owned())]);
        let message = plan(&Plan { refused: refused.clone(), ..asked(9, 5, 1) }).unwrap_err().to_string();
        assert!(message.contains("the guard metric p99") && message.contains("unlike ends"), "{message}");
        let design = plan(&Plan { refused, guards: vec![], ..asked(9, 5, 1) }).unwrap();
        assert!(!design.rule.secondary.contains(&Metric::LatencyP99));
        assert_eq!(design.refused[&Metric::LatencyP99], "unlike ends");
    }

    #[test]
    fn a_climb_tells_the_capacity_alone_and_no_other_load_tells_it() {
        let other = |metric: &Metric| *metric != Metric::Capacity;
        let refused: BTreeMap<Metric, String> =
            Metric::ALL.into_iter().filter(other).map(|metric| (metric, "it climbs".to_owned())).collect();
        let climbing = Plan {
            mode: Mode::Solo,
            primary: Metric::Capacity,
            guards: vec![],
            refused: refused.clone(),
            ..asked(9, 5, 1)
        };
        let design = plan(&climbing).unwrap();
        assert!(design.rule.secondary.is_empty() && design.refused == refused);
        assert!(design.rule.words.contains("capacity, where more is better"), "{}", design.rule.words);
        assert!(!design.rule.words.contains("other 0 metrics"), "{}", design.rule.words);
        let guarded = plan(&Plan { guards: vec![Metric::LatencyP99], ..climbing.clone() }).unwrap_err();
        assert!(guarded.to_string().contains("it climbs"), "{guarded}");
        assert_eq!(plan(&Plan { mode: Mode::Duet, ..climbing }).unwrap_err(), DesignError::ClimbsTogether);
        for (primary, guards) in [(Metric::Capacity, vec![]), (Metric::CpuPerRecord, vec![Metric::Capacity])]
        {
            let message = plan(&Plan { primary, guards, ..asked(9, 5, 1) }).unwrap_err().to_string();
            assert!(message.contains("--capacity --slo p99=10ms"), "{message}");
        }
        let ordinary = plan(&asked(9, 5, 1)).unwrap();
        assert!(!ordinary.rule.secondary.contains(&Metric::Capacity));
        assert!(!ordinary.refused.contains_key(&Metric::Capacity), "not requested");
    }

    #[test]
    fn throughput_at_a_fixed_rate_has_no_verdict() {
        for requests_per_window in [None, Some(5_000)] {
            let with = |primary, guards: Vec<Metric>| {
                plan(&Plan { primary, guards, requests_per_window, ..asked(9, 5, 1) })
            };
            let message = with(Metric::Throughput, vec![]).unwrap_err().to_string();
            assert!(message.contains("--find-capacity"), "{message}");
            assert!(with(Metric::CpuPerRecord, vec![Metric::Throughput]).is_err());
            let design = with(Metric::CpuPerRecord, vec![]).unwrap();
            assert!(!design.rule.secondary.contains(&Metric::Throughput));
        }
    }

    #[test]
    fn a_tail_that_no_window_can_tell_is_refused_before_the_run() {
        let short = |primary, guards: Vec<Metric>, requests| {
            plan(&Plan { primary, guards, requests_per_window: Some(requests), ..asked(9, 5, 1) })
        };
        let message = short(Metric::LatencyP999, vec![], 9_999).unwrap_err().to_string();
        assert!(
            message
                .contains("p99.9 needs 10000 requests in every window, but a window here may get only 9999"),
            "{message}"
        );
        assert!(short(Metric::LatencyP999, vec![], 10_000).is_ok());
        assert!(short(Metric::CpuPerRecord, vec![Metric::LatencyP99], 999).is_err());
        // As a secondary metric it is named, and no longer counted in the correction.
        let design = short(Metric::CpuPerRecord, vec![], 5_000).unwrap();
        // Nor are throughput and capacity, which such a load does not measure, and the primary is not secondary.
        assert_eq!(design.rule.secondary.len(), Metric::ALL.len() - 5);
        assert!(design.refused.contains_key(&Metric::LatencyP999));
    }
}
