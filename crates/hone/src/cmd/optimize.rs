//! `hone optimize FILE`: from an experiment file to a verdict and a report.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use hone_report::documents;

use crate::cmd::context::{CliContext, default_runs};
use hone_experiment::ending::Ending;
use hone_experiment::phase::Phase;
use hone_experiment::spec::VariantChoice;
use hone_optimize::run::{OptimizeRun, RunRequest};

/// Take a native program through profile-guided optimisation and BOLT and say, by measurement, what they brought.
///
/// The target is a Cargo package, a project of C or C++ with its own build, a Go program, or a finished program. Builds the
/// baseline, tells the ceiling, builds with counters, trains, proves the profile, builds each variant with it, proves that it
/// was applied, lets BOLT rewrite what should be rewritten, checks that every result still works, and judges each variant against
/// the one that it builds on, with another workload than the one that trained. Every step ends in a file of the run's folder.
///
/// Exit code 3: nothing is kept and a variant is worse, or one that `variants` names, and that nothing else builds on, is worse.
#[derive(Debug, Clone, Args)]
#[command(after_long_help = "Examples:
  hone optimize examples/broker/hone.toml --variants pgo
  hone optimize examples/broker/hone.toml --resume
  hone optimize examples/broker/hone.toml --resume runs/broker-pgo-003
  hone optimize my.toml --dry-run
  hone optimize my.toml --only train
  hone optimize my.toml --variants pgo,bolt
  hone optimize my.toml --output /var/tmp/runs --json")]
pub(crate) struct Arguments {
    /// The experiment: target, workloads, how to compare.
    file: PathBuf,
    /// Folder for runs, builds and the ledger.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Go on with a run that was broken off: the named one, or the newest of this experiment.
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Print the command lines that a run would carry out, and carry out none. Those of the plain build can be pasted behind the line
    /// that begins with RUNS=. Others name what is made only by a run: {port} and {data} of a start, the merged PROFILE, the object of
    /// a counting build, and the copies of built programs. What Hone does itself between them stands there as comments.
    #[arg(long, conflicts_with_all = ["resume", "only"])]
    dry_run: bool,
    /// Go through one phase and end. Each phase goes on in the run of the one before: the first begins a new one, the others take
    /// the newest of this experiment, or the one that --resume names.
    #[arg(long, value_name = "PHASE")]
    only: Option<Phase>,
    /// Train a profile with each training workload alone, too, and judge all of them under every workload; as `matrix = true`
    /// in the experiment.
    #[arg(long)]
    matrix: bool,
    /// Make these variants in place of those that the experiment names, and what they build on; `baseline` is always made.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    variants: Option<Vec<String>>,
}

impl Arguments {
    fn request(self) -> RunRequest {
        let Self { file, output, resume, only, matrix, variants, dry_run: _ } = self;
        RunRequest { file, output, resume, only, variants: VariantChoice { matrix, variants } }
    }
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    let dry_run = arguments.dry_run;
    let run = OptimizeRun::read(arguments.request())?;
    if dry_run {
        let text = run.dry_run(&cli.progress)?;
        let lines: Vec<&str> = text.lines().collect();
        return cli.show_found("plan", &lines, |_| text.clone());
    }
    let Some((found, record)) = run.carry_out(&cli.progress)? else { return Ok(Ending::Done) };
    let page = hone_serve::page::write(&record, None)?;
    let worse = run.is_worse(&found);
    let report = format!("\nReport: {}\n", page.display());
    cli.show_document(found, |found| documents::optimization(found, &BTreeMap::new(), None), &report)?;
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
        let asked =
            "hone optimize 'my x.toml' --matrix --variants pgo+bolt,csir -o '/var/tmp/my runs' --only train";
        let asked = read(asked);
        let line = asked.way_on(Path::new("/var/tmp/my runs/x-001"));
        let again = read(&line);
        assert_eq!(
            (&again.file, &again.output, &again.variants),
            (&asked.file, &asked.output, &asked.variants),
            "{line}"
        );
        assert_eq!(
            again.variants,
            VariantChoice { matrix: true, variants: Some(vec!["pgo+bolt".into(), "csir".into()]) }
        );
        assert_eq!(again.only, Some(Phase::Train));
        assert_eq!(again.resume, Some(Some("/var/tmp/my runs/x-001".into())));
    }
}
