//! The experiment file: from text to settings, with errors that name the line and the closest known word.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use hone_format::{FileError, did_you_mean, nearest};
use hone_record::{Engine, Metric, Mode, Schedule, Workload};
use serde::Deserialize;

pub use crate::notation::Acks;
use crate::notation::{Share, TimeBudget};
use crate::ready::Ready;
use crate::variants::{self, Variant};
pub use gate::GateWishes;
use target::Target;
use target::TargetFile;
pub use wish::ProfileWish;
use workload_file::AT_LEAST_ONE;
pub use workload_file::{DEFAULT_IN_FLIGHT, IN_FLIGHT_IS_THE_WIRES, LINES_HAVE_THEIR_SIZES, WorkloadFile};

mod gate;
pub mod go;
pub mod target;
mod wish;
mod workload_file;

/// An experiment from its file. It is consistent in itself, but not checked against the machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// `name`, which run folders carry.
    pub name: String,
    /// `[target]`.
    pub target: Target,
    /// At least one.
    pub training: Vec<Training>,
    /// The first one decides the verdict.
    pub judging: Vec<Workload>,
    /// The names of those that repeat another one at a higher rate.
    pub raised: Vec<String>,
    /// Baseline first, each after the one on which it is based.
    pub variants: Vec<Variant>,
    /// Whether the file names them. Otherwise they are the ones that fit the target.
    pub variants_are_asked: bool,
    /// The source of the profile.
    pub profile: ProfileWish,
    /// Whether each training workload also trains its own profile, and all workloads judge.
    pub matrix: bool,
    /// Whether Hone traces it under an emulator, if there is one: for the reasons of its stalls, and for predictions about each
    /// layout.
    pub diagnose: bool,
    /// A variant beyond these limits is not kept.
    pub limits: Limits,
    /// How long a program from BOLT is checked repeatedly.
    pub soak_s: f64,
    /// Builds per variant, each with another layout.
    pub builds: u32,
    /// Whether pairs also compare variants that are based on another one with the baseline. Rounds always do.
    pub compares_baseline: bool,
    /// Keys for a Go target only.
    pub go: go::GoWishes,
    /// `[compare]`.
    pub compare: Compare,
    /// The limits at which a commit fails.
    pub gate: GateWishes,
}

impl Experiment {
    /// Whether its loads use the Kafka API.
    pub fn is_broker(&self) -> bool {
        let training = self.training.iter().map(|training| &training.workload);
        training.chain(&self.judging).all(|load| load.engine.operations().is_none())
    }

    /// The sign that its target is ready.
    pub fn ready(&self) -> Ready {
        let unless_said = if self.is_broker() { Ready::Kafka } else { Ready::Port };
        self.target.ready.clone().unwrap_or(unless_said)
    }
}

/// A workload that trains.
#[derive(Debug, Clone, PartialEq)]
pub struct Training {
    /// The load.
    pub workload: Workload,
    /// Its counters go into the profile with this factor.
    pub weight: f64,
}

/// How much a variant may grow relative to the baseline. A breach rejects it, whatever it saves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Of the code, without the old code that BOLT keeps.
    pub text_growth: f64,
    /// Of the loaded segments of the file.
    pub file_growth: f64,
    /// Of the largest resident memory.
    pub rss_growth: f64,
    /// Of the start-up time until it is ready.
    pub start_up_growth: f64,
    /// Of the memory of goroutine stacks.
    pub stack_growth: f64,
}

impl Default for Limits {
    /// Defaults. A profile makes hot code larger and cold code smaller, by less than a half in total. Memory and start-up time
    /// should hardly change, and both are measured only a few times. A file from BOLT also contains the old code. Inlining makes
    /// frames larger: a profile has made Go's stacks larger by a third. You should see that cost, but it does not break a
    /// service.
    fn default() -> Self {
        Self { text_growth: 1.5, file_growth: 3.0, rss_growth: 1.25, start_up_growth: 1.5, stack_growth: 1.5 }
    }
}

/// Settings of the comparison of variants.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compare {
    /// Concurrent pairs (duet) or sequential ones (solo).
    pub mode: Mode,
    /// Bind the arms of a duet to halves of the cores and swap them.
    pub places: bool,
    /// Longest time of each comparison, which then replaces the numbers of pairs and rounds.
    pub budget: Option<TimeBudget>,
    /// A/B pairs.
    pub pairs: u32,
    /// A/A pairs.
    pub control_pairs: u32,
    /// Limit of excluded pairs or rounds that are measured again, see [`hone_compare::Plan::reserve`].
    pub reserve: Option<u32>,
    /// Smallest difference that the pairs must detect; [`usual_effect`] if it is not given and no budget has it planned.
    pub effect: Option<Share>,
    /// For loads by a command, and for targets that exit: each round loads every variant once.
    pub rounds: u32,
    /// Rounds after which all processes restart.
    pub block_rounds: u32,
    /// The metric that decides, if the file names one.
    #[serde(rename = "primary")]
    pub asked_primary: Option<Metric>,
    /// The metric that decides: the requested one, or the target's own counters, or its CPU.
    #[serde(skip)]
    pub primary: Metric,
    /// Whether the target's own counters are read.
    #[serde(skip)]
    pub busy: bool,
    /// Metrics that must not get worse.
    pub guards: Vec<Metric>,
    /// The error level of the verdict on the primary metric.
    pub alpha: f64,
    /// Relative difference below which the verdict is equivalent.
    pub equivalence: f64,
    /// Shortest window of a load of operations, in seconds: Hone raises the number of operations for it. 0 keeps the number.
    pub least_window_s: f64,
    /// Whether an emulator counts instructions next to the pairs.
    pub counts: bool,
    /// Seed of the order of the pairs and of resampling.
    pub seed: u64,
    /// Hone excludes a window whose median request was sent later than this.
    pub lateness_limit_ms: f64,
}

/// See [`hone_compare::USUAL_EFFECT`].
pub fn usual_effect() -> Share {
    Share(hone_compare::USUAL_EFFECT - 1.0)
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            mode: Mode::Duet,
            places: true,
            budget: None,
            pairs: 14,
            control_pairs: 6,
            reserve: None,
            effect: None,
            rounds: 30,
            // It is even, so that each order and its reverse fall into the same start of the processes. It is
            // small, since the confidence interval is based on starts: with fifteen it extends 2.1 standard
            // errors to each side, with five 2.8 (Student's t).
            block_rounds: 2,
            asked_primary: None,
            primary: Metric::CpuPerRecord,
            busy: false,
            guards: Vec::new(),
            alpha: 0.05,
            equivalence: 0.02,
            least_window_s: 1.0,
            counts: true,
            seed: 1,
            lateness_limit_ms: DEFAULT_LATENESS_LIMIT_MS,
        }
    }
}

/// Limit of the p99 of the generator's lateness, above which a window is excluded. It is wide, because two cores shared with the
/// target and with neighbours cause delays of milliseconds. It detects a generator that falls behind.
pub const DEFAULT_LATENESS_LIMIT_MS: f64 = 50.0;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    target: TargetFile,
    workload: BTreeMap<String, WorkloadFile>,
    #[serde(default)]
    optimize: Optimize,
    #[serde(default)]
    compare: Compare,
    #[serde(default)]
    gate: gate::GateFile,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Optimize {
    train: Names,
    /// One per workload in `train`; without it all are equal.
    weights: Option<Vec<f64>>,
    judge: Vec<String>,
    /// Allows a judging workload that equals a training one.
    #[serde(default)]
    judge_what_was_trained: bool,
    variants: Option<Vec<String>>,
    #[serde(default)]
    profile: ProfileWish,
    #[serde(default)]
    matrix: bool,
    diagnose: Option<bool>,
    text_growth: Option<f64>,
    file_growth: Option<f64>,
    rss_growth: Option<f64>,
    start_up_growth: Option<f64>,
    soak_s: Option<f64>,
    builds: Option<u32>,
    #[serde(default)]
    compare_baseline: bool,
    /// Loads at a rate are judged a second time with this factor on their rate.
    raise: Option<f64>,
    pprof_windows: Option<u32>,
    pprof_window_s: Option<u32>,
    go_bench: Option<go::GoBenchFile>,
    place: Option<bool>,
    stack_growth: Option<f64>,
}

/// One name, or several.
#[derive(Debug, Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Names;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of a workload, or a list of names")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Names, E> {
                Ok(Names(vec![value.to_owned()]))
            }
            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Names, A::Error> {
                let mut names = Vec::new();
                while let Some(name) = list.next_element()? {
                    names.push(name);
                }
                Ok(Names(names))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Overrides from the command line.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Overrides {
    /// Like `matrix = true`.
    pub matrix: bool,
    /// Instead of `variants`.
    pub variants: Option<Vec<String>>,
    /// Instead of `[compare] budget`.
    pub budget: Option<TimeBudget>,
    /// Instead of `[compare] effect`.
    pub effect: Option<Share>,
}

/// The name in an experiment's text, even if other parts are invalid.
pub fn name_in(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    table.get("name")?.as_str().map(str::to_owned)
}

/// Reads an experiment's text; `file` is its path, for the errors.
///
/// # Errors
/// With the invalid line of the text.
pub fn parse(text: &str, file: &Path) -> Result<Experiment, FileError> {
    parse_asked(text, file, &Overrides::default())
}

/// Reads an experiment's text, with overrides from the command line; `file` is its path, for the errors.
pub fn parse_asked(text: &str, file: &Path, asked: &Overrides) -> Result<Experiment, FileError> {
    let mut parsed: File = toml::from_str(text).map_err(|error| FileError::of_toml(&error, text, file))?;
    parsed.optimize.matrix |= asked.matrix;
    if let Some(variants) = &asked.variants {
        parsed.optimize.variants = Some(variants.clone());
    }
    parsed.compare.budget = asked.budget.or(parsed.compare.budget);
    parsed.compare.effect = asked.effect.or(parsed.compare.effect);
    let checked = parsed.checked();
    checked.map_err(|wrong| {
        // The error is not about a line of the text.
        if wrong.1 == "variants" && asked.variants.is_some() {
            let problem = format!("--variants: {}", wrong.2);
            return FileError::new(file, text, None, problem);
        }
        with_line(wrong, text, file)
    })
}

/// Reads an experiment's text for a gate: nothing is trained, and everything else follows from `[gate]`.
pub fn parse_for_gate(text: &str, file: &Path) -> Result<Experiment, FileError> {
    let mut parsed: File = toml::from_str(text).map_err(|error| FileError::of_toml(&error, text, file))?;
    parsed.for_gate().and_then(|()| parsed.checked()).map_err(|(section, key, problem)| {
        // Where `[gate]` has a value of its own, it replaces that of `[optimize]`.
        let own = section == "optimize" && line_of(text, "gate", key).is_some();
        with_line((if own { "gate".to_owned() } else { section }, key, problem), text, file)
    })
}

fn with_line((section, key, problem): Wrong, text: &str, file: &Path) -> FileError {
    FileError::new(file, text, line_of(text, &section, key), problem)
}

/// The table, its key, and the problem.
type Wrong = (String, &'static str, String);

fn in_optimize(key: &'static str, problem: impl Into<String>) -> Wrong {
    ("optimize".to_owned(), key, problem.into())
}

/// Rejects a duplicate workload, whose second results would overwrite the first.
fn no_twice(key: &'static str, names: &[&str]) -> Result<(), Wrong> {
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    match twice {
        Some((_, name)) => {
            Err(in_optimize(key, format!("`{name}` is named twice; use weights to train more with it")))
        }
        None => Ok(()),
    }
}

impl File {
    fn checked(mut self) -> Result<Experiment, Wrong> {
        let mut judging = self.judging()?;
        let more = self.optimize.raised(&judging)?;
        let raised = more.iter().map(|workload| workload.name.clone()).collect();
        judging.extend(more);
        let training = self.training()?;
        let target = self.target.checked().map_err(|(key, problem)| ("target".to_owned(), key, problem))?;
        self.compare.primary = self.compare.asked_primary.unwrap_or_else(|| target.metrics.decides());
        self.compare.busy = target.metrics.are_read();
        let all = || training.iter().map(|training| &training.workload).chain(&judging);
        let serves = all().any(|workload| !matches!(workload.engine, Engine::Exits { .. }));
        target.check(serves).map_err(|(key, problem)| ("target".to_owned(), key, problem))?;
        check_name(&self.name).map_err(|problem| (String::new(), "name", problem))?;
        for (key, workload) in training
            .iter()
            .map(|training| ("train", &training.workload))
            .chain(judging.iter().map(|judge| ("judge", judge)))
        {
            check_name(&workload.name).map_err(|problem| in_optimize(key, problem))?;
        }
        let trained: Vec<&str> = training.iter().map(|training| training.workload.name.as_str()).collect();
        no_twice("train", &trained)?;
        no_twice("judge", &judging.iter().map(|judge| judge.name.as_str()).collect::<Vec<_>>())?;
        // Those that a matrix adds are separate, and follow the one that decides.
        if !self.optimize.judge_what_was_trained {
            check_other_loads(&training, &judging, &self.compare)?;
        }
        if self.optimize.matrix {
            let known: Vec<String> = judging.iter().map(|judge| judge.name.clone()).collect();
            let more = training.iter().map(|training| &training.workload);
            judging.extend(more.filter(|workload| !known.contains(&workload.name)).cloned());
        }
        let names: Vec<&str> = training.iter().map(|training| training.workload.name.as_str()).collect();
        let wish = self.optimize.profile.clone();
        let wanted = self.optimize.variants.clone().or_else(|| wish.variants(&target.form));
        let variants = variants::of(wanted.as_deref(), &target.form, &names, self.optimize.matrix)
            .map_err(|(key, problem)| in_optimize(key, problem))?;
        wish.check(&target.form, &variants, self.optimize.matrix)
            .map_err(|problem| in_optimize("profile", problem))?;
        let limits = self.optimize.limits()?;
        let go = self.optimize.go_keys().checked(&target.form, &wish)?;
        Ok(Experiment {
            raised,
            name: self.name,
            target,
            training,
            judging,
            variants,
            variants_are_asked: self.optimize.variants.is_some(),
            profile: wish,
            matrix: self.optimize.matrix,
            diagnose: self.optimize.diagnose.unwrap_or(true),
            limits,
            soak_s: self.optimize.soak_s()?,
            builds: self.optimize.builds()?,
            compares_baseline: self.optimize.compare_baseline,
            go,
            gate: self.gate.wishes(&self.compare),
            compare: self.compare,
        })
    }

    fn workload(&self, key: &'static str, name: &str) -> Result<Workload, Wrong> {
        let found = self.workload.get(name).ok_or_else(|| {
            let near = nearest(name, self.workload.keys().map(String::as_str));
            in_optimize(key, format!("unknown workload `{name}`{}", did_you_mean(near)))
        })?;
        let key = if found.command.is_some() {
            "command"
        } else if found.run.is_some() {
            "run"
        } else {
            "client"
        };
        found.named(name).map_err(|problem| {
            let key = match problem.as_str() {
                AT_LEAST_ONE => "operations",
                LINES_HAVE_THEIR_SIZES => "record_bytes",
                _ => key,
            };
            (format!("workload.{name}"), key, problem)
        })
    }

    fn judging(&self) -> Result<Vec<Workload>, Wrong> {
        if self.optimize.judge.is_empty() {
            return Err(in_optimize("judge", "[optimize]: there is no judging workload; name at least one"));
        }
        self.optimize.judge.iter().map(|name| self.workload("judge", name)).collect()
    }

    fn training(&self) -> Result<Vec<Training>, Wrong> {
        let names = &self.optimize.train.0;
        if names.is_empty() {
            return Err(in_optimize("train", "there is no training workload; name at least one"));
        }
        let weights = self.optimize.weights.clone().unwrap_or_else(|| vec![1.0; names.len()]);
        if weights.len() != names.len() {
            let problem = format!(
                "{} weights for {} training workloads; give one for each",
                weights.len(),
                names.len()
            );
            return Err(in_optimize("weights", problem));
        }
        let usual = hone_binary::TRAINING_WEIGHTS;
        if let Some(weight) = weights.iter().find(|weight| !usual.contains(*weight)) {
            let problem =
                format!("invalid weight {weight}: use a number from {} to {}", usual.start(), usual.end());
            return Err(in_optimize("weights", problem));
        }
        let both = names.iter().zip(weights);
        both.map(|(name, weight)| Ok(Training { workload: self.workload("train", name)?, weight })).collect()
    }
}

impl Optimize {
    fn builds(&self) -> Result<u32, Wrong> {
        /// Nobody builds more layouts.
        const MOST: u32 = 100;
        match self.builds {
            None | Some(1) => Ok(1),
            Some(builds) if (hone_compare::FEWEST_BLOCKS..=MOST).contains(&builds) => Ok(builds),
            Some(builds) => Err(in_optimize(
                "builds",
                format!(
                    "invalid builds {builds}: use 1, or {} to {MOST}; two builds do not show the spread \
                     between layouts",
                    hone_compare::FEWEST_BLOCKS
                ),
            )),
        }
    }

    fn go_keys(&self) -> go::GoKeys {
        go::GoKeys {
            windows: self.pprof_windows,
            window_s: self.pprof_window_s,
            bench: self.go_bench.clone(),
            place: self.place,
            stack_growth: self.stack_growth,
        }
    }

    fn soak_s(&self) -> Result<f64, Wrong> {
        /// Enough for some checks, and short compared with a training.
        const SOAK_S: f64 = 10.0;
        match self.soak_s {
            None => Ok(SOAK_S),
            Some(given) if (0.0..=86_400.0).contains(&given) => Ok(given),
            Some(given) => {
                Err(in_optimize("soak_s", format!("invalid soak_s {given}: use 0 to 86400 seconds")))
            }
        }
    }

    /// Repeats the loads at a rate with a higher one: the saved CPU will be used, and the slowest requests must still be fast.
    fn raised(&self, judging: &[Workload]) -> Result<Vec<Workload>, Wrong> {
        /// No build has gained more headroom than this.
        const MOST: f64 = 10.0;
        let Some(times) = self.raise else { return Ok(Vec::new()) };
        if !(times > 1.0 && times <= MOST) {
            return Err(in_optimize(
                "raise",
                format!(
                    "invalid raise {times}: use a ratio above 1, up to \
                 {MOST}"
                ),
            ));
        }
        let raised: Vec<Workload> = judging.iter().filter_map(|workload| raised(workload, times)).collect();
        if raised.is_empty() {
            return Err(in_optimize(
                "raise",
                "no judging workload has a rate to raise: loads of operations always run at full speed, and \
                 recorded arrivals are fixed",
            ));
        }
        Ok(raised)
    }

    fn limits(&self) -> Result<Limits, Wrong> {
        let least = Limits::default();
        let checked = |key: &'static str, given: Option<f64>, default: f64| match given {
            None => Ok(default),
            Some(ratio) if ratio.is_finite() && ratio >= 1.0 => Ok(ratio),
            Some(ratio) => Err(in_optimize(
                key,
                format!(
                    "invalid {key} {ratio}: use a ratio of 1 or more, for example \
                     1.25"
                ),
            )),
        };
        Ok(Limits {
            text_growth: checked("text_growth", self.text_growth, least.text_growth)?,
            file_growth: checked("file_growth", self.file_growth, least.file_growth)?,
            rss_growth: checked("rss_growth", self.rss_growth, least.rss_growth)?,
            start_up_growth: checked("start_up_growth", self.start_up_growth, least.start_up_growth)?,
            stack_growth: checked("stack_growth", self.stack_growth, least.stack_growth)?,
        })
    }
}

/// A load at a multiple of its rate; `None` if its rate can't be raised.
fn raised(workload: &Workload, times: f64) -> Option<Workload> {
    if workload.engine.operations().is_some() || matches!(workload.schedule, Schedule::Replay { .. }) {
        return None;
    }
    Some(Workload { name: format!("{}-x{times}", workload.name), ..workload.at_rates(|rate| rate * times) })
}

fn check_other_loads(training: &[Training], judging: &[Workload], compare: &Compare) -> Result<(), Wrong> {
    let trained =
        |judge: &&Workload| training.iter().any(|training| is_same_load(&training.workload, judge, compare));
    match judging.iter().find(trained) {
        None => Ok(()),
        Some(same) => Err(in_optimize(
            "judge",
            format!(
                "workload `{}` judges the profile that the same load trained, so the result would look too \
                 good; judge with another one (seed, sizes, payload), or set `judge_what_was_trained = true` \
                 to allow it",
                same.name
            ),
        )),
    }
}

/// Names become folders.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!(
            "invalid name `{name}`: it becomes a folder, so use letters, digits, `-`, `_` and `.`, and no \
             dot at the start"
        ));
    }
    Ok(())
}

/// Whether judging replays the training: the same requests with the same contents, of any length. Each pair judges with its own
/// seed, counted up from the workload's.
pub fn is_same_load(training: &Workload, judge: &Workload, compare: &Compare) -> bool {
    let pairs = u64::from(compare.pairs) + u64::from(compare.control_pairs);
    let seeds_meet = training.seed.wrapping_sub(judge.seed) < pairs.max(1);
    let without_length = Workload {
        name: training.name.clone(),
        seed: training.seed,
        duration_s: training.duration_s,
        timeout_s: training.timeout_s,
        warmup_requests: training.warmup_requests,
        engine: of_any_length(&judge.engine),
        ..judge.clone()
    };
    let training = Workload { engine: of_any_length(&training.engine), ..training.clone() };
    seeds_meet && without_length == training
}

/// The length of commands and of targets that exit is the number of operations.
fn of_any_length(engine: &Engine) -> Engine {
    let mut engine = engine.clone();
    if let Engine::Tool { operations, .. } | Engine::Exits { operations, .. } = &mut engine {
        *operations = 0;
    }
    engine
}

/// The line that sets a key of a table, or the line of the table, for problems that are found after parsing. The table without a
/// name is the start of the file.
pub fn line_of(text: &str, table: &str, key: &str) -> Option<usize> {
    let mut here = String::new();
    let mut head = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            here = name.trim_matches('[').trim().to_owned();
            if here == table {
                head = Some(index + 1);
            }
        }
        let sets = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='));
        if here == table && sets(line) {
            return Some(index + 1);
        }
    }
    head
}

#[cfg(test)]
mod tests {
    use super::target::Form;
    use super::*;
    use hone_record::Engine;

    const GOOD: &str = r#"
name = "test"
[target]
manifest = "Cargo.toml"
package = "p"
bin = "b"
args = ["--listen", "127.0.0.1:{port}"]
[workload.train]
requests_per_s = 100
seed = 1
[workload.judge]
requests_per_s = 100
seed = 2
[optimize]
train = "train"
judge = ["judge"]
"#;

    fn check(change: (&str, &str), expected: &str) {
        let text = GOOD.replace(change.0, change.1);
        assert_ne!(text, GOOD, "the change does nothing");
        let message = parse(&text, Path::new("x.toml")).map(|_| ()).unwrap_err().to_string();
        assert!(message.contains(expected), "got: {message}");
    }

    #[test]
    fn a_good_file_is_read() {
        let experiment = parse(GOOD, Path::new("x.toml")).unwrap();
        assert_eq!(experiment.training[0].workload.seed, 1);
        assert_eq!(experiment.judging[0].name, "judge");
        assert_eq!(experiment.compare, Compare::default());
    }

    #[test]
    fn a_kind_of_profile_that_no_machine_gives_is_refused_and_decides_what_is_made() {
        let asked = |more: &str| ("judge = [\"judge\"]", format!("judge = [\"judge\"]\n{more}"));
        for (more, expected) in [
            ("profile = \"samples\"\nvariants = [\"pgo\"]", "plain samples are for BOLT only"),
            ("profile = \"branches\"\nvariants = [\"csir\"]", "instruments a second time"),
            ("profile = \"pprof\"", "pprof is for Go programs"),
            ("profile = \"branch\"", "did you mean `branches`?"),
        ] {
            let (from, to) = asked(more);
            check((from, &to), expected);
        }
        let two = GOOD.replace("train = \"train\"", "train = [\"train\", \"judge\"]\nmatrix = true");
        let two =
            two.replace("matrix = true", "matrix = true\njudge_what_was_trained = true\nprofile = \"./x\"");
        let refused = parse(&two, Path::new("x.toml")).unwrap_err().to_string();
        assert!(refused.contains("a file is only one profile"), "{refused}");

        for kind in ["samples", "branches"] {
            let (from, to) = asked(&format!("profile = \"{kind}\""));
            let experiment = parse(&GOOD.replace(from, &to), Path::new("x.toml")).unwrap();
            let names: Vec<&str> = experiment.variants.iter().map(|variant| variant.name.as_str()).collect();
            assert_eq!(names, ["baseline", "relocs", "bolt"], "rustc takes no samples: {kind}");
        }
    }

    #[test]
    fn a_workload_may_name_its_client() {
        let client = "client = \"librdkafka\"\nconsumers = 2\n[workload.judge.client_settings]\n\"linger.ms\" = \"5\"\n[optimize]";
        let text = GOOD.replace("[optimize]", client);
        let experiment = parse(&text, Path::new("x.toml")).unwrap();
        let settings = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        assert_eq!(experiment.judging[0].engine, Engine::Librdkafka { settings });
        assert_eq!((experiment.judging[0].consumers, experiment.training[0].workload.consumers), (2, 0));
        check(("[optimize]", "client = \"'\"\n[optimize]"), "unclosed quote");
    }

    #[test]
    fn mistakes_are_named_with_line_and_nearest_word() {
        check(
            ("requests_per_s = 100\nseed = 1", "request_per_s = 100"),
            "x.toml:9: unknown key `request_per_s` (did you mean `requests_per_s`?)",
        );
        check(("[optimize]", "[optimise]"), "did you mean `optimize`?");
        check(
            ("seed = 2", "seed = \"two\""),
            "x.toml:13: \"two\" is a text; write a whole number, not below zero",
        );
        check(
            ("train = \"train\"", "train = \"trian\""),
            "x.toml:15: unknown workload `trian` (did you mean `train`?)",
        );
        check(("seed = 2", "seed = 1"), "judge_what_was_trained");
        check(("seed = 2", "acks = 2"), "invalid acks `2`: use 0, 1 or all");
        check(("seed = 2", "schedule = \"poison\""), "unknown word `poison` (did you mean `poisson`?)");
        check(("judge = [\"judge\"]", "judge = []"), "name at least one");
        check(("bin = \"b\"\n", ""), "the key `bin` is missing");
        check(("name = \"test\"", "name = "), "x.toml:2");
        check(("seed = 2", "seed = 1\nduration_s = 9"), "judge_what_was_trained");
        check(
            ("name = \"test\"", "name = \"../out\""),
            "x.toml:2: invalid name `../out`: it becomes a folder",
        );
        check(("127.0.0.1:{port}", "127.0.0.1:9092"), "never loads another broker");
        check(("bin = \"b\"", "bin = \"b\"\nready_timeout_s = -1"), ": use a number from 0 to 3600");
        check(("127.0.0.1:{port}", "127.0.0.1:{port} {dat}"), "unknown placeholder {dat}");
        check(("bin = \"b\"", "bin = \"b\"\nstop_timeout_s = nan"), "invalid stop_timeout_s");
    }

    /// A file of another form, with these keys for its target.
    fn of(target: &str, optimize: &str, workload: &str) -> Result<Experiment, String> {
        let text = format!(
            "name = \"t\"\n[target]\n{target}\n[optimize]\ntrain = \"a\"\njudge = [\"b\"]\n{optimize}\n[workload.a]\n{workload}\n\
             operations = 5\n[workload.b]\n{workload} \noperations = 7\n"
        );
        parse(&text, Path::new("x.toml")).map_err(|error| error.to_string())
    }

    const TOOL: &str = "command = \"bench -p {port} -n {operations}\"\npopulate = \"fill 'a b'\"";
    const OWN_LOAD: &str = "judge_what_was_trained = true";

    #[test]
    fn every_form_of_a_target_is_read() {
        let names = |experiment: &Experiment| {
            experiment.variants.iter().map(|variant| variant.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let serve = "args = [\"--port\", \"{port}\"]";
        let recipe = of(
            &format!("source = \"s\"\nbuild = [\"make -j{{jobs}}\"]\nprogram = \"p\"\ncheck = \"c {{port}}\"\nready = {{ line = \"up\" }}\n{serve}"),
            OWN_LOAD,
            TOOL,
        )
        .unwrap();
        assert_eq!(names(&recipe), "baseline pgo pgo+bolt");
        let Form::Recipe(form) = &recipe.target.form else { panic!("{:?}", recipe.target.form) };
        assert_eq!(form.build, target::Build::Commands(vec![vec!["make".to_owned(), "-j{jobs}".to_owned()]]));
        assert_eq!(recipe.target.ready, Some(crate::ready::Ready::Line("up".to_owned())));
        let Engine::Tool { populate, operations, .. } = &recipe.judging[0].engine else { panic!() };
        assert_eq!((populate.as_deref(), *operations), (Some(&["fill".to_owned(), "a b".to_owned()][..]), 7));

        let cmake = of(
            &format!("source = \"s\"\ncmake = {{ target = \"x\" }}\nprogram = \"p\"\n{serve}"),
            OWN_LOAD,
            TOOL,
        );
        assert!(matches!(
            cmake.unwrap().target.form,
            Form::Recipe(target::Recipe { build: target::Build::Cmake(_), .. })
        ));
        let make = "source = \"s\"\nmake = { configure = \"./configure --x\", arguments = [\"-C\", \"src\"] }\nprogram = \"p\"";
        let make = of(&format!("{make}\n{serve}"), OWN_LOAD, TOOL).unwrap();
        let Form::Recipe(target::Recipe { build: target::Build::Make(make), .. }) = make.target.form else {
            panic!()
        };
        assert_eq!(make.configure.unwrap(), ["./configure", "--x"]);
        let go = of(&format!("source = \"s\"\ngo = \"./cmd/server\"\n{serve}"), OWN_LOAD, TOOL).unwrap();
        assert_eq!((names(&go).as_str(), go.target.name().as_str()), ("baseline pgo", "server"));
        assert_eq!(go.target.pprof, "127.0.0.1:{port2}");
        // A program that exits needs no port.
        let elf = of("binary = \"dir/p\"", OWN_LOAD, "run = [\"--num={operations}\"]").unwrap();
        assert_eq!((names(&elf).as_str(), elf.target.name().as_str()), ("baseline bolt", "p"));
    }

    #[test]
    fn a_target_of_two_forms_or_with_foreign_keys_is_refused() {
        let recipe = "source = \"s\"\nbuild = [\"make\"]\nprogram = \"p\"\nargs = [\"{port}\"]";
        for (target, expected) in [
            (format!("{recipe}\ngo = \".\""), "x.toml:7: `build` and `go` are two targets"),
            (
                format!("{recipe}\nbin = \"b\""),
                "x.toml:7: `bin` belongs to a Cargo target, but `build` makes this target a project's own \
                 build",
            ),
            (
                recipe.replace("build = [\"make\"]\n", ""),
                "x.toml:2: the target has no source or program; name `manifest`",
            ),
            (recipe.replace("\nprogram = \"p\"", ""), "the key `program` is missing"),
            (recipe.replace("[\"make\"]", "[\"make '\"]"), "x.toml:4: `make '` has an unclosed quote"),
            (
                format!("{recipe}\nready = {{ http = \"x\" }}"),
                "invalid http `x`: use a path, for example /health",
            ),
            (
                format!("{recipe}\nready = {{ port = true, line = \"x\" }}"),
                "x.toml:7: ready has exactly one of",
            ),
            (format!("{recipe}\ndump_signal = \"KILL\""), "invalid signal `KILL`: use SIGUSR1"),
            (format!("{recipe}\nstop = \"quit {{prt}}\""), "x.toml:7: unknown placeholder {prt}"),
            (
                recipe.replace("{port}", "80"),
                "the target's address and its args (or env) must contain `{port}`",
            ),
        ] {
            let message = of(&target, OWN_LOAD, TOOL).unwrap_err();
            assert!(message.contains(expected), "{target}\ngot: {message}");
        }
    }

    #[test]
    fn what_is_asked_of_an_optimisation_is_checked() {
        let elf = "binary = \"p\"";
        let run = "run = [\"{operations}\"]";
        for (optimize, workload, expected) in [
            (
                format!("{OWN_LOAD}\nvariants = [\"pgo\"]"),
                run,
                "x.toml:8: this kind of target has no variant `pgo`",
            ),
            (
                format!("{OWN_LOAD}\nvariants = [\"blot\"]"),
                run,
                "unknown variant `blot` (did you mean `bolt`?)",
            ),
            (format!("{OWN_LOAD}\nweights = [1, 2]"), run, "2 weights for 1 training workloads"),
            (format!("{OWN_LOAD}\nweights = [0]"), run, "invalid weight 0: use a number from 0.001 to 1000"),
            (format!("{OWN_LOAD}\nsoak_s = -1"), run, "invalid soak_s -1: use 0 to 86400 seconds"),
            (format!("{OWN_LOAD}\nbuilds = 2"), run, "x.toml:8: invalid builds 2: use 1, or 3 to 100"),
            (
                format!("{OWN_LOAD}\ntext_growth = 0.5"),
                run,
                "invalid text_growth 0.5: use a ratio of 1 or more",
            ),
            (format!("{OWN_LOAD}\nfile_growth = 0"), run, "invalid file_growth 0: use a ratio of 1 or more"),
            (format!("{OWN_LOAD}\nprofile = \"pprof\""), run, "pprof is for Go programs"),
            (format!("{OWN_LOAD}\nmatrix = true"), run, "a matrix needs at least two training workloads"),
            (String::new(), run, "the same load trained, so the result would look too good"),
            ("matrix = true".to_owned(), run, "the same load trained, so the result would look too good"),
            (
                OWN_LOAD.to_owned(),
                "requests_per_s = 3\nrun = [\"x\"]",
                "the other keys are for loads of the Kafka API",
            ),
            (
                OWN_LOAD.to_owned(),
                "run = [\"x\"]\nwarmup = \"w\"",
                "`populate` and `warmup` are for a `command`",
            ),
            (OWN_LOAD.to_owned(), "run = [\"x\"]\ncommand = \"w\"", "use one of them"),
            (OWN_LOAD.to_owned(), "command = \"'\"", "unclosed quote"),
        ] {
            let message = of(elf, &optimize, workload).unwrap_err();
            assert!(message.contains(expected), "{optimize} {workload}\ngot: {message}");
        }
        let message = of(elf, OWN_LOAD, "populate = \"p\"").unwrap_err();
        assert!(message.contains("need a `command` or a `run`"), "{message}");
    }

    #[test]
    fn loads_at_a_rate_judge_once_more_at_a_higher_one_and_the_first_still_decides() {
        let of = |load: &str, raise: &str| {
            let text =
                GOOD.replace("seed = 2", load).replace("[optimize]", &format!("[optimize]\nraise = {raise}"));
            let found = parse(&text, Path::new("x.toml")).map_err(|error| error.to_string())?;
            let names: Vec<&str> = found.judging[1..].iter().map(|load| load.name.as_str()).collect();
            assert_eq!(found.raised, names, "all behind the one of the file");
            Ok::<_, String>(found.judging)
        };
        let judging = of("seed = 2", "1.25").unwrap();
        let told: Vec<(&str, f64)> =
            judging.iter().map(|load| (load.name.as_str(), load.requests_per_s)).collect();
        assert_eq!(told, [("judge", 100.0), ("judge-x1.25", 125.0)]);
        assert_eq!(
            Workload { name: "judge".to_owned(), requests_per_s: 100.0, ..judging[1].clone() },
            judging[0]
        );
        let ramp = of("seed = 2\nschedule = \"ramp:200\"", "1.5").unwrap();
        assert_eq!(ramp[1].schedule, Schedule::Ramp { to_requests_per_s: 300.0 });
        for raise in ["1.0", "nan", "11"] {
            let message = of("seed = 2", raise).unwrap_err();
            assert!(message.contains(": use a ratio above 1, up to 10"), "{message}");
        }
        let operations = super::raised(
            &Workload::of_operations("o", Engine::Exits { arguments: vec![], operations: 1 }),
            2.0,
        );
        assert_eq!(operations, None);
    }

    #[test]
    fn a_workload_is_named_once() {
        assert!(no_twice("train", &["a", "b"]).is_ok());
        let (_, key, problem) = no_twice("train", &["a", "b", "a"]).unwrap_err();
        assert_eq!(key, "train");
        assert!(problem.starts_with("`a` is named twice"), "{problem}");
    }

    #[test]
    fn every_example_is_read() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let folders =
            std::fs::read_dir(examples).unwrap().flatten().map(|entry| entry.path().join("hone.toml"));
        let files: Vec<std::path::PathBuf> = folders.filter(|file| file.is_file()).collect();
        assert!(!files.is_empty());
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let experiment = parse(&text, &file).unwrap_or_else(|error| panic!("{error}"));
            assert!(experiment.variants.len() > 1, "{}", file.display());
        }
    }
}
