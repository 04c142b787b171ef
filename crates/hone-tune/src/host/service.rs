//! A service from an experiment file, as a finished program: the file has its start and its load.

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

/// The file and the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    file: PathBuf,
    program: PathBuf,
}

impl Service {
    /// Reads a file. `program` is needed if the file builds its target.
    ///
    /// # Errors
    /// When the file is not an experiment, or the program is missing.
    pub fn read(file: &Path, program: Option<&Path>) -> Result<(Self, Experiment)> {
        let file = std::path::absolute(file)?;
        let experiment = parsed(&file)?;
        let program = match (program, &experiment.target.form) {
            (Some(program), _) => std::path::absolute(program)?,
            (None, Form::Elf { binary }) => folder_of(&file).join(binary),
            (None, Form::Cargo(_) | Form::Recipe(_) | Form::Go(_) | Form::Jvm(_)) => {
                return Err(Usage(format!(
                    "{} builds its target, and this command builds nothing\n  next: name the finished \
                     program with --program",
                    file.display()
                ))
                .into());
            }
        };
        let text = program.to_str().context("the path of the program is not valid UTF-8")?;
        let program = find_program(text)?;
        Ok((Self { file, program }, experiment))
    }

    /// The service, ready to be started.
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

/// The load that decides the verdict: the first judging one.
///
/// # Errors
/// When there is none.
pub fn load(experiment: &Experiment) -> Result<Workload> {
    experiment.judging.first().cloned().context("the experiment has no judging load")
}

fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

fn parsed(file: &Path) -> Result<Experiment> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Usage(format!("the experiment {} can't be read: {error}", file.display())))?;
    Ok(spec::parse(&text, file)?)
}
