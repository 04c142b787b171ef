//! The writer of Markdown for GitHub and GitLab. It omits pictures and keeps the numbers behind each.

use std::fmt::Write as _;

use crate::text::{
    Grid, Inline, Numbers, Piece, headline, is_left_out, is_list, numbers_of, parted, pieces, raw,
};
use crate::tree::{Element, Markup};

const INLINE: Inline = Inline { escape: in_a_cell, strong: "**", code: "`" };

/// The complete Markdown.
pub(crate) fn markdown(document: &Markup) -> String {
    let mut out = String::new();
    blocks(document, &mut out);
    out
}

/// Writes the blocks in their order. Text between blocks becomes a paragraph.
fn blocks(markup: &Markup, out: &mut String) {
    for piece in pieces(markup) {
        match piece {
            Piece::Loose(text) => paragraph(&text, out),
            Piece::Block(element) => block(element, out),
        }
    }
}

fn block(element: &Element, out: &mut String) {
    match element.tag() {
        _ if is_left_out(element) => {}
        "section" if element.is_detail() => fold(element, |part| part.tag() == "h2", out),
        "details" => fold(element, |part| part.tag() == "summary", out),
        "header" => {
            line(out, "# ", &headline(element, INLINE));
            let rest = element.elements().filter(|part| part.tag() != "h1" && !part.has_class("kicker"));
            blocks(&rest.cloned().collect(), out);
        }
        "figure" => {
            let Some(Numbers { title, numbers }) = numbers_of(element) else { return };
            folded(&INLINE.line(title), &numbers.clone().into(), out);
        }
        "h2" => line(out, "## ", &INLINE.line(element.inner())),
        "h3" => line(out, "### ", &INLINE.line(element.inner())),
        "p" if element.has_class("sentence") => {
            let text = INLINE.line(element.inner());
            line(out, "", &format!("**{text}**"));
        }
        "p" | "li" => paragraph(element.inner(), out),
        "ul" | "ol" => {
            list(element, "", out);
            out.push('\n');
        }
        "table" => table(element, out),
        "pre" => {
            let _ = write!(out, "```sh\n{}\n```\n\n", raw(element.inner()).replace("```", "` ` `"));
        }
        _ => blocks(element.inner(), out),
    }
}

fn line(out: &mut String, mark: &str, text: &str) {
    if !text.is_empty() {
        let _ = write!(out, "{mark}{text}\n\n");
    }
}

fn paragraph(markup: &Markup, out: &mut String) {
    let text = INLINE.line(markup);
    // Foreign text must not begin a heading, a quotation or a list.
    let mark = if text.starts_with(['#', '>', '-', '+', '=']) { "\\" } else { "" };
    line(out, mark, &text);
}

fn list(element: &Element, indent: &str, out: &mut String) {
    for item in element.elements() {
        let (inner, text) = parted(item, is_list);
        let _ = writeln!(out, "{indent}- {}", INLINE.line(&text));
        inner.into_iter().for_each(|inner| list(inner, &format!("{indent}  "), out));
    }
}

fn table(element: &Element, out: &mut String) {
    let grid = Grid::new(element, INLINE);
    // A table can have the same name as its section.
    let caption = &grid.caption;
    let is_said = [format!("# {caption}"), format!("<summary>{caption}</summary>")]
        .iter()
        .any(|heading| out.trim_end().ends_with(heading));
    if !caption.is_empty() && !is_said {
        line(out, "", &format!("**{}**", grid.caption));
    }
    line(out, "", &grid.remark);
    let mut titles = grid.titles.clone();
    titles.resize(grid.is_number.len(), String::new());
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(&titles));
    let rules = grid.is_number.iter().map(|is_number| if *is_number { "---:" } else { "---" });
    let _ = writeln!(out, "|{}|", rules.collect::<Vec<_>>().join("|"));
    grid.rows.iter().for_each(|cells| out.push_str(&row(cells)));
    out.push('\n');
}

/// Folds the content below its title.
fn fold(element: &Element, is_title: fn(&Element) -> bool, out: &mut String) {
    let (titles, content) = parted(element, is_title);
    let title = titles.first().map_or(String::new(), |title| INLINE.line(title.inner()));
    folded(&title, &content, out);
}

fn folded(title: &str, content: &Markup, out: &mut String) {
    let _ = write!(out, "<details><summary>{title}</summary>\n\n");
    blocks(content, out);
    out.push_str("</details>\n\n");
}

/// Escapes text so that it cannot end a cell or begin markup. Otherwise, foreign text could load pictures, add links, or notify
/// the name behind an `@`.
pub fn in_a_cell(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | '|' | '`' | '[' | ']' | '!' => out.extend(['\\', letter]),
            '<' => out.push_str("&lt;"),
            '@' => out.push_str("@\u{200b}"),
            _ if letter.is_control() => out.push(' '),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cell, Column, Table};
    use crate::tree::el;

    #[test]
    fn each_kind_of_block_has_its_form() {
        let mut numbers =
            Table::new("Rates", vec![Column::words("what"), Column::numbers(Markup::text("rate"))]);
        numbers.row(Markup::text("a|b"), vec![Cell::number("1,234\u{a0}/s")]);
        let document = el("main")
            .child(el("header").child(el("p").class("kicker").text("Kind")).child(el("h1").text("Title")))
            .child(el("p").class("sentence").child(el("svg").text("mark")).text("Better."))
            .child(el("ul").child(el("li").child(el("b").text("kept x: ")).text("why")))
            .child(el("p").text("#1 is no heading"))
            .child(
                el("figure")
                    .child(el("h3").text("Rates"))
                    .child(el("svg").text("no"))
                    .child(el("figcaption").text("of a picture"))
                    .child(el("details").child(el("summary").text("The numbers")).child(numbers.finish())),
            )
            .child(el("pre").child(el("code").text("hone load <x>")));
        let expected = "# Kind: Title\n\n**Better.**\n\n- **kept x:** why\n\n\\#1 is no heading\n\n<details><summary>Rates</summary>\n\n\
                        | what | rate |\n|---|---:|\n| a\\|b | 1,234 /s |\n\n</details>\n\n```sh\nhone load <x>\n```\n\n";
        assert_eq!(markdown(&document.into()), expected);
    }

    #[test]
    fn foreign_text_has_no_effect() {
        let document = el("p").text("# [x](http://y) <b> @all ![p](q)\n- z");
        let text = markdown(&document.into());
        assert_eq!(text, "\\# \\[x\\](http://y) &lt;b> @\u{200b}all \\!\\[p\\](q) - z\n\n");
    }
}
