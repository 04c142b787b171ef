//! `hone gate`: checks whether a commit causes a regression.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use hone_record::{CommitGate, GateEvidence, GateOutcome};
use hone_report::documents;
use hone_tool::interrupt;

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use crate::failure;
use hone_experiment::ending::{BisectCode, Ending, Usage};
use hone_experiment::folder::to_resume;
use hone_experiment::settle;
use hone_optimize::gate::begin::{GateRequest, GateRun, settled};
use hone_optimize::gate::choice::FileOf;
use hone_optimize::gate::ci_files::{CiFiles, about, write_ci_files};
use hone_optimize::gate::papers::Came;
use hone_optimize::gate::{hold, plan_text};

/// Compare a commit with its base and fail on a regression.
///
/// Hone builds both commits in the same way and measures them in pairs on this machine. FILE is an experiment file as for `hone optimize`, with
/// or without a [gate] table. Hone only reads your repository. If both commits build the same program, it measures nothing.
///
/// Exit code 0: Hone found no regression. Exit code 3: a metric is worse by its limit or more. Exit code 1: there is no answer, for example
/// because a commit does not build, or the power is too low with --require-power.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone gate --base origin/main
  hone gate load/hone.toml --base origin/main --head worktree
  hone gate --base v1.2 --exact --require-power
  hone gate --base origin/main --junit gate.xml --sarif gate.sarif \\
    --comment gate.md
  hone gate --base origin/main --evidence counted
  hone gate --bisect v1.2..HEAD
  hone gate --resume runs/orders-gate-003

In a GitHub pull request and in a GitLab merge request, Hone finds the base itself.
The folder examples/ci has a workflow for each.

An experiment file:
  name = \"orders\"

  [target]
  manifest = \".\"
  package = \"orders\"
  bin = \"orders\"
  args = [\"--listen\", \"127.0.0.1:{port}\"]

  [workload.judge]
  requests_per_s = 2000

  [gate]
  # Without this line: the judging workloads of [optimize]
  judge = [\"judge\"]
  # Smallest proven growth of a metric that is a regression
  worse_by = \"3%\"
  # The same for --evidence counted
  counted_worse_by = \"0.5%\"
  # Code layouts per commit
  builds = 5

  [gate.guards]
  # A guard metric and its largest allowed growth
  latency-p99 = \"10%\"")]
pub(crate) struct Arguments {
    /// Experiment file.
    #[arg(default_value = "hone.toml")]
    file: PathBuf,
    /// Base: a commit or a branch. [default: the target branch of the pull or merge request] Hone compares the head with the merge base.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// Commit to check, or `worktree` for the working tree.
    #[arg(long, value_name = "REF", default_value = "HEAD")]
    head: String,
    /// Find the commit between GOOD and BAD that needs more instructions per operation. Hone builds and counts one commit after the other,
    /// halving the range, and then compares the found commit with the one before it. It skips commits that do not build.
    #[arg(long, value_name = "GOOD..BAD", conflicts_with_all = ["base", "head", "exact"])]
    bisect: Option<String>,
    /// Exit codes. `git-bisect`: 0 good, 1 bad, 125 the commit can't be judged, 128 stop, as `git bisect run` reads them.
    #[arg(long, value_enum, default_value = "hone", value_name = "KIND")]
    exit_codes: ExitCodes,
    /// Compare with the base itself, not with the merge base.
    #[arg(long)]
    exact: bool,
    /// Commit whose experiment file applies to both commits if they differ in target or workload.
    #[arg(
        long = "experiment-from",
        alias = "file-of",
        value_enum,
        default_value = "base",
        value_name = "SIDE"
    )]
    file_of: FileOf,
    /// Evidence that decides. `measured`: pairs, with exact counts next to them if qemu-user is installed. `counted`: only the number of
    /// instructions per operation, which repeats on any machine; the limit is `counted_worse_by` in [gate]. Counts don't
    /// show the kernel, waits for data or locks, and the speed of the machine.
    #[arg(long, value_enum, default_value = "measured")]
    evidence: EvidenceName,
    /// Measure even if both commits build the same program. Such an A/A run shows the smallest difference that this machine can detect.
    #[arg(long)]
    even_if_same: bool,
    /// Fail with exit code 1 if the statistical power is too low. The pairs must be able to detect a regression of the limit's size.
    #[arg(long)]
    require_power: bool,
    /// Show what would happen, and change nothing. Hone prints the two commits, the builds and the loads.
    #[arg(long)]
    dry_run: bool,
    /// Continue an interrupted run. Hone uses the options that the run started with.
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with_all = AS_IT_WAS)]
    resume: Option<Option<PathBuf>>,
    /// Also write the result as JUnit XML.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Also write the regressions as SARIF 2.1.0.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Also write a pull request comment (Markdown). If GITHUB_STEP_SUMMARY names a file, Hone appends the comment to it, too.
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    /// Where to write the result. Hone creates the run's folder in this folder. The ledger is in it, too.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    /// Folder for checkouts and their builds. [default: hone/gate in your cache folder] It must be outside of the sources, because compilers
    /// read settings from parent folders.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

/// Options that conflict with --resume: a continued run has them from its start.
const AS_IT_WAS: [&str; 11] = [
    "file",
    "bisect",
    "base",
    "head",
    "exact",
    "file_of",
    "evidence",
    "even_if_same",
    "require_power",
    "dry_run",
    "cache",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExitCodes {
    Hone,
    GitBisect,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EvidenceName {
    Measured,
    Counted,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { junit, sarif, comment, .. } = arguments;
    let files = CiFiles { junit: junit.clone(), sarif: sarif.clone(), comment: comment.clone() };
    let done = gated(arguments, &files, cli);
    if let Err(error) = &done
        && !error.is::<Unwritten>()
        && !interrupt::requested()
    {
        let (name, file) =
            about(arguments.resume.iter().flatten().next().map(PathBuf::as_path), &arguments.file);
        let error = format!("{error:#}");
        // The CI files name the experiment even if the run failed.
        let came = Came::Failed { name: &name, file: &file, error: &error };
        if let Err(unwritten) = write_ci_files(&files, came) {
            cli.progress.line(&format!("{unwritten:#}"));
        }
    }
    match arguments.exit_codes {
        ExitCodes::Hone => done,
        ExitCodes::GitBisect => Ok(Ending::Bisect(for_git_bisect(done))),
    }
}

fn for_git_bisect(done: Result<Ending>) -> BisectCode {
    match done {
        Ok(Ending::Done) => BisectCode::Good,
        Ok(Ending::Worse) => BisectCode::Bad,
        Ok(_) => BisectCode::Skip,
        Err(error) => {
            failure::report(&error);
            let ends = failure::is_usage(&error) || interrupt::requested();
            if ends { BisectCode::Abort } else { BisectCode::Skip }
        }
    }
}

/// Marks an error that came after the result. The CI files already hold the result, so this error must not replace them.
#[derive(Debug)]
struct Unwritten(PathBuf);

impl std::fmt::Display for Unwritten {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the result is in {}, but Hone could not write all requested files",
            self.0.display()
        )
    }
}

fn gated(arguments: &Arguments, files: &CiFiles, cli: &CliContext) -> Result<Ending> {
    let run = match &arguments.resume {
        Some(named) => {
            if named.is_some() && cli.is_given("output") {
                bail!(Usage("--output does not go with --resume RUN: leave one of them out".to_owned()));
            }
            let is_one = |path: &Path| path.join("gate.json").is_file();
            GateRun::resume(&to_resume(named.as_deref(), &arguments.output, "gate", is_one)?)?
        }
        None => {
            let request = request(arguments)?;
            let (asked, experiment) = settled(&request)?;
            if arguments.dry_run {
                let rule = hold::rule_of(&asked, &experiment);
                return cli
                    .show_found("gate-plan", &asked, |asked| plan_text::plan(asked, &experiment, &rule));
            }
            GateRun::begin(&request, (asked, experiment), &arguments.output)?
        }
    };
    let (found, record) = (run.finish(&cli.progress)?, run.record());
    let page = arguments.report.write(&record);
    let written = write_ci_files(files, Came::Found(&found))
        .and(page.as_ref().map(|_| ()).map_err(|error| anyhow!("{error:#}")));
    let ending = match found.outcome {
        GateOutcome::Passed | GateOutcome::SameProgram => Ending::Done,
        GateOutcome::Worse => Ending::Worse,
        GateOutcome::TooLittlePower | GateOutcome::NotSeen => Ending::CouldNot,
    };
    let behind = format!("\n{}{}", page.unwrap_or_default(), settle::gate(&found));
    let document = |found: &CommitGate| documents::gate(found, &BTreeMap::new(), None);
    cli.show_document(found, document, &behind)?;
    match written.context(Unwritten(record)) {
        // The exit code must report the regression, not the failed write.
        Err(error) if matches!(ending, Ending::Worse) => cli.progress.line(&format!("{error:#}")),
        written => written?,
    }
    Ok(ending)
}

fn request(arguments: &Arguments) -> Result<GateRequest> {
    let bisects = arguments.bisect.is_some();
    let (base, head) = match &arguments.bisect {
        None => (arguments.base.clone(), arguments.head.clone()),
        Some(range) => match range.split_once("..") {
            Some((good, bad)) if !good.is_empty() && !bad.starts_with('.') => {
                let bad = if bad.is_empty() { "HEAD" } else { bad };
                (Some(good.to_owned()), bad.to_owned())
            }
            _ => bail!(Usage(format!(
                "invalid range `{range}`\n  next: name the last good and the first known bad commit, for example \
                 v1.2..HEAD"
            ))),
        },
    };
    Ok(GateRequest {
        file: arguments.file.clone(),
        base,
        head,
        exact: arguments.exact || bisects,
        bisects,
        file_of: arguments.file_of,
        evidence: match arguments.evidence {
            EvidenceName::Measured if !bisects => GateEvidence::Measured,
            EvidenceName::Measured | EvidenceName::Counted => GateEvidence::Counted,
        },
        even_if_same: arguments.even_if_same,
        require_power: arguments.require_power,
        cache: arguments.cache.clone(),
    })
}
