//! The loop of `hone tune`: measure, choose, test, keep or roll back. It ends when no change has an expected gain, or when the
//! budget is used up.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result};
use hone_compare::{FEWEST_PAIRS, Plan, control_differs};
use hone_jvm::advice::Advice;
use hone_load::{Admin, Security, Topic};
use hone_record::{
    BatchState, Comparison, Decision, LedgerEntry, Machine, Mode, PairKind, PairOutcome, ProofStep, Together,
    Tuning, TuningStep, Window, Workload,
};
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

use super::broker_settings::with_kept;
use super::candidate::{Candidate, family};
use super::lasting;
use super::propose::{BrokerSettings, Costs, LEAST_HOPE, Lax, Seen, propose};
use super::rank::{Ranked, below_the_ceiling, ranked};
use super::settings::{TuneSettings, turns};
use super::side::{Base, Side};
use hone_document::entries::tuning::{About, REPLACED, closing, of_all, of_among, of_step};
use hone_experiment::arm::{self, Place};
use hone_experiment::decide::{
    Terms, broken_by, decide, fixed, guards, guards_of_a_climb, not_to_be_had, required, windows,
};
use hone_experiment::drive::{
    Clock, Contest, GaveUp, compare, fixed_before, in_one_line, measure_pairs, refused_arm,
};
use hone_experiment::folder::{RunFolder, read_record};
use hone_experiment::ledger;
use hone_experiment::progress::Progress;
use hone_experiment::topics::{Topics, looked_after};

/// Pairs of equal arms, before anything is changed.
pub(super) const PILOT_PAIRS: u32 = 5;
/// Number of the next candidates that the record lists.
const PASSED_OVER: usize = 3;
/// The context of an error when the pilot gives up. An interruption has its own text.
const NOT_STOOD: &str = "the target does not sustain the load in its original state, so nothing can be \
     compared with it; lower requests_per_s of the workload (hone load --find-capacity measures the \
     capacity)";
/// A rejected change is tried again, after another one was kept, if its expected gain is larger by this factor.
const AGAIN: f64 = 2.0;
/// Why a change has no effect.
const IDLE: &str = "the state has this value already, or the value is the default";
/// The note for a first look of which neighbours disturbed every pair.
const DISTURBED_LOOK: &str = "Neighbours disturbed every pair of the first look. Hone used its figures all \
     the same, since a first look compares nothing. Candidates that Hone derived from them are less certain.";
/// The note for a first look without any usable window.
const NO_LOOK: &str = "Every window of the first look was excluded. Hone has no figures of the service and \
     derived no candidates from them.";
/// Margin on top of the longest trial so far.
const RESERVE: f64 = 1.05;

/// A run.
pub struct Session<'a> {
    /// The settings.
    pub asked: &'a TuneSettings,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// TLS and login.
    pub security: &'a Security,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// Where progress is shown.
    pub progress: &'a Progress,
    /// What is changed.
    pub base: Base,
    /// The start of this attempt, builds included.
    pub begun: Instant,
    /// Seconds that earlier attempts took.
    pub earlier_s: f64,
}

/// The next candidate. It is written to the disk before its first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chosen {
    candidate: Candidate,
    /// The figures behind its rank.
    #[serde(default)]
    reason: String,
    passed_over: Vec<String>,
}

/// The state of a run.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Kept changes, in the order in which they were accepted.
    pub(super) kept: Vec<Candidate>,
    pub(super) steps: Vec<TuningStep>,
    candidates: Vec<Candidate>,
    /// Figures of the states that were measured.
    states: Vec<BatchState>,
    /// The figures of the current state, with which the next ones are compared.
    now: BatchState,
    /// Duration of the longest comparison so far in seconds, converted to concurrent windows.
    longest_s: f64,
    /// Candidates without effect on the state, which are not tried.
    idle: Vec<String>,
    /// Candidates that can't be combined with the changes that were kept at that time, each with the reason.
    impossible: Vec<(String, String)>,
    /// A note about the first look.
    look: Option<&'static str>,
    /// The broker's own settings in its original state.
    broker: BrokerSettings,
}

impl TuneSettings {
    /// What is changed.
    ///
    /// # Errors
    /// When the place is neither an address nor a command that can be started.
    pub fn base(&self, security: &Security) -> Result<Base> {
        let place = self.comparison.place(&self.place)?;
        Ok(Base {
            place,
            workload: self.workload.clone(),
            host_root: self.host_root.clone(),
            security: security.clone(),
            metrics: self.metrics.clone(),
            found: BTreeMap::new(),
        })
    }

    /// Checks before anything is built or started: the side of each change, and whether the windows can give the metrics that are
    /// needed.
    ///
    /// # Errors
    /// With the candidate that causes it.
    pub fn check_all(&self, security: &Security) -> Result<()> {
        let asked = self.with_stand_in()?;
        let base = asked.base(security)?;
        base.check(&asked.candidates)?;
        base.check_host(&asked.candidates)?;
        let first = base.with([])?;
        hone_compare::pilot(&asked.pilot_plan(&first))?;
        hone_compare::plan(&asked.plan([&first, &first]))?;
        for candidate in &asked.candidates {
            hone_compare::plan(&asked.plan([&first, &base.with([candidate])?]))
                .with_context(|| format!("candidate `{}`", candidate.name))?;
        }
        Ok(())
    }

    /// A setting that both sides share can't have two values at once.
    pub(super) fn mode_of(&self, sides: [&Side; 2]) -> Mode {
        let outside =
            sides.iter().any(|side| !side.sets.is_empty() || matches!(side.place, Place::Address(_)));
        if outside { Mode::Solo } else { self.mode }
    }

    fn pilot_plan(&self, side: &Side) -> Plan {
        Plan {
            pairs: PILOT_PAIRS,
            pilot_pairs: PILOT_PAIRS,
            control_pairs: PILOT_PAIRS,
            ..self.plan([side, side])
        }
    }

    /// The design of a trial.
    fn plan(&self, sides: [&Side; 2]) -> Plan {
        let mode = self.mode_of(sides);
        let is_started = sides.iter().all(|side| matches!(side.place, Place::Program(_)));
        let pairs = [self.pairs, self.control_pairs];
        Plan {
            refused: arm::refused(&sides.map(|side| side.workload.clone()), is_started),
            reserve: self.reserve,
            effect: Some(self.effect.ratio()),
            busy: self.metrics.are_read(),
            ..self.comparison.plan(mode, self.objective, pairs, &self.workload)
        }
    }

    /// The rule by which a change is kept.
    pub fn rule(&self) -> String {
        let terms = Terms {
            primary: self.objective,
            guards: &self.comparison.guards,
            require: &self.require,
            pairs: self.pairs,
            control_pairs: self.control_pairs,
        };
        format!(
            "A change is kept when {} Every other change is rolled back. A comparison is measured once more, \
             completely, if neighbours left fewer than {FEWEST_PAIRS} pairs of a kind, or if its A/A pairs \
             differ. This needs enough budget, and the second result then counts. {} At the end, if two or \
             more changes were accepted, Hone re-tests them with each one removed in turn. A change is \
             rolled back if it makes the others worse, breaks a guard metric that holds without it, or \
             overloads the target in combination. The worst one goes first, and the others are re-tested. \
             Then Hone compares the rest with the original state by the same rule. If the rest is not \
             accepted, Hone rolls back the change that is worth least and re-tests the others.{}",
            terms.words(""),
            if self.durability {
                "Changes of the durability guarantee were allowed."
            } else {
                "Hone tries no change of the durability guarantee."
            },
            self.forbidden_in_words().map(|words| format!(" {words}")).unwrap_or_default()
        )
    }

    /// The tightest latency that a rule allows, in milliseconds.
    pub(super) fn latency_limit_ms(&self) -> Result<Option<f64>> {
        let rules = self.rules()?;
        let promised = self.workload.climb().map(|climb| climb.slo.latency_us);
        let limits =
            rules.iter().filter_map(hone_experiment::require::Rule::latency_limit_us).chain(promised);
        Ok(limits.reduce(f64::min).map(|us| us / 1e3))
    }
}

impl Session<'_> {
    /// Runs the tuning. An interrupted run continues after its last pair.
    ///
    /// # Errors
    /// When the target fails in a kept state, another part of the system fails, or the user interrupts.
    pub fn run(&self) -> Result<Tuning> {
        // The rule is written before the first window, so that it can't follow from the results.
        fixed(self.folder, &self.asked.rule())?;
        let topics = match &self.base.place {
            Place::Address(address) => {
                Some(Topics { address: address.clone(), prefix: self.asked.topic_prefix.clone() })
            }
            // The topics disappear with the broker.
            Place::Program(_) => None,
        };
        looked_after(self.folder, topics.as_ref(), self.security, self.progress, || self.tuned())
    }

    fn tuned(&self) -> Result<Tuning> {
        let mut standing = Standing { candidates: self.asked.candidates.clone(), ..Standing::default() };
        let first = self.pilot(&mut standing)?;
        self.leave_out_idle(&mut standing)?;
        let stopped = self.steps(&mut standing)?;
        let together = self.together(&mut standing)?;
        self.tuning(standing, together, first.as_ref(), stopped)
    }

    /// Measures equal arms. This gives the figures of the original state, the duration of a pair, and whether the target sustains
    /// the load.
    fn pilot(&self, standing: &mut Standing) -> Result<Option<Window>> {
        let side = self.base.with([])?;
        let contest = Contest {
            design: hone_compare::pilot(&self.asked.pilot_plan(&side))?,
            prefix: "pilot/".to_owned(),
            ..self.contest(["now", "now"], [&side, &side])?
        };
        self.progress.line("measuring the target in its original state");
        fixed_before(self.folder, "pilot/design.json", &contest.design)?;
        let pairs = measure_pairs(&contest, self.progress, |_, _, _| true)
            .map_err(|error| if error.is::<GaveUp>() { error.context(NOT_STOOD) } else { error })?
            .pairs;
        let (seen, look) = looked_at(&pairs);
        look.iter().for_each(|words| self.progress.line(words));
        standing.look = look;
        let found: Vec<Window> = seen
            .into_iter()
            .flat_map(|pair| [&pair.window_a, &pair.window_b])
            .map(|name| read_record(&self.folder.join(name)))
            .collect::<Result<_>>()?;
        let pair_s = took_s(&pairs) / pairs.len().max(1) as f64;
        let trial_pairs = f64::from(self.asked.pairs) + f64::from(self.asked.control_pairs);
        standing.longest_s = pair_s * trial_pairs / turns(contest.design.mode);
        standing.broker = self.broker_settings();
        standing.now = BatchState::from_windows(&found);
        standing.states.push(standing.now.clone());
        let candidates = std::mem::take(&mut standing.candidates).into_iter();
        standing.candidates = candidates.map(|one| below_the_ceiling(one, &standing.now)).collect();
        let one_s = standing.comparison_s(self.asked.mode_of([&side, &side]));
        self.progress.line(&format!("  testing a change takes about {} here", hone_format::duration(one_s)));
        Ok(found.into_iter().next())
    }

    /// Tries one change after the other. Returns the reason for the end.
    fn steps(&self, standing: &mut Standing) -> Result<String> {
        let mut index = 0;
        loop {
            let note = format!("steps/{:02}/step.json", index + 1);
            let chosen = match self.chosen(index, standing)? {
                Ok(chosen) => chosen,
                Err(stopped) => return Ok(stopped),
            };
            let found = match self.folder.read_note::<TuningStep>(&note)? {
                Some(found) => found,
                None => {
                    let found = self.tried(index, &chosen, standing)?;
                    self.folder.write_note(&note, &found)?;
                    self.progress.line(&format!("  {}: {}", found.step.outcome(), found.step.why));
                    found
                }
            };
            let place = format!("steps/{:02}", index + 1);
            self.enter_step(&place, index + 1, &found)?;
            let by = chosen.candidate.name.clone();
            let mut replaced = standing.take(chosen.candidate, found);
            replaced.extend(self.base.overtaken(&mut standing.kept)?);
            for (number, candidate) in replaced.iter().enumerate() {
                let place = format!("{place}/replaced-{:02}", number + 1);
                let why = match candidate.name == by {
                    true => "with it, the state is the original one again".to_owned(),
                    false => format!("{by} replaces it"),
                };
                self.enter_closing(&place, candidate, REPLACED, &why, None)?;
            }
            index += 1;
        }
    }

    /// The next candidate, or the reason for the end. A choice of an earlier attempt stays.
    fn chosen(&self, index: usize, standing: &mut Standing) -> Result<std::result::Result<Chosen, String>> {
        let note = format!("steps/{:02}/chosen.json", index + 1);
        if let Some(chosen) = self.folder.read_note::<Chosen>(&note)? {
            return Ok(Ok(chosen));
        }
        // An attempt with a used-up budget stays ended: a resumed run has the same budget.
        let over = format!("steps/{:02}/over.json", index + 1);
        if let Some(stopped) = self.folder.read_note::<String>(&over)? {
            return Ok(Err(stopped));
        }
        let side = self.base.with(&standing.kept)?;
        let mut open = Vec::new();
        for candidate in standing.open(self.found(standing, &side.workload)?) {
            let after = match self.beside(standing, &candidate) {
                Ok(after) => after,
                Err(why) => {
                    self.tell_impossible(standing, &candidate, &why);
                    continue;
                }
            };
            if after == side {
                self.tell_idle(standing, &candidate);
                continue;
            }
            // A setting outside of the target takes twice the time in a duet, because it can't have two
            // values at once.
            open.push((candidate, standing.comparison_s(self.asked.mode_of([&side, &after]))));
        }
        let mut open = ranked(open);
        if open.is_empty() {
            return Ok(Err("no candidate with an expected gain is left".to_owned()));
        }
        let best = open.remove(0);
        if let Some(left_s) = self.left_s() {
            let needed_s = best.cost_s * (1.0 + standing.comparisons_behind());
            if left_s < needed_s {
                let stopped = format!(
                    "the budget is too short: {} is left, and `{}` with its re-tests would take about {}",
                    hone_format::duration(left_s.max(0.0).round()),
                    best.candidate.name,
                    hone_format::duration(needed_s.round())
                );
                self.folder.write_note(&over, &stopped)?;
                return Ok(Err(stopped));
            }
        }
        let passed_over = open.iter().take(PASSED_OVER).map(Ranked::words).collect();
        let chosen = Chosen { reason: best.reason(), candidate: best.candidate, passed_over };
        self.folder.write_note(&note, &chosen)?;
        Ok(Ok(chosen))
    }

    /// The kept changes with one more.
    ///
    /// # Errors
    /// When it can't be combined with them. It is possible alone.
    fn beside(&self, standing: &Standing, candidate: &Candidate) -> Result<Side> {
        let after = self.base.with(standing.kept.iter().chain([candidate]))?;
        hone_load::check(&after.workload)?;
        Ok(after)
    }

    /// Reported once per change. It may become possible after a later change.
    fn tell_impossible(&self, standing: &mut Standing, candidate: &Candidate, why: &anyhow::Error) {
        if !standing.impossible.iter().any(|(name, _)| *name == candidate.name) {
            let why = in_one_line(why);
            self.progress.line(&format!("{} can't be combined with the kept changes: {why}", candidate.name));
            standing.impossible.push((candidate.name.clone(), why));
        }
    }

    /// Leaves out changes of the file that the original state has already. After another value they would only restore the
    /// original.
    fn leave_out_idle(&self, standing: &mut Standing) -> Result<()> {
        let first = self.base.with([])?;
        let mut open = Vec::new();
        for candidate in std::mem::take(&mut standing.candidates) {
            match self.base.with([&candidate])? == first {
                true => self.tell_idle(standing, &candidate),
                false => open.push(candidate),
            }
        }
        standing.candidates = open;
        Ok(())
    }

    /// Reported once per change.
    fn tell_idle(&self, standing: &mut Standing, candidate: &Candidate) {
        if !standing.idle.contains(&candidate.name) {
            self.progress.line(&format!("{} has no effect: {IDLE}", candidate.name));
            standing.idle.push(candidate.name.clone());
        }
    }

    /// Seconds of the budget that are left.
    fn left_s(&self) -> Option<f64> {
        Some(self.asked.budget_s? - self.earlier_s - self.begun.elapsed().as_secs_f64())
    }

    /// Whether the budget lasts for one more comparison.
    pub(super) fn reaches(&self, standing: &Standing, trial: &Trial<'_>) -> bool {
        let needed_s = standing.comparison_s(self.asked.mode_of(trial.sides));
        self.left_s().is_none_or(|left_s| left_s >= needed_s)
    }

    /// Candidates that Hone itself derives.
    fn found(&self, standing: &Standing, workload: &Workload) -> Result<Vec<Candidate>> {
        if !self.asked.find {
            return Ok(Vec::new());
        }
        let broker = with_kept(&standing.broker, &standing.kept);
        let machine = hone_host::observe::machine(Path::new("/"));
        let lax = self.asked.durability.then(|| Lax { caches: self.knows_write_caching() });
        let of_jvm = self.advice_of_jvm(&machine);
        let seen = Seen {
            state: &standing.now,
            workload,
            costs: Costs::from_states(&standing.states),
            latency_limit_ms: self.asked.latency_limit_ms()?,
            broker: &broker,
            cores: machine.cores,
            lax,
            jvm: &of_jvm,
        };
        let found = propose(&seen, &self.asked.allowed);
        Ok(found.into_iter().filter(|candidate| self.asked.may_try(candidate)).collect())
    }

    /// What the command line of a Java service calls for on this machine.
    fn advice_of_jvm(&self, machine: &Machine) -> Vec<Advice> {
        let Place::Program(program) = &self.base.place else { return Vec::new() };
        hone_experiment::jvm::advice_for(program, machine.cores, machine.memory_bytes)
    }

    /// Whether the broker supports write caching and has it off by default. The embedded broker is known by its name, a running
    /// one by its answer.
    fn knows_write_caching(&self) -> bool {
        const PROPERTY: &str = "write_caching_default";
        match &self.base.place {
            Place::Program(program) => {
                let name = program.path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
                let says = |word: &str| program.args.iter().any(|arg| arg.contains(word));
                let has_it =
                    ["hone-broker", "redpanda"].contains(&name) || (name == "hone" && says("broker"));
                has_it && !says(PROPERTY) && !says("--memory")
            }
            Place::Address(address) => {
                let seen = Admin::connect_with(address, self.security)
                    .and_then(|mut admin| admin.cluster_setting(PROPERTY));
                seen.is_ok_and(|seen| seen.in_force.iter().all(|(_, value)| value == "false"))
            }
        }
    }

    fn tried(&self, index: usize, chosen: &Chosen, standing: &Standing) -> Result<TuningStep> {
        let candidate = &chosen.candidate;
        let reason = match &*chosen.reason {
            "" => String::new(),
            reason => format!("; {reason}"),
        };
        self.progress.line(&format!(
            "Step {}: {} ({}{reason})",
            index + 1,
            candidate.name,
            candidate.hope.why
        ));
        let before = self.base.with(&standing.kept)?;
        let after = self.base.with(standing.kept.iter().chain([candidate]))?;
        let words = candidate.words(&before.workload.engine)?;
        let trial = Trial {
            prefix: format!("steps/{:02}/", index + 1),
            names: ["kept", &candidate.name],
            sides: [&before, &after],
            question: Question::Step,
        };
        let found = self.judged(&trial)?;
        Ok(TuningStep {
            altitude: candidate.altitude,
            hope: candidate.hope.clone(),
            passed_over: chosen.passed_over.clone(),
            step: ProofStep { words, promise: candidate.promise(&before.workload.engine)?, ..found },
        })
    }

    fn contest<'b>(&'b self, names: [&str; 2], sides: [&Side; 2]) -> Result<Contest<'b>> {
        let arm = |side: usize| vec![self.base.arm(names[side], sides[side])];
        Ok(Contest {
            names: names.map(str::to_owned),
            builds: [arm(0), arm(1)],
            fresh_programs: true,
            workloads: sides.map(|side| side.workload.clone()),
            most_saved: None,
            change: None,
            sets: sides.map(|side| side.sets.clone()),
            design: hone_compare::plan(&self.asked.plan(sides))?,
            pilot: None,
            clock: self.asked.budget_s.map(|total_s| Clock {
                total_s,
                earlier_s: self.earlier_s,
                started: self.begun,
                for_the_reserve: true,
            }),
            storage: self.asked.comparison.storage.clone(),
            lateness_limit_us: self.asked.comparison.lateness_limit_us,
            topic: Topic::Named { prefix: self.asked.topic_prefix.clone(), keep: false },
            folder: self.folder,
            prefix: String::new(),
            runner: self.runner,
            machine: hone_host::observe::machine(Path::new("/")),
        })
    }

    /// Measures the pairs of a trial that are missing, and judges it.
    pub(super) fn judged(&self, trial: &Trial<'_>) -> Result<ProofStep> {
        let [before, after] = trial.sides;
        let found = ProofStep {
            change: trial.names[1].to_owned(),
            words: Vec::new(),
            decision: Decision::Rejected,
            why: String::new(),
            promise: None,
            guards: Vec::new(),
            comparison: None,
            before: BatchState::default(),
            after: BatchState::default(),
            foretold: None,
        };
        if before == after {
            return Ok(ProofStep { why: format!("nothing would change: {IDLE}"), ..found });
        }
        let comparison = match self.compared(trial) {
            Ok(comparison) => comparison,
            Err(error) => {
                let (decision, why) = answered(error, trial.question)?;
                return Ok(ProofStep { decision, why, ..found });
            }
        };
        let states = windows(self.folder, &comparison)?;
        let rate = after.workload.requests_per_s * f64::from(after.workload.records_per_batch);
        let summed = [BatchState::from_windows(&states[0]), BatchState::from_windows(&states[1])];
        let mut rails = match after.workload.climb() {
            Some(_) => guards_of_a_climb(&summed),
            None => guards(&summed, rate),
        };
        rails.extend(self.asked.rules()?.iter().map(|rule| match trial.question {
            Question::Among => broken_by(required(rule, &states[0]), required(rule, &states[1])),
            Question::Step | Question::Together => required(rule, &states[1]),
        }));
        let (decision, why) = decide(&comparison, &rails);
        let [before, after] = summed;
        Ok(ProofStep { decision, why, guards: rails, comparison: Some(comparison), before, after, ..found })
    }

    /// The result of a trial. It is the second one if neighbours left too few pairs, or if the A/A pairs differed.
    fn compared(&self, trial: &Trial<'_>) -> Result<Comparison> {
        let contest = |prefix: String| -> Result<Contest<'_>> {
            Ok(Contest { prefix, ..self.contest(trial.names, trial.sides)? })
        };
        let first = compare(&contest(trial.prefix.clone())?, self.progress)?;
        let again = format!("{}again/", trial.prefix);
        let is_begun = self.folder.join(format!("{again}design.json")).exists();
        let reaches = self.left_s().is_none_or(|left_s| left_s >= took_s(&first.pairs));
        let Some(why) = why_again(&first).filter(|_| is_begun || reaches) else { return Ok(first) };
        self.progress.line(&format!("  {why}: measuring the comparison again"));
        compare(&contest(again)?, self.progress)
    }

    fn enter_step(&self, place: &str, number: usize, step: &TuningStep) -> Result<()> {
        let of = step.step.comparison.as_ref();
        self.enter(place, of, |about| of_step(about, number, step))
    }

    /// All together, against the first state.
    pub(super) fn enter_all(&self, place: &str, step: &ProofStep) -> Result<()> {
        self.enter(place.trim_end_matches('/'), step.comparison.as_ref(), |about| of_all(about, step))
    }

    /// All kept changes, compared with all except for this one.
    pub(super) fn enter_among(&self, place: &str, candidate: &Candidate, step: &ProofStep) -> Result<()> {
        let change = format!("{}: {}", candidate.altitude.label(), candidate.name);
        let place = place.trim_end_matches('/');
        self.enter(place, step.comparison.as_ref(), |about| of_among(about, &change, step))
    }

    /// Records that an accepted change is not kept any more.
    pub(super) fn enter_closing(
        &self,
        place: &str,
        candidate: &Candidate,
        decision: &str,
        why: &str,
        step: Option<&ProofStep>,
    ) -> Result<()> {
        let of = step.and_then(|step| step.comparison.as_ref());
        let change = format!("{}: {}", candidate.altitude.label(), candidate.name);
        self.enter(place, of, |about| closing(about, &change, decision, why, step))
    }

    /// Only once, however often a run is resumed.
    fn enter(
        &self,
        place: &str,
        comparison: Option<&Comparison>,
        entry: impl FnOnce(&About<'_>) -> LedgerEntry,
    ) -> Result<()> {
        let rule = self.asked.rule();
        let entry = |run: &str| {
            let (name, workload) = (&*self.asked.name, &*self.asked.workload.name);
            entry(&About { name, workload, objective: self.asked.objective, rule: &rule, run })
        };
        ledger::enter_once(self.folder, &format!("{place}/ledger.json"), comparison, entry, self.progress)
    }

    fn tuning(
        &self,
        standing: Standing,
        together: Option<Together>,
        first: Option<&Window>,
        stopped: String,
    ) -> Result<Tuning> {
        let side = self.base.with(&standing.kept)?;
        let noted = standing.noted();
        let makes_wait = standing.kept.iter().any(makes_records_wait);
        let clients = first.into_iter().flat_map(|window| &window.client);
        let broker = first.and_then(|window| window.environment.as_ref()?.broker_software.clone());
        let software: BTreeMap<String, String> = clients
            .map(|client| ("client".to_owned(), client.software.clone()))
            .chain(broker.map(|broker| ("broker".to_owned(), broker)))
            .collect();
        let to_keep = lasting::to_keep(&standing.kept, &self.base.workload.engine, self.folder)?;
        Ok(Tuning {
            name: self.asked.name.clone(),
            target: self.asked.target.clone(),
            load: load_in_words(&self.asked.workload),
            workload: self.asked.workload.clone(),
            workload_kept: side.workload,
            kept: standing.kept.into_iter().map(|candidate| candidate.name).collect(),
            objective: self.asked.objective,
            durability: self.asked.comparison.durability(&self.asked.workload),
            rule: self.asked.rule(),
            allowed: self.asked.allowed.clone(),
            budget_s: self.asked.budget_s,
            core_price: self.asked.core_price.clone(),
            took_s: self.earlier_s + self.begun.elapsed().as_secs_f64(),
            first: standing.states.into_iter().next().unwrap_or_default(),
            steps: standing.steps,
            together,
            stopped,
            to_keep,
            limits: limits(self.asked, &noted, makes_wait),
            machine: hone_host::observe::machine(Path::new("/")),
            software,
        })
    }
}

/// Why a comparison is measured again. It does not look at the results of A/B pairs, so that the second measurement is not
/// biased.
fn why_again(comparison: &Comparison) -> Option<&'static str> {
    if is_spoilt(&comparison.pairs) {
        return Some("neighbours left too few pairs");
    }
    let is_mute = comparison.primary().is_some_and(|found| control_differs(&comparison.design.rule, found));
    is_mute.then_some("the A/A pairs differ, so no verdict is possible")
}

/// Whether neighbours left too few pairs for an estimate, or too few A/A pairs for its control, of enough that were measured. It
/// only counts pairs and does not look at their results, so that a second measurement is not biased.
fn is_spoilt(pairs: &[PairOutcome]) -> bool {
    let fewest = FEWEST_PAIRS as usize;
    [PairKind::Test, PairKind::Control].into_iter().any(|kind| {
        let of_kind = || pairs.iter().filter(move |pair| pair.kind == kind);
        let counted = of_kind().filter(|pair| pair.dropped.is_none()).count();
        // A failure of the arm itself would repeat, and counts as a result.
        let disturbed = of_kind().filter(|pair| is_disturbed(pair));
        counted < fewest && counted + disturbed.count() >= fewest
    })
}

/// Whether neighbours alone are the reason to exclude a pair: no arm failed, and no generator fell behind.
fn is_disturbed(pair: &PairOutcome) -> bool {
    pair.dropped.is_some() && pair.troubles.iter().all(Vec::is_empty) && pair.late == [false, false]
}

/// The usable pairs of the first look, with a note about them: the valid ones, or else those that only neighbours disturbed. The
/// first look compares nothing, so they can't bias a result. Without any figures Hone could not derive candidates.
fn looked_at(pairs: &[PairOutcome]) -> (Vec<&PairOutcome>, Option<&'static str>) {
    let of = |wanted: fn(&PairOutcome) -> bool| pairs.iter().filter(|pair| wanted(pair)).collect::<Vec<_>>();
    let counted = of(|pair| pair.dropped.is_none());
    if !counted.is_empty() {
        return (counted, None);
    }
    let disturbed = of(is_disturbed);
    let words = if disturbed.is_empty() { NO_LOOK } else { DISTURBED_LOOK };
    (disturbed, Some(words))
}

/// Two states to compare.
pub(super) struct Trial<'a> {
    /// Prefix of its files in the folder.
    pub(super) prefix: String,
    pub(super) names: [&'a str; 2],
    pub(super) sides: [&'a Side; 2],
    pub(super) question: Question,
}

/// The question of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// Does a change help on top of the kept ones?
    Step,
    /// Does a kept change still help in combination with the others?
    Among,
    /// Do all kept changes together help?
    Together,
}

/// Interprets an arm that can't be applied or fails repeatedly. In a step it is an error if the kept state fails, since no
/// verdict is possible. At the end the failing arm is the state without a change, which is the best reason to keep it.
fn answered(error: anyhow::Error, question: Question) -> Result<(Decision, String)> {
    if let Some(why) = not_to_be_had(&error) {
        return Ok((Decision::Rejected, why));
    }
    let (is_step, told) = (question == Question::Step, in_one_line(&error));
    let found = match (refused_arm(&error), error.downcast_ref::<GaveUp>()) {
        (Some(_), _) if question == Question::Among => {
            (Decision::Accepted, format!("without it the others can't be applied: {told}"))
        }
        (_, Some(GaveUp { late: Some(_), .. })) if !is_step => {
            (Decision::Accepted, format!("without it the client falls behind its schedule: {told}"))
        }
        (_, Some(GaveUp { of_a: true, .. })) if !is_step => {
            (Decision::Accepted, format!("without it the target does not sustain the load: {error:#}"))
        }
        _ => return Err(error),
    };
    Ok(found)
}

/// Seconds that the pairs in a run's folder took, including those of unfinished steps.
pub fn pairs_s(folder: &Path) -> f64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let below = entries.map(|entry| {
        let (path, is_folder) = (entry.path(), entry.file_type().is_ok_and(|kind| kind.is_dir()));
        match (is_folder, entry.file_name().to_str()) {
            (true, Some("builds" | "logs" | "scratch" | "windows")) => 0.0,
            (true, _) => pairs_s(&path),
            (false, _) if folder.ends_with("pairs") => pair_s(&path),
            (false, _) => 0.0,
        }
    });
    below.sum()
}

/// An unreadable note is reported when the run reads it for its results.
fn pair_s(note: &Path) -> f64 {
    let text = std::fs::read_to_string(note).unwrap_or_default();
    serde_json::from_str::<PairOutcome>(&text).map_or(0.0, |pair| pair.took_s)
}

impl Standing {
    /// Returns the kept changes that it replaces.
    fn take(&mut self, candidate: Candidate, found: TuningStep) -> Vec<Candidate> {
        if let Some(comparison) = &found.step.comparison {
            // Additional pairs are only measured if time is left, so they are not part of the estimate.
            let pair_s = took_s(&comparison.pairs) / comparison.pairs.len().max(1) as f64;
            let planned_s = pair_s * comparison.design.planned() as f64;
            self.longest_s = self.longest_s.max(planned_s / turns(comparison.design.mode));
        }
        if found.step.after.windows > 0 {
            self.states.push(found.step.after.clone());
        }
        let mut replaced = Vec::new();
        if found.step.decision == Decision::Accepted {
            self.now = found.step.after.clone();
            // A longer linger replaces a shorter one, and a build replaces another build.
            replaced.extend(self.kept.extract_if(.., |kept| candidate.takes_the_place_of(kept)));
            self.kept.push(candidate);
        }
        self.steps.push(found);
        replaced
    }

    /// Notes about the candidates that were not tried, and about the first look.
    fn noted(&self) -> Vec<String> {
        let idle = (!self.idle.is_empty()).then(|| {
            format!("Not tried, because they have no effect on the state: {} ({IDLE}).", self.idle.join("; "))
        });
        // A candidate that became possible later was tried.
        let tried = |name: &str| self.steps.iter().any(|step| step.step.change == name);
        let impossible = self.impossible.iter().filter(|(name, _)| !tried(name));
        let impossible = impossible.map(|(name, why)| {
            format!("Not tried, because it can't be combined with the kept changes: {name} ({why}).")
        });
        self.look.map(str::to_owned).into_iter().chain(idle).chain(impossible).collect()
    }

    /// Estimated duration of a comparison in seconds.
    fn comparison_s(&self, mode: Mode) -> f64 {
        self.longest_s * turns(mode) * RESERVE
    }

    /// Comparisons that follow if one more change is accepted: all with none, and all with all except for each one.
    fn comparisons_behind(&self) -> f64 {
        let accepted = self.steps.iter().filter(|step| step.step.decision == Decision::Accepted).count() + 1;
        let kept = self.kept.len() + 1;
        match (accepted, kept) {
            (..2, _) => 0.0,
            (_, ..2) => 1.0,
            _ => 1.0 + kept as f64,
        }
    }

    /// Candidates for the next trial, those of the file first, whatever their expected gain: neither kept nor tried in this
    /// state.
    fn open(&self, found: Vec<Candidate>) -> Vec<Candidate> {
        let mut all = self.candidates.clone();
        all.extend(
            found.into_iter().filter(|one| !self.candidates.iter().any(|named| named.name == one.name)),
        );
        all.retain(|candidate| !self.is_done(candidate));
        all
    }

    /// Whether it is kept, or was tried and there is no reason to try it again. The reason would be a change accepted since then
    /// that makes its expected gain much larger. After a rejected value, the next value of the same setting (a linger, say) is
    /// skipped in the same way.
    fn is_done(&self, candidate: &Candidate) -> bool {
        if self.kept.iter().any(|kept| kept.name == candidate.name) {
            return true;
        }
        let last = self.steps.iter().rposition(|step| step.step.decision == Decision::Accepted);
        let is_asked_for = self.candidates.contains(candidate);
        self.steps.iter().enumerate().any(|(index, step)| {
            let is_same = step.step.change == candidate.name;
            let is_of_family = !is_asked_for
                && step.step.decision == Decision::Rejected
                && self.place_of(&step.step.change) == candidate.place();
            // Without an expected gain, twice as much would be nothing.
            let again = (AGAIN * step.hope.share).max(LEAST_HOPE);
            let is_new = last.is_some_and(|last| last > index) && candidate.hope.share >= again;
            (is_same || is_of_family) && !is_new
        })
    }

    /// The setting that a tried change sets. For a change with several settings it is the change itself.
    fn place_of<'a>(&'a self, change: &'a str) -> &'a str {
        let named = self.candidates.iter().find(|candidate| candidate.name == change);
        named.map_or_else(|| family(change), Candidate::place)
    }
}

fn took_s(pairs: &[PairOutcome]) -> f64 {
    pairs.iter().map(|pair| pair.took_s).sum()
}

fn load_in_words(workload: &Workload) -> String {
    let climb = workload.climb().map(|climb| format!(", climbing until {} breaks", climb.slo.label()));
    format!(
        "{} records/s of {} by {} producers to {} partitions{}",
        hone_format::exact(workload.requests_per_s * f64::from(workload.records_per_batch)),
        hone_report::load::records_text(workload),
        workload.connections,
        workload.partitions,
        climb.unwrap_or_default()
    )
}

/// Whether a change can make a record wait for others.
fn makes_records_wait(change: &Candidate) -> bool {
    change.names().iter().any(|name| ["linger", "batch"].iter().any(|word| name.contains(word)))
}

fn limits(asked: &TuneSettings, noted: &[String], makes_wait: bool) -> Vec<String> {
    let mut limits = vec![
        "Hone tries candidates from the file and from a few rules about batches, codecs and requests; other \
         changes may help, too. A rejected change was worse or inconclusive under this load on this machine."
            .to_owned(),
    ];
    if makes_wait {
        limits.push(
            "The load is open loop: it does not wait for answers. A producer that waits for each answer \
             gains nothing from a longer linger, and each of its records waits longer. Before you apply such \
             a change, check that `hone batch xray` finds no SYNC_SENDER in your topics."
                .to_owned(),
        );
    }
    limits.extend(asked.not_built.clone());
    limits.extend_from_slice(noted);
    if asked.mode == Mode::Duet {
        limits.push(
            "Both states ran at the same time, each on half of the machine: differences are valid, but \
             latencies are those of half a machine."
                .to_owned(),
        );
    }
    limits
}

#[cfg(test)]
mod tests {
    use hone_record::{Altitude, Hope};

    use super::*;
    use hone_experiment::drive::refused_for_test;

    fn candidate(setting: &str, share: f64) -> Candidate {
        let hope = Hope::new(share, "");
        Candidate::of_settings(&[setting.to_owned()], hope).unwrap()
    }

    /// A tried candidate, by its setting, its expected gain and its result.
    fn tried(setting: &str, share: f64, decision: Decision) -> (Candidate, TuningStep) {
        let candidate = candidate(setting, share);
        let mut step = hone_experiment::fixture::proof().steps.remove(0);
        (step.change, step.decision) = (candidate.name.clone(), decision);
        let hope = candidate.hope.clone();
        (candidate, TuningStep { altitude: Altitude::Client, hope, passed_over: Vec::new(), step })
    }

    #[test]
    fn what_makes_records_wait_is_told_from_what_does_not() {
        for (setting, waits) in [
            ("linger=20ms", true),
            ("client.linger.ms=20", true),
            ("client.batch.num.messages=100", true),
            ("topic.compression.type=zstd", false),
            ("broker.num.io.threads=2", false),
        ] {
            assert_eq!(makes_records_wait(&candidate(setting, 0.1)), waits, "{setting}");
        }
    }

    fn after(steps: &[(&str, f64, Decision)]) -> Standing {
        let mut standing = Standing::default();
        for (setting, share, decision) in steps {
            let (candidate, step) = tried(setting, *share, *decision);
            standing.take(candidate, step);
        }
        standing
    }

    #[test]
    fn what_was_tried_comes_again_only_where_a_kept_change_made_it_twice_as_hopeful() {
        use Decision::{Accepted, Rejected};
        let is_done = |steps: &[_], setting: &str, share| after(steps).is_done(&candidate(setting, share));
        let rejected = ("linger=5ms", 0.1, Rejected);
        assert!(!is_done(&[], "linger=5ms", 0.1));
        assert!(is_done(&[rejected], "linger=5ms", 0.9), "no change was kept since");
        assert!(is_done(&[rejected], "linger=20ms", 0.9), "nor for another of its family");
        assert!(is_done(&[rejected, ("codec=lz4", 0.1, Accepted)], "linger=5ms", 0.19));
        assert!(!is_done(&[rejected, ("codec=lz4", 0.1, Accepted)], "linger=5ms", 0.2));
        // A change that replaced another one does not count as new.
        let replaced = [("linger=5ms", 0.1, Accepted), ("linger=20ms", 0.2, Accepted)];
        assert!(is_done(&replaced, "linger=5ms", 0.1));
        assert!(is_done(&replaced, "linger=20ms", 0.9), "kept");
        assert!(!is_done(&replaced, "linger=50ms", 0.1), "what helped calls for more of it");
    }

    /// Several settings in one candidate are not a value of the first setting.
    #[test]
    fn a_pair_that_was_rejected_keeps_no_single_setting_away() {
        let pair = "linger=5ms,batch-size=64KiB";
        let mut standing = after(&[(pair, 0.1, Decision::Rejected)]);
        standing.candidates.push(candidate(pair, 0.1));
        assert!(standing.is_done(&candidate(pair, 0.1)));
        assert!(!standing.is_done(&candidate("linger=5ms", 0.1)));
    }

    /// A change that the file names is tried once, and last if it has no expected gain.
    #[test]
    fn what_the_file_names_is_tried_however_little_is_hoped_of_it() {
        let mut standing = Standing { candidates: vec![candidate("linger=5ms", 0.0)], ..Standing::default() };
        assert_eq!(standing.open(Vec::new()).len(), 1);
        for (setting, decision) in [("linger=5ms", Decision::Rejected), ("codec=lz4", Decision::Accepted)] {
            let (candidate, step) = tried(setting, 0.0, decision);
            standing.take(candidate, step);
        }
        assert!(standing.open(Vec::new()).is_empty(), "twice nothing is no reason to look again");
    }

    #[test]
    fn whose_place_a_change_takes_is_told() {
        let mut standing = after(&[("linger=5ms", 0.1, Decision::Accepted)]);
        let (candidate, step) = tried("linger=20ms", 0.2, Decision::Accepted);
        let replaced = standing.take(candidate, step);
        assert_eq!(replaced.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["linger=5ms"]);
        assert_eq!(standing.kept.len(), 1);
        // The comparison of all with none has to follow, though only one change is kept.
        assert_eq!(standing.comparisons_behind(), 3.0);
        assert_eq!(Standing::default().comparisons_behind(), 0.0);
    }

    #[test]
    fn an_arm_that_fails_in_the_end_is_an_answer() {
        let gave_up = |of_b| anyhow::Error::from(GaveUp::for_test(of_b));
        let decision = |of_b, question| answered(gave_up(of_b), question).ok().map(|(decision, _)| decision);
        assert_eq!(decision(true, Question::Step), Some(Decision::Rejected));
        assert_eq!(decision(false, Question::Step), None, "nothing can be compared with the kept state");
        for question in [Question::Among, Question::Together] {
            assert_eq!(decision(false, question), Some(Decision::Accepted));
            assert_eq!(decision(true, question), Some(Decision::Rejected));
        }
        assert!(answered(anyhow::anyhow!("interrupted"), Question::Among).is_err());
    }

    /// A resumed run would meet it again and again.
    #[test]
    fn an_arm_that_can_not_be_had_is_an_answer() {
        let of = |arm, question| answered(refused_for_test(arm), question).ok();
        for question in [Question::Step, Question::Among, Question::Together] {
            let (decision, why) = of(1, question).unwrap();
            assert_eq!(decision, Decision::Rejected);
            assert_eq!(why, "it can't be applied: pair 1: the setting is invalid");
        }
        assert_eq!(of(0, Question::Step), None, "nothing can be compared with the kept state");
        assert_eq!(of(0, Question::Together), None, "the original state was measured");
        let (decision, why) = of(0, Question::Among).unwrap();
        assert!(decision == Decision::Accepted && why.contains("the others can't be applied"), "{why}");
    }

    #[test]
    fn a_client_that_does_not_keep_its_schedule_is_an_answer() {
        let of = |side, question| answered(GaveUp::for_test_by_late(side).into(), question).ok();
        let decision = |side, question| of(side, question).map(|(decision, _)| decision);
        assert!(of(1, Question::Step).unwrap().1.contains("with it the client falls behind its schedule"));
        assert_eq!(decision(0, Question::Step), None, "nothing can be compared with the kept state");
        for question in [Question::Among, Question::Together] {
            assert_eq!(decision(1, question), Some(Decision::Rejected));
            assert_eq!(decision(0, question), Some(Decision::Accepted));
        }
    }

    /// A run whose target is never started.
    struct Run {
        parent: tempfile::TempDir,
        asked: TuneSettings,
        folder: RunFolder,
    }

    impl Run {
        fn new(lines: &str) -> Self {
            let text = format!(
                "name = \"x\"\n[tune]\ndurability = true\n{lines}\n[workload.w]\nclient = \"librdkafka\"\n"
            );
            let asked = crate::file::parse(&text, Path::new("hone.toml"), "sh --port {port}").unwrap();
            let parent = tempfile::tempdir().unwrap();
            let folder = RunFolder::create(parent.path(), "x").unwrap();
            Self { parent, asked, folder }
        }

        fn with<T>(&self, work: impl FnOnce(&Session<'_>) -> T) -> T {
            let security = Security::default();
            let runner = hone_tool::System::new(self.folder.join("logs")).unwrap();
            let progress = Progress::new(true);
            work(&Session {
                asked: &self.asked,
                folder: &self.folder,
                security: &security,
                runner: &runner,
                progress: &progress,
                base: self.asked.base(&security).unwrap(),
                begun: Instant::now(),
                earlier_s: 0.0,
            })
        }
    }

    /// Each passes alone. Together the load is refused, and every attempt would end there.
    #[test]
    fn what_can_not_be_had_beside_what_is_kept_is_left_out_and_told() {
        let run = Run::new("find = false");
        run.with(|session| {
            let mut standing = after(&[("acks=1", 0.1, Decision::Accepted)]);
            standing.candidates = vec![candidate("idempotence=true", 0.5), candidate("linger=5ms", 0.1)];
            session.base.check(&standing.candidates).unwrap();
            for _ in 0..2 {
                let chosen = session.chosen(1, &mut standing).unwrap().unwrap();
                assert_eq!(chosen.candidate.name, "linger=5ms");
                run.folder.remove("steps/02/chosen.json").unwrap();
            }
            let noted = standing.noted();
            assert_eq!(noted.len(), 1, "told once: {noted:?}");
            assert!(
                noted[0].contains("idempotence=true") && noted[0].contains("acks = \"all\""),
                "{noted:?}"
            );
            // On top of the original state it is possible, and has the largest expected gain.
            standing.kept.clear();
            assert_eq!(session.chosen(1, &mut standing).unwrap().unwrap().candidate.name, "idempotence=true");
        });
    }

    fn unmeasured(change: &str, decision: Decision) -> ProofStep {
        let (_, tried) = tried("linger=5ms", 0.1, decision);
        ProofStep {
            change: change.to_owned(),
            comparison: None,
            guards: Vec::new(),
            why: "measured".to_owned(),
            ..tried.step
        }
    }

    /// The remaining time after a restart differs from the one in the report.
    #[test]
    fn what_the_clock_has_ended_stays_ended() {
        let run = Run::new("find = false\nbudget = \"1s\"");
        let stopped = |earlier_s| {
            run.with(|session| {
                let mut standing = after(&[]);
                standing.longest_s = 10.0;
                standing.candidates = vec![candidate("linger=5ms", 0.5)];
                let session = Session { earlier_s, base: session.base.clone(), ..*session };
                session.chosen(0, &mut standing).unwrap().err()
            })
        };
        let first = stopped(0.0).unwrap();
        assert!(first.contains("the budget is too short: 1 s is left"), "{first}");
        assert_eq!(stopped(-1e6), Some(first));
    }

    /// The budget ends right after the result that rejects all changes together.
    #[test]
    fn what_was_rejected_together_is_not_kept_because_the_time_is_over() {
        use Decision::{Accepted, Rejected};
        let run = Run::new("budget = \"1s\"");
        let lines = || {
            let text = std::fs::read_to_string(run.parent.path().join(ledger::NAME)).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        let kept = [("linger=5ms", 0.1, Accepted), ("codec=lz4", 0.1, Accepted), ("acks=1", 0.1, Accepted)];
        for number in 1..=3 {
            let note = format!("end/01/without-{number:02}/step.json");
            run.folder.write_note(&note, &unmeasured(kept[number - 1].0, Accepted)).unwrap();
        }
        run.folder.write_note("end/01/all/step.json", &unmeasured("all together", Rejected)).unwrap();
        let ended = |earlier_s| {
            run.with(|session| {
                let mut standing = after(&kept);
                standing.longest_s = 10.0;
                let session = Session { earlier_s, base: session.base.clone(), ..*session };
                let found = session.together(&mut standing).unwrap().unwrap();
                assert!(standing.kept.is_empty(), "{:?}", standing.kept);
                found
            })
        };
        let found = ended(0.0);
        assert!(found.is_rejected(), "it ends with 3");
        assert!(found.without.is_empty() && found.product.is_none());
        let back: Vec<_> = found.put_back.iter().map(|gone| (&*gone.change, &*gone.why)).collect();
        assert_eq!(
            back.iter().map(|(change, _)| *change).collect::<Vec<_>>(),
            ["acks=1", "linger=5ms", "codec=lz4"]
        );
        assert!(back[0].1.contains("was worth least"), "{back:?}");
        assert!(back[1..].iter().all(|(_, why)| why.contains("the budget is too short")), "{back:?}");
        let entered = lines();
        assert_eq!(entered.iter().filter(|line| line.contains("\"put back\"")).count(), 3, "{entered:#?}");
        // A decision stays, even for an attempt with more time: its ledger entries depend on it.
        assert_eq!(ended(-1e6).put_back, found.put_back);
        assert_eq!(lines(), entered);
    }

    const LATE: &str = "late";

    /// A pair without windows, and the failure of its B: none, a generator that fell behind, or a trouble.
    fn pair(kind: PairKind, dropped: bool, matter: &str) -> PairOutcome {
        let trouble = (!["", LATE].contains(&matter)).then(|| matter.to_owned());
        PairOutcome {
            index: 0,
            kind,
            dropped: dropped.then(|| "dropped".to_owned()),
            took_s: 1.0,
            troubles: [Vec::new(), trouble.into_iter().collect()],
            late: [false, matter == LATE],
            ..PairOutcome::default()
        }
    }

    #[test]
    fn a_look_that_neighbours_have_disturbed_is_gone_by_and_told() {
        let pair = |dropped, matter| pair(PairKind::Test, dropped, matter);
        let (fine, disturbed) = (pair(false, ""), pair(true, ""));
        let (late, failed) = (pair(true, LATE), pair(true, "saturated"));
        let of = |pairs: &[&PairOutcome]| {
            let pairs: Vec<PairOutcome> = pairs.iter().map(|pair| (*pair).clone()).collect();
            let (seen, words) = looked_at(&pairs);
            (seen.len(), words)
        };
        assert_eq!(of(&[&disturbed, &fine, &failed]), (1, None));
        assert_eq!(of(&[&disturbed, &late, &disturbed, &failed]), (2, Some(DISTURBED_LOOK)));
        assert_eq!(of(&[&late, &failed]), (0, Some(NO_LOOK)));
        let standing = Standing { look: Some(DISTURBED_LOOK), ..Standing::default() };
        assert_eq!(standing.noted(), [DISTURBED_LOOK]);
    }

    #[test]
    fn what_neighbours_spoil_is_measured_once_more_and_what_an_arm_did_is_not() {
        let of = |tests: [usize; 3], controls: [usize; 3]| -> Vec<PairOutcome> {
            let all = [(PairKind::Test, tests), (PairKind::Control, controls)];
            all.into_iter()
                .flat_map(|(kind, [counted, disturbed, failed])| {
                    let some =
                        |n, dropped, trouble: &'static str| (0..n).map(move |_| pair(kind, dropped, trouble));
                    some(counted, false, "")
                        .chain(some(disturbed, true, ""))
                        .chain(some(failed, true, "saturated"))
                        .collect::<Vec<_>>()
                })
                .collect()
        };
        for (tests, controls, spoilt) in [
            ([8, 0, 0], [5, 0, 0], false),
            ([5, 3, 0], [5, 0, 0], false),
            ([4, 4, 0], [5, 0, 0], true),
            ([8, 0, 0], [3, 2, 0], true),
            // Too few of them were planned.
            ([8, 0, 0], [0, 0, 0], false),
            ([8, 0, 0], [2, 1, 0], false),
            // The arm itself failed.
            ([3, 0, 5], [5, 0, 0], false),
            ([3, 1, 4], [5, 0, 0], false),
        ] {
            assert_eq!(is_spoilt(&of(tests, controls)), spoilt, "{tests:?} {controls:?}");
        }
        // A client that falls behind its schedule is not a neighbour, either.
        let late: Vec<PairOutcome> = (0..8).map(|_| pair(PairKind::Test, true, LATE)).collect();
        assert!(!is_spoilt(&late));
    }

    /// A few equal pairs always differ by chance. The largest effect must not be lost because of that.
    #[test]
    fn a_control_that_differs_is_measured_once_more_whatever_the_pairs_say() {
        let of = |ratio: f64, control: Option<[f64; 3]>| {
            let mut comparison = hone_experiment::fixture::comparison(None);
            for judgement in comparison.judgements.iter_mut().filter(|judgement| judgement.primary) {
                judgement.estimate.ratio = ratio;
                let span = |[low, ratio, high]: [f64; 3]| hone_record::Estimate {
                    low,
                    ratio,
                    high,
                    ..judgement.estimate.clone()
                };
                judgement.control = control.map(span);
            }
            why_again(&comparison).is_some()
        };
        for ratio in [0.28, 1.0, 3.0] {
            assert!(of(ratio, Some([1.007, 1.022, 1.038])), "{ratio}");
            assert!(of(ratio, Some([0.957, 0.977, 0.997])), "{ratio}");
            assert!(!of(ratio, Some([0.97, 1.022, 1.07])), "{ratio}: it may be equal");
            assert!(!of(ratio, Some([1.001, 1.009, 1.017])), "{ratio}: within the margin");
            assert!(!of(ratio, None), "{ratio}");
        }
    }

    /// Pairs of an unfinished comparison count, too.
    #[test]
    fn the_time_of_earlier_attempts_is_that_of_all_their_pairs() {
        let folder = tempfile::tempdir().unwrap();
        let pair = PairOutcome {
            index: 0,
            kind: hone_record::PairKind::Test,
            values_a: [].into(),
            values_b: [].into(),
            took_s: 2.5,
            ..PairOutcome::default()
        };
        for place in ["pilot/pairs", "steps/01/pairs", "end/01/without-01/pairs", "builds/x-001/pairs"] {
            let place = folder.path().join(place);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("000.json"), serde_json::to_string(&pair).unwrap()).unwrap();
        }
        std::fs::write(folder.path().join("pilot/design.json"), "{}").unwrap();
        assert_eq!(pairs_s(folder.path()), 7.5, "what builds took has a note of its own");
    }
}
