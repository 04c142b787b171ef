//! Lines that compete for the same cache sets: code that would fit by its size, but not by its addresses.

use super::footprint::{SHARES, Units, heat};
use super::run::{Part, Run};
use crate::cache::{L1I_32K, LINE_BITS, MODELS};

/// Distribution of the hot lines over the sets of the smallest model.
#[derive(Debug, Clone, PartialEq)]
pub struct Conflicts {
    /// By set: number of its lines among those with 99 % of the execution.
    pub lines: Vec<u32>,
    /// By set: its share of the execution.
    pub share: Vec<f64>,
    /// Lines per set.
    pub ways: u32,
}

impl Conflicts {
    /// Sets with more hot lines than they hold.
    pub fn crowded(&self) -> u32 {
        self.lines.iter().filter(|lines| **lines > self.ways).count() as u32
    }
}

/// Offsets in a page do not depend on where the system puts an object, and the sets of this model use only these offsets.
pub fn conflicts(run: &Run, part: &Part) -> Conflicts {
    conflicts_of(&heat(run, part, LINE_BITS))
}

/// The same from the known heat of all lines.
pub fn conflicts_of(heat: &Units<f64>) -> Conflicts {
    let model = &MODELS[L1I_32K];
    let mut heat: Vec<_> = heat.iter().map(|(unit, heat)| (*unit, *heat)).collect();
    heat.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    let total: f64 = heat.iter().map(|(_, heat)| heat).sum();
    let sets = model.sets as usize;
    let (mut lines, mut share, mut sum) = (vec![0; sets], vec![0.0; sets], 0.0);
    for ((_, line), heat) in heat {
        let set = (line % u64::from(model.sets)) as usize;
        share[set] += heat / total;
        if sum < total * SHARES[2] {
            lines[set] += 1;
        }
        sum += heat;
    }
    Conflicts { lines, share, ways: model.ways }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block, run};
    use super::*;

    #[test]
    fn nine_lines_a_page_apart_crowd_one_set() {
        let blocks: Vec<_> = (0..9).map(|page| (block(page << 12, 64, 4), 10)).collect();
        let one = run(&blocks, &[]);
        let found = conflicts(&one, &one.parts[0]);
        assert_eq!((found.crowded(), found.lines[0]), (1, 9));
        assert!((found.share[0] - 1.0).abs() < 1e-9, "{found:?}");
        let blocks: Vec<_> = (0..512).map(|line| (block(line << 6, 64, 4), 10)).collect();
        let spread = run(&blocks, &[]);
        let found = conflicts(&spread, &spread.parts[0]);
        assert_eq!((found.crowded(), found.lines.iter().max()), (0, Some(&8)));
    }
}
