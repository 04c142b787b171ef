//! Words that the project does not write. Vale checks them in the pages; here are the program's own texts.

use std::fs;
use std::path::Path;

use regex::Regex;

use super::modules::Crate;

/// Words that records of earlier versions hold. The program reads them, and shows others.
const STORED: [&str; 6] =
    ["not shown again", "could not tell", "taken back", "put back", "host revert", ", beside"];

/// The terms of `.vale/Hone/Terms.yml`, each as one expression.
pub(crate) fn terms(root: &Path) -> Vec<Regex> {
    let text = fs::read_to_string(root.join(".vale/Hone/Terms.yml")).unwrap();
    let lines = text.lines().skip_while(|line| *line != "swap:").skip(1);
    let pattern =
        |line: &str| line.trim().strip_prefix('"')?.split_once("\":").map(|(pattern, _)| pattern.to_owned());
    lines.filter_map(pattern).map(|pattern| Regex::new(&format!(r"(?i)\b(?:{pattern})\b")).unwrap()).collect()
}

/// The number of sentences that the program can print, and those with one of the terms.
pub(crate) fn faults(crates: &[Crate], terms: &[Regex]) -> (usize, Vec<String>) {
    let placeholder = Regex::new(r"\{[A-Za-z_0-9.:?]*\}").unwrap();
    let files = crates.iter().flat_map(|one| &one.files).filter(|file| file.is_production);
    let (mut seen, mut faults) = (0, Vec::new());
    for file in files.filter(|file| file.path.contains("/src/")) {
        for (line, text) in file.source.texts().into_iter().filter(|(_, text)| text.contains(' ')) {
            seen += 1;
            // The name of a variable is no word that a person reads.
            let text = placeholder.replace_all(&text, "{}");
            let term = terms.iter().find_map(|term| term.find(&text)).filter(|_| !STORED.contains(&&*text));
            faults.extend(term.map(|term| format!("{}:{line}: {}: {text}", file.path, term.as_str())));
        }
    }
    (seen, faults)
}
