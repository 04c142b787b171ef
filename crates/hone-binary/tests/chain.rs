//! The whole chain with the real tools, on a server of forty lines; and every way in which it silently goes wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_binary::capture::{dump_env, reset};
use hone_binary::{
    BuildRequest, Builder, Built, CargoTarget, Guide, How, Merged, Pgo, Proven, Refusal, TargetKind,
    functions_moved, owners, profile_env,
};
use hone_tool::{Call, Runner, StopSignal, System};

/// Long enough to never matter on a busy machine.
const PLENTY: Duration = Duration::from_secs(120);

struct Bench {
    dir: tempfile::TempDir,
    system: System,
}

impl Bench {
    /// A copy of the tiny server. `None`, with a printed skip, when the toolchain lacks a tool.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let tiny = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tiny");
        fs::create_dir_all(dir.path().join("tiny/src")).unwrap();
        for file in ["Cargo.toml", "Cargo.lock", "build.rs", "mix.c", "src/main.rs"] {
            fs::copy(tiny.join(file), dir.path().join("tiny").join(file)).unwrap();
        }
        let system = System::new(dir.path().join("log")).unwrap();
        let bench = Self { dir, system };
        let lacks = bench
            .pgo()
            .map_or_else(|error| Some(format!("{error:#}")), |pgo| pgo.c_left_out().map(str::to_owned));
        match lacks {
            None => Some(bench),
            Some(reason) => {
                skip(&reason);
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn target(&self) -> CargoTarget {
        CargoTarget::new(self.path("tiny"), "tiny-server")
    }

    fn pgo(&self) -> anyhow::Result<Pgo<'_>> {
        Pgo::prepare(&self.system, self.target(), &self.path("work"))
    }

    /// Runs the server until it has worked for a while, then ends it by TERM or by KILL.
    fn train(&self, built: &Built, raw: &str, kill: bool) -> PathBuf {
        let raw = self.path(raw);
        fs::create_dir_all(&raw).unwrap();
        let (name, value) = profile_env(&raw);
        let call = Call::new("server", &built.executable, self.dir.path()).env(name, value);
        let mut session = self.system.start(&call).unwrap();
        session.stdout_line_matching("ready", PLENTY).unwrap();
        if kill {
            // SAFETY: the session is alive and unreaped, so the id is its own.
            unsafe { libc::kill(session.process_group(), libc::SIGKILL) };
        }
        let stopped = session.stop(PLENTY).unwrap();
        match kill {
            true => assert_eq!(stopped.status.signal(), Some(libc::SIGKILL)),
            false => assert_eq!((stopped.signal, stopped.status.code()), (StopSignal::Term, Some(0))),
        }
        raw
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.path("tiny").join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from));
        fs::write(path, text.replace(from, to)).unwrap();
    }
}

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

/// One training of the usual weight.
fn one(raw: PathBuf) -> [(PathBuf, f64); 1] {
    [(raw, 1.0)]
}

fn crates_of(built: &Built) -> (u32, u32) {
    match &built.how {
        How::Cargo { crates_compiled, crates_up_to_date, .. } => (*crates_compiled, *crates_up_to_date),
        other => panic!("{other:?}"),
    }
}

fn refusal(error: &anyhow::Error) -> &Refusal {
    error.downcast_ref().unwrap_or_else(|| panic!("no refusal: {error:#}"))
}

#[test]
fn the_whole_chain_and_a_stale_profile() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let baseline = pgo.build_baseline().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    assert!(!baseline.facts.instrumented && instrumented.facts.instrumented);
    assert!(instrumented.facts.text_bytes > baseline.facts.text_bytes);
    assert!(!bench.path("work/stray-profiles").exists(), "the build itself wrote profiles");

    let raw = bench.train(&instrumented, "raw", false);
    let left = pgo.tally(&raw, &instrumented).unwrap();
    let merged = pgo.merge(&one(raw)).unwrap();
    assert_eq!(merged.raw_files, 1);
    let proven = pgo.prove_profile(&merged, &instrumented).unwrap();
    assert_eq!(left.total(), proven.proof.total_count);
    assert!(pgo.has_dump_object(&instrumented) && !pgo.has_dump_object(&baseline));
    let (name, value) = dump_env();
    let call = Call::new("server", &instrumented.executable, bench.dir.path()).env(name, value);
    let (name, value) = profile_env(&bench.path("raw-reset"));
    let mut session = bench.system.start(&call.env(name, value)).unwrap();
    session.stdout_line_matching("ready", PLENTY).unwrap();
    assert_eq!(reset(&mut session).unwrap(), [session.pid()], "rustc's program has the dump object");
    session.stop(PLENTY).unwrap();
    let proof = &proven.proof;
    assert_eq!(proof.level, "IR");
    assert!(proof.functions >= 10 && proof.max_count > 100_000 && proof.total_count > proof.max_count);
    assert_eq!(proof.hot_functions[0].name, "tiny_server::handle_request");
    assert_eq!(proof.hot_functions[0].max_count, proof.max_count);
    let mix = &proven.code_inside[0];
    assert_eq!((mix.name.as_str(), mix.profiled), ("tiny-server (C or C++: mix)", true));
    assert_eq!(mix.how, "1 of its 2 instrumented functions ran in the training");

    let optimized = pgo.build_optimized(&merged).unwrap();
    let applied = pgo.prove_applied(&optimized, &baseline, &proven).unwrap();
    assert_eq!((applied.discarded_functions, applied.missing_functions), (0, 0), "{applied:?}");
    assert_eq!(applied.discarded_weight, 0.0);
    let artifact = pgo.artifact(&optimized, Some((&proven, &applied)));
    assert_eq!(artifact.profile.unwrap().sha256, merged.sha256);
    assert_eq!(
        artifact.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>()[..3],
        ["cargo", "rustc", "llvm-profdata"]
    );
    assert_eq!((optimized.fresh, crates_of(&optimized).1), (false, 0));
    let again = pgo.build_baseline().unwrap();
    assert_eq!((again.fresh, crates_of(&again).0), (true, 0), "nothing has changed");
    assert_eq!(again.facts, baseline.facts);

    // What the profile has put in order moves all the same.
    let seeded = |seed| {
        let order = BuildRequest::plain("pgo").guided(Guide::Use(merged.path.clone())).seeded(seed);
        pgo.build(&order).unwrap().executable
    };
    let builds = [optimized.executable.clone(), seeded(2), seeded(3)];
    let hot = proven.proof.hot_functions.iter().map(|function| function.name.clone()).collect();
    let moved = functions_moved(&builds.each_ref().map(|path| path.as_path()), &hot).unwrap();
    assert!(moved.known >= 1 && moved.moved == moved.known, "{moved:?}");

    let same = pgo.prove_applied(&baseline, &baseline, &proven).unwrap_err();
    assert!(matches!(refusal(&same), Refusal::SameCode { .. }), "{same:#}");

    bench.edit("src/main.rs", "sum ^= i << 3", "sum ^= if i & 64 == 0 { i << 3 } else { 7 }");
    bench.edit("mix.c", "return x / 2;", "return x > 9 ? x / 2 : x + 5;");
    let stale = pgo.build_optimized(&merged).unwrap();
    let applied = pgo.prove_applied(&stale, &baseline, &proven).unwrap_err();
    let Refusal::DoesNotFit { what } = refusal(&applied) else { panic!("{applied:#}") };
    assert!(what.starts_with("the compiler discarded ") && what.ends_with(" % of its counts"), "{what}");

    bench.edit("src/main.rs", "sum ^= if i & 64 == 0 { i << 3 } else { 7 }", "sum ^= i << 3");
    let stale = pgo.build_optimized(&merged).unwrap();
    let applied = pgo.prove_applied(&stale, &baseline, &proven).unwrap();
    assert!(applied.discarded_functions > 0, "the C compiler reports the C functions: {applied:?}");
    assert!(applied.discarded_weight > 0.0 && applied.discarded_count > 0);
}

#[test]
fn what_a_training_can_leave_behind_is_refused_with_the_reason() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();

    let killed = pgo.merge(&one(bench.train(&instrumented, "killed", true))).unwrap_err();
    assert!(matches!(refusal(&killed), Refusal::NoRawProfile { .. } | Refusal::EmptyRawProfile { .. }));
    assert!(killed.to_string().contains("the server was killed before it wrote its profile"), "{killed:#}");
    assert!(killed.to_string().contains("stop it with SIGTERM"));
    let never = pgo.merge(&one(bench.path("never-made"))).unwrap_err();
    assert!(matches!(refusal(&never), Refusal::NoRawProfile { .. }));

    let raw = bench.train(&instrumented, "raw", false);
    let good = raw.read_dir().unwrap().next().unwrap().unwrap().path();
    fs::write(raw.join("z.profraw"), "").unwrap();
    let empty = pgo.merge(&one(raw.clone())).unwrap_err();
    assert_eq!(refusal(&empty), &Refusal::EmptyRawProfile { file: raw.join("z.profraw") });

    let mut bytes = fs::read(&good).unwrap();
    // The format's version stands behind eight bytes of magic; each LLVM knows only some.
    bytes[8] = 3;
    fs::write(raw.join("z.profraw"), &bytes).unwrap();
    let old = pgo.merge(&one(raw.clone())).unwrap_err();
    assert!(old.to_string().contains("a program of another LLVM version wrote them"), "{old:#}");

    let bytes = fs::read(&good).unwrap();
    fs::write(raw.join("z.profraw"), &bytes[..bytes.len() / 2]).unwrap();
    let cut = pgo.merge(&one(raw.clone())).unwrap_err();
    assert!(cut.to_string().contains("one is cut off or is not a profile"), "{cut:#}");
    assert!(cut.to_string().contains("command: cd "), "{cut:#}");
    fs::write(raw.join("z.profraw"), "garbage").unwrap();
    let garbage = pgo.merge(&one(raw.clone())).unwrap_err();
    assert!(matches!(refusal(&garbage), Refusal::Unmergeable { .. }), "{garbage:#}");
}

/// What `llvm-profdata` of the toolchain makes of raw files, without Hone's checks.
fn merged_unchecked(bench: &Bench, pgo: &Pgo<'_>, name: &str, raw: &Path) -> Merged {
    let path = bench.path(name);
    let call = Call::new("merge-unchecked", &pgo.toolchain().profdata, bench.dir.path());
    bench.system.run(&call.args(["merge", "-o"]).arg(&path).arg(raw).produces(&path)).unwrap();
    Merged { path, sha256: "0".repeat(64), bytes: 1, raw_files: 1, raw_bytes: 1, command: String::new() }
}

#[test]
fn profiles_that_no_build_may_use_are_refused_with_the_reason() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let baseline = pgo.build_baseline().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();

    fs::write(bench.path("empty.profraw"), "").unwrap();
    let hollow = merged_unchecked(&bench, &pgo, "hollow.profdata", &bench.path("empty.profraw"));
    let error = pgo.prove_profile(&hollow, &instrumented).unwrap_err();
    let Refusal::WrongLevel { level, .. } = refusal(&error) else { panic!("{error:#}") };
    assert_eq!(level, "Front-end");
    let built = pgo.build_optimized(&hollow).unwrap();
    let error = pgo.prove_applied(&built, &baseline, &proof_of(&bench, &pgo, &instrumented)).unwrap_err();
    assert!(matches!(refusal(&error), Refusal::NotUsed { .. }), "the compiler only warns: {error:#}");

    let merged = pgo.merge(&one(bench.train(&instrumented, "raw", false))).unwrap();
    let mut elsewhere = instrumented.clone();
    let How::Cargo { own_crates, .. } = &mut elsewhere.how else { panic!("{elsewhere:?}") };
    *own_crates = ["elsewhere".to_owned()].into();
    let proven = pgo.prove_profile(&merged, &elsewhere).unwrap();
    assert_eq!(proven.proof.hot_functions_of_target, 0, "reported, without an error: {proven:?}");
    assert_eq!(owners(&proven.proof.hot_functions)[0].0, "tiny_server");

    let garbage = Merged { path: bench.path("garbage.profdata"), ..hollow.clone() };
    fs::write(&garbage.path, "this is no profile, only a text that is longer than any header of one\n")
        .unwrap();
    let error = pgo.prove_profile(&garbage, &instrumented).unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Unmergeable { .. }), "{error:#}");

    let other = bench.path("other");
    fs::create_dir_all(other.join("src")).unwrap();
    fs::write(other.join("Cargo.toml"), "[package]\nname = 'other'\nversion = '0.1.0'\n[workspace]\n")
        .unwrap();
    let source = "fn main() { let mut v: Vec<u64> = (0..1000).map(|i| i * 7919 % 1000).collect(); v.sort(); println!(\"{}\", v[3]); }";
    fs::write(other.join("src/main.rs"), source).unwrap();
    let other =
        Pgo::prepare(&bench.system, CargoTarget::new(other, "other"), &bench.path("other-work")).unwrap();
    let other_built = other.build_instrumented().unwrap();
    let (name, value) = profile_env(&bench.path("other-raw"));
    let call = Call::new("other", &other_built.executable, bench.dir.path()).env(name, value);
    bench.system.run(&call).unwrap();
    let foreign = pgo.merge(&one(bench.path("other-raw"))).unwrap();
    let error = pgo.prove_profile(&foreign, &instrumented).unwrap_err();
    assert!(matches!(refusal(&error), Refusal::OtherBinary { .. }), "{error:#}");
    assert!(other.prove_profile(&foreign, &other_built).is_ok(), "of its own program it is a good one");
}

fn proof_of(bench: &Bench, pgo: &Pgo<'_>, instrumented: &Built) -> Proven {
    let merged = pgo.merge(&one(bench.train(instrumented, "good-raw", false))).unwrap();
    pgo.prove_profile(&merged, instrumented).unwrap()
}

#[test]
fn c_code_is_named_when_it_is_left_out() {
    let Some(bench) = Bench::new() else { return };
    let target = CargoTarget { c_code: false, ..bench.target() };
    let pgo = Pgo::prepare(&bench.system, target, &bench.path("work")).unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    let merged = pgo.merge(&one(bench.train(&instrumented, "raw", false))).unwrap();
    let proven = pgo.prove_profile(&merged, &instrumented).unwrap();
    let mix = &proven.code_inside[0];
    assert!(!mix.profiled);
    assert_eq!(mix.how, "not instrumented: the experiment leaves C code out");
    assert!(!proven.proof.hot_functions.iter().any(|function| function.name == "mix_seed"));
}

/// The flag from the configuration must reach the compiler in every variant: without it the program does not compile.
#[test]
fn configured_rustflags_are_not_displaced() {
    if ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS"].iter().any(|name| std::env::var_os(name).is_some()) {
        // Cargo itself then passes over every configuration.
        return skip("rustflags are set in the environment");
    }
    for section in ["target.'cfg(unix)'", "target.x86_64-unknown-linux-gnu", "build"] {
        let Some(bench) = Bench::new() else { return };
        if section.contains("x86_64") && bench.pgo().unwrap().toolchain().host != "x86_64-unknown-linux-gnu" {
            continue;
        }
        bench.edit(
            "src/main.rs",
            "fn main() {",
            "#[cfg(not(wanted))]\ncompile_error!(\"the flag is lost\");\n\nfn main() {",
        );
        fs::create_dir_all(bench.path("tiny/.cargo")).unwrap();
        let config = format!("[{section}]\nrustflags = ['--cfg', 'wanted']\n");
        fs::write(bench.path("tiny/.cargo/config.toml"), config).unwrap();
        let pgo = bench.pgo().unwrap();
        assert!(pgo.build_instrumented().unwrap().facts.instrumented, "{section}");
        pgo.build_baseline().unwrap();
    }
}

/// Cargo's `build.target` decides what is built, and the flags of its section with it; the whole chain works for it.
#[test]
fn the_configured_target_is_built() {
    const MUSL: &str = "x86_64-unknown-linux-musl";
    if std::env::var_os("CARGO_BUILD_TARGET").is_some() {
        return skip("CARGO_BUILD_TARGET is set in the environment");
    }
    let Some(bench) = Bench::new() else { return };
    let toolchain = bench.pgo().unwrap().toolchain().clone();
    if !toolchain.profdata.ancestors().nth(3).unwrap().join(MUSL).is_dir() {
        return skip("the target is not installed: rustup target add x86_64-unknown-linux-musl");
    }
    // Without C code, whose musl headers few machines have.
    fs::write(bench.path("tiny/build.rs"), "fn main() {}\n").unwrap();
    fs::write(
        bench.path("tiny/src/main.rs"),
        "#[cfg(not(all(target_env = \"musl\", wanted)))]\ncompile_error!(\"another target\");\n\n\
         #[inline(never)]\nfn work(seed: u64) -> u64 {\n    (0..seed % 97).fold(seed, |sum, at| sum.rotate_left(7) ^ at)\n}\n\n\
         fn main() {\n    let sum = (0..100_000).fold(1, |sum, at| work(sum ^ at));\n    println!(\"{sum}\");\n}\n",
    )
    .unwrap();
    // In a parent of the package's folder.
    fs::create_dir_all(bench.path(".cargo")).unwrap();
    let config = format!("[build]\ntarget = '{MUSL}'\n[target.{MUSL}]\nrustflags = ['--cfg', 'wanted']\n");
    fs::write(bench.path(".cargo/config.toml"), config).unwrap();

    let pgo = bench.pgo().unwrap();
    assert!(pgo.c_left_out().unwrap().contains(MUSL));
    let baseline = pgo.build_baseline().unwrap();
    assert!(baseline.executable.to_string_lossy().contains(MUSL), "{baseline:?}");
    let instrumented = pgo.build_instrumented().unwrap();
    let raw = bench.path("raw");
    fs::create_dir_all(&raw).unwrap();
    let (name, value) = profile_env(&raw);
    bench.system.run(&Call::new("run", &instrumented.executable, bench.dir.path()).env(name, value)).unwrap();
    let merged = pgo.merge(&one(raw)).unwrap();
    let proven = pgo.prove_profile(&merged, &instrumented).unwrap();
    assert!(proven.proof.hot_functions_of_target > 0, "{proven:?}");
    let optimized = pgo.build_optimized(&merged).unwrap();
    pgo.prove_applied(&optimized, &baseline, &proven).unwrap();
}

#[test]
fn cheap_checks_come_first() {
    let Some(bench) = Bench::new() else { return };
    let fails = |target: CargoTarget, work: PathBuf| {
        let error = Pgo::prepare(&bench.system, target, &work).err().unwrap();
        format!("{error:#}")
    };
    let work = bench.path("work");
    let wrong_bin = CargoTarget { bin: "tiny-servr".into(), ..bench.target() };
    assert!(fails(wrong_bin, work.clone()).ends_with("; the nearest there is `tiny-server`"));
    let nowhere = CargoTarget { manifest_dir: bench.path("none"), ..bench.target() };
    assert!(fails(nowhere, work.clone()).contains("none/Cargo.toml does not exist"));
    let flags = CargoTarget { extra_rustflags: vec!["-Cprofile-generate".into()], ..bench.target() };
    assert!(fails(flags, work).contains("which Hone sets itself"));
    fs::write(bench.path("file"), "").unwrap();
    assert!(fails(bench.target(), bench.path("file/work")).contains("can't be made: name another one"));
    assert!(!bench.path("work/baseline").exists(), "nothing was built");
}

/// Its C code is compiled for the same triple as the program's, and linked without a profile runtime.
#[test]
fn a_build_script_that_links_c_code_gets_the_way_out() {
    let Some(bench) = Bench::new() else { return };
    fs::create_dir_all(bench.path("tiny/helper/src")).unwrap();
    fs::copy(bench.path("tiny/build.rs"), bench.path("tiny/helper/build.rs")).unwrap();
    // A call through a pointer is counted by a function of the runtime.
    let source = fs::read_to_string(bench.path("tiny/mix.c")).unwrap();
    let indirect = "uint64_t apply(uint64_t (*f)(uint64_t), uint64_t x) { return f(x); }\n";
    fs::write(bench.path("tiny/helper/mix.c"), source + indirect).unwrap();
    let manifest = "[package]\nname = 'helper'\nversion = '0.1.0'\nedition = '2021'\n";
    fs::write(bench.path("tiny/helper/Cargo.toml"), manifest).unwrap();
    let source =
        "extern \"C\" { fn mix_seed(x: u64) -> u64; }\npub fn seed() -> u64 { unsafe { mix_seed(7) } }\n";
    fs::write(bench.path("tiny/helper/src/lib.rs"), source).unwrap();
    bench.edit(
        "Cargo.toml",
        "[workspace]",
        "[workspace]\n[build-dependencies]\nhelper = { path = \"helper\" }",
    );
    bench.edit("build.rs", "fn main() {", "fn main() {\n    helper::seed();");
    fs::remove_file(bench.path("tiny/Cargo.lock")).unwrap();

    let pgo = bench.pgo().unwrap();
    pgo.build_baseline().unwrap();
    let error = pgo.build_instrumented().unwrap_err();
    assert!(error.to_string().contains("leave C code out of the profile (c_code = false)"), "{error:#}");
    let without_c = CargoTarget { c_code: false, ..bench.target() };
    let pgo = Pgo::prepare(&bench.system, without_c, &bench.path("work")).unwrap();
    assert!(pgo.build_instrumented().unwrap().facts.instrumented);
}

/// What BOLT and the search for luck of placement need from a Rust build.
#[test]
fn wishes_beside_the_profile_reach_compiler_and_linker() {
    let Some(bench) = Bench::new() else { return };
    bench.edit("Cargo.toml", "debug = \"line-tables-only\"", "strip = true");
    let pgo = bench.pgo().unwrap();
    assert_eq!(pgo.kind(), TargetKind::Cargo);
    let relocs = pgo.build(&BuildRequest::plain("relocs").with_relocs()).unwrap();
    let input = hone_binary::bolt::Input::look(&relocs.executable).unwrap();
    assert!(input.anatomy.relocations && input.anatomy.symbols, "{:?}", input.anatomy);
    let plain = pgo.build_baseline().unwrap();
    assert_ne!(plain.executable, relocs.executable);
    assert!(!hone_binary::bolt::preflight::anatomy(&plain.executable).unwrap().relocations);

    let seeded = |seed| pgo.build(&BuildRequest::plain("seeded").seeded(seed)).unwrap();
    let (one, two) = (seeded(1), seeded(2));
    assert_ne!(one.facts.text_sha256, two.facts.text_sha256, "the seed moves functions");
    let again = seeded(1);
    assert_eq!((again.fresh, &again.facts), (true, &one.facts));

    let switch = "sum ^= match i & 7 { 0 => i + 7, 1 => i * 9, 2 => i ^ 77, 3 => i / 7, 4 => i << 5, 5 => i % 11, 6 => !i, _ => 1 }";
    bench.edit("src/main.rs", "sum ^= i << 3", switch);
    let without = pgo.build(&BuildRequest::plain("no-jump-tables").without_jump_tables()).unwrap();
    assert!(without.command().contains("-Cjump-tables=no"), "{}", without.command());
    assert_ne!(without.facts.text_sha256, pgo.build_baseline().unwrap().facts.text_sha256);

    let profile = PathBuf::from("/none.profdata");
    for guide in [Guide::CsGenerate(profile.clone()), Guide::SampleUse(profile)] {
        let error = pgo.build(&BuildRequest::plain("x").guided(guide)).unwrap_err();
        assert!(matches!(refusal(&error), Refusal::Unfit { kind: TargetKind::Cargo, .. }), "{error:#}");
    }
}

/// The same counts with weight 3 are three times the counts; and a dry run prints what a build runs.
#[test]
fn trainings_are_merged_by_their_weights() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let order = BuildRequest::plain("instrumented").guided(Guide::Generate);
    let told = pgo.commands(&order).unwrap();
    assert!(!bench.path("work/instrumented").exists(), "nothing was built");
    let instrumented = pgo.build(&order).unwrap();
    assert_eq!(instrumented.commands, told);
    let (a, b) = (bench.train(&instrumented, "a", false), bench.train(&instrumented, "b", false));
    let total = |raw: &[(PathBuf, f64)]| {
        let merged = pgo.merge(raw).unwrap();
        pgo.prove_profile(&merged, &instrumented).unwrap().proof.total_count
    };
    let (of_a, of_b) = (total(&[(a.clone(), 5.0)]), total(&[(b.clone(), 0.5)]));
    assert_eq!(total(&[(a.clone(), 1.5), (b.clone(), 0.5)]), 3 * of_a + of_b);
    let merged = pgo.merge(&[(a.clone(), 3.0), (b.clone(), 1.0)]).unwrap();
    assert!(merged.command.contains("--weighted-input=3,"), "{}", merged.command);
    let zero = pgo.merge(&[(a, 0.0), (b, 1.0)]).unwrap_err();
    assert!(matches!(refusal(&zero), Refusal::Weight { .. }), "{zero:#}");
    let nothing = pgo.merge(&[]).unwrap_err();
    assert!(matches!(refusal(&nothing), Refusal::NothingToMerge), "{nothing:#}");
    let files = pgo.profile_files(&instrumented, &bench.path("a"));
    assert_eq!(files.snapshot().unwrap().len(), 1);
}

/// What a C program of a few lines leaves when it is compiled with these flags, merged by the toolchain's own tool.
fn profile_of_c(
    bench: &Bench,
    pgo: &Pgo<'_>,
    name: &str,
    source: &str,
    flags: &[&str],
) -> anyhow::Result<Merged> {
    let (file, program, raw) = (bench.path(&format!("{name}.c")), bench.path(name), bench.path("raw-c"));
    fs::write(&file, source).unwrap();
    let compiler = pgo.toolchain().c_compiler.as_ref().unwrap();
    let call = Call::new("compile", &compiler.clang, bench.dir.path()).args(["-O1", "-o"]).arg(&program);
    bench.system.run(&call.args(flags).arg(&file).produces(&program)).unwrap();
    let _ = fs::remove_dir_all(&raw);
    let (variable, value) = profile_env(&raw);
    bench.system.run(&Call::new(name, &program, bench.dir.path()).env(variable, value)).unwrap();
    pgo.merge(&one(raw))
}

/// llvm-profdata and the compilers end with 0 on the first two.
#[test]
fn profiles_for_coverage_without_a_count_and_with_impossible_ones_are_refused() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    let busy =
        "int main(void) { volatile int sum = 0; for (int i = 0; i < 1000; i++) sum += i; return 0; }\n";
    let merged = profile_of_c(&bench, &pgo, "coverage", busy, &["-fprofile-instr-generate"]).unwrap();
    let error = pgo.prove_profile(&merged, &instrumented).unwrap_err();
    assert!(
        matches!(refusal(&error), Refusal::WrongLevel { level, .. } if level == "Front-end"),
        "{error:#}"
    );
    let forgets = "void __llvm_profile_reset_counters(void);\n\
                   int main(void) { __llvm_profile_reset_counters(); return 0; }\n";
    let merged = profile_of_c(&bench, &pgo, "forgets", forgets, &["-fprofile-generate"]).unwrap();
    let error = pgo.prove_profile(&merged, &instrumented).unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Hollow { what: "count above 0", .. }), "{error:#}");
    let wraps = "#include <stdint.h>\nchar *__llvm_profile_begin_counters(void);\n\
                 int main(void) { *(uint64_t *)__llvm_profile_begin_counters() -= 1000; return 0; }\n";
    let error = profile_of_c(&bench, &pgo, "wraps", wraps, &["-fprofile-generate"]).unwrap_err();
    assert!(
        matches!(refusal(&error), Refusal::Unmergeable { reason, .. } if reason.contains("below 0")),
        "{error:#}"
    );
}

/// Cargo looks at the name of a profile and not into it: two trainings are two names, and two builds.
#[test]
fn a_second_training_is_another_profile_and_another_build() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    let [first, second] = ["raw", "raw-again"].map(|raw| {
        let merged = pgo.merge(&one(bench.train(&instrumented, raw, false))).unwrap();
        let built = pgo.build_optimized(&merged).unwrap();
        assert!(!built.fresh && built.command().contains(merged.path.to_str().unwrap()), "{built:?}");
        (merged, built)
    });
    assert_ne!(first.0.path, second.0.path);
    assert_ne!(first.1.executable, second.1.executable);
    let again = pgo.merge(&one(bench.path("raw"))).unwrap();
    assert_eq!((again.path, again.sha256), (first.0.path, first.0.sha256), "the same counts, the same name");
}

/// What the plan says and what the compiler got are two things: the program itself is asked.
#[test]
fn flags_that_are_added_or_swallowed_on_the_way_are_found_in_the_program() {
    let Some(bench) = Bench::new() else { return };
    let configured = |text: String| {
        fs::create_dir_all(bench.path("tiny/.cargo")).unwrap();
        fs::write(bench.path("tiny/.cargo/config.toml"), text).unwrap();
        let target = CargoTarget { c_code: false, ..bench.target() };
        Pgo::prepare(&bench.system, target, &bench.path("work")).unwrap()
    };
    let pgo = configured("[build]\nrustflags = ['-Cinstrument-coverage']\n".to_owned());
    let error = pgo.build_baseline().unwrap_err();
    assert!(matches!(refusal(&error), Refusal::Instrumented { .. }), "{error:#}");

    let pgo = configured(String::new());
    let baseline = pgo.build_baseline().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    let merged = pgo.merge(&one(bench.train(&instrumented, "raw", false))).unwrap();
    let proof = pgo.prove_profile(&merged, &instrumented).unwrap();

    let script = "#!/bin/sh\nfor word in \"$@\"; do\n  shift\n  case $word in\n    -Cprofile-*) ;;\n    *) set -- \"$@\" \"$word\" ;;\n  esac\ndone\nexec \"$@\"\n";
    let wrapper = bench.path("wrapper");
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    let pgo = configured(format!("[build]\nrustc-wrapper = '{}'\n", wrapper.display()));
    fs::remove_dir_all(bench.path("work/instrumented-rust-only")).unwrap();
    let error = pgo.build_instrumented().unwrap_err();
    assert!(matches!(refusal(&error), Refusal::NotInstrumented { .. }), "{error:#}");
    let unshaped = pgo.build_optimized(&merged).unwrap();
    let error = pgo.prove_applied(&unshaped, &baseline, &proof).unwrap_err();
    assert!(matches!(refusal(&error), Refusal::SameCode { .. }), "{error:#}");
}

/// The names of the counted functions are loaded with the program, so no strip takes them away.
#[test]
fn a_profile_of_a_stripped_program_is_proven_all_the_same() {
    let Some(bench) = Bench::new() else { return };
    bench.edit("Cargo.toml", "debug = \"line-tables-only\"", "strip = true");
    let pgo = bench.pgo().unwrap();
    let instrumented = pgo.build_instrumented().unwrap();
    let merged = pgo.merge(&one(bench.train(&instrumented, "raw", false))).unwrap();
    let proof = pgo.prove_profile(&merged, &instrumented).unwrap();
    let baseline = pgo.build_baseline().unwrap();
    pgo.prove_applied(&pgo.build_optimized(&merged).unwrap(), &baseline, &proof).unwrap();
}
