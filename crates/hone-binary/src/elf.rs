//! Facts read from object files: sizes, and the names of the functions that were instrumented.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use flate2::read::ZlibDecoder;
use object::elf::PT_LOAD;
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection, ObjectSegment as _, ObjectSymbol, SectionKind, SymbolKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Section with the names of instrumented functions. It is loaded with the program, so it survives every kind of strip.
const NAMES: &str = "__llvm_prf_names";

/// Names of even the largest programs need far less.
const NAMES_BYTES: u64 = 1 << 30;

/// Facts about a program, without running it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the section `.text`.
    pub text_bytes: u64,
    /// SHA-256 of the file, hex.
    pub sha256: String,
    /// SHA-256 of the contents of `.text`, hex: the same for two files whose machine code is the same.
    pub text_sha256: String,
    /// Whether the program is instrumented.
    pub instrumented: bool,
}

/// Reads the facts about a program file.
///
/// # Errors
/// When the file can't be read or is no object file with a `.text`.
pub fn file_facts(path: &Path) -> Result<FileFacts> {
    let bytes = read(path)?;
    let file = parse(&bytes, path)?;
    let text = file.section_by_name(".text").with_context(|| format!("{} has no .text", path.display()))?;
    let code =
        text.data().with_context(|| format!("the .text of {} lies outside the file", path.display()))?;
    Ok(FileFacts {
        file_bytes: bytes.len() as u64,
        text_bytes: text.size(),
        sha256: sha256_hex(&bytes),
        text_sha256: sha256_hex(code),
        instrumented: file.section_by_name(NAMES).is_some(),
    })
}

/// SHA-256 of the loaded parts of a program or a library, hex, without what depends only on the place of the build: its folder in strings,
/// and the build-id. It excludes debug information and symbols.
///
/// # Errors
/// Fails when the file can't be read or is not an ELF file.
pub(crate) fn loaded_sha256(path: &Path, folder: &Path) -> Result<String> {
    use object::read::elf::{ElfFile64, ProgramHeader as _};
    let mut bytes = read(path)?;
    let build_id = parse(&bytes, path)?.build_id().ok().flatten().map(<[u8]>::to_vec);
    let folder = folder.as_os_str().as_encoded_bytes().to_vec();
    [Some(folder), build_id].into_iter().flatten().for_each(|words| blank(&mut bytes, &words));
    // The position and length of the section table depend on parts that are not loaded.
    for at in (0x28..0x30).chain(0x3a..0x40) {
        bytes.get_mut(at).into_iter().for_each(|byte| *byte = 0);
    }
    let is_no_program = || format!("{} is not a 64-bit ELF file", path.display());
    let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).with_context(is_no_program)?;
    let endian = file.endian();
    let mut hash = Sha256::new();
    for header in file.elf_program_headers().iter().filter(|header| header.p_type(endian) == PT_LOAD) {
        let data = header.data(endian, &*bytes).ok();
        let data = data.with_context(|| format!("{} is shorter than its header states", path.display()))?;
        for number in [header.p_vaddr(endian), header.p_memsz(endian), header.p_flags(endian).into()] {
            hash.update(number.to_le_bytes());
        }
        hash.update(data);
    }
    Ok(hex(&hash.finalize()))
}

/// Overwrites all occurrences of these bytes with zeros.
fn blank(bytes: &mut [u8], words: &[u8]) {
    let mut at = 0;
    while let Some(found) = bytes.get(at..).and_then(|rest| place_of(rest, words)) {
        let end = at + found + words.len();
        bytes[at + found..end].fill(0);
        at = end;
    }
}

fn place_of(bytes: &[u8], words: &[u8]) -> Option<usize> {
    let first = words.first()?;
    let mut from = 0;
    loop {
        from += bytes.get(from..)?.iter().position(|byte| byte == first)?;
        if bytes[from..].starts_with(words) {
            return Some(from);
        }
        from += 1;
    }
}

/// Machine code of a program, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CodeBytes {
    /// All executable sections: a linker makes one large `.text`, BOLT splits it into hot and cold.
    pub all: u64,
    /// The old code that BOLT keeps next to the new one.
    pub old: u64,
}

/// The sections of BOLT's rewritten code, and of the code that it left in place.
const OLD_CODE: &str = ".bolt.org.";

/// Reads how much code a program has.
///
/// # Errors
/// When the file can't be read or is no object file.
pub fn code_bytes(path: &Path) -> Result<CodeBytes> {
    let bytes = read(path)?;
    let file = parse(&bytes, path)?;
    let mut found = CodeBytes::default();
    for section in file.sections().filter(|section| section.kind() == SectionKind::Text) {
        found.all = found.all.saturating_add(section.size());
        if section.name().is_ok_and(|name| name.starts_with(OLD_CODE)) {
            found.old = found.old.saturating_add(section.size());
        }
    }
    Ok(found)
}

/// Bytes of a program's file that are loaded: the sizes in the file of its `PT_LOAD` segments. Kept relocations, symbols and debug
/// sections are not in them.
///
/// # Errors
/// When the file can't be read or is no object file.
pub fn loaded_bytes(path: &Path) -> Result<u64> {
    let bytes = read(path)?;
    let file = parse(&bytes, path)?;
    Ok(file.segments().map(|segment| segment.file_range().1).fold(0, u64::saturating_add))
}

/// Places in memory count as alike if they have the same offset in a page, which determines caches and predictors.
const PAGE: u64 = 4096;

/// Finds where these functions begin in several builds of a program. A name is as in a [`hone_record::HotFunction`], or a symbol.
///
/// # Errors
/// Fails when a program can't be read or is not an object file.
pub fn functions_moved(programs: &[&Path], functions: &BTreeSet<String>) -> Result<Moved> {
    let functions: BTreeSet<String> = functions.iter().map(|name| hone_record::without_hash(name)).collect();
    let places = programs.iter().map(|path| places_of(path, &functions)).collect::<Result<Vec<_>>>()?;
    let mut found = Moved::default();
    for function in &functions {
        let Some(of_each) = places.iter().map(|places| places.get(function)).collect::<Option<Vec<_>>>()
        else {
            continue;
        };
        found.known += 1;
        // There are 256 places for functions at multiples of 16, so with many builds some are alike by chance.
        let other_places = of_each.iter().collect::<BTreeSet<_>>().len();
        found.moved += u32::from(other_places * 4 >= of_each.len() * 3);
    }
    Ok(found)
}

/// How the places of some functions differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Functions that all the programs have.
    pub known: u32,
    /// Those of them with another page offset in each program, or in nearly each of many.
    pub moved: u32,
}

/// Page offsets of these functions; several may have one name.
fn places_of(path: &Path, functions: &BTreeSet<String>) -> Result<BTreeMap<String, BTreeSet<u64>>> {
    let bytes = read(path)?;
    let file = parse(&bytes, path)?;
    let mut places: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let is_code = |symbol: &object::Symbol<'_, '_>| symbol.kind() == SymbolKind::Text && symbol.size() > 0;
    for symbol in file.symbols().filter(is_code) {
        let Ok(name) = symbol.name() else { continue };
        let name = hone_record::without_hash(name);
        if functions.contains(&name) {
            places.entry(name).or_default().insert(symbol.address() % PAGE);
        }
    }
    Ok(places)
}

/// Names of the instrumented functions of a program; empty when it is not instrumented.
pub(crate) fn instrumented_functions(path: &Path) -> Result<HashSet<String>> {
    let bytes = read(path)?;
    let file = parse(&bytes, path)?;
    names_in(&file).with_context(|| format!("the function names in {} can't be read", path.display()))
}

/// Names of the instrumented functions in a static library; empty when none of its objects is instrumented. Members that are not object
/// files (assembly lists, bitcode) are skipped.
pub(crate) fn instrumented_functions_of_archive(path: &Path) -> Result<HashSet<String>> {
    let bytes = read(path)?;
    let archive =
        ArchiveFile::parse(&*bytes).with_context(|| format!("{} is not an archive", path.display()))?;
    let mut names = HashSet::new();
    for member in archive.members() {
        let data = member
            .and_then(|member| member.data(&*bytes))
            .with_context(|| format!("{} is cut off", path.display()))?;
        if let Ok(file) = object::File::parse(data) {
            names.extend(names_in(&file).with_context(|| format!("in {}", path.display()))?);
        }
    }
    Ok(names)
}

/// SHA-256 of some bytes, hex.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} can't be read", path.display()))
}

pub(crate) fn parse<'a>(bytes: &'a [u8], path: &Path) -> Result<object::File<'a>> {
    object::File::parse(bytes).with_context(|| format!("{} is not an object file", path.display()))
}

fn names_in(file: &object::File<'_>) -> Result<HashSet<String>> {
    let mut names = HashSet::new();
    // A relocatable object can have one such section for each group of functions.
    for section in file.sections().filter(|section| section.name().is_ok_and(|name| name == NAMES)) {
        let data = section.data().context("a section lies outside the file")?;
        names.extend(decode_names(data).context("the section of names is malformed")?);
    }
    Ok(names)
}

/// Decodes a section of names: chunks of (length, compressed length or 0, bytes), with the lengths as ULEB128, the names separated by a
/// byte of value 1, and zeroes between the chunks.
fn decode_names(mut data: &[u8]) -> Option<Vec<String>> {
    let mut names = Vec::new();
    loop {
        while let [0, rest @ ..] = data {
            data = rest;
        }
        if data.is_empty() {
            return Some(names);
        }
        let length = uleb128(&mut data)?;
        let packed = uleb128(&mut data)?;
        let taken = usize::try_from(if packed == 0 { length } else { packed }).ok()?;
        let (chunk, rest) = data.split_at_checked(taken)?;
        data = rest;
        let text = if packed == 0 { chunk.to_vec() } else { inflate(chunk, length)? };
        let words = text.split(|&byte| byte == 1).filter(|word| !word.is_empty());
        names.extend(words.map(|word| String::from_utf8_lossy(word).into_owned()));
    }
}

fn uleb128(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Never trusts the stated length beyond the available bytes.
fn inflate(packed: &[u8], length: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    let read = ZlibDecoder::new(packed).take(length.min(NAMES_BYTES) + 1).read_to_end(&mut text).ok()?;
    (read as u64 == length).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::ZlibEncoder};
    use proptest::prelude::*;

    use super::*;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn names_are_decoded_plain_and_packed() {
        let zipped = packed(b"c\x01file.c;d");
        let mut section = b"\x03\0a\x01b\0\0".to_vec();
        section.extend([10, u8::try_from(zipped.len()).unwrap()]);
        section.extend(&zipped);
        section.extend([0; 5]);
        assert_eq!(decode_names(&section).unwrap(), ["a", "b", "c", "file.c;d"]);
        assert_eq!(decode_names(&[]).unwrap(), [] as [&str; 0]);
    }

    #[test]
    fn lengths_are_not_believed() {
        assert_eq!(decode_names(&[0x7f, 0, b'a']), None, "longer than the section");
        assert_eq!(decode_names(&[0x80; 12]), None, "a length without an end");
        let zipped = packed(&[b'a'; 1000]);
        let mut section = vec![3, u8::try_from(zipped.len()).unwrap()];
        section.extend(zipped);
        assert_eq!(decode_names(&section), None, "more text than stated");
    }

    #[test]
    fn what_is_no_program_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        fs::write(&path, "#!/bin/sh\n").unwrap();
        assert!(format!("{:#}", file_facts(&path).unwrap_err()).contains("x is not an object file"));
        assert!(format!("{:#}", file_facts(dir.path()).unwrap_err()).contains("can't be read"));
        assert!(instrumented_functions_of_archive(&path).is_err());
    }

    #[test]
    fn the_own_program_is_not_instrumented() {
        let own = std::env::current_exe().unwrap();
        let facts = file_facts(&own).unwrap();
        assert!(!facts.instrumented && facts.text_bytes > 10_000 && facts.text_bytes < facts.file_bytes);
        assert!(instrumented_functions(&own).unwrap().is_empty());
        let code = code_bytes(&own).unwrap();
        assert!(code.all > facts.text_bytes && code.all < facts.file_bytes && code.old == 0, "{code:?}");
    }

    proptest! {
        #[test]
        fn no_section_makes_it_panic(bytes: Vec<u8>) {
            decode_names(&bytes);
        }

        #[test]
        fn a_damaged_packed_section_does_not_make_it_panic(at in 0..40_usize, byte: u8) {
            let zipped = packed(b"_ZN4mainE\x01file.c;turn\x01mix_seed");
            let mut section = vec![27, u8::try_from(zipped.len()).unwrap()];
            section.extend(zipped);
            let at = at % section.len();
            section[at] = byte;
            decode_names(&section);
        }
    }
}
