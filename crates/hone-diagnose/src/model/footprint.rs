//! Amount of memory that the running code touches, and how well it is used.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use super::run::{Block, Part, Run};
use crate::cache::LINE_BITS;

/// Shares of the execution that have a footprint.
pub const SHARES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Pages of 4 KiB, as a power of two.
pub const PAGE_BITS: u32 = 12;
/// Pages of 2 MiB.
pub const LARGE_PAGE_BITS: u32 = 21;

/// A unit of memory: the object, and the unit's number in it.
pub type Unit = (Option<u32>, u64);
/// A value for each unit. There are millions, so this is not a map with std's hasher.
pub type Units<T> = HashMap<Unit, T, FxBuildHasher>;

/// Executed instructions by unit of 2^`bits` bytes. A block across several units is divided by its bytes.
pub fn heat(run: &Run, part: &Part, bits: u32) -> Units<f64> {
    let mut heat = Units::default();
    for (block, count) in that_ran(run, part) {
        let weight = count as f64 * f64::from(block.instructions) / f64::from(block.size);
        for (unit, bytes) in units(block, bits) {
            *heat.entry((block.object, unit)).or_insert(0.0) += weight * bytes as f64;
        }
    }
    heat
}

fn that_ran<'a>(run: &'a Run, part: &'a Part) -> impl Iterator<Item = (&'a Block, u64)> {
    let counted = run.blocks.iter().enumerate().map(|(index, block)| (block, part.count(index)));
    counted.filter(|(block, count)| *count > 0 && block.size > 0)
}

/// The units that a block touches, with its bytes in each.
fn units(block: &Block, bits: u32) -> impl Iterator<Item = (u64, u64)> {
    let (begin, end) = (block.address, block.end());
    let last = end.saturating_sub(1) >> bits;
    (begin >> bits..=last).map(move |unit| {
        let from = begin.max(unit << bits);
        let to = if unit == last { end } else { (unit + 1) << bits };
        (unit, to - from)
    })
}

/// Smallest number of units that hold each of the [`SHARES`] of the execution.
pub fn curve(heat: &Units<f64>) -> [u64; 4] {
    let mut weights: Vec<f64> = heat.values().copied().collect();
    weights.sort_by(|left, right| right.total_cmp(left));
    let total: f64 = weights.iter().sum();
    SHARES.map(|share| {
        let mut sum = 0.0;
        let reached = weights.iter().position(|weight| {
            sum += weight;
            // Rounding keeps sums of fractions slightly below the total.
            sum >= total * share * (1.0 - 1e-12)
        });
        reached.map_or(0, |index| index as u64 + 1)
    })
}

/// Mean number of bytes that ran per touched line; `None` without any.
pub fn bytes_used_of_a_line(run: &Run, part: &Part) -> Option<f64> {
    let lines = bytes_of_lines(run, part);
    let used: u32 = lines.values().map(|mask| mask.count_ones()).sum();
    (!lines.is_empty()).then(|| f64::from(used) / lines.len() as f64)
}

/// The bytes that ran of each touched line.
pub fn bytes_of_lines(run: &Run, part: &Part) -> Units<u64> {
    let mut lines: Units<u64> = Units::default();
    for (block, _) in that_ran(run, part) {
        let mut at = block.address;
        for (line, bytes) in units(block, LINE_BITS) {
            let mask = if bytes >= 64 { u64::MAX } else { ((1 << bytes) - 1) << (at & 63) };
            *lines.entry((block.object, line)).or_insert(0) |= mask;
            at += bytes;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block, run};
    use super::*;

    #[test]
    fn a_block_over_a_border_is_shared_out_by_bytes() {
        let run = run(&[(block(60, 8, 4), 10), (block(128, 4, 1), 60)], &[]);
        let part = &run.parts[0];
        let heat = heat(&run, part, LINE_BITS);
        assert_eq!((heat[&(Some(0), 0)], heat[&(Some(0), 1)], heat[&(Some(0), 2)]), (20.0, 20.0, 60.0));
        // 60, 80, 100 %.
        assert_eq!(curve(&heat), [1, 3, 3, 3]);
        assert_eq!(bytes_used_of_a_line(&run, part), Some(4.0));
    }

    #[test]
    fn what_never_ran_is_no_footprint() {
        let run = run(&[(block(0, 4096, 900), 0), (block(0, 200, 10), 1), (block(64, 64, 10), 1)], &[]);
        let part = &run.parts[0];
        assert_eq!(curve(&heat(&run, part, PAGE_BITS)), [1; 4]);
        // Lines 0, 1 and 2 whole, and 8 bytes of line 3.
        assert_eq!(bytes_used_of_a_line(&run, part), Some(50.0));
        assert_eq!(bytes_used_of_a_line(&run, &Part::default()), None);
        assert_eq!(curve(&Units::default()), [0; 4]);
    }

    #[test]
    fn objects_do_not_share_lines() {
        let other = Block { object: None, ..block(0, 64, 10) };
        let run = run(&[(block(0, 64, 10), 1), (other, 1)], &[]);
        assert_eq!(heat(&run, &run.parts[0], LINE_BITS).len(), 2);
    }
}
