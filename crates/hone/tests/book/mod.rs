//! What the tests of the documentation share: the repository, its pages, and the blocks of code in them.

#![allow(dead_code, unreachable_pub, reason = "each test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

pub mod shown;

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A block between fences.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// What stands behind the opening fence: `sh`, `sh build`, `text`.
    pub kind: String,
    pub text: String,
    /// The line of the opening fence, from 1.
    pub line: usize,
    /// Whether only empty lines lie between it and the block before it.
    pub follows: bool,
}

/// The blocks of a page between fences, in their order. A fence that is never closed fails.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut open: Option<Block> = None;
    let mut is_behind_a_block = false;
    for (number, line) in page.lines().enumerate() {
        let fence = line.strip_prefix("```");
        match (&mut open, fence) {
            (Some(block), None) => block.text += &format!("{line}\n"),
            (Some(_), Some(_)) => {
                found.extend(open.take());
                is_behind_a_block = true;
            }
            (None, Some(kind)) => {
                open = Some(Block {
                    kind: kind.trim().to_owned(),
                    text: String::new(),
                    line: number + 1,
                    follows: is_behind_a_block,
                });
            }
            (None, None) => is_behind_a_block &= line.trim().is_empty(),
        }
    }
    assert_eq!(open, None, "a fence is not closed");
    found
}

/// All pages of the repository that are for readers, by their paths from its root.
pub fn pages() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into();
    let mut waiting = vec![PathBuf::from("docs")];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(root().join(&folder)).unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(path),
                false if path.extension().is_some_and(|end| end == "md") => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// The text of a page.
#[track_caller]
pub fn page(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
