//! Sessions with a known true effect, for tests of the instrument's error rates.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::collections::BTreeMap;

use hone_compare::{Plan, RoundPlan, judge, plan, refused_for_operations};
use hone_record::{Metric, Mode, PairKind, PairOutcome, Verdict};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// What a simulation found, for the figures of docs/method.md.
#[expect(clippy::print_stdout, reason = "shown with --nocapture only")]
pub fn tell(found: &str) {
    println!("{found}");
}

/// The number of sessions behind a figure of docs/method.md: enough for a test, or with HONE_LONG=1 for the page.
pub fn sessions_of_a_figure() -> usize {
    if std::env::var_os("HONE_LONG").is_some() { 20_000 } else { 1_000 }
}

pub fn uniform(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Box and Muller.
pub fn normal(random: &mut ChaCha8Rng) -> f64 {
    let (radius, angle) = (1.0 - uniform(random), uniform(random));
    (-2.0 * radius.ln()).sqrt() * (2.0 * std::f64::consts::PI * angle).cos()
}

/// One in ten pairs meets a noisy neighbour: five times the spread.
pub fn heavy(random: &mut ChaCha8Rng) -> f64 {
    let scale = if uniform(random) < 0.1 { 5.0 } else { 1.0 };
    scale * normal(random)
}

/// Log-normal: most pairs lie a little below the mean, a few far above it. Mean 0, standard deviation 1, skewness 6.2.
pub fn skewed(random: &mut ChaCha8Rng) -> f64 {
    let e = std::f64::consts::E;
    (normal(random).exp() - e.sqrt()) / (e * e - e).sqrt()
}

/// One in ten of B's windows stalls, and is then thirty times the usual spread longer. Mean 0.
pub fn rare_stalls(random: &mut ChaCha8Rng) -> f64 {
    let stall = if uniform(random) < 0.1 { 30.0 } else { 0.0 };
    normal(random) + stall - 3.0
}

pub type Noise = fn(&mut ChaCha8Rng) -> f64;

pub fn session(random: &mut ChaCha8Rng, noise: Noise, pairs: usize, effect: f64, sd: f64) -> Vec<(f64, f64)> {
    (0..pairs).map(|_| (1.0, (effect.ln() + sd * noise(random)).exp())).collect()
}

/// Pairs of one metric that all count.
pub fn outcomes(kind: PairKind, values: &[(f64, f64)]) -> Vec<PairOutcome> {
    let one = |(index, &(first, second)): (usize, &(f64, f64))| PairOutcome {
        index: index as u32,
        kind,
        values_a: BTreeMap::from([(Metric::CpuPerRecord, first)]),
        values_b: BTreeMap::from([(Metric::CpuPerRecord, second)]),
        ..PairOutcome::default()
    };
    values.iter().enumerate().map(one).collect()
}

pub fn plan_of(pairs: u32, control_pairs: u32, seed: u64) -> Plan {
    Plan { seed, ..Plan::new(Mode::Duet, Metric::CpuPerRecord, [pairs, control_pairs]) }
}

/// Rounds of operations with a baseline, its twin and one variant.
pub fn plan_of_rounds(rounds: u32, block_rounds: u32, builds: u32, seed: u64) -> RoundPlan {
    RoundPlan {
        busy: false,
        variants: 3,
        rounds,
        asked_reserve: None,
        block_rounds,
        builds,
        closed_loop: true,
        primary: Metric::CpuPerRecord,
        guards: vec![],
        alpha: 0.05,
        equivalence: 0.02,
        seed,
        refused: refused_for_operations(Metric::CpuPerRecord),
        keep_disturbed: false,
        ends_early: false,
    }
}

/// How many sessions are held on a [`Rig`].
pub const SESSIONS_OF_A_RIG: u64 = 600;

/// Two arms whose truth is known, on a rig that favours one of them, in A/A pairs as in the others.
pub struct Rig {
    pub noise: Noise,
    pub pairs: u32,
    pub control_pairs: u32,
    pub bias: f64,
    pub effect: f64,
    pub sd: f64,
}

impl Rig {
    /// How many of [`SESSIONS_OF_A_RIG`] end in one of these verdicts.
    pub fn sessions_with(&self, verdicts: &[Verdict], seed: u64) -> usize {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let ends = |seed| {
            let mut design = plan(&plan_of(self.pairs, self.control_pairs, seed)).unwrap();
            design.rule.secondary.clear();
            design.rule.resamples = 500;
            let mut of = |kind, count: u32, ratio| {
                outcomes(kind, &session(&mut random, self.noise, count as usize, ratio, self.sd))
            };
            let test = of(PairKind::Test, self.pairs, self.bias * self.effect);
            let control = of(PairKind::Control, self.control_pairs, self.bias);
            judge(&design, &[test, control].concat()).judgements[0].verdict
        };
        (0..SESSIONS_OF_A_RIG).map(ends).filter(|verdict| verdicts.contains(verdict)).count()
    }
}

const RATE: f64 = 1_498.0;
const SECONDS: f64 = 20.0;
pub const STALL_S: f64 = 0.975;

/// Latencies of a window of the published case, in ms: log-normal with p50 1.20 ms and p90 1.55 ms; each request that is due in the stall
/// waits for its end.
pub fn published_window(random: &mut ChaCha8Rng, stalled: bool) -> BTreeMap<Metric, f64> {
    let count = (RATE * SECONDS) as usize;
    let sigma = (1.55f64 / 1.20).ln() / 1.2816;
    let start = stalled.then(|| uniform(random) * (SECONDS - STALL_S));
    let mut latencies: Vec<f64> = (0..count)
        .map(|index| {
            let due = index as f64 / RATE;
            let waits =
                start.map_or(0.0, |start| if due >= start { (start + STALL_S - due).max(0.0) } else { 0.0 });
            1.20 * (sigma * normal(random)).exp() + waits * 1e3
        })
        .collect();
    latencies.sort_by(f64::total_cmp);
    let quantile = |q: f64| latencies[(q * count as f64).ceil() as usize - 1];
    [
        (Metric::LatencyP50, quantile(0.5)),
        (Metric::LatencyP90, quantile(0.9)),
        (Metric::LatencyP99, quantile(0.99)),
        (Metric::LatencyP999, quantile(0.999)),
        (Metric::LatencyMax, quantile(1.0)),
    ]
    .into()
}
