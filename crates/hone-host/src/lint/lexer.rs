//! Splits a shell's text into words and operators, without expansion.

use super::shell::{Step, parse};

/// A part of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Text; quoted text is not a pattern.
    Text { text: String, quoted: bool },
    /// `$NAME` or `${NAME...}`, with the text after the name in braces.
    Variable { name: String, edit: String },
    /// `$(...)`.
    Output(Vec<Step>),
    /// A part that is known only at run time.
    Unknown,
}

pub(super) type Word = Vec<Part>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Word(Word),
    /// Text after `<<WORD`, with its first line, or after `<<<`.
    Input(Word, Option<usize>),
    Operator(&'static str),
    End,
}

/// Longer ones first. Those that begin with a digit belong to another stream than the output.
const OPERATORS: [&str; 22] = [
    "&>>", "2>>", "&&", "||", ";;", "&>", "2>&1", "1>&2", "2>", "1>", ">>", ">&", ">|", "<&", ";", "|", "&",
    "(", ")", ">", "<", "\n",
];

/// Texts in texts are not nested deeper.
pub(super) const DEEPEST: usize = 12;

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<(usize, Token)>,
    /// Place of a `<<` body, its end, whether it is literal, and whether tabs are removed.
    awaited: Vec<(usize, String, bool, bool)>,
    depth: usize,
}

/// The tokens of a text, with their lines.
pub(super) fn tokens(text: &str, first_line: usize, depth: usize) -> Vec<(usize, Token)> {
    let mut lexer = Lexer { rest: text, line: first_line, tokens: Vec::new(), awaited: Vec::new(), depth };
    while lexer.step() {}
    lexer.tokens
}

impl Lexer<'_> {
    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn takes(&mut self, text: &str) -> bool {
        if !self.rest.starts_with(text) {
            return false;
        }
        for _ in text.chars() {
            self.take();
        }
        true
    }

    fn push(&mut self, line: usize, token: Token) {
        self.tokens.push((line, token));
    }

    fn step(&mut self) -> bool {
        while self.takes(" ") || self.takes("\t") || self.takes("\r") || self.takes("\\\n") {}
        if self.rest.starts_with('#') {
            while !self.rest.is_empty() && !self.rest.starts_with('\n') {
                self.take();
            }
        }
        let line = self.line;
        if self.rest.is_empty() {
            return false;
        }
        if self.takes("<<<") {
            self.blanks();
            let word = self.word();
            self.push(line, Token::Input(word, None));
            return true;
        }
        if self.takes("<<") {
            self.here(line);
            return true;
        }
        if self.takes("<(") || self.takes(">(") {
            self.balanced();
            self.push(line, Token::Word(vec![Part::Unknown]));
            return true;
        }
        let operator = OPERATORS.iter().find(|operator| self.rest.starts_with(**operator)).copied();
        match operator {
            Some("\n") => {
                self.take();
                self.push(line, Token::End);
                self.bodies();
            }
            Some(operator) => {
                self.takes(operator);
                self.push(line, Token::Operator(operator));
            }
            None => {
                let word = self.word();
                self.push(line, Token::Word(word));
            }
        }
        true
    }

    fn blanks(&mut self) {
        while self.takes(" ") || self.takes("\t") {}
    }

    /// `<<-'EOF'`: its body begins on the next line.
    fn here(&mut self, line: usize) {
        let tabs = self.takes("-");
        self.blanks();
        let is_literal = self.rest.starts_with(['\'', '"', '\\']);
        let word = self.word();
        let end = word
            .iter()
            .map(|part| match part {
                Part::Text { text, .. } => text.as_str(),
                _ => "",
            })
            .collect();
        self.awaited.push((self.tokens.len(), end, is_literal, tabs));
        self.push(line, Token::Input(Vec::new(), None));
    }

    fn bodies(&mut self) {
        for (at, end, is_literal, tabs) in std::mem::take(&mut self.awaited) {
            let (mut body, begins) = (String::new(), self.line);
            while !self.rest.is_empty() {
                let line = self.rest.split('\n').next().unwrap_or_default();
                let plain = if tabs { line.trim_start_matches('\t') } else { line };
                let is_end = plain == end;
                if !is_end {
                    body += plain;
                    body.push('\n');
                }
                self.rest = self.rest.get(line.len()..).unwrap_or_default();
                self.take();
                if is_end {
                    break;
                }
            }
            let word = if is_literal { vec![quoted(body)] } else { inside_quotes(&body, begins, self.depth) };
            if let Some((_, token)) = self.tokens.get_mut(at) {
                *token = Token::Input(word, Some(begins));
            }
        }
    }

    fn word(&mut self) -> Word {
        let mut word = Word::new();
        while let Some(c) = self.rest.chars().next() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '|' | '&' | '<' | '>' | '(' | ')' => break,
                '\\' => {
                    self.take();
                    let escaped = self.take().filter(|c| *c != '\n');
                    word.extend(escaped.map(|c| quoted(c.to_string())));
                }
                '\'' => {
                    self.take();
                    let text = self.until('\'');
                    word.push(quoted(text));
                }
                '"' => {
                    self.take();
                    let line = self.line;
                    let text = self.until('"');
                    word.extend(inside_quotes(&text, line, self.depth));
                }
                '$' | '`' => word.push(self.dollar()),
                c => {
                    self.take();
                    match word.last_mut() {
                        Some(Part::Text { text, quoted: false }) => text.push(c),
                        _ => word.push(Part::Text { text: c.to_string(), quoted: false }),
                    }
                }
            }
        }
        if word.is_empty() {
            // An unknown operator would otherwise stop the reading for ever.
            self.take();
        }
        word
    }

    /// The text up to a quote. In double quotes, another quote may follow a backslash or be in `$(...)`.
    fn until(&mut self, end: char) -> String {
        let (mut text, mut parentheses) = (String::new(), 0_usize);
        while let Some(c) = self.take() {
            if c == end && parentheses == 0 {
                break;
            }
            text.push(c);
            if end == '"' {
                match c {
                    '\\' => text.extend(self.take()),
                    '(' if text.ends_with("$(") || parentheses > 0 => parentheses += 1,
                    ')' => parentheses = parentheses.saturating_sub(1),
                    _ => {}
                }
            }
        }
        text
    }

    fn dollar(&mut self) -> Part {
        let line = self.line;
        if self.takes("`") {
            let inside = self.until('`');
            return self.output(&inside, line);
        }
        self.take();
        if self.takes("((") {
            while !self.rest.is_empty() && !self.takes("))") {
                self.take();
            }
            return Part::Unknown;
        }
        if self.takes("(") {
            let inside = self.balanced();
            return self.output(&inside, line);
        }
        if self.takes("{") {
            let inside = self.until('}');
            let end = inside.find(|c: char| !is_name(c)).unwrap_or(inside.len());
            let (name, edit) = inside.split_at(end);
            return Part::Variable { name: name.to_owned(), edit: edit.to_owned() };
        }
        let mut name = String::new();
        while let Some(c) = self.rest.chars().next().filter(|c| is_name(*c)) {
            name.push(c);
            self.take();
            if name.len() == 1 && c.is_ascii_digit() {
                break;
            }
        }
        if name.is_empty() {
            // `$?`, `$@`: known at run time. A lone `$` is text.
            return if self.rest.starts_with(['?', '@', '*', '#', '$', '!']) {
                self.take();
                Part::Unknown
            } else {
                quoted("$".to_owned())
            };
        }
        Part::Variable { name, edit: String::new() }
    }

    fn balanced(&mut self) -> String {
        let (mut text, mut open) = (String::new(), 1_usize);
        while let Some(c) = self.take() {
            match c {
                '(' => open += 1,
                ')' => open -= 1,
                '\'' | '"' => {
                    text.push(c);
                    text += &self.until(c);
                }
                _ => {}
            }
            if open == 0 {
                break;
            }
            text.push(c);
        }
        text
    }

    fn output(&self, inside: &str, line: usize) -> Part {
        if self.depth >= DEEPEST { Part::Unknown } else { Part::Output(parse(inside, line, self.depth + 1)) }
    }
}

const fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

const fn quoted(text: String) -> Part {
    Part::Text { text, quoted: true }
}

/// The parts of a text in double quotes, or of a body with an unquoted end.
fn inside_quotes(text: &str, line: usize, depth: usize) -> Word {
    let mut lexer = Lexer { rest: text, line, tokens: Vec::new(), awaited: Vec::new(), depth };
    let (mut word, mut plain) = (Word::new(), String::new());
    while let Some(c) = lexer.rest.chars().next() {
        match c {
            '$' | '`' => {
                word.push(quoted(std::mem::take(&mut plain)));
                let part = lexer.dollar();
                word.push(part);
            }
            '\\' => {
                lexer.take();
                match lexer.take() {
                    Some(c @ ('$' | '`' | '"' | '\\')) => plain.push(c),
                    Some('\n') | None => {}
                    Some(c) => plain.extend(['\\', c]),
                }
            }
            c => {
                lexer.take();
                plain.push(c);
            }
        }
    }
    word.push(quoted(plain));
    word
}
