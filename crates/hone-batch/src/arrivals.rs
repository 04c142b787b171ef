//! Whether records come one by one because each waits for the one before, or because they are rare: what the times of their coming say.

use std::collections::BTreeMap;

use crate::evidence::slot_of;
use crate::trigger::sorted;

/// From this share of single records on a producer sends one by one.
pub(crate) const SINGLES: f64 = 0.99;
/// Variance of counts over their mean: 1 for arrivals that know nothing of each other; a loop that waits for its answer, or a beat, is far
/// below.
const REGULAR: f64 = 0.35;
/// Share of the stretches with most and fewest beginnings that are left out at each end, since any process pauses; and what that leaves of the
/// variance of a normal distribution: `1 - 2 z phi(z) / 0.8` with z = 1.2816.
const LEFT_OUT: f64 = 0.1;
const VARIANCE_LEFT: f64 = 0.4377;
/// Two records that come within this time of each other go into one batch, whatever the linger: a sender takes longer to wake up.
const WAKE_UP_MS: f64 = 0.05;
/// So many pairs of that kind are expected where there is none.
const PAIRS_EXPECTED: f64 = 10.0;
/// Slower than this, records are just rare.
pub(crate) const RARE_GAP_MS: f64 = 50.0;
/// Gaps that a mean rests on.
const LEAST_GAPS: usize = 20;

/// Between beginnings that nothing was left out between; over all of them where those are few.
pub(crate) fn mean_gap_ms(begins: &[i64]) -> Option<f64> {
    let pairs = || begins.windows(2).filter(|pair| slot_of(pair[0]) == slot_of(pair[1]));
    let near = pairs().count();
    if near >= LEAST_GAPS {
        return Some(pairs().map(|pair| pair[1].abs_diff(pair[0]) as f64).sum::<f64>() / near as f64);
    }
    let (first, last) = (begins.first()?, begins.last()?);
    (begins.len() > 1).then(|| last.abs_diff(*first) as f64 / (begins.len() - 1) as f64)
}

/// What says that each record waits for the one before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Waits {
    /// Never two together, where chance would have brought so many pairs.
    NoPairs(f64),
    /// So much of the scatter of arrivals that know nothing of each other.
    Regular(f64),
}

/// Whether single records that begin at these times (sorted, one in `gap_ms` in the mean), and `pairs` batches of several, are of a sender that
/// waits for each answer, or for a beat.
pub(crate) fn why_one_by_one(begins: &[i64], gap_ms: f64, pairs: usize) -> Option<Waits> {
    let expected = begins.len() as f64 * WAKE_UP_MS / gap_ms;
    if pairs == 0 && expected >= PAIRS_EXPECTED {
        return Some(Waits::NoPairs(expected));
    }
    is_regular(begins)
}

/// The same by regularity alone: several producers that know nothing of each other have no pairs either, and are not regular together.
pub(crate) fn is_regular(begins: &[i64]) -> Option<Waits> {
    regularity(begins).filter(|regular| *regular < REGULAR).map(Waits::Regular)
}

/// Gaps between single records that a floor rests on.
const GAPS_OF_A_FLOOR: usize = 200;
/// Share of the gaps that may lie below the floor: clocks are rounded, and may be set.
const BELOW_FLOOR: f64 = 0.005;
/// A floor is a linger only where most gaps lie right above it, as the median does within this factor. A round trip comes on top of it.
const NEAR_FLOOR: f64 = 1.6;

/// The shortest time between single records that begin at these times (sorted), where it is a linger that each of them waits out: hardly any
/// gap is shorter, and most are little longer. Arrivals that know nothing of each other have no such floor, and a beat scatters to both sides
/// of its period.
pub(crate) fn floor_ms(begins: &[i64]) -> Option<u64> {
    let gaps = sorted(begins.windows(2).map(|pair| pair[1].abs_diff(pair[0])));
    let at = |share: f64| gaps.get((share * gaps.len() as f64) as usize).copied();
    let (floor, middle) = (at(BELOW_FLOOR)?, at(0.5)?);
    let is_near = middle as f64 <= NEAR_FLOOR * floor as f64;
    // A beat has as many gaps below its period as above it.
    let (below, above) =
        (gaps.partition_point(|gap| *gap < middle), gaps.len() - gaps.partition_point(|gap| *gap <= middle));
    let is_skewed = above as f64 >= 2.0 * below as f64 || middle <= floor + 1;
    (gaps.len() >= GAPS_OF_A_FLOOR && floor >= 2 && is_near && is_skewed).then_some(floor)
}

/// Variance over mean of the number of beginnings in stretches that hold some sixteen, without the emptiest and the fullest. `None` for too
/// few stretches.
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
        // The last one is cut off; long pauses have none.
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
