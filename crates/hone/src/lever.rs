//! Changes of the world outside: a setting of a running cluster, a setting of the kernel. Set for a window, put back after
//! it. What has to be put back is on the disk before anything is set, so that it can be put back after any crash.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_host::setting::Setting;
use hone_load::{Admin, Security};
use hone_record::Change;
use serde::{Deserialize, Serialize};

use crate::progress::Progress;

/// Name of the file in a run's folder.
const UNDO: &str = "undo.json";

/// A setting outside of the arms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lever {
    /// Of a cluster.
    Cluster { name: String, security: Security },
    /// Of the kernel.
    Host { root: PathBuf, name: String },
}

/// How to put a setting back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WayBack {
    Cluster {
        address: String,
        name: String,
        /// `None` when nothing was set for the cluster.
        value: Option<String>,
    },
    Host {
        root: PathBuf,
        name: String,
        value: String,
    },
}

/// A setting that is set. Put back when dropped; [`Held::put_back`] says when that fails.
#[derive(Debug)]
pub(crate) struct Held {
    way_back: Option<WayBack>,
    /// How to get to the cluster. No part of the file, because it holds passwords.
    security: Security,
    file: PathBuf,
    /// Locked as long as this process lives: a file nobody holds is left over.
    _lock: File,
}

impl Lever {
    /// The lever of a change; `None` when the change is one of the arms.
    pub(crate) fn of(change: &Change, host_root: &Path, security: &Security) -> Option<Self> {
        match change.kind.as_str() {
            "broker" => Some(Self::Cluster { name: change.name.clone(), security: security.clone() }),
            "host" => Some(Self::Host { root: host_root.to_owned(), name: change.name.clone() }),
            _ => None,
        }
    }

    /// What is in force now, for people and to refuse a change that changes nothing.
    pub(crate) fn now(&self, address: &str) -> Result<String> {
        match self {
            Self::Cluster { name, security } => {
                let seen = Admin::connect_with(address, security)?.cluster_setting(name)?;
                let values: Vec<String> = seen.in_force.into_iter().map(|(_, value)| value).collect();
                Ok(values.first().cloned().unwrap_or_default())
            }
            Self::Host { root, name } => Ok(Setting::parse(root, name)?.read()?),
        }
    }

    /// Sets it at the broker of `address` (or on this machine), after the way back is on the disk.
    ///
    /// # Errors
    /// When it is refused, in the words of who refuses; nothing is set then.
    pub(crate) fn set(&self, value: &str, address: &str, folder: &Path) -> Result<Held> {
        let (way_back, security) = match self {
            Self::Cluster { name, security } => {
                let value = Admin::connect_with(address, security)?.cluster_setting(name)?.for_cluster;
                (
                    WayBack::Cluster { address: address.to_owned(), name: name.clone(), value },
                    security.clone(),
                )
            }
            Self::Host { root, name } => {
                let (ruling, value) = Setting::parse(root, name)?.way_back()?;
                let name = ruling.path().strip_prefix(root)?.display().to_string();
                (WayBack::Host { root: root.clone(), name, value }, Security::default())
            }
        };
        let held = Held::keep(way_back, security, folder)?;
        match self {
            Self::Cluster { name, security } => {
                Admin::connect_with(address, security)?.set_for_cluster(name, Some(value))?;
            }
            Self::Host { root, name } => Setting::parse(root, name)?.write(value)?,
        }
        Ok(held)
    }

    /// Sets it for good at a broker that goes after the window.
    pub(crate) fn set_for_good(&self, value: &str, address: &str) -> Result<()> {
        match self {
            Self::Cluster { name, security } => {
                Ok(Admin::connect_with(address, security)?.set_for_cluster(name, Some(value))?)
            }
            Self::Host { .. } => bail!("a setting of the machine outlives the broker"),
        }
    }
}

impl WayBack {
    fn go(&self, security: &Security) -> Result<()> {
        match self {
            Self::Cluster { address, name, value } => {
                Ok(Admin::connect_with(address, security)?.set_for_cluster(name, value.as_deref())?)
            }
            Self::Host { root, name, value } => Ok(Setting::parse(root, name)?.write(value)?),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Cluster { address, name, value: Some(value) } => format!("{name} = {value} at {address}"),
            Self::Cluster { address, name, value: None } => format!("{name} at {address}, not set any more"),
            Self::Host { root, name, value } => format!("{} = {value}", root.join(name).display()),
        }
    }
}

impl Held {
    fn keep(way_back: WayBack, security: Security, folder: &Path) -> Result<Self> {
        let file = folder.join(UNDO);
        let failed = || format!("{} can't be written, so nothing is set", file.display());
        let temporary = folder.join("undo.part");
        let lock = File::create(&temporary).with_context(failed)?;
        // The lock is there before the name is: whoever finds the file can't take it for left over.
        lock.lock().with_context(failed)?;
        fs::write(&temporary, serde_json::to_string_pretty(&way_back)?).with_context(failed)?;
        lock.sync_all().and_then(|()| fs::rename(&temporary, &file)).with_context(failed)?;
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)?;
        Ok(Self { way_back: Some(way_back), security, file, _lock: lock })
    }

    /// Puts the setting back and removes its file.
    ///
    /// # Errors
    /// When it can't be put back; the file stays, and the error says how to try again.
    pub(crate) fn put_back(mut self) -> Result<()> {
        self.try_put_back()
    }

    fn try_put_back(&mut self) -> Result<()> {
        let Some(way_back) = self.way_back.take() else { return Ok(()) };
        way_back.go(&self.security).with_context(|| not_put_back(&way_back, &self.file))?;
        fs::remove_file(&self.file).with_context(|| format!("{} can't be removed", self.file.display()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of another error, which is the one to be told. The next start finds the file.
        let _ = self.try_put_back();
    }
}

fn not_put_back(way_back: &WayBack, file: &Path) -> String {
    let folder = file.parent().unwrap_or(file).display();
    format!("{} could not be put back; try again with: hone compare --undo {folder}", way_back.words())
}

/// Puts back what a run that died left set. Answers whether there was something.
///
/// # Errors
/// When the run still goes on, or the setting can't be put back.
pub(crate) fn put_back_left_over(folder: &Path, security: &Security, progress: &Progress) -> Result<bool> {
    let path = folder.join(UNDO);
    let file = match File::options().read(true).write(true).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error).with_context(|| format!("{} can't be read", path.display())),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => {
            bail!("the run in {} still goes on; it puts its setting back itself", folder.display())
        }
        Err(fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} can't be locked", path.display()));
        }
    }
    let text = fs::read_to_string(&path).with_context(|| format!("{} can't be read", path.display()))?;
    let way_back: WayBack = serde_json::from_str(&text).with_context(|| {
        format!("{} is not what hone writes; put the setting back by hand", path.display())
    })?;
    way_back.go(security).with_context(|| not_put_back(&way_back, &path))?;
    fs::remove_file(&path).with_context(|| format!("{} can't be removed", path.display()))?;
    progress.line(&format!("Put back what an earlier run left set: {}", way_back.words()));
    Ok(true)
}

/// Puts back what runs under this folder left set when they died. One that can't be put back now is told and left alone.
pub(crate) fn put_back_left_overs(runs: &Path, security: &Security, progress: &Progress) {
    for run in fs::read_dir(runs).into_iter().flatten().flatten() {
        if run.path().join(UNDO).exists()
            && let Err(error) = put_back_left_over(&run.path(), security, progress)
        {
            progress.line(&format!("{error:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(value: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/sys/vm")).unwrap();
        fs::write(root.path().join("proc/sys/vm/swappiness"), value).unwrap();
        root
    }

    fn value(root: &tempfile::TempDir) -> String {
        fs::read_to_string(root.path().join("proc/sys/vm/swappiness")).unwrap().trim().to_owned()
    }

    fn lever(root: &tempfile::TempDir) -> Lever {
        Lever::Host { root: root.path().to_owned(), name: "vm.swappiness".to_owned() }
    }

    #[test]
    fn a_setting_goes_back_by_order_and_by_drop_and_its_file_with_it() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let file = run.path().join(UNDO);
        for by_order in [true, false] {
            let held = lever(&root).set("1", "", run.path()).unwrap();
            assert_eq!((value(&root).as_str(), file.exists()), ("1", true));
            // A run that goes on is left alone.
            let message = put_back_left_over(run.path(), &Security::default(), &Progress::new(true))
                .unwrap_err()
                .to_string();
            assert!(message.contains("still goes on"), "{message}");
            if by_order {
                held.put_back().unwrap();
            } else {
                drop(held);
            }
            assert_eq!((value(&root).as_str(), file.exists()), ("60", false));
        }
    }

    #[test]
    fn what_a_killed_run_left_is_put_back_by_the_next_one() {
        let (root, runs) = (machine("60\n"), tempfile::tempdir().unwrap());
        let run = runs.path().join("compare-001");
        fs::create_dir(&run).unwrap();
        let mut held = lever(&root).set("1", "", &run).unwrap();
        // As kill -9 would: the lock goes, the setting and its file stay.
        held.way_back = None;
        drop(held);
        assert_eq!(value(&root), "1");
        put_back_left_overs(runs.path(), &Security::default(), &Progress::new(true));
        assert_eq!(value(&root), "60");
        assert!(!run.join(UNDO).exists());
        assert!(!put_back_left_over(&run, &Security::default(), &Progress::new(true)).unwrap());
    }

    #[test]
    fn nothing_is_set_when_the_way_back_can_not_be_kept() {
        let root = machine("60\n");
        let message = lever(&root).set("1", "", Path::new("/no/such/folder")).unwrap_err().to_string();
        assert!(message.contains("so nothing is set"), "{message}");
        assert_eq!(value(&root), "60");
    }
}
