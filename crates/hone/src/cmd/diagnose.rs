//! `hone diagnose`: why the CPU stalls, and whether a better layout of the code can help.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, stdin};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use hone_diagnose::model::Depth;
use hone_diagnose::topdown::counted;
use hone_diagnose::{callgrind, perf, topdown, verdict};
use hone_record::{Category, Diagnosed, Diagnosis, Evidence, LedgerEntry, Shift};
use hone_tool::System;

use crate::cmd::context::{CliContext, default_runs};
use crate::output::Output;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::folder::RunFolder;
use hone_experiment::{bench, ledger, spec};
use hone_optimize::Job;
use hone_optimize::diagnose;
use hone_optimize::diagnose::branched;
use hone_optimize::diagnose::gate::{self, Budget, Gate, Subject};

/// More than this is no output of `perf stat`, and no file of callgrind's.
const MOST_BYTES: u64 = 256 << 20;

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
    if let (Some(run), Some(candidate)) = (&arguments.replay, &arguments.on) {
        return foretell(run, candidate, arguments, cli);
    }
    if let Some(pid) = arguments.pid {
        return of_process(pid, arguments, cli);
    }
    match (&arguments.read[..], &arguments.file) {
        ([path], _) => of_file(path, arguments, cli),
        ([before, after], _) => of_two_files([before, after], arguments, cli),
        ([_, _, ..], _) => Err(Usage("--read takes one file, or two: before and after".to_owned()).into()),
        ([], Some(file)) => of_experiment(file, arguments, cli),
        ([], None) => of_command(arguments, cli),
    }
}

/// What is said of a layout before it runs goes into the ledger, where it can be held against what came of it.
fn foretell(run: &Path, candidate: &Path, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let found = diagnose::of_replay(run, candidate)?;
    let name = candidate.file_name().unwrap_or(candidate.as_os_str()).to_string_lossy();
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string();
    let entry = LedgerEntry {
        experiment: found.source.clone(),
        change: format!("binary: {name}"),
        question: format!("What will the layout of {} do?", whole(candidate)),
        rule: found.rule.clone(),
        decision: "foretold".to_owned(),
        why: format!(
            "{} is expected, by {} replayed instructions",
            found.expected,
            hone_format::count(found.replayed)
        ),
        foretold: Some(found.ahead()),
        run: whole(run),
        ..ledger::entry("diagnose")
    };
    let path = arguments.ledger.clone().unwrap_or_else(|| arguments.output.join(ledger::NAME));
    let entered = ledger::enter(&path, &entry, &cli.progress);
    cli.show(found, hone_document::diagnosis::foretelling)?;
    entered.map(|()| Ending::Done)
}

fn of_experiment(file: &Path, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let text = fs::read_to_string(file)
        .with_context(|| format!("the experiment {} can't be read", file.display()))?;
    let experiment = spec::parse(&text, file)?;
    for workload in experiment.training.iter().map(|training| &training.workload).chain(&experiment.judging) {
        bench::check(workload)?;
    }
    let workload = hone_optimize::workload(&experiment, arguments.workload.as_deref())
        .with_context(|| file.display().to_string())?;
    let purpose = arguments.purpose(Subject {
        program: experiment.name.clone(),
        workload: Some(workload.name.clone()),
        evidence: Evidence::Simulated,
    })?;
    let folder = RunFolder::create(&arguments.output, &format!("{}-diagnosis", experiment.name))?;
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = runner(&folder, cli)?;
    let home = std::path::absolute(&arguments.output)?.canonicalize()?;
    let job = Job {
        experiment: &experiment,
        file,
        folder: &folder,
        home: &home,
        runner: &runner,
        progress: &cli.progress,
        only: None,
    };
    let program = hone_optimize::program_to_diagnose(&job, arguments.program.as_deref())?;
    purpose.serve(cli, folder.path(), || hone_optimize::diagnose(&job, workload, &program))
}

fn of_command(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let command = diagnose::Command::look(&arguments.command)?;
    let subject = Subject { program: command.name(), workload: None, evidence: Evidence::Simulated };
    let purpose = arguments.purpose(subject)?;
    let folder = RunFolder::create(&arguments.output, "diagnosis")?;
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    let runner = runner(&folder, cli)?;
    purpose.serve(cli, folder.path(), || diagnose::of_command(&runner, &folder, &command))
}

/// What the traces are for.
enum Purpose<'a> {
    Diagnose,
    Learn { path: &'a Path, repeats: u32, subject: Subject },
    Gate { path: &'a Path, budget: Budget, subject: Subject },
}

impl Arguments {
    /// Looked at before anything runs: a budget that can't be read, or written, is known at once.
    fn purpose(&self, subject: Subject) -> Result<Purpose<'_>> {
        if let Some(path) = &self.learn {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
                let told =
                    format!("{} can't be written: there is no folder {}", path.display(), folder.display());
                return Err(Usage(told).into());
            }
            return Ok(Purpose::Learn { path, repeats: self.repeats, subject });
        }
        let Some(path) = &self.gate else { return Ok(Purpose::Diagnose) };
        let next = "\n  next: hone diagnose --learn FILE writes one";
        let text = fs::read_to_string(path)
            .with_context(|| format!("the budget {} can't be read{next}", path.display()))?;
        let wrong = |what: String| Usage(format!("{} {what}{next}", path.display()));
        let budget = Budget::parse(&text).map_err(wrong)?;
        budget.fits(&subject).map_err(wrong)?;
        Ok(Purpose::Gate { path, budget, subject })
    }
}

impl Purpose<'_> {
    /// Traces as often as is wanted, and shows what follows. `folder` is where the traces stay.
    fn serve(
        &self,
        cli: &CliContext,
        folder: &Path,
        once: impl Fn() -> Result<diagnose::Found>,
    ) -> Result<Ending> {
        let Self::Learn { path, repeats, subject } = self else {
            let found = once()?;
            return match self {
                // What broke off says nothing of what the rest would have been.
                Self::Gate { path, budget, subject } if found.is_whole => {
                    hold(path, budget, subject, cli, folder, &found)
                }
                _ => show_diagnosis(found, cli),
            };
        };
        learn(path, *repeats, subject, cli, once)
    }
}

fn show_diagnosis(found: diagnose::Found, cli: &CliContext) -> Result<Ending> {
    cli.show(found.diagnosis, hone_document::diagnosis::text)?;
    Ok(if found.is_whole { Ending::Done } else { Ending::CouldNot })
}

fn hold(
    path: &Path,
    budget: &Budget,
    subject: &Subject,
    cli: &CliContext,
    folder: &Path,
    found: &diagnose::Found,
) -> Result<Ending> {
    let figures = budget.hold(&figures(found)?);
    let is_worse = figures.iter().any(|held| held.outcome.fails());
    let (budget, folder) = (path.display().to_string(), folder.display());
    let next = [
        format!("where the code lies now: hone heatmap {folder}"),
        format!(
            "what moved: trace the state that {budget} was learned of in the same way, and hone heatmap BEFORE {folder} -o moved.html"
        ),
        format!(
            "where it is meant: the same command with --learn {budget} in place of --gate, and commit the file"
        ),
    ];
    let gate = Gate {
        budget,
        subject: subject.clone(),
        source: found.diagnosis.source.clone(),
        is_worse,
        figures,
        notes: found.diagnosis.notes.clone(),
        next: if is_worse { next.into() } else { Vec::new() },
    };
    cli.show_found("gate", &gate, hone_optimize::diagnose::gate_text::text)?;
    Ok(if is_worse { Ending::Worse } else { Ending::Done })
}

fn learn(
    path: &Path,
    repeats: u32,
    subject: &Subject,
    cli: &CliContext,
    once: impl Fn() -> Result<diagnose::Found>,
) -> Result<Ending> {
    let (mut all, mut of) = (Vec::new(), String::new());
    for repeat in 1..=repeats {
        cli.progress.line(&format!("Repeat {repeat} of {repeats}"));
        let found = once()?;
        anyhow::ensure!(
            found.is_whole,
            "nothing was learned: repeat {repeat} did not come to its end\n  {}",
            found.diagnosis.notes.join("\n  ")
        );
        all.push(figures(&found)?);
        of = found.diagnosis.source;
    }
    let budget = gate::learn(subject.clone(), of, &all);
    Output::claim(path)?.keep(budget.text())?;
    cli.show_found("budget", &budget, |budget| hone_optimize::diagnose::gate_text::learned(budget, path))?;
    Ok(Ending::Done)
}

/// Of all threads.
fn figures(found: &diagnose::Found) -> Result<BTreeMap<String, f64>> {
    let layout = found.diagnosis.parts.iter().rev().find_map(|part| part.layout.as_ref());
    Ok(gate::figures(layout.context("nothing ran")?, found.operations))
}

fn of_process(pid: u32, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let process = diagnose::Process::look(pid)?;
    let folder = RunFolder::create(&arguments.output, &format!("{}-diagnosis", process.name()))?;
    cli.progress.line(&format!("Run folder: {}", folder.path().display()));
    let window = Duration::from_secs(arguments.seconds);
    let found = diagnose::of_process(&runner(&folder, cli)?, &folder, &process, window, &cli.progress)?;
    show_diagnosis(found, cli)
}

fn runner(folder: &RunFolder, cli: &CliContext) -> Result<System> {
    let progress = cli.progress.clone();
    Ok(System::new(folder.join("logs"))?.on_progress(move |at| {
        progress.detail(&format!("{:.0} s  {}", at.elapsed.as_secs_f64(), at.last_line.unwrap_or_default()));
    }))
}

fn name_of(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

fn of_file(path: &Path, arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let name = name_of(path);
    if begins_as_samples(path) {
        let samples = diagnose::read_samples(path)?;
        cli.show(diagnose::of_data(&samples, &name), hone_document::diagnosis::text)?;
        return Ok(Ending::Done);
    }
    show_read(diagnosis_of(&bytes(path)?, name, arguments.program.as_deref(), arguments.user_share)?, cli)
}

/// Slots before a change and after it.
fn of_two_files(paths: [&PathBuf; 2], arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    if let Some(path) = paths.iter().find(|path| begins_as_samples(path)) {
        return Err(Usage(format!(
            "{}: samples of perf record have no slots to compare\n  next: read this file alone",
            path.display()
        ))
        .into());
    }
    let of = |path: &PathBuf| {
        diagnosis_of(&bytes(path)?, name_of(path), arguments.program.as_deref(), arguments.user_share)
    };
    let [before, after] = paths;
    match (of(before), of(after)) {
        (Ok(before), Ok(after)) => show_read(before_and_after(before, after)?, cli),
        // The file that can be read is shown all the same.
        (Ok(one), Err(error)) | (Err(error), Ok(one)) => {
            show_read(one, cli)?;
            Err(error)
        }
        (Err(error), Err(_)) => Err(error),
    }
}

/// One diagnosis of two, whose parts follow each other.
fn before_and_after(before: Diagnosis, after: Diagnosis) -> Result<Diagnosis> {
    if [&before, &after].into_iter().any(|one| one.evidence != Evidence::Measured) {
        return Err(Usage(format!(
            "--read compares only slots by counters: {} is {}, {} is {}",
            before.source,
            before.evidence.label(),
            after.source,
            after.evidence.label()
        ))
        .into());
    }
    let are_of_one_make = counts_contention(&before.parts) == counts_contention(&after.parts);
    let shifts = if are_of_one_make { shifts(&before.parts, &after.parts) } else { Vec::new() };
    let named = |side: &str, part: Diagnosed| {
        let scope = part.scope.map(|scope| format!(", {scope}")).unwrap_or_default();
        Diagnosed { scope: Some(format!("{side}{scope}")), ..part }
    };
    let mut notes = [before.notes, after.notes].concat();
    if !are_of_one_make {
        notes.push(
            "one file has SMT contention, which AMD's CPUs count, and the other has none: perhaps they are of different makes, so Hone does \
             not compare them"
                .to_owned(),
        );
    } else if shifts.is_empty() {
        notes.push(
            "the two files share no core, thread or PMU with valid slots, so Hone can't compare them"
                .to_owned(),
        );
    }
    let parts = before.parts.into_iter().map(|part| named("before", part));
    Ok(Diagnosis {
        source: format!("{} (before) and {} (after)", before.source, after.source),
        parts: parts.chain(after.parts.into_iter().map(|part| named("after", part))).collect(),
        shifts,
        notes,
        ..after
    })
}

/// Whether any of the parts has the category that only AMD's CPUs count.
fn counts_contention(parts: &[Diagnosed]) -> bool {
    let contention = |part: &Diagnosed| part.slots.as_ref()?.share(Category::SmtContention);
    parts.iter().any(|part| contention(part).is_some())
}

/// How the slots of parts with the same scope moved.
fn shifts(before: &[Diagnosed], after: &[Diagnosed]) -> Vec<Shift> {
    let of = |one: &Diagnosed| {
        let other = after.iter().find(|other| other.scope == one.scope)?;
        shift(one, other)
    };
    before.iter().filter_map(of).collect()
}

fn shift(before: &Diagnosed, after: &Diagnosed) -> Option<Shift> {
    let (one, other) = (before.slots.as_ref()?, after.slots.as_ref()?);
    let both = |(category, share): (&Category, &f64)| Some((*category, [*share, other.share(*category)?]));
    let percent = one.percent.iter().filter_map(both).collect();
    Some(Shift { before: before.scope.clone(), after: after.scope.clone(), percent })
}

fn show_read(diagnosis: Diagnosis, cli: &CliContext) -> Result<Ending> {
    let any = diagnosis.parts.iter().any(|part| part.refused.is_none());
    cli.show(diagnosis, hone_document::diagnosis::text)?;
    // What can't be believed is no diagnosis.
    Ok(if any { Ending::Done } else { Ending::CouldNot })
}

fn diagnosis_of(
    bytes: &[u8],
    name: String,
    program: Option<&Path>,
    user_share: Option<f64>,
) -> Result<Diagnosis> {
    let cannot = || format!("{name} gives no diagnosis");
    branched::refuse(bytes, &name)?;
    if branched::is_profile(bytes) {
        let read = branched::read(bytes, &name, program, Depth::Edges)?;
        let mut diagnosis = diagnose::of_counts(&read.run, name, user_share);
        diagnosis.notes.extend(read.notes);
        return Ok(diagnosis);
    }
    if program.is_some() {
        let told = format!(
            "{name} is no profile of BOLT's, and nothing else that is read is of a --program that must be named"
        );
        return Err(Usage(told).into());
    }
    let text = String::from_utf8_lossy(bytes);
    if text.starts_with("# callgrind format") {
        let run = callgrind::read(&text, diagnose::image).with_context(cannot)?;
        return Ok(diagnose::of_counts(&run, name, user_share));
    }
    Ok(match (topdown::read(&text), counted::read(&text)) {
        (Err(_), Some(counted)) => of_counters(counted, name, user_share),
        (output, _) => of_slots(&output.with_context(cannot)?, name, user_share),
    })
}

/// Whether a file is perf's data, of any size. What can't be opened is told by whoever reads it.
fn begins_as_samples(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(8).read_to_end(&mut head));
    path != Path::new("-") && read.is_ok() && perf::is_data(&head)
}

fn of_slots(output: &topdown::Output, source: String, user_share: Option<f64>) -> Diagnosis {
    let part = |(scope, judged): (Option<String>, Result<hone_record::Slots, topdown::Fault>)| match judged {
        Ok(slots) => {
            let verdict = Some(verdict::of_slots(&slots, user_share));
            Diagnosed { slots: Some(slots), verdict, ..Diagnosed::empty(scope) }
        }
        Err(fault) => Diagnosed { refused: Some(fault.to_string()), ..Diagnosed::empty(scope) },
    };
    let parts: Vec<Diagnosed> = topdown::judge(output).into_iter().map(part).collect();
    // Two runs in one file are before and after.
    let shifts = match &parts[..] {
        [before, after] if output.runs == 2 => shift(before, after).into_iter().collect(),
        _ => Vec::new(),
    };
    let notes = output.notes.clone();
    Diagnosis { evidence: Evidence::Measured, source, user_share, parts, shifts, watched: None, notes }
}

/// Misses without slots.
fn of_counters(scopes: Vec<counted::Scoped>, source: String, user_share: Option<f64>) -> Diagnosis {
    let part = |(scope, counted): counted::Scoped| match counted {
        Ok(counted) => {
            let verdict = verdict::of_counted(&counted, user_share);
            Diagnosed { counted: Some(counted), verdict, ..Diagnosed::empty(scope) }
        }
        Err(refused) => Diagnosed { refused: Some(refused), ..Diagnosed::empty(scope) },
    };
    let parts = scopes.into_iter().map(part).collect();
    Diagnosis {
        evidence: Evidence::MeasuredPartial,
        source,
        user_share,
        parts,
        shifts: Vec::new(),
        watched: None,
        notes: Vec::new(),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
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
    Ok(bytes)
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
