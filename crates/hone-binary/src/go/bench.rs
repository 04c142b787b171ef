//! Go's own benchmarks, without and with the profile: test programs of both kinds, started in turns.
//!
//! The results are plain numbers, pair by pair; the comparison gives the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hone_tool::Call;
use serde::{Deserialize, Serialize};

use super::build::GoPgo;
use super::diagnostics::{self, Package};
use super::plan::From;
use crate::built::Merged;
use crate::elf::file_facts;

/// Fewer rounds show only large effects: the published case took 8, and on a shared machine even 12 left effects of 3 % open.
pub const LEAST_ROUNDS: u32 = 8;

/// Time limit of one program in one round.
const ROUND_LIMIT: Duration = Duration::from_secs(3600);

/// The benchmarks, and the number of rounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BenchPlan {
    /// Packages with benchmarks, as `go test` takes them, for example `./...`.
    pub packages: Vec<String>,
    /// The benchmarks: a Go regular expression.
    pub pattern: String,
    /// Rounds; in each of them every program runs once. At least [`LEAST_ROUNDS`].
    pub rounds: u32,
    /// How long a benchmark runs each time: a duration, or a number of iterations as `1000x`.
    pub benchtime: String,
    /// Value of GOMAXPROCS; otherwise Go's own choice.
    pub cpus: Option<u32>,
}

/// The values of one metric of one benchmark. The i-th values of all three were taken in the same round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pairs {
    /// The package.
    pub package: String,
    /// The benchmark with its sub-benchmark and number of CPUs, as Go prints it.
    pub benchmark: String,
    /// The metric's unit, which is its name: `ns/op`, `B/op`, `allocs/op`, or a custom one of the benchmark.
    pub metric: String,
    /// Without the profile.
    pub off: Vec<f64>,
    /// With it.
    pub on: Vec<f64>,
    /// Without it, by another copy of the same program: the difference to `off` is noise.
    pub control: Vec<f64>,
}

/// The results of a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BenchResult {
    /// By package, benchmark and metric.
    pub pairs: Vec<Pairs>,
    /// Benchmarks or metrics that some program in some round lacks: left out.
    pub incomplete: Vec<String>,
    /// Packages whose machine code the profile does not change: not run.
    pub unchanged: Vec<String>,
    /// The command of one run of each program, ready to paste.
    pub commands: Vec<String>,
}

/// One line of a benchmark's output.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchLine {
    /// The package by the last line `pkg:`.
    pub package: String,
    /// Its name.
    pub benchmark: String,
    /// Iterations.
    pub iterations: u64,
    /// Values by unit, in the order of the line.
    pub metrics: Vec<(String, f64)>,
}

/// Reads the output of benchmarks (`golang.org/design/14313-benchmark-format`). Skips other lines, and values that are not finite numbers.
pub fn parse(text: &str) -> Vec<BenchLine> {
    let mut package = String::new();
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pkg:") {
            package = name.trim().to_owned();
        } else if let Some(found) = bench_line(line, &package) {
            lines.push(found);
        }
    }
    lines
}

fn bench_line(line: &str, package: &str) -> Option<BenchLine> {
    let mut words = line.split_whitespace();
    let benchmark = words.next().filter(|name| name.starts_with("Benchmark"))?;
    let iterations = words.next()?.parse().ok()?;
    let mut metrics = Vec::new();
    while let (Some(value), Some(unit)) = (words.next(), words.next()) {
        let value: f64 = value.parse().ok()?;
        if value.is_finite() {
            metrics.push((unit.to_owned(), value));
        }
    }
    let (package, benchmark) = (package.to_owned(), benchmark.to_owned());
    (!metrics.is_empty()).then_some(BenchLine { package, benchmark, iterations, metrics })
}

/// The program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Arm {
    Off,
    On,
    Control,
}

const ARMS: [Arm; 3] = [Arm::Off, Arm::On, Arm::Control];

/// The values of one arm of one metric of one benchmark, by round.
type Values = BTreeMap<(String, String, String), BTreeMap<Arm, Vec<f64>>>;

/// Combines the lines of all runs.
fn gather(runs: &[(Arm, Vec<BenchLine>)], rounds: usize) -> (Vec<Pairs>, Vec<String>) {
    let mut values = Values::new();
    for (arm, lines) in runs {
        for line in lines {
            for (metric, value) in &line.metrics {
                let key = (line.package.clone(), line.benchmark.clone(), metric.clone());
                values.entry(key).or_default().entry(*arm).or_default().push(*value);
            }
        }
    }
    let (mut pairs, mut incomplete) = (Vec::new(), Vec::new());
    for ((package, benchmark, metric), mut arms) in values {
        let mut take = |arm| arms.remove(&arm).unwrap_or_default();
        let (off, on, control) = (take(Arm::Off), take(Arm::On), take(Arm::Control));
        match [&off, &on, &control].iter().all(|values| values.len() == rounds) {
            true => pairs.push(Pairs { package, benchmark, metric, off, on, control }),
            false => incomplete.push(format!("{package} {benchmark} {metric}")),
        }
    }
    (pairs, incomplete)
}

/// A package's three programs.
struct Programs {
    package: Package,
    by_arm: [PathBuf; 3],
}

impl GoPgo<'_> {
    /// Builds the test programs of the packages with and without the profile, and runs their benchmarks in turns: every round runs all
    /// arms, each round in another order.
    ///
    /// # Errors
    /// Fails when the plan is too small, when a build or a benchmark fails, when the profile changes nothing, or when no benchmark matches
    /// (which Go does not report).
    pub fn bench(&self, plan: &BenchPlan, merged: &Merged) -> Result<BenchResult> {
        ensure!(
            plan.rounds >= LEAST_ROUNDS,
            "{} rounds are too few: use {LEAST_ROUNDS} or more",
            plan.rounds
        );
        let (programs, unchanged) = self.test_programs(plan, merged)?;
        let mut runs = Vec::new();
        let mut commands = BTreeSet::new();
        for round in 0..plan.rounds as usize {
            for program in &programs {
                for turn in 0..ARMS.len() {
                    let at = (turn + round) % ARMS.len();
                    let call = run_of(program, at, plan);
                    commands.insert(call.to_string());
                    let text = self.runner.run(&call)?.stdout_text()?;
                    runs.push((ARMS[at], parse(&text)));
                }
            }
        }
        let (pairs, incomplete) = gather(&runs, plan.rounds as usize);
        ensure!(
            !pairs.is_empty(),
            "no benchmark in {} matches `{}`\n  next: list the benchmarks with `go test -list . {}`",
            plan.packages.join(", "),
            plan.pattern,
            plan.packages.join(" ")
        );
        Ok(BenchResult { pairs, incomplete, unchanged, commands: commands.into_iter().collect() })
    }

    /// The programs, and the packages whose code the profile does not change.
    fn test_programs(&self, plan: &BenchPlan, merged: &Merged) -> Result<(Vec<Programs>, Vec<String>)> {
        let folder = self.work.join("bench");
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let (mut programs, mut unchanged) = (Vec::new(), Vec::new());
        for (number, package) in self.packages_of(&plan.packages)?.into_iter().enumerate() {
            let path = |arm: &str| folder.join(format!("{number}-{arm}.test"));
            let (off, on, control) = (path("off"), path("on"), path("control"));
            if !self.build_test(&package, &From::Off, &off)? {
                continue;
            }
            self.build_test(&package, &From::File(&merged.path), &on)?;
            // The build settings of a test program never name a profile, so its machine code is the evidence.
            if file_facts(&off)?.text_sha256 == file_facts(&on)?.text_sha256 {
                unchanged.push(package.import_path);
                continue;
            }
            fs::copy(&off, &control).with_context(|| format!("{} can't be copied", off.display()))?;
            programs.push(Programs { package, by_arm: [off, on, control] });
        }
        ensure!(
            !programs.is_empty() || !unchanged.is_empty(),
            "none of {} has tests or benchmarks",
            plan.packages.join(", ")
        );
        ensure!(
            !programs.is_empty(),
            "the profile changes no machine code of {}: there is nothing to compare",
            unchanged.join(", ")
        );
        Ok((programs, unchanged))
    }

    fn packages_of(&self, patterns: &[String]) -> Result<Vec<Package>> {
        diagnostics::packages(&self.runner.run(&self.plan.listed(patterns))?.stdout()?)
    }

    /// `false` if the package has no test files: then go writes nothing, and exits with code 0.
    fn build_test(&self, package: &Package, from: &From<'_>, output: &Path) -> Result<bool> {
        super::build::remove_if_there(output)?;
        self.runner.run(&self.plan.test_program(&package.import_path, from, output))?;
        Ok(output.is_file())
    }
}

/// One run, in the package's folder as `go test` does it.
fn run_of(program: &Programs, arm: usize, plan: &BenchPlan) -> Call {
    let call = Call::new("go-bench", &program.by_arm[arm], &program.package.dir)
        .limit(ROUND_LIMIT)
        .args(["-test.run=^$", "-test.benchmem", "-test.count=1"])
        .arg(format!("-test.bench={}", plan.pattern))
        .arg(format!("-test.benchtime={}", plan.benchtime));
    match plan.cpus {
        Some(cpus) => call.arg(format!("-test.cpu={cpus}")),
        None => call,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAID: &str = "goos: linux\npkg: tiny.example/tiny/mix\ncpu: x\nBenchmarkCode-2   \t20361158\t        58.79 ns/op\t        32.00 coded-B/op\t       0 B/op\t       0 allocs/op\n\
        BenchmarkSize/deep-2 \t   1\t 1e+03 ns/op\nBenchmarkBroken-2 --- FAIL\nBenchmarkOdd 12 x ns/op\nBenchmarkNaN-2 1 NaN ns/op\nPASS\nok x 1s\n";

    #[test]
    fn lines_are_read_with_all_their_metrics() {
        let lines = parse(SAID);
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(
            (lines[0].package.as_str(), lines[0].benchmark.as_str()),
            ("tiny.example/tiny/mix", "BenchmarkCode-2")
        );
        let metrics: Vec<(&str, f64)> =
            lines[0].metrics.iter().map(|(unit, value)| (unit.as_str(), *value)).collect();
        assert_eq!(metrics, [("ns/op", 58.79), ("coded-B/op", 32.0), ("B/op", 0.0), ("allocs/op", 0.0)]);
        assert_eq!((lines[1].iterations, lines[1].metrics[0].1), (1, 1000.0));
    }

    #[test]
    fn rounds_stay_paired_and_gaps_are_named() {
        let line = |value: f64, extra: bool| {
            let mut text = format!("pkg: p\nBenchmarkA 10 {value} ns/op\n");
            if extra {
                text.push_str("BenchmarkB 10 1 ns/op\n");
            }
            parse(&text)
        };
        let runs = [
            (Arm::Off, line(1.0, true)),
            (Arm::On, line(2.0, true)),
            (Arm::Control, line(3.0, false)),
            (Arm::On, line(5.0, true)),
            (Arm::Control, line(6.0, true)),
            (Arm::Off, line(4.0, true)),
        ];
        let (pairs, incomplete) = gather(&runs, 2);
        assert_eq!(pairs.len(), 1);
        assert_eq!(
            (&pairs[0].off[..], &pairs[0].on[..], &pairs[0].control[..]),
            (&[1.0, 4.0][..], &[2.0, 5.0][..], &[3.0, 6.0][..])
        );
        assert_eq!(incomplete, ["p BenchmarkB ns/op"]);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(Benchmark[A-Z]?| |\t|\n|pkg:|[0-9]{1,30}|NaN|inf|ns/op|é|-){0,40}") {
            parse(&text);
        }
    }
}
