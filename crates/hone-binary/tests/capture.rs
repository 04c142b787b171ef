//! Profiles of a server that ends in every way, with real compilers and BOLT: a full profile, or a stated refusal.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use hone_binary::Refusal;
use hone_binary::bolt::{Bolt, BoltTools, Budget, Input, Writes};
use hone_binary::capture::{
    CaptureRefusal, CounterLoss, Driven, Dump, HowEnded, Lost, ProfileFiles, ProfileKind, Step, Stop,
    StopPlan, build_dump_object, build_preload, dump_env, let_all_write, measure_slow_down, preload_env,
    reset, stop,
};
use hone_tool::{Call, Readiness, Runner, Session, System, Tool, ToolError};

/// Long enough to never matter on a busy machine; no test waits for it.
const PLENTY: Duration = Duration::from_secs(60);

/// For a target that obeys nothing.
const SHORT: Duration = Duration::from_millis(400);

/// Whole cycles of what the driver asks for.
const REQUESTS: u64 = 66 * 10;

/// Runs for many requests, and once at the start.
const HASH: &str = "_ZN12_GLOBAL__N_14hashEm";
const START_UP: &str = "_ZN12_GLOBAL__N_111fill_tablesEv";

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

/// An instrumented server of one kind.
struct Bench {
    dir: tempfile::TempDir,
    system: System,
    kind: ProfileKind,
    /// The C compiler.
    compiler: PathBuf,
    /// Reads the profile: llvm-profdata or gcov.
    reader: PathBuf,
    /// The server without instrumentation: it drives.
    plain: PathBuf,
    server: PathBuf,
    files: ProfileFiles,
}

struct Served {
    session: Session,
    port: String,
}

impl Bench {
    fn new(kind: ProfileKind, with_dump: bool, writes: Writes) -> Option<Self> {
        let (compiler, cxx, reader) = match kind {
            ProfileKind::Llvm | ProfileKind::Bolt => ("clang-22", "clang++-22", "llvm-profdata-22"),
            ProfileKind::Gcov => ("gcc", "g++", "gcov"),
            ProfileKind::Pprof => unreachable!("Go has no counting program"),
        };
        let (compiler, cxx, reader) = (tool(compiler)?, tool(cxx)?, tool(reader)?);
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("raw")).unwrap();
        let plain = compile(&system, &cxx, &path("plain"), &["-Wl,-q".to_owned()]);
        let folder = path("raw");
        let (server, folder) = match kind {
            ProfileKind::Bolt => instrument_by_bolt(&system, &plain, &path("work"), writes)?,
            ProfileKind::Llvm | ProfileKind::Gcov | ProfileKind::Pprof => {
                let flags = instrument_flags(&system, &compiler, dir.path(), kind, with_dump);
                (compile(&system, &cxx, &folder.join("server"), &flags), folder)
            }
        };
        let files = ProfileFiles { kind, folder };
        Some(Self { dir, system, kind, compiler, reader, plain, server, files })
    }

    fn plain_end(kind: ProfileKind) -> Option<Self> {
        Self::new(kind, false, Writes::AtExit { for_each_process: false })
    }

    fn with_dump(kind: ProfileKind) -> Option<Self> {
        Self::new(kind, true, Writes::AtExit { for_each_process: false })
    }

    /// Starts the server with an empty profile folder.
    fn serve(&self, args: &[&str], preload: Option<&Path>) -> Served {
        self.serve_as("%m_%p.profraw", args, preload)
    }

    fn serve_as(&self, name: &str, args: &[&str], preload: Option<&Path>) -> Served {
        for file in self.files.snapshot().unwrap().into_keys() {
            fs::remove_file(file).unwrap();
        }
        self.serve_beside(name, args, preload)
    }

    /// Starts the server with what an earlier one has left in the profile folder.
    fn serve_beside(&self, name: &str, args: &[&str], preload: Option<&Path>) -> Served {
        let call = Call::new("server", &self.server, self.dir.path()).args(["serve", "0"]);
        let call = call.args(args.iter().copied()).env("LLVM_PROFILE_FILE", self.files.folder.join(name));
        let (switch, on) = dump_env();
        let call = call.env(switch, on);
        let call = match preload.map(|preload| preload_env(preload, None)) {
            Some((name, value)) => call.env(name, value),
            None => call,
        };
        let mut session = self.system.start(&call).unwrap();
        let ready = session.stdout_line_matching("ready ", PLENTY).unwrap();
        if args.iter().any(|arg| arg.starts_with("--workers")) {
            session.stdout_line_matching("workers ", PLENTY).unwrap();
        }
        Served { session, port: ready["ready ".len()..].to_owned() }
    }

    /// Every answer is checked by the driver.
    fn train(&self, served: &Served) {
        let call = Call::new("drive", &self.plain, self.dir.path());
        self.system.run(&call.args(["drive", &served.port, &REQUESTS.to_string(), "1"])).unwrap();
    }

    fn ask_to_stop(&self, served: &Served) -> Call {
        Call::new("ask", &self.plain, self.dir.path()).args(["ask", &served.port, "stop"])
    }

    fn plan(&self, dump: Dump, grace: Duration) -> StopPlan {
        StopPlan { dump, command: None, grace, files: self.files.clone() }
    }

    fn trained(&self, args: &[&str], dump: Dump, grace: Duration) -> anyhow::Result<Stop> {
        let served = self.serve(args, None);
        self.train(&served);
        stop(&self.system, served.session, &self.plan(dump, grace))
    }

    /// All processes of the server, including those that others started.
    fn running(&self) -> Vec<PathBuf> {
        let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let server = |process: &PathBuf| {
            fs::read_link(process.join("exe")).is_ok_and(|program| program == self.server)
        };
        processes.filter(server).collect()
    }

    /// What a stop says of a server that was killed in a phase of it; the kill is sent by what the plan runs.
    fn killed_by(&self, args: &[&str], plan: impl FnOnce(StopPlan, Call) -> StopPlan) -> CaptureRefusal {
        let served = self.serve(args, None);
        self.train(&served);
        let kill = format!("kill -9 {}", served.session.pid());
        let kill = Call::new("kill", "/bin/sh", self.dir.path()).args(["-c", &kill]);
        refusal(stop(&self.system, served.session, &plan(self.plan(Dump::None, SHORT), kill)))
    }

    fn preload(&self) -> PathBuf {
        build_preload(&self.system, &self.compiler, &self.dir.path().join("aids")).unwrap()
    }

    /// How often a function was counted, over all files.
    fn count(&self, function: &str) -> u64 {
        match self.kind {
            ProfileKind::Llvm => self.count_llvm(function),
            ProfileKind::Gcov => self.count_gcov(function),
            ProfileKind::Bolt => self.count_bolt(function),
            ProfileKind::Pprof => unreachable!("Go has no counting program"),
        }
    }

    fn count_llvm(&self, function: &str) -> u64 {
        let merged = self.dir.path().join("merged.proftext");
        let call = Call::new("merge", &self.reader, self.dir.path()).args(["merge", "-text", "-o"]);
        let files = self.files.snapshot().unwrap().into_keys();
        self.system.run(&call.arg(&merged).args(files).produces(&merged)).unwrap();
        let text = fs::read_to_string(&merged).unwrap();
        let mut blocks =
            text.split("\n\n").filter(|block| block.lines().any(|line| line.ends_with(function)));
        let block = blocks.next().unwrap_or_else(|| panic!("no {function} in {text}"));
        let counts = block.split("# Counter Values:\n").nth(1).unwrap();
        counts.lines().map_while(|line| line.parse::<u64>().ok()).sum()
    }

    fn count_gcov(&self, function: &str) -> u64 {
        let files: Vec<PathBuf> = self.files.snapshot().unwrap().into_keys().collect();
        let call = Call::new("gcov", &self.reader, &self.files.folder).args(["-t", "-j"]).args(files);
        let text = self.system.run(&call).unwrap().stdout_text().unwrap();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let functions =
            found["files"].as_array().unwrap().iter().flat_map(|file| file["functions"].as_array().unwrap());
        functions
            .filter(|one| one["name"] == function)
            .map(|one| one["execution_count"].as_u64().unwrap())
            .sum()
    }

    fn count_bolt(&self, function: &str) -> u64 {
        let texts = self.files.snapshot().unwrap().into_keys().map(|file| fs::read_to_string(file).unwrap());
        let text: String = texts.collect();
        let of = |line: &str| line.split(' ').nth(4).is_some_and(|name| name.starts_with(function));
        let counts = text.lines().filter(|line| of(line)).filter_map(|line| line.rsplit(' ').next());
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    }

    /// What a training that ends in order counts.
    fn truth(&self) -> u64 {
        let stopped = self.trained(&["--stop=handler"], Dump::None, PLENTY).unwrap();
        assert_eq!((stopped.ended, stopped.lost), (HowEnded::Code(0), Lost::Nothing));
        let count = self.count(HASH);
        assert!(count > 100, "{count}");
        count
    }
}

fn compile(system: &System, cxx: &Path, output: &Path, flags: &[String]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/server/server.cpp");
    let call =
        Call::new("compile", cxx, output.parent().unwrap()).args(["-O2", "-pthread", "-o"]).arg(output);
    system.run(&call.arg(source).args(flags).produces(output)).unwrap();
    output.to_path_buf()
}

fn instrument_flags(
    system: &System,
    compiler: &Path,
    dir: &Path,
    kind: ProfileKind,
    with_dump: bool,
) -> Vec<String> {
    let mut flags = vec!["-fprofile-generate".to_owned()];
    if kind == ProfileKind::Gcov {
        // The second one only lets gcov name the functions.
        flags.extend(["-fprofile-update=atomic".to_owned(), "-ftest-coverage".to_owned()]);
    }
    if with_dump {
        let object = build_dump_object(system, compiler, &dir.join("aids"), kind).unwrap();
        flags.push(object.object.to_str().unwrap().to_owned());
        flags.extend(object.link_flags.iter().map(|&flag| flag.to_owned()));
    }
    flags
}

fn instrument_by_bolt(
    system: &System,
    plain: &Path,
    work: &Path,
    writes: Writes,
) -> Option<(PathBuf, PathBuf)> {
    let tools = match BoltTools::find(Some(22)) {
        Ok(tools) => tools,
        Err(error) => {
            skip(&format!("{error:#}"));
            return None;
        }
    };
    let bolt = Bolt::prepare(system, tools, work, Budget::default()).unwrap();
    let instrumented = bolt.instrument(&Input::look(plain).unwrap(), writes).unwrap();
    Some((instrumented.executable, instrumented.profile.parent().unwrap().to_path_buf()))
}

const KINDS: [ProfileKind; 3] = [ProfileKind::Llvm, ProfileKind::Gcov, ProfileKind::Bolt];
const WITH_OBJECT: [ProfileKind; 2] = [ProfileKind::Llvm, ProfileKind::Gcov];
const DUMP: Dump = Dump::Signal(libc::SIGUSR2);

fn refusal<T: std::fmt::Debug>(result: anyhow::Result<T>) -> CaptureRefusal {
    let error = result.unwrap_err();
    match error.downcast_ref() {
        Some(Refusal::Capture(refusal)) => refusal.clone(),
        _ => panic!("no refusal of capture: {error:#}"),
    }
}

fn steps(stopped: &Stop) -> Vec<Step> {
    stopped.rungs.iter().map(|rung| rung.step).collect()
}

#[test]
fn without_help_only_an_orderly_end_leaves_a_profile() {
    for bench in KINDS.into_iter().filter_map(Bench::plain_end) {
        let kind = bench.kind;
        let truth = bench.truth();

        let served = bench.serve(&["--stop=ignore"], None);
        bench.train(&served);
        let plan = StopPlan { command: Some(bench.ask_to_stop(&served)), ..bench.plan(Dump::None, PLENTY) };
        let stopped = stop(&bench.system, served.session, &plan).unwrap();
        assert_eq!((steps(&stopped), stopped.lost), (vec![Step::Command], Lost::Nothing), "{kind:?}");
        assert!(stopped.rungs[0].files.iter().all(|file| file.after > Some(100)), "{kind:?}: {stopped:?}");
        assert_eq!(bench.count(HASH), truth, "{kind:?}");

        for (args, grace, ended, remedy) in [
            ("--stop=default", PLENTY, HowEnded::Signal(libc::SIGTERM), "start it with the preload"),
            ("--stop=ignore", SHORT, HowEnded::Signal(libc::SIGKILL), "give a `stop` command"),
            ("--stop=_exit", PLENTY, HowEnded::Code(0), "it ends by `_exit`"),
        ] {
            let refused = refusal(bench.trained(&[args], Dump::None, grace));
            assert!(
                matches!(&refused, CaptureRefusal::NothingWritten { ended: how, .. } if *how == ended),
                "{kind:?} {args}: {refused:?}"
            );
            assert!(refused.to_string().contains(remedy), "{refused}");
            assert!(refused.to_string().contains(&format!("no .{} file", kind.ending())), "{refused}");
        }
    }
}

#[test]
fn a_raw_file_of_0_bytes_is_no_profile() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let served = bench.serve_as("%p.profraw", &[], None);
    bench.train(&served);
    let refused = refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)));
    assert!(refused.to_string().contains("of 0 bytes"), "{refused}");
}

#[test]
fn the_preload_makes_a_signal_an_orderly_end_for_each_kind() {
    for bench in KINDS.into_iter().filter_map(Bench::plain_end) {
        let (truth, preload) = (bench.truth(), bench.preload());
        for (args, code) in [("--stop=default", 143), ("--stop=handler", 0)] {
            let served = bench.serve(&[args], Some(&preload));
            bench.train(&served);
            let stopped = stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)).unwrap();
            assert_eq!((stopped.ended, stopped.lost), (HowEnded::Code(code), Lost::Nothing), "{args}");
            assert_eq!(bench.count(HASH), truth, "{:?} {args}", bench.kind);
        }
        let mut served = bench.serve(&[], Some(&preload));
        bench.train(&served);
        served.session.signal(libc::SIGINT);
        let ended = served.session.wait_end(PLENTY, PLENTY).unwrap().unwrap();
        assert_eq!((ended.status.code(), bench.count(HASH)), (Some(130), truth), "{:?}", bench.kind);
    }
}

#[test]
fn the_dump_object_writes_whatever_the_end_and_nothing_twice() {
    for bench in WITH_OBJECT.into_iter().filter_map(Bench::with_dump) {
        let truth = bench.truth();
        for (args, grace, whole) in [
            ("--stop=handler", PLENTY, true),
            ("--stop=default", PLENTY, false),
            ("--stop=_exit", PLENTY, false),
            ("--stop=ignore", Duration::from_secs(2), false),
        ] {
            let stopped = bench.trained(&[args], DUMP, grace).unwrap();
            assert_eq!(stopped.lost == Lost::Nothing, whole, "{:?} {args}: {stopped:?}", bench.kind);
            assert!(stopped.rungs[0].step == Step::Dump && stopped.rungs[0].files[0].wrote(), "{stopped:?}");
            assert_eq!(bench.count(HASH), truth, "{:?} {args}", bench.kind);
            if args == "--stop=ignore" {
                assert_eq!(steps(&stopped), [Step::Dump, Step::Term, Step::Kill]);
            }
        }
    }
}

#[test]
fn after_a_reset_the_start_up_has_no_counts() {
    for bench in WITH_OBJECT.into_iter().filter_map(Bench::with_dump) {
        let truth = bench.truth();
        assert!(bench.count(START_UP) > 0, "{:?}", bench.kind);
        let mut served = bench.serve(&["--stop=handler"], None);
        bench.train(&served);
        assert_eq!(reset(&mut served.session).unwrap(), [served.session.pid()]);
        bench.train(&served);
        stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)).unwrap();
        assert_eq!((bench.count(HASH), bench.count(START_UP)), (truth, 0), "{:?}", bench.kind);
    }
}

/// As on a busy machine, or where there are thousands of files.
#[test]
fn a_dump_that_pauses_is_waited_for() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let served = bench.serve(&["--stop=handler"], None);
    bench.train(&served);
    let files = bench.files.folder.display();
    let write = format!("for n in 1 2 3; do echo x > {files}/part-$n.profraw; sleep 0.4; done");
    // The command ends when its child has a session of its own: what is left in the command's group is ended with it.
    let script = format!(
        "setsid sh -c 'echo x > begun; {write}' >/dev/null 2>&1 </dev/null & until [ -e begun ]; do sleep 0.01; done"
    );
    let call = Call::new("dump", "/bin/sh", bench.dir.path()).args(["-c", &script]);
    let plan = bench.plan(Dump::Command(Box::new(call)), PLENTY);
    let stopped = stop(&bench.system, served.session, &plan).unwrap();
    assert_eq!(stopped.rungs[0].files.len(), 3, "{:?}", stopped.rungs);
}

#[test]
fn a_target_without_the_object_is_neither_reset_nor_hurt() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let mut served = bench.serve(&["--stop=handler"], None);
    assert_eq!(refusal(reset(&mut served.session)), CaptureRefusal::NotReset { blocked: 0 });
    bench.train(&served);
    let stopped = stop(&bench.system, served.session, &bench.plan(DUMP, PLENTY)).unwrap();
    assert_eq!((steps(&stopped), stopped.lost), (vec![Step::Dump, Step::Term], Lost::Nothing));
    let nothing = build_dump_object(&bench.system, &bench.compiler, bench.dir.path(), ProfileKind::Bolt);
    assert_eq!(refusal(nothing), CaptureRefusal::NoDumpObject { kind: ProfileKind::Bolt });
    for folder in ["a folder", "a:folder"].map(|name| bench.dir.path().join(name)) {
        let cut = refusal(build_preload(&bench.system, &bench.compiler, &folder));
        assert_eq!(cut, CaptureRefusal::PreloadPath { folder });
    }
}

#[test]
fn bolt_that_writes_at_intervals_survives_a_kill() {
    let writes = Writes::Every { seconds: 1 };
    let Some(exact) = Bench::plain_end(ProfileKind::Bolt) else { return };
    let Some(bench) = Bench::new(ProfileKind::Bolt, false, writes) else { return };
    let stopped = bench.trained(&["--stop=ignore"], Dump::Every { seconds: 1 }, SHORT).unwrap();
    assert_eq!(steps(&stopped), [Step::Dump, Step::Term, Step::Kill]);
    assert!(matches!(stopped.lost, Lost::SinceDump { age_s } if age_s < 10.0), "{stopped:?}");
    assert_eq!(bench.count(HASH), exact.truth(), "the counts of all intervals are in it");
}

#[test]
fn a_target_that_is_killed_in_the_training_is_refused() {
    for bench in KINDS.into_iter().filter_map(Bench::plain_end) {
        let mut served = bench.serve(&[], None);
        bench.train(&served);
        served.session.signal(libc::SIGKILL);
        let gone = served.session.wait_until(PLENTY, || Readiness::NotYet("its end".to_owned()));
        assert!(gone.is_err());
        let refused = refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)));
        let ended = HowEnded::Signal(libc::SIGKILL);
        assert!(
            matches!(&refused, CaptureRefusal::EndedInTraining { ended: how, .. } if *how == ended),
            "{refused:?}"
        );
    }
}

#[test]
fn forked_workers_write_files_of_their_own_that_merge() {
    let Some(bench) = Bench::with_dump(ProfileKind::Llvm) else { return };
    let truth = bench.truth();
    let start_up = bench.count(START_UP);
    for (args, dump, grace) in [
        (["--workers=2", "--stop=handler"], Dump::None, PLENTY),
        (["--workers=2", "--stop=ignore"], DUMP, Duration::from_secs(2)),
    ] {
        let stopped = bench.trained(&args, dump, grace).unwrap();
        assert_eq!(stopped.files.len(), 3, "{stopped:?}");
        // The start-up ran in the parent alone, although each child began with a copy of its counts.
        assert_eq!((bench.count(HASH), bench.count(START_UP)), (truth, start_up), "{args:?}");
    }
}

#[test]
fn the_preload_ends_workers_in_order_when_nobody_tells_them() {
    for kind in WITH_OBJECT {
        let Some(bench) = Bench::with_dump(kind) else { return };
        let (truth, preload) = (bench.truth(), bench.preload());
        let served = bench.serve(&["--workers=2"], Some(&preload));
        bench.train(&served);
        let stopped = stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)).unwrap();
        assert_eq!((stopped.ended, stopped.lost), (HowEnded::Code(143), Lost::Nothing), "{stopped:?}");
        assert_eq!(bench.count(HASH), truth, "{kind:?}");
    }
}

#[test]
fn dumps_and_the_end_add_up_whatever_the_name() {
    for bench in WITH_OBJECT.into_iter().filter_map(Bench::with_dump) {
        let truth = bench.truth();
        for name in ["one.profraw", "%p.profraw", "%m_%p.profraw"] {
            let served = bench.serve_as(name, &["--stop=handler"], None);
            bench.train(&served);
            assert_eq!(served.session.tell(libc::SIGUSR2, PLENTY).took, [served.session.pid()]);
            let stopped = stop(&bench.system, served.session, &bench.plan(DUMP, PLENTY)).unwrap();
            assert_eq!((bench.count(HASH), stopped.lost), (truth, Lost::Nothing), "{:?} {name}", bench.kind);
        }
    }
}

/// A program with the dump object that takes a while to write its profile. The argument says what it does at the same time.
const WITH_THREADS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int is_writing;
int __llvm_profile_write_file(void) {
    is_writing = 1;
    usleep(300000);
    is_writing = 0;
    return 0;
}

static sigset_t signals;
static void *opens(void *unused) {
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    for (;;) pause();
    return unused;
}
static void *fetches(void *unused) {
    int signal;
    for (;;) sigwait(&signals, &signal);
    return unused;
}

int main(int count, char **words) {
    pthread_t thread;
    const char *what = count > 1 ? words[1] : "";
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    if (!strcmp(what, "open")) pthread_create(&thread, NULL, opens, NULL);
    if (!strcmp(what, "sigwait")) pthread_create(&thread, NULL, fetches, NULL);
    if (!strcmp(what, "signalfd")) signalfd(-1, &signals, 0);
    if (!strcmp(what, "helper") && fork() == 0) {
        execlp("sleep", "sleep", "1000", (char *)0);
        _exit(1);
    }
    if (!strcmp(what, "fork")) {
        int status;
        kill(getpid(), SIGUSR2);
        while (!is_writing) usleep(1000);
        pid_t child = fork();
        if (child == 0) _exit(is_writing);
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    usleep(200000);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
"#;

struct WithThreads {
    dir: tempfile::TempDir,
    system: System,
}

impl WithThreads {
    fn new() -> Option<Self> {
        let compiler = tool("gcc")?;
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let object = build_dump_object(&system, &compiler, dir.path(), ProfileKind::Llvm).unwrap();
        fs::write(dir.path().join("threads.c"), WITH_THREADS).unwrap();
        let call = Call::new("compile", &compiler, dir.path()).args(["-O1", "-o", "threads", "threads.c"]);
        system.run(&call.arg(&object.object).args(object.link_flags.iter().copied())).unwrap();
        Some(Self { dir, system })
    }

    fn call(&self, what: &str) -> Call {
        let (switch, on) = dump_env();
        Call::new("threads", self.dir.path().join("threads"), self.dir.path()).arg(what).env(switch, on)
    }

    fn start(&self, what: &str) -> Session {
        let mut session = self.system.start(&self.call(what)).unwrap();
        session.stdout_line_matching("ready", PLENTY).unwrap();
        session
    }
}

#[test]
fn only_processes_that_the_object_serves_are_told() {
    let Some(bench) = WithThreads::new() else { return };
    let mut helper = bench.start("helper");
    while helper.processes().len() < 2 {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(reset(&mut helper).unwrap(), [helper.pid()]);
    let told = helper.tell(libc::SIGUSR2, PLENTY);
    assert_eq!((told.took, told.left), (vec![helper.pid()], vec![]), "who inherited the block takes nothing");

    let mut open = bench.start("open");
    let refused = refusal(reset(&mut open));
    assert!(matches!(refused, CaptureRefusal::NotReset { blocked: 0 }), "{refused}");
    open.check_alive("the signal would have killed it").unwrap();
}

#[test]
fn a_program_that_fetches_the_signal_itself_is_known() {
    let Some(bench) = WithThreads::new() else { return };
    let uses = [libc::SIGUSR1, libc::SIGUSR2];
    assert!(!bench.start("").handles(&uses), "the object's thread is not its own");
    for what in ["sigwait", "signalfd"] {
        assert!(bench.start(what).handles(&uses), "{what}");
    }
}

#[test]
fn a_fork_waits_until_the_profile_is_written() {
    let Some(bench) = WithThreads::new() else { return };
    bench.system.run(&bench.call("fork").limit(PLENTY)).unwrap();
}

/// Why servers that fork need the object: it is LLVM's runtime that does this.
#[test]
fn without_the_object_workers_share_a_file_and_repeat_the_start_up() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let truth = bench.truth();
    let once = bench.count(START_UP);
    let stopped = bench.trained(&["--workers=2", "--stop=handler"], Dump::None, PLENTY).unwrap();
    assert_eq!(stopped.files.len(), 1);
    assert_eq!((bench.count(HASH), bench.count(START_UP)), (truth, once * 3));
}

#[test]
fn the_slow_down_is_measured_and_the_loss_of_plain_counters_told() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let alone = bench.truth();
    let mut plain =
        bench.system.start(&Call::new("plain", &bench.plain, bench.dir.path()).args(["serve", "0"])).unwrap();
    let plain_port = plain.stdout_line_matching("ready ", PLENTY).unwrap()["ready ".len()..].to_owned();
    let served = bench.serve(&["--stop=handler"], None);
    let drive = |port: &str, requests: u64, connections: &str| {
        let call = Call::new("drive", &bench.plain, bench.dir.path());
        call.args(["drive", port, &requests.to_string(), connections])
    };
    let slow = measure_slow_down(&bench.system, |which, requests| match which {
        Driven::Plain => drive(&plain_port, requests, "1"),
        Driven::Instrumented => drive(&served.port, requests, "1"),
    });
    let slow = slow.unwrap();
    assert!(slow.factor() < 50.0 && slow.plain_per_s > 100.0, "{slow:?}");
    drop(served);

    let served = bench.serve(&["--stop=handler"], None);
    bench.system.run(&drive(&served.port, REQUESTS * 100, "4")).unwrap();
    stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)).unwrap();
    let loss = CounterLoss { counted: bench.count(HASH), done: alone * 100 };
    // How much depends on the machine; it can't count more than was done, and not next to nothing.
    assert!(loss.counted <= loss.done && loss.share().unwrap() < 0.9, "{loss}");
}

/// Whatever it was at: no process of it is left, and the refusal names the kill and not only the missing file.
#[test]
fn a_target_killed_in_any_phase_leaves_no_process_and_the_kill_is_told() {
    for bench in KINDS.into_iter().filter_map(Bench::plain_end) {
        let truth = bench.truth();
        let told = |phase: &str, refused: CaptureRefusal| {
            let ended = match &refused {
                CaptureRefusal::EndedInTraining { ended, .. } => *ended,
                CaptureRefusal::NothingWritten { ended, .. } => *ended,
                _ => panic!("{phase}: {refused}"),
            };
            assert_eq!(ended, HowEnded::Signal(libc::SIGKILL), "{:?} {phase}: {refused}", bench.kind);
            assert!(refused.to_string().contains("by SIGKILL"), "{refused}");
            assert_eq!(bench.running(), [] as [PathBuf; 0], "{:?} {phase}", bench.kind);
        };
        // Its workers ignore SIGTERM, too, and outlive it.
        for args in [&["--stop=ignore"][..], &["--stop=ignore", "--workers=2"]] {
            let mut served = bench.serve(args, None);
            served.session.signal(libc::SIGKILL);
            let died = served.session.stdout_line_matching("never said ", PLENTY).unwrap_err();
            assert!(matches!(died, ToolError::Died { .. }), "{died}");
            told("start", refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, SHORT))));

            let served = bench.serve(args, None);
            let call = Call::new("drive", &bench.plain, bench.dir.path());
            let call = call.args(["drive", &served.port, "1000000000", "2"]);
            thread::scope(|scope| {
                let driver = scope.spawn(|| bench.system.run(&call).is_err());
                thread::sleep(SHORT);
                served.session.signal(libc::SIGKILL);
                // Workers of a killed parent go on answering; the stop ends them.
                told("load", refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, SHORT))));
                assert!(driver.join().unwrap(), "the load has lost its server");
            });

            let dump = |plan, kill| StopPlan { dump: Dump::Command(Box::new(kill)), ..plan };
            told("dump", bench.killed_by(args, dump));
            told("command", bench.killed_by(args, |plan, kill| StopPlan { command: Some(kill), ..plan }));

            let served = bench.serve(args, None);
            let process = i32::try_from(served.session.pid()).unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    thread::sleep(SHORT);
                    // SAFETY: the stop waits for the process for longer than this, so the id is its own.
                    unsafe { libc::kill(process, libc::SIGKILL) };
                });
                let plan = bench.plan(Dump::None, SHORT * 4);
                told("SIGTERM", refusal(stop(&bench.system, served.session, &plan)));
            });
        }
        assert_eq!(bench.truth(), truth, "{:?}: counts of killed processes are excluded", bench.kind);
    }
}

#[test]
fn what_a_killed_target_left_is_told_by_the_next_run() {
    let Some(bench) = Bench::plain_end(ProfileKind::Llvm) else { return };
    let served = bench.serve_as("%p.profraw", &[], None);
    let left = bench.files.folder.join(format!("{}.profraw", served.session.pid()));
    served.session.signal(libc::SIGKILL);
    let gone = refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)));
    assert!(matches!(gone, CaptureRefusal::NothingWritten { .. } | CaptureRefusal::EndedInTraining { .. }));
    let served = bench.serve_beside("%p.profraw", &["--stop=handler"], None);
    bench.train(&served);
    let refused = refusal(stop(&bench.system, served.session, &bench.plan(Dump::None, PLENTY)));
    assert!(
        matches!(&refused, CaptureRefusal::SomeEmpty { files, written: 1, .. } if *files == [left.clone()]),
        "{refused}"
    );
}

/// Becomes another user before it serves, as mosquitto and nginx do.
const DROPS_ITS_RIGHTS: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void ends(int signal) { exit(0); }
int main(void) {
    signal(SIGTERM, ends);
    if (setgid(65534) || setuid(65534)) return 2;
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}
"#;

#[test]
fn a_server_that_becomes_another_user_writes_its_profile_or_its_runtime_is_quoted() {
    let Some(compiler) = tool("clang-22") else { return };
    // SAFETY: it takes nothing and can't fail.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can become another user");
    }
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    fs::write(dir.path().join("drops.c"), DROPS_ITS_RIGHTS).unwrap();
    let program = dir.path().join("drops");
    let call =
        Call::new("compile", &compiler, dir.path()).args(["-fprofile-generate", "-o", "drops", "drops.c"]);
    system.run(&call.produces(&program)).unwrap();
    let run = dir.path().join("run");
    let folder = run.join("profile-raw/first");
    fs::create_dir_all(&folder).unwrap();
    let stopped = || {
        let call =
            Call::new("server", &program, dir.path()).env("LLVM_PROFILE_FILE", folder.join("%m_%p.profraw"));
        let mut session = system.start(&call).unwrap();
        session.stdout_line_matching("ready", PLENTY).unwrap();
        let files = ProfileFiles { kind: ProfileKind::Llvm, folder: folder.clone() };
        stop(&system, session, &StopPlan { dump: Dump::None, command: None, grace: PLENTY, files })
    };
    // A temporary folder is its owner's alone, as a home may be.
    let error = stopped().unwrap_err().to_string();
    assert!(error.contains("its runtime reports: LLVM Profile Error: Failed to write file"), "{error}");
    assert!(error.contains("Permission denied") && error.contains("next: give the target's user"), "{error}");
    let_all_write(&folder, dir.path()).unwrap();
    let written = stopped().unwrap();
    assert_eq!((written.lost, written.files.len()), (Lost::Nothing, 1));
    let mode = |path: &Path| {
        std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions()) & 0o7777
    };
    assert_eq!((mode(&folder), mode(&run)), (0o1777, 0o755));
}

/// BOLT's runtime stops in the middle of the file; what is there looks like a profile.
#[test]
fn a_profile_that_bolts_runtime_did_not_finish_is_refused_with_its_words() {
    let Some(compiler) = tool("clang-22") else { return };
    let dir = tempfile::tempdir().unwrap();
    let system = System::new(dir.path().join("log")).unwrap();
    let source = format!(
        "#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
         static void ends(int signal) {{ exit(0); }}\n\
         __attribute__((noinline)) long {}(long n) {{ long sum = 0; for (long i = 0; i < n; i++) sum += i % 3 ? i : -sum; return sum; }}\n\
         int main(void) {{ signal(SIGTERM, ends); printf(\"ready %ld\\n\", {}(1000)); fflush(stdout); for (;;) pause(); }}\n",
        "f".repeat(12_000),
        "f".repeat(12_000)
    );
    fs::write(dir.path().join("long.c"), source).unwrap();
    let program = dir.path().join("long");
    let call = Call::new("compile", &compiler, dir.path()).args(["-O2", "-Wl,-q", "-o", "long", "long.c"]);
    system.run(&call.produces(&program)).unwrap();
    let Some((server, folder)) = instrument_by_bolt(
        &system,
        &program,
        &dir.path().join("work"),
        Writes::AtExit { for_each_process: true },
    ) else {
        return;
    };
    let mut session = system.start(&Call::new("server", &server, dir.path())).unwrap();
    session.stdout_line_matching("ready", PLENTY).unwrap();
    let files = ProfileFiles { kind: ProfileKind::Bolt, folder };
    let plan = StopPlan { dump: Dump::None, command: None, grace: PLENTY, files };
    let error = stop(&system, session, &plan).unwrap_err().to_string();
    assert!(error.contains("buffer overflow, function name too large"), "{error}");
    assert!(error.contains("profile = \"emulated\""), "{error}");
}
