//! The page of one record: its report as `hone report` writes it, with a link back. A record without a report shows what is known
//! of it.

use hone_record::ShelfRecord;

use super::frame::{Around, Tab, bar, document, link, link_to, skip, when};
use crate::plot::mark;
use crate::quantity;
use crate::table::{Cell, Table};
use crate::tree::{Element, Markup, el};

/// Bytes of a file that a page shows at most.
const MOST_SHOWN_BYTES: usize = 200 << 10;

/// Adds the navigation bar and the path of the record to a report page that this crate made.
pub fn in_desk(report: &str, of: &ShelfRecord) -> String {
    let above = Markup::default().with(skip()).with(bar(Tab::Records)).with(place(of)).into_string();
    // The first match of each is the page's own, because everything from a record is escaped.
    report
        .replacen("</style>", &format!("{}</style>", super::frame::OWN_STYLE), 1)
        .replacen("<body>", &format!("<body>{above}"), 1)
        .replacen("<main>", "<main id=\"main\" tabindex=\"-1\">", 1)
}

fn place(of: &ShelfRecord) -> Element {
    let links = [
        of.run.as_ref().map(|run| link(&format!("/run/{run}"), "its run")),
        (!of.id.is_empty()).then(|| link(&format!("/record/{}.json", of.id), "the file")),
        (!of.is_broken() && !of.id.is_empty())
            .then(|| link_to(&format!("/records?a={}", of.id), "compare it", "with another record")),
    ];
    let mut list = el("ul");
    for link in links.into_iter().flatten() {
        list = list.child(el("li").child(link));
    }
    el("nav").class("place").attr("aria-label", "This record").child(el("p").text(&of.path)).child(list)
}

/// The page of a record without a report, with the reason: there is no report for it, or the file can't be read.
pub fn record(of: &ShelfRecord, text: &str, why_no_report: &str, around: &Around) -> String {
    let mut facts = Table::facts("What is known about it");
    facts.fact("file", &of.path);
    facts.fact("kind", &of.kind);
    facts.fact("size", &quantity::bytes(of.bytes));
    facts.fact("when", &when(of.at_unix_ms));
    if let Some(verdict) = of.verdict {
        facts.row(Markup::text("verdict"), vec![Cell::words(mark::verdict_words(verdict))]);
    }
    if !of.said.is_empty() && !of.is_broken() {
        facts.fact("summary", &of.said);
    }
    let title = if of.title.is_empty() { &of.path } else { &of.title };
    let shown = text.get(..text.floor_char_boundary(MOST_SHOWN_BYTES)).unwrap_or_default();
    let cut = (shown.len() < text.len()).then(|| {
        let size = quantity::bytes(shown.len() as u64);
        el("p").class("absent").text(&format!("Only the first {size} are shown."))
    });
    let file = el("section")
        .attr("aria-labelledby", "file-heading")
        .child(el("h2").attr("id", "file-heading").text("The file"))
        .child(
            el("pre")
                .class("file")
                .attr("tabindex", "0")
                .attr("role", "group")
                .attr("aria-label", "Text of the file")
                .child(el("code").text(shown)),
        )
        .children(cut);
    let why = el("p").class(if of.is_broken() { "warning" } else { "absent" }).text(why_no_report);
    document(title, Tab::Records, around, [why, place(of), facts.finish(), file])
}
