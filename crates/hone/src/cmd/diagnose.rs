//! `hone diagnose`: why the CPU stalls, and whether a better layout of the code can help.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_record::Diagnosis;

use crate::cmd::context::{CliContext, ReportOptions, default_runs};
use hone_cli::connection::SecurityOptions;
use hone_cli::values::{rate, whole_seconds};
use hone_document::entries::replay::entry_of;
use hone_experiment::arm::is_address;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::ledger;
use hone_experiment::run_context::shown_runner;
use hone_optimize::diagnose::purpose::{Answer, Purpose, of_command, of_experiment};
use hone_optimize::diagnose::tail::TailSettings;
use hone_optimize::diagnose::{self, gate_text, reading};

/// Explain CPU stalls and estimate the gain from a better code layout.
///
/// Without --pid, --read or --replay, Hone runs the target of an experiment, or a command, in an emulator (qemu-user). It simulates caches and
/// TLBs, and needs no hardware counters and no privileges.
///
/// With --pid, Hone measures a running process under its current load. With --read, it judges files of other tools. With --replay, it replays
/// the trace of an earlier diagnosis on the layout that BOLT made of the same program.
///
/// With --tail, Hone loads a broker of this machine and explains its slowest requests. It watches for pauses of a Java virtual machine, CPU limits
/// of control groups, and waits for files. For the pauses, jcmd turns a log on and off again.
///
/// --learn writes a budget for CI. --gate fails with exit code 3 if the layout is worse than the budget allows.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone diagnose hone.toml  # plain build of the target, first training load
  hone diagnose hone.toml --program runs/x-001/bin/pgo/server
  hone diagnose -- xz -k -T1 file  # a command that ends by itself
  # A budget for CI; keep it with the sources
  hone diagnose --learn layout.toml -- xz -k -T1 file
  # Exit code 3 if the layout is worse than the budget
  hone diagnose --gate layout.toml -- xz -k -T1 file
  # A running process, for 10 seconds
  hone diagnose --pid \"$(pidof -s redis-server)\"
  hone diagnose --read perf.data  # output of perf record
  # Counters of Intel and Arm; for AMD use -M PipelineL1,PipelineL2
  perf stat -j -p \"$(pidof -s redis-server)\" \\
    -M TopdownL1,TopdownL2 sleep 10 2> slots.json
  hone diagnose --read slots.json --user-share 64%
  # Slots before and after a change
  hone diagnose --read before.txt --read after.txt
  hone diagnose --read server.fdata --program ./server  # BOLT's branch counts
  # Where p99.9 comes from: pauses of a JVM, CPU limits, slow files
  hone diagnose --tail 127.0.0.1:9092 --rate 2000 --duration 60s
  # From llvm-bolt --enable-bat
  hone diagnose --replay runs/x-diagnosis-001 --bolt-program x.bolt")]
#[command(group(clap::ArgGroup::new("of").required(true).multiple(true).args(["file", "read", "pid", "replay", "command", "tail"])))]
pub(crate) struct Arguments {
    /// Experiment file with the target and the load to trace.
    #[arg(conflicts_with_all = ["read", "pid", "replay", "command", "tail"])]
    file: Option<PathBuf>,
    /// File of perf stat, toplev, topdown-tool, callgrind, BOLT or perf record. A BOLT profile (fdata, or the input of perf2bolt --pa) needs
    /// --program. `-` reads standard input, except for perf record. Two files compare the slots before and after a change.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pid", "replay", "command", "tail"])]
    read: Vec<PathBuf>,
    /// Process id. Hone measures each thread of the process. With --tail, it is the process behind the broker.
    #[arg(long, value_name = "PID", conflicts_with_all = ["replay", "command"])]
    pid: Option<u32>,
    /// How long to measure. [default: 10s; with --tail, 30s]
    #[arg(
        long = "duration",
        alias = "seconds",
        value_name = "TIME",
        value_parser = whole_seconds::<u64>(1.0, 3_600.0),
        conflicts_with_all = ["file", "read", "replay", "command"]
    )]
    seconds: Option<u64>,
    #[command(flatten)]
    tail: TailOptions,
    /// Share of CPU time in the program's user code, for example `64%`. A layout can't affect the rest. `hone optimize` reports this share as
    /// the ceiling.
    #[arg(long, value_name = "SHARE", value_parser = share, requires = "read")]
    user_share: Option<f64>,
    /// Workload of the experiment to run. [default: the first training workload]
    #[arg(long, value_name = "NAME", requires = "file")]
    workload: Option<String>,
    /// Program (executable file). Hone traces it instead of building the target. With --read, it is the program of a BOLT profile.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["command", "pid", "replay", "tail"])]
    program: Option<PathBuf>,
    /// Folder of the earlier diagnosis whose trace to replay.
    #[arg(long, value_name = "RUN", requires = "on", conflicts_with_all = ["command", "tail"])]
    replay: Option<PathBuf>,
    /// Output of llvm-bolt --enable-bat for the traced program. `hone optimize` makes such a program.
    #[arg(long = "bolt-program", alias = "on", value_name = "FILE", requires = "replay")]
    on: Option<PathBuf>,
    /// Compare the run with the budget in this file. Exit code 3: a figure is worse than the budget allows.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["read", "learn", "pid", "replay", "tail"])]
    gate: Option<PathBuf>,
    /// Write a budget from several runs. The budget holds each figure and its spread over the runs.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["read", "pid", "replay", "tail"])]
    learn: Option<PathBuf>,
    /// Number of repeats. The option applies to --learn.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(2..=100),
        requires = "learn"
    )]
    repeats: u32,
    /// Where to write the result. Hone creates the run's folder in this folder. The ledger is in it, too. With --read, Hone writes a report
    /// only with this option or with --open.
    #[arg(short, long, value_name = "PATH", default_value_os_t = default_runs())]
    output: PathBuf,
    #[command(flatten)]
    report: ReportOptions,
    /// Ledger file. Hone writes the prediction of --replay to it. [default: ledger.jsonl in the folder of --output]
    #[arg(long, value_name = "FILE", requires = "replay")]
    ledger: Option<PathBuf>,
    /// Command that ends by itself.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Options of --tail.
#[derive(Debug, Args)]
struct TailOptions {
    /// Broker whose slowest requests to explain, as HOST:PORT. Hone creates a topic for the load and deletes it afterwards.
    #[arg(long, value_name = "BROKER", conflicts_with = "command")]
    tail: Option<String>,
    /// Produce requests per second, over all connections. [default: 1000]
    #[arg(short, long, value_parser = rate, value_name = "REQUESTS_PER_S", requires = "tail")]
    rate: Option<f64>,
    /// File with the load, as for `hone load --file`.
    #[arg(long, value_name = "FILE", requires = "tail")]
    load_file: Option<PathBuf>,
    /// Log of a Java virtual machine, made with -Xlog:gc*,safepoint:file=FILE:time,level,tags. Repeat it for rotated files. [default: Hone turns
    /// a log on for the window]
    #[arg(long, value_name = "FILE", requires = "tail")]
    gc_log: Vec<PathBuf>,
    #[command(flatten)]
    security: SecurityOptions,
}

/// Reads `64%` or `64` as 0.64.
fn share(text: &str) -> Result<f64, String> {
    let percent: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| "not a percentage; use for example 64%".to_owned())?;
    if percent > 0.0 && percent < 1.0 && !text.contains('%') {
        return Err(format!("less than 1%; did you mean {}%?", 100.0 * percent));
    }
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("must be between 0% and 100%".to_owned())
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { user_share, output, .. } = arguments;
    let (program, progress) = (arguments.program.as_deref(), &cli.progress);
    if let (Some(run), Some(candidate)) = (&arguments.replay, &arguments.on) {
        return foretell(run, candidate, arguments, cli);
    }
    if let Some(broker) = &arguments.tail.tail {
        return of_tail(broker, arguments, cli);
    }
    if let Some(pid) = arguments.pid {
        return of_process(pid, arguments, cli);
    }
    let (learn, gate) = (arguments.learn.as_deref(), arguments.gate.as_deref());
    let purpose = match (learn, gate) {
        (Some(path), _) => Purpose::Learn { path, repeats: arguments.repeats },
        (None, Some(path)) => Purpose::Gate { path },
        (None, None) => Purpose::Diagnose,
    };
    let answer = match (&arguments.read[..], &arguments.file) {
        ([path], _) => return show_read(reading::of_file(path, program, *user_share)?, arguments, cli),
        ([before, after], _) => {
            let (diagnosis, unread) = reading::of_two_files([before, after], program, *user_share)?;
            let ending = show_read(diagnosis, arguments, cli)?;
            return unread.map_or(Ok(ending), Err);
        }
        ([_, _, ..], _) => {
            return Err(Usage(
                "--read accepts at most two files\n  next: give one file, or two: before and after a change"
                    .to_owned(),
            )
            .into());
        }
        ([], Some(file)) => {
            let which = (arguments.workload.as_deref(), program);
            of_experiment(&purpose, file, which, output, progress)?
        }
        ([], None) => of_command(&purpose, &arguments.command, output, progress)?,
    };
    match answer {
        Answer::Diagnosis(found) => show_whole(*found, arguments, cli),
        Answer::Gate(gate) => {
            cli.show_found("gate", &gate, gate_text::text)?;
            Ok(if gate.is_worse { Ending::Worse } else { Ending::Done })
        }
        Answer::Learned(budget) => {
            let path = learn.unwrap_or(Path::new(""));
            cli.show_found("budget", &budget, |budget| gate_text::learned(budget, path))
        }
    }
}

/// Writes the prediction for a layout to the ledger, so that you can compare it with the later measurement.
fn foretell(run: &Path, candidate: &Path, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let found = diagnose::of_replay(run, candidate)?;
    let path = arguments.ledger.clone().unwrap_or_else(|| arguments.output.join(ledger::NAME));
    let entered = ledger::enter(&path, &entry_of(&found, run, candidate), &cli.progress);
    cli.show(found, hone_document::diagnosis::foretelling)?;
    entered.map(|()| Ending::Done)
}

fn of_process(pid: u32, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let (process, progress) = (diagnose::Process::look(pid)?, &cli.progress);
    let folder = RunFolder::create(&arguments.output, &format!("{}-diagnosis", process.name()))?;
    progress.line(&format!("Run folder: {}", folder.path().display()));
    let window = Duration::from_secs(arguments.seconds.unwrap_or(10));
    let runner = shown_runner(&folder, progress)?;
    show_whole(diagnose::of_process(&runner, &folder, &process, window, progress)?, arguments, cli)
}

/// Explains the slowest requests of a load.
fn of_tail(broker: &str, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if !is_address(broker) {
        return Err(Usage(format!(
            "invalid broker address `{broker}`: use HOST:PORT, for example `127.0.0.1:9092`"
        ))
        .into());
    }
    if let Some(Err(error)) = arguments.pid.map(hone_host::cpu::sample) {
        return Err(Usage(format!("--pid: {error}")).into());
    }
    let asked = TailSettings {
        broker,
        security: arguments.tail.security.security()?,
        pid: arguments.pid,
        load: arguments.tail.load_file.as_deref(),
        rate: arguments.tail.rate,
        duration_s: arguments.seconds.map(|seconds| seconds as f64),
        gc_logs: &arguments.tail.gc_log,
    };
    let (account, record) = diagnose::tail::of_broker(&asked, &arguments.output, &cli.progress)?;
    let places = arguments.report.write(&record);
    let behind = places.as_deref().unwrap_or_default();
    cli.show_document(account, hone_report::documents::tail, &format!("\n{behind}"))?;
    places.map(|_| Ending::Done)
}

fn show_whole(found: diagnose::Found, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let places = arguments.report.write(&found.record);
    let behind = places.as_deref().unwrap_or_default();
    cli.show(found.diagnosis, |diagnosis| hone_document::diagnosis::text(diagnosis) + "\n" + behind)?;
    places.map(|_| if found.is_whole { Ending::Done } else { Ending::CouldNot })
}

/// Files of other tools get a report if it is asked for.
fn show_read(diagnosis: Diagnosis, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let is_believed = reading::is_believed(&diagnosis);
    let is_kept = ["output", "open"].iter().any(|id| cli.is_given(id));
    let names = ["diagnosis", "diagnosis.json"];
    let places = match is_kept {
        true => arguments.report.keep(&arguments.output, names, diagnosis.clone(), &cli.progress),
        false => String::new(),
    };
    cli.show(diagnosis, |diagnosis| hone_document::diagnosis::text(diagnosis) + &places)?;
    Ok(if is_believed { Ending::Done } else { Ending::CouldNot })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!((share("64%"), share("64"), share("0")), (Ok(0.64), Ok(0.64), Ok(0.0)));
        assert!(share("120%").unwrap_err().contains("between"), "{:?}", share("120%"));
        assert!(share("0.64").unwrap_err().contains("did you mean 64%?"));
        assert_eq!(share("0.5%"), Ok(0.005));
        assert!(share("half").unwrap_err().contains("for example 64%"));
    }
}
