//! Go's profiles of the plain program while it serves each training workload.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, bail};
use hone_binary::Built;
use hone_binary::go::{Captured, ProfileRequest, capture, capture_unless};
use hone_binary::perf::FEWEST_SAMPLES;
use hone_record::{Engine, Workload};
use hone_tool::interrupt;

use super::pprof_url;
use crate::job::Job;
use crate::outcome::in_a_line;
use crate::steps::Told;
use crate::train::{Raw, failed};
use hone_experiment::bench::{Bench, Subject, of_use};
use hone_experiment::spec::Training;

/// A window of Go's profiler, for loads without a known duration.
const WINDOW_S: f64 = 10.0;

/// The windows of one training workload, in its folder.
const WINDOWS: &str = "cpu";

/// The allocations under the load are next to them.
const ALLOCATIONS: &str = "allocs.pprof";

impl Job<'_> {
    /// Takes CPU profiles of a Go program under each workload, and its allocations.
    pub(crate) fn profile_go(&self, plain: &Built, round: &str) -> Result<Told<Raw>> {
        let (mut folders, mut words) = (Vec::new(), Vec::new());
        for training in &self.experiment.training {
            let folder = self.raw_folder(round, &training.workload.name)?;
            let windows = folder.join(WINDOWS);
            fs::create_dir_all(&windows).with_context(|| format!("{} can't be made", windows.display()))?;
            words.push(self.profile_under(plain, training, &folder).map_err(failed)?);
            folders.push(windows);
        }
        Ok(Told {
            note: words.join("; "),
            command: None,
            result: Raw { folders, is_given: false, loads: self.loads_in_words() },
        })
    }

    /// Allocation profiles, with the weights of the trainings, without those that the service did not give.
    pub(super) fn allocation_profiles(&self, round: &str) -> Vec<(PathBuf, f64)> {
        let of = |training: &Training| {
            let folder = self.folder.join("profile-raw").join(round).join(&training.workload.name);
            (folder.join(ALLOCATIONS), training.weight)
        };
        self.experiment.training.iter().map(of).filter(|(file, _)| file.is_file()).collect()
    }

    /// Fetches CPU profiles, one window after the other, under load. Repeats a load that is shorter than a window. Each repetition must
    /// succeed, because an idle service has a profile, too.
    fn profile_under(&self, plain: &Built, training: &Training, folder: &Path) -> Result<String> {
        let workload = &training.workload;
        let seconds = self.window_s(workload);
        let arm = self.arm(&plain.variant, &plain.executable, BTreeMap::new());
        let bench = self.bench();
        if matches!(workload.engine, Engine::Exits { .. }) {
            bail!(
                "workload `{}` starts the program itself, and such a program serves no profile\n  next: \
                 train a Go program with a load on a server that serves net/http/pprof",
                workload.name
            );
        }
        let mut subject = bench.subject(&arm, workload)?;
        // The server must be warm, and must have answered, before Hone takes a profile.
        of_use(bench.window(&mut subject, workload)?)?;
        let url = pprof_url(&subject.fill(&self.target().pprof));
        let (mut samples, mut stacks, mut loads) = (0, 0, 0);
        for window in 1..=self.experiment.go.windows {
            let file = folder.join(WINDOWS).join(format!("{window}.pprof"));
            let (captured, turns) = one_window(&bench, &mut subject, workload, &url, seconds, &file)?;
            samples += captured.total;
            stacks += captured.stacks;
            loads += turns;
        }
        let allocated =
            match capture(&url, ProfileRequest::Allocations { seconds: None }, &folder.join(ALLOCATIONS)) {
                Ok(found) => format!(", allocations in {} stacks", found.stacks),
                Err(error) => format!(", no profile of allocations ({})", in_a_line(&error)),
            };
        bench.end(subject)?;
        let few = too_few(samples)
            .with_context(|| format!("workload `{}`, {seconds} s in each window", workload.name))?;
        let times = match self.experiment.go.windows {
            1 => String::new(),
            windows => format!("{windows} times "),
        };
        Ok(format!(
            "{samples} samples in {stacks} stacks over {times}{seconds} s of workload `{}`, which ran {loads} times{allocated}{few}",
            workload.name
        ))
    }

    fn window_s(&self, workload: &Workload) -> u32 {
        let of_load = match workload.engine.operations() {
            Some(_) => WINDOW_S,
            None => workload.duration_s.max(1.0),
        };
        self.experiment.go.window_s.unwrap_or(of_load.round() as u32)
    }
}

/// With fewer samples, a function with a hundredth of the CPU has fewer than ten, so its share is uncertain by a third at best.
const ENOUGH_SAMPLES: i64 = 1_000;

/// A warning about a profile of few samples, as an addition to a sentence.
///
/// # Errors
/// Fails with fewer than [`FEWEST_SAMPLES`]: a function with a tenth of the CPU then has fewer than ten.
fn too_few(samples: i64) -> Result<String> {
    const MORE: &str = "raise pprof_window_s, pprof_windows or the load on the service";
    if samples < FEWEST_SAMPLES.cast_signed() {
        bail!(
            "{samples} samples are too few to find the hot code: {FEWEST_SAMPLES} are necessary\n  next: \
             {MORE}"
        );
    }
    if samples < ENOUGH_SAMPLES {
        return Ok(format!(
            "; warning: fewer than {ENOUGH_SAMPLES} samples, so shares below some per cent of the CPU are \
             unreliable: {MORE}"
        ));
    }
    Ok(String::new())
}

/// A profile, and the number of loads under it.
///
/// # Errors
/// Returns the load's failure first: a failed load leaves the profile of an idle service.
fn one_window(
    bench: &Bench<'_>,
    subject: &mut Subject,
    workload: &Workload,
    url: &str,
    seconds: u32,
    file: &Path,
) -> Result<(Captured, u32)> {
    let failed = AtomicBool::new(false);
    let given_up = || failed.load(Ordering::Relaxed) || interrupt::requested();
    let (captured, loads) = std::thread::scope(|scope| {
        let fetched = scope.spawn(|| capture_unless(url, ProfileRequest::Cpu { seconds }, file, &given_up));
        let loads = loaded_until(|| fetched.is_finished(), || of_use(bench.window(subject, workload)?));
        failed.store(loads.is_err(), Ordering::Relaxed);
        let captured = fetched.join().map_err(|_| anyhow::anyhow!("the fetch of {url} panicked"));
        (captured, loads)
    });
    let loads = loads
        .with_context(|| format!("while Hone took the profile, which then shows an idle service ({url})"))?;
    if interrupt::requested() {
        bail!("interrupted");
    }
    Ok((captured??, loads))
}

/// Repeats the load. Returns the number of repetitions.
fn loaded_until<T>(is_over: impl Fn() -> bool, mut load: impl FnMut() -> Result<T>) -> Result<u32> {
    let mut loads = 0;
    while !is_over() && !interrupt::requested() {
        load()?;
        loads += 1;
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn few_samples_are_refused_or_warned_of() {
        let refused = too_few(29).unwrap_err().to_string();
        assert!(
            refused.starts_with("29 samples are too few to find the hot code: 100 are necessary")
                && refused.contains("pprof_window_s")
        );
        assert!(too_few(185).unwrap().contains("warning: fewer than 1000 samples"));
        assert_eq!(too_few(1_000).unwrap(), "");
    }

    #[test]
    fn a_load_that_fails_once_ends_the_window() {
        let left = Cell::new(4);
        let over = || left.get() == 0;
        let load = || {
            left.set(left.get() - 1);
            Ok(())
        };
        assert_eq!(loaded_until(over, load).unwrap(), 4);
        left.set(4);
        let fails = || {
            left.set(left.get() - 1);
            if left.get() == 2 { bail!("refused") } else { Ok(()) }
        };
        assert_eq!(loaded_until(over, fails).unwrap_err().to_string(), "refused");
        assert_eq!(left.get(), 2, "nothing was loaded behind it");
    }
}
