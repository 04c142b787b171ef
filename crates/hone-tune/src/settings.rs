//! The settings of `hone tune`, and the checks of them before anything starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_compare::FEWEST_PAIRS;
use hone_format::duration;
use hone_host::kernel::Files;
use hone_record::{Altitude, CorePrice, Engine, Expectation, Foretold, Hope, Metric, Mode, Workload};
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

/// Expected gain of a profile-guided build, as long as the user share is not known: services have used 0 to 10 % less CPU
/// (docs/results.md).
const HOPE_OF_A_BUILD: f64 = 0.07;

/// Placeholder for the program that `build` makes.
pub const PROGRAM: &str = "{program}";

/// Default number of A/B pairs of a comparison.
pub(crate) const USUAL_PAIRS: u32 = 8;

/// Windows of a pair that run in sequence.
pub(crate) fn turns(mode: Mode) -> f64 {
    match mode {
        Mode::Solo => 2.0,
        Mode::Duet => 1.0,
    }
}

/// All settings of the run, stored for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TuneSettings {
    /// The run's name.
    pub name: String,
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// `host:port`, or a command line.
    pub place: String,
    /// An experiment of `hone optimize` whose builds are candidates. Its plain build replaces `{program}` in the place.
    #[serde(default)]
    pub build: Option<PathBuf>,
    /// The working directory for commands and their relative paths.
    pub working_folder: PathBuf,
    /// The load.
    pub workload: Workload,
    /// Metrics pages of the target.
    #[serde(default)]
    pub metrics: Metrics,
    /// The metric that decides.
    pub objective: Metric,
    /// Rules that each state must meet.
    pub require: Vec<String>,
    /// Time limit of the run in seconds; `None` for no limit.
    pub budget_s: Option<f64>,
    /// The layers on which changes are allowed.
    pub allowed: Vec<Altitude>,
    /// Whether the durability guarantee may change.
    pub durability: bool,
    /// Whether Hone derives candidates of its own.
    pub find: bool,
    /// Settings that are never changed, as names or patterns.
    #[serde(default)]
    pub forbid: Vec<String>,
    /// The reason why requested builds are not tried.
    #[serde(default)]
    pub not_built: Option<String>,
    /// The file's candidates in its order, and those that Hone knows before the first look.
    pub candidates: Vec<Candidate>,
    /// A/B pairs of a comparison.
    pub pairs: u32,
    /// A/A pairs of a comparison.
    pub control_pairs: u32,
    /// See [`hone_compare::Plan::reserve`].
    #[serde(default)]
    pub reserve: Option<u32>,
    /// The smallest difference that the pairs of a trial must be able to show.
    #[serde(default = "usual_effect")]
    pub effect: Share,
    /// Concurrent windows (duet) or sequential ones (solo).
    pub mode: Mode,
    /// Root of the machine's files.
    pub host_root: PathBuf,
    /// Prefix of the names of this run's topics. It is unique.
    pub topic_prefix: String,
    /// Price of a core, to show what saved cores save.
    #[serde(default)]
    pub core_price: Option<CorePrice>,
    /// How pairs are judged, which ones are excluded, and time limits for starts.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

/// Programs that an experiment of `hone optimize` made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Built {
    /// The plain build, without a profile.
    pub plain: PathBuf,
    /// Each after the one on which it is based.
    pub variants: Vec<(String, PathBuf)>,
    /// The loads of their own experiment that trained them.
    #[serde(default)]
    pub trained_by: Vec<String>,
    /// Predictions of a replay for the variants' layouts, by name.
    #[serde(default)]
    pub foretold: BTreeMap<String, Foretold>,
    /// Why no variant was built.
    #[serde(default)]
    pub stopped: Option<String>,
    /// Seconds that all attempts took to build them.
    pub took_s: f64,
}

impl TuneSettings {
    /// A note about a number of pairs that is barely enough. The reserve replaces excluded pairs and adds none.
    pub fn without_slack(&self) -> Option<String> {
        (self.pairs == FEWEST_PAIRS).then(|| {
            format!(
                "pairs = {FEWEST_PAIRS} is the smallest number that gives a verdict: one pair against the \
                 trend can make a change inconclusive. Set pairs = {} in [tune] for some slack.",
                USUAL_PAIRS
            )
        })
    }

    /// Checks everything that is known before a start: each candidate alone on the original state, and its durability guarantee.
    pub(crate) fn check(&self) -> Result<()> {
        hone_load::check(&self.workload)?;
        forbid::check(&self.forbid, &Files::new(&self.host_root))?;
        if self.workload.climb().is_some() && !self.require.is_empty() {
            bail!(Usage(
                "[tune]: `require` has no effect on a load that climbs until the SLO breaks\n  next: remove \
                 it, and set the latency goal in `slo`"
                    .to_owned()
            ));
        }
        for (name, value) in [
            ("ready_timeout_s", self.comparison.ready_timeout_s),
            ("stop_timeout_s", self.comparison.stop_timeout_s),
        ] {
            if !(0.0..=LONGEST_WAIT_S).contains(&value) {
                bail!(Usage(format!(
                    "[tune]: invalid {name} {value}: use a number from 0 to {LONGEST_WAIT_S}"
                )));
            }
        }
        // No request is sent at exactly its scheduled time.
        let (lateness_ms, most_ms) = (self.comparison.lateness_limit_us / 1e3, LONGEST_WAIT_S * 1e3);
        if !(lateness_ms > 0.0 && lateness_ms <= most_ms) {
            bail!(Usage(format!(
                "[tune]: invalid lateness_limit_ms {lateness_ms}: use a number above 0, at most {most_ms}"
            )));
        }
        for candidate in &self.candidates {
            if !self.allowed.contains(&candidate.altitude) {
                bail!(Usage(format!(
                    "candidate `{}` belongs to the layer {}, which `allow` does not have",
                    candidate.name,
                    candidate.altitude.label()
                )));
            }
            if let Some(by) = self.forbidden_by(candidate) {
                let along = match candidate.altitude {
                    Altitude::Host => ", which it changes, directly or as a side effect",
                    Altitude::Binary | Altitude::Broker | Altitude::Client => "",
                };
                bail!(Usage(format!(
                    "candidate `{}` is forbidden: `forbid` has `{by}`{along}\n  next: remove one of the two \
                     from the file",
                    candidate.name
                )));
            }
            if self.workload.engine == Engine::Wire && candidate.altitude == Altitude::Client {
                bail!(Usage(format!(
                    "candidate `{}`: the engine `wire` makes its own batches; set client = \"librdkafka\" or \
                     a command",
                    candidate.name
                )));
            }
            if let Some(promise) = candidate.promise(&self.workload.engine)?.filter(|_| !self.durability) {
                bail!(Usage(format!(
                    "candidate `{}`: {promise}\n  next: set durability = true to try it",
                    candidate.name
                )));
            }
        }
        require::can_be_told(&self.require, &self.workload)?;
        let mut names: Vec<&str> = self.candidates.iter().map(|candidate| &*candidate.name).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            bail!(Usage(format!("candidate `{}` is in the file twice", twice[0])));
        }
        Ok(())
    }

    /// With an existing program in place of builds that are not made yet.
    pub(super) fn with_stand_in(&self) -> Result<Self> {
        let asked = self.clone();
        if asked.build.is_none() {
            return Ok(asked);
        }
        let plain = std::env::current_exe().context("the path of this program is not known")?;
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
        let plain = built.plain.to_str().context("the path of the plain build is not valid UTF-8")?;
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

    /// With machine settings that Hone proposes for a target with its data below `data`, or the reason why there are none.
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

    /// Why changes that Hone proposed are not tried; `None` where none is left out.
    fn left_out(&self, found: &[Candidate]) -> Option<String> {
        let (forbidden, rest): (Vec<&Candidate>, Vec<&Candidate>) =
            found.iter().partition(|one| self.forbidden_by(one).is_some());
        let promising: Vec<&Candidate> = rest.into_iter().filter(|one| !self.may_try(one)).collect();
        let told = |of: &[&Candidate], why: &str| {
            let names: Vec<&str> = of.iter().map(|one| &*one.name).collect();
            (!names.is_empty()).then(|| format!("{} {why}", names.join(", ")))
        };
        let all = [
            told(&promising, "would change the durability guarantee, which needs durability = true"),
            told(&forbidden, "would change settings that `forbid` has"),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Whether a proposed candidate may be tried: it is not forbidden, and keeps the durability guarantee.
    pub(crate) fn may_try(&self, candidate: &Candidate) -> bool {
        let keeps = || candidate.promise(&self.workload.engine).is_ok_and(|promise| promise.is_none());
        self.forbidden_by(candidate).is_none() && (self.durability || keeps())
    }

    /// The entry of `forbid` that matches a candidate.
    pub(super) fn forbidden_by(&self, candidate: &Candidate) -> Option<&str> {
        forbid::by(&self.forbid, candidate, &self.workload.engine, &Files::new(&self.host_root))
    }

    /// The rule's sentence about forbidden settings.
    pub(super) fn forbidden_in_words(&self) -> Option<String> {
        (!self.forbid.is_empty()).then(|| format!("Forbidden: {}.", self.forbid.join(", ")))
    }

    /// Checks that the budget is long enough for the builds and one comparison.
    ///
    /// # Errors
    /// When it is not, with the estimate.
    pub fn has_time_for_builds(&self, needed_s: f64) -> Result<()> {
        match self.budget_s {
            Some(budget_s) if self.build.is_some() && budget_s < needed_s => bail!(Usage(format!(
                "the budget of {} is too short for the builds: their loads, the first look and one \
                 comparison take at least {}, plus the time of the compilers\n  next: raise the budget, name \
                 fewer variants, or remove `build`; --dry-run shows the time of each part",
                duration(budget_s),
                duration(needed_s)
            ))),
            _ => Ok(()),
        }
    }

    /// Whether any candidate changes a setting of the machine's kernel.
    pub fn changes_the_host(&self) -> bool {
        self.candidates.iter().any(|candidate| candidate.altitude == Altitude::Host)
    }

    /// The user's rules.
    ///
    /// # Errors
    /// When one is invalid; they were checked before.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        Ok(require::read(&self.require)?)
    }
}

/// A layout without a predicted gain is tried last. It is still tried: the prediction is not calibrated, and the replay used
/// another load.
fn hope_of_a_build(why: &str, foretold: Option<&Foretold>) -> Hope {
    let Some(foretold) = foretold else { return Hope::new(HOPE_OF_A_BUILD, why) };
    let share = match foretold.expected {
        Expectation::Gain | Expectation::Open => HOPE_OF_A_BUILD,
        Expectation::Nothing | Expectation::Harm => LEAST_HOPE,
    };
    Hope::new(
        share,
        format!("{why}; a replay of recorded executions predicts for its layout: {}", foretold.expected),
    )
}

/// What is known about a build before it is measured.
fn why_a_build(trained_by: &[String]) -> String {
    let loads = match trained_by {
        [] => "loads of its own experiment".to_owned(),
        names => format!("{} of its own experiment", names.join(", ")),
    };
    format!(
        "it was built with a profile of {loads}, which may differ from this load; such builds have saved \
         services 0 to 10 % of their CPU"
    )
}
