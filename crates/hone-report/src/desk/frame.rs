//! The frame of every page: head, style, script and navigation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::document::STYLE;
use crate::tree::{Element, Markup, el};
use crate::{heatmap, quantity};

/// Style of these pages, loaded after the common style.
pub(super) const OWN_STYLE: &str = include_str!("desk.css");
/// The only script. It requests the page that is open, and nothing else.
const SCRIPT: &str = include_str!("live.js");

/// The frame around the content of every page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Notes about all pages: files that are not read yet, and limits that were reached.
    pub notes: Vec<String>,
    /// Address of the same content as JSON.
    pub json: String,
    /// The first side of a comparison, if the reader chose one.
    pub chosen: Option<Chosen>,
}

/// The first side of a comparison, as an address names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name, or the reason why there is none: the choice may be gone, or may match several records.
    pub name: Result<String, String>,
    /// Address of the same page without the choice.
    pub forget: String,
}

/// The links on every page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Runs,
    Records,
    History,
    None,
}

const TABS: [(Tab, &str, &str); 3] =
    [(Tab::Runs, "/", "Runs"), (Tab::Records, "/records", "Records"), (Tab::History, "/history", "History")];

/// The content security policy of these pages and of record pages. It allows exactly these scripts and styles, and no other
/// source.
pub fn policy() -> String {
    let hash = |parts: &[&str]| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(parts.concat())));
    // A heatmap on a run's page brings its own script, as it does in a file.
    let of_pictures = hash(&[&heatmap::picture_style()]);
    let styles =
        [hash(&[STYLE, OWN_STYLE]), hash(&[STYLE, heatmap::OWN_STYLE, OWN_STYLE]), of_pictures].join(" ");
    let scripts = [hash(&[SCRIPT]), hash(&[heatmap::SCRIPT])].join(" ");
    format!(
        "default-src 'none'; style-src {styles}; script-src {scripts}; connect-src 'self'; img-src data:; form-action 'self'; base-uri \
         'none'; frame-ancestors 'none'"
    )
}

/// A page with the reason why the requested page is missing.
pub fn problem(title: &str, why: &str) -> String {
    let main = [el("p").class("sentence").text(why), el("p").child(link("/", "All runs"))];
    document(title, Tab::None, &Around::default(), main)
}

pub(super) fn document(
    title: &str,
    tab: Tab,
    around: &Around,
    content: impl IntoIterator<Item = Element>,
) -> String {
    let main = el("main")
        .attr("id", "main")
        .attr("tabindex", "-1")
        .child(el("h1").text(title))
        .children(chosen(around))
        .children(content);
    let body = el("body").child(skip()).child(bar(tab)).child(main).child(footer(around));
    let html = el("html").attr("lang", "en").child(head(title)).child(body);
    Markup::constant("<!DOCTYPE html>\n").with(html).with(Markup::constant("\n")).into_string()
}

fn head(title: &str) -> Element {
    let meta = [
        "<meta charset=\"utf-8\">",
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
        "<meta name=\"color-scheme\" content=\"light dark\">",
        // Without it, browsers request an icon.
        "<link rel=\"icon\" href=\"data:,\">",
    ];
    el("head")
        .children(meta.map(Markup::constant))
        .child(el("title").text(&format!("{title} – Hone")))
        .child(el("style").child(Markup::constant(STYLE)).child(Markup::constant(OWN_STYLE)))
}

pub(super) fn skip() -> Element {
    el("a").class("skip").attr("href", "#main").text("Skip to the content")
}

pub(super) fn bar(tab: Tab) -> Element {
    let item = |(own, address, name): &(Tab, &'static str, &'static str)| {
        let link = el("a").attr("href", address).text(name);
        el("li").child(if *own == tab { link.attr("aria-current", "page") } else { link })
    };
    let list = el("ul").children(TABS.iter().map(item));
    let name = el("span").class("name").text("Hone");
    // There is no header here: the report below has its own.
    el("nav").class("desk").attr("aria-label", "Pages").child(name).child(list)
}

fn chosen(around: &Around) -> Option<Element> {
    let Chosen { name, forget } = around.chosen.as_ref()?;
    let text = match name {
        Ok(name) => format!("A is {name}. Choose a record to compare with it, or "),
        Err(why) => format!("There is no A: {why}. Choose another record, or "),
    };
    Some(
        el("p")
            .class("chosen")
            .attr("role", "status")
            .text(&text)
            .child(link(forget, "clear the choice"))
            .text("."),
    )
}

fn footer(around: &Around) -> Element {
    let json = (!around.json.is_empty())
        .then(|| el("p").child(el("a").attr("href", &around.json).text("This page as JSON")));
    el("footer").class("foot").children(around.notes.iter().map(|note| el("p").text(note))).children(json)
}

pub(super) fn script() -> Element {
    el("script").child(Markup::constant(SCRIPT))
}

pub(super) fn link(address: &str, text: &str) -> Element {
    el("a").attr("href", address).text(text)
}

/// A link whose text alone says little. Screen readers get the rest of the text.
pub(super) fn link_to(address: &str, text: &str, of: &str) -> Element {
    el("a").attr("href", address).text(text).child(el("span").class("heard").text(&format!(" {of}")))
}

pub(super) fn when(unix_ms: u64) -> String {
    if unix_ms == 0 { quantity::NONE.to_owned() } else { quantity::date_utc(unix_ms) }
}
