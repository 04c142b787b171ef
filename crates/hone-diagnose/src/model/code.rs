//! Instructions by function, and the functions in which two programs differ.
//!
//! A block belongs to the functions around it. A block that spans several inlined functions is divided where they change, and each piece
//! gets instructions in proportion to its bytes. Whole numbers of instructions would need a decoder; the error is the same in both programs
//! wherever their code is the same.

use std::collections::{BTreeMap, HashMap};

use hone_record::{CodeChange, CodeFrame, demangled, joined_name};

use super::run::{Block, Object, Run};
use crate::inlined::{Piece, Stacks, stacks};

/// A smaller difference, as a share of all instructions of A, is not listed: the repetitions of one program differ by more.
const SMALLEST_SHARE: f64 = 1e-5;
/// Listed code. A commit that changes more of it has changed the whole program.
const MOST_CHANGES: usize = 500;

/// Marks before what a compiler appends to the name of a copy of a function, in addition to those of [`joined_name`].
const COPIES: [&str; 8] = [
    ".part.",
    ".constprop.",
    ".isra.",
    ".lto_priv.",
    ".specialized.",
    " [clone .part.",
    " [clone .constprop.",
    " [clone .isra.",
];

/// Instructions of a run by code, the most first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CodeCounts {
    /// Each code once.
    pub code: Vec<CodeCount>,
}

/// Executed instructions of a function, without those of the functions that are inlined into it.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeCount {
    /// File name of its object; `None` for code without a file.
    pub object: Option<String>,
    /// The function with its inlined functions, the outermost first. Empty for code without a symbol.
    pub frames: Vec<CodeFrame>,
    /// Number of instructions.
    pub instructions: f64,
}

/// Identity of code in two programs: file name and names of the functions. Lines are not part of it, since they move between commits.
type CodeKey = (Option<String>, Vec<String>);

/// Instructions of a run by code. `bytes` reads the file at a path as the run names it. Without a file or without debug information, the
/// symbol is the only function.
pub fn code(run: &Run, bytes: impl Fn(&str) -> Option<Vec<u8>>) -> CodeCounts {
    let whole = run.whole();
    let mut executed: BTreeMap<Option<u32>, Vec<(&Block, u64)>> = BTreeMap::new();
    for (index, block) in run.blocks.iter().enumerate().filter(|(index, _)| whole.count(*index) > 0) {
        executed.entry(block.object).or_default().push((block, whole.count(index)));
    }
    let mut sums: BTreeMap<CodeKey, CodeCount> = BTreeMap::new();
    for (object, blocks) in executed {
        let object = object.and_then(|index| run.objects.get(index as usize));
        let name = object.map(|object| file_name(&object.path).to_owned());
        for (frames, instructions) in of_object(object, &blocks, &bytes) {
            let key = (name.clone(), frames.iter().map(|frame| frame.name.clone()).collect());
            let sum =
                sums.entry(key).or_insert(CodeCount { object: name.clone(), frames, instructions: 0.0 });
            sum.instructions += instructions;
        }
    }
    let mut code: Vec<CodeCount> = sums.into_values().collect();
    code.sort_by(|one, other| other.instructions.total_cmp(&one.instructions));
    CodeCounts { code }
}

/// What is known about a piece of code: its stack by debug information, or its symbol by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Known {
    Stack(u32),
    Symbol(u64),
    Nothing,
}

/// Instructions of an object's blocks by frames, the most first.
fn of_object(
    object: Option<&Object>,
    blocks: &[(&Block, u64)],
    bytes: impl Fn(&str) -> Option<Vec<u8>>,
) -> Vec<(Vec<CodeFrame>, f64)> {
    let image = object.and_then(|object| object.image.as_ref());
    let file = object.zip(image).and_then(|(object, image)| {
        // Another file at this path would name other functions.
        bytes(&object.path).filter(|bytes| image.is_of(bytes))
    });
    let stretches: Vec<(u64, u64)> = blocks.iter().map(|(block, _)| (block.address, block.end())).collect();
    let inlined = file.and_then(|file| stacks(&file, &stretches).ok()).unwrap_or_default();
    let symbol = |address: u64| image.and_then(|image| image.function_at(address));
    // The sum of each, and an address of it.
    let mut sums: BTreeMap<Known, (f64, u64)> = BTreeMap::new();
    for (block, count) in blocks {
        let instructions = *count as f64 * f64::from(block.instructions);
        for (piece, share) in pieces(&inlined, block) {
            let by_symbol = || symbol(piece.begin).map(|found| Known::Symbol(found.address));
            let known = piece.stack.map(Known::Stack).or_else(by_symbol).unwrap_or(Known::Nothing);
            sums.entry(known).or_insert((0.0, piece.begin)).0 += instructions * share;
        }
    }
    let frames = |known: Known, address: u64| {
        let symbol = symbol(address).map(|found| of_symbol(&found.name));
        match known {
            Known::Stack(stack) => outermost_by_symbol(inlined.frames(stack), symbol),
            Known::Symbol(_) => symbol.into_iter().collect(),
            Known::Nothing => Vec::new(),
        }
    };
    let mut named: Vec<_> =
        sums.into_iter().map(|(known, (sum, address))| (frames(known, address), sum)).collect();
    named.sort_by(|one, other| other.1.total_cmp(&one.1));
    named
}

/// The functions of a stack. Debug information with line tables alone names a function without its path, but the symbol has it.
fn outermost_by_symbol(frames: Vec<&CodeFrame>, symbol: Option<CodeFrame>) -> Vec<CodeFrame> {
    let mut frames: Vec<CodeFrame> = frames.into_iter().map(joined).collect();
    if let (Some(outermost), Some(symbol)) = (frames.first_mut(), symbol) {
        outermost.name = symbol.name;
    }
    frames
}

/// The pieces of a block, each with its share of the bytes.
fn pieces(inlined: &Stacks, block: &Block) -> Vec<(Piece, f64)> {
    let bytes = block.end() - block.address;
    if bytes == 0 {
        return vec![(Piece { begin: block.address, bytes, stack: None }, 1.0)];
    }
    let pieces = inlined.pieces(block.address, block.end());
    pieces.into_iter().map(|piece| (piece, piece.bytes as f64 / bytes as f64)).collect()
}

fn joined(frame: &CodeFrame) -> CodeFrame {
    CodeFrame { name: original(&frame.name).to_owned(), source: frame.source.clone() }
}

fn of_symbol(symbol: &str) -> CodeFrame {
    joined(&CodeFrame { name: demangled(symbol), source: None })
}

/// The name of the function whose copy or part this is. Compilers and BOLT append `.cold`, `.part.0`, `.constprop.0`, `.isra.0`,
/// `.lto_priv.0`, `.llvm.123` and `/1`, which differ between builds. The hash of a Rust symbol is removed by [`demangled`].
fn original(name: &str) -> &str {
    let name = joined_name(name);
    let places = COPIES.iter().filter_map(|mark| name.find(mark)).filter(|place| *place > 0);
    let name = places.min().map_or(name, |place| &name[..place]);
    let numbered = name.rsplit_once('/').filter(|(name, number)| {
        !name.is_empty() && !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    });
    numbered.map_or(name, |(name, _)| name)
}

fn file_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().unwrap_or(path)
}

/// Code with another number of instructions per operation in B than in A, the largest difference first. Each side comes with its operations.
///
/// Code is the same if its object's file name and the names of its functions are the same. The busiest objects that only one side has are
/// one program under two names.
pub fn code_changes(a: (&CodeCounts, u64), b: (&CodeCounts, u64)) -> Vec<CodeChange> {
    let renamed = renamed(a.0, b.0);
    let mut joined: BTreeMap<CodeKey, CodeChange> = BTreeMap::new();
    // B comes first, for its names and sources.
    for (side, (counts, operations)) in [(1, b), (0, a)] {
        for found in &counts.code {
            let is_renamed =
                side == 0 && renamed.is_some_and(|[old, _]| found.object.as_deref() == Some(old));
            let object = match renamed.filter(|_| is_renamed) {
                Some([_, new]) => Some(new.to_owned()),
                None => found.object.clone(),
            };
            let key = (object.clone(), found.frames.iter().map(|frame| frame.name.clone()).collect());
            let new = || CodeChange { frames: found.frames.clone(), object, instructions: [0.0; 2] };
            let change = joined.entry(key).or_insert_with(new);
            change.instructions[side] += found.instructions / operations.max(1) as f64;
            for (frame, other) in change.frames.iter_mut().zip(&found.frames) {
                frame.source = frame.source.take().or_else(|| other.source.clone());
            }
        }
    }
    let whole: f64 = joined.values().map(|change| change.instructions[0]).sum();
    let difference = |change: &CodeChange| (change.instructions[1] - change.instructions[0]).abs();
    let mut changes: Vec<CodeChange> = joined.into_values().collect();
    changes.retain(|change| difference(change) > SMALLEST_SHARE * whole);
    changes.sort_by(|one, other| difference(other).total_cmp(&difference(one)));
    changes.truncate(MOST_CHANGES);
    changes
}

/// The program under two names: the busiest object of each side that the other side lacks.
fn renamed<'a>(a: &'a CodeCounts, b: &'a CodeCounts) -> Option<[&'a str; 2]> {
    let [of_a, of_b] = [objects(a), objects(b)];
    let busiest = |own: &HashMap<&'a str, f64>, others: &HashMap<&str, f64>| {
        let alone = own.iter().filter(|(name, _)| !others.contains_key(*name));
        let most = alone.max_by(|one, other| one.1.total_cmp(other.1).then_with(|| other.0.cmp(one.0)));
        most.map(|(name, _)| *name)
    };
    Some([busiest(&of_a, &of_b)?, busiest(&of_b, &of_a)?])
}

fn objects(counts: &CodeCounts) -> HashMap<&str, f64> {
    let mut sums = HashMap::new();
    for found in &counts.code {
        if let Some(object) = &found.object {
            *sums.entry(object.as_str()).or_insert(0.0) += found.instructions;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::tests::{block, run};
    use super::*;
    use crate::image::Image;

    /// `f` calls `g` 1,000 times, and `g` calls `h` 36 times; in the second, `g` has three more instructions. See [`crate::inlined`].
    const PROGRAMS: [&[u8]; 2] = [
        include_bytes!("../../fuzz/corpus/image/inlined-base"),
        include_bytes!("../../fuzz/corpus/image/inlined-head"),
    ];

    /// A run of one of the programs in a file of this name.
    fn counts(program: usize, path: &str) -> CodeCounts {
        // The only block that differs adds three instructions of seven bytes.
        let (more, bytes) = if program == 0 { (0, 0) } else { (3, 7) };
        let blocks = [
            (block(0x40_00b0, 15, 4), 1),
            (block(0x40_00bf, 7, 2), 1_000),
            (block(0x40_00c6, 20, 8), 36_000),
            (block(0x40_00da, 10 + bytes, 4 + more), 1_000),
            (block(0x40_00e4 + u64::from(bytes), 4, 2), 1),
        ];
        let mut run = run(&blocks, &[]);
        let bytes = PROGRAMS[program];
        run.objects.push(Object { path: path.to_owned(), image: Image::parse(bytes).ok() });
        code(&run, |asked| (asked == path).then(|| bytes.to_vec()))
    }

    fn names(frames: &[CodeFrame]) -> Vec<&str> {
        frames.iter().map(|frame| frame.name.as_str()).collect()
    }

    #[test]
    fn instructions_belong_to_the_innermost_function_and_none_is_lost() {
        let found = counts(0, "/bin/x");
        let all: f64 = found.code.iter().map(|code| code.instructions).sum();
        assert!((all - 294_006.0).abs() < 1e-6, "{all}");
        let shares: Vec<_> = found.code.iter().map(|code| (names(&code.frames), code.instructions)).collect();
        // 12 of the loop's 20 bytes are `h`.
        assert_eq!(shares[0].0, ["f", "g", "h"]);
        assert!((shares[0].1 - 36_000.0 * 8.0 * 0.6).abs() < 1e-6, "{shares:?}");
        assert_eq!((&shares[1].0[..], &shares[2].0[..]), (&["f", "g"][..], &["f"][..]));
        assert_eq!(found.code[0].object.as_deref(), Some("x"));
    }

    #[test]
    fn one_percent_more_instructions_in_an_inlined_function_are_found_there() {
        let (base, head) = (counts(0, "/base/x"), counts(1, "/head/x (deleted)"));
        let changes = code_changes((&base, 1_000), (&head, 1_000));
        assert_eq!(names(&changes[0].frames), ["f", "g"], "{changes:?}");
        let [before, after] = changes[0].instructions;
        assert!((after - before - 3.0).abs() < 0.6, "{before} {after}");
        assert_eq!(changes[0].frames[1].source.as_deref(), Some("inlined.c:15"));
        let all = |changes: &[CodeChange]| -> f64 {
            changes.iter().map(|change| change.instructions[1] - change.instructions[0]).sum()
        };
        assert!((all(&changes) - 3.0).abs() < 1e-9, "{changes:?}");
    }

    #[test]
    fn equal_programs_have_no_changes_also_under_two_names() {
        let changes = |a: &str, b: &str| code_changes((&counts(0, a), 500), (&counts(0, b), 500));
        assert_eq!(changes("/a/x", "/b/x"), []);
        assert_eq!(changes("/bin/old", "/bin/new"), []);
        // Twice the operations are half as many instructions for each.
        let found = counts(0, "x");
        let twice = code_changes((&found, 500), (&found, 1_000));
        assert!(
            !twice.is_empty()
                && twice.iter().all(|change| {
                    let [a, b] = change.instructions;
                    (a - 2.0 * b).abs() < 1e-9
                }),
            "{twice:?}"
        );
    }

    fn of_names(rows: &[(&str, &[&str], f64)]) -> CodeCounts {
        let row = |(object, frames, instructions): &(&str, &[&str], f64)| CodeCount {
            object: Some((*object).to_owned()),
            frames: frames.iter().map(|name| of_symbol(name)).collect(),
            instructions: *instructions,
        };
        CodeCounts { code: rows.iter().map(row).collect() }
    }

    #[test]
    fn a_function_has_the_path_of_its_symbol_where_debug_information_has_its_last_name_alone() {
        let frame = |name: &str| CodeFrame { name: name.to_owned(), source: Some(format!("{name}.rs:1")) };
        let stack = [frame("write"), frame("push<u8>")];
        let symbol = of_symbol("_ZN4core3fmt5write17h0123456789abcdefE.llvm.12");
        let found = outermost_by_symbol(stack.iter().collect(), Some(symbol));
        assert_eq!(names(&found), ["core::fmt::write", "push<u8>"]);
        assert_eq!(found[0].source.as_deref(), Some("write.rs:1"));
        assert_eq!(outermost_by_symbol(stack.iter().collect(), None), stack);
    }

    #[test]
    fn copies_and_parts_of_a_function_are_that_function() {
        let base = of_names(&[
            ("x", &["f.cold"], 1e3),
            ("x", &["_ZN3foo3barEv.constprop.0"], 2e3),
            ("x", &["_ZN4core3fmt5write17h0123456789abcdefE"], 3e3),
            ("x", &["worker.part.0.lto_priv.1"], 4e3),
        ]);
        let head = of_names(&[
            ("x", &["f"], 600.0),
            ("x", &["f.llvm.77"], 400.0),
            ("x", &["_ZN3foo3barEv.isra.3/2"], 2e3),
            ("x", &["_ZN4core3fmt5write17hfedcba9876543210E"], 3e3),
            ("x", &["worker"], 4e3),
        ]);
        assert_eq!(code_changes((&base, 1), (&head, 1)), []);
        assert_eq!([original("operator/"), original("a/b"), original("/1")], ["operator/", "a/b", "/1"]);
    }

    #[test]
    fn the_same_name_in_another_file_or_another_caller_is_other_code() {
        let base = of_names(&[("x", &["f", "g"], 1e3), ("x", &["g"], 1e3), ("libz.so.1", &["g"], 1e3)]);
        let head = of_names(&[("x", &["f", "g"], 2e3), ("x", &["g"], 1e3), ("libz.so.1", &["g"], 990.0)]);
        let changes = code_changes((&base, 1), (&head, 1));
        let found: Vec<_> =
            changes.iter().map(|change| (change.object.as_deref().unwrap(), names(&change.frames))).collect();
        assert_eq!(found, [("x", vec!["f", "g"]), ("libz.so.1", vec!["g"])]);
    }

    #[test]
    fn the_smallest_differences_are_left_out_and_the_list_ends() {
        let many: Vec<String> = (0..2_000).map(|number| format!("f{number}")).collect();
        let named: Vec<[&str; 1]> = many.iter().map(|name| [name.as_str()]).collect();
        let rows = |more: f64| {
            named
                .iter()
                .enumerate()
                .map(|(at, name)| ("x", &name[..], 1e3 + more * at as f64))
                .collect::<Vec<_>>()
        };
        let changes = code_changes((&of_names(&rows(0.0)), 1), (&of_names(&rows(1.0)), 1));
        assert_eq!(changes.len(), MOST_CHANGES);
        assert_eq!(names(&changes[0].frames), ["f1999"]);
        // 20 of two million instructions are the limit.
        let few = code_changes((&of_names(&rows(0.0)), 1), (&of_names(&rows(0.0101)), 1));
        assert_eq!(few.len(), 19, "{few:?}");
    }

    #[test]
    fn without_a_file_the_symbol_is_the_function_and_without_a_symbol_there_is_none() {
        let mut run = run(&[(block(0x40_00b5, 4, 2), 10), (block(0x90_0000, 4, 1), 10)], &[]);
        run.blocks.push(Block { object: None, ..block(7, 0, 5) });
        run.parts[0].counts.push(2);
        run.objects.push(Object { path: "/bin/x".to_owned(), image: Image::parse(PROGRAMS[0]).ok() });
        let expected = [(Some("x"), vec!["f"], 20.0), (None, vec![], 10.0), (Some("x"), vec![], 10.0)];
        // A file with other contents is as good as none.
        for found in [code(&run, |_| None), code(&run, |_| Some(PROGRAMS[1].to_vec()))] {
            let rows: Vec<_> = found
                .code
                .iter()
                .map(|code| (code.object.as_deref(), names(&code.frames), code.instructions))
                .collect();
            assert_eq!(rows, expected);
        }
    }
}
