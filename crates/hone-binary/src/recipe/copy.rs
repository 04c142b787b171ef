//! The copy of the sources for a build, and the parts of a tree that are no sources.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// Folders of version control, which no build needs and which can be larger than the sources, of Hone's own helpers, and of Python's
/// compiled files.
pub(super) const LEFT_OUT: [&str; 6] = [".git", ".hg", ".svn", ".jj", ".hone", "__pycache__"];

/// Begins the file that marks a folder as a cache (<https://bford.info/cachedir/>).
const CACHE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";

/// Whether a folder or file of a source tree is no source: no copy contains it, and its changes do not count.
pub fn is_no_source(path: &Path) -> bool {
    let is_named = path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left| name == *left));
    is_named || is_cache(path) || is_run(path)
}

fn is_cache(folder: &Path) -> bool {
    let mut begin = Vec::new();
    let tag = fs::File::open(folder.join("CACHEDIR.TAG"));
    tag.and_then(|tag| tag.take(CACHE.len() as u64).read_to_end(&mut begin)).is_ok() && begin == CACHE
}

/// Whether it is the folder of one of Hone's runs. An experiment file alone proves nothing.
fn is_run(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).is_file();
    has("experiment.toml") && (has("asked.json") || has("rule.txt"))
}

/// Copies a tree of sources with its times (make decides by them) and links. Excludes `but`, because the work folder may be inside of it.
pub(super) fn copy_sources(from: &Path, to: &Path, but: &[PathBuf]) -> Result<()> {
    let told = || format!("{} can't be copied to {}", from.display(), to.display());
    fs::create_dir_all(to).with_context(told)?;
    for entry in fs::read_dir(from).with_context(told)? {
        let entry = entry.with_context(told)?;
        let path = entry.path();
        if but.contains(&path) || is_no_source(&path) {
            continue;
        }
        let kind = entry.file_type().with_context(told)?;
        let target = to.join(entry.file_name());
        if kind.is_dir() {
            copy_sources(&path, &target, but)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&path).with_context(told)?, &target)
                .with_context(told)?;
        } else if kind.is_file() {
            copy_file(&path, &target).with_context(|| format!("{} can't be copied", path.display()))?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    let modified = from.metadata()?.modified()?;
    // Sources may be read-only, but Hone must be able to change its copies.
    let mut permissions = to.metadata()?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(
        &mut permissions,
        std::os::unix::fs::PermissionsExt::mode(&from.metadata()?.permissions()) | 0o200,
    );
    fs::set_permissions(to, permissions)?;
    fs::File::options().write(true).open(to)?.set_modified(modified)
}

/// gcc looks for counts next to the object that it makes, so they go to the same place in the new copy.
pub(super) fn copy_counts(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| format!("{} can't be read", from.display()))? {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            copy_counts(&path, &to.join(entry.file_name()))?;
        } else if path.extension().is_some_and(|end| end == "gcda") {
            fs::create_dir_all(to)?;
            copy_file(&path, &to.join(entry.file_name()))
                .with_context(|| format!("{} can't be copied", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_what_is_a_source_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            fs::write(path(name), text).unwrap();
        };
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
        let sources = ["a.c", "tests/experiment.toml", "tests/b.c", "kept/CACHEDIR.TAG", "kept/c.c"];
        sources.iter().for_each(|name| write(&format!("from/{name}"), "1"));
        write("from/target/CACHEDIR.TAG", tag);
        for made in ["target/a", ".git/a", ".hone/a", "py/__pycache__/a", "runs/a", "own/a"] {
            write(&format!("from/{made}"), "1");
        }
        write("from/runs/experiment.toml", "");
        write("from/runs/asked.json", "{}");
        copy_sources(&path("from"), &path("to"), &[path("from/own")]).unwrap();
        for source in sources {
            assert!(path("to").join(source).is_file(), "{source}");
        }
        for made in ["target", ".git", ".hone", "py/__pycache__", "runs", "own"] {
            assert!(!path("to").join(made).exists(), "{made}");
        }
    }
}
