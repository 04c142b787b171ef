//! `hone report` of a ledger and of a run: the page in a browser, and its other forms.

#![expect(clippy::disallowed_methods, reason = "tests start a browser as its users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hone_ledger::Ledger;
use hone_record::{Envelope, LedgerEntry, RecordRef, RecordRole, Story};
use serde_json::Value;

#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
mod stage;
#[path = "stage/tuning_run.rs"]
mod tuning_run;
use stage::hone_in;
use stage::tools::find;

/// A ledger whose entries have their runs beside it.
struct Told {
    dir: tempfile::TempDir,
}

impl Told {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::at(dir.path().join("runs/ledger.jsonl"));
        for place in 0..sample::CHAPTERS {
            let run = dir.path().join(format!("runs/broker-{place:03}"));
            fs::create_dir_all(run.join("windows")).unwrap();
            for (path, _, window) in sample::chapter_windows(place) {
                fs::write(run.join(path), Envelope::new(window).to_text().unwrap()).unwrap();
            }
            let sha256 = |path: &str| hone_binary::sha256_hex(&fs::read(run.join(path)).unwrap());
            let entry =
                LedgerEntry { run: run.display().to_string(), ..sample::chapter_entry(place, sha256) };
            ledger.append(&entry).unwrap();
        }
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn story(&self, words: &[&str]) -> Story {
        let ran = hone_in(self.path(), &[&["report", "--json"], words].concat()).expect_code(0);
        Envelope::parse(&ran.stdout).unwrap()
    }
}

#[test]
fn a_ledger_is_told_with_the_figures_of_its_windows() {
    let told = Told::new();
    hone_in(told.path(), &["ledger", "verify", "--with-records"]).expect_code(0);
    let story = told.story(&["runs"]);
    let sample = sample::story();
    assert_eq!(story.chapters.len(), sample::CHAPTERS);
    for (found, known) in story.chapters.iter().zip(&sample.chapters) {
        for (found, known) in [(&found.before, &known.before), (&found.after, &known.after)] {
            assert!(found.latency == known.latency, "the very histogram");
            assert_eq!((found.windows, found.acked_records), (known.windows, known.acked_records));
            let [found, known] = [found, known].map(|state| state.cpu_us_per_record().unwrap());
            assert!((found / known - 1.0).abs() < 1e-12, "{found} {known}");
        }
        let of = |rows: &[hone_record::WindowRow]| -> Vec<_> {
            rows.iter().map(|row| (row.path.clone(), row.role, row.latency_us)).collect()
        };
        assert_eq!(of(&found.windows), of(&known.windows));
    }
    assert!(story.limits.is_empty() && story.heads.len() == 1);
    let page = hone_in(told.path(), &["report", "runs/ledger.jsonl"]).expect_code(0).stdout;
    assert_eq!(page.trim(), "runs/story.html");

    let markdown = hone_in(told.path(), &["report", "runs", "--markdown"]).expect_code(0).stdout;
    assert!(markdown.contains("| p99.999 |") && markdown.contains("Predicted and measured"), "{markdown}");
    let comment = hone_in(told.path(), &["report", "runs", "--pr-comment"]).expect_code(0).stdout;
    assert!(comment.lines().count() < 30 && comment.contains("3 of 6 changes kept"), "{comment}");
    hone_in(told.path(), &["report", "runs", "--pr-comment", "-o", "comment.md"]).expect_code(0);
    assert_eq!(fs::read_to_string(told.path().join("comment.md")).unwrap(), comment);
    for form in ["--pr-comment", "--markdown"] {
        let both = hone_in(told.path(), &["report", "runs", form, "--json"]).expect_code(2);
        both.expect_error(&format!("{form} and --json exclude each other"));
    }
    let window = "runs/broker-000/windows/000-a.json";
    hone_in(told.path(), &["report", window, "--pr-comment"])
        .expect_code(2)
        .expect_error("has no run summary");
    hone_in(told.path(), &["report", window]).expect_code(0);
}

#[test]
fn windows_that_are_gone_or_changed_are_told_and_not_counted() {
    let told = Told::new();
    let run = told.path().join("runs/broker-003");
    fs::remove_file(run.join("windows/000-b.json")).unwrap();
    let changed = run.join("windows/001-b.json");
    let text = fs::read_to_string(&changed).unwrap();
    fs::write(&changed, text.replacen("\"acked_requests\"", " \"acked_requests\"", 1)).unwrap();
    let story = told.story(&["runs"]);
    assert_eq!((story.chapters[3].before.windows, story.chapters[3].after.windows), (3, 1));
    let said = story.limits.join(" ");
    assert!(
        said.contains("1 of 5 windows no longer exist") && said.contains("1 of 5 windows were changed since"),
        "{said}"
    );
    // Runs that were moved with their ledger are found beside it.
    fs::rename(told.path().join("runs"), told.path().join("kept")).unwrap();
    assert_eq!(told.story(&["kept"]).chapters[0].after.windows, 3);
    // A ledger that was edited says so on its page.
    let path = told.path().join("kept/ledger.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"keep\"", "\"drop\"", 1)).unwrap();
    assert!(
        told.story(&["kept"])
            .limits
            .iter()
            .any(|limit| limit.starts_with("Line 1 of the ledger was changed after it was written"))
    );
}

/// A path in a ledger is foreign text, and leads nowhere else.
#[test]
fn a_record_outside_of_its_run_is_not_read() {
    let told = Told::new();
    let ledger = Ledger::at(told.path().join("runs/ledger.jsonl"));
    let mut entry = ledger.read().unwrap().lines[0].entry.clone();
    for record in &mut entry.records {
        record.path = format!("../broker-000/{}", record.path);
    }
    ledger.append(&entry).unwrap();
    assert_eq!(told.story(&["runs"]).chapters.last().unwrap().after.windows, 0);
}

/// Branches of two machines were merged, and both have numbered their runs from one on.
#[test]
fn a_colleagues_run_of_the_same_name_is_neither_shown_nor_called_changed() {
    let told = Told::new();
    let ledger = Ledger::at(told.path().join("runs/ledger.jsonl"));
    let mut entry = ledger.read().unwrap().lines[0].entry.clone();
    entry.run = "/home/colleague/runs/broker-000".to_owned();
    entry.ratio = Some([0.123, 0.12, 0.13]);
    for record in &mut entry.records {
        record.sha256 = "ab".repeat(32);
    }
    ledger.append(&entry).unwrap();
    let verified =
        hone_in(told.path(), &["ledger", "verify", "--with-records", "--json"]).expect_code(0).json();
    let records = &verified["body"]["records"];
    assert_eq!(records["changed"], serde_json::json!([]));
    assert_eq!(records["gone"].as_u64().unwrap(), entry.records.len() as u64);
    let story = told.story(&["runs"]);
    assert_eq!(story.chapters.last().unwrap().after.windows, 0, "not the figures of our run");
    assert_eq!(story.chapters[0].after.windows, 3);
}

#[test]
fn the_page_of_a_run_carries_its_story() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs/broker-001");
    let (optimization, windows) = sample::optimization();
    for (name, window) in &windows {
        let path = run.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, Envelope::new(window.clone()).to_text().unwrap()).unwrap();
    }
    fs::write(run.join("optimization.json"), Envelope::new(optimization).to_text().unwrap()).unwrap();
    hone_in(dir.path(), &["report", "runs/broker-001"]).expect_code(0);
    let page = fs::read_to_string(run.join("report.html")).unwrap();
    assert!(page.contains("Percentiles, step by step") && page.contains("download=\"windows.csv\""));
    let comment = hone_in(dir.path(), &["report", "runs/broker-001", "--pr-comment"]).expect_code(0).stdout;
    assert!(comment.contains("binary: pgo (validate)"), "{comment}");
}

/// Around the page, which lies in a frame as it is: looks at its landmarks, opens what is folded, and counts what has a place in the order of the
/// keyboard.
const DRIVER: &str = r#"<!DOCTYPE html><meta charset="utf-8"><iframe id="f" style="width:WIDTHpx;height:900px"></iframe><pre id="seen"></pre><script>
addEventListener("load", async () => {
  const frame = document.getElementById("f");
  await new Promise((done) => { frame.onload = done; frame.srcdoc = PAGE; });
  const inner = frame.contentDocument, all = (selector) => [...inner.querySelectorAll(selector)];
  const summary = inner.querySelector("summary");
  summary.focus();
  const focused = inner.activeElement === summary;
  summary.click();
  const named = (region) => region.getAttribute("aria-label") || inner.getElementById(region.getAttribute("aria-labelledby"))?.textContent;
  const link = inner.querySelector("a[download='windows.csv']");
  const text = await (await fetch(link.href)).text();
  const styled = (element) => frame.contentWindow.getComputedStyle(element);
  document.getElementById("seen").textContent = JSON.stringify({
    landmarks: ["header", "main", "h1"].map((name) => all(name).length),
    regions: all("section, [role=group]").map(named),
    reachable: all("[tabindex='0'], a[href], summary").length,
    scopes: all("th").every((head) => head.scope), captions: all("table").every((table) => table.caption),
    focused, opened: inner.querySelector("details").open, csv: text.split("\r\n").length - 2,
    paper: styled(inner.body).backgroundColor, ink: styled(inner.body).color,
    wide: inner.documentElement.scrollWidth > inner.documentElement.clientWidth,
    scripts: all("script").length, asked: frame.contentWindow.performance.getEntriesByType("resource").length,
  });
});
</script>"#;

struct Browser {
    program: PathBuf,
    dir: tempfile::TempDir,
}

impl Browser {
    fn new() -> Option<Self> {
        Some(Self { program: find("chromium")?, dir: tempfile::tempdir().unwrap() })
    }

    fn run(&self, words: &[&str], address: &str) -> String {
        let ran = Command::new(&self.program)
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=20000",
                "--timeout=60000",
            ])
            .arg(format!("--user-data-dir={}", self.dir.path().join("profile").display()))
            .args(words)
            .arg(address)
            .stderr(Stdio::null())
            .output()
            .unwrap();
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// What the driver saw of a page.
    fn seen(&self, page: &str, width: u32, words: &[&str]) -> Value {
        let text = serde_json::to_string(page).unwrap().replace('<', "\\u003c");
        let driver =
            DRIVER.replacen("= PAGE;", &format!("= {text};"), 1).replacen("WIDTH", &width.to_string(), 1);
        let path = self.dir.path().join("driver.html");
        fs::write(&path, driver).unwrap();
        let dom = self.run(&[words, &["--dump-dom"]].concat(), &format!("file://{}", path.display()));
        let (_, json) = dom.split_once("<pre id=\"seen\">").unwrap_or_else(|| panic!("{dom}"));
        let json = json
            .split("</pre>")
            .next()
            .unwrap()
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&");
        serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}"))
    }
}

/// A run of `hone tune`, and a curve elsewhere.
fn tuned() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    tuning_run::lay(&dir.path().join("runs/orders-001"));
    fs::write(dir.path().join("curve.json"), Envelope::new(sample::curve()).to_text().unwrap()).unwrap();
    dir
}

/// Branches of two machines were merged, and both have a run at this path.
#[test]
fn the_page_of_a_run_takes_no_verdict_of_another_machines() {
    let dir = tuned();
    let run = dir.path().join("runs/orders-001").canonicalize().unwrap();
    let window = "windows/step-0-00-b.json";
    let decided = |sha256: String, ratio: f64| {
        let record = RecordRef { path: window.to_owned(), sha256, role: RecordRole::After };
        let entry = LedgerEntry {
            change: "client: linger=100ms".to_owned(),
            workload: "orders".to_owned(),
            ratio: Some([ratio; 3]),
            decision: "accepted".to_owned(),
            run: run.display().to_string(),
            records: vec![record],
            ..LedgerEntry::default()
        };
        Ledger::at(dir.path().join("runs/ledger.jsonl")).append(&entry).unwrap();
    };
    decided(hone_binary::sha256_hex(&fs::read(run.join(window)).unwrap()), 0.55);
    decided("ab".repeat(32), 0.123);
    let ran = hone_in(dir.path(), &["report", "runs/orders-001", "--json"]).expect_code(0);
    let story: Story = Envelope::parse(&ran.stdout).unwrap();
    assert_eq!(story.chapters[0].entry.ratio, Some([0.55; 3]));
}

#[test]
fn what_is_named_behind_a_run_is_told_once_or_refused() {
    let dir = tuned();
    let report = |words: &[&str]| hone_in(dir.path(), &[&["report", "runs/orders-001"], words].concat());
    let told = report(&["runs/orders-001", "curve.json", "curve.json", "--json"]).expect_code(0).json();
    let count = |what: &str| told["body"][what].as_array().unwrap().len();
    assert_eq!(["heatmaps", "capacities", "curves"].map(count), [1, 1, 1], "each once");
    report(&["curve.json", "--pr-comment"])
        .expect_code(2)
        .expect_error("RECORD does not go with --pr-comment");
    fs::create_dir(dir.path().join("empty")).unwrap();
    report(&["empty"]).expect_code(2).expect_error("empty holds no heatmap, capacity or curve");
    fs::create_dir(dir.path().join("half")).unwrap();
    fs::copy(dir.path().join("curve.json"), dir.path().join("half/curve.json")).unwrap();
    let broken = r#"{"hone_record": 1, "kind": "capacity", "body": {}}"#;
    fs::write(dir.path().join("half/capacity.json"), broken).unwrap();
    report(&["half"]).expect_code(1).expect_error("half/capacity.json");
    // Cut off where it was written, and a note beside it that is no record.
    fs::write(dir.path().join("half/capacity.json"), &broken[..30]).unwrap();
    fs::write(dir.path().join("half/note.json"), "[1]").unwrap();
    report(&["half"]).expect_code(1).expect_error("half/capacity.json is incomplete");
    fs::remove_file(dir.path().join("half/capacity.json")).unwrap();
    report(&["half", "--json"]).expect_code(0);
}

#[test]
fn a_tuning_is_told_whole_in_every_form() {
    let dir = tuned();
    let report = |words: &[&str]| hone_in(dir.path(), &[&["report", "runs/orders-001"], words].concat());
    let markdown = report(&["curve.json", "--markdown"]).expect_code(0).stdout;
    for wanted in [
        "Saved at this load: ",
        "Where the time went, before the first change",
        "| the product of these | – | – | 0.580 | – |",
        "| all kept changes, compared with the first state |",
        "A build can change at most",
        "Predicted and measured",
        "hone-broker",
        "Not reconfirmed with the other changes in place: build pgo",
    ] {
        assert!(markdown.contains(wanted), "{wanted}: {markdown}");
    }
    let comment = report(&["--pr-comment"]).expect_code(0).stdout;
    assert!(comment.contains("2 of 5 changes kept") && comment.contains("Saved at this load: "), "{comment}");
    let body = report(&["--json"]).expect_code(0).json()["body"].clone();
    let saving = &body["tuned"]["saving"];
    let saved = |what: &str| saving[what]["saved"].as_f64().unwrap();
    assert!(saved("cores") > 0.0 && saved("sent_bytes_per_s") > 0.0, "{saving:#}");
    assert!(saving["how"].as_str().unwrap().contains("windows of the first state"), "{saving:#}");
    let hoped = body["chapters"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|chapter| !chapter["entry"]["predicted"].is_null());
    assert_eq!(hoped.count(), 5, "each step has its prediction");
    report(&["runs/orders-001/tuning.json"]).expect_code(2).expect_error("is no heatmap, capacity or curve");
    hone_in(dir.path(), &["report", "curve.json", "curve.json"])
        .expect_code(2)
        .expect_error("no record can be added to it");
    let page = report(&["curve.json"]).expect_code(0).stdout;
    assert_eq!(page.trim(), "runs/orders-001/report.html", "of the run, and not of the capacity beside it");
    let page = fs::read_to_string(dir.path().join("runs/orders-001/report.html")).unwrap();
    for wanted in
        ["id=\"heatmap-1\"", "id=\"capacity-1\"", "id=\"curve-1\"", "id=\"ceiling\"", "id=\"foretold\""]
    {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn the_story_in_a_browser() {
    let Some(browser) = Browser::new() else { return };
    let told = Told::new();
    hone_in(told.path(), &["report", "runs"]).expect_code(0);
    in_a_browser(&browser, &told.path().join("runs/story.html"), 36);
}

#[test]
fn a_tuning_in_a_browser() {
    let Some(browser) = Browser::new() else { return };
    let dir = tuned();
    hone_in(dir.path(), &["report", "runs/orders-001", "curve.json"]).expect_code(0);
    let (tuning, _) = sample::tuning();
    let together = tuning.together.as_ref().unwrap();
    let steps = tuning.steps.iter().map(|step| &step.step).chain(&together.without).chain(&together.all);
    let windows = steps.map(|step| step.comparison.as_ref().unwrap().counted_windows().len()).sum();
    in_a_browser(&browser, &dir.path().join("runs/orders-001/report.html"), windows);
}

/// In the light, in the dark, on a phone, by the keyboard, aloud and on paper, with nothing asked of a network.
#[track_caller]
fn in_a_browser(browser: &Browser, path: &Path, windows: usize) {
    let page = fs::read_to_string(path).unwrap();
    let light = browser.seen(&page, 1100, &[]);
    assert_eq!(light["landmarks"], serde_json::json!([1, 1, 1]));
    let regions = light["regions"].as_array().unwrap();
    assert!(regions.iter().all(|name| name.as_str().is_some_and(|name| !name.is_empty())), "{regions:?}");
    assert_eq!(
        (&light["scopes"], &light["captions"], &light["scripts"]),
        // The one script copies commands; the policy allows no other.
        (&true.into(), &true.into(), &1.into())
    );
    assert_eq!(
        (&light["focused"], &light["opened"]),
        (&true.into(), &true.into()),
        "by the keyboard, without a script"
    );
    assert!(light["reachable"].as_u64().unwrap() >= 10, "{light}");
    assert_eq!(light["asked"], 0, "nothing is loaded from anywhere");
    assert_eq!(light["csv"], windows, "a line for each window");
    assert_eq!(light["wide"], false);
    let dark = browser.seen(&page, 1100, &["--force-dark-mode"]);
    let brightness = |seen: &Value, what: &str| -> u32 {
        let digits = |letter: char| !letter.is_ascii_digit();
        seen[what].as_str().unwrap().split(digits).filter_map(|part| part.parse::<u32>().ok()).take(3).sum()
    };
    assert!(brightness(&light, "paper") > 700 && brightness(&dark, "paper") < 100, "{light} {dark}");
    assert!(brightness(&light, "ink") < 120 && brightness(&dark, "ink") > 600);
    let narrow = browser.seen(&page, 375, &[]);
    assert_eq!(narrow["wide"], false, "tables scroll, the page does not");
    // On paper.
    let pdf = path.with_extension("pdf");
    browser.run(
        &["--no-pdf-header-footer", &format!("--print-to-pdf={}", pdf.display())],
        &format!("file://{}", path.display()),
    );
    let bytes = fs::read(&pdf).unwrap();
    assert!(bytes.starts_with(b"%PDF") && bytes.len() > 20_000, "{} bytes", bytes.len());
}
