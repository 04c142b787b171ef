//! A profile of a running service: from its own pprof address, or from a continuous profiler.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::go::{ProfileRequest, capture_unless};
use hone_binary::lock::{Lock, LockedProgram, LockedTraining};
use hone_binary::profile_store::{Keeper, MergedProfile, Weights};
use hone_tool::interrupt;

use crate::continuous::{self, Question};
use hone_experiment::ending::Usage;
use hone_experiment::progress::Progress;

/// Ninety days: none of these servers keeps profiles longer by default.
const MOST_SINCE_S: f64 = 90.0 * 86_400.0;

/// Gets the profile of a continuous profiler, with a lock, as one file.
pub fn from_profiler(
    question: &Question<'_>,
    is_of_parca: bool,
    output: &Path,
    keeper: &Keeper<'_>,
    scratch: &Path,
    progress: &Progress,
) -> Result<MergedProfile> {
    if !(1.0..=MOST_SINCE_S).contains(&question.since_s) {
        bail!(Usage("invalid --last: use 1s to 2160h".to_owned()));
    }
    progress.doing("ask");
    let taken =
        if is_of_parca { continuous::from_parca(question) } else { continuous::from_pyroscope(question) }?;
    let file = scratch.join("taken.pprof");
    std::fs::write(&file, &taken.bytes).with_context(|| format!("{} can't be written", file.display()))?;
    let training = LockedTraining { load: Some(taken.load.clone()), ..LockedTraining::default() };
    let identity = keeper.identity(&file)?;
    let program = |build_id: String| LockedProgram { build_id: Some(build_id), ..LockedProgram::default() };
    let programs = identity.build_ids.into_iter().map(program).collect();
    Lock::new(identity.profile, programs, vec![training]).write(&file)?;
    progress.line(&format!("{}: {} in {} stacks", taken.load, taken.total, taken.stacks));
    let mut merged = keeper.merge(&[file], &Weights::Same, output, false)?;
    // The file is temporary.
    merged.inputs[0].file = PathBuf::from(question.selector);
    if let (bare @ 1.., all) = taken.without_start {
        merged
            .notes
            .push(format!("{bare} of {all} functions have no start line, so Go's compiler ignores them"));
    }
    Ok(merged)
}

/// The service's own profile: `windows` of `seconds` in sequence, or its allocations since it started.
pub fn from_service(
    url: &str,
    windows: Option<(u32, u32)>,
    output: &Path,
    keeper: &Keeper<'_>,
    scratch: &Path,
    progress: &Progress,
) -> Result<MergedProfile> {
    let (wanted, windows) = match windows {
        None => (ProfileRequest::Allocations { seconds: None }, 1),
        Some((windows, seconds)) => (ProfileRequest::Cpu { seconds }, windows),
    };
    let mut files = Vec::new();
    for window in 1..=windows {
        progress.doing(&format!("window {window}"));
        let file = scratch.join(format!("{window}.pprof"));
        let taken = capture_unless(url, wanted, &file, &interrupt::requested)?;
        progress.line(&format!("{}: {} in {} stacks", taken.url, taken.total, taken.stacks));
        files.push(file);
    }
    keeper.merge(&files, &Weights::Same, output, false)
}
