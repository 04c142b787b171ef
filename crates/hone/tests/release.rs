//! `script/release`: the experiments by which Hone builds itself are planned, and what they keep is packed with its verdict. An hour of builds and
//! windows is no test; with HONE_LONG=1 a program stands in for `hone optimize`, and all else is real.

#![expect(clippy::disallowed_methods, reason = "the script is started as its users do")]

use std::fs;
use std::path::Path;
use std::process::Command;

mod book;
use book::root;

mod stage;
use stage::{Ran, hone_in, tools};

/// The script with what it makes in a folder of its own, by this `hone`.
fn release(target: &Path, hone: &Path, words: &[&str]) -> Ran {
    let mut script = Command::new(root().join("script/release"));
    script.args(words).env("CARGO_TARGET_DIR", target).env("HONE", hone).env("PROFILE", "dev");
    Ran::of(script.output().unwrap())
}

/// Variants and loads of both experiments.
const PLANNED: [&str; 5] = [
    "a Cargo target; variants baseline, relocs, pgo, bolt, pgo+bolt",
    "trained with telemetry",
    "validate: 14 pairs and 6 of the control",
    "plain: 14 pairs and 6 of the control",
    "pgo+bolt compared with pgo",
];

#[test]
fn a_release_is_planned_by_the_experiments_that_it_names() {
    if tools::find("llvm-bolt-22").is_none() || tools::find("clang-22").is_none() {
        return;
    }
    let target = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_hone"));
    let plan = hone_in(&root(), &["optimize", "packaging/release.toml", "--dry-run"]).expect_code(0).stdout;
    let both = release(target.path(), own, &["--dry-run"]).expect_code(0).stdout;
    assert_eq!(both.matches("# hone-release: ").count(), 1, "{both}");
    assert_eq!(both.matches("# broker-pgo: ").count(), 1, "{both}");
    for told in PLANNED {
        assert!(plan.contains(told), "{told}: {plan}");
        assert_eq!(both.matches(told).count(), 2 * plan.matches(told).count(), "{told}: {both}");
    }
    assert_eq!(fs::read_dir(target.path()).unwrap().count(), 0, "a plan leaves nothing");
    release(target.path(), own, &["--dryrun"]).expect_code(2).expect_error("usage: script/release");
}

/// In place of `hone optimize` and `hone report`. It keeps a variant of `hone`, and nothing of `hone-broker`; while there is a file `breaks`, it
/// is broken off there.
const STAND_IN: &str = r#"
here=$(dirname "$0")
if [ "$1" = report ]; then echo "verdict of $(basename "$2")"; exit; fi
echo "$*" >>"$here/calls"
name=$(sed -n 's/^name = "\(.*\)"$/\1/p' "$2" | head -n 1)
run=$(find "$4" -maxdepth 1 -name "$name-*" | sort | tail -n 1)
[ "${5:-}" = --resume ] || run=$4/$name-00$(($(find "$4" -maxdepth 1 -name "$name-*" | wc -l) + 1))
mkdir -p "$run/bin/pgo" "$run/bin/baseline"
case $name in
  hone-release)
    cp PROGRAMS/hone "$run/bin/pgo/"
    echo '{"body": {"best": "pgo"}}' >"$run/optimization.json" ;;
  broker-pgo)
    [ ! -e "$here/breaks" ] || exit 1
    cp PROGRAMS/hone-broker "$run/bin/baseline/"
    echo '{"body": {"best": null}}' >"$run/optimization.json"
    exit 3 ;;
esac
"#;

#[test]
fn what_was_kept_is_packed_with_its_verdict() {
    let is_long = std::env::var_os("HONE_LONG").is_some();
    if !is_long || tools::find("dpkg-deb").is_none() || tools::find("dpkg-shlibdeps").is_none() {
        return;
    }
    let programs = Path::new(env!("CARGO_BIN_EXE_hone")).parent().unwrap();
    assert!(programs.join("hone-broker").is_file(), "cargo test --workspace builds it");
    let (folder, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let text = STAND_IN.replace("PROGRAMS", programs.to_str().unwrap());
    let hone = stage::script(folder.path(), "hone", &text);
    let calls = || fs::read_to_string(folder.path().join("calls")).unwrap();
    fs::write(folder.path().join("breaks"), "").unwrap();
    release(target.path(), &hone, &[]).expect_code(1).expect_error("to begin hone-broker anew: rm -r");
    assert!(!target.path().join("package/release-notes.md").exists());

    fs::remove_file(folder.path().join("breaks")).unwrap();
    release(target.path(), &hone, &[]).expect_code(0);
    assert_eq!(calls().matches("--resume").count(), 2, "both go on: {}", calls());
    let notes = fs::read_to_string(target.path().join("package/release-notes.md")).unwrap();
    for told in [
        "The program `hone` of this release is the variant `pgo`",
        "verdict of hone-release-001",
        "The program `hone-broker` of this release is the variant `baseline`",
        "verdict of broker-pgo-001",
        concat!("hone-broker ", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(notes.contains(told), "{told}: {notes}");
    }
    // What is released is done; the next release begins anew.
    release(target.path(), &hone, &[]).expect_code(0);
    assert_eq!(calls().matches("--resume").count(), 2, "{}", calls());
    assert!(target.path().join("package/runs/broker-pgo-002/released").is_file());
}
