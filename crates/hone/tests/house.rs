//! The house's own rules, read from the manifests: a crate knows the layers below its own, and none beside it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What every other crate may know.
const FOUNDATIONS: [&str; 5] = ["hone-format", "hone-record", "hone-tool", "hone-kafka", "hone-store"];
/// What the foundations may know of each other.
const BELOW: [(&str, &[&str]); 5] = [
    ("hone-format", &[]),
    ("hone-record", &[]),
    ("hone-kafka", &[]),
    ("hone-tool", &["hone-record"]),
    ("hone-store", &[]),
];
/// Crates above the rooms, the lowest layer first. Each may know all below its own layer.
const ABOVE: [&[&str]; 5] = [
    &["hone-experiment"],
    &["hone-document"],
    &["hone-optimize", "hone-rollout", "hone-serve", "hone-tune"],
    &["hone-cli"],
    &[PROGRAM],
];
const PROGRAM: &str = "hone";

/// 0 for a foundation, 1 for a room, and so on up.
fn layer_of(name: &str) -> usize {
    if FOUNDATIONS.contains(&name) {
        return 0;
    }
    ABOVE.iter().position(|layer| layer.contains(&name)).map_or(1, |above| above + 2)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Hone's own crates among the dependencies of each crate. Dev-dependencies may cross: rooms meet in tests.
fn dependencies() -> BTreeMap<String, Vec<String>> {
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let manifests = crates.map(|entry| entry.unwrap().path().join("Cargo.toml"));
    manifests
        .map(|manifest| {
            let text = fs::read_to_string(&manifest).unwrap();
            let manifest: toml::Table = text.parse().unwrap();
            let name = manifest["package"]["name"].as_str().unwrap().to_owned();
            let tables =
                ["dependencies", "build-dependencies"].into_iter().filter_map(|table| manifest.get(table));
            let ours = tables
                .flat_map(|table| table.as_table().unwrap().keys().cloned())
                .filter(|dependency| dependency.starts_with(PROGRAM))
                .collect();
            (name, ours)
        })
        .collect()
}

#[test]
fn a_crate_knows_the_layers_below_and_none_beside_it() {
    let all = dependencies();
    assert!(all.len() > 8, "the crates were not found: {all:?}");
    for (name, ours) in &all {
        let below = BELOW.iter().find(|(foundation, _)| foundation == name);
        for dependency in ours {
            let is_allowed = match below {
                Some((_, below)) => below.contains(&dependency.as_str()),
                None => layer_of(dependency) < layer_of(name),
            };
            assert!(is_allowed, "{name} must not depend on {dependency}");
        }
    }
}

#[test]
fn folders_are_named_after_their_crates_and_every_crate_takes_the_lints() {
    for name in dependencies().keys() {
        let manifest = root().join("crates").join(name).join("Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap_or_else(|_| panic!("no folder crates/{name}"));
        assert!(text.contains("[lints]\nworkspace = true"), "{name} does not take the workspace's lints");
    }
}

/// A crate's own clippy.toml would replace the root's, and with it the one door to other programs.
#[test]
fn no_crate_replaces_the_clippy_rules() {
    for name in dependencies().keys() {
        assert!(
            !root().join("crates").join(name).join("clippy.toml").exists(),
            "{name} replaces clippy.toml"
        );
    }
}

/// Every crate is named on the map of the house.
#[test]
fn the_map_shows_every_crate() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for name in dependencies().keys() {
        assert!(map.contains(&format!("`{name}`")), "ARCHITECTURE.md does not name `{name}`");
    }
}

/// The page of silent failures names the test that plants each of them.
#[test]
fn each_silent_failure_on_the_page_has_its_test() {
    let page = fs::read_to_string(root().join("docs/decisions/silent-failures.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let named: Vec<(&str, &str)> =
        rows.flat_map(|row| row.split('`')).filter_map(|word| word.split_once("::")).collect();
    assert!(named.len() > 40, "the table was not found: {named:?}");
    for (file, test) in named {
        let crates = fs::read_dir(root().join("crates")).unwrap();
        let files = crates.map(|entry| entry.unwrap().path().join("tests").join(format!("{file}.rs")));
        let mut texts = files.filter_map(|file| fs::read_to_string(file).ok());
        let head = format!("#[test]\nfn {test}() {{");
        assert!(texts.any(|text| text.contains(&head)), "no test {test} in any {file}.rs");
    }
}

/// A Kafka that works stays where it is when Maven can't fetch another one.
#[test]
#[expect(clippy::disallowed_methods, reason = "the script is started as its users do")]
fn a_failed_download_leaves_what_there_was() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (bench, tools) = (folder.path().join("bench"), folder.path().join("tools"));
    let libs = folder.path().join(".hone/kafka/4.3.1");
    [&bench, &tools, &libs].into_iter().for_each(|path| fs::create_dir_all(path).unwrap());
    fs::copy(root().join("bench/kafka.sh"), bench.join("kafka.sh")).unwrap();
    // Whole in all but the jar by which the script knows it.
    fs::write(libs.join("kafka.jar"), "works").unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    for maven in ["#!/bin/sh\nexit 1\n", "#!/bin/sh\nexit 0\n"] {
        fs::write(tools.join("mvn"), maven).unwrap();
        fs::set_permissions(tools.join("mvn"), fs::Permissions::from_mode(0o755)).unwrap();
        let ran = std::process::Command::new("bash")
            .args(["bench/kafka.sh", "fetch"])
            .current_dir(folder.path())
            .env("PATH", &path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success() && said.contains("what there was is as it was"), "{said}");
        assert_eq!(fs::read_to_string(libs.join("kafka.jar")).unwrap(), "works");
        let left = fs::read_dir(libs.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing half-fetched is left");
    }
}

/// A crate whose tests go as the words in its `mood` say, with the script that runs once more what failed.
struct Moody(tempfile::TempDir);

impl Moody {
    fn new(tests: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["src", "script"].into_iter().for_each(|name| fs::create_dir_all(at(name)).unwrap());
        fs::copy(root().join("script/again"), at("script/again")).unwrap();
        let manifest = "[package]\nname = \"moody\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        fs::write(at("Cargo.toml"), manifest).unwrap();
        fs::write(at("src/lib.rs"), format!("{MOOD}{tests}")).unwrap();
        Self(folder)
    }

    fn ran(&self, script: &str) -> (bool, String) {
        let ran = self.command("bash").args(["-c", script]).output().unwrap();
        let said = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (ran.status.success(), said.concat())
    }

    #[expect(clippy::disallowed_methods, reason = "the script is started as script/test does")]
    fn command(&self, program: &str) -> std::process::Command {
        let mut command = std::process::Command::new(program);
        command.current_dir(self.0.path()).env("CARGO_TARGET_DIR", self.0.path().join("target"));
        command.env("MOODS", self.0.path());
        command
    }

    /// What becomes of the tests when those that fail run once more.
    fn told(&self) -> (bool, String) {
        let (_, said) = self.ran("cargo generate-lockfile --offline; cargo test --locked --no-fail-fast >out 2>&1; echo \"cargo ended with $?\" >>out; cat out");
        assert!(said.contains("test result: "), "{said}");
        self.ran("script/again out")
    }
}

const MOOD: &str = "
/// True the first time.
#[cfg(test)]
fn is_first(name: &str) -> bool {
    let place = std::path::Path::new(&std::env::var(\"MOODS\").unwrap()).join(name);
    !place.exists() && std::fs::write(place, \"\").is_ok()
}
#[test]
fn a_good_one() {}
#[test]
fn hurt_once() { assert!(!is_first(\"once\"), \"failures:\"); }
";

#[test]
fn what_fails_beside_others_and_passes_alone_is_named_and_no_fault() {
    let (passes, said) = Moody::new("").told();
    assert!(passes, "{said}");
    assert!(said.contains("--lib: hurt_once failed; once more, alone"), "{said}");
    assert!(said.contains("hurt_once passes when it runs alone") && !said.contains("a_good_one"), "{said}");
}

#[test]
fn what_fails_alone_too_is_a_fault() {
    let moody = Moody::new("#[test]\nfn wrong() { panic!(\"as planted\") }\n");
    let (passes, said) = moody.told();
    assert!(!passes && said.contains("wrong fails alone, too") && said.contains("as planted"), "{said}");
    assert!(said.contains("hurt_once passes when it runs alone"), "{said}");
    // An output without its end says nothing, nor does one in which a program ended without a word.
    for (change, expected) in [
        ("head -n -1 out >cut", "did not come to their end"),
        ("grep -v '^error: test failed' out >cut", "of them said so"),
        ("grep -v '^error: 1 target' out >cut", "failed in another way"),
        ("grep -v '^    ' out >cut", "can not be run once more"),
        ("grep -v '^test result' out >cut", "did not come to their end"),
    ] {
        let (passes, said) = moody.ran(&format!("{change}; script/again cut"));
        assert!(!passes && said.contains(expected), "{change}: {said}");
    }
}

#[test]
fn many_failures_are_no_accident() {
    let many: String =
        (1..9).map(|n| format!("#[test]\nfn hurt_{n}() {{ assert!(!is_first(\"{n}\")); }}\n")).collect();
    let (passes, said) = Moody::new(&many).told();
    assert!(!passes && said.contains("9 tests failed, and more than 8 are no accident"), "{said}");
    assert!(!said.contains("once more, alone"), "{said}");
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the functions of script/test run as there")]
fn a_lane_with_a_failed_test_fails_the_checks() {
    let passed = |first_lane: &str| {
        let script = format!(
            "set -euo pipefail
            eval \"$(sed -n '/^step() {{/,/^}}/p; /^lanes() {{/,/^}}/p' script/test)\"
            second_lane() {{ printf 'test result: ok.\\ncargo ended with 0\\n'; }}
            third_lane() {{ second_lane; }}
            first_lane() {{ {first_lane} }}
            step lanes"
        );
        std::process::Command::new("bash")
            .args(["-c", &script])
            .current_dir(root())
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(passed("second_lane;"));
    assert!(!passed("printf 'test result: FAILED.\\ncargo ended with 101\\n';"));
}
