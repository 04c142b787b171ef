//! `hone gate` on small real repositories: what is slower is found, what is the same is silent, and the repository stays as it was.

#![expect(clippy::disallowed_methods, reason = "tests use git and the program as users do")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

mod stage;
use stage::tools::{find_beside, of_checkout, skip};
use stage::{Ran, hone_command, processes_with, script};

/// Works for about 40 ms; how much is the one thing that commits change.
const MAIN: &str = "#include <stdio.h>
#include <stdlib.h>
int main(int c, char **v) {
  unsigned long turns = strtoul(v[1], 0, 10) * TURNS, x = 88172645463325252ul;
  for (unsigned long i = 0; i < turns; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
  return printf(\"%lu\\n\", x) < 0; }\n";

const FILE: &str = r#"name = "calc"
[target]
source = "."
build = ["cc -O2 main.c -o calc"]
program = "calc"
compiler = "gcc"
[workload.sum]
run = ["{operations}"]
operations = 200000
[compare]
least_window_s = 0
rounds = 10
counts = false
[gate]
judge = ["sum"]
worse_by = "10%"
"#;

fn main_with(turns: u32) -> String {
    MAIN.replace("TURNS", &turns.to_string())
}

struct Repo {
    dir: tempfile::TempDir,
}

impl Repo {
    /// With one commit on `main`; `None` where there is no git.
    fn new() -> Option<Self> {
        if Command::new("git").arg("--version").output().is_err() {
            skip("there is no git");
            return None;
        }
        let repo = Self { dir: tempfile::tempdir().unwrap() };
        fs::create_dir(repo.path("repo")).unwrap();
        repo.git(&["init", "--quiet", "--initial-branch=main"]);
        repo.write("main.c", &main_with(100));
        repo.write("hone.toml", FILE);
        repo.commit("first");
        Some(repo)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path("repo").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn git_in(&self, folder: &str, args: &[&str]) -> String {
        let ran = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"])
            .args(args)
            .current_dir(self.path(folder))
            .output()
            .unwrap();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim().to_owned()
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_in("repo", args)
    }

    fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// A branch off `main` with one commit of this file.
    fn topic(&self, name: &str, text: &str) {
        self.git(&["checkout", "--quiet", "-B", "topic"]);
        self.write(name, text);
        self.commit("topic");
    }

    fn command(&self, folder: &str, args: &[&str]) -> Command {
        let mut command = hone_command();
        command.arg("gate").args(args).current_dir(self.path(folder)).stdin(Stdio::null());
        for name in ["GITHUB_BASE_REF", "GITHUB_STEP_SUMMARY", "CI_MERGE_REQUEST_DIFF_BASE_SHA"] {
            command.env_remove(name);
        }
        command.env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn gate_in(&self, folder: &str, args: &[&str]) -> Ran {
        let runs = self.path("runs");
        let output = ["--output", runs.to_str().unwrap()];
        let own = if args.contains(&"--resume") { &[][..] } else { &output[..] };
        Ran::of(self.command(folder, &[args, own].concat()).output().unwrap())
    }

    fn gate(&self, args: &[&str]) -> Ran {
        self.gate_in("repo", args)
    }

    fn run(&self, number: u32) -> PathBuf {
        self.path(&format!("runs/calc-gate-{number:03}"))
    }

    /// Every file of the working tree and of `.git`, with its content.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path("repo")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path)
                } else {
                    drop(found.insert(path.clone(), fs::read(path).unwrap()))
                }
            }
        }
        found
    }

    /// Nothing of a run lies around but what is meant to stay.
    fn assert_clean(&self, before: &BTreeMap<PathBuf, Vec<u8>>) {
        assert!(self.everything() == *before, "the repository is not as it was");
        for run in fs::read_dir(self.path("runs")).unwrap().flatten().map(|entry| entry.path()) {
            for gone in ["scratch/tree", "snapshot.git", "attempt.json"] {
                assert!(!run.join(gone).exists(), "{}", run.join(gone).display());
            }
        }
        for area in fs::read_dir(self.path("cache/hone/gate")).unwrap().flatten() {
            assert!(!area.path().join("source").exists());
        }
        let own = self.dir.path().display().to_string();
        assert_eq!(processes_with(&own), [0_u32; 0]);
    }
}

/// SARIF's schema lies in a module of Go's that `script/bootstrap` fetches.
fn sarif_schema() -> Option<serde_json::Value> {
    const MODULE: &str = "github.com/owenrumney/go-sarif/v3@v3.3.1";
    let found = Command::new("go").args(["mod", "download", "-json", MODULE]).env("GOPROXY", "off").output();
    let folder = found.ok().and_then(|found| {
        let told: serde_json::Value = serde_json::from_slice(&found.stdout).ok()?;
        told["Dir"].as_str().map(PathBuf::from)
    });
    let Some(folder) = folder else {
        skip(&format!("{MODULE} is not in Go's module cache: script/bootstrap --test"));
        return None;
    };
    let text = fs::read_to_string(folder.join("pkg/report/v210/sarif/schema.go")).unwrap();
    let schema = text.split_once("const schema = `").unwrap().1.split_once('`').unwrap().0;
    Some(serde_json::from_str(schema).unwrap())
}

fn assert_is_sarif(path: &Path) -> serde_json::Value {
    let log: serde_json::Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let Some(schema) = sarif_schema() else { return log };
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource("sarif.json", schema).unwrap();
    let index = compiler.compile("sarif.json", &mut schemas).unwrap();
    if let Err(error) = schemas.validate(&log, index) {
        panic!("{error:#}\n{log:#}");
    }
    // The schema is one that refuses.
    let broken = serde_json::json!({"version": "2.1.0", "runs": [{"tool": {}}]});
    assert!(schemas.validate(&broken, index).is_err());
    log
}

#[test]
fn a_slower_commit_fails_with_its_figures_in_every_form() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("main.c", &main_with(140));
    // What main became since is none of the topic's doing.
    repo.git(&["checkout", "--quiet", "main"]);
    repo.write("main.c", &main_with(20));
    repo.commit("faster");
    repo.git(&["checkout", "--quiet", "topic"]);
    let before = repo.everything();
    let files =
        ["out/gate.xml", "out/gate.sarif", "out/gate.md", "out/summary.md"].map(|name| repo.path(name));
    fs::create_dir(repo.path("out")).unwrap();
    let [junit, sarif, comment, summary] = &files;
    let args = ["--base", "main", "--json", "--output", "../runs"].map(str::to_owned);
    let more = [("--junit", junit), ("--sarif", sarif), ("--comment", comment)];
    let more = more.into_iter().flat_map(|(flag, path)| [flag.to_owned(), path.display().to_string()]);
    let args: Vec<String> = args.into_iter().chain(more).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let ran = repo.command("repo", &args).env("GITHUB_STEP_SUMMARY", summary).output().unwrap();
    let record = Ran::of(ran).expect_code(3).json();
    let body = &record["body"];
    assert_eq!((&record["kind"], &body["outcome"]), (&"commit-gate".into(), &"worse".into()));
    assert_eq!(body["base"]["asked"], "the merge base with main");
    assert_eq!(body["base"]["subject"], "first");
    let finding = &body["findings"][0];
    let ratio = finding["ratio"][0].as_f64().unwrap();
    assert!((1.25..1.55).contains(&ratio), "140 for 100, and a start: {finding}");
    assert_eq!((&finding["state"], &finding["line"]), (&"worse".into(), &7.into()));
    repo.assert_clean(&before);

    let xml = fs::read_to_string(junit).unwrap();
    assert!(
        // The throughput of such a load falls with it.
        (xml.contains("failures=\"1\"") || xml.contains("failures=\"2\""))
            && xml.contains("<testcase classname=\"calc.sum\" name=\"cpu-per-record\""),
        "{xml}"
    );
    let mut reader = quick_xml::Reader::from_str(&xml);
    while !matches!(reader.read_event().unwrap(), quick_xml::events::Event::Eof) {}
    let log = assert_is_sarif(sarif);
    let result = &log["runs"][0]["results"][0];
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"hone.toml".into(), &7.into())
    );
    assert!(result["message"]["text"].as_str().unwrap().contains(", limit 10 %"), "{result}");
    let told = fs::read_to_string(comment).unwrap();
    assert!(told.contains("Failed: ") && told.contains("| sum | CPU per operation |"), "{told}");
    assert!(fs::read_to_string(summary).unwrap().contains("Failed: "));

    // What a run has found can be told again, and stands in the ledger.
    let run = repo.run(1);
    let again = stage::hone(&["report", run.to_str().unwrap(), "--pr-comment"]).expect_code(0).stdout;
    assert_eq!(again, told);
    let story = stage::hone(&["report", run.to_str().unwrap(), "--markdown"]).expect_code(0).stdout;
    assert!(story.contains("**Failed: ") && story.contains("| CPU per operation (primary) |"), "{story}");
    let ledger = repo.path("runs/ledger.jsonl");
    let shown = stage::hone(&["ledger", "show", ledger.to_str().unwrap()]).expect_code(0).stdout;
    assert!(shown.contains("commit ") && shown.contains("worse"), "{shown}");

    // Both builds are kept, and a head that became a base is not built again.
    repo.write("main.c", &main_with(60));
    repo.commit("faster again");
    let next = repo.gate(&["--base", "HEAD~1", "--json"]).expect_code(0);
    assert!(
        next.stderr.contains("build-base") && next.stderr.contains("reused from an earlier run"),
        "{}",
        next.stderr
    );
    assert_eq!(next.json()["body"]["findings"][0]["verdict"], "better");
}

#[test]
fn what_builds_the_same_program_is_not_measured() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("README.md", "Words.\n");
    let before = repo.everything();
    let ran = repo.gate(&["--base", "main"]).expect_code(0);
    assert!(ran.stdout.contains("build the same program, byte for byte"), "{}", ran.stdout);
    assert!(!repo.run(1).join("judge-sum").exists());
    repo.assert_clean(&before);
    // On the branch itself nothing is asked.
    repo.gate(&["--base", "topic"]).expect_code(2).expect_error("the same commit");
}

/// An A/A gate over seeds: whatever the noise, nothing is called worse.
#[test]
fn an_unchanged_program_is_silent_over_seeds() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("README.md", "Words.\n");
    for seed in [1, 2, 3] {
        // A file that is in no commit counts as it lies there.
        repo.write("mine.toml", &FILE.replace("rounds = 10", &format!("rounds = 8\nseed = {seed}")));
        let ran = repo.gate(&["mine.toml", "--base", "main", "--even-if-same", "--json"]).expect_code(0);
        let body = &ran.json()["body"];
        assert_eq!(body["outcome"], "passed");
        assert!(
            body["notes"]
                .as_array()
                .unwrap()
                .iter()
                .any(|note| note.as_str().unwrap().contains("is in neither commit"))
        );
        // It says what would have been shown, unless the control itself differs: one session in twenty may.
        let finding = &body["findings"][0];
        let differs = finding["why"].as_str().unwrap().contains("the A/A control itself differs");
        assert!(differs || finding["detectable_ratio"].as_f64().unwrap() > 1.0, "{finding}");
    }
}

#[test]
fn a_head_that_can_not_be_built_ends_with_what_the_compiler_said() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("main.c", "int main(void) { return no_such_name; }\n");
    let before = repo.everything();
    let (junit, sarif) = (repo.path("gate.xml"), repo.path("gate.sarif"));
    let args = ["--base", "main", "--junit", junit.to_str().unwrap(), "--sarif", sarif.to_str().unwrap()];
    let ran = repo.gate(&args).expect_code(1).expect_error("no_such_name");
    assert!(ran.stderr.contains("head: ") && ran.stderr.contains("(topic)"), "{}", ran.stderr);
    repo.assert_clean(&before);
    let xml = fs::read_to_string(&junit).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("no_such_name"), "{xml}");
    let about = |sarif: &Path| {
        let log = assert_is_sarif(sarif);
        let invocation = &log["runs"][0]["invocations"][0];
        assert_eq!(invocation["executionSuccessful"], false);
        let told = &invocation["toolExecutionNotifications"][0];
        let place = &told["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        let id = &log["runs"][0]["automationDetails"]["id"];
        [id, place].map(|text| text.as_str().unwrap().to_owned())
    };
    assert_eq!(about(&sarif), ["hone-gate/calc/", "hone.toml"]);
    // Papers are about the file of the repository, wherever one stands, and about that of the run where one goes on.
    fs::create_dir(repo.path("repo/below")).unwrap();
    let sarif = sarif.to_str().unwrap();
    repo.gate_in("repo/below", &["../hone.toml", "--base", "main", "--sarif", sarif]).expect_code(1);
    assert_eq!(about(Path::new(sarif)), ["hone-gate/calc/", "hone.toml"]);
    fs::remove_file(sarif).unwrap();
    let run = repo.run(1);
    let resume = ["--resume", run.to_str().unwrap()];
    repo.gate_in("repo/below", &[&resume[..], &["--sarif", sarif]].concat()).expect_code(1);
    assert_eq!(about(Path::new(sarif)), ["hone-gate/calc/", "hone.toml"]);
    // What a run was begun with can't be asked for anew, and is not passed over.
    for more in [&["--require-power"][..], &["--even-if-same"], &["--cache", "x"], &["-o", "x"], &["x.toml"]]
    {
        repo.gate(&[&resume[..], more].concat()).expect_code(2).expect_error("does not go with");
    }
}

#[test]
fn a_head_that_breaks_down_under_its_load_is_worse() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("main.c", &main_with(1).replace("< 0;", "> 0;"));
    let ran = repo.gate(&["--base", "main", "--json"]).expect_code(3);
    let finding = ran.json()["body"]["findings"][0].clone();
    assert_eq!(finding["state"], "worse", "{finding}");
    // A base that does not stand it says nothing of the head.
    repo.write("main.c", &main_with(50));
    repo.commit("mended");
    repo.gate(&["--base", "HEAD~1"]).expect_code(1).expect_error("were excluded");
}

#[test]
fn a_shallow_clone_is_told_what_to_fetch() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("main.c", &main_with(110));
    let from = format!("file://{}", repo.path("repo").display());
    repo.git_in(".", &["clone", "--quiet", "--depth=1", "--branch=topic", &from, "clone"]);
    let fetch = "git fetch --depth=200 origin +refs/heads/main:refs/remotes/origin/main";
    repo.gate_in("clone", &["--base", "origin/main"]).expect_code(1).expect_error(fetch);
    repo.git_in(
        "clone",
        &["fetch", "--quiet", "--depth=1", "origin", "+refs/heads/main:refs/remotes/origin/main"],
    );
    let deepen = "git fetch --deepen=200 origin";
    repo.gate_in("clone", &["--base", "origin/main"]).expect_code(1).expect_error(deepen);
    // Without a place where they parted, the base itself can be taken.
    repo.gate_in("clone", &["--base", "origin/main", "--exact", "--dry-run"]).expect_code(0);
    repo.git_in("clone", &["fetch", "--quiet", "--deepen=200", "origin"]);
    let planned = repo.gate_in("clone", &["--base", "origin/main", "--dry-run"]).expect_code(0).stdout;
    assert!(
        planned.contains("Load sum: 10 rounds of base, a copy of base, and head: 30 windows"),
        "{planned}"
    );
    assert!(!repo.path("runs").exists() && !repo.path("cache").exists(), "nothing was done");
    // A pull request knows its base.
    let ran = repo.command("clone", &["--dry-run"]).env("GITHUB_BASE_REF", "main").output().unwrap();
    Ran::of(ran).expect_code(0);
    repo.gate_in("clone", &["--dry-run"]).expect_code(2).expect_error("no base to compare with");
    repo.gate_in("clone", &["--base", "nope"]).expect_code(1).expect_error("this clone has no commit `nope`");
    // Such a clone is built, too.
    let ran = repo
        .gate_in("clone", &["--base", "origin/main", "--head", "origin/main~0", "--even-if-same", "--json"]);
    assert_eq!(ran.expect_code(0).json()["body"]["outcome"], "passed");
}

#[test]
fn a_dirty_tree_is_told_of_and_can_be_the_head() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("README.md", "Words.\n");
    repo.write("main.c", &main_with(150));
    repo.write("new.h", "\n");
    let before = repo.everything();
    let ran = repo.gate(&["--base", "main"]).expect_code(0);
    assert!(ran.stderr.contains("1 file differs from HEAD, and is not part of the head"), "{}", ran.stderr);
    assert!(ran.stdout.contains("byte for byte"));
    let ran = repo.gate(&["--base", "main", "--head", "worktree", "--json"]).expect_code(3);
    assert_eq!(ran.json()["body"]["head"]["asked"], "the working tree");
    repo.assert_clean(&before);
    // Runs in the tree are none of its files.
    repo.git(&["checkout", "--quiet", "--force", "main"]);
    fs::remove_file(repo.path("repo/new.h")).unwrap();
    let inside = repo.command("repo", &["--base", "main", "--head", "worktree"]).output().unwrap();
    Ran::of(inside).expect_code(2).expect_error("the working tree does not differ");
    // Neither are builds that are kept there.
    repo.write("kept/calc-1/builds.json", "{}");
    repo.gate(&["--base", "main", "--head", "worktree", "--cache", "kept"])
        .expect_code(2)
        .expect_error("the working tree does not differ");
}

/// Git itself would fetch what a partial clone has left out, into the user's repository.
#[test]
fn what_a_partial_clone_lacks_is_told_and_not_fetched() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("hone.toml", &format!("# Words.\n{FILE}"));
    repo.git(&["config", "uploadpack.allowFilter", "true"]);
    let from = format!("file://{}", repo.path("repo").display());
    repo.git_in(".", &["clone", "--quiet", "--filter=blob:none", "--branch=topic", &from, "clone"]);
    let objects = || repo.git_in("clone", &["count-objects", "-v"]);
    let before = objects();
    repo.gate_in("clone", &["--base", "origin/main", "--dry-run"])
        .expect_code(1)
        .expect_error("git fetch --refetch --no-filter origin");
    assert_eq!(objects(), before);
    repo.git_in("clone", &["fetch", "--quiet", "--refetch", "--no-filter", "origin"]);
    repo.gate_in("clone", &["--base", "origin/main", "--dry-run"]).expect_code(0);
}

/// Each commit is built with its own submodules, and theirs, out of the user's clones: what is in no other place is found.
#[test]
fn submodules_are_those_of_their_commit() {
    let Some(repo) = Repo::new() else { return };
    for (name, header) in [("inner", "start.h"), ("outer", "turns.h")] {
        fs::create_dir(repo.path(name)).unwrap();
        repo.git_in(name, &["init", "--quiet", "--initial-branch=main"]);
        let text = if name == "inner" { "#define START 0\n" } else { "#define FIRST 100\n" };
        fs::write(repo.path(name).join(header), text).unwrap();
        repo.git_in(name, &["add", "--all"]);
        repo.git_in(name, &["commit", "--quiet", "--message", name]);
    }
    let [inner, outer] = ["inner", "outer"].map(|name| repo.path(name).display().to_string());
    repo.git_in("outer", &["submodule", "--quiet", "add", &inner, "deep"]);
    repo.git_in("outer", &["commit", "--quiet", "--message", "deep"]);
    repo.git(&["submodule", "--quiet", "add", &outer, "lib"]);
    repo.git(&["submodule", "--quiet", "update", "--init", "--recursive"]);
    let main = |turns: &str| {
        let includes = "#include \"lib/turns.h\"\n#include \"lib/deep/start.h\"\n";
        format!("{includes}{}", MAIN.replace("TURNS", &format!("{turns} + START")))
    };
    repo.write("main.c", &main("FIRST"));
    repo.commit("with a submodule");
    // The same program by another word, that only the submodule's next commit knows.
    repo.write("lib/turns.h", "#define SECOND 100\n");
    repo.git_in("repo/lib", &["commit", "--quiet", "--all", "--message", "another word"]);
    repo.topic("main.c", &main("SECOND"));
    for gone in ["inner", "outer"] {
        fs::remove_dir_all(repo.path(gone)).unwrap();
    }
    let before = repo.everything();
    let ran = repo.gate(&["--base", "main"]).expect_code(0);
    assert!(ran.stdout.contains("build the same program, byte for byte"), "{}", ran.stdout);
    repo.assert_clean(&before);
}

#[test]
fn what_is_built_or_loaded_otherwise_is_refused() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("hone.toml", &FILE.replace("operations = 200000", "operations = 100000"));
    repo.gate(&["--base", "main"]).expect_code(1).expect_error("[workload.sum]");
    let ran = repo.gate(&["--base", "main", "--experiment-from", "head", "--json"]).expect_code(0);
    assert_eq!(ran.json()["body"]["file_of"], "the head's");
    // Who is judged does not write the rule.
    repo.topic("hone.toml", &FILE.replace("\"10%\"", "\"900%\""));
    repo.write("main.c", &main_with(150));
    repo.commit("slower");
    let ran = repo.gate(&["--base", "main", "--json"]).expect_code(3);
    let notes = ran.json()["body"]["notes"].to_string();
    assert!(notes.contains("differs in [gate]: the base's rule applies"), "{notes}");
    // A path that leads out of the checkout would build the same twice.
    repo.write(
        "hone.toml",
        &FILE.replace("source = \".\"", &format!("source = \"{}\"", repo.path("repo").display())),
    );
    repo.commit("absolute");
    repo.gate(&["--base", "main", "--experiment-from", "head"])
        .expect_code(2)
        .expect_error("is an absolute path");
}

#[test]
fn too_little_power_can_be_made_an_error() {
    let Some(repo) = Repo::new() else { return };
    repo.topic("README.md", "Words.\n");
    // No five rounds of 40 ms show 0.1 %, and of the same program they find a difference once in a thousand times.
    let compare = "rounds = 5\nalpha = 0.001\nequivalence = 0.0001";
    repo.write("strict.toml", &FILE.replace("\"10%\"", "\"0.1%\"").replace("rounds = 10", compare));
    let args = ["strict.toml", "--base", "main", "--even-if-same", "--json"];
    let loose = repo.gate(&args).expect_code(0).json()["body"].clone();
    assert_eq!((&loose["outcome"], &loose["findings"][0]["state"]), (&"passed".into(), &"not-shown".into()));
    let ran = repo.gate(&[&args[..], &["--require-power"]].concat());
    assert_eq!(ran.expect_code(1).json()["body"]["outcome"], "too-little-power");
}

/// A gate that is killed leaves the repository as it was, and the next attempt goes on behind what was done.
#[test]
fn a_kill_leaves_the_repository_alone_and_the_run_goes_on() {
    let Some(repo) = Repo::new() else { return };
    script(&repo.path("repo"), "slow-cc.sh", "sleep 2; exec cc \"$@\"");
    repo.write("hone.toml", &FILE.replace("cc -O2", "./slow-cc.sh -O2"));
    repo.commit("a slow build");
    repo.topic("main.c", &main_with(140));
    let before = repo.everything();
    let runs = repo.path("runs");
    let args = ["--base", "main", "--output", runs.to_str().unwrap()];
    let run = repo.run(1);
    for (number, step) in ["build-head", "judge-sum"].into_iter().enumerate() {
        let args = if number == 0 { args.to_vec() } else { vec!["--resume", run.to_str().unwrap()] };
        let mut child =
            repo.command("repo", &args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        let is_there = || fs::read_to_string(run.join("attempt.json")).is_ok_and(|note| note.contains(step));
        while !is_there() {
            assert!(
                child.try_wait().unwrap().is_none() && Instant::now() < deadline,
                "it never came to {step}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(300));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(repo.everything() == before, "killed in {step}");
    }
    let ran = repo.gate(&["--resume", run.to_str().unwrap(), "--json"]).expect_code(3);
    assert!(ran.stderr.contains("was interrupted during the step judge-sum"), "{}", ran.stderr);
    assert!(ran.stderr.contains("build-head          already done"), "{}", ran.stderr);
    repo.assert_clean(&before);
}

/// A server under a load of the Kafka API: pairs in place of rounds, and no pass without those that count.
#[test]
fn a_broker_is_judged_by_pairs() {
    let Some(repo) = Repo::new() else { return };
    let server = |word: &str| {
        format!(
            "#include <stdlib.h>\n#include <unistd.h>\nint main(int c, char **v) {{ setenv(\"WORD\", \"{word}\", 1); return \
             execv(\"{}\", v); }}\n",
            env!("CARGO_BIN_EXE_hone")
        )
    };
    let file = r#"name = "calc"
[target]
source = "."
build = ["cc -O2 main.c -o server"]
program = "server"
compiler = "gcc"
args = ["broker", "--listen", "127.0.0.1:{port}", "--metrics-listen", "off", "--data", "{data}"]
[workload.send]
requests_per_s = 400
duration_s = 0.5
warmup_requests = 50
[compare]
pairs = 7
control_pairs = 6
reserve = 0
lateness_limit_ms = 5000
[gate]
judge = ["send"]
worse_by = "900%"
[gate.guards]
latency-p50 = "5000%"
"#;
    repo.write("hone.toml", file);
    repo.write("main.c", &server("one"));
    repo.commit("a server");
    repo.topic("main.c", &server("two"));
    let ran = repo.gate(&["--base", "main", "--json"]);
    let body = ran.json()["body"].clone();
    let finding = &body["findings"][0];
    let counts = |kind: &str| {
        let pairs = body["comparisons"][0]["pairs"].as_array().unwrap().iter();
        pairs.filter(|pair| pair["kind"] == kind && pair["dropped"].is_null()).count()
    };
    // A busy machine drops pairs; what is told is what is left of them.
    if counts("test") >= 5 && counts("control") >= 5 {
        let ratio = finding["ratio"][0].as_f64().unwrap();
        assert!((0.3..3.0).contains(&ratio), "it is one server: {finding}");
        assert_eq!(ran.expect_code(0).json()["body"]["outcome"], "passed");
    } else {
        assert_eq!(ran.expect_code(1).json()["body"]["outcome"], "not-seen");
    }
    let metrics: Vec<&str> = body["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| finding["metric"].as_str().unwrap())
        .collect();
    assert_eq!(metrics, ["cpu-per-record", "latency-p50"], "{body:#}");
    assert_eq!(body["comparisons"][0]["design"]["mode"], "duet");
    let names = [&body["comparisons"][0]["a"], &body["comparisons"][0]["b"]];
    assert_eq!(names, ["base", "head"]);

    // The same session, had its neighbours been louder: nothing is known, and that is no pass.
    let run = repo.run(1);
    for pair in fs::read_dir(run.join("judge-send/pairs")).unwrap().flatten() {
        let mut note: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(pair.path()).unwrap()).unwrap();
        note["dropped"] = "an arm began 11 ms after its agreed start".into();
        fs::write(pair.path(), note.to_string()).unwrap();
    }
    fs::remove_file(run.join("steps/judge-send.json")).unwrap();
    let junit = repo.path("gate.xml");
    let args = ["--resume", run.to_str().unwrap(), "--json", "--junit", junit.to_str().unwrap()];
    let body = repo.gate(&args).expect_code(1).json()["body"].clone();
    assert_eq!((&body["outcome"], &body["findings"][0]["state"]), (&"not-seen".into(), &"not-seen".into()));
    let xml = fs::read_to_string(junit).unwrap();
    assert!(xml.contains("errors=\"1\"") && xml.contains("at least 5 are necessary"), "{xml}");
    // The file has no reserve: nothing was measured in place of them.
    let pairs = body["comparisons"][0]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 13, "{body:#}");
    assert!(pairs.iter().all(|pair| pair["dropped"].is_string()), "{body:#}");
}

/// The workflows of the examples, by the checkers of those who run them.
#[test]
fn the_workflows_are_what_github_and_gitlab_take() {
    let [github, gitlab] = ["github.yml", "gitlab-ci.yml"].map(|name| of_checkout("examples/ci").join(name));
    let run = |program: &Path, args: &[&str], file: &Path| {
        let ran = Ran::of(Command::new(program).args(args).arg(file).output().unwrap());
        assert_eq!(ran.code, 0, "{}\n{}", ran.stdout, ran.stderr);
    };
    if let Some(actionlint) = find_beside("actionlint", &[of_checkout(".hone/bin")]) {
        run(&actionlint, &["-shellcheck=", "-pyflakes="], &github);
    }
    let python =
        std::env::var_os("HONE_PYTHON").map_or_else(|| of_checkout(".hone/venv/bin/python"), PathBuf::from);
    let beside: Vec<PathBuf> = python.parent().map(Path::to_owned).into_iter().collect();
    if let Some(check) = find_beside("check-jsonschema", &beside) {
        run(&check, &["--builtin-schema", "vendor.github-workflows"], &github);
        run(&check, &["--builtin-schema", "vendor.gitlab-ci"], &gitlab);
    }
}

/// The step of GitHub's workflow, with a `hone` that says what it was told: a push has a base also where git does not know the one before.
#[test]
fn a_push_has_a_base_and_a_pull_request_knows_its_own() {
    let Some(repo) = Repo::new() else { return };
    let first = repo.git(&["rev-parse", "HEAD"]);
    repo.write("README.md", "Words.\n");
    repo.commit("second");
    let workflow = fs::read_to_string(of_checkout("examples/ci/github.yml")).unwrap();
    let step = workflow.split_once("- name: The gate\n        run: |\n").unwrap().1;
    let lines: Vec<&str> = step.lines().take_while(|line| line.starts_with("          ")).collect();
    fs::create_dir(repo.path("bin")).unwrap();
    script(&repo.path("bin"), "hone", "echo \"$@\"");
    let path = format!("{}:{}", repo.path("bin").display(), std::env::var("PATH").unwrap());
    let told = |event: &str, before: &str| {
        let mut command = Command::new("bash");
        command.args(["-e", "-c", &lines.join("\n")]).current_dir(repo.path("repo")).env("PATH", &path);
        let ran = command.env("GITHUB_EVENT_NAME", event).env("CI_BEFORE", before).output().unwrap();
        Ran::of(ran).expect_code(0).stdout
    };
    assert!(told("push", &first).contains(&format!("gate hone.toml --base {first} --output")));
    for unknown in ["", &"0".repeat(40), &"1".repeat(40)] {
        assert!(told("push", unknown).contains("gate hone.toml --base HEAD^1 --output"), "{unknown}");
    }
    assert!(told("pull_request", &first).contains("gate hone.toml --output"));
}

/// They call Hone with flags that there are, and the pages lead to them.
#[test]
fn the_workflows_call_hone_as_it_can_be_called() {
    for name in ["github.yml", "gitlab-ci.yml"] {
        let workflow = fs::read_to_string(of_checkout("examples/ci").join(name)).unwrap();
        let calls: Vec<&str> =
            workflow.lines().map(str::trim).filter(|line| line.starts_with("hone ")).collect();
        for wanted in ["hone gate ", "hone diagnose --gate"] {
            assert!(calls.iter().any(|call| call.starts_with(wanted)), "{name}: {calls:?}");
        }
        for call in calls {
            // What stands behind `--` is the program's own.
            let own = call.split(" -- ").next().unwrap();
            let verb = own.split_whitespace().nth(1).unwrap();
            let help = stage::hone(&[verb, "--help"]).expect_code(0).stdout;
            let flags: Vec<&str> =
                help.split(|letter: char| letter.is_whitespace() || letter == ',').collect();
            for word in own.split_whitespace().filter(|word| word.starts_with('-')) {
                assert!(flags.contains(&word), "`{word}` is no flag of hone {verb}: {call}");
            }
        }
        for page in ["docs/gate.md", "docs/diagnose.md"] {
            let text = fs::read_to_string(of_checkout(page)).unwrap();
            assert!(text.contains(&format!("../examples/ci/{name}")), "{page} does not lead to {name}");
        }
    }
}

/// Two functions, one of which commits change: an operation costs about 1,000 instructions in each.
const TWO_FUNCTIONS: &str = "#include <stdio.h>
#include <stdlib.h>
static unsigned long x = 88172645463325252ul;
__attribute__((noinline)) static void mix(unsigned long turns) {
  for (unsigned long i = 0; i < turns; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
}
__attribute__((noinline)) static void check(unsigned long turns) {
  for (unsigned long i = 0; i < turns; i++) { x += i ^ (x >> 3); x *= 3; }
}
int main(int c, char **v) {
  unsigned long operations = strtoul(v[1], 0, 10);
  for (unsigned long i = 0; i < operations; i++) { mix(MIX); check(200); }
  return printf(\"%lu\\n\", x) < 0; }
";

fn two_functions(mix: u32) -> String {
    TWO_FUNCTIONS.replace("MIX", &mix.to_string())
}

impl Repo {
    /// With a program of two functions.
    fn of_two_functions() -> Option<Self> {
        find_beside("qemu-x86_64", &[])?;
        let repo = Self::new()?;
        repo.write("main.c", &two_functions(100));
        repo.write("hone.toml", &FILE.replace("cc -O2 main.c", "cc -O2 -g main.c"));
        repo.commit("two functions");
        Some(repo)
    }
}

#[test]
fn one_per_cent_more_instructions_is_found_by_counts_with_its_function() {
    let Some(repo) = Repo::of_two_functions() else { return };
    repo.topic("main.c", &two_functions(102));
    let before = repo.everything();
    let ran = repo.gate(&["--base", "main", "--evidence", "counted", "--json"]).expect_code(3);
    let body = &ran.json()["body"];
    assert_eq!((&body["evidence"], &body["outcome"]), (&"counted".into(), &"worse".into()));
    assert!(body["comparisons"].as_array().unwrap().is_empty(), "nothing was measured");
    let finding = &body["findings"][0];
    let ratio = finding["ratio"][0].as_f64().unwrap();
    assert!((1.005..1.02).contains(&ratio), "{finding}");
    assert_eq!((&finding["metric"], &finding["state"]), (&"instructions".into(), &"worse".into()));
    assert!(finding["why"].as_str().unwrap().contains("most of it in mix"), "{finding}");
    let first = &body["counted"][0]["code"][0];
    assert_eq!(first["frames"][0]["name"], "mix", "{first}");
    assert!(first["frames"][0]["source"].as_str().unwrap().contains("main.c:"), "{first}");
    repo.assert_clean(&before);
    let shown = stage::hone(&["ledger", "show", repo.path("runs/ledger.jsonl").to_str().unwrap()]);
    assert!(shown.expect_code(0).stdout.contains("worse"));

    // A commit with the same instructions passes.
    repo.write("main.c", &two_functions(102).replace("return printf", "return 0 * c + printf"));
    repo.commit("other code, the same work");
    let ran = repo.gate(&["--base", "HEAD~1", "--evidence", "counted", "--even-if-same", "--json"]);
    let body = ran.expect_code(0).json()["body"].clone();
    assert_eq!(body["outcome"], "passed", "{body}");
}

#[test]
fn the_commit_with_more_instructions_is_found_among_sixteen() {
    let Some(repo) = Repo::of_two_functions() else { return };
    let good = repo.git(&["rev-parse", "HEAD"]);
    let mut guilty = String::new();
    for number in 0..16 {
        let mix = if number < 10 { 100 } else { 104 };
        let text = two_functions(mix)
            .replace("operations = strtoul", &format!("n{number} = 0, operations = n{number} + strtoul"));
        // An earlier commit changes the other function, which the found one does not.
        let text = if number < 3 { text } else { text.replace("check(200)", "check(199)") };
        // One commit in the way does not build.
        repo.write("main.c", &if number == 8 { text.replace("int main", "int main(") } else { text });
        let commit = repo.commit(&format!("change {number}"));
        if number == 10 {
            guilty = commit;
        }
    }
    let before = repo.everything();
    let range = format!("{good}..HEAD");
    let record = repo.gate(&["--bisect", &range, "--json"]).expect_code(3).json();
    let (body, bisection) = (&record["body"], &record["body"]["bisection"]);
    assert_eq!(body["head"]["commit"], guilty.as_str(), "{bisection}");
    assert_eq!(body["base"]["subject"], "change 9");
    let code = body["counted"][0]["code"].as_array().unwrap();
    assert_eq!(code[0]["frames"][0]["name"], "mix");
    assert!(code.iter().all(|change| change["frames"][0]["name"] != "check"), "{code:?}");
    let tried = bisection["tried"].as_array().unwrap();
    assert_eq!(bisection["commits"], 16);
    assert!((4..=7).contains(&tried.len()), "halving, and one that does not build: {tried:?}");
    repo.assert_clean(&before);

    // What is not worse has no such commit.
    let ran = repo.gate(&["--bisect", &format!("HEAD..{good}")]);
    ran.expect_code(2).expect_error("there is no commit to search");
    let ran = repo.gate(&["--bisect", &format!("{good}..HEAD~8")]).expect_code(1);
    ran.expect_error("is not worse than");
    repo.gate(&["--bisect", "HEAD"]).expect_code(2).expect_error("invalid range `HEAD`");
}

#[test]
fn git_bisect_run_gets_its_own_exit_codes() {
    let Some(repo) = Repo::of_two_functions() else { return };
    let code = |text: &str, args: &[&str]| {
        repo.topic("main.c", text);
        let always = ["--base", "main", "--evidence", "counted", "--exit-codes", "git-bisect"];
        repo.gate(&[&always, args].concat()).code
    };
    assert_eq!(code(&two_functions(110), &[]), 1, "bad");
    repo.git(&["checkout", "--quiet", "main"]);
    assert_eq!(code("int main(void) { return no_such_name; }\n", &[]), 125, "does not build");
    repo.git(&["checkout", "--quiet", "main"]);
    assert_eq!(code(&two_functions(90), &[]), 0, "good");
    assert_eq!(repo.gate(&["--base", "nobody", "--exit-codes", "git-bisect"]).code, 125);
    assert_eq!(repo.gate(&["--base", "topic", "--exit-codes", "git-bisect"]).code, 128, "the same commit");
}

/// Reads how much it works from a file in its own folder, which is fresh for each start.
const READS: &str = "#include <stdio.h>
int main(void) {
  unsigned long turns, x = 88172645463325252ul; FILE *file = fopen(\"turns\", \"r\");
  if (!file || fscanf(file, \"%lu\", &turns) != 1) return 1;
  for (unsigned long i = 0; i < turns * TIMES; i++) { x ^= x << 13; x ^= x >> 7; x ^= x << 17; }
  return printf(\"%lu\\n\", x) < 0; }\n";

#[test]
fn a_program_that_exits_finds_the_files_that_prepare_made() {
    let Some(repo) = Repo::new() else { return };
    let file = FILE.replace("compiler = \"gcc\"", "compiler = \"gcc\"\nprepare = \"cp turns {data}\"");
    let file = file.replace("run = [\"{operations}\"]\noperations = 200000", "run = []\noperations = 1");
    repo.write("hone.toml", &file);
    repo.write("turns", "300000");
    repo.write("main.c", &READS.replace("TIMES", "1"));
    repo.commit("reads");
    repo.topic("main.c", &READS.replace("TIMES", "2"));
    let ran = repo.gate(&["--base", "HEAD~1", "--evidence", "counted", "--json"]).expect_code(3);
    assert_eq!(ran.json()["body"]["outcome"], "worse");
    repo.topic("hone.toml", &file.replace("cp turns", "cp nothing"));
    let head = ["--experiment-from", "head", "--even-if-same"];
    let error = repo.gate(&[&["--base", "HEAD~1", "--evidence", "counted"][..], &head].concat());
    error.expect_code(1).expect_error("cp: ");
}
