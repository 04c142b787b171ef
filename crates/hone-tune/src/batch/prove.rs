//! `hone batch prove`: compares one step after the other with the state kept so far, as `hone compare` does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_compare::Plan;
use hone_load::{Security, Topic};
use hone_record::{
    BatchState, Comparison, Decision, LedgerEntry, Metric, Mode, Proof, ProofStep, Replica, Window, Workload,
};
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

use super::replica::{self, Today, Unlike};
use super::step::{Step, promise};
use hone_experiment::arm::{self, Arm, Place};
use hone_experiment::decide::{Terms, decide, fixed, guards, not_to_be_had, required, windows};
use hone_experiment::drive::{Contest, GaveUp, compare};
use hone_experiment::folder::{RunFolder, read_record};
use hone_experiment::meter::Metrics;
use hone_experiment::progress::Progress;
use hone_experiment::require::{self, Rule};
use hone_experiment::settings::ComparisonSettings;
use hone_experiment::standing::Standing;
use hone_experiment::topics::{Topics, looked_after};
use hone_experiment::{ledger, left};

/// All settings of the run, stored for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ProofSettings {
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// `host:port`, or a command line.
    pub place: String,
    /// The working directory for commands and their relative paths.
    pub working_folder: PathBuf,
    /// Source of the load, in words.
    pub load: String,
    /// The load.
    pub workload: Workload,
    /// The steps, in their order.
    pub steps: Vec<Step>,
    /// The metric that decides.
    pub primary: Metric,
    /// Rules that each state must meet.
    pub require: Vec<String>,
    /// A/B pairs of a comparison.
    pub pairs: u32,
    /// A/A pairs of a comparison.
    pub control_pairs: u32,
    /// Concurrent windows (duet) or sequential ones (solo).
    pub mode: Mode,
    /// Whether the topics of the run stay when it ends.
    pub keep_topics: bool,
    /// Prefix of the names of this run's topics. It is unique.
    pub topic_prefix: String,
    /// Limits of the result, in sentences.
    pub limits: Vec<String>,
    /// Whether the run only compares and keeps nothing (write caching report).
    #[serde(default)]
    pub is_card: bool,
    /// The basis of the run, filled before the first window.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// Metrics pages of the target.
    #[serde(default)]
    pub metrics: Metrics,
    /// The topic that the load replicates.
    #[serde(default)]
    pub today: Option<Today>,
    /// Whether the steps are measured although the replica differs from its topic.
    #[serde(default)]
    pub unlike: bool,
    /// How pairs are judged, which ones are excluded, and time limits for starts.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

/// The file in the run's folder that keeps the settings.
pub const ASKED: &str = "asked.json";

/// A run.
pub struct Session<'a> {
    /// The settings.
    pub asked: &'a ProofSettings,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// TLS and login.
    pub security: &'a Security,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// Where progress is shown.
    pub progress: &'a Progress,
}

impl ProofSettings {
    /// The one target, on both sides.
    ///
    /// # Errors
    /// When the place is neither an address nor a command that can be started.
    pub fn arm(&self, name: &str, security: &Security) -> Result<Arm> {
        let place = self.comparison.place(&self.place)?;
        Ok(Arm { name: name.to_owned(), place, security: security.clone(), metrics: self.metrics.clone() })
    }

    /// Applies every step on top of the load, as if each were accepted, and each alone. An impossible step is found before the
    /// first window.
    ///
    /// # Errors
    /// With the step.
    pub fn check(&self) -> Result<()> {
        hone_load::check(&self.workload)?;
        let mut all = self.workload.clone();
        for step in &self.steps {
            let alone = step.applied(&self.workload)?;
            let with_it = step.applied(&all)?;
            let before = std::mem::replace(&mut all, with_it);
            for pair in [[&self.workload, &alone], [&before, &all]] {
                let checked = hone_load::check(pair[1]).map_err(anyhow::Error::from);
                let checked = checked.and_then(|()| Ok(hone_compare::plan(&self.plan(pair)).map(drop)?));
                checked.with_context(|| format!("step `{}`", step.text))?;
            }
        }
        require::can_be_told(&self.require, &self.workload)?;
        hone_compare::plan(&self.plan([&self.workload, &self.workload]))?;
        Ok(())
    }

    fn rules(&self) -> Result<Vec<Rule>> {
        Ok(require::read(&self.require)?)
    }

    /// The design of a step.
    fn plan(&self, loads: [&Workload; 2]) -> Plan {
        let mode = self.mode;
        let pairs = [self.pairs, self.control_pairs];
        Plan {
            refused: arm::refused(&loads.map(Clone::clone), arm::is_command(&self.place)),
            busy: self.metrics.are_read(),
            ..self.comparison.plan(mode, self.primary, pairs, &self.workload)
        }
    }

    /// The rule by which a step is accepted.
    pub fn rule(&self) -> String {
        let terms = Terms {
            primary: self.primary,
            guards: &self.comparison.guards,
            require: &self.require,
            pairs: self.pairs,
            control_pairs: self.control_pairs,
        };
        format!(
            "A step is accepted when {} Every other step is rejected and rolled back.",
            terms.words("; at least half of a predicted reduction of batches/s is achieved")
        )
    }
}

impl Session<'_> {
    /// Measures the remaining steps. An interrupted run continues after its last pair.
    ///
    /// # Errors
    /// When the target fails in the state before a step, another part of the system fails, or the user interrupts.
    pub fn run(&self) -> Result<Proof> {
        let _held = self.folder.held()?;
        left::clean_up(self.folder.path(), self.progress)?;
        let _noting = left::noted(self.folder)?;
        // Nothing is measured if its ledger entry could not be written.
        hone_ledger::Ledger::open(self.folder.home().join(ledger::NAME))?;
        // The rule is written before the first window, so that it can't follow from the results.
        fixed(self.folder, &self.asked.rule())?;
        let arm = self.asked.arm("kept", self.security)?;
        let topics = match &arm.place {
            Place::Address(address) if !self.asked.keep_topics => {
                Some(Topics { address: address.clone(), prefix: self.asked.topic_prefix.clone() })
            }
            Place::Address(_) | Place::Program(_) => None,
        };
        looked_after(self.folder, topics.as_ref(), self.security, self.progress, || self.steps())
    }

    fn steps(&self) -> Result<Proof> {
        let replica = self.replica()?;
        let mut kept = self.asked.workload.clone();
        let mut steps = Vec::new();
        for (index, step) in self.asked.steps.iter().enumerate() {
            let note = format!("steps/{:02}/step.json", index + 1);
            let candidate = step.applied(&kept)?;
            let found = match self.folder.read_note::<ProofStep>(&note)? {
                Some(found) => found,
                None => {
                    let place = format!("Step {} of {}", index + 1, self.asked.steps.len());
                    self.progress.line(&format!("{place}: {}", step.text));
                    let found = self.step(index, step, [&kept, &candidate]).with_context(|| place)?;
                    self.folder.write_note(&note, &found)?;
                    self.progress.line(&format!("  {}: {}", found.outcome(), found.why));
                    found
                }
            };
            self.enter_in_ledger(index, &found)?;
            if found.decision == Decision::Accepted {
                kept = candidate;
            }
            steps.push(found);
        }
        self.proof(steps, kept, replica)
    }

    /// Compares the load with the topic that it replicates, once per run.
    fn replica(&self) -> Result<Option<Replica>> {
        let Some(today) = &self.asked.today else { return Ok(None) };
        let found = match self.folder.read_note::<Replica>(replica::NOTE)? {
            Some(found) => found,
            None => {
                self.progress.doing(&format!("replicating {}", today.topic));
                let found =
                    replica::check(self, today).context("checking the replica before the first step")?;
                self.folder.write_note(replica::NOTE, &found)?;
                found
            }
        };
        hone_report::replica::text(&found).lines().for_each(|line| self.progress.line(line));
        let unlike = match found.is_like() {
            false => Some(hone_report::replica::difference(&found)),
            true => today.doubts.waits.then(|| hone_report::replica::waits(&today.topic)),
        };
        match unlike.filter(|_| !self.asked.unlike) {
            Some(why) => Err(Unlike(why).into()),
            None => Ok(Some(found)),
        }
    }

    fn proof(&self, steps: Vec<ProofStep>, kept: Workload, replica: Option<Replica>) -> Result<Proof> {
        let first = steps.iter().find_map(|step| step.comparison.as_ref()?.pairs.first());
        let first = first
            .filter(|pair| !pair.window_a.is_empty())
            .map(|pair| read_record::<Window>(&self.folder.join(&pair.window_a)))
            .transpose()?;
        let software = first.iter().flat_map(|window| &window.client);
        let broker = first.iter().filter_map(|window| window.environment.as_ref()?.broker_software.clone());
        Ok(Proof {
            target: self.asked.target.clone(),
            load: self.asked.load.clone(),
            workload: self.asked.workload.clone(),
            kept,
            replica,
            durability: self.asked.comparison.durability(&self.asked.workload),
            rule: self.asked.rule(),
            steps,
            limits: self.asked.limits.clone(),
            machine: hone_host::observe::machine(Path::new("/")),
            software: software
                .map(|client| ("client".to_owned(), client.software.clone()))
                .chain(broker.map(|broker| ("broker".to_owned(), broker)))
                .collect::<BTreeMap<_, _>>(),
        })
    }

    fn step(&self, index: usize, step: &Step, loads: [&Workload; 2]) -> Result<ProofStep> {
        let changes = step.changes(&loads[0].engine)?;
        let found = ProofStep {
            change: step.text.clone(),
            words: step.words(&loads[0].engine)?,
            decision: Decision::Rejected,
            why: String::new(),
            promise: promise(&changes),
            guards: Vec::new(),
            comparison: None,
            before: BatchState::default(),
            after: BatchState::default(),
            foretold: step.foretold.clone(),
        };
        if loads[0] == loads[1] {
            let why = "nothing would change: the load has this value already, or it is the client's default"
                .to_owned();
            return Ok(ProofStep { why, ..found });
        }
        let single = match &changes[..] {
            [one] => Some(one.clone()),
            _ => None,
        };
        // The check before the run did not know which earlier steps would be kept.
        let design = match hone_compare::plan(&self.asked.plan(loads)) {
            Ok(design) => design,
            Err(error) => {
                let why = format!("on top of the kept steps it can't be judged: {error}");
                return Ok(ProofStep { why, ..found });
            }
        };
        let prefix = format!("steps/{:02}/", index + 1);
        let contest = Contest {
            names: ["kept".to_owned(), step.text.clone()],
            builds: [
                vec![self.asked.arm("kept", self.security)?],
                vec![self.asked.arm("step", self.security)?],
            ],
            fresh_programs: false,
            workloads: loads.map(Clone::clone),
            most_saved: None,
            change: single,
            sets: Default::default(),
            design,
            pilot: None,
            clock: None,
            storage: self.asked.comparison.storage.clone(),
            lateness_limit_us: self.asked.comparison.lateness_limit_us,
            topic: Topic::Named { prefix: self.asked.topic_prefix.clone(), keep: self.asked.keep_topics },
            folder: self.folder,
            prefix,
            runner: self.runner,
            machine: hone_host::observe::machine(Path::new("/")),
        };
        match compare(&contest, self.progress) {
            Ok(comparison) => self.judged(found, comparison, loads),
            Err(error) => match not_to_be_had(&error) {
                Some(why) => Ok(ProofStep { why, ..found }),
                None if error.is::<GaveUp>() => Err(error.context(
                    "the target does not sustain the load in the state before this step, so nothing can be \
                     compared with it; lower --rate (hone load --find-capacity measures the capacity)",
                )),
                None => Err(error),
            },
        }
    }

    fn judged(&self, found: ProofStep, comparison: Comparison, loads: [&Workload; 2]) -> Result<ProofStep> {
        let [before, after] = windows(self.folder, &comparison)?;
        let states = [BatchState::from_windows(&before), BatchState::from_windows(&after)];
        let records_per_s = loads[1].requests_per_s * f64::from(loads[1].records_per_batch);
        let mut guards = guards(&states, records_per_s);
        guards.extend(found.foretold.as_ref().and_then(|said| said.guard(&states[0], &states[1])));
        guards.extend(self.asked.rules()?.iter().map(|rule| required(rule, &after)));
        let (decision, why) = decide(&comparison, &guards);
        let [before, after] = states;
        Ok(ProofStep { decision, why, guards, comparison: Some(comparison), before, after, ..found })
    }

    /// Only once, however often a run is resumed.
    fn enter_in_ledger(&self, index: usize, step: &ProofStep) -> Result<()> {
        let note = format!("steps/{:02}/ledger.json", index + 1);
        let entry = |run: &str| of_step(self.asked, step, run);
        ledger::enter_once(self.folder, &note, step.comparison.as_ref(), entry, self.progress)
    }
}

/// The ledger entry of a step, without the hashes of its windows.
fn of_step(asked: &ProofSettings, step: &ProofStep, run: &str) -> LedgerEntry {
    let verb = if asked.is_card { "batch caching" } else { "batch prove" };
    LedgerEntry {
        experiment: format!("{verb} {}", asked.target),
        ..hone_document::entries::proof::entry_of(verb, step, &asked.rule(), run)
    }
}
