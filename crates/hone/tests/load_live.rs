//! `hone load --live`: the page of a load while it runs, over plain sockets.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStderr, Stdio};
use std::time::{Duration, Instant};

mod stage;
use stage::{Broker, PATIENT, Ran, hone, hone_here};

/// A load with its page; ended on drop.
struct LiveLoad {
    child: Child,
    /// Held open, since Hone writes to it until the end.
    stderr: BufReader<ChildStderr>,
    address: String,
}

impl LiveLoad {
    fn start(broker: &Broker, duration: &str, words: &[&str]) -> Self {
        let load = ["load", &broker.address, "--live", "--rate", "500", "--duration", duration];
        let mut child = hone_here()
            .args([&load[..], &["--warmup", "20", "--json"], &PATIENT, words].concat())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("live page: http://").and_then(|url| url.strip_suffix('/'));
        let address = address.unwrap_or_else(|| panic!("`{line}`")).to_owned();
        Self { child, stderr, address }
    }

    /// Head and body of the answer; `None` if nobody listens.
    fn ask(&self, path: &str, host: &str) -> Option<(String, String)> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.to_ascii_lowercase(), body.replace('\u{a0}', " ")))
    }

    fn page(&self) -> Option<String> {
        Some(self.ask("/", &self.address)?.1)
    }

    /// The page of a time that `is_wanted` accepts.
    #[track_caller]
    fn page_when(&self, what: &str, is_wanted: impl Fn(&str) -> bool) -> String {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let page = self.page().unwrap_or_else(|| panic!("no page {what}"));
            if is_wanted(&page) {
                return page;
            }
            assert!(Instant::now() < until, "{what}: {page}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits for the end of the process, which frees the port.
    fn end(mut self) -> Ran {
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        assert!(TcpListener::bind(&self.address).is_ok(), "{} is still in use", self.address);
        Ran { code, stdout, stderr }
    }
}

impl Drop for LiveLoad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Complete seconds on a page, as points of the line of the acknowledged rate.
fn seconds(page: &str) -> usize {
    let (_, behind) = page.split_once("id=\"live-rate-wide-title\"").unwrap_or_default();
    let line = behind.split("class=\"line b\" d=\"").nth(1).and_then(|line| line.split('"').next());
    line.map_or(0, |line| line.matches(['M', 'L']).count())
}

/// The value of a tile, and the smaller text below it.
fn tile<'a>(page: &'a str, name: &str) -> (&'a str, &'a str) {
    let (_, behind) = page.split_once(&format!("<dt>{name}</dt><dd>")).unwrap_or_else(|| panic!("{page}"));
    let (value, behind) = behind.split_once("<span class=\"small path\">").unwrap();
    (value, behind.split_once("</span>").unwrap().0)
}

fn number(text: &str) -> f64 {
    let digits: String =
        text.chars().take_while(|letter| !letter.is_alphabetic() && *letter != '/').collect();
    digits.replace([',', ' '], "").parse().unwrap_or_else(|_| panic!("`{text}`"))
}

#[test]
fn the_page_grows_with_the_load_and_ends_with_its_result() {
    let broker = Broker::start();
    let load = LiveLoad::start(&broker, "6", &[]);
    let (head, _) = load.ask("/", &load.address).unwrap();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    let policy = head.lines().find_map(|line| line.strip_prefix("content-security-policy: ")).unwrap();
    assert_eq!(policy, hone_report::desk::policy().to_ascii_lowercase());
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(load.ask("/", "evil.example").unwrap().0.starts_with("http/1.1 421"));
    assert!(load.ask("/records", &load.address).unwrap().0.starts_with("http/1.1 404"));

    let first = load.page_when("with two seconds", |page| seconds(page) >= 2);
    assert!(first.contains(&format!("<h1>Load of {}</h1>", broker.address)), "{first}");
    assert!(first.contains("data-live=\"yes\"") && first.contains(">measuring</span>"), "{first}");
    let later = load.page_when("with more seconds", |page| seconds(page) > seconds(&first));
    for name in ["p50", "p99", "p99.9", "max"] {
        assert!(number(tile(&later, name).0) > 0.0, "{name}: {later}");
    }
    // A busy machine sends late, and then more at once.
    let (acked, due) = tile(&later, "acknowledged");
    assert!(
        (50.0..3_000.0).contains(&number(acked)) && (50.0..3_000.0).contains(&number(due)),
        "{acked}, {due}"
    );
    assert_eq!(number(tile(&later, "errors").0), 0.0);
    assert!(tile(&later, "CPU of the target").0.ends_with(" cores"), "{later}");
    for id in ["live-latency", "live-errors", "live-cpu"] {
        assert!(later.contains(&format!("id=\"{id}-wide-title\"")), "{id}");
    }

    // An open page gets the result before the server ends.
    let last = load.page_when("with the result", |page| page.contains("data-live=\"no\""));
    assert!(last.contains(">ended</span>") && last.contains("Report: "), "{last}");
    assert_eq!(seconds(&last), 6, "{last}");
    let ran = load.end().expect_code(0);
    assert_eq!(ran.json()["body"]["series"].as_array().unwrap().len(), 6);
}

#[test]
fn an_interrupt_ends_the_load_and_its_page() {
    let broker = Broker::start();
    let load = LiveLoad::start(&broker, "300", &["--quiet"]);
    load.page_when("with a second", |page| seconds(page) >= 1);
    // SAFETY: the child has not been waited for, so its pid is its own.
    assert_eq!(unsafe { libc::kill(load.child.id() as i32, libc::SIGINT) }, 0);
    let begun = Instant::now();
    let ran = load.end().expect_code(1);
    assert!(begun.elapsed() < Duration::from_secs(30));
    assert_eq!(ran.stderr, "", "quiet but for the address");
    assert!(ran.json()["body"]["duration_s"].as_f64().unwrap() < 300.0);
}

#[test]
fn only_a_single_window_has_a_page_and_only_this_machine_reads_it() {
    let load = ["load", "127.0.0.1:1", "--live"];
    for (more, expected) in [
        (&["--find-capacity", "--slo", "p99=10ms"][..], "does not go with"),
        (&["--sweep-rate", "100,200"], "does not go with"),
        (&["--self-test"], "does not go with"),
        (&["--shard", "0/2", "--store", "s3://b/p"], "does not go with"),
    ] {
        hone(&[&load[..], more].concat()).expect_code(2).expect_error(expected);
    }
    hone(&["load", "127.0.0.1:1", "--live-listen", "127.0.0.1:0"]).expect_code(2);
    let broker = Broker::start();
    let open = ["load", &broker.address, "--live", "--live-listen", "0.0.0.0:0"];
    hone(&open).expect_code(2).expect_error("--token-file");
}
