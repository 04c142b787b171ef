//! What stands around the content of every page: head, style, script, ways to the other pages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::document::STYLE;
use crate::tree::{Element, Markup, el};
use crate::{heatmap, quantity};

/// Style of these pages, behind that of all.
pub(super) const OWN_STYLE: &str = include_str!("desk.css");
/// The one script. It asks for the page that is shown, and for nothing else.
const SCRIPT: &str = include_str!("live.js");

/// What stands around the content of every page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// What a reader has to know of all that is shown: files that are not read yet, limits that were reached.
    pub notes: Vec<String>,
    /// Address of the same as JSON.
    pub json: String,
    /// What was chosen as the first side of a comparison.
    pub chosen: Option<Chosen>,
}

/// What an address names as the first side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// Its name, or why there is none: what was chosen may be gone, or stand for several.
    pub name: Result<String, String>,
    /// The address of the same page without it.
    pub forget: String,
}

/// The places that every page leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tab {
    Runs,
    Records,
    History,
    None,
}

const TABS: [(Tab, &str, &str); 3] =
    [(Tab::Runs, "/", "Runs"), (Tab::Records, "/records", "Records"), (Tab::History, "/history", "History")];

/// The policy under which all these pages, and those of records, are shown: these very scripts and styles, and nothing from anywhere else.
pub fn policy() -> String {
    let hash = |parts: &[&str]| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(parts.concat())));
    // A heatmap beside a run brings its own, as it does as a file.
    let of_pictures = hash(&[&heatmap::picture_style()]);
    let styles =
        [hash(&[STYLE, OWN_STYLE]), hash(&[STYLE, heatmap::OWN_STYLE, OWN_STYLE]), of_pictures].join(" ");
    let scripts = [hash(&[SCRIPT]), hash(&[heatmap::SCRIPT])].join(" ");
    format!(
        "default-src 'none'; style-src {styles}; script-src {scripts}; connect-src 'self'; img-src data:; form-action 'self'; base-uri \
         'none'; frame-ancestors 'none'"
    )
}

/// A page that says why there is none.
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
        // Browsers ask for one otherwise.
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
    // No header: a report below has its own.
    el("nav").class("desk").attr("aria-label", "Pages").child(name).child(list)
}

fn chosen(around: &Around) -> Option<Element> {
    let Chosen { name, forget } = around.chosen.as_ref()?;
    let text = match name {
        Ok(name) => format!("A is {name}. Choose what to compare with it, or "),
        Err(why) => format!("There is no A: {why}. Take another one, or "),
    };
    Some(
        el("p").class("chosen").attr("role", "status").text(&text).child(link(forget, "forget it")).text("."),
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

/// A link whose text says little where it is read alone: the rest is for those who hear it.
pub(super) fn link_to(address: &str, text: &str, of: &str) -> Element {
    el("a").attr("href", address).text(text).child(el("span").class("heard").text(&format!(" {of}")))
}

pub(super) fn when(unix_ms: u64) -> String {
    if unix_ms == 0 { quantity::NONE.to_owned() } else { quantity::date_utc(unix_ms) }
}
