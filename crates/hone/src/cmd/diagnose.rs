//! `hone diagnose`: why the CPU stalls, and whether a better layout of the code can help.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use hone_record::Diagnosis;

use crate::cmd::context::{CliContext, default_runs};
use hone_document::entries::replay::entry_of;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::ledger;
use hone_experiment::run_context::shown_runner;
use hone_optimize::diagnose::purpose::{Answer, Purpose, of_command, of_experiment};
use hone_optimize::diagnose::{self, gate_text, reading};

/// Say why the CPU stalls, and whether a better layout of the code can help.
///
/// With --read: from counters. Takes the top-down slots that perf stat, toplev or Arm's topdown-tool printed, in any of their shapes (text,
/// JSON, CSV), holds them against what shares can be, and gives a verdict with the rule that fired, where it is from, and the most that a
/// layout can save. A file of callgrind's is read, too, and a profile of BOLT's: they say how much memory the code that runs touches, and
/// nothing of misses. So is what perf record wrote: it says where the time goes by
/// thread and function, and nothing of why.
///
/// With --pid: of a running process, as it is and under the load that it has. Says first what the evidence is: slots by counters where the
/// machine has them, else samples (perf), and in any case what the kernel keeps of each thread. The busy thread is found by itself.
///
/// Otherwise without any counters: the target of an experiment, under its load, or a command, runs under an emulator (qemu-user) with Hone's
/// tracer, and caches and TLBs of named sizes are simulated from every block of code that runs. No privileges are needed.
///
/// With --replay: what ran in an earlier diagnosis, replayed on the layout that BOLT gave the same program: what that will do, before it
/// runs.
///
/// Such a trace is the same on any machine, so CI can hold it against a budget: --learn writes one, --gate fails (exit code 3) when the code lies
/// worse than it allows, by more than repeats of the same differed.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone diagnose hone.toml                                  the target's plain build under its first training load
  hone diagnose hone.toml --program runs/x-001/bin/pgo/server
  hone diagnose -- xz -k -T1 file                          a program that ends by itself
  hone diagnose --learn layout.toml -- xz -k -T1 file      a budget for CI, kept with the sources
  hone diagnose --gate layout.toml -- xz -k -T1 file       exit code 3 when the code lies worse than it allows
  hone diagnose --pid \"$(pidof -s redis-server)\"          a running process, for 10 seconds
  hone diagnose --read perf.data                           what perf record wrote
  perf stat -j -p \"$(pidof -s redis-server)\" -M TopdownL1,TopdownL2 sleep 10 2> slots.json     (Intel, Arm)
  perf stat -j -p \"$(pidof -s redis-server)\" -M PipelineL1,PipelineL2 sleep 10 2> slots.json   (AMD)
  hone diagnose --read slots.json --user-share 64%
  hone diagnose --read before.txt --read after.txt         where the slots went
  hone diagnose --read server.fdata --program ./server     by BOLT's counts of branches
  hone diagnose --replay runs/x-diagnosis-001 --on x.bolt  what a layout will do; made by llvm-bolt --enable-bat")]
#[command(group(clap::ArgGroup::new("of").required(true).args(["file", "read", "pid", "replay", "command"])))]
pub(crate) struct Arguments {
    /// The experiment whose target and load are traced.
    file: Option<PathBuf>,
    /// What perf stat, toplev, topdown-tool or callgrind wrote, a profile of BOLT's (fdata, or what perf2bolt --pa takes; with --program),
    /// or perf record; `-` is standard input (not for perf record). Give it twice to compare the slots before and after a
    /// change.
    #[arg(long, value_name = "FILE")]
    read: Vec<PathBuf>,
    /// A running process: looked at by thread, with counters where there are any, else with samples (perf), and with what the kernel keeps.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// For how long.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600), requires = "pid")]
    seconds: u64,
    /// How much of the CPU is user code of the program, such as 64%: no layout touches the rest. `hone optimize` tells it as the
    /// ceiling.
    #[arg(long, value_name = "PERCENT", value_parser = share, requires = "read")]
    user_share: Option<f64>,
    /// The workload of the experiment that it is loaded with; the first one that trains unless named.
    #[arg(long, value_name = "NAME", requires = "file")]
    workload: Option<String>,
    /// Another build of the target to trace in place of the plain one, which then is not built; with --read, the program that a profile of
    /// BOLT's was taken of.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["command", "pid", "replay"])]
    program: Option<PathBuf>,
    /// The run's folder of an earlier diagnosis, whose trace is replayed.
    #[arg(long, value_name = "RUN", requires = "on")]
    replay: Option<PathBuf>,
    /// What BOLT made of the program that was traced, with `--enable-bat`, as `hone optimize` has it made.
    #[arg(long, value_name = "PROGRAM", requires = "replay")]
    on: Option<PathBuf>,
    /// Hold the run against a budget that --learn wrote; exit code 3 when a figure is worse than it allows.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["read", "learn", "pid", "replay"])]
    gate: Option<PathBuf>,
    /// Run it several times, and write a budget: each figure, and how much it differs between repeats.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["read", "pid", "replay"])]
    learn: Option<PathBuf>,
    /// Repeats that --learn learns from.
    #[arg(long, value_name = "NUMBER", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=100), requires = "learn")]
    repeats: u32,
    /// Folder under which the run's folder is made; the ledger lies there.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
    /// Another ledger for what is foretold.
    #[arg(long, value_name = "FILE", requires = "replay")]
    ledger: Option<PathBuf>,
    /// A command that ends by itself.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `64%` or `64`, of 1.
fn share(text: &str) -> Result<f64, String> {
    let percent: f64 = text
        .trim_end_matches('%')
        .trim()
        .parse()
        .map_err(|_| "is no share; write it as a percentage, such as 64%".to_owned())?;
    if percent > 0.0 && percent < 1.0 && !text.contains('%') {
        return Err(format!("is less than one per cent; did you mean {}%?", 100.0 * percent));
    }
    if (0.0..=100.0).contains(&percent) {
        Ok(percent / 100.0)
    } else {
        Err("must lie between 0% and 100%".to_owned())
    }
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let Arguments { user_share, output, .. } = arguments;
    let (program, progress) = (arguments.program.as_deref(), &cli.progress);
    if let (Some(run), Some(candidate)) = (&arguments.replay, &arguments.on) {
        return foretell(run, candidate, arguments, cli);
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
        ([path], _) => return show_read(reading::of_file(path, program, *user_share)?, cli),
        ([before, after], _) => {
            let (diagnosis, unread) = reading::of_two_files([before, after], program, *user_share)?;
            let ending = show_read(diagnosis, cli)?;
            return unread.map_or(Ok(ending), Err);
        }
        ([_, _, ..], _) => {
            return Err(Usage("--read takes one file, or two: before and after".to_owned()).into());
        }
        ([], Some(file)) => {
            let which = (arguments.workload.as_deref(), program);
            of_experiment(&purpose, file, which, output, progress)?
        }
        ([], None) => of_command(&purpose, &arguments.command, output, progress)?,
    };
    match answer {
        Answer::Diagnosis(found) => show_whole(found, cli),
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

/// What is said of a layout before it runs goes into the ledger, where it can be held against what came of it.
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
    let window = Duration::from_secs(arguments.seconds);
    let runner = shown_runner(&folder, progress)?;
    show_whole(diagnose::of_process(&runner, &folder, &process, window, progress)?, cli)
}

fn show_whole(found: diagnose::Found, cli: &CliContext) -> Result<Ending> {
    cli.show(found.diagnosis, hone_document::diagnosis::text)?;
    Ok(if found.is_whole { Ending::Done } else { Ending::CouldNot })
}

fn show_read(diagnosis: Diagnosis, cli: &CliContext) -> Result<Ending> {
    let is_believed = reading::is_believed(&diagnosis);
    cli.show(diagnosis, hone_document::diagnosis::text)?;
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
        assert!(share("half").unwrap_err().contains("such as 64%"));
    }
}
