//! What a run stands on: the programs it compares and the machine it runs on. One that goes on must stand on the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::sha256_hex;
use hone_record::Machine;
use serde::{Deserialize, Serialize};

use crate::arm::{Arm, Place};

/// Kept with what was asked for, before the first window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Standing {
    /// SHA-256 of each program, and of each file that a command names by an absolute path.
    programs: BTreeMap<PathBuf, String>,
    /// What of the machine does not change by itself.
    machine: BTreeMap<String, String>,
    boot_id: Option<String>,
}

impl Standing {
    /// Reads all of it now.
    ///
    /// # Errors
    /// When a program can't be read.
    pub(crate) fn of<'a>(arms: impl Iterator<Item = &'a Arm>, machine: &Machine) -> Result<Self> {
        let files: BTreeSet<PathBuf> = arms.flat_map(files).collect();
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

    /// What is another one now, in words.
    fn changes(&self, now: &Self) -> Vec<String> {
        let programs = self.programs.iter().filter_map(|(path, then)| match now.programs.get(path) {
            Some(hash) if hash == then => None,
            Some(_) => Some(format!("{} has another content", path.display())),
            None => Some(format!("{} is not there any more", path.display())),
        });
        let machine = self.machine.iter().filter_map(|(name, then)| {
            let now = now.machine.get(name).map_or("unknown", String::as_str);
            (now != then).then(|| format!("the machine's {name} was {then} and is {now}"))
        });
        let boot = matches!((&self.boot_id, &now.boot_id), (Some(then), Some(now)) if then != now);
        let boot = boot.then(|| "the machine was started anew".to_owned());
        programs.chain(machine).chain(boot).collect()
    }

    /// Refuses to go on with another experiment.
    ///
    /// # Errors
    /// When something changed, with all that did.
    pub(crate) fn same_as(&self, now: &Self, folder: &Path) -> Result<()> {
        let changes = self.changes(now);
        if changes.is_empty() {
            return Ok(());
        }
        bail!(
            "{} can't go on, its pairs would be of two experiments: {}; its pairs stay where they are, a new run starts without \
             --resume",
            folder.display(),
            changes.join("; ")
        )
    }
}

/// The program of an arm, and the files that its arguments name (a .jar, a script, a configuration).
fn files(arm: &Arm) -> Vec<PathBuf> {
    let Place::Program(program) = &arm.place else { return Vec::new() };
    let named = program.args.iter().map(|arg| arg.split_once('=').map_or(arg.as_str(), |(_, value)| value));
    let named = named.map(Path::new).filter(|path| path.is_absolute() && path.is_file());
    std::iter::once(program.path.clone()).chain(named.map(Path::to_owned)).collect()
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

    #[test]
    fn what_changed_is_named_and_what_changes_by_itself_is_no_change() {
        let machine = Machine { kernel: "6.1".to_owned(), cores: 2, ..Machine::default() };
        let standing = Standing::of(std::iter::empty(), &machine).unwrap();
        let busy = Machine { load_average_1m: 9.0, steal_share: 0.2, ..machine.clone() };
        let folder = Path::new("runs/compare-001");
        assert!(standing.same_as(&Standing::of(std::iter::empty(), &busy).unwrap(), folder).is_ok());
        let other = Machine { kernel: "6.2".to_owned(), ..machine };
        let mut now = Standing::of(std::iter::empty(), &other).unwrap();
        now.boot_id = Some("another".to_owned());
        let mut then = standing;
        then.programs.insert("/gone".into(), "hash".to_owned());
        then.boot_id = Some("one".to_owned());
        assert_eq!(
            then.changes(&now),
            [
                "/gone is not there any more",
                "the machine's kernel was 6.1 and is 6.2",
                "the machine was started anew"
            ]
        );
    }
}
