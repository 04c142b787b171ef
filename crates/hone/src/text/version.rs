//! The receipt of a build as text.

use hone_format::count;
use serde::Serialize;

/// What this program was made of, and what it is.
#[derive(Debug, Serialize)]
pub(crate) struct Receipt {
    pub(crate) version: &'static str,
    /// The commit, with `+` where files differed from it; none in builds for development and without a repository.
    pub(crate) commit: Option<&'static str>,
    pub(crate) rustc: &'static str,
    pub(crate) target: &'static str,
    /// `release` or `debug`, as Cargo names it to build scripts.
    pub(crate) profile: &'static str,
    pub(crate) opt_level: &'static str,
    pub(crate) rustflags: Vec<String>,
    /// Name of the profile that the compiler was given.
    pub(crate) pgo: Option<String>,
    /// Whether it counts for a profile while it runs.
    pub(crate) instrumented: bool,
    /// Whether BOLT has rewritten it.
    pub(crate) bolt: bool,
    pub(crate) static_link: bool,
    /// Cargo's features: without `librdkafka` that client is missing, without `object-stores` S3, GCS and Azure.
    pub(crate) features: Vec<&'static str>,
    pub(crate) build_id: Option<String>,
    pub(crate) program_bytes: u64,
    pub(crate) text_bytes: u64,
    pub(crate) sha256: String,
}

/// A line for each thing that is known of the build.
pub(crate) fn text(receipt: &Receipt) -> String {
    let commit = match receipt.commit {
        Some(commit) => match commit.strip_suffix('+') {
            Some(commit) => format!("{commit}, with changes that are in no commit"),
            None => commit.to_owned(),
        },
        None => "not recorded (a build for development, or without a repository)".to_owned(),
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
        lines.push("counters  this build counts for a profile, and is slow".to_owned());
    }
    lines.push(format!("code      {} bytes", count(receipt.text_bytes)));
    lines.push(format!("program   {} bytes, SHA-256 {}", count(receipt.program_bytes), receipt.sha256));
    lines.push(format!("build-id  {}", receipt.build_id.as_deref().unwrap_or("none")));
    lines.join("\n") + "\n"
}
