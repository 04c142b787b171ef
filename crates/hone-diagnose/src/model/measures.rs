//! All measures of a layout, computed from the model.

use std::collections::HashMap;

use hone_record::{CodeLayout, Footprint, Missed, ObjectShare};

use super::conflicts::conflicts;
use super::ext_tsp::ext_tsp;
use super::footprint::{LARGE_PAGE_BITS, PAGE_BITS, bytes_used_of_a_line, curve, heat};
use super::run::{Edge, Part, Run, Simulated};
use crate::cache::{Geometry, LINE_BITS, MODELS};

/// Layout of a part's code in memory.
pub fn layout(run: &Run, part: &Part) -> CodeLayout {
    let instructions = part.instructions(run);
    let per_1000 = |count: u64| 1_000.0 * count as f64 / instructions.max(1) as f64;
    let has_order = !part.edges.is_empty();
    CodeLayout {
        instructions,
        footprints: [LINE_BITS, PAGE_BITS, LARGE_PAGE_BITS]
            .map(|bits| Footprint { unit_bytes: 1 << bits, units: curve(&heat(run, part, bits)) })
            .into(),
        bytes_used_of_a_line: bytes_used_of_a_line(run, part).unwrap_or(0.0),
        taken_per_1000: has_order.then(|| per_1000(taken(run, part))),
        ext_tsp: ext_tsp(run, part),
        lines_fetched_per_1000: part
            .simulated
            .map(|simulated| 1_000.0 * simulated.fetched as f64 / simulated.instructions.max(1) as f64),
        misses: part.simulated.as_ref().map(missed).unwrap_or_default(),
        crowded_sets: conflicts(run, part).crowded(),
        repeated_share: repeated(run, part) as f64 / instructions.max(1) as f64,
        objects: objects(run, part),
    }
}

/// Misses of each structure.
pub fn missed(simulated: &Simulated) -> Vec<Missed> {
    let of = |(model, geometry): (usize, &Geometry)| Missed {
        structure: geometry.name.to_owned(),
        per_1000: simulated.per_1000(model),
    };
    MODELS.iter().take(simulated.structures()).enumerate().map(of).collect()
}

/// Transitions that did not go to the next byte.
fn taken(run: &Run, part: &Part) -> u64 {
    let is_taken = |edge: &&Edge| run.ends(edge).is_some_and(|(from, to)| from.is_branch_to(to));
    part.edges.iter().filter(is_taken).map(|edge| edge.count).fold(0, u64::saturating_add)
}

/// Instructions that only repeated themselves.
fn repeated(run: &Run, part: &Part) -> u64 {
    let repeats = |edge: &&Edge| run.ends(edge).is_some_and(|(from, to)| from.repeats_as(to));
    part.edges.iter().filter(repeats).map(|edge| edge.count).fold(0, u64::saturating_add)
}

/// Share of each object in the execution, the largest first.
pub fn objects(run: &Run, part: &Part) -> Vec<ObjectShare> {
    let instructions = part.instructions(run);
    let mut sums: HashMap<Option<u32>, u64> = HashMap::new();
    for (index, block) in run.blocks.iter().enumerate() {
        let sum = sums.entry(block.object).or_insert(0);
        *sum = sum.saturating_add(part.count(index).saturating_mul(u64::from(block.instructions)));
    }
    let path = |object: u32| run.objects.get(object as usize).map(|object| object.path.clone());
    let mut shares: Vec<ObjectShare> = sums
        .into_iter()
        .filter(|(_, sum)| *sum > 0)
        .map(|(object, sum)| ObjectShare {
            path: object.and_then(path),
            share: sum as f64 / instructions.max(1) as f64,
        })
        .collect();
    shares.sort_by(|left, right| right.share.total_cmp(&left.share).then(left.path.cmp(&right.path)));
    shares
}

#[cfg(test)]
mod tests {
    use super::super::run::{Block, Object};
    use super::super::tests::{block, run};
    use super::*;

    #[test]
    fn everything_is_told_of_what_ran() {
        let copies = Block { last: 6, repeats: true, ..block(64, 8, 3) };
        let again = Block { repeats: true, ..block(70, 2, 1) };
        let elsewhere = Block { object: None, ..block(1 << 30, 4, 10) };
        let blocks = [(block(0, 64, 7), 10), (copies, 10), (again, 70), (elsewhere, 10)];
        let mut run = run(&blocks, &[(0, 1, 10), (1, 2, 10), (2, 2, 60), (2, 3, 10), (3, 0, 9)]);
        run.objects.push(Object { path: "/bin/x".to_owned(), image: None });
        let mut misses = [0; MODELS.len()];
        misses[0] = 27;
        run.parts[0].simulated = Some(Simulated { instructions: 270, fetched: 54, misses, has_data: false });
        let found = layout(&run, &run.parts[0]);
        // 70 + 30 + 70 + 100 instructions; 19 branches; 70 repetitions.
        assert_eq!(found.instructions, 270);
        assert!((found.taken_per_1000.unwrap() - 1_000.0 * 19.0 / 270.0).abs() < 1e-9);
        assert!((found.repeated_share - 70.0 / 270.0).abs() < 1e-9);
        assert_eq!(found.missed("L1i 32 KiB 8-way"), Some(100.0));
        assert_eq!(found.lines_fetched_per_1000, Some(200.0));
        assert_eq!(found.footprints[1], Footprint { unit_bytes: 4096, units: [1, 2, 2, 2] });
        let shares: Vec<_> = found.objects.iter().map(|object| object.path.as_deref()).collect();
        assert_eq!(shares, [Some("/bin/x"), None]);
    }

    #[test]
    fn without_an_order_nothing_is_said_of_it() {
        let run = run(&[(block(0, 64, 7), 10)], &[]);
        let found = layout(&run, &run.parts[0]);
        assert_eq!((found.taken_per_1000, found.ext_tsp, found.misses.len()), (None, None, 0));
        assert_eq!(found.lines_fetched_per_1000, None);
    }
}
