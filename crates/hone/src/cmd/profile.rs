//! `hone profile`: profiles that are kept are shown, checked, compared and merged.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use hone_binary::go::GoTarget;
use hone_binary::profile_store::{DEFAULT_BUDGET, Keeper, Weights};
use hone_format::read_duration_s;
use hone_tool::{System, ToolError};

use super::{fleet, sample};
use crate::cmd::context::CliContext;
use hone_document::profile::Judged;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::metered::token_of;
use hone_optimize::go::place_fitting;
use hone_rollout::continuous::{self, Question};
use hone_rollout::profile_take::{from_profiler, from_service};

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
  hone profile merge get.fdata put.fdata --shares 0.7,0.3 --output service.fdata
  hone profile push service.fdata --to s3://bucket/profiles
  hone profile merge --from s3://bucket/profiles --program build/service --last 1 -o service.fdata
  hone profile take http://127.0.0.1:6060 --seconds 45 --windows 2 --output friday.pprof
  hone profile take http://pyroscope:4040 --pyroscope '{service_name=\"checkout\"}' --since 24h -o day.pprof
  hone profile place merged.pgo --source . --go ./cmd/server")]
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
    Place(PlaceArguments),
    Take(TakeArguments),
    Push(fleet::PushArguments),
    List(fleet::ListArguments),
    Pull(fleet::PullArguments),
    Sample(sample::Arguments),
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
///
/// The profiles are files, or all that hosts have pushed of a build (`--from PLACE` with `--build-id` or `--program`).
#[derive(Debug, Args)]
struct MergeArguments {
    /// The profiles, of the same kind.
    #[arg(required_unless_present = "from", value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    #[command(flatten)]
    from: fleet::From,
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

/// Lay a profile of Go where a plain `go build` takes it: as default.pgo in the folder of the program's main package, and nowhere
/// else. Its lock goes with it.
///
/// The program is built without it first: a profile of which the present source has lost more than the budget is not placed. Then it
/// is built as anybody builds it, and its build settings must name the profile. When something fails, the folder is as it was.
#[derive(Debug, Args)]
struct PlaceArguments {
    /// The profile.
    profile: PathBuf,
    /// Folder of the module.
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    source: PathBuf,
    /// The main package, as `go build` takes it.
    #[arg(long, value_name = "PACKAGE", default_value = ".")]
    go: String,
    /// Put it in the place of another default.pgo.
    #[arg(long)]
    replace: bool,
    /// The largest share of the weight of its calls that may be lost to the present source, as in 10%.
    #[arg(long, value_name = "SHARE", default_value_t = Share(DEFAULT_BUDGET))]
    budget: Share,
}

/// Take a profile of a Go service that runs, from its pprof address, in one window or several that are merged, with a lock; or what
/// Pyroscope or Parca have of it.
///
/// The service is not loaded by Hone: what it does meanwhile is what is in the profile. Nothing is written of an idle one.
#[derive(Debug, Args)]
struct TakeArguments {
    /// The address of the service's net/http/pprof, such as http://127.0.0.1:6060, or of the server of --pyroscope or --parca.
    url: String,
    /// Take what Pyroscope has of these labels, merged by it, such as {service_name="checkout"}.
    #[arg(long, value_name = "LABELS", group = "profiler", conflicts_with_all = ["seconds", "windows", "allocations", "parca"])]
    pyroscope: Option<String>,
    /// Take what Parca has of these labels, merged by it, such as {job="checkout"}.
    #[arg(long, value_name = "LABELS", group = "profiler", conflicts_with_all = ["seconds", "windows", "allocations"])]
    parca: Option<String>,
    /// How far back, for --pyroscope and --parca.
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "profiler", value_parser = read_duration_s)]
    since: f64,
    /// Which kind of profile, as the server names it (NAME:TYPE:UNIT:TYPE:UNIT), for --pyroscope and --parca.
    #[arg(long, value_name = "KIND", default_value = continuous::CPU, requires = "profiler")]
    kind: String,
    /// The tenant of a Pyroscope that has several.
    #[arg(long, value_name = "NAME", requires = "pyroscope", conflicts_with = "parca")]
    tenant: Option<String>,
    /// A file with a token that is shown as `Authorization: Bearer` to Pyroscope or Parca. A name and a password may stand in the address.
    #[arg(long, value_name = "FILE", requires = "profiler")]
    token_file: Option<PathBuf>,
    /// The new profile; its lock is written beside it.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Length of a window.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Windows, one behind the other.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    windows: u32,
    /// What was allocated since the service started, in place of its CPU.
    #[arg(long, conflicts_with_all = ["seconds", "windows"])]
    allocations: bool,
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

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let scratch = tempfile::tempdir().context("no folder can be made for temporary files: look at TMPDIR")?;
    let done = carry_out(arguments.what, scratch.path(), cli);
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

fn carry_out(what: What, scratch: &Path, cli: &CliContext) -> Result<Ending> {
    let runner = System::new(scratch.join("logs"))?;
    let keeper = Keeper::new(&runner, scratch);
    match what {
        What::Show(arguments) => {
            cli.progress.doing("read");
            let shown = keeper.show(&arguments.profile, arguments.top)?;
            cli.show_found("profile", &shown, hone_document::profile::shown)
        }
        What::Check(arguments) => check(&arguments, &keeper, cli),
        What::Diff(arguments) => {
            cli.progress.doing("compare");
            let found = keeper.diff(&arguments.before, &arguments.after)?;
            let top = arguments.top;
            cli.show_found("profile-difference", &found, |found| {
                hone_document::profile::difference(found, top)
            })
        }
        What::Push(arguments) => fleet::push(&arguments, &keeper, cli),
        What::List(arguments) => fleet::list(&arguments, cli),
        What::Pull(arguments) => fleet::pull(&arguments, &keeper, cli),
        What::Sample(arguments) => sample::run(&arguments, &keeper, scratch, cli),
        What::Take(arguments) => take(&arguments, &keeper, scratch, cli),
        What::Place(arguments) => place(&arguments, &runner, scratch, cli),
        What::Merge(arguments) => {
            let merged = match &arguments.from.from {
                Some(place) => {
                    fleet::merge(place, &arguments.from, &arguments.output, &keeper, scratch, cli)?
                }
                None => {
                    cli.progress.doing("merge");
                    let weights = weights(&arguments)?;
                    keeper.merge(
                        &arguments.profiles,
                        &weights,
                        &arguments.output,
                        arguments.different_builds,
                    )?
                }
            };
            cli.show_found("profile-merge", &merged, hone_document::profile::merged)
        }
    }
}

fn check(arguments: &CheckArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("check");
    let check = keeper.check(&arguments.profile, &arguments.program, arguments.names_only)?;
    let budget = arguments.budget.0;
    let judged = Judged { budget, within_budget: check.lost_share <= budget, check };
    cli.show_found("profile-check", &judged, |judged| hone_document::profile::check(judged, arguments.top))?;
    Ok(if judged.within_budget { Ending::Done } else { Ending::Worse })
}

fn take(arguments: &TakeArguments, keeper: &Keeper<'_>, scratch: &Path, cli: &CliContext) -> Result<Ending> {
    let (output, progress) = (&arguments.output, &cli.progress);
    let merged = match arguments.pyroscope.as_deref().or(arguments.parca.as_deref()) {
        Some(selector) => {
            let token = arguments.token_file.as_deref().map(token_of).transpose()?;
            let question = Question {
                server: &arguments.url,
                selector,
                kind: &arguments.kind,
                since_s: arguments.since,
                tenant: arguments.tenant.as_deref(),
                token: token.as_deref(),
            };
            from_profiler(&question, arguments.parca.is_some(), output, keeper, scratch, progress)?
        }
        None => {
            let windows = (!arguments.allocations).then_some((arguments.windows, arguments.seconds));
            from_service(&arguments.url, windows, output, keeper, scratch, progress)?
        }
    };
    cli.show_found("profile-merge", &merged, hone_document::profile::merged)
}

fn place(arguments: &PlaceArguments, runner: &System, scratch: &Path, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("place");
    let target = GoTarget::new(&arguments.source, &arguments.go);
    let (profile, budget) = (&arguments.profile, arguments.budget.0);
    let placed = place_fitting(runner, target, profile, arguments.replace, budget, scratch)?;
    cli.show_found("profile-place", &placed, |placed| {
        format!("{}\n", hone_document::wrapped(&placed.words()))
    })
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
