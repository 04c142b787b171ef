//! What `hone version` tells of the build: compiler, target, flags, and of a release build also the commit.

use std::env;
use std::process::Command;

/// Between two flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: char = '\x1f';

fn main() {
    for name in ["HONE_COMMIT", "RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let profile = variable("PROFILE");
    tell("RUSTC", &said(&variable("RUSTC"), &["--version"]).unwrap_or_default());
    tell("TARGET", &variable("TARGET"));
    tell("OPT_LEVEL", &variable("OPT_LEVEL"));
    let flags = variable("CARGO_ENCODED_RUSTFLAGS");
    tell("RUSTFLAGS", &flags.split(SEPARATOR).collect::<Vec<_>>().join("\n").replace('\n', "\\n"));
    // A build for development is made anew too often to look at the commit each time.
    let commit = if profile == "release" { commit() } else { None };
    tell("COMMIT", &commit.unwrap_or_default());
    tell("PROFILE", &profile);
}

fn tell(name: &str, value: &str) {
    println!("cargo:rustc-env=HONE_BUILD_{name}={value}");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// The commit and, where files differ from it, `+`: as HONE_COMMIT says, for sources without a repository, else as git says.
fn commit() -> Option<String> {
    if let Ok(told) = env::var("HONE_COMMIT") {
        return Some(told);
    }
    // A repository around the sources that is not theirs would lend its commit.
    said("git", &["ls-files", "--error-unmatch", "build.rs"])?;
    println!("cargo:rerun-if-changed=..");
    println!("cargo:rerun-if-changed=../../Cargo.lock");
    for name in ["HEAD", "logs/HEAD"] {
        println!("cargo:rerun-if-changed={}", said("git", &["rev-parse", "--git-path", name])?);
    }
    let commit = said("git", &["rev-parse", "HEAD"])?;
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}+") })
}

/// What a program prints, when it ends well.
#[expect(
    clippy::disallowed_methods,
    reason = "rustc and git, as cargo itself starts them; Hone is not there yet"
)]
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
