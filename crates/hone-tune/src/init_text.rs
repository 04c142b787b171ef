//! What `hone init` saw and wrote, as text.

use std::path::PathBuf;

use serde::Serialize;

use crate::starter;

/// What was seen and written.
#[derive(Debug, Serialize)]
pub struct Written {
    /// The file's path.
    pub file: PathBuf,
    /// A line for each build system: its file, its kind, its programs.
    pub saw: Vec<Seen>,
    /// The program that is optimised.
    pub program: String,
    /// Where its load comes from.
    pub load: &'static str,
    /// What is left to the user.
    pub fill_in: Vec<ToFillIn>,
    /// The second file, for `hone tune`, where the target speaks Kafka's protocol.
    pub tune: Option<ForTune>,
}

/// A file for `hone tune`.
#[derive(Debug, Serialize)]
pub struct ForTune {
    /// The file's path.
    pub file: PathBuf,
    /// What is left to the user.
    pub fill_in: Vec<ToFillIn>,
    /// Whether it was there before, and is left as it was.
    pub was_there: bool,
}

/// A build system that was seen.
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

/// Something that only the user knows.
#[derive(Debug, Serialize)]
pub struct ToFillIn {
    /// Its line number in the file.
    pub line: usize,
    /// What is to be filled in.
    pub what: String,
}

/// What was seen, what was chosen, what is left to the user.
pub fn text(found: &Written) -> String {
    let mut out = String::new();
    for seen in &found.saw {
        out.push_str(&seen_line(seen));
    }
    out.push_str(&format!("program     {}\nload        {}\n", found.program, found.load));
    out.push_str(&format!("\nWritten: {}\n{}", found.file.display(), lines_to_fill_in(&found.fill_in)));
    out.push_str(&format!("Then: hone optimize {}\n", found.file.display()));
    if let Some(tune) = &found.tune {
        let what = if tune.was_there { "Left as it is, because it is there already" } else { "Written" };
        let file = tune.file.display();
        out.push_str(&format!("\n{what}: {file}\n{}", lines_to_fill_in(&tune.fill_in)));
        out.push_str(&format!("Or, with builds, settings and clients: hone tune {file} --dry-run\n"));
    }
    out
}

/// What a text leaves to the user, with its lines.
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
    format!("saw         {} ({}): {programs}{used}\n", seen.file.display(), seen.kind)
}
