//! How the pages and the program's texts read: words per sentence, "you" where a person acts, banned terms, budgets of words.
//! The limits are those of CONTRIBUTING.md. The terms are those of `.vale/Hone/Terms.yml`, which Vale checks in the pages.

#![expect(clippy::print_stdout, reason = "the table of all pages is read with --nocapture")]
#![expect(clippy::disallowed_methods, reason = "git lists the pages")]

use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;

mod book;
use book::{page, pages, root};

/// Words per sentence, at most.
const MEAN: f64 = 15.0;
const P90: usize = 26;

/// Words of all Markdown, and of README.md.
const ALL_WORDS: usize = 55_000;
const README_WORDS: usize = 900;

/// "you" per 1,000 words on pages that lead a person through something.
const YOU: f64 = 10.0;

/// The sentences of a page: without code, tables, headings and the targets of links.
fn sentences(text: &str) -> Vec<Vec<String>> {
    let mut paragraphs: Vec<String> = vec![String::new()];
    let mut is_code = false;
    for line in text.lines() {
        let trimmed = line.trim_start();
        is_code ^= trimmed.starts_with("```");
        let is_apart = is_code
            || line.starts_with("    ")
            || ["```", "#", "|", "<", "!["].iter().any(|mark| trimmed.starts_with(mark));
        let is_item = ["- ", "* "].iter().any(|mark| trimmed.starts_with(mark))
            || trimmed.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if is_apart || is_item || trimmed.is_empty() {
            paragraphs.push(String::new());
        }
        if !is_apart && let Some(last) = paragraphs.last_mut() {
            *last += trimmed.trim_start_matches(['-', '*', '>']);
            *last += " ";
        }
    }
    paragraphs.iter().flat_map(|paragraph| sentences_of(paragraph)).collect()
}

fn sentences_of(paragraph: &str) -> Vec<Vec<String>> {
    let code = Regex::new("`[^`]*`").unwrap();
    let link = Regex::new(r"\]\([^)]*\)").unwrap();
    let plain = code.replace_all(paragraph, "code");
    let plain = link.replace_all(&plain, "]");
    let end = Regex::new(r"[.!?](?:\s|$)|:\s*$").unwrap();
    let words = |sentence: &str| -> Vec<String> {
        sentence
            .split_whitespace()
            .filter(|word| word.chars().any(char::is_alphanumeric))
            .map(str::to_owned)
            .collect()
    };
    end.split(&plain).map(words).filter(|words| words.len() > 1).collect()
}

/// Mean and 90th percentile of the words per sentence.
fn lengths(sentences: &[Vec<String>]) -> (f64, usize) {
    let mut lengths: Vec<usize> = sentences.iter().map(Vec::len).collect();
    lengths.sort_unstable();
    let mean = lengths.iter().sum::<usize>() as f64 / lengths.len().max(1) as f64;
    (mean, lengths.get(lengths.len() * 9 / 10).copied().unwrap_or_default())
}

/// "you" and "your" per 1,000 words.
fn addressed(sentences: &[Vec<String>]) -> f64 {
    let words: Vec<&String> = sentences.iter().flatten().collect();
    let plain = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let you = words
        .iter()
        .filter(|word| ["you", "your", "yours", "yourself"].contains(&plain(word).as_str()))
        .count();
    1e3 * you as f64 / words.len().max(1) as f64
}

fn leads(path: &Path) -> bool {
    path == Path::new("README.md") || path == Path::new("docs/tutorial.md") || path.starts_with("docs/howto")
}

#[test]
fn pages_have_short_sentences_and_address_the_reader() {
    let mut faults = Vec::new();
    let mut table = String::new();
    for path in pages() {
        let sentences = sentences(&page(&path));
        if sentences.len() < 5 {
            continue;
        }
        let ((mean, p90), you) = (lengths(&sentences), addressed(&sentences));
        table += &format!("{:<40} {mean:5.1} {p90:4} {you:6.1}\n", path.display());
        if mean > MEAN || p90 > P90 {
            faults.push(format!("{}: mean {mean:.1}, p90 {p90} words per sentence", path.display()));
        }
        if leads(&path) && you < YOU {
            faults.push(format!("{}: \"you\" {you:.1} per 1,000 words", path.display()));
        }
    }
    println!("{:<40} mean  p90    you\n{table}", "page");
    assert!(faults.is_empty(), "limits: mean {MEAN}, p90 {P90}, you {YOU}\n{}", faults.join("\n"));
}

/// All Markdown that the repository has, but for what is built and what tests keep of others.
fn markdown() -> Vec<PathBuf> {
    let listed =
        std::process::Command::new("git").args(["ls-files", "*.md"]).current_dir(root()).output().unwrap();
    assert!(listed.status.success());
    String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).exists())
        .collect()
}

#[test]
fn the_pages_keep_to_their_budget() {
    let words = |path: &Path| page(path).split_whitespace().count();
    let all = markdown();
    assert!(all.len() > 50, "{all:?}");
    let sum: usize = all.iter().map(|path| words(path)).sum();
    println!("all Markdown: {sum} words");
    assert!(sum <= ALL_WORDS, "all Markdown has {sum} words, at most {ALL_WORDS}");
    let readme = words(Path::new("README.md"));
    assert!(readme <= README_WORDS, "README.md has {readme} words, at most {README_WORDS}");
}

/// Words that the project does not write, each as one expression.
fn terms() -> Vec<Regex> {
    let text = fs::read_to_string(root().join(".vale/Hone/Terms.yml")).unwrap();
    let lines = text.lines().skip_while(|line| *line != "swap:").skip(1);
    let pattern =
        |line: &str| line.trim().strip_prefix('"')?.split_once("\":").map(|(pattern, _)| pattern.to_owned());
    lines.filter_map(pattern).map(|pattern| Regex::new(&format!(r"(?i)\b(?:{pattern})\b")).unwrap()).collect()
}

/// The constants of a source file that hold sentences, with their lines. What tests say does not count.
fn constants(source: &str) -> Vec<(usize, String)> {
    let tests = Regex::new(r"#\[cfg\(test\)\]\n(?:pub(?:\([a-z]+\))? )?mod \w+ \{").unwrap();
    let body = tests.split(source).next().unwrap_or_default();
    let mut found = Vec::new();
    let mut chars = body.char_indices().peekable();
    let (mut line, mut before) = (1, ' ');
    while let Some((place, c)) = chars.next() {
        match c {
            '\n' => line += 1,
            '/' if body[place..].starts_with("//") => while chars.next_if(|(_, c)| *c != '\n').is_some() {},
            // The character `"`, and not a text that begins.
            '\'' if body[place..].starts_with("'\"'") || body[place..].starts_with("'\\\"'") => {
                while chars.next().is_some_and(|(_, c)| c != '\'') {}
            }
            '"' => {
                let begun = line;
                let mut text = String::new();
                let is_raw = before == 'r' || before == '#';
                while let Some((place, c)) = chars.next() {
                    line += usize::from(c == '\n');
                    match c {
                        '\\' if !is_raw => {
                            let next = chars.next().map(|(_, c)| c);
                            line += usize::from(next == Some('\n'));
                            text.push(' ');
                        }
                        '"' if !is_raw || before != '#' || body[place + 1..].starts_with('#') => break,
                        c => text.push(c),
                    }
                }
                if text.contains(' ') {
                    found.push((begun, text.split_whitespace().collect::<Vec<_>>().join(" ")));
                }
            }
            _ => {}
        }
        before = c;
    }
    found
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> =
        fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path().join("src")).collect();
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
            let path = entry.path();
            match entry.file_type().unwrap().is_dir() {
                true => waiting.push(path),
                false if is_source(&path) => found.push(path),
                false => {}
            }
        }
    }
    found.sort();
    found
}

/// A source file of the program, and not of its tests.
fn is_source(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let is_test = ["tests.rs", "fuzzing"].iter().any(|mark| text.contains(mark)) || text.contains("/fixture");
    text.ends_with(".rs") && !is_test
}

/// Words that records of earlier versions hold. The program reads them, and shows others.
const STORED: [&str; 6] =
    ["not shown again", "could not tell", "taken back", "put back", "host revert", ", beside"];

#[test]
fn the_program_says_no_banned_term() {
    let terms = terms();
    let placeholder = Regex::new(r"\{[A-Za-z_0-9.:?]*\}").unwrap();
    assert!(terms.len() > 15, "the terms were not found");
    let (mut seen, mut faults) = (0, Vec::new());
    for path in sources() {
        for (line, text) in constants(&fs::read_to_string(&path).unwrap()) {
            seen += 1;
            // The name of a variable is no word that a person reads.
            let text = placeholder.replace_all(&text, "{}");
            let term = terms.iter().find_map(|term| term.find(&text)).filter(|_| !STORED.contains(&&*text));
            let path = path.strip_prefix(root()).unwrap().display();
            faults.extend(term.map(|term| format!("{path}:{line}: {}: {text}", term.as_str())));
        }
    }
    assert!(seen > 3_000, "the texts were not found: {seen}");
    assert!(faults.is_empty(), "{} texts:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn texts_are_found_in_sources_and_sentences_in_pages() {
    let source = "// \"not this\"\nlet a = \"a text\\\n   goes on\";\nlet b = '\"'; let c = r#\"raw \"text\" here\"#;\nlet d = \"one\";\n#[cfg(test)]\nmod tests { \"a test\" }";
    let found: Vec<(usize, String)> = constants(source);
    assert_eq!(found[0], (2, "a text goes on".to_owned()), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    let text = "# Head\n\nOne two three. Four `code here` five\nsix!\n\n- item one\n- item [two](x.md)\n\n| a | b |\n```sh\nno words here\n```\n";
    let found = sentences(text);
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 4, 2, 2], "{found:?}");
    let terms = terms();
    let is_banned = |text: &str| terms.iter().any(|term| term.is_match(text));
    assert!(
        is_banned("what the broker tells") && is_banned("It was taken back") == is_banned("was taken back")
    );
    assert!(!is_banned("the tellurium broker"));
}
