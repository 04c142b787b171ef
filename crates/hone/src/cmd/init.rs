//! `hone init FOLDER`: from a source tree to a first experiment file. `hone init HOST:PORT` is in [`super::init_cluster`].

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_binary::bolt::preflight;
use hone_tool::System;

use super::init_cluster::{self, ClusterOptions};
use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_tune::init_text::{ForTune, Seen, ToFillIn, Written};
use hone_tune::starter::{self, Choice, Load};
use hone_tune::survey::{Found, Kind, Program, Survey, survey};

/// Write a first file for a source tree, program or running cluster.
///
/// For HOST:PORT of a running cluster it writes tune.toml for `hone tune`, whose load replicates a topic's own producers: their number,
/// rates, sizes, partitions, linger, batch size and codec. It reads the cluster and writes nothing to it.
///
/// For a source tree or a program it writes hone.toml. It knows Cargo, Go modules, CMake, Meson, make with and without a configure script,
/// and linked programs. For what speaks Kafka's protocol (--load kafka) it writes a second file, tune.toml, for `hone tune`. Nothing is built.
///
/// The files have comments. They mark what only you can know. A file that is there is never written over.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:
  hone init
  hone init ../leveldb --program db_bench --load run
  hone init ../service --load kafka --output service.toml
  hone init /usr/local/bin/server
  hone init broker-1:9092,broker-2:9092                      a running cluster
  hone init broker-1:9092 --topic orders --output orders.toml")]
pub(crate) struct Arguments {
    /// A source tree, a linked program, or HOST:PORT of a running cluster (several with commas).
    #[arg(default_value = ".", value_name = "FOLDER|BROKER")]
    folder: PathBuf,
    /// The program to optimise; unless named, the likeliest of those that the tree makes.
    #[arg(short, long, value_name = "NAME")]
    program: Option<String>,
    /// What makes it work; unless named, by what its sources say.
    #[arg(short, long, value_enum)]
    load: Option<Load>,
    /// The file to write; unless named, hone.toml in the folder (for a linked program in the current one), and tune.toml for a cluster.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

pub(crate) fn run(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let brokers = arguments.folder.to_str().filter(|text| init_cluster::are_brokers(text));
    check(arguments, brokers.is_some(), cli)?;
    match brokers {
        Some(brokers) => init_cluster::run(brokers, &arguments.cluster, arguments.output.as_deref(), cli),
        None => of_tree(arguments, cli),
    }
}

/// Options of a tree say nothing of a cluster, and the other way round.
fn check(arguments: &Arguments, is_cluster: bool, cli: &CliContext) -> Result<()> {
    let of_tree = ["program", "load"].map(str::to_owned).into_iter();
    let foreign: Vec<String> = if is_cluster { of_tree.collect() } else { init_cluster::names().collect() };
    let Some(name) = foreign.iter().find(|name| cli.is_given(name)) else { return Ok(()) };
    let (name, place) = (name.replace('_', "-"), arguments.folder.display());
    let (what, other) = match is_cluster {
        true => ("a cluster", "a source tree or a program"),
        false => ("no cluster", "a running cluster: name HOST:PORT"),
    };
    bail!(Usage(format!("{place} is {what}, and --{name} is for {other}")))
}

fn of_tree(arguments: &Arguments, cli: &CliContext) -> Result<Ending> {
    let logs = tempfile::tempdir().context("there is no room for a folder in the system's temporary one")?;
    let seen = survey(&System::new(logs.path())?, &arguments.folder)?;
    let (found, program) = choose(&seen, arguments.program.as_deref())?;
    let load = arguments.load.unwrap_or_else(|| starter::likely_load(&seen, &program));
    let file = output(arguments, &seen, found.kind)?;
    let source = source(&seen.folder, &file);
    let trouble = if found.kind == Kind::Elf { trouble(&seen.folder.join(&program.name)) } else { None };
    let choice = Choice { survey: &seen, found, program: &program, load, source: &source, trouble };
    let text = starter::text(&choice, &name_of(&file));
    write_new(&file, &text)?;
    let tune = for_tune(&choice, &file)?;
    cli.show_found("init", &written(&choice, file, &text, tune), hone_tune::init_text::text)?;
    Ok(Ending::Done)
}

fn name_of(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Writes the file for `hone tune` beside the experiment, for a target that it can load. One that is there stays.
fn for_tune(choice: &Choice<'_>, experiment: &Path) -> Result<Option<ForTune>> {
    let stem = experiment.file_stem().unwrap_or_default().to_string_lossy();
    let own = if stem == "hone" { "tune.toml".to_owned() } else { format!("{stem}-tune.toml") };
    let Some(text) = starter::tune_text(choice, &name_of(experiment), &own) else { return Ok(None) };
    let file = experiment.with_file_name(own);
    let was_there = file.symlink_metadata().is_ok();
    if !was_there {
        write_new(&file, &text)?;
    }
    let fill_in = if was_there { Vec::new() } else { to_fill_in(&text) };
    Ok(Some(ForTune { file, fill_in, was_there }))
}

pub(super) fn to_fill_in(text: &str) -> Vec<ToFillIn> {
    starter::to_fill_in(text).into_iter().map(|(line, what)| ToFillIn { line, what }).collect()
}

/// What BOLT would refuse a finished program for.
fn trouble(program: &Path) -> Option<String> {
    let looked = preflight::anatomy(program).and_then(|anatomy| preflight::check(program, &anatomy));
    looked.err().map(|error| format!("{error:#}"))
}

fn written(choice: &Choice<'_>, file: PathBuf, text: &str, tune: Option<ForTune>) -> Written {
    let seen = |found: &Found| Seen {
        file: found.file.clone(),
        kind: found.kind.name(),
        programs: found.programs.iter().map(|program| program.name.clone()).collect(),
        used: std::ptr::eq(found, choice.found),
    };
    Written {
        file,
        saw: choice.survey.found.iter().map(seen).collect(),
        program: choice.program.name.clone(),
        load: match choice.load {
            Load::Command => "a command that loads it",
            Load::Run => "itself: it does its work and ends",
            Load::Kafka => "Hone's own load of the Kafka API",
        },
        fill_in: to_fill_in(text),
        tune,
    }
}

/// The first build system that makes the program, and the program.
fn choose<'a>(survey: &'a Survey, named: Option<&str>) -> Result<(&'a Found, Program)> {
    let first = &survey.found[0];
    let Some(name) = named else {
        return match first.programs.first() {
            Some(likeliest) => Ok((first, likeliest.clone())),
            None if first.kind == Kind::Cargo || first.kind == Kind::Go => bail!(
                "{} makes no program\n  next: name the folder of one that does",
                survey.folder.join(&first.file).display()
            ),
            None => Ok((first, unnamed(survey))),
        };
    };
    let makes = |found: &&'a Found| found.programs.iter().any(|program| program.name == name);
    if let Some(found) = survey.found.iter().find(makes) {
        let program = found.programs.iter().find(|program| program.name == name).cloned();
        return Ok((found, program.unwrap_or_else(|| unnamed(survey))));
    }
    if first.kind == Kind::Cargo || first.kind == Kind::Go || first.kind == Kind::Elf {
        let names: Vec<&str> = first.programs.iter().map(|program| program.name.as_str()).collect();
        bail!(
            "{} makes no program `{name}`\n  next: name one of: {}",
            survey.folder.join(&first.file).display(),
            names.join(", ")
        );
    }
    // Names that are put together of variables can't be read from the files.
    let home = Path::new(name).parent().unwrap_or(Path::new("")).display().to_string();
    let last = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((first, Program { name: last, home }))
}

/// The program of a project whose files name none.
fn unnamed(survey: &Survey) -> Program {
    Program { name: survey.name.clone(), home: String::new() }
}

fn output(arguments: &Arguments, survey: &Survey, kind: Kind) -> Result<PathBuf> {
    match &arguments.output {
        None if kind != Kind::Elf => Ok(survey.folder.join("hone.toml")),
        named => output_file(named.as_deref(), "hone.toml"),
    }
}

/// The folder as the file names it.
fn source(folder: &Path, file: &Path) -> String {
    let beside = file.parent().and_then(|parent| parent.canonicalize().ok());
    if beside.as_deref() == Some(folder) { ".".to_owned() } else { folder.display().to_string() }
}

/// The file that is named, or one of this name here.
pub(super) fn output_file(named: Option<&Path>, usual: &str) -> Result<PathBuf> {
    let here = std::env::current_dir().context("the working directory is gone")?;
    Ok(here.join(named.unwrap_or(Path::new(usual))))
}

/// Writes a file that was not there before.
pub(super) fn write_new(file: &Path, text: &str) -> Result<()> {
    let mut new = match OpenOptions::new().write(true).create_new(true).open(file) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => bail!(
            "{} is there already, and is left as it is\n  next: name another file by --output, or move that one away",
            file.display()
        ),
        other => other.with_context(|| format!("{} can't be written", file.display()))?,
    };
    new.write_all(text.as_bytes()).with_context(|| {
        // Half a file would keep the next attempt from writing a whole one.
        let _ = std::fs::remove_file(file);
        format!("{} can't be written", file.display())
    })
}
