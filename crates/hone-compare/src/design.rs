//! The pairs to measure and their order, decided and written down before the first window.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{Continuation, Design, Effect, Look, Metric, Mode, PairKind, Rule, control_arm};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

use crate::estimate::{FEWEST_BLOCKS, FEWEST_PAIRS};
use crate::plan::{LookPlan, Plan};
use crate::spending::{self, MOST_TIMES};

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

    /// The planned pairs behind the pilot. Control pairs are at even distances, but if that leaves the first look without a readable control,
    /// it gets one.
    fn planned_order(&self, looks: &[Look]) -> Vec<PairKind> {
        let (tests, controls) = (self.pairs, self.control_pairs - self.pilot_pairs);
        let first = looks.first().map_or(tests, |look| look.pairs).min(tests);
        let needed = FEWEST_PAIRS.saturating_sub(self.pilot_pairs).min(controls);
        let is_enough = u64::from(controls) * u64::from(first) > u64::from(needed) * u64::from(tests);
        if first == tests || needed == 0 || is_enough {
            return spread(tests, controls, false);
        }
        let (tests, controls) = (tests - first, controls - needed);
        [spread(first, needed, false), spread(tests, controls, true)].concat()
    }

    /// The pairs that only a continued run measures: one A/A pair for two A/B pairs, as in a budget.
    fn continued_order(&self) -> Vec<PairKind> {
        if self.looks != LookPlan::Continued {
            return Vec::new();
        }
        let controls = if self.control_pairs == 0 { 0 } else { self.pairs.div_ceil(2) };
        (1..MOST_TIMES).flat_map(|_| spread(self.pairs, controls, false)).collect()
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

/// Lays out the pairs. Control pairs are spread among the test pairs, because a control at the end would see another time of day.
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
    // The report does not mention metrics of a load that does not climb, of counters that Hone does not read, or of consumers that are not
    // there, because the user did not ask for them.
    let unasked: BTreeSet<Metric> = not_asked(&refused).collect();
    refused.retain(|metric, _| !unasked.contains(metric));
    let mut random = ChaCha8Rng::seed_from_u64(plan.seed);
    let looks = spending::looks(plan.pairs, plan.looks, plan.alpha);
    let mut order = vec![PairKind::Control; plan.pilot_pairs as usize];
    order.extend(plan.planned_order(&looks));
    let reserves = [plan.pairs, plan.control_pairs].map(|planned| plan.reserve_of(planned));
    let effect = plan.wanted();
    let more = effect.as_ref().map_or([0, 0], |effect| effect.more);
    let behind = [reserves[0] + more[0], reserves[1] + more[1]];
    order.extend(spread(behind[0], behind[1], false));
    let again = effect.as_ref().map_or(0, |effect| effect.again);
    order.extend(std::iter::repeat_n(PairKind::Control, again as usize));
    let reserve = behind[0] + behind[1] + again;
    let continued = plan.continued_order();
    let continuation = Continuation { pairs: continued.len() as u32, ends: Vec::new() };
    order.extend(continued);
    let swapped = balanced(&order, plan.both_controls, &mut random);
    let secondary = Metric::ALL
        .into_iter()
        .filter(|metric| {
            *metric != plan.primary && !refused.contains_key(metric) && !unasked.contains(metric)
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
    rule.words.push_str(&look_words(&looks, plan.pairs));
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
        continuation: Some(continuation).filter(|continuation| continuation.pairs > 0),
    })
}

/// The looks at the running comparison, in words.
fn look_words(looks: &[Look], planned: u32) -> String {
    let counts =
        |looks: &[Look]| looks.iter().map(|look| look.pairs.to_string()).collect::<Vec<_>>().join(", ");
    let end = looks.iter().position(|look| look.pairs == planned).unwrap_or(0);
    let (early, later) = (looks.get(..end).unwrap_or_default(), looks.get(end + 1..).unwrap_or_default());
    let mut words = String::new();
    if !early.is_empty() {
        words.push_str(&format!(
            " Hone looks at the result after {} A/B pairs. It ends the run there if the primary metric is worse, or if that metric and every \
             guard metric that you named have a verdict. The last look is after {planned}.",
            counts(early)
        ));
    }
    if let Some(most) = later.last() {
        words.push_str(&format!(
            " If {planned} A/B pairs give no verdict, the run may be continued to {}, with looks after {}. Its plan may spend 80 % of the error.",
            most.pairs,
            counts(later)
        ));
    }
    if !words.is_empty() {
        words.push_str(
            " The looks share the error (Lan and DeMets, bounds like O'Brien and Fleming's), so the confidence level of each look is higher.",
        );
    }
    words
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
    let (control_pairs, looks) = (plan.pilot_pairs, LookPlan::AtEnd);
    let of_pilot = Plan { pairs, control_pairs, effect: None, looks, ..plan.clone() };
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

/// The reason without consumers.
const NO_CONSUMERS: &str = "it needs consumers of the load: --consumers N, or in the workload consumers = N";

/// Refused metrics that nobody asked for.
fn not_asked(refused: &BTreeMap<Metric, String>) -> impl Iterator<Item = Metric> {
    let is_unasked = |(metric, why): &(&Metric, &String)| {
        **metric == Metric::Capacity || [NO_METRICS, NO_CONSUMERS].contains(&why.as_str())
    };
    refused.iter().filter(is_unasked).map(|(metric, _)| *metric)
}

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
    if !plan.reads && !climbs(plan) {
        let of_consumers = Metric::ALL.into_iter().filter(|metric| metric.is_end_to_end());
        refused.extend(of_consumers.map(|metric| (metric, NO_CONSUMERS.to_owned())));
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

/// Control pairs at even distances among the test pairs. The first one comes after a whole distance, or after half of one.
fn spread(tests: u32, controls: u32, after_half: bool) -> Vec<PairKind> {
    let total = u64::from(tests) + u64::from(controls);
    let ahead = if after_half { total / 2 } else { 0 };
    let controls_before = |index: u64| (index * u64::from(controls) + ahead) / total.max(1);
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
mod tests;
