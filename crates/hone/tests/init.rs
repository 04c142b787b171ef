//! `hone init`: what it sees in a tree, what it writes, and what it leaves alone.

#![expect(clippy::disallowed_methods, reason = "a linked program is made with the system's compiler")]

use std::fs;
use std::path::Path;
use std::process::Command;

mod stage;
use stage::{hone, hone_in};

fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn written(folder: &Path) -> String {
    fs::read_to_string(folder.join("hone.toml")).unwrap()
}

const SERVER: &str = "int main() { listen(3, 5); }\n";

#[test]
fn a_tree_of_cmake_gets_a_file_that_says_what_was_seen_and_what_is_missing() {
    let cmake = "project(flow)\nadd_executable(flow main.c)\nadd_executable(flow_test t.c)\n";
    let tree = tree(&[("CMakeLists.txt", cmake), ("main.c", SERVER), ("configure", "#!/bin/sh\n")]);
    let ran = hone(&["init", tree.path().to_str().unwrap()]).expect_code(0);
    for said in [
        "CMakeLists.txt (CMake): makes flow, flow_test",
        "configure (make): names no program (not used)",
        "a command that loads it",
        "To fill in:",
        "hone optimize",
    ] {
        assert!(ran.stdout.contains(said), "{said}\n{}", ran.stdout);
    }
    let text = written(tree.path());
    let parsed: toml::Table = text.parse().unwrap();
    let target = parsed["target"].as_table().unwrap();
    assert_eq!(target["program"].as_str(), Some("hone-build/flow"));
    assert_eq!(target["cmake"]["target"].as_str(), Some("flow"));
    assert_eq!(target["source"].as_str(), Some("."));
    let lines: Vec<&str> = text.lines().collect();
    let told = ran.stdout.lines().filter_map(|line| line.strip_prefix("  line "));
    let told: Vec<(usize, &str)> = told
        .map(|line| line.trim_start().split_once("  ").unwrap())
        .map(|(line, what)| (line.parse().unwrap(), what))
        .collect();
    assert!(told.len() > 3, "{}", ran.stdout);
    for (line, what) in told {
        assert!(lines[line - 1].ends_with(what), "{line}: {what}\n{text}");
    }
}

#[test]
fn a_file_that_is_there_stays_as_it_is() {
    let tree = tree(&[("go.mod", "module flowd\n"), ("main.go", "package main\n\nfunc main() {}\n")]);
    let folder = tree.path().to_str().unwrap();
    fs::write(tree.path().join("hone.toml"), "mine").unwrap();
    hone(&["init", folder]).expect_code(1).expect_error("exists already; Hone does not overwrite it");
    assert_eq!(written(tree.path()), "mine");
    let other = tree.path().join("other.toml");
    hone(&["init", folder, "--output", other.to_str().unwrap()]).expect_code(0);
    assert!(fs::read_to_string(&other).unwrap().contains("go = \".\""));
    // A link that leads nowhere is something that is there, too.
    fs::remove_file(tree.path().join("hone.toml")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all", tree.path().join("hone.toml")).unwrap();
    hone(&["init", folder]).expect_code(1).expect_error("exists already");
}

#[test]
fn what_speaks_kafka_can_be_tuned_from_its_first_file_on() {
    let cmake = "project(flow)\nadd_executable(flow main.c)\n";
    let tree = tree(&[("CMakeLists.txt", cmake), ("main.c", SERVER)]);
    let ran = hone_in(tree.path(), &["init", "--load", "kafka"]).expect_code(0);
    assert!(
        ran.stdout.contains("hone tune ") && ran.stdout.contains("tune.toml --dry-run"),
        "{}",
        ran.stdout
    );
    let plan = hone_in(tree.path(), &["tune", "tune.toml", "--dry-run"]).expect_code(0).stdout;
    for told in ["total", "builds: ", "first look", "2 candidates from these builds", "The budget of 1 h"] {
        assert!(plan.contains(told), "{told}\n{plan}");
    }
    // A file that is there stays, whichever it is.
    fs::remove_file(tree.path().join("hone.toml")).unwrap();
    fs::write(tree.path().join("tune.toml"), "mine\n").unwrap();
    let ran = hone_in(tree.path(), &["init", "--load", "kafka"]).expect_code(0);
    assert!(ran.stdout.contains("Exists already, and stays as it is"), "{}", ran.stdout);
    assert_eq!(fs::read_to_string(tree.path().join("tune.toml")).unwrap(), "mine\n");
    hone_in(tree.path(), &["init", "--load", "kafka", "--output", "service.toml"]).expect_code(0);
    hone_in(tree.path(), &["tune", "service-tune.toml", "--dry-run"]).expect_code(0);
    assert!(!tree.path().join("runs").exists());
    // What does not speak it gets none.
    hone_in(tree.path(), &["init", "--output", "other.toml"]).expect_code(0);
    assert!(!tree.path().join("other-tune.toml").exists());
}

#[test]
fn a_workspace_of_cargo_is_asked_for_its_programs() {
    let member =
        |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    let tree = tree(&[
        ("Cargo.toml", "[workspace]\nmembers = [\"parts/*\"]\nresolver = \"2\"\n"),
        ("parts/lib/Cargo.toml", &member("lib")),
        ("parts/lib/src/lib.rs", ""),
        ("parts/bench-it/Cargo.toml", &member("bench-it")),
        ("parts/bench-it/src/main.rs", "fn main() {}\n"),
        ("parts/flow/Cargo.toml", &member("flow")),
        ("parts/flow/src/bin/flowd.rs", "fn main() { std::net::TcpListener::bind(\"[::1]:0\").unwrap(); }\n"),
    ]);
    let ran = hone_in(tree.path(), &["init", "--json"]).expect_code(0);
    let body = &ran.json()["body"];
    assert_eq!(body["program"], "flowd");
    assert_eq!(body["saw"][0]["programs"], serde_json::json!(["flowd", "bench-it"]));
    let parsed: toml::Table = written(tree.path()).parse().unwrap();
    let target = parsed["target"].as_table().unwrap();
    let key = |key: &str| target[key].as_str().unwrap();
    assert_eq!((key("manifest"), key("package"), key("bin")), ("Cargo.toml", "flow", "flowd"));
    assert!(!tree.path().join("Cargo.lock").exists(), "nothing is built or resolved");
    let ran = hone_in(tree.path(), &["init", "--bin", "flow", "--output", "x.toml"]);
    ran.expect_code(1).expect_error("builds no program `flow`").expect_error("name one of: flowd, bench-it");
    assert!(!tree.path().join("x.toml").exists());
}

#[test]
fn a_linked_program_and_what_is_none() {
    let tree = tree(&[("main.c", "int main(void) { return 0; }\n"), ("notes", "text\n")]);
    let made = Command::new("cc").args(["main.c", "-o", "server"]).current_dir(tree.path()).status();
    assert!(made.unwrap().success());
    fs::create_dir(tree.path().join("elsewhere")).unwrap();
    let ran = hone_in(&tree.path().join("elsewhere"), &["init", "../server"]).expect_code(0);
    assert!(ran.stdout.contains("a linked program"), "{}", ran.stdout);
    let parsed: toml::Table = written(&tree.path().join("elsewhere")).parse().unwrap();
    let binary = parsed["target"]["binary"].as_str().unwrap().to_owned();
    assert_eq!(Path::new(&binary), tree.path().canonicalize().unwrap().join("server"));
    let text = written(&tree.path().join("elsewhere"));
    assert!(text.contains("has no relocations (.rela.text)"), "{text}");
    assert!(
        text.contains("# variants = [\"baseline\", \"sampled-bolt\", \"emulated-bolt\", \"bolt\"]"),
        "{text}"
    );
    let strip = ["-s", "main.c", "-o", "stripped"];
    let made = Command::new("cc").args(strip).current_dir(tree.path()).status();
    assert!(made.unwrap().success());
    let ran = hone_in(tree.path(), &["init", "./stripped"]).expect_code(0);
    assert!(ran.stdout.contains("is stripped"), "{}", ran.stdout);
    assert!(written(tree.path()).contains("# next: link without -s"), "{}", written(tree.path()));
    hone_in(tree.path(), &["init", "notes"]).expect_code(1).expect_error("is not a linked program (ELF)");
    hone_in(tree.path(), &["init", "nowhere"]).expect_code(1).expect_error("nowhere does not exist");
    hone_in(tree.path(), &["init", "elsewhere"]).expect_code(1).expect_error("no Cargo.toml");
}

#[test]
fn a_tree_whose_files_name_no_program_takes_the_users_word() {
    let tree =
        tree(&[("meson.build", "project('flow', 'c')\n"), ("main.c", "int main(void) { return 0; }\n")]);
    hone_in(tree.path(), &["init", "--bin", "daemon/flowd"]).expect_code(0);
    let parsed: toml::Table = written(tree.path()).parse().unwrap();
    assert_eq!(parsed["target"]["program"].as_str(), Some("hone-build/daemon/flowd"));
    assert_eq!(parsed["target"]["meson"]["target"].as_str(), Some("flowd"));
    // Nothing waits for a connection.
    assert!(parsed["workload"]["training"].get("run").is_some());
}
