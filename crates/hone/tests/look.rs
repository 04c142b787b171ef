//! Every kind of page in a real Chromium: at three widths, light and dark, on paper, by keys and for screen readers. `script/pictures` runs it
//! to make pictures of all pages.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use hone_record::{Body, Envelope, Environment, Machine, Window};
use serde_json::{Value, json};

#[path = "stage/browser.rs"]
mod browser;
#[path = "../../hone-document/tests/every_kind/mod.rs"]
mod every_kind;
mod page_check;
#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
mod stage;
use page_check::{Checker, Page};
use stage::runs::version_0_1;
use stage::{first_line, hone_command, hone_in};

/// Sheets of paper that a page takes, at most.
const SHEETS: usize = 10;
/// The same for two records next to each other, with all fields that differ.
const SHEETS_OF_RECORDS: usize = 20;
/// Commits in the history of a metric. The last ones are slower.
const COMMITS: u64 = 16;
const SLOWER_FROM: u64 = 9;

/// What `hone serve` shows.
const SERVED: [&str; 10] =
    ["runs", "optimize", "gate", "host", "tune", "cut", "xray.json", COMMITS_IN, COMPARISONS_IN, SINGLE_IN];
const COMMITS_IN: &str = "nightly";
const COMPARISONS_IN: &str = "compared";
const SINGLE_IN: &str = "single";

/// Each run of the fixture that has a report.
const RUNS: [&str; 10] = [
    "load.json",
    "load-consumers.json",
    "runs/compare-001",
    "runs/batch-prove-001",
    "runs/capacity-001",
    "runs/curve-001",
    "optimize/calc-001",
    "gate/calc-gate-001",
    "host/host-try-001",
    "tune/orders-001",
];

#[test]
fn every_page_holds_in_a_browser() {
    let Some(mut checker) = Checker::start() else { return };
    let (folder, runs) = (tempfile::tempdir().unwrap(), version_0_1());
    written_documents(folder.path()).iter().for_each(|page| checker.check(page));
    reported_runs(runs.path(), folder.path()).iter().for_each(|page| checker.check(page));
    add_commits(&runs.path().join(COMMITS_IN));
    add_comparisons(&runs.path().join(COMPARISONS_IN));
    add_single_records(&runs.path().join(SINGLE_IN));
    // A held lock is how a run that goes on is known.
    let lock = fs::File::create(runs.path().join("cut/compare-001/lock")).unwrap();
    lock.try_lock().unwrap();
    let server = Server::start(runs.path());
    server.pages().iter().for_each(|page| checker.check(page));
    checker.finish();
}

/// What the checks find in `page_check/bad.html`, which has one fault of each kind.
const PLANTED: [&str; 22] = [
    "the page has 0 h1",
    "a drawing is neither hidden nor an image: <svg> \"pale label\"",
    "an image has no name: <svg>",
    "a figure has no name: <figure>",
    "a table has no caption: <table>",
    "the verdict is not in the first screen",
    "the page scrolls sideways",
    "leaves the page: <div.broad> \"a broad block\"",
    "texts overlap: \"one text\" and \"another text\"",
    "texts overlap: \"folded one\" and \"folded two\"",
    "cut by its drawing's edge: \"a label that the edge cuts\"",
    "contrast of a drawing's text is 1.61: \"pale label\"",
    "axe color-contrast: .pale",
    "axe page-has-heading-one",
    "axe svg-img-alt",
    "Tab goes back in the page: from <a> \"out of order\"",
    "the focus can't be seen: <a.plain>",
    "Tab does not lead to <button> \"out of reach\"",
    "cut on paper: <div.scroll>",
    "a request leaves the page: https://example.com/picture.png",
    "the browser complains: [{\"type\":\"string\",\"value\":\"as planted\"}]",
    "it takes 2 sheets of paper, at most 1",
];

#[test]
fn planted_faults_are_found_and_a_good_page_has_none() {
    let Some(mut checker) = Checker::start() else { return };
    let page = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/page_check/{name}.html"));
        Page { sheets: 1, ..in_file(name, &path) }
    };
    checker.check(&page("good"));
    assert_eq!(checker.faults(), Vec::<String>::new());
    checker.check(&page("bad"));
    let faults = checker.faults();
    let is_missed =
        |planted: &&&str| !faults.iter().any(|fault| fault.starts_with(&format!("bad: {planted}")));
    let missed: Vec<&&str> = PLANTED.iter().filter(is_missed).collect();
    assert!(missed.is_empty(), "not found: {missed:#?}\n{}", faults.join("\n"));
    // Inside of a scrolling region a block may be as wide as it likes.
    assert!(
        !faults.iter().any(|fault| fault.contains("leaves the page: <div.broad> \"a block that scrolls\""))
    );
}

/// A page in a file.
fn in_file(name: &str, path: &Path) -> Page {
    let origin = format!("file://{}/", path.parent().unwrap().display());
    Page {
        name: name.to_owned(),
        url: format!("file://{}", path.display()),
        origin,
        // A heatmap is a map without a verdict.
        has_verdict: name != "heatmap",
        sheets: SHEETS,
        expected_complaint: None,
    }
}

/// Sample documents of every kind, as pages in a folder.
fn written_documents(folder: &Path) -> Vec<Page> {
    let documents = every_kind::documents_of_every_kind().into_iter();
    let pages = documents.map(|(kind, document)| {
        let name = kind.replace(' ', "-");
        let path = folder.join(format!("{name}.html"));
        fs::write(&path, document.html()).unwrap();
        in_file(&name, &path)
    });
    pages.collect()
}

/// Reports of real runs, which version 0.1 left.
fn reported_runs(runs: &Path, folder: &Path) -> Vec<Page> {
    let pages = RUNS.iter().map(|run| {
        let name = format!("run-{}", run.trim_end_matches(".json").replace('/', "-"));
        let path = folder.join(format!("{name}.html"));
        hone_in(runs, &["report", run, "-o", path.to_str().unwrap()]).expect_code(0);
        in_file(&name, &path)
    });
    pages.collect()
}

/// Saves a record in a file.
fn save<T: Body>(path: &Path, body: T) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, Envelope::new(body).to_text().unwrap()).unwrap();
}

/// Windows of commits, so that metrics have a history.
fn add_commits(folder: &Path) {
    for number in 0..COMMITS {
        let factor = if number < SLOWER_FROM { 1.0 } else { 1.25 };
        save(&folder.join(format!("{number:02}.json")), commit_window(number, factor));
    }
}

/// Two comparisons, to be compared.
fn add_comparisons(folder: &Path) {
    for (name, effect) in [("one.json", 0.888), ("other.json", 0.95)] {
        save(&folder.join(name), sample::comparison("validate", effect, &mut BTreeMap::new()));
    }
}

/// A load, an X-ray, a diagnosis and a tail, each in a folder that its command made.
fn add_single_records(folder: &Path) {
    save(&folder.join("load-001/window.json"), sample::window("target", 1, 1.0));
    save(&folder.join("batch-xray-001/xray.json"), sample::xray());
    save(&folder.join("redis-diagnosis-001/diagnosis.json"), sample::diagnosis());
    save(&folder.join("tail-001/tail.json"), sample::tail());
    for name in ["load-001", "batch-xray-001", "redis-diagnosis-001", "tail-001"] {
        fs::write(folder.join(name).join("command.json"), "[]").unwrap();
    }
}

fn commit_window(number: u64, factor: f64) -> Window {
    let mut window = sample::window("target", number, factor);
    let machine = Machine { cpu_model: "Example 9".to_owned(), cores: 2, ..Machine::default() };
    window.started_unix_ms = 1_795_200_420_000 + number * 60_000;
    let commit = Some(hone_binary::sha256_hex(&number.to_le_bytes())[..40].to_owned());
    window.environment = Some(Environment { machine, commit, ..Environment::default() });
    window
}

/// `hone serve` in a folder; ended on drop.
struct Server {
    child: Child,
    /// Ends with a slash.
    address: String,
}

impl Server {
    fn start(folder: &Path) -> Self {
        let mut child = hone_command()
            .arg("serve")
            .args(SERVED)
            .args(["--listen", "127.0.0.1:0"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = first_line(&mut child).trim().to_owned();
        assert!(address.starts_with("http://127.0.0.1:") && address.ends_with('/'), "`{address}`");
        Self { child, address }
    }

    /// The body of the record that a path answers.
    #[track_caller]
    fn body(&self, path: &str) -> Value {
        let host = self.address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, text) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
        let record: Value =
            serde_json::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}: {text}"));
        record["body"].clone()
    }

    /// Waits until all files are read.
    fn settle(&self) {
        let until = Instant::now() + Duration::from_secs(120);
        while self.body("/records.json")["notes"] != json!([]) {
            assert!(Instant::now() < until, "{}", self.body("/records.json"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    #[track_caller]
    fn run(&self, path: &str) -> String {
        id(&self.body(&format!("/?q={path}&json"))["runs"]["items"], path)
    }

    #[track_caller]
    fn record(&self, path: &str) -> String {
        id(&self.body(&format!("/records.json?q={path}"))["records"]["items"], path)
    }

    /// The history over commits.
    fn history(&self) -> String {
        let found = self.body("/history.json");
        let lines = found["lines"].as_array().unwrap();
        let line = lines.iter().find(|line| line["over"] == "commits").unwrap_or_else(|| panic!("{found}"));
        line["id"].as_str().unwrap().to_owned()
    }

    fn ledger(&self) -> String {
        id(&self.body("/?json")["ledgers"], "tune/ledger.jsonl")
    }

    /// A page of every kind.
    fn pages(&self) -> Vec<Page> {
        self.settle();
        let two = |a: &str, b: &str| format!("compare?a={}&b={}", self.record(a), self.record(b));
        let ledger = self.ledger();
        let comparison = "runs/compare-001/comparison.json";
        [
            ("home", String::new()),
            ("home-filtered", "?q=tune".to_owned()),
            ("records", "records".to_owned()),
            ("run", format!("run/{}", self.run("runs/compare-001"))),
            ("run-live", format!("run/{}", self.run("cut/compare-001"))),
            ("record", format!("record/{}", self.record(comparison))),
            ("record-window", format!("record/{}", self.record("nightly/00.json"))),
            ("topics", "topics".to_owned()),
            ("histories", "history".to_owned()),
            ("history", format!("history/{}?metric=latency-p50", self.history())),
            ("compare-windows", two("nightly/00.json", "nightly/15.json")),
            ("compare-comparisons", two("compared/one.json", "compared/other.json")),
            ("compare-records", two(comparison, "runs/capacity-001/capacity.json")),
            ("ledger", format!("ledger/{ledger}")),
            ("ledger-story", format!("ledger/{ledger}/story")),
            ("missing", "nothing".to_owned()),
        ]
        .map(|(name, path)| self.page(name, &path))
        .into()
    }

    fn page(&self, name: &str, path: &str) -> Page {
        Page {
            name: format!("serve-{name}"),
            url: format!("{}{path}", self.address),
            origin: self.address.clone(),
            has_verdict: false,
            sheets: if name == "compare-records" { SHEETS_OF_RECORDS } else { SHEETS },
            expected_complaint: (name == "missing").then_some("404"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The id of the item whose path ends like this.
#[track_caller]
fn id(items: &Value, path: &str) -> String {
    let mut all = items.as_array().into_iter().flatten();
    let found = all.find(|item| item["path"].as_str().is_some_and(|known| known.ends_with(path)));
    found.unwrap_or_else(|| panic!("no {path} in {items}"))["id"].as_str().unwrap().to_owned()
}
