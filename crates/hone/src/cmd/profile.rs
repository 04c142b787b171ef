//! `hone profile`: profiles that are kept are shown, checked, compared and merged.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use hone_binary::kept::{DEFAULT_BUDGET, Keeper, Weights};
use hone_tool::{System, ToolError};
use serde::Serialize;

use super::Desk;
use crate::{Ending, Usage, show};

/// Keep a profile: look into it, hold it against the program of today, compare and merge it.
///
/// A profile is a file of llvm-profdata (clang, rustc), of BOLT (fdata) or of pprof (Go); which one, it says itself.
/// `PROFILE.lock` beside it says what it was taken from; it is held against the profile whenever it is there.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone profile show service.profdata
  hone profile check service.profdata build/service-counting --budget 10%
  hone profile check service.fdata build/service
  hone profile check default.pgo ./server && git add default.pgo
  hone profile diff monday.pprof friday.pprof
  hone profile merge get.fdata put.fdata --shares 0.7,0.3 --output service.fdata")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Show(ShowArguments),
    Check(CheckArguments),
    Diff(DiffArguments),
    Merge(MergeArguments),
}

/// What is in a profile: kind, level, counts, the hottest functions, and the lock beside it; of Go flat and cumulative, and what
/// stands out.
#[derive(Debug, Args)]
struct ShowArguments {
    /// The profile.
    profile: PathBuf,
    /// So many functions.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// How much of a profile's weight a program can still take, and which functions have lost theirs. Exit code 3 beyond the
/// budget.
///
/// For a profile of clang or rustc, PROGRAM is an instrumented build of the present source (-fprofile-generate,
/// -Cprofile-generate): compared are names and hashes of control flow, as the compiler does, and no training is needed. For
/// one of BOLT it is the linked program (llvm-bolt is asked), for one of Go the program.
#[derive(Debug, Args)]
struct CheckArguments {
    /// The profile.
    profile: PathBuf,
    /// The program.
    program: PathBuf,
    /// The largest share of the weight that may be lost, as in 10%.
    #[arg(long, value_name = "SHARE", default_value_t = Share(DEFAULT_BUDGET))]
    budget: Share,
    /// Do not ask llvm-bolt which functions have changed: a profile of BOLT is held against names alone.
    #[arg(long)]
    names_only: bool,
    /// So many of the lost functions.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// What became hot and what cooled between two profiles of the same kind. Shares are compared, so the lengths of the trainings
/// do not matter.
#[derive(Debug, Args)]
struct DiffArguments {
    /// The older profile.
    before: PathBuf,
    /// The newer one.
    after: PathBuf,
    /// So many functions of each.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Merge profiles of one build, each with its weight, into a new one with its lock.
#[derive(Debug, Args)]
struct MergeArguments {
    /// The profiles, of the same kind.
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// The new profile; its lock is written beside it.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// What the counts of each profile are multiplied by, as in 3,1.
    #[arg(long, value_name = "W,W...", value_delimiter = ',', conflicts_with = "shares")]
    weights: Vec<f64>,
    /// The share of each profile in the sum of all counts, however long its training was, as in 0.7,0.3.
    #[arg(long, value_name = "S,S...", value_delimiter = ',')]
    shares: Vec<f64>,
    /// Merge profiles of different builds, too: what fits none of them is lost.
    #[arg(long)]
    different_builds: bool,
}

/// `10%` as 0.1.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Share(f64);

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let percent = text.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
        let share = percent.map(|percent| percent / 100.0).filter(|share| (0.0..=1.0).contains(share));
        share.map(Self).ok_or_else(|| "write it in percent, from 0% to 100%, as in 10%".to_owned())
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}%", self.0 * 100.0)
    }
}

/// What a check has found, with its judgement.
#[derive(Debug, Serialize)]
pub(crate) struct Judged {
    /// The most that may be lost, 0 to 1.
    pub(crate) budget: f64,
    /// Whether no more is lost.
    pub(crate) within_budget: bool,
    #[serde(flatten)]
    pub(crate) check: hone_binary::kept::Check,
}

pub(crate) fn run(arguments: Arguments, desk: &Desk) -> Result<Ending> {
    let scratch = tempfile::tempdir().context("no folder can be made for temporary files: look at TMPDIR")?;
    let done = carry_out(arguments.what, scratch.path(), desk);
    let has_run = |tool: &ToolError| !matches!(tool, ToolError::NotFound { .. });
    let by_tool = |error: &anyhow::Error| {
        error.chain().filter_map(|cause| cause.downcast_ref::<ToolError>()).any(has_run)
    };
    if done.as_ref().is_err_and(by_tool) {
        // The error names a log that lies there.
        let _ = scratch.keep();
    }
    done
}

fn carry_out(what: What, scratch: &Path, desk: &Desk) -> Result<Ending> {
    let runner = System::new(scratch.join("logs"))?;
    let keeper = Keeper::new(&runner, scratch);
    match what {
        What::Show(arguments) => {
            desk.progress.doing("read");
            let shown = keeper.show(&arguments.profile, arguments.top)?;
            desk.show_found("profile", &shown, show::profile::shown)?;
            Ok(Ending::Done)
        }
        What::Check(arguments) => check(&arguments, &keeper, desk),
        What::Diff(arguments) => {
            desk.progress.doing("compare");
            let found = keeper.diff(&arguments.before, &arguments.after)?;
            let top = arguments.top;
            desk.show_found("profile-difference", &found, |found| show::profile::difference(found, top))?;
            Ok(Ending::Done)
        }
        What::Merge(arguments) => {
            desk.progress.doing("merge");
            let weights = weights(&arguments)?;
            let merged =
                keeper.merge(&arguments.profiles, &weights, &arguments.output, arguments.different_builds)?;
            desk.show_found("profile-merge", &merged, show::profile::merged)?;
            Ok(Ending::Done)
        }
    }
}

fn check(arguments: &CheckArguments, keeper: &Keeper<'_>, desk: &Desk) -> Result<Ending> {
    desk.progress.doing("check");
    let check = keeper.check(&arguments.profile, &arguments.program, arguments.names_only)?;
    let budget = arguments.budget.0;
    let judged = Judged { budget, within_budget: check.lost_share <= budget, check };
    desk.show_found("profile-check", &judged, |judged| show::profile::check(judged, arguments.top))?;
    Ok(if judged.within_budget { Ending::Done } else { Ending::Worse })
}

fn weights(arguments: &MergeArguments) -> Result<Weights> {
    let given = |name: &str, figures: &[f64]| match figures.len() {
        found if found == arguments.profiles.len() => Ok(figures.to_vec()),
        found => bail!(Usage(format!(
            "--{name} has {found} figures for {} profiles: give one for each",
            arguments.profiles.len()
        ))),
    };
    match (arguments.weights.as_slice(), arguments.shares.as_slice()) {
        ([], []) => Ok(Weights::Same),
        ([], shares) => Ok(Weights::Shares(given("shares", shares)?)),
        (weights, _) => Ok(Weights::Each(given("weights", weights)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_written_in_percent() {
        for (text, expected) in [("10%", 0.1), ("0 %", 0.0), ("100%", 1.0), ("2.5%", 0.025)] {
            assert_eq!(text.parse::<Share>(), Ok(Share(expected)), "{text}");
        }
        for text in ["10", "0.1", "101%", "-1%", "NaN%", "%", ""] {
            assert!(text.parse::<Share>().unwrap_err().contains("as in 10%"), "{text}");
        }
        assert_eq!(Share(DEFAULT_BUDGET).to_string(), "10%");
    }
}
