//! Pages of services over HTTP and HTTPS: metrics of brokers, answers of Prometheus. Blocking, with limits on time and bytes.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, RequestBuilder, Response};
use tokio::runtime::Runtime;
use url::Url;

/// Size limit of a page: a broker with 100,000 partitions has a page of some 100 MB.
const MOST_BYTES: usize = 256 << 20;
/// Time to connect.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Time for the whole answer: a large page takes a broker some seconds.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Interval of the check whether the caller still waits.
const STEP: Duration = Duration::from_millis(100);
/// Length of an error answer in a message.
const SAID_CHARACTERS: usize = 200;

/// Why a request gave no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebError {
    /// The address is invalid, or a setting is.
    #[error("invalid address `{url}`: {problem}\n  next: use an address like http://127.0.0.1:9644/metrics")]
    Address {
        /// The address without its password.
        url: String,
        /// The fault.
        problem: String,
    },
    /// No service answers.
    #[error(
        "can't reach {url}: {problem}\n  next: check that the service runs, and that it serves this address \
         to this machine"
    )]
    Unreachable {
        /// The requested address.
        url: String,
        /// The whole chain of reasons.
        problem: String,
    },
    /// The answer was truncated, or has another form.
    #[error(
        "the answer of {url} can't be read: {problem}\n  next: check that the service serves HTTP at this address"
    )]
    Malformed {
        /// The requested address.
        url: String,
        /// The whole chain of reasons.
        problem: String,
    },
    /// Another status than 200.
    #[error("{url} answered {status}: {said}\n  next: {}", next_after(*status))]
    Status {
        /// The requested address.
        url: String,
        /// The status.
        status: u16,
        /// The first words of the answer.
        said: String,
    },
    /// No complete answer in time.
    #[error("{url} did not answer within {limit_s} s")]
    Slow {
        /// The requested address.
        url: String,
        /// The limit.
        limit_s: u64,
    },
    /// Larger than any page.
    #[error("the answer of {url} is longer than {} MiB", MOST_BYTES >> 20)]
    TooLarge {
        /// The requested address.
        url: String,
    },
    /// The caller no longer waits for it.
    #[error("the request to {url} was cancelled")]
    GivenUp {
        /// The requested address.
        url: String,
    },
}

impl WebError {
    /// The status, if that was the answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }
}

fn next_after(status: u16) -> &'static str {
    match status {
        401 | 403 => "add a name and a password (http://NAME:PASSWORD@HOST/...), or a token",
        404 => {
            "check the path of the endpoint: Redpanda has /metrics and /public_metrics, a JMX exporter \
             /metrics"
        }
        _ => "check the service's log",
    }
}

/// Whether the caller no longer needs the answer.
pub type GivenUp<'a> = &'a dyn Fn() -> bool;

/// A client for pages.
pub struct Web {
    runtime: Runtime,
    client: Client,
    token: Option<HeaderValue>,
}

impl fmt::Debug for Web {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Web").field("has_token", &self.token.is_some()).finish_non_exhaustive()
    }
}

impl Web {
    /// A client that sends a bearer token with every request, if there is one. It ignores the proxies of the environment, as Prometheus
    /// does for its scrapes.
    ///
    /// # Errors
    /// Fails when the token can't be sent in a header, or when TLS has no roots.
    pub fn open(token: Option<&str>) -> Result<Self, WebError> {
        let wrong = |problem: String| WebError::Address { url: "the client".to_owned(), problem };
        // Without a provider the client would panic at its first connection. An already installed one also works.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let token = token.map(|token| HeaderValue::from_str(&format!("Bearer {}", token.trim())));
        let mut token = token
            .transpose()
            .map_err(|_| wrong("the token contains characters that a header can't contain".to_owned()))?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        let client = Client::builder().connect_timeout(CONNECT_LIMIT).no_proxy().user_agent("hone").build();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            runtime: runtime.map_err(|error| wrong(error.to_string()))?,
            client: client.map_err(|error| wrong(words(&error)))?,
            token,
        })
    }

    /// The text of a page, with query parameters. Invalid UTF-8 is replaced.
    ///
    /// # Errors
    /// A [`WebError`].
    pub fn get(&self, url: &str, query: &[(&str, &str)], given_up: GivenUp<'_>) -> Result<String, WebError> {
        self.get_within(url, query, ANSWER_LIMIT, given_up)
    }

    /// The answer to a JSON text, sent with headers.
    ///
    /// # Errors
    /// A [`WebError`].
    pub fn post_json(
        &self,
        url: &str,
        headers: &[(&'static str, &'static str)],
        body: &str,
        given_up: GivenUp<'_>,
    ) -> Result<String, WebError> {
        let body = body.as_bytes().to_vec();
        self.post(url, headers, "application/json", body, ANSWER_LIMIT, given_up).map(text)
    }

    /// Sends bytes of an HTTP content type, and returns the answer's bytes, within the caller's time limit.
    ///
    /// # Errors
    /// A [`WebError`].
    pub fn post(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        kind: &str,
        body: Vec<u8>,
        limit: Duration,
        given_up: GivenUp<'_>,
    ) -> Result<Vec<u8>, WebError> {
        let url = address(url)?;
        let name = told(&url);
        let mut request = self.client.post(url).header(CONTENT_TYPE, kind).body(body);
        for (header, value) in headers {
            request = request.header(*header, *value);
        }
        self.ask(&name, request, limit, given_up)
    }

    /// Like [`Web::get`], within the caller's time limit.
    ///
    /// # Errors
    /// A [`WebError`].
    pub fn get_within(
        &self,
        url: &str,
        query: &[(&str, &str)],
        limit: Duration,
        given_up: GivenUp<'_>,
    ) -> Result<String, WebError> {
        let mut url = address(url)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.page(url, limit, given_up).map(text)
    }

    /// The bytes of a page, within the caller's time limit.
    ///
    /// # Errors
    /// A [`WebError`].
    pub fn get_bytes(&self, url: &str, limit: Duration, given_up: GivenUp<'_>) -> Result<Vec<u8>, WebError> {
        self.page(address(url)?, limit, given_up)
    }

    fn page(&self, url: Url, limit: Duration, given_up: GivenUp<'_>) -> Result<Vec<u8>, WebError> {
        self.ask(&told(&url), self.client.get(url), limit, given_up)
    }

    fn ask(
        &self,
        url: &str,
        request: RequestBuilder,
        limit: Duration,
        given_up: GivenUp<'_>,
    ) -> Result<Vec<u8>, WebError> {
        let request = match &self.token {
            Some(token) => request.header(AUTHORIZATION, token.clone()),
            None => request,
        };
        self.runtime.block_on(unless_given_up(url, given_up, async {
            match tokio::time::timeout(limit, answer(url, request)).await {
                Ok(answered) => answered,
                Err(_) => Err(WebError::Slow { url: url.to_owned(), limit_s: limit.as_secs() }),
            }
        }))
    }
}

async fn unless_given_up<T>(
    url: &str,
    given_up: GivenUp<'_>,
    asked: impl Future<Output = Result<T, WebError>>,
) -> Result<T, WebError> {
    let mut asked = std::pin::pin!(asked);
    loop {
        if let Ok(answered) = tokio::time::timeout(STEP, &mut asked).await {
            return answered;
        }
        if given_up() {
            return Err(WebError::GivenUp { url: url.to_owned() });
        }
    }
}

/// Invalid UTF-8 is replaced.
fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

async fn answer(url: &str, request: RequestBuilder) -> Result<Vec<u8>, WebError> {
    let failed = |error: reqwest::Error| {
        let (url, problem) = (url.to_owned(), words(&error));
        let is_unreachable = error.is_connect() || error.is_timeout();
        if is_unreachable {
            WebError::Unreachable { url, problem }
        } else {
            WebError::Malformed { url, problem }
        }
    };
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    let body = body(url, &mut response).await?;
    if status == 200 {
        return Ok(body);
    }
    let said = text(body);
    let said = said.lines().next().unwrap_or_default().chars().take(SAID_CHARACTERS).collect();
    Err(WebError::Status { url: url.to_owned(), status, said })
}

async fn body(url: &str, response: &mut Response) -> Result<Vec<u8>, WebError> {
    let mut bytes = Vec::new();
    loop {
        let chunk = response.chunk().await;
        let chunk =
            chunk.map_err(|error| WebError::Malformed { url: url.to_owned(), problem: words(&error) })?;
        let Some(chunk) = chunk else { break };
        if bytes.len() + chunk.len() > MOST_BYTES {
            return Err(WebError::TooLarge { url: url.to_owned() });
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn address(text: &str) -> Result<Url, WebError> {
    let wrong = |problem: String| WebError::Address { url: hidden(text), problem };
    let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
    match url.scheme() {
        "http" | "https" => Ok(url),
        other => Err(wrong(format!("its scheme is {other}, but Hone supports only http and https"))),
    }
}

/// An address for messages: without name and password, and without the query, which may contain a token.
pub fn shown(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) if matches!(url.scheme(), "http" | "https") => told(&url),
        // A parser takes `NAME:PASSWORD@HOST` for an address with the scheme NAME.
        _ => hidden(address),
    }
}

fn told(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // These calls fail for addresses that can't have either, which then have none.
    let _ = url.set_password(None);
    let _ = url.set_username("");
    url.to_string()
}

/// The same for a text that is no address, because it may contain a password.
fn hidden(text: &str) -> String {
    let unasked = text.split('?').next().unwrap_or(text);
    match unasked.rsplit_once('@') {
        Some((_, behind)) => format!("...@{behind}"),
        None => unasked.to_owned(),
    }
}

/// The whole chain: the outermost error says only that sending failed.
fn words(error: &reqwest::Error) -> String {
    let mut words = Vec::new();
    let mut cause: Option<&dyn std::error::Error> = std::error::Error::source(error);
    while let Some(error) = cause {
        words.push(error.to_string());
        cause = error.source();
    }
    if words.is_empty() { error.to_string() } else { words.join(": ") }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};
    use std::time::Instant;

    use super::*;

    /// A server that answers one question with these bytes, after a while, and says what it was asked.
    fn answering(answer: &'static str, after: Duration) -> (String, JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 4096];
            let read = stream.read(&mut question).unwrap();
            thread::sleep(after);
            let _ = stream.write_all(answer.as_bytes());
            String::from_utf8_lossy(&question[..read]).into_owned()
        });
        (address, server)
    }

    const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nup 1";

    #[test]
    fn a_page_is_fetched_with_its_questions_and_its_login() {
        let (address, server) = answering(PAGE, Duration::ZERO);
        let web = Web::open(None).unwrap();
        let url = format!("http://me:secret@{address}/api/v1/query");
        let page = web.get(&url, &[("query", "rate(x{a=\"b\"}[5m]) > 0"), ("time", "1")], &|| false).unwrap();
        assert_eq!(page, "up 1");
        let question = server.join().unwrap();
        assert!(
            question.starts_with(
                "GET /api/v1/query?query=rate%28x%7Ba%3D%22b%22%7D%5B5m%5D%29+%3E+0&time=1 HTTP/1.1\r\n"
            ),
            "{question}"
        );
        assert!(question.to_lowercase().contains("authorization: basic bwu6c2vjcmv0"), "{question}");
    }

    #[test]
    fn a_token_and_a_body_are_sent() {
        let (address, server) = answering(PAGE, Duration::ZERO);
        let web = Web::open(Some("abc\n")).unwrap();
        let headers = [("Connect-Protocol-Version", "1")];
        web.post_json(&format!("http://{address}/a.B/C"), &headers, "{\"x\":1}", &|| false).unwrap();
        let question = server.join().unwrap();
        assert!(question.starts_with("POST /a.B/C HTTP/1.1"), "{question}");
        let lower = question.to_lowercase();
        for header in
            ["authorization: bearer abc", "connect-protocol-version: 1", "content-type: application/json"]
        {
            assert!(lower.contains(header), "no {header} in {question}");
        }
        assert!(Web::open(Some("a\u{7}b")).unwrap_err().to_string().contains("that a header can't contain"));
    }

    #[test]
    fn what_is_no_page_says_what_to_do_and_never_the_password() {
        let web = Web::open(None).unwrap();
        let (address, server) =
            answering("HTTP/1.1 401 Unauthorized\r\nContent-Length: 7\r\n\r\nno\nmore", Duration::ZERO);
        let error = web.get(&format!("http://me:secret@{address}/metrics"), &[], &|| false).unwrap_err();
        server.join().unwrap();
        assert_eq!(error.status(), Some(401));
        let error = error.to_string();
        assert!(error.contains("answered 401: no\n  next: add a name and a password"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        // Nothing listens there any more.
        let error = web.get(&format!("http://me:secret@{address}/"), &[], &|| false).unwrap_err().to_string();
        assert!(error.starts_with("can't reach ") && error.contains("refused"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        for url in ["ftp://me:secret@h/", "127.0.0.1:9644/metrics", "me:secret@h"] {
            let error = web.get(url, &[], &|| false).unwrap_err().to_string();
            assert!(error.contains("use an address like http://") && !error.contains("secret"), "{error}");
        }
        let (address, server) =
            answering("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\nhalf", Duration::ZERO);
        let error = web.get(&format!("http://{address}/"), &[], &|| false).unwrap_err();
        assert!(matches!(error, WebError::Malformed { .. }), "{error}");
        server.join().unwrap();
    }

    #[test]
    fn an_address_is_told_without_what_lets_one_in() {
        for (address, expected) in [
            ("http://me:s%40ecret@h:9644/metrics", "http://h:9644/metrics"),
            ("http://me:s@ecret@h:9644", "http://h:9644/"),
            ("https://h/metrics?token=secret", "https://h/metrics"),
            ("me:secret@h:9644", "...@h:9644"),
            ("h:9644/metrics?token=secret", "h:9644/metrics"),
        ] {
            assert_eq!(shown(address), expected, "{address}");
        }
    }

    #[test]
    fn nobody_waits_for_what_is_not_needed_any_more() {
        let (address, server) = answering(PAGE, Duration::from_secs(2));
        let begun = Instant::now();
        let web = Web::open(None).unwrap();
        let error = web.get(&format!("http://{address}/"), &[], &|| true).unwrap_err();
        assert!(matches!(error, WebError::GivenUp { .. }), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        server.join().unwrap();
    }
}
