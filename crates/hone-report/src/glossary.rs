//! The text of a page: code between backticks, and terms with a link on the first use of each and their definitions at the end.

use crate::tree::{Element, Markup, Node, el};

/// The one source of all definitions, which is also a page of the documentation.
const GLOSSARY: &str = include_str!("../../../docs/glossary.md");

/// A term, the spellings that stand for it, and its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Term {
    name: &'static str,
    spellings: Vec<&'static str>,
    definition: &'static str,
}

/// All terms of the glossary, without the old words.
fn terms() -> Vec<Term> {
    let current = GLOSSARY.split("## Old words").next().unwrap_or_default();
    current.lines().filter_map(term).collect()
}

/// Parses a line `- **name, name (name)**: definition`.
fn term(line: &'static str) -> Option<Term> {
    let (name, definition) = line.strip_prefix("- **")?.split_once("**: ")?;
    let parts = name.split([',', '(', ')']).map(str::trim).filter(|part| !part.is_empty());
    Some(Term { name, spellings: parts.collect(), definition })
}

/// Sets code between backticks, links the first use of each term in the content, and adds the list of the terms that were used.
pub(crate) fn explained(main: Element) -> Element {
    let mut linker = Linker { open: terms(), used: Vec::new() };
    let main = linker.element(main);
    let used = linker.used;
    if used.is_empty() { main } else { main.child(list(&used)) }
}

fn list(used: &[Term]) -> Element {
    let item = |term: &Term| {
        [el("dt").attr("id", id(term)).text(term.name), el("dd").text(&term.definition.replace('`', ""))]
    };
    let heading = el("h2").attr("id", "glossary-heading").text("Terms on this page");
    let fold = el("details")
        .class("fold")
        .child(el("summary").child(heading))
        .child(el("dl").children(used.iter().flat_map(item)));
    el("section")
        .attr("id", "glossary")
        .attr("aria-labelledby", "glossary-heading")
        .class("only-page")
        .child(fold)
}

fn id(term: &Term) -> String {
    let letters = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    format!("term-{}", term.name.chars().map(letters).collect::<String>().trim_matches('-'))
}

struct Linker {
    /// Terms that did not occur yet.
    open: Vec<Term>,
    used: Vec<Term>,
}

impl Linker {
    fn element(&mut self, element: Element) -> Element {
        let is_skipped = matches!(
            element.tag(),
            "a" | "code"
                | "pre"
                | "h1"
                | "h2"
                | "h3"
                | "summary"
                | "svg"
                | "button"
                | "script"
                | "caption"
                | "thead"
        );
        if is_skipped { element } else { element.map_nodes(|node| self.node(node)) }
    }

    fn node(&mut self, node: Node) -> Markup {
        match node {
            Node::Element(element) => self.element(element).into(),
            Node::Text(text) => self.text(&text),
            html => html.into(),
        }
    }

    /// Text with its code between backticks. A backtick without a second one stays.
    fn text(&mut self, text: &str) -> Markup {
        let parts = text.split_once('`').and_then(|(before, rest)| Some((before, rest.split_once('`')?)));
        let Some((before, (code, after))) = parts.filter(|(_, (code, _))| !code.is_empty()) else {
            return self.linked(text);
        };
        self.linked(before).with(el("code").text(code)).with(self.text(after))
    }

    /// Text with links on those terms that occur in it for the first time in the page.
    fn linked(&mut self, text: &str) -> Markup {
        let Some((number, start, end)) = self.first_in(text) else { return Markup::text(text) };
        let term = self.open.swap_remove(number);
        let link = el("a")
            .class("term")
            .attr("href", format!("#{}", id(&term)))
            .attr("title", term.definition.replace('`', ""))
            .text(&text[start..end]);
        self.used.push(term);
        let before = Markup::text(&text[..start]);
        before.with(link).with(self.linked(&text[end..]))
    }

    /// The term that occurs first: its number among the open ones, and its place.
    fn first_in(&self, text: &str) -> Option<(usize, usize, usize)> {
        let places = self.open.iter().enumerate().flat_map(|(number, term)| {
            term.spellings.iter().filter_map(move |spelling| {
                let start = word_in(text, spelling)?;
                Some((number, start, start + spelling.len()))
            })
        });
        // The longer of two spellings at one place says more.
        places.min_by_key(|(_, start, end)| (*start, usize::MAX - end))
    }
}

/// Byte offset of a whole word, in any case of its first letter.
fn word_in(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '=');
    let mut from = 0;
    while let Some(found) = text.get(from..)?.find(word.get(1..)?) {
        let rest = from + found;
        let first = text[..rest].chars().next_back();
        let start = rest - first.map_or(0, char::len_utf8);
        let is_same = first
            .is_some_and(|first| word.chars().next().is_some_and(|own| first.eq_ignore_ascii_case(&own)));
        let before = text[..start].chars().next_back();
        let after = text[rest + word.len() - 1..].chars().next();
        if is_same && !before.is_some_and(is_part) && !after.is_some_and(is_part) {
            return Some(start);
        }
        from = rest + text[rest..].chars().next().map_or(1, char::len_utf8);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_glossary_is_a_term() {
        let lines = GLOSSARY.split("## Old words").next().unwrap().lines();
        let listed = lines.filter(|line| line.starts_with("- ")).count();
        assert_eq!(terms().len(), listed);
        assert!(listed > 40, "{listed}");
        let all: Vec<String> = terms().iter().map(id).collect();
        let unique: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!(unique.len(), all.len());
    }

    #[test]
    fn the_first_use_of_a_term_is_linked_and_its_definition_listed() {
        let main = el("main")
            .child(el("p").text("Guard metric p99, another guard metric."))
            .child(el("p").child(el("code").text("linger")).text(" lingering"));
        let html = Markup::from(explained(main)).into_string();
        assert!(html.contains("<a class=\"term\" href=\"#term-guard-metric\" title=\"A metric that must not get worse.\">Guard metric</a> p99, another guard metric."), "{html}");
        assert_eq!(html.matches("class=\"term\"").count(), 1, "{html}");
        assert!(html.contains("<dt id=\"term-guard-metric\">guard metric</dt>"));
    }

    #[test]
    fn code_between_backticks_is_set_as_code() {
        let page = |text| Markup::from(explained(el("p").text(text))).into_string();
        assert_eq!(
            page("Set `linger.ms` to `5`, or `<b>`."),
            "<p>Set <code>linger.ms</code> to <code>5</code>, or <code>&lt;b&gt;</code>.</p>"
        );
        for text in ["one ` alone", "`` empty"] {
            assert_eq!(page(text), format!("<p>{text}</p>"));
        }
    }

    #[test]
    fn words_are_whole_and_foreign_letters_do_no_harm() {
        assert_eq!(word_in("a stalled stall", "stall"), Some(10));
        assert_eq!(word_in("Stall", "stall"), Some(0));
        assert_eq!(word_in("µstall – stall", "stall"), Some("µstall – ".len()));
        assert_eq!(word_in("stalls", "stall"), None);
        assert_eq!(word_in("", "stall"), None);
    }
}
