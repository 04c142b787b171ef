//! Source positions: files and lines from a program's debug information (DWARF). The input bytes are not trusted. The code is pure.
//!
//! The code reads all line tables once, one after the other, and keeps only the requested addresses. Time grows with the tables' size and
//! memory with the number of addresses, for any number of files.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::io::Read as _;

use gimli::{AbbreviationsCacheStrategy, EndianSlice, RunTimeEndian, SectionId};
use object::{CompressionFormat, Object as _, ObjectSection as _};

/// Larger debug information is left out, since reading it would take longer than the map itself.
pub const MOST_DEBUG_BYTES: u64 = 1 << 30;
/// A longer path is invalid.
const MOST_PATH_BYTES: usize = 4096;

/// The sections needed for names and lines. The large rest (types and variables) stays unread.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

pub(crate) type Bytes<'a> = EndianSlice<'a, RunTimeEndian>;

/// A position in a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceLine {
    /// Index in [`Places::files`].
    pub file: u32,
    /// Line number from 1.
    pub line: u32,
}

/// Source positions of the requested addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Places {
    /// Paths as the compiler received them.
    pub files: Vec<String>,
    at: HashMap<u64, SourceLine>,
}

impl Places {
    /// The position of a requested address; `None` if it is unknown.
    pub fn at(&self, address: u64) -> Option<SourceLine> {
        self.at.get(&address).copied()
    }
}

/// Reasons why debug information gives no positions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoPlaces {
    /// It is larger than [`MOST_DEBUG_BYTES`].
    #[error(
        "its debug information has {mib} MiB, but Hone reads at most {} MiB; -g1 (rustc: -C \
         debuginfo=line-tables-only) makes it smaller",
        MOST_DEBUG_BYTES >> 20
    )]
    TooLarge {
        /// Its size.
        mib: u64,
    },
    /// It is invalid, or its compression is unknown.
    #[error("its debug information can't be read: {0}")]
    Broken(String),
}

/// Looks up linked addresses in a program's bytes. A program without debug information gives no positions and no error.
///
/// # Errors
/// Returns [`NoPlaces`].
pub fn places(program: &[u8], addresses: &[u64]) -> Result<Places, NoPlaces> {
    if addresses.is_empty() {
        return Ok(Places::default());
    }
    let found = debug_information(program, |dwarf, _| places_in(dwarf, addresses));
    found.map(Option::unwrap_or_default)
}

/// The same with debug information that is read already.
pub(crate) fn places_in(dwarf: &gimli::Dwarf<Bytes<'_>>, addresses: &[u64]) -> gimli::Result<Places> {
    let mut search = Search::new(addresses);
    search.all(dwarf)?;
    Ok(search.found)
}

/// Reads the debug information of a program's bytes. The reader also receives its size. `None` if there is none.
///
/// # Errors
/// Returns [`NoPlaces`].
pub(crate) fn debug_information<T>(
    program: &[u8],
    read: impl FnOnce(&gimli::Dwarf<Bytes<'_>>, u64) -> gimli::Result<T>,
) -> Result<Option<T>, NoPlaces> {
    let broken = |error: &dyn std::fmt::Display| NoPlaces::Broken(error.to_string());
    let file = object::File::parse(program).map_err(|error| broken(&error))?;
    if file.section_by_name(".debug_line").is_none() {
        return Ok(None);
    }
    let bytes = debug_bytes(&file);
    if bytes > MOST_DEBUG_BYTES {
        return Err(NoPlaces::TooLarge { mib: bytes >> 20 });
    }
    let sections = gimli::DwarfSections::load(|id| section(&file, id))?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut dwarf = sections.borrow(|section| EndianSlice::new(section, endian));
    // Units may share an abbreviation table. Parsing it for each of them would take quadratic time.
    dwarf.populate_abbreviations_cache(AbbreviationsCacheStrategy::Duplicates);
    read(&dwarf, bytes).map(Some).map_err(|error| broken(&error))
}

/// Its size in memory, decompressed.
fn debug_bytes(file: &object::File<'_>) -> u64 {
    let size = |id: &SectionId| {
        let section = file.section_by_name(id.name())?;
        section.compressed_data().map(|data| data.uncompressed_size).ok()
    };
    SECTIONS.iter().filter_map(size).fold(0, u64::saturating_add)
}

fn section<'a>(file: &object::File<'a>, id: SectionId) -> Result<Cow<'a, [u8]>, NoPlaces> {
    let found = SECTIONS.contains(&id).then(|| file.section_by_name(id.name())).flatten();
    let Some(found) = found else { return Ok(Cow::Borrowed(&[])) };
    let packed = found.compressed_data().map_err(|error| NoPlaces::Broken(error.to_string()))?;
    match packed.format {
        CompressionFormat::None => Ok(Cow::Borrowed(packed.data)),
        CompressionFormat::Zlib => unpacked(packed.data, packed.uncompressed_size).map(Cow::Owned),
        other => Err(NoPlaces::Broken(format!("{} has the unknown compression {other:?}", id.name()))),
    }
}

/// Its size is limited to the stated size, and the sum of these was checked before.
fn unpacked(packed: &[u8], bytes: u64) -> Result<Vec<u8>, NoPlaces> {
    let mut out = Vec::new();
    let read = flate2::read::ZlibDecoder::new(packed).take(bytes).read_to_end(&mut out);
    read.map_err(|error| NoPlaces::Broken(error.to_string()))?;
    Ok(out)
}

struct Search {
    /// Sorted in ascending order.
    wanted: Vec<u64>,
    found: Places,
    numbers: HashMap<String, u32>,
}

/// A row of a line table: the position of all code up to the next row.
#[derive(Clone, Copy)]
struct Row {
    file: u64,
    line: Option<u32>,
}

impl Search {
    fn new(addresses: &[u64]) -> Self {
        let mut wanted = addresses.to_vec();
        wanted.sort_unstable();
        wanted.dedup();
        Self { wanted, found: Places::default(), numbers: HashMap::new() }
    }

    /// An invalid unit is left out, but the starts of units must be valid.
    fn all(&mut self, dwarf: &gimli::Dwarf<Bytes<'_>>) -> gimli::Result<()> {
        let mut units = dwarf.units();
        // Units of types share the table of the code's unit.
        let mut seen = HashSet::new();
        while let Some(header) = units.next()? {
            let Ok(unit) = dwarf.unit(header) else { continue };
            let is_new =
                |program: &gimli::IncompleteLineProgram<Bytes<'_>>| seen.insert(program.header().offset().0);
            if let Some(program) = unit.line_program.clone().filter(is_new) {
                // Rows read before an error count.
                let _ = self.unit(dwarf, &unit, program);
            }
        }
        Ok(())
    }

    fn unit(
        &mut self,
        dwarf: &gimli::Dwarf<Bytes<'_>>,
        unit: &gimli::Unit<Bytes<'_>>,
        program: gimli::IncompleteLineProgram<Bytes<'_>>,
    ) -> gimli::Result<()> {
        let mut files: HashMap<u64, Option<u32>> = HashMap::new();
        let mut rows = program.rows();
        // State of the sequence: the previous row, and the first requested address that is not before it.
        let (mut before, mut next): (Option<Row>, usize) = (None, 0);
        while let Some((header, row)) = rows.next_row()? {
            let address = row.address();
            match before {
                // Linkers leave removed code at address 0, where no code lies.
                None if address == 0 => next = self.wanted.len(),
                None => next = self.wanted.partition_point(|wanted| *wanted < address),
                Some(before) => {
                    while let Some(&wanted) = self.wanted.get(next).filter(|wanted| **wanted < address) {
                        next += 1;
                        let mut file = || self.numbers_of(dwarf, unit, header, before.file);
                        let file = *files.entry(before.file).or_insert_with(&mut file);
                        self.note(wanted, file, before.line);
                    }
                }
            }
            let line = row.line().and_then(|line| u32::try_from(line.get()).ok());
            before = (!row.end_sequence()).then_some(Row { file: row.file_index(), line });
        }
        Ok(())
    }

    /// The first position of an address wins.
    fn note(&mut self, address: u64, file: Option<u32>, line: Option<u32>) {
        if let (Some(file), Some(line)) = (file, line) {
            self.found.at.entry(address).or_insert(SourceLine { file, line });
        }
    }

    fn numbers_of(
        &mut self,
        dwarf: &gimli::Dwarf<Bytes<'_>>,
        unit: &gimli::Unit<Bytes<'_>>,
        header: &gimli::LineProgramHeader<Bytes<'_>>,
        file: u64,
    ) -> Option<u32> {
        let path = path(dwarf, unit, header, file)?;
        let next = self.found.files.len() as u32;
        let number = *self.numbers.entry(path.clone()).or_insert(next);
        if number == next {
            self.found.files.push(path);
        }
        Some(number)
    }
}

/// The path as the compiler received it, absolute if the compiler's folder is known.
pub(crate) fn path(
    dwarf: &gimli::Dwarf<Bytes<'_>>,
    unit: &gimli::Unit<Bytes<'_>>,
    header: &gimli::LineProgramHeader<Bytes<'_>>,
    file: u64,
) -> Option<String> {
    let entry = header.file(file)?;
    let text = |value| dwarf.attr_string(unit, value).ok().map(|text| text.to_string_lossy());
    let folder = entry.directory(header).and_then(text).unwrap_or_default();
    let compiled_in = unit.comp_dir.map(|folder| folder.to_string_lossy()).unwrap_or_default();
    let path = joined(&joined(&compiled_in, &folder), &text(entry.path_name())?);
    (!path.is_empty() && path.len() <= MOST_PATH_BYTES).then(|| plain(&path))
}

fn joined(folder: &str, name: &str) -> String {
    let name = name.strip_prefix("./").unwrap_or(name);
    match (folder, name) {
        ("", _) => name.to_owned(),
        (_, "" | ".") => folder.to_owned(),
        _ if name.starts_with('/') => name.to_owned(),
        _ => format!("{}/{name}", folder.trim_end_matches('/')),
    }
}

/// A name with a line break would show something else.
pub(crate) fn plain(path: &str) -> String {
    path.chars().map(|one| if one.is_control() { char::REPLACEMENT_CHARACTER } else { one }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_as_a_compiler_means_them() {
        assert_eq!(joined("/w", "p.c"), "/w/p.c");
        assert_eq!(joined("/w/", "./src/p.c"), "/w/src/p.c");
        assert_eq!(joined(&joined("/w", "/usr/include"), "stdio.h"), "/usr/include/stdio.h");
        assert_eq!(
            (joined("", "p.c"), joined("/w", "."), joined("/w", "")),
            ("p.c".into(), "/w".into(), "/w".into())
        );
        assert_eq!(plain("a\nb\u{1b}[31m"), "a\u{fffd}b\u{fffd}[31m");
    }

    /// Built with -O1 -g1, as the corpus of the fuzzer: a program, its file, and the line of what is at 0x4000c3.
    const PROGRAMS: [(&[u8], &str, u32); 3] = [
        (include_bytes!("../fuzz/corpus/image/lines-4"), "/w/lines.c", 5),
        (include_bytes!("../fuzz/corpus/image/lines-5"), "/w/lines.c", 5),
        (include_bytes!("../fuzz/corpus/image/lines-packed"), "/w/packed.c", 6),
    ];

    #[test]
    fn the_body_of_a_loop_is_at_its_line_in_each_version_and_unpacked() {
        for (program, file, wanted) in PROGRAMS {
            let asked = [0x40_00c3, 0x40_00b2, 0x40_00c3, 0, u64::MAX];
            let found = places(program, &asked).unwrap();
            assert_eq!(found.files, [file]);
            let line = |address| found.at(address).map(|place| place.line);
            assert!(line(0x40_00b2) == Some(4) && line(0x40_00c3) == Some(wanted), "{file}: {found:?}");
            assert_eq!(
                (line(0), line(u64::MAX), line(0x40_00b4)),
                (None, None, None),
                "no more than was asked for"
            );
        }
    }

    #[test]
    fn debug_information_that_claims_to_be_huge_is_left_alone() {
        let mut program = PROGRAMS[2].0.to_vec();
        // The size that the head of the packed .debug_line claims, by its place in the file.
        program[0x390 + 8..0x390 + 16].copy_from_slice(&(5_u64 << 30).to_le_bytes());
        let told = places(&program, &[0x40_00b2]).unwrap_err().to_string();
        assert!(told.contains("5120 MiB, but Hone reads at most 1024 MiB") && told.contains("-g1"), "{told}");
    }

    #[test]
    fn what_has_no_debug_information_says_nothing_and_what_is_no_program_is_told() {
        let tiny = include_bytes!("../fuzz/corpus/image/tiny");
        assert_eq!(places(tiny, &[0x1000]), Ok(Places::default()));
        let told = places(b"#!/bin/sh\n", &[0x1000]).unwrap_err().to_string();
        assert!(told.starts_with("its debug information can't be read: "), "{told}");
    }
}
