//! Measures of the sources: lines, long files, long functions, banned names.

use std::collections::BTreeMap;
use std::path::Path;

use super::circles;
use super::modules::{Crate, File};
use super::source::{Source, Tokens};

/// The record lists files with more lines.
const FILE_LINES: usize = 800;
/// The record lists functions with more lines.
const FUNCTION_LINES: usize = 80;
/// The crate with the program, from which other crates are split off.
const PROGRAM: &str = "hone";

/// Banned type names: they do not say what the type holds.
const TYPES: [&str; 17] = [
    "Asked", "Told", "Standing", "Seen", "Found", "Contest", "Sitting", "Lever", "Held", "WayBack", "Desk",
    "Order", "Workshop", "Place", "Kind", "Wanted", "Kept",
];
/// Banned function names.
const FUNCTIONS: [&str; 5] = ["of", "told", "words", "foretell", "hope"];
/// Banned names of modules and their files.
const MODULES: [&str; 29] = [
    "drive", "aim", "left", "broke", "story", "shelf", "sketch", "desk", "door", "papers", "book", "survey",
    "starter", "heat", "curve", "climb", "kept", "fleet", "archive", "said", "form", "family", "workshop",
    "tally", "plant", "provoke", "steward", "clerk", "likeness",
];

/// Numbers by name.
pub(crate) type Counts = BTreeMap<String, usize>;

/// The numbers under the ratchet.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Figures {
    /// Lines of the crate `hone`, including its tests.
    pub(crate) program_lines: usize,
    /// Lines of all crates, excluding their tests.
    pub(crate) production_lines: usize,
    /// For each crate, the sizes of its circles of more than three files, the largest first.
    pub(crate) circles: BTreeMap<String, Vec<usize>>,
    pub(crate) long_files: Counts,
    pub(crate) long_functions: Counts,
    /// For each crate, the definitions with a banned name.
    pub(crate) names: BTreeMap<String, Counts>,
}

impl Figures {
    pub(crate) fn of_crates(crates: &[Crate]) -> Self {
        let files = || crates.iter().flat_map(|one| &one.files);
        let program = crates.iter().filter(|one| one.name == PROGRAM);
        Self {
            program_lines: program.map(Crate::lines).sum(),
            production_lines: crates.iter().map(Crate::production_lines).sum(),
            circles: crates.iter().map(|one| (one.name.clone(), circles::sizes(one))).collect(),
            long_files: files().filter_map(long_file).collect(),
            long_functions: files().flat_map(long_functions).collect(),
            names: crates.iter().map(|one| (one.name.clone(), names(one))).collect(),
        }
    }
}

fn long_file(file: &File) -> Option<(String, usize)> {
    let lines = file.source.lines();
    (lines > FILE_LINES).then(|| (file.path.clone(), lines))
}

/// The long functions of a file. A number distinguishes functions with the same name, the longest first.
fn long_functions(file: &File) -> Vec<(String, usize)> {
    let mut long = functions(&file.source);
    long.retain(|(_, lines)| *lines > FUNCTION_LINES);
    long.sort_by_key(|(_, lines)| usize::MAX - lines);
    let mut times = Counts::new();
    let named = long.into_iter().map(|(name, lines)| {
        let time = times.entry(name.clone()).or_default();
        *time += 1;
        let suffix = if *time > 1 { format!(" ({time})") } else { String::new() };
        (format!("{}::{name}{suffix}", file.path), lines)
    });
    named.collect()
}

/// Every function with a body, and the number of lines from `fn` to its last brace.
pub(crate) fn functions(source: &Source) -> Vec<(String, usize)> {
    let tokens = source.all();
    let heads = (0..tokens.len()).filter(|&at| tokens.word(at) == "fn" && tokens.is_name(at + 1));
    let bodies = heads.filter_map(|at| {
        let end = tokens.closed(body(tokens, at)?).saturating_sub(1);
        let (first, last) = (source.line(tokens.span(at).start), source.line(tokens.span(end).start));
        Some((tokens.word(at + 1).to_owned(), (last + 1).saturating_sub(first)))
    });
    bodies.collect()
}

/// The brace that opens the body of the function at `at`. A function of a trait may have none.
fn body(tokens: Tokens, mut at: usize) -> Option<usize> {
    while at < tokens.len() {
        match tokens.word(at) {
            "{" => return Some(at),
            "(" | "[" => at = tokens.closed(at),
            ";" | "}" => return None,
            _ => at += 1,
        }
    }
    None
}

fn names(krate: &Crate) -> Counts {
    let mut counts = Counts::new();
    for file in &krate.files {
        if let Some(module) = module_name(Path::new(&file.path)).filter(|name| MODULES.contains(name)) {
            *counts.entry(format!("mod {module}")).or_default() += 1;
        }
        for name in defined(file.source.all()) {
            *counts.entry(name).or_default() += 1;
        }
    }
    counts
}

/// The name of the module in this file.
fn module_name(path: &Path) -> Option<&str> {
    let named = if path.ends_with("mod.rs") { path.parent()? } else { path };
    named.file_stem()?.to_str()
}

/// The definitions with a banned name.
fn defined(tokens: Tokens) -> Vec<String> {
    let heads = (0..tokens.len()).filter(|&at| tokens.before(at) != ".");
    let listed = heads.filter_map(|at| {
        let name = tokens.word(at + 1);
        match tokens.word(at) {
            "struct" | "enum" | "trait" | "type" | "union" if TYPES.contains(&name) => {
                Some(format!("type {name}"))
            }
            "fn" if FUNCTIONS.contains(&name) => Some(format!("fn {name}")),
            // A module with a file is counted by its file.
            "mod" if MODULES.contains(&name) && tokens.word(at + 2) == "{" => Some(format!("mod {name}")),
            _ => None,
        }
    });
    listed.collect()
}
