//! Suggestions for misspelled words.

/// The end of an error about an unknown word: a suggestion, or nothing.
pub fn did_you_mean(near: Option<&str>) -> String {
    near.map(|word| format!(" (did you mean `{word}`?)")).unwrap_or_default()
}

/// The most similar word, if one is similar enough (Jaro-Winkler above 0.75 separates a typing error from another word).
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .filter(|candidate| *candidate != word)
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}
