//! Shared libraries that a build makes next to its program, and whether the program finds them from its later place.
//!
//! Hone runs copies of programs in other folders. A copy finds a library if the program contains its folder as an absolute path. A path
//! that starts from the program's own folder (`$ORIGIN`) leads elsewhere, and the loader then takes the system's library of that name, if
//! there is one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use object::Endianness;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, ElfFile, FileHeader as _, ProgramHeader};

use crate::shim::Entry;

/// The loader's information in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Linkage {
    /// Libraries that must be loaded with it.
    needed: Vec<String>,
    /// The name that others use for it.
    soname: Option<String>,
    /// Folders in which the loader looks.
    folders: Vec<String>,
    /// Whether it is a program.
    starts: bool,
}

impl Linkage {
    /// `None` for what is no ELF file of 64 bits.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let file: ElfFile<'_, FileHeader64<Endianness>> = ElfFile::parse(bytes).ok()?;
        let endian = file.endian();
        let headers = file.elf_program_headers();
        let starts = headers.iter().any(|header| header.p_type(endian) == PT_INTERP);
        let mut linkage = Self { starts, ..Self::default() };
        let sections = file.elf_header().sections(endian, bytes).ok()?;
        let Some((entries, strings)) = sections.dynamic(endian, bytes).ok()? else { return Some(linkage) };
        let strings = sections.strings(endian, bytes, strings).ok()?;
        for entry in entries {
            let (Some(tag), Some(value)) = (entry.tag32(endian), entry.val32(endian)) else { continue };
            if ![DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH].contains(&tag) {
                continue;
            }
            let Ok(text) = strings.get(value) else { continue };
            let text = String::from_utf8_lossy(text).into_owned();
            match tag {
                DT_NEEDED => linkage.needed.push(text),
                DT_SONAME => linkage.soname = Some(text),
                _ => linkage.folders.extend(text.split(':').map(str::to_owned)),
            }
        }
        Some(linkage)
    }

    fn read(path: &Path) -> Option<Self> {
        Self::parse(&fs::read(path).ok()?)
    }
}

/// The shared libraries that a build's links have made and that still exist.
#[derive(Debug, Default)]
pub(crate) struct Libraries(BTreeMap<PathBuf, Linkage>);

impl Libraries {
    /// Excludes programs.
    pub(crate) fn from_log(log: &[Entry]) -> Self {
        let links = log.iter().filter(|entry| entry.action.links() && entry.status == 0 && !entry.probe);
        let made: BTreeSet<&PathBuf> =
            links.flat_map(|entry| &entry.outputs).map(|output| &output.path).collect();
        let read = |path: &PathBuf| Some((path.clone(), Linkage::read(path)?));
        Self(made.into_iter().filter_map(read).filter(|(_, linkage)| !linkage.starts).collect())
    }

    /// Where they are.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.keys()
    }

    fn named(&self, name: &str) -> Option<&PathBuf> {
        let is = |path: &Path, linkage: &Linkage| {
            linkage.soname.as_deref() == Some(name)
                || path
                    .file_name()
                    .is_some_and(|file| file == Path::new(name).file_name().unwrap_or_default())
        };
        self.0.iter().find(|(path, linkage)| is(path, linkage)).map(|(path, _)| path)
    }

    /// The libraries that a program needs, itself or through another one, as the loader finds them.
    ///
    /// # Errors
    /// Returns the first one that the loader does not find from elsewhere.
    pub(crate) fn needed_by(&self, program: &Path) -> Result<BTreeSet<PathBuf>, &PathBuf> {
        let (mut seen, mut loaded) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<_> = Linkage::read(program).map(|linkage| (program, linkage)).into_iter().collect();
        while let Some((path, linkage)) = open.pop() {
            for name in &linkage.needed {
                let Some(library) = self.named(name) else { continue };
                let own_folder = (path != program).then(|| path.parent()).flatten();
                loaded.insert(found(name, &linkage.folders, own_folder).ok_or(library)?);
                if seen.insert(library) {
                    open.extend(self.0.get(library).map(|linkage| (library.as_path(), linkage.clone())));
                }
            }
        }
        Ok(loaded)
    }
}

/// The file of this name in the first folder that has it. `$ORIGIN` stands for a known folder only in files that stay in place.
fn found(name: &str, folders: &[String], own_folder: Option<&Path>) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| path.is_absolute());
    }
    let folder = |text: &String| {
        let rest = text.strip_prefix("$ORIGIN").or_else(|| text.strip_prefix("${ORIGIN}"));
        match rest {
            Some(rest) => own_folder.map(|own| own.join(rest.trim_start_matches('/'))),
            None => Some(PathBuf::from(text)).filter(|path| path.is_absolute()),
        }
    };
    folders.iter().filter_map(folder).map(|folder| folder.join(name)).find(|path| path.exists())
}

#[cfg(test)]
mod tests {
    use std::sync::{LazyLock, Mutex};

    use proptest::prelude::*;

    use super::*;

    static OWN: LazyLock<Mutex<Vec<u8>>> =
        LazyLock::new(|| Mutex::new(fs::read(std::env::current_exe().unwrap()).unwrap()));

    #[test]
    fn a_library_is_found_by_an_absolute_path_only() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("lib")).unwrap();
        fs::write(dir.path().join("lib/libx.so"), "").unwrap();
        let absolute = dir.path().join("lib").display().to_string();
        let check = |folders: &[&str], own: Option<&Path>| {
            let folders: Vec<String> = folders.iter().map(|&folder| folder.to_owned()).collect();
            found("libx.so", &folders, own).is_some()
        };
        assert!(check(&["/elsewhere", &absolute], None));
        assert!(!check(&["$ORIGIN/lib", "lib", ""], None));
        assert!(
            check(&["$ORIGIN/lib"], Some(dir.path()))
                && check(&["${ORIGIN}/../lib"], Some(&dir.path().join("lib")))
        );
        assert_eq!(found("/x/liby.so", &[], None), Some(PathBuf::from("/x/liby.so")));
        assert_eq!(found("./liby.so", &[absolute], None), None);
    }

    #[test]
    fn the_own_program_needs_libraries() {
        let own = Linkage::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.starts && own.needed.iter().any(|name| name.starts_with("libc.so")), "{own:?}");
        assert_eq!(Linkage::parse(b"\x7fELF"), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(at in 0..4096_usize, byte: u8) {
            let mut bytes = OWN.lock().unwrap();
            let was = std::mem::replace(&mut bytes[at], byte);
            Linkage::parse(&bytes);
            bytes[at] = was;
        }
    }
}
