//! Go's profiles, builds and benchmarks with the real `go`; and every way in which a profile silently comes to nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_binary::bolt::{BoltRefusal, Input};
use hone_binary::go::{
    BenchPlan, DEFAULT_PGO, Finding, GoPgo, GoRefusal, GoTarget, LEAST_ROUNDS, Merger, Profile,
    ProfileRequest, capture, of_allocations, of_cpu, table, weights_for_shares,
};
use hone_binary::{BuildRequest, Builder, Guide, How, Merged, Proven, Refusal, TargetKind};
use hone_tool::{Call, Runner, Session, System, Tool};

/// Long enough to never matter on a busy machine.
const PLENTY: Duration = Duration::from_secs(540);

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    go: PathBuf,
}

impl Bench {
    /// A copy of the tiny module. `None`, with a printed skip, without Go.
    fn new() -> Option<Self> {
        let go = match Tool::new("go", "HONE_GO").locate(&[PathBuf::from("/usr/local/go/bin")]) {
            Ok(found) => found.path().to_path_buf(),
            Err(error) => {
                skip(&error.to_string());
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let bench = Self { dir, system, go };
        bench.copy("go-tiny", "tiny");
        Some(bench)
    }

    fn copy(&self, fixture: &str, to: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(fixture);
        for file in ["go.mod", "cmd/tiny/main.go", "mix/mix.go", "mix/mix_test.go"] {
            let target = self.path(to).join(file);
            fs::create_dir_all(target.parent().unwrap()).unwrap();
            fs::copy(from.join(file), target).unwrap();
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn go(&self, args: &[&str]) -> Result<String, String> {
        let call = Call::new("go", &self.go, self.path("tiny")).args(args).limit(PLENTY);
        let finished = self.system.run(&call).map_err(|error| error.to_string())?;
        Ok(finished.stdout_text().unwrap() + &finished.stderr_text().unwrap())
    }

    /// Runs a program of the tiny module; gives its CPU and its allocation profile.
    fn profiles(&self, executable: &Path, name: &str) -> (PathBuf, PathBuf) {
        let (cpu, mem) = (self.path(&format!("{name}.cpu")), self.path(&format!("{name}.mem")));
        let call = Call::new("tiny", executable, self.dir.path());
        let call = call.arg("-cpu").arg(&cpu).arg("-mem").arg(&mem).args(["-for", "1500ms"]).limit(PLENTY);
        self.system.run(&call).unwrap();
        (cpu, mem)
    }

    fn pgo(&self) -> GoPgo<'_> {
        let target = GoTarget::new(self.path("tiny"), "./cmd/tiny");
        GoPgo::prepare(&self.system, target, &self.path("work")).unwrap()
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.path("tiny").join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(path, text.replace(from, to)).unwrap();
    }

    /// What `go build -pgo=FILE` itself makes of a profile.
    fn go_takes(&self, profile: &Path) -> Result<(), String> {
        let flag = format!("-pgo={}", profile.display());
        let output = self.path("taken");
        let said = self.go(&["build", &flag, "-o", output.to_str().unwrap(), "./cmd/tiny"])?;
        assert_eq!(said, "", "go has something to say after all");
        Ok(())
    }

    fn built(&self) -> PathBuf {
        let executable = self.path("plain");
        self.go(&["build", "-pgo=off", "-o", executable.to_str().unwrap(), "./cmd/tiny"]).unwrap();
        executable
    }

    /// What `go tool pprof -top` says: the total, and name, flat and cumulative of each function, in the base unit.
    fn top(&self, file: &Path, kind: &str, unit: &str) -> (i64, Vec<(String, i64, i64)>) {
        let (index, unit_arg) = (format!("-sample_index={kind}"), format!("-unit={unit}"));
        let file = file.to_str().unwrap();
        let text = self
            .go(&[
                "tool",
                "pprof",
                "-top",
                "-nodecount=100000",
                "-nodefraction=0",
                "-edgefraction=0",
                &index,
                &unit_arg,
                file,
            ])
            .unwrap();
        let number = |word: &str| word.trim_end_matches(unit).parse::<f64>().unwrap().round() as i64;
        let total = text.lines().find(|line| line.starts_with("Showing nodes")).unwrap();
        let total = number(total.rsplit_once(" of ").unwrap().1.trim_end_matches(" total"));
        let rows = text.lines().skip_while(|line| !line.contains("flat%")).skip(1);
        let rows = rows.map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            // A generic function over a struct has blanks in its name.
            let name = words[5..].join(" ");
            let name = name.trim_end_matches(" (inline)").trim_end_matches(" (partial-inline)");
            (name.to_owned(), number(words[0]), number(words[3]))
        });
        (total, rows.collect())
    }
}

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

fn read(file: &Path) -> Profile {
    Profile::parse(&fs::read(file).unwrap()).unwrap()
}

/// Our table and the tool's say the same of every function.
fn agree(bench: &Bench, file: &Path, kind: &str, unit: &str) {
    let ours = table(&read(file), kind).unwrap();
    let (total, rows) = bench.top(file, kind, unit);
    assert_eq!(ours.total, total, "{kind}");
    assert!(rows.len() > 5, "{rows:?}");
    for (name, flat, cumulative) in rows {
        let row = ours.row(&name).unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!((row.flat, row.cumulative), (flat, cumulative), "{kind} {name}");
    }
}

#[test]
fn profiles_are_read_merged_and_written_as_the_real_tool_has_it() {
    let Some(bench) = Bench::new() else { return };
    let executable = bench.built();
    let (a, mem) = bench.profiles(&executable, "a");
    let (b, _) = bench.profiles(&executable, "b");
    agree(&bench, &a, "cpu", "ns");
    agree(&bench, &mem, "alloc_space", "B");

    let mut merger = Merger::new();
    merger.add(&read(&a), 1.0).unwrap();
    merger.add(&read(&b), 3.0).unwrap();
    let merged = merger.finish().unwrap();
    let ours = bench.path("ours.pprof");
    fs::write(&ours, merged.to_bytes()).unwrap();
    agree(&bench, &ours, "cpu", "ns");
    assert_eq!(merged.total(1), read(&a).total(1) + 3 * read(&b).total(1));

    let theirs = bench.path("theirs.pprof");
    let output = format!("-output={}", theirs.display());
    let [a, b] = [&a, &b].map(|path| path.to_str().unwrap());
    bench.go(&["tool", "pprof", "-proto", &output, a, b, b, b]).unwrap();
    let rows = |profile: &Profile| table(profile, "cpu").unwrap();
    assert_eq!(rows(&merged), rows(&read(&theirs)), "the tool merges to the same");
}

#[test]
fn the_size_that_is_walked_again_and_again_stands_out() {
    let Some(bench) = Bench::new() else { return };
    let (cpu, mem) = bench.profiles(&bench.built(), "a");
    let own = BTreeSet::new();
    let found = of_cpu(&read(&cpu), &own, &|file| fs::read_to_string(file).ok()).unwrap();
    assert_eq!(bench.pgo().findings(&read(&cpu)).unwrap(), found);
    let walker = found.iter().find_map(|finding| match finding {
        Finding::Walker { function, own_loop, called_at, .. } if function.ends_with("Size") => {
            Some((own_loop.is_some(), called_at.file.ends_with("main.go")))
        }
        _ => None,
    });
    assert_eq!(walker, Some((true, true)), "{found:?}");

    let found = of_allocations(&read(&mem), &own).unwrap();
    let keep = found.iter().find_map(|finding| match finding {
        Finding::Allocator { kind, function, path, .. } if function == "main.keep" => {
            Some((kind.as_str(), path.clone()))
        }
        _ => None,
    });
    let path = ["main.main", "main.work", "main.keep"].map(str::to_owned).to_vec();
    assert_eq!(keep, Some(("alloc_space", path)), "{found:?}");
}

fn one_of(file: &Path) -> [(PathBuf, f64); 1] {
    [(file.to_path_buf(), 1.0)]
}

fn refusal(error: &anyhow::Error) -> &GoRefusal {
    match error.downcast_ref() {
        Some(Refusal::Go(refusal)) => refusal,
        _ => panic!("no refusal: {error:#}"),
    }
}

#[test]
fn the_whole_chain_and_a_stale_profile() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo();
    let baseline = pgo.build_baseline().unwrap();
    assert_eq!(pgo.profile_of(&baseline.executable).unwrap(), None);
    assert_eq!(pgo.own_packages(), BTreeSet::from(["main", "tiny.example/tiny/mix"].map(str::to_owned)));
    let How::Go { packages_compiled, own_packages, .. } = &baseline.how else { panic!("{baseline:?}") };
    assert!(*packages_compiled >= 2 && baseline.facts.text_bytes > 100_000, "{baseline:?}");
    assert_eq!(*own_packages, pgo.own_packages());

    let (a, _) = bench.profiles(&baseline.executable, "a");
    let (b, _) = bench.profiles(&baseline.executable, "b");
    let weighted = [(a, 1.0), (b, 0.5)];
    let merged = pgo.merge(&weighted).unwrap();
    assert_eq!(pgo.merge(&weighted).unwrap(), merged, "the same profiles, the same name");
    assert!(merged.command.ends_with("# with the weights 1, 0.5"), "{}", merged.command);
    let proven = pgo.prove_profile(&merged, &baseline).unwrap();
    assert!(proven.proof.hot_functions_of_target >= 3 && proven.proof.raw_files == 2, "{proven:?}");
    let hottest = proven.proof.hot_functions.iter().take(5);
    assert!(hottest.clone().any(|function| function.name == "tiny.example/tiny/mix.size"), "{proven:?}");

    let optimized = pgo.build_optimized(&merged).unwrap();
    assert_eq!(pgo.profile_of(&optimized.executable).unwrap(), Some(merged.path.display().to_string()));
    let applied = pgo.prove_applied(&optimized, &baseline, &proven).unwrap();
    assert_eq!((applied.discarded_functions, applied.discarded_weight), (0, 0.0), "{applied:?}");
    let same = pgo.prove_applied(&baseline, &baseline, &proven).unwrap_err();
    assert!(matches!(refusal(&same), GoRefusal::NotInBuild { found: None, .. }), "{same:#}");
    let one = pgo.prove_profile(&pgo.merge(&weighted[..1]).unwrap(), &baseline).unwrap();
    let mixed_up = pgo.prove_applied(&optimized, &baseline, &one).unwrap_err();
    assert!(matches!(refusal(&mixed_up), GoRefusal::NotInBuild { found: Some(_), .. }), "{mixed_up:#}");
    let bolt = Input::look(&baseline.executable).unwrap_err();
    assert!(
        matches!(bolt.downcast_ref(), Some(Refusal::Bolt(BoltRefusal::Go { .. }))),
        "BOLT is refused before it is asked: {bolt:#}"
    );

    let explained = pgo.explain(&merged).unwrap();
    assert!(
        explained.devirtualized.iter().any(|call| call.contains("interface call c.Code to")),
        "{explained:?}"
    );
    assert!(!explained.inlined.is_empty() && !explained.hot_functions.is_empty(), "{explained:?}");

    placed(&pgo, &merged);
    stripped(&bench, &merged, &proven);

    bench.edit("mix/mix.go", " size(", " extent(");
    bench.go_takes(&merged.path).unwrap();
    let stale = pgo.build_optimized(&merged).unwrap();
    let applied = pgo.prove_applied(&stale, &baseline, &proven).unwrap();
    assert!(applied.discarded_weight > 0.1 && applied.discarded_weight < 0.9, "{applied:?}");
    assert!(
        applied.messages[0].starts_with("tiny.example/tiny/mix.size is no longer in the program"),
        "{applied:?}"
    );
}

/// Without symbols and without paths there is still the proof.
fn stripped(bench: &Bench, merged: &Merged, proven: &Proven) {
    let mut target = GoTarget::new(bench.path("tiny"), "./cmd/tiny");
    target.ldflags = Some("-s -w".into());
    target.trimpath = true;
    let pgo = GoPgo::prepare(&bench.system, target, &bench.path("stripped")).unwrap();
    let baseline = pgo.build_baseline().unwrap();
    let optimized = pgo.build_optimized(merged).unwrap();
    let name = merged.path.file_name().unwrap().to_str().unwrap();
    assert_eq!(pgo.profile_of(&optimized.executable).unwrap().as_deref(), Some(name));
    let applied = pgo.prove_applied(&optimized, &baseline, proven).unwrap();
    assert_eq!(applied.discarded_weight, 0.0, "{applied:?}");
}

/// A plain `go build` takes what was placed, and finds the folder as it was afterwards.
fn placed(pgo: &GoPgo<'_>, merged: &Merged) {
    let missing = pgo.build_auto().unwrap_err();
    assert!(matches!(refusal(&missing), GoRefusal::Missing { .. }), "{missing:#}");
    let placed = pgo.place(&merged.path).unwrap();
    assert_eq!(placed.path(), pgo.default_profile());
    let auto = pgo.build_auto().unwrap();
    assert_eq!(pgo.profile_of(&auto.executable).unwrap(), Some(placed.path().display().to_string()));
    let stolen = pgo.build_baseline().unwrap();
    assert_eq!(
        pgo.profile_of(&stolen.executable).unwrap(),
        None,
        "a default.pgo does not get into the baseline"
    );
    placed.put_back().unwrap();
    assert!(!pgo.default_profile().exists());
}

#[test]
fn what_go_cannot_have_is_refused_and_functions_change_places_by_a_seed() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo();
    assert_eq!(pgo.kind(), TargetKind::Go);
    let profile = PathBuf::from("/none.pgo");
    let unfit = [
        BuildRequest::plain("x").guided(Guide::Generate),
        BuildRequest::plain("x").guided(Guide::CsGenerate(profile.clone())),
        BuildRequest::plain("x").guided(Guide::SampleUse(profile)),
        BuildRequest::plain("x").with_relocs(),
        BuildRequest::plain("x").without_jump_tables(),
    ];
    for order in unfit {
        let error = pgo.build(&order).unwrap_err();
        assert!(
            matches!(error.downcast_ref(), Some(Refusal::Unfit { kind: TargetKind::Go, .. })),
            "{error:#}"
        );
        assert!(pgo.commands(&order).is_err());
    }
    let seeded = |seed| pgo.build(&BuildRequest::plain("seeded").seeded(seed)).unwrap();
    let told = pgo.commands(&BuildRequest::plain("seeded").seeded(1)).unwrap();
    let (plain, one, two) = (pgo.build_baseline().unwrap(), seeded(1), seeded(2));
    assert_eq!(one.commands, told);
    assert!(told[0].contains("-ldflags=-randlayout=2"), "{told:?}");
    let texts = BTreeSet::from([&plain, &one, &two].map(|built| built.facts.text_sha256.clone()));
    assert_eq!(texts.len(), 3, "the seed moves functions");
    assert_eq!(seeded(1).facts.text_sha256, one.facts.text_sha256);

    fs::create_dir(bench.path("raw")).unwrap();
    let empty = pgo.merge(&one_of(&bench.path("raw"))).unwrap_err();
    assert!(matches!(refusal(&empty), GoRefusal::Missing { .. }), "{empty:#}");
    let (cpu, _) = bench.profiles(&plain.executable, "raw/cpu");
    fs::rename(&cpu, bench.path("raw/cpu.pprof")).unwrap();
    let files = pgo.profile_files(&plain, &bench.path("raw")).snapshot().unwrap();
    assert_eq!(files.len(), 1);
    let merged = pgo.merge(&one_of(&bench.path("raw"))).unwrap();
    assert_eq!(merged.raw_files, 1);
    assert!(pgo.prove_profile(&merged, &plain).is_ok());
}

#[test]
fn a_profile_in_the_wrong_folder_is_found() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo();
    let (cpu, _) = bench.profiles(&bench.built(), "a");
    let wrong = bench.path("tiny").canonicalize().unwrap().join(DEFAULT_PGO);
    fs::copy(&cpu, &wrong).unwrap();
    let output = bench.path("ignored");
    bench.go(&["build", "-o", output.to_str().unwrap(), "./cmd/tiny"]).unwrap();
    assert_eq!(pgo.profile_of(&output).unwrap(), None, "go ignores it and says nothing");
    let error = pgo.build_auto().unwrap_err();
    assert_eq!(*refusal(&error), GoRefusal::Misplaced { found: vec![wrong], wanted: pgo.default_profile() });
}

#[test]
fn profiles_that_come_to_nothing_are_refused() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo();
    let baseline = pgo.build_baseline().unwrap();
    let (cpu, mem) = bench.profiles(&baseline.executable, "a");
    let good = read(&cpu);
    let written = |name: &str, bytes: &[u8]| {
        let path = bench.path(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let refused = |file: &Path| {
        let error =
            pgo.merge(&one_of(file)).and_then(|merged| pgo.prove_profile(&merged, &baseline)).unwrap_err();
        refusal(&error).clone()
    };

    let empty = written("empty", b"");
    bench.go_takes(&empty).expect("go takes an empty file for a profile");
    assert!(
        matches!(refused(&empty), GoRefusal::NotAProfile { reason, .. } if reason == "it is empty (0 bytes)")
    );

    let mut idle = good.clone();
    idle.samples.clear();
    let idle = written("idle", &idle.to_bytes());
    bench.go_takes(&idle).expect("go takes a profile without samples");
    assert!(matches!(refused(&idle), GoRefusal::Hollow { .. }));

    let garbage = written("garbage", b"<html>404 page not found</html>");
    bench.go_takes(&garbage).unwrap_err();
    assert!(matches!(refused(&garbage), GoRefusal::NotAProfile { .. }));

    let cut = fs::read(&cpu).unwrap();
    let cut = written("cut", &cut[..cut.len() / 2]);
    bench.go_takes(&cut).unwrap_err();
    assert!(matches!(refused(&cut), GoRefusal::NotAProfile { .. }));

    bench.go_takes(&bench.path("nowhere")).unwrap_err();
    assert!(matches!(refused(&bench.path("nowhere")), GoRefusal::Missing { .. }));

    bench.go_takes(&mem).unwrap_err();
    assert!(matches!(refused(&mem), GoRefusal::NotCpu { kinds, .. } if kinds.contains("alloc_space")));

    let mut bare = good;
    bare.functions.iter_mut().for_each(|function| function.start_line = 0);
    let bare = written("bare", &bare.to_bytes());
    bench.go_takes(&bare).unwrap_err();
    assert!(matches!(refused(&bare), GoRefusal::NoStartLines { percent: 100.0, .. }));

    bench.edit("cmd/tiny/main.go", "work(", "labour(");
    for file in ["cmd/tiny/main.go", "go.mod"] {
        bench.edit(file, "tiny.example/tiny", "other.example/other");
    }
    let other = bench.built();
    let (foreign, _) = bench.profiles(&other, "other");
    bench.copy("go-tiny", "tiny");
    bench.go_takes(&foreign).expect("go takes the profile of another program");
    let error = refused(&foreign);
    let GoRefusal::OtherProgram { lost_percent, lost, .. } = &error else { panic!("{error}") };
    assert!(
        *lost_percent > 90.0 && lost.iter().any(|name| name.contains("other.example/other/mix.")),
        "{error}"
    );
}

#[test]
fn what_is_no_program_is_told_before_a_build() {
    let Some(bench) = Bench::new() else { return };
    let error = |module: &str, package: &str| {
        let target = GoTarget::new(bench.path(module), package);
        let error = GoPgo::prepare(&bench.system, target, &bench.path("work")).err().unwrap();
        format!("{error:#}")
    };
    assert!(error("tiny", "./mix").contains("`./mix` is the package mix, which is not a program"));
    assert!(error("tiny", "./...").contains("`./...` matches 2 packages"));
    assert!(error("nowhere", ".").contains("go.mod does not exist"));
}

#[test]
fn benchmarks_run_off_against_on_in_turns() {
    let Some(bench) = Bench::new() else { return };
    let pgo = bench.pgo();
    let (cpu, _) = bench.profiles(&bench.built(), "a");
    let merged = pgo.merge(&one_of(&cpu)).unwrap();
    let plan = BenchPlan {
        packages: vec!["./...".into()],
        pattern: "Code|Size".into(),
        rounds: LEAST_ROUNDS,
        benchtime: "200x".into(),
        cpus: Some(1),
    };
    let result = pgo.bench(&plan, &merged).unwrap();
    assert!(result.incomplete.is_empty(), "{:?}", result.incomplete);
    let found: Vec<(&str, &str)> =
        result.pairs.iter().map(|pairs| (pairs.benchmark.as_str(), pairs.metric.as_str())).collect();
    let expected = [
        ("BenchmarkCode", "B/op"),
        ("BenchmarkCode", "allocs/op"),
        ("BenchmarkCode", "coded-B/op"),
        ("BenchmarkCode", "ns/op"),
        ("BenchmarkSize", "B/op"),
        ("BenchmarkSize", "allocs/op"),
        ("BenchmarkSize", "ns/op"),
    ];
    assert_eq!(found, expected);
    for pairs in &result.pairs {
        assert_eq!(pairs.package, "tiny.example/tiny/mix");
        for values in [&pairs.off, &pairs.on, &pairs.control] {
            assert_eq!(values.len(), LEAST_ROUNDS as usize);
            match pairs.metric.as_str() {
                "ns/op" => assert!(values.iter().all(|&value| value > 0.0), "{pairs:?}"),
                "coded-B/op" => assert!(values.iter().all(|&value| value == 21.0), "{pairs:?}"),
                _ => {}
            }
        }
    }
    assert_eq!(result.commands.len(), 3, "{:?}", result.commands);

    let none = pgo.bench(&BenchPlan { pattern: "Nothing".into(), ..plan.clone() }, &merged).unwrap_err();
    assert!(none.to_string().starts_with("no benchmark in ./... matches `Nothing`"), "{none:#}");
    let few = pgo.bench(&BenchPlan { rounds: 7, ..plan }, &merged).unwrap_err();
    assert!(few.to_string().starts_with("7 rounds are too few"), "{few:#}");
}

/// The example service, started; and its two addresses.
fn serve(bench: &Bench, executable: &Path) -> (Session, String, String) {
    let call = Call::new("flowd", executable, bench.dir.path());
    let mut session = bench.system.start(&call).unwrap();
    let line = session.stdout_line_matching("ready ", PLENTY).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[2], "pprof", "{line}");
    (session, words[1].to_owned(), format!("http://{}", words[3]))
}

/// Loads the service until the work is done.
fn under_load<T>(bench: &Bench, load: &Path, to: &str, format: &str, work: impl FnOnce() -> T) -> T {
    let call = Call::new("load", load, bench.dir.path())
        .args(["-to", to, "-format", format, "-seconds", "3", "-workers", "2"])
        .limit(PLENTY);
    std::thread::scope(|scope| {
        let loading = scope.spawn(|| bench.system.run(&call).unwrap().stdout_text().unwrap());
        std::thread::sleep(Duration::from_millis(300));
        let done = work();
        let said = loading.join().unwrap();
        assert!(said.contains("\"errors\":0,"), "{said}");
        done
    })
}

#[test]
fn the_example_service_is_captured_in_two_formats_and_optimised() {
    let Some(bench) = Bench::new() else { return };
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/go-service");
    let pgo = GoPgo::prepare(&bench.system, GoTarget::new(&module, "."), &bench.path("work")).unwrap();
    let loader =
        GoPgo::prepare(&bench.system, GoTarget::new(&module, "./cmd/load"), &bench.path("load")).unwrap();
    let load = loader.build_baseline().unwrap().executable;
    let baseline = pgo.build_baseline().unwrap();
    let (service, address, profiles) = serve(&bench, &baseline.executable);

    // A sample now and then is of the runtime's own housekeeping.
    let mut asked =
        (0..5).map(|_| capture(&profiles, ProfileRequest::Cpu { seconds: 1 }, &bench.path("idle")));
    let idle = asked.find_map(Result::err).expect("a second in which nothing ran");
    assert!(matches!(refusal(&idle), GoRefusal::Hollow { .. }), "{idle:#}");
    let window = ProfileRequest::Cpu { seconds: 2 };
    let formats = ["binary", "json"];
    let captured = formats.map(|format| {
        under_load(&bench, &load, &address, format, || {
            capture(&profiles, window, &bench.path(format)).unwrap()
        })
    });
    for window in &captured {
        assert!(
            window.total >= 10 && window.took_s >= 2.0 && window.url.ends_with("profile?seconds=2"),
            "{window:?}"
        );
    }
    let since_start = ProfileRequest::Allocations { seconds: None };
    let allocations = capture(&profiles, since_start, &bench.path("allocs")).unwrap();
    assert!(table(&read(&allocations.file), "alloc_space").unwrap().total > 0);
    let none = capture(
        &profiles.replace("127.0.0.1", "localhost"),
        ProfileRequest::Allocations { seconds: Some(1) },
        &bench.path("delta"),
    );
    assert!(
        none.is_ok() || matches!(refusal(none.as_ref().unwrap_err()), GoRefusal::Hollow { .. }),
        "{none:?}"
    );
    assert_eq!(service.stop(PLENTY).unwrap().status.code(), Some(0));

    let totals = captured.each_ref().map(|window| window.total);
    let weights = weights_for_shares(&totals, &[0.5, 0.5]).unwrap();
    let weighted: Vec<(PathBuf, f64)> =
        captured.iter().zip(weights).map(|(window, weight)| (window.file.clone(), weight)).collect();
    let merged = pgo.merge(&weighted).unwrap();
    let proven = pgo.prove_profile(&merged, &baseline).unwrap();
    assert!(proven.proof.hot_functions_of_target > 0, "{proven:?}");
    let both = table(&read(&merged.path), "cpu").unwrap();
    for name in ["flowd/flow.(*Binary).Uint", "flowd/flow.(*JSONLines).Uint"] {
        assert!(both.row(name).is_some_and(|row| row.cumulative > 0), "{name} is not in the merged profile");
    }

    let optimized = pgo.build_optimized(&merged).unwrap();
    let applied = pgo.prove_applied(&optimized, &baseline, &proven).unwrap();
    assert_eq!(applied.discarded_weight, 0.0, "{applied:?}");
    let (service, address, _) = serve(&bench, &optimized.executable);
    for format in formats {
        under_load(&bench, &load, &address, format, || ());
    }
    assert_eq!(service.stop(PLENTY).unwrap().status.code(), Some(0));
}

#[test]
fn the_example_kfake_speaks_kafka_and_ends_well() {
    let Some(bench) = Bench::new() else { return };
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kfake");
    let target = GoTarget::new(&module, ".");
    let built =
        GoPgo::prepare(&bench.system, target, &bench.path("work")).and_then(|pgo| pgo.build_baseline());
    let built = match built {
        Ok(built) => built,
        // Its modules are neither there nor to be had.
        Err(error) => return skip(&format!("{error:#}")),
    };
    let call = Call::new("kfake", &built.executable, bench.dir.path()).args(["-listen", "127.0.0.1:0"]);
    let mut session = bench.system.start(&call).unwrap();
    let line = session.stdout_line_matching("ready ", PLENTY).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();

    let mut kafka = TcpStream::connect(words[1]).unwrap();
    // ApiVersions, version 0, correlation id 7, no client id.
    kafka.write_all(&[0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 7, 0xff, 0xff]).unwrap();
    let mut answer = [0; 10];
    kafka.read_exact(&mut answer).unwrap();
    assert_eq!(answer[4..], [0, 0, 0, 7, 0, 0], "the correlation id and no error");
    let heap = capture(
        &format!("http://{}", words[3]),
        ProfileRequest::Allocations { seconds: None },
        &bench.path("heap"),
    );
    assert!(
        heap.is_ok() || matches!(refusal(heap.as_ref().unwrap_err()), GoRefusal::Hollow { .. }),
        "{heap:?}"
    );
    assert_eq!(session.stop(PLENTY).unwrap().status.code(), Some(0));
}
