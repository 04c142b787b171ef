//! What the TOML reader says, in the words of the field.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::spelling::{did_you_mean, nearest};

/// The problem in an experiment file, with its place.
#[derive(Debug, PartialEq, Eq)]
pub struct ExperimentError {
    pub(super) file: PathBuf,
    pub(super) line: Option<usize>,
    pub(super) problem: String,
    pub(super) source_line: Option<String>,
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.problem)?;
        if let Some(source_line) = &self.source_line {
            write!(formatter, "\n    {source_line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExperimentError {}

/// An error of the TOML reader, with its place in the file.
pub fn explain(error: &toml::de::Error, text: &str, file: &Path) -> ExperimentError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let source_line = line.and_then(|line| text.lines().nth(line - 1)).map(|line| line.trim().to_owned());
    ExperimentError { file: file.to_owned(), line, problem: with_nearest(error.message()), source_line }
}

/// Replaces the reader's messages by plain ones. An unknown key gets the most similar known one.
fn with_nearest(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or(message);
    let mut quoted = first_line.split('`').skip(1).step_by(2);
    let unknown = first_line.starts_with("unknown field") || first_line.starts_with("unknown variant");
    match quoted.next() {
        Some(word) if unknown => {
            let what = if first_line.starts_with("unknown field") { "unknown key" } else { "unknown word" };
            let known: Vec<&str> = quoted.collect();
            let near = nearest(word, known.iter().copied());
            format!("{what} `{word}`{}; use one of: {}", did_you_mean(near), known.join(", "))
        }
        Some(key) if first_line.starts_with("missing field") => format!("the key `{key}` is missing"),
        _ => kind_in_words(first_line).unwrap_or_else(|| first_line.to_owned()),
    }
}

/// `invalid type: string "x", expected a sequence` in the words of TOML: `"x" is a text; write a list`.
fn kind_in_words(message: &str) -> Option<String> {
    let rest = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("{text} is a text"),
        Some(("integer", number)) => format!("{} is a whole number", number.trim_matches('`')),
        Some(("floating", number)) => {
            format!("{} is a number", number.trim_start_matches("point ").trim_matches('`'))
        }
        Some(("boolean", value)) => format!("{} is true or false", value.trim_matches('`')),
        _ if found == "sequence" => "this is a list".to_owned(),
        _ if found == "map" => "this is a table".to_owned(),
        _ => format!("this is a {found}"),
    };
    let is_whole = |word: &str| {
        let digits = word.strip_prefix(['u', 'i']).unwrap_or_default();
        digits == "size" || digits.parse::<u8>().is_ok() || word.starts_with("a nonzero")
    };
    let wanted = match expected {
        "a sequence" => "a list, for example [\"a\", \"b\"]",
        "a string" => "a text, in quotes",
        "a map" => "a table",
        "a boolean" => "true or false",
        "f32" | "f64" => "a number",
        word if is_whole(word) && word.starts_with('i') => "a whole number",
        word if is_whole(word) => "a whole number, not below zero",
        word if word.starts_with("struct ") || word.starts_with("enum ") => "a table",
        other => other,
    };
    Some(format!("{found}; write {wanted}"))
}
