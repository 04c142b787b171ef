//! `hone diagnose`: why the CPU stalls, and whether a better layout of the code can help.

use std::fs;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_diagnose::{callgrind, perf, topdown, verdict};
use hone_record::{Diagnosed, Diagnosis, Evidence};
use hone_tool::System;

use super::{Desk, default_runs};
use crate::folder::RunFolder;
use crate::optimize::{self, Job};
use crate::{Ending, bench, diagnose, experiment, show};

/// More than this is no output of `perf stat`, and no file of callgrind's.
const MOST_BYTES: u64 = 256 << 20;

/// Say why the CPU stalls, and whether a better layout of the code can help.
///
/// With --read: from counters. Takes the top-down slots that perf stat, toplev or Arm's topdown-tool printed, in any of their shapes (text,
/// JSON, CSV), holds them against what shares can be, and gives a verdict with the rule that fired, where it is from, and the most that a
/// layout can save. A file of callgrind's is read, too: it says how much memory the code that runs touches, and nothing of misses. So is what perf record
/// wrote: it says where the time goes by thread and function, and nothing of why.
///
/// With --pid: of a running process, as it is and under the load that it has. Says first what the evidence is: slots by counters where the
/// machine has them, else samples (perf), and in any case what the kernel keeps of each thread. The busy thread is found by itself.
///
/// Otherwise without any counters: the target of an experiment, under its load, or a command, runs under an emulator (qemu-user) with Hone's
/// tracer, and caches and TLBs of named sizes are simulated from every block of code that runs. No privileges are needed.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone diagnose hone.toml                                  the target's plain build under its first training load
  hone diagnose hone.toml --program runs/x-001/bin/pgo/server
  hone diagnose -- xz -k -T1 file                          a program that ends by itself
  hone diagnose --pid \"$(pidof -s redis-server)\"          a running process, for 10 seconds
  hone diagnose --read perf.data                           what perf record wrote
  perf stat -j -p \"$(pidof -s redis-server)\" -M TopdownL1,TopdownL2 sleep 10 2> slots.json     (Intel, Arm)
  perf stat -j -p \"$(pidof -s redis-server)\" -M PipelineL1,PipelineL2 sleep 10 2> slots.json   (AMD)
  hone diagnose --read slots.json --user-share 64%")]
#[command(group(clap::ArgGroup::new("of").required(true).args(["file", "read", "pid", "command"])))]
pub(crate) struct Arguments {
    /// The experiment whose target and load are traced.
    file: Option<PathBuf>,
    /// What perf stat, toplev, topdown-tool, callgrind or perf record wrote; `-` is standard input (not for perf record).
    #[arg(long, value_name = "FILE")]
    read: Option<PathBuf>,
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
    /// Another build of the target to trace in place of the plain one, which then is not built.
    #[arg(long, value_name = "PATH", requires = "file")]
    program: Option<PathBuf>,
    /// Folder under which the run's folder is made.
    #[arg(short, long, value_name = "FOLDER", default_value_os_t = default_runs())]
    output: PathBuf,
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

pub(crate) fn run(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    if let Some(pid) = arguments.pid {
        return of_process(pid, arguments, desk);
    }
    match (&arguments.read, &arguments.file) {
        (Some(path), _) => of_file(path, arguments.user_share, desk),
        (None, Some(file)) => of_experiment(file, arguments, desk),
        (None, None) => of_command(arguments, desk),
    }
}

fn of_experiment(file: &Path, arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the experiment {} can't be read", file.display()))?;
    let experiment = experiment::parse_asked(&text, file, &experiment::Asked::default())?;
    for workload in experiment.training.iter().map(|training| &training.workload).chain(&experiment.judging) {
        bench::check(workload)?;
    }
    let workload = optimize::workload(&experiment, arguments.workload.as_deref())
        .with_context(|| file.display().to_string())?;
    let folder = RunFolder::create(&arguments.output, &format!("{}-diagnosis", experiment.name))?;
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = runner(&folder, desk)?;
    let home = std::path::absolute(&arguments.output)?.canonicalize()?;
    let job = Job {
        experiment: &experiment,
        file,
        folder: &folder,
        home: &home,
        runner: &runner,
        progress: &desk.progress,
        only: None,
    };
    let found = optimize::diagnose(&job, workload, arguments.program.as_deref())?;
    told(found, desk)
}

fn told(found: diagnose::Found, desk: &Desk) -> Result<Ending> {
    desk.show(found.diagnosis, show::diagnosis::text)?;
    Ok(if found.is_whole { Ending::Done } else { Ending::CouldNot })
}

fn of_command(arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let command = diagnose::Command::look(&arguments.command)?;
    let folder = RunFolder::create(&arguments.output, "diagnosis")?;
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    told(diagnose::of_command(&runner(&folder, desk)?, &folder, &command)?, desk)
}

fn of_process(pid: u32, arguments: &Arguments, desk: &Desk) -> Result<Ending> {
    let process = diagnose::Process::look(pid)?;
    let folder = RunFolder::create(&arguments.output, &format!("{}-diagnosis", process.name()))?;
    desk.progress.line(&format!("Run folder: {}", folder.path().display()));
    let window = Duration::from_secs(arguments.seconds);
    told(diagnose::of_process(&runner(&folder, desk)?, &folder, &process, window, &desk.progress)?, desk)
}

fn runner(folder: &RunFolder, desk: &Desk) -> Result<System> {
    let progress = desk.progress.clone();
    Ok(System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    }))
}

fn of_file(path: &Path, user_share: Option<f64>, desk: &Desk) -> Result<Ending> {
    let name = match path {
        path if path == Path::new("-") => "standard input".to_owned(),
        path => path.display().to_string(),
    };
    if begins_as_samples(path) {
        let samples = diagnose::read_samples(path)?;
        desk.show(diagnose::of_data(&samples, &name), show::diagnosis::text)?;
        return Ok(Ending::Done);
    }
    let text = text(path)?;
    let cannot = || format!("{name} gives no diagnosis");
    let diagnosis = if text.starts_with("# callgrind format") {
        let run = callgrind::read(&text, diagnose::image).with_context(cannot)?;
        diagnose::of_counts(&run, name.clone(), user_share)
    } else {
        of_slots(&topdown::read(&text).with_context(cannot)?, name.clone(), user_share)
    };
    let any = diagnosis.parts.iter().any(|part| part.refused.is_none());
    desk.show(diagnosis, show::diagnosis::text)?;
    // What can't be believed is no diagnosis.
    Ok(if any { Ending::Done } else { Ending::CouldNot })
}

/// Whether a file is perf's data, of any size. What can't be opened is told by whoever reads it.
fn begins_as_samples(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    path != Path::new("-") && read.is_ok() && perf::is_data(&head)
}

fn of_slots(readings: &[topdown::Reading], source: String, user_share: Option<f64>) -> Diagnosis {
    let part = |(scope, judged): (Option<String>, Result<hone_record::Slots, topdown::Fault>)| match judged {
        Ok(slots) => {
            let verdict = Some(verdict::of_slots(&slots, user_share));
            Diagnosed { slots: Some(slots), verdict, ..Diagnosed::of(scope) }
        }
        Err(fault) => Diagnosed { refused: Some(fault.to_string()), ..Diagnosed::of(scope) },
    };
    let parts = topdown::judge(readings).into_iter().map(part).collect();
    Diagnosis { evidence: Evidence::Measured, source, user_share, parts, watched: None, notes: Vec::new() }
}

fn text(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        stdin().take(MOST_BYTES + 1).read_to_end(&mut bytes)
    } else {
        fs::File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("{} can't be read", path.display()))?;
    anyhow::ensure!(
        bytes.len() as u64 <= MOST_BYTES,
        "{} is larger than 256 MiB, which no output of perf stat is, and does not begin as perf's data does",
        path.display()
    );
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
