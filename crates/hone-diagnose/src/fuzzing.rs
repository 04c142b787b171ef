//! Entry points of the fuzz targets in `fuzz/`. Each takes any bytes as if a tool had written them, and panics when a reader violates its
//! contract. They are compiled for the feature `fuzzing` and for the unit tests.

use crate::image::{Function, Image};
use crate::model::{self, Block, Object, Part, Run};
use crate::moved::Moved;
use crate::trace::Trace;
use crate::{aggregated, callgrind, inlined, perf, source, topdown, verdict};

/// Output of perf stat or toplev. Values that pass the rules are shares and have a verdict.
pub fn topdown(data: &[u8]) {
    for (_, counted) in topdown::counted::read(&String::from_utf8_lossy(data)).into_iter().flatten() {
        let Ok(counted) = counted else { continue };
        assert!(counted.misses.iter().all(|missed| (0.0..=1_000.0).contains(&missed.per_1000)));
        verdict::of_counted(&counted, Some(1.0));
    }
    let Ok(output) = topdown::read(&String::from_utf8_lossy(data)) else { return };
    assert!(!output.readings.is_empty());
    for (_, judged) in topdown::judge(&output) {
        let Ok(slots) = judged else { continue };
        assert!(slots.percent.values().all(|share| (0.0..=100.0).contains(share)));
        let verdict = verdict::of_slots(&slots, Some(1.0));
        assert!(verdict.ceiling_percent.is_some_and(|ceiling| ceiling <= 100.0));
    }
}

/// A tracer's file. Every readable file gives a model with plausible figures.
pub fn trace(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    // A short file can't name many blocks, but their sizes can still be any number.
    let run = model::of_traces(&[trace], |_| None);
    holds(&run);
}

/// Output of callgrind.
pub fn callgrind(data: &[u8]) {
    let Ok(run) = callgrind::read(&String::from_utf8_lossy(data), |_| None) else { return };
    assert!(!run.blocks.is_empty());
    holds(&run);
}

/// Counted branches of a program with two functions, for any bytes.
pub fn aggregated(data: &[u8]) {
    let Ok(counted) = aggregated::read(data, None) else { return };
    let functions = [0x0, 0x1000].map(|address| Function { address, size: 0x1000, name: "f".to_owned() });
    let image = Image::of_functions(functions.into(), 0x2000);
    let run = model::of_branches(
        Object { path: "x".to_owned(), image: Some(image) },
        data,
        &counted,
        model::Depth::Edges,
    );
    let map = model::of_branches(
        Object { path: "x".to_owned(), image: run.objects[0].image.clone() },
        data,
        &counted,
        model::Depth::Blocks,
    );
    assert!(
        map.blocks == run.blocks
            && map.parts[0].counts == run.parts[0].counts
            && map.parts[0].edges.is_empty()
    );
    assert!(run.blocks.iter().all(|block| block.size > 0 && block.end() <= 0x2000));
    assert_eq!(run.blocks.len(), run.parts[0].counts.len());
    holds(&run);
}

/// A program file, the source positions of its code, and the functions around it.
pub fn image(data: &[u8]) {
    // Address of the code in the files of the corpus.
    let code: Vec<u64> = (0x40_0000..0x40_0400).collect();
    if let Ok(places) = source::places(data, &code) {
        for place in code.iter().filter_map(|address| places.at(*address)) {
            assert!(
                place.line > 0 && places.files.get(place.file as usize).is_some_and(|file| !file.is_empty())
            );
        }
    }
    functions_around_code(data);
    let Ok(image) = Image::parse(data) else { return };
    for function in &image.functions {
        assert!(image.function_at(function.address).is_some_and(|found| found.address == function.address));
    }
    for offset in [0, 0x1000, u64::MAX] {
        image.address_of(offset);
    }
}

/// The pieces of code cover it, each stack is limited, and the functions have all instructions of a run.
fn functions_around_code(data: &[u8]) {
    let stretches = [(0x40_0000, 0x40_0100), (0x40_0180, 0x40_0400)];
    if let Ok(stacks) = inlined::stacks(data, &stretches) {
        for (begin, end) in stretches {
            let pieces = stacks.pieces(begin, end);
            assert_eq!(pieces.iter().map(|piece| piece.bytes).sum::<u64>(), end - begin);
            for stack in pieces.iter().filter_map(|piece| piece.stack) {
                assert!((1..=inlined::MOST_STACKS_DEEP + 1).contains(&stacks.frames(stack).len()));
            }
        }
    }
    let object = Object { path: "/x".to_owned(), image: Image::parse(data).ok() };
    let block =
        |address| Block { object: Some(0), address, size: 16, instructions: 4, last: 12, repeats: false };
    let blocks: Vec<Block> = (0x40_0000..0x40_0400).step_by(16).map(block).collect();
    let part = Part { counts: vec![3; blocks.len()], threads: 1, ..Part::default() };
    let run = Run { objects: vec![object], blocks, parts: vec![part], ..Run::default() };
    let counts = model::code(&run, |_| Some(data.to_vec()));
    let all: f64 = counts.code.iter().map(|code| code.instructions).sum();
    assert!((all - run.parts[0].instructions(&run) as f64).abs() < 1e-6, "{all}");
    assert_eq!(model::code_changes((&counts, 1), (&counts, 1)), []);
}

/// BOLT's address table. For any contents, code that ran keeps its instructions.
pub fn moved(data: &[u8]) {
    let Some(moved) = Moved::of_section(data) else { return };
    let block =
        |address| Block { object: Some(0), address, size: 40, instructions: 9, last: 36, repeats: false };
    let blocks: Vec<Block> =
        (0..64).map(|index| block(0x40_0000 + 24 * index)).chain([block(u64::MAX - 20)]).collect();
    let part = Part { counts: vec![3; blocks.len()], threads: 1, ..Part::default() };
    let run = Run { blocks, parts: vec![part], ..Run::default() };
    let now = moved.run(&run, 0);
    assert_eq!(now.parts[0].instructions(&now), run.parts[0].instructions(&run));
    holds(&now);
}

/// perf's data. No sample is lost or counted twice, and the model holds those of user code.
pub fn perf(data: &[u8]) {
    let Ok(samples) = perf::read(std::io::Cursor::new(data)) else { return };
    assert!(samples.samples > 0 && samples.samples <= data.len() as u64 / 8);
    assert_eq!(samples.whole(None).all(), samples.samples);
    let run = samples.run(|_| None);
    assert!(run.whole().instructions(&run) <= samples.samples);
    holds(&run);
}

fn holds(run: &Run) {
    let whole = run.whole();
    let layout = model::layout(run, &whole);
    for footprint in &layout.footprints {
        assert!(footprint.units.is_sorted(), "{footprint:?}");
    }
    assert!((0.0..=64.0).contains(&layout.bytes_used_of_a_line));
    assert!(layout.ext_tsp.is_none_or(|score| (0.0..=1.06).contains(&score)), "{:?}", layout.ext_tsp);
    verdict::of_layout(&layout, Some(0.5));
    model::replay(&run.blocks, &run.windows, |id| Some((run.blocks[id as usize].address, 16)));
    aggregated::of_object(run, &whole, 0);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    /// Recorded files, and what a fuzzer has found once.
    fn corpus(of: &str) -> Vec<Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(of);
        let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(!files.is_empty());
        files.into_iter().map(|file| fs::read(file).unwrap()).collect()
    }

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 7] = [
        ("topdown", topdown),
        ("trace", trace),
        ("callgrind", callgrind),
        ("image", image),
        ("moved", moved),
        ("aggregated", aggregated),
        ("perf", perf),
    ];

    proptest! {
        /// A file with bytes changed, and cut off.
        #[test]
        fn no_broken_file_panics(
            of in 0..TARGETS.len(),
            which in any::<prop::sample::Index>(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
            end in any::<prop::sample::Index>(),
        ) {
            let (name, target) = TARGETS[of];
            let files = corpus(name);
            let mut bytes = files[which.index(files.len())].clone();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            target(&bytes);
            bytes.truncate(end.index(bytes.len()) + 1);
            target(&bytes);
        }
    }

    #[test]
    fn the_corpus_is_survived() {
        assert!(corpus("topdown").len() > 20);
        for (name, target) in TARGETS {
            corpus(name).iter().for_each(|bytes| target(bytes));
        }
    }
}
