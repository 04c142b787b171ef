//! The receipt of a build as text.

use hone_format::count;
use serde::Serialize;

/// How this program was built, and facts of its file.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    pub(crate) version: &'static str,
    /// The commit, with `+` if files differed from it. `None` in development builds and without a repository.
    pub(crate) commit: Option<&'static str>,
    pub(crate) rustc: &'static str,
    pub(crate) target: &'static str,
    /// `release` or `debug`, as Cargo passes it to build scripts.
    pub(crate) profile: &'static str,
    pub(crate) opt_level: &'static str,
    pub(crate) rustflags: Vec<String>,
    /// File name of the profile that the compiler used.
    pub(crate) pgo: Option<String>,
    /// Whether it writes a profile while it runs.
    pub(crate) instrumented: bool,
    /// Whether BOLT has rewritten it.
    pub(crate) bolt: bool,
    pub(crate) static_link: bool,
    /// Cargo features. Without `librdkafka`, that client is missing. Without `object-stores`, S3, GCS and Azure are missing.
    pub(crate) features: Vec<&'static str>,
    pub(crate) build_id: Option<String>,
    pub(crate) program_bytes: u64,
    pub(crate) text_bytes: u64,
    pub(crate) sha256: String,
}

/// The receipt as text, one fact per line.
pub(crate) fn text(receipt: &Receipt) -> String {
    let commit = match receipt.commit {
        Some(commit) => match commit.strip_suffix('+') {
            Some(commit) => format!("{commit}, with uncommitted changes"),
            None => commit.to_owned(),
        },
        None => "not recorded (development build, or no repository)".to_owned(),
    };
    let flags = if receipt.rustflags.is_empty() { "none".to_owned() } else { receipt.rustflags.join(" ") };
    let features = if receipt.features.is_empty() { "none".to_owned() } else { receipt.features.join(", ") };
    let linked = if receipt.static_link { "static" } else { "dynamic" };
    let mut lines = vec![
        format!("hone {}", receipt.version),
        format!("commit    {commit}"),
        format!("compiler  {}", receipt.rustc),
        format!(
            "build     {}, {}, opt-level {}, {linked}",
            receipt.target, receipt.profile, receipt.opt_level
        ),
        format!("flags     {flags}"),
        format!("features  {features}"),
        format!(
            "PGO       {}",
            receipt.pgo.as_deref().map_or_else(|| "no".to_owned(), |name| format!("yes, {name}"))
        ),
        format!("BOLT      {}", if receipt.bolt { "yes" } else { "no" }),
    ];
    if receipt.instrumented {
        lines.push("counters  instrumented build: slow, writes a profile".to_owned());
    }
    lines.push(format!("code      {} bytes", count(receipt.text_bytes)));
    lines.push(format!("program   {} bytes, SHA-256 {}", count(receipt.program_bytes), receipt.sha256));
    lines.push(format!("build-id  {}", receipt.build_id.as_deref().unwrap_or("none")));
    lines.join("\n") + "\n"
}
