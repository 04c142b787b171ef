//! The form of commit subjects: `area: imperative`.

use std::path::Path;

const MOST_CHARACTERS: usize = 72;

/// The first fault of a subject.
pub(crate) fn fault(subject: &str) -> Option<&'static str> {
    if subject.chars().count() > MOST_CHARACTERS {
        return Some("it has more than 72 characters");
    }
    if subject.ends_with('.') {
        return Some("it ends with a period");
    }
    let parts = subject.split_once(": ");
    let is_formed =
        parts.is_some_and(|(area, rest)| is_area(area) && rest.starts_with(|c: char| c.is_ascii_lowercase()));
    (!is_formed).then_some("it does not have the form `area: imperative`")
}

/// One lower-case word, or two with a slash between them.
fn is_area(area: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let words: Vec<&str> = area.split('/').collect();
    words.len() <= 2 && words.iter().all(|word| !word.is_empty() && word.chars().all(is_letter))
}

/// The commits after `base`, each with its short hash and its subject. The error gives the reason why git can't list them.
pub(crate) fn after(base: &str, root: &Path) -> Result<Vec<(String, String)>, String> {
    git(root, &["cat-file", "-e", &format!("{base}^{{commit}}")])
        .map_err(|reason| format!("the base commit `{base}` of tidy.toml can't be read: {reason}"))?;
    let log = git(root, &["log", "--no-merges", "--format=%h%x09%s", &format!("{base}..HEAD")])?;
    let commits = log.lines().filter_map(|line| line.split_once('\t'));
    Ok(commits.map(|(name, subject)| (name.to_owned(), subject.to_owned())).collect())
}

#[expect(clippy::disallowed_methods, reason = "the test runs git itself")]
fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let ran = std::process::Command::new("git").arg("-C").arg(root).args(arguments).output();
    let output = ran.map_err(|error| format!("git does not start: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
