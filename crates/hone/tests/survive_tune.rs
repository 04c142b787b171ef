//! `hone tune` is killed at each phase of a run and at any moment between: the ledger holds, what was set outside is back or named, nobody is left
//! behind, and the run comes to the same end.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant, SystemTime};

use hone_load::Admin;
use serde_json::Value;

#[path = "../../hone-host/tests/disk/mod.rs"]
mod disk;
mod stage;
use stage::clients::alone;
use stage::{Broker, Ran, hone_command, hone_in, processes_with, tools};

/// The brokers of the cluster pack every batch anew, and producers wait for nothing: two things to mend. The machine's setting is of no effect.
const BAD: &str = r#"
name = "orders"
[tune]
target = "TARGET"
allow = ["broker", "client", "host"]
pairs = 6
control_pairs = 0
alpha = 0.1
guards = []
keep_disturbed = true
lateness_limit_ms = 5000
find = false
[[tune.candidate]]
set = "SETTING=producer"
hope = 0.6
[[tune.candidate]]
set = "linger=30ms"
hope = 0.5
[[tune.candidate]]
set = "HOST"
hope = 0.1
[workload.orders]
client = "librdkafka"
client_settings = { "linger.ms" = "0" }
requests_per_s = 400
record_bytes = 4000
connections = 2
partitions = 2
warmup_requests = 30
duration_s = 0.25
"#;

const SETTING: &str = "compression.type";
/// What it is for the cluster outside of the run's windows.
const BEFORE: &str = "gzip";

/// A setting of this kernel, of a disk that nobody else has; of a folder of plain files where that can't be had.
struct Machine {
    root: tempfile::TempDir,
    disk: Option<disk::Loop>,
    before: String,
}

impl Machine {
    fn new() -> Self {
        let disk = disk::Loop::attach();
        let root = if disk.is_some() { disk::root_over_this_kernel() } else { tempfile::tempdir().unwrap() };
        let mut machine = Self { root, disk, before: String::new() };
        if machine.disk.is_none() {
            let files = [("proc/sys/kernel/random/boot_id", "first-boot\n"), (machine.file(), "60\n")];
            for (path, text) in files {
                let path = machine.root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
        }
        machine.before = machine.now();
        machine
    }

    fn file(&self) -> &str {
        "proc/sys/vm/swappiness"
    }

    /// As a candidate.
    fn change(&self) -> String {
        match &self.disk {
            Some(disk) => format!("host.sys/block/{}/queue/nr_requests=64", disk.name),
            None => "host.vm.swappiness=1".to_owned(),
        }
    }

    fn now(&self) -> String {
        match &self.disk {
            Some(disk) => format!("{:?}", disk::queue(&disk.name)),
            None => fs::read_to_string(self.root.path().join(self.file())).unwrap(),
        }
    }

    fn is_as_before(&self) -> bool {
        self.now() == self.before
    }

    /// Guards of changes that are open know their root.
    fn guards(&self) -> Vec<u32> {
        processes_with(&self.root.path().display().to_string())
    }
}

/// How a run ends that is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Kill,
    Interrupt,
    Term,
}

impl By {
    const ALL: [Self; 3] = [Self::Kill, Self::Interrupt, Self::Term];

    fn signal(self) -> i32 {
        match self {
            Self::Kill => libc::SIGKILL,
            Self::Interrupt => libc::SIGINT,
            Self::Term => libc::SIGTERM,
        }
    }
}

/// Who looks after what a killed run has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Undo,
    AnotherRun,
    Resume,
}

impl Next {
    const ALL: [Self; 3] = [Self::Undo, Self::AnotherRun, Self::Resume];
}

/// The moment at which a run is ended: its name, and whether it is there.
type Moment = (&'static str, fn(&Bench) -> bool);

/// Each phase of a run that tunes a cluster, in their order.
const MOMENTS: [Moment; 9] = [
    ("the pilot", |bench| bench.has("pilot/pairs/000.json")),
    ("between a choice and its step", |bench| {
        bench.steps().is_some_and(|step| step.join("chosen.json").is_file() && !step.join("pairs").exists())
    }),
    ("a window with the cluster's setting", Bench::cluster_is_set),
    ("a window with the cluster's setting, once more", Bench::cluster_is_set),
    ("a step that was judged", |bench| bench.has("steps/01/step.json")),
    ("a window with the machine's setting", Bench::machine_is_set),
    ("all but one", |bench| bench.has("end/01/without-01/pairs/001.json")),
    ("all against the first state", |bench| bench.has("end/01/all/pairs/001.json")),
    ("behind the last pair", |bench| bench.has("end/01/all/step.json")),
];

/// A run on a cluster that goes on running.
struct Bench {
    broker: Broker,
    machine: Machine,
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let (broker, machine, dir) = (Broker::start(), Machine::new(), tempfile::tempdir().unwrap());
        Admin::connect(&broker.address).unwrap().set_for_cluster(SETTING, BEFORE).unwrap();
        let text = BAD.replace("TARGET", &broker.address).replace("HOST", &machine.change());
        // Another run on the same cluster, which ends before it measures anything: its broker has no such setting.
        let other = text.replace("\"orders\"", "\"other\"").replace("SETTING", "broker.no.such");
        fs::write(dir.path().join("other.toml"), other).unwrap();
        let own = text.replace("SETTING", &format!("broker.{SETTING}"));
        fs::write(dir.path().join("hone.toml"), own).unwrap();
        Self { broker, machine, dir }
    }

    fn run(&self) -> PathBuf {
        self.dir.path().join("runs/orders-001")
    }

    fn has(&self, path: &str) -> bool {
        self.run().join(path).is_file()
    }

    /// The newest step.
    fn steps(&self) -> Option<PathBuf> {
        let entries = fs::read_dir(self.run().join("steps")).ok()?.flatten();
        entries.map(|entry| entry.path()).max()
    }

    fn of_cluster(&self) -> Option<String> {
        let mut admin = Admin::connect(&self.broker.address).unwrap();
        admin.cluster_setting(SETTING).unwrap().for_cluster
    }

    fn cluster_is_set(&self) -> bool {
        self.has("undo.json") && self.of_cluster().as_deref() != Some(BEFORE)
    }

    fn machine_is_set(&self) -> bool {
        !self.machine.is_as_before()
    }

    fn is_as_before(&self) -> bool {
        self.of_cluster().as_deref() == Some(BEFORE) && self.machine.is_as_before()
    }

    fn topics(&self) -> Vec<String> {
        let listed = Admin::connect(&self.broker.address).unwrap().topics().unwrap();
        listed.into_iter().map(|one| one.topic).filter(|topic| topic.starts_with("hone-tune-")).collect()
    }

    /// Begins the run or goes on with it.
    fn started(&self) -> Child {
        let (root, run) = (self.machine.root.path().display().to_string(), self.run().display().to_string());
        let begin = ["tune", "hone.toml", "--yes", "--host-root", &root];
        let go_on = ["tune", "--resume", &run];
        let words: &[&str] = if self.has("asked.json") { &go_on } else { &begin };
        started(self.dir.path(), words)
    }

    /// Ends the run at a moment. What it said.
    fn ended_at(&self, name: &str, by: By, is_there: impl Fn() -> bool) -> Ran {
        let mut child = self.started();
        waited(&mut child, self.dir.path(), name, is_there);
        let ran = ended(child, self.dir.path(), by);
        self.holds(name, by, &ran);
        ran
    }

    /// What is true of a run whatever has ended it.
    fn holds(&self, name: &str, by: By, ran: &Ran) {
        self.ledger_holds();
        let notes = self.has("undo.json") || self.has("undo-1.json");
        assert!(self.is_as_before() || notes, "{name}, {by:?}: something is set of which no note tells");
        if by == By::Kill {
            return;
        }
        // A run that has ended by itself in between was not interrupted.
        let told = ran.code == 0 || (ran.stderr.contains("interrupted") && ran.stderr.contains("--resume"));
        let blamed =
            ran.stderr.contains("failed in its window") || ran.stderr.contains("does not sustain the load");
        assert!(
            told && !blamed && [0, 1].contains(&ran.code),
            "{name}, {by:?}: {}\n{}",
            ran.code,
            ran.stderr
        );
        assert!(self.is_as_before() && !notes, "{name}, {by:?}: {}", ran.stderr);
        assert_eq!(self.topics(), Vec::<String>::new(), "{name}, {by:?}");
        assert_eq!(self.left(), Vec::<u32>::new(), "{name}, {by:?}");
    }

    fn ledger_holds(&self) {
        if self.dir.path().join("runs/ledger.jsonl").is_file() {
            hone_in(self.dir.path(), &["ledger", "verify", "--with-records"]).expect_code(0);
        }
    }

    fn left(&self) -> Vec<u32> {
        processes_with(&self.dir.path().display().to_string())
    }

    /// Whoever comes next finds what a kill has left.
    fn looked_after(&self, name: &str, next: Next) {
        match next {
            Next::Undo if self.has("undo.json") => {
                let run = self.run().display().to_string();
                hone_in(self.dir.path(), &["compare", "--rollback", &run]).expect_code(0);
            }
            Next::AnotherRun => {
                let root = self.machine.root.path().display().to_string();
                let words = ["tune", "other.toml", "--yes", "--host-root", &root];
                hone_in(self.dir.path(), &words).expect_code(1).expect_error("the setting does not exist");
                assert_eq!(self.topics(), Vec::<String>::new(), "{name}");
                assert_eq!(self.left(), Vec::<u32>::new(), "{name}");
            }
            // It can't be seen from outside, since the run sets it again.
            Next::Undo | Next::Resume => return,
        }
        assert!(self.is_as_before() && !self.has("undo.json"), "{name}, {next:?}");
    }
}

fn started(folder: &Path, words: &[&str]) -> Child {
    let said = File::create(folder.join("said")).unwrap();
    let mut command = hone_command();
    command.args(words).current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
    command.spawn().unwrap()
}

fn heard(folder: &Path) -> String {
    fs::read_to_string(folder.join("said")).unwrap()
}

fn waited(child: &mut Child, folder: &Path, name: &str, is_there: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    // Before it has said a word it may not hear a signal.
    while heard(folder).is_empty() || !is_there() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before: {name}\n{}", heard(folder));
        assert!(Instant::now() < until, "it never came to: {name}\n{}", heard(folder));
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ended(mut child: Child, folder: &Path, by: By) -> Ran {
    // SAFETY: the child has not been waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as i32, by.signal()) };
    let code = child.wait().unwrap().code().unwrap_or(-1);
    Ran { code, stdout: String::new(), stderr: heard(folder) }
}

/// Files of these names under a folder, with what must not change of them: what was chosen, and when a pair was measured.
fn kept(folder: &Path) -> BTreeMap<PathBuf, (String, SystemTime)> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_kept = path.parent().is_some_and(|above| above.ends_with("pairs"))
            || path.file_name().is_some_and(|name| name == "chosen.json");
        if path.is_dir() {
            found.extend(kept(&path));
        } else if is_kept && path.extension().is_some_and(|ending| ending == "json") {
            let written = fs::metadata(&path).unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read_to_string(&path).unwrap(), written));
        }
    }
    found
}

fn decisions(body: &Value) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let steps = body["steps"].as_array().unwrap().iter();
    steps.map(|step| (text(&step["step"]["change"]), text(&step["step"]["decision"]))).collect()
}

/// The same numbers for the same seed.
struct Seeded(u64);

impl Seeded {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

fn is_long() -> bool {
    std::env::var_os("HONE_LONG").is_some()
}

/// A run that is ended at every phase and at random moments between, then goes on to its end.
fn goes_on_whatever_ends_it(round: usize, at_random: usize) {
    let bench = Bench::new();
    let mut seeded = Seeded(round as u64 + 1);
    let mut before = BTreeMap::new();
    let mut turn = 0;
    let mut end = |name: &str, by: By, is_there: &dyn Fn() -> bool| {
        let (next, ran) = (Next::ALL[turn % 3], bench.ended_at(name, by, is_there));
        let left_set = !bench.is_as_before();
        if by == By::Kill {
            turn += 1;
            bench.looked_after(name, next);
        }
        let now = kept(&bench.run());
        for (path, was) in std::mem::replace(&mut before, now) {
            assert_eq!(before.get(&path), Some(&was), "{name}: {} was made anew", path.display());
        }
        (left_set, ran)
    };
    let mut was_set = 0;
    for (index, (name, is_there)) in MOMENTS.into_iter().enumerate() {
        // A kill is the worst of them, so every other end is one.
        let by = if (index + round).is_multiple_of(2) { By::Kill } else { By::ALL[1 + index / 2 % 2] };
        was_set += usize::from(end(name, by, &|| is_there(&bench)).0);
        // Behind the last phases a run would come to its end.
        let phases = MOMENTS.len() - 2;
        let so_far = |index: usize| at_random * index.min(phases) / phases;
        for _ in so_far(index)..so_far(index + 1) {
            let (wait, by) = (Duration::from_millis(seeded.below(3_000)), By::ALL[seeded.below(3) as usize]);
            let begun = OnceCell::new();
            let is_there = || begun.get_or_init(Instant::now).elapsed() >= wait;
            end(&format!("{wait:?} behind {name}"), by, &is_there);
        }
    }
    assert!(was_set >= 1, "no kill met a setting in force");

    let run = bench.run().display().to_string();
    let ran = hone_in(bench.dir.path(), &["tune", "--resume", &run, "--json"]).expect_code(0);
    let found = decisions(&ran.json()["body"]);
    for change in [format!("broker.{SETTING}=producer"), "linger=30ms".to_owned()] {
        assert_eq!(found.get(&change).map(String::as_str), Some("accepted"), "{found:?}");
    }
    assert!(found.contains_key(&bench.machine.change()), "{found:?}");
    let now = kept(&bench.run());
    assert!(
        before.iter().all(|(path, was)| now.get(path) == Some(was)),
        "what was measured was measured once"
    );
    bench.nothing_is_left();

    let path = bench.dir.path().join("runs/ledger.jsonl");
    let ledger = fs::read_to_string(&path).unwrap();
    let mut entries: Vec<String> = ledger
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["body"].take())
        .map(|body| format!("{} {} {}", body["change"], body["question"], body["decision"]))
        .collect();
    let count = entries.len();
    entries.sort_unstable();
    entries.dedup();
    assert!(count == entries.len() && count > found.len(), "each once: {entries:?}");
    hone_in(bench.dir.path(), &["tune", "--resume", &run]).expect_code(0);
    assert_eq!(fs::read_to_string(&path).unwrap(), ledger);
}

impl Bench {
    /// Behind a run that came to its end.
    fn nothing_is_left(&self) {
        self.ledger_holds();
        assert!(self.is_as_before(), "{:?}", self.of_cluster());
        assert_eq!((self.topics(), self.left()), (Vec::new(), Vec::new()));
        let run = self.run();
        for name in ["undo.json", "undo-1.json", "topics.json"] {
            assert!(!run.join(name).exists(), "{name}");
        }
        let data = fs::read_dir(run.join("scratch")).map_or(0, Iterator::count);
        assert_eq!(data, 0, "no data of a killed attempt is left");
        let until = Instant::now() + Duration::from_secs(60);
        while !self.machine.guards().is_empty() {
            assert!(Instant::now() < until, "a guard goes when there is nothing to take back");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// One run, ended eleven times; five runs with as many random ends as phases with HONE_LONG=1, in which the signals change places.
#[test]
fn a_run_on_a_cluster_goes_on_whatever_ends_it() {
    let _alone = alone();
    let (rounds, at_random) = if is_long() { (5, 9) } else { (1, 2) };
    for round in 0..rounds {
        goes_on_whatever_ends_it(round, at_random);
    }
}

/// A broker behind a program that starts it, as a script of a distribution does: the kernel ends the one with Hone and not the other.
const LAUNCHER: &str = r#"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile pid_t child;
static void pass(int signal) { if (child > 0) kill(child, signal); }
int main(int count, char **words) {
  (void)count;
  child = fork();
  if (child == 0) { execv(HONE, words); _exit(127); }
  signal(SIGTERM, pass);
  signal(SIGINT, pass);
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
"#;

const BUILDS: &str = r#"
name = "server"
[target]
source = "tree"
build = ["make server"]
program = "server"
compiler = "clang-22"
args = ["broker", "--listen", "127.0.0.1:{port}", "--metrics-listen", "off", "--data", "{data}"]
[optimize]
diagnose = false
train = "train"
judge = ["judge"]
variants = ["relocs"]
soak_s = 0
[workload.train]
requests_per_s = 200
record_bytes = 200
warmup_requests = 20
duration_s = 0.3
[workload.judge]
requests_per_s = 200
record_bytes = 300
warmup_requests = 20
duration_s = 0.3
"#;

const BUILT: &str = r#"
name = "built"
[tune]
target = "{program} broker --listen 127.0.0.1:{port} --metrics-listen off --data {data}"
build = "build.toml"
mode = "duet"
pairs = 5
control_pairs = 0
alpha = 0.1
guards = []
keep_disturbed = true
lateness_limit_ms = 5000
find = false
[[tune.candidate]]
set = "linger=30ms"
hope = 0.5
[[tune.candidate]]
set = "env.UNUSED=1"
hope = 0.01
[workload.orders]
client = "librdkafka"
client_settings = { "linger.ms" = "0" }
requests_per_s = 2000
record_bytes = 300
connections = 2
partitions = 2
warmup_requests = 50
duration_s = 0.3
"#;

/// Whether this step of the builds is carried out. What a killed attempt noted goes when the next one has looked around.
fn builds(run: &Path, step: &str) -> bool {
    let note = fs::read_to_string(run.join("builds/server-001/attempt.json")).unwrap_or_default();
    let note: Value = serde_json::from_str(&note).unwrap_or_default();
    note["step"] == step && Path::new("/proc").join(note["pid"].to_string()).exists()
}

/// A folder whose processes end with the test, also with one that fails in between.
struct Swept(tempfile::TempDir);

impl Drop for Swept {
    fn drop(&mut self) {
        for pid in processes_with(&self.0.path().display().to_string()) {
            // SAFETY: no pointer is handed over; it is a process of this test's own folder.
            unsafe { libc::kill(pid as i32, libc::SIGKILL) };
        }
    }
}

#[test]
fn a_run_with_builds_goes_on_and_leaves_no_broker_behind() {
    let (Some(_), Some(_)) = (tools::find("clang-22"), tools::find("make")) else { return };
    let _alone = alone();
    let dir = Swept(tempfile::tempdir().unwrap());
    let folder = dir.0.path();
    fs::create_dir(folder.join("tree")).unwrap();
    fs::write(folder.join("tree/server.c"), LAUNCHER).unwrap();
    let hone = env!("CARGO_BIN_EXE_hone");
    let makefile = format!("server: server.c\n\tsleep 0.3\n\t$(CC) -O2 -DHONE='\"{hone}\"' -o $@ $<\n");
    fs::write(folder.join("tree/Makefile"), makefile).unwrap();
    fs::write(folder.join("build.toml"), BUILDS).unwrap();
    fs::write(folder.join("hone.toml"), BUILT).unwrap();
    // Another run, which ends before it measures anything.
    fs::write(folder.join("other.toml"), BUILT.replace("\"built\"", "\"other\"")).unwrap();
    let run = folder.join("runs/built-001");
    let left = || processes_with(&folder.display().to_string());
    let end = |name: &str, by: By, is_there: &dyn Fn() -> bool| {
        let go_on = ["tune", "--resume", run.to_str().unwrap()];
        let words = if run.is_dir() { &go_on[..] } else { &["tune", "hone.toml"] };
        let mut child = started(folder, words);
        waited(&mut child, folder, name, is_there);
        let ran = ended(child, folder, by);
        assert!(by == By::Kill || (ran.code == 1 && left().is_empty()), "{name}: {}", ran.stderr);
        ran
    };
    end("the plain build", By::Kill, &|| builds(&run, "build-baseline"));
    end("the plain build", By::Interrupt, &|| builds(&run, "build-baseline"));
    end("the other build", By::Term, &|| builds(&run, "build-relocs"));
    let has = |path: &str| run.join(path).is_file();
    let serves = || left().len() >= 5;
    end("the pilot", By::Kill, &|| has("pilot/pairs/000.json") && serves());
    std::thread::sleep(Duration::from_millis(300));
    assert!(!left().is_empty(), "the kernel ends no child of a child");
    let built = fs::read_to_string(run.join("built.json")).unwrap();
    // A ledger that can't be written ends the other one before its builds, which is after it has looked around.
    let ledger = folder.join("runs/ledger.jsonl");
    fs::create_dir(&ledger).unwrap();
    let other = hone_in(folder, &["tune", "other.toml"]).expect_code(1).expect_error("ledger.jsonl");
    other.expect_error("ended a process that it left running, step start-now");
    fs::remove_dir(&ledger).unwrap();
    assert_eq!(left(), Vec::<u32>::new());
    end("a step", By::Kill, &|| has("steps/01/pairs/001.json") && serves());
    let ran = end("the next step", By::Interrupt, &|| has("steps/02/pairs/001.json"));
    let ran = ran.expect_error("ended a process that it left running, step start-");
    assert!(ran.stderr.contains("interrupted"), "{}", ran.stderr);

    let ran = hone_in(folder, &["tune", "--resume", run.to_str().unwrap(), "--json"]).expect_code(0);
    let found = decisions(&ran.json()["body"]);
    assert_eq!(found.get("linger=30ms").map(String::as_str), Some("accepted"), "{found:?}");
    assert!(found.contains_key("env.UNUSED=1"), "{found:?}");
    assert!(
        !found.contains_key("build relocs"),
        "what is only there to be built upon is not tried: {found:?}"
    );
    assert_eq!(fs::read_to_string(run.join("built.json")).unwrap(), built, "built once");
    assert_eq!(left(), Vec::<u32>::new());
    assert_eq!(fs::read_dir(run.join("scratch")).unwrap().count(), 0, "no data is left");
    hone_in(folder, &["ledger", "verify", "--with-records"]).expect_code(0);
}
