//! What terminals and mails add to a text, taken away before any reader sees it. Lines keep their numbers.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

/// Colours and other sequences of a terminal: `ESC [ 31 m`, also as `cat -v` prints the escape.
static SEQUENCES: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:\x1b|\^\[)\[[0-9;:?]*[ -/]*[@-~]"));

/// Marks of quoted lines: `> >> `.
static QUOTES: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^[ \t]*>(?:[ \t]?>)*"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|_| unreachable!("the pattern is a constant"))
}

/// The text as the tool printed it.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let text = SEQUENCES.replace_all(text, "");
    match QUOTES.replace_all(&text, "") {
        Cow::Borrowed(_) => text,
        Cow::Owned(unquoted) => Cow::Owned(unquoted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_quotes_go_and_lines_stay() {
        assert_eq!(clean("#  \u{1b}[31m 32.5\u{1b}[m %\n\u{1b}[0;1m2\u{1b}[K\n"), "#   32.5 %\n2\n");
        assert_eq!(clean("^[[31m26.0%^[[m"), "26.0%");
        assert_eq!(clean("> > 1\n>>\n>> 2\n a > b\n"), " 1\n\n 2\n a > b\n");
        assert!(matches!(clean("plain # 1.0 %"), Cow::Borrowed(_)));
    }
}
