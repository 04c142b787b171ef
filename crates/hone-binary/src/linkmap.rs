//! The contents of a link: the bytes of text by object, and which of these objects got the flags of the phase.
//!
//! The linker's map names the objects. The log of the compiler wrappers (see [`crate::shim`]) says by content which of them a compiler made
//! with the flags. The rest gets a reason: assembly, earlier libraries, objects of another compiler. An object is identified by its
//! SHA-256, so it does not matter into which archive it went later.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use object::read::archive::ArchiveFile;
use object::{Object, ObjectSection};
use serde::{Deserialize, Serialize};

use crate::elf::sha256_hex;
use crate::shim::{Action, Entry, Language};

/// Summary of a link map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkMap {
    /// Bytes in `.text` and `.text.*` by object: a file, or `ARCHIVE(MEMBER)`, as the linker names it. Padding is left out.
    pub text: BTreeMap<String, u64>,
    /// Files in the order in which they were loaded; lld's map does not contain it.
    pub loaded: Vec<String>,
}

impl LinkMap {
    /// Reads a map of lld or of GNU ld. `None` for another format.
    pub fn parse(map: &str) -> Option<Self> {
        let first = map.lines().next()?;
        if first.split_whitespace().eq(["VMA", "LMA", "Size", "Align", "Out", "In", "Symbol"]) {
            return Some(of_lld(map));
        }
        let (_, placed) = map.split_once("\nLinker script and memory map\n")?;
        Some(of_gnu(placed))
    }

    fn add(&mut self, object: &str, bytes: u64) {
        if bytes > 0 {
            let sum = self.text.entry(object.to_owned()).or_default();
            *sum = sum.saturating_add(bytes);
        }
    }
}

fn is_text(section: &str) -> bool {
    section == ".text" || section.starts_with(".text.")
}

/// Columns: two addresses, size and alignment, the numbers in hex; then, by how far it is indented, an output section, an input
/// section `FILE:(NAME)`, or a symbol.
fn of_lld(text: &str) -> LinkMap {
    let mut map = LinkMap::default();
    let mut inside = false;
    for line in text.lines().skip(1) {
        let Some((size, rest)) = lld_columns(line) else { continue };
        let what = rest.trim_start();
        match rest.len() - what.len() {
            1 => inside = is_text(what),
            9 if inside => {
                if let Some((object, section)) = what.rsplit_once(":(") {
                    // Padding between functions contains no code, so flags can't reach it.
                    let is_padding = object == "<internal>" && section == ".padding)";
                    map.add(object, if is_padding { 0 } else { size });
                }
            }
            _ => {}
        }
    }
    map
}

/// The size, and the text after the alignment, including blanks.
fn lld_columns(line: &str) -> Option<(u64, &str)> {
    let mut rest = line;
    let mut size = 0;
    for column in 0..4 {
        rest = rest.trim_start();
        let (word, behind) = rest.split_at(rest.find(' ')?);
        if column == 2 {
            size = u64::from_str_radix(word, 16).ok()?;
        }
        rest = behind;
    }
    Some((size, rest))
}

/// Output sections start in the first column, input sections in the second: name, address, size, file. A long name has the rest
/// on the next line.
fn of_gnu(text: &str) -> LinkMap {
    let mut map = LinkMap::default();
    let mut inside = false;
    let mut name_stands_alone = false;
    for line in text.lines() {
        let alone = std::mem::take(&mut name_stands_alone);
        if let Some(file) = line.strip_prefix("LOAD ") {
            map.loaded.push(file.to_owned());
        } else if line.starts_with(|c: char| !c.is_whitespace()) {
            inside = is_text(line.split_whitespace().next().unwrap_or_default());
        } else if inside && line.starts_with(" .") {
            let name = line[1..].split(' ').next().unwrap_or_default();
            match placed(&line[1 + name.len()..]) {
                Some((object, bytes)) => map.add(object, bytes),
                None => name_stands_alone = true,
            }
        } else if inside
            && alone
            && let Some((object, bytes)) = placed(line)
        {
            map.add(object, bytes);
        }
    }
    map
}

/// `  0xADDRESS  0xSIZE FILE`.
fn placed(text: &str) -> Option<(&str, u64)> {
    let (_, rest) = text.trim_start().strip_prefix("0x")?.split_once(' ')?;
    let (size, file) = rest.trim_start().strip_prefix("0x")?.split_once(' ')?;
    Some((file, u64::from_str_radix(size, 16).ok()?))
}

/// Why the flags did not reach an object's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Written in assembly.
    Assembly,
    /// It existed before the build: a library of the system, or of the source tree.
    Prebuilt {
        /// The compiler's name in the object.
        by: Option<String>,
    },
    /// It was made during the build, but not by a compiler that Hone wraps.
    OtherCompiler {
        /// The compiler's name in the object.
        by: Option<String>,
    },
    /// It was changed after it was compiled.
    Changed,
    /// Linked from several objects, not all of which got the flags.
    Mixed,
    /// The linker's optimiser made it from several objects, not all of which got the flags.
    LinkTime,
    /// It no longer exists, and the log has no record of it.
    Gone,
    /// The linker made it itself.
    Linker,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, by) = match self {
            Self::Assembly => ("assembly", &None),
            Self::Prebuilt { by } => ("present before the build", by),
            Self::OtherCompiler { by } => {
                ("compiled by a compiler that the build did not take from CC or CXX", by)
            }
            Self::Changed => ("changed after it was compiled", &None),
            Self::Mixed => ("linked from objects, some of them compiled without the flags", &None),
            Self::LinkTime => {
                ("optimised by the linker from objects, some of them compiled without the flags", &None)
            }
            Self::Gone => ("deleted since, without a record of it", &None),
            Self::Linker => ("made by the linker", &None),
        };
        formatter.write_str(words)?;
        by.as_ref().map_or(Ok(()), |by| write!(formatter, " ({by})"))
    }
}

/// An object of a link that did not get the flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unshaped {
    /// The linker's name for it.
    pub object: String,
    /// Bytes of its text in the program.
    pub text_bytes: u64,
    /// The reason.
    pub reason: Reason,
}

/// The share of a program's text that the flags reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coverage {
    /// Bytes of text from all objects.
    pub text_bytes: u64,
    /// Bytes of text from objects that got the flags.
    pub shaped_bytes: u64,
    /// The others, largest first.
    pub others: Vec<Unshaped>,
}

impl Coverage {
    /// Share of the text whose objects got the flags, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.text_bytes == 0 { 0.0 } else { self.shaped_bytes as f64 / self.text_bytes as f64 }
    }
}

/// The link that made a program: the last one with this content, otherwise with this path (a build may strip its result).
pub fn link_of<'a>(log: &'a [Entry], program: &Path, sha256: &str) -> Option<&'a Entry> {
    let links = || log.iter().rev().filter(|entry| entry.action.links() && entry.status == 0 && !entry.probe);
    let made =
        |same: &dyn Fn(&crate::shim::Made) -> bool| links().find(|entry| entry.outputs.iter().any(same));
    made(&|output| output.sha256.as_deref() == Some(sha256))
        .or_else(|| made(&|output| output.path == program))
}

/// Joins a link's map with the log of its build. `began` is the start of that build: older files existed before. Objects and archives are
/// read from where the linker read them.
pub fn coverage(map: &LinkMap, link: &Entry, log: &[Entry], began: SystemTime) -> Coverage {
    let book = Book::from_log(log);
    let mut disk = Disk { cwd: &link.cwd, began, archives: HashMap::new() };
    let temporary = Temporary::from_link(map, link);
    let mut coverage = Coverage { text_bytes: 0, shaped_bytes: 0, others: Vec::new() };
    for (object, &text_bytes) in &map.text {
        coverage.text_bytes = coverage.text_bytes.saturating_add(text_bytes);
        match reason_of(object, &book, &mut disk, &temporary, link) {
            None => coverage.shaped_bytes = coverage.shaped_bytes.saturating_add(text_bytes),
            Some(reason) => coverage.others.push(Unshaped { object: object.clone(), text_bytes, reason }),
        }
    }
    coverage.others.sort_by(|a, b| b.text_bytes.cmp(&a.text_bytes).then_with(|| a.object.cmp(&b.object)));
    coverage
}

/// `None` if the object got the flags.
fn reason_of(
    object: &str,
    book: &Book<'_>,
    disk: &mut Disk<'_>,
    temporary: &Temporary,
    link: &Entry,
) -> Option<Reason> {
    if object.starts_with('<') {
        return Some(Reason::Linker);
    }
    let parts = disk.parts(object);
    if parts.is_empty() {
        return if is_of_link_time(object) {
            (!all_intermediate_saw_flags(book, disk, link)).then_some(Reason::LinkTime)
        } else {
            match temporary.language_of(object) {
                Some(Language::Assembly) => Some(Reason::Assembly),
                Some(_) => None,
                None => Some(Reason::Gone),
            }
        };
    }
    parts.into_iter().find_map(|part| match book.by_content.get(part.sha256.as_str()) {
        Some(Origin::Flags) => None,
        Some(Origin::Assembly) => Some(Reason::Assembly),
        Some(Origin::Mixed) => Some(Reason::Mixed),
        None if book.by_path.contains_key(link.cwd.join(object).as_path()) => Some(Reason::Changed),
        None if part.is_older => Some(Reason::Prebuilt { by: part.by }),
        None => Some(Reason::OtherCompiler { by: part.by }),
    })
}

/// Names that lld (`PROGRAM.lto.UNIT.o`, `PROGRAM.lto.o`) and gcc (`NAME.ltrans0.ltrans.o`) give to the code that they generate from
/// intermediate code.
fn is_of_link_time(object: &str) -> bool {
    object.contains(".lto.") || object.contains(".ltrans")
}

/// Every input of the link with intermediate code, alone or in an archive, got the flags.
fn all_intermediate_saw_flags(book: &Book<'_>, disk: &mut Disk<'_>, link: &Entry) -> bool {
    link.inputs.iter().filter(|input| input.language == Language::Object).all(|input| {
        let parts = disk.all_parts(&input.path);
        parts
            .iter()
            .filter(|part| part.is_intermediate)
            .all(|part| book.by_content.get(part.sha256.as_str()) == Some(&Origin::Flags))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Flags,
    Assembly,
    Mixed,
}

/// The log's records of objects.
struct Book<'a> {
    by_content: HashMap<&'a str, Origin>,
    by_path: HashMap<&'a Path, Origin>,
}

impl<'a> Book<'a> {
    fn from_log(log: &'a [Entry]) -> Self {
        let mut book = Self { by_content: HashMap::new(), by_path: HashMap::new() };
        for entry in log.iter().filter(|entry| entry.status == 0 && !entry.probe) {
            for (at, output) in entry.outputs.iter().enumerate() {
                let Some(origin) = book.origin(entry, at) else { continue };
                book.by_path.insert(&output.path, origin);
                if let Some(sha256) = &output.sha256 {
                    book.by_content.insert(sha256, origin);
                }
            }
        }
        book
    }

    fn origin(&self, entry: &Entry, output: usize) -> Option<Origin> {
        let known = |sha256: &Option<String>| self.by_content.get(sha256.as_deref()?).copied();
        let mut compiled = entry.inputs.iter().filter(|input| input.language != Language::Object);
        match entry.action {
            // The compiler's own assembly (`-S`) is as good as its objects.
            Action::Compile | Action::Assemble => {
                let input = compiled.nth(output)?;
                let plain =
                    input.language == Language::Assembly && known(&input.sha256) != Some(Origin::Flags);
                Some(if plain { Origin::Assembly } else { Origin::Flags })
            }
            Action::LinkObject => {
                let mut inputs = entry.inputs.iter();
                let all = inputs.all(|input| known(&input.sha256) == Some(Origin::Flags));
                Some(if all { Origin::Flags } else { Origin::Mixed })
            }
            Action::Query | Action::Preprocess | Action::Link | Action::CompileAndLink => None,
        }
    }
}

/// Objects that a compiler made and deleted on the way from sources to a program.
struct Temporary {
    sources: Vec<(String, Language)>,
    /// Objects of the map that no longer exist, in the order in which they were loaded.
    gone: Vec<String>,
}

impl Temporary {
    fn from_link(map: &LinkMap, link: &Entry) -> Self {
        let compiled = link.inputs.iter().filter(|input| input.language != Language::Object);
        let stem = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let sources: Vec<_> = compiled.map(|input| (stem(&input.path), input.language)).collect();
        let is_gone = |file: &&String| Path::new(file).is_absolute() && !Path::new(file).exists();
        Self { sources, gone: map.loaded.iter().filter(is_gone).cloned().collect() }
    }

    /// clang names them after the source (`/tmp/main-890c0c.o`); gcc names them randomly, but loads them in the order of the sources.
    fn language_of(&self, object: &str) -> Option<Language> {
        let path = Path::new(object);
        let name = path.file_stem()?.to_string_lossy();
        let by_name = name.rsplit_once('-').map(|(stem, _)| stem);
        let named = self.sources.iter().find(|(stem, _)| Some(stem.as_str()) == by_name);
        let ordered = || {
            let at = self.gone.iter().position(|gone| gone == object)?;
            (self.gone.len() == self.sources.len()).then(|| &self.sources[at])
        };
        named.or_else(ordered).map(|(_, language)| *language)
    }
}

/// The information in an object file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    sha256: String,
    is_older: bool,
    is_intermediate: bool,
    by: Option<String>,
}

struct Disk<'a> {
    cwd: &'a Path,
    began: SystemTime,
    archives: HashMap<PathBuf, Vec<(String, Part)>>,
}

impl Disk<'_> {
    /// The objects with this name in a map; several if an archive has several of a name, none if it is gone.
    fn parts(&mut self, object: &str) -> Vec<Part> {
        let path = self.cwd.join(object);
        if path.is_file() {
            return self.all_parts(&path);
        }
        let Some((archive, member)) = object.strip_suffix(')').and_then(|name| name.rsplit_once('(')) else {
            return Vec::new();
        };
        let archive = self.cwd.join(archive);
        let members = self.members(&archive).iter();
        // A thin archive contains paths instead of names, and lld prints them whole.
        let member = last_part(member);
        members.filter(|(name, _)| name == member).map(|(_, part)| part.clone()).collect()
    }

    fn all_parts(&mut self, path: &Path) -> Vec<Part> {
        let members: Vec<Part> = self.members(path).iter().map(|(_, part)| part.clone()).collect();
        if !members.is_empty() {
            return members;
        }
        fs::read(path).map(|bytes| vec![part_of(&bytes, self.is_older(path))]).unwrap_or_default()
    }

    fn is_older(&self, path: &Path) -> bool {
        path.metadata().and_then(|file| file.modified()).is_ok_and(|modified| modified < self.began)
    }

    fn members(&mut self, archive: &Path) -> &[(String, Part)] {
        if !self.archives.contains_key(archive) {
            let is_older = self.is_older(archive);
            let members =
                fs::read(archive).map(|bytes| members_of(&bytes, archive, is_older)).unwrap_or_default();
            self.archives.insert(archive.to_path_buf(), members);
        }
        self.archives.get(archive).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Members of an archive, as far as it can be read. Those of a thin one are files next to it.
fn members_of(bytes: &[u8], archive: &Path, is_older: bool) -> Vec<(String, Part)> {
    let Ok(file) = ArchiveFile::parse(bytes) else { return Vec::new() };
    let folder = archive.parent().unwrap_or(Path::new("/"));
    let mut members = Vec::new();
    for member in file.members().map_while(Result::ok) {
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let part = if member.is_thin() {
            fs::read(folder.join(&name)).ok().map(|bytes| part_of(&bytes, is_older))
        } else {
            member.data(bytes).ok().map(|bytes| part_of(bytes, is_older))
        };
        members.extend(part.map(|part| (last_part(&name).to_owned(), part)));
    }
    members
}

fn last_part(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or_default()
}

fn part_of(bytes: &[u8], is_older: bool) -> Part {
    let elf = object::File::parse(bytes).ok();
    let of_gcc = |file: &object::File<'_>| {
        file.sections().any(|section| section.name().is_ok_and(|name| name.starts_with(".gnu.lto_")))
    };
    Part {
        sha256: sha256_hex(bytes),
        is_older,
        is_intermediate: elf.as_ref().map_or_else(|| bytes.starts_with(b"BC\xc0\xde"), of_gcc),
        by: elf.as_ref().and_then(compiler_in),
    }
}

/// The first words of `.comment`, which compilers write there.
fn compiler_in(file: &object::File<'_>) -> Option<String> {
    let section = file.section_by_name(".comment")?;
    let words = section.data().ok()?.split(|&byte| byte == 0).find(|words| !words.is_empty())?;
    Some(String::from_utf8_lossy(words).into_owned())
}

/// Reads a map of arbitrary bytes and checks its sums. For the fuzzer.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(map) = LinkMap::parse(&text) {
        assert!(map.text.values().all(|&bytes| bytes > 0));
        assert!(map.text.keys().map(String::len).sum::<usize>() <= text.len());
    }
    let _ = members_of(data, Path::new("/nonexistent/lib.a"), true);
    let _ = part_of(data, true);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LLD: &str = include_str!("../tests/fixtures/linkmap/lld-22.map");
    const GNU: &str = include_str!("../tests/fixtures/linkmap/gnu-2.40.map");

    fn bytes(map: &LinkMap, object: &str) -> Option<u64> {
        map.text.get(object).copied()
    }

    #[test]
    fn a_map_of_lld_is_read() {
        let map = LinkMap::parse(LLD).unwrap();
        assert_eq!(bytes(&map, "main.o"), Some(0x34));
        assert_eq!(bytes(&map, "add.o"), Some(4));
        assert_eq!(bytes(&map, "libpre.a(lib_fn.o)"), Some(0x11));
        assert_eq!(bytes(&map, "/lib/x86_64-linux-gnu/crti.o"), None, "its text is empty");
        assert_eq!(
            (map.text.len(), map.text.values().sum::<u64>()),
            (7, 0x22 + 0xb9 + 0x34 + 4 + 4 + 4 + 0x11)
        );
    }

    #[test]
    fn a_map_of_gnu_ld_is_read() {
        let map = LinkMap::parse(GNU).unwrap();
        assert_eq!(bytes(&map, "main.o"), Some(0x31), "its .text.startup");
        assert_eq!(bytes(&map, "around.o"), Some(4));
        assert_eq!(bytes(&map, "libpre.a(lib_fn.o)"), Some(0x11));
        assert_eq!(
            (map.text.len(), map.text.values().sum::<u64>()),
            (7, 0x22 + 0xb9 + 0x31 + 4 + 4 + 4 + 0x11)
        );
        assert_eq!(map.loaded[3..5], ["main.o", "twice.o"]);
    }

    #[test]
    fn a_long_name_has_its_numbers_on_the_next_line() {
        let text = "x\nLinker script and memory map\n\n.text  0x10 0x20\n .text._ZN4long4nameEv\n                0x0000000000000010       \
                    0x1f /a dir/x.o\n                0x0000000000000010                _ZN4long4nameEv\n                0x25 (size before relaxing)\n\n.data 0x1 0x2\n .text 0x1 0x2 y.o\n";
        let map = LinkMap::parse(text).unwrap();
        assert_eq!(map.text, BTreeMap::from([("/a dir/x.o".to_owned(), 0x1f)]));
        assert_eq!(LinkMap::parse(""), None);
        assert_eq!(LinkMap::parse("no map\n"), None);
    }

    proptest! {
        #[test]
        fn no_map_makes_it_panic(at in 0usize..40_000, cut in 0usize..60, new in "\\PC{0,12}|[ .0x\n]{0,9}", gnu: bool) {
            let text = if gnu { GNU } else { LLD };
            let chars: Vec<char> = text.chars().collect();
            let at = at % chars.len();
            let end = (at + cut).min(chars.len());
            let mutated: String = chars[..at].iter().copied().chain(new.chars()).chain(chars[end..].iter().copied()).collect();
            fuzz(mutated.as_bytes());
        }
    }
}
