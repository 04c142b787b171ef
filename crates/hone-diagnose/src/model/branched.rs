//! Model of counted branches, such as those in BOLT's profiles. It knows how often each branch was taken, but not what ran between them.
//!
//! The rest follows from the flow. Within a function, code is cut at every branch target and after every branch. A stretch between two cuts
//! runs as often as branches go to its beginning, plus the fall-throughs of the stretch before it. Its fall-throughs are its runs minus the
//! times its last instruction was taken. A stretch whose branch was taken more often than it seems to run, ran that often.
//!
//! BOLT's text profiles hold more: a block that continues with the next one has a record like a branch, whether BOLT instrumented the
//! program or read branch samples. If there are such records, code falls through by them alone. The pre-aggregated form has stretches for
//! it.
//!
//! These parts are approximations:
//! - If only taken branches are known, a missing return is invisible, and the code before it seems to fall through to the code after it.
//! - After a call, code runs as often as returns come to it. If no return is recorded (a program that BOLT instrumented records none), it
//!   runs as often as before: calls that do not return count as if they did.
//! - The instructions of a stretch are its bytes divided by [`BYTES_OF_AN_INSTRUCTION`], since only branches are decoded. A stretch that
//!   ends without a branch (because of a jump into its middle) gets a last instruction of the same length.
//! - For sampled branches, inflow and outflow differ by chance; a negative difference counts as zero.
//! - Code without a symbol is left out.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::run::{Block, Edge, Object, Part, Run};
use crate::branch::{self, Decoded, Way};
use crate::image::Image;

/// About the mean on x86-64; on aarch64 it is exact.
pub const BYTES_OF_AN_INSTRUCTION: u64 = 4;
/// Largest length of an instruction that continues with the next one.
const LONGEST_INSTRUCTION: u64 = 15;

/// A taken branch; addresses as linked, `None` outside the program. BOLT's text also counts branches that are not taken, as branches to the
/// next instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// Address of the branch.
    pub from: Option<u64>,
    /// Its target.
    pub to: Option<u64>,
    /// Number of times.
    pub count: u64,
}

/// A stretch that ran without a taken branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fall {
    /// Address of its first instruction.
    pub from: u64,
    /// Address of its last instruction.
    pub to: u64,
    /// Number of times.
    pub count: u64,
}

/// The counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Branched {
    /// Branches.
    pub branches: Vec<Branch>,
    /// Stretches, if the source has them. They then determine the fall-throughs.
    pub falls: Vec<Fall>,
}

/// The wanted parts of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Depth {
    /// Which code ran, and how often. A map needs only this.
    Blocks,
    /// Also the transitions.
    #[default]
    Edges,
}

/// Builds the model from counted branches of one program; `file` are its bytes.
pub fn of_branches(object: Object, file: &[u8], counted: &Branched, depth: Depth) -> Run {
    let none = Image::default();
    let image = object.image.as_ref().unwrap_or(&none);
    let decoded = |address: u64| branch::at(image, file, address);
    let mut functions = Functions { all: BTreeMap::new(), extent: Extent::new(image) };
    functions.take_branches(&counted.branches, decoded);
    for fall in counted.falls.iter().filter(|fall| fall.count > 0) {
        if let Some(function) = functions.at(fall.from) {
            function.falls.push(*fall);
        }
    }
    let mut flow = Flow { on: On::from_counts(counted, decoded), depth, ..Flow::default() };
    functions.all.values().for_each(|function| flow.through(function));
    drop(functions);
    flow.finish(object, &counted.branches)
}

/// Functions with a count, sorted by start.
struct Functions<'a> {
    all: BTreeMap<u64, Function>,
    extent: Extent<'a>,
}

impl Functions<'_> {
    fn at(&mut self, address: u64) -> Option<&mut Function> {
        let (begin, end) = self.extent.at(Some(address))?;
        Some(self.all.entry(begin).or_insert_with(|| Function::new(begin, end)))
    }

    /// Sources and targets of branches, each sorted by address: millions of sequential accesses cost far less than random ones.
    fn take_branches(&mut self, branches: &[Branch], decoded: impl Fn(u64) -> Option<Decoded> + Copy) {
        let mut targets: Vec<(u64, u64, bool)> = Vec::with_capacity(branches.len());
        for branch in branches.iter().filter(|branch| branch.count > 0) {
            if let Some((from, function)) = branch.from.and_then(|from| Some((from, self.at(from)?))) {
                function.source(from, branch.count, decoded);
            }
            if let Some(to) = branch.to {
                let leaves = self.extent.at(branch.from);
                let is_within = leaves.is_some_and(|(begin, end)| (begin..end).contains(&to));
                let returns =
                    || branch.from.and_then(decoded).is_some_and(|decoded| decoded.way == Way::Returns);
                targets.push((to, branch.count, !is_within || returns()));
            }
        }
        targets.sort_unstable_by_key(|(to, ..)| *to);
        for same in targets.chunk_by(|one, next| one.0 == next.0) {
            let to = same[0].0;
            if let Some(function) = self.at(to) {
                let count = same.iter().fold(0_u64, |sum, (_, count, _)| sum.saturating_add(*count));
                let comes_back = same.iter().any(|(.., comes_back)| *comes_back);
                function.target(to, count, comes_back && to != function.begin);
            }
        }
    }
}

/// Share of the taken branches that begin within a function at a place where the file has no branch. If it is large, the counts belong to
/// another build. 0 if nothing can be said.
pub fn foreign_share(image: &Image, file: &[u8], counted: &Branched) -> f64 {
    let (mut foreign, mut all, mut leaving) = (0_u64, 0_u64, Extent::new(image));
    for branch in &counted.branches {
        let Some(from) = branch.from.filter(|from| leaving.at(Some(*from)).is_some()) else { continue };
        // Any instruction can continue with the next one.
        let goes_on = |to: u64| to.checked_sub(from).is_some_and(|behind| behind <= LONGEST_INSTRUCTION);
        if branch.to.is_some_and(goes_on) {
            continue;
        }
        all = all.saturating_add(branch.count);
        if branch::at(image, file, from).is_none() {
            foreign = foreign.saturating_add(branch.count);
        }
    }
    if all == 0 || !branch::is_known(file) { 0.0 } else { foreign as f64 / all as f64 }
}

/// Start and end of the last address's function, since neighbours are mostly in the same one.
struct Extent<'a> {
    image: &'a Image,
    last: (u64, u64),
}

impl<'a> Extent<'a> {
    fn new(image: &'a Image) -> Self {
        Self { image, last: (0, 0) }
    }

    fn at(&mut self, address: Option<u64>) -> Option<(u64, u64)> {
        let address = address?;
        let (begin, end) = self.last;
        if !(begin..end).contains(&address) {
            self.last = self.image.extent_at(address)?;
        }
        Some(self.last)
    }
}

/// Source of the number of fall-throughs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum On {
    /// Runs minus taken branches.
    #[default]
    Left,
    /// Branches to the next instruction.
    Branches,
    /// Counted stretches.
    Stretches,
}

impl On {
    fn from_counts(counted: &Branched, decoded: impl Fn(u64) -> Option<Decoded>) -> Self {
        let is_next = |branch: &Branch| {
            let (Some(from), Some(to)) = (branch.from, branch.to) else { return false };
            let behind = to.checked_sub(from).filter(|behind| (1..=LONGEST_INSTRUCTION).contains(behind));
            behind.is_some_and(|behind| {
                // Only instructions that may continue with the next one, since a jump over zero bytes is not one.
                decoded(from).is_none_or(|decoded| {
                    decoded.way == Way::Conditional && u64::from(decoded.size) == behind
                })
            })
        };
        if !counted.falls.is_empty() {
            Self::Stretches
        } else if counted.branches.iter().any(is_next) {
            Self::Branches
        } else {
            Self::Left
        }
    }
}

/// Counts of one function.
struct Function {
    begin: u64,
    end: u64,
    /// Number of branches to each address.
    targets: BTreeMap<u64, u64>,
    /// Targets of returns.
    returned_to: BTreeSet<u64>,
    /// By address.
    sources: BTreeMap<u64, Source>,
    falls: Vec<Fall>,
}

/// An instruction with counted branches.
#[derive(Clone, Copy)]
struct Source {
    at: u64,
    taken: u64,
    /// The known branch; `None` for an instruction that BOLT counts as continuing, or on another machine.
    decoded: Option<Decoded>,
}

impl Function {
    fn new(begin: u64, end: u64) -> Self {
        Self {
            begin,
            end,
            targets: BTreeMap::new(),
            returned_to: BTreeSet::new(),
            sources: BTreeMap::new(),
            falls: Vec::new(),
        }
    }

    fn source(&mut self, at: u64, count: u64, decoded: impl Fn(u64) -> Option<Decoded>) {
        let source = self.sources.entry(at).or_insert_with(|| Source { at, taken: 0, decoded: decoded(at) });
        source.taken = source.taken.saturating_add(count);
    }

    fn target(&mut self, at: u64, count: u64, is_of_a_return: bool) {
        let sum = self.targets.entry(at).or_insert(0);
        *sum = sum.saturating_add(count);
        if is_of_a_return {
            self.returned_to.insert(at);
        }
    }

    /// Sources by the end of their instruction. Of two with the same end the last one stays, with the counts of both.
    fn ends(&self) -> BTreeMap<u64, Source> {
        let mut ends: BTreeMap<u64, Source> = BTreeMap::new();
        for source in self.sources.values() {
            let end = self.end_of(source);
            let before = ends.get(&end).map_or(0, |before| before.taken);
            ends.insert(end, Source { taken: source.taken.saturating_add(before), ..*source });
        }
        ends
    }

    fn end_of(&self, source: &Source) -> u64 {
        let behind = source.at.saturating_add(1)..=source.at.saturating_add(LONGEST_INSTRUCTION);
        let end = match source.decoded {
            Some(decoded) => source.at.saturating_add(u64::from(decoded.size)),
            None => self
                .targets
                .range(behind)
                .next()
                .map_or(source.at.saturating_add(BYTES_OF_AN_INSTRUCTION), |(target, _)| *target),
        };
        end.min(self.end)
    }

    /// Starts of stretches, in order.
    fn cuts(&self, ends: &BTreeMap<u64, Source>) -> Vec<u64> {
        let all = [self.begin].into_iter().chain(self.targets.keys().copied()).chain(ends.keys().copied());
        let mut cuts: Vec<u64> = all.filter(|cut| (self.begin..self.end).contains(cut)).collect();
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }

    /// By cut: the number of counted stretches that cross it, and the largest number that one of them implies for the code after it.
    fn fallen(&self, cuts: &[u64]) -> (Vec<u64>, Vec<u64>) {
        let (mut crossing, mut least) = (vec![0_u64; cuts.len()], vec![0_u64; cuts.len()]);
        let mut steps: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for fall in &self.falls {
            let first = cuts.partition_point(|cut| *cut <= fall.from);
            let behind = cuts.partition_point(|cut| *cut <= fall.to);
            if let Some(least) = first.checked_sub(1).and_then(|holds| least.get_mut(holds)) {
                *least = fall.count.max(*least);
            }
            if first < behind {
                let begins = &mut steps.entry(first).or_default().0;
                *begins = begins.saturating_add(fall.count);
                let ends = &mut steps.entry(behind).or_default().1;
                *ends = ends.saturating_add(fall.count);
            }
        }
        let mut now = 0_u64;
        for (cut, crossing) in crossing.iter_mut().enumerate() {
            let (begins, ends) = steps.get(&cut).copied().unwrap_or_default();
            now = now.saturating_add(begins).saturating_sub(ends);
            *crossing = now;
        }
        (crossing, least)
    }

    /// Number of fall-throughs of a stretch with this many runs.
    fn falls_on(&self, on: On, count: u64, ends_with: Option<&Source>, behind: u64) -> u64 {
        let way = ends_with.and_then(|source| source.decoded).map(|decoded| decoded.way);
        match (way, ends_with) {
            (Some(Way::Call), _) if self.returned_to.contains(&behind) => 0,
            (Some(Way::Call), _) => count,
            (Some(Way::Leaves | Way::Returns), _) => 0,
            _ if on == On::Branches => 0,
            (_, Some(source)) => count.saturating_sub(source.taken),
            (_, None) => count,
        }
    }
}

/// Stretches that ran, of all functions so far.
#[derive(Default)]
struct Flow {
    on: On,
    depth: Depth,
    blocks: Vec<Block>,
    counts: Vec<u64>,
    edges: Vec<Edge>,
    /// Indexed by the branch at its end.
    by_source: FxHashMap<u64, u32>,
    by_begin: FxHashMap<u64, u32>,
}

impl Flow {
    fn through(&mut self, function: &Function) {
        let ends = function.ends();
        let cuts = function.cuts(&ends);
        let (crossing, least) = function.fallen(&cuts);
        let (mut falls_in, mut before) = (0, None);
        for (index, &cut) in cuts.iter().enumerate() {
            let behind = cuts.get(index + 1).copied().unwrap_or(function.end);
            let ends_with = ends.get(&behind);
            if self.on == On::Stretches {
                falls_in = crossing[index];
            }
            let enters = function.targets.get(&cut).copied().unwrap_or(0);
            let taken = ends_with.map_or(0, |source| source.taken);
            let count = enters.saturating_add(falls_in).max(taken).max(least[index]);
            let block = (count > 0).then(|| self.block(cut, behind, ends_with, count));
            let has_edge = falls_in > 0 && self.depth == Depth::Edges;
            if let (Some(from), Some(to), true) = (before, block, has_edge) {
                self.edges.push(Edge { from, to, count: falls_in });
            }
            falls_in = function.falls_on(self.on, count, ends_with, behind);
            before = block;
        }
    }

    fn block(&mut self, begin: u64, end: u64, ends_with: Option<&Source>, count: u64) -> u32 {
        let index = self.blocks.len() as u32;
        let size = end - begin;
        let last = ends_with.map_or(end.saturating_sub(BYTES_OF_AN_INSTRUCTION), |source| source.at);
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        self.blocks.push(Block {
            object: Some(0),
            address: begin,
            size: small(size),
            instructions: small(size.div_ceil(BYTES_OF_AN_INSTRUCTION)),
            last: small(last.saturating_sub(begin)),
            repeats: false,
        });
        self.counts.push(count);
        if self.depth == Depth::Blocks {
            return index;
        }
        self.by_begin.insert(begin, index);
        if let Some(source) = ends_with {
            self.by_source.insert(source.at, index);
        }
        index
    }

    fn finish(mut self, object: Object, branches: &[Branch]) -> Run {
        for branch in branches.iter().filter(|_| self.depth == Depth::Edges) {
            let from = branch.from.and_then(|from| self.by_source.get(&from));
            let to = branch.to.and_then(|to| self.by_begin.get(&to));
            if let (Some(&from), Some(&to), 1..) = (from, to, branch.count) {
                self.edges.push(Edge { from, to, count: branch.count });
            }
        }
        self.edges.sort_unstable();
        self.edges.dedup_by(|next, sum| {
            let is_same = (next.from, next.to) == (sum.from, sum.to);
            if is_same {
                sum.count = sum.count.saturating_add(next.count);
            }
            is_same
        });
        let name = "all threads".to_owned();
        let part = Part { name, threads: 1, counts: self.counts, edges: self.edges, simulated: None };
        Run { objects: vec![object], blocks: self.blocks, parts: vec![part], windows: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;

    /// Functions of 64 bytes from 0x1000 on, in a file of x86-64 whose bytes are their addresses.
    fn program(code: &[(u64, &[u8])]) -> (Object, Vec<u8>) {
        let mut file = vec![0x90; 0x2000];
        file[18..20].copy_from_slice(&[62, 0]);
        for (address, bytes) in code {
            let at = *address as usize;
            file[at..at + bytes.len()].copy_from_slice(bytes);
        }
        let functions = ["f", "g"].into_iter().zip([0x1000, 0x1040]);
        let functions =
            functions.map(|(name, address)| image::Function { address, size: 64, name: name.to_owned() });
        let image = image::Image::of_functions(functions.collect(), 0x2000);
        (Object { path: "/bin/x".to_owned(), image: Some(image) }, file)
    }

    fn branch(from: u64, to: u64, count: u64) -> Branch {
        let within = |address: u64| (address > 0).then_some(address);
        Branch { from: within(from), to: within(to), count }
    }

    fn counts(run: &Run) -> Vec<(u64, u32, u64)> {
        let blocks = run.blocks.iter().zip(&run.parts[0].counts);
        blocks.map(|(block, count)| (block.address, block.size, *count)).collect()
    }

    const JE: &[u8] = &[0x74, 0x10];
    const JMP: &[u8] = &[0xeb, 0x10];
    const CALL: &[u8] = &[0xe8, 0, 0, 0, 0];
    const RET: &[u8] = &[0xc3];

    #[test]
    fn a_loop_with_a_cold_side_and_a_call() {
        // f: 1000 loop head; 1008 je 1020; 1010 call g; 1018 jne 1000; 101a ret ... 1020 cold, 1028 jmp 1018.
        let code = [(0x1008, JE), (0x1010, CALL), (0x1018, JE), (0x101a, RET), (0x1028, JMP), (0x1044, RET)];
        let (object, file) = program(&code);
        let branches = vec![
            branch(0, 0x1000, 1),
            branch(0x1008, 0x1020, 3),
            branch(0x1010, 0x1040, 7),
            branch(0x1018, 0x1000, 9),
            branch(0x1028, 0x1018, 3),
        ];
        let counted = Branched { branches: branches.clone(), falls: Vec::new() };
        let run = of_branches(object.clone(), &file, &counted, Depth::Edges);
        let wanted = [
            (0x1000, 10, 10),
            (0x100a, 11, 7),
            // No return is known, so the call came back each time.
            (0x1015, 3, 7),
            (0x1018, 2, 10),
            // Nothing is known of the ret at 101a, so what fell through reaches the cold side's beginning.
            (0x101a, 6, 1),
            (0x1020, 10, 4),
            (0x1040, 64, 7),
        ];
        assert_eq!(counts(&run), wanted);
        assert_eq!(run.blocks[0].last, 8);
        let edge = |from: u64, to: u64| {
            let at = |address| run.blocks.iter().position(|block| block.address == address).unwrap() as u32;
            let found = run.parts[0].edges.iter().find(|edge| (edge.from, edge.to) == (at(from), at(to)));
            found.map_or(0, |edge| edge.count)
        };
        assert_eq!((edge(0x1000, 0x100a), edge(0x1000, 0x1020), edge(0x1018, 0x1000)), (7, 3, 9));

        // With the returns it is exact.
        let mut all = branches;
        all.extend([branch(0x1044, 0x1015, 6), branch(0x101a, 0, 1)]);
        let run = of_branches(object, &file, &Branched { branches: all, falls: Vec::new() }, Depth::Edges);
        let of =
            |address| counts(&run).into_iter().find(|(begin, ..)| *begin == address).map(|(.., count)| count);
        assert_eq!([of(0x1015), of(0x1018), of(0x101a), of(0x1020), of(0x1040)], [6, 9, 1, 3, 7].map(Some));
        assert_eq!(of(0x1045), None, "nothing runs behind a return");
    }

    /// What BOLT's instrumentation writes: the way that is not taken is a record, too, and the last instruction before a loop is a source.
    #[test]
    fn edges_that_are_not_taken_are_not_counted_twice() {
        let (object, file) = program(&[(0x1020, JE)]);
        let branches = vec![
            branch(0, 0x1000, 10),
            branch(0x100b, 0x1010, 10),
            branch(0x1020, 0x1010, 240),
            branch(0x1020, 0x1022, 8),
            branch(0x1020, 0x1030, 2),
        ];
        let run = of_branches(object, &file, &Branched { branches, falls: Vec::new() }, Depth::Edges);
        // The code at 1022 returns, although no record shows it: it does not fall through.
        assert_eq!(counts(&run), [(0x1000, 16, 10), (0x1010, 18, 250), (0x1022, 14, 8), (0x1030, 16, 2)]);
        let taken = |edge: &&Edge| {
            let (from, to) = run.ends(edge).unwrap();
            from.is_branch_to(to)
        };
        let edges: Vec<u64> = run.parts[0].edges.iter().filter(taken).map(|edge| edge.count).collect();
        assert_eq!(edges, [240, 2]);
    }

    #[test]
    fn flow_that_is_missing_is_no_less_than_nothing() {
        let (object, file) = program(&[(0x1008, JE)]);
        // Taken more often than anything came in: it ran as often, and nothing is left to fall on.
        let branches = vec![
            branch(0, 0x1000, 2),
            branch(0x1008, 0x1030, 5),
            branch(0x9999, 0x8888, 7),
            branch(0x1008, 0x1030, 0),
        ];
        let run = of_branches(object, &file, &Branched { branches, falls: Vec::new() }, Depth::Edges);
        assert_eq!(counts(&run), [(0x1000, 10, 5), (0x1030, 16, 5)]);
    }

    #[test]
    fn branches_that_begin_where_none_is_are_of_another_build() {
        let (object, mut file) = program(&[(0x1008, JE)]);
        let branches = vec![
            branch(0x1008, 0x1030, 3),
            branch(0x1020, 0x1000, 1),
            branch(0x100a, 0x100c, 9),
            branch(0, 0x1000, 9),
        ];
        let counted = Branched { branches, falls: Vec::new() };
        let image = object.image.unwrap();
        assert_eq!(foreign_share(&image, &file, &counted), 0.25);
        file[18] = 0;
        assert_eq!(foreign_share(&image, &file, &counted), 0.0, "nothing is decoded there");
        assert_eq!(foreign_share(&image, &file, &Branched::default()), 0.0);
    }

    #[test]
    fn counted_stretches_say_how_often_code_falls_on() {
        let (object, file) = program(&[(0x1008, JE), (0x1010, JE)]);
        let fall = |from, to, count| Fall { from, to, count };
        let counted = Branched {
            branches: vec![branch(0, 0x1000, 9), branch(0x1010, 0x1000, 4)],
            falls: vec![
                fall(0x1000, 0x1010, 4),
                fall(0x1000, 0x1008, 1),
                fall(0x1050, 0x1060, 3),
                fall(0x5000, 0x5001, 1),
            ],
        };
        let run = of_branches(object, &file, &counted, Depth::Edges);
        // Nothing crosses 1012; nothing was counted from 1040 to 1050, but the stretch is not cut there.
        assert_eq!(counts(&run), [(0x1000, 18, 13), (0x1040, 64, 3)]);
    }

    /// A trace as BOLT's profile is that trace again, but for the instructions.
    #[test]
    fn a_profile_that_was_made_of_a_trace_has_its_counts() {
        let (object, file) = program(&[(0x1004, JE), (0x100e, JE)]);
        let block = |address, last| Block {
            object: Some(0),
            address,
            size: last + 2,
            instructions: 3,
            last,
            repeats: false,
        };
        let blocks = vec![block(0x1000, 4), block(0x1006, 8), block(0x1010, 6)];
        let edges = [(0, 1, 9), (1, 0, 8), (1, 2, 1)].map(|(from, to, count)| Edge { from, to, count });
        let part = Part { counts: vec![9, 9, 1], edges: edges.to_vec(), ..Part::default() };
        let traced = Run { objects: vec![object.clone()], blocks, parts: vec![part], windows: Vec::new() };
        let text = crate::aggregated::of_object(&traced, &traced.parts[0], 0).text;
        let run = of_branches(
            object,
            &file,
            &crate::aggregated::read(text.as_bytes(), None).unwrap(),
            Depth::Edges,
        );
        // Nothing was ever taken at 1004, so nothing is cut behind it.
        assert_eq!(counts(&run), [(0x1000, 16, 9), (0x1010, 48, 1)]);
        assert_eq!(
            run.parts[0].edges,
            [(0, 0, 8), (0, 1, 1)].map(|(from, to, count)| Edge { from, to, count })
        );
    }
}
