//! Changes of external settings: a setting of a running cluster, or a setting of the kernel. Hone sets it for a window and
//! restores it afterwards. The original value is on the disk before Hone sets anything, so that any crash can be rolled back.

mod host;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use hone_host::change::{ChangeError, Outcome};
use hone_host::commit::{CommitError, Turn};
use hone_host::setting::Setting;
use hone_load::{Admin, ClusterSetting, LoadError, Security};
use hone_record::Change;
use serde::{Deserialize, Serialize};

use crate::progress::{Progress, alarm};
use host::OfMachine;

/// Name of the file in a run's folder. The files of more settings that are set at the same time have a number in their name.
pub const UNDO: &str = "undo.json";
/// File extension of a setting that Hone did not restore, because another program had changed it.
const DRIFTED: &str = "-drifted.json";
/// Limit of settings that are set at the same time.
const MOST: usize = 32;

/// A setting outside of the arms.
#[derive(Debug, Clone, PartialEq)]
pub enum Lever {
    /// Of a cluster.
    Cluster {
        /// The setting.
        name: String,
        /// TLS and login for the connection to the cluster.
        security: Security,
    },
    /// Of the kernel.
    Host {
        /// Folder that replaces `/`.
        root: PathBuf,
        /// The setting.
        name: String,
    },
}

/// The original value of a setting, and the value that Hone set. Hone only restores if its own value is still in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WayBack {
    Cluster {
        address: String,
        name: String,
        set: String,
        /// `None` if the cluster had no value of its own.
        value: Option<String>,
        /// The effective value of each broker.
        in_force: Vec<(i32, String)>,
    },
    Host(OfMachine),
}

/// A setting outside of an arm, with its value for that arm's windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// What is set.
    pub lever: Lever,
    /// Its value.
    pub value: String,
    /// The value in force when the run began, where it is known.
    pub was: Option<String>,
}

/// The result of a restore.
#[derive(Debug, PartialEq, Eq)]
enum Back {
    /// The original value is restored.
    Done,
    /// The original value was in force already.
    Gone,
    /// Another program changed it in the meantime, so it stays. The text names the value.
    Drifted(String),
}

/// A setting that is set. Dropping it restores the original value; [`Held::end`] returns the error if that fails.
#[derive(Debug)]
pub struct Held {
    way_back: Option<WayBack>,
    /// Whether Hone's value was in force, so that there must be something to restore.
    is_set: bool,
    /// No other run changes this machine while these settings are set.
    _turn: Option<Turn>,
    /// Login to the cluster. It is not part of the file, because it holds passwords.
    security: Security,
    file: PathBuf,
    /// Locked while this process lives: an unlocked file belongs to a killed run.
    _lock: File,
}

impl Lever {
    /// The external setting of a change; `None` when the change is a part of an arm.
    pub fn of(change: &Change, host_root: &Path, security: &Security) -> Option<Self> {
        match change.kind.as_str() {
            "broker" => Some(Self::Cluster { name: change.name.clone(), security: security.clone() }),
            "host" => Some(Self::Host { root: host_root.to_owned(), name: change.name.clone() }),
            _ => None,
        }
    }

    /// The value in force, for people. It is also used to reject a change without effect, and to detect later changes.
    pub fn now(&self, address: &str) -> Result<String> {
        match self {
            Self::Cluster { name, security } => {
                Ok(in_force(&Admin::connect_with(address, security)?.cluster_setting(name)?))
            }
            Self::Host { root, name } => Ok(Setting::parse(root, name)?.read()?),
        }
    }

    /// Sets it at the broker of `address` (or on this machine), after its original value is on the disk. `was` is the value in
    /// force when the run began, where it is known. The watchdog restores a setting of the machine after `guard`.
    ///
    /// # Errors
    /// When it has changed since then, or the broker or the kernel rejects it, with their words. Nothing is set then.
    pub fn set(
        &self,
        value: &str,
        address: &str,
        folder: &Path,
        was: Option<&str>,
        guard: Option<Duration>,
    ) -> Result<Held> {
        let (name, security) = match self {
            Self::Cluster { name, security } => (name, security),
            Self::Host { root, name } => {
                return on_machine(root, [(name.as_str(), value, was)], folder, guard);
            }
        };
        let seen = Admin::connect_with(address, security)?.cluster_setting(name)?;
        let now = in_force(&seen);
        let (address, name, set) = (address.to_owned(), name.clone(), value.to_owned());
        let ClusterSetting { for_cluster: before, in_force } = seen;
        if let Some(was) = was {
            as_it_was(&format!("{name} at {address}"), was, &now)?;
        }
        let way_back = WayBack::Cluster { address: address.clone(), name, set, value: before, in_force };
        let held = Held::keep(way_back, security.clone(), folder, None)?;
        held.once(|| self.set_for_good(value, &address))
    }

    /// Rejects a setting that has changed since the run began. With several settings, all are checked before the first is set,
    /// since a write may change another setting, too.
    ///
    /// # Errors
    /// When it has another value now, or can't be read.
    pub fn is_as_it_was(&self, was: &str, address: &str) -> Result<()> {
        let what = match self {
            Self::Cluster { name, .. } => format!("{name} at {address}"),
            Self::Host { name, .. } => name.clone(),
        };
        as_it_was(&what, was, &self.now(address)?)
    }

    /// Sets it permanently at a broker that is removed after the window.
    pub fn set_for_good(&self, value: &str, address: &str) -> Result<()> {
        match self {
            Self::Cluster { name, security } => {
                Ok(Admin::connect_with(address, security)?.set_for_cluster(name, value)?)
            }
            Self::Host { .. } => bail!("a setting of the machine remains after its broker is removed"),
        }
    }
}

/// Sets several settings of this machine together, as one change with one restore.
///
/// # Errors
/// As for [`Lever::set`].
pub fn set_together(sets: &[&Set], folder: &Path, guard: Option<Duration>) -> Result<Held> {
    let of_machine = |set: &&&Set| matches!(set.lever, Lever::Host { .. });
    let Some(Lever::Host { root, .. }) = sets.iter().find(of_machine).map(|set| &set.lever) else {
        bail!("none of these settings belongs to the machine");
    };
    let wanted = sets.iter().filter_map(|set| match &set.lever {
        Lever::Host { name, .. } => Some((name.as_str(), set.value.as_str(), set.was.as_deref())),
        Lever::Cluster { .. } => None,
    });
    on_machine(root, wanted, folder, guard)
}

fn on_machine<'a>(
    root: &Path,
    wanted: impl IntoIterator<Item = (&'a str, &'a str, Option<&'a str>)>,
    folder: &Path,
    guard: Option<Duration>,
) -> Result<Held> {
    let settings = OfMachine::read(root, folder, wanted.into_iter())?;
    let turn = settings.turn()?;
    let held = Held::keep(WayBack::Host(settings.clone()), Security::default(), folder, Some(turn))?;
    held.once(|| settings.set(guard))
}

/// Rejects a value that has changed since the run began.
fn as_it_was(what: &str, was: &str, now: &str) -> Result<()> {
    if was == now {
        return Ok(());
    }
    bail!(
        "{what} was `{was}` when the run began and is `{now}` now: another program changes it, too, perhaps \
         another run. Hone set nothing; restore `{was}` and continue, or begin a new run"
    );
}

/// One value if all brokers have the same, otherwise one per broker.
fn in_force(seen: &ClusterSetting) -> String {
    match &seen.in_force[..] {
        [] => String::new(),
        [(_, first), more @ ..] if more.iter().all(|(_, value)| value == first) => first.clone(),
        all => {
            all.iter().map(|(node, value)| format!("{value} (broker {node})")).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Marks an error after which a value could not be restored.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Left(String);

/// Whether a value is not restored after an error. Hone must not continue then.
pub fn is_left(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Left>().is_some()
}

/// Broker errors that reject a value. Kafka uses `INVALID_REQUEST` for settings that can't change at run time. The last one is
/// for brokers that keep another value.
const NO_VALUE: [&str; 4] = ["INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION", "not usable"];

/// Whether a broker or the kernel rejects the value itself. Missing rights, a concurrent change or a missing answer are no
/// rejection of the value.
pub fn is_refused(error: &anyhow::Error) -> bool {
    let by_broker =
        matches!(error.downcast_ref(), Some(LoadError::Refused { error, .. }) if NO_VALUE.contains(error));
    let by_kernel = matches!(
        error.downcast_ref(),
        Some(CommitError::TakenBack { source, outcomes, .. })
            if matches!(**source, ChangeError::Refused { .. }) && outcomes.iter().all(Outcome::is_back)
    );
    (by_broker || by_kernel) && !is_left(error)
}

/// A value in the kernel's notation, with single spaces.
fn plain(value: &str) -> String {
    value.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl WayBack {
    /// Restores the original value, if Hone's own value is still in force.
    fn go(&self, security: &Security) -> Result<Back> {
        match self {
            Self::Cluster { address, name, set, value, in_force } => {
                let mut admin = Admin::connect_with(address, security)?;
                let now = admin.cluster_setting(name)?.for_cluster;
                if now.as_ref() != Some(set) && now != *value {
                    let now = now.unwrap_or_else(|| "not set any more".to_owned());
                    return Ok(Back::Drifted(format!(
                        "{} was set to `{set}` and is `{now}` now",
                        self.what()
                    )));
                }
                let before = ClusterSetting { for_cluster: value.clone(), in_force: in_force.clone() };
                admin.bring_back(name, &before)?;
            }
            Self::Host(settings) => return settings.go(),
        }
        Ok(Back::Done)
    }

    /// Whether it belongs to a cluster to which this run's login must not be sent.
    fn is_elsewhere(&self, places: &[&str], security: &Security) -> bool {
        matches!(self, Self::Cluster { address, .. } if !security.is_open() && !places.contains(&address.as_str()))
    }

    fn what(&self) -> String {
        match self {
            Self::Cluster { address, name, .. } => format!("{name} at {address}"),
            Self::Host(settings) => settings.what(),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Cluster { address, name, value: Some(value), .. } => {
                format!("{name} = {value} at {address}")
            }
            Self::Cluster { address, name, value: None, .. } => {
                format!("{name} at {address}, not set")
            }
            Self::Host(settings) => settings.words(),
        }
    }

    fn drifted(&self, now: &str, kept: &Path) -> String {
        format!(
            "{now}: another program changed it, so Hone does not restore it. The value before the run was: \
             {} (stored in {})",
            self.words(),
            kept.display()
        )
    }

    /// Restores the value and deletes the file. If another program changed it, the result names the value and the stored
    /// original.
    fn go_and_clear(&self, security: &Security, file: &Path) -> Result<Back> {
        match self.go(security).with_context(|| not_put_back(self, file))? {
            Back::Drifted(now) => {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                let kept = file.with_file_name(format!("{name}{DRIFTED}"));
                fs::rename(file, &kept).with_context(|| format!("{} can't be renamed", file.display()))?;
                Ok(Back::Drifted(self.drifted(&now, &kept)))
            }
            back => {
                fs::remove_file(file).with_context(|| format!("{} can't be removed", file.display()))?;
                Ok(back)
            }
        }
    }
}

impl Held {
    fn keep(way_back: WayBack, security: Security, folder: &Path, turn: Option<Turn>) -> Result<Self> {
        let free = (0..MOST).map(|place| undo_file(folder, place)).find(|file| !file.exists());
        let file = free.with_context(|| {
            format!("the limit of {} settings at the same time is reached; see {}", MOST, folder.display())
        })?;
        let failed = || format!("{} can't be written, so nothing is set", file.display());
        let temporary = folder.join("undo.part");
        let lock = File::create(&temporary).with_context(failed)?;
        // The file is locked before it gets its name, so that no other process takes it for the file of a
        // killed run.
        lock.lock().with_context(failed)?;
        fs::write(&temporary, serde_json::to_string_pretty(&way_back)?).with_context(failed)?;
        lock.sync_all().and_then(|()| fs::rename(&temporary, &file)).with_context(failed)?;
        File::open(folder).and_then(|folder| folder.sync_all()).with_context(failed)?;
        Ok(Self { way_back: Some(way_back), is_set: false, _turn: turn, security, file, _lock: lock })
    }

    /// Applies the value.
    fn once(mut self, set: impl FnOnce() -> Result<()>) -> Result<Self> {
        match set() {
            Ok(()) => {
                self.is_set = true;
                Ok(self)
            }
            refused => self.end(refused).and_then(|()| bail!("a rejected setting is set")),
        }
    }

    /// Ends the window: restores the value and returns the window's result.
    ///
    /// # Errors
    /// Those of the window. Also when the value can't be restored, or another value was in force. The error says how to continue.
    pub fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.put_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => {
                Err(error.context(Left(format!("{problem:#}; it happened after this error"))))
            }
        }
    }

    fn put_back(&mut self) -> Result<()> {
        let Some(way_back) = self.way_back.take() else { return Ok(()) };
        match way_back.go_and_clear(&self.security, &self.file)? {
            Back::Drifted(drift) => Err(anyhow!(drift)),
            Back::Gone if self.is_set => bail!(
                "{} was restored during the window, which makes the window invalid: by its rollback \
                 watchdog, or by `hone host rollback`",
                way_back.what()
            ),
            Back::Done | Back::Gone => Ok(()),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // A panic unwinds here; no other code reports the failure.
        if let Err(problem) = self.put_back() {
            alarm(&format!("{problem:#}"));
        }
    }
}

/// Settings that are set together. They are restored in reverse order, also after a panic.
#[derive(Debug, Default)]
pub struct HeldTogether(Vec<Held>);

impl HeldTogether {
    /// Adds one that was set after the others.
    ///
    /// # Errors
    /// When it was rejected. The other settings are restored before the error returns.
    pub fn and(mut self, next: Result<Held>) -> Result<Self> {
        match next {
            Ok(one) => {
                self.0.push(one);
                Ok(self)
            }
            refused => self.end(refused.map(drop)).and_then(|()| bail!("a rejected setting is set")),
        }
    }

    /// As [`Held::end`], for all of them. If one can't be restored, the others still are.
    ///
    /// # Errors
    /// As for [`Held::end`].
    pub fn end<T>(mut self, done: Result<T>) -> Result<T> {
        let mut done = done;
        while let Some(held) = self.0.pop() {
            done = held.end(done);
        }
        done
    }
}

impl Drop for HeldTogether {
    fn drop(&mut self) {
        // A vector would drop its first element first.
        while let Some(held) = self.0.pop() {
            drop(held);
        }
    }
}

fn not_put_back(way_back: &WayBack, file: &Path) -> String {
    format!(
        "{} could not be restored; try again with: hone compare --rollback {} (with --tls and login as in \
         that run), or restore it by hand and remove {}",
        way_back.words(),
        file.parent().unwrap_or(file).display(),
        file.display()
    )
}

/// File with the original value of the setting that was set at this position, counted from 0.
fn undo_file(folder: &Path, place: usize) -> PathBuf {
    folder.join(if place == 0 { UNDO.to_owned() } else { format!("undo-{place}.json") })
}

/// The stored settings of a folder, in reverse order.
///
/// # Errors
/// When a file can't be read.
fn left_overs(folder: &Path) -> Result<Vec<LeftOver>> {
    let all = (0..MOST).rev().map(|place| left_over(undo_file(folder, place)));
    all.filter(|found| !matches!(found, Ok(LeftOver::Nothing))).collect()
}

/// The state of a stored setting.
enum LeftOver {
    Nothing,
    /// The run is active and restores it itself.
    Held,
    /// The run is dead. This process now holds the lock, so that two new runs do not both restore it.
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
        // The folder of runs also holds files: the ledger, a page.
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
    // In the meantime the run may have ended its window and deleted the file, or begun the next one.
    match fs::metadata(&file) {
        Ok(there) if there.ino() == lock.metadata().with_context(unreadable)?.ino() => {}
        Ok(_) => return Ok(LeftOver::Held),
        Err(_) => return Ok(LeftOver::Nothing),
    }
    let text = fs::read_to_string(&file).with_context(unreadable)?;
    let way_back: WayBack = serde_json::from_str(&text).with_context(|| {
        format!("{} has an unknown format; restore the setting by hand and remove the file", file.display())
    })?;
    Ok(LeftOver::Left { way_back, file, _lock: lock })
}

/// Restores the settings of a run that was killed. Returns whether there were any.
///
/// # Errors
/// When the run is still active, or a setting can't be restored.
pub fn put_back_left_over(folder: &Path, security: &Security, progress: &Progress) -> Result<bool> {
    let found = left_overs(folder)?;
    if found.iter().any(|left| matches!(left, LeftOver::Held)) {
        bail!("the run in {} is still active; it restores its setting itself", folder.display());
    }
    put_back_all(found, security, progress)
}

fn put_back_all(found: Vec<LeftOver>, security: &Security, progress: &Progress) -> Result<bool> {
    let (mut was_left, mut problems) = (false, Vec::new());
    for left in found {
        let LeftOver::Left { way_back, file, _lock } = left else { continue };
        was_left = true;
        match way_back.go_and_clear(security, &file) {
            Ok(Back::Drifted(drift)) => alarm(&format!("of an earlier run: {drift}")),
            Ok(Back::Done | Back::Gone) => {
                progress.line(&format!("restored the setting of an earlier run: {}", way_back.words()));
            }
            // The others are restored all the same.
            Err(problem) => problems.push(format!("{problem:#}")),
        }
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(was_left)
}

/// Restores the settings of killed runs under this folder. It skips active runs. With a login it also skips clusters that are not
/// among `places`, because the login belongs to this run's cluster. It reports these.
///
/// # Errors
/// When one can't be restored: the new run would measure with it.
pub fn put_back_left_overs(
    runs: &Path,
    places: &[&str],
    security: &Security,
    progress: &Progress,
) -> Result<()> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    for run in entries.filter(|entry| entry.is_dir()) {
        let found = left_overs(&run)?;
        if found.iter().any(|left| matches!(left, LeftOver::Held)) {
            continue;
        }
        let is_elsewhere = |left: &LeftOver| matches!(left, LeftOver::Left { way_back, .. } if way_back.is_elsewhere(places, security));
        let (elsewhere, here): (Vec<_>, Vec<_>) = found.into_iter().partition(is_elsewhere);
        for left in &elsewhere {
            let LeftOver::Left { way_back, file, .. } = left else { continue };
            progress.line(&format!(
                "an earlier run left {} to restore, but this run's login is for another cluster; restore it \
                 with: hone compare --rollback {}",
                way_back.words(),
                file.parent().unwrap_or(file).display()
            ));
        }
        put_back_all(here, security, progress)
            .context("a setting of an earlier run has to be restored before the measurement")?;
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
        fs::create_dir_all(root.path().join("proc/sys/kernel/random")).unwrap();
        fs::write(root.path().join("proc/sys/kernel/random/boot_id"), "first-boot\n").unwrap();
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
            let held = lever(&root).set("1", "", run.path(), None, None).unwrap();
            assert_eq!((value(&root).as_str(), file.exists()), ("1", true));
            // It skips an active run.
            let message = put_back_left_over(run.path(), &Security::default(), &Progress::new(true))
                .unwrap_err()
                .to_string();
            assert!(message.contains("still active"), "{message}");
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
        let mut held = lever(&root).set("1", "", &run, None, None).unwrap();
        // Like kill -9: the lock is released, the setting and its file stay.
        held.way_back = None;
        drop(held);
        assert_eq!(value(&root), "1");
        put_back_left_overs(runs.path(), &[], &Security::default(), &Progress::new(true)).unwrap();
        assert_eq!(value(&root), "60");
        assert!(!run.join(UNDO).exists());
        assert!(!put_back_left_over(&run, &Security::default(), &Progress::new(true)).unwrap());
    }

    /// One that can't be restored must not prevent the others.
    #[test]
    fn what_can_be_put_back_is_put_back_beside_what_can_not() {
        let (root, gone, run) = (machine("60\n"), machine("60\n"), tempfile::tempdir().unwrap());
        for root in [&root, &gone] {
            let mut held = lever(root).set("1", "", run.path(), None, None).unwrap();
            held.way_back = None;
        }
        fs::remove_dir_all(gone.path().join("proc")).unwrap();
        let problem = put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).unwrap_err();
        assert!(format!("{problem:#}").contains("could not be restored"), "{problem:#}");
        assert_eq!(value(&root), "60");
        assert!(!run.path().join(UNDO).exists() && undo_file(run.path(), 1).exists());
    }

    /// As after a panic: the second one was set on top of the first.
    #[test]
    fn settings_that_are_dropped_together_go_back_the_last_one_first() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        // The same settings under another root, because only one run at a time changes the settings of a
        // root.
        let other = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(root.path().join("proc"), other.path().join("proc")).unwrap();
        let mut both = HeldTogether::default();
        for (root, value) in [(&root, "1"), (&other, "2")] {
            both = both.and(lever(root).set(value, "", run.path(), None, None)).unwrap();
        }
        assert_eq!(value(&root), "2");
        drop(both);
        assert_eq!(value(&root), "60");
        assert!(left_overs(run.path()).unwrap().is_empty());
    }

    #[test]
    fn what_somebody_else_has_changed_since_is_seen() {
        let root = machine("60\n");
        lever(&root).is_as_it_was("60", "").unwrap();
        let problem = lever(&root).is_as_it_was("10", "").unwrap_err().to_string();
        assert!(problem.contains("was `10` when the run began and is `60` now"), "{problem}");
    }

    #[test]
    fn settings_of_a_machine_are_one_change_and_go_back_together() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let ratio = root.path().join("proc/sys/vm/dirty_ratio");
        fs::write(&ratio, "20\n").unwrap();
        fs::write(root.path().join("proc/sys/vm/dirty_bytes"), "0\n").unwrap();
        let set = |name: &str, value: &str| Set {
            lever: Lever::Host { root: root.path().to_owned(), name: name.to_owned() },
            value: value.to_owned(),
            was: None,
        };
        let sets = [set("vm.swappiness", "1"), set("vm.dirty_ratio", "11")];
        let mut held = set_together(&sets.iter().collect::<Vec<_>>(), run.path(), None).unwrap();
        let of_ratio = || fs::read_to_string(&ratio).unwrap().trim().to_owned();
        assert_eq!((value(&root), of_ratio()), ("1".to_owned(), "11".to_owned()));
        // This run holds the host.
        let other = tempfile::tempdir().unwrap();
        let refused = lever(&root).set("2", "", other.path(), None, None).unwrap_err().to_string();
        assert!(refused.contains("another run tries settings of this host"), "{refused}");
        // Like kill -9.
        held.way_back = None;
        drop(held);
        assert!(put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).unwrap());
        assert_eq!((value(&root), of_ratio()), ("60".to_owned(), "20".to_owned()));
        let journals = fs::read_dir(root.path().join("var/lib/hone/host")).unwrap();
        let journals = journals.filter(|entry| {
            entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "journal")
        });
        assert_eq!(journals.count(), 0, "nothing is left behind");
    }

    #[test]
    fn what_went_back_inside_of_its_window_is_told() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let held = lever(&root).set("1", "", run.path(), None, None).unwrap();
        assert!(hone_host::commit::take_one_back(root.path(), "00001").unwrap().unwrap().is_whole());
        let message = format!("{:#}", held.end(Ok(())).unwrap_err());
        assert!(message.contains("was restored during the window"), "{message}");
        assert!(!run.path().join(UNDO).exists());
    }

    #[test]
    fn the_last_one_that_was_set_goes_back_first() {
        let run = tempfile::tempdir().unwrap();
        for (file, name) in [(UNDO, "first"), ("undo-1.json", "second")] {
            let WayBack::Cluster { address, set, value, in_force, .. } = left_at("127.0.0.1:1") else {
                panic!()
            };
            let way_back = WayBack::Cluster { address, name: name.to_owned(), set, value, in_force };
            fs::write(run.path().join(file), serde_json::to_string(&way_back).unwrap()).unwrap();
        }
        let found = left_overs(run.path()).unwrap();
        let names: Vec<String> = found
            .iter()
            .map(|left| match left {
                LeftOver::Left { way_back, .. } => way_back.what(),
                LeftOver::Nothing | LeftOver::Held => String::new(),
            })
            .collect();
        assert_eq!(names, ["second at 127.0.0.1:1", "first at 127.0.0.1:1"]);
    }

    fn left_at(address: &str) -> WayBack {
        WayBack::Cluster {
            address: address.to_owned(),
            name: "log.flush.ms".to_owned(),
            set: "1".to_owned(),
            value: None,
            in_force: Vec::new(),
        }
    }

    /// The killed run's cluster is not the one to which this run logs in.
    #[test]
    fn a_login_is_shown_to_no_other_cluster() {
        let (root, runs) = (machine("60\n"), tempfile::tempdir().unwrap());
        let run = runs.path().join("compare-001");
        fs::create_dir(&run).unwrap();
        killed(&root, &run);
        let seen = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        seen.set_nonblocking(true).unwrap();
        let address = seen.local_addr().unwrap().to_string();
        fs::write(run.join("undo-1.json"), serde_json::to_string(&left_at(&address)).unwrap()).unwrap();
        let secured = Security {
            sasl: Some(hone_load::security::Sasl {
                mechanism: hone_load::security::Mechanism::Plain,
                user: "me".to_owned(),
                password: hone_load::security::Password::new("secret".to_owned()),
            }),
            ..Security::default()
        };
        put_back_left_overs(runs.path(), &["this:9092"], &secured, &Progress::new(true)).unwrap();
        assert!(seen.accept().is_err(), "nobody has called the other cluster");
        assert!(run.join("undo-1.json").exists(), "whoever has its login can put it back");
        assert_eq!(value(&root), "60", "what is of the machine has gone back");
        assert!(!left_at(&address).is_elsewhere(&[&address], &secured));
        assert!(!left_at(&address).is_elsewhere(&["this:9092"], &Security::default()));
    }

    #[test]
    fn nothing_is_set_when_the_way_back_can_not_be_kept() {
        let root = machine("60\n");
        let message =
            lever(&root).set("1", "", Path::new("/no/such/folder"), None, None).unwrap_err().to_string();
        assert!(message.contains("so nothing is set"), "{message}");
        assert_eq!(value(&root), "60");
    }

    /// Like kill -9: the lock is released, the setting and its file stay.
    fn killed(root: &tempfile::TempDir, run: &Path) {
        lever(root).set("1", "", run, None, None).unwrap().way_back = None;
        assert_eq!(value(root), "1");
    }

    #[test]
    fn what_somebody_decided_since_is_left_alone_and_told() {
        let (root, runs) = (machine("60\n"), tempfile::tempdir().unwrap());
        let run = runs.path().join("compare-001");
        fs::create_dir(&run).unwrap();
        let file = root.path().join("proc/sys/vm/swappiness");
        // By an active run: its window was invalid.
        let held = lever(&root).set("1", "", &run, None, None).unwrap();
        fs::write(&file, "30").unwrap();
        let message = format!("{:#}", held.end(Ok(())).unwrap_err());
        assert!(message.contains("was set to `1` and is `30` now"), "{message}");
        assert!(message.contains("swappiness = 60"), "{message}");
        // By the next start.
        fs::write(&file, "60").unwrap();
        killed(&root, &run);
        fs::write(&file, "30").unwrap();
        put_back_left_overs(runs.path(), &[], &Security::default(), &Progress::new(true)).unwrap();
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
        let stopped = put_back_left_overs(runs.path(), &[], &Security::default(), &Progress::new(true));
        let message = format!("{:#}", stopped.unwrap_err());
        for expected in
            ["before the measurement", "hone compare --rollback", "by hand and remove", "undo.json"]
        {
            assert!(message.contains(expected), "{message}");
        }
        assert!(run.join(UNDO).exists());
    }

    #[test]
    fn nothing_is_set_when_it_is_not_as_it_was_when_the_run_began() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        lever(&root).set("1", "", run.path(), Some("60"), None).unwrap().end(Ok(())).unwrap();
        fs::write(root.path().join("proc/sys/vm/swappiness"), "30").unwrap();
        let message = lever(&root).set("1", "", run.path(), Some("60"), None).unwrap_err().to_string();
        assert!(message.contains("was `60` when the run began and is `30` now"), "{message}");
        assert_eq!(value(&root), "30");
        assert!(!run.path().join(UNDO).exists());
    }

    #[test]
    fn a_value_that_is_refused_is_told_from_one_that_somebody_else_sets() {
        let kernel = |source| {
            let (source, outcomes, unkept) = (Box::new(source), Vec::new(), None);
            anyhow::Error::from(CommitError::TakenBack { source, outcomes, unkept })
        };
        let (path, value) = ("proc/sys/vm/swappiness".to_owned(), "500".to_owned());
        let refused = || {
            kernel(ChangeError::Refused { path: path.clone(), value: value.clone(), why: "no".to_owned() })
        };
        assert!(is_refused(&refused().context("pair 3")));
        assert!(!is_refused(
            &refused().context(Left("it is 500 still; it happened after this error".to_owned()))
        ));
        let changed =
            ChangeError::Changed { path: path.clone(), before: "60".to_owned(), found: "1".to_owned() };
        assert!(!is_refused(&kernel(changed)) && !is_refused(&kernel(ChangeError::Late)));
        // The settings of B are restored, and the error mentions one that failed.
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let held = lever(&root).set("1", "", run.path(), None, None).unwrap();
        fs::remove_file(root.path().join(&path)).unwrap();
        let error = held.end::<()>(Err(refused())).unwrap_err();
        assert!(is_left(&error) && !is_refused(&error), "{error:#}");
    }

    #[test]
    fn a_failure_and_a_failure_to_put_back_are_both_told() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        let held = lever(&root).set("1", "", run.path(), None, None).unwrap();
        fs::remove_file(root.path().join("proc/sys/vm/swappiness")).unwrap();
        let message = format!("{:#}", held.end::<()>(Err(anyhow!("the window failed"))).unwrap_err());
        assert!(message.contains("could not be restored"), "{message}");
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
