//! Changes of the world outside: a setting of a running cluster, a setting of the kernel. Set for a window, put back after
//! it. What has to be put back is on the disk before anything is set, so that it can be put back after any crash.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_host::setting::Setting;
use hone_load::{Admin, ClusterSetting, Security};
use hone_record::Change;
use serde::{Deserialize, Serialize};

use crate::progress::{Progress, alarm};

/// Name of the file in a run's folder; those of further settings that are set at the same time have a number in it.
const UNDO: &str = "undo.json";
/// What the name of one gets that was left alone, because somebody had decided otherwise.
const DRIFTED: &str = "-drifted.json";
/// So many settings are set at the same time at most.
const MOST: usize = 32;

/// A setting outside of the arms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Lever {
    /// Of a cluster.
    Cluster { name: String, security: Security },
    /// Of the kernel.
    Host { root: PathBuf, name: String },
}

/// How to put a setting back, and what was set: only that may be put back, not what somebody decided since.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WayBack {
    Cluster {
        address: String,
        name: String,
        set: String,
        /// `None` when nothing was set for the cluster.
        value: Option<String>,
        /// What each broker made of it.
        in_force: Vec<(i32, String)>,
    },
    Host {
        root: PathBuf,
        name: String,
        set: String,
        /// The setting that ruled, which may be another one.
        ruling: String,
        value: String,
    },
}

/// A setting outside of an arm, and what it is for that arm's windows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Set {
    pub(crate) lever: Lever,
    pub(crate) value: String,
    /// What was in force when the run began, where that is known.
    pub(crate) was: Option<String>,
}

/// How putting back ended.
#[derive(Debug, PartialEq, Eq)]
enum Back {
    /// It is as it was.
    Done,
    /// Somebody set something else meanwhile; left alone. Says what.
    Drifted(String),
}

/// A setting that is set. Put back when dropped; [`Held::end`] says when that fails.
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

    /// What is in force now, for people, to refuse a change that changes nothing, and to see whether it is still so later.
    pub(crate) fn now(&self, address: &str) -> Result<String> {
        match self {
            Self::Cluster { name, security } => {
                Ok(in_force(&Admin::connect_with(address, security)?.cluster_setting(name)?))
            }
            Self::Host { root, name } => Ok(Setting::parse(root, name)?.read()?),
        }
    }

    /// Sets it at the broker of `address` (or on this machine), after the way back is on the disk. `was` is what was in force
    /// when the run began, where that is known.
    ///
    /// # Errors
    /// When it is not as it was any more, or when it is refused, in the words of who refuses; nothing is set then.
    pub(crate) fn set(&self, value: &str, address: &str, folder: &Path, was: Option<&str>) -> Result<Held> {
        let (way_back, now, security) = match self {
            Self::Cluster { name, security } => {
                let seen = Admin::connect_with(address, security)?.cluster_setting(name)?;
                let now = in_force(&seen);
                let (address, name, set) = (address.to_owned(), name.clone(), value.to_owned());
                let ClusterSetting { for_cluster: value, in_force } = seen;
                (WayBack::Cluster { address, name, set, value, in_force }, now, security.clone())
            }
            Self::Host { root, name } => {
                let setting = Setting::parse(root, name)?;
                let (ruling, before) = setting.way_back()?;
                let relative = |setting: &Setting| -> Result<String> {
                    Ok(setting.path().strip_prefix(root)?.display().to_string())
                };
                let (name, ruling) = (relative(&setting)?, relative(&ruling)?);
                let (root, set) = (root.clone(), plain(value));
                (
                    WayBack::Host { root, name, set, ruling, value: before },
                    setting.read()?,
                    Security::default(),
                )
            }
        };
        if let Some(was) = was.filter(|was| *was != now) {
            bail!(
                "{} was `{was}` when the run began and is `{now}` now: somebody else changes it too, another run perhaps. \
                 Nothing was set; see to it that it is `{was}` and nobody else's, or begin a new run",
                way_back.what()
            );
        }
        let held = Held::keep(way_back, security, folder)?;
        match self.carry_out(value, address) {
            Ok(()) => Ok(held),
            refused => held.end(refused).and_then(|()| bail!("a refused setting is set")),
        }
    }

    fn carry_out(&self, value: &str, address: &str) -> Result<()> {
        match self {
            Self::Cluster { name, security } => {
                Ok(Admin::connect_with(address, security)?.set_for_cluster(name, value)?)
            }
            Self::Host { root, name } => Ok(Setting::parse(root, name)?.write(value)?),
        }
    }

    /// Sets it for good at a broker that goes after the window.
    pub(crate) fn set_for_good(&self, value: &str, address: &str) -> Result<()> {
        match self {
            Self::Cluster { .. } => self.carry_out(value, address),
            Self::Host { .. } => bail!("a setting of the machine outlives the broker"),
        }
    }
}

/// One value when all brokers have the same, otherwise each with its own.
fn in_force(seen: &ClusterSetting) -> String {
    match &seen.in_force[..] {
        [] => String::new(),
        [(_, first), more @ ..] if more.iter().all(|(_, value)| value == first) => first.clone(),
        all => {
            all.iter().map(|(node, value)| format!("{value} (broker {node})")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// A value as the kernel shows it: white space as single blanks.
fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl WayBack {
    /// Puts back what was set, if that is what is in force.
    fn go(&self, security: &Security) -> Result<Back> {
        match self {
            Self::Cluster { address, name, set, value, in_force } => {
                let mut admin = Admin::connect_with(address, security)?;
                let now = admin.cluster_setting(name)?.for_cluster;
                if now.as_ref() != Some(set) && now != *value {
                    return Ok(Back::Drifted(now.unwrap_or_else(|| "not set any more".to_owned())));
                }
                let before = ClusterSetting { for_cluster: value.clone(), in_force: in_force.clone() };
                admin.bring_back(name, &before)?;
            }
            Self::Host { root, name, set, ruling, value } => {
                let (now, ruling) = (Setting::parse(root, name)?.read()?, Setting::parse(root, ruling)?);
                if now != *set && ruling.read()? != *value {
                    return Ok(Back::Drifted(now));
                }
                ruling.write(value)?;
            }
        }
        Ok(Back::Done)
    }

    fn what(&self) -> String {
        match self {
            Self::Cluster { address, name, .. } => format!("{name} at {address}"),
            Self::Host { root, name, .. } => root.join(name).display().to_string(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Cluster { address, name, value: Some(value), .. } => {
                format!("{name} = {value} at {address}")
            }
            Self::Cluster { address, name, value: None, .. } => {
                format!("{name} at {address}, not set any more")
            }
            Self::Host { root, ruling, value, .. } => format!("{} = {value}", root.join(ruling).display()),
        }
    }

    fn drifted(&self, now: &str, kept: &Path) -> String {
        let (Self::Cluster { set, .. } | Self::Host { set, .. }) = self;
        format!(
            "{} was set to `{set}` and is `{now}` now: somebody decided otherwise, so it is left as it is. Before the run it \
             was: {} (kept in {})",
            self.what(),
            self.words(),
            kept.display()
        )
    }

    /// Puts back, and clears the file away. The drift in words, when it was left alone for one.
    fn go_and_clear(&self, security: &Security, file: &Path) -> Result<Option<String>> {
        match self.go(security).with_context(|| not_put_back(self, file))? {
            Back::Done => {
                fs::remove_file(file).with_context(|| format!("{} can't be removed", file.display()))?;
                Ok(None)
            }
            Back::Drifted(now) => {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                let kept = file.with_file_name(format!("{name}{DRIFTED}"));
                fs::rename(file, &kept).with_context(|| format!("{} can't be renamed", file.display()))?;
                Ok(Some(self.drifted(&now, &kept)))
            }
        }
    }
}

impl Held {
    fn keep(way_back: WayBack, security: Security, folder: &Path) -> Result<Self> {
        let free = (0..MOST).map(|place| undo_file(folder, place)).find(|file| !file.exists());
        let file = free.with_context(|| {
            format!("{} settings are set already, so nothing more is; see {}", MOST, folder.display())
        })?;
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

    /// Ends what was done while it was set: puts it back and answers what came of it.
    ///
    /// # Errors
    /// Those of what was done; and when it can't be put back, or is not what was set any more. The error says how to go on.
    pub(crate) fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.put_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => Err(error.context(format!("{problem:#}; this happened after"))),
        }
    }

    fn put_back(&mut self) -> Result<()> {
        let Some(way_back) = self.way_back.take() else { return Ok(()) };
        let drift = way_back.go_and_clear(&self.security, &self.file)?;
        drift.map_or(Ok(()), |drift| Err(anyhow!(drift)))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // On the way out of a panic; nobody else would tell.
        if let Err(problem) = self.put_back() {
            alarm(&format!("{problem:#}"));
        }
    }
}

fn not_put_back(way_back: &WayBack, file: &Path) -> String {
    format!(
        "{} could not be put back; try again with: hone compare --undo {} (with --tls and login as in that run), or put it \
         back by hand and remove {}",
        way_back.words(),
        file.parent().unwrap_or(file).display(),
        file.display()
    )
}

/// Where the way back of the setting that was set as this one, from 0 on, is kept.
fn undo_file(folder: &Path, place: usize) -> PathBuf {
    folder.join(if place == 0 { UNDO.to_owned() } else { format!("undo-{place}.json") })
}

/// What a folder says of its settings, the last one that was set first.
///
/// # Errors
/// When a file can't be read.
fn left_overs(folder: &Path) -> Result<Vec<LeftOver>> {
    let all = (0..MOST).rev().map(|place| left_over(undo_file(folder, place)));
    all.filter(|found| !matches!(found, Ok(LeftOver::Nothing))).collect()
}

/// What a file says of a setting.
enum LeftOver {
    Nothing,
    /// The run goes on and puts it back itself.
    Held,
    /// The run is dead. The lock is ours now, so that two that start at once do not both put back.
    Left {
        way_back: WayBack,
        file: PathBuf,
        _lock: File,
    },
}

fn left_over(file: PathBuf) -> Result<LeftOver> {
    let unreadable = || format!("{} can't be read", file.display());
    let lock = match File::options().read(true).write(true).open(&file) {
        Ok(lock) => lock,
        // Beside the folders of runs lie files: the ledger, a page.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(LeftOver::Nothing);
        }
        Err(error) => return Err(error).with_context(unreadable),
    };
    match lock.try_lock() {
        Ok(()) => {}
        Err(fs::TryLockError::WouldBlock) => return Ok(LeftOver::Held),
        Err(fs::TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("{} can't be locked", file.display()));
        }
    }
    // A run that ended its window in between has taken the file away, or has the next one there.
    match fs::metadata(&file) {
        Ok(there) if there.ino() == lock.metadata().with_context(unreadable)?.ino() => {}
        Ok(_) => return Ok(LeftOver::Held),
        Err(_) => return Ok(LeftOver::Nothing),
    }
    let text = fs::read_to_string(&file).with_context(unreadable)?;
    let way_back: WayBack = serde_json::from_str(&text).with_context(|| {
        format!(
            "{} is not what this version of hone writes; put the setting back by hand and remove the file",
            file.display()
        )
    })?;
    Ok(LeftOver::Left { way_back, file, _lock: lock })
}

/// Puts back what a run that died left set. Answers whether there was something.
///
/// # Errors
/// When the run still goes on, or the setting can't be put back.
pub(crate) fn put_back_left_over(folder: &Path, security: &Security, progress: &Progress) -> Result<bool> {
    let found = left_overs(folder)?;
    if found.iter().any(|left| matches!(left, LeftOver::Held)) {
        bail!("the run in {} still goes on; it puts its setting back itself", folder.display());
    }
    let mut was_left = false;
    for left in found {
        let LeftOver::Left { way_back, file, _lock } = left else { continue };
        was_left = true;
        match way_back.go_and_clear(security, &file)? {
            None => progress.line(&format!("Put back what an earlier run left set: {}", way_back.words())),
            Some(drift) => alarm(&format!("of an earlier run, {drift}")),
        }
    }
    Ok(was_left)
}

/// Puts back what runs under this folder left set when they died. Runs that go on are left alone.
///
/// # Errors
/// When one can't be put back: a run that starts now would measure on top of it.
pub(crate) fn put_back_left_overs(runs: &Path, security: &Security, progress: &Progress) -> Result<()> {
    for run in fs::read_dir(runs).into_iter().flatten().flatten() {
        let found = left_overs(&run.path())?;
        if !found.is_empty() && found.iter().all(|left| matches!(left, LeftOver::Left { .. })) {
            drop(found);
            put_back_left_over(&run.path(), security, progress).context(
                "a setting that an earlier run left set has to be put back before anything is measured",
            )?;
        }
    }
    Ok(())
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
            let held = lever(&root).set("1", "", run.path(), None).unwrap();
            assert_eq!((value(&root).as_str(), file.exists()), ("1", true));
            // A run that goes on is left alone.
            let message = put_back_left_over(run.path(), &Security::default(), &Progress::new(true))
                .unwrap_err()
                .to_string();
            assert!(message.contains("still goes on"), "{message}");
            if by_order {
                held.end(Ok(())).unwrap();
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
        fs::write(runs.path().join("ledger.jsonl"), "").unwrap();
        let mut held = lever(&root).set("1", "", &run, None).unwrap();
        // As kill -9 would: the lock goes, the setting and its file stay.
        held.way_back = None;
        drop(held);
        assert_eq!(value(&root), "1");
        put_back_left_overs(runs.path(), &Security::default(), &Progress::new(true)).unwrap();
        assert_eq!(value(&root), "60");
        assert!(!run.join(UNDO).exists());
        assert!(!put_back_left_over(&run, &Security::default(), &Progress::new(true)).unwrap());
    }

    #[test]
    fn several_settings_go_back_the_last_one_first() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let first = lever(&root).set("1", "", run.path(), None).unwrap();
        let mut second = lever(&root).set("2", "", run.path(), None).unwrap();
        assert!(run.path().join(UNDO).exists() && run.path().join("undo-1.json").exists());
        assert!(put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).is_err());
        let mut first = first;
        // As kill -9 would: in the wrong order the value of the second would be taken for somebody else's.
        (first.way_back, second.way_back) = (None, None);
        drop((first, second));
        assert_eq!(value(&root), "2");
        assert!(put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).unwrap());
        assert_eq!(value(&root), "60");
        assert!(!run.path().join("undo-1.json").exists() && !run.path().join(UNDO).exists());
    }

    #[test]
    fn nothing_is_set_when_the_way_back_can_not_be_kept() {
        let root = machine("60\n");
        let message = lever(&root).set("1", "", Path::new("/no/such/folder"), None).unwrap_err().to_string();
        assert!(message.contains("so nothing is set"), "{message}");
        assert_eq!(value(&root), "60");
    }

    /// As kill -9 would: the lock goes, the setting and its file stay.
    fn killed(root: &tempfile::TempDir, run: &Path) {
        lever(root).set("1", "", run, None).unwrap().way_back = None;
        assert_eq!(value(root), "1");
    }

    #[test]
    fn what_somebody_decided_since_is_left_alone_and_told() {
        let (root, runs) = (machine("60\n"), tempfile::tempdir().unwrap());
        let run = runs.path().join("compare-001");
        fs::create_dir(&run).unwrap();
        let file = root.path().join("proc/sys/vm/swappiness");
        // By a run that goes on: its window was not what it says.
        let held = lever(&root).set("1", "", &run, None).unwrap();
        fs::write(&file, "30").unwrap();
        let message = format!("{:#}", held.end(Ok(())).unwrap_err());
        assert!(message.contains("was set to `1` and is `30` now"), "{message}");
        assert!(message.contains("swappiness = 60"), "{message}");
        // By the next start.
        fs::write(&file, "60").unwrap();
        killed(&root, &run);
        fs::write(&file, "30").unwrap();
        put_back_left_overs(runs.path(), &Security::default(), &Progress::new(true)).unwrap();
        assert_eq!(value(&root), "30");
        assert!(!run.join(UNDO).exists() && run.join("undo-drifted.json").exists());
    }

    #[test]
    fn what_went_back_by_itself_is_no_drift() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        killed(&root, run.path());
        fs::write(root.path().join("proc/sys/vm/swappiness"), "60").unwrap();
        assert!(put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).unwrap());
        assert!(!run.path().join(UNDO).exists() && !run.path().join("undo-drifted.json").exists());
    }

    #[test]
    fn a_left_over_that_can_not_be_put_back_stops_the_next_run_with_what_to_do() {
        let (root, runs) = (machine("60\n"), tempfile::tempdir().unwrap());
        let run = runs.path().join("compare-001");
        fs::create_dir(&run).unwrap();
        killed(&root, &run);
        fs::remove_file(root.path().join("proc/sys/vm/swappiness")).unwrap();
        let stopped = put_back_left_overs(runs.path(), &Security::default(), &Progress::new(true));
        let message = format!("{:#}", stopped.unwrap_err());
        for expected in
            ["before anything is measured", "hone compare --undo", "by hand and remove", "undo.json"]
        {
            assert!(message.contains(expected), "{message}");
        }
        assert!(run.join(UNDO).exists());
    }

    #[test]
    fn nothing_is_set_when_it_is_not_as_it_was_when_the_run_began() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        lever(&root).set("1", "", run.path(), Some("60")).unwrap().end(Ok(())).unwrap();
        fs::write(root.path().join("proc/sys/vm/swappiness"), "30").unwrap();
        let message = lever(&root).set("1", "", run.path(), Some("60")).unwrap_err().to_string();
        assert!(message.contains("was `60` when the run began and is `30` now"), "{message}");
        assert_eq!(value(&root), "30");
        assert!(!run.path().join(UNDO).exists());
    }

    #[test]
    fn a_failure_and_a_failure_to_put_back_are_both_told() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let held = lever(&root).set("1", "", run.path(), None).unwrap();
        fs::remove_file(root.path().join("proc/sys/vm/swappiness")).unwrap();
        let message = format!("{:#}", held.end::<()>(Err(anyhow!("the window failed"))).unwrap_err());
        assert!(message.contains("could not be put back"), "{message}");
        assert!(message.contains("the window failed"), "{message}");
    }

    #[test]
    fn brokers_that_differ_are_each_named() {
        let seen = |values: &[&str]| ClusterSetting {
            for_cluster: None,
            in_force: values.iter().zip(1..).map(|(value, node)| (node, (*value).to_owned())).collect(),
        };
        assert_eq!(in_force(&seen(&["a", "a"])), "a");
        assert_eq!(in_force(&seen(&["a", "b"])), "a (broker 1), b (broker 2)");
    }
}
