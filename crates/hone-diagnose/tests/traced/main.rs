//! The tracer under the real emulator, compared with callgrind, with itself, and with programs whose counts are known.

mod code;
mod foretold;
mod layouts;

use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_diagnose::cache::LINE_BITS;
use hone_diagnose::cache::MODELS;
use hone_diagnose::emulator::{Emulator, TraceOptions};
use hone_diagnose::image::Image;
use hone_diagnose::model::{self, Run, curve, heat};
use hone_diagnose::trace::{Left, Trace, TraceFolder, Translated};
use hone_diagnose::{callgrind, model::Part};
use hone_tool::{Call, Runner as _, System, Tool};

/// Programs of this test run in a folder of their own.
struct Bench {
    dir: tempfile::TempDir,
    runner: System,
    emulator: Emulator,
}

/// A missing tool is a reason to skip, or to fail if all tools are required.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn there<T, E: std::fmt::Display>(found: Result<T, E>) -> Option<T> {
    match found {
        Ok(found) => Some(found),
        Err(error) if std::env::var_os("HONE_REQUIRE_TOOLS").is_some() => panic!("{error}"),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

impl Bench {
    fn new() -> Option<Self> {
        let emulator = there(Emulator::find())?;
        let dir = tempfile::tempdir().unwrap();
        let runner = System::new(dir.path().join("logs")).unwrap();
        Some(Self { dir, runner, emulator })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn cc(&self, name: &str, source: &str) -> Option<PathBuf> {
        let cc = there(Tool::new("cc", "").locate(&[]))?;
        let (file, program) = (self.path(&format!("{name}.c")), self.path(name));
        std::fs::write(&file, source).unwrap();
        let call = Call::new("cc", cc.path(), self.dir.path())
            .args(["-O1", "-g0", "-pthread", "-o"])
            .arg(&program)
            .arg(&file);
        self.runner.run(&call).unwrap();
        Some(program)
    }

    /// Runs a program to its end under the emulator.
    fn traced(&self, wanted: TraceOptions, program: &Path, words: &[&str]) -> Left {
        let folder = TraceFolder::create(&self.path("trace")).unwrap();
        let tracer = self.emulator.tracer(self.dir.path()).unwrap();
        let (path, before) = self.emulator.around(&tracer, &folder, wanted, program);
        let call = Call::new("traced", path, self.dir.path()).args(before).args(words);
        self.runner.run(&call.limit(Duration::from_secs(300))).unwrap();
        folder.left().unwrap()
    }
}

/// The file at a path, as far as it can be read.
fn image(path: &str) -> Option<Image> {
    Image::parse(&std::fs::read(path).ok()?).ok()
}

fn run_of(left: &Left) -> Run {
    assert!(left.broken.is_empty(), "{:?}", left.broken);
    model::of_traces(&left.traces, image)
}

/// How often a function was called.
fn calls(run: &Run, part: &Part, function: &str) -> u64 {
    let image = run.objects.iter().filter_map(|object| object.image.as_ref());
    let begins: Vec<u64> = image
        .flat_map(|image| &image.functions)
        .filter(|found| found.name == function)
        .map(|found| found.address)
        .collect();
    let is_begin = |index: usize| begins.contains(&run.blocks[index].address);
    (0..run.blocks.len()).filter(|&index| is_begin(index)).map(|index| part.count(index)).sum()
}

const FIBONACCI: &str = r#"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <signal.h>
#include <pthread.h>
#include <sys/wait.h>
__attribute__((noinline)) int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
static void *work(void *n) { pthread_setname_np(pthread_self(), "reactor-1"); return (void *)(long)fib(*(int *)n); }
int main(int count, char **words) {
  int n = atoi(words[1]), sum = 0;
  if (count > 2 && !strcmp(words[2], "forks")) {
    for (int i = 0; i < 3; i++) if (!fork()) { sum = fib(10); _exit(sum != 55); }
    while (wait(0) > 0) {}
  }
  if (count > 2 && !strcmp(words[2], "thread")) {
    pthread_t thread; pthread_create(&thread, 0, work, &n); pthread_join(thread, 0);
  } else sum = fib(n);
  if (count > 2 && !strcmp(words[2], "killed")) { sleep(2); kill(getpid(), SIGKILL); }
  if (count > 2 && !strcmp(words[2], "many")) {
    for (int i = 0; i < 2300; i++) { if (!fork()) _exit(0); wait(0); }
  }
  return sum < 0;
}
"#;

const WALK: &str = r#"
#include <stdlib.h>
static volatile char lines[131072] __attribute__((aligned(4096)));
int main(int count, char **words) {
  long bytes = atol(words[1]);
  for (long round = atol(words[2]); round > 0; round--) for (long at = 0; at < bytes; at += 64) lines[at]++;
  return count > 9;
}
"#;

/// A round misses every line of a buffer that is larger than a first level, and no line of a smaller one.
#[test]
fn a_walk_through_a_buffer_misses_what_does_not_fit() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("walk", WALK) else { return };
    let wanted = TraceOptions { caches: true, data: true, ..TraceOptions::COUNTS };
    let misses = |bytes: u64, rounds: u64| {
        let left = bench.traced(wanted, &program, &[&bytes.to_string(), &rounds.to_string()]);
        let run = run_of(&left);
        let simulated = run.whole().simulated.unwrap();
        assert!(simulated.has_data);
        simulated.misses
    };
    // Start-up and end are in both runs.
    let of_rounds = |bytes, rounds| {
        let (none, all) = (misses(bytes, 0), misses(bytes, rounds));
        let of = |name: &str| {
            let model = MODELS.iter().position(|model| model.name == name).unwrap();
            all[model] as f64 - none[model] as f64
        };
        ["L1d 32 KiB 8-way", "L1d 48 KiB 12-way", "last level 4 MiB 16-way"].map(of)
    };
    let [small, larger, last] = of_rounds(16 << 10, 100);
    assert!(small < 400.0 && larger < 400.0 && last < 400.0, "256 lines that fit: {small} {larger} {last}");
    let [small, larger, last] = of_rounds(40 << 10, 100);
    assert!(
        (small - 64_000.0).abs() < 3_200.0 && larger < 2_000.0 && last < 1_000.0,
        "{small} {larger} {last}"
    );
    let [small, larger, last] = of_rounds(128 << 10, 100);
    let near = |count: f64| (count - 204_800.0).abs() < 4_096.0;
    assert!(near(small) && near(larger) && last < 2_500.0, "{small} {larger} {last}");
}

/// `fib(n)` calls itself so often.
fn calls_of_fib(n: u64) -> u64 {
    if n < 2 { 1 } else { 1 + calls_of_fib(n - 1) + calls_of_fib(n - 2) }
}

#[test]
fn calls_are_counted_exactly_and_three_runs_are_the_same() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("fib", FIBONACCI) else { return };
    let once = || {
        let left = bench.traced(
            TraceOptions { period: 200_000, window: 20_000, ..TraceOptions::ALL },
            &program,
            &["20"],
        );
        assert_eq!((left.traces.len(), left.left_out), (1, 0));
        let [trace]: [Trace; 1] = left.traces.try_into().unwrap();
        assert!(trace.has_ended && !trace.windows.is_empty());
        let mut facts = trace.facts.clone();
        facts.remove("process");
        // From qemu 9 on files are mapped elsewhere in each run; where in the file is what counts.
        let mapped = |block: &Translated| if block.object.is_some() { 0 } else { block.address };
        let blocks =
            trace.blocks.iter().map(|block| Translated { address: mapped(block), ..*block }).collect();
        Trace { facts, blocks, ..trace }
    };
    let (first, second, third) = (once(), once(), once());
    assert!(first == second && second == third, "the same program does the same");
    let run = model::of_traces(&[first], image);
    assert_eq!(calls(&run, &run.parts[0], "fib"), calls_of_fib(20));
    let found = model::layout(&run, &run.parts[0]);
    assert!(found.missed("L1i 32 KiB 8-way").unwrap() < 3.0, "{found:?}");
    assert!(found.taken_per_1000.unwrap() > 50.0 && found.objects[0].path.as_deref().is_some(), "{found:?}");
    let windowed: u64 = run.windows.iter().map(|window| window.blocks.len() as u64).sum();
    assert!(windowed > 1_000 && run.windows.iter().all(|window| window.warm_up > 0), "{windowed}");
}

#[test]
fn forks_have_files_of_their_own_and_threads_their_names() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("fib", FIBONACCI) else { return };
    let left = bench.traced(TraceOptions::COUNTS, &program, &["12", "forks"]);
    assert_eq!(left.traces.len(), 4);
    let run = run_of(&left);
    let whole = run.whole();
    assert_eq!(calls(&run, &whole, "fib"), calls_of_fib(12) + 3 * calls_of_fib(10));

    let run = run_of(&bench.traced(TraceOptions::COUNTS, &program, &["21", "thread"]));
    let busy = &run.parts[0];
    assert_eq!((busy.name.as_str(), calls(&run, busy, "fib")), ("reactor-1", calls_of_fib(21)));
    assert_eq!(calls(&run, &run.whole(), "fib"), calls_of_fib(21));
}

#[test]
fn a_program_that_is_killed_loses_seconds_and_not_everything() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("fib", FIBONACCI) else { return };
    let folder = TraceFolder::create(&bench.path("trace")).unwrap();
    let tracer = bench.emulator.tracer(bench.dir.path()).unwrap();
    let (path, before) = bench.emulator.around(&tracer, &folder, TraceOptions::COUNTS, &program);
    let call = Call::new("traced", path, bench.dir.path()).args(before).args(["20", "killed"]);
    let mut session = bench.runner.start(&call).unwrap();
    // It has done its work, and sleeps.
    std::thread::sleep(Duration::from_millis(1_000));
    assert_eq!(folder.save(&session.processes()).unwrap(), 1);
    session.wait_end(Duration::from_secs(30), Duration::ZERO).unwrap();
    let left = folder.left().unwrap();
    assert!(!left.traces[0].has_ended);
    let run = run_of(&left);
    assert_eq!(calls(&run, &run.whole(), "fib"), calls_of_fib(20));
}

#[test]
fn what_was_counted_before_a_wish_to_forget_is_forgotten() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("fib", FIBONACCI) else { return };
    let folder = TraceFolder::create(&bench.path("trace")).unwrap();
    let tracer = bench.emulator.tracer(bench.dir.path()).unwrap();
    let (path, before) = bench.emulator.around(&tracer, &folder, TraceOptions::ALL, &program);
    let call = Call::new("traced", path, bench.dir.path()).args(before).args(["20", "killed"]);
    let mut session = bench.runner.start(&call).unwrap();
    std::thread::sleep(Duration::from_millis(1_000));
    assert_eq!(folder.forget(&session.processes()).unwrap(), 1);
    assert_eq!(folder.save(&session.processes()).unwrap(), 1);
    session.kill().unwrap();
    let left = folder.left().unwrap();
    let run = run_of(&left);
    assert_eq!(calls(&run, &run.whole(), "fib"), 0);
    assert!(!left.traces[0].blocks.is_empty(), "code that was translated stays known");
}

#[test]
fn thousands_of_processes_do_not_fill_the_disk_and_are_told_of() {
    let Some(bench) = Bench::new() else { return };
    let Some(program) = bench.cc("fib", FIBONACCI) else { return };
    let left = bench.traced(TraceOptions::COUNTS, &program, &["10", "many"]);
    assert_eq!((left.traces.len() as u64 + left.left_out, left.left_out), (2_301, 300));
    assert_eq!(calls(&run_of(&left), &run_of(&left).whole(), "fib"), calls_of_fib(10));
}

/// The same program under callgrind.
fn by_callgrind(bench: &Bench, program: &Path, words: &[&str]) -> Option<Run> {
    let valgrind = there(Tool::new("valgrind", "").debian("valgrind").locate(&[]))?;
    let out = bench.path("callgrind.out");
    let call = Call::new("callgrind", valgrind.path(), bench.dir.path())
        .args(["--tool=callgrind", "--dump-instr=yes"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(program)
        .args(words)
        .limit(Duration::from_secs(300))
        .produces(&out);
    bench.runner.run(&call).unwrap();
    Some(callgrind::read(&std::fs::read_to_string(&out).unwrap(), image).unwrap())
}

fn agrees_with_callgrind(program: &Path, words: &[&str]) {
    let Some(bench) = Bench::new() else { return };
    let Some(other) = by_callgrind(&bench, program, words) else { return };
    let run = run_of(&bench.traced(TraceOptions::COUNTS, program, words));
    let of = |run: &Run| {
        let whole = run.whole();
        (whole.instructions(run) as f64, curve(&heat(run, &whole, LINE_BITS)))
    };
    let ((ours, our_lines), (theirs, their_lines)) = (of(&run), of(&other));
    assert!((ours / theirs - 1.0).abs() < 0.02, "{ours} instructions, callgrind {theirs}");
    for (ours, theirs) in our_lines.iter().zip(&their_lines) {
        let (ours, theirs) = (*ours as f64, *theirs as f64);
        // With so few lines, one line is more than a tenth.
        assert!((ours - theirs).abs() <= (0.1 * theirs).max(3.0), "{our_lines:?}, callgrind {their_lines:?}");
    }
}

#[test]
fn instructions_and_lines_of_an_interpreter_are_those_of_callgrind() {
    let Some(perl) = there(Tool::new("perl", "").locate(&[])) else { return };
    agrees_with_callgrind(
        perl.path(),
        &[
            "-e",
            "my %h; $h{$_ % 977} .= chr(65 + $_ % 26) for 1..60000; print length join '', sort values %h",
        ],
    );
}

#[test]
fn instructions_and_lines_of_a_compiler_are_those_of_callgrind() {
    let Some(bench) = Bench::new() else { return };
    let Some((compiler, source)) = layouts::compiler(&bench) else { return };
    agrees_with_callgrind(&compiler, &["-quiet", "-O1", &source, "-o", "/dev/null"]);
}
