//! The experiment file: text to settings, with errors that name the line and the nearest right word.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use hone_record::{Engine, Keys, Metric, Mode, Schedule, Sizes, Workload};
use serde::Deserialize;

use crate::arm::unknown_placeholder;
use crate::cmd::client::engine;
use crate::notation::{Written, mean_bytes, payload};

/// An experiment as the file says it, checked in itself but not against the world.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Experiment {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) training: Workload,
    /// The first one decides.
    pub(crate) judging: Vec<Workload>,
    pub(crate) compare: Compare,
}

/// How to build, start and stop the service.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Target {
    /// Relative to the experiment file.
    pub(crate) manifest: PathBuf,
    pub(crate) package: String,
    pub(crate) bin: String,
    #[serde(default)]
    pub(crate) features: Vec<String>,
    #[serde(default = "release")]
    pub(crate) profile: String,
    /// Arguments of the started program; `{port}`, `{port2}` and `{data}` are filled in.
    pub(crate) args: Vec<String>,
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    #[serde(default = "loopback_port")]
    pub(crate) address: String,
    #[serde(default = "half_a_minute")]
    pub(crate) ready_timeout_s: f64,
    #[serde(default = "half_a_minute")]
    pub(crate) stop_timeout_s: f64,
    /// What it does before it acknowledges.
    #[serde(default = "unstated")]
    pub(crate) storage: String,
    /// Whether C code inside goes through the same optimisation, when a fitting clang is there.
    #[serde(default = "yes")]
    pub(crate) c_code: bool,
}

/// How variants are compared.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compare {
    pub(crate) mode: Mode,
    /// Bind the arms of a duet to halves of the cores and swap them.
    pub(crate) places: bool,
    pub(crate) pairs: u32,
    pub(crate) control_pairs: u32,
    pub(crate) primary: Metric,
    pub(crate) guards: Vec<Metric>,
    pub(crate) alpha: f64,
    pub(crate) equivalence: f64,
    pub(crate) seed: u64,
    pub(crate) lateness_limit_ms: f64,
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            mode: Mode::Duet,
            places: true,
            pairs: 14,
            control_pairs: 6,
            primary: Metric::CpuPerRecord,
            guards: Vec::new(),
            alpha: 0.05,
            equivalence: 0.02,
            seed: 1,
            lateness_limit_ms: DEFAULT_LATENESS_LIMIT_MS,
        }
    }
}

/// p99 of the generator's lateness above which a window does not count. Wide, because two cores shared with the target
/// and with neighbours are late by milliseconds now and then; it is there to catch a generator that falls behind.
pub(crate) const DEFAULT_LATENESS_LIMIT_MS: f64 = 50.0;

fn release() -> String {
    "release".to_owned()
}
fn loopback_port() -> String {
    "127.0.0.1:{port}".to_owned()
}
fn half_a_minute() -> f64 {
    30.0
}
fn unstated() -> String {
    "unstated".to_owned()
}
fn yes() -> bool {
    true
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    target: Target,
    workload: BTreeMap<String, WorkloadFile>,
    optimize: Optimize,
    #[serde(default)]
    compare: Compare,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Optimize {
    train: String,
    judge: Vec<String>,
    /// Says out loud that the judging workload is the training one.
    #[serde(default)]
    judge_what_was_trained: bool,
}

/// A workload as the file says it; also what `hone load` fills from its options.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct WorkloadFile {
    pub(crate) requests_per_s: f64,
    pub(crate) schedule: Written<Schedule>,
    pub(crate) records_per_batch: u32,
    pub(crate) record_bytes: Option<u32>,
    pub(crate) sizes: Written<Sizes>,
    pub(crate) keys: Written<Keys>,
    pub(crate) payload: String,
    pub(crate) compressible_share: f64,
    pub(crate) compression: String,
    pub(crate) connections: u32,
    /// Of the wire engine only.
    pub(crate) in_flight: Option<u32>,
    pub(crate) partitions: u32,
    pub(crate) partitions_per_request: u32,
    pub(crate) acks: Acks,
    pub(crate) idempotent: bool,
    pub(crate) warmup_requests: u64,
    pub(crate) duration_s: f64,
    pub(crate) timeout_s: f64,
    pub(crate) seed: u64,
    pub(crate) topic_config: BTreeMap<String, String>,
    /// `wire`, `librdkafka`, or a command line.
    pub(crate) client: String,
    pub(crate) client_settings: BTreeMap<String, String>,
    pub(crate) consumers: u32,
}

/// Unanswered requests on a connection of the wire engine.
pub(crate) const DEFAULT_IN_FLIGHT: u32 = 16;

/// Why nobody else is told.
pub(crate) const IN_FLIGHT_IS_THE_WIRES: &str = "in_flight (--in-flight) is for the wire engine: a client has a \
     setting of its own for its unanswered requests; for librdkafka write \
     --client-set max.in.flight.requests.per.connection=N";

impl Default for WorkloadFile {
    fn default() -> Self {
        Self {
            requests_per_s: 1_000.0,
            schedule: Written(Schedule::Poisson),
            records_per_batch: 1,
            record_bytes: None,
            sizes: Written(Sizes::Fixed),
            keys: Written(Keys::None),
            payload: "bytes".to_owned(),
            compressible_share: 0.5,
            compression: "none".to_owned(),
            connections: 4,
            in_flight: None,
            partitions: 8,
            partitions_per_request: 1,
            acks: Acks(-1),
            idempotent: false,
            warmup_requests: 10_000,
            duration_s: 5.0,
            timeout_s: 10.0,
            seed: 1,
            topic_config: BTreeMap::new(),
            client: "wire".to_owned(),
            client_settings: BTreeMap::new(),
            consumers: 0,
        }
    }
}

/// 0, 1, -1, or "all".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Acks(pub(crate) i16);

impl std::str::FromStr for Acks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" | "-1" => Ok(Self(-1)),
            "0" => Ok(Self(0)),
            "1" => Ok(Self(1)),
            other => Err(format!("acks must be 0, 1 or all, got `{other}`")),
        }
    }
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = Acks;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("0, 1 or \"all\"")
            }
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Acks, E> {
                value.to_string().parse().map_err(E::custom)
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Acks, E> {
                value.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl WorkloadFile {
    /// Steps say their rates themselves; the workload's is their mean.
    fn mean_requests_per_s(&self) -> f64 {
        match &self.schedule.0 {
            Schedule::Steps { requests_per_s } => {
                requests_per_s.iter().sum::<f64>() / requests_per_s.len().max(1) as f64
            }
            _ => self.requests_per_s,
        }
    }

    /// The workload under a name; the error says what is wrong with its client.
    pub(crate) fn named(&self, name: &str) -> Result<Workload, String> {
        let engine = engine(&self.client, self.client_settings.clone())?;
        if self.in_flight.is_some() && engine != Engine::Wire {
            return Err(IN_FLIGHT_IS_THE_WIRES.to_owned());
        }
        Ok(Workload {
            name: name.to_owned(),
            engine,
            seed: self.seed,
            schedule: self.schedule.0.clone(),
            requests_per_s: self.mean_requests_per_s(),
            records_per_batch: self.records_per_batch,
            record_bytes: mean_bytes(self.sizes.0, self.record_bytes),
            sizes: self.sizes.0,
            payload: payload(&self.payload, self.compressible_share),
            keys: self.keys.0,
            compression: self.compression.clone(),
            connections: self.connections,
            in_flight: self.in_flight.unwrap_or(DEFAULT_IN_FLIGHT),
            partitions: self.partitions,
            partitions_per_request: self.partitions_per_request,
            acks: self.acks.0,
            idempotent: self.idempotent,
            consumers: self.consumers,
            warmup_requests: self.warmup_requests,
            duration_s: self.duration_s,
            timeout_s: self.timeout_s,
            topic_config: self.topic_config.clone(),
        })
    }
}

/// What is wrong with an experiment file, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExperimentError {
    file: PathBuf,
    line: Option<usize>,
    problem: String,
    source_line: Option<String>,
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {}", self.problem)?;
        if let Some(source_line) = &self.source_line {
            write!(formatter, "\n    {source_line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ExperimentError {}

/// Reads an experiment's text; `file` is its path, for the errors.
pub(crate) fn parse(text: &str, file: &Path) -> Result<Experiment, ExperimentError> {
    let parsed: File = toml::from_str(text).map_err(|error| explain(&error, text, file))?;
    let wrong = |key: &str, problem: String| {
        let line = line_of_key(text, key);
        let source_line = line.and_then(|line| text.lines().nth(line - 1)).map(|line| line.trim().to_owned());
        ExperimentError { file: file.to_owned(), line, problem, source_line }
    };
    let workload = |key: &str, name: &str| {
        let found = parsed.workload.get(name).ok_or_else(|| {
            let near = nearest(name, parsed.workload.keys().map(String::as_str));
            wrong(key, format!("there is no workload `{name}`{}", did_you_mean(near)))
        })?;
        found.named(name).map_err(|problem| wrong("client", problem))
    };
    let training = workload("train", &parsed.optimize.train)?;
    if parsed.optimize.judge.is_empty() {
        return Err(wrong("judge", "no workload judges; name at least one".to_owned()));
    }
    let judging =
        parsed.optimize.judge.iter().map(|name| workload("judge", name)).collect::<Result<Vec<_>, _>>()?;
    check_target(&parsed.target).map_err(|(key, problem)| wrong(key, problem))?;
    for (key, name) in
        std::iter::once(("name", &parsed.name)).chain(judging.iter().map(|judge| ("judge", &judge.name)))
    {
        check_name(name).map_err(|problem| wrong(key, problem))?;
    }
    let same = judging.iter().find(|judge| is_same_load(&training, judge, &parsed.compare));
    if let Some(same) = same.filter(|_| !parsed.optimize.judge_what_was_trained) {
        let problem = format!(
            "workload `{}` judges the profile that the same load trained, which flatters it; judge with another one \
             (seed, sizes, payload), or set `judge_what_was_trained = true` to say so",
            same.name
        );
        return Err(wrong("judge", problem));
    }
    Ok(Experiment { name: parsed.name, target: parsed.target, training, judging, compare: parsed.compare })
}

/// Names become folders.
fn check_name(name: &str) -> Result<(), String> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if name.is_empty() || name.starts_with('.') || !name.chars().all(plain) {
        return Err(format!(
            "the name `{name}` becomes a folder: use letters, digits, `-`, `_` and `.`, no dot first"
        ));
    }
    Ok(())
}

fn check_target(target: &Target) -> Result<(), (&'static str, String)> {
    let texts = || target.args.iter().chain(target.env.values());
    if !target.address.contains("{port}") || !texts().any(|text| text.contains("{port}")) {
        let problem = "`{port}` must stand in the target's address and in its args (or env): Hone picks a free port for \
                       each start, so that it never loads a broker that is not its own";
        return Err(("args", problem.to_owned()));
    }
    if let Some(word) = texts().find_map(|text| unknown_placeholder(text)) {
        return Err((
            "args",
            format!("unknown placeholder {{{word}}}; there are {{port}}, {{port2}}, {{data}}"),
        ));
    }
    for (key, value) in
        [("ready_timeout_s", target.ready_timeout_s), ("stop_timeout_s", target.stop_timeout_s)]
    {
        if !(0.0..=3_600.0).contains(&value) {
            return Err((key, format!("{key} must lie between 0 and 3600, got {value}")));
        }
    }
    Ok(())
}

/// Whether judging replays what trained: the same requests with the same contents, for however long. Each pair judges with
/// a seed of its own, counted up from the workload's.
fn is_same_load(training: &Workload, judge: &Workload, compare: &Compare) -> bool {
    let pairs = u64::from(compare.pairs) + u64::from(compare.control_pairs);
    let seeds_meet = training.seed.wrapping_sub(judge.seed) < pairs.max(1);
    let without_length = Workload {
        name: training.name.clone(),
        seed: training.seed,
        duration_s: training.duration_s,
        timeout_s: training.timeout_s,
        warmup_requests: training.warmup_requests,
        ..judge.clone()
    };
    seeds_meet && without_length == *training
}

pub(crate) fn explain(error: &toml::de::Error, text: &str, file: &Path) -> ExperimentError {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    let source_line = line.and_then(|line| text.lines().nth(line - 1)).map(|line| line.trim().to_owned());
    ExperimentError { file: file.to_owned(), line, problem: with_nearest(error.message()), source_line }
}

/// `unknown field `x`, expected one of `a`, `b`` gets the nearest of the expected words.
fn with_nearest(message: &str) -> String {
    let first_line = message.lines().next().unwrap_or(message);
    let mut quoted = first_line.split('`').skip(1).step_by(2);
    let unknown = first_line.starts_with("unknown field") || first_line.starts_with("unknown variant");
    match quoted.next() {
        Some(word) if unknown => {
            let what = if first_line.starts_with("unknown field") { "unknown key" } else { "unknown word" };
            let known: Vec<&str> = quoted.collect();
            let near = nearest(word, known.iter().copied());
            format!("{what} `{word}`{}; known here: {}", did_you_mean(near), known.join(", "))
        }
        _ => first_line.to_owned(),
    }
}

pub(crate) fn did_you_mean(near: Option<&str>) -> String {
    near.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// The most similar word, if one is similar at all (Jaro-Winkler above 0.75 tells a slip from another word).
pub(crate) fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}

/// The line on which a key is set, for problems that are found after parsing.
fn line_of_key(text: &str, key: &str) -> Option<usize> {
    let sets = |line: &str| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().position(sets).map(|index| index + 1)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(experiment.training.seed, 1);
        assert_eq!(experiment.judging[0].name, "judge");
        assert_eq!(experiment.compare, Compare::default());
    }

    #[test]
    fn a_workload_may_name_its_client() {
        let client = "client = \"librdkafka\"\nconsumers = 2\n[workload.judge.client_settings]\n\"linger.ms\" = \"5\"\n[optimize]";
        let text = GOOD.replace("[optimize]", client);
        let experiment = parse(&text, Path::new("x.toml")).unwrap();
        let settings = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        assert_eq!(experiment.judging[0].engine, Engine::Librdkafka { settings });
        assert_eq!((experiment.judging[0].consumers, experiment.training.consumers), (2, 0));
        check(("[optimize]", "client = \"'\"\n[optimize]"), "unclosed quote");
    }

    #[test]
    fn mistakes_are_named_with_line_and_nearest_word() {
        check(
            ("requests_per_s = 100\nseed = 1", "request_per_s = 100"),
            "x.toml:9: unknown key `request_per_s`; did you mean `requests_per_s`?",
        );
        check(("[optimize]", "[optimise]"), "did you mean `optimize`?");
        check(("seed = 2", "seed = \"two\""), "x.toml:13: invalid type: string \"two\", expected u64");
        check(
            ("train = \"train\"", "train = \"trian\""),
            "x.toml:15: there is no workload `trian`; did you mean `train`?",
        );
        check(("seed = 2", "seed = 1"), "judge_what_was_trained");
        check(("seed = 2", "acks = 2"), "acks must be 0, 1 or all, got `2`");
        check(("seed = 2", "schedule = \"poison\""), "unknown word `poison`; did you mean `poisson`?");
        check(("judge = [\"judge\"]", "judge = []"), "name at least one");
        check(("bin = \"b\"\n", ""), "missing field `bin`");
        check(("name = \"test\"", "name = "), "x.toml:2");
        check(("seed = 2", "seed = 1\nduration_s = 9"), "judge_what_was_trained");
        check(("name = \"test\"", "name = \"../out\""), "x.toml:2: the name `../out` becomes a folder");
        check(("127.0.0.1:{port}", "127.0.0.1:9092"), "never loads a broker that is not its own");
        check(
            ("bin = \"b\"", "bin = \"b\"\nready_timeout_s = -1"),
            "ready_timeout_s must lie between 0 and 3600",
        );
        check(("127.0.0.1:{port}", "127.0.0.1:{port} {dat}"), "unknown placeholder {dat}");
        check(("bin = \"b\"", "bin = \"b\"\nstop_timeout_s = nan"), "stop_timeout_s must lie between");
    }
}
