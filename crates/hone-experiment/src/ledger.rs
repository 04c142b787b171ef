//! What all entries of the ledger have in common, whoever decides, and what is said when one can't be written.

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

/// Who is said to have decided, where it shall not be the user's and the machine's name.
const WHO: &str = "HONE_WHO";

/// Digits of a program's hash that tell builds apart.
const SHORT: usize = 12;

/// The folder beside a ledger with the records that were pulled with those of other hosts, a folder for each run.
pub const RECORDS: &str = "records";
/// Digits of a line's hash in the name of a pulled run's folder.
const OF_LINE: usize = 16;
/// Of a run's own name there.
const LONGEST_NAME: usize = 100;

/// An entry of a command, with what does not depend on what was decided.
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
pub fn enter(path: &Path, entry: &LedgerEntry, progress: &Progress) -> Result<()> {
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

/// Enters a run in its ledger once. A run that is resumed, or that was killed between the entry and its note, gets no second entry. `entry` gets
/// the run's folder as text, and Hone adds the windows of `comparison`.
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
    // No other entry rests on the same windows. Of those that rest on none, a later round of the run may ask and decide the same, and so may an
    // earlier run whose folder had this path and is gone: only the time tells which one an earlier attempt was about to write.
    let rests_on_windows = windows_of(&entry).next().is_some();
    let is_it = |other: &LedgerEntry| same(other) && (rests_on_windows || begun == Some(other.at_unix_ms));
    let known = Ledger::at(path).check().unwrap_or_default();
    if !known.lines.iter().any(|line| is_it(&line.entry)) {
        folder.write_note(note, &Entered::Begun { at_unix_ms: entry.at_unix_ms })?;
        enter(path, &entry, progress)?;
    }
    folder.write_note(note, &Entered::Whole(true))
}

/// What a run's note says of an entry.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Entered {
    /// It is in the ledger.
    Whole(bool),
    /// It was about to be written there, with this time in it.
    Begun { at_unix_ms: u64 },
}

/// The files that a comparison rests on, with their hashes: its design with the rule, and the windows that count. What was concluded of
/// them can be concluded again, and is written anew by a run that is resumed.
///
/// # Errors
/// When a window can't be read.
pub fn records(folder: &RunFolder, comparison: &Comparison) -> Result<Vec<RecordRef>> {
    let windows = comparison.counted_windows();
    // The design lies beside the windows' folder; that of variants in rounds has the variant's name. A load's name may end like that folder's.
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

/// The same, by a reader.
///
/// # Errors
/// When it can't be read, or may not be.
pub fn hash_by(reader: &dyn Reader, path: &Path) -> Result<String> {
    Ok(sha256_hex(&reader::bytes(reader, path)?))
}

/// The name of a run's folder among those that were pulled: every machine numbers its runs from one on, so the hash of its first line is in it.
pub fn pulled_name(run: &str, line_hash: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let name = Path::new(run).file_name().unwrap_or_default().to_string_lossy();
    let name: String = name.chars().map(plain).take(LONGEST_NAME).collect();
    let hash: String = line_hash.chars().map(plain).take(OF_LINE).collect();
    format!("{}-{hash}", name.trim_start_matches('.'))
}

/// A run as the entries of a ledger have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ran {
    /// Its folder, where it was made.
    pub run: String,
    /// Hash of its first line, by which it is known.
    pub line: String,
    /// SHA-256 of its files, by their paths in the folder.
    pub files: BTreeMap<String, String>,
    /// Those of them that are windows.
    windows: BTreeSet<String>,
}

impl Ran {
    fn new(line: &Line) -> Self {
        Self { run: line.entry.run.clone(), line: line.hash.clone(), ..Self::default() }
    }

    /// Whether an entry may be of it: none of the files that both name is another one.
    fn fits(&self, entry: &LedgerEntry) -> bool {
        entry.records.iter().all(|one| self.files.get(&one.path).is_none_or(|known| *known == one.sha256))
    }

    fn take(&mut self, entry: &LedgerEntry) {
        self.files.extend(entry.records.iter().map(|record| (record.path.clone(), record.sha256.clone())));
        self.windows.extend(windows_of(entry).map(|(path, _)| path.to_owned()));
    }

    /// Whether a folder has a window of it.
    pub fn lies_in(&self, folder: &Path, reader: &dyn Reader) -> bool {
        let windows =
            self.windows.iter().filter_map(|path| Some((path.as_str(), self.files.get(path)?.as_str())));
        has_one(folder, windows, reader)
    }
}

/// The runs of a ledger. Two machines may have a run of one name; where their files differ, they are two.
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

/// Where the runs behind a ledger's entries are.
#[derive(Debug, Default)]
pub struct Runs {
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
    /// So many runs have the name.
    runs: usize,
    /// What lies in `own` is a run of the ledger by its windows, and was not pulled.
    own_is_another: bool,
}

impl Places {
    fn all(&self) -> impl Iterator<Item = &Path> {
        self.own.iter().chain(&self.pulled).map(PathBuf::as_path)
    }

    /// A name alone says enough where only one run has it.
    fn is_shared(&self) -> bool {
        self.runs > 1
    }

    /// A run that lies here and was pulled as well is told once; what lies here under a name that others have, too, only if it is one of the
    /// ledger's.
    fn each_once(&self) -> impl Iterator<Item = &Path> {
        let by_name = self.pulled.is_empty() && !self.is_shared();
        let own = self.own.iter().filter(move |_| by_name || self.own_is_another);
        own.chain(&self.pulled).map(PathBuf::as_path)
    }
}

impl Runs {
    /// Looks for each run where its entries say, and, where runs were moved together with their ledger, beside it. Every machine numbers its
    /// runs from one on, and branches of several machines are merged: what lies beside the ledger under a run's name is that run only where a
    /// window of it lies there as it was. What was pulled with the ledger is known by the hash of a line.
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

    /// Counts the runs of each name, and finds out which of them lies here.
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

    /// Those that are there, as they come in the ledger.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.order.iter().filter_map(|run| self.places.get(run)).flat_map(Places::each_once)
    }

    /// All that entries call by this name.
    pub fn folders_of(&self, run: &str) -> impl Iterator<Item = &Path> {
        self.places.get(run).into_iter().flat_map(Places::all)
    }

    /// Whether several runs have this name.
    pub fn is_shared(&self, run: &str) -> bool {
        self.places.get(run).is_some_and(Places::is_shared)
    }

    /// The folders in which the files of an entry may lie. Where several runs have its name, those that have a window of it.
    pub fn folders_for(&self, entry: &LedgerEntry, reader: &dyn Reader) -> Vec<&Path> {
        let is_shared = self.is_shared(&entry.run);
        let is_its = |folder: &&Path| !is_shared || lies_in(folder, entry, reader);
        self.folders_of(&entry.run).filter(is_its).collect()
    }
}

/// The file of a record in the folders of its entry; `None` where it is not there any more. Of several that have its name the one that is as it
/// was.
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

/// A path of a ledger is somebody else's text: it may not lead out of the run.
pub fn inside(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = Path::new(name);
    let is_inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    is_inside.then(|| folder.join(path))
}

/// The windows of an entry, each with its hash. A design says nothing of a run: those that ask the same have the same.
pub fn windows_of(entry: &LedgerEntry) -> impl Iterator<Item = (&str, &str)> {
    let windows = entry.records.iter().filter(|record| record.role != RecordRole::Design);
    windows.map(|record| (record.path.as_str(), record.sha256.as_str()))
}

/// Whether a folder has a window of an entry.
pub fn lies_in(folder: &Path, entry: &LedgerEntry, reader: &dyn Reader) -> bool {
    has_one(folder, windows_of(entry), reader)
}

/// Whether one of these windows lies in a folder as it was.
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

    /// Enters for a note, and leaves that as a kill right behind the entry does.
    fn entered_and_killed(folder: &RunFolder, note: &str, path: &Path, entry: &LedgerEntry) {
        enter_once(folder, note, None, |_| entry.clone(), &Progress::new(true)).unwrap();
        let at_unix_ms = Ledger::at(path).check().unwrap().lines.last().unwrap().entry.at_unix_ms;
        folder.write_note(note, &Entered::Begun { at_unix_ms }).unwrap();
    }

    fn count(path: &Path) -> usize {
        Ledger::at(path).check().unwrap().lines.len()
    }

    /// Of one change, without a window: a step, a later step, what became of it, and the same once more in a later round.
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
        // Killed behind the note and before the entry.
        folder.write_note("4.json", &Entered::Begun { at_unix_ms: 70 }).unwrap();
        let last = LedgerEntry { at_unix_ms: 71, ..entry("step 2?", "put back") };
        enter_once(&folder, "4.json", None, |_| last, &Progress::new(true)).unwrap();
        assert_eq!(count(&path), 5);
        enter_once(&folder, "4.json", None, |_| panic!("it is there"), &Progress::new(true)).unwrap();
    }

    /// A ledger under version control outlives the folders of its runs, which begin at the first number again.
    #[test]
    fn an_entry_of_an_earlier_run_in_a_folder_of_the_same_path_is_another_one() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join(NAME);
        let record = |path: &str, role| RecordRef { path: path.to_owned(), sha256: "0".repeat(64), role };
        let (design, window) =
            (record("design.json", RecordRole::Design), record("w.json", RecordRole::After));
        // Where all pairs were dropped an entry rests on the design alone, which is that of everybody who asks the same.
        for (records, expected) in [
            (Vec::new(), 2),
            (vec![design.clone()], 2),
            // The same windows are of the same run, also where a Hone from before there were such notes was killed behind the entry.
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
            let folders = runs.folders_for(&line.entry, &Caller);
            let is_found = |record| place_in(&folders, record, &Caller).is_some();
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

    /// Two machines have a run at one path, and ask the same there.
    struct TwoMachines {
        home: tempfile::TempDir,
        run: PathBuf,
        /// This machine's line, and that of the other one.
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

        /// Which records of a line are found.
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
        // Alone, it is the run by its name, and a window that was changed is still seen.
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
        // What lies here is a third run, of which the ledger knows nothing.
        fs::remove_dir_all(&own).unwrap();
        fs::write(machines.run.join("w.json"), "a third").unwrap();
        assert_eq!(told(), [pulled]);
    }
}
