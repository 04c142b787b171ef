//! The cache of a variant: trained by the training workloads, checked at a start, and kept with all that it depends on.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_binary::lock::sha256_of;
use hone_experiment::arm::{Arm, Place};
use hone_experiment::phase::Phase;
use hone_jvm::cache::{self, CacheKind, LoadedClasses};
use hone_jvm::command::JavaCommand;
use hone_record::JvmCache;
use hone_tool::Call;
use serde::{Deserialize, Serialize};

use super::service::Service;
use crate::job::Job;
use crate::outcome::Left;
use crate::steps::{Steps, Told};

/// A cache is written as the process ends, by a second virtual machine.
const WRITTEN_WITHIN: Duration = Duration::from_secs(180);
/// A cache from which fewer of the classes come is not in use. The JDK's own archive, below an archive of class data, has the most of them.
fn least_share(kind: CacheKind) -> f64 {
    if kind == CacheKind::ClassData { 0.05 } else { 0.3 }
}

/// What a cache depends on, in its lock file. A change of any of it makes the cache stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Basis {
    /// The JDK with its version.
    jdk: String,
    /// The launcher.
    java: String,
    /// The options, without those of caches.
    options: Vec<String>,
    /// What runs, and its arguments.
    runs: Vec<String>,
    /// Each entry of the class path with its SHA-256; a folder has none.
    class_path: Vec<(String, String)>,
    /// The training workloads, as JSON.
    training: String,
}

/// The lock file next to a cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct CacheLock {
    hone: String,
    basis: Basis,
    bytes: u64,
    sha256: String,
    written_s: f64,
}

/// A cache that was made and checked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Made {
    pub(super) kind: CacheKind,
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) sha256: String,
    pub(super) classes: [u64; 2],
    pub(super) written_s: f64,
}

/// The command of a variant with its cache.
pub(super) fn using(service: &Service, path: &str) -> JavaCommand {
    match CacheKind::for_release(service.jdk.feature) {
        Some(kind) => kind.using(&service.command, path),
        None => service.command.clone(),
    }
}

impl Job<'_> {
    /// Trains and checks the cache of a variant, or takes the one of an earlier run. The inner error is why the variant is left out.
    pub(super) fn train_cache(
        &self,
        steps: &mut Steps<'_>,
        service: &Service,
    ) -> Result<Result<JvmCache, String>> {
        let trained_by: Vec<String> =
            self.experiment.training.iter().map(|training| training.workload.name.clone()).collect();
        let name = format!("cache-{}", service.name);
        let made = steps.run(Phase::Train, &name, || {
            let made =
                self.cached(service).and_then(|(made, note)| Ok((self.proven_in_use(service, made)?, note)));
            let (note, result) = match made {
                Ok((made, note)) => {
                    let [cached, all] = made.classes;
                    let share = 100.0 * cached as f64 / all.max(1) as f64;
                    let size = hone_format::bytes(made.bytes);
                    let classes = hone_format::count(all);
                    (format!("{size}, {share:.0} % of {classes} classes come from it{note}"), Ok(made))
                }
                Err(error) => {
                    let why = crate::outcome::left_out(error)?;
                    (why.clone(), Err(why))
                }
            };
            Ok(Told { note, command: None, result })
        })?;
        Ok(made.map(|made| cache_of(service, &made, trained_by)))
    }

    fn cached(&self, service: &Service) -> Result<(Made, String)> {
        let Some(kind) = CacheKind::for_release(service.jdk.feature) else {
            bail!(Left(format!("{} has no cache for applications", service.jdk.title())))
        };
        let folder = self.work().join("caches");
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
        let path = folder.join(format!("{}.{}", service.name.replace('/', "_"), kind.extension()));
        let basis = self.basis(service)?;
        let lock = lock_path(&path);
        if let Some(kept) = read_lock(&lock)
            && kept.basis == basis
            && sha256_of(&path).is_ok_and(|(sha256, _)| sha256 == kept.sha256)
        {
            return Ok((made(kind, &path, &kept), ", which an earlier run has trained".to_owned()));
        }
        // A cache without a lock file was not finished.
        let _ = fs::remove_file(&lock);
        let _ = fs::remove_file(&path);
        let written_s = self.record_cache(service, kind, &path)?;
        let (sha256, bytes) = sha256_of(&path)?;
        let kept = CacheLock { hone: env!("CARGO_PKG_VERSION").to_owned(), basis, bytes, sha256, written_s };
        fs::write(&lock, serde_json::to_string_pretty(&kept)? + "\n")
            .with_context(|| format!("{} can't be written", lock.display()))?;
        Ok((made(kind, &path, &kept), String::new()))
    }

    /// Runs the training workloads on a service that records, and stops it, upon which it writes the cache. Returns the seconds of the stop.
    fn record_cache(&self, service: &Service, kind: CacheKind, path: &Path) -> Result<f64> {
        let file = path.display().to_string();
        let training = Service { command: kind.training(&service.command, &file), ..service.clone() };
        let arm = patient(self.arm_of(&training));
        let bench = self.bench();
        let first = self.experiment.training.first().context("there is no training workload")?;
        let mut subject = bench.subject(&arm, &first.workload)?;
        for load in &self.experiment.training {
            self.progress
                .doing(&format!("training the cache of {} with {}", service.name, load.workload.name));
            hone_experiment::bench::of_use(bench.window(&mut subject, &load.workload)?)?;
        }
        self.progress.doing(&format!("writing the cache of {}", service.name));
        let stopped = bench.end(subject)?.context("a service that exits needs no cache for its load")?;
        let made_by = kind.making(&service.command, &file);
        if let Some(making) = made_by {
            let recording = PathBuf::from(cache::recording(&file));
            if !recording.exists() {
                bail!(Left(not_written(&stopped.stdout_path, "recorded nothing for the cache")));
            }
            let words = making.argv();
            let scratch = self.folder.scratch();
            fs::create_dir_all(&scratch)?;
            let call = Call::new("make-cache", &making.java, scratch).args(&words[1..]).limit(WRITTEN_WITHIN);
            self.runner.run(&call)?;
            let _ = fs::remove_file(recording);
        }
        if !path.exists() {
            bail!(Left(not_written(&stopped.stdout_path, "wrote no cache as it ended")));
        }
        Ok(stopped.took.as_secs_f64())
    }

    /// Starts the service with its cache, and counts the classes that came from it.
    fn proven_in_use(&self, service: &Service, made: Made) -> Result<Made> {
        let log = self.folder.scratch().join(format!("{}.classes.log", service.name.replace('/', "_")));
        let mut command = made.kind.using(&service.command, &made.path);
        command.set(&cache::log_option(&log.display().to_string(), service.jdk.feature));
        let checked = Service { command, ..service.clone() };
        fs::create_dir_all(self.folder.scratch())?;
        let running = self.arm_of(&checked).start(self.runner, &self.folder.scratch())?;
        running.stop(self.runner)?;
        let text = fs::read(&log).with_context(|| format!("{} can't be read", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        let _ = fs::remove_file(&log);
        let complaints = cache::complaints(&text);
        let classes = LoadedClasses::of_log(&text);
        let share = classes.share(made.kind);
        if share < least_share(made.kind) {
            let said = complaints.first().map(|said| format!(": {said}")).unwrap_or_default();
            bail!(Left(format!(
                "the virtual machine does not use the cache{said} ({:.0} % of {} classes came from it)",
                100.0 * share,
                classes.all
            )));
        }
        Ok(Made { classes: [classes.cached(made.kind), classes.all], ..made })
    }

    fn basis(&self, service: &Service) -> Result<Basis> {
        let plain = cache::without_cache(&service.command);
        let hashed = |entry: &str| {
            let path = Path::new(entry);
            let sha256 = if path.is_file() { sha256_of(path)?.0 } else { String::new() };
            anyhow::Ok((entry.to_owned(), sha256))
        };
        let training: Vec<_> = self.experiment.training.iter().map(|training| &training.workload).collect();
        Ok(Basis {
            jdk: service.jdk.title(),
            java: plain.java.clone(),
            options: plain.options.clone(),
            runs: plain.argv().split_off(1 + plain.options.len()),
            class_path: plain.class_path().into_iter().map(hashed).collect::<Result<_>>()?,
            training: serde_json::to_string(&training)?,
        })
    }
}

/// An arm that may take its time to stop.
fn patient(mut arm: Arm) -> Arm {
    if let Place::Program(program) = &mut arm.place {
        program.stop_timeout = program.stop_timeout.max(WRITTEN_WITHIN);
    }
    arm
}

fn made(kind: CacheKind, path: &Path, lock: &CacheLock) -> Made {
    Made {
        kind,
        path: path.display().to_string(),
        bytes: lock.bytes,
        sha256: lock.sha256.clone(),
        classes: [0, 0],
        written_s: lock.written_s,
    }
}

fn lock_path(cache: &Path) -> PathBuf {
    let mut name = cache.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

/// `None` if it is missing or damaged: then Hone makes the cache again.
fn read_lock(path: &Path) -> Option<CacheLock> {
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Why there is no cache, with what the virtual machine said about it.
fn not_written(stdout: &Path, what: &str) -> String {
    let text = fs::read(stdout).unwrap_or_default();
    let said = cache::complaints(&String::from_utf8_lossy(&text));
    let said = said.last().map(|said| format!(": {said}")).unwrap_or_default();
    format!("the virtual machine {what}{said}; it must end by itself when it gets SIGTERM")
}

/// The cache of a variant, for its record.
fn cache_of(service: &Service, made: &Made, trained_by: Vec<String>) -> JvmCache {
    JvmCache {
        variant: service.name.clone(),
        kind: made.kind.label().to_owned(),
        path: made.path.clone(),
        bytes: made.bytes,
        sha256: made.sha256.clone(),
        classes: made.classes,
        trained_by,
        written_s: made.written_s,
    }
}
