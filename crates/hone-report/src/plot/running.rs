//! The estimate after each included pair: how the verdict came about.

use std::collections::BTreeMap;

use hone_record::{Comparison, Estimate, PairKind, t_quantile};

use crate::evidence::log_ratio;
use crate::sentence;

/// The estimate after an included A/B pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Running {
    /// Position of the pair among all pairs of the comparison.
    pub(crate) position: usize,
    /// Geometric mean of the ratios so far.
    pub(crate) ratio: f64,
    /// Its confidence interval. `None` after the first pair, or the first block of pairs.
    pub(crate) interval: Option<(f64, f64)>,
}

/// The estimate of the primary metric after each included A/B pair, at the confidence of the final one. The last entry is the final
/// estimate itself. Empty without a final estimate.
pub(crate) fn running(comparison: &Comparison) -> Vec<Running> {
    let primary = comparison.primary().map(|judgement| &judgement.estimate);
    let Some(estimate) = primary.filter(|estimate| sentence::is_sound(estimate)) else { return Vec::new() };
    let mut blocks: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let mut steps = Vec::new();
    for (position, pair) in comparison.pairs.iter().enumerate() {
        let counts = pair.kind == PairKind::Test && pair.dropped.is_none();
        let Some(log) = log_ratio(pair, estimate.metric).filter(|_| counts) else { continue };
        // Pairs of one block share the luck of its builds or processes, so the block is the unit.
        let block = if estimate.builds.is_some() { pair.block } else { position as u32 };
        blocks.entry(block).or_default().push(log);
        steps.push(step(position, estimate, &blocks));
    }
    if let Some(last) = steps.last_mut() {
        last.ratio = estimate.ratio;
        last.interval = Some((estimate.low, estimate.high));
    }
    steps
}

fn step(position: usize, estimate: &Estimate, blocks: &BTreeMap<u32, Vec<f64>>) -> Running {
    let means: Vec<f64> = blocks.values().map(|logs| logs.iter().sum::<f64>() / logs.len() as f64).collect();
    let mean = means.iter().sum::<f64>() / means.len() as f64;
    let interval = half_width(&means, mean, estimate.confidence)
        .map(|half| (ratio_of(mean - half), ratio_of(mean + half)));
    Running { position, ratio: ratio_of(mean), interval }
}

/// Half the width of the t-interval. `None` with fewer than two values.
fn half_width(values: &[f64], mean: f64, confidence: f64) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 || !(confidence > 0.0 && confidence < 1.0) {
        return None;
    }
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let error = (squares / (count - 1.0) / count).sqrt();
    Some(t_quantile(f64::midpoint(1.0, confidence), count - 1.0) * error)
}

/// Finite for every logarithm.
fn ratio_of(log: f64) -> f64 {
    log.exp().clamp(1e-12, 1e12)
}

#[cfg(test)]
mod tests {
    use hone_record::{BuildSpread, Metric, PairOutcome, Verdict};

    use super::*;
    use crate::sample;

    /// Pairs with these log ratios, and an estimate that is none of theirs.
    fn comparison(logs: &[f64], blocks: &[u32]) -> Comparison {
        let metric = Metric::CpuPerRecord;
        let mut comparison = sample::bare_comparison(metric, Verdict::Better, 0.9, 0.85, 0.95, 1.1);
        let pair = |(index, log): (usize, &f64)| PairOutcome {
            index: index as u32,
            values_a: [(metric, 10.0)].into(),
            values_b: [(metric, 10.0 * log.exp())].into(),
            block: blocks.get(index).copied().unwrap_or(0),
            ..PairOutcome::default()
        };
        comparison.pairs = logs.iter().enumerate().map(pair).collect();
        comparison
    }

    fn near(left: f64, right: f64) -> bool {
        (left / right - 1.0).abs() < 1e-6
    }

    #[test]
    fn each_step_is_the_t_interval_so_far_and_the_last_is_the_estimate() {
        let steps = running(&comparison(&[0.1, 0.2, 0.3, -5.0], &[]));
        assert!(near(steps[0].ratio, 0.1_f64.exp()) && steps[0].interval.is_none());
        // Mean 0.15, standard error 0.05, t of one degree of freedom 12.706.
        let half: f64 = 0.05 * 12.706_205;
        let (low, high) = steps[1].interval.unwrap();
        assert!(near(low, (0.15 - half).exp()) && near(high, (0.15 + half).exp()));
        // Mean 0.2, standard deviation 0.1, t of two degrees 4.3027.
        let half = 4.302_653 * 0.1 / 3.0_f64.sqrt();
        let (low, high) = steps[2].interval.unwrap();
        assert!(near(steps[2].ratio, 0.2_f64.exp()));
        assert!(near(low, (0.2 - half).exp()) && near(high, (0.2 + half).exp()));
        assert_eq!(steps[3], Running { position: 3, ratio: 0.9, interval: Some((0.85, 0.95)) });
    }

    #[test]
    fn pairs_of_one_block_count_once() {
        let mut found = comparison(&[0.1, 0.3, 0.4, 0.0], &[0, 0, 1, 1]);
        found.judgements[0].estimate.builds =
            Some(BuildSpread { blocks: 2, between_log_sd: 0.1, within_log_sd: 0.1 });
        let steps = running(&found);
        assert!(near(steps[1].ratio, 0.2_f64.exp()) && steps[1].interval.is_none(), "one block");
        assert!(near(steps[2].ratio, 0.3_f64.exp()) && steps[2].interval.is_some());
    }

    #[test]
    fn excluded_pairs_and_broken_estimates_add_nothing() {
        let mut found = comparison(&[0.1, 0.2, 0.3], &[]);
        found.pairs[1].dropped = Some("neighbours".to_owned());
        assert_eq!(running(&found).iter().map(|step| step.position).collect::<Vec<_>>(), [0, 2]);
        found.judgements[0].estimate.confidence = f64::NAN;
        assert_eq!(running(&found)[0].interval, None);
        found.judgements[0].estimate.low = f64::NAN;
        assert!(running(&found).is_empty());
    }
}
