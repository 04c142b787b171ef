//! Code that ran: blocks, their number of executions, their transitions, and windows of the exact order.

use std::collections::HashMap;

use crate::cache::{MODELS, WITH_DATA};
use crate::image::Image;

/// A file from which code was mapped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Object {
    /// Its path as the kernel reports it.
    pub path: String,
    /// Its contents; `None` if it can't be read: addresses are then file offsets.
    pub image: Option<Image>,
}

/// A stretch of code that is entered only at its beginning and left only at its end. Stretches may overlap: a jump into the middle of one
/// begins another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its object; `None` for code without a file (just-in-time compilers, the vdso).
    pub object: Option<u32>,
    /// Address of its first byte, as the object was linked (without an object, as it was mapped).
    pub address: u64,
    /// Size in bytes.
    pub size: u32,
    /// Number of instructions.
    pub instructions: u32,
    /// Offset of its last instruction, which may jump.
    pub last: u32,
    /// Whether the last instruction repeats itself (`rep movs`). Each repetition counts as an executed block, and not as a branch.
    pub repeats: bool,
}

impl Block {
    /// End address.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(u64::from(self.size))
    }

    /// Address of its last instruction.
    pub fn last_at(&self) -> u64 {
        self.address.saturating_add(u64::from(self.last))
    }

    /// Whether the transition to another block takes a branch.
    pub fn is_branch_to(&self, next: &Self) -> bool {
        let falls = self.object == next.object && self.end() == next.address;
        !falls && !self.repeats_as(next)
    }

    /// Whether the other block is the repetition of this block's last instruction.
    pub fn repeats_as(&self, next: &Self) -> bool {
        self.repeats && self.object == next.object && self.last_at() == next.address
    }
}

/// One block ran after another in the same thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edge {
    /// Index of the first block.
    pub from: u32,
    /// Index of the following block.
    pub to: u32,
    /// Number of times.
    pub count: u64,
}

/// A section of a thread's blocks in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Window {
    /// Its thread. The windows of a thread follow each other in order.
    pub thread: u32,
    /// Number of blocks at the start that only fill the caches.
    pub warm_up: usize,
    /// Indexes of the blocks.
    pub blocks: Vec<u32>,
}

/// Activity of the threads with one name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// Name of the threads in the system.
    pub name: String,
    /// Number of threads.
    pub threads: u64,
    /// Number of executions of each block, by its index.
    pub counts: Vec<u64>,
    /// Transitions in order; empty if the source has none.
    pub edges: Vec<Edge>,
    /// Fetched lines, and misses of each model, if they were simulated.
    pub simulated: Option<Simulated>,
}

/// Counts of a simulation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Simulated instructions.
    pub instructions: u64,
    /// Fetched lines; the same line again is not a fetch.
    pub fetched: u64,
    /// Misses of each structure.
    pub misses: [u64; MODELS.len()],
    /// Whether the structures from [`WITH_DATA`] on were simulated, too.
    pub has_data: bool,
}

/// Code that ran.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Run {
    /// Files.
    pub objects: Vec<Object>,
    /// Blocks; all other data refers to them by index.
    pub blocks: Vec<Block>,
    /// Parts, sorted by instructions.
    pub parts: Vec<Part>,
    /// Samples of the order.
    pub windows: Vec<Window>,
}

impl Part {
    /// Number of executions of a block.
    pub fn count(&self, block: usize) -> u64 {
        self.counts.get(block).copied().unwrap_or(0)
    }

    /// Executed instructions.
    pub fn instructions(&self, run: &Run) -> u64 {
        let of =
            |(index, block): (usize, &Block)| self.count(index).saturating_mul(u64::from(block.instructions));
        run.blocks.iter().enumerate().map(of).fold(0, u64::saturating_add)
    }

    /// Adds another part.
    fn add(&mut self, other: &Self) {
        self.threads += other.threads;
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        let mut edges: HashMap<(u32, u32), u64> = HashMap::with_capacity(self.edges.len());
        for edge in self.edges.iter().chain(&other.edges) {
            let count = edges.entry((edge.from, edge.to)).or_insert(0);
            *count = count.saturating_add(edge.count);
        }
        self.edges = edges.into_iter().map(|((from, to), count)| Edge { from, to, count }).collect();
        self.edges.sort_unstable();
        self.simulated = match (self.simulated, other.simulated) {
            (Some(one), Some(other)) => Some(one.and(&other)),
            (one, other) => one.or(other),
        };
    }
}

impl Simulated {
    pub(super) fn and(&self, other: &Self) -> Self {
        Self {
            instructions: self.instructions.saturating_add(other.instructions),
            fetched: self.fetched.saturating_add(other.fetched),
            misses: std::array::from_fn(|model| self.misses[model].saturating_add(other.misses[model])),
            has_data: self.has_data || other.has_data,
        }
    }

    /// Number of simulated structures.
    pub fn structures(&self) -> usize {
        if self.has_data { MODELS.len() } else { WITH_DATA }
    }

    /// Misses of a structure per 1,000 instructions.
    pub fn per_1000(&self, model: usize) -> f64 {
        let misses = self.misses.get(model).copied().unwrap_or(0);
        1_000.0 * misses as f64 / self.instructions.max(1) as f64
    }
}

impl Run {
    /// All parts as one.
    pub fn whole(&self) -> Part {
        if let [only] = &self.parts[..] {
            let mut whole = Part { name: String::new(), ..only.clone() };
            whole.counts.resize(self.blocks.len(), 0);
            return whole;
        }
        let mut whole = Part { counts: vec![0; self.blocks.len()], ..Part::default() };
        self.parts.iter().for_each(|part| whole.add(part));
        whole
    }

    /// The blocks of an edge; `None` if one is missing.
    pub fn ends(&self, edge: &Edge) -> Option<(&Block, &Block)> {
        Some((self.blocks.get(edge.from as usize)?, self.blocks.get(edge.to as usize)?))
    }

    /// Name of a block's function in its object.
    pub fn function_of(&self, block: &Block) -> Option<&str> {
        let image = self.objects.get(block.object? as usize)?.image.as_ref()?;
        Some(&image.function_at(block.address)?.name)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A block of the first object.
    pub(crate) fn block(address: u64, size: u32, instructions: u32) -> Block {
        Block { object: Some(0), address, size, instructions, last: 0, repeats: false }
    }

    /// A run of one part.
    pub(crate) fn run(blocks: &[(Block, u64)], edges: &[(u32, u32, u64)]) -> Run {
        let edges = edges.iter().map(|&(from, to, count)| Edge { from, to, count });
        Run {
            blocks: blocks.iter().map(|(block, _)| *block).collect(),
            parts: vec![Part {
                threads: 1,
                counts: blocks.iter().map(|(_, count)| *count).collect(),
                edges: edges.collect(),
                ..Part::default()
            }],
            ..Run::default()
        }
    }

    #[test]
    fn an_instruction_that_repeats_itself_takes_no_branch() {
        let copies = Block { last: 6, repeats: true, ..block(0, 8, 3) };
        let again = Block { repeats: true, ..block(6, 2, 1) };
        assert!(copies.repeats_as(&again) && again.repeats_as(&again) && !copies.is_branch_to(&again));
        assert!(!copies.is_branch_to(&block(8, 4, 1)) && copies.is_branch_to(&block(16, 4, 1)));
        let loops = Block { last: 6, ..block(0, 8, 3) };
        assert!(loops.is_branch_to(&block(6, 2, 1)));
        let elsewhere = Block { object: Some(1), ..block(8, 4, 1) };
        assert!(copies.is_branch_to(&elsewhere), "the same number in another file is no neighbour");
    }

    #[test]
    fn parts_add_up() {
        let mut one = run(&[(block(0, 4, 2), 5), (block(4, 4, 1), 5)], &[(0, 1, 5)]);
        let more = Part {
            threads: 2,
            counts: vec![1, 1],
            edges: vec![Edge { from: 0, to: 1, count: 1 }, Edge { from: 1, to: 0, count: 1 }],
            simulated: Some(Simulated { instructions: 3, ..Simulated::default() }),
            ..Part::default()
        };
        one.parts.push(more);
        let whole = one.whole();
        assert_eq!((whole.threads, whole.counts.clone(), whole.instructions(&one)), (3, vec![6, 6], 18));
        assert_eq!(whole.edges[0], Edge { from: 0, to: 1, count: 6 });
        assert_eq!(whole.simulated.unwrap().instructions, 3);
    }
}
