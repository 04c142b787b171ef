//! Training: Hone loads an instrumented program and stops it, so that it writes its counts to disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_binary::capture::{
    CaptureRefusal, Dump, Idle, ProfileFiles, ProfileKind, SlowDown, Tally, build_preload, dump_env,
    let_all_write, preload_env,
};
use hone_binary::{Builder, Built, Refusal};
use hone_record::{Engine, Outcome, Window, Workload};
use hone_tool::{Tool, interrupt};
use serde::{Deserialize, Serialize};

use super::check::trouble_of;
use super::steps::Told;
use crate::job::Job;
use crate::outcome::Left;
use hone_experiment::arm::{Arm, Place, Reset};
use hone_experiment::bench;
use hone_experiment::slow;
use hone_experiment::spec::Training;

/// A failed training costs its profile. An error that says nothing about the program stays unchanged, as does a refusal.
pub(super) fn failed(error: anyhow::Error) -> anyhow::Error {
    match trouble_of(error) {
        Ok(why) => Left(format!("the training failed: {why}")).into(),
        Err(error) => error,
    }
}

/// An instrumented program.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Counting {
    pub(super) variant: String,
    pub(super) program: PathBuf,
    pub(super) env: Vec<(OsString, OsString)>,
    /// The files of its counts.
    pub(super) files: ProfileFiles,
    /// Seconds between its periodic writes.
    pub(super) every_s: Option<u32>,
    /// Turns death by a signal into an orderly exit.
    pub(super) preload: Option<PathBuf>,
    /// It contains the dump object, which is switched on.
    pub(super) dumps: bool,
    /// How to set its counters to 0.
    pub(super) reset: Reset,
    /// Its counts without a load.
    pub(super) idle: Option<Idle>,
    /// The cost of a request, relative to the plain program.
    pub(super) slow: Option<SlowDown>,
}

/// Sums up the counts of an instrumented program.
pub(super) type Sum<'a> = &'a dyn Fn() -> Result<Tally>;

/// One training.
#[derive(Debug, Clone)]
pub(super) struct Trained {
    /// The load, and what was lost.
    pub(super) words: String,
    /// The load as it ran, and the part of it that was counted.
    pub(super) load: String,
}

/// The folders with the counts of the training workloads, in their order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Raw {
    pub(super) folders: Vec<PathBuf>,
    /// Without training: the user supplied the file.
    pub(super) is_given: bool,
    /// The loads, in words.
    pub(super) loads: Vec<String>,
}

/// A rehearsal leaves the program idle for this long, to separate the counts of an idle program from those of the load. Timers of a second
/// must have run.
const IDLE: Duration = Duration::from_millis(1500);

/// If the start counts too, a rehearsal of this length comes first: the difference is the idle rate.
const SHORTER_IDLE: Duration = Duration::from_millis(500);

/// Until its slowdown is known, an instrumented program gets this many times its start-up time.
const TO_BE_READY: f64 = 4.0;

impl Job<'_> {
    /// Trains an instrumented build with each workload. Each workload leaves its counts in its own folder.
    pub(super) fn train(
        &self,
        builder: &dyn Builder,
        plain: &Built,
        counting: &Built,
        round: &str,
    ) -> Result<Told<Raw>> {
        let (mut raw, mut words) =
            (Raw { folders: Vec::new(), is_given: false, loads: Vec::new() }, Vec::new());
        let mut first: Option<Counting> = None;
        for training in &self.experiment.training {
            let folder = self.raw_folder(round, &training.workload.name)?;
            let sum = || builder.tally(&folder, counting);
            let mut one = Counting {
                variant: counting.variant.clone(),
                program: counting.executable.clone(),
                env: builder.training_env(&folder),
                files: builder.profile_files(counting, &folder),
                every_s: None,
                preload: None,
                dumps: builder.has_dump_object(counting) && self.target().dump_signal.is_none(),
                reset: Reset::Not,
                idle: None,
                slow: None,
            };
            match &first {
                None => {
                    if let Err(trouble) = self.rehearse(&mut one, &sum)? {
                        bail!(trouble);
                    }
                }
                Some(first) => {
                    let Counting { preload, dumps, reset, idle, .. } = first.clone();
                    one = Counting { preload, dumps, reset, idle, ..one };
                }
            }
            first.get_or_insert_with(|| one.clone());
            let trained = self.train_with(plain, &mut one, training, &sum)?;
            words.push(trained.words);
            raw.loads.push(trained.load);
            raw.folders.push(folder);
        }
        Ok(Told { note: words.join("; "), command: None, result: raw })
    }

    /// All training loads, in words.
    pub(super) fn loads_in_words(&self) -> Vec<String> {
        let words = |training: &Training| hone_report::load::load_text(&training.workload);
        self.experiment.training.iter().map(words).collect()
    }

    pub(super) fn raw_folder(&self, round: &str, workload: &str) -> Result<PathBuf> {
        let raw = self.folder.join("profile-raw").join(round).join(workload);
        if raw.exists() {
            fs::remove_dir_all(&raw).with_context(|| format!("{} can't be removed", raw.display()))?;
        }
        fs::create_dir_all(&raw).with_context(|| format!("{} can't be made", raw.display()))?;
        self.open_to_its_user(&raw)?;
        Ok(raw)
    }

    /// A server that gives up root's rights writes its counts as another user.
    pub(super) fn open_to_its_user(&self, folder: &Path) -> Result<()> {
        let told = || format!("the rights of {} can't be set", folder.display());
        let folder = folder.canonicalize().with_context(told)?;
        let run = self.folder.path().canonicalize().with_context(told)?;
        let_all_write(&folder, &run).with_context(told)
    }

    /// Starts an instrumented program, stops it, and checks that it writes its counts, so that no one trains for an hour in vain. A program
    /// that dies of its signal gets a preload, unless it has the dump object. The inner error is the refusal if that does not help. The
    /// counts of the rehearsal are those of an idle program.
    pub(super) fn rehearse(&self, counting: &mut Counting, sum: Sum<'_>) -> Result<Result<(), Refusal>> {
        if self.experiment.training.iter().all(|training| is_of_exits(&training.workload)) {
            counting.dumps = false;
            return Ok(Ok(()));
        }
        if counting.dumps {
            let why = match self.start_and_stop(counting, sum) {
                Ok(Ok(())) => return Ok(Ok(())),
                Err(error) if interrupt::requested() => return Err(error),
                Ok(Err(refusal)) => refusal.to_string().lines().next().unwrap_or_default().to_owned(),
                Err(error) => crate::outcome::in_a_line(&error),
            };
            self.progress.line(&format!("  {} runs without the dump object: {why}", counting.variant));
            counting.dumps = false;
        }
        let refusal = match self.start_and_stop(counting, sum)? {
            Ok(()) => return Ok(Ok(())),
            Err(refusal) => refusal,
        };
        // Only if there is a compiler for it; a finished program has no other remedy.
        let Some(compiler) =
            ["cc", "clang", "gcc"].iter().find_map(|name| Tool::new(name, "").locate(&[]).ok())
        else {
            return Ok(Err(refusal));
        };
        let preload = build_preload(self.runner, compiler.path(), &self.folder.join("aids"))?;
        counting.preload = Some(preload);
        let stopped = match self.start_and_stop(counting, sum)? {
            Ok(()) => self.load_and_stop(counting)?,
            refused => refused,
        };
        match stopped {
            Ok(()) => {
                self.progress.line(&format!(
                    "  {} writes no profile when Hone stops it; with the preload it does",
                    counting.variant
                ));
                Ok(Ok(()))
            }
            Err(_) => {
                counting.preload = None;
                Ok(Err(refusal))
            }
        }
    }

    /// The preload makes a program run new code: its destructors, while its threads run. An idle program may survive that where a busy one
    /// does not. A short form of the load shows it before the whole load does.
    fn load_and_stop(&self, counting: &Counting) -> Result<Result<(), Refusal>> {
        let loads = self.experiment.training.iter().map(|training| &training.workload);
        let Some(load) = loads.filter_map(slow::sample).find(|load| !is_of_exits(load)) else {
            return Ok(Ok(()));
        };
        counting.clear()?;
        let how =
            bench::Training { files: counting.files.clone(), dump: counting.dump(), reset: counting.reset };
        let trained = self.bench().train(&self.counting_arm(counting), &slow::fitted(&load, None), how);
        counting.clear()?;
        match trained {
            Err(error) if interrupt::requested() => Err(error),
            // The training will show a failure of the load itself.
            Err(error) => Ok(unwritten(&error).map_or(Ok(()), Err)),
            Ok(_) => Ok(Ok(())),
        }
    }

    fn start_and_stop(&self, counting: &mut Counting, sum: Sum<'_>) -> Result<Result<(), Refusal>> {
        counting.idle = None;
        counting.reset = counting.resets_by(self.target().reset.is_some());
        let shorter = if counting.reset == Reset::Not {
            match self.left_idle(counting, sum, SHORTER_IDLE)? {
                Ok(shorter) => Some(shorter),
                Err(refusal) => return Ok(Err(refusal)),
            }
        } else {
            None
        };
        Ok(self.left_idle(counting, sum, IDLE)?.map(|(tally, counted_s)| {
            counting.idle = Some(Idle { tally, counted_s, shorter });
        }))
    }

    /// The counts of an instrumented program that idles for this long, and the seconds that it counted.
    fn left_idle(
        &self,
        counting: &Counting,
        sum: Sum<'_>,
        length: Duration,
    ) -> Result<Result<(Tally, f64), Refusal>> {
        counting.clear()?;
        let mut running = self.counting_arm(counting).start(self.runner, &self.folder.scratch())?;
        if counting.dumps && running.handles(&[libc::SIGUSR1, libc::SIGUSR2]) {
            running.stop(self.runner)?;
            bail!("it uses SIGUSR1 or SIGUSR2 itself");
        }
        running.reset(self.runner, counting.reset)?;
        let began = Instant::now();
        thread::sleep(length);
        let counted_s = began.elapsed().as_secs_f64();
        let stopped = running.stop_with_profile(self.runner, counting.files.clone(), counting.dump());
        let left = if stopped.is_ok() { sum()? } else { Tally::default() };
        counting.clear()?;
        match stopped {
            Ok(_) => Ok(Ok((left, counted_s))),
            Err(error) => match unwritten(&error) {
                Some(refusal) if !interrupt::requested() => Ok(Err(refusal)),
                _ => Err(error),
            },
        }
    }

    fn counting_arm(&self, counting: &Counting) -> Arm {
        let mut env = counting.env.clone();
        if let Some(preload) = &counting.preload {
            let already = self.target().env.get("LD_PRELOAD").map(OsString::from);
            env.push(preload_env(preload, already.as_deref()));
        }
        if counting.dumps {
            env.push(dump_env());
        }
        let env = env.into_iter().map(|(name, value)| (name.to_string_lossy().into_owned(), value));
        let mut arm = self.arm(&counting.variant, &counting.program, env.collect());
        if let Place::Program(program) = &mut arm.place {
            let times = counting.slow.map_or(1.0, SlowDown::factor);
            program.ready_timeout = program.ready_timeout.mul_f64(times.max(TO_BE_READY));
            program.stop_timeout = program.stop_timeout.mul_f64(times);
        }
        arm
    }

    /// One training. Excludes the counts before the load if the target can reset them. Hone adapts the load to a program that is slower
    /// than the plain one.
    pub(super) fn train_with(
        &self,
        plain: &Built,
        counting: &mut Counting,
        training: &Training,
        sum: Sum<'_>,
    ) -> Result<Trained> {
        let wanted = &training.workload;
        let plain = self.arm(&plain.variant, &plain.executable, BTreeMap::new());
        counting.slow = slow::slow_down(&self.bench(), &plain, &self.counting_arm(counting), wanted)?;
        counting.clear()?;
        let load = slow::fitted(wanted, counting.slow);
        let how =
            bench::Training { files: counting.files.clone(), dump: counting.dump(), reset: counting.reset };
        let trained = self.bench().train(&self.counting_arm(counting), &load, how);
        let (window, stop) = trained.map_err(failed)?;
        if let Some(idle) = counting.idle.as_ref().filter(|_| !is_of_exits(wanted)) {
            sum()?.reached(idle, window.duration_s).map_err(Refusal::from)?;
        }
        let counted = counted_words(wanted, counting.reset);
        let words = format!(
            "{}{}; {counted}{}",
            trained_words(&window),
            slow::words(wanted, counting.slow),
            stop.lost
        );
        let load = hone_report::load::load_text(&load);
        let load =
            if counted.is_empty() { load } else { format!("{load}; {}", counted.trim_end_matches("; ")) };
        Ok(Trained { words, load })
    }
}

impl Counting {
    /// Files of an earlier training must not pass for those of this one.
    fn clear(&self) -> Result<()> {
        for file in self.files.snapshot()?.into_keys() {
            fs::remove_file(&file).with_context(|| format!("{} can't be removed", file.display()))?;
        }
        Ok(())
    }

    fn dump(&self) -> Dump {
        match self.every_s {
            Some(seconds) => Dump::Every { seconds },
            None if self.dumps => Dump::Signal(libc::SIGUSR2),
            None => Dump::None,
        }
    }

    /// The target's own command handles the compiler's counters, but not BOLT's.
    fn resets_by(&self, has_command: bool) -> Reset {
        match self.files.kind {
            ProfileKind::Llvm | ProfileKind::Gcov if has_command => Reset::Own,
            ProfileKind::Llvm | ProfileKind::Gcov if self.dumps => Reset::Signal,
            _ => Reset::Not,
        }
    }
}

fn is_of_exits(load: &Workload) -> bool {
    matches!(load.engine, Engine::Exits { .. })
}

/// Refuses a program whose counts do not reach the disk.
fn unwritten(error: &anyhow::Error) -> Option<Refusal> {
    let refusal = error.downcast_ref::<Refusal>();
    let is_of_files = |refusal: &&Refusal| {
        matches!(
            refusal,
            Refusal::Capture(
                CaptureRefusal::NothingWritten { .. }
                    | CaptureRefusal::SomeEmpty { .. }
                    | CaptureRefusal::RuntimeFailed { .. }
            )
        )
    };
    refusal.filter(is_of_files).cloned()
}

/// The other parts of a training in the profile, besides the load, as the beginning of a sentence.
fn counted_words(load: &Workload, reset: Reset) -> String {
    let parts: &[&str] = match &load.engine {
        Engine::Exits { .. } => return String::new(),
        Engine::Tool { populate: Some(_), warmup: Some(_), .. } => &["the filling", "the warm-up"],
        Engine::Tool { populate: Some(_), .. } => &["the filling"],
        Engine::Tool { warmup: Some(_), .. } => &["the warm-up"],
        Engine::Tool { .. } => &[],
        _ if load.warmup_requests > 0 => &["the warm-up"],
        _ => &[],
    };
    let all: Vec<&str> = std::iter::once("the start-up").chain(parts.iter().copied()).collect();
    let verb = if all.len() > 1 { "are" } else { "is" };
    let where_it_is = if reset == Reset::Not { "in the profile" } else { "not in the profile" };
    match all.split_last() {
        Some((last, [])) => format!("{last} {verb} {where_it_is}; "),
        Some((last, rest)) => format!("{} and {last} {verb} {where_it_is}; ", rest.join(", ")),
        None => String::new(),
    }
}

fn trained_words(window: &Window) -> String {
    let what = if window.workload.engine.operations().is_some() { "operations" } else { "requests" };
    format!(
        "{} {what} of workload `{}` acknowledged{}",
        hone_format::count(window.facts.acked_requests),
        window.workload.name,
        match window.outcome {
            Outcome::Steady => "",
            Outcome::GeneratorLate { .. } =>
                " (the generator fell behind the rate, which does not affect the profile)",
            _ => " (the instrumented program fell behind the rate, which does not affect the profile)",
        }
    )
}
