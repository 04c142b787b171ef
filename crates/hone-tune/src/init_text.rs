//! The output of `hone init`: its findings and the files that it wrote.

use std::path::PathBuf;

use serde::Serialize;

use crate::starter;

/// The findings and the written files.
#[derive(Debug, Serialize)]
pub struct Written {
    /// The file's path.
    pub file: PathBuf,
    /// One line per build system: its file, its kind, its programs.
    pub saw: Vec<Seen>,
    /// The program that is optimised.
    pub program: String,
    /// Source of its load.
    pub load: &'static str,
    /// The values that you have to fill in.
    pub fill_in: Vec<ToFillIn>,
    /// The second file, for `hone tune`, where the target speaks Kafka's protocol.
    pub tune: Option<ForTune>,
}

/// A file for `hone tune`.
#[derive(Debug, Serialize)]
pub struct ForTune {
    /// The file's path.
    pub file: PathBuf,
    /// The values that you have to fill in.
    pub fill_in: Vec<ToFillIn>,
    /// Whether it existed before and stayed as it was.
    pub was_there: bool,
}

/// A build system that was found.
#[derive(Debug, Serialize)]
pub struct Seen {
    /// The file's path.
    pub file: PathBuf,
    /// The build system.
    pub kind: &'static str,
    /// The programs that it makes.
    pub programs: Vec<String>,
    /// Whether the written file is for this build system.
    pub used: bool,
}

/// A value that only you know.
#[derive(Debug, Serialize)]
pub struct ToFillIn {
    /// Its line number in the file.
    pub line: usize,
    /// The value to fill in.
    pub what: String,
}

/// The findings, the choices, and the values that you have to fill in.
pub fn text(found: &Written) -> String {
    let mut out = String::new();
    for seen in &found.saw {
        out.push_str(&seen_line(seen));
    }
    out.push_str(&format!("program     {}\nload        {}\n", found.program, found.load));
    out.push_str(&format!("\nWritten: {}\n{}", found.file.display(), lines_to_fill_in(&found.fill_in)));
    out.push_str(&format!("Then: hone optimize {}\n", found.file.display()));
    if let Some(tune) = &found.tune {
        let what = if tune.was_there { "Exists already, and stays as it is" } else { "Written" };
        let file = tune.file.display();
        out.push_str(&format!("\n{what}: {file}\n{}", lines_to_fill_in(&tune.fill_in)));
        out.push_str(&format!("To tune builds, settings and clients: hone tune {file} --dry-run\n"));
    }
    out
}

/// The values that a file leaves to you, with their lines.
pub(crate) fn to_fill_in(text: &str) -> Vec<ToFillIn> {
    starter::to_fill_in(text).into_iter().map(|(line, what)| ToFillIn { line, what }).collect()
}

pub(super) fn lines_to_fill_in(places: &[ToFillIn]) -> String {
    let lines = places.iter().map(|place| format!("  line {:>3}  {}\n", place.line, place.what));
    let head = if places.is_empty() { "" } else { "To fill in:\n" };
    std::iter::once(head.to_owned()).chain(lines).collect()
}

fn seen_line(seen: &Seen) -> String {
    let programs = match seen.programs.as_slice() {
        [] => "names no program".to_owned(),
        names => format!("makes {}", names.join(", ")),
    };
    let used = if seen.used { "" } else { " (not used)" };
    format!("found       {} ({}): {programs}{used}\n", seen.file.display(), seen.kind)
}
