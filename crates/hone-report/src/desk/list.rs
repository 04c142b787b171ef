//! The list of records with a filter form, and what it shares with the list of runs.

use hone_record::{RunState, ShelfFilter, ShelfPage, ShelfRecord, Verdict};

use super::frame::{Around, Tab, document, link, link_to, when};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::section::absent;
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Addresses of the neighbouring pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pager {
    /// The page before.
    pub previous: Option<String>,
    /// The next page.
    pub next: Option<String>,
}

/// Values of the verdict filter in addresses.
pub(super) const VERDICTS: [(&str, Verdict); 4] = [
    ("better", Verdict::Better),
    ("worse", Verdict::Worse),
    ("equivalent", Verdict::Equivalent),
    ("not-shown", Verdict::NotShown),
];

/// The state with a sign, so that colour is not needed.
pub(super) fn state(state: RunState) -> Element {
    let class = match state {
        RunState::Running => "state running",
        RunState::Finished => "state finished",
        RunState::Unfinished => "state unfinished",
    };
    el("span").class(class).text(state.label())
}

/// All records.
pub fn records(page: &ShelfPage<ShelfRecord>, pager: &Pager, around: &Around) -> String {
    let mut table = table("Records", &page.items, page.filter.a.as_deref());
    table = table.remark(&counted(page, "record", "records"));
    let found = el("section").attr("aria-label", "Records").children(listed(page, table, pager));
    document("Records", Tab::Records, around, [form(&page.filter, &page.kinds), found])
}

/// Records with a summary of each.
pub(super) fn table(name: &str, records: &[ShelfRecord], a: Option<&str>) -> Table {
    let columns = ["record", "kind", "what", "found", "when", "compare"].map(Column::words);
    let mut table = Table::new(name, columns.into());
    for record in records {
        let found = match record.verdict {
            Some(found) if record.said.is_empty() => mark::verdict_words(found),
            Some(found) => mark::verdict_words(found).with(el("span").class("small").text(&record.said)),
            None => Markup::text(if record.said.is_empty() { NONE } else { &record.said }),
        };
        let title = if record.title.is_empty() { NONE } else { &record.title };
        let cells = vec![
            Cell::words(kind(record)),
            Cell::text(title),
            Cell::words(found),
            Cell::words(el("span").class("word").text(&when(record.at_unix_ms))),
            Cell::words(comparing(record, a)),
        ];
        table.row(link(&format!("/record/{}", record.id), &record.path), cells);
    }
    table
}

fn kind(record: &ShelfRecord) -> Element {
    el("span").class(if record.is_broken() { "state broken" } else { "word" }).text(&record.kind)
}

fn comparing(record: &ShelfRecord, a: Option<&str>) -> Markup {
    if record.is_broken() {
        return Markup::text(NONE);
    }
    match a {
        Some(a) if a == record.id => Markup::text("A"),
        Some(a) => link_to(
            &format!("/compare?a={}&b={}", encoded(a), record.id),
            "compare with A",
            &format!(": {}", record.path),
        )
        .into(),
        None => {
            link_to(&format!("/records?a={}", record.id), "choose as A", &format!(": {}", record.path)).into()
        }
    }
}

pub(super) fn counted<T>(page: &ShelfPage<T>, one: &str, many: &str) -> String {
    let all = quantity::counted(page.in_all as u64, one, many);
    if page.matching == page.in_all {
        format!("{all}, newest first.")
    } else {
        format!("{} of {all} match the filter, newest first.", quantity::count(page.matching as u64))
    }
}

fn listed<T>(page: &ShelfPage<T>, table: Table, pager: &Pager) -> Vec<Element> {
    if page.items.is_empty() {
        let why = if page.in_all == 0 {
            "There is no record yet. A record appears here when a Hone command writes into one of these folders."
        } else {
            "Nothing matches the filter."
        };
        return vec![absent(why)];
    }
    std::iter::once(table.finish()).chain(pages(page.page, page.pages, pager)).collect()
}

/// Links to the neighbouring pages, if there are any.
pub(super) fn pages(page: usize, pages: usize, pager: &Pager) -> Option<Element> {
    let item = |address: &Option<String>, text: &str, rel: &str| {
        let address = address.as_ref()?;
        Some(el("li").child(el("a").attr("href", address).attr("rel", rel).text(text)))
    };
    let nav = el("nav").class("pages").attr("aria-label", "Pages of the list").child(
        el("ul")
            .children(item(&pager.previous, "Newer", "prev"))
            .child(el("li").text(&format!("Page {page} of {pages}")))
            .children(item(&pager.next, "Older", "next")),
    );
    (pages > 1).then_some(nav)
}

fn form(filter: &ShelfFilter, kinds: &std::collections::BTreeMap<String, usize>) -> Element {
    let kinds = kinds
        .iter()
        .map(|(kind, count)| (kind.as_str(), format!("{kind} ({})", quantity::count(*count as u64))));
    let kind = select("kind", "Kind", filter.kind.as_deref(), kinds);
    let named = VERDICTS.iter().find(|(_, verdict)| Some(*verdict) == filter.verdict).map(|(name, _)| *name);
    let verdicts = VERDICTS.iter().map(|(name, verdict)| (*name, verdict.label().to_owned()));
    let verdict = select("verdict", "Verdict", named, verdicts);
    search_form("/records", [&filter.text, filter.a.as_deref().unwrap_or_default()], [kind, verdict])
}

/// A form that chooses from a list by a text and these fields. `a` is the first side of a comparison, empty if none is chosen.
pub(super) fn search_form(
    action: &'static str,
    [text, a]: [&str; 2],
    fields: impl IntoIterator<Item = Element>,
) -> Element {
    let field = el("input").attr("id", "q").attr("name", "q").attr("type", "search").attr("value", text);
    let kept = (!a.is_empty()).then(|| el("input").attr("type", "hidden").attr("name", "a").attr("value", a));
    el("form")
        .class("choose")
        .attr("role", "search")
        .attr("aria-label", "Choose")
        .attr("method", "get")
        .attr("action", action)
        .child(el("div").child(el("label").attr("for", "q").text("Text")).child(field))
        .children(fields)
        .children(kept)
        .child(el("button").attr("type", "submit").text("Show"))
}

/// A field with a choice of words. Initially none is selected.
pub(super) fn select<'a>(
    name: &'static str,
    label: &str,
    chosen: Option<&str>,
    choices: impl Iterator<Item = (&'a str, String)>,
) -> Element {
    let option = |value: &str, text: &str| {
        let option = el("option").attr("value", value).text(text);
        if Some(value) == chosen { option.attr("selected", "") } else { option }
    };
    let options = choices.map(|(value, text)| option(value, &text)).collect::<Vec<_>>();
    let field = el("select").attr("id", name).attr("name", name).child(option("", "any")).children(options);
    el("div").child(el("label").attr("for", name).text(label)).child(field)
}

/// Percent-encodes text for the query of an address: all except letters, digits and four signs becomes `%XX`.
pub(super) fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
