//! A power cut: from what the broker's fsyncs have covered, the folder that it would have left.
//!
//! A disk may have more than was asked for. So chance decides how much of what was never flushed is there, whether zeros
//! stand in its place, and whether the names of files are the durable ones or those of the last moment.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::dice::Dice;

/// What the record of the fsyncs says.
#[derive(Default)]
struct Durable {
    /// Bytes of a file.
    files: HashMap<String, u64>,
    /// Names in a folder.
    folders: HashMap<String, Vec<(String, String)>>,
}

impl Durable {
    fn read(record: &Path) -> Self {
        let mut durable = Self::default();
        let mut looked = HashMap::new();
        // The last line may be cut short: that fsync had not returned to anyone.
        for line in fs::read_to_string(record.join("fsyncs")).unwrap().lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
            let at = line["at"].as_u64().unwrap();
            let id_of = line["file"].as_str().or(line["folder"].as_str()).unwrap();
            let before = looked.insert(id_of.to_owned(), at).unwrap_or(0);
            if before > at {
                // A thread that had looked earlier wrote its line later.
                looked.insert(id_of.to_owned(), before);
                continue;
            }
            if let Some(file) = line["file"].as_str() {
                durable.files.insert(file.to_owned(), line["bytes"].as_u64().unwrap());
            } else {
                let entries = line["entries"].as_object().unwrap().iter();
                let entries = entries.map(|(name, id)| (name.clone(), id.as_str().unwrap().to_owned()));
                durable.folders.insert(line["folder"].as_str().unwrap().to_owned(), entries.collect());
            }
        }
        durable
    }
}

/// As the broker names files in its record.
fn id(path: &Path) -> String {
    let found = fs::symlink_metadata(path).unwrap();
    let made = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{:x}-{:x}", found.ino(), made.as_nanos())
}

/// Makes the folder `to` from what a power cut would have left of `data`.
pub(crate) fn cut(data: &Path, record: &Path, to: &Path, dice: &mut Dice) {
    let durable = Durable::read(record);
    let cut = Cut { durable, record, last_names: dice.percent(40), tails: dice.percent(60) };
    cut.folder(Some(data), &id(data), to, dice);
}

struct Cut<'a> {
    durable: Durable,
    record: &'a Path,
    /// The file system had written its names down, whether it was asked to or not.
    last_names: bool,
    /// Some of the bytes that were never flushed are there.
    tails: bool,
}

impl Cut<'_> {
    fn folder(&self, now: Option<&Path>, id_of: &str, to: &Path, dice: &mut Dice) {
        fs::create_dir_all(to).unwrap();
        let entries = match now {
            Some(now) if self.last_names => names(now),
            _ => self.durable.folders.get(id_of).cloned().unwrap_or_default(),
        };
        for (name, id_of) in entries {
            let now = now.map(|now| now.join(&name)).filter(|now| now.exists() && id(now) == id_of);
            let (kept, to) = (self.record.join(&id_of), to.join(&name));
            match now {
                Some(now) if now.is_dir() => self.folder(Some(&now), &id_of, &to, dice),
                Some(now) => self.file(&now, &id_of, &to, dice),
                None if kept.exists() => self.file(&kept, &id_of, &to, dice),
                // A folder that has gone since, though nothing made that durable.
                None => self.folder(None, &id_of, &to, dice),
            }
        }
    }

    fn file(&self, from: &Path, id_of: &str, to: &Path, dice: &mut Dice) {
        let mut bytes = fs::read(from).unwrap();
        let durable = self.durable.files.get(id_of).copied().unwrap_or(0) as usize;
        if bytes.len() > durable {
            let more = bytes.len() - durable;
            let kept = if self.tails { dice.below(more as u64 + 1) as usize } else { 0 };
            let written = if dice.percent(30) { dice.below(kept as u64 + 1) as usize } else { kept };
            bytes.truncate(durable + kept);
            bytes[durable + written..].fill(0);
        }
        fs::write(to, bytes).unwrap();
    }
}

fn names(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().to_str().unwrap().to_owned(), id(&entry.path()))).collect()
}

/// Begins a record in which everything in a folder is durable: what the machine finds when it comes up again.
pub(crate) fn begin(data: &Path, record: &Path) {
    fs::create_dir_all(record).unwrap();
    let mut lines = String::new();
    note(data, record, &mut lines);
    fs::write(record.join("fsyncs"), lines).unwrap();
}

fn note(folder: &Path, record: &Path, lines: &mut String) {
    let mut entries = serde_json::Map::new();
    for (name, id_of) in names(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            note(&path, record, lines);
        } else {
            fs::hard_link(&path, record.join(&id_of)).unwrap();
            let bytes = fs::metadata(&path).unwrap().len();
            lines.push_str(&format!("{}\n", json!({"file": id_of, "bytes": bytes, "at": 0})));
        }
        entries.insert(name, id_of.into());
    }
    lines.push_str(&format!("{}\n", json!({"folder": id(folder), "entries": entries, "at": 0})));
}
