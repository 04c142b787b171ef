//! Whether single records come because each waits for the one before, or because they are rare: the evidence of their times.

use std::collections::BTreeMap;

use crate::evidence::slot_of;
use crate::trigger::sorted;

/// From this share of single records on, a producer sends one by one.
pub(crate) const SINGLES: f64 = 0.99;
/// Variance of counts over their mean: 1 for independent arrivals. A loop that waits for its answer, or a timer, is far below.
const REGULAR: f64 = 0.35;
/// Share of the emptiest and of the fullest stretches that is ignored, because every process pauses; and the part of the variance of a
/// normal distribution that remains: `1 - 2 z phi(z) / 0.8` with z = 1.2816.
const LEFT_OUT: f64 = 0.1;
const VARIANCE_LEFT: f64 = 0.4377;
/// Two records within this time go into one batch, whatever the linger: a sender takes longer to wake up.
const WAKE_UP_MS: f64 = 0.05;
/// Least number of expected pairs for a conclusion from their absence.
const PAIRS_EXPECTED: f64 = 10.0;
/// Slower records are just rare.
pub(crate) const RARE_GAP_MS: f64 = 50.0;
/// Least number of gaps for a mean.
const LEAST_GAPS: usize = 20;

/// The gaps between beginnings without a dropped slot in between; over all beginnings if such gaps are few.
pub(crate) fn mean_gap_ms(begins: &[i64]) -> Option<f64> {
    let pairs = || begins.windows(2).filter(|pair| slot_of(pair[0]) == slot_of(pair[1]));
    let near = pairs().count();
    if near >= LEAST_GAPS {
        return Some(pairs().map(|pair| pair[1].abs_diff(pair[0]) as f64).sum::<f64>() / near as f64);
    }
    let (first, last) = (begins.first()?, begins.last()?);
    (begins.len() > 1).then(|| last.abs_diff(*first) as f64 / (begins.len() - 1) as f64)
}

/// The evidence that each record waits for the one before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Waits {
    /// Never two together, although chance would bring this number of pairs.
    NoPairs(f64),
    /// This part of the scatter of independent arrivals.
    Regular(f64),
}

/// Whether single records that begin at these times (sorted, one every `gap_ms` on average), and `pairs` batches of several, come from a
/// sender that waits for each answer, or for a timer.
pub(crate) fn why_one_by_one(begins: &[i64], gap_ms: f64, pairs: usize) -> Option<Waits> {
    let expected = begins.len() as f64 * WAKE_UP_MS / gap_ms;
    if pairs == 0 && expected >= PAIRS_EXPECTED {
        return Some(Waits::NoPairs(expected));
    }
    is_regular(begins)
}

/// The same by regularity alone. Several independent producers have no pairs either, but together they are not regular.
pub(crate) fn is_regular(begins: &[i64]) -> Option<Waits> {
    regularity(begins).filter(|regular| *regular < REGULAR).map(Waits::Regular)
}

/// Least number of gaps between single records for a floor.
const GAPS_OF_A_FLOOR: usize = 200;
/// Share of the gaps that may be below the floor, because clocks are rounded and can be set.
const BELOW_FLOOR: f64 = 0.005;
/// A floor is a linger only if most gaps are right above it, as the median is within this factor. A round trip adds to it.
const NEAR_FLOOR: f64 = 1.6;

/// The shortest time between single records that begin at these times (sorted), if it is a linger: hardly any gap is shorter, and most are
/// little longer. Independent arrivals have no such floor, and a timer scatters to both sides of its period.
pub(crate) fn floor_ms(begins: &[i64]) -> Option<u64> {
    let gaps = sorted(begins.windows(2).map(|pair| pair[1].abs_diff(pair[0])));
    let at = |share: f64| gaps.get((share * gaps.len() as f64) as usize).copied();
    let (floor, middle) = (at(BELOW_FLOOR)?, at(0.5)?);
    let is_near = middle as f64 <= NEAR_FLOOR * floor as f64;
    // A timer has as many gaps below its period as above it.
    let (below, above) =
        (gaps.partition_point(|gap| *gap < middle), gaps.len() - gaps.partition_point(|gap| *gap <= middle));
    let is_skewed = above as f64 >= 2.0 * below as f64 || middle <= floor + 1;
    (gaps.len() >= GAPS_OF_A_FLOOR && floor >= 2 && is_near && is_skewed).then_some(floor)
}

/// Variance over mean of the number of beginnings in stretches with some sixteen, without the emptiest and the fullest. `None` if there are
/// too few stretches.
fn regularity(begins: &[i64]) -> Option<f64> {
    const PER_STRETCH: f64 = 16.0;
    const LEAST_STRETCHES: usize = 32;
    let stretch_ms = (mean_gap_ms(begins)? * PER_STRETCH).ceil().max(1.0);
    let mut counts = Vec::new();
    for slot in begins.chunk_by(|one, other| slot_of(*one) == slot_of(*other)) {
        let first = slot.first().copied().unwrap_or(0);
        let mut of_slot: BTreeMap<u64, f64> = BTreeMap::new();
        for begin in slot {
            *of_slot.entry((begin.abs_diff(first) as f64 / stretch_ms) as u64).or_default() += 1.0;
        }
        // The last stretch is cut off, and long pauses have none.
        of_slot.pop_last();
        counts.extend(of_slot.into_values());
    }
    if counts.len() < LEAST_STRETCHES {
        return None;
    }
    counts.sort_unstable_by(f64::total_cmp);
    let left_out = (LEFT_OUT * counts.len() as f64) as usize;
    let counts = counts.get(left_out..counts.len() - left_out)?;
    let mean = counts.iter().sum::<f64>() / counts.len() as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
    Some(variance / VARIANCE_LEFT / mean)
}
