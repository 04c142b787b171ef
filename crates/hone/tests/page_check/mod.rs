//! What every page has to hold in a real browser: no text leaves the page or overlaps, contrasts, names, keys and paper are right, and no
//! request goes elsewhere.

use std::collections::BTreeMap;
use std::fs;

use serde_json::json;

use crate::browser::{Browser, keep};
use crate::stage::tools::{of_checkout, skip};

/// The checks that run inside the page.
const CHECKS: &str = include_str!("check.js");
/// Width and height of a desktop's, a tablet's and a phone's window in pixels.
const WINDOWS: [(u32, u32); 3] = [(1280, 800), (768, 1024), (390, 844)];
const SCHEMES: [&str; 2] = ["light", "dark"];
/// Windows in which axe runs, and its rules there: all, or those about colours. They take most of the time.
const RULES_IN: [(u32, &str, &str); 3] = [
    (1280, "light", "look.rules(false)"),
    (1280, "dark", "look.rules(true)"),
    (390, "light", "look.rules(false)"),
];
/// Windows that show the verdict without scrolling.
const VERDICT_IN: [u32; 2] = [1280, 390];
/// Pixels between the margins of a sheet, by the `@page` rule of the pages.
const SHEETS: [(&str, u32); 2] = [("A4", 688), ("Letter", 710)];
/// Presses of Tab that scrolling regions may take in addition to what has a link, a field or a button.
const REGIONS: usize = 60;

/// A page and what it has to hold beyond the checks of every page.
pub(crate) struct Page {
    /// The begin of its pictures' names.
    pub(crate) name: String,
    pub(crate) url: String,
    /// Requests to addresses that begin with this stay within the page.
    pub(crate) origin: String,
    /// Whether the first screen shows a verdict.
    pub(crate) has_verdict: bool,
    /// Sheets of paper, at most.
    pub(crate) sheets: usize,
    /// A complaint of the browser that the page brings about by design.
    pub(crate) expected_complaint: Option<&'static str>,
}

/// A browser that visits pages and collects their faults.
pub(crate) struct Checker {
    browser: Browser,
    axe: String,
    page: String,
    /// Windows by page and fault.
    faults: BTreeMap<(String, String), Vec<String>>,
    pages: usize,
}

impl Checker {
    /// `None` is a skip.
    pub(crate) fn start() -> Option<Self> {
        let axe = axe()?;
        let mut browser = Browser::start()?;
        // Where they take room, they take it from phones, too.
        browser.call("Emulation.setScrollbarsHidden", json!({"hidden": true}));
        Some(Self { browser, axe, page: String::new(), faults: BTreeMap::new(), pages: 0 })
    }

    /// Opens a page, checks it in every window and on paper, and saves its pictures.
    pub(crate) fn check(&mut self, page: &Page) {
        self.pages += 1;
        self.page.clone_from(&page.name);
        self.resize(WINDOWS[0], "light");
        self.browser.open(&page.url);
        self.browser.value(CHECKS);
        self.browser.value(&self.axe);
        self.collect("look.names()", "");
        for window in WINDOWS {
            for scheme in SCHEMES {
                self.in_window(page, window, scheme);
            }
        }
        self.keys();
        self.paper(page);
        self.requests(page);
    }

    /// All faults so far, each with its page and the windows that show it.
    pub(crate) fn faults(&self) -> Vec<String> {
        let lines = self.faults.iter().map(|((page, fault), windows)| {
            let windows: Vec<&str> =
                windows.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
            let windows =
                if windows.is_empty() { String::new() } else { format!(" [{}]", windows.join(", ")) };
            format!("{page}: {fault}{windows}")
        });
        lines.collect()
    }

    /// Fails with all faults of all pages.
    pub(crate) fn finish(self) {
        let faults = self.faults();
        assert!(faults.is_empty(), "{} faults of {} pages:\n{}", faults.len(), self.pages, faults.join("\n"));
    }

    fn add(&mut self, fault: String, window: &str) {
        self.faults.entry((self.page.clone(), fault)).or_default().push(window.to_owned());
    }

    /// Adds the faults that an expression of the page answers.
    fn collect(&mut self, expression: &str, window: &str) {
        let found = self.browser.value(expression);
        for fault in found.as_array().unwrap_or_else(|| panic!("{expression}: {found}")) {
            self.add(fault.as_str().unwrap().to_owned(), window);
        }
    }

    fn resize(&mut self, (width, height): (u32, u32), scheme: &str) {
        self.browser.size(width, height);
        self.browser.media("screen", scheme);
    }

    fn in_window(&mut self, page: &Page, (width, height): (u32, u32), scheme: &str) {
        let window = format!("{width} {scheme}");
        self.resize((width, height), scheme);
        self.browser.wait_for(&format!("innerWidth === {width}"));
        self.browser.value("look.settle()");
        let name = format!("{}-{width}-{scheme}", page.name);
        self.browser.screen(&name);
        self.browser.picture(&format!("{name}-full"));
        if page.has_verdict && VERDICT_IN.contains(&width) {
            self.collect("look.verdict()", &window);
        }
        self.browser.value("look.unfold()");
        self.collect("look.boxes(false)", &window);
        for (_, _, rules) in RULES_IN.iter().filter(|rules| (rules.0, rules.1) == (width, scheme)) {
            self.collect("look.drawings()", &window);
            self.collect(rules, &window);
        }
        self.browser.value("look.fold()");
    }

    /// Goes through the page by Tab.
    fn keys(&mut self) {
        self.resize(WINDOWS[0], "light");
        let count = self.browser.value("look.listen()").as_u64().unwrap();
        (0..count).for_each(|_| self.browser.press("Tab"));
        for _ in 0..REGIONS {
            if self.browser.value("look.ended()") == json!(true) {
                break;
            }
            self.browser.press("Tab");
        }
        self.collect("look.keys()", "");
    }

    fn paper(&mut self, page: &Page) {
        for (sheet, width) in SHEETS {
            self.browser.size(width, 1000);
            self.browser.media("print", "light");
            self.browser.wait_for(&format!("innerWidth === {width}"));
            self.collect("look.boxes(true)", sheet);
        }
        self.browser.media("", "light");
        let pdf = self.browser.pdf();
        keep(&format!("{}-print.pdf", page.name), &pdf);
        let sheets = sheets(&pdf);
        if !(1..=page.sheets).contains(&sheets) {
            self.add(format!("it takes {sheets} sheets of paper, at most {}", page.sheets), "");
        }
    }

    fn requests(&mut self, page: &Page) {
        let is_own =
            |url: &String| url.starts_with(&page.origin) || url.starts_with("data:") || url == "about:blank";
        let asked = std::mem::take(&mut self.browser.asked);
        assert!(asked.iter().any(|url| url.starts_with(&page.origin)), "{}: {asked:?}", page.url);
        for url in asked.into_iter().filter(|url| !is_own(url)) {
            self.add(format!("a request leaves the page: {url}"), "");
        }
        let complaints = std::mem::take(&mut self.browser.complaints);
        let is_expected =
            |text: &str| page.expected_complaint.is_some_and(|expected| text.contains(expected));
        for complaint in complaints.into_iter().filter(|text| !is_expected(text)) {
            self.add(format!("the browser complains: {complaint}"), "");
        }
    }
}

/// The source of axe-core. `None` is a skip.
fn axe() -> Option<String> {
    let path = of_checkout(".hone/axe/axe.min.js");
    let found = fs::read_to_string(&path).ok();
    if found.is_none() {
        skip(&format!("there is no {}; run script/bootstrap --test", path.display()));
    }
    found
}

/// Pages of a PDF.
fn sheets(pdf: &[u8]) -> usize {
    let text = String::from_utf8_lossy(pdf);
    text.split("/Type /Page").skip(1).filter(|rest| !rest.starts_with('s')).count()
}
