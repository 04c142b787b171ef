//! The `[tune]` part of an experiment file: text to settings, with errors that name the line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_compare::FEWEST_PAIRS;
use hone_format::{duration, read_duration_s};
use hone_host::kernel::Files;
use hone_record::{Altitude, Engine, Expectation, Foretold, Hope, Metric, Mode, Workload};
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::propose::LEAST_HOPE;
use super::{forbid, of_host};
use hone_experiment::climb::Wanted;
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_experiment::notation::Share;
use hone_experiment::require::{self, Rule};
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::spec::{WorkloadFile, check_name, explain, usual_effect};
use hone_experiment::spelling::{did_you_mean, nearest};

/// All that was asked for, as it is kept for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TuneSettings {
    /// The run's name.
    pub name: String,
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// `host:port`, or a command line.
    pub place: String,
    /// An experiment of `hone optimize` whose builds are tried; its plain one stands for `{program}` in the place.
    #[serde(default)]
    pub build: Option<PathBuf>,
    /// Where commands and their relative paths were meant.
    pub working_folder: PathBuf,
    /// The load.
    pub workload: Workload,
    /// Where the target's own counters are.
    #[serde(default)]
    pub metrics: Metrics,
    /// The metric that decides.
    pub objective: Metric,
    /// Rules that each state has to meet.
    pub require: Vec<String>,
    /// Seconds that the run may take; `None` for as long as it takes.
    pub budget_s: Option<f64>,
    /// The altitudes at which changes may be made.
    pub allowed: Vec<Altitude>,
    /// Whether what an acknowledgement promises may be another.
    pub durability: bool,
    /// Whether Hone looks for candidates of its own.
    pub find: bool,
    /// Settings that nothing touches, as names or patterns.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// Why builds that were asked for are not tried.
    #[serde(default)]
    pub not_built: Option<String>,
    /// Those that the file names, in its order, and those that Hone knows before the first look.
    pub candidates: Vec<Candidate>,
    /// A/B pairs of a comparison.
    pub pairs: u32,
    /// A/A pairs of a comparison.
    pub control_pairs: u32,
    /// See [`hone_compare::Plan::reserve`].
    #[serde(default)]
    pub reserve: Option<u32>,
    /// The difference that the pairs of a trial have to be able to show.
    #[serde(default = "usual_effect")]
    pub effect: Share,
    /// Both states at once, or one after the other.
    pub mode: Mode,
    /// Where the machine's files are.
    pub host_root: PathBuf,
    /// What the names of this run's topics begin with; no other run has it.
    pub topic_prefix: String,
    /// How pairs are judged, which of them count, and how long starts may take.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

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
    build: Option<PathBuf>,
    storage: Option<String>,
    workload: Option<String>,
    objective: Option<Metric>,
    /// Pages of the target's own counters, one for each broker.
    metrics: Vec<String>,
    busy_metric: Option<String>,
    metrics_token_file: Option<PathBuf>,
    /// The promise that a capacity hangs on.
    slo: Option<String>,
    climb_to: Option<f64>,
    climb_growth: Option<f64>,
    guards: Option<Vec<Metric>>,
    require: Vec<String>,
    budget: Option<String>,
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
            budget: None,
            // The machine's settings only where they are asked for.
            allow: vec![Altitude::Binary, Altitude::Broker, Altitude::Client],
            durability: false,
            find: true,
            forbid: Vec::new(),
            candidate: Vec::new(),
            pairs: 8,
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

    /// Files that it names lie beside it.
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
    /// Share of the objective that it is hoped to save; candidates without one come in the file's order, behind what Hone finds more promising.
    #[serde(default)]
    hope: Option<f64>,
    #[serde(default)]
    why: String,
}

/// Programs that an experiment of `hone optimize` made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// The program as it is built without a profile.
    pub plain: PathBuf,
    /// Each behind the one that it builds on.
    pub variants: Vec<(String, PathBuf)>,
    /// The loads of their own experiment that trained them.
    #[serde(default)]
    pub trained_by: Vec<String>,
    /// What replays foretell of the layouts of variants, by name.
    #[serde(default)]
    pub foretold: BTreeMap<String, Foretold>,
    /// Why none of the variants was made.
    #[serde(default)]
    pub stopped: Option<String>,
    /// Seconds that all attempts took to make them.
    pub took_s: f64,
}

/// The longest that somebody waits for a target, in seconds.
const LONGEST_WAIT_S: f64 = 3_600.0;

/// Windows of a pair that are measured one after the other.
pub(super) fn turns(mode: Mode) -> f64 {
    match mode {
        Mode::Solo => 2.0,
        Mode::Duet => 1.0,
    }
}

/// What a build by a profile is hoped to save as long as nobody knows the user share: services have been seen to use 0 to 10 % less CPU
/// (docs/results.md).
const HOPE_OF_A_BUILD: f64 = 0.07;

/// One setting, or several that belong together.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Settings {
    One(String),
    Several(Vec<String>),
}

/// Where somebody looks who has no file yet, or half of one.
pub const SHOWN: &str = "`hone tune --help` shows a whole file";

/// Stands for the program that `build` makes.
pub const PROGRAM: &str = "{program}";

/// What a candidate of the file is hoped to save where it does not say: enough to be tried before what Hone finds on a guess.
const HOPE_OF_THE_FILE: f64 = 0.05;

/// Reads a file's text; `path` is for the errors, `embedded` the command of the broker that stands in where no target is named.
///
/// # Errors
/// With the line where that is known, and what is wrong there.
pub fn parse(text: &str, path: &Path, embedded: &str) -> Result<TuneSettings> {
    let mut file: File = toml::from_str(text).map_err(|error| {
        let problem = explain(&error, text, path).to_string();
        let more =
            if problem.contains("missing field") { format!("\n  next: {SHOWN}") } else { String::new() };
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
    let budget_s = table.budget.as_deref().map(budget_s).transpose()?;
    let guards = match table.guards {
        Some(guards) => guards,
        None if require::say_how_late(&rules) || objective == Metric::Capacity => Vec::new(),
        None => vec![Metric::LatencyP99],
    };
    check_build(table.build.as_deref(), &place)?;
    let asked = TuneSettings {
        name: file.name,
        target,
        place,
        build: table.build,
        working_folder: std::env::current_dir().context("the working folder is gone")?,
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
        comparison: ComparisonSettings {
            guards: guards.into_iter().filter(|guard| *guard != objective).collect(),
            alpha: table.alpha,
            equivalence: table.equivalence,
            keep_disturbed: table.keep_disturbed,
            ready_timeout_s: table.ready_timeout_s,
            stop_timeout_s: table.stop_timeout_s,
            storage,
            lateness_limit_us: table.lateness_limit_ms * 1e3,
        },
    };
    asked.check()?;
    Ok(asked)
}

/// A climb is as long as its steps: a length beside it would be written over in silence.
fn of_one_length(asked: TuneSettings, text: &str) -> Result<TuneSettings> {
    let name = &asked.workload.name;
    if asked.workload.climb().is_some() && says_how_long(text, name) {
        bail!(Usage(format!(
            "[workload.{name}]: `duration_s` has no say where the load climbs, since each window ends where the promise breaks: leave it out; \
             slo, climb_to, climb_growth and the load's requests_per_s say how long that may take"
        )));
    }
    Ok(asked)
}

/// Whether a load of the file has a length of its own, which the load that was read does not tell: it has one in any case.
fn says_how_long(text: &str, workload: &str) -> bool {
    let file: Option<toml::Table> = text.parse().ok();
    let of = |file: &toml::Table| file.get("workload")?.get(workload)?.get("duration_s").cloned();
    file.as_ref().and_then(of).is_some()
}

fn check_build(build: Option<&Path>, place: &str) -> Result<()> {
    let names = place.contains(PROGRAM);
    match build {
        Some(_) if !names => bail!(Usage(format!(
            "[tune]: `build` makes programs to try, so `target` says where they go: target = \"{PROGRAM} --listen 127.0.0.1:{{port}} ...\""
        ))),
        None if names => bail!(Usage(format!(
            "[tune]: `target` has {PROGRAM}, so `build` has to name the experiment of hone optimize that makes it"
        ))),
        Some(build) if !build.is_file() => {
            bail!(Usage(format!("[tune]: build = {}: there is no such file", build.display())))
        }
        _ => Ok(()),
    }
}

fn workload(file: &File) -> Result<Workload> {
    let name = match (&file.tune.workload, file.workload.len()) {
        (Some(name), _) => name,
        (None, 1) => file.workload.keys().next().context("one is there")?,
        (None, count) => bail!(Usage(format!(
            "[tune]: there are {count} workloads; say which one is tuned for: workload = \"NAME\""
        ))),
    };
    let Some(found) = file.workload.get(name) else {
        let near = nearest(name, file.workload.keys().map(String::as_str));
        bail!(Usage(format!("[tune]: there is no workload `{name}`{}", did_you_mean(near))));
    };
    found.named(name).map_err(|problem| Usage(format!("[workload.{name}]: {problem}")).into())
}

fn candidate(table: CandidateTable) -> Result<Candidate> {
    let share = table.hope.unwrap_or(HOPE_OF_THE_FILE);
    if !(0.0..=1.0).contains(&share) {
        bail!(Usage(format!("[[tune.candidate]]: hope is a share, 0 to 1, got {share}")));
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
            bail!(Usage("[[tune.candidate]]: one of `set` and `program` says what is tried".to_owned()))
        }
    }
}

fn budget_s(text: &str) -> Result<f64> {
    let found = read_duration_s(text).map_err(|problem| Usage(format!("budget: {problem}")))?;
    if !(1.0..=604_800.0).contains(&found) {
        bail!(Usage(format!("budget `{text}`: from a second to a week")));
    }
    Ok(found)
}

impl TuneSettings {
    /// What is to be known of a number of pairs that is enough, and barely so. The reserve replaces excluded pairs; it adds none.
    pub fn without_slack(&self) -> Option<String> {
        (self.pairs == FEWEST_PAIRS).then(|| {
            format!(
                "pairs = {FEWEST_PAIRS} is the smallest number that gives a verdict: one pair against the trend can make a change inconclusive. \
                 Set pairs = {} in [tune] for some slack.",
                Table::default().pairs
            )
        })
    }

    /// What can be known before anything is started: every candidate alone on the first state, and what it promises.
    fn check(&self) -> Result<()> {
        hone_load::check(&self.workload)?;
        forbid::check(&self.forbid, &Files::new(&self.host_root))?;
        if self.workload.climb().is_some() && !self.require.is_empty() {
            bail!(Usage(
                "[tune]: `require` has no load to hold for where the load climbs until the promise breaks; the promise is `slo`"
                    .to_owned()
            ));
        }
        for (name, value) in [
            ("ready_timeout_s", self.comparison.ready_timeout_s),
            ("stop_timeout_s", self.comparison.stop_timeout_s),
        ] {
            if !(0.0..=LONGEST_WAIT_S).contains(&value) {
                bail!(Usage(format!("[tune]: {name} must lie between 0 and {LONGEST_WAIT_S}, got {value}")));
            }
        }
        // Nothing is sent at the very moment at which it is due.
        let (lateness_ms, most_ms) = (self.comparison.lateness_limit_us / 1e3, LONGEST_WAIT_S * 1e3);
        if !(lateness_ms > 0.0 && lateness_ms <= most_ms) {
            bail!(Usage(format!(
                "[tune]: lateness_limit_ms must be above 0 and at most {most_ms}, got {lateness_ms}"
            )));
        }
        for candidate in &self.candidates {
            if !self.allowed.contains(&candidate.altitude) {
                bail!(Usage(format!(
                    "candidate `{}` is of the altitude {}, which `allow` does not name",
                    candidate.name,
                    candidate.altitude.label()
                )));
            }
            if let Some(by) = self.forbidden_by(candidate) {
                let along = match candidate.altitude {
                    Altitude::Host => ", which it sets or takes along",
                    Altitude::Binary | Altitude::Broker | Altitude::Client => "",
                };
                bail!(Usage(format!(
                    "candidate `{}` is forbidden by `forbid`, which names `{by}`{along}; take one of the two out of the file",
                    candidate.name
                )));
            }
            if self.workload.engine == Engine::Wire && candidate.altitude == Altitude::Client {
                bail!(Usage(format!(
                    "candidate `{}`: the engine `wire` makes its own batches; send by client = \"librdkafka\" or a command",
                    candidate.name
                )));
            }
            if let Some(promise) = candidate.promise(&self.workload.engine)?.filter(|_| !self.durability) {
                bail!(Usage(format!(
                    "candidate `{}`: {promise}. Say durability = true to have it tried all the same",
                    candidate.name
                )));
            }
        }
        require::can_be_told(&self.require, &self.workload)?;
        let mut names: Vec<&str> = self.candidates.iter().map(|candidate| &*candidate.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!(Usage(format!("candidate `{}` is named twice", twice[0])));
        }
        Ok(())
    }

    /// With a program that is there in the place of builds that are not made yet.
    pub(super) fn with_stand_in(&self) -> Result<Self> {
        let asked = self.clone();
        if asked.build.is_none() {
            return Ok(asked);
        }
        let plain = std::env::current_exe().context("the path of this program can't be found")?;
        asked.with_builds(&Built {
            plain,
            variants: Vec::new(),
            trained_by: Vec::new(),
            foretold: BTreeMap::new(),
            stopped: None,
            took_s: 0.0,
        })
    }

    /// With its builds: the plain one as the target's program, the others as candidates.
    pub fn with_builds(mut self, built: &Built) -> Result<Self> {
        let plain = built.plain.to_str().context("the path of the plain build is no text")?;
        let quoted = shlex::try_quote(plain).context("the path of the plain build can't be quoted")?;
        self.place = self.place.replace(PROGRAM, &quoted);
        self.not_built.clone_from(&built.stopped);
        if self.allowed.contains(&Altitude::Binary) {
            let why = why_a_build(&built.trained_by);
            let candidates = built.variants.iter().map(|(name, path)| {
                let hope = hope_of_a_build(&why, built.foretold.get(name));
                Candidate::of_program(format!("build {name}"), path.clone(), hope).by_hone()
            });
            self.candidates.extend(candidates);
        }
        Ok(self)
    }

    /// With the settings of this machine that Hone itself would try for a target whose data lies below `data`, or why there are none.
    pub fn with_knobs_of_the_host(mut self, data: &Path) -> (Self, Option<String>) {
        if !self.find || !self.allowed.contains(&Altitude::Host) {
            return (self, None);
        }
        let found = match of_host::found(&self.host_root, &self.place, data, self.objective) {
            Ok(found) => found,
            Err(why) => return (self, Some(why)),
        };
        let left_out = self.left_out(&found);
        let named = |one: &Candidate| self.candidates.iter().any(|named| named.name == one.name);
        let found: Vec<Candidate> = found.into_iter().filter(|one| named(one) || self.may_try(one)).collect();
        let why = left_out.filter(|_| found.is_empty());
        let new: Vec<Candidate> = found.into_iter().filter(|one| !named(one)).collect();
        self.candidates.extend(new);
        (self, why)
    }

    /// What keeps changes that Hone found from being tried, in words; `None` where nothing does.
    fn left_out(&self, found: &[Candidate]) -> Option<String> {
        let (forbidden, rest): (Vec<&Candidate>, Vec<&Candidate>) =
            found.iter().partition(|one| self.forbidden_by(one).is_some());
        let promising: Vec<&Candidate> = rest.into_iter().filter(|one| !self.may_try(one)).collect();
        let told = |of: &[&Candidate], why: &str| {
            let names: Vec<&str> = of.iter().map(|one| &*one.name).collect();
            (!names.is_empty()).then(|| format!("{} {why}", names.join(", ")))
        };
        let all = [
            told(&promising, "would change what an acknowledgement promises, which takes durability = true"),
            told(&forbidden, "would set or take along what `forbid` names"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether a candidate that Hone found may be tried: it is not forbidden, and promises what was promised.
    pub(crate) fn may_try(&self, candidate: &Candidate) -> bool {
        let keeps = || candidate.promise(&self.workload.engine).is_ok_and(|promise| promise.is_none());
        self.forbidden_by(candidate).is_none() && (self.durability || keeps())
    }

    /// What of `forbid` forbids a candidate.
    pub(super) fn forbidden_by(&self, candidate: &Candidate) -> Option<&str> {
        forbid::by(&self.forbid, candidate, &self.workload.engine, &Files::new(&self.host_root))
    }

    /// The rule's words about what is not touched.
    pub(super) fn forbidden_in_words(&self) -> Option<String> {
        (!self.forbid.is_empty()).then(|| format!("Forbidden: {}.", self.forbid.join(", ")))
    }

    /// What is told where the budget can't reach for a single change, with the estimate.
    ///
    /// # Errors
    /// When it can't.
    pub fn has_time_for_builds(&self, needed_s: f64) -> Result<()> {
        match self.budget_s {
            Some(budget_s) if self.build.is_some() && budget_s < needed_s => bail!(Usage(format!(
                "the budget of {} does not reach for the builds: their loads, the first look and one comparison take {} at least, and compilers take their \
                 time on top. Give it more, name fewer variants, or leave `build` out; --dry-run says what each part takes",
                duration(budget_s),
                duration(needed_s)
            ))),
            _ => Ok(()),
        }
    }

    /// Whether settings of the machine's kernel are among what is tried.
    pub fn changes_the_host(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.altitude == Altitude::Host)
    }

    /// Rules of the user's.
    ///
    /// # Errors
    /// When one is none; they were read before.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        Ok(require::read(&self.require)?)
    }
}

/// A layout of which a replay foretells no gain is tried behind all others, and tried: the rule is not calibrated, and what ran was another load.
fn hope_of_a_build(why: &str, foretold: Option<&Foretold>) -> Hope {
    let Some(foretold) = foretold else { return Hope::new(HOPE_OF_A_BUILD, why) };
    let share = match foretold.expected {
        Expectation::Gain | Expectation::Open => HOPE_OF_A_BUILD,
        Expectation::Nothing | Expectation::Harm => LEAST_HOPE,
    };
    Hope::new(share, format!("{why}; of its layout a replay of what ran foretells: {}", foretold.expected))
}

/// What is known of a build before it is measured.
fn why_a_build(trained_by: &[String]) -> String {
    let loads = match trained_by {
        [] => "loads of its own experiment".to_owned(),
        names => format!("{} of its own experiment", names.join(", ")),
    };
    format!(
        "a profile of {loads} shaped it, which need not be how the code runs under this load; builds like it have saved services 0 to 10 % of their CPU"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // No program is looked for behind an address.
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

    /// Nothing that somebody writes is written over in silence.
    #[test]
    fn the_length_of_a_climb_is_that_of_its_steps() {
        let text = "name = \"x\"\n[tune]\nobjective = \"capacity\"\nslo = \"p99=10ms\"\n[workload.high]\nrecord_bytes = 100\n";
        let asked = read(text).unwrap();
        assert!(asked.workload.climb().is_some() && asked.workload.least_s() < asked.workload.duration_s);
        let error = read(&format!("{text}duration_s = 5\n")).unwrap_err();
        let told = format!("{error:#}");
        assert!(
            hone_experiment::usage::is_usage(&error)
                && told.contains("[workload.high]: `duration_s` has no say"),
            "{told}"
        );
        read(&format!("{text}[workload.other]\nduration_s = 5\n").replace("slo", "workload = \"high\"\nslo"))
            .unwrap();
    }

    /// A rule about failures says nothing of how late anything may be.
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

    /// What would fail behind an hour of builds, and figures that no clock or design takes.
    #[test]
    fn what_can_be_known_is_known_before_anything_is_built() {
        let security = hone_load::Security::default();
        let with = |lines: &str| read(&PLAIN.replace("budget", &format!("{lines}\nbudget")));
        for (lines, expected) in [
            ("pairs = 1", "too few"),
            ("pairs = 4294967295\ncontrol_pairs = 4294967295", "pairs must lie between"),
            ("control_pairs = 4294967295", "must lie between"),
            ("alpha = 0.7", "alpha"),
            ("objective = \"latency-p999\"", "requests in every window"),
            ("ready_timeout_s = -1", "ready_timeout_s must lie between 0 and 3600"),
            ("stop_timeout_s = nan", "stop_timeout_s must lie between"),
            ("ready_timeout_s = inf", "ready_timeout_s must lie between"),
            ("lateness_limit_ms = inf", "lateness_limit_ms must be above 0"),
            ("lateness_limit_ms = 0", "lateness_limit_ms must be above 0 and at most 3600000, got 0"),
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
            ("name = \"x\"\n[tune]\n[workload.a]\n[workload.b]\n", "there are 2 workloads"),
            ("name = \"x\"\n[tune]\nrequire = [\"p99\"]\n[workload.a]\n", "require"),
            (
                "name = \"x\"\n[tune]\nrequire = [\"p99.999<1s\"]\n[workload.a]\n",
                "no window can tell `p99.999<1s`",
            ),
            ("name = \"x\"\n[workload.a]\n", "missing field `tune`"),
            ("name = \"x\"\n[tune]\n", SHOWN),
            ("name = \"x\"\n[tune]\nbudget = 30\n[workload.a]\n", "write it in quotes"),
        ] {
            let message = format!("{:#}", read(text).unwrap_err());
            assert!(message.contains(expected) && message.contains("hone.toml"), "{text}: {message}");
        }
    }

    #[test]
    fn candidates_are_refused_before_anything_is_started() {
        for (lines, expected) in [
            ("[[tune.candidate]]\nhope = 0.1\n", "one of `set` and `program`"),
            ("[[tune.candidate]]\nprogram = \"/no/such\"\n", "/no/such"),
            ("[[tune.candidate]]\nset = \"acks=1\"\n", "durability = true"),
            ("[[tune.candidate]]\nset = \"host.vm.swappiness=1\"\n", "`allow` does not name"),
            ("[[tune.candidate]]\nset = \"linger=5ms\"\nhope = 7\n", "a share, 0 to 1"),
            (
                "[[tune.candidate]]\nset = \"linger=5ms\"\n[[tune.candidate]]\nset = [\"linger=5ms\"]\n",
                "named twice",
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
        // What was replayed says more than a guess.
        assert!(gain.share == plain.share && gain.why.ends_with("foretells: a gain"), "{gain:?}");
        assert!(
            nothing.share == LEAST_HOPE && nothing.why.ends_with("foretells: no difference"),
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
                "forbidden by `forbid`, which names `codec`",
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

    /// Nothing is built of which nothing could be tried.
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
        assert!(error.to_string().contains("the budget of 10 min does not reach"), "{error:#}");
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
