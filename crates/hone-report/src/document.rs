//! A document and its three writers: terminal, Markdown, and a self-contained HTML page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::section::command;
use crate::tree::{Element, Markup, el};
use crate::{glossary, html, markdown, terminal};

/// The style sheet; part of the page.
pub(crate) const STYLE: &str = concat!(include_str!("page.css"), include_str!("plot/plot.css"));
/// The script of a page: buttons that copy commands.
pub(crate) const SCRIPT: &str = include_str!("page.js");

/// Constant heads.
const META: [&str; 3] = [
    "<meta charset=\"utf-8\">",
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    "<meta name=\"color-scheme\" content=\"light dark\">",
];

/// The content of a record, ready for a writer.
#[derive(Debug, Clone)]
pub struct Document {
    title: String,
    header: Element,
    main: Element,
    page: Option<String>,
}

impl Document {
    pub(crate) fn new(title: &str, header: Element, main: Element) -> Self {
        Self { title: title.to_owned(), header, main, page: None }
    }

    /// Sets a special page that replaces the usual one, for a document that is used rather than read.
    pub(crate) fn with_page(self, html: String) -> Self {
        Self { page: Some(html), ..self }
    }

    /// Adds the command that repeats the run, in words after `hone`. Without words, there is nothing to add.
    #[must_use]
    pub fn repeated_by(self, line: Option<&str>) -> Self {
        let Some(line) = line else { return self };
        let section = crate::section::section("repeat", "Repeat this run").class("open").detail();
        Self { main: self.main.child(section.child(command(line))), ..self }
    }

    /// One self-contained page.
    pub fn html(self) -> String {
        if let Some(page) = self.page {
            return page;
        }
        let head = el("head")
            .children(META.map(Markup::constant))
            .child(el("meta").attr("http-equiv", "Content-Security-Policy").attr("content", policy()))
            .child(el("title").text(&format!("{} – Hone", self.title)))
            .child(el("style").child(Markup::constant(STYLE)));
        let script = el("script").child(Markup::constant(SCRIPT));
        let content = glossary::explained(el("div").child(self.header).child(self.main));
        let body = el("body").child(content).child(script);
        let html = el("html").attr("lang", "en").child(head).child(body);
        html::html(&Markup::constant("<!DOCTYPE html>\n").with(html).with(Markup::constant("\n")))
    }

    /// Markdown for GitHub and GitLab. The writer omits pictures and keeps the numbers behind each.
    pub fn markdown(self) -> String {
        markdown::markdown(&self.content())
    }

    /// Lines for a terminal.
    pub fn terminal(self, screen: impl Into<terminal::Screen>) -> String {
        terminal::terminal(&self.content(), screen.into())
    }

    fn content(self) -> Markup {
        Markup::from(self.header).with(self.main)
    }
}

/// The content security policy is a second line of defence: foreign content that got through could neither run nor load anything.
fn policy() -> String {
    let script = STANDARD.encode(Sha256::digest(SCRIPT));
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'")
}
