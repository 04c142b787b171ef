//! A program of a make project, built plain, counting and with its profile, by real compilers that Hone stands in for.

use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::Refusal;
use hone_binary::family::Family;
use hone_binary::recipe::{Guide, Order, Recipe, RecipeBuilt, RecipeRefusal, RecipeWorkshop};
use hone_tool::{Call, Runner, System};

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    family: Family,
}

impl Bench {
    fn new(compiler: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let family = match Family::find(&system, Some(compiler)) {
            Ok(family) => family,
            Err(error) => {
                skip(&format!("{error:#}"));
                return None;
            }
        };
        let source = dir.path().join("toy");
        fs::create_dir_all(source.join("src")).unwrap();
        fs::create_dir_all(source.join(".git")).unwrap();
        fs::write(source.join(".git/large"), "x").unwrap();
        let main = "int work(int);\nint main(int c, char **v) { int s = c; for (int i = 0; i < 100000; i++) s += work(i); return s == 7; }\n";
        let work = "int rare(int x) { for (int i = 0; i < x; i++) x ^= x << 3; return x; }\n\
            int work(int x) { if (x % 1000 == 999) return rare(x & 7); return x & 3 ? x / 3 : x * 5; }\n";
        fs::write(source.join("src/main.c"), main).unwrap();
        fs::write(source.join("src/work.c"), work).unwrap();
        // A makefile with a compiler of its own choice, which only PATH can change.
        let makefile =
            "src/toy: src/main.o src/work.o\n\tgcc $^ -o $@\nsrc/%.o: src/%.c\n\t$(CC) -O2 -c $< -o $@\n";
        fs::write(source.join("Makefile"), makefile).unwrap();
        Some(Self { dir, system, family })
    }

    fn workshop(&self, command: &str) -> RecipeWorkshop<'_> {
        let recipe = Recipe {
            source: self.dir.path().join("toy"),
            commands: vec![command.split(' ').map(str::to_owned).collect()],
            program: PathBuf::from("src/toy"),
            jobs: 2,
        };
        let hone = Path::new(env!("CARGO_BIN_EXE_hone"));
        RecipeWorkshop::new(&self.system, recipe, self.family.clone(), hone, &self.dir.path().join("work"))
            .unwrap()
    }

    fn train(&self, built: &RecipeBuilt) -> PathBuf {
        let raw = self.dir.path().join("raw");
        fs::create_dir_all(&raw).unwrap();
        let call = Call::new("train", &built.executable, self.dir.path());
        let call = call.env("LLVM_PROFILE_FILE", raw.join("toy.profraw")).accept_status(1);
        self.system.run(&call).unwrap();
        raw
    }
}

fn order(variant: &str, guide: Guide) -> Order {
    Order { variant: variant.to_owned(), guide, relocs: true, jump_tables: true }
}

fn a_make_project_is_built_plain_counting_and_shaped(compiler: &str) {
    let Some(bench) = Bench::new(compiler) else { return };
    let workshop = bench.workshop("make -j{jobs} src/toy");
    let plain = workshop.build(&order("baseline", Guide::None)).unwrap();
    let counting = workshop.build(&order("counting", Guide::Generate)).unwrap();
    let raw = bench.train(&counting);
    let shaped = if bench.family.is_clang() {
        let merged = workshop.merge(&raw).unwrap();
        let proof = workshop.prove_profile(&merged, &counting).unwrap();
        assert_eq!((proof.functions, proof.level.as_str()), (3, "IR"));
        assert_eq!(proof.hot_functions[0].max_count, proof.max_count);
        let shaped = workshop.build(&order("shaped", Guide::Use(merged.path.clone()))).unwrap();
        let applied = workshop.prove_applied(&shaped, &plain, &proof).unwrap();
        assert_eq!((applied.discarded_functions, applied.discarded_count), (0, 0));
        let same = workshop.prove_applied(&plain, &plain, &proof).unwrap_err();
        assert!(matches!(same.downcast_ref(), Some(Refusal::SameCode { .. })), "{same:#}");
        let foreign = workshop.prove_profile(&merged, &plain).unwrap_err();
        assert!(matches!(foreign.downcast_ref(), Some(Refusal::OtherBinary { known: 0, .. })), "{foreign:#}");
        fs::write(raw.join("killed.profraw"), "").unwrap();
        let empty = workshop.merge(&raw).unwrap_err();
        assert!(matches!(empty.downcast_ref(), Some(Refusal::EmptyRawProfile { .. })), "{empty:#}");
        shaped
    } else {
        workshop.build(&order("shaped", Guide::Use(counting.folder.clone()))).unwrap()
    };
    for built in [&plain, &counting, &shaped] {
        let seen = ["src/main.o", "src/work.o"];
        let missed = built.coverage.others.iter().any(|other| seen.contains(&other.object.as_str()));
        assert!(built.coverage.shaped_bytes > 0 && !missed, "{:#?}", built.coverage);
        assert!(!built.folder.join(".git").exists());
        assert!(built.commands[0].contains("make -j2 src/toy"), "{:?}", built.commands);
    }
    assert!(counting.facts.text_bytes > plain.facts.text_bytes, "{counting:#?}");
    assert_eq!(counting.facts.instrumented, bench.family.is_clang());
    assert!(!shaped.facts.instrumented);
    assert_ne!(shaped.facts.text_sha256, plain.facts.text_sha256);
    if !bench.family.is_clang() {
        // The flag alone changes code, too, so only a build that finds no counts tells whether they were found.
        let empty = bench.dir.path().join("toy");
        let unfed = workshop.build(&order("unfed", Guide::Use(empty))).unwrap();
        assert_ne!(shaped.facts.text_sha256, unfed.facts.text_sha256, "gcc did not find the counts");
    }
    let again = workshop.build(&order("baseline", Guide::None)).unwrap();
    assert_eq!(again.facts.text_sha256, plain.facts.text_sha256);
    assert!(!bench.dir.path().join("toy/src/main.o").exists(), "the sources stay as they are");
}

#[test]
fn a_make_project_is_built_plain_counting_and_shaped_by_clang() {
    a_make_project_is_built_plain_counting_and_shaped("clang-22");
}

#[test]
fn a_make_project_is_built_plain_counting_and_shaped_by_gcc() {
    a_make_project_is_built_plain_counting_and_shaped("gcc");
}

#[test]
fn a_build_that_goes_around_the_stand_ins_is_refused() {
    let Some(bench) = Bench::new("clang-22") else { return };
    let refusal = |command: &str| {
        let error = bench.workshop(command).build(&order("around", Guide::Generate)).unwrap_err();
        match error.downcast_ref() {
            Some(Refusal::Recipe(refusal)) => refusal.clone(),
            _ => panic!("{error:#}"),
        }
    };
    let clang = bench.family.cc.display();
    let around = refusal(&format!("{clang} src/main.c src/work.c -o src/toy"));
    assert!(matches!(around, RecipeRefusal::NotSeen { .. }), "{around}");
    let nothing = refusal("true");
    assert!(matches!(nothing, RecipeRefusal::NoProgram { .. }), "{nothing}");

    // Objects that were there before are linked again, and none was compiled under the flags.
    let source = bench.dir.path().join("toy");
    let by_hand =
        Call::new("by-hand", &bench.family.cc, source.join("src")).args(["-O2", "-c", "main.c", "work.c"]);
    bench.system.run(&by_hand).unwrap();
    let stale = refusal("make src/toy");
    assert!(matches!(stale, RecipeRefusal::NothingShaped { .. }), "{stale}");
}
