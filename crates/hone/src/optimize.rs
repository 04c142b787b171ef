//! A target taken through profile-guided optimisation, step by step. Each step ends in a file; a run that was broken
//! off goes on behind the last one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use hone_binary::{Built, CargoTarget, Merged, Pgo, Proven, Workshop as _, profile_env};
use hone_compare::Plan;
use hone_ledger::Ledger;
use hone_load::{Security, Settings, Topic, smoke_test};
use hone_record::{
    Artifact, Ceiling, Comparison, Design, Durability, LedgerEntry, Mode, Optimization, Outcome,
    ProfileApplied, SmokeTest, StepReceipt, Verdict, Window, Workload,
};
use hone_tool::{Runner, StopSignal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Place, Program};
use crate::clients::Clients;
use crate::drive::{Contest, compare, whole};
use crate::experiment::{Compare, Experiment, Target};
use crate::folder::RunFolder;
use crate::places::Places;
use crate::probe::TargetProbe;
use crate::progress::Progress;
use crate::show;

/// What an optimisation needs.
pub(crate) struct Job<'a> {
    pub(crate) experiment: &'a Experiment,
    /// The experiment file.
    pub(crate) file: &'a Path,
    pub(crate) folder: &'a RunFolder,
    /// Where builds and the ledger of all runs are kept.
    pub(crate) home: &'a Path,
    pub(crate) runner: &'a dyn Runner,
    pub(crate) progress: &'a Progress,
}

/// A finished step on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Finished<T> {
    receipt: StepReceipt,
    result: T,
}

/// What a step brings: its result, and what is told of it.
struct Told<T> {
    result: T,
    note: String,
    command: Option<String>,
}

/// A probe of the ceiling needs no long window: user and system time of seconds of CPU are enough.
const CEILING_PROBE_S: f64 = 3.0;
/// CPU that the tick counters need before they tell user from kernel.
const USER_SHARE_NEEDS_S: f64 = 0.1;
/// Nobody should wait longer for a ceiling.
const CEILING_PROBE_LIMIT_S: f64 = 60.0;
/// Batches a partition for the smoke test.
const SMOKE_BATCHES: u32 = 10;

const BASELINE: &str = "baseline";
const OPTIMIZED: &str = "pgo";

/// Carries out every step that is not done yet.
///
/// # Errors
/// With the step that failed. What was measured and built before stays; `--resume` goes on behind it.
pub(crate) fn optimize(job: &Job<'_>) -> Result<Optimization> {
    let begun_ms = now_ms();
    let design = design(&job.experiment.compare)?;
    let pgo = Pgo::prepare(job.runner, job.cargo_target()?, &job.work())?;
    let _alone = job.lock_builds()?;
    let mut steps = Steps { job, receipts: Vec::new() };

    let baseline = steps.run("build-baseline", || job.build(BASELINE, || pgo.build_baseline()))?;
    let started_unix_ms = steps.quiet("start", || Ok(begun_ms))?;
    let ceilings = steps.run("ceiling", || job.ceilings(&baseline))?;
    let instrumented =
        steps.run("build-instrumented", || job.build("instrumented", || pgo.build_instrumented()))?;
    let _trained: Window = steps.run("train", || job.train(&instrumented))?;
    let (merged, proven) = steps.run("prove-profile", || job.prove_profile(&pgo, &instrumented))?;
    job.forget_other_builds(&merged)?;
    let optimized = steps.run("build-pgo", || job.build(OPTIMIZED, || pgo.build_optimized(&merged)))?;
    let applied = steps.run("prove-applied", || job.prove_applied(&pgo, &optimized, &baseline, &proven))?;
    let smoke = steps.run("smoke-test", || job.smoke(&optimized))?;
    let comparisons = job.judge(&mut steps, &design, &baseline, &optimized)?;

    let mut artifacts =
        vec![pgo.artifact(&baseline, None), pgo.artifact(&optimized, Some((&proven, &applied)))];
    if let Some(artifact) = artifacts.last_mut() {
        artifact.smoke = Some(smoke);
    }
    let found = job.optimization(steps.receipts, ceilings, artifacts, comparisons, started_unix_ms);
    job.folder.write_record("optimization.json", found.clone())?;
    job.enter_in_ledger(&found)?;
    Ok(found)
}

/// The steps with their receipts, in order.
struct Steps<'a> {
    job: &'a Job<'a>,
    receipts: Vec<StepReceipt>,
}

impl Steps<'_> {
    /// Runs a step, or takes its result from the file that an earlier attempt left.
    fn run<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<Told<T>>,
    ) -> Result<T> {
        let file = format!("steps/{name}.json");
        let progress = self.job.progress;
        if let Some(Finished { receipt, result }) = self.job.folder.read_note::<Finished<T>>(&file)? {
            progress.line(&format!("{name:<19} done before: {}", receipt.note));
            self.receipts.push(receipt);
            return Ok(result);
        }
        progress.doing(name);
        let start = Instant::now();
        let told = step().with_context(|| format!("step {name}"))?;
        let took_s = start.elapsed().as_secs_f64();
        progress.line(&format!("{name:<19} {:>6.1} s  {}", took_s, told.note));
        let receipt = StepReceipt { step: name.to_owned(), took_s, command: told.command, note: told.note };
        let finished = Finished { receipt, result: told.result };
        self.job.folder.write_note(&file, &finished)?;
        self.receipts.push(finished.receipt);
        Ok(finished.result)
    }

    /// A value that is found once and needs no receipt.
    fn quiet<T: Serialize + DeserializeOwned>(
        &mut self,
        name: &str,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let file = format!("steps/{name}.json");
        if let Some(value) = self.job.folder.read_note(&file)? {
            return Ok(value);
        }
        let value = step()?;
        self.job.folder.write_note(&file, &value)?;
        Ok(value)
    }
}

/// The pairs and the rule, the same for every judging workload.
///
/// # Errors
/// When the experiment asks for something that can give no interval.
pub(crate) fn design(settings: &Compare) -> Result<Design> {
    Ok(hone_compare::plan(&Plan {
        mode: settings.mode,
        places: settings.mode == Mode::Duet && settings.places && Places::halves().is_some(),
        pairs: settings.pairs,
        control_pairs: settings.control_pairs,
        primary: settings.primary,
        guards: settings.guards.clone(),
        alpha: settings.alpha,
        equivalence: settings.equivalence,
        seed: settings.seed,
        builds: [1, 1],
        pilot_pairs: 0,
        requests_per_window: None,
        refused: Default::default(),
        disturbance: Some(hone_compare::disturbance(settings.mode)),
        both_controls: false,
    })?)
}

impl Job<'_> {
    /// Two runs of one experiment at a time would remove each other's builds.
    fn lock_builds(&self) -> Result<fs::File> {
        let path = self.work().join(".lock");
        let file = fs::File::create(&path).with_context(|| format!("{} can't be made", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(fs::TryLockError::WouldBlock) => bail!(
                "another run of `{}` is building in {}; wait for its end, or give this one another --output",
                self.experiment.name,
                self.work().display()
            ),
            Err(fs::TryLockError::Error(error)) => {
                Err(error).with_context(|| format!("{} can't be locked", path.display()))
            }
        }
    }

    fn target(&self) -> &Target {
        &self.experiment.target
    }

    /// Builds are kept between runs, so that a second run does not compile the same sources again.
    fn work(&self) -> PathBuf {
        self.home.join("builds").join(&self.experiment.name)
    }

    fn cargo_target(&self) -> Result<CargoTarget> {
        let target = self.target();
        let manifest = self.file.parent().unwrap_or(Path::new(".")).join(&target.manifest);
        let manifest = manifest.canonicalize().with_context(|| {
            format!(
                "{}: target.manifest names {}, which is not there",
                self.file.display(),
                manifest.display()
            )
        })?;
        let folder =
            if manifest.is_dir() { manifest } else { manifest.parent().unwrap_or(&manifest).to_owned() };
        Ok(CargoTarget {
            package: Some(target.package.clone()),
            profile: target.profile.clone(),
            features: target.features.clone(),
            c_code: target.c_code,
            ..CargoTarget::new(folder, &target.bin)
        })
    }

    /// A build, with the program copied into the run's folder: what was measured stays what it was.
    fn build(&self, variant: &str, build: impl FnOnce() -> Result<Built>) -> Result<Told<Built>> {
        let mut built = build()?;
        let times = BuildTimes::open(self.work().join("build-times.json"));
        let note = if built.fresh {
            if let Some(earlier_s) = times.of(&built.facts.sha256) {
                built.build_s = earlier_s;
            }
            format!("up to date; built in {:.1} s before", built.build_s)
        } else {
            times.remember(&built.facts.sha256, built.build_s)?;
            format!("built in {:.1} s", built.build_s)
        };
        let bin = self.folder.join("bin").join(variant);
        let kept = bin.join(&self.target().bin);
        fs::create_dir_all(&bin).and_then(|()| fs::copy(&built.executable, &kept)).with_context(|| {
            format!("{} can't be copied to {}", built.executable.display(), kept.display())
        })?;
        built.executable = kept;
        let sizes = format!(
            "file {}, .text {}",
            show::bytes(built.facts.file_bytes),
            show::bytes(built.facts.text_bytes)
        );
        Ok(Told { note: format!("{note}; {sizes}"), command: Some(built.command()), result: built })
    }

    /// Old profiles' builds are of no use to anybody and large.
    fn forget_other_builds(&self, merged: &Merged) -> Result<()> {
        let keep = merged.sha256.get(..16).unwrap_or(&merged.sha256);
        for entry in fs::read_dir(self.work())? {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.strip_prefix("pgo-").is_some_and(|hash| hash != keep) {
                fs::remove_dir_all(&path).with_context(|| format!("{} can't be removed", path.display()))?;
            }
        }
        Ok(())
    }

    fn arm(&self, name: &str, path: &Path, env: BTreeMap<String, OsString>) -> Arm {
        let target = self.target();
        let mut all: BTreeMap<String, OsString> =
            target.env.iter().map(|(name, value)| (name.clone(), value.into())).collect();
        all.extend(env);
        let program = Program {
            path: path.to_owned(),
            args: target.args.clone(),
            env: all,
            address: target.address.clone(),
            ready_timeout: Duration::from_secs_f64(target.ready_timeout_s),
            stop_timeout: Duration::from_secs_f64(target.stop_timeout_s),
        };
        Arm { name: name.to_owned(), place: Place::Program(program), security: Security::default() }
    }

    /// One window of one variant, started and stopped for it.
    fn window(&self, arm: &Arm, workload: &Workload) -> Result<(Window, StopSignal)> {
        let mut running = arm.start(self.runner, &self.folder.scratch())?;
        let settings = Settings {
            address: running.address.clone(),
            variant: arm.name.clone(),
            storage: self.target().storage.clone(),
            topic: Topic::Fresh,
            lateness_limit_us: self.experiment.compare.lateness_limit_ms * 1e3,
            shard: None,
            security: arm.security.clone(),
        };
        let clients = Clients::within(self.runner, self.folder.scratch());
        let prepared = hone_load::prepare(settings, workload.clone(), &clients, &mut self.progress.load())?;
        let mut probe = TargetProbe::new(running.targets(prepared.brokers()), &[]);
        let window = whole(prepared.run(Instant::now(), &mut probe, &mut self.progress.load())?)?;
        running.check_alive()?;
        let stopped = running.stop()?;
        if let Outcome::Failed { reason } = &window.outcome {
            bail!("{} failed under workload `{}`: {reason}", arm.name, workload.name);
        }
        Ok((window, stopped.map_or(StopSignal::AlreadyExited, |stopped| stopped.signal)))
    }

    /// How much a build can bring at most, before anyone waits for one.
    fn ceilings(&self, baseline: &Built) -> Result<Told<Vec<Ceiling>>> {
        let arm = self.arm(BASELINE, &baseline.executable, BTreeMap::new());
        let mut found = Vec::new();
        for workload in &self.experiment.judging {
            found.push(self.ceiling(&arm, workload)?);
        }
        let note = found.iter().map(|ceiling| format!("{}: {}", ceiling.workload, ceiling.words));
        Ok(Told { note: note.collect::<Vec<_>>().join("; "), command: None, result: found })
    }

    /// Probes for as long as it takes to tell user from kernel.
    fn ceiling(&self, arm: &Arm, workload: &Workload) -> Result<Ceiling> {
        let mut probe_s = CEILING_PROBE_S;
        loop {
            let (window, _) = self.window(arm, &Workload { duration_s: probe_s, ..workload.clone() })?;
            let cpu = window.facts.target_cpu.context("the CPU of the started program could not be read")?;
            if let Some(user_share) = cpu.user_share {
                return Ok(ceiling(&window, cpu.total_s, user_share));
            }
            let needed_s = 1.5 * probe_s * USER_SHARE_NEEDS_S / cpu.total_s.max(1e-6);
            if needed_s > CEILING_PROBE_LIMIT_S {
                bail!(
                    "workload `{}` made {} use only {:.3} s of CPU in {probe_s:.0} s, too little to tell user from \
                     kernel; ask for more requests per second",
                    workload.name,
                    self.target().bin,
                    cpu.total_s
                );
            }
            probe_s = needed_s.max(2.0 * probe_s);
        }
    }

    /// Loads the instrumented program with the training workload and stops it so that the profile is written.
    fn train(&self, instrumented: &Built) -> Result<Told<Window>> {
        let raw = self.raw_profiles();
        if raw.exists() {
            fs::remove_dir_all(&raw).with_context(|| format!("{} can't be removed", raw.display()))?;
        }
        fs::create_dir_all(&raw).with_context(|| format!("{} can't be made", raw.display()))?;
        let (name, value) = profile_env(&raw);
        let env = BTreeMap::from([(name.to_string_lossy().into_owned(), value)]);
        let arm = self.arm("instrumented", &instrumented.executable, env);
        let (window, signal) = self.window(&arm, &self.experiment.training)?;
        if signal == StopSignal::Kill {
            bail!(
                "the instrumented program ignored SIGTERM for {} s and was killed, so its profile is lost; make it end \
                 on SIGTERM by returning from main or by exit(), or raise target.stop_timeout_s",
                self.target().stop_timeout_s
            );
        }
        let note = format!(
            "{} requests of workload `{}` acknowledged{}",
            show::number(window.facts.acked_requests as f64),
            self.experiment.training.name,
            match window.outcome {
                Outcome::Steady => "",
                Outcome::GeneratorLate { .. } =>
                    " (the generator could not keep the rate, which a profile does not need)",
                _ => " (the instrumented program could not keep the rate, which a profile does not need)",
            }
        );
        Ok(Told { note, command: None, result: window })
    }

    fn raw_profiles(&self) -> PathBuf {
        self.folder.join("profile-raw")
    }

    fn prove_profile(&self, pgo: &Pgo<'_>, instrumented: &Built) -> Result<Told<(Merged, Proven)>> {
        let merged = pgo.merge(&[(self.raw_profiles(), 1.0)])?;
        let proven = pgo.prove_profile(&merged, instrumented)?;
        let proof = &proven.proof;
        let hottest = proof.hot_functions.first().map_or("-", |function| function.name.as_str());
        let note = format!(
            "{} level, {} functions, largest count {}, hottest {hottest}, sha256 {}",
            proof.level,
            show::number(proof.functions as f64),
            show::number(proof.max_count as f64),
            proof.sha256.get(..12).unwrap_or(&proof.sha256)
        );
        Ok(Told { note, command: Some(merged.command.clone()), result: (merged, proven) })
    }

    fn prove_applied(
        &self,
        pgo: &Pgo<'_>,
        optimized: &Built,
        baseline: &Built,
        proven: &Proven,
    ) -> Result<Told<ProfileApplied>> {
        let applied = pgo.prove_applied(optimized, baseline, proven)?;
        let note = format!(
            "{:.2} % of the profile's weight discarded ({} functions), {} functions without a profile",
            applied.discarded_weight * 100.0,
            applied.discarded_functions,
            show::number(applied.missing_functions as f64)
        );
        Ok(Told { note, command: None, result: applied })
    }

    /// Produces and reads back under every judging workload.
    fn smoke(&self, optimized: &Built) -> Result<Told<SmokeTest>> {
        let arm = self.arm(OPTIMIZED, &optimized.executable, BTreeMap::new());
        let running = arm.start(self.runner, &self.folder.scratch())?;
        let mut all = SmokeTest { what: String::new(), records: 0, passed: true, difference: None };
        for workload in &self.experiment.judging {
            let tested = smoke_test(&running.address, workload, SMOKE_BATCHES)
                .with_context(|| format!("workload `{}`", workload.name))?;
            if let Some(difference) = &tested.difference {
                bail!(
                    "the optimised program is not correct under workload `{}`: {difference}",
                    workload.name
                );
            }
            all.records += tested.records;
            all.what.push_str(&format!(
                "{}{}: {}",
                if all.what.is_empty() { "" } else { "; " },
                workload.name,
                tested.what
            ));
        }
        running.stop()?;
        let note =
            format!("{} records written and read back, byte for byte", show::number(all.records as f64));
        Ok(Told { note, command: None, result: all })
    }

    fn judge(
        &self,
        steps: &mut Steps<'_>,
        design: &Design,
        baseline: &Built,
        optimized: &Built,
    ) -> Result<Vec<Comparison>> {
        let machine = hone_host::observe::machine(Path::new("/"));
        let settings = &self.experiment.compare;
        let mut comparisons = Vec::new();
        for workload in &self.experiment.judging {
            let contest = Contest {
                names: [BASELINE, OPTIMIZED].map(str::to_owned),
                builds: [
                    vec![self.arm(BASELINE, &baseline.executable, BTreeMap::new())],
                    vec![self.arm(OPTIMIZED, &optimized.executable, BTreeMap::new())],
                ],
                workloads: [workload.clone(), workload.clone()],
                change: None,
                lever: None,
                design: design.clone(),
                pilot: None,
                clock: None,
                storage: self.target().storage.clone(),
                lateness_limit_us: settings.lateness_limit_ms * 1e3,
                folder: self.folder,
                prefix: format!("judge-{}/", workload.name),
                runner: self.runner,
                machine: machine.clone(),
            };
            let told = || {
                let comparison = compare(&contest, self.progress)?;
                Ok(Told { note: show::comparison::sentence(&comparison), command: None, result: comparison })
            };
            comparisons.push(steps.run(&format!("judge-{}", workload.name), told)?);
        }
        Ok(comparisons)
    }

    fn optimization(
        &self,
        steps: Vec<StepReceipt>,
        ceilings: Vec<Ceiling>,
        artifacts: Vec<Artifact>,
        comparisons: Vec<Comparison>,
        started_unix_ms: u64,
    ) -> Optimization {
        let acks = self.experiment.judging.first().map_or(-1, |workload| workload.acks);
        Optimization {
            name: self.experiment.name.clone(),
            experiment: self.file.display().to_string(),
            hone_version: env!("CARGO_PKG_VERSION").to_owned(),
            machine: hone_host::observe::machine(Path::new("/")),
            training: self.experiment.training.clone(),
            durability: Durability { acks, storage: self.target().storage.clone() },
            ceilings,
            artifacts,
            comparisons,
            steps,
            started_unix_ms,
        }
    }

    /// One line for each judging workload; once, however often a run is resumed.
    fn enter_in_ledger(&self, found: &Optimization) -> Result<()> {
        let ledger = Ledger::open(self.home.join("ledger.jsonl"))?;
        let decision = decision(&found.comparisons);
        for comparison in &found.comparisons {
            let note = format!("steps/ledger-{}.json", comparison.workload.name);
            if self.folder.read_note::<bool>(&note)?.is_none() {
                ledger.append(&entry(found, comparison, decision, self.folder.path()))?;
                self.folder.write_note(&note, &true)?;
            }
        }
        Ok(())
    }
}

/// Keep a change that makes the first workload better and none worse.
pub(crate) fn decision(comparisons: &[Comparison]) -> &'static str {
    let better = comparisons.first().is_some_and(|first| first.verdict() == Verdict::Better);
    let harm = comparisons.iter().any(|comparison| comparison.verdict() == Verdict::Worse);
    if better && !harm { "keep" } else { "drop" }
}

fn entry(found: &Optimization, comparison: &Comparison, decision: &str, run: &Path) -> LedgerEntry {
    let primary = comparison.primary().map(|judgement| &judgement.estimate);
    LedgerEntry {
        at_unix_ms: now_ms(),
        experiment: found.name.clone(),
        change: "binary: pgo".to_owned(),
        workload: comparison.workload.name.clone(),
        metric: comparison.design.rule.primary,
        ratio: primary.map(|estimate| [estimate.ratio, estimate.low, estimate.high]),
        verdict: comparison.verdict(),
        decision: decision.to_owned(),
        why: show::comparison::sentence(comparison),
        profile_sha256: found
            .artifacts
            .iter()
            .find_map(|artifact| Some(artifact.profile.as_ref()?.sha256.clone())),
        run: run.display().to_string(),
    }
}

/// The kernel's share of a target's CPU is out of reach of every build of the target.
fn ceiling(window: &Window, cpu_s: f64, user_share: f64) -> Ceiling {
    let cpu_us_per_record = cpu_s * 1e6 / window.facts.acked_records.max(1) as f64;
    let words = format!(
        "{:.0} % of the CPU is user code; a build can save at most that, the other {:.0} % are the kernel's",
        user_share * 100.0,
        (1.0 - user_share) * 100.0
    );
    Ceiling { workload: window.workload.name.clone(), cpu_us_per_record, user_share, words }
}

/// How long the builds that are still there took, by the hash of their program.
struct BuildTimes {
    path: PathBuf,
    times: BTreeMap<String, f64>,
}

impl BuildTimes {
    /// A file that is not there or not readable knows no times.
    fn open(path: PathBuf) -> Self {
        let times = fs::read_to_string(&path).ok().and_then(|text| serde_json::from_str(&text).ok());
        Self { path, times: times.unwrap_or_default() }
    }

    fn of(&self, sha256: &str) -> Option<f64> {
        self.times.get(sha256).copied()
    }

    fn remember(mut self, sha256: &str, build_s: f64) -> Result<()> {
        self.times.insert(sha256.to_owned(), build_s);
        fs::write(&self.path, serde_json::to_string_pretty(&self.times)?)
            .with_context(|| format!("{} can't be written", self.path.display()))
    }
}

fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
