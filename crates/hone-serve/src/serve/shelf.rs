//! Index of the served folders. A separate thread scans them, so that a page does not wait for files that it does not show. Files
//! have ids. So an address can only name a file that the scan found, and never a path.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, Metadata};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_binary::sha256_hex;
use hone_host::locks::Locks;
use hone_record::{BROKEN, RunState, ShelfLedger, ShelfRecord, ShelfRun};
use hone_tool::interrupt;

use super::run_list::summaries;
use super::shown::{MOST_BYTES, Shown, open};
use super::sketch::sketch;
use hone_experiment::command_line;
use hone_experiment::ending::Usage;
use hone_experiment::folder::RESULTS;
use hone_experiment::ledger;

/// Maximum files of a scan, in all folders.
const MOST_FILES: usize = 200_000;
/// Maximum depth of folders.
const DEEPEST: usize = 10;
/// Minimum time between two scans.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause between two scans is this many times the duration of the last one, so that an open page disturbs a measurement
/// little.
const REST: u32 = 20;
/// Time that a page waits for recent changes before it shows the known state. A scan of many runs takes longer.
const PATIENCE: Duration = Duration::from_millis(150);
/// The same while nothing is known.
const FIRST_PATIENCE: Duration = Duration::from_millis(700);
/// Interval of updates while files remain to be read.
const SHOW_EVERY: Duration = Duration::from_millis(500);
/// Digits of an id.
const ID: usize = 16;

/// Folders of a run without records: builds, data, and program output.
pub(super) const PASSED_BY: [&str; 9] =
    ["scratch", "builds", "logs", "bin", "profile-raw", "bolt", "running", "processes", "profiles"];

/// Files that identify a folder as a run's folder.
const OF_A_RUN: [&str; 7] = [
    "asked.json",
    "asked-live.json",
    "attempt.json",
    "design.json",
    "experiment.toml",
    "pilot-design.json",
    "rounds.json",
];

/// Results that people also keep alone. In any other folder than their own they are no result of a run.
pub(super) const SINGLE: [&str; 4] = ["window.json", "xray.json", "diagnosis.json", "tail.json"];

/// Files that a command locks while it works on a run.
const LOCKS: [&str; 2] = ["lock", ".lock"];

/// The folders and their content.
#[derive(Debug)]
pub struct Shelf {
    roots: Vec<Root>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct Root {
    label: String,
    path: PathBuf,
    is_folder: bool,
}

#[derive(Debug, Default)]
struct State {
    content: Arc<Content>,
    /// Number of finished scans.
    looks: u64,
    /// Earliest start of the next scan.
    next: Option<Instant>,
    is_asked: bool,
}

/// The content at one moment.
#[derive(Debug, Clone, Default)]
pub struct Content {
    /// The files by id.
    pub records: BTreeMap<String, Arc<Item>>,
    pub(crate) runs: BTreeMap<String, Arc<Run>>,
    pub(crate) ledgers: BTreeMap<String, (ShelfLedger, PathBuf)>,
    /// All runs without their state, newest first. They are computed once for each scan, because a page has no time for thousands.
    summaries: Arc<Vec<ShelfRun>>,
    /// Whether the folders were scanned at least once.
    is_known: bool,
    /// Number of files that are not read yet.
    waiting: usize,
    /// The skipped parts, in words.
    pub limits: Vec<String>,
}

/// A record file.
#[derive(Debug)]
pub struct Item {
    pub(crate) record: ShelfRecord,
    pub(crate) path: PathBuf,
    /// SHA-256 of each variant's program, for an optimisation.
    pub builds: BTreeMap<String, String>,
    stamp: Stamp,
}

/// A run's folder.
#[derive(Debug, Clone, Default)]
pub struct Run {
    pub(crate) id: String,
    /// Path below the served folders.
    pub name: String,
    pub(crate) path: PathBuf,
    pub(super) newest_ms: u64,
    /// Whether the run consists of a single load, X-ray or diagnosis.
    pub(super) is_single: bool,
}

/// Properties that show whether a file was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified_ns: i128,
    bytes: u64,
    inode: u64,
}

impl Stamp {
    fn from_metadata(found: &Metadata) -> Self {
        let modified_ns = i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec());
        Self { modified_ns, bytes: found.len(), inode: found.ino() }
    }

    fn unix_ms(self) -> u64 {
        u64::try_from(self.modified_ns / 1_000_000).unwrap_or(0)
    }
}

/// A JSON file of a scan.
#[derive(Debug)]
struct Met {
    /// Path below the served folders.
    name: String,
    path: PathBuf,
    stamp: Stamp,
    run: Option<String>,
}

/// The result of one scan.
#[derive(Debug, Default)]
struct Walk {
    /// Number of files in the scan.
    most_files: usize,
    folders: HashSet<PathBuf>,
    files: Vec<Met>,
    runs: BTreeMap<String, Run>,
    ledgers: BTreeMap<String, (ShelfLedger, PathBuf)>,
    limits: Vec<String>,
}

impl Shelf {
    /// Creates the index for these folders, record files and ledgers.
    ///
    /// # Errors
    /// One of them does not exist.
    pub fn new(places: &[PathBuf]) -> Result<Self> {
        let mut roots: Vec<Root> = Vec::new();
        for place in places {
            let path = place.canonicalize().with_context(|| {
                format!("can't serve {}: name a folder of runs, a record or a ledger", place.display())
            })?;
            if roots.iter().any(|root| root.path == path) {
                continue;
            }
            let is_folder = path.is_dir();
            if !is_folder && !path.is_file() {
                bail!(Usage(format!("{} is neither a folder nor a file", place.display())));
            }
            let name = path
                .file_name()
                .map_or_else(|| "root".to_owned(), |name| name.to_string_lossy().into_owned());
            roots.push(Root { label: free_label(&roots, name), path, is_folder });
        }
        // A folder inside another one is found there, and has one name.
        roots.sort_by_key(|root| root.path.components().count());
        Ok(Self { roots, state: Mutex::default(), changed: Condvar::new() })
    }

    /// A reader for one page. It reads in the folders, and for a file named by the user in the folder of that file.
    pub(super) fn reader(&self) -> Shown {
        let folder = |root: &Root| match root.path.parent() {
            Some(folder) if !root.is_folder => folder.to_owned(),
            _ => root.path.clone(),
        };
        Shown::new(self.roots.iter().map(folder).collect())
    }

    /// The current content. Requests a scan unless there was one just now, and waits a moment for its result.
    pub fn content(&self) -> Arc<Content> {
        let begun = Instant::now();
        let mut state = self.locked();
        let until = begun + if state.content.is_known { PATIENCE } else { FIRST_PATIENCE };
        if state.next.is_none_or(|next| Instant::now() >= next) {
            let before = state.looks;
            state.is_asked = true;
            self.changed.notify_all();
            while state.looks == before {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        Arc::clone(&state.content)
    }

    /// Scans the folders once, and then on each request, until the program ends.
    pub fn keep(&self) {
        let mut no_records: HashMap<PathBuf, Stamp> = HashMap::new();
        while !interrupt::requested() {
            let took = self.look(&mut no_records);
            let mut state = self.locked();
            state.looks += 1;
            state.next = Some(Instant::now() + (took * REST).max(LOOK_EVERY));
            state.is_asked = false;
            self.changed.notify_all();
            while !state.is_asked && !interrupt::requested() {
                state =
                    self.changed.wait_timeout(state, SHOW_EVERY).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }

    /// The content after one scan, for a command that scans once. It is incomplete after an interrupt.
    pub(crate) fn scanned(&self) -> Arc<Content> {
        self.look(&mut HashMap::new());
        Arc::clone(&self.locked().content)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One scan. Returns the time to walk the folders, without reading files. `no_records` are files that were read and are no
    /// records.
    fn look(&self, no_records: &mut HashMap<PathBuf, Stamp>) -> Duration {
        let began = Instant::now();
        let Walk { mut files, runs, ledgers, limits, .. } = self.walk();
        let took = began.elapsed();
        let before = Arc::clone(&self.locked().content);
        let there: HashSet<&Path> = files.iter().map(|met| met.path.as_path()).collect();
        no_records.retain(|path, _| there.contains(path.as_path()));
        files.retain(|met| no_records.get(&met.path) != Some(&met.stamp));
        let known: HashMap<&str, &Arc<Item>> =
            before.records.values().map(|item| (item.record.path.as_str(), item)).collect();
        let mut records: BTreeMap<String, Arc<Item>> = BTreeMap::new();
        let mut unread = Vec::new();
        for met in files {
            // A folder may have become a run's folder since.
            let is_same = |item: &&&Arc<Item>| item.stamp == met.stamp && item.record.run == met.run;
            match known.get(met.name.as_str()).filter(is_same) {
                Some(item) => drop(records.insert(item.record.id.clone(), Arc::clone(item))),
                None => unread.push(met),
            }
        }
        // New files are requested first.
        unread.sort_by_key(|met| std::cmp::Reverse(met.stamp.modified_ns));
        let runs = runs.into_iter().map(|(id, run)| (id, Arc::new(run))).collect();
        let waiting = unread.len();
        let mut content =
            Content { records, runs, ledgers, is_known: true, waiting, limits, ..Content::default() };
        self.show(&content);
        let mut shown = Instant::now();
        for met in unread {
            if interrupt::requested() {
                return took;
            }
            content.waiting -= 1;
            match item(&met) {
                Some(item) => {
                    no_records.remove(&met.path);
                    content.records.insert(item.record.id.clone(), Arc::new(item));
                }
                None => drop(no_records.insert(met.path, met.stamp)),
            }
            if shown.elapsed() >= SHOW_EVERY {
                self.show(&content);
                shown = Instant::now();
            }
        }
        self.show(&content);
        took
    }

    fn show(&self, content: &Content) {
        let summaries = Arc::new(summaries(content));
        self.locked().content = Arc::new(Content { summaries, ..content.clone() });
    }

    fn walk(&self) -> Walk {
        let mut walk = Walk { most_files: MOST_FILES, ..Walk::default() };
        for root in &self.roots {
            match fs::symlink_metadata(&root.path) {
                Ok(found) if found.is_dir() => walk.folder(&root.path, &root.label, None, 0),
                Ok(_) if walk.has_met(&root.path) => {}
                Ok(found) if found.is_file() => walk.file(&root.path, &root.label, &found, None),
                Ok(_) => walk.limits.push(format!("{} is no longer a folder or a file", root.label)),
                Err(error) => walk.limits.push(format!("can't scan {}: {error}", root.label)),
            }
        }
        walk
    }
}

impl Walk {
    fn folder(&mut self, path: &Path, name: &str, run: Option<&str>, depth: usize) {
        if depth > DEEPEST || self.files.len() >= self.most_files {
            return self.limited();
        }
        // The user named this folder and a folder above it.
        if !self.folders.insert(path.to_owned()) {
            return;
        }
        let mut entries: Vec<fs::DirEntry> = match fs::read_dir(path) {
            Ok(entries) => entries.flatten().collect(),
            Err(error) => return self.limits.push(format!("can't scan {name}: {error}")),
        };
        entries.sort_by_key(fs::DirEntry::file_name);
        let own = run.is_none().then(|| RunKind::of_folder(&entries)).flatten().map(|kind| {
            let is_single = kind == RunKind::Single;
            self.run(path, name, is_single)
        });
        let run = run.or(own.as_deref());
        for entry in entries {
            let file_name = entry.file_name();
            let Some(plain) = file_name.to_str().filter(|plain| !plain.starts_with('.')) else { continue };
            let (path, name) = (entry.path(), format!("{name}/{plain}"));
            // The scan does not follow links, because they could lead out of the served folders.
            let Ok(found) = entry.metadata() else { continue };
            if found.is_dir() && !PASSED_BY.contains(&plain) {
                self.folder(&path, &name, run, depth + 1);
            } else if found.is_file() {
                self.file(&path, &name, &found, run);
            }
        }
    }

    fn has_met(&self, path: &Path) -> bool {
        self.files.iter().any(|met| met.path == path)
            || self.ledgers.values().any(|(_, ledger)| ledger == path)
    }

    fn limited(&mut self) {
        let most = self.most_files;
        let limit = format!(
            "There are more than {most} files, or folders more than {DEEPEST} levels deep. The rest \
                 is not listed."
        );
        if !self.limits.contains(&limit) {
            self.limits.push(limit);
        }
    }

    fn run(&mut self, path: &Path, name: &str, is_single: bool) -> String {
        let (id, name, path) = (id_of(name), name.to_owned(), path.to_owned());
        let run = Run { id, name, path, newest_ms: 0, is_single };
        let id = run.id.clone();
        self.runs.insert(id.clone(), run);
        id
    }

    fn file(&mut self, path: &Path, name: &str, found: &Metadata, run: Option<&str>) {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending == Some("jsonl") && (path.ends_with(ledger::NAME) || run.is_none()) {
            let id = id_of(name);
            let ledger = ShelfLedger { id: id.clone(), path: name.to_owned(), bytes: found.len() };
            self.ledgers.insert(id, (ledger, path.to_owned()));
        }
        if ending != Some("json") {
            return;
        }
        if self.files.len() >= self.most_files {
            return self.limited();
        }
        let stamp = Stamp::from_metadata(found);
        if let Some(run) = run.and_then(|run| self.runs.get_mut(run)) {
            run.newest_ms = run.newest_ms.max(stamp.unix_ms());
        }
        self.files.push(Met {
            name: name.to_owned(),
            path: path.to_owned(),
            stamp,
            run: run.map(str::to_owned),
        });
    }
}

/// Two folders may have the same name: `runs`, `runs-2`.
fn free_label(roots: &[Root], name: String) -> String {
    let is_free = |label: &String| roots.iter().all(|root| root.label != *label);
    let numbered = (2..).map(|number: u32| format!("{name}-{number}"));
    std::iter::once(name.clone()).chain(numbered).find(is_free).unwrap_or_default()
}

/// What the files of a folder say about its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunKind {
    /// It has notes or results that only a run has.
    Whole,
    /// It has one record, and the command that made the folder for it.
    Single,
}

impl RunKind {
    fn of_folder(entries: &[fs::DirEntry]) -> Option<Self> {
        let names: Vec<std::ffi::OsString> = entries.iter().map(fs::DirEntry::file_name).collect();
        let has =
            |is_wanted: &dyn Fn(&str) -> bool| names.iter().filter_map(|name| name.to_str()).any(is_wanted);
        let is_single = |name: &str| SINGLE.contains(&name);
        if has(&|name| OF_A_RUN.contains(&name) || RESULTS.contains(&name) && !is_single(name)) {
            return Some(Self::Whole);
        }
        (has(&is_single) && has(&|name| name == command_line::NOTE)).then_some(Self::Single)
    }
}

/// Whether a file may be the result of a run.
fn may_be_result(name: &str) -> bool {
    RESULTS.contains(&name.rsplit('/').next().unwrap_or(name))
}

/// The first digits of the SHA-256 of the name. They stay the same when the server restarts, and can't be a path.
fn id_of(name: &str) -> String {
    let mut id = sha256_hex(name.as_bytes());
    id.truncate(ID);
    id
}

/// Whether a text could be an id.
pub(crate) fn is_id(text: &str) -> bool {
    text.len() == ID && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// A summary of a file for a list. `None` when the file is no record.
fn item(met: &Met) -> Option<Item> {
    let found = read(&met.path).and_then(|text| sketch(&text));
    let sketch = match found {
        Ok(found) => Ok(found?),
        Err(why) => Err(why),
    };
    let mut record = ShelfRecord {
        id: id_of(&met.name),
        path: met.name.clone(),
        at_unix_ms: met.stamp.unix_ms(),
        bytes: met.stamp.bytes,
        run: met.run.clone(),
        ..ShelfRecord::default()
    };
    let mut builds = BTreeMap::new();
    match sketch {
        Ok(sketch) => {
            record.kind = sketch.kind;
            record.title = sketch.title;
            record.verdict = sketch.verdict;
            record.said = sketch.said;
            record.at_unix_ms = sketch.at_unix_ms.unwrap_or(record.at_unix_ms);
            record.window = sketch.window;
            // Only the list of runs shows it, and there are thousands of windows.
            record.outcome = sketch.outcome.filter(|_| may_be_result(&met.name));
            builds = sketch.builds;
        }
        Err(why) => {
            record.kind = BROKEN.to_owned();
            record.said = why;
        }
    }
    Some(Item { record, path: met.path.clone(), builds, stamp: met.stamp })
}

/// The text of a file, up to the size limit of a record.
///
/// # Errors
/// The error names the fault.
pub fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = open(path)?.take(MOST_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| format!("can't read it: {error}"))?;
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}

impl Content {
    /// All runs: the running ones, then the newest.
    pub(crate) fn runs_now(&self) -> Vec<ShelfRun> {
        let locks = Locks::read(Path::new("/"));
        let now = |known: &ShelfRun| Some(self.runs.get(&known.id)?.now(known, &locks));
        let mut runs: Vec<ShelfRun> = self.summaries.iter().filter_map(now).collect();
        // The sort keeps the order of equal ones.
        runs.sort_by_key(|run| run.state != RunState::Running);
        runs
    }

    /// A run in its current state.
    pub(crate) fn run_now(&self, run: &Run) -> ShelfRun {
        let known = self.summaries.iter().find(|known| known.id == run.id).cloned().unwrap_or_default();
        run.now(&known, &Locks::read(Path::new("/")))
    }

    /// The records of a run.
    pub(crate) fn records_of<'a>(&'a self, run: &'a str) -> impl Iterator<Item = &'a Arc<Item>> {
        self.records.values().filter(move |item| item.record.run.as_deref() == Some(run))
    }

    /// Whether the index is complete: no scan and no read is pending.
    pub fn is_whole(&self) -> bool {
        self.is_known && self.waiting == 0
    }

    /// Notes that every page shows.
    pub fn notes(&self) -> Vec<String> {
        let missing = match (self.is_known, self.waiting) {
            (false, _) => Some("The folders are not scanned yet: refresh the page.".to_owned()),
            (true, 0) => None,
            (true, files) => Some(format!("{files} files are not read yet: refresh the page.")),
        };
        missing.into_iter().chain(self.limits.iter().cloned()).collect()
    }
}

impl Run {
    /// The process that holds the lock of the run.
    pub(super) fn holder(&self, locks: &Locks) -> Option<u32> {
        LOCKS.iter().find_map(|name| locks.holder(&self.path.join(name)))
    }

    /// The current state of the run, with what its files say.
    fn now(&self, known: &ShelfRun, locks: &Locks) -> ShelfRun {
        let pid = self.holder(locks);
        let state = match (pid, &known.result) {
            (Some(_), _) => RunState::Running,
            (None, Some(_)) => RunState::Finished,
            (None, None) => RunState::Unfinished,
        };
        ShelfRun { id: self.id.clone(), path: self.name.clone(), state, pid, ..known.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(places: &[PathBuf]) -> (Shelf, HashMap<PathBuf, Stamp>) {
        let (shelf, mut none) = (Shelf::new(places).unwrap(), HashMap::new());
        shelf.look(&mut none);
        (shelf, none)
    }

    fn paths(shelf: &Shelf) -> Vec<String> {
        let content = Arc::clone(&shelf.locked().content);
        let mut paths: Vec<String> = content.records.values().map(|item| item.record.path.clone()).collect();
        paths.sort();
        paths
    }

    const DOCTOR: &str = r#"{"hone_record": 1, "kind": "doctor", "body": {}}"#;

    #[test]
    fn only_what_lies_in_the_folders_is_found_and_links_lead_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (shown, outside) = (dir.path().join("shown"), dir.path().join("outside"));
        for folder in [&shown, &outside, &shown.join("logs")] {
            fs::create_dir_all(folder).unwrap();
        }
        for path in
            [shown.join("a.json"), outside.join("b.json"), shown.join("logs/c.json"), shown.join(".d.json")]
        {
            fs::write(path, DOCTOR).unwrap();
        }
        std::os::unix::fs::symlink(&outside, shown.join("link")).unwrap();
        std::os::unix::fs::symlink(outside.join("b.json"), shown.join("b.json")).unwrap();
        let (shelf, _) = kept(&[shown]);
        let found =
            shelf.locked().content.records.values().map(|item| item.record.path.clone()).collect::<Vec<_>>();
        assert_eq!(found, ["shown/a.json"]);
        assert!(read(&dir.path().join("shown/b.json")).unwrap_err().contains("can't read it"), "nor later");
    }

    #[test]
    fn files_are_read_once_and_again_when_they_change() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.json"), DOCTOR).unwrap();
        fs::write(dir.path().join("note.json"), "[]").unwrap();
        let (shelf, mut none) = kept(&[dir.path().to_owned()]);
        let first = Arc::clone(shelf.locked().content.records.values().next().unwrap());
        assert_eq!(none.len(), 1);
        shelf.look(&mut none);
        let again = Arc::clone(shelf.locked().content.records.values().next().unwrap());
        assert!(Arc::ptr_eq(&first, &again), "not read again");
        fs::write(dir.path().join("a.json"), "{ broken").unwrap();
        fs::write(dir.path().join("note.json"), DOCTOR).unwrap();
        shelf.look(&mut none);
        let content = Arc::clone(&shelf.locked().content);
        assert!(content.records[&first.record.id].record.is_broken(), "the id stays");
        assert_eq!((content.records.len(), none.len()), (2, 0));
        fs::remove_file(dir.path().join("a.json")).unwrap();
        shelf.look(&mut none);
        assert_eq!(shelf.locked().content.records.len(), 1);
    }

    #[test]
    fn a_run_is_known_by_its_files_and_its_parts_are_no_runs() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("runs/x-001");
        fs::create_dir_all(run.join("judge-a/windows")).unwrap();
        fs::write(run.join("experiment.toml"), "").unwrap();
        fs::write(run.join("judge-a/design.json"), "{}").unwrap();
        fs::write(run.join("judge-a/windows/0.json"), DOCTOR).unwrap();
        fs::write(dir.path().join("runs/ledger.jsonl"), "").unwrap();
        let (shelf, _) = kept(&[dir.path().join("runs")]);
        let content = Arc::clone(&shelf.locked().content);
        assert!(content.is_whole() && !Content::default().is_whole());
        assert!(Content::default().notes()[0].contains("not scanned yet"));
        let runs = content.runs_now();
        assert_eq!(runs.len(), 1);
        assert_eq!(
            (runs[0].path.as_str(), runs[0].state, runs[0].records),
            ("runs/x-001", RunState::Unfinished, 1)
        );
        assert_eq!(content.ledgers.len(), 1);
        let lock = fs::File::create(run.join("lock")).unwrap();
        lock.try_lock().unwrap();
        let now = &content.runs_now()[0];
        assert_eq!((now.state, now.pid), (RunState::Running, Some(std::process::id())));
    }

    #[test]
    fn a_single_record_is_a_run_only_in_a_folder_that_a_command_made_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        // Somebody keeps an X-ray next to the runs. They stay runs of their own.
        for name in
            ["xray.json", "load-001/window.json", "x-diagnosis-001/diagnosis.json", "nightly/window.json"]
        {
            let path = runs.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, DOCTOR).unwrap();
        }
        for name in ["load-001", "x-diagnosis-001"] {
            fs::write(runs.join(name).join(command_line::NOTE), "[]").unwrap();
        }
        // An optimisation that was broken off also has a diagnosis, which is not its result.
        fs::create_dir_all(runs.join("broker-001")).unwrap();
        fs::write(runs.join("broker-001/experiment.toml"), "").unwrap();
        fs::write(runs.join("broker-001/diagnosis.json"), DOCTOR).unwrap();
        let (shelf, _) = kept(&[runs]);
        let content = Arc::clone(&shelf.locked().content);
        let mut found: Vec<(String, RunState)> =
            content.runs_now().into_iter().map(|run| (run.path, run.state)).collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("runs/broker-001", RunState::Unfinished),
            ("runs/load-001", RunState::Finished),
            ("runs/x-diagnosis-001", RunState::Finished),
        ];
        assert_eq!(found, expected.map(|(path, state)| (path.to_owned(), state)));
    }

    #[test]
    fn folders_of_one_name_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let places = ["a/runs", "b/runs", "a/../a/runs"].map(|name| dir.path().join(name));
        for place in &places[..2] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("x.json"), DOCTOR).unwrap();
        }
        let (shelf, _) = kept(&places);
        let paths: Vec<String> =
            shelf.locked().content.records.values().map(|item| item.record.path.clone()).collect();
        assert!(
            paths.contains(&"runs/x.json".to_owned()) && paths.contains(&"runs-2/x.json".to_owned()),
            "{paths:?}"
        );
        assert!(Shelf::new(&[dir.path().join("none")]).is_err());
    }

    #[test]
    fn a_name_that_is_taken_is_given_to_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let places = ["a/runs-2", "a/runs", "b/runs", "c/runs-2"].map(|name| dir.path().join(name));
        for place in &places {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("x.json"), DOCTOR).unwrap();
        }
        let (shelf, _) = kept(&places);
        assert_eq!(paths(&shelf), ["runs-2-2/x.json", "runs-2/x.json", "runs-3/x.json", "runs/x.json"]);
    }

    #[test]
    fn what_is_named_twice_is_shown_once_at_every_look() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join("runs");
        for folder in ["x-001", "x-001/builds"] {
            fs::create_dir_all(runs.join(folder)).unwrap();
        }
        for name in ["x-001/design.json", "x-001/a.json", "x-001/builds/b.json"] {
            fs::write(runs.join(name), DOCTOR).unwrap();
        }
        // The scan skips builds in a run, unless the user names them.
        let places = ["x-001", "x-001/a.json", "", "x-001/builds"].map(|name| runs.join(name));
        let (shelf, mut none) = kept(&places);
        for _ in 0..2 {
            assert_eq!(paths(&shelf), ["builds/b.json", "runs/x-001/a.json", "runs/x-001/design.json"]);
            let seen = shelf.locked().content.runs_now();
            assert_eq!((seen.len(), seen[0].records), (1, 2), "{seen:?}");
            shelf.look(&mut none);
        }
    }

    #[test]
    fn files_beyond_the_limit_are_told_also_in_the_last_folder() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.json", "b.json", "c.json"] {
            fs::write(dir.path().join(name), DOCTOR).unwrap();
        }
        let walked = |most_files| {
            let mut walk = Walk { most_files, ..Walk::default() };
            walk.folder(dir.path(), "x", None, 0);
            (walk.files.len(), walk.limits.len())
        };
        assert_eq!((walked(2), walked(3)), ((2, 1), (3, 0)));
    }

    #[test]
    fn what_is_too_large_is_broken_and_not_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::File::create(dir.path().join("big.json")).unwrap().set_len(MOST_BYTES + 1).unwrap();
        let (shelf, _) = kept(&[dir.path().to_owned()]);
        let content = Arc::clone(&shelf.locked().content);
        let record = &content.records.values().next().unwrap().record;
        assert!(record.is_broken() && record.said.contains("the limit is"), "{record:?}");
    }
}
