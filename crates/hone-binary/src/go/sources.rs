//! The target's sources, for findings in its profiles.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::GoPgo;
use super::diagnostics::Package;
use super::findings::{Finding, of_allocations, of_cpu};
use super::pprof::Profile;

/// Size limit of a source file.
const MOST_BYTES: u64 = 8 << 20;

impl GoPgo<'_> {
    /// Findings in a profile of the target, of CPU or of allocations.
    ///
    /// # Errors
    /// Fails when the profile is of neither kind.
    pub fn findings(&self, profile: &Profile) -> Result<Vec<Finding>> {
        let own = self.own_packages();
        let found = match profile.value_index("alloc_space") {
            Some(_) => of_allocations(profile, &own),
            None => of_cpu(profile, &own, &|file| read(&place(file, &self.packages)?)),
        };
        found.map_err(anyhow::Error::msg)
    }
}

/// The path of a source file that a profile names: as named, or, after `-trimpath`, by its package.
fn place(file: &str, packages: &[Package]) -> Option<PathBuf> {
    let path = Path::new(file);
    if path.extension().is_none_or(|extension| extension != "go") {
        return None;
    }
    if path.is_absolute() {
        return Some(path.to_path_buf());
    }
    let (folder, name) = file.rsplit_once('/')?;
    let parts = folder.split('/').map(|part| part.split('@').next().unwrap_or(part));
    let import_path = parts.collect::<Vec<_>>().join("/");
    let package = packages.iter().find(|package| package.import_path == import_path)?;
    Some(package.dir.join(name))
}

fn read(path: &Path) -> Option<String> {
    let mut text = String::new();
    File::open(path).ok()?.take(MOST_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::super::diagnostics;
    use super::*;

    #[test]
    fn a_file_is_found_by_path_or_by_package() {
        let json = br#"{"ImportPath": "x.org/m/sub", "Name": "sub", "Dir": "/mod/x.org/m@v1.2.0/sub"}"#;
        let packages = diagnostics::packages(json).unwrap();
        let check =
            |file, expected: Option<&str>| assert_eq!(place(file, &packages), expected.map(PathBuf::from));
        check("/abs/a.go", Some("/abs/a.go"));
        check("x.org/m@v1.2.0/sub/a.go", Some("/mod/x.org/m@v1.2.0/sub/a.go"));
        check("x.org/other/a.go", None);
        check("/etc/passwd", None);
        check("a.go", None);
        assert_eq!(read(Path::new("/nowhere/a.go")), None);
    }
}
