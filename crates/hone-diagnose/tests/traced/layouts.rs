//! The same recorded order on five layouts of the same blocks. What a replay says of them is known from an exact trace of a compiler: the
//! layout with the smallest footprint misses more than the original, and the one with the most fall-throughs misses more pages.

use std::path::PathBuf;

use hone_diagnose::cache::{ITLB_64, L1I_32K};
use hone_diagnose::emulator::TraceOptions;
use hone_diagnose::model::{Block, Part, Run, Simulated, replay};
use hone_tool::{Call, Runner as _, Tool};

use super::{Bench, run_of, there};

/// The compiler proper behind `gcc`, and a source of some hundred functions for it.
pub(super) fn compiler(bench: &Bench) -> Option<(PathBuf, String)> {
    let gcc = there(Tool::new("gcc", "").debian("gcc").locate(&[]))?;
    let call = Call::new("which", gcc.path(), "/").arg("-print-prog-name=cc1");
    let compiler = PathBuf::from(bench.runner.run(&call).unwrap().stdout_text().unwrap().trim());
    assert!(compiler.is_absolute(), "gcc does not know its cc1: {compiler:?}");
    let function = |number: usize| {
        format!(
            "int f{number}(int *a, int n) {{ int s = {number}; for (int i = 0; i < n; i++) {{ switch (a[i] % {}) {{ case 0: s += a[i]; \
             break; case 1: s ^= i << {}; break; default: s -= a[i] * {number}; }} if (s > {number}00) s /= 3; }} return s; }}\n",
            number % 7 + 2,
            number % 5
        )
    };
    let source = bench.path("functions.i");
    std::fs::write(&source, (0..80).map(function).collect::<String>()).unwrap();
    Some((compiler, source.display().to_string()))
}

/// Where each block lies.
type Layout = Vec<Option<(u64, u32)>>;

/// A base for each object, far from each other.
fn base(block: &Block) -> u64 {
    block.object.map_or(0, |object| u64::from(object) + 1) << 32
}

/// As it was linked.
fn original(run: &Run) -> Layout {
    run.blocks.iter().map(|block| Some((base(block) + block.address, block.size))).collect()
}

/// One after the other, in this order.
fn packed(run: &Run, order: &[usize]) -> Layout {
    let mut layout = vec![None; run.blocks.len()];
    let mut at = 1 << 32;
    for &index in order {
        let size = run.blocks[index].size;
        layout[index] = Some((at, size));
        at += u64::from(size);
    }
    layout
}

fn by_address(run: &Run) -> Vec<usize> {
    let mut order: Vec<usize> = (0..run.blocks.len()).collect();
    order.sort_by_key(|&index| (run.blocks[index].object, run.blocks[index].address));
    order
}

/// Chains along the heaviest transitions, the densest first.
fn chains(run: &Run, part: &Part) -> Vec<usize> {
    let mut edges = part.edges.clone();
    edges.sort_by(|left, right| right.count.cmp(&left.count).then(left.cmp(right)));
    let blocks = run.blocks.len();
    let (mut next, mut previous) = (vec![None; blocks], vec![None; blocks]);
    // The chain that a block is of, by its first block.
    let mut first: Vec<usize> = (0..blocks).collect();
    fn first_of(first: &mut [usize], mut index: usize) -> usize {
        while first[index] != index {
            first[index] = first[first[index]];
            index = first[index];
        }
        index
    }
    for edge in &edges {
        let (from, to) = (edge.from as usize, edge.to as usize);
        let (of_from, of_to) = (first_of(&mut first, from), first_of(&mut first, to));
        if next[from].is_none() && previous[to].is_none() && of_from != of_to {
            (next[from], previous[to]) = (Some(to), Some(from));
            first[of_to] = of_from;
        }
    }
    let heads = (0..blocks).filter(|&index| previous[index].is_none());
    let mut chains: Vec<(f64, Vec<usize>)> = heads
        .map(|head| {
            let chain: Vec<usize> = std::iter::successors(Some(head), |&index| next[index]).collect();
            let sum = |of: &dyn Fn(usize) -> f64| chain.iter().map(|&index| of(index)).sum::<f64>();
            let executed = sum(&|index| part.count(index) as f64 * f64::from(run.blocks[index].instructions));
            (executed / sum(&|index| f64::from(run.blocks[index].size)).max(1.0), chain)
        })
        .collect();
    chains.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
    chains.into_iter().flat_map(|(_, chain)| chain).collect()
}

fn by_count(run: &Run, part: &Part) -> Vec<usize> {
    let mut order = by_address(run);
    order.sort_by_key(|&index| std::cmp::Reverse(part.count(index)));
    order
}

/// The same every time.
fn shuffled(run: &Run) -> Vec<usize> {
    let mut order = by_address(run);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for index in (1..order.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(index, (state >> 33) as usize % (index + 1));
    }
    order
}

#[test]
fn five_layouts_of_one_order_are_ranked_as_the_whole_trace_ranks_them() {
    let Some(bench) = Bench::new() else { return };
    let Some((compiler, source)) = compiler(&bench) else { return };
    let wanted = TraceOptions { period: 700_000, window: 100_000, ..TraceOptions::ALL };
    let left = bench.traced(wanted, &compiler, &["-quiet", "-O2", &source, "-o", "/dev/null"]);
    let run = run_of(&left);
    let part = run.whole();
    let whole = part.simulated.unwrap();
    let hot = |order: Vec<usize>| -> Vec<usize> {
        order.into_iter().filter(|&index| part.count(index) > 0).collect()
    };
    let on = |layout: &Layout| replay(&run.blocks, &run.windows, |id| layout[id as usize]);
    let original = on(&original(&run));
    let without_cold = on(&packed(&run, &hot(by_address(&run))));
    let chained = on(&packed(&run, &chains(&run, &part)));
    let counted = on(&packed(&run, &by_count(&run, &part)));
    let random = on(&packed(&run, &shuffled(&run)));
    let lines = |found: &Simulated| found.per_1000(L1I_32K);
    let pages = |found: &Simulated| found.per_1000(ITLB_64);
    let told = || {
        let told = [&whole, &original, &without_cold, &chained, &counted, &random];
        format!("{:.2?}", told.map(|found| [lines(found), pages(found)]))
    };
    // Windows are a sample of the whole.
    assert!((lines(&original) / lines(&whole) - 1.0).abs() < 0.1, "{}", told());
    assert!((pages(&original) / pages(&whole) - 1.0).abs() < 0.1, "{}", told());
    let ranked = |of: &dyn Fn(&Simulated) -> f64, order: [&Simulated; 5]| {
        order.windows(2).all(|pair| of(pair[0]) < of(pair[1]))
    };
    assert!(ranked(&lines, [&without_cold, &chained, &original, &counted, &random]), "{}", told());
    assert!(ranked(&pages, [&without_cold, &original, &chained, &counted, &random]), "{}", told());
}
