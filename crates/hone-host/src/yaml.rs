//! YAML as a tree with line numbers. A library parses it; this code limits the memory that a text can take.

use std::collections::BTreeMap;

use saphyr_parser::{Event, Parser};

/// Nodes of all documents, aliases included.
const MOST_NODES: usize = 100_000;
/// No real text is nested deeper.
const DEEPEST: usize = 64;

/// A node and the line of its first character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The line, from 1.
    pub line: usize,
    /// Contents of the node.
    pub value: Value,
}

/// Contents of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A scalar, with any YAML type.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping. Keys that are not plain texts are left out.
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The nodes of a sequence; empty for other nodes.
    pub fn list(&self) -> &[Self] {
        match &self.value {
            Value::List(nodes) => nodes,
            _ => &[],
        }
    }

    /// Keys and values of a mapping; empty for other nodes.
    pub fn entries(&self) -> &[(String, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entries().iter().find(|(name, _)| name == key).map(|(_, node)| node)
    }

    /// The last line of the node and its children.
    pub fn last_line(&self) -> usize {
        match &self.value {
            Value::Text(text) => self.line + text.trim_end().matches('\n').count(),
            Value::List(nodes) => nodes.iter().map(Self::last_line).max().unwrap_or(self.line),
            Value::Map(entries) => {
                entries.iter().map(|(_, node)| node.last_line()).max().unwrap_or(self.line)
            }
        }
    }

    fn size(&self) -> usize {
        let below = match &self.value {
            Value::Text(_) => 0,
            Value::List(nodes) => nodes.iter().map(Self::size).sum(),
            Value::Map(entries) => entries.iter().map(|(_, node)| node.size()).sum(),
        };
        1 + below
    }
}

/// Open nodes during parsing.
enum Open {
    List(Vec<Node>),
    Map(Vec<(String, Node)>, Option<Option<String>>),
}

/// The documents of a text.
///
/// # Errors
/// Returns an error in words, with the line, for invalid YAML, and for texts deeper or longer than any settings file.
pub fn documents(text: &str) -> Result<Vec<Node>, String> {
    let mut builder = Builder::default();
    // YAML ends a line at a carriage return alone, and editors don't. With a space in its place, lines have the numbers that editors show.
    let text = text.replace("\r\n", "\n").replace('\r', " ");
    for event in Parser::new_from_str(&text) {
        let (event, span) =
            event.map_err(|error| format!("line {}: {}", error.marker().line(), error.info()))?;
        builder.take(event, span.start.line())?;
    }
    Ok(builder.documents)
}

#[derive(Default)]
struct Builder {
    documents: Vec<Node>,
    open: Vec<(Open, usize, usize)>,
    named: BTreeMap<usize, Node>,
    nodes: usize,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, line: usize) -> Result<(), String> {
        match event {
            Event::Scalar(text, _, anchor, _) => {
                self.put(Node { line, value: Value::Text(text.into_owned()) }, anchor)
            }
            Event::Alias(anchor) => {
                let node = self.named.get(&anchor).cloned();
                self.put(node.unwrap_or(Node { line, value: Value::Text(String::new()) }), 0)
            }
            Event::SequenceStart(anchor, _) => self.open(Open::List(Vec::new()), line, anchor),
            Event::MappingStart(anchor, _) => self.open(Open::Map(Vec::new(), None), line, anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let Some((open, line, anchor)) = self.open.pop() else { return Ok(()) };
                let value = match open {
                    Open::List(nodes) => Value::List(nodes),
                    Open::Map(entries, _) => Value::Map(entries),
                };
                self.nodes = self.nodes.saturating_sub(1);
                self.put(Node { line, value }, anchor)
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open, line: usize, anchor: usize) -> Result<(), String> {
        if self.open.len() >= DEEPEST {
            return Err(format!("line {line}: more than {DEEPEST} levels"));
        }
        self.nodes += 1;
        self.open.push((open, line, anchor));
        Ok(())
    }

    fn put(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        // A closed node was counted while it grew; an alias counts with all its nodes.
        self.nodes += if anchor == 0 && matches!(node.value, Value::Text(_)) { 1 } else { node.size() };
        if self.nodes > MOST_NODES {
            return Err(format!("line {}: more than {MOST_NODES} values", node.line));
        }
        if anchor != 0 {
            self.named.insert(anchor, node.clone());
        }
        match self.open.last_mut() {
            None => self.documents.push(node),
            Some((Open::List(nodes), ..)) => nodes.push(node),
            Some((Open::Map(entries, key), ..)) => match key.take() {
                None => *key = Some(node.text().map(str::to_owned)),
                Some(name) => entries.extend(name.map(|name| (name, node))),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tree_has_lines() {
        let text = "---\n# a\nvars: &v\n  vm.swappiness: 1\ntasks:\n  - shell: |\n      echo a\n      echo b\n  - {x: [1, \"2\"]}\nmore: *v\n---\nlast\n";
        let found = documents(text).unwrap();
        assert_eq!(found.len(), 2);
        let value = found[0].get("vars").unwrap().get("vm.swappiness").unwrap();
        assert_eq!((value.line, value.text()), (4, Some("1")));
        let shell = found[0].get("tasks").unwrap().list()[0].get("shell").unwrap();
        assert_eq!((shell.line, shell.text()), (7, Some("echo a\necho b\n")));
        assert_eq!(found[0].get("tasks").unwrap().list()[1].get("x").unwrap().list()[1].text(), Some("2"));
        assert_eq!(found[0].get("more").unwrap().get("vm.swappiness"), Some(value));
        assert!(documents("a: [1\nb: 2\n").unwrap_err().starts_with("line "));
        let found = documents("a: \"x\ry\"\r\nb: |\r\n  c\rd\r\ne: 1\n").unwrap();
        let line = |name: &str| found[0].get(name).unwrap().line;
        assert_eq!((line("b"), line("e")), (3, 4), "a carriage return alone ends no line");
    }

    #[test]
    fn what_grows_without_end_is_refused() {
        let laughs = (1..30).fold("a0: &a0 [x, x, x]\n".to_owned(), |text, n| {
            let before = format!("*a{}", n - 1);
            text + &format!("a{n}: &a{n} [{before}, {before}, {before}, {before}]\n")
        });
        assert!(documents(&laughs).unwrap_err().contains("more than"));
        assert!(documents(&"[".repeat(5000)).is_err());
        assert!(documents(&"- ".repeat(5000)).is_err());
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC{0,200}", like in "[a-c:\\-\\[\\]{}&*|>\"' \n]{0,80}") {
            let _ = (documents(&text), documents(&like));
        }
    }
}
