//! The journal of a rollout. A line is on disk before its step is done to a host. So a process that continues the rollout, or rolls it
//! back, knows the hosts that may be changed.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::inventory::{self, Host};
use crate::line_file::LineFile;

/// Format version of its lines.
pub const FORMAT: u32 = 1;
/// Its name in the folder of a run.
pub const FILE: &str = "rollout.journal";
/// A rollout writes a few lines for each host.
const MOST_BYTES: u64 = 64 << 20;

/// A line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "entry")]
pub enum Entry {
    /// The first line.
    Begun(Box<Begun>),
    /// The rollout was resumed.
    Resumed {
        /// Time, in milliseconds since 1970.
        unix_ms: u64,
    },
    /// A host will be changed.
    Opened {
        /// Its name.
        host: String,
        /// Time, in milliseconds since 1970.
        unix_ms: u64,
        /// Existing changes of the host, which are not the rollout's.
        #[serde(default)]
        known: Vec<String>,
    },
    /// The host reported that it is changed.
    Applied {
        /// Its name.
        host: String,
        /// Id of the change there; `None` if nothing had to be changed.
        change: Option<String>,
        /// Seconds until its watchdog rolls back without a renewal.
        lease_s: u64,
    },
    /// The canary's topic will be created.
    Canary {
        /// Its name.
        topic: String,
    },
    /// The canary's topic was deleted.
    CanaryGone {
        /// Its name.
        topic: String,
    },
    /// Findings of a gate, as reported.
    Gate {
        /// Name of the host.
        host: String,
        /// Whether the rollout may continue.
        passed: bool,
        /// The findings.
        findings: Vec<String>,
    },
    /// The host keeps its change.
    Confirmed {
        /// Its name.
        host: String,
    },
    /// The change was rolled back.
    Reverted {
        /// Its name.
        host: String,
        /// Whether every value is restored.
        whole: bool,
        /// The reason.
        why: String,
    },
    /// The host can't be reached, so its state is unknown.
    Unknown {
        /// Its name.
        host: String,
        /// The reason.
        why: String,
    },
    /// No further host is changed.
    Halted {
        /// The reason.
        why: String,
    },
    /// All hosts are done.
    Finished,
}

/// The first line of a journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begun {
    /// [`FORMAT`].
    pub journal: u32,
    /// Version of Hone.
    pub version: String,
    /// Time, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Name of the profile, or of its file.
    pub profile: String,
    /// Its text, unless it is one of Hone's own.
    pub profile_text: Option<String>,
    /// The hosts, with their brokers.
    pub hosts: Vec<Host>,
    /// Further options, as on the command line.
    pub settings: serde_json::Value,
}

/// State of a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Fate {
    /// It is unchanged.
    Waiting,
    /// It may be changed, and is not confirmed: its watchdog rolls it back, unless a rollback comes first.
    Open {
        /// Id of the change there, if it was reported.
        change: Option<String>,
    },
    /// It keeps its change.
    Confirmed {
        /// Id of the change there; `None` if nothing had to be changed.
        change: Option<String>,
    },
    /// It was rolled back.
    Reverted {
        /// Id of the change there, if some value is not restored.
        change: Option<String>,
        /// Whether every value is restored.
        whole: bool,
        /// The reason.
        why: String,
    },
    /// It can't be reached.
    Unknown {
        /// Id of the change there, if it was reported.
        change: Option<String>,
        /// The reason.
        why: String,
    },
}

/// State of a journal after reading it from the beginning.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The first line.
    pub begun: Begun,
    /// State of each host, in the order of the inventory.
    pub fates: Vec<(String, Fate)>,
    /// Names of the hosts in the order of their first change.
    pub visited: Vec<String>,
    /// Changes that each host had before.
    pub known: BTreeMap<String, Vec<String>>,
    /// Why no further host is changed.
    pub halted: Option<String>,
    /// Whether all hosts are done.
    pub finished: bool,
    /// Topics of the canary that may still exist.
    pub canaries: Vec<String>,
}

/// Reasons why a journal can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file can't be accessed.
    #[error("the journal {} can't be {what}: {source}; name the folder of a rollout, on a disk that is not \
        full", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// `read`, `written` ...
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Its text is not in Hone's format.
    #[error("line {line} of the journal {} can't be read: {why}", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
        /// The problem.
        why: String,
    },
    /// Another process runs this rollout.
    #[error("another hone runs this rollout: {} is held\n  next: wait for it, or end it", path.display())]
    Held {
        /// The file.
        path: PathBuf,
    },
}

/// A locked journal: only one process at a time can run a rollout.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    lines: LineFile,
}

fn io_error<'a>(path: &'a Path, what: &'static str) -> impl Fn(io::Error) -> LogError + 'a {
    move |source| LogError::Io { path: path.to_owned(), what, source }
}

impl Log {
    /// Begins a journal in the folder of a run.
    ///
    /// # Errors
    /// Returns an error when it can't be written.
    pub fn begin(folder: &Path, begun: Begun) -> Result<Self, LogError> {
        let path = folder.join(FILE);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(io_error(&path, "created"))?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(&path, "created"))?;
        hold(&path, &file)?;
        let mut log = Self { path, lines: LineFile::over(file) };
        log.append(&Entry::Begun(Box::new(begun)))?;
        Ok(log)
    }

    /// Opens a journal to continue it. An incomplete last line after a crash announced a step that was not done.
    ///
    /// # Errors
    /// Returns an error when it can't be opened, or another process runs the rollout.
    pub fn resume(folder: &Path) -> Result<Self, LogError> {
        let path = folder.join(FILE);
        let file =
            OpenOptions::new().read(true).append(true).open(&path).map_err(io_error(&path, "opened"))?;
        hold(&path, &file)?;
        let lines = LineFile::resumed(file).map_err(io_error(&path, "opened"))?;
        Ok(Self { path, lines })
    }

    /// Writes an entry; it is on disk when this returns.
    ///
    /// # Errors
    /// Returns an error when it can't be written: the announced step must then not be done.
    pub fn append(&mut self, entry: &Entry) -> Result<(), LogError> {
        self.lines.append(entry).map_err(io_error(&self.path, "written"))
    }
}

fn hold(path: &Path, file: &File) -> Result<(), LogError> {
    match file.try_lock() {
        Ok(()) => Ok(()),
        Err(std::fs::TryLockError::WouldBlock) => Err(LogError::Held { path: path.to_owned() }),
        Err(std::fs::TryLockError::Error(source)) => Err(io_error(path, "locked")(source)),
    }
}

/// Reads the journal of a run.
///
/// # Errors
/// Returns an error when it can't be read or is not a journal.
pub fn read(folder: &Path) -> Result<State, LogError> {
    use std::io::Read as _;
    let path = folder.join(FILE);
    let mut text = String::new();
    File::open(&path)
        .and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text))
        .map_err(io_error(&path, "read"))?;
    parse(&text).map_err(|(line, why)| LogError::Broken { path, line, why })
}

/// The state after all whole lines of a text.
///
/// # Errors
/// Returns the number of an invalid line, and the reason.
pub fn parse(text: &str) -> Result<State, (usize, String)> {
    let whole = text.rfind('\n').map_or("", |last| text.get(..last).unwrap_or_default());
    let mut lines = whole.lines().enumerate();
    let entry = |at: usize, line: &str| -> Result<Entry, (usize, String)> {
        serde_json::from_str(line).map_err(|error| (at + 1, error.to_string()))
    };
    let begun = match lines.next().map(|(at, line)| entry(at, line)).transpose()? {
        Some(Entry::Begun(begun)) if begun.journal == FORMAT => *begun,
        Some(Entry::Begun(begun)) => {
            return Err((1, format!("format {}, but this build reads {FORMAT}", begun.journal)));
        }
        _ => return Err((1, "its beginning is missing".to_owned())),
    };
    // All other lines identify a host only by its name, so a rollback would be a guess.
    if let Some(name) = inventory::twice(&begun.hosts) {
        let by_hand = "check each with `hone host status`, and roll the change back there (`hone host \
                       rollback`)";
        return Err((
            1,
            format!(
                "two hosts have the name {name}, so the journal does not show which was changed; {by_hand}"
            ),
        ));
    }
    let fates = begun.hosts.iter().map(|host| (host.name.clone(), Fate::Waiting)).collect();
    let (visited, canaries, known) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut state = State { begun, fates, visited, known, halted: None, finished: false, canaries };
    for (at, line) in lines {
        state.take(entry(at, line)?);
    }
    Ok(state)
}

impl State {
    /// State of a host.
    pub fn fate(&self, host: &str) -> Option<&Fate> {
        self.fates.iter().find(|(name, _)| name == host).map(|(_, fate)| fate)
    }

    /// The change's id on a host, if it was reported.
    pub fn change(&self, host: &str) -> Option<String> {
        match self.fate(host)? {
            Fate::Open { change }
            | Fate::Confirmed { change }
            | Fate::Unknown { change, .. }
            | Fate::Reverted { change, .. } => change.clone(),
            Fate::Waiting => None,
        }
    }

    /// Changes that a host had before the rollout; none of them may be rolled back.
    pub fn known(&self, host: &str) -> &[String] {
        self.known.get(host).map(Vec::as_slice).unwrap_or_default()
    }

    /// Hosts that may need a rollback, the last changed one first.
    pub fn changed(&self) -> Vec<&Host> {
        let may_be = |name: &String| match self.fate(name) {
            Some(Fate::Open { .. } | Fate::Unknown { .. } | Fate::Reverted { whole: false, .. }) => true,
            Some(Fate::Confirmed { change }) => change.is_some(),
            Some(Fate::Waiting | Fate::Reverted { whole: true, .. }) | None => false,
        };
        let names = self.visited.iter().rev().filter(|name| may_be(name));
        names.filter_map(|name| self.begun.hosts.iter().find(|host| host.name == *name)).collect()
    }

    /// Adds an entry.
    pub fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Begun(_) | Entry::Gate { .. } => {}
            Entry::Canary { topic } => self.canaries.push(topic),
            Entry::CanaryGone { topic } => self.canaries.retain(|known| *known != topic),
            Entry::Resumed { .. } => self.halted = None,
            Entry::Opened { host, known, .. } => {
                self.known.insert(host.clone(), known);
                if !self.visited.contains(&host) {
                    self.visited.push(host.clone());
                }
                self.set(&host, Fate::Open { change: None });
            }
            Entry::Applied { host, change, .. } => self.set(&host, Fate::Open { change }),
            Entry::Confirmed { host } => {
                let change = self.change(&host);
                self.set(&host, Fate::Confirmed { change });
            }
            Entry::Reverted { host, whole, why } => {
                let change = self.change(&host).filter(|_| !whole);
                self.set(&host, Fate::Reverted { change, whole, why });
            }
            Entry::Unknown { host, why } => {
                let change = self.change(&host);
                self.set(&host, Fate::Unknown { change, why });
            }
            Entry::Halted { why } => self.halted = Some(why),
            Entry::Finished => self.finished = true,
        }
    }

    fn set(&mut self, host: &str, fate: Fate) {
        if let Some((_, known)) = self.fates.iter_mut().find(|(name, _)| name == host) {
            *known = fate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::inventory::named;
    use proptest::prelude::*;

    fn begun() -> Begun {
        Begun {
            journal: FORMAT,
            version: "0".to_owned(),
            unix_ms: 1,
            profile: "latency".to_owned(),
            profile_text: None,
            hosts: named(&["a", "b", "c"].map(str::to_owned)).unwrap(),
            settings: serde_json::Value::Null,
        }
    }

    fn entries() -> Vec<Entry> {
        let host = |name: &str| name.to_owned();
        vec![
            Entry::Opened { host: host("b"), unix_ms: 2, known: vec!["00000".to_owned()] },
            Entry::Applied { host: host("b"), change: Some("00001".to_owned()), lease_s: 60 },
            Entry::Gate { host: host("b"), passed: true, findings: vec![] },
            Entry::Confirmed { host: host("b") },
            Entry::Opened { host: host("a"), unix_ms: 3, known: vec![] },
            Entry::Applied { host: host("a"), change: Some("00004".to_owned()), lease_s: 60 },
            Entry::Halted { why: "slower".to_owned() },
            Entry::Reverted { host: host("a"), whole: true, why: "slower".to_owned() },
        ]
    }

    fn text(entries: &[Entry]) -> String {
        let first = Entry::Begun(Box::new(begun()));
        [&first]
            .into_iter()
            .chain(entries)
            .map(|entry| serde_json::to_string(entry).unwrap() + "\n")
            .collect()
    }

    #[test]
    fn what_was_done_to_whom() {
        let changed = |count: usize| {
            let state = parse(&text(&entries()[..count])).unwrap();
            state.changed().iter().map(|host| host.name.clone()).collect::<Vec<_>>()
        };
        let told: Vec<Vec<String>> = (0..=8).map(changed).collect();
        let expected: [&[&str]; 9] =
            [&[], &["b"], &["b"], &["b"], &["b"], &["a", "b"], &["a", "b"], &["a", "b"], &["b"]];
        for (at, (told, expected)) in told.iter().zip(expected).enumerate() {
            assert_eq!(told, expected, "after {at} lines");
        }
        let state = parse(&text(&entries())).unwrap();
        assert_eq!(state.halted.as_deref(), Some("slower"));
        assert_eq!(state.change("b").as_deref(), Some("00001"));
        assert_eq!(state.fate("c"), Some(&Fate::Waiting));
        assert_eq!((state.known("b"), state.known("c")), (&["00000".to_owned()][..], &[][..]));
    }

    /// Whatever ends without everything being as it was keeps its name: nothing else says which change of a host is meant.
    #[test]
    fn a_change_that_is_not_gone_keeps_its_name() {
        let (host, why) = ("b".to_owned(), "asked for".to_owned());
        let unknown = Entry::Unknown { host: host.clone(), why: why.clone() };
        let ended = |whole: bool| Entry::Reverted { host: host.clone(), whole, why: why.clone() };
        for (more, name) in [
            (vec![unknown.clone()], Some("00001")),
            (vec![ended(false)], Some("00001")),
            (vec![unknown.clone(), ended(false), unknown], Some("00001")),
            (vec![ended(true)], None),
        ] {
            let state = parse(&text(&[&entries()[..4], &more].concat())).unwrap();
            assert_eq!(state.change("b").as_deref(), name, "{more:?}");
            assert_eq!(state.changed().is_empty(), name.is_none(), "{more:?}");
        }
    }

    #[test]
    fn a_journal_of_two_hosts_of_one_name_takes_nothing_back() {
        let mut begun = begun();
        begun.hosts[2].name = "a".to_owned();
        let text = serde_json::to_string(&Entry::Begun(Box::new(begun))).unwrap() + "\n";
        let (line, why) = parse(&text).unwrap_err();
        assert!(line == 1 && why.contains("two hosts have the name a"), "{line}: {why}");
    }

    #[test]
    fn a_line_that_was_cut_off_announced_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = Log::begin(folder.path(), begun()).unwrap();
        log.append(&entries()[0]).unwrap();
        assert!(matches!(Log::resume(folder.path()), Err(LogError::Held { .. })));
        drop(log);
        let path = folder.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"{\"entry\":\"conf");
        std::fs::write(&path, bytes).unwrap();
        let mut log = Log::resume(folder.path()).unwrap();
        log.append(&Entry::Halted { why: "x".to_owned() }).unwrap();
        let state = read(folder.path()).unwrap();
        assert_eq!(state.fate("b"), Some(&Fate::Open { change: None }));
        assert_eq!(state.halted.as_deref(), Some("x"));
        assert_eq!(parse("").unwrap_err().0, 1);
    }

    proptest! {
        #[test]
        fn foreign_journals_do_no_harm(at in 0_usize..2000, byte in 0_u8..128) {
            let mut bytes = text(&entries()).into_bytes();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
