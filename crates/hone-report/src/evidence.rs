//! Finds the windows that support the estimates of a comparison. It only selects and merges.

use std::collections::BTreeMap;

use hone_record::{Comparison, Hdr, Metric, Outcome, PairKind, PairOutcome, Window};

/// An included pair, with those of its windows that are available.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountedPair<'a> {
    /// The pair as it was judged.
    pub(crate) outcome: &'a PairOutcome,
    /// Window of the first arm.
    pub(crate) a: Option<&'a Window>,
    /// Window of the second arm.
    pub(crate) b: Option<&'a Window>,
}

/// Everything that a comparison's plots need.
#[derive(Debug)]
pub(crate) struct Evidence<'a> {
    /// Included A/B pairs, in the order of measurement.
    pub(crate) pairs: Vec<CountedPair<'a>>,
}

impl<'a> Evidence<'a> {
    /// Looks up the windows of the included A/B pairs.
    pub(crate) fn of(comparison: &'a Comparison, windows: &'a BTreeMap<String, Window>) -> Self {
        let counts = |pair: &&PairOutcome| pair.kind == PairKind::Test && pair.dropped.is_none();
        let found = |name: &str| windows.get(name).filter(|window| matches!(window.outcome, Outcome::Steady));
        let pairs = comparison.pairs.iter().filter(counts).map(|outcome| CountedPair {
            outcome,
            a: found(&outcome.window_a),
            b: found(&outcome.window_b),
        });
        Self { pairs: pairs.collect() }
    }

    /// Available windows of the first arm.
    pub(crate) fn windows_a(&self) -> impl Iterator<Item = &'a Window> + '_ {
        self.pairs.iter().filter_map(|pair| pair.a)
    }

    /// Available windows of the second arm.
    pub(crate) fn windows_b(&self) -> impl Iterator<Item = &'a Window> + '_ {
        self.pairs.iter().filter_map(|pair| pair.b)
    }

    /// Number of windows that included pairs name and that are not available.
    pub(crate) fn missing(&self) -> u64 {
        let missing = |pair: &CountedPair| u64::from(pair.a.is_none()) + u64::from(pair.b.is_none());
        self.pairs.iter().map(missing).sum()
    }

    /// The median pair by its ratio of `metric`, among those with both windows available. Its time series represents the others.
    /// Of two middle pairs, this is the lower one.
    pub(crate) fn median_pair(&self, metric: Metric) -> Option<CountedPair<'a>> {
        let complete = |pair: &&CountedPair| pair.a.is_some() && pair.b.is_some();
        let mut ranked: Vec<_> = self
            .pairs
            .iter()
            .filter(complete)
            .map(|pair| (log_ratio(pair.outcome, metric).unwrap_or(0.0), *pair))
            .collect();
        ranked.sort_by(|left, right| left.0.total_cmp(&right.0));
        ranked.get(ranked.len().saturating_sub(1) / 2).map(|(_, pair)| *pair)
    }

    /// Geometric mean of a metric in one arm over the included pairs. `None` when no pair has it.
    pub(crate) fn mean(&self, metric: Metric, arm: Arm) -> Option<f64> {
        let logs: Vec<f64> = self
            .pairs
            .iter()
            .filter_map(|pair| arm.values(pair.outcome).get(&metric))
            .filter(|value| value.is_finite() && **value > 0.0)
            .map(|value| value.ln())
            .collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    }
}

/// One side of a pair.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Arm {
    /// The first.
    A,
    /// The second.
    B,
}

impl Arm {
    /// The arm's values in a pair.
    pub(crate) fn values(self, pair: &PairOutcome) -> &BTreeMap<Metric, f64> {
        match self {
            Self::A => &pair.values_a,
            Self::B => &pair.values_b,
        }
    }
}

/// The latencies of many windows as one histogram.
pub(crate) fn merged<'a>(windows: impl Iterator<Item = &'a Window>) -> Hdr {
    let mut all = Hdr::new();
    windows.for_each(|window| all.merge(&window.latencies.intended_to_ack));
    all
}

/// ln(B/A) of a pair; `None` when a value is missing or has no logarithm.
pub(crate) fn log_ratio(pair: &PairOutcome, metric: Metric) -> Option<f64> {
    let ratio = pair.values_b.get(&metric)? / pair.values_a.get(&metric)?;
    let log = ratio.ln();
    log.is_finite().then_some(log)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn dropped_and_control_pairs_are_no_evidence() {
        let (optimization, windows) = sample::optimization();
        let comparison = &optimization.comparisons[0];
        let evidence = Evidence::of(comparison, &windows);
        assert_eq!(evidence.pairs.len(), 13);
        assert_eq!(evidence.missing(), 0);
        assert!(evidence.pairs.iter().all(|pair| pair.outcome.kind == PairKind::Test));
    }

    #[test]
    fn missing_windows_are_counted() {
        let (optimization, mut windows) = sample::optimization();
        let comparison = &optimization.comparisons[0];
        let named = Evidence::of(comparison, &windows).pairs[0].outcome.window_a.clone();
        windows.remove(&named);
        let evidence = Evidence::of(comparison, &windows);
        assert_eq!(evidence.missing(), 1);
        assert_eq!(evidence.windows_a().count() + 1, evidence.windows_b().count());
    }

    #[test]
    fn the_median_pair_has_as_many_below_as_above() {
        let (optimization, windows) = sample::optimization();
        let evidence = Evidence::of(&optimization.comparisons[0], &windows);
        let of = |pair: &CountedPair| log_ratio(pair.outcome, Metric::CpuPerRecord).unwrap();
        let middle = of(&evidence.median_pair(Metric::CpuPerRecord).unwrap());
        let below = evidence.pairs.iter().filter(|pair| of(pair) < middle).count();
        assert_eq!(below, (evidence.pairs.len() - 1) / 2);
    }

    #[test]
    fn merging_keeps_every_sample() {
        let (optimization, windows) = sample::optimization();
        let evidence = Evidence::of(&optimization.comparisons[0], &windows);
        let all = merged(evidence.windows_a());
        let sum: u64 = evidence.windows_a().map(|window| window.latencies.intended_to_ack.count()).sum();
        assert_eq!(all.count(), sum);
        assert!(sum > 0);
    }
}
