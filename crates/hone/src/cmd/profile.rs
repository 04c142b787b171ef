//! `hone profile`: shows, checks, compares, merges and takes profiles.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use hone_binary::go::GoTarget;
use hone_binary::profile_store::{DEFAULT_BUDGET, Keeper, Weights};
use hone_cli::values::whole_seconds;
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

/// Inspect, check, compare, merge, take and share profiles.
///
/// A profile is a file of llvm-profdata (clang, rustc), BOLT (fdata) or pprof (Go). `PROFILE.lock`, next to it, records the build that the
/// profile comes from.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone profile show service.profdata
  hone profile check service.profdata build/service-instrumented \\
    --max-loss 10%
  hone profile check service.fdata build/service
  hone profile check default.pgo ./server && git add default.pgo
  hone profile diff monday.pprof friday.pprof
  hone profile merge get.fdata put.fdata --shares 0.7,0.3 \\
    --output service.fdata
  hone profile push service.fdata --store s3://bucket/profiles
  hone profile merge --store s3://bucket/profiles --program build/service \\
    --newest 1 -o service.fdata
  hone profile take http://127.0.0.1:6060 --duration 45 --windows 2 \\
    --output friday.pprof
  hone profile take http://pyroscope:4040 \\
    --pyroscope '{service_name=\"checkout\"}' --last 24h -o day.pprof
  hone profile place merged.pgo --module . --package ./cmd/server")]
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

/// Show a profile: format, level, counts, hottest functions and lock.
#[derive(Debug, Args)]
struct ShowArguments {
    /// Profile file.
    profile: PathBuf,
    /// Number of functions to show.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Check how much of a profile still applies to a program.
///
/// For a profile of clang or rustc, PROGRAM is an instrumented build of the current source (-fprofile-generate, -Cprofile-generate). It needs
/// no training. For a BOLT profile, it is the linked program, and for a Go profile the built program.
///
/// Exit code 3: the lost share of the weight is larger than --max-loss.
#[derive(Debug, Args)]
struct CheckArguments {
    /// Profile file.
    profile: PathBuf,
    /// Program to check the profile against.
    program: PathBuf,
    /// Largest share of the profile's weight that may be lost.
    #[arg(long = "max-loss", alias = "budget", value_name = "SHARE", default_value_t = Share(DEFAULT_BUDGET))]
    budget: Share,
    /// Compare only function names with a BOLT profile, and do not run llvm-bolt.
    #[arg(long)]
    names_only: bool,
    /// Number of functions to show. Hone shows the functions that lost the most weight.
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

/// Show which functions became hotter or colder between two profiles.
///
/// Both profiles must have the same format. Their trainings can have different lengths.
#[derive(Debug, Args)]
struct DiffArguments {
    /// Older profile.
    before: PathBuf,
    /// Newer profile.
    after: PathBuf,
    /// Number of functions to show. The number applies to the hotter and to the colder functions.
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

/// Merge weighted profiles of one build into a new profile.
///
/// Name files, or take all profiles of a build from a store (--store with --build-id or --program).
#[derive(Debug, Args)]
struct MergeArguments {
    /// Profiles of the same format.
    #[arg(required_unless_present = "from", value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    #[command(flatten)]
    from: fleet::From,
    /// Where to write the result. Hone writes the lock of the new profile next to it.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Factor for the counts of each profile, for example 3,1.
    #[arg(long, value_name = "W,W...", value_delimiter = ',', conflicts_with = "shares")]
    weights: Vec<f64>,
    /// Share of each profile in the sum of all counts, for example 0.7,0.3. The shares apply regardless of the lengths of the trainings.
    #[arg(long, value_name = "S,S...", value_delimiter = ',')]
    shares: Vec<f64>,
    /// Also merge profiles of different builds. A count that does not apply to the other builds is lost.
    #[arg(long)]
    different_builds: bool,
}

/// Install a Go profile as default.pgo of a main package.
///
/// Hone writes default.pgo and its lock to the folder of the main package. It does not install a profile that has lost more than --max-loss of
/// its weight. It then runs a plain `go build` and checks it. If a step fails, Hone restores the folder.
#[derive(Debug, Args)]
struct PlaceArguments {
    /// Profile file.
    profile: PathBuf,
    /// Folder of the Go module.
    #[arg(long = "module", alias = "source", value_name = "FOLDER", default_value = ".")]
    source: PathBuf,
    /// Main package, in the form that `go build` accepts.
    #[arg(long = "package", alias = "go", value_name = "PACKAGE", default_value = ".")]
    go: String,
    /// Overwrite what someone else has changed. Hone then replaces a default.pgo that it did not install.
    #[arg(long = "force", alias = "replace")]
    replace: bool,
    /// Largest share of the profile's weight that may be lost. The weight is that of the profile's calls.
    #[arg(long = "max-loss", alias = "budget", value_name = "SHARE", default_value_t = Share(DEFAULT_BUDGET))]
    budget: Share,
}

/// Take a profile of a running Go service.
///
/// Hone merges several windows and writes a lock. It does not load the service, and it writes no profile of an idle one.
#[derive(Debug, Args)]
struct TakeArguments {
    /// Address of the service's net/http/pprof, or of the server of --pyroscope or --parca.
    ///
    /// For example http://127.0.0.1:6060.
    url: String,
    /// Take the merged profile that Pyroscope has for these labels, for example {service_name="checkout"}.
    #[arg(long, value_name = "LABELS", group = "profiler", conflicts_with_all = ["seconds", "windows", "allocations", "parca"])]
    pyroscope: Option<String>,
    /// Take the merged profile that Parca has for these labels, for example {job="checkout"}.
    #[arg(long, value_name = "LABELS", group = "profiler", conflicts_with_all = ["seconds", "windows", "allocations"])]
    parca: Option<String>,
    /// How far back from now to read. The option applies to --pyroscope and --parca.
    #[arg(
        long = "last",
        alias = "since",
        value_name = "TIME",
        default_value = "1h",
        requires = "profiler",
        value_parser = read_duration_s
    )]
    since: f64,
    /// Type of the profile, in the server's form NAME:TYPE:UNIT:TYPE:UNIT. The option applies to --pyroscope and --parca.
    #[arg(
        long = "profile-type",
        alias = "kind",
        value_name = "TYPE",
        default_value = continuous::CPU,
        requires = "profiler"
    )]
    kind: String,
    /// Tenant of a multi-tenant Pyroscope server.
    #[arg(long, value_name = "NAME", requires = "pyroscope", conflicts_with = "parca")]
    tenant: Option<String>,
    /// File with the bearer token for Pyroscope or Parca. The address can contain a name and a password instead.
    #[arg(long = "profiler-token-file", alias = "token-file", value_name = "FILE", requires = "profiler")]
    token_file: Option<PathBuf>,
    /// Where to write the result. Hone writes the lock of the new profile next to it.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// How long to measure. The time applies to each window.
    #[arg(
        long = "duration",
        alias = "seconds",
        value_name = "TIME",
        default_value = "30s",
        value_parser = whole_seconds::<u32>(1.0, 3_600.0)
    )]
    seconds: u32,
    /// Number of consecutive windows.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    windows: u32,
    /// Take the allocations since the start of the service instead of its CPU time.
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
        share.map(Self).ok_or_else(|| "use a percentage from 0% to 100%, for example 10%".to_owned())
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}%", self.0 * 100.0)
    }
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let scratch = tempfile::tempdir().context("can't create a folder for temporary files (check TMPDIR)")?;
    let done = carry_out(arguments.what, scratch.path(), cli);
    let has_run = |tool: &ToolError| !matches!(tool, ToolError::NotFound { .. });
    let by_tool = |error: &anyhow::Error| {
        error.chain().filter_map(|cause| cause.downcast_ref::<ToolError>()).any(has_run)
    };
    if done.as_ref().is_err_and(by_tool) {
        // The error names a log in this folder, so the folder must stay.
        let _ = scratch.keep();
    }
    done
}

fn carry_out(what: What, scratch: &Path, cli: &CliContext) -> Result<Ending> {
    let runner = System::new(scratch.join("logs"))?;
    let keeper = Keeper::new(&runner, scratch);
    match what {
        What::Show(arguments) => {
            cli.progress.doing("reading the profile");
            let shown = keeper.show(&arguments.profile, arguments.top)?;
            cli.show_found("profile", &shown, hone_document::profile::shown)
        }
        What::Check(arguments) => check(&arguments, &keeper, cli),
        What::Diff(arguments) => {
            cli.progress.doing("comparing the profiles");
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
                    cli.progress.doing("merging the profiles");
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
    cli.progress.doing("checking the profile");
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
    cli.progress.doing("installing the profile");
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
            "--{name} has {found} values for {} profiles\n  next: give one value per profile",
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
            assert!(text.parse::<Share>().unwrap_err().contains("for example 10%"), "{text}");
        }
        assert_eq!(Share(DEFAULT_BUDGET).to_string(), "10%");
    }
}
