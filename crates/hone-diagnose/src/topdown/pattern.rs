//! Patterns, compiled at their first use.

use std::sync::LazyLock;

use regex::Regex;

pub(super) type Pattern = LazyLock<Regex>;

/// The pattern of a constant text.
pub(super) fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|_| unreachable!("the pattern is a constant"))
}
