//! The `[tune]` part of an experiment file: from text to settings, with errors that name the line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_format::{FileError, did_you_mean, nearest};
use hone_record::{Altitude, Hope, Metric, Mode, Workload};
use serde::Deserialize;

use super::candidate::Candidate;
use super::prices;
use super::settings::{PROGRAM, TuneSettings, USUAL_PAIRS};
use hone_experiment::climb::Wanted;
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_experiment::notation::{Share, TimeBudget};
use hone_experiment::require;
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::spec::{WorkloadFile, check_name, usual_effect};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    tune: Table,
    workload: BTreeMap<String, WorkloadFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Table {
    target: Option<String>,
    prepare: Option<String>,
    build: Option<PathBuf>,
    storage: Option<String>,
    workload: Option<String>,
    objective: Option<Metric>,
    /// Metrics pages of the target, one for each broker.
    metrics: Vec<String>,
    busy_metric: Option<String>,
    metrics_token_file: Option<PathBuf>,
    /// The SLO that defines the capacity.
    slo: Option<String>,
    climb_to: Option<f64>,
    climb_growth: Option<f64>,
    guards: Option<Vec<Metric>>,
    require: Vec<String>,
    /// File with prices, see `hone cost`.
    prices: Option<PathBuf>,
    budget: Option<TimeBudget>,
    allow: Vec<Altitude>,
    durability: bool,
    find: bool,
    forbid: Vec<String>,
    candidate: Vec<CandidateTable>,
    pairs: u32,
    control_pairs: u32,
    reserve: Option<u32>,
    effect: Share,
    mode: Mode,
    alpha: f64,
    equivalence: f64,
    keep_disturbed: bool,
    lateness_limit_ms: f64,
    ready_timeout_s: f64,
    stop_timeout_s: f64,
}

impl Default for Table {
    fn default() -> Self {
        Self {
            target: None,
            prepare: None,
            build: None,
            storage: None,
            workload: None,
            objective: None,
            metrics: Vec::new(),
            busy_metric: None,
            metrics_token_file: None,
            slo: None,
            climb_to: None,
            climb_growth: None,
            guards: None,
            require: Vec::new(),
            prices: None,
            budget: None,
            // The machine's settings have to be allowed explicitly.
            allow: vec![Altitude::Binary, Altitude::Broker, Altitude::Client],
            durability: false,
            find: true,
            forbid: Vec::new(),
            candidate: Vec::new(),
            pairs: USUAL_PAIRS,
            control_pairs: 5,
            reserve: None,
            effect: usual_effect(),
            mode: Mode::Solo,
            alpha: 0.05,
            equivalence: 0.02,
            keep_disturbed: false,
            lateness_limit_ms: hone_experiment::spec::DEFAULT_LATENESS_LIMIT_MS,
            ready_timeout_s: 30.0,
            stop_timeout_s: 30.0,
        }
    }
}

impl Table {
    fn climb(&self) -> Wanted {
        Wanted { slo: self.slo.clone(), to_requests_per_s: self.climb_to, growth: self.climb_growth }
    }

    /// Makes the paths in the file relative to the file's folder.
    fn beside(&mut self, folder: &Path) {
        let programs = self.candidate.iter_mut().filter_map(|candidate| candidate.program.as_mut());
        self.build.iter_mut().chain(programs).for_each(|path| *path = folder.join(&*path));
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CandidateTable {
    set: Option<Settings>,
    /// Another build of the target's program.
    program: Option<PathBuf>,
    /// Expected gain as a share of the objective. Candidates without one are tried in the file's order, after changes of Hone's
    /// with a larger expected gain.
    #[serde(default)]
    #[serde(rename = "expected_gain", alias = "hope")]
    hope: Option<f64>,
    #[serde(default)]
    why: String,
}

/// One setting, or several that belong together.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "write a text, or a list of texts")]
enum Settings {
    One(String),
    Several(Vec<String>),
}

/// Where to find a complete example.
pub const SHOWN: &str = "`hone tune --help` shows a complete file";

/// Expected gain of a candidate whose table has none. It is tried before candidates that Hone derives from a guess.
const HOPE_OF_THE_FILE: f64 = 0.05;

/// Reads a file's text. `path` is for the errors. `embedded` is the command of the broker that Hone starts if the file names no
/// target.
///
/// # Errors
/// With the line, where it is known, and the problem there.
pub fn parse(text: &str, path: &Path, embedded: &str) -> Result<TuneSettings> {
    let mut file: File = toml::from_str(text).map_err(|error| {
        let problem = FileError::of_toml(&error, text, path).to_string();
        let more =
            if problem.contains("` is missing") { format!("\n  next: {SHOWN}") } else { String::new() };
        Usage(problem + &more)
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    file.tune.beside(folder);
    file.workload.values_mut().for_each(|workload| workload.beside(folder));
    let asked = asked(file, embedded).and_then(|asked| of_one_length(asked, text));
    asked.map_err(|error| match error.downcast::<Usage>() {
        Ok(Usage(problem)) => Usage(format!("{}: {problem}", path.display())).into(),
        Err(error) => error.context(path.display().to_string()),
    })
}

fn asked(file: File, embedded: &str) -> Result<TuneSettings> {
    check_name(&file.name).map_err(Usage)?;
    let workload = workload(&file)?;
    let table = file.tune;
    let metrics = Metrics {
        urls: table.metrics.clone(),
        busy_metric: table.busy_metric.clone(),
        metrics_token_file: table.metrics_token_file.clone(),
    };
    metrics.check()?;
    let objective = table.objective.unwrap_or_else(|| metrics.decides());
    let workload = table.climb().of(workload, objective)?;
    let (target, place) = match &table.target {
        Some(target) => (target.clone(), target.clone()),
        None => ("an embedded broker".to_owned(), embedded.to_owned()),
    };
    let storage = match (&table.storage, &table.target) {
        (Some(storage), _) => storage.clone(),
        (None, None) => "fsync before an acknowledgement".to_owned(),
        (None, Some(_)) => "unknown".to_owned(),
    };
    let rules = require::read(&table.require)?;
    let budget_s = table.budget.map(|budget| budget.0);
    let guards = match table.guards {
        Some(guards) => guards,
        None if objective == Metric::Capacity => Vec::new(),
        None => require::latency_guards(&rules, &workload),
    };
    check_build(table.build.as_deref(), &place)?;
    let asked = TuneSettings {
        name: file.name,
        target,
        place,
        build: table.build,
        working_folder: std::env::current_dir().context("the working directory does not exist any more")?,
        workload,
        objective,
        metrics,
        require: table.require,
        budget_s,
        allowed: table.allow,
        durability: table.durability,
        find: table.find,
        forbid: table.forbid,
        not_built: None,
        candidates: table.candidate.into_iter().map(candidate).collect::<Result<_>>()?,
        pairs: table.pairs,
        control_pairs: table.control_pairs,
        reserve: table.reserve,
        effect: table.effect,
        mode: table.mode,
        host_root: PathBuf::from("/"),
        topic_prefix: hone_experiment::topics::prefix("tune"),
        core_price: Some(prices::core(table.prices.as_deref())?),
        comparison: ComparisonSettings {
            guards: guards.into_iter().filter(|guard| *guard != objective).collect(),
            alpha: table.alpha,
            equivalence: table.equivalence,
            keep_disturbed: table.keep_disturbed,
            ready_timeout_s: table.ready_timeout_s,
            stop_timeout_s: table.stop_timeout_s,
            prepare: table.prepare,
            storage,
            lateness_limit_us: table.lateness_limit_ms * 1e3,
        },
    };
    asked.check()?;
    Ok(asked)
}

/// A climb lasts as long as its steps, so a `duration_s` would have no effect. Hone refuses it instead of ignoring it.
fn of_one_length(asked: TuneSettings, text: &str) -> Result<TuneSettings> {
    let name = &asked.workload.name;
    if asked.workload.climb().is_some() && says_how_long(text, name) {
        bail!(Usage(format!(
            "[workload.{name}]: `duration_s` has no effect on a load that climbs, since each window ends \
             where the SLO breaks\n  next: remove it; slo, climb_to, climb_growth and requests_per_s limit \
             the length of a window"
        )));
    }
    Ok(asked)
}

/// Whether the file sets the length of a load. The parsed load can't answer this, since it always has a length.
fn says_how_long(text: &str, workload: &str) -> bool {
    let file: Option<toml::Table> = text.parse().ok();
    let of = |file: &toml::Table| file.get("workload")?.get(workload)?.get("duration_s").cloned();
    file.as_ref().and_then(of).is_some()
}

fn check_build(build: Option<&Path>, place: &str) -> Result<()> {
    let names = place.contains(PROGRAM);
    match build {
        Some(_) if !names => bail!(Usage(format!(
            "[tune]: `build` makes programs to try, but `target` does not use them\n  next: write target = \
             \"{PROGRAM} --listen 127.0.0.1:{{port}} ...\""
        ))),
        None if names => bail!(Usage(format!(
            "[tune]: `target` has {PROGRAM}, but there is no `build`\n  next: set build to the experiment \
             file of `hone optimize` that makes the program"
        ))),
        Some(build) if !build.is_file() => {
            bail!(Usage(format!("[tune]: build = {}: the file does not exist", build.display())))
        }
        _ => Ok(()),
    }
}

fn workload(file: &File) -> Result<Workload> {
    let name = match (&file.tune.workload, file.workload.len()) {
        (Some(name), _) => name,
        (None, 1) => file.workload.keys().next().context("there is one workload")?,
        (None, count) => bail!(Usage(format!(
            "[tune]: the file has {count} workloads\n  next: name the one to tune for: workload = \"NAME\""
        ))),
    };
    let Some(found) = file.workload.get(name) else {
        let near = nearest(name, file.workload.keys().map(String::as_str));
        bail!(Usage(format!("[tune]: unknown workload `{name}`{}", did_you_mean(near))));
    };
    found.named(name).map_err(|problem| Usage(format!("[workload.{name}]: {problem}")).into())
}

fn candidate(table: CandidateTable) -> Result<Candidate> {
    let share = table.hope.unwrap_or(HOPE_OF_THE_FILE);
    if !(0.0..=1.0).contains(&share) {
        bail!(Usage(format!("[[tune.candidate]]: invalid expected_gain {share}: use a share from 0 to 1")));
    }
    let why = if table.why.is_empty() { "the file asks for it".to_owned() } else { table.why };
    let hope = if table.hope.is_none() { Hope::unsaid(share, why) } else { Hope::new(share, why) };
    match (table.set, table.program) {
        (Some(Settings::One(one)), None) => Candidate::of_settings(&[one], hope),
        (Some(Settings::Several(several)), None) => Candidate::of_settings(&several, hope),
        (None, Some(program)) => {
            let path = program.canonicalize().map_err(|error| {
                Usage(format!("[[tune.candidate]] program = {}: {error}", program.display()))
            })?;
            Ok(Candidate::of_program(format!("program {}", program.display()), path, hope))
        }
        (Some(_), Some(_)) | (None, None) => {
            bail!(Usage("[[tune.candidate]]: a candidate has either `set` or `program`".to_owned()))
        }
    }
}

#[cfg(test)]
mod tests {
    use hone_record::{Expectation, Foretold};

    use super::*;
    use crate::propose::LEAST_HOPE;
    use crate::settings::Built;

    const PLAIN: &str =
        "name = \"orders\"\n[tune]\nbudget = \"10m\"\n[workload.orders]\nclient = \"librdkafka\"\n";

    fn read(text: &str) -> Result<TuneSettings> {
        parse(text, Path::new("hone.toml"), "hone broker --listen 127.0.0.1:{port}")
    }

    #[test]
    fn pairs_without_slack_are_told_and_too_few_are_refused() {
        let of =
            |pairs: u32| read(&PLAIN.replace("[tune]\n", &format!("[tune]\npairs = {pairs}\n"))).unwrap();
        let told = of(5).without_slack().unwrap();
        assert!(told.contains("pairs = 5 is the smallest") && told.contains("Set pairs = 8"), "{told}");
        assert_eq!((of(6).without_slack(), read(PLAIN).unwrap().without_slack()), (None, None));
        // Hone can't know the program behind an address.
        let few = TuneSettings { place: "127.0.0.1:9092".to_owned(), ..of(4) };
        let refused = few.check_all(&hone_load::Security::default()).unwrap_err().to_string();
        assert!(refused.contains("4 A/B pairs are too few"), "{refused}");
    }

    #[test]
    fn what_is_not_said_is_the_careful_choice() {
        let asked = read(PLAIN).unwrap();
        assert_eq!((asked.budget_s, asked.objective), (Some(600.0), Metric::CpuPerRecord));
        assert_eq!(asked.comparison.guards, [Metric::LatencyP99]);
        assert!(!asked.allowed.contains(&Altitude::Host) && !asked.durability && asked.find);
        assert_eq!(asked.target, "an embedded broker");
    }

    /// Hone never overwrites a value from the file silently.
    #[test]
    fn the_length_of_a_climb_is_that_of_its_steps() {
        let text = "name = \"x\"\n[tune]\nobjective = \"capacity\"\nslo = \"p99=10ms\"\n[workload.high]\nrecord_bytes = 100\n";
        let asked = read(text).unwrap();
        assert!(asked.workload.climb().is_some() && asked.workload.least_s() < asked.workload.duration_s);
        let error = read(&format!("{text}duration_s = 5\n")).unwrap_err();
        let told = format!("{error:#}");
        assert!(
            hone_experiment::usage::is_usage(&error)
                && told.contains("[workload.high]: `duration_s` has no effect"),
            "{told}"
        );
        read(&format!("{text}[workload.other]\nduration_s = 5\n").replace("slo", "workload = \"high\"\nslo"))
            .unwrap();
    }

    /// A rule about failures sets no latency limit.
    #[test]
    fn the_guard_rail_goes_only_where_a_rule_limits_a_latency() {
        for (rule, guards) in [
            ("errors<1%", &[Metric::LatencyP99][..]),
            ("throughput>10", &[Metric::LatencyP99]),
            ("p99>1ms", &[Metric::LatencyP99]),
            ("p99<10ms", &[]),
            ("max<1s", &[]),
        ] {
            let asked = read(&PLAIN.replace("budget", &format!("require = [\"{rule}\"]\nbudget"))).unwrap();
            assert_eq!(asked.comparison.guards, guards, "{rule}");
        }
    }

    /// Errors that would otherwise show after an hour of builds, and values that no clock or design accepts.
    #[test]
    fn what_can_be_known_is_known_before_anything_is_built() {
        let security = hone_load::Security::default();
        let with = |lines: &str| read(&PLAIN.replace("budget", &format!("{lines}\nbudget")));
        for (lines, expected) in [
            ("pairs = 1", "too few"),
            ("pairs = 4294967295\ncontrol_pairs = 4294967295", "pairs` must be between"),
            ("control_pairs = 4294967295", "must be between"),
            ("alpha = 0.7", "alpha"),
            ("objective = \"latency-p999\"", "requests in every window"),
            ("ready_timeout_s = -1", "invalid ready_timeout_s -1: use a number from 0 to 3600"),
            ("stop_timeout_s = nan", "invalid stop_timeout_s NaN: use a number from 0"),
            ("ready_timeout_s = inf", "invalid ready_timeout_s inf: use a number from 0"),
            ("lateness_limit_ms = inf", "invalid lateness_limit_ms"),
            ("lateness_limit_ms = 0", "invalid lateness_limit_ms 0: use a number above 0, at most 3600000"),
        ] {
            let found = with(lines).and_then(|mut asked| {
                asked.place = "sh --port {port}".to_owned();
                (asked.workload.requests_per_s, asked.workload.duration_s) = (100.0, 1.0);
                asked.comparison.guards = Vec::new();
                asked.check_all(&security)
            });
            let error = found.expect_err(lines);
            assert!(format!("{error:#}").contains(expected), "{lines}: {error:#}");
            assert!(hone_experiment::usage::is_usage(&error), "{lines}: {error:#}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (text, expected) in [
            ("name = \"x\"\n[tune]\nbugdet = \"1m\"\n[workload.a]\n", "hone.toml:3"),
            ("name = \"x\"\n[tune]\nbudget = \"soon\"\n[workload.a]\n", "budget"),
            ("name = \"x\"\n[tune]\nworkload = \"ordres\"\n[workload.orders]\n", "did you mean `orders`"),
            ("name = \"x\"\n[tune]\n[workload.a]\n[workload.b]\n", "the file has 2 workloads"),
            ("name = \"x\"\n[tune]\nrequire = [\"p99\"]\n[workload.a]\n", "require"),
            ("name = \"x\"\n[tune]\nrequire = [\"p99.999<1s\"]\n[workload.a]\n", "`p99.999<1s` needs"),
            ("name = \"x\"\n[workload.a]\n", "the key `tune` is missing"),
            ("name = \"x\"\n[tune]\n", SHOWN),
            (
                "name = \"x\"\n[tune]\nbudget = 30\n[workload.a]\n",
                "30 is a whole number; write a text, in quotes",
            ),
        ] {
            let message = format!("{:#}", read(text).unwrap_err());
            assert!(message.contains(expected) && message.contains("hone.toml"), "{text}: {message}");
        }
    }

    #[test]
    fn candidates_are_refused_before_anything_is_started() {
        for (lines, expected) in [
            ("[[tune.candidate]]\nhope = 0.1\n", "either `set` or `program`"),
            ("[[tune.candidate]]\nprogram = \"/no/such\"\n", "/no/such"),
            ("[[tune.candidate]]\nset = \"acks=1\"\n", "durability = true"),
            ("[[tune.candidate]]\nset = \"host.vm.swappiness=1\"\n", "`allow` does not have"),
            ("[[tune.candidate]]\nset = \"linger=5ms\"\nhope = 7\n", "a share from 0 to 1"),
            (
                "[[tune.candidate]]\nset = \"linger=5ms\"\n[[tune.candidate]]\nset = [\"linger=5ms\"]\n",
                "is in the file twice",
            ),
        ] {
            let message = format!("{:#}", read(&format!("{PLAIN}{lines}")).unwrap_err());
            assert!(message.contains(expected), "{lines}: {message}");
        }
        let allowed = PLAIN.replace("budget", "durability = true\nallow = [\"host\", \"client\"]\nbudget");
        let text = format!(
            "{allowed}[[tune.candidate]]\nset = \"acks=1\"\n[[tune.candidate]]\nset = \"host.vm.swappiness=1\"\n"
        );
        assert_eq!(read(&text).unwrap().candidates.len(), 2);
    }

    #[test]
    fn builds_take_the_place_of_the_program() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = folder.path().join("hone.toml");
        std::fs::write(&experiment, "").unwrap();
        let build = format!("build = '{}'\nbudget", experiment.display());
        let message = format!("{:#}", read(&PLAIN.replace("budget", &build)).unwrap_err());
        assert!(message.contains("{program} --listen"), "{message}");
        let target = format!("target = \"{{program}} --listen 127.0.0.1:{{port}}\"\n{build}");
        let asked = read(&PLAIN.replace("budget", &target)).unwrap();
        let built = Built {
            plain: PathBuf::from("/a b/broker"),
            variants: ["pgo", "bolt", "pgo+bolt"].map(|name| (name.to_owned(), PathBuf::from(name))).to_vec(),
            trained_by: vec!["telemetry".to_owned()],
            foretold: [("bolt", Expectation::Gain), ("pgo+bolt", Expectation::Nothing)]
                .map(|(name, expected)| {
                    (name.to_owned(), Foretold { expected, rule: String::new(), came_true: None })
                })
                .into(),
            stopped: None,
            took_s: 1.0,
        };
        let asked = asked.with_builds(&built).unwrap();
        assert!(asked.place.starts_with("'/a b/broker' --listen"), "{}", asked.place);
        assert_eq!(
            (asked.candidates[0].name.as_str(), asked.candidates[0].altitude),
            ("build pgo", Altitude::Binary)
        );
        let [plain, gain, nothing] = [0, 1, 2].map(|index: usize| asked.candidates[index].hope.clone());
        assert!(plain.why.contains("a profile of telemetry of its own experiment"), "{plain:?}");
        // A replay's result is better founded than a guess.
        assert!(
            gain.share == plain.share && gain.why.ends_with("predicts for its layout: a gain"),
            "{gain:?}"
        );
        assert!(
            nothing.share == LEAST_HOPE && nothing.why.ends_with("predicts for its layout: no difference"),
            "{nothing:?}"
        );
    }

    #[test]
    fn what_is_forbidden_is_refused_and_told() {
        let with = |lines: &str| PLAIN.replace("budget", &format!("{lines}\nbudget"));
        let asked = read(&with("forbid = [\"codec\", \"topic.*\"]")).unwrap();
        assert!(asked.rule().contains("Forbidden: codec, topic.*."), "{}", asked.rule());
        assert!(!read(PLAIN).unwrap().rule().contains("Forbidden"));
        let of = |setting: &str| Candidate::of_settings(&[setting.to_owned()], Hope::default()).unwrap();
        assert!(!asked.may_try(&of("codec=lz4")) && !asked.may_try(&of("topic.retention.ms=1")));
        assert!(asked.may_try(&of("linger=5ms")));
        assert!(!asked.may_try(&of("acks=1")), "what is promised stays");
        for (lines, expected) in [
            (
                "forbid = [\"codec\"]\n[[tune.candidate]]\nset = \"codec=lz4\"",
                "is forbidden: `forbid` has `codec`",
            ),
            ("forbid = [\"lingr\"]", "did you mean `linger`"),
        ] {
            let text = format!("name = \"x\"\n[tune]\n{lines}\n[workload.a]\nclient = \"librdkafka\"\n");
            let error = read(&text).unwrap_err();
            assert!(
                hone_experiment::usage::is_usage(&error) && format!("{error:#}").contains(expected),
                "{error:#}"
            );
        }
    }

    /// Hone builds nothing if there is no time left to try it.
    #[test]
    fn a_budget_that_does_not_reach_for_the_builds_is_told_before_them() {
        let folder = tempfile::tempdir().unwrap();
        let experiment = folder.path().join("hone.toml");
        std::fs::write(&experiment, "").unwrap();
        let target = format!(
            "target = \"{{program}} --listen 127.0.0.1:{{port}}\"\nbuild = '{}'\nbudget",
            experiment.display()
        );
        let asked = read(&PLAIN.replace("budget", &target)).unwrap();
        let builds =
            |loads_s| hone_experiment::takes::Takes { loads_s: [0.0, loads_s, 0.0], ..Default::default() };
        let told = |loads_s| {
            let estimate = asked.estimate(&hone_load::Security::default(), Some(&builds(loads_s))).unwrap();
            asked.has_time_for_builds(estimate.first_change_s)
        };
        told(10.0).unwrap();
        let error = told(900.0).unwrap_err();
        assert!(hone_experiment::usage::is_usage(&error), "{error:#}");
        assert!(error.to_string().contains("the budget of 10 min is too short for the builds"), "{error:#}");
    }

    #[test]
    fn the_examples_can_be_read() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in ["embedded.toml", "kafka.toml"] {
            let path = root.join("examples/tune").join(name);
            let text = std::fs::read_to_string(&path).unwrap();
            let asked = parse(&text, &path, "hone broker --listen 127.0.0.1:{port}").unwrap();
            assert!(!asked.candidates.is_empty() && asked.find, "{name}");
        }
    }

    #[test]
    fn the_wire_engine_has_no_linger() {
        let text = "name = \"x\"\n[tune]\n[[tune.candidate]]\nset = \"linger=5ms\"\n[workload.a]\n";
        let message = format!("{:#}", read(text).unwrap_err());
        assert!(message.contains("wire"), "{message}");
    }
}
