//! Profiles from a continuous profiler. The server merges them by its own query (Pyroscope or Parca) into one pprof profile.
//!
//! Pyroscope: `querier.v1.QuerierService/SelectMergeProfile` with the Connect protocol, with protocol buffers on both sides (its
//! JSON form is the message and not a pprof file). Parca: `parca.query.v1alpha1.QueryService/Query` over its HTTP gateway, whose
//! answer has the compressed profile in base64.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hone_binary::go::Profile;
use hone_store::web::{Web, shown};
use hone_tool::interrupt;
use serde::Deserialize;

use hone_experiment::moment::now_unix_ms;

/// The type of Go's CPU profiles in both, when they were scraped or pushed.
pub const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
/// Suffix of a profile over a period, for Parca.
const DELTA: &str = ":delta";
/// A server needs minutes to merge days of many services.
const ANSWER_LIMIT: Duration = Duration::from_secs(300);
/// Numbers of `parca.query.v1alpha1.QueryRequest`: `MODE_MERGE`, and pprof, whose name has changed while its number has not.
const PARCA_MERGE: &str = "2";
const PARCA_PPROF: &str = "1";

/// A query.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The server's address.
    pub server: &'a str,
    /// Label selectors, such as `{service_name="checkout"}`.
    pub selector: &'a str,
    /// `name:sample type:sample unit:period type:period unit`.
    pub kind: &'a str,
    /// How far back, in seconds.
    pub since_s: f64,
    /// The tenant, for Pyroscope's `X-Scope-OrgID`.
    pub tenant: Option<&'a str>,
    /// A bearer token.
    pub token: Option<&'a str>,
}

/// A profile that a server merged.
#[derive(Debug)]
pub struct Merged {
    /// The bytes of a pprof file.
    pub bytes: Vec<u8>,
    /// Number of its stacks.
    pub stacks: usize,
    /// The sum of their counts.
    pub total: i64,
    /// Functions with samples but without a start line, of all functions with samples: Go's compiler ignores those.
    pub without_start: (usize, usize),
    /// Its source, in words.
    pub load: String,
}

/// Gets a merged profile from Pyroscope.
///
/// # Errors
/// When the server does not return a profile.
pub fn from_pyroscope(question: &Question<'_>) -> Result<Merged> {
    let (begin, end) = question.stretch();
    let url =
        format!("{}/querier.v1.QuerierService/SelectMergeProfile", question.server.trim_end_matches('/'));
    let mut headers = vec![("Connect-Protocol-Version", "1")];
    headers.extend(question.tenant.map(|tenant| ("X-Scope-OrgID", tenant)));
    let body = pyroscope_request(question, begin, end);
    let web = Web::open(question.token)?;
    let kind = "application/proto";
    let answer = web.post(&url, &headers, kind, body, ANSWER_LIMIT, &interrupt::requested)?;
    question.merged("Pyroscope", answer)
}

/// Gets a merged profile from Parca.
///
/// # Errors
/// When the server does not return a profile.
pub fn from_parca(question: &Question<'_>) -> Result<Merged> {
    let (begin, end) = question.stretch();
    let url = format!("{}/api/profiles/query", question.server.trim_end_matches('/'));
    let delta = if question.kind.ends_with(DELTA) { "" } else { DELTA };
    let query = format!("{}{delta}{}", question.kind, question.selector);
    let (begin, end) = (rfc3339(begin), rfc3339(end));
    let asked = [
        ("mode", PARCA_MERGE),
        ("report_type", PARCA_PPROF),
        ("merge.query", query.as_str()),
        ("merge.start", begin.as_str()),
        ("merge.end", end.as_str()),
    ];
    let web = Web::open(question.token)?;
    let text = web.get_within(&url, &asked, ANSWER_LIMIT, &interrupt::requested)?;
    let answer: ParcaAnswer = serde_json::from_str(&text).with_context(|| {
        format!("{} did not return an answer to Parca's query\n  next: {NEXT}", shown(&url))
    })?;
    let bytes =
        STANDARD.decode(&answer.pprof).with_context(|| format!("{} returned no base64", shown(&url)))?;
    question.merged("Parca", bytes)
}

const NEXT: &str = "give the address of its server, for example http://127.0.0.1:4040 (Pyroscope), \
     http://127.0.0.1:7070 (Parca)";

/// A period without profiles returns an empty one.
#[derive(Deserialize)]
struct ParcaAnswer {
    #[serde(default)]
    pprof: String,
}

impl Question<'_> {
    /// From and to, in milliseconds since 1970.
    fn stretch(&self) -> (u64, u64) {
        let end = now_unix_ms();
        (end.saturating_sub((self.since_s * 1_000.0) as u64), end)
    }

    fn merged(&self, who: &str, bytes: Vec<u8>) -> Result<Merged> {
        let from = format!("{who} at {}", shown(self.server));
        let nothing = || {
            format!(
                "{from} has no {} of {} in the last {:.0} s\n  next: check its labels and profile types, and \
                 choose others with --profile-type and --last",
                self.kind, self.selector, self.since_s
            )
        };
        if bytes.is_empty() {
            bail!(nothing());
        }
        let read = Profile::parse(&bytes).map_err(anyhow::Error::msg);
        let profile =
            read.with_context(|| format!("{from} did not return a pprof profile\n  next: {NEXT}"))?;
        let total = profile.total(0);
        if profile.samples.is_empty() || total <= 0 {
            bail!(nothing());
        }
        let load =
            format!("{} of {} in the last {:.0} s, merged by {who}", self.kind, self.selector, self.since_s);
        // Pyroscope sends it uncompressed; a pprof file is compressed.
        let bytes = if bytes.starts_with(&[0x1f, 0x8b]) { bytes } else { profile.to_bytes() };
        let without_start = without_start(&profile);
        Ok(Merged { bytes, stacks: profile.samples.len(), total, without_start, load })
    }
}

fn without_start(profile: &Profile) -> (usize, usize) {
    let mut seen = vec![false; profile.functions.len()];
    for sample in &profile.samples {
        profile.frames(sample).for_each(|line| seen[line.function] = true);
    }
    let seen: Vec<usize> = (0..seen.len()).filter(|&at| seen[at]).collect();
    let bare = seen.iter().filter(|&&at| profile.functions[at].start_line == 0).count();
    (bare, seen.len())
}

/// `SelectMergeProfileRequest`: type (1), labels (2), start (3) and end (4) in milliseconds.
fn pyroscope_request(question: &Question<'_>, begin_ms: u64, end_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, text) in [(1, question.kind), (2, question.selector)] {
        out.push(number << 3 | 2);
        varint(&mut out, text.len() as u64);
        out.extend_from_slice(text.as_bytes());
    }
    for (number, value) in [(3, begin_ms), (4, end_ms)] {
        out.push(number << 3);
        varint(&mut out, value);
    }
    out
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// `2026-01-31T12:34:59Z`: with seconds, since a period may be as short as one.
fn rfc3339(unix_ms: u64) -> String {
    let date = hone_report::date_utc(unix_ms);
    format!("{}:{:02}Z", date.trim_end_matches(" UTC").replace(' ', "T"), unix_ms / 1_000 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_have_the_bytes_that_the_servers_read() {
        let question = Question {
            server: "http://h:4040/",
            selector: "{a=\"b\"}",
            kind: "k",
            since_s: 60.0,
            tenant: None,
            token: None,
        };
        assert_eq!(
            pyroscope_request(&question, 1, 300),
            [b"\x0a\x01k\x12\x07{a=\"b\"}".as_slice(), b"\x18\x01\x20\xac\x02"].concat()
        );
        assert_eq!(rfc3339(1_769_862_899_000), "2026-01-31T12:34:59Z");
        assert_eq!(rfc3339(1_769_862_900_999), "2026-01-31T12:35:00Z");
        let (begin, end) = question.stretch();
        assert_eq!(end - begin, 60_000);
    }
}
