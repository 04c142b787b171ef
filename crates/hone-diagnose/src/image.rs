//! A program or library file: the linked addresses of its code, and the contents. The input bytes are not trusted. The code is pure.

use std::collections::HashMap;

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind, elf};

/// A file of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Image {
    /// Build-id in hex.
    pub build_id: Option<String>,
    /// Loaded parts of the file: offset in the file, linked address, bytes; sorted by offset.
    segments: Vec<(u64, u64, u64)>,
    /// Functions, sorted by address.
    pub functions: Vec<Function>,
    /// Code sections, sorted by address.
    pub sections: Vec<Section>,
    /// Whether debug information with line numbers exists.
    pub has_lines: bool,
}

/// A function symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Linked address.
    pub address: u64,
    /// Size in bytes; 0 if the symbol does not state it.
    pub size: u64,
    /// Name in the symbol table.
    pub name: String,
}

/// A section of code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Name of the section, such as `.text`.
    pub name: String,
    /// Linked address.
    pub address: u64,
    /// Size in bytes.
    pub size: u64,
}

impl Section {
    fn holds(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|from| from < self.size)
    }
}

/// The file is not a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("it is not a 64-bit ELF file: {0}")]
pub struct NoImage(String);

impl Image {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// Returns [`NoImage`] when they are not a program.
    pub fn parse(bytes: &[u8]) -> Result<Self, NoImage> {
        let wrong = |error: object::read::Error| NoImage(error.to_string());
        let header = elf::FileHeader64::<object::Endianness>::parse(bytes).map_err(wrong)?;
        let endian = header.endian().map_err(wrong)?;
        let loaded = header.program_headers(endian, bytes).map_err(wrong)?;
        let mut segments: Vec<(u64, u64, u64)> = loaded
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD)
            // A segment can state any size; the loaded part ends with the file.
            .map(|segment| {
                let offset = segment.p_offset(endian);
                let there = (bytes.len() as u64).saturating_sub(offset);
                (offset, segment.p_vaddr(endian), segment.p_filesz(endian).min(there))
            })
            .collect();
        segments.sort_unstable();
        let file = object::File::parse(bytes).map_err(wrong)?;
        let build_id = file.build_id().ok().flatten().map(hex);
        let has_lines = file.section_by_name(".debug_line").is_some();
        Ok(Self { build_id, segments, functions: functions(&file), sections: sections(&file), has_lines })
    }

    /// Whether these bytes are the file that this was read from: by their build-id, which is quick, or by all known data.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let build_id = || Some(hex(object::File::parse(bytes).ok()?.build_id().ok()??));
        match &self.build_id {
            Some(_) => build_id() == self.build_id,
            None => Self::parse(bytes).is_ok_and(|now| now == *self),
        }
    }

    /// A file of that many bytes, loaded at 0.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn of_functions(functions: Vec<Function>, bytes: u64) -> Self {
        Self { segments: vec![(0, 0, bytes)], functions, ..Self::default() }
    }

    /// Linked address of a file offset. Mappings cover whole pages, so an offset between two segments' bytes belongs to the segment before
    /// it.
    pub fn address_of(&self, offset: u64) -> Option<u64> {
        let behind = self.segments.partition_point(|(begin, ..)| *begin <= offset);
        let (begin, address, size) = *self.segments.get(behind.checked_sub(1)?)?;
        let from = offset - begin;
        (from < size.saturating_add(PAGE)).then(|| address.checked_add(from))?
    }

    /// File offset of a linked address.
    pub fn offset_of(&self, address: u64) -> Option<u64> {
        let holds = |(_, begin, size): &&(u64, u64, u64)| {
            address.checked_sub(*begin).is_some_and(|from| from < *size)
        };
        let (offset, begin, _) = self.segments.iter().find(holds)?;
        offset.checked_add(address - begin)
    }

    /// Start of the function at a linked address, and the end of its own code: by its size, or at the next function.
    pub fn extent_at(&self, address: u64) -> Option<(u64, u64)> {
        let begin = self.function_at(address)?;
        let behind = self.functions.partition_point(|function| function.address <= address);
        let next = self.functions.get(behind).map_or(u64::MAX, |next| next.address);
        let end = if begin.size == 0 { next } else { begin.address.saturating_add(begin.size).min(next) };
        // A symbol can state any size, or none (`_fini`, with no symbol after it). No function leaves its section or the loaded part of the
        // file.
        let section = self.sections.iter().find(|section| section.holds(begin.address));
        let section = section.map_or(u64::MAX, |section| section.address.saturating_add(section.size));
        let loaded = self.segments.iter().map(|(_, _, size)| *size).max().unwrap_or(0);
        let end = end.min(section).min(begin.address.saturating_add(loaded));
        (address < end).then_some((begin.address, end))
    }

    /// The function at a linked address.
    pub fn function_at(&self, address: u64) -> Option<&Function> {
        self.walk().function_at(address)
    }

    /// Looks up functions for addresses that mostly rise.
    pub fn walk(&self) -> Walk<'_> {
        Walk { functions: &self.functions, behind: 0 }
    }

    /// Whether any function has a name.
    pub fn is_stripped(&self) -> bool {
        self.functions.is_empty()
    }
}

/// Result of the last search. The next address is mostly in the same function and needs no search among hundreds of thousands.
#[derive(Debug, Clone)]
pub struct Walk<'a> {
    functions: &'a [Function],
    /// Index of the first function after the last address.
    behind: usize,
}

impl<'a> Walk<'a> {
    /// The function at a linked address.
    pub fn function_at(&mut self, address: u64) -> Option<&'a Function> {
        let begins = self.behind.checked_sub(1).map_or(0, |last| self.functions[last].address);
        let next = self.functions.get(self.behind).map_or(u64::MAX, |next| next.address);
        if !(begins..next).contains(&address) {
            self.behind = self.functions.partition_point(|function| function.address <= address);
        }
        let function = self.functions.get(self.behind.checked_sub(1)?)?;
        let is_within = function.size == 0 || address - function.address < function.size;
        is_within.then_some(function)
    }
}

/// Addresses and sizes of all functions by name, sorted by address. It includes functions that share an address or a name, since a profile
/// may use any of the names.
///
/// # Errors
/// Returns [`NoImage`] when the bytes are not a program.
pub fn by_name(bytes: &[u8]) -> Result<HashMap<String, Vec<(u64, u64)>>, NoImage> {
    let file = object::File::parse(bytes).map_err(|error| NoImage(error.to_string()))?;
    let mut names: HashMap<String, Vec<(u64, u64)>> = HashMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()).filter(is_function) {
        if let Ok(name) = symbol.name() {
            names.entry(name.to_owned()).or_default().push((symbol.address(), symbol.size()));
        }
    }
    for places in names.values_mut() {
        places.sort_unstable();
        places.dedup();
    }
    Ok(names)
}

fn is_function(symbol: &object::Symbol<'_, '_>) -> bool {
    symbol.kind() == SymbolKind::Text && symbol.is_definition()
}

/// Mappings cover whole pages.
const PAGE: u64 = 4096;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Of symbols at one address it keeps the longest one.
fn functions(file: &object::File<'_>) -> Vec<Function> {
    let mut functions: Vec<Function> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(is_function)
        .filter_map(|symbol| {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            Some(Function { address: symbol.address(), size: symbol.size(), name: name.to_owned() })
        })
        .collect();
    functions.sort_by(|left, right| {
        (left.address, right.size, &left.name).cmp(&(right.address, left.size, &right.name))
    });
    functions.dedup_by_key(|function| function.address);
    functions
}

fn sections(file: &object::File<'_>) -> Vec<Section> {
    let is_code =
        |section: &object::Section<'_, '_>| section.kind() == SectionKind::Text && section.size() > 0;
    let mut sections: Vec<Section> = file
        .sections()
        .filter(is_code)
        .filter_map(|section| {
            let name = section.name().ok()?.to_owned();
            Some(Section { name, address: section.address(), size: section.size() })
        })
        .collect();
    sections.sort_by_key(|section| section.address);
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Image {
        Image::parse(&std::fs::read(std::env::current_exe().unwrap()).unwrap()).unwrap()
    }

    #[test]
    fn this_very_program_knows_its_functions() {
        let image = own();
        let text = image.sections.iter().find(|section| section.name == ".text").unwrap();
        let function = image.function_at(text.address + text.size / 2).unwrap();
        assert!(function.address <= text.address + text.size / 2 && !image.is_stripped());
        // A place of the file and its address are told by the same segment.
        let (offset, address, size) = *image.segments.last().unwrap();
        assert_eq!(image.address_of(offset + size / 2), Some(address + size / 2));
        assert_eq!(image.address_of(u64::MAX), None);
        assert!(
            image.is_of(&std::fs::read(std::env::current_exe().unwrap()).unwrap())
                && !image.is_of(b"\x7fELF")
        );
        assert_eq!(image.offset_of(address + size / 2), Some(offset + size / 2));
        assert_eq!(image.offset_of(u64::MAX), None);
        let (begin, end) = image.extent_at(function.address).unwrap();
        assert!(begin == function.address && begin < end, "{begin:x} {end:x}");
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(by_name(&bytes).unwrap()[&function.name].iter().any(|(address, _)| *address == begin));
    }

    #[test]
    fn a_function_without_a_size_ends_where_something_else_does() {
        let function = |address, size| Function { address, size, name: "f".to_owned() };
        let mut image =
            Image::of_functions(vec![function(0x10, 0), function(0x40, 8), function(0x80, 0)], 0x1000);
        image.sections.push(Section { name: ".text".to_owned(), address: 0x10, size: 0x90 });
        assert_eq!((image.extent_at(0x18), image.extent_at(0x44)), (Some((0x10, 0x40)), Some((0x40, 0x48))));
        assert_eq!((image.extent_at(0x48), image.extent_at(0x84)), (None, Some((0x80, 0xa0))));
        assert_eq!(
            (image.extent_at(0xa0), image.extent_at(u64::MAX), image.extent_at(0)),
            (None, None, None)
        );
    }

    #[test]
    fn a_walk_finds_in_any_order_what_a_search_does() {
        let function = |address, size| Function { address, size, name: format!("{address:x}") };
        let image =
            Image::of_functions(vec![function(0x10, 0), function(0x40, 8), function(0x80, 0)], 0x1000);
        let mut walk = image.walk();
        for address in [0x10, 0x3f, 0x40, 0x47, 0x48, 0x90, 0x8, u64::MAX, 0x80, 0, 0x41, 0x7f] {
            let found = walk.function_at(address).map(|function| function.address);
            assert_eq!(found, image.function_at(address).map(|function| function.address), "{address:x}");
        }
        assert_eq!(walk.function_at(0x10).map(|function| function.address), Some(0x10));
        assert!(walk.function_at(0x48).is_none() && walk.function_at(0xf).is_none());
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = Image::parse(b"#!/bin/sh\n").unwrap_err().to_string();
        assert!(error.contains("not a 64-bit ELF file"), "{error}");
        Image::parse(&[]).unwrap_err();
    }
}
