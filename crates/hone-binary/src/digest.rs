//! Contents known by a hash.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::elf::sha256_hex;

/// SHA-256 of a file, or of the names and contents of all files in a folder.
pub(crate) fn content_hash(path: &Path) -> Result<String> {
    let told = || format!("{} can't be read", path.display());
    if !path.is_dir() {
        return Ok(sha256_hex(&fs::read(path).with_context(told)?));
    }
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(path).with_context(told)? {
        names.insert(entry.with_context(told)?.file_name());
    }
    let mut list = String::new();
    for name in names {
        list.push_str(&format!("{} {}\n", content_hash(&path.join(&name))?, name.to_string_lossy()));
    }
    Ok(sha256_hex(list.as_bytes()))
}

/// Enough of a hash for a name.
pub(crate) fn short(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or(sha256)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_its_contents() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        write("a.gcda", "1");
        write("in/b.gcda", "2");
        let before = content_hash(dir.path()).unwrap();
        assert_eq!(content_hash(dir.path()).unwrap(), before);
        write("in/b.gcda", "3");
        let changed = content_hash(dir.path()).unwrap();
        fs::rename(dir.path().join("in/b.gcda"), dir.path().join("in/c.gcda")).unwrap();
        assert!(before != changed && changed != content_hash(dir.path()).unwrap());
        assert!(content_hash(&dir.path().join("none")).is_err());
    }
}
