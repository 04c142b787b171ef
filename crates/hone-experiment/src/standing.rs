//! The basis of a run: the programs that it compares, and the machine. A resumed run must have the same basis.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::sha256_hex;
use hone_record::{Engine, Machine, Workload};
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Place, find_program};

/// Stored with the settings, before the first window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// SHA-256 of each program, including those that send the load, and of each file that a command names by an absolute path.
    programs: BTreeMap<PathBuf, String>,
    /// Properties of the machine that do not change by themselves.
    machine: BTreeMap<String, String>,
    boot_id: Option<String>,
}

impl Standing {
    /// Reads the current basis.
    ///
    /// # Errors
    /// When a program can't be read.
    pub fn of<'a>(
        arms: impl Iterator<Item = &'a Arm>,
        loads: impl Iterator<Item = &'a Workload>,
        machine: &Machine,
    ) -> Result<Self> {
        let files: BTreeSet<PathBuf> = arms.flat_map(of_arm).chain(loads.flat_map(of_load)).collect();
        let hash = |path: PathBuf| {
            let bytes = std::fs::read(&path).with_context(|| format!("{} can't be read", path.display()))?;
            Ok((path, sha256_hex(&bytes)))
        };
        Ok(Self {
            programs: files.into_iter().map(hash).collect::<Result<_>>()?,
            machine: lasting(machine),
            boot_id: hone_host::observe::boot_id(Path::new("/")),
        })
    }

    /// The same with this machine.
    pub fn now<'a>(
        arms: impl Iterator<Item = &'a Arm>,
        loads: impl Iterator<Item = &'a Workload>,
    ) -> Result<Self> {
        Self::of(arms, loads, &hone_host::observe::machine(Path::new("/")))
    }

    /// The differences, in words.
    fn changes(&self, now: &Self) -> Vec<String> {
        let programs = self.programs.iter().filter_map(|(path, then)| match now.programs.get(path) {
            Some(hash) if hash == then => None,
            Some(_) => Some(format!("{} has other contents", path.display())),
            None => Some(format!("{} does not exist any more", path.display())),
        });
        let machine = self.machine.iter().filter_map(|(name, then)| {
            let now = now.machine.get(name).map_or("unknown", String::as_str);
            (now != then).then(|| format!("the machine's {name} was {then} and is {now}"))
        });
        let boot = matches!((&self.boot_id, &now.boot_id), (Some(then), Some(now)) if then != now);
        let boot = boot.then(|| "the machine was rebooted".to_owned());
        programs.chain(machine).chain(boot).collect()
    }

    /// Refuses to resume with another basis.
    ///
    /// # Errors
    /// With all that has changed.
    pub fn same_as(&self, now: &Self, folder: &Path) -> Result<()> {
        let changes = self.changes(now);
        if changes.is_empty() {
            return Ok(());
        }
        bail!(
            "can't resume {}, because its pairs would mix two experiments: {}\n  next: start a new run \
             without --resume; the measured pairs stay in the folder",
            folder.display(),
            changes.join("; ")
        )
    }
}

/// The program of an arm, and the files in its arguments (a .jar, a script, a configuration).
fn of_arm(arm: &Arm) -> Vec<PathBuf> {
    let Place::Program(program) = &arm.place else { return Vec::new() };
    std::iter::once(program.path.clone()).chain(named(&program.args)).collect()
}

/// The same for the program that sends a load, unless it is Hone.
fn of_load(load: &Workload) -> Vec<PathBuf> {
    let (Engine::Command { command, .. } | Engine::Tool { command, .. }) = &load.engine else {
        return Vec::new();
    };
    let Some((program, args)) = command.split_first() else { return Vec::new() };
    // A missing program is reported when it is started.
    find_program(program).into_iter().chain(named(args)).collect()
}

/// Files with an absolute path in arguments: alone, after a `=`, or in a list such as a class path.
fn named(args: &[String]) -> impl Iterator<Item = PathBuf> {
    let values = args.iter().map(|arg| arg.split_once('=').map_or(arg.as_str(), |(_, value)| value));
    let paths = values.flat_map(|value| value.split(':')).map(Path::new);
    paths.filter(|path| path.is_absolute() && path.is_file()).map(Path::to_owned)
}

fn lasting(machine: &Machine) -> BTreeMap<String, String> {
    let Machine { cpu_model, cores, memory_bytes, kernel, governor, .. } = machine;
    let mut found = BTreeMap::from([
        ("CPU".to_owned(), cpu_model.clone()),
        ("number of cores".to_owned(), cores.to_string()),
        ("memory in bytes".to_owned(), memory_bytes.to_string()),
        ("kernel".to_owned(), kernel.clone()),
    ]);
    found.extend(governor.clone().map(|governor| ("frequency governor".to_owned(), governor)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::WorkloadFile;

    fn of_machine(machine: &Machine) -> Result<Standing> {
        Standing::of(std::iter::empty(), std::iter::empty(), machine)
    }

    /// A client that was rebuilt between two attempts sends another load.
    #[test]
    fn the_program_that_sends_the_load_is_one_that_a_run_stands_on() {
        let folder = tempfile::tempdir().unwrap();
        let [client, jar, other] = ["client", "one.jar", "two.jar"].map(|name| folder.path().join(name));
        let command = [client.display().to_string(), format!("-Dcp={}:{}", jar.display(), other.display())];
        let engine = Engine::Command { command: command.to_vec(), settings: BTreeMap::new() };
        let load = Workload { engine, ..WorkloadFile::default().named("w").unwrap() };
        for file in [&client, &jar, &other] {
            std::fs::write(file, "first").unwrap();
            let now =
                || Standing::of(std::iter::empty(), std::iter::once(&load), &Machine::default()).unwrap();
            let then = now();
            assert!(then.same_as(&now(), folder.path()).is_ok());
            std::fs::write(file, "second").unwrap();
            let refused = then.same_as(&now(), folder.path()).unwrap_err().to_string();
            assert!(refused.contains(&format!("{} has other contents", file.display())), "{refused}");
        }
    }

    #[test]
    fn what_changed_is_named_and_what_changes_by_itself_is_no_change() {
        let machine = Machine { kernel: "6.1".to_owned(), cores: 2, ..Machine::default() };
        let standing = of_machine(&machine).unwrap();
        let busy = Machine { load_average_1m: 9.0, steal_share: 0.2, ..machine.clone() };
        let folder = Path::new("runs/compare-001");
        assert!(standing.same_as(&of_machine(&busy).unwrap(), folder).is_ok());
        let other = Machine { kernel: "6.2".to_owned(), ..machine };
        let mut now = of_machine(&other).unwrap();
        now.boot_id = Some("another".to_owned());
        let mut then = standing;
        then.programs.insert("/gone".into(), "hash".to_owned());
        then.boot_id = Some("one".to_owned());
        assert_eq!(
            then.changes(&now),
            [
                "/gone does not exist any more",
                "the machine's kernel was 6.1 and is 6.2",
                "the machine was rebooted"
            ]
        );
    }
}
