//! How the pages read: words per sentence, "you" where a person acts, budgets of words.
//! The limits are those of CONTRIBUTING.md. Terms are checked by Vale in the pages, and by `tidy.rs` in the sources.

#![expect(clippy::print_stdout, reason = "the table of all pages is read with --nocapture")]
#![expect(clippy::disallowed_methods, reason = "git lists the pages")]

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
    // The marks of tables and lists are no words.
    let is_word = |word: &&str| word.chars().any(char::is_alphanumeric);
    let words = |path: &Path| page(path).split_whitespace().filter(is_word).count();
    let all = markdown();
    assert!(all.len() > 50, "{all:?}");
    let sum: usize = all.iter().map(|path| words(path)).sum();
    println!("all Markdown: {sum} words");
    assert!(sum <= ALL_WORDS, "all Markdown has {sum} words, at most {ALL_WORDS}");
    let readme = words(Path::new("README.md"));
    assert!(readme <= README_WORDS, "README.md has {readme} words, at most {README_WORDS}");
}

#[test]
fn sentences_are_found_in_pages() {
    let text = "# Head\n\nOne two three. Four `code here` five\nsix!\n\n- item one\n- item [two](x.md)\n\n| a | b |\n```sh\nno words here\n```\n";
    let found = sentences(text);
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 4, 2, 2], "{found:?}");
}
