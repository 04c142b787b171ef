//! A trace as a BOLT profile, in the form that perf2bolt calls pre-aggregated: counted branches and fall-through stretches. It needs
//! neither hardware branch counters nor an instrumented build.
//!
//! `B FROM TO COUNT MISPREDICTED` is a branch, `F FROM TO COUNT` a fall-through stretch. Addresses are as linked, in hex
//! (`bolt/lib/Profile/DataAggregator.cpp`).

mod read;

use std::fmt::Write as _;

use crate::model::{Part, Run};

pub use read::{AggregatedFault, begins, read};

/// How to count branches, for a user with clock samples.
pub const BRANCHES: &str = "record branches: `perf record -b` and perf2bolt, a program that BOLT \
    instrumented, or `hone diagnose` on the program itself, which needs no counters";

/// Stands for all addresses outside the program, since no code has it. perf2bolt takes it for another file's address.
const OUTSIDE: u64 = 0x7fff_ffff_f000;

/// A profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aggregated {
    /// The text.
    pub text: String,
    /// Executed instructions of the program itself.
    pub instructions: u64,
    /// Lines.
    pub records: u64,
}

/// The profile of one object. Empty if none of it ran.
pub fn of_object(run: &Run, part: &Part, object: u32) -> Aggregated {
    let mut found = Aggregated::default();
    for (index, block) in run.blocks.iter().enumerate() {
        let count = part.count(index);
        if block.object == Some(object) && count > 0 {
            found.instructions =
                found.instructions.saturating_add(count.saturating_mul(u64::from(block.instructions)));
            found.falls(block.address, block.last_at(), count);
        }
    }
    for edge in &part.edges {
        let Some((from, to)) = run.ends(edge) else { continue };
        match (from.object == Some(object), to.object == Some(object)) {
            // The repetition of an instruction is not a branch for BOLT.
            (true, true) if from.repeats_as(to) => {}
            (true, true) if from.is_branch_to(to) => found.branches(from.last_at(), to.address, edge.count),
            (true, true) => found.falls(from.last_at(), to.address, edge.count),
            (true, false) => found.branches(from.last_at(), OUTSIDE, edge.count),
            (false, true) => found.branches(OUTSIDE, to.address, edge.count),
            (false, false) => {}
        }
    }
    found
}

impl Aggregated {
    fn branches(&mut self, from: u64, to: u64, count: u64) {
        let _ = writeln!(self.text, "B {from:x} {to:x} {count} 0");
        self.records += 1;
    }

    fn falls(&mut self, from: u64, to: u64, count: u64) {
        let _ = writeln!(self.text, "F {from:x} {to:x} {count}");
        self.records += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Block, Edge};

    #[test]
    fn a_loop_with_a_call_of_a_library_and_a_copy() {
        let block = |object, address, last| Block {
            object: Some(object),
            address,
            size: last + 2,
            instructions: 3,
            last,
            repeats: false,
        };
        let copies = Block { repeats: true, ..block(0, 0x1200, 6) };
        let again = Block { repeats: true, size: 2, ..block(0, 0x1206, 0) };
        let blocks = vec![block(0, 0x1000, 4), block(0, 0x1006, 8), block(1, 0x500, 2), copies, again];
        let edges = [(0, 1, 9), (1, 0, 8), (1, 2, 1), (2, 0, 1), (3, 4, 2), (4, 4, 30)];
        let part = Part {
            counts: vec![9, 9, 1, 2, 32],
            edges: edges.map(|(from, to, count)| Edge { from, to, count }).into(),
            ..Part::default()
        };
        let run = Run { blocks, ..Run::default() };
        let found = of_object(&run, &part, 0);
        assert_eq!(
            found.text,
            "F 1000 1004 9\nF 1006 100e 9\nF 1200 1206 2\nF 1206 1206 32\nF 1004 1006 9\nB 100e 1000 8 0\n\
             B 100e 7ffffffff000 1 0\nB 7ffffffff000 1000 1 0\n"
        );
        assert_eq!((found.records, found.instructions), (8, 27 + 27 + 6 + 96));
        assert_eq!(of_object(&run, &part, 7), Aggregated::default());
    }
}
