//! The keys of `[optimize]` for Go only: profiling of the running service, Go's own benchmarks, and the place of the profile.

use hone_binary::go::{BenchPlan, LEAST_ROUNDS};
use serde::Deserialize;

use super::target::Form;
use super::{ProfileWish, Wrong, in_optimize};

/// The keys for Go, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GoWishes {
    /// CPU profiles per training workload.
    pub windows: u32,
    /// Length of each profile in seconds; `None` is the length of the load, where it has one.
    pub window_s: Option<u32>,
    /// Go's own benchmarks, without and with PGO.
    pub bench: Option<BenchPlan>,
    /// Whether a profile that proves itself is placed where `go build` finds it.
    pub place: bool,
}

/// The same keys as in the file.
#[derive(Debug, Default)]
pub(super) struct GoKeys {
    pub(super) windows: Option<u32>,
    pub(super) window_s: Option<u32>,
    pub(super) bench: Option<GoBenchFile>,
    pub(super) place: Option<bool>,
    pub(super) stack_growth: Option<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GoBenchFile {
    packages: Vec<String>,
    #[serde(default = "all")]
    pattern: String,
    #[serde(default = "least")]
    count: u32,
    #[serde(default = "second")]
    benchtime: String,
    cpus: Option<u32>,
}

fn all() -> String {
    ".".to_owned()
}

fn least() -> u32 {
    LEAST_ROUNDS
}

fn second() -> String {
    "1s".to_owned()
}

/// More windows of a training add no information.
const MOST_WINDOWS: u32 = 100;

/// `net/http/pprof` accepts any length. A day is the limit here.
const LONGEST_WINDOW_S: u32 = 3600;

/// A benchmark with more rounds would dominate the run.
const MOST_ROUNDS: u32 = 1000;

impl GoKeys {
    pub(super) fn checked(self, form: &Form, wish: &ProfileWish) -> Result<GoWishes, Wrong> {
        self.are_for(form)?;
        self.have_windows(wish)?;
        let within = |key, given: Option<u32>, most| match given {
            Some(given) if given == 0 || given > most => {
                Err(in_optimize(key, format!("invalid {key} {given}: use a number from 1 to {most}")))
            }
            given => Ok(given),
        };
        Ok(GoWishes {
            windows: within("pprof_windows", self.windows, MOST_WINDOWS)?.unwrap_or(1),
            window_s: within("pprof_window_s", self.window_s, LONGEST_WINDOW_S)?,
            bench: self.bench.map(GoBenchFile::checked).transpose()?,
            place: self.place.unwrap_or(false),
        })
    }

    /// A key without effect would be misleading.
    fn are_for(&self, form: &Form) -> Result<(), Wrong> {
        if matches!(form, Form::Go(_)) {
            return Ok(());
        }
        let given = [
            ("pprof_windows", self.windows.is_some()),
            ("pprof_window_s", self.window_s.is_some()),
            ("go_bench", self.bench.is_some()),
            ("place", self.place.is_some()),
            ("stack_growth", self.stack_growth.is_some()),
        ];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(in_optimize(key, format!("`{key}` is for Go programs only; remove it"))),
            None => Ok(()),
        }
    }

    /// Without training there are no windows either.
    fn have_windows(&self, wish: &ProfileWish) -> Result<(), Wrong> {
        let ProfileWish::File(path) = wish else { return Ok(()) };
        let given = [("pprof_windows", self.windows.is_some()), ("pprof_window_s", self.window_s.is_some())];
        match given.into_iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(in_optimize(
                key,
                format!(
                    "`{key}` belongs to training, but the profile is given ({}); remove `{key}`",
                    path.display()
                ),
            )),
            None => Ok(()),
        }
    }
}

impl GoBenchFile {
    fn checked(self) -> Result<BenchPlan, Wrong> {
        let wrong = |problem: String| Err(in_optimize("go_bench", problem));
        if self.packages.is_empty() || self.packages.iter().any(String::is_empty) {
            return wrong("go_bench.packages is empty; write [\"./...\"] for the whole module".to_owned());
        }
        if let Some(flag) = self.packages.iter().find(|package| package.starts_with('-')) {
            return wrong(format!("go_bench.packages has `{flag}`, which is not a package"));
        }
        if !(LEAST_ROUNDS..=MOST_ROUNDS).contains(&self.count) {
            return wrong(format!(
                "invalid go_bench.count {}: use {LEAST_ROUNDS} to {MOST_ROUNDS}; fewer rounds only show \
                 large effects",
                self.count
            ));
        }
        if self.cpus == Some(0) {
            return wrong("invalid go_bench.cpus: use a value of GOMAXPROCS, 1 or more".to_owned());
        }
        if !is_benchtime(&self.benchtime) {
            return wrong(format!(
                "invalid go_bench.benchtime `{}`: use a time (\"1s\", \"500ms\") or a number of iterations \
                 (\"1000x\")",
                self.benchtime
            ));
        }
        Ok(BenchPlan {
            packages: self.packages,
            pattern: self.pattern,
            rounds: self.count,
            benchtime: self.benchtime,
            cpus: self.cpus,
        })
    }
}

/// One number with its unit. Go accepts more (`1m30s`), which is rarely needed.
fn is_benchtime(text: &str) -> bool {
    let units = ["x", "ms", "s", "m"];
    let figure = units.iter().find_map(|unit| text.strip_suffix(unit));
    figure
        .and_then(|figure| figure.parse::<f64>().ok())
        .is_some_and(|figure| figure.is_finite() && figure > 0.0)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::parse;

    fn of(target: &str, optimize: &str) -> Result<super::GoWishes, String> {
        let text = format!(
            "name = \"t\"\n[target]\n{target}\nargs = [\"{{port}}\"]\n[optimize]\ntrain = \"a\"\njudge = [\"b\"]\n{optimize}\n\
             [workload.a]\ncommand = \"x\"\noperations = 5\n[workload.b]\ncommand = \"y\"\noperations = 5\n"
        );
        let read = parse(&text, Path::new("x.toml"));
        read.map(|experiment| experiment.go).map_err(|error| error.to_string())
    }

    const GO: &str = "source = \"s\"\ngo = \".\"";

    #[test]
    fn the_wishes_of_a_go_program_are_read() {
        let plain = of(GO, "").unwrap();
        assert_eq!((plain.windows, plain.window_s, plain.place, plain.bench), (1, None, false, None));
        let all = "pprof_windows = 3\npprof_window_s = 45\nplace = true\ngo_bench = { packages = [\"./...\"], count = 10 }";
        let all = of(GO, all).unwrap();
        assert_eq!((all.windows, all.window_s, all.place), (3, Some(45), true));
        let bench = all.bench.unwrap();
        assert_eq!((bench.rounds, bench.pattern.as_str(), bench.benchtime.as_str()), (10, ".", "1s"));
    }

    #[test]
    fn what_shows_nothing_or_is_for_others_is_refused() {
        let bench = |more: &str| format!("go_bench = {{ packages = [\"./...\"], {more} }}");
        for (optimize, expected) in [
            ("pprof_windows = 0".to_owned(), "x.toml:9: invalid pprof_windows 0: use a number from 1 to 100"),
            (bench("count = 5"), "invalid go_bench.count 5: use 8 to 1000"),
            (bench("benchtime = \"1\""), "use a time (\"1s\", \"500ms\")"),
            (bench("cpus = 0"), "GOMAXPROCS"),
            (bench("cuont = 9"), "did you mean `count`?"),
            ("go_bench = { packages = [] }".to_owned(), "go_bench.packages is empty"),
            ("go_bench = { packages = [\"-exec=x\"] }".to_owned(), "which is not a package"),
            ("stack_growth = 0.5".to_owned(), "invalid stack_growth 0.5: use a ratio of 1 or more"),
        ] {
            let message = of(GO, &optimize).unwrap_err();
            assert!(message.contains(expected), "{optimize}\ngot: {message}");
        }
        for key in ["pprof_windows = 2", "pprof_window_s = 9"] {
            let message = of(GO, &format!("profile = \"./x.pprof\"\n{key}")).unwrap_err();
            assert!(message.contains("belongs to training, but the profile is given"), "{message}");
        }
        of(GO, "profile = \"./x.pprof\"\nplace = true").unwrap();
        let recipe = "source = \"s\"\nbuild = [\"make\"]\nprogram = \"p\"";
        for key in ["place = true", "pprof_windows = 2", "stack_growth = 2.0"] {
            assert!(of(recipe, key).unwrap_err().contains("is for Go programs only"), "{key}");
        }
    }
}
