//! `hone gate`: does this commit make the service slower?

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use hone_record::{CommitGate, GateOutcome};
use hone_report::documents;
use hone_tool::interrupt;

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::Ending;
use hone_optimize::gate::begin::{GateRequest, GateRun, settled};
use hone_optimize::gate::choice::FileOf;
use hone_optimize::gate::ci_files::{CiFiles, about, write_ci_files};
use hone_optimize::gate::papers::Came;
use hone_optimize::gate::{hold, plan_text};

/// Hold a commit against the one that it builds on, and fail when the service became slower.
///
/// Both are checked out and built alike, one after the other in the same place, and loaded in pairs on this machine, with an A/A control in
/// the same session. FILE is an experiment as for `hone optimize`; it needs no [optimize] part, and may have a [gate] part. The user's
/// repository is only read. Where both commits build the same program, nothing is measured.
///
/// Exit code 0: nothing was shown to be worse. 3: something that decides is worse, by its limit or more. 1: it could not tell (a commit
/// can't be built, the base does not stand its load, too few pairs count, or, with --require-power, the pairs would not have shown what they
/// look for).
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone gate --base origin/main
  hone gate load/hone.toml --base origin/main --head worktree
  hone gate --base v1.2 --exact --require-power
  hone gate --base origin/main --junit gate.xml --sarif gate.sarif --comment gate.md
  hone gate --resume runs/orders-gate-003

In a pull request of GitHub, and in a merge request of GitLab, the base is known; examples/ci has a workflow for each.

A file:
  name = \"orders\"

  [target]
  manifest = \".\"
  package = \"orders\"
  bin = \"orders\"
  args = [\"--listen\", \"127.0.0.1:{port}\"]

  [workload.judge]
  requests_per_s = 2000

  [gate]
  judge = [\"judge\"]            # those of [optimize] without it
  worse_by = \"3%\"              # a growth that counts, of the primary metric of [compare]
  builds = 5                   # layouts of each commit, so that their luck is in the interval
  [gate.guards]
  latency-p99 = \"10%\"          # what must not get worse either, and by how much")]
pub(crate) struct Arguments {
    /// The experiment file.
    #[arg(default_value = "hone.toml")]
    file: PathBuf,
    /// The state before: a commit or a branch, and then the commit where the head parted from it. In a pull request of GitHub or a merge
    /// request of GitLab it is known.
    #[arg(long, value_name = "REF")]
    base: Option<String>,
    /// The state that is asked about: a commit, or `worktree` for the working tree as it is.
    #[arg(long, value_name = "REF", default_value = "HEAD")]
    head: String,
    /// Take the base itself, and not the commit where the head parted from it.
    #[arg(long)]
    exact: bool,
    /// Whose experiment file counts, for both commits, where they differ in what is built or loaded.
    #[arg(long, value_enum, default_value = "base", value_name = "SIDE")]
    file_of: FileOf,
    /// Measure also where both commits build the same program: an A/A run that says what this machine can show.
    #[arg(long)]
    even_if_same: bool,
    /// Fail (exit code 1) when the pairs would not have shown a growth by the limit; as `require_power = true` in [gate].
    #[arg(long)]
    require_power: bool,
    /// Say what would be built and loaded, and do nothing.
    #[arg(long)]
    dry_run: bool,
    /// Go on with a run that was broken off, as it was asked for then.
    #[arg(long, value_name = "RUN", conflicts_with_all = AS_IT_WAS)]
    resume: Option<PathBuf>,
    /// Write the result as JUnit XML, too.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write what fails as SARIF 2.1.0, too.
    #[arg(long, value_name = "FILE")]
    sarif: Option<PathBuf>,
    /// Write a comment for the pull request (Markdown), too. Where GITHUB_STEP_SUMMARY names a file, the same is added to that.
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Where commits are checked out and their builds kept; hone/gate in the user's cache without it. Not inside of the sources: compilers
    /// look for settings in the folders above.
    #[arg(long, value_name = "FOLDER")]
    cache: Option<PathBuf>,
}

/// What a run that goes on has of its begin.
const AS_IT_WAS: [&str; 10] = [
    "file",
    "base",
    "head",
    "exact",
    "file_of",
    "even_if_same",
    "require_power",
    "dry_run",
    "output",
    "cache",
];

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { junit, sarif, comment, .. } = arguments;
    let files = CiFiles { junit: junit.clone(), sarif: sarif.clone(), comment: comment.clone() };
    let done = gated(arguments, &files, cli);
    if let Err(error) = &done
        && !error.is::<Unwritten>()
        && !interrupt::requested()
    {
        let (name, file) = about(arguments.resume.as_deref(), &arguments.file);
        let error = format!("{error:#}");
        // What it is about is told all the same.
        let came = Came::Failed { name: &name, file: &file, error: &error };
        if let Err(unwritten) = write_ci_files(&files, came) {
            cli.progress.line(&format!("{unwritten:#}"));
        }
    }
    done
}

/// Marks an error as one behind the result: what is written already tells that, and stays.
#[derive(Debug)]
struct Unwritten(PathBuf);

impl std::fmt::Display for Unwritten {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "the result stands in {}, and not all that was asked for could be written",
            self.0.display()
        )
    }
}

fn gated(arguments: &Arguments, files: &CiFiles, cli: &CliContext) -> Result<Ending> {
    let run = match &arguments.resume {
        Some(run) => GateRun::resume(run)?,
        None => {
            let request = request(arguments);
            let (asked, experiment) = settled(&request)?;
            if arguments.dry_run {
                let count = experiment.judging.len();
                let (primary, wishes) = (experiment.compare.primary, &experiment.gate);
                let rule = hold::rule(primary, wishes, count, asked.require_power);
                return cli
                    .show_found("gate-plan", &asked, |asked| plan_text::plan(asked, &experiment, &rule));
            }
            GateRun::begin(&request, (asked, experiment), &arguments.output)?
        }
    };
    let (found, record) = (run.finish(&cli.progress)?, run.record());
    let page = hone_serve::page::write(&record, None);
    let written = write_ci_files(files, Came::Found(&found))
        .and(page.as_ref().map(|_| ()).map_err(|error| anyhow!("{error:#}")));
    let ending = match found.outcome {
        GateOutcome::Passed | GateOutcome::SameProgram => Ending::Done,
        GateOutcome::Worse => Ending::Worse,
        GateOutcome::TooLittlePower | GateOutcome::NotSeen => Ending::CouldNot,
    };
    let told = page.map_or_else(|_| String::new(), |page| format!("Report: {}\n", page.display()));
    let document = |found: &CommitGate| documents::gate(found, &BTreeMap::new(), None);
    cli.show_document(found, document, &format!("\n{told}"))?;
    match written.context(Unwritten(record)) {
        // Whoever waits for the exit code is to hear of that first.
        Err(error) if matches!(ending, Ending::Worse) => cli.progress.line(&format!("{error:#}")),
        written => written?,
    }
    Ok(ending)
}

fn request(arguments: &Arguments) -> GateRequest {
    GateRequest {
        file: arguments.file.clone(),
        base: arguments.base.clone(),
        head: arguments.head.clone(),
        exact: arguments.exact,
        file_of: arguments.file_of,
        even_if_same: arguments.even_if_same,
        require_power: arguments.require_power,
        cache: arguments.cache.clone(),
    }
}
