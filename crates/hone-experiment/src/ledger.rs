//! What all ledger entries have in common, and the error when one can't be written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use hone_binary::sha256_hex;
use hone_ledger::{Appended, Ledger, LedgerError, Line};
use hone_record::{Comparison, LedgerEntry, RecordRef, RecordRole};
use serde::{Deserialize, Serialize};

use crate::folder::RunFolder;
use crate::moment::now_unix_ms;
use crate::progress::Progress;
use crate::reader::{self, Caller, Reader};

/// The ledger's name, in the folder of the runs.
pub const NAME: &str = "ledger.jsonl";

/// The decider in new entries, instead of the user's and the machine's name.
const WHO: &str = "HONE_WHO";

/// Digits of a program's hash, enough to tell builds apart.
const SHORT: usize = 12;

/// The folder next to a ledger for the records that were pulled from other hosts, with one folder per run.
pub const RECORDS: &str = "records";
/// Digits of a line's hash in the name of a pulled run's folder.
const OF_LINE: usize = 16;
/// Length limit of a run's own name there.
const LONGEST_NAME: usize = 100;

/// The fields of an entry that do not depend on the decision.
pub fn entry(verb: &str) -> LedgerEntry {
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

/// From the system's list of users: services and containers have no USER in their environment.
fn own_name() -> String {
    // SAFETY: takes no argument and can't fail.
    let uid = unsafe { libc::getuid() }.to_string();
    let known = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let is_own = |line: &&str| line.split(':').nth(2) == Some(&*uid);
    let name = known.lines().find(is_own).and_then(|line| line.split(':').next());
    name.map_or_else(|| format!("uid {uid}"), str::to_owned)
}

/// The version, and the start of the SHA-256 of the running program: two builds may have the same version.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let version = env!("CARGO_PKG_VERSION");
        // The running file, even if another file has its name by now.
        let program = fs::read("/proc/self/exe").map(|bytes| sha256_hex(&bytes));
        let short = program.ok().and_then(|hash| hash.get(..SHORT).map(str::to_owned));
        short.map_or_else(|| version.to_owned(), |short| format!("{version} ({short})"))
    })
}

/// Appends an entry to a ledger.
///
/// # Errors
/// When it can't be written. The error contains the entry, so that it is not lost.
pub fn enter(path: &Path, entry: &LedgerEntry, progress: &Progress) -> Result<()> {
    let appended = append(path, entry).with_context(|| not_written(entry))?;
    for line in remarks(&appended, path) {
        progress.line(&line);
    }
    Ok(())
}

fn append(path: &Path, entry: &LedgerEntry) -> Result<Appended, LedgerError> {
    if let Some(folder) = path.parent() {
        // If the folder can't be created, opening the file gives the reason.
        let _ = fs::create_dir_all(folder);
    }
    Ledger::at(path).append(entry)
}

fn not_written(entry: &LedgerEntry) -> String {
    let line = hone_ledger::line_of(entry).unwrap_or_default();
    format!("the ledger entry was not written; this is the entry: {}\n  reason", line.trim_end())
}

/// Problems in the existing lines of the ledger.
fn remarks(appended: &Appended, path: &Path) -> Vec<String> {
    let path = path.display();
    let torn = appended.behind.as_ref().map(|torn| {
        format!(
            "{path}: line {} is a partial entry, whose writer was killed; it stays, and the new entry is on \
             the next line",
            torn.line
        )
    });
    let fault = appended.fault.as_ref().map(|fault| {
        format!(
            "{path}: line {} was changed after it was written ({}); check it with: hone ledger verify {path}",
            fault.line,
            fault.meaning.label()
        )
    });
    torn.into_iter().chain(fault).collect()
}

/// Enters a run in its ledger once. A run that is resumed, or that was killed between the entry and its note, gets no second
/// entry. `entry` gets the run's folder as text, and Hone adds the windows of `comparison`.
///
/// # Errors
/// As for [`enter`], and when a window or the note can't be read or written.
pub fn enter_once(
    folder: &RunFolder,
    note: &str,
    comparison: Option<&Comparison>,
    entry: impl FnOnce(&str) -> LedgerEntry,
    progress: &Progress,
) -> Result<()> {
    let path = &folder.home().join(NAME);
    let begun = match folder.read_note::<Entered>(note)? {
        Some(Entered::Whole(_)) => return Ok(()),
        Some(Entered::Begun { at_unix_ms }) => Some(at_unix_ms),
        None => None,
    };
    let mut entry = entry(&folder.path().display().to_string());
    if let Some(comparison) = comparison {
        entry.records = records(folder, comparison)?;
    }
    let same = |other: &LedgerEntry| {
        (&other.run, &other.verb, &other.change, &other.workload, &other.records)
            == (&entry.run, &entry.verb, &entry.change, &entry.workload, &entry.records)
            && (&other.question, &other.decision) == (&entry.question, &entry.decision)
    };
    // No other entry is based on the same windows. Entries without windows may repeat: a later round of the
    // run can have the same question and decision, and so can an earlier run whose folder had this path. Only
    // the time identifies the entry of an earlier attempt.
    let rests_on_windows = windows_of(&entry).next().is_some();
    let is_it = |other: &LedgerEntry| same(other) && (rests_on_windows || begun == Some(other.at_unix_ms));
    let known = Ledger::at(path).check().unwrap_or_default();
    if !known.lines.iter().any(|line| is_it(&line.entry)) {
        folder.write_note(note, &Entered::Begun { at_unix_ms: entry.at_unix_ms })?;
        enter(path, &entry, progress)?;
    }
    folder.write_note(note, &Entered::Whole(true))
}

/// The state of an entry in a run's note.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Entered {
    /// It is in the ledger.
    Whole(bool),
    /// It was about to be written, with this time.
    Begun { at_unix_ms: u64 },
}

/// The files on which a comparison is based, with their hashes: its design with the rule, and the valid windows. Conclusions are
/// not included, since a resumed run computes and writes them again.
///
/// # Errors
/// When a window can't be read.
pub fn records(folder: &RunFolder, comparison: &Comparison) -> Result<Vec<RecordRef>> {
    let windows = comparison.counted_windows();
    // The design is next to the windows' folder. With variants in rounds it has the variant's name. A load's
    // name may end like that folder's.
    let place = comparison.pairs.iter().find_map(|pair| Some(pair.window_a.rsplit_once("windows/")?.0));
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
pub fn hash_of(path: &Path) -> Result<String> {
    hash_by(&Caller, path)
}

/// The same with a reader.
///
/// # Errors
/// When it can't be read, or the reader does not allow it.
pub fn hash_by(reader: &dyn Reader, path: &Path) -> Result<String> {
    Ok(sha256_hex(&reader::bytes(reader, path)?))
}

/// The folder name of a pulled run. It contains the hash of the run's first line, because every machine numbers its runs from
/// one.
pub fn pulled_name(run: &str, line_hash: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name = Path::new(run).file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    let hash: String = line_hash.chars().map(plain).take(OF_LINE).collect();
    format!("{}-{hash}", name.trim_start_matches('.'))
}

/// A run, as the entries of a ledger describe it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its original folder.
    pub run: String,
    /// Hash of its first line, which identifies it.
    pub line: String,
    /// SHA-256 of its files, by their paths in the folder.
    pub files: BTreeMap<String, String>,
    /// The files that are windows.
    windows: BTreeSet<String>,
}

impl Ran {
    fn new(line: &Line) -> Self {
        Self { run: line.entry.run.clone(), line: line.hash.clone(), ..Self::default() }
    }

    /// Whether an entry may belong to it: no file that both name has two hashes.
    fn fits(&self, entry: &LedgerEntry) -> bool {
        entry.records.iter().all(|one| self.files.get(&one.path).is_none_or(|known| *known == one.sha256))
    }

    fn take(&mut self, entry: &LedgerEntry) {
        self.files.extend(entry.records.iter().map(|record| (record.path.clone(), record.sha256.clone())));
        self.windows.extend(windows_of(entry).map(|(path, _)| path.to_owned()));
    }

    /// Whether a folder has one of its windows.
    pub fn lies_in(&self, folder: &Path, reader: &dyn Reader) -> bool {
        let windows =
            self.windows.iter().filter_map(|path| Some((path.as_str(), self.files.get(path)?.as_str())));
        has_one(folder, windows, reader)
    }
}

/// The runs of a ledger. Runs of two machines may have the same name; they are two runs if their files differ.
pub fn runs_of<'a>(lines: impl Iterator<Item = &'a Line>) -> Vec<Ran> {
    let mut found: Vec<Ran> = Vec::new();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for line in lines.filter(|line| !line.entry.run.is_empty()) {
        let same_name = by_name.entry(&line.entry.run).or_default();
        let fits = |at: &usize| found[*at].fits(&line.entry);
        let at = same_name.iter().copied().find(fits).unwrap_or(found.len());
        if at == found.len() {
            same_name.push(at);
            found.push(Ran::new(line));
        }
        found[at].take(&line.entry);
    }
    found
}

/// Locations of the runs behind a ledger's entries.
#[derive(Debug, Default)]
pub struct Runs {
    places: BTreeMap<String, Places>,
    /// In the ledger's order.
    order: Vec<String>,
}

/// Locations of the runs that entries call by one name. Several machines may use the same name.
#[derive(Debug, Default)]
struct Places {
    /// At the entries' path, or next to the ledger.
    own: Option<PathBuf>,
    /// Pulled runs.
    pulled: Vec<PathBuf>,
    /// Number of runs with the name.
    runs: usize,
    /// Whether the run in `own` is identified by its windows as a run of the ledger, and was not pulled.
    own_is_another: bool,
}

impl Places {
    fn all(&self) -> impl Iterator<Item = &Path> {
        self.own.iter().chain(&self.pulled).map(PathBuf::as_path)
    }

    /// The name alone identifies a run if only one run has it.
    fn is_shared(&self) -> bool {
        self.runs > 1
    }

    /// A run that is here and was also pulled appears once. A run whose name is not unique only appears if it belongs to the
    /// ledger.
    fn each_once(&self) -> impl Iterator<Item = &Path> {
        let by_name = self.pulled.is_empty() && !self.is_shared();
        let own = self.own.iter().filter(move |_| by_name || self.own_is_another);
        own.chain(&self.pulled).map(PathBuf::as_path)
    }
}

impl Runs {
    /// Looks for each run at its entries' path, and next to the ledger, where runs may have been moved with it. Every machine
    /// numbers its runs from one, and ledgers of several machines are merged. So a folder next to the ledger is only that run if
    /// it has an unchanged window of it. A pulled run is identified by the hash of a line.
    pub fn of<'a>(ledger: &Path, lines: impl Iterator<Item = &'a Line>, reader: &dyn Reader) -> Self {
        let home = ledger.parent().unwrap_or(Path::new("."));
        let is_there = |folder: &PathBuf| reader.may_see(folder) && folder.is_dir();
        let pulled = Some(home.join(RECORDS)).filter(is_there);
        let lines: Vec<&Line> = lines.filter(|line| !line.entry.run.is_empty()).collect();
        let mut runs = Self::default();
        for line in &lines {
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
        runs.tell_apart(&runs_of(lines.into_iter()), reader);
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

    /// Counts the runs of each name, and finds out which one is here.
    fn tell_apart(&mut self, all: &[Ran], reader: &dyn Reader) {
        for ran in all {
            if let Some(places) = self.places.get_mut(&ran.run) {
                places.runs += 1;
            }
        }
        for ran in all {
            let Some(places) = self.places.get_mut(&ran.run) else { continue };
            if !places.is_shared() && places.pulled.is_empty() {
                continue;
            }
            let name = pulled_name(&ran.run, &ran.line);
            let was_pulled = places.pulled.iter().any(|folder| folder.ends_with(&name));
            places.own_is_another |=
                !was_pulled && places.own.as_ref().is_some_and(|own| ran.lies_in(own, reader));
        }
    }

    /// The runs that are here, in the ledger's order.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.order.iter().filter_map(|run| self.places.get(run)).flat_map(Places::each_once)
    }

    /// All runs with this name in the entries.
    pub fn folders_of(&self, run: &str) -> impl Iterator<Item = &Path> {
        self.places.get(run).into_iter().flat_map(Places::all)
    }

    /// Whether several runs have this name.
    pub fn is_shared(&self, run: &str) -> bool {
        self.places.get(run).is_some_and(Places::is_shared)
    }

    /// The folders that may have the files of an entry. If several runs have its name, those with one of its windows.
    pub fn folders_for(&self, entry: &LedgerEntry, reader: &dyn Reader) -> Vec<&Path> {
        let is_shared = self.is_shared(&entry.run);
        let is_its = |folder: &&Path| !is_shared || lies_in(folder, entry, reader);
        self.folders_of(&entry.run).filter(is_its).collect()
    }
}

/// The file of a record in the folders of its entry; `None` if it is gone. Of several files with its name, the unchanged one.
pub fn place_in(folders: &[&Path], record: &RecordRef, reader: &dyn Reader) -> Option<PathBuf> {
    let places = folders.iter().filter_map(|folder| inside(folder, &record.path));
    let mut there: Vec<PathBuf> = places.filter(|place| place.is_file()).collect();
    if there.len() > 1 {
        let is_it = |place: &PathBuf| hash_by(reader, place).is_ok_and(|hash| hash == record.sha256);
        let found = there.iter().position(is_it).unwrap_or(0);
        return Some(there.swap_remove(found));
    }
    there.pop()
}

/// A path in a ledger comes from another person, so it must not lead out of the run.
pub fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| folder.join(path))
}

/// The windows of an entry, each with its hash. A design does not identify a run: runs with the same settings have the same
/// design.
pub fn windows_of(entry: &LedgerEntry) -> impl Iterator<Item = (&str, &str)> {
    let windows = entry.records.iter().filter(|record| record.role != RecordRole::Design);
    windows.map(|record| (record.path.as_str(), record.sha256.as_str()))
}

/// Whether a folder has a window of an entry.
pub fn lies_in(folder: &Path, entry: &LedgerEntry, reader: &dyn Reader) -> bool {
    has_one(folder, windows_of(entry), reader)
}

/// Whether a folder has one of these windows unchanged.
fn has_one<'a>(
    folder: &Path,
    mut windows: impl Iterator<Item = (&'a str, &'a str)>,
    reader: &dyn Reader,
) -> bool {
    let is_it = |(path, sha256): (&str, &str)| {
        let place = inside(folder, path).filter(|place| place.is_file());
        place.is_some_and(|place| hash_by(reader, &place).is_ok_and(|hash| hash == sha256))
    };
    reader.may_see(folder) && folder.is_dir() && windows.any(is_it)
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

    /// Enters for a note, and leaves the note as a kill right after the entry does.
    fn entered_and_killed(folder: &RunFolder, note: &str, path: &Path, entry: &LedgerEntry) {
        enter_once(folder, note, None, |_| entry.clone(), &Progress::new(true)).unwrap();
        let at_unix_ms = Ledger::at(path).check().unwrap().lines.last().unwrap().entry.at_unix_ms;
        folder.write_note(note, &Entered::Begun { at_unix_ms }).unwrap();
    }

    fn count(path: &Path) -> usize {
        Ledger::at(path).check().unwrap().lines.len()
    }

    /// Entries of one change without a window: a step, a later step, its outcome, and the same again in a later round.
    #[test]
    fn entries_that_rest_on_nothing_are_told_apart() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "a").unwrap();
        let path = parent.path().join(NAME);
        let all = [
            ("step 1?", "rejected"),
            ("step 2?", "rejected"),
            ("step 2?", "put back"),
            ("step 2?", "put back"),
        ];
        let mut at_unix_ms = 0;
        for (number, (question, decision)) in all.iter().enumerate() {
            // Each attempt has another time.
            for _ in 0..3 {
                at_unix_ms += 1;
                let entry = LedgerEntry { at_unix_ms, ..entry(question, decision) };
                entered_and_killed(&folder, &format!("{number}.json"), &path, &entry);
                assert_eq!(count(&path), number + 1, "once, and not that of another note");
            }
        }
        // Killed after the note and before the entry.
        folder.write_note("4.json", &Entered::Begun { at_unix_ms: 70 }).unwrap();
        let last = LedgerEntry { at_unix_ms: 71, ..entry("step 2?", "put back") };
        enter_once(&folder, "4.json", None, |_| last, &Progress::new(true)).unwrap();
        assert_eq!(count(&path), 5);
        enter_once(&folder, "4.json", None, |_| panic!("it is there"), &Progress::new(true)).unwrap();
    }

    /// A ledger under version control outlives the folders of its runs, and new runs start again with the first number.
    #[test]
    fn an_entry_of_an_earlier_run_in_a_folder_of_the_same_path_is_another_one() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(NAME);
        let record = |path: &str, role| RecordRef { path: path.to_owned(), sha256: "0".repeat(64), role };
        let (design, window) =
            (record("design.json", RecordRole::Design), record("w.json", RecordRole::After));
        // If all pairs were excluded, an entry is based on the design alone, and equal settings have equal
        // designs.
        for (records, expected) in [
            (Vec::new(), 2),
            (vec![design.clone()], 2),
            // The same windows belong to the same run. This also holds if an older Hone without such notes
            // was killed after the entry.
            (vec![design, window], 1),
        ] {
            let before = count(&path);
            for _ in 0..2 {
                let folder = RunFolder::create(parent.path(), "a").unwrap();
                assert!(folder.path().ends_with("a-001"));
                let entry =
                    |_: &str| LedgerEntry { records: records.clone(), ..entry("step 1?", "rejected") };
                enter_once(&folder, "a.json", None, entry, &Progress::new(true)).unwrap();
                fs::remove_dir_all(folder.path()).unwrap();
            }
            assert_eq!(count(&path) - before, expected, "{records:?}");
        }
    }

    /// A load's name is part of the path.
    #[test]
    fn a_design_is_found_whatever_its_load_is_called() {
        let parent = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(parent.path(), "a").unwrap();
        let mut comparison = crate::fixture::proof().steps.remove(0).comparison.unwrap();
        let place = "judge/big-windows/";
        folder.write_text(&format!("{place}design.json"), "{}").unwrap();
        comparison.pairs = vec![hone_record::PairOutcome {
            index: 0,
            kind: hone_record::PairKind::Test,
            window_a: format!("{place}windows/000-a.json"),
            window_b: format!("{place}windows/000-b.json"),
            dropped: Some("neighbours".to_owned()),
            took_s: 1.0,
            ..hone_record::PairOutcome::default()
        }];
        let found = records(&folder, &comparison).unwrap();
        let found: Vec<_> = found.iter().map(|record| (&*record.path, record.role)).collect();
        assert_eq!(found, [("judge/big-windows/design.json", RecordRole::Design)]);
    }

    /// A colleague's run has the same name as one of ours.
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
            let folders = runs.folders_for(&line.entry, &Caller);
            let is_found = |record| place_in(&folders, record, &Caller).is_some();
            line.entry.records.iter().map(is_found).collect::<Vec<_>>()
        };
        let design = || record("design.json", "one", RecordRole::Design);
        // They have the same settings, but other measurements.
        let theirs = vec![design(), record("a.json", "other", RecordRole::Before)];
        assert_eq!(elsewhere(theirs), [false, false]);
        // Moved with its ledger. One of its windows was changed later, which is still detected.
        let moved = vec![
            design(),
            record("a.json", "two", RecordRole::Before),
            record("b.json", "was another", RecordRole::After),
        ];
        assert_eq!(elsewhere(moved), [true, true, true]);
        assert_eq!(elsewhere(vec![record("../a-001/a.json", "two", RecordRole::Before)]), [false]);
    }

    fn line(number: usize, run: &str, files: &[(&str, char)]) -> Line {
        let record = |(path, of): &(&str, char)| RecordRef {
            path: (*path).to_owned(),
            sha256: of.to_string().repeat(64),
            role: RecordRole::After,
        };
        let entry = LedgerEntry {
            run: run.to_owned(),
            records: files.iter().map(record).collect(),
            ..LedgerEntry::default()
        };
        let hash = sha256_hex(number.to_string().as_bytes());
        Line { number, hash, parents: Vec::new(), is_chained: true, entry }
    }

    #[test]
    fn runs_of_one_name_are_told_apart_by_what_their_files_hold() {
        let lines = [
            line(1, "/r/a-001", &[("w/0.json", '0')]),
            line(2, "/r/b-001", &[]),
            line(3, "/r/a-001", &[("w/0.json", '0'), ("w/1.json", '1')]),
            line(4, "/r/a-001", &[("w/0.json", '7')]),
            line(5, "", &[]),
            line(6, "/r/a-001", &[("w/0.json", '7'), ("w/1.json", '8')]),
        ];
        let found = runs_of(lines.iter());
        let of = |at: usize| (found[at].line.clone(), found[at].files.len());
        assert_eq!(found.len(), 3);
        let hashes: Vec<String> = lines.iter().map(|line| line.hash.clone()).collect();
        assert_eq!(
            [of(0), of(1), of(2)],
            [(hashes[0].clone(), 2), (hashes[1].clone(), 0), (hashes[3].clone(), 2)]
        );
    }

    /// Two machines have a run at the same path, with the same settings.
    struct TwoMachines {
        home: tempfile::TempDir,
        run: PathBuf,
        /// This machine's line, and the other one's.
        lines: [Line; 2],
    }

    impl TwoMachines {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let run = home.path().join("a-001");
            fs::create_dir(&run).unwrap();
            for (name, text) in [("design.json", "as asked"), ("w.json", "ours")] {
                fs::write(run.join(name), text).unwrap();
            }
            let of = |number: usize, window: &str| {
                let record = |path: &str, text: &str, role| RecordRef {
                    path: path.to_owned(),
                    sha256: sha256_hex(text.as_bytes()),
                    role,
                };
                let records = vec![
                    record("design.json", "as asked", RecordRole::Design),
                    record("w.json", window, RecordRole::After),
                ];
                let entry = LedgerEntry { run: run.display().to_string(), records, ..entry("", "") };
                Line { entry, ..line(number, "", &[]) }
            };
            let lines = [of(1, "ours"), of(2, "theirs")];
            Self { home, run, lines }
        }

        fn runs(&self, lines: &[Line]) -> Runs {
            Runs::of(&self.home.path().join(NAME), lines.iter(), &Caller)
        }

        /// The records of a line that are found.
        fn found(&self, lines: &[Line], at: usize) -> Vec<bool> {
            let (runs, entry) = (self.runs(lines), &lines[at].entry);
            let folders = runs.folders_for(entry, &Caller);
            entry.records.iter().map(|record| place_in(&folders, record, &Caller).is_some()).collect()
        }

        /// Pulls the run of a line.
        fn pull(&self, line: &Line, window: &str) -> PathBuf {
            let folder = self.home.path().join(RECORDS).join(pulled_name(&line.entry.run, &line.hash));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("w.json"), window).unwrap();
            folder
        }
    }

    #[test]
    fn what_lies_here_is_taken_for_the_run_whose_window_it_has() {
        let machines = TwoMachines::new();
        let lines = &machines.lines;
        assert_eq!(machines.found(lines, 0), [true, true]);
        assert_eq!(machines.found(lines, 1), [false, false], "not even the design, which is the same");
        let [ours, theirs] = [0, 1].map(|at: usize| runs_of(lines.iter()).swap_remove(at));
        assert!(ours.lies_in(&machines.run, &Caller) && !theirs.lies_in(&machines.run, &Caller));
        // Alone, it is identified by its name, and a changed window is still detected.
        assert_eq!(machines.found(&lines[1..], 0), [true, true]);
    }

    #[test]
    fn a_run_that_lies_here_is_told_beside_those_that_were_pulled_and_once() {
        let machines = TwoMachines::new();
        let [ours, theirs] = &machines.lines;
        let told =
            || -> Vec<PathBuf> { machines.runs(&machines.lines).folders().map(Path::to_owned).collect() };
        assert_eq!(told(), std::slice::from_ref(&machines.run));
        let pulled = machines.pull(theirs, "theirs");
        assert_eq!(told(), [machines.run.clone(), pulled.clone()]);
        let own = machines.pull(ours, "ours");
        assert_eq!(told(), [own.clone(), pulled.clone()], "the same twice");
        // The folder here is a third run, which is not in the ledger.
        fs::remove_dir_all(&own).unwrap();
        fs::write(machines.run.join("w.json"), "a third").unwrap();
        assert_eq!(told(), [pulled]);
    }
}
