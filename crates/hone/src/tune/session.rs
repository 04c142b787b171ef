//! The loop: look, choose, try, keep or put back, look again, until nothing is left to hope for or the time is over.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use hone_compare::Plan;
use hone_load::{Admin, Security, Topic};
use hone_record::{
    BatchState, Decision, Durability, LedgerEntry, Mode, PairOutcome, ProofStep, Together, Tuning,
    TuningStep, Window, Workload,
};
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, family};
use super::file::Asked;
use super::propose::{Costs, LEAST_HOPE, Seen, propose};
use super::side::{Base, Side};
use crate::arm::Place;
use crate::batch::prove::entry_of;
use crate::decide::{FAILED_MORE, decide, guards, required, windows};
use crate::drive::{Contest, GaveUp, compare, fixed_before, measure_pairs};
use crate::folder::{RunFolder, read_record};
use crate::ledger;
use crate::places::Places;
use crate::progress::Progress;

/// Pairs of equal arms, before anything is changed.
const PILOT_PAIRS: u32 = 5;
/// What would have come next is told up to so many.
const PASSED_OVER: usize = 3;
/// What was rejected is tried again, in the state of another change, when it is hoped to save so many times more.
const AGAIN: f64 = 2.0;
/// The longest trial so far may be exceeded by so much.
const RESERVE: f64 = 1.05;

/// A run.
pub(crate) struct Session<'a> {
    pub(crate) asked: &'a Asked,
    pub(crate) folder: &'a RunFolder,
    /// Where the ledger lies.
    pub(crate) home: &'a Path,
    pub(crate) security: &'a Security,
    pub(crate) runner: &'a dyn Runner,
    pub(crate) progress: &'a Progress,
    pub(crate) base: Base,
    pub(crate) begun: Instant,
}

/// What is tried next, written down before its first window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Chosen {
    candidate: Candidate,
    passed_over: Vec<String>,
}

/// What a run has come to.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// Kept changes, in the order in which they were accepted.
    pub(super) kept: Vec<Candidate>,
    pub(super) steps: Vec<TuningStep>,
    candidates: Vec<Candidate>,
    /// States that were measured.
    states: Vec<BatchState>,
    /// The one that all next ones are held against.
    now: BatchState,
    /// Seconds of pairs that earlier attempts measured.
    earlier_s: f64,
    /// The longest comparison so far, by its pairs.
    longest_s: f64,
}

impl Asked {
    /// What is changed.
    ///
    /// # Errors
    /// When the place is neither an address nor a command that can be started.
    pub(crate) fn base(&self, security: &Security) -> Result<Base> {
        let limit = Duration::from_secs_f64;
        let place = Place::parse(&self.place, limit(self.ready_timeout_s), limit(self.stop_timeout_s))?;
        Ok(Base {
            place,
            workload: self.workload.clone(),
            host_root: self.host_root.clone(),
            security: security.clone(),
        })
    }

    /// The design of a trial.
    fn plan(&self, sides: [&Side; 2]) -> Plan {
        let outside =
            sides.iter().any(|side| !side.sets.is_empty() || matches!(side.place, Place::Address(_)));
        // What both share can't be in two states at once.
        let mode = if outside { Mode::Solo } else { self.mode };
        Plan {
            mode,
            places: mode == Mode::Duet && Places::halves().is_some(),
            pairs: self.pairs,
            control_pairs: self.control_pairs,
            primary: self.objective,
            guards: self.guards.clone(),
            alpha: self.alpha,
            equivalence: self.equivalence,
            seed: self.workload.seed,
            builds: [1, 1],
            pilot_pairs: 0,
            requests_per_window: self.workload.requests_per_window(),
            refused: hone_record::refused_for_loads(&sides.map(|side| side.workload.clone())),
            disturbance: (!self.keep_disturbed).then(|| hone_compare::disturbance(mode)),
            both_controls: false,
        }
    }

    /// The rule by which a change is kept.
    pub(crate) fn rule(&self) -> String {
        let guards: Vec<&str> = self.guards.iter().map(|guard| guard.label()).collect();
        let guards = if guards.is_empty() { "none of its own".to_owned() } else { guards.join(", ") };
        let required = match &self.require[..] {
            [] => String::new(),
            rules => format!(" {} must be met in at least half of its windows.", rules.join(", ")),
        };
        format!(
            "A change is kept when the comparator calls it better by {}, over {} pairs of windows against the state kept so far and {} A/A \
             pairs of that state, and no guard rail breaks: {guards}; not more than {} % of the requests fail beyond those that failed \
             before.{required} What is not shown to help is put back. {} In the end all that was kept is held against the first state, and \
             against all but each one of it: what makes the others worse is put back.",
            self.objective.label(),
            self.pairs,
            self.control_pairs,
            FAILED_MORE * 100.0,
            if self.durability {
                "Changes of what an acknowledgement promises were allowed."
            } else {
                "No change of what an acknowledgement promises is tried."
            }
        )
    }

    /// The tightest latency that a rule allows, in milliseconds.
    fn latency_limit_ms(&self) -> Result<Option<f64>> {
        let rules = self.rules()?;
        let limits = rules.iter().filter_map(crate::require::Rule::latency_limit_us);
        Ok(limits.reduce(f64::min).map(|us| us / 1e3))
    }
}

impl Session<'_> {
    /// Tunes. A run that is broken off goes on behind its last pair.
    ///
    /// # Errors
    /// When the target fails in a state that was kept, something beside the target fails, or the user interrupts.
    pub(crate) fn run(&self) -> Result<Tuning> {
        // Before the first window, so that nobody can wonder which came first.
        self.folder.write_text("rule.txt", &format!("{}\n", self.asked.rule()))?;
        let mut standing = Standing { candidates: self.asked.candidates.clone(), ..Standing::default() };
        let first = self.pilot(&mut standing)?;
        let stopped = self.steps(&mut standing)?;
        let together = self.together(&mut standing)?;
        self.tuning(standing, together, first.as_ref(), stopped)
    }

    /// Equal arms: what the first state does, how long a pair takes, and that the load stands at all.
    fn pilot(&self, standing: &mut Standing) -> Result<Option<Window>> {
        let side = self.base.with([])?;
        let plan = Plan {
            pairs: PILOT_PAIRS,
            pilot_pairs: PILOT_PAIRS,
            control_pairs: PILOT_PAIRS,
            ..self.asked.plan([&side, &side])
        };
        let contest = Contest {
            design: hone_compare::pilot(&plan)?,
            prefix: "pilot/".to_owned(),
            ..self.contest(["now", "now"], [&side, &side])?
        };
        self.progress.line("Look: the service as it is");
        fixed_before(self.folder, "pilot/design.json", &contest.design)?;
        let pairs = measure_pairs(&contest, self.progress, |_, _, _| true)
            .context("the service as it is does not stand the load, so nothing can be held against it")?;
        let names = pairs.iter().filter(|pair| pair.dropped.is_none());
        let found: Vec<Window> = names
            .flat_map(|pair| [&pair.window_a, &pair.window_b])
            .map(|name| read_record(&self.folder.join(name)))
            .collect::<Result<_>>()?;
        let pair_s = took_s(&pairs) / pairs.len().max(1) as f64;
        standing.longest_s = pair_s * f64::from(self.asked.pairs + self.asked.control_pairs);
        standing.earlier_s = self.earlier_s(&pairs);
        standing.now = BatchState::of(&found);
        standing.states.push(standing.now.clone());
        Ok(found.into_iter().next())
    }

    /// What pairs took before this attempt.
    fn earlier_s(&self, pairs: &[PairOutcome]) -> f64 {
        (took_s(pairs) - self.begun.elapsed().as_secs_f64()).max(0.0)
    }

    /// Tries one change after the other. Says why it ended.
    fn steps(&self, standing: &mut Standing) -> Result<String> {
        let mut index = 0;
        loop {
            let note = format!("steps/{:02}/step.json", index + 1);
            let chosen = match self.chosen(index, standing)? {
                Ok(chosen) => chosen,
                Err(stopped) => return Ok(stopped),
            };
            let found = match self.folder.read_note::<TuningStep>(&note)? {
                Some(found) => {
                    standing.earlier_s +=
                        found.step.comparison.as_ref().map_or(0.0, |found| took_s(&found.pairs));
                    found
                }
                None => {
                    let found = self.tried(index, &chosen, standing)?;
                    self.folder.write_note(&note, &found)?;
                    self.progress.line(&format!("  {}: {}", found.step.decision.label(), found.step.why));
                    found
                }
            };
            self.enter_in_ledger(&format!("steps/{:02}", index + 1), found.altitude.label(), &found.step)?;
            standing.take(chosen.candidate, found);
            index += 1;
        }
    }

    /// What comes next, or why nothing does. What an earlier attempt chose stays chosen.
    fn chosen(&self, index: usize, standing: &Standing) -> Result<std::result::Result<Chosen, String>> {
        let note = format!("steps/{:02}/chosen.json", index + 1);
        if let Some(chosen) = self.folder.read_note::<Chosen>(&note)? {
            return Ok(Ok(chosen));
        }
        let side = self.base.with(&standing.kept)?;
        let mut open = standing.open(self.found(standing, &side.workload)?);
        if open.is_empty() {
            return Ok(Err("nothing is left that is hoped to help".to_owned()));
        }
        let best = open.remove(0);
        if let Some(left_s) = self.left_s(standing) {
            let needed_s = standing.longest_s * RESERVE * (1.0 + comparisons_behind(standing.kept.len() + 1));
            if left_s < needed_s {
                return Ok(Err(format!(
                    "the budget is used up: {} s are left, and `{}` with what has to follow would take about {} s",
                    left_s.max(0.0).round(),
                    best.name,
                    needed_s.round()
                )));
            }
        }
        let passed_over = open.iter().take(PASSED_OVER).map(|one| one.name.clone()).collect();
        let chosen = Chosen { candidate: best, passed_over };
        self.folder.write_note(&note, &chosen)?;
        Ok(Ok(chosen))
    }

    /// Seconds of the budget that are left.
    pub(super) fn left_s(&self, standing: &Standing) -> Option<f64> {
        Some(self.asked.budget_s? - standing.earlier_s - self.begun.elapsed().as_secs_f64())
    }

    /// What Hone itself finds to try.
    fn found(&self, standing: &Standing, workload: &Workload) -> Result<Vec<Candidate>> {
        if !self.asked.find {
            return Ok(Vec::new());
        }
        let broker_codec = self.broker_codec();
        let seen = Seen {
            state: &standing.now,
            workload,
            costs: Costs::of(&standing.states),
            latency_limit_ms: self.asked.latency_limit_ms()?,
            broker_codec: broker_codec.as_deref(),
        };
        let found = propose(&seen, &self.asked.allowed);
        let may = |candidate: &Candidate| {
            self.asked.durability
                || candidate.promise(&workload.engine).is_ok_and(|promise| promise.is_none())
        };
        Ok(found.into_iter().filter(may).collect())
    }

    /// The codec that a broker which runs already makes of every batch by default; nothing where it does not say.
    fn broker_codec(&self) -> Option<String> {
        let Place::Address(address) = &self.base.place else { return None };
        let mut admin = Admin::connect_with(address, self.security).ok()?;
        let seen = admin.cluster_setting("compression.type").ok()?;
        seen.in_force.into_iter().map(|(_, value)| value).find(|value| value != "producer")
    }

    fn tried(&self, index: usize, chosen: &Chosen, standing: &Standing) -> Result<TuningStep> {
        let candidate = &chosen.candidate;
        self.progress.line(&format!("Step {}: {} ({})", index + 1, candidate.name, candidate.hope.why));
        let before = self.base.with(&standing.kept)?;
        let after = self.base.with(standing.kept.iter().chain([candidate]))?;
        let words = candidate.words(&before.workload.engine)?;
        let trial = Trial {
            prefix: format!("steps/{:02}/", index + 1),
            names: ["kept", &candidate.name],
            sides: [&before, &after],
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
            workloads: sides.map(|side| side.workload.clone()),
            change: None,
            sets: sides.map(|side| side.sets.clone()),
            design: hone_compare::plan(&self.asked.plan(sides))?,
            pilot: None,
            clock: None,
            storage: self.asked.storage.clone(),
            lateness_limit_us: self.asked.lateness_limit_us,
            topic: Topic::Fresh,
            folder: self.folder,
            prefix: String::new(),
            runner: self.runner,
            machine: hone_host::observe::machine(Path::new("/")),
        })
    }

    /// Measures what is not measured yet of a trial, and judges it.
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
            let why = "nothing would differ: it is so already, or it is what is done without it".to_owned();
            return Ok(ProofStep { why, ..found });
        }
        let contest = Contest { prefix: trial.prefix.clone(), ..self.contest(trial.names, trial.sides)? };
        let comparison = match compare(&contest, self.progress) {
            Ok(comparison) => comparison,
            Err(error) => {
                return match error.downcast_ref::<GaveUp>() {
                    // The change itself does not stand the load: that is an answer.
                    Some(gave_up) if gave_up.of_b => Ok(ProofStep { why: format!("{error:#}"), ..found }),
                    _ => Err(error),
                };
            }
        };
        let states = windows(self.folder, &comparison)?;
        let rate = after.workload.requests_per_s * f64::from(after.workload.records_per_batch);
        let summed = [BatchState::of(&states[0]), BatchState::of(&states[1])];
        let mut rails = guards(&summed, rate);
        rails.extend(self.asked.rules()?.iter().map(|rule| required(rule, &states[1])));
        let (decision, why) = decide(&comparison, &rails);
        let [before, after] = summed;
        Ok(ProofStep { decision, why, guards: rails, comparison: Some(comparison), before, after, ..found })
    }

    /// Once, however often a run is resumed.
    pub(super) fn enter_in_ledger(&self, place: &str, altitude: &str, step: &ProofStep) -> Result<()> {
        let note = format!("{place}/ledger.json");
        let path = self.home.join(ledger::NAME);
        let entry = || {
            let records = match &step.comparison {
                Some(comparison) => ledger::records(self.folder, comparison)?,
                None => Vec::new(),
            };
            let run = self.folder.path().display().to_string();
            Ok(LedgerEntry {
                experiment: format!("tune {}", self.asked.name),
                change: format!("{altitude}: {}", step.change),
                workload: self.asked.workload.name.clone(),
                metric: Some(self.asked.objective),
                records,
                // Nothing stays changed behind the run.
                undo: None,
                ..entry_of("tune", step, &self.asked.rule(), &run)
            })
        };
        ledger::enter_once(self.folder, &note, &path, entry, self.progress)
    }

    fn tuning(
        &self,
        standing: Standing,
        together: Option<Together>,
        first: Option<&Window>,
        stopped: String,
    ) -> Result<Tuning> {
        let side = self.base.with(&standing.kept)?;
        let clients = first.into_iter().flat_map(|window| &window.client);
        let broker = first.and_then(|window| window.environment.as_ref()?.broker_software.clone());
        let software: BTreeMap<String, String> = clients
            .map(|client| ("client".to_owned(), client.software.clone()))
            .chain(broker.map(|broker| ("broker".to_owned(), broker)))
            .collect();
        let to_keep =
            standing.kept.iter().map(|candidate| to_keep(candidate, &self.base)).collect::<Result<_>>()?;
        Ok(Tuning {
            name: self.asked.name.clone(),
            target: self.asked.target.clone(),
            load: load_in_words(&self.asked.workload),
            workload: self.asked.workload.clone(),
            workload_kept: side.workload,
            kept: standing.kept.into_iter().map(|candidate| candidate.name).collect(),
            objective: self.asked.objective,
            durability: Durability { acks: self.asked.workload.acks, storage: self.asked.storage.clone() },
            rule: self.asked.rule(),
            allowed: self.asked.allowed.clone(),
            budget_s: self.asked.budget_s,
            took_s: standing.earlier_s + self.begun.elapsed().as_secs_f64(),
            first: standing.states.into_iter().next().unwrap_or_default(),
            steps: standing.steps,
            together,
            stopped,
            to_keep,
            limits: limits(self.asked),
            machine: hone_host::observe::machine(Path::new("/")),
            software,
        })
    }
}

/// Two states that are held against each other.
pub(super) struct Trial<'a> {
    /// Of its files in the folder.
    pub(super) prefix: String,
    pub(super) names: [&'a str; 2],
    pub(super) sides: [&'a Side; 2],
}

impl Standing {
    fn take(&mut self, candidate: Candidate, found: TuningStep) {
        let pairs_s = found.step.comparison.as_ref().map_or(0.0, |found| took_s(&found.pairs));
        self.longest_s = self.longest_s.max(pairs_s);
        if found.step.after.windows > 0 {
            self.states.push(found.step.after.clone());
        }
        if found.step.decision == Decision::Accepted {
            self.now = found.step.after.clone();
            // A longer linger takes the place of a shorter one, a build that of another.
            self.kept.retain(|kept| !candidate.takes_the_place_of(kept));
            self.kept.push(candidate);
        }
        self.steps.push(found);
    }

    /// What may be tried, the most hopeful first: neither kept nor tried in this state.
    fn open(&self, found: Vec<Candidate>) -> Vec<Candidate> {
        let mut all = self.candidates.clone();
        all.extend(
            found.into_iter().filter(|one| !self.candidates.iter().any(|named| named.name == one.name)),
        );
        all.retain(|candidate| candidate.hope.share >= LEAST_HOPE && !self.is_done(candidate));
        // In a stable order: those of the file before others with the same hope.
        all.sort_by(|one, other| other.hope.share.total_cmp(&one.hope.share));
        all
    }

    /// Whether it is kept, or was rejected and there is no reason to look again: another change that was kept since may be one, if it
    /// makes the hope much larger. Of one family (lingers, say) the next one is looked at under the same rule.
    fn is_done(&self, candidate: &Candidate) -> bool {
        if self.kept.iter().any(|kept| kept.name == candidate.name) {
            return true;
        }
        let since = self.steps.iter().rposition(|step| step.step.decision == Decision::Accepted);
        let rejected = |step: &&TuningStep| step.step.decision == Decision::Rejected;
        self.steps.iter().enumerate().filter(|(_, step)| rejected(step)).any(|(index, step)| {
            let is_same = step.step.change == candidate.name;
            let is_of_family =
                family(&step.step.change) == candidate.family() && since.is_none_or(|since| index > since);
            let is_asked_for = self.candidates.contains(candidate);
            (is_same || (is_of_family && !is_asked_for)) && candidate.hope.share < AGAIN * step.hope.share
        })
    }
}

/// Comparisons that follow when so many changes are kept: all against none, and all against all but each.
fn comparisons_behind(kept: usize) -> f64 {
    if kept < 2 { 0.0 } else { 1.0 + kept as f64 }
}

fn took_s(pairs: &[PairOutcome]) -> f64 {
    pairs.iter().map(|pair| pair.took_s).sum()
}

fn load_in_words(workload: &Workload) -> String {
    format!(
        "{} records/s of {} bytes by {} producers to {} partitions",
        crate::show::number(workload.requests_per_s * f64::from(workload.records_per_batch)),
        workload.record_bytes,
        workload.connections,
        workload.partitions
    )
}

/// How a change is made to last.
fn to_keep(candidate: &Candidate, base: &Base) -> Result<String> {
    let words = candidate.words(&base.workload.engine)?.join(", ");
    let settings: Vec<&str> = candidate.steps.iter().map(|step| &*step.text).collect();
    Ok(match candidate.altitude {
        hone_record::Altitude::Client => {
            format!(
                "{}: for the lines of your client: hone batch settings {}",
                candidate.name,
                settings.join(",")
            )
        }
        hone_record::Altitude::Host => {
            format!("{}: sysctl and sysfs values go with the next boot; see hone host apply", candidate.name)
        }
        hone_record::Altitude::Broker => {
            format!("{}: set it where the broker or topic is configured ({words})", candidate.name)
        }
        hone_record::Altitude::Binary => format!("{}: deploy that build ({words})", candidate.name),
    })
}

fn limits(asked: &Asked) -> Vec<String> {
    let mut limits = vec![
        "What is not found here may still help: candidates come from the file and from a few rules about batches, codecs and requests. A change \
         that was rejected was not shown to help under this load on this machine."
            .to_owned(),
    ];
    if asked.mode == Mode::Duet {
        limits.push(
            "Both states were loaded at once, each on half of the machine: differences are right, latencies are those of half a machine."
                .to_owned(),
        );
    }
    limits
}
