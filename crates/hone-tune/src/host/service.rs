//! A service that an experiment file describes, as a finished program: its start and its load come from the file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use hone_load::Security;
use hone_record::Workload;
use serde::{Deserialize, Serialize};

use hone_experiment::arm::{Arm, Place, find_program};
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_experiment::spec::target::Form;
use hone_experiment::spec::{self, Experiment};

/// Which file, and which program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    file: PathBuf,
    program: PathBuf,
}

impl Service {
    /// Reads a file. `program` is needed where the file says how to build one.
    ///
    /// # Errors
    /// When the file is no experiment, or nobody names a program.
    pub fn read(file: &Path, program: Option<&Path>) -> Result<(Self, Experiment)> {
        let file = std::path::absolute(file)?;
        let experiment = parsed(&file)?;
        let program = match (program, &experiment.target.form) {
            (Some(program), _) => std::path::absolute(program)?,
            (None, Form::Elf { binary }) => folder_of(&file).join(binary),
            (None, Form::Cargo(_) | Form::Recipe(_) | Form::Go(_)) => {
                return Err(Usage(format!(
                    "{} says how to build its target, and here nothing is built: name the finished program with --program",
                    file.display()
                ))
                .into());
            }
        };
        let text = program.to_str().context("the path of the program is no text")?;
        let program = find_program(text)?;
        Ok((Self { file, program }, experiment))
    }

    /// The service, to be started.
    ///
    /// # Errors
    /// When the file can't be read any more.
    pub fn arm(&self) -> Result<Arm> {
        let experiment = parsed(&self.file)?;
        let folder = folder_of(&self.file).to_owned();
        let program =
            experiment.target.started_as(&self.program, BTreeMap::new(), folder, experiment.ready());
        Ok(Arm {
            name: "target".to_owned(),
            place: Place::Program(program),
            security: Security::default(),
            metrics: Metrics::default(),
        })
    }
}

/// The load that decides: the first of those that judge.
///
/// # Errors
/// When there is none.
pub fn load(experiment: &Experiment) -> Result<Workload> {
    experiment.judging.first().cloned().context("the experiment has no load that judges")
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

fn parsed(file: &Path) -> Result<Experiment> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Usage(format!("the experiment {} can't be read: {error}", file.display())))?;
    Ok(spec::parse(&text, file)?)
}
