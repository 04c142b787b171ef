//! Loops in Go source: whether a line runs repeatedly. Pure, and only a tokenizer: it knows comments, texts and braces. A loop is what
//! begins with `for` and opens a brace at the end of a line, as gofmt writes it.

/// The line of the innermost `for` around `line`, among those that begin at `from_line` or later: with the first line of the function,
/// loops around a function literal do not count for its body.
///
/// The header of a loop counts as inside of it, unless it has `range`, which is evaluated once.
pub(super) fn loop_around(source: &str, from_line: i64, line: i64) -> Option<i64> {
    let mut scan = Scan { rest: source, line: 1, open: Vec::new(), header: None };
    let mut found = None;
    while scan.line <= line {
        let Some(token) = scan.token() else { break };
        let closes = matches!(token, Token::Close);
        match token {
            Token::Word("for") => scan.header = Some(Header { line: scan.line, range: false }),
            Token::Word("range") => {
                if let Some(header) = &mut scan.header {
                    header.range = true;
                }
            }
            Token::Open => scan.open(),
            Token::Close => drop(scan.open.pop()),
            Token::Word(_) | Token::Other => {}
        }
        // The last word of the line, except for closing braces: a header with `range` is recognised only after that word.
        if scan.line == line && !closes {
            found = scan.innermost(from_line, line);
        }
    }
    found
}

struct Header {
    line: i64,
    range: bool,
}

enum Token<'a> {
    Word(&'a str),
    Open,
    Close,
    Other,
}

struct Scan<'a> {
    rest: &'a str,
    line: i64,
    /// For each open brace the line of its `for`, if it has one.
    open: Vec<Option<Header>>,
    /// A `for` whose brace has not come yet.
    header: Option<Header>,
}

impl<'a> Scan<'a> {
    fn innermost(&self, from_line: i64, line: i64) -> Option<i64> {
        let counts = |header: &&Header| header.line >= from_line && !(header.range && header.line == line);
        let pending = self.header.as_ref().filter(counts).map(|header| header.line);
        pending.or_else(|| self.open.iter().rev().flatten().find(counts).map(|header| header.line))
    }

    /// A brace with more text after it on its line belongs to a value in the loop's header, or to another statement.
    fn open(&mut self) {
        let behind = self.rest.trim_start_matches([' ', '\t', '\r']);
        let ends_line = behind.is_empty() || behind.starts_with('\n') || behind.starts_with("//");
        self.open.push(if ends_line { self.header.take() } else { None });
    }

    fn token(&mut self) -> Option<Token<'a>> {
        let first = self.rest.chars().next()?;
        if first.is_alphabetic() || first == '_' {
            let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
            let word = &self.rest[..end];
            self.rest = &self.rest[end..];
            return Some(Token::Word(word));
        }
        let length = match first {
            '"' => quoted(self.rest, '"'),
            '\'' => quoted(self.rest, '\''),
            '`' => self.rest[1..].find('`').map_or(self.rest.len(), |at| at + 2),
            '/' if self.rest.starts_with("//") => self.rest.find('\n').unwrap_or(self.rest.len()),
            '/' if self.rest.starts_with("/*") => self.rest.find("*/").map_or(self.rest.len(), |at| at + 2),
            _ => first.len_utf8(),
        };
        let (token, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.line += i64::try_from(token.matches('\n').count()).unwrap_or(0);
        Some(match first {
            '{' => Token::Open,
            '}' => Token::Close,
            _ => Token::Other,
        })
    }
}

/// The length of a text or character with its quotes; at most its line.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return at,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOURCE: &str = r#"package main

func run(batch []rec) { // for {
	s := "for {" + `for {
	` + string('{')
	before(s)
	for i, r := range list(batch) {
		inside(r)
		if i%64 == 0 {
			size(batch)
		}
		go func() {
			alone()
		}()
	}
	for i := 0; i < size(batch); i++ {
		/* for { */ }
	after()
	for _, x := range []int{1, 2} {
		last(x)
	}
	for {
		for x := range 3 { // within
			deep(x)
		}
	}
}
"#;

    #[test]
    fn a_line_is_in_a_loop_or_not() {
        let line_of = |text: &str| {
            let at = SOURCE.find(text).unwrap();
            i64::try_from(SOURCE[..at].matches('\n').count()).unwrap() + 1
        };
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(loop_around(SOURCE, 3, line_of(text)), expected.map(line_of), "{text}");
        };
        check("before", None);
        check("for i, r", None);
        check("inside", Some("for i, r"));
        check("\t\t\tsize", Some("for i, r"));
        check("alone", Some("for i, r"));
        check("for i := 0", Some("for i := 0"));
        check("after", None);
        check("last", Some("for _, x"));
        check("deep", Some("for x := range 3"));
        let literal = line_of("go func()");
        assert_eq!(
            loop_around(SOURCE, literal, line_of("alone")),
            None,
            "the literal is a function of its own"
        );
        assert_eq!(loop_around(SOURCE, 3, 999), None);
        assert_eq!(loop_around("", 1, 1), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(for|range| |\n|\\{|\\}|\"|'|`|\\\\|/\\*|\\*/|//|é|[a-z]){0,60}", line in 0..20_i64) {
            loop_around(&text, 1, line);
        }
    }
}
