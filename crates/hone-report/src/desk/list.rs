//! The list of records with a filter form, and what it shares with the list of runs.

use hone_record::{RunState, ShelfFilter, ShelfPage, ShelfRecord, Verdict};

use super::frame::{Around, Tab, document, link, link_to, when};
use crate::plot::mark;
use crate::quantity::{self, NONE};
use crate::section::{absent, paragraph};
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

/// All records. `windows` is the number of windows of runs that the list hides, and the address that shows them.
pub fn records(
    page: &ShelfPage<ShelfRecord>,
    pager: &Pager,
    windows: Option<(usize, &str)>,
    around: &Around,
) -> String {
    let table = table("Records", &page.items, page.filter.a.as_deref()).under_its_heading();
    let count = paragraph(&counted(page, "record", "records")).class("meta");
    let count = windows.into_iter().fold(count, |line, (hidden, address)| {
        let shown = quantity::counted(hidden as u64, "window", "windows");
        line.text(" ").child(link(address, &format!("Show {shown} of runs")))
    });
    let found = el("section").attr("aria-label", "Records").children(listed(page, table, pager));
    document("Records", Tab::Records, around, [form(&page.filter, &page.kinds), count, found])
}

/// A name without Markdown: code between backticks is set in quotation marks.
pub(super) fn unmarked(name: &str) -> String {
    let mut parts = name.split('`');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.enumerate().fold(first, |text, (place, part)| text + ["“", "”"][place % 2] + part)
}

/// A cell that a phone omits when it has no content.
pub(super) fn optional(text: &str) -> Cell {
    if text.is_empty() || text == NONE {
        Cell::text(NONE).class("words none")
    } else {
        Cell::text(text).class("words prose")
    }
}

/// Records with a summary of each.
pub(super) fn table(name: &str, records: &[ShelfRecord], a: Option<&str>) -> Table {
    let columns = ["record", "kind", "what", "found", "when", "compare"].map(Column::words);
    let mut table = Table::new(name, columns.into()).class("scroll cards");
    for record in records {
        let cells = vec![
            Cell::words(kind(record)).named("kind"),
            optional(&unmarked(&record.title)),
            found(record),
            Cell::words(el("span").class("word").text(&when(record.at_unix_ms))).named("when"),
            comparing(record, a),
        ];
        table.row(link(&format!("/record/{}", record.id), &record.path), cells);
    }
    table
}

/// The outcome. Its text may say the verdict itself.
fn found(record: &ShelfRecord) -> Cell {
    match record.verdict {
        Some(found) if record.said.is_empty() => Cell::words(mark::verdict_words(found)),
        Some(found) if record.said.contains(found.label()) => {
            Cell::words(mark::verdict_with(found, &record.said))
        }
        Some(found) => {
            Cell::words(mark::verdict_words(found).with(el("span").class("small").text(&record.said)))
        }
        None => optional(&record.said),
    }
}

fn kind(record: &ShelfRecord) -> Element {
    el("span").class(if record.is_broken() { "state broken" } else { "word" }).text(&record.kind)
}

fn comparing(record: &ShelfRecord, a: Option<&str>) -> Cell {
    if record.is_broken() {
        return optional(NONE);
    }
    let own = format!("/records?a={}", record.id);
    Cell::words(side_link(a, (&record.id, &record.path), &own))
}

/// The link that makes a side the first one of a comparison, or compares it with the first one. `own` is the address that chooses it.
pub(super) fn side_link(a: Option<&str>, (side, name): (&str, &str), own: &str) -> Markup {
    let of = format!(": {name}");
    match a {
        Some(a) if a == side => Markup::text("A"),
        Some(a) => {
            let address = format!("/compare?a={}&b={}", encoded(a), encoded(side));
            link_to(&address, "compare with A", &of).into()
        }
        None => link_to(own, "first side of a comparison", &of).into(),
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
    let is_active = !filter.text.is_empty() || filter.kind.is_some() || filter.verdict.is_some();
    let texts = [&*filter.text, filter.a.as_deref().unwrap_or_default()];
    search_form("/records", texts, [kind, verdict], is_active)
}

/// A form that chooses from a list by a text and these fields. `a` is the first side of a comparison, empty if none is chosen. If
/// `can_clear`, a link leads to the list without a filter.
pub(super) fn search_form(
    action: &'static str,
    [text, a]: [&str; 2],
    fields: impl IntoIterator<Item = Element>,
    can_clear: bool,
) -> Element {
    let all = if a.is_empty() { action.to_owned() } else { format!("{action}?a={}", encoded(a)) };
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
        .child(el("button").attr("type", "submit").text("Apply"))
        .children(can_clear.then(|| link(&all, "clear filter")))
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
