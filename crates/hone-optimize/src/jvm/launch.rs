//! The launcher, its JDK, and the command line of the baseline.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_experiment::arm::{Arm, Place, find_program};
use hone_experiment::ending::Usage;
use hone_experiment::jvm::launcher;
use hone_experiment::spec::target::Jvm;
use hone_experiment::variants::BASELINE;
use hone_jvm::command::{JavaCommand, Runs, is_jar};
use hone_jvm::flags::{self, Flag};
use hone_jvm::jdk::Jdk;
use hone_tool::Call;

use super::service::Service;
use crate::job::Job;

/// Time limit for a virtual machine that only prints.
const PRINT_LIMIT: std::time::Duration = std::time::Duration::from_secs(30);

impl Job<'_> {
    /// The baseline as the experiment file has it, with absolute paths: the service starts in its data folder.
    pub(super) fn launch(&self, jvm: &Jvm) -> Result<Service> {
        let (java, jdk) = self.launcher_of(&jvm.java)?;
        let runs = match &jvm.runs {
            Runs::Jar(jar) => Runs::Jar(self.there("jar", Path::new(jar))?.display().to_string()),
            other => other.clone(),
        };
        let mut command = JavaCommand {
            java: java.display().to_string(),
            options: jvm.options.clone(),
            runs,
            args: self.target().args.clone(),
        };
        let class_path = self.class_path(&jvm.class_path)?;
        if !class_path.is_empty() {
            command.set_class_path(&class_path);
        }
        Ok(Service { name: BASELINE.to_owned(), command, jdk, has_cache: false })
    }

    /// A launcher and its JDK: by path, by name in PATH, or by the folder of the JDK.
    pub(super) fn launcher_of(&self, java: &Path) -> Result<(PathBuf, Jdk)> {
        let is_name = java.components().count() == 1 && !self.beside(java).is_dir();
        let found = match is_name {
            true => find_program(&java.display().to_string())?,
            false => self.there("java", java)?,
        };
        launcher(&found)
    }

    /// The class path with `FOLDER/*` as the sorted jars of the folder: a cache depends on their order.
    fn class_path(&self, entries: &[PathBuf]) -> Result<String> {
        let mut found = Vec::new();
        for entry in entries {
            if entry.file_name().is_none_or(|name| name != "*") {
                found.push(self.there("class_path", entry)?.display().to_string());
                continue;
            }
            let folder = self.there("class_path", entry.parent().unwrap_or(Path::new(".")))?;
            let files = std::fs::read_dir(&folder)
                .with_context(|| format!("`class_path`: {} can't be read", folder.display()))?;
            let mut jars: Vec<String> = files
                .flatten()
                .map(|file| file.path())
                .filter(|path| is_jar(path))
                .map(|path| path.display().to_string())
                .collect();
            if jars.is_empty() {
                bail!(Usage(format!("`class_path`: there is no jar in {}", folder.display())));
            }
            jars.sort();
            found.extend(jars);
        }
        Ok(found.join(":"))
    }

    /// A variant as an arm of a comparison.
    pub(super) fn arm_of(&self, service: &Service) -> Arm {
        let mut arm = self.arm(&service.name, Path::new(&service.command.java), BTreeMap::new());
        if let Place::Program(program) = &mut arm.place {
            program.args = service.command.argv().split_off(1);
        }
        arm
    }

    /// The flags in force with the options of the command line.
    pub(super) fn flags_in_force(&self, service: &Service) -> Result<BTreeMap<String, Flag>> {
        let command = &service.command;
        let options = command.options.iter().filter(|option| !option.contains('{')).cloned();
        let words = options.chain(["-XX:+PrintFlagsFinal".to_owned(), "-version".to_owned()]);
        let call = Call::new("print-flags", &command.java, self.folder.path()).args(words).limit(PRINT_LIMIT);
        let ran = self.runner.run(&call)?;
        let text = std::fs::read_to_string(&ran.stdout_path)
            .with_context(|| format!("{} can't be read", ran.stdout_path.display()))?;
        Ok(flags::parse(&text))
    }
}
