//! One window of the unchanged host that watches disk and page cache: knobs that this load can't affect are not tried.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_host::disks::Disk;
use hone_host::kernel::Files;
use hone_host::under_load::{UnderLoad, Watcher, cannot_matter};
use hone_record::{UntriedKnob, Workload};

use super::candidate::Candidate;
use hone_experiment::arm::Arm;
use hone_experiment::bench::Bench;
use hone_experiment::rounds::of_target;

/// Time between two samples: short compared with a flush of the disk, and cheap.
const EVERY: Duration = Duration::from_millis(20);

/// Loads the target once and samples the host.
///
/// # Errors
/// When the target does not sustain the load, or the user interrupts.
pub(super) fn look(
    bench: &Bench<'_>,
    arm: &Arm,
    workload: &Workload,
    files: &Files,
    disks: &[Disk],
) -> Result<UnderLoad> {
    bench.progress.doing("sampling the host under this load");
    let is_over = AtomicBool::new(false);
    let (done, seen) = thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut watcher = Watcher::new(files, disks);
            while !is_over.load(Ordering::Relaxed) {
                watcher.look();
                thread::sleep(EVERY);
            }
            watcher.seen()
        });
        let done = of_target(bench.alone(arm, workload));
        is_over.store(true, Ordering::Relaxed);
        (done, watching.join())
    });
    if let Err(reason) = done? {
        bail!("the target does not sustain this load on the unchanged host: {reason}");
    }
    seen.ok().context("the thread that samples the host has panicked")
}

/// Separates the candidates that may matter from those that can't, according to the samples.
pub(super) fn sifted(candidates: &[Candidate], seen: &UnderLoad) -> (Vec<Candidate>, Vec<UntriedKnob>) {
    let (mut may, mut can_not) = (Vec::new(), Vec::new());
    for candidate in candidates {
        match why_not(candidate, seen) {
            None => may.push(candidate.clone()),
            Some(why) => can_not.extend(candidate.settings().into_iter().map(|setting| UntriedKnob {
                title: candidate.title.clone(),
                now: Some(setting.was),
                wanted: setting.value,
                why: format!("can't matter here: {why}; --all includes it"),
            })),
        }
    }
    (may, can_not)
}

/// Only if none of its writes can matter.
fn why_not(candidate: &Candidate, seen: &UnderLoad) -> Option<String> {
    let why =
        |write: &super::candidate::Write| cannot_matter(&candidate.title, &write.was, &write.value, seen);
    let all: Option<Vec<String>> = candidate.writes.iter().map(why).collect();
    all?.into_iter().next()
}
