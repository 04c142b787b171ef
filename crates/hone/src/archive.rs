//! Record files of runs in the place where ledgers meet: each file by its content, and of each run a list of its files.
//!
//! Entries name the windows that count with their hashes. What a run concluded of them, and windows that do not count, they do not name; those
//! are in its list, so that its page and its story are the same elsewhere. Nothing there is ever replaced: a file has the name of its content,
//! and a list that of a run's first line, of its time and of its content. Nothing is replaced here but what a run had concluded when an earlier
//! list was pushed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use hone_binary::sha256_hex;
use hone_ledger::Line;
use hone_store::{Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cmd::report::RESULTS;
use crate::fleet::{not_interrupted, write_whole};
use crate::ledger::{RECORDS, Runs, hash_of, inside, pulled_name};
use crate::moment::now_unix_ms;
use crate::progress::Progress;
use crate::reader::{self, Caller};
use crate::story::DIAGNOSIS;

/// The folder of the place with the files.
const FILES: &str = "records";
/// The one with the lists.
const LISTS: &str = "runs";
const ENDING: &str = ".json";
/// Files in a list: a run has some hundred.
const MOST_LISTED: usize = 100_000;
/// Of a path in a run's folder.
const LONGEST_PATH: usize = 1_000;
/// What most file systems allow.
const LONGEST_NAME: usize = 255;

/// A run as the entries of a ledger have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ran {
    /// Its folder, where it was made.
    run: String,
    /// Hash of its first line, by which it is known.
    line: String,
    /// SHA-256 of its files, by their paths in the folder.
    files: BTreeMap<String, String>,
}

/// The files of a run that no entry names.
#[derive(Debug, Default, Serialize, Deserialize)]
struct List {
    run: String,
    files: BTreeMap<String, String>,
}

/// What came of pushing records.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PushedRecords {
    pub(crate) pushed: usize,
    pub(crate) pushed_bytes: u64,
    pub(crate) were_there: usize,
    /// Neither here nor there.
    pub(crate) gone: usize,
    /// Files that are not what they were, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

/// What came of pulling them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PulledRecords {
    pub(crate) folder: PathBuf,
    pub(crate) taken: usize,
    pub(crate) were_there: usize,
    /// No host has pushed them.
    pub(crate) gone: usize,
    /// Files that are broken, or that can't lie where they should, each with the reason.
    pub(crate) left_out: Vec<(String, String)>,
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a path, which is somebody else's text, is that of a file in a run's folder.
fn is_plain(path: &str) -> bool {
    path.len() <= LONGEST_PATH
        && path.ends_with(ENDING)
        && !path.chars().any(char::is_control)
        && path.split('/').all(|part| !part.is_empty() && part != "." && part.len() <= LONGEST_NAME)
        && inside(Path::new(""), path).is_some()
}

/// The runs of a ledger. Two machines may have a run of one name; where their files differ, they are two.
fn runs_of(lines: &[Line]) -> Vec<Ran> {
    let mut found: Vec<Ran> = Vec::new();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for line in lines.iter().filter(|line| !line.entry.run.is_empty()) {
        let entry = &line.entry;
        let same_name = by_name.entry(&entry.run).or_default();
        let fits = |at: &usize| {
            let files = &found[*at].files;
            entry.records.iter().all(|one| files.get(&one.path).is_none_or(|known| *known == one.sha256))
        };
        let at = same_name.iter().copied().find(fits).unwrap_or(found.len());
        if at == found.len() {
            same_name.push(at);
            found.push(Ran { run: entry.run.clone(), line: line.hash.clone(), files: BTreeMap::new() });
        }
        let records = entry.records.iter().map(|record| (record.path.clone(), record.sha256.clone()));
        found[at].files.extend(records);
    }
    found
}

/// The name of a file in the place.
fn object(sha256: &str) -> String {
    format!("{sha256}{ENDING}")
}

/// The name of a list: of which run, when it was pushed, and its content.
fn list_name(line: &str, text: &str) -> String {
    format!("{line}_{:013}_{}{ENDING}", now_unix_ms(), sha256_hex(text.as_bytes()))
}

/// Of which run a list is, and what its content's hash must be.
fn parse_list_name(name: &str) -> Option<(&str, &str)> {
    let (line, rest) = name.strip_suffix(ENDING)?.split_once('_')?;
    let (at, sha256) = rest.split_once('_')?;
    let is_time = at.len() == 13 && at.bytes().all(|byte| byte.is_ascii_digit());
    (is_sha256(line) && is_time && is_sha256(sha256)).then_some((line, sha256))
}

/// Pushes the files that a ledger's entries rest on, and what else the pages of their runs are made of; what is there already is not read.
///
/// # Errors
/// When the place refuses. What was pushed until then stays, and the same command goes on.
pub(crate) fn push(
    store: &Store,
    ledger: &Path,
    lines: &[Line],
    progress: &Progress,
) -> Result<PushedRecords> {
    let runs = Runs::of(ledger, lines.iter(), &Caller);
    let files = store.folder(FILES)?;
    let there = files.names()?.into_iter().collect();
    let mut pusher = Pusher { files, there, seen: HashSet::new(), done: PushedRecords::default() };
    for (at, line) in lines.iter().enumerate() {
        progress.doing(&format!("push records of entry {} of {}", at + 1, lines.len()));
        for record in &line.entry.records {
            let place = || runs.place_of(&line.entry, record, &Caller);
            pusher.push(&record.sha256, place, &format!("line {} rests on it", line.number))?;
        }
    }
    let lists = store.folder(LISTS)?;
    let known = by_line(lists.names()?);
    for ran in runs_of(lines) {
        progress.doing("push what runs have concluded");
        let list = List { run: ran.run.clone(), files: pusher.concluded(&ran, ledger, &runs)? };
        let text = serde_json::to_string_pretty(&list)? + "\n";
        let newest = known.get(&ran.line).and_then(|names| parse_list_name(names.last()?));
        let is_there = newest.is_some_and(|(_, sha256)| sha256 == sha256_hex(text.as_bytes()));
        if !list.files.is_empty() && !is_there {
            lists.put(&list_name(&ran.line, &text), text.into_bytes())?;
        }
    }
    Ok(pusher.done)
}

/// The names of each run's lists, the newest last, by the hash of its first line.
fn by_line(names: Vec<String>) -> HashMap<String, Vec<String>> {
    let mut found: HashMap<String, Vec<String>> = HashMap::new();
    // They come sorted, and so by their time.
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
    /// Hashes that were looked at.
    seen: HashSet<String>,
    done: PushedRecords,
}

impl Pusher {
    fn push(&mut self, sha256: &str, place: impl Fn() -> Option<PathBuf>, why: &str) -> Result<()> {
        not_interrupted()?;
        if !self.seen.insert(sha256.to_owned()) {
            return Ok(());
        }
        if self.there.contains(&object(sha256)) {
            self.done.were_there += 1;
            return Ok(());
        }
        let Some(place) = place() else {
            self.done.gone += 1;
            return Ok(());
        };
        let reason = match reader::bytes(&Caller, &place) {
            Ok(bytes) if sha256_hex(&bytes) == sha256 => return self.put(sha256, bytes),
            Ok(_) => format!("{why}, and it has another content now"),
            Err(error) => format!("{why}, and {error:#}"),
        };
        self.done.left_out.push((place.display().to_string(), reason));
        Ok(())
    }

    fn put(&mut self, sha256: &str, bytes: Vec<u8>) -> Result<()> {
        self.done.pushed += 1;
        self.done.pushed_bytes += bytes.len() as u64;
        self.there.insert(object(sha256));
        Ok(self.files.put(&object(sha256), bytes)?)
    }

    /// Pushes what no entry of a run names: its results, and the windows on which their pages rest beside those that count.
    fn concluded(&mut self, ran: &Ran, ledger: &Path, runs: &Runs) -> Result<BTreeMap<String, String>> {
        let mut files = BTreeMap::new();
        let Some(folder) = folder_of(ran, ledger, runs) else { return Ok(files) };
        let mut windows = BTreeSet::new();
        for name in RESULTS.into_iter().chain([DIAGNOSIS]) {
            let path = folder.join(name);
            if path.is_file() && !ran.files.contains_key(name) {
                let bytes = reader::bytes(&Caller, &path)?;
                if let Ok(result) = serde_json::from_slice(&bytes) {
                    windows_of(&result, &mut windows);
                }
                files.insert(name.to_owned(), self.keep(bytes)?);
            }
        }
        windows.retain(|name| is_plain(name) && !ran.files.contains_key(name));
        for name in windows {
            if let Some(path) = inside(&folder, &name).filter(|path| path.is_file()) {
                files.insert(name, self.keep(reader::bytes(&Caller, &path)?)?);
            }
        }
        Ok(files)
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

/// Where a run lies here: one that was pulled, or one of this machine that is it by what its files hold.
fn folder_of(ran: &Ran, ledger: &Path, runs: &Runs) -> Option<PathBuf> {
    let pulled = ledger.with_file_name(RECORDS).join(pulled_name(&ran.run, &ran.line));
    if pulled.is_dir() {
        return Some(pulled);
    }
    let is_it = |folder: &&Path| {
        let mut files = ran.files.iter().filter_map(|(name, sha256)| Some((inside(folder, name)?, sha256)));
        ran.files.is_empty() || files.any(|(path, sha256)| hash_of(&path).is_ok_and(|hash| hash == *sha256))
    };
    runs.folders_of(&ran.run).find(is_it).map(Path::to_owned)
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

/// Takes the files of the runs of these ledgers into a folder beside a ledger, and holds each against its hash.
///
/// # Errors
/// When the place refuses, or a file can't be written. What was taken until then stays, and the same command goes on.
pub(crate) fn pull(
    store: &Store,
    ledger: &Path,
    hosts: &[Vec<Line>],
    progress: &Progress,
) -> Result<PulledRecords> {
    let mut wanted: BTreeMap<String, Ran> = BTreeMap::new();
    for ran in hosts.iter().flat_map(|lines| runs_of(lines)) {
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
    let mut puller = Puller { files, there, lists, listed, done };
    let runs = wanted.len();
    for (at, ran) in wanted.into_values().enumerate() {
        let mut all = puller.list(&ran.line)?;
        // What entries name with its hash counts for more than a list.
        all.extend(ran.files);
        let run = PulledRun { folder: folder.join(pulled_name(&ran.run, &ran.line)), line: ran.line };
        let count = all.len();
        for (number, (path, sha256)) in all.into_iter().enumerate() {
            progress.doing(&format!("take record {} of {count}, run {} of {runs}", number + 1, at + 1));
            puller.take(&run, &path, &sha256)?;
        }
    }
    Ok(puller.done)
}

/// A run that is pulled.
struct PulledRun {
    folder: PathBuf,
    /// Hash of its first line.
    line: String,
}

struct Puller {
    files: Store,
    there: HashSet<String>,
    lists: Store,
    listed: HashMap<String, Vec<String>>,
    done: PulledRecords,
}

/// Why a file was not taken: something is wrong with it alone, or with the whole.
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

/// What became of a file that could be taken.
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

    fn took(&self, run: &PulledRun, path: &str, sha256: &str) -> Result<Took, Refused> {
        if !is_plain(path) || !is_sha256(sha256) {
            let what = "that is no path of a record in a run's folder, or it has no hash";
            return Err(Refused::Alone(what.to_owned()));
        }
        let file = run.folder.join(path);
        if fs::symlink_metadata(&file).is_ok() {
            let found = if file.is_file() { hash_of(&file).ok() } else { None };
            if found.as_deref() == Some(sha256) {
                return Ok(Took::WasThere);
            }
            if !found.is_some_and(|found| self.was_listed(run, path, &found)) {
                let other = "another file lies there, and is left alone; move it away, and pull again";
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
                "{name} in {} is not what was pushed: its SHA-256 is {found}; delete it there, and push it again from a host that has it",
                self.files.address()
            )));
        }
        keep(&file, &bytes)?;
        Ok(Took::New)
    }

    /// Whether a file is what its run had concluded when an earlier list was pushed.
    fn was_listed(&self, run: &PulledRun, path: &str, sha256: &str) -> bool {
        self.listed.get(&run.line).into_iter().flatten().any(|name| {
            let list = self.read_list(name).ok().and_then(Result::ok);
            list.is_some_and(|list| list.files.get(path).is_some_and(|listed| listed == sha256))
        })
    }

    /// The newest list of a run, each file of it by its path; none where there is none, or it is broken.
    fn list(&mut self, line: &str) -> Result<BTreeMap<String, String>> {
        not_interrupted()?;
        let Some(name) = self.listed.get(line).and_then(|names| names.last()) else {
            return Ok(BTreeMap::new());
        };
        self.read_list(name)?.map(|list| list.files).or_else(|why| {
            let name = format!("{name} in {}", self.lists.address());
            let why = format!("{why:#}; delete it there, and push again from the host of the run");
            self.done.left_out.push((name, why));
            Ok(BTreeMap::new())
        })
    }

    /// The inner error says what is wrong with this list alone.
    fn read_list(&self, name: &str) -> Result<Result<List>, StoreError> {
        let sha256 = parse_list_name(name).map(|(_, sha256)| sha256).unwrap_or_default();
        match self.lists.get(name) {
            Ok(Some(bytes)) => Ok(parse_list(&bytes, sha256)),
            Ok(None) => Ok(Err(anyhow!("it is no longer there"))),
            Err(error @ StoreError::TooLarge { .. }) => Ok(Err(error.into())),
            Err(error) => Err(error),
        }
    }
}

fn parse_list(bytes: &[u8], sha256: &str) -> Result<List> {
    let found = sha256_hex(bytes);
    if found != sha256 {
        bail!("it is not what was pushed: its SHA-256 is {found}");
    }
    let list: List =
        serde_json::from_slice(bytes).map_err(|error| anyhow!("it is no list of a run: {error}"))?;
    if list.files.len() > MOST_LISTED {
        bail!("it has {} files, and {MOST_LISTED} are the most", list.files.len());
    }
    Ok(list)
}

/// Writes a file of a run. Where one name is a file to one record and a folder to another, that is wrong with this one alone.
fn keep(file: &Path, bytes: &[u8]) -> Result<(), Refused> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                Refused::Alone("a file lies where its folder should be".to_owned())
            }
            _ => Refused::All(anyhow!(
                "{} can't be made: {error}\n  next: look at the rights there and the free space, or name another --output",
                folder.display()
            )),
        })?;
    }
    write_whole(file, bytes).map_err(Refused::All)
}

#[cfg(test)]
mod tests {
    use hone_record::{LedgerEntry, RecordRef, RecordRole};

    use super::*;

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
        let found = runs_of(&lines);
        let of = |at: usize| (found[at].line.clone(), found[at].files.len());
        assert_eq!(found.len(), 3);
        let hashes: Vec<String> = lines.iter().map(|line| line.hash.clone()).collect();
        assert_eq!(
            [of(0), of(1), of(2)],
            [(hashes[0].clone(), 2), (hashes[1].clone(), 0), (hashes[3].clone(), 2)]
        );
    }

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
}
