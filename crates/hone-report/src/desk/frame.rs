//! The frame of every page: head, style, script and navigation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hone_record::{RunState, ShelfRun};
use sha2::{Digest as _, Sha256};

use crate::document::{SCRIPT as COPY_SCRIPT, STYLE};
use crate::tree::{Element, Markup, el};
use crate::{heatmap, quantity};

/// Style of these pages, loaded after the common style.
pub(super) const OWN_STYLE: &str = include_str!("desk.css");
/// The script of these pages. It requests pages of this server, and nothing else.
const SCRIPT: &str = include_str!("live.js");

/// The frame around the content of every page.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Around {
    /// Notes about all pages: files that are not read yet, and limits that were reached.
    pub notes: Vec<String>,
    /// Address of the same content as JSON.
    pub json: String,
    /// Address of this page, for links to its parts.
    pub here: String,
    /// Whether the numbers of this page can be downloaded.
    pub has_csv: bool,
    /// The current time, milliseconds since 1970.
    pub now_unix_ms: u64,
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
    Topics,
    None,
}

const TABS: [(Tab, &str, &str); 4] = [
    (Tab::Runs, "/", "Runs"),
    (Tab::Records, "/records", "Records"),
    (Tab::History, "/history", "History"),
    (Tab::Topics, "/topics", "Topics"),
];

/// The content security policy of these pages and of record pages. It allows exactly these scripts and styles, and no other
/// source.
pub fn policy() -> String {
    let hash = |parts: &[&str]| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(parts.concat())));
    // A heatmap on a run's page brings its own script, as it does in a file.
    let of_pictures = hash(&[&heatmap::picture_style()]);
    let styles =
        [hash(&[STYLE, OWN_STYLE]), hash(&[STYLE, heatmap::OWN_STYLE, OWN_STYLE]), of_pictures].join(" ");
    let scripts = [SCRIPT, heatmap::SCRIPT, COPY_SCRIPT].map(|script| hash(&[script])).join(" ");
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
    framed(title, bar(tab), Some(footer(around)), chosen(around).into_iter().chain(content))
}

/// The only page of a server: a frame without links to other pages.
pub(super) fn lone_document(title: &str, content: impl IntoIterator<Item = Element>) -> String {
    let name = el("span").class("name").text("Hone");
    framed(title, el("header").class("desk").child(name), None, content)
}

fn framed(
    title: &str,
    above: Element,
    below: Option<Element>,
    content: impl IntoIterator<Item = Element>,
) -> String {
    let main = el("main").class("bench").attr("id", "main").attr("tabindex", "-1");
    let main = main.child(el("h1").text(title)).children(content);
    let body = el("body").child(skip()).child(above).child(main).children(below).child(script());
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
        Ok(name) => format!("{name} is the first side, A. Choose the second side, or "),
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
    let csv = (around.has_csv && !around.here.is_empty()).then(|| {
        el("p").child(el("a").attr("href", with(&around.here, "csv", "1")).text("The numbers as CSV"))
    });
    let notes = around.notes.iter().map(|note| el("p").text(note));
    el("footer").class("foot").children(notes).children(csv).children(json)
}

fn script() -> Element {
    el("script").child(Markup::constant(SCRIPT))
}

/// An address with one more word in its query. Both are plain: letters, digits and hyphens.
pub(super) fn with(address: &str, name: &str, value: &str) -> String {
    let sign = if address.contains('?') { '&' } else { '?' };
    format!("{address}{sign}{name}={value}")
}

/// Without a script this is a link; with a script it is a switch. Readers must be able to pause a page that changes by itself.
pub(super) fn refresher() -> Element {
    el("p")
        .class("refresh")
        .child(
            el("span")
                .attr("id", "said")
                .attr("role", "status")
                .text("This page does not refresh by itself. "),
        )
        .child(el("a").attr("id", "again").attr("href", "").text("Refresh"))
        .text(" ")
        .child(el("button").attr("id", "pause").attr("type", "button").attr("hidden", "").text("Pause"))
}

/// Text to paste, with a button that copies it. Without a script, one click selects all of it.
pub(super) fn copyable(text: &str) -> Element {
    let button = el("button").class("copy").attr("type", "button").attr("hidden", "").text("Copy");
    el("div").class("copyable").child(el("pre").class("command").child(el("code").text(text))).child(button)
}

/// Links that download the pictures of this page: `(id, name)` of each.
pub(super) fn downloads(around: &Around, pictures: &[(&str, &str)]) -> Option<Element> {
    if around.here.is_empty() || pictures.is_empty() {
        return None;
    }
    let item = |(id, name): &(&str, &str)| {
        let address = with(&around.here, "svg", id);
        let png = el("a")
            .class("png")
            .attr("href", &address)
            .attr("data-name", id)
            .attr("hidden", "")
            .text("PNG")
            .child(el("span").class("heard").text(&format!(" of {name}")));
        el("li")
            .text(&format!("{name}: "))
            .child(link_to(&address, "SVG", &format!("of {name}")))
            .text(" ")
            .child(png)
    };
    let list = el("ul").children(pictures.iter().map(item));
    Some(el("nav").class("downloads").attr("aria-label", "Download the pictures").child(list))
}

/// A time as its distance from now, with the date on hover.
pub(super) fn ago(unix_ms: u64, now_unix_ms: u64) -> Element {
    let date = when(unix_ms);
    if unix_ms == 0 || now_unix_ms == 0 {
        return el("span").class("word").text(&date);
    }
    let relative = match now_unix_ms.saturating_sub(unix_ms) / 1_000 {
        0..60 => "just now".to_owned(),
        seconds @ 60..5_184_000 => format!("{}\u{a0}ago", age(seconds)),
        _ => date.get(..10).unwrap_or(&date).to_owned(),
    };
    el("span").class("word").attr("title", &date).text(&relative)
}

/// A time span in its largest unit.
fn age(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{}\u{a0}min", seconds / 60),
        3_600..172_800 => format!("{}\u{a0}h", seconds / 3_600),
        _ => format!("{}\u{a0}days", seconds / 86_400),
    }
}

/// How long a running run has been silent. `left_s` is the expected time until its last pair: the server knows none for a run
/// that has measured pairs and then wrote nothing for much longer than a pair takes.
pub(super) fn silence(run: &ShelfRun, pairs: u64, left_s: Option<f64>, now_unix_ms: u64) -> Option<String> {
    let seconds = now_unix_ms.saturating_sub(run.at_unix_ms) / 1_000;
    let is_silent = run.state == RunState::Running && pairs > 0 && left_s.is_none() && seconds >= 60;
    is_silent.then(|| age(seconds))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_told_as_its_distance_with_the_date_behind_it() {
        const NOW: u64 = 1_795_200_420_000;
        let html = |ms: u64| Markup::from(ago(ms, NOW)).into_string().replace('\u{a0}', " ");
        for (age_s, text) in [(0, "just now"), (61, "1 min ago"), (7_300, "2 h ago"), (400_000, "4 days ago")]
        {
            let shown = html(NOW - age_s * 1_000);
            assert!(shown.contains(&format!(">{text}<")) && shown.contains("title=\"2026-11-"), "{shown}");
        }
        assert!(html(NOW - 90 * 86_400_000).contains(">2026-08-"));
        assert!(html(NOW + 5_000).contains("just now"), "another clock may be ahead");
        assert!(!html(0).contains("ago"));
    }

    #[test]
    fn parts_of_a_page_have_addresses_of_their_own() {
        assert_eq!(with("/compare?a=1", "csv", "1"), "/compare?a=1&csv=1");
        assert_eq!(with("/history/0", "svg", "history"), "/history/0?svg=history");
        assert!(downloads(&Around::default(), &[("x", "X")]).is_none());
    }
}
