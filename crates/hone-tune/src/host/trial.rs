//! `hone host try`: knobs of a host under a load, each alone, judged and rolled back; or all of them together under several
//! durability classes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, bail};
use hone_compare::{BASELINE, RoundPlan, StallPair, TWIN, judge_stalls};
use hone_host::commit::{self, ChangeRequest, Turn};
use hone_host::kernel::Files;
use hone_host::under_load::UnderLoad;
use hone_load::Security;
use hone_record::{
    BatchState, Comparison, Decision, Engine, HostTrial, Metric, PairKind, STALL_FROM_MS, StallCounts,
    TriedKnob, UntriedKnob, Verdict, Window, Workload,
};
use hone_tool::Runner;
use serde::{Deserialize, Serialize};

use super::candidate::{Candidate, together};
use super::service::Service;
use super::sitting::{RUN, Sat, Sitting, refused};
use hone_document::entries::host_trial::entry_of;
use hone_experiment::guard;
use hone_experiment::settings::ComparisonSettings;

use super::look;
use hone_experiment::arm::{Arm, Place};
use hone_experiment::bench::{self, Bench};
use hone_experiment::ending::NotItsOwn;
use hone_experiment::folder::{RunFolder, read_record};
use hone_experiment::ledger;
use hone_experiment::meter::Metrics;
use hone_experiment::progress::Progress;
use hone_experiment::standing::Standing;

/// All settings of the run, stored for the next attempt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostTrialSettings {
    /// For people: an address, a command, or the broker that Hone starts.
    pub target: String,
    /// `host:port`, or a command line.
    pub place: String,
    /// The service of an experiment file, instead of `place`.
    #[serde(default)]
    pub service: Option<Service>,
    /// The working directory for commands and their relative paths.
    pub working_folder: PathBuf,
    /// Root of the machine's files.
    pub root: PathBuf,
    /// Folder of the broker's data, also for a broker that Hone starts.
    pub data: Option<PathBuf>,
    /// The load.
    pub workload: Workload,
    /// The profile's name.
    pub profile: String,
    /// The settings to try.
    pub candidates: Vec<Candidate>,
    /// Knobs that are not tried, with reasons.
    pub untried: Vec<UntriedKnob>,
    /// The durability classes of a factorial. Without any, each knob is tried alone.
    pub acks: Vec<i16>,
    /// The metric that decides.
    pub primary: Metric,
    /// Rounds, in each of which every setting has one window.
    pub rounds: u32,
    /// Seconds between a write and the load.
    pub settle_s: f64,
    /// Time after which the watchdog restores the values of a window. The default is long enough for the window.
    pub guard_s: u64,
    /// Whether to try knobs that this load can't affect.
    pub all: bool,
    /// How long the helpful settings stay in force, unless they are confirmed.
    pub keep_s: Option<u64>,
    /// Limits of the result, in sentences.
    pub limits: Vec<String>,
    /// The basis of the run, filled before the first window.
    #[serde(default)]
    pub standing: Option<Standing>,
    /// How pairs are judged, which ones are excluded, and time limits for starts.
    #[serde(flatten)]
    pub comparison: ComparisonSettings,
}

/// The file in the run's folder that keeps the settings.
pub const ASKED: &str = "asked.json";
/// The samples of the host before the rounds.
const LOOK: &str = "look.json";
/// The change that stays in force.
const IN_FORCE: &str = "in-force.json";
/// Seconds of a window besides its load and its pause, for an estimate: journal, connections, warm-up, draining.
const AROUND_A_WINDOW_S: f64 = 2.0;
/// Seconds of a target's start, for an estimate.
const START_S: f64 = 4.0;
/// Seconds for a warm-up and a journal before the watchdog may act.
const GUARD_SPARE_S: f64 = 60.0;

/// Windows of one kind of target, and the candidates to which they apply.
struct Part {
    prefix: String,
    workload: Workload,
    candidates: Vec<Candidate>,
    anew: bool,
    /// Number of verdicts that share the error.
    family: usize,
}

impl HostTrialSettings {
    /// # Errors
    /// When the place is neither an address nor a command that can be started.
    pub fn arm(&self, security: &Security) -> Result<Arm> {
        if let Some(service) = &self.service {
            return service.arm();
        }
        let place = self.comparison.place(&self.place)?;
        Ok(Arm { name: "target".to_owned(), place, security: security.clone(), metrics: Metrics::default() })
    }

    /// Long enough for a window of this load, with all possible delays.
    pub fn guard_for(&self) -> u64 {
        let (load, how) = (&self.workload, &self.comparison);
        let window_s =
            self.settle_s + how.ready_timeout_s + how.stop_timeout_s + load.duration_s + load.timeout_s;
        (window_s + GUARD_SPARE_S).ceil() as u64
    }

    /// Finds impossible measurements before the first window.
    ///
    /// # Errors
    /// With the impossible one.
    pub fn check(&self) -> Result<()> {
        for part in self.parts() {
            bench::check(&part.workload)?;
            self.plan(&part).design([BASELINE, TWIN + 1])?;
        }
        Ok(())
    }

    /// Knobs with an immediate effect share one running target. Each window of the others starts its own. In a factorial every
    /// class has its own rounds, since classes are not compared with each other.
    fn parts(&self) -> Vec<Part> {
        let family = self.family();
        let starts_itself = matches!(self.workload.engine, Engine::Exits { .. });
        let part = |prefix: String, acks: i16, candidates: Vec<Candidate>| Part {
            prefix,
            workload: Workload { acks, ..self.workload.clone() },
            anew: starts_itself || candidates.iter().any(|one| one.anew),
            candidates,
            family,
        };
        if !self.acks.is_empty() {
            let all = || vec![together(&self.profile, &self.candidates)];
            let class = |acks: &i16| part(format!("acks-{}/", hone_format::acks(*acks)), *acks, all());
            return self.acks.iter().map(class).collect();
        }
        let (anew, now): (Vec<Candidate>, Vec<Candidate>) =
            self.candidates.iter().cloned().partition(|one| one.anew);
        let parts = [("now/", now), ("anew/", anew)].into_iter().filter(|(_, some)| !some.is_empty());
        parts.map(|(prefix, some)| part(prefix.to_owned(), self.workload.acks, some)).collect()
    }

    /// Number of verdicts. Each has its share of the error.
    fn family(&self) -> usize {
        if self.acks.is_empty() { self.candidates.len().max(1) } else { self.acks.len() }
    }

    fn plan(&self, part: &Part) -> RoundPlan {
        let workload = &part.workload;
        let named: Vec<Metric> =
            std::iter::once(self.primary).chain(self.comparison.guards.iter().copied()).collect();
        RoundPlan {
            variants: part.candidates.len() + TWIN + 1,
            rounds: self.rounds,
            asked_reserve: None,
            // All windows of a round use the same process, or each uses its own. No part of them shares the
            // luck of one start.
            block_rounds: 0,
            builds: 1,
            closed_loop: workload.engine.operations().is_some(),
            primary: self.primary,
            guards: self.comparison.guards.clone(),
            alpha: self.comparison.alpha / part.family as f64,
            equivalence: self.comparison.equivalence,
            seed: workload.seed,
            refused: refused(workload, &named),
            keep_disturbed: self.comparison.keep_disturbed,
            ends_early: false,
            busy: false,
        }
    }

    /// Number of windows, and their approximate duration in seconds.
    pub fn cost(&self) -> (u64, f64) {
        self.parts().iter().fold((0, 0.0), |(windows, seconds), part| {
            let count = u64::from(self.rounds) * (part.candidates.len() + TWIN + 1) as u64;
            let start_s = if part.anew { START_S } else { 0.0 };
            let each_s = part.workload.duration_s + self.settle_s + AROUND_A_WINDOW_S + start_s;
            (windows + count, seconds + count as f64 * each_s)
        })
    }

    /// The rule by which a knob counts as helpful.
    pub fn rule(&self) -> String {
        let guards: Vec<&str> = self.comparison.guards.iter().map(|guard| guard.label()).collect();
        let guards = if guards.is_empty() { "none".to_owned() } else { guards.join(", ") };
        let family = self.family();
        let (what, many) = match self.acks[..] {
            [] => ("every knob is", "knobs"),
            [..] => ("(separately for each class) all settings together are", "classes"),
        };
        let shared =
            if family > 1 { format!(", divided among {family} {many} (Bonferroni)") } else { String::new() };
        let written_back = if self.data.is_some() { "dirty pages are flushed, " } else { "" };
        format!(
            "In each of {} rounds {what} in force for one window. The unchanged host has two windows, one of \
             them the A/A control. The order is random, and every second round repeats the previous one \
             backwards. Between windows the journal rolls everything back, {written_back}and {} s pass. A \
             setting helps if its verdict by {} is better and no guard metric is worse ({guards}). The error \
             is {} %{shared}; the other metrics share as much once more. Stalls are stretches in which \
             requests waited {STALL_FROM_MS} ms or longer; they do not decide a verdict.",
            self.rounds,
            hone_format::exact(self.settle_s),
            self.primary.label(),
            hone_format::exact(self.comparison.alpha * 100.0),
        )
    }
}

/// Rolls back what a killed run left in force, before anything is measured.
///
/// # Errors
/// When a change is in force that belongs to no run, or to an active one.
pub fn sweep(root: &Path, progress: &Progress) -> Result<()> {
    let boot = hone_host::observe::boot_id(root);
    let known = commit::known(root);
    if let Some(one) = known.unreadable.into_iter().next() {
        return Err(one.why.into());
    }
    for (_, state) in known.states.into_iter().filter(|(_, state)| !state.closed) {
        // A change that was confirmed in another boot is part of this boot's start.
        if state.confirmed && boot.as_ref().is_some_and(|boot| *boot != state.begun.boot_id) {
            continue;
        }
        let id = &state.begun.id;
        let Some(run) = state.begun.profile.strip_prefix(RUN) else {
            bail!(NotItsOwn(format!(
                "change {id} of this host ({}) is in force, and a trial needs a host without open \
                 changes\n  next: roll it back with `hone host rollback`",
                state.begun.profile
            )));
        };
        // An active run holds its folder. Without a folder there is no run.
        if let Ok(folder) = RunFolder::open(Path::new(run)) {
            let _held = folder.held()?;
            take_back(root, id, progress)?;
        } else {
            take_back(root, id, progress)?;
        }
    }
    Ok(())
}

fn take_back(root: &Path, id: &str, progress: &Progress) -> Result<()> {
    match commit::take_one_back(root, id)? {
        Some(back) if !back.is_whole() => bail!(NotItsOwn(format!(
            "a killed run left change {id} in force, and it is only partly rolled back\n  next: see `hone \
             host rollback`"
        ))),
        _ => {
            progress.line(&format!("rolled back change {id}, which a killed run had left in force"));
            Ok(())
        }
    }
}

/// A run.
pub struct Session<'a> {
    /// The settings.
    pub asked: &'a HostTrialSettings,
    /// The run's folder.
    pub folder: &'a RunFolder,
    /// TLS and login.
    pub security: &'a Security,
    /// Starts programs.
    pub runner: &'a dyn Runner,
    /// The progress display.
    pub progress: &'a Progress,
}

impl Session<'_> {
    /// Measures the remaining rounds. An interrupted run continues after its last round.
    ///
    /// # Errors
    /// When the target fails on the unchanged host, another program changes a tried setting, or the user interrupts.
    pub fn run(&self) -> Result<HostTrial> {
        let _turn = Turn::take(&self.asked.root)?;
        // A run whose change is in force is finished. It only prints its result again.
        if self.folder.read_note::<String>(IN_FORCE)?.is_none() {
            sweep(&self.asked.root, self.progress)?;
        }
        let _held = self.folder.held()?;
        let asked = self.sifted()?;
        Session { asked: &asked, ..*self }.rounds()
    }

    /// The settings without knobs that this load can't affect. Settings that are tried together all stay.
    fn sifted(&self) -> Result<HostTrialSettings> {
        let asked = self.asked;
        if asked.all || !asked.acks.is_empty() || asked.workload.engine.operations().is_some() {
            return Ok(asked.clone());
        }
        let seen = match self.folder.read_note::<UnderLoad>(LOOK)? {
            Some(seen) => seen,
            None => {
                let all = together("", &asked.candidates);
                let files = Files::new(&asked.root);
                let arm = asked.arm(self.security)?;
                let seen = look::look(&self.bench(&arm), &arm, &asked.workload, &files, &all.disks)?;
                self.folder.write_note(LOOK, &seen)?;
                seen
            }
        };
        let (candidates, more) = look::sifted(&asked.candidates, &seen);
        let untried = [asked.untried.clone(), more].concat();
        Ok(HostTrialSettings { candidates, untried, ..asked.clone() })
    }

    /// The folder in which a target is loaded. A target that Hone starts gets its data on the named disk.
    fn bench(&self, arm: &Arm) -> Bench<'_> {
        let scratch = match &self.asked.data {
            Some(data) if matches!(arm.place, Place::Program(_)) => data.join("hone-host-try"),
            _ => self.folder.scratch(),
        };
        Bench {
            runner: self.runner,
            scratch,
            storage: self.asked.comparison.storage.clone(),
            lateness_limit_us: self.asked.comparison.lateness_limit_us,
            progress: self.progress,
        }
    }

    fn rounds(&self) -> Result<HostTrial> {
        let asked = self.asked;
        // The rule is written before the first window, so that it can't follow from the results.
        self.folder.write_text("rule.txt", &format!("{}\n", asked.rule()))?;
        let mut tried = Vec::new();
        for part in asked.parts() {
            tried.extend(self.sat(&part)?);
        }
        for (number, knob) in tried.iter().enumerate() {
            self.enter_in_ledger(&format!("{:02}", number + 1), knob)?;
        }
        let (together, left_in_force) = self.kept(&tried)?;
        self.trial(tried, together, left_in_force)
    }

    fn sat(&self, part: &Part) -> Result<Vec<TriedKnob>> {
        let sat = self.sit(part)?;
        self.told(part, sat)
    }

    fn sit(&self, part: &Part) -> Result<Sat> {
        let asked = self.asked;
        let arm = asked.arm(self.security)?;
        let bench = self.bench(&arm);
        let scratch = bench.scratch.clone();
        let what: Vec<&str> = part.candidates.iter().map(|candidate| candidate.title.as_str()).collect();
        self.progress.line(&format!(
            "{} rounds under acks={}{}: {}",
            asked.rounds,
            hone_format::acks(part.workload.acks),
            if part.anew { ", with its own target for each window" } else { "" },
            what.join(", ")
        ));
        let sitting = Sitting {
            root: &asked.root,
            data: asked.data.as_deref(),
            arm,
            workload: part.workload.clone(),
            candidates: part.candidates.clone(),
            anew: part.anew,
            plan: asked.plan(part),
            settle: Duration::from_secs_f64(asked.settle_s),
            guard: Duration::from_secs(asked.guard_s),
            bench,
            folder: self.folder,
            prefix: part.prefix.clone(),
            machine: hone_host::observe::machine(Path::new("/")),
        };
        let sat = sitting.run(self.progress);
        // Only if nothing is left in it.
        let _ = std::fs::remove_dir(&scratch);
        sat
    }

    fn told(&self, part: &Part, sat: Sat) -> Result<Vec<TriedKnob>> {
        let rows = part.candidates.iter().zip(sat.comparisons).zip(sat.writing_ms_max);
        rows.map(|((candidate, comparison), writing_ms_max)| {
            let [before, after] = self.windows(&comparison)?;
            let stalls = self.stalls(&comparison)?;
            let verdict = comparison.verdict();
            Ok(TriedKnob {
                title: candidate.title.clone(),
                settings: candidate.settings(),
                reason: candidate.reason.clone(),
                started_anew: part.anew,
                durability: self.asked.comparison.durability(&part.workload),
                promise: candidate.promise(),
                verdict,
                decision: if verdict == Verdict::Better { Decision::Accepted } else { Decision::Rejected },
                why: hone_report::verdict::sentence(&comparison),
                before: BatchState::from_windows(&before),
                after: BatchState::from_windows(&after),
                stalls_before: StallCounts::from_windows(&before),
                stalls_after: StallCounts::from_windows(&after),
                stalls,
                writing_ms_max,
                comparison,
            })
        })
        .collect()
    }

    /// The valid windows of the unchanged host and of the candidate, without duplicates: a round's baseline is in a test pair and
    /// in a control pair.
    fn windows(&self, comparison: &Comparison) -> Result<[Vec<Window>; 2]> {
        let mut names = [BTreeSet::new(), BTreeSet::new()];
        for pair in comparison.pairs.iter().filter(|pair| pair.dropped.is_none()) {
            let second = usize::from(pair.kind == PairKind::Test);
            names[0].insert(&pair.window_a);
            names[second].insert(&pair.window_b);
        }
        let read = |names: &BTreeSet<&String>| {
            names.iter().map(|name| self.window(name)).collect::<Result<Vec<_>>>()
        };
        let [before, after] = &names;
        Ok([read(before)?, read(after)?])
    }

    fn stalls(&self, comparison: &Comparison) -> Result<hone_record::StallVerdict> {
        let mut pairs = Vec::new();
        for pair in comparison.pairs.iter().filter(|pair| pair.dropped.is_none()) {
            let [a, b] = [self.window(&pair.window_a)?, self.window(&pair.window_b)?];
            if let Some((a, b)) = a.facts.stalls.zip(b.facts.stalls) {
                pairs.push(StallPair { kind: pair.kind, stalled_s: [a.total_s(), b.total_s()] });
            }
        }
        let rule = &comparison.design.rule;
        Ok(judge_stalls(&pairs, rule.alpha / (rule.secondary.len() + 1) as f64))
    }

    fn window(&self, name: &str) -> Result<Window> {
        read_record(&self.folder.join(name))
    }

    /// Tries the helpful settings together, and leaves them in force if that was requested and the result holds.
    fn kept(&self, tried: &[TriedKnob]) -> Result<(Option<TriedKnob>, Option<String>)> {
        let asked = self.asked;
        let Some(keep_s) = asked.keep_s.filter(|_| asked.acks.is_empty()) else { return Ok((None, None)) };
        let helped = |candidate: &&Candidate| {
            tried.iter().any(|knob| knob.title == candidate.title && knob.decision == Decision::Accepted)
        };
        let helped: Vec<Candidate> = asked.candidates.iter().filter(helped).cloned().collect();
        if helped.is_empty() {
            return Ok((None, None));
        }
        let all = together(TOGETHER, &helped);
        let part = Part {
            prefix: "together/".to_owned(),
            workload: asked.workload.clone(),
            candidates: vec![all.clone()],
            anew: all.anew || matches!(asked.workload.engine, Engine::Exits { .. }),
            // One question, with its own windows.
            family: 1,
        };
        let Some(told) = self.sat(&part)?.into_iter().next() else { return Ok((None, None)) };
        self.enter_in_ledger("together", &told)?;
        if told.decision != Decision::Accepted {
            return Ok((Some(told), None));
        }
        let id = match self.folder.read_note::<String>(IN_FORCE)? {
            Some(id) => id,
            None => self.leave_in_force(&all, keep_s)?,
        };
        Ok((Some(told), Some(id)))
    }

    fn leave_in_force(&self, all: &Candidate, keep_s: u64) -> Result<String> {
        let root = &self.asked.root;
        let order = ChangeRequest {
            profile: format!("the helpful settings of {}", self.asked.profile),
            steps: all.steps(),
            disks: all.disks.clone(),
            confirm_within: Some(Duration::from_secs(keep_s)),
        };
        let applied = commit::make(root, &order, &mut |id| guard::start(root, id, None))?;
        self.folder.write_note(IN_FORCE, &applied.id)?;
        Ok(applied.id)
    }

    /// Only once, however often a run is resumed.
    fn enter_in_ledger(&self, name: &str, knob: &TriedKnob) -> Result<()> {
        let note = format!("ledger-{name}.json");
        let (target, workload) = (&self.asked.target, &self.asked.workload.name);
        let entry = |run: &str| entry_of(target, workload, knob, run);
        ledger::enter_once(self.folder, &note, Some(&knob.comparison), entry, self.progress)
    }

    fn trial(
        &self,
        tried: Vec<TriedKnob>,
        together: Option<TriedKnob>,
        left_in_force: Option<String>,
    ) -> Result<HostTrial> {
        let asked = self.asked;
        let named =
            tried.iter().flat_map(|knob| &knob.comparison.pairs).find(|pair| !pair.window_a.is_empty());
        let first = named.map(|pair| self.window(&pair.window_a)).transpose()?;
        let client = first.iter().flat_map(|window| &window.client).map(|client| client.software.clone());
        let broker = first.iter().filter_map(|window| window.environment.as_ref()?.broker_software.clone());
        Ok(HostTrial {
            target: asked.target.clone(),
            load: hone_report::load::load_text(&asked.workload),
            workload: asked.workload.clone(),
            profile: asked.profile.clone(),
            rule: asked.rule(),
            settle_s: asked.settle_s,
            factorial: !asked.acks.is_empty(),
            tried,
            untried: asked.untried.clone(),
            together,
            left_in_force,
            limits: asked.limits.clone(),
            machine: hone_host::observe::machine(Path::new("/")),
            software: client
                .map(|client| ("client".to_owned(), client))
                .chain(broker.map(|broker| ("broker".to_owned(), broker)))
                .collect::<BTreeMap<_, _>>(),
        })
    }
}

/// Name of the helpful settings together.
const TOGETHER: &str = "all helpful settings";
