//! Markup that is escaped by construction: text and attribute values of a record can only enter through functions
//! that escape, and only constants of this crate enter as they are.

use std::fmt::{Display, Write as _};

/// A piece of HTML in which everything foreign is already escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(String);

impl Markup {
    /// Markup written in this crate.
    pub(crate) fn constant(html: &'static str) -> Self {
        Self(html.to_owned())
    }

    /// Text from anywhere.
    pub(crate) fn text(text: &str) -> Self {
        Self(escaped(text))
    }

    /// Values for a script to read, inside of an element `script`, where nothing but its end is markup.
    pub(crate) fn data(value: &serde_json::Value) -> Self {
        let text = value.to_string();
        Self(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))
    }

    /// An element that has two attributes, and neither content nor end.
    pub(crate) fn open(
        tag: &'static str,
        name: &'static str,
        value: &str,
        other: &'static str,
        of_other: &str,
    ) -> Self {
        Self(format!("<{tag} {name}=\"{}\" {other}=\"{}\">", escaped(value), escaped(of_other)))
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: impl Into<Self>) {
        self.0.push_str(&piece.into().0);
    }

    /// Appends a piece and gives itself back.
    #[must_use]
    pub(crate) fn with(mut self, piece: impl Into<Self>) -> Self {
        self.push(piece);
        self
    }

    /// The finished page or fragment.
    pub(crate) fn into_string(self) -> String {
        self.0
    }
}

impl From<Element> for Markup {
    fn from(element: Element) -> Self {
        element.finish()
    }
}

impl<T: Into<Markup>> FromIterator<T> for Markup {
    fn from_iter<I: IntoIterator<Item = T>>(pieces: I) -> Self {
        pieces.into_iter().fold(Self::default(), Self::with)
    }
}

/// One element under construction, HTML or SVG.
#[derive(Debug, Clone)]
pub(crate) struct Element {
    tag: &'static str,
    attributes: String,
    inner: Markup,
}

impl Element {
    /// An element without attributes and content.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { tag, attributes: String::new(), inner: Markup::default() }
    }

    /// Adds an attribute; the value is escaped.
    #[must_use]
    pub(crate) fn attr(mut self, name: &'static str, value: impl Display) -> Self {
        // Writing into a String can't fail.
        let _ = write!(self.attributes, " {name}=\"{}\"", escaped(&value.to_string()));
        self
    }

    /// Adds the attribute `class`.
    #[must_use]
    pub(crate) fn class(self, class: &'static str) -> Self {
        self.attr("class", class)
    }

    /// Adds text; it is escaped.
    #[must_use]
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.inner.push(Markup::text(text));
        self
    }

    /// Adds markup.
    #[must_use]
    pub(crate) fn child(mut self, child: impl Into<Markup>) -> Self {
        self.inner.push(child);
        self
    }

    /// Adds pieces of markup in order.
    #[must_use]
    pub(crate) fn children<T: Into<Markup>>(mut self, children: impl IntoIterator<Item = T>) -> Self {
        children.into_iter().for_each(|child| self.inner.push(child));
        self
    }

    fn finish(self) -> Markup {
        let Self { tag, attributes, inner } = self;
        // What has no content in HTML has no end either.
        if matches!(tag, "input" | "link" | "meta") {
            return Markup(format!("<{tag}{attributes}>"));
        }
        Markup(format!("<{tag}{attributes}>{}</{tag}>", inner.0))
    }
}

/// A short form for `Element::new`.
pub(crate) fn el(tag: &'static str) -> Element {
    Element::new(tag)
}

/// Escapes for text and for attribute values in double quotes. Characters that a browser drops, or that turn the
/// direction of the text around them, become U+FFFD: a foreign name must not rearrange the page.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(character),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            '\u{fdd0}'..='\u{fdef}' => out.push('\u{fffd}'),
            _ if character.is_control() || (u32::from(character) & 0xfffe) == 0xfffe => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_opens_markup_is_escaped() {
        for (given, wanted) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("a & b", "a &amp; b"),
            ("\" onload='x'", "&quot; onload=&#39;x&#39;"),
            ("zero\0byte", "zero\u{fffd}byte"),
            ("abc\u{202e}txt.exe", "abc\u{fffd}txt.exe"),
            ("two\nlines", "two\nlines"),
            ("µs, 日本", "µs, 日本"),
        ] {
            assert_eq!(Markup::text(given).into_string(), wanted);
        }
    }

    #[test]
    fn attribute_values_cannot_close_their_quotes() {
        let element = el("td").attr("title", "\"><b>").text("<i>");
        assert_eq!(Markup::from(element).into_string(), "<td title=\"&quot;&gt;&lt;b&gt;\">&lt;i&gt;</td>");
    }

    #[test]
    fn elements_nest_in_order() {
        let list = el("ol").class("steps").children(["a", "b"].map(|name| el("li").text(name)));
        assert_eq!(Markup::from(list).into_string(), "<ol class=\"steps\"><li>a</li><li>b</li></ol>");
    }
}
