//! `hone optimize FILE`: from an experiment file to a verdict and a report.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hone_report::documents;

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_experiment::ending::Ending;
use hone_experiment::notation::{Share, TimeBudget, share};
use hone_experiment::phase::Phase;
use hone_experiment::settle;
use hone_experiment::spec::Overrides;
use hone_optimize::run::{OptimizeRun, RunRequest};

/// Build a program with PGO and BOLT and measure the effect.
///
/// The target is a Cargo package, a C or C++ project with its own build, a Go program, or a finished program. Hone builds the
/// baseline and reports the ceiling: the share of CPU time that a better layout can affect. It trains an instrumented build,
/// builds each variant, and checks that each result still works. Finally, Hone compares each variant with the one that it
/// builds on, under a workload that did not train it.
///
/// Exit code 3: a variant is worse and Hone kept none. A variant that you named with `variants` and that no other variant builds on
/// also gives exit code 3 if it is worse.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "Examples:
  hone optimize examples/broker/hone.toml --variants pgo
  hone optimize examples/broker/hone.toml --resume
  hone optimize examples/broker/hone.toml --resume runs/broker-pgo-003
  hone optimize my.toml --dry-run
  hone optimize my.toml --phase train
  hone optimize my.toml --variants pgo,bolt
  hone optimize my.toml --output /var/tmp/runs --json")]
pub(crate) struct Arguments {
    /// Experiment file: target, workloads and rules of the comparison.
    file: PathBuf,
    /// Where to write the result. This folder holds the runs, the builds and the ledger.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    /// Continue an interrupted run. Without RUN, Hone continues the newest run of this experiment.
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Show what would happen, and change nothing. Hone prints the command lines of the run. You can paste those of the plain build after the
    /// line that begins with RUNS=. The others contain values that only a run has, such as {port} and PROFILE.
    #[arg(long, conflicts_with_all = ["resume", "only"])]
    dry_run: bool,
    /// Run only this phase. The first phase begins a new run. Each later phase continues the newest run of this experiment, or the run that
    /// --resume names.
    #[arg(long = "phase", alias = "only", value_name = "PHASE")]
    only: Option<Phase>,
    /// Also train one profile per training workload, and compare all of them under every workload. This is `matrix = true` in the experiment
    /// file.
    #[arg(long)]
    matrix: bool,
    /// Variants to build, instead of those in the experiment file. Hone also builds the variants that they build on, and always `baseline`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Option<Vec<String>>,
    /// Longest time of a comparison, starts and warm-ups included. It replaces the numbers of pairs and rounds of the experiment
    /// file. [default: `budget` of the experiment file, otherwise those numbers]
    #[arg(long, value_name = "TIME")]
    budget: Option<TimeBudget>,
    /// Smallest difference to detect, for example `5%` or `0.05`. A budget then plans only the pairs that it needs. Without it, `effect` of
    /// the experiment file applies.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    effect: Option<f64>,
}

impl Arguments {
    fn request(self) -> RunRequest {
        let Self { file, output, resume, only, matrix, variants, budget, effect, dry_run: _, report: _ } =
            self;
        let effect = effect.map(Share);
        RunRequest { file, output, resume, only, overrides: Overrides { matrix, variants, budget, effect } }
    }
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { dry_run, report, .. } = arguments;
    let run = OptimizeRun::read(arguments.request())?;
    if dry_run {
        let text = run.dry_run(&cli.progress)?;
        let lines: Vec<&str> = text.lines().collect();
        return cli.show_found("plan", &lines, |_| text.clone());
    }
    let Some((found, record)) = run.carry_out(&cli.progress)? else { return Ok(Ending::Done) };
    let places = report.write(&record)?;
    let worse = run.is_worse(&found);
    let next = settle::optimization(&found, record.parent().unwrap_or(&record));
    let behind = format!("\n{places}{next}");
    cli.show_document(found, |found| documents::optimization(found, &BTreeMap::new(), None), &behind)?;
    Ok(if worse { Ending::Worse } else { Ending::Done })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn read(line: &str) -> RunRequest {
        let words = shlex::split(line).unwrap();
        Line::parse_from(words.iter().skip(1)).arguments.request()
    }

    #[test]
    fn the_printed_way_on_is_the_same_run() {
        let asked = "hone optimize 'my x.toml' --matrix --variants pgo+bolt,csir --budget 10m --effect 3% -o '/var/tmp/my runs' --phase train";
        let asked = read(asked);
        let line = asked.way_on(Path::new("/var/tmp/my runs/x-001"));
        let again = read(&line);
        assert_eq!(
            (&again.file, &again.output, &again.overrides),
            (&asked.file, &asked.output, &asked.overrides),
            "{line}"
        );
        assert_eq!(
            again.overrides,
            Overrides {
                matrix: true,
                variants: Some(vec!["pgo+bolt".into(), "csir".into()]),
                budget: Some(TimeBudget(600.0)),
                effect: Some(Share(0.03))
            }
        );
        assert_eq!(again.only, Some(Phase::Train));
        assert_eq!(again.resume, Some(Some("/var/tmp/my runs/x-001".into())));
    }
}
