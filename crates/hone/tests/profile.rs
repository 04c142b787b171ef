//! `hone profile` with profiles of the real tools: what fits passes, and what no longer fits fails, with the exit code of a
//! guard rail.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::bolt::{Bolt, BoltTools, Budget, Input, Writes};
use hone_binary::lock::{LockedProgram, LockedTraining};
use hone_binary::profile_store::Keeper;
use hone_tool::{Call, Runner, System};
use serde_json::Value;

mod stage;
use stage::tools::{find, find_beside, skip};

/// Hot `mix`, cold `rare`, and a main function that calls both.
const TOY: &str = "#include <stdlib.h>\n\
__attribute__((noinline)) unsigned long mix(unsigned long x) {\n\
  for (int i = 0; i < 16; i++) x = x & 1 ? x * 3 + 1 : x >> 1;\n\
  return x;\n\
}\n\
__attribute__((noinline)) unsigned long rare(unsigned long x) {\n\
  return x % 5 ? x : x / 7;\n\
}\n\
int main(int c, char **v) {\n\
  unsigned long s = 0, n = c > 1 ? strtoul(v[1], 0, 10) : 1000, hard = c > 2;\n\
  for (unsigned long i = 0; i < n; i++) { if (!hard) s += mix(i); if (hard || i % 64 == 0) s += rare(i); }\n\
  return s == 7;\n\
}\n";

/// Another control flow in place of the loop's.
const REFACTORED: &str = "x & 1 ? (x % 7 == 3 ? x / 5 : x * 3 + 1) : x % 11 ? x >> 1 : 9";

struct Bench {
    dir: tempfile::TempDir,
    system: System,
}

/// What `hone profile` answered.
struct Answer {
    code: i32,
    out: String,
    err: String,
}

impl Answer {
    fn json(&self) -> Value {
        let record: Value =
            serde_json::from_str(&self.out).unwrap_or_else(|_| panic!("{}{}", self.out, self.err));
        record["body"].clone()
    }

    /// The share that was lost, after the exit code was looked at.
    fn lost(&self, code: i32) -> f64 {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        self.json()["lost_share"].as_f64().unwrap()
    }

    /// Name and reason of each lost function.
    fn why(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let body = self.json();
        let lost = body["lost_functions"].as_array().unwrap().iter();
        lost.map(|lost| (text(&lost["name"]), text(&lost["why"]))).collect()
    }
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        Self { dir, system }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn call(&self, program: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<String, String> {
        let mut call = Call::new("step", program, self.dir.path()).args(args.iter().copied());
        for (name, value) in env {
            call = call.env(name, value);
        }
        let finished = self.system.run(&call.accept_status(1)).map_err(|error| error.to_string())?;
        Ok(finished.stdout_text().unwrap())
    }

    fn hone(&self, args: &[&str]) -> Answer {
        self.hone_with(&[], args)
    }

    /// With tools that are named by the environment.
    fn hone_with(&self, env: &[(&str, &Path)], args: &[&str]) -> Answer {
        let hone = Path::new(env!("CARGO_BIN_EXE_hone"));
        let call = Call::new("hone", hone, self.dir.path()).arg("profile").args(args.iter().copied());
        let call = env.iter().fold(call, |call, (name, tool)| call.env(*name, *tool));
        let done = self.system.run(&call.accept_status(1).accept_status(2).accept_status(3)).unwrap();
        Answer { code: done.code, out: done.stdout_text().unwrap(), err: done.stderr_text().unwrap() }
    }

    fn check(&self, profile: &str, program: &str, more: &[&str]) -> Answer {
        self.hone(&[&["check", profile, program, "--json"], more].concat())
    }

    /// Compiles a text; the source always has the same name, as in a project.
    fn compile(&self, compiler: &Path, source: &str, name: &str, flags: &[&str]) {
        fs::write(self.path("toy.c"), source).unwrap();
        let args = [&["-O2", "toy.c", "-o", name], flags].concat();
        self.call(compiler, &args, &[]).unwrap();
        assert!(self.path(name).is_file(), "{name}");
    }

    /// Runs an instrumented program and merges what it left.
    fn train(&self, profdata: &Path, program: &str, args: &[&str], into: &str) {
        let raw = self.path("a.profraw");
        let _ = fs::remove_file(&raw);
        self.call(&self.path(program), args, &[("LLVM_PROFILE_FILE", raw.to_str().unwrap())]).unwrap();
        self.call(profdata, &["merge", "-o", into, "a.profraw"], &[]).unwrap();
    }

    fn copy(&self, fixture: &str, files: &[&str], to: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hone-binary/tests/fixtures").join(fixture);
        for file in files {
            let target = self.path(to).join(file);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(from.join(file), target).unwrap();
        }
    }
}

fn changed(source: &str, from: &str, to: &str) -> String {
    assert!(source.contains(from), "{from}");
    source.replace(from, to)
}

/// Clang of this version with its llvm-profdata.
fn clang(major: u32) -> Option<(PathBuf, PathBuf)> {
    let folder = format!("/usr/lib/llvm-{major}/bin");
    Some((find(&format!("clang-{major}"))?, find_beside("llvm-profdata", &[folder.into()])?))
}

const PROFDATA: &str = "HONE_LLVM_PROFDATA";
const COUNTING: &[&str] = &["-fprofile-generate"];

fn profiles_of_clang_are_held_against_an_instrumented_build(major: u32) {
    let Some((cc, profdata)) = clang(major) else { return };
    let bench = Bench::new();
    bench.compile(&cc, TOY, "counting", COUNTING);
    bench.train(&profdata, "counting", &["20000"], "p.profdata");

    bench.compile(&cc, TOY, "again", COUNTING);
    assert_eq!(bench.check("p.profdata", "again", &["--max-loss", "0%"]).lost(0), 0.0, "the same source");

    let renamed = changed(TOY, "mix(", "blend(");
    bench.compile(&cc, &renamed, "renamed", COUNTING);
    let answer = bench.check("p.profdata", "renamed", &[]);
    assert!(answer.lost(3) > 0.8, "{}", answer.out);
    assert_eq!(answer.why(), [("mix".to_owned(), "gone".to_owned())]);
    assert_eq!(answer.json()["unknown_to_profile"], 1);

    let refactored = changed(TOY, "return x;\n}", "return x > 99 ? x - 9 : x;\n}");
    let refactored = changed(&refactored, "x & 1 ? x * 3 + 1 : x >> 1", REFACTORED);
    bench.compile(&cc, &refactored, "refactored", COUNTING);
    let answer = bench.check("p.profdata", "refactored", &[]);
    assert!(answer.lost(3) > 0.8, "{}", answer.out);
    assert_eq!(answer.why(), [("mix".to_owned(), "changed".to_owned())]);
    let text = bench.hone(&["check", "p.profdata", "refactored"]);
    assert_eq!(text.code, 3);
    assert!(
        text.out.contains("DOES NOT FIT") && text.out.contains("next: take a new profile"),
        "{}",
        text.out
    );

    bench.compile(&cc, &changed(TOY, "rare(", "seldom("), "cold", COUNTING);
    let lost = bench.check("p.profdata", "cold", &[]).lost(0);
    assert!(lost > 0.0 && lost < 0.05, "a cold function weighs little: {lost}");
    assert_eq!(bench.check("p.profdata", "cold", &["--max-loss", "0%"]).lost(3), lost);

    bench.compile(
        &cc,
        "int other(int x) { return x; }\nint main(int c, char **v) { return other(c); }\n",
        "other",
        COUNTING,
    );
    assert!(bench.check("p.profdata", "other", &[]).lost(3) > 0.8);

    bench.call(Path::new("/usr/bin/strip"), &["-s", "again"], &[]).unwrap();
    assert_eq!(bench.check("p.profdata", "again", &[]).lost(0), 0.0, "a stripped one tells the same");
    bench.compile(&cc, TOY, "plain", &[]);
    let answer = bench.check("p.profdata", "plain", &[]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.err.contains("is not instrumented") && answer.err.contains("next: build it with"),
        "{}",
        answer.err
    );
}

#[test]
fn profiles_of_clang_22_are_held_against_an_instrumented_build() {
    profiles_of_clang_are_held_against_an_instrumented_build(22);
}

#[test]
fn profiles_of_clang_19_are_held_against_an_instrumented_build() {
    profiles_of_clang_are_held_against_an_instrumented_build(19);
}

/// Counts with context are judged by a build that counts with context.
#[test]
fn a_profile_with_context_is_judged_in_its_parts() {
    let Some((cc, profdata)) = clang(22) else { return };
    let bench = Bench::new();
    bench.compile(&cc, TOY, "counting", COUNTING);
    bench.train(&profdata, "counting", &["20000"], "ir.profdata");
    let flags = ["-fprofile-use=ir.profdata", "-fcs-profile-generate"];
    bench.compile(&cc, TOY, "context", &flags);
    let raw = bench.path("c.profraw");
    bench.call(&bench.path("context"), &["20000"], &[("LLVM_PROFILE_FILE", raw.to_str().unwrap())]).unwrap();
    bench.call(&profdata, &["merge", "-o", "cs.profdata", "ir.profdata", "c.profraw"], &[]).unwrap();
    let shown = bench.hone(&["show", "cs.profdata", "--json"]).json();
    assert_eq!(shown["profile"]["level"], "CSIR");
    for program in ["counting", "context"] {
        let answer = bench.check("cs.profdata", program, &["--max-loss", "0%"]);
        assert_eq!(answer.lost(0), 0.0, "{program}");
        assert!(answer.out.contains(" records: they were taken "), "{}", answer.out);
    }
    let answer = bench.check("ir.profdata", "context", &[]);
    assert_eq!(answer.code, 1, "{}", answer.out);
    assert!(answer.err.contains("has context-sensitive counters and the profile has none"), "{}", answer.err);
}

/// Nothing of the profile can be compared: that nothing of it is lost would be no answer.
#[test]
fn a_verdict_on_nothing_is_none() {
    let Some((cc, profdata)) = clang(22) else { return };
    let bench = Bench::new();
    bench.compile(&cc, TOY, "counting", COUNTING);
    bench.train(&profdata, "counting", &["20000"], "ir.profdata");
    bench.compile(&cc, TOY, "context", &["-fprofile-use=ir.profdata", "-fcs-profile-generate"]);
    let raw = bench.path("c.profraw");
    bench.call(&bench.path("context"), &["20000"], &[("LLVM_PROFILE_FILE", raw.to_str().unwrap())]).unwrap();
    // A second round that has hardly counted beside the first.
    let weights = ["merge", "-o", "cs.profdata", "-weighted-input=1000000,ir.profdata", "c.profraw"];
    bench.call(&profdata, &weights, &[]).unwrap();
    let answer = bench.check("cs.profdata", "context", &[]);
    assert!(answer.code == 1 && answer.err.contains("Hone can check only "), "{}", answer.err);
    assert_eq!(bench.check("cs.profdata", "counting", &[]).lost(0), 0.0);

    // Places in a library only.
    let Some(cxx) = find("clang++-22") else { return };
    bench.compile(
        &cxx,
        "int main() { return 0; }\n",
        "relocs",
        &["-fuse-ld=lld", "-Wl,--emit-relocs", "-x", "c++"],
    );
    fs::write(bench.path("foreign.fdata"), "0 [unknown] 0 0 [unknown] 0 0 9\n").unwrap();
    let answer = bench.check("foreign.fdata", "relocs", &[]);
    assert!(
        answer.code == 1 && answer.err.contains("can check only 0 of the 9 counts of foreign.fdata"),
        "{}{}",
        answer.out,
        answer.err
    );
}

/// Neither its path nor the places of its sources tell a package of such a module from Go's own.
#[test]
fn a_go_module_without_a_dot_is_no_part_of_go() {
    let Some(go) = find_beside("go", &["/usr/local/go/bin".into()]) else { return };
    let bench = Bench::new();
    bench.copy("go-tiny", &["go.mod", "cmd/tiny/main.go", "mix/mix.go"], "tiny");
    let renamed = |from: &str, to: &str| {
        for file in ["tiny/go.mod", "tiny/cmd/tiny/main.go"] {
            let text = fs::read_to_string(bench.path(file)).unwrap();
            fs::write(bench.path(file), changed(&text, from, to)).unwrap();
        }
        let output = bench.path(to);
        let args = ["-C", "tiny", "build", "-trimpath", "-o", output.to_str().unwrap(), "./cmd/tiny"];
        bench.call(&go, &args, &[]).unwrap();
    };
    renamed("tiny.example/tiny", "lab");
    let args = ["-cpu", "lab.cpu", "-mem", "lab.mem", "-for", "1500ms"];
    bench.call(&bench.path("lab"), &args, &[]).unwrap();
    assert_eq!(bench.check("lab.cpu", "lab", &["--max-loss", "0%"]).lost(0), 0.0);
    renamed("lab", "shop");
    assert!(bench.check("lab.cpu", "shop", &[]).lost(3) > 0.5);
}

#[test]
fn profiles_of_rust_are_held_against_an_instrumented_build() {
    let Some(rustc) = find("rustc") else { return };
    let bench = Bench::new();
    let libdir = bench.call(&rustc, &["--print", "target-libdir"], &[]).unwrap();
    let folder = Path::new(libdir.trim()).parent().unwrap().join("bin");
    let Some(profdata) = find_beside("llvm-profdata", &[folder]) else { return };
    let source = "#[inline(never)] fn mix(x: u64) -> u64 { (0..16).fold(x, |x, i| if x & 1 == 1 { x * 3 + i } else { x >> 1 }) }\n\
        fn main() { let s: u64 = (0..20000).map(mix).sum(); std::process::exit((s == 7) as i32) }\n";
    let build = |source: &str, name: &str| {
        fs::write(bench.path("toy.rs"), source).unwrap();
        let args = ["-O", "--crate-name", "toy", "toy.rs", "-Cprofile-generate=/nonexistent", "-o", name];
        bench.call(&rustc, &args, &[]).unwrap();
    };
    build(source, "counting");
    bench.train(&profdata, "counting", &[], "p.profdata");
    let shown = bench.hone(&["show", "p.profdata", "--top", "3"]);
    assert!(
        shown.code == 0 && shown.out.contains("  toy::mix ") && shown.out.contains("profdata (IR)"),
        "{}",
        shown.out
    );
    build(source, "again");
    assert_eq!(bench.check("p.profdata", "again", &["--max-loss", "0%"]).lost(0), 0.0);
    build(&changed(source, "mix", "blend"), "renamed");
    let answer = bench.check("p.profdata", "renamed", &[]);
    assert!(answer.lost(3) > 0.5, "{}", answer.out);
    assert_eq!(answer.why()[0], ("toy::mix".to_owned(), "gone".to_owned()));
}

fn profiles_of_bolt_are_held_against_the_linked_program(major: u32) {
    let Some(cxx) = find("clang++-22") else { return };
    let tools = match BoltTools::find(Some(major)) {
        Ok(tools) => tools,
        Err(error) => return skip(&format!("{error:#}")),
    };
    let bolt_path = tools.bolt.clone();
    let bench = Bench::new();
    let check = |profile: &str, program: &str, more: &[&str]| {
        let env = [("HONE_LLVM_BOLT", bolt_path.as_path())];
        bench.hone_with(&env, &[&["check", profile, program, "--json"], more].concat())
    };
    bench.copy("bolt", &["toy.cpp"], ".");
    let source = fs::read_to_string(bench.path("toy.cpp")).unwrap();
    let build = |source: &str, name: &str| {
        fs::write(bench.path("toy.cpp"), source).unwrap();
        bench.call(&cxx, &["-O2", "-g0", "-Wl,-q", "toy.cpp", "-o", name], &[]).unwrap();
    };
    build(&source, "toy");
    let bolt = Bolt::prepare(&bench.system, tools, &bench.path("work"), Budget::default()).unwrap();
    let input = Input::look(&bench.path("toy")).unwrap();
    let counting = bolt.instrument(&input, Writes::AtExit { for_each_process: false }).unwrap();
    bench.call(&counting.executable, &["20000"], &[]).unwrap();
    let profile = counting.profile.to_str().unwrap();

    let same = check(profile, "toy", &["--max-loss", "1%"]);
    assert!(same.lost(0) < 0.01, "{}", same.out);
    assert_eq!(same.json()["same_build"], true, "by the note beside it");

    build(&changed(&source, "step(", "stride("), "renamed");
    let answer = check(profile, "renamed", &[]);
    assert!(answer.lost(3) > 0.1, "{}", answer.out);
    assert!(answer.why().contains(&("_ZL4stepmm".to_owned(), "gone".to_owned())), "{}", answer.out);
    assert_eq!(answer.json()["same_build"], false);

    let other = changed(
        &source,
        "sum += i % 3 ? scale : scale / 2;",
        "{ if (i % 7 == 1) printf(\"%s\", \"\"); sum += i % 3 ? scale : scale / 2; if (sum % 1000003 == 1) abort(); }",
    );
    build(&other, "refactored");
    let answer = check(profile, "refactored", &[]);
    assert!(answer.lost(3) > 0.1, "{}", answer.out);
    assert_eq!(answer.why(), [("_ZNK5Strip4areaEm".to_owned(), "changed".to_owned())]);
    let names = check(profile, "refactored", &["--names-only"]);
    assert!(
        names.lost(0) < 0.01 && names.out.contains("did not look for functions with changed code"),
        "{}",
        names.out
    );

    let entirely = "#include <cstdio>\nint f(int x) { return x ? f(x - 1) + 1 : 0; }\nint main(int c, char **) { printf(\"%d\", f(c)); }\n";
    build(entirely, "other");
    assert!(check(profile, "other", &[]).lost(3) > 0.5);
    bench.call(&cxx, &["-O2", "toy.cpp", "-o", "bare"], &[]).unwrap();
    let answer = check(profile, "bare", &[]);
    assert!(answer.code == 1 && answer.err.contains("--emit-relocs"), "{}", answer.err);
}

#[test]
fn profiles_of_bolt_22_are_held_against_the_linked_program() {
    profiles_of_bolt_are_held_against_the_linked_program(22);
}

#[test]
fn profiles_of_bolt_19_are_held_against_the_linked_program() {
    profiles_of_bolt_are_held_against_the_linked_program(19);
}

#[test]
fn profiles_of_go_are_held_against_the_program() {
    let Some(go) = find_beside("go", &["/usr/local/go/bin".into()]) else { return };
    let bench = Bench::new();
    bench.copy("go-tiny", &["go.mod", "cmd/tiny/main.go", "mix/mix.go"], "tiny");
    let build = |name: &str| {
        let output = bench.path(name);
        let args = ["-C", "tiny", "build", "-o", output.to_str().unwrap(), "./cmd/tiny"];
        bench.call(&go, &args, &[]).unwrap();
    };
    build("tiny-a");
    let run = |name: &str| {
        let args = ["-cpu", &format!("{name}.cpu"), "-mem", &format!("{name}.mem"), "-for", "1500ms"];
        bench.call(&bench.path(name), &args, &[]).unwrap();
    };
    run("tiny-a");
    assert_eq!(bench.check("tiny-a.cpu", "tiny-a", &["--max-loss", "0%"]).lost(0), 0.0);

    let shown = bench.hone(&["show", "tiny-a.cpu", "--top", "40"]);
    assert!(shown.code == 0 && shown.out.contains("pprof (cpu)"), "{}{}", shown.out, shown.err);
    assert!(shown.out.contains("flat") && shown.out.contains("cumulative"), "{}", shown.out);
    assert!(
        shown.out.contains("\nFindings\n  - ") && shown.out.contains("mix.(*Batch).Size"),
        "{}",
        shown.out
    );
    let memory = bench.hone(&["show", "tiny-a.mem"]);
    assert!(memory.out.contains("alloc_space: ") && memory.out.contains("main.keep"), "{}", memory.out);

    let file = bench.path("tiny/mix/mix.go");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, changed(&changed(&text, "func size(", "func weigh("), "size(&b", "weigh(&b")).unwrap();
    build("tiny-b");
    let answer = bench.check("tiny-a.cpu", "tiny-b", &["--max-loss", "2%"]);
    assert!(answer.lost(3) > 0.02, "{}", answer.out);
    assert_eq!(answer.why(), [("tiny.example/tiny/mix.size".to_owned(), "gone".to_owned())]);

    run("tiny-b");
    let moved = bench.hone(&["diff", "tiny-a.cpu", "tiny-b.cpu", "--json"]).json();
    let names = |list: &Value| {
        list.as_array()
            .unwrap()
            .iter()
            .map(|moved| moved["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(names(&moved["hotter"]).contains(&"tiny.example/tiny/mix.weigh".to_owned()), "{moved}");
    assert!(names(&moved["cooler"]).contains(&"tiny.example/tiny/mix.size".to_owned()), "{moved}");

    placed_where_go_takes_it(&bench);

    fs::create_dir_all(bench.path("other")).unwrap();
    fs::write(bench.path("other/go.mod"), "module other.example/x\n\ngo 1.21\n").unwrap();
    fs::write(bench.path("other/main.go"), "package main\n\nfunc main() { println(1) }\n").unwrap();
    bench.call(&go, &["-C", "other", "build", "-o", "../foreign", "."], &[]).unwrap();
    assert!(bench.check("tiny-a.cpu", "foreign", &[]).lost(3) > 0.9);
    let answer = bench.check("tiny-a.mem", "tiny-a", &[]);
    assert!(answer.code == 1 && answer.err.contains("counts alloc_objects"), "{}", answer.err);

    let merged =
        bench.hone(&["merge", "tiny-a.cpu", "tiny-a.cpu", "--weights", "3,1", "-o", "sum.pgo", "--json"]);
    let total =
        |file: &str| bench.hone(&["show", file, "--json"]).json()["profile"]["total_count"].as_u64().unwrap();
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert_eq!(total("sum.pgo"), 4 * total("tiny-a.cpu"));
}

/// `tiny-a.cpu` is of the source before a function was renamed, `tiny-b.cpu` of the present one.
fn placed_where_go_takes_it(bench: &Bench) {
    let place = bench.path("tiny/cmd/tiny/default.pgo");
    let hone = |profile: &str, more: &[&str]| {
        bench.hone(&[&["place", profile, "--module", "tiny", "--package", "./cmd/tiny"], more].concat())
    };
    let stale = hone("tiny-a.cpu", &["--max-loss", "1%"]);
    assert!(stale.code == 1 && stale.err.contains("mix.size"), "{}", stale.err);
    assert!(stale.err.contains("is in functions that the present source does not have"), "{}", stale.err);
    let memory = hone("tiny-b.mem", &[]);
    assert!(memory.code == 1 && memory.err.contains("counts alloc_objects"), "{}", memory.err);
    assert!(!place.exists(), "nothing was placed");
    let placed = hone("tiny-b.cpu", &[]);
    // Where the line breaks follows from the length of the path.
    let said = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let used = said(&placed.out);
    assert!(placed.code == 0 && used.contains("a plain `go build` uses it"), "{}{}", placed.out, placed.err);
    assert_eq!(fs::read(&place).unwrap(), fs::read(bench.path("tiny-b.cpu")).unwrap());
    assert!(said(&hone("tiny-b.cpu", &[]).out).contains("as before"));
    let other = hone("tiny-a.cpu", &["--max-loss", "100%"]);
    assert!(other.code == 1 && other.err.contains("--force"), "{}", other.err);
    assert_eq!(fs::read(&place).unwrap(), fs::read(bench.path("tiny-b.cpu")).unwrap());
    let replaced = hone("tiny-a.cpu", &["--max-loss", "100%", "--force"]);
    assert!(said(&replaced.out).contains("replacing another profile"), "{}{}", replaced.out, replaced.err);
    let left = fs::read_dir(place.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "the source and the profile, and nothing set aside");
    fs::remove_file(&place).unwrap();
}

#[test]
fn profiles_of_llvm_are_merged_with_weights_and_their_locks() {
    let Some((cc, profdata)) = clang(19) else { return };
    let bench = Bench::new();
    bench.compile(&cc, TOY, "counting", COUNTING);
    bench.train(&profdata, "counting", &["20000"], "easy.profdata");
    bench.train(&profdata, "counting", &["5000", "hard"], "hard.profdata");
    let total =
        |file: &str| bench.hone(&["show", file, "--json"]).json()["profile"]["total_count"].as_u64().unwrap();
    let files = ["easy.profdata", "hard.profdata"];
    let merge =
        |more: &[&str]| bench.hone(&[&["merge", files[0], files[1], "-o", "sum.profdata"], more].concat());
    let merged = merge(&["--weights", "1,3"]);
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert_eq!(total("sum.profdata"), total(files[0]) + 3 * total(files[1]));
    // The form of clang 19, although newer tools are here: clang 19 reads no other.
    assert_eq!(fs::read(bench.path("sum.profdata")).unwrap()[8], 12);
    bench.compile(&cc, TOY, "used", &["-fprofile-use=sum.profdata", "-Werror"]);
    let keeper = Keeper::new(&bench.system, bench.dir.path());
    let program =
        LockedProgram::from_executable(&bench.path("counting"), None, vec!["-O2".into()], &[]).unwrap();
    let training =
        LockedTraining { workload: Some("easy".into()), seed: Some(7), ..LockedTraining::default() };
    keeper.lock(&bench.path(files[0]), vec![program], vec![training]).unwrap();
    assert_eq!(bench.check(files[0], "counting", &[]).json()["same_build"], true);
    assert_eq!(merge(&["--weights", "1,3"]).code, 0);
    let shown = bench.hone(&["show", "sum.profdata"]);
    assert!(shown.out.contains("  taken from counting; build-id "), "{}", shown.out);
    assert!(shown.out.contains("trained with easy; seed 7; weight 1.00"), "{}", shown.out);
    assert!(shown.out.contains("lock: it matches this profile\n"), "{}", shown.out);
    assert!(shown.out.contains("trained with an unknown workload; weight 3.00"), "{}", shown.out);

    // More than a command line takes go by a list.
    let many = [&["merge", "-o", "many.profdata"][..], &["easy.profdata"; 101]].concat();
    assert_eq!(bench.hone(&many).code, 0);
    assert_eq!(total("many.profdata"), 101 * total("easy.profdata"));

    let shares = merge(&["--shares", "0.5,0.5", "--json"]).json();
    let part = |at: usize| shares["inputs"][at]["weight"].as_f64().unwrap() * total(files[at]) as f64;
    assert!((part(0) / part(1) - 1.0).abs() < 0.002, "{shares}");

    let moved = bench.hone(&["diff", files[0], files[1]]);
    let (hotter, cooler) = moved.out.split_once("cooler").unwrap();
    assert!(hotter.contains("  rare ") && cooler.contains("  mix "), "{}", moved.out);

    let refactored = changed(TOY, "x & 1 ? x * 3 + 1 : x >> 1", REFACTORED);
    bench.compile(&cc, &refactored, "refactored", COUNTING);
    bench.train(&profdata, "refactored", &["20000"], "new.profdata");
    let refused = bench.hone(&["merge", files[0], "new.profdata", "-o", "both.profdata"]);
    assert_eq!(refused.code, 1);
    let words = "control flow differs in 1 of 3 functions, for example in mix";
    assert!(refused.err.contains(words) && refused.err.contains("--different-builds"), "{}", refused.err);
    assert!(!bench.path("both.profdata").exists());
    let told = bench.hone(&["merge", files[0], "new.profdata", "-o", "both.profdata", "--different-builds"]);
    assert_eq!(told.code, 0, "{}", told.err);

    let mut bytes = fs::read(bench.path("sum.profdata")).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(bench.path("sum.profdata"), bytes).unwrap();
    let other = bench.hone(&["show", "sum.profdata"]);
    assert!(
        other.code == 1 && other.err.contains("its SHA-256 is") || other.err.contains("can't read"),
        "{}",
        other.err
    );
}

/// A tool reads what is older than itself, and writes what an older compiler can't read.
#[test]
fn the_version_of_the_form_is_minded() {
    let (Some((cc, old)), Some((_, new))) = (clang(19), clang(22)) else { return };
    let bench = Bench::new();
    bench.compile(&cc, TOY, "counting", COUNTING);
    bench.train(&old, "counting", &["100"], "old.profdata");
    bench.call(&new, &["merge", "-o", "new.profdata", "old.profdata"], &[]).unwrap();
    assert_eq!(bench.hone_with(&[(PROFDATA, &new)], &["show", "old.profdata"]).code, 0);
    let refused = bench.hone_with(&[(PROFDATA, &old)], &["show", "new.profdata"]);
    assert!(
        refused.code == 1 && refused.err.contains("has version 13 of its format, which "),
        "{}",
        refused.err
    );
    let merge = ["merge", "old.profdata", "old.profdata", "-o", "sum.profdata"];
    let refused = bench.hone_with(&[(PROFDATA, &new)], &merge);
    assert!(refused.code == 1 && refused.err.contains("writes version 13 of the form"), "{}", refused.err);
    assert!(!bench.path("sum.profdata").exists(), "{}", refused.err);
    assert_eq!(bench.hone_with(&[(PROFDATA, &old)], &merge).code, 0);
}

/// llvm-profdata warns of counters that it can't add, leaves them out, and ends with 0.
#[test]
fn a_merge_that_leaves_something_out_is_no_merge() {
    if clang(22).is_none() {
        return;
    }
    let bench = Bench::new();
    fs::write(bench.path("a"), ":ir\nf\n1\n2\n5\n5\n\ng\n2\n1\n7\n").unwrap();
    fs::write(bench.path("b"), ":ir\nf\n1\n3\n5\n5\n1\n\ng\n2\n1\n7\n").unwrap();
    let refused = bench.hone(&["merge", "a", "b", "-o", "sum"]);
    assert_eq!(refused.code, 1);
    let words = "the merged profdata has the sum 24, but its parts have 35: the merge left out a part";
    assert!(refused.err.contains(words), "{}", refused.err);
    let left: Vec<_> =
        fs::read_dir(bench.dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "two profiles and the logs: {left:?}");
    let sum = bench.hone(&["merge", "a", "a", "-o", "sum"]);
    assert_eq!(sum.code, 0, "{}", sum.err);
}

#[test]
fn what_is_no_profile_is_told_with_the_way_out() {
    let bench = Bench::new();
    let refused = |name: &str, bytes: &[u8], words: &str| {
        fs::write(bench.path(name), bytes).unwrap();
        let answer = bench.hone(&["show", name]);
        assert_eq!((answer.code, answer.out.as_str()), (1, ""), "{}", answer.err);
        assert!(answer.err.contains(words) && answer.err.contains("next: "), "{}", answer.err);
    };
    refused("empty", b"", "empty is empty (0 bytes)");
    refused("raw", b"\x81rforpl\xff\x0a\0\0\0", "a raw LLVM profile");
    refused("page", b"<html>", "a file of an unknown format");
    refused("cut", b"1 main 0 1 f 0 0 1\n1 main 0 1 f 0 0 1", "is cut off");
    refused("zip", b"\x1f\x8b\x08\0", "is not a pprof profile");
    let usage = bench.hone(&["merge", "a", "b", "--weights", "1", "-o", "c"]);
    assert_eq!(usage.code, 2, "{}", usage.err);
    assert!(usage.err.contains("--weights has 1 values for 2 profiles"), "{}", usage.err);
    assert_eq!(bench.hone(&["check", "a", "b", "--max-loss", "10"]).code, 2);
    let help = bench.hone(&["--help"]);
    assert!(help.code == 0 && help.out.contains("hone profile merge get.fdata put.fdata"), "{}", help.out);
}
