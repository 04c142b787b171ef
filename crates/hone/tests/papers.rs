//! What goes along with the program: completions that a shell takes, manual pages that a reader of manuals takes, and the receipt of the build.

#![expect(clippy::disallowed_methods, reason = "shells and readers of manuals are started as their users do")]

use std::fs;
use std::path::PathBuf;
use std::process::Command;

mod stage;
use stage::{Ran, hone, tools};

fn completions(shell: &str) -> String {
    hone(&["completions", shell]).expect_code(0).stdout
}

/// Whether a tool is there that script/bootstrap does not install.
fn is_there(tool: &str) -> bool {
    Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().unwrap().status.success()
}

/// What bash offers behind the words of a command line, the last of which is being typed.
fn offered(words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hone");
    fs::write(&file, completions("bash")).unwrap();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source '{}'\ncomplete -p hone >/dev/null || exit 1\nCOMP_WORDS=({}); COMP_CWORD={}\n\
         _hone hone \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        file.display(),
        quoted.join(" "),
        words.len() - 1
    );
    let ran = Ran::of(Command::new("bash").args(["--norc", "-c", &script]).output().unwrap()).expect_code(0);
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_options_and_values() {
    assert_eq!(offered(&["hone", "opt"]), ["optimize"]);
    let below = offered(&["hone", "batch", ""]);
    assert!(below.contains(&"xray".to_owned()) && below.contains(&"whatif".to_owned()), "{below:?}");
    assert_eq!(offered(&["hone", "load", "--make"]), ["--make-topic"]);
    assert_eq!(offered(&["hone", "compare", "--mode", "du"]), ["duet"]);
}

/// What a shell prints for a script, with the completions where it looks for them.
fn in_shell(shell: &str, name: &str, script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(name), completions(shell)).unwrap();
    let mut command = Command::new(shell);
    // Of the user's own settings nothing is read.
    command.args(["-c", script]).env("HOME", folder.path()).current_dir(folder.path());
    Ran::of(command.output().unwrap()).expect_code(0).stdout
}

#[test]
fn fish_completes_verbs_and_options() {
    if !is_there("fish") {
        return tools::skip("no fish; script/bootstrap --test installs it");
    }
    let offered = |line: &str| {
        let script = format!("source hone.fish; complete --do-complete='{line}'");
        let said = in_shell("fish", "hone.fish", &script);
        said.lines().filter_map(|line| Some(line.split('\t').next()?.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(offered("hone opt"), ["optimize"]);
    assert!(offered("hone batch ").contains(&"xray".to_owned()));
    assert_eq!(offered("hone load --make"), ["--make-topic"]);
}

#[test]
fn zsh_finds_its_completions_by_their_name() {
    if !is_there("zsh") {
        return tools::skip("no zsh; script/bootstrap --test installs it");
    }
    let script = "fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; autoload +X _hone || exit 1; \
                  print $_comps[hone]; zsh -n _hone || exit 1; functions _hone | grep -c optimize";
    let said = in_shell("zsh", "_hone", script);
    let (function, verbs) = said.trim().split_once('\n').unwrap();
    assert_eq!(function, "_hone");
    assert!(verbs.parse::<u32>().unwrap() > 0, "{said}");
}

#[test]
fn a_shell_that_is_not_known_is_refused() {
    hone(&["completions", "tcsh"]).expect_code(2).expect_error("tcsh");
}

#[test]
fn every_verb_has_a_manual_page_that_mandoc_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let told = hone(&["man", "--json", "--output", folder.path().to_str().unwrap()]).expect_code(0).json();
    let pages = told["body"]["pages"].as_array().unwrap();
    let pages: Vec<PathBuf> = pages.iter().map(|name| folder.path().join(name.as_str().unwrap())).collect();
    assert!(pages.len() > 40, "{pages:?}");
    let text = fs::read_to_string(folder.path().join("hone-batch-xray.1")).unwrap();
    assert!(text.contains(".TH HONE-BATCH-XRAY 1 \"\" \"hone "), "{text}");
    assert!(text.contains("segments") && text.contains("broker\\-1:9092"), "{text}");
    assert!(!folder.path().join("hone-reference.1").exists(), "a hidden verb");
    if tools::find("mandoc").is_some() {
        let lint = Command::new("mandoc").args(["-T", "lint", "-W", "error"]).args(&pages).output().unwrap();
        Ran::of(lint).expect_code(0);
    }
    if is_there("man") {
        let mut man = Command::new("man");
        man.args(["--warnings", "-l"]).arg(folder.path().join("hone-load.1"));
        let ran = Ran::of(man.env("MANPAGER", "cat").env("MANWIDTH", "100").output().unwrap()).expect_code(0);
        assert!(ran.stdout.contains("--require") && ran.stderr.is_empty(), "{}\n{}", ran.stdout, ran.stderr);
    }
}

#[test]
fn pages_that_can_not_be_written_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    hone(&["man", "--output", file.to_str().unwrap()]).expect_code(1).expect_error("can't create");
}

/// Held against the file itself and the compiler of this machine, which made it.
#[test]
fn the_receipt_is_of_this_program() {
    let receipt = hone(&["version", "--json"]).expect_code(0).json()["body"].take();
    let program = env!("CARGO_BIN_EXE_hone");
    let sum = Ran::of(Command::new("sha256sum").arg(program).output().unwrap()).expect_code(0).stdout;
    assert_eq!(receipt["sha256"].as_str(), sum.split_whitespace().next());
    assert_eq!(receipt["program_bytes"].as_u64(), Some(fs::metadata(program).unwrap().len()));
    let compiler = Ran::of(Command::new("rustc").arg("--version").output().unwrap()).expect_code(0).stdout;
    assert_eq!(receipt["rustc"].as_str(), Some(compiler.trim()));
    assert_eq!(receipt["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!((&receipt["bolt"], &receipt["pgo"]), (&false.into(), &serde_json::Value::Null));
    let profile = receipt["profile"].as_str().unwrap();
    assert_eq!(profile == "debug", cfg!(debug_assertions));
    assert_eq!(
        receipt["commit"].is_null(),
        profile == "debug",
        "a release build of a clone knows its commit"
    );
    let text = hone(&["version"]).expect_code(0).stdout;
    for known in [receipt["rustc"].as_str(), receipt["sha256"].as_str(), Some("PGO       no")] {
        assert!(text.contains(known.unwrap()), "{text}");
    }
}
