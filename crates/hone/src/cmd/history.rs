//! `hone history`: metrics over commits, their change points, and exchange with other benchmark tools.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use hone_record::{ChangePoint, LineState, MetricHistory};
use hone_report::documents;
use hone_serve::history::{self, Format, Query, export};
use hone_serve::page::keep;

use crate::cmd::context::{CliContext, default_runs, print};
use hone_experiment::ending::{Ending, Usage};

/// Find change points of metrics over commits, and fail on new ones.
///
/// A line is one metric of one target under the same circumstances, over commits, builds, ledger entries or imported files. Hone searches
/// each line for change points, and lists the lines. A single line is shown with all its points.
///
/// Exit code 3: a line has a new change point for the worse. It is a place to look at, not a verdict.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone history
  hone history nightly/records --metric p99 --within 10
  hone history --import bench/*.txt
  hone history --line target --metric latency-p50
  hone history --import main=old.txt --import pr=new.txt --line Encode-8
  hone history --export bencher --output metrics.json
  hone history --export github-action-benchmark --better smaller -o bench.json")]
pub(crate) struct Arguments {
    /// Folders of runs and records, record files, or ledgers. [default: runs; nothing with --import]
    #[arg(value_name = "PATH")]
    places: Vec<PathBuf>,
    /// Results of another benchmark tool: a file, or LABEL=FILE; repeat it for several. Each file is a point of its benchmarks, in the order of
    /// the command line. Hone reads Go's benchmark text, benchstat's CSV, hyperfine's JSON, and criterion's files or its folder
    /// target/criterion. The label of a point is LABEL, the commit in the file, or the name of the file.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    import: Vec<String>,
    /// Format of the imported files. [default: detected from the content]
    #[arg(long, value_enum, value_name = "FORMAT", requires = "import")]
    from: Option<ImportFormat>,
    /// Use only this metric; repeat it for several. Imported metrics have the names of their tools, for example ns/op.
    #[arg(long, value_name = "METRIC")]
    metric: Vec<String>,
    /// Use only lines with this name or id.
    #[arg(long, value_name = "LINE")]
    line: Option<String>,
    /// Use only lines where values of this direction are better.
    #[arg(long, value_enum, value_name = "DIRECTION")]
    better: Option<Direction>,
    /// Use only the newest N. The number applies to the points of each line.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    newest: Option<u32>,
    /// Number of newest points in which a change point is new.
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(ChangePoint::FEWEST_BESIDE as i64..))]
    within: u32,
    /// Print the newest point of each line for another tool. Bencher reads `bencher`, its Metric Format. The action reads
    /// `github-action-benchmark` as customSmallerIsBetter or customBiggerIsBetter.
    #[arg(long, value_enum, value_name = "FORMAT")]
    export: Option<ExportFormat>,
    /// Where to write the result. [default: stdout]
    #[arg(short, long, value_name = "PATH", requires = "export")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ImportFormat {
    GoBench,
    Benchstat,
    Hyperfine,
    Criterion,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Direction {
    Smaller,
    Bigger,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ExportFormat {
    Bencher,
    GithubActionBenchmark,
}

pub(crate) fn run(arguments: Arguments, cli: &CliContext) -> Result<Ending> {
    if cli.json && arguments.export.is_some() {
        bail!(Usage("--export and --json exclude each other\n  next: omit one of them".to_owned()));
    }
    let (format, output) = (arguments.export, arguments.output.clone());
    cli.progress.doing("searching for change points");
    let found = history::find(&query(arguments))?;
    let ending =
        if found.in_state(LineState::NewWorse).next().is_some() { Ending::Worse } else { Ending::Done };
    if let Some(format) = format {
        write(&exported(&found, format)?, output, cli)?;
    } else {
        cli.show_found_document("history", &found, documents::history)?;
    }
    Ok(ending)
}

fn query(arguments: Arguments) -> Query {
    let takes_default = arguments.places.is_empty() && arguments.import.is_empty();
    Query {
        places: if takes_default { vec![default_runs()] } else { arguments.places },
        imports: arguments.import,
        format: arguments.from.map(|format| match format {
            ImportFormat::GoBench => Format::GoBench,
            ImportFormat::Benchstat => Format::Benchstat,
            ImportFormat::Hyperfine => Format::Hyperfine,
            ImportFormat::Criterion => Format::Criterion,
        }),
        metrics: arguments.metric,
        line: arguments.line,
        lower_is_better: arguments.better.map(|direction| direction == Direction::Smaller),
        newest: arguments.newest.map(|newest| newest as usize),
        within: arguments.within as usize,
    }
}

fn exported(found: &MetricHistory, format: ExportFormat) -> Result<String> {
    let json = match format {
        ExportFormat::Bencher => export::bencher(&found.lines),
        ExportFormat::GithubActionBenchmark => export::github_action(&found.lines)?,
    };
    Ok(format!("{json:#}\n"))
}

fn write(text: &str, output: Option<PathBuf>, cli: &CliContext) -> Result<()> {
    cli.progress.clear();
    match output {
        Some(path) => keep(&path, text),
        None => print(text),
    }
}
