//! `hone profile take` out of continuous profilers. The answers of Pyroscope are recorded ones of a real server (1.6.0) that was given the
//! CPU profile beside them; Parca's is made by its interface's description, since there was none to record.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use base64::Engine as _;
use hone_binary::lock::Lock;

mod stage;
use stage::{Ran, hone_in};

/// The profile of `burn`, a Go program that is hot in `main.hot`, as Go wrote it.
const PUSHED: &[u8] = include_bytes!("continuous/burn.pprof");
/// What Pyroscope made of it.
const OF_PYROSCOPE: &[u8] = include_bytes!("continuous/pyroscope-1.6.0.pb");
/// Its answer where it has nothing, and to a kind that is none.
const NOTHING_OF_PYROSCOPE: &[u8] = include_bytes!("continuous/pyroscope-1.6.0-nothing.pb");
const REFUSAL_OF_PYROSCOPE: &[u8] = include_bytes!("continuous/pyroscope-1.6.0-refusal.json");
const BUILD_ID: &str = "d242e3dd42ba7f7125b35d21f694a80050550229";
const LABELS: &str = "{service_name=\"burn\"}";

/// A server that answers one question, and says what it was asked: the head in small letters, and the body.
fn answering(status: &'static str, body: Vec<u8>) -> (String, JoinHandle<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        let mut piece = [0; 4096];
        let head = loop {
            let read = stream.read(&mut piece).unwrap();
            assert!(read > 0, "the question was broken off");
            asked.extend_from_slice(&piece[..read]);
            if let Some(end) = asked.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = String::from_utf8(asked[..head].to_vec()).unwrap();
        let length = text.to_lowercase().lines().find_map(|line| {
            line.strip_prefix("content-length: ").map(|length| length.trim().parse::<usize>().unwrap())
        });
        while asked.len() < head + length.unwrap_or(0) {
            let read = stream.read(&mut piece).unwrap();
            asked.extend_from_slice(&piece[..read]);
        }
        let answer =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
        stream.write_all(&[answer.as_bytes(), &body].concat()).unwrap();
        (text, asked[head..].to_vec())
    });
    (address, server)
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn take(&self, address: &str, more: &[&str]) -> Ran {
        hone_in(self.0.path(), &[&["profile", "take", address, "-o", "taken.pprof", "--json"], more].concat())
    }

    /// Functions with their samples, the hottest first. Pyroscope has the time of them alone, and Go takes one in 10 ms.
    fn rows(&self, file: &str) -> Vec<(String, u64)> {
        let shown = hone_in(self.0.path(), &["profile", "show", file, "--json"]).expect_code(0).json();
        let table = &shown["body"]["tables"][0];
        let one = if table["unit"] == "nanoseconds" { 10_000_000 } else { 1 };
        let rows = table["rows"].as_array().unwrap().iter();
        rows.map(|row| (row["name"].as_str().unwrap().to_owned(), row["weight"].as_u64().unwrap() / one))
            .collect()
    }
}

fn holds_burn(bench: &Bench, who: &str) {
    let rows = bench.rows("taken.pprof");
    assert_eq!(rows[0], ("main.hot".to_owned(), 98), "{rows:?}");
    let lock = Lock::read(&bench.path("taken.pprof")).unwrap().unwrap();
    assert_eq!(lock.programs[0].build_id.as_deref(), Some(BUILD_ID));
    let load = lock.trainings[0].load.clone().unwrap();
    assert!(load.contains("of {service_name=\"burn\"} in the last 600 s") && load.ends_with(who), "{load}");
}

#[test]
fn what_pyroscope_has_is_taken_as_it_was_pushed() {
    let bench = Bench::new();
    let (address, server) = answering("200 OK", OF_PYROSCOPE.to_vec());
    fs::write(bench.path("token"), "abc\n").unwrap();
    let more =
        ["--pyroscope", LABELS, "--last", "10m", "--tenant", "team-7", "--profiler-token-file", "token"];
    let taken = bench.take(&address, &more).expect_code(0).json();
    let (head, body) = server.join().unwrap();
    assert!(head.starts_with("POST /querier.v1.QuerierService/SelectMergeProfile HTTP/1.1\r\n"), "{head}");
    for line in [
        "content-type: application/proto\r\n",
        "connect-protocol-version: 1\r\n",
        "x-scope-orgid: team-7\r\n",
        "authorization: bearer abc\r\n",
    ] {
        assert!(head.to_lowercase().contains(line), "no {line} in {head}");
    }
    let kind = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
    let expected = [&b"\x0a\x2b"[..], kind.as_bytes(), b"\x12\x15", LABELS.as_bytes(), b"\x18"].concat();
    assert_eq!(body[..expected.len()], expected, "{}", String::from_utf8_lossy(&body));
    assert_eq!(taken["body"]["profile"]["kind"], "pprof");
    holds_burn(&bench, "merged by Pyroscope");
    assert_eq!(
        fs::read(bench.path("taken.pprof")).unwrap()[..2],
        [0x1f, 0x8b],
        "compressed, as a file of pprof is"
    );
    // What was pushed and what came have the same time in every function.
    fs::write(bench.path("pushed.pprof"), PUSHED).unwrap();
    assert_eq!(bench.rows("taken.pprof"), bench.rows("pushed.pprof"));
}

#[test]
fn what_parca_has_is_taken_by_its_gateway() {
    let bench = Bench::new();
    let profile = base64::engine::general_purpose::STANDARD.encode(PUSHED);
    let (address, server) = answering(
        "200 OK",
        format!("{{\"pprof\":\"{profile}\",\"total\":\"7\",\"filtered\":\"0\"}}").into_bytes(),
    );
    bench.take(&address, &["--parca", LABELS, "--last", "10m"]).expect_code(0);
    let (head, _) = server.join().unwrap();
    let asked = head.lines().next().unwrap();
    let query = "merge.query=process_cpu%3Acpu%3Ananoseconds%3Acpu%3Ananoseconds%3Adelta%7Bservice_name%3D%22burn%22%7D";
    assert!(
        asked.starts_with("GET /api/profiles/query?mode=2&report_type=1&") && asked.contains(query),
        "{asked}"
    );
    assert!(asked.contains("&merge.start=20") && asked.contains("Z&merge.end=20"), "{asked}");
    holds_burn(&bench, "merged by Parca");
}

#[test]
fn what_is_no_profile_is_refused_and_nothing_is_written() {
    let bench = Bench::new();
    let pyroscope = |status, body: &[u8], words: &str| {
        let (address, server) = answering(status, body.to_vec());
        bench.take(&address, &["--pyroscope", LABELS]).expect_code(1).expect_error(words);
        server.join().unwrap();
    };
    pyroscope("200 OK", NOTHING_OF_PYROSCOPE, "in the last 3600 s\n  next: check its labels");
    pyroscope("400 Bad Request", REFUSAL_OF_PYROSCOPE, "answered 400");
    let refused = "did not return a pprof profile: a field has the wire type 4, which pprof does not use\n  next: give the address of its server";
    pyroscope("200 OK", b"<html>", refused);
    pyroscope("200 OK", &OF_PYROSCOPE[..OF_PYROSCOPE.len() / 2], "did not return a pprof profile");
    let parca = |body: &str, words: &str| {
        let (address, server) = answering("200 OK", body.as_bytes().to_vec());
        bench.take(&address, &["--parca", LABELS]).expect_code(1).expect_error(words);
        server.join().unwrap();
    };
    parca("{}", "in the last 3600 s\n  next: check its labels");
    parca("{\"pprof\":\"%\"}", "returned no base64");
    parca("<html>", "did not return an answer to Parca's query");
    bench
        .take("http://127.0.0.1:1", &["--parca", LABELS])
        .expect_code(1)
        .expect_error("can't reach http://127.0.0.1:1");
    bench.take("127.0.0.1:1", &["--parca", LABELS]).expect_code(1).expect_error("invalid address `");
    for more in [
        &["--parca", LABELS, "--pyroscope", LABELS][..],
        &["--parca", LABELS, "--windows", "2"],
        &["--parca", LABELS, "--tenant", "x"],
        &["--parca", LABELS, "--last", "0s"],
        &["--pyroscope", LABELS, "--last", "9999h"],
        // A service has only the present, and no login.
        &["--last", "24h"],
        &["--profile-type", "memory:inuse_space:bytes:space:bytes"],
        &["--profiler-token-file", "token"],
    ] {
        bench.take("http://127.0.0.1:1", more).expect_code(2);
    }
    let left: Vec<PathBuf> =
        fs::read_dir(bench.0.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [] as [&Path; 0]);
}
