//! BOLT with the real tools, on programs of a few lines; and every way in which it silently does nothing, or harm.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_binary::bolt::bisect::{Verdict, find_culprits};
use hone_binary::bolt::fdata::{self, FdataFault, Weighted};
use hone_binary::bolt::{
    Bolt, BoltRefusal, BoltTools, Budget, Input, InstrumentedByBolt, Origin, Rung, Samples, Wish, Writes,
    bundle,
};
use hone_binary::{BuildRequest, Builder, GivenBinary, How, ProfileForm, Refusal};
use hone_tool::{Call, Finished, Readiness, Runner, System, Tool, ToolError};

/// Long enough to never matter on a busy machine.
const PLENTY: Duration = Duration::from_secs(60);

const AT_EXIT: Writes = Writes::AtExit { for_each_process: false };

struct Bench {
    dir: tempfile::TempDir,
    system: System,
    clang: PathBuf,
    tools: BoltTools,
}

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

fn tool(name: &str) -> Option<PathBuf> {
    match Tool::new(name, "").locate(&[]) {
        Ok(found) => Some(found.path().to_path_buf()),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
}

impl Bench {
    /// With this BOLT; `None` when a tool is missing.
    fn new(major: u32) -> Option<Self> {
        let clang = tool("clang++-22")?;
        let tools = match BoltTools::find(Some(major)) {
            Ok(tools) => tools,
            Err(error) => {
                skip(&format!("{error:#}"));
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        Some(Self { dir, system, clang, tools })
    }

    /// Both versions that are known, as far as they are there.
    fn all() -> Vec<Self> {
        [19, 22].into_iter().filter_map(Self::new).collect()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn fixture(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/bolt").join(name)
    }

    fn compile(&self, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        self.compile_with(&self.clang, source, name, flags)
    }

    fn compile_with(&self, compiler: &Path, source: &str, name: &str, flags: &[&str]) -> PathBuf {
        let output = self.path(name);
        let call = Call::new("compile", compiler, self.dir.path())
            .args(["-g0", "-Wno-deprecated", "-o"])
            .arg(&output);
        let call = call.args(flags.iter().copied()).arg(Self::fixture(source));
        self.system.run(&call.produces(&output)).unwrap();
        output
    }

    /// The toy with its relocations.
    fn toy(&self) -> PathBuf {
        self.compile("toy.cpp", "toy", &["-O2", "-Wl,-q"])
    }

    fn bolt(&self) -> Bolt<'_> {
        Bolt::prepare(&self.system, self.tools.clone(), &self.path("work"), Budget::default()).unwrap()
    }

    fn run(&self, program: &Path, args: &[&str]) -> Result<Finished, ToolError> {
        self.system.run(&Call::new("toy", program, self.dir.path()).args(args.iter().copied()))
    }

    fn output(&self, program: &Path, args: &[&str]) -> String {
        self.run(program, args).unwrap().stdout_text().unwrap()
    }

    fn train(&self, bolt: &Bolt<'_>, input: &Input) -> InstrumentedByBolt {
        let instrumented = bolt.instrument(input, AT_EXIT).unwrap();
        self.run(&instrumented.executable, &["20000"]).unwrap();
        instrumented
    }
}

/// All processes of this program, including those that other tests started.
fn running(program: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes.filter(|process| fs::read_link(process.join("exe")).is_ok_and(|file| file == program)).collect()
}

fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> BoltRefusal {
    let error = result.unwrap_err();
    match error.downcast_ref() {
        Some(Refusal::Bolt(refusal)) => refusal.clone(),
        _ => panic!("no refusal of BOLT: {error:#}"),
    }
}

/// They are what Hone's own flags add to a file, and cost no run anything.
#[test]
fn relocations_and_debug_sections_are_not_loaded() {
    use hone_binary::{file_facts, loaded_bytes};
    let Some(bench) = Bench::new(22) else { return };
    let stripped = bench.compile("toy.cpp", "stripped", &["-O2", "-s"]);
    let rich = bench.compile("toy.cpp", "rich", &["-O2", "-g3", "-Wl,--emit-relocs"]);
    let lengths = [&stripped, &rich].map(|program| file_facts(program).unwrap().file_bytes as f64);
    assert!(lengths[1] > 3.0 * lengths[0], "more than a guard metric allows: {lengths:?}");
    let loaded = [&stripped, &rich].map(|program| loaded_bytes(program).unwrap() as f64);
    assert!((loaded[1] / loaded[0] - 1.0).abs() < 0.05, "{loaded:?}");
    assert!(loaded[0] <= lengths[0], "{loaded:?} of {lengths:?}");
}

/// A program from another linker run is copied, rewritten, and then used like any other variant.
#[test]
fn a_finished_program_becomes_a_variant() {
    let Some(bench) = Bench::new(22) else { return };
    let toy = bench.toy();
    let shop = GivenBinary::prepare(&toy, &bench.path("shop")).unwrap();
    let plain = shop.build(&BuildRequest::plain("baseline").with_relocs()).unwrap();
    let bolt = bench.bolt();
    let input = Input::look(&plain.executable).unwrap();
    let instrumented = bench.train(&bolt, &input);
    let profile = bolt.prove_profile(&input, &instrumented.profile, false).unwrap();
    let optimized = bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
    let built = optimized.clone().built("bolt", &plain);
    assert_eq!((built.variant.as_str(), &built.executable), ("bolt", &optimized.executable));
    assert_eq!(built.commands, [plain.commands[0].clone(), optimized.command.clone()]);
    let How::Bolt { from_sha256, said, .. } = &built.how else { panic!("{built:?}") };
    assert_eq!((from_sha256, &**said), (&plain.facts.sha256, &optimized.said));
    assert!(built.stderr_paths.iter().any(|log| fs::read_to_string(log).unwrap().contains("BOLT-INFO")));
    assert_eq!(shop.artifact(&built, None).sha256, optimized.facts.sha256);
    assert_eq!(bench.output(&built.executable, &["2000"]), bench.output(&toy, &["2000"]));
}

#[test]
fn the_whole_chain_with_each_bolt() {
    for bench in Bench::all() {
        let toy = bench.toy();
        let bolt = bench.bolt();
        let input = Input::look(&toy).unwrap();
        assert!(input.anatomy.relocations && input.anatomy.build_id.is_some());
        assert_eq!(input.warnings, []);
        let instrumented = bench.train(&bolt, &input);
        let address = instrumented.said.dump_address.unwrap();
        assert!(address > 0 && instrumented.said.reset_address.is_some());
        let left = bolt.left_by(&instrumented).unwrap();
        let profile = bolt.prove_profile(&input, &left[0], false).unwrap();
        assert!(profile.noted && profile.known > 0.9, "{profile:?}");
        assert!(profile.counts.functions.contains_key("_ZL4stepmm"), "a local function is known by its name");

        let plain = bench.output(&toy, &["50000"]);
        for rung in Rung::LADDER {
            let done = bolt.optimize(&input, &profile, &Wish::new(rung)).unwrap();
            assert!(done.said.layout_modified.unwrap() >= 2, "{rung:?}");
            assert_eq!(bench.output(&done.executable, &["50000"]), plain, "{rung:?}");
            assert_eq!(done.said.split.is_some(), rung < Rung::LayoutOnly, "{rung:?}");
            let taken = done.said.dyno_stats.iter().find(|row| row.name == "taken branches").unwrap();
            assert!(taken.after < taken.before, "{taken:?}");
        }
        let all = bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
        let wish = Wish { skip: vec!["_ZL4stepmm".into()], ..Wish::new(Rung::Full) };
        let without = bolt.optimize(&input, &profile, &wish).unwrap();
        let profiled = |said: &hone_binary::bolt::Said| said.profiled_functions.unwrap().of_them;
        assert_eq!(
            profiled(&without.said) + 1,
            profiled(&all.said),
            "exactly the named function is left alone"
        );
    }
}

#[test]
fn programs_that_bolt_would_refuse_or_leave_as_they_are_are_found_before() {
    let Some(bench) = Bench::new(22) else { return };
    let toy = bench.toy();
    let look = |path: &Path| refusal(Input::look(path).map(|_| ()));

    let without = bench.compile("toy.cpp", "without", &["-O2"]);
    let said = look(&without);
    assert!(
        matches!(said, BoltRefusal::NoRelocations { .. }) && said.to_string().contains("-Wl,--emit-relocs")
    );
    let stripped = bench.compile("toy.cpp", "stripped", &["-O2", "-s"]);
    assert!(matches!(look(&stripped), BoltRefusal::Stripped { .. }));
    fs::write(bench.path("script"), "#!/bin/sh\n").unwrap();
    assert!(matches!(look(&bench.path("script")), BoltRefusal::NoProgram { .. }));

    let (bolt, input) = (bench.bolt(), Input::look(&toy).unwrap());
    let instrumented = bench.train(&bolt, &input);
    assert!(matches!(look(&instrumented.executable), BoltRefusal::AlreadyBolted { instrumented: true, .. }));
    let profile = bolt.prove_profile(&input, &instrumented.profile, false).unwrap();
    let done = bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
    assert!(matches!(look(&done.executable), BoltRefusal::AlreadyBolted { instrumented: false, .. }));

    let fixed = bench.compile("toy.cpp", "fixed", &["-O2", "-Wl,-q", "-no-pie", "-Wl,--build-id=none"]);
    let fixed = Input::look(&fixed).unwrap();
    assert!(
        !fixed.anatomy.position_independent
            && !fixed.anatomy.static_link
            && input.anatomy.position_independent
    );
    assert!(fixed.warnings[0].mend.contains("--build-id"));
    let profile = bench.train(&bolt, &fixed).profile;
    let profile = bolt.prove_profile(&fixed, &profile, false).unwrap();
    bolt.optimize(&fixed, &profile, &Wish::new(Rung::Full)).unwrap();
}

/// BOLT calls functions without a symbol by their addresses.
#[test]
fn a_program_without_its_local_symbols_takes_its_profile() {
    for bench in Bench::all() {
        let toy = bench.compile("toy.cpp", "discarded", &["-O2", "-Wl,-q", "-Wl,--discard-all"]);
        let (bolt, input) = (bench.bolt(), Input::look(&toy).unwrap());
        let profile = bench.train(&bolt, &input).profile;
        let profile = bolt.prove_profile(&input, &profile, false).unwrap();
        let nameless = profile.counts.functions.keys().filter(|name| name.starts_with("__BOLT_FDE_FUNCat"));
        assert!(nameless.count() > 0 && profile.known > 0.9, "{profile:?}");
        bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
    }
}

#[test]
fn a_static_program_must_write_every_few_seconds() {
    let Some(bench) = Bench::new(22) else { return };
    let fixed = bench.compile("fragile.c", "static", &["-x", "c", "-O1", "-Wl,-q", "-static"]);
    let input = Input::look(&fixed).unwrap();
    assert!(input.anatomy.static_link, "{:?}", input.anatomy);
    assert!(input.warnings.iter().any(|warning| warning.what.contains("static")));
    assert!(matches!(
        refusal(bench.bolt().instrument(&input, AT_EXIT)),
        BoltRefusal::StaticNeedsPeriod { .. }
    ));
    bench.bolt().instrument(&input, Writes::Every { seconds: 1 }).unwrap();
    let anywhere = bench.compile("fragile.c", "static-pie", &["-x", "c", "-O1", "-Wl,-q", "-static-pie"]);
    let anatomy = Input::look(&anywhere).unwrap().anatomy;
    assert!(anatomy.static_link && anatomy.position_independent, "{anatomy:?}");
}

#[test]
fn gcc_splits_and_computed_gotos_are_warned_of_with_the_flag() {
    let Some(bench) = Bench::new(22) else { return };
    let Some(gcc) = tool("g++") else { return };
    let split = Input::look(&bench.compile_with(&gcc, "toy.cpp", "split", &["-O2", "-Wl,-q"])).unwrap();
    assert!(
        split.anatomy.cold_parts > 0 && split.warnings[0].mend.contains("-fno-reorder-blocks-and-partition")
    );
    let flags = ["-O2", "-Wl,-q", "-fno-reorder-blocks-and-partition"];
    let whole = Input::look(&bench.compile_with(&gcc, "toy.cpp", "whole", &flags)).unwrap();
    assert_eq!((whole.anatomy.cold_parts, whole.warnings), (0, vec![]));
    let tiny = hone_binary::bolt::preflight::anatomy(&Bench::fixture("tiny.elf")).unwrap();
    assert_eq!(tiny.computed_gotos, ["step"]);
}

/// BOLT 19 ends with 1 on a table of labels; it is found before, and the function left alone. BOLT 22 moves it.
#[test]
fn computed_gotos_are_left_alone_where_bolt_can_not_move_them() {
    for bench in Bench::all() {
        let program = bench.compile("goto.c", "goto", &["-x", "c", "-O2", "-Wl,-q"]);
        let (bolt, input) = (bench.bolt(), Input::look(&program).unwrap());
        assert_eq!(input.anatomy.computed_gotos, ["run"]);
        let instrumented = bolt.instrument(&input, AT_EXIT).unwrap();
        bench.run(&instrumented.executable, &["10000"]).unwrap();
        let profile = bolt.prove_profile(&input, &instrumented.profile, false).unwrap();
        match bolt.optimize(&input, &profile, &Wish::new(Rung::Full)) {
            Ok(done) => {
                assert_eq!(done.skipped.is_empty(), bench.tools.major >= 22);
                assert_eq!(bench.output(&done.executable, &["500"]), bench.output(&program, &["500"]));
            }
            // Without its interpreter the program has next to nothing left to lay out.
            Err(error) => {
                assert!(bench.tools.major < 22, "{error:#}");
                assert!(matches!(refusal(Err::<(), _>(error)), BoltRefusal::LayoutUnchanged));
            }
        }
    }
}

#[test]
fn what_a_training_can_leave_behind_is_refused_with_the_reason() {
    let Some(bench) = Bench::new(22) else { return };
    let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
    let instrumented = bolt.instrument(&input, AT_EXIT).unwrap();
    for end in ["k", "x"] {
        let _ = bench.run(&instrumented.executable, &["1000", end]);
        let nothing = refusal(bolt.left_by(&instrumented));
        assert!(matches!(nothing, BoltRefusal::Fdata(FdataFault::Empty { .. })), "{nothing}");
    }
    bench.run(&instrumented.executable, &["1000"]).unwrap();
    assert_eq!(bolt.left_by(&instrumented).unwrap().len(), 1);
    let again = bolt.instrument(&input, AT_EXIT).unwrap();
    assert!(bolt.left_by(&again).is_err(), "the counts of an earlier training are excluded");
    let each = bolt.instrument(&input, Writes::AtExit { for_each_process: true }).unwrap();
    bench.run(&each.executable, &["1000"]).unwrap();
    bench.run(&each.executable, &["2000"]).unwrap();
    let files = bolt.left_by(&each).unwrap();
    assert_eq!(files.len(), 2);
    let weighted: Vec<Weighted> =
        files.iter().map(|file| Weighted { file: file.clone(), weight: 2.0 }).collect();
    let sum = bench.path("sum.fdata");
    let merged = bolt.merge(&input, &weighted, &sum).unwrap();
    assert_eq!(merged.total, 2 * merged.files.iter().map(|file| file.total).sum::<u64>());
    let profile = bolt.prove_profile(&input, &sum, false).unwrap();
    bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
}

/// Killed, and still a profile: written every second, with the counts from the start on.
#[test]
fn a_killed_program_leaves_what_it_wrote_while_it_ran() {
    let Some(bench) = Bench::new(22) else { return };
    let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
    let instrumented = bolt.instrument(&input, Writes::Every { seconds: 1 }).unwrap();
    let killed = bench.run(&instrumented.executable, &["20000", "s"]).unwrap_err();
    assert!(matches!(killed, ToolError::Failed { .. } | ToolError::Died { .. }), "{killed}");
    let left = bolt.left_by(&instrumented).unwrap();
    let profile = bolt.prove_profile(&input, &left[0], false).unwrap();
    assert!(
        profile.counts.total > 100_000,
        "idle for seconds, and the counts are still there: {}",
        profile.counts.total
    );
    bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
}

#[test]
fn profiles_that_bolt_takes_without_a_word_are_refused() {
    for bench in Bench::all() {
        let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
        let good = bench.train(&bolt, &input).profile;
        let full = Wish::new(Rung::Full);

        // Of another build of the same source: by the note, and, for one who vouches for it, by BOLT's count.
        let other = Input::look(&bench.compile("toy.cpp", "other", &["-O1", "-Wl,-q"])).unwrap();
        assert!(matches!(refusal(bolt.prove_profile(&other, &good, false)), BoltRefusal::OtherBuild { .. }));
        let copy = bench.path("copy.fdata");
        fs::copy(&good, &copy).unwrap();
        let unknown = refusal(bolt.prove_profile(&other, &copy, false));
        assert!(
            matches!(&unknown, BoltRefusal::UnknownOrigin { note, .. } if *note == Origin::note(&copy)),
            "{unknown}"
        );
        let vouched = bolt.prove_profile(&other, &copy, true).unwrap();
        assert!(!vouched.noted);
        let stale = refusal(bolt.optimize(&other, &vouched, &full));
        assert!(matches!(stale, BoltRefusal::Stale { share, .. } if share > 0.3), "{stale}");

        // Of another program.
        fs::write(&copy, "1 someone 10 1 else 0 0 1000\n1 main 0 1 main 1 0 1\n").unwrap();
        let foreign = refusal(bolt.prove_profile(&input, &copy, true));
        assert!(matches!(foreign, BoltRefusal::OtherProgram { known, .. } if known < 0.01), "{foreign}");
        let anyhow = Budget { known_counts: 0.0, stale_samples: 1.0 };
        let careless =
            Bolt::prepare(&bench.system, bench.tools.clone(), &bench.path("careless"), anyhow).unwrap();
        fs::write(&copy, "1 someone 10 1 else 0 0 1000\n").unwrap();
        let nothing = careless.prove_profile(&input, &copy, true).unwrap();
        let nothing = refusal(careless.optimize(&input, &nothing, &full));
        assert!(matches!(nothing, BoltRefusal::NothingProfiled { of: 15.. }), "{nothing}");

        // One that says nothing about the order of any block.
        fs::write(&copy, "1 _ZL4stepmm/1 0 1 _ZL4stepmm/1 0 0 1\n").unwrap();
        let thin = careless.prove_profile(&input, &copy, true).unwrap();
        let thin = refusal(careless.optimize(&input, &thin, &Wish::new(Rung::LayoutOnly)));
        assert!(matches!(thin, BoltRefusal::LayoutUnchanged | BoltRefusal::NothingProfiled { .. }), "{thin}");

        // One in which branches stand behind memory records: BOLT stops there. Merged, they stand in its order.
        let text = fs::read_to_string(&good).unwrap();
        let first = text.lines().next().unwrap();
        fs::write(&copy, format!("{first}\n4 main 10 4 table 20 5\n{text}")).unwrap();
        let part = bolt.prove_profile(&input, &copy, true).unwrap();
        assert_eq!(refusal(bolt.optimize(&input, &part, &full)), BoltRefusal::ReadInPart { line: 3 });
        let ordered = bench.path("ordered.fdata");
        bolt.merge(&input, &[Weighted { file: copy.clone(), weight: 1.0 }], &ordered).unwrap();
        let of_nobody = refusal(bolt.prove_profile(&input, &ordered, false));
        assert!(
            matches!(of_nobody, BoltRefusal::UnknownOrigin { .. }),
            "a merge makes no origin: {of_nobody}"
        );
        let whole = bolt.prove_profile(&input, &ordered, true).unwrap();
        bolt.optimize(&input, &whole, &full).unwrap();

        // Broken ones.
        let text = fs::read(&good).unwrap();
        for (bytes, what) in
            [(&b""[..], "empty"), (b"garbage\n", "not a kind of place"), (&text[..text.len() - 3], "cut off")]
        {
            fs::write(&copy, bytes).unwrap();
            let broken = refusal(bolt.prove_profile(&input, &copy, true));
            assert!(matches!(broken, BoltRefusal::Fdata(_)), "{broken}");
            assert!(broken.to_string().contains(what) || bytes.is_empty(), "{broken}");
        }
    }
}

/// Addresses that some other sampler has added up; 19 takes branches only.
fn added_up(bench: &Bench, bolt: &Bolt<'_>, input: &Input, toy: &Path) {
    let nm = Call::new("nm", bench.tools.bolt.with_file_name("llvm-nm"), bench.dir.path()).arg(toy);
    let listed = bench.system.run(&nm).unwrap().stdout_text().unwrap();
    let functions =
        listed.lines().filter_map(|line| line.split_once(" T ").or_else(|| line.split_once(" t ")));
    let samples: String = functions.map(|(at, _)| format!("S {} 70\n", at.trim_start_matches('0'))).collect();
    let (addresses, branches) = (bench.path("addresses.txt"), bench.path("branches.txt"));
    fs::write(&addresses, format!("E cpu-clock\n{samples}")).unwrap();
    assert_eq!(ProfileForm::detect(&addresses), Ok(ProfileForm::AddedUpAddresses));
    let converted = bolt.convert(input, &addresses, ProfileForm::AddedUpAddresses.to_convert().unwrap());
    if bench.tools.major < 22 {
        assert!(matches!(refusal(converted), BoltRefusal::TooOld { needed: 22, .. }));
    } else {
        let proven = bolt.prove_profile(input, &converted.unwrap(), false).unwrap();
        assert!(proven.counts.total >= 70, "{:?}", proven.counts);
    }
    let at = samples.lines().next().unwrap().split(' ').nth(1).unwrap();
    fs::write(&branches, format!("B {at} {at} 50 0\nF {at} {at} 50\n")).unwrap();
    assert_eq!(ProfileForm::detect(&branches), Ok(ProfileForm::AddedUpBranches));
    bolt.convert(input, &branches, Samples::AddedUpBranches).unwrap();
}

#[test]
fn samples_of_a_machine_without_branch_records() {
    let Some(perf) = tool("perf") else { return };
    for bench in Bench::all() {
        let toy = bench.toy();
        let (bolt, input) = (bench.bolt(), Input::look(&toy).unwrap());
        let data = bench.path("perf.data");
        let record = Call::new("record", &perf, bench.dir.path()).args([
            "record",
            "-e",
            "cpu-clock:u",
            "-F",
            "4000",
            "-o",
        ]);
        let record = record.arg(&data).arg("--").arg(&toy).arg("5000000").produces(&data);
        if let Err(error) = bench.system.run(&record) {
            return skip(&format!("perf can't record here: {error}"));
        }
        let lacking = refusal(bolt.convert(&input, &data, Samples::Branches));
        assert!(matches!(lacking, BoltRefusal::NoBranchRecords { .. }), "{lacking}");
        let profile = bolt.convert(&input, &data, Samples::Plain).unwrap();
        let proven = bolt.prove_profile(&input, &profile, false).unwrap();
        assert_eq!(proven.counts.head.samples.as_deref(), Some(&["cpu-clock:u:".to_owned()][..]));
        let done = bolt.optimize(&input, &proven, &Wish::new(Rung::Full)).unwrap();
        assert_eq!(bench.output(&done.executable, &["5000"]), bench.output(&toy, &["5000"]));
        // perf's own data: BOLT takes it for a profile, finds nothing in it, and ends well.
        let raw = refusal(bolt.prove_profile(&input, &data, true));
        assert!(matches!(raw, BoltRefusal::Fdata(_)), "{raw}");
        added_up(&bench, &bolt, &input, &toy);
        let other = Input::look(&bench.compile("toy.cpp", "other", &["-O1", "-Wl,-q"])).unwrap();
        assert!(bolt.convert(&other, &data, Samples::Plain).is_err(), "perf's data knows the build-id");
        let left = fs::read_dir(bench.path("work/sampled")).unwrap().count();
        assert_eq!(left, 2, "the profile and its note, and no temporary files");
    }
}

/// Sums are those of merge-fdata on a profile that BOLT itself wrote.
#[test]
fn merged_as_merge_fdata_does() {
    let Some(bench) = Bench::new(22) else { return };
    let merge_fdata = bench.tools.bolt.with_file_name("merge-fdata");
    let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
    let instrumented = bolt.instrument(&input, Writes::AtExit { for_each_process: true }).unwrap();
    ["1000", "5000", "300"]
        .iter()
        .for_each(|rounds| drop(bench.run(&instrumented.executable, &[rounds]).unwrap()));
    let files = bolt.left_by(&instrumented).unwrap();
    let theirs = bench.path("theirs");
    let call = Call::new("merge-fdata", merge_fdata, bench.dir.path()).arg("-o").arg(&theirs).args(&files);
    bench.system.run(&call.produces(&theirs)).unwrap();
    let weighted: Vec<Weighted> = files.into_iter().map(|file| Weighted { file, weight: 1.0 }).collect();
    let ours = bench.path("ours");
    fdata::merge(&weighted, &ours).unwrap();
    let sorted = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
}

/// BOLT moves two functions apart whose program wants them side by side: refused by its own check, bisected to the two,
/// and delivered with them left alone.
#[test]
fn a_program_that_bolt_breaks_is_delivered_without_the_culprits() {
    let Some(bench) = Bench::new(22) else { return };
    let fragile = bench.compile("fragile.c", "fragile", &["-x", "c", "-O2", "-fno-inline", "-Wl,-q"]);
    let (bolt, input) = (bench.bolt(), Input::look(&fragile).unwrap());
    let instrumented = bolt.instrument(&input, AT_EXIT).unwrap();
    // Instrumented code is moved, too; ten rounds are few enough for it not to look.
    bench.run(&instrumented.executable, &["10"]).unwrap();
    let profile = bolt.prove_profile(&input, &instrumented.profile, false).unwrap();
    let works = |skip: &[String]| -> anyhow::Result<bool> {
        let wish = Wish { skip: skip.to_vec(), ..Wish::new(Rung::Full) };
        Ok(bench.run(&bolt.rewrite(&input, &profile, &wish)?.executable, &["1000"]).is_ok())
    };
    assert!(!works(&[]).unwrap(), "BOLT breaks it");
    let mut candidates: Vec<(u64, String)> =
        profile.counts.functions.iter().map(|(name, count)| (count.heat(), name.clone())).collect();
    candidates.sort();
    let candidates: Vec<String> = candidates.into_iter().map(|(_, name)| name).collect();
    let found = find_culprits(&candidates, 40, works).unwrap();
    let Verdict::Culprits(mut culprits) = found.verdict else { panic!("{found:?}") };
    culprits.sort();
    assert_eq!(culprits, ["first", "second"]);

    let wish = Wish { skip: culprits.clone(), ..Wish::new(Rung::Full) };
    let delivered = bolt.optimize(&input, &profile, &wish).unwrap();
    assert_eq!(bench.output(&delivered.executable, &["1000"]), bench.output(&fragile, &["1000"]));

    let broken = bolt.optimize(&input, &profile, &Wish::new(Rung::Full)).unwrap();
    let folder = bench.path("report");
    let report = bundle::Bundle {
        trouble: "it ends with 3",
        bolt: &bolt,
        // What is left alone from the start must be left alone by the command, too.
        wish: &Wish { skip: vec!["main".to_owned()], ..Wish::new(Rung::Full) },
        input: &input,
        profile: &profile.path,
        culprits: &culprits,
        said: &broken.said,
    };
    assert_eq!(bundle::write(&folder, &report).unwrap().len(), 6);
    let readme = fs::read_to_string(folder.join("README.txt")).unwrap();
    assert!(
        readme.contains(input.anatomy.build_id.as_deref().unwrap()) && readme.contains("LLVM version 22")
    );
    assert!(readme.contains("(functions.txt): first, second"));
    assert!(readme.contains("(skip-funcs.txt): main"), "{readme}");
    assert!(fs::read_to_string(folder.join("command.sh")).unwrap().contains("report/skip-funcs.txt"));
    // The run's own files may be gone by then.
    fs::remove_file(&profile.path).unwrap();
    bench.run(&folder.join("command.sh"), &[]).unwrap();
    assert!(
        bench.run(&folder.join("fragile"), &["1000"]).is_err(),
        "the command makes the broken program again"
    );
    assert!(bundle::write(&folder, &report).is_err(), "a report is not overwritten");
}

/// BOLT's runtime needs its program's file and its profile's folder until the end. Without them it writes nothing, and ends
/// the program with 1 after all its work.
#[test]
fn a_profile_that_could_not_be_written_is_missed() {
    for bench in Bench::all() {
        let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
        let instrumented = bolt.instrument(&input, AT_EXIT).unwrap();
        let missed = || {
            let nothing = refusal(bolt.left_by(&instrumented));
            assert!(matches!(nothing, BoltRefusal::Fdata(FdataFault::Empty { .. })), "{nothing}");
        };
        // A folder in the profile's place.
        fs::create_dir(&instrumented.profile).unwrap();
        bench.run(&instrumented.executable, &["1000"]).unwrap_err();
        missed();
        fs::remove_dir(&instrumented.profile).unwrap();
        // The program replaced while it runs, as a deployment would.
        let gone = bench.path("gone");
        fs::copy(&instrumented.executable, &gone).unwrap();
        // As soon as it runs, and long before its end on whatever machine.
        let delete = "\"$0\" 20000000 & until [ \"$(readlink /proc/$!/exe)\" = \"$0\" ]; do :; done; rm \"$0\" && wait $!";
        let gone = fs::canonicalize(gone).unwrap();
        bench.run(Path::new("/bin/sh"), &["-c", delete, gone.to_str().unwrap()]).unwrap_err();
        missed();
    }
}

/// Three planted BOLTs: one that copies its input, one that gives back something else, one without its runtime.
#[test]
fn a_bolt_that_says_the_right_words_must_have_done_the_work_too() {
    let Some(bench) = Bench::new(22) else { return };
    let input = Input::look(&bench.toy()).unwrap();
    let profile = bench.train(&bench.bolt(), &input).profile;
    let other = bench.compile("toy.cpp", "other", &["-O1", "-Wl,-q"]);
    let other_input = Input::look(&other).unwrap();
    let bolt = bench.bolt();
    let other_profile = bench.train(&bolt, &other_input).profile;
    let other_profile = bolt.prove_profile(&other_input, &other_profile, false).unwrap();
    let bolted = bolt.optimize(&other_input, &other_profile, &Wish::new(Rung::Full)).unwrap().executable;

    let words = Bench::fixture("optimize-22.txt");
    let outcome = |name: &str, copied: &str| {
        let folder = bench.path(name);
        fs::create_dir_all(&folder).unwrap();
        let script = format!("#!/bin/sh\ncat {}\ncp {copied} \"$3\"\n", words.display());
        let tool = folder.join("llvm-bolt");
        fs::write(&tool, script).unwrap();
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let tools = BoltTools { bolt: tool, ..bench.tools.clone() };
        let planted = Bolt::prepare(&bench.system, tools, &folder.join("work"), Budget::default()).unwrap();
        let proven = planted.prove_profile(&input, &profile, true);
        let shaped = proven.and_then(|proven| planted.optimize(&input, &proven, &Wish::new(Rung::Full)));
        (refusal(shaped), refusal(planted.instrument(&input, AT_EXIT)))
    };
    let (copied, no_runtime) = outcome("copies", "\"$1\"");
    assert!(matches!(copied, BoltRefusal::NotWritten { what: "has no mark of BOLT", .. }), "{copied}");
    assert!(
        matches!(no_runtime, BoltRefusal::NoRuntime { major: 22, .. })
            && no_runtime.to_string().contains("libbolt-22-dev"),
        "{no_runtime}"
    );
    let (foreign, _) = outcome("swaps", bolted.to_str().unwrap());
    assert!(
        matches!(foreign, BoltRefusal::NotWritten { what, .. } if what.contains("not made from this input")),
        "{foreign}"
    );
}

/// BOLT's writer is a child of the program, and that of 19 goes on, at full speed, when its parent is killed.
#[test]
fn nothing_is_left_running_of_a_killed_program_that_writes_every_second() {
    for bench in Bench::all() {
        let (bolt, input) = (bench.bolt(), Input::look(&bench.toy()).unwrap());
        let instrumented = bolt.instrument(&input, Writes::Every { seconds: 1 }).unwrap();
        let call = Call::new("toy", &instrumented.executable, bench.dir.path()).arg("1000000000000");
        let mut session = bench.system.start(&call).unwrap();
        let written = || match instrumented.profile.metadata() {
            Ok(facts) if facts.len() > 0 => Readiness::Ready,
            _ => Readiness::NotYet("its profile".to_owned()),
        };
        session.wait_until(PLENTY, written).unwrap();
        assert_eq!(running(&instrumented.executable).len(), 2, "the program and its writer");
        session.signal(libc::SIGKILL);
        let gone = session.wait_until(PLENTY, || Readiness::NotYet("its end".to_owned())).unwrap_err();
        assert!(matches!(gone, ToolError::Died { .. }), "{gone}");
        assert_eq!(running(&instrumented.executable), [] as [PathBuf; 0]);
        bolt.prove_profile(&input, &bolt.left_by(&instrumented).unwrap()[0], false).unwrap();
    }
}

/// BOLT stops at Rust's older names of what lies in a module `cold`, and takes the newer ones.
#[test]
fn a_module_that_is_called_cold_needs_the_newer_names() {
    for bench in Bench::all() {
        let Some(rustc) = tool("rustc") else { return };
        fs::write(
            bench.path("store.rs"),
            "mod cold {\n    pub struct Store(pub u64);\n    impl Iterator for Store {\n        type Item = u64;\n        \
             #[inline(never)]\n        fn next(&mut self) -> Option<u64> {\n            self.0 = (0..self.0 % 89).fold(self.0, |sum, at| sum \
             ^ (at << 3));\n            Some(self.0)\n        }\n    }\n}\nfn main() {\n    println!(\"{:?}\", cold::Store(77).next());\n}\n",
        )
        .unwrap();
        let built = |name: &str, version: &str| {
            let mangling = format!("-Csymbol-mangling-version={version}");
            let call = Call::new("rustc", &rustc, bench.dir.path())
                .args(["-O", "-Clink-arg=-Wl,--emit-relocs", "-o", name, "store.rs"])
                .arg(mangling)
                .args(if version == "legacy" { &["-Zunstable-options"][..] } else { &[] }.iter().copied())
                .env("RUSTC_BOOTSTRAP", "1");
            bench.system.run(&call.produces(bench.path(name))).unwrap();
            bench.path(name)
        };
        let older = built("older", "legacy");
        let refused = refusal(Input::look(&older));
        assert!(matches!(refused, BoltRefusal::TakenForPart { .. }), "{refused}");
        // And BOLT itself does stop there.
        let call =
            Call::new("bolt", &bench.tools.bolt, bench.dir.path()).arg(&older).args(["-o", "older.bolt"]);
        let ToolError::Failed { scene, .. } = bench.system.run(&call).unwrap_err() else { panic!() };
        assert!(scene.stderr.join("\n").contains("parent function not found"), "{scene}");
        let newer = built("newer", "v0");
        let input = Input::look(&newer).unwrap();
        bench.bolt().instrument(&input, AT_EXIT).unwrap();
    }
}
