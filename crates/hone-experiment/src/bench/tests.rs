//! Targets of known cost, with real processes: `fixtures/spinner`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use hone_binary::capture::ProfileKind;
use hone_broker::{Broker, Settings};
use hone_load::Security;
use hone_record::Metric;
use hone_tool::{Session, System};

use super::*;
use crate::arm::Ways;
use crate::folder::RunFolder;
use crate::meter::Metrics;
use crate::ready::Ready;
use crate::slow::slow_down;

/// Long enough for a busy machine; no test waits for it.
const PLENTY: Duration = Duration::from_secs(60);

pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

pub(crate) struct Lab {
    pub(crate) folder: RunFolder,
    pub(crate) system: System,
    pub(crate) progress: Progress,
    /// Drives any target.
    pub(crate) driver: PathBuf,
    dir: tempfile::TempDir,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(dir.path(), "run").unwrap();
        let system = System::new(folder.join("logs")).unwrap();
        let lab =
            Self { folder, system, progress: Progress::new(true), driver: dir.path().join("driver"), dir };
        lab.spinner("driver", 1_000, &[]);
        lab
    }

    /// Builds a spinner with this much work per operation.
    pub(crate) fn spinner(&self, name: &str, work: u32, flags: &[&str]) -> PathBuf {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/spinner/spinner.rs");
        let path = self.dir.path().join(name);
        let call = Call::new("build", "rustc", self.dir.path())
            .args(["--edition", "2024", "-Copt-level=2", "-o"])
            .arg(&path)
            .args(flags.iter().copied())
            .arg(source)
            .env("SPINNER_WORK", work.to_string());
        self.system.run(&call.produces(&path)).unwrap();
        path
    }

    pub(crate) fn bench(&self) -> Bench<'_> {
        Bench {
            runner: &self.system,
            scratch: self.folder.scratch(),
            storage: "unstated".to_owned(),
            lateness_limit_us: 1e6,
            progress: &self.progress,
        }
    }

    pub(crate) fn arm(&self, name: &str, path: &Path, args: &str, ways: Ways) -> Arm {
        let program = Program {
            path: path.to_owned(),
            args: if args.is_empty() { Vec::new() } else { words(args) },
            env: BTreeMap::new(),
            address: "127.0.0.1:{port}".to_owned(),
            ready_timeout: PLENTY,
            stop_timeout: PLENTY,
            ways: Box::new(ways),
        };
        Arm {
            name: name.to_owned(),
            place: Place::Program(program),
            security: Security::default(),
            metrics: Metrics::default(),
        }
    }

    pub(crate) fn ways(&self, ready: Ready) -> Ways {
        let stop = Some(words("./driver ask {port} stop"));
        Ways { folder: self.dir.path().to_owned(), ready, stop, ..Ways::default() }
    }

    pub(crate) fn server(&self, name: &str, path: &Path) -> Arm {
        self.arm(name, path, "serve {port} {data}", self.ways(Ready::Port))
    }
}

fn up(subject: &Subject) -> &Running {
    subject.running.as_ref().unwrap()
}

pub(crate) fn tool(operations: u64) -> Workload {
    let engine = Engine::Tool {
        command: words("./driver drive {port} {operations}"),
        operations,
        populate: Some(words("./driver ask {port} fill")),
        warmup: Some(words("./driver drive {port} 5")),
    };
    Workload::of_operations("judge", engine)
}

#[test]
fn a_command_makes_a_window_of_exactly_its_operations() {
    let lab = Lab::new();
    let bench = lab.bench();
    let mut subject = bench.subject(&lab.server("A", &lab.driver), &tool(200)).unwrap();
    let count = |subject: &Subject| {
        let call = up(subject).call("count", &words("./driver ask {port} count"), &[]).unwrap();
        lab.system.run(&call).unwrap().stdout_text().unwrap().trim().to_owned()
    };
    assert_eq!(count(&subject), "0", "it was filled, and not yet warmed");
    let window = bench.window(&mut subject, &tool(200)).unwrap();
    assert_eq!(count(&subject), "205");
    bench.window(&mut subject, &tool(100)).unwrap();
    assert_eq!(count(&subject), "305", "it is warmed once");

    assert_eq!(window.outcome, Outcome::Steady);
    let facts = &window.facts;
    assert_eq!((facts.requests, facts.acked_requests, facts.acked_records), (200, 200, 200));
    assert_eq!(facts.reached_requests_per_s, 200.0 / window.duration_s);
    assert_eq!(window.address, up(&subject).address);
    assert_eq!(subject.fill("127.0.0.1:{port}"), up(&subject).address);
    for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::UserCpuPerRecord) {
        let is_told = !metric.is_latency() && ![Metric::Capacity, Metric::BusyPerRecord].contains(&metric);
        assert_eq!(window.value(metric).is_some(), is_told, "{metric:?}");
    }
    let cpu_s = facts.target_cpu.unwrap().total_s;
    assert!(cpu_s > 0.0 && cpu_s < window.duration_s * 1.2, "{cpu_s} s of {} s", window.duration_s);
    assert!(facts.generator_cpu.total_s > 0.0 && facts.generator_cpu.total_s < window.duration_s);
    assert!(
        up(&subject).start_up().unwrap() < PLENTY
            && subject.peak_rss_bytes(&up(&subject).processes()).unwrap() > 100_000
    );
    bench.end(subject).unwrap();
    assert_eq!(fs::read_dir(lab.folder.scratch()).unwrap().count(), 0, "data goes with its server");
}

/// A load of some milliseconds after a warm-up that is longer than the sampling interval.
#[test]
fn a_warm_up_is_no_part_of_the_time_that_a_target_is_watched() {
    let lab = Lab::new();
    let Engine::Tool { command, populate, operations, .. } = tool(5).engine else { panic!() };
    let warmup = Some(words("sleep 0.7"));
    let load = Workload::of_operations("judge", Engine::Tool { command, operations, populate, warmup });
    let least = Duration::from_millis(600);
    let watch = |_: &Running| Ok(lab.system.start(&Call::new("watch", "/bin/sleep", "/").arg("60"))?);
    let end = |session: Session, _: &[u32]| Ok(session.stop(PLENTY).map(|_| ())?);
    let arm = lab.server("A", &lab.driver);
    let Watched { acked, length, .. } = lab.bench().watched(&arm, &load, least, watch, end).unwrap();
    assert!(acked >= 10 && length >= least, "{acked} operations in {length:?}");
}

/// 80 MB, in a process that exists when the load ends, but did not when it began.
#[test]
fn what_is_forked_during_the_load_is_no_memory_of_the_target() {
    let lab = Lab::new();
    let script = |name: &str, text: &str| {
        let path = lab.dir.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}")).unwrap();
        path
    };
    let program = script(
        "forks",
        "\"${0%/*}/driver\" serve $1 $2 & server=$!\nwhile ! [ -e $2/fork ]; do sleep 0.01; done\n\
         dd if=/dev/zero bs=80M count=1 2> /dev/null | { head -c 1 > /dev/null; : > $2/forked; sleep 60; } &\nwait $server\n",
    );
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    script("load", ": > $3/fork\nwhile ! [ -e $3/forked ]; do sleep 0.01; done\nexec ./driver drive $1 $2\n");
    let Engine::Tool { populate, warmup, operations, .. } = tool(200).engine else { panic!() };
    let command = words("sh load {port} {operations} {data}");
    let load = Workload::of_operations("judge", Engine::Tool { command, operations, populate, warmup });

    let bench = lab.bench();
    let mut subject =
        bench.subject(&lab.arm("A", &program, "{port} {data}", lab.ways(Ready::Port)), &load).unwrap();
    let (window, peak) = bench.window_with_memory(&mut subject, &load).unwrap();
    assert_eq!(window.outcome, Outcome::Steady);
    let all = subject.peak_rss_bytes(&up(&subject).processes());
    assert!(all.unwrap() > 80_000_000 && peak.unwrap() < 40_000_000, "{peak:?} of {all:?}");
    bench.end(subject).unwrap();
}

/// The CPU is proportional to the target's work, and contains none of the driver's.
#[test]
fn twice_the_operations_are_twice_the_cpu() {
    let lab = Lab::new();
    let bench = lab.bench();
    let mut subject = bench.subject(&lab.server("A", &lab.driver), &tool(100)).unwrap();
    let cpu_s = |operations: u64| {
        least_of_five(|| {
            bench.window(&mut subject, &tool(operations)).unwrap().facts.target_cpu.unwrap().total_s
        })
    };
    let [once, twice] = [400, 800].map(cpu_s);
    assert!((1.6..2.4).contains(&(twice / once)), "{once} and {twice}");
}

/// Neighbours that share a core's caches make work more expensive, never cheaper.
fn least_of_five(measure: impl FnMut() -> f64) -> f64 {
    std::iter::repeat_with(measure).take(5).fold(f64::INFINITY, f64::min)
}

#[test]
fn every_way_of_being_ready_waits_until_it_is() {
    let lab = Lab::new();
    let bench = lab.bench();
    for ready in [
        Ready::Line("spinner: ready".to_owned()),
        Ready::Http("/health".to_owned()),
        Ready::Command(words("./driver ask {port} ping")),
    ] {
        let args = "serve {port} {data} --late-ms=300";
        let arm = lab.arm("A", &lab.driver, args, lab.ways(ready.clone()));
        let subject = bench.subject(&arm, &tool(1)).unwrap();
        let took = up(&subject).start_up().unwrap();
        assert!(took >= Duration::from_millis(250), "{ready:?} after {took:?}");
        bench.end(subject).unwrap();
    }
    let leftover: Vec<_> = fs::read_dir(lab.folder.scratch()).unwrap().flatten().collect();
    assert!(leftover.is_empty(), "{leftover:?}");
}

#[test]
fn one_that_never_gets_ready_says_what_was_missing() {
    let lab = Lab::new();
    let bench = lab.bench();
    let missing = |ready: Ready, args: &str| {
        let mut arm = lab.arm("A", &lab.driver, args, lab.ways(ready));
        let Place::Program(program) = &mut arm.place else { unreachable!() };
        program.ready_timeout = Duration::from_millis(400);
        format!("{:#}", bench.subject(&arm, &tool(1)).err().unwrap())
    };
    let late = "serve {port} {data} --late-ms=60000";
    for (ready, args, expected) in [
        (Ready::Line("ready".to_owned()), late, "its output has no line with \"ready\""),
        (Ready::Http("/up".to_owned()), late, "GET /up at 127.0.0.1:"),
        (Ready::Command(words("./driver ask {port} ping")), late, "error: not yet"),
        (Ready::Port, "serve {port2} {data}", "the program listens at 127.0.0.1:"),
        (Ready::Port, "nonsense", "exit code 2"),
        (
            Ready::Command(words("./no-such-program")),
            late,
            "no-such-program (or the interpreter it names) does not exist",
        ),
    ] {
        let message = missing(ready.clone(), args);
        assert!(message.contains(expected), "{ready:?}: {message}");
    }
}

#[test]
fn a_load_that_fails_is_a_window_that_says_so() {
    let lab = Lab::new();
    let bench = lab.bench();
    let of = |command: &str| {
        let engine = Engine::Tool { command: words(command), operations: 5, populate: None, warmup: None };
        Workload::of_operations("judge", engine)
    };
    let failed = |load: &Workload| {
        let mut subject = bench.subject(&lab.server("A", &lab.driver), load).unwrap();
        let window = bench.window(&mut subject, load).unwrap();
        let Outcome::Failed { reason } = &window.outcome else { panic!("{:?}", window.outcome) };
        assert_eq!(window.value(Metric::CpuPerRecord), None);
        reason.clone()
    };
    let empty = failed(&of("./driver drive {port} {operations}"));
    assert!(
        empty.contains("the command of its load ended (exit code 1), last line: \"error: empty\"; log: "),
        "{empty}"
    );
    // A load that goes elsewhere. The server may still be busy with the connection of the ready check.
    let elsewhere = of("true");
    let mut subject = bench.subject(&lab.server("A", &lab.driver), &elsewhere).unwrap();
    let deadline = Instant::now() + PLENTY;
    while bench.window(&mut subject, &elsewhere).unwrap().outcome == Outcome::Steady
        && Instant::now() < deadline
    {
        std::thread::sleep(Duration::from_millis(20));
    }
    let Outcome::Failed { reason } = bench.window(&mut subject, &elsewhere).unwrap().outcome else {
        panic!("a target that was asked for nothing did so");
    };
    assert!(reason.contains("it used no CPU"), "{reason}");
    let slow = Workload { timeout_s: 0.2, ..of("sleep 30") };
    assert_eq!(failed(&slow), "the command of its load did not end within 0.2 s");

    // A target that crashes under its load can't be stopped, either.
    let crash = of("./driver ask {port} crash");
    let mut subject = bench.subject(&lab.server("A", &lab.driver), &crash).unwrap();
    let error = bench.window(&mut subject, &crash).unwrap_err();
    assert!(crate::drive::is_of_a_target(&error), "{error:#}");
    assert!(format!("{error:#}").contains("ended by signal 6 (ABRT)"), "{error:#}");

    let missing = Workload {
        engine: Engine::Tool { command: words("./nothing"), operations: 1, populate: None, warmup: None },
        ..crash
    };
    let mut subject = bench.subject(&lab.server("A", &lab.driver), &missing).unwrap();
    let error = bench.window(&mut subject, &missing).unwrap_err();
    assert!(!crate::drive::is_of_a_target(&error), "a setting, and no fault of the target: {error:#}");
}

#[test]
fn loads_that_make_no_sense_are_refused_before_anything_starts() {
    let tool = |command: &str, operations| {
        let engine = Engine::Tool { command: words(command), operations, populate: None, warmup: None };
        Workload::of_operations("judge", engine)
    };
    let exits = Workload::of_operations("judge", Engine::Exits { arguments: words("{prt}"), operations: 1 });
    for (load, expected) in [
        (tool("true", 0), "operations must be above 0"),
        (tool("true {prt}", 1), "unknown placeholder {prt} in its command"),
        (tool("no-such-program-anywhere", 1), "there is no program `no-such-program-anywhere` in PATH"),
        (exits, "unknown placeholder {prt} in its run"),
    ] {
        let message = format!("{:#}", check(&load).unwrap_err());
        assert!(message.contains(expected), "{message}");
    }
    check(&tool("true {port} {operations} {seed} {data}", 1)).unwrap();
    // Such a load does not go to a Kafka-API broker.
    let refused = hone_load::check(&tool("true", 1)).unwrap_err().to_string();
    assert!(refused.contains("counts the operations of a command"), "{refused}");
}

fn exits(arguments: &str, operations: u64) -> Workload {
    Workload::of_operations("judge", Engine::Exits { arguments: words(arguments), operations })
}

#[test]
fn a_program_that_exits_is_its_own_window() {
    let lab = Lab::new();
    let bench = lab.bench();
    let arm = lab.arm("A", &lab.driver, "", Ways::default());
    let of = |load: &Workload| {
        let mut subject = bench.subject(&arm, load).unwrap();
        let window = bench.window(&mut subject, load).unwrap();
        assert_eq!(subject.peak_rss_bytes(&[]).is_some(), window.outcome == Outcome::Steady);
        bench.end(subject).unwrap();
        window
    };
    let load = exits("run {operations} {data}", 400);
    let once = of(&load);
    assert_eq!((once.outcome.clone(), once.facts.acked_records), (Outcome::Steady, 400));
    let cpu_s = |window: &Window| window.facts.target_cpu.unwrap().total_s;
    let [single, double] =
        [400, 800].map(|operations| least_of_five(|| cpu_s(&of(&load.with_operations(operations).unwrap()))));
    assert!((1.6..2.4).contains(&(double / single)), "{single} and {double}");
    assert!(cpu_s(&once) <= once.duration_s * 1.05, "{} s of {} s", cpu_s(&once), once.duration_s);
    let unknown = &once.environment.as_ref().unwrap().unknown;
    assert!(unknown.iter().all(|text| !text.contains("other processes")), "{unknown:?}");

    assert_eq!(bench.alone(&arm, &load).unwrap().workload, load);
    let error = bench.alone(&arm, &exits("nonsense", 1)).unwrap_err().to_string();
    assert!(error.contains("A failed under workload `judge`: it ended (exit code 2)"), "{error}");
    let failed = of(&exits("nonsense", 1));
    let Outcome::Failed { reason } = &failed.outcome else { panic!("{:?}", failed.outcome) };
    assert!(reason.starts_with("it ended (exit code 2)"), "{reason}");
    assert_eq!((failed.facts.acked_requests, failed.facts.target_cpu), (0, None));
}

/// Both kinds of target write their profile to the expected place, and one that writes none is rejected.
#[test]
fn an_instrumented_target_is_trained_and_stopped_with_its_profile() {
    let lab = Lab::new();
    let bench = lab.bench();
    let raw = lab.folder.join("raw");
    fs::create_dir(&raw).unwrap();
    let instrumented = lab.spinner("instrumented", 100, &["-Cprofile-generate"]);
    let training = || Training {
        files: ProfileFiles { kind: ProfileKind::Llvm, folder: raw.clone() },
        dump: Dump::None,
        reset: Reset::Not,
    };
    let writing = |mut arm: Arm| {
        let Place::Program(program) = &mut arm.place else { unreachable!() };
        program.env.insert("LLVM_PROFILE_FILE".to_owned(), raw.join("%p.profraw").into());
        arm
    };
    let (window, stop) =
        bench.train(&writing(lab.server("I", &instrumented)), &tool(50), training()).unwrap();
    assert_eq!((window.facts.acked_requests, stop.lost, stop.files.len()), (50, Lost::Nothing, 1));
    assert_eq!(stop.ended, HowEnded::Code(0), "by its own command, and not by a signal: {:?}", stop.rungs);

    let load = exits("run {operations}", 20);
    let program = lab.arm("I", &instrumented, "", Ways::default());
    let (_, stop) = bench.train(&writing(program), &load, training()).unwrap();
    assert_eq!((stop.lost, stop.files.len()), (Lost::Nothing, 2));

    for (arm, load) in [
        (lab.server("plain", &lab.driver), tool(5)),
        (lab.arm("plain", &lab.driver, "", Ways::default()), load),
    ] {
        let error = bench.train(&arm, &load, training()).unwrap_err();
        let refusal = error.downcast_ref::<hone_binary::Refusal>();
        assert!(
            refusal.is_some_and(|refusal| refusal.to_string().contains("the profile is lost")),
            "{error:#}"
        );
    }
}

#[test]
fn a_stop_command_that_does_not_help_is_followed_by_a_signal() {
    let lab = Lab::new();
    let bench = lab.bench();
    for stop in [None, Some(words("false")), Some(words("./driver ask {port} ping"))] {
        let ways = Ways { stop, ..lab.ways(Ready::Port) };
        let mut arm = lab.arm("A", &lab.driver, "serve {port} {data}", ways);
        let Place::Program(program) = &mut arm.place else { unreachable!() };
        program.stop_timeout = Duration::from_millis(300);
        let subject = bench.subject(&arm, &tool(1)).unwrap();
        let pid = subject.running.as_ref().unwrap().child().unwrap();
        bench.end(subject).unwrap();
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}

/// The counters of the start, the filling and the warm-up are reset before the training, and the dump precedes the stop.
#[test]
fn counters_are_reset_before_the_training_and_asked_for_before_the_stop() {
    let lab = Lab::new();
    let bench = lab.bench();
    let raw = lab.folder.join("raw");
    fs::create_dir(&raw).unwrap();
    let instrumented = lab.spinner("instrumented", 10, &["-Cprofile-generate"]);
    let ways = Ways {
        reset: Some(words("./driver ask {port} reset")),
        dump: Some(words("./driver ask {port} count")),
        ..lab.ways(Ready::Port)
    };
    let mut arm = lab.arm("I", &instrumented, "serve {port} {data}", ways);
    let Place::Program(program) = &mut arm.place else { unreachable!() };
    program.env.insert("LLVM_PROFILE_FILE".to_owned(), raw.join("%p.profraw").into());
    // The dump of this test writes nothing, and Hone would wait for it.
    program.stop_timeout = Duration::from_secs(1);
    let files = ProfileFiles { kind: ProfileKind::Llvm, folder: raw };
    let training = Training { files, dump: Dump::None, reset: Reset::Own };
    let (_, stop) = bench.train(&arm, &tool(50), training).unwrap();
    let steps: Vec<capture::Step> = stop.rungs.iter().map(|rung| rung.step).collect();
    assert_eq!(steps, [capture::Step::Dump, capture::Step::Command]);
    let logs = fs::read_dir(lab.folder.join("logs")).unwrap().flatten();
    let dump = logs.map(|entry| entry.path()).find(|path| path.to_string_lossy().ends_with("-dump.stdout"));
    assert_eq!(fs::read_to_string(dump.unwrap()).unwrap(), "50\n", "5 of the warm-up were forgotten");
}

/// The embedded broker in its own process, which is this test's program again.
const BROKER: &str = "bench::tests::a_broker_until_it_is_stopped";
const PORT: &str = "HONE_TEST_BROKER_PORT";

#[test]
#[ignore = "runs until it is stopped; tests start it"]
fn a_broker_until_it_is_stopped() {
    let Ok(port) = std::env::var(PORT) else { return };
    hone_tool::interrupt::install().unwrap();
    let listen = format!("127.0.0.1:{port}").parse().unwrap();
    let settings = Settings { listen, metrics_listen: None, ..Settings::new(".") };
    let broker = Broker::start(settings).unwrap();
    while !hone_tool::interrupt::requested() {
        std::thread::sleep(Duration::from_millis(50));
    }
    broker.stop().unwrap();
}

pub(crate) fn broker(lab: &Lab, name: &str) -> Arm {
    let args = format!("--exact {BROKER} --ignored --nocapture");
    let mut arm = lab.arm(name, &std::env::current_exe().unwrap(), &args, Ways::default());
    let Place::Program(program) = &mut arm.place else { unreachable!() };
    program.env.insert(PORT.to_owned(), "{port}".into());
    arm
}

pub(crate) fn requests() -> Workload {
    let mut load = crate::spec::WorkloadFile::default().named("requests").unwrap();
    (load.requests_per_s, load.duration_s, load.warmup_requests) = (200.0, 0.6, 200);
    load
}

#[test]
fn requests_of_a_schedule_are_loads_like_any_other_and_are_warmed_less_the_second_time() {
    let lab = Lab::new();
    let bench = lab.bench();
    let mut subject = bench.subject(&broker(&lab, "A"), &requests()).unwrap();
    for warmup_requests in [200, 20, 20] {
        let window = bench.window(&mut subject, &requests()).unwrap();
        assert_eq!(window.workload.warmup_requests, warmup_requests);
        assert!(window.facts.acked_requests > 50 && window.facts.target_cpu.is_some(), "{:?}", window.facts);
        let is_told = window.value(Metric::LatencyP50).is_some();
        assert_eq!(is_told, window.outcome == Outcome::Steady, "a busy machine may make the generator late");
    }
    bench.end(subject).unwrap();
}

/// The injected difference: four times the work per operation, in a server that rejects a load before it is filled. The broker
/// has no injected difference, so its factor is small.
#[test]
fn a_program_that_needs_more_cpu_for_an_operation_is_told_by_how_much() {
    let lab = Lab::new();
    let bench = lab.bench();
    let [light, heavy] = [("light", 1_000), ("heavy", 4_000)]
        .map(|(name, work)| lab.server(name, &lab.spinner(name, work, &[])));
    let slow = slow_down(&bench, &light, &heavy, &tool(640)).unwrap().unwrap();
    assert!((2.0..6.0).contains(&slow.factor()), "{slow:?}");
    assert_eq!(slow_down(&bench, &light, &heavy, &tool(1)).unwrap(), None, "too short for a figure");

    let load = Workload { requests_per_s: 1_000.0, ..requests() };
    let broker = broker(&lab, "B");
    let same = slow_down(&bench, &broker, &broker, &load).unwrap().unwrap();
    assert!(same.plain_per_s > 100.0 && same.factor() < 3.0, "{same:?}");
}
