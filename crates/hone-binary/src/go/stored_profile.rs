//! The functions that [`crate::profile_store`] needs for a Go profile, without a module: the profile and the program alone must be enough.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

use super::findings::{Finding, of_allocations, of_cpu};
use super::pprof::Profile;
use super::proof::{self, Coverage};
use super::refusal::GoRefusal;
use super::symbols;
use super::tables::package_of;
use crate::refusal::Refusal;

/// A profile of a service has some hundred kB.
const MOST_BYTES: u64 = 256 << 20;

/// Size limit of a source file.
const SOURCE_BYTES: u64 = 8 << 20;

/// Precedes the build information in a program, since Go 1.18.
const INFO_MAGIC: &[u8] = b"\xff Go buildinf:";

/// Offset of the build information from the magic, if it is inline.
const INFO_AT: usize = 32;

/// This bit of the flags marks the inline form.
const INFO_INLINE: u8 = 2;

/// The module information has this many marker bytes at both ends.
const INFO_MARK: usize = 16;

/// Reads a profile.
pub(crate) fn read_profile(file: &Path) -> Result<Profile> {
    let mut bytes = Vec::new();
    let opened = File::open(file).with_context(|| format!("{} can't be read", file.display()))?;
    opened.take(MOST_BYTES + 1).read_to_end(&mut bytes).with_context(|| file.display().to_string())?;
    let wrong = |reason| GoRefusal::NotAProfile { file: file.to_path_buf(), reason };
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refused(wrong(format!("it has more than {MOST_BYTES} bytes"))));
    }
    Profile::parse(&bytes).map_err(|reason| refused(wrong(reason)))
}

/// The share of the weight of a profile's calls that a program can use.
///
/// # Errors
/// A [`GoRefusal`] if it is not a CPU profile or has no calls of the program's own code; otherwise when the program is not a Go program.
pub(crate) fn coverage_of(profile: &Profile, file: &Path, program: &Path) -> Result<Coverage> {
    let own = own_packages(profile, module_of(program)?.as_deref());
    let sound = proof::sound(profile, file, &own).map_err(refused)?;
    let coverage = proof::coverage(profile, sound.index, &symbols::functions_of(program)?, &own);
    match coverage.weight {
        0 => Err(refused(GoRefusal::NothingOwn { file: file.to_path_buf() })),
        _ => Ok(coverage),
    }
}

/// Findings in a profile, by the sources that it names and that exist on this machine. Nothing for a profile that is neither of CPU nor of
/// allocations.
pub(crate) fn findings_of(profile: &Profile) -> Vec<Finding> {
    let own = own_packages(profile, None);
    let found = match profile.value_index("alloc_space") {
        Some(_) => of_allocations(profile, &own),
        None => of_cpu(profile, &own, &source),
    };
    found.unwrap_or_default()
}

fn refused(refusal: GoRefusal) -> anyhow::Error {
    Refusal::from(refusal).into()
}

/// First parts of the paths of Go's own library, and of its tools.
const OF_GO: [&str; 52] = [
    "archive",
    "arena",
    "bufio",
    "builtin",
    "bytes",
    "cmd",
    "cmp",
    "compress",
    "container",
    "context",
    "crypto",
    "database",
    "debug",
    "embed",
    "encoding",
    "errors",
    "expvar",
    "flag",
    "fmt",
    "go",
    "hash",
    "html",
    "image",
    "index",
    "internal",
    "io",
    "iter",
    "log",
    "maps",
    "math",
    "mime",
    "net",
    "os",
    "path",
    "plugin",
    "reflect",
    "regexp",
    "runtime",
    "slices",
    "sort",
    "strconv",
    "strings",
    "structs",
    "sync",
    "syscall",
    "testing",
    "text",
    "time",
    "unicode",
    "unique",
    "unsafe",
    "weak",
];

/// Whether a function's package has a path that Go's own library lacks. A function without a package is assembly or C.
fn is_unknown_to_go(function: &str) -> bool {
    let package = package_of(function);
    let first = package.split('/').next().unwrap_or(package);
    let named = package.len() < function.len() && !first.contains([':', '$']);
    named && !first.contains('.') && first != "vendor" && !first.starts_with('_') && !OF_GO.contains(&first)
}

/// Packages that do not come with Go although the first part of their path has no dot: those of the program's own module, those with
/// sources elsewhere than the runtime's, and those that Go's library lacks (with `-trimpath`, after the module was renamed, there is no
/// other evidence).
fn own_packages(profile: &Profile, module: Option<&str>) -> BTreeSet<String> {
    let root = profile.functions.iter().filter(|function| function.name.starts_with("runtime."));
    let root = root.filter_map(|function| Some(function.file.split_once("/src/runtime/")?.0)).next();
    let of_module = |package: &str| {
        module.is_some_and(|module| {
            package.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    let elsewhere = |file: &str| {
        root.is_some_and(|root| {
            file.starts_with('/') && !file.strip_prefix(root).is_some_and(|rest| rest.starts_with("/src/"))
        })
    };
    let own = profile.functions.iter().map(|function| (package_of(&function.name), function));
    own.filter(|(package, function)| {
        let is_own = *package == "main" || of_module(package) || elsewhere(&function.file);
        !package.is_empty() && (is_own || is_unknown_to_go(&function.name))
    })
    .map(|(package, _)| package.to_owned())
    .collect()
}

/// The path of a program's main module, from the linker's build information; nothing if that is missing.
fn module_of(program: &Path) -> Result<Option<String>> {
    let bytes = fs::read(program).with_context(|| format!("{} can't be read", program.display()))?;
    let file =
        object::File::parse(&*bytes).with_context(|| format!("{} is not a program", program.display()))?;
    let section =
        file.sections().find(|section| section.name().is_ok_and(|name| name.ends_with(".go.buildinfo")));
    Ok(section.and_then(|section| module_in(section.data().ok()?)))
}

/// The module in a section of build information: magic, size of pointers, flags; at [`INFO_AT`] Go's version and the list of facts, each
/// preceded by its length.
pub(crate) fn module_in(section: &[u8]) -> Option<String> {
    let at = memchr::memmem::find(section, INFO_MAGIC)?;
    let facts = section.get(at..)?;
    if facts.get(INFO_MAGIC.len() + 1)? & INFO_INLINE == 0 {
        return None;
    }
    let mut rest = facts.get(INFO_AT..)?;
    text(&mut rest)?;
    let list = text(&mut rest)?;
    let list = list.get(INFO_MARK..list.len().checked_sub(INFO_MARK)?)?;
    let list = String::from_utf8_lossy(list);
    let module = list.lines().find_map(|line| line.strip_prefix("mod\t"))?;
    Some(module.split('\t').next()?.to_owned()).filter(|module| !module.is_empty())
}

fn text<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for shift in (0..56).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            let (text, after) = rest.split_at_checked(length)?;
            *rest = after;
            return Some(text);
        }
    }
    None
}

/// The text of a source file. A profile can name anything, so Hone opens only a regular file with Go's extension.
fn source(file: &str) -> Option<String> {
    let path = Path::new(file);
    let is_source = path.is_absolute() && path.extension().is_some_and(|extension| extension == "go");
    if !is_source || !path.metadata().is_ok_and(|facts| facts.is_file()) {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(SOURCE_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pprof::tests::cpu;
    use super::*;

    fn section() -> Vec<u8> {
        let mut bytes = b"\0\0\0\0".to_vec();
        bytes.extend(INFO_MAGIC);
        bytes.extend([8, INFO_INLINE]);
        bytes.resize(4 + INFO_AT, 0);
        bytes.extend(b"\x06go1.26");
        let facts = b"0123456789abcdefpath\tlab/cmd/x\nmod\tlab\t(devel)\t\ndep\ty\tv1\nfedcba9876543210";
        bytes.push(u8::try_from(facts.len()).unwrap());
        bytes.extend(facts);
        bytes
    }

    #[test]
    fn a_program_tells_its_module() {
        assert_eq!(module_in(&section()).as_deref(), Some("lab"));
        assert_eq!(module_in(b"x"), None);
        let pointers = {
            let mut bytes = section();
            bytes[4 + INFO_MAGIC.len() + 1] = 0;
            bytes
        };
        assert_eq!(module_in(&pointers), None, "before Go 1.18");
    }

    #[test]
    fn own_packages_are_those_of_the_module_and_those_that_lie_elsewhere() {
        let mut profile =
            cpu(&[("runtime.main:1>main.main:3>lab/codec.F:7>labour/x.G:2>strings.Index:4", 60)]);
        let own = |profile: &Profile, module| own_packages(profile, module).into_iter().collect::<Vec<_>>();
        assert_eq!(own(&profile, Some("lab")), ["lab/codec", "labour/x", "main"]);
        for function in &mut profile.functions {
            let folder = if function.name.starts_with("lab") { "/home/a" } else { "/usr/local/go/src" };
            let package = package_of(&function.name).to_owned();
            function.file = format!("{folder}/{package}/a.go");
        }
        assert_eq!(own(&profile, None), ["lab/codec", "labour/x", "main"]);
    }

    #[test]
    fn a_package_is_known_by_its_path() {
        for own in ["lab.F", "lab/codec.(*T).F", "labour/x.G[...]", "Lab.init.0"] {
            assert!(is_unknown_to_go(own), "{own}");
        }
        let of_go =
            ["net/http.(*Server).Serve", "runtime.mallocgc", "vendor/golang.org/x/net.F", "type:.eq.x"];
        for other in
            of_go.iter().chain(&["malloc", "memeqbody", "_cgoexp.f", "", "example.com/a.F", "go:buildid"])
        {
            assert!(!is_unknown_to_go(other), "{other}");
        }
    }

    #[test]
    fn only_sources_are_opened() {
        assert_eq!(source("/etc/passwd"), None);
        assert_eq!(source("/dev/stdin.go"), None);
        assert_eq!(source("a.go"), None);
    }

    proptest! {
        #[test]
        fn a_changed_section_does_not_make_it_panic(at in 0..150_usize, byte: u8, cut in 0..150_usize) {
            let mut bytes = section();
            let at = at % bytes.len();
            bytes[at] = byte;
            module_in(&bytes);
            module_in(&bytes[..cut.min(bytes.len())]);
        }
    }
}
