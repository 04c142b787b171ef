//! A program of a make project, built plain, counting and with its profile, by real compilers that Hone stands in for.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::c_toolchain::CToolchain;
use hone_binary::linkmap::Coverage;
use hone_binary::recipe::{Recipe, RecipeBuilder, RecipeRefusal};
use hone_binary::{
    BuildRequest, Builder, Built, Guide, How, Merged, Moved, Proven, Refusal, TargetKind, functions_moved,
};
use hone_tool::{Call, Runner, System, Tool};

mod stage;
use stage::tools::skip;

/// Counts by its arguments: so often the one function, so often the other.
const MAIN: &str = "#include <stdlib.h>
int work(int); int other(int);
int main(int c, char **v) { int s = c, i, n = atoi(v[1]), m = atoi(v[2]);
  for (i = 0; i < n; i++) s += work(i);
  for (i = 0; i < m; i++) s += other(i);
  return s == 7; }\n";
const WORK: &str = "__attribute__((noinline)) static int rare(int x) { for (int i = 0; i < x; i++) x ^= x << 3; return x; }
int work(int x) { if (x % 1000 == 999) return rare(x & 7); return x & 3 ? x / 3 : x * 5; }
int other(int x) { switch (x & 7) { case 0: return rare(x & 7); case 1: return x + 5; case 2: return x ^ 77; case 3: return x * 3;
  case 4: return x - 9; case 5: return x / 7; default: return x; } }\n";

/// Other code under the same names.
fn changed() -> String {
    WORK.replace("{ if (x % 1000", "{ for (int i = 0; i < (x & 3); i++) x += rare(i); if (x % 1000")
}

/// A makefile with a compiler of its own choice, which only PATH can change.
const MAKEFILE: &str =
    "src/toy: src/main.o src/work.o\n\tgcc $^ -o $@\nsrc/%.o: src/%.c\n\t$(CC) -O2 -c $< -o $@\n";

const MAKE: &str = "make -j{jobs} src/toy";

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    family: CToolchain,
}

impl Bench {
    fn new(compiler: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let family = match CToolchain::find(&system, Some(compiler)) {
            Ok(family) => family,
            Err(error) => {
                skip(&format!("{error:#}"));
                return None;
            }
        };
        let bench = Self { dir, system, family };
        fs::create_dir_all(bench.path("toy/.git")).unwrap();
        for (file, text) in
            [("Makefile", MAKEFILE), ("src/main.c", MAIN), ("src/work.c", WORK), (".git/large", "x")]
        {
            bench.write(file, text);
        }
        Some(bench)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path("toy").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn builder(&self, command: &str) -> RecipeBuilder<'_> {
        self.builder_of(&[command], "src/toy")
    }

    fn builder_of(&self, commands: &[&str], program: &str) -> RecipeBuilder<'_> {
        let words = |command: &&str| command.split(' ').map(str::to_owned).collect();
        let recipe = Recipe {
            source: self.path("toy"),
            commands: commands.iter().map(words).collect(),
            program: PathBuf::from(program),
            jobs: 2,
        };
        let hone = Path::new(env!("CARGO_BIN_EXE_hone"));
        RecipeBuilder::new(&self.system, recipe, self.family.clone(), hone, &self.path("work")).unwrap()
    }

    /// Runs a counting program with its environment; gives the folder of its counts, with the weight 1.
    fn train(&self, shop: &dyn Builder, built: &Built, raw: &str, work: u32, other: u32) -> (PathBuf, f64) {
        let raw = self.path(raw);
        fs::create_dir_all(&raw).unwrap();
        let mut call = Call::new("train", &built.executable, self.dir.path())
            .args([work.to_string(), other.to_string()])
            .accept_status(1);
        for (name, value) in shop.training_env(&raw) {
            call = call.env(name, value);
        }
        self.system.run(&call).unwrap();
        let files = shop.profile_files(built, &raw);
        assert!(!files.snapshot().unwrap().is_empty(), "{files:?}");
        (raw, 1.0)
    }

    /// Trains with these turns, merges and proves.
    fn profile(&self, shop: &dyn Builder, counting: &Built, raw: &str, work: u32) -> (Merged, Proven) {
        let merged = shop.merge(&[self.train(shop, counting, raw, work, 10)]).unwrap();
        let proven = shop.prove_profile(&merged, counting).unwrap();
        (merged, proven)
    }
}

fn order(variant: &str, guide: Guide) -> BuildRequest {
    BuildRequest::plain(variant).guided(guide).with_relocs()
}

fn shaped_by(merged: &Merged) -> BuildRequest {
    order("shaped", Guide::Use(merged.path.clone()))
}

fn folder_of(built: &Built) -> &Path {
    match &built.how {
        How::Recipe { folder, .. } => folder,
        other => panic!("{other:?}"),
    }
}

fn coverage_of(built: &Built) -> &Coverage {
    built.coverage().unwrap()
}

fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> Refusal {
    let error = result.unwrap_err();
    error.downcast_ref().cloned().unwrap_or_else(|| panic!("no refusal: {error:#}"))
}

fn max_of(proven: &Proven, function: &str) -> u64 {
    let hot = proven.proof.hot_functions.iter();
    hot.filter(|found| found.name == function).map(|found| found.max_count).sum()
}

fn a_make_project_is_built_plain_counting_and_shaped(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    let proof = &proven.proof;
    let level = if bench.family.is_clang() { "IR" } else { "gcov" };
    assert!((3..=4).contains(&proof.functions) && proof.level == level, "{proof:?}");
    assert_eq!(proof.hot_functions[0].max_count, proof.max_count);
    assert!((100_000..=100_001).contains(&proof.max_count), "{proof:?}");
    assert!(proof.total_count > proof.max_count && proven.code_inside[0].profiled, "{proven:?}");
    let ran = format!("{0} of the profile's {0} functions ran in the training", proof.functions);
    assert!(proven.code_inside[0].how.ends_with(&ran), "{proven:?}");
    let runtime = |name: &str| name.contains("libclang_rt") || name.contains("libgcov");
    assert!(
        !proven.code_inside.iter().any(|code| runtime(&code.name)),
        "it is in no other build: {proven:?}"
    );
    assert!(proven.code_inside.iter().any(|code| code.name.contains("crt1.o") && !code.profiled));
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!((applied.discarded_functions, applied.discarded_count), (0, 0), "{applied:?}");
    assert_eq!(applied.messages, [] as [&str; 0]);

    for built in [&plain, &counting, &shaped] {
        let seen = ["src/main.o", "src/work.o"];
        let coverage = coverage_of(built);
        let missed = coverage.others.iter().any(|other| seen.contains(&other.object.as_str()));
        assert!(coverage.shaped_bytes > 0 && !missed, "{coverage:#?}");
        assert!(!folder_of(built).join(".git").exists());
        assert!(built.commands[0].contains("make -j2 src/toy"), "{:?}", built.commands);
        let input = hone_binary::bolt::Input::look(&built.executable).unwrap();
        assert!(input.anatomy.relocations, "{:?}", input.anatomy);
    }
    assert!(counting.facts.text_bytes > plain.facts.text_bytes, "{counting:#?}");
    assert!(!shaped.facts.instrumented);
    let again = shop.build(&order("baseline", Guide::None)).unwrap();
    assert_eq!(again.facts.text_sha256, plain.facts.text_sha256);
    assert!(!bench.path("toy/src/main.o").exists(), "the sources stay as they are");
    let artifact = shop.artifact(&shaped, Some((&proven, &applied)));
    assert_eq!((artifact.profile, artifact.tools), (Some(proof.clone()), bench.family.receipts.clone()));
    let text = serde_json::to_string(&shaped).unwrap();
    let read: Built = serde_json::from_str(&text).unwrap();
    assert_eq!((read.how, read.facts), (shaped.how.clone(), shaped.facts.clone()), "it survives in a file");

    let told = shop.commands(&order("baseline", Guide::None)).unwrap();
    assert!(told.ends_with(&plain.commands), "a dry run tells what a build runs: {told:#?}");
    let says = |words: &str| told.iter().any(|line| line.contains(words));
    assert!(says("-exec cp -a -t ") && says("--emit-relocs"), "{told:#?}");
}

#[test]
fn a_make_project_is_built_plain_counting_and_shaped_by_clang() {
    a_make_project_is_built_plain_counting_and_shaped("clang-22");
}

#[test]
fn a_make_project_is_built_plain_counting_and_shaped_by_gcc() {
    a_make_project_is_built_plain_counting_and_shaped("gcc");
}

fn trainings_are_merged_by_their_weights(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let train = |raw: &str, work, other| bench.train(shop, &counting, raw, work, other).0;
    let (a, b, c) = (train("a", 30_000, 10), train("b", 10, 2_000), train("c", 10, 70_000));
    let prove = |raw: &[(PathBuf, f64)]| {
        let merged = shop.merge(raw).unwrap();
        shop.prove_profile(&merged, &counting).unwrap()
    };
    // clang's counters stand on edges, and only their sum is known beforehand; gcov has one number for each function.
    let value = |raw: &[(&PathBuf, f64)]| {
        let raw: Vec<(PathBuf, f64)> = raw.iter().map(|(path, weight)| ((*path).clone(), *weight)).collect();
        let proven = prove(&raw);
        if bench.family.is_clang() { proven.proof.total_count } else { max_of(&proven, "work") }
    };
    let [of_a, of_b, of_c] = [&a, &b, &c].map(|raw| value(&[(raw, 1.0)]));
    if !bench.family.is_clang() {
        assert_eq!([of_a, of_b, of_c], [30_000, 10, 10]);
    }
    assert_eq!(value(&[(&a, 1.0), (&b, 0.5)]), 2 * of_a + of_b);
    assert_eq!(value(&[(&a, 2.0), (&b, 1.0), (&c, 3.0)]), 2 * of_a + of_b + 3 * of_c);
    assert_eq!(value(&[(&a, 7.0)]), of_a, "one alone is taken as it is");
    assert_eq!(prove(&[(a.clone(), 1.0)]), prove(&[(a.clone(), 1.0)]), "the same counts, the same name");
    assert!(matches!(refusal(shop.merge(&[])), Refusal::NothingToMerge));
    let weights = [(a, 1.0), (c, f64::NAN)];
    assert!(matches!(refusal(shop.merge(&weights)), Refusal::Weight { .. }));
}

#[test]
fn trainings_are_merged_by_their_weights_for_clang() {
    trainings_are_merged_by_their_weights("clang-22");
}

#[test]
fn trainings_are_merged_by_their_weights_for_gcc() {
    trainings_are_merged_by_their_weights("gcc");
}

#[test]
fn profiles_of_clang_that_no_build_may_use_are_refused() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    assert!(matches!(refusal(shop.prove_applied(&plain, &plain, &proven)), Refusal::SameCode { .. }));
    let foreign = refusal(shop.prove_profile(&merged, &plain));
    assert!(matches!(foreign, Refusal::OtherBinary { known: 0, .. }), "{foreign}");
    let raw = bench.path("raw");
    fs::write(raw.join("killed.profraw"), "").unwrap();
    assert!(matches!(refusal(shop.merge(&[(raw, 1.0)])), Refusal::EmptyRawProfile { .. }));

    // Other code under the same name: clang only warns, and the build goes on even where warnings are errors.
    bench.write("src/work.c", &changed());
    bench.write("Makefile", &MAKEFILE.replace("-O2", "-O2 -Werror"));
    let stale = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&stale, &plain, &proven).unwrap();
    assert_eq!(applied.discarded_functions, 1, "{applied:?}");
    assert!(applied.discarded_weight > 0.1 && applied.discarded_weight < 0.9, "{applied:?}");
}

#[test]
fn counts_of_gcc_that_no_build_may_use_are_refused() {
    let Some(bench) = Bench::new("gcc") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    assert_eq!(shop.kind(), TargetKind::Gcc);
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    let recipe = |refusal: Refusal| match refusal {
        Refusal::Recipe(refusal) => refusal,
        other => panic!("{other}"),
    };

    fs::create_dir(bench.path("nothing")).unwrap();
    let nothing = recipe(refusal(shop.merge(&[(bench.path("nothing"), 1.0)])));
    assert!(matches!(nothing, RecipeRefusal::NoCounts { .. }), "{nothing}");
    fs::write(bench.path("nothing/a.gcda"), "").unwrap();
    let killed = refusal(shop.merge(&[(bench.path("nothing"), 1.0)]));
    assert!(matches!(killed, Refusal::EmptyRawProfile { .. }), "{killed}");

    // The same sources built again have other stamps: gcov ends well and counts nothing.
    let other = shop.build(&order("other", Guide::Generate)).unwrap();
    let foreign = recipe(refusal(shop.prove_profile(&merged, &other)));
    assert!(matches!(foreign, RecipeRefusal::OtherCounts { known: 0, files: 2, .. }), "{foreign}");
    let none = recipe(refusal(shop.prove_profile(&merged, &plain)));
    assert!(matches!(none, RecipeRefusal::OtherCounts { known: 0, files: 2, .. }), "{none}");
    let garbage = bench.path("garbage/src");
    fs::create_dir_all(&garbage).unwrap();
    fs::write(garbage.join("work.gcda"), "this is no file of counts").unwrap();
    let garbage = shop.merge(&[(bench.path("garbage"), 1.0)]).unwrap();
    let refused = recipe(refusal(shop.prove_profile(&garbage, &counting)));
    assert!(matches!(refused, RecipeRefusal::OtherCounts { known: 0, files: 1, .. }), "{refused}");

    // gcov-tool ends with 0 on some of these, and on others asks for a report of an error of the compiler.
    let whole = bench.train(shop, &counting, "whole", 1000, 10);
    let cut = bench.train(shop, &counting, "cut", 1000, 10);
    for file in shop.profile_files(&counting, &cut.0).snapshot().unwrap().into_keys() {
        let bytes = fs::read(&file).unwrap();
        for share in [4, 2] {
            fs::write(&file, &bytes[..bytes.len() / share]).unwrap();
            let refused = refusal(shop.merge(&[whole.clone(), cut.clone()]));
            assert!(matches!(refused, Refusal::Unmergeable { .. }), "{refused}");
            assert!(!refused.to_string().contains("Please submit"), "{refused}");
        }
        fs::write(&file, &bytes).unwrap();
    }
    shop.merge(&[whole, cut]).unwrap();

    // The flag alone changes code, too, so only what was found beside the objects tells whether counts were used.
    let unfed = shop.build(&order("unfed", Guide::Use(bench.path("toy")))).unwrap();
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    assert_ne!(shaped.facts.text_sha256, unfed.facts.text_sha256);
    let refused = recipe(refusal(shop.prove_applied(&unfed, &plain, &proven)));
    assert!(matches!(refused, RecipeRefusal::CountsNotFound { .. }), "{refused}");

    bench.write("src/work.c", &changed());
    bench.write("Makefile", &MAKEFILE.replace("-O2", "-O2 -Werror"));
    let stale = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&stale, &plain, &proven).unwrap();
    assert_eq!(applied.discarded_functions, 1, "{applied:?}");
    assert!(applied.discarded_weight > 0.1 && applied.discarded_weight < 0.9, "{applied:?}");

    for guide in [Guide::CsGenerate(merged.path.clone()), Guide::SampleUse(merged.path)] {
        let refused = refusal(shop.build(&order("x", guide)));
        assert!(matches!(refused, Refusal::Unfit { kind: TargetKind::Gcc, .. }), "{refused}");
    }
    assert!(matches!(refusal(shop.build(&BuildRequest::plain("x").seeded(1))), Refusal::Unfit { .. }));
}

/// One object of two is made beside the copy, so that the next variant would not find its counts.
#[test]
fn counts_of_objects_outside_of_the_copy_are_refused() {
    let Some(bench) = Bench::new("gcc") else { return };
    let rule = "../out/work.o: src/work.c\n\tmkdir -p ../out\n\t$(CC) -O2 -c $< -o $@\n";
    bench.write("Makefile", &(MAKEFILE.replace(" src/work.o", " ../out/work.o") + rule));
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let raw = bench.train(shop, &counting, "raw", 1000, 10);
    let refused = refusal(shop.merge(&[raw]));
    let Refusal::Recipe(RecipeRefusal::CountsOutside { file }) = &refused else { panic!("{refused}") };
    assert!(file.ends_with("work/counting/out/work.gcda"), "{refused}");
}

/// The counts lie beside the objects before the build begins, and one rule begins by cleaning up.
#[test]
fn counts_that_the_build_deletes_are_weighed() {
    let Some(bench) = Bench::new("gcc") else { return };
    bench.write(
        "Makefile",
        &format!("{MAKEFILE}src/work.o: src/work.c\n\trm -f src/work.gcda\n\t$(CC) -O2 -c $< -o $@\n"),
    );
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert!(applied.discarded_weight > 0.3 && applied.discarded_weight < 0.9, "{applied:?}");
    assert!(applied.messages[0].starts_with("the build deleted "), "{applied:?}");
    assert!(applied.messages[0].contains("src/work.gcda before gcc looked for it"), "{applied:?}");
}

/// Compiled and linked in one go, in which compilers make up the names of objects; and the build runs what it has made.
fn what_the_build_itself_runs_does_not_count(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    bench.write(
        "Makefile",
        "src/toy: src/main.c src/work.c\n\t$(CC) -O2 $^ -o $@\n\t./src/toy 777 7 || true\n",
    );
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 10_000);
    assert!((10_000..=10_001).contains(&proven.proof.max_count), "without the 777: {proven:?}");
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!((applied.discarded_functions, applied.messages.len()), (0, 0), "{applied:?}");
    let unfed = shop.build(&order("unfed", Guide::Use(bench.path("toy"))));
    // clang stops at a folder in place of a profile.
    if let Ok(unfed) = unfed {
        let refused = refusal(shop.prove_applied(&unfed, &plain, &proven));
        assert!(matches!(refused, Refusal::Recipe(RecipeRefusal::CountsNotFound { .. })), "{refused}");
    } else {
        assert!(bench.family.is_clang());
    }
}

#[test]
fn what_the_build_itself_runs_does_not_count_for_clang() {
    what_the_build_itself_runs_does_not_count("clang-22");
}

#[test]
fn what_the_build_itself_runs_does_not_count_for_gcc() {
    what_the_build_itself_runs_does_not_count("gcc");
}

/// CMake tries compilers out, builds in a folder of its own and names objects after sources with their endings.
fn a_project_of_cmake_is_counted_and_shaped(compiler: &str) {
    if let Err(error) = Tool::new("cmake", "").debian("cmake").locate(&[]) {
        return skip(&error.to_string());
    }
    let Some(bench) = Bench::new(compiler) else { return };
    // Functions that are not found in the profile are told.
    let missing = if bench.family.is_clang() { "-mllvm -pgo-warn-missing-function" } else { "" };
    let lists = format!(
        "cmake_minimum_required(VERSION 3.13)\nproject(toy C)\nset(CMAKE_C_FLAGS \"{missing}\")\n\
         include_directories(${{CMAKE_SOURCE_DIR}}/include)\nadd_library(work STATIC src/work.c)\n\
         add_executable(toy src/main.c)\ntarget_link_libraries(toy work)\n"
    );
    bench.write("CMakeLists.txt", &lists);
    // A function that stands in a header.
    let header = "__attribute__((noinline)) static int rare(int x) { for (int i = 0; i < x; i++) x ^= x << 3; return x; }\n";
    bench.write("include/rare.h", header);
    let (_, rest) = WORK.split_once('\n').unwrap();
    bench.write("src/work.c", &format!("#include <rare.h>\n{rest}"));
    let commands =
        ["cmake -S . -B out -DCMAKE_BUILD_TYPE=Release", "cmake --build out --parallel {jobs} --target toy"];
    let builder = bench.builder_of(&commands, "out/toy");
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    assert!((100_000..=100_001).contains(&proven.proof.max_count), "{proven:?}");
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!((applied.discarded_functions, applied.messages.len()), (0, 0), "{applied:?}");
    assert_eq!(applied.missing_functions, 0, "{applied:?}");
    assert_eq!((proven.proof.functions, max_of(&proven, "rare") > 0), (4, true), "{proven:?}");
    assert_eq!(shaped.commands.len(), 2);
    let own = |object: &str| object.contains("main.c") || object.contains("work.c");
    assert!(!coverage_of(&shaped).others.iter().any(|other| own(&other.object)), "{shaped:?}");
}

#[test]
fn a_project_of_cmake_is_counted_and_shaped_by_clang() {
    a_project_of_cmake_is_counted_and_shaped("clang-22");
}

#[test]
fn a_project_of_cmake_is_counted_and_shaped_by_gcc() {
    a_project_of_cmake_is_counted_and_shaped("gcc");
}

/// Builds outside of the copy of the sources, where sources are named by whole paths: a function that its file keeps to itself is
/// another one in each variant.
#[test]
fn counts_that_are_lost_by_the_path_of_their_source_are_weighed() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let script = "set -e; here=$PWD; mkdir -p FOLDER; cd FOLDER
for file in main work; do $CC -O2 -c $here/src/$file.c; done; $CC main.o work.o -o $here/src/toy\n";
    // Most of the counts are of the function that is only known by its file.
    bench.write(
        "src/work.c",
        &WORK.replace("x % 1000 == 999) return rare(x & 7)", "x % 2) return rare(x & 7)"),
    );
    let lost = |folder: &str| {
        bench.write("build.sh", &script.replace("FOLDER", folder));
        let builder = bench.builder("sh build.sh");
        let shop: &dyn Builder = &builder;
        let plain = shop.build(&order("baseline", Guide::None)).unwrap();
        let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
        let raw = format!("raw-{}", folder.len());
        let (merged, proven) = bench.profile(shop, &counting, &raw, 100_000);
        let shaped = shop.build(&shaped_by(&merged)).unwrap();
        shop.prove_applied(&shaped, &plain, &proven).unwrap()
    };
    let beside = lost("../out");
    assert_eq!((beside.discarded_functions, beside.missing_functions), (0, 0), "{beside:?}");
    let elsewhere = lost(bench.path("elsewhere").to_str().unwrap());
    assert_eq!(elsewhere.discarded_functions, 1, "{elsewhere:?}");
    assert!(elsewhere.discarded_weight > 0.3, "{elsewhere:?}");
    assert!(elsewhere.messages[0].contains("work.c;rare: its counts have this name"), "{elsewhere:?}");
}

/// Counts after inlining: a second round, merged with the first.
#[test]
fn a_second_round_of_counts_is_proven_by_itself() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (first, _) = bench.profile(shop, &counting, "raw", 100_000);
    let second = shop.build(&order("cs-counting", Guide::CsGenerate(first.path.clone()))).unwrap();
    assert!(second.facts.instrumented);
    let raw = bench.train(shop, &second, "cs-raw", 100_000, 10);

    let merged = shop.merge(&[(first.path.clone(), 1.0), raw.clone()]).unwrap();
    let proven = shop.prove_profile(&merged, &second).unwrap();
    assert_eq!((proven.proof.level.as_str(), proven.proof.raw_files), ("CSIR", 2), "{proven:?}");
    assert!(proven.proof.functions > 3 && proven.proof.max_count >= 100_000, "{proven:?}");
    let shaped = shop.build(&order("csir", Guide::Use(merged.path))).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!((applied.discarded_functions, shaped.facts.instrumented), (0, false), "{applied:?}");

    // The program of the first round trained once more: everything merges and ends well.
    let again = bench.train(shop, &counting, "again", 100_000, 10);
    let mistaken = shop.merge(&[(first.path, 1.0), again]).unwrap();
    let refused = refusal(shop.prove_profile(&mistaken, &second));
    assert!(matches!(refused, Refusal::NotContextSensitive { .. }), "{refused}");
}

/// Samples in the text form that converters write.
#[test]
fn samples_shape_a_program_that_has_their_functions() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let sampled = |name: &str, text: &str| {
        let file = bench.path(name);
        fs::write(&file, text).unwrap();
        shop.merge(&[(file, 1.0)]).unwrap()
    };
    let text = "work:90000:9000\n 0: 9000\nmain:30000:1\n 2: 9000 work:9000\nother:10:5\n 0: 5\n";
    let merged = sampled("good.txt", text);
    assert!(merged.command.contains("merge --sample"), "{}", merged.command);
    let proven = shop.prove_profile(&merged, &plain).unwrap();
    assert_eq!((proven.proof.level.as_str(), proven.proof.functions), ("samples", 3));
    assert_eq!((proven.proof.total_count, max_of(&proven, "work")), (120_010, 90_000));
    let shaped = shop.build(&order("sampled", Guide::SampleUse(merged.path))).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!(applied.discarded_functions, 0, "{applied:?}");

    let foreign = sampled("foreign.txt", "elsewhere:90000:9000\n 0: 9000\nmain:30:1\n 2: 9\n");
    let refused = refusal(shop.prove_profile(&foreign, &plain));
    assert!(matches!(refused, Refusal::OtherBinary { known: 1, functions: 2, .. }), "{refused}");
}

/// Branches as a PMU would have recorded them in a loop of `main` that calls `work`, in perf's words.
fn recorded_branches(bench: &Bench, program: &Path) -> String {
    const BASE: u64 = 0x5555_5555_4000;
    let objdump = Call::new("objdump", bench.family.cc.with_file_name("llvm-objdump"), bench.dir.path());
    let objdump = objdump.args(["-d", "--no-show-raw-insn", "--disassemble-symbols=main,work"]).arg(program);
    let listed = bench.system.run(&objdump).unwrap().stdout_text().unwrap();
    let instructions = |text: &'_ str| -> Vec<(u64, String)> {
        let pairs = text.lines().filter_map(|line| line.split_once(':'));
        pairs
            .filter_map(|(at, what)| Some((u64::from_str_radix(at.trim(), 16).ok()?, what.trim().to_owned())))
            .collect()
    };
    let (main, work) = listed.split_once("<work>:").unwrap();
    let (main, work) = (instructions(main), instructions(work));
    let to = |what: &str| {
        let target = what.split("0x").nth(1).unwrap().split(' ').next().unwrap();
        u64::from_str_radix(target, 16).unwrap()
    };
    let call = main.iter().position(|(_, what)| what.ends_with("<work>")).unwrap();
    let back = main[call..].iter().find(|(_, what)| what.starts_with("jne")).unwrap();
    let apart = work.iter().find(|(_, what)| what.starts_with("jne")).unwrap();
    let ret = work.iter().find(|(_, what)| what.starts_with("ret")).unwrap();
    let turn = [
        (ret.0, main[call + 1].0),
        (apart.0, to(&apart.1)),
        (main[call].0, work[0].0),
        (back.0, to(&back.1)),
    ];
    let told = turn.map(|(from, to)| format!("{:#x}/{:#x}/P/-/-/0", BASE + from, BASE + to)).join("  ");
    let page = (main[0].0 & !0xfff) + BASE;
    let sample = format!(" {:x} {}\n", BASE + main[call + 1].0, [told.as_str(); 8].join("  "));
    let mapped =
        format!("PERF_RECORD_MMAP2 100/100: [{page:#x}(0x1000) @ 0 08:01 1 1]: r-xp {}\n", program.display());
    mapped + &sample.repeat(2000)
}

/// This machine may have no branch records, so they are written down by hand; the converter and the compiler are the real ones.
#[test]
fn branch_records_shape_a_program_that_can_be_traced_back_to_its_lines() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let traceable = shop.build(&order("traceable", Guide::Traceable)).unwrap();
    assert!(!traceable.facts.instrumented);
    let (script, file) = (bench.path("script.txt"), bench.path("branches.prof"));
    fs::write(&script, recorded_branches(&bench, &traceable.executable)).unwrap();
    let converts =
        |data: &Path| shop.converter().unwrap().convert(&bench.system, data, &traceable.executable, &file);
    let command = converts(&script).unwrap();
    assert!(command.contains("llvm-profgen --binary="), "{command}");
    let merged = shop.merge(&[(file.clone(), 1.0)]).unwrap();
    let proven = shop.prove_profile(&merged, &traceable).unwrap();
    let hot: Vec<&str> = proven.proof.hot_functions.iter().map(|function| function.name.as_str()).collect();
    assert!(hot.contains(&"work") && hot.contains(&"main") && !hot.contains(&"other"), "{hot:?}");
    let shaped = shop.build(&order("pgo", Guide::SampleUse(merged.path))).unwrap();
    let applied = shop.prove_applied(&shaped, &plain, &proven).unwrap();
    assert_eq!(applied.discarded_functions, 0, "{applied:?}");

    let Ok(perf) = Tool::new("perf", "").locate(&[]) else { return skip("there is no perf") };
    let data = bench.path("perf.data");
    let record =
        Call::new("record", perf.path(), bench.dir.path()).args(["record", "-e", "cpu-clock:u", "-o"]);
    let record = record.arg(&data).arg(&traceable.executable).args(["20000000", "10"]).accept_status(1);
    bench.system.run(&record.produces(&data)).unwrap();
    let refused = refusal(converts(&data));
    assert!(
        refused.to_string().starts_with("this machine has no branch records: llvm-profgen reports"),
        "{refused}"
    );
}

/// Functions change their places, and nothing else does.
#[test]
fn a_seed_places_functions_by_luck_that_can_be_repeated() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let seeded = |seed| shop.build(&BuildRequest::plain("seeded").seeded(seed)).unwrap().facts;
    let builds = [1, 2, 3, 4, 5, 6].map(seeded);
    let places: std::collections::BTreeSet<&str> =
        builds.iter().map(|facts| facts.text_sha256.as_str()).collect();
    assert!(places.len() > 2, "{builds:?}");
    assert_eq!(seeded(1), builds[0]);
    let without = BuildRequest::plain("no-jump-tables").without_jump_tables();
    let plain = shop.build(&BuildRequest::plain("baseline")).unwrap();
    assert_ne!(shop.build(&without).unwrap().facts.text_sha256, plain.facts.text_sha256);
}

/// A profile orders what is hot at any seed. Padding moves it all the same, and where the linker has none that is seen.
fn what_is_hot_in_three_builds(compiler: &str) -> Option<Moved> {
    let bench = Bench::new(compiler)?;
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    let told = |order: &BuildRequest| shop.commands(order).unwrap().join(" ").contains("-ffunction-sections");
    let first = shaped_by(&merged).apart();
    assert_eq!([&shaped_by(&merged), &first, &first.clone().seeded(2)].map(told), [false, true, true]);
    let further = |seed| BuildRequest { variant: format!("shaped~{seed}"), ..first.clone().seeded(seed) };
    let builds = [first.clone(), further(2), further(3)].map(|order| shop.build(&order).unwrap().executable);
    let padded = shop.build(&further(2)).unwrap();
    let plain = shop.build(&BuildRequest { variant: "unpadded".to_owned(), ..first.clone() }).unwrap();
    let text = [&padded, &plain].map(|built| coverage_of(built).text_bytes);
    assert_eq!(text[0], text[1], "padding is no code");
    let hot = proven.proof.hot_functions.into_iter().map(|function| function.name).collect();
    let same = functions_moved(&[&builds[0], &builds[0]], &hot).unwrap();
    assert!(same.known >= 2 && same.moved == 0, "{same:?}");
    Some(functions_moved(&builds.each_ref().map(|path| path.as_path()), &hot).unwrap())
}

#[test]
fn a_seed_moves_what_is_hot_by_padding() {
    let Some(moved) = what_is_hot_in_three_builds("clang-22") else { return };
    assert!(moved.known >= 2 && moved.moved == moved.known, "{moved:?}");
}

#[test]
fn a_seed_moves_nothing_hot_without_padding() {
    let Some(moved) = what_is_hot_in_three_builds("clang-19") else { return };
    assert!(moved.known >= 2 && moved.moved * 2 < moved.known, "{moved:?}");
}

#[test]
fn a_build_that_goes_around_the_stand_ins_is_refused() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let recipe =
        |command: &str| match refusal(bench.builder(command).build(&order("around", Guide::Generate))) {
            Refusal::Recipe(refusal) => refusal,
            other => panic!("{other}"),
        };
    let clang = bench.family.cc.display();
    let around = recipe(&format!("{clang} src/main.c src/work.c -o src/toy"));
    assert!(matches!(around, RecipeRefusal::NotSeen { .. }), "{around}");
    let nothing = recipe("true");
    assert!(matches!(nothing, RecipeRefusal::NoProgram { .. }), "{nothing}");

    // Objects that were there before are linked again, and none was compiled under the flags.
    let by_hand = Call::new("by-hand", &bench.family.cc, bench.path("toy/src"));
    bench.system.run(&by_hand.args(["-O2", "-c", "main.c", "work.c"])).unwrap();
    let stale = recipe("make src/toy");
    assert!(matches!(stale, RecipeRefusal::NothingShaped { .. }), "{stale}");

    // The larger part of them.
    fs::remove_file(bench.path("toy/src/main.o")).unwrap();
    let large: String = (0..100)
        .map(|at| format!("int f{at}(int x) {{ return x / {} + x % {}; }}\n", at + 3, at + 7))
        .collect();
    bench.write("src/work.c", &format!("{WORK}{large}"));
    let by_hand = Call::new("by-hand", &bench.family.cc, bench.path("toy/src"));
    bench.system.run(&by_hand.args(["-O2", "-c", "work.c"])).unwrap();
    let mostly = recipe("make src/toy");
    assert!(matches!(mostly, RecipeRefusal::MostlyThere { .. }), "{mostly}");
    assert!(mostly.to_string().contains("such as src/work.o"), "{mostly}");

    // As after a `make` of one's own.
    bench.system.run(&Call::new("by-hand", "make", bench.path("toy"))).unwrap();
    let there = recipe("make src/toy");
    assert!(matches!(there, RecipeRefusal::WasThere { .. }), "{there}");

    // As libtool writes one.
    bench.write("wrapper", "#!/bin/sh\nexec .libs/toy\n");
    let script = recipe("cp wrapper src/toy");
    assert!(matches!(script, RecipeRefusal::Script { .. }), "{script}");
}

#[test]
fn what_a_build_misses_in_a_copy_is_told() {
    if let Err(error) = Tool::new("git", "").debian("git").locate(&[]) {
        return skip(&error.to_string());
    }
    let Some(bench) = Bench::new("gcc") else { return };
    let fails = |command: &str| {
        let built = bench.builder(command).build(&order("baseline", Guide::None));
        format!("{:#}", built.unwrap_err())
    };
    let history = fails("git describe");
    assert!(history.contains("the history (.git) is not copied\n  next:"), "{history}");
    let own = fails("false");
    assert!(!own.contains("in a copy of the sources"), "{own}");
    fs::create_dir(bench.path("common")).unwrap();
    std::os::unix::fs::symlink("../common", bench.path("toy/common")).unwrap();
    let link = fails("false");
    assert!(link.contains("source/common is a dangling link"), "{link}");
}

/// Makefiles part the name of their compiler at its blanks.
#[test]
fn a_work_folder_with_a_blank_is_refused_before_the_first_build() {
    let Some(bench) = Bench::new("gcc") else { return };
    let recipe = Recipe { source: bench.path("toy"), commands: vec![], program: "src/toy".into(), jobs: 1 };
    let hone = Path::new(env!("CARGO_BIN_EXE_hone"));
    let made = RecipeBuilder::new(&bench.system, recipe, bench.family.clone(), hone, &bench.path("my runs"));
    let refused = refusal(made.map(|_| ()));
    assert!(matches!(refused, Refusal::Recipe(RecipeRefusal::Blank { .. })), "{refused}");
}

/// What GNU ld takes and lld does not: a version script that names more than there is, and a program without symbols beside
/// relocations.
#[test]
fn links_that_only_gnu_ld_takes_are_made_by_lld() {
    let Some(bench) = Bench::new("clang-22") else { return };
    bench.write("v.map", "V { global: main; nothere; local: *; };\n");
    let strip = "-Wl,--version-script=v.map -Wl,-O1,--strip-all -s -o $@";
    bench.write("Makefile", &MAKEFILE.replacen("-o $@", strip, 1));
    let built = bench.builder(MAKE).build(&order("relocs", Guide::None)).unwrap();
    let input = hone_binary::bolt::Input::look(&built.executable).unwrap();
    assert!(input.anatomy.relocations && input.anatomy.symbols, "{:?}", input.anatomy);
}

/// The build asks for a map itself, by one name for all of its links.
fn a_map_is_of_its_own_link(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let all = MAKEFILE.replacen(
        "-o $@",
        "-Wl,-Map=out.map -o $@\n\t$(CC) -O2 src/tool.c -Wl,-Map=out.map -o src/tool",
        1,
    );
    bench.write("src/tool.c", "int main(void) { return 0; }\n");
    bench.write("Makefile", &all);
    let built = bench.builder(MAKE).build(&order("baseline", Guide::None)).unwrap();
    let coverage = coverage_of(&built);
    let from_work: u64 = coverage.shaped_bytes;
    let text = fs::read_to_string(folder_of(&built).join("out.map")).unwrap();
    assert!(from_work > 200 && !text.contains("src/work.o"), "{coverage:#?}");
    assert!(text.contains("tool"), "the build has the map that it asked for: {text}");
}

#[test]
fn a_map_is_of_its_own_link_with_clang_and_lld() {
    a_map_is_of_its_own_link("clang-22");
}

#[test]
fn a_map_is_of_its_own_link_with_gcc_and_ld() {
    a_map_is_of_its_own_link("gcc");
}

/// All of the code that counts is in a library, which the program finds by its path.
#[test]
fn counts_of_a_shared_library_of_the_build_are_taken() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let library = "src/libwork.so: src/work.c\n\t$(CC) -O2 -fPIC -shared -Wl,-soname,libwork.so $< -o $@\n";
    let program = "src/toy: src/main.o src/libwork.so\n\tgcc $^ -Wl,-rpath,$(CURDIR)/src -o $@\n";
    let main = "src/main.o: src/main.c\n\t$(CC) -O2 -c $< -o $@\n";
    bench.write("Makefile", &[program, library, main].concat());
    // So that the program has one function, and the library many.
    let more: String = (0..40).map(|at| format!("int f{at}(int x) {{ return x + {at}; }}\n")).collect();
    bench.write("src/work.c", &format!("{WORK}{more}"));
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    assert!(proven.proof.functions > 40 && max_of(&proven, "work") >= 50_000, "{proven:?}");
    let shaped = shop.build(&shaped_by(&merged)).unwrap();
    shop.prove_applied(&shaped, &plain, &proven).unwrap();
}

/// Builds in which nobody hears what the compiler says of a profile that does not fit.
fn a_compiler_that_is_silenced_is_heard(compiler: &str, off: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let builder = bench.builder(MAKE);
    let shop: &dyn Builder = &builder;
    let plain = shop.build(&order("baseline", Guide::None)).unwrap();
    let counting = shop.build(&order("counting", Guide::Generate)).unwrap();
    let (merged, proven) = bench.profile(shop, &counting, "raw", 100_000);
    bench.write("src/work.c", &changed());
    bench.write("off.rsp", "-DX -w\n");
    if bench.family.is_clang() {
        for off in ["-Xclang -w", "-Xclang -Wno-backend-plugin", "-mllvm -no-pgo-warn-mismatch"] {
            bench.write("Makefile", &MAKEFILE.replace("-O2", &format!("-O2 {off}")));
            let stale = shop.build(&shaped_by(&merged)).unwrap();
            let applied = shop.prove_applied(&stale, &plain, &proven).unwrap();
            assert_eq!(applied.discarded_functions, 1, "{off}: {applied:?}");
        }
    }
    for (from, to) in [
        ("-O2", "-O2 -w".to_owned()),
        ("-O2", format!("-O2 {off}")),
        ("-O2", "-O2 @off.rsp".to_owned()),
        // As ninja and meson do.
        ("-c $< -o $@", "-c $< -o $@ 2>&1".to_owned()),
        // As libtool does.
        ("-c $< -o $@", "-c $< -o $@ >/dev/null 2>&1".to_owned()),
    ] {
        bench.write("Makefile", &MAKEFILE.replace(from, &to));
        let stale = shop.build(&shaped_by(&merged)).unwrap();
        let applied = shop.prove_applied(&stale, &plain, &proven).unwrap();
        assert_eq!(applied.discarded_functions, 1, "{to}: {applied:?}");
        assert!(applied.discarded_weight > 0.1, "{to}: {applied:?}");
    }
}

#[test]
fn a_compiler_that_is_silenced_is_heard_for_clang() {
    a_compiler_that_is_silenced_is_heard("clang-22", "-Wno-backend-plugin");
}

#[test]
fn a_compiler_that_is_silenced_is_heard_for_gcc() {
    a_compiler_that_is_silenced_is_heard("gcc", "-Wno-coverage-mismatch");
}
