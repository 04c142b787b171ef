//! `hone serve`: what is answered to whom, over plain sockets, and its pages in a browser.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use hone_ledger::Ledger;
use hone_record::{
    Body, Comparison, Envelope, Environment, Event, EventKind, LedgerEntry, Machine, RecordRef, RecordRole,
    Window,
};
use scraper::{Html, Selector};
use serde_json::{Value, json};

#[path = "stage/browser.rs"]
mod browser;
#[path = "../../hone-report/tests/sample/mod.rs"]
mod sample;
mod stage;
use browser::Browser;
use stage::{Broker, first_line, hone_command, hone_in};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A server of its own; ended on drop.
struct Desk {
    child: Child,
    address: String,
}

impl Desk {
    fn over(folder: &Path, words: &[&str]) -> Self {
        let mut child = hone_command()
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(words)
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let line = first_line(&mut child);
        let address = line.trim().strip_prefix("http://").and_then(|url| url.strip_suffix('/'));
        Self { address: address.unwrap_or_else(|| panic!("`{line}`")).to_owned(), child }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Sends these very bytes and answers all that comes back.
    fn raw(&self, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // A server that refuses early closes before all is sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    fn ask(&self, method: &str, path: &str, head: &str) -> Answer {
        let host = if head.to_lowercase().contains("host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        Answer::of(&self.raw(format!("{method} {path} HTTP/1.1\r\n{host}{head}\r\n").as_bytes()))
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, "")
    }

    #[track_caller]
    fn page(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.body
    }

    #[track_caller]
    fn json(&self, path: &str) -> Value {
        let body = self.page(path);
        serde_json::from_str::<Value>(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    /// Records of a query, once all files are read.
    fn records(&self, query: &str) -> Value {
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let found = self.json(&format!("/records.json?{query}"));
            if found["body"]["notes"] == json!([]) || Instant::now() > until {
                return found["body"]["records"].clone();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// As soon as it is seen.
    fn first_ledger(&self) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let found = self.json("/?json");
            if let Some(id) = found["body"]["ledgers"][0]["id"].as_str() {
                return id.to_owned();
            }
            assert!(Instant::now() < until, "no ledger in {found}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Of a record, as soon as it is seen.
    #[track_caller]
    fn id(&self, path: &str) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let found = self.records(&format!("q={path}"));
            let items = found["items"].as_array().unwrap();
            if let Some(item) = items.iter().find(|item| item["path"].as_str().unwrap().ends_with(path)) {
                return item["id"].as_str().unwrap().to_owned();
            }
            assert!(Instant::now() < until, "no {path} in {found}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn of(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")))
    }
}

fn keep<T: Body>(path: PathBuf, body: T) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, Envelope::new(body).to_text().unwrap()).unwrap();
}

fn of_commit(commit: &str, seed: u64, factor: f64) -> Window {
    let mut window = sample::window("target", seed, factor);
    let machine = Machine { cpu_model: "Example 9".to_owned(), cores: 2, ..Machine::default() };
    window.started_unix_ms = 1_795_200_420_000 + seed * 60_000;
    window.environment =
        Some(Environment { machine, commit: Some(commit.to_owned()), ..Environment::default() });
    window
}

/// A commit's hash for tests.
fn commit(number: u64) -> String {
    hone_binary::sha256_hex(&number.to_le_bytes())[..40].to_owned()
}

/// The first slow commit of the nightly line.
const SLOWER_FROM: u64 = 9;

/// Runs with a result, one that was broken off, windows of sixteen commits of which the last seven are slower, a ledger, and files that are no
/// records.
fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let (optimization, windows) = sample::optimization();
    for (name, window) in windows {
        keep(runs.join("broker-001").join(name), window);
    }
    keep(runs.join("broker-001/optimization.json"), optimization);
    fs::write(runs.join("broker-001/asked.json"), "{}").unwrap();
    let mut windows = std::collections::BTreeMap::new();
    let comparison = sample::comparison("validate", 0.888, &mut windows);
    for (name, window) in windows {
        keep(runs.join("compare-001").join(name), window);
    }
    keep(runs.join("compare-001/comparison.json"), comparison.clone());
    keep(
        runs.join("compare-002/comparison.json"),
        hone_record::Comparison { a: "<b>other</b>".to_owned(), ..comparison },
    );
    let half = runs.join("compare-003");
    for (name, window) in [("windows/000-a.json", 1), ("windows/000-b.json", 2)] {
        keep(half.join(name), sample::window(if window == 1 { "A" } else { "B" }, window, 1.0));
    }
    fs::create_dir_all(half.join("pairs")).unwrap();
    fs::write(half.join("pairs/000.json"), "{}").unwrap();
    fs::write(half.join("design.json"), json!({"order": ["test", "test", "control", "test"]}).to_string())
        .unwrap();
    for number in 0..16 {
        let factor = if number < SLOWER_FROM { 1.0 } else { 1.25 };
        keep(
            dir.path().join(format!("nightly/{number:02}.json")),
            of_commit(&commit(number), number, factor),
        );
    }
    fs::write(dir.path().join("nightly/broken.json"), "{\"hone_record\": 1, \"kind\": \"window\", \"bo")
        .unwrap();
    fs::write(dir.path().join("nightly/note.json"), "[1, 2]").unwrap();
    let ledger = Ledger::at(runs.join("ledger.jsonl"));
    for place in 0..sample::CHAPTERS {
        let entry = sample::chapter_entry(place, |_| "0".repeat(64));
        ledger.append(&LedgerEntry { run: runs.join("broker-001").display().to_string(), ..entry }).unwrap();
    }
    dir
}

#[test]
fn nobody_else_is_answered_and_nothing_can_be_changed() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs"]);
    let answer = desk.get("/");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = answer.header("content-security-policy").unwrap();
    for part in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "script-src 'sha256-",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(answer.header(name), Some(value));
    }
    // A name elsewhere that leads here.
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.7"] {
        let answer = desk.ask("GET", "/", &format!("Host: {host}\r\n"));
        assert_eq!(answer.status, 421, "{host}");
        assert!(!answer.body.contains("broker-001"));
    }
    assert_eq!(desk.ask("GET", "/", "Host: localhost:9999\r\n").status, 200, "forwarded");
    assert_eq!(desk.ask("GET", "/", "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n").status, 403);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        let answer = desk.ask(method, "/", "Content-Length: 0\r\n");
        assert_eq!((answer.status, answer.header("allow")), (405, Some("get, head")), "{method}");
    }
    let head = desk.ask("HEAD", "/records", "");
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert!(head.header("content-length").unwrap().parse::<usize>().unwrap() > 1_000);
    // What is measured beside it comes first: the 19th word of its state, of which the 2nd may hold anything.
    let stat = fs::read_to_string(format!("/proc/{}/stat", desk.child.id())).unwrap();
    assert_eq!(stat.rsplit(") ").next().unwrap().split(' ').nth(16), Some("19"), "{stat}");
    // A head that never ends, and one that is too long.
    let long = format!("GET /?q={} HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(200_000), desk.address);
    assert!([0, 400, 414, 431].contains(&Answer::of(&desk.raw(long.as_bytes())).status));
    assert!(!desk.raw(b"\0\x16\x03\x01 nonsense\r\n\r\n").contains("200 OK"));
    assert_eq!(desk.get("/").status, 200, "and it goes on");
}

#[test]
fn an_address_is_never_a_path() {
    let dir = folder();
    fs::write(dir.path().join("secret.json"), r#"{"hone_record": 1, "kind": "doctor", "body": "xyzzy"}"#)
        .unwrap();
    let desk = Desk::over(dir.path(), &["runs"]);
    let id = desk.id("broker-001/optimization.json");
    for path in [
        "/../secret.json",
        "/record/../secret.json",
        "/record/..%2f..%2fsecret.json",
        "/record/%2e%2e/%2e%2e/secret",
        "/record/....//secret.json",
        "/run/../../../../etc/passwd",
        "/record//etc/passwd",
        "/record/0000000000000000",
        "/record/0000000000000000/../0",
        "/ledger/0123456789ABCDEF",
        "/nothing",
        "//",
        &format!("/record/{id}/..%2f"),
        &format!("/record/{id}%00"),
    ] {
        let answer = desk.get(path);
        assert_eq!(answer.status, 404, "{path}");
        assert!(!answer.body.contains("xyzzy") && !answer.body.contains("root:"), "{path}");
    }
    for query in
        ["a=../../secret&b=x", &format!("a={id}&b=../{id}"), &format!("a={id}~..%2f..&b={id}"), "", "a=x"]
    {
        assert_eq!(desk.get(&format!("/compare?{query}")).status, 400, "{query}");
    }
    // A record whose own text leads out is not followed either.
    let (mut comparison, mut windows) = (sample::comparison("x", 1.0, &mut Default::default()), 0);
    for pair in &mut comparison.pairs {
        pair.window_a = "../../secret.json".to_owned();
        windows += 1;
    }
    assert!(windows > 0);
    keep(dir.path().join("runs/foreign-001/comparison.json"), comparison);
    let page = desk.page(&format!("/record/{}", desk.id("foreign-001/comparison.json")));
    assert!(page.contains("names a window outside its folder") && !page.contains("xyzzy"), "{page}");
    assert!(!page.contains(&dir.path().display().to_string()), "nor is told where the folders lie");
}

/// A comparison of two pairs in a run's folder, with its windows.
fn small_comparison(run: &Path) -> Comparison {
    let mut windows = std::collections::BTreeMap::new();
    let mut comparison = sample::comparison("validate", 0.9, &mut windows);
    comparison.pairs.truncate(2);
    for name in comparison.pairs.iter().flat_map(|pair| [&pair.window_a, &pair.window_b]) {
        keep(run.join(name), windows.remove(name).unwrap());
    }
    keep(run.join("comparison.json"), comparison.clone());
    comparison
}

/// A run from elsewhere has whatever its maker has put there.
#[test]
fn links_are_not_followed_and_pipes_keep_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    let outside = dir.path().join("outside");
    fs::create_dir_all(&outside).unwrap();
    small_comparison(&runs.join("whole-001"));
    // A window that is a link, the folder of all windows, a pipe, and what never ends.
    let linked = small_comparison(&runs.join("linked-001")).pairs[0].window_a.clone();
    fs::rename(runs.join("linked-001").join(&linked), outside.join("window.json")).unwrap();
    std::os::unix::fs::symlink(outside.join("window.json"), runs.join("linked-001").join(&linked)).unwrap();
    let window = small_comparison(&runs.join("folder-001")).pairs[0].window_a.clone();
    let folder = Path::new(&window).components().next().unwrap();
    fs::rename(runs.join("folder-001").join(folder), outside.join("windows")).unwrap();
    std::os::unix::fs::symlink(outside.join("windows"), runs.join("folder-001").join(folder)).unwrap();
    let window = runs.join("pipe-001").join(&small_comparison(&runs.join("pipe-001")).pairs[0].window_a);
    fs::remove_file(&window).unwrap();
    let pipe = std::ffi::CString::new(window.to_str().unwrap()).unwrap();
    // SAFETY: the path ends in a zero byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    let window = runs.join("zero-001").join(&small_comparison(&runs.join("zero-001")).pairs[0].window_a);
    fs::remove_file(&window).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &window).unwrap();
    let desk = Desk::over(dir.path(), &["runs"]);
    let page = |desk: &Desk, run: &str| {
        desk.page(&format!("/record/{}", desk.id(&format!("{run}/comparison.json"))))
    };
    assert!(!page(&desk, "whole-001").contains("There is no report for it"));
    // More often than pages are made at a time.
    for run in ["linked-001", "folder-001", "pipe-001", "zero-001", "pipe-001", "pipe-001"] {
        let page = page(&desk, run);
        assert!(page.contains("There is no report for it") && page.contains("read it"), "{run}: {page}");
    }
    assert_eq!(desk.get("/").status, 200, "and it goes on");
    // One that is named itself is shown with what lies beside it.
    let desk = Desk::over(dir.path(), &["runs/whole-001/comparison.json"]);
    let page = desk.page(&format!("/record/{}", desk.id("comparison.json")));
    assert!(!page.contains("There is no report for it"), "{page}");
}

/// A ledger may name any place.
#[test]
fn a_story_rests_on_what_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let elsewhere = dir.path().canonicalize().unwrap().join("elsewhere");
    let records = [("windows/000-a.json", RecordRole::Before), ("windows/000-b.json", RecordRole::After)];
    let records = records.map(|(path, role)| {
        let file = elsewhere.join("x-001").join(path);
        keep(file.clone(), sample::window("baseline", 1, 1.0));
        RecordRef { path: path.to_owned(), sha256: hone_binary::sha256_hex(&fs::read(file).unwrap()), role }
    });
    let run = elsewhere.join("x-001").display().to_string();
    fs::create_dir(dir.path().join("runs")).unwrap();
    Ledger::at(dir.path().join("runs/ledger.jsonl"))
        .append(&LedgerEntry {
            run,
            records: records.to_vec(),
            ..sample::chapter_entry(0, |_| "0".repeat(64))
        })
        .unwrap();
    for (places, is_read) in [(&["runs"][..], false), (&["runs", "elsewhere"][..], true)] {
        let desk = Desk::over(dir.path(), places);
        desk.records("");
        let id = desk.json("/?json")["body"]["ledgers"][0]["id"].as_str().unwrap().to_owned();
        let story = desk.page(&format!("/ledger/{id}/story"));
        assert_eq!(!story.contains("no longer exist"), is_read, "{places:?}");
    }
}

#[test]
fn others_than_this_machine_need_a_token() {
    let dir = folder();
    hone_in(dir.path(), &["serve", "runs", "--listen", "0.0.0.0:0"])
        .expect_code(2)
        .expect_error("--token-file")
        .expect_error("head -c 32 /dev/urandom");
    let token = dir.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    hone_in(dir.path(), &["serve", "runs", "--token-file", "token"]).expect_code(2).expect_error("chmod 600");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    hone_in(dir.path(), &["serve", "none"]).expect_code(1).expect_error("can't serve none");
    let desk = Desk::over(dir.path(), &["runs", "--token-file", "token"]);
    let answer = desk.get("/");
    assert_eq!(answer.status, 401);
    assert!(answer.header("www-authenticate").unwrap().starts_with("basic "), "{}", answer.head);
    assert!(!answer.body.contains("broker"));
    assert_eq!(desk.ask("GET", "/", "Authorization: Bearer wrong\r\n").status, 401);
    assert_eq!(desk.ask("GET", "/", &format!("Authorization: Bearer {TOKEN}\r\n")).status, 200);
    // hone:TOKEN, as a browser sends it.
    let basic = "Authorization: Basic aG9uZTowMTIzNDU2Nzg5YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZg==\r\n";
    assert_eq!(desk.ask("GET", "/", basic).status, 200);
}

#[test]
fn runs_and_records_are_listed_chosen_and_told() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    let all = desk.records("");
    assert_eq!(all["kinds"]["broken"], 1);
    assert_eq!(all["kinds"]["optimization"], 1);
    let runs = desk.json("/?json")["body"]["runs"].clone();
    let of = |path: &str| {
        runs["items"].as_array().unwrap().iter().find(|run| run["path"] == path).unwrap().clone()
    };
    assert_eq!(runs["in_all"], 4);
    assert_eq!(of("runs/broker-001")["state"], "finished");
    assert_eq!(of("runs/compare-003")["state"], "unfinished");
    assert_eq!(of("runs/compare-001")["verdict"], "better");

    // Chosen by the address alone, so that a link says it.
    let page = desk.page("/records?kind=broken");
    assert!(
        page.contains("nightly/broken.json")
            && page.contains("it is not complete JSON")
            && !page.contains("optimization.json")
    );
    assert_eq!(desk.records("verdict=better&q=compare-001")["matching"], 1);
    assert_eq!(desk.records("verdict=worse")["matching"], 0);
    assert_eq!(desk.records("kind=window&page=9999")["page"], desk.records("kind=window")["pages"]);
    assert_eq!(desk.json("/?state=unfinished&json")["body"]["runs"]["matching"], 1);
    assert!(desk.page("/records?q=%3Cscript%3E").contains("Nothing matches the filter"));
    // An address may have been passed on by somebody whose record is gone since.
    let run = of("runs/compare-001")["id"].as_str().unwrap().to_owned();
    for path in ["/records?a=0123456789abcdef&kind=comparison".to_owned(), format!("/run/{run}?a=x")] {
        let page = desk.page(&path);
        assert!(page.contains("There is no A: one side of the comparison is unknown here; choose"), "{page}");
        assert!(
            page.contains(">clear the choice</a>") && page.contains("first side of a comparison"),
            "{page}"
        );
        assert!(!page.contains("compare with A"), "{page}");
    }

    // One record: the report as hone report has it, and the file as it is.
    let id = desk.id("broker-001/optimization.json");
    let page = desk.page(&format!("/record/{id}"));
    // The page says where its run lies, so it is asked for in the same words.
    let run = dir.path().canonicalize().unwrap().join("runs/broker-001");
    hone_in(dir.path(), &["report", run.to_str().unwrap()]).expect_code(0);
    let report = fs::read_to_string(dir.path().join("runs/broker-001/report.html")).unwrap();
    let (_, main) = report.split_once("<main>").unwrap();
    assert!(page.contains(main.split("</main>").next().unwrap()), "the very report");
    let file = fs::read_to_string(dir.path().join("runs/broker-001/optimization.json")).unwrap();
    assert_eq!(desk.page(&format!("/record/{id}.json")), file);
    let broken = desk.page(&format!("/record/{}", desk.id("nightly/broken.json")));
    assert!(broken.contains("This is no readable record") && broken.contains("hone_record"), "{broken}");

    // A run that goes on: what another process adds is there at the next look.
    let run = of("runs/compare-003")["id"].as_str().unwrap().to_owned();
    let progress = |desk: &Desk| desk.json(&format!("/run/{run}.json"))["body"].clone();
    let seen = progress(&desk);
    assert_eq!((&seen["stages"][0]["done"], &seen["stages"][0]["of"]), (&json!(1), &json!(4)));
    assert_eq!(seen["last_windows"].as_array().unwrap().len(), 2);
    let lock = fs::File::create(dir.path().join("runs/compare-003/lock")).unwrap();
    lock.try_lock().unwrap();
    fs::write(dir.path().join("runs/compare-003/pairs/001.json"), "{}").unwrap();
    keep(dir.path().join("runs/compare-003/windows/001-a.json"), sample::window("A", 60, 1.0));
    let until = Instant::now() + Duration::from_secs(60);
    while progress(&desk)["last_windows"].as_array().unwrap().len() < 3 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(100));
    }
    let seen = progress(&desk);
    assert_eq!((&seen["run"]["state"], &seen["run"]["pid"]), (&json!("running"), &json!(std::process::id())));
    assert_eq!((&seen["stages"][0]["done"], &seen["variants"]["A"]), (&json!(2), &json!(2)));
}

#[test]
fn two_sides_are_compared_as_hone_compare_does() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    let [a, b] = ["nightly/00.json", "nightly/15.json"].map(|path| desk.id(path));
    let told = desk.json(&format!("/compare.json?a={a}&b={b}&primary=latency-p50"))["body"].clone();
    let own = hone_in(
        dir.path(),
        &["compare", "nightly/00.json", "nightly/15.json", "--primary", "latency-p50", "--json"],
    );
    assert_eq!(told["estimates"], own.expect_code(0).json()["body"]["estimates"], "no second statistic");
    assert!(told["no_finding"].as_str().unwrap().contains("1 window(s) on a side"));
    // All windows of a variant of a run against all of another.
    let run =
        desk.json("/?q=compare-001&json")["body"]["runs"]["items"][0]["id"].as_str().unwrap().to_owned();
    let both = desk.json(&format!("/compare.json?a={run}~baseline&b={run}~pgo"))["body"].clone();
    assert!(both["a"]["windows"].as_u64().unwrap() >= 14, "{both}");
    let ratio = both["estimates"][0]["ratio"].as_f64().unwrap();
    assert!((0.8..0.98).contains(&ratio), "{ratio}");
    let page = desk.page(&format!("/compare?a={run}~baseline&b={run}~pgo"));
    assert!(page.contains("Limits of windows measured at different times") && page.contains("Welch"));
    // Records that are no windows stand beside each other.
    let [a, b] = ["compare-001/comparison.json", "compare-002/comparison.json"].map(|path| desk.id(path));
    let told = desk.json(&format!("/compare.json?a={a}&b={b}"))["body"].clone();
    assert_eq!(told["differences"], json!([{"field": "a", "a": "baseline", "b": "<b>other</b>"}]));
    let page = desk.page(&format!("/compare?a={a}&b={b}"));
    assert!(page.contains("&lt;b&gt;other&lt;/b&gt;") && !page.contains("<b>other"), "escaped");
    assert!(page.contains("Results of each record"));
    for query in [format!("a={a}&b={a}"), format!("a={run}&b={a}"), format!("a={run}~none&b={a}")] {
        assert_eq!(desk.get(&format!("/compare?{query}")).status, 400, "{query}");
    }
}

#[test]
fn a_slower_commit_is_a_change_point_and_its_place_is_told() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    desk.records("");
    let lines = desk.json("/history.json")["body"]["lines"].clone();
    let lines = lines.as_array().unwrap();
    let line = lines.iter().find(|line| line["over"] == "commits").unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(line["metrics"]["latency-p50"], 16);
    let id = line["id"].as_str().unwrap();
    let found = desk.json(&format!("/history/{id}.json?metric=latency-p50"))["body"].clone();
    let changes = found["change_points"].as_array().unwrap();
    assert_eq!(changes.len(), 1, "{changes:?}");
    assert_eq!(changes[0]["first"], SLOWER_FROM);
    assert!((changes[0]["ratio"].as_f64().unwrap() / 1.25 - 1.0).abs() < 0.05);
    let short = &commit(SLOWER_FROM)[..12];
    assert_eq!(found["points"][SLOWER_FROM as usize]["label"], short);
    let page = desk.page(&format!("/history/{id}?metric=latency-p50"));
    assert!(
        page.contains(&format!("The level changes at {short}")) && page.contains("The new level is worse."),
        "{page}"
    );
    // What did not change is silent.
    let silent = desk.json(&format!("/history/{id}.json?metric=throughput"))["body"]["change_points"].clone();
    assert_eq!(silent, json!([]));
    assert_eq!(desk.get("/history/0123456789abcdef").status, 404);
}

/// One commit on two nights is two points, and what hone compare leaves out is none.
#[test]
fn a_point_is_one_sitting_of_windows_that_count() {
    const NIGHT_MS: u64 = 24 * 3_600_000;
    let dir = tempfile::tempdir().unwrap();
    let mut names = 0;
    let mut measured = |commit: &str, night: u64, change: &dyn Fn(&mut Window)| {
        names += 1;
        let mut window = of_commit(commit, names, 1.0);
        window.started_unix_ms += night * NIGHT_MS;
        change(&mut window);
        keep(dir.path().join(format!("records/{names:02}.json")), window);
    };
    let as_it_is = |_: &mut Window| {};
    measured(&commit(1), 0, &as_it_is);
    measured(&commit(1), 0, &as_it_is);
    measured(&commit(1), 1, &as_it_is);
    measured(&commit(2), 2, &|window| window.facts.acked_requests /= 2);
    measured(&commit(3), 3, &|window| {
        window.events.push(Event { at_s: 1.0, kind: EventKind::Interrupted, what: "Ctrl-C".to_owned() });
    });
    measured(&commit(4), 4, &as_it_is);
    let desk = Desk::over(dir.path(), &["records"]);
    desk.records("");
    let line = desk.json("/history.json")["body"]["lines"][0].clone();
    let path = format!("/history/{}.json?metric=latency-p50", line["id"].as_str().unwrap());
    let points = desk.json(&path)["body"]["points"].clone();
    let told: Vec<(&str, u64)> = points
        .as_array()
        .unwrap()
        .iter()
        .map(|point| (point["label"].as_str().unwrap(), point["windows"].as_u64().unwrap()))
        .collect();
    let [first, last] = [commit(1), commit(4)].map(|commit| commit[..12].to_owned());
    assert_eq!(told, [(&*first, 2), (&*first, 1), (&*last, 1)]);
    assert_eq!(desk.records("q=failed")["matching"], 1, "and the list says why");
}

/// A broker elsewhere tells no CPU: then nothing else stands in its place.
#[test]
fn what_is_told_first_is_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("runs/x-001");
    for number in 0..10 {
        let variant = ["A", "B"][number as usize % 2];
        let mut window = sample::window(variant, number, if variant == "A" { 1.0 } else { 2.0 });
        window.facts.target_cpu = None;
        keep(run.join(format!("windows/{number:03}.json")), window);
    }
    fs::write(run.join("design.json"), "{}").unwrap();
    let desk = Desk::over(dir.path(), &[]);
    desk.records("");
    let id = desk.json("/?json")["body"]["runs"]["items"][0]["id"].as_str().unwrap().to_owned();
    let page = |primary: &str| desk.page(&format!("/compare?a={id}~A&b={id}~B{primary}"));
    assert!(page("").contains("no comparison, because one side lacks this metric"), "{}", page(""));
    assert!(page("&primary=latency-p50").contains("B is "), "{}", page("&primary=latency-p50"));
    assert!(!page("").contains("value=\"throughput\""), "it is refused, so it can't be chosen");
}

#[test]
fn a_ledger_shows_the_state_of_its_chain() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs"]);
    desk.records("");
    let id = desk.json("/?json")["body"]["ledgers"][0]["id"].as_str().unwrap().to_owned();
    let page = desk.page(&format!("/ledger/{id}"));
    assert!(page.contains("Every line is as it was written") && page.contains("id=\"line-1\""), "{page}");
    assert!(page.contains("its run"), "an entry leads to its run");
    let told = desk.json(&format!("/ledger/{id}.json?verdict=better"))["body"].clone();
    assert!(told["entries"].as_array().unwrap().len() < told["entries_in_all"].as_u64().unwrap() as usize);
    assert!(desk.page(&format!("/ledger/{id}/story")).contains("What was tried in each layer"));
    let path = dir.path().join("runs/ledger.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"keep\"", "\"drop\"", 1)).unwrap();
    let page = desk.page(&format!("/ledger/{id}"));
    assert!(
        page.contains("The ledger was changed") && page.contains("Line 1: this line was changed"),
        "{page}"
    );
}

/// The address of an entry leads to its page, however many entries come behind it; a story can be had as JSON.
#[test]
fn an_entry_keeps_its_address_when_the_ledger_grows() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("runs")).unwrap();
    let ledger = Ledger::at(dir.path().join("runs/ledger.jsonl"));
    for number in 0..205 {
        let entry = sample::chapter_entry(0, |_| "0".repeat(64));
        ledger.append(&LedgerEntry { change: format!("client: linger={number}ms"), ..entry }).unwrap();
    }
    let desk = Desk::over(dir.path(), &["runs"]);
    let id = desk.first_ledger();
    let holds = |query: &str, line: usize| {
        desk.page(&format!("/ledger/{id}{query}")).contains(&format!("id=\"line-{line}\""))
    };
    assert!(holds("", 205) && !holds("", 3) && holds("?page=2", 3) && !holds("?page=2", 205));
    assert!(holds("?line=3", 3) && holds("?line=205", 205) && holds("?line=nonsense", 205));
    let linked = format!("href=\"/ledger/{id}?line=3#line-3\"");
    assert!(desk.page(&format!("/ledger/{id}?page=2")).contains(&linked));
    let story = desk.json(&format!("/ledger/{id}/story.json"));
    assert_eq!(story["kind"], "story");
    assert_eq!(story["body"]["chapters"].as_array().unwrap().len(), 205);
}

/// Builds are known by their programs' hashes, and questions that were asked twice by their words.
#[test]
fn builds_and_answers_are_followed_too() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(dir.path().join("runs/ledger.jsonl"));
    for (number, digit) in ["a", "b", "c"].iter().enumerate() {
        let run = dir.path().join(format!("runs/x-{number:03}"));
        let (mut optimization, _) = sample::optimization();
        let built = optimization.artifacts.iter_mut().find(|built| built.variant == "baseline").unwrap();
        built.sha256 = digit.repeat(64);
        keep(run.join("optimization.json"), optimization);
        let mut window = sample::window("baseline", number as u64, 1.0);
        window.started_unix_ms = 1_795_200_420_000 + number as u64 * 60_000;
        keep(run.join("judge-x/windows/000-baseline.json"), window);
        let entry = sample::chapter_entry(0, |_| "0".repeat(64));
        let at_unix_ms = 1_795_200_420_000 + number as u64 * 60_000;
        ledger.append(&LedgerEntry { at_unix_ms, run: run.display().to_string(), ..entry }).unwrap();
    }
    let desk = Desk::over(dir.path(), &[]);
    desk.records("");
    let lines = desk.json("/history.json")["body"]["lines"].clone();
    let of = |over: &str| lines.as_array().unwrap().iter().find(|line| line["over"] == over).unwrap().clone();
    let points = |line: &Value, metric: &str| -> Vec<Value> {
        let path = format!("/history/{}.json?metric={metric}", line["id"].as_str().unwrap());
        desk.json(&path)["body"]["points"].as_array().unwrap().clone()
    };
    let builds = points(&of("builds"), "latency-p50");
    let labels: Vec<&Value> = builds.iter().map(|point| &point["label"]).collect();
    assert_eq!(labels, ["a", "b", "c"].map(|digit| digit.repeat(12)).each_ref());
    let entries = points(&of("entries"), "cpu-per-record");
    assert_eq!(entries.len(), 3);
    assert!(entries.iter().all(|point| point["value"] == 0.89 && !point["run"].is_null()), "{entries:?}");
}

/// A comparison of two brokers, from its first pair to its result.
#[test]
fn a_real_run_is_seen_while_it_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("runs")).unwrap();
    let desk = Desk::over(dir.path(), &[]);
    let (a, b) = (Broker::start(), Broker::start());
    let mut run = hone_command()
        .args([
            "compare",
            &a.address,
            &b.address,
            "--control-pairs",
            "0",
            "--pairs",
            "6",
            "--quiet",
            "--reserve",
            "0",
        ])
        .args(["--rate", "800", "--duration", "0.5", "--warmup", "100", "--max-lateness", "5s"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(300);
    let mut seen = Vec::new();
    let ended = loop {
        let now = desk.json("/?json")["body"]["runs"]["items"][0].clone();
        let state = now["state"].as_str().unwrap_or("none").to_owned();
        if state == "running" {
            assert_eq!(now["pid"], run.id());
            let id = now["id"].as_str().unwrap();
            let progress = desk.json(&format!("/run/{id}.json"))["body"].clone();
            let stage = &progress["stages"][0];
            seen.push((stage["done"].as_u64(), stage["of"].as_u64()));
            assert_eq!(now["outcome"]["subject"], format!("{} → {}", a.address, b.address));
            if !progress["pairs"].is_null() {
                let judged = progress["pairs"]["comparison"]["judgements"].as_array().unwrap();
                assert!(
                    judged.iter().all(|one| one["verdict"] == "not-shown"),
                    "no verdict before the last pair"
                );
            }
        }
        if state == "finished" || Instant::now() > until {
            break now;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!([Some(0), Some(3)].contains(&run.wait().unwrap().code()));
    let (first, last) = (seen.first().unwrap(), seen.last().unwrap());
    assert!(first.0 < last.0 && last.1 == Some(6), "{seen:?}");
    let subject = format!("{} → {}", a.address, b.address);
    assert_eq!((&ended["kind"], &ended["outcome"]["subject"]), (&json!("comparison"), &json!(subject)));
    assert!(desk.page("/").contains(&subject), "the list says what was compared");
    let page = desk.page(&format!("/record/{}", ended["result"].as_str().unwrap()));
    assert!(page.contains("<p class=\"kicker\">Comparison</p>"));
}

#[test]
fn a_load_that_says_its_commit_is_a_point_of_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Broker::start();
    for commit in ["4be1c0de", "5afe0000"] {
        let file = format!("{commit}.json");
        let words = ["load", &broker.address, "--rate", "500", "--duration", "0.5", "--warmup", "100"];
        hone_in(dir.path(), &[&words[..], &["--quiet", "--commit", commit, "--output", &file]].concat())
            .expect_code(0);
    }
    let words = ["load", &broker.address, "--commit", "two words"];
    hone_in(dir.path(), &words).expect_code(2).expect_error("a commit is one word");
    let desk = Desk::over(dir.path(), &["."]);
    desk.records("");
    let line = desk.json("/history.json")["body"]["lines"][0].clone();
    let found = desk.json(&format!("/history/{}.json?metric=throughput", line["id"].as_str().unwrap()));
    let points = found["body"]["points"].as_array().unwrap();
    let labels: Vec<&str> = points.iter().map(|point| point["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["4be1c0de", "5afe0000"]);
    assert!((points[0]["value"].as_f64().unwrap() / 500.0 - 1.0).abs() < 0.2, "{points:?}");
}

#[test]
fn ten_thousand_records_do_not_keep_the_first_page_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let mut window = sample::window("target", 1, 1.0);
    window.series.clear();
    window.latencies = hone_record::Latencies::default();
    let text = Envelope::new(window).to_line().unwrap();
    let machine = Envelope::new(Machine::default()).to_line().unwrap();
    for folder in 0..100 {
        let path = dir.path().join(format!("runs/x-{folder:03}/windows"));
        fs::create_dir_all(&path).unwrap();
        for number in 0..100 {
            // Histograms take a test's build long to read.
            let text = if number % 10 == 0 { &text } else { &machine };
            fs::write(path.join(format!("{number:03}.json")), text).unwrap();
        }
        fs::write(dir.path().join(format!("runs/x-{folder:03}/design.json")), "{\"order\": []}").unwrap();
    }
    let desk = Desk::over(dir.path(), &[]);
    let first = desk.json("/?json")["body"].clone();
    let shown = first["runs"]["in_all"].as_u64().unwrap();
    // Where the machine is slow, it may not even have looked through the folders; it answers all the same.
    assert!(shown == 100 || shown == 0, "{shown}");
    let all = desk.records("");
    assert_eq!((&all["in_all"], &all["pages"]), (&json!(10_000), &json!(200)));
    assert_eq!(all["items"].as_array().unwrap().len(), 50);
    let page = desk.page("/records?windows=1&page=200");
    assert!(page.contains("Page 200 of 200") && page.len() < 200_000, "{}", page.len());
    let status = fs::read_to_string(format!("/proc/{}/status", desk.child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kib < 250 << 10, "{peak_kib} KiB");
}

#[test]
fn ctrl_c_ends_it_in_order() {
    let dir = folder();
    let mut desk = Desk::over(dir.path(), &["runs"]);
    desk.page("/");
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(desk.child.id() as i32, libc::SIGINT) }, 0);
    let until = Instant::now() + Duration::from_secs(60);
    let ended = loop {
        if let Some(status) = desk.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(ended.code(), Some(0));
    assert!(TcpStream::connect(&desk.address).is_err());
}

/// Every page: one main, one h1, all tables with captions and scopes, every field with a label, ids once, and no link that leads nowhere.
#[test]
fn every_page_is_whole_and_every_link_leads_somewhere() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    let broken = desk.id("nightly/broken.json");
    let mut waiting = vec!["/".to_owned(), "/records".to_owned(), "/history".to_owned()];
    let mut seen: BTreeSet<String> = waiting.iter().cloned().collect();
    let (mut kinds, mut count) = (BTreeSet::new(), 0);
    while let Some(path) = waiting.pop() {
        let answer = desk.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        count += 1;
        if ["image/svg+xml", "text/csv; charset=utf-8"].map(Some).contains(&answer.header("content-type")) {
            assert!(answer.header("content-disposition").unwrap().starts_with("attachment; "), "{path}");
            continue;
        }
        if answer.header("content-type") != Some("text/html; charset=utf-8") {
            serde_json::from_str::<Value>(&answer.body)
                .map(drop)
                .unwrap_or_else(|error| assert!(path.contains(&broken), "{path}: {error}"));
            continue;
        }
        let page = Html::parse_document(&answer.body);
        whole(&path, &page);
        for link in page.select(&Selector::parse("a[href]").unwrap()) {
            let href = link.value().attr("href").unwrap();
            if href.starts_with("data:") || href.is_empty() || href.starts_with('#') {
                continue;
            }
            assert!(href.starts_with('/'), "{path} leads to {href}");
            // A browser keeps the place in the page to itself.
            let href = href.split('#').next().unwrap_or_default();
            // Of each kind of address a few: windows are many, and alike.
            let shape = href.split(['?', '/']).nth(1).unwrap_or_default().to_owned();
            let many = seen.iter().filter(|known| known.starts_with(&format!("/{shape}"))).count();
            if many < 14 && seen.insert(href.to_owned()) {
                waiting.push(href.to_owned());
                kinds.insert(shape);
            }
        }
    }
    assert!(count > 30 && kinds.len() >= 6, "{count} {kinds:?}");
}

#[track_caller]
fn whole(path: &str, page: &Html) {
    let all = |selector: &str| page.select(&Selector::parse(selector).unwrap()).collect::<Vec<_>>();
    assert!(page.errors.is_empty(), "{path}: {:?}", page.errors);
    assert_eq!(
        (all("main#main").len(), all("h1").len(), all("a.skip[href='#main']").len()),
        (1, 1, 1),
        "{path}"
    );
    assert!(
        all("table").iter().all(|table| table.select(&Selector::parse("caption").unwrap()).count() == 1),
        "{path}"
    );
    assert!(all("th").iter().all(|head| head.value().attr("scope").is_some()), "{path}");
    assert!(
        all("nav, form[role=search], [role=group]")
            .iter()
            .all(|place| place.value().attr("aria-label").is_some()),
        "{path}"
    );
    let ids: Vec<&str> = all("[id]").iter().filter_map(|found| found.value().attr("id")).collect();
    assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{path}: {ids:?}");
    for field in all("input:not([type=hidden]), select") {
        let id = field.value().attr("id").unwrap();
        assert_eq!(all(&format!("label[for='{id}']")).len(), 1, "{path}: {id}");
    }
    for heading in all("[aria-labelledby]") {
        for id in heading.value().attr("aria-labelledby").unwrap().split(' ') {
            assert!(ids.contains(&id), "{path}: {id}");
        }
    }
}

fn brightness(colour: &Value) -> u32 {
    let digits = |letter: char| !letter.is_ascii_digit();
    colour.as_str().unwrap().split(digits).filter_map(|part| part.parse::<u32>().ok()).take(3).sum()
}

/// Every request of the browser so far went to this server, and nothing was refused to it.
#[track_caller]
fn kept_to_itself(browser: &Browser, desk: &Desk) {
    let here = desk.url("/");
    let elsewhere: Vec<&String> = browser
        .asked
        .iter()
        .filter(|url| !url.starts_with(&here) && !url.starts_with("data:") && *url != "about:blank")
        .collect();
    assert!(elsewhere.is_empty(), "{elsewhere:?}");
    assert!(browser.asked.iter().filter(|url| url.starts_with(&here)).count() > 0);
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
}

#[test]
fn by_the_keyboard_alone_from_the_list_to_a_comparison() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    desk.records("");
    browser.open(&desk.url("/"));
    browser.tab_to("e.className === 'skip' && e.getBoundingClientRect().top >= 0");
    browser.press("Enter");
    browser.wait_for("document.activeElement.id === 'main'");
    // Chosen.
    browser.open(&desk.url("/"));
    // The filters are folded until one is active.
    browser.tab_to("e.id === 'filters'");
    browser.press("Enter");
    browser.wait_for("document.querySelector('details.filter').open");
    browser.tab_to("e.id === 'q'");
    browser.write("compare-001");
    browser.until_loaded(|browser| browser.press("Enter"));
    assert_eq!(browser.value("new URLSearchParams(location.search).get('q')"), json!("compare-001"));
    assert_eq!(browser.value("document.querySelectorAll('tbody tr').length"), json!(1));
    assert_eq!(browser.value("document.querySelector('details.filter').open"), json!(true));
    assert_eq!(browser.value("document.getElementById('filters').textContent"), json!("Filter: 1 active"));
    browser.picture("list-chosen");
    // Opened.
    browser.tab_to("e.closest('tbody th') && e.tagName === 'A'");
    browser.until_loaded(|browser| browser.press("Enter"));
    assert_eq!(browser.value("location.pathname.split('/')[1]"), json!("run"));
    // Compared.
    browser.tab_to("e.textContent === 'first side of a comparison : baseline'");
    browser.until_loaded(|browser| browser.press("Enter"));
    browser.tab_to("e.textContent === 'compare with A : pgo'");
    browser.until_loaded(|browser| browser.press("Enter"));
    assert_eq!(browser.value("location.pathname"), json!("/compare"));
    let sentence = browser.value("document.querySelector('.sentence').textContent");
    assert!(sentence.as_str().unwrap().contains("CPU per record: B is 0."), "{sentence}");
    browser.picture("compare");
    kept_to_itself(&browser, &desk);
}

/// With the script, a filter applies at once, also one that is set while the form is folded. The counts follow, and nothing unfolds or folds by
/// itself.
#[test]
fn filters_apply_at_once_and_stay_as_the_reader_left_them() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs"]);
    desk.records("");
    browser.open(&desk.url("/"));
    let is_open = "document.querySelector('details.filter').open";
    assert_eq!(browser.value(is_open), json!(false));
    let choose = |value: &str| {
        format!(
            "(() => {{ const field = document.getElementById('state'); field.value = '{value}'; \
             field.dispatchEvent(new Event('input', {{ bubbles: true }})); return true; }})()"
        )
    };
    browser.value("window.same = true");
    browser.value(&choose("unfinished"));
    browser.wait_for("document.getElementById('filters').textContent === 'Filter: 1 active'");
    assert_eq!(browser.value("document.querySelectorAll('tbody tr').length"), json!(1));
    let count = browser.value("document.getElementById('count').textContent");
    assert!(count.as_str().unwrap().starts_with("1 of 4"), "{count}");
    assert_eq!(browser.value(is_open), json!(false), "as the reader left it");
    browser.value(&choose(""));
    browser.wait_for("document.getElementById('filters').textContent === 'Filter'");
    assert_eq!(browser.value("window.same"), json!(true), "without a new page");
    kept_to_itself(&browser, &desk);
}

#[test]
fn single_loads_xrays_and_diagnoses_are_runs_with_an_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let runs = dir.path().join("runs");
    keep(runs.join("load-001/window.json"), sample::window("target", 1, 1.0));
    keep(runs.join("batch-xray-001/xray.json"), sample::xray());
    keep(runs.join("redis-diagnosis-001/diagnosis.json"), sample::diagnosis());
    for name in ["load-001", "batch-xray-001", "redis-diagnosis-001"] {
        fs::write(runs.join(name).join("command.json"), "[\"x\"]").unwrap();
    }
    // An X-ray next to the runs makes no run of their folder.
    keep(runs.join("xray.json"), sample::xray());
    let desk = Desk::over(dir.path(), &["runs"]);
    desk.records("");
    let found = desk.json("/?json")["body"]["runs"].clone();
    assert_eq!(found["in_all"], 3, "{found}");
    for run in found["items"].as_array().unwrap() {
        let outcome = &run["outcome"];
        let name = run["path"].as_str().unwrap();
        let begin = match name {
            "runs/load-001" => "load on ",
            "runs/batch-xray-001" => "batches of ",
            _ => "diagnosis of ",
        };
        assert!(outcome["subject"].as_str().unwrap().starts_with(begin), "{run}");
        assert!(run["state"] == "finished" && !outcome["word"].as_str().unwrap().is_empty(), "{run}");
    }
    let page = desk.page("/");
    assert!(page.contains("LINGER_BOUND") && page.contains(">steady</span>"), "{page}");
    assert!(!page.contains("no verdict</td>"), "{page}");
}

#[test]
fn pages_in_the_dark_on_a_phone_on_paper_and_aloud() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    let id = desk.id("broken.json");
    let optimization = desk.id("broker-001/optimization.json");
    let lines = desk.json("/history.json");
    let line =
        lines["body"]["lines"].as_array().unwrap().iter().find(|line| line["over"] == "commits").unwrap();
    let ledger = desk.json("/?json")["body"]["ledgers"][0]["id"].as_str().unwrap().to_owned();
    let run =
        desk.json("/?q=compare-003&json")["body"]["runs"]["items"][0]["id"].as_str().unwrap().to_owned();
    let side = |number: &str| desk.id(&format!("nightly/{number}.json"));
    let pages = [
        ("runs", "/".to_owned()),
        ("records", "/records".to_owned()),
        ("run", format!("/run/{run}")),
        ("record", format!("/record/{optimization}")),
        ("broken", format!("/record/{id}")),
        ("lines", "/history".to_owned()),
        ("topics", "/topics".to_owned()),
        ("history", format!("/history/{}?metric=latency-p50", line["id"].as_str().unwrap())),
        ("ledger", format!("/ledger/{ledger}")),
        ("compare", format!("/compare?a={}&b={}", side("00"), side("15"))),
    ];
    for (name, path) in &pages {
        browser.size(1100, 900);
        browser.media("screen", "light");
        browser.open(&desk.url(path));
        let style = "getComputedStyle(document.body)";
        let light =
            [browser.value(&format!("{style}.backgroundColor")), browser.value(&format!("{style}.color"))];
        browser.picture(&format!("{name}-light"));
        aloud(name, &browser.spoken());
        browser.media("screen", "dark");
        let dark =
            [browser.value(&format!("{style}.backgroundColor")), browser.value(&format!("{style}.color"))];
        browser.picture(&format!("{name}-dark"));
        assert!(brightness(&light[0]) > 700 && brightness(&dark[0]) < 100, "{name}: {light:?} {dark:?}");
        assert!(brightness(&light[1]) < 120 && brightness(&dark[1]) > 600, "{name}: {light:?} {dark:?}");
        browser.size(375, 800);
        browser.media("screen", "light");
        browser.picture(&format!("{name}-narrow"));
        let root = "document.documentElement";
        let wide = browser.value(&format!("{root}.scrollWidth > {root}.clientWidth"));
        assert_eq!(wide, json!(false), "{name}: tables scroll, the page does not");
        browser.media("print", "light");
        assert_eq!(
            browser.value("getComputedStyle(document.querySelector('.desk')).display"),
            json!("none"),
            "{name}"
        );
        browser.media("", "light");
        let pdf = browser.pdf();
        assert!(pdf.starts_with(b"%PDF") && pdf.len() > 5_000, "{name}: {} bytes", pdf.len());
    }
    kept_to_itself(&browser, &desk);
}

/// What a screen reader has: one main part, named regions, and nothing to press without a name.
#[track_caller]
fn aloud(page: &str, spoken: &[(String, String)]) {
    let count = |role: &str| spoken.iter().filter(|(found, _)| found == role).count();
    assert_eq!(count("main"), 1, "{page}: {spoken:?}");
    assert!(count("navigation") >= 1 && count("heading") >= 1, "{page}: {spoken:?}");
    for (role, name) in spoken {
        let is_named = [
            "link",
            "button",
            "navigation",
            "region",
            "searchbox",
            "combobox",
            "table",
            "progressIndicator",
            "progressbar",
            "image",
        ];
        assert!(!is_named.contains(&role.as_str()) || !name.is_empty(), "{page}: a {role} without a name");
    }
}

#[test]
fn a_run_that_goes_on_is_followed_until_it_ends() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs"]);
    let half = dir.path().join("runs/compare-003");
    let lock = fs::File::create(half.join("lock")).unwrap();
    lock.try_lock().unwrap();
    desk.records("");
    let run =
        desk.json("/?q=compare-003&json")["body"]["runs"]["items"][0]["id"].as_str().unwrap().to_owned();
    browser.open(&desk.url(&format!("/run/{run}")));
    let done =
        |count: u32| format!("document.getElementById('live').textContent.includes('{count} of 4 pairs')");
    assert_eq!(browser.value(&done(1)), json!(true));
    assert_eq!(browser.value("document.querySelector('progress').value"), json!(1));
    browser.value("window.same = true");
    fs::write(half.join("pairs/001.json"), "{}").unwrap();
    browser.wait_for(&done(2));
    assert_eq!(browser.value("window.same"), json!(true), "without a new page");
    browser.picture("run-live");
    // Pause stops the updates, and Resume continues them.
    browser.tab_to("e.id === 'pause'");
    browser.press("Enter");
    browser.wait_for("document.getElementById('said').textContent.includes('is paused')");
    let asked = browser.asked.len();
    fs::write(half.join("pairs/002.json"), "{}").unwrap();
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!((browser.value(&done(2)), browser.asked.len()), (json!(true), asked));
    browser.press("Enter");
    browser.wait_for(&done(3));
    // It ends.
    fs::copy(dir.path().join("runs/compare-001/comparison.json"), half.join("comparison.json")).unwrap();
    drop(lock);
    browser.wait_for("document.getElementById('said').textContent.includes('has ended')");
    let asked = browser.asked.len();
    std::thread::sleep(Duration::from_secs(6));
    browser.value("1");
    assert_eq!(browser.asked.len(), asked, "nobody asks any more");
    kept_to_itself(&browser, &desk);
}

/// Sends a form, as a page of this server does.
fn post(desk: &Desk, path: &str, form: &str) -> Answer {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nSec-Fetch-Site: same-origin\r\nOrigin: null\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        desk.address,
        form.len()
    );
    Answer::of(&desk.raw(head.as_bytes()))
}

/// The button needs the access token of the server, a question, and a token that fits the process.
#[test]
fn a_run_is_stopped_from_its_page_after_a_question() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("runs")).unwrap();
    let token = dir.path().join("token");
    fs::write(&token, format!("{TOKEN}\n")).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let with_token = Desk::over(dir.path(), &["--token-file", "token"]);
    let without = Desk::over(dir.path(), &[]);
    let (a, b) = (Broker::start(), Broker::start());
    let mut run = hone_command()
        .args(["compare", &a.address, &b.address, "--control-pairs", "5", "--pairs", "40", "--quiet"])
        .args(["--rate", "800", "--duration", "0.5", "--warmup", "100", "--max-lateness", "5s"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + Duration::from_secs(120);
    let id = loop {
        let found = without.json("/?json")["body"]["runs"]["items"][0].clone();
        let has_pairs = found["stage"]["done"].as_u64().unwrap_or_default() > 0;
        if found["state"] == "running" && has_pairs {
            break found["id"].as_str().unwrap().to_owned();
        }
        assert!(Instant::now() < until && run.try_wait().unwrap().is_none(), "{found}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let page = format!("/run/{id}");
    let get = |path: &str| with_token.ask("GET", path, &format!("Authorization: Bearer {TOKEN}\r\n"));
    // Without an access token there is only the command.
    assert!(without.page(&page).contains(&format!("kill -INT {}", run.id())));
    assert_eq!(without.get(&format!("{page}/stop")).status, 409);
    assert_eq!(without.ask("POST", &format!("{page}/stop"), "Content-Length: 0\r\n").status, 403);
    let html = get(&page).body;
    for text in ["The pairs so far", "time left", "chance of a verdict", "Stop this run"] {
        assert!(html.contains(text), "{text}: {html}");
    }
    let question = get(&format!("{page}/stop")).body;
    let token = question.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(post(&with_token, &format!("{page}/stop"), "token=0123").status, 409);
    assert!(run.try_wait().unwrap().is_none(), "a wrong token stops nothing");
    for _ in 0..2 {
        // A second signal would end the process without cleaning up, so none is sent.
        let answer = post(&with_token, &format!("{page}/stop"), &format!("token={token}"));
        let is_sent = answer.status == 303 && answer.header("location") == Some(page.as_str());
        assert!(is_sent || answer.status == 409, "{}", answer.body);
    }
    let until = Instant::now() + Duration::from_secs(60);
    while run.try_wait().unwrap().is_none() {
        assert!(Instant::now() < until, "the run goes on");
        std::thread::sleep(Duration::from_millis(100));
    }
    let found = without.json(&format!("{page}.json"))["body"].clone();
    assert_eq!(found["run"]["state"], "unfinished");
    assert!(found["stages"][0]["done"].as_u64().unwrap() > 0, "measured pairs stay: {found}");
}

#[test]
fn pictures_and_numbers_can_be_saved() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    let [a, b] = ["nightly/00.json", "nightly/15.json"].map(|path| desk.id(path));
    let loads = format!("/compare?a={a}&b={b}");
    let [a, b] = ["compare-001/comparison.json", "compare-002/comparison.json"].map(|path| desk.id(path));
    let comparisons = format!("/compare?a={a}&b={b}");
    let lines = desk.json("/history.json")["body"]["lines"].clone();
    let line = lines.as_array().unwrap().iter().find(|line| line["over"] == "commits").unwrap();
    let history = format!("/history/{}?metric=latency-p50", line["id"].as_str().unwrap());
    for (page, id) in [(&loads, "spectrum"), (&comparisons, "forest"), (&history, "history")] {
        let html = desk.page(page);
        assert!(html.contains(&format!("svg={id}\"")), "{page} has a link");
        let answer = desk.get(&format!("{page}&svg={id}"));
        assert_eq!(answer.header("content-type"), Some("image/svg+xml"));
        assert_eq!(
            answer.header("content-disposition"),
            Some(&*format!("attachment; filename=\"{id}.svg\""))
        );
        assert!(
            answer.body.contains("<svg xmlns=\"http://www.w3.org/2000/svg\"")
                && !answer.body.contains("var(")
        );
        assert!(answer.body.contains("<style>") && answer.body.trim_end().ends_with("</svg>"));
        for wrong in ["nothing", "..%2fx", "x%22"] {
            assert_eq!(desk.get(&format!("{page}&svg={wrong}")).status, 404, "{wrong}");
        }
    }
    let csv = |path: &str| {
        let answer = desk.get(path);
        assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"), "{path}");
        answer.body
    };
    assert_eq!(csv(&format!("{history}&csv=1")).lines().count(), 17);
    assert!(csv(&format!("{loads}&csv=1")).contains("latency-p50,µs,"));
    assert!(csv(&format!("{comparisons}&csv=1")).contains("cpu-per-record,"));
    let runs = csv("/?csv=1&q=compare-001");
    assert!(runs.contains("runs/compare-001,finished,better,") && runs.contains(",comparison,"), "{runs}");
}

/// A person who is paged looks at this page first.
#[test]
fn the_first_page_says_what_was_compared_and_what_came_out() {
    let dir = folder();
    let desk = Desk::over(dir.path(), &["runs", "nightly"]);
    desk.records("");
    let page = Html::parse_document(&desk.page("/?q=compare-001"));
    let cells = |selector: &str| {
        let all = page.select(&Selector::parse(selector).unwrap()).collect::<Vec<_>>();
        all.iter().map(|one| one.text().collect::<String>()).collect::<Vec<_>>()
    };
    assert_eq!(cells(".runs tbody td:first-child"), ["better"], "the verdict comes first");
    assert!(cells(".runs .gain")[0].contains("−") && cells(".runs .gain svg").len() == 1);
    let matching = |query: &str| desk.json(&format!("/?json&{query}"))["body"]["runs"]["matching"].clone();
    assert_eq!(matching("layer=binary"), 1, "the optimisation");
    assert_eq!(matching("layer=host"), 0);
    let target = desk.json("/?json&q=broker-001")["body"]["runs"]["items"][0]["outcome"]["target"].clone();
    assert_eq!(matching(&format!("target={}", target.as_str().unwrap().replace(' ', "+"))), 1);
    assert_eq!(matching("hours=24"), 4, "written just now");
    assert_eq!(matching("hours=x"), 4, "what is no number filters nothing");
    // Without a run, the page says what to do.
    fs::create_dir(dir.path().join("empty")).unwrap();
    let empty = Desk::over(dir.path(), &["empty"]);
    let until = Instant::now() + Duration::from_secs(30);
    while !empty.page("/").contains("There is no run yet") {
        assert!(Instant::now() < until);
    }
    assert!(empty.page("/").contains("hone compare 127.0.0.1:9092"));
}

#[test]
fn five_thousand_runs_are_listed_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut comparison = sample::bare_comparison(
        hone_record::Metric::CpuPerRecord,
        hone_record::Verdict::Better,
        0.9,
        0.85,
        0.95,
        1.1,
    );
    comparison.pairs.clear();
    let text = Envelope::new(comparison).to_line().unwrap();
    for number in 0..5_000 {
        let run = dir.path().join(format!("runs/compare-{number:04}"));
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join("comparison.json"), &text).unwrap();
        fs::write(run.join("design.json"), "{}").unwrap();
    }
    let desk = Desk::over(dir.path(), &[]);
    desk.records("");
    let took = (0..5).map(|_| {
        let begun = Instant::now();
        let page = desk.page("/");
        assert!(page.contains("Page 1 of 50"), "{}", page.len());
        begun.elapsed()
    });
    let fastest = took.min().unwrap();
    // A build for tests is not optimized.
    let limit = Duration::from_millis(if cfg!(debug_assertions) { 1_500 } else { 300 });
    assert!(fastest < limit, "{fastest:?}");
}

#[test]
fn topics_have_their_needless_batches_and_a_forecast() {
    let dir = tempfile::tempdir().unwrap();
    let producer = json!({
        "id": 7, "batches": 40_000, "records": 44_000, "bytes": 44_000 * 107 + 40_000 * 61, "partitions": 4,
        "triggers": [], "records_per_s_per_partition": 1_000.0, "evidence": [],
    });
    let mut topic = hone_record::TopicXray {
        topic: "orders & more".to_owned(),
        partitions: 4,
        batches: 40_000,
        records: 44_000,
        bytes: 44_000 * 107 + 40_000 * 61,
        batches_per_s: Some(3_600.0),
        needless_batches: 39_000.0,
        ..Default::default()
    };
    topic.producers.push(serde_json::from_value(producer).unwrap());
    let xray = hone_record::BatchXray {
        source: "127.0.0.1:9092".to_owned(),
        topics: vec![topic],
        ..Default::default()
    };
    keep(dir.path().join("runs/xray.json"), xray);
    let desk = Desk::over(dir.path(), &[]);
    let id = desk.id("xray.json");
    let page = desk.page("/topics");
    assert!(page.contains("orders &amp; more") && page.contains("3,510"), "{page}");
    let address = format!("/whatif?record={id}&topic=orders+%26+more");
    let forecast = |linger: u32| {
        desk.json(&format!("{address}&linger_ms={linger}&batch_bytes=65536&json"))["body"].clone()
    };
    let (short, long) = (forecast(5), forecast(50));
    let batches = |found: &Value| found["batches_per_s"][1].as_f64().unwrap_or_else(|| panic!("{found}"));
    assert!(batches(&long) < batches(&short) && batches(&short) < 3_600.0, "{short} {long}");
    let page = desk.page(&format!("{address}&linger_ms=20&batch_bytes=65536"));
    assert!(page.contains("linger.ms=20\nbatch.size=65536") && page.contains("id=\"answer\""), "{page}");
    for wrong in ["record=x&topic=y", &format!("record={id}&topic=none"), ""] {
        assert_eq!(desk.get(&format!("/whatif?{wrong}")).status, 404, "{wrong}");
    }
}
