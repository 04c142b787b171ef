//! A document as a tree of HTML elements. It is built once, and `html`, `markdown` and `terminal` write it.

use std::fmt::Display;

/// A piece of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// Text as it came. Each writer escapes it.
    Text(String),
    /// An element.
    Element(Element),
    /// Finished HTML: constants of this crate, and JSON that closes no element. Other writers omit it.
    Html(String),
}

/// A sequence of pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(Vec<Node>);

impl Markup {
    /// Constant HTML of this crate, unescaped.
    pub(crate) fn constant(html: &'static str) -> Self {
        Self(vec![Node::Html(html.to_owned())])
    }

    /// Text that may come from a record.
    pub(crate) fn text(text: &str) -> Self {
        Self(vec![Node::Text(text.to_owned())])
    }

    /// JSON for a script, without a character that could end the surrounding element.
    pub(crate) fn data(value: &serde_json::Value) -> Self {
        let text = value.to_string();
        Self(vec![Node::Html(text.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026"))])
    }

    /// The pieces.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.0
    }

    /// Appends a piece.
    pub(crate) fn push(&mut self, piece: impl Into<Self>) {
        self.0.append(&mut piece.into().0);
    }

    /// Appends a piece and returns the markup.
    #[must_use]
    pub(crate) fn with(mut self, piece: impl Into<Self>) -> Self {
        self.push(piece);
        self
    }

    /// Renders the markup as HTML.
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

    /// Marks the element as an explanation or proof of the result. A terminal shows it only on request.
    #[must_use]
    pub(crate) fn detail(self) -> Self {
        Self { is_detail: true, ..self }
    }

    /// Adds an attribute. The value may come from a record.
    #[must_use]
    pub(crate) fn attr(mut self, name: &'static str, value: impl Display) -> Self {
        self.attributes.push((name, value.to_string()));
        self
    }

    /// Adds a class for the style sheet.
    #[must_use]
    pub(crate) fn class(self, class: &'static str) -> Self {
        self.attr("class", class)
    }

    /// Adds text that may come from a record.
    #[must_use]
    pub(crate) fn text(self, text: &str) -> Self {
        self.child(Markup::text(text))
    }

    /// Appends a child.
    #[must_use]
    pub(crate) fn child(mut self, child: impl Into<Markup>) -> Self {
        self.inner.push(child);
        self
    }

    /// Appends children.
    #[must_use]
    pub(crate) fn children<T: Into<Markup>>(mut self, children: impl IntoIterator<Item = T>) -> Self {
        children.into_iter().for_each(|child| self.inner.push(child));
        self
    }

    /// Adds a role for screen readers.
    #[must_use]
    pub(crate) fn with_role(self, role: &'static str) -> Self {
        self.attr("role", role)
    }

    /// Makes it another element.
    #[must_use]
    pub(crate) fn renamed(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    /// Changes the elements directly below this one.
    #[must_use]
    pub(crate) fn map_elements(self, change: impl Fn(Self) -> Self) -> Self {
        self.map_nodes(|node| match node {
            Node::Element(element) => change(element).into(),
            other => other.into(),
        })
    }

    /// Replaces each piece directly below this element.
    #[must_use]
    pub(crate) fn map_nodes(mut self, mut change: impl FnMut(Node) -> Markup) -> Self {
        let inner = std::mem::take(&mut self.inner);
        self.inner = inner.0.into_iter().fold(Markup::default(), |all, node| all.with(change(node)));
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

    /// Whether the element has this class.
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

    /// Elements directly below this one.
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
