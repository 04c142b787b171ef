//! Tables: a caption, named columns, a header cell for each row, and a scrolling group for narrow pages.

use crate::tree::{Element, Markup, el};

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Table {
    caption: Markup,
    /// Name of the scrolling region for a screen reader.
    name: String,
    columns: Vec<Column>,
    rows: Vec<Element>,
    class: &'static str,
    caption_class: &'static str,
}

/// A column's title.
#[derive(Debug)]
pub(crate) struct Column {
    title: Markup,
    number: bool,
}

impl Column {
    /// A column of words.
    pub(crate) fn words(title: &str) -> Self {
        Self::words_of(Markup::text(title))
    }

    /// A column of words, its title with a remark.
    pub(crate) fn words_of(title: Markup) -> Self {
        Self { title, number: false }
    }

    /// A column of numbers, right-aligned.
    pub(crate) fn numbers(title: impl Into<Markup>) -> Self {
        Self { title: title.into(), number: true }
    }
}

/// A cell.
#[derive(Debug)]
pub(crate) struct Cell {
    content: Markup,
    class: &'static str,
    columns: usize,
    /// Name of the column, for cards without a head.
    name: Option<&'static str>,
}

impl Cell {
    /// Words.
    pub(crate) fn words(content: impl Into<Markup>) -> Self {
        Self { content: content.into(), class: "words", columns: 1, name: None }
    }

    /// Plain text.
    pub(crate) fn text(text: &str) -> Self {
        Self::words(Markup::text(text))
    }

    /// A number.
    pub(crate) fn number(text: &str) -> Self {
        Self::numbers(Markup::text(text))
    }

    /// Several numbers or a number with a remark.
    pub(crate) fn numbers(content: impl Into<Markup>) -> Self {
        Self { content: content.into(), class: "number", columns: 1, name: None }
    }

    /// Replaces the class.
    #[must_use]
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// Makes the cell span several columns.
    #[must_use]
    pub(crate) fn across(self, columns: usize) -> Self {
        Self { columns, ..self }
    }

    /// Names the column in the cell, because a phone shows the row as a card.
    #[must_use]
    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name: Some(name), ..self }
    }

    fn finish(self) -> Element {
        let cell = el("td").class(self.class);
        let cell = self.name.into_iter().fold(cell, |cell, name| cell.attr("data-name", name));
        let cell = if self.columns > 1 { cell.attr("colspan", self.columns) } else { cell };
        cell.child(self.content)
    }
}

impl Table {
    /// A table with the columns' titles in its head; the first column holds the rows' titles.
    pub(crate) fn new(name: &str, columns: Vec<Column>) -> Self {
        Self {
            caption: el("span").class("name").text(name).into(),
            name: name.to_owned(),
            columns,
            rows: Vec::new(),
            class: "scroll",
            caption_class: "shown",
        }
    }

    /// A table of facts: a title and a value in each row, no head.
    pub(crate) fn facts(name: &str) -> Self {
        Self::new(name, Vec::new())
    }

    /// Hides the caption on a page, because the heading of the section says the same.
    #[must_use]
    pub(crate) fn under_its_heading(self) -> Self {
        Self { caption_class: "said", ..self }
    }

    /// Adds a remark to the caption.
    #[must_use]
    pub(crate) fn remark(mut self, text: &str) -> Self {
        self.caption.push(el("span").class("remark").text(text));
        self
    }

    /// Gives the region around the table another class.
    #[must_use]
    pub(crate) fn class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, title: impl Into<Markup>, cells: Vec<Cell>) {
        self.row_of_class("plain", title, cells);
    }

    /// Makes the last row a part of the explanation: a terminal shows it on request.
    pub(crate) fn explain_last(&mut self) {
        let last = self.rows.pop().map(Element::detail);
        self.rows.extend(last);
    }

    /// Adds a row that stands out.
    pub(crate) fn row_of_class(&mut self, class: &'static str, title: impl Into<Markup>, cells: Vec<Cell>) {
        let head = el("th").attr("scope", "row").child(title);
        self.rows.push(el("tr").class(class).child(head).children(cells.into_iter().map(Cell::finish)));
    }

    /// Adds a row of a table of facts.
    pub(crate) fn fact(&mut self, title: &str, value: &str) {
        self.row(Markup::text(title), vec![Cell::text(value)]);
    }

    /// The table as a row of tiles. The style sheet draws each row as a card, so that the roles of a table are named.
    pub(crate) fn tiles(self) -> Element {
        let caption = el("caption").class("only-page").child(self.caption);
        let body = el("tbody").attr("role", "rowgroup");
        let rows = self.rows.into_iter().map(|row| {
            row.with_role("row").map_elements(|cell| {
                let role = if cell.tag() == "th" { "rowheader" } else { "cell" };
                cell.with_role(role)
            })
        });
        let head = head(self.columns)
            .with_role("rowgroup")
            .map_elements(|row| row.with_role("row").map_elements(|cell| cell.with_role("columnheader")));
        let table = el("table").class("figures").attr("role", "table").child(caption).child(head);
        el("div").class("tiles").child(table.child(body.children(rows)))
    }

    /// The table in its scrolling region.
    pub(crate) fn finish(self) -> Element {
        let is_facts = self.columns.is_empty();
        let table = el("table").class(if is_facts { "facts" } else { "figures" });
        let table = table.child(el("caption").class(self.caption_class).child(self.caption));
        let table = if is_facts { table } else { table.child(head(self.columns)) };
        el("div")
            .class(self.class)
            .attr("role", "group")
            .attr("tabindex", "0")
            .attr("aria-label", self.name)
            .child(table.child(el("tbody").children(self.rows)))
    }
}

fn head(columns: Vec<Column>) -> Element {
    let cell = |column: Column| {
        let class = if column.number { "number" } else { "words" };
        el("th").attr("scope", "col").class(class).child(column.title)
    };
    el("thead").child(el("tr").children(columns.into_iter().map(cell)))
}

/// Several short texts in one cell, one on each line.
pub(crate) fn lines<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Markup {
    texts.into_iter().map(|text| el("div").text(text.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_have_their_scope() {
        let mut table = Table::new("n", vec![Column::words("metric"), Column::numbers(Markup::text("a"))]);
        table.row(Markup::text("p50"), vec![Cell::number("1")]);
        table.row(Markup::text("p99"), vec![Cell::text("none").across(2)]);
        let html = Markup::from(table.finish()).into_string();
        assert_eq!(html.matches("scope=\"col\"").count(), 2);
        assert_eq!(html.matches("scope=\"row\"").count(), 2);
        assert!(
            html.contains("<caption class=\"shown\"><span class=\"name\">n</span></caption>")
                && html.contains("colspan=\"2\"")
        );
    }
}
