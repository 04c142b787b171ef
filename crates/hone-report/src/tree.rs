//! A document as a tree of the elements that HTML has names for. It is made once; `html`, `markdown` and `terminal` write it.

use std::fmt::Display;

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// Text, as it came: each writer escapes it.
    Text(String),
    /// An element.
    Element(Element),
    /// Finished HTML: constants of this crate, and JSON that closes no element. Other writers leave it out.
    Html(String),
}

/// Pieces in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(Vec<Node>);

impl Markup {
    /// HTML of this crate, as it is.
    pub(crate) fn constant(html: &'static str) -> Self {
        Self(vec![Node::Html(html.to_owned())])
    }

    /// Text that may come from a record.
    pub(crate) fn text(text: &str) -> Self {
        Self(vec![Node::Text(text.to_owned())])
    }

    /// A value for a script to read, without a character that could end the element around it.
    pub(crate) fn data(value: &serde_json::Value) -> Self {
        let text = value.to_string();
        Self(vec![Node::Html(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))])
    }

    /// The pieces.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.0
    }

    /// Appends.
    pub(crate) fn push(&mut self, piece: impl Into<Self>) {
        self.0.append(&mut piece.into().0);
    }

    /// With another piece behind.
    #[must_use]
    pub(crate) fn with(mut self, piece: impl Into<Self>) -> Self {
        self.push(piece);
        self
    }

    /// As HTML.
    pub(crate) fn into_string(self) -> String {
        crate::html::html(&self)
    }
}

impl From<Element> for Markup {
    fn from(element: Element) -> Self {
        Self(vec![Node::Element(element)])
    }
}

impl<T: Into<Markup>> FromIterator<T> for Markup {
    fn from_iter<I: IntoIterator<Item = T>>(pieces: I) -> Self {
        pieces.into_iter().fold(Self::default(), Self::with)
    }
}

/// An element with its attributes and content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Element {
    tag: &'static str,
    attributes: Vec<(&'static str, String)>,
    inner: Markup,
    is_detail: bool,
}

impl Element {
    /// Without attributes and content.
    pub(crate) fn new(tag: &'static str) -> Self {
        Self { tag, attributes: Vec::new(), inner: Markup::default(), is_detail: false }
    }

    /// What explains or proves the result. A terminal shows it on request only.
    #[must_use]
    pub(crate) fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }

    /// With an attribute; the value may come from a record.
    #[must_use]
    pub(crate) fn attr(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// With a class for the style sheet.
    #[must_use]
    pub(crate) fn class(self, class: &'static str) -> Self {
        self.attr("class", class)
    }

    /// With text that may come from a record.
    #[must_use]
    pub(crate) fn text(self, text: &str) -> Self {
        self.child(Markup::text(text))
    }

    /// With a child behind the others.
    #[must_use]
    pub(crate) fn child(mut self, child: impl Into<Markup>) -> Self {
        self.inner.push(child);
        self
    }

    /// With children behind the others.
    #[must_use]
    pub(crate) fn children<T: Into<Markup>>(mut self, children: impl IntoIterator<Item = T>) -> Self {
        children.into_iter().for_each(|child| self.inner.push(child));
        self
    }

    /// Name of the element in HTML.
    pub(crate) fn tag(&self) -> &'static str {
        self.tag
    }

    /// Names and values, not escaped.
    pub(crate) fn attributes(&self) -> &[(&'static str, String)] {
        &self.attributes
    }

    /// Whether the style sheet knows it by this class.
    pub(crate) fn has_class(&self, class: &str) -> bool {
        self.attributes
            .iter()
            .any(|(name, value)| *name == "class" && value.split(' ').any(|one| one == class))
    }

    /// The content.
    pub(crate) fn inner(&self) -> &Markup {
        &self.inner
    }

    /// See [`Element::detail`].
    pub(crate) fn is_detail(&self) -> bool {
        self.is_detail
    }

    /// Elements among the content, not deeper.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Self> {
        self.inner.nodes().iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            _ => None,
        })
    }
}

/// An element.
pub(crate) fn el(tag: &'static str) -> Element {
    Element::new(tag)
}

impl From<Node> for Markup {
    fn from(node: Node) -> Self {
        Self(vec![node])
    }
}
