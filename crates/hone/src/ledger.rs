//! What all entries of the ledger have in common, whoever decides, and what is said when one can't be written.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use hone_binary::sha256_hex;
use hone_ledger::{Appended, Ledger, LedgerError, Line};
use hone_record::{Comparison, LedgerEntry, RecordRef, RecordRole};

use crate::folder::RunFolder;
use crate::moment::now_unix_ms;
use crate::progress::Progress;
use crate::reader::{self, Caller, Reader};

/// The ledger's name, in the folder of the runs.
pub(crate) const NAME: &str = "ledger.jsonl";

/// Who is said to have decided, where it shall not be the user's and the machine's name.
const WHO: &str = "HONE_WHO";

/// Digits of a program's hash that tell builds apart.
const SHORT: usize = 12;

/// The folder beside a ledger with the records that were pulled with those of other hosts, a folder for each run.
pub(crate) const RECORDS: &str = "records";
/// Digits of a line's hash in the name of a pulled run's folder.
const OF_LINE: usize = 16;
/// Of a run's own name there.
const LONGEST_NAME: usize = 100;

/// An entry of a command, with what does not depend on what was decided.
pub(crate) fn entry(verb: &str) -> LedgerEntry {
    LedgerEntry {
        at_unix_ms: now_unix_ms(),
        who: who(),
        hone: build().to_owned(),
        verb: verb.to_owned(),
        ..LedgerEntry::default()
    }
}

/// `user@host`.
fn who() -> String {
    let said = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    let user = || said("USER").or_else(|| said("LOGNAME")).unwrap_or_else(own_name);
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    said(WHO).unwrap_or_else(|| format!("{}@{}", user(), host.trim()))
}

/// As the machine's own list has it: services and containers have no USER in their environment.
fn own_name() -> String {
    // SAFETY: takes nothing and can't fail.
    let uid = unsafe { libc::getuid() }.to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_own = |line: &&str| line.split(':').nth(2) == Some(&*uid);
    let name = known.lines().find(is_own).and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// The version, and the beginning of the SHA-256 of the program that runs: two builds may have one version.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        // The file that runs, also where another one has its name by now.
        let program = fs::read("/proc/self/exe").map(|bytes| sha256_hex(&bytes));
        let short = program.ok().and_then(|hash| hash.get(..SHORT).map(str::to_owned));
        short.map_or_else(|| version.to_owned(), |short| format!("{version} ({short})"))
    })
}

/// Puts an entry into a ledger.
///
/// # Errors
/// When it can't be written; the error shows the entry, so that it is not lost.
pub(crate) fn enter(path: &Path, entry: &LedgerEntry, progress: &Progress) -> Result<()> {
    let appended = append(path, entry).with_context(|| not_written(entry))?;
    for line in remarks(&appended, path) {
        progress.line(&line);
    }
    Ok(())
}

fn append(path: &Path, entry: &LedgerEntry) -> Result<Appended, LedgerError> {
    if let Some(folder) = path.parent() {
        // Where it can't be made, opening the file tells why.
        let _ = fs::create_dir_all(folder);
    }
    Ledger::at(path).append(entry)
}

fn not_written(entry: &LedgerEntry) -> String {
    let line = hone_ledger::line_of(entry).unwrap_or_default();
    format!("the ledger's entry was not written; this is it: {}\n  why", line.trim_end())
}

/// What was found where the entry went.
fn remarks(appended: &Appended, path: &Path) -> Vec<String> {
    let path = path.display();
    let torn = appended.behind.as_ref().map(|torn| {
        format!(
            "{path}: line {} is a piece of an entry, whose writer was killed; it stays there, and the new entry has a line of its own",
            torn.line
        )
    });
    let fault = appended.fault.as_ref().map(|fault| {
        format!(
            "{path}: line {} is not as it was written ({}); see: hone ledger verify {path}",
            fault.line,
            fault.meaning.label()
        )
    });
    torn.into_iter().chain(fault).collect()
}

/// The same once for a run, however often it is resumed, and also where it was killed between the entry and its note.
///
/// # Errors
/// As for [`enter`], and when the note can't be written.
pub(crate) fn enter_once(
    folder: &RunFolder,
    note: &str,
    path: &Path,
    entry: impl FnOnce() -> Result<LedgerEntry>,
    progress: &Progress,
) -> Result<()> {
    if folder.read_note::<bool>(note)?.is_some() {
        return Ok(());
    }
    let entry = entry()?;
    // Two steps of a run may be of one change, and rest on no window: then what they ask, or decide, is another thing.
    let same = |other: &LedgerEntry| {
        (&other.run, &other.verb, &other.change, &other.workload, &other.records)
            == (&entry.run, &entry.verb, &entry.change, &entry.workload, &entry.records)
            && (&other.question, &other.decision) == (&entry.question, &entry.decision)
    };
    let known = Ledger::at(path).check().unwrap_or_default();
    if !known.lines.iter().any(|line| same(&line.entry)) {
        enter(path, &entry, progress)?;
    }
    folder.write_note(note, &true)
}

/// The files that a comparison rests on, with their hashes: its design with the rule, and the windows that count. What was concluded of
/// them can be concluded again, and is written anew by a run that is resumed.
///
/// # Errors
/// When a window can't be read.
pub(crate) fn records(folder: &RunFolder, comparison: &Comparison) -> Result<Vec<RecordRef>> {
    let windows = comparison.counted_windows();
    // The design lies beside the windows' folder; that of variants in rounds has the variant's name.
    let place = comparison.pairs.iter().find_map(|pair| Some(pair.window_a.split_once("windows/")?.0));
    let designs =
        place.map(|place| [format!("{place}design.json"), format!("{place}design-{}.json", comparison.b)]);
    let design = designs.into_iter().flatten().find(|name| folder.join(name).is_file());
    let design = design.as_deref().map(|name| (name, RecordRole::Design));
    design
        .into_iter()
        .chain(windows)
        .map(|(name, role)| {
            Ok(RecordRef { path: name.to_owned(), sha256: hash_of(&folder.join(name))?, role })
        })
        .collect()
}

/// SHA-256 of a file, hex.
///
/// # Errors
/// When it can't be read.
pub(crate) fn hash_of(path: &Path) -> Result<String> {
    hash_by(&Caller, path)
}

/// The same, by a reader.
///
/// # Errors
/// When it can't be read, or may not be.
pub(crate) fn hash_by(reader: &dyn Reader, path: &Path) -> Result<String> {
    Ok(sha256_hex(&reader::bytes(reader, path)?))
}

/// The name of a run's folder among those that were pulled: every machine numbers its runs from one on, so the hash of its first line is in it.
pub(crate) fn pulled_name(run: &str, line_hash: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name = Path::new(run).file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    let hash: String = line_hash.chars().map(plain).take(OF_LINE).collect();
    format!("{}-{hash}", name.trim_start_matches('.'))
}

/// Where the runs behind a ledger's entries are.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    places: BTreeMap<String, Places>,
    /// As they come in the ledger.
    order: Vec<String>,
}

/// Where the runs are that entries call by one name: several machines may have the same.
#[derive(Debug, Default)]
struct Places {
    /// Where the entries say, or beside the ledger.
    own: Option<PathBuf>,
    /// Those that were pulled.
    pulled: Vec<PathBuf>,
}

impl Places {
    fn all(&self) -> impl Iterator<Item = &Path> {
        self.own.iter().chain(&self.pulled).map(PathBuf::as_path)
    }

    /// What was pulled is the runs of all hosts, so what lies where one of them had its own is one of these.
    fn each_once(&self) -> impl Iterator<Item = &Path> {
        let own = self.own.iter().filter(|_| self.pulled.is_empty());
        own.chain(&self.pulled).map(PathBuf::as_path)
    }
}

impl Runs {
    /// Looks for each run where its entries say, and, where runs were moved together with their ledger, beside it. Every machine numbers its
    /// runs from one on, and branches of several machines are merged: what lies beside the ledger under a run's name is that run only where a
    /// window of it lies there as it was. What was pulled with the ledger is known by the hash of a line.
    pub(crate) fn of<'a>(ledger: &Path, lines: impl Iterator<Item = &'a Line>, reader: &dyn Reader) -> Self {
        let home = ledger.parent().unwrap_or(Path::new("."));
        let is_there = |folder: &PathBuf| reader.may_see(folder) && folder.is_dir();
        let pulled = Some(home.join(RECORDS)).filter(is_there);
        let mut runs = Self::default();
        for line in lines.filter(|line| !line.entry.run.is_empty()) {
            let (entry, run) = (&line.entry, Path::new(&line.entry.run));
            let pulled = pulled.as_ref().map(|folder| folder.join(pulled_name(&entry.run, &line.hash)));
            let pulled = pulled.filter(is_there);
            let is_known = runs.places.get(&entry.run).is_some_and(|places| places.own.is_some());
            let moved = || Some(home.join(run.file_name()?)).filter(|folder| lies_in(folder, entry, reader));
            let own = if is_known { None } else { Some(run.to_owned()).filter(is_there).or_else(moved) };
            if own.is_some() || pulled.is_some() {
                runs.add(&entry.run, own, pulled);
            }
        }
        runs
    }

    fn add(&mut self, run: &str, own: Option<PathBuf>, pulled: Option<PathBuf>) {
        if !self.places.contains_key(run) {
            self.order.push(run.to_owned());
        }
        let places = self.places.entry(run.to_owned()).or_default();
        places.own = places.own.take().or(own);
        places.pulled.extend(pulled);
    }

    /// Those that are there, as they come in the ledger.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.order.iter().filter_map(|run| self.places.get(run)).flat_map(Places::each_once)
    }

    /// All that entries call by this name.
    pub(crate) fn folders_of(&self, run: &str) -> impl Iterator<Item = &Path> {
        self.places.get(run).into_iter().flat_map(Places::all)
    }

    /// That of an entry; `None` where it is not there any more.
    pub(crate) fn folder_of(&self, entry: &LedgerEntry) -> Option<&Path> {
        self.folders_of(&entry.run).next()
    }

    /// The file of a record; `None` where it is not there any more. Of several that have its name the one that is as it was.
    pub(crate) fn place_of(
        &self,
        entry: &LedgerEntry,
        record: &RecordRef,
        reader: &dyn Reader,
    ) -> Option<PathBuf> {
        let places = self.places.get(&entry.run)?.all().filter_map(|folder| inside(folder, &record.path));
        let mut there: Vec<PathBuf> = places.filter(|place| place.is_file()).collect();
        if there.len() > 1 {
            let is_it = |place: &PathBuf| hash_by(reader, place).is_ok_and(|hash| hash == record.sha256);
            let found = there.iter().position(is_it).unwrap_or(0);
            return Some(there.swap_remove(found));
        }
        there.pop()
    }
}

/// A path of a ledger is somebody else's text: it may not lead out of the run.
pub(crate) fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| folder.join(path))
}

/// Whether a folder has a window of an entry. A design says nothing: runs that ask the same have the same.
fn lies_in(folder: &Path, entry: &LedgerEntry, reader: &dyn Reader) -> bool {
    let windows = entry.records.iter().filter(|record| record.role != RecordRole::Design);
    let is_it = |place: &Path, record: &RecordRef| {
        place.is_file() && hash_by(reader, place).is_ok_and(|hash| hash == record.sha256)
    };
    reader.may_see(folder)
        && folder.is_dir()
        && windows
            .filter_map(|record| Some((inside(folder, &record.path)?, record)))
            .any(|(place, record)| is_it(&place, record))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(question: &str, decision: &str) -> LedgerEntry {
        LedgerEntry {
            run: "/runs/a-001".to_owned(),
            change: "client: linger=5ms".to_owned(),
            question: question.to_owned(),
            decision: decision.to_owned(),
            ..LedgerEntry::default()
        }
    }

    /// Of one change, without a window: a step, a later step, and what became of it.
    #[test]
    fn entries_that_rest_on_nothing_are_told_apart() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "a").unwrap();
        let path = parent.path().join(NAME);
        let all = [("step 1?", "rejected"), ("step 2?", "rejected"), ("step 2?", "put back")];
        // Each is entered, its note is lost, as a kill between the two leaves it, and it is entered once more.
        for (number, (question, decision)) in all.iter().enumerate() {
            for _ in 0..2 {
                let note = format!("{number}.json");
                let entered = || Ok(entry(question, decision));
                enter_once(&folder, &note, &path, entered, &Progress::new(true)).unwrap();
                folder.remove(&note).unwrap();
            }
        }
        assert_eq!(Ledger::at(&path).check().unwrap().lines.len(), 3);
    }

    /// A colleague's run has the name of one of ours.
    #[test]
    fn a_run_of_the_same_name_beside_the_ledger_is_not_taken_for_another_ones() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("a-001");
        fs::create_dir(&run).unwrap();
        for (name, text) in [("design.json", "one"), ("a.json", "two"), ("b.json", "three")] {
            fs::write(run.join(name), text).unwrap();
        }
        let record = |path: &str, text: &str, role| RecordRef {
            path: path.to_owned(),
            sha256: sha256_hex(text.as_bytes()),
            role,
        };
        let elsewhere = |records: Vec<RecordRef>| {
            let entry = LedgerEntry { run: "/not/here/a-001".to_owned(), records, ..entry("", "") };
            let (number, hash) = (1, String::new());
            let line = Line { number, hash, parents: Vec::new(), is_chained: false, entry };
            let runs = Runs::of(&home.path().join(NAME), std::iter::once(&line), &Caller);
            let is_found = |record| runs.place_of(&line.entry, record, &Caller).is_some();
            line.entry.records.iter().map(is_found).collect::<Vec<_>>()
        };
        let design = || record("design.json", "one", RecordRole::Design);
        // They asked the same, and measured something else.
        let theirs = vec![design(), record("a.json", "other", RecordRole::Before)];
        assert_eq!(elsewhere(theirs), [false, false]);
        // Moved with its ledger; of its windows one was changed since, which is still seen.
        let moved = vec![
            design(),
            record("a.json", "two", RecordRole::Before),
            record("b.json", "was another", RecordRole::After),
        ];
        assert_eq!(elsewhere(moved), [true, true, true]);
        assert_eq!(elsewhere(vec![record("../a-001/a.json", "two", RecordRole::Before)]), [false]);
    }
}
