//! Errors about a file that a user wrote: the place, and the problem in plain words instead of those of the reader's library.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::spelling::{did_you_mean, nearest};

/// The problem in a file, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    file: PathBuf,
    line: Option<usize>,
    problem: String,
    source_line: Option<String>,
}

impl FileError {
    /// A problem at a line, counted from 1. `text` is the file's, and shows the line.
    pub fn new(file: &Path, text: &str, line: Option<usize>, problem: String) -> Self {
        let source_line = line.and_then(|line| text.lines().nth(line.checked_sub(1)?));
        let source_line = source_line.map(|line| line.trim().to_owned());
        Self { file: file.to_owned(), line, problem, source_line }
    }

    /// An error of the TOML reader, with its place in the text.
    pub fn of_toml(error: &toml::de::Error, text: &str, file: &Path) -> Self {
        let lines_to = |end: usize| text.bytes().take(end).filter(|byte| *byte == b'\n').count() + 1;
        let line = error.span().map(|span| lines_to(span.start));
        Self::new(file, text, line, in_plain_words(error.message()))
    }
}

impl fmt::Display for FileError {
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

impl std::error::Error for FileError {}

/// The message of a TOML or JSON reader in plain words. An unknown key gets the most similar known one. A message without plain words stays.
pub fn in_plain_words(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or(message);
    let (message, place) = without_place(first_line);
    let mut quoted = message.split('`').skip(1).step_by(2);
    let unknown = [("unknown field", "unknown key"), ("unknown variant", "unknown word")];
    let unknown = unknown.into_iter().find(|(theirs, _)| message.starts_with(theirs));
    let problem = match (quoted.next(), unknown) {
        (Some(word), Some((_, what))) => {
            let known: Vec<&str> = quoted.collect();
            let near = did_you_mean(nearest(word, known.iter().copied()));
            let use_one =
                if known.is_empty() { String::new() } else { format!("; use one of: {}", known.join(", ")) };
            format!("{what} `{word}`{near}{use_one}")
        }
        (Some(key), None) if message.starts_with("missing field") => format!("the key `{key}` is missing"),
        (Some(key), None) if message.starts_with("duplicate field") => {
            format!("the key `{key}` is there twice")
        }
        _ => type_in_words(message).unwrap_or_else(|| message.to_owned()),
    };
    problem + &place
}

/// JSON's reader ends a message with ` at line 1 column 5`.
fn without_place(message: &str) -> (&str, String) {
    let place = message.rsplit_once(" at line ").and_then(|(before, place)| {
        let (line, column) = place.split_once(" column ")?;
        let is_number = |text: &str| text.parse::<u64>().is_ok();
        (is_number(line) && is_number(column)).then(|| (before, format!(" (line {line}, column {column})")))
    });
    place.unwrap_or((message, String::new()))
}

/// `invalid type: string "x", expected a sequence` in plain words: `"x" is a text; write a list`.
fn type_in_words(message: &str) -> Option<String> {
    if message.starts_with("data did not match any variant") {
        return Some("this value has another type than the key needs".to_owned());
    }
    let prefixes = ["invalid type: ", "invalid value: ", "invalid length "];
    let rest = prefixes.iter().find_map(|prefix| message.strip_prefix(prefix))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found.split_once(' ') {
        Some(("string", text)) => format!("{text} is a text"),
        Some(("integer", number)) => format!("{} is a whole number", number.trim_matches('`')),
        Some(("floating", number)) => {
            format!("{} is a number", number.trim_start_matches("point ").trim_matches('`'))
        }
        Some(("boolean", value)) => format!("{} is true or false", value.trim_matches('`')),
        None if found.parse::<u64>().is_ok() => format!("this list has a length of {found}"),
        _ if found == "sequence" => "this is a list".to_owned(),
        _ if found == "map" => "this is a table".to_owned(),
        _ if found == "null" => "this is null".to_owned(),
        _ => format!("this is a {found}"),
    };
    let is_whole = |word: &str| {
        let digits = word.strip_prefix(['u', 'i']).unwrap_or_default();
        digits == "size" || digits.parse::<u8>().is_ok() || word.starts_with("a nonzero")
    };
    let wanted = match expected {
        "a sequence" => "a list, for example [\"a\", \"b\"]",
        "a string" => "a text, in quotes",
        "path string" => "a path, in quotes",
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    #[allow(dead_code, reason = "only the errors of its reader are read")]
    struct File {
        name: String,
        folder: PathBuf,
        words: Vec<String>,
        table: BTreeMap<String, f64>,
        count: u32,
        share: f64,
        is_on: bool,
        pair: Option<[u8; 2]>,
        word: Option<Word>,
        host: Option<Host>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Word {
        FirstWord,
        Other,
    }

    #[derive(Debug, Deserialize)]
    #[allow(dead_code, reason = "only the errors of its reader are read")]
    struct Host {
        address: String,
    }

    fn error(text: &str) -> String {
        let error = toml::from_str::<File>(text).unwrap_err();
        FileError::of_toml(&error, text, Path::new("x.toml")).to_string()
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_line_and_what_to_write() {
        for (line, expected) in [
            ("name = 30", "x.toml:2: 30 is a whole number; write a text, in quotes\n    name = 30"),
            ("folder = 1.5", "1.5 is a number; write a path, in quotes"),
            ("words = \"a\"", "\"a\" is a text; write a list, for example"),
            ("table = true", "true is true or false; write a table"),
            ("count = \"two\"", "\"two\" is a text; write a whole number, not below zero"),
            ("count = -1", "-1 is a whole number; write a whole number, not below zero"),
            ("share = [1]", "this is a list; write a number"),
            ("is_on = {}", "this is a table; write true or false"),
        ] {
            let told = error(&format!("# a remark\n{line}\n"));
            assert!(told.contains(expected) && told.starts_with("x.toml:2: "), "{line}: {told}");
        }
    }

    #[test]
    fn an_unknown_word_gets_the_nearest_known_one() {
        assert!(
            error("\n\nis_onn = true\n")
                .starts_with("x.toml:3: unknown key `is_onn` (did you mean `is_on`?); use one of: name, ")
        );
        let told = error("word = \"first-wrd\"\n");
        assert!(told.contains("unknown word `first-wrd` (did you mean `first-word`?)"), "{told}");
        assert!(told.contains("; use one of: first-word, other"), "{told}");
        assert!(error("host = {}\n").contains("the key `address` is missing"));
        assert_eq!(in_plain_words("unknown field `a`, there are no fields"), "unknown key `a`");
    }

    /// Whatever is wrong, no word of the library behind the reader is left.
    #[test]
    fn no_word_of_the_reader_is_left() {
        let words = [
            "expected",
            "invalid type",
            "invalid value",
            "field",
            "variant",
            "sequence",
            "u32",
            "f64",
            " map",
        ];
        for line in [
            "name = 1",
            "words = 1",
            "table = 1",
            "count = 1.5",
            "count = 5000000000",
            "share = \"\"",
            "pair = [1]",
            "host = 1",
            "wrod = 1",
            "word = \"x\"",
            "host = {}",
        ] {
            let told = error(line);
            assert!(!words.iter().any(|word| told.contains(word)), "{line}: {told}");
        }
    }

    #[test]
    fn messages_of_a_json_reader_keep_their_place() {
        let told = in_plain_words("invalid type: string \"many\", expected f64 at line 3 column 5");
        assert_eq!(told, "\"many\" is a text; write a number (line 3, column 5)");
        let told = in_plain_words("missing field `plan` at line 1 column 2");
        assert_eq!(told, "the key `plan` is missing (line 1, column 2)");
        assert_eq!(in_plain_words("invalid type: null, expected a map"), "this is null; write a table");
        assert_eq!(in_plain_words("bad at line of sight"), "bad at line of sight");
    }

    #[test]
    fn a_problem_without_a_line_names_the_file() {
        let error = FileError::new(Path::new("x.toml"), "a", None, "it is odd".to_owned());
        assert_eq!(error.to_string(), "x.toml: it is odd");
        assert_eq!(
            FileError::new(Path::new("x.toml"), "a", Some(7), String::new()).to_string(),
            "x.toml:7: "
        );
    }
}
