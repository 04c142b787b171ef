//! Writes the first experiment file for a source tree or a program.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::preflight;
use hone_tool::System;

use crate::init_text::{ForTune, Seen, Written, to_fill_in};
use crate::new_file::{name_of, output_file, write_new};
use crate::starter::{self, Choice, Load};
use crate::survey::{Found, Kind, Program, Survey, survey};

/// Looks at a tree and writes its first file. Returns the findings and the written files.
pub fn write_for_tree(
    folder: &Path,
    program: Option<&str>,
    load: Option<Load>,
    output: Option<&Path>,
) -> Result<Written> {
    let logs =
        tempfile::tempdir().context("the system's folder for temporary files has no room for a folder")?;
    let seen = survey(&System::new(logs.path())?, folder)?;
    let (found, program) = choose(&seen, program)?;
    let load = load.unwrap_or_else(|| starter::likely_load(&seen, &program));
    let file = file_of(output, &seen, found.kind)?;
    let source = source(&seen.folder, &file);
    let trouble = if found.kind == Kind::Elf { trouble(&seen.folder.join(&program.name)) } else { None };
    let choice = Choice { survey: &seen, found, program: &program, load, source: &source, trouble };
    let text = starter::text(&choice, &name_of(&file));
    write_new(&file, &text)?;
    let tune = for_tune(&choice, &file)?;
    Ok(written(&choice, file, &text, tune))
}

/// Writes the file for `hone tune` next to the experiment, for a target that Hone can load. An existing file stays.
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

/// The reason why BOLT would refuse a finished program.
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
        load: load_words(choice.load),
        fill_in: to_fill_in(text),
        tune,
    }
}

/// The source of a load, in words.
pub(crate) fn load_words(load: Load) -> &'static str {
    match load {
        Load::Command => "a command that loads it",
        Load::Run => "itself: it does its work and exits",
        Load::Kafka => "Hone's own load generator for the Kafka API",
    }
}

/// The first build system that makes the program, and the program.
fn choose<'a>(survey: &'a Survey, named: Option<&str>) -> Result<(&'a Found, Program)> {
    let first = &survey.found[0];
    let Some(name) = named else {
        return match first.programs.first() {
            Some(likeliest) => Ok((first, likeliest.clone())),
            None if first.kind == Kind::Cargo || first.kind == Kind::Go => bail!(
                "{} builds no program\n  next: name a folder that does",
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
            "{} builds no program `{name}`\n  next: name one of: {}",
            survey.folder.join(&first.file).display(),
            names.join(", ")
        );
    }
    // The files do not contain names that are composed of variables.
    let home = Path::new(name).parent().unwrap_or(Path::new("")).display().to_string();
    let last = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok((first, Program { name: last, home }))
}

/// The program of a project whose files name none.
fn unnamed(survey: &Survey) -> Program {
    Program { name: survey.name.clone(), home: String::new() }
}

fn file_of(named: Option<&Path>, survey: &Survey, kind: Kind) -> Result<PathBuf> {
    match named {
        None if kind != Kind::Elf => Ok(survey.folder.join("hone.toml")),
        named => output_file(named, "hone.toml"),
    }
}

/// The folder as the file will name it.
fn source(folder: &Path, file: &Path) -> String {
    let beside = file.parent().and_then(|parent| parent.canonicalize().ok());
    if beside.as_deref() == Some(folder) { ".".to_owned() } else { folder.display().to_string() }
}
