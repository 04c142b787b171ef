//! The examples: whole, and their sources are those whose hash they say.

#![expect(clippy::disallowed_methods, reason = "the examples' scripts are run as their users do")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().unwrap()
}

fn fetch(folder: &Path, sum: &str, needs: &[&str]) -> Output {
    let script = examples().join("debian-source.sh");
    let named = [folder.to_str().unwrap(), "no-such-package-of-hone", "toy.tar.gz", sum];
    Command::new(script).args(named).args(needs).output().unwrap()
}

#[test]
fn sources_are_those_of_the_hash_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let fetched = dir.path().join("fetched");
    fs::create_dir_all(fetched.join("toy-1.0")).unwrap();
    fs::write(fetched.join("toy-1.0/main.c"), "int main(void) { return 0; }\n").unwrap();
    let made =
        Command::new("tar").args(["-czf", "toy.tar.gz", "toy-1.0"]).current_dir(&fetched).status().unwrap();
    assert!(made.success());
    let sum = hone_binary::sha256_hex(&fs::read(fetched.join("toy.tar.gz")).unwrap());
    let good = fetch(dir.path(), &sum, &["bash=bash"]);
    assert!(good.status.success(), "{good:?}");
    assert!(fetched.join("source/main.c").is_file());
    // What somebody has changed there stays, since the archive is the same.
    fs::write(fetched.join("source/mine"), "").unwrap();
    let missing = fetch(dir.path(), &sum, &["some-package=no-such-program-of-hone", "bash=bash"]);
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(!missing.status.success() && said.contains("--no-install-recommends some-package\n"), "{said}");
    assert!(fetched.join("source/mine").is_file());

    let other = fetch(dir.path(), &"0".repeat(64), &[]);
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(!other.status.success() && said.contains(&"0".repeat(64)), "{said}");
}

/// Every example has what its file names: scripts that can be run, and workloads that differ.
#[test]
fn examples_are_whole() {
    let mut seen = 0;
    for entry in fs::read_dir(examples()).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(text) = fs::read_to_string(folder.join("hone.toml")) else { continue };
        seen += 1;
        let file: toml::Table = text.parse().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let name = file["name"].as_str().unwrap().to_owned();
        let optimize = file["optimize"].as_table().unwrap();
        let names = |key: &str| match &optimize[key] {
            toml::Value::Array(list) => list.iter().map(|name| name.as_str().unwrap().to_owned()).collect(),
            other => vec![other.as_str().unwrap().to_owned()],
        };
        let (train, judge): (Vec<String>, Vec<String>) = (names("train"), names("judge"));
        assert!(train.iter().all(|trained| !judge.contains(trained)), "{name}");
        let workloads = file["workload"].as_table().unwrap();
        assert!(train.iter().chain(&judge).all(|name| workloads.contains_key(name)), "{name}");
        let check = file["target"].get("check").and_then(toml::Value::as_str);
        if let Some(script) =
            check.and_then(|check| check.split(' ').next()).filter(|word| word.ends_with(".sh"))
        {
            let script = fs::metadata(folder.join(script)).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(script.permissions().mode() & 0o111 != 0, "{name}: the check can't be run");
        }
        assert!(text.contains(&format!("hone optimize examples/{name}/hone.toml")) || name == "broker-pgo");
    }
    assert!(seen >= 6, "{seen}");
}
