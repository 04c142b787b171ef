//! New addresses of the code in a program that BOLT rewrote: from the table that `--enable-bat` writes, and from symbols if a function
//! moved as a whole. With it, recorded executions can be placed on the new layout without another run. The code is pure.

mod predicted;
mod table;

use std::collections::HashMap;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

use crate::image::Image;
use crate::model::{Block, Edge, Object, Part, Run, Window};

/// New addresses of a program's code.
#[derive(Debug, Clone, Default)]
pub struct Moved {
    /// Functions in the old program, sorted by address.
    functions: Vec<Function>,
    /// The new program.
    image: Image,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Function {
    begin: u64,
    end: u64,
    /// Known places by old offset. Empty if the function moved as a whole.
    anchors: Vec<Anchor>,
    /// New start address.
    now: u64,
}

/// A place with known old and new offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    before: u64,
    now: u64,
    /// Bytes to the next known place.
    room: u64,
}

/// Reasons why the new addresses of a program are unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotMoved {
    /// One of the two files is not a program.
    #[error("it is not a 64-bit ELF file: {0}")]
    NoProgram(String),
    /// The other program has no table.
    #[error(
        "it has no address translation table (.note.bolt_bat)\n  next: BOLT writes one with --enable-bat; a \
         program from a compiler can't have one, since its code is different"
    )]
    NoTable,
    /// The table has an unknown form.
    #[error("its address translation table can't be read: {0}")]
    Table(String),
    /// The programs have no function in common.
    #[error("it was not made from the traced program\n  next: trace that program, or rewrite this one")]
    Another,
}

impl Moved {
    /// Compares a program with BOLT's rewritten version.
    ///
    /// # Errors
    /// Returns [`NotMoved`]
    pub fn between(before: &[u8], now: &[u8]) -> Result<Self, NotMoved> {
        let no_program = |error: object::read::Error| NotMoved::NoProgram(error.to_string());
        let old = object::File::parse(before).map_err(no_program)?;
        let new = object::File::parse(now).map_err(no_program)?;
        if !is_made_of(&old, &new) {
            return Err(NotMoved::Another);
        }
        let section = new.section_by_name(table::SECTION).ok_or(NotMoved::NoTable)?;
        let section = section.data().map_err(|error| NotMoved::Table(error.to_string()))?;
        let fragments = table::parse(section).map_err(|fault| NotMoved::Table(fault.to_string()))?;
        let image = Image::parse(now).map_err(|fault| NotMoved::NoProgram(fault.to_string()))?;
        let pairs = pairs(&symbols(&old), &symbols(&new));
        let mut of: HashMap<u64, Vec<&table::Fragment>> = HashMap::new();
        for fragment in &fragments {
            of.entry(fragment.function).or_default().push(fragment);
        }
        let is_known = |pair: &Pair| of.contains_key(&pair.now);
        if !pairs.iter().any(is_known) {
            return Err(NotMoved::Another);
        }
        let ends = pairs.iter().skip(1).map(|next| next.before).chain([u64::MAX]);
        let function = |(pair, next): (&Pair, u64)| Function {
            begin: pair.before,
            end: if pair.size == 0 { next } else { pair.before.saturating_add(pair.size).min(next) },
            anchors: of.get(&pair.now).map(|parts| anchors(pair.before, parts)).unwrap_or_default(),
            now: pair.now,
        };
        Ok(Self { functions: pairs.iter().zip(ends).map(function).collect(), image })
    }

    /// Uses the table alone, as if functions had kept their start addresses.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_section(section: &[u8]) -> Option<Self> {
        let fragments = table::parse(section).ok()?;
        let mut of: std::collections::BTreeMap<u64, Vec<&table::Fragment>> =
            std::collections::BTreeMap::new();
        fragments.iter().for_each(|fragment| of.entry(fragment.function).or_default().push(fragment));
        let ends: Vec<u64> = of.keys().skip(1).copied().chain([u64::MAX]).collect();
        let function = |((&begin, parts), end): ((&u64, &Vec<&table::Fragment>), u64)| Function {
            begin,
            end,
            anchors: anchors(begin, parts),
            now: begin,
        };
        Some(Self { functions: of.iter().zip(ends).map(function).collect(), image: Image::default() })
    }

    /// New addresses of consecutive old bytes, in order. Code outside functions known in both programs stays at its address.
    fn pieces(&self, address: u64, size: u32) -> Vec<(u64, u32)> {
        let end = address.saturating_add(u64::from(size));
        let (mut pieces, mut at) = (Vec::<(u64, u32)>::new(), address);
        while at < end {
            let (now, bytes) = self.piece(at, end);
            match pieces.last_mut() {
                Some((begin, before)) if *begin + u64::from(*before) == now => *before += bytes.told,
                _ => pieces.push((now, bytes.told)),
            }
            at += bytes.covered.max(1);
        }
        pieces
    }

    /// New address of a byte, and the number of bytes that moved together with it.
    fn piece(&self, at: u64, end: u64) -> (u64, Bytes) {
        let behind = self.functions.partition_point(|function| function.begin <= at);
        let function = behind.checked_sub(1).map(|index| &self.functions[index]);
        let until = |limit: u64| limit.min(end) - at;
        let Some(function) = function.filter(|function| at < function.end) else {
            let next = self.functions.get(behind).map_or(u64::MAX, |next| next.begin);
            return (at, Bytes::all(until(next)));
        };
        let next = function.anchors.partition_point(|anchor| anchor.before <= at);
        let Some(anchor) = next.checked_sub(1).map(|index| function.anchors[index]) else {
            return (function.now.wrapping_add(at - function.begin), Bytes::all(until(function.end)));
        };
        let limit = function.anchors.get(next).map_or(function.end, |next| next.before);
        let covered = until(limit);
        let from = at - anchor.before;
        // If instructions were removed, fewer bytes are left. A branch whose target moved away takes more: the stretch ends where the next
        // one begins.
        let room = anchor.room.saturating_sub(from);
        let is_to_its_end = at + covered == limit;
        let left = if is_to_its_end && room <= covered + LONGER { room } else { room.min(covered) };
        (anchor.now.saturating_add(from.min(anchor.room)), Bytes { covered, told: left as u32 })
    }

    /// The recorded execution of an object with its new addresses. Counts, transitions and windows stay the same.
    pub fn run(&self, run: &Run, object: u32) -> Run {
        let mut moved = Run {
            objects: run.objects.clone(),
            blocks: Vec::with_capacity(run.blocks.len()),
            ..Run::default()
        };
        if let Some(own) = moved.objects.get_mut(object as usize) {
            *own = Object { path: own.path.clone(), image: Some(self.image.clone()) };
        }
        let mut now: Vec<(u32, u32)> = Vec::with_capacity(run.blocks.len());
        for block in &run.blocks {
            let first = moved.blocks.len() as u32;
            let pieces = match block.object == Some(object) {
                true => self.pieces(block.address, block.size),
                false => vec![(block.address, block.size)],
            };
            moved.blocks.extend(divided(block, &pieces));
            now.push((first, moved.blocks.len() as u32 - first));
        }
        let all = moved.blocks.len();
        moved.parts = run.parts.iter().map(|part| moved_part(part, &now, all)).collect();
        moved.windows = run.windows.iter().map(|window| moved_window(window, &now)).collect();
        moved
    }
}

/// BOLT flips the last bit of the build-id. If one of the two has none, functions decide.
fn is_made_of(old: &object::File<'_>, new: &object::File<'_>) -> bool {
    let (Ok(Some(old)), Ok(Some(new))) = (old.build_id(), new.build_id()) else { return true };
    let Some(((old_last, old), (new_last, new))) = old.split_last().zip(new.split_last()) else {
        return true;
    };
    old == new && old_last ^ new_last <= 1
}

/// A jump of two bytes becomes one of six, and another of five can follow it.
const LONGER: u64 = 9;

/// Number of bytes in the old program, and their number in the new one.
struct Bytes {
    covered: u64,
    told: u32,
}

impl Bytes {
    fn all(covered: u64) -> Self {
        Self { covered, told: covered.min(u64::from(u32::MAX)) as u32 }
    }
}

/// A block in pieces; each has its share of the instructions.
fn divided<'a>(block: &'a Block, pieces: &'a [(u64, u32)]) -> impl Iterator<Item = Block> + 'a {
    let bytes: u64 = pieces.iter().map(|(_, size)| u64::from(*size)).sum();
    let instructions_until = move |until: u64| match bytes {
        // The last piece gets the rest.
        0 => 0,
        _ => (u64::from(block.instructions) * until / bytes) as u32,
    };
    let (mut sum, last) = (0_u64, pieces.len().saturating_sub(1));
    let tail = block.size.saturating_sub(block.last);
    // A removed block still passes control to the block after it.
    let none = pieces.is_empty().then_some(Block { size: 0, ..*block });
    let pieces = pieces.iter().enumerate().map(move |(index, &(address, size))| {
        let before = instructions_until(sum);
        sum += u64::from(size);
        let until = if index == last { block.instructions } else { instructions_until(sum) };
        Block {
            object: block.object,
            address,
            size,
            instructions: until - before.min(until),
            last: size.saturating_sub(tail),
            repeats: block.repeats && index == last,
        }
    });
    none.into_iter().chain(pieces)
}

fn moved_part(part: &Part, now: &[(u32, u32)], all: usize) -> Part {
    let mut counts = vec![0; all];
    let mut edges = Vec::with_capacity(part.edges.len());
    for (index, &(first, pieces)) in now.iter().enumerate() {
        let count = part.count(index);
        counts[first as usize..(first + pieces) as usize].fill(count);
        if count > 0 && !part.edges.is_empty() {
            let inner = (first..first + pieces).zip(first + 1..first + pieces);
            edges.extend(inner.map(|(from, to)| Edge { from, to, count }));
        }
    }
    edges.extend(part.edges.iter().filter_map(|edge| {
        let (&(first, pieces), &(to, _)) = (now.get(edge.from as usize)?, now.get(edge.to as usize)?);
        Some(Edge { from: first + pieces - 1, to, count: edge.count })
    }));
    edges.sort_unstable();
    Part { name: part.name.clone(), threads: part.threads, counts, edges, simulated: None }
}

fn moved_window(window: &Window, now: &[(u32, u32)]) -> Window {
    let mut moved =
        Window { thread: window.thread, warm_up: 0, blocks: Vec::with_capacity(window.blocks.len()) };
    for (index, &block) in window.blocks.iter().enumerate() {
        if index == window.warm_up {
            moved.warm_up = moved.blocks.len();
        }
        if let Some(&(first, pieces)) = now.get(block as usize) {
            moved.blocks.extend(first..first + pieces);
        }
    }
    if window.warm_up >= window.blocks.len() {
        moved.warm_up = moved.blocks.len();
    }
    moved
}

/// A function in both programs.
struct Pair {
    before: u64,
    size: u64,
    now: u64,
}

struct Symbol<'a> {
    name: &'a str,
    address: u64,
    size: u64,
}

/// Names of functions, in order.
fn symbols<'a>(file: &'a object::File<'a>) -> Vec<Symbol<'a>> {
    let is_code = |symbol: &object::Symbol<'_, '_>| {
        let section = symbol.section_index().and_then(|index| file.section_by_index(index).ok());
        let can_be = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown);
        can_be && section.is_some_and(|section| section.kind() == SectionKind::Text)
    };
    let named = file.symbols().filter(is_code).filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| !name.is_empty())?;
        // A size that an assembler left out is unknown.
        Some(Symbol { name, address: symbol.address(), size: symbol.size() })
    });
    named.collect()
}

/// Functions of both programs by name. BOLT keeps the order of symbols, so among local functions with the same name the first one remains
/// the first. If their number has changed, none is used.
fn pairs(before: &[Symbol<'_>], now: &[Symbol<'_>]) -> Vec<Pair> {
    let mut named: HashMap<&str, (Vec<&Symbol<'_>>, Vec<&Symbol<'_>>)> = HashMap::new();
    before.iter().for_each(|symbol| named.entry(symbol.name).or_default().0.push(symbol));
    now.iter().for_each(|symbol| named.entry(symbol.name).or_default().1.push(symbol));
    let alike = named.into_values().filter(|(before, now)| before.len() == now.len());
    let mut pairs: Vec<Pair> = alike
        .flat_map(|(before, now)| before.into_iter().zip(now))
        .map(|(before, now)| Pair { before: before.address, size: before.size, now: now.address })
        .collect();
    pairs.sort_by(|left, right| (left.before, right.size).cmp(&(right.before, left.size)));
    pairs.dedup_by_key(|pair| pair.before);
    pairs
}

/// Known places of a function by old offset. For duplicated code, the first place in the hot part is used.
fn anchors(begin: u64, fragments: &[&table::Fragment]) -> Vec<Anchor> {
    let mut anchors: Vec<(Anchor, bool)> = Vec::new();
    for fragment in fragments {
        let nexts = fragment.places.iter().skip(1).map(|next| next.now).chain([u64::MAX]);
        for (place, next) in fragment.places.iter().zip(nexts) {
            let before = begin.saturating_add(place.before);
            let anchor = Anchor { before, now: place.now, room: next.saturating_sub(place.now) };
            anchors.push((anchor, place.is_branch));
        }
    }
    // The sort is stable.
    anchors.sort_by_key(|(anchor, is_branch)| (anchor.before, *is_branch));
    anchors.dedup_by_key(|(anchor, _)| anchor.before);
    anchors.into_iter().map(|(anchor, _)| anchor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::{block, run};

    fn anchor(before: u64, now: u64, room: u64) -> Anchor {
        Anchor { before, now, room }
    }

    /// `f` at 0x1000 to 0x1040: its first half is at 0x8000, its second was cut apart to 0x9000 and is shorter by four bytes; `g` at
    /// 0x1040 moved as a whole.
    fn moved() -> Moved {
        let anchors =
            vec![anchor(0x1000, 0x8000, 0x18), anchor(0x1018, 0x8018, 0x40), anchor(0x1020, 0x9000, 0x1c)];
        let f = Function { begin: 0x1000, end: 0x1040, anchors, now: 0x8000 };
        let g = Function { begin: 0x1040, end: 0x1060, anchors: Vec::new(), now: 0xa000 };
        Moved { functions: vec![f, g], image: Image::default() }
    }

    #[test]
    fn bytes_lie_where_the_table_or_a_symbol_says() {
        let moved = moved();
        assert_eq!(moved.pieces(0x1004, 8), [(0x8004, 8)]);
        assert_eq!(moved.pieces(0x1010, 0x20), [(0x8010, 0x10), (0x9000, 0x10)], "cut apart");
        assert_eq!(moved.pieces(0x1030, 0x20), [(0x9010, 0x0c), (0xa000, 0x10)], "four bytes were taken out");
        assert_eq!(moved.pieces(0x0ff0, 0x18), [(0x0ff0, 0x10), (0x8000, 8)], "of no function that is known");
        assert_eq!(moved.pieces(0x2000, 4), [(0x2000, 4)]);
    }

    #[test]
    fn a_branch_that_became_longer_still_falls_through() {
        // A jump of two bytes at 0x100e takes six now; the block behind it follows.
        let anchors =
            vec![anchor(0x1000, 0x8000, 0xe), anchor(0x100e, 0x800e, 6), anchor(0x1010, 0x8014, u64::MAX)];
        let f = Function { begin: 0x1000, end: 0x1040, anchors, now: 0x8000 };
        let moved = Moved { functions: vec![f], image: Image::default() };
        assert_eq!(moved.pieces(0x1000, 0x10), [(0x8000, 0x14)]);
        assert_eq!(moved.pieces(0x1000, 0x20), [(0x8000, 0x24)]);
        let before = run(&[(block(0x1000, 0x10, 4), 5), (block(0x1010, 4, 1), 5)], &[(0, 1, 5)]);
        let now = moved.run(&before, 0);
        assert!(!now.blocks[0].is_branch_to(&now.blocks[1]));
    }

    #[test]
    fn what_ran_is_laid_out_anew() {
        let mut before =
            run(&[(block(0x1010, 0x20, 8), 5), (block(0x2000, 4, 1), 5)], &[(0, 1, 5), (1, 0, 4)]);
        before.objects = vec![Object { path: "/bin/x".to_owned(), image: None }];
        before.windows = vec![Window { thread: 7, warm_up: 1, blocks: vec![0, 1, 0] }];
        let now = moved().run(&before, 0);
        let places: Vec<_> =
            now.blocks.iter().map(|block| (block.address, block.size, block.instructions)).collect();
        assert_eq!(places, [(0x8010, 0x10, 4), (0x9000, 0x10, 4), (0x2000, 4, 1)]);
        let edge = |from, to, count| Edge { from, to, count };
        assert_eq!(now.parts[0].edges, [edge(0, 1, 5), edge(1, 2, 5), edge(2, 0, 4)]);
        assert_eq!(now.parts[0].counts, [5, 5, 5]);
        assert_eq!(now.windows[0], Window { thread: 7, warm_up: 2, blocks: vec![0, 1, 2, 0, 1] });
        assert_eq!(before.parts[0].instructions(&before), now.parts[0].instructions(&now));
    }

    #[test]
    fn instructions_that_were_taken_out_whole_still_count() {
        let anchors =
            vec![anchor(0x1000, 0x8000, 0x10), anchor(0x1010, 0x8010, 0), anchor(0x1012, 0x8010, 0x20)];
        let f = Function { begin: 0x1000, end: 0x1040, anchors, now: 0x8000 };
        let moved = Moved { functions: vec![f], image: Image::default() };
        let before = run(&[(block(0x1010, 2, 1), 5), (block(0x1008, 16, 5), 5)], &[]);
        let now = moved.run(&before, 0);
        let sizes: Vec<_> =
            now.blocks.iter().map(|block| (block.address, block.size, block.instructions)).collect();
        assert_eq!(sizes, [(0x8010, 0, 1), (0x8008, 14, 5)]);
    }

    #[test]
    fn code_of_other_objects_stays() {
        let before = run(&[(Block { object: Some(1), ..block(0x1010, 0x20, 8) }, 5)], &[]);
        assert_eq!(moved().run(&before, 0).blocks, before.blocks);
    }

    #[test]
    fn functions_that_share_a_name_are_told_apart_by_their_order() {
        let symbol = |name, address| Symbol { name, address, size: 8 };
        let before = [symbol("cmp", 0x10), symbol("main", 0x20), symbol("cmp", 0x30), symbol("gone", 0x40)];
        let now = [symbol("cmp", 0x900), symbol("cmp", 0x800), symbol("main", 0x700)];
        let found: Vec<_> = pairs(&before, &now).iter().map(|pair| (pair.before, pair.now)).collect();
        assert_eq!(found, [(0x10, 0x900), (0x20, 0x700), (0x30, 0x800)]);
        assert_eq!(pairs(&before[..1], &now).len(), 0, "one of two was folded");
    }

    #[test]
    fn a_program_without_a_table_is_told() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert_eq!(Moved::between(&own, &own).unwrap_err(), NotMoved::NoTable);
        assert!(matches!(Moved::between(b"x", &own), Err(NotMoved::NoProgram(_))));
    }

    #[test]
    fn any_table_is_held_in_bounds() {
        let places =
            vec![table::tests::place(0x8000, 0, false), table::tests::place(0x8004, u64::MAX >> 8, true)];
        let section = table::tests::written(&[table::Fragment { function: 0x8000, places }], &[]);
        let fragments = table::parse(&section).unwrap();
        let found = anchors(u64::MAX - 4, &fragments.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 2);
    }
}
