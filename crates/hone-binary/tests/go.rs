//! Go's profiles, builds and benchmarks with the real `go`; and every way in which a profile silently comes to nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_binary::go::{Finding, Merger, Profile, of_allocations, of_cpu, table};
use hone_tool::{Call, Runner, System, Tool};

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
            (words[5].to_owned(), number(words[0]), number(words[3]))
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
