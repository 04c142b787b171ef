//! The writer of HTML. Only this module escapes text and attribute values.

use std::fmt::Write as _;

use crate::tree::{Element, Markup, Node};

/// The complete HTML.
pub(crate) fn html(markup: &Markup) -> String {
    let mut out = String::new();
    write_all(markup, &mut out);
    out
}

fn write_all(markup: &Markup, out: &mut String) {
    for node in markup.nodes() {
        match node {
            Node::Text(text) => escape(text, out),
            Node::Html(html) => out.push_str(html),
            Node::Element(element) => write_element(element, out),
        }
    }
}

fn write_element(element: &Element, out: &mut String) {
    let tag = element.tag();
    // Writing into a String can't fail.
    let _ = write!(out, "<{tag}");
    for (name, value) in element.attributes() {
        let _ = write!(out, " {name}=\"");
        escape(value, out);
        out.push('"');
    }
    out.push('>');
    if is_folded(element) {
        return write_folded(element, out);
    }
    // Elements without content have no end tag in HTML.
    if !matches!(tag, "input" | "link" | "meta") {
        write_all(element.inner(), out);
        let _ = write!(out, "</{tag}>");
    }
}

/// A section that explains a result. A page folds it, unless it is what the page is read for.
fn is_folded(element: &Element) -> bool {
    element.tag() == "section" && element.is_detail() && !element.has_class("open")
}

/// Writes the content of a section with its heading as the handle of the fold.
fn write_folded(section: &Element, out: &mut String) {
    let is_heading = |node: &&Node| matches!(node, Node::Element(one) if one.tag() == "h2");
    let (heading, content): (Vec<&Node>, Vec<&Node>) = section.inner().nodes().iter().partition(is_heading);
    let all = |nodes: Vec<&Node>| nodes.into_iter().cloned().collect::<Markup>();
    out.push_str("<details class=\"fold\"><summary>");
    write_all(&all(heading), out);
    out.push_str("</summary>");
    write_all(&all(content), out);
    out.push_str("</details></section>");
}

/// Escapes characters that open markup. It replaces characters that HTML forbids and those that change the direction of the
/// following text.
fn escape(text: &str, out: &mut String) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::el;

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
