//! Fetches profiles of a running service from its pprof endpoint: one GET, with limits on time and bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hone_store::web::{Web, WebError};
use serde::{Deserialize, Serialize};
use url::Url;

use super::pprof::Profile;
use super::refusal::GoRefusal;
use crate::refusal::Refusal;

/// Time limit for a page other than a profile.
const PAGE_LIMIT: Duration = Duration::from_secs(5);

/// Additional time for the service: it compresses the profile while it works.
const GRACE: Duration = Duration::from_secs(30);

/// Begins the line of the heap page with the bytes of goroutine stacks, in use and from the system.
const STACK_LINE: &str = "# Stack = ";

/// Where `net/http/pprof` puts its pages.
const USUAL_PATH: &str = "/debug/pprof/";

/// The kind of profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileRequest {
    /// CPU time, over this many seconds.
    Cpu {
        /// Length of the window.
        seconds: u32,
    },
    /// Allocations over this many seconds, or since the service started.
    Allocations {
        /// Length of the window.
        seconds: Option<u32>,
    },
}

/// A valid fetched profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Captured {
    /// Its path.
    pub file: PathBuf,
    /// The requested address.
    pub url: String,
    /// Its size.
    pub bytes: u64,
    /// Stacks in it.
    pub stacks: u64,
    /// Sum of its first value: samples of a CPU profile.
    pub total: i64,
    /// Wall time of the request.
    pub took_s: f64,
}

/// A request that returned no profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The address is unusable.
    #[error("invalid address `{url}`: {reason}\n  next: give an address like http://127.0.0.1:6060")]
    Address {
        /// The address without its password.
        url: String,
        /// The fault.
        reason: String,
    },
    /// The service answered with something else.
    #[error("{url} answered {status}: {said}\n  next: {}", next_after(*status, said))]
    Status {
        /// The requested address.
        url: String,
        /// The status.
        status: u16,
        /// The first words of the answer.
        said: String,
    },
    /// The heap page has no line for stacks.
    #[error(
        "{url} has no line `{STACK_LINE}...`\n  next: check that this is the pprof address of the service"
    )]
    NoStackLine {
        /// The requested address.
        url: String,
    },
    /// The service gave no complete answer.
    #[error(transparent)]
    NoAnswer(#[from] WebError),
}

fn next_after(status: u16, said: &str) -> &'static str {
    if said.contains("already in use") {
        return "wait until the other CPU profile has ended: a process can take one at a time";
    }
    if said.contains("WriteTimeout") {
        return "take a shorter window, or raise WriteTimeout of the service's http.Server";
    }
    match status {
        401 | 403 => "serve pprof on a loopback address without a login",
        404 => "let the service import net/http/pprof, and give the address of that server",
        _ => "read the service's log",
    }
}

/// Fetches a profile into a file, and verifies it. `base` is the address of the pprof server, with the path of its pages if that is not
/// `/debug/pprof/`.
///
/// # Errors
/// A [`FetchError`], or a [`GoRefusal`] if the answer is no profile or has no samples.
pub fn capture(base: &str, wanted: ProfileRequest, file: &Path) -> Result<Captured> {
    capture_unless(base, wanted, file, &|| false)
}

/// Like [`capture`], until `given_up` says that the profile is no longer necessary: because its load has failed, or after an interrupt. It
/// is called a few times per second.
///
/// # Errors
/// As [`capture`], and [`WebError::GivenUp`].
pub fn capture_unless(
    base: &str,
    wanted: ProfileRequest,
    file: &Path,
    given_up: &dyn Fn() -> bool,
) -> Result<Captured> {
    let url = profile_url(base, wanted)?;
    let started = Instant::now();
    let bytes = fetch(&url, limit_of(wanted), given_up)?;
    let took_s = started.elapsed().as_secs_f64();
    let refuse = |refusal| anyhow::Error::from(Refusal::Go(refusal));
    let profile = Profile::parse(&bytes)
        .map_err(|reason| refuse(GoRefusal::NotAProfile { file: url.as_str().into(), reason }))?;
    let total = profile.total(0);
    if profile.samples.is_empty() || total <= 0 {
        return Err(refuse(GoRefusal::Hollow { file: url.as_str().into() }));
    }
    fs::write(file, &bytes).with_context(|| format!("{} can't be written", file.display()))?;
    Ok(Captured {
        file: file.to_path_buf(),
        url: url.to_string(),
        bytes: bytes.len() as u64,
        stacks: profile.samples.len() as u64,
        total,
        took_s,
    })
}

fn limit_of(wanted: ProfileRequest) -> Duration {
    let window = match wanted {
        ProfileRequest::Cpu { seconds } => seconds,
        ProfileRequest::Allocations { seconds } => seconds.unwrap_or(0),
    };
    Duration::from_secs(u64::from(window)) + GRACE
}

/// Reads the bytes of goroutine stacks: `runtime.MemStats.StackInuse`, which the heap page contains as text. One client serves all
/// readings, so that they disturb the measured program as little as possible.
#[derive(Debug)]
pub struct StackGauge {
    web: Web,
    url: Url,
}

impl StackGauge {
    /// A gauge of the service at `base`, an address as for [`capture`].
    ///
    /// # Errors
    /// A [`FetchError`].
    pub fn open(base: &str) -> Result<Self, FetchError> {
        Ok(Self { web: Web::open(None)?, url: page(base, "heap", Some("debug=1"))? })
    }

    /// The present bytes.
    ///
    /// # Errors
    /// A [`FetchError`], also if the page lacks the figure.
    pub fn bytes(&self) -> Result<u64, FetchError> {
        let text = self.web.get_bytes(self.url.as_str(), PAGE_LIMIT, &|| false)?;
        stack_in(&String::from_utf8_lossy(&text))
            .ok_or_else(|| FetchError::NoStackLine { url: self.url.to_string() })
    }
}

fn stack_in(text: &str) -> Option<u64> {
    let line = text.lines().rev().find_map(|line| line.strip_prefix(STACK_LINE))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The address of a profile.
///
/// # Errors
/// [`FetchError::Address`].
pub fn profile_url(base: &str, wanted: ProfileRequest) -> Result<Url, FetchError> {
    let (name, seconds) = match wanted {
        ProfileRequest::Cpu { seconds } => ("profile", Some(seconds)),
        ProfileRequest::Allocations { seconds } => ("allocs", seconds),
    };
    if seconds == Some(0) {
        let reason = "a window of 0 seconds contains no samples".to_owned();
        return Err(FetchError::Address { url: without_login(base), reason });
    }
    page(base, name, seconds.map(|seconds| format!("seconds={seconds}")).as_deref())
}

/// The address of a page of the pprof server.
fn page(base: &str, name: &str, query: Option<&str>) -> Result<Url, FetchError> {
    let mut url = address(base)?;
    let path = if url.path() == "/" {
        USUAL_PATH.to_owned()
    } else {
        format!("{}/", url.path().trim_end_matches('/'))
    };
    url.set_path(&format!("{path}{name}"));
    url.set_query(query);
    Ok(url)
}

/// A valid address for requests. One with a login is refused: Hone supports none here, and addresses appear in errors and records.
fn address(text: &str) -> Result<Url, FetchError> {
    let wrong = |reason: String| FetchError::Address { url: without_login(text), reason };
    let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        let reason = "it has a user name or a password, and Hone does not support logins here; serve pprof \
            on a loopback address without one";
        return Err(wrong(reason.to_owned()));
    }
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(wrong(format!("its scheme is {other}, but Hone supports only http and https"))),
    }
}

/// The address as a text for messages, without a login.
fn without_login(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, behind)) => format!("...@{behind}"),
        None => text.to_owned(),
    }
}

/// One GET.
fn fetch(url: &Url, limit: Duration, given_up: &dyn Fn() -> bool) -> Result<Vec<u8>, FetchError> {
    let asked = Web::open(None).and_then(|web| web.get_bytes(url.as_str(), limit, given_up));
    asked.map_err(|error| match error {
        WebError::Status { status, said, .. } => FetchError::Status { url: url.to_string(), status, said },
        other => other.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use proptest::prelude::*;

    use super::*;

    const CPU: ProfileRequest = ProfileRequest::Cpu { seconds: 30 };

    /// A server that answers one question with these bytes, after a while.
    fn answering(answer: &[u8], after: Duration) -> (Url, thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/debug/pprof/profile?seconds=1", listener.local_addr().unwrap());
        let answer = answer.to_vec();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let read = stream.read(&mut question).unwrap();
            thread::sleep(after);
            let _ = stream.write_all(&answer);
            String::from_utf8_lossy(&question[..read]).into_owned()
        });
        (Url::parse(&url).unwrap(), server)
    }

    fn ask(answer: &str) -> Result<Vec<u8>, String> {
        let (url, server) = answering(answer.as_bytes(), Duration::ZERO);
        let outcome = fetch(&url, Duration::from_secs(20), &|| false);
        let question = server.join().unwrap();
        assert!(question.starts_with("GET /debug/pprof/profile?seconds=1 HTTP/1.1\r\n"), "{question}");
        outcome.map_err(|error| error.to_string())
    }

    #[test]
    fn addresses_are_made_and_refused() {
        let check =
            |base, wanted, expected| assert_eq!(profile_url(base, wanted).unwrap().as_str(), expected);
        check("http://127.0.0.1:6060", CPU, "http://127.0.0.1:6060/debug/pprof/profile?seconds=30");
        check("http://[::1]:6060/own/pprof", CPU, "http://[::1]:6060/own/pprof/profile?seconds=30");
        check("http://h/", ProfileRequest::Allocations { seconds: None }, "http://h/debug/pprof/allocs");
        check(
            "http://h/?x=1",
            ProfileRequest::Allocations { seconds: Some(5) },
            "http://h/debug/pprof/allocs?seconds=5",
        );
        let refused = |base, reason: &str| {
            let error = profile_url(base, CPU).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        };
        refused("ftp://h", "its scheme is ftp, but Hone supports only http and https");
        refused("127.0.0.1:6060", "give an address like http://127.0.0.1:6060");
        assert!(profile_url("http://h", ProfileRequest::Cpu { seconds: 0 }).is_err());
    }

    /// Nothing sends it, and what is asked stands in errors, on the screen and in records.
    #[test]
    fn an_address_with_a_login_is_refused_without_telling_it() {
        for url in ["http://ada:secret@h:6060/own", "http://secret@h:6060/own", "http://:secret@h:6060/own"] {
            let page = page(url, "heap", None).unwrap_err().to_string();
            for error in [profile_url(url, CPU).unwrap_err().to_string(), page] {
                assert!(
                    error.contains("invalid address `...@h:6060/own`: it has a user name or a password"),
                    "{error}"
                );
                assert!(!error.contains("secret"), "{error}");
            }
        }
        for url in ["ada:secret@h:6060", "http://ada:secret@h:6o6o", "ftp://ada:secret@h"] {
            let error = profile_url(url, CPU).unwrap_err().to_string();
            assert!(error.contains("invalid address `") && !error.contains("secret"), "{error}");
        }
        let nothing =
            profile_url("http://ada:secret@h", ProfileRequest::Cpu { seconds: 0 }).unwrap_err().to_string();
        assert!(nothing.contains("0 seconds") && !nothing.contains("secret"), "{nothing}");
    }

    #[test]
    fn everything_else_says_what_to_do() {
        let check = |answer: &str, reason: &str| {
            let error = ask(answer).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        check(
            "HTTP/1.1 404 Not Found\r\n\r\n404 page not found\nx",
            "answered 404: 404 page not found\n  next: let the service import",
        );
        check(
            "HTTP/1.1 500 x\r\n\r\nCould not enable CPU profiling: cpu profiling already in use",
            "next: wait until the other CPU profile has ended",
        );
        check(
            "HTTP/1.1 400 x\r\n\r\nprofile duration exceeds server's WriteTimeout",
            "next: take a shorter window",
        );
        for broken in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab",
            "SSH-2.0-x\r\n\r\n",
            "",
        ] {
            check(broken, "can't be read");
        }
    }

    #[test]
    fn a_silent_service_is_given_up() {
        let (url, server) = answering(b"", Duration::from_millis(400));
        let error = fetch(&url, Duration::from_millis(100), &|| false).unwrap_err();
        assert!(matches!(error, FetchError::NoAnswer(WebError::Slow { .. })), "{error}");
        server.join().unwrap();
        let gone = fetch(&url, Duration::from_secs(5), &|| false).unwrap_err();
        assert!(matches!(gone, FetchError::NoAnswer(WebError::Unreachable { .. })), "{gone}");
    }

    #[test]
    fn nobody_waits_for_what_is_not_needed_any_more() {
        let (url, server) = answering(b"", Duration::from_secs(3));
        let begun = Instant::now();
        let given_up = || begun.elapsed() > Duration::from_millis(100);
        let error = fetch(&url, Duration::from_secs(60), &given_up).unwrap_err();
        assert!(matches!(error, FetchError::NoAnswer(WebError::GivenUp { .. })), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        server.join().unwrap();
    }

    #[test]
    fn what_stacks_take_is_read_from_the_page_of_the_heap() {
        let page = "heap profile: 1: 2 [3: 4] @ heap/1048576\n1: 2 [3: 4] @ 0x1\n#\t0x1\tmain.f+0x1\tx.go:1\n\n# runtime.MemStats\n\
                    # Alloc = 1\n# Stack = 589824 / 622592\n# MSpan = 1 / 2\n";
        assert_eq!(stack_in(page), Some(589_824));
        for other in ["", "# Stack = ", "# Stack = -1 / 2", "# Stack = 99999999999999999999999 / 1"] {
            assert_eq!(stack_in(other), None, "{other}");
        }
    }

    #[test]
    fn an_answer_that_is_no_profile_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (url, server) = answering(b"HTTP/1.1 200 OK\r\n\r\n<html>hello", Duration::ZERO);
        let base = url.as_str().split("/debug").next().unwrap();
        let error = capture(base, CPU, &dir.path().join("x")).unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(Refusal::Go(GoRefusal::NotAProfile { .. }))),
            "{error:#}"
        );
        assert!(!dir.path().join("x").exists());
        server.join().unwrap();
    }

    proptest! {
        #[test]
        fn no_page_makes_it_panic(text in "(# Stack = |[0-9]{1,30}| / |-|\n|é){0,20}") {
            stack_in(&text);
        }
    }
}
