//! Checks of a program before BOLT reads it: each problem names the flag that fixes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use object::elf::{DF_1_PIE, DT_FLAGS_1, EM_AARCH64, EM_X86_64, ET_DYN, ET_EXEC, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, ElfFile, FileHeader, ProgramHeader};
use object::{
    Endianness, Object, ObjectSection, ObjectSymbol, RelocationKind, RelocationTarget, SectionKind,
    SymbolKind,
};
use serde::{Deserialize, Serialize};

use super::refusal::BoltRefusal;
use crate::elf;

/// The first BOLT known to move functions with label tables; 19 is known to fail on them.
const MOVES_LABELS: u32 = 22;

/// The most names that are kept as examples.
const EXAMPLES: usize = 8;

/// The properties of a program that matter to BOLT.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Anatomy {
    /// Build-id, hex. BOLT's output has that of its input with the last bit flipped.
    pub build_id: Option<String>,
    /// Whether the linker kept the relocations of the code.
    pub relocations: bool,
    /// Whether it has a symbol table with functions.
    pub symbols: bool,
    /// Whether it runs without a dynamic loader.
    pub static_link: bool,
    /// Whether it is position-independent.
    pub position_independent: bool,
    /// Whether it is a Go program.
    pub go: bool,
    /// Whether BOLT has rewritten it.
    pub bolted: bool,
    /// Whether it is instrumented by BOLT.
    pub bolt_instrumented: bool,
    /// The number of functions that the compiler itself has split (`.cold`).
    pub cold_parts: u64,
    /// Some of their names.
    pub cold_examples: Vec<String>,
    /// A Rust function whose name BOLT mistakes for that of a split-off part.
    #[serde(default)]
    pub taken_for_part: Option<String>,
    /// Functions that jump through a label table (computed goto): data outside of jump tables points into their middle.
    pub computed_gotos: Vec<String>,
}

impl Anatomy {
    /// Functions that a BOLT of this major version fails on: those with label tables, in position-independent code.
    pub fn to_skip(&self, major: u32) -> &[String] {
        if major < MOVES_LABELS && self.position_independent { &self.computed_gotos } else { &[] }
    }
}

/// A problem that BOLT tolerates, with a worse result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// The problem.
    pub what: String,
    /// The flag that fixes it.
    pub mend: String,
}

type Elf<'a> = ElfFile<'a, FileHeader64<Endianness>>;

/// Reads the anatomy of a program.
///
/// # Errors
/// Fails when the file can't be read; [`BoltRefusal::NoProgram`] if it is not a program for a machine that BOLT supports.
pub fn anatomy(path: &Path) -> Result<Anatomy> {
    let bytes = elf::read(path)?;
    anatomy_of(&bytes).map_err(|what| refusal(BoltRefusal::NoProgram { file: path.to_path_buf(), what }))
}

fn refusal(refusal: BoltRefusal) -> anyhow::Error {
    crate::refusal::Refusal::from(refusal).into()
}

pub(crate) fn anatomy_of(bytes: &[u8]) -> Result<Anatomy, String> {
    let file = Elf::parse(bytes).map_err(|error| format!("it is not a 64-bit ELF file ({error})"))?;
    let endian = file.endian();
    let header = file.elf_header();
    let (kind, machine) = (header.e_type(endian), header.e_machine(endian));
    if kind != ET_EXEC && kind != ET_DYN {
        return Err(format!("it is not a linked program (ELF type {kind})"));
    }
    if machine != EM_X86_64 && machine != EM_AARCH64 {
        return Err(format!("it is for another machine (ELF machine {machine})"));
    }
    let has = |name: &str| file.section_by_name(name).is_some();
    let sections: Vec<&str> = file.sections().filter_map(|section| section.name().ok()).collect();
    let functions = functions(&file);
    let pie = kind == ET_DYN;
    let is_part = |name: &str| is_cold_part(name) && !is_taken_for_part(name);
    let cold: Vec<&Function<'_>> = functions.iter().filter(|function| is_part(function.name)).collect();
    Ok(Anatomy {
        build_id: file.build_id().ok().flatten().map(hex),
        // A relocation section is named after its target section; `object` does not list it among the sections' own.
        relocations: has(".rela.text"),
        symbols: !functions.is_empty(),
        static_link: !has_interpreter(&file) && (!pie || says_pie(&file)),
        position_independent: pie,
        go: sections.iter().any(|name| matches!(*name, ".go.buildinfo" | ".gopclntab" | ".note.go.buildid")),
        bolted: sections.iter().any(|name| *name == ".note.bolt_info" || name.starts_with(".bolt.org.")),
        bolt_instrumented: has(".bolt.instr.counters") || has(".bolt.instr.tables"),
        cold_parts: cold.len() as u64,
        cold_examples: cold.iter().take(EXAMPLES).map(|function| function.name.to_owned()).collect(),
        taken_for_part: functions
            .iter()
            .map(|function| function.name)
            .find(|name| is_taken_for_part(name))
            .map(str::to_owned),
        computed_gotos: computed_gotos(&file, &functions),
    })
}

/// BOLT names a function without a symbol by its address in hex: local ones after `strip -x`, or a link with `--discard-all`.
const NAMELESS: &str = "__BOLT_FDE_FUNCat";

/// Names of all functions in the symbol table, for the comparison with a profile.
#[derive(Debug)]
pub(crate) struct FunctionNames {
    pub(crate) names: BTreeSet<String>,
    /// Where code begins, and its bytes.
    code: Vec<(u64, u64)>,
}

impl FunctionNames {
    /// Whether it is one of the program's. By its address alone it is only known to be code.
    pub(crate) fn contains(&self, name: &str) -> bool {
        let address = || u64::from_str_radix(name.strip_prefix(NAMELESS)?, 16).ok();
        let is_code = |address: u64| {
            let from = |begin: u64| address.checked_sub(begin);
            self.code.iter().any(|(begin, bytes)| from(*begin).is_some_and(|from| from < *bytes))
        };
        self.names.contains(name) || address().is_some_and(is_code)
    }
}

/// Reads them.
pub(crate) fn function_names(path: &Path) -> Result<FunctionNames> {
    let bytes = elf::read(path)?;
    let file = elf::parse(&bytes, path)?;
    let names = file.symbols().chain(file.dynamic_symbols()).filter_map(|symbol| symbol.name().ok());
    let code = file.sections().filter(|section| section.kind() == SectionKind::Text);
    Ok(FunctionNames {
        names: names.map(|name| name.split('@').next().unwrap_or(name).to_owned()).collect(),
        code: code.map(|section| (section.address(), section.size())).collect(),
    })
}

/// Number of file-local functions with each name.
pub(crate) fn local_names(path: &Path) -> Result<BTreeMap<String, usize>> {
    let bytes = elf::read(path)?;
    let file = elf::parse(&bytes, path)?;
    let mut names = BTreeMap::new();
    let is_local = |symbol: &object::Symbol<'_, '_>| symbol.is_local() && symbol.kind() == SymbolKind::Text;
    for name in file.symbols().filter(is_local).filter_map(|symbol| Some(symbol.name().ok()?.to_owned())) {
        *names.entry(name).or_default() += 1;
    }
    Ok(names)
}

/// A build-id as BOLT writes it into its output.
pub(crate) fn flipped(build_id: &str) -> Option<String> {
    let last = build_id.chars().last()?.to_digit(16)? ^ 1;
    let front = build_id.get(..build_id.len() - 1)?;
    Some(format!("{front}{last:x}"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// rustc's older names have `..` between the parts of a path inside of a type: those of a module `cold` contain `.cold`.
fn is_taken_for_part(name: &str) -> bool {
    name.starts_with("_ZN")
        && [".cold", ".warm"].iter().any(|part| name.contains(part))
        && name.contains("..")
}

/// gcc and clang call the cold part of `f` `f.cold`, or `f.cold.1`.
fn is_cold_part(name: &str) -> bool {
    name.ends_with(".cold") || name.contains(".cold.")
}

fn has_interpreter(file: &Elf<'_>) -> bool {
    file.elf_program_headers().iter().any(|header| header.p_type(file.endian()) == PT_INTERP)
}

/// A static position-independent program is marked as such; a library is not.
fn says_pie(file: &Elf<'_>) -> bool {
    let endian = file.endian();
    let dynamic = file
        .elf_program_headers()
        .iter()
        .find_map(|header| header.dynamic(endian, file.data()).ok().flatten());
    dynamic.is_some_and(|entries| {
        entries.iter().any(|entry| {
            entry.tag32(endian) == Some(DT_FLAGS_1)
                && entry.val32(endian).is_some_and(|flags| flags & DF_1_PIE != 0)
        })
    })
}

struct Function<'a> {
    start: u64,
    size: u64,
    name: &'a str,
}

/// In the order of their addresses.
fn functions<'a>(file: &Elf<'a>) -> Vec<Function<'a>> {
    let mut functions: Vec<Function<'a>> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .filter_map(|symbol| {
            Some(Function { start: symbol.address(), size: symbol.size(), name: symbol.name().ok()? })
        })
        .filter(|function| !function.name.is_empty())
        .collect();
    functions.sort_by_key(|function| function.start);
    functions
}

/// Functions with pointers into their middle from writable or relocated data, by absolute address. Switch tables of position-independent
/// code are relative, and those of other code are in `.rodata`, so neither is mistaken for one.
fn computed_gotos(file: &Elf<'_>, functions: &[Function<'_>]) -> Vec<String> {
    let mut found = BTreeSet::new();
    let wanted = |name: &str| name == ".data" || name.starts_with(".data.rel.ro");
    for section in file.sections().filter(|section| section.name().is_ok_and(wanted)) {
        for (_, relocation) in section.relocations() {
            if relocation.kind() != RelocationKind::Absolute {
                continue;
            }
            let RelocationTarget::Symbol(index) = relocation.target() else { continue };
            let Ok(symbol) = file.symbol_by_index(index) else { continue };
            if !matches!(symbol.kind(), SymbolKind::Section | SymbolKind::Text | SymbolKind::Label) {
                continue;
            }
            let address = symbol.address().wrapping_add_signed(relocation.addend());
            let at = functions.partition_point(|function| function.start <= address);
            let Some(function) = at.checked_sub(1).and_then(|at| functions.get(at)) else { continue };
            let inside = address > function.start && address - function.start < function.size;
            if inside && is_code(file, address) {
                found.insert(function.name.to_owned());
            }
        }
    }
    found.into_iter().collect()
}

fn is_code(file: &Elf<'_>, address: u64) -> bool {
    file.sections().any(|section| {
        section.kind() == SectionKind::Text
            && address.checked_sub(section.address()).is_some_and(|offset| offset < section.size())
    })
}

/// Refuses a program that BOLT can't rewrite, or would leave unchanged; the other problems become warnings.
///
/// # Errors
/// [`BoltRefusal`], inside of [`crate::Refusal`].
pub fn check(path: &Path, anatomy: &Anatomy) -> Result<Vec<Warning>> {
    let file = path.to_path_buf();
    if anatomy.bolted || anatomy.bolt_instrumented {
        return Err(refusal(BoltRefusal::AlreadyBolted { file, instrumented: anatomy.bolt_instrumented }));
    }
    if anatomy.go {
        return Err(refusal(BoltRefusal::Go { file }));
    }
    if !anatomy.symbols {
        return Err(refusal(BoltRefusal::Stripped { file }));
    }
    if !anatomy.relocations {
        return Err(refusal(BoltRefusal::NoRelocations { file }));
    }
    if let Some(function) = &anatomy.taken_for_part {
        return Err(refusal(BoltRefusal::TakenForPart { file, function: function.clone() }));
    }
    Ok(warnings(anatomy))
}

fn warnings(anatomy: &Anatomy) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |what: String, mend: &str| warnings.push(Warning { what, mend: mend.to_owned() });
    if anatomy.cold_parts > 0 {
        let what = format!(
            "the compiler itself has split {} functions ({} ...); BOLT optimises those badly",
            anatomy.cold_parts,
            anatomy.cold_examples.join(", ")
        );
        warn(what, "compile with -fno-reorder-blocks-and-partition");
    }
    if !anatomy.computed_gotos.is_empty() {
        let what = format!(
            "{} functions jump through tables of labels ({} ...); BOLT 19 can't move them and leaves them \
             as they are",
            anatomy.computed_gotos.len(),
            anatomy.computed_gotos.iter().take(EXAMPLES).cloned().collect::<Vec<_>>().join(", ")
        );
        warn(what, "use BOLT 22");
    }
    if anatomy.build_id.is_none() {
        let what = "the program has no build-id; Hone compares profiles with its hash instead".to_owned();
        warn(what, "link with -Wl,--build-id");
    }
    if anatomy.static_link {
        let what = "the program is static: its instrumentation writes nothing at the end".to_owned();
        warn(what, "let the instrumentation write every few seconds, or link dynamically");
    }
    warnings
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn build_ids_turn_over_their_last_bit() {
        assert_eq!(flipped("17a6").as_deref(), Some("17a7"));
        assert_eq!(flipped("17af").as_deref(), Some("17ae"));
        assert_eq!(flipped(""), None);
        assert_eq!(flipped("zz"), None);
    }

    #[test]
    fn what_is_no_program_is_told() {
        let what = anatomy_of(b"#!/bin/sh\n").unwrap_err();
        assert!(what.starts_with("it is not a 64-bit ELF file"), "{what}");
        let error = anatomy(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(error.to_string().contains("can't be read"));
    }

    #[test]
    fn names_of_cold_parts() {
        let of_rust =
            "_ZN68_$LT$store..cold..Store$u20$as$u20$core..ops..drop..Drop$GT$4drop17h63ce44612d8b2403E";
        assert!(is_taken_for_part(of_rust) && !is_taken_for_part("f.cold"));
        assert!(!is_taken_for_part("_ZN5store7icecold3get17h63ce44612d8b2403E"));
        for (name, cold) in [("f.cold", true), ("f.cold.12", true), ("cold", false), ("f.colder", false)] {
            assert_eq!(is_cold_part(name), cold, "{name}");
        }
    }

    #[test]
    fn a_function_without_a_symbol_is_known_by_its_address() {
        let own = std::env::current_exe().unwrap();
        let names = function_names(&own).unwrap();
        let (begin, bytes) = names.code.iter().copied().max_by_key(|(_, bytes)| *bytes).unwrap();
        assert!(names.contains("main") && !names.contains("no function of this name"));
        let at = |address: u64| names.contains(&format!("{NAMELESS}{address:X}"));
        assert!(at(begin) && at(begin + bytes - 1));
        assert!(!at(0) && !at(u64::MAX) && !names.contains(NAMELESS));
    }

    #[test]
    fn the_own_program_is_read() {
        let own = anatomy(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.symbols && !own.static_link && !own.go && !own.bolted, "{own:?}");
    }

    proptest! {
        #[test]
        fn damage_is_survived(changes in proptest::collection::vec((0..4096_usize, any::<u8>()), 1..20)) {
            let mut bytes = include_bytes!("../../tests/fixtures/bolt/tiny.elf").to_vec();
            let length = bytes.len();
            for (at, byte) in changes {
                bytes[at % length] = byte;
            }
            let _ = anatomy_of(&bytes);
        }
    }
}
