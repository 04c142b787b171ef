//! How long the bootstrap of a comparison takes: 100 pairs and a control, every metric, 10,000 resamples each.
//! Run by `bench/estimate.sh`; prints the seconds of the fastest of five.

use std::collections::BTreeMap;
use std::time::Instant;

use hone_compare::{Plan, judge, plan};
use hone_record::{Metric, Mode, PairKind, PairOutcome};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

fn pair(index: usize, kind: PairKind, random: &mut ChaCha8Rng) -> PairOutcome {
    let mut value = || 1.0 + (random.next_u32() % 1_000) as f64 / 1e4;
    PairOutcome {
        index: index as u32,
        kind,
        values_a: Metric::ALL.map(|metric| (metric, value())).into_iter().collect::<BTreeMap<_, _>>(),
        values_b: Metric::ALL.map(|metric| (metric, value())).into_iter().collect::<BTreeMap<_, _>>(),
        ..PairOutcome::default()
    }
}

#[expect(clippy::print_stdout, reason = "the figure is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let design = plan(&Plan::new(Mode::Duet, Metric::CpuPerRecord, [100, 100]))?;
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let pairs: Vec<PairOutcome> =
        design.order.iter().enumerate().map(|(index, kind)| pair(index, *kind, &mut random)).collect();
    let metrics = 1 + design.rule.secondary.len();
    let seconds = |_| {
        let begun = Instant::now();
        assert_eq!(judge(&design, &pairs).judgements.len(), metrics);
        begun.elapsed().as_secs_f64()
    };
    let fastest = (0..5).map(seconds).fold(f64::INFINITY, f64::min);
    println!("{metrics} metrics, 100 A/B and 100 A/A pairs, 10000 resamples each: {fastest:.3} s");
    Ok(())
}
