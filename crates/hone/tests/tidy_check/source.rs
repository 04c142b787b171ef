//! Rust source as tokens without comments and strings, with or without test code.

use std::ops::Range;

/// One source file. `code` has blanks for comments and strings, so its offsets are those of `text`.
pub(crate) struct Source {
    text: String,
    code: String,
    all: Vec<Range<usize>>,
    production: Vec<Range<usize>>,
    line_starts: Vec<usize>,
    /// Where the items of tests and fuzzers stand in the text.
    tests: Vec<Range<usize>>,
    test_lines: usize,
}

/// A run of tokens. A word beyond its end is empty, so odd source can't cause a panic.
#[derive(Clone, Copy)]
pub(crate) struct Tokens<'a> {
    code: &'a str,
    spans: &'a [Range<usize>],
}

impl Source {
    pub(crate) fn new(text: String) -> Self {
        let code = masked(&text);
        let all = spans(&code);
        let tokens = Tokens { code: &code, spans: &all };
        let tests = test_items(&text, tokens);
        let line_starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut source = Self {
            production: outside(&all, &tests),
            text,
            code,
            all,
            line_starts,
            tests: Vec::new(),
            test_lines: 0,
        };
        source.tests = tests.iter().map(|item| source.place_of(item)).collect();
        source.test_lines = tests.into_iter().map(|item| source.lines_of(item)).sum();
        source
    }

    /// Every token, including those of tests.
    pub(crate) fn all(&self) -> Tokens<'_> {
        Tokens { code: &self.code, spans: &self.all }
    }

    /// The tokens that the product is built from.
    pub(crate) fn production(&self) -> Tokens<'_> {
        Tokens { code: &self.code, spans: &self.production }
    }

    pub(crate) fn lines(&self) -> usize {
        self.text.lines().count()
    }

    pub(crate) fn production_lines(&self) -> usize {
        self.lines().saturating_sub(self.test_lines)
    }

    /// The line that holds this offset, from 1.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// The original text between two offsets, such as the content of a string.
    pub(crate) fn original(&self, range: Range<usize>) -> &str {
        self.text.get(range).unwrap_or_default()
    }

    /// The string constants that the product is built from, each with the line on which it begins. Escapes and line breaks are blanks.
    pub(crate) fn texts(&self) -> Vec<(usize, String)> {
        let is_product = |place: &Range<usize>| !self.tests.iter().any(|test| test.contains(&place.start));
        let constants = hidden(&self.text).into_iter().filter(is_product);
        constants
            .filter_map(|place| Some((self.line(place.start), content(self.text.get(place)?)?)))
            .collect()
    }

    /// Where a range of tokens stands in the text.
    fn place_of(&self, item: &Range<usize>) -> Range<usize> {
        let begin = self.all.get(item.start).map_or(self.text.len(), |first| first.start);
        let end = self.all.get(item.end.wrapping_sub(1)).map_or(begin, |last| last.end);
        begin..end
    }

    fn lines_of(&self, item: Range<usize>) -> usize {
        let (Some(first), Some(last)) = (self.all.get(item.start), self.all.get(item.end.wrapping_sub(1)))
        else {
            return 0;
        };
        (self.line(last.start) + 1).saturating_sub(self.line(first.start))
    }
}

impl<'a> Tokens<'a> {
    pub(crate) fn len(self) -> usize {
        self.spans.len()
    }

    pub(crate) fn word(self, index: usize) -> &'a str {
        self.spans.get(index).and_then(|span| self.code.get(span.clone())).unwrap_or_default()
    }

    /// The word before this one.
    pub(crate) fn before(self, index: usize) -> &'a str {
        index.checked_sub(1).map_or("", |before| self.word(before))
    }

    /// Where the token begins and ends in the text.
    pub(crate) fn span(self, index: usize) -> Range<usize> {
        self.spans.get(index).cloned().unwrap_or(self.code.len()..self.code.len())
    }

    pub(crate) fn is_name(self, index: usize) -> bool {
        self.word(index).bytes().next().is_some_and(|byte| is_name_byte(byte) && !byte.is_ascii_digit())
    }

    /// The index after the bracket that closes the one at `open`.
    pub(crate) fn closed(self, open: usize) -> usize {
        let mut depth = 0_usize;
        for index in open..self.len() {
            match self.word(index) {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return index + 1;
            }
        }
        self.len()
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

/// The text with blanks for comments, strings and characters.
fn masked(text: &str) -> String {
    let mut code = text.as_bytes().to_vec();
    for place in hidden(text) {
        let hidden = code.get_mut(place).unwrap_or_default();
        hidden.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
    }
    String::from_utf8(code).unwrap_or_default()
}

/// Where comments, strings and characters stand.
fn hidden(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let end = hidden_end(bytes, at).min(bytes.len());
        if end > at {
            found.push(at..end);
        }
        at = if end > at { end } else { word_end(bytes, at) };
    }
    found
}

/// The words of a string constant. `None` for a comment or a character.
fn content(constant: &str) -> Option<String> {
    let (prefix, rest) = constant.split_once('"').filter(|(prefix, _)| !prefix.contains(['/', '\'']))?;
    let body = rest.trim_end_matches('#').strip_suffix('"').unwrap_or(rest);
    let is_raw = prefix.contains('r');
    let mut text = String::new();
    let mut characters = body.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if !is_raw => {
                characters.next();
                text.push(' ');
            }
            other => text.push(other),
        }
    }
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The end of the name or the mark at `at`. It must skip whole names: the `r` of `for` begins no raw string.
fn word_end(bytes: &[u8], at: usize) -> usize {
    let name = bytes[at..].iter().take_while(|byte| is_name_byte(**byte)).count();
    at + name.max(1)
}

/// The end of the comment, the string or the character at `at`; `at` itself where none begins.
fn hidden_end(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let byte = |index: usize| rest.get(index).copied().unwrap_or_default();
    match (byte(0), byte(1)) {
        (b'/', b'/') => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
        (b'/', b'*') => at + block_comment(rest),
        (b'"', _) => at + string(rest),
        (b'b' | b'c', b'"') => at + 1 + string(&rest[1..]),
        (b'r', b'"' | b'#') => at + raw_string(rest, 1),
        (b'b' | b'c', b'r') => at + raw_string(rest, 2),
        (b'\'', _) => at + character(rest),
        (b'b', b'\'') => at + 1 + character(&rest[1..]),
        _ => at,
    }
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        let pair = &rest[at..rest.len().min(at + 2)];
        depth = match pair {
            b"/*" => depth + 1,
            b"*/" => depth - 1,
            _ => depth,
        };
        at += if matches!(pair, b"/*" | b"*/") { 2 } else { 1 };
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != b'"' {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The length of a raw string after this many letters. 0 for any other name.
fn raw_string(rest: &[u8], letters: usize) -> usize {
    let hashes = rest.iter().skip(letters).take_while(|byte| **byte == b'#').count();
    if rest.get(letters + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [b"\"".as_slice(), &b"#".repeat(hashes)].concat();
    let body = letters + hashes + 1;
    let length = rest[body..].windows(end.len()).position(|window| window == end);
    length.map_or(rest.len(), |length| body + length + end.len())
}

/// The length of a character. 0 where the quote begins a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        let end = rest.iter().skip(3).position(|byte| *byte == b'\'');
        return end.map_or(rest.len(), |end| end + 4);
    }
    let length = match rest.get(1) {
        Some(0xf0..) => 4,
        Some(0xe0..) => 3,
        Some(0xc0..) => 2,
        _ => 1,
    };
    if rest.get(1 + length) == Some(&b'\'') { length + 2 } else { 0 }
}

fn spans(code: &str) -> Vec<Range<usize>> {
    let bytes = code.as_bytes();
    let mut spans = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at + raw_name_mark(&bytes[at..]);
        let joined = matches!(bytes.get(start..start + 2), Some(b"::" | b"->" | b"=>"));
        at = if joined { start + 2 } else { word_end(bytes, start) };
        if bytes.get(start).is_some_and(|byte| !byte.is_ascii_whitespace()) {
            spans.push(start..at.min(bytes.len()));
        }
    }
    spans
}

/// The length of the `r#` before a raw name.
fn raw_name_mark(rest: &[u8]) -> usize {
    let is_raw = rest.starts_with(b"r#") && rest.get(2).is_some_and(|byte| is_name_byte(*byte));
    if is_raw { 2 } else { 0 }
}

/// The token ranges of the items that only tests and fuzzers see.
fn test_items(text: &str, tokens: Tokens) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let inner = tokens.word(at + 1) == "!";
        let open = if inner { at + 2 } else { at + 1 };
        if tokens.word(at) != "#" || tokens.word(open) != "[" {
            at += 1;
            continue;
        }
        let end = tokens.closed(open);
        let attribute = text.get(tokens.span(open).end..tokens.span(end - 1).start).unwrap_or_default();
        let is_test = is_test_only(attribute);
        let after = match (is_test, inner) {
            (false, _) => end,
            (true, true) => tokens.len(),
            (true, false) => item_end(tokens, end),
        };
        if is_test {
            items.push(at..after);
        }
        at = after;
    }
    items
}

/// True for the attributes of test code. The feature `fuzzing` is never part of a release.
fn is_test_only(attribute: &str) -> bool {
    let compact: String = attribute.split_whitespace().collect();
    let whole = ["test", "cfg(test)", "cfg(feature=\"fuzzing\")", "cfg(any(test,feature=\"fuzzing\"))"];
    whole.contains(&compact.as_str()) || compact.starts_with("cfg(all(test,")
}

/// How an item ends.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    Semicolon,
    Block,
    /// A field, a variant, an arm or a statement.
    Comma,
}

/// The index after the item whose attributes, or whose first word, stand at `from`.
fn item_end(tokens: Tokens, from: usize) -> usize {
    let mut at = from;
    while tokens.word(at) == "#" && tokens.word(at + 1) == "[" {
        at = tokens.closed(at + 1);
    }
    let ending = ending(tokens, at);
    let mut angles = 0_i32;
    while at < tokens.len() {
        match tokens.word(at) {
            "{" if ending != Ending::Semicolon => {
                let end = tokens.closed(at);
                return if ending == Ending::Comma && tokens.word(end) == "," { end + 1 } else { end };
            }
            "(" | "[" | "{" => {
                at = tokens.closed(at);
                continue;
            }
            ")" | "]" | "}" => return at,
            ";" => return at + 1,
            "," if ending == Ending::Comma && angles <= 0 => return at + 1,
            "<" => angles += 1,
            ">" => angles -= 1,
            _ => {}
        }
        at += 1;
    }
    at
}

fn ending(tokens: Tokens, from: usize) -> Ending {
    let mut at = from;
    if tokens.word(at) == "pub" {
        at = if tokens.word(at + 1) == "(" { tokens.closed(at + 1) } else { at + 1 };
    }
    match (tokens.word(at), tokens.word(at + 1)) {
        ("const", "fn" | "unsafe" | "async" | "extern") => Ending::Block,
        ("use" | "const" | "static" | "type" | "let", _) | ("extern", "crate") => Ending::Semicolon,
        ("fn" | "mod" | "impl" | "struct" | "enum" | "trait" | "union", _)
        | ("unsafe" | "async" | "extern" | "macro_rules", _) => Ending::Block,
        _ => Ending::Comma,
    }
}

/// The spans in none of the token ranges, which are in order.
fn outside(spans: &[Range<usize>], ranges: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut kept = Vec::new();
    let mut from = 0;
    for range in ranges {
        kept.extend_from_slice(spans.get(from..range.start).unwrap_or_default());
        from = range.end;
    }
    kept.extend_from_slice(spans.get(from..).unwrap_or_default());
    kept
}
