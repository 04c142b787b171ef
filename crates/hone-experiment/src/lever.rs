//! Changes of the world outside: a setting of a running cluster, a setting of the kernel. Set for a window, put back after
//! it. What has to be put back is on the disk before anything is set, so that it can be put back after any crash.

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

/// Name of the file in a run's folder; those of further settings that are set at the same time have a number in it.
pub const UNDO: &str = "undo.json";
/// What the name of one gets that was left alone, because somebody had decided otherwise.
const DRIFTED: &str = "-drifted.json";
/// So many settings are set at the same time at most.
const MOST: usize = 32;

/// A setting outside of the arms.
#[derive(Debug, Clone, PartialEq)]
pub enum Lever {
    /// Of a cluster.
    Cluster {
        /// The setting.
        name: String,
        /// TLS and login of the connection that sets it.
        security: Security,
    },
    /// Of the kernel.
    Host {
        /// Folder that stands for `/`.
        root: PathBuf,
        /// The setting.
        name: String,
    },
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
    Host(OfMachine),
}

/// A setting outside of an arm, and what it is for that arm's windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Set {
    /// What is set.
    pub lever: Lever,
    /// What it is set to.
    pub value: String,
    /// What was in force when the run began, where that is known.
    pub was: Option<String>,
}

/// How putting back ended.
#[derive(Debug, PartialEq, Eq)]
enum Back {
    /// It is as it was.
    Done,
    /// It was as it was already.
    Gone,
    /// Somebody set something else meanwhile; left alone. Says what.
    Drifted(String),
}

/// A setting that is set. Put back when dropped; [`Held::end`] says when that fails.
#[derive(Debug)]
pub struct Held {
    way_back: Option<WayBack>,
    /// Whether it was set, so that there has to be something to put back.
    is_set: bool,
    /// The machine is this run's as long as its settings are.
    _turn: Option<Turn>,
    /// How to get to the cluster. No part of the file, because it holds passwords.
    security: Security,
    file: PathBuf,
    /// Locked as long as this process lives: a file nobody holds is left over.
    _lock: File,
}

impl Lever {
    /// The lever of a change; `None` when the change is one of the arms.
    pub fn of(change: &Change, host_root: &Path, security: &Security) -> Option<Self> {
        match change.kind.as_str() {
            "broker" => Some(Self::Cluster { name: change.name.clone(), security: security.clone() }),
            "host" => Some(Self::Host { root: host_root.to_owned(), name: change.name.clone() }),
            _ => None,
        }
    }

    /// What is in force now, for people, to refuse a change that changes nothing, and to see whether it is still so later.
    pub fn now(&self, address: &str) -> Result<String> {
        match self {
            Self::Cluster { name, security } => {
                Ok(in_force(&Admin::connect_with(address, security)?.cluster_setting(name)?))
            }
            Self::Host { root, name } => Ok(Setting::parse(root, name)?.read()?),
        }
    }

    /// Sets it at the broker of `address` (or on this machine), after the way back is on the disk. `was` is what was in force
    /// when the run began, where that is known. A setting of the machine goes back by itself after `guard`.
    ///
    /// # Errors
    /// When it is not as it was any more, or when it is refused, in the words of who refuses; nothing is set then.
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

    /// Refuses one that is not as it was when the run began. Of several that are set together each is looked at before the first is set,
    /// since one may take another along.
    ///
    /// # Errors
    /// When it is another value now, or can't be read.
    pub fn is_as_it_was(&self, was: &str, address: &str) -> Result<()> {
        let what = match self {
            Self::Cluster { name, .. } => format!("{name} at {address}"),
            Self::Host { name, .. } => name.clone(),
        };
        as_it_was(&what, was, &self.now(address)?)
    }

    /// Sets it for good at a broker that goes after the window.
    pub fn set_for_good(&self, value: &str, address: &str) -> Result<()> {
        match self {
            Self::Cluster { name, security } => {
                Ok(Admin::connect_with(address, security)?.set_for_cluster(name, value)?)
            }
            Self::Host { .. } => bail!("a setting of the machine outlives the broker"),
        }
    }
}

/// Sets settings of this machine together: one change with one way back.
///
/// # Errors
/// As those of [`Lever::set`].
pub fn set_together(sets: &[&Set], folder: &Path, guard: Option<Duration>) -> Result<Held> {
    let of_machine = |set: &&&Set| matches!(set.lever, Lever::Host { .. });
    let Some(Lever::Host { root, .. }) = sets.iter().find(of_machine).map(|set| &set.lever) else {
        bail!("there is no setting of the machine among them");
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

/// Refuses what is not as it was when the run began.
fn as_it_was(what: &str, was: &str, now: &str) -> Result<()> {
    if was == now {
        return Ok(());
    }
    bail!(
        "{what} was `{was}` when the run began and is `{now}` now: somebody else changes it too, another run perhaps. \
         Nothing was set; see to it that it is `{was}` and nobody else's, or begin a new run"
    );
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

/// Marks an error behind which something could not be put back.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Left(String);

/// Whether something is not as it was behind an error: nothing may go on then.
pub fn is_left(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Left>().is_some()
}

/// What brokers call a value that they do not take: Kafka says `INVALID_REQUEST` of what can't be changed while they run. The last one is of those
/// that keep another value.
const NO_VALUE: [&str; 4] = ["INVALID_CONFIG", "INVALID_REQUEST", "POLICY_VIOLATION", "not usable"];

/// Whether a broker or the kernel does not take a value, which says something of the value alone. That nobody may set it, that somebody else does,
/// or that nobody answers does not.
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

    /// Whether it is of a cluster that a run's login is none of the business of.
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
                format!("{name} at {address}, not set any more")
            }
            Self::Host(settings) => settings.words(),
        }
    }

    fn drifted(&self, now: &str, kept: &Path) -> String {
        format!(
            "{now}: somebody decided otherwise, so it is left as it is. Before the run it was: {} (kept in {})",
            self.words(),
            kept.display()
        )
    }

    /// Puts back, and clears the file away. Answers how that ended, a drift in words with where it is kept.
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
        Ok(Self { way_back: Some(way_back), is_set: false, _turn: turn, security, file, _lock: lock })
    }

    /// With the setting in force.
    fn once(mut self, set: impl FnOnce() -> Result<()>) -> Result<Self> {
        match set() {
            Ok(()) => {
                self.is_set = true;
                Ok(self)
            }
            refused => self.end(refused).and_then(|()| bail!("a refused setting is set")),
        }
    }

    /// Ends what was done while it was set: puts it back and answers what came of it.
    ///
    /// # Errors
    /// Those of what was done; and when it can't be put back, or is not what was set any more. The error says how to go on.
    pub fn end<T>(mut self, done: Result<T>) -> Result<T> {
        match (self.put_back(), done) {
            (Ok(()), done) => done,
            (Err(problem), Ok(_)) => Err(problem),
            (Err(problem), Err(error)) => {
                Err(error.context(Left(format!("{problem:#}; this happened after"))))
            }
        }
    }

    fn put_back(&mut self) -> Result<()> {
        let Some(way_back) = self.way_back.take() else { return Ok(()) };
        match way_back.go_and_clear(&self.security, &self.file)? {
            Back::Drifted(drift) => Err(anyhow!(drift)),
            Back::Gone if self.is_set => bail!(
                "{} went back inside of the window, which is then none: by its guard, or by `hone host revert`",
                way_back.what()
            ),
            Back::Done | Back::Gone => Ok(()),
        }
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

/// Settings that are set together. The last one that was set goes back first, also on the way out of a panic.
#[derive(Debug, Default)]
pub struct HeldTogether(Vec<Held>);

impl HeldTogether {
    /// With one more, set after the others.
    ///
    /// # Errors
    /// When it was refused; what is set already goes back before anybody hears of it.
    pub fn and(mut self, next: Result<Held>) -> Result<Self> {
        match next {
            Ok(one) => {
                self.0.push(one);
                Ok(self)
            }
            refused => self.end(refused.map(drop)).and_then(|()| bail!("a refused setting is set")),
        }
    }

    /// As [`Held::end`], for all of them: one that can't be put back keeps no other from it.
    ///
    /// # Errors
    /// As there.
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
        // A vector alone would drop its first one first.
        while let Some(held) = self.0.pop() {
            drop(held);
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
pub fn put_back_left_over(folder: &Path, security: &Security, progress: &Progress) -> Result<bool> {
    let found = left_overs(folder)?;
    if found.iter().any(|left| matches!(left, LeftOver::Held)) {
        bail!("the run in {} still goes on; it puts its setting back itself", folder.display());
    }
    put_back_all(found, security, progress)
}

fn put_back_all(found: Vec<LeftOver>, security: &Security, progress: &Progress) -> Result<bool> {
    let (mut was_left, mut problems) = (false, Vec::new());
    for left in found {
        let LeftOver::Left { way_back, file, _lock } = left else { continue };
        was_left = true;
        match way_back.go_and_clear(security, &file) {
            Ok(Back::Drifted(drift)) => alarm(&format!("of an earlier run, {drift}")),
            Ok(Back::Done | Back::Gone) => {
                progress.line(&format!("Put back what an earlier run left set: {}", way_back.words()));
            }
            // The others are tried all the same.
            Err(problem) => problems.push(format!("{problem:#}")),
        }
    }
    if !problems.is_empty() {
        bail!(problems.join("\n"));
    }
    Ok(was_left)
}

/// Puts back what runs under this folder left set when they died. Runs that go on are left alone; so are settings of a cluster that is none of
/// `places` where there is a login, which is this run's alone: those are told.
///
/// # Errors
/// When one can't be put back: a run that starts now would measure on top of it.
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
                "An earlier run left {} to be put back, and this run's login is not for that cluster: hone compare --undo {}",
                way_back.words(),
                file.parent().unwrap_or(file).display()
            ));
        }
        put_back_all(here, security, progress).context(
            "a setting that an earlier run left set has to be put back before anything is measured",
        )?;
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
        let mut held = lever(&root).set("1", "", &run, None, None).unwrap();
        // As kill -9 would: the lock goes, the setting and its file stay.
        held.way_back = None;
        drop(held);
        assert_eq!(value(&root), "1");
        put_back_left_overs(runs.path(), &[], &Security::default(), &Progress::new(true)).unwrap();
        assert_eq!(value(&root), "60");
        assert!(!run.join(UNDO).exists());
        assert!(!put_back_left_over(&run, &Security::default(), &Progress::new(true)).unwrap());
    }

    /// One that can't be put back must not keep the others from it.
    #[test]
    fn what_can_be_put_back_is_put_back_beside_what_can_not() {
        let (root, gone, run) = (machine("60\n"), machine("60\n"), tempfile::tempdir().unwrap());
        for root in [&root, &gone] {
            let mut held = lever(root).set("1", "", run.path(), None, None).unwrap();
            held.way_back = None;
        }
        fs::remove_dir_all(gone.path().join("proc")).unwrap();
        let problem = put_back_left_over(run.path(), &Security::default(), &Progress::new(true)).unwrap_err();
        assert!(format!("{problem:#}").contains("could not be put back"), "{problem:#}");
        assert_eq!(value(&root), "60");
        assert!(!run.path().join(UNDO).exists() && undo_file(run.path(), 1).exists());
    }

    /// As on the way out of a panic: the second was set on top of the first.
    #[test]
    fn settings_that_are_dropped_together_go_back_the_last_one_first() {
        let (root, run) = (machine("60\n"), tempfile::tempdir().unwrap());
        // The same settings under another root: of one root, one run at a time sets any.
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
        // The host is this run's.
        let other = tempfile::tempdir().unwrap();
        let refused = lever(&root).set("2", "", other.path(), None, None).unwrap_err().to_string();
        assert!(refused.contains("another run tries settings of this host"), "{refused}");
        // As kill -9 would.
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
        assert!(message.contains("went back inside of the window"), "{message}");
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

    /// The cluster of a run that died is not the one to which this run logs in.
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

    /// As kill -9 would: the lock goes, the setting and its file stay.
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
        // By a run that goes on: its window was not what it says.
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
            ["before anything is measured", "hone compare --undo", "by hand and remove", "undo.json"]
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
        assert!(!is_refused(&refused().context(Left("it is 500 still; this happened after".to_owned()))));
        let changed =
            ChangeError::Changed { path: path.clone(), before: "60".to_owned(), found: "1".to_owned() };
        assert!(!is_refused(&kernel(changed)) && !is_refused(&kernel(ChangeError::Late)));
        // What is set for B goes back, and that it did not stays with the error.
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
