//! What script/package and `cargo install` make: somewhere else it runs.
//!
//! Only with HONE_LONG=1: the static build compiles OpenSSL and librdkafka anew, which takes minutes.

#![expect(clippy::disallowed_methods, reason = "the script is started as its users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

mod book;
use book::root;

mod stage;
use stage::{Ran, tools};

/// Runs a command in a folder and fails with what it said unless it ends well.
fn ran(folder: &Path, program: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Ran {
    Ran::of(Command::new(program).args(words).current_dir(folder).output().unwrap()).expect_code(0)
}

/// The folder of the programs under test.
fn programs() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_hone")).parent().unwrap().to_owned()
}

/// Packs what is built already, or builds it; answers the file that was made.
fn made(folder: &Path, words: &[&str]) -> PathBuf {
    let mut script = Command::new(root().join("script/package"));
    script.args(words).env("PROFILE", "dev");
    if words[0] == "deb" {
        script.env("CARGO_TARGET_DIR", folder);
    }
    let said = Ran::of(script.output().unwrap()).expect_code(0).stderr;
    let said = said.replace("\u{1b}[1m", "").replace("\u{1b}[0m", "");
    let path = said.lines().rev().find(|line| line.contains("/package/")).unwrap_or_else(|| panic!("{said}"));
    root().join(path.trim())
}

/// An installed Hone, in a tree of its own: its program, manual page, completion and receipt belong together.
fn is_whole(hone: &Path, share: &Path, receipt: &Path) {
    let version = ran(share, hone, &["--version"]).stdout;
    assert_eq!(version.trim(), format!("hone {}", env!("CARGO_PKG_VERSION")));
    let kept: serde_json::Value = serde_json::from_str(&fs::read_to_string(receipt).unwrap()).unwrap();
    let own = ran(share, hone, &["version", "--json"]).json();
    assert_eq!(kept["body"]["sha256"], own["body"]["sha256"], "the receipt is of this program");
    assert!(share.join("man/man1/hone-batch-xray.1.gz").is_file());
    let completion = fs::read_to_string(share.join("bash-completion/completions/hone")).unwrap();
    assert!(completion.contains("complete -F _hone"));
    // It carries a load: broker, librdkafka and codecs are inside.
    let data = tempfile::tempdir().unwrap();
    let broker =
        format!("{} broker --listen 127.0.0.1:{{port}} --data {{data}} --metrics-listen off", hone.display());
    let short =
        ["--rate", "200", "--duration", "1", "--warmup", "50", "--pairs", "5", "--control-pairs", "0"];
    let load = [
        "--client",
        "librdkafka",
        "--compression",
        "zstd",
        "--max-lateness",
        "5s",
        "--quiet",
        "--json",
        "--no-counts",
    ];
    let words = [&["compare", &broker, &broker][..], &short, &load].concat();
    let told = Ran::of(Command::new(hone).args(words).current_dir(data.path()).output().unwrap());
    assert!([0, 3].contains(&told.code), "{}", told.stderr);
    assert_eq!(told.json()["kind"], "comparison");
}

fn is_long() -> bool {
    std::env::var_os("HONE_LONG").is_some()
}

#[test]
fn a_debian_package_is_unpacked_and_runs() {
    if !is_long() || tools::find("dpkg-deb").is_none() || tools::find("dpkg-shlibdeps").is_none() {
        return;
    }
    assert!(programs().join("hone-broker").is_file(), "cargo test --workspace builds it");
    let (folder, tree) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let package = made(folder.path(), &["deb", programs().to_str().unwrap()]);
    let fields = ran(folder.path(), "dpkg-deb", &["--field", package.to_str().unwrap()]).stdout;
    for field in ["Package: hone", "libssl3", "libc6", "Architecture: "] {
        assert!(fields.contains(field), "{fields}");
    }
    ran(folder.path(), "dpkg-deb", &["--extract", package.to_str().unwrap(), tree.path().to_str().unwrap()]);
    let share = tree.path().join("usr/share");
    is_whole(&tree.path().join("usr/bin/hone"), &share, &share.join("doc/hone/receipt.json"));
    let broker = ran(folder.path(), tree.path().join("usr/bin/hone-broker"), &["--version"]).stdout;
    assert!(broker.starts_with("hone-broker "), "{broker}");
}

#[test]
fn a_static_build_is_unpacked_and_runs() {
    if !is_long() || tools::find("musl-gcc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = made(folder.path(), &["static"]);
    ran(folder.path(), "tar", &["-xzf", archive.to_str().unwrap()]);
    let entries = fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.path());
    let tree = entries.into_iter().find(|path| path.is_dir()).unwrap();
    let own = ran(&tree, tree.join("bin/hone"), &["version", "--json"]).json();
    assert_eq!(own["body"]["static_link"], true);
    is_whole(&tree.join("bin/hone"), &tree.join("share"), &tree.join("receipt.json"));
}

/// As docs/install.md has it, but that it goes into a folder of its own, and is built in the folder and profile of this test.
#[test]
fn what_cargo_installs_runs() {
    if !is_long() {
        return;
    }
    let installed = tempfile::tempdir().unwrap();
    let profile = if cfg!(debug_assertions) { "dev" } else { "release" };
    let target = programs().parent().unwrap().display().to_string();
    let place = installed.path().to_str().unwrap();
    let install = ["install", "--path", "crates/hone", "--locked", "--no-track", "--profile", profile];
    let words = [&install[..], &["--root", place, "--target-dir", &target]].concat();
    ran(&root(), "cargo", &words);
    let hone = installed.path().join("bin/hone");
    let version = ran(installed.path(), &hone, &["--version"]).stdout;
    assert_eq!(version.trim(), format!("hone {}", env!("CARGO_PKG_VERSION")));
    ran(installed.path(), &hone, &["man", "--output", "man/man1"]);
    assert!(installed.path().join("man/man1/hone-batch-xray.1").is_file());
}
