//! A document and its three writers: terminal, Markdown, and a self-contained HTML page.

use crate::tree::{Element, Markup, el};
use crate::{html, markdown, terminal};

/// The style sheet; part of the page.
pub(crate) const STYLE: &str = include_str!("page.css");

/// Constant heads. The content security policy is a second line of defence: foreign content that got through could neither run
/// nor load anything.
const META: [&str; 4] = [
    "<meta charset=\"utf-8\">",
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
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

    /// One self-contained page.
    pub fn html(self) -> String {
        if let Some(page) = self.page {
            return page;
        }
        let head = el("head")
            .children(META.map(Markup::constant))
            .child(el("title").text(&format!("{} – Hone", self.title)))
            .child(el("style").child(Markup::constant(STYLE)));
        let body = el("body").child(self.header).child(self.main);
        let html = el("html").attr("lang", "en").child(head).child(body);
        html::html(&Markup::constant("<!DOCTYPE html>\n").with(html).with(Markup::constant("\n")))
    }

    /// Markdown for GitHub and GitLab. The writer omits pictures and keeps the numbers behind each.
    pub fn markdown(self) -> String {
        markdown::markdown(&self.content())
    }

    /// Lines for a terminal.
    pub fn terminal(self, detail: terminal::Detail) -> String {
        terminal::terminal(&self.content(), detail)
    }

    fn content(self) -> Markup {
        Markup::from(self.header).with(self.main)
    }
}
