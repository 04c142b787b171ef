//! Stores the record files of runs in the store of the ledgers: each file under its content hash, and a list of files for each
//! run.
//!
//! Entries name the included windows with their hashes. They do not name the results of a run or its excluded windows. The list
//! of the run names those, so that its page and its run summary are the same on other machines. The store never replaces a file:
//! the name of a file is its content hash, and the name of a list contains the hash of the run's first line, the time and its
//! content hash. A pull replaces only results that an earlier list of the same run contained.

use std::cell::LazyCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use hone_binary::sha256_hex;
use hone_document::ledger::{PulledRecords, PushedRecords};
use hone_ledger::Line;
use hone_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::story::{CEILINGS, DIAGNOSIS, names_beside};
use hone_experiment::folder::RESULTS;
use hone_experiment::ledger::{RECORDS, Ran, Runs, hash_of, inside, place_in, pulled_name, runs_of};
use hone_experiment::moment::now_unix_ms;
use hone_experiment::progress::Progress;
use hone_experiment::reader::{self, Caller};
use hone_experiment::whole::{NotWritten, not_interrupted, write_whole};

/// The folder of the store with the files.
const FILES: &str = "records";
/// The folder of the store with the lists.
const LISTS: &str = "runs";
const ENDING: &str = ".json";
/// Maximum files in a list. A run usually has some hundred.
const MOST_LISTED: usize = 100_000;
/// Maximum length of a path in a run's folder.
const LONGEST_PATH: usize = 1_000;
/// The limit of most file systems.
const LONGEST_NAME: usize = 255;

/// Number of a run's files that no entry names.
#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    run: String,
    files: BTreeMap<String, String>,
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a path from a record, which is foreign text, is a valid path of a file in a run's folder.
fn is_plain(path: &str) -> bool {
    path.len() <= LONGEST_PATH
        && path.ends_with(ENDING)
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !part.is_empty() && part != "." && part.len() <= LONGEST_NAME)
        && inside(Path::new(""), path).is_some()
}

/// The name of a file in the store.
fn object(sha256: &str) -> String {
    format!("{sha256}{ENDING}")
}

/// The name of a list: its run, the time of the push, and its content hash.
fn list_name(line: &str, text: &str) -> String {
    format!("{line}_{:013}_{}{ENDING}", now_unix_ms(), sha256_hex(text.as_bytes()))
}

/// The run of a list, and the expected hash of its content.
fn parse_list_name(name: &str) -> Option<(&str, &str)> {
    let (line, rest) = name.strip_suffix(ENDING)?.split_once('_')?;
    let (at, sha256) = rest.split_once('_')?;
    let is_time = at.len() == 13 && at.bytes().all(|byte| byte.is_ascii_digit());
    (is_sha256(line) && is_time && is_sha256(sha256)).then_some((line, sha256))
}

/// Pushes the files of a ledger's entries and the other files of the runs' pages. It does not read files that the store already
/// has.
///
/// # Errors
/// The store fails. Files that were pushed before the failure stay, and the same command continues.
pub fn push(store: &Store, ledger: &Path, lines: &[Line], progress: &Progress) -> Result<PushedRecords> {
    let runs = Runs::of(ledger, lines.iter(), &Caller);
    let files = store.folder(FILES)?;
    let there = files.names()?.into_iter().collect();
    let mut pusher = Pusher::new(files, there);
    for (at, line) in lines.iter().enumerate() {
        progress.doing(&format!("push records of entry {} of {}", at + 1, lines.len()));
        // Files that the store already has are not searched for here.
        let folders = LazyCell::new(|| runs.folders_for(&line.entry, &Caller));
        for record in &line.entry.records {
            let place = || place_in(&folders, record, &Caller);
            pusher.push(&record.sha256, place, &format!("line {} is based on it", line.number))?;
        }
    }
    let lists = store.folder(LISTS)?;
    let known = by_line(lists.names()?);
    for ran in runs_of(lines.iter()) {
        progress.doing("push the results of runs");
        let Concluded { files, is_whole } = pusher.concluded(&ran, ledger, &runs)?;
        let is_empty = files.is_empty();
        let text = serde_json::to_string_pretty(&List { run: ran.run.clone(), files })? + "\n";
        let known = known.get(&ran.line).map(Vec::as_slice).unwrap_or_default();
        if !is_empty && is_wanted(known, &text, is_whole) {
            lists.put(&list_name(&ran.line, &text), text.into_bytes())?;
        }
    }
    Ok(pusher.told())
}

/// Whether to add a list to those of its run. The newest list wins, so an old copy of an earlier list must not be added again. A
/// list that lacks a file replaces no complete one.
fn is_wanted(known: &[String], text: &str, is_whole: bool) -> bool {
    let sha256 = sha256_hex(text.as_bytes());
    let is_there = known.iter().filter_map(|name| parse_list_name(name)).any(|(_, known)| known == sha256);
    !is_there && (is_whole || known.is_empty())
}

/// The names of each run's lists, the newest last, by the hash of the run's first line.
fn by_line(names: Vec<String>) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    // The names are sorted, and so is their time.
    for name in names {
        if let Some((line, _)) = parse_list_name(&name) {
            found.entry(line.to_owned()).or_default().push(name);
        }
    }
    found
}

struct Pusher {
    files: Store,
    there: HashSet<String>,
    /// Hashes in the store, as far as they were requested.
    seen: HashSet<String>,
    /// Hashes for which no line had an unchanged file, with the fault of the first file at its expected path. Another run may
    /// have the same file, because equal questions have equal designs.
    missing: BTreeMap<String, Option<(String, String)>>,
    done: PushedRecords,
}

impl Pusher {
    fn new(files: Store, there: HashSet<String>) -> Self {
        let (seen, missing, done) = (HashSet::new(), BTreeMap::new(), PushedRecords::default());
        Self { files, there, seen, missing, done }
    }

    /// The result, after every line that could have a file was checked.
    fn told(mut self) -> PushedRecords {
        for wrong in self.missing.into_values() {
            match wrong {
                Some(left_out) => self.done.left_out.push(left_out),
                None => self.done.gone += 1,
            }
        }
        self.done
    }

    fn push(&mut self, sha256: &str, place: impl Fn() -> Option<PathBuf>, why: &str) -> Result<()> {
        not_interrupted()?;
        if self.seen.contains(sha256) {
            return Ok(());
        }
        if self.there.contains(&object(sha256)) {
            self.seen.insert(sha256.to_owned());
            self.done.were_there += 1;
            return Ok(());
        }
        let Some(place) = place() else {
            self.missing.entry(sha256.to_owned()).or_default();
            return Ok(());
        };
        let reason = match reader::bytes(&Caller, &place) {
            Ok(bytes) if sha256_hex(&bytes) == sha256 => {
                self.seen.insert(sha256.to_owned());
                return self.put(sha256, bytes);
            }
            Ok(_) => format!("{why}, and its content was changed"),
            Err(error) => format!("{why}, and {error:#}"),
        };
        let wrong = self.missing.entry(sha256.to_owned()).or_default();
        wrong.get_or_insert((place.display().to_string(), reason));
        Ok(())
    }

    fn put(&mut self, sha256: &str, bytes: Vec<u8>) -> Result<()> {
        self.done.pushed += 1;
        self.done.pushed_bytes += bytes.len() as u64;
        self.there.insert(object(sha256));
        self.missing.remove(sha256);
        Ok(self.files.put(&object(sha256), bytes)?)
    }

    /// Pushes the files that no entry of a run names: its results, related records for its run summary, and the windows of their
    /// pages that entries do not include.
    fn concluded(&mut self, ran: &Ran, ledger: &Path, runs: &Runs) -> Result<Concluded> {
        let mut found = Concluded { files: BTreeMap::new(), is_whole: true };
        let Some(folder) = folder_of(ran, ledger, runs) else { return Ok(found) };
        let mut windows = BTreeSet::new();
        for name in names_concluded(&folder) {
            if !is_plain(&name) || ran.files.contains_key(&name) {
                continue;
            }
            let Some(bytes) = self.read(&folder, &name, &mut found) else { continue };
            // A heatmap names no windows, and may be large.
            if RESULTS.contains(&name.as_str())
                && let Ok(result) = serde_json::from_slice(&bytes)
            {
                windows_of(&result, &mut windows);
            }
            found.files.insert(name, self.keep(bytes)?);
        }
        windows.retain(|name| is_plain(name) && !ran.files.contains_key(name));
        for name in windows {
            if !folder.join(&name).is_file() {
                found.is_whole = false;
            } else if let Some(bytes) = self.read(&folder, &name, &mut found) {
                found.files.insert(name, self.keep(bytes)?);
            }
        }
        Ok(found)
    }

    /// The content of a file. An unreadable file is skipped, and does not stop the others.
    fn read(&mut self, folder: &Path, name: &str, found: &mut Concluded) -> Option<Vec<u8>> {
        let path = folder.join(name);
        let read = reader::bytes(&Caller, &path).inspect_err(|error| {
            found.is_whole = false;
            let why = format!("the page of its run needs it, and {error:#}");
            self.done.left_out.push((path.display().to_string(), why));
        });
        read.ok()
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Result<String> {
        not_interrupted()?;
        let sha256 = sha256_hex(&bytes);
        if self.seen.insert(sha256.clone()) {
            match self.there.contains(&object(&sha256)) {
                true => self.done.were_there += 1,
                false => self.put(&sha256, bytes)?,
            }
        }
        Ok(sha256)
    }
}

/// The results of a run.
struct Concluded {
    /// SHA-256 of each file, by its path in the run's folder.
    files: BTreeMap<String, String>,
    /// Whether every file that the results name exists and is readable.
    is_whole: bool,
}

/// The files in a run's folder that its page and its run summary need, apart from windows.
fn names_concluded(folder: &Path) -> BTreeSet<String> {
    let results = RESULTS.into_iter().chain([DIAGNOSIS, CEILINGS]).map(str::to_owned);
    results.filter(|name| folder.join(name).is_file()).chain(names_beside(folder, &Caller)).collect()
}

/// The folder of a run on this machine: a folder with an unchanged window of the run, or the folder of an earlier pull. A folder
/// with the same name alone may belong to another host's run.
fn folder_of(ran: &Ran, ledger: &Path, runs: &Runs) -> Option<PathBuf> {
    let pulled = || ledger.with_file_name(RECORDS).join(pulled_name(&ran.run, &ran.line));
    let own = runs.folders_of(&ran.run).find(|folder| ran.lies_in(folder, &Caller));
    own.map(Path::to_owned).or_else(|| Some(pulled()).filter(|folder| folder.is_dir()))
}

/// The windows that a result names.
fn windows_of(result: &Value, found: &mut BTreeSet<String>) {
    match result {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(window) if name == "window_a" || name == "window_b" => {
                        found.insert(window.clone());
                    }
                    value => windows_of(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| windows_of(value, found)),
        _ => {}
    }
}

/// Copies the files of the runs of these ledgers to a folder next to a ledger, and checks the hash of each.
///
/// # Errors
/// The store fails, or a file can't be written. Files that were copied before the failure stay, and the same command continues.
pub fn pull(store: &Store, ledger: &Path, hosts: &[Vec<Line>], progress: &Progress) -> Result<PulledRecords> {
    let mut wanted: BTreeMap<String, Ran> = BTreeMap::new();
    for ran in hosts.iter().flat_map(|lines| runs_of(lines.iter())) {
        match wanted.get_mut(&ran.line) {
            Some(known) => known.files.extend(ran.files),
            None => drop(wanted.insert(ran.line.clone(), ran)),
        }
    }
    let folder = ledger.with_file_name(RECORDS);
    let (files, lists) = (store.folder(FILES)?, store.folder(LISTS)?);
    let there = files.names()?.into_iter().collect();
    let listed = by_line(lists.names()?);
    let done = PulledRecords { folder: folder.clone(), ..PulledRecords::default() };
    let mut puller = Puller { files, there, lists, listed, read: HashMap::new(), done };
    let runs = wanted.len();
    for (at, ran) in wanted.into_values().enumerate() {
        let mut all = puller.list(&ran.line)?;
        // A hash in an entry takes precedence over a list.
        all.extend(ran.files);
        let run = PulledRun { folder: folder.join(pulled_name(&ran.run, &ran.line)), line: ran.line };
        let count = all.len();
        for (number, (path, sha256)) in all.into_iter().enumerate() {
            progress.doing(&format!("pull record {} of {count}, run {} of {runs}", number + 1, at + 1));
            puller.take(&run, &path, &sha256)?;
        }
    }
    Ok(puller.done)
}

/// A run that is pulled.
struct PulledRun {
    folder: PathBuf,
    /// Hash of the run's first line.
    line: String,
}

struct Puller {
    files: Store,
    there: HashSet<String>,
    lists: Store,
    listed: HashMap<String, Vec<String>>,
    /// The lists of the current run that were read, or the fault of one.
    read: HashMap<String, Result<List, String>>,
    done: PulledRecords,
}

/// The reason for a missing file: a fault of the file alone, or of the whole pull.
enum Refused {
    Alone(String),
    All(anyhow::Error),
}

impl From<StoreError> for Refused {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooLarge { .. } => Self::Alone(error.to_string()),
            _ => Self::All(error.into()),
        }
    }
}

/// The outcome for a file.
enum Took {
    New,
    WasThere,
    Gone,
}

impl Puller {
    fn take(&mut self, run: &PulledRun, path: &str, sha256: &str) -> Result<()> {
        not_interrupted()?;
        match self.took(run, path, sha256) {
            Ok(Took::New) => self.done.taken += 1,
            Ok(Took::WasThere) => self.done.were_there += 1,
            Ok(Took::Gone) => self.done.gone += 1,
            Err(Refused::Alone(why)) => {
                self.done.left_out.push((run.folder.join(path).display().to_string(), why));
            }
            Err(Refused::All(error)) => return Err(error),
        }
        Ok(())
    }

    fn took(&mut self, run: &PulledRun, path: &str, sha256: &str) -> Result<Took, Refused> {
        if !is_plain(path) || !is_sha256(sha256) {
            let what = "this is no path of a record in a run's folder, or it has no hash";
            return Err(Refused::Alone(what.to_owned()));
        }
        let file = run.folder.join(path);
        if fs::symlink_metadata(&file).is_ok() {
            let found = if file.is_file() { hash_of(&file).ok() } else { None };
            if found.as_deref() == Some(sha256) {
                return Ok(Took::WasThere);
            }
            let was_listed = found.map(|found| self.was_listed(&run.line, path, &found)).transpose()?;
            if was_listed != Some(true) {
                let other = "another file is in its place and stays; move it away, and pull again";
                return Err(Refused::Alone(other.to_owned()));
            }
        }
        let name = object(sha256);
        if !self.there.contains(&name) {
            return Ok(Took::Gone);
        }
        let Some(bytes) = self.files.get(&name)? else { return Ok(Took::Gone) };
        let found = sha256_hex(&bytes);
        if found != sha256 {
            return Err(Refused::Alone(format!(
                "{name} in {} was changed after the push: its SHA-256 is {found}; delete it there, and push \
                 it again from a host that has it",
                self.files.address()
            )));
        }
        keep(&file, &bytes)?;
        Ok(Took::New)
    }

    /// Whether a file is a result that an earlier list of the run contained.
    fn was_listed(&mut self, line: &str, path: &str, sha256: &str) -> Result<bool, StoreError> {
        for name in self.listed.get(line).cloned().unwrap_or_default() {
            let list = self.read_list(&name)?.as_ref();
            if list.is_ok_and(|list| list.files.get(path).is_some_and(|listed| listed == sha256)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The newest list of a run, with each file by its path. Empty if there is no list, or if it is broken.
    fn list(&mut self, line: &str) -> Result<BTreeMap<String, String>> {
        not_interrupted()?;
        self.read.clear();
        let Some(name) = self.listed.get(line).and_then(|names| names.last()).cloned() else {
            return Ok(BTreeMap::new());
        };
        let why = match self.read_list(&name)? {
            Ok(list) => return Ok(list.files.clone()),
            Err(why) => format!("{why}; delete it there, and push again from the host of the run"),
        };
        self.done.left_out.push((format!("{name} in {}", self.lists.address()), why));
        Ok(BTreeMap::new())
    }

    /// Reads each list once per run. The inner error is a fault of the list alone.
    fn read_list(&mut self, name: &str) -> Result<&Result<List, String>, StoreError> {
        if !self.read.contains_key(name) {
            let found = self.fetch_list(name)?;
            self.read.insert(name.to_owned(), found);
        }
        Ok(&self.read[name])
    }

    fn fetch_list(&self, name: &str) -> Result<Result<List, String>, StoreError> {
        let sha256 = parse_list_name(name).map(|(_, sha256)| sha256).unwrap_or_default();
        match self.lists.get(name) {
            Ok(Some(bytes)) => Ok(parse_list(&bytes, sha256).map_err(|why| format!("{why:#}"))),
            Ok(None) => Ok(Err("it no longer exists".to_owned())),
            Err(error @ StoreError::TooLarge { .. }) => Ok(Err(error.to_string())),
            Err(error) => Err(error),
        }
    }
}

fn parse_list(bytes: &[u8], sha256: &str) -> Result<List> {
    let found = sha256_hex(bytes);
    if found != sha256 {
        bail!("it was changed after the push: its SHA-256 is {found}");
    }
    let list: List =
        serde_json::from_slice(bytes).map_err(|error| anyhow!("it is no list of a run: {error}"))?;
    if list.files.len() > MOST_LISTED {
        bail!("it has {} files; the limit is {MOST_LISTED}", list.files.len());
    }
    Ok(list)
}

/// Writes a file of a run. If one record uses a name as a file and another as a folder, or if the name is too long here, only
/// this file fails.
fn keep(file: &Path, bytes: &[u8]) -> Result<(), Refused> {
    let too_long = || Refused::Alone("its path is too long for this disk".to_owned());
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Refused::Alone("a file is in the place of its folder".to_owned())
            }
            io::ErrorKind::InvalidFilename => too_long(),
            _ => Refused::All(anyhow!(
                "can't create {}: {error}\n  next: check the permissions and the free space there, or choose \
                 another --output",
                folder.display()
            )),
        })?;
    }
    let is_too_long =
        |error: &anyhow::Error| error.downcast_ref::<NotWritten>().is_some_and(NotWritten::is_for_its_name);
    write_whole(file, bytes)
        .map_err(|error| if is_too_long(&error) { too_long() } else { Refused::All(error) })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_path_of_a_record_stays_in_its_run() {
        for path in ["comparison.json", "windows/pgo/000-a.json", "windows/ü.json"] {
            assert!(is_plain(path), "{path}");
        }
        let long = format!("{}.json", "a".repeat(251));
        for path in [
            "",
            "../a.json",
            "/a.json",
            "a/../b.json",
            "a//b.json",
            "./a.json",
            "a/",
            "a\n.json",
            "a\u{0}.json",
            "a.sh",
            &long,
        ] {
            assert!(!is_plain(path), "{path}");
        }
    }

    #[test]
    fn names_of_lists_are_read_back_and_the_newest_counts() {
        let (line, other) = ("a".repeat(64), "b".repeat(64));
        let name = list_name(&line, "text");
        assert_eq!(parse_list_name(&name), Some((line.as_str(), sha256_hex(b"text").as_str())));
        for wrong in ["", "a_1_b.json", &name[1..], &name.replace(".json", ".jso"), &name.replace('a', "A")] {
            assert_eq!(parse_list_name(wrong), None, "{wrong}");
        }
        let named = |at: u64, of: char| format!("{line}_{at:013}_{}.json", of.to_string().repeat(64));
        let names = vec![named(7, 'f'), named(8, 'e'), "note.txt".to_owned(), format!("{other}.json")];
        let found = by_line(names);
        assert_eq!((found.len(), found[&line].last()), (1, Some(&named(8, 'e'))));
    }

    #[test]
    fn windows_are_found_wherever_a_result_names_them() {
        let result = serde_json::json!({"steps": [{"comparison": {"pairs": [{"window_a": "w/a.json", "window_b": ""}]}}], "window": "x"});
        let mut found = BTreeSet::new();
        windows_of(&result, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["", "w/a.json"]);
    }

    #[test]
    fn a_list_is_put_once_and_one_that_lacks_something_takes_no_place() {
        let name =
            |at: u64, text: &str| format!("{}_{at:013}_{}.json", "a".repeat(64), sha256_hex(text.as_bytes()));
        let known = [name(7, "old"), name(8, "new")];
        assert!(is_wanted(&known, "newer", true));
        assert!(!is_wanted(&known, "new", true));
        assert!(!is_wanted(&known, "old", true), "an old copy is no news");
        assert!(!is_wanted(&known, "a part", false));
        assert!(is_wanted(&[], "a part", false), "better than nothing");
    }

    #[test]
    fn a_file_that_one_of_several_runs_still_has_is_pushed() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let file = home.path().join(name);
            fs::write(&file, text).unwrap();
            file
        };
        let (whole, edited) = (write("whole.json", "as asked"), write("edited.json", "edited"));
        let sha256 = sha256_hex(b"as asked");
        let pushed = |number: usize, places: &[Option<&PathBuf>]| {
            let files = Store::open(home.path().join(number.to_string()).to_str().unwrap()).unwrap();
            let mut pusher = Pusher::new(files, HashSet::new());
            for place in places {
                pusher.push(&sha256, || place.cloned(), "line 1 is based on it").unwrap();
            }
            let done = pusher.told();
            (done.pushed, done.gone, done.left_out.len())
        };
        let (whole, edited) = (Some(&whole), Some(&edited));
        for (number, (places, expected)) in [
            ([None, whole, whole], (1, 0, 0)),
            ([edited, None, whole], (1, 0, 0)),
            ([whole, edited, None], (1, 0, 0)),
            ([None, edited, edited], (0, 0, 1)),
            ([None, None, None], (0, 1, 0)),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(pushed(number, &places), expected, "{places:?}");
        }
        // Runs may have the same results.
        let files = Store::open(home.path().join("kept").to_str().unwrap()).unwrap();
        let mut pusher = Pusher::new(files, HashSet::new());
        pusher.push(&sha256, || None, "line 1 is based on it").unwrap();
        assert_eq!(pusher.keep(b"as asked".to_vec()).unwrap(), sha256);
        let done = pusher.told();
        assert_eq!((done.pushed, done.gone), (1, 0));
    }

    /// A store that refuses everything.
    fn refusing() -> Store {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.unwrap();
                let _ = socket.read(&mut [0; 8192]);
                let no = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _ = socket.write_all(no.as_bytes());
            }
        });
        let settings = [
            ("AWS_ENDPOINT_URL", format!("http://{address}")),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_ACCESS_KEY_ID", "key".to_owned()),
            ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value));
        Store::open_with("s3://fleet/ledgers/runs", settings).unwrap()
    }

    #[test]
    fn a_store_that_fails_is_not_told_as_a_file_of_the_users() {
        let home = tempfile::tempdir().unwrap();
        let line = "a".repeat(64);
        let run = PulledRun { folder: home.path().join("x-001"), line: line.clone() };
        fs::create_dir(&run.folder).unwrap();
        fs::write(run.folder.join("tuning.json"), "an earlier one").unwrap();
        let listed: HashMap<_, _> = [(line.clone(), vec![list_name(&line, "text")])].into();
        let puller = |lists: Store, listed| Puller {
            files: Store::open(home.path().join("place").to_str().unwrap()).unwrap(),
            there: HashSet::new(),
            lists,
            listed,
            read: HashMap::new(),
            done: PulledRecords::default(),
        };
        let mut failing = puller(refusing(), listed);
        let error = failing.take(&run, "tuning.json", &"b".repeat(64)).unwrap_err().to_string();
        assert!(error.contains("in s3://fleet/ledgers/runs failed"), "{error}");
        assert!(failing.done.left_out.is_empty());
        // Without a list of the run there, the file is the user's, and the store gets no request.
        let mut told = puller(refusing(), HashMap::new());
        told.take(&run, "tuning.json", &"b".repeat(64)).unwrap();
        assert!(told.done.left_out[0].1.contains("another file is in its place"), "{:?}", told.done);
    }

    #[test]
    fn the_longest_names_are_taken_and_longer_ones_keep_no_other_file_back() {
        let home = tempfile::tempdir().unwrap();
        let name = |length: usize| format!("{}.json", "a".repeat(length - ENDING.len()));
        let longest = home.path().join(name(LONGEST_NAME));
        assert!(is_plain(&name(LONGEST_NAME)) && keep(&longest, b"{}").is_ok());
        assert_eq!(fs::read(longest).unwrap(), b"{}");
        for path in [name(LONGEST_NAME + 1), format!("{}/a.json", "a".repeat(LONGEST_NAME + 1))] {
            assert!(matches!(keep(&home.path().join(path), b"{}"), Err(Refused::Alone(_))));
        }
    }
}
