//! Projects of CMake, Meson and make, each from its table in the experiment to a program shaped by a profile, by the real build
//! systems and compilers that Hone stands in for.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::c_toolchain::CToolchain;
use hone_binary::recipe::sugar::{self, BUILD_FOLDER, CMake, Make, Meson};
use hone_binary::recipe::{Recipe, RecipeBuilder, RecipeRefusal};
use hone_binary::{BuildRequest, Builder, Built, Guide, Refusal};
use hone_tool::{Call, Runner, System, Tool};

mod stage;
use stage::tools::skip;

const MAIN: &str = "#include <stdio.h>
int work(int);
#ifdef __OPTIMIZE__
#define HOW \"optimised\"
#else
#define HOW \"as written\"
#endif
int main(int c, char **v) { int s = c; for (int i = 0; i < 100000; i++) s += work(i); puts(HOW); return s == 7; }
";
/// Local to its file, so that profiles know it by the file's path.
const WORK: &str =
    "static __attribute__((noinline)) int rare(int x) { for (int i = 0; i < x; i++) x ^= x << 3; return x; }
int work(int x) { if (x % 1000 == 999) return rare(x & 7); return x & 3 ? x / 3 : x * 5; }
";
/// The launcher stands for a cache: an object that comes out of it was not compiled under the flags.
const CMAKE: &str = "cmake_minimum_required(VERSION 3.10)
set(CMAKE_C_COMPILER_LAUNCHER \"${CMAKE_SOURCE_DIR}/cache\" CACHE STRING \"\")
project(toy C)
add_library(work STATIC src/work.c)
add_executable(toy src/main.c)
target_link_libraries(toy work)
add_executable(broken src/broken.c)
";
const MESON: &str = "project('toy', 'c')
work = static_library('work', 'src/work.c')
executable('toy', 'src/main.c', link_with: work)
executable('broken', 'src/broken.c', build_by_default: false)
";
const CONFIGURE: &str = "#!/bin/sh
echo 'int main(void) { return 0; }' > conftest.c
$CC conftest.c -o conftest && ./conftest || exit 1
rm -f conftest*
echo \"CC = $CC\" > config.mk
echo \"CFLAGS = -O2 $1\" >> config.mk
";
const MAKEFILE: &str = "include config.mk
toy: src/main.o libwork.a
\t$(CC) $(CFLAGS) -o $@ $^
libwork.a: src/work.o
\t$(AR) rcs $@ $^
broken: src/broken.o
";

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    family: CToolchain,
}

impl Bench {
    fn new(compiler: &str, tools: &[&str]) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let missing = tools.iter().find(|tool| Tool::new(tool, "").locate(&[]).is_err());
        if let Some(tool) = missing {
            skip(&format!("there is no {tool}"));
            return None;
        }
        let family = CToolchain::find(&system, Some(compiler));
        let family = family.map_err(|error| skip(&format!("{error:#}"))).ok()?;
        let files = [
            ("src/main.c", MAIN),
            ("src/work.c", WORK),
            ("src/broken.c", "#error only what is asked for is built\n"),
            ("CMakeLists.txt", CMAKE),
            ("cache", "#!/bin/sh\nexit 1\n"),
            ("meson.build", MESON),
            ("configure", CONFIGURE),
            ("Makefile", MAKEFILE),
            // A build folder of the project's people that came along in the copy, of another source folder.
            ("build/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n"),
        ];
        for (path, text) in files {
            let path = dir.path().join("toy").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        Some(Self { dir, system, family })
    }

    fn builder(&self, commands: &[Vec<String>], program: &str) -> RecipeBuilder<'_> {
        let recipe = Recipe {
            source: self.dir.path().join("toy"),
            commands: commands.to_vec(),
            program: PathBuf::from(program),
            jobs: 2,
        };
        let hone = Path::new(env!("CARGO_BIN_EXE_hone"));
        RecipeBuilder::new(&self.system, recipe, self.family.clone(), hone, &self.dir.path().join("work"))
            .unwrap()
    }

    /// Flags that make the compiler say which functions have no counts.
    fn missing(&self) -> &'static str {
        if self.family.is_clang() { "-mllvm -pgo-warn-missing-function" } else { "-Wmissing-profile" }
    }

    fn raw(&self) -> PathBuf {
        self.dir.path().join("raw")
    }

    /// Runs the program, and answers what it says of itself.
    fn run(&self, builder: &RecipeBuilder<'_>, built: &Built) -> String {
        let call = Call::new("train", &built.executable, self.dir.path()).accept_status(1);
        let env = builder.training_env(&self.raw());
        let call = env.into_iter().fold(call, |call, (name, value)| call.env(name, value));
        self.system.run(&call).unwrap().stdout_text().unwrap().trim().to_owned()
    }
}

fn order(variant: &str, guide: Guide) -> BuildRequest {
    BuildRequest::plain(variant).guided(guide).with_relocs()
}

/// Plain, counting, shaped; the objects of the program and of its library saw the flags in each.
fn is_built_in_all_variants(bench: &Bench, commands: &[Vec<String>], program: &str) {
    let builder = bench.builder(commands, program);
    fs::create_dir_all(bench.raw()).unwrap();
    let plain = builder.build(&order("baseline", Guide::None)).unwrap();
    assert_eq!(bench.run(&builder, &plain), "optimised", "{:?}", plain.commands);
    let counting = builder.build(&order("counting", Guide::Generate)).unwrap();
    assert_eq!(bench.run(&builder, &counting), "optimised");
    let merged = builder.merge(&[(bench.raw(), 1.0)]).unwrap();
    let proven = builder.prove_profile(&merged, &counting).unwrap();
    assert_eq!(proven.proof.functions, 3, "{proven:?}");
    let shaped = builder.build(&order("shaped", Guide::Use(merged.path.clone()))).unwrap();
    // Both compilers were told to say which functions have no counts, or counts that do not fit.
    let applied = builder.prove_applied(&shaped, &plain, &proven).unwrap();
    let lost = (applied.discarded_functions, applied.missing_functions);
    assert_eq!(lost, (0, 0), "{applied:?}");
    for built in [&plain, &counting, &shaped] {
        let ours = |object: &str| object.contains("main") || object.contains("work");
        let coverage = built.coverage().unwrap();
        let missed: Vec<_> = coverage.others.iter().filter(|other| ours(&other.object)).collect();
        assert!(coverage.shaped_bytes > 0 && missed.is_empty(), "{coverage:#?}");
    }
    assert_ne!(shaped.facts.text_sha256, plain.facts.text_sha256);
    assert_eq!(counting.facts.instrumented, bench.family.is_clang());
    assert!(!bench.dir.path().join("toy").join(program).exists(), "the sources stay as they are");
}

#[test]
fn a_project_of_cmake_is_built_out_of_its_sources_and_without_its_cache() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bench) = Bench::new(compiler, &["cmake"]) else { continue };
        let flags = format!("-DCMAKE_C_FLAGS={}", bench.missing());
        let project = CMake { arguments: vec![flags], target: Some("toy".into()) };
        is_built_in_all_variants(&bench, &sugar::cmake(&project), &format!("{BUILD_FOLDER}/toy"));
        let own = CMake { arguments: vec!["-DCMAKE_BUILD_TYPE=Debug".into()], target: Some("toy".into()) };
        let builder = bench.builder(&sugar::cmake(&own), &format!("{BUILD_FOLDER}/toy"));
        let built = builder.build(&order("debug", Guide::None)).unwrap();
        assert_eq!(bench.run(&builder, &built), "as written", "the user's own arguments win");
    }
}

#[test]
fn a_project_of_meson_is_built_out_of_its_sources() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bench) = Bench::new(compiler, &["meson", "ninja"]) else { continue };
        let flags = format!("-Dc_args={}", bench.missing());
        let project = Meson { arguments: vec![flags], target: Some("toy".into()) };
        is_built_in_all_variants(&bench, &sugar::meson(&project), &format!("{BUILD_FOLDER}/toy"));
        let own = Meson { arguments: vec!["--buildtype=debug".into()], target: Some("toy".into()) };
        let builder = bench.builder(&sugar::meson(&own), &format!("{BUILD_FOLDER}/toy"));
        let built = builder.build(&order("debug", Guide::None)).unwrap();
        assert_eq!(bench.run(&builder, &built), "as written", "the user's own arguments win");
    }
}

/// Meson asks the compilers for colours in the middle of what they say, and a template has other names in gcc's mouth than in
/// gcov's.
#[test]
fn a_stale_profile_is_heard_through_the_colours_of_meson() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bench) = Bench::new(compiler, &["meson", "ninja"]) else { continue };
        let project = "project('toy', 'cpp')\nexecutable('toy', 'src/main.cc', cpp_args: '-fdiagnostics-color=always')\n";
        let source = "#include <stdlib.h>
template<int N> __attribute__((noinline)) int hot(int x) { /* */ return x & 3 ? x / N : x * 5; }
int main(int c, char **v) { int s = c; for (int i = 0; i < 100000; i++) s += hot<3>(i); return s == 7; }\n";
        let write =
            |path: &str, text: &str| fs::write(bench.dir.path().join("toy").join(path), text).unwrap();
        write("meson.build", project);
        write("src/main.cc", source);
        let commands = sugar::meson(&Meson { arguments: vec![], target: Some("toy".into()) });
        let builder = bench.builder(&commands, &format!("{BUILD_FOLDER}/toy"));
        fs::create_dir_all(bench.raw()).unwrap();
        let plain = builder.build(&order("baseline", Guide::None)).unwrap();
        let counting = builder.build(&order("counting", Guide::Generate)).unwrap();
        bench.run(&builder, &counting);
        let merged = builder.merge(&[(bench.raw(), 1.0)]).unwrap();
        let proven = builder.prove_profile(&merged, &counting).unwrap();
        write("src/main.cc", &source.replace("/* */", "for (int i = x & 1; i > 0; i--) x ^= 1;"));
        let stale = builder.build(&order("shaped", Guide::Use(merged.path))).unwrap();
        let applied = builder.prove_applied(&stale, &plain, &proven).unwrap();
        assert_eq!(applied.discarded_functions, 1, "{compiler}: {applied:?}");
        assert!(applied.discarded_weight > 0.1, "{compiler}: {applied:?}");
    }
}

/// The program is measured as a copy in another folder. There it would find no library, or the system's of that name.
#[test]
fn a_library_that_the_program_would_not_find_is_refused_or_linked_into_it() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bench) = Bench::new(compiler, &["meson", "ninja", "cmake"]) else { continue };
        let write =
            |path: &str, text: &str| fs::write(bench.dir.path().join("toy").join(path), text).unwrap();
        write("meson.build", &MESON.replace("static_library", "library"));
        write("CMakeLists.txt", &CMAKE.replace("STATIC", "SHARED"));
        let program = format!("{BUILD_FOLDER}/toy");
        let build = |commands: Vec<Vec<String>>| {
            bench.builder(&commands, &program).build(&order("baseline", Guide::None))
        };
        let meson = |arguments: &[&str]| {
            let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
            build(sugar::meson(&Meson { arguments, target: Some("toy".into()) }))
        };
        let cmake = |argument: &str| {
            build(sugar::cmake(&CMake { arguments: vec![argument.into()], target: Some("toy".into()) }))
        };
        let left_behind = |built: anyhow::Result<Built>| match built.unwrap_err().downcast_ref() {
            Some(Refusal::Recipe(RecipeRefusal::LibraryLeftBehind { library, .. })) => {
                assert!(library.ends_with(format!("{BUILD_FOLDER}/libwork.so")), "{library:?}");
            }
            other => panic!("{other:?}"),
        };
        left_behind(meson(&["-Ddefault_library=shared"]));
        left_behind(cmake("-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON"));
        meson(&[]).unwrap();
        cmake("-DX=").unwrap();
    }
}

#[test]
fn a_project_of_make_is_configured_and_made() {
    for compiler in ["clang-22", "gcc"] {
        let Some(bench) = Bench::new(compiler, &["make"]) else { continue };
        let project = Make {
            configure: Some(vec!["./configure".into(), bench.missing().into()]),
            arguments: vec!["V=1".into()],
            target: Some("toy".into()),
        };
        is_built_in_all_variants(&bench, &sugar::make(&project), "toy");
    }
}
