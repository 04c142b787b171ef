//! perf recordings on this machine, compared with perf's own reports about them.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use hone_diagnose::image::Image;
use hone_diagnose::perf::{self, Lying, PerfFault, Samples};
use hone_tool::{Call, Runner as _, System, Tool};

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

/// Threads with names, a library, the kernel, a child that becomes another program.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
volatile unsigned long sum;
__attribute__((noinline)) void grind(unsigned long n) { for (unsigned long i = 0; i < n; i++) sum += i * i; }
static void *busy(void *name) {
    prctl(PR_SET_NAME, name);
    for (int i = 0; i < 60; i++) grind(2000000);
    return 0;
}
static void *calls(void *name) {
    prctl(PR_SET_NAME, name);
    for (int i = 0; i < 300000; i++) { getppid(); if (getenv("NOT_THERE")) return 0; }
    return 0;
}
int main(int words, char **word) {
    pthread_t one, other;
    if (words > 1) { busy("child"); return 0; }
    pthread_create(&one, 0, busy, "reactor-0");
    pthread_create(&other, 0, calls, "caller");
    if (!fork()) { execl(word[0], word[0], "again", (char *)0); _exit(1); }
    pthread_join(one, 0);
    pthread_join(other, 0);
    wait(0);
    return 0;
}
"#;

struct Bench {
    dir: tempfile::TempDir,
    runner: System,
    perf: PathBuf,
    program: PathBuf,
}

impl Bench {
    /// `None` if perf, or a compiler, is missing.
    fn new() -> Option<Self> {
        let perf = there(Tool::new("perf", "HONE_PERF").locate(&[]))?.path().to_owned();
        let cc = there(Tool::new("cc", "").locate(&[]))?;
        let dir = tempfile::tempdir().unwrap();
        let runner = System::new(dir.path().join("logs")).unwrap();
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        std::fs::write(&source, PROGRAM).unwrap();
        let call = Call::new("cc", cc.path(), dir.path()).args(["-O1", "-g0", "-pthread", "-o"]);
        runner.run(&call.arg(&program).arg(&source)).unwrap();
        Some(Self { dir, runner, perf, program })
    }

    /// Records the program; `None` if perf has no permission.
    fn recorded(&self, name: &str, words: &[&str]) -> Option<PathBuf> {
        let data = self.dir.path().join(name);
        let call = Call::new("perf", &self.perf, self.dir.path()).args(["record", "-q", "-N", "-o"]);
        let call = call.arg(&data).args(words.iter().copied()).arg("--").arg(&self.program);
        there(self.runner.run(&call.produces(&data)))?;
        Some(data)
    }

    fn told(&self, words: &[&str], data: &Path) -> String {
        let call = Call::new("perf", &self.perf, self.dir.path()).args(words.iter().copied());
        self.runner.run(&call.arg("-i").arg(data)).unwrap().stdout_text().unwrap()
    }
}

fn read(path: &Path) -> Result<Samples, PerfFault> {
    perf::read(File::open(path).unwrap())
}

/// What lies in no file has many names at perf.
fn object(words: &str) -> String {
    if words.starts_with('/') { words.to_owned() } else { String::new() }
}

/// By thread and file, of `perf script`: `reactor-0 123 7f00 (/bin/p)`.
fn by_perf(text: &str) -> BTreeMap<(u32, String), u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (head, dso) = line.rsplit_once('(').unwrap_or_else(|| panic!("{line}"));
        let tid = head.split_whitespace().rev().nth(1).and_then(|word| word.parse().ok());
        let object = object(dso.trim_end_matches(')'));
        *counts.entry((tid.unwrap_or_else(|| panic!("{line}")), object)).or_insert(0) += 1;
    }
    counts
}

fn by_hone(samples: &Samples) -> BTreeMap<(u32, String), u64> {
    let mut counts = BTreeMap::new();
    for thread in &samples.threads {
        for (path, count) in thread.by_path() {
            let path = path.map_or(String::new(), |path| object(&samples.paths[path as usize]));
            *counts.entry((thread.tid, path)).or_insert(0) += count;
        }
    }
    counts
}

#[test]
fn threads_and_files_have_the_samples_that_perf_says() {
    let Some(bench) = Bench::new() else { return };
    for words in [&["-e", "cpu-clock", "-F", "4000"][..], &["-e", "cpu-clock", "-F", "999", "-g", "-d"]] {
        let Some(data) = bench.recorded("p.data", words) else { return };
        let samples = read(&data).unwrap();
        let script = bench.told(&["script", "-F", "comm,tid,ip,dso", "-G"], &data);
        assert_eq!(by_hone(&samples), by_perf(&script));
        assert!(
            samples.samples > 100 && samples.is_time && samples.event.starts_with("cpu-clock"),
            "{samples:?}"
        );
        // The report adds up by file.
        let report = bench.told(
            &[
                "report",
                "--stdio",
                "-q",
                "--sort",
                "dso",
                "-n",
                "-F",
                "sample,dso",
                "--no-children",
                "-g",
                "none",
            ],
            &data,
        );
        let own = bench.program.file_name().unwrap().to_str().unwrap();
        let row = report.lines().find(|line| line.split_whitespace().nth(1) == Some(own));
        let told: u64 = row.and_then(|row| row.split_whitespace().next()?.parse().ok()).unwrap();
        assert_eq!(samples.whole(None).program, told, "{report}");
    }
}

#[test]
fn the_busy_function_is_found_in_the_busy_thread_and_the_calls_in_the_kernel() {
    let Some(bench) = Bench::new() else { return };
    let Some(data) = bench.recorded("p.data", &["-e", "cpu-clock", "-F", "4000"]) else { return };
    let samples = read(&data).unwrap();
    let thread = |name: &str| samples.threads.iter().find(|thread| thread.name == name).unwrap();
    let split = samples.split(thread("reactor-0"), None);
    assert!(split.program * 10 >= split.all() * 9, "{split:?}");
    assert!(thread("caller").places.contains_key(&Lying::Kernel), "{:?}", thread("caller"));
    assert_ne!(thread("child").pid, thread("caller").pid, "another process, another program");
    let run = samples.run(|path| Image::parse(&std::fs::read(path).ok()?).ok());
    let part = run.parts.iter().find(|part| part.name == "reactor-0").unwrap();
    let hottest = (0..run.blocks.len()).max_by_key(|block| part.count(*block)).unwrap();
    assert_eq!(run.function_of(&run.blocks[hottest]), Some("grind"));
}

/// By the table behind the data, and by the mappings, as newer perfs ask for it.
#[test]
fn a_program_that_was_built_anew_since_has_no_names() {
    let Some(bench) = Bench::new() else { return };
    let image = |path: &str| Image::parse(&std::fs::read(path).ok()?).ok();
    let names = |samples: &Samples, own: &str| {
        let run = samples.run(image);
        let object = run.objects.iter().find(|object| object.path == own);
        object.is_some_and(|object| object.image.is_some())
    };
    let own = bench.program.canonicalize().unwrap().to_str().unwrap().to_owned();
    let mut all = Vec::new();
    for words in [&["-e", "cpu-clock", "-F", "999"][..], &["-e", "cpu-clock", "-F", "999", "--buildid-mmap"]]
    {
        let Some(data) = bench.recorded("p.data", words) else { return };
        let samples = read(&data).unwrap();
        let run = samples.run(image);
        assert!(
            names(&samples, &own) && !samples.of_unknown_builds(&run).contains(&own.as_str()),
            "{words:?}"
        );
        all.push(samples);
    }
    std::fs::remove_file(&bench.program).unwrap();
    let source = bench.dir.path().join("p.c");
    std::fs::write(&source, PROGRAM.replace("i * i", "i + i")).unwrap();
    let cc = there(Tool::new("cc", "").locate(&[])).unwrap();
    let call = Call::new("cc", cc.path(), bench.dir.path()).args(["-O1", "-g0", "-pthread", "-o"]);
    bench.runner.run(&call.arg(&bench.program).arg(&source)).unwrap();
    assert!(all.iter().all(|samples| !names(samples, &own)), "{all:?}");
}

#[test]
fn what_can_not_be_read_is_told_with_what_to_do() {
    let Some(bench) = Bench::new() else { return };
    let Some(data) = bench.recorded("z.data", &["-z", "-e", "cpu-clock", "-F", "999"]) else { return };
    // A perf that was built without zstd records as if nothing had been asked.
    if let Err(error) = read(&data) {
        assert!(error.to_string().contains("without -z"), "{error}");
    }
    let Some(whole) = bench.recorded("p.data", &["-e", "cpu-clock", "-F", "999"]) else { return };
    let mut bytes = std::fs::read(&whole).unwrap();
    let all = read(&whole).unwrap().samples;
    bytes[48..56].fill(0);
    let cut = perf::read(std::io::Cursor::new(&bytes[..bytes.len() / 2])).unwrap();
    assert!(cut.samples < all && cut.notes[0].contains("no proper end"), "{:?}", cut.notes);
    bytes[..8].reverse();
    let error = perf::read(std::io::Cursor::new(&bytes)).unwrap_err();
    assert!(error.to_string().contains("another byte order"), "{error}");
}

#[test]
fn a_pipe_is_refused() {
    let piped = [b"PERFILE2".as_slice(), &16_u64.to_le_bytes(), &[0; 100]].concat();
    let error = perf::read(std::io::Cursor::new(piped)).unwrap_err();
    assert!(matches!(error, PerfFault::Piped) && error.to_string().contains("perf inject"), "{error}");
    assert!(matches!(perf::read(std::io::Cursor::new(b"\x7fELF")), Err(PerfFault::Foreign)));
}
