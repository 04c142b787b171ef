//! Functions with the functions that a compiler inlined into them, from a program's debug information (DWARF). The input bytes are not
//! trusted. The code is pure.
//!
//! The code reads each unit whose addresses overlap the requested code once. Time is limited by the size of the debug information, and
//! memory by the number of stacks. Code whose debug information is elsewhere (split DWARF) or invalid has no functions here.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use gimli::{AttributeValue, DwAt, constants as dw};
use hone_record::{CodeFrame, demangled};

use crate::source::{Bytes, NoPlaces, debug_information, path, places_in, plain};

/// Functions in a stack. Code that is inlined deeper belongs to the last of them.
pub const MOST_STACKS_DEEP: usize = 64;
/// Stacks of a program. Chromium's hot code has about as many.
const MOST_STACKS: usize = 1 << 20;
/// References from a function to its declaration. Compilers write two.
const MOST_REFERENCES: usize = 8;
/// A longer name has another source than a compiler.
const MOST_NAME_BYTES: usize = 16 << 10;
/// Steps per byte of debug information. Valid information has fewer: an entry and most of its attributes have a byte of their own.
const STEPS_PER_BYTE: u64 = 4;
/// Steps per requested stretch, since each can lie in several nested functions.
const STEPS_PER_STRETCH: u64 = 4 * MOST_STACKS_DEEP as u64;

type Unit<'a> = gimli::Unit<Bytes<'a>>;
type Entry<'a> = gimli::DebuggingInformationEntry<Bytes<'a>>;
/// Begin and end of code, as linked.
type Stretch = (u64, u64);

/// The functions around each piece of the requested code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stacks {
    stacks: Vec<Stack>,
    /// Pieces with a stack: begin, end, and index of the stack; sorted.
    pieces: Vec<(u64, u64, u32)>,
}

/// A function with those around it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stack {
    frame: CodeFrame,
    /// The stack of its caller, if it is inlined.
    caller: Option<u32>,
    /// The stack of the outermost function.
    function: u32,
}

/// A piece of a stretch that has one stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Address of its first byte.
    pub begin: u64,
    /// Its size.
    pub bytes: u64,
    /// Its stack, for [`Stacks::frames`]; `None` if it is unknown.
    pub stack: Option<u32>,
}

impl Stacks {
    /// The functions of a stack, the outermost first.
    pub fn frames(&self, stack: u32) -> Vec<&CodeFrame> {
        let of = |index: u32| self.stacks.get(index as usize);
        let mut frames: Vec<&CodeFrame> =
            std::iter::successors(of(stack), |found| of(found.caller?)).map(|found| &found.frame).collect();
        frames.reverse();
        frames
    }

    /// Divides a stretch of the requested code wherever the functions around it change.
    pub fn pieces(&self, begin: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = begin;
        let mut add = |at: &mut u64, to: u64, stack: Option<u32>| {
            if *at < to {
                pieces.push(Piece { begin: *at, bytes: to - *at, stack });
                *at = to;
            }
        };
        let first = self.pieces.partition_point(|(_, piece_end, _)| *piece_end <= begin);
        for &(from, to, stack) in self.pieces[first..].iter().take_while(|(from, ..)| *from < end) {
            add(&mut at, from, None);
            add(&mut at, to.min(end), Some(stack));
        }
        add(&mut at, end, None);
        pieces
    }
}

/// Finds the functions around stretches of a program's code, as linked. Code without debug information has none, which is no error.
///
/// # Errors
/// Returns [`NoPlaces`].
pub fn stacks(program: &[u8], stretches: &[(u64, u64)]) -> Result<Stacks, NoPlaces> {
    let found = debug_information(program, |dwarf, bytes| {
        let steps = bytes.saturating_mul(STEPS_PER_BYTE);
        let steps = steps.saturating_add(STEPS_PER_STRETCH * stretches.len() as u64);
        let mut reader = Reader::new(dwarf, Code::new(stretches), Steps(steps))?;
        reader.read_all();
        reader.add_first_lines();
        Ok(reader.finish())
    });
    found.map(Option::unwrap_or_default)
}

/// Steps that may still be taken.
struct Steps(u64);

impl Steps {
    /// Takes steps. `None` if there are not enough of them.
    fn take(&mut self, steps: usize) -> Option<()> {
        self.0 = self.0.checked_sub(steps as u64)?;
        Some(())
    }
}

/// The requested code, divided by owner.
struct Code(BTreeMap<u64, Owned>);

#[derive(Clone, Copy)]
struct Owned {
    end: u64,
    owner: Option<Owner>,
}

/// The stack of a piece, and the stack of its outermost function.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    stack: u32,
    function: u32,
}

impl Code {
    fn new(stretches: &[Stretch]) -> Self {
        let mut sorted: Vec<Stretch> = stretches.iter().copied().filter(|(begin, end)| begin < end).collect();
        sorted.sort_unstable();
        let mut merged: Vec<Stretch> = Vec::new();
        for (begin, end) in sorted {
            match merged.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        Self(merged.into_iter().map(|(begin, end)| (begin, Owned { end, owner: None })).collect())
    }

    fn has_any(&self, (begin, end): Stretch) -> bool {
        self.0.range(..end).next_back().is_some_and(|(_, piece)| piece.end > begin)
    }

    /// Gives the part of a stretch that belongs to a function (`None`: to no function) to a new owner. Returns whether there is any.
    fn give(&mut self, (begin, end): Stretch, from: Option<u32>, to: Owner, steps: &mut Steps) -> bool {
        let first = self.0.range(..=begin).next_back().map_or(begin, |(start, _)| *start);
        let mut given = Vec::new();
        for (start, piece) in self.0.range(first..end) {
            if steps.take(1).is_none() {
                return false;
            }
            if piece.end > begin && piece.owner.map(|owner| owner.function) == from {
                given.push((*start, *piece));
            }
        }
        for (start, piece) in &given {
            let (from, until) = (begin.max(*start), end.min(piece.end));
            if *start < from {
                self.0.insert(*start, Owned { end: from, ..*piece });
            }
            self.0.insert(from, Owned { end: until, owner: Some(to) });
            if until < piece.end {
                self.0.insert(until, *piece);
            }
        }
        !given.is_empty()
    }
}

struct Reader<'d> {
    dwarf: &'d gimli::Dwarf<Bytes<'d>>,
    /// Headers of all units of code, sorted by position.
    headers: Vec<gimli::UnitHeader<Bytes<'d>>>,
    /// Units to which another unit refers, by index.
    others: HashMap<usize, Option<Rc<Unit<'d>>>>,
    /// Names of inlined functions, by position in the section.
    names: HashMap<usize, String>,
    /// Paths, by position of the unit and number of the file.
    paths: HashMap<(usize, u64), Option<String>>,
    code: Code,
    stacks: Vec<Stack>,
    /// Functions without a declaration (-g1): stack, first address, and the folder of their compiler.
    undeclared: Vec<(u32, u64, String)>,
    steps: Steps,
}

/// What a function's entries say about it.
#[derive(Default)]
struct Description {
    linkage_name: Option<String>,
    name: Option<String>,
    file: Option<String>,
    line: Option<u64>,
}

impl Description {
    fn finish(self) -> CodeFrame {
        let linked = self.linkage_name.map(|name| demangled(&name));
        let name = linked.or(self.name).unwrap_or_else(|| "unknown".to_owned());
        CodeFrame { name: plain(&name), source: self.file.zip(self.line).map(position) }
    }
}

fn position((file, line): (String, u64)) -> String {
    format!("{file}:{line}")
}

/// An entry that is read, with its depth in the tree. It has no stack if its code is not requested.
struct Open {
    depth: isize,
    stack: Option<u32>,
}

impl<'d> Reader<'d> {
    fn new(dwarf: &'d gimli::Dwarf<Bytes<'d>>, code: Code, steps: Steps) -> gimli::Result<Self> {
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            // Units of types hold no code, and share the line tables of other units.
            if !matches!(header.type_(), gimli::UnitType::Type { .. }) {
                headers.push(header);
            }
        }
        Ok(Self {
            dwarf,
            headers,
            others: HashMap::new(),
            names: HashMap::new(),
            paths: HashMap::new(),
            code,
            stacks: Vec::new(),
            undeclared: Vec::new(),
            steps,
        })
    }

    fn finish(self) -> Stacks {
        let owned = self.code.0.into_iter();
        let pieces = owned.filter_map(|(begin, piece)| Some((begin, piece.end, piece.owner?.stack)));
        Stacks { stacks: self.stacks, pieces: pieces.collect() }
    }

    /// An invalid unit is left out.
    fn read_all(&mut self) {
        for index in 0..self.headers.len() {
            let Some(unit) = self.unit(index) else { continue };
            if self.is_requested(&unit) {
                // Functions before an error count.
                let _ = self.read(&unit);
            }
        }
    }

    fn unit(&mut self, index: usize) -> Option<Unit<'d>> {
        let unit = self.dwarf.unit(*self.headers.get(index)?).ok()?;
        let table = unit.line_program.as_ref().map_or(0, |program| program.header().header_length());
        self.steps.take(table)?;
        Some(unit)
    }

    fn is_requested(&mut self, unit: &Unit<'d>) -> bool {
        let mut root = Entry::null();
        let read = unit.entries_raw(None).and_then(|mut entries| entries.read_entry(&mut root));
        read.is_ok() && self.stretches(unit, &root).into_iter().any(|stretch| self.code.has_any(stretch))
    }

    fn read(&mut self, unit: &Unit<'d>) -> gimli::Result<()> {
        let mut entries = unit.entries_raw(None)?;
        let mut entry = Entry::null();
        let mut open: Vec<Open> = Vec::new();
        while !entries.is_empty() {
            let depth = entries.next_depth();
            let Some(kind) = entries.read_abbreviation()? else { continue };
            if self.steps.take(1 + kind.attributes().len()).is_none() {
                return Ok(());
            }
            while open.last().is_some_and(|above| above.depth >= depth) {
                open.pop();
            }
            let is_function = kind.tag() == dw::DW_TAG_subprogram;
            if !is_function && kind.tag() != dw::DW_TAG_inlined_subroutine {
                entries.skip_attributes(kind.attributes())?;
                continue;
            }
            entries.read_attributes(kind.attributes(), &mut entry.attrs)?;
            if open.len() == MOST_STACKS_DEEP {
                continue;
            }
            let around = open.last().and_then(|above| above.stack);
            let stack = match is_function {
                true => self.function(unit, &entry),
                false => around.and_then(|caller| self.inlined(unit, &entry, caller)),
            };
            if kind.has_children() {
                open.push(Open { depth, stack });
            }
        }
        Ok(())
    }

    /// Adds an out-of-line function. `None` if its code is not requested. The first of several functions keeps code that a linker folded.
    fn function(&mut self, unit: &Unit<'d>, entry: &Entry<'d>) -> Option<u32> {
        let stack = self.next_stack()?;
        let stretches = self.stretches(unit, entry);
        let to = Owner { stack, function: stack };
        if !self.give(&stretches, None, to) {
            return None;
        }
        let mut found = Description::default();
        self.describe(unit, entry, MOST_REFERENCES, &mut found);
        let frame = found.finish();
        if let (None, Some((begin, _))) = (&frame.source, stretches.first()) {
            self.undeclared.push((stack, *begin, folder(unit)));
        }
        self.stacks.push(Stack { frame, caller: None, function: stack });
        Some(stack)
    }

    /// Gives functions without a declaration the line of their first instruction.
    fn add_first_lines(&mut self) {
        let addresses: Vec<u64> = self.undeclared.iter().map(|(_, address, _)| *address).collect();
        let Some(places) = (!addresses.is_empty()).then(|| places_in(self.dwarf, &addresses).ok()).flatten()
        else {
            return;
        };
        for (stack, address, folder) in &self.undeclared {
            let Some(place) = places.at(*address).filter(|place| place.line > 0) else { continue };
            let file = places.files.get(place.file as usize).map(|file| without_folder(file, folder));
            if let Some(stack) = self.stacks.get_mut(*stack as usize) {
                stack.frame.source = file.map(|file| position((file, place.line.into())));
            }
        }
    }

    /// Adds an inlined function. `None` if its code is not requested. One without code may contain others.
    fn inlined(&mut self, unit: &Unit<'d>, entry: &Entry<'d>, caller: u32) -> Option<u32> {
        let stack = self.next_stack()?;
        let function = self.stacks.get(caller as usize)?.function;
        let stretches = self.stretches(unit, entry);
        if !stretches.is_empty() && !self.give(&stretches, Some(function), Owner { stack, function }) {
            return None;
        }
        let name = self.origin_name(unit, entry);
        let [file, line] = [dw::DW_AT_call_file, dw::DW_AT_call_line].map(|name| number(entry, name));
        let file = file.and_then(|file| self.path(unit, file));
        let source = file.zip(line.filter(|line| *line > 0)).map(position);
        self.stacks.push(Stack { frame: CodeFrame { name, source }, caller: Some(caller), function });
        Some(stack)
    }

    fn next_stack(&self) -> Option<u32> {
        let next = self.stacks.len();
        (next < MOST_STACKS).then_some(next as u32)
    }

    fn give(&mut self, stretches: &[Stretch], from: Option<u32>, to: Owner) -> bool {
        let mut is_any = false;
        for stretch in stretches {
            is_any |= self.code.give(*stretch, from, to, &mut self.steps);
        }
        is_any
    }

    /// The code of an entry. Linkers leave removed code at address 0, where no code lies.
    fn stretches(&mut self, unit: &Unit<'d>, entry: &Entry<'d>) -> Vec<Stretch> {
        let mut all = Vec::new();
        if let Some(value) = entry.attr_value(dw::DW_AT_ranges) {
            let Ok(Some(mut list)) = self.dwarf.attr_ranges(unit, value) else { return all };
            while let Ok(Some(range)) = list.next() {
                if self.steps.take(1).is_none() {
                    break;
                }
                all.push((range.begin, range.end));
            }
        } else {
            all.extend(self.low_to_high(unit, entry));
        }
        all.retain(|(begin, end)| *begin > 0 && begin < end);
        all
    }

    fn low_to_high(&self, unit: &Unit<'d>, entry: &Entry<'d>) -> Option<Stretch> {
        let address = |value| self.dwarf.attr_address(unit, value).ok().flatten();
        let low = address(entry.attr_value(dw::DW_AT_low_pc)?)?;
        match entry.attr_value(dw::DW_AT_high_pc)? {
            AttributeValue::Udata(size) => Some((low, low.checked_add(size)?)),
            value => Some((low, address(value)?)),
        }
    }

    /// The name of an inlined function. It can be inlined thousands of times.
    fn origin_name(&mut self, unit: &Unit<'d>, entry: &Entry<'d>) -> String {
        let origin = match entry.attr_value(dw::DW_AT_abstract_origin) {
            Some(AttributeValue::UnitRef(offset)) if offset.is_in_bounds(&unit.header) => {
                Some(offset.to_unit_section_offset(&unit.header).0)
            }
            Some(AttributeValue::DebugInfoRef(offset)) => Some(offset.0),
            _ => None,
        };
        if let Some(known) = origin.and_then(|origin| self.names.get(&origin)) {
            return known.clone();
        }
        let mut found = Description::default();
        self.describe(unit, entry, MOST_REFERENCES, &mut found);
        let name = found.finish().name;
        if let Some(origin) = origin {
            self.names.insert(origin, name.clone());
        }
        name
    }

    /// Adds what an entry says about its function, and what the entries say to which it refers.
    fn describe(&mut self, unit: &Unit<'d>, entry: &Entry<'d>, references: usize, found: &mut Description) {
        let dwarf = self.dwarf;
        let text = |names: &[DwAt]| {
            let value = names.iter().find_map(|name| entry.attr_value(*name))?;
            let text = dwarf.attr_string(unit, value).ok()?;
            (!text.is_empty() && text.len() <= MOST_NAME_BYTES).then(|| text.to_string_lossy().into_owned())
        };
        if found.linkage_name.is_none() {
            found.linkage_name = text(&[dw::DW_AT_linkage_name, dw::DW_AT_MIPS_linkage_name]);
        }
        if found.name.is_none() {
            found.name = text(&[dw::DW_AT_name]);
        }
        if found.file.is_none() {
            found.file = number(entry, dw::DW_AT_decl_file).and_then(|file| self.path(unit, file));
        }
        if found.line.is_none() {
            found.line = number(entry, dw::DW_AT_decl_line).filter(|line| *line > 0);
        }
        let Some(references) = references.checked_sub(1) else { return };
        let next = [dw::DW_AT_abstract_origin, dw::DW_AT_specification];
        match next.into_iter().find_map(|name| entry.attr_value(name)) {
            Some(AttributeValue::UnitRef(offset)) => {
                if let Some(entry) = self.entry(unit, offset) {
                    self.describe(unit, &entry, references, found);
                }
            }
            Some(AttributeValue::DebugInfoRef(offset)) => {
                let Some(unit) = self.unit_at(offset) else { return };
                let entry = offset.to_unit_offset(&unit.header).and_then(|offset| self.entry(&unit, offset));
                if let Some(entry) = entry {
                    self.describe(&unit, &entry, references, found);
                }
            }
            _ => {}
        }
    }

    fn entry(&mut self, unit: &Unit<'d>, offset: gimli::UnitOffset) -> Option<Entry<'d>> {
        let entry = unit.entry(offset).ok()?;
        self.steps.take(1 + entry.attrs().len())?;
        Some(entry)
    }

    fn unit_at(&mut self, offset: gimli::DebugInfoOffset) -> Option<Rc<Unit<'d>>> {
        let behind = self.headers.partition_point(|header| header.offset().0 <= offset.0);
        let index = behind.checked_sub(1)?;
        if !self.others.contains_key(&index) {
            let unit = self.unit(index).map(Rc::new);
            self.others.insert(index, unit);
        }
        self.others.get(&index)?.clone()
    }

    fn path(&mut self, unit: &Unit<'d>, file: u64) -> Option<String> {
        let key = (unit.header.offset().0, file);
        let found = self.paths.entry(key).or_insert_with(|| {
            let whole = path(self.dwarf, unit, unit.line_program.as_ref()?.header(), file)?;
            Some(without_folder(&whole, &folder(unit)))
        });
        found.clone()
    }
}

/// The folder in which the compiler ran.
fn folder(unit: &Unit<'_>) -> String {
    unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A path inside the compiler's folder: two commits are built in two folders.
fn without_folder(path: &str, folder: &str) -> String {
    let inside = path.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
    inside.filter(|_| !folder.is_empty()).unwrap_or(path).to_owned()
}

/// A number of an entry.
fn number(entry: &Entry<'_>, name: DwAt) -> Option<u64> {
    match entry.attr_value(name)? {
        AttributeValue::FileIndex(number) => Some(number),
        value => value.udata_value(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code of all programs below.
    const ALL: [(u64, u64); 1] = [(0x40_0000, 0x40_0200)];

    /// `f` calls `g`, and `g` calls `h` in a loop. The end of tests/inlined/inlined.c has the commands.
    const OF_C: &[u8] = include_bytes!("../fuzz/corpus/image/inlined-base");
    /// A method and a function in a namespace, with DWARF 4 and 5. The end of tests/inlined/inlined.cpp has the command.
    const OF_CPP: [&[u8]; 2] = [
        include_bytes!("../fuzz/corpus/image/inlined-cpp-4"),
        include_bytes!("../fuzz/corpus/image/inlined-cpp-5"),
    ];

    /// The same with line tables alone, which hold no declaration.
    const OF_LINES: &[u8] = include_bytes!("../fuzz/corpus/image/inlined-lines");

    /// The functions at an address: `f inlined.c:12`.
    fn at(stacks: &Stacks, address: u64) -> Vec<String> {
        let [piece] = stacks.pieces(address, address + 1)[..] else { panic!("one byte is one piece") };
        let frames = piece.stack.map(|stack| stacks.frames(stack)).unwrap_or_default();
        let text = |frame: &&CodeFrame| format!("{} {}", frame.name, frame.source.as_deref().unwrap_or("-"));
        frames.iter().map(text).collect()
    }

    #[test]
    fn inlined_functions_have_the_places_of_their_calls() {
        let found = stacks(OF_C, &ALL).unwrap();
        let f = "f inlined.c:12";
        assert_eq!(at(&found, 0x40_00b5), [f]);
        assert_eq!(at(&found, 0x40_00d5), [f, "g inlined.c:15"]);
        assert_eq!(at(&found, 0x40_00c8), [f, "g inlined.c:15", "h inlined.c:5"]);
        assert_eq!(at(&found, 0x40_00ed), ["_start inlined.c:19"]);
        assert!(at(&found, 0x40_0105).is_empty() && at(&found, 0).is_empty(), "no function is there");
    }

    #[test]
    fn functions_of_cpp_have_their_whole_names_in_each_version() {
        for program in OF_CPP {
            let found = stacks(program, &ALL).unwrap();
            let parse = "net::parse(net::Buffer const&) inlined.cpp:13";
            let sum = "net::Buffer::sum() const inlined.cpp:14";
            assert_eq!(at(&found, 0x40_0100), [parse, sum]);
            assert_eq!(at(&found, 0x40_0108), [parse, sum, "net::mix(unsigned int) inlined.cpp:10"]);
            assert_eq!(at(&found, 0x40_0123), [parse]);
            assert_eq!(at(&found, 0x40_0150), ["_start inlined.cpp:21"]);
        }
    }

    #[test]
    fn a_function_without_a_declaration_has_the_line_of_its_first_instruction() {
        let found = stacks(OF_LINES, &ALL).unwrap();
        let parse = "net::parse(net::Buffer const&) inlined.cpp:13";
        let sum = "net::Buffer::sum() const inlined.cpp:14";
        assert_eq!(at(&found, 0x40_0108), [parse, sum, "net::mix(unsigned int) inlined.cpp:10"]);
        assert_eq!(at(&found, 0x40_0150), ["_start inlined.cpp:21"]);
    }

    #[test]
    fn a_stretch_is_divided_where_its_functions_change_and_keeps_its_bytes() {
        // The loop of `g`: six instructions of `h`, then three of its own.
        let found = stacks(OF_C, &ALL).unwrap();
        let pieces = found.pieces(0x40_00c6, 0x40_00da);
        assert_eq!(pieces.iter().map(|piece| piece.bytes).collect::<Vec<_>>(), [12, 8]);
        let whole = found.pieces(0x3f_ff00, 0x40_0300);
        assert_eq!(whole.iter().map(|piece| piece.bytes).sum::<u64>(), 0x400);
        assert!(whole.is_sorted_by(|one, next| one.begin + one.bytes == next.begin));
        assert_eq!(found.pieces(5, 5), []);
        // Code that nobody asked for is not looked up.
        let few = stacks(OF_C, &[(0x40_00ed, 0x40_00f0)]).unwrap();
        assert!(at(&few, 0x40_00c8).is_empty() && at(&few, 0x40_00ee).len() == 1);
        assert_eq!(few.stacks.len(), 1);
    }

    #[test]
    fn code_belongs_to_the_first_function_and_to_its_innermost_inlined_one() {
        let mut code = Code::new(&[(10, 20), (18, 30), (50, 60), (7, 7)]);
        let mut steps = Steps(100);
        let mut give =
            |stretch, from, stack, function| code.give(stretch, from, Owner { stack, function }, &mut steps);
        assert!(give((12, 55), None, 0, 0), "it covers two requested stretches");
        assert!(!give((12, 30), None, 1, 1), "it was folded into the first");
        assert!(give((14, 16), Some(0), 2, 0) && give((15, 16), Some(0), 3, 0));
        assert!(!give((30, 50), Some(0), 4, 0), "nobody asked for it");
        let pieces: Vec<_> =
            code.0.iter().map(|(begin, piece)| (*begin, piece.end, piece.owner.map(|o| o.stack))).collect();
        let expected = [
            (10, 12, None),
            (12, 14, Some(0)),
            (14, 15, Some(2)),
            (15, 16, Some(3)),
            (16, 30, Some(0)),
            (50, 55, Some(0)),
            (55, 60, None),
        ];
        assert_eq!(pieces, expected);
        assert!(
            !code.give((55, 60), None, Owner { stack: 5, function: 5 }, &mut Steps(0)),
            "no step is left"
        );
    }

    #[test]
    fn a_program_without_debug_information_has_no_functions_here() {
        let tiny = include_bytes!("../fuzz/corpus/image/tiny");
        assert_eq!(stacks(tiny, &ALL), Ok(Stacks::default()));
        stacks(b"#!/bin/sh\n", &ALL).unwrap_err();
    }
}
