//! The settings of `hone tune`, and the checks of them before anything starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_compare::FEWEST_PAIRS;
use hone_format::duration;
use hone_host::kernel::Files;
use hone_record::{Altitude, Engine, Expectation, Foretold, Hope, Metric, Mode, Workload};
use serde::{Deserialize, Serialize};

use super::candidate::Candidate;
use super::propose::LEAST_HOPE;
use super::{forbid, of_host};
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_experiment::notation::Share;
use hone_experiment::require::{self, Rule};
use hone_experiment::settings::{ComparisonSettings, LONGEST_WAIT_S};
use hone_experiment::spec::usual_effect;

/// What a build by a profile is hoped to save as long as nobody knows the user share: services have been seen to use 0 to 10 % less CPU
/// (docs/results.md).
const HOPE_OF_A_BUILD: f64 = 0.07;

/// Stands for the program that `build` makes.
pub const PROGRAM: &str = "{program}";

/// Default number of A/B pairs of a comparison.
pub(crate) const USUAL_PAIRS: u32 = 8;

/// Windows of a pair that are measured one after the other.
pub(crate) fn turns(mode: Mode) -> f64 {
    match mode {
        Mode::Solo => 2.0,
        Mode::Duet => 1.0,
    }
}

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
    /// Most seconds that the run may take; `None` for no limit.
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

impl TuneSettings {
    /// What is to be known of a number of pairs that is enough, and barely so. The reserve replaces excluded pairs; it adds none.
    pub fn without_slack(&self) -> Option<String> {
        (self.pairs == FEWEST_PAIRS).then(|| {
            format!(
                "pairs = {FEWEST_PAIRS} is the smallest number that gives a verdict: one pair against the trend can make a change inconclusive. \
                 Set pairs = {} in [tune] for some slack.",
                USUAL_PAIRS
            )
        })
    }

    /// What can be known before anything is started: every candidate alone on the first state, and what it promises.
    pub(crate) fn check(&self) -> Result<()> {
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
